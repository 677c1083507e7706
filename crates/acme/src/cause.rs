//! Why there is no certificate, and what to do about it, in one line each: pure functions from what CAs and transports
//! say. Findings of our own, before an order, word theirs in `preflight`. What follows from a cause is decided in
//! `decide`.

use jiff::{SignedDuration, Timestamp};
use std::fmt;
use tidegate_model::AcmeChallenge;

/// What others say is quoted up to here; the whole of it may be a page.
const QUOTED_CHARS_MAX: usize = 240;

/// One line for people, and who has to act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    pub text: String,
    pub remedy: String,
    pub blame: Blame,
}

/// Whose fault it is; what happens next hangs on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// DNS, ports, settings: whoever runs this. The CA has counted a failure.
    Setup,
    /// A fault of whoever asks, found before the CA was asked; nothing of it counts there.
    Preflight,
    /// The CA itself, or the way to it.
    Authority,
    /// This CA has not what the settings ask of it, and another one may. It has counted nothing.
    Unfit,
    /// The CA has had enough of us until then.
    Limited { until: Option<Timestamp> },
    /// What is ordered could not be kept.
    Storage,
    /// Our clock, without which no date means anything.
    Clock,
    /// We are being stopped; nothing failed.
    Stopping,
}

impl Cause {
    pub fn new(blame: Blame, text: impl Into<String>, remedy: impl Into<String>) -> Cause {
        Cause { text: text.into(), remedy: remedy.into(), blame }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.text, self.remedy)
    }
}

/// What a CA said, freed from the library's types.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// The last part of `urn:ietf:params:acme:error:…`; empty without one.
    pub kind: String,
    pub detail: String,
    pub status: Option<u16>,
}

