//! An answer of the upstream on its way into the cache: kept and read along, taken for word that what is kept still
//! holds, or passed on.

use super::asked::Asked;
use super::serve::{OwnFields, push_cache_status, serve_reader};
use super::tier::CacheTier;
use crate::failure::{Failure, body_cut, upstream_body_fault};
use crate::surroundings::Surroundings;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tidegate_cache::policy::{self, CacheStatus, Forward, invalidation, revalidation, storing};
use tidegate_cache::store::PurgeKind;
use tidegate_cache::{Begun, FetchTicket, Key, Now, Object, Purge, ResponseHead, StoredHead, Writer};
use tidegate_exchange::{BodyReader, Exchange, TURN_BYTES};
use tidegate_transport::{Buf, Sock, rt};

/// Fields that name what an answer is purged by: for caches, not for clients.
pub(super) const TAG_FIELDS: [&[u8]; 2] = [b"surrogate-key", b"cache-tag"];
/// How long a fetch that only passes through waits for those who read along and are slow.
const ROOM_WAIT: Duration = Duration::from_secs(10);
/// How long a fetch goes on for the cache alone, after everybody who wanted it has left or has it.
const ALONE_MAX: Duration = Duration::from_secs(30);
/// Silence in a body after which those who come ask for themselves.
const SILENCE_LOOK: Duration = Duration::from_secs(5);

/// What the cache wants of a request that goes to the upstream, and what has come of it.
pub enum Caching {
    /// Nothing but to hear of it. The key is what a request that changes something makes invalid.
    Past { why: Forward, key: Option<Key> },
    /// The request's answer is for others too.
    Fetch(Fetch),
    /// The upstream has answered, and the client is still to be: with something else than that answer.
    Answered(Answered),
}

pub struct Fetch {
    pub ticket: FetchTicket,
    pub why: Forward,
    pub asked: Rc<Asked>,
    pub tier: Arc<CacheTier>,
    pub sent: Now,
}

pub enum Answered {
    /// What is kept still holds.
    Validated { object: Arc<Object>, status: CacheStatus, own: Option<Box<OwnFields>> },
    /// What is kept, although it is stale, because the upstream fails.
    Stale(Arc<Object>),
    /// The upstream spoke of something else.
    AskAgain(FetchTicket),
}

/// Who has the answer now.
pub enum Kept {
    /// Nobody: it is passed on.
    No,
    /// The cache. Without its body read to the end the connection cannot be used again.
    Yes { is_read: bool },
}

/// The head of an answer has come, and is complete but for what steps make of it.
/// `caching` is what the request wants of it, and afterwards what has come of it.
pub(crate) async fn keep_answer<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    caching: &mut Option<Box<Caching>>,
    body: &mut BodyReader<'_, S>,
) -> Result<Kept, Failure> {
    match caching.take().map(|caching| *caching) {
        Some(Caching::Past { why, key }) => {
            note_invalidated(exchange, around, key);
            pass_on(exchange, why);
            Ok(Kept::No)
        }
        Some(Caching::Fetch(fetch)) => keep_fetched(exchange, around, caching, fetch, body).await,
        Some(Caching::Answered(_)) | None => Ok(Kept::No),
    }
}

async fn keep_fetched<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    caching: &mut Option<Box<Caching>>,
    mut fetch: Fetch,
    body: &mut BodyReader<'_, S>,
) -> Result<Kept, Failure> {
    let now = fetch.tier.now();
    if matches!(exchange.response.status, 500 | 502..=504)
        && let Some((object, _)) = fetch.ticket.serve_stale(now)
    {
        *caching = Some(Box::new(Caching::Answered(Answered::Stale(object))));
        return Ok(Kept::Yes { is_read: false });
    }
    let Fetch { ticket, why, asked, tier, sent } = fetch;
    let begun = with_response(exchange, |response| {
        asked.with(|request| ticket.begin(policy::Exchange { request, response, sent, received: now }))
    });
    let answered = match begun {
        Begun::Storing(writer) => {
            stream_stored(exchange, around, (why, &asked, &tier), writer, body).await?;
            return Ok(Kept::Yes { is_read: true });
        }
        Begun::NotStored(_) if exchange.is_in_background() => return Ok(Kept::Yes { is_read: body.is_finished() }),
        Begun::NotStored(_) => {
            pass_on(exchange, why);
            return Ok(Kept::No);
        }
        Begun::Validated(object, stored) => {
            if stored {
                tier.keep_on_disk(&object);
            }
            let ttl_seconds = Some(object.ttl_seconds(now));
            let status = CacheStatus::Forwarded { why, status: Some(304), ttl_seconds, stored, collapsed: false };
            // A cookie that comes with a 304 is this client's, as one that comes with a whole answer.
            let own = with_response(exchange, |response| copied(revalidation::withheld(response.fields, &object.head)));
            Answered::Validated { object, status, own: Some(own) }
        }
        Begun::AskAgain(ticket) => Answered::AskAgain(ticket),
    };
    *caching = Some(Box::new(Caching::Answered(answered)));
    Ok(Kept::Yes { is_read: body.is_finished() })
}

