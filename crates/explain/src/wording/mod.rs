//! A part of a configuration in the words of its file: routes, conditions, steps, settings. For `plan` and `explain`, which compare and
//! point; the layout of whole files is `config`'s. Values that look secret are left out here, once for everybody. Pools are in `pool`, rates in `limits`, scripts in `fastcgi`.

mod acme;
mod answers;
mod fastcgi;
mod limits;
mod pool;

pub use acme::{acme, storage};
pub use pool::{discover, pool_secrets, pool_settings};

use ipnet::IpNet;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_api::Setting;
use tidegate_model::{
    AccessLog, AccessLogFormat, Admin, Cache, CacheStore, CipherName, ClientAuth, Compress, CompressLevel, Condition,
    ConditionKind, Cors, EncodedSlashes, Field, Files, HeaderChange, HeaderConditions, HeaderOperation, HeaderStep, Limits,
    LogLevel, LogTarget, MatchLine, Memory, Mirror, OriginPattern, Origins, PathCase, PathPattern, PathPolicy, PoolName, Route,
    RouteLog, RouteLogField, RouteRetry, RouteTimeouts, Sample, Slashes, Split, SplitArm, StatusRange, Step, Template, Terminal,
    TextPattern, Threads, TicketKeySource, Tls, TlsSource, TlsVersion,
};

/// What stands where a secret would.
pub const HIDDEN: &str = "…";

/// A longer text is cut: a page as the body of a `respond` must not bury the route it stands in.
const SHOWN_CHARS_MAX: usize = 60;

/// Words in the name of a header, cookie or setting whose value is nobody's business.
const SECRET_WORDS: [&str; 13] = [
    "token",
    "authorization",
    "auth",
    "cookie",
    "secret",
    "password",
    "passwd",
    "credential",
    "credentials",
    "key",
    "apikey",
    "session",
    "signature",
];

fn setting(name: &'static str, value: impl Into<String>) -> Setting {
    Setting { name: name.into(), value: value.into() }
}

/// Whether values of that name stay unsaid. What comes from `{env.X}` and `{file.X}` is plain text in the model, so the name decides.
pub fn is_secret(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| SECRET_WORDS.iter().any(|secret| word.eq_ignore_ascii_case(secret)))
}

/// `route "/api/*" match method="POST" → pool api`, on one line.
pub fn route_title(route: &Route) -> String {
    let mut title = "route".to_owned();
    for pattern in &route.paths {
        title.push_str(&format!(" {}", quoted(&path_pattern(pattern))));
    }
    for (position, line) in route.matches.iter().enumerate() {
        title.push_str(if position == 0 { " " } else { " or " });
        title.push_str(&match_line(line));
    }
    title.push_str(" → ");
    title.push_str(&match &route.terminal {
        Terminal::Respond { status, .. } => format!("respond {status}"),
        Terminal::Redirect { to, .. } => format!("redirect {}", shortened(&to.to_string())),
        Terminal::Proxy { pool, .. } => format!("pool {pool}"),
        Terminal::Files(files) => format!("files {}", shortened(&files.root.display().to_string())),
        Terminal::FastCgi(fastcgi) => format!("fastcgi {}", shortened(&fastcgi.address.to_string())),
        Terminal::Split(split) => format!("split {}", shares(split)),
    });
    title
}

/// `/a/*`, `~^/v[0-9]+/`
pub fn path_pattern(pattern: &PathPattern) -> String {
    match pattern {
        PathPattern::Exact(path) => path.clone(),
        PathPattern::Prefix(path) => format!("{path}*"),
        PathPattern::Regex(regex) => format!("~{regex}"),
    }
}

/// `match method="GET,POST" not client="10.0.0.0/8"`
pub fn match_line(line: &MatchLine) -> String {
    let conditions: Vec<String> = line.conditions.iter().map(condition).collect();
    format!("match {}", conditions.join(" "))
}

