//! A change of one site, route, pool or server, as a program makes it: the written files with that part replaced,
//! applied like any other change, and then written back, so that file and process say the same; a roll-back writes them
//! back as well. Where a file cannot be written the process runs it all the same, and says so as drift.

use crate::applying::{ApplyOptions, ChangeFault};
use crate::background::in_background;
use crate::control::Control;
use crate::generations::{Generation, Origin, WrittenFile};
use crate::on_disk::OnDisk;
use crate::rewrite::write_whole;
use crate::source::Proposal;
use std::collections::BTreeSet;
use std::path::Path;
use tidegate_api::{Edited, UnwrittenFile};
use tidegate_config::{Edit, EditError, EditFault, Target, apply_edits, read_target, to_json};
use tidegate_config::{Json, read_regular};

impl Control {
    /// The configuration as it is written, includes in their place; of secrets nothing.
    pub fn configuration_json(&self) -> Json {
        to_json(&self.written)
    }

    /// One part of it.
    pub fn part_json(&self, target: &Target) -> Result<Json, ChangeFault> {
        read_target(&self.written, target).map_err(|error| edit_fault(&[error]))
    }

    /// Changes parts of the configuration, all or none. `what` is how the history names it.
    pub fn edit(&mut self, edits: &[Edit], what: String, options: ApplyOptions) -> Result<Edited, ChangeFault> {
        let running = self.generations.newest().map(|generation| generation.files.clone()).unwrap_or_default();
        let written = &*self.written;
        let changed = in_background(|| apply_edits(written, edits)).map_err(|errors| edit_fault(&errors))?;
        let mut files = running.clone();
        for change in changed {
            let name = change.path.display().to_string();
            match files.iter_mut().find(|file| file.name == name) {
                Some(file) => file.text = change.text,
                None => return Err(ChangeFault::Bad(format!("`{name}` is no file of the running configuration"))),
            }
        }
        let changed: Vec<WrittenFile> = files.iter().filter(|file| !running.contains(file)).cloned().collect();
        for file in changed.iter().filter(|file| file.is_on_disk()) {
            self.check_untouched(file, &running)?;
        }
        let applied = self.attempt(&Proposal::Written(files), Origin::Api(what), options);
        let applied = applied.inspect_err(|_| self.note_drift())?;
        let mut edited = Edited { applied, written: Vec::new(), unwritten: Vec::new() };
        for file in changed {
            match self.write_back(&file, &running) {
                Ok(()) => edited.written.push(file.name),
                Err(why) => {
                    tracing::warn!(file = file.name, why, "a change that runs could not be written: a restart would lose it");
                    edited.unwritten.push(UnwrittenFile { name: file.name, reason: why });
                }
            }
        }
        self.note_drift();
        Ok(edited)
    }

    fn write_back(&mut self, file: &WrittenFile, running: &[WrittenFile]) -> Result<(), String> {
        if !file.is_on_disk() {
            return Err("it was not read from a file".into());
        }
        let of_generation = |generation: &Generation| generation.files.iter().map(|file| file.name.clone()).collect::<Vec<_>>();
        let known: BTreeSet<String> = self.generations.all().flat_map(of_generation).collect();
        self.on_disk.retain(|name, _| known.contains(name));
        let outcome = write_whole(Path::new(&file.name), &file.text, |text| self.is_untouched(file, running, text));
        if outcome.is_ok() {
            self.on_disk.insert(file.name.clone(), OnDisk { text: file.text.clone(), is_ours: true });
        } else if !self.on_disk.get(&file.name).is_some_and(|known| known.is_still_at(&file.name))
            && let Some(before) = running.iter().find(|known| known.name == file.name)
        {
            // The next edit finds this, and has to know that nobody wrote it meanwhile.
            self.on_disk.insert(file.name.clone(), OnDisk { text: before.text.clone(), is_ours: false });
        }
        outcome
    }

    /// Somebody may have edited the file since it was applied; writing would throw that away.
    fn check_untouched(&self, file: &WrittenFile, running: &[WrittenFile]) -> Result<(), ChangeFault> {
        match read_regular(Path::new(&file.name)) {
            Ok(text) if self.is_untouched(file, running, &text) => Ok(()),
            Ok(_) => Err(ChangeFault::FileChanged { file: file.name.clone() }),
            // What is not there cannot be thrown away; that it cannot be written is said afterwards.
            Err(_) => Ok(()),
        }
    }

    fn is_untouched(&self, file: &WrittenFile, running: &[WrittenFile], text: &str) -> bool {
        let runs = running.iter().find(|known| known.name == file.name).map(|known| &known.text);
        let was_left = self.on_disk.get(&file.name).map(|known| &known.text);
        [runs, was_left].into_iter().flatten().any(|known| *text == **known)
    }

    /// After a roll-back: a file that has what an edit wrote, and nothing that anybody changed since, says again what
    /// runs. Otherwise the next restart would bring back what was taken back.
    pub(crate) fn write_back_what_runs(&mut self) {
        let running = self.generations.newest().map(|generation| generation.files.clone()).unwrap_or_default();
        for file in running {
            let is_left = |known: &OnDisk| known.is_ours && known.text != file.text && known.is_still_at(&file.name);
            let Some(left) = self.on_disk.get(&file.name).filter(|known| is_left(known)) else { continue };
            match write_whole(Path::new(&file.name), &file.text, |text| *text == *left.text) {
                Ok(()) => {
                    tracing::info!(file = file.name, "the file has again what runs");
                    self.on_disk.insert(file.name, OnDisk { text: file.text, is_ours: true });
                }
                Err(why) => {
                    tracing::warn!(file = file.name, why, "what was taken back is still in the file: a restart would bring it");
                }
            }
        }
        self.note_drift();
    }

    /// Whether the file changed because we wrote it: then there is nothing to take on.
    pub(crate) fn is_own_writing(&self, path: &Path) -> bool {
        let Some((name, known)) = path.to_str().and_then(|name| self.on_disk.get_key_value(name)) else { return false };
        let runs = |file: &WrittenFile| file.name == *name && file.text == known.text;
        let is_running = self.generations.newest().is_some_and(|generation| generation.files.iter().any(runs));
        known.is_ours && is_running && known.is_still_at(name)
    }
}

fn edit_fault(errors: &[EditError]) -> ChangeFault {
    let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    match errors.first().map(|error| error.fault) {
        Some(EditFault::NotFound) => ChangeFault::NotFound(text),
        Some(EditFault::Taken) => ChangeFault::Taken(text),
        Some(EditFault::Invalid | EditFault::NotWritable) | None => ChangeFault::Bad(text),
    }
}
