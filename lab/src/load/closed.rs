//! Closed loop over HTTP/1.1: each connection sends its next request when it has its answer.
//! Saturates a proxy; its latencies say little, since a slow proxy is asked less.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::client::connection::Connection;
use crate::client::response::Response;
use crate::load::meter::{Meter, Phase};
use crate::load::{GRACE, LoadOptions, Work};
use crate::net::Error;

/// Keeps a refused connection from becoming a busy loop.
pub const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(10);

pub async fn run(options: &LoadOptions, work: &Rc<Work>) -> Result<(), Error> {
    let connections = connect_all(options.connections, work).await?;
    let budget = Rc::new(Cell::new(options.requests.unwrap_or(u64::MAX)));
    if options.requests.is_some() {
        work.meter.begin()?;
    }
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|connection| tokio::task::spawn_local(ask_repeatedly(connection, Rc::clone(work), Rc::clone(&budget))))
        .collect();
    if options.requests.is_none() {
        measure(options, &work.meter).await?;
        return within_grace(finish(tasks), "the end of the last requests").await;
    }
    let finished = timeout(options.duration, finish(tasks)).await;
    work.meter.end()?;
    finished.map_err(|_| "the requests were not answered within the duration")?
}

/// Warm-up, then the measured time.
pub async fn measure(options: &LoadOptions, meter: &Meter) -> Result<(), Error> {
    sleep(options.warmup).await;
    meter.begin()?;
    sleep(options.duration).await;
    meter.end()
}

/// Waits for the tasks to see that it is over.
pub async fn finish(tasks: Vec<JoinHandle<()>>) -> Result<(), Error> {
    for task in tasks {
        task.await?;
    }
    Ok(())
}

pub async fn connect_all(count: usize, work: &Work) -> Result<Vec<Connection>, Error> {
    let connect = async {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Connection::open(&work.target).await?);
        }
        Ok(connections)
    };
    within_grace(connect, "connecting").await
}

pub async fn within_grace<T>(future: impl Future<Output = Result<T, Error>>, what: &str) -> Result<T, Error> {
    timeout(GRACE, future).await.map_err(|_| format!("{what} took more than {GRACE:?}"))?
}

async fn ask_repeatedly(connection: Connection, work: Rc<Work>, budget: Rc<Cell<u64>>) {
    let mut connection = Some(connection);
    let mut response = Response::default();
    while work.meter.phase() != Phase::Over && budget.get() > 0 {
        budget.set(budget.get() - 1);
        let begin = Instant::now();
        match ask(&mut connection, &mut response, &work).await {
            Ok(()) => {
                work.meter.record_answer(work.expected_body.len());
                if work.meter.phase() == Phase::Measuring {
                    work.meter.record_latency(begin.elapsed());
                }
            }
            Err(error) => {
                work.meter.record_error(&error);
                connection = None;
                sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}

/// One request, on a new connection if the last one was closed.
pub async fn ask(connection: &mut Option<Connection>, response: &mut Response, work: &Work) -> Result<(), Error> {
    let open = match connection {
        Some(open) => open,
        None => connection.insert(Connection::open(&work.target).await?),
    };
    let close = open.exchange(&work.request, response, &work.expected_body).await?;
    if close {
        *connection = None;
    }
    Ok(())
}
