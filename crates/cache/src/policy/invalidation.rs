//! Which stored URLs an unsafe request makes invalid (RFC 9111 section 4.4). Removing them is the store's.
//! How references are resolved is in `key`.

use crate::key::Key;
use crate::message::{RequestHead, ResponseHead, Sole, sole};

/// Methods that change nothing (RFC 9110 section 9.2.1). Whatever is not known may change something.
const SAFE_METHODS: [&[u8]; 4] = [b"GET", b"HEAD", b"OPTIONS", b"TRACE"];

/// The target itself, and what `Location` and `Content-Location` name on the same origin: elsewhere, a server could
/// empty others' entries. Nothing after an error, which has changed nothing.
pub fn invalidated(target: &Key, request: RequestHead<'_>, response: ResponseHead<'_>) -> Vec<Key> {
    if SAFE_METHODS.contains(&request.method) || !(200..400).contains(&response.status) {
        return Vec::new();
    }
    let mut keys = vec![target.clone()];
    for name in ["location", "content-location"] {
        let Sole::One(reference) = sole(response.fields, name) else { continue };
        match target.resolve(reference) {
            Some(key) if key.origin() == target.origin() && !keys.contains(&key) => keys.push(key),
            Some(_) | None => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests;