impl From<&instant_acme::Problem> for Said {
    fn from(problem: &instant_acme::Problem) -> Said {
        let kind = |urn: &Option<String>| urn.as_deref().and_then(|urn| urn.rsplit(':').next()).unwrap_or_default().to_owned();
        // RFC 8555 section 6.7.1: a compound problem says by its parts what it is. We order one name at a time, so the
        // first is all.
        match problem.subproblems.first() {
            Some(part) => Said {
                kind: kind(&part.r#type),
                detail: one_line(part.detail.as_deref().or(problem.detail.as_deref()).unwrap_or_default()),
                status: problem.status,
            },
            None => Said {
                kind: kind(&problem.r#type),
                detail: one_line(problem.detail.as_deref().unwrap_or_default()),
                status: problem.status,
            },
        }
    }
}

/// Where something was said.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The name of the certificate.
    pub name: &'a str,
    /// The CA as the configuration calls it.
    pub authority: &'a str,
    /// The challenge that it was about, if it was.
    pub challenge: Option<AcmeChallenge>,
    /// From the answer's header.
    pub retry_after: Option<Timestamp>,
}

/// A problem document of the CA (RFC 8555 section 6.7) as a cause.
pub fn said_by_authority(said: &Said, context: Context<'_>) -> Cause {
    let Context { name, authority, challenge, retry_after } = context;
    let detail = &said.detail;
    let setup = |text: String, remedy: String| Cause::new(Blame::Setup, text, remedy);
    match said.kind.as_str() {
        "rateLimited" => {
            let until = retry_after.into_iter().chain(time_in(detail)).max();
            let when = until.map_or_else(|| "later".to_owned(), |until| format!("after {}", minute(until)));
            let remedy = format!("asked again {when} by itself; a second `ca` in `acme` is used meanwhile");
            Cause::new(Blame::Limited { until }, format!("{authority} limits us: {detail}"), remedy)
        }
        "caa" => setup(
            format!("the CAA records of {name} do not allow {authority}: {detail}"),
            format!("add the CA to the CAA records of {name} or of a domain above it, or choose a CA that they name"),
        ),
        "dns" => setup(
            format!("{authority} could not look up {name}: {detail}"),
            "check the zone at a public resolver: the name, its DNSSEC signatures, and that all of its servers answer".into(),
        ),
        "connection" => setup(format!("{authority} could not reach {name}: {detail}"), reach_remedy(challenge)),
        "unauthorized" | "incorrectResponse" => {
            setup(format!("{authority} got another answer from {name} than ours: {detail}"), answer_remedy(challenge))
        }
        "tls" => setup(
            format!("{authority} could not finish a TLS handshake with {name}: {detail}"),
            "port 443 must reach this process without another TLS endpoint (CDN, load balancer) before it, or use `challenges \"http-01\"`"
                .into(),
        ),
        "rejectedIdentifier" | "unsupportedIdentifier" => setup(
            format!("{authority} issues no certificate for {name}: {detail}"),
            "choose another CA, or `tls \"internal\"` for names that no public CA knows".into(),
        ),
        "externalAccountRequired" => setup(
            format!("{authority} wants an external account: {detail}"),
            "give `eab-key-id=` and `eab-hmac=` behind `ca`, with what the CA's site shows".into(),
        ),
        "invalidContact" | "unsupportedContact" => setup(
            format!("{authority} refuses the address of `email`: {detail}"),
            "give another `email` in `acme`, or none".into(),
        ),
        "userActionRequired" => setup(
            format!("{authority} wants something done by hand: {detail}"),
            "open the address that it names, then `tidegate cert renew`".into(),
        ),
        "invalidProfile" => Cause::new(
            Blame::Unfit,
            format!("{authority} refuses the profile: {detail}"),
            "choose another `profile` of those that the CA's directory lists, or leave it out",
        ),
        "badCSR" | "badPublicKey" => {
            setup(format!("{authority} refuses the key: {detail}"), "choose another `key-type` in `acme`".into())
        }
        "badNonce" => Cause::new(
            Blame::Authority,
            format!("{authority} refuses one nonce after the other"),
            "tried again by itself; a proxy between here and the CA may answer in its place",
        ),
        "accountDoesNotExist" => Cause::new(
            Blame::Authority,
            format!("{authority} has forgotten our account"),
            "a new one is made with the next attempt",
        ),
        _ => anything_else(said, context),
    }
}

/// What no rule is for: by its status it is the CA's fault or ours.
fn anything_else(said: &Said, Context { authority, retry_after, .. }: Context<'_>) -> Cause {
    let is_theirs = said.status.is_none_or(|status| status >= 500) || said.kind == "serverInternal";
    // Some CAs have no word of their own for it.
    let is_of_dns = ["resolve", "DNS", "NXDOMAIN", "SERVFAIL"].iter().any(|word| said.detail.contains(word));
    let remedy = if is_of_dns {
        "check the name's records at a public resolver, and that all servers of its zone answer"
    } else {
        "tried again by itself; see the CA's status page if it goes on"
    };
    let what = if said.detail.is_empty() { "no reason given" } else { &said.detail };
    let kind = if said.kind.is_empty() { String::new() } else { format!(" ({})", one_line(&said.kind)) };
    let blame = match (is_theirs, retry_after) {
        (true, Some(until)) => Blame::Limited { until: Some(until) },
        (true, None) => Blame::Authority,
        (false, _) => Blame::Setup,
    };
    Cause::new(blame, format!("{authority} refuses{kind}: {what}"), remedy)
}

/// Whether another kind of challenge could succeed where this one failed.
pub fn another_challenge_could_mend(said: &Said) -> bool {
    matches!(said.kind.as_str(), "connection" | "unauthorized" | "incorrectResponse" | "tls" | "dns")
}

fn reach_remedy(challenge: Option<AcmeChallenge>) -> String {
    match challenge {
        Some(AcmeChallenge::Http01) => {
            "open port 80 to the internet up to this process (firewall, port forwarding), and check the A and AAAA records".into()
        }
        Some(AcmeChallenge::TlsAlpn01) => {
            "open port 443 to the internet up to this process (firewall, port forwarding), and check the A and AAAA records"
                .into()
        }
        Some(AcmeChallenge::Dns01) | None => "check that the servers of the zone can be reached from the internet".into(),
    }
}

fn answer_remedy(challenge: Option<AcmeChallenge>) -> String {
    match challenge {
        Some(AcmeChallenge::Dns01) => {
            "check that the provider writes to the zone that the world sees, and raise `propagation` if its servers are slow".into()
        }
        Some(AcmeChallenge::Http01 | AcmeChallenge::TlsAlpn01) | None => {
            "the name leads to another server: check its A and AAAA records, and what stands before this process (CDN, load balancer)".into()
        }
    }
}

/// CAs write when to come back into the sentence: `retry after 2026-01-02 15:04:05 UTC`, or with `T` and `Z`.
fn time_in(detail: &str) -> Option<Timestamp> {
    let (_, rest) = detail.split_once("retry after ")?;
    let mut words = rest.split_ascii_whitespace();
    let first = words.next()?.trim_end_matches([':', ',', ';', '.']);
    if let Ok(when) = first.parse::<Timestamp>() {
        return Some(when);
    }
    let time = words.next()?.trim_end_matches([':', ',', ';', '.', 'Z']);
    format!("{first}T{time}Z").parse().ok()
}

/// What others wrote, fit for one line of a log: no control characters, not a page.
pub fn one_line(text: &str) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.retain(|character| !character.is_control());
    if line.chars().count() > QUOTED_CHARS_MAX {
        line = line.chars().take(QUOTED_CHARS_MAX).chain(['…']).collect();
    }
    line
}

