//! Why an exchange between two processes failed. Whatever it says, nothing is lost: who has not heard that its sockets
//! were taken still has them. Faults of one single socket are `Unfit`, in `socket`.

use super::message::Malformed;
use std::fmt;
use std::io;

#[derive(Debug)]
pub enum Fault {
    /// The operating system refused.
    Io(io::Error),
    /// The peer did not answer in time.
    TimedOut,
    /// So many others wait for the peer that it takes nobody more now.
    Crowded,
    /// The peer closed the connection before the exchange was complete.
    Closed,
    /// The process behind the name belongs to another user, or asks as one.
    Stranger { uid: u32 },
    /// Who asks for everything is not the process that was spawned for it; `None` is a process of another PID
    /// namespace.
    NotSpawned { pid: Option<u32> },
    /// What arrived is no message.
    Malformed(Malformed),
    /// A message, but not one that may come now.
    Unexpected,
    /// More descriptors arrived than this process may have open.
    TooManyFiles,
    /// More sockets, addresses or bytes than one exchange carries.
    TooMuch { what: &'static str, max: usize },
    /// The peer says why it does not.
    Refused { reason: String },
}

impl Fault {
    /// What to do about it, if anybody can.
    fn help(&self) -> Option<&'static str> {
        match self {
            Fault::TooManyFiles => {
                Some("raise the limit of open files (LimitNOFILE= of the unit, `ulimit -n`): a handover needs twice the sockets")
            }
            Fault::Malformed(Malformed::Version(_)) => {
                Some("these two versions cannot hand over; stop the old process and start the new one")
            }
            Fault::Io(_) | Fault::TimedOut | Fault::Crowded | Fault::Closed | Fault::Malformed(_) => None,
            Fault::Stranger { .. }
            | Fault::NotSpawned { .. }
            | Fault::Unexpected
            | Fault::TooMuch { .. }
            | Fault::Refused { .. } => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(error) => write!(f, "the handover failed: {error}"),
            Fault::TimedOut => f.write_str("the other process did not answer in time"),
            Fault::Crowded => f.write_str("too many others wait for the other process"),
            Fault::Closed => f.write_str("the other process closed the connection before the handover was complete"),
            Fault::Stranger { uid } => write!(f, "the other process runs as user {uid}, and sockets stay with one user"),
            Fault::NotSpawned { pid: Some(pid) } => write!(f, "process {pid} asked for all sockets, and it is not the successor"),
            Fault::NotSpawned { pid: None } => f.write_str("a process of another PID namespace asked for all sockets"),
            Fault::Malformed(why) => write!(f, "the other process sent what is no message: {why}"),
            Fault::Unexpected => f.write_str("the other process sent a message that has no place here"),
            Fault::TooManyFiles => f.write_str("more sockets arrived than this process may have open files"),
            Fault::TooMuch { what, max } => write!(f, "a handover carries at most {max} {what}"),
            Fault::Refused { reason } => write!(f, "the other process refused: {reason}"),
        }?;
        self.help().map_or(Ok(()), |help| write!(f, "\n  help: {help}"))
    }
}

impl std::error::Error for Fault {}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}

impl From<rustix::io::Errno> for Fault {
    fn from(errno: rustix::io::Errno) -> Fault {
        Fault::Io(errno.into())
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Fault {
        Fault::Malformed(malformed)
    }
}
