//! What can be said of configurations without running them: where a request goes and why (`follow`), and what a change
//! from one to another would do (`plan`). Pure: nothing is opened, asked or applied. It fills the types of `api` and
//! knows nothing of a process that runs; who has one adds it with `add_running`.

mod follow;
mod plan;
mod titles;

pub use follow::{Question, add_running, explain};
pub use plan::plan;
pub use tidegate_tables::Maps;
