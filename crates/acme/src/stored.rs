//! What is kept in storage, under which keys, and in which form. Every process that shares a storage reads and writes
//! these.
//!
//! ```text
//! acme/certificates/<name>/bundle.pem
//!     chain and key in one text: replaced as one, so never a pair that does not fit
//! acme/certificates/<name>/facts.json
//!     what the bundle does not say: which CA, when to renew; belongs to the bundle with its serial number
//! acme/certificates/<name>/order.json
//!     an order on its way, with the key of the certificate: written before the CA is asked, and again with
//!     the order's address before it is finalised; removed when the bundle is stored
//! acme/certificates/<name>/history.json
//!     the attempts of the last week and what went wrong, so that a restart neither forgets a quota nor begins anew
//! acme/answers/http-<hex>, tls-<name>
//!     what challenges of open orders are answered with, where hosts share a storage; each has an end
//! acme/accounts/<directory>/<email>.json
//!     the key and the address of an account; <directory> is the URL without what a file name cannot have
//! ```
//! `<name>` is [`Subject::storage_segment`]. Locks: `acme-order-<name>` while a name is being ordered,
//! `acme-account-<directory>` while an account is made.

use crate::certificate::Leaf;
use crate::subject::Subject;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// All certificates are below.
pub const CERTIFICATES: &str = "acme/certificates/";

/// A text of this size goes with an order on its way, so that a storage that could not take the certificate is found
/// before the order.
pub const ROOM_BYTES: usize = 12 * 1024;

/// What other requests of a week are remembered for one name; Let's Encrypt would not allow as many.
pub const ATTEMPTS_MAX: usize = 64;

/// All answers to challenges are below.
pub const ANSWERS: &str = "acme/answers/";

pub fn http_answer_key(token: &str) -> String {
    use std::fmt::Write;
    let mut key = format!("{ANSWERS}http-");
    for byte in token.bytes() {
        // Tokens have capital letters, and keys have none.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

/// `None` for what is no name.
pub fn tls_answer_key(server_name: &str) -> Option<String> {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_');
    let is_sound = !server_name.is_empty() && server_name.len() <= 240 && server_name.bytes().all(is_name);
    is_sound.then(|| format!("{ANSWERS}tls-{server_name}"))
}

pub fn bundle_key(subject: &Subject) -> String {
    format!("{CERTIFICATES}{}/bundle.pem", subject.storage_segment())
}

pub fn facts_key(subject: &Subject) -> String {
    format!("{CERTIFICATES}{}/facts.json", subject.storage_segment())
}

pub fn order_key(subject: &Subject) -> String {
    format!("{CERTIFICATES}{}/order.json", subject.storage_segment())
}

pub fn history_key(subject: &Subject) -> String {
    format!("{CERTIFICATES}{}/history.json", subject.storage_segment())
}

pub fn order_lock(subject: &Subject) -> String {
    format!("acme-order-{}", subject.storage_segment())
}

pub fn account_key(directory: &str, email: Option<&str>) -> String {
    format!("{}{}.json", accounts_prefix(directory), email.map_or_else(|| "no-email".to_owned(), file_name))
}

/// All accounts at one CA are below.
pub fn accounts_prefix(directory: &str) -> String {
    format!("acme/accounts/{}/", file_name(directory))
}

pub fn account_lock(directory: &str) -> String {
    format!("acme-account-{}", file_name(directory))
}

/// What a challenge is answered with.
#[derive(Serialize, Deserialize)]
pub struct StoredAnswer {
    pub until: Timestamp,
    /// Of `http-01`.
    pub key_authorization: Option<String>,
    /// Of `tls-alpn-01`, with `digest`.
    pub subject: Option<String>,
    pub digest: Option<[u8; 32]>,
}

/// What the bundle does not say itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Of the certificate that this is about.
    pub serial: String,
    /// Of the CA; nothing for a certificate that came from elsewhere.
    pub directory: Option<String>,
    pub issued_at: Timestamp,
    /// The renewal id of the certificate before it.
    pub replaces: Option<String>,
    pub advice: Option<Advice>,
    /// Whether the certificate was revoked, and is only kept until there is another.
    #[serde(default)]
    pub is_revoked: bool,
}

/// What the CA says about renewal (RFC 9773).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    pub start: Timestamp,
    pub end: Timestamp,
    /// The CA's own page about why.
    pub explanation: Option<String>,
    pub ask_again_at: Timestamp,
}

/// An order on its way.
#[derive(Clone, Serialize, Deserialize)]
pub struct OrderOnItsWay {
    pub directory: String,
    /// Of the account that it belongs to.
    pub account: String,
    /// `None` before the CA has given one.
    pub url: Option<String>,
    /// The certificate's, PKCS#8 PEM.
    pub key_pem: Zeroizing<String>,
    pub begun_at: Timestamp,
    pub replaces: Option<String>,
    /// Room for the certificate, see [`ROOM_BYTES`].
    #[serde(default)]
    pub room: String,
}

