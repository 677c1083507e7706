//! `fastcgi`: answers are made by scripts. Finds the script, collects a body that must not be cut, takes or opens a
//! connection, and tries once more where a kept one had ended. Which params there are and how records travel is decided
//! in the crate of that name.

pub mod body;
pub mod compiled;
mod complaints;
mod params;
mod reply;
pub mod server;
pub mod stdin;

pub use compiled::CompiledFastCgi;
pub use server::FastCgiServers;

use self::compiled::Found;
use self::reply::{Exchange, Failed};
use self::server::FastCgiServer;
use crate::answering::answer_refusal;
use crate::failure::Failure;
use crate::files::{Folder, find_file, send_file_answer};
use crate::forward::Forwarding;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_exchange::pace::Pace;
use tidegate_exchange::{BodyReader, ClientFault, Pooled, body_fault, gone, unless_gone};
use tidegate_fastcgi::Script;
use tidegate_files::{Answer, Refused};
use tidegate_middleware::Refusal;
use tidegate_middleware::errors::begin_answer;
use tidegate_telemetry::{PoolMetrics, UpstreamError};
use tidegate_transport::{ReadLimit, Sock, Stream, rt};
use tidegate_upstream::fault::Progress;
use tidegate_wire::BodyFraming;
use tidegate_wire::head::Method;
use tidegate_wire::http1::expects_continue;

/// A body of this length is collected before its script begins. PHP-FPM runs a script with what it has got when the
/// connection ends, so a client that leaves must not leave half a form behind; and a slow one must not keep a process.
const COLLECTED_BYTES_MAX: u64 = 256 << 10;
/// A body of unknown length is collected to the end, since scripts have to be told its length first.
const UNSTATED_BYTES_MAX: usize = 1 << 20;

/// What was taken of the request's body before its script begins.
struct Collected {
    bytes: Pooled<Vec<u8>>,
    /// There is no more of it.
    is_whole: bool,
    /// What scripts are told; `None` where there is no body.
    length: Option<u64>,
}

impl<S: Sock> Forwarding<'_, '_, S> {
    /// Answers with what a script makes, or says why not.
    pub(crate) async fn run_script(&mut self, step: &CompiledFastCgi) -> Result<(), Failure> {
        if let Some((folder, answer)) = self.find_beside_scripts(step) {
            let (exchange, around) = self.parts();
            return send_file_answer(exchange, around, folder, answer).await;
        }
        let script = match step.find(self.exchange.head.path()) {
            Ok(Found::Script(script)) => script,
            Ok(Found::Folder) => return self.redirect_to_folder().await,
            Ok(Found::Nothing) => return self.refuse(Refusal::NoScript).await,
            Err(error) => return self.refuse(Refusal::ScriptPath(error)).await,
        };
        if self.connection.worker.process.pressure.is_high() {
            return Err(Failure::upstream(UpstreamError::Overloaded, Progress::NothingSent));
        }
        let collected = self.collect_body().await?;
        let params = match self.encode_params(step, &script, collected.length) {
            Ok(params) => params,
            Err(refusal) => return self.refuse(refusal).await,
        };
        let worker = self.connection.worker.clone();
        let server = worker.fastcgi.server(step, worker.index, &worker.process.registry);
        self.exchange.record.fastcgi = Some(server.name.clone());
        let failed = match self.try_server(step, &server, &params, &collected).await {
            Ok(()) => return Ok(()),
            Err(failed) => failed,
        };
        self.note_script_failure(&server, &script, &failed);
        match failed.failure {
            // The bound is not the one of other upstreams, and there is no setting for it.
            Failure::Upstream(fault) if fault.error == UpstreamError::HeadTooLarge && !self.exchange.responder.has_started() => {
                self.refuse(Refusal::ScriptHeadTooLarge).await
            }
            failure => Err(failure),
        }
    }

