//! What a service manager wants to be told, and what it keeps for us: readiness, reloads, the main process, listening
//! sockets. Without one (no NOTIFY_SOCKET, no LISTEN_FDS) each call looks at the environment and does nothing. When
//! what is said is decided in `run`; how two processes of ours hand sockets to each other is `transport::handover`.

use crate::sockets::SocketTable;
use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use sd_notify::NotifyState;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// systemd's own bound for the name of a stored descriptor.
const NAME_BYTES_MAX: usize = 255;
/// The kernel's bound of descriptors in one message (`SCM_MAX_FD`).
const SOCKETS_PER_MESSAGE_MAX: usize = 253;
/// What a socket is called that came without a name, as systemd calls it.
const UNNAMED: &str = "unknown";

/// Connections are accepted; ends what [`notify_reloading`] began.
pub fn notify_ready() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Ready])
}

/// A configuration is about to be applied. `Type=notify-reload` compares the time with that of its signal.
pub fn notify_reloading() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Reloading, NotifyState::monotonic_usec_now()?])
}

/// The drain has begun.
pub fn notify_stopping() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Stopping])
}

/// Another process is the service from now on. systemd believes only the main process or those of its control group,
/// as `NotifyAccess=` says.
pub fn notify_main_pid(pid: u32) -> io::Result<()> {
    sd_notify::notify(&[NotifyState::MainPid(pid)])
}

/// We are alive; due once per [`watchdog_interval`].
pub fn notify_watchdog() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Watchdog])
}

/// How often to call [`notify_watchdog`]: half of what the service manager waits, as it recommends. None if it does not
/// wait for us.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|timeout| timeout / 2).filter(|interval| !interval.is_zero())
}

/// A service manager that cannot be told is no reason to stop.
pub(crate) fn warn_if_untold(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "systemd cannot be told");
    }
}

/// A copy of each listening socket with systemd, so that a crash loses no connection that waits to be accepted.
pub(crate) fn store_listeners(sockets: &SocketTable) {
    const NAME: &str = "listeners";
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    warn_if_untold(remove_stored(NAME));
    match sockets.duplicates() {
        Ok(sockets) => {
            let named: Vec<_> = sockets.iter().map(|(_, _, socket)| (NAME, socket.as_fd())).collect();
            warn_if_untold(store_sockets(&named));
        }
        Err(error) => tracing::warn!(%error, "the listening sockets are not stored with systemd"),
    }
}

/// Leaves sockets with the service manager, which hands them to the next start of this service, even after a crash. It
/// keeps as many as `FileDescriptorStoreMax=` says, and drops others without a word. Several may have one name; to
/// store one again changes nothing.
pub fn store_sockets(sockets: &[(&str, BorrowedFd<'_>)]) -> io::Result<()> {
    for (name, _) in sockets {
        check_name(name)?;
    }
    for of_one_name in sockets.chunk_by(|(one, _), (other, _)| one == other) {
        for some in of_one_name.chunks(SOCKETS_PER_MESSAGE_MAX) {
            let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(|(_, descriptor)| *descriptor).collect();
            // Without FDPOLL=0 a socket that reports an error is dropped from the store.
            let states = [NotifyState::FdStore, NotifyState::FdName(some[0].0), NotifyState::Custom("FDPOLL=0")];
            sd_notify::notify_with_fds(&states, &descriptors)?;
        }
    }
    Ok(())
}

/// Takes all sockets of a name out of the service manager's keeping.
pub fn remove_stored(name: &str) -> io::Result<()> {
    check_name(name)?;
    sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)])
}

/// Listening sockets that the service manager opened for us or kept since the last run, with their names. Non-blocking,
/// and closed on exec.
#[derive(Debug, Default)]
pub struct ActivationSockets {
    pub tcp: Vec<(String, TcpListener)>,
    pub unix: Vec<(String, UnixListener)>,
}

