//! Answers that the proxy makes itself because something is wrong: a closed set, with status, reason code, setting and
//! sentence in one table, for whoever answers, logs or explains. Whose fault a failed exchange is, is known by the
//! crate `exchange` and by `proxy`'s `failure`; how the answer is written, by `errors`.

use crate::forward_auth::AuthFault;
use crate::rewrite::RewriteError;
use tidegate_access::TokenFault;
use tidegate_fastcgi::PathError;
use tidegate_routing::decision::Rejection;
use tidegate_routing::path_policy::PathRefusal;
use tidegate_telemetry::UpstreamError;
use tidegate_wire::{BodyError, HeadError};

/// An answer that the proxy makes itself because something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Head(HeadError),
    HeaderTimeout,
    PlainHttpToTls,
    /// A trusted proxy does not say who its client is in a way that can be read.
    ClientUnclear,
    TlsToPlainHttp,
    UnknownHost,
    /// The name in the TLS handshake and the name in the request belong to sites with different TLS settings.
    Misdirected,
    ConnectMethod,
    /// TRACE, where nobody has asked for it.
    TraceMethod,
    /// `Max-Forwards` of OPTIONS or TRACE is not one number.
    MaxForwards,
    /// An extended CONNECT to something else than a WebSocket.
    ConnectProtocol,
    /// A WebSocket over HTTP/2 to a route that would answer it with success, which says there that the tunnel stands.
    NotWebSocket,
    Path(PathRefusal),
    NoRoute,

    Rewrite(RewriteError),
    /// `Host` would be set to something that is none, by a text of the client.
    HostOfStep,
    /// A name that servers may read as another one, where such are refused.
    HeaderName,
    /// The location of a redirect would have dot segments.
    RedirectEscapesRoot,
    /// The location of a redirect would be empty: a map has nothing for the request.
    RedirectNowhere,
    /// `allow` or `deny`.
    Denied,
    /// A page of another origin has a browser change something.
    CrossOrigin,
    NoClientCertificate,
    /// The status is what the configuration says.
    RateLimited {
        status: u16,
    },
    /// As with `RateLimited`.
    ConcurrencyLimited {
        status: u16,
    },
    NotAuthenticated,
    PasswordsBusy,
    /// Too many log-ins from there have failed.
    LogInsFailed {
        wait_seconds: u32,
    },
    Token(TokenRefusal),
    Oidc(OidcRefusal),
    /// The server of a `forward-auth` has given no answer that can be used.
    Auth(AuthFault),
    /// The body is to go along to the server of a `forward-auth`, and is longer than it may be.
    AuthBodyTooLarge,
    ApiKey(ApiKeyRefusal),

    BodyTooSlow,
    BodyTooLarge,
    BadBody(BodyError),
    BadCoding,
    Bomb,
    DecodersBusy,

    NoFile,
    FileForbidden,
    FileMethod,
    FilePath,
    FileRange,
    FilePrecondition,
    FileUnreadable,
    /// An application names a file that is in no folder of which it may have files sent.
    SendFileOutside,
    /// The list of a folder is made by a thread beside, and the system gives none.
    NoThread,

    /// No range of what the cache keeps.
    KeptRange,
    /// The client wants what is kept, and nothing is (`only-if-cached`).
    NotKept,
    PurgeDenied,
    PurgeUnclear,
    PurgesMany,

    NoScript,
    ScriptPath(PathError),
    /// A body is collected before its script begins, and there is no room for this one.
    BodyNotKept,
    ParamsTooLarge,
    ScriptHeadTooLarge,

    Upstream(UpstreamError),
}

/// Why `jwt` refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    Missing,
    Refused(TokenFault),
    /// More than one token in the same place.
    Unclear,
    /// Good, and not good enough for this route.
    NotEnough,
    /// The keys of its issuer have not come yet.
    KeysMissing,
}

