//! `tidegate status`: how the running process is, on a page of 100 columns, or as the API has it.

use super::plural;
use super::reach;
use super::status_kubernetes::kubernetes_rows;
use super::table::{labelled, table};
use crate::cli::Running;
use crate::output;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use tidegate_api::{
    Certificate, CertificateState, Certificates, ContainerFault, ContainersStatus, GeoDatabase, Map, Pools, ServerState, Status,
    TicketKeys, TokenKeys,
};

/// Rows of a table, unless `--all` is said.
const LISTED: usize = 20;
/// Certificates that end sooner are pointed out: renewals are done long before.
const DAYS_WARNED: i64 = 14;

pub fn run(all: bool, running: &Running) -> ExitCode {
    reach::with(reach::running(running), |client| {
        if output::is_json() {
            println!("{}", client.fetch_text("/v1/status")?);
            return Ok(());
        }
        let (status, pools, certificates) =
            (client.fetch("/v1/status")?, client.fetch("/v1/pools")?, client.fetch("/v1/certificates")?);
        print!("{}", render(&status, &pools, &certificates, Timestamp::now(), if all { usize::MAX } else { LISTED }));
        Ok(())
    })
}

/// Rows of a table of more than `listed` that need no look are counted.
fn render(status: &Status, pools: &Pools, certificates: &Certificates, now: Timestamp, listed: usize) -> String {
    let mut page = process(status);
    page.push_str(&listeners(status, listed));
    page.push_str(&servers(pools, listed));
    page.push_str(&expiries(certificates, now, listed));
    page
}

/// A row, and whether somebody should look at it.
type Row = (Vec<String>, bool);

/// Rows that fit on a page, what needs a look before all else, in their order; and how many are left out.
fn shortened(rows: Vec<Row>, listed: usize) -> (Vec<Vec<String>>, usize) {
    let count = rows.len();
    let unusual = rows.iter().filter(|(_, is_unusual)| *is_unusual).count();
    let mut room = listed.saturating_sub(unusual);
    let mut of_unusual = listed;
    let mut take = |is_unusual: bool| {
        let left = if is_unusual { &mut of_unusual } else { &mut room };
        let has_room = *left > 0;
        *left = left.saturating_sub(1);
        has_room
    };
    let rows: Vec<Vec<String>> = rows.into_iter().filter(|(_, is_unusual)| take(*is_unusual)).map(|(row, _)| row).collect();
    let left_out = count - rows.len();
    (rows, left_out)
}

fn left_out(count: usize, what: &str) -> String {
    if count == 0 { String::new() } else { format!("and {count} more {what}; `--all` lists them\n") }
}

fn process(status: &Status) -> String {
    let mut page = String::new();
    let mut row = |label: &str, text: String| page.push_str(&labelled(label, &text));
    let readiness = status.readiness.as_str();
    row("process", format!("{}, tidegate {}, {readiness}, started {}", status.process_id, status.version, time(status.started)));
    row("configuration", format!("generation {}, by {}, since {}", status.generation, status.origin, time(status.applied)));
    if let Some(awaits) = &status.awaits_confirmation {
        let (generation, back_to, left) = (awaits.generation, awaits.back_to, awaits.seconds_left);
        row("confirm", format!("generation {generation} goes back to {back_to} in {left} s; `tidegate confirm` keeps it"));
    }
    for drift in &status.drift {
        row("drift", format!("after a restart: {drift}"));
    }
    if let Some(refused) = &status.refused {
        row("refused", format!("{} by {}: {}", time(refused.at), refused.by, refused.why));
    }
    if let Some(keys) = &status.ticket_keys {
        row("ticket keys", ticket_keys(keys));
    }
    for keys in &status.token_keys {
        row("token keys", token_keys(keys));
    }
    for (name, text) in maps(&status.maps) {
        row(name, text);
    }
    for GeoDatabase { file, kind, built, unreadable, fault } in &status.geoip {
        let built = built.map(|built| format!(", made {}", time(built))).unwrap_or_default();
        let broken = if *unreadable > 0 { format!("; {unreadable} of its records could not be read") } else { String::new() };
        let fault = fault.as_ref().map(|fault| format!("; {fault}")).unwrap_or_default();
        row("geoip", format!("{kind}{built} ({file}){broken}{fault}"));
    }
    if let Some(containers) = &status.containers {
        for text in container_rows(containers) {
            row("containers", text);
        }
    }
    for text in status.kubernetes.iter().flat_map(kubernetes_rows) {
        row("kubernetes", text);
    }
    let leaving = match status.workers_leaving {
        0 => String::new(),
        leaving => format!(", and {leaving} that end with their connections"),
    };
    row("workers", format!("{}{leaving}", status.workers));
    row("driver", format!("{} ({})", status.driver, status.driver_reason));
    let traffic = &status.traffic;
    row(
        "traffic",
        format!(
            "{} requests, {} answers from 500 on, {} handshakes, {} failed",
            traffic.requests, traffic.server_errors, traffic.handshakes, traffic.handshake_failures
        ),
    );
    for old in status.requests_by_generation.iter().filter(|old| old.generation != status.generation && old.requests > 0) {
        row("on their way", format!("{} request{} of generation {}", old.requests, plural(old.requests), old.generation));
    }
    page
}

