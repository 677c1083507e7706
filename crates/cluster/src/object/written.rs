//! What the API's JSON is read into before anything of it is kept, and what is kept is written from: texts that are
//! borrowed, and lists that may be `null`, as Go writes those that are empty.

use super::Key;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;

/// A text of an answer, which is borrowed from it unless something in it is escaped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Text<'w>(Cow<'w, str>);

impl<'w> From<&'w str> for Text<'w> {
    fn from(text: &'w str) -> Text<'w> {
        Text(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text(Cow::Owned(text))
    }
}

impl Text<'_> {
    /// By reference, as conditions of fields are asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de: 'w, 'w> Deserialize<'de> for Text<'w> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfText;
        impl<'de> Visitor<'de> for OfText {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(OfText)
    }
}

/// A list, or `null`.
#[derive(Debug)]
pub struct Listed<T>(Vec<T>);

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Listed(Vec::new())
    }
}

impl<T> FromIterator<T> for Listed<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Listed(items.into_iter().collect())
    }
}

impl<T> Listed<T> {
    /// By reference, as conditions of fields are asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for Listed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T> Deref for Listed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Listed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<Vec<T>>::deserialize(deserializer).map(|list| Listed(list.unwrap_or_default()))
    }
}

/// What an object says that it is.
#[derive(Deserialize)]
pub struct WrittenKind<'w> {
    #[serde(borrow)]
    pub kind: Text<'w>,
}

/// `metadata` of an object, as far as anybody asks.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WrittenMeta<'w> {
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    pub name: Text<'w>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    pub namespace: Text<'w>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    pub resource_version: Text<'w>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    pub creation_timestamp: Text<'w>,
    #[serde(borrow, skip_serializing_if = "Text::is_empty")]
    pub uid: Text<'w>,
    pub generation: u64,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<Text<'w>, Text<'w>>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<Text<'w>, Text<'w>>>,
}

impl<'w> WrittenMeta<'w> {
    pub fn of(key: &'w Key, version: &'w str) -> WrittenMeta<'w> {
        let (name, namespace, resource_version) = ((&*key.name).into(), (&*key.namespace).into(), version.into());
        WrittenMeta { name, namespace, resource_version, ..WrittenMeta::default() }
    }

    pub fn with_label(self, name: &'w str, value: Option<&'w str>) -> WrittenMeta<'w> {
        WrittenMeta { labels: value.map(|value| [(name.into(), value.into())].into()), ..self }
    }

    pub fn with_annotations(self, annotations: impl Iterator<Item = (&'w str, &'w str)>) -> WrittenMeta<'w> {
        let annotations = annotations.map(|(name, value)| (name.into(), value.into())).collect();
        WrittenMeta { annotations: Some(annotations), ..self }
    }
}

impl WrittenMeta<'_> {
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(|value| &**value)
    }

    /// Names and values, in order of names.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter().flatten().map(|(name, value)| (&**name, &**value))
    }
}

/// `status` of objects that a load balancer stands for.
#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerStatus<'w> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    load_balancer: Option<LoadBalancer<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct LoadBalancer<'w> {
    #[serde(borrow, skip_serializing_if = "Listed::is_empty")]
    ingress: Listed<LoadBalancerAddress<'w>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct LoadBalancerAddress<'w> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    ip: Option<Text<'w>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    hostname: Option<Text<'w>>,
}

impl<'w> LoadBalancerStatus<'w> {
    /// A status with these addresses and names.
    pub fn of(addresses: &'w [Box<str>]) -> LoadBalancerStatus<'w> {
        let entry = |address: &'w str| {
            let text = Some(Text::from(address));
            if address.parse::<IpAddr>().is_ok() {
                LoadBalancerAddress { ip: text, hostname: None }
            } else {
                LoadBalancerAddress { ip: None, hostname: text }
            }
        };
        LoadBalancerStatus {
            load_balancer: Some(LoadBalancer { ingress: addresses.iter().map(|address| entry(address)).collect() }),
        }
    }
}

impl LoadBalancerStatus<'_> {
    /// Addresses and names, in the order written.
    pub fn addresses(&self) -> Box<[Box<str>]> {
        let entries = self.load_balancer.iter().flat_map(|balancer| balancer.ingress.iter());
        let addresses = entries.filter_map(|entry| {
            let is_said = |text: &&str| !text.is_empty();
            entry.ip.as_deref().filter(is_said).or(entry.hostname.as_deref().filter(is_said))
        });
        addresses.map(Into::into).collect()
    }
}
