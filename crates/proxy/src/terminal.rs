//! How a route ends, compiled: an answer that is here, or where one comes from, each with all that it needs.
//! Which route a request takes is found by `routing`; `request` carries out what stands here.

use crate::fastcgi::CompiledFastCgi;
use crate::files::Folder;
use std::collections::HashMap;
use tidegate_balancing::split::Shares;
use tidegate_exchange::ArmId;
use tidegate_middleware::redirect::Redirect;
use tidegate_middleware::respond::Respond;
use tidegate_middleware::{CompiledStep, CompiledTemplate, Refusal, Target, View};
use tidegate_model::{ArmEnd, PoolName, RouteRetry, Split, SplitArm, Template, Terminal};
use tidegate_wire::head::ResponseHead;

pub enum CompiledTerminal {
    Answer(FixedAnswer),
    Proxy(RouteUpstream),
    Split(Box<CompiledSplit>),
    Files(Box<Folder>),
    FastCgi(RouteUpstream, Box<CompiledFastCgi>),
    /// Behind the steps of a site, for requests that none of its routes takes: they are refused, with 404.
    NoRoute,
}

/// What a configuration says in full: `respond` and `redirect`.
pub enum FixedAnswer {
    Respond(Respond),
    Redirect(Redirect),
}

/// A pool that a route sends requests to.
pub struct RouteUpstream {
    /// Slot in `Snapshot::pools`.
    pub pool: usize,
    /// What the route says of sending requests again.
    pub retry: RouteRetry,
    /// Whether answers are translated to what clients see of a mounted application.
    pub rewrites_location: bool,
}

/// Which arm of a split is named.
pub struct NamedArm {
    pub name: CompiledTemplate,
    /// By their names.
    pub arms: HashMap<Box<[u8]>, usize>,
}

/// Several arms, and which of them takes a request.
pub struct CompiledSplit {
    /// In the order written.
    pub arms: Box<[CompiledArm]>,
    pub to: Option<NamedArm>,
    /// What clients stay together by; nothing: every request is drawn anew.
    pub by: Option<CompiledTemplate>,
    pub shares: Shares,
}

/// One part of the requests of a route.
pub struct CompiledArm {
    /// As logs, metrics and `to` call it.
    pub name: Box<str>,
    /// All steps of its requests, where it has some of its own: those of its site and its route, and these behind
    /// them.
    pub steps: Option<Box<[CompiledStep]>>,
    pub end: CompiledArmEnd,
}

pub enum CompiledArmEnd {
    Upstream(RouteUpstream),
    Answer(FixedAnswer),
}

/// Makes all steps of an arm, of those that are its own.
pub type StepsOfArm<'a> = dyn Fn(&SplitArm) -> Result<Box<[CompiledStep]>, String> + 'a;

impl CompiledTerminal {
    /// `slots` are those of the snapshot's pools. `Err` says what cannot be used.
    pub fn compile(
        terminal: &Terminal,
        slots: &HashMap<PoolName, usize>,
        steps_of_arm: &StepsOfArm<'_>,
    ) -> Result<CompiledTerminal, String> {
        Ok(match terminal {
            Terminal::Respond { status, body, content_type } => {
                CompiledTerminal::Answer(FixedAnswer::respond(*status, body, content_type.as_deref()))
            }
            Terminal::Redirect { to, status, prefix } => {
                CompiledTerminal::Answer(FixedAnswer::redirect(to, *status, prefix.as_deref()))
            }
            Terminal::Proxy { pool, retry, rewrites_location } => {
                CompiledTerminal::Proxy(RouteUpstream::new(pool, retry, slots)?.with_location(*rewrites_location))
            }
            Terminal::Split(split) => CompiledTerminal::Split(Box::new(CompiledSplit::new(split, slots, steps_of_arm)?)),
            Terminal::Files(files) => {
                let folder = Folder::open(files);
                let unusable = |error| format!("the folder {} cannot be served: {error}", files.root.display());
                CompiledTerminal::Files(Box::new(folder.map_err(unusable)?))
            }
            Terminal::FastCgi(fastcgi) => {
                let upstream = RouteUpstream::new(&fastcgi.pool, &fastcgi.retry, slots)?;
                let script = CompiledFastCgi::new(fastcgi);
                let unusable = |error| format!("the scripts in {} cannot answer: {error}", fastcgi.root.display());
                CompiledTerminal::FastCgi(upstream, Box::new(script.map_err(unusable)?))
            }
        })
    }

