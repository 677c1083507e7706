//! Two looks at a process in, rates and rows out. Pure: no clock, no terminal.

use super::figures::{CLASSES, Figures, SiteFigures};
use std::cmp::Ordering;
use tidegate_api::{Pools, ServerState, Status};

/// One look.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Since some beginning that all looks have in common.
    pub seconds: f64,
    pub status: Status,
    pub pools: Pools,
    pub figures: Figures,
}

/// What servers are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    #[default]
    InFlight,
    Errors,
    Name,
}

impl Sort {
    pub fn next(self) -> Sort {
        match self {
            Sort::InFlight => Sort::Errors,
            Sort::Errors => Sort::Name,
            Sort::Name => Sort::InFlight,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Sort::InFlight => "requests in flight",
            Sort::Errors => "errors",
            Sort::Name => "name",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Version, process, readiness.
    pub process: String,
    pub configuration: String,
    /// What somebody should look at, a sentence each.
    pub warnings: Vec<String>,
    /// `None` until there are two looks at the same process.
    pub rates: Option<Rates>,
    /// Of all sites together; `None` as the rates.
    pub whole: Option<SiteRow>,
    pub resident_bytes: Option<u64>,
    /// The busiest first.
    pub sites: Vec<SiteRow>,
    pub listeners: Vec<ListenerRow>,
    pub servers: Vec<ServerRow>,
}

/// Per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    pub requests: f64,
    pub errors: f64,
    pub handshakes: f64,
    pub handshake_failures: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListenerRow {
    pub address: String,
    pub scheme: String,
    /// Handshakes, HTTP/1, HTTP/2, tunnels.
    pub connections: [usize; 4],
    pub is_draining: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SiteRow {
    pub name: String,
    /// Answers per second, from 1xx to 5xx.
    pub classes: [f64; CLASSES],
    /// Half of the requests, and 99 of 100, took no longer than so many seconds.
    pub median: Option<f64>,
    pub p99: Option<f64>,
}

impl SiteRow {
    fn of(name: &str, since: &SiteFigures, seconds: f64) -> SiteRow {
        SiteRow {
            name: name.to_owned(),
            classes: since.classes.map(|count| count as f64 / seconds),
            median: since.quantile(0.5),
            p99: since.quantile(0.99),
        }
    }

    pub fn requests(&self) -> f64 {
        self.classes.iter().sum()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ServerRow {
    /// `pool/server`
    pub name: String,
    pub state: ServerState,
    pub in_flight: u32,
    pub connections: u32,
    pub requests: Option<f64>,
    pub failures: Option<f64>,
}

pub fn view(before: Option<&Sample>, now: &Sample, sort: Sort) -> View {
    // Counters of another process began anew.
    let before = before.filter(|before| {
        before.status.process_id == now.status.process_id
            && before.status.started == now.status.started
            && now.seconds > before.seconds
    });
    let status = &now.status;
    View {
        process: format!("tidegate {}, process {}, {}", status.version, status.process_id, status.readiness.as_str()),
        configuration: format!("generation {}, by {}", status.generation, status.origin),
        warnings: warnings(status),
        rates: before.map(|before| rates(before, now)),
        whole: before.map(|before| {
            let since = now.figures.whole().since(&before.figures.whole());
            SiteRow::of("", &since, now.seconds - before.seconds)
        }),
        resident_bytes: now.figures.resident_bytes,
        sites: before.map(|before| sites(before, now)).unwrap_or_default(),
        listeners: status.listeners.iter().map(listener).collect(),
        servers: servers(before, now, sort),
    }
}

fn warnings(status: &Status) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(awaits) = &status.awaits_confirmation {
        let (generation, back_to) = (awaits.generation, awaits.back_to);
        warnings.push(format!("generation {generation} goes back to {back_to} in {} s unless confirmed", awaits.seconds_left));
    }
    if let Some(refused) = &status.refused {
        warnings.push(format!("a change by {} was refused; `tidegate status` says why", refused.by));
    }
    if !status.drift.is_empty() {
        warnings.push("a restart would bring another configuration; `tidegate status` says why".to_owned());
    }
    warnings
}

fn sites(before: &Sample, now: &Sample) -> Vec<SiteRow> {
    let seconds = now.seconds - before.seconds;
    let none = SiteFigures::default();
    let row = |(name, figures): (&String, &SiteFigures)| {
        let was = before.figures.sites.get(name).unwrap_or(&none);
        SiteRow::of(name, &figures.since(was), seconds)
    };
    let mut rows: Vec<SiteRow> = now.figures.sites.iter().map(row).collect();
    rows.sort_by(|a, b| b.requests().total_cmp(&a.requests()).then_with(|| a.name.cmp(&b.name)));
    rows
}

fn listener(listener: &tidegate_api::Listener) -> ListenerRow {
    let connections = &listener.connections;
    ListenerRow {
        address: listener.address.clone(),
        scheme: listener.scheme.to_string(),
        connections: [connections.handshake, connections.http1, connections.http2, connections.tunnel],
        is_draining: listener.draining,
    }
}

fn rates(before: &Sample, now: &Sample) -> Rates {
    let seconds = now.seconds - before.seconds;
    let (was, is) = (&before.status.traffic, &now.status.traffic);
    Rates {
        requests: per_second(was.requests, is.requests, seconds),
        errors: per_second(was.server_errors, is.server_errors, seconds),
        handshakes: per_second(was.handshakes, is.handshakes, seconds),
        handshake_failures: per_second(was.handshake_failures, is.handshake_failures, seconds),
    }
}

fn per_second(was: u64, is: u64, seconds: f64) -> f64 {
    is.saturating_sub(was) as f64 / seconds
}

fn servers(before: Option<&Sample>, now: &Sample, sort: Sort) -> Vec<ServerRow> {
    let mut rows = Vec::new();
    for pool in &now.pools.pools {
        let seconds = now.seconds - before.map_or(0.0, |before| before.seconds);
        let known = before.and_then(|before| before.pools.pools.iter().find(|known| known.name == pool.name));
        for server in &pool.servers {
            let known = known.and_then(|pool| pool.servers.iter().find(|known| known.address == server.address));
            rows.push(ServerRow {
                name: format!("{}/{}", pool.name, server.address),
                state: server.state,
                in_flight: server.requests_in_flight,
                connections: server.connections,
                requests: known.map(|known| per_second(known.requests, server.requests, seconds)),
                failures: known.map(|known| per_second(known.failures, server.failures, seconds)),
            });
        }
    }
    rows.sort_by(|a, b| order(a, b, sort).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// The highest first.
fn order(a: &ServerRow, b: &ServerRow, sort: Sort) -> Ordering {
    let errors = |row: &ServerRow| row.failures.unwrap_or(0.0);
    match sort {
        Sort::InFlight => b.in_flight.cmp(&a.in_flight),
        Sort::Errors => errors(b).total_cmp(&errors(a)),
        Sort::Name => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, Rates, Sample, SiteFigures, Sort, view};
    use crate::commands::status::tests::{pools, status};
    use tidegate_api::AwaitsConfirmation;

    fn sample(seconds: f64, requests: u64, errors: u64) -> Sample {
        let mut sample = Sample { seconds, status: status(), pools: pools(), figures: Figures::default() };
        sample.status.traffic.requests = requests;
        sample.status.traffic.server_errors = errors;
        sample.pools.pools[0].servers[0].requests = requests;
        sample.pools.pools[0].servers[0].failures = errors;
        sample
    }

    #[test]
    fn rates_are_of_two_looks_at_one_process() {
        let rates = |requests: f64, errors: f64| Some(Rates { requests, errors, handshakes: 0.0, handshake_failures: 0.0 });
        let check = |before: Option<Sample>, now: Sample, expected: Option<Rates>| {
            let seen = view(before.as_ref(), &now, Sort::Name);
            assert_eq!(seen.rates, expected);
            assert_eq!(seen.servers[0].requests, expected.map(|rates| rates.requests));
            assert_eq!(seen.servers[0].failures, expected.map(|rates| rates.errors));
        };
        check(None, sample(1.0, 100, 1), None);
        check(Some(sample(1.0, 100, 1)), sample(2.0, 150, 1), rates(50.0, 0.0));
        check(Some(sample(1.0, 100, 1)), sample(5.0, 300, 3), rates(50.0, 0.5));
        check(Some(sample(1.0, 100, 1)), sample(1.0, 300, 3), None);
        let mut other = sample(2.0, 5, 0);
        other.status.process_id = 1;
        check(Some(sample(1.0, 100, 1)), other, None);
        check(Some(sample(1.0, 100, 1)), sample(2.0, 50, 0), rates(0.0, 0.0));
    }

    #[test]
    fn sites_are_the_busiest_first_with_rates_of_two_looks() {
        let figures = |counts: [u64; 2]| {
            let site = |count: u64| SiteFigures {
                classes: [0, count, 0, 0, count / 10],
                buckets: vec![(0.01, count), (f64::INFINITY, count)],
            };
            let sites = [("https://a.test".to_owned(), site(counts[0])), ("https://b.test".to_owned(), site(counts[1]))];
            Figures { sites: sites.into(), resident_bytes: Some(7) }
        };
        let mut before = sample(1.0, 100, 1);
        before.figures = figures([1000, 10]);
        let mut now = sample(3.0, 200, 1);
        now.figures = figures([1010, 110]);
        let seen = view(Some(&before), &now, Sort::Name);
        let rows: Vec<_> = seen.sites.iter().map(|row| (row.name.as_str(), row.classes[1], row.classes[4], row.p99)).collect();
        assert_eq!(rows, [("https://b.test", 50.0, 5.0, Some(0.01)), ("https://a.test", 5.0, 0.5, Some(0.01))]);
        assert_eq!(seen.whole.map(|whole| whole.requests()), Some(60.5));
        assert_eq!(seen.resident_bytes, Some(7));
        assert!(view(None, &now, Sort::Name).sites.is_empty(), "one look has no rates");
    }

    #[test]
    fn a_pool_that_is_new_has_no_rates() {
        let mut before = sample(1.0, 100, 1);
        before.pools.pools[0].name = "other".into();
        let seen = view(Some(&before), &sample(2.0, 200, 1), Sort::Name);
        assert!(seen.rates.is_some());
        assert_eq!(seen.servers[0].requests, None);
    }

    #[test]
    fn servers_are_sorted_the_busiest_first() {
        let check = |sort: Sort, expected: [&str; 4]| {
            let mut before = sample(1.0, 100, 1);
            let mut now = sample(2.0, 100, 1);
            let mut second = now.pools.pools[0].clone();
            second.name = "zone".into();
            second.servers.truncate(1);
            second.servers[0].requests_in_flight = 4;
            before.pools.pools.push(second.clone());
            second.servers[0].failures += 10;
            now.pools.pools.push(second);
            let names: Vec<String> = view(Some(&before), &now, sort).servers.into_iter().map(|row| row.name).collect();
            assert_eq!(names, expected, "by {}", sort.as_str());
        };
        check(Sort::InFlight, ["app/10.0.0.1:80", "zone/10.0.0.1:80", "app/10.0.0.2:80", "app/10.0.0.3:80"]);
        check(Sort::Errors, ["zone/10.0.0.1:80", "app/10.0.0.1:80", "app/10.0.0.2:80", "app/10.0.0.3:80"]);
        check(Sort::Name, ["app/10.0.0.1:80", "app/10.0.0.2:80", "app/10.0.0.3:80", "zone/10.0.0.1:80"]);
    }

    #[test]
    fn what_should_be_looked_at_is_said() {
        let mut now = sample(1.0, 0, 0);
        assert_eq!(view(None, &now, Sort::Name).warnings, Vec::<String>::new());
        now.status.awaits_confirmation = Some(AwaitsConfirmation { generation: 5, back_to: 4, seconds_left: 9 });
        now.status.drift = vec!["so".into()];
        let warnings = view(None, &now, Sort::Name).warnings;
        assert_eq!(warnings.len(), 2);
        assert_eq!(warnings[0], "generation 5 goes back to 4 in 9 s unless confirmed");
    }
}
