//! Who is sent elsewhere by routers and entry points of Traefik: to HTTPS, to another host, to another path.

use super::doors::resolved;
use super::middlewares::groups;
use crate::accounts::Origin;
use crate::outline::{Door, OutlinedAnswer, is_plain};
use crate::tree::Tree;
use std::collections::BTreeSet;
use tidegate_kdl::quoted;
use tidegate_model::expression;

const METHODS: &str = "Traefik answers GET with 301 or 302 and other methods with 308 or 307: here it is 308 or 307 for all, with \
                       which clients repeat their method as well";

/// Whether the redirections of an entry point are to HTTPS, which they are without a word of it.
pub fn is_to_https(redirections: &Tree) -> bool {
    !redirections.is_nothing() && scheme_of(redirections) == "https"
}

fn scheme_of(redirections: &Tree) -> &str {
    redirections.get("scheme").text().unwrap_or("https")
}

/// The status of a redirect: with 307 and 308 the method stays, as it does there.
fn status_of(said: &Tree) -> u16 {
    if said.get("permanent").is_true() { 308 } else { 307 }
}

/// How many groups an expression has that has no others than these and `(?:`.
fn group_count(regex: &str) -> usize {
    regex.replace("(?:", "").replace("\\(", "").matches('(').count()
}

/// To HTTPS, at this port.
pub fn to_https(said: &Tree, port: Option<&str>) -> OutlinedAnswer {
    to_scheme("https", said, port)
}

/// By a middleware, for requests at this door; none where they are there already.
pub fn to_other_scheme(said: &Tree, door: Door) -> Option<OutlinedAnswer> {
    let scheme = said.get("scheme").text().filter(|scheme| matches!(*scheme, "http" | "https"))?;
    // The usual port is that of a door wherever clients come in by it, also where another one is mapped to it.
    let usual = if scheme == "https" { Door::HTTPS.port } else { Door::HTTP.port };
    let port = said.get("port").text().filter(|port| !port.is_empty());
    let to = port.map_or(Some(usual), |port| port.parse::<u16>().ok())?;
    let is_there = (scheme == "https") == door.is_tls && (to == usual || to == door.port);
    (!is_there).then(|| to_scheme(scheme, said, port))
}

fn to_scheme(scheme: &str, said: &Tree, port: Option<&str>) -> OutlinedAnswer {
    let own = if scheme == "https" { "443" } else { "80" };
    let port = port.filter(|port| *port != own && port.parse::<u16>().is_ok());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    OutlinedAnswer::Redirect { to: format!("{scheme}://{{host}}{port}{{uri}}"), status: status_of(said) }
}

/// To another host with all of the path, by an expression of which the last group is that.
fn elsewhere(redirect: &Tree) -> Option<OutlinedAnswer> {
    let regex = redirect.get("regex").text()?.replace("$$", "$").replace("\\\\", "\\");
    let to = groups(&redirect.get("replacement").text()?.replace("$$", "$"));
    let regex = regex.trim_end_matches('$');
    let (before, has_slash) = [("/(.*)", true), ("/(.+)", true), ("(/.*)?", false), ("(/.*)", false), ("(.*)", false)]
        .iter()
        .find_map(|(end, has_slash)| Some((regex.strip_suffix(end)?, *has_slash)))?;
    let host = to.strip_suffix(&format!("${}", group_count(before) + 1))?;
    let host = if has_slash { host.strip_suffix('/')? } else { host };
    let name = host.split_once("://")?.1;
    let is_of_hosts =
        before.contains("://") || before.starts_with(".*") || before.starts_with("^.*") || before.starts_with("^http");
    let is_whole = is_of_hosts && !name.is_empty() && is_plain(name) && !name.contains('/');
    is_whole.then(|| OutlinedAnswer::Redirect { to: format!("{host}{{uri}}"), status: status_of(redirect) })
}

/// An expression for a URL: what stands in front of the path, whether that finds the host, and the rest.
struct UrlExpression<'r> {
    front: String,
    has_host: bool,
    path: &'r str,
}

