//! testssl.sh against a site as it is without a word, and against one with `min "1.2"` and certificates of both kinds:
//! nothing above "INFO".

use crate::grade::{internal_root, start};
use crate::programs::find;
use rcgen::{
    BasicConstraints, CertificateParams, CrlDistributionPoint, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, SignatureAlgorithm,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Program, Surroundings};

/// A minute on two idle cores; it runs OpenSSL some two thousand times.
const BOUND: Duration = Duration::from_secs(600);

/// What testssl.sh does without being told what to do, except for two parts that take half of its time and rate
/// nothing: the list of each cipher that is taken (`-e`), and which of thirty clients would connect with which (`-c`).
const PARTS: [&str; 8] =
    ["--protocols", "--standard", "--pfs", "--server-preference", "--server-defaults", "--headers", "--vulnerable", "--rc4"];

/// Of the program that asks.
const ITS_OWN: [&str; 2] = [
    // It runs an OpenSSL without GOST.
    "engine_problem",
    // The client's first connection ends without reading, so on a busy machine it has no ticket of TLS 1.3 to come back
    // with, which it takes for a fault of the network. Otherwise this is never more than "INFO"; `openssl.rs` reads,
    // and resumes.
    "sessionresumption_ticket",
];

/// What is told of a default site and is not the proxy's to mend.
const NOT_THE_PROXYS: [&str; 3] = [
    // The internal CA has no list and no responder, because its certificates end within 30 days. Public CAs say where
    // theirs is.
    "cert_revocation",
    // A promise to browsers for a year ahead, which only the owner of the name can give, and which no reload takes
    // back. One line, as in the other site.
    "HSTS",
    // About the page, whose application knows what it embeds.
    "security_headers",
];

/// What has to be absent, or safe, in the words of the program; each was looked for, or the run would have found
/// nothing because it did nothing.
const LOOKED_FOR: [(&str, &str); 24] = [
    ("SSLv2", "not offered"),
    ("SSLv3", "not offered"),
    ("TLS1", "not offered"),
    ("TLS1_1", "not offered"),
    ("TLS1_2", "offered"),
    ("TLS1_3", "offered"),
    ("cipherlist_NULL", "not offered"),
    ("cipherlist_aNULL", "not offered"),
    ("cipherlist_EXPORT", "not offered"),
    ("cipherlist_LOW", "not offered"),
    ("cipherlist_3DES_IDEA", "not offered"),
    // CBC, of 128 and 256 bits.
    ("cipherlist_AVERAGE", "not offered"),
    ("cipherlist_STRONG", "offered"),
    ("cipher_order", "server"),
    ("cert_chain_of_trust", "passed"),
    ("cert_trust", "Ok via SAN"),
    ("RC4", "not vulnerable"),
    ("SWEET32", "not vulnerable"),
    ("BEAST", "not vulnerable"),
    ("LUCKY13", "not vulnerable"),
    ("ROBOT", "not vulnerable"),
    ("CRIME_TLS", "not vulnerable"),
    ("secure_renego", "supported"),
    ("secure_client_renego", "not vulnerable"),
];

#[test]
fn testssl_finds_nothing() {
    let Some(testssl) = find("testssl") else { return };
    let folder = TempDir::new().expect("a folder");
    let files = Files::make(folder.path());
    let upstream = Upstream::start(Behaviour::new(Answer::Text(b"hello from behind".to_vec()))).expect("a port is free");
    let mut proxy = start(&format!(
        r#"
site "https://localhost:{{port}}" {{ proxy "{upstream}"; }}
site "https://localhost:{{port:both}}" {{
    tls cert="{ecdsa}.crt" key="{ecdsa}.key" {{ min "1.2"; }}
    tls cert="{rsa}.crt" key="{rsa}.key"
    header "Strict-Transport-Security" "max-age=31536000"
    header "X-Content-Type-Options" "nosniff"
    proxy "{upstream}"
}}
"#,
        upstream = upstream.address,
        ecdsa = files.ecdsa.display(),
        rsa = files.rsa.display(),
    ));
    let [default, both] = ["{port}", "{port:both}"].map(|port| proxy.places.fill(port).expect("a port"));
    let internal = internal_root(&proxy);
    // Most of its time it waits for OpenSSL to give up on ciphers that nobody takes, so both are looked at together.
    let (default, both) = thread::scope(|scope| {
        let first = scope.spawn(|| look(&testssl, folder.path(), &default, &internal));
        let second = scope.spawn(|| look(&testssl, folder.path(), &both, &files.root.display().to_string()));
        (first.join().expect("a report"), second.join().expect("a report"))
    });
    default.check(&NOT_THE_PROXYS);
    both.check(&[]);
}

