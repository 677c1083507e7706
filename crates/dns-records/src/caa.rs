//! Whether CAA records let a CA issue (RFC 8659, with the parameters of RFC 8657). Pure: records in, verdict out.
//! A CA decides for itself; this says beforehand what it will say, and why.

use hickory_proto::rr::RData;
use std::fmt;
use tidegate_model::AcmeChallenge;

/// Known to CAs though not to this decision: RFC 8659, RFC 9495, and the registry of the CA/Browser Forum.
const KNOWN_TAGS: &[&str] = &["issue", "issuewild", "iodef", "issuemail", "issuevmc", "contactemail", "contactphone"];

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caa {
    pub is_critical: bool,
    pub tag: String,
    pub value: String,
}

/// What holds for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaaSet {
    /// The name that has them; `None` where there are none up to the root.
    pub at: Option<String>,
    pub records: Vec<Caa>,
}

/// `Display` is one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The CA may issue.
    Allowed,
    /// Others may: those named; nobody when empty.
    Others { at: String, tag: &'static str, issuers: Vec<String> },
    /// The CA may, for another account.
    Account { at: String, issuer: String },
    /// The CA may, with other challenges.
    Method { at: String, issuer: String, methods: String },
    /// A record that must be understood and is not.
    Critical { at: String, tag: String },
}

impl Caa {
    pub(crate) fn of(data: &RData) -> Option<Caa> {
        let RData::CAA(record) = data else { return None };
        // Many took the lowest bit for the one that says critical, and CAs read it so too.
        let is_critical = record.issuer_critical || record.reserved_flags & 1 != 0;
        let value = String::from_utf8_lossy(&record.value).into_owned();
        Some(Caa { is_critical, tag: record.tag.to_ascii_lowercase(), value })
    }
}

/// `ca_identities` are the names that the CA goes by in CAA records (`caaIdentities` of its directory). Without an
/// account yet, no `accounturi` fits.
pub fn allows(
    set: &CaaSet,
    ca_identities: &[String],
    is_wildcard: bool,
    account_uri: Option<&str>,
    challenge: AcmeChallenge,
) -> Verdict {
    let at = set.at.clone().unwrap_or_default();
    if let Some(record) = set.records.iter().find(|record| record.is_critical && !KNOWN_TAGS.contains(&record.tag.as_str())) {
        return Verdict::Critical { at, tag: record.tag.clone() };
    }
    let tagged = |tag: &str| set.records.iter().filter(|record| record.tag == tag).collect::<Vec<_>>();
    let (tag, relevant) = match tagged("issuewild") {
        wild if is_wildcard && !wild.is_empty() => ("issuewild", wild),
        _ => ("issue", tagged("issue")),
    };
    if relevant.is_empty() {
        return Verdict::Allowed;
    }
    let mut nearest = None;
    let mut issuers = Vec::new();
    for record in relevant {
        // A value that cannot be read names nobody (RFC 8659 section 4.2).
        let Some(issue) = Issue::parse(&record.value) else { continue };
        if issue.issuer.is_empty() {
            continue;
        }
        if !ca_identities.iter().any(|identity| identity.eq_ignore_ascii_case(issue.issuer)) {
            issuers.push(issue.issuer.to_ascii_lowercase());
            continue;
        }
        let issuer = issue.issuer.to_ascii_lowercase();
        if !issue.is_for_account(account_uri) {
            nearest = Some(Verdict::Account { at: at.clone(), issuer });
        } else if !issue.is_for_method(challenge) {
            let methods = issue.values("validationmethods").collect::<Vec<_>>().join(" and ");
            nearest = Some(Verdict::Method { at: at.clone(), issuer, methods });
        } else {
            return Verdict::Allowed;
        }
    }
    nearest.unwrap_or(Verdict::Others { at, tag, issuers })
}

