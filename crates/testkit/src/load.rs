//! Clients on a thread of their own, for tests that change the proxy meanwhile. Each sends its next request when it has
//! the last answer, or all together as a timetable says; looks at every byte of the answer, and counts what went wrong
//! by what a user would have noticed. Latencies are taken of loads with a timetable alone, to be compared with others
//! of the same run; figures are the lab's. Exchanges that last for the whole test are in `lasting`.

use crate::client::{Client, tls_socket};
use crate::connection::End;
use crate::proxy::Proxy;
use crate::{http2, pattern, tls};
use bytes::Bytes;
use h2::client::SendRequest;
use rustls::ClientConfig;
use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

/// No single exchange takes longer on a machine that works, however busy.
const EXCHANGE_BOUND: Duration = Duration::from_secs(20);
/// Between two requests of a client: tests share the machine, and what they are about is not throughput.
const PAUSE: Duration = Duration::from_millis(4);
/// More of them say nothing new.
const FAULTS_SHOWN_MAX: usize = 12;

/// Where the clients go.
#[derive(Clone)]
pub struct Goal {
    pub host: String,
    pub plain: SocketAddr,
    pub secure: SocketAddr,
    pub tls: Arc<ClientConfig>,
    pub tls_h2: Arc<ClientConfig>,
}

impl Goal {
    /// `{port}` without TLS and `{port:tls}` with a certificate of the main authority.
    pub fn of(proxy: &mut Proxy, host: &str) -> Result<Goal, String> {
        let port = proxy.places.fill("{port:tls}")?.parse().map_err(|_| "no port")?;
        let root = proxy.places.authority("main")?.root().clone();
        let config = |alpn: &str| {
            let options = tls::ClientOptions { alpn: vec![alpn.into()], send_sni: true, ..Default::default() };
            tls::client_config(Some(&root), &options).map(Arc::new)
        };
        let (tls, tls_h2) = (config("http/1.1")?, config("h2")?);
        Ok(Goal { host: host.to_owned(), plain: proxy.address, secure: SocketAddr::new(proxy.address.ip(), port), tls, tls_h2 })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One connection for as long as the proxy keeps it.
    KeepAlive,
    KeepAliveTls,
    Http2,
    /// A new connection for each request.
    Fresh,
    FreshTls,
}

/// What a client asks for, and what it has to be given.
#[derive(Debug, Clone)]
pub enum Order {
    /// `/bytes/N` of an upstream that answers by path.
    Pattern(u64),
    /// A path whose answer is the text `vN`, with a number that was right at some moment between question and answer.
    Numbered { path: String, window: Arc<Window> },
    /// A path whose answer is this text.
    Text { path: String, body: String },
    /// A path whose answer has one look at even numbers of the window and another at odd ones, while that is switched.
    Switched { path: String, origin: Option<String>, window: Arc<Window>, looks: [Look; 2] },
    /// A path whose answer is one of these texts.
    OneOf { path: String, bodies: Arc<[String]> },
}

/// An answer without its body: the status, and a field with its value, or without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub status: u16,
    pub field: &'static str,
    pub value: Option<String>,
}

/// The numbers that an answer may have now, while what it says is being changed.
#[derive(Debug, Default)]
pub struct Window {
    pub lowest: AtomicU64,
    pub highest: AtomicU64,
}

/// What became of all requests.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub done: u64,
    /// Another status or body than expected.
    pub wrong: u64,
    /// No connection, or no handshake.
    pub refused: u64,
    /// A RST, or a write that failed.
    pub reset: u64,
    /// Closed within an answer, or on a fresh connection before one.
    pub cut: u64,
    /// Closed before an answer began on a connection that had served others, or a stream that the proxy says it has not
    /// begun: clients repeat these without telling their user, if the request allows it.
    pub sent_again: u64,
    /// No answer in time.
    pub late: u64,
    /// Connections of HTTP/1.1 whose last answer announced their end.
    pub announced_ends: u64,
    /// Connections of HTTP/2 that GOAWAY ended.
    pub goaways: u64,
    pub faults: Vec<String>,
}

