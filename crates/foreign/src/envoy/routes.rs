//! Routes of Envoy: what they take, as patterns and conditions of ours, and what is done with it.

use super::authority::{Authority, HostText};
use super::headers;
use crate::accounts::Origin;
use crate::outline::{OutlinedAnswer, OutlinedRoute, ServerGroup, StickyCookie, is_plain};
use crate::texts::literal;
use crate::tree::Tree;
use std::collections::BTreeSet;
use tidegate_kdl::quoted;
use tidegate_model::expression;

/// What was made of a route. `Err` says why nothing was, and has what all that it takes is among.
pub type Told = Result<OutlinedRoute, (String, Box<OutlinedRoute>)>;

const NO_EXPRESSION: &str = "its expression is none of ours: there are no look-arounds and no back-references";
const FIRST_VALUE: &str = "of a parameter that is there twice each value is looked at, and there the first alone; and it is compared \
                           decoded here (`%41` is `A`), and there as it was sent";
const NO_PARAMETER: &str =
    "a parameter that is not to be there is asked for by `match not query=`, which compares its name decoded";
pub const CHANCE: &str = "a part of the requests is taken by chance: `split` shares them out by weight";
const OF_ENVOY: &str = "Envoy says the field itself, whatever a client sends, and here it would be the client's: `match client=` asks for \
                        whom you mean";
const EMPTY: &str = "a field that is not there is compared as an empty one: a `route` with `match not header=\"X\"` takes it";
const NO_CLUSTER: &str = "the cluster that it leads to is in none of the parts, or has no addresses there";
const NO_LIMIT: &str = "no time is said for the whole answer, where Envoy has 15s of its own: `timeout total=\"15s\"`";

const NO_END: &str = "the whole of an answer has no limit, and its first byte is waited for a day at most";

pub struct RouteReader<'r> {
    pub clusters: &'r [ServerGroup],
    pub authority: Authority,
}

