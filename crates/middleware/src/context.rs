//! What steps and templates know besides the heads, and the buffers they work in.

use std::net::IpAddr;
use std::time::Duration;
use tidegate_model::{ClientCertificateField, Scheme};
use tidegate_wire::ClientCertificate;
use tidegate_wire::head::{RequestHead, ResponseHead, Span};

/// Facts about one request that are not in its head. The heads are not part of it, so that a step can read this while
/// it changes one.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub scheme: Scheme,
    /// The address that is believed to be the client's, after `trusted-proxies`.
    pub client_ip: IpAddr,
    pub client_port: u16,
    pub tls_sni: Option<&'a str>,
    /// `1.3`; `None` in plain text.
    pub tls_version: Option<&'static str>,
    /// What the client has shown in its handshake.
    pub client_certificate: Option<&'a ClientCertificate>,
    /// Letters, digits and `_`. `None` in plain text.
    pub tls_ja4: Option<&'a str>,
    /// `host:port`; `None` until a server was chosen.
    pub upstream_address: Option<&'a str>,
    pub request_id: RequestId,
    /// Who has logged in.
    pub user: Option<&'a str>,
    /// In a page for an error: the status that the client gets, and the reason code or nothing.
    pub error: Option<(u16, &'a str)>,
    pub now_unix_ms: u64,
    /// When the request came, from the start of the process; what limits count in.
    pub since_start: Duration,
    /// The path that the route was found by, in the request's bytes; the head's own may be another one by now.
    pub asked_path: Span,
    pub asked_query: Option<Span>,
}

/// All that a template may read.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub context: &'a Context<'a>,
    pub request: &'a RequestHead,
    /// `None` before there is one.
    pub response: Option<&'a ResponseHead>,
}

/// What a template says of a client's certificate; nothing without one, but that there is none.
pub fn client_certificate_text(certificate: Option<&ClientCertificate>, field: ClientCertificateField) -> &str {
    let Some(certificate) = certificate else {
        return if field == ClientCertificateField::Verified { "no" } else { "" };
    };
    let facts = || certificate.facts();
    match field {
        ClientCertificateField::Verified => "yes",
        ClientCertificateField::Fingerprint => certificate.fingerprint(),
        ClientCertificateField::Subject => facts().map_or("", |facts| &facts.subject),
        ClientCertificateField::Issuer => facts().map_or("", |facts| &facts.issuer),
        ClientCertificateField::Serial => facts().map_or("", |facts| &facts.serial),
        ClientCertificateField::San => facts().map_or("", |facts| &facts.names_joined),
        ClientCertificateField::NotAfter => facts().map_or("", |facts| &facts.not_after),
    }
}

/// Written as 32 hexadecimal digits, which is also the form of a W3C trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub u128);

impl RequestId {
    pub fn to_hex(self) -> [u8; 32] {
        let mut hex = [0; 32];
        for (position, digit) in hex.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(self.0 >> (124 - 4 * position)) as usize & 0xf];
        }
        hex
    }
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
    }
}
