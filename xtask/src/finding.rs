//! What a rule found: where, which rule, and what to do about it.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Relative to the repository, with `/`.
    pub path: String,
    /// From 1; `None` concerns the whole file.
    pub line: Option<usize>,
    /// The rule's name, as the allow list writes it.
    pub rule: &'static str,
    pub message: String,
}

impl Finding {
    pub fn at(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Finding {
        Finding { path: path.into(), line: Some(line), rule, message: message.into() }
    }

    pub fn whole(path: &str, rule: &'static str, message: impl Into<String>) -> Finding {
        Finding { path: path.into(), line: None, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}: {}", self.path, self.rule, self.message),
            None => write!(f, "{}: {}: {}", self.path, self.rule, self.message),
        }
    }
}

/// Prints the findings in order of place. `Err` when there is one.
pub fn conclude(task: &str, mut findings: Vec<Finding>) -> Result<(), String> {
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err(format!("{task}: 1 finding")),
        count => Err(format!("{task}: {count} findings")),
    }
}
