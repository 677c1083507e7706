//! The life of the process: start the workers, follow what happens, drain. What comes before is in `prepare`.

use crate::confirm::SAMPLE_PERIOD;
use crate::control::Control;
use crate::driver::Chosen;
use crate::endpoint::AdminListener;
use crate::generations::Origin;
use crate::handle::{ControlHandle, Event};
use crate::init::{self, Mailbox};
use crate::issuing::SHOW_PERIOD;
use crate::key_fetching::KeyFetching;
use crate::map_rows::read_before_start;
use crate::memory;
use crate::names::without_address;
use crate::prepare::{Events, Prepared};
use crate::rest::Rest;
use crate::sharing::offer_all;
use crate::signals::{Signals, Told};
use crate::sockets::Spare;
use crate::stapling::Stapling;
use crate::stopping::{Delay, Ending};
use crate::succession::PeerEvent;
use crate::systemd::{self, warn_if_untold};
use crate::tickets::follow_ticket_keys;
use crate::workers::Workers;
use std::future::Future;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tidegate_proxy::command::SocketId;
use tidegate_proxy::listening::CUT_GRACE;
use tidegate_proxy::snapshot::Listener;
use tidegate_telemetry::ReadinessState;
use tidegate_transport::memory::ever_taken_bytes;
use tokio::sync::{mpsc, oneshot};

/// How often certificates are looked at that nothing was noticed of: those of the internal CA have an age, and notices
/// can be lost.
const RENEWAL_PERIOD: Duration = Duration::from_secs(3600);
/// How often a draining process looks whether its workers have ended.
const DRAIN_POLL: Duration = Duration::from_millis(20);
/// Workers that were told to abort end within this, or with the process.
const ABORT_LIMIT: Duration = Duration::from_millis(500);
/// By then a predecessor has told systemd who its successor is.
const STORE_AGAIN: Duration = Duration::from_secs(3);
/// Addresses of sites that are said when the process has started.
const LISTENERS_SAID_MAX: usize = 20;
/// Lines of the last requests are written within this, drain or not.
const LOG_FLUSH: Duration = Duration::from_secs(2);

impl Prepared {
    pub fn handle(&self) -> ControlHandle {
        self.handle.clone()
    }

    /// The sockets of the admin endpoint, and then each that a change brings. To be taken once.
    pub fn take_admin(&mut self) -> Option<mpsc::UnboundedReceiver<Vec<AdminListener>>> {
        self.admin.take()
    }

    /// Runs until a signal asks to stop and the requests in flight are done, or the drain time has passed. `admin` is
    /// served on the control thread meanwhile; `started` is called once the workers run, and `at_rest` when what the
    /// start, a change or many clients needed is not needed any more.
    pub fn run(
        self,
        admin: impl Future<Output = ()> + 'static,
        started: impl FnOnce(),
        at_rest: impl Fn(),
    ) -> io::Result<ExitCode> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build_local(tokio::runtime::LocalOptions::default())?;
        let Prepared { mut control, mut events, workers, succession, borrowed, ends_with_terminal, .. } = self;
        runtime.block_on(async move {
            let mut signals = Signals::new(if ends_with_terminal { Told::Stop } else { Told::Reload })?;
            control.succession.mailbox = Mailbox::open()?;
            tokio::task::spawn_local(admin);
            follow_ticket_keys(&control.tls, &control.running);
            read_before_start(&control.running.configuration, control.state_dir().to_owned(), &control.process).await;
            // Before a worker accepts: a CA that comes for another process of the same storage, whose sockets share the
            // address, must find its answer here from the first connection on.
            control.follow_certificates();
            control.workers.start(workers, &control.running.snapshot, &control.process)?;
            borrowed.keep();
            control.succession.answer_peers();
            control.look_after_all();
            control.containers.follow(&control.running.configuration);
            let sites = control.configuration().sites.len();
            let Chosen { driver, reason } = control.workers.driver;
            let (driver, workers) = (driver.name(), control.workers.indices().len());
            let generation = control.generation();
            // Where objects of a cluster say what is served, nothing is until they are known, and is said then.
            if control.objects.is_none() {
                control.readiness.set(ReadinessState::Ready);
                tracing::info!(workers, driver, driver_reason = reason, sites, generation, "ready");
                control.say_where_it_listens();
            } else {
                let what = "not ready before it is known what the objects of the cluster say";
                tracing::info!(workers, driver, driver_reason = reason, sites, generation, "started: {what}");
            }
            started();
            let is_successor = succession.is_some();
            if let Some(succession) = succession
                && let Err(fault) = succession.ready()
            {
                tracing::warn!(%fault, "the process before has gone already");
            }
            warn_if_untold(systemd::notify_ready());
            systemd::store_listeners(&control.sockets);
            // Of a successor systemd hears only when its predecessor has said who follows it.
            control.store_again_at = is_successor.then(|| Instant::now() + STORE_AGAIN);
            control.rest = Rest::after_start(Instant::now());
            let ending = control.follow(&mut signals, &mut events, &at_rest).await;
            // All else is freed before the wait, which may last for years.
            match control.leave(&mut signals, ending).await {
                (Some(successor), Some(mailbox)) => Ok(init::outlive(successor, &mut signals, mailbox).await),
                (Some(_), None) | (None, _) => Ok(ExitCode::SUCCESS),
            }
        })
    }
}

