//! Objects of a cluster as sites and pools: cases in files, properties that hold whatever the objects are, and how much
//! work a change is.

mod cases;
mod certificates;
mod config_maps;
mod document;
mod kdl;
mod manifests;
mod properties;
mod work;
