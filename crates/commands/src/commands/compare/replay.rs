//! Several lanes that take one request after the other: each asks the old server, then the new one, and has the answers
//! compared. Nothing is sent before both are known to take connections, and nobody goes on asking one that is gone.

use super::side::{Links, Side};
use crate::output;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_compare::{Asked, Failure, Origins, Outcome, Report, Request, Rules, compare};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Failures to connect, one after the other, after which a server is gone.
const UNREACHED_MAX: usize = 10;
/// How often a terminal is told how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(500);

pub struct Settings {
    pub host: String,
    pub fields: Vec<(String, String)>,
    pub rules: Rules,
    pub parallel: usize,
    pub rate: Option<u32>,
    pub timeout: Duration,
    pub body_bytes: usize,
    pub examples: usize,
    pub origins: Origins,
}

/// What came of it, and why it ended early.
pub struct Replay {
    pub report: Report,
    pub stopped: Option<String>,
}

struct Shared {
    old: Side,
    new: Side,
    settings: Settings,
    state: Mutex<State>,
}

struct State {
    /// Requests that are left, the last first.
    left: Vec<Request>,
    report: Report,
    /// When the next request may be sent.
    next_at: Instant,
    unreached: usize,
    stopped: Option<String>,
}

/// `Err` when nothing could be sent.
pub async fn run(requests: &[Request], old: Side, new: Side, settings: Settings) -> Result<Replay, String> {
    let Some(first) = requests.first() else {
        return Ok(Replay { report: Report::new(settings.examples), stopped: None });
    };
    let host = first.host.clone().unwrap_or_else(|| settings.host.clone().into_bytes());
    for (option, side) in [("--old", &old), ("--new", &new)] {
        side.look(&host, settings.timeout).await.map_err(|why| format!("{option}: {why}; nothing was sent"))?;
    }
    let (lanes, report) = (settings.parallel.min(requests.len()), Report::new(settings.examples));
    let left = requests.iter().rev().cloned().collect();
    let state = State { left, report, next_at: Instant::now(), unreached: 0, stopped: None };
    let shared = Arc::new(Shared { old, new, settings, state: Mutex::new(state) });
    let mut running = JoinSet::new();
    for _ in 0..lanes {
        running.spawn(lane(shared.clone()));
    }
    let all = requests.len();
    let ended = async { while running.join_next().await.is_some() {} };
    tokio::select! {
        () = ended => {}
        () = tell(&shared, all) => {}
        _ = tokio::signal::ctrl_c() => shared.state().stopped = Some("it was interrupted".to_owned()),
    }
    drop(running);
    let mut state = shared.state();
    let report = std::mem::take(&mut state.report);
    Ok(Replay { report, stopped: state.stopped.take() })
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request, and when it may be sent.
    fn take(&self) -> Option<(Request, Instant)> {
        let mut state = self.state();
        if state.stopped.is_some() {
            return None;
        }
        let mut request = state.left.pop()?;
        for (name, value) in &self.settings.fields {
            request.set_field(name, value.as_bytes());
        }
        request.host.get_or_insert_with(|| self.settings.host.clone().into_bytes());
        let at = state.next_at.max(Instant::now());
        if let Some(rate) = self.settings.rate {
            state.next_at = at + Duration::from_secs(1) / rate;
        }
        Some((request, at))
    }

    fn note(&self, request: &Request, old: &Outcome, new: &Outcome) {
        let asked = Asked { host: request.host.as_deref().unwrap_or_default(), target: &request.target };
        let (differences, is_in_part) = compare(asked, old, new, &self.settings.rules, &self.settings.origins);
        let status = old.status().filter(|status| new.status() == Some(*status));
        let mut state = self.state();
        state.report.add(request, status, &differences, is_in_part);
        match [old, new].into_iter().find_map(unreached) {
            None => state.unreached = 0,
            Some(why) => {
                state.unreached += 1;
                if state.unreached == UNREACHED_MAX && state.stopped.is_none() {
                    state.stopped = Some(format!("{UNREACHED_MAX} requests in a row failed: {why}"));
                }
            }
        }
    }
}

fn unreached(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Failed(Failure::Other(why)) => Some(why),
        Outcome::Answered(_) | Outcome::Failed(Failure::Closed | Failure::CutShort | Failure::TimedOut) => None,
    }
}

async fn lane(shared: Arc<Shared>) {
    let (mut to_old, mut to_new) = (Links::default(), Links::default());
    let Settings { timeout, body_bytes, .. } = shared.settings;
    while let Some((request, at)) = shared.take() {
        tokio::time::sleep_until(at).await;
        let host = request.host.as_deref().unwrap_or_default();
        let old = to_old.ask(&shared.old, &request, host, timeout, body_bytes).await;
        let new = to_new.ask(&shared.new, &request, host, timeout, body_bytes).await;
        shared.note(&request, &old, &new);
    }
}

/// Says on a terminal how far it is, for as long as it goes on.
async fn tell(shared: &Shared, all: usize) {
    let mut error = std::io::stderr();
    if output::is_json() || !error.is_terminal() {
        std::future::pending::<()>().await;
    }
    loop {
        tokio::time::sleep(TOLD_EVERY).await;
        let (asked, different) = {
            let state = shared.state();
            (state.report.asked, state.report.different)
        };
        // Where nobody can be told, it goes on all the same. The report comes over it.
        let _ = write!(error, "\r{asked} of {all} asked, {different} differ \r");
        let _ = error.flush();
    }
}
