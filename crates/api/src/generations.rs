//! The configurations that ran. Their texts may hold secrets and are not given out.

use crate::Plan;
use crate::schema::objects;
use jiff::Timestamp;

objects! {
    /// The configurations that ran, the newest last.
    pub struct Generations {
        /// The number of the one that runs.
        pub running: u64,
        /// What a roll-back goes to when nothing else is said: the one before, and after a roll-back the one before
        /// that which was gone back to.
        pub previous: Option<u64>,
        pub generations: Vec<Generation>,
    }

    /// A configuration that ran.
    pub struct Generation {
        pub number: u64,
        pub applied: Timestamp,
        /// What it came by.
        pub origin: String,
        /// What it changed, in one line.
        pub summary: String,
        pub running: bool,
        /// The main file first.
        pub files: Vec<GenerationFile>,
    }

    /// A file that a configuration was read from.
    pub struct GenerationFile {
        pub name: String,
        pub bytes: usize,
    }

    /// What is different between two generations.
    pub struct Difference {
        pub from: u64,
        pub to: u64,
        pub plan: Plan,
    }
}
