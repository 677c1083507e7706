//! Session tickets of our own (RFC 5077, RFC 8446 section 4.6.1): sessions encrypted for whoever brings them back,
//! under keys that all workers share. Keys rotate by themselves, or come from files or a storage that hosts share. A
//! ticket is bound to the policy of the site that made it. What is in a ticket is rustls' business; files are watched,
//! storage is asked and processes are succeeded by `control`. When keys of a storage are used, and when the next one is
//! made, is in `tickets/shared.rs`.

mod shared;

pub use shared::{AHEAD_SECS, SharedKeys, UnreadableKeys};

use crate::error::CertError;
use crate::files::open_regular;
use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::{constant_time, hkdf, rand};
use rustls::server::ProducesTickets;
use rustls_pki_types::UnixTime;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError};
use zeroize::Zeroizing;

/// A key makes tickets for this long. At a million tickets a second, random 96-bit nonces repeat under it with a chance
/// of one in 10^8.
pub const ROTATION_SECS: u64 = 6 * 3600;
/// A ticket is of no use after that, whatever key it was made with; so a key is kept for one more rotation.
pub const TICKET_LIFETIME_SECS: u64 = 2 * ROTATION_SECS;
/// Keys that are accepted at the same time: enough to replace one on many hosts, one after the other.
pub const TICKET_KEYS_MAX: usize = 16;
/// What nginx's `ssl_session_ticket_key` takes: a name of 16 bytes, then secret bytes.
pub const KEY_FILE_BYTES: [usize; 2] = [48, 80];

const NAME_LEN: usize = 16;
const SECRET_LEN: usize = 32;
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
const TIME_LEN: usize = 8;
const HEADER_LEN: usize = NAME_LEN + NONCE_LEN;
/// First byte of exported keys; another layout gets another number. Own keys stay in the first one, which older
/// versions read as well.
const EXPORT_VERSION: u8 = 1;
const EXPORTED_KEY_LEN: usize = NAME_LEN + SECRET_LEN + TIME_LEN;
/// Keys of a storage, how many, and own ones behind them.
const EXPORT_VERSION_SHARED: u8 = 2;
/// With its beginning and its end.
const STORED_KEY_LEN: usize = NAME_LEN + SECRET_LEN + 2 * TIME_LEN;

/// The keys of the process. One for all sites, so that a client that comes back to another worker or after a reload
/// resumes.
pub struct TicketKeys {
    /// Read by every handshake without a lock.
    set: ArcSwap<KeySet>,
    /// Held by who replaces the set; handshakes never wait for it.
    replacing: Mutex<()>,
}

/// Where keys come from. Of own keys and keys of files the first encrypts; all decrypt until their end.
enum KeySet {
    /// Of this process, and never empty.
    Own(Vec<Arc<TicketKey>>),
    Files(Vec<Arc<TicketKey>>),
    Shared {
        shared: SharedKeys,
        /// Keys for the time before the storage was read, and for when it has none to give. Made when they are needed.
        own: Vec<Arc<TicketKey>>,
    },
}

/// What the configuration wants, with what had to be read for it.
#[derive(Clone)]
pub enum TicketSource {
    Own,
    Files(FileKeys),
    /// Keys come when the storage has been read, by [`TicketKeys::take_shared`].
    Shared,
}

struct TicketKey {
    name: [u8; NAME_LEN],
    secret: Zeroizing<[u8; SECRET_LEN]>,
    /// When it begins to make tickets.
    not_before_secs: u64,
    /// Nothing is decrypted with it from then on.
    end_secs: u64,
    cipher: RandomizedNonceKey,
}

/// Keys as files hold them, read and checked, not in use yet.
#[derive(Clone)]
pub struct FileKeys(Arc<[Arc<TicketKey>]>);

/// Keys as bytes, for the process that takes over. Never to be written where others can read it.
#[derive(Clone, PartialEq, Eq)]
pub struct ExportedKeys(Zeroizing<Vec<u8>>);

impl TicketKeys {
    /// With a first key that nobody else has.
    pub fn new() -> Result<Arc<TicketKeys>, CertError> {
        Self::made_at(UnixTime::now().as_secs())
    }

