//! `mirror`: a copy of a request to another pool, whose answer goes to nobody. It begins when the whole request is
//! there, in a task of its own, so nothing that happens to it reaches the request; what is held of it and how many
//! there are is bounded. One attempt, no waiting in a queue.

use super::Forwarding;
use super::body::reader_of;
use super::reply::bad_response;
use crate::failure::{Failure, upstream_body_fault};
use crate::snapshot::CompiledMirror;
use crate::surroundings::{context, key_hash};
use crate::worker::Worker;
use crate::worker_snapshot::WorkerSnapshot;
use aws_lc_rs::rand;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tidegate_balancing::Draw;
use tidegate_exchange::{BodyReader, Pooled, TURN_BYTES};
use tidegate_telemetry::{MirrorResult, UpstreamError};
use tidegate_transport::memory::BoundedShare;
use tidegate_transport::{Buf, Sock, Stream, rt};
use tidegate_upstream::attempt::{Begun, Whole, begin};
use tidegate_upstream::call::HeadKind;
use tidegate_upstream::choose::{Choice, NoChoice, choose_at, own_server, unserved};
use tidegate_upstream::connect::{Need, Opener, Upgrade};
use tidegate_upstream::errand::{self, Errand, Failed};
use tidegate_upstream::fault::{UpstreamFault, Was};
use tidegate_upstream::pool::WorkerPool;
use tidegate_upstream::retry::{Terms, Tries};
use tidegate_upstream::verdict::Attempt;
use tidegate_wire::head::{Fields, HeaderId, Method, RequestHead, ResponseHead};
use tidegate_wire::http1::has_token;
use tidegate_wire::{BodyFraming, HeadLimits};

/// Says to the server that its answer goes to nobody.
const MARK: &[u8] = b"x-mirrored";
/// Says which proxies have copied the request, one secret name for each: of our own copies there is none more, since a
/// pool that leads back here would otherwise keep a request going round for ever. A client knows no such name, and so
/// cannot keep its requests out of a mirror; what it invents here is added to and means nothing.
const COPIED_BY: &[u8] = b"x-mirrored-by";

/// What this process is called in there: random, and another one in every process.
static OWN_NAME: LazyLock<String> = LazyLock::new(|| {
    let mut random = [0; 16];
    // Without randomness clients could guess it; then they keep their own requests out of a mirror.
    let _ = rand::fill(&mut random);
    BASE64_URL_SAFE_NO_PAD.encode(random)
});

/// Whether this process has made the copy.
fn is_own_copy(fields: &Fields) -> bool {
    fields.all_named(COPIED_BY).any(|value| has_token(value, OWN_NAME.as_bytes()))
}

/// Marks a copy, beside the names of others that have copied what it is a copy of.
fn mark_copy(fields: &mut Fields) {
    let mut names: Vec<u8> = Vec::new();
    for value in fields.all_named(COPIED_BY) {
        names.extend_from_slice(value);
        names.extend_from_slice(b", ");
    }
    names.extend_from_slice(OWN_NAME.as_bytes());
    fields.set(COPIED_BY, &names);
    fields.set(MARK, b"1");
}
/// What is read of an answer, so that its connection can be used again; one with more is ended. No more than one turn
/// of the worker.
const ANSWER_BYTES_MAX: usize = TURN_BYTES;

/// A request that is being copied: who gets it, and what is there of it. Dropped before it was sent, it counts as
/// incomplete.
pub struct Copies<S: Sock> {
    targets: Vec<Target<S>>,
    body: CopiedBody,
    /// The largest body that some target takes.
    body_max: u64,
    head: Option<Pooled<RequestHead>>,
    facts: Option<CopyFacts>,
}

/// What is held of a request's body, in the account of all copies. The head is in it as well.
struct CopiedBody {
    bytes: Vec<u8>,
    share: BoundedShare,
    head_bytes: usize,
}

