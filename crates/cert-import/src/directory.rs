//! Which CA something belongs to: by the URL of its ACME directory, by the address of an account there, or by the
//! folder that Caddy makes of the URL. What is not known is nothing, and never a guess.

use tidegate_model::AcmeAuthority;

/// The directory at which this account is, when the CA is a known one: accounts live on the same host.
pub fn of_account(url: &str) -> Option<&'static str> {
    let host = host(url)?;
    known().find(|directory| self::host(directory) == Some(host))
}

/// The directory for which Caddy makes a folder of this name: host and path, with `-` for what a file name should not
/// have.
pub fn of_caddy_folder<'a>(folder: &str, seen: impl Iterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&'a str> = known().collect();
    seen.chain(known).find(|directory| caddy_folder(directory) == folder).map(str::to_owned)
}

/// Certificates of test environments are trusted by nobody. Let's Encrypt's say so in their issuer's name.
pub fn is_staging(directory: Option<&str>, issuer: &str) -> bool {
    let by_directory = directory.and_then(host).is_some_and(|host| host.contains("staging") || host.contains(".test-api."));
    by_directory || issuer.contains("(STAGING)") || issuer.contains("Fake LE ")
}

fn caddy_folder(directory: &str) -> String {
    let bare = directory.split_once("://").map_or(directory, |(_, rest)| rest);
    bare.trim_end_matches('/').replace(['/', ':'], "-").to_ascii_lowercase()
}

fn known() -> impl Iterator<Item = &'static str> {
    AcmeAuthority::PRESETS.iter().flat_map(|(_, directory, staging)| std::iter::once(*directory).chain(*staging))
}

fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?', '#']).next().filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{is_staging, of_account, of_caddy_folder};

    #[test]
    fn accounts_and_folders_belong_to_known_directories() {
        let check = |url: &str, expected: Option<&str>| assert_eq!(of_account(url), expected, "{url}");
        check("https://acme-v02.api.letsencrypt.org/acme/acct/42", Some("https://acme-v02.api.letsencrypt.org/directory"));
        check("https://acme.zerossl.com/v2/DV90/account/a", Some("https://acme.zerossl.com/v2/DV90"));
        check("https://ca.example/account/1", None);
        check("account", None);
        let check = |folder: &str, expected: Option<&str>| {
            assert_eq!(of_caddy_folder(folder, ["https://localhost:14000/dir"].into_iter()).as_deref(), expected, "{folder}");
        };
        check("acme-v02.api.letsencrypt.org-directory", Some("https://acme-v02.api.letsencrypt.org/directory"));
        check("acme.zerossl.com-v2-dv90", Some("https://acme.zerossl.com/v2/DV90"));
        check("localhost-14000-dir", Some("https://localhost:14000/dir"));
        check("local", None);
    }

    #[test]
    fn test_environments_are_known_by_directory_or_issuer() {
        let check = |directory: Option<&str>, issuer: &str, expected: bool| {
            assert_eq!(is_staging(directory, issuer), expected, "{directory:?} {issuer}");
        };
        check(Some("https://acme-staging-v02.api.letsencrypt.org/directory"), "CN=x", true);
        check(Some("https://dv.acme-v02.test-api.pki.goog/directory"), "CN=x", true);
        check(None, "C=US, O=(STAGING) Let's Encrypt, CN=(STAGING) Riddling Rhubarb R12", true);
        check(Some("https://acme-v02.api.letsencrypt.org/directory"), "C=US, O=Let's Encrypt, CN=E7", false);
        check(None, "CN=Staging Yard Railways CA", false);
    }
}
