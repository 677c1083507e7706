//! Files that are given as certificates or keys and are something else: what they are, told by their first bytes and by
//! the labels in them, and which kind of key it is that cannot be used. Only to find the right words; nothing here is
//! used for TLS.

use crate::error::Contents;
use rustls_pki_types::PrivateKeyDer;

/// What editors of other systems put before UTF-8.
const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Without the mark that says that it is UTF-8.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(UTF8_MARK).unwrap_or(text)
}

/// What a file holds in which no section of PEM was found that could be used.
pub(crate) fn contents_of(bytes: &[u8]) -> Contents {
    const LABELS: &[(&str, Contents)] = &[
        ("OPENSSH PRIVATE KEY", Contents::OpenSshKey),
        ("PKCS7", Contents::Pkcs7),
        ("TRUSTED CERTIFICATE", Contents::TrustedCertificate),
    ];
    if let Some((_, contents)) = LABELS.iter().find(|(label, _)| has_section(bytes, label)) {
        return *contents;
    }
    match bytes {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Contents::Utf16,
        [0xFE, 0xED, 0xFE, 0xED, ..] | [0xCE, 0xCE, 0xCE, 0xCE, ..] => Contents::JavaKeyStore,
        [0x30, ..] => der_contents(bytes),
        _ => Contents::Nothing,
    }
}

/// Keys have labels of their own in the old forms of PEM.
pub(crate) fn is_dsa_key(pem: &[u8]) -> bool {
    has_section(pem, "DSA PRIVATE KEY")
}

fn has_section(bytes: &[u8], label: &str) -> bool {
    let begin = format!("-----BEGIN {label}-----");
    bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(begin.as_bytes()))
}

fn der_contents(bytes: &[u8]) -> Contents {
    // 1.2.840.113549.1.7.2, signedData.
    const SIGNED_DATA: &[u8] = b"\x2A\x86\x48\x86\xF7\x0D\x01\x07\x02";
    let first = element(bytes).and_then(|outer| element(outer.body));
    match first {
        // RFC 7292 section 4: the version is 3. No certificate and no key begins like this.
        Some(Element { tag: 0x02, body: [3], .. }) => Contents::Pkcs12,
        Some(Element { tag: 0x06, body: SIGNED_DATA, .. }) => Contents::Pkcs7,
        Some(_) | None => Contents::Der,
    }
}

/// How much of something in DER is there, of how much: where less is there than it says itself, it was cut off.
pub(crate) fn cut_off(der: &[u8]) -> Option<(usize, usize)> {
    // What begins otherwise is nothing of ours.
    let whole = whole_length(der).filter(|_| der.first() == Some(&0x30))?;
    (whole > der.len()).then_some((der.len(), whole))
}

/// Why a key cannot be used, where its form tells.
pub(crate) fn key_problem(key: &PrivateKeyDer<'_>) -> Option<String> {
    let der = key.secret_der();
    if let Some((there, whole)) = cut_off(der) {
        return Some(format!("it was cut off: {there} of its {whole} bytes are there"));
    }
    let kind = match key {
        PrivateKeyDer::Pkcs8(_) => pkcs8_kind(der)?,
        PrivateKeyDer::Pkcs1(_) => rsa_kind(der)?,
        PrivateKeyDer::Sec1(_) => curve_name(sec1_curve(der)?)?.to_owned(),
        _ => return None,
    };
    Some(format!("it is {kind}"))
}

/// RFC 5208 section 5: a version, what kind of key it is, and the key in a form of its own.
fn pkcs8_kind(der: &[u8]) -> Option<String> {
    let outer = element(der)?;
    let version = element(outer.body)?;
    let algorithm = element(version.rest)?;
    let identifier = element(algorithm.body)?;
    let named = match identifier.body {
        b"\x2A\x86\x48\xCE\x38\x04\x01" => "a DSA key",
        b"\x2B\x65\x6E" => "an X25519 key, which signs nothing",
        b"\x2B\x65\x6F" => "an X448 key, which signs nothing",
        b"\x2B\x65\x71" => "an Ed448 key",
        b"\x2A\x86\x48\x86\xF7\x0D\x01\x01\x0A" => "an RSA key for PSS alone",
        b"\x2A\x86\x48\x86\xF7\x0D\x01\x01\x01" => return rsa_kind(element(algorithm.rest)?.body),
        b"\x2A\x86\x48\xCE\x3D\x02\x01" => curve_name(element(identifier.rest)?.body)?,
        _ => return None,
    };
    Some(named.to_owned())
}

