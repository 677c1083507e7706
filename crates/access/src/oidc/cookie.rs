//! Cookies of a log-in: their names, and how a sealed session lies in several of them. Browsers keep no cookie of more
//! than 4,096 bytes with its name and value, so a long one is cut, and its first piece says how many there are.

use super::ProviderId;
use std::fmt::Write as _;

/// Of a session: 19 KB. Servers and balancers on the way refuse longer heads.
pub const CHUNKS_MAX: usize = 5;
/// Of a value; with its name and attributes below what browsers and balancers take.
const CHUNK_BYTES: usize = 3800;

/// As a site has them for one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieNames {
    /// With a digit behind it for each piece.
    pub session: Box<str>,
    pub flows: Box<str>,
    /// The session that another attempt was made for, so that there is no third.
    pub retried: Box<str>,
    /// Behind each `Set-Cookie`.
    attributes: Box<str>,
}

impl CookieNames {
    /// `domain`: whose sites have one log-in.
    pub fn new(provider: &ProviderId, domain: Option<&str>) -> CookieNames {
        // Browsers take `__Host-` only from a secure page, for this host alone and all of its paths.
        let prefix = if domain.is_some() { "__Secure-" } else { "__Host-" };
        let mut base = format!("{prefix}tidegate-");
        for byte in &provider[..4] {
            let _ = write!(base, "{byte:02x}");
        }
        let mut attributes = String::from("; Path=/; Secure; HttpOnly; SameSite=Lax");
        if let Some(domain) = domain {
            let _ = write!(attributes, "; Domain={domain}");
        }
        CookieNames {
            session: format!("{base}-").into(),
            flows: format!("{base}-flows").into(),
            retried: format!("{base}-retried").into(),
            attributes: attributes.into(),
        }
    }

    /// Which piece of a session a cookie of that name has.
    pub fn chunk_of(&self, name: &[u8]) -> Option<usize> {
        match name.strip_prefix(self.session.as_bytes())? {
            [digit @ b'0'..=b'9'] => Some(usize::from(digit - b'0')),
            _ => None,
        }
    }

    /// Whether a cookie of that name is one of these.
    pub fn has(&self, name: &[u8]) -> bool {
        self.chunk_of(name).is_some() || name == self.flows.as_bytes() || name == self.retried.as_bytes()
    }

    /// The value of a `Set-Cookie`, for so many seconds, or until the browser is closed. None at all removes it.
    pub fn set(&self, name: &str, value: &str, max_age: Option<u64>) -> String {
        let mut line = format!("{name}={value}{}", self.attributes);
        if let Some(seconds) = max_age {
            let _ = write!(line, "; Max-Age={seconds}");
        }
        line
    }

    pub fn remove(&self, name: &str) -> String {
        self.set(name, "", Some(0))
    }

    /// Values of `Set-Cookie` that put a sealed session in the place of one of so many pieces. `None`: it is too long.
    pub fn set_session(&self, sealed: &str, before: usize, max_age: u64) -> Option<Vec<String>> {
        let chunks = split_chunks(sealed)?;
        let set = |(number, chunk): (usize, &String)| self.set(&format!("{}{number}", self.session), chunk, Some(max_age));
        let mut lines: Vec<String> = chunks.iter().enumerate().map(set).collect();
        lines.extend((chunks.len()..before).map(|number| self.remove(&format!("{}{number}", self.session))));
        Some(lines)
    }

    pub fn remove_session(&self, before: usize) -> impl Iterator<Item = String> {
        (0..before).map(|number| self.remove(&format!("{}{number}", self.session)))
    }
}

/// The values of a session's cookies, in order. `None`: they would be too many.
pub fn split_chunks(sealed: &str) -> Option<Vec<String>> {
    let room = CHUNK_BYTES - 2;
    let count = sealed.len().div_ceil(room).max(1);
    if count > CHUNKS_MAX {
        return None;
    }
    let mut chunks: Vec<String> =
        sealed.as_bytes().chunks(room).map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect();
    if let Some(first) = chunks.first_mut() {
        first.insert_str(0, &format!("{count}."));
    }
    Some(chunks)
}

/// What such cookies hold, by their numbers. `None`: a piece is missing, or is none.
pub fn join_chunks<'c>(chunk: impl Fn(usize) -> Option<&'c [u8]>) -> Option<Vec<u8>> {
    let [count @ b'1'..=b'9', b'.', first @ ..] = chunk(0)? else { return None };
    let count = usize::from(count - b'0');
    if count > CHUNKS_MAX {
        return None;
    }
    let mut whole = Vec::with_capacity(count * CHUNK_BYTES);
    whole.extend_from_slice(first);
    for number in 1..count {
        whole.extend_from_slice(chunk(number)?);
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_BYTES, CHUNKS_MAX, CookieNames, join_chunks, split_chunks};

    #[test]
    fn sessions_are_cut_and_put_together() {
        let check = |bytes: usize, expected: Option<usize>| {
            let sealed = "a".repeat(bytes);
            let chunks = split_chunks(&sealed);
            assert_eq!(chunks.as_ref().map(Vec::len), expected, "{bytes}");
            let Some(chunks) = chunks else { return };
            assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES));
            let joined = join_chunks(|number| chunks.get(number).map(String::as_bytes));
            assert!(joined.as_deref() == Some(sealed.as_bytes()), "{bytes}");
            for missing in 0..chunks.len() {
                let of = |number| chunks.get(number).filter(|_| number != missing).map(String::as_bytes);
                assert!(join_chunks(of).is_none());
            }
        };
        check(1, Some(1));
        check(3798, Some(1));
        check(3799, Some(2));
        check(8000, Some(3));
        check(3798 * CHUNKS_MAX, Some(CHUNKS_MAX));
        check(3798 * CHUNKS_MAX + 1, None);
        for wrong in ["", "a", "0.a", "9.a", "1a", "x.a"] {
            assert!(join_chunks(|number| (number == 0).then_some(wrong.as_bytes())).is_none(), "{wrong}");
        }
    }

    #[test]
    fn names_and_attributes_are_what_browsers_hold_to_one_host_or_domain() {
        let own = CookieNames::new(&[0xab; 16], None);
        assert_eq!(
            own.set(&own.flows, "v", Some(600)),
            "__Host-tidegate-abababab-flows=v; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600"
        );
        let shared = CookieNames::new(&[0xab; 16], Some("example.com"));
        assert_eq!(
            shared.remove(&shared.retried),
            "__Secure-tidegate-abababab-retried=; Path=/; Secure; HttpOnly; SameSite=Lax; Domain=example.com; Max-Age=0"
        );
        let check = |name: &str, expected: Option<usize>, is_one: bool| {
            assert_eq!((own.chunk_of(name.as_bytes()), own.has(name.as_bytes())), (expected, is_one), "{name}");
        };
        check("__Host-tidegate-abababab-0", Some(0), true);
        check("__Host-tidegate-abababab-4", Some(4), true);
        check("__Host-tidegate-abababab-flows", None, true);
        check("__Host-tidegate-abababab-retried", None, true);
        check("__Host-tidegate-abababab-10", None, false);
        check("__Host-tidegate-abababac-0", None, false);
        check("__Secure-tidegate-abababab-0", None, false);
        assert_eq!(own.set_session("abc", 3, 10).map(|lines| lines.len()), Some(3));
        assert_eq!(own.remove_session(2).count(), 2);
    }
}