impl RouteReader<'_> {
    pub fn read(&self, route: &Tree) -> Told {
        let mut told = OutlinedRoute::of(Vec::new(), OutlinedAnswer::status(503));
        told.origin.within = route.statements();
        let matched = self.matched(route.get("match"), &mut told);
        let refused = OutlinedRoute { origin: Origin { within: route.statements(), ..Origin::default() }, ..told.clone() };
        let left = |why: String| (why, Box::new(refused.clone()));
        matched.map_err(left)?;
        self.answered(route, &mut told).map_err(left)?;
        headers::changes(route, &mut told.steps, &mut told.origin);
        told.origin.carry_all(route.get("name").statements());
        told.origin.carry_all(route.get("decorator").statements());
        Ok(told)
    }

    fn answered(&self, route: &Tree, told: &mut OutlinedRoute) -> Result<(), String> {
        if route.has("route") {
            self.handed_on(route, told)
        } else if route.has("redirect") {
            redirected(route.get("redirect"), route.get("match"), told)
        } else if route.has("direct_response") {
            answered(route.get("direct_response"), told)
        } else {
            Err("it neither hands on nor answers: `proxy`, `redirect` and `respond` do".to_owned())
        }
    }

    /// What a route asks for, as far as it can be asked; `Err` says what cannot.
    fn matched(&self, matched: &Tree, told: &mut OutlinedRoute) -> Result<(), String> {
        let mut left = Ok(());
        let blind = if matched.get("case_sensitive").text() == Some("false") { "(?i)" } else { "" };
        for (name, value) in matched.entries() {
            let text = value.text().unwrap_or_default();
            match super::snake(name).as_str() {
                "prefix" if text == "/" || text.is_empty() => {}
                "prefix" => told.patterns.push(format!("~{blind}^{}", regex_syntax::escape(text))),
                "path" if blind.is_empty() && text.starts_with('/') && !text.ends_with('*') => {
                    told.patterns.push(text.to_owned());
                }
                "path" => told.patterns.push(format!("~{blind}^{}$", regex_syntax::escape(text))),
                "path_separated_prefix" if blind.is_empty() => {
                    told.patterns.push(format!("{}/*", text.trim_end_matches('/')));
                }
                "path_separated_prefix" => told.patterns.push(format!("~(?i)^{}(/|$)", regex_syntax::escape(text))),
                "safe_regex" | "regex" => {
                    let text = value.get("regex").text().unwrap_or(text);
                    match expression(text).build() {
                        Ok(_) => told.patterns.push(format!("~^(?:{text})$")),
                        Err(_) => left = Err(NO_EXPRESSION.to_owned()),
                    }
                }
                "headers" => {
                    for header in value.items() {
                        match of_header(header, self.authority) {
                            Ok(conditions) => told.conditions.extend(conditions),
                            Err(why) => left = Err(why),
                        }
                    }
                }
                "query_parameters" => {
                    for parameter in value.items() {
                        match of_parameter(parameter) {
                            Ok(condition) => told.conditions.push(condition),
                            Err(why) => left = Err(why),
                        }
                    }
                }
                // gRPC-Web has a type that begins so as well.
                "grpc" => {
                    told.conditions.push(format!("header={}", quoted("Content-Type: ~^application/grpc($|\\+)")));
                }
                "case_sensitive" => {}
                "runtime_fraction" if is_all(value) => {}
                "runtime_fraction" => left = left.and(Err(CHANCE.to_owned())),
                other => left = Err(format!("`{other}` is no condition of ours")),
            }
        }
        left?;
        told.origin.carry_all(matched.statements());
        for at in matched.get("query_parameters").statements() {
            told.origin.differ(at, FIRST_VALUE);
        }
        Ok(())
    }

    fn cluster(&self, name: &Tree) -> Result<ServerGroup, String> {
        let name = name.text().unwrap_or_default();
        let found = self.clusters.iter().find(|cluster| cluster.name == name && !cluster.is_empty());
        found.cloned().ok_or_else(|| NO_CLUSTER.to_owned())
    }

    fn handed_on(&self, route: &Tree, told: &mut OutlinedRoute) -> Result<(), String> {
        let action = route.get("route");
        if action.has("cluster_header") || action.has("cluster_specifier_plugin") || action.has("inline_cluster_specifier_plugin")
        {
            return Err(
                "which cluster is asked is in a field of the request: `split to=\"{request.header.X}\"` does that".to_owned()
            );
        }
        rewritten(action, route.get("match"), told)?;
        let mut origin = Origin::default();
        options(self, action, &mut told.steps, &mut origin);
        told.answer = if action.has("weighted_clusters") {
            self.split(action.get("weighted_clusters"), &mut origin)?
        } else {
            let mut group = self.cluster(action.get("cluster"))?;
            origin.carry_all(action.get("cluster").statements());
            of_group(action, &mut group, &mut origin);
            OutlinedAnswer::proxy(group)
        };
        told.origin.add(&origin);
        refuse_upgrades(action, told);
        if !action.has("timeout") {
            let at = action.start();
            if told.origin.within.contains(&at) {
                told.origin.differ(at, NO_LIMIT);
            }
        }
        Ok(())
    }

    fn split(&self, weighted: &Tree, origin: &mut Origin) -> Result<OutlinedAnswer, String> {
        let mut shares = Vec::new();
        for cluster in weighted.get("clusters").items() {
            let group = self.cluster(cluster.get("name"))?;
            let weight = cluster.get("weight").number().and_then(|weight| u32::try_from(weight).ok()).unwrap_or(0);
            origin.carry_all(cluster.get("name").statements());
            origin.carry_all(cluster.get("weight").statements());
            shares.push((group, weight.min(1_000_000)));
        }
        origin.carry_all(weighted.get("total_weight").statements());
        origin.carry_all(weighted.get("runtime_key_prefix").statements());
        if shares.iter().all(|(_, weight)| *weight == 0) {
            return Err("none of its clusters has a share".to_owned());
        }
        Ok(OutlinedAnswer::Split { shares })
    }
}

