//! One attempt to get a certificate for one name, from top to bottom: be alone, look what others have stored, take up
//! an order that was left, look before the leap, order, keep. It is given what `decide` chose and gives back what came
//! of it; it schedules nothing.

use crate::account;
use crate::cause::{Blame, Cause, Context};
use crate::certificate::Bundle;
use crate::contact::Conversation;
use crate::decide::{self, Authority, Next, Stage};
use crate::interface::Wanted;
use crate::kept::{self, Arrival};
use crate::keys;
use crate::nonce::{repeat, repeat_safe};
use crate::order::{Failure, Placed};
use crate::preflight::gather::gather;
use crate::preflight::verdict::{Verdict, profile_fits, profile_is_offered, usable_challenges, verdict};
use crate::quota::{self, Allowance};
use crate::shared::{Shared, storage_cause};
use crate::stored::{self, Attempt, Counted, Facts, Held, History, OrderOnItsWay};
use crate::subject::Subject;
use instant_acme::{CertificateIdentifier, Error, Identifier, NewOrder, Order, OrderStatus};
use jiff::{SignedDuration, Timestamp};
use std::rc::Rc;
use tidegate_model::{Acme, AcmeAuthority, AcmeChallenge};
use zeroize::Zeroizing;

/// CAs forget orders after a week; one as old as this is not worth asking for.
const ORDER_KEPT: SignedDuration = SignedDuration::from_hours(6 * 24);

/// What is to be done.
pub struct Task {
    pub subject: Subject,
    pub wanted: Rc<Wanted>,
    pub authority: usize,
    pub stage: Stage,
    /// Somebody at a keyboard wants it, and may have what is kept in reserve.
    pub is_asked: bool,
    /// The serial number of the certificate that is known to be there, to see whether another process was faster.
    pub known_serial: Option<String>,
    /// For when storage cannot be read.
    pub known_history: History,
}

/// What came of it.
pub enum Outcome {
    Issued {
        held: Held,
        bundle: Bundle,
        history: History,
        /// Why storage does not have it.
        unkept: Option<Cause>,
    },
    /// Somebody else has stored one, or it had been left on its way.
    Found { held: Held, bundle: Bundle, history: History },
    /// The history has the failure in it, and when to try again.
    Failed { cause: Cause, history: History },
    /// Another process has the lock.
    Elsewhere,
}

/// The whole attempt.
pub async fn attempt(shared: Rc<Shared>, task: Task) -> Outcome {
    let lock = match shared.store.try_lock(&stored::order_lock(&task.subject)).await {
        Ok(Some(lock)) => lock,
        Ok(None) => return Outcome::Elsewhere,
        Err(fault) => return failed(&shared, &task.wanted.acme, storage_cause(&fault), task.known_history, None),
    };
    let outcome = match kept::read(&shared, &task.subject).await {
        Ok(read) => {
            let held = read.certificate.as_ref().map(|(held, _)| held);
            let is_news = held.is_some_and(|held| Some(&held.leaf.serial) != task.known_serial.as_ref() && !is_due(held, &task));
            match read.certificate {
                Some((held, bundle)) if is_news => Outcome::Found { held, bundle, history: read.history },
                certificate => {
                    let held = certificate.map(|(held, _)| held);
                    let mut alone =
                        Alone { shared: shared.clone(), task, held, history: read.history, lock: &lock, is_staging: false };
                    alone.run().await
                }
            }
        }
        Err(cause) => failed(&shared, &task.wanted.acme, cause, task.known_history, None),
    };
    shared.sweep().await;
    let _ = lock.release().await;
    outcome
}

/// Storage may not be able to remember it; then this process does, at least.
fn failed(shared: &Shared, acme: &Acme, cause: Cause, mut history: History, asked: Option<(&str, bool)>) -> Outcome {
    let (directory, is_staging) = asked.map_or((None, false), |(directory, is_staging)| (Some(directory), is_staging));
    let share = rand::random();
    decide::note_failure(&mut history, &cause, directory, is_staging, Timestamp::now(), share);
    if let Some(trouble) = &mut history.trouble {
        let wait = trouble.again_at.duration_since(trouble.at).as_secs_f64() * shared.timing.back_off_factor;
        let wait = SignedDuration::from_millis((wait * 1000.0) as i64);
        trouble.again_at = trouble.at.checked_add(wait).unwrap_or(trouble.again_at);
        if cause.blame != Blame::Stopping {
            trouble.settings = Some(decide::mark_of(acme));
        }
    }
    Outcome::Failed { cause, history }
}

