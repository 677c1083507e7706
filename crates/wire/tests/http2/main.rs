//! A connection of HTTP/2 as its peer sees it: bytes in, bytes out. What is not allowed and what becomes of it, floods
//! and their bounds, input in any pieces, and other implementations for comparison. Two ends of ours with each other
//! are beside the code, in `connection::simulation`.

mod against_h2;
mod against_python;
mod bad_input;
mod floods;
mod frames;
mod peer;
mod splits;
