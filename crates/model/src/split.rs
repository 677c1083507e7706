//! `split`: which of several ways a request goes, each with its share, and what is done on each of them alone.

use crate::placeholder::Template;
use crate::pool::PoolName;
use crate::resilience::RouteRetry;
use crate::step::{Step, Terminal};
use std::borrow::Cow;

/// `split`: one of several arms takes a request, each its share of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The name of the arm that takes a request, whatever its weight. Where it names none of these, the others decide.
    pub to: Option<Template>,
    /// Requests with the same key go to the same arm. `None`, and a key that comes out empty: by chance.
    pub by: Option<Template>,
    /// In the order written, those that are plain in front of the others; at least one. Some weight is not zero.
    pub arms: Vec<SplitArm>,
}

impl Split {
    pub const ARMS_MAX: usize = 1024;

    /// Of each arm, its part of the requests in percent.
    pub fn percents(&self) -> impl Iterator<Item = (&SplitArm, f64)> {
        percents(&self.arms, |arm| arm.weight)
    }

    /// The pools that its arms hand requests to.
    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        self.arms.iter().filter_map(SplitArm::pool)
    }

    /// Whether answers of any of its pools are translated to what clients see.
    pub fn rewrites_location(&self) -> bool {
        self.arms.iter().any(|arm| matches!(arm.end, ArmEnd::Proxy { rewrites_location: true, .. }))
    }
}

/// Of each of several, its part of the whole in percent.
pub(crate) fn percents<T>(arms: &[T], weight: fn(&T) -> u32) -> impl Iterator<Item = (&T, f64)> {
    let total: u64 = arms.iter().map(|arm| u64::from(weight(arm))).sum();
    arms.iter().map(move |arm| (arm, f64::from(weight(arm)) * 100.0 / total.max(1) as f64))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitArm {
    /// What logs, metrics and `to` call it; `None`: as its pool, or its status.
    pub name: Option<String>,
    /// 0 to [`SplitArm::WEIGHT_MAX`]; 0 is nobody.
    pub weight: u32,
    /// What is done with its requests and their answers alone: changes of header fields and of the path, behind all
    /// steps of its route.
    pub steps: Vec<Step>,
    pub end: ArmEnd,
}

impl SplitArm {
    pub const WEIGHT_MAX: u32 = 1_000_000;
    pub const NAME_BYTES_MAX: usize = 64;

    /// What logs and metrics call it.
    pub fn name(&self) -> Cow<'_, str> {
        match (&self.name, &self.end) {
            (Some(name), _) => Cow::Borrowed(name),
            (None, ArmEnd::Proxy { pool, .. }) => Cow::Borrowed(&pool.0),
            (None, ArmEnd::Respond { status, .. } | ArmEnd::Redirect { status, .. }) => Cow::Owned(status.to_string()),
        }
    }

    /// Whether it is a pool and nothing else, which a `proxy` says in full.
    pub fn is_plain(&self) -> bool {
        self.name.is_none() && self.steps.is_empty() && self.pool().is_some()
    }

    /// The pool that its requests go to, if they go to one.
    pub fn pool(&self) -> Option<&PoolName> {
        match &self.end {
            ArmEnd::Proxy { pool, .. } => Some(pool),
            ArmEnd::Respond { .. } | ArmEnd::Redirect { .. } => None,
        }
    }
}

/// How an arm ends: as the end of a route of that name does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArmEnd {
    Proxy { pool: PoolName, retry: RouteRetry, rewrites_location: bool },
    Respond { status: u16, body: Template, content_type: Option<String> },
    Redirect { to: Template, status: u16, prefix: Option<String> },
}

impl ArmEnd {
    /// `None` for what no arm ends with.
    pub fn of(terminal: Terminal) -> Option<ArmEnd> {
        match terminal {
            Terminal::Proxy { pool, retry, rewrites_location } => Some(ArmEnd::Proxy { pool, retry, rewrites_location }),
            Terminal::Respond { status, body, content_type } => Some(ArmEnd::Respond { status, body, content_type }),
            Terminal::Redirect { to, status, prefix } => Some(ArmEnd::Redirect { to, status, prefix }),
            Terminal::Files(_) | Terminal::FastCgi(_) | Terminal::Split(_) => None,
        }
    }

    /// The end of a route that does the same.
    pub fn terminal(&self) -> Terminal {
        match self.clone() {
            ArmEnd::Proxy { pool, retry, rewrites_location } => Terminal::Proxy { pool, retry, rewrites_location },
            ArmEnd::Respond { status, body, content_type } => Terminal::Respond { status, body, content_type },
            ArmEnd::Redirect { to, status, prefix } => Terminal::Redirect { to, status, prefix },
        }
    }

    /// The text with placeholders, where it has one.
    pub fn template(&self) -> Option<&Template> {
        match self {
            ArmEnd::Respond { body, .. } => Some(body),
            ArmEnd::Redirect { to, .. } => Some(to),
            ArmEnd::Proxy { .. } => None,
        }
    }
}
