//! Why an answer is not stapled, each with what can be done. The words continue "the OCSP responder …".

use jiff::Timestamp;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// What came is no answer, by what could not be read of it.
    #[error("sent what is no OCSP answer: {0} cannot be read")]
    Malformed(&'static str),
    #[error("sent an answer of more than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    /// The responder declined, unsigned.
    #[error("declined to answer: {0}")]
    Declined(ResponderStatus),
    /// Good or bad, for others.
    #[error("answered for another certificate")]
    OtherCertificate,
    /// Of a kind that is not known here or not sound, by its place.
    #[error("signed its answer with an algorithm that is not accepted")]
    Algorithm,
    /// By nobody whom the issuer has given the right to.
    #[error("signed its answer as somebody to whom the issuer has not delegated it")]
    Stranger,
    /// The issuer has delegated it, for another time than now.
    #[error("signed its answer with a certificate that is not valid now")]
    DelegateOutOfDate,
    #[error("sent an answer whose signature is wrong")]
    Signature,
    /// Something in it must be understood, and is not.
    #[error("sent an answer with a critical extension that is not known")]
    CriticalExtension,
    #[error("sent an answer that is valid from {this_update} on only")]
    TooEarly { this_update: Timestamp },
    #[error("sent an answer that was valid until {next_update}")]
    Expired { next_update: Timestamp },
    /// Signed and in time: the responder does not know the certificate.
    #[error("does not know the certificate")]
    Unknown,
}

/// What a responder says instead of an answer (RFC 6960 section 4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ResponderStatus {
    #[error("it takes the question for malformed")]
    MalformedRequest,
    #[error("it has an internal error")]
    InternalError,
    #[error("it asks to try later")]
    TryLater,
    #[error("it wants signed questions")]
    SignatureRequired,
    #[error("it has no answer for this certificate")]
    Unauthorized,
    #[error("status {0}")]
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
