//! Whether workers can run on rings here: what the driver uses is tried once, on a socket pair.

use super::kernel::{KernelQueue, build_ring};
use super::queue::{Completed, Operation, Owner, Queue, Returned, Wait};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::cell::Cell;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

/// A completion that does not come within this will not.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no ring, in a sentence without its full stop that says what to do where something can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    pub reason: String,
}

/// Tries a ring as a worker uses it, and whether there is memory for that many at once. One takes less than a
/// millisecond.
pub fn probe(workers: usize) -> Result<(), Unavailable> {
    if workers == 0 {
        return Ok(());
    }
    // In a thread of its own: a ring belongs to the thread that made it, and its last tasks end with that.
    let tried = std::thread::scope(|scope| scope.spawn(|| try_out(workers)).join());
    tried.unwrap_or_else(|_| Err(io::Error::other("the trial of the ring panicked"))).map_err(|error| explain(&error))
}

fn try_out(workers: usize) -> io::Result<()> {
    let mut queue = KernelQueue::new()?;
    let _others = (1..workers).map(|_| build_ring()).collect::<io::Result<Vec<_>>>()?;
    let (ours, mut theirs) = UnixStream::pair()?;
    let received = Rc::new(Trial { socket: ours.into(), bytes: Cell::new(0), fault: Cell::new(None) });
    // With and without a try before the wait.
    for (count, is_drained) in [(1, true), (2, false)] {
        queue.begin(received.clone(), Operation::Receive { is_drained });
        queue.enter(Wait::Not)?;
        theirs.write_all(b"x")?;
        queue.enter(Wait::AtMost(PATIENCE))?;
        while let Some((owner, completion)) = queue.next_completion() {
            owner.complete(&owner, completion, &mut queue);
        }
        if let Some(error) = received.fault.get() {
            return Err(error.into());
        }
        if received.bytes.get() != count {
            return Err(io::ErrorKind::Unsupported.into());
        }
    }
    Ok(())
}

struct Trial {
    socket: OwnedFd,
    bytes: Cell<usize>,
    fault: Cell<Option<Errno>>,
}

impl Owner for Trial {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn complete(&self, _this: &Rc<dyn Owner>, completion: Completed, _queue: &mut dyn Queue) {
        match completion.returned {
            Returned::Received(Ok(buf)) => self.bytes.set(self.bytes.get() + buf.len()),
            Returned::Received(Err(error)) => self.fault.set(Some(error)),
            // Cannot be: nothing else is begun.
            Returned::Sent(..) | Returned::Connected(_) | Returned::Accepted(_) | Returned::HasRoom(_) | Returned::Signalled => {}
        }
    }
}

fn explain(error: &io::Error) -> Unavailable {
    let reason = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) if disabled_by_setting() => {
            "the setting kernel.io_uring_disabled forbids rings (sysctl kernel.io_uring_disabled=0 allows them)".to_owned()
        }
        Some(Errno::PERM | Errno::ACCESS) => {
            "the process may not use io_uring; container engines forbid it unless their seccomp profile allows io_uring_setup, \
             io_uring_enter and io_uring_register"
                .to_owned()
        }
        Some(Errno::NOSYS) => "this kernel has no io_uring".to_owned(),
        Some(Errno::NOMEM) => "memory for a ring was refused (see `ulimit -l`, or LimitMEMLOCK of the unit)".to_owned(),
        Some(Errno::INVAL | Errno::OPNOTSUPP) | None if error.kind() != io::ErrorKind::Other => {
            "this kernel is too old for the rings that are needed (Linux 6.1 has them)".to_owned()
        }
        Some(_) | None => format!("a trial of a ring failed: {error}"),
    };
    Unavailable { reason }
}

/// 1: for processes without privileges, 2: for all (kernel documentation, admin-guide/sysctl/kernel).
fn disabled_by_setting() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    setting.is_ok_and(|setting| setting.trim() != "0")
}