impl UrlExpression<'_> {
    fn of(regex: &str) -> Option<UrlExpression<'_>> {
        let behind = regex.find("://").map(|at| at + 3)?;
        let (scheme, rest) = regex.split_at(behind);
        let groups = ["([^/]+)", "([^/]*)", "(.+)", "(.*)", "(.+?)", "(.*?)", "([^\\/]+)", "([a-z0-9.-]+)", "([a-zA-Z0-9.-]+)"];
        let group = groups.iter().find(|group| rest.strip_prefix(**group).is_some_and(|path| path.starts_with('/')));
        let (host, path) = match group {
            Some(group) => ("[^/]+", &rest[group.len()..]),
            None => rest.split_at(rest.find('/')?),
        };
        let front = format!("{scheme}{host}");
        (group_count(&front) == 0).then_some(UrlExpression { front, has_host: group.is_some(), path })
    }
}

/// To another host, with what the expression has found of the path: a rewrite, and a redirect to what it makes.
fn moved(redirect: &Tree, url: &UrlExpression<'_>) -> Option<(String, OutlinedAnswer)> {
    let to = groups(&redirect.get("replacement").text()?.replace("$$", "$"));
    // Hosts that one of ours takes, or the one that was asked for.
    let (place, to_path) = to.find("://").and_then(|at| Some(to.split_at(at + 3 + to[at + 3..].find('/')?)))?;
    let (place, mut to_path) = match (url.has_host, place.strip_suffix("$1")) {
        (true, Some(scheme)) if scheme.ends_with("://") => (format!("{scheme}{{host}}"), to_path.to_owned()),
        _ => (place.to_owned(), to_path.to_owned()),
    };
    if url.has_host {
        if to_path.contains("$1") {
            return None;
        }
        for number in 2..10 {
            to_path = to_path.replace(&format!("${number}"), &format!("${}", number - 1));
        }
    }
    if place.contains('$') || !is_plain(&place.replace("{host}", "")) || to_path.contains('{') {
        return None;
    }
    // What an expression leaves of the URL stays behind what it is replaced with, the query with it.
    let count = group_count(url.path);
    let ends = ["(.*)", "(.+)", ".*", ".+"].iter().any(|end| url.path.trim_end_matches('$').ends_with(end));
    let (path, to_path, has_query) = if url.path.ends_with('$') || ends {
        let has_last = ends && to_path.ends_with(&format!("${count}"));
        (url.path.to_owned(), to_path, has_last)
    } else {
        (format!("{}(.*)$", url.path), format!("{to_path}${}", count + 1), true)
    };
    let step = format!("rewrite {} {}", quoted(&format!("~^{path}")), quoted(&to_path));
    let uri = if has_query { "{uri}" } else { "{path}" };
    Some((step, OutlinedAnswer::Redirect { to: format!("{place}{uri}"), status: status_of(redirect) }))
}

/// `to` is another entry point or a port, and it is for good unless that is said otherwise.
pub fn of_point(tree: &Tree, redirections: &Tree) -> OutlinedAnswer {
    let to = redirections.get("to").text().unwrap_or_default();
    let address = tree.at(&["entryPoints", to, "address"]).text().unwrap_or(to);
    let port = resolved(address).rsplit_once(':').map(|(_, port)| port);
    let scheme = if scheme_of(redirections) == "https" { "https" } else { "http" };
    match to_scheme(scheme, redirections, port) {
        OutlinedAnswer::Redirect { to, .. } if redirections.get("permanent").text() != Some("false") => {
            OutlinedAnswer::Redirect { to, status: 308 }
        }
        answer => answer,
    }
}

/// Whom a `redirectRegex` sends elsewhere, of those that come to a site.
pub enum Redirected {
    Nobody,
    All(Option<String>, OutlinedAnswer),
    /// Clients whose path an expression takes.
    Of(String, Option<String>, OutlinedAnswer),
    Unknown,
}

/// A row of a map for whole URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectRow {
    /// What the URL is at a door.
    pub key: String,
    pub regex: String,
    pub to: String,
    pub status: u16,
    /// The statements that say it.
    pub places: BTreeSet<usize>,
}