/// A moment as people write it, to the minute, never earlier than it is.
pub fn minute(when: Timestamp) -> String {
    let up = when.checked_add(SignedDuration::from_secs(59)).unwrap_or(when).to_string();
    up.get(..16).map_or(up.clone(), |start| format!("{} UTC", start.replace('T', " ")))
}

#[cfg(test)]
mod tests {
    use super::{Blame, Context, Said, one_line, said_by_authority};
    use jiff::Timestamp;
    use tidegate_model::AcmeChallenge;

    fn check(kind: &str, status: u16, detail: &str, blame: Blame, expected: &str) {
        let said = Said { kind: kind.into(), detail: detail.into(), status: Some(status) };
        let context =
            Context { name: "a.example", authority: "letsencrypt", challenge: Some(AcmeChallenge::Http01), retry_after: None };
        let cause = said_by_authority(&said, context);
        assert_eq!(cause.blame, blame, "{kind}");
        assert!(cause.to_string().contains(expected), "{kind}: {cause}");
        assert!(!cause.to_string().contains('\n'), "{kind}: {cause}");
    }

    #[test]
    fn what_a_ca_says_becomes_a_cause_and_a_remedy() {
        check("connection", 400, "192.0.2.1: timeout", Blame::Setup, "open port 80");
        check("unauthorized", 403, "404", Blame::Setup, "leads to another server");
        check("caa", 403, "forbids", Blame::Setup, "CAA records of a.example");
        check("dns", 400, "SERVFAIL", Blame::Setup, "DNSSEC");
        check("rejectedIdentifier", 400, "policy", Blame::Setup, "internal");
        check("externalAccountRequired", 401, "eab", Blame::Setup, "eab");
        check("serverInternal", 500, "oops", Blame::Authority, "status page");
        check("", 503, "", Blame::Authority, "no reason given");
        check("malformed", 400, "what?", Blame::Setup, "(malformed): what?");
        let until: Timestamp = "2026-01-02T15:04:05Z".parse().unwrap();
        let limited = Blame::Limited { until: Some(until) };
        check("rateLimited", 429, "too many, retry after 2026-01-02 15:04:05 UTC: see x", limited, "after 2026-01-02 15:05 UTC");
        check("rateLimited", 429, "too many, retry after 2026-01-02T15:04:05Z: see x", limited, "limits us");
        check("rateLimited", 429, "too many", Blame::Limited { until: None }, "again later");
    }

    #[test]
    fn what_others_write_stays_one_line() {
        assert_eq!(one_line("a\r\nb\u{1b}[31m\tc"), "a b[31m c");
        assert_eq!(one_line(&"x".repeat(1000)).chars().count(), 241);
    }
}