/// How many there are in which stage, and what is wrong with their labels.
fn container_rows(status: &ContainersStatus) -> Vec<String> {
    let mut stages: BTreeMap<&str, usize> = BTreeMap::new();
    for container in &status.containers {
        let stage = match (container.is_served, container.asks) {
            (true, _) => &container.stage,
            (false, true) => "NOT SERVED",
            // No site names it, and nothing of it was to be served.
            (false, false) => "of no site",
        };
        *stages.entry(stage).or_default() += 1;
    }
    let counted: Vec<String> = stages.iter().map(|(stage, count)| format!("{count} {stage}")).collect();
    let mut rows = vec![match (counted.is_empty(), status.listed) {
        (false, _) => counted.join(", "),
        (true, true) => "none with labels that are read".to_owned(),
        (true, false) => "NONE listed so far".to_owned(),
    }];
    rows.extend(status.fault.iter().map(|fault| format!("FAULT: {fault}")));
    for ContainerFault { place, message, help, is_error } in &status.faults {
        let severity = if *is_error { "NOT SERVED" } else { "warning" };
        let help = help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        rows.push(format!("{severity}: {place}: {message}{help}"));
    }
    let more = status.faults_total - status.faults.len();
    if more > 0 {
        rows.push(format!("and {more} more faults of labels"));
    }
    rows
}

/// How many keys a set has, since when, and why they could not be had again.
fn token_keys(keys: &TokenKeys) -> String {
    let TokenKeys { source, keys, read, fault } = keys;
    let at_hand = match read {
        Some(read) => format!("{source}: {keys} key{}, read {}", plural(*keys), time(*read)),
        None => format!("{source}: NONE yet"),
    };
    fault.as_ref().map(|fault| format!("{at_hand}; not again: {fault}")).unwrap_or(at_hand)
}

/// Whether clients resume at other hosts, and what is in the way of it.
fn ticket_keys(keys: &TicketKeys) -> String {
    let TicketKeys { storage, read, shared_until, fault } = keys;
    let at_hand = match (shared_until, read) {
        (Some(until), _) => format!("shared by {storage}, at hand until {}", time(*until)),
        (None, None) => format!("OWN, until {storage} has been read"),
        (None, Some(_)) => format!("OWN, since {storage} gives none for this time"),
    };
    fault.as_ref().map(|fault| format!("{at_hand}; {fault}")).unwrap_or(at_hand)
}

fn maps(maps: &[Map]) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    for map in maps {
        let name = &map.name;
        if !map.hiding_newer.is_empty() {
            let keys = map.hiding_newer.join(", ");
            let text = format!(
                "{name}: changed rows hide newer ones of its file: {keys}; `tidegate map drop {name} KEY` lets them count"
            );
            rows.push(("map", text));
        }
        if let Some(first) = map.unusable_changes.first() {
            let count = map.unusable_changes.len();
            let text = format!(
                "{name}: {count} changed rows in the storage cannot be used ({}); `tidegate map list` names them",
                first.fault
            );
            rows.push(("map", text));
        }
    }
    // The storage of all may be away, or what is there of one map unusable.
    let faults: BTreeSet<&String> = maps.iter().filter_map(|map| map.storage_fault.as_ref()).collect();
    rows.extend(faults.into_iter().map(|fault| ("maps", format!("changed rows are as they were: {fault}"))));
    rows
}

