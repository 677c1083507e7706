//! What the API's JSON is read into before anything of it is kept: texts borrowed from the answer, and lists that may
//! be `null`, as Go writes those that are empty.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

/// A text of an answer, which is borrowed from it unless something in it is escaped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Text<'w>(Cow<'w, str>);

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

/// `metadata` of an object, as far as anybody asks.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WrittenMeta<'w> {
    #[serde(borrow)]
    pub name: Text<'w>,
    #[serde(borrow)]
    pub namespace: Text<'w>,
    #[serde(borrow)]
    pub resource_version: Text<'w>,
    #[serde(borrow)]
    pub creation_timestamp: Text<'w>,
    #[serde(borrow)]
    pub uid: Text<'w>,
    pub generation: u64,
    #[serde(borrow)]
    labels: Option<BTreeMap<Text<'w>, Text<'w>>>,
    #[serde(borrow)]
    annotations: Option<BTreeMap<Text<'w>, Text<'w>>>,
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
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerStatus<'w> {
    #[serde(borrow)]
    load_balancer: Option<LoadBalancer<'w>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LoadBalancer<'w> {
    #[serde(borrow)]
    ingress: Listed<LoadBalancerAddress<'w>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LoadBalancerAddress<'w> {
    #[serde(borrow)]
    ip: Option<Text<'w>>,
    #[serde(borrow)]
    hostname: Option<Text<'w>>,
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
