//! The check over HTTP: one request, its answer's status, and its body where something is expected of it. Redirects are
//! not followed. HTTP/1.1 is asked by `outbound`; how HTTP/2 is spoken is in `http2`, what a body has to be in `body`.

use crate::fault::{ProbeFault, Stage, causes};
use crate::probe::body::{BODY_BYTES_MAX, check_body};
use crate::probe::http2::{self, Question};
use crate::probe::tls::Agreed;
use crate::probe::{HEAD_BYTES_MAX, Limit, Target, USER_AGENT, tcp, tls};
use ::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ::http::uri::PathAndQuery;
use ::http::{Method, Request, Uri};
use bytes::Bytes;
use tidegate_model::{HttpProbe, StatusRange};
use tidegate_outbound as outbound;
use tidegate_wire::head::{self as wire, RequestHead};
use tidegate_wire::http1::append_origin_form;
use tokio::io::{AsyncRead, AsyncWrite};

/// What counts as well when nothing is said: a redirect is an answer as good as any.
const STATUS_DEFAULT: StatusRange = StatusRange { first: 200, last: 399 };

pub async fn check(target: &Target, probe: &HttpProbe, limit: &Limit) -> Result<(), ProbeFault> {
    let is_h2 = target.protocol.is_always_h2();
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
        Agreed::Http2 => ask_http2(stream, target, probe).await,
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

async fn ask_http2<S>(stream: S, target: &Target, probe: &HttpProbe) -> Result<(), ProbeFault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let head = request_http2(target, probe)?;
    let body_bytes_max = if probe.body.is_some() { BODY_BYTES_MAX } else { 0 };
    let question = Question { head: &head, scheme: scheme(target), body: None, body_bytes_max };
    let answer = http2::ask(stream, &question).await?;
    check_status(probe, answer.head.status)?;
    probe.body.as_ref().map_or(Ok(()), |expect| check_body(expect, &answer.body))
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

/// The head of the check; what speaks of a connection of HTTP/1.1 is left out where it is sent.
fn request_http2(target: &Target, probe: &HttpProbe) -> Result<RequestHead, ProbeFault> {
    let mut head = RequestHead::default();
    let name = method(probe)?;
    head.method = wire::Method::of(name.as_str().as_bytes());
    head.method_name = head.fields.append(&[name.as_str().as_bytes()]);
    let path = path(probe)?;
    let target_bytes = path.as_str().as_bytes();
    append_origin_form(&mut head, target_bytes).map_err(not_valid)?;
    for (name, value) in &fields(target, probe)? {
        head.fields.push(name.as_str().as_bytes(), value.as_bytes());
    }
    Ok(head)
}

pub fn scheme(target: &Target) -> &'static str {
    if target.tls.is_some() { "https" } else { "http" }
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
