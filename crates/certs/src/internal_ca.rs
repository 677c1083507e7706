//! The internal CA: a root kept on disk, and leaves for the sites that have no certificate of their own, issued in memory.
//! Its root is for people to install where they want it trusted; nothing here puts it into a trust store.
//!
//! ```text
//! <state>/internal-ca/          0700
//!     root.key                  0600  PKCS#8 PEM, written first
//!     root.crt                  0644  written last: where it is, the key is too
//!     lock                      0600  held while the two are read or made
//! ```

use crate::error::CertError;
use crate::facts::{self, CertificateFacts, CertificateName};
use crate::files::{LoadedCertificate, read_pem};
use crate::names::machine_name;
use crate::provider;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use x509_parser::x509::AttributeTypeAndValue;

/// Ten years, because installing a root by hand on many devices is not to be repeated.
pub const ROOT_LIFE: SignedDuration = SignedDuration::from_hours(24 * 3653);
pub const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(24 * 90);
/// Clients' clocks are behind ours now and then.
pub const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// Whoever has the lock needs it for milliseconds; a process that was stopped while it did must not stop others for good.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);

pub struct InternalCa {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
    root_not_after: Timestamp,
    root_file: PathBuf,
    /// One leaf for each set of names, so that a reload does not change what clients see. Bounded by the sites in use: sets that
    /// nobody holds any more are dropped whenever one is issued.
    leaves: Mutex<HashMap<Vec<CertificateName>, LoadedCertificate>>,
}

impl InternalCa {
    /// Reads the root from `<state_dir>/internal-ca`, or makes one there. Two processes that do so at once get the same root.
    pub fn open(state_dir: &Path, now: Timestamp) -> Result<InternalCa, CertError> {
        let dir = state_dir.join("internal-ca");
        create_private_dir(&dir)?;
        let lock_file = dir.join("lock");
        let write_failed = |error| CertError::Write { file: lock_file.clone(), error };
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(&lock_file).map_err(write_failed)?;
        wait_for(&lock).map_err(write_failed)?;
        let (key_file, root_file) = (dir.join("root.key"), dir.join("root.crt"));
        let (key, root) = match (key_file.exists(), root_file.exists()) {
            (true, true) => match read_root(&key_file, &root_file, now)? {
                Some(root) => root,
                None => make_root(&dir, &key_file, &root_file, now)?,
            },
            // A key alone is what a crash between the two writes leaves; nobody has seen its root yet.
            (_, false) => make_root(&dir, &key_file, &root_file, now)?,
            (false, true) => {
                return Err(CertError::InternalCa {
                    file: key_file,
                    problem: "there is a root.crt but not its key",
                    help: "put the key back, or remove root.crt to have a new root made, which clients must then be told to trust",
                });
            }
        };
        drop(lock);
        InternalCa::from_parts(key, root, root_file)
    }

    /// The root as PEM, to be trusted by clients (`curl --cacert`).
    pub fn root_pem_path(&self) -> &Path {
        &self.root_file
    }

