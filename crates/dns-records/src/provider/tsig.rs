//! Signatures of DNS messages with a shared secret (RFC 8945): HMAC over the message and what the record says about it.
//! Pure: bytes and the time come in. hickory has this behind its DNSSEC features, which would turn on more of aws-lc-rs
//! for the whole program.

use crate::name::Domain;
use aws_lc_rs::hmac;
use std::fmt;
use tidegate_model::TsigAlgorithm;

/// How far the clocks of both sides may differ, in seconds; what RFC 8945 section 10 recommends.
const FUDGE_SECS: u16 = 300;
const TYPE_TSIG: u16 = 250;
const CLASS_ANY: u16 = 255;
const HEADER_BYTES: usize = 12;

pub struct Key {
    name: Vec<u8>,
    algorithm: Vec<u8>,
    key: hmac::Key,
}

/// What is wrong with a signed answer, or what it says is wrong with ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// The message bears no signature.
    Unsigned,
    /// The message is cut or is no DNS.
    Malformed,
    /// The message's signature is not by our key.
    Forged,
    /// The server does not know the name of the key, or wants another algorithm for it (BADKEY).
    UnknownKey,
    /// The server has another secret (BADSIG).
    OtherSecret,
    /// The clocks differ too much (BADTIME).
    Clock,
}

/// Completes a sentence about the answer.
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mismatch::Unsigned => "is not signed",
            Mismatch::Malformed => "is cut off",
            Mismatch::Forged => "is not signed with our key",
            Mismatch::UnknownKey => "says BADKEY",
            Mismatch::OtherSecret => "says BADSIG",
            Mismatch::Clock => "says BADTIME",
        })
    }
}

impl Key {
    pub fn new(name: &Domain, algorithm: TsigAlgorithm, secret: &[u8]) -> Key {
        let (algorithm, digest) = match algorithm {
            TsigAlgorithm::HmacSha256 => ("hmac-sha256", hmac::HMAC_SHA256),
            TsigAlgorithm::HmacSha384 => ("hmac-sha384", hmac::HMAC_SHA384),
            TsigAlgorithm::HmacSha512 => ("hmac-sha512", hmac::HMAC_SHA512),
        };
        Key { name: wire(name.as_str()), algorithm: wire(algorithm), key: hmac::Key::new(digest, secret) }
    }

    /// The message with its signature, and the signature alone, which the answer's is made with.
    pub fn sign(&self, message: &[u8], now_secs: u64) -> (Vec<u8>, Vec<u8>) {
        self.sign_after(&[], message, now_secs)
    }

    /// `before` is what is signed and not sent: in an answer, the signature of its request.
    fn sign_after(&self, before: &[u8], message: &[u8], now_secs: u64) -> (Vec<u8>, Vec<u8>) {
        let signed_over = [before, message, &self.variables(now_secs, FUDGE_SECS, 0, &[])].concat();
        let mac = hmac::sign(&self.key, &signed_over).as_ref().to_vec();
        let mut data = self.algorithm.clone();
        data.extend(time(now_secs));
        data.extend(FUDGE_SECS.to_be_bytes());
        data.extend((mac.len() as u16).to_be_bytes());
        data.extend(&mac);
        data.extend(message.get(..2).unwrap_or_default());
        // Neither an error nor other data.
        data.extend([0; 4]);
        let mut signed = message.to_vec();
        signed.extend(&self.name);
        signed.extend(TYPE_TSIG.to_be_bytes());
        signed.extend(CLASS_ANY.to_be_bytes());
        signed.extend([0; 4]);
        signed.extend((data.len() as u16).to_be_bytes());
        signed.extend(data);
        change_additional(&mut signed, 1);
        (signed, mac)
    }

    /// `request_mac` is what [`Key::sign`] gave.
    pub fn verify(&self, answer: &[u8], request_mac: &[u8], now_secs: u64) -> Result<(), Mismatch> {
        let record = Record::last_of(answer)?;
        match record.error {
            17 => return Err(Mismatch::UnknownKey),
            16 => return Err(Mismatch::OtherSecret),
            _ => {}
        }
        let mut signed_over = framed(request_mac);
        let body_from = signed_over.len();
        signed_over.extend(&answer[..record.at]);
        change_additional(&mut signed_over[body_from..], -1);
        signed_over[body_from..body_from + 2].copy_from_slice(record.id);
        signed_over.extend(self.variables(record.time_secs, record.fudge_secs, record.error, record.other));
        hmac::verify(&self.key, &signed_over, record.mac).map_err(|_| Mismatch::Forged)?;
        if record.error == 18 || now_secs.abs_diff(record.time_secs) > record.fudge_secs.into() {
            return Err(Mismatch::Clock);
        }
        Ok(())
    }

    /// RFC 8945 section 4.3.3.
    fn variables(&self, time_secs: u64, fudge_secs: u16, error: u16, other: &[u8]) -> Vec<u8> {
        let mut bytes = self.name.clone();
        bytes.extend(CLASS_ANY.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&self.algorithm);
        bytes.extend(time(time_secs));
        bytes.extend(fudge_secs.to_be_bytes());
        bytes.extend(error.to_be_bytes());
        bytes.extend((other.len() as u16).to_be_bytes());
        bytes.extend(other);
        bytes
    }
}

