//! PURGE: a client that may removes what is kept, by its URL, by the beginning of URLs, or by tag.

use super::{RouteCache, cache_key};
use crate::answering::answer_refusal;
use crate::failure::Failure;
use crate::surroundings::Surroundings;
use std::time::Duration;
use tidegate_cache::store::PurgeKind;
use tidegate_cache::{Key, Purge};
use tidegate_exchange::Exchange;
use tidegate_middleware::Refusal;
use tidegate_middleware::errors::begin_answer;
use tidegate_model::Secret;
use tidegate_transport::{Sock, rt};

/// How long the disk may take; then the client is told that it goes on.
const PURGE_WAIT: Duration = Duration::from_secs(10);
/// What one request may name.
const TAGS_MAX: usize = 64;

pub(crate) async fn purge<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    cache: &RouteCache,
) -> Result<(), Failure> {
    if !may_purge(exchange, cache) {
        return answer_refusal(exchange, around, Refusal::PurgeDenied).await;
    }
    let Some(purges) = what_to_purge(exchange, around) else {
        return answer_refusal(exchange, around, Refusal::PurgeUnclear).await;
    };
    let is_soft = exchange.head.fields.all_named(b"purge-mode").any(|mode| mode.eq_ignore_ascii_case(b"soft"));
    let kind = if is_soft { PurgeKind::Soft } else { PurgeKind::Hard };
    let (sender, mut purging) = rt::mailbox(1);
    let answer = move |count| {
        let _ = sender.try_send(count);
    };
    if !cache.tier.purge(purges, kind, answer) {
        return answer_refusal(exchange, around, Refusal::PurgesMany).await;
    }
    let count = rt::timeout(PURGE_WAIT, purging.recv()).await.flatten();
    begin_answer(if count.is_some() { 200 } else { 202 }, &mut exchange.response);
    exchange.response.fields.push(b"content-type", b"application/json");
    exchange.record.status = exchange.response.status;
    let text = count.map_or_else(|| "{}\n".to_owned(), |count| format!("{{\"purged\":{count}}}\n"));
    around.send_whole(exchange, text.as_bytes()).await
}

fn may_purge<S: Sock>(exchange: &Exchange<'_, S>, cache: &RouteCache) -> bool {
    let purging = &cache.purging;
    let is_known = purging.from.iter().any(|network| network.contains(&exchange.client_ip));
    let presented = || exchange.head.fields.all_named(b"authorization").next().and_then(|value| value.strip_prefix(b"Bearer "));
    is_known || purging.token.as_ref().zip(presented()).is_some_and(|(token, presented)| is_same(token, presented))
}

/// `None`: it cannot be read, or names too much.
fn what_to_purge<S: Sock>(exchange: &Exchange<'_, S>, around: Surroundings<'_, S>) -> Option<Vec<Purge>> {
    let fields = &exchange.head.fields;
    let by_blanks = fields.all_named(b"surrogate-key").flat_map(|value| value.split(u8::is_ascii_whitespace));
    let by_commas = fields.all_named(b"cache-tag").flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let tags: Vec<Purge> = by_blanks.chain(by_commas).filter(|tag| !tag.is_empty()).map(|tag| Purge::Tag(tag.to_vec())).collect();
    if !tags.is_empty() {
        return Some(tags).filter(|tags| tags.len() <= TAGS_MAX);
    }
    let key: Key = cache_key(exchange, around)?;
    Some(vec![match key.url().strip_suffix(b"*") {
        Some(prefix) => Purge::Prefix(prefix.to_vec()),
        None => Purge::Url(key),
    }])
}

/// How long it takes must not tell how much of it was right.
fn is_same(token: &Secret, presented: &[u8]) -> bool {
    let token = token.reveal().as_bytes();
    let difference = token.iter().zip(presented).fold(0, |sum, (one, other)| sum | (one ^ other));
    difference == 0 && token.len() == presented.len()
}
