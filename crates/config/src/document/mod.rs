//! The configuration as JSON objects, and changes of those objects written back into the files with everything else
//! left as it is. The form is that of `schema`. Whether a changed text still makes sense is not known here: whoever
//! changes it loads it again.

mod apply;
mod extent;
mod json;
mod nodes;
mod sync;
mod targets;
mod workspace;
mod write;

#[cfg(test)]
mod tests;

use crate::load::Loaded;
use crate::table::Place;
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub use apply::{apply_edits, read_target};
pub(crate) use json::has_steps;

/// The configuration as one JSON object that is valid by [`crate::schema()`] when it was loaded without an error.
///
/// Included files are part of it. `{env.X}` and `{file.X}` stand as they are written, and secrets are `"***"`.
pub fn to_json(loaded: &Loaded) -> Value {
    let nodes: Vec<_> = loaded.written.nodes.iter().map(|top| top.remembered.node()).collect();
    json::members(nodes.iter().map(AsRef::as_ref), Place::Top).into()
}

/// The text of a configuration, or of a part of it, in the layout of `fmt`: `{"drain": "5s"}` is one line.
///
/// Errors name the place by its JSON pointer, such as `/pool/0/server/1/weight`; all of them are given.
pub fn to_kdl(document: &Value) -> Result<String, Vec<EditError>> {
    let nodes = nodes::document(document)?;
    let mut out = String::new();
    for (index, node) in nodes.iter().enumerate() {
        // What has a block stands by itself.
        if index > 0 && (node.children.is_some() || nodes[index - 1].children.is_some()) {
            out.push('\n');
        }
        out.push_str(&write::node(node, &write::Layout::TOP));
        out.push('\n');
    }
    Ok(out)
}

/// What an edit is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The site that has this address, as it is written or as it is shown: `example.com`, `https://example.com`.
    Site {
        address: String,
    },
    /// By its position among the `route` lines of the site, from 0.
    Route {
        site: String,
        index: usize,
    },
    Pool {
        name: String,
    },
    /// Of a pool with a name. One written in place, in a `proxy`, is reached by the route.
    Server {
        pool: String,
        address: String,
    },
    Listener {
        address: String,
    },
    Tcp {
        address: String,
    },
    /// Rows that are changed without a new generation are no part of it.
    Map {
        name: String,
    },
    /// A place where metrics and the API are served.
    Admin {
        address: String,
    },
    /// By where its lines go: a path, `stdout`, `syslog:/dev/log`.
    AccessLog {
        target: String,
    },
    /// A directive that stands at the top level once: `drain`, `limits`, `log`.
    Top {
        directive: String,
    },
}

/// A list that can be made longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum List {
    Sites,
    /// Behind the last `route`; in front of a step that answers everything, when there is no route.
    Routes {
        site: String,
    },
    Pools,
    Servers {
        pool: String,
    },
    Listeners,
    Tcp,
    Maps,
    Admin,
    AccessLogs,
}

/// A change. The values are those of the target in the configuration's JSON: of a pool `{"name": "api", "server":
/// […]}`.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// The target is this from now on. One that is not there is made; a name or address that the value leaves out is
    /// the target's.
    Put(Target, Value),
    /// A JSON merge patch (RFC 7396) of the target: `null` removes a member, lists are replaced as a whole.
    Patch(Target, Value),
    Remove(Target),
    /// Adds an item to a list.
    Append(List, Value),
}

/// A file with its new text, to be written where it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// As it was given or included; the name, for a configuration that was not read from a file.
    pub path: PathBuf,
    pub text: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditFault {
    /// There is no such target.
    NotFound,
    /// Something of that name or address is there already.
    Taken,
    /// The value is not what belongs there.
    Invalid,
    /// The files are written in a way that the change cannot be put in, or they cannot be read.
    NotWritable,
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditError {
    pub fault: EditFault,
    /// The place in the value of the edit (RFC 6901); empty for the value as a whole.
    pub pointer: String,
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl EditError {
    fn new(fault: EditFault, message: impl Into<String>) -> EditError {
        EditError { fault, pointer: String::new(), message: message.into(), help: None }
    }

    fn help(mut self, help: impl Into<String>) -> EditError {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "at `{}`: ", self.pointer)?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for EditError {}