    pub fn root_certificate(&self) -> &CertificateDer<'static> {
        &self.root
    }

    pub fn root_not_after(&self) -> Timestamp {
        self.root_not_after
    }

    /// A certificate for exactly these names: the one that was issued before while more than a third of its life is left.
    ///
    /// `names` is sorted and without repetition, as [`crate::names::certificate_names`] gives it.
    pub fn certificate_for(&self, names: &[CertificateName], now: Timestamp) -> Result<LoadedCertificate, CertError> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaf) = leaves.get(names).filter(|leaf| !is_due(&leaf.facts, now)) {
            return Ok(leaf.clone());
        }
        leaves.retain(|_, leaf| Arc::strong_count(&leaf.certified_key) > 1);
        let leaf = self.issue(names, now)?;
        leaves.insert(names.to_vec(), leaf.clone());
        Ok(leaf)
    }

    fn issue(&self, names: &[CertificateName], now: Timestamp) -> Result<LoadedCertificate, CertError> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.iter().map(alternative_name).collect::<Result<_, _>>()?;
        // X.520 bounds a common name at 64 characters. Only people read it.
        let common_name = names.first().map(ToString::to_string).filter(|name| name.len() <= 64);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name.unwrap_or_else(|| "Tidegate".into()));
        set_validity(&mut params, now - BACKDATED, (now + LEAF_LIFE).min(self.root_not_after));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(signing_failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(signing_failed)?;
        // The root is left out of the chain: who trusts it has it, and to others it proves nothing.
        let chain = vec![certificate.der().clone()];
        let facts = CertificateFacts::read(&chain).map_err(|(_, problem)| CertError::Tls { problem })?;
        let key_der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signing_key = provider::provider().key_provider.load_private_key(key_der)?;
        Ok(LoadedCertificate { certified_key: Arc::new(CertifiedKey::new(chain, signing_key)), facts })
    }

    fn from_parts(key: KeyPair, root: CertificateDer<'static>, root_file: PathBuf) -> Result<InternalCa, CertError> {
        let foreign = |problem| CertError::InternalCa {
            file: root_file.clone(),
            problem,
            help: "to use a CA of your own, issue certificates with it and name them with `tls cert= key=`; \
                   to have a new root made, remove the folder",
        };
        let parsed = facts::parse(&root).map_err(|_| foreign("it is not an X.509 certificate"))?;
        let common_name = match &parsed.subject().iter_common_name().map(AttributeTypeAndValue::as_str).collect::<Vec<_>>()[..] {
            [Ok(name)] => (*name).to_owned(),
            _ => return Err(foreign("it was not made by tidegate")),
        };
        let params = root_params(&common_name);
        let root_not_after = facts::timestamp(parsed.validity().not_after.timestamp());
        let issuer = Issuer::new(params, key);
        let ca =
            InternalCa { issuer, root: root.clone(), root_not_after, root_file: root_file.clone(), leaves: Mutex::default() };
        // The issuer's name is written anew into each leaf, so it has to come out byte for byte as the root has it.
        let trial = ca.issue(&[], Timestamp::UNIX_EPOCH)?;
        let leaf = facts::parse(&trial.certified_key.cert[0]).map_err(|problem| CertError::Tls { problem })?;
        if leaf.issuer().as_raw() != parsed.subject().as_raw() {
            return Err(foreign("it was not made by tidegate"));
        }
        Ok(ca)
    }
}

impl fmt::Debug for InternalCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InternalCa").field("root_file", &self.root_file).finish_non_exhaustive()
    }
}

/// Less than a third of its life is left.
fn is_due(facts: &CertificateFacts, now: Timestamp) -> bool {
    let life = facts.not_after.duration_since(facts.not_before);
    facts.not_after.duration_since(now) < life / 3
}

/// `Ok(None)` for one that has expired: whoever trusts it does so in vain.
fn read_root(key_file: &Path, root_file: &Path, now: Timestamp) -> Result<Option<(KeyPair, CertificateDer<'static>)>, CertError> {
    let unusable = |file: &Path, problem| CertError::InternalCa {
        file: file.to_owned(),
        problem,
        help: "put the file back from a copy, or remove the folder to have a new root made, which clients must then be told to trust",
    };
    let root =
        CertificateDer::from_pem_slice(&read_pem(root_file)?).map_err(|_| unusable(root_file, "it holds no certificate"))?;
    let key_der =
        PrivatePkcs8KeyDer::from_pem_slice(&read_pem(key_file)?).map_err(|_| unusable(key_file, "it holds no PKCS#8 key"))?;
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&key_der, &rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(|_| unusable(key_file, "it holds no ECDSA P-256 key"))?;
    let facts =
        CertificateFacts::read(std::slice::from_ref(&root)).map_err(|_| unusable(root_file, "it is not an X.509 certificate"))?;
    let own = rcgen::PublicKeyData::subject_public_key_info(&key);
    if facts::public_key_info(&root).as_deref() != Some(&own[..]) {
        return Err(unusable(key_file, "it does not belong to root.crt"));
    }
    if facts.not_after <= now {
        tracing::warn!(file = %root_file.display(), not_after = %facts.not_after, "the internal CA's root has expired; a new one is made");
        return Ok(None);
    }
    if facts.not_after < now + LEAF_LIFE {
        tracing::warn!(file = %root_file.display(), not_after = %facts.not_after, "the internal CA's root expires soon; remove its folder to have a new one made");
    }
    Ok(Some((key, root)))
}

