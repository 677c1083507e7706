//! `cache`: answers that are kept are given again, and requests for the same wait for one. What may be kept and given
//! is decided in the crate of that name; here a request is looked up. `fetch` is what happens to an answer on its way
//! in, `serve` how one goes out, `tier` what all workers share; the order in which a request asks the cache, its
//! upstream and the disk is in `request::kept`.

mod asked;
mod body;
mod fetch;
mod purge;
mod route_cache;
mod serve;
pub mod tier;

pub(crate) use self::asked::Asked;
pub(crate) use self::fetch::{Answered, Caching, Fetch, Kept, keep_answer};
pub(crate) use self::purge::purge;
pub use self::route_cache::RouteCache;
pub(crate) use self::serve::{Hit, serve_kept, serve_reader};
pub use self::tier::{CacheTier, TierSettings};

use crate::surroundings::Surroundings;
use crate::terminal::CompiledTerminal;
use std::borrow::Cow;
use std::rc::Rc;
use tidegate_cache::policy::{CacheStatus, Forward, answer};
use tidegate_cache::{Key, Lookup};
use tidegate_exchange::Exchange;
use tidegate_exchange::forwarded::{ShownCertificate, each_claim_of_url};
use tidegate_exchange::override_fields;
use tidegate_transport::Sock;
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::BodyFraming;
use tidegate_wire::head::{HeaderId, Method};

/// What the cache says of a request at once.
pub(crate) enum Looked {
    Hit(Hit),
    /// Boxed: whatever it is, it takes longer.
    Other(Box<Other>),
}

pub(crate) enum Other {
    /// Whether the client may, is still to be found out.
    Purge,
    /// The cache only hears of it.
    PassBy(Forward, Option<Key>),
    /// For it something has to be asked, waited for or fetched.
    Lookup(Lookup, Key, Rc<Asked>),
}

impl Looked {
    fn other(other: Other) -> Looked {
        Looked::Other(Box::new(other))
    }
}

/// Looks for what is kept.
pub(crate) fn look_up_kept<S: Sock>(
    exchange: &Exchange<'_, S>,
    around: Surroundings<'_, S>,
    cache: &RouteCache,
    origin: &WorkerPool<S>,
) -> Looked {
    if cache.purging.is_open() && exchange.head.method_name() == b"PURGE" {
        return Looked::other(Other::Purge);
    }
    // A body would be part of the question, and what answers to it may differ.
    let is_plain = matches!(exchange.framing, BodyFraming::None | BodyFraming::Length(0)) && exchange.hop.upgrade.is_none();
    let Some(key) = cache_key(exchange, around) else { return Looked::other(Other::PassBy(Forward::Bypass, None)) };
    if override_fields::are_in(&exchange.head.fields) {
        return Looked::other(Other::PassBy(Forward::Request, Some(key)));
    }
    if !is_plain {
        let why = if matches!(exchange.head.method, Method::Get | Method::Head) { Forward::Request } else { Forward::Method };
        return Looked::other(Other::PassBy(why, Some(key)));
    }
    let partition = partition(exchange, around, cache, &key, origin);
    let now = cache.tier.now();
    as_asked(exchange, around, &partition, |request| match cache.store.lookup(&key, request, now) {
        Lookup::Hit { object, age_seconds, ttl_seconds } => {
            let shape = answer::answer(request, &object.head, Some(object.body_bytes));
            let status = CacheStatus::Hit { ttl_seconds: ttl_seconds as i64 };
            Looked::Hit(Hit { object, shape, age_seconds, status, own: None })
        }
        Lookup::Bypass(why) => Looked::other(Other::PassBy(why, Some(key))),
        lookup => match Asked::new(request) {
            Some(asked) => Looked::other(Other::Lookup(lookup, key, asked.into())),
            None => Looked::other(Other::PassBy(Forward::Bypass, Some(key))),
        },
    })
}

/// The URL that the client asked for, in the spelling that routes are found by, which is what a purge names.
fn cache_key<S: Sock>(exchange: &Exchange<'_, S>, around: Surroundings<'_, S>) -> Option<Key> {
    let bytes = &exchange.head.fields.bytes;
    let query = exchange.record.told_query.map(|query| query.of(bytes));
    Key::of_parts(
        around.connection.scheme().as_str().as_bytes(),
        exchange.head.authority(),
        exchange.record.matched_path.of(bytes),
        query,
    )
}

