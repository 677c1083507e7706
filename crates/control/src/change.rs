//! The life of a change: read → check → compile → find sockets, logs and certificates for it → publish → leave what is
//! gone. Until it is published everything may fail, and then nothing has happened; from then on nothing can.

use crate::additions::Additions;
use crate::applying::{ApplyOptions, ChangeFault};
use crate::background::in_background;
use crate::compile::gather;
use crate::confirm::{Pending, RISE_MAX_DEFAULT};
use crate::control::Control;
use crate::driver::Chosen;
use crate::ended_certificates::{Ended, ended_certificates};
use crate::endpoint::AdminPlaces;
use crate::fault::StartFault;
use crate::generations::{Generation, Origin};
use crate::geo_files::gather_databases;
use crate::map_files::gather_maps;
use crate::material::Material;
use crate::named_files::{certificate_files_of, user_files};
use crate::pools::forget_checks;
use crate::sockets::{Given, Inherited, Spare};
use crate::source::{Proposal, Read, Remark, Source, emptied, read_with, with_additions};
use crate::systemd;
use crate::tag::Tag;
use crate::tickets::follow_ticket_keys;
use crate::workers::{ChangeParts, worker_count};
use jiff::Timestamp;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;
use tidegate_api::{Applied, DrainedConnections, Effect, Plan, Planned, Refused};
use tidegate_config::{LoadMemory, Loaded};
use tidegate_explain::plan;
use tidegate_model::{AdminPlace, Configuration, Delta};
use tidegate_proxy::command::OldSocket;
use tidegate_telemetry::access_log::OpenLogs;
use tidegate_telemetry::{AccessLogSenders, ChangeResult, ReadinessState, events};
use tidegate_transport::Driver;

/// Whoever restarts a pod gets what its objects and its file say, and nothing that somebody once told the pod before.
const NOT_BESIDE_OBJECTS: &str = "objects of a cluster say what is served here, beside the file that the process was started with\n  help: change the objects, or that file, which is applied when it changes";

/// What differs, for the process and for people, and which certificates of that have ended. Sites and pools that are
/// the same are looked at once.
fn compare(before: &Configuration, now: &Configuration, written: &Loaded) -> (Delta, Plan, Ended) {
    let delta = Delta::between(before, now);
    let (mut of_before, mut of_now) = delta.narrowed(before, now);
    if delta.listening {
        // A listener's change may follow from any site.
        (of_before.sites, of_now.sites) = (before.sites.clone(), now.sites.clone());
    }
    let plan = plan(&of_before, &of_now);
    let ended = ended_certificates(now, &delta, written);
    (delta, plan, ended)
}

/// Whether anything that differs names a file of certificates or of users, or did.
fn names_files(delta: &Delta, before: &Configuration, now: &Configuration) -> bool {
    let (before, now) = delta.narrowed(before, now);
    let names =
        |configuration: &Configuration| !certificate_files_of(configuration).is_empty() || !user_files(configuration).is_empty();
    names(&before) || names(&now)
}

/// Sockets that a change gives to workers or takes from them, and the workers that stay and go.
struct Moving {
    sockets: Vec<Given>,
    old_sockets: Vec<OldSocket>,
    staying: Vec<usize>,
    leaving: Vec<usize>,
}

impl Control {
    /// `Err` when something else runs than a change is meant for.
    pub fn check_expected(&self, expected: Option<Tag>) -> Result<(), ChangeFault> {
        let Some(expected) = expected else { return Ok(()) };
        let running = self.tag();
        if expected.is_of(&running) { Ok(()) } else { Err(ChangeFault::Conflict { expected, running }) }
    }

