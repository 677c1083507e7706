//! `fastcgi` from the client's side: against a real PHP-FPM, where this machine has one, and against servers that are slow, broken or hostile.

#[path = "fastcgi/client.rs"]
mod client;
#[path = "fastcgi/hostile.rs"]
mod hostile;
#[path = "fastcgi/php.rs"]
mod php;
#[path = "fastcgi/server.rs"]
mod server;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
