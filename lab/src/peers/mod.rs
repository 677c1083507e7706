//! The proxies under test: where their programs are, the configuration each gets for a task, how it is changed and
//! stopped. Nothing here starts a peer or measures one. The configurations are templates in
//! `lab/peers/<peer>/<flavour>/`, each with a note of what is equal in it and what cannot be.

mod bounded;
mod check;
mod commands;
mod control;
mod find;
mod http;
mod install;
mod kind;
mod modules;
mod render;
mod setup;
mod steps;
#[cfg(test)]
mod tests;
mod traefik;

pub use commands::{PeersOptions, Whereabouts, run};
pub use control::{order_change, reconfigure, stop};
pub use find::Search;
pub use kind::{PeerKind, PeerName, Program, name_with, parse_driver};
pub use modules::missing_module;
pub use render::{Rendered, render, variants};
pub use setup::{
    Certificates, Codec, Compression, Content, Places, Setup, Sites, Source, codecs, fastest_compression, lacks,
    takes_certificates,
};
pub use steps::elapsed;
