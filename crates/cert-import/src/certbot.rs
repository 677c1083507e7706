//! What certbot keeps below `/etc/letsencrypt`.
//!
//! ```text
//! live/<lineage>/{fullchain,privkey}.pem           links to the newest in archive/<lineage>/{fullchain,privkey}N.pem
//! renewal/<lineage>.conf                           `server` and `account` in the section `renewalparams`
//! accounts/<host>/<path>/<id>/private_key.json     a JSON Web Key, for the directory https://<host>/<path>
//! accounts/<host>/<path>/<id>/regr.json            the account's address, and in older ones who is written to
//! ```

use crate::files::Files;
use crate::{ImportedAccount, ImportedCertificate, ImportedStore, Skipped, key};
use serde_json::Value;
use std::collections::BTreeSet;

pub fn read(files: &Files) -> ImportedStore {
    let mut store = ImportedStore::default();
    for lineage in lineages(files) {
        match certificate(files, lineage) {
            Ok(certificate) => store.certificates.push(certificate),
            // What is missing because it could not be read is told by its own file.
            Err(_) if files.has_fault(&format!("live/{lineage}/")) => {}
            Err(why) => store.skipped.push(Skipped { what: format!("live/{lineage}"), why }),
        }
    }
    for (path, json) in files.below("accounts/") {
        let Some(folder) = path.strip_suffix("/private_key.json") else { continue };
        match account(files, folder, json) {
            Ok(account) => store.accounts.push(account),
            Err(why) => store.skipped.push(Skipped { what: folder.to_owned(), why }),
        }
    }
    store
}

fn lineages(files: &Files) -> BTreeSet<&str> {
    let folders = ["live/", "archive/"].into_iter().flat_map(|parent| files.below(parent));
    let in_folders = folders.filter_map(|(path, _)| {
        let mut segments = path.split('/').skip(1);
        segments.next().filter(|_| segments.next().is_some())
    });
    let renewed =
        files.below("renewal/").filter_map(|(path, _)| path.strip_prefix("renewal/").and_then(|name| name.strip_suffix(".conf")));
    in_folders.chain(renewed).collect()
}

fn certificate(files: &Files, lineage: &str) -> Result<ImportedCertificate, String> {
    let renewal = files.get(&format!("renewal/{lineage}.conf")).map(|conf| String::from_utf8_lossy(conf).into_owned());
    let server = renewal.as_deref().and_then(|conf| renewal_parameter(conf, "server")).map(str::to_owned);
    let live = [format!("live/{lineage}/fullchain.pem"), format!("live/{lineage}/privkey.pem")];
    // Copying a store often loses the links, and then the newest of the archive is the one.
    let [chain_file, key_file] = if files.get(&live[0]).is_some() {
        live
    } else {
        let newest = newest_in_archive(files, lineage).ok_or("there is no fullchain.pem")?;
        [format!("archive/{lineage}/fullchain{newest}.pem"), format!("archive/{lineage}/privkey{newest}.pem")]
    };
    let chain = files.get(&chain_file).ok_or("there is no fullchain.pem")?;
    let key = files.get(&key_file).ok_or("there is no privkey.pem")?;
    ImportedCertificate::check((&chain_file, chain), (&key_file, key), server)
}

fn newest_in_archive(files: &Files, lineage: &str) -> Option<u32> {
    let prefix = format!("archive/{lineage}/fullchain");
    files.below(&prefix).filter_map(|(path, _)| path[prefix.len()..].strip_suffix(".pem")?.parse().ok()).max()
}

fn account(files: &Files, folder: &str, json: &[u8]) -> Result<ImportedAccount, String> {
    let (directory, _id) = folder.trim_start_matches("accounts/").rsplit_once('/').ok_or("it belongs to no CA")?;
    if directory.starts_with("acme-v01.") {
        return Err("its CA no longer speaks the first version of ACME; a new account is made with the first order".to_owned());
    }
    let key = key::account_key_of_jwk(json).ok_or("private_key.json holds no key")?;
    let registration =
        files.get(&format!("{folder}/regr.json")).ok_or("there is no regr.json, which has the account's address")?;
    let registration: Value = serde_json::from_slice(registration).map_err(|error| format!("regr.json is not JSON: {error}"))?;
    let url = registration.get("uri").and_then(Value::as_str).ok_or("regr.json does not say the account's address")?;
    Ok(ImportedAccount {
        directory: format!("https://{directory}"),
        url: url.to_owned(),
        email: email(registration.get("body")),
        key,
        from: folder.to_owned(),
    })
}

/// Of an account as the CA describes it (RFC 8555 section 7.1.2).
pub fn email(account: Option<&Value>) -> Option<String> {
    let contacts = account?.get("contact")?.as_array()?;
    contacts.iter().filter_map(Value::as_str).find_map(|contact| contact.strip_prefix("mailto:")).map(str::to_owned)
}

/// A value of the section `renewalparams`, up to the next section.
fn renewal_parameter<'a>(conf: &'a str, name: &str) -> Option<&'a str> {
    let parameters = conf.lines().map(str::trim).skip_while(|line| *line != "[renewalparams]").skip(1);
    let mut parameters = parameters.take_while(|line| !line.starts_with('['));
    let value = parameters.find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == name))?.1.trim();
    let bare = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    Some(bare.unwrap_or(value)).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::renewal_parameter;

    #[test]
    fn the_server_of_a_renewal() {
        let check = |conf: &str, expected: Option<&str>| assert_eq!(renewal_parameter(conf, "server"), expected, "{conf}");
        check(
            "version = 5\nserver = https://early/\n[renewalparams]\naccount = a\nserver = https://ca/dir\n",
            Some("https://ca/dir"),
        );
        check("[renewalparams]\nserver = \"https://ca/dir\"\n", Some("https://ca/dir"));
        check("[renewalparams]\nserver =\n", None);
        check("[renewalparams]\n[[webroot_map]]\nserver = /var/www\n", None);
        check("", None);
    }
}
