//! What a stored answer is found by: the URL, and within it the request fields that `Vary` names, normalised so that
//! requests which get the same answer find the same one. `Authorization` and `Cookie` are part of it only where `Vary`
//! names them.

mod vary;

pub use vary::{PARTITION, Vary};

use bytes::Bytes;
use std::cmp::Ordering;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::LazyLock;

/// Bytes of a key; a longer URL is not cached.
pub const KEY_BYTES_MAX: usize = 16 << 10;

/// Of the whole process: clients choose URLs, and must not know which of them fall into one place of a table.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Scheme, host, path and query of a URL. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Key {
    bytes: Bytes,
    origin_len: u16,
    /// Made once: a request asks for the shard of a key and for its place in there.
    hash: u64,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.hash == other.hash && self.bytes == other.bytes
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.bytes.cmp(&other.bytes)
    }
}

/// For tables whose keys are hashes already, or numbers that nobody outside chooses.
pub(crate) type Hashed = BuildHasherDefault<HashedHasher>;

#[derive(Default)]
pub(crate) struct HashedHasher(u64);

impl Hasher for HashedHasher {
    fn write_u64(&mut self, number: u64) {
        // Numbers in a row differ in their low bits only, and tables look at the highest as well.
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "only numbers are hashed with it");
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Key {
    /// `host` with the port, if there is one; `target` is path and query as they are sent on, so that what the upstream
    /// tells apart is told apart here. `None` if it is longer than [`KEY_BYTES_MAX`], or if one part could pass for
    /// another.
    pub fn new(scheme: &[u8], host: &[u8], target: &[u8]) -> Option<Key> {
        Key::of(scheme, host, [target, b"", b""])
    }

    /// The key for a target whose query stands elsewhere.
    pub fn of_parts(scheme: &[u8], host: &[u8], path: &[u8], query: Option<&[u8]>) -> Option<Key> {
        match query {
            Some(query) => Key::of(scheme, host, [path, b"?", query]),
            None => Key::new(scheme, host, path),
        }
    }

    fn of(scheme: &[u8], host: &[u8], target: [&[u8]; 3]) -> Option<Key> {
        let default_port: &[u8] = if scheme.eq_ignore_ascii_case(b"https") {
            b":443"
        } else if scheme.eq_ignore_ascii_case(b"http") {
            b":80"
        } else {
            return None;
        };
        let host = host.strip_suffix(default_port).unwrap_or(host);
        let is_foreign = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'/' | b'?' | b'#' | b'\\' | b'@' | b' ');
        let root: &[u8] = if target[0].is_empty() { b"/" } else { b"" };
        let is_target = (target[0].is_empty() || target[0][0] == b'/') && !target.iter().any(|part| part.contains(&b'#'));
        let target_len = root.len() + target.iter().map(|part| part.len()).sum::<usize>();
        if host.is_empty() || host.iter().any(is_foreign) || !is_target || host.len() + target_len > KEY_BYTES_MAX - 8 {
            return None;
        }
        let mut bytes = Vec::with_capacity(scheme.len() + 3 + host.len() + target_len);
        for part in [scheme, b"://", host, root, target[0], target[1], target[2]] {
            bytes.extend_from_slice(part);
        }
        let origin_len = bytes.len() - target_len;
        bytes[..origin_len].make_ascii_lowercase();
        let hash = HASHES.hash_one(&bytes[..]);
        Some(Key { origin_len: origin_len as u16, bytes: bytes.into(), hash })
    }

    /// A number below `count` that is the key's, and tells nothing of its place in a table.
    pub(crate) fn share(&self, count: usize) -> usize {
        (self.hash >> 32) as usize % count
    }

    /// As it is kept on disk; `None` if it is not how [`Key::new`] makes one.
    pub fn from_url(url: &[u8]) -> Option<Key> {
        let colon = url.iter().position(|byte| *byte == b':')?;
        let rest = url[colon..].strip_prefix(b"://")?;
        let path = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let target = [if rest[path..].starts_with(b"?") { &b"/"[..] } else { b"" }, &rest[path..]].concat();
        Key::new(&url[..colon], &rest[..path], &target)
    }

    pub fn url(&self) -> &[u8] {
        &self.bytes
    }

    /// Scheme and host.
    pub fn origin(&self) -> &[u8] {
        &self.bytes[..usize::from(self.origin_len)]
    }

    /// The host, in lower case, with a port that is not its scheme's.
    pub fn host(&self) -> &[u8] {
        let origin = self.origin();
        let scheme = origin.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + b"://".len());
        &origin[scheme..]
    }

    /// The port that the URL names, or else `default`.
    pub fn port(&self, default: u16) -> u16 {
        let digits = self.host().rsplit(|byte| *byte == b':').next().unwrap_or_default();
        // Of an address of IPv6 the last part may be all digits, and there is a bracket behind it.
        let named = self.host().contains(&b':').then(|| std::str::from_utf8(digits).ok()?.parse().ok());
        named.flatten().unwrap_or(default)
    }

    /// What a reference in an answer to this URL names (RFC 3986 section 5.2); `None` if it names nothing that is
    /// cached.
    pub fn resolve(&self, reference: &[u8]) -> Option<Key> {
        let reference = reference.split(|byte| *byte == b'#').next()?;
        let colon = self.bytes.iter().position(|byte| *byte == b':')?;
        let end = reference.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(reference.len());
        if reference[..end].contains(&b':') {
            return Key::from_url(reference).and_then(|key| key.without_dots());
        }
        let target = &self.bytes[usize::from(self.origin_len)..];
        let path = target.split(|byte| *byte == b'?').next()?;
        let url = match reference {
            [] => return Some(self.clone()),
            [b'/', b'/', ..] => [&self.bytes[..=colon], reference].concat(),
            [b'/', ..] => [self.origin(), reference].concat(),
            [b'?', ..] => [self.origin(), path, reference].concat(),
            _ => {
                let folder = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
                [self.origin(), &path[..folder], reference].concat()
            }
        };
        Key::from_url(&url)?.without_dots()
    }

    /// RFC 3986 section 5.2.4.
    fn without_dots(&self) -> Option<Key> {
        let target = &self.bytes[usize::from(self.origin_len)..];
        let query = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
        let mut segments: Vec<&[u8]> = Vec::new();
        let mut parts = target[1..query].split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            match part {
                b"." if is_last => segments.push(b""),
                b"." => {}
                b".." => {
                    segments.pop();
                    if is_last {
                        segments.push(b"");
                    }
                }
                other => segments.push(other),
            }
        }
        Key::from_url(&[self.origin(), b"/", &segments.join(&b'/'), &target[query..]].concat())
    }
}

#[cfg(test)]
mod tests;
