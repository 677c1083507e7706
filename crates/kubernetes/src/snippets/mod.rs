//! Snippets of ingress-nginx as statements of a closed set: what stands in an annotation is read by the lexer of whole
//! files (`foreign`), each statement becomes one of `Statement` or is named as one that is not known (`reading`), and
//! what they come to for a request is worked out beforehand, as nginx would do it, as branches of conditions
//! (`branches`) whose steps are those of a route (`steps`). Nothing of a snippet is ever given to a template.

mod branches;
mod conditions;
mod maps;
mod reading;
mod steps;
mod table;
mod texts;

pub use branches::{Branch, BranchAnswer, BranchEnd, Fault, Ground, branches};
pub use maps::{asked_by, map_named};
pub use reading::{Read, Told, read};
pub use steps::{SnippetSteps, steps};
pub use table::SnippetPlace;
pub use texts::{Moment, template_of};

use conditions::Question;
use ipnet::IpNet;
use std::time::Duration;
use texts::Text;
use tidegate_model::StatusRange;

/// What stands in one annotation, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snippet {
    pub statements: Vec<PlacedStatement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedStatement {
    /// Counted from one.
    pub line: usize,
    /// The statement's name.
    pub word: &'static str,
    /// Whether the ConfigMap of ingress-nginx has it, for all Ingresses.
    pub is_of_all: bool,
    pub statement: Statement,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    AddHeader {
        name: String,
        value: Text,
        always: bool,
    },
    ChangeHeaders(AnswerChanges),
    HideHeader(String),
    SetRequestHeader {
        name: String,
        value: Text,
    },
    /// Before anybody is asked who that is. `None` takes the field out.
    ChangeInput(Vec<(String, Option<Text>)>),
    /// A field of the auth server's answer.
    AuthSet {
        variable: String,
        field: String,
    },
    Set {
        variable: String,
        value: Text,
    },
    Return {
        status: u16,
        text: Text,
    },
    Redirect {
        status: u16,
        to: Text,
    },
    Rewrite(Rewriting),
    Break,
    Access {
        allows: bool,
        networks: Vec<IpNet>,
    },
    If {
        question: Question,
        inside: Vec<PlacedStatement>,
    },
    ContentType(String),
    Setting(Setting),
}

/// `more_set_headers` and `more_clear_headers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerChanges {
    pub statuses: Vec<StatusRange>,
    pub types: Vec<String>,
    /// `None` takes the field out.
    pub changes: Vec<(String, Option<Text>)>,
}

/// A `rewrite` that changes the path, and ends what is done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewriting {
    /// Known to compile.
    pub pattern: String,
    /// How many things it finds.
    pub groups: usize,
    pub to: Text,
    pub end: RewritingEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewritingEnd {
    Break,
    /// The client is sent there.
    Redirect(u16),
}

/// What an annotation says as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    ConnectTimeout(Duration),
    ReadTimeout(Duration),
    SendTimeout(Duration),
    BodyMax(u64),
    ServerName(String),
}

impl PlacedStatement {
    /// Something of it cannot be had.
    fn fault(&self, is_of_server: bool, says: String) -> Fault {
        let says = if self.is_of_all { format!("of the ConfigMap, {says}") } else { says };
        Fault { is_of_server, line: self.line, word: self.word, says }
    }
}

/// A branch with its steps.
pub type Planned<'s> = (Branch<'s>, SnippetSteps);

/// What becomes of requests by both.
pub fn planned<'s>(server: &'s Snippet, location: &'s Snippet, ground: Ground<'_>) -> Result<Vec<Planned<'s>>, Fault> {
    let all = branches(server, location, ground)?;
    all.into_iter().map(|branch| steps(server, location, &branch, ground).map(|steps| (branch, steps))).collect()
}

impl Snippet {
    /// As one that the ConfigMap has for all Ingresses.
    pub fn of_all(mut self) -> Snippet {
        for placed in &mut self.statements {
            placed.is_of_all = true;
            if let Statement::If { inside, .. } = &mut placed.statement {
                for inner in inside {
                    inner.is_of_all = true;
                }
            }
        }
        self
    }

    /// With statements behind its own.
    pub fn followed_by(mut self, other: &Snippet) -> Snippet {
        self.statements.extend_from_slice(&other.statements);
        self
    }

    /// Takes out what stands on that line under that name. False: nothing does.
    pub fn leave_out(&mut self, line: usize, word: &str) -> bool {
        let before = self.clone();
        let stays = |placed: &PlacedStatement| placed.line != line || placed.word != word;
        self.statements.retain(stays);
        for placed in &mut self.statements {
            if let Statement::If { inside, .. } = &mut placed.statement {
                inside.retain(stays);
            }
        }
        *self != before
    }

    /// Settings of its servers, in the order written.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.statements.iter().filter_map(|placed| match &placed.statement {
            Statement::Setting(setting) => Some(setting),
            _ => None,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Whether a request may be answered by it.
    pub fn answers(&self) -> bool {
        self.has(&|statement| match statement {
            Statement::Return { .. } | Statement::Redirect { .. } => true,
            Statement::Rewrite(rewriting) => rewriting.end != RewritingEnd::Break,
            _ => false,
        })
    }

    /// Whether somebody may be kept out by it.
    pub fn keeps_out(&self) -> bool {
        self.answers() || self.has(&|statement| matches!(statement, Statement::Access { .. } | Statement::ChangeInput(_)))
    }

    fn has(&self, is_one: &dyn Fn(&Statement) -> bool) -> bool {
        let within = |statement: &Statement| match statement {
            Statement::If { inside, .. } => inside.iter().any(|inner| is_one(&inner.statement)),
            other => is_one(other),
        };
        self.statements.iter().any(|placed| within(&placed.statement))
    }
}

#[cfg(test)]
mod tests;
