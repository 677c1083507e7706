//! What a block of nginx answers: servers that it hands on to, scripts, files, or nothing that is spoken here.

use super::draft::{AnswerKind, Draft, Family, Step};
use super::expressions::with_groups;
use super::files::{Beside, Run};
use super::locations::Modifier;
use super::request_uris::{ASKED, short};
use super::routes::{Coming, Place, ServerScope, location_expression};
use super::scope::Levels;
use super::tables::{Tables, shares};
use super::upstreams::{claim_health, claim_retries, over_tls};
use super::variables::{Moment, Values};
use super::{BY_VARIABLE, NginxReader};
use crate::accounts::Origin;
use crate::braces::{Statement, named};
use crate::outline::{AnswerLine, OutlinedAnswer, ServerGroup, upstream};
use crate::sent_paths::sent;
use std::collections::BTreeSet;
use tidegate_kdl::quoted;
use tidegate_model::{AnswerRewrite, expression};

const ALL_BESIDE: Beside = Beside { files: true, folders: true };
const DOUBLE: &str =
    "nginx sends two slashes there, since the path of `proxy_pass` ends with one and that of its location does not";
const WITHOUT_SLASH: &str = "the path of the location itself goes to the server with a slash at its end here, and `GET` is sent to that \
                             first: a page there could not name what lies beside it";
const NO_SCRIPTS_RUN: &str = "nothing runs the scripts of this location in what was read, and as files their source would be sent: \
                              `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\"` runs them";
const ONLY_FILES: &str = "nginx hands on only what its `try_files` finds a file for, which nothing here asks beside `proxy`: take `try_files` away \
                          where all is meant";
const REPLACED: &str = "a variable in `proxy_pass` has its path replace what a `rewrite` has made";
const TRANSLATED: &str = "what is translated follows from the steps, and not from this line";
const OTHERS_SHARED: &str = "each client has a share here as well, and not the same one as there";

impl<'s> NginxReader<'s> {
    /// What answers in a block, without its `rewrite` and `if`.
    pub(super) fn content(
        &self,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        let drafts = self.content_of_block(scope, levels, place, coming)?;
        Self::without_kept_scripts(drafts, scope, levels, place, coming)
    }

    fn content_of_block(
        &self,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        self.count_block(coming)?;
        if is_shut(levels) {
            let mut draft = Draft::of(AnswerKind::Files, OutlinedAnswer::status(403));
            self.say_more(&mut draft, scope, levels);
            draft.origin.carry_all(named(levels.inner(), "deny").map(Statement::start));
            return Ok(vec![draft]);
        }
        for statement in levels.answering() {
            match statement.name() {
                "proxy_pass" | "grpc_pass" if named(levels.inner(), "try_files").next().is_some() => {
                    return Err(ONLY_FILES.to_owned());
                }
                "proxy_pass" | "grpc_pass" => {
                    return self.handed_on(statement, scope, levels, place, coming).map(|draft| vec![draft]);
                }
                "fastcgi_pass" => {
                    return self.scripts(statement, scope, (levels, place), Run::default()).map(|draft| vec![draft]);
                }
                "stub_status" => {
                    return Err(
                        "its counts are in `/metrics` of `admin`, as in `admin \"127.0.0.1:9180\" serve=\"metrics\"`".into()
                    );
                }
                name if name.ends_with("_pass") => return Err(format!("`{name}` speaks what is not spoken here")),
                name if name.starts_with("content_by_lua") || name == "js_content" || name == "perl" => {
                    return Err("a program answers there, and none of an imported file is run".into());
                }
                "empty_gif" | "dav_methods" | "image_filter" | "api" | "status" | "vhost_traffic_status_display" | "hls" => {
                    return Err(format!("`{}` answers there, and nothing here does that", statement.name()));
                }
                _ => {}
            }
        }
        if is_of_scripts(place) && levels.inner().iter().any(|own| own.name() == "include") {
            return Err(NO_SCRIPTS_RUN.to_owned());
        }
        // Blocks of `if` do not inherit it.
        if let Some(tries) = named(levels.inner(), "try_files").next() {
            return self.tries(tries, scope, levels, place, coming);
        }
        if let Some(drafts) = self.behind_missing(scope, levels, place, coming) {
            return drafts;
        }
        if let Some(drafts) = self.missing_of_server(scope, levels, place, coming) {
            return Ok(drafts);
        }
        if let Some(draft) = self.scripts_of_folder(scope, levels, place, true).filter(|_| !place.path.contains('.')) {
            return Ok(vec![draft]);
        }
        if is_of_scripts(place) {
            return Err(NO_SCRIPTS_RUN.to_owned());
        }
        let tried = super::files::Tried { paths: &[], goes_on: false, fallback: None };
        self.files(scope, levels, place, coming, &tried).map(|draft| vec![draft])
    }

