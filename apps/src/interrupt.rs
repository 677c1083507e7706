//! Ctrl-C, SIGTERM and a closed terminal: whatever was started is ended, and then this program.

use crate::processes;
use std::sync::mpsc::{Sender, channel};
use tokio::signal::unix::{SignalKind, signal};

/// As a shell has it for a program that SIGINT has ended.
const EXIT_CODE: i32 = 130;

/// From now on a signal ends everything, wherever the suite is.
pub fn watch() -> Result<(), String> {
    let (ready, is_ready) = channel();
    std::thread::Builder::new().name("signals".into()).spawn(move || wait(&ready)).map_err(|error| error.to_string())?;
    is_ready.recv().map_err(|error| error.to_string())?
}

fn wait(ready: &Sender<Result<(), String>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let wait = async {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let streams: std::io::Result<Vec<_>> = kinds.into_iter().map(signal).collect();
        let mut streams = match streams {
            Ok(streams) => streams,
            Err(error) => return drop(ready.send(Err(error.to_string()))),
        };
        let _ = ready.send(Ok(()));
        let [interrupt, terminate, hangup] = &mut streams[..] else { return };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        eprintln!("\ninterrupted: what was started is being ended");
        processes::end_all();
        std::process::exit(EXIT_CODE);
    };
    match runtime {
        Ok(runtime) => runtime.block_on(wait),
        Err(error) => drop(ready.send(Err(error.to_string()))),
    }
}
