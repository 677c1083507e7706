//! `fastcgi`: answers are made by scripts. Finds the script, collects the body that it gets, and says what the
//! script is told; then its request goes to the pool as any other. How it travels is in `upstream::call`, and which
//! params there are is decided in the crate `fastcgi`.

pub mod compiled;
mod params;

pub use compiled::CompiledFastCgi;

use self::compiled::Found;
use crate::answering::answer_refusal;
use crate::failure::Failure;
use crate::files::{Folder, find_file, send_file_answer};
use crate::forward::collected::Collected;
use crate::forward::{Forwarding, Replay};
use crate::mounted::{lacks_slash, redirect_to_folder};
use crate::request_ids;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tidegate_exchange::pace::Pace;
use tidegate_exchange::{BodyReader, ClientFault, body_fault, gone};
use tidegate_files::{Answer, Refused};
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::{BodyLimit, Refusal};
use tidegate_telemetry::{EventGate, UpstreamError};
use tidegate_transport::{ReadLimit, Sock, rt};
use tidegate_upstream::call::ScriptRequest;
use tidegate_upstream::choose::unserved;
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::BodyFraming;
use tidegate_wire::head::Method;
use tidegate_wire::http1::expects_continue;

/// The longest body of a route without `body-limit`. All of it is there before its script begins: PHP-FPM has a
/// process for each request and no more than a few, and a client that sends slowly, or leaves, must not have one.
const UNLIMITED_BYTES_MAX: u64 = 1 << 30;
/// Bodies that could not be kept, which a process logs per second.
static NOT_KEPT: EventGate = EventGate::new(5);

impl<S: Sock> Forwarding<'_, '_, S> {
    /// Answers with what a script makes, or says why not.
    pub(crate) async fn run_script(&mut self, step: &CompiledFastCgi, pool: Rc<WorkerPool<S>>) -> Result<(), Failure> {
        // No request of this route goes anywhere as it is.
        self.way.copies = None;
        if let Some((folder, answer)) = self.find_beside_scripts(step) {
            let (exchange, around) = self.parts();
            return send_file_answer(exchange, around, folder, answer).await;
        }
        let script = match step.find(self.exchange.head.path()) {
            Ok(Found::Script(script)) if !lacks_slash(self.exchange, &self.route.steps) => script,
            Ok(Found::Script(_) | Found::Folder) => {
                let (exchange, around) = self.parts();
                return redirect_to_folder(exchange, around).await;
            }
            Ok(Found::Nothing) => return self.refuse(Refusal::NoScript).await,
            Err(error) => return self.refuse(Refusal::ScriptPath(error)).await,
        };
        if self.connection.worker.process.pressure.is_high() {
            return Err(unserved(&pool, UpstreamError::Overloaded).into());
        }
        let (replay, length) = self.collect_body(&pool).await?;
        let request_id = self.exchange.record.request_id().0;
        let id = ScriptRequest::id_of(request_id, &pool.compiled.model.keep_alive);
        let (exchange, worker) = (&mut *self.exchange, &self.connection.worker);
        request_ids::tell(&self.route.request_ids, &mut exchange.head.fields, &exchange.record, || worker.random());
        let params = match self.encode_params(step, &script, length, id) {
            Ok(params) => params,
            Err(refusal) => return self.refuse(refusal).await,
        };
        let script = ScriptRequest { params, id, request_id };
        match self.forward_script(pool, script, replay).await {
            // The bound is not the one of other upstreams, and there is no setting for it.
            Err(Failure::Upstream(fault))
                if fault.error == UpstreamError::HeadTooLarge && !self.exchange.responder.has_started() =>
            {
                self.refuse(Refusal::ScriptHeadTooLarge).await
            }
            outcome => outcome,
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
        match find_file(self.exchange, &self.route.steps, folder) {
            // What is no file is a script's to answer.
            Answer::Refused(Refused::NotFound | Refused::BadPath) => None,
            answer => Some((folder, answer)),
        }
    }

    /// Takes all of the body before the script begins, and says how long it is.
    async fn collect_body(&mut self, pool: &WorkerPool<S>) -> Result<(Replay, Option<u64>), Failure> {
        if self.exchange.framing == BodyFraming::None {
            return Ok((Replay::Whole(Box::new(Collected::empty())), None));
        }
        // Where nobody has set a limit: disks are not endless either.
        if self.exchange.body_allowance.is_none() {
            let declared = self.exchange.framing.declared_length();
            let allowance = BodyLimit { bytes_max: UNLIMITED_BYTES_MAX }.check_declared(declared);
            let too_large = |_| Failure::Client(ClientFault::Refused(Refusal::BodyTooLarge));
            self.exchange.body_allowance = Some(allowance.map_err(too_large)?);
        }
        if !self.exchange.body.is_finished() && expects_continue(&self.exchange.head) {
            begin_answer(100, &mut self.exchange.response);
            self.exchange.responder.send_interim(&self.exchange.response).await.map_err(gone)?;
        }
        let idle = self.route.timeouts.over(&pool.compiled.model.timeouts).idle;
        let body = Box::pin(self.collect_whole(idle)).await?;
        let length = body.len();
        Ok((Replay::Whole(Box::new(body)), Some(length)))
    }

    async fn collect_whole(&mut self, idle: Duration) -> Result<Collected, Failure> {
        let process = self.connection.worker.process.clone();
        let folder = process.scratch_folder();
        let mut body = Collected::empty();
        let mut pace = Pace::of_collected(self.settings.body_rate_bytes, idle);
        if let Some(first) = self.exchange.take_at_hand()? {
            body.add(&first, folder, process.pressure.is_high()).await.map_err(not_kept)?;
        }
        while !self.exchange.body.is_finished() {
            let Some(piece) = pace.read(&mut self.exchange.body, || false).await.map_err(body_fault)? else { break };
            self.exchange.count_body(piece.len())?;
            body.add(&piece, folder, process.pressure.is_high()).await.map_err(not_kept)?;
        }
        body.finish().await.map_err(not_kept)?;
        // Scripts have no place for trailers.
        drop(self.exchange.body.take_trailers());
        if let BodyReader::H1(reader) = &self.exchange.body {
            reader.stream.sock.set_read_limit(ReadLimit::Never);
        }
        Ok(body)
    }
}

fn not_kept(error: io::Error) -> Failure {
    if let Some(suppressed) = NOT_KEPT.allow(rt::now()) {
        tracing::error!(%error, suppressed, "a request body cannot be kept for its script");
    }
    Failure::Client(ClientFault::Refused(Refusal::BodyNotKept))
}
