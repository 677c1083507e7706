//! ACME: a certificate of a real CA (pebble), as a site with a public name has one, and what is left of it after a
//! restart and after a kill.

use super::Application;
use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::{Front, Stage, did, free_port};
use std::process::Command;
use std::time::{Duration, Instant};
use tidegate_testkit::pebble::{Options, Pebble};

pub const ACME: Application = Application {
    name: "acme",
    title: "pebble (Debian)",
    story: "a site gets its certificate, and has the same one after a restart and after kill -9",
    configuration: Configuration::File(include_str!("../../configurations/acme.kdl")),
    program: None,
    install,
    act,
};

const NAME: &str = "shop.example.com";
const WAIT: Duration = Duration::from_secs(60);

fn install(cache: &Cache) -> Result<(), String> {
    cache.debian("acme", &["pebble"])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let programs = stage.cache.root("acme").program("pebble")?.parent().map(std::path::Path::to_owned);
    let folder = stage.folder.join("pebble");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let ca = Pebble::start(&folder, Options { programs, ..Options::default() })?.ok_or("pebble is not installed")?;
    let port = free_port()?;
    stage.write("www/index.html", "the shop\n")?;
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]).current_dir(stage.folder.join("www"));
    let _server = stage.start_at("shop", port, &mut command)?;
    // The CA of the suite comes to ports of its own, and the name leads to this machine only there.
    let account = format!("email=\"ops@example.com\" http-port={} https-port={} preflight=#false", ca.http_port, ca.https_port);
    let mut front = stage.front(&[
        ("email=\"ops@example.com\"", &account),
        ("https://localhost:14000/dir", &ca.directory),
        ("/etc/pebble/root.pem", &ca.root.display().to_string()),
        (&format!("https://{NAME}"), &format!("https://{NAME}:{}", ca.https_port)),
        ("127.0.0.1:9000", &format!("127.0.0.1:{port}")),
    ])?;
    let root = stage.curl(&[&format!("https://{}/roots/0", ca.management())])?;
    let root = stage.write("root.pem", &root)?.display().to_string();
    let first = certificate(stage, &ca, &root)?;
    did("it has its certificate, which a client trusts");
    front.restart(stage, false)?;
    let second = certificate(stage, &ca, &root)?;
    front.restart(stage, true)?;
    let third = certificate(stage, &ca, &root)?;
    if first != second || first != third || ca.orders() != 1 {
        return Err(format!("another certificate after a restart, and {} orders", ca.orders()));
    }
    did("it has the same one after a restart and after kill -9");
    check(&front)
}

/// The certificate that a client is shown that trusts the CA's root and nothing else, as soon as there is one.
fn certificate(stage: &Stage<'_>, ca: &Pebble, root: &str) -> Result<String, String> {
    let begin = Instant::now();
    let (url, at) = (format!("https://{NAME}:{}/", ca.https_port), format!("{NAME}:{}:127.0.0.1", ca.https_port));
    loop {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "10", "--cacert", root, "--resolve", &at, "-w", "%{certs}", &url]);
        match stage.run(&mut curl) {
            Ok(said) if said.starts_with("the shop\n") && said.contains("BEGIN CERTIFICATE") => return Ok(said),
            outcome if begin.elapsed() > WAIT => return Err(format!("no certificate: {outcome:?}\n{}", ca.log())),
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn check(front: &Front) -> Result<(), String> {
    front.check(|_| false)
}
