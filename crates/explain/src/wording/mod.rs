//! Settings by their names and values, and titles of routes: what `plan` compares and both show. How a directive is
//! spelled is known to `config` alone (`tidegate_config::writing`), which also says what is a secret.

mod acme;
mod pool;

pub use acme::{acme, storage};
pub use pool::{pool_secrets, pool_settings};

use ipnet::IpNet;
use std::path::PathBuf;
use tidegate_api::Setting;
use tidegate_config::writing::{
    Form, joined, match_line, name_of, quoted, shortened, show_duration, show_network, show_path, show_size,
};
use tidegate_model::{
    AccessLog, AccessLogFormat, Admin, CacheStore, CipherName, ClientAuth, Limits, LogLevel, LogTarget, Memory, PoolName, Route,
    Split, Terminal, Threads, TicketKeySource, Tls, TlsSource, TlsVersion,
};

fn setting(name: &'static str, value: impl Into<String>) -> Setting {
    Setting { name: name.into(), value: value.into() }
}

/// `route "/api/*" match method="POST" → pool api`, on one line.
pub fn route_title(route: &Route) -> String {
    let mut title = "route".to_owned();
    for pattern in &route.paths {
        title.push_str(&format!(" {}", quoted(&shortened(&show_path(pattern)))));
    }
    for (position, line) in route.matches.iter().enumerate() {
        title.push_str(if position == 0 { " " } else { " or " });
        title.push_str(&match_line(line, Form::Shown));
    }
    title.push_str(" → ");
    title.push_str(&match &route.terminal {
        Terminal::Respond { status, .. } => format!("respond {status}"),
        Terminal::Redirect { to, .. } => format!("redirect {}", shortened(&to.to_string())),
        Terminal::Proxy { pool, .. } => format!("pool {pool}"),
        Terminal::Files(files) => format!("files {}", shortened(&files.root.display().to_string())),
        Terminal::FastCgi(fastcgi) => format!("fastcgi {}", shortened(&fastcgi.pool.0)),
        Terminal::Split(split) => format!("split {}", shares(split)),
    });
    title
}

/// `none`, or the networks as they stand in `trusted-proxies`.
pub fn networks(networks: &[IpNet]) -> String {
    if networks.is_empty() { "none".to_owned() } else { networks.iter().map(show_network).collect::<Vec<_>>().join(" ") }
}

/// `95% pool web, 5% pool canary`
pub fn shares(split: &Split) -> String {
    let share = |(pool, percent): (&PoolName, f64)| format!("{} pool {pool}", self::percent(percent));
    split.percents().map(share).collect::<Vec<_>>().join(", ")
}

/// `95%`, `33.3%`, and `<0.1%` for what would be shown as nothing.
fn percent(percent: f64) -> String {
    let rounded = (percent * 10.0).round() / 10.0;
    if rounded == 0.0 && percent > 0.0 { "<0.1%".to_owned() } else { format!("{rounded}%") }
}

pub fn admin(admin: &Admin) -> String {
    match admin {
        Admin::Off => "off".to_owned(),
        Admin::Tcp(address) => address.to_string(),
        Admin::Unix(path) => format!("unix:{}", path.display()),
    }
}

pub fn access_log(access_log: &AccessLog) -> [Setting; 4] {
    let AccessLog { target, format } = access_log;
    let (target, rotation) = match target {
        LogTarget::Off => ("off".to_owned(), None),
        LogTarget::Stdout => ("stdout".to_owned(), None),
        LogTarget::Stderr => ("stderr".to_owned(), None),
        LogTarget::File { path, rotation } => (path.display().to_string(), *rotation),
    };
    let format = match format {
        AccessLogFormat::Json => "json".to_owned(),
        AccessLogFormat::Common => "common".to_owned(),
        AccessLogFormat::Template(text) => quoted(&shortened(&text.to_string())),
    };
    let off = || "off".to_owned();
    [
        setting("access-log", target),
        setting("access-log format", format),
        setting("access-log rotate", rotation.map_or_else(off, |rotation| show_size(rotation.size_bytes))),
        setting("access-log keep", rotation.map_or_else(off, |rotation| rotation.keep.to_string())),
    ]
}

pub fn log_level(level: LogLevel) -> &'static str {
    name_of(LogLevel::NAMES, &level)
}

pub fn threads(threads: Threads) -> String {
    match threads {
        Threads::Auto => "auto".to_owned(),
        Threads::Count(count) => count.to_string(),
    }
}

pub fn memory(memory: Memory) -> String {
    match memory {
        Memory::Auto => "auto".to_owned(),
        Memory::Bytes(bytes) => show_size(bytes),
        Memory::Off => "off".to_owned(),
    }
}

