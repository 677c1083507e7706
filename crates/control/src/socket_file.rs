//! The file of a unix socket that sites listen on: replaced where an earlier process has left one, given to whom the
//! configuration says, and removed by whoever made it. The socket of the admin endpoint is in `endpoint`.

use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tidegate_model::{SocketAccess, SocketName};
use tidegate_transport::sockets;

/// The file of a socket that this process has bound. Dropping this leaves it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// What somebody else has put at the path since is theirs.
    identity: FileIdentity,
}

impl SocketFile {
    /// Clients find no way here any more.
    pub fn remove(&self) {
        if identity(&self.path) == Some(self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device, number, and when the file was made: the number of a file that is gone is given to the next one.
type FileIdentity = (u64, u64, i64, i64);

fn identity(path: &Path) -> Option<FileIdentity> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
}

/// Binds the socket; nobody can connect before the file is whose it should be. An abstract one has no file.
pub fn bind(name: &SocketName, access: &SocketAccess) -> io::Result<(TcpListener, Option<SocketFile>)> {
    let Some(path) = name.file() else { return Ok((sockets::bind_unix(name.path(), || Ok(()))?, None)) };
    remove_stale(path)?;
    let listener = sockets::bind_unix(path, || give(path, access).inspect_err(|_| drop(std::fs::remove_file(path))))?;
    let file = identity(path).map(|identity| SocketFile { path: path.to_owned(), identity });
    Ok((listener, file))
}

/// Whether the socket could be bound now. One that somebody answers on is another's.
pub fn probe(name: &SocketName) -> io::Result<()> {
    let Some(path) = name.file() else {
        return sockets::bind_unix(name.path(), || Ok(())).map(drop);
    };
    if is_answered(path)? {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    writable.map_err(io::Error::from)
}

/// The socket file of an earlier process goes; anything else at that path does not.
pub fn remove_stale(path: &Path) -> io::Result<()> {
    match (is_answered(path)?, identity(path)) {
        (true, _) => Err(io::ErrorKind::AddrInUse.into()),
        (false, Some(_)) => std::fs::remove_file(path),
        (false, None) => Ok(()),
    }
}

/// Fails where something else than a socket is.
fn is_answered(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => Err(io::ErrorKind::AlreadyExists.into()),
        // A full queue has somebody behind it.
        Ok(_) => Ok(match UnixStream::connect(path) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }),
        Err(_) => Ok(false),
    }
}

/// Who may connect.
pub fn give(path: &Path, access: &SocketAccess) -> io::Result<()> {
    let owner = access.owner.as_deref().map(|name| number_of(name, Path::new(USERS), "user")).transpose()?;
    let group = access.group.as_deref().map(|name| number_of(name, Path::new(GROUPS), "group")).transpose()?;
    if owner.is_some() || group.is_some() {
        std::os::unix::fs::chown(path, owner, group)?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(access.mode))
}

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// The number of a user or a group, by the lines `name:x:number:…` of a file. Others are given by their number: who
/// asks the name service may wait for a network.
fn number_of(name: &str, file: &Path, what: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(file)
        .map_err(|error| io::Error::new(error.kind(), format!("{} cannot be read: {error}", file.display())))?;
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let number = lines.find(|fields| fields.first() == Some(&name)).and_then(|fields| fields.get(2)?.parse().ok());
    let missing = || format!("there is no {what} `{name}` in {}; the number of one from elsewhere does as well", file.display());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing()))
}

#[cfg(test)]
mod tests {
    use super::{bind, number_of, probe};
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    use tidegate_model::{SocketAccess, SocketName};

    #[test]
    fn a_socket_is_free_or_stale_or_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock");
        let name = SocketName::of_path(&path).expect("a short path");
        let access = SocketAccess { mode: 0o600, ..SocketAccess::default() };
        assert!(probe(&name).is_ok());
        let (listener, file) = bind(&name, &access).expect("it is free");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).expect("somebody listens");
        assert_eq!(bind(&name, &access).map(drop).map_err(|error| error.kind()), Err(ErrorKind::AddrInUse));
        assert_eq!(probe(&name).map_err(|error| error.kind()), Err(ErrorKind::AddrInUse));
        // Left behind, as by a process that was killed.
        drop(listener);
        let (_second, second_file) = bind(&name, &access).expect("the stale file is replaced");
        file.expect("it had one").remove();
        UnixStream::connect(&path).expect("the file of another is left alone");
        second_file.expect("it has one").remove();
        assert!(!path.exists());
        std::fs::write(&path, "not a socket").expect("a file");
        assert_eq!(bind(&name, &access).map(drop).map_err(|error| error.kind()), Err(ErrorKind::AlreadyExists));
        assert!(path.exists());
    }

    #[test]
    fn an_owner_that_is_not_there_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock");
        let name = SocketName::of_path(&path).expect("a short path");
        let access = SocketAccess { group: Some("nobody-has-this-name".into()), ..SocketAccess::default() };
        let fault = bind(&name, &access).map(drop).expect_err("no such group").to_string();
        assert!(fault.contains("there is no group `nobody-has-this-name`"), "{fault}");
        assert!(!path.exists());
    }

    #[test]
    fn names_and_numbers_of_users() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("passwd");
        std::fs::write(&file, "root:x:0:0::/root:/bin/sh\nbad\nweb:x:33:33::/:/bin/false\n").expect("a file");
        let check = |name: &str, expected: Option<u32>| assert_eq!(number_of(name, &file, "user").ok(), expected, "{name}");
        check("root", Some(0));
        check("web", Some(33));
        check("1234", Some(1234));
        check("bad", None);
        check("other", None);
    }
}
