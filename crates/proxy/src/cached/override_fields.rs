//! Fields by which frameworks take a request for another one than it says: another method, path or host. A request
//! with one is neither answered from the cache nor kept in it, since a client would choose with it what others get
//! (cache poisoning).

use tidegate_exchange::forwarded::folds_to;
use tidegate_wire::head::{Fields, HeaderId};

/// In lower case; `_` for `-` is the same name to CGI-like servers.
const NAMES: &[&[u8]] = &[
    b"x-http-method-override",
    b"x-http-method",
    b"x-method-override",
    b"x-method",
    b"x-original-url",
    b"x-original-uri",
    b"x-original-path",
    b"x-rewrite-url",
    b"x-rewrite-uri",
    b"x-host",
    b"x-original-host",
    b"x-http-host-override",
    b"x-host-override",
];

pub(super) fn are_in(fields: &Fields) -> bool {
    fields.list.iter().any(|field| field.id == HeaderId::Other && is_override(field.name.of(&fields.bytes)))
}

fn is_override(name: &[u8]) -> bool {
    // Nearly no field of an ordinary request gets further.
    if name.len() < b"x-host".len() || !matches!(name, [b'x' | b'X', b'-' | b'_', ..]) {
        return false;
    }
    NAMES.iter().any(|known| folds_to(name, known))
}

#[cfg(test)]
mod tests {
    use super::{NAMES, are_in};
    use tidegate_wire::head::Fields;

    #[test]
    fn a_name_is_known_in_any_spelling() {
        let check = |name: &[u8], expected: bool| {
            let mut fields = Fields::default();
            fields.push(b"accept-language", b"en");
            fields.push(name, b"DELETE");
            assert_eq!(are_in(&fields), expected, "{}", name.escape_ascii());
        };
        for name in NAMES {
            check(name, true);
            check(&name.to_ascii_uppercase(), true);
            check(&name.iter().map(|byte| if *byte == b'-' { b'_' } else { *byte }).collect::<Vec<_>>(), true);
            check(&name[..name.len() - 1], NAMES.contains(&&name[..name.len() - 1]));
        }
        for name in ["X-Hosts", "X-Requested-With", "Method-Override", "X-", "X", "Host"] {
            check(name.as_bytes(), false);
        }
    }
}
