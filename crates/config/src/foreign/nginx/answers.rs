//! What a block of nginx answers: servers that it hands on to, files, scripts, and answers of its own.

use super::guards::nearest;
use super::{BY_VARIABLE, NginxReader};
use crate::foreign::accounts::Origin;
use crate::foreign::braces::{Statement, named};
use crate::foreign::outline::{GroupedServer, OutlinedAnswer, OutlinedRoute, ServerGroup, is_plain, upstream};

const UNVERIFIED: &str = "nginx takes any certificate of a server unless `proxy_ssl_verify on` is written, and here it is \
                          verified: `tls ca=` of a pool names who has signed it";

impl NginxReader {
    /// What answers in the innermost of these blocks, at a path.
    pub(super) fn answer(&mut self, levels: &[&[Statement]], path: &str) -> Option<OutlinedRoute> {
        let inside = levels[0];
        for statement in inside {
            let answer = match statement.name() {
                "proxy_pass" | "grpc_pass" => self.handed_on(statement, levels, path),
                "fastcgi_pass" => self.script(statement.argument(), levels),
                "return" => returned(statement.arguments()).map(|answer| OutlinedRoute::of(Vec::new(), answer)),
                // What is not spoken here is not answered with the files beside it.
                name if name.ends_with("_pass") || name.starts_with("content_by_lua") => None,
                _ => continue,
            };
            let mut route = answer?;
            route.origin.carry(statement.start());
            return Some(route);
        }
        let is_shut = named(inside, "deny").any(|deny| deny.argument() == "all") && named(inside, "allow").next().is_none();
        if is_shut {
            let mut route = OutlinedRoute::of(Vec::new(), OutlinedAnswer::status(403));
            named(inside, "deny").for_each(|deny| route.origin.carry(deny.start()));
            return Some(route);
        }
        files(inside, levels.get(1).copied().unwrap_or(inside), path)
    }

    fn script(&self, server: &str, levels: &[&[Statement]]) -> Option<OutlinedRoute> {
        let (server, mut origin) = self.script_server(server)?;
        let root = nearest(levels, &["root"]).first().copied().filter(|root| is_folder(root.argument()));
        origin.carry_all(root.map(Statement::start));
        let root = root.map(|root| root.argument().to_owned());
        let answer = OutlinedAnswer::Scripts { server, root, fallback: None, is_static: false };
        Some(OutlinedRoute { origin, ..OutlinedRoute::of(Vec::new(), answer) })
    }

    /// Where scripts run, and what says so.
    pub(super) fn script_server(&self, written: &str) -> Option<(String, Origin)> {
        match self.groups.iter().find(|group| group.name == written) {
            Some(group) => group.servers.first().map(|server| (server.address.clone(), group.origin.clone())),
            None => upstream(written).map(|address| (address, Origin::default())),
        }
    }

    fn handed_on(&mut self, pass: &Statement, levels: &[&[Statement]], path: &str) -> Option<OutlinedRoute> {
        let mut origin = Origin::default();
        let target = resolved(pass.argument(), levels, &mut origin);
        if target.contains('$') {
            self.outline.without.get_or_insert(BY_VARIABLE);
            return None;
        }
        let (scheme, rest) = target.split_once("://").unwrap_or(("http", &target));
        let (authority, uri) = match rest.find('/').filter(|_| !rest.starts_with("unix:")) {
            Some(slash) => (&rest[..slash], Some(&rest[slash..])),
            None => (rest, None),
        };
        let mut group = match self.groups.iter().find(|group| group.name == authority) {
            Some(group) => group.clone(),
            None => ServerGroup::of(upstream(&target)?),
        };
        if group.is_empty() {
            return None;
        }
        let is_tls = matches!(scheme, "https" | "grpcs");
        if is_tls {
            group = group.over_tls();
            over_tls(pass, levels, &mut group);
        }
        if pass.name() == "grpc_pass" {
            group.add_line(if is_tls { "protocol \"h2\"" } else { "protocol \"h2c\"" });
        }
        let strip = uri.is_some() && path.len() > 1 && path.starts_with('/');
        let add = uri.map(|uri| uri.trim_end_matches('/')).filter(|uri| !uri.is_empty() && !path.is_empty());
        let strip = strip.then(|| path.trim_end_matches('/').to_owned()).filter(|strip| Some(strip.as_str()) != add);
        let add = add.filter(|add| *add != path.trim_end_matches('/')).map(str::to_owned);
        let route = OutlinedRoute::of(Vec::new(), OutlinedAnswer::Proxy { group, strip, add });
        Some(OutlinedRoute { origin, ..route })
    }
}

