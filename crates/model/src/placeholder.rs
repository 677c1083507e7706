//! Text with `{placeholders}` in it. `{env.X}` and `{file.X}` are gone by the time a template exists: they are filled
//! in when the file is read.

use crate::client_auth::ClientCertificateField;
use crate::geo::GeoField;
use std::fmt;

/// Literal pieces and placeholders, in order. Empty means the empty string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Template {
    pub parts: Vec<TemplatePart>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TemplatePart {
    Literal(String),
    Placeholder(Placeholder),
    /// `$1` in a `rewrite` whose pattern is a regular expression.
    Capture(usize),
}

impl Template {
    pub fn literal(text: impl Into<String>) -> Template {
        let text = text.into();
        Template { parts: if text.is_empty() { Vec::new() } else { vec![TemplatePart::Literal(text)] } }
    }

    /// The text when no part depends on the request.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [TemplatePart::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether a path or URL has segments of one or two dots as it is written, whatever the other parts bring.
    pub fn has_dot_segments(&self) -> bool {
        let mut written = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => written.push_str(text),
                TemplatePart::Placeholder(_) | TemplatePart::Capture(_) => written.push('x'),
            }
        }
        let path = written.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase().replace("%2e", ".");
        let name = |segment: &str| segment.split(';').next().is_some_and(|name| matches!(name, "." | ".."));
        path.split('/').any(name)
    }

    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Placeholder(placeholder) => Some(placeholder),
            TemplatePart::Literal(_) | TemplatePart::Capture(_) => None,
        })
    }

    pub fn has(&self, wanted: &Placeholder) -> bool {
        self.parts.iter().any(|part| matches!(part, TemplatePart::Placeholder(placeholder) if placeholder == wanted))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Placeholder {
    Host,
    /// The path as it is now: after `rewrite` and `strip-prefix` steps that came before.
    Path,
    /// Without the question mark; empty when there is none.
    Query,
    /// The query behind its question mark; empty when there is none.
    QuerySuffix,
    /// Path and query.
    Uri,
    /// Path and query as the client has asked for them, whatever steps have made of them since.
    AskedUri,
    /// Path and query as asked for, as one piece of a URL: everything is encoded that could end it.
    AskedUriEscaped,
    Method,
    Scheme,
    /// The port that the client came to, as it is public.
    Port,
    ClientIp,
    ClientPort,
    TlsSni,
    TlsVersion,
    /// Empty without a certificate, but for `verified`.
    TlsClient(ClientCertificateField),
    /// What software the client is, by its ClientHello.
    TlsJa4,
    /// What the header of a load balancer says of the connection (`accept-proxy-protocol`): the name that its client
    /// has asked for, and an identifier.
    ProxyAuthority,
    ProxyUniqueId,
    /// `X-Forwarded-For` as an upstream is told it: what trusted proxies have said, and who has sent the request.
    ForwardedFor,
    /// Lower case.
    RequestHeader(String),
    /// With case, decoded. Of several of the name the first.
    RequestQuery(String),
    /// With case, as cookies have it. Of several of the name the first.
    RequestCookie(String),
    /// Lower case. Empty before there is a response.
    ResponseHeader(String),
    UpstreamAddress,
    RequestId,
    /// Who has logged in, after `basic-auth`, `jwt`, `oidc` or `forward-auth`; empty when nobody has.
    AuthUser,
    /// What a token says, by the name of the claim, after `jwt` or `oidc`. With case; empty without a token or such a
    /// claim.
    JwtClaim(String),
    TimeUnixMs,
    /// What is known of the client's address; empty where nothing is.
    Geo(GeoField),
    /// What the `map` of that name has for its key.
    Map(String),
    /// What the status of an error means, as in `Not Found`; nowhere but in an `error-page`.
    StatusText,
    /// A field that the `log` of a site or a route adds; nowhere but in the format of the access log.
    LogOwn(String),
    /// What is only known when the request is over; nowhere but in the format of the access log.
    Log(LogField),
}

/// A field of an access log line, named as in its JSON form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogField {
    /// When the request's head was complete, as in RFC 3339, in UTC.
    Time,
    Site,
    Protocol,
    Status,
    /// Of the body.
    RequestBytes,
    /// Of the body.
    ResponseBytes,
    DurationUs,
    Pool,
    /// Of the route's `split`.
    Arm,
    Retries,
    /// The reason code, when the proxy itself made the answer.
    Reason,
    /// The route's name.
    Route,
    /// Where the route, or its site, comes from.
    Origin,
    /// The trace that the request is part of.
    TraceId,
    QueueUs,
    UpstreamStatus,
    UpstreamProtocol,
    UpstreamConnectUs,
    UpstreamTlsUs,
    UpstreamFirstByteUs,
    UpstreamBodyUs,
    /// What the server of a `forward-auth` has answered.
    AuthStatus,
    /// How long that took.
    AuthUs,
}