    fn made_at(now_secs: u64) -> Result<Arc<TicketKeys>, CertError> {
        let set = KeySet::Own(vec![TicketKey::random(now_secs)?]);
        Ok(Arc::new(TicketKeys { set: ArcSwap::from_pointee(set), replacing: Mutex::new(()) }))
    }

    /// Tickets of all sites that have no policy of their own.
    pub fn shared(self: &Arc<Self>) -> Arc<dyn ProducesTickets> {
        Arc::new(Tickets { keys: self.clone(), policy: None })
    }

    /// Tickets that are of use under the same policy only: a session that began without a client certificate, or with
    /// one that other authorities signed, must not go on where this one is asked for.
    pub fn for_policy(self: &Arc<Self>, policy: &[u8; 32]) -> Arc<dyn ProducesTickets> {
        Arc::new(Tickets { keys: self.clone(), policy: Some(*policy) })
    }

    /// Keys of that source from now on. The same source once more changes nothing, nor do the same keys of files.
    pub fn follow(&self, source: &TicketSource) -> Result<(), CertError> {
        let _replacing = self.replacing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let set = self.set.load();
        let next = match (source, &**set) {
            (TicketSource::Own, KeySet::Own(_)) | (TicketSource::Shared, KeySet::Shared { .. }) => return Ok(()),
            (TicketSource::Files(FileKeys(keys)), KeySet::Files(present)) if same(keys, present) => return Ok(()),
            (TicketSource::Files(FileKeys(keys)), _) => KeySet::Files(keys.to_vec()),
            (TicketSource::Own, KeySet::Shared { own, .. }) if !own.is_empty() => KeySet::Own(own.clone()),
            (TicketSource::Own, KeySet::Shared { .. } | KeySet::Files(_)) => {
                KeySet::Own(vec![TicketKey::random(UnixTime::now().as_secs())?])
            }
            (TicketSource::Shared, KeySet::Own(own)) => KeySet::Shared { shared: SharedKeys::default(), own: own.clone() },
            (TicketSource::Shared, KeySet::Files(_)) => KeySet::Shared { shared: SharedKeys::default(), own: Vec::new() },
        };
        self.set.store(Arc::new(next));
        Ok(())
    }

    /// What is in storage now. Without effect when the keys come from elsewhere by now.
    pub fn take_shared(&self, keys: SharedKeys) {
        let _replacing = self.replacing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let KeySet::Shared { own, .. } = &**self.set.load() {
            self.set.store(Arc::new(KeySet::Shared { shared: keys, own: own.clone() }));
        }
    }

    /// What was last taken; none where the keys come from elsewhere.
    pub fn shared_keys(&self) -> SharedKeys {
        match &**self.set.load() {
            KeySet::Shared { shared, .. } => shared.clone(),
            KeySet::Own(_) | KeySet::Files(_) => SharedKeys::default(),
        }
    }

    /// Until when tickets are made with keys that hosts share, as far as is known. `None`: they are made with own keys.
    pub fn shared_until_secs(&self, now_secs: u64) -> Option<u64> {
        match &**self.set.load() {
            KeySet::Shared { shared, .. } => shared.used_until_secs(now_secs),
            KeySet::Own(_) | KeySet::Files(_) => None,
        }
    }

    /// Makes a new key when it is time, and forgets those that no valid ticket was made with. Handshakes see to it
    /// themselves; to be called now and then as well, so that keys do not outlive their time where nobody comes.
    pub fn rotate_if_due(&self) {
        self.rotate(UnixTime::now().as_secs());
    }

    /// The keys as they are; `None` for keys of files, which everybody reads for himself.
    pub fn export(&self) -> Option<ExportedKeys> {
        let set = self.set.load();
        let mut bytes = Vec::with_capacity(2 + 2 * TICKET_KEYS_MAX * STORED_KEY_LEN);
        match &**set {
            KeySet::Files(_) => return None,
            KeySet::Own(keys) => {
                bytes.push(EXPORT_VERSION);
                for key in keys {
                    bytes.extend_from_slice(&key.name);
                    bytes.extend_from_slice(&*key.secret);
                    bytes.extend_from_slice(&key.not_before_secs.to_be_bytes());
                }
            }
            // A storage that is away at this moment must not cost the successor what its predecessor knew.
            KeySet::Shared { shared, own } => {
                bytes.extend_from_slice(&[EXPORT_VERSION_SHARED, shared.keys().len() as u8]);
                shared.keys().iter().chain(own).for_each(|key| key.write_to(&mut bytes));
            }
        }
        Some(ExportedKeys(Zeroizing::new(bytes)))
    }

