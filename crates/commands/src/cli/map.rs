//! `tidegate map …` as clap reads it. All of them ask the running process through its admin endpoint.

use super::Running;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum MapCommand {
    /// The maps: how many rows each has and from where, how many were changed, and what is wrong with its file.
    List {
        #[command(flatten)]
        running: Running,
    },
    /// Rows of a map: those that were changed, and then the others in the order written.
    Rows {
        /// The map, as `tidegate map list` shows it.
        #[arg(value_name = "MAP")]
        map: String,
        /// Only those that were changed while it ran, with what the file has instead.
        #[arg(long)]
        changed: bool,
        /// At most so many.
        #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// So many are left out first.
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        from: usize,
        #[command(flatten)]
        running: Running,
    },
    /// One row of a map, by its key as it is written.
    Get {
        #[arg(value_name = "MAP")]
        map: String,
        #[arg(value_name = "KEY")]
        key: String,
        #[command(flatten)]
        running: Running,
    },
    /// Change a row of a map, or add one, above those of its file. It is kept in the storage until it is dropped.
    Set {
        #[arg(value_name = "MAP")]
        map: String,
        /// Exactly, or with `*` at the end or the start, `~` in front, or a network.
        #[arg(value_name = "KEY")]
        key: String,
        #[arg(value_name = "VALUE", required_unless_present = "absent")]
        value: Option<String>,
        /// The key is to have no row, whatever the file says.
        #[arg(long, conflicts_with = "value")]
        absent: bool,
        #[command(flatten)]
        running: Running,
    },
    /// Drop what was changed of a row: what the file has counts again.
    Drop {
        #[arg(value_name = "MAP")]
        map: String,
        #[arg(value_name = "KEY")]
        key: String,
        #[command(flatten)]
        running: Running,
    },
}
