//! Opens a file only when it is a regular one. A pipe in the place of a file would hold up whoever reads it until
//! somebody writes, which for the running process means for ever; a device may never end. What the text means is
//! `load`'s work. What is wrong with a file is told in the words of this language (`reason`).

use crate::syntax::FILE_BYTES_MAX;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Follows links. What is not a regular file is an error that says so, and is not waited for; it is the opened file
/// that is looked at, so nothing can be put in its place in between.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = retry_on_intr(|| open(path, flags, Mode::empty())).map_err(|error| match error {
        // What opening a socket gives.
        Errno::NXIO => not_regular(),
        other => other.into(),
    })?;
    checked(file.into())
}

fn checked(file: File) -> io::Result<File> {
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(not_regular()),
    }
}

/// The text of a regular file, at most the 8 MiB that a file of a configuration may have.
pub fn read_regular(path: &Path) -> io::Result<String> {
    read_bounded(open_regular(path)?)
}

/// Whether a regular file that somebody opened has one of these texts. Its own is not held in memory.
pub fn is_one_of(file: File, texts: &[&str]) -> io::Result<bool> {
    let mut file = checked(file)?;
    let mut buffer = vec![0; 64 << 10];
    let mut rest: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => return Ok(rest.iter().any(|rest| rest.is_empty())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        rest = rest.into_iter().filter_map(|rest| rest.strip_prefix(&buffer[..count])).collect();
        if rest.is_empty() {
            return Ok(false);
        }
    }
}

/// Reads an open file up to the bound, whatever kind of file it is.
pub fn read_bounded(file: File) -> io::Result<String> {
    let length = file.metadata().map_or(0, |metadata| metadata.len()).min(FILE_BYTES_MAX as u64);
    let mut text = String::with_capacity(length as usize + 1);
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    if text.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("it is larger than 8 MiB"));
    }
    Ok(text)
}

fn not_regular() -> io::Error {
    io::Error::other("it is not a regular file")
}

/// An error of the system in the words of this language.
pub fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::IsADirectory => "it is a directory".into(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{open_regular, reason};
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    #[test]
    fn only_regular_files_are_opened_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "text").expect("written");
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
        let _socket = UnixListener::bind(path("socket")).expect("a socket");
        for name in ["file", "pipe"] {
            symlink(name, path(&format!("link to {name}"))).expect("a link");
        }
        let check = |path: &Path, expected: Result<(), &str>| {
            let seen = open_regular(path).map(drop).map_err(|error| reason(&error));
            assert_eq!(seen, expected.map_err(str::to_owned), "{}", path.display());
        };
        check(&path("file"), Ok(()));
        check(&path("link to file"), Ok(()));
        check(&path("pipe"), Err("it is not a regular file"));
        check(&path("link to pipe"), Err("it is not a regular file"));
        check(&path("socket"), Err("it is not a regular file"));
        check(Path::new("/dev/zero"), Err("it is not a regular file"));
        check(folder.path(), Err("it is a directory"));
        check(&path("none"), Err("there is no such file"));
    }
}