    /// Goes on with the keys of somebody else instead of own ones. False when they say nothing that this version
    /// understands, or are too old; then nothing has changed.
    pub fn adopt(&self, exported: &ExportedKeys) -> bool {
        self.adopt_at(exported, UnixTime::now().as_secs())
    }

    fn adopt_at(&self, exported: &ExportedKeys, now_secs: u64) -> bool {
        let Some(adopted) = read_exported(&exported.0, now_secs) else { return false };
        let _replacing = self.replacing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &**self.set.load() {
            KeySet::Own(_) | KeySet::Shared { .. } => self.set.store(Arc::new(adopted)),
            KeySet::Files(_) => {}
        }
        true
    }

    fn rotate(&self, now_secs: u64) {
        if !self.set.load().is_due(now_secs) {
            return;
        }
        let _replacing = match self.replacing.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Somebody is at it; the key before is as good for a moment more.
            Err(TryLockError::WouldBlock) => return,
        };
        let set = self.set.load_full();
        if !set.is_due(now_secs) {
            return;
        }
        let next = match &*set {
            KeySet::Files(_) => return,
            KeySet::Own(keys) => rotated(keys, now_secs).map(KeySet::Own),
            KeySet::Shared { shared, own } if shared.in_use(now_secs).is_none() => {
                rotated(own, now_secs).map(|own| KeySet::Shared { shared: shared.clone(), own })
            }
            KeySet::Shared { shared, own } => {
                let own = own.iter().filter(|key| now_secs < key.end_secs).cloned().collect();
                Some(KeySet::Shared { shared: shared.clone(), own })
            }
        };
        // A system without randomness makes no new key, and no nonce either: handshakes go without a ticket until it
        // has some.
        if let Some(next) = next {
            self.set.store(Arc::new(next));
        }
    }

    fn encrypt(&self, message: &[u8], policy: Option<&[u8; 32]>, now_secs: u64) -> Option<Vec<u8>> {
        self.rotate(now_secs);
        let set = self.set.load();
        let key = set.encrypting(now_secs)?;
        let mut ticket = Vec::with_capacity(HEADER_LEN + message.len() + TIME_LEN + TAG_LEN);
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&[0; NONCE_LEN]);
        ticket.extend_from_slice(message);
        ticket.extend_from_slice(&now_secs.to_be_bytes());
        let (nonce, tag) = key.cipher.seal_in_place_separate_tag(associated(policy), &mut ticket[HEADER_LEN..]).ok()?;
        ticket[NAME_LEN..HEADER_LEN].copy_from_slice(nonce.as_ref());
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8], policy: Option<&[u8; 32]>, now_secs: u64) -> Option<Vec<u8>> {
        self.rotate(now_secs);
        let (name, rest) = ticket.split_first_chunk::<NAME_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let set = self.set.load();
        let key = set.named(name).filter(|key| now_secs < key.end_secs)?;
        let mut opened = sealed.to_vec();
        let plain_len = key.cipher.open_in_place(Nonce::from(nonce), associated(policy), &mut opened).ok()?.len();
        opened.truncate(plain_len);
        let (_, made_at) = opened.split_last_chunk::<TIME_LEN>()?;
        // With a clock that was set back a ticket is young, not invalid.
        let age_secs = now_secs.saturating_sub(u64::from_be_bytes(*made_at));
        opened.truncate(plain_len - TIME_LEN);
        (age_secs < TICKET_LIFETIME_SECS).then_some(opened)
    }
}

impl KeySet {
    fn encrypting(&self, now_secs: u64) -> Option<&Arc<TicketKey>> {
        match self {
            KeySet::Own(keys) | KeySet::Files(keys) => keys.first(),
            KeySet::Shared { shared, own } => shared.in_use(now_secs).or_else(|| own.first()),
        }
    }

    fn named(&self, name: &[u8; NAME_LEN]) -> Option<&Arc<TicketKey>> {
        let (shared, keys) = match self {
            KeySet::Own(keys) | KeySet::Files(keys) => (&[][..], keys),
            KeySet::Shared { shared, own } => (shared.keys(), own),
        };
        shared.iter().chain(keys).find(|key| key.name == *name)
    }

