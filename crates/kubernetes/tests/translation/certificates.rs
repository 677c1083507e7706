//! Certificates of tests, made when they are asked for, and told apart by whom they are for.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{LazyLock, Mutex, PoisonError};
use tempfile::TempDir;
use tidegate_testkit::authority::{Authority, KeyKind};

/// A chain and its key, in PEM.
#[derive(Debug, Clone)]
pub struct PemPair {
    pub certificate: String,
    pub key: String,
}

struct Issued {
    _folder: TempDir,
    authority: Authority,
    by_names: BTreeMap<String, PemPair>,
}

static ISSUED: LazyLock<Mutex<Issued>> = LazyLock::new(|| {
    let folder = TempDir::new().expect("a folder");
    let authority = Authority::new(folder.path(), "cluster").expect("an authority");
    Mutex::new(Issued { _folder: folder, authority, by_names: BTreeMap::new() })
});

/// The certificate for these names, joined by `+`; the same one each time.
pub fn pair(names: &str) -> PemPair {
    let mut issued = ISSUED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = issued.by_names.get(names) {
        return known.clone();
    }
    let files = issued.authority.issue(names, KeyKind::Ecdsa).expect("a certificate");
    let read = |path| fs::read_to_string(path).expect("PEM");
    let pair = PemPair { certificate: read(&files.cert), key: read(&files.key) };
    issued.by_names.insert(names.to_owned(), pair.clone());
    pair
}

/// Who has issued all of them.
pub fn authority() -> String {
    let issued = ISSUED.lock().unwrap_or_else(PoisonError::into_inner);
    fs::read_to_string(issued.authority.root_file()).expect("PEM")
}

/// Whom the PEM is for, and what it is.
pub fn label(pem: &str) -> Option<String> {
    if pem == authority() {
        return Some("authority".to_owned());
    }
    let issued = ISSUED.lock().unwrap_or_else(PoisonError::into_inner);
    issued.by_names.iter().find_map(|(names, pair)| {
        let kind = if pair.certificate == pem { "certificate" } else { "key" };
        (pair.certificate == pem || pair.key == pem).then(|| format!("{kind} of {names}"))
    })
}
