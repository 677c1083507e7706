//! `fastcgi` from the client's side: against a real PHP-FPM, where this machine has one, and against servers that are
//! slow, broken or hostile.

mod client;
mod hostile;
mod php;
mod pools;
mod server;
mod uploads;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