fn listeners(status: &Status, listed: usize) -> String {
    let row = |listener: &tidegate_api::Listener| {
        let connections = &listener.connections;
        let counts = [connections.handshake, connections.http1, connections.http2, connections.tunnel];
        let mut row = vec![listener.address.clone(), listener.scheme.to_string()];
        row.extend(counts.map(|count| count.to_string()));
        row.push(if listener.draining { "ends" } else { "" }.to_owned());
        row
    };
    let rows = status.listeners.iter().map(|listener| (row(listener), listener.draining)).collect();
    let (rows, more) = shortened(rows, listed);
    section(&["LISTENER", "SCHEME", "HANDSHAKE", "HTTP/1", "HTTP/2", "TUNNEL", ""], &rows) + &left_out(more, "listeners")
}

fn servers(pools: &Pools, listed: usize) -> String {
    let mut rows = Vec::new();
    let has_origins = pools.pools.iter().any(|pool| pool.origin.is_some());
    for pool in &pools.pools {
        for server in &pool.servers {
            let priority = match server.priority {
                0 => String::new(),
                1 => ", backup".to_owned(),
                priority => format!(", priority {priority}"),
            };
            let mut row = vec![
                format!("{}/{}", pool.name, server.address),
                format!("{}{priority}", state(server.state)),
                server.requests_in_flight.to_string(),
                server.connections.to_string(),
                server.requests.to_string(),
                server.failures.to_string(),
            ];
            row.extend(has_origins.then(|| pool.origin.clone().unwrap_or_default()));
            rows.push((row, server.state != ServerState::Serving));
        }
    }
    let (rows, more) = shortened(rows, listed);
    let headings = ["POOL/SERVER", "STATE", "IN FLIGHT", "OPEN", "REQUESTS", "FAILURES", "FROM"];
    let mut page = section(&headings[..headings.len() - usize::from(!has_origins)], &rows);
    page.push_str(&left_out(more, "servers"));
    let sources = pools.pools.iter().flat_map(|pool| pool.sources.iter().filter_map(move |source| missing(&pool.name, source)));
    let unusual = pools.pools.iter().flat_map(|pool| pool.servers.iter().filter_map(move |server| why(&pool.name, server)));
    let lines: Vec<String> = sources.chain(unusual).collect();
    if !lines.is_empty() {
        page.push('\n');
        page.push_str(&lines.concat());
    }
    page
}

/// A source that gives a pool no server, or cannot be asked.
fn missing(pool: &str, source: &tidegate_api::Source) -> Option<String> {
    let found = match source.servers {
        None => "has named no server yet",
        Some(0) => "names no server",
        Some(_) => "has a fault, what it named well stays in use",
    };
    match &source.fault {
        Some(fault) => Some(format!("{pool}: {} {found}: {fault}\n", source.name)),
        None if source.servers.is_some_and(|servers| servers > 0) => None,
        None => Some(format!("{pool}: {} {found}\n", source.name)),
    }
}

/// Why a server gets no requests, and when it is tried again.
fn why(pool: &str, server: &tidegate_api::Server) -> Option<String> {
    let why = server.why.as_ref()?;
    let again = server.tried_again_in_seconds.map(|seconds| format!("; tried again in {seconds} s")).unwrap_or_default();
    let checks = server.checks.as_ref().filter(|_| matches!(server.state, ServerState::Down | ServerState::Unknown));
    let checks = checks.map(|checks| format!(": {checks}")).unwrap_or_default();
    Some(format!("{pool}/{}: {why}{checks}{again}\n", server.address))
}

/// As it is pointed out on a page: in capitals what keeps requests away.
pub fn state(state: ServerState) -> &'static str {
    match state {
        ServerState::Serving => "serving",
        ServerState::Unknown => "UNKNOWN",
        ServerState::Starting => "starting",
        ServerState::Draining => "DRAINING",
        ServerState::Leaving => "LEAVING",
        ServerState::Down => "DOWN",
        ServerState::Ejected => "EJECTED",
        ServerState::Resting => "RESTING",
    }
}

