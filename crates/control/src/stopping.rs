//! How a stop begins: at once, or after a delay in which whoever sends connections hears that none should come. What
//! follows it is in `run`.

use std::time::Duration;
use tokio::time::Instant;

/// Nodes of a cluster take about a second to hear that a process ends, and go on sending it connections until then.
const DELAY_IN_CLUSTERS: Duration = Duration::from_secs(5);
/// Variables that orchestrators set, which ask the process to end and tell their load balancers at the same time.
const ORCHESTRATED_BY: [&str; 3] = ["KUBERNETES_SERVICE_HOST", "NOMAD_ALLOC_ID", "ECS_CONTAINER_METADATA_URI_V4"];

/// How long connections are taken after a stop was asked for, where nobody says.
pub fn default_delay(is_set: impl Fn(&str) -> bool) -> Duration {
    if ORCHESTRATED_BY.into_iter().any(is_set) { DELAY_IN_CLUSTERS } else { Duration::ZERO }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// What is on its way may finish.
    Gently,
    /// Somebody has no patience.
    AtOnce,
}

impl Ending {
    pub fn limit(self, drain: Duration) -> Duration {
        match self {
            Ending::Gently => drain,
            Ending::AtOnce => Duration::ZERO,
        }
    }
}

/// What a cluster says of this process's own place among the endpoints of its Services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnEndpoint {
    /// There is no cluster, or nothing in it that has this process as a server.
    Unseen,
    Taken,
    /// Who sends connections is being told that none should come.
    Leaving,
}

/// How long connections are taken after a stop was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DelayLength {
    Fixed(Duration),
    /// As long after it was seen to be leaving; where that is not seen, as long as `unseen`.
    AfterLeaving {
        leaving: Duration,
        unseen: Duration,
    },
}

impl DelayLength {
    /// As long as it usually takes until every node knows that an endpoint leaves.
    pub const UNSEEN: Duration = Duration::from_secs(15);
}

/// The time between the signal and the first connection that is not taken.
#[derive(Debug, Default)]
pub(crate) struct Delay {
    over: Option<(Instant, Duration)>,
    /// What is left of it once the cluster tells that this process leaves.
    after_leaving: Option<Duration>,
}

impl Delay {
    /// False where there is none.
    pub fn begin(&mut self, length: DelayLength) -> bool {
        let length = match length {
            DelayLength::Fixed(length) => length,
            DelayLength::AfterLeaving { leaving, unseen } => {
                self.after_leaving = Some(leaving);
                unseen
            }
        };
        if length.is_zero() {
            return false;
        }
        self.over = Some((Instant::now() + length, length));
        true
    }

    /// Once it has begun, what the cluster says of it counts.
    pub fn see(&mut self, own: OwnEndpoint) {
        if self.over.is_some()
            && own == OwnEndpoint::Leaving
            && let Some(length) = self.after_leaving.take()
        {
            self.over = Some((Instant::now() + length, length));
        }
    }

    pub fn has_begun(&self) -> bool {
        self.over.is_some()
    }

    pub fn length(&self) -> Duration {
        self.over.map_or(Duration::ZERO, |(_, length)| length)
    }

    /// Never, unless it has begun.
    pub async fn is_over(&self) {
        match self.over {
            Some((at, _)) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Delay, DelayLength, Ending, OwnEndpoint, default_delay};
    use std::time::Duration;

    #[test]
    fn where_connections_come_late_there_is_a_delay() {
        let check = |set: &[&str], seconds: u64| {
            assert_eq!(default_delay(|name| set.contains(&name)), Duration::from_secs(seconds), "{set:?}");
        };
        check(&[], 0);
        check(&["container", "HOSTNAME"], 0);
        check(&["KUBERNETES_SERVICE_HOST"], 5);
        check(&["NOMAD_ALLOC_ID", "HOSTNAME"], 5);
        check(&["ECS_CONTAINER_METADATA_URI_V4"], 5);
    }

    #[test]
    fn a_delay_begins_once_and_may_be_none() {
        let mut delay = Delay::default();
        assert!(!delay.begin(DelayLength::Fixed(Duration::ZERO)) && !delay.has_begun());
        assert!(delay.begin(DelayLength::Fixed(Duration::from_secs(3))) && delay.has_begun());
        assert_eq!(delay.length(), Duration::from_secs(3));
        delay.see(OwnEndpoint::Leaving);
        assert_eq!(delay.length(), Duration::from_secs(3), "a fixed one stays");
        assert_eq!(Ending::AtOnce.limit(Duration::from_secs(3)), Duration::ZERO);
        assert_eq!(Ending::Gently.limit(Duration::from_secs(3)), Duration::from_secs(3));
    }

    #[test]
    fn in_a_cluster_it_is_counted_from_when_others_are_told() {
        let [leaving, unseen] = [5, 15].map(Duration::from_secs);
        let mut delay = Delay::default();
        delay.see(OwnEndpoint::Leaving);
        assert!(!delay.has_begun());
        assert!(delay.begin(DelayLength::AfterLeaving { leaving, unseen }));
        for (own, length) in [(OwnEndpoint::Unseen, unseen), (OwnEndpoint::Taken, unseen), (OwnEndpoint::Leaving, leaving)] {
            delay.see(own);
            assert_eq!(delay.length(), length, "{own:?}");
        }
    }
}
