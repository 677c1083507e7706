//! HTTP filters of Envoy as steps of ours, where all of a filter is said by one.

use super::authority::Authority;
use super::headers;
use super::known::{DISCOVERED, is_discovered_harmless, kind};
use super::rbac::{AccessFilter, Addresses, refusing};
use super::routes::{of_header, percent};
use crate::accounts::Origin;
use crate::outline::{OutlinedAnswer, OutlinedRoute, ServerGroup, is_plain};
use crate::tree::Tree;
use tidegate_kdl::quoted;

/// What filters do to all requests of a connection manager.
#[derive(Default)]
pub struct FilterChain<'t> {
    pub steps: Vec<String>,
    /// Routes in front of those of all hosts, in the order of their filters.
    pub leading: Vec<OutlinedRoute>,
    /// Filters that hosts or routes say something else in the place of.
    pub access: Vec<AccessFilter<'t>>,
    /// Filters that are not carried, with the reason.
    pub untold: Vec<(&'t Tree, String)>,
}

/// Of a connection manager, and the list of hosts that it has.
pub fn chain<'t>(
    (manager, config): (&'t Tree, &Tree),
    authority: Authority,
    clusters: &[ServerGroup],
    origin: &mut Origin,
) -> FilterChain<'t> {
    let mut chain = FilterChain::default();
    let addresses = Addresses::of(manager, authority);
    for filter in manager.get("http_filters").items() {
        // Off, unless a route says otherwise.
        let name = filter.get("name").text().unwrap_or_default();
        let is_named = manager.has_within(name) || config.has_within(name);
        if filter.get("disabled").is_true() && !is_named {
            origin.carry_all(filter.statements());
            continue;
        }
        let (kind, settings) = kind(filter);
        match kind.as_str() {
            "rbac" => {
                chain.of_access(filter, addresses, config, origin);
                continue;
            }
            "healthcheck" => {
                chain.of_health(filter, settings, authority, origin);
                continue;
            }
            DISCOVERED => {
                if is_discovered_harmless(filter) {
                    origin.carry_all(filter.statements());
                    origin.differ(filter.get("name").start(), BY_CONTROL_PLANE);
                }
                continue;
            }
            _ => {}
        }
        let said = match kind.as_str() {
            "router" | "cors" | "grpcweb" | "grpcstats" | "setmetadata" => Some(Vec::new()),
            "compressor" | "gzip" => compressed(settings),
            "buffer" => settings
                .get("max_request_bytes")
                .number()
                .map(|bytes| vec![format!("body-limit {}", quoted(&format!("{bytes}B")))]),
            "localratelimit" => limited(settings),
            "headermutation" => mutated(settings, origin),
            "jwtauthn" => verified(settings),
            "extauthz" if settings.has("grpc_service") => asked_over_grpc(settings, clusters, origin),
            "extauthz" => asked(settings, origin),
            _ => None,
        };
        let Some(said) = said else { continue };
        if chain.asks_twice(&said) {
            origin.lose(&filter.statements());
            chain.untold.push((filter, SECOND.to_owned()));
            continue;
        }
        origin.carry_all(filter.statements());
        if kind == "grpcweb" {
            origin.differ(
                filter.get("name").start(),
                "gRPC-Web goes on as it came: the server, or a proxy beside it, has to speak it",
            );
        }
        if kind == "localratelimit" {
            origin.differ(filter.get("name").start(), "one count for all of the process, which refills bit by bit");
        }
        chain.steps.extend(said);
    }
    chain
}

impl<'t> FilterChain<'t> {
    /// Whether somebody would be asked by one step of a kind of which another one is there.
    fn asks_twice(&self, said: &[String]) -> bool {
        let word = |step: &String| step.split(' ').next().unwrap_or_default().to_owned();
        let asks = |step: &String| matches!(word(step).as_str(), "forward-auth" | "jwt" | "basic-auth");
        said.iter().any(|step| asks(step) && self.steps.iter().any(|known| word(known) == word(step)))
    }

