//! The field names that some part of the program looks for, and what sets of them mean. Heads that hold such fields are
//! in `head`.

macro_rules! header_ids {
    ($($id:ident $name:literal)*) => {
        /// Fields that some part of the program looks for. Comparing one byte is cheaper than comparing names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum HeaderId {
            Other,
            /// Not sent on; its place in the list stays.
            Removed,
            $($id,)*
        }

        impl HeaderId {
            /// Every well-known name with its id, in lower case.
            pub const NAMES: &'static [(&'static str, HeaderId)] = &[$(($name, HeaderId::$id),)*];

            /// What a line with each of them begins with, in the same order.
            const LINE_STARTS: &'static [&'static str] = &[$(concat!($name, ": "),)*];
        }
    };
}

header_ids! {
    Host "host"
    Connection "connection"
    ContentLength "content-length"
    TransferEncoding "transfer-encoding"
    KeepAlive "keep-alive"
    ProxyConnection "proxy-connection"
    Te "te"
    Trailer "trailer"
    Upgrade "upgrade"
    ProxyAuthenticate "proxy-authenticate"
    ProxyAuthorization "proxy-authorization"
    Http2Settings "http2-settings"
    Expect "expect"
    Date "date"
    Server "server"
    Via "via"
    XForwardedFor "x-forwarded-for"
    XForwardedProto "x-forwarded-proto"
    XForwardedHost "x-forwarded-host"
    XForwardedPort "x-forwarded-port"
    Forwarded "forwarded"
    XRealIp "x-real-ip"
    XRequestId "x-request-id"
    ContentType "content-type"
    ContentEncoding "content-encoding"
    AcceptEncoding "accept-encoding"
    Accept "accept"
    Cookie "cookie"
    SetCookie "set-cookie"
    UserAgent "user-agent"
    Referer "referer"
    Origin "origin"
    Authorization "authorization"
    CacheControl "cache-control"
    Location "location"
    Range "range"
    Vary "vary"
    ETag "etag"
    LastModified "last-modified"
    Priority "priority"
    TraceParent "traceparent"
}

impl HeaderId {
    #[inline]
    pub(crate) const fn bit(self) -> u64 {
        match self {
            HeaderId::Other | HeaderId::Removed => 0,
            id => 1 << (id as u8),
        }
    }

    /// RFC 9110 section 7.6.1, `Transfer-Encoding`, and the HTTP/2 upgrade field (RFC 9113 section 3.1).
    pub(crate) const HOP_BY_HOP: u64 = HeaderId::Connection.bit()
        | HeaderId::TransferEncoding.bit()
        | HeaderId::KeepAlive.bit()
        | HeaderId::ProxyConnection.bit()
        | HeaderId::Te.bit()
        | HeaderId::Upgrade.bit()
        | HeaderId::ProxyAuthenticate.bit()
        | HeaderId::ProxyAuthorization.bit()
        | HeaderId::Http2Settings.bit();

    /// Whether the field speaks of a connection of HTTP/1.1, and is not sent over HTTP/2 (RFC 9113 section 8.2.2). `te`
    /// may say `trailers` there.
    #[inline]
    pub fn is_of_http1_connection(self) -> bool {
        const THESE: u64 = HeaderId::Connection.bit()
            | HeaderId::KeepAlive.bit()
            | HeaderId::ProxyConnection.bit()
            | HeaderId::TransferEncoding.bit()
            | HeaderId::Upgrade.bit()
            | HeaderId::Te.bit()
            | HeaderId::Http2Settings.bit();
        self.bit() & THESE != 0
    }

    /// What `Connection` may not name away.
    pub(crate) const PROTECTED: u64 = HeaderId::Host.bit()
        | HeaderId::ContentLength.bit()
        | HeaderId::ContentType.bit()
        | HeaderId::Authorization.bit()
        | HeaderId::Cookie.bit()
        | HeaderId::XForwardedFor.bit()
        | HeaderId::XForwardedProto.bit()
        | HeaderId::XForwardedHost.bit()
        | HeaderId::XForwardedPort.bit()
        | HeaderId::Forwarded.bit()
        | HeaderId::XRealIp.bit();

