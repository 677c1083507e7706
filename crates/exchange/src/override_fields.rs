//! Fields by which frameworks take a request for another one than it says: another method, path or host. A request
//! with one is neither answered from the cache nor kept in it, since a client would choose with it what others get
//! (cache poisoning); and trailers of requests have none.

use tidegate_wire::head::{Fields, HeaderId};
use tidegate_wire::name_table::NameTable;

const NAMES: NameTable<()> = NameTable::new(&[
    (b"x-http-method-override", ()),
    (b"x-http-method", ()),
    (b"x-method-override", ()),
    (b"x-method", ()),
    (b"x-original-url", ()),
    (b"x-original-uri", ()),
    (b"x-original-path", ()),
    (b"x-rewrite-url", ()),
    (b"x-rewrite-uri", ()),
    (b"x-host", ()),
    (b"x-original-host", ()),
    (b"x-http-host-override", ()),
    (b"x-host-override", ()),
    (b"x-http-path-override", ()),
    (b"x-override-url", ()),
]);

pub fn are_in(fields: &Fields) -> bool {
    fields.list.iter().any(|field| field.id == HeaderId::Other && is_override(field.name.of(&fields.bytes)))
}

#[inline]
pub(crate) fn is_override(name: &[u8]) -> bool {
    NAMES.find(name).is_some()
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
        for name in NAMES.names() {
            check(name, true);
            check(&name.to_ascii_uppercase(), true);
            for other in b"_.!#$%&'*+^`|~" {
                check(&name.iter().map(|byte| if *byte == b'-' { *other } else { *byte }).collect::<Vec<_>>(), true);
            }
            check(&name[..name.len() - 1], NAMES.names().any(|known| known == &name[..name.len() - 1]));
        }
        for name in ["X-Hosts", "X-Requested-With", "Method-Override", "X-", "X", "Host"] {
            check(name.as_bytes(), false);
        }
    }
}
