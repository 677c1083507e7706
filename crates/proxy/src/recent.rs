//! The last requests of a worker, for `explain --request`: what was decided about each, and by which configuration.
//! Fixed in size; a request is copied in when it has ended, without an allocation. Failed ones have a ring of their
//! own, because those are asked about and the others push them out.

use crate::worker_snapshot::WorkerSite;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
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
    pub id: RequestId,
    /// When its answer ended, in seconds since 1970.
    pub answered_unix_seconds: u64,
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
    pub method: Short<METHOD_BYTES_MAX>,
    pub host: Short<HOST_BYTES_MAX>,
    /// Path and query as the client sent them.
    pub target: Short<TARGET_BYTES_MAX>,
}

/// The beginning of a text.
#[derive(Debug, Clone, Copy)]
pub struct Short<const MAX: usize> {
    bytes: [u8; MAX],
    len: u8,
    is_cut: bool,
}

impl<const MAX: usize> Short<MAX> {
    #[inline]
    pub fn new(text: &[u8]) -> Short<MAX> {
        let mut short = Short { bytes: [0; MAX], len: 0, is_cut: false };
        short.push(text);
        short
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
    pub fn add(&self, request: RecentRequest<S>) {
        let ring = if request.status >= 400 || request.reason.is_some() { &self.failed } else { &self.all };
        ring.borrow_mut().add(request);
    }

    /// Keeps of pools that are not in use any more their names only.
    pub fn let_go(&self, is_in_use: impl Fn(&Rc<WorkerPool<S>>) -> bool) {
        for ring in [&self.all, &self.failed] {
            for request in &mut ring.borrow_mut().entries {
                let Some(pool) = request.pool.take_if(|pool| !is_in_use(pool)) else { continue };
                let server = request.server.and_then(|server| pool.compiled.servers.get(server));
                request.past_pool = Some(Box::new((pool.compiled.name.clone(), server.map(|server| server.authority.clone()))));
            }
        }
    }

    /// Looks for a request, the newest first.
    pub fn find<T>(&self, id: RequestId, see: impl FnOnce(&RecentRequest<S>) -> T) -> Option<T> {
        let (failed, all) = (self.failed.borrow(), self.all.borrow());
        failed.entries.iter().chain(&all.entries).find(|request| request.id == id).map(see)
    }
}

impl<S: Sock> Ring<S> {
    #[inline]
    fn add(&mut self, request: RecentRequest<S>) {
        match self.entries.get_mut(self.next) {
            Some(oldest) => *oldest = request,
            None => {
                // All at once, so that no request after the first pays for growth.
                self.entries.reserve_exact(RECENT_MAX - self.entries.len());
                self.entries.push(request);
            }
        }
        self.next = (self.next + 1) % RECENT_MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::{RECENT_MAX, RecentRequest, RecentRequests, Short};
    use std::net::IpAddr;
    use tidegate_middleware::RequestId;
    use tidegate_model::Scheme;
    use tidegate_transport::TokioSock;

    fn request(id: u128, status: u16) -> RecentRequest<TokioSock> {
        RecentRequest {
            id: RequestId(id),
            answered_unix_seconds: 0,
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
            method: Short::new(b"GET"),
            host: Short::new(b"example.com"),
            target: Short::new(b"/"),
        }
    }

    #[test]
    fn the_newest_are_found_and_failed_ones_are_not_pushed_out_by_others() {
        let recent = RecentRequests::default();
        recent.add(request(1, 502));
        for id in 2..=(RECENT_MAX as u128 + 2) {
            recent.add(request(id, 200));
        }
        let check = |id: u128, expected: Option<u16>| {
            assert_eq!(recent.find(RequestId(id), |request| request.status), expected, "{id}");
        };
        check(1, Some(502));
        check(2, None);
        check(3, Some(200));
        check(RECENT_MAX as u128 + 2, Some(200));
        check(9_999, None);
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_and_says_so() {
        let mut short: Short<4> = Short::new(b"ab");
        assert!((short.bytes(), short.is_cut()) == (b"ab", false));
        short.push(b"cde");
        assert!((short.bytes(), short.is_cut()) == (b"abcd", true));
    }
}
