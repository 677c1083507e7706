//! The order in which a proxy's request path calls the cache, played without sockets: an upstream is a function. Every
//! answer says in `Cache-Status` what the cache did.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tidegate_cache::disk::Disk;
use tidegate_cache::policy::storing::Exchange;
use tidegate_cache::policy::{Answer, CacheStatus, Forward, answer, invalidation, revalidation};
use tidegate_cache::settings::DiskSettings;
use tidegate_cache::store::{Adopted, PurgeKind};
use tidegate_cache::{
    Begun, FetchTicket, Field, Key, Lookup, Now, Object, Purge, RequestHead, ResponseHead, Settings, Store, WaitOutcome,
};

type Lines = Vec<(String, String)>;

fn fields(lines: &Lines) -> Vec<Field<'_>> {
    lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

fn lines(list: &[(&str, &str)]) -> Lines {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Served {
    status: u16,
    body: Vec<u8>,
    cache_status: String,
}

/// Request fields in; status, fields and body out.
type Upstream = dyn Fn(&Lines) -> (u16, Lines, Vec<u8>);

struct Proxy<'a> {
    store: Store,
    disk: Disk,
    upstream: &'a Upstream,
}

impl Proxy<'_> {
    fn serve(&self, method: &str, path: &str, request: &Lines, now: Now) -> Served {
        let key = Key::new(b"https", b"a.example", path.as_bytes()).expect("a key");
        let asked = fields(request);
        let head = RequestHead::new(method.as_bytes(), &asked);
        let mut lookup = self.store.lookup(&key, head, now);
        loop {
            return match lookup {
                Lookup::Hit { object, ttl_seconds, .. } => hit(head, &object, ttl_seconds as i64),
                Lookup::Stale { object, revalidation, .. } => {
                    // A proxy spawns this, and serves first.
                    let served = hit(head, &object, object.ttl_seconds(now));
                    if let Some(ticket) = revalidation {
                        self.fetch(ticket, request, head, Forward::Stale, now);
                    }
                    served
                }
                Lookup::Fetch(ticket, why) => match self.read_disk(ticket, &key, head, now) {
                    Ok(served) => served,
                    Err(ticket) => self.fetch(ticket, request, head, why, now),
                },
                Lookup::Wait(mut wait, why) => match wait.poll(&asked, &mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(WaitOutcome::Serve(object)) => hit(head, &object, object.ttl_seconds(now)),
                    Poll::Ready(WaitOutcome::Fetch(ticket)) => self.fetch(ticket, request, head, why, now),
                    Poll::Ready(WaitOutcome::LookUpAgain) => {
                        lookup = self.store.lookup(&key, head, now);
                        continue;
                    }
                    Poll::Ready(WaitOutcome::Read(_) | WaitOutcome::Alone) | Poll::Pending => {
                        self.forward(&key, head, request, why, now)
                    }
                },
                Lookup::Bypass(why) => self.forward(&key, head, request, why, now),
                Lookup::GatewayTimeout => Served { status: 504, body: Vec::new(), cache_status: String::new() },
            };
        }
    }

    /// On another thread, with the ticket kept meanwhile.
    fn read_disk(&self, ticket: FetchTicket, key: &Key, head: RequestHead<'_>, now: Now) -> Result<Served, FetchTicket> {
        let Some(found) = self.disk.find(key, head.fields).filter(|_| ticket.stale().is_none()) else { return Err(ticket) };
        let Some(object) = self.disk.read(&found, now) else { return Err(ticket) };
        match ticket.adopt(object, head.fields, now) {
            Adopted::Serve(object) => Ok(hit(head, &object, object.ttl_seconds(now))),
            Adopted::Fetch(ticket) => Err(ticket),
        }
    }

    fn fetch(&self, mut ticket: FetchTicket, request: &Lines, head: RequestHead<'_>, why: Forward, now: Now) -> Served {
        let mut sent = request.clone();
        sent.retain(|(name, _)| !revalidation::REPLACED_FIELDS.contains(&name.as_str()));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        sent.extend(ticket.condition().map(|(name, value)| (text(name), text(value))));
        let (status, response, body) = (self.upstream)(&sent);
        if let (500 | 502..=504, Some((object, _))) = (status, ticket.serve_stale(now)) {
            return hit(head, &object, object.ttl_seconds(now));
        }
        let response = fields(&response);
        let exchange = Exchange { request: head, response: ResponseHead { status, fields: &response }, sent: now, received: now };
        let forwarded = |ttl_seconds, stored| {
            let status = (status == 304).then_some(304);
            CacheStatus::Forwarded { why, status, ttl_seconds, stored, collapsed: false }.value("tidegate")
        };
        match ticket.begin(exchange) {
            Begun::Storing(mut writer) => {
                writer.push(&body);
                let object = writer.finish().expect("stored");
                self.disk.write(&object, now);
                Served { cache_status: forwarded(Some(object.ttl_seconds(now)), true), ..hit(head, &object, 0) }
            }
            Begun::Validated(object, stored) => {
                let stored = stored && self.disk.write(&object, now);
                Served { cache_status: forwarded(Some(object.ttl_seconds(now)), stored), ..hit(head, &object, 0) }
            }
            Begun::AskAgain(ticket) => self.fetch(ticket, request, head, why, now),
            Begun::NotStored(_) => Served { status, body, cache_status: forwarded(None, false) },
        }
    }

    fn forward(&self, key: &Key, head: RequestHead<'_>, request: &Lines, why: Forward, now: Now) -> Served {
        let (status, response, body) = (self.upstream)(request);
        let response = fields(&response);
        for key in invalidation::invalidated(key, head, ResponseHead { status, fields: &response }) {
            let purge = Purge::Url(key);
            self.store.purge(&purge, PurgeKind::Hard, now);
            self.disk.purge(&purge);
            self.store.purge(&purge, PurgeKind::Hard, now);
        }
        let status_line = CacheStatus::Forwarded { why, status: None, ttl_seconds: None, stored: false, collapsed: false };
        Served { status, body, cache_status: status_line.value("tidegate") }
    }
}

