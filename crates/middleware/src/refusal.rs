//! Answers that the proxy makes itself because something is wrong: status, reason code, setting and sentence, in one
//! place for whoever answers, logs or explains. Whose fault a failed exchange is, is known by `proxy`'s `failure`; how
//! the answer is written, by `errors`.

use tidegate_routing::decision::Rejection;
use tidegate_telemetry::UpstreamError;
use tidegate_wire::HeadError;

/// An answer that the proxy makes itself because something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    /// Code for log and metric.
    pub reason: &'static str,
    /// The setting that the refusal comes from, as it is written in the file.
    pub setting: Option<&'static str>,
}

impl Refusal {
    pub const NO_ROUTE: Refusal = Refusal::new(404, "no_route");
    pub const UNKNOWN_HOST: Refusal = Refusal::new(421, "unknown_host");
    /// The name in the TLS handshake and the name in the request belong to sites with different TLS settings.
    pub const MISDIRECTED: Refusal = Refusal::new(421, "misdirected");
    pub const HEADER_TIMEOUT: Refusal = Refusal { status: 408, reason: "header_timeout", setting: Some("limits header-timeout") };
    pub const BODY_TOO_SLOW: Refusal = Refusal { status: 408, reason: "body_too_slow", setting: Some("limits body-rate") };
    pub const BODY_TOO_LARGE: Refusal = Refusal { status: 413, reason: "body_too_large", setting: Some("body-limit") };
    pub const CONNECT_METHOD: Refusal = Refusal::new(405, "connect_method");
    pub const PLAIN_HTTP_TO_TLS: Refusal = Refusal::new(400, "plain_http_to_tls");
    pub const TLS_TO_PLAIN_HTTP: Refusal = Refusal::new(400, "tls_to_plain_http");

    pub const NOT_AUTHENTICATED: Refusal = Refusal { status: 401, reason: "not_authenticated", setting: Some("basic-auth") };
    pub const PASSWORDS_BUSY: Refusal = Refusal { status: 503, reason: "passwords_busy", setting: Some("basic-auth") };

    pub const NO_FILE: Refusal = Refusal::new(404, "no_file");
    pub const FILE_FORBIDDEN: Refusal = Refusal::new(403, "file_forbidden");
    pub const FILE_METHOD: Refusal = Refusal::new(405, "file_method");
    pub const FILE_PATH: Refusal = Refusal::new(400, "file_path");
    pub const FILE_RANGE: Refusal = Refusal::new(416, "file_range");
    /// No range of what the cache keeps.
    pub const KEPT_RANGE: Refusal = Refusal::new(416, "cache_range");
    pub const FILE_PRECONDITION: Refusal = Refusal::new(412, "file_precondition");
    pub const FILE_UNREADABLE: Refusal = Refusal::new(500, "file_unreadable");

    pub const BAD_CODING: Refusal = Refusal { status: 400, reason: "bad_content_encoding", setting: Some("decompress") };
    pub const BOMB: Refusal = Refusal { status: 413, reason: "decompression_bomb", setting: Some("decompress ratio") };
    pub const DECODERS_BUSY: Refusal = Refusal { status: 503, reason: "decoders_busy", setting: Some("decompress") };
    /// The client wants what is kept, and nothing is (`only-if-cached`).
    pub const NOT_KEPT: Refusal = Refusal::new(504, "not_in_cache");
    pub const PURGE_DENIED: Refusal = Refusal { status: 403, reason: "purge_denied", setting: Some("cache purge-from") };
    pub const PURGE_UNCLEAR: Refusal = Refusal::new(400, "purge_unclear");
    pub const PURGES_MANY: Refusal = Refusal::new(503, "purges_under_way");

    pub const NO_SCRIPT: Refusal = Refusal::new(404, "no_script");
    /// Scripts are told the length of a body before they begin, and this one is too long to be collected first.
    pub const LENGTH_UNSTATED: Refusal = Refusal::new(411, "length_unstated");
    pub const PARAMS_TOO_LARGE: Refusal = Refusal::new(431, "params_too_large");
    pub const SCRIPT_HEAD_TOO_LARGE: Refusal = Refusal::new(502, UpstreamError::HeadTooLarge.reason());

    const fn new(status: u16, reason: &'static str) -> Refusal {
        Refusal { status, reason, setting: None }
    }