/// Refuses what asks for an upgrade that the route does not have.
fn refuse_upgrades(action: &Tree, told: &mut OutlinedRoute) {
    for upgrade in action.get("upgrade_configs").items() {
        let kind = upgrade.get("upgrade_type").text().unwrap_or_default();
        if upgrade.get("enabled").text() != Some("false") || !is_plain(kind) || kind.is_empty() {
            continue;
        }
        told.origin.carry_all(upgrade.statements());
        // CONNECT is refused anyway.
        if kind.eq_ignore_ascii_case("connect") {
            continue;
        }
        let mut refused = OutlinedRoute::of(Vec::new(), OutlinedAnswer::status(403));
        refused.conditions.push(format!("header={}", quoted(&format!("Upgrade: {kind}"))));
        let answer = std::mem::replace(&mut told.answer, OutlinedAnswer::status(403));
        told.answer = OutlinedAnswer::Within { routes: vec![refused], steps: Vec::new(), otherwise: Some(Box::new(answer)) };
    }
}

/// What the path becomes.
fn rewritten(action: &Tree, matched: &Tree, told: &mut OutlinedRoute) -> Result<(), String> {
    let prefix = action.get("prefix_rewrite");
    let regex = action.get("regex_rewrite");
    if let Some(to) = prefix.text() {
        let to = literal(&to.replace('$', "$$"));
        let of = |name: &str| matched.get(name).text();
        let step = match (of("prefix").or(of("path_separated_prefix")), of("path")) {
            (Some(from), _) => format!(
                "rewrite {} {}",
                quoted(&format!("~^{}(.*)$", regex_syntax::escape(from))),
                quoted(&slashed(&format!("{to}$1")))
            ),
            (None, Some(_)) => format!("rewrite {}", quoted(&to)),
            (None, None) => {
                return Err(
                    "a prefix is replaced where an expression is compared: `rewrite \"~^(.*)$\" \"$1\"` does it here".to_owned()
                );
            }
        };
        told.steps.push(step);
        told.origin.carry_all(prefix.statements());
    }
    if !regex.is_nothing() {
        let pattern = regex.at(&["pattern", "regex"]).text().unwrap_or_default();
        expression(pattern).build().map_err(|_| NO_EXPRESSION)?;
        let to = substitution(regex.get("substitution").text().unwrap_or_default());
        let is_whole = pattern.starts_with('^') && pattern.ends_with('$');
        let (pattern, to) = if is_whole {
            (format!("~{pattern}"), to)
        } else if pattern.starts_with('^') {
            let count = expression(pattern).build().map_or(1, |built| built.captures_len());
            (format!("~{pattern}(.*)$"), format!("{to}${count}"))
        } else {
            return Err(
                "a part of the path is replaced wherever it stands: `rewrite \"~^(.*)…(.*)$\" \"$1…$2\"` replaces it as a whole"
                    .to_owned(),
            );
        };
        told.steps.push(format!("rewrite {} {}", quoted(&pattern), quoted(&to)));
        told.origin.carry_all(regex.statements());
    }
    Ok(())
}

/// A new path that begins with a slash whatever follows.
fn slashed(to: &str) -> String {
    if to.starts_with('/') { to.to_owned() } else { format!("/{to}") }
}

/// `\1` as `$1`.
fn substitution(text: &str) -> String {
    let text = literal(&text.replace('$', "$$"));
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(digit)) if digit.is_ascii_digit() => out.push('$'),
            ('\\', Some('\\')) => {
                chars.next();
                out.push('\\');
            }
            (c, _) => out.push(c),
        }
    }
    out
}

/// How long the first byte is waited for, where the whole answer may take longer than a pool waits without a word.
fn first_byte(word: &str, time: &Tree, written: &str) -> Option<String> {
    const WAITED_FOR: f64 = 60.0;
    const LONGEST: f64 = 86_400.0;
    let seconds: f64 = time.text()?.trim().trim_end_matches('s').parse().ok()?;
    let written = if seconds > LONGEST { "24h" } else { written };
    (word == "total" && seconds > WAITED_FOR).then(|| format!("first-byte={}", quoted(written)))
}

