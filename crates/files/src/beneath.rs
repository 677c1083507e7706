//! Opening what is below a folder, and nothing else, whatever the text of a path is and whatever changes while it is
//! looked up. The kernel keeps the promise with `openat2`; where that is missing or forbidden, a walk by single names
//! does. What is served and why something is refused is decided in `root`.

use crate::Symlinks;
use crate::path::SEGMENTS_MAX;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::{Errno, Result, retry_on_intr};
use std::path::Path;

/// As many as Linux follows in one path.
const SYMLINKS_MAX: usize = 40;
/// Folders that a walk holds open: those of the request, and those that symlinks add.
const FOLDERS_MAX: usize = 2 * SEGMENTS_MAX;
/// The kernel gives up when something is renamed while it resolves `..` of a symlink; a few attempts are enough unless
/// that is an attack.
#[cfg(target_os = "linux")]
const ATTEMPTS_MAX: usize = 8;

/// A folder, held by its descriptor: renaming or replacing it does not change what is served.
#[derive(Debug)]
pub(crate) struct Beneath {
    folder: OwnedFd,
    way: Way,
}

/// What a descriptor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// Only to see what is there, which needs no right to read it.
    Look,
    /// To read the names in a folder; anything else is refused with `NOTDIR`.
    List,
}

#[derive(Debug, Clone, Copy)]
enum Way {
    /// Symlinks lead anywhere.
    Anywhere,
    #[cfg(target_os = "linux")]
    Kernel(rustix::fs::ResolveFlags),
    Walk {
        follows_symlinks: bool,
    },
}

/// Passes through a folder, which needs no right to read it where the system can tell the difference.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = READ;
/// Not blocking, so that opening a FIFO or a device does not wait for whoever is at its other end.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl Purpose {
    fn flags(self) -> OFlags {
        match self {
            Purpose::Read => READ,
            Purpose::Look => PASS,
            Purpose::List => READ.union(OFlags::DIRECTORY),
        }
    }
}

impl Beneath {
    pub fn open(folder: &Path, symlinks: Symlinks) -> Result<Beneath> {
        let folder = openat(rustix::fs::CWD, folder, PASS.union(OFlags::DIRECTORY), Mode::empty())?;
        let way = match symlinks {
            Symlinks::Follow => Way::Anywhere,
            Symlinks::Within => narrow_way(folder.as_fd(), true)?,
            Symlinks::Refuse => narrow_way(folder.as_fd(), false)?,
        };
        Ok(Beneath { folder, way })
    }

    /// As on a system without `openat2`.
    #[cfg(test)]
    pub fn walking(self) -> Beneath {
        let way = match self.way {
            Way::Anywhere => Way::Anywhere,
            #[cfg(target_os = "linux")]
            Way::Kernel(resolve) => Way::Walk { follows_symlinks: !resolve.contains(rustix::fs::ResolveFlags::NO_SYMLINKS) },
            Way::Walk { follows_symlinks } => Way::Walk { follows_symlinks },
        };
        Beneath { way, ..self }
    }

    /// Opens a path that `path::parse` made. `XDEV` and `LOOP` say that a symlink is not followed.
    pub fn descriptor(&self, path: &[u8], purpose: Purpose) -> Result<OwnedFd> {
        match self.way {
            Way::Anywhere => retry_on_intr(|| openat(&self.folder, path, purpose.flags(), Mode::empty())),
            #[cfg(target_os = "linux")]
            Way::Kernel(resolve) => {
                for _ in 1..ATTEMPTS_MAX {
                    match rustix::fs::openat2(&self.folder, path, purpose.flags(), Mode::empty(), resolve) {
                        Err(Errno::AGAIN | Errno::INTR) => {}
                        result => return result,
                    }
                }
                rustix::fs::openat2(&self.folder, path, purpose.flags(), Mode::empty(), resolve)
            }
            Way::Walk { follows_symlinks } => Walk::new(self.folder.as_fd(), follows_symlinks).descriptor(path, purpose),
        }
    }
}

/// The kernel's way where it works. Containers forbid calls that they do not know with `PERM`.
#[cfg(target_os = "linux")]
fn narrow_way(folder: BorrowedFd, follows_symlinks: bool) -> Result<Way> {
    use rustix::fs::ResolveFlags;
    let links = if follows_symlinks { ResolveFlags::NO_MAGICLINKS } else { ResolveFlags::NO_SYMLINKS };
    let resolve = ResolveFlags::BENEATH | links;
    match rustix::fs::openat2(folder, ".", PASS, Mode::empty(), resolve) {
        Ok(_) => Ok(Way::Kernel(resolve)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(Way::Walk { follows_symlinks }),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "one signature for all systems")]
fn narrow_way(_folder: BorrowedFd, follows_symlinks: bool) -> Result<Way> {
    Ok(Way::Walk { follows_symlinks })
}

/// Resolves a path name by name. No call is given more than one name, and none follows a symlink: those are read and
/// walked here.
struct Walk<'a> {
    root: BorrowedFd<'a>,
    follows_symlinks: bool,
    symlinks: usize,
    /// The folders from below the root to where the walk is. `..` of a symlink goes back to one of them, never to what
    /// the file system says the parent is, so that a rename cannot lead it out.
    folders: Vec<OwnedFd>,
    /// The names that are left, the next one last.
    names: Vec<Vec<u8>>,
}

impl Walk<'_> {
    fn new(root: BorrowedFd<'_>, follows_symlinks: bool) -> Walk<'_> {
        Walk { root, follows_symlinks, symlinks: 0, folders: Vec::new(), names: Vec::new() }
    }

    fn descriptor(mut self, path: &[u8], purpose: Purpose) -> Result<OwnedFd> {
        self.append(path);
        while let Some(name) = self.names.pop() {
            if name == b".." {
                self.folders.pop().ok_or(Errno::XDEV)?;
            } else if let Some(target) = self.symlink(&name)? {
                self.follow(&target)?;
            } else if self.names.is_empty() {
                return self.step(&name, purpose.flags());
            } else if self.folders.len() == FOLDERS_MAX {
                return Err(Errno::NAMETOOLONG);
            } else {
                let folder = self.step(&name, PASS.union(OFlags::DIRECTORY))?;
                self.folders.push(folder);
            }
        }
        self.step(b".", purpose.flags())
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.folders.last().map_or(self.root, AsFd::as_fd)
    }

    /// What became a symlink after it was looked at is not followed: `LOOP`, or with `Look` a descriptor of the link
    /// itself.
    fn step(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd> {
        retry_on_intr(|| openat(self.here(), name, flags.union(OFlags::NOFOLLOW), Mode::empty()))
    }

    fn symlink(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        match readlinkat(self.here(), name, Vec::new()) {
            Ok(target) => Ok(Some(target.into_bytes())),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn follow(&mut self, target: &[u8]) -> Result<()> {
        self.symlinks += 1;
        if !self.follows_symlinks || self.symlinks > SYMLINKS_MAX {
            return Err(Errno::LOOP);
        }
        if target.starts_with(b"/") {
            return Err(Errno::XDEV);
        }
        self.append(target);
        Ok(())
    }

    fn append(&mut self, path: &[u8]) {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
        self.names.extend(names.rev().map(<[u8]>::to_vec));
    }
}

#[cfg(test)]
mod tests;