    /// Who is refused, as one line of addresses where that is enough, or by routes in front of all others.
    fn of_access(&mut self, filter: &'t Tree, addresses: Addresses, config: &Tree, origin: &mut Origin) {
        let access = AccessFilter::of(filter, addresses);
        if access.is_replaced(config) {
            access.carry_of(config, origin);
            origin.within.retain(|at| !access.places().contains(at));
            self.access.push(access);
            return;
        }
        let (_, settings) = kind(filter);
        let is_first = self.leading.is_empty() && !self.steps.iter().any(|step| is_of_addresses(step));
        if let Some(line) = by_address(settings).filter(|_| is_first && refusing(settings, addresses, origin).is_ok()) {
            self.steps.extend(line);
            origin.carry_all(filter.statements());
            return;
        }
        match refusing(settings, addresses, &Origin::default()) {
            Ok(routes) => {
                self.leading.extend(routes);
                origin.carry_all(filter.statements());
            }
            Err(why) => self.untold.push((filter, why)),
        }
    }

    /// An answer of the proxy itself to who asks whether it is there.
    fn of_health(&mut self, filter: &'t Tree, settings: &Tree, authority: Authority, origin: &mut Origin) {
        let passes = settings.get("pass_through_mode");
        if passes.is_true() {
            return filter.statements().into_iter().for_each(|at| origin.differ(at, ASKED_EACH_TIME));
        }
        let headers = settings.get("headers").items().iter();
        let conditions: Result<Vec<Vec<String>>, String> = headers.map(|header| of_header(header, authority)).collect();
        match conditions {
            Ok(conditions) => {
                let mut route = OutlinedRoute::of(Vec::new(), OutlinedAnswer::status(200));
                route.conditions = conditions.concat();
                self.leading.push(route);
                origin.carry_all(filter.statements());
                for at in settings.get("cluster_min_healthy_percentages").statements() {
                    origin.differ(at, HEALTH_OF_ITSELF);
                }
            }
            Err(why) => self.untold.push((filter, why)),
        }
    }
}

fn is_of_addresses(step: &str) -> bool {
    step.starts_with("allow ") || step.starts_with("deny ")
}

/// Which spellings of paths are the same, and what becomes of fields whose names servers may read as others.
pub fn spellings(manager: &Tree, origin: &mut Origin) -> Vec<String> {
    let mut policy = Vec::new();
    let normal = manager.get("normalize_path");
    if normal.is_true() {
        normal.statements().into_iter().for_each(|at| origin.differ(at, BACKSLASH));
    }
    let slashes = manager.get("merge_slashes");
    if slashes.is_true() {
        policy.push("slashes=\"merge\"");
        origin.carry_all(slashes.statements());
    }
    let escaped = manager.get("path_with_escaped_slashes_action");
    match escaped.text() {
        Some("REJECT_REQUEST") => {
            policy.push("encoded-slashes=\"refuse\"");
            origin.carry_all(escaped.statements());
        }
        Some(action @ ("UNESCAPE_AND_FORWARD" | "UNESCAPE_AND_REDIRECT")) => {
            policy.push("encoded-slashes=\"decode\"");
            let how = if action == "UNESCAPE_AND_FORWARD" { DECODED } else { DECODED_WITHOUT_REDIRECT };
            origin.differ(escaped.start(), how);
        }
        Some("KEEP_UNCHANGED" | "IMPLEMENTATION_SPECIFIC_DEFAULT") => origin.carry_all(escaped.statements()),
        Some(_) | None => {}
    }
    let mut steps = Vec::new();
    if !policy.is_empty() {
        steps.push(format!("path-policy {}", policy.join(" ")));
    }
    let names = manager.at(&["common_http_protocol_options", "headers_with_underscores_action"]);
    match names.text() {
        Some("REJECT_REQUEST") => steps.push("header-names \"refuse\"".to_owned()),
        Some("DROP_HEADER") => steps.push("header-names \"drop\"".to_owned()),
        Some("ALLOW") => {}
        Some(_) | None => return steps,
    }
    origin.carry_all(names.statements());
    steps
}

