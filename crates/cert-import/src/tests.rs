//! Stores as the three programs write them, made here byte for byte in their layouts, and what is read out of them.

use crate::{AccountKey, Choice, Files, ImportedStore, Origin, Program, read, recognise, select};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::encoding::{AsBigEndian, AsDer, EcPrivateKeyBin, EcPrivateKeyRfc5915Der};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PublicKeyData};
use rustls_pki_types::PrivateKeyDer;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tidegate_certs::{LoadedCertificate, to_pem};

const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
const STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
const DAY: i64 = 86_400;

struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A chain of two with its key.
struct Pair {
    chain: String,
    key: KeyPair,
}

impl Ca {
    fn new(name: &str) -> Ca {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Ca { issuer: Issuer::new(params, key), pem }
    }

    fn issue(&self, names: &[&str], days_left: i64) -> Pair {
        self.issue_for(names, days_left, KeyPair::generate().expect("a key"))
    }

    fn issue_for(&self, names: &[&str], days_left: i64, key: KeyPair) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("valid names");
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let at = |days: i64| epoch + Duration::from_secs((now().as_second() + days * DAY) as u64);
        (params.not_before, params.not_after) = (at(days_left - 90), at(days_left));
        let chain = params.signed_by(&key, &self.issuer).expect("a certificate").pem() + &self.pem;
        Pair { chain, key }
    }
}

impl Pair {
    fn pkcs8(&self) -> String {
        self.key.serialize_pem()
    }

    fn sec1(&self) -> String {
        to_pem("EC PRIVATE KEY", &sec1(&self.key))
    }
}

fn sec1(key: &KeyPair) -> Vec<u8> {
    let key = PrivateKey::from_private_key_der(&ECDH_P256, key.serialized_der()).expect("a P-256 key");
    AsDer::<EcPrivateKeyRfc5915Der<'_>>::as_der(&key).expect("its form of RFC 5915").as_ref().to_vec()
}

/// The octet string within PKCS#8, which is what precedes it for a modulus of 2048 bits.
fn pkcs1(key: &KeyPair) -> Vec<u8> {
    const BEFORE: usize = 26;
    key.serialized_der()[BEFORE..].to_vec()
}