    /// What the answer's body says. Never a word of the request: error pages that repeat input have been used for
    /// attacks.
    pub fn sentence(self) -> &'static str {
        match (self.status, self.reason) {
            // First, for their status is what the configuration says.
            (_, "rate_limited") => "there were too many requests; try again later",
            (_, "concurrency_limited") => "there are too many requests at the same time",
            (404, "no_file") => "there is no such file",
            (404, "no_script") => "there is no such script",
            (404, _) => "no route of this site matches the request",
            (400, reason) if reason.starts_with("script_path") => "the path cannot be that of a script",
            (400, "file_path") => "the path cannot be that of a file",
            (401, _) => "a name and a password are needed, and not what was sent",
            (400, "bad_content_encoding") => "the request body is not what its Content-Encoding says",
            (413, "decompression_bomb") => "the request body becomes far more than was sent",
            (503, "decoders_busy") => "as many request bodies are being decoded as may be",
            (504, "not_in_cache") => "nothing is kept that answers this request, and it asks for nothing else",
            (403, "purge_denied") => "this client may not remove what is kept",
            (400, "path_slashes") => "the path has several slashes in a row",
            (400, "path_encoded_slash") => "the path has an encoded slash or backslash",
            (400, "path_escapes_root") => "the path leads above the root",
            (400, "path_ambiguous") => "the path can be read as that of another route",
            (400, "purge_unclear") => "a URL or at most 64 tags can be purged with one request",
            (503, "purges_under_way") => "other purges are under way; try again in a moment",
            (403, "client_certificate_required") => {
                "a certificate of the client is needed, and the connection was made without one"
            }
            (403, "client_denied") => "this client may not ask for it",
            (403, _) => "this file may not be read",
            (405, "file_method") => "files can be read, and nothing else",
            (411, _) => "the request body is too long to come without Content-Length",
            (412, _) => "the file is not as the request expects it",
            (416, _) => "there is no such range",
            (500, _) => "the file cannot be read now",
            (421, "misdirected") => "this connection was made for another site",
            (421, _) => "no site has this host name",
            (405, _) => "this server does not open tunnels",
            (408, _) => "the request came too slowly",
            (413, _) => "the request body is larger than this route allows",
            (414, _) => "the request line is too long",
            (431, _) => "the request head is too large",
            (400, "plain_http_to_tls") => "plain HTTP was sent to a port that speaks TLS; use https:// in the address",
            (400, "tls_to_plain_http") => "TLS was sent to a port that speaks plain HTTP; use http:// in the address",
            (503, "pool_full" | "queue_timeout") => "every upstream server has as many requests as it may",
            (503, "passwords_busy") => "too many passwords wait to be verified",
            (503, "overloaded") => "the proxy is near its memory bound",
            (503, _) => "no upstream server can take the request now",
            (504, "total_timeout") => "the request took longer than it may",
            (504, _) => "the upstream server did not answer in time",
            (502, "connect_failed" | "connect_timeout" | "resolve_failed" | "tls_failed") => {
                "the upstream server cannot be reached"
            }
            (502, _) => "the upstream server gave no valid answer",
            _ => "the request is not valid",
        }
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Refusal {
        match rejection {
            Rejection::UnknownHost => Refusal::UNKNOWN_HOST,
            Rejection::Misdirected => Refusal::MISDIRECTED,
            Rejection::ConnectMethod => Refusal::CONNECT_METHOD,
            Rejection::Path(path) => Refusal { status: 400, reason: path.reason(), setting: Some(path.setting()) },
        }
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Refusal {
        Refusal { status: error.status(), reason: error.reason(), setting: error.setting() }
    }
}

impl From<UpstreamError> for Refusal {
    fn from(error: UpstreamError) -> Refusal {
        let (status, setting) = match error {
            UpstreamError::NoServer | UpstreamError::BadStatus => (503, None),
            UpstreamError::PoolFull => (503, Some("queue")),
            UpstreamError::QueueTimeout => (503, Some("queue-timeout")),
            UpstreamError::Overloaded => (503, Some("memory")),
            UpstreamError::FirstByteTimeout => (504, Some("timeout first-byte")),
            UpstreamError::IdleTimeout => (504, Some("timeout idle")),
            UpstreamError::TotalTimeout => (504, Some("timeout total")),
            UpstreamError::ConnectTimeout => (502, Some("timeout connect")),
            UpstreamError::HeadTooLarge => (502, Some("limits header-bytes")),
            UpstreamError::ResolveFailed
            | UpstreamError::ConnectFailed
            | UpstreamError::TlsFailed
            | UpstreamError::ClosedEarly
            | UpstreamError::BodyCut
            | UpstreamError::BadResponse
            | UpstreamError::Reset
            | UpstreamError::GoAway => (502, None),
        };
        Refusal { status, reason: error.reason(), setting }
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
            assert_eq!((refusal.status, refusal.reason), (503, error.reason()));
            assert_eq!((refusal.setting, refusal.sentence()), (setting, sentence));
        };
        let as_many = "every upstream server has as many requests as it may";
        check(UpstreamError::PoolFull, Some("queue"), as_many);
        check(UpstreamError::QueueTimeout, Some("queue-timeout"), as_many);
        check(UpstreamError::Overloaded, Some("memory"), "the proxy is near its memory bound");
        check(UpstreamError::BadStatus, None, "no upstream server can take the request now");
        check(UpstreamError::NoServer, None, "no upstream server can take the request now");
    }
}
