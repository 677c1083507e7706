//! The settings of a pool in the words of its block, for `plan` and `explain`: one list, so that what one shows the
//! other compares. Its servers are not among them.

use super::{setting, yes_or_no};
use tidegate_api::Setting;
use tidegate_config::writing::{
    Form, HIDDEN, discover as show_discover, is_secret, joined, name_of, show_duration, show_retry_on, show_status_range,
    show_text,
};
use tidegate_model::{
    Adaptive, Balance, Bounds, Discover, Health, HttpProbe, KeepAlive, Outlier, Pool, Probe, Protocol, ProxyProtocol, Retry,
    Scheme, Secret, Sticky, Timeouts, UpstreamTls,
};

/// What stands for a secret, as where a configuration is read as JSON.
const SECRET: &str = "***";

/// Settings that mean something for this pool, in the order in which they are documented. What is switched off is there
/// when it is on by default. Values are whole, so that equal ones are equal settings; secrets are `***`, and
/// [`pool_secrets`] tells those apart.
pub fn pool_settings(pool: &Pool) -> Vec<Setting> {
    // Named one by one, so that a new setting is missed by nobody.
    let Pool {
        name: _,
        servers,
        discover,
        balance,
        zone,
        sticky,
        health,
        outlier,
        slow_start,
        timeouts,
        retry,
        hedge,
        bounds,
        keep_alive,
        protocol,
        tls,
        send_proxy_protocol,
    } = pool;
    let mut settings = Vec::new();
    if !discover.is_empty() {
        let lines: Vec<String> = discover.iter().map(|discover| show_discover(discover, Form::Masked)).collect();
        settings.push(setting("discover", lines.join("; ")));
    }
    settings.push(setting("balance", self::balance(balance)));
    settings.extend(zone.as_ref().map(|zone| setting("zone", &**zone)));
    settings.extend(sticky.iter().flat_map(self::sticky));
    settings.extend(health.iter().flat_map(self::health));
    settings.extend(self::outlier(outlier.as_ref()));
    settings.extend((!slow_start.is_zero()).then(|| setting("slow-start", show_duration(*slow_start))));
    settings.extend(self::timeouts(timeouts));
    settings.extend(self::retry(retry.as_ref()));
    settings.extend(hedge.map(|hedge| setting("hedge", show_duration(hedge.after))));
    settings.extend(self::bounds(bounds));
    settings.extend(self::keep_alive(keep_alive));
    settings.push(setting("protocol", self::protocol(*protocol)));
    let may_have_tls = !discover.is_empty() || servers.iter().any(|server| server.address.scheme() == Scheme::Https);
    if may_have_tls || *tls != UpstreamTls::default() {
        settings.extend(upstream_tls(tls));
    }
    let version = |version: &ProxyProtocol| setting("send-proxy-protocol", name_of(ProxyProtocol::NAMES, version));
    settings.extend(send_proxy_protocol.as_ref().map(version));
    settings
}