/// Why `oidc`, or one of its addresses, refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OidcRefusal {
    /// Nobody has logged in, and this is no request to send somebody to a provider.
    LogInNeeded,
    /// Logged in, and not good enough for this route.
    NotEnough,
    /// The log-in that comes to its end was never begun here, or long ago.
    UnknownState,
    /// An address of the log-in was asked for with what it cannot be asked for.
    BadRequest,
    /// A page of another site would log somebody out.
    OtherSite,
    /// The provider, or somebody there, has said no.
    Denied,
    /// The provider answers with what cannot be taken.
    BadAnswer,
    /// Tokens do not fit into cookies.
    TooLarge,
    /// The provider is not to be had now.
    ProviderAway,
    /// The keys of sessions have not been read from the storage yet.
    KeysMissing,
    /// Too many wait for the provider.
    Busy,
}

/// Why `api-key` refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyRefusal {
    Missing,
    Unknown,
    Expired,
    /// More than one key in the same place.
    Unclear,
}

/// What is known of a refusal.
struct Row {
    status: u16,
    reason: &'static str,
    setting: Option<&'static str>,
    /// Never a word of the request: error pages that repeat input have been used for attacks.
    sentence: &'static str,
}

const NEEDS_HTTPS: &str = "plain HTTP was sent to a port that speaks TLS; use https:// in the address";
const NEEDS_HTTP: &str = "TLS was sent to a port that speaks plain HTTP; use http:// in the address";
const NEEDS_CERTIFICATE: &str = "a certificate of the client is needed, and the connection was made without one";
const NEEDS_PASSWORD: &str = "a name and a password are needed, and not what was sent";
const BODY_TOO_LARGE: &str = "the request body is larger than this route allows";
const NO_SUCH_LOG_IN: &str = "this log-in was not begun here, or too long ago; go to the page that you wanted once more";
const PROVIDER_AWAY: &str = "who logs people in here cannot be reached now; try again in a moment";
const NO_KEYS: &str = "the keys that tokens are verified with have not come yet; try again in a moment";
const WEBSOCKETS_ALONE: &str = "of extended CONNECT, WebSockets are taken and nothing else";
const DECODERS_BUSY: &str = "as many request bodies are being decoded as may be";
const NOT_KEPT: &str = "nothing is kept that answers this request, and it asks for nothing else";
const NOT_CODED_SO: &str = "the request body is not what its Content-Encoding says";
const TOO_OFTEN: &str = "there were too many requests; try again later";
const LOG_INS_FAILED: &str = "too many log-ins have failed; try again later";
const TOO_MANY: &str = "there are too many requests at the same time";
const NOT_VALID: &str = "the request is not valid";
const LINE_TOO_LONG: &str = "the request line is too long";
const HEAD_TOO_LARGE: &str = "the request head is too large";
const ABOVE_ROOT: &str = "the path leads above the root";
const TOO_SLOW: &str = "the request came too slowly";
const NO_RANGE: &str = "there is no such range";
const ABOVE_SERVERS: &str = "the header fields are larger than the upstream server takes";
const NO_VALID_ANSWER: &str = "the upstream server gave no valid answer";
const OUT_OF_REACH: &str = "the upstream server cannot be reached";
const TOO_LATE: &str = "the upstream server did not answer in time";
const AS_MANY_AS_MAY_BE: &str = "every upstream server has as many requests as it may";
const CONTAINERS_NOT_READY: &str = "what answers here is starting, or not well; try again in a moment";
const NOBODY_NOW: &str = "no upstream server can take the request now";

/// What may be asked for here, as far as the proxy knows: others and fewer may be known to who answers.
pub const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

impl Refusal {
    pub fn status(self) -> u16 {
        self.row().status
    }