fn expiries(certificates: &Certificates, now: Timestamp, listed: usize) -> String {
    let row = |certificate: &Certificate| {
        vec![
            certificate.names.join(" "),
            certificate.source.as_str().to_owned(),
            certificate.not_after.map_or_else(|| "none yet".to_owned(), time),
            expiry(certificate, now),
        ]
    };
    let needs_a_look = |row: &[String]| row[3].chars().next().is_some_and(char::is_uppercase);
    let rows = certificates.certificates.iter().map(row).map(|row| (row.clone(), needs_a_look(&row))).collect();
    let (rows, more) = shortened(rows, listed);
    let mut page = section(&["CERTIFICATE", "FROM", "VALID UNTIL (UTC)", ""], &rows);
    page.push_str(&left_out(more, "certificates"));
    let on_demand = certificates.on_demand.as_ref();
    let on_demand = on_demand.map(|fault| format!("on-demand: {}; {} (at {})\n", fault.cause, fault.remedy, time(fault.at)));
    let faults: Vec<String> = certificates.certificates.iter().filter_map(fault).chain(on_demand).collect();
    if !faults.is_empty() {
        page.push('\n');
        page.push_str(&faults.concat());
    }
    page
}

/// How long a certificate is good for, or what is the matter with it.
pub fn expiry(certificate: &Certificate, now: Timestamp) -> String {
    let Some(end) = certificate.not_after else { return certificate.state.as_str().to_uppercase() };
    if certificate.state == CertificateState::Revoked {
        return "REVOKED".to_owned();
    }
    if end <= now {
        return "EXPIRED".to_owned();
    }
    let hours = (end.as_second() - now.as_second()) / 3_600;
    let days = hours / 24;
    let (count, unit) = if days < 2 { (hours, "hour") } else { (days, "day") };
    // What is obtained may live for six days, and says itself when it is late.
    let is_soon = if certificate.obtained.is_some() { certificate.state == CertificateState::Late } else { days < DAYS_WARNED };
    let warning = if is_soon { "EXPIRES " } else { "" };
    format!("{warning}in {count} {unit}{}", plural(count as usize))
}

/// What is the matter with a certificate, a line for each.
pub fn fault(certificate: &Certificate) -> Option<String> {
    let lines: Vec<String> = [not_obtained(certificate), not_stapled(certificate)].into_iter().flatten().collect();
    (!lines.is_empty()).then(|| lines.concat())
}

/// Says that a certificate is revoked, or that clients refuse it for want of a staple. Without a staple others are as
/// good as with one.
fn not_stapled(certificate: &Certificate) -> Option<String> {
    let staple = certificate.staple.as_ref()?;
    let names = certificate.names.join(" ");
    if let Some(at) = staple.revoked_at {
        // What is done about it, or is in the way, is told as of every other that is obtained.
        if certificate.obtained.as_ref().is_some_and(|obtained| obtained.fault.is_some()) {
            return None;
        }
        let remedy = if certificate.obtained.is_some() { "another one is obtained by itself" } else { "have another one issued" };
        return Some(format!("{names}: revoked by its CA at {}; {remedy}\n", time(at)));
    }
    if !staple.required || staple.until.is_some() {
        return None;
    }
    let why = staple.fault.as_ref().map_or_else(
        || "the OCSP responder has not answered yet".to_owned(),
        |fault| format!("{}; {}", fault.cause, fault.remedy),
    );
    Some(format!("{names}: browsers refuse this certificate without a staple, and there is none: {why}\n"))
}

/// Why it is not obtained or renewed.
fn not_obtained(certificate: &Certificate) -> Option<String> {
    let obtained = certificate.obtained.as_ref()?;
    let fault = obtained.fault.as_ref()?;
    let again = obtained.next_attempt_at.map(|at| format!("; tried again at {}", time(at))).unwrap_or_default();
    Some(format!("{}: {}; {}{again}\n", certificate.names.join(" "), fault.cause, fault.remedy))
}

fn section(headings: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{}", table(headings, rows)) }
}

/// Seconds are enough for people.
pub fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
pub mod tests {
    use super::render;
    use jiff::Timestamp;
    use tidegate_api::{
        AwaitsConfirmation, Certificate, CertificateFault, CertificateSource, CertificateState, Certificates, ConnectionCounts,
        GenerationRequests, Listener, Obtained, Pool, Pools, Readiness, Refused, Server, ServerState, Status, TicketKeys,
        Traffic,
    };