/// What is said of a route beside where it leads.
fn options(reader: &RouteReader<'_>, action: &Tree, steps: &mut Vec<String>, origin: &mut Origin) {
    let mut times = Vec::new();
    for (name, word) in [("timeout", "total"), ("idle_timeout", "idle")] {
        let time = action.get(name);
        match time.text().and_then(super::clusters::duration) {
            Some(written) => {
                times.extend(first_byte(word, time, &written));
                times.push(format!("{word}={}", quoted(&written)));
            }
            // None at all is what there is without a word, but for that of the first byte.
            None if time.text().is_some_and(|text| text.trim().trim_end_matches('s').parse() == Ok(0.0)) => {
                if word == "total" {
                    times.push("first-byte=\"24h\"".to_owned());
                    origin.differ(time.start(), NO_END);
                }
            }
            None => continue,
        }
        origin.carry_all(time.statements());
    }
    let longest = action.at(&["max_stream_duration", "max_stream_duration"]);
    if let Some(written) =
        longest.text().and_then(super::clusters::duration).filter(|_| !times.iter().any(|time| time.starts_with("total")))
    {
        times.retain(|time| !time.starts_with("first-byte"));
        times.extend(first_byte("total", longest, &written));
        times.push(format!("total={}", quoted(&written)));
        origin.carry_all(longest.statements());
    }
    if !times.is_empty() {
        steps.push(format!("timeout {}", times.join(" ")));
    }
    for name in ["host_rewrite_literal", "host_rewrite"] {
        if let Some(host) = action.get(name).text() {
            steps.push(format!("request-header \"Host\" {}", quoted(host)));
            origin.carry_all(action.get(name).statements());
        }
    }
    if let Some(header) = action.get("host_rewrite_header").text().filter(|header| is_plain(header)) {
        steps.push(format!("request-header \"Host\" \"{{request.header.{header}}}\""));
        origin.carry_all(action.get("host_rewrite_header").statements());
    }
    let automatic = action.get("auto_host_rewrite");
    let servers = reader.cluster(action.get("cluster")).map(|group| group.servers).unwrap_or_default();
    if let ([one], true) = (servers.as_slice(), automatic.is_true()) {
        let host = one.address.trim_start_matches("https://").rsplit_once(':').map_or("", |(host, _)| host);
        steps.push(format!("request-header \"Host\" {}", quoted(host)));
        origin.carry_all(automatic.statements());
    } else if automatic.text() == Some("false") {
        origin.carry_all(automatic.statements());
    }
    for mirror in action.get("request_mirror_policies").items() {
        let Ok(group) = reader.cluster(mirror.get("cluster")) else { continue };
        let addresses: Vec<String> = group.servers.iter().map(|server| quoted(&server.address)).collect();
        if addresses.is_empty() {
            continue;
        }
        let share = percent(mirror.at(&["runtime_fraction", "default_value"])).filter(|share| *share < 100.0);
        let share = share.map(|share| format!(" sample={}", quoted(&format!("{share}%")))).unwrap_or_default();
        steps.push(format!("mirror {}{share}", addresses.join(" ")));
        origin.carry_all(mirror.statements());
    }
    super::filters::cors(action.get("cors"), steps, origin);
}

/// What a pool says, for requests of this route.
fn of_group(action: &Tree, group: &mut ServerGroup, origin: &mut Origin) {
    let retry = action.get("retry_policy");
    if !retry.is_nothing() {
        let on: BTreeSet<&str> =
            retry.get("retry_on").text().unwrap_or_default().split(',').map(str::trim).flat_map(retry_cause).collect();
        let codes: Vec<String> = retry.get("retriable_status_codes").texts();
        let codes: Vec<&str> = codes
            .iter()
            .map(String::as_str)
            .filter(|_| retry.get("retry_on").text().unwrap_or_default().contains("status"))
            .collect();
        let all: Vec<&str> = on.into_iter().chain(codes).collect();
        let count = retry.get("num_retries").number().unwrap_or(1).min(10);
        let on = if all.is_empty() { "connect,reset".to_owned() } else { all.join(",") };
        let per_try = retry.get("per_try_timeout").text().and_then(super::clusters::duration);
        let per_try = per_try.map(|time| format!(" try-timeout={}", quoted(&time))).unwrap_or_default();
        let pauses = backoff(retry.get("retry_back_off"), origin);
        group.add_line(format!("retry attempts={count} on={}{per_try}{pauses}", quoted(&on)));
        origin.carry_all(
            ["retry_on", "num_retries", "per_try_timeout", "retriable_status_codes"]
                .iter()
                .flat_map(|name| retry.get(name).statements()),
        );
    }
    for policy in action.get("hash_policy").items() {
        let cookie = policy.get("cookie");
        let key = if let Some(name) = policy.at(&["header", "header_name"]).text().filter(|name| is_plain(name)) {
            if name.eq_ignore_ascii_case(":authority") { "{host}".to_owned() } else { format!("{{request.header.{name}}}") }
        } else if policy.at(&["connection_properties", "source_ip"]).is_true() {
            "{client.ip}".to_owned()
        } else if let Some(name) = cookie.get("name").text().filter(|name| is_plain(name)) {
            if cookie.has("ttl") {
                group.add_line(sticky(name, cookie));
                origin.carry_all(policy.statements());
                continue;
            }
            format!("{{request.cookie.{name}}}")
        } else {
            continue;
        };
        group.lines.retain(|line| !line.starts_with("balance"));
        group.origin.differs.retain(|_, how| how != super::clusters::BY_POLICY);
        group.add_line(format!("balance \"hash\" key={}", quoted(&key)));
        origin.carry_all(policy.statements());
        break;
    }
    group.is_apart |= group.lines.len() > 1;
}

