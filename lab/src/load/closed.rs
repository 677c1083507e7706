//! Closed loop: each client sends its next request when it has its answer.
//! Saturates a proxy; its latencies say little, since a slow proxy is asked less.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::client::Client;
use crate::load::tally::Times;
use crate::load::{Work, ask_in_time};

/// Keeps a refused connection from becoming a busy loop.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);

/// `requests_max` is what all clients of this thread together may ask.
pub fn begin(clients: Vec<Client>, requests_max: u64, work: &Rc<Work>) -> Vec<JoinHandle<()>> {
    let budget = Rc::new(Cell::new(requests_max));
    let ask = |client| tokio::task::spawn_local(ask_repeatedly(client, Rc::clone(work), Rc::clone(&budget)));
    clients.into_iter().map(ask).collect()
}

async fn ask_repeatedly(mut client: Client, work: Rc<Work>, budget: Rc<Cell<u64>>) {
    while !work.meter.timeline().is_over() && budget.get() > 0 {
        budget.set(budget.get() - 1);
        let begin = Instant::now();
        match ask_in_time(&mut client, &work).await {
            Ok(answered) => work.meter.record_answer(answered, Some(Times { latency: begin.elapsed(), lateness: None })),
            Err(failure) => {
                work.meter.record_failure(&failure);
                if !failure.leaves_connection_usable() {
                    sleep(PAUSE_AFTER_FAILURE).await;
                }
            }
        }
    }
}
