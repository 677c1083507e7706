//! How slowly a client may send the body of its request.

use crate::body_reader::BodyReader;
use std::io;
use std::time::Duration;
use tidegate_message::body::BodyFault;
use tidegate_transport::{Buf, ReadLimit, Sock, rt};
use tidegate_wire::head::{RequestHead, Version};

/// A request body may be slow for so long before its rate counts, and after every byte of credit is used up.
const BODY_RATE_GRACE: Duration = Duration::from_secs(10);

/// The least rate of a request body. Only time spent waiting for the client counts, so a slow upstream is not held
/// against it; calls of gRPC may pause for as long as they like, since that is what their streams do.
pub struct Pace {
    rate_bytes: u64,
    applies: bool,
    received: u64,
    waited: Duration,
    /// Before the first piece: a client that waits for a 100 waits for the upstream.
    first_grace: Duration,
}

impl Pace {
    /// `first_grace` is what the client may wait for before it begins.
    pub fn new(rate_bytes: u64, head: &RequestHead, first_grace: Duration) -> Pace {
        let applies = rate_bytes > 0 && !(head.version == Version::Http2 && head.is_grpc());
        Pace { rate_bytes, applies, received: 0, waited: Duration::ZERO, first_grace }
    }

    /// How long the next piece may take.
    fn allowance(&self) -> Duration {
        let earned = Duration::from_millis(self.received.saturating_mul(1000) / self.rate_bytes.max(1));
        let waiting_to_begin = if self.received == 0 { self.first_grace } else { Duration::ZERO };
        BODY_RATE_GRACE + waiting_to_begin + earned.saturating_sub(self.waited)
    }

    pub async fn read<S: Sock>(&mut self, body: &mut BodyReader<'_, S>) -> Result<Option<Buf>, BodyFault> {
        if !self.applies {
            if let BodyReader::H1(reader) = body {
                reader.stream.sock.set_read_limit(ReadLimit::Never);
            }
            return body.read().await;
        }
        let started = rt::now();
        let piece = match body {
            BodyReader::H1(reader) => {
                reader.stream.sock.set_read_limit(ReadLimit::Until(started + self.allowance()));
                body.read().await
            }
            BodyReader::H2(_) | BodyReader::Made(_) | BodyReader::Empty => {
                match rt::timeout(self.allowance(), body.read()).await {
                    Some(piece) => piece,
                    None => Err(BodyFault::Io(io::ErrorKind::TimedOut.into())),
                }
            }
        }?;
        if self.received > 0 || self.first_grace.is_zero() {
            self.waited += started.elapsed();
        }
        self.received += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Ok(piece)
    }
}