/// By an expression that is asked of the whole URL, as it is there; `None` where it is none of ours, or where what it
/// leaves of the URL is not behind it.
pub fn by_row(redirect: &Tree, door: Door, origin: &mut Origin) -> Option<RedirectRow> {
    let unescaped = |name: &str| redirect.get(name).text().map(|text| text.replace("$$", "$"));
    let regex = unescaped("regex")?.replace("\\\\", "\\");
    let to = unescaped("replacement")?;
    let behind_groups = to.split('$').skip(1).filter(|rest| !rest.starts_with('{'));
    let is_name = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_digit()) || rest.chars().nth(1).is_some_and(is_of_name);
    let to_groups = groups(&to);
    if behind_groups.into_iter().any(is_name) || to_groups.contains(['{', '}']) || regex.contains("(?P<") || regex.contains("(?<")
    {
        return None;
    }
    let regex = match regex.strip_prefix('^') {
        Some(_) => regex,
        None if regex.starts_with("http") || regex.starts_with(".*") || regex.starts_with("(http") => format!("^{regex}"),
        None => return None,
    };
    let count = expression(&regex).build().ok()?.captures_len();
    let ends = [".*", ".+", "(.*)", "(.+)", "$"].iter().any(|end| regex.ends_with(end)) && !regex.ends_with("\\$");
    let (regex, to) = if ends { (regex, to_groups) } else { (format!("{regex}(.*)$"), format!("{to_groups}${count}")) };
    expression(&regex).build().ok()?;
    origin.carry_all(redirect.statements());
    let said = redirect.get("permanent");
    origin.differ(if said.is_nothing() { redirect.get("regex").start() } else { said.start() }, METHODS);
    let (scheme, own) = if door.is_tls { ("https", 443) } else { ("http", 80) };
    let port = if door.port == own { String::new() } else { format!(":{}", door.port) };
    let (key, status) = (format!("{scheme}://{{host}}{port}{{uri}}"), status_of(redirect));
    Some(RedirectRow { key, regex, to, status, places: redirect.statements() })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Names that stand for all others.
const ANY_HOSTS: [&str; 3] = ["a.test", "www.some-shop.example.org", "x1"];
const ANY_PATHS: [&str; 6] = ["/", "/x", "/x/y.z", "/a:b/%20", "/~", "/index.php/a-b_c"];

/// By the URL, which has the scheme, the host and, where it is not the usual one, the port in front of the path.
pub fn redirected(redirect: &Tree, door: Door, host: Option<&str>, origin: &mut Origin) -> Redirected {
    let Some(regex) = redirect.get("regex").text().map(|regex| regex.replace("$$", "$").replace("\\\\", "\\")) else {
        return Redirected::Unknown;
    };
    let authorities = |names: &[&str]| -> Vec<String> {
        let (scheme, own) = if door.is_tls { ("https", 443) } else { ("http", 80) };
        let port = if door.port == own { String::new() } else { format!(":{}", door.port) };
        names.iter().map(|name| format!("{scheme}://{name}{port}")).collect()
    };
    let hosts = match host {
        Some(host) if host.contains(['*', '$']) => authorities(&ANY_HOSTS),
        Some(host) => authorities(&[host]),
        None => authorities(&ANY_HOSTS),
    };
    // All of the hosts, none of them, or nothing that is known.
    let taken = |regex: &str, urls: Vec<String>| {
        let regex = expression(regex).build().ok()?;
        let count = urls.iter().filter(|url| regex.is_match(url.as_bytes())).count();
        if count == urls.len() { Some(true) } else { (count == 0).then_some(false) }
    };
    let with_paths: Vec<String> = hosts.iter().flat_map(|url| ANY_PATHS.iter().map(move |path| format!("{url}{path}"))).collect();
    let mut claim = || {
        origin.carry_all(redirect.statements());
        let said = redirect.get("permanent");
        origin.differ(if said.is_nothing() { redirect.get("regex").start() } else { said.start() }, METHODS);
    };
    if let Some(answer) = elsewhere(redirect) {
        return match taken(&regex, with_paths) {
            Some(true) => {
                claim();
                Redirected::All(None, answer)
            }
            Some(false) => {
                claim();
                Redirected::Nobody
            }
            None => Redirected::Unknown,
        };
    }
    let Some(url) = UrlExpression::of(&regex) else { return Redirected::Unknown };
    let Some((step, answer)) = moved(redirect, &url) else { return Redirected::Unknown };
    match taken(&format!("^(?:{})$", url.front.trim_start_matches('^')), hosts) {
        Some(true) => {}
        Some(false) => {
            claim();
            return Redirected::Nobody;
        }
        None => return Redirected::Unknown,
    }
    claim();
    let path = format!("^{}", url.path);
    match taken(&path, ANY_PATHS.map(str::to_owned).to_vec()) {
        Some(true) => Redirected::All(Some(step), answer),
        Some(false) | None => Redirected::Of(path, Some(step), answer),
    }
}