const BACKSLASH: &str = "a `\\` in a path is a slash there, and here it is sent on as `%5C` and is none: `match path=\"~%5C\"` and \
                         `respond 403` in a route keep such paths out";
const BY_CONTROL_PLANE: &str = "its settings come from a control plane there, and it is left out";
const DECODED: &str = "`%2F` becomes a slash, and `%5C` stays";
const DECODED_WITHOUT_REDIRECT: &str = "`%2F` becomes a slash without a redirect, and `%5C` stays";
const SECOND: &str = "there is one of its kind before, and both would have to let in: here a route has one of them";
const ASKED_EACH_TIME: &str = "the server is asked each time";
const HEALTH_OF_ITSELF: &str = "it says that this proxy is there, and not how well servers are: `admin` has `/readyz` for that";

fn compressed(settings: &Tree) -> Option<Vec<String>> {
    let library = settings.at(&["compressor_library", "typed_config", "@type"]).text().unwrap_or("gzip").to_ascii_lowercase();
    let coding = ["gzip", "brotli", "zstd"].into_iter().find(|coding| library.contains(coding))?;
    let coding = if coding == "brotli" { "br" } else { coding };
    let common = settings.at(&["response_direction_config", "common_config"]);
    let of = |name: &str| if common.has(name) { common.get(name) } else { settings.get(name) };
    let types = of("content_type").texts();
    let types = if types.is_empty() { String::new() } else { format!(" types={}", quoted(&types.join(","))) };
    let least =
        of("min_content_length").number().map(|bytes| format!(" min-size={}", quoted(&format!("{bytes}B")))).unwrap_or_default();
    Some(vec![format!("compress {}{least}{types}", quoted(coding))])
}

/// A bucket that is on for all requests.
fn limited(settings: &Tree) -> Option<Vec<String>> {
    let bucket = settings.get("token_bucket");
    let is_whole = |name: &str| percent(settings.at(&[name, "default_value"])).is_some_and(|share| share >= 100.0);
    if bucket.is_nothing() || settings.has("descriptors") || !is_whole("filter_enabled") || !is_whole("filter_enforced") {
        return None;
    }
    let most = bucket.get("max_tokens").number()?;
    let fill = bucket.get("tokens_per_fill").number().unwrap_or(1);
    let interval = super::clusters::duration(bucket.get("fill_interval").text()?)?;
    let per = interval.strip_prefix('1').filter(|unit| matches!(*unit, "s" | "m" | "h")).unwrap_or(&interval);
    Some(vec![format!("rate-limit {} burst={most} by=\"all\"", quoted(&format!("{fill}/{per}")))])
}

fn mutated(settings: &Tree, origin: &mut Origin) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    for (list, word) in [("request_mutations", "request-header"), ("response_mutations", "header")] {
        for mutation in settings.at(&["mutations", list]).items() {
            if let Some(name) = mutation.get("remove").text() {
                steps.push(format!("{word} remove={}", quoted(name)));
                continue;
            }
            let append = mutation.get("append");
            let name = append.at(&["header", "key"]).text()?;
            let value = headers::format(append.at(&["header", "value"]).text()?).ok()?;
            let line = quoted(&format!("{name}: {value}"));
            steps.push(match append.get("append_action").text() {
                Some("OVERWRITE_IF_EXISTS_OR_ADD" | "2") => format!("{word} {} {}", quoted(name), quoted(&value)),
                Some("ADD_IF_ABSENT" | "1") => format!("{word} default={line}"),
                Some("APPEND_IF_EXISTS_OR_ADD" | "0") | None => format!("{word} add={line}"),
                // One that is there alone is replaced.
                Some(_) => return None,
            });
        }
    }
    origin.carry_all(settings.statements());
    Some(steps)
}