impl Control {
    /// Returns when the process is to stop.
    async fn follow(&mut self, signals: &mut Signals, events: &mut Events, at_rest: &impl Fn()) -> Ending {
        let mut renewal = tokio::time::interval(RENEWAL_PERIOD);
        let mut seconds = tokio::time::interval(SAMPLE_PERIOD);
        let mut watchdog = systemd::watchdog_interval().map(tokio::time::interval);
        let mut memory = tokio::time::interval(memory::SAMPLE_PERIOD);
        let mut certificates = tokio::time::interval(SHOW_PERIOD);
        let (heard, told) = (self.followers.heard(), self.containers.told());
        let clusters = self.followers.clusters().clone();
        let mut delay = Delay::default();
        renewal.tick().await;
        loop {
            let objects_due_at = self.objects_due_at();
            tokio::select! {
                told = next_told(signals, self.succession.mailbox.as_mut()) => {
                    if let Some(ending) = self.obey(told, &mut delay) {
                        return ending;
                    }
                }
                () = delay.is_over() => return Ending::Gently,
                _ = renewal.tick() => self.renew_files(),
                _ = memory.tick() => {
                    self.show_cache();
                    self.budget.look(self.running.configuration.memory, &self.process);
                    self.rest.look(Instant::now(), ever_taken_bytes());
                }
                () = at(self.rest.due_at) => {
                    if self.rest.take_due(Instant::now()) {
                        at_rest();
                    }
                }
                _ = certificates.tick() => self.show_certificates(),
                () = heard.wait() => self.take_news(),
                () = clusters.differs() => {
                    self.take_cluster_news();
                    // All endpoints of the cluster are looked through for that.
                    if delay.has_begun() {
                        delay.see(self.own_endpoint());
                    }
                }
                () = at(objects_due_at) => self.take_objects(),
                () = told.wait() => self.take_containers(),
                () = next_tick(&mut watchdog) => warn_if_untold(systemd::notify_watchdog()),
                event = events.asked.recv() => match event {
                    Some(Event::Ask(question)) => question(self),
                    Some(Event::FilesChanged(changed)) => self.files_changed(&changed),
                    None => return Ending::Gently,
                },
                Some(heard) = events.heard.recv() => match heard {
                    PeerEvent::Peer(request) => self.answer_peer(request),
                    PeerEvent::Successor { pid, news } => {
                        if self.hear_of_successor(pid, news) {
                            return Ending::Gently;
                        }
                    }
                },
                _ = seconds.tick() => {
                    self.tick();
                    if self.workers.collect_ended() {
                        tracing::error!("a worker has ended unasked");
                        return Ending::Gently;
                    }
                }
            }
        }
    }

    /// What a signal asks for. `Some` when the process is to stop.
    fn obey(&mut self, told: Told, delay: &mut Delay) -> Option<Ending> {
        match told {
            Told::Stop if delay.has_begun() => return Some(Ending::AtOnce),
            Told::Stop if self.begin_to_stop(delay) => {}
            Told::Stop => return Some(Ending::Gently),
            Told::ReopenLogs => {
                self.logs.reopen();
                tracing::info!("log files reopened");
            }
            Told::Reload => {
                warn_if_untold(systemd::notify_reloading());
                self.reload(Origin::Signal);
                warn_if_untold(systemd::notify_ready());
            }
            Told::Upgrade => self.upgrade(None, oneshot::channel().0),
        }
        None
    }

    /// Once a second.
    fn tick(&mut self) {
        self.judge_pending();
        if self.store_again_at.is_some_and(|at| Instant::now() >= at) {
            self.store_again_at = None;
            systemd::store_listeners(&self.sockets);
        }
        self.free_superseded();
        self.forget_gone_maps();
        self.renewals.look_at_lists(&mut self.running, &self.tls);
        let running = &self.running.snapshot;
        self.names.look_again(Instant::now(), || without_address(running));
        self.look_at_unused_news();
        self.look_at_containers();
        self.show_objects();
        self.checkers.look(&self.running.snapshot, &self.process.registry);
        KeyFetching::look_after(&mut self.key_fetching, &self.process);
        self.follow_log_ins();
        for slot in Stapling::look_after(&mut self.stapling, &self.tls, &self.process) {
            self.issuance.replace_revoked(&slot, &self.tls.obtained);
        }
    }

