//! What an answer says, read as it stands: nothing is believed here, see `verify.rs`. Borrowed from the bytes; what is
//! not asked for is skipped over.

use crate::der::{Element, Reader, tag};
use crate::fault::{Fault, ResponderStatus};
use crate::signature::Signed;

/// An answer with the certificate of a delegated responder takes 2 to 4 KiB. It is sent in every handshake, so that
/// more would be a cost of its own.
pub const RESPONSE_BYTES_MAX: usize = 16 << 10;

/// `id-pkix-ocsp-basic`, 1.3.6.1.5.5.7.48.1.1.
const BASIC: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

pub struct Response<'a> {
    pub signed: Signed<'a>,
    pub responder: Responder<'a>,
    singles: Reader<'a>,
    /// Certificates that came along, in DER, back to back.
    certificates: Reader<'a>,
}

/// Who signed, by its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Responder<'a> {
    Name(&'a [u8]),
    KeyHash(&'a [u8]),
}

/// About one certificate.
pub struct Single<'a> {
    pub id: Element<'a>,
    pub standing: SingleStanding,
    pub this_update_seconds: i64,
    pub next_update_seconds: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleStanding {
    Good,
    Revoked { at_seconds: i64 },
    Unknown,
}

impl<'a> Response<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Response<'a>, Fault> {
        if bytes.len() > RESPONSE_BYTES_MAX {
            return Err(Fault::TooLarge { bytes_max: RESPONSE_BYTES_MAX });
        }
        let mut basic = basic(bytes)?;
        let signed = Signed::read(&mut basic)?;
        let certificates = match basic.optional(tag::context(0), "its certificates")? {
            Some(wrapped) => wrapped.elements().expect(tag::SEQUENCE, "its certificates")?.elements(),
            None => Reader::new(&[]),
        };
        basic.end("what follows its signature")?;
        let mut data = signed.message.elements();
        // The version, of which there is one.
        data.optional(tag::context(0), "its version")?;
        let responder = responder(data.next("the responder's name")?)?;
        data.expect(tag::GENERALIZED_TIME, "the time at which it was made")?;
        let singles = data.expect(tag::SEQUENCE, "its list of certificates")?.elements();
        if let Some(extensions) = data.optional(tag::context(1), "its extensions")? {
            refuse_critical(extensions)?;
        }
        data.end("what follows its extensions")?;
        Ok(Response { signed, responder, singles, certificates })
    }

    pub fn singles(&self) -> impl Iterator<Item = Result<Single<'a>, Fault>> + use<'a> {
        let mut left = self.singles;
        std::iter::from_fn(move || if left.is_at_end() { None } else { Some(single(&mut left)) }).scan(false, stop_at_fault)
    }

    pub fn certificates(&self) -> impl Iterator<Item = Result<&'a [u8], Fault>> + use<'a> {
        let mut left = self.certificates;
        let next = move || {
            if left.is_at_end() { None } else { Some(left.expect(tag::SEQUENCE, "a certificate").map(|one| one.whole)) }
        };
        std::iter::from_fn(next).scan(false, stop_at_fault)
    }
}

/// A fault may have moved the reader not at all.
fn stop_at_fault<T>(has_ended: &mut bool, item: Result<T, Fault>) -> Option<Result<T, Fault>> {
    if *has_ended {
        return None;
    }
    *has_ended = item.is_err();
    Some(item)
}

/// The elements of a `BasicOCSPResponse` in its wrapping.
fn basic(bytes: &[u8]) -> Result<Reader<'_>, Fault> {
    const WHAT: &str = "its beginning";
    let mut outer = Reader::new(bytes);
    let mut response = outer.expect(tag::SEQUENCE, WHAT)?.elements();
    outer.end("what follows it")?;
    match response.expect(tag::ENUMERATED, WHAT)?.content {
        [0] => {}
        [code] => return Err(Fault::Declined(ResponderStatus::of(*code))),
        _ => return Err(Fault::Malformed(WHAT)),
    }
    let mut wrapped = response.expect(tag::context(0), WHAT)?.elements();
    let mut typed = wrapped.expect(tag::SEQUENCE, WHAT)?.elements();
    if typed.expect(tag::OBJECT_IDENTIFIER, WHAT)?.content != BASIC {
        return Err(Fault::Malformed("its type"));
    }
    let mut inner = Reader::new(typed.expect(tag::OCTET_STRING, WHAT)?.content);
    let elements = inner.expect(tag::SEQUENCE, WHAT)?.elements();
    inner.end("what follows it")?;
    Ok(elements)
}