    /// What a proposal would change, without changing anything.
    pub fn plan(&self, proposal: &Proposal) -> Result<Planned, ChangeFault> {
        let read = self.read(proposal)?;
        let running = self.configuration();
        let (_, plan, ended) = in_background(|| compare(running, &read.configuration, &read.written));
        let mut warnings = read.warnings + &ended.rendered;
        if empties(proposal, running, &read.configuration) {
            let _ = writeln!(warnings, "warning: this is not applied: {}", emptied(&read.files, &count_of(running)));
        }
        let open = if plan.listeners.is_empty() { Vec::new() } else { self.listeners() };
        let drained = plan.listeners.iter().filter(|listener| listener.effect == Effect::ClientConnectionsDrained);
        let connections_drained = drained.map(|drained| {
            let of_address = open.iter().filter(|listener| listener.address == drained.address);
            let connections = of_address.map(|listener| listener.connections.sum()).sum();
            DrainedConnections { listener: drained.address.clone(), connections }
        });
        let connections_drained = connections_drained.collect();
        Ok(Planned { generation: self.generation(), plan, warnings, connections_drained })
    }

    fn read(&self, proposal: &Proposal) -> Result<Read, ChangeFault> {
        if *proposal == Proposal::Additions {
            return self.read_additions();
        }
        let (source, containers, mut memory) = (&self.source, &self.containers, self.memory.borrow_mut());
        let memory: &mut LoadMemory = &mut memory;
        let mut objects = self.objects.as_ref().map(RefCell::borrow_mut);
        let objects = objects.as_deref_mut();
        let additions = move |of_files: &Configuration| Additions::of(containers, objects, of_files);
        in_background(move || read_with(proposal.load(source, memory), additions)).map_err(ChangeFault::Configuration)
    }

    /// What runs of files, with what is added to it now.
    fn read_additions(&self) -> Result<Read, ChangeFault> {
        let (containers, of_files) = (&self.containers, self.history.of_files.clone());
        let mut objects = self.objects.as_ref().map(RefCell::borrow_mut);
        let objects = objects.as_deref_mut();
        let (additions, read) = in_background(|| {
            let additions = Additions::of(containers, objects, &of_files);
            let read = with_additions(&of_files, &additions);
            (additions, read)
        });
        let (configuration, remarks) = read.map_err(ChangeFault::Configuration)?;
        let (files, written) = (self.history.running_files().to_vec(), self.history.written.clone());
        let watched = self.watch.configuration.clone();
        Ok(Read { configuration, of_files, additions, warnings: String::new(), remarks, files, watched, written })
    }

    /// Takes on a configuration, as a whole or not at all.
    pub fn apply(&mut self, proposal: &Proposal, origin: Origin, options: ApplyOptions) -> Result<Applied, ChangeFault> {
        let outcome = self.attempt(proposal, origin, options);
        self.note_drift(&[]);
        outcome
    }

    /// Whether a restart would bring the same is not looked at.
    pub(crate) fn attempt(&mut self, proposal: &Proposal, origin: Origin, options: ApplyOptions) -> Result<Applied, ChangeFault> {
        let by = origin.to_string();
        // Whoever asks the API is told; a file that does not run has to be found in the log, in `status` and in a
        // metric.
        let is_of_source = self.is_of_source(proposal);
        let outcome = self.try_apply(proposal, origin, options);
        let metrics = self.process.registry.configuration();
        match &outcome {
            Ok(applied) => {
                metrics.note(if applied.changed { ChangeResult::Applied } else { ChangeResult::Unchanged });
                if is_of_source {
                    metrics.set_refused(false);
                    self.history.refused = None;
                }
            }
            Err(fault) => {
                metrics.note(ChangeResult::Refused);
                if is_of_source {
                    metrics.set_refused(true);
                    self.history.refused = Some(Refused { at: Timestamp::now(), by: by.clone(), why: fault.to_string() });
                }
                tracing::error!(by, why = %fault, "the configuration was not applied; the running one stays");
            }
        }
        outcome
    }

    /// Whether it is what the process was started with, as it is now.
    fn is_of_source(&self, proposal: &Proposal) -> bool {
        match proposal {
            Proposal::Source => true,
            Proposal::File(path) => matches!(&self.source, Source::File(source) if source == path),
            Proposal::Text { .. } | Proposal::Written(_) | Proposal::Additions => false,
        }
    }