/// Pauses between attempts.
fn backoff(told: &Tree, origin: &mut Origin) -> String {
    let base = told.get("base_interval");
    let Some(first) = base.text().and_then(super::clusters::duration) else { return String::new() };
    let max = told.get("max_interval");
    let longest = max.text().and_then(super::clusters::duration);
    let longest = longest.map(|time| format!(" backoff-max={}", quoted(&time))).unwrap_or_default();
    for at in base.statements().into_iter().chain(max.statements()) {
        origin.differ(at, AT_LEAST);
    }
    format!(" backoff={}{longest}", quoted(&first))
}

const AT_LEAST: &str = "a pause is at least `backoff=`, and longer by chance: Envoy draws it between nothing and that";

/// A cookie that is made for clients without one.
fn sticky(name: &str, cookie: &Tree) -> String {
    let mut sticky = StickyCookie::named(name);
    let is_whole = |text: &&str| text.trim().trim_end_matches('s').parse::<u64>().is_ok_and(|seconds| seconds > 0);
    sticky.lasts(cookie.get("ttl").text().filter(is_whole).and_then(super::clusters::duration));
    if let Some(path) = cookie.get("path").text() {
        let _ = sticky.set("path", path);
    }
    for attribute in cookie.get("attributes").items() {
        if let Some(name) = attribute.get("name").text() {
            let _ = sticky.set(name, attribute.get("value").text().unwrap_or_default());
        }
    }
    sticky.line()
}

fn retry_cause(word: &str) -> Vec<&'static str> {
    match word {
        "5xx" => vec!["connect", "reset", "timeout", "500", "502", "503", "504"],
        "gateway-error" => vec!["502", "503", "504"],
        "reset" | "reset-before-request" | "refused-stream" | "http3-post-connect-failure" => vec!["reset"],
        "connect-failure" => vec!["connect"],
        "retriable-4xx" => vec!["409"],
        _ => Vec::new(),
    }
}

/// Shares of a hundred.
pub fn percent(fraction: &Tree) -> Option<f64> {
    let numerator = fraction.get("numerator").number()? as f64;
    let of = match fraction.get("denominator").text() {
        Some("TEN_THOUSAND") => 10_000.0,
        Some("MILLION") => 1_000_000.0,
        _ => 100.0,
    };
    Some(numerator / of * 100.0)
}

fn is_all(fraction: &Tree) -> bool {
    percent(fraction.get("default_value")).is_some_and(|share| share >= 100.0)
}

