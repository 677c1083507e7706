//! What is left of a process that has been replaced: nothing, unless it is the first of a container. When process 1 ends, so does the container; so
//! it stays, hands signals on and takes leave of those that end, until the last of its successors has.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Says to successors that they descend from the first process of a container.
pub(crate) const FIRST_PROCESS: &str = "TIDEGATE_FIRST_PROCESS";
/// How often ended children are looked for; nobody waits for the answer.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Whether signals of the container come to this process on their way to whoever serves. Elsewhere a signal means the process that it is sent to.
pub(crate) fn hands_signals_on() -> bool {
    std::process::id() == 1 || std::env::var_os(FIRST_PROCESS).is_some()
}

/// One that has ended needs no signal any more.
pub(crate) fn hand_on(to: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(to.cast_signed()) {
        let _ = kill_process(pid, signal);
    }
}

/// Ends with success, or as process 1 with what the last successor ends with.
pub fn outlive(successor: u32) -> ExitCode {
    if std::process::id() != 1 {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(stay(successor)),
        Err(error) => failed(&error.to_string()),
    }
}

async fn stay(successor: u32) -> ExitCode {
    let kinds = [
        (SignalKind::terminate(), Signal::TERM),
        (SignalKind::interrupt(), Signal::INT),
        (SignalKind::hangup(), Signal::HUP),
        (SignalKind::user_defined1(), Signal::USR1),
        (SignalKind::user_defined2(), Signal::USR2),
    ];
    let mut current = successor;
    let mut last = ExitCode::SUCCESS;
    let (heard, mut signals) = tokio::sync::mpsc::channel(8);
    for (kind, number) in kinds {
        let Ok(mut stream) = signal(kind) else { return failed("signals cannot be handed on") };
        let heard = heard.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                let _ = heard.send(number).await;
            }
        });
    }
    loop {
        let number = tokio::select! {
            number = signals.recv() => number,
            () = tokio::time::sleep(LOOK_PERIOD) => None,
        };
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get().cast_unsigned() == current {
                last = ExitCode::from(u8::try_from(status.exit_status().unwrap_or(1)).unwrap_or(1));
            }
        }
        // Whoever started a child may have taken leave of it before us, so its place in the list counts. Processes that lose their parent become
        // ours: a successor's successor is the youngest of them.
        let children = children();
        match children.last() {
            None => return last,
            Some(youngest) if !children.contains(&current) => current = *youngest,
            Some(_) => {}
        }
        if let Some(number) = number {
            hand_on(current, number);
        }
    }
}

fn failed(error: &str) -> ExitCode {
    tracing::error!(error, "the first process of the container cannot stay");
    ExitCode::FAILURE
}

/// The youngest last.
fn children() -> Vec<u32> {
    let children = std::fs::read_to_string("/proc/self/task/1/children").unwrap_or_default();
    children.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}