    pub fn status() -> Status {
        Status {
            version: "0.1.0".into(),
            process_id: 4711,
            started: "2026-11-20T10:00:00.123Z".parse().unwrap(),
            readiness: Readiness::Ready,
            generation: 5,
            applied: "2026-11-20T11:00:00Z".parse().unwrap(),
            origin: "apply /etc/tidegate/tidegate.kdl".into(),
            source: "/etc/tidegate/tidegate.kdl".into(),
            workers: 2,
            driver: "epoll".into(),
            driver_reason: "auto is epoll in this version".into(),
            workers_leaving: 0,
            awaits_confirmation: None,
            refused: None,
            drift: Vec::new(),
            ticket_keys: None,
            token_keys: Vec::new(),
            maps: Vec::new(),
            geoip: Vec::new(),
            containers: None,
            kubernetes: None,
            listeners: vec![Listener {
                address: "0.0.0.0:443".parse().unwrap(),
                scheme: "https".into(),
                sockets: 2,
                draining: false,
                connections: ConnectionCounts { handshake: 1, http1: 20, http2: 300, tunnel: 4 },
            }],
            requests_by_generation: vec![GenerationRequests { generation: 5, requests: 9 }],
            traffic: Traffic { requests: 1234, server_errors: 5, handshakes: 60, handshake_failures: 7 },
        }
    }

    pub fn pools() -> Pools {
        let server = |address: &str, state: ServerState, requests_in_flight: u32| Server {
            address: address.into(),
            addresses: vec![address.parse().unwrap()],
            weight: 1,
            priority: u32::from(state == ServerState::Draining),
            zone: None,
            discovered: false,
            why: (state != ServerState::Serving).then(|| "something is the matter".into()),
            tried_again_in_seconds: (state == ServerState::Down).then_some(1),
            checks: (state == ServerState::Down).then(|| "answered 503".into()),
            state,
            requests_in_flight,
            connections: requests_in_flight + 1,
            requests: 100,
            failures: 2,
        };
        let servers = vec![
            server("10.0.0.1:80", ServerState::Serving, 7),
            server("10.0.0.2:80", ServerState::Draining, 2),
            server("10.0.0.3:80", ServerState::Down, 0),
        ];
        Pools {
            generation: 5,
            pools: vec![Pool {
                name: "app".into(),
                origin: None,
                balance: "p2c".into(),
                servers,
                sources: vec![tidegate_api::Source {
                    name: "dns api.internal:8080".into(),
                    servers: None,
                    fault: Some("the resolver is silent".into()),
                }],
                requests: 1000,
                retries: 1,
                errors: 3,
                errors_by_reason: Vec::new(),
                connections_opened: 10,
                connections_reused: 990,
                connections_active: 9,
                connections_idle: 3,
            }],
        }
    }

    fn certificate(name: &str, not_after: &str) -> Certificate {
        Certificate {
            site: format!("https://{name}"),
            source: CertificateSource::Files,
            files: Vec::new(),
            names: vec![name.into(), format!("www.{name}")],
            state: CertificateState::Ready,
            not_before: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            not_after: Some(not_after.parse().unwrap()),
            key: Some("ECDSA P-256".into()),
            obtained: None,
            staple: None,
        }
    }

    fn obtained(name: &str, state: CertificateState, not_after: Option<&str>, cause: Option<&str>) -> Certificate {
        let fault = |cause: &str| CertificateFault {
            at: "2026-11-20T11:00:00Z".parse().unwrap(),
            cause: cause.into(),
            remedy: "point its A record to this machine".into(),
        };
        Certificate {
            site: format!("https://{name}"),
            source: CertificateSource::Acme,
            files: Vec::new(),
            names: vec![name.into()],
            state,
            not_before: None,
            not_after: not_after.map(|end| end.parse().unwrap()),
            key: None,
            obtained: Some(Obtained {
                serial: None,
                directory: None,
                renew_at: None,
                failures_in_a_row: u32::from(cause.is_some()),
                fault: cause.map(fault),
                next_attempt_at: cause.map(|_| "2026-11-20T13:00:00Z".parse().unwrap()),
            }),
            staple: None,
        }
    }

    fn page(status: &Status) -> String {
        let certificates = vec![
            certificate("a.example", "2027-03-01T12:00:00Z"),
            certificate("b.example", "2026-11-29T12:00:00Z"),
            certificate("c.example", "2026-11-01T00:00:00Z"),
            obtained("d.example", CertificateState::Missing, None, Some("the name does not exist")),
            obtained("e.example", CertificateState::Ready, Some("2026-11-25T00:00:00Z"), None),
        ];
        let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        let page = render(status, &pools(), &Certificates { certificates, on_demand: None }, now, 20);
        assert!(page.lines().all(|line| line.chars().count() <= 110), "{page}");
        page
    }

