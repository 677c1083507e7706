//! The key that repositories and checksums are signed with: OpenPGP, by gpg, in a key ring that is there for the task
//! only. No key is in the repository.

use crate::process::Invocation;
use crate::repository::root;
use crate::scratch::ScratchFolder;
use std::path::{Path, PathBuf};

pub struct Key {
    ring: ScratchFolder,
    pub fingerprint: String,
}

/// How a signature goes with what is signed.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// In a file of its own.
    Detached,
    /// Around the text.
    Clear,
}

impl Key {
    /// The key of a file, which has no passphrase: nobody is there to be asked.
    pub fn open(file: &Path) -> Result<Key, String> {
        let file = file.canonicalize().map_err(|error| format!("dist: --key {}: {error}", file.display()))?;
        let ring = ScratchFolder::new("key")?;
        let mut key = Key { ring, fingerprint: String::new() };
        key.gpg(&["--import", &file.display().to_string()])?;
        let listed = key.gpg(&["--with-colons", "--list-secret-keys"])?;
        let found = fingerprint_in(&listed);
        key.fingerprint = found.ok_or_else(|| format!("dist: --key {}: no secret key is in it", file.display()))?;
        Ok(key)
    }

    /// A key that is gone with the task, for repositories that are looked at and thrown away.
    pub fn for_now() -> Result<Key, String> {
        let mut key = Key { ring: ScratchFolder::new("key")?, fingerprint: String::new() };
        key.gpg(&[
            "--passphrase",
            "",
            "--quick-generate-key",
            "Tried and thrown away <nobody@tidegate.invalid>",
            "ed25519",
            "sign",
            "1d",
        ])?;
        let listed = key.gpg(&["--with-colons", "--list-secret-keys"])?;
        key.fingerprint = fingerprint_in(&listed).ok_or("dist: gpg has made no key")?;
        Ok(key)
    }

    /// The folder that gpg calls its home.
    pub fn ring(&self) -> &Path {
        self.ring.path()
    }

    pub fn sign(&self, file: &Path, form: Form, to: &Path) -> Result<PathBuf, String> {
        let how = match form {
            Form::Detached => ["--armor", "--detach-sign"].as_slice(),
            Form::Clear => &["--clear-sign"],
        };
        let (file, output) = (file.display().to_string(), to.display().to_string());
        let begin = ["--local-user", &self.fingerprint, "--digest-algo", "SHA256", "--yes", "--output", &output];
        self.gpg(&[&begin, how, &[&file]].concat())?;
        Ok(to.to_owned())
    }

    /// What users trust.
    pub fn write_public(&self, to: &Path) -> Result<(), String> {
        let output = to.display().to_string();
        self.gpg(&["--armor", "--yes", "--output", &output, "--export", &self.fingerprint]).map(drop)
    }

    fn gpg(&self, arguments: &[&str]) -> Result<String, String> {
        let home = self.ring.path().display().to_string();
        let invocation = Invocation::new("gpg", &[&["--homedir", &home, "--batch", "--quiet", "--no-tty"], arguments].concat());
        let output = invocation.capture(&root())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("dist: {}: {}", invocation.line(), String::from_utf8_lossy(&output.stderr).trim()))
    }
}

impl Drop for Key {
    /// Ends the agent that gpg has started for this ring.
    fn drop(&mut self) {
        let home = self.ring.path().display().to_string();
        drop(Invocation::new("gpgconf", &["--homedir", &home, "--kill", "all"]).capture(&root()));
    }
}

/// The first secret key of a listing with colons: its fingerprint stands in the line behind it.
fn fingerprint_in(listing: &str) -> Option<String> {
    let mut lines = listing.lines().skip_while(|line| !line.starts_with("sec:"));
    let line = lines.find(|line| line.starts_with("fpr:"))?;
    line.split(':').nth(9).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::fingerprint_in;

    #[test]
    fn the_fingerprint_is_that_of_the_first_secret_key() {
        let listing = "tru::1:1\nsec:u:255:22:B:1:::u:::scESC:::+::ed25519:::0:\nfpr:::::::::AAAA:\ngrp:::::::::CCCC:\nssb:u:::\nfpr:::::::::DDDD:\n";
        assert_eq!(fingerprint_in(listing).as_deref(), Some("AAAA"));
        assert_eq!(fingerprint_in("pub:u:255:\nfpr:::::::::AAAA:\n"), None);
    }
}