/// Whether what another process stored needs renewal itself.
fn is_due(held: &Held, task: &Task) -> bool {
    let authorities: Vec<Authority<'_>> = task
        .wanted
        .acme
        .authorities
        .iter()
        .map(|authority| Authority { directory: &authority.directory, staging: None, resting_until: None })
        .collect();
    let next = decide::decide(Some(held), &History::default(), &authorities, false, Timestamp::now());
    matches!(next, Next::Order { .. })
}

/// A certificate that is to be used.
struct Kept {
    held: Held,
    bundle: Bundle,
    /// Why storage does not have it.
    unkept: Option<Cause>,
}

/// An attempt that nobody else makes at the same time.
struct Alone<'a> {
    shared: Rc<Shared>,
    task: Task,
    held: Option<Held>,
    history: History,
    lock: &'a tidegate_storage::Lock,
    /// What is being asked at the moment.
    is_staging: bool,
}

impl Alone<'_> {
    async fn run(&mut self) -> Outcome {
        let stopped = {
            let shared = self.shared.clone();
            async move { shared.stopped().await }
        };
        let done = tokio::select! {
            done = self.obtain() => done,
            () = stopped => Err(Cause::new(Blame::Stopping, "the process is being stopped", "the order is taken up at the next start")),
        };
        let now = Timestamp::now();
        let mut history = std::mem::take(&mut self.history);
        history.prune(now.checked_sub(quota::REMEMBERED).unwrap_or(now));
        let outcome = match done {
            Ok(Kept { held, bundle, unkept }) => Outcome::Issued { held, bundle, history, unkept },
            Err(cause) => {
                let authority = self.task.wanted.acme.authorities.get(self.task.authority);
                if let (Some(authority), Blame::Authority | Blame::Unfit) = (authority, cause.blame) {
                    self.shared.contacts.forget(&authority.directory);
                }
                let asked = authority.map(|authority| (authority.directory.as_str(), self.is_staging));
                failed(&self.shared, &self.task.wanted.acme, cause, history, asked)
            }
        };
        let (Outcome::Issued { history, .. } | Outcome::Failed { history, .. }) = &outcome else { return outcome };
        let key = stored::history_key(&self.task.subject);
        // What went wrong is known without it; only a restart would not remember.
        if let Err(fault) = self.shared.store.write(&key, &stored::write(history)).await {
            tracing::debug!(name = %self.task.subject, %fault, "the history of a name cannot be kept");
        }
        outcome
    }

    async fn obtain(&mut self) -> Result<Kept, Cause> {
        if let Some(resumed) = self.take_up().await? {
            return Ok(resumed);
        }
        let acme = self.task.wanted.acme.clone();
        let Some(authority) = acme.authorities.get(self.task.authority).cloned() else {
            return Err(Cause::new(Blame::Setup, "no CA is configured", "give `ca` in `acme`"));
        };
        profile_fits(&self.task.subject, &authority.directory, acme.profile.as_deref())?;
        let challenges = usable_challenges(&self.task.subject, &acme, self.task.wanted.listens)?;
        // Storage first: what cannot be kept is not ordered. The key is in it already, so that nothing can be lost from
        // here on.
        let key_pem = keys::generate(acme.key_type).await?;
        let mut on_its_way = OrderOnItsWay {
            directory: authority.directory.clone(),
            account: String::new(),
            url: None,
            key_pem,
            begun_at: Timestamp::now(),
            replaces: None,
            room: "-".repeat(stored::ROOM_BYTES),
        };
        self.write_order(&on_its_way).await?;
        let outcome = self.obtain_new(&authority, challenges, &mut on_its_way).await;
        if outcome.is_err() && on_its_way.url.is_none() {
            self.forget_order().await?;
        }
        outcome
    }

    async fn obtain_new(
        &mut self,
        authority: &AcmeAuthority,
        challenges: Vec<AcmeChallenge>,
        on_its_way: &mut OrderOnItsWay,
    ) -> Result<Kept, Cause> {
        let conversation = self.shared.contacts.open(authority, &authority.directory, self.shared.timing.request_max).await?;
        let acme = self.task.wanted.acme.clone();
        profile_is_offered(&authority.name, acme.profile.as_deref(), &conversation.directory.meta.profiles)?;
        let (challenges, doubt) = self.look_ahead(authority, &conversation, challenges).await?;
        let permit = self.shared.clone();
        let _permit = permit.orders.acquire().await;
        if let (Some(staging), true) = (&authority.staging, self.task.stage == Stage::Staging || doubt.is_some()) {
            self.is_staging = true;
            self.rehearse(authority, staging, &challenges).await.map_err(|cause| beside_doubt(cause, doubt.as_ref()))?;
            self.is_staging = false;
            decide::note_rehearsal(&mut self.history, Timestamp::now());
        }
        self.check_quota(&authority.directory, &conversation)?;
        on_its_way.replaces = self.replaced(&conversation).map(|id| id.to_string());
        let chain = self.order(authority, &conversation, &challenges, on_its_way).await;
        let chain = chain.map_err(|cause| beside_doubt(cause, doubt.as_ref()))?;
        self.keep(&chain, on_its_way, &authority.name).await
    }

    /// Goes on with an order that this process or another has left.
    async fn take_up(&mut self) -> Result<Option<Kept>, Cause> {
        let key = stored::order_key(&self.task.subject);
        let bytes = self.shared.store.read(&key).await.map_err(|fault| storage_cause(&fault))?.map(Zeroizing::new);
        let Some(on_its_way) = bytes.and_then(|bytes| stored::parse::<OrderOnItsWay>(&bytes)) else { return Ok(None) };
        let Some(url) = on_its_way.url.clone() else { return Ok(None) };
        let is_fresh = Timestamp::now().duration_since(on_its_way.begun_at) < ORDER_KEPT;
        let acme = self.task.wanted.acme.clone();
        let authority = acme.authorities.iter().find(|authority| authority.directory == on_its_way.directory);
        let (Some(authority), true) = (authority, is_fresh) else { return Ok(None) };
        let challenges = usable_challenges(&self.task.subject, &acme, self.task.wanted.listens)?;
        let conversation = self.shared.contacts.open(authority, &authority.directory, self.shared.timing.request_max).await?;
        let shared = self.shared.clone();
        let _permit = shared.orders.acquire().await;
        let ready = account::account(&shared, authority, acme.email.as_deref(), &conversation).await?;
        if ready.stored.url != on_its_way.account {
            return Ok(None);
        }
        let order = match repeat_safe(async || ready.account.order(url.clone()).await).await {
            Ok(order) => order,
            // It has forgotten the order or never had it.
            Err(Error::Api(_)) => return Ok(None),
            Err(error) => return Err(Failure::of(&error, &conversation, of_order(&conversation)).cause),
        };
        match self.by_any(&ready.account, &conversation, order, &on_its_way.key_pem, &challenges).await {
            // It was stored, and only its order could not be removed.
            Ok(chain) if self.is_in_use(&chain, &on_its_way) => {
                self.forget_order().await?;
                Ok(None)
            }
            Ok(chain) => self.keep(&chain, &on_its_way, &authority.name).await.map(Some),
            Err(failure) if failure.is_order_dead => {
                self.forget_order().await?;
                Ok(None)
            }
            Err(failure) => Err(failure.cause),
        }
    }

    /// The same order by one kind of challenge after the other, until it is dead or nothing is left that could mend it.
    async fn by_any(
        &mut self,
        account: &instant_acme::Account,
        conversation: &Conversation,
        mut order: Order,
        key_pem: &str,
        challenges: &[AcmeChallenge],
    ) -> Result<String, Failure> {
        let url = order.url().to_owned();
        let mut rest = challenges.iter().copied().peekable();
        loop {
            let Some(challenge) = rest.next() else { return Err(Failure::new(nothing_to_try())) };
            match self.complete(conversation, order, key_pem, challenge).await {
                Ok(chain) => return Ok(chain),
                Err(failure) => {
                    self.note_validation(&failure, &conversation.url);
                    if failure.is_order_dead || !failure.is_mendable || rest.peek().is_none() {
                        return Err(Failure { tried: challenge_index(challenges, challenge), ..failure });
                    }
                }
            }
            let again = repeat_safe(async || account.order(url.clone()).await).await;
            order = again.map_err(|error| Failure::of(&error, conversation, of_order(conversation)))?;
        }
    }

    /// What of the challenges could succeed, and what makes that doubtful if nothing is certain.
    async fn look_ahead(
        &mut self,
        authority: &AcmeAuthority,
        conversation: &Conversation,
        challenges: Vec<AcmeChallenge>,
    ) -> Result<(Vec<AcmeChallenge>, Option<Cause>), Cause> {
        let acme = self.task.wanted.acme.clone();
        if !acme.preflight {
            return Ok((challenges, None));
        }
        let shared = self.shared.clone();
        let _permit = shared.preflights.acquire().await;
        let subject = &self.task.subject;
        let account = account::known_url(&shared, authority, acme.email.as_deref()).await;
        let findings = gather(&shared, subject, &acme, conversation, &challenges, account).await;
        let mut fine = Vec::new();
        let mut doubtful = Vec::new();
        let (mut first_doubt, mut first_cause) = (None, None);
        for challenge in challenges {
            match verdict(subject, challenge, &authority.name, &findings) {
                Verdict::Fine => fine.push(challenge),
                Verdict::Doubtful(doubt) => {
                    doubtful.push(challenge);
                    first_doubt = first_doubt.or(Some(doubt));
                }
                Verdict::Certain(cause) => first_cause = first_cause.or(Some(cause)),
            }
        }
        match (fine.is_empty() && doubtful.is_empty(), first_cause) {
            (true, Some(cause)) => Err(cause),
            _ => {
                let doubt = first_doubt.filter(|_| fine.is_empty());
                fine.extend(doubtful);
                Ok((fine, doubt))
            }
        }
    }

    /// The same order where it costs nothing. Its certificate is thrown away.
    async fn rehearse(&mut self, authority: &AcmeAuthority, staging: &str, challenges: &[AcmeChallenge]) -> Result<(), Cause> {
        let rehearsing = AcmeAuthority { name: format!("{} (staging)", authority.name), ..authority.clone() };
        let conversation = self.shared.contacts.open(&rehearsing, staging, self.shared.timing.request_max).await?;
        let key_pem = keys::generate(tidegate_model::AcmeKeyType::EcdsaP256).await?;
        let mut on_its_way = OrderOnItsWay {
            directory: staging.to_owned(),
            account: String::new(),
            url: None,
            key_pem,
            begun_at: Timestamp::now(),
            replaces: None,
            room: String::new(),
        };
        self.order(&rehearsing, &conversation, challenges, &mut on_its_way).await.map(|_| ())
    }

    fn check_quota(&self, directory: &str, conversation: &Conversation) -> Result<(), Cause> {
        let subject = &self.task.subject;
        let is_replacement = self.replaced(conversation).is_some();
        let totals = self.shared.totals.borrow();
        let attempts = &self.history.attempts;
        let kind = quota::Kind { is_replacement, is_asked: self.task.is_asked };
        let has_another = self.task.wanted.acme.authorities.len() > 1;
        match quota::allowance(directory, attempts, &subject.registered_domain(), &totals, kind, Timestamp::now()) {
            Allowance::Enough => Ok(()),
            Allowance::Spent(cause) => Err(cause),
            Allowance::ProbablySpent(cause) if has_another => Err(cause),
            Allowance::ProbablySpent(_) => Ok(()),
        }
    }

    /// An order with each kind of challenge in turn, as long as another one could mend what failed.
    async fn order(
        &mut self,
        authority: &AcmeAuthority,
        conversation: &Conversation,
        challenges: &[AcmeChallenge],
        on_its_way: &mut OrderOnItsWay,
    ) -> Result<String, Cause> {
        let shared = self.shared.clone();
        let email = self.task.wanted.acme.email.clone();
        let is_staging = self.is_staging;
        let account = account::account(&shared, authority, email.as_deref(), conversation).await;
        let mut ready = account.map_err(|cause| if is_staging { staging_account(cause) } else { cause })?;
        let mut order = match self.place(&ready.account, conversation).await {
            Ok(order) => order,
            // One that was lost is made anew at once: nothing else was wrong.
            Err(failure) if failure.is_account_lost => {
                account::forget(&shared, conversation, email.as_deref()).await?;
                ready = account::account(&shared, authority, email.as_deref(), conversation).await?;
                self.place(&ready.account, conversation).await.map_err(|failure| failure.cause)?
            }
            Err(failure) => return Err(failure.cause),
        };
        on_its_way.account.clone_from(&ready.stored.url);
        let mut rest = challenges;
        loop {
            if !self.is_staging {
                on_its_way.url = Some(order.url().to_owned());
                // There was room a moment ago. The order exists, so it is brought to its end: giving it up would mean
                // another one.
                if let Err(cause) = self.write_order(on_its_way).await {
                    tracing::warn!(name = %self.task.subject, cause = cause.text, remedy = cause.remedy, "an order on its way is not in storage");
                }
            }
            let failure = match self.by_any(&ready.account, conversation, order, &on_its_way.key_pem, rest).await {
                Ok(chain) => return Ok(chain),
                Err(failure) => failure,
            };
            if failure.is_order_dead && !self.is_staging {
                self.forget_order().await?;
            }
            // The kinds that failed stay behind; another order has another authorisation.
            rest = rest.get(failure.tried + 1..).unwrap_or_default();
            if rest.is_empty() || !failure.is_mendable || !failure.is_order_dead {
                return Err(failure.cause);
            }
            order = self.place(&ready.account, conversation).await.map_err(|failure| failure.cause)?;
        }
    }

    /// Asks for an order, and says which certificate it replaces where the CA wants to know.
    async fn place(&mut self, account: &instant_acme::Account, conversation: &Conversation) -> Result<Order, Failure> {
        let identifiers = [match &self.task.subject {
            Subject::Ip(ip) => Identifier::Ip(*ip),
            Subject::Host(_) | Subject::Wildcard(_) => Identifier::Dns(self.task.subject.to_string()),
        }];
        let acme = self.task.wanted.acme.clone();
        let wanted = || {
            let order = NewOrder::new(&identifiers);
            // What a staging directory does not have is rehearsed without it; the one that counts has it.
            match acme.profile.as_ref().filter(|profile| conversation.directory.meta.profiles.contains_key(*profile)) {
                Some(profile) => order.profile(profile),
                None => order,
            }
        };
        let replaced = self.replaced(conversation);
        let first = match &replaced {
            Some(id) => repeat(async || account.new_order(&wanted().replaces(id.clone())).await).await,
            None => repeat(async || account.new_order(&wanted()).await).await,
        };
        let placed = match first {
            // Another order has replaced it, or the CA forgot the certificate: it is then ordered as any other.
            Err(error) if replaced.is_some() && !matches!(&error, Error::Api(problem) if problem.status == Some(429)) => {
                repeat(async || account.new_order(&wanted()).await).await
            }
            first => first,
        };
        let order = placed.map_err(|error| Failure::of(&error, conversation, of_order(conversation)))?;
        self.count(Counted::Order, &conversation.url);
        Ok(order)
    }

    /// The certificate that is renewed, if this CA issued it and knows renewal information.
    fn replaced(&self, conversation: &Conversation) -> Option<CertificateIdentifier<'static>> {
        conversation.directory.renewal_info.as_ref()?;
        let held = self.held.as_ref().filter(|held| held.facts.directory.as_deref() == Some(&*conversation.url))?;
        let (issuer, serial) = held.leaf.renewal_id.as_ref()?.split_once('.')?;
        Some(CertificateIdentifier { authority_key_identifier: issuer.to_owned().into(), serial: serial.to_owned().into() })
    }

    async fn complete(
        &self,
        conversation: &Conversation,
        mut order: Order,
        key_pem: &str,
        challenge: AcmeChallenge,
    ) -> Result<String, Failure> {
        let is_finished = matches!(order.state().status, OrderStatus::Valid);
        // Two processes that both believe to hold the lock finalise the same order at worst; but no certificate is made
        // without it.
        if !self.lock.is_held() && !is_finished {
            return Err(Failure::new(lock_lost()));
        }
        let acme = self.task.wanted.acme.clone();
        let placed = Placed { shared: &self.shared, subject: &self.task.subject, acme: &acme, conversation, order, key_pem };
        let order_max = self.shared.timing.order_max;
        match tokio::time::timeout(order_max, placed.complete(challenge)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::new(Cause::new(
                Blame::Authority,
                format!("{} has not finished the order within {order_max:?}", conversation.authority),
                "the same order is taken up again by itself; see the CA's status page if it goes on",
            ))),
        }
    }

    /// Whether the chain is that of the certificate that is there.
    fn is_in_use(&self, chain: &str, on_its_way: &OrderOnItsWay) -> bool {
        let leaf = Bundle::join(chain, &on_its_way.key_pem).leaf_for(&self.task.subject).ok();
        leaf.is_some_and(|leaf| self.held.as_ref().is_some_and(|held| held.leaf.serial == leaf.serial))
    }

    /// Looks at what came, and stores it; what storage does not take is used all the same.
    async fn keep(&mut self, chain: &str, on_its_way: &OrderOnItsWay, authority: &str) -> Result<Kept, Cause> {
        let subject = &self.task.subject;
        let bundle = Bundle::join(chain, &on_its_way.key_pem);
        let leaf = match bundle.leaf_for(subject) {
            Ok(leaf) => leaf,
            Err(fault) => {
                self.forget_order().await?;
                let text = format!("what {authority} issued for {subject} cannot be used: {fault}");
                return Err(Cause::new(Blame::Authority, text, "tried again by itself; tell the CA if it goes on"));
            }
        };
        let now = Timestamp::now();
        match kept::judge(&leaf, self.held.as_ref(), authority, on_its_way.begun_at, now) {
            Arrival::Usable => {}
            Arrival::Later(cause) => return Err(cause),
            Arrival::Useless(cause) => {
                self.forget_order().await?;
                return Err(cause);
            }
        }
        let replaces = self.held.as_ref().and_then(|held| held.leaf.renewal_id.clone());
        let facts = Facts {
            serial: leaf.serial.clone(),
            directory: Some(on_its_way.directory.clone()),
            issued_at: now,
            replaces: replaces.filter(|_| on_its_way.replaces.is_some()),
            advice: None,
            is_revoked: false,
        };
        let stored = kept::store(&self.shared, subject, &bundle, &facts).await;
        let counted = if on_its_way.replaces.is_some() { Counted::Replaced } else { Counted::Issued };
        self.count(counted, &on_its_way.directory);
        decide::note_success(&mut self.history, &on_its_way.directory);
        Ok(Kept { held: Held { leaf, facts }, bundle, unkept: stored.err().map(|fault| kept::unkept_cause(&fault)) })
    }

    async fn write_order(&self, on_its_way: &OrderOnItsWay) -> Result<(), Cause> {
        let key = stored::order_key(&self.task.subject);
        self.shared.store.write(&key, &stored::write(on_its_way)).await.map_err(|fault| storage_cause(&fault))
    }

    async fn forget_order(&self) -> Result<(), Cause> {
        let key = stored::order_key(&self.task.subject);
        self.shared.store.remove(&key).await.map_err(|fault| storage_cause(&fault))
    }

    fn note_validation(&mut self, failure: &Failure, directory: &str) {
        if failure.is_validation {
            self.count(Counted::FailedValidation, directory);
        }
    }

    fn count(&mut self, counted: Counted, directory: &str) {
        let attempt = Attempt { at: Timestamp::now(), directory: directory.to_owned(), counted };
        self.shared.totals.borrow_mut().add(&attempt, &self.task.subject.registered_domain());
        self.history.attempts.push(attempt);
    }
}

