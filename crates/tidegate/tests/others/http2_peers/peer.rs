//! A server of another's making that runs beside the proxy, and can be told something by a line on its standard input.

use crate::programs::wait_until_it_listens;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::ports::FORKING;

/// For an answer to what it was told; a restart waits for all streams.
const ANSWER_BOUND: Duration = Duration::from_secs(60);

/// Ends with its guard.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Peer {
    /// Starts a program that listens at `address`, whose port nobody has by now.
    pub fn start<A: AsRef<OsStr>>(program: &Path, arguments: &[A], address: SocketAddr) -> Peer {
        let mut command = Command::new(program);
        command.args(arguments);
        Peer::run(command, address)
    }

    pub fn run(mut command: Command, address: SocketAddr) -> Peer {
        let forking = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("it starts");
        drop(forking);
        let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody may ask any more.
                let _ = sender.send(line);
            }
        });
        let peer = Peer { child, input, lines };
        wait_until_it_listens(address).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        peer
    }

    pub fn ask(&mut self, question: &str) -> String {
        self.tell(question);
        self.lines.recv_timeout(ANSWER_BOUND).unwrap_or_else(|_| panic!("no answer to `{question}`"))
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it still runs");
    }

    /// For one that was told to end.
    pub fn wait_for_end(&mut self) {
        let begin = Instant::now();
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            assert!(begin.elapsed() < ANSWER_BOUND, "it still runs");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives up the port that `{upstream:name}` is, for a server that binds it itself.
pub fn free(places: &mut Places, name: &str) -> SocketAddr {
    places
        .upstream_listener(name, "127.0.0.1")
        .and_then(|listener| listener.local_addr().map_err(|error| error.to_string()))
        .expect("a port")
}
