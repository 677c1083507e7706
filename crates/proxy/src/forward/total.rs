//! `timeout total`: the one clock that bounds a request as a whole, whatever it waits for. The clocks of single attempts are in `retry`.

use crate::failure::{Failure, Reach};
use crate::listening::ConnectionKind;
use crate::pool::WorkerPool;
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};

impl<S: Sock> Request<'_, S> {
    /// Given up when it takes longer than `total` from the request's head on. A tunnel is no request any more.
    pub(super) async fn forward_within(
        &mut self,
        total: Duration,
        route: &CompiledRoute,
        pool: Rc<WorkerPool<S>>,
    ) -> Result<(), Failure> {
        let connection = self.connection;
        let metrics = pool.metrics.clone();
        let left = (self.record.started + total).saturating_duration_since(rt::now());
        let outcome = {
            let mut forwarded = pin!(self.forward_on(route, pool));
            let mut clock = pin!(rt::sleep(left));
            let mut is_bounded = true;
            poll_fn(|cx| {
                if let Poll::Ready(outcome) = forwarded.as_mut().poll(cx) {
                    return Poll::Ready(Some(outcome));
                }
                if is_bounded && clock.as_mut().poll(cx).is_ready() {
                    if connection.facts.kind.get() != ConnectionKind::Tunnel {
                        return Poll::Ready(None);
                    }
                    is_bounded = false;
                }
                Poll::Pending
            })
            .await
        };
        outcome.unwrap_or_else(|| {
            // Part of the request's body may be with what was given up, so nothing behind it can be read as the next request.
            self.responder.close_after();
            metrics.error(UpstreamError::TotalTimeout);
            Err(Failure::upstream(UpstreamError::TotalTimeout, Reach::Sent))
        })
    }
}
