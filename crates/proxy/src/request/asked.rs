//! `forward-auth` on the request path: a question about the request goes to the servers of a pool, and their answer
//! decides what comes of it. What is asked and what an answer means is in `middleware::forward_auth`; how a question
//! travels, in `forward::asking`.

use super::Request;
use crate::auth::{Allowed, digest};
use crate::failure::Failure;
use crate::forward::{Asking, QuestionTerms, Told, WholeAnswer, set_forwarded_fields};
use crate::request_ids;
use crate::snapshot::CompiledRoute;
use crate::surroundings::context;
use std::cell::Cell;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tidegate_access::{Identity, LogIn};
use tidegate_exchange::pace::Pace;
use tidegate_exchange::{BodyReader, BodySource, Exchange, NextPiece, Pooled, body_fault, gone, short_us, unless_gone};
use tidegate_message::body::BodyFault;
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::grpc::become_grpc;
use tidegate_middleware::{
    AuthFault, AuthMeaning, CHECK_PATH, CheckFacts, CompiledForwardAuth, QuestionOf, Refusal, View, compiled_forward_auth_of,
    read_check, without_secrets, write_check,
};
use tidegate_passwords::USER_NAME_BYTES_MAX;
use tidegate_telemetry::{AuthResult, UpstreamError};
use tidegate_transport::buffer::CAPACITY;
use tidegate_transport::memory::BoundedShare;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_upstream::errand::carry_out;
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::head::{Fields, HeaderId, Method, RequestHead, ResponseHead, Version};
use tidegate_wire::http1::expects_continue;
use tidegate_wire::{BodyFraming, parse_authority};

/// Why a client has another server's answer, for the log.
const REFUSED: &str = "auth_refused";
const SETTING: &str = "forward-auth";

/// What comes of a question.
pub(super) enum AuthOutcome {
    GoesOn,
    /// What the server says to who may not.
    Answer(Box<AuthRefusal>),
    Refused(Refusal),
}

/// The answer of an auth server to who may not go on.
pub(super) struct AuthRefusal {
    answer: WholeAnswer,
    /// Where a browser is sent to instead.
    location: Option<Vec<u8>>,
}

impl<S: Sock> Request<'_, '_, S> {
    /// Whether what was allowed before holds for this request as well; then it goes on by that.
    pub(super) fn recall(&mut self, route: &CompiledRoute, auth: &CompiledForwardAuth) -> bool {
        let Some(key) = self.key_of(route, auth) else { return false };
        let now = rt::now();
        let Some(allowed) = self.connection.worker.allowed.borrow_mut().get(&key, now) else { return false };
        auth.remove_copied(&mut self.exchange.head.fields);
        for (name, value) in &allowed.fields {
            self.exchange.head.fields.push(name, value);
        }
        if let Some(identity) = &allowed.identity {
            self.exchange.record.identify(identity.clone());
        }
        if let Some(pool) = self.auth_pool(route) {
            pool.metrics.asked(AuthResult::Remembered);
        }
        true
    }

    /// By what an answer about this request is remembered: nothing that it says of its host, its servers or its
    /// settings is in the key of another.
    fn key_of(&self, route: &CompiledRoute, auth: &CompiledForwardAuth) -> Option<[u8; 32]> {
        auth.settings.remembers.as_ref()?;
        // What the server says may depend on the body that goes along, and on none that it has not seen.
        if auth.settings.body_bytes_max.is_some() && self.exchange.framing != BodyFraming::None {
            return None;
        }
        let mut key: Pooled<Vec<u8>> = Pooled::take();
        let context = context(
            self.connection,
            None::<&WorkerPool<S>>,
            &self.exchange.record,
            self.exchange.client_ip,
            self.exchange.hop.upgrade,
        );
        let head = &self.exchange.head;
        let view = View { context: &context, request: head, response: None };
        let site = self.site.as_ref().map_or("", |site| &site.compiled.name);
        // Who the client is was not found out for the cache where there is none.
        let keeps = [u8::from(route.cache.is_some())];
        auth.write_key(view, &mut key).then(|| {
            let settings = route.auth.as_ref().map_or([0; 32], |auth| auth.digest);
            digest(&[&settings, &keeps, site.as_bytes(), head.host(), &key])
        })
    }

