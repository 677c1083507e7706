//! Who may come in by a file of nginx, and how often, as lines of ours.

use super::draft::{Family, Step};
use super::locations::{Location, Modifier, find};
use super::scope::Levels;
use super::tables::Tables;
use super::variables::{COOKIES_OF_ANSWER, Moment, TextPart, Values, parts};
use super::words;
use crate::accounts::Origin;
use crate::braces::{Statement, named, value};
use crate::outline::{ServerGroup, upstream};
use tidegate_kdl::quoted;
use tidegate_model::parse_network;

const HELD_BACK: &str = "requests of the burst are answered at once here, and not held back: `nodelay` says the same there";
const OTHER_FIELDS: &str =
    "the question says what the request is for in `X-Forwarded-*`, `X-Original-URL` and `X-Original-Method`";

const NOT_ANY: &str = "whom `satisfy any` lets in beside a `deny` for some addresses is not said: nobody comes in there, by `deny \"all\"`, until \
                       `auth \"any\" { … }` says who does";

/// How often each client may ask, by the name of the zone.
#[derive(Debug)]
pub struct LimitZone<'s> {
    pub name: &'s str,
    key: &'s str,
    /// `10/s`; nothing for requests at once.
    rate: Option<String>,
    pub statement: &'s Statement,
    /// In how many servers it is used.
    pub servers: usize,
}

/// What guards are read with.
pub struct Guarding<'r, 's> {
    pub tables: &'r Tables<'s>,
    pub zones: &'r [LimitZone<'s>],
    pub groups: &'r [ServerGroup],
    pub locations: &'r [Location<'s>],
    pub levels: &'r Levels<'s>,
    pub values: &'r Values<'s>,
    /// Whether the address of a client is told by another proxy that is not known here.
    pub is_behind_another: bool,
}

/// `$binary_remote_addr zone=api:10m rate=20r/s`
pub fn zone(statement: &Statement) -> Option<LimitZone<'_>> {
    let behind = |name: &str| statement.arguments().iter().find_map(|word| word.strip_prefix(name));
    let name = behind("zone=")?.split(':').next()?;
    let rate = match behind("rate=") {
        Some(rate) => {
            let (count, unit) = rate.split_once("r/")?;
            (count.parse::<u32>().is_ok() && matches!(unit, "s" | "m")).then(|| format!("{count}/{unit}")).map(Some)?
        }
        None if statement.name() == "limit_conn_zone" => None,
        None => return None,
    };
    Some(LimitZone { name, key: statement.argument(), rate, statement, servers: 0 })
}

