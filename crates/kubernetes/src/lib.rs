//! From objects of a cluster to sites and pools. One object at a time becomes a fragment for each of its hosts
//! (`ingress`, with what `annotations` say, and `ingress_nginx` for all of them), fragments of a host become its sites
//! (`merge`), Services become pools (`pool`) and Secrets pairs of certificates (`secret`). What depends on what is
//! known by `Translation`, where reading starts: news cost what they touch. Nothing here fails: what cannot be used is
//! left out and named by a `Finding`.
//! Pure: objects and `now` come in; it owns no socket, no clock, no thread and no log.

mod annotations;
mod canary;
mod check;
mod class;
mod clients;
mod config_map;
mod defaults;
mod file;
mod finding;
mod fragment;
mod global;
mod graph;
mod header_map;
mod ingress;
mod ingress_names;
mod ingress_nginx;
mod manner;
mod merge;
mod merged;
mod object_text;
mod pool;
mod pool_manner;
mod reference;
mod secret;
mod settings;
mod snippets;
mod tcp;
mod tcp_services;
mod translation;
mod trust;

pub use check::{Checked, CheckedAnnotation, CheckedConfig, CheckedIngress, Fate};
pub use finding::{Finding, FindingCode, ObjectReference, Severity};
pub use ingress_nginx::{ConfigKey, KEYS, ProcessChanges};
pub use merged::{Merged, ToTell};
pub use settings::{HostOwner, Obtains, Settings, UnknownSnippets};
pub use translation::{ObtainedSecret, Translation, Work};
