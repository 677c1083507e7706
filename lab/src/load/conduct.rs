//! Runs the threads of a load: each connects its share, all begin at once, one timeline leads them through the phases.
//! This thread only sleeps, moves the timeline on, and reads what the kernel says of the observed processes at its
//! turns.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::client::body::Expected;
use crate::client::connection::{Target, WireBytes};
use crate::client::failure::Failure;
use crate::client::tls::{self, SessionTickets};
use crate::client::{Client, Question};
use crate::load::open::Unserved;
use crate::load::schedule::Schedule;
use crate::load::tally::{Meter, Tally};
use crate::load::timeline::Timeline;
use crate::load::{Alpn, Handshakes, LoadOptions, LoadReport, Observed, PhaseReport, Work, closed, open};
use crate::net::{self, Error};
use crate::procfs;

/// How long connecting may take, and how long requests under way at the end may still be answered.
const GRACE: Duration = Duration::from_secs(5);
/// How often a thread looks whether it is over.
const LOOK: Duration = Duration::from_millis(5);

/// What the threads have in common.
struct Shared {
    options: LoadOptions,
    timeline: Arc<Timeline>,
    /// Passed by all threads and this one when every connection stands, or one has failed.
    connected: Barrier,
    /// Passed when the load begins.
    begun: Barrier,
    /// Threads whose clients have done all that they were to do.
    finished: AtomicUsize,
}

/// One phase as this thread saw it.
struct Window {
    name: String,
    seconds: f64,
    machine_cpu_us: f64,
    cpu_ns: Vec<u64>,
    resident_bytes: Vec<u64>,
}

pub fn generate(options: &LoadOptions) -> Result<LoadReport, Error> {
    check(options)?;
    let threads = options.threads.max(1);
    let shared = Arc::new(Shared {
        options: options.clone(),
        timeline: Arc::default(),
        connected: Barrier::new(threads + 1),
        begun: Barrier::new(threads + 1),
        finished: AtomicUsize::new(0),
    });
    let running: Vec<_> = (0..threads)
        .map(|thread| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("load {thread}")).spawn(move || run_thread(thread, &shared))
        })
        .collect::<Result<_, _>>()?;
    let mut observed = options.observe.clone();
    observed.push(Observed { name: "generator".into(), processes: vec![std::process::id()] });

    shared.connected.wait();
    let windows = lead(&shared, &observed);
    shared.timeline.end();
    let mut total: Vec<Tally> = Vec::new();
    let mut warmup_failures = BTreeMap::new();
    for thread in running {
        let (tallies, warmup) = thread.join().map_err(|_| "a thread of the generator panicked")??;
        for (kind, count) in warmup {
            *warmup_failures.entry(kind).or_default() += count;
        }
        total.resize_with(total.len().max(tallies.len()), Tally::default);
        total.iter_mut().zip(&tallies).for_each(|(sum, tally)| sum.add(tally));
    }
    let windows = windows?;
    total.resize_with(windows.len(), Tally::default);
    let phases: Vec<_> = windows.into_iter().zip(&total).map(|(window, tally)| phase(window, tally, &observed)).collect();
    let whole = (phases.len() > 1).then(|| whole(&phases, &total));
    Ok(LoadReport { phases, whole, warmup_failures })
}

/// Percentiles of all phases together do not follow from those of each.
fn whole(phases: &[PhaseReport], tallies: &[Tally]) -> PhaseReport {
    let mut sum = Tally::default();
    for tally in tallies {
        sum.add(tally);
    }
    let window = Window {
        name: "whole run".into(),
        seconds: phases.iter().map(|phase| phase.seconds).sum(),
        machine_cpu_us: phases.iter().map(|phase| phase.machine_cpu_us).sum(),
        cpu_ns: Vec::new(),
        resident_bytes: Vec::new(),
    };
    phase(window, &sum, &[])
}

fn check(options: &LoadOptions) -> Result<(), Error> {
    let refuse = |message: &str| Err(message.into());
    if options.connections == 0 || options.threads == 0 || options.streams == 0 {
        return refuse("connections, threads and streams begin at one");
    }
    if options.connections < options.threads {
        return refuse("each thread needs a connection; give fewer --threads or more --connections");
    }
    if options.rate == Some(0) {
        return refuse("a rate begins at one request per second");
    }
    if options.handshakes.is_some() && options.plain {
        return refuse("there are no handshakes without TLS");
    }
    if options.alpn == Alpn::H2 && (options.handshakes.is_some() || options.connections_max.is_some()) {
        return refuse("--handshakes and --connections-max are for HTTP/1.1");
    }
    Ok(())
}

