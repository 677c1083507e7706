//! The storage as commands reach it: which one it is, what lies there under a name, and whose its files have to be.
//! What values mean is told at the top of acme's `stored.rs`.

use crate::cli::DEFAULT_CONFIG;
use crate::cli::cert::Kept;
use crate::commands::{load, report};
use rustix::fs::{Dir, Mode, OFlags, open, openat};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use tidegate_acme::{Bundle, Subject, stored};
use tidegate_certs::{LoadedCertificate, default_state_dir};
use tidegate_control::share_certificates;
use tidegate_model::{Configuration, Storage};
use tidegate_storage::{StorageFault, Store};
use zeroize::Zeroizing;

/// More than any storage of one machine has; a folder that goes round in circles ends here.
const FILES_MAX: usize = 1_000_000;

/// Which storage is meant, before anything is opened.
pub struct Place {
    settings: Storage,
    state_dir: PathBuf,
    /// What says so, where a configuration does.
    pub configuration: Option<(PathBuf, Configuration)>,
}

/// A certificate of the storage.
pub struct Stored {
    pub bundle: Zeroizing<String>,
    pub loaded: LoadedCertificate,
    /// Whether the certificate was revoked, and is there until there is another.
    pub is_revoked: bool,
}

impl Place {
    /// `Err`: there is a configuration, and it does not say where. What is wrong with it has been printed then.
    pub fn of(kept: &Kept) -> Result<Place, String> {
        let state_dir = kept.state_dir.clone().unwrap_or_else(default_state_dir);
        if let Some(folder) = &kept.storage {
            return Ok(Place { settings: Storage::Folder(folder.clone()), state_dir, configuration: None });
        }
        let installed = || Some(PathBuf::from(DEFAULT_CONFIG)).filter(|file| kept.state_dir.is_none() && file.is_file());
        let Some(file) = kept.config.clone().or_else(installed) else {
            return Ok(Place { settings: Storage::State, state_dir, configuration: None });
        };
        let loaded = load(&file);
        match loaded.configuration {
            Some(mut configuration) => {
                // Names that a file covers are served from there; what is wrong with it, `check` says.
                let _ = share_certificates(&mut configuration);
                Ok(Place { settings: configuration.storage.clone(), state_dir, configuration: Some((file, configuration)) })
            }
            None => {
                report(&loaded);
                let text = "so it is not known where its certificates are kept\n  help: correct them, set the variables that it wants, or name a folder with --storage or --state-dir";
                Err(format!("{} has errors, {text}", file.display()))
            }
        }
    }

    /// Whether there is something that can be looked at without making it.
    pub fn exists(&self) -> bool {
        self.folder().is_none_or(Path::is_dir)
    }

    pub async fn open(&self) -> Result<Store, String> {
        Store::open(&self.settings, &self.state_dir).await.map_err(|fault| fault.to_string())
    }

    /// What root writes in the folder of a service has to be the service's, which could not read it otherwise. `Err`
    /// names the file.
    pub fn give_to_owner(&self) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let Some(folder) = self.folder() else { return Ok(()) };
        let Ok(owner) = fs::metadata(folder) else { return Ok(()) };
        if owner.uid() == 0 {
            return Ok(());
        }
        let mut left = FILES_MAX;
        give(folder, (owner.uid(), owner.gid()), &mut left)
    }

    /// `None`: a server keeps everything.
    fn folder(&self) -> Option<&Path> {
        match &self.settings {
            Storage::Folder(folder) => Some(folder),
            Storage::State => Some(&self.state_dir),
            Storage::Redis(_) | Storage::Kubernetes(_) => None,
        }
    }
}

/// Why a certificate of the storage cannot be had.
pub enum ReadFault {
    /// Nobody knows what is there.
    Storage(StorageFault),
    /// What is there is no certificate with its key.
    Damaged(String),
}

/// Reads the certificate of a name.
pub async fn read(store: &Store, subject: &Subject) -> Result<Option<Stored>, ReadFault> {
    let key = stored::bundle_key(subject);
    let Some(bytes) = store.read(&key).await.map_err(ReadFault::Storage)?.map(Zeroizing::new) else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).map_err(|_| ReadFault::Damaged(format!("{key} is no text")))?;
    let loaded = LoadedCertificate::from_pem((Path::new(&key), text.as_bytes()), None)
        .map_err(|error| ReadFault::Damaged(error.to_string()))?;
    let facts = store.read(&stored::facts_key(subject)).await.map_err(ReadFault::Storage)?;
    let facts = facts.and_then(|bytes| stored::parse::<stored::Facts>(&bytes));
    let bundle = Bundle(Zeroizing::new(text.to_owned()));
    // Facts of another certificate say nothing of this one.
    let is_revoked =
        facts.is_some_and(|facts| facts.is_revoked && bundle.leaf_for(subject).is_ok_and(|leaf| leaf.serial == facts.serial));
    Ok(Some(Stored { bundle: bundle.0, loaded, is_revoked }))
}

impl fmt::Display for ReadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadFault::Storage(fault) => fault.fmt(f),
            ReadFault::Damaged(why) => f.write_str(why),
        }
    }
}

/// The pair as storage has it.
pub fn bundle(chain_pem: &str, key_pem: &str) -> Bundle {
    Bundle::join(chain_pem, key_pem)
}

pub fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

/// Only what root has made, and nothing that has another name elsewhere: the folder belongs to somebody whom root does
/// not obey. What is looked at is what is changed, by its descriptor, and no link is followed.
fn give(folder: &Path, owner: (u32, u32), left: &mut usize) -> Result<(), String> {
    let opened = open(folder, READ | OFlags::DIRECTORY, Mode::empty());
    let folder_fd = opened.map_err(|error| format!("{} cannot be given to its owner: {error}", folder.display()))?;
    give_below(folder_fd, folder, owner, (DEPTH_MAX, left))
}

/// Keys have four segments.
const DEPTH_MAX: usize = 16;
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

fn give_below(folder_fd: OwnedFd, folder: &Path, owner: (u32, u32), (depth, left): (usize, &mut usize)) -> Result<(), String> {
    let told = |path: &Path, error: io::Error| format!("{} cannot be given to its owner: {error}", path.display());
    for entry in Dir::read_from(&folder_fd).map_err(|error| told(folder, error.into()))? {
        let entry = entry.map_err(|error| told(folder, error.into()))?;
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let path = folder.join(OsStr::from_bytes(name.to_bytes()));
        if *left == 0 {
            return Err(format!("{} has more files than can be given to their owner", folder.display()));
        }
        *left -= 1;
        // A link, or gone since: nothing that root has made just now.
        let Ok(file) = openat(&folder_fd, name, READ | OFlags::NOFOLLOW, Mode::empty()).map(File::from) else { continue };
        let present = file.metadata().map_err(|error| told(&path, error))?;
        if present.uid() == 0 && (present.is_dir() || (present.is_file() && present.nlink() == 1)) {
            fchown(&file, Some(owner.0), Some(owner.1)).map_err(|error| told(&path, error))?;
        }
        if present.is_dir() && depth > 0 {
            give_below(file.into(), &path, owner, (depth - 1, left))?;
        }
    }
    Ok(())
}
