//! The real program between scripted clients and scripted servers, a module for each subject: what a case of
//! `tests/cases` cannot say. Tests beside programs of others are in `others`, those that need the machine for
//! themselves in `load`.

mod admin;
mod bad_certificates;
mod basic_auth;
mod cache;
mod checked_machine;
mod compare;
mod compress;
mod containers;
mod decision;
mod descriptors;
mod driver;
mod early_data;
mod exhausted;
mod fastcgi;
mod files;
mod followed_log;
mod import;
mod keep_alive;
mod kubernetes;
mod maps;
mod no_threads;
mod oidc;
mod pools;
mod refused;
mod shared_port;
mod systemd;
mod tickets;
mod untaken;
