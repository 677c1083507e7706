//! Responders of certificates are asked on a thread of its own, so that neither a look-up nor a responder that hangs is
//! noticed anywhere else. It is not there until a certificate names a responder. Whether an answer counts and when to
//! ask again is decided in the crate `ocsp`; what handshakes read is `certs::StapleSlot`; what an operator sees is in
//! `report`.

use crate::material::Material;
use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tidegate_certs::{StapleSlot, Staples, TlsProcessState};
use tidegate_model::TlsSource;
use tidegate_ocsp::{Course, Effect, Failure, Question, RESPONSE_BYTES_MAX, Standing};
use tidegate_outbound::{HttpsClient, Limits, Trust};
use tidegate_proxy::process_state::ProcessState;
use tidegate_telemetry::StapleNumbers;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

/// Questions on their way: to all, and to one responder, so that one that hangs holds up no other.
const QUESTIONS_MAX: usize = 16;
const QUESTIONS_EACH_MAX: usize = 4;
/// From the look-up of its name to its last byte.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Timers stand still in a machine that sleeps, and clocks are set: nobody waits longer than this without a look at the
/// clock.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// One line about a responder that fails within this; thousands of certificates may have the same.
const LINE_PERIOD: Duration = Duration::from_secs(3600);
/// Responders that are remembered; beyond it, those that nothing is asked of now are forgotten.
const RESPONDERS_MAX: usize = 256;
/// Threads that may be looking up a name that hangs.
const LOOK_UPS_MAX: usize = 8;

/// The thread. Without its owner it ends.
pub(crate) struct Stapling {
    wake: Arc<Notify>,
    /// Closed when this goes away.
    _stop: watch::Sender<()>,
}

impl Stapling {
    fn start(staples: Arc<Staples>, process: Arc<ProcessState>) -> io::Result<Stapling> {
        let wake = Arc::new(Notify::new());
        let (stop, stopped) = watch::channel(());
        let woken = wake.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(LOOK_UPS_MAX).build()?;
        std::thread::Builder::new().name("stapling".into()).spawn(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, run(staples, process, woken, stopped));
            drop(local);
            // A look-up that hangs does not keep it.
            runtime.shutdown_background();
        })?;
        Ok(Stapling { wake, _stop: stop })
    }
}

async fn run(staples: Arc<Staples>, process: Arc<ProcessState>, wake: Arc<Notify>, mut stopped: watch::Receiver<()>) {
    let client = match HttpsClient::new(Trust::System) {
        Ok(client) => client,
        Err(fault) => return tracing::error!(%fault, "no OCSP responder is asked"),
    };
    let desk = Rc::new(Desk {
        client,
        staples: staples.clone(),
        process,
        places: Semaphore::new(QUESTIONS_MAX),
        responders: RefCell::default(),
    });
    loop {
        for slot in staples.take_new() {
            spawn_local(follow(desk.clone(), slot));
        }
        tokio::select! {
            () = wake.notified() => {}
            _ = stopped.changed() => return,
        }
    }
}

/// Asks about one certificate for as long as somebody serves it.
async fn follow(desk: Rc<Desk>, slot: Weak<StapleSlot>) {
    loop {
        let Some(next_at) = slot.upgrade().map(|slot| slot.course().next_at()) else { return };
        let left = next_at.duration_since(Timestamp::now());
        if left.is_positive() {
            sleep(Duration::try_from(left).unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)).await;
            continue;
        }
        let Some(slot) = slot.upgrade() else { return };
        // There may be thousands that wait, and a few that ask.
        Box::pin(desk.ask(&slot)).await;
    }
}

/// What those that ask share.
struct Desk {
    client: HttpsClient,
    staples: Arc<Staples>,
    process: Arc<ProcessState>,
    places: Semaphore,
    /// By URL.
    responders: RefCell<HashMap<String, Rc<Responder>>>,
}

struct Responder {
    places: Semaphore,
    /// Of certificates that do without a staple, and of those that browsers refuse then.
    lines: [Line; 2],
}

/// When it was last said that it fails, and how often it has failed since.
#[derive(Default)]
struct Line {
    said: Cell<Option<Instant>>,
    unsaid: Cell<u64>,
}

impl Desk {
    async fn ask(&self, slot: &Arc<StapleSlot>) {
        let responder = self.responder(slot.responder());
        // Closed semaphores would give nothing; these stay open.
        let (_place, _place_of_all) = (responder.places.acquire().await, self.places.acquire().await);
        // Whoever served it is gone.
        if Arc::strong_count(slot) == 1 {
            return;
        }
        let outcome = match self.fetch(slot).await {
            Ok(body) => slot.take(&body, Timestamp::now(), rand::random()).map_err(|fault| {
                let cause = format!("the OCSP responder {} {fault}", slot.responder());
                (cause, fault.remedy().to_owned())
            }),
            Err(failure) => Err(failure),
        };
        self.process.registry.certificates().note_responder(outcome.is_ok());
        match outcome {
            Ok(effect) => self.tell(slot, effect),
            Err((cause, remedy)) => {
                let failure = Failure { at: Timestamp::now(), cause, remedy };
                slot.failed(failure.clone(), rand::random());
                tell_failure(&responder, slot, &failure);
            }
        }
    }

