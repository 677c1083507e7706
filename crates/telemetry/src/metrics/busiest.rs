//! Which sites have series of their own when there are more than may have: those with most requests, whenever they
//! came. Each series only grows for as long as it is there, and so does the one of all others: what a site had counted
//! when it got its name stays with the others, and what it counts under its name is added to them when it loses it.

use super::site::SiteTotals;
use super::table::TwoNames;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often it is looked at who is busy. A series that comes and goes is of little use to anybody.
const REVIEW_EVERY: Duration = Duration::from_secs(600);
/// How many times as many requests as one with a name a site without needs, so that equals don't take turns.
const BUSIER_BY: u64 = 2;

#[derive(Debug)]
pub(super) struct Busiest {
    named_max: usize,
    /// Sites with series of their own, and what they had counted before.
    named: BTreeMap<TwoNames, SiteTotals>,
    /// Requests of every site at the last review, once there are more than may have names.
    reviewed: Option<(Instant, BTreeMap<TwoNames, u64>)>,
}

impl Busiest {
    pub fn new(named_max: usize) -> Busiest {
        Busiest { named_max, named: BTreeMap::new(), reviewed: None }
    }

    /// Of all sites, those with names, and the sum of the others, if there are any.
    pub fn choose(
        &mut self,
        all: Vec<(TwoNames, SiteTotals)>,
        now: Instant,
    ) -> (Vec<(TwoNames, SiteTotals)>, Option<SiteTotals>) {
        let all: BTreeMap<TwoNames, SiteTotals> = all.into_iter().filter(|(_, totals)| !totals.is_idle()).collect();
        self.named.retain(|name, _| all.contains_key(name));
        if self.reviewed.is_none() && all.len() <= self.named_max {
            for name in all.keys().filter(|name| !self.named.contains_key(*name)).cloned().collect::<Vec<_>>() {
                self.named.insert(name, SiteTotals::default());
            }
        } else {
            self.review(&all, now);
        }
        self.split(all)
    }

    fn split(&self, all: BTreeMap<TwoNames, SiteTotals>) -> (Vec<(TwoNames, SiteTotals)>, Option<SiteTotals>) {
        let mut others: Option<SiteTotals> = None;
        let mut shown = Vec::with_capacity(self.named.len());
        for (name, mut totals) in all {
            match self.named.get(&name) {
                Some(before) => {
                    if *before != SiteTotals::default() {
                        totals.subtract_counts(before);
                        others.get_or_insert_default().add_totals(before);
                    }
                    shown.push((name, totals));
                }
                None => others.get_or_insert_default().add_totals(&totals),
            }
        }
        (shown, others)
    }

    fn review(&mut self, all: &BTreeMap<TwoNames, SiteTotals>, now: Instant) {
        let before = match &self.reviewed {
            Some((at, _)) if now.saturating_duration_since(*at) < REVIEW_EVERY => {
                return self.fill(all, &BTreeMap::new());
            }
            Some((_, before)) => before.clone(),
            None => BTreeMap::new(),
        };
        self.fill(all, &before);
        let since = |name: &TwoNames| {
            let requests = all.get(name).map_or(0, |totals| totals.answers.sum());
            requests.saturating_sub(before.get(name).copied().unwrap_or(0))
        };
        let mut idlest: Vec<(u64, TwoNames)> = self.named.keys().map(|name| (since(name), name.clone())).collect();
        idlest.sort();
        let unnamed = all.keys().filter(|name| !self.named.contains_key(*name));
        let mut busiest: Vec<(u64, TwoNames)> = unnamed.map(|name| (since(name), name.clone())).collect();
        busiest.sort_by(|a, b| b.cmp(a));
        for ((requests, name), (of_named, loser)) in busiest.into_iter().zip(idlest) {
            if requests <= of_named.saturating_mul(BUSIER_BY) {
                break;
            }
            self.named.remove(&loser);
            self.name(&name, all);
        }
        self.reviewed = Some((now, all.iter().map(|(name, totals)| (name.clone(), totals.answers.sum())).collect()));
    }

    /// Gives names to the busiest as long as there is room.
    fn fill(&mut self, all: &BTreeMap<TwoNames, SiteTotals>, before: &BTreeMap<TwoNames, u64>) {
        let room = self.named_max.saturating_sub(self.named.len());
        if room == 0 {
            return;
        }
        let since =
            |name: &TwoNames, totals: &SiteTotals| totals.answers.sum().saturating_sub(before.get(name).copied().unwrap_or(0));
        let unnamed = all.iter().filter(|(name, _)| !self.named.contains_key(*name));
        let mut busiest: Vec<(u64, TwoNames)> = unnamed.map(|(name, totals)| (since(name, totals), name.clone())).collect();
        busiest.sort_by(|a, b| b.cmp(a));
        for (_, name) in busiest.into_iter().take(room) {
            self.name(&name, all);
        }
    }