    /// The code for log and metrics.
    pub fn reason(self) -> &'static str {
        self.row().reason
    }

    /// The setting that the refusal comes from, as it is written in the file.
    pub fn setting(self) -> Option<&'static str> {
        self.row().setting
    }

    /// What the answer's body says.
    pub fn sentence(self) -> &'static str {
        self.row().sentence
    }

    /// Whether the request could not be served, as it was: whoever sends another one provokes no such refusal, unless
    /// something is wrong here or behind.
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Refusal::Upstream(_)
                | Refusal::ScriptHeadTooLarge
                | Refusal::FileUnreadable
                | Refusal::NoThread
                | Refusal::BodyNotKept
                | Refusal::DecodersBusy
                | Refusal::PasswordsBusy
                | Refusal::Auth(_)
        )
    }

    /// The methods to name beside a 405 (RFC 9110 section 15.5.6), where they are the same everywhere.
    pub fn methods_allowed(self) -> Option<&'static str> {
        matches!(self, Refusal::ConnectMethod | Refusal::TraceMethod).then_some(METHODS)
    }

    /// How long to wait before asking again, where a moment later there may be room (RFC 9110 section 15.6.4).
    pub fn retry_after_seconds(self) -> Option<u64> {
        if let Refusal::LogInsFailed { wait_seconds } = self {
            return Some(wait_seconds.into());
        }
        use UpstreamError::{ContainersNotReady, Overloaded, PoolFull, QueueTimeout};
        let is_of_a_moment = matches!(
            self,
            Refusal::Upstream(PoolFull | QueueTimeout | Overloaded | ContainersNotReady)
                | Refusal::NoThread
                | Refusal::PasswordsBusy
                | Refusal::Token(TokenRefusal::KeysMissing)
                | Refusal::Oidc(OidcRefusal::ProviderAway | OidcRefusal::KeysMissing | OidcRefusal::Busy)
                | Refusal::Auth(AuthFault::Busy)
                | Refusal::DecodersBusy
                | Refusal::BodyNotKept
                | Refusal::PurgesMany
        );
        is_of_a_moment.then_some(1)
    }

    /// The table.
    fn row(self) -> Row {
        let (status, reason, setting, sentence) = match self {
            Refusal::Head(error) => (error.status(), error.reason(), error.setting(), sentence_of_head(error)),
            Refusal::HeaderTimeout => (408, "header_timeout", Some("limits header-timeout"), TOO_SLOW),
            Refusal::PlainHttpToTls => (400, "plain_http_to_tls", None, NEEDS_HTTPS),
            Refusal::TlsToPlainHttp => (400, "tls_to_plain_http", None, NEEDS_HTTP),
            Refusal::ClientUnclear => (400, "client_unclear", Some("trusted-proxies"), NOT_VALID),
            Refusal::UnknownHost => (421, "unknown_host", None, "no site has this host name"),
            Refusal::Misdirected => (421, "misdirected", None, "this connection was made for another site"),
            Refusal::ConnectMethod => (405, "connect_method", None, "this server does not open tunnels"),
            Refusal::TraceMethod => (405, "trace_method", Some("pass-on trace"), "this server does not answer TRACE"),
            Refusal::MaxForwards => (400, "max_forwards", None, NOT_VALID),
            Refusal::ConnectProtocol => (501, "connect_protocol", None, WEBSOCKETS_ALONE),
            Refusal::NotWebSocket => (501, "not_websocket", None, "there is no WebSocket here"),
            Refusal::Path(path) => (400, path.reason(), Some(path.setting()), sentence_of_path(path)),
            Refusal::NoRoute => (404, "no_route", None, "no route of this site matches the request"),

            Refusal::Rewrite(RewriteError::AgainstPolicy(path)) => {
                (400, path.reason(), Some(path.setting()), sentence_of_path(path))
            }
            Refusal::Rewrite(error) => (error.status(), error.reason(), Some("rewrite"), sentence_of_rewrite(error)),
            Refusal::HostOfStep => (400, "host_of_step", Some("request-header"), NOT_VALID),
            Refusal::HeaderName => (400, "header_name", Some("header-names"), NOT_VALID),
            Refusal::RedirectEscapesRoot => (400, "redirect_escapes_root", Some("redirect"), NOT_VALID),
            Refusal::RedirectNowhere => (404, "redirect_nowhere", Some("redirect"), "there is no such page"),
            Refusal::Denied => (403, "client_denied", Some("allow, deny"), "this client may not ask for it"),
            Refusal::CrossOrigin => (403, "cross_origin", Some("csrf"), "a page of another site may not do this"),
            Refusal::NoClientCertificate => (403, "client_certificate_required", Some("client-auth"), NEEDS_CERTIFICATE),
            Refusal::RateLimited { status } => (status, "rate_limited", Some("rate-limit"), TOO_OFTEN),
            Refusal::ConcurrencyLimited { status } => (status, "concurrency_limited", Some("concurrency-limit"), TOO_MANY),
            Refusal::NotAuthenticated => (401, "not_authenticated", Some("basic-auth"), NEEDS_PASSWORD),
            Refusal::LogInsFailed { .. } => (429, "log_ins_failed", Some("failures"), LOG_INS_FAILED),
            Refusal::Token(token) => return row_of_token(token),
            Refusal::Oidc(oidc) => return row_of_oidc(oidc),
            Refusal::Auth(fault) => return row_of_auth(fault),
            Refusal::AuthBodyTooLarge => (413, "auth_body_too_large", Some("forward-auth body"), BODY_TOO_LARGE),
            Refusal::ApiKey(key) => return row_of_api_key(key),
            Refusal::PasswordsBusy => (503, "passwords_busy", Some("basic-auth"), "too many passwords wait to be verified"),

            Refusal::BodyTooSlow => (408, "body_too_slow", Some("limits body-rate"), TOO_SLOW),
            Refusal::BodyTooLarge => (413, "body_too_large", Some("body-limit"), BODY_TOO_LARGE),
            Refusal::BadBody(error) => (400, error.reason(), None, NOT_VALID),
            Refusal::BadCoding => (400, "bad_content_encoding", Some("decompress"), NOT_CODED_SO),
            Refusal::Bomb => {
                (413, "decompression_bomb", Some("decompress ratio"), "the request body becomes far more than was sent")
            }
            Refusal::DecodersBusy => (503, "decoders_busy", Some("decompress"), DECODERS_BUSY),

            Refusal::NoFile => (404, "no_file", None, "there is no such file"),
            Refusal::FileForbidden => (403, "file_forbidden", None, "this file may not be read"),
            Refusal::FileMethod => (405, "file_method", None, "files can be read, and nothing else"),
            Refusal::FilePath => (400, "file_path", None, "the path cannot be that of a file"),
            Refusal::FileRange => (416, "file_range", None, NO_RANGE),
            Refusal::FilePrecondition => (412, "file_precondition", None, "the file is not as the request expects it"),
            Refusal::NoThread => (503, "no_thread", None, "the system has no thread for this now; try again in a moment"),
            Refusal::SendFileOutside => (502, "send_file_outside", Some("send-file"), NO_VALID_ANSWER),
            Refusal::FileUnreadable => (500, "file_unreadable", None, "the file cannot be read now"),

            Refusal::KeptRange => (416, "cache_range", None, NO_RANGE),
            Refusal::NotKept => (504, "not_in_cache", None, NOT_KEPT),
            Refusal::PurgeDenied => (403, "purge_denied", Some("cache purge-from"), "this client may not remove what is kept"),
            Refusal::PurgeUnclear => (400, "purge_unclear", None, "a URL or at most 64 tags can be purged with one request"),
            Refusal::PurgesMany => (503, "purges_under_way", None, "other purges are under way; try again in a moment"),

            Refusal::NoScript => (404, "no_script", None, "there is no such script"),
            Refusal::ScriptPath(error) => (400, error.reason(), None, "the path cannot be that of a script"),
            Refusal::BodyNotKept => (503, "body_not_kept", None, "there is no room for the request body now"),
            Refusal::ParamsTooLarge => (431, "params_too_large", None, HEAD_TOO_LARGE),
            Refusal::ScriptHeadTooLarge => (502, UpstreamError::HeadTooLarge.reason(), None, NO_VALID_ANSWER),

            Refusal::Upstream(error) => return row_of_upstream(error),
        };
        Row { status, reason, setting, sentence }
    }
}

