//! What a writer has read: a generation, and a mark of its text. Numbers begin at 1 in each process, so a number alone,
//! read from the process before, may be that of another configuration. `admin` sends tags as `ETag` and takes them as
//! `If-Match`.

use crate::generations::WrittenFile;
use std::fmt;
use std::str::FromStr;

/// Hexadecimal digits of a mark.
const MARK_DIGITS: usize = 8;

/// Written `5-0a1b2c3d`, or `5` by somebody who knows the number only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    pub generation: u64,
    /// Of the names and texts of its files; the same in every process.
    pub mark: Option<u32>,
}

impl Tag {
    pub fn of_number(generation: u64) -> Tag {
        Tag { generation, mark: None }
    }

    pub(crate) fn new(generation: u64, mark: u32) -> Tag {
        Tag { generation, mark: Some(mark) }
    }

    /// Whether it is what `running` is; without a mark the number decides.
    pub(crate) fn is_of(&self, running: &Tag) -> bool {
        self.generation == running.generation && (self.mark.is_none() || self.mark == running.mark)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mark {
            Some(mark) => write!(f, "{}-{mark:08x}", self.generation),
            None => self.generation.fmt(f),
        }
    }
}

/// No tag of this process or another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTag;

impl FromStr for Tag {
    type Err = NoTag;

    fn from_str(text: &str) -> Result<Tag, NoTag> {
        let (number, mark) = match text.split_once('-') {
            Some((number, mark)) => (number, Some(mark)),
            None => (text, None),
        };
        // Parsing takes a sign.
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let is_mark = |mark: &str| mark.len() == MARK_DIGITS && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_number || mark.is_some_and(|mark| !is_mark(mark)) {
            return Err(NoTag);
        }
        let mark = mark.map(|mark| u32::from_str_radix(mark, 16)).transpose().map_err(|_| NoTag)?;
        Ok(Tag { generation: number.parse().map_err(|_| NoTag)?, mark })
    }
}

/// The mark of files. Tells texts apart that differ by accident, not ones that somebody has made alike: who may write
/// needs no trick.
pub(crate) fn mark_of(files: &[WrittenFile]) -> u32 {
    let mut mark = Mark::default();
    for file in files {
        mark.add(file.name.as_bytes());
        mark.add(file.text.as_bytes());
    }
    mark.finish()
}

/// Four sums beside each other, so that none waits for another: a text of four megabytes takes a quarter of a
/// millisecond.
#[derive(Default)]
struct Mark([u64; 4]);

impl Mark {
    fn add(&mut self, bytes: &[u8]) {
        // Where one ends and the next begins counts.
        self.mix([bytes.len() as u64, 0, 0, 0]);
        let (blocks, rest) = bytes.as_chunks::<32>();
        for block in blocks {
            self.mix(words(block));
        }
        let mut last = [0; 32];
        for (place, byte) in last.iter_mut().zip(rest) {
            *place = *byte;
        }
        self.mix(words(&last));
    }

    /// Multiplying moves differences up, the shift moves them down again. No step loses one.
    fn mix(&mut self, words: [u64; 4]) {
        for (sum, word) in self.0.iter_mut().zip(words) {
            *sum = (*sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *sum ^= *sum >> 29;
        }
    }

    fn finish(self) -> u32 {
        let sum = self.0.iter().fold(0_u64, |all, sum| (all.rotate_left(17) ^ sum).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (sum >> 32) as u32 ^ sum as u32
    }
}

fn words(block: &[u8; 32]) -> [u64; 4] {
    let (words, _) = block.as_chunks::<8>();
    std::array::from_fn(|place| words.get(place).map_or(0, |word| u64::from_be_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::{NoTag, Tag, mark_of};
    use crate::generations::WrittenFile;

    fn of(files: &[(&str, &str)]) -> Tag {
        let file =
            |(name, text): &(&str, &str)| WrittenFile { name: (*name).into(), directory: "/".into(), text: (*text).into() };
        Tag::new(1, mark_of(&files.iter().map(file).collect::<Vec<_>>()))
    }

    #[test]
    fn tags_read_as_they_are_written() {
        let check = |text: &str, expected: Result<Tag, NoTag>| {
            assert_eq!(text.parse(), expected, "{text}");
            if let Ok(tag) = expected {
                assert_eq!(tag.to_string(), text);
            }
        };
        check("5", Ok(Tag::of_number(5)));
        check("5-0a1b2c3d", Ok(Tag { generation: 5, mark: Some(0x0a1b_2c3d) }));
        for text in
            ["", "+5", "-", "5-", "5-0a1b2c3", "5-0a1b2c3d4", "5-+a1b2c3d", "-0a1b2c3d", "5-0a1b2c3d-", "99999999999999999999"]
        {
            check(text, Err(NoTag));
        }
    }

    #[test]
    fn every_text_and_name_counts_and_no_process_does() {
        let text = "site \"http://:80\" { respond 200 }\n";
        // Of a process of another time.
        assert_eq!(of(&[("/a.kdl", text)]).to_string(), "1-1668b49e");
        let check = |files: &[(&str, &str)]| assert_ne!(of(files), of(&[("/a.kdl", text)]), "{files:?}");
        check(&[("/b.kdl", text)]);
        check(&[("/a.kdl", &text.replace("80", "81"))]);
        check(&[("/a.kdl", &text[..text.len() - 1])]);
        check(&[("/a.kdl", &format!("{text}\0"))]);
        check(&[("/a.kdl", text), ("/b.kdl", "")]);
        check(&[]);
    }

    #[test]
    fn a_number_alone_is_enough_for_who_knows_no_more() {
        let running = of(&[("/a.kdl", "a")]);
        let check = |expected: Tag, is_of: bool| assert_eq!(expected.is_of(&running), is_of, "{expected}");
        check(running, true);
        check(Tag::of_number(1), true);
        check(Tag::of_number(2), false);
        check(of(&[("/a.kdl", "b")]), false);
        check(Tag { generation: 2, ..running }, false);
    }
}