    fn try_apply(&mut self, proposal: &Proposal, origin: Origin, options: ApplyOptions) -> Result<Applied, ChangeFault> {
        let began = Instant::now();
        let is_of_additions = *proposal == Proposal::Additions;
        self.may_change(&options, proposal)?;
        let Read { configuration, of_files, additions, mut warnings, remarks, files, watched, written } = self.read(proposal)?;
        let running = self.configuration().clone();
        let (delta, plan, ended) = in_background(|| compare(&running, &configuration, &written));
        if empties(proposal, &running, &configuration) {
            return Err(ChangeFault::Bad(emptied(&files, &count_of(&running))));
        }
        // Watched before it is known to run, too: the next save may be what mends it. Of another file than that of the
        // process a change is not applied by itself, so it is not looked at.
        let is_of_source = *proposal == Proposal::Source;
        if is_of_source && watched != self.watch.configuration {
            self.watch_files(watched.clone());
        }
        let generation = self.generation();
        if delta.is_empty() {
            self.history.generations.rewrite_newest(files);
            self.history.written = written;
            self.history.of_files = of_files;
            self.additions_taken_on(additions);
            return Ok(Applied { generation, changed: false, plan, warnings, confirm_within_seconds: None });
        }
        let (changed, at_change) = (Instant::now(), self.registry().traffic());
        let before = self.confirmation.baseline.until(changed, at_change);
        warnings.push_str(&ended.rendered);
        if let Err(fault) = self.take_on(Arc::new(configuration), &delta, generation + 1) {
            // Servers that only this change would have asked.
            let snapshot = &self.running.snapshot;
            let changed = delta.pools.changed.iter().filter_map(|changed| running.pools.get(changed.before?));
            forget_checks(changed.filter_map(|pool| snapshot.pool_named(&pool.name)));
            self.followers.keep_clusters();
            return Err(fault);
        }
        if delta.settings || names_files(&delta, &running, self.configuration()) {
            // Once more, with the certificates that it names.
            let watched = if is_of_source { watched } else { self.watch.configuration.clone() };
            self.watch_files(watched);
        }
        let number = self.generation();
        let summary = plan.summary.clone();
        tracing::info!(generation = number, by = %origin, summary, took = ?began.elapsed(), "configuration applied");
        remarks.iter().for_each(Remark::log);
        ended.log();
        self.history.generations.add(Generation { number, applied: Timestamp::now(), origin, summary, files });
        self.history.written = written;
        self.history.of_files = of_files;
        self.additions_taken_on(additions);
        self.containers.follow(&self.running.configuration);
        self.process.registry.configuration().set_generation(number, Timestamp::now().as_second());
        let confirm_within_seconds = options.confirm_within.map(|within| within.as_secs());
        if is_of_additions {
            // What waits for its confirmation still does.
            return Ok(Applied { generation: number, changed: true, plan, warnings, confirm_within_seconds });
        }
        self.confirmation.pending = options.confirm_within.map(|within| Pending {
            generation: number,
            back_to: generation,
            until: Instant::now() + within,
            rise_max: options.rise_max.unwrap_or(RISE_MAX_DEFAULT),
            before,
            changed,
            at_change,
        });
        Ok(Applied { generation: number, changed: true, plan, warnings, confirm_within_seconds })
    }

    fn additions_taken_on(&mut self, additions: Additions) {
        self.containers.taken_on(additions.labelled);
        if let Some(objects) = self.objects_mut() {
            let lag = objects.taken_on(additions.of_objects);
            if let Some(lag) = lag {
                self.registry().kubernetes().note_published(lag);
            }
        }
    }

