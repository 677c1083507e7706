//! Behaviour of the whole crate: files made with rcgen in temporary folders, and real handshakes in memory.
//! Cases that need nothing but one function stand beside that function.

mod check;
mod client_trust;
mod files;
mod handshakes;
mod internal_ca;
mod obtained;
mod staple;
mod support;
mod upstream;
