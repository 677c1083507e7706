//! The certificates that sites answer with. No key is ever in them, only where it was read from.

use super::schema::object;

object! {
    /// The certificates that sites answer with.
    pub struct Certificates {
        pub certificates: Vec<Certificate>,
    }
}

object! {
    /// A certificate in use.
    pub struct Certificate {
        /// The site's first address.
        pub site: String,
        /// `files` or `internal CA`.
        pub source: String,
        pub files: Vec<String>,
        pub names: Vec<String>,
        pub not_before: String,
        pub not_after: String,
        /// The algorithm of its key.
        pub key: String,
    }
}