impl CopiedBody {
    fn empty() -> CopiedBody {
        CopiedBody { bytes: Vec::new(), share: BoundedShare::copied(), head_bytes: 0 }
    }

    /// Whether the head may be held as well.
    fn note_head(&mut self, bytes: usize) -> bool {
        self.head_bytes = bytes;
        self.share.try_set(bytes + self.bytes.capacity())
    }

    /// Adds a piece, where copies may hold more. What is allocated counts, and grows by doubling: the account is
    /// written a few times for a body and not with each piece.
    fn add(&mut self, piece: &[u8], bytes_max: u64) -> bool {
        let (length, capacity) = (self.bytes.len(), self.bytes.capacity());
        let wanted = length + piece.len();
        if wanted > capacity {
            let most = usize::try_from(bytes_max).unwrap_or(usize::MAX).max(wanted);
            let grown = wanted.max(2 * capacity).min(most);
            if !self.share.try_set(self.head_bytes + grown) {
                return false;
            }
            self.bytes.reserve_exact(grown - length);
        }
        self.bytes.extend_from_slice(piece);
        true
    }

    fn clear(&mut self) {
        self.bytes = Vec::new();
        self.share.clear();
    }
}

/// What was settled about the request, for each attempt at a server.
#[derive(Clone, Copy)]
struct CopyFacts {
    trailers_wanted: bool,
    is_grpc: bool,
    limits: HeadLimits,
}

/// One pool that gets a copy.
struct Target<S: Sock> {
    place: CopyPermit<S>,
    body_max: u64,
    total: Duration,
    need: Need,
    key_hash: u64,
    opener: Opener,
}

/// A copy's place among those of its worker and its pool, from the moment at which something is held of it.
struct CopyPermit<S: Sock> {
    worker: Rc<Worker<S>>,
    pool: Rc<WorkerPool<S>>,
    copies_max: u32,
    /// Of the request something is still to come.
    is_arriving: bool,
}

impl<S: Sock> CopyPermit<S> {
    fn take(worker: &Rc<Worker<S>>, pool: Rc<WorkerPool<S>>, copies_max: u32, is_arriving: bool) -> Option<CopyPermit<S>> {
        let place = CopyPermit { worker: worker.clone(), pool, copies_max, is_arriving };
        worker.copies.set(worker.copies.get() + 1);
        place.count().set(place.count().get() + 1);
        place.is_one_of_them().then_some(place)
    }

    /// The request is whole: from here on the place is one among those that are sent. Says whether there is one.
    fn arrive(&mut self) -> bool {
        self.count().set(self.count().get() - 1);
        self.is_arriving = false;
        self.count().set(self.count().get() + 1);
        self.is_one_of_them()
    }

    fn is_one_of_them(&self) -> bool {
        let is_one_of_them = self.count().get() <= self.copies_max;
        if !is_one_of_them {
            self.pool.metrics.mirrored(MirrorResult::TooMany);
        }
        is_one_of_them
    }

    /// Where it is counted.
    fn count(&self) -> &Cell<u32> {
        if self.is_arriving { &self.pool.copies.arriving } else { &self.pool.copies.sending }
    }
}

impl<S: Sock> Drop for CopyPermit<S> {
    fn drop(&mut self) {
        self.count().set(self.count().get() - 1);
        self.worker.copies.set(self.worker.copies.get() - 1);
    }
}