    /// Files with `error_page 404 = @app`, which is another way to say `try_files $uri @app`.
    fn behind_missing(
        &self,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Option<Result<Vec<Draft>, String>> {
        let pages = levels.nearest(&["error_page"]);
        let page = pages.into_iter().find(|page| page.arguments().iter().any(|word| word == "404"))?;
        let target = page.arguments().last()?;
        let is_app = |location: &super::locations::Location<'s>| {
            location.statement.inside().iter().any(|inner| inner.name().ends_with("_pass") || inner.name() == "rewrite")
        };
        let is_named = scope.locations.iter().any(|own| own.modifier == Modifier::Named && own.path == target && is_app(own));
        let is_script = target.starts_with('/') && target.split('?').next().is_some_and(is_script);
        if coming.is_within || !(is_named || is_script) {
            return None;
        }
        if let Some(mut draft) =
            is_script.then(|| self.scripts_behind(scope, (levels, place), target.split('?').next()?, ALL_BESIDE)).flatten()
        {
            draft.origin.carry(page.start());
            return Some(Ok(vec![draft]));
        }
        let tried = super::files::Tried { paths: &["{path}", "{path}/"], goes_on: true, fallback: None };
        let files = self.files(scope, levels, place, coming, &tried);
        Some(files.and_then(|mut files| {
            files.origin.carry(page.start());
            let mut drafts = vec![files];
            let coming = Coming { depth: coming.depth + 1, is_within: true, ..coming.clone() };
            if is_named {
                let location = scope.locations.iter().find(|own| own.path == target);
                let location = location.ok_or_else(|| format!("`{target}` is no location"))?;
                drafts.extend(self.guarded_as(levels, scope, self.of_location(scope, location, &coming)?)?);
            } else {
                let change = Step::of(Family::Path, format!("rewrite {}", quoted(target)));
                let behind = self.sent_within(target, None, scope, &coming, change)?;
                drafts.extend(self.guarded_as(levels, scope, behind)?);
            }
            // Other methods are none for files there, missing or not.
            if !page.arguments().iter().any(|word| word == "405") {
                for draft in &mut drafts[1..] {
                    draft.conditions.insert(0, "method=\"GET,HEAD\"".to_owned());
                }
                let mut refused = Draft::of(AnswerKind::Files, OutlinedAnswer::status(405));
                self.say_more(&mut refused, scope, levels);
                drafts.push(refused);
            }
            Ok(drafts)
        }))
    }

    /// What the block hands requests on to, and the name that the server is called by there.
    pub(super) fn pass_of(&self, scope: &ServerScope<'s>, levels: &Levels<'s>) -> Option<(&'s Statement, Option<String>)> {
        let pass = levels.answering().find(|own| matches!(own.name(), "proxy_pass" | "grpc_pass"))?;
        let target = scope.values(levels).filled(pass.argument(), &mut Vec::new());
        let rest = target.split_once("://").map_or(target.as_str(), |(_, rest)| rest);
        let authority = rest.split(['/', '$']).next().unwrap_or_default();
        let is_group = self.groups.iter().any(|group| group.name == authority);
        Some((pass, (!is_group && !authority.is_empty()).then(|| authority.to_owned())))
    }

