//! OpenSSL's `s_client`: which versions are spoken and which refused, which certificate which client gets, how sessions
//! are resumed, and that nothing is negotiated anew.

use crate::grade::{internal_root, start};
use crate::programs::{Said, find, run};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tidegate_testkit::proxy::Proxy;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n";
/// What OpenSSL itself would not do without being told: the old is refused by the server, or nobody has learnt
/// anything.
const OLD: &str = "DEFAULT:@SECLEVEL=0";
/// Every suite with CBC or without forward secrecy that it knows; no CCM, which testssl.sh counts as safe.
const WEAK: &str = "ALL:!AESGCM:!CHACHA20:!AESCCM:!ARIAGCM:@SECLEVEL=0";

/// One port of the proxy as it is seen by `s_client`, which trusts this root and ends when it does not.
struct Server<'a> {
    openssl: &'a Path,
    port: u16,
    root: String,
}

impl Server<'_> {
    /// One request on a connection of its own.
    fn ask(&self, name: &str, arguments: &[&str]) -> Said {
        self.connect(name, &[&["-ign_eof"], arguments].concat(), &REQUEST.replace("HOST", name))
    }

    fn connect(&self, name: &str, arguments: &[&str], input: &str) -> Said {
        let address = format!("127.0.0.1:{}", self.port);
        let mut all = vec!["s_client", "-connect", &address, "-servername", name, "-CAfile", &self.root];
        all.extend(["-verify_hostname", name, "-verify_return_error"]);
        all.extend(arguments);
        run(self.openssl, &all, input)
    }

    /// The handshake succeeds, and the output has all of this.
    fn takes(&self, name: &str, arguments: &[&str], expected: &[&str]) {
        let said = self.ask(name, arguments);
        for line in ["Verification: OK", "HTTP/1.1 200 OK", "Compression: NONE"].iter().chain(expected) {
            assert!(said.text.contains(line), "{name} {arguments:?}: there is no `{line}` in\n{}", said.text);
        }
    }

    /// The server ends the handshake, with one of these alerts.
    fn refuses(&self, name: &str, arguments: &[&str], alerts: &[u8]) {
        let said = self.ask(name, arguments);
        let is_said = alerts.iter().any(|alert| said.text.contains(&format!("SSL alert number {alert}\n")));
        assert!(is_said && !said.text.contains("HTTP/1.1 200"), "{name} {arguments:?}: none of {alerts:?} in\n{}", said.text);
    }
}

fn server<'a>(openssl: &'a Path, proxy: &Proxy, root: String) -> Server<'a> {
    Server { openssl, port: proxy.address.port(), root }
}

const PROTOCOL_VERSION: u8 = 70;
/// Also of a client of TLS 1.1 and older: its hello has no signature algorithms, which are missed before its version is
/// looked at.
const HANDSHAKE_FAILURE: u8 = 40;

#[test]
fn old_versions_and_weak_suites_are_refused() {
    let Some(openssl) = find("openssl") else { return };
    let proxy = start(
        r#"
site "https://default.localhost:{port}" { respond 200; }
site "https://both.localhost:{port}" { tls "internal" { min "1.2"; }; respond 200; }
site "https://new.localhost:{port}" { tls "internal" { min "1.3"; }; respond 200; }
"#,
    );
    let server = server(&openssl, &proxy, internal_root(&proxy));
    for name in ["default.localhost", "both.localhost", "new.localhost"] {
        for old in ["-tls1", "-tls1_1"] {
            server.refuses(name, &[old, "-cipher", OLD], &[PROTOCOL_VERSION, HANDSHAKE_FAILURE]);
        }
        server.takes(name, &["-tls1_3"], &["New, TLSv1.3, Cipher is TLS_"]);
        server.takes(name, &[], &["New, TLSv1.3, Cipher is TLS_"]);
    }
    for name in ["default.localhost", "both.localhost"] {
        server.takes(name, &["-tls1_2"], &["New, TLSv1.2, Cipher is ECDHE-", "Secure Renegotiation IS supported"]);
        server.refuses(name, &["-tls1_2", "-cipher", WEAK], &[HANDSHAKE_FAILURE]);
    }
    server.refuses("new.localhost", &["-tls1_2"], &[PROTOCOL_VERSION]);
}

