//! What `tidegate check` says about certificates.

use super::support::{TinyCa, days, now, pem, site, write};
use crate::check::{CertFinding, Severity, check_site, check_upstream};
use crate::process_state::TlsProcessState;
use rcgen::CertificateParams;
use std::path::Path;
use tempfile::TempDir;
use tidegate_model::{Certificate, CipherName, Site, Tls, TlsSource, TlsVersion, UpstreamTls};

fn shown(findings: &[CertFinding], dir: &Path) -> Vec<String> {
    let folder = format!("{}/", dir.display());
    let show = |finding: &CertFinding| {
        let severity = match finding.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let help = finding.help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
        format!("{severity}: {}{help}", finding.message).replace(&folder, "")
    };
    findings.iter().map(show).collect()
}

fn valid(from_days: i64, to_days: i64) -> impl FnOnce(&mut CertificateParams) {
    move |params| {
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let at = |offset: i64| std::time::Duration::from_secs((now() + days(offset)).as_second() as u64);
        params.not_before = epoch + at(from_days);
        params.not_after = epoch + at(to_days);
    }
}

#[test]
fn a_sites_certificates() {
    let dir = TempDir::new().expect("a folder");
    let ca = TinyCa::new();
    let make = |name: &str, names: &[&str], from_days: i64, to_days: i64| {
        ca.issue_with(names, &rcgen::PKCS_ECDSA_P256_SHA256, valid(from_days, to_days)).write(&dir, name)
    };
    let check = |addresses: &[&str], files: &[&Certificate], expected: &[&str]| {
        let site = site(addresses, TlsSource::Files(files.iter().map(|file| (*file).clone()).collect()));
        assert_eq!(shown(&check_site(&site, now()), dir.path()), expected, "for {addresses:?} with {files:?}");
    };
    let on = |offset: i64| (now() + days(offset)).strftime("%-d %B %Y").to_string();

    let good = make("good", &["a.test", "*.a.test", "192.0.2.1"], -1, 60);
    check(&["a.test", "x.a.test", "*.a.test", "192.0.2.1", ":8443", "http://b.test"], &[&good], &[]);
    check(
        &["a.test", "b.test", "x.y.a.test", "192.0.2.2"],
        &[&good],
        &[
            "warning: the certificate in good.crt does not cover `b.test` (it is for `a.test`, `*.a.test`, `192.0.2.1`)",
            "warning: the certificate in good.crt does not cover `x.y.a.test` (it is for `a.test`, `*.a.test`, `192.0.2.1`)",
            "warning: the certificate in good.crt does not cover `192.0.2.2` (it is for `a.test`, `*.a.test`, `192.0.2.1`)",
        ],
    );
    let many = make("many", &["1.test", "2.test", "3.test", "4.test"], -1, 60);
    check(&["a.test", "3.test"], &[&good, &many], &[]);
    check(
        &["b.test"],
        &[&good, &many],
        &["warning: none of the site's certificates covers `b.test` \
           (it is for `a.test`, `*.a.test`, `192.0.2.1`, `1.test`, `2.test` and 2 more)"],
    );
    let expired = make("expired", &["a.test"], -90, -2);
    check(&["a.test"], &[&expired], &[&format!("warning: the certificate in expired.crt expired on {}", on(-2))]);
    let soon = make("soon", &["a.test"], -90, 6);
    check(&["a.test"], &[&soon], &[&format!("warning: the certificate in soon.crt expires on {}", on(6))]);
    let early = make("early", &["a.test"], 2, 90);
    check(&["a.test"], &[&early], &[&format!("warning: the certificate in early.crt is not valid before {}", on(2))]);
    let nameless = make("nameless", &[], -1, 60);
    check(
        &["a.test"],
        &[&nameless],
        &["warning: the certificate in nameless.crt names no host (it has no subjectAltName), so every client refuses it \
           (have it issued with the host names as subject alternative names)"],
    );
    let missing = Certificate { cert: dir.path().join("missing.crt").into(), key: None };
    let bad_key = Certificate { key: Some(write(&dir, "bad.key", pem("PUBLIC KEY", b"0")).into()), ..good.clone() };
    check(
        &["b.test"],
        &[&missing, &bad_key],
        &[
            "error: cannot read missing.crt: there is no such file",
            "error: bad.key holds a public key, not a private key (it needs a `-----BEGIN PRIVATE KEY-----` block)",
        ],
    );
}

#[test]
fn a_chain_in_disorder_is_served_but_mentioned() {
    let dir = TempDir::new().expect("a folder");
    let ca = TinyCa::new();
    let pair = ca.issue(&["a.test"]);
    let stranger = TinyCa::new().issue(&["b.test"]);
    let chain = format!("{}{}{}", pair.certificate.pem(), stranger.certificate.pem(), ca.certificate.pem());
    // All tiny CAs have one name, so the stranger's issuer is whom the leaf names; only the first pair breaks.
    let file = Certificate { cert: write(&dir, "chain.pem", chain + &pair.key.serialize_pem()).into(), key: None };
    let site = site(&["a.test"], TlsSource::Files(vec![file]));
    assert_eq!(
        shown(&check_site(&site, now()), dir.path()),
        ["warning: certificate number 1 in chain.pem is not signed by the one that follows it \
          (put the server's own certificate first, then each certificate that signed the one before)"]
    );
}

