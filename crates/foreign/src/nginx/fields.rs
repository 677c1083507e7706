//! Fields of requests and answers: `proxy_set_header`, `add_header` and their kin. A block that has any of a kind says
//! all of them; what stands around it is not added.

use super::draft::{AnswerKind, Family, Step};
use super::scope::{Levels, milliseconds};
use super::tables::Tables;
use super::variables::{COOKIES_OF_ANSWER, Moment, TextPart, Values, names, parts};
use crate::accounts::Origin;
use crate::braces::{Statement, named};
use std::net::IpAddr;
use tidegate_kdl::quoted;
use tidegate_model::is_of_framing;

/// The statuses that a field is added to without `always`.
const USUAL: &str = "200,201,204,206,301-304,307,308";
const OWN_HOST: &str = "the server gets the `Host` that the client asked for, where nginx sends the name behind `proxy_pass`: \
                        `request-header \"Host\" \"…\"` sends another one";
const ONLY_CACHE_CONTROL: &str = "`Cache-Control` says it alone here, and `Expires` is not sent";

const TAKEN_OUT: &str = "nothing here has its value, so that servers do not get the field: that of a client is taken out as well";
const CACHE_STATUS: &str =
    "whether an answer was kept is in `Cache-Status` of each, as in `tidegate; hit; ttl=42`, and in no other field";
const OWN_CLIENT: &str = "servers get the address of the client in `X-Forwarded-For` here, behind those of proxies that are trusted, \
                          and never another value";

/// Locations within locations are looked at so deep.
const BLOCKS_DEEP_MAX: usize = 16;

/// What fields are read with.
pub struct Fields<'r, 's> {
    pub tables: &'r Tables<'s>,
    pub levels: &'r Levels<'s>,
    pub values: &'r Values<'s>,
}

impl Fields<'_, '_> {
    /// The fields that servers get. `host` is the name behind `proxy_pass`, where it is one of a machine elsewhere.
    pub fn of_requests(&self, pass: &Statement, host: Option<&str>, origin: &mut Origin) -> Vec<Step> {
        let is_grpc = pass.name() == "grpc_pass";
        let word = if is_grpc { "grpc_set_header" } else { "proxy_set_header" };
        let mut steps = Vec::new();
        let block = self.levels.all().iter().find(|block| block.iter().any(|own| own.name() == word || is_params(own)));
        let block: &[Statement] = block.copied().unwrap_or_default();
        let params = block.iter().find(|own| is_params(own) && !is_grpc);
        let mut has_host = params.is_some();
        if let Some(params) = params {
            origin.carry(params.start());
            steps.push(Step::of(Family::RequestField, "request-header \"X-Real-IP\" \"{client.ip}\""));
        }
        for field in block.iter().filter(|own| own.name() == word) {
            let [name, value] = field.arguments() else { continue };
            has_host |= name.eq_ignore_ascii_case("host");
            steps.extend(self.of_request(name, value, host, field, origin));
        }
        if has_host {
            return steps;
        }
        match host {
            Some(host) if is_public(host) => {
                steps.insert(0, Step::of(Family::RequestField, format!("request-header \"Host\" {}", quoted(host))));
            }
            _ => origin.differ(pass.start(), OWN_HOST),
        }
        steps
    }