/// `not header="x-channel: beta*"`
pub fn condition(condition: &Condition) -> String {
    let (name, value) = match &condition.kind {
        ConditionKind::Method(methods) => ("method", methods.join(",")),
        ConditionKind::Path(patterns) => ("path", joined(patterns, path_pattern)),
        ConditionKind::Header(field) => ("header", field_pattern(field, ": ")),
        ConditionKind::Query(field) => ("query", field_pattern(field, "=")),
        ConditionKind::Cookie(field) => ("cookie", field_pattern(field, "=")),
        ConditionKind::Client(networks) => ("client", joined(networks, network)),
        ConditionKind::Host(hosts) => ("host", joined(hosts, ToString::to_string)),
        ConditionKind::Scheme(scheme) => ("scheme", scheme.as_str().to_owned()),
        ConditionKind::ClientCertificate { part, value: TextPattern::Present } => (part.name(), "*".to_owned()),
        ConditionKind::ClientCertificate { part, value } => (part.name(), text_pattern(value)),
    };
    format!("{}{name}={}", if condition.negated { "not " } else { "" }, quoted(&value))
}

fn field_pattern(field: &Field, between: &str) -> String {
    let name = &field.name;
    let value = match &field.value {
        TextPattern::Present => return name.clone(),
        _ if is_secret(name) => HIDDEN.to_owned(),
        pattern => text_pattern(pattern),
    };
    format!("{name}{between}{value}")
}

fn text_pattern(pattern: &TextPattern) -> String {
    match pattern {
        TextPattern::Present => "*".to_owned(),
        TextPattern::Exact(text) => text.clone(),
        TextPattern::Prefix(text) => format!("{text}*"),
        TextPattern::Suffix(text) => format!("*{text}"),
        TextPattern::Regex(regex) => format!("~{regex}"),
    }
}

fn joined<T>(parts: &[T], show: impl Fn(&T) -> String) -> String {
    parts.iter().map(show).collect::<Vec<_>>().join(",")
}

/// A single address without its prefix length, as it may be written.
fn network(network: &IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() { network.addr().to_string() } else { network.to_string() }
}

/// `none`, or the networks as they stand in `trusted-proxies`.
pub fn networks(networks: &[IpNet]) -> String {
    if networks.is_empty() { "none".to_owned() } else { networks.iter().map(network).collect::<Vec<_>>().join(" ") }
}

/// `strip-prefix "/api"`
pub fn step(step: &Step) -> String {
    match step {
        Step::RequestHeader(changes) => format!("request-header {}", header_step(changes)),
        Step::ResponseHeader(changes) => format!("response-header {}", header_step(changes)),
        Step::Rewrite { pattern: Some(pattern), to } => format!("rewrite {} {}", quoted(&format!("~{pattern}")), template(to)),
        Step::Rewrite { pattern: None, to } => format!("rewrite {}", template(to)),
        Step::StripPrefix(prefix) => format!("strip-prefix {}", quoted(prefix)),
        Step::AddPrefix(prefix) => format!("add-prefix {}", quoted(prefix)),
        Step::BodyLimit { bytes_max } => format!("body-limit {}", quoted(&size(*bytes_max))),
        Step::PathPolicy(policy) => path_policy(*policy),
        Step::Allow(networks) => format!("allow {}", step_networks(networks)),
        Step::Deny(networks) => format!("deny {}", step_networks(networks)),
        Step::Cors(how) => cors(how),
        Step::BasicAuth(None) => "basic-auth \"off\"".to_owned(),
        Step::BasicAuth(Some(how)) => answers::basic_auth(how),
        Step::ClientAuth(demand) => format!("client-auth {}", quoted(demand.as_str())),
        Step::ErrorPage(page) => answers::error_page(page),
        Step::RateLimit(limit) => limits::rate_limit(limit),
        Step::ConcurrencyLimit(limit) => limits::concurrency_limit(limit),
        Step::Compress(None) => "compress \"off\"".to_owned(),
        Step::Compress(Some(how)) => compress(how),
        Step::Decompress(None) => "decompress \"off\"".to_owned(),
        Step::Decompress(Some(how)) => format!("decompress ratio={}", how.ratio_max),
        Step::Cache(None) => "cache \"off\"".to_owned(),
        Step::Cache(Some(how)) => cache(how),
        Step::Mirror(None) => "mirror \"off\"".to_owned(),
        Step::Mirror(Some(how)) => mirror(how),
        Step::Log(log) => route_log(log),
        Step::Timeout(timeouts) => format!("timeout{}", route_timeouts(timeouts)),
    }
}

