//! Go's `net/http` on both sides: 200 requests at a time with every body checked, cancelled ones, trailers, early
//! answers, servers that say GOAWAY in the middle of everything, and servers that take few streams.

use super::peer::{Peer, free};
use super::{Doors, PROGRAM, doors};
use crate::programs::{Said, find, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, thread};
use tidegate_testkit::Surroundings;
use tidegate_testkit::case::Places;
use tidegate_testkit::proxy::Proxy;

/// The peers in Go, built once from their sources in `go/`. None without a compiler, or without the modules they need.
pub fn peers() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    let go = find("go")?;
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/others/http2_peers/go");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(folder).expect("a folder");
    let program = folder.join("http2-peers");
    let mut command = Command::new(go);
    command.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").current_dir(sources).env_remove("GOFLAGS");
    let built = command.output().expect("it runs");
    if built.status.success() {
        return Some(program);
    }
    let text = String::from_utf8_lossy(&built.stderr);
    assert!(std::env::var_os("CI").is_none(), "the peers in Go cannot be built: {text}");
    println!("skipped: the peers in Go cannot be built: {text}");
    None
}

/// How the pool speaks with its servers.
#[derive(Debug, Clone, Copy)]
pub enum Behind {
    Http1,
    H2c,
    Tls,
}

impl Behind {
    /// The lines of a pool with servers at `{upstream:name}` for each name.
    pub fn pool(self, names: &[&str]) -> String {
        let (protocol, scheme) = match self {
            Behind::Http1 => ("http1", "http"),
            Behind::H2c => ("h2c", "http"),
            Behind::Tls => ("h2", "https"),
        };
        let server = |name: &&str| format!("server \"{scheme}://localhost:{{upstream:{name}}}\"; ");
        let servers: String = names.iter().map(server).collect();
        format!("{servers}protocol \"{protocol}\"")
    }

    /// What a server in Go is told of its TLS.
    pub fn certificate(self, places: &mut Places) -> Vec<String> {
        match self {
            Behind::Http1 | Behind::H2c => Vec::new(),
            Behind::Tls => ["-cert", "{cert:localhost:server}", "-key", "{key:localhost:server}"]
                .map(|text| places.fill(text).expect("a certificate"))
                .into(),
        }
    }
}

/// The proxy in front of servers in Go, and who asks it.
struct Setting {
    peers: &'static Path,
    proxy: Proxy,
    doors: Doors,
}

/// Servers with these names, and what is in front of them.
fn set_up(behind: Behind, names: &[&str], more: &[&str]) -> Option<(Vec<Peer>, Setting)> {
    let peers = peers()?;
    let mut places = Places::new().expect("a folder");
    let mut servers = Vec::new();
    for name in names {
        let address = free(&mut places, name);
        let mut arguments = vec!["serve".to_owned(), "-address".to_owned(), address.to_string()];
        arguments.extend(behind.certificate(&mut places));
        arguments.extend(more.iter().map(ToString::to_string));
        servers.push(Peer::start(peers, &arguments, address));
    }
    let config = super::CONFIG.replace("POOL", &behind.pool(names));
    let mut proxy = Proxy::start_in(places, PROGRAM, &config, &[], &Surroundings::default()).expect("it starts");
    let doors = doors(&mut proxy);
    Some((servers, Setting { peers, proxy, doors }))
}

impl Setting {
    /// Runs the client in Go by each protocol; all it did has to be right.
    fn check(&self, protocols: &[&str], arguments: &[&str]) {
        for protocol in protocols {
            let said = self.client(protocol, arguments);
            assert!(said.is_success, "{protocol} {arguments:?}: {}\n{}", said.text, self.told());
        }
    }

    fn client(&self, protocol: &str, arguments: &[&str]) -> Said {
        let url = if protocol == "h2" { &self.doors.secure } else { &self.doors.plain };
        let to = ["-protocol", protocol, "-url", url, "-ca", &self.doors.root];
        run(self.peers, &[arguments, &to].concat(), "")
    }

    fn told(&self) -> String {
        let log = fs::read_to_string(self.proxy.places.folder().join("access.log")).unwrap_or_default();
        let faults: Vec<&str> = log.lines().filter(|line| line.contains("\"reason\"")).take(20).collect();
        format!("{}\n{}", faults.join("\n"), self.proxy.program.output())
    }
}

#[test]
fn go_asks_go_for_everything_that_http_has() {
    for behind in [Behind::Http1, Behind::H2c, Behind::Tls] {
        let Some((mut servers, setting)) = set_up(behind, &["a"], &[]) else { return };
        println!("{behind:?}");
        setting.check(&["h2", "h2c", "http1"], &["ask"]);
        setting.check(&["h2", "h2c"], &["load", "-requests", "400"]);
        let begin = Instant::now();
        // Each of the three clients has given one up.
        while servers[0].ask("cancelled") != "3" {
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "{behind:?}: servers do not learn what was given up\n{}",
                setting.told()
            );
            thread::sleep(Duration::from_millis(50));
        }
        setting.proxy.wait_for_metric("tidegate_upstream_connections_active", 0.0).expect("no stream is left");
    }
}

/// Deployments: one server after the other is shut down as Go does it (GOAWAY, what it has is finished), and another
/// begins in its place. Beside that, each seventh answer ends its connection.
#[test]
fn no_request_is_lost_to_servers_that_say_goaway() {
    for behind in [Behind::H2c, Behind::Tls] {
        let Some((mut servers, setting)) = set_up(behind, &["a", "b"], &[]) else { return };
        let kinds = "small,small,head,empty,small,large,small,small,head,empty,small,large,small,small,head,empty,small,large,small,small,head,goaway";
        let said = thread::scope(|scope| {
            let load = scope.spawn(|| setting.client("h2", &["load", "-requests", "2000", "-parallel", "50", "-kinds", kinds]));
            let mut restarts = 0;
            while !load.is_finished() || restarts < 2 {
                assert_eq!(servers[restarts % 2].ask("restart"), "restarted");
                restarts += 1;
                thread::sleep(Duration::from_millis(100));
            }
            println!("{behind:?}: {restarts} restarts");
            load.join().expect("no panic")
        });
        assert!(said.is_success, "{behind:?}: {}\n{}", said.text, setting.told());
    }
}

/// A client of HTTP/2 sends its first requests before it knows how many streams the server takes; those above are
/// refused, and sent again, as long as their bodies are held (64 KiB).
#[test]
fn servers_that_take_few_streams_lose_no_request() {
    for (behind, streams) in [(Behind::H2c, "1"), (Behind::H2c, "10"), (Behind::Tls, "10")] {
        let Some((_servers, setting)) = set_up(behind, &["a"], &["-streams", streams]) else { return };
        setting.check(&["h2"], &["load", "-requests", "600", "-kinds", "small,form,empty,small,head"]);
        println!(
            "{behind:?}, {streams}: {}",
            setting.proxy.metrics().expect("metrics").lines_of("tidegate_upstream_connections")
        );
    }
}
