//! What is kept, on its way to a client: whole, a part of it, or word that the client has it already; compressed where
//! `compress` says so, and then kept so.

use super::asked::Asked;
use super::body::StoredBody;
use super::fetch::TAG_FIELDS;
use super::tier::CacheTier;
use super::{CacheStatus, RouteCache};
use crate::coded::KeptCoding;
use crate::exchange::{BodyLength, BodyReader};
use crate::failure::Failure;
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use tidegate_cache::policy::answer::{self, Answer};
use tidegate_cache::{Object, Reader, StoredHead};
use tidegate_middleware::Refusal;
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
    pub(super) fn of(object: Arc<Object>, asked: &Asked, status: CacheStatus, tier: &CacheTier) -> Hit {
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

impl<S: Sock> Request<'_, S> {
    /// Answers with what is kept.
    pub(crate) async fn serve_kept(&mut self, route: &CompiledRoute, cache: &RouteCache, hit: Hit) -> Result<(), Failure> {
        let Hit { object, shape, age_seconds, status, own } = hit;
        if shape == Answer::NotSatisfiable {
            return Box::pin(self.refuse_range(&object, status)).await;
        }
        let length = object.body_bytes;
        let own = own.as_deref().unwrap_or_default();
        let facts = Facts { head: &object.head, shape, length: Some(length), age_seconds: Some(age_seconds), status, own };
        self.begin_stored(facts);
        if let Some(page) = self.page_for_upstream(route) {
            return Box::pin(self.send_page_instead(route, page)).await;
        }
        self.run_response_steps(route);
        if shape == Answer::NotModified {
            // For what its head has to say; there is nothing to compress.
            self.choose_coding(route, None);
        }
        if shape == Answer::Whole {
            let choice = self.choose_coding(route, Some(length));
            let coded = choice.and_then(|(coding, _)| object.coded(coding as usize).map(|body| (coding, body)));
            let body = match (coded, choice) {
                (Some((coding, body)), _) => {
                    self.settle_coding(coding);
                    body
                }
                (None, Some(choice)) => return Box::pin(self.serve_coded(cache, &object, choice)).await,
                (None, None) => &object.body,
            };
            match &**body {
                [] => return self.send_whole(b"").await,
                [all] => return self.send_whole(all).await,
                _ => {}
            }
            let length = body.iter().map(|chunk| chunk.len() as u64).sum();
            return Box::pin(self.send_stored(shape, Some(length), StoredBody::kept(body, 0, length))).await;
        }
        let (skip, length) = part_of(shape, length);
        Box::pin(self.send_stored(shape, Some(length), StoredBody::kept(&object.body, skip, length))).await
    }

    /// As any error of the proxy's own, so that the site has its say.
    async fn refuse_range(&mut self, object: &Object, status: CacheStatus) -> Result<(), Failure> {
        self.record.cache = Some(status.word());
        let range = format!("bytes */{}", object.body_bytes);
        let fields = [("content-range", range.into()), ("cache-status", status.value(NAME).into())];
        self.answer_refusal_with(Refusal::KeptRange, &fields).await
    }

    /// Compressed for the next time.
    async fn serve_coded(
        &mut self,
        cache: &RouteCache,
        object: &Arc<Object>,
        (coding, level): crate::coded::CodingChoice,
    ) -> Result<(), Failure> {
        self.complete_response();
        let place = coding as usize;
        let mut body = BodyReader::Stored(Box::new(StoredBody::kept(&object.body, 0, object.body_bytes)));
        match self.start_coding((coding, level), Some(object.body_bytes)) {
            Some(mut coded) => {
                coded.keep =
                    Some(Box::new(KeptCoding { tier: cache.tier.clone(), object: object.clone(), place, pieces: Vec::new() }));
                let first = body.at_hand().unwrap_or_default();
                self.consume_small_body();
                self.stream_coded(coded, &mut body, first, &Cell::new(true)).await
            }
            // As many are being compressed as may be.
            None => {
                self.send_stored(Answer::Whole, Some(object.body_bytes), StoredBody::kept(&object.body, 0, object.body_bytes))
                    .await
            }
        }
    }

    /// What another request fetches, or this one. `own`: fields for this client alone.
    pub(super) async fn serve_reader(
        &mut self,
        route: &CompiledRoute,
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
        self.begin_stored(Facts { head: &opening.head, shape, length, age_seconds, status, own });
        if let Some(page) = self.page_for_upstream(route) {
            return Box::pin(self.send_page_instead(route, page)).await;
        }
        self.run_response_steps(route);
        if shape == Answer::Whole
            && let Some(coded) = self.choose_coding(route, length).and_then(|choice| self.start_coding(choice, length))
        {
            self.complete_response();
            let mut body = BodyReader::Stored(Box::new(StoredBody::along(reader, 0, length)));
            let first = body.at_hand().unwrap_or_default();
            return Box::pin(self.stream_coded(coded, &mut body, first, &Cell::new(true))).await;
        }
        let (skip, length) = match length {
            Some(length) => {
                let (skip, length) = part_of(shape, length);
                (skip, Some(length))
            }
            None => (0, None),
        };
        self.send_stored(shape, length, StoredBody::along(reader, skip, length)).await
    }

    /// The head of the answer, but for what steps make of it.
    fn begin_stored(&mut self, facts: Facts<'_>) {
        let Facts { head, shape, length, age_seconds, status, own } = facts;
        let code = match shape {
            Answer::Whole => head.status,
            Answer::NotModified => 304,
            Answer::Part { .. } => 206,
            Answer::NotSatisfiable => 416,
        };
        begin_answer(code, &mut self.response);
        self.record.status = code;
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
            self.response.fields.push(name, value);
        }
        for (name, value) in own {
            self.response.fields.push(name, value);
        }
        let (mut digits, mut more_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        let total = length.map_or("*", |length| digits.format(length));
        match shape {
            Answer::Whole | Answer::NotModified => {}
            Answer::Part { first, last } => {
                let (mut from, mut to) = (itoa::Buffer::new(), itoa::Buffer::new());
                let range =
                    [&b"bytes "[..], from.format(first).as_bytes(), b"-", to.format(last).as_bytes(), b"/", total.as_bytes()];
                self.response.fields.push_parts(b"content-range", &range);
            }
            Answer::NotSatisfiable => self.response.fields.push_parts(b"content-range", &[b"bytes */", total.as_bytes()]),
        }
        if let Some(age_seconds) = age_seconds {
            self.response.fields.push(b"age", more_digits.format(age_seconds).as_bytes());
        }
        self.push_cache_status(status);
    }

    pub(super) fn push_cache_status(&mut self, status: CacheStatus) {
        self.record.cache = Some(status.word());
        match status {
            // Without making a text of it: what is asked for most is a hit.
            CacheStatus::Hit { ttl_seconds } => {
                let mut digits = itoa::Buffer::new();
                let value = [NAME.as_bytes(), b"; hit; ttl=", digits.format(ttl_seconds).as_bytes()];
                self.response.fields.push_parts(b"cache-status", &value);
            }
            status @ CacheStatus::Forwarded { .. } => {
                self.response.fields.push(b"cache-status", status.value(NAME).as_bytes());
            }
        }
    }

    /// `length` is that of what is sent; `None` is up to the end of the body.
    async fn send_stored(&mut self, shape: Answer, length: Option<u64>, body: StoredBody) -> Result<(), Failure> {
        self.complete_response();
        self.consume_small_body();
        let status = self.response.status;
        let is_bodiless = matches!(shape, Answer::NotModified) || matches!(status, 204 | 304);
        let length = if shape == Answer::NotSatisfiable { Some(0) } else { length };
        if let Some(length) = length.filter(|_| !is_bodiless) {
            let mut digits = itoa::Buffer::new();
            self.response.fields.push(b"content-length", digits.format(length).as_bytes());
        }
        if is_bodiless || self.head.method == Method::Head || length == Some(0) {
            let framing = if length == Some(0) && !is_bodiless { BodyLength::Known } else { BodyLength::None };
            return self.send_without_body(framing).await;
        }
        let framing = if length.is_some() { BodyLength::Known } else { BodyLength::Unknown };
        let mut body = BodyReader::Stored(Box::new(body));
        let first = body.at_hand().unwrap_or_default();
        pin!(self.stream_plain(framing, &mut body, first, &Cell::new(true))).await
    }
}

/// What comes before, and how much is sent.
fn part_of(shape: Answer, length: u64) -> (u64, u64) {
    match shape {
        Answer::Whole => (0, length),
        Answer::Part { first, last } => (first, last - first + 1),
        Answer::NotModified | Answer::NotSatisfiable => (0, 0),
    }
}