    fn is_due(&self, now_secs: u64) -> bool {
        match self {
            KeySet::Own(keys) => is_own_due(keys, now_secs),
            KeySet::Files(_) => false,
            KeySet::Shared { shared, own } if shared.in_use(now_secs).is_none() => is_own_due(own, now_secs),
            // Keys of a time without the storage go when their time is over.
            KeySet::Shared { own, .. } => own.iter().any(|key| now_secs >= key.end_secs),
        }
    }
}

impl TicketKey {
    /// From `not_before_secs` on, for as long as any key is good.
    fn random(not_before_secs: u64) -> Result<Arc<TicketKey>, CertError> {
        let refused = |_| CertError::Tls { problem: "the system gives no randomness".into() };
        let mut name = [0; NAME_LEN];
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        rand::fill(&mut name).map_err(refused)?;
        rand::fill(&mut *secret).map_err(refused)?;
        Self::rotating(name, secret, not_before_secs)
            .ok_or_else(|| CertError::Tls { problem: "a ticket key cannot be used".into() })
    }

    fn rotating(name: [u8; NAME_LEN], secret: Zeroizing<[u8; SECRET_LEN]>, not_before_secs: u64) -> Option<Arc<TicketKey>> {
        Self::of(name, secret, not_before_secs, not_before_secs.saturating_add(TICKET_LIFETIME_SECS))
    }

    fn of(
        name: [u8; NAME_LEN],
        secret: Zeroizing<[u8; SECRET_LEN]>,
        not_before_secs: u64,
        end_secs: u64,
    ) -> Option<Arc<TicketKey>> {
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, &*secret).ok()?;
        Some(Arc::new(TicketKey { name, secret, not_before_secs, end_secs, cipher }))
    }

    fn write_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.name);
        bytes.extend_from_slice(&*self.secret);
        bytes.extend_from_slice(&self.not_before_secs.to_be_bytes());
        bytes.extend_from_slice(&self.end_secs.to_be_bytes());
    }

    /// What [`TicketKey::write_to`] writes.
    fn read(bytes: &[u8; STORED_KEY_LEN]) -> Option<Arc<TicketKey>> {
        let (name, rest) = bytes.split_first_chunk()?;
        let (secret, rest) = rest.split_first_chunk()?;
        let (not_before, end) = rest.split_first_chunk()?;
        let end = u64::from_be_bytes(end.try_into().ok()?);
        Self::of(*name, Zeroizing::new(*secret), u64::from_be_bytes(*not_before), end)
    }
}

/// With a new key in front, and without those that no valid ticket was made with.
fn rotated(keys: &[Arc<TicketKey>], now_secs: u64) -> Option<Vec<Arc<TicketKey>>> {
    let first = TicketKey::random(now_secs).ok()?;
    let kept = keys.iter().filter(|key| now_secs < key.end_secs).take(TICKET_KEYS_MAX - 1).cloned();
    Some(std::iter::once(first).chain(kept).collect())
}

fn is_own_due(keys: &[Arc<TicketKey>], now_secs: u64) -> bool {
    let made_at = keys.first().map_or(0, |key| key.not_before_secs);
    // One made in the future is from a clock that was set back since; it must not stay for as long as that was.
    now_secs >= made_at.saturating_add(ROTATION_SECS) || now_secs < made_at.saturating_sub(ROTATION_SECS)
}

impl FileKeys {
    /// The keys of these files: the first encrypts, all decrypt. Every fault is told.
    pub fn load(files: &[PathBuf]) -> Result<FileKeys, Vec<CertError>> {
        let mut keys: Vec<Arc<TicketKey>> = Vec::with_capacity(files.len());
        let mut errors = Vec::new();
        for file in files {
            match read_key_file(file) {
                Ok(key) if keys.iter().any(|known| known.name == key.name) => {
                    errors.push(CertError::TicketKeyTwice { file: file.clone() });
                }
                Ok(key) => keys.push(key),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(FileKeys(keys.into())) } else { Err(errors) }
    }
}

/// Tickets for the sites of one policy.
struct Tickets {
    keys: Arc<TicketKeys>,
    policy: Option<[u8; 32]>,
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        TICKET_LIFETIME_SECS as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.keys.encrypt(plain, self.policy.as_ref(), UnixTime::now().as_secs())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.keys.decrypt(cipher, self.policy.as_ref(), UnixTime::now().as_secs())
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("policy", &self.policy.is_some()).finish_non_exhaustive()
    }
}