/// What goes with servers that are spoken to over TLS.
pub fn over_tls(pass: &Statement, levels: &[&[Statement]], group: &mut ServerGroup) {
    let of = |names: &[&str]| nearest(levels, names).first().copied();
    match of(&["proxy_ssl_verify", "grpc_ssl_verify"]) {
        Some(verify) if verify.argument() == "on" => group.origin.carry(verify.start()),
        Some(verify) => group.origin.differ(verify.start(), UNVERIFIED),
        None => group.origin.differ(pass.start(), UNVERIFIED),
    }
    if let Some(name) = of(&["proxy_ssl_name"]).filter(|name| is_plain(name.argument())) {
        group.add_line(format!("tls sni=\"{}\"", name.argument()));
        group.origin.carry(name.start());
    }
}

fn files(inside: &[Statement], server: &[Statement], path: &str) -> Option<OutlinedRoute> {
    let tries = named(inside, "try_files").next();
    let last = tries.and_then(|tries| tries.arguments().last());
    let fallback = last.filter(|last| last.starts_with('/') && !last.contains(['$', '='])).cloned();
    let listing = named(inside, "autoindex").find(|listing| listing.argument() == "on");
    let mut origin = Origin::default();
    origin.carry_all(listing.map(Statement::start));
    if let Some(tries) = tries {
        let ends = fallback.is_some() || last.is_some_and(|last| last == "=404" || last.starts_with('@'));
        let is_usual = |word: &String| matches!(word.as_str(), "$uri" | "$uri/" | "$uri/index.html") || Some(word) == last;
        if ends && tries.arguments().iter().all(is_usual) {
            origin.carry(tries.start());
        } else {
            origin.differ(tries.start(), "not all of what it tries is tried here: `files … try=` takes more");
        }
    }
    // An alias takes the path of its location off, which a step does here.
    let alias = named(inside, "alias").next().filter(|alias| is_folder(alias.argument()));
    let root = named(inside, "root").next().or_else(|| tries.and_then(|_| named(server, "root").next()));
    let folder = alias.or(root.filter(|root| is_folder(root.argument())))?;
    origin.carry(folder.start());
    let strip = alias.map(|_| path.trim_end_matches('/').to_owned()).filter(|strip| !strip.is_empty());
    let root = folder.argument().to_owned();
    let answer = OutlinedAnswer::Files { root, strip, fallback, is_listing: listing.is_some(), is_tried: false };
    Some(OutlinedRoute { origin, ..OutlinedRoute::of(Vec::new(), answer) })
}

/// The servers of an `upstream`.
pub fn group(statement: &Statement) -> ServerGroup {
    let mut group = ServerGroup::named(statement.argument());
    group.origin.within = super::words::places([statement]);
    group.origin.carry(statement.start());
    for line in statement.inside() {
        let balance = match (line.name(), line.arguments()) {
            ("server", [address, ..]) => {
                server(line, address, &mut group);
                continue;
            }
            ("least_conn", _) => "balance \"least-conn\"",
            ("random", _) => "balance \"random\"",
            ("ip_hash", _) => "balance \"hash\" key=\"{client.ip}\"",
            ("hash", [key, ..]) if key.contains("remote_addr") => "balance \"hash\" key=\"{client.ip}\"",
            ("hash", [key, ..]) if key == "$request_uri" => "balance \"hash\" key=\"{uri}\"",
            ("hash", [key, ..]) if key == "$uri" => "balance \"hash\" key=\"{path}\"",
            _ => continue,
        };
        group.add_line(balance);
        group.origin.carry(line.start());
    }
    group
}