fn row_of_token(refusal: TokenRefusal) -> Row {
    let (status, reason, setting, sentence) = match refusal {
        TokenRefusal::Missing => (401, "token_missing", "jwt", "a token is needed"),
        TokenRefusal::Refused(fault) => (401, fault.reason(), "jwt", "the token cannot be taken"),
        TokenRefusal::Unclear => (400, "token_unclear", "jwt", "there is more than one token"),
        TokenRefusal::NotEnough => (403, "token_not_enough", "jwt require", "the token does not allow this"),
        TokenRefusal::KeysMissing => (503, "token_keys_missing", "jwt jwks", NO_KEYS),
    };
    Row { status, reason, setting: Some(setting), sentence }
}

fn row_of_oidc(refusal: OidcRefusal) -> Row {
    let (status, reason, setting, sentence) = match refusal {
        OidcRefusal::LogInNeeded => (401, "oidc_log_in_needed", "oidc", "somebody has to log in first"),
        OidcRefusal::NotEnough => (403, "oidc_not_enough", "oidc require", "who has logged in may not do this"),
        OidcRefusal::UnknownState => (400, "oidc_state_unknown", "oidc callback", NO_SUCH_LOG_IN),
        OidcRefusal::BadRequest => (400, "oidc_bad_request", "oidc", "this is not how this address is asked"),
        OidcRefusal::OtherSite => (403, "oidc_other_site", "oidc logout", "a page of another site may not do this"),
        OidcRefusal::Denied => (403, "oidc_denied", "oidc issuer", "the log-in was refused where it was made"),
        OidcRefusal::BadAnswer => (502, "oidc_bad_answer", "oidc issuer", "the log-in could not be verified"),
        OidcRefusal::TooLarge => (502, "oidc_session_too_large", "oidc", "what is known of this log-in fits into no cookies"),
        OidcRefusal::ProviderAway => (503, "oidc_provider_away", "oidc issuer", PROVIDER_AWAY),
        OidcRefusal::KeysMissing => {
            (503, "oidc_keys_missing", "storage", "log-ins cannot be verified yet; try again in a moment")
        }
        OidcRefusal::Busy => (503, "oidc_busy", "oidc", "too many log-ins are under way; try again in a moment"),
    };
    Row { status, reason, setting: Some(setting), sentence }
}