pub fn cache_store(store: &CacheStore) -> String {
    let memory = store.memory_bytes.map_or_else(|| "auto".to_owned(), show_size);
    let disk = store
        .disk
        .as_ref()
        .map_or_else(String::new, |disk| format!(", {} of {}", show_size(disk.bytes_max), disk.folder.display()));
    format!("memory {memory}, answers up to {}{disk}", show_size(store.object_bytes_max))
}

/// Names of files, as they were written with the folder in front.
pub fn paths(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" ")
}

pub fn ticket_keys(source: &TicketKeySource) -> String {
    match source {
        TicketKeySource::Own => "keys of its own".to_owned(),
        TicketKeySource::Files(files) => paths(files),
        TicketKeySource::Shared => "shared by the storage".to_owned(),
    }
}

/// Each bound by its name in `limits`.
pub fn limits(limits: &Limits) -> [Setting; 9] {
    // Named one by one, so that a new bound is missed by nobody.
    let Limits {
        header_bytes,
        request_line_bytes,
        header_count,
        connections_per_ip,
        header_timeout,
        keep_alive,
        body_rate_bytes,
        h2_streams,
        handshakes_per_network,
    } = limits;
    [
        setting("header-bytes", show_size(*header_bytes as u64)),
        setting("request-line", show_size(*request_line_bytes as u64)),
        setting("header-count", header_count.to_string()),
        setting("connections-per-ip", connections_per_ip.to_string()),
        setting("header-timeout", show_duration(*header_timeout)),
        setting("keep-alive", show_duration(*keep_alive)),
        setting("body-rate", if *body_rate_bytes == 0 { "off".to_owned() } else { format!("{}/s", show_size(*body_rate_bytes)) }),
        setting("h2-streams", h2_streams.to_string()),
        setting("handshakes-per-network", handshakes_per_network.map_or_else(|| "off".to_owned(), |rate| rate.to_string())),
    ]
}

/// The settings of a site's `tls`.
pub fn tls(tls: &Tls) -> [Setting; 10] {
    let Tls { source, min_version, ciphers, alpn: _, tickets, early_data, ocsp_stapling, client_auth, acme: _, on_demand: _ } =
        tls;
    let [acme, on_demand] = acme::of_site(tls);
    let ciphers = joined(ciphers, |cipher| name_of(CipherName::NAMES, cipher).to_owned());
    [
        setting("tls", tls_source(source)),
        setting("tls min", tls_version(*min_version)),
        setting("tls ciphers", if ciphers.is_empty() { "all".to_owned() } else { ciphers }),
        setting("tls alpn", alpn(tls)),
        setting("tls tickets", yes_or_no(*tickets)),
        setting("tls early-data", yes_or_no(*early_data)),
        setting("tls ocsp-stapling", yes_or_no(*ocsp_stapling)),
        acme,
        on_demand,
        setting("tls client-auth", client_auth.as_ref().map_or_else(|| "off".to_owned(), shown_client_auth)),
    ]
}

fn shown_client_auth(client_auth: &ClientAuth) -> String {
    let ClientAuth { ca, crls, mode, forward } = client_auth;
    let named = |name: &str, files: &[PathBuf]| {
        files.iter().map(|file| format!(" {name}={}", file.display())).collect::<Vec<_>>().concat()
    };
    let forward = forward.map_or_else(String::new, |form| format!(" forward={}", form.as_str()));
    format!("{}{}{}{forward}", mode.as_str(), named("ca", ca), named("crl", crls))
}

/// The protocols that are offered, the default ones spelled out.
pub fn alpn(tls: &Tls) -> String {
    if tls.alpn.is_empty() { "h2,http/1.1".to_owned() } else { tls.alpn.join(",") }
}

fn tls_source(source: &TlsSource) -> String {
    match source {
        TlsSource::Automatic => "not written".to_owned(),
        TlsSource::Internal => "internal".to_owned(),
        TlsSource::Off => "off".to_owned(),
        TlsSource::Files(certificates) => {
            let certificate = |certificate: &tidegate_model::Certificate| match &certificate.key {
                Some(key) => format!("cert={} key={}", certificate.cert.display(), key.display()),
                None => format!("cert={}", certificate.cert.display()),
            };
            certificates.iter().map(certificate).collect::<Vec<_>>().join(", ")
        }
    }
}

pub fn tls_version(version: TlsVersion) -> &'static str {
    name_of(TlsVersion::NAMES, &version)
}

