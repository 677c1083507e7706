//! Whether an order would succeed, judged over facts that were gathered before: pure. `gather` finds the facts.
//! Three answers: fine; doubtful, then the CA's staging directory is asked first; certain to fail, then no order is
//! made at all.

use crate::cause::{Blame, Cause, one_line};
use crate::interface::Listens;
use crate::subject::Subject;
use std::collections::HashMap;
use std::net::IpAddr;
use tidegate_dns_records::{CaaSet, Verdict as CaaVerdict, allows};
use tidegate_model::{Acme, AcmeChallenge};

/// What was found out about a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    pub addresses: Found<Vec<IpAddr>>,
    pub caa: Found<CaaSet>,
    /// How the CA calls itself in CAA records; empty where its directory does not say.
    pub caa_identities: Vec<String>,
    /// The address of our account there, if there is one already.
    pub account: Option<String>,
    /// Outcomes for each kind of challenge by which the CA would come to us, and each address that the name has.
    pub probes: Vec<Probe>,
}

/// An answer of DNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// Nothing was asked.
    NotAsked,
    /// The name, or records of that kind, do not exist.
    None,
    Some(T),
    /// No answer that could be used, and why.
    Failed(String),
}

/// What answered at one address when asked as the CA would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub challenge: AcmeChallenge,
    pub address: IpAddr,
    /// An address of this machine's interfaces.
    pub is_own: bool,
    pub answer: ProbeAnswer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// This process answered the probe.
    Ours,
    /// Somebody else, and how that showed.
    Another(String),
    /// A redirect, which a CA follows to where we do not.
    Elsewhere(String),
    None(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Fine,
    Doubtful(Cause),
    Certain(Cause),
}

/// The kinds of challenge that can be answered for the name, preferred ones first, or why there is none.
pub fn usable_challenges(subject: &Subject, acme: &Acme, listens: Listens) -> Result<Vec<AcmeChallenge>, Cause> {
    const ALL: &[AcmeChallenge] = &[AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01, AcmeChallenge::Dns01];
    let wanted = if acme.challenges.is_empty() { ALL } else { &acme.challenges };
    let is_usable = |challenge: &AcmeChallenge| match (challenge, subject) {
        (AcmeChallenge::Dns01, Subject::Ip(_)) => false,
        (AcmeChallenge::Dns01, Subject::Host(_) | Subject::Wildcard(_)) => acme.dns.is_some(),
        (AcmeChallenge::TlsAlpn01 | AcmeChallenge::Http01, Subject::Wildcard(_)) => false,
        (AcmeChallenge::TlsAlpn01, Subject::Host(_) | Subject::Ip(_)) => listens.https,
        (AcmeChallenge::Http01, Subject::Host(_) | Subject::Ip(_)) => listens.http,
    };
    let usable: Vec<AcmeChallenge> = wanted.iter().copied().filter(is_usable).collect();
    if !usable.is_empty() {
        return Ok(usable);
    }
    let refuse = |text: String, remedy: String| Err(Cause::new(Blame::Preflight, text, remedy));
    match subject {
        Subject::Wildcard(_) if acme.dns.is_none() => refuse(
            format!("{subject} needs the challenge dns-01, and no provider of DNS is configured"),
            "add `dns` with a provider to `acme`, or name the hosts one by one".into(),
        ),
        Subject::Wildcard(_) => refuse(
            format!("{subject} needs the challenge dns-01, which `challenge` leaves out"),
            "add \"dns-01\" to `challenge`".into(),
        ),
        Subject::Host(_) | Subject::Ip(_) => refuse(
            format!("nothing listens where a CA would look for {subject}"),
            format!(
                "add a site that listens on port {} (https) or {} (http), or give `http-port`/`https-port` if a gateway maps them",
                acme.https_port, acme.http_port
            ),
        ),
    }
}

/// Judges one kind of challenge.
pub fn verdict(subject: &Subject, challenge: AcmeChallenge, authority: &str, findings: &Findings) -> Verdict {
    match allowed_by_caa(subject, challenge, authority, findings) {
        Verdict::Fine => {}
        other => return other,
    }
    match challenge {
        // The CA asks the servers of the zone only; whether the provider can write there shows when it does.
        AcmeChallenge::Dns01 => Verdict::Fine,
        AcmeChallenge::Http01 | AcmeChallenge::TlsAlpn01 => reaches_us(subject, challenge, findings),
    }
}

