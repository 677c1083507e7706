//! What is left of a process that has been replaced: nothing, unless it is the first of a container. When process 1
//! ends, so does the container; so it stays, hands on what it is told and takes leave of those that end, until the last
//! of its successors has.
//!
//! What it hands on goes through one pipe that all its successors inherit, and whoever serves reads. A signal would
//! have to be sent to a process, and one that has just been replaced looks alive until its last thread has ended: what
//! it is told then is lost.

use crate::signals::{Signals, Told};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitOptions, wait};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// Names the pipe to successors of the first process of a container.
pub(crate) const MAILBOX: &str = "TIDEGATE_MAILBOX";
/// How often ended children are looked for; nobody waits for the answer.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// What the processes of a container are told, one byte each. The kernel keeps 64 KiB of it until somebody reads.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// One end is open under this number in every process, from the first on; nobody closes it.
    number: RawFd,
    reader: pipe::Receiver,
    writer: File,
}

impl Mailbox {
    /// `None` outside of a container: there a signal means the process that it is sent to. Within a runtime.
    pub(crate) fn open() -> io::Result<Option<Mailbox>> {
        let number = match std::env::var(MAILBOX) {
            Ok(number) => number.parse().map_err(|_| io::Error::other(format!("{MAILBOX}={number} is no descriptor")))?,
            Err(_) if std::process::id() == 1 => {
                // Not closed when another program is started: that is how successors get it. Which end is opened again
                // below does not matter.
                let (reader, writer) = pipe_with(PipeFlags::NONBLOCK)?;
                let _ = writer.into_raw_fd();
                reader.into_raw_fd()
            }
            Err(_) => return Ok(None),
        };
        let path = format!("/proc/self/fd/{number}");
        let reader = pipe::OpenOptions::new().open_receiver(&path)?;
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let writer = OpenOptions::new().write(true).custom_flags(nonblocking).open(&path)?;
        Ok(Some(Mailbox { number, reader, writer }))
    }

    /// What a successor has to have in its environment.
    pub(crate) fn environment(&self) -> (&'static str, String) {
        (MAILBOX, self.number.to_string())
    }

    /// For whoever serves.
    pub(crate) fn put(&mut self, told: Told) {
        if let Err(error) = self.writer.write_all(&[code(told)]) {
            tracing::error!(%error, ?told, "a signal cannot be handed on");
        }
    }

    /// For the last process in the row, which serves or drains without a successor. Nothing is lost when the wait is
    /// given up.
    pub(crate) async fn next(&mut self) -> Told {
        loop {
            match self.reader.read_u8().await {
                Ok(byte) => {
                    if let Some(told) = TOLD.into_iter().find(|told| code(*told) == byte) {
                        return told;
                    }
                    tracing::warn!(byte, "the first process hands on what this version does not know");
                }
                Err(error) => {
                    tracing::error!(%error, "signals of the container are not heard any more");
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

const TOLD: [Told; 4] = [Told::Stop, Told::ReopenLogs, Told::Reload, Told::Upgrade];

/// The code of a message, which is the same in all versions: a successor may be of a later one.
fn code(told: Told) -> u8 {
    match told {
        Told::Stop => b'S',
        Told::ReopenLogs => b'L',
        Told::Reload => b'R',
        Told::Upgrade => b'U',
    }
}

/// Ends with success, or as process 1 with what the last successor ends with.
pub(crate) async fn outlive(successor: u32, signals: &mut Signals, mailbox: Mailbox) -> ExitCode {
    if std::process::id() == 1 { stay(successor, signals, mailbox).await } else { ExitCode::SUCCESS }
}

async fn stay(successor: u32, signals: &mut Signals, mut mailbox: Mailbox) -> ExitCode {
    let mut newest = successor;
    let mut last = ExitCode::SUCCESS;
    loop {
        tokio::select! {
            told = signals.next() => mailbox.put(told),
            () = tokio::time::sleep(LOOK_PERIOD) => {}
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get().cast_unsigned() == newest {
                last = ExitCode::from(u8::try_from(status.exit_status().unwrap_or(1)).unwrap_or(1));
            }
        }
        // Whoever started a child may have taken leave of it before us, so the list counts. Processes that lose their
        // parent become ours: a successor's successor is the youngest of them.
        let children = children();
        match children.last() {
            None => return last,
            Some(youngest) if !children.contains(&newest) => newest = *youngest,
            Some(_) => {}
        }
    }
}

/// The youngest last.
fn children() -> Vec<u32> {
    let children = std::fs::read_to_string("/proc/self/task/1/children").unwrap_or_default();
    children.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}