    /// The id of a field name, which must be a token, compared without case. Length and first letter leave at most two
    /// candidates.
    #[inline]
    pub fn of(name: &[u8]) -> HeaderId {
        let Some(first) = name.first() else { return HeaderId::Other };
        match (name.len(), first | 0x20) {
            (2, b't') if is(name, b"te") => HeaderId::Te,
            (3, b'v') if is(name, b"via") => HeaderId::Via,
            (4, b'h') if is(name, b"host") => HeaderId::Host,
            (4, b'd') if is(name, b"date") => HeaderId::Date,
            (4, b'v') if is(name, b"vary") => HeaderId::Vary,
            (4, b'e') if is(name, b"etag") => HeaderId::ETag,
            (5, b'r') if is(name, b"range") => HeaderId::Range,
            (6, b'a') if is(name, b"accept") => HeaderId::Accept,
            (6, b'c') if is(name, b"cookie") => HeaderId::Cookie,
            (6, b'e') if is(name, b"expect") => HeaderId::Expect,
            (6, b'o') if is(name, b"origin") => HeaderId::Origin,
            (6, b's') if is(name, b"server") => HeaderId::Server,
            (7, b'r') if is(name, b"referer") => HeaderId::Referer,
            (7, b't') if is(name, b"trailer") => HeaderId::Trailer,
            (7, b'u') if is(name, b"upgrade") => HeaderId::Upgrade,
            (8, b'l') if is(name, b"location") => HeaderId::Location,
            (8, b'p') if is(name, b"priority") => HeaderId::Priority,
            (9, b'f') if is(name, b"forwarded") => HeaderId::Forwarded,
            (9, b'x') if is(name, b"x-real-ip") => HeaderId::XRealIp,
            (10, b'c') if is(name, b"connection") => HeaderId::Connection,
            (10, b'k') if is(name, b"keep-alive") => HeaderId::KeepAlive,
            (10, b's') if is(name, b"set-cookie") => HeaderId::SetCookie,
            (10, b'u') if is(name, b"user-agent") => HeaderId::UserAgent,
            (11, b't') if is(name, b"traceparent") => HeaderId::TraceParent,
            (12, b'c') if is(name, b"content-type") => HeaderId::ContentType,
            (12, b'x') if is(name, b"x-request-id") => HeaderId::XRequestId,
            (13, b'a') if is(name, b"authorization") => HeaderId::Authorization,
            (13, b'c') if is(name, b"cache-control") => HeaderId::CacheControl,
            (13, b'l') if is(name, b"last-modified") => HeaderId::LastModified,
            (14, b'c') if is(name, b"content-length") => HeaderId::ContentLength,
            (14, b'h') if is(name, b"http2-settings") => HeaderId::Http2Settings,
            (15, b'a') if is(name, b"accept-encoding") => HeaderId::AcceptEncoding,
            (15, b'x') if is(name, b"x-forwarded-for") => HeaderId::XForwardedFor,
            (16, b'c') if is(name, b"content-encoding") => HeaderId::ContentEncoding,
            (16, b'p') if is(name, b"proxy-connection") => HeaderId::ProxyConnection,
            (16, b'x') if is(name, b"x-forwarded-host") => HeaderId::XForwardedHost,
            (16, b'x') if is(name, b"x-forwarded-port") => HeaderId::XForwardedPort,
            (17, b't') if is(name, b"transfer-encoding") => HeaderId::TransferEncoding,
            (17, b'x') if is(name, b"x-forwarded-proto") => HeaderId::XForwardedProto,
            (18, b'p') if is(name, b"proxy-authenticate") => HeaderId::ProxyAuthenticate,
            (19, b'p') if is(name, b"proxy-authorization") => HeaderId::ProxyAuthorization,
            _ => HeaderId::Other,
        }
    }

    /// The name, a colon and a space; empty for `Other` and `Removed`.
    #[inline]
    pub(crate) fn line_start(self) -> &'static [u8] {
        match (self as usize).checked_sub(2) {
            Some(position) => HeaderId::LINE_STARTS[position].as_bytes(),
            None => b"",
        }
    }

    /// Lower case; empty for `Other` and `Removed`.
    pub fn name(self) -> &'static str {
        match (self as usize).checked_sub(2) {
            Some(position) => HeaderId::NAMES[position].0,
            None => "",
        }
    }
}

/// Whether a token is `expected`, which is in lower case. With the length known to the compiler this is a few wide
/// instructions; setting the bit that makes letters lower case maps no other token byte onto a letter, digit or `-`.
#[inline(always)]
fn is<const N: usize>(name: &[u8], expected: &[u8; N]) -> bool {
    let Some(name) = name.first_chunk::<N>() else { return false };
    let mut lower = *name;
    for byte in &mut lower {
        *byte |= 0x20;
    }
    lower == *expected
}

#[cfg(test)]
mod tests {
    use super::HeaderId;

    #[test]
    fn every_well_known_name_is_recognised_in_any_case() {
        for (name, id) in HeaderId::NAMES {
            assert_eq!(HeaderId::of(name.as_bytes()), *id, "{name}");
            assert_eq!(HeaderId::of(name.to_ascii_uppercase().as_bytes()), *id, "{name}");
            assert_eq!((id.name(), id.line_start()), (*name, format!("{name}: ").as_bytes()));
            assert!((*id as u8) < 64, "the presence bits are a u64");
        }
        assert_eq!(HeaderId::of(b"x-other"), HeaderId::Other);
        assert_eq!(HeaderId::of(b""), HeaderId::Other);
    }
}
