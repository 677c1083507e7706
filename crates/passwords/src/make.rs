//! New hashes, for `tidegate hash-password`.

use argon2::password_hash::PasswordHasher;
use argon2::{Argon2, Params};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use std::fmt;

/// A quarter of a second of a core.
const BCRYPT_COST: u32 = 12;
/// What bcrypt looks at; the rest would count for nothing, and nobody would know.
const BCRYPT_PASSWORD_BYTES_MAX: usize = 72;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// 19 MiB, two passes: what OWASP recommends.
    Argon2id,
    /// As `htpasswd -B`, with a cost of 12.
    Bcrypt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CannotHash {
    Empty,
    TooLong {
        bytes_max: usize,
    },
    /// Clients cannot send them (RFC 7617 section 2).
    ControlCharacter,
    /// No randomness, or no memory.
    Machine,
}

impl fmt::Display for CannotHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotHash::Empty => f.write_str("the password is empty"),
            CannotHash::TooLong { bytes_max } => write!(f, "the password is longer than {bytes_max} bytes"),
            CannotHash::ControlCharacter => f.write_str("the password has a control character in it, which browsers do not send"),
            CannotHash::Machine => f.write_str("the system has no randomness or no memory to give"),
        }
    }
}

impl std::error::Error for CannotHash {}

/// A hash of the password with a fresh salt, as a file of users has it.
pub fn make_hash(password: &str, algorithm: Algorithm) -> Result<String, CannotHash> {
    let bytes_max = match algorithm {
        Algorithm::Argon2id => crate::PASSWORD_BYTES_MAX,
        Algorithm::Bcrypt => BCRYPT_PASSWORD_BYTES_MAX,
    };
    if password.is_empty() {
        return Err(CannotHash::Empty);
    }
    if password.len() > bytes_max {
        return Err(CannotHash::TooLong { bytes_max });
    }
    if password.chars().any(char::is_control) {
        return Err(CannotHash::ControlCharacter);
    }
    let mut salt = [0; 16];
    SystemRandom::new().fill(&mut salt).map_err(|_| CannotHash::Machine)?;
    match algorithm {
        Algorithm::Argon2id => {
            let hash = Argon2::from(Params::DEFAULT).hash_password_with_salt(password.as_bytes(), &salt);
            hash.map(|hash| hash.to_string()).map_err(|_| CannotHash::Machine)
        }
        Algorithm::Bcrypt => {
            let parts = bcrypt::hash_with_salt(password, BCRYPT_COST, salt).map_err(|_| CannotHash::Machine)?;
            Ok(parts.format_for_version(bcrypt::Version::TwoY))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, CannotHash, make_hash};
    use crate::hash::PasswordHash;

    #[test]
    fn what_is_made_is_taken() {
        let check = |algorithm: Algorithm, start: &str| {
            let hash = make_hash("correct horse", algorithm).expect("a hash");
            assert!(hash.starts_with(start), "{hash}");
            let hash = PasswordHash::parse(&hash).expect("a hash that is taken");
            assert_eq!(hash.verify(b"correct horse"), Ok(true));
            assert_eq!(hash.verify(b"correct hors"), Ok(false));
        };
        check(Algorithm::Argon2id, "$argon2id$v=19$m=19456,t=2,p=1$");
        check(Algorithm::Bcrypt, "$2y$12$");
    }

    #[test]
    fn what_nobody_could_log_in_with_is_refused() {
        let check = |password: &str, algorithm: Algorithm, expected: CannotHash| {
            assert_eq!(make_hash(password, algorithm), Err(expected));
        };
        check("", Algorithm::Argon2id, CannotHash::Empty);
        check("a\tb", Algorithm::Argon2id, CannotHash::ControlCharacter);
        check(&"a".repeat(73), Algorithm::Bcrypt, CannotHash::TooLong { bytes_max: 72 });
        check(&"a".repeat(1025), Algorithm::Argon2id, CannotHash::TooLong { bytes_max: 1024 });
    }
}