    #[test]
    fn a_page_of_a_quiet_process() {
        assert_eq!(
            page(&status()),
            "\
process       4711, tidegate 0.1.0, ready, started 2026-11-20 10:00:00
configuration generation 5, by apply /etc/tidegate/tidegate.kdl, since 2026-11-20 11:00:00
workers       2
driver        epoll (auto is epoll in this version)
traffic       1234 requests, 5 answers from 500 on, 60 handshakes, 7 failed

LISTENER     SCHEME  HANDSHAKE  HTTP/1  HTTP/2  TUNNEL
0.0.0.0:443  https           1      20     300       4

POOL/SERVER      STATE             IN FLIGHT  OPEN  REQUESTS  FAILURES
app/10.0.0.1:80  serving                   7     8       100         2
app/10.0.0.2:80  DRAINING, backup          2     3       100         2
app/10.0.0.3:80  DOWN                      0     1       100         2

app: dns api.internal:8080 has named no server yet: the resolver is silent
app/10.0.0.2:80: something is the matter
app/10.0.0.3:80: something is the matter: answered 503; tried again in 1 s

CERTIFICATE              FROM   VALID UNTIL (UTC)
a.example www.a.example  files  2027-03-01 12:00:00  in 101 days
b.example www.b.example  files  2026-11-29 12:00:00  EXPIRES in 9 days
c.example www.c.example  files  2026-11-01 00:00:00  EXPIRED
d.example                acme   none yet             MISSING
e.example                acme   2026-11-25 00:00:00  in 4 days

d.example: the name does not exist; point its A record to this machine; tried again at 2026-11-20 13:00:00
"
        );
    }

    #[test]
    fn of_many_those_are_listed_that_need_a_look() {
        let (status, mut pools) = (status(), pools());
        let server = pools.pools[0].servers[0].clone();
        let down = pools.pools[0].servers[2].clone();
        pools.pools[0].servers = (0..200).map(|_| server.clone()).chain([down]).collect();
        let mut certificates: Vec<_> = (0..200).map(|_| certificate("a.example", "2027-03-01T12:00:00Z")).collect();
        certificates.push(certificate("old.example", "2026-11-01T00:00:00Z"));
        let certificates = Certificates { certificates, on_demand: None };
        let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        let short = render(&status, &pools, &certificates, now, 20);
        assert!(short.lines().count() < 70, "{short}");
        for expected in ["and 181 more servers", "and 181 more certificates", "DOWN", "old.example", "EXPIRED"] {
            assert!(short.contains(expected), "{expected} in\n{short}");
        }
        let long = render(&status, &pools, &certificates, now, usize::MAX);
        assert!(long.lines().count() > 400 && !long.contains("more servers"));
    }

    #[test]
    fn what_is_not_as_it_should_be_is_said() {
        let mut status = status();
        status.awaits_confirmation = Some(AwaitsConfirmation { generation: 5, back_to: 4, seconds_left: 43 });
        status.drift = vec!["/etc/tidegate/tidegate.kdl has another text than generation 5 that runs ".repeat(2)];
        let why = "error: the site has no address\n  help: give it one".to_owned();
        status.refused = Some(Refused { at: "2026-11-20T11:30:00Z".parse().unwrap(), by: "SIGHUP".into(), why });
        status.requests_by_generation.insert(0, GenerationRequests { generation: 3, requests: 1 });
        status.workers_leaving = 1;
        status.ticket_keys = Some(TicketKeys {
            storage: "redis://10.0.0.5:6379/0 prefix=edge:".into(),
            read: Some("2026-11-20T02:00:00Z".parse().unwrap()),
            shared_until: None,
            fault: Some("it is away".into()),
        });
        let page = page(&status);
        for expected in [
            "confirm       generation 5 goes back to 4 in 43 s; `tidegate confirm` keeps it",
            "drift         after a restart: /etc/tidegate/tidegate.kdl has",
            "refused       2026-11-20 11:30:00 by SIGHUP: error: the site has no address help: give it one",
            "on their way  1 request of generation 3",
            "workers       2, and 1 that end with their connections",
            "ticket keys   OWN, since redis://10.0.0.5:6379/0 prefix=edge: gives none for this time; it is away",
        ] {
            assert!(page.contains(expected), "{expected} in\n{page}");
        }
    }
}
