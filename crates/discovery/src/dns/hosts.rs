//! What the two look-ups of a name, A and AAAA, mean together, and the addresses that names had last. Pure; `resolver`
//! asks.

use super::resolver::Trouble;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

/// When one of the two families could not be asked for, the other's answer is not taken for longer.
const HALF_MOST: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub addresses: BTreeSet<IpAddr>,
    pub time_to_live: Duration,
}

/// What one query brought.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Found(Found),
    /// There is no such record. The trouble that it is when nothing else is found.
    Nothing(Trouble),
    Failed(Trouble),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Families {
    pub v4: Reply,
    pub v6: Reply,
}

impl Families {
    pub fn of_one(found: Found) -> Families {
        let (v4, v6): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) = found.addresses.iter().partition(|ip| ip.is_ipv4());
        let reply = |addresses: BTreeSet<IpAddr>| {
            if addresses.is_empty() {
                Reply::Nothing(Trouble::new("it has no address"))
            } else {
                Reply::Found(Found { addresses, time_to_live: found.time_to_live })
            }
        };
        Families { v4: reply(v4), v6: reply(v6) }
    }
}

/// The last good answer of each name, by family: AAAA that times out for once does not take the IPv6 servers away.
#[derive(Debug, Default)]
pub struct Hosts {
    last: HashMap<String, Last>,
}

#[derive(Debug, Default)]
struct Last {
    v4: BTreeSet<IpAddr>,
    v6: BTreeSet<IpAddr>,
}

impl Hosts {
    /// Fails when neither family has an address; then the last answer is not touched.
    pub fn take(&mut self, name: &str, families: Families) -> Result<Found, Trouble> {
        let Families { v4, v6 } = families;
        if let Some(trouble) = trouble_of_both(&v4, &v6) {
            return Err(trouble);
        }
        let last = self.last.entry(name.to_owned()).or_default();
        let mut time_to_live = Duration::MAX;
        for (reply, last) in [(v4, &mut last.v4), (v6, &mut last.v6)] {
            match reply {
                Reply::Found(found) => {
                    *last = found.addresses;
                    time_to_live = time_to_live.min(found.time_to_live);
                }
                Reply::Nothing(_) => last.clear(),
                Reply::Failed(_) => time_to_live = time_to_live.min(HALF_MOST),
            }
        }
        Ok(Found { addresses: last.v4.union(&last.v6).copied().collect(), time_to_live })
    }

    /// For what came as additional records of another answer.
    pub fn remember(&mut self, name: &str, found: &Found) {
        let (v4, v6) = found.addresses.iter().partition(|ip| ip.is_ipv4());
        self.last.insert(name.to_owned(), Last { v4, v6 });
    }

    /// The last good answer.
    pub fn last(&self, name: &str) -> Option<Found> {
        let last = self.last.get(name)?;
        Some(Found { addresses: last.v4.union(&last.v6).copied().collect(), time_to_live: HALF_MOST })
    }

    /// Forgets the names that nobody asks for any more.
    pub fn keep_only(&mut self, names: &BTreeSet<&str>) {
        self.last.retain(|name, _| names.contains(name.as_str()));
    }
}

/// A failure says more than that there is nothing: who could not be asked may know an address.
fn trouble_of_both(v4: &Reply, v6: &Reply) -> Option<Trouble> {
    match (v4, v6) {
        (Reply::Found(_), _) | (_, Reply::Found(_)) => None,
        (Reply::Failed(trouble), _) | (_, Reply::Failed(trouble)) => Some(trouble.clone()),
        (Reply::Nothing(trouble), Reply::Nothing(other)) => {
            let negative = [trouble.negative, other.negative].into_iter().flatten().min();
            Some(Trouble { negative, ..trouble.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Families, Found, Hosts, Reply};
    use crate::dns::resolver::Trouble;
    use std::time::Duration;

    /// `10.0.0.1 10.0.0.2 @60`, `nothing`, `nothing @60`, `failed`.
    fn reply(text: &str) -> Reply {
        let (text, seconds) = text.split_once(" @").unwrap_or((text, ""));
        let time = seconds.parse().ok().map(Duration::from_secs);
        match text {
            "nothing" => Reply::Nothing(Trouble { text: "nothing".into(), negative: time }),
            "failed" => Reply::Failed(Trouble::new("failed")),
            _ => Reply::Found(Found {
                addresses: text.split_whitespace().map(|ip| ip.parse().expect("an address")).collect(),
                time_to_live: time.expect("a time"),
            }),
        }
    }

    /// A and AAAA of each look-up of the same name, and what is known after the last.
    fn check(look_ups: &[(&str, &str)], expected: &str) {
        let mut hosts = Hosts::default();
        let mut seen = String::new();
        for (v4, v6) in look_ups {
            seen = match hosts.take("a", Families { v4: reply(v4), v6: reply(v6) }) {
                Ok(found) => {
                    let addresses: Vec<String> = found.addresses.iter().map(ToString::to_string).collect();
                    format!("{} @{}", addresses.join(" "), found.time_to_live.as_secs())
                }
                Err(Trouble { text, negative }) => format!("{text} {:?}", negative.map(|time| time.as_secs())),
            };
        }
        assert_eq!(seen, expected, "for {look_ups:?}");
    }

    #[test]
    fn both_families_count_for_the_least_time() {
        check(&[("10.0.0.1 @60", "::1 @20")], "10.0.0.1 ::1 @20");
        check(&[("10.0.0.1 @60", "nothing @5")], "10.0.0.1 @60");
        check(&[("nothing", "::1 @20")], "::1 @20");
    }

    #[test]
    fn nothing_at_all_is_trouble() {
        check(&[("nothing @60", "nothing @20")], "nothing Some(20)");
        check(&[("nothing", "nothing")], "nothing None");
        check(&[("nothing @60", "failed")], "failed None");
        check(&[("failed", "nothing @60")], "failed None");
    }

    #[test]
    fn a_family_that_cannot_be_asked_for_keeps_its_last_addresses() {
        check(&[("10.0.0.1 @60", "::1 @60"), ("10.0.0.2 @60", "failed")], "10.0.0.2 ::1 @30");
        check(&[("10.0.0.1 @60", "failed")], "10.0.0.1 @30");
        // Gone for good is something else.
        check(&[("10.0.0.1 @60", "::1 @60"), ("10.0.0.2 @60", "nothing")], "10.0.0.2 @60");
        // A look-up that failed altogether changes nothing.
        check(&[("10.0.0.1 @60", "::1 @60"), ("nothing", "nothing"), ("failed", "::2 @60")], "10.0.0.1 ::2 @30");
    }
}