/// Takes what was given with LISTEN_FDS. What is no listening stream socket is closed, with a warning. It also takes
/// the variables out of the environment, so it must be called once, before any thread is started.
pub fn activation_sockets() -> ActivationSockets {
    let mut given = ListenFd::from_env();
    let mut sockets = ActivationSockets::default();
    if given.len() == 0 {
        return sockets;
    }
    let names = names(std::env::var("LISTEN_FDNAMES").ok().as_deref(), given.len());
    for (index, name) in names.into_iter().enumerate() {
        if let Ok(Some(listener)) = given.take_tcp_listener(index) {
            if is_usable(&listener, &name) && is_nonblocking(listener.set_nonblocking(true), &name) {
                sockets.tcp.push((name, listener));
            }
        } else if let Ok(Some(listener)) = given.take_unix_listener(index) {
            if is_usable(&listener, &name) && is_nonblocking(listener.set_nonblocking(true), &name) {
                sockets.unix.push((name, listener));
            }
        } else {
            // Taken as what it may be, it is closed; a descriptor that is no socket at all stays as it is.
            drop((given.take_udp_socket(index), given.take_unix_datagram(index)));
            refuse(&name, "it is no stream socket");
        }
    }
    sockets
}

fn is_usable(socket: impl AsFd, name: &str) -> bool {
    let listens = socket_acceptconn(socket).unwrap_or(false);
    if !listens {
        refuse(name, "it does not listen; a socket unit needs Accept=no");
    }
    listens
}

fn is_nonblocking(outcome: io::Result<()>, name: &str) -> bool {
    if let Err(error) = &outcome {
        refuse(name, &error.to_string());
    }
    outcome.is_ok()
}

fn refuse(name: &str, why: &str) {
    tracing::warn!(name, why, "a socket of the service manager cannot be used");
}

/// One name for each socket. A list of another length cannot be matched to them, so all of them are without a name
/// then.
fn names(list: Option<&str>, count: usize) -> Vec<String> {
    let names: Vec<String> = list.unwrap_or_default().split(':').map(str::to_owned).collect();
    if list.is_some() && names.len() == count { names } else { vec![UNNAMED.to_owned(); count] }
}

/// As systemd checks it, which would otherwise store the socket without its name.
fn check_name(name: &str) -> io::Result<()> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    if fits && name.bytes().all(|byte| (b' '..0x7f).contains(&byte) && byte != b':') {
        return Ok(());
    }
    let text = format!(
        "a stored socket cannot be called {name:?}: names have 1 to {NAME_BYTES_MAX} printable ASCII characters and no colon"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(test)]
mod tests {
    use super::{
        ActivationSockets, NAME_BYTES_MAX, activation_sockets, check_name, names, notify_main_pid, notify_ready,
        notify_reloading, notify_stopping, notify_watchdog, remove_stored, store_sockets, watchdog_interval,
    };
    use rustix::fd::OwnedFd;
    use rustix::io::FdFlags;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    use std::io::IoSliceMut;
    use std::mem::MaybeUninit;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::{UnixDatagram, UnixListener};
    use std::process::Command;
    use std::time::Duration;

    const CALL: &str = "TIDEGATE_TEST_CALL";
    const EXPECTED: &str = "TIDEGATE_TEST_EXPECTED";
    const NOW: &str = "MONOTONIC_USEC=now\n";
    /// Above what anything else in this process has open, so that duplicates get numbers in sequence, and below the
    /// usual limit.
    const FIRST_DESCRIPTOR: i32 = 900;