fn path_policy(policy: PathPolicy) -> String {
    fn word<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
        names.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
    }
    let PathPolicy { slashes, encoded_slashes, case } = policy;
    let slashes = word(Slashes::NAMES, &slashes);
    let encoded_slashes = word(EncodedSlashes::NAMES, &encoded_slashes);
    let case = word(PathCase::NAMES, &case);
    format!("path-policy slashes={} encoded-slashes={} case={}", quoted(slashes), quoted(encoded_slashes), quoted(case))
}

fn mirror(mirror: &Mirror) -> String {
    let Mirror { pool, sample, methods, body_bytes_max, copies_max, total } = mirror;
    let mut text = format!("mirror {}", quoted(&pool.0));
    if *sample != Sample::ALL {
        text.push_str(&format!(" sample=\"{sample}\""));
    }
    if !methods.is_empty() {
        text.push_str(&format!(" methods={}", quoted(&methods.join(","))));
    }
    if *body_bytes_max != Mirror::BODY_BYTES_MAX {
        text.push_str(&format!(" body-max={}", quoted(&size(*body_bytes_max))));
    }
    if *copies_max != Mirror::COPIES_MAX {
        text.push_str(&format!(" max={copies_max}"));
    }
    if *total != Mirror::TOTAL {
        text.push_str(&format!(" total=\"{}\"", duration(*total)));
    }
    text
}

