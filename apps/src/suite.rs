//! The applications: how each is installed, the configuration it is put behind, and what a person does with it.

mod acme;
mod authelia;
mod dex;
mod ext_authz;
mod git;
mod grpc;
mod jupyter;
mod next;
mod node_red;
mod oauth2_proxy;
mod prometheus;
mod registry;
mod sticky;
mod tinyauth;
mod vite;
mod vouch;
mod wordpress;

use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::Stage;

/// An application, and what there is to do with it.
pub struct Application {
    /// As it is named at the command line.
    pub name: &'static str,
    /// What it is, with versions.
    pub title: &'static str,
    /// What is done with it.
    pub story: &'static str,
    /// What the manual shows.
    pub configuration: Configuration,
    /// A program that no registry has, and that has to be on the `PATH`.
    pub program: Option<&'static str>,
    pub install: fn(&Cache) -> Result<(), String>,
    pub act: fn(&Stage<'_>) -> Result<(), String>,
}

pub static APPLICATIONS: &[Application] = &[
    wordpress::WORDPRESS,
    jupyter::JUPYTER,
    vite::VITE,
    next::NEXT,
    node_red::NODE_RED,
    prometheus::PROMETHEUS,
    grpc::GRPC,
    registry::REGISTRY,
    git::GIT,
    acme::ACME,
    sticky::STICKY,
    oauth2_proxy::OAUTH2_PROXY,
    dex::DEX,
    authelia::AUTHELIA,
    tinyauth::TINYAUTH,
    vouch::VOUCH,
    ext_authz::EXT_AUTHZ,
];