/// As the signature of a request stands before its answer.
fn framed(mac: &[u8]) -> Vec<u8> {
    [&(mac.len() as u16).to_be_bytes(), mac].concat()
}

/// A name as messages have it, uncompressed. Only for names that were checked: no label is empty or too long.
pub fn wire(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    bytes.push(0);
    bytes
}

/// 48 bits.
fn time(secs: u64) -> [u8; 6] {
    let [_, _, bytes @ ..] = secs.to_be_bytes();
    bytes
}

fn change_additional(message: &mut [u8], by: i16) {
    if let Some([high, low]) = message.get_mut(10..HEADER_BYTES) {
        [*high, *low] = u16::from_be_bytes([*high, *low]).wrapping_add_signed(by).to_be_bytes();
    }
}

/// The signature of an answer.
struct Record<'a> {
    /// Where it begins in the message.
    at: usize,
    time_secs: u64,
    fudge_secs: u16,
    mac: &'a [u8],
    id: &'a [u8],
    error: u16,
    other: &'a [u8],
}

impl<'a> Record<'a> {
    fn last_of(message: &'a [u8]) -> Result<Record<'a>, Mismatch> {
        let mut reader = Reader { bytes: message, at: 4 };
        let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
        let [questions, records @ ..] = counts;
        for _ in 0..questions {
            reader.skip_name()?;
            reader.take(4)?;
        }
        let total: u32 = records.iter().map(|count| u32::from(*count)).sum();
        for left in (0..total).rev() {
            let at = reader.at;
            reader.skip_name()?;
            let kind = reader.u16()?;
            reader.take(6)?;
            let length = reader.u16()?;
            let data = reader.take(length.into())?;
            if left == 0 && kind == TYPE_TSIG && records[2] > 0 {
                return Record::parse(at, data);
            }
        }
        Err(Mismatch::Unsigned)
    }

    fn parse(at: usize, data: &'a [u8]) -> Result<Record<'a>, Mismatch> {
        let mut reader = Reader { bytes: data, at: 0 };
        reader.skip_name()?;
        let time_secs = reader.take(6)?.iter().fold(0, |time, byte| time << 8 | u64::from(*byte));
        let fudge_secs = reader.u16()?;
        let length = reader.u16()?;
        let mac = reader.take(length.into())?;
        let id = reader.take(2)?;
        let error = reader.u16()?;
        let length = reader.u16()?;
        let other = reader.take(length.into())?;
        Ok(Record { at, time_secs, fudge_secs, mac, id, error, other })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Mismatch> {
        let end = self.at.checked_add(length).ok_or(Mismatch::Malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(Mismatch::Malformed)?;
        self.at = end;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, Mismatch> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A pointer ends a name; where it leads does not matter here.
    fn skip_name(&mut self) -> Result<(), Mismatch> {
        loop {
            let length = self.take(1)?[0];
            match length {
                0 => return Ok(()),
                1..=63 => self.take(length.into()).map(|_| ())?,
                192.. => return self.take(1).map(|_| ()),
                64..192 => return Err(Mismatch::Malformed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Mismatch, framed};
    use crate::name::Domain;
    use tidegate_model::TsigAlgorithm;

    fn key(secret: &[u8]) -> Key {
        Key::new(&Domain::parse("a.key").expect("a name"), TsigAlgorithm::HmacSha256, secret)
    }

    #[test]
    fn answers_are_believed_only_with_our_key_and_to_our_question() {
        let message = [0x12, 0x34, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let key = key(b"secret");
        let (_, mac) = key.sign(&message, 1000);
        let (answer, _) = key.sign_after(&framed(&mac), &message, 1100);
        let check = |answer: &[u8], now_secs: u64, expected: Result<(), Mismatch>| {
            assert_eq!(key.verify(answer, &mac, now_secs), expected);
        };
        check(&answer, 1000, Ok(()));
        check(&answer, 1400, Ok(()));
        check(&answer, 1401, Err(Mismatch::Clock));
        check(&answer, 799, Err(Mismatch::Clock));
        check(&message, 1000, Err(Mismatch::Unsigned));
        check(&[], 1000, Err(Mismatch::Malformed));
        // To another request, by another key, and changed on its way.
        check(&key.sign_after(&framed(b"other"), &message, 1100).0, 1000, Err(Mismatch::Forged));
        check(&super::tests::key(b"other").sign_after(&framed(&mac), &message, 1100).0, 1000, Err(Mismatch::Forged));
        let mut changed = answer.clone();
        changed[3] = 5;
        check(&changed, 1000, Err(Mismatch::Forged));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let key = key(b"secret");
        let (signed, mac) = key.sign(&[0x12, 0x34, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1000);
        for end in 0..signed.len() {
            assert_ne!(key.verify(&signed[..end], &mac, 1000), Ok(()));
        }
        bolero::check!().for_each(|bytes: &[u8]| assert_ne!(key.verify(bytes, &mac, 1000), Ok(())));
    }
}
