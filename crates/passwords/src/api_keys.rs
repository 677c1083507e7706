//! Keys of programs, by their SHA-256: from a file or from a list. A key is long and random, so that its hash needs no
//! salt and no time: nobody guesses 128 bits, however fast. That is also why a look-up by the hash tells nothing: who
//! does not have the key cannot choose what its hash begins with.

use crate::hash::HashFault;
use crate::users::{FILE_BYTES_MAX, LineFault, USER_NAME_BYTES_MAX, USERS_MAX};
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use tidegate_access::{Identity, LogIn};

/// Longer keys are nobody's, and are not hashed.
pub const API_KEY_BYTES_MAX: usize = 512;
/// Of those that somebody else has made: 22 letters and digits have 128 bits.
pub const API_KEY_BYTES_MIN: usize = 22;

/// So that a key is known for one where it stands by accident.
const PREFIX: &str = "tg_";
/// Letters and digits of a new key: 256 bits.
const LETTERS: usize = 43;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const EXPIRES: &str = "expires=";
const FAULTS_MAX: usize = 10;

/// All keys that are taken, at one moment. Never empty.
#[derive(Debug, PartialEq, Eq)]
pub struct ApiKeys(HashMap<ApiKeyHash, ApiKey>);

/// SHA-256 of a key. Not printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ApiKeyHash([u8; SHA256_OUTPUT_LEN]);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// By whose name the key is known.
    pub user: Arc<Identity>,
    /// In seconds since 1970.
    ends: Option<i64>,
}

impl ApiKey {
    /// `now` is asked for only where the key has an end.
    pub fn has_ended(&self, now: impl FnOnce() -> i64) -> bool {
        self.ends.is_some_and(|ends| ends <= now())
    }
}

impl fmt::Debug for ApiKeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKeyHash")
    }
}

/// Why a line is no key. Never quotes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyFault {
    NoColon,
    NoName,
    NameTooLong,
    ControlCharacter,
    /// Header fields would end up with the name without it.
    SpaceAround,
    ColonInName,
    /// What stands behind the name is no SHA-256.
    NotAHash,
    /// A password's, which would take a second for each request.
    PasswordHash,
    /// What stands behind the hash is no end.
    Expiry,
    /// The name stands in an earlier line, or entry, of that number, counted from 1.
    NameTwice(usize),
    HashTwice(usize),
    TooMany,
    NotText,
    TooLarge,
    Nobody,
}

impl ApiKeyFault {
    /// What to do about it.
    pub fn help(self) -> &'static str {
        match self {
            ApiKeyFault::NoColon | ApiKeyFault::NoName => "a line is `name:hash`, as `tidegate hash-key NAME` writes it",
            ApiKeyFault::NameTooLong | ApiKeyFault::ControlCharacter | ApiKeyFault::SpaceAround | ApiKeyFault::ColonInName => {
                "give the key another name"
            }
            ApiKeyFault::NotAHash | ApiKeyFault::PasswordHash => {
                "`tidegate hash-key NAME` makes a key with its line; `tidegate hash-key NAME --stdin` writes the line of a key that is there"
            }
            ApiKeyFault::Expiry => "for example `expires=2027-01-31`, or `expires=2027-01-31T12:00:00Z`",
            ApiKeyFault::NameTwice(_) => "give each key a name of its own, as in `ci-2026` and `ci-2027`",
            ApiKeyFault::HashTwice(_) => "give each program a key of its own",
            ApiKeyFault::TooMany | ApiKeyFault::TooLarge => {
                "this many keys are better kept by a service that `forward-auth` asks"
            }
            ApiKeyFault::NotText => "a line is `name:hash`, in UTF-8",
            ApiKeyFault::Nobody => "add a key, or refuse everybody with `deny \"all\"`",
        }
    }
}

impl fmt::Display for ApiKeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiKeyFault::NoColon => f.write_str("there is no `:` between a name and a hash"),
            ApiKeyFault::NoName => f.write_str("there is no name before the `:`"),
            ApiKeyFault::NameTooLong => write!(f, "the name is longer than {USER_NAME_BYTES_MAX} bytes"),
            ApiKeyFault::ControlCharacter => f.write_str("the name has a control character in it"),
            ApiKeyFault::SpaceAround => f.write_str("the name has space around it"),
            ApiKeyFault::ColonInName => f.write_str("the name has a `:` in it"),
            ApiKeyFault::NotAHash => f.write_str("what stands for the key is no SHA-256, which has 64 hexadecimal digits"),
            ApiKeyFault::PasswordHash => f.write_str("the hash is that of a password; keys are hashed with SHA-256 alone"),
            ApiKeyFault::Expiry => f.write_str("what stands behind the hash is no end"),
            ApiKeyFault::NameTwice(first) => write!(f, "the name stands in line {first} as well"),
            ApiKeyFault::HashTwice(first) => write!(f, "the key of line {first} stands here again"),
            ApiKeyFault::TooMany => write!(f, "there are more than {USERS_MAX} keys"),
            ApiKeyFault::NotText => f.write_str("it is not UTF-8 text"),
            ApiKeyFault::TooLarge => write!(f, "the file is larger than {} MiB", FILE_BYTES_MAX >> 20),
            ApiKeyFault::Nobody => f.write_str("the file has no key"),
        }
    }
}

