//! The files that are watched and what they contained when they were last looked at. Finds the ways to them, has the
//! folders on the way watched, and compares. It does not wait; `notices` says when to look.

use super::fingerprint::Fingerprint;
use super::folders::Folders;
use super::notices::{Lost, Notices, Relevance};
use super::pattern::PathPattern;
use super::{Bounds, FILES_MAX, MATCHES_MAX};
use foldhash::quality::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_discovery::trail::Trails;
use tidegate_parallel::in_parallel;

/// Ways that change faster than their folders are watched are looked at again later.
const ROUNDS_MAX: usize = 8;
/// More files than these are not read when they are seen first: with 50,000 certificates that was a seventh of the
/// start.
const READ_FIRST_MAX: usize = 4_096;

pub struct Watched {
    bounds: Bounds,
    notices: Arc<Notices>,
    files: BTreeSet<PathBuf>,
    patterns: Vec<PathPattern>,
    seen: BTreeMap<PathBuf, Fingerprint>,
    folders: Folders,
    hasher: RandomState,
    told_of_matches: bool,
}

impl Watched {
    pub fn new(bounds: Bounds, notices: Arc<Notices>) -> Watched {
        Watched {
            bounds,
            notices: notices.clone(),
            files: BTreeSet::new(),
            patterns: Vec::new(),
            seen: BTreeMap::new(),
            folders: Folders::new(notices, bounds.folders_max),
            hasher: RandomState::default(),
            told_of_matches: false,
        }
    }

    pub fn set_paths(&mut self, files: &[PathBuf], patterns: &[PathBuf]) -> io::Result<()> {
        let files: BTreeSet<PathBuf> = files.iter().cloned().collect();
        if files.len() > FILES_MAX {
            let message = format!(
                "cannot watch {} files: the limit is {FILES_MAX}\n  help: put several certificates into one file, or reload by a signal",
                files.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let patterns = patterns.iter().map(|path| PathPattern::parse(path)).collect::<io::Result<Vec<_>>>()?;
        let known: Vec<PathPattern> = std::mem::replace(&mut self.patterns, patterns);
        self.files = files;
        self.seen.retain(|path, _| self.files.contains(path) || self.patterns.iter().any(|pattern| pattern.is_match(path)));
        let mut new: Vec<PathBuf> = self.follow(&Lost::Nothing).into_iter().collect();
        new.retain(|path| {
            // A match that appeared under a pattern of before has not been reported yet, and will be.
            let unreported = !self.files.contains(path) && known.iter().any(|pattern| pattern.is_match(path));
            !unreported && !self.seen.contains_key(path)
        });
        let are_many = new.len() > READ_FIRST_MAX;
        let fingerprints = in_parallel(&new, |path| {
            if are_many { Fingerprint::unread(path, &self.hasher) } else { Fingerprint::of(path, None, &self.hasher) }
        });
        self.seen.extend(new.into_iter().zip(fingerprints));
        // What was known before may have changed without being looked at yet.
        self.notices.ring();
        Ok(())
    }

    /// The paths whose content is not what it was at the last look.
    pub fn look(&mut self, lost: &Lost) -> Vec<PathBuf> {
        let paths = self.follow(lost);
        let mut changed = Vec::new();
        let mut seen = BTreeMap::new();
        for path in paths {
            let before = self.seen.remove(&path);
            let fingerprint = Fingerprint::of(&path, before.as_ref(), &self.hasher);
            if before.is_none_or(|before| !before.has_same_content(&fingerprint)) {
                changed.push(path.clone());
            }
            seen.insert(path, fingerprint);
        }
        // What is left matched a pattern and does no more.
        changed.extend(std::mem::replace(&mut self.seen, seen).into_keys());
        changed.sort();
        changed
    }

    /// Has everything watched that the paths depend on, and gives those to compare. The folders come first: a change
    /// after that is told of, one before it is found by comparing.
    fn follow(&mut self, lost: &Lost) -> BTreeSet<PathBuf> {
        let mut lost = lost;
        for _ in 0..ROUNDS_MAX {
            let paths = self.paths();
            let relevance = self.relevance(&paths);
            let wanted = relevance.folders.clone();
            self.notices.set_relevance(relevance);
            let did = self.folders.follow(&wanted, lost);
            if !did {
                self.set_interval();
                return paths;
            }
            lost = &Lost::Nothing;
        }
        self.set_interval();
        self.notices.ring();
        self.paths()
    }

    fn set_interval(&self) {
        self.notices.set_interval(if self.folders.is_blind() { self.bounds.poll } else { self.bounds.unseen });
    }

    /// The files that were named, and the matches of now.
    fn paths(&mut self) -> BTreeSet<PathBuf> {
        let mut paths = self.files.clone();
        for pattern in &self.patterns {
            let (files, more) = pattern.files();
            paths.extend(files);
            if more && !self.told_of_matches {
                self.told_of_matches = true;
                let pattern = pattern.path().display();
                tracing::warn!(%pattern, "more than {MATCHES_MAX} files match; changes of the others are not noticed");
            }
        }
        paths
    }

    fn relevance(&self, paths: &BTreeSet<PathBuf>) -> Relevance {
        let mut relevance = Relevance::default();
        let mut trails = Trails::default();
        for path in paths {
            add(&mut relevance, &mut trails, path);
        }
        for pattern in &self.patterns {
            relevance.patterns.extend(pattern.names().cloned());
            for folder in pattern.folders(self.bounds.folders_max) {
                let end = add(&mut relevance, &mut trails, &folder);
                relevance.folders.extend(end);
            }
        }
        relevance
    }
}

fn add(relevance: &mut Relevance, trails: &mut Trails, path: &Path) -> Option<PathBuf> {
    let trail = trails.follow(path);
    for step in trail.steps {
        relevance.folders.insert(step.folder);
        relevance.names.insert(step.name);
    }
    trail.end
}
