//! A Secret: by its metadata, as it is watched, and whole, as it is fetched when somebody refers to it.

use super::{Key, Text, Watched, WrittenMeta};
use crate::fault::Fault;
use crate::kind::Kind;
use crate::texts::Texts;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Of all values of one Secret together, decoded: the bound of the API itself.
const DATA_BYTES_MAX: usize = 1 << 20;

/// What is watched of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretMeta {
    /// Part of it, unlike that of other kinds: nothing else says that its data are others.
    pub version: Box<str>,
}

/// A Secret with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// As `kubernetes.io/tls`.
    pub of_type: Arc<str>,
    /// Values by name, decoded.
    pub data: BTreeMap<Arc<str>, SecretBytes>,
}

/// A value that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(Box<[u8]>);

impl SecretBytes {
    pub fn new(bytes: impl Into<Box<[u8]>>) -> SecretBytes {
        SecretBytes(bytes.into())
    }

    /// The value itself, for who uses it.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A Secret as it was fetched.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchedSecret {
    pub version: Box<str>,
    pub secret: Secret,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub struct WrittenSecretMeta<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
}

impl Watched for SecretMeta {
    const KIND: Kind = Kind::Secret;
    type Written<'w> = WrittenSecretMeta<'w>;

    fn meta<'m>(written: &'m WrittenSecretMeta<'_>) -> &'m WrittenMeta<'m> {
        &written.metadata
    }

    fn kept(written: &WrittenSecretMeta<'_>, _: &mut Texts) -> SecretMeta {
        SecretMeta { version: (&*written.metadata.resource_version).into() }
    }

    fn written<'o>(&'o self, meta: WrittenMeta<'o>) -> WrittenSecretMeta<'o> {
        WrittenSecretMeta { metadata: WrittenMeta { resource_version: (&*self.version).into(), ..meta } }
    }
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenSecret<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
    #[serde(borrow, rename = "type", skip_serializing_if = "Text::is_empty")]
    of_type: Text<'w>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    data: Option<BTreeMap<Text<'w>, Text<'w>>>,
}

/// A Secret as the API would write it. It has its values in it: it goes nowhere but into a file that is ours alone.
#[derive(Serialize)]
pub struct WholeSecret<'o>(WrittenSecret<'o>);

impl<'o> WholeSecret<'o> {
    pub fn of(key: &'o Key, version: &'o str, secret: &'o Secret) -> WholeSecret<'o> {
        let value = |(name, value): (&'o Arc<str>, &SecretBytes)| {
            (Text::from(&**name), Text::from(BASE64_STANDARD.encode(value.reveal())))
        };
        let data = Some(secret.data.iter().map(value).collect());
        WholeSecret(WrittenSecret { metadata: WrittenMeta::of(key, version), of_type: (&*secret.of_type).into(), data })
    }
}

/// The answer to the fetching of the Secret `key`. No fault repeats what stands in it.
pub fn fetched(key: &Key, answer: &[u8]) -> Result<FetchedSecret, Fault> {
    let unreadable = |problem: String| Fault::Unreadable { problem };
    let written: WrittenSecret<'_> = serde_json::from_slice(answer).map_err(|error| {
        unreadable(format!("the Secret {key} cannot be read at line {} column {}", error.line(), error.column()))
    })?;
    let mut data = BTreeMap::new();
    let mut bytes_left = DATA_BYTES_MAX;
    for (name, value) in written.data.iter().flatten() {
        let value = BASE64_STANDARD
            .decode(value.as_bytes())
            .map_err(|_| unreadable(format!("`{}` of the Secret {key} is no base64", shown(name))))?;
        bytes_left = bytes_left
            .checked_sub(value.len())
            .ok_or_else(|| unreadable(format!("the Secret {key} has more than {DATA_BYTES_MAX} bytes")))?;
        data.insert(Arc::from(&**name), SecretBytes::new(value));
    }
    let secret = Secret { of_type: (&*written.of_type).into(), data };
    Ok(FetchedSecret { version: (&*written.metadata.resource_version).into(), secret })
}

/// Names of values have 253 letters, digits, `-`, `_` and `.` at most.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(253).collect()
}

#[cfg(test)]
mod tests {
    use super::{DATA_BYTES_MAX, SecretBytes, fetched};
    use crate::object::Key;
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    fn read(data: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
        let text = format!(
            r#"{{"metadata":{{"name":"tls","namespace":"shop","resourceVersion":"7"}},"type":"kubernetes.io/tls","data":{data}}}"#
        );
        let found = fetched(&Key::new("shop", "tls"), text.as_bytes()).map_err(|fault| fault.to_string())?;
        assert_eq!((&*found.version, &*found.secret.of_type), ("7", "kubernetes.io/tls"));
        Ok(found.secret.data.iter().map(|(name, value)| (name.to_string(), value.reveal().to_vec())).collect())
    }

    #[test]
    fn values_are_decoded() {
        let check = |data: &str, expected: &[(&str, &[u8])]| {
            let expected: Vec<_> = expected.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
            assert_eq!(read(data), Ok(expected), "{data}");
        };
        check("null", &[]);
        check("{}", &[]);
        check(r#"{"tls.crt":"YQ==","tls.key":"","x":"AP8\u003d"}"#, &[("tls.crt", b"a"), ("tls.key", b""), ("x", &[0, 255])]);
    }

    #[test]
    fn what_cannot_be_read_is_named_and_never_shown() {
        let check = |data: &str, expected: &str| {
            assert_eq!(read(data), Err(format!("answers something else than was asked for: {expected}")));
        };
        check(r#"{"tls.key":"hush!"}"#, "`tls.key` of the Secret shop/tls is no base64");
        check(r#"{"tls.key":["hush"]}"#, "the Secret shop/tls cannot be read at line 1 column 113");
        let half = BASE64_STANDARD.encode(vec![7; DATA_BYTES_MAX / 2]);
        assert!(read(&format!(r#"{{"a":"{half}","b":"{half}"}}"#)).is_ok());
        check(&format!(r#"{{"a":"{half}","b":"{half}","c":"YQ=="}}"#), "the Secret shop/tls has more than 1048576 bytes");
    }

    #[test]
    fn values_are_not_shown() {
        assert_eq!(format!("{:?}", SecretBytes::new(*b"hush")), "***");
    }

    #[test]
    fn nothing_that_a_server_sends_makes_it_panic() {
        bolero::check!().for_each(|bytes: &[u8]| _ = fetched(&Key::new("shop", "tls"), bytes));
    }
}