/// From the warm-up to the end.
fn lead(shared: &Shared, observed: &[Observed]) -> Result<Vec<Window>, Error> {
    let options = &shared.options;
    shared.timeline.begin();
    // A counted load has no warm-up: what it counts begins with its first request.
    let counted = options.requests.map(|_| Open::begin(String::new(), shared, observed));
    // Passed whatever happened, or the threads would wait forever.
    shared.begun.wait();
    if options.phases {
        return lead_by_input(shared, observed);
    }
    let open = match counted {
        Some(open) => open?,
        None => {
            std::thread::sleep(options.warmup);
            Open::begin(String::new(), shared, observed)?
        }
    };
    match options.requests {
        None => std::thread::sleep(options.duration),
        Some(_) => {
            let deadline = Instant::now() + options.duration;
            while shared.finished.load(Ordering::Relaxed) < options.threads {
                if Instant::now() > deadline {
                    return Err("the requests were not answered within the duration".into());
                }
                std::thread::sleep(LOOK);
            }
        }
    }
    Ok(vec![open.end(shared, observed)?])
}

fn lead_by_input(shared: &Shared, observed: &[Observed]) -> Result<Vec<Window>, Error> {
    let mut windows = Vec::new();
    let mut open: Option<Open> = None;
    println!("ready");
    std::io::stdout().flush()?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Some(open) = open.take() {
            windows.push(open.end(shared, observed)?);
        }
        open = Some(Open::begin(line, shared, observed)?);
    }
    match open {
        Some(open) => windows.push(open.end(shared, observed)?),
        None => return Err("standard input named no phase".into()),
    }
    Ok(windows)
}

/// A phase that is on.
struct Open {
    name: String,
    begin: Instant,
    machine_cpu_us: f64,
    cpu_ns: Vec<u64>,
}

impl Open {
    fn begin(name: String, shared: &Shared, observed: &[Observed]) -> Result<Open, Error> {
        let cpu_ns = read_cpu(observed, shared.options.phases)?;
        let machine_cpu_us = procfs::machine_cpu_us();
        shared.timeline.next_phase();
        Ok(Open { name, begin: Instant::now(), machine_cpu_us, cpu_ns })
    }

    fn end(self, shared: &Shared, observed: &[Observed]) -> Result<Window, Error> {
        let seconds = self.begin.elapsed().as_secs_f64();
        let cpu_ns = read_cpu(observed, shared.options.phases)?
            .into_iter()
            .zip(&self.cpu_ns)
            .map(|(after, before)| after.saturating_sub(*before));
        // A process that has ended meanwhile is told by what it failed to answer.
        let resident = observed.iter().map(|observed| procfs::resident_bytes(&observed.processes).unwrap_or(0));
        let machine_cpu_us = procfs::machine_cpu_us() - self.machine_cpu_us;
        Ok(Window { name: self.name, seconds, machine_cpu_us, cpu_ns: cpu_ns.collect(), resident_bytes: resident.collect() })
    }
}

/// Between phases processes may come and go; what has ended counts nothing then, and whoever leads the phases knows
/// which figures that spoils.
fn read_cpu(observed: &[Observed], may_have_ended: bool) -> Result<Vec<u64>, Error> {
    let read = |observed: &Observed| {
        if may_have_ended {
            return Ok(observed.processes.iter().filter_map(|process| procfs::cpu_ns(&[*process]).ok()).sum());
        }
        procfs::cpu_ns(&observed.processes).map_err(|error| format!("CPU time of {}: {error}", observed.name).into())
    };
    observed.iter().map(read).collect()
}

fn phase(window: Window, tally: &Tally, observed: &[Observed]) -> PhaseReport {
    let named = |index: usize| observed[index].name.clone();
    PhaseReport {
        name: window.name,
        seconds: window.seconds,
        requests: tally.requests,
        statuses: tally.statuses.clone(),
        failures: tally.failures.clone(),
        first_failure: tally.first_failure.clone(),
        dropped: tally.dropped,
        sent_again: tally.sent_again,
        received_bytes: tally.received_bytes,
        sent_bytes: tally.sent_bytes,
        handshakes: tally.handshakes,
        resumed: tally.resumed,
        latency_us: tally.latency(),
        sent_late_us: tally.lateness(),
        machine_cpu_us: window.machine_cpu_us,
        cpu_us: window.cpu_ns.iter().enumerate().map(|(index, ns)| (named(index), *ns as f64 / 1000.0)).collect(),
        resident_bytes: window.resident_bytes.iter().enumerate().map(|(index, bytes)| (named(index), *bytes)).collect(),
    }
}

/// The tallies of the phases, and what failed before them.
type Counts = (Vec<Tally>, BTreeMap<String, u64>);

