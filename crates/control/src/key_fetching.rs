//! Keys of issuers are fetched on a thread of its own, so that neither a look-up nor an issuer that hangs is noticed
//! anywhere else. It is not there until a configuration names an address. When to ask is decided in the crate `access`;
//! who waits for the answer, in `proxy::auth::keys`.

use http::header::{ACCEPT, CACHE_CONTROL};
use http::{Request, Response, StatusCode};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tidegate_access::{KeySet, SET_BYTES_MAX};
use tidegate_model::KeySource;
use tidegate_outbound::{HttpsClient, Limits, Trust};
use tidegate_proxy::auth::{IssuerKeys, KeysState};
use tidegate_proxy::process_state::ProcessState;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep_until;

/// Questions on their way, so that a thousand issuers that hang take no thousand connections.
const QUESTIONS_MAX: usize = 32;
/// From the look-up of its name to its last byte.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Timers stand still in a machine that sleeps: nobody waits longer than this without a look at the clock.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Threads that may be looking up a name that hangs.
const LOOK_UPS_MAX: usize = 8;

/// The thread. Without its owner it ends.
pub(crate) struct KeyFetching {
    /// Closed when this goes away.
    _stop: watch::Sender<()>,
}

impl KeyFetching {
    /// After a change, and once a second: the thread begins with the first address.
    pub fn look_after(this: &mut Option<KeyFetching>, process: &Arc<ProcessState>) {
        tell_metrics(process);
        // Whoever logs people in has keys of an address, which are not known yet.
        let is_needed = || !process.key_sets.of_addresses().is_empty() || process.oidc.has_providers();
        if this.is_some() || !is_needed() {
            return;
        }
        match KeyFetching::start(process.clone()) {
            Ok(fetching) => *this = Some(fetching),
            // Another attempt follows in a second; requests wait or are told so.
            Err(error) => tracing::error!(%error, "no keys of tokens are fetched: there is no thread for it"),
        }
    }

    fn start(process: Arc<ProcessState>) -> io::Result<KeyFetching> {
        let (stop, stopped) = watch::channel(());
        let wake = Arc::new(Notify::new());
        let woken = wake.clone();
        process.key_sets.are_followed_by(move || woken.notify_one());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(LOOK_UPS_MAX).build()?;
        std::thread::Builder::new().name("token-keys".into()).spawn(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, run(process, wake, stopped));
            drop(local);
            // A look-up that hangs does not keep it.
            runtime.shutdown_background();
        })?;
        Ok(KeyFetching { _stop: stop })
    }
}

/// How the sets do, for who watches many processes; which one it is stands in `status`.
fn tell_metrics(process: &ProcessState) {
    let states: Vec<KeysState> = process.key_sets.all().iter().map(|keys| keys.state()).collect();
    let metrics = process.registry.token_keys();
    let count = |is_one: fn(&KeysState) -> bool| states.iter().filter(|state| is_one(state)).count();
    metrics.set_states([
        count(|state| state.keys > 0 && state.fault.is_none()),
        count(|state| state.keys > 0 && state.fault.is_some()),
        count(|state| state.keys == 0),
    ]);
    metrics.set_keys(states.iter().map(|state| state.keys).sum());
    let since = |state: &KeysState| state.read?.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
    metrics.set_oldest_read(states.iter().filter_map(since).min().unwrap_or_default());
}

async fn run(process: Arc<ProcessState>, wake: Arc<Notify>, mut stopped: watch::Receiver<()>) {
    let clients = Clients::default();
    let places = Rc::new(Semaphore::new(QUESTIONS_MAX));
    loop {
        let now = Instant::now();
        let mut next = now + LOOK_AGAIN;
        for keys in process.key_sets.of_addresses() {
            if keys.begin(now) {
                let (clients, places, wake) = (clients.clone(), places.clone(), wake.clone());
                spawn_local(async move {
                    // Never closed.
                    let _place = places.acquire().await;
                    fetch(&clients, &keys).await;
                    wake.notify_one();
                });
            } else if let Some(due) = keys.due() {
                next = next.min(due);
            }
        }
        tokio::select! {
            () = wake.notified() => {}
            () = sleep_until(next.into()) => {}
            _ = stopped.changed() => return,
        }
    }
}

/// Clients by the file of authorities that they trust; without one, the system's. Their files are read again when they
/// change.
#[derive(Clone, Default)]
pub(crate) struct Clients(Rc<RefCell<HashMap<Option<PathBuf>, HttpsClient>>>);