fn make_root(
    dir: &Path,
    key_file: &Path,
    root_file: &Path,
    now: Timestamp,
) -> Result<(KeyPair, CertificateDer<'static>), CertError> {
    let suffix = match machine_name() {
        Some(name) if name != "localhost" => name,
        _ => random_suffix()?,
    };
    let mut params = root_params(&format!("Tidegate Internal CA {suffix}"));
    set_validity(&mut params, now - BACKDATED, now + ROOT_LIFE);
    let key = KeyPair::generate().map_err(signing_failed)?;
    let root = params.self_signed(&key).map_err(signing_failed)?;
    // An expired root goes first: should this end between the two writes, there is a key alone, which is made anew, and never a key
    // beside a root that is not its own.
    remove_if_there(root_file).map_err(|error| CertError::Write { file: root_file.to_owned(), error })?;
    write_atomically(dir, key_file, key.serialize_pem().as_bytes(), 0o600)?;
    write_atomically(dir, root_file, root.pem().as_bytes(), 0o644)?;
    tracing::info!(file = %root_file.display(), "made the internal CA; clients that are to trust it need this root");
    Ok((key, root.der().clone()))
}

/// Names each root for its machine, so that a trust store with several can be read by people.
fn root_params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    // It signs leaves only, never another CA.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn random_suffix() -> Result<String, CertError> {
    let mut bytes = [0; 4];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| CertError::Tls { problem: "the system gave no random bytes".into() })?;
    Ok(format!("{:08x}", u32::from_be_bytes(bytes)))
}

fn alternative_name(name: &CertificateName) -> Result<SanType, CertError> {
    match name {
        CertificateName::Ip(ip) => Ok(SanType::IpAddress(*ip)),
        CertificateName::Dns(dns) => {
            Ok(SanType::DnsName(dns.as_str().try_into().map_err(|_| CertError::ServerName { name: dns.clone() })?))
        }
    }
}

/// rcgen takes the type of the `time` crate, which is reached here without naming that crate: its own constructor plus a `Duration`.
fn set_validity(params: &mut CertificateParams, not_before: Timestamp, not_after: Timestamp) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since_epoch = |at: Timestamp| Duration::from_secs(at.as_second().max(0) as u64);
    params.not_before = epoch + since_epoch(not_before);
    params.not_after = epoch + since_epoch(not_after);
}

fn signing_failed(error: rcgen::Error) -> CertError {
    CertError::Tls { problem: format!("a certificate could not be made: {error}") }
}

/// The folders above are left as they are when they exist, and made private as well when they do not.
fn create_private_dir(dir: &Path) -> Result<(), CertError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| CertError::Write { file: dir.to_owned(), error })
}

/// The lock is let go when the file is closed, so also by a crash.
fn wait_for(lock: &File) -> std::io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(20);
    for _ in 0..LOCK_WAIT_MAX.as_millis() / PAUSE.as_millis() {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "another process holds it"))
}

/// Nobody ever sees half a file, and after a power cut there is either the old one or the whole new one.
fn write_atomically(dir: &Path, file: &Path, bytes: &[u8], mode: u32) -> Result<(), CertError> {
    let failed = |error| CertError::Write { file: file.to_owned(), error };
    let unfinished = file.with_extension("new");
    // Left by a crash; its mode could be another.
    remove_if_there(&unfinished).map_err(failed)?;
    let mut handle = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished).map_err(failed)?;
    handle.write_all(bytes).map_err(failed)?;
    handle.sync_all().map_err(failed)?;
    fs::rename(&unfinished, file).map_err(failed)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)
}

fn remove_if_there(file: &Path) -> std::io::Result<()> {
    fs::remove_file(file).or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
