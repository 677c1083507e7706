//! What is kept, on its way to a client: whole, a part of it, or word that the client has it already; compressed where
//! `compress` says so, and then kept so.

use super::asked::Asked;
use super::body::StoredBody;
use super::fetch::TAG_FIELDS;
use super::route_cache::RouteCache;
use super::tier::CacheTier;
use crate::answering::answer_refusal_with;
use crate::coded::{KeptCoding, choose_coding, start_coding, stream_coded};
use crate::error_page::{page_for_upstream, send_page_instead};
use crate::failure::Failure;
use crate::streaming::stream_plain;
use crate::surroundings::Surroundings;
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use tidegate_cache::policy::CacheStatus;
use tidegate_cache::policy::answer::{self, Answer};
use tidegate_cache::{Object, Reader, StoredHead};
use tidegate_exchange::{BodyLength, BodyReader, Exchange};
use tidegate_middleware::Refusal;
use tidegate_middleware::compress::settle;
use tidegate_middleware::errors::begin_answer;
use tidegate_transport::Sock;
use tidegate_wire::head::Method;

/// This proxy's name in `Cache-Status`.
const NAME: &str = "tidegate";

/// What is kept, and how it answers.
pub(crate) struct Hit {
    pub object: Arc<Object>,
    pub shape: Answer,
    pub age_seconds: u64,
    pub status: CacheStatus,
    pub own: Option<Box<OwnFields>>,
}

impl Hit {
    /// Judged now, by what the client has asked.
    pub(crate) fn of(object: Arc<Object>, asked: &Asked, status: CacheStatus, tier: &CacheTier) -> Hit {
        let shape = asked.with(|request| answer::answer(request, &object.head, Some(object.body_bytes)));
        let age_seconds = object.age_seconds(tier.now());
        Hit { object, shape, age_seconds, status, own: None }
    }
}

/// Head and length of what is served.
struct Facts<'a> {
    head: &'a StoredHead,
    shape: Answer,
    length: Option<u64>,
    /// For `Age`; `None` when it has come from the upstream just now and is new.
    age_seconds: Option<u64>,
    status: CacheStatus,
    own: &'a OwnFields,
}

/// Fields that are not kept but for the client whose request fetched them.
pub(super) type OwnFields = [(Box<[u8]>, Box<[u8]>)];

/// Answers with what is kept.
pub(crate) async fn serve_kept<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    cache: &RouteCache,
    hit: Hit,
) -> Result<(), Failure> {
    let Hit { object, shape, age_seconds, status, own } = hit;
    if shape == Answer::NotSatisfiable {
        return Box::pin(refuse_range(exchange, around, &object, status)).await;
    }
    let length = object.body_bytes;
    let own = own.as_deref().unwrap_or_default();
    let facts = Facts { head: &object.head, shape, length: Some(length), age_seconds: Some(age_seconds), status, own };
    begin_stored(exchange, facts);
    if let Some(page) = page_for_upstream(exchange, around) {
        return Box::pin(send_page_instead(exchange, around, page)).await;
    }
    around.run_response_steps(exchange);
    if shape == Answer::NotModified {
        // For what its head has to say; there is nothing to compress.
        choose_coding(exchange, around, None);
    }
    if shape == Answer::Whole {
        let choice = choose_coding(exchange, around, Some(length));
        let coded = choice.and_then(|(coding, _)| object.coded(coding as usize).map(|body| (coding, body)));
        let body = match (coded, choice) {
            (Some((coding, body)), _) => {
                settle(&mut exchange.response, coding);
                body
            }
            (None, Some(choice)) => return Box::pin(serve_coded(exchange, around, cache, &object, choice)).await,
            (None, None) => &object.body,
        };
        match &**body {
            [] => return around.send_whole(exchange, b"").await,
            [all] => return around.send_whole(exchange, all).await,
            _ => {}
        }
        let length = body.iter().map(|chunk| chunk.len() as u64).sum();
        return Box::pin(send_stored(exchange, around, shape, Some(length), StoredBody::kept(body, 0, length))).await;
    }
    let (skip, length) = part_of(shape, length);
    Box::pin(send_stored(exchange, around, shape, Some(length), StoredBody::kept(&object.body, skip, length))).await
}