    /// The line of a field, unless servers are sent it without one, or nothing here has what it says.
    fn of_request(&self, name: &str, value: &str, host: Option<&str>, field: &Statement, origin: &mut Origin) -> Option<Step> {
        let line = |text: String| Some(Step::of(Family::RequestField, text));
        let lower = name.to_ascii_lowercase();
        let filled = self.values.filled(value, &mut Vec::new());
        let value = filled.replace("${", "$").replace('}', "");
        let is_usual = match lower.as_str() {
            "host" => matches!(value.as_str(), "$host" | "$http_host" | "$host:$server_port" | "$http_host:$server_port"),
            "upgrade" | "connection" | "te" | "early-data" | "keep-alive" | "content-length" | "transfer-encoding" => true,
            "x-forwarded-for" => matches!(
                value.as_str(),
                "$proxy_add_x_forwarded_for" | "$remote_addr" | "$http_x_forwarded_for" | "$realip_remote_addr"
            ),
            "x-forwarded-proto" => value == "$scheme" || value.contains("forwarded_proto"),
            "x-forwarded-host" => {
                matches!(value.as_str(), "$host" | "$http_host" | "$server_name" | "$host:$server_port")
                    || value.contains("forwarded_host")
            }
            "x-forwarded-port" => value == "$server_port" || value.contains("forwarded_port"),
            _ => false,
        };
        origin.carry(field.start());
        if is_usual {
            return None;
        }
        if lower == "x-forwarded-for" {
            origin.carried.remove(&field.start());
            origin.differ(field.start(), OWN_CLIENT);
            return None;
        }
        if lower == "host" && matches!(value.as_str(), "$proxy_host" | "$upstream_host") {
            let host = host?;
            return line(format!("request-header \"Host\" {}", quoted(host)));
        }
        if value.is_empty() {
            return line(format!("request-header remove={}", quoted(name)));
        }
        let template = self.values.template(&filled, Moment::Request, self.tables, &mut Vec::new());
        let Some(template) = template.filter(|_| !self.is_of_itself(&lower, &value)) else {
            origin.carried.remove(&field.start());
            if is_of_framing(name) || matches!(lower.as_str(), "host" | "cookie") {
                return None;
            }
            // What a client says there must not be taken for what is set there.
            origin.differ(field.start(), TAKEN_OUT);
            return line(format!("request-header remove={}", quoted(name)));
        };
        if template == COOKIES_OF_ANSWER {
            return None;
        }
        if template.eq_ignore_ascii_case(&format!("{{request.header.{name}}}")) {
            // What comes in goes on, or is what a `copy` has brought.
            return None;
        }
        line(format!("request-header {} {}", quoted(name), quoted(&template)))
    }

    /// Whether a value is looked up by the field that it is for: what a map tells of a client is taken out of what
    /// clients send before anything is looked up.
    fn is_of_itself(&self, name: &str, value: &str) -> bool {
        let table = value.strip_prefix('$').and_then(|variable| self.tables.get(variable));
        table.is_some_and(|table| names(&table.key, &format!("http_{}", name.replace('-', "_"))))
    }

    /// The fields that clients get.
    pub fn of_answers(&self, kind: AnswerKind, origin: &mut Origin) -> Vec<Step> {
        let mut steps = Vec::new();
        if matches!(kind, AnswerKind::Proxy | AnswerKind::Scripts) {
            let word = if kind == AnswerKind::Proxy { "proxy_hide_header" } else { "fastcgi_hide_header" };
            for hidden in self.levels.nearest(&[word, "grpc_hide_header"]) {
                origin.carry(hidden.start());
                steps.push(Step::of(Family::Field, format!("header remove={}", quoted(hidden.argument()))));
            }
        }
        for field in self.levels.nearest(&["more_set_headers", "more_clear_headers"]) {
            steps.extend(self.of_module(field, origin));
        }
        steps.extend(self.expires(origin));
        for field in self.levels.nearest(&["add_header"]) {
            steps.extend(self.added(field, origin));
        }
        steps
    }

