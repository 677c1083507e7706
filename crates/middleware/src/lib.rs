//! The steps of a route, one folder each, compiled and applied to message heads. Pure: no socket, no clock, no log.
//! Which route applies is found by `routing`; when each step runs is `proxy`'s request path, which calls `step` in this
//! crate. Answers that no step asked for, such as 404 and 502, are written in `errors`.

mod admission;
pub mod allow;
pub mod answer_rewrite;
pub mod api_key;
pub mod auth_any;
pub mod basic_auth;
pub mod body_limit;
mod client_auth;
mod compile_error;
pub mod compress;
pub mod concurrency_limit;
pub mod context;
pub mod cors;
pub mod csrf;
pub mod decompress;
pub mod error_page;
pub mod errors;
#[cfg(test)]
mod fixtures;
pub mod forward_auth;
pub mod grpc;
pub mod header;
mod header_names;
mod identity;
pub mod jwt;
mod limit_key;
pub mod limited;
pub mod log;
mod media_type;
pub mod mount;
pub mod oidc;
pub mod proxy_status;
pub mod rate_limit;
pub mod redirect;
mod refusal;
pub mod respond;
pub mod rewrite;
mod said_fields;
mod secret_parameters;
pub mod send_file;
pub mod step;
pub mod template;
mod trailers;

pub use self::log::CompiledLog;
pub use admission::apply_admission;
pub use api_key::{CompiledApiKey, api_key_of, withheld_parameters, without};
pub use auth_any::{CompiledAuthAny, Way, WaysRefused};
pub use basic_auth::{CompiledBasicAuth, Credentials, basic_auth_of, credentials};
pub use body_limit::{BodyAllowance, BodyLimit, TooLarge};
pub use compile_error::CompileError;
pub use compress::CompiledCompress;
pub use context::{Context, RequestId, Scratch, View};
pub use error_page::{ErrorFacts, ErrorPages, Origin};
pub use errors::error_answer;
pub use forward_auth::{
    AuthFault, AuthMeaning, CHECK_PATH, CheckFacts, CompiledForwardAuth, QuestionOf, forward_auth_of, read_check, write_check,
};
pub use header_names::HeaderNameRules;
pub use identity::IdentityFields;
pub use jwt::{CompiledJwt, TokensUnclear, jwt_of};
pub use limited::{DryRun, Limited};
pub use mount::{Answerer, Mount};
pub use oidc::{
    CompiledOidc, OidcAddress, OidcCookies, OidcOfRequest, OidcOfSite, OidcRedirect, PAGE_FIELDS, cookie_host, is_navigation,
    oidc_of,
};
pub use refusal::{ApiKeyRefusal, METHODS, OidcRefusal, Refusal, TokenRefusal};
pub use rewrite::RewriteError;
pub use secret_parameters::{BROUGHT_FROM_PROVIDERS, secret_parameters, shown_address, without_secrets};
pub use step::{
    After, CompiledStep, Halt, Scope, Walk, apply_paths, apply_request, apply_response, changes_response, compile_steps,
    compiled_forward_auth_of, compiled_jwt_of, compiled_oidc_of, has_limits, log_in_challenges,
};
pub use template::{CompiledTemplate, Target, render_text};
pub use trailers::TrailerRules;
