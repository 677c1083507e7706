//! Answers that are made here: fixed ones, and refusals with or without a page. What they say is decided in
//! `middleware`; how they go out, by the crate `exchange`.

use crate::coded::send_whole_coded;
use crate::error_page::{ask_for_page, make_error_page, send_error_page, send_page_instead};
use crate::failure::Failure;
use crate::surroundings::{Surroundings, context};
use crate::terminal::FixedAnswer;
use std::borrow::Cow;
use std::cell::Cell;
use tidegate_exchange::responder::{CLIENT_WRITE_IDLE, REFUSAL_WRITE_IDLE};
use tidegate_exchange::{Exchange, Pooled};
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::grpc::become_grpc;
use tidegate_middleware::proxy_status::write_proxy_status;
use tidegate_middleware::{ErrorFacts, Origin, Refusal, View, error_answer};
use tidegate_transport::Sock;

/// `respond` and `redirect`.
pub async fn answer_fixed<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    answer: &FixedAnswer,
) -> Result<(), Failure> {
    let mut buffer: Pooled<Vec<u8>> = Pooled::take();
    let body = match write_fixed(exchange, around, answer, &mut buffer) {
        Ok(body) => body,
        Err(refusal) => return Box::pin(answer_refusal(exchange, around, refusal)).await,
    };
    let status = exchange.response.status;
    if (200..300).contains(&status) && exchange.is_extended_connect() {
        return Box::pin(answer_refusal(exchange, around, Refusal::NotWebSocket)).await;
    }
    // What an administrator wrote as the body is meant as the page.
    if status >= 400
        && body.is_empty()
        && let Some(page) = around.route.and_then(|route| route.error_pages.find(status, Origin::Proxy, &exchange.head, None))
    {
        return Box::pin(send_page_instead(exchange, around, page)).await;
    }
    around.run_response_steps(exchange);
    exchange.record.status = status;
    send_whole_coded(exchange, around, body).await
}

/// The head and the body of such an answer.
fn write_fixed<'a, S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    answer: &'a FixedAnswer,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Refusal> {
    let context = context(around.connection, around.pool, &exchange.record, exchange.client_ip, exchange.hop.upgrade);
    let view = View { context: &context, request: &exchange.head, response: None };
    answer.write(view, &mut exchange.response, buffer)
}

/// An answer that the proxy makes itself because something is wrong.
pub async fn answer_refusal<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    refusal: Refusal,
) -> Result<(), Failure> {
    answer_refusal_with(exchange, around, refusal, &[]).await
}

/// Answers with a refusal, and with fields that such an answer has.
pub async fn answer_refusal_with<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    refusal: Refusal,
    fields: &[(&str, Cow<'_, str>)],
) -> Result<(), Failure> {
    exchange.record.refused(refusal);
    around.connection.note_refusal(refusal, exchange.client_ip, Some(&exchange.record));
    exchange.responder.set_write_idle(REFUSAL_WRITE_IDLE);
    let outcome = send_refusal(exchange, around, refusal, fields).await;
    exchange.responder.set_write_idle(CLIENT_WRITE_IDLE);
    outcome
}

async fn send_refusal<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    refusal: Refusal,
    fields: &[(&str, Cow<'_, str>)],
) -> Result<(), Failure> {
    let (status, reason, sentence) = (refusal.status(), refusal.reason(), refusal.sentence());
    let name = around.route.and_then(|route| route.proxy_status.as_deref());
    if exchange.is_grpc_call() {
        begin_answer(status, &mut exchange.response);
        push_fields(exchange, refusal, fields, name);
        // Steps see the status that the log has.
        around.run_response_steps(exchange);
        become_grpc(sentence, reason, &mut exchange.response);
        return around.send_grpc(exchange).await;
    }
    let mut buffer: Pooled<Vec<u8>> = Pooled::take();
    if let Some(page) = around.route.and_then(|route| route.error_pages.find(status, Origin::Proxy, &exchange.head, None)) {
        begin_answer(status, &mut exchange.response);
        let error = ErrorFacts { status, reason, sentence };
        let mut asked = ask_for_page(exchange, around, page, &error, &Cell::new(true)).await?;
        let body = make_error_page(exchange, around, page, &error, (asked.as_deref_mut(), &mut buffer));
        push_fields(exchange, refusal, fields, name);
        return send_error_page(exchange, around, body).await;
    }
    let body = error_answer(status, sentence, reason, &mut exchange.response, &mut buffer);
    push_fields(exchange, refusal, fields, name);
    around.run_response_steps(exchange);
    around.send_whole(exchange, body).await
}

/// What a refusal says besides. `name` is this proxy's, where programs are told.
fn push_fields<S: Sock>(exchange: &mut Exchange<'_, S>, refusal: Refusal, fields: &[(&str, Cow<'_, str>)], name: Option<&str>) {
    if let Some(name) = name {
        let mut status: Pooled<Vec<u8>> = Pooled::take();
        write_proxy_status(name, refusal, &mut status);
        exchange.response.fields.push(b"proxy-status", &status);
    }
    let of_limits = exchange.limited.as_ref().and_then(|limited| limited.retry_after_seconds());
    if let Some(seconds) = of_limits.or_else(|| refusal.retry_after_seconds()) {
        exchange.response.fields.push(b"retry-after", itoa::Buffer::new().format(seconds).as_bytes());
    }
    if let Some(methods) = refusal.methods_allowed() {
        exchange.response.fields.push(b"allow", methods.as_bytes());
    }
    for (name, value) in fields {
        exchange.response.fields.push(name.as_bytes(), value.as_bytes());
    }
}
