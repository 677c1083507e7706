//! What a process is told by signals, in words. Who hears them when a process has been replaced is in `init`.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGUSR1.
    ReopenLogs,
    /// SIGHUP, unless the process ends with its terminal.
    Reload,
    /// SIGUSR2.
    Upgrade,
}

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
    reload: Signal,
    upgrade: Signal,
    /// What SIGHUP says.
    at_hangup: Told,
}

impl Signals {
    pub(crate) fn new(at_hangup: Told) -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reopen: signal(SignalKind::user_defined1())?,
            reload: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
            at_hangup,
        })
    }

    /// Nothing is lost when the wait is given up.
    pub(crate) async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.reopen.recv() => Told::ReopenLogs,
            _ = self.reload.recv() => self.at_hangup,
            _ = self.upgrade.recv() => Told::Upgrade,
        }
    }
}
