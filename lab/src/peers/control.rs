//! Stopping a peer gracefully and changing its configuration while it runs, each as the peer's own documentation says.
//! Waiting for the end, and killing what does not end, is for whoever started it.

use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::bounded;
use super::http;
use super::kind::{PeerKind, Program};
use super::render::Rendered;
use super::setup::Places;
use crate::procfs::ProcessId;

/// `caddy reload` returns when the new configuration is in use.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(30);
/// A little more than the drain time that Envoy is started with.
const ENVOY_DRAINED_AFTER: Duration = Duration::from_secs(6);

/// The graceful stop of a peer: requests in flight are answered, then the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Signal(Signal),
    /// `POST` to the admin address, wait until connections have been drained, then the signal, which alone would cut them.
    PostThenSignal {
        path: &'static str,
        wait: Duration,
        signal: Signal,
    },
}

pub fn graceful_stop(kind: PeerKind) -> Stop {
    match kind {
        PeerKind::Tidegate => Stop::Signal(Signal::TERM),
        // SIGTERM would cut what is in flight.
        PeerKind::Haproxy => Stop::Signal(Signal::USR1),
        PeerKind::Nginx | PeerKind::Angie => Stop::Signal(Signal::QUIT),
        PeerKind::Envoy => {
            Stop::PostThenSignal { path: "/drain_listeners?graceful", wait: ENVOY_DRAINED_AFTER, signal: Signal::TERM }
        }
        PeerKind::Caddy => Stop::Signal(Signal::TERM),
        PeerKind::Traefik => Stop::Signal(Signal::TERM),
    }
}

/// Carries the stop out up to its last signal; the process then ends in its own time. Blocks for as long as a
/// peer has to be waited for, which is seconds with Envoy.
pub fn stop(kind: PeerKind, pid: ProcessId, places: &Places) -> Result<(), String> {
    match graceful_stop(kind) {
        Stop::Signal(with) => signal(pid, with),
        Stop::PostThenSignal { path, wait, signal: with } => {
            http::request("POST", places.admin, path)?;
            std::thread::sleep(wait);
            signal(pid, with)
        }
    }
}

/// Why a running peer does not have its new configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotChanged {
    /// This version of it cannot be changed while it runs; nobody tried.
    Unavailable(String),
    /// It should have worked.
    Failed(String),
}

impl From<String> for NotChanged {
    fn from(reason: String) -> NotChanged {
        NotChanged::Failed(reason)
    }
}

/// Puts the new files into the place of the old ones and has the running peer take them up. Returns when it has been told.
/// Only Caddy says when it is done; Traefik may take two seconds.
pub fn reconfigure(program: &Program, places: &Places, old: &Rendered, new: &Rendered, pid: ProcessId) -> Result<(), NotChanged> {
    let kind = program.kind;
    match kind {
        // Becomes SIGHUP with the version that can; its note.md and the fairness notes of E3 say what it does then.
        PeerKind::Tidegate => Err(NotChanged::Unavailable(
            "this version of Tidegate cannot change its configuration while it runs (it comes with a later one)".to_owned(),
        )),
        PeerKind::Haproxy if !old.arguments.iter().any(|argument| argument == "-W") => {
            let reason = "haproxy was not started as a master process, which alone can load a changed configuration";
            Err(NotChanged::Failed(reason.to_owned()))
        }
        PeerKind::Haproxy => {
            new.write(&places.folder)?;
            Ok(signal(pid, Signal::USR2)?)
        }
        PeerKind::Nginx | PeerKind::Angie => {
            new.write(&places.folder)?;
            Ok(signal(pid, Signal::HUP)?)
        }
        PeerKind::Envoy => {
            only_these_differ(kind, &["routes.yaml"], old, new)?;
            Ok(new.write(&places.folder)?)
        }
        PeerKind::Traefik => {
            only_these_differ(kind, &["dynamic/routes.yml"], old, new)?;
            Ok(new.write(&places.folder)?)
        }
        PeerKind::Caddy => {
            new.write(&places.folder)?;
            let mut command = Command::new(&program.path);
            command.args(["reload", "--adapter", "caddyfile", "--address", &places.admin.to_string(), "--config"]);
            command.arg(places.folder.join("Caddyfile")).envs(new.environment.iter().cloned());
            bounded::output(&mut command, RELOAD_TIME_MAX).map(drop).map_err(|reason| format!("`caddy reload`: {reason}").into())
        }
    }
}

/// A peer that watches some of its files does not notice a change in another, and would be measured as if it had.
fn only_these_differ(kind: PeerKind, watched: &[&str], old: &Rendered, new: &Rendered) -> Result<(), String> {
    let changed = new.files.iter().filter(|file| !old.files.contains(file)).map(|(name, _)| name.as_str());
    match changed.into_iter().find(|name| !watched.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!("{kind} reads {name} only when it starts; while it runs, {} can change", watched.join(", "))),
    }
}

fn signal(pid: ProcessId, signal: Signal) -> Result<(), String> {
    let process = Pid::from_raw(pid as i32).ok_or_else(|| format!("{pid} is no process"))?;
    kill_process(process, signal).map_err(|error| format!("process {pid}: {error}"))
}
