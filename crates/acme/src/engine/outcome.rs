//! What came of tasks, and what follows for a name: certificates are used, failures told, names scheduled again. The
//! loop is in `mod`.

use super::{Doing, Engine, LATE_TOLD_EVERY, Phase, Waiter};
use crate::attempt::Outcome;
use crate::cause::{Blame, Cause};
use crate::certificate::Bundle;
use crate::decide;
use crate::interface::{Certificate, Fault, News, Refusal};
use crate::kept::{self, Unkept};
use crate::look::Seen;
use crate::stored::{Held, History};
use crate::subject::Subject;
use jiff::{SignedDuration, Timestamp};
use tokio::task;

/// Names of which it is said at the start that they wait.
const WAITING_TOLD_MAX: usize = 20;
const WAITS: &str = "a name has no certificate and waits for the next attempt, since the last one failed; a changed `acme` or `tidegate cert renew NAME` tries at once";

impl Engine {
    pub(super) fn take_outcome(&mut self, subject: &Subject, outcome: Outcome) {
        let now = Timestamp::now();
        let Some(name) = self.names.get_mut(subject) else { return };
        name.phase = Phase::Waiting(now);
        match outcome {
            Outcome::Issued { held, bundle, history, unkept } => {
                self.standings.note_success(held.facts.directory.as_deref());
                if let Some(cause) = &unkept {
                    let (bundle, facts, history) = (bundle.clone(), held.facts.clone(), history.clone());
                    name.unkept = Some(Box::new(Unkept { bundle, facts, history, cause: cause.clone() }));
                    let fault = Fault { at: now, cause: cause.text.clone(), remedy: cause.remedy.clone() };
                    (self.news)(News::NotKept { name: subject.to_string(), fault });
                }
                self.use_certificate(subject, held, bundle, history, true);
            }
            Outcome::Found { held, bundle, history } => self.use_certificate(subject, held, bundle, history, false),
            Outcome::Failed { cause, history } if cause.blame == Blame::Stopping => name.history = history,
            Outcome::Failed { cause, history } => {
                let directory = history.trouble.as_ref().and_then(|trouble| trouble.directory.clone());
                name.history = history;
                name.is_asked = false;
                let fault = Fault { at: now, cause: cause.text.clone(), remedy: cause.remedy.clone() };
                name.fault = None;
                let waiters = std::mem::take(&mut name.waiters);
                if cause.blame == Blame::Authority {
                    self.standings.note_failure(directory.as_deref(), now);
                }
                self.schedule(subject);
                (self.news)(News::Failed { name: subject.to_string(), fault: fault.clone() });
                self.give_up_on_demand(subject);
                answer_all(waiters, &Err(Refusal::Failed(fault)));
            }
            Outcome::Elsewhere => {
                let wait = SignedDuration::try_from(self.shared.timing.look_again_busy).unwrap_or(SignedDuration::from_secs(5));
                let at = now.checked_add(wait).unwrap_or(now);
                name.phase = Phase::Elsewhere(at);
                self.due.insert((at, subject.clone()));
                self.show(subject);
            }
        }
    }

    pub(super) fn use_certificate(&mut self, subject: &Subject, held: Held, bundle: Bundle, history: History, is_new: bool) {
        let Some(name) = self.names.get_mut(subject) else { return };
        let certificate = certificate_of(subject, &held, bundle, is_new);
        let now = Timestamp::now();
        let early = kept::early(&held.leaf, now);
        if let Some(cause) = &early {
            tracing::warn!(name = %subject, cause = cause.text, remedy = cause.remedy, "a certificate is used before its time");
        }
        let cause = name.unkept.as_ref().map(|unkept| unkept.cause.clone()).or(early);
        name.fault = cause.map(|cause| Fault { at: now, cause: cause.text, remedy: cause.remedy });
        let is_first = name.held.replace(held).is_none();
        name.history = history;
        // Who asked for a new one before storage was read is not served by what lay there.
        let is_served = is_new || !name.is_asked || !is_first;
        let waiters = if is_served { std::mem::take(&mut name.waiters) } else { Vec::new() };
        name.is_asked &= !is_served;
        // What the CA advises about its renewal is asked for now.
        if is_new {
            name.phase = Phase::Looking;
            self.to_look.push_back(subject.clone());
        }
        // The table first, then the news, then who waits: each finds what the one before has done.
        self.schedule(subject);
        (self.news)(News::Certificate(certificate));
        answer_all(waiters, &Ok(()));
        self.tell_if_late(subject, now);
    }

