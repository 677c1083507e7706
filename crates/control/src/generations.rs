//! The configurations that ran, the newest last: what was written, when and by what it came. Bounded in number and in
//! bytes. Texts are kept and not what was made of them, so that twenty generations of ten thousand sites are some
//! megabytes.

use jiff::Timestamp;
use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_api::GenerationFile;

/// Generations that can be looked at and gone back to.
pub const GENERATIONS_MAX: usize = 20;
/// Of all texts together; beyond it the oldest generations go first.
const TEXT_BYTES_MAX: usize = 128 << 20;

/// What a generation was written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// A path, or `<stdin>` and the like.
    pub name: String,
    /// Where relative paths in it begin.
    pub directory: PathBuf,
    pub text: Arc<str>,
}

impl WrittenFile {
    /// A text that was piped in or sent has a name that is no path.
    pub fn is_on_disk(&self) -> bool {
        std::path::Path::new(&self.name).is_absolute()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Start,
    Signal,
    Watch,
    /// `tidegate apply`, with the file.
    Apply(String),
    /// A change through the API, in its own words.
    Api(String),
    RolledBack {
        from: u64,
        to: u64,
        why: String,
    },
    Upgrade,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Start => f.write_str("start"),
            Origin::Signal => f.write_str("SIGHUP"),
            Origin::Watch => f.write_str("the file changed"),
            Origin::Apply(file) => write!(f, "apply {file}"),
            Origin::Api(what) => write!(f, "API: {what}"),
            Origin::RolledBack { from, to, why } => write!(f, "back from {from} to {to}: {why}"),
            Origin::Upgrade => f.write_str("upgrade"),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Generation {
    pub number: u64,
    pub applied: Timestamp,
    pub origin: Origin,
    /// One line: what it changed.
    pub summary: String,
    /// The main file first.
    pub files: Vec<WrittenFile>,
}

impl Generation {
    /// As the API has it. `running`: the number of the one that runs.
    pub fn report(&self, running: u64) -> tidegate_api::Generation {
        let Generation { number, applied, origin, summary, files } = self;
        let file = |file: &WrittenFile| GenerationFile { name: file.name.clone(), bytes: file.text.len() };
        tidegate_api::Generation {
            number: *number,
            applied: *applied,
            origin: origin.to_string(),
            summary: summary.clone(),
            running: *number == running,
            files: files.iter().map(file).collect(),
        }
    }

    fn text_bytes(&self) -> usize {
        self.files.iter().map(|file| file.text.len()).sum()
    }
}

#[derive(Debug, Default)]
pub struct Generations {
    known: VecDeque<Generation>,
}

impl Generations {
    /// Texts that did not change are shared with the generation before.
    pub fn add(&mut self, mut generation: Generation) {
        if let Some(before) = self.known.back() {
            for file in &mut generation.files {
                if let Some(same) = before.files.iter().find(|known| known.name == file.name && known.text == file.text) {
                    file.text = same.text.clone();
                }
            }
        }
        self.known.push_back(generation);
        let bytes = |known: &VecDeque<Generation>| known.iter().map(Generation::text_bytes).sum::<usize>();
        while self.known.len() > GENERATIONS_MAX || (self.known.len() > 2 && bytes(&self.known) > TEXT_BYTES_MAX) {
            self.known.pop_front();
        }
    }

    pub fn of_number(&self, number: u64) -> Option<&Generation> {
        self.known.iter().find(|generation| generation.number == number)
    }

    /// What a roll-back without a number goes to: the one before, and after a roll-back the one before that which was
    /// gone back to.
    pub fn previous(&self) -> Option<u64> {
        let newest = self.known.back()?;
        let from = match &newest.origin {
            Origin::RolledBack { to, .. } => *to,
            Origin::Start | Origin::Signal | Origin::Watch | Origin::Apply(_) | Origin::Api(_) | Origin::Upgrade => newest.number,
        };
        self.known.iter().rev().map(|generation| generation.number).find(|number| *number < from)
    }

    pub fn newest(&self) -> Option<&Generation> {
        self.known.back()
    }

    pub fn newest_mut(&mut self) -> Option<&mut Generation> {
        self.known.back_mut()
    }

    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Generation> {
        self.known.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{GENERATIONS_MAX, Generation, Generations, Origin, WrittenFile};
    use jiff::Timestamp;
    use std::sync::Arc;

    fn generation(number: u64, text: &str) -> Generation {
        let file = WrittenFile { name: "a.kdl".into(), directory: "/".into(), text: text.into() };
        Generation { number, applied: Timestamp::UNIX_EPOCH, origin: Origin::Signal, summary: String::new(), files: vec![file] }
    }

    #[test]
    fn the_last_twenty_are_kept_and_equal_texts_once() {
        let mut generations = Generations::default();
        for number in 1..=30 {
            generations.add(generation(number, if number < 25 { "same" } else { "other" }));
        }
        let numbers: Vec<_> = generations.all().map(|generation| generation.number).collect();
        assert_eq!(numbers, (11..=30).collect::<Vec<_>>());
        assert_eq!(numbers.len(), GENERATIONS_MAX);
        assert!(generations.of_number(10).is_none() && generations.of_number(11).is_some());
        assert_eq!(generations.previous(), Some(29));
        generations
            .add(Generation { origin: Origin::RolledBack { from: 30, to: 29, why: String::new() }, ..generation(31, "x") });
        assert_eq!(generations.previous(), Some(28));
        let texts: Vec<_> = generations.all().map(|generation| generation.files[0].text.clone()).collect();
        assert!(Arc::ptr_eq(&texts[0], &texts[4]) && !Arc::ptr_eq(&texts[0], &texts[18]));
    }
}