    fn auth_pool(&self, route: &CompiledRoute) -> Option<Rc<WorkerPool<S>>> {
        let (snapshot, _) = self.place.as_ref()?;
        snapshot.pool(route.auth.as_ref()?.pool, || self.connection.worker.of()).cloned()
    }

    /// Asks about the request, waits for the answer, and does as it says.
    pub(super) async fn ask_auth_server(&mut self, route: &CompiledRoute) -> Result<AuthOutcome, Failure> {
        let (Some(auth), Some(pool)) = (compiled_forward_auth_of(&route.steps), self.auth_pool(route)) else {
            return Ok(AuthOutcome::Refused(AuthFault::Unreachable.into()));
        };
        if self.connection.worker.process.pressure.is_high() {
            return Ok(self.go_on_without(auth, &pool, AuthFault::Busy, false));
        }
        let held = match auth.settings.body_bytes_max {
            Some(bytes_max) if self.exchange.hop.upgrade.is_none() => {
                match Box::pin(self.hold_body(bytes_max, pool.compiled.model.timeouts.idle)).await? {
                    Ok(held) => held,
                    Err(refusal) => return Ok(AuthOutcome::Refused(refusal)),
                }
            }
            Some(_) | None => None,
        };
        let mut question = self.question((route, auth), &pool, held.as_ref().map(|held| held.bytes.len() as u64));
        let mut body = held.as_ref().map_or(&[][..], |held| &held.bytes);
        let check = if auth.settings.is_grpc { self.check(&pool, &mut question, body) } else { Vec::new() };
        if auth.settings.is_grpc {
            body = &check;
        }
        let began = rt::now();
        let (told, is_refused) = self.send_question(auth, &pool, &question, body).await?;
        let told = match told {
            Some(told) => told,
            // What the request may take as a whole is over with it.
            None if self.exchange.record.left_of(route.timeouts.total).is_zero() => {
                return Ok(AuthOutcome::Refused(UpstreamError::TotalTimeout.into()));
            }
            None => Err(UpstreamError::TotalTimeout),
        };
        let asked = self.exchange.record.asked.get_or_insert_default();
        asked.took_us = Some(short_us(began.elapsed()));
        match told {
            Ok(Told::Answer(answer)) if auth.settings.is_grpc => match checked(answer) {
                Ok(answer) => Ok(self.follow(route, auth, &pool, answer, is_refused)),
                Err(Unchecked { fault, is_away }) => Ok(self.go_on_without(auth, &pool, fault, is_refused || !is_away)),
            },
            Ok(Told::Answer(answer)) => Ok(self.follow(route, auth, &pool, answer, is_refused)),
            // What it says is not known, and a client may have made it long.
            Ok(Told::TooLong) => Ok(self.go_on_without(auth, &pool, AuthFault::TooLong, true)),
            Err(error) => Ok(match AuthFault::of(error) {
                Some(fault) => self.go_on_without(auth, &pool, fault, is_refused),
                None => AuthOutcome::Refused(error.into()),
            }),
        }
    }

    /// Sends it, unless the client leaves meanwhile. `None`: there was no answer in the time that there is. The flag
    /// says whether some server has begun to say no.
    async fn send_question(
        &mut self,
        auth: &CompiledForwardAuth,
        pool: &Rc<WorkerPool<S>>,
        question: &RequestHead,
        body: &[u8],
    ) -> Result<(Option<Result<Told, UpstreamError>>, bool), Failure> {
        let Exchange { responder, record, client_ip, .. } = &mut *self.exchange;
        let total = self.site.as_ref().and_then(|site| site.compiled.route(self.route).timeouts.total);
        let mut asking = Asking {
            connection: self.connection,
            record,
            client_ip: *client_ip,
            terms: QuestionTerms {
                retry: &auth.settings.retry,
                is_grpc: auth.settings.is_grpc,
                answer_bytes_max: auth.settings.answer_bytes_max,
                keeps_good: auth.settings.is_grpc,
            },
            head_limits: self.mark.settings.head_limits,
            question,
            body,
            is_refused: Cell::new(false),
            try_until: None,
        };
        pool.budget.note_request(self.connection.worker.process.since_start(record.started));
        let left = record.left_of(total).min(auth.settings.total);
        let answered = rt::timeout(left, carry_out(&mut asking, pool.clone()));
        // Nobody reads the request's body meanwhile, so nobody else would notice that its client has left.
        let told = unless_gone(responder, &Cell::new(true), pin!(answered)).await?;
        if told.is_none() {
            pool.metrics.error(UpstreamError::TotalTimeout);
        }
        Ok((told.map(|told| told.map_err(|fault| fault.error)), asking.is_refused.get()))
    }