fn run_thread(thread: usize, shared: &Shared) -> Result<Counts, Failure> {
    let runtime = net::runtime()?;
    runtime.block_on(async {
        let work = Rc::new(work(&shared.options, &shared.timeline)?);
        let mut clients = clients(&shared.options, thread);
        let connected = if shared.options.connections_max.is_some() { Ok(()) } else { connect(&mut clients, &work).await };
        // Every thread passes both barriers, whatever happened to it, or the others would wait for it forever.
        shared.connected.wait();
        shared.begun.wait();
        let outcome = match connected {
            Ok(()) => make_load(thread, shared, clients, &work).await,
            Err(failure) => Err(failure),
        };
        shared.finished.fetch_add(1, Ordering::Relaxed);
        outcome?;
        let work = Rc::into_inner(work).ok_or_else(|| std::io::Error::other("a client outlived its load"))?;
        Ok(work.meter.into_counts())
    })
}

fn work(options: &LoadOptions, timeline: &Arc<Timeline>) -> Result<Work, Failure> {
    let wire = Rc::new(WireBytes::default());
    let tickets = if options.handshakes == Some(Handshakes::Resumed) { SessionTickets::Used } else { SessionTickets::Ignored };
    let alpn = match options.alpn {
        Alpn::Http1 => "http/1.1",
        Alpn::H2 => "h2",
    };
    let config = || tls::client_config(options.ca.as_deref(), alpn, tickets).map_err(|error| Failure::Tls(error.to_string()));
    let tls = if options.plain { None } else { Some(config()?) };
    let question = Question {
        target: Target { address: options.to, tls, wire: Rc::clone(&wire) },
        path: options.path.path.clone(),
        accept_encoding: options.accept_encoding.clone(),
        expected: Expected::new(options.path.page.body()).compressed_only(options.compressed_only),
    };
    Ok(Work { question, meter: Meter::new(Arc::clone(timeline), wire), timeout: options.timeout })
}

/// This thread's share.
fn clients(options: &LoadOptions, thread: usize) -> Vec<Client> {
    let connections = share(options.connections, thread, options.threads);
    match (options.alpn, options.handshakes) {
        (Alpn::H2, _) => Client::http2(connections, options.streams),
        (Alpn::Http1, Some(_)) => Client::handshakes(connections),
        (Alpn::Http1, None) => Client::http1(connections),
    }
}

fn share(total: usize, thread: usize, threads: usize) -> usize {
    total / threads + usize::from(thread < total % threads)
}

async fn connect(clients: &mut [Client], work: &Work) -> Result<(), Failure> {
    let all = async {
        for client in clients {
            client.connect(&work.question).await?;
        }
        Ok(())
    };
    timeout(GRACE, all).await.unwrap_or(Err(Failure::TimedOut))
}

/// Returns when the timeline is over and what was under way has ended or was given up.
async fn make_load(thread: usize, shared: &Shared, clients: Vec<Client>, work: &Rc<Work>) -> Result<(), Failure> {
    let options = &shared.options;
    let looking = tokio::task::spawn_local(settle_wire(Rc::clone(work)));
    let mut tasks = match options.rate {
        None => {
            let requests_max = options.requests.map_or(u64::MAX, |all| share(all as usize, thread, options.threads) as u64);
            let mut tasks = closed::begin(clients, requests_max, work);
            loop {
                let all_asked = options.requests.is_some() && tasks.iter().all(JoinHandle::is_finished);
                if all_asked || shared.timeline.is_over() {
                    break;
                }
                sleep(LOOK).await;
            }
            tasks.retain(|task| !task.is_finished());
            tasks
        }
        Some(rate) => {
            let began = shared.timeline.began().expect("begun before the threads are let go");
            let schedule = Schedule::new(began, rate, thread, options.threads);
            let unserved = match options.connections_max {
                None => Unserved::Waits,
                Some(max) => Unserved::Dropped { clients_max: share(max, thread, options.threads) },
            };
            open::run(clients, schedule, unserved, work)
                .await
                .map_err(|error| Failure::Other(std::io::Error::other(error.to_string())))?
        }
    };
    work.meter.settle_wire();
    looking.abort();
    looking.await.ok();
    give_up_late(&mut tasks, work).await;
    Ok(())
}

/// Connections count bytes without knowing phases, so somebody looks often.
async fn settle_wire(work: Rc<Work>) {
    loop {
        sleep(LOOK).await;
        work.meter.settle_wire();
    }
}

/// A client still waiting for its answer after the grace time will not get it.
async fn give_up_late(tasks: &mut Vec<JoinHandle<()>>, work: &Work) {
    let under_way = async {
        while let Some(task) = tasks.last_mut() {
            task.await.ok();
            tasks.pop();
        }
    };
    timeout(GRACE, under_way).await.ok();
    for task in tasks.drain(..) {
        if !task.is_finished() {
            work.meter.record_failure(&Failure::TimedOut);
            task.abort();
        }
        task.await.ok();
    }
}