    fn may_change(&self, options: &ApplyOptions, proposal: &Proposal) -> Result<(), ChangeFault> {
        let is_of_additions = *proposal == Proposal::Additions;
        if self.objects.is_some() && !is_of_additions && !self.is_of_source(proposal) {
            return Err(ChangeFault::Bad(NOT_BESIDE_OBJECTS.to_owned()));
        }
        // Who has kept connections is served until they end, and not by what held before.
        let is_leaving = self.readiness.state() == ReadinessState::Draining && !is_of_additions;
        if is_leaving || self.succession.is_under_way() {
            return Err(ChangeFault::Leaving);
        }
        if let Some(pending) = self.confirmation.pending.as_ref().filter(|_| !is_of_additions) {
            return Err(ChangeFault::AwaitsConfirmation { generation: pending.generation });
        }
        self.check_expected(options.expected)
    }

    /// Makes the configuration the running one.
    fn take_on(&mut self, configuration: Arc<Configuration>, delta: &Delta, generation: u64) -> Result<(), ChangeFault> {
        let wanted = worker_count(configuration.threads);
        let indices = self.workers.indices();
        let on_rings = if self.workers.driver.driver == Driver::IoUring { indices.len() } else { 0 };
        let driver = Chosen::by(configuration.driver, wanted.saturating_sub(on_rings)).map_err(StartFault::from)?;
        // A worker keeps its driver for life.
        let kept = if driver.driver == self.workers.driver.driver { wanted } else { 0 };
        let staying: Vec<usize> = indices.iter().copied().take(kept).collect();
        let leaving: Vec<usize> = indices.iter().copied().skip(kept).collect();
        let coming = self.workers.free_indices(wanted - staying.len());
        let all: Vec<usize> = staying.iter().chain(&coming).copied().collect();
        let index_bound = coming.iter().map(|index| index + 1).max().unwrap_or(0).max(self.workers.index_bound());
        let numbers = self.numbers(generation, index_bound);
        let (before, state) = (&self.running, self.state());
        let maps_before = state.process.maps.current();
        let maps = in_background(|| gather_maps(&configuration, &maps_before)).map_err(StartFault::from)?;
        let databases = in_background(|| gather_databases(&configuration, &self.geo_files)).map_err(StartFault::from)?;
        let changed_pools = delta.pools.changed.iter().map(|changed| &configuration.pools[changed.position]);
        state.followers.clusters().begin(changed_pools.flat_map(|pool| &pool.discover));
        let material = in_background(move || gather(configuration, delta, Some(before), state, numbers, Timestamp::now()))?;
        let admin = self.prepare_admin(&material.configuration)?;
        let logs = self.prepare_logs(&material.configuration)?;
        // Last: a socket that shares its address gets connections at once, and closing it again would reset them.
        let prepared = self.sockets.prepare(&material.snapshot.listeners, &all, &mut Inherited::default())?;
        let old_sockets = prepared.moved();
        let driver_before = std::mem::replace(&mut self.workers.driver, driver);
        if let Err(fault) = self.start_workers(&coming, &material) {
            self.workers.driver = driver_before;
            return Err(fault);
        }
        let sockets = match self.sockets.adopt(prepared) {
            Ok(sockets) => sockets,
            Err(error) => {
                self.workers.driver = driver_before;
                self.workers.retire(&coming, &[]);
                return Err(StartFault::Internal(error.to_string()).into());
            }
        };
        // From here on it happens.
        if let Some(logs) = logs {
            self.logs.change(logs);
        }
        let staying = if staying.is_empty() { coming } else { staying };
        self.publish_maps(maps);
        self.publish_databases(&material.configuration, databases);
        self.publish(material, delta, Moving { sockets, old_sockets, staying, leaving });
        self.admin.move_to(admin);
        Ok(())
    }

    /// Without sockets at first: a thread that cannot be started must not leave any behind that nobody accepts from.
    fn start_workers(&mut self, coming: &[usize], material: &Material) -> Result<(), ChangeFault> {
        let plan = self.logs.plan(&material.configuration.access_logs);
        let senders = |index| Some(AccessLogSenders::new(&self.process.registry, index, &plan));
        let parts = coming.iter().map(|index| (*index, senders(*index), Vec::new())).collect();
        let started = self.workers.start(parts, &material.snapshot, &self.process);
        started.map_err(|error| StartFault::Internal(format!("a worker thread cannot be started: {error}")).into())
    }