    fn handed_on(
        &self,
        pass: &'s Statement,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Draft, String> {
        let values = scope.values(levels);
        let mut origin = Origin::default();
        let mut used = Vec::new();
        let target = values.filled(pass.argument(), &mut used);
        origin.carry(pass.start());
        origin.carry_all(used);
        let (scheme, rest) = target.split_once("://").unwrap_or(("http", &target));
        let is_socket = rest.starts_with("unix:");
        let end = if is_socket {
            rest[5..].find(':').map_or(rest.len(), |colon| colon + 5)
        } else {
            let slash = rest.find('/').unwrap_or(rest.len());
            let path = ["${request_uri}", "${uri}"].iter().filter_map(|word| rest.find(word)).min().unwrap_or(rest.len());
            slash.min(path)
        };
        let (authority, uri) = rest.split_at(end);
        let uri = if is_socket { uri.trim_start_matches(':') } else { uri };
        let (mut answer, mut steps, mut options) = (Vec::new(), Vec::new(), String::new());
        let is_replaced = pass.argument().contains('$') && !uri.is_empty() && !uri.contains("${");
        if is_replaced && coming.changed() {
            return Err(REPLACED.to_owned());
        }
        if coming.changed() && uri.contains("${") {
            // What is written is sent whatever became of the path, and the query is its own.
            let path =
                values.template(uri, Moment::Request, &self.tables, &mut Vec::new()).ok_or_else(|| BY_VARIABLE.to_owned())?;
            let query = if uri.contains('?') || path.ends_with(ASKED) || path.ends_with("{uri}") { "" } else { "?" };
            if path != "{uri}" {
                answer.push(AnswerLine::Text(format!("rewrite {}", quoted(&(path + query)))));
            }
        }
        if !uri.is_empty() && !coming.changed() {
            let path = self.path_of(uri, pass, place, &values, &mut origin)?;
            answer.extend(path.lines.into_iter().map(AnswerLine::Text));
            steps.extend(path.steps);
            if path.is_mounted {
                options.push_str(translated(levels, &mut origin));
            }
        }
        steps.extend(rules_of_answers(levels, &values, &mut origin));
        claim_translations(levels, options.contains("rewrite-location"), &mut origin);
        let of_group = |group: &ServerGroup| Self::prepared(group, scheme, pass, levels);
        if let Some(variable) = authority.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
            answer.push(self.by_table(variable, pass, &of_group, &mut origin)?);
        } else {
            let (mut group, said) = of_group(&self.group_at(scheme, authority)?);
            origin.add(&said);
            // What is sent again is said for the requests of a route, with one pool for all.
            let (inside, lines) = std::mem::take(&mut group.lines).into_iter().partition(|line| line.starts_with("retry"));
            group.lines = lines;
            answer.push(AnswerLine::Servers { word: "proxy", group, options, inside });
        }
        let mut draft = Draft::of(AnswerKind::Proxy, OutlinedAnswer::Lines(answer));
        draft.steps = steps;
        draft.origin = origin;
        self.say_more(&mut draft, scope, levels);
        Ok(draft)
    }

    /// Servers by the name of their group, or the one that an address names.
    fn group_at(&self, scheme: &str, authority: &str) -> Result<ServerGroup, String> {
        if authority.contains('$') {
            return Err(BY_VARIABLE.to_owned());
        }
        match self.groups.iter().find(|group| group.name == authority) {
            Some(group) if group.is_empty() => Err(format!("`{authority}` has no server")),
            Some(group) => Ok(group.clone()),
            None => {
                let address =
                    format!("{scheme}://{authority}").replace("http://unix:", "unix:").replace("https://unix:", "unix:");
                Ok(ServerGroup::of(upstream(&address).ok_or_else(|| no_address(authority))?))
            }
        }
    }

    /// The servers, with what the block says of them.
    fn prepared(group: &ServerGroup, scheme: &str, pass: &Statement, levels: &Levels<'s>) -> (ServerGroup, Origin) {
        let mut group = group.clone();
        let mut origin = Origin::default();
        let is_tls = matches!(scheme, "https" | "grpcs");
        if is_tls {
            group = group.over_tls();
            over_tls(pass, levels.all(), &mut group);
        }
        if pass.name() == "grpc_pass" || levels.value("proxy_http_version") == Some("2") {
            group.add_line(if is_tls { "protocol \"h2\"" } else { "protocol \"h2c\"" });
        }
        claim_retries(levels, &mut group, &mut origin);
        claim_health(levels, &mut group, &mut origin);
        (group, origin)
    }

    /// Servers that a `map` or `split_clients` names.
    fn by_table(
        &self,
        variable: &str,
        pass: &Statement,
        of_group: &dyn Fn(&ServerGroup) -> (ServerGroup, Origin),
        origin: &mut Origin,
    ) -> Result<AnswerLine, String> {
        let table = self.tables.get(variable).ok_or_else(|| BY_VARIABLE.to_owned())?;
        let group = |name: &str| {
            let name = name.split_once("://").map_or(name, |(_, rest)| rest).trim_end_matches('/');
            let known = self.groups.iter().find(|group| group.name == name && !group.is_empty()).cloned();
            known.or_else(|| upstream(name).map(|address| ServerGroup::named(name).with_server(address)))
        };
        let mut inside = Vec::new();
        if let Some(shares) = shares(table).filter(|_| table.statement.name() == "split_clients") {
            let key = super::variables::Values::default().template(&table.key, Moment::Request, &self.tables, &mut Vec::new());
            let key = key.ok_or_else(|| BY_VARIABLE.to_owned())?;
            for (share, name) in shares {
                let (group, said) = of_group(&group(name).ok_or_else(|| format!("`{name}` is no group of servers"))?);
                origin.add(&said);
                inside.push(AnswerLine::Servers {
                    word: "proxy",
                    group,
                    options: format!(" weight={share}"),
                    inside: Vec::new(),
                });
            }
            origin.differ(table.statement.start(), OTHERS_SHARED);
            return Ok(AnswerLine::Block { text: format!("split by={}", quoted(&key)), inside });
        }
        let rows = table.statement.inside().iter().filter(|row| row.words.len() == 2);
        let default = table.statement.inside().iter().find(|row| row.name() == "default").map(|row| row.argument().to_owned());
        let mut known: Vec<String> = Vec::new();
        for name in rows.map(|row| row.argument().to_owned()) {
            if known.contains(&name) {
                continue;
            }
            // The value has to be the name of a pool.
            if !self.groups.iter().any(|group| group.name == name) {
                return Err(format!("`{name}` in its map is no `upstream`, whose name is that of a pool"));
            }
            let (mut group, said) = of_group(&group(&name).ok_or_else(|| format!("`{name}` has no server"))?);
            // The map has the name of a pool, which servers in place have not.
            group.is_apart = true;
            origin.add(&said);
            let weight = u8::from(Some(&name) == default.as_ref());
            inside.push(AnswerLine::Servers { word: "proxy", group, options: format!(" weight={weight}"), inside: Vec::new() });
            known.push(name);
        }
        if default.is_none() {
            return Err("its map has no `default`, so what it has no row for would be handed on to nobody".to_owned());
        }
        let name = self.tables.map_name(variable).ok_or_else(|| BY_VARIABLE.to_owned())?;
        origin.carry(pass.start());
        Ok(AnswerLine::Block { text: format!("split to=\"{{map.{name}}}\""), inside })
    }

    /// What becomes of the path, where `proxy_pass` has one.
    fn path_of(
        &self,
        uri: &str,
        pass: &Statement,
        place: Place<'_>,
        values: &super::variables::Values<'s>,
        origin: &mut Origin,
    ) -> Result<ChangedPath, String> {
        let bare = uri.trim_end_matches("${is_args}${args}").trim_end_matches("${is_args}${query_string}");
        if bare == "${request_uri}" || bare == "${uri}" && bare != uri {
            return Ok(ChangedPath::default());
        }
        if uri.contains("${") || pass.argument().contains('$') {
            // What is written is all that is sent, with no query but its own.
            let query = if bare == uri && !uri.contains(['?']) && !uri.contains("${request_uri}") { "?" } else { "" };
            let written = match location_expression(place) {
                Some(expression) => {
                    let grouped = with_groups(values, &expression);
                    let path = grouped.template(bare, Moment::Request, &self.tables, &mut Vec::new());
                    path.map(|path| format!("rewrite {} {}", quoted(&format!("~{}", sent(&expression))), quoted(&(path + query))))
                }
                None => values
                    .template(bare, Moment::Request, &self.tables, &mut Vec::new())
                    .map(|path| format!("rewrite {}", quoted(&(short(&path).replace("{uri}", "{path}") + query)))),
            };
            let line = written.ok_or_else(|| BY_VARIABLE.to_owned())?;
            return Ok(ChangedPath { steps: vec![Step::of(Family::Path, line)], ..ChangedPath::default() });
        }
        let path = uri.split('?').next().unwrap_or_default();
        match place.modifier {
            Modifier::Exact => Ok(ChangedPath {
                steps: if path == place.path {
                    Vec::new()
                } else {
                    vec![Step::of(Family::Path, format!("rewrite {}", quoted(path)))]
                },
                ..ChangedPath::default()
            }),
            Modifier::Sensitive | Modifier::Insensitive | Modifier::Named => {
                Err("nginx takes no path in `proxy_pass` there".to_owned())
            }
            Modifier::Before | Modifier::Prefix => {
                let (own, theirs) = (place.path.ends_with('/'), path.ends_with('/'));
                if own && !theirs {
                    let from = format!("~^{}(.*)$", regex_syntax::escape(place.path));
                    let line = format!("rewrite {} {}", quoted(&from), quoted(&format!("{path}$1")));
                    return Ok(ChangedPath { steps: vec![Step::of(Family::Path, line)], ..ChangedPath::default() });
                }
                if !own && theirs {
                    origin.differ(pass.start(), DOUBLE);
                }
                let (strip, add) = (place.path.trim_end_matches('/'), path.trim_end_matches('/'));
                if strip == add {
                    return Ok(ChangedPath::default());
                }
                if !own && !theirs {
                    origin.differ(pass.start(), WITHOUT_SLASH);
                }
                let mut lines = Vec::new();
                if !strip.is_empty() {
                    lines.push(format!("strip-prefix {}", quoted(strip)));
                }
                if !add.is_empty() {
                    lines.push(format!("add-prefix {}", quoted(add)));
                }
                Ok(ChangedPath { lines, steps: Vec::new(), is_mounted: true })
            }
        }
    }
}