impl<'s> Guarding<'_, 's> {
    /// What keeps others out of the block, and what is claimed by it.
    pub fn steps(&self, values: &mut Values<'s>, origin: &mut Origin) -> Vec<Step> {
        let mut steps = Vec::new();
        // What is not written is not told of either, and so shuts what it keeps.
        let mut found = Origin::default();
        let access = self.access(&mut found);
        let log_ins = self.log_ins(values, &mut found);
        match self.levels.one("satisfy") {
            Some(satisfy) if satisfy.argument() == "any" && !log_ins.is_empty() => {
                let access = self.let_in(access);
                let allowed: Option<Vec<&String>> =
                    access.as_ref().map(|lines| lines.iter().filter(|line| line.starts_with("allow ")).collect());
                let denies = access.iter().flatten().any(|line| line.starts_with("deny ") && line != DENY_ALL);
                match allowed {
                    // Whoever is let in by his address is asked for nothing, and no other rule stands in between.
                    Some(allowed) if !denies => {
                        origin.carry(satisfy.start());
                        origin.add(&found);
                        let all: Vec<&str> =
                            allowed.iter().map(|line| line.as_str()).chain(log_ins.iter().map(String::as_str)).collect();
                        steps.push(Step::of(Family::LogIn, format!("auth \"any\" {{ {}; }}", all.join("; "))));
                    }
                    // Other blocks may say the same, so that what is not said here is told of here.
                    _ => {
                        steps.push(Step::of(Family::Access, DENY_ALL));
                        found.carry(satisfy.start());
                        found.carried.iter().for_each(|at| origin.differ(*at, NOT_ANY));
                    }
                }
            }
            satisfy => {
                origin.carry_all(satisfy.map(Statement::start));
                origin.add(&found);
                steps.extend(access.into_iter().flatten().map(|line| Step::of(Family::Access, line)));
                steps.extend(log_ins.into_iter().map(|line| Step::of(Family::LogIn, line)));
            }
        }
        for limit in self.levels.nearest(&["limit_req", "limit_conn"]) {
            steps.extend(self.limit(limit, origin));
        }
        // Both kinds may stand in different blocks.
        for name in ["limit_req", "limit_conn"] {
            let known = |steps: &[Step], limit: &Statement| {
                let word = if name == "limit_req" { "rate-limit" } else { "concurrency-limit" };
                limit.name() != name || steps.iter().any(|step| step.line.starts_with(word))
            };
            for limit in self.levels.nearest(&[name]) {
                if !known(&steps, limit) {
                    steps.extend(self.limit(limit, origin));
                }
            }
        }
        steps
    }

    /// Lines of `satisfy any`, where whom no line names is asked to log in, be it that none refuses anybody.
    fn let_in(&self, access: Option<Vec<String>>) -> Option<Vec<String>> {
        let rules = self.levels.nearest(&["allow", "deny"]);
        match access {
            None if rules.is_empty() => Some(Vec::new()),
            Some(lines) if lines.is_empty() => {
                let allowed = rules.iter().filter(|rule| rule.name() == "allow" && rule.argument() != "unix:");
                Some(allowed.map(|rule| format!("allow {}", quoted(rule.argument()))).collect())
            }
            access => access,
        }
    }

    /// The lines for those who may come in, in the order that they stand in.
    fn access(&self, origin: &mut Origin) -> Option<Vec<String>> {
        let rules = self.levels.nearest(&["allow", "deny"]);
        // Behind another proxy, the address of a connection is that one's.
        let is_of_addresses = rules.iter().any(|rule| rule.argument() != "all");
        let is_behind = self.is_behind_another || self.has_own_proxies();
        if rules.is_empty() || (is_behind && is_of_addresses) {
            return None;
        }
        let lines = access(&rules)?;
        origin.carry_all(rules.iter().map(|rule| rule.start()));
        Some(lines)
    }

    /// Whether a location has proxies in front that the listener does not know of.
    fn has_own_proxies(&self) -> bool {
        let locations = self.levels.all().iter().rev().skip(2);
        locations.flat_map(|block| block.iter()).any(|own| matches!(own.name(), "set_real_ip_from" | "real_ip_header"))
    }

    fn log_ins(&self, values: &mut Values<'s>, origin: &mut Origin) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.basic_auth(origin));
        lines.extend(self.forward_auth(values, origin));
        lines
    }

    fn basic_auth(&self, origin: &mut Origin) -> Option<String> {
        let asked = self.levels.one("auth_basic").filter(|asked| asked.argument() != "off")?;
        let users = self.levels.one("auth_basic_user_file").filter(|users| !users.argument().contains('$'))?;
        origin.carry(asked.start());
        origin.carry(users.start());
        let realm = self.values.filled(asked.argument(), &mut Vec::new());
        let realm = if realm.contains('$') { String::new() } else { format!(" realm={}", quoted(&realm)) };
        let file = from_folder(users.argument());
        Some(format!("basic-auth file={}{realm}", quoted(&file)))
    }

    /// `auth_request /auth`, with the location that it asks.
    fn forward_auth(&self, values: &mut Values<'s>, origin: &mut Origin) -> Option<String> {
        let asked = self.levels.one("auth_request").filter(|asked| asked.argument() != "off")?;
        // With a query in it, nginx looks for a location of that name.
        let path = Some(asked.argument()).filter(|path| !path.contains('?'))?;
        let location = &self.locations[find(self.locations, path)?];
        let inside = location.statement.inside();
        let pass = named(inside, "proxy_pass").next()?;
        let mut used = Vec::new();
        let target = self.values.filled(pass.argument(), &mut used);
        if inside.iter().any(|own| matches!(own.name(), "if" | "return" | "rewrite" | "deny")) {
            return None;
        }
        let below = if location.modifier == Modifier::Exact { "" } else { path.strip_prefix(location.path)? };
        let question = self.question(&target, path, below)?;
        for statement in inside {
            claim_question(statement, origin);
        }
        origin.carry(asked.start());
        origin.carry(location.statement.start());
        origin.carry_all(used);
        let (copied, cookies) = self.copied(values, origin);
        let mut line = format!("forward-auth {question}");
        if let Some(host) = named(inside, "proxy_set_header").find(|field| field.argument().eq_ignore_ascii_case("host")) {
            let host = host.arguments().get(1).filter(|host| !host.contains('$'));
            line.push_str(&host.map(|host| format!(" host={}", quoted(host))).unwrap_or_default());
        }
        line.push_str(&self.sign_in(origin).unwrap_or_default());
        let mut inner = Vec::new();
        if !copied.is_empty() {
            inner.push(format!("copy {}", copied.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(" ")));
        }
        if cookies {
            inner.push("cookies".to_owned());
        }
        if !inner.is_empty() {
            line.push_str(&format!(" {{ {}; }}", inner.join("; ")));
        }
        Some(line)
    }

    /// Where the question goes to; with the path of the location where the target has none. What depends on the request
    /// is asked for by nobody here.
    fn question(&self, target: &str, path: &str, below: &str) -> Option<String> {
        let (scheme, rest) = target.split_once("://")?;
        let (authority, own) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (own, query) = own.split_once('?').unwrap_or((own, ""));
        if target.contains('$') || !matches!(scheme, "http" | "https") {
            return None;
        }
        let own = if own.is_empty() { path.to_owned() } else { format!("{own}{below}") };
        let (own, question) = if query.is_empty() {
            (own, String::new())
        } else {
            (String::new(), format!(" path={}", quoted(&format!("{own}?{query}"))))
        };
        let group = self.groups.iter().find(|group| group.name == authority);
        let addresses: Vec<String> = match group {
            Some(group) => group.servers.iter().map(|server| server.address.clone()).collect(),
            None => vec![upstream(&format!("http://{authority}"))?],
        };
        let of = |address: &String| {
            let address = address.trim_start_matches("https://");
            (!address.starts_with("unix:")).then(|| format!("{scheme}://{address}{own}"))
        };
        let urls: Option<Vec<String>> = addresses.iter().map(of).collect();
        Some(urls?.iter().map(|url| quoted(url)).collect::<Vec<_>>().join(" ") + &question)
    }

    /// Fields of a good answer that the upstream gets, and whether the client gets its cookies.
    fn copied(&self, values: &mut Values<'s>, origin: &mut Origin) -> (Vec<String>, bool) {
        let (mut names, mut cookies) = (Vec::new(), false);
        for set in self.levels.nearest(&["auth_request_set"]) {
            let [variable, from] = set.arguments() else { continue };
            let field = match parts(from).as_slice() {
                [TextPart::Variable(name)] => name.strip_prefix("upstream_http_").map(super::variables::field_name),
                _ => None,
            };
            let Some(field) = field else { continue };
            origin.carry(set.start());
            let variable = variable.trim_start_matches('$').to_owned();
            if field == "Set-Cookie" {
                cookies = true;
                values.captures.push((variable, COOKIES_OF_ANSWER.to_owned()));
                continue;
            }
            let of_servers = self.levels.nearest(&["proxy_set_header", "grpc_set_header"]);
            if !of_servers.iter().any(|own| own.argument().eq_ignore_ascii_case(&field)) {
                origin.differ(set.start(), format!("servers get `{field}` of the answer by this name as well"));
            }
            values.captures.push((variable, format!("{{request.header.{field}}}")));
            names.push(field);
        }
        (names, cookies)
    }

    /// Where browsers are sent that have not logged in, by `error_page 401`.
    fn sign_in(&self, origin: &mut Origin) -> Option<String> {
        let pages = self.levels.nearest(&["error_page"]);
        let page = pages.iter().find(|page| page.arguments().iter().any(|word| word == "401"))?;
        let target = page.arguments().last()?;
        let target = match target.strip_prefix('@') {
            Some(_) => {
                let location = self.locations.iter().find(|location| location.path == target)?;
                let answer = named(location.statement.inside(), "return").next()?;
                origin.carry_all(words::places([location.statement]));
                answer.arguments().last()?.clone()
            }
            None => target.clone(),
        };
        if !target.contains("://") {
            return None;
        }
        let (url, query) = target.split_once('?').unwrap_or((&target, ""));
        let parameter = query.split('&').filter_map(|part| part.split_once('=')).find(|(_, value)| value.contains('$'));
        let url = self.values.template(url, Moment::Request, &Tables::default(), &mut Vec::new())?;
        if url.contains('{') {
            return None;
        }
        origin.carry(page.start());
        let name = parameter.map(|(name, _)| format!(" redirect-param={}", quoted(name))).unwrap_or_default();
        Some(format!(" sign-in={}{name}", quoted(&url)))
    }

    fn limit(&self, limit: &Statement, origin: &mut Origin) -> Option<Step> {
        let is_rate = limit.name() == "limit_req";
        let arguments = limit.arguments();
        let behind = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
        let name = if is_rate { behind("zone=")? } else { limit.argument() };
        let zone = self.zones.iter().find(|zone| zone.name == name && zone.rate.is_some() == is_rate)?;
        let by = self.by(zone.key)?;
        let mut line = match &zone.rate {
            Some(rate) => {
                let burst = behind("burst=").map_or(Some(0), |burst| burst.parse::<u32>().ok())?;
                format!("rate-limit {} burst={}", quoted(rate), burst.checked_add(1)?)
            }
            None => format!("concurrency-limit {}", arguments.get(1)?.parse::<u32>().ok().filter(|count| *count > 0)?),
        };
        line.push_str(&by);
        let word = if is_rate { "limit_req_status" } else { "limit_conn_status" };
        let status = self.levels.one(word);
        // Too many are 503 there unless something is said.
        match status.map_or("503", Statement::argument) {
            "429" => {}
            own => line.push_str(&format!(" status={}", own.parse::<u16>().ok().filter(|own| (400..600).contains(own))?)),
        }
        if self.levels.is_on(if is_rate { "limit_req_dry_run" } else { "limit_conn_dry_run" }) {
            line.push_str(" dry-run=#true");
        }
        let dry = self.levels.one(if is_rate { "limit_req_dry_run" } else { "limit_conn_dry_run" });
        origin.carry_all(status.into_iter().chain(dry).map(Statement::start));
        origin.carry(zone.statement.start());
        let is_held_back = is_rate && behind("burst=").is_some() && !arguments.iter().any(|word| word == "nodelay");
        if zone.servers > 1 {
            origin.differ(limit.start(), "each site counts for itself here, where one zone counts for all servers there");
        } else if is_held_back {
            origin.differ(limit.start(), HELD_BACK);
        } else {
            origin.carry(limit.start());
        }
        Some(Step { zone: Some((zone.name.to_owned(), limit.start())), ..Step::of(Family::Limit, line) })
    }

    fn by(&self, key: &str) -> Option<String> {
        match key {
            "$binary_remote_addr" | "$remote_addr" => (!self.is_behind_another).then(String::new),
            "$server_name" => Some(" by=\"all\"".to_owned()),
            key => {
                let template = self.values.template(key, Moment::Request, self.tables, &mut Vec::new())?;
                let is_of_address = template.contains("{client.");
                (template.contains('{') && !(is_of_address && self.is_behind_another))
                    .then(|| format!(" by={}", quoted(&template)))
            }
        }
    }
}

