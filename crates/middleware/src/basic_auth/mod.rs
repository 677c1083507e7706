//! `basic-auth`: what a client says of itself, and how it is asked (RFC 7617). Whether the password fits is found out
//! by whoever runs the steps (`proxy`), since that takes longer than anything here may.

use crate::refusal::Refusal;
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;
use tidegate_limiting::FailureQuotas;
use tidegate_model::{BasicAuth, Step, log_ins};
use tidegate_wire::head::{HeaderId, RequestHead};

#[derive(Debug, PartialEq, Eq)]
pub struct CompiledBasicAuth {
    /// The value of `WWW-Authenticate`.
    pub challenge: Box<str>,
    /// Whether the upstream gets what the client said.
    pub forwards: bool,
    /// How many wrong passwords an address may try.
    pub failures: Option<FailureQuotas>,
}

/// A name and a password, as a client sent them.
#[derive(PartialEq, Eq)]
pub struct Credentials<'d> {
    pub name: &'d [u8],
    pub password: &'d [u8],
}

/// Longer values of `Authorization` are nobody's name and password.
const VALUE_BYTES_MAX: usize = 4096;

/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true),
);

impl CompiledBasicAuth {
    pub fn new(auth: &BasicAuth) -> CompiledBasicAuth {
        let realm = auth.realm.replace('\\', "\\\\").replace('"', "\\\"");
        CompiledBasicAuth {
            challenge: format!("Basic realm=\"{realm}\", charset=\"UTF-8\"").into(),
            forwards: auth.forwards,
            failures: auth.failures.map(|rate| FailureQuotas::by_name(rate.count, rate.period)),
        }
    }
}

impl CompiledBasicAuth {
    /// The value of `WWW-Authenticate` beside a refusal, where that is one of its own.
    pub fn challenge_of(&self, refusal: Refusal) -> Option<Cow<'_, str>> {
        (refusal == Refusal::NotAuthenticated).then_some(Cow::Borrowed(&*self.challenge))
    }
}

/// The step that counts among those of a site and of one of its routes.
pub fn basic_auth_of<'s>(site_steps: &'s [Step], route_steps: &'s [Step]) -> Option<&'s BasicAuth> {
    log_ins(site_steps, route_steps).flat_map(Step::parts).find_map(|step| match step {
        Step::BasicAuth(Some(auth)) => Some(auth),
        _ => None,
    })
}

/// What the client says. `None`: nothing, something else, or something that no name and password can be. `decoded`
/// holds the text meanwhile, and is the caller's to wipe.
pub fn credentials<'d>(head: &RequestHead, decoded: &'d mut Vec<u8>) -> Option<Credentials<'d>> {
    decoded.clear();
    let mut values = head.fields.all(HeaderId::Authorization);
    // Of two, this and the upstream might believe different ones.
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    if value.len() > VALUE_BYTES_MAX {
        return None;
    }
    let (scheme, rest) = value.split_at_checked(b"Basic".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic") || rest.first() != Some(&b' ') {
        return None;
    }
    BASE64.decode_vec(rest.trim_ascii(), decoded).ok()?;
    // RFC 7617 section 2: neither has control characters. A NUL would end a password early for some hashes.
    if decoded.iter().any(u8::is_ascii_control) {
        return None;
    }
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(Credentials { name: &decoded[..colon], password: &decoded[colon + 1..] })
}

#[cfg(test)]
mod tests {
    use super::{CompiledBasicAuth, credentials};
    use crate::fixtures::request;
    use std::path::PathBuf;
    use tidegate_model::{AuthUsers, BasicAuth};

    #[test]
    fn what_clients_say_of_themselves() {
        let check = |lines: &[&str], expected: Option<(&str, &str)>| {
            let head = request("/", "example.com", lines);
            let mut decoded = b"left over".to_vec();
            let seen = credentials(&head, &mut decoded).map(|seen| (seen.name.to_vec(), seen.password.to_vec()));
            let expected = expected.map(|(name, password)| (name.as_bytes().to_vec(), password.as_bytes().to_vec()));
            assert_eq!(seen, expected, "{lines:?}");
        };
        check(&["Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="], Some(("Aladdin", "open sesame")));
        check(&["Authorization: basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ"], Some(("Aladdin", "open sesame")));
        check(&["Authorization: BASIC YTpiOmM="], Some(("a", "b:c")));
        check(&["Authorization: Basic Og=="], Some(("", "")));
        // Ää:ö
        check(&["Authorization: Basic w4TDpDrDtg=="], Some(("Ää", "ö")));
        check(&[], None);
        check(&["Authorization: Bearer YTpi"], None);
        check(&["Authorization: Basic"], None);
        check(&["Authorization: Basic "], None);
        check(&["Authorization: BasicYTpi"], None);
        check(&["Authorization: Basic YTpi YTpi"], None);
        check(&["Authorization: Basic a:b"], None);
        check(&["Authorization: Basic YWI="], None);
        // A line feed and a NUL in the password.
        check(&["Authorization: Basic YTpiCmM="], None);
        check(&["Authorization: Basic YTpiAA=="], None);
        check(&["Authorization: Basic YTpi", "Authorization: Basic YTpi"], None);
        check(&[&format!("Authorization: Basic {}", "YWFh".repeat(2000))], None);
    }

    #[test]
    fn the_realm_stays_within_its_quotes() {
        let check = |realm: &str, expected: &str| {
            let auth = BasicAuth { realm: realm.into(), users: AuthUsers::File(PathBuf::new()), forwards: true, failures: None };
            assert_eq!(&*CompiledBasicAuth::new(&auth).challenge, expected);
        };
        check("Staff", "Basic realm=\"Staff\", charset=\"UTF-8\"");
        check("a\"b\\c", "Basic realm=\"a\\\"b\\\\c\", charset=\"UTF-8\"");
        check("Ä", "Basic realm=\"Ä\", charset=\"UTF-8\"");
    }
}
