//! What an event of the engine means for a pool: nothing, a new list, or that a container is about to stop. Pure; time
//! is given.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// A container that was told to stop and still runs after so long has been told something else.
const LEAVING_MOST: Duration = Duration::from_secs(300);
/// Containers that may leave at a time; those beyond go without having been announced.
const LEAVING_MAX: usize = 10_000;
/// Signals that ask for something else than an end: HUP, USR1, USR2.
const SIGNALS_THAT_STAY: &[&str] = &["1", "10", "12", "HUP", "USR1", "USR2", "SIGHUP", "SIGUSR1", "SIGUSR2"];

#[derive(Debug, PartialEq, Eq)]
pub enum Happening {
    Irrelevant,
    Changed,
    /// The container was told to stop.
    Leaves(String),
    Starts(String),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Line {
    #[serde(rename = "Type")]
    kind: String,
    #[serde(rename = "Action")]
    action: String,
    #[serde(rename = "Actor")]
    actor: Actor,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Actor {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Attributes")]
    attributes: Option<BTreeMap<String, String>>,
}

/// `label` is the pool's. Docker writes `die` and Podman `died`; what is not understood leads to a list too many at
/// most.
pub fn judge(line: &[u8], label: &str) -> Happening {
    judged(line, |attributes| attributes.get("tidegate.pool").is_some_and(|pool| pool == label))
}

/// Of all containers that have a label which is read; `None` asks whether those without any are looked at as well.
pub fn judge_any(line: &[u8], is_read: impl Fn(Option<&str>) -> bool) -> Happening {
    judged(line, |attributes| is_read(None) || attributes.keys().any(|name| is_read(Some(name))))
}

fn judged(line: &[u8], is_ours: impl Fn(&BTreeMap<String, String>) -> bool) -> Happening {
    let Ok(Line { kind, action, actor }) = serde_json::from_slice(line) else { return Happening::Changed };
    let attribute = |name: &str| actor.attributes.as_ref().and_then(|attributes| attributes.get(name)).map(String::as_str);
    match kind.as_str() {
        // Its attributes name the container by its identifier only, so it may be one of another pool.
        "network" if matches!(action.as_str(), "connect" | "disconnect") => return Happening::Changed,
        // Of another service than ours it leads to a list too many.
        "service" => return Happening::Changed,
        "container" if actor.attributes.as_ref().is_some_and(is_ours) => {}
        _ => return Happening::Irrelevant,
    }
    let word = action.split(':').next().unwrap_or_default();
    match word {
        "kill" if attribute("signal").is_some_and(|signal| SIGNALS_THAT_STAY.contains(&signal)) => Happening::Irrelevant,
        "kill" | "stop" => Happening::Leaves(actor.id),
        "start" => Happening::Starts(actor.id),
        "die" | "died" | "pause" | "unpause" | "health_status" | "rename" | "restart" | "update" | "remove" | "destroy" => {
            Happening::Changed
        }
        _ => Happening::Irrelevant,
    }
}

/// The containers that were told to stop and are listed as running still.
#[derive(Debug, Default)]
pub struct Leaving {
    since: HashMap<String, Instant>,
}

impl Leaving {
    pub fn add(&mut self, container: String, now: Instant) {
        if self.since.len() < LEAVING_MAX {
            self.since.entry(container).or_insert(now);
        }
    }

    pub fn remove(&mut self, container: &str) {
        self.since.remove(container);
    }

    pub fn has(&self, container: &str) -> bool {
        self.since.contains_key(container)
    }

    /// Forgets containers that are gone, and those that have not gone for so long that they stay.
    pub fn forget(&mut self, listed: &BTreeSet<&str>, now: Instant) {
        let is_young = |since: Instant| now.saturating_duration_since(since) < LEAVING_MOST;
        self.since.retain(|container, since| listed.contains(container.as_str()) && is_young(*since));
    }
}

#[cfg(test)]
mod tests {
    use super::{Happening, LEAVING_MOST, Leaving, judge};
    use serde_json::json;
    use std::time::{Duration, Instant};

    fn check(kind: &str, action: &str, attributes: &[(&str, &str)], expected: Happening) {
        let attributes: std::collections::BTreeMap<_, _> = attributes.iter().copied().collect();
        let line = json!({"Type": kind, "Action": action, "Actor": {"ID": "c1", "Attributes": attributes}}).to_string();
        assert_eq!(judge(line.as_bytes(), "web"), expected, "for {line}");
    }

    #[test]
    fn events_of_the_pools_containers_count() {
        let ours = ("tidegate.pool", "web");
        check("container", "start", &[ours], Happening::Starts("c1".into()));
        check("container", "die", &[ours], Happening::Changed);
        check("container", "health_status: healthy", &[ours], Happening::Changed);
        check("container", "kill", &[ours, ("signal", "15")], Happening::Leaves("c1".into()));
        check("container", "kill", &[ours, ("signal", "1")], Happening::Irrelevant);
        check("container", "kill", &[ours], Happening::Leaves("c1".into()));
        check("container", "exec_create: sh", &[ours], Happening::Irrelevant);
        check("container", "start", &[("tidegate.pool", "other")], Happening::Irrelevant);
        check("container", "start", &[], Happening::Irrelevant);
        check("network", "connect", &[("container", "c1")], Happening::Changed);
        check("network", "create", &[], Happening::Irrelevant);
        check("image", "pull", &[ours], Happening::Irrelevant);
    }

    #[test]
    fn what_is_not_understood_is_looked_at() {
        assert_eq!(judge(b"{", "web"), Happening::Changed);
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes: &Vec<u8>| {
            let _ = judge(bytes, "web");
        });
    }

    #[test]
    fn who_leaves_is_forgotten_when_gone_or_when_it_stays() {
        let start = Instant::now();
        let check = |listed: &[&str], after: Duration, expected: bool| {
            let mut leaving = Leaving::default();
            leaving.add("c1".into(), start);
            let listed = listed.iter().copied().collect();
            leaving.forget(&listed, start + after);
            assert_eq!(leaving.has("c1"), expected, "for {after:?}");
        };
        check(&["c1", "c2"], Duration::from_secs(1), true);
        check(&["c2"], Duration::from_secs(1), false);
        check(&["c1"], LEAVING_MOST, false);
    }
}