#[test]
fn an_authority_whose_time_is_over_is_mentioned() {
    let dir = TempDir::new().expect("a folder");
    let ca = TinyCa::new();
    let pair = ca.issue(&["a.test"]);
    let over = ca.issue_with(&[], &rcgen::PKCS_ECDSA_P256_SHA256, valid(-90, -2));
    let site_of = |chain: String| {
        let file = Certificate { cert: write(&dir, "chain.pem", chain + &pair.key.serialize_pem()).into(), key: None };
        site(&["a.test"], TlsSource::Files(vec![file]))
    };
    let good = site_of(format!("{}{}", pair.certificate.pem(), ca.certificate.pem()));
    assert!(check_site(&good, now()).is_empty());
    let bad = site_of(format!("{}{}{}", pair.certificate.pem(), ca.certificate.pem(), over.certificate.pem()));
    let on = (now() + days(-2)).strftime("%-d %B %Y");
    let seen = shown(&check_site(&bad, now()), dir.path());
    let expected = format!(
        "warning: certificate number 3 in chain.pem, of an authority, expired on {on} \
         (clients that need it refuse the site's own certificate: get the chain anew from the CA)"
    );
    assert_eq!(seen[0], expected, "{seen:?}");
}

#[test]
fn a_certificate_of_version_1_is_mentioned() {
    let dir = TempDir::new().expect("a folder");
    // OpenSSL makes those where no extension is asked for.
    let made = std::process::Command::new("sh")
        .arg("-c")
        .arg("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout old.key -subj /CN=a.test -out old.csr && \
              openssl x509 -req -in old.csr -signkey old.key -days 30 -out old.crt")
        .current_dir(dir.path())
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: openssl is not installed");
        return;
    }
    let file = Certificate { cert: dir.path().join("old.crt").into(), key: Some(dir.path().join("old.key").into()) };
    let site = site(&["a.test"], TlsSource::Files(vec![file]));
    assert_eq!(
        shown(&check_site(&site, now()), dir.path()),
        ["warning: the certificate in old.crt is of X.509 version 1, which names no host, so every client refuses it \
          (have it issued as version 3, with the host names as subject alternative names)"]
    );
}

#[test]
fn sites_without_files() {
    let check = |addresses: &[&str], source: TlsSource, expected: &[&str]| {
        assert_eq!(shown(&check_site(&site(addresses, source), now()), Path::new("/")), expected, "for {addresses:?}");
    };
    check(&["localhost", "10.0.0.1", "db.internal", ":8443", "http://example.com"], TlsSource::Automatic, &[]);
    check(&["example.com"], TlsSource::Internal, &[]);
    check(&["example.com"], TlsSource::Off, &[]);
    // What may be missing for it, the configuration itself says.
    check(&["example.com", "localhost"], TlsSource::Automatic, &[]);
}

#[test]
fn cipher_settings_that_switch_a_version_off() {
    let check = |min_version: TlsVersion, ciphers: &[CipherName], expected: &[&str]| {
        let tls = Tls { source: TlsSource::Internal, min_version, ciphers: ciphers.to_vec(), ..Tls::default() };
        let site = Site { tls, ..site(&["a.test"], TlsSource::Internal) };
        let seen: Vec<_> = check_site(&site, now()).into_iter().map(|finding| (finding.severity, finding.message)).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|line| match line.strip_prefix("error: ") {
                Some(message) => (Severity::Error, message.to_owned()),
                None => (Severity::Warning, (*line).to_owned()),
            })
            .collect();
        assert_eq!(seen, expected, "for {min_version:?} {ciphers:?}");
    };
    let (tls12, tls13) = (CipherName::EcdheRsaAes128GcmSha256, CipherName::Tls13Aes128GcmSha256);
    check(TlsVersion::V1_2, &[], &[]);
    check(TlsVersion::V1_2, &[tls12, tls13], &[]);
    check(TlsVersion::V1_3, &[tls13], &[]);
    check(TlsVersion::V1_2, &[tls12], &["`ciphers` names no suite of TLS 1.3, so the site does not offer TLS 1.3"]);
    check(TlsVersion::V1_2, &[tls13], &["`ciphers` names no suite of TLS 1.2, so the site does not offer TLS 1.2"]);
    check(TlsVersion::V1_3, &[tls12], &["error: `ciphers` names only suites of TLS 1.2, but `min` asks for TLS 1.3"]);
}

#[test]
fn a_pools_files() {
    let dir = TempDir::new().expect("a folder");
    let state = TlsProcessState::new(dir.path().to_owned()).expect("state");
    let ca = TinyCa::new();
    let check = |tls: &UpstreamTls, expected: &[&str]| {
        assert_eq!(shown(&check_upstream(tls, &state, now()), dir.path()), expected, "for {tls:?}");
    };
    let pair = ca.issue_with(&["tidegate.test"], &rcgen::PKCS_ECDSA_P256_SHA256, valid(-90, -2)).write(&dir, "client");
    let expired = now() + days(-2);
    check(&UpstreamTls::default(), &[]);
    check(
        &UpstreamTls { ca: Some(dir.path().join("ca.pem").into()), ..UpstreamTls::default() },
        &["error: cannot read ca.pem: there is no such file"],
    );
    check(
        &UpstreamTls { client_certificate: pair.key.map(|key| (pair.cert, key)), ..UpstreamTls::default() },
        &[&format!("warning: the certificate in client.crt expired on {}", expired.strftime("%-d %B %Y"))],
    );
}
