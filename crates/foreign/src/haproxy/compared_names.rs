//! How names of hosts are compared where a rule guards, and where it only chooses. A site is found by a name in any
//! case, with any port and a final dot, and HAProxy compares the field as it was sent; the name of a handshake is not
//! known to conditions of ours at all.

use super::actions::Action;
use super::conditions::{Condition, Test};
use super::fetches::{Comparison, HostTest};
use super::rules::Rule;
use std::collections::BTreeSet;

const OF_HANDSHAKE: &str = "it asks for the name of the handshake, which no condition here does: `host=` asks for the field that the client sends in each request";
const BY_FIELD: &str = "the name of the handshake is asked for there, and the host of the request here; one of another site than that of the \
                        handshake is answered with 421, and a client that names none in its handshake is served by its host";
const LOOSELY: &str = "names are compared in any case, with any port and with a final dot";

/// Which names a test may take more of, or fewer, without anything standing open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaning {
    /// Guards: whoever fits is kept out, or held up.
    More,
    /// Opens: whoever fits is let through.
    Fewer,
    /// Whoever fits goes elsewhere, and something stands guard there or here.
    Exact,
    /// Nothing hangs on it but where somebody goes.
    Free,
}

impl Leaning {
    fn of(rule: &Rule, guarded: &BTreeSet<String>) -> Leaning {
        match &rule.action {
            _ if guards(rule) => Leaning::More,
            Action::Allow => Leaning::Fewer,
            Action::Request(_) => Leaning::Exact,
            // Where one backend alone keeps somebody out, more may come to it, and no more to others.
            Action::Backend(name) if guarded.len() == 1 && guarded.contains(name) => Leaning::More,
            Action::Backend(_) if !guarded.is_empty() => Leaning::Exact,
            Action::Answer(..)
            | Action::Backend(_)
            | Action::LogIn(_)
            | Action::Response(_)
            | Action::Guard(_)
            | Action::Variable(..)
            | Action::Nothing
            | Action::Unknown(_) => Leaning::Free,
        }
    }

    fn turned(self) -> Leaning {
        match self {
            Leaning::More => Leaning::Fewer,
            Leaning::Fewer => Leaning::More,
            Leaning::Exact => Leaning::Exact,
            Leaning::Free => Leaning::Free,
        }
    }
}

/// Whether a rule keeps somebody out.
pub fn guards(rule: &Rule) -> bool {
    match &rule.action {
        Action::Answer(answer, _) => answer.is_refusal(),
        Action::Guard(step) => !step.starts_with("rewrite ") && step != "cache",
        Action::LogIn(_) => true,
        Action::Unknown(_) => rule.field.is_none() && !rule.changes_path,
        Action::Allow
        | Action::Backend(_)
        | Action::Request(_)
        | Action::Response(_)
        | Action::Variable(..)
        | Action::Nothing => false,
    }
}

/// Has rules compare names as they have to, where these backends keep somebody out.
pub fn settle(rules: &mut [Rule], guarded: &BTreeSet<String>) {
    for rule in rules {
        let condition = compared(&rule.condition, Leaning::of(rule, guarded));
        if let Some(how) = differs(&condition) {
            rule.differs = Some(rule.differs.take().map_or(how.to_owned(), |before| format!("{before}; {how}")));
        }
        rule.condition = condition;
    }
}

fn compared(condition: &Condition, leaning: Leaning) -> Condition {
    match condition {
        Condition::Test(Test::Host(host)) => name(host, leaning, Test::Host),
        Condition::Test(Test::Sni(host)) => name(host, leaning, Test::Sni),
        Condition::Not(inner) => compared(inner, leaning.turned()).negated(),
        Condition::All(of) => Condition::all(of.iter().map(|one| compared(one, leaning)).collect()),
        Condition::Any(of) => Condition::any(of.iter().map(|one| compared(one, leaning)).collect()),
        Condition::True | Condition::False | Condition::Test(_) => condition.clone(),
    }
}

fn name(host: &HostTest, leaning: Leaning, test: fn(HostTest) -> Test) -> Condition {
    if host.is_of_handshake && leaning != Leaning::Free {
        return Condition::Test(Test::Unknown(OF_HANDSHAKE.to_owned()));
    }
    let is_as_sent = matches!(leaning, Leaning::Fewer | Leaning::Exact) && host.comparison != Comparison::Found;
    Condition::Test(test(HostTest { is_as_sent, ..host.clone() }))
}

fn differs(condition: &Condition) -> Option<&'static str> {
    let of = |test: &Test| match test {
        Test::Host(host) | Test::Sni(host) if host.is_of_handshake => Some(BY_FIELD),
        Test::Host(host) | Test::Sni(host) => (!host.is_as_sent && !host.is_case_blind).then_some(LOOSELY),
        Test::Written(_)
        | Test::Loose { .. }
        | Test::Path(_)
        | Test::Source(_)
        | Test::OverTls
        | Test::Port(_)
        | Test::Login(..)
        | Test::Rate(_)
        | Test::BodyBeyond(_)
        | Test::Status(_)
        | Test::Unknown(_) => None,
    };
    condition.tests().into_iter().find_map(of)
}
