//! A new binary takes over: it is started beside this process, is given every listening socket, and when it accepts
//! connections this process drains. Until then nothing has changed here, so a binary that does not start harms nobody.
//! How the sockets travel is in `transport::handover::succession`.

use crate::endpoint::{AdminListener, AdminSocket};
use crate::init::Mailbox;
use crate::sharing::{open_rendezvous, receive_peers};
use crate::source::{Read, Source, emptied};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use tidegate_certs::ExportedKeys;
use tidegate_model::AdminPlace;
use tidegate_transport::handover::{self, Handed, Inherited, Listener, Purpose, Request, Serving, Succession};
use tokio::sync::{mpsc, oneshot};

/// Names the predecessor to its successor.
pub const PREDECESSOR: &str = "TIDEGATE_PREDECESSOR";
/// A successor that is not ready by then never will be.
pub(crate) const READY_LIMIT: Duration = Duration::from_secs(60);
/// How often a successor is looked at while it starts.
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// How this process is started again.
#[derive(Debug, Clone)]
pub struct Program {
    pub binary: PathBuf,
    pub arguments: Vec<OsString>,
}

impl Program {
    /// As this process was started. To be asked when it starts: later the binary may have been replaced, and the system
    /// then knows no path.
    pub fn current() -> Program {
        let mut arguments = std::env::args_os();
        let called = arguments.next().unwrap_or_else(|| "tidegate".into());
        // What was typed names the file that an update replaces; the system's answer may be the versioned file behind a
        // link.
        let typed = PathBuf::from(&called);
        let binary = if typed.components().count() > 1 { std::path::absolute(&typed).unwrap_or(typed) } else { found(&typed) };
        Program { binary, arguments: arguments.collect() }
    }
}

fn found(name: &Path) -> PathBuf {
    let in_path = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()));
    in_path.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| name.to_owned())
}

/// Why nobody took over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpgradeFault {
    UnderWay,
    /// The change would stay without a word, since the successor knows nothing of it.
    AwaitsConfirmation,
    CannotStart {
        binary: PathBuf,
        error: String,
    },
    Ended {
        code: String,
    },
    Failed {
        reason: String,
    },
    TimedOut,
    Unavailable,
}

impl fmt::Display for UpgradeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpgradeFault::UnderWay => f.write_str("an upgrade is under way already"),
            UpgradeFault::AwaitsConfirmation => f.write_str(
                "a change of the configuration waits for its confirmation\n  help: `tidegate confirm` keeps it, `tidegate rollback` takes it back; then repeat the upgrade",
            ),
            UpgradeFault::CannotStart { binary, error } => write!(
                f,
                "the new binary {} cannot be started: {error}\n  help: this process goes on; name another file with `tidegate upgrade --binary FILE`",
                binary.display()
            ),
            UpgradeFault::Ended { code } => write!(
                f,
                "the new process ended ({code}) before it was ready\n  help: this process goes on; its output, in the same log, says why"
            ),
            UpgradeFault::Failed { reason } => write!(f, "the new process gave up: {reason}\n  help: this process goes on"),
            UpgradeFault::TimedOut => {
                write!(f, "the new process was not ready within {READY_LIMIT:?}, and was ended\n  help: this process goes on")
            }
            UpgradeFault::Unavailable => f.write_str("processes cannot find each other here: there are no abstract unix sockets"),
        }
    }
}

impl std::error::Error for UpgradeFault {}

/// What is heard of a successor.
#[derive(Debug)]
pub(crate) enum SuccessorOutcome {
    /// The successor accepts connections.
    Ready,
    NotReady(UpgradeFault),
}

/// What moves the control thread besides what it is asked.
pub(crate) enum PeerEvent {
    /// Another process of ours wants something.
    Peer(Request),
    Successor {
        pid: u32,
        news: SuccessorOutcome,
    },
}

pub(crate) type Reply = oneshot::Sender<Result<u32, UpgradeFault>>;

/// Where this process is in handing over.
pub(crate) struct Stage {
    pub(crate) program: Program,
    /// Answers other processes until this one leaves.
    serving: Option<Serving>,
    pub(crate) events: mpsc::Sender<PeerEvent>,
    pub(crate) successor: Option<Successor>,
    pub(crate) is_replaced: bool,
    /// The configuration was to be applied while a successor started.
    pub(crate) reload_wanted: bool,
    /// Within a container.
    pub(crate) mailbox: Option<Mailbox>,
}

