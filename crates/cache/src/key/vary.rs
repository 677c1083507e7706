//! The secondary key (RFC 9111 section 4.1): which request fields an answer depends on, and what a request says in
//! them. The primary key is in the module above.

use crate::message::{Field, is_token, members, values};
use std::sync::Arc;

/// Fields that `Vary` may name; an answer that names more is not stored.
const NAMES_MAX: usize = 16;
/// A field that no request can have: what the caller says in it keeps answers apart that are of the same URL and yet
/// not the same, such as those of two routes. Purging a URL meets them all.
pub const PARTITION: &[u8] = b":partition";
/// Bytes of all that a request says in those fields; one that says more finds nothing and stores nothing.
const SECONDARY_BYTES_MAX: usize = 8 << 10;
/// The content codings that a proxy's upstreams answer with, in the order of their bits.
const CODINGS: [&[u8]; 3] = [b"zstd", b"br", b"gzip"];

/// The request fields that an answer depends on: lower case, in order, each once. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Vary {
    names: Arc<[Box<[u8]>]>,
}

impl Vary {
    /// `None` for `*`, for what cannot be read and for more than 16 names: such an answer fits no other request.
    pub fn read(response: &[Field<'_>]) -> Option<Vary> {
        Vary::from_names(values(response, "vary").flat_map(members))
    }

    /// As [`Vary::read`].
    pub fn from_names<'a>(names: impl Iterator<Item = &'a [u8]>) -> Option<Vary> {
        let mut list: Vec<Box<[u8]>> = Vec::new();
        for name in names {
            let name = name.to_ascii_lowercase().into_boxed_slice();
            if &*name == b"*" || !is_token(&name) || list.len() == NAMES_MAX && !list.contains(&name) {
                return None;
            }
            if !list.contains(&name) {
                list.push(name);
            }
        }
        list.sort_unstable();
        Some(Vary { names: list.into() })
    }

    /// As it was kept: names that [`Vary::read`] or [`Vary::within_partition`] gave.
    pub fn from_kept<'a>(names: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Vary> {
        let vary = Vary::from_names(names.clone().filter(|name| *name != PARTITION))?;
        let vary = if names.clone().any(|name| name == PARTITION) { vary.partitioned() } else { vary };
        vary.names().eq(names).then_some(vary)
    }

    /// With the partition, if the request is in one.
    pub fn within_partition(self, request: &[Field<'_>]) -> Vary {
        if request.iter().any(|field| field.0 == PARTITION) { self.partitioned() } else { self }
    }

    fn partitioned(self) -> Vary {
        if self.is_partitioned() {
            return self;
        }
        // Always first, so that equal sets are equal lists.
        let mut names: Vec<Box<[u8]>> = self.names.to_vec();
        names.insert(0, PARTITION.into());
        Vary { names: names.into() }
    }

    fn is_partitioned(&self) -> bool {
        self.names.first().is_some_and(|name| **name == *PARTITION)
    }

    pub fn nothing() -> Vary {
        Vary { names: Arc::new([]) }
    }

    pub fn names(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.names.iter().map(AsRef::as_ref)
    }

    pub fn names_accept_encoding(&self) -> bool {
        self.names().any(|name| name == b"accept-encoding")
    }

    /// Whether the request says the same in those fields.
    pub fn fits(&self, request: &[Field<'_>], secondary: &[u8]) -> bool {
        match &*self.names {
            // Nearly every answer depends on nothing but where it belongs, which is told without making a text of it.
            [only] if **only == *PARTITION => {
                let kept = secondary.strip_prefix(b"+").and_then(|kept| kept.get(4..));
                kept == partition_of(request)
            }
            _ => self.secondary(request).as_deref() == Some(secondary),
        }
    }

    /// What the request says in those fields, so that equal bytes mean the same answer. `None` beyond 8 KiB, and for a
    /// request in a partition when the answer is in none.
    pub fn secondary(&self, request: &[Field<'_>]) -> Option<Box<[u8]>> {
        let partition = partition_of(request);
        if partition.is_some() && !self.is_partitioned() {
            return None;
        }
        let mut key = Vec::new();
        for name in self.names() {
            if name == PARTITION {
                // As it is: it is no list, and what clients say can be a part of it.
                match partition {
                    Some(partition) => {
                        key.push(b'+');
                        key.extend_from_slice(&(partition.len() as u32).to_be_bytes());
                        key.extend_from_slice(partition);
                    }
                    None => key.push(b'-'),
                }
            } else if name == b"accept-encoding" {
                key.push(b'0' + accepted_codings(request));
            } else {
                append(&mut key, name, request);
            }
            if key.len() > SECONDARY_BYTES_MAX {
                return None;
            }
        }
        Some(key.into_boxed_slice())
    }
}

/// Where the request belongs; the last that is said.
fn partition_of<'a>(request: &[Field<'a>]) -> Option<&'a [u8]> {
    request.iter().rev().find(|field| field.0 == PARTITION).map(|field| field.1)
}

/// One bit for each of zstd, br and gzip that the request accepts. Preferences among them are left out: whichever the
/// upstream chose for one client, another with the same set can read.
pub fn accepted_codings(request: &[Field<'_>]) -> u8 {
    let (mut accepted, mut refused, mut is_rest_accepted) = (0_u8, 0_u8, false);
    for member in values(request, "accept-encoding").flat_map(members) {
        let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let coding = parts.next().unwrap_or_default();
        let coding = if coding.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { coding };
        let is_accepted = !parts.any(is_zero_weight);
        let bit = CODINGS.iter().position(|known| coding.eq_ignore_ascii_case(known)).map_or(0, |place| 1 << place);
        if coding == b"*" {
            is_rest_accepted = is_accepted;
        } else if is_accepted {
            accepted |= bit;
        } else {
            refused |= bit;
        }
    }
    let rest = if is_rest_accepted { 0b111 } else { 0 };
    (accepted | rest) & !refused
}

/// A weight that cannot be read counts as zero: sending what is not wanted is worse than sending it plain.
fn is_zero_weight(parameter: &[u8]) -> bool {
    let Some((name, value)) = parameter.split_at_checked(2) else { return false };
    let is_positive = match value.trim_ascii() {
        [b'1'] => true,
        [b'1', b'.', rest @ ..] => rest.len() <= 3 && rest.iter().all(|digit| *digit == b'0'),
        [b'0', b'.', rest @ ..] => {
            rest.len() <= 3 && rest.iter().all(u8::is_ascii_digit) && rest.iter().any(|digit| *digit != b'0')
        }
        _ => false,
    };
    name.eq_ignore_ascii_case(b"q=") && !is_positive
}

/// The lines of a field as one list, without blanks around commas. Nothing and an empty line are told apart. Lengths
/// keep fields from running into each other.
fn append(key: &mut Vec<u8>, name: &[u8], request: &[Field<'_>]) {
    let lines = || request.iter().filter(|field| field.0.eq_ignore_ascii_case(name)).map(|field| field.1);
    if lines().next().is_none() {
        key.push(b'-');
        return;
    }
    let start = key.len();
    key.extend_from_slice(b"+\0\0\0\0");
    for member in lines().flat_map(members) {
        if key.len() + member.len() > start + 2 * SECONDARY_BYTES_MAX {
            // Already more than the caller takes.
            key.resize(start + 2 * SECONDARY_BYTES_MAX, 0);
            return;
        }
        if key.len() > start + 5 {
            key.push(b',');
        }
        key.extend_from_slice(member);
    }
    let length = (key.len() - start - 5) as u32;
    key[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}