fn route_log(log: &RouteLog) -> String {
    let RouteLog { is_on, sample, fields } = log;
    let mut text = "log".to_owned();
    match (is_on, sample) {
        (Some(false), _) => text.push_str(" \"off\""),
        (Some(true), Some(Sample::ALL)) => text.push_str(" \"on\""),
        (Some(true), Some(sample)) => text.push_str(&format!(" sample=\"{sample}\"")),
        (Some(true), None) | (None, _) => {}
    }
    if !fields.is_empty() {
        let value = |field: &RouteLogField| if is_secret(&field.name) { quoted(HIDDEN) } else { template(&field.value) };
        let field = |field: &RouteLogField| format!("field {} {}", quoted(&field.name), value(field));
        text.push_str(&format!(" {{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join("; ")));
    }
    text
}

fn route_timeouts(timeouts: &RouteTimeouts) -> String {
    let RouteTimeouts { connect, first_byte, idle, total } = timeouts;
    let named = [("connect", connect), ("first-byte", first_byte), ("idle", idle), ("total", total)];
    let said = named.into_iter().filter_map(|(name, time)| Some(format!(" {name}=\"{}\"", duration((*time)?))));
    said.collect()
}

fn step_networks(networks: &[IpNet]) -> String {
    networks.iter().map(|one| quoted(&network(one))).collect::<Vec<_>>().join(" ")
}

fn cors(cors: &Cors) -> String {
    let origin = |pattern: &OriginPattern| match pattern {
        OriginPattern::Exact(origin) => origin.clone(),
        OriginPattern::Below { start, end } => format!("{start}*{end}"),
    };
    let origins = match &cors.origins {
        Origins::Any => "*".to_owned(),
        Origins::Listed(patterns) => joined(patterns, origin),
    };
    let mut text = format!("cors origins={} methods={}", quoted(&origins), quoted(&cors.methods.join(",")));
    if let Some(headers) = &cors.headers {
        text.push_str(&format!(" headers={}", quoted(&headers.join(","))));
    }
    if !cors.exposed.is_empty() {
        text.push_str(&format!(" expose={}", quoted(&cors.exposed.join(","))));
    }
    for (name, is_on) in [("credentials", cors.credentials), ("private-network", cors.private_network)] {
        if is_on {
            text.push_str(&format!(" {name}=#true"));
        }
    }
    text
}

fn cache(cache: &Cache) -> String {
    let mut text = String::from("cache");
    for (status, time) in &cache.fresh {
        text.push_str(&format!(" fresh={}", quoted(&format!("{status} {}", duration(*time)))));
    }
    if cache.heuristic_percent > 0 {
        text.push_str(&format!(" heuristic={}", quoted(&format!("{}%", cache.heuristic_percent))));
    }
    for (name, time) in [("stale-while-revalidate", cache.stale_while_revalidate), ("stale-if-error", cache.stale_if_error)] {
        if !time.is_zero() {
            text.push_str(&format!(" {name}={}", quoted(&duration(time))));
        }
    }
    let switches = [
        ("client-control", cache.obeys_clients),
        ("whole-for-ranges", cache.whole_for_ranges),
        ("set-cookie", cache.keeps_set_cookie),
        ("cdn-cache-control", cache.obeys_cdn_cache_control),
    ];
    for (name, _) in switches.iter().filter(|(_, is_on)| *is_on) {
        text.push_str(&format!(" {name}=#true"));
    }
    if !cache.purging.from.is_empty() {
        text.push_str(&format!(" purge-from={}", quoted(&joined(&cache.purging.from, network))));
    }
    if cache.purging.token.is_some() {
        text.push_str(&format!(" purge-token={}", quoted(HIDDEN)));
    }
    text
}

fn compress(compress: &Compress) -> String {
    let defaults = Compress::default();
    let mut text =
        format!("compress {}", compress.codings.iter().map(|coding| quoted(coding.name())).collect::<Vec<_>>().join(" "));
    if let CompressLevel::Fixed(level) = compress.level {
        text.push_str(&format!(" level={level}"));
    }
    if compress.bytes_min != defaults.bytes_min {
        text.push_str(&format!(" min-size={}", quoted(&size(compress.bytes_min))));
    }
    if compress.types != defaults.types {
        text.push_str(&format!(" types={}", quoted(&compress.types.join(","))));
    }
    if compress.cross_site {
        text.push_str(" cross-site=#true");
    }
    text
}

fn header_step(step: &HeaderStep) -> String {
    let HeaderStep { changes, when: HeaderConditions { statuses, types, matches } } = step;
    let mut text = header_changes(changes);
    if !statuses.is_empty() {
        text.push_str(&format!(" status={}", quoted(&status_ranges(statuses))));
    }
    if !types.is_empty() {
        text.push_str(&format!(" type={}", quoted(&types.join(","))));
    }
    if !matches.is_empty() {
        text.push_str(&format!(" {{ {} }}", matches.iter().map(match_line).collect::<Vec<_>>().join("; ")));
    }
    text
}

/// `200-299,404`
fn status_ranges(ranges: &[StatusRange]) -> String {
    joined(
        ranges,
        |range| {
            if range.first == range.last { range.first.to_string() } else { format!("{}-{}", range.first, range.last) }
        },
    )
}

fn header_changes(changes: &[HeaderChange]) -> String {
    let change = |change: &HeaderChange| {
        let name = &change.name;
        let value = if is_secret(name) { HIDDEN.to_owned() } else { change.value.to_string() };
        match change.operation {
            HeaderOperation::Set => format!("{} {}", quoted(name), quoted(&value)),
            HeaderOperation::Add => format!("add={}", quoted(&format!("{name}: {value}"))),
            HeaderOperation::Default => format!("default={}", quoted(&format!("{name}: {value}"))),
            HeaderOperation::Remove => format!("remove={}", quoted(name)),
        }
    };
    changes.iter().map(change).collect::<Vec<_>>().join(" ")
}

/// `respond 200 body="ok"`
pub fn terminal(terminal: &Terminal) -> String {
    match terminal {
        Terminal::Respond { status, body, content_type } => {
            let body = if body.parts.is_empty() { String::new() } else { format!(" body={}", template(body)) };
            let content_type = content_type.as_ref().map(|text| format!(" content-type={}", quoted(text))).unwrap_or_default();
            format!("respond {status}{body}{content_type}")
        }
        Terminal::Redirect { to, status } => format!("redirect {} status={status}", template(to)),
        Terminal::Proxy { pool, retry } => proxy(pool, retry),
        Terminal::Files(how) => files(how),
        Terminal::FastCgi(how) => fastcgi::fastcgi(how),
        Terminal::Split(how) => split(how),
    }
}

/// `proxy "api" { retry attempts=2 }`
pub fn proxy(pool: &PoolName, retry: &RouteRetry) -> String {
    let retry = pool::route_retry(retry).map(|retry| format!(" {{ retry {retry} }}")).unwrap_or_default();
    format!("proxy {}{retry}", quoted(&pool.0))
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

fn split(split: &Split) -> String {
    let by = split.by.as_ref().map(|by| format!(" by={}", template(by))).unwrap_or_default();
    let arm = |arm: &SplitArm| {
        let retry = pool::route_retry(&arm.retry).map(|retry| format!(" {{ retry {retry} }}")).unwrap_or_default();
        format!("proxy {} weight={}{retry}", quoted(&arm.pool.0), arm.weight)
    };
    format!("split{by} {{ {} }}", split.arms.iter().map(arm).collect::<Vec<_>>().join("; "))
}

fn files(files: &Files) -> String {
    let defaults = Files::new(&files.root);
    let mut text = format!("files {}", quoted(&files.root.display().to_string()));
    if files.index != defaults.index {
        text.push_str(&format!(" index={}", quoted(&files.index.join(","))));
    }
    if let Some(fallback) = &files.fallback {
        text.push_str(&format!(" fallback={}", quoted(fallback)));
    }
    for (name, is_on) in [("listing", files.listing), ("precompressed", files.precompressed), ("hidden", files.hidden)] {
        if is_on {
            text.push_str(&format!(" {name}=#true"));
        }
    }
    if files.symlinks != defaults.symlinks {
        text.push_str(&format!(" symlinks={}", quoted(files.symlinks.name())));
    }
    for (extension, media_type) in &files.mime {
        text.push_str(&format!(" mime={}", quoted(&format!("{extension} {media_type}"))));
    }
    text
}

fn template(template: &Template) -> String {
    quoted(&template.to_string())
}

/// A KDL string, cut where it is long.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in shortened(text).chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // A terminal acts on these.
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The start of a long text, and a mark that something is missing.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// In the largest unit that leaves a whole number: `75s`, `90m`, `1h`.
pub fn duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    for (factor, unit) in [(3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if milliseconds.is_multiple_of(factor) {
            return format!("{}{unit}", milliseconds / factor);
        }
    }
    format!("{milliseconds}ms")
}

/// In the largest unit that leaves a whole number: `64KiB`, `10MB`, `100B`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 8] = [
        (1 << 40, "TiB"),
        (1_000_000_000_000, "TB"),
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1_000, "KB"),
    ];
    for (factor, unit) in UNITS {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    format!("{bytes}B")
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
        AccessLogFormat::Template(text) => template(text),
    };
    let off = || "off".to_owned();
    [
        setting("access-log", target),
        setting("access-log format", format),
        setting("access-log rotate", rotation.map_or_else(off, |rotation| size(rotation.size_bytes))),
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
        Memory::Bytes(bytes) => size(bytes),
        Memory::Off => "off".to_owned(),
    }
}

