//! Closed loop over HTTP/2: a number of connections, on each a number of streams that send their next request when they have their answer.

use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Method, Request, Version};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::client::connection::{Connection, Http2Io};
use crate::load::closed::{self, PAUSE_AFTER_ERROR};
use crate::load::meter::Phase;
use crate::load::{LoadOptions, Work};
use crate::net::Error;

/// Wide enough that flow control never holds a page back; a browser's are of this order.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

pub async fn run(options: &LoadOptions, work: &Rc<Work>) -> Result<(), Error> {
    let connections = closed::connect_all(options.connections, work).await?;
    if work.target.tls.is_none() || connections.iter().any(|connection| connection.alpn() != Some(b"h2")) {
        return Err("the server does not speak HTTP/2 over TLS".into());
    }
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|connection| tokio::task::spawn_local(keep_asking(connection, options.streams, Rc::clone(work))))
        .collect();
    closed::measure(options, &work.meter).await?;
    closed::within_grace(closed::finish(tasks), "the end of the last requests").await
}

/// One connection after the other, until it is over.
async fn keep_asking(connection: Connection, streams: usize, work: Rc<Work>) {
    let mut connection = Some(connection);
    while work.meter.phase() != Phase::Over {
        let outcome = match connection.take() {
            Some(open) => ask_on(open, streams, &work).await,
            None => match Connection::open(&work.target).await {
                Ok(open) => ask_on(open, streams, &work).await,
                Err(error) => Err(error),
            },
        };
        if let Err(error) = outcome {
            work.meter.record_error(&error);
            sleep(PAUSE_AFTER_ERROR).await;
        }
    }
}

/// Returns when it is over or the connection is of no more use.
async fn ask_on(connection: Connection, streams: usize, work: &Rc<Work>) -> Result<(), Error> {
    let (sender, driver) = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .enable_push(false)
        .handshake::<_, Bytes>(Http2Io::new(connection))
        .await?;
    let driver = tokio::task::spawn_local(driver);
    let tasks: Vec<JoinHandle<Result<(), Error>>> =
        (0..streams).map(|_| tokio::task::spawn_local(ask_repeatedly(sender.clone(), Rc::clone(work)))).collect();
    drop(sender);
    let mut outcome = Ok(());
    for task in tasks {
        outcome = outcome.and(task.await?);
    }
    driver.abort();
    outcome
}

async fn ask_repeatedly(mut sender: SendRequest<Bytes>, work: Rc<Work>) -> Result<(), Error> {
    let request = Request::builder()
        .method(Method::GET)
        .version(Version::HTTP_2)
        .uri(format!("https://localhost{}", work.page.path()))
        .header("user-agent", "tidegate-lab")
        .header("accept", "*/*")
        .body(())?;
    while work.meter.phase() != Phase::Over {
        let begin = Instant::now();
        sender = sender.ready().await?;
        ask(&mut sender, request.clone(), &work.expected_body).await?;
        work.meter.record_answer(work.expected_body.len());
        if work.meter.phase() == Phase::Measuring {
            work.meter.record_latency(begin.elapsed());
        }
    }
    Ok(())
}

async fn ask(sender: &mut SendRequest<Bytes>, request: Request<()>, expected_body: &[u8]) -> Result<(), Error> {
    let (response, _) = sender.send_request(request, true)?;
    let response = response.await?;
    if response.status() != 200 {
        return Err(format!("status {} instead of 200", response.status()).into());
    }
    let mut body = response.into_body();
    let mut received = 0;
    while let Some(piece) = body.data().await {
        let piece = piece?;
        if expected_body.get(received..received + piece.len()) != Some(&piece[..]) {
            return Err(format!("the body differs between byte {received} and {}", received + piece.len()).into());
        }
        received += piece.len();
        body.flow_control().release_capacity(piece.len())?;
    }
    if received != expected_body.len() {
        return Err(format!("{received} bytes instead of {}", expected_body.len()).into());
    }
    Ok(())
}
