//! Runs one case: places, upstreams, the proxy, then its acts in file order; and says where and why it failed.

use super::flow::Outcome;
use super::http1::{self, Http1Peer};
use super::neutral::NeutralPeer;
use super::script::{Act, Case, ClientProtocol, Config, Need, ScriptedClient, ScriptedUpstream, Step, UpstreamScript};
use super::text::SyntaxError;
use super::variants::Variants;
use super::world::{Places, World, without_places};
use super::{automatic, http2, parse, process, variants};
use crate::mmdb;
use crate::program::Program;
use crate::{admin, tls, upstream};
use socket2::SockRef;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, LocalSet, spawn_blocking, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// How long requests and connections that a case counts may come after its last client has gone.
const LATE_REQUESTS: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Skipped(String),
    /// The whole report: place, reason, output of the proxy.
    Failed(String),
}

/// What a case is run over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    pub protocol: ClientProtocol,
    /// The proxy's, by its word in the configuration; `None` leaves it to the proxy.
    pub driver: Option<&'static str>,
}

/// Runs the case of that text over one of its protocols. Without a binary only cases that need no proxy can pass.
pub fn run_text_over(name: &str, text: &str, over: Over, binary: Option<&Path>) -> Verdict {
    let Over { protocol, driver } = over;
    let outcome = Places::new().and_then(|mut places| {
        let unfilled = parse::parse(name, &without_places(text)?).map_err(|error| error.to_string())?;
        let is_plain = variants::is_plain(&unfilled);
        let filled = places.fill(&variants::text_for(text, protocol, is_plain)?)?;
        let mut case = parse::parse(name, &filled).map_err(|error| error.to_string())?;
        variants::adapt_clients(&mut case, protocol, text);
        if let Some(missing) = case.needs.iter().find_map(missing) {
            return Ok(Verdict::Skipped(missing));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let verdict = LocalSet::new().block_on(&runtime, run(&case, places, driver, binary));
        // Sockets of unfinished tasks are closed by this, not by waiting for them.
        runtime.shutdown_background();
        verdict
    });
    outcome.unwrap_or_else(Verdict::Failed)
}

/// How often the case of that text is run, and over what.
pub fn variants_of(name: &str, text: &str) -> Result<Variants, SyntaxError> {
    let readable = without_places(text).map_err(|error| SyntaxError::new(1, error))?;
    parse::parse(name, &readable).map(|case| variants::variants(&case, text))
}

/// Reads the case without running it.
pub fn check_text(name: &str, text: &str) -> Result<(), SyntaxError> {
    let readable = without_places(text).map_err(|error| SyntaxError::new(1, error))?;
    parse::parse(name, &readable).map(|_| ())
}

fn missing(need: &Need) -> Option<String> {
    match need {
        Need::Root => (!rustix::process::geteuid().is_root()).then(|| "needs root".to_owned()),
        Need::Ipv6 => std::net::TcpListener::bind("[::1]:0").is_err().then(|| "needs IPv6".to_owned()),
        Need::Tool(tool) => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&path).any(|folder| folder.join(tool).is_file());
            (!found).then(|| format!("needs {tool}"))
        }
        Need::Env(name) => std::env::var_os(name).is_none().then(|| format!("needs {name}")),
    }
}

/// Where the first failure of any section is left, so that the others need not wait for their bounds.
#[derive(Default)]
struct Failure {
    first: RefCell<Option<(usize, String)>>,
    noticed: Notify,
}

impl Failure {
    fn set(&self, failure: (usize, String)) {
        self.first.borrow_mut().get_or_insert(failure);
        self.noticed.notify_one();
    }
}

