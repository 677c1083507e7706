//! The engine's one loop: which names are wanted, what is known of each, what is done for it next and when. It starts
//! tasks and hears what came of them; what to do is decided in `decide`, and done in `attempt`.

mod asked;
mod outcome;

use self::outcome::answer_all;
use crate::answers;
use crate::attempt::{self, Outcome, Task};
use crate::cause::Cause;
use crate::certificate::Bundle;
use crate::decide::{self, Authority, Next, Why};
use crate::interface::{Fault, NameStatus, News, OnDemandSite, Refusal, RevocationReason, State, TlsAnswer, Wanted};
use crate::kept::Unkept;
use crate::look::{self, Seen};
use crate::on_demand::{self, Gate};
use crate::shared::Shared;
use crate::standing::Standings;
use crate::stored::{Held, History, Trouble};
use crate::subject::Subject;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tidegate_model::OnDemand;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, JoinSet};

/// Attempts that are begun: those in an order and those that look ahead.
const ATTEMPTS_AT_A_TIME: usize = 48;
/// Names whose part of storage is read at the same time.
const LOOKS_AT_A_TIME: usize = 32;
/// After so many names without a certificate, one that is to be renewed has its turn.
const FIRSTS_IN_A_ROW: u32 = 3;
/// The loop looks at the clock at least so often, so that a jump of it is noticed.
const WAKE_EVERY: Duration = Duration::from_secs(30);
/// A wall clock may differ from time by this much and count as adjusted.
const JUMP: SignedDuration = SignedDuration::from_mins(5);
/// Who waits for a name.
pub type Waiter = oneshot::Sender<Result<(), Refusal>>;
/// More would be somebody who asks in a loop.
const WAITERS_MAX: usize = 1_000;
const LATE_TOLD_EVERY: SignedDuration = SignedDuration::from_hours(24);

/// What the control plane asks for.
pub enum Command {
    Want(Vec<Wanted>, Vec<OnDemandSite>),
    Renew { name: String, reply: Waiter },
    Revoke { name: String, reason: RevocationReason, reply: Waiter },
    FoundRevoked { name: String, leaf_der: Vec<u8> },
    OnDemand { subject: Subject, wanted: Wanted, settings: OnDemand, reply: Waiter },
    HttpAnswer { token: String, reply: oneshot::Sender<Option<String>> },
    TlsAnswer { server_name: String, reply: oneshot::Sender<Option<TlsAnswer>> },
}

/// Shared with whoever asks for it at any time.
pub type StatusTable = Arc<Mutex<BTreeMap<String, NameStatus>>>;

pub struct Engine {
    shared: Rc<Shared>,
    news: Box<dyn Fn(News) + Send>,
    status: StatusTable,
    names: HashMap<Subject, Name>,
    /// What is due when; each name once at most.
    due: BTreeSet<(Timestamp, Subject)>,
    firsts: VecDeque<Subject>,
    renewals: VecDeque<Subject>,
    firsts_in_a_row: u32,
    to_look: VecDeque<Subject>,
    tasks: JoinSet<Done>,
    /// Whose tasks are under way; only for those that break off.
    running: HashMap<task::Id, (Subject, Doing)>,
    attempts: usize,
    looks: usize,
    standings: Standings,
    gate: Gate,
    /// Names on demand that are being looked up and asked for, and who waits for them.
    asking: HashMap<Subject, Vec<Waiter>>,
    names_on_demand: usize,
    is_read_told: bool,
    is_clock_told: bool,
    /// Names of which it was said that they wait for their next attempt.
    waiting_told: usize,
    /// When it was said last that `ask` gives no answer.
    unanswered_told_at: Option<Timestamp>,
    clock: (Instant, Timestamp),
}

