//! One password hash: which kind it is, whether it costs no more than it may, and whether a password fits it. What is
//! no protection is refused by name; what is a weak one, and what `htpasswd` writes, is taken and called so (`weak`).

mod weak;

use argon2::password_hash::phc;
use argon2::{Argon2, Params, PasswordVerifier};
use sha_crypt::{PasswordHashRef, ShaCrypt};
use std::fmt;

/// About two seconds of a core; each step more doubles it. `htpasswd -B` makes 5 unless told otherwise.
pub const BCRYPT_COST_MAX: u32 = 15;
/// Each verifying thread may use as much at a time: 256 MiB.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 256 << 10;
/// Memory times passes, which is what it costs: 1 GiB, about one second of a core.
pub const ARGON2_WORK_KIB_MAX: u64 = 1 << 20;
/// About half a second of a core; what `crypt` does without a word is 5,000.
pub const SHA_CRYPT_ROUNDS_MAX: u32 = 1_000_000;

/// Longer texts are none; the longest that makes sense is an Argon2 hash with a salt and an output of 64 bytes each.
const TEXT_BYTES_MAX: usize = 512;
/// `crypt` itself looks at no more.
const SHA_CRYPT_SALT_BYTES_MAX: usize = 16;

/// A hash that was looked at and may be verified against. Nothing prints its text.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    kind: Kind,
    text: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bcrypt,
    Argon2,
    ShaCrypt,
    /// MD5, as `htpasswd` does it.
    Apr1,
    /// SHA-1.
    Sha,
}

/// Why a text is no hash that a password is verified against. Never quotes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashFault {
    Empty,
    /// No mark of any kind of hash.
    PlainText,
    /// `{SSHA}`, `$1$` and the like: what it is.
    TooWeak(&'static str),
    /// A kind that is not known here: what it is.
    Unknown(&'static str),
    /// The text begins as the named kind of hash does, and does not go on so.
    Malformed(&'static str),
    BcryptCost(u32),
    Argon2Memory {
        memory_kib: u32,
    },
    Argon2Work {
        memory_kib: u32,
        passes: u32,
    },
    ShaCryptRounds(u64),
}

impl HashFault {
    /// What to do about it.
    pub fn help(self) -> &'static str {
        match self {
            HashFault::Empty | HashFault::PlainText | HashFault::TooWeak(_) | HashFault::Unknown(_) | HashFault::Malformed(_) => {
                "make one with `tidegate hash-password`, or `htpasswd -B`"
            }
            HashFault::BcryptCost(_)
            | HashFault::Argon2Memory { .. }
            | HashFault::Argon2Work { .. }
            | HashFault::ShaCryptRounds(_) => "make a cheaper one, for example with `tidegate hash-password`",
        }
    }
}

impl fmt::Display for HashFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HashFault::Empty => f.write_str("there is no password hash"),
            HashFault::PlainText => f.write_str("the password is plain text, or hashed in a way that is no protection (crypt)"),
            HashFault::TooWeak(kind) => write!(f, "the hash is {kind}, which is guessed too fast"),
            HashFault::Unknown(kind) => {
                write!(f, "the hash is {kind}; known are bcrypt, Argon2id, Argon2i, SHA-crypt, apr1 and {{SHA}}")
            }
            HashFault::Malformed(kind) => write!(f, "the {kind} hash is not whole"),
            HashFault::BcryptCost(cost) => {
                write!(f, "the bcrypt hash has a cost of {cost}, and the limit is {BCRYPT_COST_MAX}")
            }
            HashFault::Argon2Memory { memory_kib } => write!(
                f,
                "the Argon2 hash asks for {} MiB of memory, and the limit is {} MiB",
                memory_kib.div_ceil(1024),
                ARGON2_MEMORY_KIB_MAX / 1024
            ),
            HashFault::Argon2Work { memory_kib, passes } => write!(
                f,
                "the Argon2 hash asks for {passes} passes over {} MiB, and the limit is {} MiB over all passes",
                memory_kib.div_ceil(1024),
                ARGON2_WORK_KIB_MAX / 1024
            ),
            HashFault::ShaCryptRounds(rounds) => {
                write!(f, "the SHA-crypt hash asks for {rounds} rounds; 1000 to {SHA_CRYPT_ROUNDS_MAX} may be asked for")
            }
        }
    }
}

impl std::error::Error for HashFault {}

/// The machine had not what verifying needs, which is memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotVerified;

