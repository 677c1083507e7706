//! Everything a line may say about one request, borrowed from where it is. Names from the network may hold any byte.

use std::net::IpAddr;
use tidegate_model::ClientCertificateField;

/// Calls back with the first value of the field of that name (lower case), or not at all.
pub type HeaderLookup<'a> = dyn Fn(&str, &mut dyn FnMut(&[u8])) + 'a;

/// Calls back with name and value of each, in order. Names are such as need no escapes.
pub type OwnFields<'a> = dyn Fn(&mut dyn FnMut(&str, &[u8])) + 'a;

/// Calls back with what the client's certificate says.
pub type CertificateLookup<'a> = dyn Fn(ClientCertificateField, &mut dyn FnMut(&[u8])) + 'a;

/// One request, when it is over. An empty text counts as absent.
#[derive(Clone, Copy)]
pub struct AccessRecord<'a> {
    /// When the request's head was complete, in microseconds since 1970.
    pub time_unix_us: u64,
    pub client_ip: IpAddr,
    pub client_port: u16,
    /// Who has logged in.
    pub user: &'a str,
    pub method: &'a [u8],
    /// `http` or `https`, as the client sees it.
    pub scheme: &'static str,
    pub host: &'a [u8],
    /// As the client sent it, without the query.
    pub path: &'a [u8],
    /// Without the question mark.
    pub query: &'a [u8],
    /// `HTTP/1.1`
    pub protocol: &'static str,
    /// `None`: nobody has said one, as of a connection that is passed on.
    pub status: Option<u16>,
    /// Body bytes received from the client.
    pub request_bytes: u64,
    /// Body bytes sent to the client.
    pub response_bytes: u64,
    /// From the end of the request's head to the end of the answer.
    pub duration_us: u64,
    /// In queues for a server, of a request that had to wait.
    pub queue_us: Option<u64>,
    /// What the server of a `forward-auth` has answered, and how long all attempts took.
    pub auth_status: Option<u16>,
    pub auth_us: Option<u64>,
    pub upstream: Option<RecordUpstream<'a>>,
    /// Attempts after the first.
    pub retries: u32,
    pub tls: Option<RecordTls<'a>>,
    /// What a load balancer has said of the connection.
    pub introduction: Option<RecordIntroduction<'a>>,
    pub referer: &'a [u8],
    pub user_agent: &'a [u8],
    pub request_id: &'a [u8],
    /// The trace that the request is part of.
    pub trace_id: &'a [u8],
    /// The site's name: its first address. Empty when no site was found.
    pub site: &'a str,
    /// The name of the route, if it has one.
    pub route: &'a str,
    /// Where the route or its site comes from, if that is known.
    pub origin: &'a str,
    pub pool: Option<&'a str>,
    /// Which arm of the route's `split` the request has taken.
    pub arm: Option<&'a str>,
    /// What the cache did, in one word.
    pub cache: Option<&'a str>,
    /// The reason code, when the proxy itself made the answer.
    pub reason: Option<&'a str>,
    /// The setting that the refusal comes from, as it is written in the configuration.
    pub setting: Option<&'a str>,
    /// For `{request.header.X}` in a template; `None` is as if there were no fields. See
    /// [`AccessLogSenders::needs_headers`](super::AccessLogSenders::needs_headers).
    pub request_header: Option<&'a HeaderLookup<'a>>,
    /// For `{request.cookie.X}` in a template.
    pub request_cookie: Option<&'a HeaderLookup<'a>>,
    /// For `{tls.client.X}` in a template; `None` when the client has shown none.
    pub client_certificate: Option<&'a CertificateLookup<'a>>,
    /// Fields that the request's route adds, by name and value.
    pub own_fields: Option<&'a OwnFields<'a>>,
    /// For `{response.header.X}` in a template.
    pub response_header: Option<&'a HeaderLookup<'a>>,
}

/// The server that the last attempt went to.
#[derive(Debug, Clone, Copy)]
pub struct RecordUpstream<'a> {
    /// `address:port`
    pub address: &'a str,
    /// As the server said it.
    pub status: Option<u16>,
    /// What is spoken with it, such as `HTTP/2`; empty without a connection.
    pub protocol: &'static str,
    /// Until the connection stood, where one was opened.
    pub connect_us: Option<u64>,
    /// How long the TLS handshake of that connection took.
    pub tls_us: Option<u64>,
    /// From the last byte of the request sent to the first byte of the answer; `None` when none came.
    pub first_byte_us: Option<u64>,
    /// From the first byte of the answer to its end.
    pub body_us: Option<u64>,
    /// The connection had served a request before.
    pub reused: bool,
}

impl<'a> RecordUpstream<'a> {
    /// A server of which nothing is known but that it was asked.
    pub fn asked(address: &'a str) -> RecordUpstream<'a> {
        RecordUpstream {
            address,
            status: None,
            protocol: "",
            connect_us: None,
            tls_us: None,
            first_byte_us: None,
            body_us: None,
            reused: false,
        }
    }
}

/// What the header says that a load balancer begins a connection with, besides the addresses; empty what it does not
/// say.
#[derive(Debug, Clone, Copy)]
pub struct RecordIntroduction<'a> {
    pub authority: &'a str,
    pub unique_id: &'a str,
}

/// The client's TLS connection.
#[derive(Debug, Clone, Copy)]
pub struct RecordTls<'a> {
    /// `1.2` or `1.3`, as in the configuration.
    pub version: &'static str,
    /// The IANA name.
    pub cipher: &'static str,
    pub sni: Option<&'a str>,
    /// Where the format asks for it.
    pub ja4: Option<&'a str>,
    pub resumed: bool,
}
