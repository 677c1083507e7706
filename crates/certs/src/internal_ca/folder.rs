//! The internal CA on disk: read with a name for whatever is wrong, written so that nobody ever sees half of it.
//! Certificates are made in `authority.rs`.
//!
//! ```text
//! <state>/internal-ca/          0700
//!     root.key                  0600  PKCS#8 PEM, written first; may be kept elsewhere while no intermediate is due
//!     root.crt                  0644  written last: where it is, the key was too
//!     intermediate.key          0600  the same for the intermediate, which is made anew whenever it cannot be used
//!     intermediate.crt          0644
//!     root.{key,crt}.expired    the root before, should the clock have been wrong
//!     lock                      0600  held while these are read or made
//! ```

use super::authority::{Intermediate, Root};
use crate::error::{CertError, pem_problem};
use crate::files::{PEM_BYTES_MAX, read_regular};
use jiff::Timestamp;
use rcgen::KeyPair;
use rustix::fs::OFlags;
use rustls_pki_types::pem::{Error as PemError, PemObject};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whoever has the lock needs it for milliseconds; a process that was stopped while it did must not stop others for
/// good.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);

const REMEDY: &str =
    "put the file back from a copy, or remove the folder to have a new root made, which clients must then be told to trust";

pub fn root_file(state_dir: &Path) -> PathBuf {
    state_dir.join("internal-ca").join("root.crt")
}

/// The folder, and its lock for as long as this lives.
pub struct Folder {
    dir: PathBuf,
    pub root_crt: PathBuf,
    root_key: PathBuf,
    intermediate_crt: PathBuf,
    intermediate_key: PathBuf,
    /// Whom files are given to: root, who runs `tidegate cert trust` before the first start, must not keep them from
    /// the user that runs the service.
    owner: Option<(u32, u32)>,
    _lock: File,
}

impl Folder {
    pub fn open(state_dir: &Path) -> Result<Folder, CertError> {
        let owner = foreign_owner(state_dir);
        let dir = state_dir.join("internal-ca");
        let write_failed = |file: &Path| {
            let file = file.to_owned();
            move |error| CertError::Write { file, error }
        };
        // The folders above are left as they are when they exist, and made private as well when they do not.
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(write_failed(&dir))?;
        let lock_file = dir.join("lock");
        // In a folder of somebody else a link could lead root anywhere.
        let follow = if owner.is_some() { OFlags::NOFOLLOW } else { OFlags::empty() };
        let mut opening = OpenOptions::new();
        opening.create(true).append(true).mode(0o600).custom_flags(follow.bits() as i32);
        let lock = opening.open(&lock_file).map_err(write_failed(&lock_file))?;
        give(&lock, owner).map_err(write_failed(&lock_file))?;
        let folder = OpenOptions::new().read(true).custom_flags(follow.bits() as i32).open(&dir);
        folder.and_then(|folder| give(&folder, owner)).map_err(write_failed(&dir))?;
        wait_for(&lock).map_err(write_failed(&lock_file))?;
        Ok(Folder {
            root_crt: dir.join("root.crt"),
            root_key: dir.join("root.key"),
            intermediate_crt: dir.join("intermediate.crt"),
            intermediate_key: dir.join("intermediate.key"),
            dir,
            owner,
            _lock: lock,
        })
    }

    /// `None` where there is none: a key alone is what a crash between two writes leaves, and nobody has seen its root
    /// yet.
    pub fn read_root(&self) -> Result<Option<Root>, CertError> {
        if !self.root_crt.exists() {
            return Ok(None);
        }
        let certificate = read_certificate(&self.root_crt)?;
        Root::read(certificate).map(Some).map_err(|problem| unusable(&self.root_crt, problem))
    }

    pub fn read_root_key(&self, root: &Root) -> Result<KeyPair, CertError> {
        if !self.root_key.exists() {
            return Err(CertError::InternalCa {
                file: self.root_key.clone(),
                problem: "there is a root.crt but not its key".to_owned(),
                help: "put the key back, or remove root.crt to have a new root made, which clients must then be told to trust",
            });
        }
        let key = read_key(&self.root_key)?;
        if !root.is_key(&key) {
            return Err(CertError::InternalCa {
                file: self.root_key.clone(),
                problem: "it does not belong to root.crt".to_owned(),
                help: "put the right file back, or remove the folder to have a new root made, which clients must then be told to trust; \
                       to use a CA of your own, issue certificates with it and name them with `tls cert= key=`",
            });
        }
        Ok(key)
    }

    /// `None` where there is none that can be used: nobody trusts it by itself, so another one does as well.
    pub fn read_intermediate(&self, root: &Root) -> Option<Intermediate> {
        if !self.intermediate_crt.exists() {
            return None;
        }
        let read = || {
            let certificate = read_certificate(&self.intermediate_crt)?;
            let key = read_key(&self.intermediate_key)?;
            Intermediate::read(certificate, key, root).map_err(|problem| unusable(&self.intermediate_crt, problem))
        };
        read()
            .inspect_err(|error| {
                tracing::warn!(error = error.message(), "the internal CA's intermediate cannot be used; another one is made");
            })
            .ok()
    }

