//! Behaviour of the whole crate: files made with rcgen in temporary folders, and real handshakes in memory.
//! Cases that need nothing but one function stand beside that function.

mod check;
mod files;
mod handshakes;
mod internal_ca;
mod support;
mod upstream;