/// RFC 8017 appendix A.1.2: a version, the modulus, and more.
fn rsa_kind(der: &[u8]) -> Option<String> {
    let outer = element(der)?;
    let version = element(outer.body)?;
    let modulus = element(version.rest)?.body;
    let digits = &modulus[modulus.iter().take_while(|byte| **byte == 0).count()..];
    let bits = digits.len() * 8 - digits.first()?.leading_zeros() as usize;
    Some(format!("an RSA key of {bits} bits"))
}

/// RFC 5915 section 3: behind version and key, `[0]` with the curve.
fn sec1_curve(der: &[u8]) -> Option<&[u8]> {
    let outer = element(der)?;
    let version = element(outer.body)?;
    let key = element(version.rest)?;
    let parameters = element(key.rest).filter(|parameters| parameters.tag == 0xA0)?;
    Some(element(parameters.body)?.body)
}

/// Of curves that TLS does not sign with here.
fn curve_name(identifier: &[u8]) -> Option<&'static str> {
    match identifier {
        b"\x2B\x81\x04\x00\x0A" => Some("an ECDSA key on secp256k1"),
        b"\x2B\x81\x04\x00\x21" => Some("an ECDSA key on P-224"),
        b"\x2A\x86\x48\xCE\x3D\x03\x01\x01" => Some("an ECDSA key on P-192"),
        [0x2B, 0x24, 0x03, 0x03, 0x02, 0x08, ..] => Some("an ECDSA key on a Brainpool curve"),
        [0x2A, 0x81, 0x1C, ..] => Some("a key on the curve SM2"),
        _ => None,
    }
}

/// One element of DER, and what follows it.
struct Element<'a> {
    tag: u8,
    body: &'a [u8],
    rest: &'a [u8],
}

/// A body that is cut off ends with the bytes: of a file that is cut off, its beginning still tells what it is.
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (header, length) = header_of(bytes)?;
    let end = header.saturating_add(length).min(bytes.len());
    Some(Element { tag: *bytes.first()?, body: &bytes[header..end], rest: &bytes[end..] })
}

fn whole_length(bytes: &[u8]) -> Option<usize> {
    header_of(bytes).and_then(|(header, length)| header.checked_add(length))
}

/// The length of the header, and what it says of the body's.
fn header_of(bytes: &[u8]) -> Option<(usize, usize)> {
    let first = usize::from(*bytes.get(1)?);
    if first < 0x80 {
        return Some((2, first));
    }
    // More than four bytes are no length of anything that fits into a file.
    let count = first & 0x7F;
    if !(1..=4).contains(&count) {
        return None;
    }
    let digits = bytes.get(2..2 + count)?;
    Some((2 + count, digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit))))
}

#[cfg(test)]
mod tests {
    use super::{contents_of, cut_off, key_problem};
    use crate::error::Contents;
    use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

    #[test]
    fn no_bytes_make_it_fail() {
        // Lengths that lie, and files that end anywhere.
        let well_known: &[u8] =
            b"\x30\x82\x01\x00\x02\x01\x03\x30\x84\xFF\xFF\xFF\xFF\x30\x0B\x06\x07\x2A\x86\x48\xCE\x38\x04\x01\x30\x80\x30\x00";
        for end in 0..=well_known.len() {
            for start in 0..=end {
                let bytes = &well_known[start..end];
                let _ = (contents_of(bytes), cut_off(bytes));
                for key in [
                    PrivateKeyDer::from(PrivatePkcs8KeyDer::from(bytes)),
                    PrivatePkcs1KeyDer::from(bytes).into(),
                    PrivateSec1KeyDer::from(bytes).into(),
                ] {
                    let _ = key_problem(&key);
                }
            }
        }
        assert_eq!(contents_of(well_known), Contents::Pkcs12);
        assert_eq!(cut_off(&well_known[..12]), Some((12, 260)));
    }
}
