//! What Traefik keeps in `acme.json`: for each resolver an account and certificates, all of them base64 within JSON.
//! The first version knew one account, at the top, and wrote other capitals.
//!
//! ```text
//! { "<resolver>": { "Account": { "Email", "Registration": { "uri", "body" }, "PrivateKey": DER },
//!                   "Certificates": [ { "domain": { "main", "sans" }, "certificate": PEM, "key": PEM, "Store" } ] } }
//! ```

use crate::certbot::email;
use crate::files::{Files, ONLY};
use crate::{ImportedAccount, ImportedCertificate, ImportedStore, Skipped, directory, key};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use zeroize::Zeroizing;

pub fn read(files: &Files, given: Option<&str>) -> ImportedStore {
    let mut store = ImportedStore::default();
    let parsed = serde_json::from_slice::<Value>(files.get(ONLY).unwrap_or_default());
    let json = match parsed {
        Ok(json) if json.is_object() => json,
        Ok(_) => return unreadable("it is JSON, but not that of Traefik".to_owned()),
        Err(error) => return unreadable(format!("it is not JSON: {error}")),
    };
    let is_first_version = field(&json, "Account").is_some() || field(&json, "Certificates").is_some();
    if is_first_version {
        resolver(&mut store, "acme.json", &json, given);
    } else if let Some(resolvers) = json.as_object() {
        for (name, value) in resolvers {
            resolver(&mut store, &format!("resolver {name}"), value, given);
        }
    }
    store
}

fn unreadable(why: String) -> ImportedStore {
    ImportedStore { skipped: vec![Skipped { what: "acme.json".to_owned(), why }], ..ImportedStore::default() }
}

fn resolver(store: &mut ImportedStore, name: &str, json: &Value, given: Option<&str>) {
    let account = field(json, "Account").filter(|account| !account.is_null());
    let url = account.and_then(|account| field(field(account, "Registration")?, "uri")).and_then(Value::as_str);
    let found = given.or_else(|| url.and_then(directory::of_account));
    if let Some(account) = account {
        match self::account(account, url, found, name) {
            Ok(account) => store.accounts.push(account),
            Err(why) => store.skipped.push(Skipped { what: format!("{name}: account"), why }),
        }
    }
    let certificates = field(json, "Certificates").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for entry in certificates {
        let main = field(entry, "domain").and_then(|domain| field(domain, "main")).and_then(Value::as_str).unwrap_or("?");
        let what = format!("{name}: {main}");
        match certificate(entry, &what, found) {
            Ok(certificate) => store.certificates.push(certificate),
            Err(why) => store.skipped.push(Skipped { what, why }),
        }
    }
}

fn certificate(entry: &Value, what: &str, directory: Option<&str>) -> Result<ImportedCertificate, String> {
    let chain = decoded(entry, "certificate").ok_or("its certificate is not base64")?;
    let key = decoded(entry, "key").ok_or("its key is not base64")?;
    ImportedCertificate::check((what, &chain), (what, &key), directory.map(str::to_owned))
}

fn account(account: &Value, url: Option<&str>, directory: Option<&str>, name: &str) -> Result<ImportedAccount, String> {
    let url = url.ok_or("it does not say the account's address")?;
    let der = decoded(account, "PrivateKey").ok_or("its key is not base64")?;
    let key = key::account_key_of_der(&der).ok_or("its key cannot be read")?;
    // Whoever finds the CA of an account that cannot be used has done it for nothing.
    let unknown = || format!("it is not known at which CA {url} is; say it with --directory URL");
    let directory = directory.ok_or_else(|| key.obstacle().unwrap_or_else(unknown))?;
    let registered = field(account, "Registration").and_then(|registration| field(registration, "body"));
    let written = field(account, "Email").and_then(Value::as_str).filter(|email| !email.is_empty()).map(str::to_owned);
    Ok(ImportedAccount {
        directory: directory.to_owned(),
        url: url.to_owned(),
        email: written.or_else(|| email(registered)),
        key,
        from: format!("{name}: account"),
    })
}

fn decoded(json: &Value, name: &str) -> Option<Zeroizing<Vec<u8>>> {
    STANDARD.decode(field(json, name)?.as_str()?).ok().filter(|bytes| !bytes.is_empty()).map(Zeroizing::new)
}

/// Go reads field names in any case, so files have them in several.
fn field<'a>(json: &'a Value, name: &str) -> Option<&'a Value> {
    json.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
