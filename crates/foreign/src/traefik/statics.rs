//! The static configuration of Traefik, and what its dynamic one says of certificates, as lines of ours at the top
//! level.

use super::doors::resolved;
use crate::accounts::Origin;
use crate::outline::{Door, OutlinedSetting};
use crate::tree::Tree;
use tidegate_kdl::quoted;
use tidegate_model::parse_network;

const DNS: [&str; 4] = ["cloudflare", "digitalocean", "hetzner", "route53"];
const WITH_TOKEN: &str = "the token is a variable of the environment here as well, by the name that Traefik reads";
const EVERYBODY: &str = "everybody is believed there about whose address a request has; name the proxies in front";
const EMAIL: &str = "there is one account for all certificates here";
const STORED: &str = "what was obtained is in the state folder; `tidegate cert import` takes over what the file has";

/// Lines at the top level; `told` is what no line has to say.
pub fn settings(tree: &Tree, told: &mut Origin) -> Vec<OutlinedSetting> {
    let mut settings = Vec::new();
    certificates(tree, &mut settings);
    authorities(tree, told, &mut settings);
    listeners(tree, &mut settings);
    logs(tree, told, &mut settings);
    let grace = tree.get("entryPoints").entries().iter().map(|(_, point)| point.at(&["transport", "lifeCycle", "graceTimeOut"]));
    if let Some(grace) = grace.into_iter().find(|grace| grace.text().is_some())
        && let Some(time) = grace.text().and_then(duration)
    {
        setting(&format!("drain \"{time}\""), grace, &mut settings);
    }
    settings
}

fn setting(line: &str, of: &Tree, settings: &mut Vec<OutlinedSetting>) {
    let mut origin = Origin::default();
    origin.carry_all(of.statements());
    settings.push(OutlinedSetting { line: line.to_owned(), origin });
}

/// `30s`, and seconds alone.
pub fn duration(text: &str) -> Option<String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    match unit {
        "" => Some(format!("{number}s")),
        "ms" | "s" | "m" | "h" => Some(text.to_owned()),
        "m0s" => Some(format!("{number}m")),
        "h0m0s" => Some(format!("{number}h")),
        _ => None,
    }
}

/// Files that are there for all sites that they cover.
fn certificates(tree: &Tree, settings: &mut Vec<OutlinedSetting>) {
    let default = tree.at(&["tls", "stores", "default", "defaultCertificate"]);
    for one in tree.at(&["tls", "certificates"]).items().iter().chain([default]) {
        let (cert, key) = (one.get("certFile"), one.get("keyFile"));
        let Some((cert_file, key_file)) = cert.text().zip(key.text()) else { continue };
        // What is no path is the certificate itself.
        if cert_file.contains("-----") || key_file.contains("-----") {
            continue;
        }
        let line = format!("tls cert={} key={}", quoted(cert_file), quoted(key_file));
        if settings.iter().all(|known| known.line != line) {
            setting(&line, one, settings);
        }
    }
}

fn authorities(tree: &Tree, told: &mut Origin, settings: &mut Vec<OutlinedSetting>) {
    let mut resolvers = tree.get("certificatesResolvers").entries().iter().map(|(_, resolver)| resolver.get("acme"));
    let Some(acme) = resolvers.by_ref().find(|acme| !acme.is_nothing()) else { return };
    let mut origin = Origin::default();
    let mut line = "acme".to_owned();
    let (email, ca, storage) = (acme.get("email"), acme.get("caServer"), acme.get("storage"));
    if let Some(text) = email.text() {
        line.push_str(&format!(" email={}", quoted(&super::middlewares::without_braces(text))));
        origin.carry_all(email.statements());
    }
    if let Some(url) = ca.text() {
        let known = match url {
            "https://acme-v02.api.letsencrypt.org/directory" => "letsencrypt",
            "https://acme-staging-v02.api.letsencrypt.org/directory" => "letsencrypt-staging",
            url => url,
        };
        line.push_str(&format!(" ca={}", quoted(&super::middlewares::without_braces(known))));
        origin.carry_all(ca.statements());
    }
    let key = acme.get("keyType");
    if let Some(ours) = key.text().and_then(key_type) {
        line.push_str(&format!(" key-type=\"{ours}\""));
        origin.carry_all(key.statements());
    }
    let profile = acme.get("profile");
    if let Some(name) = profile.text() {
        line.push_str(&format!(" profile={}", quoted(name)));
        origin.carry_all(profile.statements());
    }
    storage.statements().into_iter().for_each(|at| origin.differ(at, STORED));
    let inside = challenges(acme, &mut origin);
    if !inside.is_empty() {
        line.push_str(&format!(" {{ {}; }}", inside.join("; ")));
    }
    for other in resolvers {
        other.statements().into_iter().for_each(|at| told.differ(at, EMAIL));
    }
    if line != "acme" {
        settings.push(OutlinedSetting { line, origin });
    } else {
        told.add(&origin);
    }
}