/// What was tried for a name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    pub failures_in_a_row: u32,
    /// The CA counted a failure of ours; the next try goes to its staging directory, if it has one.
    pub is_on_probation: bool,
    /// By directory: failures in a row that were the CA's.
    pub refusals: BTreeMap<String, u32>,
    /// By directory: until when it wants nothing of us for this name.
    pub limited: BTreeMap<String, Timestamp>,
    pub trouble: Option<Trouble>,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
}

/// The last failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    pub at: Timestamp,
    pub directory: Option<String>,
    pub cause: String,
    pub remedy: String,
    /// No attempt before.
    pub again_at: Timestamp,
    /// A mark of the settings that it failed with; none where an earlier version wrote it.
    #[serde(default)]
    pub settings: Option<u32>,
}

/// Something that a CA counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub at: Timestamp,
    pub directory: String,
    pub counted: Counted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    Order,
    Issued,
    /// Issued as a replacement that the CA knows of, which Let's Encrypt holds against no limit.
    Replaced,
    FailedValidation,
}

/// An account at a CA.
#[derive(Clone, Serialize, Deserialize)]
pub struct Account {
    pub directory: String,
    pub url: String,
    /// PKCS#8, base64.
    pub key: Zeroizing<String>,
    pub email: Option<String>,
    /// The account that was bound to it, by its key id; another one is another account.
    pub external_key_id: Option<String>,
}

/// A certificate of storage with all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    pub leaf: Leaf,
    pub facts: Facts,
}

impl Held {
    /// Facts of another bundle are none: a crash between the two writes leaves them behind, and so does a certificate
    /// that was imported.
    pub fn new(leaf: Leaf, facts: Option<Facts>) -> Held {
        let facts = facts.filter(|facts| facts.serial == leaf.serial).unwrap_or_else(|| Facts {
            serial: leaf.serial.clone(),
            directory: None,
            issued_at: leaf.not_before,
            replaces: None,
            advice: None,
            is_revoked: false,
        });
        Held { leaf, facts }
    }
}

impl History {
    /// Forgets what no limit reaches back to.
    pub fn prune(&mut self, oldest: Timestamp) {
        self.attempts.retain(|attempt| attempt.at >= oldest);
        let surplus = self.attempts.len().saturating_sub(ATTEMPTS_MAX);
        self.attempts.drain(..surplus);
    }
}

/// `None` where it is of no known form: written by another version or torn by somebody. It is then as if it were not
/// there.
pub fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// These types cannot fail to be written; were one to, the reader would treat nothing as not there.
pub fn write<T: Serialize>(value: &T) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(serde_json::to_vec_pretty(value).unwrap_or_default())
}

/// A URL or an address of mail as one segment that every storage takes, and no two of them the same.
fn file_name(text: &str) -> String {
    let bare = text.strip_prefix("https://").unwrap_or(text);
    let plain: String = bare
        .to_ascii_lowercase()
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() || ".-@".contains(character) { character } else { '_' })
        .take(120)
        .collect();
    // FNV-1a: what was replaced above still tells two apart.
    let hash = bare.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{}-{:08x}", plain.trim_start_matches('.'), hash as u32)
}

#[cfg(test)]
mod tests {
    use super::{Attempt, Counted, History, Trouble, account_key, parse, write};
    use jiff::Timestamp;

    #[test]
    fn a_history_reads_back_and_what_is_torn_is_nothing() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        let history = History {
            failures_in_a_row: 3,
            is_on_probation: true,
            refusals: [("https://ca.example/dir".to_owned(), 2)].into(),
            limited: [("https://ca.example/dir".to_owned(), now)].into(),
            trouble: Some(Trouble {
                at: now,
                directory: None,
                cause: "a".into(),
                remedy: "b".into(),
                again_at: now,
                settings: Some(7),
            }),
            attempts: vec![Attempt { at: now, directory: "d".into(), counted: Counted::FailedValidation }],
        };
        let bytes = write(&history);
        assert_eq!(parse::<History>(&bytes), Some(history));
        assert_eq!(parse::<History>(&bytes[..bytes.len() / 2]), None);
        assert_eq!(parse::<History>(b"{}"), Some(History::default()));
    }

    #[test]
    fn accounts_of_other_directories_and_addresses_are_kept_apart() {
        let one = account_key("https://ca.example/dir", Some("a@example.com"));
        assert!(one.starts_with("acme/accounts/ca.example_dir-") && one.contains("/a@example.com-"), "{one}");
        assert_ne!(one, account_key("https://ca.example/dir", None));
        assert_ne!(account_key("https://ca.example/a_b", None), account_key("https://ca.example/a/b", None));
        let hostile = account_key("https://ca.example/../..", Some("../../x"));
        assert!(hostile.split('/').all(|segment| !segment.starts_with('.')), "{hostile}");
    }
}