fn jwk(key: &KeyPair) -> String {
    let private = PrivateKey::from_private_key_der(&ECDH_P256, key.serialized_der()).expect("a P-256 key");
    let d: EcPrivateKeyBin<'_> = private.as_be_bytes().expect("its number");
    let point = &key.der_bytes()[1..];
    let [x, y, d] = [&point[..32], &point[32..], d.as_ref()].map(|part| URL_SAFE_NO_PAD.encode(part));
    format!(r#"{{"kty": "EC", "crv": "P-256", "x": "{x}", "y": "{y}", "d": "{d}"}}"#)
}

fn now() -> Timestamp {
    "2026-11-20T10:00:00Z".parse().expect("a time")
}

/// What was taken and what was not, as text.
fn report(store: &ImportedStore, all: bool) -> Vec<String> {
    let selected = select(store, Choice { all }, now());
    let taken = selected.by_name.iter().map(|(name, index)| format!("{name}: {}", store.certificates[*index].from));
    let accounts = store.accounts.iter().map(|account| {
        let key = match &account.key {
            AccountKey::EcdsaP256(_) => "usable",
            AccountKey::Other(kind) => kind,
        };
        format!("account {} at {}, {:?}, {key}", account.url, account.directory, account.email)
    });
    let skipped = store.skipped.iter().chain(&selected.skipped).map(|skipped| format!("- {}: {}", skipped.what, skipped.why));
    taken.chain(accounts).chain(skipped).collect()
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

fn renewal(server: &str) -> String {
    format!(
        "version = 5.8.0\narchive_dir = /etc/letsencrypt/archive/x\n[renewalparams]\naccount = a1\nserver = {server}\nauthenticator = standalone\n"
    )
}

#[test]
fn certbots_folder_is_read_by_its_links() {
    let dir = TempDir::new().expect("a folder");
    let (ca, other_key) = (Ca::new("R12"), KeyPair::generate().expect("a key"));
    let [old, new, gone, staging, broken] = [
        ca.issue(&["shop.example", "www.shop.example"], 5),
        ca.issue(&["shop.example", "www.shop.example"], 65),
        ca.issue(&["gone.example"], -3),
        ca.issue(&["try.example"], 60),
        ca.issue(&["broken.example"], 60),
    ];
    let write_lineage = |name: &str, server: &str, generations: &[(&Pair, String)]| {
        write(dir.path(), &[(&format!("renewal/{name}.conf"), &renewal(server))]);
        for (index, (pair, key)) in generations.iter().enumerate() {
            let file = |kind: &str| format!("archive/{name}/{kind}{}.pem", index + 9);
            write(dir.path(), &[(&file("fullchain"), &pair.chain), (&file("privkey"), key)]);
        }
        let live = dir.path().join("live").join(name);
        fs::create_dir_all(&live).expect("a folder");
        for kind in ["fullchain", "privkey"] {
            let newest = format!("../../archive/{name}/{kind}{}.pem", generations.len() + 8);
            std::os::unix::fs::symlink(newest, live.join(format!("{kind}.pem"))).expect("a link");
        }
    };
    write_lineage("shop.example", LETS_ENCRYPT, &[(&old, old.pkcs8()), (&new, new.pkcs8())]);
    write_lineage("gone.example", LETS_ENCRYPT, &[(&gone, gone.pkcs8())]);
    write_lineage("try.example", STAGING, &[(&staging, staging.pkcs8())]);
    write_lineage("broken.example", LETS_ENCRYPT, &[(&broken, other_key.serialize_pem())]);
    write(
        dir.path(),
        &[
            ("live/README", "This directory contains your keys and certificates.\n"),
            ("renewal/nothing.example.conf", &renewal(LETS_ENCRYPT)),
            (
                "accounts/acme-v02.api.letsencrypt.org/directory/a1/private_key.json",
                r#"{"kty": "RSA", "n": "", "e": "AQAB", "d": ""}"#,
            ),
            (
                "accounts/acme-v02.api.letsencrypt.org/directory/a1/regr.json",
                r#"{"body": {}, "uri": "https://acme-v02.api.letsencrypt.org/acme/acct/1"}"#,
            ),
            ("accounts/localhost:14000/dir/a2/private_key.json", &jwk(&other_key)),
            (
                "accounts/localhost:14000/dir/a2/regr.json",
                r#"{"body": {"contact": ["mailto:a@shop.example"]}, "uri": "https://localhost:14000/my-account/2"}"#,
            ),
            ("accounts/localhost:14000/dir/a3/private_key.json", "{}"),
        ],
    );
    assert_eq!(recognise(dir.path()), Some(Program::Certbot));
    let store = read(Program::Certbot, &Files::read(Program::Certbot, dir.path()).expect("a readable folder"), None);
    let always = [
        "account https://acme-v02.api.letsencrypt.org/acme/acct/1 at https://acme-v02.api.letsencrypt.org/directory, None, RSA",
        "account https://localhost:14000/my-account/2 at https://localhost:14000/dir, Some(\"a@shop.example\"), usable",
        "- live/broken.example: the key in live/broken.example/privkey.pem does not belong to the certificate in live/broken.example/fullchain.pem; give the key that the certificate was requested with",
        "- live/nothing.example: there is no fullchain.pem",
        "- accounts/localhost:14000/dir/a3: private_key.json holds no key",
    ];
    let taken = ["shop.example: live/shop.example/fullchain.pem", "www.shop.example: live/shop.example/fullchain.pem"];
    let skipped = [
        "- gone.example (live/gone.example/fullchain.pem): it expired on 2026-11-17",
        "- try.example (live/try.example/fullchain.pem): it is from a test environment, and no client trusts it",
    ];
    assert_eq!(report(&store, false), [&taken[..], &always, &skipped].concat());
    let others =
        ["gone.example: live/gone.example/fullchain.pem", taken[0], "try.example: live/try.example/fullchain.pem", taken[1]];
    assert_eq!(report(&store, true), [&others[..], &always].concat());
    assert_eq!(
        store.certificates.iter().find(|found| found.names_text().contains("www.")).expect("it").not_after,
        now() + jiff::SignedDuration::from_hours(24 * 65)
    );

    // A copy without its links, as of `cp -r` to a place where they lead nowhere.
    fs::remove_dir_all(dir.path().join("live")).expect("a folder");
    let store = read(Program::Certbot, &Files::read(Program::Certbot, dir.path()).expect("a readable folder"), None);
    assert_eq!(report(&store, false)[0], "shop.example: archive/shop.example/fullchain10.pem");
}

#[test]
fn caddys_folder_is_read_with_wildcards_and_its_own_ca_left_out() {
    let ca = Ca::new("E7");
    let (shop, wild, own, alone) = (
        ca.issue(&["shop.example"], 60),
        ca.issue(&["*.wild.example"], 60),
        ca.issue(&["box.internal"], 1),
        ca.issue(&["a.example"], 60),
    );
    let account_key = KeyPair::generate().expect("a key");
    let meta = |name: &str, ca: &str| {
        format!(
            "{{\n\t\"sans\": [\n\t\t\"{name}\"\n\t],\n\t\"issuer_data\": {{\n\t\t\"url\": \"{ca}/cert\",\n\t\t\"ca\": \"{ca}\"\n\t}}\n}}"
        )
    };
    let account = |url: &str| {
        format!(
            "{{\n\t\"status\": \"valid\",\n\t\"contact\": [\n\t\t\"mailto:a@shop.example\"\n\t],\n\t\"termsOfServiceAgreed\": true,\n\t\"location\": \"{url}\"\n}}"
        )
    };
    let dir = TempDir::new().expect("a folder");
    write(
        dir.path(),
        &[
            ("certificates/acme-v02.api.letsencrypt.org-directory/shop.example/shop.example.crt", &shop.chain),
            ("certificates/acme-v02.api.letsencrypt.org-directory/shop.example/shop.example.key", &shop.sec1()),
            ("certificates/ca.example-9000-dir/wildcard_.wild.example/wildcard_.wild.example.crt", &wild.chain),
            ("certificates/ca.example-9000-dir/wildcard_.wild.example/wildcard_.wild.example.key", &wild.sec1()),
            (
                "certificates/ca.example-9000-dir/wildcard_.wild.example/wildcard_.wild.example.json",
                &meta("*.wild.example", "https://ca.example:9000/dir"),
            ),
            ("certificates/ca.example-9000-dir/a.example/a.example.crt", &alone.chain),
            ("certificates/local/box.internal/box.internal.crt", &own.chain),
            ("certificates/local/box.internal/box.internal.key", &own.sec1()),
            ("certificates/local/box.internal/box.internal.json", "{\"sans\": [\"box.internal\"], \"issuer_data\": null}"),
            ("acme/ca.example-9000-dir/users/a@shop.example/a.json", &account("https://ca.example:9000/acct/7")),
            ("acme/ca.example-9000-dir/users/a@shop.example/a.key", &to_pem("EC PRIVATE KEY", &sec1(&account_key))),
            ("acme/unknown.example-dir/users/default/default.json", &account("https://unknown.example/acct/8")),
            ("acme/unknown.example-dir/users/default/default.key", &to_pem("EC PRIVATE KEY", &sec1(&account_key))),
            ("acme/ca.example-9000-dir/challenge_tokens/a.json", "{}"),
            ("last_clean.json", "{}"),
        ],
    );
    assert_eq!(recognise(dir.path()), Some(Program::Caddy));
    let files = Files::read(Program::Caddy, dir.path()).expect("a readable folder");
    let store = read(Program::Caddy, &files, None);
    let shop = "shop.example: certificates/acme-v02.api.letsencrypt.org-directory/shop.example/shop.example.crt";
    let wild = "*.wild.example: certificates/ca.example-9000-dir/wildcard_.wild.example/wildcard_.wild.example.crt";
    let account = "account https://ca.example:9000/acct/7 at https://ca.example:9000/dir, Some(\"a@shop.example\"), usable";
    assert_eq!(
        report(&store, false),
        [
            wild,
            shop,
            account,
            "- certificates/ca.example-9000-dir/a.example/a.example.crt: there is no key beside it",
            "- acme/unknown.example-dir/users/default/default.json: it is not known which CA `unknown.example-dir` is; say it with --directory URL",
            "- box.internal (certificates/local/box.internal/box.internal.crt): it was signed by an internal CA; Tidegate's own does that for the same names",
        ]
    );
    let directories: Vec<_> = store.certificates.iter().map(|found| found.directory.as_deref()).collect();
    assert_eq!(directories, [Some(LETS_ENCRYPT), Some("https://ca.example:9000/dir"), None]);
    assert_eq!(store.certificates[2].origin, Origin::Internal);
    let told = read(Program::Caddy, &files, Some("https://unknown.example/dir"));
    assert!(told.accounts.iter().any(|account| account.directory == "https://unknown.example/dir"));
}

fn traefik_account(url: &str, key: &[u8]) -> String {
    let key = STANDARD.encode(key);
    format!(
        r#"{{"Email": "a@shop.example", "Registration": {{"body": {{"status": "valid", "contact": ["mailto:a@shop.example"]}}, "uri": "{url}"}}, "PrivateKey": "{key}", "KeyType": "4096"}}"#
    )
}

fn traefik(text: &str, directory: Option<&str>) -> Vec<String> {
    let mut files = Files::default();
    files.insert("", text);
    report(&read(Program::Traefik, &files, directory), false)
}

#[test]
fn traefiks_file_is_read_in_both_versions() {
    let ca = Ca::new("R13");
    let rsa = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).expect("a key");
    let shop =
        ca.issue_for(&["shop.example", "www.shop.example"], 60, KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).expect("a key"));
    let [chain, key] = [shop.chain.clone(), to_pem("RSA PRIVATE KEY", &pkcs1(&shop.key))].map(|pem| STANDARD.encode(pem));
    let account = traefik_account("https://acme-v02.api.letsencrypt.org/acme/acct/5", &pkcs1(&rsa));
    let taken = |from: &str| ["shop.example", "www.shop.example"].map(|name| format!("{name}: {from}: shop.example"));
    let told = "account https://acme-v02.api.letsencrypt.org/acme/acct/5 at https://acme-v02.api.letsencrypt.org/directory, Some(\"a@shop.example\"), RSA";

    let second = format!(
        r#"{{"le": {{"Account": {account}, "Certificates": [{{"domain": {{"main": "shop.example", "sans": ["www.shop.example"]}}, "certificate": "{chain}", "key": "{key}", "Store": "default"}}]}}, "other": {{"Account": null, "Certificates": null}}}}"#
    );
    let [one, two] = taken("resolver le");
    assert_eq!(traefik(&second, None), [&one, &two, told]);
    let first = format!(
        r#"{{"Account": {account}, "Certificates": [{{"Domain": {{"Main": "shop.example", "SANs": ["www.shop.example"]}}, "Certificate": "{chain}", "Key": "{key}"}}], "HTTPChallenges": {{}}, "TLSChallenges": {{}}}}"#
    );
    let [one, two] = taken("acme.json");
    assert_eq!(traefik(&first, None), [&one, &two, told]);

    let elsewhere = format!(
        r#"{{"le": {{"Account": {}, "Certificates": []}}}}"#,
        traefik_account("https://ca.example/a/1", &sec1(&KeyPair::generate().expect("a key")))
    );
    assert_eq!(
        traefik(&elsewhere, None),
        ["- resolver le: account: it is not known at which CA https://ca.example/a/1 is; say it with --directory URL"]
    );
    let of_rsa = format!(r#"{{"le": {{"Account": {}}}}}"#, traefik_account("https://ca.example/a/1", &pkcs1(&rsa)));
    let [told] = &traefik(&of_rsa, None)[..] else { panic!("one line") };
    assert!(told.starts_with("- resolver le: account: its key is RSA,"), "{told}");
    assert!(told.contains("a new account is made at this CA with the first order") && !told.contains("--directory"), "{told}");
    assert_eq!(
        traefik(&elsewhere, Some("https://ca.example/dir")),
        ["account https://ca.example/a/1 at https://ca.example/dir, Some(\"a@shop.example\"), usable"]
    );
}

#[test]
fn what_is_no_store_is_told() {
    let check = |text: &str, expected: &[&str]| assert_eq!(traefik(text, None), expected, "{text}");
    check("", &["- acme.json: it is not JSON: EOF while parsing a value at line 1 column 0"]);
    check("[]", &["- acme.json: it is JSON, but not that of Traefik"]);
    check("{}", &[]);
    check(r#"{"le": 7}"#, &[]);
    check(r#"{"le": {"Certificates": [{}]}}"#, &["- resolver le: ?: its certificate is not base64"]);
    check(
        r#"{"le": {"Certificates": [{"domain": {"main": "a.example"}, "certificate": "AAAA", "key": "AAAA"}]}}"#,
        &[
            "- resolver le: a.example: resolver le: a.example holds nothing in PEM form, not a certificate; it needs a `-----BEGIN CERTIFICATE-----` block",
        ],
    );
    let dir = TempDir::new().expect("a folder");
    assert_eq!(recognise(dir.path()), None);
    let file = dir.path().join("file");
    for (text, expected) in [("\n {\"le\": {}}", Some(Program::Traefik)), ("-----BEGIN CERTIFICATE-----", None), ("", None)] {
        fs::write(&file, text).expect("a file");
        assert_eq!(recognise(&file), expected, "{text}");
    }
    fs::remove_file(&file).expect("its owner may");
    assert!(Files::read(Program::Caddy, &dir.path().join("nowhere")).is_err());
}

#[test]
fn keys_of_every_form_become_one_that_signs() {
    let ca = Ca::new("R13");
    let check = |key: KeyPair, form: &dyn Fn(&KeyPair) -> String| {
        let pair = ca.issue_for(&["a.example"], 60, key);
        let mut files = Files::default();
        files.insert("live/a/fullchain.pem", pair.chain.as_str());
        files.insert("live/a/privkey.pem", form(&pair.key));
        let store = read(Program::Certbot, &files, None);
        let [found] = &store.certificates[..] else { panic!("{:?}", store.skipped) };
        assert!(found.key_pem.starts_with("-----BEGIN PRIVATE KEY-----\n"));
        let again = LoadedCertificate::from_pem(
            (Path::new("chain"), found.chain_pem.as_bytes()),
            Some((Path::new("key"), found.key_pem.as_bytes())),
        );
        assert!(again.is_ok(), "{:?}", again.err());
        let PrivateKeyDer::Pkcs8(_) = PrivateKeyDer::from_pem_slice(found.key_pem.as_bytes()).expect("a key") else {
            panic!("PKCS#8")
        };
    };
    use rustls_pki_types::pem::PemObject;
    let generate = |algorithm| KeyPair::generate_for(algorithm).expect("a key");
    for algorithm in
        [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519, &rcgen::PKCS_RSA_SHA256]
    {
        check(generate(algorithm), &KeyPair::serialize_pem);
    }
    check(generate(&rcgen::PKCS_ECDSA_P256_SHA256), &|key| to_pem("EC PRIVATE KEY", &sec1(key)));
    check(generate(&rcgen::PKCS_RSA_SHA256), &|key| to_pem("RSA PRIVATE KEY", &pkcs1(key)));
}

#[test]
fn of_several_for_a_name_the_trusted_one_that_lasts_longest_is_used() {
    let (ca, staging) = (Ca::new("R12"), Ca::new("(STAGING) Riddling Rhubarb R12"));
    let mut files = Files::default();
    let mut add = |lineage: &str, pair: &Pair| {
        files.insert(&format!("live/{lineage}/fullchain.pem"), pair.chain.as_str());
        files.insert(&format!("live/{lineage}/privkey.pem"), pair.pkcs8());
    };
    add("1", &ca.issue(&["a.example", "b.example"], 30));
    add("2", &ca.issue(&["a.example"], 60));
    add("3", &ca.issue(&["a.example"], 10));
    add("4", &staging.issue(&["a.example"], 80));
    let store = read(Program::Certbot, &files, None);
    let better = "- a.example (live/3/fullchain.pem): there is a better one for the same names";
    let taken = ["a.example: live/2/fullchain.pem", "b.example: live/1/fullchain.pem"];
    let untrusted = "- a.example (live/4/fullchain.pem): it is from a test environment, and no client trusts it";
    assert_eq!(report(&store, false), [taken[0], taken[1], untrusted, better]);
    assert_eq!(
        report(&store, true),
        [taken[0], taken[1], better, "- a.example (live/4/fullchain.pem): there is a better one for the same names"]
    );
}
