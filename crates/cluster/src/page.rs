//! Answers of the API read: pages of lists, lines of watches, and statuses. Pure. An object that cannot be read is
//! named and left out; the others of its page are read all the same.

use crate::fault::Fault;
use crate::object::{Key, Text, Watched, WrittenMeta};
use crate::texts::Texts;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// An object as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found<T> {
    pub key: Key,
    /// As the API counts them: another text is another version, and that is all it says.
    pub version: Box<str>,
    pub object: T,
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// `None` where not even its name can be read.
    pub key: Option<Key>,
    pub problem: String,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page<T> {
    pub found: Vec<Found<T>>,
    pub unreadable: Vec<Unreadable>,
    /// What the list was at, to be watched from.
    pub version: Box<str>,
    /// What asks for the next page; `None` is the last one.
    pub next: Option<Box<str>>,
}

/// One line of a watch.
#[derive(Debug, PartialEq)]
pub enum Line<T> {
    /// Came or changed.
    Put(Found<T>),
    Gone {
        key: Key,
        version: Box<str>,
    },
    /// Nothing happened up to this version.
    Bookmark {
        version: Box<str>,
    },
    Unreadable {
        unreadable: Unreadable,
        version: Option<Box<str>>,
    },
    /// The watch ends.
    Fault(Fault),
    /// Something newer than this program.
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenPage<'w> {
    #[serde(borrow)]
    metadata: PageMeta<'w>,
    #[serde(borrow)]
    items: Option<Vec<&'w RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMeta<'w> {
    #[serde(borrow)]
    resource_version: Text<'w>,
    #[serde(borrow, rename = "continue")]
    next: Option<Text<'w>>,
}

#[derive(Deserialize)]
struct WrittenLine<'w> {
    #[serde(borrow, rename = "type")]
    kind: Text<'w>,
    #[serde(borrow)]
    object: &'w RawValue,
}

/// What of an object is read when the rest of it cannot be.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named<'w> {
    #[serde(borrow)]
    metadata: WrittenMeta<'w>,
}

/// What the server says when it refuses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
    code: u16,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: Option<u64>,
}

/// Of a message of the server that is shown.
const MESSAGE_CHARACTERS_MAX: usize = 500;
/// A server that says more is not waited for longer.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

pub fn page<T: Watched>(body: &[u8], texts: &mut Texts) -> Result<Page<T>, Fault> {
    let written: WrittenPage<'_> = serde_json::from_slice(body).map_err(|error| Fault::Unreadable { problem: place(&error) })?;
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for item in written.items.unwrap_or_default() {
        match read_object::<T>(item, texts) {
            Ok(one) => found.push(one),
            Err(one) => unreadable.push(one),
        }
    }
    let next = written.metadata.next.filter(|next| !next.is_empty()).map(|next| Box::from(&*next));
    let version = (&*written.metadata.resource_version).into();
    Ok(Page { found, unreadable, version, next })
}

/// The version that a list is at.
pub fn list_version(body: &[u8]) -> Result<Box<str>, Fault> {
    let written: WrittenPage<'_> = serde_json::from_slice(body).map_err(|error| Fault::Unreadable { problem: place(&error) })?;
    Ok((&*written.metadata.resource_version).into())
}

pub fn line<T: Watched>(line: &[u8], texts: &mut Texts) -> Result<Line<T>, Fault> {
    let written: WrittenLine<'_> = serde_json::from_slice(line).map_err(|error| Fault::Unreadable { problem: place(&error) })?;
    let version = || named(written.object).map(|named| Box::from(&*named.metadata.resource_version));
    Ok(match &*written.kind {
        "ADDED" | "MODIFIED" => match read_object::<T>(written.object, texts) {
            Ok(found) => Line::Put(found),
            Err(unreadable) => Line::Unreadable { unreadable, version: version() },
        },
        // What it was does not matter any more, only its name has to be read.
        "DELETED" => match named(written.object).map(|named| (key(&named.metadata, texts), named.metadata)) {
            Some((Some(key), meta)) => Line::Gone { key, version: (&*meta.resource_version).into() },
            Some((None, _)) | None => return Err(Fault::Unreadable { problem: "an object without a name ended".to_owned() }),
        },
        "BOOKMARK" => match version() {
            Some(version) => Line::Bookmark { version },
            None => return Err(Fault::Unreadable { problem: "a bookmark without a version".to_owned() }),
        },
        "ERROR" => Line::Fault(refusal(None, written.object.get().as_bytes(), None)),
        _ => Line::Unknown,
    })
}

/// What an answer without success, or the end of a watch, says. `status` is that of the answer, `None` for a watch.
pub fn refusal(status: Option<u16>, body: &[u8], retry_after: Option<Duration>) -> Fault {
    let said: Status = serde_json::from_slice(body).unwrap_or_default();
    let status = status.unwrap_or(said.code);
    let shown: String = said.message.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARACTERS_MAX).collect();
    let message = if shown.is_empty() { format!("status {status}") } else { shown };
    let said_in_body = said.details.and_then(|details| details.retry_after_seconds).map(Duration::from_secs);
    match status {
        401 => Fault::Unauthorized { message },
        403 => Fault::Forbidden { message },
        404 => Fault::Missing { message },
        409 => Fault::Conflict { message },
        410 => Fault::Gone { message },
        408 | 429 | 500..=599 => {
            let retry_after = retry_after.or(said_in_body).map(|after| after.min(RETRY_AFTER_MAX));
            Fault::Busy { message, retry_after }
        }
        _ => Fault::Refused { status, message },
    }
}

/// One object by itself.
pub fn read_object<T: Watched>(written: &RawValue, texts: &mut Texts) -> Result<Found<T>, Unreadable> {
    let read = serde_json::from_str::<T::Written<'_>>(written.get());
    let unreadable = |problem: String, texts: &mut Texts| Unreadable {
        key: named(written).and_then(|named| key(&named.metadata, texts)),
        problem,
    };
    match read {
        Ok(read) => {
            let meta = T::meta(&read);
            let version = (&*meta.resource_version).into();
            let Some(key) = key(meta, texts) else { return Err(unreadable("it has no name".to_owned(), texts)) };
            Ok(Found { key, version, object: T::kept(&read, texts) })
        }
        Err(error) => Err(unreadable(place(&error), texts)),
    }
}

fn named(written: &RawValue) -> Option<Named<'_>> {
    serde_json::from_str(written.get()).ok()
}

fn key(meta: &WrittenMeta<'_>, texts: &mut Texts) -> Option<Key> {
    let key = || Key { namespace: texts.shared(&meta.namespace), name: (&*meta.name).into() };
    (!meta.name.is_empty()).then(key)
}

/// Where the fault is, and not what stands there: it may be a key.
fn place(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Io | serde_json::error::Category::Syntax => "no JSON",
        serde_json::error::Category::Data => "something of another type",
        serde_json::error::Category::Eof => "the end",
    };
    format!("there is {kind} at line {} column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests;
