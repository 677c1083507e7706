//! Stopping a peer gracefully and changing its configuration while it runs, each as the peer's own documentation says.
//! Waiting for the end, and killing what does not end, is for whoever started it.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::bounded;
use super::http;
use super::kind::{PeerKind, Program};
use super::render::Rendered;
use super::setup::Places;
use crate::procfs::ProcessId;

/// `caddy reload` returns when the new configuration is in use.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(30);
/// What Tidegate has not applied by then, it has not heard of.
const TIDEGATE_APPLY_TIME_MAX: Duration = Duration::from_secs(10);
const TIDEGATE_POLL: Duration = Duration::from_millis(2);
/// A little more than the drain time that Envoy is started with.
const ENVOY_DRAINED_AFTER: Duration = Duration::from_secs(6);

/// The graceful stop of a peer: requests in flight are answered, then the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Signal(Signal),
    /// `POST` to the admin address, wait until connections have been drained, then the signal, which alone would cut
    /// them.
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

/// Has a running peer take up the new files, and waits until it has where it says so: Caddy's command does, and
/// Tidegate counts the configurations that it has applied. HAProxy and nginx are told by signal, and Traefik may take
/// two seconds; there the first answers tell.
pub fn reconfigure(program: &Program, places: &Places, old: &Rendered, new: &Rendered, pid: ProcessId) -> Result<(), String> {
    if program.kind != PeerKind::Tidegate || old.files == new.files {
        return order_change(program, places, old, new, pid);
    }
    let before = TidegateChanges::read(places.admin)?;
    order_change(program, places, old, new, pid)?;
    let deadline = Instant::now() + TIDEGATE_APPLY_TIME_MAX;
    loop {
        let now = TidegateChanges::read(places.admin)?;
        if now.generation > before.generation {
            return Ok(());
        }
        if now.refused > before.refused {
            return Err("tidegate refused the changed configuration; its log says why".to_owned());
        }
        if Instant::now() > deadline {
            return Err(format!("tidegate did not apply the changed configuration within {TIDEGATE_APPLY_TIME_MAX:?}"));
        }
        std::thread::sleep(TIDEGATE_POLL);
    }
}

/// Puts the files that differ into the place of the old ones and tells the running peer. Asks nothing of it but that,
/// so that what a change costs can be measured; returns when it has been told.
pub fn order_change(program: &Program, places: &Places, old: &Rendered, new: &Rendered, pid: ProcessId) -> Result<(), String> {
    let kind = program.kind;
    let write = || new.write_what_differs(old, &places.folder);
    match kind {
        PeerKind::Haproxy if !old.arguments.iter().any(|argument| argument == "-W") => {
            Err("haproxy was not started as a master process, which alone can load a changed configuration".to_owned())
        }
        PeerKind::Haproxy => {
            write()?;
            signal(pid, Signal::USR2)
        }
        PeerKind::Tidegate | PeerKind::Nginx | PeerKind::Angie => {
            write()?;
            signal(pid, Signal::HUP)
        }
        PeerKind::Envoy => {
            only_these_differ(kind, &["routes.yaml"], old, new)?;
            write()
        }
        PeerKind::Traefik => {
            only_these_differ(kind, &["dynamic/routes.yml", "dynamic/changing.yml"], old, new)?;
            write()
        }
        PeerKind::Caddy => {
            write()?;
            let mut command = Command::new(&program.path);
            command.args(["reload", "--adapter", "caddyfile", "--address", &places.admin.to_string(), "--config"]);
            command.arg(places.folder.join("Caddyfile")).envs(new.environment.iter().cloned());
            bounded::output(&mut command, RELOAD_TIME_MAX).map(drop).map_err(|reason| format!("`caddy reload`: {reason}"))
        }
    }
}

/// What Tidegate's metrics say of the configurations that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TidegateChanges {
    /// Number of the one that runs.
    generation: u64,
    refused: u64,
}

impl TidegateChanges {
    fn read(admin: SocketAddr) -> Result<TidegateChanges, String> {
        let metrics = http::request("GET", admin, "/metrics")?;
        let sample = |name: &str| {
            let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| format!("tidegate's metrics have no {name}"))
        };
        Ok(TidegateChanges {
            generation: sample("tidegate_configuration_generation")?,
            refused: sample("tidegate_configuration_changes_total{result=\"refused\"}")?,
        })
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
