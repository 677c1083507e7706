//! A change of one site, route, pool or server, as a program makes it: the written files with that part replaced,
//! applied like any other change, and then written back, so that file and process say the same; a roll-back writes them
//! back as well. Where a file cannot be written the process runs it all the same, and says so as drift.

use crate::applying::{ApplyOptions, ChangeFault};
use crate::background::in_background;
use crate::control::Control;
use crate::effective;
use crate::generations::{Origin, WrittenFile};
use crate::source::Proposal;
use tidegate_api::{Edited, Effective, UnwrittenFile};
use tidegate_config::Json;
use tidegate_config::{Edit, EditError, EditFault, Target, apply_edits, read_target, to_json};
use tidegate_model::{Configuration, ErrorPage, PoolName, Terminal};

impl Control {
    /// The configuration as it is written, includes in their place; of secrets nothing.
    pub fn configuration_json(&self) -> Json {
        to_json(&self.history.written)
    }

    /// What holds, defaults included, as `plan` shows it; of secrets nothing.
    pub fn effective(&self) -> Effective {
        effective::of(self.configuration(), self.state_dir())
    }

    /// One part of it.
    pub fn part_json(&self, target: &Target) -> Result<Json, ChangeFault> {
        read_target(&self.history.written, target).map_err(|error| edit_fault(&[error]))
    }

    /// Changes parts of the configuration, all or none. `what` is how the history names it.
    pub fn edit(&mut self, edits: &[Edit], what: String, options: ApplyOptions) -> Result<Edited, ChangeFault> {
        for edit in edits {
            if let Edit::Remove(Target::Pool { name }) = edit {
                self.refuse_pool_in_use(name)?;
            }
            if let Edit::Remove(Target::Map { name }) = edit {
                self.refuse_map_in_use(name)?;
            }
        }
        let running = self.history.running_files().to_vec();
        let written = &*self.history.written;
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
            self.history.check_untouched(file, &running)?;
        }
        let applied = self.attempt(&Proposal::Written(files), Origin::Api(what), options);
        let applied = applied.inspect_err(|_| self.note_drift(&[]))?;
        let mut edited = Edited { applied, written: Vec::new(), unwritten: Vec::new() };
        for file in changed {
            match self.history.write_back(&file, &running) {
                Ok(()) => edited.written.push(file.name),
                Err(why) => {
                    tracing::warn!(file = file.name, why, "a change that runs could not be written: a restart would lose it");
                    edited.unwritten.push(UnwrittenFile { name: file.name, reason: why });
                }
            }
        }
        self.note_drift(&edited.written);
        Ok(edited)
    }
}

/// Users of a pool or a map that a message names.
const USERS_NAMED_MAX: usize = 10;

impl Control {
    fn refuse_pool_in_use(&self, name: &str) -> Result<(), ChangeFault> {
        let users = users_of_pool(self.configuration(), name);
        if users.is_empty() {
            return Ok(());
        }
        let more = match users.len().saturating_sub(USERS_NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = users[..users.len().min(USERS_NAMED_MAX)].join(", ");
        Err(ChangeFault::InUse(format!(
            "the pool `{name}` is used by {named}{more}\n  help: change or remove those first, or have them use another pool"
        )))
    }
}

impl Control {
    fn refuse_map_in_use(&self, name: &str) -> Result<(), ChangeFault> {
        let users = self.history.written.users_of_map(name);
        if users.is_empty() {
            return Ok(());
        }
        let more = match users.len().saturating_sub(USERS_NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = users[..users.len().min(USERS_NAMED_MAX)].join(", ");
        Err(ChangeFault::InUse(format!("the map `{name}` is used in {named}{more}\n  help: change or remove those first")))
    }
}

/// `route 2 of http://a.test`, in file order. Routes are counted from 1, as in the log.
fn users_of_pool(configuration: &Configuration, name: &str) -> Vec<String> {
    let is_it = |pool: &PoolName| &*pool.0 == name;
    let mut users = Vec::new();
    for site in &configuration.sites {
        let address = &site.addresses[0];
        if site.options.mirrors.named.iter().any(|mirror| is_it(&mirror.pool)) {
            users.push(format!("`mirror` of {address}"));
        }
        if site.options.error_pages.iter().filter_map(ErrorPage::pool).any(is_it) {
            users.push(format!("`error-page` of {address}"));
        }
        if site.steps.iter().any(|step| step.pool().is_some_and(is_it)) {
            users.push(format!("`forward-auth` of {address}"));
        }
        for (position, route) in site.routes.iter().enumerate() {
            let is_answered_by_it = match &route.terminal {
                Terminal::Proxy { pool, .. } => is_it(pool),
                Terminal::FastCgi(fastcgi) => is_it(&fastcgi.pool),
                Terminal::Split(split) => split.pools().any(is_it),
                Terminal::Respond { .. } | Terminal::Redirect { .. } | Terminal::Files(_) => false,
            };
            let is_asked = || route.steps.iter().any(|step| step.pool().is_some_and(is_it));
            if is_answered_by_it || is_asked() || route.options.pools().any(is_it) {
                users.push(format!("route {} of {address}", position + 1));
            }
        }
    }
    for tcp in &configuration.tcp {
        let targets = tcp.by_name.iter().map(|route| &route.to).chain(&tcp.otherwise);
        users.extend(
            targets
                .filter(|target| target.arms.iter().any(|arm| is_it(&arm.pool)))
                .map(|_| format!("tcp {}", tcp.listen_address()))
                .take(1),
        );
    }
    users
}

fn edit_fault(errors: &[EditError]) -> ChangeFault {
    let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    match errors.first().map(|error| error.fault) {
        Some(EditFault::NotFound) => ChangeFault::NotFound(text),
        Some(EditFault::Taken) => ChangeFault::Taken(text),
        Some(EditFault::Invalid | EditFault::NotWritable) | None => ChangeFault::Bad(text),
    }
}
