//! What a header of version 2 says besides the addresses: extensions of type, length and value (section 2.2). Which of
//! them are wanted, and what of the client is known, is decided by `proxy`.

use super::checksum::crc32c;
use super::{HeaderVersion, SIGNATURE, encode};
use std::net::SocketAddr;

/// The longest value that is written: more than any name, and what keeps a header within one segment.
const VALUE_BYTES_MAX: usize = 255;
/// Section 2.2.5.
const UNIQUE_ID_BYTES_MAX: usize = 128;

const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const CHECKSUM: u8 = 0x03;
const UNIQUE_ID: u8 = 0x05;
const TLS: u8 = 0x20;
const TLS_VERSION: u8 = 0x21;
const TLS_COMMON_NAME: u8 = 0x22;
const TLS_CIPHER: u8 = 0x23;

/// Flags of what a client does (section 2.2.6).
const OVER_TLS: u8 = 0x01;
const CERTIFICATE_NOW: u8 = 0x02;
const CERTIFICATE_OF_SESSION: u8 = 0x04;

/// A client's TLS, as a header says it.
#[derive(Debug, Clone, Copy)]
pub struct TlsSaid<'a> {
    /// `TLSv1.3`
    pub version: &'a str,
    pub cipher: &'a str,
    /// The session is an earlier one, of which a certificate is known.
    pub is_resumed: bool,
    pub certificate: Option<CertificateSaid<'a>>,
}

/// A certificate that the client has shown, and that was verified.
#[derive(Debug, Clone, Copy)]
pub struct CertificateSaid<'a> {
    pub common_name: Option<&'a str>,
}

/// Extensions in the order in which they are added. A value that is empty or too long is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extensions {
    bytes: Vec<u8>,
    has_checksum: bool,
}

impl Extensions {
    pub fn alpn(&mut self, protocol: &[u8]) {
        push(&mut self.bytes, ALPN, protocol, VALUE_BYTES_MAX);
    }

    pub fn authority(&mut self, name: &str) {
        push(&mut self.bytes, AUTHORITY, name.as_bytes(), VALUE_BYTES_MAX);
    }

    pub fn unique_id(&mut self, id: &[u8]) {
        push(&mut self.bytes, UNIQUE_ID, id, UNIQUE_ID_BYTES_MAX);
    }

    pub fn tls(&mut self, TlsSaid { version, cipher, is_resumed, certificate }: TlsSaid<'_>) {
        let shown = if is_resumed { CERTIFICATE_OF_SESSION } else { CERTIFICATE_NOW | CERTIFICATE_OF_SESSION };
        let client = OVER_TLS | if certificate.is_some() { shown } else { 0 };
        // Zero is a certificate that was verified.
        let verify = u32::from(certificate.is_none());
        let mut value = vec![client];
        value.extend_from_slice(&verify.to_be_bytes());
        push(&mut value, TLS_VERSION, version.as_bytes(), VALUE_BYTES_MAX);
        push(&mut value, TLS_CIPHER, cipher.as_bytes(), VALUE_BYTES_MAX);
        let name = certificate.and_then(|certificate| certificate.common_name).unwrap_or_default();
        push(&mut value, TLS_COMMON_NAME, name.as_bytes(), VALUE_BYTES_MAX);
        push(&mut self.bytes, TLS, &value, 4 * VALUE_BYTES_MAX);
    }

    /// The header gets a CRC-32C over all of it.
    pub fn checksum(&mut self) {
        self.has_checksum = true;
    }
}

fn push(bytes: &mut Vec<u8>, kind: u8, value: &[u8], most: usize) {
    if let Some(length) = u16::try_from(value.len()).ok().filter(|length| (1..=most).contains(&usize::from(*length))) {
        bytes.push(kind);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(value);
    }
}