fn allowed_by_caa(subject: &Subject, challenge: AcmeChallenge, authority: &str, findings: &Findings) -> Verdict {
    let set = match &findings.caa {
        Found::Some(set) => set,
        Found::NotAsked | Found::None => return Verdict::Fine,
        // A CA must refuse when it gets no answer (RFC 8659 section 3), but it asks from elsewhere.
        Found::Failed(problem) => {
            return Verdict::Doubtful(Cause::new(
                Blame::Preflight,
                format!("the CAA records of {subject} could not be looked up: {problem}"),
                "check that all servers of the zone answer questions for CAA",
            ));
        }
    };
    // A CA that does not say its name is not judged.
    let Some(identity) = findings.caa_identities.first() else { return Verdict::Fine };
    let is_wildcard = matches!(subject, Subject::Wildcard(_));
    let verdict = allows(set, &findings.caa_identities, is_wildcard, findings.account.as_deref(), challenge);
    let remedy = match &verdict {
        CaaVerdict::Allowed => return Verdict::Fine,
        CaaVerdict::Others { tag, .. } => format!("add a CAA record `0 {tag} \"{identity}\"`, or choose a CA that they name"),
        CaaVerdict::Account { .. } => "put the address of this account into `accounturi`, or remove the parameter".to_owned(),
        CaaVerdict::Method { methods, .. } => format!("use `challenge {methods:?}`, or widen `validationmethods`"),
        CaaVerdict::Critical { .. } => "remove the record, or its critical flag".to_owned(),
    };
    let cause = Cause::new(Blame::Preflight, format!("{verdict}, and the CA is {authority}"), remedy);
    match verdict {
        // Which account it will be is not known before there is one; what a critical record means to this CA, neither.
        CaaVerdict::Account { .. } if findings.account.is_none() => Verdict::Doubtful(cause),
        CaaVerdict::Critical { .. } => Verdict::Doubtful(cause),
        CaaVerdict::Allowed | CaaVerdict::Others { .. } | CaaVerdict::Account { .. } | CaaVerdict::Method { .. } => {
            Verdict::Certain(cause)
        }
    }
}

fn reaches_us(subject: &Subject, challenge: AcmeChallenge, findings: &Findings) -> Verdict {
    match &findings.addresses {
        Found::None => {
            return Verdict::Certain(Cause::new(
                Blame::Preflight,
                format!("{subject} has no address in DNS"),
                "add an A or AAAA record that leads to this machine, or use dns-01",
            ));
        }
        Found::Failed(problem) => {
            return Verdict::Doubtful(Cause::new(
                Blame::Preflight,
                format!("{subject} could not be looked up: {problem}"),
                "check the zone, and the resolver of this machine",
            ));
        }
        Found::NotAsked | Found::Some(_) => {}
    }
    let probes: Vec<&Probe> = findings.probes.iter().filter(|probe| probe.challenge == challenge).collect();
    // A CA takes any of the addresses, IPv6 first, so the worst answer counts.
    let judged: Vec<Verdict> = probes.iter().map(|probe| judge_probe(subject, probe)).collect();
    let worst = judged.iter().find(|verdict| matches!(verdict, Verdict::Certain(_)));
    let worst = worst.or_else(|| judged.iter().find(|verdict| matches!(verdict, Verdict::Doubtful(_))));
    // One address of several that is somebody else's fails for the CAs that take that one: no certainty while another
    // one is ours.
    match worst {
        Some(Verdict::Certain(cause)) if probes.iter().any(|probe| probe.answer == ProbeAnswer::Ours) => {
            Verdict::Doubtful(cause.clone())
        }
        Some(verdict) => verdict.clone(),
        None => Verdict::Fine,
    }
}

fn judge_probe(subject: &Subject, probe: &Probe) -> Verdict {
    let port = if probe.challenge == AcmeChallenge::Http01 { 80 } else { 443 };
    let address = probe.address;
    match &probe.answer {
        ProbeAnswer::Ours => Verdict::Fine,
        ProbeAnswer::Another(what) => Verdict::Certain(Cause::new(
            Blame::Preflight,
            format!("{subject} leads to {address}, where another server answers on port {port} ({what})"),
            "point its A and AAAA records at this machine, or use dns-01",
        )),
        ProbeAnswer::Elsewhere(what) => Verdict::Doubtful(Cause::new(
            Blame::Preflight,
            format!("{subject} leads to {address}, which redirects the challenge on port {port} to {what}"),
            "let requests for /.well-known/acme-challenge/ through to this process",
        )),
        ProbeAnswer::None(what) if probe.is_own => Verdict::Certain(Cause::new(
            Blame::Preflight,
            format!("{subject} leads to this machine ({address}), but nothing answers there on port {port}: {what}"),
            "check which address the site listens on, and the firewall of this machine",
        )),
        // From behind a gateway its own public address often cannot be reached, although the world reaches it.
        ProbeAnswer::None(what) => Verdict::Doubtful(Cause::new(
            Blame::Preflight,
            format!("{subject} leads to {address}, which does not answer us on port {port}: {what}"),
            "check that the address is this machine's or leads to it, and that the port is open to the internet",
        )),
    }
}

