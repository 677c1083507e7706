//! JA4, a name for the software that sent a ClientHello, as FoxIO published it: `t13d1516h2_8daaf6152771_e5627efa2ab1`.
//! Made of what the client offers, sorted, so that clients that shuffle their extensions keep theirs. The hash function
//! is the caller's: there is no cryptography here.

use crate::client_hello::{Malformed, Reader, client_hello_body};

/// Characters of one.
pub const JA4_LEN: usize = 36;
/// Of each hash.
const HASH_DIGITS: usize = 12;
/// In the place of a hash of nothing.
const NOTHING: &str = "000000000000";

const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// The fingerprint of the client that begins with `input`, a whole ClientHello in its records; `None` for anything
/// else. A message that is spread over several records is put together in `scratch`.
pub fn ja4(input: &[u8], scratch: &mut Vec<u8>, sha256: impl Fn(&[u8]) -> [u8; 32]) -> Option<String> {
    let offer = Offer::read(client_hello_body(input, scratch)?).ok()?;
    let mut text = String::with_capacity(JA4_LEN);
    text.push('t');
    text.push_str(offer.version());
    text.push(if offer.extensions.contains(&SERVER_NAME) { 'd' } else { 'i' });
    push_count(&mut text, offer.ciphers.len());
    push_count(&mut text, offer.extensions.len());
    text.extend(offer.protocol);
    text.push('_');
    push_hash(&mut text, &list(sorted(&offer.ciphers)), &sha256);
    text.push('_');
    // Those two say where the client goes and not what it is.
    let mut described = list(sorted(&offer.extensions).into_iter().filter(|kind| ![SERVER_NAME, ALPN].contains(kind)));
    if !described.is_empty() && !offer.signatures.is_empty() {
        described.push('_');
        described.push_str(&list(offer.signatures));
    }
    push_hash(&mut text, &described, &sha256);
    Some(text)
}

/// What counts of a ClientHello, without GREASE.
struct Offer {
    legacy_version: u16,
    versions: Vec<u16>,
    ciphers: Vec<u16>,
    extensions: Vec<u16>,
    signatures: Vec<u16>,
    /// Of the first protocol.
    protocol: [char; 2],
}

impl Offer {
    /// The body of a ClientHello (RFC 8446 section 4.1.2).
    fn read(body: &[u8]) -> Result<Offer, Malformed> {
        let mut body = Reader(body);
        let mut offer = Offer {
            legacy_version: body.take_u16()?,
            versions: Vec::new(),
            ciphers: Vec::new(),
            extensions: Vec::new(),
            signatures: Vec::new(),
            protocol: ['0', '0'],
        };
        body.take(32)?;
        body.take_short_vector()?;
        offer.ciphers = numbers(body.take_long_vector()?);
        body.take_short_vector()?;
        if body.0.is_empty() {
            return Ok(offer);
        }
        let mut extensions = Reader(body.take_long_vector()?);
        while !extensions.0.is_empty() {
            let kind = extensions.take_u16()?;
            let mut data = Reader(extensions.take_long_vector()?);
            match kind {
                SIGNATURE_ALGORITHMS => offer.signatures = numbers(data.take_long_vector()?),
                SUPPORTED_VERSIONS => offer.versions = numbers(data.take_short_vector()?),
                ALPN => offer.protocol = ends(Reader(data.take_long_vector()?).take_short_vector().unwrap_or_default()),
                _ => {}
            }
            if !is_grease(kind) {
                offer.extensions.push(kind);
            }
        }
        Ok(offer)
    }

    fn version(&self) -> &'static str {
        match self.versions.iter().max().unwrap_or(&self.legacy_version) {
            0x0304 => "13",
            0x0303 => "12",
            0x0302 => "11",
            0x0301 => "10",
            0x0300 => "s3",
            0x0002 => "s2",
            _ => "00",
        }
    }
}

/// RFC 8701: values that mean nothing, sent so that servers stay used to what they do not know.
fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && high & 0x0f == 0x0a
}

fn numbers(bytes: &[u8]) -> Vec<u16> {
    let (pairs, _) = bytes.as_chunks::<2>();
    pairs.iter().map(|pair| u16::from_be_bytes(*pair)).filter(|number| !is_grease(*number)).collect()
}

/// The protocol's first and last character; of one that is not made of letters and digits at both ends, those of its
/// hexadecimal form.
fn ends(protocol: &[u8]) -> [char; 2] {
    let (Some(first), Some(last)) = (protocol.first(), protocol.last()) else { return ['0', '0'] };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [char::from(*first), char::from(*last)];
    }
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    [digit(first >> 4), digit(last & 0x0f)]
}

fn sorted(numbers: &[u16]) -> Vec<u16> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers
}

/// `1301,1302`
fn list(numbers: impl IntoIterator<Item = u16>) -> String {
    let mut text = String::new();
    for number in numbers {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&format!("{number:04x}"));
    }
    text
}

fn push_count(text: &mut String, count: usize) {
    text.push_str(&format!("{:02}", count.min(99)));
}

fn push_hash(text: &mut String, hashed: &str, sha256: impl Fn(&[u8]) -> [u8; 32]) {
    if hashed.is_empty() {
        text.push_str(NOTHING);
        return;
    }
    for byte in &sha256(hashed.as_bytes())[..HASH_DIGITS / 2] {
        text.push_str(&format!("{byte:02x}"));
    }
}

#[cfg(test)]
mod tests;