/// What tells answers of one URL apart besides `Vary`: the route's conditions, whatever its steps made of path and
/// host, and all that upstreams are told of the URL otherwise than the key has it. So two requests that find the same
/// answer are the same to the upstream but for fields that `Vary` can name, and for `X-Forwarded-For`; an answer that
/// depends on that one is kept for nobody. Whoever has logged in, or shown a certificate, has answers of its own: an
/// upstream that says `public` (RFC 9111 section 3.5) knows nothing of who was asked here. Borrowed where there is
/// nothing of that, as for most requests.
fn partition<'a, S: Sock>(
    exchange: &Exchange<'_, S>,
    around: Surroundings<'_, S>,
    cache: &'a RouteCache,
    key: &Key,
    origin: &WorkerPool<S>,
) -> Cow<'a, [u8]> {
    let mut partition = Cow::Borrowed(&*cache.partition);
    add_client(exchange, around, cache, &mut partition);
    let mut add = |parts: &[&[u8]]| parts.iter().for_each(|part| partition.to_mut().extend_from_slice(part));
    if around.route.is_some_and(|route| matches!(route.terminal, CompiledTerminal::Split(_))) {
        // What one pool of several says is not what another would have said.
        add(&[b"\npool ", origin.compiled.name.0.as_bytes()]);
        let arm = around.route.and_then(|route| route.terminal.arm(exchange.record.arm));
        if let Some(arm) = arm.filter(|arm| arm.steps.is_some()) {
            // And was asked in another way.
            add(&[b"\narm ", arm.name.as_bytes()]);
        }
    }
    let bytes = &exchange.head.fields.bytes;
    let sent = (exchange.record.matched_path.of(bytes), exchange.record.told_query.map(|query| query.of(bytes)));
    if (exchange.head.path(), exchange.head.query()) != sent {
        add(&[b"\n/", exchange.head.path(), b"?", exchange.head.query().unwrap_or_default()]);
    }
    if exchange.peer_is_trusted {
        // What a proxy in front says of the client's request is part of what upstreams answer by.
        each_claim_of_url(&exchange.head.fields, |name, value| add(&[b"\ntold ", name, b": ", value]));
    }
    told_otherwise(exchange, around, key, |name, value| add(&[b"\n", name, b" ", value]));
    partition
}

/// Who the client is, and what the site tells its upstreams of it. First behind what is the route's own, and with
/// lengths, so that nothing else that is added can read like it.
fn add_client<S: Sock>(
    exchange: &Exchange<'_, S>,
    around: Surroundings<'_, S>,
    cache: &RouteCache,
    partition: &mut Cow<'_, [u8]>,
) {
    if let Some(identity) = exchange.record.identity() {
        partition.to_mut().extend_from_slice(b"\nuser ");
        identity.write_whole(partition.to_mut());
    }
    match around.connection.shown_certificate() {
        ShownCertificate::Nothing => {}
        ShownCertificate::Verified(certificate) => {
            partition.to_mut().extend_from_slice(b"\ncertificate ");
            partition.to_mut().extend_from_slice(certificate.fingerprint().as_bytes());
        }
        ShownCertificate::Unverified(certificate, why) => {
            for part in ["\nunverified ", certificate.fingerprint(), " ", why] {
                partition.to_mut().extend_from_slice(part.as_bytes());
            }
        }
    }
    for name in &cache.told_of_client {
        for value in exchange.head.fields.all_named(name) {
            let partition = partition.to_mut();
            partition.extend_from_slice(b"\ntold ");
            for part in [name, value] {
                partition.extend_from_slice(&(part.len() as u32).to_be_bytes());
                partition.extend_from_slice(part);
            }
        }
    }
}

/// What the upstream gets to see of the URL that is not in the key: the host is forwarded as it was sent, in capital
/// letters and with a port that need not be there, as `Host` and as `X-Forwarded-Host`, and `X-Forwarded-Port` says
/// where the request came to.
fn told_otherwise<S: Sock>(
    exchange: &Exchange<'_, S>,
    around: Surroundings<'_, S>,
    key: &Key,
    mut see: impl FnMut(&[u8], &[u8]),
) {
    let authority = exchange.head.authority();
    if exchange.head.fields.get(HeaderId::Host).is_some_and(|host| host != key.host()) {
        see(b"host", exchange.head.fields.get(HeaderId::Host).unwrap_or_default());
    }
    if authority != key.host() {
        see(b"authority", authority);
    }
    let port = around.connection.destination_port();
    if port != key.port(around.connection.scheme().default_port()) {
        see(b"port", itoa::Buffer::new().format(port).as_bytes());
    }
}

/// The request as the cache is shown it.
fn as_asked<R, S: Sock>(
    exchange: &Exchange<'_, S>,
    around: Surroundings<'_, S>,
    partition: &[u8],
    run: impl FnOnce(tidegate_cache::RequestHead<'_>) -> R,
) -> R {
    let mut fields: Vec<tidegate_cache::Field<'_>> = Vec::with_capacity(32);
    fields.extend(exchange.head.fields.iter());
    if !partition.is_empty() {
        fields.push((tidegate_cache::key::PARTITION, partition));
    }
    // Who has logged in, or shown a certificate, may have done so with what the upstream does not get to see: what it
    // answers is not for others all the same. So it is where somebody was let in without a look at what it had said.
    let record = &exchange.record;
    let has_shown = !matches!(around.connection.shown_certificate(), ShownCertificate::Nothing);
    let has_credentials = record.identity().is_some() || record.had_authorization || has_shown;
    run(tidegate_cache::RequestHead { method: exchange.head.method_name(), fields: &fields, has_credentials })
}