/// Never 401: nobody is logged out because a server is away.
fn row_of_auth(fault: AuthFault) -> Row {
    const NOBODY_SAYS: &str = "it cannot be found out now whether the request may be answered";
    let (reason, setting) = match fault {
        AuthFault::Unreachable => ("auth_unreachable", "forward-auth"),
        AuthFault::Busy => ("auth_busy", "forward-auth"),
        AuthFault::TooLate => ("auth_too_late", "forward-auth total"),
        AuthFault::Failed => ("auth_failed", "forward-auth"),
        AuthFault::Broken => ("auth_bad_answer", "forward-auth"),
        AuthFault::TooLong => ("auth_answer_too_long", "forward-auth answer-bytes"),
    };
    Row { status: 503, reason, setting: Some(setting), sentence: NOBODY_SAYS }
}

fn row_of_api_key(refusal: ApiKeyRefusal) -> Row {
    let (status, reason, sentence) = match refusal {
        ApiKeyRefusal::Missing => (401, "api_key_missing", "a key is needed"),
        ApiKeyRefusal::Unknown => (401, "api_key_unknown", "the key cannot be taken"),
        // Only who has had the key hears that it was one.
        ApiKeyRefusal::Expired => (401, "api_key_expired", "the key has ended"),
        ApiKeyRefusal::Unclear => (400, "api_key_unclear", "there is more than one key"),
    };
    Row { status, reason, setting: Some("api-key"), sentence }
}

fn sentence_of_head(error: HeadError) -> &'static str {
    match error {
        HeadError::HeadTooLarge | HeadError::TooManyFields => HEAD_TOO_LARGE,
        HeadError::RequestLineTooLong => LINE_TOO_LONG,
        HeadError::PathEscapesRoot => ABOVE_ROOT,
        _ => NOT_VALID,
    }
}

fn sentence_of_path(refusal: PathRefusal) -> &'static str {
    match refusal {
        PathRefusal::Slashes => "the path has several slashes in a row",
        PathRefusal::EncodedSlash => "the path has an encoded slash or backslash",
        PathRefusal::Parameters => "the path has parameters",
        PathRefusal::EscapesRoot => ABOVE_ROOT,
        PathRefusal::Ambiguous => "the path can be read as that of another route",
    }
}

fn sentence_of_rewrite(error: RewriteError) -> &'static str {
    match error {
        RewriteError::EscapesRoot | RewriteError::NotAPath => NOT_VALID,
        RewriteError::TooLong => LINE_TOO_LONG,
        RewriteError::AgainstPolicy(path) => sentence_of_path(path),
    }
}