pub fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::route_title;
    use std::path::Path;
    use std::time::Duration;
    use tidegate_config::load_text;
    use tidegate_config::writing::{Form, block, condition, show_duration, show_size, terminal};
    use tidegate_model::Route;

    fn route(text: &str) -> Route {
        let loaded = load_text("test.kdl", &format!("site \"http://:80\" {{\n{text}\n}}\n"), Path::new("."));
        let configuration = loaded.configuration.unwrap_or_else(|| panic!("{text}: {:?}", loaded.diagnostics));
        configuration.sites[0].routes[0].clone()
    }

    #[test]
    fn conditions_read_as_they_are_written() {
        let check = |text: &str, expected: &str| {
            let route = route(&format!("route {{ match {text}; respond 200 }}"));
            let seen: Vec<String> = route.matches[0].conditions.iter().map(condition).collect();
            assert_eq!(seen.join(" "), expected, "for {text}");
        };
        let as_written = |text: &str| check(text, text);
        as_written(r#"method="GET,POST""#);
        as_written(r#"not header="x-channel: beta*""#);
        as_written(r#"header="x-a: ~^b" header="x-c: *d" header="x-e""#);
        as_written(r#"path="/a/*" not path="~^/v[0-9]+""#);
        as_written(r#"query="a=b c" cookie="theme""#);
        as_written(r#"client="10.0.0.0/8,192.0.2.7" not host="*.example.com,a.test" scheme="https""#);
        check(r#"header="X-Api-Key: 12345""#, r#"header="x-api-key: …""#);
        check(r#"cookie="session=12345""#, r#"cookie="session=…""#);
    }

    #[test]
    fn steps_read_as_they_are_written() {
        let check = |text: &str, expected: &str| {
            let route = route(&format!("route {{ {text}; respond 200 }}"));
            assert_eq!(block(&route.options, &route.steps, Form::Shown)[0].1, expected, "for {text}");
        };
        let as_written = |text: &str| check(text, text);
        as_written(r#"strip-prefix "/api""#);
        as_written(r#"add-prefix "/v1""#);
        as_written(r#"rewrite "/new{path}""#);
        as_written(r#"rewrite "~^/old/(.*)" "/new/$1""#);
        as_written(r#"body-limit "10MB""#);
        as_written(r#"rate-limit "100/s" by="client-ip""#);
        as_written(
            r#"rate-limit "5/h" burst=10 cost=2 keys=1000 status=503 by="{request.header.x-api-key}" ipv6-prefix=56 name="api" headers=#false dry-run=#true"#,
        );
        as_written(r#"concurrency-limit 10 by="client-ip""#);
        as_written(r#"concurrency-limit 10 by="all""#);
        as_written(r#"concurrency-limit 10 status=429 by="all" ipv6-prefix=48 name="all" dry-run=#true"#);
        as_written(r#"request-header "Host" "a.internal" add="X-B: {client.ip}" default="X-C: d" remove="X-E""#);
        check(r#"header "A" "b""#, r#"response-header "A" "b""#);
        check(r#"request-header "Authorization" "Bearer 12345""#, r#"request-header "Authorization" "…""#);
    }

    #[test]
    fn answers_and_titles() {
        let check = |text: &str, expected_terminal: &str, expected_title: &str| {
            let route = route(text);
            assert_eq!(
                (terminal(&route.terminal, Form::Shown).as_str(), route_title(&route).as_str()),
                (expected_terminal, expected_title)
            );
        };
        check(r#"respond 200 body="a\"b\n""#, r#"respond 200 body="a\"b\n""#, "route → respond 200");
        check(
            r#"route "/a" "/b/*" { match method="GET"; match client="10.0.0.0/8"; redirect "https://x.test{uri}" }"#,
            r#"redirect "https://x.test{uri}" status=302"#,
            r#"route "/a" "/b/*" match method="GET" or match client="10.0.0.0/8" → redirect https://x.test{uri}"#,
        );
        check(
            r#"fastcgi "php:9000" root="/srv/www""#,
            r#"fastcgi "php:9000#fastcgi" root="/srv/www""#,
            "route → fastcgi php:9000#fastcgi",
        );
        check(
            r#"fastcgi "unix:/run/a" root="/srv" index="a.cgi" fallback="/b.cgi" split=".cgi" static=#true { env "A" "{path}"; env "API_KEY" "x" }"#,
            r#"fastcgi "unix:/run/a#fastcgi" root="/srv" index="a.cgi" fallback="/b.cgi" split=".cgi" static=#true { env "A" "{path}"; env "API_KEY" "…" }"#,
            "route → fastcgi unix:/run/a#fastcgi",
        );
        check(r#"proxy "10.0.0.4:80""#, r#"proxy "10.0.0.4:80""#, "route → pool 10.0.0.4:80");
    }

    #[test]
    fn amounts_have_units_that_can_be_read_again() {
        let check = |milliseconds: u64, expected: &str| assert_eq!(show_duration(Duration::from_millis(milliseconds)), expected);
        check(0, "0s");
        check(250, "250ms");
        check(75_000, "75s");
        check(5_400_000, "90m");
        check(3_600_000, "1h");
        let check = |bytes: u64, expected: &str| assert_eq!(show_size(bytes), expected);
        check(100, "100B");
        check(64 << 10, "64KiB");
        check(10_000_000, "10MB");
    }
}
