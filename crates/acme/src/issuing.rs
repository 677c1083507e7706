//! The engine's thread, and the handle that the control plane holds. Dropping the handle ends the thread.

use crate::answers::Answers;
use crate::engine::{Command, Engine, StatusTable};
use crate::interface::{Fault, NameStatus, News, OnDemandSite, Parts, Refusal, RevocationReason, State, TlsAnswer, Wanted};
use crate::on_demand::askable;
use crate::shared::{Shared, storage_cause};
use crate::subject::Subject;
use jiff::Timestamp;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tidegate_model::{OnDemand, Storage};
use tidegate_storage::Store;
use tokio::sync::{mpsc, oneshot, watch};

/// Commands that wait for the engine, which takes each within a millisecond.
const COMMANDS_MAX: usize = 1_024;
/// A storage that cannot be opened is tried again; nothing can be obtained until then.
const OPEN_AGAIN: Duration = Duration::from_secs(10);

/// The engine, seen from outside.
pub struct Issuing {
    commands: mpsc::Sender<Command>,
    status: StatusTable,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the engine on a thread of its own. It does nothing until names are wanted.
pub fn start(parts: Parts) -> io::Result<Issuing> {
    let (commands, received) = mpsc::channel(COMMANDS_MAX);
    let (stop, stopped) = watch::channel(false);
    let status = StatusTable::default();
    let table = status.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(8).build()?;
    let thread = std::thread::Builder::new().name("acme".into()).spawn(move || {
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, run(parts, received, stopped, table));
        // Reads of a storage that hangs do not keep the process from ending.
        drop(local);
        runtime.shutdown_timeout(Duration::from_secs(1));
    })?;
    Ok(Issuing { commands, status, stop, thread: Some(thread) })
}

impl Issuing {
    /// The whole set, which replaces the one before: names, and sites whose names are obtained on demand. Names on
    /// demand that none of these sites has any more are given up. Waits while the engine has more to do than it can.
    pub async fn want(&self, wanted: Vec<Wanted>, on_demand: Vec<OnDemandSite>) {
        // An engine that ended wants nothing.
        let _ = self.commands.send(Command::Want(wanted, on_demand)).await;
    }

    /// All names, sorted.
    pub fn status(&self) -> Vec<NameStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Obtains a new certificate now, whatever the times say; returns when it is there and was told as news.
    pub async fn renew(&self, name: &str) -> Result<(), Refusal> {
        let (reply, answer) = oneshot::channel();
        self.ask(Command::Renew { name: name.to_owned(), reply }, answer).await
    }

    /// Revokes the certificate of the name. Another one is obtained, unless nobody wants it any more.
    pub async fn revoke(&self, name: &str, reason: RevocationReason) -> Result<(), Refusal> {
        let (reply, answer) = oneshot::channel();
        self.ask(Command::Revoke { name: name.to_owned(), reason, reply }, answer).await
    }

    /// A responder says that the certificate with this leaf is revoked. If it is the one in use, another one is
    /// obtained.
    pub async fn found_revoked(&self, name: &str, leaf_der: &[u8]) {
        // An engine that ended obtains nothing.
        let _ = self.commands.send(Command::FoundRevoked { name: name.to_owned(), leaf_der: leaf_der.to_owned() }).await;
    }

    /// For a handshake with a name that nobody wrote. Returns when its certificate was told as news; whoever waits in a
    /// handshake waits no longer than `wait` of the settings, and the order goes on without it.
    pub async fn on_demand(&self, wanted: Wanted, settings: &OnDemand) -> Result<(), Refusal> {
        let subject = askable(&wanted.name)?;
        let (reply, answer) = oneshot::channel();
        let command = Command::OnDemand { subject, wanted, settings: settings.clone(), reply };
        // Names come from whoever connects: with the engine behind, they are refused.
        self.commands.try_send(command).map_err(|_| Refusal::Busy)?;
        answer.await.unwrap_or(Err(Refusal::Busy))
    }