fn hit(head: RequestHead<'_>, object: &Arc<Object>, ttl_seconds: i64) -> Served {
    let whole = object.body.concat();
    let (status, body) = match answer::answer(head, &object.head, Some(object.body_bytes)) {
        Answer::Whole => (object.head.status, whole),
        Answer::NotModified => (304, Vec::new()),
        Answer::Part { first, last } => (206, whole[first as usize..=last as usize].to_vec()),
        Answer::NotSatisfiable => (416, Vec::new()),
    };
    Served { status, body, cache_status: CacheStatus::Hit { ttl_seconds }.value("tidegate") }
}

#[test]
fn a_request_goes_through_memory_disk_and_upstream() {
    let folder = tempfile::tempdir().expect("a folder");
    let upstream = |request: &Lines| {
        let head = lines(&[("cache-control", "max-age=60, stale-if-error=100"), ("etag", "\"a\""), ("vary", "accept-encoding")]);
        match request.iter().find(|(name, _)| name == "if-none-match" || name == "x-fail") {
            Some((name, _)) if name == "x-fail" => (503, Lines::new(), b"sorry".to_vec()),
            Some((_, tag)) if tag == "\"a\"" => (304, head, Vec::new()),
            Some(_) | None => (200, head, b"hello".to_vec()),
        }
    };
    let proxy = |store: Store| {
        let disk = Disk::new(DiskSettings::new(folder.path().to_path_buf()), 8 << 20);
        while disk.load(100, Now::at(1000)) == tidegate_cache::disk::Loaded::More {}
        Proxy { store, disk, upstream: &upstream }
    };
    let first = proxy(Store::new(Settings::default()));
    let check = |proxy: &Proxy<'_>, now: u64, method: &str, request: &[(&str, &str)], expected: (u16, &str, &str)| {
        let served = proxy.serve(method, "/", &lines(request), Now::at(now));
        let (status, body, cache_status) = expected;
        let cache_status = format!("tidegate; {cache_status}");
        assert_eq!(served, Served { status, body: body.as_bytes().to_vec(), cache_status }, "{now} {method} {request:?}");
    };
    check(&first, 1000, "GET", &[("if-none-match", "\"a\"")], (304, "", "fwd=uri-miss; ttl=60; stored"));
    check(&first, 1010, "GET", &[], (200, "hello", "hit; ttl=50"));
    check(&first, 1010, "GET", &[("range", "bytes=1-2")], (206, "el", "hit; ttl=50"));
    check(&first, 1010, "GET", &[("accept-encoding", "gzip")], (200, "hello", "fwd=vary-miss; ttl=60; stored"));
    // Another process, with nothing but the disk.
    let second = proxy(Store::new(Settings::default()));
    check(&second, 1020, "GET", &[], (200, "hello", "hit; ttl=40"));
    check(&second, 1070, "GET", &[], (200, "hello", "fwd=stale; fwd-status=304; ttl=60; stored"));
    check(&second, 1140, "GET", &[("x-fail", "1")], (200, "hello", "hit; ttl=-10"));
    check(&second, 1140, "POST", &[], (200, "hello", "fwd=method"));
    check(&second, 1140, "GET", &[("x-fail", "1")], (503, "sorry", "fwd=uri-miss"));
    assert_eq!((second.store.counts().objects, second.disk.counts().objects), (0, 0));
}