/// What is not shown of the settings of these names, for comparing alone.
pub fn pool_secrets(pool: &Pool) -> [(&'static str, Vec<&str>); 3] {
    let tokens = pool.discover.iter().filter_map(Discover::secret);
    let sticky = pool.sticky.iter().filter_map(|sticky| sticky.secret.as_ref());
    let headers = pool.health.iter().flat_map(|health| match &health.probe {
        Probe::Http(http) => http.headers.as_slice(),
        Probe::Tcp | Probe::Tls | Probe::Grpc { .. } => &[],
    });
    let headers = headers.filter(|(name, _)| is_secret(name)).map(|(_, value)| value.as_str());
    [
        ("discover", tokens.map(Secret::reveal).collect()),
        ("sticky secret", sticky.map(Secret::reveal).collect()),
        ("health header", headers.collect()),
    ]
}

/// The whole text, with escapes for what a terminal would act on.
fn in_quotes(text: &str) -> String {
    format!("{text:?}")
}

fn balance(balance: &Balance) -> String {
    match balance {
        Balance::Hash { key, load_percent_max: None } => format!("hash key={}", in_quotes(&key.to_string())),
        Balance::Hash { key, load_percent_max: Some(percent) } => {
            format!("hash key={} load-max={percent}%", in_quotes(&key.to_string()))
        }
        Balance::P2c | Balance::RoundRobin | Balance::LeastConn | Balance::Ewma | Balance::Random => balance.name().to_owned(),
    }
}

/// The name of the cookie is no secret, and would be taken for one under a name of its own.
fn sticky(sticky: &Sticky) -> Vec<Setting> {
    let Sticky { cookie, secret, max_age_seconds } = sticky;
    let max_age = max_age_seconds.map_or_else(|| "session".to_owned(), |age| format!("{age}s"));
    let secret = if secret.is_some() { SECRET } else { "its own" };
    vec![setting("sticky", cookie.as_str()), setting("sticky max-age", max_age), setting("sticky secret", secret)]
}

fn health(health: &Health) -> Vec<Setting> {
    let Health { probe, interval, interval_down, timeout, rise, fall, port } = health;
    let mut settings = match probe {
        Probe::Http(http) => http_probe(http),
        Probe::Tcp | Probe::Tls | Probe::Grpc { service: None } => vec![setting("health", probe.name())],
        Probe::Grpc { service: Some(service) } => vec![setting("health", format!("{} {service}", probe.name()))],
    };
    settings.extend([
        setting("health interval", show_duration(*interval)),
        setting("health interval-down", show_duration(*interval_down)),
        setting("health timeout", show_duration(*timeout)),
        setting("health rise", rise.to_string()),
        setting("health fall", fall.to_string()),
    ]);
    settings.extend(port.map(|port| setting("health port", port.to_string())));
    settings
}

fn http_probe(probe: &HttpProbe) -> Vec<Setting> {
    let HttpProbe { path, method, host, headers, expect, body } = probe;
    let mut settings = vec![setting("health", format!("{method} {path}"))];
    settings.extend(host.as_ref().map(|host| setting("health host", host.as_str())));
    if !headers.is_empty() {
        let shown =
            |(name, value): &(String, String)| format!("{name}: {}", if is_secret(name) { HIDDEN } else { value.as_str() });
        settings.push(setting("health header", headers.iter().map(shown).collect::<Vec<_>>().join(", ")));
    }
    settings.push(setting("health expect", joined(expect, show_status_range)));
    settings.extend(body.as_ref().map(|pattern| setting("health body", in_quotes(&show_text(pattern)))));
    settings
}

fn outlier(outlier: Option<&Outlier>) -> Vec<Setting> {
    let Some(Outlier { failures, eject, eject_max, ejected_percent_max, success_rate }) = outlier else {
        return vec![setting("outlier", "off")];
    };
    vec![
        setting("outlier failures", failures.to_string()),
        setting("outlier eject", show_duration(*eject)),
        setting("outlier eject-max", show_duration(*eject_max)),
        setting("outlier max-ejected", format!("{ejected_percent_max}%")),
        setting("outlier success-rate", yes_or_no(*success_rate)),
    ]
}

fn timeouts(timeouts: &Timeouts) -> [Setting; 3] {
    let Timeouts { connect, first_byte, idle } = timeouts;
    [
        setting("timeout connect", show_duration(*connect)),
        setting("timeout first-byte", show_duration(*first_byte)),
        setting("timeout idle", show_duration(*idle)),
    ]
}

fn retry(retry: Option<&Retry>) -> Vec<Setting> {
    let Some(Retry { attempts, on, budget_percent, try_timeout }) = retry else { return vec![setting("retry", "off")] };
    let mut settings = vec![
        setting("retry attempts", attempts.to_string()),
        setting("retry on", show_retry_on(on)),
        setting("retry budget", format!("{budget_percent}%")),
    ];
    settings.extend(try_timeout.map(|time| setting("retry try-timeout", show_duration(time))));
    settings
}

fn bounds(bounds: &Bounds) -> Vec<Setting> {
    let Bounds { connections_per_server, requests_per_server, requests_per_pool, queue, queue_timeout, adaptive } = bounds;
    let none = || "no limit".to_owned();
    let mut settings = vec![setting("max-connections", connections_per_server.map_or_else(none, |count| count.to_string()))];
    settings.extend(requests_per_server.map(|count| setting("max-requests", count.to_string())));
    settings.extend(requests_per_pool.map(|count| setting("max-requests total", count.to_string())));
    let adaptive_between = |Adaptive { least, most }: &Adaptive| setting("adaptive-concurrency", format!("{least} to {most}"));
    settings.extend(adaptive.as_ref().map(adaptive_between));
    // Without a bound nobody waits.
    if *bounds != (Bounds { queue: *queue, queue_timeout: *queue_timeout, ..Bounds::default() }) {
        settings.push(setting("queue", queue.to_string()));
        settings.push(setting("queue-timeout", show_duration(*queue_timeout)));
    }
    settings
}

fn keep_alive(keep_alive: &KeepAlive) -> Vec<Setting> {
    let KeepAlive { connections, idle, requests, age, warm, ping } = keep_alive;
    let mut settings = vec![setting("keep-alive idle", show_duration(*idle))];
    let is_bounded = *connections != KeepAlive::CONNECTIONS_MAX;
    settings.extend(is_bounded.then(|| setting("keep-alive connections", connections.to_string())));
    settings.extend(requests.map(|count| setting("keep-alive requests", count.to_string())));
    settings.extend(age.map(|age| setting("keep-alive age", show_duration(age))));
    settings.extend((*warm > 0).then(|| setting("keep-alive warm", warm.to_string())));
    settings.push(setting("keep-alive ping", ping.map_or_else(|| "off".to_owned(), show_duration)));
    settings
}

fn protocol(protocol: Protocol) -> &'static str {
    name_of(Protocol::NAMES, &protocol)
}

