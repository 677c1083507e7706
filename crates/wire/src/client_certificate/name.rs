//! Names in certificates as text. A CA signs what its clients asked for, so each character that could end a name, a
//! list or a quoted string is written so that it cannot: patterns that the administrator wrote, and upstreams that
//! split at commas, see what the CA has signed.

use super::{SubjectName, SubjectNameKind, hex};
use std::net::IpAddr;
use x509_parser::asn1_rs::{Any, Tag, ToDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::x509::X509Name;

/// The short names of RFC 4514 section 3, and those that OpenSSL writes for others that are met.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// RFC 4514, in ASCII: the parts from the last to the first, as OpenSSL's RFC 2253 form and nginx have it. What has to
/// be escaped becomes `\2C` and never `\,`, so that a comma is always the end of a part, and a backslash never stands
/// before a quote.
pub(super) fn distinguished_name(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for (position, part) in parts.into_iter().rev().enumerate() {
        if position > 0 {
            text.push(',');
        }
        for (position, attribute) in part.iter().enumerate() {
            if position > 0 {
                text.push('+');
            }
            let id = attribute.attr_type().to_id_string();
            let short = SHORT_NAMES.iter().find(|(known, _)| *known == id).map(|(_, short)| *short);
            text.push_str(short.unwrap_or(&id));
            text.push('=');
            match (short, characters(attribute.attr_value())) {
                (Some(_), Some(value)) => push_escaped(&value, &mut text),
                // RFC 4514 section 2.4: what has no name, or no characters, is written as its encoding.
                _ => {
                    text.push('#');
                    text.push_str(&hex(&attribute.attr_value().to_der_vec().unwrap_or_default(), b"0123456789ABCDEF"));
                }
            }
        }
    }
    text
}

/// The value of a character string. `None`: it is none, or not in its own encoding.
fn characters(value: &Any<'_>) -> Option<String> {
    let data = value.data;
    match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::NumericString | Tag::Ia5String | Tag::VisibleString => {
            std::str::from_utf8(data).ok().map(str::to_owned)
        }
        // As everybody reads it: ISO 8859-1.
        Tag::T61String => Some(data.iter().copied().map(char::from).collect()),
        Tag::BmpString => {
            let (units, rest) = data.as_chunks::<2>();
            let units: Vec<u16> = units.iter().copied().map(u16::from_be_bytes).collect();
            String::from_utf16(&units).ok().filter(|_| rest.is_empty())
        }
        Tag::UniversalString => {
            let (units, rest) = data.as_chunks::<4>();
            let text: Option<String> = units.iter().copied().map(u32::from_be_bytes).map(char::from_u32).collect();
            text.filter(|_| rest.is_empty())
        }
        _ => None,
    }
}

/// RFC 4514 section 2.4 by hexadecimal pairs alone.
fn push_escaped(value: &str, text: &mut String) {
    let last = value.len().saturating_sub(1);
    for (position, byte) in value.bytes().enumerate() {
        let is_special = match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => true,
            b' ' => position == 0 || position == last,
            b'#' => position == 0,
            other => !other.is_ascii_graphic(),
        };
        if is_special {
            text.push('\\');
            text.push_str(&hex(&[byte], b"0123456789ABCDEF"));
        } else {
            text.push(char::from(byte));
        }
    }
}

/// The names of the kinds that are met in clients' certificates, in order. A name that has not the form of its kind is
/// left out: a CA that may only sign mail addresses must not bring about a SPIFFE id by signing one as a mail address.
pub(super) fn subject_names(certificate: &X509Certificate<'_>) -> Vec<SubjectName> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    extension.value.general_names.iter().filter_map(subject_name).collect()
}

fn subject_name(name: &GeneralName<'_>) -> Option<SubjectName> {
    let (kind, text) = match name {
        GeneralName::DNSName(name) if is_dns_name(name) => (SubjectNameKind::Dns, name.to_ascii_lowercase()),
        GeneralName::RFC822Name(name) if is_email(name) => (SubjectNameKind::Email, encoded(name)),
        GeneralName::URI(name) if has_scheme(name) => (SubjectNameKind::Uri, encoded(name)),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let ip = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok()?;
            (SubjectNameKind::Ip, ip.to_string())
        }
        _ => return None,
    };
    Some(SubjectName { kind, text })
}

fn is_dns_name(name: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
    !name.is_empty() && name.bytes().all(is_known) && name.parse::<IpAddr>().is_err()
}

fn is_email(name: &str) -> bool {
    name.contains('@') && !name.contains([':', '/'])
}

/// RFC 3986 section 3.1.
fn has_scheme(name: &str) -> bool {
    let Some((scheme, _)) = name.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_graphic() && !b",\"\\".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push_str(&hex(&[byte], b"0123456789ABCDEF"));
        }
    }
    text
}