impl ApiKeys {
    /// The lines of a file: `name:hash`, and perhaps `:expires=` with a date behind it. Empty lines and those that
    /// begin with `#` mean nothing. Gives the first faults when there is any: a file counts as a whole or not at all.
    pub fn parse(bytes: &[u8]) -> Result<ApiKeys, Vec<LineFault<ApiKeyFault>>> {
        let whole = |fault| vec![LineFault { line: 0, fault }];
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(whole(ApiKeyFault::TooLarge));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| whole(ApiKeyFault::NotText))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (mut keys, mut faults) = (ApiKeysDraft::default(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let added = keys.add_line(line, number);
            faults.extend(added.err().map(|fault| LineFault { line: number, fault }));
            if faults.len() >= FAULTS_MAX || matches!(added, Err(ApiKeyFault::TooMany)) {
                break;
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        keys.finish().ok_or_else(|| whole(ApiKeyFault::Nobody))
    }

    /// Names with hashes and ends; the fault comes with the position of its entry. `None` is an empty list.
    pub fn listed<'a>(
        list: impl IntoIterator<Item = (&'a str, &'a str, Option<&'a str>)>,
    ) -> Result<Option<ApiKeys>, (usize, ApiKeyFault)> {
        let mut keys = ApiKeysDraft::default();
        for (position, (name, hash, expires)) in list.into_iter().enumerate() {
            if name.contains(':') {
                return Err((position, ApiKeyFault::ColonInName));
            }
            keys.add(name, hash, expires, position + 1).map_err(|fault| (position, fault))?;
        }
        Ok(keys.finish())
    }

    /// Whose key it is. Takes as long for one as for another of the same length.
    pub fn find(&self, key: &[u8]) -> Option<&ApiKey> {
        if key.len() > API_KEY_BYTES_MAX {
            return None;
        }
        self.0.get(&ApiKeyHash::of(key))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: a list without a key is a fault.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ApiKeyHash {
    fn of(key: &[u8]) -> ApiKeyHash {
        ApiKeyHash(digest(&SHA256, key).as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    fn parse(text: &str) -> Result<ApiKeyHash, ApiKeyFault> {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        if text.len() != 2 * hash.len() {
            let is_of_password = matches!(
                crate::PasswordHash::parse(text),
                Ok(_) | Err(HashFault::BcryptCost(_) | HashFault::TooWeak(_) | HashFault::Unknown(_))
            );
            return Err(if is_of_password { ApiKeyFault::PasswordHash } else { ApiKeyFault::NotAHash });
        }
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digit = |position: usize| char::from(digits[position]).to_digit(16).ok_or(ApiKeyFault::NotAHash);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Ok(ApiKeyHash(hash))
    }
}

#[derive(Default)]
struct ApiKeysDraft {
    keys: HashMap<ApiKeyHash, ApiKey>,
    /// The lines in which names and hashes stand.
    names: HashMap<Box<str>, usize>,
    hashes: HashMap<ApiKeyHash, usize>,
}

impl ApiKeysDraft {
    fn add_line(&mut self, line: &str, number: usize) -> Result<(), ApiKeyFault> {
        let (name, rest) = line.split_once(':').ok_or(ApiKeyFault::NoColon)?;
        let (hash, behind) = match rest.split_once(':') {
            Some((hash, behind)) => (hash, Some(behind)),
            None => (rest, None),
        };
        let expires = behind.map(|behind| behind.trim().strip_prefix(EXPIRES).ok_or(ApiKeyFault::Expiry)).transpose();
        // A password hash has no `:`, so that what is behind the hash is looked at after it.
        ApiKeyHash::parse(hash.trim())?;
        self.add(name, hash.trim(), expires?, number)
    }

    fn add(&mut self, name: &str, hash: &str, expires: Option<&str>, line: usize) -> Result<(), ApiKeyFault> {
        if name.is_empty() {
            return Err(ApiKeyFault::NoName);
        }
        if name.len() > USER_NAME_BYTES_MAX {
            return Err(ApiKeyFault::NameTooLong);
        }
        if name.chars().any(char::is_control) {
            return Err(ApiKeyFault::ControlCharacter);
        }
        if name.trim() != name {
            return Err(ApiKeyFault::SpaceAround);
        }
        let hash = ApiKeyHash::parse(hash)?;
        let ends = expires.map(|text| end_of(text).ok_or(ApiKeyFault::Expiry)).transpose()?;
        if let Some(first) = self.names.get(name) {
            return Err(ApiKeyFault::NameTwice(*first));
        }
        if let Some(first) = self.hashes.get(&hash) {
            return Err(ApiKeyFault::HashTwice(*first));
        }
        if self.keys.len() >= USERS_MAX {
            return Err(ApiKeyFault::TooMany);
        }
        self.names.insert(name.into(), line);
        self.hashes.insert(hash, line);
        self.keys.insert(hash, ApiKey { user: Arc::new(Identity::of_name(name, LogIn::Key)), ends });
        Ok(())
    }

    fn finish(self) -> Option<ApiKeys> {
        (!self.keys.is_empty()).then_some(ApiKeys(self.keys))
    }
}

/// The first second at which a key is not taken any more: behind the day that is named, or the moment itself, in UTC.
fn end_of(text: &str) -> Option<i64> {
    let moment = match text.strip_suffix('Z') {
        Some(moment) if text.len() == "2027-01-31T12:00:00Z".len() => moment.parse::<DateTime>().ok()?,
        Some(_) => return None,
        None if text.len() == "2027-01-31".len() => {
            text.parse::<Date>().ok()?.tomorrow().ok()?.to_datetime(jiff::civil::Time::midnight())
        }
        None => return None,
    };
    Some(moment.to_zoned(TimeZone::UTC).ok()?.timestamp()).map(Timestamp::as_second)
}

/// A new key, and the line of a file that takes it. `None`: the system has no randomness.
pub fn make_api_key() -> Option<String> {
    let mut key = PREFIX.to_owned();
    let mut bytes = [0; LETTERS];
    while key.len() < PREFIX.len() + LETTERS {
        SystemRandom::new().fill(&mut bytes).ok()?;
        // Each letter as likely as another: 248 is four times 62.
        let letters = bytes.iter().filter(|byte| **byte < 248).map(|byte| char::from(ALPHABET[usize::from(*byte % 62)]));
        key.extend(letters.take(PREFIX.len() + LETTERS - key.len()));
    }
    Some(key)
}

/// The line of a key: `name:hash`, and its end. The fault is that of the name or of the end.
pub fn api_key_line(name: &str, key: &str, expires: Option<&str>) -> Result<String, ApiKeyFault> {
    let hash: String = ApiKeyHash::of(key.as_bytes()).0.iter().map(|byte| format!("{byte:02x}")).collect();
    let behind = expires.map(|expires| format!(":{EXPIRES}{expires}")).unwrap_or_default();
    ApiKeys::listed([(name, hash.as_str(), expires)]).map_err(|(_, fault)| fault)?;
    Ok(format!("{name}:{hash}{behind}"))
}

#[cfg(test)]
mod tests {
    use super::{API_KEY_BYTES_MAX, ApiKeyFault, ApiKeys, api_key_line, make_api_key};
    use crate::users::LineFault;

    /// Of `one`, as `sha256sum` writes it.
    const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    const TWO: &str = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";

    #[test]
    fn a_file_has_a_line_for_each_key() {
        let text = format!("\u{feff}# keys\nci:{ONE}\r\n\n  \nÄnne: {} :expires=2027-01-31\n", TWO.to_uppercase());
        let keys = ApiKeys::parse(text.as_bytes()).expect("a good file");
        let check = |key: &str, expected: Option<&str>| {
            assert_eq!(keys.find(key.as_bytes()).map(|key| &*key.user.name), expected, "{key}");
        };
        check("one", Some("ci"));
        check("two", Some("Änne"));
        check("One", None);
        check("", None);
        check(ONE, None);
        check(&"a".repeat(64 * 1024), None);
        assert_eq!(keys.len(), 2);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_by_line() {
        let check = |text: &str, expected: &[(usize, ApiKeyFault)]| {
            let expected: Vec<_> = expected.iter().map(|(line, fault)| LineFault { line: *line, fault: *fault }).collect();
            assert_eq!(ApiKeys::parse(text.as_bytes()).err(), Some(expected), "{text:?}");
        };
        check("", &[(0, ApiKeyFault::Nobody)]);
        check("# only a remark\n", &[(0, ApiKeyFault::Nobody)]);
        check("ci", &[(1, ApiKeyFault::NoColon)]);
        check(&format!("\n:{ONE}"), &[(2, ApiKeyFault::NoName)]);
        check(&format!("a\tb:{ONE}"), &[(1, ApiKeyFault::ControlCharacter)]);
        check(&format!("ci :{ONE}"), &[(1, ApiKeyFault::SpaceAround)]);
        check(&format!("{}:{ONE}", "a".repeat(256)), &[(1, ApiKeyFault::NameTooLong)]);
        check(&format!("ci:{ONE}\n\nci:{TWO}"), &[(3, ApiKeyFault::NameTwice(1))]);
        check(&format!("ci:{ONE}\nother:{}", ONE.to_uppercase()), &[(2, ApiKeyFault::HashTwice(1))]);
        check("ci:secret", &[(1, ApiKeyFault::NotAHash)]);
        check(&format!("ci:{}", ONE.replace('7', "g")), &[(1, ApiKeyFault::NotAHash)]);
        check("ci:$2y$04$abcdefghijklmnopqrstuuBAKPJ4WMJ80HCOjzIoIrpCb2b5Pk1Iy", &[(1, ApiKeyFault::PasswordHash)]);
        for end in
            ["", "soon", "expires=", "expires=2027-02-30", "expires=2027-01-31T12:00:00", "expires=2027-01-31Z", "2027-01-31"]
        {
            check(&format!("ci:{ONE}:{end}"), &[(1, ApiKeyFault::Expiry)]);
        }
        check(&"x\n".repeat(1000), &(1..=10).map(|line| (line, ApiKeyFault::NoColon)).collect::<Vec<_>>());
        assert_eq!(ApiKeys::parse(b"a:\xff").err(), Some(vec![LineFault { line: 0, fault: ApiKeyFault::NotText }]));
    }

    #[test]
    fn no_message_and_no_print_quotes_the_file() {
        let faults = ApiKeys::parse(b"my-key\nci:hunter2\n").expect_err("no hashes");
        let said = faults.iter().map(|fault| format!("{fault} {}", fault.fault.help())).collect::<Vec<_>>().join("\n");
        assert!(!said.contains("hunter2") && !said.contains("my-key"), "{said}");
        let printed = format!("{:?}", ApiKeys::parse(format!("ci:{ONE}").as_bytes()));
        assert!(!printed.contains("118, 146") && printed.contains("ci"), "{printed}");
    }

    #[test]
    fn keys_end() {
        let check = |end: &str, last: i64| {
            let keys = ApiKeys::listed([("ci", ONE, Some(end))]).expect("a list").expect("a key");
            let key = keys.find(b"one").expect("the key");
            assert_eq!((key.has_ended(|| last), key.has_ended(|| last + 1)), (false, true), "{end}");
        };
        // 2027-02-01T00:00:00Z
        check("2027-01-31", 1_801_440_000 - 1);
        check("2027-01-31T12:00:00Z", 1_801_440_000 - 12 * 3600 - 1);
        let keys = ApiKeys::listed([("ci", ONE, None)]).expect("a list").expect("a key");
        assert!(!keys.find(b"one").expect("the key").has_ended(|| panic!("nobody needs the time")));
    }

    #[test]
    fn what_is_made_is_taken() {
        let (key, other) = (make_api_key().expect("randomness"), make_api_key().expect("randomness"));
        assert_ne!(key, other);
        assert_eq!((key.len(), key.is_ascii()), (46, true));
        let line = api_key_line("ci", &key, Some("2027-01-31")).expect("a line");
        assert!(!line.contains(&key) && line.starts_with("ci:") && line.ends_with(":expires=2027-01-31"), "{line}");
        let keys = ApiKeys::parse(line.as_bytes()).expect("a good file");
        assert!(keys.find(key.as_bytes()).is_some() && keys.find(other.as_bytes()).is_none());
        assert_eq!(api_key_line("a:b", &key, None), Err(ApiKeyFault::ColonInName));
        assert_eq!(api_key_line("", &key, None), Err(ApiKeyFault::NoName));
        assert_eq!(api_key_line("ci", &key, Some("never")), Err(ApiKeyFault::Expiry));
        assert!(API_KEY_BYTES_MAX > key.len());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Ok(keys) = ApiKeys::parse(bytes) {
                assert!(!keys.is_empty());
            }
        });
    }
}