    /// The pool that requests go to; of a split, that of this arm.
    pub fn upstream(&self, arm: Option<ArmId>) -> Option<&RouteUpstream> {
        match self {
            CompiledTerminal::Proxy(upstream) | CompiledTerminal::FastCgi(upstream, _) => Some(upstream),
            CompiledTerminal::Split(split) => match &split.arm(arm?)?.end {
                CompiledArmEnd::Upstream(upstream) => Some(upstream),
                CompiledArmEnd::Answer(_) => None,
            },
            CompiledTerminal::Answer(_) | CompiledTerminal::Files(_) | CompiledTerminal::NoRoute => None,
        }
    }

    /// The arm of a split that a request has taken.
    pub fn arm(&self, arm: Option<ArmId>) -> Option<&CompiledArm> {
        match self {
            CompiledTerminal::Split(split) => split.arm(arm?),
            CompiledTerminal::Answer(_)
            | CompiledTerminal::Proxy(_)
            | CompiledTerminal::Files(_)
            | CompiledTerminal::FastCgi(..)
            | CompiledTerminal::NoRoute => None,
        }
    }

    /// Of a split, all steps of each arm that has some of its own.
    pub fn steps_of_arms(&self) -> impl Iterator<Item = &[CompiledStep]> {
        let arms = match self {
            CompiledTerminal::Split(split) => &split.arms[..],
            CompiledTerminal::Answer(_)
            | CompiledTerminal::Proxy(_)
            | CompiledTerminal::Files(_)
            | CompiledTerminal::FastCgi(..)
            | CompiledTerminal::NoRoute => &[],
        };
        arms.iter().filter_map(|arm| arm.steps.as_deref())
    }

    /// The folder of a route that takes only requests for which it has a file.
    pub fn goes_on(&self) -> Option<&Folder> {
        match self {
            CompiledTerminal::Files(folder) => Some(&**folder).filter(|folder| folder.goes_on()),
            CompiledTerminal::Answer(_)
            | CompiledTerminal::Proxy(_)
            | CompiledTerminal::Split(_)
            | CompiledTerminal::FastCgi(..)
            | CompiledTerminal::NoRoute => None,
        }
    }

    /// Whether answers of any of its pools are translated to what clients see.
    pub fn rewrites_location(&self) -> bool {
        match self {
            CompiledTerminal::Proxy(upstream) | CompiledTerminal::FastCgi(upstream, _) => upstream.rewrites_location,
            CompiledTerminal::Split(split) => split.arms.iter().any(CompiledArm::rewrites_location),
            CompiledTerminal::Answer(_) | CompiledTerminal::Files(_) | CompiledTerminal::NoRoute => false,
        }
    }

    /// Whether another program makes the answer, so that keeping it saves something. Files are in the kernel's cache
    /// already.
    pub fn asks_others(&self) -> bool {
        match self {
            CompiledTerminal::Proxy(_) | CompiledTerminal::Split(_) | CompiledTerminal::FastCgi(..) => true,
            CompiledTerminal::Answer(_) | CompiledTerminal::Files(_) | CompiledTerminal::NoRoute => false,
        }
    }
}

impl FixedAnswer {
    fn respond(status: u16, body: &Template, content_type: Option<&str>) -> FixedAnswer {
        FixedAnswer::Respond(Respond::new(status, body, content_type))
    }

    fn redirect(to: &Template, status: u16, prefix: Option<&str>) -> FixedAnswer {
        FixedAnswer::Redirect(Redirect::new(to, status).in_place_of(prefix))
    }

    /// Writes the answer into `head` and gives its body: the configured text itself, or `buffer` with the rendered one.
    pub fn write<'a>(&'a self, view: View<'_>, head: &mut ResponseHead, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Refusal> {
        match self {
            FixedAnswer::Respond(respond) => Ok(respond.answer(view, head, buffer)),
            FixedAnswer::Redirect(redirect) => redirect.answer(view, head, buffer),
        }
    }
}

impl RouteUpstream {
    pub fn new(pool: &PoolName, retry: &RouteRetry, slots: &HashMap<PoolName, usize>) -> Result<RouteUpstream, String> {
        let slot = *slots.get(pool).ok_or_else(|| format!("there is no pool {pool}"))?;
        Ok(RouteUpstream { pool: slot, retry: retry.clone(), rewrites_location: false })
    }

    fn with_location(self, rewrites_location: bool) -> RouteUpstream {
        RouteUpstream { rewrites_location, ..self }
    }
}

