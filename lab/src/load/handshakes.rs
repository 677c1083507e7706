//! New connections: TCP, TLS handshake, one request, close; again and again on a number of tasks.
//! Latency is that of the whole.

use std::rc::Rc;
use std::time::Instant;

use tokio::time::sleep;

use crate::client::connection::Connection;
use crate::client::response::Response;
use crate::load::closed;
use crate::load::meter::Phase;
use crate::load::{LoadOptions, Work};
use crate::net::Error;

pub async fn run(options: &LoadOptions, work: &Rc<Work>) -> Result<(), Error> {
    if work.target.tls.is_none() {
        return Err("there are no handshakes without TLS".into());
    }
    // Tickets of the first connections come in during the warm-up; from then on every connection brings one for its successor.
    let tasks: Vec<_> = (0..options.connections).map(|_| tokio::task::spawn_local(connect_repeatedly(Rc::clone(work)))).collect();
    closed::measure(options, &work.meter).await?;
    closed::within_grace(closed::finish(tasks), "the end of the last requests").await
}

async fn connect_repeatedly(work: Rc<Work>) {
    let mut response = Response::default();
    while work.meter.phase() != Phase::Over {
        let begin = Instant::now();
        match connect_and_ask(&work, &mut response).await {
            Ok(resumed) => {
                work.meter.record_handshake(resumed);
                work.meter.record_answer(work.expected_body.len());
                if work.meter.phase() == Phase::Measuring {
                    work.meter.record_latency(begin.elapsed());
                }
            }
            Err(error) => {
                work.meter.record_error(&error);
                sleep(closed::PAUSE_AFTER_ERROR).await;
            }
        }
    }
}

async fn connect_and_ask(work: &Work, response: &mut Response) -> Result<bool, Error> {
    let mut connection = Connection::open(&work.target).await?;
    connection.exchange(&work.request, response, &work.expected_body).await?;
    let resumed = connection.is_resumed();
    connection.close().await?;
    Ok(resumed)
}