fn redirected(redirect: &Tree, matched: &Tree, told: &mut OutlinedRoute) -> Result<(), String> {
    let scheme = match redirect.get("scheme_redirect").text() {
        Some(scheme) => scheme.to_owned(),
        None if redirect.get("https_redirect").is_true() => "https".to_owned(),
        None => "{scheme}".to_owned(),
    };
    let host = redirect.get("host_redirect").text().unwrap_or("{host}");
    let port = redirect.get("port_redirect").number().map(|port| format!(":{port}"));
    let port =
        port.filter(|port| !matches!((scheme.as_str(), port.as_str()), ("https", ":443") | ("http", ":80"))).unwrap_or_default();
    // With the path that is written before, and the query unless it is taken off.
    let kept = if redirect.get("strip_query").is_true() { "{path}" } else { "{uri}" };
    let path = match redirect.get("path_redirect").text() {
        Some(path) if path.contains('?') || kept == "{path}" => literal(path),
        Some(path) => {
            told.steps.push(format!("rewrite {}", quoted(&literal(path))));
            kept.to_owned()
        }
        None => {
            rewritten(redirect, matched, told)?;
            kept.to_owned()
        }
    };
    let status = match redirect.get("response_code").text() {
        Some("FOUND") => 302,
        Some("SEE_OTHER") => 303,
        Some("TEMPORARY_REDIRECT") => 307,
        Some("PERMANENT_REDIRECT") => 308,
        Some(_) | None => 301,
    };
    told.answer = OutlinedAnswer::Redirect { to: format!("{scheme}://{host}{port}{path}"), status };
    told.origin.carry_all(redirect.statements());
    Ok(())
}

fn answered(direct: &Tree, told: &mut OutlinedRoute) -> Result<(), String> {
    let status =
        direct.get("status").number().and_then(|status| u16::try_from(status).ok()).filter(|status| (200..600).contains(status));
    let status = status.ok_or("an answer has a status from 200 to 599")?;
    let body = direct.get("body");
    let body = match (body.get("inline_string").text(), body.get("filename").text()) {
        (Some(text), _) => Some(literal(text)),
        (None, Some(file)) => Some(format!("{{file.{file}}}")),
        (None, None) => None,
    };
    told.answer = OutlinedAnswer::Respond { status, body };
    told.origin.carry_all(direct.statements());
    Ok(())
}

/// Conditions about a field, as they stand behind `match`.
pub fn of_header(header: &Tree, authority: Authority) -> Result<Vec<String>, String> {
    let name = header.get("name").text().unwrap_or_default();
    if name.to_ascii_lowercase().starts_with("x-envoy-") {
        return Err(OF_ENVOY.to_owned());
    }
    let is_inverted = header.get("invert_match").is_true();
    let is_blind = header.at(&["string_match", "ignore_case"]).is_true();
    let asked = asked_text(header);
    let not = if is_inverted { "not " } else { "" };
    let absent = header.get("present_match").text() == Some("false");
    let pattern = match asked {
        Some(HostText::Regex(regex)) => {
            expression(regex).build().map_err(|_| NO_EXPRESSION)?;
            Some(format!("~^(?:{regex})$"))
        }
        Some(HostText::Exact(exact)) => Some(value_pattern(exact, "^", "$", is_blind)),
        Some(HostText::Prefix(prefix)) => Some(value_pattern(prefix, "^", "", is_blind)),
        Some(HostText::Suffix(suffix)) => Some(value_pattern(suffix, "", "$", is_blind)),
        Some(HostText::Part(part)) => Some(value_pattern(part, "", "", is_blind)),
        None if header.has("present_match") || header.entries().len() == 1 => None,
        None => return Err("a field is compared as none of our conditions does".to_owned()),
    };
    if let (":authority" | "host", Some(asked), false) = (name, asked, authority.is_as_sent()) {
        let pattern = authority.pattern(asked, is_blind)?;
        return Ok(vec![format!("{not}header={}", quoted(&format!("Host: {pattern}")))]);
    }
    Ok(match (name, pattern) {
        (":method", Some(pattern)) => match pattern.strip_prefix("~^(?:").and_then(|rest| rest.strip_suffix(")$")) {
            None if !pattern.starts_with('~') => vec![format!("{not}method={}", quoted(&pattern))],
            Some(list) if list.chars().all(|c| c.is_ascii_uppercase() || c == '|') => {
                vec![format!("{not}method={}", quoted(&list.replace('|', ",")))]
            }
            _ => return Err("methods are listed by their names".to_owned()),
        },
        (":authority" | "host", Some(pattern)) => vec![format!("{not}header={}", quoted(&format!("Host: {pattern}")))],
        (":path", Some(pattern)) if pattern.starts_with('~') || pattern.starts_with('/') => {
            if pattern.contains('?') && !pattern.contains("(?") {
                return Err("`:path` has the query in it: conditions ask for the path, and for a name in the query".to_owned());
            }
            vec![format!("{not}path={}", quoted(&pattern))]
        }
        (":scheme", Some(pattern)) if !pattern.starts_with('~') => vec![format!("{not}scheme={}", quoted(&pattern))],
        (name, _) if name.starts_with(':') || !is_plain(name) => {
            return Err(format!("`{}` is no field that conditions ask for", if is_plain(name) { name } else { "…" }));
        }
        (name, None) => {
            let not = if is_inverted != absent { "not " } else { "" };
            vec![format!("{not}header={}", quoted(name))]
        }
        (name, Some(pattern)) => {
            let own = format!("{not}header={}", quoted(&format!("{name}: {pattern}")));
            let takes_none = header.get("treat_missing_header_as_empty").is_true();
            match (is_inverted, takes_none) {
                (false, false) => vec![own],
                // A field that is not there is none that is another.
                (true, false) => vec![format!("header={}", quoted(name)), own],
                (_, true) => return Err(EMPTY.to_owned()),
            }
        }
    })
}