    fn publish(&mut self, material: Material, delta: &Delta, Moving { mut sockets, mut old_sockets, staying, leaving }: Moving) {
        let configuration = &material.configuration;
        let retiring = match self.sockets.move_from(&leaving, &staying) {
            Ok((moved, left)) => {
                sockets.extend(moved);
                Some(left)
            }
            Err(error) => {
                tracing::error!(%error, "workers too many go on, since their sockets cannot be passed on");
                None
            }
        };
        let unlisted = self.sockets.take_unlisted(&material.snapshot.listeners);
        unlisted.iter().for_each(Spare::remove_file);
        let handed_on =
            crate::sharing::offer_all(self.succession.name(), &unlisted.iter().map(Spare::socket).collect::<Vec<_>>());
        old_sockets.extend(unlisted.iter().zip(handed_on).map(|(spare, is_handed_on)| spare.left(is_handed_on)));
        let is_log_changed = configuration.access_logs != self.running.configuration.access_logs;
        events::set_level(configuration.log.level);
        follow_ticket_keys(&self.tls, &material);
        self.workers.change(ChangeParts {
            snapshot: Some(material.snapshot.clone()),
            sockets,
            old_sockets,
            access_log: is_log_changed.then(|| self.logs.plan(&configuration.access_logs)),
        });
        if let Some(left) = retiring {
            self.workers.retire(&leaving, &left);
        }
        self.process.registry.configuration().set_workers(self.workers.indices().len());
        self.supersede(material, delta);
        self.rest.changed(Instant::now());
        systemd::store_listeners(&self.sockets);
    }

    fn prepare_logs(&self, configuration: &Configuration) -> Result<Option<OpenLogs>, StartFault> {
        let (before, now) = (&self.running.configuration.access_logs, &configuration.access_logs);
        if before == now {
            return Ok(None);
        }
        let opened = self.logs.open(before, now);
        opened.map(Some).map_err(|(target, error)| StartFault::AccessLog { target, error })
    }

    fn prepare_admin(&self, configuration: &Configuration) -> Result<AdminPlaces, StartFault> {
        let is_open = |place: &AdminPlace| self.admin.listeners.iter().any(|listener| listener.place == *place);
        AdminPlaces::open(configuration, self.state_dir(), is_open, Vec::new())
    }

    /// Goes back to an earlier generation, or without a number to the one before.
    pub fn roll_back(&mut self, to: Option<u64>, why: &str) -> Result<Applied, ChangeFault> {
        let running = self.generation();
        let no_previous = || ChangeFault::NoSuchGeneration(running.saturating_sub(1));
        let to = to.or_else(|| self.previous_generation()).ok_or_else(no_previous)?;
        let files = self.history.generations.files_of(to).ok_or(ChangeFault::NoSuchGeneration(to))?;
        let pending = self.confirmation.pending.take();
        let origin = Origin::RolledBack { from: running, to, why: why.to_owned() };
        let outcome = self.apply(&Proposal::Written(files), origin, ApplyOptions::default());
        match &outcome {
            Ok(_) => {
                self.history.write_back_what_runs();
                self.note_drift(&[]);
            }
            // It still waits: the clock goes on.
            Err(_) => self.confirmation.pending = pending,
        }
        outcome
    }
}

/// Whether nothing would be served where something is. An edit that takes out the last site, and containers and objects
/// that go, say so themselves.
fn empties(proposal: &Proposal, running: &Configuration, wanted: &Configuration) -> bool {
    let is_of_text = match proposal {
        Proposal::Source | Proposal::File(_) | Proposal::Text { .. } => true,
        Proposal::Written(_) | Proposal::Additions => false,
    };
    is_of_text && running.serves() && !wanted.serves()
}

fn count_of(running: &Configuration) -> String {
    format!("{} run", running.sites.len() + running.tcp.len())
}