fn upstream_tls(tls: &UpstreamTls) -> [Setting; 4] {
    let UpstreamTls { ca, sni, client_certificate, verify } = tls;
    let client_certificate = client_certificate
        .as_ref()
        .map_or_else(|| "none".to_owned(), |(cert, key)| format!("cert={} key={}", cert.display(), key.display()));
    [
        setting("tls ca", ca.as_ref().map_or_else(|| "the system's".to_owned(), |path| path.display().to_string())),
        setting("tls sni", sni.clone().unwrap_or_else(|| "the server's host".to_owned())),
        setting("tls client certificate", client_certificate),
        setting("tls verify", yes_or_no(*verify)),
    ]
}

#[cfg(test)]
mod tests {
    use super::pool_settings;
    use std::path::Path;
    use tidegate_config::load_text;

    fn check(lines: &str, expected: &[&str]) {
        let text = format!(
            "site \"http://a.test\" {{ proxy \"api\" }}\npool \"api\" {{\nserver \"10.0.0.4:80\" zone=\"eu-1\"\nserver \"10.0.0.5:80\"\n{lines}\n}}"
        );
        let loaded = load_text("test.kdl", &text, Path::new("/etc/tidegate"));
        let configuration = loaded.configuration.unwrap_or_else(|| panic!("{text}: {:?}", loaded.diagnostics));
        let settings = pool_settings(&configuration.pools[0]);
        let seen: Vec<String> = settings.iter().map(|setting| format!("{} {}", setting.name, setting.value)).collect();
        assert_eq!(seen, expected, "for {lines}");
    }

    #[test]
    fn what_is_on_by_default_and_nothing_else() {
        check(
            "",
            &[
                "balance p2c",
                "outlier failures 5",
                "outlier eject 10s",
                "outlier eject-max 5m",
                "outlier max-ejected 50%",
                "outlier success-rate yes",
                "timeout connect 5s",
                "timeout first-byte 1m",
                "timeout idle 1h",
                "retry attempts 2",
                "retry on connect,reset",
                "retry budget 20%",
                "max-connections no limit",
                "keep-alive idle 55s",
                "keep-alive ping 30s",
                "protocol auto",
            ],
        );
    }

    #[test]
    fn everything_that_can_be_written() {
        check(
            r#"zone "eu-1"
            discover dns="https://api.internal:8443" resolver="10.0.0.2" ttl-max="30s"
            discover dns="srv+_http._tcp.api.internal"
            discover file="servers.json"
            discover docker="api" socket="/run/podman.sock" network="front" port=80
            discover consul="api" agent="http://10.0.0.9:8500" tag="v2" datacenter="dc1" token="hunter2"
            balance "hash" key="{client.ip}" load-max="125%"
            sticky cookie="route" secret="hunter2-hunter2-hunter2" max-age="1h"
            health "/healthz" method="GET" host="a.test" header="X-A: b" header="X-Token: hunter2" expect="200-299,401" body="~^ok" port=81
            outlier "off"
            slow-start "30s"
            retry attempts=3 on="timeout,503" budget="10%" try-timeout="2s"
            hedge "200ms"
            max-connections 10
            max-requests 20 total=30 queue=40 queue-timeout="1s"
            adaptive-concurrency max=50
            keep-alive idle="30s" requests=1000 age="10m" ping="off"
            protocol "http1"
            tls sni="api.internal"
            send-proxy-protocol "v1""#,
            &[
                "discover dns=\"https://api.internal:8443\" resolver=\"10.0.0.2:53\" ttl-min=\"1s\" ttl-max=\"30s\"; \
                 dns=\"srv+_http._tcp.api.internal\" ttl-min=\"1s\" ttl-max=\"5m\"; file=\"/etc/tidegate/servers.json\"; \
                 docker=\"api\" socket=\"/run/podman.sock\" network=\"front\" port=80; \
                 consul=\"api\" agent=\"http://10.0.0.9:8500\" tag=\"v2\" datacenter=\"dc1\" token=\"***\"",
                "balance hash key=\"{client.ip}\" load-max=125%",
                "zone eu-1",
                "sticky route",
                "sticky max-age 3600s",
                "sticky secret ***",
                "health GET /healthz",
                "health host a.test",
                "health header X-A: b, X-Token: …",
                "health expect 200-299,401",
                "health body \"~^ok\"",
                "health interval 2s",
                "health interval-down 1s",
                "health timeout 1s",
                "health rise 2",
                "health fall 3",
                "health port 81",
                "outlier off",
                "slow-start 30s",
                "timeout connect 5s",
                "timeout first-byte 1m",
                "timeout idle 1h",
                "retry attempts 3",
                "retry on timeout,503",
                "retry budget 10%",
                "retry try-timeout 2s",
                "hedge 200ms",
                "max-connections 10",
                "max-requests 20",
                "max-requests total 30",
                "adaptive-concurrency 4 to 50",
                "queue 40",
                "queue-timeout 1s",
                "keep-alive idle 30s",
                "keep-alive requests 1000",
                "keep-alive age 10m",
                "keep-alive ping off",
                "protocol http1",
                "tls ca the system's",
                "tls sni api.internal",
                "tls client certificate none",
                "tls verify yes",
                "send-proxy-protocol v1",
            ],
        );
    }
}
