//! What steps and templates know besides the heads, and the buffers they work in.

use std::net::IpAddr;
use std::time::Duration;
use tidegate_access::{Claims, Identity};
use tidegate_geo::Whereabouts;
use tidegate_model::Scheme;
use tidegate_routing::RequestFacts;
use tidegate_tables::Maps;
use tidegate_wire::ClientCertificate;
use tidegate_wire::head::{RequestHead, ResponseHead, Span};
use tidegate_wire::proxy_protocol::Introduction;

/// Facts about one request that are not in its head. The heads are not part of it, so that a step can read this while
/// it changes one.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub scheme: Scheme,
    /// The port that the client came to, as it is public.
    pub port: u16,
    /// The address that is believed to be the client's, after `trusted-proxies`.
    pub client_ip: IpAddr,
    pub client_port: u16,
    /// Who has sent the request: the client, or a proxy.
    pub peer_ip: IpAddr,
    pub tls_sni: Option<&'a str>,
    /// `1.3`; `None` in plain text.
    pub tls_version: Option<&'static str>,
    /// What the client has shown in its handshake.
    pub client_certificate: Option<&'a ClientCertificate>,
    /// Letters, digits and `_`. `None` in plain text.
    pub tls_ja4: Option<&'a str>,
    /// What a load balancer has said of the connection.
    pub introduction: Option<&'a Introduction>,
    /// `host:port`; `None` until a server was chosen.
    pub upstream_address: Option<&'a str>,
    pub request_id: RequestId,
    /// The identifier that a trusted proxy has given the request, where it is none of ours in form.
    pub given_id: Option<&'a str>,
    /// Who has logged in.
    pub identity: Option<&'a Identity>,
    /// What the token says that was verified.
    pub claims: Option<&'a Claims>,
    /// In a page for an error: the status that the client gets, and the reason code or nothing.
    pub error: Option<(u16, &'a str)>,
    pub now_unix_ms: u64,
    /// When the request came, from the start of the process; what limits count in.
    pub since_start: Duration,
    /// The path that the route was found by, in the request's bytes; the head's own may be another one by now.
    pub asked_path: Span,
    pub asked_query: Option<Span>,
    /// As others are told it: without keys that are not for them.
    pub told_query: Option<Span>,
    /// The protocol that the client asks to switch to, as well in the request's bytes.
    pub upgrade: Option<Span>,
    /// What is known of the client's address.
    pub geo: Whereabouts<'a>,
    /// What `{map.NAME}` is looked up in.
    pub maps: &'a Maps,
}

/// All that a template may read.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub context: &'a Context<'a>,
    pub request: &'a RequestHead,
    /// `None` before there is one.
    pub response: Option<&'a ResponseHead>,
}

impl<'a> Context<'a> {
    /// What conditions look at: the request as it was asked, with the fields that steps have left it.
    pub(crate) fn facts<'f>(&'f self, request: &'f RequestHead) -> RequestFacts<'f>
    where
        'a: 'f,
    {
        let bytes = &request.fields.bytes;
        RequestFacts {
            head: request,
            path: self.asked_path.of(bytes),
            query: self.asked_query.map(|query| query.of(bytes)),
            host: request.host(),
            scheme: self.scheme,
            client_ip: self.client_ip,
            client_certificate: self.client_certificate,
            ja4: self.tls_ja4,
            upgrade: self.upgrade.map(|protocol| protocol.of(bytes)),
            geo: self.geo,
            maps: self.maps,
            claims: self.claims,
        }
    }

    /// Calls back with the request's identifier as text.
    #[inline]
    pub fn see_request_id<T>(&self, see: impl FnOnce(&str) -> T) -> T {
        self.request_id.see(self.given_id, see)
    }
}

/// Written as 32 hexadecimal digits, which is also the form of a W3C trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub u128);

impl RequestId {
    pub fn to_hex(self) -> [u8; 32] {
        let mut hex = [0; 32];
        for (digits, word) in hex.as_chunks_mut::<8>().0.iter_mut().zip(self.0.to_be_bytes().as_chunks::<4>().0) {
            *digits = eight_digits(u32::from_be_bytes(*word));
        }
        hex
    }

    /// By which a request is found whose identifier is this text: the number that it writes, or else one that is made
    /// of it (FNV-1a).
    pub fn of_text(text: &str) -> RequestId {
        if let Some(number) = RequestId::parse(text) {
            return number;
        }
        let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        RequestId(text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step))
    }

    /// What is written exactly as those of this process are.
    pub fn parse(text: &str) -> Option<RequestId> {
        let is_ours = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_ours.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(RequestId)
    }

    /// Calls back with the identifier as text: the one that somebody gave, or else its digits.
    #[inline]
    pub fn see<T>(self, given: Option<&str>, see: impl FnOnce(&str) -> T) -> T {
        match given {
            Some(given) => see(given),
            None => see(std::str::from_utf8(&self.to_hex()).unwrap_or_default()),
        }
    }
}

/// All digits of a number at once, each in a byte of its own.
#[inline]
fn eight_digits(number: u32) -> [u8; 8] {
    let wide = u64::from(number);
    let wide = (wide | wide << 16) & 0x0000_ffff_0000_ffff;
    let wide = (wide | wide << 8) & 0x00ff_00ff_00ff_00ff;
    let digits = (wide | wide << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in each byte whose digit is a letter.
    let letters = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (digits + 0x3030_3030_3030_3030 + letters * 0x27).to_be_bytes()
}

/// Buffers that a worker keeps and lends to every request, so that rendering allocates nothing once they have grown.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) rendered: Vec<u8>,
    pub(crate) normal_path: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::RequestId;

    #[test]
    fn a_request_id_has_32_digits() {
        let check = |id: u128| assert_eq!(RequestId(id).to_hex().as_slice(), format!("{id:032x}").as_bytes());
        check(0);
        check(1);
        check(u128::MAX);
        check(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        check(0xfedc_ba98_7654_3210_f0f0_0f0f_9a9a_a9a9);
    }

    #[test]
    fn an_id_is_found_by_its_text_whoever_wrote_it() {
        let ours = RequestId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(RequestId::of_text("0123456789abcdef0011223344556677"), ours);
        for text in ["0123456789ABCDEF0011223344556677", "abc", "", "+123456789abcdef0011223344556677"] {
            assert_eq!(RequestId::parse(text), None, "{text}");
            assert_eq!(RequestId::of_text(text), RequestId::of_text(text));
            assert_ne!(RequestId::of_text(text), ours);
        }
        assert_ne!(RequestId::of_text("a"), RequestId::of_text("b"));
        assert_eq!(ours.see(None, str::to_owned), "0123456789abcdef0011223344556677");
        assert_eq!(ours.see(Some("given"), str::to_owned), "given");
    }
}
