//! What is asked of the engine about single names: renew, revoke, and names on demand, which come from whoever
//! connects. The loop is in `mod`.

use super::outcome::{answer_all, certificate_of};
use super::{
    Allowed, Doing, Done, Engine, Name, Phase, REPLACED_AGAIN_AFTER, REPLACED_AGAIN_AFTER_MAX, Replacing, WAITERS_MAX, Waiter,
};
use crate::cause::{Blame, Cause};
use crate::decide;
use crate::interface::{Fault, News, Refusal, RevocationReason, Wanted};
use crate::kept;
use crate::on_demand::{self, Denied};
use crate::shared::Shared;
use crate::stored::{Held, Trouble};
use crate::subject::Subject;
use jiff::{SignedDuration, Timestamp};
use std::rc::Rc;
use tidegate_model::OnDemand;

/// A server of `ask` that is away is said once in this time, however many names it is asked for.
const UNANSWERED_TOLD_EVERY: SignedDuration = SignedDuration::from_secs(60);
/// Until it is asked again whether a certificate may be renewed: after a no, and after no answer.
const REFUSED_WAIT: SignedDuration = SignedDuration::from_hours(6);
const UNANSWERED_WAIT: SignedDuration = SignedDuration::from_mins(5);

impl Engine {
    pub(super) fn renew(&mut self, name: &str, reply: Waiter) {
        let subject = Subject::parse(name).ok().filter(|subject| self.names.contains_key(subject));
        let Some((subject, known)) = subject.and_then(|subject| self.names.get_mut(&subject).map(|known| (subject, known)))
        else {
            let _ = reply.send(Err(Refusal::NotWanted));
            return;
        };
        if known.waiters.len() >= WAITERS_MAX {
            let _ = reply.send(Err(Refusal::Busy));
            return;
        }
        known.waiters.push(reply);
        known.is_asked = true;
        self.schedule(&subject);
    }

    pub(super) fn revoke(&mut self, name: &str, reason: RevocationReason, reply: Waiter) {
        let subject = Subject::parse(name).ok();
        let known = subject.as_ref().and_then(|subject| self.names.get(subject));
        let (Some(subject), Some(known)) = (subject.clone(), known) else {
            let _ = reply.send(Err(Refusal::NotWanted));
            return;
        };
        let Some(held) = known.held.clone() else {
            let _ = reply.send(Err(Refusal::NoCertificate));
            return;
        };
        let (shared, acme) = (self.shared.clone(), known.wanted.acme.clone());
        self.tasks.spawn_local(async move {
            let outcome = crate::revocation::revoke(&shared, &subject, &acme, held, reason).await;
            Done::Revoked(subject, outcome, reply)
        });
    }

    /// Somebody else has revoked what is in use. It stays in use until there is another: for most clients it is still
    /// better than none.
    pub(super) fn found_revoked(&mut self, name: &str, leaf_der: &[u8]) {
        let Ok(subject) = Subject::parse(name) else { return };
        let Some(known) = self.names.get_mut(&subject) else { return };
        let is_news = |held: &&mut Held| held.leaf.der[..] == *leaf_der && !held.facts.is_revoked;
        let Some(held) = known.held.as_mut().filter(is_news) else { return };
        held.facts.is_revoked = true;
        let now = Timestamp::now();
        known.replacing = Some(Replacing::after(known.replacing, self.shared.timing.back_off_factor, now));
        // What failed while it was good could wait.
        known.history.trouble = None;
        // An attempt that is under way writes what it finds itself.
        if !matches!(known.phase, Phase::Ordering | Phase::Elsewhere(_)) {
            let (shared, subject, facts) = (self.shared.clone(), subject.clone(), held.facts.clone());
            tokio::task::spawn_local(async move { crate::revocation::note(&shared, &subject, facts).await });
        }
        self.schedule(&subject);
    }

