//! The static table (RFC 7541 appendix A): its entries for the decoder, and its indexes for the encoder. Entries that
//! come and go are in `dynamic_table`.

use super::{FieldName, PseudoHeader};
use crate::head::HeaderId;

/// A field of the static table, kept as it is laid down in a head: a line for a regular field, the value alone for a
/// pseudo-header.
#[derive(Debug, Clone, Copy)]
pub(super) struct StaticEntry {
    pub(super) name: FieldName,
    pub(super) name_len: u8,
    pub(super) value_len: u8,
    pub(super) bytes: &'static [u8],
}

impl StaticEntry {
    const fn pseudo(pseudo: PseudoHeader, name: &str, value: &'static str) -> StaticEntry {
        let (name_len, value_len) = (name.len() as u8, value.len() as u8);
        StaticEntry { name: FieldName::Pseudo(pseudo), name_len, value_len, bytes: value.as_bytes() }
    }

    const fn regular(id: HeaderId, name: &str, value: &str, line: &'static str) -> StaticEntry {
        let (name_len, value_len) = (name.len() as u8, value.len() as u8);
        StaticEntry { name: FieldName::Regular(id), name_len, value_len, bytes: line.as_bytes() }
    }
}

macro_rules! entries {
    (pseudo: $($pseudo:ident $pseudo_name:literal $pseudo_value:literal)*; regular: $($id:ident $name:literal $value:literal)*) => {
        [
            $(StaticEntry::pseudo(PseudoHeader::$pseudo, $pseudo_name, $pseudo_value),)*
            $(StaticEntry::regular(HeaderId::$id, $name, $value, concat!($name, ": ", $value, "\r\n")),)*
        ]
    };
}

/// The highest index of the static table; the dynamic one follows.
pub(super) const STATIC_ENTRIES: usize = 61;

/// The entry with index 1 comes first.
pub(super) static STATIC_TABLE: [StaticEntry; STATIC_ENTRIES] = entries! {
    pseudo:
    Authority ":authority" ""
    Method ":method" "GET"
    Method ":method" "POST"
    Path ":path" "/"
    Path ":path" "/index.html"
    Scheme ":scheme" "http"
    Scheme ":scheme" "https"
    Status ":status" "200"
    Status ":status" "204"
    Status ":status" "206"
    Status ":status" "304"
    Status ":status" "400"
    Status ":status" "404"
    Status ":status" "500";
    regular:
    Other "accept-charset" ""
    AcceptEncoding "accept-encoding" "gzip, deflate"
    Other "accept-language" ""
    Other "accept-ranges" ""
    Accept "accept" ""
    Other "access-control-allow-origin" ""
    Other "age" ""
    Other "allow" ""
    Authorization "authorization" ""
    CacheControl "cache-control" ""
    Other "content-disposition" ""
    ContentEncoding "content-encoding" ""
    Other "content-language" ""
    ContentLength "content-length" ""
    Other "content-location" ""
    Other "content-range" ""
    ContentType "content-type" ""
    Cookie "cookie" ""
    Date "date" ""
    ETag "etag" ""
    Expect "expect" ""
    Other "expires" ""
    Other "from" ""
    Host "host" ""
    Other "if-match" ""
    Other "if-modified-since" ""
    Other "if-none-match" ""
    Other "if-range" ""
    Other "if-unmodified-since" ""
    LastModified "last-modified" ""
    Other "link" ""
    Location "location" ""
    Other "max-forwards" ""
    ProxyAuthenticate "proxy-authenticate" ""
    ProxyAuthorization "proxy-authorization" ""
    Range "range" ""
    Referer "referer" ""
    Other "refresh" ""
    Other "retry-after" ""
    Server "server" ""
    SetCookie "set-cookie" ""
    Other "strict-transport-security" ""
    TransferEncoding "transfer-encoding" ""
    UserAgent "user-agent" ""
    Vary "vary" ""
    Via "via" ""
    Other "www-authenticate" ""
};

/// The first index with this name; 0 where there is none. `bytes`, in lower case, counts where `name` says nothing.
#[inline]
pub(super) fn index_of_name(name: FieldName, bytes: &[u8]) -> u8 {
    match name {
        FieldName::Pseudo(pseudo) => index_of_pseudo(pseudo),
        FieldName::Regular(HeaderId::Other) => index_of_bytes(bytes),
        FieldName::Regular(id) => index_of_id(id),
    }
}

fn index_of_pseudo(pseudo: PseudoHeader) -> u8 {
    match pseudo {
        PseudoHeader::Authority => 1,
        PseudoHeader::Method => 2,
        PseudoHeader::Path => 4,
        PseudoHeader::Scheme => 6,
        PseudoHeader::Status => 8,
        PseudoHeader::Protocol | PseudoHeader::Unknown => 0,
    }
}