    async fn refuse(&mut self, refusal: Refusal) -> Result<(), Failure> {
        let (exchange, around) = self.parts();
        answer_refusal(exchange, around, refusal).await
    }

    /// A file that is no script, for `static=#true`.
    fn find_beside_scripts<'s>(&self, step: &'s CompiledFastCgi) -> Option<(&'s Folder, Answer)> {
        let folder = step.folder.as_ref()?;
        let asks_for_file =
            matches!(self.exchange.head.method, Method::Get | Method::Head) && step.may_be_file(self.exchange.head.path());
        if !asks_for_file {
            return None;
        }
        match find_file(self.exchange, folder) {
            // What is no file is a script's to answer.
            Answer::Refused(Refused::NotFound | Refused::BadPath) => None,
            answer => Some((folder, answer)),
        }
    }

    /// To the same path with a slash at its end, by a reference that names no host, whatever the path.
    async fn redirect_to_folder(&mut self) -> Result<(), Failure> {
        let bytes = &self.exchange.head.fields.bytes;
        let mut location: Pooled<Vec<u8>> = Pooled::take();
        location.extend_from_slice(b"./");
        location.extend_from_slice(self.exchange.record.path.of(bytes).rsplit(|byte| *byte == b'/').next().unwrap_or_default());
        location.push(b'/');
        if let Some(query) = self.exchange.record.query {
            location.push(b'?');
            location.extend_from_slice(query.of(bytes));
        }
        begin_answer(308, &mut self.exchange.response);
        self.exchange.response.fields.push(b"location", &location);
        self.exchange.record.status = 308;
        let (exchange, around) = self.parts();
        around.run_response_steps(exchange);
        around.send_whole(exchange, b"").await
    }

    /// Takes as much of the body as has to be there before the script begins.
    async fn collect_body(&mut self) -> Result<Collected, Failure> {
        let mut collected = Collected { bytes: Pooled::take(), is_whole: true, length: None };
        let stated = match self.exchange.framing {
            BodyFraming::None => return Ok(collected),
            BodyFraming::Length(length) => Some(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => None,
        };
        let at_hand = self.exchange.take_at_hand()?;
        if at_hand.is_none() && !self.exchange.body.is_finished() && expects_continue(&self.exchange.head) {
            begin_answer(100, &mut self.exchange.response);
            self.exchange.responder.send_interim(&self.exchange.response).await.map_err(gone)?;
        }
        if let Some(piece) = at_hand {
            collected.bytes.extend_from_slice(&piece);
        }
        if stated.is_none_or(|length| length <= COLLECTED_BYTES_MAX) {
            self.collect_rest(&mut collected.bytes, stated.is_none()).await?;
        }
        collected.is_whole = self.exchange.body.is_finished();
        collected.length = stated.or(Some(collected.bytes.len() as u64));
        Ok(collected)
    }

    async fn collect_rest(&mut self, bytes: &mut Vec<u8>, is_unstated: bool) -> Result<(), Failure> {
        let mut pace = Pace::new(self.settings.body_rate_bytes, self.exchange.framing, self.connection.is_h2(), Duration::ZERO);
        while !self.exchange.body.is_finished() {
            let Some(piece) = pace.read(&mut self.exchange.body).await.map_err(body_fault)? else { break };
            self.exchange.count_body(piece.len())?;
            if is_unstated && bytes.len() + piece.len() > UNSTATED_BYTES_MAX {
                return Err(Failure::Client(ClientFault::Refused(Refusal::LengthUnstated)));
            }
            bytes.extend_from_slice(&piece);
        }
        // Scripts have no place for trailers.
        drop(self.exchange.body.take_trailers());
        if let BodyReader::H1(reader) = &self.exchange.body {
            reader.stream.sock.set_read_limit(ReadLimit::Never);
        }
        Ok(())
    }

    /// On a kept connection where there is one. It may have ended a moment before, as it may; then on a fresh one, if
    /// that is safe.
    async fn try_server(
        &mut self,
        step: &CompiledFastCgi,
        server: &Rc<FastCgiServer<S>>,
        params: &[u8],
        collected: &Collected,
    ) -> Result<(), Failed> {
        let is_idempotent = self.exchange.head.method.is_idempotent();
        let mut kept = server.take_idle(!is_idempotent, rt::now());
        loop {
            let was_kept = kept.is_some();
            let stream = match kept.take() {
                Some(stream) => stream,
                None => self.open_script_connection(step, server).await?,
            };
            self.exchange.record.sent_to(0, was_kept);
            server.metrics.requests.increment();
            let outcome = {
                let _active = Active::new(server.metrics.clone());
                let exchange = Exchange { step, server, stream: &stream, params, collected };
                self.exchange_records(exchange).await
            };
            self.connection.account_upstream_bytes(&stream);
            let failed = match outcome {
                Ok(is_reusable) => {
                    self.keep_connection(step, server, stream, is_reusable);
                    return Ok(());
                }
                Err(failed) => failed,
            };
            if !(was_kept && self.may_try_again(&failed.failure, collected)) {
                return Err(failed);
            }
            self.exchange.record.retries += 1;
            server.metrics.retries.increment();
        }
    }

    fn keep_connection(&mut self, step: &CompiledFastCgi, server: &FastCgiServer<S>, stream: Box<Stream<S>>, is_reusable: bool) {
        if is_reusable && step.keep.connections > 0 {
            let ended = rt::now();
            self.exchange.record.ended = Some(ended);
            server.put_idle(stream, &step.keep, ended);
        }
    }

    /// Whether a failure on a kept connection is that it had ended, and no script can have run twice when the request
    /// is sent again.
    fn may_try_again(&self, failure: &Failure, collected: &Collected) -> bool {
        let Failure::Upstream(fault) = failure else { return false };
        let is_end = matches!(fault.error, UpstreamError::ClosedEarly | UpstreamError::Reset);
        let is_harmless = match fault.progress {
            Progress::NothingSent => true,
            Progress::Sent => self.exchange.head.method.is_idempotent(),
            Progress::Answering => false,
        };
        is_end && is_harmless && collected.is_whole
    }

    /// A fresh connection, unless the client leaves while it is made.
    async fn open_script_connection(
        &mut self,
        step: &CompiledFastCgi,
        server: &FastCgiServer<S>,
    ) -> Result<Box<Stream<S>>, Failure> {
        let nothing_to_read = Cell::new(self.exchange.body.is_finished());
        let opening = pin!(server.connect(step.timeouts.connect));
        let opened = unless_gone(&mut self.exchange.responder, &nothing_to_read, opening).await?;
        opened.map_err(|error| {
            self.exchange.record.sent_to(0, false);
            Failure::upstream(error, Progress::NothingSent)
        })
    }

    fn note_script_failure(&self, server: &FastCgiServer<S>, script: &Script, failed: &Failed) {
        let Failure::Upstream(fault) = failed.failure else { return };
        server.metrics.error(fault.error);
        let is_logged_already =
            matches!(fault.error, UpstreamError::ConnectFailed | UpstreamError::ConnectTimeout | UpstreamError::ResolveFailed);
        if is_logged_already {
            return;
        }
        if let Some(suppressed) = self.connection.worker.gates.upstream.allow(Instant::now()) {
            let (server, reason) = (&server.name, fault.error.reason());
            let script = script.name().escape_ascii();
            let cause = failed.cause.as_ref().map_or_else(String::new, ToString::to_string);
            tracing::warn!(%server, %script, reason, cause, suppressed, "a script gave no answer");
        }
    }
}

/// Counts a connection with a request on it.
struct Active(Arc<PoolMetrics>);

impl Active {
    fn new(metrics: Arc<PoolMetrics>) -> Active {
        metrics.connections_active.increment();
        Active(metrics)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.connections_active.decrement();
    }
}
