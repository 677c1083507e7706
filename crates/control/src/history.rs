//! What ran and what of it is on disk: the generations, what an edit begins with, what files had when edits were done
//! with them, and why the last attempt was refused. Nothing here changes what runs; `change` and `edit` do.

use crate::applying::ChangeFault;
use crate::generations::{Generations, Origin, WrittenFile};
use crate::rewrite::write_whole;
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tidegate_api::Refused;
use tidegate_config::{Loaded, is_one_of, open_regular, read_regular};
use tidegate_model::Configuration;

pub(crate) struct History {
    pub generations: Generations,
    /// What the newest generation was written as: an edit reads nothing again but what it changes.
    pub written: Arc<Loaded>,
    /// What the files alone say, without labels of containers.
    pub of_files: Arc<Configuration>,
    /// Why the last attempt to change was refused, unless one went well since.
    pub refused: Option<Refused>,
    /// What files of known generations had when an edit was done with them, by the name of the file.
    left: BTreeMap<String, LeftText>,
}

/// What a file had when an edit was done with it.
struct LeftText {
    text: Arc<str>,
    /// Otherwise it could not be written, and this is what was there before.
    is_ours: bool,
}

impl LeftText {
    fn is_still_at(&self, name: &str) -> bool {
        has_one_of(name, &[&self.text]).unwrap_or(false)
    }
}

fn has_one_of(name: &str, texts: &[&str]) -> io::Result<bool> {
    is_one_of(open_regular(Path::new(name))?, texts)
}

impl History {
    pub fn new(generations: Generations, written: Arc<Loaded>, of_files: Arc<Configuration>) -> History {
        History { generations, written, of_files, refused: None, left: BTreeMap::new() }
    }

    /// The files of the newest generation, the main file first.
    pub fn running_files(&self) -> &[WrittenFile] {
        self.generations.newest().map(|generation| generation.files.as_slice()).unwrap_or_default()
    }

    /// Why a restart would bring another configuration than the one that runs; empty when it would not. One sentence
    /// each. Files that have just been `written` are not read again for it.
    pub fn drift(&self, source: &Source, written: &[String]) -> Vec<String> {
        let Some(newest) = self.generations.newest() else { return Vec::new() };
        let mut drift = Vec::new();
        let main = newest.files.first().map(|file| file.name.clone()).unwrap_or_default();
        match source {
            Source::Text { name, text, .. } => {
                if newest.files.first().is_some_and(|file| *file.text != **text) {
                    drift.push(format!("what runs is not what was given as {name}: {}", newest.origin));
                }
            }
            Source::File(path) if *path != Path::new(&main) && !matches!(newest.origin, Origin::Start | Origin::Upgrade) => {
                drift.push(format!("what runs comes from {main}, and a restart reads {}", path.display()));
            }
            Source::File(_) => {}
        }
        for file in newest.files.iter().filter(|file| file.is_on_disk() && !written.contains(&file.name)) {
            if has_one_of(&file.name, &[&file.text]).unwrap_or(false) {
                continue;
            }
            match read_regular(Path::new(&file.name)) {
                Ok(_) => drift.push(format!("{} has another text than generation {} that runs", file.name, newest.number)),
                Err(error) => drift.push(format!("{} cannot be read: {error}", file.name)),
            }
        }
        drift
    }

    /// Writes what runs now over what `running` had, the files before the edit.
    pub fn write_back(&mut self, file: &WrittenFile, running: &[WrittenFile]) -> Result<(), String> {
        if !file.is_on_disk() {
            return Err("it was not read from a file".into());
        }
        let known: BTreeSet<&str> = self.generations.file_names().collect();
        self.left.retain(|name, _| known.contains(name.as_str()));
        let untouched = self.untouched(file, running);
        let outcome = write_whole(Path::new(&file.name), &file.text, |opened| is_one_of(opened, &untouched));
        if outcome.is_ok() {
            self.left.insert(file.name.clone(), LeftText { text: file.text.clone(), is_ours: true });
        } else if !self.left.get(&file.name).is_some_and(|known| known.is_still_at(&file.name))
            && let Some(before) = running.iter().find(|known| known.name == file.name)
        {
            // The next edit finds this, and has to know that nobody wrote it meanwhile.
            self.left.insert(file.name.clone(), LeftText { text: before.text.clone(), is_ours: false });
        }
        outcome
    }

    /// Somebody may have edited the file since it was applied; writing would throw that away.
    pub fn check_untouched(&self, file: &WrittenFile, running: &[WrittenFile]) -> Result<(), ChangeFault> {
        match has_one_of(&file.name, &self.untouched(file, running)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(ChangeFault::FileChanged { file: file.name.clone() }),
            // What is not there cannot be thrown away; that it cannot be written is said afterwards.
            Err(_) => Ok(()),
        }
    }

    /// What the file may have when nobody has edited it.
    fn untouched<'t>(&'t self, file: &WrittenFile, running: &'t [WrittenFile]) -> Vec<&'t str> {
        let runs = running.iter().find(|known| known.name == file.name).map(|known| &*known.text);
        let was_left = self.left.get(&file.name).map(|known| &*known.text);
        [runs, was_left].into_iter().flatten().collect()
    }

    /// After a roll-back: a file that has what an edit wrote, and nothing that anybody changed since, says again what
    /// runs. Otherwise the next restart would bring back what was taken back.
    pub fn write_back_what_runs(&mut self) {
        let running = self.running_files().to_vec();
        for file in running {
            let is_left = |known: &LeftText| known.is_ours && known.text != file.text && known.is_still_at(&file.name);
            let Some(left) = self.left.get(&file.name).filter(|known| is_left(known)) else { continue };
            match write_whole(Path::new(&file.name), &file.text, |opened| is_one_of(opened, &[&left.text])) {
                Ok(()) => {
                    tracing::info!(file = file.name, "the file has again what runs");
                    self.left.insert(file.name, LeftText { text: file.text, is_ours: true });
                }
                Err(why) => {
                    tracing::warn!(file = file.name, why, "what was taken back is still in the file: a restart would bring it");
                }
            }
        }
    }

    /// Whether the file changed because we wrote it: then there is nothing to take on.
    pub fn is_own_writing(&self, path: &Path) -> bool {
        let Some((name, known)) = path.to_str().and_then(|name| self.left.get_key_value(name)) else { return false };
        let runs = |file: &WrittenFile| file.name == *name && file.text == known.text;
        let is_running = self.running_files().iter().any(runs);
        known.is_ours && is_running && known.is_still_at(name)
    }
}