/// Tokens of one provider, asked for everywhere.
fn verified(settings: &Tree) -> Option<Vec<String>> {
    let [(name, provider)] = settings.get("providers").entries() else { return None };
    let [rule] = settings.get("rules").items() else { return None };
    let is_of_all = rule.at(&["match", "prefix"]).text() == Some("/") && rule.get("match").entries().len() == 1;
    if !is_of_all || rule.at(&["requires", "provider_name"]).text() != Some(name.as_str()) {
        return None;
    }
    let known = ["issuer", "audiences", "remote_jwks", "local_jwks", "forward", "from_headers"];
    if provider.entries().iter().any(|(key, _)| !known.contains(&super::snake(key).as_str())) || provider.has("from_headers") {
        return None;
    }
    let uri = provider.at(&["remote_jwks", "http_uri", "uri"]).text();
    let keys = uri.or_else(|| provider.at(&["local_jwks", "filename"]).text())?;
    let issuer = provider.get("issuer").text().map(|issuer| format!(" issuer={}", quoted(issuer))).unwrap_or_default();
    let audiences = provider.get("audiences").texts();
    let audience = match audiences.as_slice() {
        [] => String::new(),
        [one] => format!(" audience={}", quoted(one)),
        _ => return None,
    };
    Some(vec![format!("jwt jwks={}{issuer}{audience}", quoted(keys))])
}

/// A server that is asked over HTTP.
fn asked(settings: &Tree, origin: &mut Origin) -> Option<Vec<String>> {
    let service = settings.get("http_service");
    let uri = service.at(&["server_uri", "uri"]).text()?;
    if settings.get("failure_mode_allow").is_true() || settings.has("filter_enabled") {
        return None;
    }
    let prefix = service.get("path_prefix").text().unwrap_or_default();
    let base = uri.trim_end_matches('/');
    // A path behind the prefix is the request's own, which is sent in a field here.
    if !prefix.is_empty() && !prefix.starts_with('/') {
        return None;
    }
    let path = if prefix.is_empty() { "/" } else { prefix };
    let names_of = |patterns: &Tree| -> Option<Vec<String>> {
        let name = |pattern: &Tree| pattern.get("exact").text().filter(|name| is_plain(name)).map(str::to_owned);
        patterns.items().iter().map(name).collect()
    };
    let copied = names_of(service.at(&["authorization_response", "allowed_upstream_headers", "patterns"]))?;
    let copied = copied.iter().map(|name| format!(" copy {};", quoted(name))).collect::<Vec<_>>().concat();
    let sent = sent_along(settings, origin);
    let block = if copied.is_empty() && sent.is_empty() { String::new() } else { format!(" {{{sent}{copied} }}") };
    let at = if service.has("path_prefix") { service.get("path_prefix") } else { service.at(&["server_uri", "uri"]) };
    origin.differ(at.start(), ASKED_WITHOUT_PATH);
    let options = asked_with(settings, service.at(&["server_uri", "timeout"]), origin);
    Some(vec![format!("forward-auth {} method=\"request\"{options}{block}", quoted(&format!("{base}{path}")))])
}

/// A server that is asked over gRPC.
fn asked_over_grpc(settings: &Tree, clusters: &[ServerGroup], origin: &mut Origin) -> Option<Vec<String>> {
    let service = settings.get("grpc_service");
    let name = service.at(&["envoy_grpc", "cluster_name"]).text()?;
    let cluster = clusters.iter().find(|cluster| cluster.name == name && !cluster.is_empty())?;
    if settings.get("failure_mode_allow").is_true() || settings.has("filter_enabled") {
        return None;
    }
    let servers: Option<Vec<String>> = cluster
        .servers
        .iter()
        .map(|server| match server.address.split_once("://") {
            Some(("https", rest)) => Some(quoted(&format!("grpcs://{rest}"))),
            None if !server.address.starts_with("unix:") => Some(quoted(&format!("grpc://{}", server.address))),
            Some(_) | None => None,
        })
        .collect();
    let servers = servers.filter(|servers| !servers.is_empty())?;
    origin.differ(service.at(&["envoy_grpc", "cluster_name"]).start(), COPIED_BY_NAME);
    origin.carry_all(cluster.origin.carried.iter().copied());
    for at in settings.get("allowed_headers").statements() {
        origin.differ(at, ALL_ARE_SENT);
    }
    let options = asked_with(settings, service.get("timeout"), origin);
    let lines: Vec<&str> = cluster.lines.iter().map(String::as_str).filter(|line| line.starts_with("tls ")).collect();
    let block = if lines.is_empty() { String::new() } else { format!(" {{ {}; }}", lines.join("; ")) };
    Some(vec![format!("forward-auth {}{options}{block}", servers.join(" "))])
}

