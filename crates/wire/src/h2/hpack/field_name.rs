//! What a field of HTTP/2 is called, as a closed set that admission can match on. Well-known names of regular fields
//! are in `header_id`; the names that HPACK has numbers for in `static_table`.

use crate::head::HeaderId;

/// The name of a field, as far as it is known without looking at bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldName {
    Pseudo(PseudoHeader),
    /// A well-known name is this name byte for byte, in lower case. A name that differs from one in case only is
    /// `Other`, so that whoever checks the bytes of other names refuses it (RFC 9113 section 8.2.1).
    Regular(HeaderId),
}

/// Pseudo-header fields of RFC 9113 section 8.3 and RFC 8441 section 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PseudoHeader {
    Authority,
    Method,
    Path,
    Scheme,
    Status,
    Protocol,
    /// Another name that begins with a colon; a message with it is malformed.
    Unknown,
}

impl PseudoHeader {
    /// With the colon; empty for `Unknown`.
    pub fn name(self) -> &'static str {
        match self {
            PseudoHeader::Authority => ":authority",
            PseudoHeader::Method => ":method",
            PseudoHeader::Path => ":path",
            PseudoHeader::Scheme => ":scheme",
            PseudoHeader::Status => ":status",
            PseudoHeader::Protocol => ":protocol",
            PseudoHeader::Unknown => "",
        }
    }
}

impl FieldName {
    /// The name that these bytes are.
    #[inline]
    pub fn of(name: &[u8]) -> FieldName {
        if name.first() == Some(&b':') {
            return FieldName::Pseudo(match name {
                b":authority" => PseudoHeader::Authority,
                b":method" => PseudoHeader::Method,
                b":path" => PseudoHeader::Path,
                b":scheme" => PseudoHeader::Scheme,
                b":status" => PseudoHeader::Status,
                b":protocol" => PseudoHeader::Protocol,
                _ => PseudoHeader::Unknown,
            });
        }
        let id = HeaderId::of(name);
        FieldName::Regular(if id.name().as_bytes() == name { id } else { HeaderId::Other })
    }

    /// Whether fields of this name are kept as lines, `name: value`, CR LF. Of pseudo-headers only the value is kept.
    #[inline]
    pub(super) fn has_line(self) -> bool {
        matches!(self, FieldName::Regular(_))
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldName, PseudoHeader};
    use crate::head::HeaderId;

    #[test]
    fn names_are_known_in_lower_case_only() {
        for (name, id) in HeaderId::NAMES {
            assert_eq!(FieldName::of(name.as_bytes()), FieldName::Regular(*id));
            let upper = FieldName::of(name.to_ascii_uppercase().as_bytes());
            assert_eq!(upper, FieldName::Regular(HeaderId::Other), "{name}");
        }
        for name in [&b""[..], b"x-other", b"Host", b" :path"] {
            assert_eq!(FieldName::of(name), FieldName::Regular(HeaderId::Other));
        }
    }

    #[test]
    fn pseudo_headers_are_told_from_each_other() {
        use PseudoHeader::{Authority, Method, Path, Protocol, Scheme, Status, Unknown};
        for pseudo in [Authority, Method, Path, Scheme, Status, Protocol] {
            assert_eq!(FieldName::of(pseudo.name().as_bytes()), FieldName::Pseudo(pseudo));
        }
        for name in [&b":"[..], b":Path", b":pathx", b":host", b":\xff"] {
            assert_eq!(FieldName::of(name), FieldName::Pseudo(Unknown));
        }
        assert_eq!(size_of::<FieldName>(), 2);
    }
}
