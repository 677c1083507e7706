//! The check by the gRPC health protocol: one call of `grpc.health.v1.Health/Check` over HTTP/2, and its status before,
//! in or after the answer. The two messages are in `grpc_message`; there is no gRPC library, because two fields need
//! none.

use crate::fault::{GrpcFault, ProbeFault, Stage};
use crate::probe::grpc_message::{MESSAGE_BYTES_MAX, ServingStatus, read_answer, write_question};
use crate::probe::http::{not_valid, scheme};
use crate::probe::http2::{self, Question, Told};
use crate::probe::tls::Agreed;
use crate::probe::{Limit, Target, USER_AGENT, tcp, tls};
use tidegate_wire::head::{Fields, HeaderId, Method, RequestHead};
use tidegate_wire::http1::append_origin_form;
use tokio::io::{AsyncRead, AsyncWrite};

const PATH: &str = "/grpc.health.v1.Health/Check";
const CONTENT_TYPE: &str = "application/grpc";

/// Status codes of gRPC that say something of the health service itself.
const NOT_FOUND: u32 = 5;
const UNIMPLEMENTED: u32 = 12;

pub async fn check(target: &Target, service: Option<&str>, limit: &Limit) -> Result<(), ProbeFault> {
    let stream = tcp::connect(target, limit).await?;
    let Some(tls) = &target.tls else {
        return limit.hold(Stage::Answer, ask(stream, target, service)).await;
    };
    let stream = tls::handshake(stream, tls, &tls.config_h2, limit).await?;
    match tls::agreed(&stream, &tls.config_h2)? {
        Agreed::Http1 => Err(ProbeFault::NotHttp2),
        Agreed::Http2 => limit.hold(Stage::Answer, ask(stream, target, service)).await,
    }
}

async fn ask<S>(stream: S, target: &Target, service: Option<&str>) -> Result<(), ProbeFault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (head, body) = (request(target)?, write_question(service.unwrap_or_default()));
    // One byte more than a message may have, so that a longer one is seen to be.
    let body_bytes_max = MESSAGE_BYTES_MAX + 1;
    let question = Question { head: &head, scheme: scheme(target), body: Some(&body), body_bytes_max };
    take_answer(&http2::ask(stream, &question).await?, service)
}

fn request(target: &Target) -> Result<RequestHead, ProbeFault> {
    let mut head = RequestHead::default();
    head.method = Method::Post;
    head.method_name = head.fields.append(&[b"POST"]);
    append_origin_form(&mut head, PATH.as_bytes()).map_err(not_valid)?;
    head.fields.push_id(HeaderId::Host, target.authority.as_bytes());
    head.fields.push_id(HeaderId::ContentType, CONTENT_TYPE.as_bytes());
    head.fields.push_id(HeaderId::UserAgent, USER_AGENT.as_bytes());
    Ok(head)
}

fn take_answer(answer: &Told, service: Option<&str>) -> Result<(), ProbeFault> {
    let fields = &answer.head.fields;
    let content_type = fields.get(HeaderId::ContentType).map(|value| String::from_utf8_lossy(value).into_owned());
    let is_grpc = content_type.as_ref().is_some_and(|content_type| content_type.starts_with(CONTENT_TYPE));
    if answer.head.status != 200 || !is_grpc {
        return Err(ProbeFault::Grpc(GrpcFault::NotGrpc { status: answer.head.status, content_type }));
    }
    // An error without a message stands in the only head there is ("Trailers-Only").
    if fields.all_named(b"grpc-status").next().is_some() {
        check_status(fields, service)?;
    }
    if answer.body.len() <= MESSAGE_BYTES_MAX {
        check_status(answer.trailers.as_ref().unwrap_or(fields), service)?;
    }
    match read_answer(&answer.body).map_err(|fault| ProbeFault::Grpc(GrpcFault::Message(fault)))? {
        ServingStatus::Serving => Ok(()),
        status @ (ServingStatus::Unknown
        | ServingStatus::NotServing
        | ServingStatus::ServiceUnknown
        | ServingStatus::Other(_)) => Err(ProbeFault::Grpc(GrpcFault::NotServing(status))),
    }
}

fn check_status(fields: &Fields, service: Option<&str>) -> Result<(), ProbeFault> {
    let text = |name: &'static [u8]| fields.all_named(name).next().map(String::from_utf8_lossy);
    let status = text(b"grpc-status").and_then(|status| status.parse::<u32>().ok());
    let message = || text(b"grpc-message").map(std::borrow::Cow::into_owned);
    match status {
        Some(0) => Ok(()),
        Some(NOT_FOUND) => Err(ProbeFault::Grpc(GrpcFault::UnknownService(service.map(str::to_owned)))),
        Some(UNIMPLEMENTED) => Err(ProbeFault::Grpc(GrpcFault::NoHealthService)),
        Some(code) => Err(ProbeFault::Grpc(GrpcFault::Status { code, message: message().unwrap_or_default() })),
        None => Err(ProbeFault::Grpc(GrpcFault::NoStatus)),
    }
}