/// Steps that make the path of a server.
#[derive(Default)]
struct ChangedPath {
    /// Directly in front of what answers.
    lines: Vec<String>,
    steps: Vec<Step>,
    /// Whether the application lies beneath another prefix than it knows of.
    is_mounted: bool,
}

/// Whether a path is that of a script, as its location tells.
pub fn is_script(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| extension == "php")
}

/// The script that a block leads to by a `rewrite`, such as `if (!-e …) { rewrite ^ /index.php last; }`.
pub fn script_rewritten_to(block: &Statement) -> Option<&str> {
    let to = named(block.inside(), "rewrite").find_map(|own| own.arguments().get(1))?;
    to.split(['?', '$']).next().filter(|path| is_script(path))
}

/// Whether a location is for scripts alone.
pub fn is_of_scripts(place: Place<'_>) -> bool {
    let is_expression = matches!(place.modifier, Modifier::Sensitive | Modifier::Insensitive);
    is_script(place.path) || is_expression && [".php", ".phtml"].iter().any(|end| place.path.contains(end))
}

pub fn is_shut(levels: &Levels<'_>) -> bool {
    let inside = levels.inner();
    let is_any = levels.value("satisfy") == Some("any");
    named(inside, "deny").any(|deny| deny.argument() == "all")
        && !is_any
        && !inside.iter().any(|own| own.name() == "allow")
        && !inside.iter().any(|own| own.name() == "internal")
}

