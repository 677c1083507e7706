//! Parameters of the query that no log shows, whatever becomes of their request: keys and tokens, and what browsers
//! bring from a provider. How one is taken out of a query is in `api_key`.

use crate::api_key::without;
use std::borrow::Cow;
use tidegate_model::Step;

/// What a provider has a browser bring (RFC 9700 section 4.2.4), where it is not known for whom that is.
pub const BROUGHT_FROM_PROVIDERS: [&[u8]; 2] = [b"code", b"state"];

/// By which keys and tokens come to any of the steps, each once and in order.
pub fn secret_parameters<'s>(steps: impl Iterator<Item = &'s Step>) -> Box<[Box<[u8]>]> {
    let names = steps.flat_map(|step| step.facts().credential_parameters);
    let mut names: Vec<Box<[u8]>> = names.map(|name| name.as_bytes().into()).collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

/// What is left of a query without them.
pub fn without_secrets<'q>(query: &'q [u8], names: &[Box<[u8]>]) -> Cow<'q, [u8]> {
    let mut left = Cow::Borrowed(query);
    for name in names {
        if let Some(rest) = without(&left, name) {
            left = Cow::Owned(rest);
        }
    }
    left
}

/// An address that a client says it comes from, as a log may show it; `None` where that is as it is.
pub fn shown_address(address: &[u8], names: &[Box<[u8]>]) -> Option<Vec<u8>> {
    let path_end = address.iter().position(|byte| *byte == b'?')?;
    let (path, behind) = address.split_at(path_end);
    let query_end = behind.iter().position(|byte| *byte == b'#').unwrap_or(behind.len());
    let (query, fragment) = behind.split_at(query_end);
    let Cow::Owned(left) = without_secrets(&query[1..], names) else { return None };
    let mark: &[u8] = if left.is_empty() { b"" } else { b"?" };
    Some([path, mark, &left, fragment].concat())
}

#[cfg(test)]
mod tests {
    use super::shown_address;

    #[test]
    fn an_address_is_shown_without_keys() {
        let names = [Box::from(&b"api_key"[..]), Box::from(&b"token"[..])];
        let check = |address: &str, expected: Option<&str>| {
            let shown = shown_address(address.as_bytes(), &names);
            assert_eq!(shown.as_deref(), expected.map(str::as_bytes), "{address}");
        };
        check("http://a.test/x", None);
        check("http://a.test/x?a=b", None);
        check("http://a.test/api_key=1?", None);
        check("http://a.test/x?api_key=1", Some("http://a.test/x"));
        check("http://a.test/x?a=b&%61pi_key=1&c&token=2#d?token=3", Some("http://a.test/x?a=b&c#d?token=3"));
        check("?token", Some(""));
        check("http://a.test/x?b=http://c.test/?token=1", None);
    }
}
