//! Ctrl-C, SIGTERM and a closed terminal, noticed between two measurements, so that children are stopped in order and
//! the temporary folder goes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::signal::unix::{SignalKind, signal};

use crate::net::{self, Error};

/// The user wants the run to end: what was measured is still reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub fn watch() -> Result<Interrupt, Error> {
        let seen = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&seen);
        let (installed, wait_installed) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("signals".into()).spawn(move || watch_signals(&flag, &installed))?;
        wait_installed.recv()??;
        Ok(Interrupt(seen))
    }

    pub fn check(&self) -> Result<(), Interrupted> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }
}

fn watch_signals(seen: &AtomicBool, installed: &std::sync::mpsc::Sender<Result<(), std::io::Error>>) {
    let watch = async {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let streams: Result<Vec<_>, _> = kinds.into_iter().map(signal).collect();
        let mut streams = match streams {
            Ok(streams) => streams,
            Err(error) => return installed.send(Err(error)).unwrap_or_default(),
        };
        installed.send(Ok(())).unwrap_or_default();
        std::future::poll_fn(|cx| {
            // Each is asked, so that each wakes this task.
            let mut seen = false;
            for stream in &mut streams {
                seen |= stream.poll_recv(cx).is_ready();
            }
            if seen { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        seen.store(true, Ordering::Relaxed);
    };
    match net::runtime() {
        Ok(runtime) => runtime.block_on(watch),
        Err(error) => installed.send(Err(error)).unwrap_or_default(),
    }
}
