//! Waiting for a server to come back, for requests that could reach none: `retry "wait"`. Nothing of them was sent, so
//! they may go to any. How many wait is bounded, and few look whether a server is there again.

use crate::fault::{Progress, UpstreamFault};
use crate::pool::{Queued, WorkerPool};
use std::time::{Duration, Instant};
use tidegate_model::Retry;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Sock, rt};

/// How often a request that waits looks whether it can go on.
const POLL: Duration = Duration::from_millis(50);
/// How often one of all those that wait tries whether a server can be reached.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// By when a request that has failed like that has to have reached a server, if it may wait for one. A server that said
/// nothing at all was waited for already, for as long as `took`.
pub(crate) fn until(retry: Option<&Retry>, fault: UpstreamFault, took: Duration) -> Option<Instant> {
    let wait = retry?.wait?;
    let waited = if fault.error == UpstreamError::ConnectTimeout { took } else { Duration::ZERO };
    is_unreached(fault).then(|| rt::now() + wait.saturating_sub(waited))
}

/// Whether no server was there to be asked.
fn is_unreached(fault: UpstreamFault) -> bool {
    fault.progress == Progress::NothingSent
        && match fault.error {
            UpstreamError::ResolveFailed
            | UpstreamError::ConnectFailed
            | UpstreamError::ConnectTimeout
            | UpstreamError::NoServer
            | UpstreamError::EmptyPool
            | UpstreamError::ContainersNotReady => true,
            UpstreamError::TlsFailed
            | UpstreamError::TlsRefused
            | UpstreamError::ClosedEarly
            | UpstreamError::Reset
            | UpstreamError::GoAway
            | UpstreamError::FirstByteTimeout
            | UpstreamError::BadStatus
            | UpstreamError::PoolFull
            | UpstreamError::QueueTimeout
            | UpstreamError::IdleTimeout
            | UpstreamError::TotalTimeout
            | UpstreamError::BodyCut
            | UpstreamError::BadResponse
            | UpstreamError::BadWebSocketAccept
            | UpstreamError::NoWebSocket
            | UpstreamError::HeadTooLarge
            | UpstreamError::RequestHeadTooLarge
            | UpstreamError::Overloaded => false,
        }
}

/// Until there is reason to try once more; false when the time is over, or too many wait.
pub async fn wait_for_server<S: Sock>(pool: &WorkerPool<S>, until: Instant, since_start: Duration) -> bool {
    let (shared, began) = (&pool.compiled.shared, rt::now());
    let Some(_place) = shared.awaiting.enter(pool.compiled.model.bounds.queue) else {
        pool.metrics.queue_refused.increment();
        return false;
    };
    let _queued = Queued::new(&pool.metrics);
    let reached = shared.awaiting.reached();
    loop {
        let now = rt::now();
        if now >= until {
            return false;
        }
        rt::sleep(POLL.min(until - now)).await;
        let since_start = since_start + rt::now().saturating_duration_since(began);
        if shared.awaiting.reached() != reached || shared.awaiting.may_look(since_start, LOOK_PAUSE) {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_unreached;
    use crate::fault::{Progress, UpstreamFault};
    use tidegate_telemetry::UpstreamError;

    #[test]
    fn what_is_waited_for_is_a_server_that_could_not_be_reached() {
        use UpstreamError::{ConnectFailed, ConnectTimeout, ContainersNotReady, EmptyPool, NoServer, ResolveFailed};
        let waits = |progress: Progress| {
            let all = UpstreamError::ALL.iter().copied();
            all.filter(|error| is_unreached(UpstreamFault::new(*error, progress))).collect::<Vec<_>>()
        };
        let mut unreached = waits(Progress::NothingSent);
        unreached.sort_by_key(|error| *error as usize);
        let mut expected = vec![ResolveFailed, ConnectFailed, ConnectTimeout, NoServer, EmptyPool, ContainersNotReady];
        expected.sort_by_key(|error| *error as usize);
        assert_eq!(unreached, expected);
        assert!(waits(Progress::Sent).is_empty());
    }
}