pub const DENY_ALL: &str = "deny \"all\"";

/// The lines of ours for rules, in their order; `None` when they say something else.
fn access(rules: &[&Statement]) -> Option<Vec<String>> {
    let rules: Vec<(&str, &str)> = rules.iter().map(|statement| (statement.name(), statement.argument())).collect();
    let end = rules.iter().position(|(_, who)| *who == "all");
    let (named, end) = (&rules[..end.unwrap_or(rules.len())], end.map(|end| rules[end].0));
    if named.iter().any(|(_, who)| *who != "unix:" && parse_network(who).is_err()) {
        return None;
    }
    let named: Vec<&(&str, &str)> = named.iter().filter(|(_, who)| *who != "unix:").collect();
    let mut lines: Vec<String> = named.iter().map(|(word, who)| format!("{word} \"{who}\"")).collect();
    let has_allow = named.iter().any(|(word, _)| *word == "allow");
    match (end, has_allow) {
        // Who is named by no line is refused as soon as one allows somebody, here without a word.
        (Some("deny"), true) | (Some("allow") | None, false) => {}
        (Some("deny"), false) => lines.push(DENY_ALL.to_owned()),
        // Who is named by none comes in there.
        (_, true) if named.iter().all(|(word, _)| *word == "allow") => lines.clear(),
        (_, _) => lines.push("allow \"all\"".to_owned()),
    }
    Some(lines)
}