/// The lines of the block of `acme`: how names are shown to be the reader's.
fn challenges(acme: &Tree, origin: &mut Origin) -> Vec<String> {
    let mut inside: Vec<String> = Vec::new();
    let (tls, http, dns) = (acme.get("tlsChallenge"), acme.get("httpChallenge"), acme.get("dnsChallenge"));
    let challenges: Vec<&str> = [(acme.has("tlsChallenge"), "\"tls-alpn-01\""), (acme.has("httpChallenge"), "\"http-01\"")]
        .into_iter()
        .filter_map(|(is_there, name)| is_there.then_some(name))
        .collect();
    let provider = dns.get("provider").text();
    if let Some(provider) = provider.filter(|provider| DNS.contains(provider)) {
        let said = match provider {
            "cloudflare" => "token=\"{env.CF_DNS_API_TOKEN}\"",
            "digitalocean" => "token=\"{env.DO_AUTH_TOKEN}\"",
            "hetzner" => "token=\"{env.HETZNER_API_TOKEN}\"",
            _ => "access-key=\"{env.AWS_ACCESS_KEY_ID}\" secret-key=\"{env.AWS_SECRET_ACCESS_KEY}\"",
        };
        inside.push(format!("dns {} {said}", quoted(provider)));
        dns.get("provider").statements().into_iter().for_each(|at| origin.differ(at, WITH_TOKEN));
    } else if provider.is_none() && !challenges.is_empty() {
        inside.push(format!("challenges {}", challenges.join(" ")));
    }
    for one in [tls, http] {
        origin.carry_all(one.statements());
        origin.carry(one.start());
    }
    for at in dns
        .at(&["propagation"])
        .statements()
        .into_iter()
        .chain(dns.get("delayBeforeCheck").statements())
        .chain(dns.get("resolvers").statements())
    {
        origin.differ(at, "how long is waited is looked at by asking the servers of the zone");
    }
    inside
}

fn key_type(text: &str) -> Option<&'static str> {
    match text {
        "EC256" => Some("ecdsa-p256"),
        "EC384" => Some("ecdsa-p384"),
        "RSA2048" => Some("rsa-2048"),
        "RSA4096" => Some("rsa-4096"),
        _ => None,
    }
}

/// Whose word counts, by entry point.
fn listeners(tree: &Tree, settings: &mut Vec<OutlinedSetting>) {
    let mut limits: Vec<String> = Vec::new();
    let mut of_limits = Origin::default();
    for (_, point) in tree.get("entryPoints").entries() {
        let Some(door) = point.get("address").text().and_then(|address| Door::parse(resolved(address), false)) else { continue };
        let mut lines = Vec::new();
        let mut origin = Origin::default();
        for (word, ours) in [("forwardedHeaders", "trusted-proxies"), ("proxyProtocol", "accept-proxy-protocol")] {
            let said = point.get(word);
            let trusted = said.get("trustedIPs");
            let networks = trusted.texts();
            if !networks.is_empty() && networks.iter().all(|network| parse_network(network).is_ok()) {
                let property = if word == "proxyProtocol" { "from=" } else { "" };
                let all: Vec<String> = networks.iter().map(|network| format!("{property}{}", quoted(network))).collect();
                lines.push(format!("{ours} {}", all.join(" ")));
                origin.carry_all(trusted.statements());
            }
            let insecure = said.get("insecure");
            match insecure.text() {
                Some("true") if word == "forwardedHeaders" => {
                    insecure.statements().into_iter().for_each(|at| origin.differ(at, EVERYBODY));
                    lines.push("trusted-proxies \"private\"".to_owned());
                }
                Some("false") => origin.carry_all(insecure.statements()),
                Some(_) | None => {}
            }
        }
        let times = point.at(&["transport", "respondingTimeouts"]);
        let idle = times.get("idleTimeout");
        if let Some(time) = idle.text().and_then(duration).filter(|_| limits.is_empty()) {
            limits.push(format!("keep-alive \"{time}\""));
            of_limits.carry_all(idle.statements());
        }
        if !lines.is_empty() {
            lines.dedup();
            let line = format!("listener \"{}\" {{ {}; }}", crate::outline::tcp_address(door.ip, door.port), lines.join("; "));
            settings.push(OutlinedSetting { line, origin });
        }
    }
    if !limits.is_empty() {
        settings.push(OutlinedSetting { line: format!("limits {{ {}; }}", limits.join("; ")), origin: of_limits });
    }
}

