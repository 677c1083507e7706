//! The configurations that ran, the newest last: what was written, when and by what it came. Bounded in number, age and
//! bytes. Texts are kept and not what was made of them, and of all but the newest only what differs, so that twenty
//! generations of ten thousand sites are one text of some megabytes.

use crate::tag::mark_of;
use jiff::{SignedDuration, Timestamp};
use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tidegate_api::GenerationFile;
use tidegate_config::in_common;

/// Generations that can be looked at and gone back to, whatever their age.
pub const GENERATIONS_MIN: usize = 20;
/// And at most; a program that edits once a minute has half a day of them.
pub const GENERATIONS_MAX: usize = 1000;
/// Beyond the last twenty, those that ran within this time.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);
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
    /// Containers say something else by their labels. The files are those of the generation before.
    Containers,
    /// Objects of a cluster say something else. The files are those of the generation before.
    Objects,
}

impl Origin {
    /// Whether the files are those of the generation before, so that there is nothing to go back to.
    fn is_of_additions(&self) -> bool {
        match self {
            Origin::Containers | Origin::Objects => true,
            Origin::Start
            | Origin::Signal
            | Origin::Watch
            | Origin::Apply(_)
            | Origin::Api(_)
            | Origin::RolledBack { .. }
            | Origin::Upgrade => false,
        }
    }
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
            Origin::Containers => f.write_str("labels of containers"),
            Origin::Objects => f.write_str("objects of the cluster"),
        }
    }
}

/// A generation whose files are a `F` each: the text itself, for the newest, or how it came to be.
#[derive(Debug, Clone)]
pub struct Generation<F = WrittenFile> {
    pub number: u64,
    pub applied: Timestamp,
    pub origin: Origin,
    /// One line: what it changed.
    pub summary: String,
    /// The main file first.
    pub files: Vec<F>,
}

impl<F> Generation<F> {
    fn with_files<G>(&self, files: Vec<G>) -> Generation<G> {
        let Generation { number, applied, origin, summary, .. } = self;
        Generation { number: *number, applied: *applied, origin: origin.clone(), summary: summary.clone(), files }
    }

    /// As the API has it. `running`: the number of the one that runs.
    fn report(&self, running: u64, file: impl Fn(&F) -> GenerationFile) -> tidegate_api::Generation {
        tidegate_api::Generation {
            number: self.number,
            applied: self.applied,
            origin: self.origin.to_string(),
            summary: self.summary.clone(),
            running: self.number == running,
            files: self.files.iter().map(file).collect(),
        }
    }
}

/// A file of a generation that another one followed.
#[derive(Debug, Clone)]
struct PastFile {
    name: String,
    directory: PathBuf,
    bytes: usize,
    text: PastText,
}

/// A change of one server among a hundred thousand is some bytes, and the text some megabytes.
#[derive(Debug, Clone)]
enum PastText {
    /// The next generation had no such file.
    Whole(Arc<str>),
    /// So much of the text in the next generation at its beginning and its end, and this between them.
    Differs { front: usize, middle: Box<str>, back: usize },
}

impl PastFile {
    fn of(file: &WrittenFile, next: &[WrittenFile]) -> PastFile {
        let text = match text_of(next, &file.name) {
            None => PastText::Whole(Arc::clone(&file.text)),
            Some(next) => {
                let (mut front, mut back) = in_common(&file.text, next);
                let are_ends =
                    |of: &dyn Fn(&str) -> usize| [&*file.text, next].iter().all(|text| text.is_char_boundary(of(text)));
                while !are_ends(&|_| front) {
                    front -= 1;
                }
                while !are_ends(&|text| text.len() - back) {
                    back -= 1;
                }
                PastText::Differs { front, middle: file.text[front..file.text.len() - back].into(), back }
            }
        };
        PastFile { name: file.name.clone(), directory: file.directory.clone(), bytes: file.text.len(), text }
    }

    fn written(&self, next: &[WrittenFile]) -> WrittenFile {
        let text = match (&self.text, text_of(next, &self.name)) {
            (PastText::Whole(text), _) => Arc::clone(text),
            (PastText::Differs { front, middle, back }, Some(next)) if front + back == next.len() && middle.is_empty() => {
                Arc::clone(next)
            }
            (PastText::Differs { front, middle, back }, Some(next)) => {
                [&next[..*front], middle, &next[next.len() - back..]].concat().into()
            }
            (PastText::Differs { .. }, None) => unreachable!("the next generation has what this one differs from"),
        };
        WrittenFile { name: self.name.clone(), directory: self.directory.clone(), text }
    }