impl<S: Sock> Forwarding<'_, '_, S> {
    /// Settles who gets a copy of the request, if anybody does.
    pub(crate) fn choose_mirrors(&mut self, snapshot: &WorkerSnapshot<S>) {
        let worker = &self.connection.worker;
        if is_own_copy(&self.exchange.head.fields) || self.exchange.hop.upgrade.is_some() || worker.process.pressure.is_high() {
            return;
        }
        let declared = match self.exchange.framing {
            BodyFraming::Length(bytes) => bytes,
            BodyFraming::None | BodyFraming::Chunked | BodyFraming::UntilClose => 0,
        };
        let mut targets = Vec::new();
        for mirror in &self.route.mirrors {
            if !mirror.takes(self.exchange.head.method_name(), worker.random()) {
                continue;
            }
            let Some(pool) = snapshot.pool(mirror.pool, || worker.of()).cloned() else { continue };
            if declared > mirror.model.body_bytes_max {
                pool.metrics.mirrored(MirrorResult::BodyTooLarge);
            } else if let Some(place) = CopyPermit::take(worker, pool, mirror.model.copies_max, !self.exchange.body.is_finished())
            {
                targets.push(self.target(mirror, place));
            }
        }
        if !targets.is_empty() {
            let body_max = targets.iter().map(|target| target.body_max).max().unwrap_or(0);
            self.way.copies = Some(Box::new(Copies { targets, body: CopiedBody::empty(), body_max, head: None, facts: None }));
        }
    }

    fn target(&self, mirror: &CompiledMirror, place: CopyPermit<S>) -> Target<S> {
        let pool = &place.pool;
        let model = &pool.compiled.model;
        let context = context(
            self.connection,
            None::<&WorkerPool<S>>,
            &self.exchange.record,
            self.exchange.client_ip,
            self.exchange.hop.upgrade,
        );
        let need = Need {
            // Nothing is sent twice, so what it is sent on must be certain.
            certain: true,
            upgrade: Upgrade::None,
            prefers_h2: false,
            fresh: false,
            connect: model.timeouts.connect,
            head_limits: self.settings.head_limits,
            client: model.send_proxy_protocol.map(|_| self.client()),
        };
        let (body_max, total) = (mirror.model.body_bytes_max, mirror.model.total);
        Target {
            key_hash: key_hash(pool, &context, &self.exchange.head),
            opener: self.opener(pool),
            place,
            body_max,
            total,
            need,
        }
    }

    /// The head is as the upstream gets it: from here on the copies know what they are copies of. One without a body
    /// goes at once.
    pub(super) fn copy_head(&mut self, trailers_wanted: bool, is_grpc: bool) {
        let Some(copies) = &mut self.way.copies else { return };
        let mut head: Pooled<RequestHead> = Pooled::take();
        head.copy_from(&self.exchange.head);
        // What is sent is all there: nobody waits for leave to send it.
        head.fields.remove(b"expect");
        mark_copy(&mut head.fields);
        if !copies.body.note_head(head.fields.bytes.len()) {
            copies.drop_for_memory();
        }
        copies.head = Some(head);
        copies.facts = Some(CopyFacts { trailers_wanted, is_grpc, limits: self.settings.head_limits });
        self.send_copies_if_whole();
    }

    /// A piece of the body was taken from the client.
    pub(super) fn copy_piece(&mut self, piece: &[u8]) {
        if let Some(copies) = &mut self.way.copies {
            copies.note(piece);
        }
    }

    /// Sends them when nothing of the body is missing.
    pub(super) fn send_copies_if_whole(&mut self) {
        if self.exchange.body.is_finished()
            && let Some(copies) = self.way.copies.take()
        {
            copies.send();
        }
    }
}

impl<S: Sock> Copies<S> {
    /// A piece of the body.
    pub fn note(&mut self, piece: &[u8]) {
        if self.targets.is_empty() {
            return;
        }
        let bytes = (self.body.bytes.len() + piece.len()) as u64;
        if bytes > self.body_max {
            self.body.clear();
        }
        self.targets.retain(|target| {
            let fits = bytes <= target.body_max;
            if !fits {
                target.place.pool.metrics.mirrored(MirrorResult::BodyTooLarge);
            }
            fits
        });
        if !self.targets.is_empty() && !self.body.add(piece, self.body_max) {
            self.drop_for_memory();
        }
    }