    pub(super) fn on_demand(&mut self, subject: Subject, wanted: Wanted, settings: OnDemand, reply: Waiter) {
        if let Some(name) = self.names.get_mut(&subject).filter(|name| name.held.is_none()) {
            match name.last_fault() {
                Some(fault) if matches!(name.phase, Phase::Waiting(_)) => {
                    let _ = reply.send(Err(Refusal::Failed(fault)));
                }
                _ if name.waiters.len() >= WAITERS_MAX => {
                    let _ = reply.send(Err(Refusal::Busy));
                }
                _ => name.waiters.push(reply),
            }
            return;
        }
        if let Some(waiters) = self.asking.get_mut(&subject) {
            if waiters.len() < WAITERS_MAX {
                waiters.push(reply);
            } else {
                let _ = reply.send(Err(Refusal::Busy));
            }
            return;
        }
        let is_known = self.names.contains_key(&subject);
        let remembered = self.gate.remembered(&subject, &settings.ask, Timestamp::now()).filter(|_| !is_known);
        if let Some(Err(problem)) = remembered {
            let _ = reply.send(Err(Refusal::NotAllowed(problem)));
            return;
        }
        if self.asking.len() >= on_demand::LOOKUPS_MAX || self.names_on_demand >= on_demand::NAMES_MAX {
            let _ = reply.send(Err(Refusal::Busy));
            return;
        }
        self.asking.insert(subject.clone(), vec![reply]);
        let (shared, wanted) = (self.shared.clone(), Rc::new(wanted));
        let asked = subject.clone();
        let is_remembered = remembered.is_some();
        let task = self.tasks.spawn_local(async move {
            let allowed = may_have(&shared, &subject, &settings, is_remembered).await;
            Done::Asked(subject, wanted, settings, allowed)
        });
        self.running.insert(task.id(), (asked, Doing::Asking));
    }

    pub(super) fn take_asked(
        &mut self,
        subject: Subject,
        wanted: Rc<Wanted>,
        settings: OnDemand,
        allowed: Result<Allowed, Denied>,
    ) {
        let now = Timestamp::now();
        let waiters = self.asking.remove(&subject).unwrap_or_default();
        let outcome = match allowed {
            // Whoever asks for what is in use does not have it, so it is told again.
            Ok(Allowed::Known(Some(known))) if self.names.get(&subject).is_some_and(|name| name.held.is_some()) => {
                let (held, bundle) = *known;
                (self.news)(News::Certificate(certificate_of(&subject, &held, bundle, false)));
                answer_all(waiters, &Ok(()));
                return;
            }
            Ok(Allowed::Known(_)) => Ok(()),
            Ok(Allowed::New) => {
                self.gate.remember(&subject, &settings.ask, Ok(()), now);
                self.gate.begin(settings.names_per_hour, now)
            }
            Err(Denied::Refused(problem)) => {
                self.gate.remember(&subject, &settings.ask, Err(problem.clone()), now);
                Err(Refusal::NotAllowed(problem))
            }
            Err(Denied::Unanswered(cause)) => {
                let fault = Fault { at: now, cause: cause.text, remedy: cause.remedy };
                self.tell_unanswered(&subject, &fault, now);
                Err(Refusal::Failed(fault))
            }
            Err(Denied::Busy) => Err(Refusal::Busy),
        };
        match outcome {
            Ok(()) => {
                // It may have been written in the meantime.
                if !self.names.contains_key(&subject) {
                    self.add(subject.clone(), wanted, Some(settings));
                }
                match self.names.get_mut(&subject) {
                    Some(name) if name.held.is_none() => name.waiters.extend(waiters),
                    // In use here, and storage has lost it: it cannot be told.
                    Some(_) | None => answer_all(waiters, &Err(Refusal::NoCertificate)),
                }
            }
            Err(refusal) => answer_all(waiters, &Err(refusal)),
        }
    }

    /// Names come from whoever connects, so it is told now and then only.
    fn tell_unanswered(&mut self, subject: &Subject, fault: &Fault, now: Timestamp) {
        let is_told = |at: Timestamp| now.duration_since(at) < UNANSWERED_TOLD_EVERY;
        if !self.unanswered_told_at.is_some_and(is_told) {
            self.unanswered_told_at = Some(now);
            (self.news)(News::Failed { name: subject.to_string(), fault: fault.clone() });
        }
    }

