//! OCSP stapling as clients see it: the real program, a responder that answers with what OpenSSL signs, and `openssl
//! s_client` that shows what came. Which answers are believed is tested in `crates/ocsp`. Skipped where there is no
//! `openssl`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_testkit::case::Places;
use tidegate_testkit::responder::{Issued, Key, Leaf, Manner, Responder, ResponderAuthority, Signer, installed};
use tidegate_testkit::{Proxy, Surroundings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const HEAD: &str = "access-log \"off\"\nadmin \"127.0.0.1:{admin}\"\nthreads 2\nacme \"off\"\n";

struct World {
    folder: TempDir,
    authority: Arc<ResponderAuthority>,
}

impl World {
    fn new(key: Key) -> World {
        let folder = TempDir::new().expect("a folder");
        let authority = Arc::new(ResponderAuthority::new(folder.path(), "authority", key).expect("an authority"));
        World { folder, authority }
    }

    fn answers(&self, signer: Signer) -> Manner {
        Manner::Answers(self.authority.clone(), signer)
    }

    fn issue(&self, name: &str, responder: &str, must_staple: bool) -> Issued {
        let leaf = Leaf { responder: Some(responder.to_owned()), must_staple };
        self.authority.issue(name, &leaf).expect("a certificate")
    }

    /// What a client sees that asks for a staple: the certificate's standing, or `None` without one.
    fn seen(&self, proxy: &Proxy, name: &str, version: &str) -> Option<String> {
        let output = Command::new("openssl")
            .args(["s_client", "-status", "-verify_return_error", "-connect", &proxy.address.to_string(), "-servername", name])
            .args([version, "-CAfile"])
            .arg(self.authority.root())
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("Verify return code: 0 (ok)"), "{name} {version}: {said}");
        if said.contains("OCSP response: no response sent") {
            return None;
        }
        let standing = said.lines().find_map(|line| line.trim().strip_prefix("Cert Status: "));
        Some(standing.unwrap_or_else(|| panic!("no standing: {said}")).to_owned())
    }
}

fn site(name: &str, issued: &Issued, children: &str) -> String {
    let (cert, key) = (issued.chain.display(), issued.key.display());
    format!(
        "site \"https://{name}:{{port}}\" {{ tls cert=\"{cert}\" key=\"{key}\" {{ {children} }}; respond 200 body=\"BODY\" }}\n"
    )
}

fn start(sites: &[String]) -> Proxy {
    let config = format!("{HEAD}{}", sites.concat());
    let surroundings = Surroundings::default();
    Proxy::start_in(Places::new().expect("a folder"), PROGRAM, &config, &[], &surroundings).expect("the proxy starts")
}

fn tidegate(proxy: &Proxy, arguments: &[&str]) -> String {
    let (config, state) = (proxy.places.config_file(), proxy.places.folder().join("state"));
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--config").arg(config).env("STATE_DIRECTORY", state);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn replace(from: &Path, to: &Path) {
    let beside = to.with_extension("new");
    fs::copy(from, &beside).expect("copied");
    fs::rename(beside, to).expect("renamed");
}

const STAPLED: &str = "tidegate_ocsp_certificates{state=\"stapled\"}";
const FAILED: &str = "tidegate_ocsp_requests_total{result=\"failed\"}";

#[test]
fn a_staple_comes_by_itself_and_outlives_reloads() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    let responder = Responder::start(world.answers(Signer::Delegate)).expect("a responder");
    // One that is asked by GET, one whose URL is too long for it.
    let one = world.issue("a.example", &responder.url, true);
    let long = world.issue("b.example", &format!("{}/{}", responder.url, "a".repeat(200)), false);
    let plain = world.authority.issue("c.example", &Leaf::default()).expect("a certificate");
    let sites = |body: &str| {
        let sites = [
            site("a.example", &one, ""),
            site("again.a.example", &one, ""),
            site("off.a.example", &one, "ocsp-stapling #false"),
            site("b.example", &long, ""),
            site("c.example", &plain, ""),
        ];
        sites.map(|site| site.replace("BODY", body))
    };
    let mut proxy = start(&sites("first"));
    proxy.wait_for_metric(STAPLED, 2.0).expect("two are asked about");
    for version in ["-tls1_2", "-tls1_3"] {
        for name in ["a.example", "again.a.example", "b.example"] {
            assert_eq!(world.seen(&proxy, name, version).as_deref(), Some("good"), "{name} {version}");
        }
        assert_eq!(world.seen(&proxy, "off.a.example", version), None);
        assert_eq!(world.seen(&proxy, "c.example", version), None);
    }
    assert_eq!(responder.asked(), 2);
    let shown = tidegate(&proxy, &["cert", "show", "b.example"]);
    assert!(shown.contains("stapled until"), "{shown}");
    proxy.wait_for_log("browsers refuse this certificate without a stapled answer").expect("of the site that has it off");
    assert!(tidegate(&proxy, &["cert", "list"]).contains("`ocsp-stapling #false` turned stapling off"));
    // Over a change, nobody is asked again.
    proxy.apply(&format!("{HEAD}{}", sites("second").concat())).expect("applied");
    assert_eq!(world.seen(&proxy, "a.example", "-tls1_3").as_deref(), Some("good"));
    assert_eq!(responder.asked(), 2);
    // A certificate that is renewed on disk has a staple of its own.
    let next = world.issue("next.example", &responder.url, false);
    replace(&next.key, &one.key);
    replace(&next.chain, &one.chain);
    proxy.wait_for_log("a certificate was renewed").expect("it is noticed");
    proxy.wait_for_metric_from("tidegate_ocsp_requests_total{result=\"answered\"}", 3.0, 3.0).expect("it is asked about");
    assert_eq!(world.seen(&proxy, "a.example", "-tls1_3").as_deref(), Some("good"));
}

