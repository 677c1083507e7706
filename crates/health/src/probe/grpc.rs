//! The check by the gRPC health protocol: one call of `grpc.health.v1.Health/Check` over HTTP/2, and its status before,
//! in or after the answer. The two messages are in `grpc_message`; there is no gRPC library, because two fields need
//! none.

use crate::fault::{GrpcFault, ProbeFault, Stage};
use crate::probe::grpc_message::{MESSAGE_BYTES_MAX, ServingStatus, read_answer, write_question};
use crate::probe::tls::Agreed;
use crate::probe::{Limit, Target, USER_AGENT, beside, http2, tcp, tls};
use ::http::header::{self, HeaderMap, HeaderValue};
use ::http::{Method, Request, Response, Uri};
use bytes::Bytes;
use h2::RecvStream;
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
    let request = request(target)?;
    let question = Bytes::from(write_question(service.unwrap_or_default()));
    let (sender, connection) = http2::open(stream).await?;
    beside(connection, async move {
        let answer = http2::send(sender, request, Some(question)).await?;
        take_answer(answer, service).await
    })
    .await
}

fn request(target: &Target) -> Result<Request<()>, ProbeFault> {
    let scheme = if target.tls.is_some() { "https" } else { "http" };
    let uri = Uri::builder().scheme(scheme).authority(target.authority.as_str()).path_and_query(PATH).build();
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.map_err(|error| ProbeFault::Request { why: error.to_string() })?;
    let fields = request.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    fields.insert(header::TE, HeaderValue::from_static("trailers"));
    fields.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    Ok(request)
}

async fn take_answer(answer: Response<RecvStream>, service: Option<&str>) -> Result<(), ProbeFault> {
    let (head, mut incoming) = answer.into_parts();
    let content_type = head.headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let is_grpc = content_type.as_ref().is_some_and(|content_type| content_type.starts_with(CONTENT_TYPE));
    if head.status != 200 || !is_grpc {
        let content_type = content_type.map(std::borrow::Cow::into_owned);
        return Err(ProbeFault::Grpc(GrpcFault::NotGrpc { status: head.status.as_u16(), content_type }));
    }
    // An error without a message stands in the only head there is ("Trailers-Only").
    if head.headers.contains_key("grpc-status") {
        check_status(&head.headers, service)?;
    }
    // One byte more than a message may have, so that a longer one is seen to be.
    let message = http2::read(&mut incoming, MESSAGE_BYTES_MAX + 1).await?;
    if message.len() <= MESSAGE_BYTES_MAX {
        let trailers = incoming.trailers().await.map_err(|error| http2::http2_fault(&error))?;
        check_status(&trailers.unwrap_or(head.headers), service)?;
    }
    match read_answer(&message).map_err(|fault| ProbeFault::Grpc(GrpcFault::Message(fault)))? {
        ServingStatus::Serving => Ok(()),
        status @ (ServingStatus::Unknown
        | ServingStatus::NotServing
        | ServingStatus::ServiceUnknown
        | ServingStatus::Other(_)) => Err(ProbeFault::Grpc(GrpcFault::NotServing(status))),
    }
}

fn check_status(fields: &HeaderMap, service: Option<&str>) -> Result<(), ProbeFault> {
    let status = fields.get("grpc-status").and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    let message = || fields.get("grpc-message").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    match status {
        Some(0) => Ok(()),
        Some(NOT_FOUND) => Err(ProbeFault::Grpc(GrpcFault::UnknownService(service.map(str::to_owned)))),
        Some(UNIMPLEMENTED) => Err(ProbeFault::Grpc(GrpcFault::NoHealthService)),
        Some(code) => Err(ProbeFault::Grpc(GrpcFault::Status { code, message: message().unwrap_or_default() })),
        None => Err(ProbeFault::Grpc(GrpcFault::NoStatus)),
    }
}
