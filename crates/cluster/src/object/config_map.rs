//! A ConfigMap as it is fetched when somebody refers to it: texts by name.

use super::fetched::{DATA_BYTES_MAX, Fetched, Referenced, shown};
use super::{Key, Text, WrittenMeta};
use crate::fault::Fault;
use crate::kind::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigMap {
    /// Texts by name. What stands in `binaryData` is no text, and nobody asks for it.
    pub data: BTreeMap<Arc<str>, Arc<str>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct WrittenConfigMap<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    data: Option<BTreeMap<Text<'w>, Text<'w>>>,
}

impl Referenced for ConfigMap {
    const KIND: Kind = Kind::ConfigMap;
    const MISSING: &'static str = "MissingConfigMap";

    fn read(key: &Key, answer: &[u8]) -> Result<Fetched<ConfigMap>, Fault> {
        let unreadable = |problem: String| Fault::Unreadable { problem };
        let written: WrittenConfigMap<'_> = serde_json::from_slice(answer).map_err(|error| {
            unreadable(format!("the ConfigMap {key} cannot be read at line {} column {}", error.line(), error.column()))
        })?;
        let mut data = BTreeMap::new();
        let mut bytes_left = DATA_BYTES_MAX;
        for (name, value) in written.data.iter().flatten() {
            bytes_left = bytes_left.checked_sub(value.len()).ok_or_else(|| {
                unreadable(format!("the ConfigMap {key} has more than {DATA_BYTES_MAX} bytes, at `{}`", shown(name)))
            })?;
            data.insert(Arc::from(&**name), Arc::from(&**value));
        }
        Ok(Fetched { version: (&*written.metadata.resource_version).into(), object: ConfigMap { data } })
    }

    fn whole<'o>(&'o self, key: &'o Key, version: &'o str) -> impl Serialize + 'o {
        let data = self.data.iter().map(|(name, value)| (Text::from(&**name), Text::from(&**value))).collect();
        WrittenConfigMap { metadata: WrittenMeta::of(key, version), data: Some(data) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ConfigMap, DATA_BYTES_MAX, Referenced};
    use crate::object::Key;

    fn read(data: &str) -> Result<Vec<(String, String)>, String> {
        let text = format!(
            r#"{{"metadata":{{"name":"nginx","namespace":"edge","resourceVersion":"7"}},"data":{data},"binaryData":{{"x":"AP8="}}}}"#
        );
        let found = ConfigMap::read(&Key::new("edge", "nginx"), text.as_bytes()).map_err(|fault| fault.to_string())?;
        assert_eq!(&*found.version, "7");
        let again = serde_json::to_vec(&found.object.whole(&Key::new("edge", "nginx"), "7")).expect("JSON");
        assert_eq!(ConfigMap::read(&Key::new("edge", "nginx"), &again).expect("what was written"), found);
        Ok(found.object.data.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    #[test]
    fn texts_are_read_within_their_bound() {
        assert_eq!(read("null"), Ok(Vec::new()));
        assert_eq!(read(r#"{"hsts":"false","a":"\u00e4"}"#), Ok(vec![("a".into(), "ä".into()), ("hsts".into(), "false".into())]));
        let check = |data: &str, expected: &str| {
            assert_eq!(read(data), Err(format!("answers something else than was asked for: {expected}")));
        };
        check(r#"{"hsts":false}"#, "the ConfigMap edge/nginx cannot be read at line 1 column 90");
        let half = "a".repeat(DATA_BYTES_MAX / 2);
        assert!(read(&format!(r#"{{"a":"{half}","b":"{half}"}}"#)).is_ok());
        check(
            &format!(r#"{{"a":"{half}","b":"{half}","c":"x"}}"#),
            "the ConfigMap edge/nginx has more than 1048576 bytes, at `c`",
        );
    }

    #[test]
    fn nothing_that_a_server_sends_makes_it_panic() {
        bolero::check!().for_each(|bytes: &[u8]| _ = ConfigMap::read(&Key::new("edge", "nginx"), bytes));
    }
}