    pub(super) fn take_seen(&mut self, subject: &Subject, seen: Result<Seen, Cause>) {
        let now = Timestamp::now();
        let Some(name) = self.names.get_mut(subject) else { return };
        let is_first = name.phase == Phase::Unread;
        name.phase = Phase::Waiting(now);
        match seen {
            Ok(Seen { certificate, mut history, damage }) => {
                if is_first {
                    decide::forget_wait_of_other_settings(&mut history, &name.wanted.acme);
                }
                if name.unkept.take().is_some() {
                    tracing::info!(name = %subject, "the certificate that storage had not taken is stored now");
                }
                if is_first {
                    let domain = subject.registered_domain();
                    let mut totals = self.shared.totals.borrow_mut();
                    history.attempts.iter().for_each(|attempt| totals.add(attempt, &domain));
                }
                name.fault = damage.map(|damage| Fault {
                    at: now,
                    cause: format!("the stored certificate of {subject} is of no use: {damage}"),
                    remedy: "another one is ordered; the file may be removed".into(),
                });
                if let Some(fault) = name.fault.clone() {
                    (self.news)(News::Failed { name: subject.to_string(), fault });
                }
                match certificate {
                    Some((held, Some(bundle))) => self.use_certificate(subject, held, bundle, history, false),
                    // The same as before, with what the CA says now.
                    Some((mut held, None)) => {
                        // Storage may not have taken it.
                        held.facts.is_revoked |= name.held.as_ref().is_some_and(|known| known.facts.is_revoked);
                        let early = kept::early(&held.leaf, now);
                        name.fault =
                            early.map(|cause| Fault { at: now, cause: cause.text, remedy: cause.remedy }).or(name.fault.take());
                        name.held = Some(held);
                        name.history = history;
                        self.tell_if_late(subject, now);
                        self.schedule(subject);
                    }
                    None => {
                        name.history = history;
                        self.schedule(subject);
                        if is_first {
                            self.tell_if_waiting(subject);
                        }
                        self.give_up_on_demand(subject);
                    }
                }
            }
            Err(cause) => {
                let fault = Fault { at: now, cause: cause.text, remedy: cause.remedy };
                name.fault = Some(fault.clone());
                if is_first {
                    (self.news)(News::Failed { name: subject.to_string(), fault });
                }
                // Nothing is ordered while storage cannot say what there is already.
                let wait = SignedDuration::from_millis((60_000.0 * self.shared.timing.back_off_factor) as i64);
                let at = now.checked_add(wait).unwrap_or(now);
                name.phase = Phase::Waiting(at);
                self.due.insert((at, subject.clone()));
                // Who asked for a new one is not kept waiting for a storage that does not take the one there is.
                let is_asked_in_vain = name.unkept.is_some() && std::mem::take(&mut name.is_asked);
                let waiters = if is_asked_in_vain { std::mem::take(&mut name.waiters) } else { Vec::new() };
                let refusal = name.last_fault().map_or(Refusal::Busy, Refusal::Failed);
                self.show(subject);
                answer_all(waiters, &Err(refusal));
            }
        }
        self.tell_if_read();
    }

    /// A task that panicked, which is a fault of this program. The name is tried again later, and the others go on.
    pub(super) fn take_broken(&mut self, id: task::Id) {
        let Some((subject, doing)) = self.running.remove(&id) else { return };
        let now = Timestamp::now();
        match doing {
            Doing::Attempt => self.attempts -= 1,
            Doing::Look => self.looks -= 1,
            Doing::Asking => {
                answer_all(self.asking.remove(&subject).unwrap_or_default(), &Err(Refusal::Busy));
                return;
            }
        }
        let Some(name) = self.names.get_mut(&subject) else { return };
        let fault = Fault {
            at: now,
            cause: "the attempt broke off by a fault of this program".into(),
            remedy: "please report it, with what was logged before; tried again by itself".into(),
        };
        name.fault = Some(fault.clone());
        name.is_asked = false;
        let waiters = std::mem::take(&mut name.waiters);
        let at = now.checked_add(decide::BACK_OFF_CHEAP_MAX).unwrap_or(now);
        name.phase = Phase::Waiting(at);
        name.next_at = Some(at);
        self.due.insert((at, subject.clone()));
        self.show(&subject);
        (self.news)(News::Failed { name: subject.to_string(), fault: fault.clone() });
        answer_all(waiters, &Err(Refusal::Failed(fault)));
    }

