//! The tags that an answer is purged by: `Surrogate-Key`, separated by blanks, and `Cache-Tag`, separated by commas.
//! Purging by them is the store's, and the disk's.

use crate::message::{Field, members, values};

/// Tags of one answer. One with more is not stored, since a purge by those left out would miss it.
pub const TAGS_MAX: usize = 64;
/// Bytes of one tag.
pub const TAG_BYTES_MAX: usize = 256;

/// In order, each once; `None` beyond the bounds.
pub fn read(response: &[Field<'_>]) -> Option<Box<[Box<[u8]>]>> {
    let by_blanks = values(response, "surrogate-key").flat_map(|value| value.split(u8::is_ascii_whitespace));
    let by_commas = values(response, "cache-tag").flat_map(members);
    let mut tags: Vec<&[u8]> = Vec::new();
    for tag in by_blanks.chain(by_commas).filter(|tag| !tag.is_empty()) {
        if tag.len() > TAG_BYTES_MAX {
            return None;
        }
        if !tags.contains(&tag) {
            if tags.len() == TAGS_MAX {
                return None;
            }
            tags.push(tag);
        }
    }
    tags.sort_unstable();
    Some(tags.into_iter().map(Box::from).collect())
}

#[cfg(test)]
mod tests {
    use super::{TAG_BYTES_MAX, TAGS_MAX, read};

    #[test]
    fn tags_are_read_from_both_fields_and_bounded() {
        let check = |keys: &str, tags: &str, expected: Option<&[&str]>| {
            let found = read(&[(b"surrogate-key", keys.as_bytes()), (b"cache-tag", tags.as_bytes())]);
            let expected = expected.map(|tags| tags.iter().map(|tag| Box::from(tag.as_bytes())).collect());
            assert_eq!(found, expected, "{keys} {tags}");
        };
        check("", "", Some(&[]));
        check("b  a", "c d,a,", Some(&["a", "b", "c d"]));
        check(&"x".repeat(TAG_BYTES_MAX + 1), "", None);
        let many = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        assert!(read(&[(b"surrogate-key", many(TAGS_MAX).as_bytes())]).is_some());
        assert!(read(&[(b"surrogate-key", many(TAGS_MAX + 1).as_bytes())]).is_none());
        assert!(read(&[(b"surrogate-key", "a ".repeat(10_000).as_bytes())]).is_some());
    }
}
