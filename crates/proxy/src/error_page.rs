//! `error-page`: the answer to an error is made into a page, for which a pool may be asked, and an upstream's body that
//! is not sent is read to its end where that is cheap, so that its connection can be kept. Which page it is, and what
//! of the answer stays, is decided in `middleware::error_page`.

use crate::coded::send_whole_coded;
use crate::failure::Failure;
use crate::forward::{Asking, QuestionTerms, Told, WholeAnswer, set_forwarded_fields};
use crate::request_ids;
use crate::surroundings::Surroundings;
use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;
use tidegate_exchange::{BodyReader, Exchange, Pooled, unless_gone};
use tidegate_middleware::error_page::{CompiledErrorPage, PageQuestion};
use tidegate_middleware::{Context, ErrorFacts, Origin, View};
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};
use tidegate_upstream::errand::carry_out;
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::head::{HeaderId, RequestHead, ResponseHead};

/// What is read of a body that nobody gets, so that a connection can be kept: more costs more than another connection.
const DRAINED_BYTES_MAX: usize = 64 << 10;
/// How long that may take. The client has its answer by then.
const DRAIN_TIME_MAX: Duration = Duration::from_millis(100);

/// Makes the response head, which has the fields of the error, that of a page, and gives its body: of what a pool has
/// said where it was asked, and otherwise of what is known here.
pub fn make_error_page<'b, S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    page: &'b CompiledErrorPage,
    error: &ErrorFacts,
    (asked, buffer): (Option<&'b mut AskedAnswer>, &'b mut Vec<u8>),
) -> &'b [u8] {
    let asked = asked.and_then(|asked| {
        page.take_answer(error.status, &mut asked.0.head, &mut exchange.response)?;
        Some(&asked.0.body)
    });
    let body = match asked {
        Some(body) => body,
        None => write_error_page(exchange, around, page, error, buffer),
    };
    // Over HTTP/2 it would say that a tunnel stands (RFC 8441 section 5).
    if exchange.is_extended_connect() && (200..300).contains(&exchange.response.status) {
        exchange.response.status = error.status;
    }
    body
}

fn write_error_page<'b, S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    page: &'b CompiledErrorPage,
    error: &ErrorFacts,
    buffer: &'b mut Vec<u8>,
) -> &'b [u8] {
    // Placeholders may show what the error's own answer said.
    let mut response: Pooled<ResponseHead> = Pooled::take();
    std::mem::swap(&mut *exchange.response, &mut *response);
    let before: ResponseHead = response.clone();
    let context = Context { error: Some((page.status(error.status), error.reason)), ..around.context(exchange) };
    let view = View { context: &context, request: &exchange.head, response: Some(&before) };
    let body = page.answer(error, view, &mut response, buffer);
    std::mem::swap(&mut *exchange.response, &mut *response);
    body
}

/// Sends such a page.
pub async fn send_error_page<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    body: &[u8],
) -> Result<(), Failure> {
    exchange.record.status = exchange.response.status;
    around.run_response_steps(exchange);
    send_whole_coded(exchange, around, body).await
}

/// The page that stands for an answer of an upstream, whose head is the response's.
#[inline]
pub fn page_for_upstream<'p, S: Sock>(exchange: &Exchange<'_, S>, around: Surroundings<'p, S>) -> Option<&'p CompiledErrorPage> {
    let route = around.route.filter(|route| route.error_pages.has_upstreams())?;
    route.error_pages.find(exchange.response.status, Origin::Upstream, &exchange.head, Some(&exchange.response))
}

/// Sends a page in place of an upstream's answer, whose head is the response's so far. Says whether its body was read
/// to the end, so that the connection can take the next request.
pub async fn replace_reply<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    page: &CompiledErrorPage,
    body: &mut BodyReader<'_, S>,
    request_done: &Cell<bool>,
) -> Result<bool, Failure> {
    send_page(exchange, around, page, request_done).await?;
    // The client has its answer; whose turn it is need not wait for what nobody reads.
    exchange.limited = None;
    Ok(drain(body).await)
}

/// Sends the page in place of an answer of which nothing has to be read.
pub async fn send_page_instead<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    page: &CompiledErrorPage,
) -> Result<(), Failure> {
    send_page(exchange, around, page, &Cell::new(true)).await
}

async fn send_page<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    page: &CompiledErrorPage,
    request_done: &Cell<bool>,
) -> Result<(), Failure> {
    let error = ErrorFacts { status: exchange.response.status, reason: "", sentence: "" };
    let mut asked = ask_for_page(exchange, around, page, &error, request_done).await?;
    let mut buffer: Pooled<Vec<u8>> = Pooled::take();
    let body = make_error_page(exchange, around, page, &error, (asked.as_deref_mut(), &mut buffer));
    send_error_page(exchange, around, body).await
}

/// What a pool has said for a page.
pub struct AskedAnswer(WholeAnswer);