#[test]
fn responders_that_fail_hold_nothing_up_and_nothing_of_theirs_is_stapled() {
    if !installed() {
        return;
    }
    let (world, stranger) = (World::new(Key::Rsa), World::new(Key::Rsa));
    let other = world.authority.issue("other.example", &Leaf::default()).expect("a certificate");
    let question = world.authority.question(&other).expect("a question");
    let of_another = world.authority.answer(&question, Signer::Issuer, 7).expect("an answer");
    let cases = [
        ("hangs.example", Manner::Hangs, "timed out"),
        ("garbage.example", Manner::Sends(b"<html>it works</html>".to_vec()), "what is no OCSP answer"),
        ("huge.example", Manner::Sends(vec![0x30; 1 << 20]), "answers with more than 16384 bytes"),
        ("other.example", Manner::Sends(of_another), "for another certificate"),
        ("stranger.example", stranger.answers(Signer::Issuer), "signature is wrong"),
        ("undelegated.example", world.answers(Signer::Undelegated), "has not delegated it"),
    ];
    let running: Vec<_> = cases
        .iter()
        .map(|(name, manner, cause)| {
            let responder = Responder::start(manner.clone()).expect("a responder");
            let name = format!("site-{name}");
            let issued = world.issue(&name, &responder.url, name == "site-garbage.example");
            (responder, name, issued, cause)
        })
        .collect();
    let sites: Vec<String> = running.iter().map(|(_, name, issued, _)| site(name, issued, "")).collect();
    let mut proxy = start(&sites);
    for (_, name, ..) in &running {
        assert_eq!(world.seen(&proxy, name, "-tls1_3"), None, "{name}");
    }
    proxy.wait_for_metric(FAILED, cases.len() as f64 - 1.0).expect("all but the one that hangs");
    proxy.wait_for_log("timed out").expect("that one as well");
    for (responder, name, _, cause) in &running {
        assert_eq!(world.seen(&proxy, name, "-tls1_2"), None, "{name}");
        // Long lines are broken.
        let shown = tidegate(&proxy, &["cert", "show", name]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("none: failing") && shown.contains(**cause), "{name}: {shown}");
        assert!(proxy.program.stderr().contains(*cause), "{name} is in the log: {}", proxy.program.stderr());
        assert_eq!(responder.asked(), 1, "{name} is left alone for a minute");
    }
    // Only where clients insist on a staple it is a fault of the certificate.
    let status = tidegate(&proxy, &["status"]);
    assert!(status.contains("site-garbage.example: browsers refuse this certificate without a staple"), "{status}");
    assert_eq!(status.matches("browsers refuse").count(), 1, "{status}");
    assert!(world.folder.path().is_dir());
}

#[test]
fn a_revoked_certificate_is_served_without_a_staple_and_it_is_said() {
    if !installed() {
        return;
    }
    let world = World::new(Key::Ecdsa);
    let responder = Responder::start(world.answers(Signer::Issuer)).expect("a responder");
    let issued = world.issue("a.example", &responder.url, false);
    world.authority.revoke(&issued).expect("written");
    let mut proxy = start(&[site("a.example", &issued, "")]);
    proxy.wait_for_metric("tidegate_ocsp_certificates{state=\"revoked\"}", 1.0).expect("it is known");
    assert_eq!(world.seen(&proxy, "a.example", "-tls1_3"), None);
    proxy.wait_for_log("the certificate is revoked").expect("it is said");
    let status = tidegate(&proxy, &["status"]);
    let line = "a.example: revoked by its CA at 2026-01-01 00:00:00; have another one issued";
    assert!(status.contains("REVOKED") && status.contains(line), "{status}");
    assert!(tidegate(&proxy, &["cert", "list"]).contains("revoked"));
}