/// The body goes into the store as fast as it comes; the client of this request reads it along like all others, so
/// that one that is slow holds nobody up. When it leaves, the others still get theirs.
async fn stream_stored<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    (why, asked, tier): (Forward, &Asked, &Arc<CacheTier>),
    writer: Writer,
    body: &mut BodyReader<'_, S>,
) -> Result<(), Failure> {
    let reader = if exchange.is_in_background() { None } else { writer.reader() };
    let filling = fill(writer, body, tier);
    let Some(reader) = reader else { return pin!(filling).await };
    let own = withheld(exchange, &reader.opening().head);
    let ttl_seconds = Some(reader.opening().terms.lifetime_seconds as i64 - reader.opening().terms.initial_age_seconds as i64);
    let status = CacheStatus::Forwarded { why, status: None, ttl_seconds, stored: true, collapsed: false };
    let serving = serve_reader(exchange, around, (reader, &own), asked, status, tier);
    let (filled, served) = join_both(filling, serving).await;
    // When both failed it is because of the upstream: only what it sent can be read along.
    filled.and(served)
}

/// The answer as it is, with word of what the cache did.
fn pass_on<S: Sock>(exchange: &mut Exchange<'_, S>, why: Forward) {
    for name in TAG_FIELDS {
        exchange.response.fields.remove(name);
    }
    let status = CacheStatus::Forwarded { why, status: None, ttl_seconds: None, stored: false, collapsed: false };
    push_cache_status(exchange, status);
}

/// RFC 9111 section 4.4.
fn note_invalidated<S: Sock>(exchange: &Exchange<'_, S>, around: Surroundings<'_, S>, key: Option<Key>) {
    let (Some(cache), Some(key)) = (around.route.and_then(|route| route.cache.as_ref()), key) else { return };
    let method = exchange.head.method_name();
    let keys = with_response(exchange, |response| {
        invalidation::invalidated(&key, tidegate_cache::RequestHead::new(method, &[]), response)
    });
    for key in keys {
        cache.tier.invalidate(Purge::Url(key), PurgeKind::Hard);
    }
}

/// What the answer says to this client alone.
fn withheld<S: Sock>(exchange: &Exchange<'_, S>, kept: &StoredHead) -> Box<OwnFields> {
    with_response(exchange, |response| copied(storing::withheld(response.fields, kept)))
}

/// The answer's head as the cache is shown it: with names in lower case.
fn with_response<R, S: Sock>(exchange: &Exchange<'_, S>, run: impl FnOnce(ResponseHead<'_>) -> R) -> R {
    let names: Vec<Vec<u8>> = exchange.response.fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let values = exchange.response.fields.iter().map(|(_, value)| value);
    let fields: Vec<tidegate_cache::Field<'_>> = names.iter().map(Vec::as_slice).zip(values).collect();
    run(ResponseHead { status: exchange.response.status, fields: &fields })
}

fn copied<'a>(fields: impl Iterator<Item = tidegate_cache::Field<'a>>) -> Box<OwnFields> {
    fields.map(|(name, value)| (name.into(), value.into())).collect()
}

/// Trailers are not kept.
async fn fill<S: Sock>(mut writer: Writer, body: &mut BodyReader<'_, S>, tier: &Arc<CacheTier>) -> Result<(), Failure> {
    let mut turn = 0;
    let fault = |fault| upstream_body_fault(&fault);
    let mut alone_since: Option<Instant> = None;
    let mut piece = body.at_hand().map_err(fault)?;
    loop {
        if let Some(piece) = piece.take() {
            writer.push(&piece);
            turn += piece.len();
        }
        if body.is_finished() {
            break;
        }
        if !writer.is_wanted() {
            // Too large to be kept, and nobody is left who reads it along.
            return Err(body_cut());
        }
        let _ = rt::timeout(ROOM_WAIT, poll_fn(|cx| writer.poll_room(cx))).await;
        if turn > TURN_BYTES {
            turn = 0;
            rt::yield_now().await;
        }
        let now = rt::now();
        alone_since = if writer.has_readers() { None } else { Some(alone_since.unwrap_or(now)) };
        if alone_since.is_some_and(|since| now.saturating_duration_since(since) > ALONE_MAX) {
            return Err(body_cut());
        }
        piece = read_or_part(body, &writer).await?;
        if piece.is_none() {
            break;
        }
    }
    if let Ok(object) = writer.finish() {
        tier.keep_on_disk(&object);
    }
    Ok(())
}

/// The next piece. An upstream that is silent in the middle of a body must not keep others from asking again, nor a
/// connection for nobody.
async fn read_or_part<S: Sock>(body: &mut BodyReader<'_, S>, writer: &Writer) -> Result<Option<Buf>, Failure> {
    let mut reading = pin!(body.read());
    let mut silent_since: Option<Instant> = None;
    loop {
        if let Some(read) = rt::timeout(SILENCE_LOOK, reading.as_mut()).await {
            return read.map_err(|fault| upstream_body_fault(&fault));
        }
        let now = rt::now();
        let since = *silent_since.get_or_insert(now);
        writer.part_company();
        if !writer.has_readers() && now.saturating_duration_since(since) > ALONE_MAX {
            return Err(body_cut());
        }
    }
}

/// Drives two futures to the end of both, the first one first.
async fn join_both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut of_one, mut of_other) = (None, None);
    poll_fn(|cx| {
        if of_one.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(cx)
        {
            of_one = Some(output);
        }
        if of_other.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(cx)
        {
            of_other = Some(output);
        }
        match (of_one.take(), of_other.take()) {
            (Some(one), Some(other)) => Poll::Ready((one, other)),
            (one, other) => {
                (of_one, of_other) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}