fn look(testssl: &Path, folder: &Path, port: &str, root: &str) -> Report {
    let report = folder.join(format!("{port}.json"));
    let mut arguments = PARTS.map(str::to_owned).to_vec();
    // Nothing outside is asked: no resolver, no list of a CA.
    let more = ["--warnings", "off", "--color", "0", "--quiet", "--nodns", "none", "--ip", "127.0.0.1", "--add-ca", root];
    arguments.extend(more.map(str::to_owned));
    arguments.extend(["--jsonfile".to_owned(), report.display().to_string(), format!("https://localhost:{port}")]);
    // testssl.sh warns of certificates that end within 60 days, and of 30 loudly. The internal CA's last 30, and are
    // renewed when ten are left.
    let environment = [("DAYS2WARN1", "10"), ("DAYS2WARN2", "5")].map(|(name, value)| (name, value.to_owned())).to_vec();
    let surroundings = Surroundings { environment, has_descendants: true, ..Surroundings::default() };
    let mut program = Program::start_in(testssl, &arguments, folder, &surroundings).expect("it starts");
    program.wait_exit(BOUND).unwrap_or_else(|error| panic!("{error}\n{}", program.output()));
    let text = fs::read_to_string(&report).unwrap_or_else(|error| panic!("no report: {error}\n{}", program.output()));
    Report { findings: serde_json::from_str(&text).expect("JSON"), output: program.output() }
}

/// Findings as the program writes them: `id`, `severity`, `finding` and where.
struct Report {
    findings: Vec<Value>,
    output: String,
}

impl Report {
    fn check(&self, excused: &[&str]) {
        let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
        let serious: Vec<&Value> = self
            .findings
            .iter()
            .filter(|finding| !["OK", "INFO"].contains(&text(finding, "severity").as_str()))
            .filter(|finding| !ITS_OWN.iter().chain(excused).any(|id| text(finding, "id") == *id))
            .collect();
        assert!(serious.is_empty(), "{serious:#?}\n{}", self.output);
        for (id, expected) in LOOKED_FOR {
            // Of several certificates each has its own: `cert_trust <cert#2>`.
            let is_of = |finding: &&Value| text(finding, "id").split(' ').next() == Some(id);
            let found: Vec<&Value> = self.findings.iter().filter(is_of).collect();
            let is_good = found.iter().all(|finding| text(finding, "finding").starts_with(expected));
            assert!(is_good && !found.is_empty(), "{id} is not {expected}: {found:#?}\n{}", self.output);
        }
    }
}

/// What a public CA gives its customers: certificates of 90 days that say where revocations are. Names of files,
/// without their ends.
struct Files {
    root: PathBuf,
    ecdsa: PathBuf,
    rsa: PathBuf,
}

impl Files {
    fn make(folder: &Path) -> Files {
        let mut params = params("Authority of the test", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let root = folder.join("root.pem");
        fs::write(&root, params.self_signed(&key).expect("a certificate").pem()).expect("a file");
        let issuer = Issuer::new(params, key);
        let leaf = |name: &str, algorithm: &'static SignatureAlgorithm| {
            let mut params = self::params("localhost", &["localhost"]);
            params.use_authority_key_identifier_extension = true;
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.crl_distribution_points = vec![CrlDistributionPoint { uris: vec!["http://crl.test/root.crl".to_owned()] }];
            let key = KeyPair::generate_for(algorithm).expect("a key");
            let certificate = params.signed_by(&key, &issuer).expect("a certificate");
            let stem = folder.join(name);
            fs::write(stem.with_extension("crt"), certificate.pem()).expect("a file");
            fs::write(stem.with_extension("key"), key.serialize_pem()).expect("a file");
            stem
        };
        let (ecdsa, rsa) = (leaf("ecdsa", &PKCS_ECDSA_P256_SHA256), leaf("rsa", &PKCS_RSA_SHA256));
        Files { root, ecdsa, rsa }
    }
}

/// From the first of this month, so it has begun everywhere, and for three months.
fn params(common_name: &str, names: &[&str]) -> CertificateParams {
    let today = jiff::Zoned::now().date();
    let end = today.first_of_month().saturating_add(jiff::Span::new().months(4));
    let date = |date: jiff::civil::Date| rcgen::date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8);
    let mut params =
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("valid names");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date(today.first_of_month());
    params.not_after = date(end);
    params
}