impl Clients {
    pub fn of(&self, ca: Option<&PathBuf>) -> Result<HttpsClient, String> {
        if let Some(known) = self.0.borrow().get(&ca.cloned()) {
            return Ok(known.clone());
        }
        let trust = ca.map_or(Trust::System, |path| Trust::File(path.clone()));
        let client = HttpsClient::new(trust).map_err(|fault| format!("its authorities cannot be used: {fault}"))?;
        self.0.borrow_mut().insert(ca.cloned(), client.clone());
        Ok(client)
    }
}

/// Asks one issuer. What comes of it is told to whoever waits, and to the log.
async fn fetch(clients: &Clients, keys: &IssuerKeys) {
    let KeySource::Url { url, ca } = &keys.source else { return };
    let had_some = keys.current().is_some();
    let asked = match clients.of(ca.as_ref()) {
        Ok(client) => ask(&client, url).await,
        Err(cause) => Err(cause),
    };
    match asked {
        Ok(answer) => match keys.take(answer.body(), life(&answer), Instant::now()) {
            Ok(Some(new)) => tell_new(url, &new),
            Ok(None) => tracing::debug!(url, "keys of tokens were fetched again, and are the same"),
            Err(fault) => tell_failure(url, &format!("what was sent {fault}"), had_some),
        },
        Err(cause) => {
            keys.failed(Instant::now(), &cause);
            tell_failure(url, &cause, had_some);
        }
    }
}

async fn ask(client: &HttpsClient, url: &str) -> Result<Response<bytes::Bytes>, String> {
    let request = Request::get(url).header(ACCEPT, "application/jwk-set+json, application/json");
    let request = request.body(bytes::Bytes::new()).map_err(|error| error.to_string())?;
    let limits = Limits { total: ANSWER_MAX, body_bytes_max: SET_BYTES_MAX };
    let answer = client.send(request, limits).await.map_err(|fault| format!("the issuer {fault}"))?;
    match answer.status() {
        StatusCode::OK => Ok(answer),
        // Who follows it may be sent to an address of this network.
        status if status.is_redirection() => {
            Err(format!("the issuer answers with status {}, and redirects are not followed", status.as_u16()))
        }
        status => Err(format!("the issuer answers with status {}", status.as_u16())),
    }
}

/// How long an answer says that it is fresh (RFC 9111 section 5.2.2.1).
pub(crate) fn life(answer: &Response<bytes::Bytes>) -> Option<Duration> {
    let values = answer.headers().get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut directives = values.flat_map(|value| value.split(',')).map(str::trim);
    let seconds = directives.find_map(|directive| {
        let (name, value) = directive.split_once('=')?;
        name.trim().eq_ignore_ascii_case("max-age").then(|| value.trim().trim_matches('"').parse().ok())?
    });
    seconds.map(Duration::from_secs)
}

fn tell_new(url: &str, keys: &KeySet) {
    tracing::info!(url, keys = keys.len(), skipped = keys.skipped.len(), "keys of tokens were fetched");
    for skipped in &keys.skipped {
        tracing::debug!(url, "{skipped}");
    }
}

fn tell_failure(url: &str, cause: &str, had_some: bool) {
    let remedy = "let this machine reach it, and name the address of a JWK set with `jwks=`";
    if had_some {
        tracing::warn!(url, cause, remedy, "keys of tokens were not fetched again; those before stay in use");
    } else {
        tracing::error!(url, cause, remedy, "keys of tokens were not fetched, and nobody with a token is let in");
    }
}

#[cfg(test)]
mod tests {
    use super::life;
    use http::Response;
    use std::time::Duration;

    #[test]
    fn answers_say_how_long_they_are_fresh() {
        let check = |values: &[&str], expected: Option<u64>| {
            let mut answer = Response::builder();
            for value in values {
                answer = answer.header("cache-control", *value);
            }
            let answer = answer.body(bytes::Bytes::new()).expect("an answer");
            assert_eq!(life(&answer), expected.map(Duration::from_secs), "{values:?}");
        };
        check(&[], None);
        check(&["max-age=300"], Some(300));
        check(&["public, Max-Age = \"300\", must-revalidate"], Some(300));
        check(&["no-store", "max-age=7"], Some(7));
        check(&["s-maxage=5"], None);
        check(&["max-age=soon"], None);
        check(&["max-age=99999999999999999999999"], None);
    }
}