    /// What is asked about: the request as its route was found by it.
    fn question_of(&self) -> QuestionOf<'_> {
        let Exchange { head, record, .. } = &*self.exchange;
        let bytes = &head.fields.bytes;
        QuestionOf {
            scheme: head.fields.get(HeaderId::XForwardedProto).unwrap_or(self.connection.scheme().as_str().as_bytes()),
            authority: head.authority(),
            path: record.matched_path.of(bytes),
            query: record.told_query.map(|query| query.of(bytes)),
        }
    }

    fn question(
        &self,
        (route, auth): (&CompiledRoute, &CompiledForwardAuth),
        pool: &WorkerPool<S>,
        body_bytes: Option<u64>,
    ) -> Pooled<RequestHead> {
        let mut question: Pooled<RequestHead> = Pooled::take();
        auth.write_question(&self.question_of(), &self.exchange.head, body_bytes, &mut question);
        set_forwarded_fields(self.connection, &mut question);
        let worker = &self.connection.worker;
        request_ids::tell(&route.request_ids, &mut question.fields, &self.exchange.record, || worker.random());
        let Exchange { head, record, client_ip, hop, .. } = &*self.exchange;
        let context = context(self.connection, None::<&WorkerPool<S>>, record, *client_ip, hop.upgrade);
        let view = View { context: &context, request: head, response: None };
        auth.say(view, &mut question, &mut worker.scratch.borrow_mut());
        if !question.fields.has(HeaderId::Host) {
            let host = pool.compiled.servers.first().map_or_else(String::new, |server| server.model.address.host_field());
            question.fields.push_id(HeaderId::Host, host.as_bytes());
        }
        question
    }

    /// Makes a question of Envoy's `ext_authz` of one over HTTP: a call of gRPC, whose message is given back.
    fn check(&self, pool: &WorkerPool<S>, question: &mut RequestHead, body: &[u8]) -> Vec<u8> {
        let Exchange { head, record, client_ip, framing, .. } = &*self.exchange;
        let local = self.connection.local_address();
        let id = record.request_id().see(record.given_id.as_deref(), str::to_owned);
        let facts = CheckFacts {
            client: (*client_ip, self.connection.client.port()),
            local: Some((local.ip(), local.port())),
            id: &id,
            protocol: head.version.as_str(),
            now_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            size: framing.declared_length(),
            body,
        };
        let message = write_check(&self.question_of(), question, head.method_name(), &facts);
        question.clear();
        question.version = Version::Http2;
        question.method = Method::Post;
        question.method_name = question.fields.append(&[b"POST"]);
        question.set_path(CHECK_PATH.as_bytes());
        let host = pool.compiled.servers.first().map_or_else(String::new, |server| server.model.address.host_field());
        let authority = question.fields.append(&[host.as_bytes()]);
        if let Ok(parsed) = parse_authority(host.as_bytes()) {
            question.set_authority(authority, &parsed);
        }
        question.fields.push_id(HeaderId::Host, host.as_bytes());
        question.fields.push_id(HeaderId::ContentType, b"application/grpc");
        question.fields.push_id(HeaderId::Te, b"trailers");
        message
    }

    /// Does as the answer says.
    fn follow(
        &mut self,
        route: &CompiledRoute,
        auth: &CompiledForwardAuth,
        pool: &WorkerPool<S>,
        answer: WholeAnswer,
        is_refused: bool,
    ) -> AuthOutcome {
        self.exchange.record.asked.get_or_insert_default().status = Some(answer.head.status);
        let location = match AuthMeaning::of(answer.head.status, answer.head.fields.has(HeaderId::Location)) {
            AuthMeaning::GoesOn if auth.names_several(&answer.head) => {
                return self.go_on_without(auth, pool, AuthFault::Broken, true);
            }
            AuthMeaning::GoesOn => {
                pool.metrics.asked(AuthResult::Allowed);
                self.let_through(route, auth, &answer.head);
                return AuthOutcome::GoesOn;
            }
            AuthMeaning::Fault(fault) => {
                let is_away = (500..600).contains(&answer.head.status);
                return self.go_on_without(auth, pool, fault, is_refused || !is_away);
            }
            AuthMeaning::IsTheAnswer => None,
            AuthMeaning::NotLoggedIn => {
                let asked = self.question_of();
                let query = asked.query.map(|query| without_secrets(query, &route.secret_parameters));
                let query = query.as_deref().filter(|query| !query.is_empty());
                auth.sign_in_location(&QuestionOf { query, ..asked }, &self.exchange.head)
            }
        };
        pool.metrics.asked(AuthResult::Refused);
        AuthOutcome::Answer(Box::new(AuthRefusal { answer, location }))
    }

    /// Tells the upstream what the answer says, and keeps what comes of it.
    fn let_through(&mut self, route: &CompiledRoute, auth: &CompiledForwardAuth, answer: &ResponseHead) {
        let key = self.key_of(route, auth);
        let Exchange { head, record, client_ip, .. } = &mut *self.exchange;
        let asked_with = || digest_of_question(&head.fields, *client_ip);
        let identity = identity(auth, answer, route.cache.is_some().then_some(asked_with)).map(Arc::new);
        auth.remove_copied(&mut head.fields);
        auth.each_copied(answer, |name, value| head.fields.push(name, value));
        if let Some(identity) = &identity {
            record.identify(identity.clone());
        }
        auth.each_cookie(answer, |cookie| record.asked.get_or_insert_default().cookies.push(cookie.into()));
        if let (Some(key), Some(remembers)) = (key, &auth.settings.remembers) {
            let mut allowed = Allowed { until: rt::now() + remembers.ttl, fields: Vec::new(), identity };
            auth.each_copied(answer, |name, value| allowed.fields.push((name.into(), value.into())));
            self.connection.worker.allowed.borrow_mut().add(key, Rc::new(allowed));
        }
    }

    /// Nothing is known of the client, and nobody says anything of it. Who may have been refused, however badly, goes
    /// on nowhere: what a server cannot say well may be so by the client's doing.
    fn go_on_without(
        &mut self,
        auth: &CompiledForwardAuth,
        pool: &WorkerPool<S>,
        fault: AuthFault,
        is_refused: bool,
    ) -> AuthOutcome {
        pool.metrics.asked(AuthResult::Failed);
        if is_refused || !auth.settings.allows_on_error {
            return AuthOutcome::Refused(fault.into());
        }
        auth.remove_copied(&mut self.exchange.head.fields);
        AuthOutcome::GoesOn
    }

    /// Gives the client the answer of the auth server, or where to log in.
    pub(super) async fn pass_refusal(&mut self, refusal: &AuthRefusal) -> Result<(), Failure> {
        let AuthRefusal { answer, location } = refusal;
        let (exchange, around) = self.parts();
        let status = match (location, exchange.head.method) {
            (None, _) => answer.head.status,
            (Some(_), Method::Get | Method::Head) => 302,
            // The log-in is read, not sent to again (RFC 9110 section 15.4.4).
            (Some(_), _) => 303,
        };
        exchange.record.status = status;
        exchange.record.fail(REFUSED, Some(SETTING));
        if exchange.is_grpc_call() {
            // Calls cannot be redirected.
            begin_answer(if status < 400 { 401 } else { status }, &mut exchange.response);
            around.run_response_steps(exchange);
            become_grpc("the auth server does not let the call through", REFUSED, &mut exchange.response);
            return around.send_grpc(exchange).await;
        }
        begin_answer(status, &mut exchange.response);
        let fields = &mut exchange.response.fields;
        match location {
            Some(location) => {
                answer.head.fields.all(HeaderId::SetCookie).for_each(|cookie| fields.push_id(HeaderId::SetCookie, cookie));
                fields.push_id(HeaderId::Location, location);
                fields.push_id(HeaderId::CacheControl, b"no-store");
            }
            None => {
                answer.head.fields.iter().for_each(|(name, value)| fields.push(name, value));
                fields.remove_hop_by_hop();
                for id in [HeaderId::ContentLength, HeaderId::Trailer] {
                    fields.remove_id(id);
                }
            }
        }
        around.run_response_steps(exchange);
        let body = if location.is_some() { &[][..] } else { &answer.body };
        around.send_whole(exchange, body).await
    }

    /// Takes all of the body, and puts it back as one that is there already.
    async fn hold_body(&mut self, bytes_max: u64, idle: Duration) -> Result<Result<Option<Rc<HeldBody>>, Refusal>, Failure> {
        let exchange = &mut *self.exchange;
        if exchange.framing == BodyFraming::None {
            return Ok(Ok(None));
        }
        if exchange.framing.declared_length().is_some_and(|declared| declared > bytes_max) {
            return Ok(Err(Refusal::AuthBodyTooLarge));
        }
        if !exchange.body.is_finished() && expects_continue(&exchange.head) {
            begin_answer(100, &mut exchange.response);
            exchange.responder.send_interim(&exchange.response).await.map_err(gone)?;
        }
        // Whoever asked for leave has it.
        exchange.head.fields.remove_id(HeaderId::Expect);
        let mut held = HeldBody { bytes: Vec::new(), share: BoundedShare::collected() };
        let mut pace = Pace::of_collected(self.mark.settings.body_rate_bytes, idle);
        let mut next = exchange.body.at_hand().map_err(body_fault)?;
        loop {
            let piece = match next.take() {
                Some(piece) => piece,
                None if exchange.body.is_finished() => break,
                None => match pace.read(&mut exchange.body, || false).await.map_err(body_fault)? {
                    Some(piece) => piece,
                    None => break,
                },
            };
            if let Err(refusal) = held.add(&piece, bytes_max) {
                // What was taken stays taken: nothing follows on the connection.
                exchange.record.request_bytes += held.bytes.len() as u64;
                return Ok(Err(refusal));
            }
        }
        // Of a body that is held they are not.
        drop(exchange.body.take_trailers());
        if let BodyReader::H1(reader) = &exchange.body {
            reader.stream.sock.set_read_limit(ReadLimit::Never);
        }
        let held = Rc::new(held);
        exchange.body = BodyReader::Made(Box::new(HeldReader { held: held.clone(), sent: 0 }));
        Ok(Ok(Some(held)))
    }
}