fn row_of_upstream(error: UpstreamError) -> Row {
    let (status, setting, sentence) = match error {
        UpstreamError::NoServer | UpstreamError::BadStatus => (503, None, NOBODY_NOW),
        UpstreamError::EmptyPool => (503, Some("server"), NOBODY_NOW),
        UpstreamError::ContainersNotReady => (503, Some("docker"), CONTAINERS_NOT_READY),
        UpstreamError::PoolFull => (503, Some("queue"), AS_MANY_AS_MAY_BE),
        UpstreamError::QueueTimeout => (503, Some("queue-timeout"), AS_MANY_AS_MAY_BE),
        UpstreamError::Overloaded => (503, Some("memory"), "the proxy is near its memory bound"),
        UpstreamError::FirstByteTimeout => (504, Some("timeout first-byte"), TOO_LATE),
        UpstreamError::IdleTimeout => (504, Some("timeout idle"), TOO_LATE),
        UpstreamError::TotalTimeout => (504, Some("timeout total"), "the request took longer than it may"),
        UpstreamError::ConnectTimeout => (502, Some("timeout connect"), OUT_OF_REACH),
        UpstreamError::RequestHeadTooLarge => (431, None, ABOVE_SERVERS),
        UpstreamError::HeadTooLarge => (502, Some("limits header-bytes"), NO_VALID_ANSWER),
        UpstreamError::ResolveFailed | UpstreamError::ConnectFailed | UpstreamError::TlsFailed => (502, None, OUT_OF_REACH),
        UpstreamError::TlsRefused => (502, Some("tls"), "the upstream server has refused the TLS connection"),
        UpstreamError::ClosedEarly
        | UpstreamError::BodyCut
        | UpstreamError::BadResponse
        | UpstreamError::BadWebSocketAccept
        | UpstreamError::NoWebSocket
        | UpstreamError::Reset
        | UpstreamError::GoAway => (502, None, NO_VALID_ANSWER),
    };
    Row { status, reason: error.reason(), setting, sentence }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Refusal {
        match rejection {
            Rejection::UnknownHost => Refusal::UnknownHost,
            Rejection::Misdirected => Refusal::Misdirected,
            Rejection::ConnectMethod => Refusal::ConnectMethod,
            Rejection::TraceMethod => Refusal::TraceMethod,
            Rejection::Path(path) => Refusal::Path(path),
        }
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Refusal {
        Refusal::Head(error)
    }
}

impl From<TokenRefusal> for Refusal {
    fn from(token: TokenRefusal) -> Refusal {
        Refusal::Token(token)
    }
}

impl From<OidcRefusal> for Refusal {
    fn from(refusal: OidcRefusal) -> Refusal {
        Refusal::Oidc(refusal)
    }
}

impl From<AuthFault> for Refusal {
    fn from(fault: AuthFault) -> Refusal {
        Refusal::Auth(fault)
    }
}

impl From<ApiKeyRefusal> for Refusal {
    fn from(key: ApiKeyRefusal) -> Refusal {
        Refusal::ApiKey(key)
    }
}

impl From<UpstreamError> for Refusal {
    fn from(error: UpstreamError) -> Refusal {
        Refusal::Upstream(error)
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;
    use tidegate_telemetry::UpstreamError;

    #[test]
    fn what_an_answer_says_when_nobody_takes_the_request() {
        let check = |error: UpstreamError, setting: Option<&str>, sentence: &str| {
            let refusal = Refusal::from(error);
            assert_eq!((refusal.status(), refusal.reason()), (503, error.reason()));
            assert_eq!((refusal.setting(), refusal.sentence()), (setting, sentence));
        };
        let as_many = "every upstream server has as many requests as it may";
        check(UpstreamError::PoolFull, Some("queue"), as_many);
        check(UpstreamError::QueueTimeout, Some("queue-timeout"), as_many);
        check(UpstreamError::Overloaded, Some("memory"), "the proxy is near its memory bound");
        check(UpstreamError::BadStatus, None, "no upstream server can take the request now");
        check(UpstreamError::NoServer, None, "no upstream server can take the request now");
    }
}