/// Let's Encrypt gives certificates for addresses with one profile only, and says so in an order's refusal, which costs
/// one.
pub fn profile_fits(subject: &Subject, directory: &str, profile: Option<&str>) -> Result<(), Cause> {
    let is_lets_encrypt = directory.contains("api.letsencrypt.org/");
    match subject {
        Subject::Ip(_) if is_lets_encrypt && profile != Some("shortlived") => Err(Cause::new(
            Blame::Preflight,
            format!("Let's Encrypt issues certificates for addresses ({subject}) with the profile `shortlived` only"),
            "add `profile \"shortlived\"` to `acme`, or use `tls \"internal\"`",
        )),
        Subject::Ip(_) | Subject::Host(_) | Subject::Wildcard(_) => Ok(()),
    }
}

/// A profile that the CA does not list would be refused in an order, or passed over, and then the certificate is of
/// another kind than was asked for.
pub fn profile_is_offered(authority: &str, profile: Option<&str>, offered: &HashMap<String, String>) -> Result<(), Cause> {
    const NAMES_SHOWN: usize = 10;
    let Some(profile) = profile.filter(|profile| !offered.contains_key(*profile)) else { return Ok(()) };
    let mut names: Vec<&str> = offered.keys().map(String::as_str).collect();
    names.sort_unstable();
    names.truncate(NAMES_SHOWN);
    let (text, remedy) = if names.is_empty() {
        (
            format!("{authority} has no profiles, so it cannot issue one of the kind `{profile}`"),
            "leave `profile` out, or choose a CA that has it".to_owned(),
        )
    } else {
        let shown = one_line(&names.join(", "));
        (
            format!("{authority} has no profile `{profile}`"),
            format!("choose one of those it has: {shown}; or leave `profile` out"),
        )
    };
    Err(Cause::new(Blame::Unfit, text, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_dns_records::Caa;
    use tidegate_model::{AcmeDns, DnsProvider};

    fn findings() -> Findings {
        Findings {
            addresses: Found::Some(vec![ip("192.0.2.1")]),
            caa: Found::None,
            caa_identities: vec!["ca.example".into()],
            account: None,
            probes: Vec::new(),
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn check(name: &str, challenge: AcmeChallenge, findings: &Findings, expected: &str) {
        let text = match verdict(&Subject::parse(name).unwrap(), challenge, "the CA", findings) {
            Verdict::Fine => "fine".to_owned(),
            Verdict::Doubtful(cause) => format!("doubtful: {cause}"),
            Verdict::Certain(cause) => format!("certain: {cause}"),
        };
        assert!(text.contains(expected), "{text}");
        assert!(!text.starts_with("fine") || expected == "fine", "{text}");
    }

    #[test]
    fn the_address_of_a_name_decides_unless_its_zone_does() {
        let with = |addresses| Findings { addresses, ..findings() };
        use AcmeChallenge::{Dns01, Http01, TlsAlpn01};
        check("a.example", Http01, &findings(), "fine");
        check("a.example", Http01, &with(Found::None), "certain: a.example has no address in DNS; add an A or AAAA record");
        check("a.example", TlsAlpn01, &with(Found::None), "certain");
        check("a.example", Dns01, &with(Found::None), "fine");
        check(
            "a.example",
            Http01,
            &with(Found::Failed("SERVFAIL".into())),
            "doubtful: a.example could not be looked up: SERVFAIL",
        );
    }

    #[test]
    fn who_may_not_issue_is_not_asked() {
        let with = |value: &str| {
            let record = Caa { is_critical: false, tag: "issue".into(), value: value.into() };
            Findings { caa: Found::Some(CaaSet { at: Some("a.example".into()), records: vec![record] }), ..findings() }
        };
        let http = AcmeChallenge::Http01;
        check("a.example", http, &with("ca.example"), "fine");
        check("a.example", http, &with("other.example"), "certain: the CAA records of a.example let only other.example issue");
        check("a.example", http, &with("other.example"), "add a CAA record `0 issue \"ca.example\"`");
        check("a.example", http, &with("ca.example; validationmethods=dns-01"), "certain");
        check("a.example", http, &with("ca.example; accounturi=https://x/1"), "doubtful");
        let known = Findings { account: Some("https://x/2".into()), ..with("ca.example; accounturi=https://x/1") };
        check("a.example", http, &known, "certain");
        check("a.example", http, &Findings { caa: Found::Failed("timeout".into()), ..findings() }, "doubtful");
        check("a.example", http, &Findings { caa_identities: Vec::new(), ..with("other.example") }, "fine");
    }

    #[test]
    fn what_answers_at_the_address_is_judged_by_whose_address_it_is() {
        let probe =
            |address: &str, is_own, answer| Probe { challenge: AcmeChallenge::Http01, address: ip(address), is_own, answer };
        let with = |probes: Vec<Probe>| Findings { probes, ..findings() };
        let another = || ProbeAnswer::Another("404 from nginx".into());
        let silence = || ProbeAnswer::None("timed out".into());
        let http = AcmeChallenge::Http01;
        check("a.example", http, &with(vec![probe("192.0.2.1", true, ProbeAnswer::Ours)]), "fine");
        check(
            "a.example",
            http,
            &with(vec![probe("192.0.2.1", false, another())]),
            "certain: a.example leads to 192.0.2.1, where another",
        );
        check("a.example", http, &with(vec![probe("192.0.2.1", true, silence())]), "certain: a.example leads to this machine");
        check("a.example", http, &with(vec![probe("192.0.2.1", false, silence())]), "doubtful");
        check("a.example", http, &with(vec![probe("192.0.2.1", false, ProbeAnswer::Elsewhere("https://x".into()))]), "doubtful");
        let both = vec![probe("192.0.2.1", true, ProbeAnswer::Ours), probe("2001:db8::1", false, another())];
        check("a.example", http, &with(both), "doubtful: a.example leads to 2001:db8::1");
        // What was asked for http-01 says nothing about another kind.
        check("a.example", AcmeChallenge::TlsAlpn01, &with(vec![probe("192.0.2.1", true, another())]), "fine");
    }

    #[test]
    fn challenges_are_chosen_by_what_can_be_answered() {
        use AcmeChallenge::{Dns01, Http01, TlsAlpn01};
        fn check(
            name: &str,
            wanted: &[AcmeChallenge],
            has_dns: bool,
            listens: (bool, bool),
            expected: Result<&[AcmeChallenge], &str>,
        ) {
            let provider = DnsProvider::Exec { command: "/x".into() };
            let dns = has_dns.then_some(AcmeDns { provider, propagation: AcmeDns::PROPAGATION, resolver: None });
            let acme = Acme { challenges: wanted.to_vec(), dns, ..Acme::default() };
            let listens = Listens { http: listens.0, https: listens.1 };
            match (usable_challenges(&Subject::parse(name).unwrap(), &acme, listens), expected) {
                (Ok(usable), Ok(expected)) => assert_eq!(usable, expected, "{name}"),
                (Err(cause), Err(expected)) => assert!(cause.to_string().contains(expected), "{cause}"),
                (seen, expected) => panic!("{name}: {seen:?} instead of {expected:?}"),
            }
        }
        check("a.example", &[], true, (true, true), Ok(&[TlsAlpn01, Http01, Dns01]));
        check("a.example", &[Dns01, Http01], true, (true, true), Ok(&[Dns01, Http01]));
        check("a.example", &[], false, (true, false), Ok(&[Http01]));
        check("a.example", &[], false, (false, false), Err("add a site that listens on port 443 (https) or 80"));
        check("*.a.example", &[], true, (true, true), Ok(&[Dns01]));
        check("*.a.example", &[], false, (true, true), Err("no provider of DNS"));
        check("*.a.example", &[Http01], true, (true, true), Err("add \"dns-01\""));
        check("192.0.2.1", &[], true, (true, true), Ok(&[TlsAlpn01, Http01]));
    }

    #[test]
    fn addresses_need_their_profile_at_lets_encrypt() {
        let address = Subject::parse("192.0.2.1").unwrap();
        let lets_encrypt = "https://acme-v02.api.letsencrypt.org/directory";
        assert!(profile_fits(&address, lets_encrypt, None).is_err());
        assert!(profile_fits(&address, lets_encrypt, Some("shortlived")).is_ok());
        assert!(profile_fits(&address, "https://ca.example/", None).is_ok());
        assert!(profile_fits(&Subject::parse("a.example").unwrap(), lets_encrypt, None).is_ok());
    }

    #[test]
    fn a_profile_that_the_ca_does_not_have_is_told_with_those_it_has() {
        let offered = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        let check = |profile: Option<&str>, names: &[&str], expected: &str| {
            let said =
                profile_is_offered("the CA", profile, &offered(names)).map_or_else(|cause| cause.to_string(), |()| "fine".into());
            assert!(said.starts_with(expected), "{said}");
        };
        check(None, &[], "fine");
        check(Some("shortlived"), &["classic", "shortlived"], "fine");
        check(
            Some("short"),
            &["shortlived", "classic"],
            "the CA has no profile `short`; choose one of those it has: classic, shortlived; or leave",
        );
        check(Some("short"), &[], "the CA has no profiles, so it cannot issue one of the kind `short`; leave `profile` out");
    }
}