/// Asks the pool that the page comes from, where it comes from one. `None`: it does not, or nobody has said anything
/// that is a page. An error only where the client has left meanwhile, which is looked for once `request_done` says that
/// nobody else reads what it sends.
pub async fn ask_for_page<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    page: &CompiledErrorPage,
    error: &ErrorFacts,
    request_done: &Cell<bool>,
) -> Result<Option<Box<AskedAnswer>>, Failure> {
    match page.question() {
        None => Ok(None),
        // Rare, and larger than all that the others need.
        Some(question) => Box::pin(ask(exchange, around, question, error, request_done)).await,
    }
}

async fn ask<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    question: &PageQuestion,
    error: &ErrorFacts,
    request_done: &Cell<bool>,
) -> Result<Option<Box<AskedAnswer>>, Failure> {
    let connection = around.connection;
    let worker = &connection.worker;
    let settings = &question.settings;
    // By its name, since the request may be older than the tables; and under pressure nobody needs one more answer.
    let snapshot = worker.snapshot();
    let pool = snapshot.shared.slot_of(&settings.pool).and_then(|slot| snapshot.pool(slot, || worker.of()).cloned());
    let Some(pool) = pool.filter(|_| !worker.process.pressure.is_high()) else { return Ok(None) };
    let Some(head) = write_question(exchange, around, question, (error, &pool)) else { return Ok(None) };
    let Exchange { responder, record, client_ip, .. } = exchange;
    let mut asking = Asking {
        connection,
        record,
        client_ip: *client_ip,
        terms: QuestionTerms {
            retry: &settings.retry,
            is_grpc: false,
            answer_bytes_max: settings.answer_bytes_max,
            keeps_good: true,
        },
        head_limits: snapshot.mark.settings.head_limits,
        question: &head,
        body: &[],
        is_refused: Cell::new(false),
        try_until: None,
    };
    pool.budget.note_request(worker.process.since_start(record.started));
    let answered = rt::timeout(settings.total, carry_out(&mut asking, pool.clone()));
    let told = unless_gone(responder, request_done, pin!(answered)).await?;
    let why = match told {
        Some(Ok(Told::Answer(answer))) => return Ok(Some(Box::new(AskedAnswer(answer)))),
        // What failed at a server was logged there.
        Some(Err(_)) => return Ok(None),
        Some(Ok(Told::TooLong)) => "its answer is longer than pages may be",
        None => {
            pool.metrics.error(UpstreamError::TotalTimeout);
            "it has not answered in time"
        }
    };
    if let Some(suppressed) = worker.gates.upstream.allow(rt::now()) {
        let (pool, origin, status) = (&pool.compiled.name, pool.compiled.shown_origin(), error.status);
        tracing::warn!(%pool, origin, status, why, suppressed, "a pool was asked for the page of an error, and has none");
    }
    Ok(None)
}

/// The question about an error, as any request is told to an upstream. `None`: its path is none.
fn write_question<S: Sock>(
    exchange: &Exchange<'_, S>,
    around: Surroundings<'_, S>,
    question: &PageQuestion,
    (error, pool): (&ErrorFacts, &WorkerPool<S>),
) -> Option<Pooled<RequestHead>> {
    let connection = around.connection;
    let context = Context { error: Some((error.status, error.reason)), ..around.context(exchange) };
    let view = View { context: &context, request: &exchange.head, response: Some(&exchange.response) };
    let mut head: Pooled<RequestHead> = Pooled::take();
    let mut scratch = connection.worker.scratch.borrow_mut();
    if !question.begin(view, &mut head, &mut scratch) {
        return None;
    }
    if !head.fields.has(HeaderId::Host) {
        let host = pool.compiled.servers.first().map_or_else(String::new, |server| server.model.address.host_field());
        head.fields.push_id(HeaderId::Host, host.as_bytes());
    }
    // Of what the request says of its way this may be what has come, or what an upstream was told already.
    let client = exchange.client_ip.to_string();
    if client.as_bytes() != connection.client_ip_text() {
        head.fields.push_id(HeaderId::XForwardedFor, client.as_bytes());
    }
    for id in [HeaderId::XForwardedProto, HeaderId::XForwardedHost, HeaderId::XForwardedPort] {
        if let Some(value) = exchange.head.fields.get(id) {
            head.fields.push_id(id, value);
        }
    }
    set_forwarded_fields(connection, &mut head);
    if let Some(route) = around.route {
        request_ids::tell(&route.request_ids, &mut head.fields, &exchange.record, || connection.worker.random());
    }
    question.say(view, &mut head, &mut scratch);
    Some(head)
}

/// Whether the body ended, within bounds.
pub(crate) async fn drain<S: Sock>(body: &mut BodyReader<'_, S>) -> bool {
    // A stream of HTTP/2 is reset when it is dropped, and its connection goes on.
    if matches!(body, BodyReader::H2(_)) || body.is_finished() {
        return true;
    }
    let reading = async {
        let mut drained = 0;
        while !body.is_finished() && drained < DRAINED_BYTES_MAX {
            match body.read().await {
                Ok(Some(piece)) => drained += piece.len(),
                Ok(None) | Err(_) => break,
            }
        }
        body.is_finished()
    };
    rt::timeout(DRAIN_TIME_MAX, pin!(reading)).await.unwrap_or(false)
}
