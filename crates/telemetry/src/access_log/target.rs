//! Where lines go: standard output or error, a file that may be rotated by its size, or nowhere.
//! Rotation renames `path` to `path.1`, `path.1` to `path.2` and so on, always between two lines.

use super::syslog::SyslogTarget;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tidegate_model::{LogTarget, Rotation};

/// Lines hold addresses of people and what they looked at: not for everyone on the machine.
const FILE_MODE: u32 = 0o640;

#[derive(Debug)]
pub(super) enum Target {
    Off,
    /// A second descriptor of standard output or error: unbuffered, and without the lock that the rest of the program
    /// takes.
    Stream(File),
    File(LogFile),
    Syslog(Box<SyslogTarget>),
}

impl Target {
    pub fn open(target: &LogTarget) -> io::Result<Target> {
        Ok(match target {
            LogTarget::Off => Target::Off,
            LogTarget::Stdout => Target::Stream(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            LogTarget::Stderr => Target::Stream(File::from(io::stderr().as_fd().try_clone_to_owned()?)),
            LogTarget::File { path, rotation } => Target::File(LogFile::open(path, *rotation)?),
            LogTarget::Syslog(settings) => Target::Syslog(Box::new(SyslogTarget::open(settings)?)),
        })
    }

    /// Opens the file of that name anew, after something else renamed the old one.
    pub fn reopen(&mut self) -> io::Result<()> {
        match self {
            Target::Off | Target::Stream(_) | Target::Syslog(_) => Ok(()),
            Target::File(file) => file.reopen(),
        }
    }

    /// How many of `bytes` may be written next; rotates first when they do not fit any more. An error is one of
    /// rotating: there is still somewhere to write to.
    pub fn prepare(&mut self, bytes: &[u8], at_line_start: bool) -> (usize, io::Result<()>) {
        match self {
            Target::Off | Target::Stream(_) | Target::Syslog(_) => (bytes.len(), Ok(())),
            Target::File(file) => file.prepare(bytes, at_line_start),
        }
    }

    /// Writes some of `bytes`, as [`Write::write`].
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Off => Ok(bytes.len()),
            Target::Stream(stream) => stream.write(bytes),
            Target::File(file) => file.write(bytes),
            Target::Syslog(syslog) => syslog.write(bytes),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Off => f.write_str("off"),
            Target::Stream(_) => f.write_str("stdout or stderr"),
            Target::File(file) => file.path.display().fmt(f),
            Target::Syslog(_) => f.write_str("syslog"),
        }
    }
}

#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
    size_bytes: u64,
    rotation: Option<Rotation>,
    /// The size to rotate at. Moves up when rotating fails, so that it is not tried for every line.
    rotate_at_bytes: u64,
}

impl LogFile {
    fn open(path: &Path, rotation: Option<Rotation>) -> io::Result<LogFile> {
        let (file, size_bytes) = open_append(path)?;
        let rotate_at_bytes = rotation.map_or(u64::MAX, |rotation| rotation.size_bytes);
        Ok(LogFile { file, path: path.to_owned(), size_bytes, rotation, rotate_at_bytes })
    }

    fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.size_bytes) = open_append(&self.path)?;
        self.rotate_at_bytes = self.rotation.map_or(u64::MAX, |rotation| rotation.size_bytes);
        Ok(())
    }

    fn prepare(&mut self, bytes: &[u8], at_line_start: bool) -> (usize, io::Result<()>) {
        let mut rotated = Ok(());
        let mut fitting = whole_lines(bytes, self.room());
        if fitting == 0 && at_line_start && self.size_bytes > 0 {
            rotated = self.rotate();
            fitting = whole_lines(bytes, self.room());
        }
        if fitting == 0 {
            // The rest of a line that is begun, or one line that is longer than a file may be.
            fitting = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
        }
        (fitting, rotated)
    }

    fn room(&self) -> u64 {
        self.rotate_at_bytes.saturating_sub(self.size_bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.size_bytes += written as u64;
        Ok(written)
    }

    fn rotate(&mut self) -> io::Result<()> {
        let Some(rotation) = self.rotation else { return Ok(()) };
        let result = shift_names(&self.path, rotation.keep).and_then(|()| self.reopen());
        if result.is_err() {
            self.rotate_at_bytes = self.size_bytes.saturating_add(rotation.size_bytes);
        }
        result
    }
}

fn open_append(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)?;
    let size_bytes = file.metadata()?.len();
    Ok((file, size_bytes))
}

/// Frees `path`: what was there is now `path.1`, and the one beyond `keep` is gone. A `path` that somebody took away is
/// free already.
fn shift_names(path: &Path, keep: u32) -> io::Result<()> {
    if !path.try_exists()? {
        return Ok(());
    }
    if keep == 0 {
        return std::fs::remove_file(path);
    }
    // Up to the first gap: above it nothing has to move.
    let last = (1..keep).find(|number| !numbered(path, *number).exists()).unwrap_or(keep);
    for number in (1..last).rev() {
        std::fs::rename(numbered(path, number), numbered(path, number + 1))?;
    }
    std::fs::rename(path, numbered(path, 1))
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// The length of the lines that are whole within the first `room` bytes.
fn whole_lines(bytes: &[u8], room: u64) -> usize {
    let room = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
    if room == bytes.len() {
        return room;
    }
    memchr::memrchr(b'\n', &bytes[..room]).map_or(0, |end| end + 1)
}
