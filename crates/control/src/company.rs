//! With whom an address is shared. The kernel lets every process of a user listen where one that shares listens, and
//! spreads connections over both: right for processes of one configuration, and a mistake that nobody sees for others.
//! Which processes run a configuration is told by [`Presence`]; which of them listens where, by `open_sockets`.

use crate::open_sockets::{listening_on, sockets_of};
use crate::source::Source;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use tidegate_model::ListenAddress;
use tidegate_transport::handover::{Presence, Present, present};

/// With whom this process shares its addresses.
#[derive(Debug, Default)]
pub(crate) struct Company {
    /// `None` where the system has no names for it: then nobody is told from others.
    presence: Option<Presence>,
    takes_anybody: bool,
}

impl Company {
    /// Others know from here on what this process runs.
    pub fn of(source: &Source, takes_anybody: bool) -> Company {
        let presence = Presence::announce(source.mark())
            .inspect_err(|error| tracing::debug!(%error, "other processes are not told which configuration this one runs"));
        Company { presence: presence.ok(), takes_anybody }
    }

    /// Whether an address may be shared with those who listen there. Where they cannot be told apart it may.
    pub fn admits(&self) -> bool {
        let Some(presence) = &self.presence else { return true };
        self.takes_anybody || presence.others().map_or(true, |others| !others.is_empty())
    }
}

/// Whether all that listens there are sockets of this process: workers close those that a change has left a moment
/// later.
pub(crate) fn is_ours_alone(address: ListenAddress) -> bool {
    let ours = || -> io::Result<bool> {
        let own = sockets_of(Path::new("/proc/self/fd"))?;
        let listening = listening_on(address)?;
        Ok(!listening.is_empty() && listening.iter().all(|inode| own.contains(inode)))
    };
    ours().unwrap_or(false)
}

/// Whose a socket is that listens on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A process's that runs the configuration.
    Own,
    /// Perhaps such a process's: this user may not see what it has open.
    Unknown,
    Another,
}

/// The processes that run a configuration.
#[derive(Debug, Default)]
pub(crate) struct Running(Vec<Present>);

impl Running {
    pub fn of(source: &Source) -> Running {
        Running(present(source.mark()).unwrap_or_default())
    }

    /// Whose the sockets are that listen there.
    pub fn whose(&self, address: ListenAddress) -> Whose {
        if self.0.is_empty() {
            return Whose::Another;
        }
        let Ok(listening) = listening_on(address) else { return Whose::Unknown };
        let seen: Vec<Whose> = self.0.iter().map(|process| whose(process, &listening)).collect();
        let is_any = |whose: Whose| seen.contains(&whose);
        [Whose::Own, Whose::Unknown].into_iter().find(|whose| is_any(*whose)).unwrap_or(Whose::Another)
    }

    pub fn has_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether one of them is of this user: who shares an address with this process is.
    pub fn has_own_user(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.0.iter().any(|process| process.uid == own)
    }

    pub fn pids(&self) -> Vec<u32> {
        self.0.iter().map(|process| process.pid).collect()
    }

    /// As a sentence names them.
    pub fn shown(&self) -> String {
        let pids: Vec<String> = self.0.iter().map(|process| process.pid.to_string()).collect();
        match pids.as_slice() {
            [one] => format!("process {one}"),
            several => format!("one of the processes {}", several.join(", ")),
        }
    }
}

fn whose(process: &Present, listening: &HashSet<u64>) -> Whose {
    // In another namespace the number is another process's, who does not have the socket that bears the name.
    match sockets_of(&PathBuf::from(format!("/proc/{}/fd", process.pid))) {
        Ok(open) if open.contains(&process.inode) => {
            if open.is_disjoint(listening) {
                Whose::Another
            } else {
                Whose::Own
            }
        }
        Ok(_) | Err(_) => Whose::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::{Company, Running, Whose, is_ours_alone};
    use crate::bind::bind_one;
    use crate::source::Source;

    fn source(text: &str) -> Source {
        // Other runs of this test are none of these processes.
        let text = format!("{text} of {}", std::process::id());
        Source::Text { name: "test".into(), text, directory: "/".into() }
    }

    #[test]
    fn who_listens_is_found_by_what_processes_have_open() {
        let socket = bind_one("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = socket.local_addr().expect("an address").into();
        assert!(is_ours_alone(address));

        let (own, other) = (source("own"), source("other"));
        assert_eq!(Running::of(&own).whose(address), Whose::Another, "nobody runs it");
        let company = Company::of(&own, false);
        assert_eq!(Running::of(&own).whose(address), Whose::Own);
        assert!(Running::of(&own).has_own_user() && !Running::of(&other).has_own_user());
        assert_eq!(Running::of(&own).shown(), format!("process {}", std::process::id()));
        assert_eq!(Running::of(&other).whose(address), Whose::Another);
        drop(socket);
        assert_eq!(Running::of(&own).whose(address), Whose::Another, "it runs, and does not listen there");
        assert!(!is_ours_alone(address), "nobody listens");
        drop(company);
    }

    #[test]
    fn an_address_is_shared_with_processes_of_the_same_configuration() {
        let (own, other) = (source("first"), source("second"));
        let first = Company::of(&own, false);
        assert!(!first.admits(), "who listens there is none of ours");
        let stranger = Company::of(&other, false);
        assert!(!first.admits());
        let second = Company::of(&own, false);
        assert!(first.admits() && second.admits());
        drop(second);
        assert!(!first.admits() && !stranger.admits());
        assert!(Company::of(&other, true).admits(), "it was told to share");
        assert!(Company::default().admits(), "processes cannot be told apart");
    }
}