impl CompiledSplit {
    fn new(split: &Split, slots: &HashMap<PoolName, usize>, steps_of_arm: &StepsOfArm<'_>) -> Result<CompiledSplit, String> {
        let compile = |arm: &SplitArm| {
            let end = CompiledArmEnd::new(&arm.end, slots)?;
            let steps = (!arm.steps.is_empty()).then(|| steps_of_arm(arm)).transpose()?;
            Ok::<_, String>(CompiledArm { name: (&*arm.name()).into(), steps, end })
        };
        let arms = split.arms.iter().map(compile).collect::<Result<_, _>>()?;
        let shares = Shares::new(split.arms.iter().map(|arm| arm.weight)).ok_or("nothing in its split has a weight")?;
        let by = split.by.as_ref().map(|by| CompiledTemplate::new(by, Target::Text));
        let names = || split.arms.iter().enumerate().map(|(arm, known)| (known.name().as_bytes().into(), arm));
        let to = split.to.as_ref().map(|to| NamedArm { name: CompiledTemplate::new(to, Target::Text), arms: names().collect() });
        Ok(CompiledSplit { arms, to, by, shares })
    }

    fn arm(&self, id: ArmId) -> Option<&CompiledArm> {
        self.arms.get(id.position())
    }
}

impl CompiledArmEnd {
    fn new(end: &ArmEnd, slots: &HashMap<PoolName, usize>) -> Result<CompiledArmEnd, String> {
        Ok(match end {
            ArmEnd::Proxy { pool, retry, rewrites_location } => {
                CompiledArmEnd::Upstream(RouteUpstream::new(pool, retry, slots)?.with_location(*rewrites_location))
            }
            ArmEnd::Respond { status, body, content_type } => {
                CompiledArmEnd::Answer(FixedAnswer::respond(*status, body, content_type.as_deref()))
            }
            ArmEnd::Redirect { to, status, prefix } => {
                CompiledArmEnd::Answer(FixedAnswer::redirect(to, *status, prefix.as_deref()))
            }
        })
    }
}

impl CompiledArm {
    fn rewrites_location(&self) -> bool {
        matches!(&self.end, CompiledArmEnd::Upstream(upstream) if upstream.rewrites_location)
    }
}

#[cfg(test)]
mod tests {
    use super::{CompiledTerminal, FixedAnswer};
    use std::collections::HashMap;
    use tidegate_exchange::ArmId;
    use tidegate_model::{ArmEnd, PoolName, RouteRetry, Split, SplitArm, Template, Terminal};

    fn compile(terminal: &Terminal) -> Result<CompiledTerminal, String> {
        let (first, second) = (PoolName("first".into()), PoolName("second".into()));
        let no_steps = |_: &SplitArm| panic!("no arm has steps");
        CompiledTerminal::compile(terminal, &HashMap::from([(first, 3), (second, 5)]), &no_steps)
    }

    fn proxy(pool: &str) -> Terminal {
        Terminal::Proxy { pool: PoolName(pool.into()), retry: RouteRetry::OfPool, rewrites_location: false }
    }

    fn split(arms: &[(&str, u32)]) -> Terminal {
        let end = |pool: &str| match pool.parse() {
            Ok(status) => ArmEnd::Respond { status, body: Template::literal(""), content_type: None },
            Err(_) => ArmEnd::Proxy { pool: PoolName(pool.into()), retry: RouteRetry::OfPool, rewrites_location: false },
        };
        let arm = |(pool, weight): &(&str, u32)| SplitArm { name: None, weight: *weight, steps: Vec::new(), end: end(pool) };
        Terminal::Split(Split { arms: arms.iter().map(arm).collect(), to: None, by: None })
    }

    #[test]
    fn an_end_has_what_it_needs() {
        let slots = |terminal: &Terminal| {
            let compiled = compile(terminal).expect("compiles");
            let slots: Vec<usize> =
                (0..3).filter_map(|arm| compiled.upstream(ArmId::at(arm))).map(|upstream| upstream.pool).take(2).collect();
            (slots, compiled.asks_others())
        };
        assert_eq!(slots(&proxy("second")), (vec![5, 5], true), "an arm means nothing where there is one pool");
        assert_eq!(slots(&split(&[("second", 1), ("first", 2)])), (vec![5, 3], true));
        assert_eq!(slots(&split(&[("500", 1), ("first", 2)])), (vec![3], true), "who answers here asks no pool");
        let respond = Terminal::Respond { status: 200, body: Template::literal("x"), content_type: None };
        assert_eq!(slots(&respond), (vec![], false));
        assert!(matches!(compile(&respond), Ok(CompiledTerminal::Answer(FixedAnswer::Respond(_)))));
        let redirect = Terminal::Redirect { to: Template::literal("/x"), status: 302, prefix: None };
        assert!(matches!(compile(&redirect), Ok(CompiledTerminal::Answer(FixedAnswer::Redirect(_)))));
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let check = |terminal: &Terminal, expected: &str| assert_eq!(compile(terminal).err().as_deref(), Some(expected));
        check(&proxy("third"), "there is no pool third");
        check(&split(&[("first", 1), ("third", 1)]), "there is no pool third");
        check(&split(&[("first", 0)]), "nothing in its split has a weight");
    }
}
