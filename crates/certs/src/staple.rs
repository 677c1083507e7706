//! What responders have said of certificates that name one, and what handshakes staple of it. One slot for a
//! certificate, whoever serves it, so that a reload keeps what is known and many sites ask once. Nobody is asked here:
//! that is the control thread's matter, and what counts is decided in the crate `ocsp`.

use crate::files::LoadedCertificate;
use arc_swap::ArcSwapOption;
use aws_lc_rs::digest::{Context, SHA256};
use jiff::Timestamp;
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_ocsp::{CertificateId, Course, Effect, Failure, Fault, Question, Standing, question, verify};

/// One chain and what can be stapled to it.
pub struct StapleSlot {
    /// The first name in the certificate, for the log.
    name: String,
    responder: String,
    is_required: bool,
    id: CertificateId,
    /// Without a staple. Its chain has the issuer in the second place.
    plain: Arc<CertifiedKey>,
    /// Read by handshakes without a lock.
    stapled: ArcSwapOption<Stapled>,
    course: Mutex<Course>,
}

struct Stapled {
    certified_key: Arc<CertifiedKey>,
    /// Looked at in each handshake, because timers do not run in a machine that sleeps.
    until_unix_seconds: u64,
}

/// All slots of the process.
#[derive(Default)]
pub struct Staples {
    table: Mutex<SlotTable>,
    has_news: AtomicBool,
}

#[derive(Default)]
struct SlotTable {
    /// By the digest of the chain. Slots end with the last certificate that has them.
    slots: HashMap<[u8; 32], Weak<StapleSlot>>,
    /// Nobody has asked about them so far.
    new: Vec<Weak<StapleSlot>>,
    /// Since they were taken last.
    revoked: Vec<Weak<StapleSlot>>,
}

impl Staples {
    /// The certificate with its slot. Without one where it names no responder, or where its chain has no issuer that
    /// could be asked about.
    pub fn attach(&self, certificate: LoadedCertificate) -> LoadedCertificate {
        let Some(responder) = certificate.facts.ocsp.as_ref().and_then(|facts| facts.responder.as_deref()) else {
            return certificate;
        };
        let staple = self.slot(&certificate, responder);
        LoadedCertificate { staple, ..certificate }
    }

    fn slot(&self, certificate: &LoadedCertificate, responder: &str) -> Option<Arc<StapleSlot>> {
        let chain = &certificate.certified_key.cert;
        let key = digest_of(chain);
        if let Some(known) = self.lock().known(&key) {
            return Some(known);
        }
        let slot = Arc::new(StapleSlot {
            name: certificate.facts.names.first().map(ToString::to_string).unwrap_or_default(),
            responder: responder.to_owned(),
            is_required: certificate.facts.must_staple(),
            id: CertificateId::of(chain.first()?, chain.get(1)?)?,
            plain: certificate.certified_key.clone(),
            stapled: ArcSwapOption::empty(),
            course: Mutex::default(),
        });
        let mut table = self.lock();
        // All cores load certificates, and the same one may stand in many files.
        if let Some(known) = table.known(&key) {
            return Some(known);
        }
        table.slots.insert(key, Arc::downgrade(&slot));
        table.new.push(Arc::downgrade(&slot));
        self.has_news.store(true, Ordering::Release);
        Some(slot)
    }

    /// Costs nothing when there is nothing.
    pub fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Acquire)
    }

    /// Takes the slots that nobody has asked a responder about so far.
    pub fn take_new(&self) -> Vec<Weak<StapleSlot>> {
        let mut table = self.lock();
        table.slots.retain(|_, slot| slot.strong_count() > 0);
        let taken = std::mem::take(&mut table.new);
        self.has_news.store(table.has_news(), Ordering::Release);
        taken
    }

    pub fn take_revoked(&self) -> Vec<Weak<StapleSlot>> {
        let mut table = self.lock();
        let taken = std::mem::take(&mut table.revoked);
        self.has_news.store(table.has_news(), Ordering::Release);
        taken
    }

    pub fn all(&self) -> Vec<Arc<StapleSlot>> {
        self.lock().slots.values().filter_map(Weak::upgrade).collect()
    }

    /// Tells whoever takes them that this certificate has been revoked.
    pub fn note_revoked(&self, slot: &Arc<StapleSlot>) {
        let mut table = self.lock();
        table.revoked.push(Arc::downgrade(slot));
        self.has_news.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotTable {
    fn known(&self, key: &[u8; 32]) -> Option<Arc<StapleSlot>> {
        self.slots.get(key).and_then(Weak::upgrade)
    }

    fn has_news(&self) -> bool {
        !self.new.is_empty() || !self.revoked.is_empty()
    }
}

impl StapleSlot {
    /// By the responder's word.
    pub fn is_revoked(&self) -> bool {
        matches!(self.course().standing(), Standing::Revoked { .. })
    }

    /// The certificate that it is about, in DER.
    pub fn leaf_der(&self) -> &[u8] {
        self.plain.cert.first().map_or(&[], |leaf| leaf.as_ref())
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL in the certificate.
    pub fn responder(&self) -> &str {
        &self.responder
    }

    /// Clients refuse the certificate without a staple.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// What a handshake is made with now.
    pub fn served(&self) -> Arc<CertifiedKey> {
        self.served_at(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }

    /// The clock is looked at only where there is a staple.
    pub(crate) fn served_at(&self, now_unix_seconds: impl FnOnce() -> u64) -> Arc<CertifiedKey> {
        match &*self.stapled.load() {
            Some(stapled) if now_unix_seconds() < stapled.until_unix_seconds => stapled.certified_key.clone(),
            Some(_) | None => self.plain.clone(),
        }
    }

    /// How it has gone so far. Held for the moment of a look.
    pub fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn question(&self) -> Question {
        let failures_in_a_row = self.course().failures_in_a_row();
        question(&self.responder, &self.id, failures_in_a_row)
    }

    /// Verifies what the responder sent, and staples it if it says that all is well. After a fault nothing has changed.
    pub fn take(&self, response: &[u8], now: Timestamp, jitter: f64) -> Result<Effect, Fault> {
        let issuer = self.plain.cert.get(1).map(AsRef::as_ref).unwrap_or_default();
        let answer = verify(response, &self.id, issuer, now)?;
        let effect = self.course().answered(&answer, now, jitter);
        match effect {
            Effect::Staple { until } => {
                let certified_key = CertifiedKey { ocsp: Some(response.to_vec()), ..CertifiedKey::clone(&self.plain) };
                self.stapled.store(Some(Arc::new(Stapled {
                    certified_key: Arc::new(certified_key),
                    until_unix_seconds: u64::try_from(until.as_second()).unwrap_or(0),
                })));
            }
            Effect::Withdraw { .. } => self.stapled.store(None),
            Effect::Nothing => {}
        }
        Ok(effect)
    }

    /// What was stapled before stays until its time is over.
    pub fn failed(&self, failure: Failure, jitter: f64) {
        self.course().failed(failure, jitter);
    }
}

/// Of the whole chain: another one above the same certificate is another answer to clients.
fn digest_of(chain: &[CertificateDer<'_>]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for certificate in chain {
        context.update(&(certificate.len() as u64).to_be_bytes());
        context.update(certificate);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

impl fmt::Debug for StapleSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StapleSlot").field("name", &self.name).field("responder", &self.responder).finish_non_exhaustive()
    }
}

impl fmt::Debug for Staples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staples").finish_non_exhaustive()
    }
}
