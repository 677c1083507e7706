//! Asking the upstream whether a stored answer still holds (RFC 9111 section 4.3.1), and what a 304 changes about it
//! (sections 3.2 and 4.3.4). That it has to be asked was decided in `serving`.

use super::storing::{is_stored, named_by_connection};
use crate::message::{Field, ResponseHead, Sole, StoredHead, has, sole};

/// Fields of a client's request that are not to be sent on when the cache asks for the whole: what comes back is for
/// others too.
pub const REPLACED_FIELDS: [&str; 4] = ["if-none-match", "if-modified-since", "if-range", "range"];
/// What a 304 says about these is not about the stored body (RFC 9111 section 3.2).
const KEPT_FIELDS: [&[u8]; 3] = [b"content-encoding", b"content-length", b"content-range"];

/// The fields to ask with, instead of [`REPLACED_FIELDS`]. None when the stored answer has no validator.
pub fn condition(stored: &StoredHead) -> impl Iterator<Item = Field<'_>> {
    let tag = stored.get("etag").map(|tag| (&b"if-none-match"[..], tag.as_ref()));
    let modified = stored.get("last-modified").map(|date| (&b"if-modified-since"[..], date.as_ref()));
    tag.into_iter().chain(modified)
}

/// Whether a 304 is about what is stored (RFC 9111 section 4.3.4). If not, the upstream is to be asked anew without
/// condition.
pub fn is_about(stored: &StoredHead, not_modified: ResponseHead<'_>) -> bool {
    let agrees = |name: &'static str, compare: fn(&[u8], &[u8]) -> bool| match sole(not_modified.fields, name) {
        Sole::Absent => None,
        Sole::One(value) => Some(stored.get(name).is_some_and(|ours| compare(ours, value))),
        Sole::Conflicting => Some(false),
    };
    let by_tag = agrees("etag", super::answer::weakly_equal);
    by_tag.or_else(|| agrees("last-modified", |ours, value| ours == value)).unwrap_or(true)
}

/// The fields of the stored answer after a 304: its own where the 304 says nothing, and the new ones. Whether the
/// result may still be stored, and on which terms, is up to `storing`.
pub fn updated<'a>(stored: &'a StoredHead, not_modified: ResponseHead<'a>) -> Vec<Field<'a>> {
    let fields = not_modified.fields;
    let named = named_by_connection(fields);
    // `Age` is not kept but counts for the new terms.
    let is_taken = |name: &[u8]| (is_stored(name, &named) || name == b"age") && !KEPT_FIELDS.contains(&name);
    let mut taken: Vec<&[u8]> = fields.iter().map(|field| field.0).filter(|name| is_taken(name)).collect();
    taken.sort_unstable();
    let mut result: Vec<Field<'a>> = stored.fields().filter(|field| taken.binary_search(&field.0).is_err()).collect();
    // A 304 without date is from now; with the date that is stored, the answer would stay as old as it was.
    if !has(fields, "date") {
        result.retain(|field| field.0 != b"date");
    }
    result.extend(fields.iter().filter(|field| is_taken(field.0)));
    result
}

/// The fields of a 304 that are for the client alone whose request it answers: those that must not be kept, as of any
/// other answer.
pub fn withheld<'a>(not_modified: &'a [Field<'a>], kept: &'a StoredHead) -> impl Iterator<Item = Field<'a>> {
    super::storing::withheld(not_modified, kept).filter(|field| !KEPT_FIELDS.contains(&field.0))
}

#[cfg(test)]
mod tests;
