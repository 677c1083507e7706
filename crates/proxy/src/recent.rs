//! The last requests of a worker, for `explain --request`: what was decided about each, and by which configuration.
//! Fixed in size; a request is copied in when it has ended, without an allocation. Failed ones have a ring of their
//! own, because those are asked about and the others push them out.

use crate::worker_snapshot::WorkerSite;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
pub use tidegate_middleware::RequestId;
use tidegate_model::{PoolName, Scheme};
use tidegate_routing::RouteId;
use tidegate_transport::Sock;
use tidegate_upstream::pool::WorkerPool;

/// Requests that each ring holds.
pub const RECENT_MAX: usize = 512;
const METHOD_BYTES_MAX: usize = 16;
const HOST_BYTES_MAX: usize = 72;
const TARGET_BYTES_MAX: usize = 160;

/// What is kept of a request that has ended.
pub struct RecentRequest<S: Sock> {
    pub ended: EndedRequest<S>,
    pub asked: RequestLine,
}

/// What was asked for. Written where it is kept: most of it is room.
#[derive(Debug, Default)]
pub struct RequestLine {
    pub method: Short<METHOD_BYTES_MAX>,
    pub host: Short<HOST_BYTES_MAX>,
    /// Path and query as the client sent them.
    pub target: Short<TARGET_BYTES_MAX>,
}

/// What became of a request.
pub struct EndedRequest<S: Sock> {
    pub id: RequestId,
    /// When its answer ended.
    pub at: Instant,
    pub duration_us: u64,
    pub status: u16,
    pub retries: u32,
    pub client_ip: IpAddr,
    pub scheme: Scheme,
    pub listen_port: u16,
    pub generation: u64,
    pub reason: Option<&'static str>,
    pub setting: Option<&'static str>,
    pub site: Option<Rc<WorkerSite>>,
    pub route: Option<RouteId>,
    pub pool: Option<Rc<WorkerPool<S>>>,
    /// The names of its pool and server, once that pool is another one: what is remembered must not keep servers that
    /// left.
    pub past_pool: Option<Box<(PoolName, Option<Arc<str>>)>>,
    /// Position in the pool.
    pub server: Option<usize>,
}

/// The beginning of a text.
#[derive(Debug, Clone, Copy)]
pub struct Short<const MAX: usize> {
    bytes: [u8; MAX],
    len: u8,
    is_cut: bool,
}

impl<const MAX: usize> Default for Short<MAX> {
    fn default() -> Self {
        Short { bytes: [0; MAX], len: 0, is_cut: false }
    }
}

impl<const MAX: usize> Short<MAX> {
    /// Takes another text instead.
    #[inline]
    pub fn set(&mut self, text: &[u8]) {
        (self.len, self.is_cut) = (0, false);
        self.push(text);
    }

