//! `timeout total`: the one clock that bounds a request as a whole, whatever it waits for. The clocks of single
//! attempts are in `retry`.

use super::Request;
use crate::failure::Failure;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};
use tidegate_upstream::fault::Progress;

impl<S: Sock> Request<'_, '_, S> {
    /// Does something of the request, and gives it up when the request takes longer than `total` from its head on. A
    /// tunnel is no request any more.
    pub(super) async fn within(
        &mut self,
        total: Duration,
        work: impl AsyncFnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let tunnel_began = Rc::new(Cell::new(false));
        self.way.tunnel_began = Some(tunnel_began.clone());
        let left = self.exchange.record.left_of(Some(total));
        let outcome = {
            let mut working = pin!(work(self));
            let mut clock = pin!(rt::sleep(left));
            let mut is_bounded = true;
            poll_fn(|cx| {
                if let Poll::Ready(outcome) = working.as_mut().poll(cx) {
                    return Poll::Ready(Some(outcome));
                }
                if is_bounded && clock.as_mut().poll(cx).is_ready() {
                    if !tunnel_began.get() {
                        return Poll::Ready(None);
                    }
                    is_bounded = false;
                }
                Poll::Pending
            })
            .await
        };
        outcome.unwrap_or_else(|| {
            // Part of the request's body may be with what was given up, so nothing behind it can be read as the next
            // request.
            self.exchange.responder.close_after();
            if let Some(pool) = &self.way.pool {
                pool.metrics.error(UpstreamError::TotalTimeout);
            }
            Err(Failure::upstream(UpstreamError::TotalTimeout, Progress::Sent))
        })
    }
}
