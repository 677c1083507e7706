//! A blind TCP relay: no TLS, no HTTP, one upstream connection for each client connection.
//! Its cost is the kernel's share of a proxied request, the floor that no proxy on the same system calls can go below.
//! It stands on the sockets of Tidegate, so that there is a floor for each of their drivers; nothing else in the lab
//! uses a crate of the proxy.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use tidegate_transport::{Buf, Driver, DriverListener, DriverSock, Sock, driver, rt};

use crate::net::{self, Error};

/// Relays until the process is stopped.
pub fn serve(driver: Driver, address: SocketAddr, upstream: SocketAddr) -> Result<(), Error> {
    driver::probe(driver, 1)?;
    rt::run(driver, accept(address, upstream))?
}

async fn accept(address: SocketAddr, upstream: SocketAddr) -> Result<(), Error> {
    let listener = DriverListener::adopt(net::listening(address)?)?;
    loop {
        let (client, _) = poll_fn(|cx| listener.poll_accept(cx)).await?;
        rt::spawn(async move {
            // A connection that fails is the load's to notice.
            let _ = relay(client, upstream).await;
        });
    }
}

async fn relay(client: DriverSock, upstream: SocketAddr) -> io::Result<()> {
    let upstream = DriverSock::connect(upstream).await?;
    let mut to_upstream = None;
    let mut to_client = None;
    // Keep-alive traffic: as soon as either side closes, nothing of value is under way.
    poll_fn(|cx| {
        let forward = poll_move(&client, &upstream, &mut to_upstream, cx)?;
        let backward = poll_move(&upstream, &client, &mut to_client, cx)?;
        if forward.is_ready() || backward.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// Moves what can be moved; ready at the end of the stream. What was read and could not be sent yet stays in `pending`.
fn poll_move(from: &DriverSock, to: &DriverSock, pending: &mut Option<Buf>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    loop {
        if pending.is_some() {
            ready!(to.poll_send(cx, pending))?;
        }
        let received = ready!(from.poll_recv(cx))?;
        if received.is_empty() {
            return Poll::Ready(Ok(()));
        }
        *pending = Some(received);
    }
}