    pub fn make_root(&self, now: Timestamp) -> Result<Root, CertError> {
        let (root, key) = Root::make(now)?;
        self.write_pair((&self.root_key, &key), (&self.root_crt, &root.certificate))?;
        tracing::info!(file = %self.root_crt.display(), "made the internal CA; clients that are to trust it need this root");
        Ok(root)
    }

    pub fn make_intermediate(&self, root: &Root, root_key: KeyPair, now: Timestamp) -> Result<Intermediate, CertError> {
        let made = Intermediate::make(root, root_key, now)?;
        self.write_pair((&self.intermediate_key, &made.key), (&self.intermediate_crt, &made.certificate))?;
        Ok(made)
    }

    /// A clock that was once far ahead must not cost the root that many devices trust.
    pub fn keep_expired_root(&self) -> Result<(), CertError> {
        for file in [&self.root_key, &self.root_crt].into_iter().filter(|file| file.exists()) {
            let mut kept = file.clone().into_os_string();
            kept.push(".expired");
            let kept = PathBuf::from(kept);
            remove_if_there(&kept)
                .and_then(|()| fs::hard_link(file, &kept))
                .map_err(|error| CertError::Write { file: kept, error })?;
        }
        Ok(())
    }

    /// The certificate before goes first: should this end between the two writes, there is a key alone, which is made
    /// anew, and never a key beside a certificate that is not its own.
    fn write_pair(&self, key: (&Path, &KeyPair), certificate: (&Path, &CertificateDer<'_>)) -> Result<(), CertError> {
        let (key_file, key) = key;
        let (certificate_file, certificate) = certificate;
        remove_if_there(certificate_file).map_err(|error| CertError::Write { file: certificate_file.to_owned(), error })?;
        self.write_atomically(key_file, key.serialize_pem().as_bytes(), 0o600)?;
        self.write_atomically(certificate_file, crate::files::to_pem("CERTIFICATE", certificate).as_bytes(), 0o644)
    }

    /// Nobody ever sees half a file, and after a power cut there is either the old one or the whole new one.
    fn write_atomically(&self, file: &Path, bytes: &[u8], mode: u32) -> Result<(), CertError> {
        let failed = |error| CertError::Write { file: file.to_owned(), error };
        let unfinished = file.with_extension("new");
        // Left by a crash; its mode could be another.
        remove_if_there(&unfinished).map_err(failed)?;
        let mut handle = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished).map_err(failed)?;
        handle.write_all(bytes).map_err(failed)?;
        give(&handle, self.owner).map_err(failed)?;
        handle.sync_all().map_err(failed)?;
        fs::rename(&unfinished, file).map_err(failed)?;
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed)
    }
}

fn read_certificate(file: &Path) -> Result<CertificateDer<'static>, CertError> {
    CertificateDer::from_pem_slice(&read_regular(file, PEM_BYTES_MAX)?)
        .map_err(|error| unusable(file, &not_pem(&error, "it holds no certificate")))
}

fn read_key(file: &Path) -> Result<KeyPair, CertError> {
    let der = PrivatePkcs8KeyDer::from_pem_slice(&read_regular(file, PEM_BYTES_MAX)?)
        .map_err(|error| unusable(file, &not_pem(&error, "it holds no PKCS#8 key")))?;
    KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(|_| unusable(file, "it holds no ECDSA P-256 key"))
}

fn not_pem(error: &PemError, nothing: &str) -> String {
    match error {
        PemError::NoItemsFound => nothing.to_owned(),
        other => format!("it is not valid PEM: {}", pem_problem(other)),
    }
}

fn unusable(file: &Path, problem: &str) -> CertError {
    CertError::InternalCa { file: file.to_owned(), problem: problem.to_owned(), help: REMEDY }
}

/// The owner of the state folder, when root works in the folder of somebody else.
fn foreign_owner(state_dir: &Path) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let folder = fs::metadata(state_dir).ok()?;
    (folder.uid() != 0).then(|| (folder.uid(), folder.gid()))
}

/// Only what root has made, and nothing that has another name elsewhere: the folder belongs to somebody whom root does
/// not obey.
fn give(file: &File, owner: Option<(u32, u32)>) -> io::Result<()> {
    let Some((user, group)) = owner else { return Ok(()) };
    let present = file.metadata()?;
    let is_ours = present.uid() == 0 && (present.is_dir() || (present.is_file() && present.nlink() == 1));
    if is_ours { fchown(file, Some(user), Some(group)) } else { Ok(()) }
}

/// The lock is let go when the file is closed, so also by a crash.
fn wait_for(lock: &File) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(20);
    for _ in 0..LOCK_WAIT_MAX.as_millis() / PAUSE.as_millis() {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds it"))
}

fn remove_if_there(file: &Path) -> io::Result<()> {
    fs::remove_file(file).or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
