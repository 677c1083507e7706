//! End-to-end cases: readable files that hold a configuration, scripted upstreams and clients, and what must come of
//! it. `text` → `parse` → `script` (what a case means) → `run` (doing it); `suite` runs a folder of them.

mod automatic;
mod flow;
mod frames;
mod http1;
mod http2;
mod neutral;
mod neutral_connection;
mod parse;
mod parse_command;
mod process;
mod run;
mod script;
mod suite;
mod text;
mod variants;
mod world;

pub use world::Places;

pub use suite::{check_syntax, coverage, run_folder};
pub use text::escape;

#[cfg(test)]
mod tests;
