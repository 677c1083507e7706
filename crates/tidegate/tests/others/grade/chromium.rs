//! Chromium: pages of sites whose root `tidegate cert trust` made it trust, with nothing switched off; TLS 1.2 alone; a
//! certificate of its own. What becomes of pages once they are trusted is in `browser.rs`, and the trusting itself in
//! `cert.rs`.

use crate::grade::{PROGRAM, start};
use crate::programs::{done, find};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tidegate_testkit::proxy::Proxy;
use tidegate_testkit::{Program, Surroundings};

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// A browser starts slowly on a machine that compiles.
const BOUND: Duration = Duration::from_secs(180);

const FLAGS: [&str; 8] = [
    "--headless=new",
    // Containers and pipelines run as root, which its sandbox refuses; the pages are ours.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP *.localhost 127.0.0.1",
    "--dump-dom",
];

/// A home folder with a browser's database of certificates in it.
struct Home<'a> {
    browser: &'a Path,
    folder: TempDir,
}

impl Home<'_> {
    fn trust(&self, proxy: &Proxy) {
        let mut command = Command::new(PROGRAM);
        let state = proxy.places.folder().join("state");
        command.args(["cert", "trust", "--browsers", "--state-dir"]).arg(state).env("HOME", self.folder.path());
        for name in ["SUDO_UID", "SUDO_GID", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// The page as the browser has it, and what it said beside. `before` are commands of a shell, run where nobody else
    /// sees what they mount.
    fn load(&self, url: &str, flags: &[&str], before: Option<&str>) -> String {
        let folder = self.folder.path().display().to_string();
        let mut arguments: Vec<String> = FLAGS.iter().chain(flags).map(ToString::to_string).collect();
        arguments.extend([format!("--user-data-dir={folder}/profile"), url.to_owned()]);
        let environment = ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|name| (name, folder.clone())).to_vec();
        let surroundings = Surroundings { environment, has_descendants: true, ..Surroundings::default() };
        let program = match before {
            None => self.browser.to_owned(),
            Some(commands) => {
                let script = format!("set -e; {commands}; exec \"$@\"");
                let shell = ["-m", "sh", "-c", &script, "sh"].map(str::to_owned);
                arguments.splice(0..0, shell.into_iter().chain([self.browser.display().to_string()]));
                "unshare".into()
            }
        };
        let mut program = Program::start_in(&program, &arguments, self.folder.path(), &surroundings).expect("a browser starts");
        program.wait_exit(BOUND).unwrap_or_else(|error| panic!("{error}: {}", program.output()));
        program.output()
    }
}

#[test]
fn chromium_trusts_what_it_was_told_to_in_both_versions() {
    let _only = crate::only_browser();
    let (Some(browser), Some(_)) = (NAMES.iter().find_map(|name| find(name)), find("certutil")) else { return };
    let proxy = start(
        r#"
site "https://localhost:{port}" { respond 200 body="here: {tls.version} of {tls.sni}"; }
site "https://both.localhost:{port}" { tls "internal" { min "1.2"; }; respond 200 body="here: {tls.version} of {tls.sni}"; }
site "https://new.localhost:{port}" { tls "internal" { min "1.3"; }; respond 200 body="here: {tls.version} of {tls.sni}"; }
"#,
    );
    let home = Home { browser: &browser, folder: TempDir::new().expect("a folder") };
    let check = |name: &str, flags: &[&str], expected: &str| {
        let page = home.load(&format!("https://{name}:{}/", proxy.address.port()), flags, None);
        assert!(page.contains(expected), "{name} {flags:?}: there is no `{expected}` in\n{page}\n{}", proxy.program.output());
    };
    const OLD: &[&str] = &["--ssl-version-max=tls1.2"];
    check("localhost", &[], "ERR_CERT_AUTHORITY_INVALID");
    home.trust(&proxy);
    check("localhost", &[], "here: 1.3 of localhost");
    check("localhost", OLD, "here: 1.2 of localhost");
    check("both.localhost", &[], "here: 1.3 of both.localhost");
    check("both.localhost", OLD, "here: 1.2 of both.localhost");
    check("new.localhost", OLD, "ERR_SSL_VERSION_OR_CIPHER_MISMATCH");
}

/// Which certificate is shown for which site is asked of a person, unless a policy of the machine says it; policies are
/// in one folder for all, so this browser gets a folder of its own in its place, which root can do.
#[test]
fn chromium_shows_its_certificate() {
    let _only = crate::only_browser();
    let (Some(browser), Some(_), Some(pk12util), Some(openssl)) =
        (NAMES.iter().find_map(|name| find(name)), find("certutil"), find("pk12util"), find("openssl"))
    else {
        return;
    };
    const POLICIES: &str = "/etc/chromium";
    let probe = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", POLICIES]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("skipped: this needs root, mounts of its own and {POLICIES}");
        return;
    }
    let mut proxy = start(
        r#"
site "https://localhost:{port}" {
    tls "internal" { client-auth ca="{ca}"; }
    respond 200 body="here: {tls.client.subject} {tls.client.verified}"
}
"#,
    );
    let pem = proxy.places.fill("{pem:ops:client}").expect("a file");
    let url = format!("https://localhost:{}", proxy.address.port());
    let home = Home { browser: &browser, folder: TempDir::new().expect("a folder") };
    home.trust(&proxy);
    // In TLS 1.3 the refusal follows the handshake, and a browser that still writes may see the end of the connection,
    // in one of several errors, before it reads why. No try may show the page.
    let mut refused = String::new();
    for _ in 0..5 {
        refused = home.load(&format!("{url}/"), &[], None);
        assert!(!refused.contains("here: "), "{refused}");
        if refused.contains("ERR_BAD_SSL_CLIENT_AUTH_CERT") {
            break;
        }
    }
    assert!(refused.contains("ERR_BAD_SSL_CLIENT_AUTH_CERT"), "{refused}\n{}", proxy.program.output());

    let path = |name: &str| home.folder.path().join(name).display().to_string();
    let (bundle, database) = (path("ops.p12"), format!("sql:{}", path(".pki/nssdb")));
    done(&openssl, &["pkcs12", "-export", "-in", &pem, "-out", &bundle, "-passout", "pass:secret", "-name", "ops"]);
    done(&pk12util, &["-i", &bundle, "-d", &database, "-W", "secret", "-K", ""]);
    let policy = json!({ "AutoSelectCertificateForUrls": [json!({ "pattern": url, "filter": {} }).to_string()] });
    fs::write(home.folder.path().join("policy.json"), policy.to_string()).expect("a file");
    let before = format!(
        "mount -t tmpfs none {POLICIES}; mkdir -p {POLICIES}/policies/managed; cp policy.json {POLICIES}/policies/managed/"
    );
    let page = home.load(&format!("{url}/"), &[], Some(&before));
    assert!(page.contains("here: CN=ops yes"), "{page}\n{}", proxy.program.output());
}
