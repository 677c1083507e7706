//! Nobody but its owner sees what a store's folder has: how the folder is made, when one that others may read is mended
//! and when it is refused, and how files in it are made whatever the umask. Only the folder itself is looked at, since
//! nobody gets past it.

use super::FolderKind;
use super::locks::LOCKS;
use crate::fault::Problem;
use rustix::fs::{Access, Gid, Uid, access, statvfs};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const OF_OTHERS: u32 = 0o077;

/// Whom new files and folders are given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Ours, as all that we make.
    Ours,
    /// Root works in the folder of somebody else, as with `sudo tidegate cert …`: what it makes must be that one's, or
    /// the service could not read its own certificates.
    Theirs(Uid, Gid),
}

impl Ownership {
    /// The folder above must be there.
    pub(super) fn make_folder(self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(FOLDER_MODE).create(path)?;
        // A strange umask may have taken rights of the owner, and a folder above may have added its set-group bit.
        fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))?;
        match self {
            Ownership::Ours => Ok(()),
            Ownership::Theirs(user, group) => Ok(rustix::fs::chown(path, Some(user), Some(group))?),
        }
    }

    /// Fails where there is one.
    pub(super) fn make_file(self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        match self {
            Ownership::Ours => {}
            Ownership::Theirs(user, group) => rustix::fs::fchown(&file, Some(user), Some(group))?,
        }
        Ok(file)
    }
}

/// Makes the folder, or looks whether it is private.
///
/// One that others may read is mended when it is certainly the store's: the state folder's own, one that has the
/// store's locks in it, and an empty one, as `mkdir` leaves it. Any other is refused, because taking rights away from a
/// folder that serves more than us breaks something else.
pub(super) fn claim(root: &Path, kind: FolderKind) -> Result<Ownership, Problem> {
    match fs::metadata(root) {
        Ok(metadata) if !metadata.is_dir() => return Err(Problem::NotAFolder),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_recursive = match kind {
                FolderKind::Own => true,
                // Should a shared file system not be mounted, nothing that looks like it must be made in its place.
                FolderKind::Named if root.parent().is_some_and(|above| !above.as_os_str().is_empty() && !above.exists()) => {
                    return Err(Problem::NothingAbove);
                }
                FolderKind::Named => false,
            };
            match DirBuilder::new().recursive(is_recursive).mode(FOLDER_MODE).create(root) {
                // Another process was quicker.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
            fs::set_permissions(root, Permissions::from_mode(FOLDER_MODE))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(Problem::NotAFolder),
        Err(error) => return Err(error.into()),
    }
    let metadata = fs::metadata(root)?;
    let ownership = if rustix::process::geteuid().is_root() && metadata.uid() != 0 {
        Ownership::Theirs(Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()))
    } else {
        Ownership::Ours
    };
    let mode = metadata.mode() & 0o7777;
    if mode & OF_OTHERS != 0 {
        let is_the_stores = match kind {
            FolderKind::Own => true,
            FolderKind::Named => root.join(LOCKS).is_dir() || is_empty(root)?,
        };
        if !is_the_stores || fs::set_permissions(root, Permissions::from_mode(FOLDER_MODE)).is_err() {
            return Err(Problem::OpenToOthers { mode });
        }
        tracing::warn!(folder = %root.display(), mode = format!("{mode:04o}"), "others could read the folder of certificates and keys; it is private now");
    }
    // The mark by which it is known again. A folder that cannot be written still can be read, so this is no reason to
    // fail.
    let _ = ownership.make_folder(&root.join(LOCKS));
    Ok(ownership)
}

/// What [`claim`] and the first write would say, without making or mending anything.
pub(super) fn inspect(root: &Path, kind: FolderKind) -> Result<(), Problem> {
    let metadata = match fs::metadata(root) {
        Ok(metadata) if !metadata.is_dir() => return Err(Problem::NotAFolder),
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(Problem::NotAFolder),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A path of one word is in the folder where the process is.
            let above = root.ancestors().skip(1).map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
            return match above.enumerate().find(|(_, above)| above.exists()) {
                Some((0, above)) => takes_files(above),
                Some((_, above)) if kind == FolderKind::Own => takes_files(above),
                Some(_) | None => Err(Problem::NothingAbove),
            };
        }
        Err(error) => return Err(error.into()),
    };
    let mode = metadata.mode() & 0o7777;
    if mode & OF_OTHERS != 0 {
        let is_the_stores = match kind {
            FolderKind::Own => true,
            FolderKind::Named => root.join(LOCKS).is_dir() || is_empty(root)?,
        };
        let user = rustix::process::geteuid();
        if !is_the_stores || !(user.is_root() || user.as_raw() == metadata.uid()) {
            return Err(Problem::OpenToOthers { mode });
        }
    }
    takes_files(root)?;
    // What somebody else has made in it, as root by hand.
    [LOCKS, "acme", "acme/certificates"]
        .iter()
        .map(|part| root.join(part))
        .filter(|part| part.is_dir())
        .try_for_each(|part| takes_files(&part))
}

/// Whether files can be made in a folder, by its rights and by the room that is left.
fn takes_files(folder: &Path) -> Result<(), Problem> {
    /// An order that is on its way needs as much, and its certificate.
    const ROOM_BYTES: u64 = 64 << 10;
    let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    access(folder, rights).map_err(io::Error::from)?;
    // Some file systems do not say.
    let is_full = statvfs(folder).is_ok_and(|room| room.f_blocks > 0 && room.f_bavail.saturating_mul(room.f_frsize) < ROOM_BYTES);
    if is_full { Err(Problem::Full) } else { Ok(()) }
}

fn is_empty(folder: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(folder)?.next().is_none())
}