    /// What a token of `http-01` is to be answered with that another process of the same storage has.
    pub async fn http_answer(&self, token: &str) -> Option<String> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(Command::HttpAnswer { token: token.to_owned(), reply }).ok()?;
        answer.await.ok()?
    }

    /// The answer for the name in a handshake of `tls-alpn-01`.
    pub async fn tls_answer(&self, server_name: &str) -> Option<TlsAnswer> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(Command::TlsAnswer { server_name: server_name.to_owned(), reply }).ok()?;
        answer.await.ok()?
    }

    async fn ask(&self, command: Command, answer: oneshot::Receiver<Result<(), Refusal>>) -> Result<(), Refusal> {
        self.commands.send(command).await.map_err(|_| Refusal::Busy)?;
        answer.await.unwrap_or(Err(Refusal::Busy))
    }
}

impl Drop for Issuing {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // It ends within seconds: what it has under way is left in storage, to be taken up again.
            let _ = thread.join();
        }
    }
}

async fn run(parts: Parts, mut commands: mpsc::Receiver<Command>, stopped: watch::Receiver<bool>, table: StatusTable) {
    let Parts { storage, state_dir, publish, news, timing } = parts;
    let mut first_wanted: Option<(Vec<Wanted>, Vec<OnDemandSite>)> = None;
    let mut told = None;
    let store = loop {
        match Store::open(&storage, &state_dir).await {
            Ok(store) => break store,
            Err(fault) => {
                let cause = storage_cause(&fault);
                let fault = Fault { at: Timestamp::now(), cause: cause.text, remedy: cause.remedy };
                // Once, until something else is wrong.
                if told.as_ref() != Some(&fault.cause) {
                    told = Some(fault.cause.clone());
                    news(News::StorageFailed(fault.clone()));
                }
                show_unkept(&table, first_wanted.as_ref(), &fault);
                let mut stop = stopped.clone();
                tokio::select! {
                    _ = stop.wait_for(|is_stopped| *is_stopped) => return,
                    () = refuse_all(&mut commands, &fault, &mut first_wanted, &table) => return,
                    () = tokio::time::sleep(OPEN_AGAIN) => {}
                }
            }
        }
    };
    let answers = Answers::new(publish, storage != Storage::State);
    answers.remove_old(&store, Timestamp::now()).await;
    let shared = Rc::new(Shared::new(store, answers, timing, stopped));
    let engine = Engine::new(shared, news, table);
    engine.run(commands, first_wanted).await;
}

/// Answers whoever asks while there is no storage; what is wanted is remembered. Ends when nobody can ask any more.
async fn refuse_all(
    commands: &mut mpsc::Receiver<Command>,
    fault: &Fault,
    wanted: &mut Option<(Vec<Wanted>, Vec<OnDemandSite>)>,
    table: &StatusTable,
) {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Want(all, on_demand) => {
                *wanted = Some((all, on_demand));
                show_unkept(table, wanted.as_ref(), fault);
            }
            Command::Renew { reply, .. } | Command::Revoke { reply, .. } | Command::OnDemand { reply, .. } => {
                let _ = reply.send(Err(Refusal::Failed(fault.clone())));
            }
            // Nothing is in use without storage.
            Command::FoundRevoked { .. } => {}
            // Nobody knows an answer.
            Command::HttpAnswer { .. } | Command::TlsAnswer { .. } => {}
        }
    }
}

/// Names whose certificates cannot be kept stand in the table as well, with what is in the way: nobody else would show
/// them, and a gauge of missing ones would say that all is well.
fn show_unkept(table: &StatusTable, wanted: Option<&(Vec<Wanted>, Vec<OnDemandSite>)>, fault: &Fault) {
    let Some((wanted, _)) = wanted else { return };
    let next_attempt_at = fault.at.checked_add(OPEN_AGAIN).ok();
    let status = |subject: &Subject| NameStatus {
        name: subject.to_string(),
        state: State::Missing,
        not_after: None,
        renew_at: None,
        serial: None,
        directory: None,
        is_late: false,
        is_revoked: false,
        failures_in_a_row: 0,
        last_fault: Some(fault.clone()),
        next_attempt_at,
    };
    let subjects = wanted.iter().filter_map(|one| Subject::parse(&one.name).ok());
    let all = subjects.map(|subject| (subject.to_string(), status(&subject))).collect();
    *table.lock().unwrap_or_else(PoisonError::into_inner) = all;
}

/// The handle may be held by several.
const _: () = {
    const fn is_shareable<T: Send + Sync>() {}
    is_shareable::<Issuing>();
    is_shareable::<Arc<Issuing>>();
};
