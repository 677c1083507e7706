//! Certificate files in every form that tools write them, and what is said about those that cannot be used.

use super::support::{Pair, TinyCa, pem, write};
use crate::facts::{CertificateName, KeyAlgorithm};
use crate::files::LoadedCertificate;
use std::path::PathBuf;
use tempfile::TempDir;
use tidegate_model::Certificate;

/// Loads and shows the message and the help, with the folder left out.
fn load(dir: &TempDir, cert: PathBuf, key: Option<PathBuf>) -> Result<LoadedCertificate, String> {
    let folder = format!("{}/", dir.path().display());
    LoadedCertificate::load(&Certificate { cert: cert.into(), key: key.map(Into::into) })
        .map_err(|error| error.to_string().replace(&folder, ""))
}

#[test]
fn every_form_of_key_is_read() {
    let dir = TempDir::new().expect("a folder");
    let ca = TinyCa::new();
    let check = |name: &str, pair: &Pair, label: &str, key_der: &[u8], expected: KeyAlgorithm| {
        let cert = write(&dir, &format!("{name}.crt"), pair.certificate.pem());
        let key = write(&dir, &format!("{name}.key"), pem(label, key_der));
        let loaded = load(&dir, cert, Some(key)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(loaded.facts.key_algorithm, expected, "for {name}");
        assert_eq!(loaded.certified_key.cert.len(), 1, "for {name}");
    };
    let p256 = ca.issue(&["a.test"]);
    check("pkcs8", &p256, "PRIVATE KEY", p256.key.serialized_der(), KeyAlgorithm::EcdsaP256);
    // A PKCS#8 P-256 key is 29 bytes of framing before the SEC1 key that it wraps.
    let sec1_offset = p256.key.serialized_der().len() - 109;
    check("sec1", &p256, "EC PRIVATE KEY", &p256.key.serialized_der()[sec1_offset..], KeyAlgorithm::EcdsaP256);
    let rsa = ca.issue_with(&["a.test"], &rcgen::PKCS_RSA_SHA256, |_| {});
    check("rsa", &rsa, "PRIVATE KEY", rsa.key.serialized_der(), KeyAlgorithm::Rsa { bits: 2048 });
    // For RSA 2048 the framing is 26 bytes.
    check("pkcs1", &rsa, "RSA PRIVATE KEY", &rsa.key.serialized_der()[26..], KeyAlgorithm::Rsa { bits: 2048 });
    let p384 = ca.issue_with(&["a.test"], &rcgen::PKCS_ECDSA_P384_SHA384, |_| {});
    check("p384", &p384, "PRIVATE KEY", p384.key.serialized_der(), KeyAlgorithm::EcdsaP384);
    let p521 = ca.issue_with(&["a.test"], &rcgen::PKCS_ECDSA_P521_SHA512, |_| {});
    check("p521", &p521, "PRIVATE KEY", p521.key.serialized_der(), KeyAlgorithm::EcdsaP521);
    let ed25519 = ca.issue_with(&["a.test"], &rcgen::PKCS_ED25519, |_| {});
    check("ed25519", &ed25519, "PRIVATE KEY", ed25519.key.serialized_der(), KeyAlgorithm::Ed25519);
}

#[test]
fn one_file_may_hold_all_in_any_order() {
    let dir = TempDir::new().expect("a folder");
    let ca = TinyCa::new();
    let pair = ca.issue(&["A.test", "*.b.test", "192.0.2.1", "2001:db8::1"]);
    let (leaf, root, key) = (pair.certificate.pem(), ca.certificate.pem(), pair.key.serialize_pem());
    for (order, text) in [
        ("chain and key", format!("{leaf}{root}{key}")),
        ("key first", format!("{key}{leaf}{root}")),
        ("key between, with remarks", format!("subject=CN=x\r\n{leaf}\r\n{key}# root\n{root}")),
    ] {
        let loaded = load(&dir, write(&dir, "all.pem", text), None).unwrap_or_else(|error| panic!("{order}: {error}"));
        assert_eq!(loaded.certified_key.cert.len(), 2, "{order}");
        assert_eq!(loaded.certified_key.cert[0], *pair.certificate.der(), "{order}");
        assert_eq!(loaded.facts.chain_broken_after, None, "{order}");
        let ip = |text: &str| CertificateName::Ip(text.parse().expect("an address"));
        let dns = |text: &str| CertificateName::Dns(text.into());
        assert_eq!(loaded.facts.names, [dns("a.test"), dns("*.b.test"), ip("192.0.2.1"), ip("2001:db8::1")]);
    }
}

#[test]
fn what_cannot_be_used_says_which_file_and_what_to_do() {
    let dir = TempDir::new().expect("a folder");
    let ca = TinyCa::new();
    let (one, other) = (ca.issue(&["a.test"]), ca.issue(&["a.test"]));
    let check = |cert: &str, key: Option<&str>, expected: &str| {
        let path = |name: &str| dir.path().join(name);
        let seen = load(&dir, path(cert), key.map(path)).map_or_else(|error| error, |_| "loaded".into());
        assert_eq!(seen, expected, "for {cert} and {key:?}");
    };
    let leaf = one.certificate.pem();
    let files = [
        ("server.crt", leaf.clone()),
        ("server.key", one.key.serialize_pem()),
        ("other.key", other.key.serialize_pem()),
        ("combined.pem", format!("{leaf}{}", other.key.serialize_pem())),
        ("reversed.crt", format!("{}{leaf}", ca.certificate.pem())),
        ("empty.pem", String::new()),
        ("request.csr", pem("CERTIFICATE REQUEST", b"0")),
        ("cut.crt", leaf[..leaf.len() - 20].to_owned()),
        ("garbled.crt", leaf.replace("MII", "M!I")),
        ("nonsense.crt", pem("CERTIFICATE", b"nonsense")),
        ("chain.crt", format!("{leaf}{}", pem("CERTIFICATE", b"nonsense"))),
        ("nonsense.key", pem("PRIVATE KEY", b"nonsense")),
        ("locked.key", pem("ENCRYPTED PRIVATE KEY", b"0")),
        (
            "locked-old.key",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
                .into(),
        ),
    ];
    for (name, text) in files {
        write(&dir, name, text);
    }
    std::fs::create_dir(dir.path().join("folder")).expect("a folder in it");
    write(&dir, "server.der", one.certificate.der());
    let half = &one.certificate.der()[..one.certificate.der().len() / 2];
    write(&dir, "half.crt", pem("CERTIFICATE", half));
    write(&dir, "half.key", pem("PRIVATE KEY", &one.key.serialized_der()[..60]));
    write(&dir, "huge.crt", vec![b'\n'; (1 << 20) + 1]);
    // Nobody writes into it: whoever waited would wait for ever.
    let pipe = dir.path().join("pipe.key");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .expect("a pipe");

    check("server.crt", Some("server.key"), "loaded");
    check(
        "server.crt",
        Some("other.key"),
        "the key in other.key does not belong to the certificate in server.crt; give the key that the certificate was requested with",
    );
    check(
        "combined.pem",
        None,
        "the key in combined.pem does not belong to the certificate in the same file; \
         give the key that the certificate was requested with",
    );
    check(
        "reversed.crt",
        Some("server.key"),
        "the certificates in reversed.crt are in the wrong order: the key belongs to number 2; \
         put the server's own certificate first, then each certificate that signed the one before",
    );
    check("server.key", Some("server.crt"), "server.key holds a private key, not a certificate; are `cert=` and `key=` swapped?");
    check("server.crt", Some("server.crt"), "server.crt holds a certificate, not a private key; are `cert=` and `key=` swapped?");
    check(
        "server.crt",
        None,
        "server.crt holds no private key; name the key's file with `key=`, or put the key into this file as well",
    );
    check("missing.crt", None, "cannot read missing.crt: there is no such file");
    check("server.crt", Some("pipe.key"), "cannot read pipe.key: it is not a regular file");
    check("server.crt", Some("missing.key"), "cannot read missing.key: there is no such file");
    check(
        "empty.pem",
        None,
        "empty.pem holds nothing in PEM form, not a certificate; it needs a `-----BEGIN CERTIFICATE-----` block",
    );
    check(
        "server.crt",
        Some("empty.pem"),
        "empty.pem holds nothing in PEM form, not a private key; it needs a `-----BEGIN PRIVATE KEY-----` block",
    );
    check(
        "request.csr",
        Some("server.key"),
        "request.csr holds a certificate request, not a certificate; give the certificate that the CA returned for this request",
    );
    let copy = "copy it again as a whole, from where it was made";
    let cut = format!("cut.crt is not valid PEM: the line `-----END CERTIFICATE-----` is missing; {copy}");
    check("cut.crt", Some("server.key"), &cut);
    check("garbled.crt", Some("server.key"), &format!("garbled.crt is not valid PEM: a block is not base64; {copy}"));
    check("folder", Some("server.key"), "cannot read folder: it is a folder; name a file in it");
    check("server.crt", Some("folder"), "cannot read folder: it is a folder; name a file in it");
    check("huge.crt", None, "huge.crt is larger than 1 MiB, which no PEM file needs to be");
    let folder = dir.path().display();
    let help = format!("convert it: openssl x509 -inform der -in {folder}/server.der -out {folder}/server.der.pem")
        .replace(&format!("{folder}/"), "");
    check("server.der", Some("server.key"), &format!("server.der holds DER (binary) data, not a certificate; {help}"));
    for locked in ["locked.key", "locked-old.key"] {
        check(
            "server.crt",
            Some(locked),
            &format!(
                "the private key in {locked} is encrypted; nobody can be asked for its pass phrase; \
                 decrypt it: openssl pkey -in {locked} -out {locked}.plain"
            ),
        );
    }
    let says = |cert: &str, key: &str, expected: &str| {
        let seen = load(&dir, dir.path().join(cert), Some(dir.path().join(key))).err().unwrap_or_default();
        assert!(seen.starts_with(expected), "for {cert} and {key}: {seen}");
    };
    let there = format!("{} of its {} bytes are there", half.len(), one.certificate.der().len());
    says(
        "half.crt",
        "server.key",
        &format!("the certificate in half.crt cannot be used: it was cut off: {there}; copy it again"),
    );
    let there = format!("60 of its {} bytes are there", one.key.serialized_der().len());
    says("server.crt", "half.key", &format!("the private key in half.key cannot be used: it was cut off: {there}"));
    says("nonsense.crt", "server.key", "the certificate in nonsense.crt cannot be used: it is not an X.509 certificate");
    says("chain.crt", "server.key", "certificate number 2 in chain.crt cannot be used: it is not an X.509 certificate");
    says("server.crt", "nonsense.key", "the private key in nonsense.key cannot be used: ");
}

/// A new key by OpenSSL, in a file of this name.
fn openssl(dir: &TempDir, arguments: &str) -> bool {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let output = std::process::Command::new("openssl").args(&arguments).current_dir(dir.path()).output();
    let Ok(output) = output else {
        eprintln!("skipped: openssl is not installed");
        return false;
    };
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn what_other_programs_write_is_called_by_its_name() {
    let dir = TempDir::new().expect("a folder");
    let pair = TinyCa::new().issue(&["a.test"]);
    pair.write(&dir, "server");
    let path = |name: &str| dir.path().join(name);
    let check = |cert: &str, key: &str, expected: &str| {
        let seen = load(&dir, path(cert), Some(path(key))).map_or_else(|error| error, |_| "loaded".into());
        assert!(seen.starts_with(expected), "for {cert} and {key}: {seen}");
    };
    let keys = "; keys may be RSA from 2048 bits, ECDSA on P-256, P-384 or P-521, or Ed25519";
    for (arguments, expected) in [
        ("genrsa -out new.key 1024", "it is an RSA key of 1024 bits"),
        ("genrsa -traditional -out new.key 1024", "it is an RSA key of 1024 bits"),
        ("genpkey -algorithm ed448 -out new.key", "it is an Ed448 key"),
        ("genpkey -algorithm x25519 -out new.key", "it is an X25519 key, which signs nothing"),
        ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1 -out new.key", "it is an ECDSA key on secp256k1"),
        ("ecparam -name secp256k1 -genkey -out new.key", "it is an ECDSA key on secp256k1"),
        (
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:brainpoolP256r1 -out new.key",
            "it is an ECDSA key on a Brainpool curve",
        ),
        ("genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048 -out new.key", "it is an RSA key for PSS alone"),
        ("dsaparam -genkey -out new.key 1024", "it is a DSA key"),
        ("pkcs8 -topk8 -nocrypt -in new.key -out again.key", "it is a DSA key"),
    ] {
        if !openssl(&dir, arguments) {
            return;
        }
        let file = if arguments.contains("again.key") { "again.key" } else { "new.key" };
        check("server.crt", file, &format!("the private key in {file} cannot be used: {expected}{keys}"));
    }
    openssl(&dir, "genrsa -aes256 -traditional -passout pass:x -out locked.key 2048");
    check("server.crt", "locked.key", "the private key in locked.key is encrypted; nobody can be asked for its pass phrase");
    openssl(&dir, "pkcs8 -topk8 -in server.key -passout pass:x -out locked.key");
    check("server.crt", "locked.key", "the private key in locked.key is encrypted; nobody can be asked for its pass phrase");
    openssl(&dir, "pkcs12 -export -in server.crt -inkey server.key -passout pass:x -out server.pfx");
    let apart = "take it apart: openssl pkcs12 -nodes -in server.pfx -out server.pfx.pem";
    check("server.pfx", "server.pfx", &format!("server.pfx holds a PKCS#12 store (PFX), not a certificate; {apart}"));
    check("server.crt", "server.pfx", &format!("server.pfx holds a PKCS#12 store (PFX), not a private key; {apart}"));
    openssl(&dir, "crl2pkcs7 -nocrl -certfile server.crt -out server.p7b");
    check("server.p7b", "server.key", "server.p7b holds a PKCS#7 bundle, not a certificate; take it apart: openssl pkcs7");
    openssl(&dir, "crl2pkcs7 -nocrl -certfile server.crt -outform der -out binary.p7b");
    check("binary.p7b", "server.key", "binary.p7b holds a PKCS#7 bundle, not a certificate; take it apart: openssl pkcs7");
    openssl(&dir, "x509 -in server.crt -trustout -out trusted.crt");
    check("trusted.crt", "server.key", "trusted.crt holds a certificate in OpenSSL's own form (TRUSTED CERTIFICATE), not a");
    openssl(&dir, "pkey -in server.key -outform der -out key.der");
    check(
        "server.crt",
        "key.der",
        "key.der holds DER (binary) data, not a private key; convert it: openssl pkey -inform der -in key.der",
    );
    write(&dir, "login.key", pem("OPENSSH PRIVATE KEY", b"openssh-key-v1"));
    check("server.crt", "login.key", "login.key holds a key in the form of OpenSSH, not a private key; give the key that");
    let wide: Vec<u8> = [0xFF, 0xFE].into_iter().chain(pair.certificate.pem().bytes().flat_map(|byte| [byte, 0])).collect();
    write(&dir, "wide.crt", wide);
    check("wide.crt", "server.key", "wide.crt holds text in UTF-16, not a certificate; convert it: iconv");
}

#[test]
fn marks_and_line_ends_of_other_systems_do_no_harm() {
    let dir = TempDir::new().expect("a folder");
    let pair = TinyCa::new().issue(&["a.test"]);
    let windows = |text: String| format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let cert = write(&dir, "server.crt", windows(pair.certificate.pem()));
    let key = write(&dir, "server.key", windows(pair.key.serialize_pem()));
    let loaded = load(&dir, cert, Some(key)).expect("a usable pair");
    assert_eq!(loaded.certified_key.cert[0], *pair.certificate.der());
}

#[test]
fn names_are_compared_as_clients_do() {
    let dir = TempDir::new().expect("a folder");
    let certificate = TinyCa::new().issue(&["a.test", "*.b.test"]).write(&dir, "server");
    let facts = LoadedCertificate::load(&certificate).expect("a usable pair").facts;
    let check = |name: &str, expected: bool| assert_eq!(facts.covers_name(name), expected, "for {name}");
    check("a.test", true);
    check("A.Test", true);
    check("x.b.test", true);
    check("b.test", false);
    check("x.y.b.test", false);
    check("test", false);
    check("", false);
}