    fn added(&self, field: &Statement, origin: &mut Origin) -> Option<Step> {
        let [name, value, rest @ ..] = field.arguments() else { return None };
        let is_always = rest.iter().any(|word| word == "always");
        if name.eq_ignore_ascii_case("alt-svc") {
            origin.differ(field.start(), "HTTP/3 is not in this version, so it is not announced");
            return None;
        }
        if is_of_framing(name) {
            origin.differ(field.start(), "fields that frame messages, or are of one connection, are the proxy's own");
            return None;
        }
        if matches!(parts(value).as_slice(), [TextPart::Variable("upstream_cache_status")]) {
            origin.differ(field.start(), CACHE_STATUS);
            return None;
        }
        let status = if is_always { String::new() } else { format!(" status=\"{USUAL}\"") };
        let template = self.values.template(value, Moment::Response, self.tables, &mut Vec::new())?;
        origin.carry(field.start());
        if value.is_empty() || template == COOKIES_OF_ANSWER {
            return None;
        }
        // Files are sent with it without a word, and twice is once too often.
        if name.eq_ignore_ascii_case("content-type") || name.eq_ignore_ascii_case("x-content-type-options") {
            return Some(Step::of(Family::Field, format!("header {} {}{status}", quoted(name), quoted(&template))));
        }
        Some(Step::of(Family::Field, format!("header add={}{status}", quoted(&format!("{name}: {template}")))))
    }

    /// `more_set_headers "Server: x"`, of a module that many have.
    fn of_module(&self, field: &Statement, origin: &mut Origin) -> Vec<Step> {
        if field.arguments().iter().any(|word| word.starts_with('-')) {
            return Vec::new();
        }
        let mut steps = Vec::new();
        for written in field.arguments() {
            let (name, value) = written.split_once(':').unwrap_or((written, ""));
            let Some(value) = self.values.template(value.trim(), Moment::Response, self.tables, &mut Vec::new()) else {
                return Vec::new();
            };
            steps.push(match (field.name(), value.is_empty()) {
                ("more_set_headers", false) => {
                    Step::of(Family::Field, format!("header {} {}", quoted(name.trim()), quoted(&value)))
                }
                _ => Step::of(Family::Field, format!("header remove={}", quoted(name.trim()))),
            });
        }
        origin.carry(field.start());
        steps
    }

    fn expires(&self, origin: &mut Origin) -> Option<Step> {
        let expires = self.levels.one("expires").filter(|expires| expires.argument() != "off")?;
        let text = match expires.arguments() {
            [word] if word == "max" => "max-age=315360000".to_owned(),
            [word] if word == "epoch" || word.starts_with('-') => "no-cache".to_owned(),
            [time] => format!("max-age={}", milliseconds(time)? / 1_000),
            _ => return None,
        };
        origin.differ(expires.start(), ONLY_CACHE_CONTROL);
        Some(Step::of(Family::Field, format!("header \"Cache-Control\" {} status=\"{USUAL}\"", quoted(&text))))
    }
}

/// Whether it includes the fields that packages of nginx send to servers, as Debian's do.
fn is_params(statement: &Statement) -> bool {
    statement.name() == "include" && statement.argument().ends_with("proxy_params")
}

/// Whether a name is one that a server elsewhere may insist on.
pub fn is_public(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.parse::<u16>().is_ok() { name } else { host });
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    !is_address && name.contains('.') && !matches!(name.rsplit('.').next(), Some("local" | "internal" | "localhost"))
}

/// Whether something in a block hands requests on without the address of the client. `around` are the blocks that it
/// stands in, the nearest first.
pub fn leaves_clients_out(inside: &[Statement], around: &[&[Statement]], depth: usize) -> bool {
    let fields = |block: &&&[Statement]| named(block, "proxy_set_header").next().is_some();
    let is_told = around.iter().find(fields).is_some_and(|block| {
        named(block, "proxy_set_header").any(|field| field.argument().eq_ignore_ascii_case("x-forwarded-for"))
    });
    let has_own = named(inside, "proxy_pass").next().is_some() && !is_told;
    let is_block = |own: &&Statement| matches!(own.name(), "location" | "if" | "limit_except");
    has_own
        || depth < BLOCKS_DEEP_MAX
            && inside.iter().filter(is_block).any(|own| {
                let around: Vec<&[Statement]> = std::iter::once(own.inside()).chain(around.iter().copied()).collect();
                leaves_clients_out(own.inside(), &around, depth + 1)
            })
}