impl LogField {
    pub const NAMES: &'static [(&'static str, LogField)] = &[
        ("time", LogField::Time),
        ("site", LogField::Site),
        ("protocol", LogField::Protocol),
        ("status", LogField::Status),
        ("request_bytes", LogField::RequestBytes),
        ("response_bytes", LogField::ResponseBytes),
        ("duration_us", LogField::DurationUs),
        ("pool", LogField::Pool),
        ("arm", LogField::Arm),
        ("retries", LogField::Retries),
        ("reason", LogField::Reason),
        ("route", LogField::Route),
        ("origin", LogField::Origin),
        ("trace_id", LogField::TraceId),
        ("queue_us", LogField::QueueUs),
        ("upstream_status", LogField::UpstreamStatus),
        ("upstream_protocol", LogField::UpstreamProtocol),
        ("upstream_connect_us", LogField::UpstreamConnectUs),
        ("upstream_tls_us", LogField::UpstreamTlsUs),
        ("upstream_first_byte_us", LogField::UpstreamFirstByteUs),
        ("upstream_body_us", LogField::UpstreamBodyUs),
        ("auth_status", LogField::AuthStatus),
        ("auth_us", LogField::AuthUs),
    ];

    pub fn name(self) -> &'static str {
        LogField::NAMES.iter().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
    }
}