    /// Nobody gets a copy: what somebody waits for needs the memory.
    fn drop_for_memory(&mut self) {
        for target in self.targets.drain(..) {
            target.place.pool.metrics.mirrored(MirrorResult::NoMemory);
        }
        self.body.clear();
    }

    /// The request is whole.
    pub fn send(mut self) {
        let (Some(mut head), Some(facts)) = (self.head.take(), self.facts) else { return };
        if head.fields.remove_id(HeaderId::TransferEncoding) || !self.body.bytes.is_empty() {
            head.fields.set(b"content-length", itoa::Buffer::new().format(self.body.bytes.len()).as_bytes());
        }
        let (head, body) = (Rc::new(head), Rc::new(std::mem::replace(&mut self.body, CopiedBody::empty())));
        for mut target in self.targets.drain(..) {
            if target.place.arrive() {
                rt::spawn(send(target, head.clone(), body.clone(), facts));
            }
        }
    }
}

/// What was not sent by now is never sent. A request that went to no upstream, since its answer was kept, had nothing
/// to copy.
impl<S: Sock> Drop for Copies<S> {
    fn drop(&mut self) {
        for target in self.targets.iter().filter(|_| self.head.is_some()) {
            target.place.pool.metrics.mirrored(MirrorResult::Incomplete);
        }
    }
}

async fn send<S: Sock>(target: Target<S>, head: Rc<Pooled<RequestHead>>, body: Rc<CopiedBody>, facts: CopyFacts) {
    let pool = &target.place.pool;
    let mut copying = Copying { target: &target, head: &head, body: &body.bytes, facts };
    let sending = Box::pin(errand::carry_out(&mut copying, pool.clone()));
    match rt::timeout(target.total, sending).await {
        Some(Ok(())) => pool.metrics.mirrored(MirrorResult::Sent),
        Some(Err(_)) => pool.metrics.mirrored(MirrorResult::Failed),
        None => {
            pool.metrics.mirrored(MirrorResult::Failed);
            pool.metrics.error(UpstreamError::TotalTimeout);
        }
    }
}

/// A copy on its way to one server.
struct Copying<'t, S: Sock> {
    target: &'t Target<S>,
    head: &'t RequestHead,
    body: &'t [u8],
    facts: CopyFacts,
}

impl<S: Sock> Errand<S> for Copying<'_, S> {
    type Done = ();
    type Failure = Failure;

    fn choose(&self, pool: &WorkerPool<S>, tried: &[usize]) -> Result<Choice, NoChoice> {
        let draw = Draw { key_hash: self.target.key_hash, random: self.target.opener.random, now: rt::now(), tried };
        choose_at(pool, own_server(pool, self.head), draw)
    }

    async fn wait(&mut self, pool: &mut Rc<WorkerPool<S>>, _: &[usize]) -> Result<Choice, Failure> {
        Err(unserved(pool, UpstreamError::NoServer).into())
    }

    async fn wait_for_server(&mut self, _: &mut Rc<WorkerPool<S>>, _: Instant) -> Result<bool, Failure> {
        Ok(false)
    }

    fn newer(&self, _: &Rc<WorkerPool<S>>) -> Option<Rc<WorkerPool<S>>> {
        None
    }

    async fn attempt(&mut self, attempt: Attempt<S>, _: &mut Tries) -> Result<(), Failed<Failure>> {
        let Copying { target, head, body, facts } = *self;
        let pool = attempt.pool();
        let whole = Whole {
            script: None,
            head,
            body,
            is_chunked: false,
            wants_trailers: facts.trailers_wanted || facts.is_grpc,
            need: Need { prefers_h2: facts.is_grpc, ..target.need },
            heard: None,
            opener: &|| target.opener.clone(),
            timeouts: pool.compiled.model.timeouts,
        };
        let outcome = match begin(pool, attempt.position(), &whole, None).await {
            Ok(begun) => discard(target, &attempt, begun, head.method, facts.limits).await,
            Err((fault, _)) => Err(fault.into()),
        };
        outcome.map_err(|failure| {
            let was = Was::Fresh;
            if let Failure::Upstream(fault) = failure {
                attempt.note(fault, was);
            }
            Failed { failure, was, position: attempt.position(), permit: None }
        })
    }

    fn random(&self) -> u64 {
        self.target.opener.random
    }

    /// Nothing is sent twice.
    fn terms<'a>(&'a self, _: &'a WorkerPool<S>) -> Terms<'a> {
        Terms { retry: None, is_idempotent: false, is_whole: false, try_until: None, since_start: Duration::ZERO }
    }

    fn fault(failure: &Failure) -> Option<UpstreamFault> {
        failure.fault()
    }
}

