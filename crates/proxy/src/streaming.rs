//! An answer whose body comes from elsewhere, to the client as it comes: from an upstream, or from what is kept.

use crate::coded::{begin_coding, stream_coded};
use crate::failure::{Failure, upstream_body_fault};
use crate::surroundings::Surroundings;
use std::cell::Cell;
use std::pin::pin;
use tidegate_exchange::responder::Sending;
use tidegate_exchange::{BodyLength, BodyReader, Exchange, TURN_BYTES, gone, unless_gone};
use tidegate_transport::{Buf, Sock, rt};
use tidegate_wire::BodyFraming;
use tidegate_wire::head::{HeaderId, ResponseHead};
use tidegate_wire::http1::{content_length, state_length_once};

/// The answer whose head is in `response` to the client: through the route's steps, and its body as it comes. `first`:
/// what of it was taken already.
pub async fn pass_answer<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    framing: BodyFraming,
    body: &mut BodyReader<'_, S>,
    first: Option<Buf>,
    request_done: &Cell<bool>,
) -> Result<(), Failure> {
    let (length, bytes) = begin_answer(exchange, around, framing);
    let first = match first {
        Some(first) => Some(first),
        None => body.at_hand().map_err(|fault| upstream_body_fault(&fault))?,
    };
    if let Some(coded) = begin_coding(exchange, around, bytes) {
        // Boxed, as every branch that the common request does not take.
        return Box::pin(stream_coded(exchange, around, coded, body, first, request_done)).await;
    }
    pin!(stream_plain(exchange, around, length, body, first, request_done)).await
}

/// As [`pass_answer`], of an answer that is all there and is not coded.
pub fn send_whole_answer<'r, 's, S: Sock>(
    exchange: &'r mut Exchange<'s, S>,
    around: Surroundings<'_, S>,
    framing: BodyFraming,
    body: Option<Buf>,
) -> Sending<'r, 's, S> {
    let (length, _) = begin_answer(exchange, around, framing);
    exchange.responder.send_head(&mut exchange.response, length, body, true)
}

/// Takes the head through the route's steps. How long the body is, and how many bytes where that is known.
fn begin_answer<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    framing: BodyFraming,
) -> (BodyLength, Option<u64>) {
    around.run_response_steps(exchange);
    if around.connection.is_draining() {
        exchange.responder.close_after();
    }
    match framing {
        BodyFraming::None => (BodyLength::None, None),
        BodyFraming::Length(bytes) => (BodyLength::Known, Some(bytes)),
        BodyFraming::Chunked | BodyFraming::UntilClose => (BodyLength::Unknown, None),
    }
}

/// Sends the head, which is complete, and the body as it comes. `first`: what of it is there already.
///
/// Not an `async fn`, which would have room for what it is given twice.
pub fn stream_plain<'r, S: Sock>(
    exchange: &'r mut Exchange<'_, S>,
    around: Surroundings<'r, S>,
    length: BodyLength,
    body: &'r mut BodyReader<'_, S>,
    first: Option<Buf>,
    request_done: &'r Cell<bool>,
) -> impl Future<Output = Result<(), Failure>> {
    let taken = move |body: &mut BodyReader<'_, S>| around.trailers_of(body);
    let mut trailers = if body.is_finished() { taken(body) } else { None };
    async move {
        let whole = body.is_finished() && trailers.is_none();
        let mut turn = first.as_ref().map_or(0, |piece| piece.len());
        exchange.responder.send_head(&mut exchange.response, length, first, whole).await.map_err(gone)?;
        while !body.is_finished() {
            let piece = unless_gone(&mut exchange.responder, request_done, pin!(body.read())).await?;
            let piece = piece.map_err(|fault| upstream_body_fault(&fault))?;
            trailers = if body.is_finished() || piece.is_none() { taken(body) } else { None };
            let Some(piece) = piece else { break };
            turn += piece.len();
            let last = body.is_finished() && trailers.is_none();
            exchange.responder.send_body(piece, last).await.map_err(gone)?;
            if last {
                return Ok(());
            }
            if turn > TURN_BYTES {
                turn = 0;
                around.connection.account_bytes();
                if let Some(stream) = body.stream() {
                    around.connection.account_upstream_bytes(stream);
                }
                rt::yield_now().await;
            }
        }
        if !whole {
            exchange.responder.finish(trailers.as_deref()).await.map_err(gone)?;
        }
        Ok(())
    }
}

/// One `Content-Length` where there may be one, none where there must not.
pub fn settle_content_length(head: &mut ResponseHead, framing: BodyFraming) {
    match framing {
        BodyFraming::Length(length) => state_length_once(&mut head.fields, length),
        // RFC 9110 section 8.6: not in 204; in the answer to HEAD and in 304 it describes what is not sent.
        BodyFraming::None if head.status == 204 => {
            head.fields.remove_id(HeaderId::ContentLength);
        }
        BodyFraming::None => {
            // The length describes what is not sent. Said twice, it is sent on once, or not at all where it is two.
            if !head.fields.has(HeaderId::ContentLength) {
                return;
            }
            match content_length(&head.fields) {
                Ok(length) => state_length_once(&mut head.fields, length),
                Err(_) => {
                    head.fields.remove_id(HeaderId::ContentLength);
                }
            }
        }
        BodyFraming::Chunked | BodyFraming::UntilClose => {
            head.fields.remove_id(HeaderId::ContentLength);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::settle_content_length;
    use tidegate_wire::BodyFraming;
    use tidegate_wire::head::{HeaderId, ResponseHead};

    #[test]
    fn a_length_is_stated_once_and_in_one_way_or_not_at_all() {
        let check = |status: u16, framing: BodyFraming, stated: &[&str], expected: &[&str]| {
            let mut head = ResponseHead { status, ..ResponseHead::default() };
            for value in stated {
                head.fields.push(b"Content-Length", value.as_bytes());
            }
            settle_content_length(&mut head, framing);
            let left: Vec<_> =
                head.fields.all(HeaderId::ContentLength).map(|value| String::from_utf8_lossy(value).into_owned()).collect();
            assert_eq!(left, expected, "{status} {framing:?} {stated:?}");
        };
        check(200, BodyFraming::Length(2), &["2"], &["2"]);
        check(200, BodyFraming::Length(2), &["2", "2"], &["2"]);
        check(200, BodyFraming::Length(2), &["2, 2"], &["2"]);
        check(200, BodyFraming::Length(2), &["02"], &["2"]);
        check(200, BodyFraming::Length(0), &[], &["0"]);
        check(200, BodyFraming::Chunked, &["7"], &[]);
        check(200, BodyFraming::UntilClose, &[], &[]);
        check(204, BodyFraming::None, &["0"], &[]);
        check(304, BodyFraming::None, &["7"], &["7"]);
        check(200, BodyFraming::None, &["7", "8"], &[]);
        check(200, BodyFraming::None, &["7, 7", "7"], &["7"]);
        check(304, BodyFraming::None, &["7x"], &[]);
        check(304, BodyFraming::None, &[], &[]);
    }
}