    /// In one line, for whoever has just started it and for the log.
    pub(crate) fn say_where_it_listens(&self) {
        let listeners = &self.running.snapshot.listeners;
        let scheme = |listener: &Listener| format!("{}://{}", listener.protocol.as_str(), listener.address);
        let mut shown: Vec<String> = listeners.iter().take(LISTENERS_SAID_MAX).map(|listener| scheme(listener)).collect();
        if let Some(more @ 1..) = listeners.len().checked_sub(LISTENERS_SAID_MAX) {
            shown.push(format!("and {more} more"));
        }
        let (listening, admin) = (shown.join(", "), self.admin.listeners.iter().map(|place| place.place.to_string()));
        let admin = admin.collect::<Vec<_>>().join(", ");
        tracing::info!(admin, "listening on {}", if listening.is_empty() { "nothing: there is no site" } else { &listening });
    }

    /// Whoever sends connections is told that none should come any more, and is given time to hear it. False where
    /// nobody needs to.
    fn begin_to_stop(&self, delay: &mut Delay) -> bool {
        if !delay.begin(self.length_of_delay()) {
            return false;
        }
        delay.see(self.own_endpoint());
        self.readiness.set(ReadinessState::Draining);
        warn_if_untold(systemd::notify_stopping());
        tracing::info!(delay = ?delay.length(), "a stop was asked for: not ready any more, and connections are taken until the delay is over");
        true
    }

    /// Hands the sockets over to whoever stays, and ends what is on its way. Says who has taken over.
    async fn leave(mut self, signals: &mut Signals, ending: Ending) -> (Option<u32>, Option<Mailbox>) {
        self.issuance.stop(&self.process);
        if let Some(objects) = self.objects_mut() {
            objects.stop_writing();
        }
        self.ticket_sharing = None;
        self.map_rows = None;
        self.stapling = None;
        self.succession.abandon_successor();
        let successor = self.succession.successor();
        self.readiness.set(ReadinessState::Draining);
        let handed_on = self.hand_sockets_on(successor);
        let limit = ending.limit(self.configuration().drain);
        tracing::info!(drain = ?limit, handed_on = handed_on.len(), "draining");
        self.workers.drain(&handed_on, limit);
        let told = ToldWhileDraining { signals, mailbox: self.succession.mailbox.as_mut(), has_successor: successor.is_some() };
        let complete = ending == Ending::Gently && wait_for_end(&self.workers, limit + CUT_GRACE, Some(told)).await;
        if !complete {
            self.workers.abort();
            wait_for_end(&self.workers, ABORT_LIMIT, None).await;
        }
        self.admin.close();
        self.workers.join_ended();
        let logged = self.logs.finish(Instant::now() + LOG_FLUSH);
        tracing::info!(complete, logged, "stopped");
        (successor, self.succession.mailbox)
    }

    /// Sockets that somebody else accepts from by now: their queues are not ours to empty.
    fn hand_sockets_on(&mut self, successor: Option<u32>) -> Vec<SocketId> {
        let spares = self.sockets.take_all();
        let name = self.succession.stop_answering();
        let is_handed_on = if let Some(pid) = successor {
            // From here on the endpoint is the successor's, and so is the name under which systemd knows the service.
            self.admin.give_up();
            self.serve_metrics_while_draining();
            warn_if_untold(systemd::notify_main_pid(pid));
            vec![true; spares.len()]
        } else {
            warn_if_untold(systemd::notify_stopping());
            spares.iter().for_each(Spare::remove_file);
            offer_all(&name, &spares.iter().map(Spare::socket).collect::<Vec<_>>())
        };
        spares.iter().zip(is_handed_on).filter(|(_, handed_on)| *handed_on).map(|(spare, _)| spare.left(true).id).collect()
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

async fn next_tick(interval: &mut Option<tokio::time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// A signal, or what the first process of a container hands on.
async fn next_told(signals: &mut Signals, mailbox: Option<&mut Mailbox>) -> Told {
    match mailbox {
        None => signals.next().await,
        Some(mailbox) => tokio::select! {
            told = signals.next() => told,
            told = mailbox.next() => told,
        },
    }
}

/// Who tells a process something that drains.
struct ToldWhileDraining<'a> {
    signals: &'a mut Signals,
    /// Within a container. With a successor it is the successor's to read, and what comes here goes there.
    mailbox: Option<&'a mut Mailbox>,
    has_successor: bool,
}

impl ToldWhileDraining<'_> {
    /// Whether the drain is to be cut short.
    async fn next(&mut self) -> bool {
        match &mut self.mailbox {
            Some(mailbox) if self.has_successor => {
                mailbox.put(self.signals.next().await);
                false
            }
            mailbox => match next_told(self.signals, mailbox.as_deref_mut()).await {
                Told::Stop => true,
                Told::ReopenLogs | Told::Reload | Told::Upgrade => false,
            },
        }
    }
}

/// False when time or a signal cut it short.
async fn wait_for_end(workers: &Workers, limit: Duration, mut told: Option<ToldWhileDraining<'_>>) -> bool {
    let until = Instant::now() + limit;
    while !workers.all_ended() {
        if Instant::now() >= until {
            return false;
        }
        match &mut told {
            None => tokio::time::sleep(DRAIN_POLL).await,
            Some(told) => tokio::select! {
                () = tokio::time::sleep(DRAIN_POLL) => {}
                is_cut = told.next() => if is_cut {
                    return false;
                },
            },
        }
    }
    true
}