impl ExportedKeys {
    pub fn from_bytes(bytes: Vec<u8>) -> ExportedKeys {
        ExportedKeys(Zeroizing::new(bytes))
    }

    /// The bytes themselves, secrets and all.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ExportedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn associated(policy: Option<&[u8; 32]>) -> Aad<&[u8]> {
    Aad::from(policy.map_or(&[][..], |policy| &policy[..]))
}

fn same(some: &[Arc<TicketKey>], others: &[Arc<TicketKey>]) -> bool {
    let equal = |(one, other): (&Arc<TicketKey>, &Arc<TicketKey>)| {
        one.name == other.name && constant_time::verify_slices_are_equal(&*one.secret, &*other.secret).is_ok()
    };
    some.len() == others.len() && some.iter().zip(others).all(equal)
}

/// `None` where there is nothing that this version understands and that is of any use still.
fn read_exported(bytes: &[u8], now_secs: u64) -> Option<KeySet> {
    match bytes {
        [EXPORT_VERSION, rest @ ..] => {
            let (keys, []) = rest.as_chunks::<EXPORTED_KEY_LEN>() else { return None };
            let read = |key: &[u8; EXPORTED_KEY_LEN]| {
                let (name, rest) = key.split_first_chunk()?;
                let (secret, made_at) = rest.split_first_chunk()?;
                TicketKey::rotating(*name, Zeroizing::new(*secret), u64::from_be_bytes(made_at.try_into().ok()?))
            };
            let keys = still_good(keys.iter().map(read), now_secs)?;
            (!keys.is_empty()).then_some(KeySet::Own(keys))
        }
        [EXPORT_VERSION_SHARED, shared_count, rest @ ..] => {
            let (keys, []) = rest.as_chunks::<STORED_KEY_LEN>() else { return None };
            let (shared, own) = keys.split_at_checked(usize::from(*shared_count))?;
            let shared = still_good(shared.iter().map(TicketKey::read), now_secs)?;
            let own = still_good(own.iter().map(TicketKey::read), now_secs)?;
            (!shared.is_empty() || !own.is_empty()).then(|| KeySet::Shared { shared: SharedKeys::of(shared), own })
        }
        _ => None,
    }
}

fn still_good(keys: impl ExactSizeIterator<Item = Option<Arc<TicketKey>>>, now_secs: u64) -> Option<Vec<Arc<TicketKey>>> {
    if keys.len() > TICKET_KEYS_MAX {
        return None;
    }
    let mut keys: Vec<_> = keys.collect::<Option<_>>()?;
    keys.retain(|key| now_secs < key.end_secs);
    Some(keys)
}

fn read_key_file(file: &Path) -> Result<Arc<TicketKey>, CertError> {
    let [short, long] = KEY_FILE_BYTES;
    let wrong = |error| CertError::Read { file: file.to_owned(), error };
    let mut bytes = Zeroizing::new(Vec::with_capacity(long + 1));
    open_regular(file).map_err(wrong)?.take(long as u64 + 1).read_to_end(&mut bytes).map_err(wrong)?;
    let unfit = || CertError::TicketKey { file: file.to_owned(), bytes: bytes.len(), allowed: KEY_FILE_BYTES };
    if ![short, long].contains(&bytes.len()) {
        return Err(unfit());
    }
    let (name, written) = bytes.split_first_chunk::<NAME_LEN>().ok_or_else(unfit)?;
    // nginx takes an AES key and an HMAC key out of the rest, of 128 or 256 bits; ours is derived from all of it, so
    // both lengths are good for AES-256 and nothing of what nginx encrypts with is used here as it is.
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    hkdf::Salt::new(hkdf::HKDF_SHA256, name)
        .extract(written)
        .expand(&[b"tidegate ticket key"], hkdf::HKDF_SHA256)
        .and_then(|derived| derived.fill(&mut *secret))
        .map_err(|_| unfit())?;
    TicketKey::of(*name, secret, 0, u64::MAX).ok_or_else(unfit)
}

#[cfg(test)]
mod tests;
