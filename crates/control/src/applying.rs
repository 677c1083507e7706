//! What a change of the configuration is asked to be, and why there was none.

use crate::bind::BindFault;
use crate::fault::StartFault;
use crate::tag::Tag;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, Copy, Default)]
pub struct ApplyOptions {
    /// Taken back after this unless somebody confirms it.
    pub confirm_within: Option<Duration>,
    /// By how many percentage points, as a fraction, errors may rise until it is confirmed.
    pub rise_max: Option<f64>,
    /// Refused unless this runs.
    pub expected: Option<Tag>,
}

/// Why the configuration did not change.
#[derive(Debug)]
pub enum ChangeFault {
    /// Everything that is wrong with the text, rendered.
    Configuration(String),
    /// The configuration cannot run on this machine.
    Start(StartFault),
    /// Another change waits for its confirmation.
    AwaitsConfirmation {
        generation: u64,
    },
    /// Another generation runs than the one that was to be changed.
    Conflict {
        expected: Tag,
        running: Tag,
    },
    NoSuchGeneration(u64),
    /// A file was edited since it was applied, and a change through the API would overwrite that.
    FileChanged {
        file: String,
    },
    /// Something of that name is there already; a sentence.
    Taken(String),
    /// Something else needs what was to be removed; a sentence with a remedy.
    InUse(String),
    NothingToConfirm,
    /// What should be kept cannot be; a sentence.
    Storage(String),
    /// The process is about to end, or a successor takes over.
    Leaving,
    /// What was asked for does not exist; a sentence.
    NotFound(String),
    /// What was asked for makes no sense; a sentence with a remedy.
    Bad(String),
}

impl fmt::Display for ChangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeFault::Configuration(diagnostics) => f.write_str(diagnostics.trim_end()),
            ChangeFault::Start(fault) => fault.fmt(f),
            ChangeFault::AwaitsConfirmation { generation } => write!(
                f,
                "generation {generation} waits for its confirmation\n  help: `tidegate confirm` keeps it, `tidegate rollback` takes it back"
            ),
            ChangeFault::Conflict { expected, running } => write!(
                f,
                "the configuration has changed meanwhile: `{running}` runs, and not `{expected}`\n  help: read it again and repeat the change"
            ),
            ChangeFault::NoSuchGeneration(number) => {
                write!(f, "generation {number} is not known\n  help: `tidegate history` lists those that are")
            }
            ChangeFault::FileChanged { file } => write!(
                f,
                "{file} was edited since it was applied\n  help: apply it with `tidegate apply {file}`, or undo the edit; then repeat the change"
            ),
            ChangeFault::NothingToConfirm => f.write_str("no change waits for a confirmation"),
            ChangeFault::Leaving => f.write_str("the process is ending, or a successor takes over, and takes on no changes now"),
            ChangeFault::NotFound(what)
            | ChangeFault::Taken(what)
            | ChangeFault::InUse(what)
            | ChangeFault::Bad(what)
            | ChangeFault::Storage(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ChangeFault {}

impl From<StartFault> for ChangeFault {
    fn from(fault: StartFault) -> ChangeFault {
        ChangeFault::Start(fault)
    }
}

impl From<Vec<BindFault>> for ChangeFault {
    fn from(faults: Vec<BindFault>) -> ChangeFault {
        ChangeFault::Start(StartFault::Bind(faults))
    }
}