pub(crate) struct Successor {
    pub pid: u32,
    pub reply: Option<Reply>,
}

impl Stage {
    pub(crate) fn new(program: Program, events: mpsc::Sender<PeerEvent>) -> Stage {
        Stage { program, serving: None, events, successor: None, is_replaced: false, reload_wanted: false, mailbox: None }
    }

    /// From here on other processes can hand sockets over, and ask for some. Not before: they would wait for an answer
    /// from a process that starts.
    pub(crate) fn answer_peers(&mut self) {
        let Some(rendezvous) = open_rendezvous() else { return };
        let events = self.events.clone();
        // Unanswered, the peer keeps what it has.
        let tell = move |request| drop(events.blocking_send(PeerEvent::Peer(request)));
        match rendezvous.serve(handover::PATIENCE, receive_peers(tell)) {
            Ok(serving) => self.serving = Some(serving),
            Err(error) => tracing::warn!(%error, "other processes cannot reach this one"),
        }
    }

    /// This process's name among its peers; empty where there is none.
    pub(crate) fn name(&self) -> &str {
        self.serving.as_ref().map_or("", Serving::name)
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.successor.is_some() || self.is_replaced
    }

    /// A successor starts, and it is not known yet whether it will take over.
    pub(crate) fn is_undecided(&self) -> bool {
        self.successor.is_some() && !self.is_replaced
    }

    /// This process ends for good: one that was to take over must not go on without it.
    pub(crate) fn abandon_successor(&mut self) {
        if self.is_undecided()
            && let Some(successor) = self.successor.take()
        {
            tracing::info!(pid = successor.pid, "the successor is ended, too");
            kill(successor.pid);
        }
    }

    /// A successor accepts from our sockets: who it is.
    pub(crate) fn successor(&self) -> Option<u32> {
        self.successor.as_ref().filter(|_| self.is_replaced).map(|successor| successor.pid)
    }

    /// Nobody is to offer sockets to a process that leaves. Gives the name that it had.
    pub(crate) fn stop_answering(&mut self) -> String {
        self.serving.take().map_or_else(String::new, |serving| serving.name().to_owned())
    }
}

/// Kills a process; one that has ended is not hurt.
pub(crate) fn kill(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Tells when the child ends, or is not ready in time.
pub(crate) fn watch_child(mut child: Child, events: mpsc::Sender<PeerEvent>) {
    let pid = child.id();
    let watching = std::thread::Builder::new().name("successor".into()).spawn(move || {
        let until = Instant::now() + READY_LIMIT;
        let mut is_late = false;
        loop {
            let news = match child.try_wait() {
                Ok(Some(status)) => Some(UpgradeFault::Ended { code: status.to_string() }),
                Ok(None) if !is_late && Instant::now() >= until => {
                    is_late = true;
                    Some(UpgradeFault::TimedOut)
                }
                Ok(None) => None,
                Err(error) => Some(UpgradeFault::Failed { reason: error.to_string() }),
            };
            let has_ended = matches!(news, Some(UpgradeFault::Ended { .. } | UpgradeFault::Failed { .. }));
            if let Some(fault) = news
                && events.blocking_send(PeerEvent::Successor { pid, news: SuccessorOutcome::NotReady(fault) }).is_err()
            {
                return;
            }
            // Nobody listens in a process that has been replaced; as the first of a container it takes leave of its
            // children itself.
            if has_ended || events.is_closed() {
                return;
            }
            std::thread::sleep(LOOK_PERIOD);
        }
    });
    if let Err(error) = watching {
        tracing::error!(%error, "a successor cannot be watched");
    }
}

/// What a successor begins with besides sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CarriedOver {
    pub generation: u64,
    /// Pool and address of servers that were taken out of use.
    pub drained: Vec<(String, String)>,
    /// So that clients resume their sessions with the successor. Only ever in memory and on the link between the two
    /// processes.
    pub tickets: Option<ExportedKeys>,
    /// A configuration that was not read from a file: nobody can read it a second time.
    pub source: Option<Source>,
}