    fn name(&mut self, name: &TwoNames, all: &BTreeMap<TwoNames, SiteTotals>) {
        // Before the first review nobody was counted among the others.
        let counted = match (&self.reviewed, all.get(name)) {
            (Some(_), Some(totals)) => SiteTotals { in_flight: 0, ..totals.clone() },
            (None, _) | (_, None) => SiteTotals::default(),
        };
        self.named.insert(name.clone(), counted);
    }
}

#[cfg(test)]
mod tests {
    use super::{Busiest, REVIEW_EVERY};
    use crate::metrics::site::{SiteMetrics, SiteTotals};
    use crate::metrics::table::two_names;
    use crate::metrics::{AnswerKind, MethodLabel, ProtocolLabel};
    use std::time::{Duration, Instant};

    struct World {
        sites: Vec<(String, SiteMetrics)>,
        busiest: Busiest,
        now: Instant,
        others_before: u64,
    }

    impl World {
        fn new(named_max: usize) -> World {
            World { sites: Vec::new(), busiest: Busiest::new(named_max), now: Instant::now(), others_before: 0 }
        }

        fn requests(&mut self, name: &str, count: usize) {
            if !self.sites.iter().any(|(known, _)| known == name) {
                self.sites.push((name.to_owned(), SiteMetrics::default()));
            }
            let (_, site) = self.sites.iter().find(|(known, _)| known == name).expect("it is there");
            for _ in 0..count {
                let kind = AnswerKind { status: 200, method: MethodLabel::Get, protocol: ProtocolLabel::Http11 };
                site.record(kind, Duration::from_millis(1), 1);
            }
        }

        /// Names with their requests, and the requests of the others. Nothing may be lost, and the others never become
        /// fewer.
        fn scrape(&mut self) -> (Vec<(String, u64)>, u64) {
            let totals = |site: &SiteMetrics| {
                let mut totals = SiteTotals::default();
                totals.add(site);
                totals
            };
            let all: Vec<_> = self.sites.iter().map(|(name, site)| (two_names(name, ""), totals(site))).collect();
            let sent: u64 = all.iter().map(|(_, totals)| totals.answers.sum()).sum();
            let (named, others) = self.busiest.choose(all, self.now);
            let others = others.map_or(0, |others| others.answers.sum());
            let named: Vec<_> = named.into_iter().map(|(name, totals)| (name.0.to_string(), totals.answers.sum())).collect();
            assert_eq!(named.iter().map(|(_, count)| count).sum::<u64>() + others, sent);
            assert!(others >= self.others_before, "a counter went back from {} to {others}", self.others_before);
            self.others_before = others;
            (named, others)
        }

        fn check(&mut self, expected: &[(&str, u64)], others: u64) {
            let expected: Vec<_> = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            assert_eq!(self.scrape(), (expected, others));
        }
    }

    #[test]
    fn all_have_names_as_long_as_there_is_room() {
        let mut world = World::new(3);
        world.requests("a", 1);
        world.check(&[("a", 1)], 0);
        world.requests("b", 2);
        world.requests("idle", 0);
        world.check(&[("a", 1), ("b", 2)], 0);
    }

    #[test]
    fn who_is_busy_has_a_name_whenever_it_came() {
        let mut world = World::new(2);
        world.requests("first", 1);
        world.requests("second", 5);
        world.check(&[("first", 1), ("second", 5)], 0);
        world.requests("late", 100);
        world.check(&[("late", 100), ("second", 5)], 1);
        // Only a review takes a name away again, and only for somebody who is much busier.
        world.requests("first", 50);
        world.requests("second", 40);
        world.requests("late", 1000);
        world.check(&[("late", 1100), ("second", 45)], 51);
        world.now += REVIEW_EVERY;
        world.check(&[("late", 1100), ("second", 45)], 51);
        world.requests("first", 50);
        world.requests("late", 1);
        world.now += REVIEW_EVERY;
        world.check(&[("first", 0), ("late", 1101)], 146);
        world.requests("first", 7);
        world.requests("second", 1);
        world.check(&[("first", 7), ("late", 1101)], 147);
    }

    #[test]
    fn what_is_gone_makes_room() {
        let mut world = World::new(1);
        world.requests("a", 10);
        world.requests("b", 5);
        world.check(&[("a", 10)], 5);
        world.sites.remove(0);
        world.others_before = 0;
        world.check(&[("b", 0)], 5);
    }
}
