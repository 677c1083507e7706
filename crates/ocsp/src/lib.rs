//! OCSP (RFC 6960, in the profile of RFC 5019): the question about a certificate, whether an answer may be believed,
//! and when to ask again. Pure: no socket, no clock and no randomness; who asks and who staples is elsewhere. Start at
//! `certificate_id.rs` (whom the question is about), then `verify.rs` (whether the answer counts) and `course.rs` (what
//! follows from it).

mod certificate_id;
mod course;
mod der;
mod fault;
mod request;
mod response;
mod signature;
mod verify;

pub use certificate_id::CertificateId;
pub use course::{Course, Effect, Failure, Standing};
pub use fault::{Fault, ResponderStatus};
pub use request::{Question, question};
pub use response::RESPONSE_BYTES_MAX;
pub use verify::{Answer, Verdict, verify};
