//! Where a `log` of Caddy writes.

use super::placeholders::fixed;
use crate::braces::{Statement, named};

/// Where the lines of a `log` go.
pub enum LogTarget<'s> {
    Stdout,
    Stderr,
    Nowhere,
    Network,
    /// With what is said of when it is renamed.
    File(String, &'s [Statement]),
}

/// `None` where it is another one.
pub fn target(log: &Statement) -> Option<LogTarget<'_>> {
    let Some(output) = named(log.inside(), "output").next() else { return Some(LogTarget::Stdout) };
    match (output.argument(), output.arguments().get(1)) {
        ("stdout", _) => Some(LogTarget::Stdout),
        ("stderr", _) => Some(LogTarget::Stderr),
        ("discard", _) => Some(LogTarget::Nowhere),
        ("net", _) => Some(LogTarget::Network),
        ("file", Some(file)) => Some(LogTarget::File(fixed(file)?, output.inside())),
        _ => None,
    }
}
