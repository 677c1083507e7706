//! Upstream servers that are processes: they can be terminated, killed, started again on the same port, and they
//! misbehave as they were told to when they were started. Upstreams that share the test's process are in `upstream`;
//! what the process itself does is in `serve`.
//!
//! The process is the test's own binary once more, with nothing but the test [`PROCESS_TEST`], which has to call
//! [`serve_if_asked`].

mod serve;

pub use serve::serve_if_asked;

use crate::admin;
use crate::control_plane::Image;
use crate::ports::Reservation;
use crate::program::{Program, Surroundings};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The test that every module with such servers has; in a binary with several of them, the first one to run is the
/// process.
pub const PROCESS_TEST: &str = "this_file_is_also_an_upstream_server";
/// What containers of such servers have for an image.
pub const IMAGE: &str = "testkit/server";
/// What the process is told by its parent.
const ENVIRONMENT: &str = "TESTKIT_SERVER";
/// A process that was told to end has ended by then, however busy the machine.
const END_BOUND: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The body of its answers.
    pub name: String,
    pub conduct: Conduct,
    /// HTTP/2 without TLS, by prior knowledge.
    pub h2c: bool,
    /// How long it takes from its start until it listens.
    pub start_pause: Duration,
    /// Before each answer.
    pub delay: Duration,
    /// Requests that it works on at a time; others wait.
    pub at_once: usize,
    /// Closes a connection on which no further request comes for this long.
    pub idle_close: Option<Duration>,
}

impl Settings {
    pub fn new(name: &str) -> Settings {
        Settings {
            name: name.to_owned(),
            conduct: Conduct::Honest,
            h2c: false,
            start_pause: Duration::ZERO,
            delay: Duration::ZERO,
            at_once: 1 << 20,
            idle_close: None,
        }
    }
}

/// The image that stands for such a server in a cluster; what its container has to be told is [`told_to`].
pub fn image() -> Result<Image, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let arguments = [PROCESS_TEST, "--nocapture", "--test-threads=1"].map(str::to_owned).into();
    Ok(Image { name: IMAGE.to_owned(), program, arguments })
}

/// What it does with requests. `/healthz` is answered with 200 by all but the one that hangs, and `/seen` by all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    /// 200 with its name, or what `upstream::PathOrder` understands.
    Honest,
    /// 500 with its name.
    Fails,
    /// No answer.
    Hangs,
    /// A body that comes in small pieces and never ends.
    Drips,
    /// A Content-Length beyond what it sends, and then the end.
    TooShort,
    /// More bytes than its Content-Length says.
    TooLong,
    /// Reads the request and resets the connection.
    Resets,
}

impl Conduct {
    const ALL: [(&'static str, Conduct); 7] = [
        ("honest", Conduct::Honest),
        ("fails", Conduct::Fails),
        ("hangs", Conduct::Hangs),
        ("drips", Conduct::Drips),
        ("too-short", Conduct::TooShort),
        ("too-long", Conduct::TooLong),
        ("resets", Conduct::Resets),
    ];
}

/// The variable by which a process is told to be a server.
pub fn told_to(address: SocketAddr, settings: &Settings) -> (&'static str, String) {
    (ENVIRONMENT, serve::told(address, settings))
}

/// What a process has seen since it was started, or since this was last asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Without those that ask for this.
    pub requests: u64,
    /// The most that were there at a time.
    pub requests_at_once: u64,
    pub connections: u64,
}

/// A server at one address, whose process comes and goes. Dropping it kills the process.
#[derive(Debug)]
pub struct Server {
    pub settings: Settings,
    address: SocketAddr,
    /// Kept for whoever comes next at this port.
    port: Arc<Reservation>,
    process: Option<Program>,
}

impl Server {
    /// On a port of its own; it listens when this returns.
    pub fn start(settings: Settings) -> Result<Server, String> {
        Server::start_at(settings, [127, 0, 0, 1])
    }

    /// On a port of its own, at another address of this machine.
    pub fn start_at(settings: Settings, ip: [u8; 4]) -> Result<Server, String> {
        let port = Arc::new(Reservation::shared().map_err(|error| error.to_string())?);
        let address = SocketAddr::from((ip, port.port()));
        let mut server = Server { settings, address, port, process: None };
        server.start_again()?;
        Ok(server)
    }

    /// On the port of another one, at another address of this machine.
    pub fn start_beside(settings: Settings, other: &Server, ip: [u8; 4]) -> Result<Server, String> {
        let address = SocketAddr::from((ip, other.address.port()));
        let mut server = Server { settings, address, port: other.port.clone(), process: None };
        server.start_again()?;
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new process with the settings as they are now; it listens when this returns.
    pub fn start_again(&mut self) -> Result<(), String> {
        self.kill();
        let binary = std::env::current_exe().map_err(|error| error.to_string())?;
        let arguments = [PROCESS_TEST, "--nocapture", "--test-threads=1"].map(str::to_owned);
        let environment = vec![told_to(self.address, &self.settings)];
        let surroundings = Surroundings { environment, ..Surroundings::default() };
        let process = self.process.insert(Program::start_in(&binary, &arguments, Path::new("/"), &surroundings)?);
        let address = self.address;
        process.wait_until("listening", || TcpStream::connect(address).is_ok())
    }

    /// Goes on with other settings.
    pub fn become_like(&mut self, settings: Settings) -> Result<(), String> {
        self.settings = settings;
        self.start_again()
    }

    /// SIGTERM: it answers what it has, closes what is idle and ends.
    pub fn terminate(&mut self) -> Result<(), String> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.signal("TERM")?;
        match process.wait_exit(END_BOUND)? {
            0 => Ok(()),
            code => Err(format!("the server ended with {code}\n{}", process.output())),
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Asks the process what it has seen, which it forgets by that. HTTP/1.1 servers only.
    pub fn seen(&self) -> Result<Seen, String> {
        let (_, text) = admin::get(&self.address.to_string(), serve::SEEN_PATH)?;
        serve::read_seen(&text).ok_or_else(|| format!("{text:?} says nothing"))
    }
}
