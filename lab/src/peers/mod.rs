//! The proxies under test: where their programs are, the configuration each gets for a task, how it is changed and stopped.
//! Nothing here starts a peer or measures one. The configurations are templates in `lab/peers/<peer>/<flavour>/`, each with a note of what
//! is equal in it and what cannot be.

mod bounded;
mod commands;
mod control;
mod find;
mod http;
mod install;
mod kind;
mod render;
mod setup;
#[cfg(test)]
mod tests;
mod traefik;

pub use commands::{PeersOptions, Whereabouts, run};
pub use control::{Stop, graceful_stop, reconfigure, stop};
pub use find::{Search, default_cache, find};
pub use kind::{PeerKind, Program};
pub use render::{Rendered, check_command, render, variants};
pub use setup::{Codec, CodecLevels, Compression, Places, Setup, codecs, fastest_compression};
