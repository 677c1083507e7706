//! What a key may look like, and what becomes of it: names of files here, names of Kubernetes secrets there. Both ways
//! round, and no two keys meet. Keys of Redis are the keys themselves. Nothing that a host name of a hostile client
//! brings can leave the store's folder.

use crate::fault::Problem;
use aws_lc_rs::digest;
use std::fmt;
use std::path::PathBuf;

/// A segment is the name of a file or folder, and no file system takes longer ones.
pub const SEGMENT_BYTES_MAX: usize = 255;
pub const KEY_BYTES_MAX: usize = 1024;

/// `certs/*.example.org/key.pem`: segments of `a-z 0-9 . _ * @ -`, none of which is empty or begins with a dot.
///
/// Names that begin with a dot are the store's own, so `.locks` and unfinished files never meet a key, and `..` is no
/// key at all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn parse(text: &str) -> Result<Key, Problem> {
        if text.len() > KEY_BYTES_MAX {
            return Err(Problem::BadKey { why: "it is too long" });
        }
        for segment in text.split('/') {
            if segment.is_empty() {
                return Err(Problem::BadKey { why: "a segment of it is empty" });
            }
            if segment.starts_with('.') {
                return Err(Problem::BadKey { why: "a segment of it begins with a dot" });
            }
            if segment.len() > SEGMENT_BYTES_MAX {
                return Err(Problem::BadKey { why: "a segment of it is too long" });
            }
            if !segment.bytes().all(is_allowed) {
                return Err(Problem::BadKey { why: "only `a` to `z`, `0` to `9`, `.`, `_`, `*`, `@` and `-` may stand in it" });
            }
        }
        Ok(Key(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Below the store's folder. `*` is no pleasure in a shell, so files say `+` where keys say `*`.
    pub(crate) fn to_path(&self) -> PathBuf {
        self.0.split('/').map(segment_to_file_name).collect()
    }

    /// One name for all segments: for locks, which have no folders above them.
    pub(crate) fn to_flat_file_name(&self) -> String {
        let flat: String = self.0.chars().map(|c| if c == '/' { '=' } else { segment_character(c) }).collect();
        if flat.len() <= SEGMENT_BYTES_MAX {
            return flat;
        }
        // Whole names never have a `#`, so a shortened one meets none of them.
        format!("{}#{}", &flat[..READABLE_BYTES_OF_LONG_NAME], self.digest())
    }

    /// 128 bits of SHA-256 in hexadecimal, for places whose names are too short for a key.
    pub(crate) fn digest(&self) -> String {
        let digest = digest::digest(&digest::SHA256, self.0.as_bytes());
        let mut first_half = [0; 16];
        first_half.copy_from_slice(&digest.as_ref()[..16]);
        format!("{:032x}", u128::from_be_bytes(first_half))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const READABLE_BYTES_OF_LONG_NAME: usize = 200;

/// The segment of which this is the file name; `None` for files that are no part of a key.
pub(crate) fn file_name_to_segment(file_name: &str) -> Option<String> {
    let segment = file_name.replace('+', "*");
    // `*` itself is never written, so a file that has it would be a second name of the same key.
    let is_ours = !file_name.contains('*') && Key::parse(&segment).is_ok_and(|key| !key.as_str().contains('/'));
    is_ours.then_some(segment)
}

fn segment_to_file_name(segment: &str) -> String {
    segment.chars().map(segment_character).collect()
}

fn segment_character(character: char) -> char {
    if character == '*' { '+' } else { character }
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'*' | b'@' | b'-')
}

#[cfg(test)]
mod tests {
    use super::{Key, SEGMENT_BYTES_MAX, file_name_to_segment};
    use proptest::prelude::*;
    use std::path::Component;

    fn check(text: &str, expected: Result<&str, ()>) {
        let path = Key::parse(text).map(|key| key.to_path().display().to_string()).map_err(|_| ());
        assert_eq!(path, expected.map(String::from), "{text}");
    }

    #[test]
    fn keys_become_paths() {
        check("account", Ok("account"));
        check("certs/example.org/cert.pem", Ok("certs/example.org/cert.pem"));
        check("certs/*.example.org/key_1", Ok("certs/+.example.org/key_1"));
        check("ca/me@example.org", Ok("ca/me@example.org"));
        check("a..b/c", Ok("a..b/c"));
    }

    #[test]
    fn what_leads_elsewhere_is_no_key() {
        for text in [
            "", "/", "a/", "/a", "a//b", ".", "..", "../a", "a/../b", ".locks/a", "a/.new", "A", "a b", "ä", "a\0", "a\\b",
            "a+b", "a=b",
        ] {
            check(text, Err(()));
        }
        check(&"a".repeat(SEGMENT_BYTES_MAX + 1), Err(()));
        check(&"a/".repeat(1000), Err(()));
    }

    proptest! {
        #[test]
        fn whatever_is_a_key_stays_below_the_folder_and_comes_back(text in "[a-z0-9._*@/+-]{0,40}|\\PC{0,20}") {
            if let Ok(key) = Key::parse(&text) {
                let path = key.to_path();
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                let segments: Option<Vec<String>> =
                    path.components().map(|part| file_name_to_segment(part.as_os_str().to_str()?)).collect();
                prop_assert_eq!(segments.map(|segments| segments.join("/")), Some(text));
            }
        }

        #[test]
        fn two_keys_have_two_names(one in "[a-z*]{1,3}(/[a-z._*]{1,3}){0,2}", other in "[a-z*]{1,3}(/[a-z._*]{1,3}){0,2}") {
            if let (Ok(one), Ok(other)) = (Key::parse(&one), Key::parse(&other)) {
                prop_assert_eq!(one == other, one.to_path() == other.to_path());
                prop_assert_eq!(one == other, one.to_flat_file_name() == other.to_flat_file_name());
                prop_assert_eq!(one == other, one.digest() == other.digest());
            }
        }

        #[test]
        fn long_names_of_locks_are_shortened_and_stay_apart(end in "[a-z]{1,8}", other_end in "[a-z]{1,8}") {
            let name = |end: &str| {
                let key = Key::parse(&format!("{}/{}/{end}", "a".repeat(250), "b".repeat(250))).expect("a key");
                key.to_flat_file_name()
            };
            prop_assert!(name(&end).len() <= SEGMENT_BYTES_MAX);
            prop_assert_eq!(end == other_end, name(&end) == name(&other_end));
        }
    }
}