/// Of what is said about an order before it has a challenge.
fn of_order(conversation: &Conversation) -> Context<'_> {
    Context { name: "the name", authority: &conversation.authority, challenge: None, retry_after: None }
}

/// Without an account there is no rehearsal, and the staging directory is as good as away: production must not wait for
/// it for ever.
fn staging_account(cause: Cause) -> Cause {
    match cause.blame {
        Blame::Setup | Blame::Preflight => Cause { blame: Blame::Authority, ..cause },
        Blame::Authority | Blame::Unfit | Blame::Limited { .. } | Blame::Storage | Blame::Clock | Blame::Stopping => cause,
    }
}

/// What the CA did not like beside what had looked wrong from here, which is often the reason.
fn beside_doubt(cause: Cause, doubt: Option<&Cause>) -> Cause {
    match (cause.blame, doubt) {
        (Blame::Setup, Some(doubt)) => {
            Cause { text: format!("{}; seen from here, {}", cause.text, doubt.text), remedy: doubt.remedy.clone(), ..cause }
        }
        (_, Some(_) | None) => cause,
    }
}

fn nothing_to_try() -> Cause {
    Cause::new(Blame::Preflight, "no challenge is left to try", "see `challenge` in `acme`")
}

fn challenge_index(challenges: &[AcmeChallenge], challenge: AcmeChallenge) -> usize {
    challenges.iter().position(|one| *one == challenge).unwrap_or(challenges.len())
}

fn lock_lost() -> Cause {
    Cause::new(
        Blame::Storage,
        "another process has taken the lock of this name, because this one was silent for too long",
        "look whether this machine was asleep, or storage slow; tried again by itself",
    )
}