/// Reads the answer to its end, or to what is read of one, and keeps its connection where that is safe.
async fn discard<S: Sock>(
    target: &Target<S>,
    attempt: &Attempt<S>,
    begun: Begun<S>,
    method: Method,
    limits: HeadLimits,
) -> Result<(), Failure> {
    let Begun { call, sent_at, took: _ } = begun;
    let mut response: Pooled<ResponseHead> = Pooled::take();
    while call.read_head(&limits, &mut response).await? == HeadKind::Interim {}
    // A switch of protocols was not asked for.
    if response.status == 101 {
        return Err(bad_response());
    }
    attempt.answered(response.status, sent_at.elapsed(), None);
    let pool = attempt.pool();
    let answer = call.answer(&response, method, pool.compiled.model.timeouts.idle, &limits)?;
    let is_whole = throw_away(&mut reader_of(answer.body)).await?;
    let keeping = answer.keeping.only_if(is_whole);
    if let Some(stream) = call.stream() {
        target.account(stream);
    }
    call.give_back(&pool.servers[attempt.position()], keeping);
    Ok(())
}

/// Whether it came to its end within what is read of one.
async fn throw_away<S: Sock>(body: &mut BodyReader<'_, S>) -> Result<bool, Failure> {
    let mut bytes = 0;
    while !body.is_finished() {
        let piece: Option<Buf> = body.read().await.map_err(|fault| upstream_body_fault(&fault))?;
        let Some(piece) = piece else { break };
        bytes += piece.len();
        if bytes > ANSWER_BYTES_MAX {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<S: Sock> Target<S> {
    fn account(&self, stream: &Stream<S>) {
        let metrics = &self.place.worker.metrics;
        metrics.upstream_bytes_received.add(stream.take_received_bytes());
        metrics.upstream_bytes_sent.add(stream.take_sent_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{COPIED_BY, MARK, is_own_copy, mark_copy};
    use tidegate_wire::head::Fields;

    #[test]
    fn a_copy_is_known_by_a_name_that_no_client_has() {
        let fields_of = |values: &[(&[u8], &str)]| {
            let mut fields = Fields::default();
            for (name, value) in values {
                fields.push(name, value.as_bytes());
            }
            fields
        };
        let invented: [&[(&[u8], &str)]; 5] =
            [&[], &[(MARK, "1")], &[(COPIED_BY, "1")], &[(COPIED_BY, "")], &[(MARK, "1"), (COPIED_BY, "a, b"), (COPIED_BY, "c")]];
        for values in invented {
            let mut fields = fields_of(values);
            assert!(!is_own_copy(&fields), "{fields:?}");
            mark_copy(&mut fields);
            assert!(is_own_copy(&fields), "{fields:?}");
            // Another proxy on the way adds its own, and the copy is still known when it comes back.
            let by = fields.all_named(COPIED_BY).next().unwrap_or_default();
            let by = [by, b", another"].concat();
            assert!(is_own_copy(&fields_of(&[(COPIED_BY, std::str::from_utf8(&by).expect("text"))])), "{fields:?}");
        }
    }
}
