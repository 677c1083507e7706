//! Why an answer is not stapled, each with what can be done. The words continue "the OCSP responder …".

use jiff::Timestamp;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// What came is no answer, by what could not be read of it.
    Malformed(&'static str),
    TooLarge {
        bytes_max: usize,
    },
    /// The responder declined, unsigned.
    Declined(ResponderStatus),
    /// Good or bad, for others.
    OtherCertificate,
    /// Of a kind that is not known here or not sound, by its place.
    Algorithm,
    /// By nobody whom the issuer has given the right to.
    Stranger,
    /// The issuer has delegated it, for another time than now.
    DelegateOutOfDate,
    Signature,
    /// Something in it must be understood, and is not.
    CriticalExtension,
    TooEarly {
        this_update: Timestamp,
    },
    Expired {
        next_update: Timestamp,
    },
    /// Signed and in time: the responder does not know the certificate.
    Unknown,
}

/// What a responder says instead of an answer (RFC 6960 section 4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponderStatus {
    MalformedRequest,
    InternalError,
    TryLater,
    SignatureRequired,
    Unauthorized,
    Other(u8),
}

impl Fault {
    /// What an operator can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Fault::Malformed(_) | Fault::TooLarge { .. } | Fault::CriticalExtension => {
                "something else than the responder may answer there, such as a proxy in between; ask the CA if it goes on"
            }
            Fault::Declined(status) => match status {
                ResponderStatus::Unauthorized => {
                    "new certificates take a while until responders know them; if it goes on, the issuer's certificate in the chain is not the one that signed it"
                }
                ResponderStatus::TryLater | ResponderStatus::InternalError => "nothing; it is asked again",
                ResponderStatus::MalformedRequest | ResponderStatus::SignatureRequired | ResponderStatus::Other(_) => {
                    "ask the CA what its responder wants, or turn it off with `ocsp-stapling #false`"
                }
            },
            Fault::OtherCertificate | Fault::Stranger | Fault::Signature => {
                "check that the chain has the certificate of the CA that issued the first one; if it has, the CA's responder is misconfigured"
            }
            Fault::Algorithm => "ask the CA for answers that are signed with SHA-256 and RSA of 2048 bits or more, or with ECDSA",
            Fault::DelegateOutOfDate => {
                "the CA has to renew the certificate of its responder; check the clock of this machine as well"
            }
            Fault::TooEarly { .. } | Fault::Expired { .. } => {
                "check the clock of this machine; if it is right, the CA's responder is out of date"
            }
            Fault::Unknown => "new certificates take a while until responders know them; ask the CA if it goes on",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Malformed(what) => write!(f, "sent what is no OCSP answer: {what} cannot be read"),
            Fault::TooLarge { bytes_max } => write!(f, "sent an answer of more than {bytes_max} bytes"),
            Fault::Declined(status) => write!(f, "declined to answer: {status}"),
            Fault::OtherCertificate => f.write_str("answered for another certificate"),
            Fault::Algorithm => f.write_str("signed its answer with an algorithm that is not accepted"),
            Fault::Stranger => f.write_str("signed its answer as somebody to whom the issuer has not delegated it"),
            Fault::DelegateOutOfDate => f.write_str("signed its answer with a certificate that is not valid now"),
            Fault::Signature => f.write_str("sent an answer whose signature is wrong"),
            Fault::CriticalExtension => f.write_str("sent an answer with a critical extension that is not known"),
            Fault::TooEarly { this_update } => write!(f, "sent an answer that is valid from {this_update} on only"),
            Fault::Expired { next_update } => write!(f, "sent an answer that was valid until {next_update}"),
            Fault::Unknown => f.write_str("does not know the certificate"),
        }
    }
}

impl std::error::Error for Fault {}

impl ResponderStatus {
    pub(crate) fn of(code: u8) -> ResponderStatus {
        match code {
            1 => ResponderStatus::MalformedRequest,
            2 => ResponderStatus::InternalError,
            3 => ResponderStatus::TryLater,
            5 => ResponderStatus::SignatureRequired,
            6 => ResponderStatus::Unauthorized,
            other => ResponderStatus::Other(other),
        }
    }
}

impl fmt::Display for ResponderStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponderStatus::MalformedRequest => f.write_str("it takes the question for malformed"),
            ResponderStatus::InternalError => f.write_str("it has an internal error"),
            ResponderStatus::TryLater => f.write_str("it asks to try later"),
            ResponderStatus::SignatureRequired => f.write_str("it wants signed questions"),
            ResponderStatus::Unauthorized => f.write_str("it has no answer for this certificate"),
            ResponderStatus::Other(code) => write!(f, "status {code}"),
        }
    }
}
