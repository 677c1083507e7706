//! Who holds a lock or left an unfinished file: host, process, and enough to tell whether that process is still there.
//! The text of an owner is the same in a folder, in Redis and in Kubernetes.

use jiff::Timestamp;
use rustix::process::{Pid, test_kill_process};
use std::fmt;
use std::fs;
use std::sync::OnceLock;

/// Of the host's name; enough for a message, and short enough for a file name.
const HOST_BYTES_MAX: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub host: String,
    pub process: u32,
    pub since: Timestamp,
    /// Boot and namespaces: only where these are our own, the number of a process means anything to us.
    pub(crate) place: String,
    /// In ticks since the boot, because numbers of processes are used again.
    pub(crate) started: u64,
    /// No two owners are equal, also in one process.
    pub(crate) nonce: u64,
}

impl Owner {
    /// A new one of this process.
    pub(crate) fn here() -> Owner {
        let here = Process::here();
        Owner {
            host: here.host.clone(),
            process: std::process::id(),
            since: Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default(),
            place: here.place.clone(),
            started: here.started,
            nonce: rand::random(),
        }
    }

    /// True only when this is certain: the process ran under this boot of this host, and there is none of its number
    /// and start any more.
    pub(crate) fn is_gone(&self) -> bool {
        let here = Process::here();
        if self.place.is_empty() || self.place != here.place || self.host != here.host {
            return false;
        }
        let Some(pid) = i32::try_from(self.process).ok().and_then(Pid::from_raw) else {
            return false;
        };
        match test_kill_process(pid) {
            Err(rustix::io::Errno::SRCH) => true,
            // Somebody else has its number now. Who may not look is told nothing, and waits for the lease.
            Ok(()) | Err(_) => started_of(&self.process.to_string()).is_some_and(|started| started != self.started),
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Owner> {
        let mut parts = text.split(',');
        let mut next = || parts.next();
        let (host, place, process) = (next()?, next()?, next()?.parse().ok()?);
        let (started, since, nonce) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?);
        let owner = Owner {
            host: host.into(),
            process,
            since: Timestamp::from_second(since).ok()?,
            place: place.into(),
            started,
            nonce: u64::from_str_radix(nonce, 16).ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// What [`Owner::parse`] reads; fit for a file name.
    pub(crate) fn to_text(&self) -> String {
        let Owner { host, process, since, place, started, nonce } = self;
        format!("{host},{place},{process},{started},{},{nonce:016x}", since.as_second())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {} since {}", self.process, self.host, self.since)
    }
}

/// What is the same for all owners of this process.
struct Process {
    host: String,
    place: String,
    started: u64,
}

impl Process {
    fn here() -> &'static Process {
        static HERE: OnceLock<Process> = OnceLock::new();
        HERE.get_or_init(|| {
            let started = started_of("self");
            let place = place().filter(|_| started.is_some()).unwrap_or_default();
            Process { host: host_name(), place, started: started.unwrap_or_default() }
        })
    }
}

/// The boot, and the namespaces in which numbers and start times of processes are counted: containers of one host often
/// have the host's name and a process 1 of their own. `None` where the system does not tell, as outside Linux; locks
/// then have their lease only.
fn place() -> Option<String> {
    // A /proc of another namespace, as containers may have it mounted, counts other processes than ours.
    let own_entry = fs::read_link("/proc/self").ok()?;
    if own_entry.to_str()? != std::process::id().to_string() {
        return None;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = |kind: &str| {
        let link = fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
        Some(link.to_str()?.trim_start_matches(|c: char| !c.is_ascii_digit()).trim_end_matches(']').to_owned())
    };
    let boot: String = boot.trim().chars().filter(char::is_ascii_hexdigit).collect();
    Some(format!("{boot}-{}-{}", namespace("pid")?, namespace("time").unwrap_or_default()))
}

/// The 22nd field of /proc/…/stat. The second is the program's name in parentheses, which may have spaces and
/// parentheses in it.
fn started_of(process: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let allowed =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-')).take(HOST_BYTES_MAX).collect::<String>();
    if allowed.is_empty() { "unknown".into() } else { allowed }
}

#[cfg(test)]
mod tests {
    use super::Owner;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn an_owner_reads_back() {
        let owner = Owner::here();
        assert_eq!(Owner::parse(&owner.to_text()), Some(owner.clone()));
        assert_eq!(Owner::parse(&format!("{},1", owner.to_text())), None);
        assert_eq!(Owner::parse(""), None);
        assert!(owner.to_text().len() < 200, "it has to be a part of a file name");
    }

    proptest! {
        /// Names of files and answers of servers, whoever wrote them.
        #[test]
        fn whatever_reads_as_an_owner_is_written_as_it_was(text in "[a-z0-9.-]{0,5},[a-f0-9-]{0,5},[0-9]{1,11},[0-9]{1,21},-?[0-9]{1,20},[0-9a-f]{16}|\\PC{0,30}") {
            if let Some(owner) = Owner::parse(&text) {
                prop_assert_eq!(Owner::parse(&owner.to_text()), Some(owner));
            }
        }
    }

    /// What is certain: a process that ended, and one whose number has another process now.
    #[test]
    fn only_who_is_certainly_gone_is_gone() {
        let here = Owner::here();
        assert!(!here.is_gone(), "this process");
        assert!(Owner { started: here.started + 1, ..here.clone() }.is_gone(), "the number is another process's now");

        let mut child = Command::new("true").spawn().expect("a process");
        let process = child.id();
        child.wait().expect("its end");
        let ended = Owner { process, ..here.clone() };
        assert!(ended.is_gone(), "ended");
        assert!(!Owner { place: "another boot".into(), ..ended.clone() }.is_gone());
        assert!(!Owner { host: "another".into(), ..ended.clone() }.is_gone());
        assert!(!Owner { place: String::new(), ..ended }.is_gone());
        assert!(!Owner { process: 0, ..here }.is_gone());
    }
}