/// Why there is nothing in the answer to a call of `ext_authz`.
struct Unchecked {
    fault: AuthFault,
    /// The server could not be asked, and has said nothing.
    is_away: bool,
}

/// What a call of `ext_authz` has been answered, as the answer over HTTP that means the same.
fn checked(answer: WholeAnswer) -> Result<WholeAnswer, Unchecked> {
    const DEADLINE_EXCEEDED: &[u8] = b"4";
    const UNAVAILABLE: &[u8] = b"14";
    let unread = |fault| Unchecked { fault, is_away: false };
    let of_trailers = answer.trailers.as_deref().and_then(|fields| fields.all_named(b"grpc-status").next());
    let status = of_trailers.or_else(|| answer.head.fields.all_named(b"grpc-status").next());
    match (answer.head.status, status) {
        (200, Some(b"0")) => {}
        // The call has failed, whatever its message would say. Other codes say that the server has begun with it:
        // INTERNAL, for one, is what it says of an answer that it could not write.
        (200, Some(status)) => {
            let is_away = answer.body.is_empty() && [DEADLINE_EXCEEDED, UNAVAILABLE].contains(&status);
            return Err(Unchecked { fault: AuthFault::Failed, is_away });
        }
        (500..=599, _) => return Err(Unchecked { fault: AuthFault::Failed, is_away: true }),
        _ => return Err(unread(AuthFault::Broken)),
    }
    let WholeAnswer { mut head, body, share, .. } = answer;
    let body = read_check(&body, &mut head).map_err(unread)?;
    Ok(WholeAnswer { head, body, trailers: None, share })
}