    /// What was revoked goes on being used until there is another, as with one that somebody else has revoked, and also
    /// after a restart.
    pub(super) fn take_revoked(&mut self, subject: &Subject, outcome: Result<Option<Cause>, Cause>, reply: Waiter) {
        let now = Timestamp::now();
        let fault = |cause: Cause| Fault { at: now, cause: cause.text, remedy: cause.remedy };
        let result = match outcome {
            Ok(unkept) => {
                if let Some(name) = self.names.get_mut(subject) {
                    if let Some(held) = &mut name.held {
                        held.facts.is_revoked = true;
                    }
                    name.history.trouble = None;
                    name.replacing = None;
                    tracing::warn!(name = %subject, "the certificate is revoked, and in use until there is another");
                    self.schedule(subject);
                }
                match unkept {
                    None => Ok(()),
                    Some(cause) => {
                        let text = format!(
                            "the CA has revoked it, and this process knows; others and a restart do not, since {}",
                            cause.text
                        );
                        Err(Refusal::Failed(Fault { at: now, cause: text, remedy: cause.remedy }))
                    }
                }
            }
            Err(cause) => Err(Refusal::Failed(fault(cause))),
        };
        let _ = reply.send(result);
    }

    pub(super) fn tell_if_late(&mut self, subject: &Subject, now: Timestamp) {
        let Some(name) = self.names.get_mut(subject) else { return };
        let Some(held) = name.held.as_ref().filter(|held| decide::is_late(held, now)) else { return };
        let is_told = name.late_told_at.is_some_and(|told| now.duration_since(told) < LATE_TOLD_EVERY);
        if !is_told {
            (self.news)(News::Late { name: subject.to_string(), not_after: held.leaf.not_after });
            name.late_told_at = Some(now);
        }
    }

    /// A name without a certificate whose last attempt was that of a process before this one: without a word it would
    /// look as if nothing was done for it.
    fn tell_if_waiting(&mut self, subject: &Subject) {
        let Some(name) = self.names.get(subject) else { return };
        let (Phase::Waiting(_), Some(trouble), Some(next)) = (name.phase, &name.history.trouble, name.next_at) else { return };
        self.waiting_told += 1;
        if self.waiting_told <= WAITING_TOLD_MAX {
            let (cause, remedy) = (&trouble.cause, &trouble.remedy);
            tracing::warn!(name = %subject, cause, remedy, failed_at = %trouble.at, next_attempt_at = %next, "{WAITS}");
        } else if self.waiting_told == WAITING_TOLD_MAX + 1 {
            tracing::warn!("more names wait for their next attempt: `tidegate cert list` has all of them");
        }
    }

    pub(super) fn tell_if_read(&mut self) {
        if !self.is_read_told
            && self.names.values().all(|name| name.looked_at > Timestamp::UNIX_EPOCH && name.phase != Phase::Unread)
        {
            self.is_read_told = true;
            (self.news)(News::Read);
        }
    }
}

pub(super) fn answer_all(waiters: Vec<Waiter>, answer: &Result<(), Refusal>) {
    for waiter in waiters {
        // Whoever went away does not need it.
        let _ = waiter.send(answer.clone());
    }
}

pub(super) fn certificate_of(subject: &Subject, held: &Held, bundle: Bundle, is_new: bool) -> Certificate {
    Certificate {
        name: subject.to_string(),
        bundle,
        not_before: held.leaf.not_before,
        not_after: held.leaf.not_after,
        renew_at: decide::renew_at(held),
        serial: held.leaf.serial.clone(),
        directory: held.facts.directory.clone(),
        is_new,
    }
}
