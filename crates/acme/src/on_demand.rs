//! Certificates for names that nobody wrote: which of them may have one. A name comes from whoever connects, so
//! everything here is bounded: what is asked, remembered and begun. The engine orders what is allowed as it orders any
//! other.

use crate::cause::{Blame, Cause, one_line};
use crate::interface::Refusal;
use crate::shared::Shared;
use crate::subject::Subject;
use bytes::Bytes;
use http::Request;
use jiff::{SignedDuration, Timestamp};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tidegate_model::OnDemand;
use tidegate_outbound::Limits;

/// Names that are in use at the same time; with more, the least that somebody should do is to write a wildcard.
pub const NAMES_MAX: usize = 50_000;
/// Names that are looked for in storage, so that those that have a certificate get it whoever else is at the door.
pub const LOOKUPS_MAX: usize = 1_024;
/// Names that are being asked for; a flood of new ones is refused, not queued.
pub const ASKS_AT_A_TIME: usize = 64;
/// Who is asked answers from a table of its own, and a handshake waits.
const ASK_MAX: Duration = Duration::from_secs(5);
const ASK_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long an answer holds. A minute, since the one who said no may say yes as soon as a customer has paid.
const ANSWER_KEPT: SignedDuration = SignedDuration::from_secs(60);
const ANSWERS_MAX: usize = 10_000;

/// A name that may be asked for: what is not one never reaches `ask`, storage or a CA.
pub fn askable(name: &str) -> Result<Subject, Refusal> {
    match Subject::parse(name) {
        Ok(Subject::Host(host)) if host.contains('.') => Ok(Subject::Host(host)),
        Ok(Subject::Host(_)) => Err(Refusal::NotAName("the name has no dot")),
        Ok(Subject::Wildcard(_)) => Err(Refusal::NotAName("the name is a wildcard")),
        Ok(Subject::Ip(_)) => Err(Refusal::NotAName("the name is an address")),
        Err(problem) => Err(Refusal::NotAName(problem.0)),
    }
}

/// Why a name gets no certificate at the moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Denied {
    /// Who was asked has said no.
    Refused(String),
    /// Nobody said anything: what is there goes on being used, and it is asked again soon.
    Unanswered(Cause),
    /// Too many are being asked for.
    Busy,
}

impl Denied {
    fn unanswered(text: String) -> Denied {
        let remedy = "see that the server of `ask` of `on-demand` answers, with 200 for names that may have a certificate";
        Denied::Unanswered(Cause::new(Blame::Preflight, one_line(&text), remedy))
    }
}

/// Asks whether a name may have a certificate: any answer of 2xx allows it, any other but 5xx refuses it.
pub async fn ask(shared: &Shared, subject: &Subject, settings: &OnDemand) -> Result<(), Denied> {
    let separator = if settings.ask.contains('?') { '&' } else { '?' };
    // The name is a host name, which has no character that a URL does not.
    let url = format!("{}{separator}domain={subject}", settings.ask);
    let request = Request::get(&url).body(Bytes::new()).map_err(|_| Denied::unanswered("the URL of `ask` is none".into()))?;
    let client = shared.contacts.system_client().map_err(|fault| Denied::unanswered(fault.to_string()))?;
    let limits = Limits { total: ASK_MAX, body_bytes_max: ASK_ANSWER_BYTES_MAX };
    match client.send(request, limits).await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) if answer.status().is_server_error() => Err(Denied::unanswered(format!("`ask` answers {}", answer.status()))),
        Ok(answer) => Err(Denied::Refused(format!("`ask` answers {}", answer.status()))),
        Err(fault) => Err(Denied::unanswered(format!("the server of `ask` {fault}"))),
    }
}

#[derive(Debug)]
struct EndpointAnswer {
    at: Timestamp,
    /// Who gave it: a changed `ask` is not bound by what the one before it has said.
    ask: String,
    outcome: Result<(), String>,
}

