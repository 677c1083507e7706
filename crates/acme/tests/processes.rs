//! Real processes: killed in the middle and started again, and two of them over one storage. The child is this test
//! program itself.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the line that did")]

mod support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use support::{Answers, PATIENCE, World, quick, wanted};
use tidegate_acme::{News, Parts, start};
use tidegate_model::{Acme, AcmeAuthority, AcmeChallenge, AcmeDns, DnsProvider, Storage};
use tidegate_testkit::pebble::Options;

const CHILD: &str = "TIDEGATE_ACME_TEST_CHILD";

/// Not a test of its own: what the processes of the others do. It says `issued NAME` and `read NAME`, and `all` at the
/// end.
#[test]
fn child() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let settings: Value = serde_json::from_str(&text).unwrap();
    let text = |key: &str| settings[key].as_str().map(str::to_owned);
    let port = |key: &str| settings[key].as_u64().unwrap() as u16;
    let answers = std::sync::Arc::new(Answers::default());
    let dns = text("hook").map(|command| AcmeDns {
        provider: DnsProvider::Exec { command: command.into() },
        propagation: Duration::from_secs(30),
        resolver: text("resolver").map(|resolver| resolver.parse().unwrap()),
    });
    if dns.is_none() {
        answers.serve(port("http_port"), port("https_port"));
    }
    let acme = Acme {
        authorities: vec![AcmeAuthority {
            name: "pebble".into(),
            directory: text("directory").unwrap(),
            staging: None,
            external_account: None,
            root: text("root").map(Into::into),
        }],
        challenges: vec![if dns.is_some() { AcmeChallenge::Dns01 } else { AcmeChallenge::Http01 }],
        dns,
        http_port: port("http_port"),
        https_port: port("https_port"),
        preflight: false,
        ..Acme::default()
    };
    let (to, news) = channel();
    let parts = Parts {
        storage: Storage::Folder(text("storage").unwrap().into()),
        state_dir: text("storage").unwrap().into(),
        publish: Box::new(move |change| answers.change(change)),
        news: Box::new(move |one| {
            let _ = to.send(one);
        }),
        timing: quick(),
    };
    let issuing = start(parts).unwrap();
    let names: Vec<String> = settings["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(issuing.want(names.iter().map(|name| wanted(name, &acme)).collect(), Vec::new()));
    let mut missing: std::collections::HashSet<String> = names.into_iter().collect();
    while !missing.is_empty() {
        match news.recv_timeout(PATIENCE).unwrap() {
            News::Certificate(certificate) => {
                println!("\n{} {} {}", if certificate.is_new { "issued" } else { "read" }, certificate.name, certificate.serial);
                missing.remove(&certificate.name);
            }
            News::Failed { name, fault } => println!("\nfailed {name}: {}; {}", fault.cause, fault.remedy),
            other => println!("\n{other:?}"),
        }
    }
    println!("\nall");
}

struct Process {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Process {
    fn start(settings: &Value) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(CHILD, settings.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (to, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        Process { child, lines }
    }

    /// SIGKILL: nothing of it runs any more.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// All that it said.
    fn finish(mut self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        let mut all = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            all.push(line);
        }
        let _ = self.child.kill();
        self.child.wait().unwrap();
        assert!(all.iter().any(|line| line == "all"), "{all:#?}");
        all
    }
}

fn settings(world: &World, names: &[&str]) -> Value {
    json!({
        "directory": world.pebble.directory,
        "root": world.pebble.root,
        "http_port": world.pebble.http_port,
        "https_port": world.pebble.https_port,
        "storage": world.storage(),
        "names": names,
    })
}

#[test]
fn whenever_it_is_killed_nothing_is_lost_and_nothing_is_issued_twice() {
    // Where in an order the process is when it is killed, by what the CA has seen of it; the last ones are after the
    // certificate was issued.
    let stages =
        ["/nonce-plz", "/order-plz", "/authZ/", "/chalZ/", "/my-order/", "/finalize-order/", "Issued certificate", "/certZ/"];
    for stage in stages {
        let Some(world) = World::without_answers(Options { authorisations_reused: 0, ..Options::default() }) else { return };
        let settings = settings(&world, &["a.example", "b.example", "c.example"]);
        let process = Process::start(&settings);
        let deadline = Instant::now() + PATIENCE;
        while world.pebble.requests(stage) == 0 {
            assert!(Instant::now() < deadline, "{stage}: {}", world.pebble.log());
            thread::sleep(Duration::from_millis(1));
        }
        process.kill();
        let (orders_before, issued_before) = (world.pebble.orders(), world.pebble.issued());
        let said = Process::start(&settings).finish();
        assert_eq!(world.pebble.issued(), 3, "{stage}: issued {issued_before} before; {said:#?}");
        // An order that the CA has made and whose address never reached the disk is the only one that may be made
        // again; CAs that see the same account ask for the same name give the same order.
        assert!(world.pebble.orders() <= orders_before + 3, "{stage}: {orders_before} {} {said:#?}", world.pebble.orders());
        assert!(world.pebble.requests("/finalize-order/") >= 3);
        let left = world.files("acme/certificates").into_iter().filter(|file| file.ends_with("order.json")).count();
        assert_eq!(left, 0, "{stage}");
        // A third start finds all of it.
        let said = Process::start(&settings).finish();
        assert_eq!(said.iter().filter(|line| line.starts_with("read ")).count(), 3, "{said:#?}");
        assert_eq!(world.pebble.issued(), 3, "{stage}");
    }
}

#[test]
fn two_processes_over_one_storage_make_one_order() {
    let Some(world) = World::new(Options::default()) else { return };
    let dns = world.acme_with_dns().dns.unwrap();
    let DnsProvider::Exec { command } = dns.provider else { return };
    let mut settings = settings(&world, &["a.example", "b.example", "c.example"]);
    settings["hook"] = json!(command);
    settings["resolver"] = json!(world.pebble.dns.to_string());
    let (one, other) = (Process::start(&settings), Process::start(&settings));
    let (one, other) = (one.finish(), other.finish());
    let count = |lines: &[String], what: &str| lines.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((world.pebble.orders(), world.pebble.issued()), (3, 3), "{one:#?} {other:#?}");
    assert_eq!(count(&one, "issued ") + count(&other, "issued "), 3);
    assert_eq!(count(&one, "read ") + count(&other, "read "), 3);
    assert_eq!(world.files("acme/accounts").len(), 1);
}