fn index_of_id(id: HeaderId) -> u8 {
    match id {
        HeaderId::AcceptEncoding => 16,
        HeaderId::Accept => 19,
        HeaderId::Authorization => 23,
        HeaderId::CacheControl => 24,
        HeaderId::ContentEncoding => 26,
        HeaderId::ContentLength => 28,
        HeaderId::ContentType => 31,
        HeaderId::Cookie => 32,
        HeaderId::Date => 33,
        HeaderId::ETag => 34,
        HeaderId::Expect => 35,
        HeaderId::Host => 38,
        HeaderId::LastModified => 44,
        HeaderId::Location => 46,
        HeaderId::ProxyAuthenticate => 48,
        HeaderId::ProxyAuthorization => 49,
        HeaderId::Range => 50,
        HeaderId::Referer => 51,
        HeaderId::Server => 54,
        HeaderId::SetCookie => 55,
        HeaderId::TransferEncoding => 57,
        HeaderId::UserAgent => 58,
        HeaderId::Vary => 59,
        HeaderId::Via => 60,
        HeaderId::Other
        | HeaderId::Removed
        | HeaderId::Connection
        | HeaderId::KeepAlive
        | HeaderId::ProxyConnection
        | HeaderId::Te
        | HeaderId::Trailer
        | HeaderId::Upgrade
        | HeaderId::Http2Settings
        | HeaderId::XForwardedFor
        | HeaderId::XForwardedProto
        | HeaderId::XForwardedHost
        | HeaderId::XForwardedPort
        | HeaderId::Forwarded
        | HeaderId::XRealIp
        | HeaderId::XRequestId
        | HeaderId::TraceParent
        | HeaderId::Origin
        | HeaderId::Priority => 0,
    }
}

/// As [`index_of_id`], for names without an id. Length and first letter leave one candidate.
fn index_of_bytes(name: &[u8]) -> u8 {
    let Some(first) = name.first() else { return 0 };
    let candidate = match (name.len(), first) {
        (3, b'a') => 21,
        (4, b'f') => 37,
        (4, b'l') => 45,
        (5, b'a') => 22,
        (7, b'e') => 36,
        (7, b'r') => 52,
        (8, b'i') if name.ends_with(b"h") => 39,
        (8, b'i') => 42,
        (11, b'r') => 53,
        (12, b'm') => 47,
        (13, b'a') => 18,
        (13, b'c') => 30,
        (13, b'i') => 41,
        (14, b'a') => 15,
        (15, b'a') => 17,
        (16, b'c') if name.ends_with(b"guage") => 27,
        (16, b'c') => 29,
        (16, b'w') => 61,
        (17, b'i') => 40,
        (19, b'c') => 25,
        (19, b'i') => 43,
        (25, b's') => 56,
        (27, b'a') => 20,
        _ => return 0,
    };
    let is_name = STATIC_TABLE.get(candidate as usize - 1).is_some_and(|entry| entry.bytes.starts_with(name));
    if is_name { candidate } else { 0 }
}

/// The index of a field whose name and value are both in the table; 0 where there is none. `index` is that of its name.
#[inline]
pub(super) fn index_of_field(index: u8, value: &[u8]) -> u8 {
    match (index, value) {
        (2, b"GET") => 2,
        (2, b"POST") => 3,
        (4, b"/") => 4,
        (4, b"/index.html") => 5,
        (6, b"http") => 6,
        (6, b"https") => 7,
        (8, b"200") => 8,
        (8, b"204") => 9,
        (8, b"206") => 10,
        (8, b"304") => 11,
        (8, b"400") => 12,
        (8, b"404") => 13,
        (8, b"500") => 14,
        (16, b"gzip, deflate") => 16,
        (1 | 15 | 17.., b"") => index,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{STATIC_TABLE, index_of_field, index_of_name};
    use crate::h2::hpack::{FieldName, PseudoHeader};
    use crate::head::HeaderId;

    /// Name and value of every entry, from what the decoder copies.
    fn fields() -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let field = |entry: &super::StaticEntry| match entry.name {
            FieldName::Pseudo(pseudo) => {
                assert_eq!(pseudo.name().len(), usize::from(entry.name_len));
                assert_eq!(entry.bytes.len(), usize::from(entry.value_len));
                (pseudo.name().to_owned(), text(entry.bytes))
            }
            FieldName::Regular(_) => {
                let (name, rest) = entry.bytes.split_at(usize::from(entry.name_len));
                let value = rest.strip_prefix(b": ").and_then(|rest| rest.strip_suffix(b"\r\n")).expect("a line");
                assert_eq!(value.len(), usize::from(entry.value_len));
                (text(name), text(value))
            }
        };
        STATIC_TABLE.iter().map(field).collect()
    }

    #[test]
    fn every_entry_is_found_by_its_name_and_by_its_field() {
        let fields = fields();
        for (place, (name, value)) in fields.iter().enumerate() {
            let known = FieldName::of(name.as_bytes());
            assert_eq!(STATIC_TABLE[place].name, known, "{name}");
            let first = fields.iter().position(|(other, _)| other == name).expect("itself") + 1;
            let index = index_of_name(known, name.as_bytes());
            assert_eq!(usize::from(index), first, "{name}");
            assert_eq!(usize::from(index_of_field(index, value.as_bytes())), place + 1, "{name}: {value}");
            assert_eq!(index_of_field(index, b"something else"), 0, "{name}");
        }
        assert_eq!(index_of_field(0, b""), 0);
        assert_eq!(index_of_field(2, b""), 0);
        assert_eq!(index_of_field(16, b""), 0);
    }

    #[test]
    fn other_names_are_not_found() {
        let fields = fields();
        for (name, id) in HeaderId::NAMES {
            let is_in = fields.iter().any(|(other, _)| other == name);
            assert_eq!(index_of_name(FieldName::Regular(*id), b"") > 0, is_in, "{name}");
        }
        for (name, _) in &fields {
            for other in [name[1..].to_owned(), format!("{name}x"), name.replace('e', "f").replace('a', "b").replace('o', "p")] {
                let known = FieldName::Regular(HeaderId::Other);
                let is_other = !other.starts_with(':') && other != *name;
                assert!(!is_other || index_of_name(known, other.as_bytes()) == 0, "{other}");
            }
        }
        let unknown = [PseudoHeader::Protocol, PseudoHeader::Unknown].map(FieldName::Pseudo);
        assert_eq!(unknown.map(|name| index_of_name(name, b"")), [0, 0]);
    }
}