    /// The environment belongs to a whole process, so each case is a process of its own: this program, told to run
    /// `service` only.
    fn service_process(call: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "systemd::tests::service", "--ignored", "--nocapture"]).env(CALL, call);
        for variable in ["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(mut command: Command) {
        let output = command.output().expect("a process");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        // Else this program does not know the test by that name, and nothing was tried.
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{command:?} ran no test");
    }

    #[test]
    #[ignore = "the tests beside it run it as a process of its own, since what it changes is the environment of the process"]
    fn service() {
        let listener = || TcpListener::bind("127.0.0.1:0").expect("a listening socket");
        // Nobody has started us for a case: all ignored tests are being run.
        let Ok(call) = std::env::var(CALL) else { return };
        match call.as_str() {
            "ready" => notify_ready(),
            "reloading" => notify_reloading(),
            "stopping" => notify_stopping(),
            "main pid" => notify_main_pid(42),
            "watchdog" => notify_watchdog(),
            "store" => {
                let (one, two, other) = (listener(), listener(), listener());
                store_sockets(&[("https", one.as_fd()), ("https", two.as_fd()), ("http", other.as_fd())])
            }
            "store many" => {
                let one = listener();
                store_sockets(&vec![("https", one.as_fd()); 300])
            }
            "store nonsense" => {
                let one = listener();
                store_sockets(&[("https", one.as_fd()), ("a:b", one.as_fd())]).expect_err("a colon");
                Ok(())
            }
            "remove" => remove_stored("https"),
            "sockets" => {
                assert_eq!(described(&activation_sockets()), std::env::var(EXPECTED).expect("an expectation"));
                assert_eq!(described(&activation_sockets()), "", "taken twice");
                Ok(())
            }
            "watchdog interval" => {
                assert_eq!(format!("{:?}", watchdog_interval()), std::env::var(EXPECTED).expect("an expectation"));
                Ok(())
            }
            call => panic!("there is no call {call}"),
        }
        .expect("a service manager that listens");
    }

    /// Names with addresses, after a look at what a worker needs of them.
    fn described(sockets: &ActivationSockets) -> String {
        let mut lines = Vec::new();
        for (name, listener) in &sockets.tcp {
            assert!(rustix::io::fcntl_getfd(listener).expect("flags").contains(FdFlags::CLOEXEC));
            assert_eq!(listener.accept().expect_err("nobody waits").kind(), std::io::ErrorKind::WouldBlock);
            lines.push(format!("{name}={}", listener.local_addr().expect("an address")));
        }
        for (name, listener) in &sockets.unix {
            lines.push(format!("{name}={}", listener.local_addr().expect("an address").as_pathname().expect("a path").display()));
        }
        lines.join(" ")
    }

    /// One message and how many descriptors came with it.
    fn received(manager: &UnixDatagram) -> (String, usize) {
        let mut text = vec![0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut attached = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let read = recvmsg(manager, &mut [IoSliceMut::new(&mut text)], &mut attached, flags).expect("a message");
        let count = |message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.count(),
            _ => 0,
        };
        let descriptors = attached.drain().map(count).sum();
        (String::from_utf8(text[..read.bytes].to_vec()).expect("text"), descriptors)
    }

    /// What the service manager hears when a service calls one of these functions, with [`NOW`] for the time.
    fn check_heard(call: &str, expected: &[(&str, usize)]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a notification socket");
        let mut command = service_process(call);
        command.env("NOTIFY_SOCKET", &path);
        run(command);
        for (text, descriptors) in expected {
            let (heard, attached) = received(&manager);
            let heard: String = heard.split_inclusive('\n').map(|line| if is_time(line) { NOW } else { line }).collect();
            assert_eq!((heard.as_str(), attached), (*text, *descriptors), "{call}");
        }
        manager.set_nonblocking(true).expect("non-blocking");
        manager.recv(&mut [0]).expect_err("one message more");

        // Nobody listens, and nobody is told.
        run(service_process(call));
    }

    fn is_time(line: &str) -> bool {
        line.strip_prefix("MONOTONIC_USEC=").is_some_and(|time| time.trim_end().parse::<u64>().is_ok_and(|time| time > 0))
    }

    #[test]
    fn systemd_is_told() {
        check_heard("ready", &[("READY=1\n", 0)]);
        check_heard("reloading", &[(&format!("RELOADING=1\n{NOW}"), 0)]);
        check_heard("stopping", &[("STOPPING=1\n", 0)]);
        check_heard("main pid", &[("MAINPID=42\n", 0)]);
        check_heard("watchdog", &[("WATCHDOG=1\n", 0)]);
    }

    #[test]
    fn sockets_are_left_with_systemd() {
        let https = "FDSTORE=1\nFDNAME=https\nFDPOLL=0\n";
        check_heard("store", &[(https, 2), (&https.replace("https", "http"), 1)]);
        check_heard("store many", &[(https, 253), (https, 47)]);
        check_heard("store nonsense", &[]);
        check_heard("remove", &[("FDSTOREREMOVE=1\nFDNAME=https\n", 0)]);
    }

    #[test]
    fn the_watchdog_is_served_twice_as_often_as_it_waits() {
        fn check(microseconds: Option<&str>, pid: Option<&str>, expected: Option<Duration>) {
            let mut command = service_process("watchdog interval");
            command.env(EXPECTED, format!("{expected:?}"));
            command.envs(microseconds.map(|value| ("WATCHDOG_USEC", value)));
            command.envs(pid.map(|value| ("WATCHDOG_PID", value)));
            run(command);
        }
        check(Some("3000000"), None, Some(Duration::from_millis(1500)));
        check(Some("3000000"), Some("1"), None);
        check(Some("0"), None, None);
        check(Some("soon"), None, None);
        check(None, None, None);
    }

    /// A service that is started with these descriptors, in sequence.
    fn check_activated(descriptors: &[&dyn AsFd], names: Option<&str>, expected: &str) {
        let inherited: Vec<OwnedFd> = descriptors
            .iter()
            .map(|descriptor| rustix::io::fcntl_dupfd_cloexec(descriptor.as_fd(), FIRST_DESCRIPTOR).expect("a duplicate"))
            .collect();
        for (descriptor, number) in inherited.iter().zip(FIRST_DESCRIPTOR..) {
            assert_eq!(descriptor.as_raw_fd(), number, "somebody else has a descriptor of this test");
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty()).expect("an inherited descriptor");
        }
        let mut command = service_process("sockets");
        command.env("LISTEN_FDS", inherited.len().to_string()).env("LISTEN_FDS_FIRST_FD", FIRST_DESCRIPTOR.to_string());
        command.envs(names.map(|names| ("LISTEN_FDNAMES", names))).env(EXPECTED, expected);
        run(command);
    }

    #[test]
    fn sockets_of_systemd_are_taken_with_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.sock");
        let (v4, v6) = (TcpListener::bind("127.0.0.1:0").expect("a socket"), TcpListener::bind("[::1]:0").expect("a socket"));
        let unix = UnixListener::bind(&path).expect("a socket");
        let (v4_is, v6_is) = (v4.local_addr().expect("an address"), v6.local_addr().expect("an address"));
        let unix_is = path.display();
        check_activated(&[], None, "");
        check_activated(&[&v4, &v6], Some("http:https"), &format!("http={v4_is} https={v6_is}"));
        check_activated(&[&v4, &unix, &v6], Some("a:b:a"), &format!("a={v4_is} a={v6_is} b={unix_is}"));
        check_activated(&[&v4], None, &format!("unknown={v4_is}"));
        check_activated(&[&v4, &v6], Some("http"), &format!("unknown={v4_is} unknown={v6_is}"));

        // What is no listening stream socket is left out, and the others keep their names.
        let other = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let stream = TcpStream::connect(other.local_addr().expect("an address")).expect("a connection");
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let file = tempfile::tempfile().expect("a file");
        check_activated(&[&stream, &datagrams, &file, &v4], Some("a:b:c:d"), &format!("d={v4_is}"));
        // Without the variables nothing is taken.
        let mut command = service_process("sockets");
        command.env(EXPECTED, "");
        run(command);
    }

    #[test]
    fn names_belong_to_sockets_one_by_one() {
        fn check(list: Option<&str>, count: usize, expected: &[&str]) {
            assert_eq!(names(list, count), expected, "{list:?}");
        }
        check(Some("a:b"), 2, &["a", "b"]);
        check(Some("a::c"), 3, &["a", "", "c"]);
        check(Some(""), 1, &[""]);
        check(Some("a:b"), 3, &["unknown", "unknown", "unknown"]);
        check(None, 1, &["unknown"]);
    }

    #[test]
    fn names_are_those_that_systemd_takes() {
        fn check(name: &str, taken: bool) {
            assert_eq!(check_name(name).is_ok(), taken, "{name:?}");
        }
        check("https-worker 3", true);
        check(&"a".repeat(NAME_BYTES_MAX), true);
        check(&"a".repeat(NAME_BYTES_MAX + 1), false);
        check("", false);
        check("[::]:443", false);
        check("a\nREADY=1", false);
        check("é", false);
    }
}