    /// Cause and remedy, if it sent nothing that could be an answer.
    async fn fetch(&self, slot: &StapleSlot) -> Result<bytes::Bytes, (String, String)> {
        let (method, url, body) = match slot.question() {
            Question::Get { url } => (Method::GET, url, Vec::new()),
            Question::Post { url, body } => (Method::POST, url, body),
        };
        let of = |problem: &dyn std::fmt::Display, remedy: &str| {
            (format!("the OCSP responder {} {problem}", slot.responder()), remedy.to_owned())
        };
        let mut request = Request::builder().method(method.clone()).uri(url);
        if method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/ocsp-request");
        }
        let request =
            request.body(body.into()).map_err(|error| of(&error, "ask the CA for a certificate with a usable URL in it"))?;
        let limits = Limits { total: ANSWER_MAX, body_bytes_max: RESPONSE_BYTES_MAX };
        let answer = self.client.send(request, limits).await.map_err(|fault| {
            let remedy = "let this machine reach it, or turn it off with `ocsp-stapling #false` in the site's `tls`";
            (format!("the OCSP responder {fault}"), remedy.to_owned())
        })?;
        if answer.status() != StatusCode::OK {
            let problem = format!("answers {method} with status {}", answer.status().as_u16());
            return Err(of(&problem, "it is asked again, by another method in turns; ask the CA if it goes on"));
        }
        Ok(answer.into_body())
    }

    fn responder(&self, url: &str) -> Rc<Responder> {
        let mut responders = self.responders.borrow_mut();
        if let Some(known) = responders.get(url) {
            return known.clone();
        }
        if responders.len() >= RESPONDERS_MAX {
            responders.retain(|_, responder| Rc::strong_count(responder) > 1);
        }
        let new = Rc::new(Responder { places: Semaphore::new(QUESTIONS_EACH_MAX), lines: Default::default() });
        responders.insert(url.to_owned(), new.clone());
        new
    }

    fn tell(&self, slot: &Arc<StapleSlot>, effect: Effect) {
        let (name, responder) = (slot.name(), slot.responder());
        match effect {
            Effect::Staple { until } => tracing::debug!(name, responder, %until, "an OCSP answer is stapled"),
            Effect::Withdraw { is_news: true } => {
                tracing::warn!(
                    name,
                    responder,
                    "the certificate is revoked, and nothing is stapled to it; have another one issued"
                );
                self.staples.note_revoked(slot);
            }
            Effect::Withdraw { is_news: false } | Effect::Nothing => {}
        }
    }
}

fn tell_failure(responder: &Responder, slot: &StapleSlot, failure: &Failure) {
    let now = Instant::now();
    let line = &responder.lines[usize::from(slot.is_required())];
    if line.said.get().is_some_and(|said| now.duration_since(said) < LINE_PERIOD) {
        line.unsaid.set(line.unsaid.get() + 1);
        return;
    }
    line.said.set(Some(now));
    let unsaid = line.unsaid.take();
    let (name, Failure { cause, remedy, .. }) = (slot.name(), failure);
    let until = slot.course().stapled_until(Timestamp::now());
    match until {
        Some(until) => {
            tracing::warn!(name, cause, remedy, %until, unsaid, "OCSP: what was answered before is stapled until its end");
        }
        None if slot.is_required() => {
            tracing::error!(
                name,
                cause,
                remedy,
                unsaid,
                "OCSP: nothing can be stapled, and browsers refuse this certificate without it"
            );
        }
        None => tracing::warn!(name, cause, remedy, unsaid, "OCSP: nothing is stapled"),
    }
}

impl Stapling {
    /// Once a second: certificates that are new, and those that turned out to be revoked, which are given back. The
    /// thread begins with the first.
    pub fn look_after(this: &mut Option<Stapling>, tls: &TlsProcessState, process: &Arc<ProcessState>) -> Vec<Arc<StapleSlot>> {
        if !tls.staples.has_news() {
            return Vec::new();
        }
        let revoked = tls.staples.take_revoked().iter().filter_map(Weak::upgrade).collect();
        if this.is_none() {
            match Stapling::start(tls.staples.clone(), process.clone()) {
                Ok(stapling) => *this = Some(stapling),
                // It is tried again in a second; what is new waits.
                Err(error) => tracing::error!(%error, "no OCSP responder is asked: there is no thread for it"),
            }
        }
        if let Some(stapling) = this {
            stapling.wake.notify_one();
        }
        revoked
    }

    /// After each change: whether responders of obtained certificates are asked, and what clients will refuse.
    pub fn configure(tls: &TlsProcessState, running: &Material) {
        let sites = &running.configuration.sites;
        let is_wanted = sites.iter().any(|site| site.tls.source == TlsSource::Automatic && site.tls.ocsp_stapling);
        tls.obtained.set_stapled(is_wanted);
        for (site, tls) in sites.iter().zip(running.certificates.iter()) {
            let Some(tls) = tls else { continue };
            let set = tls.certificates.current();
            for certificate in set.all().iter().filter(|one| one.facts.must_staple() && one.staple.is_none()) {
                let name = certificate.facts.names.first().map(ToString::to_string).unwrap_or_default();
                tracing::warn!(
                    site = %site.addresses[0],
                    name,
                    "browsers refuse this certificate without a stapled answer, and none can be had; `tidegate cert show` says why"
                );
            }
        }
    }

    /// Every few seconds, for metrics.
    pub fn show(this: Option<&Stapling>, tls: &TlsProcessState, process: &ProcessState) {
        let slots = tls.staples.all();
        let now = Timestamp::now();
        let mut numbers = StapleNumbers::default();
        for slot in &slots {
            *count_of(&mut numbers, &slot.course(), now) += 1;
        }
        let is_used = this.is_some() || !slots.is_empty();
        process.registry.certificates().set_staples(is_used.then_some(numbers));
    }
}

fn count_of<'n>(numbers: &'n mut StapleNumbers, course: &Course, now: Timestamp) -> &'n mut u64 {
    match course.standing() {
        Standing::Revoked { .. } => &mut numbers.revoked,
        Standing::Unheard | Standing::Good { .. } if course.stapled_until(now).is_none() => &mut numbers.missing,
        Standing::Unheard | Standing::Good { .. } => &mut numbers.stapled,
    }
}
