//! Objects of which only the metadata are watched, and that are fetched whole when somebody refers to them.

use super::{Key, Watched, WrittenMeta};
use crate::fault::Fault;
use crate::kind::Kind;
use crate::texts::Texts;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// Of all values of one object together, decoded: the bound of the API itself.
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// A kind whose objects are fetched one by one: nobody who refers to one needs what is in all of them.
pub trait Referenced: PartialEq + Sized + Send + Sync + 'static {
    const KIND: Kind;
    /// What snapshots call one that was asked for and was not there.
    const MISSING: &'static str;

    /// The answer to the fetching of the object `key`. No fault repeats what stands in it.
    fn read(key: &Key, answer: &[u8]) -> Result<Fetched<Self>, Fault>;

    /// As the API would write it. It has its values in it: it goes nowhere but into a file that is ours alone.
    fn whole<'o>(&'o self, key: &'o Key, version: &'o str) -> impl Serialize + 'o;
}

/// An object as it was fetched.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetched<T> {
    pub version: Box<str>,
    pub object: T,
}

/// What is watched of such an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedMeta<T> {
    /// Part of it, unlike that of other kinds: nothing else says that its data are others.
    pub version: Box<str>,
    of: PhantomData<fn() -> T>,
}

impl<T> FetchedMeta<T> {
    pub fn at(version: Box<str>) -> FetchedMeta<T> {
        FetchedMeta { version, of: PhantomData }
    }
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub struct WrittenFetchedMeta<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
}

impl<T: Referenced> Watched for FetchedMeta<T> {
    const KIND: Kind = T::KIND;
    type Written<'w> = WrittenFetchedMeta<'w>;

    fn meta<'m>(written: &'m WrittenFetchedMeta<'_>) -> &'m WrittenMeta<'m> {
        &written.metadata
    }

    fn kept(written: &WrittenFetchedMeta<'_>, _: &mut Texts) -> FetchedMeta<T> {
        FetchedMeta::at((&*written.metadata.resource_version).into())
    }

    fn written<'o>(&'o self, meta: WrittenMeta<'o>) -> WrittenFetchedMeta<'o> {
        WrittenFetchedMeta { metadata: WrittenMeta { resource_version: (&*self.version).into(), ..meta } }
    }
}

/// Names of values have 253 letters, digits, `-`, `_` and `.` at most.
pub fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(253).collect()
}
