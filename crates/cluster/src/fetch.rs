//! Objects that somebody refers to, fetched one by one as `wanted` says, for ever.

use crate::client::Client;
use crate::fault::Fault;
use crate::news::Told;
use crate::object::{Fetched, Key, Referenced};
use crate::wanted::Fetch;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::Method;
use std::convert::Infallible;
use std::time::Instant;
use tokio::sync::Notify;

/// Secrets that are fetched at once. With ConfigMaps as many as connections are kept to one host, so that none is
/// opened for a single object.
pub const SECRETS_AT_ONCE: usize = 3;
/// ConfigMaps that are fetched at once: a cluster refers to few.
pub const CONFIG_MAPS_AT_ONCE: usize = 1;

/// Fetches what `due` gives, so many at once, whenever `is_due` is notified or the time that it gives has come. It ends
/// by being dropped.
pub async fn fetch<T: Referenced>(
    client: &Client,
    at_once: usize,
    due: impl Fn(Instant, usize) -> (Vec<Fetch>, Option<Instant>),
    is_due: &Notify,
    tell: impl Fn(Told),
) -> Infallible
where
    Told: From<(Key, Result<Fetched<T>, Fault>)>,
{
    let mut running = FuturesUnordered::new();
    loop {
        let (taken, rests_until) = due(Instant::now(), at_once - running.len());
        running.extend(taken.into_iter().map(|fetch| outcome::<T>(client, fetch)));
        let rest = async {
            match rests_until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(outcome) = running.next() => tell(Told::from(outcome)),
            () = is_due.notified() => {}
            () = rest => {}
        }
    }
}

async fn outcome<T: Referenced>(client: &Client, fetch: Fetch) -> (Key, Result<Fetched<T>, Fault>) {
    let key = match fetch {
        Fetch::Ask(key) if is_name(&key.namespace) && is_name(&key.name) => key,
        Fetch::Ask(key) | Fetch::Absent(key) => {
            let message = format!("there is no {} {key}", T::KIND.name());
            return (key, Err(Fault::Missing { message }));
        }
    };
    let path = format!("{}/{}", T::KIND.path(Some(&key.namespace)), key.name);
    let answer = client.send(Method::GET, &path, None).await;
    let outcome = answer.and_then(|answer| T::read(&key, &answer));
    (key, outcome)
}

/// What no object can be called is not asked for: in a path it would be something else.
pub fn is_name(text: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) && text.chars().all(is_inside)
}