async fn run(case: &Case, mut places: Places, driver: Option<&'static str>, binary: Option<&Path>) -> Result<Verdict, String> {
    for (name, text) in &case.files {
        let file = places.folder().join(name);
        let folder = file.parent().unwrap_or(places.folder());
        let bytes = mmdb::contents(name, text.clone())?;
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&file, bytes))
            .map_err(|error| format!("{name}: {error}"))?;
    }
    let mut upstreams = Vec::new();
    for script in &case.upstreams {
        let listener = places.upstream_listener(&script.name, &script.ip)?;
        upstreams.push((script, listener, acceptor(script, &mut places)?));
    }
    let world = World::new(places, case.wait, driver)?;
    let failure = Rc::new(Failure::default());
    let mut running = Vec::new();
    for (script, listener, acceptor) in upstreams {
        running.push(start_upstream(script, listener, acceptor, &world, &failure)?);
    }
    let outcome = match start_proxy(case, &world, binary).await {
        Err(error) => Err((1, error)),
        Ok(()) => tokio::select! {
            biased;
            () = failure.noticed.notified() => Err(failure.first.borrow_mut().take().unwrap_or((1, "unknown".into()))),
            outcome = acts(case, &world, &failure, binary, &mut running) => outcome,
        },
    };
    let outcome = outcome.and_then(|()| closing_checks(&world));
    Ok(match outcome {
        Ok(()) => Verdict::Passed,
        Err((line, message)) => Verdict::Failed(report(case, &world, line, &message)),
    })
}

fn report(case: &Case, world: &World, line: usize, message: &str) -> String {
    let output = world.program.borrow().as_ref().map(Program::output).unwrap_or_default();
    format!("tests/cases/{}.case, line {line}\n({})\n{message}\n{output}", case.name, case.description)
}

/// Whatever a case is about: the proxy neither panicked nor ended on its own.
fn closing_checks(world: &World) -> Outcome {
    if let Some(program) = world.program.borrow_mut().as_mut() {
        if program.stderr().contains("panicked at") {
            return Err((1, "the proxy panicked".into()));
        }
        match program.poll_exit() {
            Some(code) if !world.exit_expected.get() => return Err((1, format!("the proxy ended with {code}"))),
            _ => {}
        }
    }
    Ok(())
}

struct RunningUpstream<'a> {
    script: &'a ScriptedUpstream,
    /// Only of scripted ones: an automatic upstream never finishes.
    task: Option<JoinHandle<()>>,
    counters: Arc<upstream::Counters>,
}