pub fn cache_store(store: &CacheStore) -> String {
    let memory = store.memory_bytes.map_or_else(|| "auto".to_owned(), size);
    let disk =
        store.disk.as_ref().map_or_else(String::new, |disk| format!(", {} of {}", size(disk.bytes_max), disk.folder.display()));
    format!("memory {memory}, answers up to {}{disk}", size(store.object_bytes_max))
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
        setting("header-bytes", size(*header_bytes as u64)),
        setting("request-line", size(*request_line_bytes as u64)),
        setting("header-count", header_count.to_string()),
        setting("connections-per-ip", connections_per_ip.to_string()),
        setting("header-timeout", duration(*header_timeout)),
        setting("keep-alive", duration(*keep_alive)),
        setting("body-rate", if *body_rate_bytes == 0 { "off".to_owned() } else { format!("{}/s", size(*body_rate_bytes)) }),
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

fn name_of<T: PartialEq>(names: &[(&'static str, T)], wanted: &T) -> &'static str {
    names.iter().find(|(_, value)| value == wanted).map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::{condition, duration, is_secret, quoted, route_title, size, step, terminal};
    use std::path::Path;
    use std::time::Duration;
    use tidegate_config::load_text;
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
            assert_eq!(step(&route.steps[0]), expected, "for {text}");
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
            assert_eq!((terminal(&route.terminal).as_str(), route_title(&route).as_str()), (expected_terminal, expected_title));
        };
        check(r#"respond 200 body="a\"b\n""#, r#"respond 200 body="a\"b\n""#, "route → respond 200");
        check(
            r#"route "/a" "/b/*" { match method="GET"; match client="10.0.0.0/8"; redirect "https://x.test{uri}" }"#,
            r#"redirect "https://x.test{uri}" status=302"#,
            r#"route "/a" "/b/*" match method="GET" or match client="10.0.0.0/8" → redirect https://x.test{uri}"#,
        );
        check(r#"fastcgi "php:9000" root="/srv/www""#, r#"fastcgi "php:9000" root="/srv/www""#, "route → fastcgi php:9000");
        check(
            r#"fastcgi "unix:/run/a" root="/srv" index="a.cgi" fallback="/b.cgi" split=".cgi" static=#true { env "A" "{path}"; env "API_KEY" "x"; timeout connect="1s"; keep-alive connections=2 }"#,
            r#"fastcgi "unix:/run/a" root="/srv" index="a.cgi" fallback="/b.cgi" split=".cgi" static=#true { env "A" "{path}"; env "API_KEY" "…"; timeout connect="1s" first-byte="1m" idle="1h"; keep-alive connections=2 idle="10s" }"#,
            "route → fastcgi unix:/run/a",
        );
        check(r#"proxy "10.0.0.4:80""#, r#"proxy "10.0.0.4:80""#, "route → pool 10.0.0.4:80");
    }

    #[test]
    fn amounts_have_units_that_can_be_read_again() {
        let check = |milliseconds: u64, expected: &str| assert_eq!(duration(Duration::from_millis(milliseconds)), expected);
        check(0, "0s");
        check(250, "250ms");
        check(75_000, "75s");
        check(5_400_000, "90m");
        check(3_600_000, "1h");
        let check = |bytes: u64, expected: &str| assert_eq!(size(bytes), expected);
        check(100, "100B");
        check(64 << 10, "64KiB");
        check(10_000_000, "10MB");
    }

    #[test]
    fn names_of_secrets() {
        let check = |name: &str, expected: bool| assert_eq!(is_secret(name), expected, "{name}");
        check("admin token", true);
        check("Authorization", true);
        check("X-Api-Key", true);
        check("session_id", true);
        check("X-Keyboard", false);
        check("limits keep-alive", false);
    }

    #[test]
    fn long_and_odd_texts() {
        assert_eq!(quoted(&"a".repeat(70)), format!("\"{}…\"", "a".repeat(60)));
        assert_eq!(quoted("\u{1b}[31m"), "\"\\u{1b}[31m\"");
    }
}