fn logs(tree: &Tree, told: &mut Origin, settings: &mut Vec<OutlinedSetting>) {
    let level = tree.at(&["log", "level"]);
    match level.text().map(str::to_ascii_lowercase).as_deref() {
        Some(name @ ("debug" | "warn" | "error" | "trace")) => setting(&format!("log level=\"{name}\""), level, settings),
        Some(_) => told.carry_all(level.statements()),
        None => {}
    }
    let log = tree.get("accessLog");
    let filters = log.get("filters");
    let statuses = statuses_of(filters);
    let file = log.get("filePath");
    if let Some(target) = file.text().or_else(|| statuses.as_ref().map(|_| "stdout")) {
        let format = log.get("format");
        let said = if format.text() == Some("json") { "json" } else { "common" };
        let mut origin = Origin::default();
        origin.carry_all(file.statements());
        origin.carry_all(format.statements());
        let mut line = format!("access-log {} format=\"{said}\"", quoted(target));
        if let Some(statuses) = statuses {
            line.push_str(&format!(" status={}", quoted(&statuses)));
            origin.carry_all(filters.statements());
        }
        settings.push(OutlinedSetting { line, origin });
    }
}

/// Statuses of which there are lines, where that is all that filters say: of several, one is enough there.
fn statuses_of(filters: &Tree) -> Option<String> {
    let codes = filters.get("statusCodes").texts();
    let is_status = |text: &str| text.len() == 3 && text.parse::<u16>().is_ok_and(|status| (100..600).contains(&status));
    let is_known = |code: &String| match code.split_once('-') {
        Some((first, last)) => is_status(first) && is_status(last) && first <= last,
        None => is_status(code),
    };
    let is_all = filters.entries().len() == 1 && !codes.is_empty() && codes.iter().all(is_known);
    is_all.then(|| codes.join(","))
}

/// What handshakes of a site are to be like, as lines of its `tls`.
pub fn handshakes(options: &Tree, origin: &mut Origin) -> Vec<String> {
    let mut lines = Vec::new();
    let oldest = options.get("minVersion");
    match oldest.text() {
        Some("VersionTLS13") => {
            lines.push("min \"1.3\"".to_owned());
            origin.carry_all(oldest.statements());
        }
        Some("VersionTLS12") => origin.carry_all(oldest.statements()),
        Some(_) => {
            oldest.statements().into_iter().for_each(|at| origin.differ(at, "TLS 1.2 is the oldest version that is spoken here"));
        }
        None => {}
    }
    let suites = options.get("cipherSuites");
    let known: Vec<String> = suites.texts().into_iter().filter(|name| is_suite(name)).map(|name| quoted(&name)).collect();
    if !known.is_empty() {
        lines.push(format!("ciphers {}", known.join(" ")));
        if known.len() == suites.texts().len() {
            origin.carry_all(suites.statements());
        } else {
            suites.statements().into_iter().for_each(|at| origin.differ(at, "suites that are weak are not offered here"));
        }
    }
    let offered = options.get("alpnProtocols");
    let names: Vec<String> =
        offered.texts().iter().filter(|name| matches!(name.as_str(), "h2" | "http/1.1")).map(|name| quoted(name)).collect();
    if !names.is_empty() {
        lines.push(format!("alpn {}", names.join(" ")));
        origin.carry_all(offered.statements());
    }
    let clients = options.get("clientAuth");
    let files = clients.get("caFiles").texts();
    let mode = match clients.get("clientAuthType").text() {
        Some("RequireAndVerifyClientCert") => Some("require"),
        Some("VerifyClientCertIfGiven") => Some("request"),
        Some(_) | None => None,
    };
    if let Some(mode) = mode.filter(|_| !files.is_empty() && files.iter().all(|file| !file.contains("-----"))) {
        let files: Vec<String> = files.iter().map(|file| format!("ca={}", quoted(file))).collect();
        lines.push(format!("client-auth {} mode=\"{mode}\"", files.join(" ")));
        origin.carry_all(clients.statements());
    }
    lines
}

fn is_suite(name: &str) -> bool {
    const SUITES: [&str; 9] = [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ];
    SUITES.contains(&name)
}
