//! A blind TCP relay: no TLS, no HTTP, one upstream connection for each client connection.
//! Its cost is the kernel's share of a proxied request, the floor that no proxy on the same system calls can go below.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

use crate::net::{self, Error};

/// The size that serves large bodies best; smaller reads cost calls, larger ones cache misses.
const BUFFER_BYTES: usize = 64 * 1024;

/// Relays until the process is stopped.
pub fn serve(address: SocketAddr, upstream: SocketAddr) -> Result<(), Error> {
    net::runtime()?.block_on(async {
        let listener = net::listen(address)?;
        loop {
            let (client, _) = listener.accept().await?;
            client.set_nodelay(true)?;
            tokio::task::spawn_local(async move { relay(client, upstream).await.ok() });
        }
    })
}

async fn relay(mut client: TcpStream, upstream: SocketAddr) -> io::Result<()> {
    let mut upstream = TcpStream::connect(upstream).await?;
    upstream.set_nodelay(true)?;
    let mut to_upstream = Direction::new();
    let mut to_client = Direction::new();
    // Keep-alive traffic: as soon as either side closes, nothing of value is under way.
    poll_fn(|cx| {
        let forward = to_upstream.poll(&mut client, &mut upstream, cx)?;
        let backward = to_client.poll(&mut upstream, &mut client, cx)?;
        if forward.is_ready() || backward.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

struct Direction {
    buffer: Vec<u8>,
    filled: usize,
    written: usize,
}

impl Direction {
    fn new() -> Direction {
        Direction { buffer: vec![0; BUFFER_BYTES], filled: 0, written: 0 }
    }

    /// Moves what can be moved; ready at the end of the stream.
    fn poll(&mut self, from: &mut TcpStream, to: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(net::poll_write_all(to, cx, &self.buffer[..self.filled], &mut self.written))?;
            self.filled = ready!(net::poll_read(from, cx, &mut self.buffer))?;
            self.written = 0;
            if self.filled == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