fn server(line: &Statement, address: &str, group: &mut ServerGroup) {
    let mut server = GroupedServer::default();
    let mut carried = vec![line.start()];
    for (option, at) in line.options().skip(1) {
        match option.split_once('=').unwrap_or((option, "")) {
            // What is down is left out.
            ("down", _) => {
                group.origin.carried.extend(carried.iter().chain(&[at]));
                return;
            }
            ("weight", weight) => server.weight = weight.parse().ok(),
            ("backup", _) => server.is_backup = true,
            ("max_conns", count) if count.parse::<u32>().is_ok_and(|count| count > 0) => {
                server.properties.push(format!("max-connections={count}"));
            }
            _ => continue,
        }
        carried.push(at);
    }
    if let Some(address) = upstream(address) {
        group.servers.push(GroupedServer { address, ..server });
        group.origin.carried.extend(carried);
    }
}

pub fn is_folder(root: &str) -> bool {
    root.starts_with('/') && !root.contains('$')
}

/// What `try_files` of a server, or of its location for all, looks for.
pub fn tried(inside: &[Statement]) -> Vec<String> {
    let own = named(inside, "try_files").next();
    let of_all = || named(inside, "location").filter(|location| location.arguments() == ["/"]);
    let tries = own.or_else(|| of_all().find_map(|location| named(location.inside(), "try_files").next()));
    tries.map(|tries| tries.arguments().to_vec()).unwrap_or_default()
}

/// The target with what `set` says of its variables in the location or the server.
fn resolved(target: &str, levels: &[&[Statement]], origin: &mut Origin) -> String {
    let mut target = target.to_owned();
    for set in levels.iter().flat_map(|level| named(level, "set")) {
        if let [variable, value] = set.arguments() {
            let name = variable.trim_start_matches('$');
            if target.contains(&format!("${name}")) || target.contains(&format!("${{{name}}}")) {
                target = with_value(&target, name, value);
                origin.carry(set.start());
            }
        }
    }
    // Usual ways to say that the path goes on as it is.
    for rest in ["$request_uri", "$uri$is_args$args", "$uri"] {
        target = target.strip_suffix(rest).map(str::to_owned).unwrap_or(target);
    }
    target
}

/// The text with the value in the place of `$name` and `${name}`.
fn with_value(text: &str, name: &str, value: &str) -> String {
    let text = text.replace(&format!("${{{name}}}"), value);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, behind)) = rest.split_once(&format!("${name}")) {
        let is_whole = !behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        out.push_str(before);
        out.push_str(if is_whole { value } else { "$" });
        rest = if is_whole { behind } else { &rest[before.len() + 1..] };
    }
    out + rest
}

/// `return 301 https://…`, `return 200 "ok"`
pub fn returned(arguments: &[String]) -> Option<OutlinedAnswer> {
    let (status, text) = match arguments {
        [to] if to.contains("://") => (302, Some(to)),
        [status] => (status.parse().ok()?, None),
        [status, text, ..] => (status.parse().ok()?, Some(text)),
        [] => return None,
    };
    match (status, text) {
        (301 | 302 | 303 | 307 | 308, Some(to)) => {
            let variables = [
                ("$scheme", "{scheme}"),
                ("$host", "{host}"),
                ("$server_name", "{host}"),
                ("$http_host", "{host}"),
                ("$request_uri", "{uri}"),
                ("$uri$is_args$args", "{uri}"),
                ("$uri", "{path}"),
            ];
            let to = variables.iter().fold(to.clone(), |to, (theirs, ours)| to.replace(theirs, ours));
            (!to.contains('$')).then_some(OutlinedAnswer::Redirect { to, status })
        }
        // What closes the connection there is refused here.
        (444, _) => Some(OutlinedAnswer::status(403)),
        (200..=599, Some(body)) if !body.contains(['$', '{', '}']) => {
            Some(OutlinedAnswer::Respond { status, body: Some(body.clone()).filter(|body| !body.is_empty()) })
        }
        (200..=599, None) if status != 499 => Some(OutlinedAnswer::status(status)),
        _ => None,
    }
}