    fn kept_bytes(&self) -> usize {
        match &self.text {
            PastText::Whole(text) => text.len(),
            PastText::Differs { middle, .. } => middle.len(),
        }
    }
}

fn text_of<'f>(files: &'f [WrittenFile], name: &str) -> Option<&'f Arc<str>> {
    files.iter().find(|file| file.name == name).map(|file| &file.text)
}

#[derive(Debug, Default)]
pub struct Generations {
    /// The oldest first. Each differs from the one behind it, and the last from the newest.
    past: VecDeque<Generation<PastFile>>,
    newest: Option<Generation>,
    /// Of the newest one's files, once somebody has asked.
    mark: OnceLock<u32>,
}

impl Generations {
    pub fn add(&mut self, generation: Generation) {
        // One after the other they differ in nothing that could be gone back to, and there may be one a minute.
        let is_one_more = |before: &Generation| before.origin == generation.origin && generation.origin.is_of_additions();
        let before = self.newest.take().filter(|before| !is_one_more(before));
        if let Some(before) = before {
            let files = before.files.iter().map(|file| PastFile::of(file, &generation.files)).collect();
            self.past.push_back(before.with_files(files));
        }
        let own: usize = generation.files.iter().map(|file| file.text.len()).sum();
        let oldest = generation.applied.checked_sub(KEPT_FOR).unwrap_or(Timestamp::MIN);
        self.newest = Some(generation);
        self.mark = OnceLock::new();
        let kept = |past: &VecDeque<Generation<PastFile>>| -> usize {
            past.iter().flat_map(|generation| &generation.files).map(PastFile::kept_bytes).sum()
        };
        let is_one_too_many = |past: &VecDeque<Generation<PastFile>>| {
            // The first ran until the second was applied.
            let has_aged = past.get(1).is_some_and(|next| next.applied < oldest);
            let count = past.len() + 1;
            count > GENERATIONS_MAX
                || (count > GENERATIONS_MIN && has_aged)
                || (past.len() > 1 && own + kept(past) > TEXT_BYTES_MAX)
        };
        while is_one_too_many(&self.past) {
            self.past.pop_front();
        }
    }

    /// The newest is written in another way, and means the same.
    pub fn rewrite_newest(&mut self, files: Vec<WrittenFile>) {
        let Some(newest) = &mut self.newest else { return };
        if let Some(before) = self.past.back_mut() {
            let written = before.files.iter().map(|file| file.written(&newest.files));
            before.files = written.map(|file| PastFile::of(&file, &files)).collect();
        }
        newest.files = files;
        self.mark = OnceLock::new();
    }

    /// What tells the text of the newest one from others.
    pub fn mark(&self) -> u32 {
        *self.mark.get_or_init(|| mark_of(self.newest().map_or(&[], |newest| &newest.files)))
    }

    /// The files of a generation that is known.
    pub fn files_of(&self, number: u64) -> Option<Vec<WrittenFile>> {
        let newest = self.newest.as_ref()?;
        if newest.number == number {
            return Some(newest.files.clone());
        }
        let position = self.past.iter().position(|generation| generation.number == number)?;
        let before = |next: Vec<WrittenFile>, generation: &Generation<PastFile>| {
            generation.files.iter().map(|file| file.written(&next)).collect()
        };
        Some(self.past.iter().skip(position).rev().fold(newest.files.clone(), before))
    }

    /// What a roll-back without a number goes to: the one before, and after a roll-back the one before that which was
    /// gone back to.
    pub fn previous(&self) -> Option<u64> {
        let newest = self.newest.iter().map(|generation| (&generation.origin, generation.number));
        let past = self.past.iter().rev().map(|generation| (&generation.origin, generation.number));
        // Labels say what they say, whatever is gone back to: what somebody changed is the files.
        let mut by_somebody = newest.chain(past).filter(|(origin, _)| !origin.is_of_additions());
        let from = match by_somebody.next()? {
            (Origin::RolledBack { to, .. }, _) => *to,
            (
                Origin::Start
                | Origin::Signal
                | Origin::Watch
                | Origin::Apply(_)
                | Origin::Api(_)
                | Origin::Upgrade
                | Origin::Containers
                | Origin::Objects,
                number,
            ) => number,
        };
        self.past.iter().rev().map(|generation| generation.number).find(|number| *number < from)
    }