/// The fields of requests that questions have; without a word that is `Authorization` there.
fn sent_along(settings: &Tree, origin: &mut Origin) -> String {
    let of_all = settings.get("allowed_headers");
    let of_service = settings.at(&["http_service", "authorization_request", "allowed_headers"]);
    let mut names = vec![quoted("Authorization")];
    for pattern in of_all.get("patterns").items().iter().chain(of_service.get("patterns").items()) {
        let exact = pattern.get("exact").text().map(str::to_owned);
        let name = exact.or_else(|| pattern.get("prefix").text().map(|prefix| format!("{prefix}*")));
        match name.filter(|name| is_plain(name.trim_end_matches('*'))) {
            Some(name) if name.eq_ignore_ascii_case("authorization") => {}
            Some(name) => names.push(quoted(&name)),
            None => {
                for at in of_all.statements().into_iter().chain(of_service.statements()) {
                    origin.differ(at, ALL_ARE_SENT);
                }
                return String::new();
            }
        }
    }
    format!(" request-headers {};", names.join(" "))
}

/// Properties of the questions, and what is different of them.
fn asked_with(settings: &Tree, time: &Tree, origin: &mut Origin) -> String {
    let service = settings.get("http_service");
    let mut options = String::new();
    let body = settings.get("with_request_body");
    match body.get("max_request_bytes").number() {
        Some(bytes @ 1..=4_194_304) => {
            options.push_str(&format!(" body={}", quoted(&format!("{bytes}B"))));
            if body.get("allow_partial_message").is_true() {
                origin.differ(
                    body.get("allow_partial_message").start(),
                    "a body that is longer is refused with 413, not asked for in part",
                );
            }
        }
        _ if body.is_nothing() => {}
        _ => origin.differ(body.start(), "`body=` of `forward-auth` goes up to 4MiB: nothing of bodies is sent along"),
    }
    let seconds = time.text().and_then(|text| text.trim().trim_end_matches('s').parse::<f64>().ok());
    match time.text().and_then(super::clusters::duration) {
        Some(written) if seconds.is_some_and(|seconds| (0.01..=300.0).contains(&seconds)) => {
            options.push_str(&format!(" total={}", quoted(&written)));
        }
        _ if time.is_nothing() => {}
        _ => origin.differ(time.start(), "a question has 5s, and `total=` of `forward-auth` says another time from 10ms to 5m"),
    }
    let differs = [
        (
            settings.get("disallowed_headers"),
            "`request-headers` of `forward-auth` names the fields that are sent, and none that are not",
        ),
        (service.at(&["authorization_request", "headers_to_add"]), "no fields of its own are sent along with a question"),
        (
            service.at(&["authorization_response", "allowed_client_headers"]),
            "an answer that refuses goes to the client as it came",
        ),
        (
            service.at(&["authorization_response", "allowed_client_headers_on_success"]),
            "of a good answer nothing goes to the client",
        ),
        (settings.get("status_on_error"), "a server that does not answer is 503"),
    ];
    for (tree, how) in differs {
        for at in tree.statements() {
            origin.differ(at, how);
        }
    }
    options
}

const COPIED_BY_NAME: &str =
    "fields of a good answer reach the server when `copy` names them: `forward-auth … { copy \"X-User\"; }`";
const ALL_ARE_SENT: &str = "all fields of the request go along with a question";
const ASKED_WITHOUT_PATH: &str =
    "the path of the request is not behind that of the question: `X-Forwarded-Uri` has it, and `X-Forwarded-Method` its method";