/// A header of version 2 as [`encode`] makes it, and behind the addresses these extensions.
pub fn encode_with(source: SocketAddr, destination: SocketAddr, extensions: &Extensions) -> Vec<u8> {
    const LENGTH_AT: usize = SIGNATURE.len() + 2;
    let mut header = encode(HeaderVersion::V2, source, destination).as_bytes().to_vec();
    header.extend_from_slice(&extensions.bytes);
    if extensions.has_checksum {
        header.extend_from_slice(&[CHECKSUM, 0, 4, 0, 0, 0, 0]);
    }
    // At most one of each extension, so that it is far below what two bytes can say.
    let length = u16::try_from(header.len() - LENGTH_AT - 2).unwrap_or(u16::MAX);
    header[LENGTH_AT..LENGTH_AT + 2].copy_from_slice(&length.to_be_bytes());
    if extensions.has_checksum {
        let sum = crc32c([&header, b"", b""]);
        let at = header.len() - 4;
        header[at..].copy_from_slice(&sum.to_be_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::{CertificateSaid, Extensions, TlsSaid, encode_with};
    use crate::proxy_protocol::{Reading, Said, introduction, read};
    use std::net::SocketAddr;

    fn ends() -> (SocketAddr, SocketAddr) {
        ("192.0.2.1:258".parse().expect("an address"), "198.51.100.2:443".parse().expect("an address"))
    }

    fn check(add: impl Fn(&mut Extensions), expected: &[u8]) {
        let (source, destination) = ends();
        let mut extensions = Extensions::default();
        add(&mut extensions);
        let header = encode_with(source, destination, &extensions);
        let length = u16::try_from(12 + expected.len()).expect("it is short").to_be_bytes();
        let addresses = b"\xc0\0\x02\x01\xc6\x33\x64\x02\x01\x02\x01\xbb";
        let whole = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11"[..], &length, addresses, expected].concat();
        assert_eq!(header, whole);
        let said = Said::Addresses { source, destination };
        assert_eq!(read(&header), Ok(Reading::Whole { said, consumed: header.len() }), "what is written can be read");
    }

    #[test]
    fn extensions_follow_the_addresses() {
        check(|_| {}, b"");
        check(|extensions| extensions.authority("a.test"), b"\x02\0\x06a.test");
        check(|extensions| extensions.alpn(b"h2"), b"\x01\0\x02h2");
        check(|extensions| extensions.unique_id(b"\0\xff"), b"\x05\0\x02\0\xff");
        // Nothing is said of what is not known, or of what is too long to be said.
        check(|extensions| extensions.authority(""), b"");
        check(|extensions| extensions.authority(&"a".repeat(256)), b"");
        check(|extensions| extensions.unique_id(&[b'a'; 129]), b"");
    }

    #[test]
    fn tls_is_said_with_its_parts() {
        let said = |is_resumed, certificate| TlsSaid { version: "TLSv1.3", cipher: "A", is_resumed, certificate };
        let parts = b"\x21\0\x07TLSv1.3\x23\0\x01A";
        check(|extensions| extensions.tls(said(false, None)), &[&b"\x20\0\x13\x01\0\0\0\x01"[..], parts].concat());
        let named = Some(CertificateSaid { common_name: Some("ops") });
        let name = b"\x22\0\x03ops";
        check(|extensions| extensions.tls(said(false, named)), &[&b"\x20\0\x19\x07\0\0\0\0"[..], parts, name].concat());
        check(|extensions| extensions.tls(said(true, named)), &[&b"\x20\0\x19\x05\0\0\0\0"[..], parts, name].concat());
        let nameless = Some(CertificateSaid { common_name: None });
        check(|extensions| extensions.tls(said(false, nameless)), &[&b"\x20\0\x13\x07\0\0\0\0"[..], parts].concat());
    }

    #[test]
    fn a_checksum_is_right_and_what_came_can_be_passed_on() {
        let (source, destination) = ends();
        let mut extensions = Extensions::default();
        extensions.authority("a.test");
        extensions.unique_id(b"\x01\x02");
        extensions.checksum();
        let mut header = encode_with(source, destination, &extensions);
        assert!(matches!(read(&header), Ok(Reading::Whole { .. })));
        let introduction = introduction(&header).expect("it says something");
        assert_eq!((introduction.authority(), introduction.unique_id_text()), ("a.test", "0102"));
        assert_eq!(introduction.unique_id(), b"\x01\x02");
        let last = header.len() - 1;
        header[last] ^= 1;
        assert!(read(&header).is_err());
    }
}