    /// A renewal that nobody allows now. What is in use goes on being used to its end, and it is asked again.
    pub(super) fn take_denied(&mut self, subject: &Subject, denied: Denied) {
        let now = Timestamp::now();
        let Some(name) = self.names.get_mut(subject) else { return };
        name.phase = Phase::Waiting(now);
        let (cause, wait) = match denied {
            Denied::Refused(problem) => {
                let remedy = "let `ask` allow it, or leave it: the certificate is used until it ends";
                (Cause::new(Blame::Preflight, format!("{subject} is not allowed any more: {problem}"), remedy), REFUSED_WAIT)
            }
            Denied::Unanswered(cause) => (cause, UNANSWERED_WAIT),
            Denied::Busy => {
                (Cause::new(Blame::Preflight, "too many names are asked for", "it is asked again by itself"), UNANSWERED_WAIT)
            }
        };
        let Some(ends) = name.held.as_ref().map(|held| held.leaf.not_after).filter(|ends| *ends > now) else {
            self.drop_name(subject);
            (self.news)(News::Withdrawn { name: subject.to_string(), why: cause.text });
            return;
        };
        let wait = SignedDuration::from_millis((wait.as_millis() as f64 * self.shared.timing.back_off_factor) as i64);
        let again_at = now.checked_add(wait).unwrap_or(now).min(ends);
        let fault = Fault { at: now, cause: cause.text.clone(), remedy: cause.remedy.clone() };
        let settings = Some(decide::mark_of(&name.wanted.acme));
        name.history.trouble =
            Some(Trouble { at: now, directory: None, cause: cause.text, remedy: cause.remedy, again_at, settings });
        name.is_asked = false;
        let waiters = std::mem::take(&mut name.waiters);
        self.schedule(subject);
        (self.news)(News::Failed { name: subject.to_string(), fault: fault.clone() });
        answer_all(waiters, &Err(Refusal::Failed(fault)));
    }

    /// A name on demand that has no certificate and must wait is forgotten: storage knows when it may be tried again,
    /// and somebody has to ask then.
    pub(super) fn give_up_on_demand(&mut self, subject: &Subject) {
        let is_waiting = |name: &Name| name.on_demand.is_some() && name.held.is_none() && matches!(name.phase, Phase::Waiting(_));
        let Some(name) = self.names.get_mut(subject).filter(|name| is_waiting(name)) else { return };
        let waiters = std::mem::take(&mut name.waiters);
        let refusal = name.last_fault().map_or(Refusal::Busy, Refusal::Failed);
        self.drop_name(subject);
        answer_all(waiters, &Err(refusal));
    }
}

impl Replacing {
    /// The first is replaced at once.
    fn after(before: Option<Replacing>, back_off_factor: f64, now: Timestamp) -> Replacing {
        let is_soon = |before: &Replacing| now.duration_since(before.found_at) < REPLACED_AGAIN_AFTER_MAX * 2;
        let before = before.filter(is_soon).map_or(0, |before| before.before + 1);
        let wait = match before.checked_sub(1) {
            None => SignedDuration::ZERO,
            Some(doubled) => (REPLACED_AGAIN_AFTER * (1 << doubled.min(10))).min(REPLACED_AGAIN_AFTER_MAX),
        };
        let wait = SignedDuration::from_millis((wait.as_millis() as f64 * back_off_factor) as i64);
        Replacing { found_at: now, before, again_at: now.checked_add(wait).unwrap_or(now) }
    }
}

/// Whether a name may have a certificate. Who has one in storage is not asked about; who has tried and must wait is
/// told so without being asked about.
async fn may_have(shared: &Shared, subject: &Subject, settings: &OnDemand, is_remembered: bool) -> Result<Allowed, Denied> {
    let read = kept::read(shared, subject).await.map_err(Denied::Unanswered)?;
    let must_wait = read.history.trouble.as_ref().is_some_and(|trouble| trouble.again_at > Timestamp::now());
    if read.certificate.is_some() || must_wait {
        return Ok(Allowed::Known(read.certificate.map(Box::new)));
    }
    if is_remembered {
        return Ok(Allowed::New);
    }
    let _place = shared.asks.try_acquire().map_err(|_| Denied::Busy)?;
    on_demand::ask(shared, subject, settings).await.map(|()| Allowed::New)
}
