//! Log-in by OpenID Connect (Core 1.0, authorization code flow with PKCE) as data and decisions: what a provider says
//! of itself, what is sealed into cookies, which log-in a browser has begun, when a session is refreshed and when it
//! is over. Pure as the rest of the crate: bytes, randomness and `now` come in. Who asks the provider, keeps keys and
//! sets cookies is elsewhere. Start at [`Session`], then [`Flows`] and [`Metadata`].

mod answer;
mod cookie;
mod flow;
mod id_token;
mod metadata;
mod parts;
mod revoked;
mod seal;
mod session;
mod user_info;

pub use answer::{TokenAnswer, TokenAnswerFault};
pub use cookie::{CHUNKS_MAX, CookieNames, join_chunks, split_chunks};
pub use flow::{FLOW_LIFE, FLOWS_MAX, Flow, Flows, LogInState, is_local, return_target};
pub use id_token::{IdToken, IdTokenFault, IdTokenGrant, LogOutToken, LogOutTokenFault};
pub use metadata::{Metadata, MetadataFault, discovery_url};
pub use parts::{form, percent_encode};
pub use revoked::{REVOKED_MAX, Revocation, Revoked, RevokedFault};
pub use seal::{KEY_AHEAD, KEY_PERIOD, Purpose, Realm, SESSION_LIFE_MAX, SessionKeys, UnreadableSessionKeys};
pub use session::{Session, SessionMarks};
pub use user_info::{UserInfoFault, user_info};

/// Which log-in a cookie belongs to: provider, client and what is asked for.
pub type ProviderId = [u8; 16];

/// Digests by which a provider and its settings are known, whatever else is in the parts.
pub fn provider_id<'p>(parts: impl IntoIterator<Item = &'p str>) -> ProviderId {
    parts::digest_of(parts)
}
