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

/// The time between the signal and the first connection that is not taken.
#[derive(Debug, Default)]
pub(crate) struct Delay {
    over: Option<(Instant, Duration)>,
}

impl Delay {
    /// False where there is none.
    pub fn begin(&mut self, configured: Option<Duration>) -> bool {
        let length = configured.unwrap_or_else(|| default_delay(|name| std::env::var_os(name).is_some()));
        if length.is_zero() {
            return false;
        }
        self.over = Some((Instant::now() + length, length));
        true
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
    use super::{Delay, Ending, default_delay};
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
        assert!(!delay.begin(Some(Duration::ZERO)) && !delay.has_begun());
        assert!(delay.begin(Some(Duration::from_secs(3))) && delay.has_begun());
        assert_eq!(delay.length(), Duration::from_secs(3));
        assert_eq!(Ending::AtOnce.limit(Duration::from_secs(3)), Duration::ZERO);
        assert_eq!(Ending::Gently.limit(Duration::from_secs(3)), Duration::from_secs(3));
    }
}
