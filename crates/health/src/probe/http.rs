//! The check over HTTP: one request, its answer's status, and its body where something is expected of it. Redirects are
//! not followed. HTTP/1.1 is asked by `outbound`; how HTTP/2 is spoken is in `http2`, what a body has to be in `body`.

use crate::fault::{ProbeFault, Stage, causes};
use crate::probe::body::{BODY_BYTES_MAX, check_body};
use crate::probe::tls::Agreed;
use crate::probe::{HEAD_BYTES_MAX, Limit, Target, USER_AGENT, beside, http2, tcp, tls};
use ::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ::http::uri::{PathAndQuery, Scheme};
use ::http::{Method, Request, Uri};
use bytes::Bytes;
use tidegate_model::{HttpProbe, Protocol, StatusRange};
use tidegate_outbound as outbound;
use tokio::io::{AsyncRead, AsyncWrite};

/// What counts as well when nothing is said: a redirect is an answer as good as any.
const STATUS_DEFAULT: StatusRange = StatusRange { first: 200, last: 399 };

/// Fields that speak of an HTTP/1.1 connection, which a request over HTTP/2 must not have (RFC 9113, section 8.2.2).
const CONNECTION_FIELDS: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

pub async fn check(target: &Target, probe: &HttpProbe, limit: &Limit) -> Result<(), ProbeFault> {
    let is_h2 = match target.protocol {
        Protocol::H2 | Protocol::H2c => true,
        // Pools of scripts have a probe of their own.
        Protocol::Auto | Protocol::Http1 | Protocol::FastCgi => false,
    };
    let stream = tcp::connect(target, limit).await?;
    let Some(tls) = &target.tls else {
        let agreed = if is_h2 { Agreed::Http2 } else { Agreed::Http1 };
        return limit.hold(Stage::Answer, ask(stream, agreed, target, probe)).await;
    };
    let config = if is_h2 { &tls.config_h2 } else { &tls.config_http1 };
    let stream = tls::handshake(stream, tls, config, limit).await?;
    let agreed = tls::agreed(&stream, config)?;
    limit.hold(Stage::Answer, ask(stream, agreed, target, probe)).await
}

async fn ask<S>(stream: S, agreed: Agreed, target: &Target, probe: &HttpProbe) -> Result<(), ProbeFault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match agreed {
        Agreed::Http1 => ask_http1(stream, request_http1(target, probe)?, probe).await,
        Agreed::Http2 => ask_http2(stream, request_http2(target, probe)?, probe).await,
    }
}

async fn ask_http1<S>(stream: S, request: Request<Bytes>, probe: &HttpProbe) -> Result<(), ProbeFault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let fault = |error: Box<dyn std::error::Error>| ProbeFault::Http { why: causes(error.as_ref()) };
    let answer = outbound::ask(stream, request, HEAD_BYTES_MAX).await.map_err(|error| fault(error.into()))?;
    check_status(probe, answer.head.status.as_u16())?;
    match &probe.body {
        Some(expect) => check_body(expect, &answer.beginning(BODY_BYTES_MAX).await.map_err(|error| fault(error.into()))?),
        None => Ok(()),
    }
}

async fn ask_http2<S>(stream: S, request: Request<()>, probe: &HttpProbe) -> Result<(), ProbeFault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (sender, connection) = http2::open(stream).await?;
    beside(connection, async move {
        let answer = http2::send(sender, request, None).await?;
        check_status(probe, answer.status().as_u16())?;
        match &probe.body {
            Some(expect) => check_body(expect, &http2::read(&mut answer.into_body(), BODY_BYTES_MAX).await?),
            None => Ok(()),
        }
    })
    .await
}

pub fn check_status(probe: &HttpProbe, status: u16) -> Result<(), ProbeFault> {
    let is_expected = match probe.expect.as_slice() {
        [] => STATUS_DEFAULT.contains(status),
        expect => expect.iter().any(|range| range.contains(status)),
    };
    if is_expected { Ok(()) } else { Err(ProbeFault::Status { status, expect: probe.expect.clone() }) }
}

fn request_http1(target: &Target, probe: &HttpProbe) -> Result<Request<Bytes>, ProbeFault> {
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = method(probe)?;
    *request.uri_mut() = Uri::from(path(probe)?);
    let mut fields = fields(target, probe)?;
    if !fields.contains_key(header::CONNECTION) {
        fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    *request.headers_mut() = fields;
    Ok(request)
}

fn request_http2(target: &Target, probe: &HttpProbe) -> Result<Request<()>, ProbeFault> {
    let mut fields = fields(target, probe)?;
    for name in CONNECTION_FIELDS {
        fields.remove(name);
    }
    // The host is a field in HTTP/1.1 and a part of the address in HTTP/2.
    let host = fields.remove(header::HOST).ok_or_else(|| not_valid("there is no host"))?;
    let scheme = if target.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
    let uri = Uri::builder().scheme(scheme).authority(host.as_bytes()).path_and_query(path(probe)?);
    let mut request = Request::new(());
    *request.method_mut() = method(probe)?;
    *request.uri_mut() = uri.build().map_err(not_valid)?;
    *request.headers_mut() = fields;
    Ok(request)
}

/// The fields of the check, and those every check has where it names none of the same name.
fn fields(target: &Target, probe: &HttpProbe) -> Result<HeaderMap, ProbeFault> {
    let mut fields = HeaderMap::new();
    for (name, value) in &probe.headers {
        let name = HeaderName::try_from(name.as_str()).map_err(|_| not_valid(format!("`{name}` is no name of a header")))?;
        fields.append(&name, HeaderValue::try_from(value).map_err(|_| not_valid(format!("the value of `{name}`")))?);
    }
    if !fields.contains_key(header::HOST) {
        let host = probe.host.as_deref().unwrap_or(&target.authority);
        fields.insert(header::HOST, HeaderValue::try_from(host).map_err(|_| not_valid(format!("the host `{host}`")))?);
    }
    if !fields.contains_key(header::USER_AGENT) {
        fields.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    }
    Ok(fields)
}

fn method(probe: &HttpProbe) -> Result<Method, ProbeFault> {
    Method::try_from(probe.method.as_str()).map_err(|_| not_valid(format!("`{}` is no method", probe.method)))
}

fn path(probe: &HttpProbe) -> Result<PathAndQuery, ProbeFault> {
    PathAndQuery::try_from(probe.path.as_str()).map_err(|error| not_valid(format!("the path `{}`: {error}", probe.path)))
}

pub fn not_valid(why: impl ToString) -> ProbeFault {
    ProbeFault::Request { why: why.to_string() }
}
