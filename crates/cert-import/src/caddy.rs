//! What Caddy keeps below its data folder. `<ca>` is host and path of the CA's directory with `-` in the place of `/`
//! and `:`, or `local` for the program's own CA; `*` in a name is written as `wildcard_`.
//!
//! ```text
//! certificates/<ca>/<name>/<name>.{crt,key}      chain and key
//! certificates/<ca>/<name>/<name>.json           names, and in `issuer_data.ca` the CA's directory
//! acme/<ca>/users/<mail>/<user>.{json,key}       the account as the CA describes it, address in `location`; its key
//! ```

use crate::certbot::email;
use crate::files::Files;
use crate::{ImportedAccount, ImportedCertificate, ImportedStore, Origin, Skipped, directory, key};
use serde_json::Value;
use std::collections::BTreeSet;

/// The folder of what Caddy signed itself.
const OWN_CA: &str = "local";

pub fn read(files: &Files, given: Option<&str>) -> ImportedStore {
    let mut store = ImportedStore::default();
    for (path, chain) in files.below("certificates/") {
        let Some(stem) = path.strip_suffix(".crt") else { continue };
        match certificate(files, stem, chain) {
            Ok(certificate) => store.certificates.push(certificate),
            Err(_) if files.has_fault(stem) => {}
            Err(why) => store.skipped.push(Skipped { what: path.to_owned(), why }),
        }
    }
    // Which directories there are is said by certificates, and accounts are found by the names of their folders.
    let seen: BTreeSet<String> = store.certificates.iter().filter_map(|certificate| certificate.directory.clone()).collect();
    let seen: Vec<&str> = given.into_iter().chain(seen.iter().map(String::as_str)).collect();
    for (path, json) in files.below("acme/") {
        let Some(stem) = path.strip_suffix(".json").filter(|stem| stem.split('/').nth(2) == Some("users")) else { continue };
        match account(files, stem, json, &seen) {
            Ok(account) => store.accounts.push(account),
            Err(_) if files.has_fault(stem) => {}
            Err(why) => store.skipped.push(Skipped { what: path.to_owned(), why }),
        }
    }
    store
}

fn certificate(files: &Files, stem: &str, chain: &[u8]) -> Result<ImportedCertificate, String> {
    let key_file = format!("{stem}.key");
    let key = files.get(&key_file).ok_or("there is no key beside it")?;
    let meta: Option<Value> = files.get(&format!("{stem}.json")).and_then(|json| serde_json::from_slice(json).ok());
    let issuer_data = meta.as_ref().and_then(|meta| meta.get("issuer_data"));
    let said = issuer_data.and_then(|data| data.get("ca")).and_then(Value::as_str).map(str::to_owned);
    let ca_folder = stem.split('/').nth(1).unwrap_or_default();
    let found = said.or_else(|| directory::of_caddy_folder(ca_folder, std::iter::empty()));
    let mut certificate = ImportedCertificate::check((&format!("{stem}.crt"), chain), (&key_file, key), found)?;
    if ca_folder == OWN_CA {
        certificate.origin = Origin::Internal;
    }
    Ok(certificate)
}

fn account(files: &Files, stem: &str, json: &[u8], seen: &[&str]) -> Result<ImportedAccount, String> {
    let account: Value = serde_json::from_slice(json).map_err(|error| format!("it is not JSON: {error}"))?;
    let url = account.get("location").and_then(Value::as_str).ok_or("it does not say the account's address")?;
    let key = files.get(&format!("{stem}.key")).ok_or("there is no key beside it")?;
    let key = key::account_key_of_pem(key).ok_or("its key cannot be read")?;
    let ca_folder = stem.split('/').nth(1).unwrap_or_default();
    let directory = directory::of_caddy_folder(ca_folder, seen.iter().copied());
    let directory = directory.ok_or_else(|| format!("it is not known which CA `{ca_folder}` is; say it with --directory URL"))?;
    Ok(ImportedAccount { directory, url: url.to_owned(), email: email(Some(&account)), key, from: format!("{stem}.json") })
}
