//! Who somebody is ([`Identity`]), and that by what he carries: signed tokens (RFC 7515, 7519), the keys that they are
//! verified with (RFC 7517), what they claim and whether that is enough. Pure: bytes and `now` in, answers out; it
//! opens no connection, has no clock and no log. Who fetches keys and where a token stands in a request is elsewhere.
//! Start at [`Jws`], then [`KeySet`] and [`Claims`]; log-ins by OpenID Connect are in [`oidc`].

mod base64url;
mod claims;
mod course;
mod identity;
mod json;
mod jws;
mod key;
mod key_set;
pub mod oidc;
mod remembered;
mod requirement;
mod roca;

pub use claims::{Claims, Expectation, claim_of};
pub use course::{FAILED_WAIT_MAX, KEY_LIFE_DEFAULT, KEY_LIFE_MAX, KEY_LIFE_MIN, KeyCourse, UNKNOWN_KEY_WAIT};
pub use identity::{Identity, LogIn};
pub use json::{JsonFault, Value};
pub use jws::{CANDIDATES_MAX, HEADER_BYTES_MAX, Jws, TOKEN_BYTES_MAX, TokenFault};
pub use key::{Algorithm, KeyFault, VerificationKey};
pub use key_set::{KEYS_MAX, KeySet, KeySetFault, KeySetOrigin, SET_BYTES_MAX, SkippedKey};
pub use remembered::{REMEMBERED_BYTES_MAX, REMEMBERED_MAX, VerifiedTokens};
pub use requirement::is_met;