fn responder(element: Element<'_>) -> Result<Responder<'_>, Fault> {
    const WHAT: &str = "the responder's name";
    const NAME: u8 = tag::context(1);
    const KEY: u8 = tag::context(2);
    match element.identifier {
        NAME => Ok(Responder::Name(element.elements().expect(tag::SEQUENCE, WHAT)?.whole)),
        KEY => Ok(Responder::KeyHash(element.elements().expect(tag::OCTET_STRING, WHAT)?.content)),
        _ => Err(Fault::Malformed(WHAT)),
    }
}

fn single<'a>(list: &mut Reader<'a>) -> Result<Single<'a>, Fault> {
    const GOOD: u8 = tag::context_primitive(0);
    const REVOKED: u8 = tag::context(1);
    const UNKNOWN: u8 = tag::context_primitive(2);
    let mut parts = list.expect(tag::SEQUENCE, "an entry of its list")?.elements();
    let id = parts.expect(tag::SEQUENCE, "the certificate that it is about")?;
    let standing = parts.next("the standing")?;
    let standing = match standing.identifier {
        GOOD => SingleStanding::Good,
        REVOKED => {
            let at = standing.elements().expect(tag::GENERALIZED_TIME, "the time of revocation")?;
            SingleStanding::Revoked { at_seconds: at.seconds("the time of revocation")? }
        }
        UNKNOWN => SingleStanding::Unknown,
        _ => return Err(Fault::Malformed("the standing")),
    };
    let this_update = parts.expect(tag::GENERALIZED_TIME, "the time from which it counts")?;
    let next_update = match parts.optional(tag::context(0), "the time until which it counts")? {
        Some(wrapped) => Some(wrapped.elements().next("the time until which it counts")?),
        None => None,
    };
    if let Some(extensions) = parts.optional(tag::context(1), "the extensions of an entry")? {
        refuse_critical(extensions)?;
    }
    parts.end("the end of an entry")?;
    Ok(Single {
        id,
        standing,
        this_update_seconds: this_update.seconds("the time from which it counts")?,
        next_update_seconds: next_update.map(|time| time.seconds("the time until which it counts")).transpose()?,
    })
}

/// None is known here, and one that is critical must be (RFC 5280 section 4.2).
fn refuse_critical(wrapped: Element<'_>) -> Result<(), Fault> {
    const WHAT: &str = "an extension";
    let mut extensions = wrapped.elements().expect(tag::SEQUENCE, WHAT)?.elements();
    while !extensions.is_at_end() {
        let mut extension = extensions.expect(tag::SEQUENCE, WHAT)?.elements();
        extension.expect(tag::OBJECT_IDENTIFIER, WHAT)?;
        if extension.optional(tag::BOOLEAN, WHAT)?.is_some_and(|critical| critical.content != [0]) {
            return Err(Fault::CriticalExtension);
        }
        extension.expect(tag::OCTET_STRING, WHAT)?;
        extension.end(WHAT)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BASIC, Response};
    use crate::der::{element, tag};

    #[test]
    fn nothing_that_is_sent_causes_a_panic_or_an_endless_list() {
        let walk = |bytes: &[u8]| {
            let Ok(response) = Response::read(bytes) else { return };
            assert!(response.singles().count() <= bytes.len());
            assert!(response.certificates().count() <= bytes.len());
        };
        bolero::check!().for_each(|bytes: &[u8]| {
            walk(bytes);
            walk(&wrapped(&element(tag::SEQUENCE, &[bytes])));
            walk(&of_list(bytes));
        });
    }

    #[test]
    fn a_list_ends_where_it_cannot_be_read() {
        let check = |list: &[u8], expected: usize| {
            let bytes = of_list(list);
            let response = Response::read(&bytes).unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(response.singles().count(), expected, "{list:02x?}");
        };
        check(&[], 0);
        check(&[0xff; 4], 1);
        check(&[tag::NULL, 0, tag::NULL, 0], 1);
    }

    fn wrapped(basic: &[u8]) -> Vec<u8> {
        let typed = [element(tag::OBJECT_IDENTIFIER, &[BASIC]), element(tag::OCTET_STRING, &[basic])].concat();
        let inner = element(tag::context(0), &[&element(tag::SEQUENCE, &[&typed])]);
        element(tag::SEQUENCE, &[&element(tag::ENUMERATED, &[&[0]]), &inner])
    }

    /// An answer with this list, signed by nobody.
    fn of_list(list: &[u8]) -> Vec<u8> {
        let responder = element(tag::context(2), &[&element(tag::OCTET_STRING, &[&[7; 20]])]);
        let made_at = element(tag::GENERALIZED_TIME, &[b"20260101000000Z"]);
        let data = element(tag::SEQUENCE, &[&responder, &made_at, &element(tag::SEQUENCE, &[list])]);
        let algorithm = element(tag::SEQUENCE, &[&element(tag::OBJECT_IDENTIFIER, &[&[0x2a]])]);
        let signature = element(tag::BIT_STRING, &[&[0, 1, 2, 3]]);
        wrapped(&element(tag::SEQUENCE, &[&data, &algorithm, &signature]))
    }
}