/// Whether what an application says of its own address is translated, as it is there unless it is switched off.
fn translated(levels: &Levels<'_>, origin: &mut Origin) -> &'static str {
    let redirect = levels.one("proxy_redirect");
    match redirect {
        Some(own) if own.argument() == "off" => {
            origin.carry(own.start());
            if levels.one("proxy_cookie_path").is_none_or(|cookies| cookies.argument() == "off") {
                return "";
            }
        }
        _ => {}
    }
    " rewrite-location=#true"
}

/// What is said of `Location` and of cookies line by line.
fn rules_of_answers(levels: &Levels<'_>, values: &Values<'_>, origin: &mut Origin) -> Vec<Step> {
    const KINDS: [(&str, &str); 3] = [
        ("proxy_redirect", "rewrite-location"),
        ("proxy_cookie_path", "rewrite-cookie-path"),
        ("proxy_cookie_domain", "rewrite-cookie-domain"),
    ];
    let (mut rules, mut seen) = (Vec::new(), BTreeSet::new());
    for (word, ours) in KINDS {
        for line in levels.nearest(&[word]) {
            if let [from, to] = line.arguments()
                && let Some((from, to)) = rule_of_answers(ours, from, to, values)
                && seen.insert((ours, from.clone()))
                && seen.len() <= AnswerRewrite::RULES_MAX
            {
                rules.push(Step::of(Family::SentFile, format!("{ours} {} {}", quoted(&from), quoted(&to))));
                origin.carry(line.start());
            }
        }
    }
    rules
}

/// Both texts in our words. `None`: something in them has none.
fn rule_of_answers(ours: &str, from: &str, to: &str, values: &Values<'_>) -> Option<(String, String)> {
    let (from, has_groups) = match from.strip_prefix("~*") {
        Some(expression) => (format!("~(?i){expression}"), true),
        None => (from.to_owned(), from.starts_with('~')),
    };
    let is_known = |name: &str| matches!(name, "host" | "server_name" | "scheme");
    let names: Vec<&str> = to.split('$').skip(1).map(|rest| rest.trim_start_matches('{')).map(name_of).collect();
    let is_of_cookie = ours != "rewrite-location";
    let groups = if has_groups { expression(from.strip_prefix('~').unwrap_or(&from)).build().ok()?.captures_len() } else { 0 };
    let is_group = |name: &&str| name.parse::<usize>().is_ok_and(|number| number < groups);
    // What else would be refused where it is read.
    let has_own = !has_groups && (from.is_empty() || from.contains(['$', '{', ' ', ';']));
    let begins_with_group = to.strip_prefix('$').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_path = from.starts_with(['/', '~']) && (to.starts_with('/') || begins_with_group);
    let begins_wrong = ours == "rewrite-cookie-path" && !is_path;
    let is_no_domain = ours == "rewrite-cookie-domain" && (to.is_empty() || (!has_groups && from.contains('/')));
    let ends_attribute = is_of_cookie && to.contains(';');
    if has_own || begins_wrong || is_no_domain || ends_attribute || !names.iter().all(|name| is_known(name) || is_group(name)) {
        return None;
    }
    let made = if names.iter().any(|name| name.parse::<usize>().is_ok()) {
        if to.contains(['{', '}']) {
            return None;
        }
        to.replace("$host", "{host}").replace("$server_name", "{host}").replace("$scheme", "{scheme}")
    } else {
        values.template(to, Moment::Request, &Tables::default(), &mut Vec::new())?
    };
    (!(from.clone() + &made).contains(char::is_control)).then_some((from, made))
}

fn name_of(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())]
}

fn claim_translations(levels: &Levels<'_>, is_translated: bool, origin: &mut Origin) {
    let all = levels.nearest(&["proxy_redirect"]).into_iter().chain(levels.nearest(&["proxy_cookie_path"]));
    for own in all {
        if origin.carried.contains(&own.start()) {
            continue;
        }
        if matches!(own.argument(), "off" | "default") {
            origin.carry(own.start());
        } else if is_translated {
            origin.differ(own.start(), TRANSLATED);
        }
    }
}

/// Why a server is none; names and passwords in front of it are nobody's to see.
pub fn no_address(server: &str) -> String {
    if server.contains('@') {
        return "the address of a server has no name and password in front of it".to_owned();
    }
    format!("`{server}` is no address")
}