struct Name {
    wanted: Rc<Wanted>,
    /// Nobody wrote it: it was asked for in a handshake, and is asked about again before each renewal.
    on_demand: Option<OnDemand>,
    held: Option<Held>,
    history: History,
    phase: Phase,
    is_asked: bool,
    waiters: Vec<Waiter>,
    looked_at: Timestamp,
    /// When something is done by what `decide` said; storage is looked at more often.
    next_at: Option<Timestamp>,
    late_told_at: Option<Timestamp>,
    /// A fault that is not in the history: of storage, of the clock.
    fault: Option<Fault>,
    /// What is in use and storage has not taken so far.
    unkept: Option<Box<Unkept>>,
    /// Since it was found revoked, last.
    replacing: Option<Replacing>,
}

/// What is replaced because a responder calls it revoked. A responder that says so of everything must not empty the
/// CA's quota, and every order succeeds.
#[derive(Debug, Clone, Copy)]
struct Replacing {
    found_at: Timestamp,
    /// How many were found revoked before it, each not long after the one before.
    before: u32,
    /// No order until then.
    again_at: Timestamp,
}

/// Between orders for certificates that are found revoked soon after each other: after the second one, doubled from
/// there.
const REPLACED_AGAIN_AFTER: SignedDuration = SignedDuration::from_mins(15);
const REPLACED_AGAIN_AFTER_MAX: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Storage was not read yet.
    Unread,
    /// The entry of `due` that is this name's.
    Waiting(Timestamp),
    /// In `firsts` or `renewals`.
    Queued,
    Ordering,
    /// Another process does; storage is looked at until it is done.
    Elsewhere(Timestamp),
    Looking,
}

impl Name {
    fn next(&self, authorities: &[Authority<'_>], now: Timestamp) -> Next {
        let next = decide::decide(self.held.as_ref(), &self.history, authorities, self.is_asked, now);
        match (next, self.replacing) {
            (Next::Order { why: Why::Revoked, .. }, Some(replacing)) if replacing.again_at > now => {
                Next::Wait { until: replacing.again_at }
            }
            (next, _) => next,
        }
    }

    fn last_fault(&self) -> Option<Fault> {
        let of_history =
            |trouble: &Trouble| Fault { at: trouble.at, cause: trouble.cause.clone(), remedy: trouble.remedy.clone() };
        self.fault.clone().or_else(|| self.history.trouble.as_ref().map(of_history))
    }
}

/// What a task does that the engine counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Attempt,
    Look,
    Asking,
}

enum Done {
    Attempt(Subject, Outcome),
    Look(Subject, Result<Seen, Cause>),
    /// With why that cannot be kept, if it cannot.
    Revoked(Subject, Result<Option<Cause>, Cause>, Waiter),
    /// A name on demand: what storage has, or else what `ask` said.
    Asked(Subject, Rc<Wanted>, OnDemand, Result<Allowed, on_demand::Denied>),
    /// A name on demand must not be renewed.
    Denied(Subject, on_demand::Denied),
}

/// Why a name on demand may have its certificate.
enum Allowed {
    /// Storage has one, or somebody has tried to get one.
    Known(Option<Box<(Held, Bundle)>>),
    New,
}

impl Engine {
    pub fn new(shared: Rc<Shared>, news: Box<dyn Fn(News) + Send>, status: StatusTable) -> Engine {
        Engine {
            shared,
            news,
            status,
            names: HashMap::new(),
            due: BTreeSet::new(),
            firsts: VecDeque::new(),
            renewals: VecDeque::new(),
            firsts_in_a_row: 0,
            to_look: VecDeque::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            attempts: 0,
            looks: 0,
            standings: Standings::default(),
            gate: Gate::default(),
            asking: HashMap::new(),
            names_on_demand: 0,
            is_read_told: false,
            is_clock_told: false,
            waiting_told: 0,
            unanswered_told_at: None,
            clock: (Instant::now(), Timestamp::now()),
        }
    }

