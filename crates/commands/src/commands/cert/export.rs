//! `tidegate cert export`: a certificate of the storage becomes files for a program that wants files. A copy: when the
//! certificate is renewed, it is exported again.

use super::kept::{self, Place};
use crate::cli::cert::Export;
use crate::commands::fail;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tidegate_acme::{Subject, stored};
use tidegate_certs::to_pem;
use tidegate_storage::Store;
use zeroize::Zeroizing;

const AS_WRITTEN: &str = "write it as in the configuration: `example.com`, `*.example.com` or `203.0.113.7`";
/// Names that a message offers.
const OFFERED_MAX: usize = 10;

/// What is written, each with its mode.
struct Parts {
    chain: String,
    key: Zeroizing<String>,
}

pub fn run(wanted: &Export) -> ExitCode {
    let outcome = Subject::parse(&wanted.name)
        .map_err(|why| format!("`{}` is no name of a certificate: {}\n  help: {AS_WRITTEN}", wanted.name, why.0))
        .and_then(|subject| export(wanted, &subject));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&why),
    }
}

fn export(wanted: &Export, subject: &Subject) -> Result<(), String> {
    let place = Place::of(&wanted.kept)?;
    let parts = kept::runtime()?.block_on(find(&place, subject, &wanted.name))?;
    let folder = wanted.out.clone().unwrap_or_else(|| PathBuf::from(subject.storage_segment()));
    fs::create_dir_all(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let combined = Zeroizing::new(format!("{}{}", parts.chain, parts.key.as_str()));
    let files: [(&str, &str, u32); 3] =
        [("chain.pem", &parts.chain, 0o644), ("key.pem", &parts.key, 0o600), ("combined.pem", &combined, 0o600)];
    for (name, text, mode) in files {
        let file = folder.join(name);
        replace(&file, text.as_bytes(), mode).map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        println!("{}", file.display());
    }
    Ok(())
}

async fn find(place: &Place, subject: &Subject, name: &str) -> Result<Parts, String> {
    if !place.exists() {
        return Err("there is no storage yet\n  help: name the state folder of the process with --state-dir, or the folder of `storage` with --storage".to_owned());
    }
    let store = place.open().await?;
    let Some(stored) = kept::read(&store, subject).await.map_err(|fault| fault.to_string())? else {
        let others = names(&store).await?;
        let help = if others.is_empty() {
            "it has none at all; name another with --state-dir or --storage".to_owned()
        } else {
            format!("it has those of {others}")
        };
        return Err(format!("{} has no certificate for {name}\n  help: {help}", store.describe()));
    };
    let chain = stored.loaded.certified_key.cert.iter().map(|certificate| to_pem("CERTIFICATE", certificate)).collect();
    let key = PrivateKeyDer::from_pem_slice(stored.bundle.as_bytes()).map_err(|_| format!("the key of {name} cannot be read"))?;
    Ok(Parts { chain, key: Zeroizing::new(to_pem("PRIVATE KEY", key.secret_der())) })
}

/// Some of the names that there are, as text.
async fn names(store: &Store) -> Result<String, String> {
    let keys = store.list(stored::CERTIFICATES).await.map_err(|fault| fault.to_string())?;
    let bundles = keys.iter().filter_map(|key| key.strip_prefix(stored::CERTIFICATES)?.strip_suffix("/bundle.pem"));
    let mut names: Vec<String> = bundles.map(|segment| segment.replacen("wildcard_", "*", 1)).collect();
    let more = names.len() > OFFERED_MAX;
    names.truncate(OFFERED_MAX);
    Ok(names.join(", ") + if more { ", …" } else { "" })
}

/// Whoever reads the file at this moment sees the one before or this one.
fn replace(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let unfinished = file.with_extension("pem.new");
    match fs::remove_file(&unfinished) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut handle = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
    handle.write_all(bytes)?;
    handle.sync_all()?;
    fs::rename(&unfinished, file)
}
