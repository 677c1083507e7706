//! `error-page`: the answer to an error is made into a page, and an upstream's body that is not sent is read to its end
//! where that is cheap, so that its connection can be kept. Which page it is, and what of the answer stays, is decided
//! in `middleware::error_page`.

use crate::coded::send_whole_coded;
use crate::failure::Failure;
use crate::surroundings::Surroundings;
use std::pin::pin;
use std::time::Duration;
use tidegate_exchange::{BodyReader, Exchange, Pooled};
use tidegate_middleware::error_page::CompiledErrorPage;
use tidegate_middleware::{Context, ErrorFacts, Origin, View};
use tidegate_transport::{Sock, rt};
use tidegate_wire::head::ResponseHead;

/// What is read of a body that nobody gets, so that a connection can be kept: more costs more than another connection.
const DRAINED_BYTES_MAX: usize = 64 << 10;
/// How long that may take. The client has its answer by then.
const DRAIN_TIME_MAX: Duration = Duration::from_millis(100);

/// Makes the response head, which has the fields of the error, that of a page, and gives its body.
pub fn make_error_page<'b, S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    page: &'b CompiledErrorPage,
    error: &ErrorFacts,
    buffer: &'b mut Vec<u8>,
) -> &'b [u8] {
    // Placeholders may show what the error's own answer said.
    let mut response: Pooled<ResponseHead> = Pooled::take();
    std::mem::swap(&mut *exchange.response, &mut *response);
    let before: ResponseHead = response.clone();
    let context = Context { error: Some((page.status(error.status), error.reason)), ..around.context(exchange) };
    let view = View { context: &context, request: &exchange.head, response: Some(&before) };
    let body = page.answer(error, view, &mut response, buffer);
    std::mem::swap(&mut *exchange.response, &mut *response);
    body
}

/// Sends such a page.
pub async fn send_error_page<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    body: &[u8],
) -> Result<(), Failure> {
    exchange.record.status = exchange.response.status;
    around.run_response_steps(exchange);
    send_whole_coded(exchange, around, body).await
}

/// The page that stands for an answer of an upstream, whose head is the response's.
#[inline]
pub fn page_for_upstream<'p, S: Sock>(exchange: &Exchange<'_, S>, around: Surroundings<'p, S>) -> Option<&'p CompiledErrorPage> {
    let route = around.route.filter(|route| route.error_pages.has_upstreams())?;
    route.error_pages.find(exchange.response.status, Origin::Upstream, &exchange.head, Some(&exchange.response))
}

/// Sends a page in place of an upstream's answer, whose head is the response's so far. Says whether its body was read
/// to the end, so that the connection can take the next request.
pub async fn replace_reply<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    page: &CompiledErrorPage,
    body: &mut BodyReader<'_, S>,
) -> Result<bool, Failure> {
    send_page_instead(exchange, around, page).await?;
    // The client has its answer; whose turn it is need not wait for what nobody reads.
    exchange.limited = None;
    Ok(drain(body).await)
}

/// Sends the page in place of an answer of which nothing has to be read.
pub async fn send_page_instead<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    page: &CompiledErrorPage,
) -> Result<(), Failure> {
    let error = ErrorFacts { status: exchange.response.status, reason: "", sentence: "" };
    let mut buffer: Pooled<Vec<u8>> = Pooled::take();
    let body = make_error_page(exchange, around, page, &error, &mut buffer);
    send_error_page(exchange, around, body).await
}

/// Whether the body ended, within bounds.
pub(crate) async fn drain<S: Sock>(body: &mut BodyReader<'_, S>) -> bool {
    // A stream of HTTP/2 is reset when it is dropped, and its connection goes on.
    if matches!(body, BodyReader::H2(_)) || body.is_finished() {
        return true;
    }
    let reading = async {
        let mut drained = 0;
        while !body.is_finished() && drained < DRAINED_BYTES_MAX {
            match body.read().await {
                Ok(Some(piece)) => drained += piece.len(),
                Ok(None) | Err(_) => break,
            }
        }
        body.is_finished()
    };
    rt::timeout(DRAIN_TIME_MAX, pin!(reading)).await.unwrap_or(false)
}