async fn acts(
    case: &Case,
    world: &Rc<World>,
    failure: &Rc<Failure>,
    binary: Option<&Path>,
    upstreams: &mut [RunningUpstream<'_>],
) -> Outcome {
    let mut background = Vec::new();
    for act in &case.acts {
        match act {
            Act::Client(client) if client.background => {
                let (client, world, failure) = (client.clone(), world.clone(), failure.clone());
                background.push(spawn_local(async move {
                    if let Err(error) = run_client(&client, &world).await {
                        failure.set(error);
                    }
                }));
            }
            Act::Client(client) => run_client(client, world).await?,
            Act::Process(steps) => run_process(world, steps).await?,
            Act::Command(call) => {
                let binary = binary.ok_or((call.line, "no program to run".to_owned()))?.to_owned();
                let (folder, wait, call) = (world.folder.clone(), world.wait, call.clone());
                let run = spawn_blocking(move || process::run_command(&binary, &folder, wait, &call));
                run.await.map_err(|error| (1, error.to_string()))??;
            }
        }
    }
    for task in background {
        let _ = task.await;
    }
    finish_upstreams(world.wait, failure, upstreams).await?;
    // A section that failed at the same moment as the last one ended has its say.
    failure.first.borrow_mut().take().map_or(Ok(()), Err)
}

async fn finish_upstreams(wait: Duration, failure: &Failure, upstreams: &mut [RunningUpstream<'_>]) -> Outcome {
    for upstream in upstreams.iter_mut() {
        if let Some(task) = upstream.task.take()
            && timeout(wait, task).await.is_err()
        {
            return Err((upstream.script.line, "the upstream's script did not come to its end".into()));
        }
    }
    if let Some(first) = failure.first.borrow_mut().take() {
        return Err(first);
    }
    await_late_requests(upstreams).await;
    for upstream in upstreams {
        let check = |name: &str, wanted: Option<super::script::Range>, seen: u64| match wanted {
            Some(range) if !range.contains(seen as f64) => {
                Err((upstream.script.line, format!("{seen} {name}, expected {range}")))
            }
            _ => Ok(()),
        };
        check("connections", upstream.script.connections, upstream.counters.connections.load(Ordering::Relaxed))?;
        check("requests", upstream.script.requests, upstream.counters.requests.load(Ordering::Relaxed))?;
    }
    Ok(())
}

/// Waits for what the proxy sends without a client that waits for it (copies, checks).
async fn await_late_requests(upstreams: &[RunningUpstream<'_>]) {
    let lacks = |wanted: Option<super::script::Range>, seen: &AtomicU64| {
        wanted.is_some_and(|range| (seen.load(Ordering::Relaxed) as f64) < range.from)
    };
    let is_short = |upstream: &RunningUpstream<'_>| {
        let (script, counters) = (upstream.script, &upstream.counters);
        lacks(script.connections, &counters.connections) || lacks(script.requests, &counters.requests)
    };
    let late = Instant::now() + LATE_REQUESTS;
    while upstreams.iter().any(is_short) && Instant::now() < late {
        sleep(POLL_INTERVAL).await;
    }
}

async fn run_client(client: &ScriptedClient, world: &Rc<World>) -> Outcome {
    let to = if client.to.is_empty() { world.main.clone() } else { String::from_utf8_lossy(&client.to).into_owned() };
    if client.over_h2 {
        NeutralPeer::new(world.clone(), to, client).run(&client.steps).await
    } else if client.h2 {
        http2::Http2Peer::client(world.clone(), to, client.from.clone(), client.tls.clone()).run(&client.steps).await
    } else {
        let (from, tls, cookies) = (client.from.clone(), client.tls.clone(), client.cookies.clone());
        let source = http1::Http1Source::Client { to, from, tls, cookies };
        Http1Peer::new(world.clone(), source).run(&client.steps).await
    }
}

/// A `process` section: a section without connections.
async fn run_process(world: &Rc<World>, steps: &[Step]) -> Outcome {
    let source = http1::Http1Source::Client { to: "this section has no connection".into(), from: None, tls: None, cookies: None };
    Http1Peer::new(world.clone(), source).run(steps).await
}

fn acceptor(script: &ScriptedUpstream, places: &mut Places) -> Result<Option<TlsAcceptor>, String> {
    let Some(name) = &script.tls_certificate else { return Ok(None) };
    let files = places.certificate(&String::from_utf8_lossy(name))?;
    let client_root = match &script.client_ca {
        Some(name) => Some(places.authority(name)?.root().clone()),
        None => None,
    };
    let config = tls::server_config(&files.cert, &files.key, &script.alpn, client_root.as_ref())?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn start_upstream<'a>(
    script: &'a ScriptedUpstream,
    listener: std::net::TcpListener,
    acceptor: Option<TlsAcceptor>,
    world: &Rc<World>,
    failure: &Rc<Failure>,
) -> Result<RunningUpstream<'a>, String> {
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let listener = TcpListener::from_std(listener).map_err(|error| error.to_string())?;
    let counters = Arc::new(upstream::Counters::default());
    world.upstream_counters.borrow_mut().push(counters.clone());
    let task = match &script.script {
        UpstreamScript::Automatic(conducts) => {
            // Before the first connection is there, which else would keep it from listening again after a time without.
            SockRef::from(&listener).set_reuse_address(true).map_err(|error| error.to_string())?;
            let server =
                automatic::AutomaticServer { acceptor, is_h2: script.h2, conducts: conducts.clone(), counters: counters.clone() };
            spawn_local(server.run(listener, Rc::downgrade(world)));
            None
        }
        UpstreamScript::Scripted(steps) => {
            let (steps, world, failure, counters) = (steps.clone(), world.clone(), failure.clone(), counters.clone());
            let (h2, offers_protocol) = (script.h2, script.offers_protocol);
            Some(spawn_local(async move {
                let accepted = Arc::new(std::sync::atomic::AtomicU64::new(0));
                let outcome = if h2 {
                    let place = http2::UpstreamPlace { listener, acceptor, accepted: accepted.clone(), offers_protocol };
                    let mut peer = http2::Http2Peer::upstream(world.clone(), place);
                    let outcome = peer.run(&steps).await;
                    keep(peer, &world);
                    outcome
                } else {
                    let source = http1::Http1Source::Upstream { listener, acceptor, accepted: accepted.clone() };
                    let mut peer = Http1Peer::new(world.clone(), source);
                    let outcome = peer.run(&steps).await;
                    keep(peer, &world);
                    outcome
                };
                counters.connections.store(accepted.load(Ordering::Relaxed), Ordering::Relaxed);
                if let Err(error) = outcome {
                    failure.set(error);
                }
            }))
        }
    };
    Ok(RunningUpstream { script, task, counters })
}

/// Connections of a script that is at its end stay open until the case is: closing them would be one more thing the
/// proxy sees.
fn keep(peer: impl Sized + 'static, world: &Rc<World>) {
    let world = Rc::downgrade(world);
    spawn_local(async move {
        while world.strong_count() > 0 {
            sleep(Duration::from_millis(50)).await;
        }
        drop(peer);
    });
}

/// Writes the configuration and starts the proxy on it, when the case has one and something beside commands to do.
/// Upstreams answer meanwhile: the proxy may ask them how they are before it is ready.
async fn start_proxy(case: &Case, world: &World, binary: Option<&Path>) -> Result<(), String> {
    let config_file = world.places.borrow().config_file();
    let runs = case.acts.iter().any(|act| matches!(act, Act::Client(_) | Act::Process(_)));
    if let Some(config) = &case.config {
        let text = if runs && !config.bare { complete(config, world) } else { config.text.clone() };
        std::fs::write(&config_file, text).map_err(|error| error.to_string())?;
    }
    world.places.borrow_mut().release_proxy_ports();
    if !runs || (case.config.is_none() && case.start.is_none()) {
        return Ok(());
    }
    let binary = binary.ok_or("no program to run")?.to_owned();
    let stdin = case.config.as_ref().filter(|config| config.via_stdin).map(|_| std::fs::read(&config_file)).transpose();
    let stdin = stdin.map_err(|error| error.to_string())?;
    let arguments: Vec<String> = match &case.start {
        Some(arguments) => arguments.iter().map(|argument| String::from_utf8_lossy(argument).into_owned()).collect(),
        None => {
            let config = if stdin.is_some() { "-".to_owned() } else { config_file.display().to_string() };
            vec!["run".to_owned(), "--config".to_owned(), config]
        }
    };
    // Started otherwise, the admin endpoint may be anywhere or nowhere; then the site's port tells.
    let has_admin = case.start.is_none();
    let (folder, admin, main) = (world.folder.clone(), world.admin.clone(), world.main.clone());
    let starting = spawn_blocking(move || {
        let mut program = Program::start(&binary, &arguments, &folder, stdin.as_deref())?;
        let ready = if has_admin {
            program.wait_until("ready", || matches!(admin::get(&admin, "/readyz"), Ok((200, _))))
        } else {
            program.wait_until("listening", || std::net::TcpStream::connect(&main).is_ok())
        };
        Ok::<_, String>((program, ready))
    });
    let (program, ready) = starting.await.map_err(|error| error.to_string())??;
    *world.program.borrow_mut() = Some(program);
    ready
}

fn driver_line(driver: Option<&str>) -> String {
    driver.map_or_else(String::new, |driver| format!("driver \"{driver}\"\n"))
}

/// What every case needs and none is about: at the end, so that lines keep their numbers. One thread, because several
/// would make it chance which of them has a pooled connection.
fn complete(config: &Config, world: &World) -> String {
    let mut text = config.text.clone();
    let has = |word: &str| config.text.lines().any(|line| line.split_whitespace().next() == Some(word));
    for (word, line) in [
        ("admin", format!("admin \"{}\"\n", world.admin)),
        ("access-log", format!("access-log \"{}\"\n", world.access_log.display())),
        ("threads", "threads 1\n".to_owned()),
        // There is no public CA in a test.
        ("acme", "acme \"off\"\n".to_owned()),
        ("driver", driver_line(world.driver)),
    ] {
        if !has(word) {
            text.push_str(&line);
        }
    }
    text
}