    /// Until the engine is to end; what is under way then is given a moment to take its answers away.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>, wanted: Option<(Vec<Wanted>, Vec<OnDemandSite>)>) {
        let shared = self.shared.clone();
        if let Some((wanted, on_demand)) = wanted {
            self.want(wanted, &on_demand);
        }
        loop {
            self.notice_clock();
            self.begin_due();
            self.start_tasks();
            let wake = self.next_wake();
            tokio::select! {
                () = shared.stopped() => break,
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => break,
                },
                Some(done) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => match done {
                    Ok((id, done)) => {
                        self.running.remove(&id);
                        self.take(done);
                    }
                    Err(error) => self.take_broken(error.id()),
                },
                () = tokio::time::sleep(wake) => {}
            }
        }
        const END_WITHIN: Duration = Duration::from_secs(5);
        let _ = tokio::time::timeout(END_WITHIN, async { while self.tasks.join_next().await.is_some() {} }).await;
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Want(wanted, on_demand) => self.want(wanted, &on_demand),
            Command::Renew { name, reply } => self.renew(&name, reply),
            Command::Revoke { name, reason, reply } => self.revoke(&name, reason, reply),
            Command::FoundRevoked { name, leaf_der } => self.found_revoked(&name, &leaf_der),
            Command::OnDemand { subject, wanted, settings, reply } => self.on_demand(subject, wanted, settings, reply),
            Command::HttpAnswer { token, reply } => {
                let shared = self.shared.clone();
                task::spawn_local(async move {
                    let _ = reply.send(answers::http(&shared.store, &token, Timestamp::now()).await);
                });
            }
            Command::TlsAnswer { server_name, reply } => {
                let shared = self.shared.clone();
                task::spawn_local(async move {
                    let _ = reply.send(answers::tls(&shared.store, &server_name, Timestamp::now()).await);
                });
            }
        }
    }

    fn want(&mut self, wanted: Vec<Wanted>, on_demand: &[OnDemandSite]) {
        let mut emails = std::collections::HashSet::new();
        let mut all: HashMap<Subject, Rc<Wanted>> = HashMap::with_capacity(wanted.len());
        for one in wanted {
            emails.insert(one.acme.email.clone());
            match Subject::parse(&one.name) {
                Ok(subject) => {
                    all.insert(subject, Rc::new(one));
                }
                Err(problem) => self.refuse_name(&one.name, problem.0),
            }
        }
        emails.extend(on_demand.iter().map(|site| site.acme.email.clone()));
        *self.shared.emails.borrow_mut() = emails;
        let acmes = || all.values().map(|wanted| &wanted.acme).chain(on_demand.iter().map(|site| &site.acme));
        self.shared.keep_publishers(|dns| acmes().any(|acme| acme.dns.as_ref() == Some(dns)));
        self.keep_on_demand(&all, on_demand);
        let is_gone = |(subject, name): &(&Subject, &Name)| name.on_demand.is_none() && !all.contains_key(*subject);
        let gone: Vec<Subject> = self.names.iter().filter(is_gone).map(|(subject, _)| subject.clone()).collect();
        for subject in gone {
            self.drop_name(&subject);
        }
        for (subject, wanted) in all {
            match self.names.get_mut(&subject) {
                Some(name) => {
                    let is_same = *name.wanted == *wanted;
                    name.wanted = wanted;
                    self.names_on_demand -= usize::from(name.on_demand.take().is_some());
                    // Other settings may mend what failed.
                    if !is_same {
                        if let Some(trouble) = &mut name.history.trouble {
                            trouble.again_at = trouble.at;
                        }
                        self.schedule(&subject);
                    }
                }
                None => self.add(subject, wanted, None),
            }
        }
        self.tell_if_read();
    }

    /// Names on demand go on with the settings that their site has now; those that no site has any more are given up.
    fn keep_on_demand(&mut self, wanted: &HashMap<Subject, Rc<Wanted>>, sites: &[OnDemandSite]) {
        let is_ours = |(subject, name): &(&Subject, &Name)| name.on_demand.is_some() && !wanted.contains_key(*subject);
        let names: Vec<Subject> = self.names.iter().filter(is_ours).map(|(subject, _)| subject.clone()).collect();
        for subject in names {
            let text = subject.to_string();
            let closest =
                sites.iter().filter_map(|site| Some((site.closeness(&text)?, site))).max_by_key(|(closeness, _)| *closeness);
            match (closest, self.names.get_mut(&subject)) {
                (Some((_, site)), Some(name)) => {
                    name.wanted = Rc::new(Wanted { name: text, acme: site.acme.clone(), listens: site.listens });
                    name.on_demand = Some(site.settings.clone());
                }
                (None, Some(_)) => {
                    self.drop_name(&subject);
                    let why = "no site obtains it on demand any more".to_owned();
                    (self.news)(News::Withdrawn { name: text, why });
                }
                (_, None) => {}
            }
        }
    }

    fn add(&mut self, subject: Subject, wanted: Rc<Wanted>, on_demand: Option<OnDemand>) {
        self.names_on_demand += usize::from(on_demand.is_some());
        let name = Name {
            wanted,
            on_demand,
            held: None,
            history: History::default(),
            phase: Phase::Unread,
            is_asked: false,
            waiters: Vec::new(),
            looked_at: Timestamp::UNIX_EPOCH,
            next_at: None,
            late_told_at: None,
            fault: None,
            unkept: None,
            replacing: None,
        };
        self.names.insert(subject.clone(), name);
        self.to_look.push_back(subject.clone());
        self.show(&subject);
    }

    /// A text that is no name has a status all the same, or nobody would know.
    fn refuse_name(&mut self, name: &str, problem: &str) {
        let fault = Fault {
            at: Timestamp::now(),
            cause: format!("no certificate can be for `{name}`: {problem}"),
            remedy: "correct the site's address".into(),
        };
        (self.news)(News::Failed { name: name.to_owned(), fault });
    }

    fn drop_name(&mut self, subject: &Subject) {
        if let Some(name) = self.names.remove(subject) {
            self.names_on_demand -= usize::from(name.on_demand.is_some());
            if let Phase::Waiting(at) | Phase::Elsewhere(at) = name.phase {
                self.due.remove(&(at, subject.clone()));
            }
            name.waiters.into_iter().for_each(|waiter| {
                let _ = waiter.send(Err(Refusal::NotWanted));
            });
        }
        self.table().remove(&subject.to_string());
    }

    /// Puts a name where `decide` says it belongs. Names that are being worked on come back here when that is done.
    fn schedule(&mut self, subject: &Subject) {
        let now = Timestamp::now();
        let Some(name) = self.names.get_mut(subject) else { return };
        match name.phase {
            Phase::Unread | Phase::Queued | Phase::Ordering | Phase::Looking => {
                self.show(subject);
                return;
            }
            Phase::Waiting(at) | Phase::Elsewhere(at) => {
                self.due.remove(&(at, subject.clone()));
            }
        }
        let authorities = self.standings.authorities(&name.wanted.acme, now);
        let next = name.next(&authorities, now);
        let look_at = name.looked_at.checked_add(self.shared.timing.look_again).unwrap_or(now);
        match next {
            // What is in use has to be stored first: an attempt would find an older one there.
            Next::Order { .. } if name.unkept.is_some() => {
                name.phase = Phase::Looking;
                self.to_look.push_back(subject.clone());
            }
            Next::Order { why, .. } => {
                name.phase = Phase::Queued;
                match why {
                    Why::Due | Why::Moved => self.renewals.push_back(subject.clone()),
                    Why::First | Why::Asked | Why::Revoked => self.firsts.push_back(subject.clone()),
                }
            }
            Next::Wait { until } => {
                name.next_at = Some(until);
                let advised = name.held.as_ref().and_then(|held| held.facts.advice.as_ref()).map(|advice| advice.ask_again_at);
                let at = until.min(look_at).min(advised.unwrap_or(until)).max(now);
                name.phase = Phase::Waiting(at);
                self.due.insert((at, subject.clone()));
                // Whoever waits for something new would wait for as long; that is said instead.
                name.is_asked = false;
                let refusal = name.last_fault().map_or(Refusal::Busy, Refusal::Failed);
                answer_all(std::mem::take(&mut name.waiters), &Err(refusal));
            }
            Next::ClockWrong(cause) => {
                if !std::mem::replace(&mut self.is_clock_told, true) {
                    let fault = Fault { at: now, cause: cause.text.clone(), remedy: cause.remedy.clone() };
                    (self.news)(News::ClockWrong(fault));
                }
                let at = now.checked_add(SignedDuration::from_secs(60)).unwrap_or(now);
                let fault = Fault { at: now, cause: cause.text, remedy: cause.remedy };
                name.fault = Some(fault.clone());
                name.is_asked = false;
                answer_all(std::mem::take(&mut name.waiters), &Err(Refusal::Failed(fault)));
                name.phase = Phase::Waiting(at);
                self.due.insert((at, subject.clone()));
            }
        }
        self.show(subject);
    }

    /// What has come due is looked at in storage first, and decided on after.
    fn begin_due(&mut self) {
        let now = Timestamp::now();
        while let Some((at, _)) = self.due.first() {
            if *at > now {
                return;
            }
            let Some((_, subject)) = self.due.pop_first() else { return };
            if let Some(name) = self.names.get_mut(&subject) {
                name.phase = Phase::Looking;
                self.to_look.push_back(subject);
            }
        }
    }

    fn start_tasks(&mut self) {
        while self.looks < LOOKS_AT_A_TIME
            && let Some(subject) = self.to_look.pop_front()
        {
            self.start_look(subject);
        }
        while self.attempts < ATTEMPTS_AT_A_TIME
            && let Some(subject) = self.next_queued()
        {
            self.start_attempt(subject);
        }
    }

    fn next_queued(&mut self) -> Option<Subject> {
        let is_renewals_turn = self.firsts_in_a_row >= FIRSTS_IN_A_ROW && !self.renewals.is_empty();
        if !is_renewals_turn && let Some(subject) = self.firsts.pop_front() {
            self.firsts_in_a_row += 1;
            return Some(subject);
        }
        self.firsts_in_a_row = 0;
        self.renewals.pop_front()
    }

    fn start_look(&mut self, subject: Subject) {
        // A name that was dropped and wanted again may stand in a line twice.
        let is_looked_for = |name: &&mut Name| matches!(name.phase, Phase::Unread | Phase::Looking);
        let Some(name) = self.names.get_mut(&subject).filter(is_looked_for) else { return };
        name.looked_at = Timestamp::now();
        self.looks += 1;
        let (shared, acme, known) = (self.shared.clone(), name.wanted.acme.clone(), name.held.clone());
        let unkept = name.unkept.clone();
        let looked_at = subject.clone();
        let task = self.tasks.spawn_local(async move {
            let seen = look::look(&shared, &looked_at, &acme, known, unkept).await;
            Done::Look(looked_at, seen)
        });
        self.running.insert(task.id(), (subject, Doing::Look));
    }

    fn start_attempt(&mut self, subject: Subject) {
        let now = Timestamp::now();
        let Some(name) = self.names.get_mut(&subject).filter(|name| name.phase == Phase::Queued) else { return };
        let authorities = self.standings.authorities(&name.wanted.acme, now);
        // Decided again: it may have stood in line for long.
        match name.next(&authorities, now) {
            Next::Order { authority, stage, .. } => {
                name.phase = Phase::Ordering;
                self.attempts += 1;
                let attempt = Task {
                    subject: subject.clone(),
                    wanted: name.wanted.clone(),
                    authority,
                    stage,
                    is_asked: name.is_asked,
                    known_serial: name.held.as_ref().map(|held| held.leaf.serial.clone()),
                    known_history: name.history.clone(),
                };
                let shared = self.shared.clone();
                let attempted = subject.clone();
                // The first time it was asked about a moment ago.
                let to_ask = name.on_demand.clone().filter(|_| name.held.is_some());
                let task = self.tasks.spawn_local(async move {
                    if let Some(settings) = to_ask
                        && let Err(denied) = on_demand::ask(&shared, &attempted, &settings).await
                    {
                        return Done::Denied(attempted, denied);
                    }
                    Done::Attempt(attempted, attempt::attempt(shared, attempt).await)
                });
                self.running.insert(task.id(), (subject.clone(), Doing::Attempt));
                self.show(&subject);
            }
            Next::Wait { .. } | Next::ClockWrong(_) => {
                name.phase = Phase::Waiting(now);
                self.schedule(&subject);
            }
        }
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Attempt(subject, outcome) => {
                self.attempts -= 1;
                self.take_outcome(&subject, outcome);
            }
            Done::Look(subject, seen) => {
                self.looks -= 1;
                self.take_seen(&subject, seen);
            }
            Done::Revoked(subject, outcome, reply) => self.take_revoked(&subject, outcome, reply),
            Done::Asked(subject, wanted, settings, allowed) => self.take_asked(subject, wanted, settings, allowed),
            Done::Denied(subject, denied) => {
                self.attempts -= 1;
                self.take_denied(&subject, denied);
            }
        }
    }

    /// Times in `due` are of the wall clock, so after a jump they are right again by themselves; people want to know.
    fn notice_clock(&mut self) {
        let (then, wall_then) = self.clock;
        let (now, wall_now) = (Instant::now(), Timestamp::now());
        self.clock = (now, wall_now);
        let passed = SignedDuration::try_from(now.duration_since(then)).unwrap_or_default();
        let jump = wall_now.duration_since(wall_then).checked_sub(passed).unwrap_or_default();
        if jump.abs() > JUMP {
            (self.news)(News::ClockJumped { seconds: jump.as_secs() });
        }
    }

    fn next_wake(&self) -> Duration {
        let now = Timestamp::now();
        let until = self.due.first().map(|(at, _)| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        until.unwrap_or(WAKE_EVERY).min(WAKE_EVERY)
    }

    fn table(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, NameStatus>> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the table that others read up to date.
    fn show(&self, subject: &Subject) {
        let Some(name) = self.names.get(subject) else { return };
        let now = Timestamp::now();
        let held = name.held.as_ref();
        let state = match name.phase {
            Phase::Unread => State::Reading,
            Phase::Queued => State::Queued,
            Phase::Ordering | Phase::Elsewhere(_) => State::Ordering,
            Phase::Waiting(_) | Phase::Looking
                if held.is_some_and(|held| !held.facts.is_revoked && held.leaf.not_after > now) =>
            {
                State::Ready
            }
            Phase::Waiting(_) | Phase::Looking => State::Missing,
        };
        let status = NameStatus {
            name: subject.to_string(),
            state,
            not_after: held.map(|held| held.leaf.not_after),
            renew_at: held.map(decide::renew_at),
            serial: held.map(|held| held.leaf.serial.clone()),
            directory: held.and_then(|held| held.facts.directory.clone()),
            is_late: held.is_some_and(|held| decide::is_late(held, now)),
            is_revoked: held.is_some_and(|held| held.facts.is_revoked),
            failures_in_a_row: name.history.failures_in_a_row,
            last_fault: name.last_fault().or_else(|| revoked_fault(subject, name, now)),
            next_attempt_at: match name.phase {
                Phase::Waiting(_) => name.next_at,
                Phase::Unread | Phase::Queued | Phase::Ordering | Phase::Elsewhere(_) | Phase::Looking => None,
            },
        };
        self.table().insert(subject.to_string(), status);
    }
}

/// Where nothing else is in the way of another one.
fn revoked_fault(subject: &Subject, name: &Name, now: Timestamp) -> Option<Fault> {
    name.held.as_ref().filter(|held| held.facts.is_revoked)?;
    Some(Fault {
        at: name.replacing.map_or(now, |replacing| replacing.found_at),
        cause: format!("the certificate of {subject} is revoked"),
        remedy: "another one is obtained by itself".into(),
    })
}
