//! Replaces a file of the configuration by a whole new one. The folder may belong to somebody who is trusted less than
//! this process (`include "tenant/*.kdl"`): nothing that is put there, and no link that is moved meanwhile, makes this
//! write anywhere but over the text that it is to replace. When a file is written, and what with, is decided in `edit`.

use crate::watch::Stat;
use rustix::fs::{Access, AtFlags, Mode, OFlags, accessat, open, openat, renameat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Whoever reads the file meanwhile sees the old text or the new, never half of one. It keeps owner and permissions,
/// and a link stays a link. Refused unless what it has `is_known`, looked at again right before it is replaced:
/// an edit of somebody else is not lost.
pub(crate) fn write_whole(path: &Path, text: &str, is_known: impl Fn(File) -> io::Result<bool>) -> Result<(), String> {
    let say = |error: io::Error| error.to_string();
    let place = Destination::of(path).map_err(say)?;
    let edited = || "it was edited while the change was taken on".to_owned();
    let before = place.open().map_err(say)?;
    let metadata = before.metadata().map_err(say)?;
    if !is_known(before).map_err(say)? {
        return Err(edited());
    }
    accessat(&place.folder, &place.name, Access::WRITE_OK, AtFlags::empty()).map_err(|error| say(error.into()))?;
    // A name that nobody can guess, so that nobody can wait for it; gone when something fails.
    let create = |fresh: &Path| place.create(fresh);
    let mut fresh = tempfile::Builder::new().prefix(".tidegate-").make_in(&place.path, create).map_err(say)?;
    let written = (|| {
        let file = fresh.as_file_mut();
        file.write_all(text.as_bytes())?;
        // Only root can; without it the file belongs to whoever runs this process.
        let _ = fchown(&*file, Some(metadata.uid()), Some(metadata.gid()));
        file.set_permissions(Permissions::from_mode(metadata.mode() & 0o777))?;
        file.sync_all()
    })();
    written.map_err(say)?;
    let now = place.open().map_err(say)?;
    if !was_left_alone(&metadata, &now).map_err(say)? && !is_known(now).map_err(say)? {
        return Err(edited());
    }
    let name = fresh.path().file_name().unwrap_or_default();
    renameat(&place.folder, name, &place.folder, &place.name).map_err(|error| say(error.into()))?;
    // Under that name there is nothing any more that could be removed.
    let _ = fresh.keep();
    Ok(())
}

/// Whether it is certainly the file that it was, and nobody has written to it: reading some megabytes again would tell
/// no more.
fn was_left_alone(before: &Metadata, now: &File) -> io::Result<bool> {
    let (before, now) = (Stat::of(before), Stat::of(&now.metadata()?));
    Ok(before == now && now.is_settled(SystemTime::now()))
}

/// Where a file is behind all links. The folder is held open, so that it stays the same one whatever is moved.
struct Destination {
    folder: OwnedFd,
    path: PathBuf,
    name: OsString,
}

impl Destination {
    fn of(path: &Path) -> io::Result<Destination> {
        let target = std::fs::canonicalize(path)?;
        let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Destination { folder: open(folder, flags, Mode::empty())?, path: folder.to_owned(), name: name.to_owned() })
    }

    /// The file as it is now, without waiting for anybody.
    fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(openat(&self.folder, &self.name, flags, Mode::empty())?.into())
    }

    /// Not readable for others before it has the permissions of the old file: it may hold secrets.
    fn create(&self, fresh: &Path) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name: &OsStr = fresh.file_name().unwrap_or_default();
        Ok(openat(&self.folder, name, flags, Mode::from_raw_mode(0o600))?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::write_whole;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;
    use tidegate_config::is_one_of;

    fn is_old(file: File) -> io::Result<bool> {
        is_one_of(file, &["old"])
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).expect("read")
    }

    fn names(folder: &Path) -> usize {
        std::fs::read_dir(folder).expect("a folder").count()
    }

    #[test]
    fn a_file_is_replaced_with_its_permissions_and_links_stay_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("a.kdl"), folder.path().join("link.kdl"));
        std::fs::write(&file, "old").expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("permissions");
        symlink("a.kdl", &link).expect("a link");
        write_whole(&link, "new", is_old).expect("written");
        assert_eq!(read(&file), "new");
        assert_eq!(std::fs::metadata(&file).expect("metadata").mode() & 0o777, 0o640);
        assert!(std::fs::symlink_metadata(&link).expect("metadata").is_symlink());
        assert_eq!(names(folder.path()), 2, "nothing else is left");
        assert!(write_whole(&folder.path().join("none/x"), "x", is_old).is_err());
    }

    #[test]
    fn links_that_somebody_planted_lead_nowhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, victim) = (folder.path().join("a.kdl"), folder.path().join("victim"));
        std::fs::write(&file, "old").expect("written");
        std::fs::write(&victim, "mine").expect("written");
        symlink(&victim, folder.path().join(format!("a.kdl.{}.new", std::process::id()))).expect("a link");
        write_whole(&file, "new", is_old).expect("written");
        assert_eq!([read(&file), read(&victim)], ["new", "mine"]);
        // In the place of the file itself: what it leads to never had the text that is to be replaced.
        std::fs::remove_file(&file).expect("removed");
        symlink(&victim, &file).expect("a link");
        write_whole(&file, "new", is_old).expect_err("another file");
        assert_eq!(read(&victim), "mine");
    }

    #[test]
    fn an_edit_until_the_last_moment_is_not_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.kdl");
        std::fs::write(&file, "old").expect("written");
        // Saved by somebody after the first look.
        let look = |opened: File| {
            let is_old = is_old(opened);
            std::fs::write(&file, "edited").expect("written");
            is_old
        };
        assert_eq!(write_whole(&file, "new", look), Err("it was edited while the change was taken on".to_owned()));
        assert_eq!((read(&file).as_str(), names(folder.path())), ("edited", 1));
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.kdl");
        mknodat(CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
        assert_eq!(write_whole(&file, "new", is_old), Err("it is not a regular file".to_owned()));
    }
}