    #[inline]
    pub fn push(&mut self, text: &[u8]) {
        let room = MAX - usize::from(self.len);
        let taken = text.len().min(room);
        self.bytes[usize::from(self.len)..][..taken].copy_from_slice(&text[..taken]);
        self.len += taken as u8;
        self.is_cut |= taken < text.len();
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// More was there than fits.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Both rings of one worker.
pub struct RecentRequests<S: Sock> {
    all: RefCell<Ring<S>>,
    failed: RefCell<Ring<S>>,
}

struct Ring<S: Sock> {
    entries: Vec<RecentRequest<S>>,
    next: usize,
}

impl<S: Sock> Default for RecentRequests<S> {
    fn default() -> Self {
        let ring = || RefCell::new(Ring { entries: Vec::new(), next: 0 });
        RecentRequests { all: ring(), failed: ring() }
    }
}

impl<S: Sock> RecentRequests<S> {
    #[inline]
    pub fn add(&self, ended: EndedRequest<S>, write: impl FnOnce(&mut RequestLine)) {
        let ring = if ended.status >= 400 || ended.reason.is_some() { &self.failed } else { &self.all };
        write(&mut ring.borrow_mut().add(ended).asked);
    }

    /// Keeps of pools that are not in use any more their names only.
    pub fn let_go(&self, is_in_use: impl Fn(&Rc<WorkerPool<S>>) -> bool) {
        for ring in [&self.all, &self.failed] {
            for request in &mut ring.borrow_mut().entries {
                let ended = &mut request.ended;
                let Some(pool) = ended.pool.take_if(|pool| !is_in_use(pool)) else { continue };
                let server = ended.server.and_then(|server| pool.compiled.servers.get(server));
                ended.past_pool = Some(Box::new((pool.compiled.name.clone(), server.map(|server| server.authority.clone()))));
            }
        }
    }

    /// Looks for a request, the newest first.
    pub fn find<T>(&self, id: RequestId, see: impl FnOnce(&RecentRequest<S>) -> T) -> Option<T> {
        let (failed, all) = (self.failed.borrow(), self.all.borrow());
        failed.entries.iter().chain(&all.entries).find(|request| request.ended.id == id).map(see)
    }
}

impl<S: Sock> Ring<S> {
    /// In the place of the oldest, with what that one asked for.
    #[inline]
    fn add(&mut self, ended: EndedRequest<S>) -> &mut RecentRequest<S> {
        let place = self.next;
        self.next = (place + 1) % RECENT_MAX;
        if place < self.entries.len() {
            self.entries[place].ended = ended;
        } else {
            // All at once, so that no request after the first pays for growth.
            self.entries.reserve_exact(RECENT_MAX - self.entries.len());
            self.entries.push(RecentRequest { ended, asked: RequestLine::default() });
        }
        &mut self.entries[place]
    }
}

#[cfg(test)]
mod tests {
    use super::{EndedRequest, RECENT_MAX, RecentRequests, Short};
    use std::net::IpAddr;
    use std::time::Instant;
    use tidegate_middleware::RequestId;
    use tidegate_model::Scheme;
    use tidegate_transport::DriverSock;

    fn request(id: u128, status: u16) -> EndedRequest<DriverSock> {
        EndedRequest {
            id: RequestId(id),
            at: Instant::now(),
            duration_us: 0,
            status,
            retries: 0,
            client_ip: IpAddr::from([127, 0, 0, 1]),
            scheme: Scheme::Http,
            listen_port: 80,
            generation: 1,
            reason: None,
            setting: None,
            site: None,
            route: None,
            pool: None,
            past_pool: None,
            server: None,
        }
    }

    #[test]
    fn the_newest_are_found_and_failed_ones_are_not_pushed_out_by_others() {
        let recent = RecentRequests::default();
        recent.add(request(1, 502), |asked| asked.host.set(b"failed.example"));
        for id in 2..=(RECENT_MAX as u128 + 2) {
            recent.add(request(id, 200), |asked| asked.host.set(id.to_string().as_bytes()));
        }
        let check = |id: u128, expected: Option<(u16, &str)>| {
            let found = recent.find(RequestId(id), |request| {
                (request.ended.status, String::from_utf8_lossy(request.asked.host.bytes()).into_owned())
            });
            assert_eq!(found, expected.map(|(status, host)| (status, host.to_owned())), "{id}");
        };
        check(1, Some((502, "failed.example")));
        check(2, None);
        check(3, Some((200, "3")));
        check(RECENT_MAX as u128 + 2, Some((200, "514")));
        check(9_999, None);
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_and_says_so() {
        let mut short: Short<4> = Short::default();
        short.set(b"ab");
        assert!((short.bytes(), short.is_cut()) == (b"ab", false));
        short.push(b"cde");
        assert!((short.bytes(), short.is_cut()) == (b"abcd", true));
        short.set(b"e");
        assert!((short.bytes(), short.is_cut()) == (b"e", false));
    }
}