/// Who the client is by a good answer, where that says so. Where answers to it may be kept (`asked_with`), they are
/// kept apart by all that the upstream is told, and of who is not named by what the question was asked with.
fn identity(
    auth: &CompiledForwardAuth,
    answer: &ResponseHead,
    asked_with: Option<impl FnOnce() -> [u8; 32]>,
) -> Option<Identity> {
    let name = auth.user(answer).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.filter(|name| Identity::is_name(name) && name.len() <= USER_NAME_BYTES_MAX);
    let proof = asked_with.and_then(|asked_with| match (digest_of_copied(auth, answer), name) {
        (None, None) => Some(asked_with()),
        (told, _) => told,
    });
    match (name, proof) {
        (None, None) => None,
        (Some(name), proof) => Some(Identity { proof, ..Identity::of_name(name, LogIn::Asked) }),
        (None, Some(digest)) => {
            let number = u128::from_be_bytes(digest[..16].try_into().expect("a digest is longer"));
            Some(Identity { proof: Some(digest), ..Identity::of_name(&format!("auth:{number:032x}"), LogIn::Asked) })
        }
    }
}

/// All that the auth server may have looked at, but for the URL, by which the cache tells answers apart anyway.
fn digest_of_question(fields: &Fields, client_ip: IpAddr) -> [u8; 32] {
    let client = client_ip.to_string();
    let mut pieces: Vec<&[u8]> = vec![client.as_bytes()];
    pieces.extend(fields.iter().flat_map(|(name, value)| [name, value]));
    digest(&pieces)
}