    pub fn newest(&self) -> Option<&Generation> {
        self.newest.as_ref()
    }

    /// Of all known generations.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        let past = self.past.iter().flat_map(|generation| &generation.files).map(|file| file.name.as_str());
        past.chain(self.newest.iter().flat_map(|generation| &generation.files).map(|file| file.name.as_str()))
    }

    /// As the API has them, the oldest first. `running`: the number of the one that runs.
    pub fn reports(&self, running: u64) -> Vec<tidegate_api::Generation> {
        let past = |file: &PastFile| GenerationFile { name: file.name.clone(), bytes: file.bytes };
        let now = |file: &WrittenFile| GenerationFile { name: file.name.clone(), bytes: file.text.len() };
        let past = self.past.iter().map(|generation| generation.report(running, past));
        past.chain(self.newest.iter().map(|generation| generation.report(running, now))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{GENERATIONS_MAX, GENERATIONS_MIN, Generation, Generations, Origin, WrittenFile};
    use jiff::Timestamp;

    /// Applied a day after the one before.
    fn generation(number: u64, text: &str) -> Generation {
        let file = WrittenFile { name: "a.kdl".into(), directory: "/".into(), text: text.into() };
        let applied = Timestamp::from_second(number as i64 * 86_400).expect("a time");
        Generation { number, applied, origin: Origin::Signal, summary: String::new(), files: vec![file] }
    }

    #[test]
    fn those_of_a_month_are_known_and_not_too_many() {
        let numbers = |generations: &Generations| {
            let reports = generations.reports(0);
            (reports.first().map(|first| first.number), reports.len())
        };
        let mut generations = Generations::default();
        for number in 1..=100 {
            generations.add(generation(number, "a"));
        }
        // The first of them still ran thirty days ago.
        assert_eq!(numbers(&generations), (Some(69), 32));
        let late = generation(1000, "b");
        generations.add(late.clone());
        assert_eq!(numbers(&generations), (Some(82), GENERATIONS_MIN), "twenty stay, whatever their age");
        for number in 0..2 * GENERATIONS_MAX as u64 {
            generations.add(Generation { number: 2000 + number, ..late.clone() });
        }
        assert_eq!(numbers(&generations).1, GENERATIONS_MAX);
    }

    #[test]
    fn the_last_twenty_are_known_by_their_differences() {
        let text =
            |number: u64| if number < 25 { "same".to_owned() } else { format!("ä{}ö same ü{number}", "x".repeat(9000)) };
        let mut generations = Generations::default();
        for number in 1..=30 {
            // Two months apart, so that none is kept for its age.
            let applied = Timestamp::from_second(number as i64 * 60 * 86_400).expect("a time");
            generations.add(Generation { applied, ..generation(number, &text(number)) });
        }
        let numbers: Vec<_> = generations.reports(30).iter().map(|generation| generation.number).collect();
        assert_eq!(numbers, (11..=30).collect::<Vec<_>>());
        assert_eq!(numbers.len(), GENERATIONS_MIN);
        assert!(generations.files_of(10).is_none());
        generations.rewrite_newest(generation(30, "ä").files);
        for number in 11..30 {
            assert_eq!(*generations.files_of(number).expect("known")[0].text, *text(number));
        }
        assert_eq!(*generations.files_of(30).expect("known")[0].text, *"ä");
        let kept: usize = generations.past.iter().map(|generation| generation.files[0].kept_bytes()).sum();
        assert!(kept < 2 * 9000 + 200, "{kept} bytes");
        assert_eq!(generations.reports(30)[18].files[0].bytes, text(29).len());
        assert_eq!(generations.previous(), Some(29));
        generations
            .add(Generation { origin: Origin::RolledBack { from: 30, to: 29, why: String::new() }, ..generation(31, "x") });
        assert_eq!(generations.previous(), Some(28));
        let other = WrittenFile { name: "b.kdl".into(), ..generation(32, "y").files.remove(0) };
        generations.add(Generation { files: vec![other], ..generation(32, "") });
        assert_eq!(*generations.files_of(31).expect("known")[0].text, *"x");
        assert_eq!(generations.file_names().filter(|name| *name == "b.kdl").count(), 1);
    }
}
