//! The certificates that sites answer with. No key is ever in them, only where it was read from.

use crate::schema::{objects, words};
use jiff::Timestamp;

objects! {
    /// The certificates that sites answer with.
    pub struct Certificates {
        pub certificates: Vec<Certificate>,
        /// Why names were not ordered on demand within the last hour, if `names-per-hour` was in the way.
        pub on_demand: Option<CertificateFault>,
    }

    /// A certificate that a site answers with, or a name whose certificate is obtained.
    pub struct Certificate {
        /// The site's first address; empty for a name that nobody wrote.
        pub site: String,
        /// `files`, `internal CA` or `acme`.
        pub source: CertificateSource,
        pub files: Vec<String>,
        pub names: Vec<String>,
        /// `ready`, `late` (it ends soon and was not renewed), `revoked` (by the word of its OCSP responder),
        /// `expired`, `missing` (the internal CA stands in), `ordering` or `reading` (storage was not read yet).
        pub state: CertificateState,
        /// Absent while there is none.
        pub not_before: Option<Timestamp>,
        pub not_after: Option<Timestamp>,
        /// The algorithm of its key.
        pub key: Option<String>,
        /// Only with `acme`.
        pub obtained: Option<Obtained>,
        /// Only of a certificate that names an OCSP responder, or demands a staple.
        pub staple: Option<Staple>,
    }

    /// What is sent along in handshakes about the standing of a certificate (OCSP).
    pub struct Staple {
        /// `stapled`, `waiting` (there is no answer yet), `failing` (there is none that can be sent), `revoked`,
        /// `impossible` (nobody can be asked) or `off`.
        pub state: StapleState,
        /// Clients refuse the certificate without a staple.
        pub required: bool,
        /// The one in the certificate.
        pub responder: Option<String>,
        /// When what is sent ends.
        pub until: Option<Timestamp>,
        pub revoked_at: Option<Timestamp>,
        /// When the responder is asked next.
        pub next_question_at: Option<Timestamp>,
        pub failures_in_a_row: u32,
        /// Why there is none, or why there will be none soon.
        pub fault: Option<CertificateFault>,
    }

    /// What is known of a certificate that is obtained.
    pub struct Obtained {
        pub serial: Option<String>,
        /// The directory of the CA that issued it.
        pub directory: Option<String>,
        pub renew_at: Option<Timestamp>,
        pub failures_in_a_row: u32,
        /// Why the last attempt failed.
        pub fault: Option<CertificateFault>,
        pub next_attempt_at: Option<Timestamp>,
    }

    /// Why an attempt failed, and what to do.
    pub struct CertificateFault {
        pub at: Timestamp,
        pub cause: String,
        pub remedy: String,
    }

    /// What became of a request to renew or revoke.
    pub struct CertificateChanged {
        pub name: String,
        /// `false`: it is still on its way; what comes of it is in the list of certificates.
        pub done: bool,
    }

    /// Why it is revoked.
    #[serde(deny_unknown_fields)]
    pub struct RevokeRequest {
        /// `unspecified`, `key-compromise`, `superseded` or `cessation-of-operation`.
        pub reason: Option<String>,
    }
}

words! {
    pub text CertificateSource {
        Files = "files",
        InternalCa = "internal CA",
        Acme = "acme",
    }
}

words! {
    pub text CertificateState {
        Ready = "ready",
        /// There is one, and it should have been renewed by now.
        Late = "late",
        /// By us, or so says the OCSP responder. It is served until there is another.
        Revoked = "revoked",
        /// The certificate's time is over, and it is served all the same.
        Expired = "expired",
        /// There is none; the internal CA stands in.
        Missing = "missing",
        /// An order is on its way, or in line.
        Ordering = "ordering",
        /// Storage was not read yet.
        Reading = "reading",
    }
}

words! {
    pub text StapleState {
        Stapled = "stapled",
        /// The responder was not heard yet, and has not failed.
        Waiting = "waiting",
        Failing = "failing",
        Revoked = "revoked",
        /// Nobody can be asked.
        Impossible = "impossible",
        /// By the configuration.
        Off = "off",
    }
}