impl PasswordHash {
    /// Takes bcrypt (`$2a$`, `$2b$`, `$2y$`), Argon2id and Argon2i (`$argon2id$…`), SHA-crypt (`$5$`, `$6$`), and of
    /// weak ones `$apr1$` and `{SHA}`.
    pub fn parse(text: &str) -> Result<PasswordHash, HashFault> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(HashFault::Malformed("password"));
        }
        let kind = match text.strip_prefix('$').and_then(|rest| rest.split_once('$')) {
            Some(("2a" | "2b" | "2y", _)) => check_bcrypt(text)?,
            Some(("argon2id" | "argon2i", _)) => check_argon2(text)?,
            Some(("5" | "6", rest)) => check_sha_crypt(text, rest)?,
            Some(("2x", _)) => return Err(HashFault::TooWeak("bcrypt of a faulty version (2x)")),
            Some(("apr1", rest)) => weak::check_apr1(rest)?,
            Some(("1", _)) => return Err(HashFault::TooWeak("MD5-crypt ($1$)")),
            Some(("argon2d", _)) => return Err(HashFault::Unknown("Argon2d, which other programs on the machine can spy on")),
            Some(("y" | "gy", _)) => return Err(HashFault::Unknown("yescrypt")),
            Some(("7" | "scrypt", _)) => return Err(HashFault::Unknown("scrypt")),
            Some(("pbkdf2" | "pbkdf2-sha256" | "pbkdf2-sha512", _)) => return Err(HashFault::Unknown("PBKDF2")),
            _ => match text.strip_prefix(weak::SHA) {
                Some(encoded) => weak::check_sha(encoded)?,
                None => return Err(not_hashed(text)),
            },
        };
        Ok(PasswordHash { kind, text: text.into() })
    }

    /// The hash as it was written. Whoever has it can guess at the password without asking anybody.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// What it is, of a hash that is guessed fast by whoever has it.
    pub fn weakness(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Apr1 => Some(weak::APR1_NAME),
            Kind::Sha => Some(weak::SHA_NAME),
            Kind::Bcrypt | Kind::Argon2 | Kind::ShaCrypt => None,
        }
    }

    /// Whether the password is the one. Takes from milliseconds to seconds of a core, and for Argon2 its memory;
    /// compares in constant time.
    pub fn verify(&self, password: &[u8]) -> Result<bool, NotVerified> {
        match self.kind {
            // What bcrypt does not look at (beyond 72 bytes) does not count here either, as everywhere.
            Kind::Bcrypt => bcrypt::verify(password, &self.text).map_err(|_| NotVerified),
            Kind::Argon2 => fits(Argon2::default().verify_password(password, &*self.text)),
            Kind::ShaCrypt => fits(ShaCrypt::default().verify_password(password, &*self.text)),
            Kind::Apr1 => Ok(weak::fits_apr1(&self.text, password)),
            Kind::Sha => Ok(weak::fits_sha(&self.text, password)),
        }
    }
}

/// The text was parsed before, so that what is left to go wrong is the password, or the memory.
fn fits(verified: Result<(), argon2::password_hash::Error>) -> Result<bool, NotVerified> {
    match verified {
        Ok(()) => Ok(true),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
        Err(_) => Err(NotVerified),
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordHash").field("kind", &self.kind).finish_non_exhaustive()
    }
}

fn not_hashed(text: &str) -> HashFault {
    let starts = |prefix: &str| text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    match text {
        "" => HashFault::Empty,
        _ if starts(weak::SHA) => HashFault::Malformed("SHA-1 ({SHA})"),
        _ if starts("{SSHA}") => HashFault::TooWeak("SHA-1 ({SSHA})"),
        _ => HashFault::PlainText,
    }
}

fn check_bcrypt(text: &str) -> Result<Kind, HashFault> {
    let parts: bcrypt::HashParts = text.parse().map_err(|_| HashFault::Malformed("bcrypt"))?;
    match parts.get_cost() {
        0..4 => Err(HashFault::Malformed("bcrypt")),
        4..=BCRYPT_COST_MAX => Ok(Kind::Bcrypt),
        cost => Err(HashFault::BcryptCost(cost)),
    }
}

fn check_argon2(text: &str) -> Result<Kind, HashFault> {
    let malformed = HashFault::Malformed("Argon2");
    let hash = phc::PasswordHash::new(text).map_err(|_| malformed)?;
    let params = Params::try_from(&hash).map_err(|_| malformed)?;
    // A key or further data is somebody's own scheme, and without its secret no password fits.
    let is_whole = hash.salt.is_some() && hash.hash.is_some() && params.keyid().is_empty() && params.data().is_empty();
    // Without one the specification means the first version, and most programs the second.
    let is_known_version = matches!(hash.version, Some(0x10 | 0x13));
    if !is_whole || !is_known_version {
        return Err(malformed);
    }
    let (memory_kib, passes) = (params.m_cost(), params.t_cost());
    if memory_kib > ARGON2_MEMORY_KIB_MAX {
        return Err(HashFault::Argon2Memory { memory_kib });
    }
    if u64::from(memory_kib) * u64::from(passes) > ARGON2_WORK_KIB_MAX {
        return Err(HashFault::Argon2Work { memory_kib, passes });
    }
    Ok(Kind::Argon2)
}

/// `$6$rounds=5000$salt$hash`; `rest` is what follows the mark.
fn check_sha_crypt(text: &str, rest: &str) -> Result<Kind, HashFault> {
    let malformed = HashFault::Malformed("SHA-crypt");
    let mut parts = rest.split('$').peekable();
    if let Some(rounds) = parts.next_if(|part| part.starts_with("rounds=")) {
        let rounds: u64 = rounds["rounds=".len()..].parse().map_err(|_| malformed)?;
        if !(1000..=u64::from(SHA_CRYPT_ROUNDS_MAX)).contains(&rounds) {
            return Err(HashFault::ShaCryptRounds(rounds));
        }
    }
    let (salt, output, end) = (parts.next(), parts.next(), parts.next());
    let output_chars = if text.starts_with("$5$") { 43 } else { 86 };
    let is_of_alphabet = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/'));
    let is_whole = salt.is_some_and(|salt| salt.len() <= SHA_CRYPT_SALT_BYTES_MAX && is_of_alphabet(salt))
        && output.is_some_and(|output| output.len() == output_chars && is_of_alphabet(output))
        && end.is_none();
    if !is_whole || PasswordHashRef::new(text).is_err() {
        return Err(malformed);
    }
    Ok(Kind::ShaCrypt)
}

#[cfg(test)]
mod tests;
