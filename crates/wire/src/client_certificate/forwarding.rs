//! The fields in which an upstream is told of a client's certificate: those of RFC 9440, and the one that Envoy made
//! common. They are written when the first request is forwarded and kept for the connection's others. Who may say them
//! is decided in `proxy`.

use super::{ClientCertificate, SubjectNameKind};
use crate::percent;

/// What a client sends along is its own choice, and a head has to hold it: a longer chain is not forwarded.
const CHAIN_BYTES_MAX: usize = 12 << 10;

impl ClientCertificate {
    /// The value of `Client-Cert`: the certificate as a byte sequence (RFC 9440 section 2.2).
    pub fn client_cert(&self) -> &[u8] {
        self.client_cert.get_or_init(|| {
            let mut value = Vec::new();
            push_byte_sequence(&self.chain[0], &mut value);
            value.into()
        })
    }

    /// The value of `Client-Cert-Chain`: what the client sent along (RFC 9440 section 2.3). `None`: nothing, or too
    /// much.
    pub fn client_cert_chain(&self) -> Option<&[u8]> {
        let value = self.client_cert_chain.get_or_init(|| {
            let rest = &self.chain[1..];
            let mut value = Vec::new();
            if rest.iter().map(|der| der.len()).sum::<usize>() > CHAIN_BYTES_MAX {
                return value.into();
            }
            for (position, der) in rest.iter().enumerate() {
                if position > 0 {
                    value.extend_from_slice(b", ");
                }
                push_byte_sequence(der, &mut value);
            }
            value.into()
        });
        (!value.is_empty()).then_some(value)
    }

    /// The certificate in PEM, percent-encoded: nginx's `$ssl_client_escaped_cert`.
    pub fn escaped_pem(&self) -> &[u8] {
        self.escaped_pem.get_or_init(|| {
            let (mut base64, mut value) = (Vec::new(), Vec::new());
            push_base64(&self.chain[0], &mut base64);
            percent::encode(b"-----BEGIN CERTIFICATE-----\n", &mut value);
            for line in base64.chunks(64) {
                percent::encode(line, &mut value);
                percent::encode(b"\n", &mut value);
            }
            percent::encode(b"-----END CERTIFICATE-----\n", &mut value);
            value.into()
        })
    }

    /// One element of `X-Forwarded-Client-Cert`. Everything in quotes is free of quotes, and of backslashes before
    /// quotes, by how names are written.
    pub fn xfcc(&self) -> &[u8] {
        self.xfcc.get_or_init(|| {
            let mut value = format!("Hash={}", self.fingerprint());
            if let Some(facts) = self.facts() {
                value.push_str(&format!(";Subject=\"{}\"", facts.subject));
                for (key, kind) in [("URI", SubjectNameKind::Uri), ("DNS", SubjectNameKind::Dns)] {
                    for name in facts.names.iter().filter(|name| name.kind == kind) {
                        let quote = if name.text.contains([';', '=']) { "\"" } else { "" };
                        value.push_str(&format!(";{key}={quote}{}{quote}", name.text));
                    }
                }
            }
            value.into_bytes().into()
        })
    }
}

/// RFC 8941 section 3.3.5.
fn push_byte_sequence(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b':');
    push_base64(bytes, out);
    out.push(b':');
}

/// RFC 4648 section 4.
fn push_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, index| bits << 8 | u32::from(*chunk.get(index).unwrap_or(&0)));
        for index in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * index) & 63) as usize];
            out.push(if index <= chunk.len() { digit } else { b'=' });
        }
    }
}