/// As any error of the proxy's own, so that the site has its say.
async fn refuse_range<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    object: &Object,
    status: CacheStatus,
) -> Result<(), Failure> {
    exchange.record.cache = Some(status.word());
    let range = format!("bytes */{}", object.body_bytes);
    let fields = [("content-range", range.into()), ("cache-status", status.value(NAME).into())];
    answer_refusal_with(exchange, around, Refusal::KeptRange, &fields).await
}

/// Compressed for the next time.
async fn serve_coded<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    cache: &RouteCache,
    object: &Arc<Object>,
    (coding, level): crate::coded::CodingChoice,
) -> Result<(), Failure> {
    exchange.complete_response(&around.connection.worker.date);
    let place = coding as usize;
    let mut body = BodyReader::Made(Box::new(StoredBody::kept(&object.body, 0, object.body_bytes)));
    match start_coding(exchange, around, (coding, level), Some(object.body_bytes)) {
        Some(mut coded) => {
            coded.keep =
                Some(Box::new(KeptCoding { tier: cache.tier.clone(), object: object.clone(), place, pieces: Vec::new() }));
            let first = body.at_hand().unwrap_or_default();
            exchange.consume_small_body(around.connection.is_draining());
            stream_coded(exchange, around, coded, &mut body, first, &Cell::new(true)).await
        }
        // As many are being compressed as may be.
        None => {
            send_stored(
                exchange,
                around,
                Answer::Whole,
                Some(object.body_bytes),
                StoredBody::kept(&object.body, 0, object.body_bytes),
            )
            .await
        }
    }
}

/// What another request fetches, or this one. `own`: fields for this client alone.
pub(crate) async fn serve_reader<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    (reader, own): (Reader, &OwnFields),
    asked: &Asked,
    status: CacheStatus,
    tier: &CacheTier,
) -> Result<(), Failure> {
    let opening = reader.opening();
    let has_no_body = matches!(opening.head.status, 204 | 304);
    let length = if has_no_body { Some(0) } else { opening.content_length };
    let age_seconds = Some(opening.terms.age_seconds(tier.now())).filter(|age| *age > 0);
    let shape = asked.with(|request| answer::answer(request, &opening.head, length));
    begin_stored(exchange, Facts { head: &opening.head, shape, length, age_seconds, status, own });
    if let Some(page) = page_for_upstream(exchange, around) {
        return Box::pin(send_page_instead(exchange, around, page)).await;
    }
    around.run_response_steps(exchange);
    if shape == Answer::Whole
        && let Some(coded) =
            choose_coding(exchange, around, length).and_then(|choice| start_coding(exchange, around, choice, length))
    {
        exchange.complete_response(&around.connection.worker.date);
        let mut body = BodyReader::Made(Box::new(StoredBody::along(reader, 0, length)));
        let first = body.at_hand().unwrap_or_default();
        return Box::pin(stream_coded(exchange, around, coded, &mut body, first, &Cell::new(true))).await;
    }
    let (skip, length) = match length {
        Some(length) => {
            let (skip, length) = part_of(shape, length);
            (skip, Some(length))
        }
        None => (0, None),
    };
    send_stored(exchange, around, shape, length, StoredBody::along(reader, skip, length)).await
}

