//! What sticky cookies say: a signature of the pool and the server, which names the server to who knows the key, and
//! nothing to anybody else. All that would be right are known when a configuration is compiled, so a request needs no
//! cryptography. The cookie itself is read and set in `proxy`.

use aws_lc_rs::{hmac, rand};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tidegate_model::{PoolName, Sticky, UpstreamAddress};

/// In the state folder: what pools sign with that have no secret of their own.
const FILE_NAME: &str = "sticky-key";
const KEY_BYTES: usize = 32;
/// Of the signature; 128 bits cannot be guessed.
const VALUE_BYTES: usize = 16;

pub struct CookieKeys {
    state_dir: PathBuf,
    /// Made, or read, when the first pool needs it.
    own: OnceLock<Option<Vec<u8>>>,
}

impl CookieKeys {
    pub fn new(state_dir: PathBuf) -> CookieKeys {
        CookieKeys { state_dir, own: OnceLock::new() }
    }

    /// The cookie's value for one server: the same over reloads and restarts, and in every process with the same
    /// secret. `None` when there is no key, and no randomness to make one of: then nobody gets a cookie that others
    /// could make.
    pub fn value(&self, sticky: &Sticky, pool: &PoolName, address: &UpstreamAddress) -> Option<Arc<str>> {
        let key = match &sticky.secret {
            Some(secret) => secret.reveal().as_bytes(),
            None => self.own()?,
        };
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
        context.update(b"tidegate sticky cookie 1\0");
        context.update(pool.0.as_bytes());
        context.update(b"\0");
        context.update(address.authority().as_bytes());
        let mut value = String::with_capacity(VALUE_BYTES * 2);
        for byte in &context.sign().as_ref()[..VALUE_BYTES] {
            value.push_str(&format!("{byte:02x}"));
        }
        Some(value.into())
    }

    fn own(&self) -> Option<&[u8]> {
        let own = self.own.get_or_init(|| {
            let path = self.state_dir.join(FILE_NAME);
            let refuse = |error| {
                tracing::error!(
                    path = %path.display(),
                    %error,
                    "the key of sticky cookies cannot be kept: cookies given now mean nothing after a restart; \
                     let the process write there, or give `sticky` a secret="
                );
                random_key().ok()
            };
            read_or_make(&path).map_or_else(refuse, Some)
        });
        own.as_deref()
    }
}

fn read_or_make(path: &Path) -> io::Result<Vec<u8>> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        outcome => return outcome,
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let key = random_key()?;
    // Whole or not at all, and whoever was first wins: two processes may start at once.
    let mut file = tempfile::Builder::new().prefix(FILE_NAME).tempfile_in(folder)?;
    file.write_all(&key)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(key),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(error.error),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path)?;
    let mut key = Vec::with_capacity(KEY_BYTES);
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut key)?;
    if key.len() != KEY_BYTES {
        return Err(io::Error::other(format!("it has not the {KEY_BYTES} bytes of a key; remove it to have a new one made")));
    }
    Ok(key)
}

fn random_key() -> io::Result<Vec<u8>> {
    let mut key = vec![0; KEY_BYTES];
    rand::fill(&mut key).map_err(|_| io::Error::other("the system gives no randomness"))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::{CookieKeys, FILE_NAME};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tidegate_model::{PoolName, Secret, Sticky, UpstreamAddress};

    fn value(keys: &CookieKeys, secret: Option<&str>, pool: &str, server: &str) -> String {
        let sticky = Sticky { cookie: "c".into(), secret: secret.map(Secret::new), ..Sticky::default() };
        keys.value(&sticky, &PoolName(pool.into()), &UpstreamAddress::parse(server).expect("an address"))
            .expect("a key")
            .to_string()
    }

    #[test]
    fn a_value_is_that_of_pool_server_and_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = CookieKeys::new(folder.path().to_owned());
        let one = value(&keys, Some("a secret of length"), "p", "a:1");
        assert_eq!(one.len(), 32);
        assert_eq!(one, value(&CookieKeys::new("/nowhere".into()), Some("a secret of length"), "p", "a:1"));
        for (secret, pool, server) in
            [("another secret", "p", "a:1"), ("a secret of length", "q", "a:1"), ("a secret of length", "p", "a:2")]
        {
            assert_ne!(one, value(&keys, Some(secret), pool, server), "{secret} {pool} {server}");
        }
        assert!(!folder.path().join(FILE_NAME).exists(), "no key is made that nobody needs");
    }

    #[test]
    fn the_own_key_is_kept_and_for_nobody_else_to_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let one = value(&CookieKeys::new(state.clone()), None, "p", "a:1");
        assert_eq!(one, value(&CookieKeys::new(state.clone()), None, "p", "a:1"), "as after a restart");
        let mode = fs::metadata(state.join(FILE_NAME)).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0);
        fs::write(state.join(FILE_NAME), "torn").expect("written");
        assert_ne!(one, value(&CookieKeys::new(state.clone()), None, "p", "a:1"), "another key, since that one is none");
        assert_eq!(fs::read(state.join(FILE_NAME)).expect("there"), b"torn", "what is there is not overwritten");
    }
}
