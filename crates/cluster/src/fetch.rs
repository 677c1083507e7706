//! Secrets fetched one by one, as `secrets` says, for ever.

use crate::client::Client;
use crate::fault::Fault;
use crate::kind::Kind;
use crate::news::Told;
use crate::object::{FetchedSecret, Key, fetched};
use crate::secrets::Fetch;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::Method;
use std::convert::Infallible;
use std::time::Instant;
use tokio::sync::Notify;

/// As many as connections are kept to one host, so that none is opened for a single Secret.
const AT_ONCE_MAX: usize = 4;

/// Fetches what `due` gives, whenever `is_due` is notified or the time that it gives has come. It ends by being
/// dropped.
pub async fn fetch_secrets(
    client: &Client,
    due: impl Fn(Instant, usize) -> (Vec<Fetch>, Option<Instant>),
    is_due: &Notify,
    tell: impl Fn(Told),
) -> Infallible {
    let mut running = FuturesUnordered::new();
    loop {
        let (taken, rests_until) = due(Instant::now(), AT_ONCE_MAX - running.len());
        running.extend(taken.into_iter().map(|fetch| outcome(client, fetch)));
        let rest = async {
            match rests_until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some((key, outcome)) = running.next() => tell(Told::Fetched(key, outcome)),
            () = is_due.notified() => {}
            () = rest => {}
        }
    }
}

async fn outcome(client: &Client, fetch: Fetch) -> (Key, Result<FetchedSecret, Fault>) {
    let key = match fetch {
        Fetch::Ask(key) if is_name(&key.namespace) && is_name(&key.name) => key,
        Fetch::Ask(key) | Fetch::Absent(key) => {
            let message = format!("there is no Secret {key}");
            return (key, Err(Fault::Missing { message }));
        }
    };
    let path = format!("{}/{}", Kind::Secret.path(Some(&key.namespace)), key.name);
    let answer = client.send(Method::GET, &path, None).await;
    let outcome = answer.and_then(|answer| fetched(&key, &answer));
    (key, outcome)
}

/// What no object can be called is not asked for: in a path it would be something else.
fn is_name(text: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) && text.chars().all(is_inside)
}