/// The value of `issue` and `issuewild`: `letsencrypt.org; accounturi=https://…; validationmethods=dns-01`.
struct Issue<'a> {
    issuer: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Issue<'a> {
    fn parse(value: &'a str) -> Option<Issue<'a>> {
        let mut parts = value.split(';').map(|part| part.trim_matches([' ', '\t']));
        let issuer = parts.next()?;
        let is_label = |label: &str| {
            let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_inside)
        };
        if !issuer.is_empty() && !issuer.split('.').all(is_label) {
            return None;
        }
        let parameter = |part: &'a str| {
            let (tag, value) = part.split_once('=')?;
            let (tag, value) = (tag.trim_end_matches([' ', '\t']), value.trim_start_matches([' ', '\t']));
            let is_sound = !tag.is_empty()
                && tag.bytes().all(|byte| byte.is_ascii_alphanumeric())
                && value.bytes().all(|byte| byte.is_ascii_graphic());
            is_sound.then_some((tag, value))
        };
        // Records in use end with a semicolon, which the grammar has no room for and CAs let pass.
        let parameters = parts.filter(|part| !part.is_empty()).map(parameter).collect::<Option<Vec<_>>>()?;
        Some(Issue { issuer, parameters })
    }

    fn values(&self, tag: &str) -> impl Iterator<Item = &'a str> {
        self.parameters.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(tag)).map(|(_, value)| *value)
    }

    /// Two accounts are none: a property with more than one cannot be satisfied (RFC 8657 section 3).
    fn is_for_account(&self, account_uri: Option<&str>) -> bool {
        match self.values("accounturi").collect::<Vec<_>>().as_slice() {
            [] => true,
            [only] => account_uri == Some(*only),
            [..] => false,
        }
    }

    fn is_for_method(&self, challenge: AcmeChallenge) -> bool {
        let mut lists = self.values("validationmethods");
        lists.all(|list| list.split(',').any(|method| method == challenge.as_str()))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Allowed => f.write_str("CAA records allow it"),
            Verdict::Others { at, tag, issuers } if issuers.is_empty() => {
                write!(f, "the CAA records of {at} let nobody issue (`{tag}`)")
            }
            Verdict::Others { at, tag, issuers } => {
                write!(f, "the CAA records of {at} let only {} issue (`{tag}`)", issuers.join(", "))
            }
            Verdict::Account { at, issuer } => {
                write!(f, "the CAA records of {at} let {issuer} issue for another account only (`accounturi`)")
            }
            Verdict::Method { at, issuer, methods } => {
                write!(f, "the CAA records of {at} let {issuer} issue after {methods} only (`validationmethods`)")
            }
            Verdict::Critical { at, tag } => {
                write!(f, "the CAA records of {at} have a critical `{tag}`, which no CA may pass over without knowing it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Caa, CaaSet, allows};
    use tidegate_model::AcmeChallenge;

    /// Records as in a zone file: `0 issue ca.example`.
    fn check(records: &[&str], is_wildcard: bool, expected: &str) {
        let parse = |record: &&str| {
            let (flags, rest) = record.split_once(' ').expect("flags");
            let (tag, value) = rest.split_once(' ').expect("a tag");
            Caa { is_critical: flags == "128", tag: tag.to_owned(), value: value.to_owned() }
        };
        let set = CaaSet { at: Some("a.example".into()), records: records.iter().map(parse).collect() };
        let identities = ["ca.example".to_owned(), "other-name.ca.example".to_owned()];
        let verdict = allows(&set, &identities, is_wildcard, Some("https://ca.example/acct/1"), AcmeChallenge::Dns01);
        assert_eq!(verdict.to_string(), expected, "{records:?}");
    }

    const ALLOWED: &str = "CAA records allow it";

    #[test]
    fn without_a_word_about_issuing_everybody_may() {
        check(&[], false, ALLOWED);
        check(&["0 iodef mailto:a@a.example"], false, ALLOWED);
        check(&["128 iodef mailto:a@a.example", "0 issuewild b.example"], false, ALLOWED);
        check(&["0 future words"], false, ALLOWED);
    }

    #[test]
    fn who_is_named_may() {
        check(&["0 issue ca.example"], false, ALLOWED);
        check(&["0 issue b.example", "0 issue Other-Name.CA.example"], false, ALLOWED);
        check(&["0 issue b.example"], false, "the CAA records of a.example let only b.example issue (`issue`)");
        check(&["0 issue ;"], false, "the CAA records of a.example let nobody issue (`issue`)");
        check(&["0 issue  ca.example ; "], false, ALLOWED);
        check(&["0 issue %%%"], false, "the CAA records of a.example let nobody issue (`issue`)");
        check(&["0 issue ca.example; policy"], false, "the CAA records of a.example let nobody issue (`issue`)");
        check(&["0 issue ca.example; policy=ev"], false, ALLOWED);
    }

    #[test]
    fn wildcards_have_a_word_of_their_own() {
        check(&["0 issue ca.example"], true, ALLOWED);
        check(&["0 issue ;", "0 issuewild ca.example"], true, ALLOWED);
        check(&["0 issue ;", "0 issuewild ca.example"], false, "the CAA records of a.example let nobody issue (`issue`)");
        check(&["0 issue ca.example", "0 issuewild ;"], true, "the CAA records of a.example let nobody issue (`issuewild`)");
    }

    #[test]
    fn what_is_critical_and_unknown_stops_every_ca() {
        let expected = "the CAA records of a.example have a critical `future`, which no CA may pass over without knowing it";
        check(&["0 issue ca.example", "128 future words"], false, expected);
        check(&["128 issue ca.example"], false, ALLOWED);
    }

    #[test]
    fn accounts_and_methods_narrow_it() {
        check(&["0 issue ca.example; accounturi=https://ca.example/acct/1"], false, ALLOWED);
        let other = "the CAA records of a.example let ca.example issue for another account only (`accounturi`)";
        check(&["0 issue ca.example; accounturi=https://ca.example/acct/2"], false, other);
        check(&["0 issue ca.example; accounturi=https://ca.example/acct/1; accounturi=https://ca.example/acct/1"], false, other);
        check(&["0 issue ca.example;validationmethods=http-01,dns-01"], false, ALLOWED);
        check(
            &["0 issue ca.example; validationmethods=http-01,tls-alpn-01"],
            false,
            "the CAA records of a.example let ca.example issue after http-01,tls-alpn-01 only (`validationmethods`)",
        );
        check(&["0 issue ca.example; validationmethods=http-01", "0 issue ca.example"], false, ALLOWED);
        let set = CaaSet {
            at: Some("a.example".into()),
            records: vec![Caa { is_critical: false, tag: "issue".into(), value: "ca.example; accounturi=x:y".into() }],
        };
        let before_an_account = allows(&set, &["ca.example".into()], false, None, AcmeChallenge::Http01);
        assert_eq!(before_an_account.to_string(), other);
    }
}