fn digest_of_copied(auth: &CompiledForwardAuth, answer: &ResponseHead) -> Option<[u8; 32]> {
    let mut pieces = Vec::new();
    auth.each_copied(answer, |name, value| pieces.extend([name, value]));
    (!pieces.is_empty()).then(|| digest(&pieces))
}

/// A body that was sent along with a question, and goes on to the upstream.
struct HeldBody {
    bytes: Vec<u8>,
    /// What that takes, seen by whoever looks whether there is memory for another one.
    share: BoundedShare,
}

impl HeldBody {
    fn add(&mut self, piece: &[u8], bytes_max: u64) -> Result<(), Refusal> {
        let wanted = self.bytes.len() + piece.len();
        if wanted as u64 > bytes_max {
            return Err(Refusal::AuthBodyTooLarge);
        }
        if wanted > self.bytes.capacity() {
            // By doubling, or each piece would have what is before it copied.
            let grown = wanted.max(2 * self.bytes.capacity()).min(bytes_max as usize);
            if !self.share.try_set(grown) {
                return Err(Refusal::BodyNotKept);
            }
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

struct HeldReader {
    held: Rc<HeldBody>,
    sent: usize,
}

impl<S> BodySource<S> for HeldReader {
    fn read(&mut self) -> NextPiece<'_> {
        let piece = self.next();
        Box::pin(std::future::ready(Ok(piece)))
    }

    fn at_hand(&mut self) -> Result<Option<Buf>, BodyFault> {
        Ok(self.next())
    }

    fn is_finished(&self) -> bool {
        self.sent == self.held.bytes.len()
    }
}

impl HeldReader {
    fn next(&mut self) -> Option<Buf> {
        let rest = &self.held.bytes[self.sent..];
        let piece = &rest[..rest.len().min(CAPACITY)];
        self.sent += piece.len();
        (!piece.is_empty()).then(|| Buf::copy_of(piece))
    }
}