/// What was answered a moment ago, and how many names were begun in the last hour.
#[derive(Debug, Default)]
pub struct Gate {
    answers: HashMap<Subject, EndpointAnswer>,
    order: VecDeque<Subject>,
    begun: VecDeque<Timestamp>,
}

impl Gate {
    /// The answer of `ask` about a name, if it was given a moment ago.
    pub fn remembered(&self, subject: &Subject, ask: &str, now: Timestamp) -> Option<Result<(), String>> {
        let answer = self.answers.get(subject).filter(|answer| answer.ask == ask)?;
        let age = now.duration_since(answer.at);
        (age < ANSWER_KEPT && age >= SignedDuration::ZERO).then(|| answer.outcome.clone())
    }

    pub fn remember(&mut self, subject: &Subject, ask: &str, outcome: Result<(), String>, now: Timestamp) {
        let answer = EndpointAnswer { at: now, ask: ask.to_owned(), outcome };
        if self.answers.insert(subject.clone(), answer).is_none() {
            self.order.push_back(subject.clone());
        }
        while self.order.len() > ANSWERS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.answers.remove(&oldest);
            }
        }
    }

    /// Takes one of the places of the hour, if there is one left.
    pub fn begin(&mut self, names_per_hour: u32, now: Timestamp) -> Result<(), Refusal> {
        let oldest = now.checked_sub(SignedDuration::from_hours(1)).unwrap_or(Timestamp::MIN);
        while self.begun.front().is_some_and(|at| *at <= oldest) {
            self.begun.pop_front();
        }
        if self.begun.len() >= names_per_hour as usize {
            return Err(Refusal::TooMany);
        }
        self.begun.push_back(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWERS_MAX, Gate, askable};
    use crate::interface::Refusal;
    use crate::subject::Subject;
    use jiff::{SignedDuration, Timestamp};

    #[test]
    fn what_is_no_host_name_is_asked_of_nobody() {
        fn check(name: &str, is_askable: bool) {
            assert_eq!(askable(name).is_ok(), is_askable, "{name}");
        }
        check("shop.example.com", true);
        check("Shop.Example.COM", true);
        check("localhost", false);
        check("192.0.2.1", false);
        check("[2001:db8::1]", false);
        check("*.example.com", false);
        check("a.example.com&domain=b.example.com", false);
        check("a.example.com/../x", false);
        check("a.example.com\r\nHost: b", false);
        check(&format!("{}.com", "a.".repeat(200)), false);
        check("", false);
        check("..", false);
    }

    #[test]
    fn names_of_an_hour_are_counted_and_answers_hold_for_a_minute() {
        let start: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let at = |secs: i64| start.checked_add(SignedDuration::from_secs(secs)).unwrap();
        let mut gate = Gate::default();
        assert_eq!(gate.begin(2, at(0)), Ok(()));
        assert_eq!(gate.begin(2, at(10)), Ok(()));
        assert_eq!(gate.begin(2, at(20)), Err(Refusal::TooMany));
        assert_eq!(gate.begin(2, at(3600)), Ok(()));
        assert_eq!(gate.begin(2, at(3605)), Err(Refusal::TooMany));
        let name = Subject::parse("a.example").unwrap();
        gate.remember(&name, "ask", Err("no".into()), at(0));
        assert_eq!(gate.remembered(&name, "ask", at(59)), Some(Err("no".into())));
        assert_eq!(gate.remembered(&name, "another", at(59)), None);
        assert_eq!(gate.remembered(&name, "ask", at(60)), None);
        for index in 0..ANSWERS_MAX + 5 {
            gate.remember(&Subject::Host(format!("n{index}.example")), "ask", Ok(()), at(0));
        }
        assert_eq!(gate.answers.len(), ANSWERS_MAX);
        assert_eq!(gate.order.len(), ANSWERS_MAX);
    }
}
