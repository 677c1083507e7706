//! Fifty thousand certificates: how long loading takes, what they weigh, and that finding one costs what it costs among
//! ten. A measurement, not a test, so it runs only when asked for:
//!
//! `COUNT=50000 cargo test -p tidegate-certs --test many -- --ignored --nocapture`

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::SignatureScheme;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_certs::{ServedFiles, SiteCertificates};
use tidegate_model::Certificate;

const LOOKUPS: usize = 200_000;

#[test]
#[ignore = "a measurement that asserts no time: it makes 50,000 keys, and its command stands at the top of this file"]
fn many_certificates() {
    let count = std::env::var("COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(50_000);
    let folder = tempfile::tempdir().expect("a folder");
    let files = issue(folder.path(), count);
    // The first time the library sets itself up.
    let few =
        SiteCertificates::from_files(&files[..10], None, &ServedFiles::new(), Timestamp::now()).expect("usable certificates");
    let (before, began) = (resident_bytes(), Instant::now());
    let many = SiteCertificates::from_files(&files, None, &ServedFiles::new(), Timestamp::now()).expect("usable certificates");
    let took = began.elapsed();
    let each = (resident_bytes() - before) / count as u64;
    println!("{count} certificates loaded in {took:?}, {each} bytes of memory each");
    println!("found among 10 in {:?}, among {count} in {:?}", time_of_lookup(&few, 10), time_of_lookup(&many, count));
    let began = Instant::now();
    assert!(many.renew_if_due(Timestamp::now()).errors.is_empty());
    println!("looked at again in {:?}", began.elapsed());
}

/// Each from its own key, all from one intermediate.
fn issue(folder: &Path, count: usize) -> Vec<Certificate> {
    let authority = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let root_key = KeyPair::generate().expect("a key");
    let root = Issuer::new(authority("root"), root_key);
    let key = KeyPair::generate().expect("a key");
    let params = authority("intermediate");
    let intermediate_pem = params.signed_by(&key, &root).expect("a certificate").pem();
    let issuer = Issuer::new(params, key);
    let one = |number: usize| {
        let params = CertificateParams::new(vec![name(number), format!("www.{}", name(number))]).expect("valid names");
        let key = KeyPair::generate().expect("a key");
        let pem = params.signed_by(&key, &issuer).expect("a certificate").pem();
        let (cert, key_file) = (folder.join(format!("{number}.crt")), folder.join(format!("{number}.key")));
        std::fs::write(&cert, pem + &intermediate_pem).expect("written");
        std::fs::write(&key_file, key.serialize_pem()).expect("written");
        Certificate { cert: cert.into(), key: Some(key_file.into()) }
    };
    (0..count).map(one).collect()
}

fn name(number: usize) -> String {
    format!("site-{number}.example.com")
}

fn time_of_lookup(certificates: &SiteCertificates, count: usize) -> Duration {
    let names: Vec<String> = (0..1000).map(|step| name(step * 7919 % count)).collect();
    let current = certificates.current();
    let began = Instant::now();
    for step in 0..LOOKUPS {
        let found = current.choose(Some(&names[step % names.len()]), &[SignatureScheme::ECDSA_NISTP256_SHA256]);
        assert!(black_box(found).is_some());
    }
    began.elapsed() / LOOKUPS as u32
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}