impl CarriedOver {
    /// A line each; names of pools and addresses have no line ends.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = format!("generation\t{}\n", self.generation);
        for (pool, server) in &self.drained {
            text.push_str(&format!("drained\t{pool}\t{server}\n"));
        }
        if let Some(tickets) = &self.tickets {
            text.push_str("tickets\t");
            for byte in tickets.reveal() {
                text.push_str(&format!("{byte:02x}"));
            }
            text.push('\n');
        }
        if let Some(Source::Text { name, text: written, directory }) = &self.source {
            // Last, since it may be anything.
            text.push_str(&format!("source\t{name}\t{}\n{written}", directory.display()));
        }
        text.into_bytes()
    }

    /// Lines that a later version may write are left out.
    fn decode(state: &[u8]) -> CarriedOver {
        let mut carried = CarriedOver::default();
        let state = String::from_utf8_lossy(state);
        let mut rest = &*state;
        while let Some((line, behind)) = rest.split_once('\n') {
            rest = behind;
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["generation", number] => carried.generation = number.parse().unwrap_or_default(),
                ["source", name, directory] => {
                    carried.source =
                        Some(Source::Text { name: name.to_owned(), text: rest.to_owned(), directory: directory.into() });
                    return carried;
                }
                ["tickets", digits] => carried.tickets = bytes_of(digits).map(ExportedKeys::from_bytes),
                ["drained", pool, server] => carried.drained.push((pool.to_owned(), server.to_owned())),
                _ => {}
            }
        }
        carried
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// What a process that takes over begins with.
pub struct Inheritance {
    pub sockets: Vec<std::net::TcpListener>,
    pub admin: Vec<AdminListener>,
    pub carried: CarriedOver,
    pub succession: Succession,
}

impl Inheritance {
    /// Why the process before goes on: it serves clients, and what this one has read says nothing that it could serve.
    pub fn keeps_from(&self, read: &Read) -> Option<String> {
        let is_emptied = !self.sockets.is_empty() && !read.configuration.serves();
        is_emptied.then(|| emptied(&read.files, "the process before serves clients"))
    }
}

/// Takes everything over from the predecessor that the environment names, if it names one.
pub fn inherit() -> Result<Option<Inheritance>, String> {
    let Some(name) = std::env::var_os(PREDECESSOR) else { return Ok(None) };
    let name = name.to_string_lossy();
    let (inherited, succession) = handover::take_over(&name, handover::PATIENCE)
        .map_err(|fault| format!("the sockets of the process before cannot be taken over: {fault}"))?;
    let Inherited { sockets, rejected, state } = inherited;
    for rejected in rejected {
        tracing::error!(%rejected, "a socket of the process before is not used");
    }
    let (admin, sites): (Vec<Handed>, Vec<Handed>) =
        sockets.into_iter().partition(|handed| handed.announced.purpose == Purpose::Admin);
    Ok(Some(Inheritance {
        sockets: crate::sharing::tcp_sockets(sites),
        admin: admin.into_iter().filter_map(admin_listener).collect(),
        carried: CarriedOver::decode(&state),
        succession,
    }))
}

fn admin_listener(handed: Handed) -> Option<AdminListener> {
    match (handed.listener, handed.announced.place) {
        (Listener::Tcp(listener), _) => AdminListener::tcp(listener).ok(),
        (Listener::Unix(listener), handover::Place::Unix { path }) => {
            Some(AdminListener { place: AdminPlace::Unix(path), socket: AdminSocket::Unix(listener) })
        }
        (Listener::Unix(_), handover::Place::Tcp { .. }) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{CarriedOver, ExportedKeys, Source};

    #[test]
    fn what_is_carried_over_reads_back() {
        let drained = vec![("api".into(), "10.0.0.4:80".into())];
        let source =
            Source::Text { name: "<stdin>".into(), text: "drain \"1s\"\n\ndrained\ta\tb\n".into(), directory: "/etc".into() };
        let tickets = Some(ExportedKeys::from_bytes(vec![1, 0, 0xfe]));
        for (source, tickets) in [(None, None), (Some(source.clone()), None), (Some(source), tickets)] {
            let carried = CarriedOver { generation: 7, drained: drained.clone(), tickets, source };
            assert_eq!(CarriedOver::decode(&carried.encode()), carried);
        }
        assert_eq!(
            CarriedOver::decode(b"later\tx\n\xff\ngeneration\tmany\ntickets\t0\ntickets\t+1\xff\n"),
            CarriedOver::default()
        );
    }
}