/// The head of the answer, but for what steps make of it.
fn begin_stored<S: Sock>(exchange: &mut Exchange<'_, S>, facts: Facts<'_>) {
    let Facts { head, shape, length, age_seconds, status, own } = facts;
    let code = match shape {
        Answer::Whole => head.status,
        Answer::NotModified => 304,
        Answer::Part { .. } => 206,
        Answer::NotSatisfiable => 416,
    };
    begin_answer(code, &mut exchange.response);
    exchange.record.status = code;
    let is_sent = |name: &[u8]| {
        // A length is said where the body is framed.
        name != b"content-length"
            && !TAG_FIELDS.contains(&name)
            && match shape {
                Answer::Whole => true,
                // Whatever the upstream meant by it in an answer that is no part, the range is ours to tell.
                Answer::Part { .. } => name != b"content-range",
                Answer::NotModified => answer::is_in_304(name, head),
                Answer::NotSatisfiable => matches!(name, b"date" | b"vary" | b"etag"),
            }
    };
    for (name, value) in head.fields().filter(|(name, _)| is_sent(name)) {
        exchange.response.fields.push(name, value);
    }
    for (name, value) in own {
        exchange.response.fields.push(name, value);
    }
    let (mut digits, mut more_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
    let total = length.map_or("*", |length| digits.format(length));
    match shape {
        Answer::Whole | Answer::NotModified => {}
        Answer::Part { first, last } => {
            let (mut from, mut to) = (itoa::Buffer::new(), itoa::Buffer::new());
            let range = [&b"bytes "[..], from.format(first).as_bytes(), b"-", to.format(last).as_bytes(), b"/", total.as_bytes()];
            exchange.response.fields.push_parts(b"content-range", &range);
        }
        Answer::NotSatisfiable => exchange.response.fields.push_parts(b"content-range", &[b"bytes */", total.as_bytes()]),
    }
    if let Some(age_seconds) = age_seconds {
        exchange.response.fields.push(b"age", more_digits.format(age_seconds).as_bytes());
    }
    push_cache_status(exchange, status);
}

pub(super) fn push_cache_status<S: Sock>(exchange: &mut Exchange<'_, S>, status: CacheStatus) {
    exchange.record.cache = Some(status.word());
    match status {
        // Without making a text of it: what is asked for most is a hit.
        CacheStatus::Hit { ttl_seconds } => {
            let mut digits = itoa::Buffer::new();
            let value = [NAME.as_bytes(), b"; hit; ttl=", digits.format(ttl_seconds).as_bytes()];
            exchange.response.fields.push_parts(b"cache-status", &value);
        }
        status @ CacheStatus::Forwarded { .. } => {
            exchange.response.fields.push(b"cache-status", status.value(NAME).as_bytes());
        }
    }
}

/// `length` is that of what is sent; `None` is up to the end of the body.
async fn send_stored<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    shape: Answer,
    length: Option<u64>,
    body: StoredBody,
) -> Result<(), Failure> {
    exchange.complete_response(&around.connection.worker.date);
    exchange.consume_small_body(around.connection.is_draining());
    let status = exchange.response.status;
    let is_bodiless = matches!(shape, Answer::NotModified) || matches!(status, 204 | 304);
    let length = if shape == Answer::NotSatisfiable { Some(0) } else { length };
    if let Some(length) = length.filter(|_| !is_bodiless) {
        exchange.push_content_length(length);
    }
    if is_bodiless || exchange.head.method == Method::Head || length == Some(0) {
        let framing = if length == Some(0) && !is_bodiless { BodyLength::Known } else { BodyLength::None };
        return Ok(exchange.send_without_body(framing).await?);
    }
    let framing = if length.is_some() { BodyLength::Known } else { BodyLength::Unknown };
    let mut body = BodyReader::Made(Box::new(body));
    let first = body.at_hand().unwrap_or_default();
    pin!(stream_plain(exchange, around, framing, &mut body, first, &Cell::new(true))).await
}

/// What comes before, and how much is sent.
fn part_of(shape: Answer, length: u64) -> (u64, u64) {
    match shape {
        Answer::Whole => (0, length),
        Answer::Part { first, last } => (first, last - first + 1),
        Answer::NotModified | Answer::NotSatisfiable => (0, 0),
    }
}