impl Placeholder {
    /// The names without a parameter that any template can have, for suggestions and documentation.
    pub const PLAIN: &'static [(&'static str, Placeholder)] = &[
        ("host", Placeholder::Host),
        ("path", Placeholder::Path),
        ("query", Placeholder::Query),
        ("query.suffix", Placeholder::QuerySuffix),
        ("uri", Placeholder::Uri),
        ("asked.uri", Placeholder::AskedUri),
        ("asked.uri.escaped", Placeholder::AskedUriEscaped),
        ("method", Placeholder::Method),
        ("scheme", Placeholder::Scheme),
        ("port", Placeholder::Port),
        ("client.ip", Placeholder::ClientIp),
        ("client.port", Placeholder::ClientPort),
        ("tls.sni", Placeholder::TlsSni),
        ("tls.version", Placeholder::TlsVersion),
        ("tls.client.subject", Placeholder::TlsClient(ClientCertificateField::Subject)),
        ("tls.client.issuer", Placeholder::TlsClient(ClientCertificateField::Issuer)),
        ("tls.client.serial", Placeholder::TlsClient(ClientCertificateField::Serial)),
        ("tls.client.san", Placeholder::TlsClient(ClientCertificateField::San)),
        ("tls.client.fingerprint", Placeholder::TlsClient(ClientCertificateField::Fingerprint)),
        ("tls.client.not_after", Placeholder::TlsClient(ClientCertificateField::NotAfter)),
        ("tls.client.verified", Placeholder::TlsClient(ClientCertificateField::Verified)),
        ("tls.ja4", Placeholder::TlsJa4),
        ("proxy_protocol.authority", Placeholder::ProxyAuthority),
        ("proxy_protocol.unique_id", Placeholder::ProxyUniqueId),
        ("forwarded_for", Placeholder::ForwardedFor),
        ("upstream.address", Placeholder::UpstreamAddress),
        ("request.id", Placeholder::RequestId),
        ("auth.user", Placeholder::AuthUser),
        ("time.unix_ms", Placeholder::TimeUnixMs),
        ("geo.country", Placeholder::Geo(GeoField::Country)),
        ("geo.continent", Placeholder::Geo(GeoField::Continent)),
        ("geo.region", Placeholder::Geo(GeoField::Region)),
        ("geo.city", Placeholder::Geo(GeoField::City)),
        ("geo.asn", Placeholder::Geo(GeoField::Asn)),
        ("geo.organization", Placeholder::Geo(GeoField::Organization)),
    ];

    pub const STATUS_TEXT: &'static str = "status_text";

    /// The placeholder of that name, as written between the braces.
    pub fn from_name(name: &str) -> Option<Placeholder> {
        if let Some((_, placeholder)) = Placeholder::PLAIN.iter().find(|(plain, _)| *plain == name) {
            return Some(placeholder.clone());
        }
        if let Some((_, field)) = LogField::NAMES.iter().find(|(known, _)| *known == name) {
            return Some(Placeholder::Log(*field));
        }
        if name == Placeholder::STATUS_TEXT {
            return Some(Placeholder::StatusText);
        }
        let cookie = name.strip_prefix("request.cookie.").or_else(|| name.strip_prefix("cookie."));
        if let Some(cookie) = cookie.filter(|cookie| !cookie.is_empty()) {
            return Some(Placeholder::RequestCookie(cookie.to_owned()));
        }
        if let Some(parameter) = name.strip_prefix("request.query.").filter(|parameter| !parameter.is_empty()) {
            return Some(Placeholder::RequestQuery(parameter.to_owned()));
        }
        if let Some(claim) = name.strip_prefix("jwt.").filter(|claim| !claim.is_empty()) {
            return Some(Placeholder::JwtClaim(claim.to_owned()));
        }
        if let Some(map) = name.strip_prefix("map.").filter(|map| !map.is_empty()) {
            return Some(Placeholder::Map(map.to_owned()));
        }
        if let Some(own) = name.strip_prefix("log.").filter(|own| !own.is_empty()) {
            return Some(Placeholder::LogOwn(own.to_owned()));
        }
        let header = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(str::to_ascii_lowercase);
        header("request.header.")
            .map(Placeholder::RequestHeader)
            .or_else(|| header("response.header.").map(Placeholder::ResponseHeader))
    }

    /// What is known of an error: those of the log's, and its own.
    pub fn is_of_error(&self) -> bool {
        matches!(self, Placeholder::StatusText | Placeholder::Log(LogField::Status | LogField::Reason))
    }

    /// Whether its value is known when a route is looked for. What others bring is found out on the way.
    pub fn is_known_to_conditions(&self) -> bool {
        match self {
            Placeholder::Host
            | Placeholder::Path
            | Placeholder::Query
            | Placeholder::QuerySuffix
            | Placeholder::Uri
            | Placeholder::AskedUri
            | Placeholder::Method
            | Placeholder::Scheme
            | Placeholder::ClientIp
            | Placeholder::TlsClient(_)
            | Placeholder::Geo(_)
            | Placeholder::RequestHeader(_)
            | Placeholder::RequestCookie(_) => true,
            // Servers may read another one of the name than the first.
            Placeholder::RequestQuery(_)
            | Placeholder::AskedUriEscaped
            | Placeholder::Port
            | Placeholder::ForwardedFor
            | Placeholder::ClientPort
            | Placeholder::ProxyAuthority
            | Placeholder::ProxyUniqueId
            | Placeholder::JwtClaim(_)
            | Placeholder::TlsSni
            | Placeholder::TlsVersion
            | Placeholder::TlsJa4
            | Placeholder::ResponseHeader(_)
            | Placeholder::UpstreamAddress
            | Placeholder::RequestId
            | Placeholder::AuthUser
            | Placeholder::TimeUnixMs
            | Placeholder::Map(_)
            | Placeholder::StatusText
            | Placeholder::LogOwn(_)
            | Placeholder::Log(_) => false,
        }
    }

    /// Whether what clients bring of their own stands there: an address, a certificate, a field, a cookie, a claim.
    pub fn tells_clients_apart(&self) -> bool {
        match self {
            // Says of every client either `yes` or `no`.
            Placeholder::TlsClient(field) => *field != ClientCertificateField::Verified,
            Placeholder::ClientIp
            | Placeholder::ForwardedFor
            | Placeholder::ProxyUniqueId
            | Placeholder::RequestHeader(_)
            | Placeholder::RequestQuery(_)
            | Placeholder::RequestCookie(_)
            | Placeholder::AuthUser
            | Placeholder::JwtClaim(_) => true,
            Placeholder::Host
            | Placeholder::Path
            | Placeholder::Query
            | Placeholder::QuerySuffix
            | Placeholder::Uri
            | Placeholder::AskedUri
            | Placeholder::AskedUriEscaped
            | Placeholder::Method
            | Placeholder::Scheme
            | Placeholder::Port
            | Placeholder::ClientPort
            | Placeholder::TlsSni
            | Placeholder::TlsVersion
            | Placeholder::TlsJa4
            | Placeholder::ProxyAuthority
            | Placeholder::ResponseHeader(_)
            | Placeholder::UpstreamAddress
            | Placeholder::RequestId
            | Placeholder::TimeUnixMs
            | Placeholder::Geo(_)
            | Placeholder::Map(_)
            | Placeholder::StatusText
            | Placeholder::LogOwn(_)
            | Placeholder::Log(_) => false,
        }
    }

    /// Known only once an upstream has answered or been chosen.
    pub fn needs_response(&self) -> bool {
        matches!(self, Placeholder::ResponseHeader(_) | Placeholder::UpstreamAddress)
    }
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placeholder::RequestHeader(name) => write!(f, "{{request.header.{name}}}"),
            Placeholder::RequestQuery(name) => write!(f, "{{request.query.{name}}}"),
            Placeholder::RequestCookie(name) => write!(f, "{{request.cookie.{name}}}"),
            Placeholder::ResponseHeader(name) => write!(f, "{{response.header.{name}}}"),
            Placeholder::JwtClaim(name) => write!(f, "{{jwt.{name}}}"),
            Placeholder::Map(name) => write!(f, "{{map.{name}}}"),
            Placeholder::LogOwn(name) => write!(f, "{{log.{name}}}"),
            Placeholder::Log(field) => write!(f, "{{{}}}", field.name()),
            Placeholder::StatusText => write!(f, "{{{}}}", Placeholder::STATUS_TEXT),
            plain => {
                let name = Placeholder::PLAIN.iter().find(|(_, placeholder)| placeholder == plain).map_or("", |(name, _)| name);
                write!(f, "{{{name}}}")
            }
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}"))?,
                TemplatePart::Placeholder(placeholder) => write!(f, "{placeholder}")?,
                TemplatePart::Capture(number) => write!(f, "${number}")?,
            }
        }
        Ok(())
    }
}
