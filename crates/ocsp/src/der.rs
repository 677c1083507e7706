//! Elements of DER, one after the other, read by the parser that certificates are read with; and the few that a
//! question consists of, written. Nothing here knows what an element means.

use crate::fault::Fault;
use x509_parser::asn1_rs::{Any, FromDer};
use x509_parser::time::ASN1Time;

/// Identifiers as the first octet of an element has them. None here is of the long form, so that octet is the whole
/// identifier.
pub mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const NULL: u8 = 0x05;
    pub const OBJECT_IDENTIFIER: u8 = 0x06;
    pub const ENUMERATED: u8 = 0x0a;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;

    /// `[number]` that wraps something, or stands in the place of a structure's own identifier.
    pub const fn context(number: u8) -> u8 {
        0xa0 | number
    }

    /// `[number]` in the place of the identifier of something that has no elements.
    pub const fn context_primitive(number: u8) -> u8 {
        0x80 | number
    }
}

/// What is left of a structure.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
pub struct Element<'a> {
    pub identifier: u8,
    pub content: &'a [u8],
    /// With identifier and length, as it is signed.
    pub whole: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// `what` names it in the fault.
    pub fn next(&mut self, what: &'static str) -> Result<Element<'a>, Fault> {
        let before = self.rest;
        let (after, any) = Any::from_der(before).map_err(|_| Fault::Malformed(what))?;
        let (whole, _) = before.split_at_checked(before.len() - after.len()).ok_or(Fault::Malformed(what))?;
        let identifier = *whole.first().ok_or(Fault::Malformed(what))?;
        self.rest = after;
        Ok(Element { identifier, content: any.data, whole })
    }

    /// The next one, which has to be this.
    pub fn expect(&mut self, identifier: u8, what: &'static str) -> Result<Element<'a>, Fault> {
        let element = self.next(what)?;
        if element.identifier == identifier { Ok(element) } else { Err(Fault::Malformed(what)) }
    }

    /// The next one if it is this.
    pub fn optional(&mut self, identifier: u8, what: &'static str) -> Result<Option<Element<'a>>, Fault> {
        if self.rest.first() == Some(&identifier) { self.next(what).map(Some) } else { Ok(None) }
    }

    pub fn end(self, what: &'static str) -> Result<(), Fault> {
        if self.is_at_end() { Ok(()) } else { Err(Fault::Malformed(what)) }
    }
}

impl<'a> Element<'a> {
    pub fn elements(&self) -> Reader<'a> {
        Reader::new(self.content)
    }

    /// The bytes of a bit string, which are whole ones in keys and signatures.
    pub fn bits(&self, what: &'static str) -> Result<&'a [u8], Fault> {
        match self.content.split_first() {
            Some((0, bits)) => Ok(bits),
            Some(_) | None => Err(Fault::Malformed(what)),
        }
    }

    /// Seconds since 1970 of a `GeneralizedTime`.
    pub fn seconds(&self, what: &'static str) -> Result<i64, Fault> {
        let time = (self.identifier == tag::GENERALIZED_TIME).then(|| ASN1Time::from_der(self.whole));
        match time {
            Some(Ok((_, time))) => Ok(time.timestamp()),
            Some(Err(_)) | None => Err(Fault::Malformed(what)),
        }
    }
}

/// One element around what is given.
pub fn element(identifier: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![identifier];
    match length {
        0..0x80 => bytes.push(length as u8),
        _ => {
            let octets = length.to_be_bytes();
            let significant = &octets[octets.iter().take_while(|octet| **octet == 0).count()..];
            bytes.push(0x80 | significant.len() as u8);
            bytes.extend(significant);
        }
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Reader, element, tag};

    #[test]
    fn lengths_are_written_as_they_are_read() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000] {
            let written = element(tag::OCTET_STRING, &[&vec![7; length]]);
            let mut reader = Reader::new(&written);
            let read = reader.expect(tag::OCTET_STRING, "it").expect("an element");
            assert_eq!((read.content.len(), read.whole.len()), (length, written.len()));
            reader.end("it").expect("nothing behind it");
        }
    }

    #[test]
    fn what_is_no_der_is_refused() {
        let check = |bytes: &[u8]| assert!(Reader::new(bytes).next("it").is_err(), "{bytes:02x?}");
        check(&[]);
        check(&[tag::SEQUENCE]);
        check(&[tag::SEQUENCE, 1]);
        // Of unknown length, which only BER has.
        check(&[tag::SEQUENCE, 0x80, 0, 0]);
        check(&[tag::SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]);
    }
}
