//! A Secret as it is fetched when somebody refers to it: values that are never shown.

use super::fetched::{DATA_BYTES_MAX, Fetched, Referenced, shown};
use super::{Key, Text, WrittenMeta};
use crate::fault::Fault;
use crate::kind::Kind;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The label of Secrets that we write, with a certificate that was obtained: all others are somebody else's.
pub const OBTAINED_LABEL: &str = "tidegate.dev/obtained";

/// A Secret with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// As `kubernetes.io/tls`.
    pub of_type: Arc<str>,
    /// Whether it has the label of those that we have written, with a certificate that was obtained.
    pub is_obtained: bool,
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

impl Referenced for Secret {
    const KIND: Kind = Kind::Secret;
    const MISSING: &'static str = "MissingSecret";

    fn read(key: &Key, answer: &[u8]) -> Result<Fetched<Secret>, Fault> {
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
        let is_obtained = written.metadata.label(OBTAINED_LABEL) == Some("true");
        let object = Secret { of_type: (&*written.of_type).into(), is_obtained, data };
        Ok(Fetched { version: (&*written.metadata.resource_version).into(), object })
    }

    fn whole<'o>(&'o self, key: &'o Key, version: &'o str) -> impl Serialize + 'o {
        let value = |(name, value): (&'o Arc<str>, &SecretBytes)| {
            (Text::from(&**name), Text::from(BASE64_STANDARD.encode(value.reveal())))
        };
        let data = Some(self.data.iter().map(value).collect());
        let metadata = WrittenMeta::of(key, version).with_label(OBTAINED_LABEL, self.is_obtained.then_some("true"));
        WrittenSecret { metadata, of_type: (&*self.of_type).into(), data }
    }
}

#[cfg(test)]
mod tests {
    use super::{DATA_BYTES_MAX, Referenced, Secret, SecretBytes};
    use crate::object::Key;
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    fn read(data: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
        let text = format!(
            r#"{{"metadata":{{"name":"tls","namespace":"shop","resourceVersion":"7"}},"type":"kubernetes.io/tls","data":{data}}}"#
        );
        let found = Secret::read(&Key::new("shop", "tls"), text.as_bytes()).map_err(|fault| fault.to_string())?;
        assert_eq!((&*found.version, &*found.object.of_type), ("7", "kubernetes.io/tls"));
        Ok(found.object.data.iter().map(|(name, value)| (name.to_string(), value.reveal().to_vec())).collect())
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
        bolero::check!().for_each(|bytes: &[u8]| _ = Secret::read(&Key::new("shop", "tls"), bytes));
    }
}