/// Rules that are about addresses alone.
fn by_address(settings: &Tree) -> Option<Vec<String>> {
    let rules = settings.get("rules");
    let word = match rules.get("action").text() {
        None | Some("ALLOW") => "allow",
        Some("DENY") => "deny",
        Some(_) => return None,
    };
    let mut networks = Vec::new();
    for (_, policy) in rules.get("policies").entries() {
        let is_any = policy.get("permissions").items().iter().all(|permission| permission.get("any").is_true());
        if !is_any {
            return None;
        }
        for principal in policy.get("principals").items() {
            let of = ["direct_remote_ip", "remote_ip", "source_ip"]
                .into_iter()
                .map(|name| principal.get(name))
                .find(|ip| !ip.is_nothing())?;
            let address = of.get("address_prefix").text()?;
            let length = of.get("prefix_len").number();
            networks.push(length.map_or_else(|| address.to_owned(), |length| format!("{address}/{length}")));
        }
    }
    if networks.is_empty() || networks.iter().any(|network| tidegate_model::parse_network(network).is_err()) {
        return None;
    }
    let networks: Vec<String> = networks.iter().map(|network| quoted(network)).collect();
    Some(vec![format!("{word} {}", networks.join(" "))])
}

const ON_HERE: &str = "what the site says holds here as well: write the step into the routes that need it, and not into the site";
const DAY: u64 = 86_400;

/// Pages of other origins, by a host or a route.
pub fn cors(policy: &Tree, steps: &mut Vec<String>, origin: &mut Origin) {
    if policy.is_nothing() {
        return;
    }
    let mut origins = policy.get("allow_origin").texts();
    for matcher in policy.get("allow_origin_string_match").items() {
        match (matcher.get("exact").text(), matcher.get("prefix").text(), matcher.at(&["safe_regex", "regex"]).text()) {
            (Some(exact), ..) => origins.push(exact.to_owned()),
            (_, Some("*" | ""), _) | (_, _, Some(".*" | "\\*" | "*")) => origins.push("*".to_owned()),
            _ => return,
        }
    }
    if origins.is_empty() {
        return;
    }
    let list = |name: &str| policy.get(name).texts();
    let credentials = policy.get("allow_credentials").is_true();
    if credentials && origins.iter().any(|origin| origin == "*") {
        return;
    }
    let mut words = vec![format!("cors origins={}", quoted(&origins.join(",")))];
    for (name, word) in [("allow_methods", "methods"), ("allow_headers", "headers"), ("expose_headers", "expose")] {
        let all: Vec<String> = list(name).into_iter().filter(|one| one != "*" || word != "methods").collect();
        if !(all.is_empty() || word == "headers" && all == ["*"]) {
            words.push(format!("{word}={}", quoted(&all.join(","))));
        }
    }
    if credentials {
        words.push("credentials=#true".to_owned());
    }
    let age = policy.get("max_age");
    if let Some(seconds) = age.number().filter(|seconds| *seconds > 0) {
        words.push(format!("max-age={}", quoted(&format!("{}s", seconds.min(DAY)))));
        if seconds > DAY {
            origin.differ(age.start(), "browsers ask again after a day at most");
        }
    }
    steps.push(words.join(" "));
    origin.carry_all(policy.statements());
}

/// What a host or a route says for single filters.
pub fn of_place(tree: &Tree, steps: &mut Vec<String>, origin: &mut Origin) {
    cors(tree.get("cors"), steps, origin);
    for (name, settings) in tree.get("typed_per_filter_config").entries() {
        let kind = settings.get("@type").text().unwrap_or(name).to_ascii_lowercase();
        let is_off =
            settings.get("disabled").is_true() && settings.entries().iter().all(|(key, _)| key == "disabled" || key == "@type");
        if is_off {
            settings.statements().into_iter().for_each(|at| origin.differ(at, ON_HERE));
        } else if kind.contains("cors") {
            cors(settings, steps, origin);
        } else if kind.contains("localratelimit") || kind.contains("local_ratelimit") {
            if let Some(said) = limited(settings) {
                steps.extend(said);
                origin.carry_all(settings.statements());
            }
        } else if kind.contains("bufferperroute")
            && let Some(bytes) = settings.at(&["buffer", "max_request_bytes"]).number()
        {
            steps.push(format!("body-limit {}", quoted(&format!("{bytes}B"))));
            origin.carry_all(settings.statements());
        }
    }
}