impl Tally {
    /// Nobody noticed anything.
    pub fn is_clean(&self) -> bool {
        self.wrong + self.refused + self.reset + self.cut + self.sent_again + self.late == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { done, wrong, refused, reset, cut, sent_again, late, announced_ends, goaways, faults } = self;
        write!(
            f,
            "{done} answered, {wrong} wrong, {refused} refused, {reset} reset, {cut} cut, {sent_again} sent again, {late} late; {announced_ends} announced ends, {goaways} GOAWAY\n{}",
            faults.join("\n")
        )
    }
}

/// How long answers took from when they were due, in order.
#[derive(Debug, Clone, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// The latency that so many thousandths of the answers stay below; of nothing it is nothing.
    pub fn thousandth(&self, thousandths: usize) -> Duration {
        let place = (self.0.len() * thousandths / 1000).min(self.0.len().saturating_sub(1));
        self.0.get(place).copied().unwrap_or_default()
    }

    /// With those of others.
    pub fn join(self, others: Latencies) -> Latencies {
        let mut all = [self.0, others.0].concat();
        all.sort_unstable();
        Latencies(all)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[derive(Debug, Clone, Copy)]
enum Trouble {
    Wrong,
    Refused,
    Reset,
    Cut,
    SentAgain,
    Late,
}

type Fault = (Trouble, String);

#[derive(Default)]
struct LoadShared {
    is_over: AtomicBool,
    tally: Mutex<Tally>,
    /// Since they were taken last.
    latencies: Mutex<Vec<Duration>>,
    /// `None`: each client goes at its own pace.
    timetable: Option<Timetable>,
}

/// When requests are due, whatever became of those before: an open loop. Those that find no free client when they are
/// due are sent as soon as there is one, so a slow machine is late and leaves nothing out.
struct Timetable {
    begin: Instant,
    per_second: u32,
    taken: AtomicU64,
    /// The load ends with this request.
    last: AtomicU64,
}

impl Timetable {
    fn new(per_second: u32) -> Timetable {
        Timetable { begin: Instant::now(), per_second, taken: AtomicU64::new(0), last: AtomicU64::new(u64::MAX) }
    }

    /// How many requests are due by now.
    fn due(&self) -> u64 {
        (self.begin.elapsed().as_micros() * u128::from(self.per_second) / 1_000_000) as u64
    }

    /// Until it is time for the next request; says when that was.
    async fn next(&self) -> Instant {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        let at = self.begin + Duration::from_micros(number * 1_000_000 / u64::from(self.per_second));
        tokio::time::sleep_until(at.into()).await;
        at
    }
}

impl LoadShared {
    fn is_over(&self) -> bool {
        match &self.timetable {
            Some(timetable) => timetable.taken.load(Ordering::Relaxed) >= timetable.last.load(Ordering::Relaxed),
            None => self.is_over.load(Ordering::Relaxed),
        }
    }

    /// Before a request; `is_first` of its connection. Says when the request was due, with a timetable.
    async fn wait_for_turn(&self, is_first: bool) -> Option<Instant> {
        match &self.timetable {
            Some(timetable) => return Some(timetable.next().await),
            None if is_first => {}
            None => sleep(PAUSE).await,
        }
        None
    }

    fn answered(&self, due: Option<Instant>) {
        self.count(|tally| tally.done += 1);
        if let Some(due) = due {
            self.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(due.elapsed());
        }
    }

    fn count(&self, add: impl FnOnce(&mut Tally)) {
        add(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn note(&self, kind: Kind, (trouble, text): Fault) {
        self.count(|tally| {
            match trouble {
                Trouble::Wrong => tally.wrong += 1,
                Trouble::Refused => tally.refused += 1,
                Trouble::Reset => tally.reset += 1,
                Trouble::Cut => tally.cut += 1,
                Trouble::SentAgain => tally.sent_again += 1,
                Trouble::Late => tally.late += 1,
            }
            if tally.faults.len() < FAULTS_SHOWN_MAX {
                tally.faults.push(format!("{kind:?}: {trouble:?}: {text}"));
            }
        });
    }
}

/// Running clients.
pub struct Load {
    shared: Arc<LoadShared>,
    thread: JoinHandle<()>,
}

impl Load {
    pub fn start(goal: &Goal, clients: &[(Kind, usize)], orders: &[Order]) -> Result<Load, String> {
        Load::start_with(goal, clients, orders, None)
    }

    /// So many requests per second of all clients together, whatever becomes of them.
    pub fn start_paced(goal: &Goal, clients: &[(Kind, usize)], orders: &[Order], per_second: u32) -> Result<Load, String> {
        Load::start_with(goal, clients, orders, Some(Timetable::new(per_second)))
    }

    fn start_with(
        goal: &Goal,
        clients: &[(Kind, usize)],
        orders: &[Order],
        timetable: Option<Timetable>,
    ) -> Result<Load, String> {
        let shared = Arc::new(LoadShared { timetable, ..LoadShared::default() });
        let (goal, clients, orders) = (goal.clone(), clients.to_vec(), Arc::<[Order]>::from(orders));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let of_clients = shared.clone();
        let run = move || {
            let all = async {
                let mut tasks = Vec::new();
                for kind in clients.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count)) {
                    let (goal, orders, shared) = (goal.clone(), orders.clone(), of_clients.clone());
                    tasks.push(spawn_local(run_client(OneClient { kind, goal, orders, shared, turn: tasks.len() })));
                }
                for task in tasks {
                    if let Err(error) = task.await {
                        of_clients.note(Kind::Fresh, (Trouble::Wrong, error.to_string()));
                    }
                }
            };
            LocalSet::new().block_on(&runtime, all);
        };
        let thread = thread::Builder::new().name("load".into()).spawn(run).map_err(|error| error.to_string())?;
        Ok(Load { shared, thread })
    }

    pub fn tally(&self) -> Tally {
        self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Of the answers since this was asked last; none without a timetable.
    pub fn take_latencies(&self) -> Latencies {
        let mut taken = std::mem::take(&mut *self.shared.latencies.lock().unwrap_or_else(PoisonError::into_inner));
        taken.sort_unstable();
        Latencies(taken)
    }

    /// Waits until so many more requests were answered than now; says so when something went wrong instead.
    pub fn go_on_for(&self, requests: u64) -> Result<(), String> {
        let until = self.tally().done + requests;
        let begin = Instant::now();
        while self.tally().done < until {
            if begin.elapsed() > EXCHANGE_BOUND {
                return Err(format!("not {requests} more requests within {EXCHANGE_BOUND:?}: {}", self.tally()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Requests that the timetable has had until now; 0 without one.
    pub fn due(&self) -> u64 {
        self.shared.timetable.as_ref().map_or(0, Timetable::due)
    }

    /// Ends after the exchanges that are on their way, and with a timetable after all that are due.
    pub fn finish(self) -> Tally {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(timetable) = &self.shared.timetable {
            timetable.last.store(timetable.due(), Ordering::Relaxed);
        }
        if self.thread.join().is_err() {
            self.shared.note(Kind::Fresh, (Trouble::Wrong, "the clients panicked".to_owned()));
        }
        self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct OneClient {
    kind: Kind,
    goal: Goal,
    orders: Arc<[Order]>,
    shared: Arc<LoadShared>,
    turn: usize,
}

async fn run_client(mut client: OneClient) {
    while !client.shared.is_over() {
        let outcome = match client.kind {
            Kind::KeepAlive | Kind::KeepAliveTls | Kind::Fresh | Kind::FreshTls => client.http1_connection().await,
            Kind::Http2 => client.http2_connection().await,
        };
        if let Err(fault) = outcome {
            client.shared.note(client.kind, fault);
        }
    }
}

impl OneClient {
    fn next_order(&mut self) -> Order {
        self.turn += 1;
        self.orders[self.turn % self.orders.len()].clone()
    }

    /// One connection, to its announced end.
    async fn http1_connection(&mut self) -> Result<(), Fault> {
        let connecting = async {
            match self.kind {
                Kind::KeepAliveTls | Kind::FreshTls => {
                    Client::connect_tls(self.goal.secure, self.goal.tls.clone(), &self.goal.host).await
                }
                Kind::KeepAlive | Kind::Fresh | Kind::Http2 => Client::connect(self.goal.plain).await,
            }
        };
        let is_for_one = matches!(self.kind, Kind::Fresh | Kind::FreshTls);
        // Who needs a connection for one request makes it when that is due.
        let mut first_due = if is_for_one { Some(self.shared.wait_for_turn(true).await) } else { None };
        let mut client = in_time(connecting).await?.map_err(|error| (Trouble::Refused, error))?;
        let mut is_reused = false;
        while is_for_one || !self.shared.is_over() {
            let due = match first_due.take() {
                Some(due) => due,
                None => self.shared.wait_for_turn(!is_reused).await,
            };
            let order = self.next_order();
            let ends = in_time(http1_exchange(&mut client, &self.goal.host, &order, is_reused)).await??;
            self.shared.answered(due);
            if ends {
                self.shared.count(|tally| tally.announced_ends += 1);
                return Ok(());
            }
            if is_for_one {
                return Ok(());
            }
            is_reused = true;
        }
        Ok(())
    }

    async fn http2_connection(&mut self) -> Result<(), Fault> {
        let connecting = async {
            let socket = tls_socket(self.goal.secure, self.goal.tls_h2.clone(), &self.goal.host).await?;
            h2::client::handshake(socket).await.map_err(|error| error.to_string())
        };
        let (sender, connection) = in_time(connecting).await?.map_err(|error| (Trouble::Refused, error))?;
        let end: Rc<RefCell<Option<String>>> = Rc::default();
        let noted = end.clone();
        let driver = spawn_local(async move {
            let outcome = connection.await;
            // Without GOAWAY the end was not announced.
            *noted.borrow_mut() = outcome.err().filter(|error| !error.is_go_away()).map(|error| error.to_string());
        });
        let outcome = self.http2_streams(sender).await;
        driver.abort();
        if outcome.is_ok()
            && let Some(error) = end.borrow_mut().take()
        {
            return Err((Trouble::Reset, format!("between two streams: {error}")));
        }
        outcome
    }

    async fn http2_streams(&mut self, mut sender: SendRequest<Bytes>) -> Result<(), Fault> {
        let mut is_first = true;
        while !self.shared.is_over() {
            let due = self.shared.wait_for_turn(std::mem::take(&mut is_first)).await;
            let order = self.next_order();
            sender = match in_time(sender.ready()).await? {
                Ok(sender) => sender,
                Err(error) if error.is_go_away() => {
                    self.shared.count(|tally| tally.goaways += 1);
                    return Ok(());
                }
                Err(error) => return Err((Trouble::Cut, format!("between two streams, without GOAWAY: {error}"))),
            };
            in_time(http2_exchange(&mut sender, &self.goal.host, &order)).await??;
            self.shared.answered(due);
        }
        Ok(())
    }
}

async fn in_time<T>(future: impl Future<Output = T>) -> Result<T, Fault> {
    timeout(EXCHANGE_BOUND, future).await.map_err(|_| (Trouble::Late, format!("not done within {EXCHANGE_BOUND:?}")))
}

/// Says whether the answer announced the connection's end.
async fn http1_exchange(client: &mut Client, host: &str, order: &Order, is_reused: bool) -> Result<bool, Fault> {
    let begun = order.begin();
    let origin = order.origin().map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
    let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n{origin}\r\n", order.path());
    if let Err(error) = client.connection.write(request.as_bytes()).await {
        return Err((Trouble::Reset, format!("send: {error}")));
    }
    let head = match client.connection.read_head().await {
        Ok(head) => head,
        Err(error) => return Err((before_answer(client, is_reused), format!("{}: {error}", order.path()))),
    };
    let body = client.connection.read_body().await.map_err(|error| {
        let trouble = if client.connection.end == Some(End::Reset) { Trouble::Reset } else { Trouble::Cut };
        (trouble, format!("{}: {error}", order.path()))
    })?;
    let field = |name: &str| head.value(name).map(|value| String::from_utf8_lossy(&value).into_owned());
    order.check(begun, head.status(), field, &body).map_err(|error| (Trouble::Wrong, error))?;
    Ok(head.value("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close")))
}

fn before_answer(client: &Client, is_reused: bool) -> Trouble {
    match &client.connection.end {
        Some(End::Reset) => Trouble::Reset,
        Some(End::Closed) if is_reused && client.connection.received.is_empty() => Trouble::SentAgain,
        Some(End::Closed | End::Broken(_)) => Trouble::Cut,
        None => Trouble::Wrong,
    }
}

async fn http2_exchange(sender: &mut SendRequest<Bytes>, host: &str, order: &Order) -> Result<(), Fault> {
    let begun = order.begin();
    let trouble = |error: h2::Error| {
        let is_untouched = error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM));
        let kind = if is_untouched { Trouble::SentAgain } else { Trouble::Reset };
        (kind, format!("{}: {error}", order.path()))
    };
    let uri = format!("https://{host}{}", order.path());
    let mut request = http::Request::get(uri);
    if let Some(origin) = order.origin() {
        request = request.header("origin", origin);
    }
    let request = request.body(()).map_err(|error| (Trouble::Wrong, error.to_string()))?;
    let (response, _) = sender.send_request(request, true).map_err(trouble)?;
    let response = response.await.map_err(trouble)?;
    let status = response.status().as_u16();
    let fields = response.headers().clone();
    let field = |name: &str| fields.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let mut stream = response.into_body();
    let mut body = Vec::new();
    while let Some(piece) = http2::receive_data(&mut stream).await {
        body.extend_from_slice(&piece.map_err(trouble)?);
    }
    order.check(begun, Some(status), field, &body).map_err(|error| (Trouble::Wrong, error))
}

impl Order {
    fn path(&self) -> String {
        match self {
            Order::Pattern(bytes) => format!("/bytes/{bytes}"),
            Order::Numbered { path, .. }
            | Order::Switched { path, .. }
            | Order::Text { path, .. }
            | Order::OneOf { path, .. } => path.clone(),
        }
    }

    fn begin(&self) -> u64 {
        match self {
            Order::Numbered { window, .. } | Order::Switched { window, .. } => window.lowest.load(Ordering::SeqCst),
            Order::Pattern(_) | Order::Text { .. } | Order::OneOf { .. } => 0,
        }
    }

    /// What a page of another origin would say of itself.
    fn origin(&self) -> Option<&str> {
        match self {
            Order::Switched { origin, .. } => origin.as_deref(),
            Order::Pattern(_) | Order::Numbered { .. } | Order::Text { .. } | Order::OneOf { .. } => None,
        }
    }

    fn check(&self, begun: u64, status: Option<u16>, field: impl Fn(&str) -> Option<String>, body: &[u8]) -> Result<(), String> {
        let text = || String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        if let Order::Switched { path, window, looks, .. } = self {
            let fits = |look: &Look| status == Some(look.status) && field(look.field) == look.value;
            let numbers = begun..=window.highest.load(Ordering::SeqCst);
            let is_now = |place: u64| numbers.clone().take(2).any(|number| number % 2 == place);
            if (0..2).zip(looks).any(|(place, look)| is_now(place) && fits(look)) {
                return Ok(());
            }
            let seen = looks.each_ref().map(|look| field(look.field));
            return Err(format!("{path} at {numbers:?}: status {status:?}, {seen:?} instead of one of {looks:?}"));
        }
        if status != Some(200) {
            return Err(format!("{}: status {status:?}: {}", self.path(), text()));
        }
        match self {
            Order::Pattern(bytes) if body.len() as u64 != *bytes => Err(format!("{} bytes of {bytes}", body.len())),
            Order::Pattern(_) => pattern::check(0, body).map_err(|place| format!("{}: wrong byte at {place}", self.path())),
            // Judged above, by another status.
            Order::Switched { .. } => Ok(()),
            Order::Numbered { window, path } => {
                let number: Option<u64> = text().strip_prefix('v').and_then(|number| number.parse().ok());
                let highest = window.highest.load(Ordering::SeqCst);
                let fits = number.is_some_and(|number| (begun..=highest).contains(&number));
                if fits { Ok(()) } else { Err(format!("{path}: {:?} instead of v{begun} to v{highest}", text())) }
            }
            Order::Text { path, body: expected } => {
                if text() == *expected {
                    Ok(())
                } else {
                    Err(format!("{path}: {:?} instead of {expected:?}", text()))
                }
            }
            Order::OneOf { path, bodies } => {
                if bodies.iter().any(|expected| text() == *expected) {
                    Ok(())
                } else {
                    Err(format!("{path}: {:?} instead of one of {bodies:?}", text()))
                }
            }
        }
    }
}
