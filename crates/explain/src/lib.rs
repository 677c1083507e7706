//! What can be said of configurations without running them: where a request goes and why (`follow`), what a change from
//! one to another would do (`plan`), and which requests lie around the boundaries of one (`boundaries`). Pure: nothing
//! is opened, asked or applied. It fills the types of `api` and knows nothing of a process that runs; who has one adds
//! it with `add_running`.

mod boundaries;
mod follow;
mod plan;
mod titles;

pub use boundaries::{Boundaries, BoundaryRequest, boundaries};
pub use follow::{Question, add_running, explain};
pub use plan::plan;
pub use tidegate_geo::Geo;
pub use tidegate_tables::Maps;

/// What requests are looked up in, besides the configuration: rows of maps, and places of addresses.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub maps: &'a Maps,
    pub geo: &'a Geo,
}

impl Known<'_> {
    pub fn nothing() -> Known<'static> {
        Known { maps: Maps::none(), geo: Geo::none() }
    }
}