#[test]
fn each_client_gets_the_certificate_that_it_can_verify() {
    let Some(openssl) = find("openssl") else { return };
    let proxy = start(
        r#"
site "https://a.test:{port}" {
    tls cert="{cert:a.test}" key="{key:a.test}"
    tls cert="{cert:a.test:rsa}" key="{key:a.test:rsa}"
    respond 200
}
"#,
    );
    let server = server(&openssl, &proxy, proxy.places.folder().join("main-ca.pem").display().to_string());
    const RSA: &str = "RSA-PSS+SHA256:RSA+SHA256:ECDSA+SHA384";
    for version in ["-tls1_2", "-tls1_3"] {
        server.takes("a.test", &[version], &["Peer signature type: ECDSA"]);
        server.takes("a.test", &[version, "-sigalgs", "ECDSA+SHA256"], &["Peer signature type: ECDSA"]);
    }
    // With a key on P-256 the last of these is no help in TLS 1.3, where the curve belongs to it.
    server.takes("a.test", &["-tls1_3", "-sigalgs", RSA], &["Peer signature type: RSA-PSS"]);
    server.takes("a.test", &["-tls1_2", "-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"], &["Peer signature type: RSA"]);
    server.takes("a.test", &["-tls1_2", "-sigalgs", "RSA+SHA256", "-cipher", "aRSA"], &["Peer signature type: RSA\n"]);
    server.takes("a.test", &["-tls1_2", "-cipher", "aRSA"], &["Cipher is ECDHE-RSA-", "Peer signature type: RSA"]);
    server.takes("a.test", &["-tls1_2", "-cipher", "aECDSA"], &["Cipher is ECDHE-ECDSA-", "Peer signature type: ECDSA"]);
    // With keys of both kinds a lack of certificates is not what keeps them out.
    server.refuses("a.test", &["-tls1_2", "-cipher", WEAK], &[HANDSHAKE_FAILURE]);
}

#[test]
fn sessions_are_resumed_and_nothing_is_negotiated_anew() {
    let Some(openssl) = find("openssl") else { return };
    let folder = TempDir::new().expect("a folder");
    let proxy = start(
        r#"
site "https://a.localhost:{port}" { respond 200; }
site "https://b.localhost:{port}" { tls "internal" { tickets #false; }; respond 200; }
"#,
    );
    let server = server(&openssl, &proxy, internal_root(&proxy));
    let session = |name: &str| -> PathBuf { folder.path().join(name) };
    let twice = |name: &str, arguments: &[&str], second: &str| {
        let file = session(&format!("{name}{}", arguments.concat())).display().to_string();
        server.takes(name, &[arguments, &["-sess_out", &file]].concat(), &["New, TLSv1."]);
        server.takes(name, &[arguments, &["-sess_in", &file]].concat(), &[second]);
    };
    twice("a.localhost", &["-tls1_3"], "Reused, TLSv1.3");
    twice("a.localhost", &["-tls1_2"], "Reused, TLSv1.2");
    // By the session's id, which is all that such a client has.
    twice("a.localhost", &["-tls1_2", "-no_ticket"], "Reused, TLSv1.2");
    // `tickets #false` means that there is nothing to come back with, by whatever means.
    for arguments in [&["-tls1_3"][..], &["-tls1_2"], &["-tls1_2", "-no_ticket"]] {
        let file = session("none");
        server.takes("b.localhost", &[arguments, &["-sess_out", &file.display().to_string()]].concat(), &["New, TLSv1."]);
        assert!(!file.exists(), "{arguments:?}: a session was given");
    }
    // Another name's session is not taken.
    let file = session("a.localhost-tls1_2").display().to_string();
    server.takes("b.localhost", &["-tls1_2", "-sess_in", &file], &["New, TLSv1.2"]);

    let said = server.connect("a.localhost", &["-tls1_2"], "R\n");
    assert!(said.text.contains("Verification: OK") && said.text.contains("RENEGOTIATING"), "{}", said.text);
    assert!(said.text.contains("no renegotiation"), "{}", said.text);
}