/// What the location of a question says beside where it goes.
fn claim_question(statement: &Statement, origin: &mut Origin) {
    const TOLD: [&str; 12] = [
        "content-length",
        "host",
        "x-original-url",
        "x-original-method",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "x-forwarded-uri",
        "x-forwarded-method",
        "x-forwarded-port",
        "connection",
        "cookie",
    ];
    let is_told = statement.name() != "proxy_set_header" || TOLD.contains(&statement.argument().to_ascii_lowercase().as_str());
    if is_told {
        origin.carry_all(words::places([statement]));
    } else {
        origin.differ(statement.start(), OTHER_FIELDS);
    }
}

/// Files are looked for from where the configuration of nginx lies.
pub fn from_folder(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/etc/nginx/{path}") }
}

/// Whether blocks say that clients come by another proxy, whose list is not known here.
pub fn is_behind_another(levels: &[&[Statement]]) -> bool {
    levels.iter().any(|level| {
        let is_list = |include: &Statement| ["cloudflare", "real"].iter().any(|word| include.argument().contains(word));
        value(level, "real_ip_header").is_some() || named(level, "include").any(is_list)
    })
}

#[cfg(test)]
mod tests {
    use super::access;
    use crate::braces::of_nginx;

    #[test]
    fn rules_are_said_in_their_order() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let statements = of_nginx(text);
            let lines = access(&statements.iter().collect::<Vec<_>>());
            let lines: Option<Vec<&str>> = lines.as_ref().map(|lines| lines.iter().map(String::as_str).collect());
            assert_eq!(lines.as_deref(), expected, "for {text}");
        };
        check("allow 10.0.0.0/8; deny all;", Some(&["allow \"10.0.0.0/8\""]));
        check("deny 192.0.2.1; allow all;", Some(&["deny \"192.0.2.1\""]));
        check("deny 10.0.0.1; allow 10.0.0.0/8; deny all;", Some(&["deny \"10.0.0.1\"", "allow \"10.0.0.0/8\""]));
        check("deny all;", Some(&["deny \"all\""]));
        check("allow 10.0.0.0/8;", Some(&[]));
        check("allow 10.0.0.1; deny 10.0.0.0/8;", Some(&["allow \"10.0.0.1\"", "deny \"10.0.0.0/8\"", "allow \"all\""]));
        check("allow unix:; deny all;", Some(&["deny \"all\""]));
        check("allow all;", Some(&[]));
        check("allow somebody; deny all;", None);
    }
}
