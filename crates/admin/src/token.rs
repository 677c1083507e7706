//! The token that lets in who has it: the file that one is generated into, and the comparison. Who needs one is decided
//! in `access`. A token is in no log, no message and no `Debug` output.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// In the state folder.
pub const FILE_NAME: &str = "admin-token";

const TOKEN_BYTES: usize = 32;
/// A file that is longer is not ours.
const FILE_BYTES_MAX: u64 = 1024;

#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn new(text: &str) -> Token {
        Token(text.trim().to_owned())
    }

    /// Compared in a time that does not depend on where they differ.
    pub fn is(&self, given: &[u8]) -> bool {
        !self.0.is_empty() && verify_slices_are_equal(self.0.as_bytes(), given).is_ok()
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    fn generate() -> io::Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        rand::fill(&mut bytes).map_err(|_| io::Error::other("the system gives no randomness"))?;
        let mut text = String::with_capacity(TOKEN_BYTES * 2);
        for byte in bytes {
            text.push_str(&format!("{byte:02x}"));
        }
        Ok(Token(text))
    }

    fn is_well_formed(&self) -> bool {
        self.0.len() == TOKEN_BYTES * 2 && self.0.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why there is no generated token.
#[derive(Debug)]
pub enum TokenFault {
    Io {
        file: PathBuf,
        error: io::Error,
    },
    /// Others than the owner may read or write it.
    Open {
        file: PathBuf,
        mode: u32,
    },
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenFault::Io { file, error } => write!(
                f,
                "the token file {} cannot be used: {error}\n  help: let the proxy's user write to its state folder, or serve the endpoint on a `unix:` socket",
                file.display()
            ),
            TokenFault::Open { file, mode } => write!(
                f,
                "others may read the token file {0} (mode {mode:04o})\n  help: remove {0}; a new one is made with the next request",
                file.display()
            ),
        }
    }
}

impl std::error::Error for TokenFault {}

/// The token of the file in the state folder; generated there when there is none, or none that is well-formed. Two
/// processes that do so at once get the same.
pub fn generated(state_dir: &Path) -> Result<Token, TokenFault> {
    let file = state_dir.join(FILE_NAME);
    let fault = |error| TokenFault::Io { file: file.clone(), error };
    let is_malformed = match read(&file)? {
        Some(token) if token.is_well_formed() => return Ok(token),
        Some(_) => true,
        None => false,
    };
    DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(fault)?;
    let token = Token::generate().map_err(fault)?;
    let beside = state_dir.join(format!("{FILE_NAME}.{}", std::process::id()));
    let written = write(&beside, &token).and_then(|()| {
        if is_malformed {
            return fs::rename(&beside, &file);
        }
        // A link, unlike a rename, does not take the place of a token that another process made meanwhile.
        match fs::hard_link(&beside, &file) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => fs::remove_file(&beside),
        }
    });
    if let Err(error) = written {
        let _ = fs::remove_file(&beside);
        return Err(fault(error));
    }
    read(&file)?.ok_or_else(|| fault(io::ErrorKind::NotFound.into()))
}

/// What the file says; `None` when there is none.
pub fn read(file: &Path) -> Result<Option<Token>, TokenFault> {
    let fault = |error| TokenFault::Io { file: file.to_owned(), error };
    let opened = match fs::File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(error)),
    };
    let metadata = opened.metadata().map_err(fault)?;
    if !metadata.is_file() {
        return Err(fault(io::Error::other("it is not a file")));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(TokenFault::Open { file: file.to_owned(), mode: metadata.mode() & 0o7777 });
    }
    let mut text = Vec::new();
    opened.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(fault)?;
    Ok(Some(Token::new(&String::from_utf8_lossy(&text))))
}

fn write(file: &Path, token: &Token) -> io::Result<()> {
    // Left by a process of the same id that was killed here.
    let _ = fs::remove_file(file);
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    opened.write_all(token.text().as_bytes())?;
    opened.write_all(b"\n")?;
    opened.sync_all()
}

#[cfg(test)]
mod tests {
    use super::{FILE_NAME, Token, TokenFault, generated};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_made_once_and_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a/state");
        let token = generated(&state).unwrap();
        assert!(token.is_well_formed());
        assert_eq!(generated(&state).unwrap(), token);
        let mode = fs::metadata(state.join(FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "nothing is left beside it");
        assert!(!format!("{token:?}").contains(token.text()));
    }

    #[test]
    fn what_is_no_token_is_replaced_and_what_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE_NAME);
        fs::write(&file, "short\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let token = generated(folder.path()).unwrap();
        assert!(token.is_well_formed());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let fault = generated(folder.path()).unwrap_err();
        assert!(matches!(fault, TokenFault::Open { mode: 0o640, .. }), "{fault}");
    }

    #[test]
    fn tokens_are_compared_as_a_whole() {
        let check = |token: &str, given: &str, expected: bool| assert_eq!(Token::new(token).is(given.as_bytes()), expected);
        check("abc", "abc", true);
        check("abc\n", "abc", true);
        check("abc", "abd", false);
        check("abc", "ab", false);
        check("abc", "abcd", false);
        check("", "", false);
    }
}
