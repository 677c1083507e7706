//! Header fields as `HTTP_*` params (RFC 3875 section 4.1.18).
//! Which fields are hop-by-hop, and whom they are believed from, is settled before. The other params are in `params`.

use super::Writer;
use crate::pairs::PairsTooLarge;
use std::cmp::Ordering;

const PREFIX: &[u8] = b"HTTP_";
/// Between the values of a field that came several times (RFC 9110 section 5.3).
const SEPARATOR: &[u8] = b", ";
/// RFC 6265 section 5.4; PHP splits cookies here only.
const COOKIE_SEPARATOR: &[u8] = b"; ";

pub fn write<'r>(
    writer: &mut Writer<'_>,
    authority: &'r [u8],
    fields: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
) -> Result<(), PairsTooLarge> {
    let bytes_max = writer.pairs.bytes_max();
    let mut content_type = None;
    let mut kept: Vec<(&[u8], &[u8])> = Vec::new();
    // What the kept fields will take at the least: a separator is no longer than a prefix. It keeps the list within the
    // bound too.
    let mut bytes = 0;
    for (name, value) in fields {
        match fate(name, authority, writer.extra) {
            Fate::Dropped => {}
            // A second one is what a client sends that wants proxy and application to read different ones.
            Fate::ContentType => content_type = content_type.or(Some(value)),
            Fate::Kept => {
                bytes += value.len() + SEPARATOR.len();
                if bytes > bytes_max {
                    return Err(PairsTooLarge { bytes_max });
                }
                kept.push((name, value));
            }
        }
    }
    if let Some(content_type) = content_type {
        writer.put(b"CONTENT_TYPE", [content_type])?;
    }
    if !authority.is_empty() {
        writer.put(b"HTTP_HOST", [authority])?;
    }
    // Sorted, so that repeated fields are found without comparing each with each. Stable: their values stay in order.
    kept.sort_by(|one, other| compare(one.0, other.0));
    let mut param = Vec::new();
    for same in kept.chunk_by(|one, other| one.0.eq_ignore_ascii_case(other.0)) {
        let name = same[0].0;
        param.clear();
        param.extend_from_slice(PREFIX);
        param.extend(name.iter().copied().map(param_byte));
        let separator = if name.eq_ignore_ascii_case(b"cookie") { COOKIE_SEPARATOR } else { SEPARATOR };
        let joined = same.iter().enumerate().flat_map(|(place, (_, value))| [if place == 0 { b"" } else { separator }, *value]);
        writer.pairs.push([&param[..]], joined)?;
    }
    Ok(())
}

enum Fate {
    Kept,
    ContentType,
    Dropped,
}

fn fate(name: &[u8], authority: &[u8], extra: &[(&[u8], &[u8])]) -> Fate {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    // `_` would become the same param as `-`, and PHP writes `.` as `_` in the names of its variables: a client could
    // then set a field behind the back of every rule for its real name. The other token bytes are in no name that is in
    // use.
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
        return Fate::Dropped;
    }
    // HTTP_PROXY is how a program is told its own outgoing proxy (httpoxy, CVE-2016-5385).
    if is("proxy") || is("content-length") || (is("host") && !authority.is_empty()) {
        return Fate::Dropped;
    }
    if is("content-type") {
        return Fate::ContentType;
    }
    let is_replaced = extra.iter().any(|(param, _)| {
        param.strip_prefix(PREFIX).is_some_and(|rest| {
            rest.len() == name.len() && rest.iter().zip(name).all(|(param, name)| *param == param_byte(*name))
        })
    });
    if is_replaced { Fate::Dropped } else { Fate::Kept }
}

fn compare(one: &[u8], other: &[u8]) -> Ordering {
    one.iter().map(u8::to_ascii_lowercase).cmp(other.iter().map(u8::to_ascii_lowercase))
}

fn param_byte(byte: u8) -> u8 {
    if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }
}
