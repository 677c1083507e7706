//! What the following of a kind tells.

use crate::fault::Fault;
use crate::object::{ConfigMap, EndpointSlice, Fetched, FetchedMeta, Ingress, IngressClass, Key, Secret, Service};
use crate::page::{Found, Unreadable};

/// News of one kind of objects.
#[derive(Debug, Clone, PartialEq)]
pub enum KindNews<T> {
    /// All of them, whole: what is not among these is gone, but for those that cannot be read.
    Listed {
        found: Vec<Found<T>>,
        unreadable: Vec<Unreadable>,
    },
    /// All of them as they were once, of parts that nothing is known of so far.
    Recalled(Vec<Found<T>>),
    /// Came or changed.
    Put(Found<T>),
    Gone(Key),
    /// Came or changed, and cannot be read: what it was last stands.
    Unreadable(Unreadable),
    /// Nothing is heard of the kind until it is `Heard` again. What was known stands.
    Fault(Fault),
    /// The server was set back: versions that were told come again, and mean something else. A list follows.
    Rewound,
    /// Something has come after a fault, or a watch has moved on without a change.
    Heard,
}

/// News of a Secret that is watched by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedNews {
    /// From here on it is told what happens to it.
    Watched,
    Version(Box<str>),
    Gone,
    /// Nothing is told of it any more.
    Unwatched,
}

/// News of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    Service(KindNews<Service>),
    EndpointSlice(KindNews<EndpointSlice>),
    Ingress(KindNews<Ingress>),
    IngressClass(KindNews<IngressClass>),
    Secret(KindNews<FetchedMeta<Secret>>),
    ConfigMap(KindNews<FetchedMeta<ConfigMap>>),
    /// Secrets as they were once; `None` was not there.
    RecalledSecrets(Vec<(Key, Option<Fetched<Secret>>)>),
    /// ConfigMaps, likewise.
    RecalledConfigMaps(Vec<(Key, Option<Fetched<ConfigMap>>)>),
    /// What the watch of a single Secret says.
    Named(Key, NamedNews),
    /// What came of the fetching of a Secret.
    FetchedSecret(Key, Result<Fetched<Secret>, Fault>),
    /// What came of the fetching of a ConfigMap.
    FetchedConfigMap(Key, Result<Fetched<ConfigMap>, Fault>),
}

impl From<KindNews<Service>> for Told {
    fn from(news: KindNews<Service>) -> Told {
        Told::Service(news)
    }
}

impl From<KindNews<EndpointSlice>> for Told {
    fn from(news: KindNews<EndpointSlice>) -> Told {
        Told::EndpointSlice(news)
    }
}

impl From<KindNews<Ingress>> for Told {
    fn from(news: KindNews<Ingress>) -> Told {
        Told::Ingress(news)
    }
}

impl From<KindNews<IngressClass>> for Told {
    fn from(news: KindNews<IngressClass>) -> Told {
        Told::IngressClass(news)
    }
}

impl From<KindNews<FetchedMeta<Secret>>> for Told {
    fn from(news: KindNews<FetchedMeta<Secret>>) -> Told {
        Told::Secret(news)
    }
}

impl From<KindNews<FetchedMeta<ConfigMap>>> for Told {
    fn from(news: KindNews<FetchedMeta<ConfigMap>>) -> Told {
        Told::ConfigMap(news)
    }
}

impl From<(Key, Result<Fetched<Secret>, Fault>)> for Told {
    fn from((key, outcome): (Key, Result<Fetched<Secret>, Fault>)) -> Told {
        Told::FetchedSecret(key, outcome)
    }
}

impl From<(Key, Result<Fetched<ConfigMap>, Fault>)> for Told {
    fn from((key, outcome): (Key, Result<Fetched<ConfigMap>, Fault>)) -> Told {
        Told::FetchedConfigMap(key, outcome)
    }
}