/// What a matcher asks of a text; `None` where that is none of these.
fn asked_text(header: &Tree) -> Option<HostText<'_>> {
    let text =
        |name: &str| header.get(name).text().or_else(|| header.at(&["string_match", name.trim_end_matches("_match")]).text());
    let regex = header.at(&["string_match", "safe_regex", "regex"]).text();
    let regex = regex.or_else(|| header.at(&["safe_regex_match", "regex"]).text()).or_else(|| header.get("regex_match").text());
    let asked = regex.map(HostText::Regex).or_else(|| text("exact_match").map(HostText::Exact));
    let asked = asked.or_else(|| text("prefix_match").map(HostText::Prefix));
    let asked = asked.or_else(|| text("suffix_match").map(HostText::Suffix));
    asked.or_else(|| text("contains_match").map(HostText::Part))
}

/// A value as patterns have it.
fn value_pattern(value: &str, before: &str, behind: &str, is_blind: bool) -> String {
    let is_plain = !is_blind && !value.is_empty() && !value.starts_with('~') && !value.contains(['*', '{', '}', ',', '"', '\\']);
    match (before, behind) {
        ("^", "$") if is_plain => value.to_owned(),
        ("^", "") if is_plain => format!("{value}*"),
        ("", "$") if is_plain => format!("*{value}"),
        _ => format!("~{}{before}{}{behind}", if is_blind { "(?i)" } else { "" }, regex_syntax::escape(value)),
    }
}

fn of_parameter(parameter: &Tree) -> Result<String, String> {
    let name = parameter.get("name").text().filter(|name| is_plain(name)).ok_or("a parameter has a plain name")?;
    let matched = parameter.get("string_match");
    let of = |kind: &str| matched.get(kind).text();
    let is_blind = matched.get("ignore_case").is_true();
    let pattern = if let Some(regex) = matched.at(&["safe_regex", "regex"]).text() {
        expression(regex).build().map_err(|_| NO_EXPRESSION)?;
        format!("~^(?:{regex})$")
    } else if let Some(value) = of("exact").or(parameter.get("value").text()) {
        value_pattern(value, "^", "$", is_blind)
    } else if let Some(value) = of("prefix") {
        value_pattern(value, "^", "", is_blind)
    } else if let Some(value) = of("suffix") {
        value_pattern(value, "", "$", is_blind)
    } else if let Some(value) = of("contains") {
        value_pattern(value, "", "", is_blind)
    } else if parameter.get("present_match").text() == Some("false") {
        return Err(NO_PARAMETER.to_owned());
    } else if matched.is_nothing() && parameter.get("regex").text() != Some("true") {
        return Ok(format!("query={}", quoted(name)));
    } else {
        return Err("a parameter is compared as none of our conditions does".to_owned());
    };
    Ok(format!("query={}", quoted(&format!("{name}={pattern}"))))
}
