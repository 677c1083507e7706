//! What else a block says of requests and answers: bodies, compression, caching, times, logs, copies, files that an
//! application names, and what errors look like.

use super::draft::{AnswerKind, Family, Step};
use super::locations::{Location, Modifier, find};
use super::merging::{KeptSlashes, kept_slashes};
use super::scope::{Levels, bytes, milliseconds, size, time};
use super::tables::Tables;
use super::variables::{Moment, Values};
use super::words;
use crate::accounts::Origin;
use crate::braces::{Statement, named, value};
use crate::outline::{ServerGroup, is_plain, upstream};
use crate::texts::literal;
use std::collections::BTreeSet;
use tidegate_kdl::quoted;

const STALE_FOR_A_DAY: &str = "a stale answer is given for a day at most, of whatever error";
const STALE_FOR_OTHERS: &str = "a stale answer is given for a day at most, of whatever error, and to nobody while one asks for a new one: \
                                all wait for that. `stale-while-revalidate=` gives it to everybody, the first among them";
pub const OTHER_FOLDER: &str = "what is kept has another form, so the folder is another one than nginx's";
const FIELDS_STAY: &str =
    "the page takes the place of the body alone: the other fields of the server's answer go on, and nginx drops them";
const OWN_FIELDS: &str = "a file that an application sends has the fields of the application's answer, and not these";

const KEPT_FILES: &str = "who may have files of it is asked there again, which `send-file` does not do: none of its files is sent, and the \
                          field that names them is taken out of answers";

const MERGED_BY_DEFAULT: &str = "nginx reads a path before the host, so the default server of the address decides, and that one takes \
                                 several slashes for one";
const MERGED_SOMEWHERE: &str = "over plain HTTP the default server of an address decides, and one of them takes several slashes for \
                                one: paths with several are refused here";

/// What such lines are read with.
pub struct Settings<'r, 's> {
    pub tables: &'r Tables<'s>,
    pub groups: &'r [ServerGroup],
    pub locations: &'r [Location<'s>],
    pub server: &'s [Statement],
    pub http: &'s [Statement],
    pub levels: &'r Levels<'s>,
    pub values: &'r Values<'s>,
    /// Zones of `proxy_cache_path`.
    pub caches: &'r [CacheZone<'s>],
    /// Addresses that have several slashes taken for one.
    pub merging: &'r BTreeSet<String>,
}

/// A folder of kept answers.
#[derive(Debug)]
pub struct CacheZone<'s> {
    pub name: &'s str,
    pub statement: &'s Statement,
}

/// `/var/cache/nginx keys_zone=pages:10m max_size=1g inactive=60m`
pub fn cache_zone(statement: &Statement) -> Option<CacheZone<'_>> {
    let zone = statement.arguments().iter().find_map(|word| word.strip_prefix("keys_zone="))?;
    Some(CacheZone { name: zone.split(':').next()?, statement })
}

/// The line for where answers are kept, of the first folder.
pub fn cache_line(zone: &CacheZone<'_>) -> String {
    let behind = |name: &str| zone.statement.arguments().iter().find_map(|word| word.strip_prefix(name));
    let mut line = format!("cache disk={}", quoted(&folder_of_cache(zone)));
    if let Some(most) = behind("max_size=").and_then(size) {
        line.push_str(&format!(" disk-size={}", quoted(&most)));
    }
    line
}

/// Beside that of nginx, which may go on running with its own.
fn folder_of_cache(zone: &CacheZone<'_>) -> String {
    format!("{}-tidegate", zone.statement.argument().trim_end_matches('/'))
}

impl Settings<'_, '_> {
    pub fn steps(&self, kind: AnswerKind, origin: &mut Origin) -> Vec<Step> {
        let mut steps = Vec::new();
        steps.extend(self.body(kind, origin));
        steps.extend(self.path_policy(origin));
        steps.extend(self.compression(origin));
        if matches!(kind, AnswerKind::Proxy | AnswerKind::Scripts) {
            steps.extend(self.cache(kind, origin));
            steps.extend(self.timeouts(kind, origin));
        }
        if kind == AnswerKind::Proxy {
            steps.extend(self.mirror(origin));
        }
        if matches!(kind, AnswerKind::Proxy | AnswerKind::Scripts) {
            steps.extend(self.sent_files(origin));
        }
        steps.extend(self.error_pages(kind, origin));
        steps.extend(self.log(origin));
        steps
    }

    fn body(&self, kind: AnswerKind, origin: &mut Origin) -> Option<Step> {
        let most = self.levels.one("client_max_body_size")?;
        let written = most.argument();
        origin.carry(most.start());
        if bytes(written) == Some(0) {
            // Without a line there is no bound, but for scripts, and where the site has one.
            let is_of_all = [self.server, self.http].iter().any(|block| block.iter().any(|own| own.start() == most.start()));
            let is_bare = is_of_all && kind != AnswerKind::Scripts;
            return (!is_bare).then(|| Step::of(Family::Body, "body-limit \"1024TiB\""));
        }
        match size(written) {
            Some(most) => Some(Step::of(Family::Body, format!("body-limit {}", quoted(&most)))),
            None => {
                origin.carried.remove(&most.start());
                None
            }
        }
    }

    fn path_policy(&self, origin: &mut Origin) -> Option<Step> {
        let merge = self.levels.one("merge_slashes").filter(|merge| merge.argument() == "off")?;
        let slashes = match kept_slashes(self.server, self.merging) {
            KeptSlashes::Everywhere => "keep",
            KeptSlashes::Nowhere => {
                origin.differ(merge.start(), MERGED_BY_DEFAULT);
                return None;
            }
            KeptSlashes::Somewhere => {
                origin.differ(merge.start(), MERGED_SOMEWHERE);
                "refuse"
            }
        };
        origin.carry(merge.start());
        Some(Step::of(Family::PathPolicy, format!("path-policy slashes={}", quoted(slashes))))
    }

    fn compression(&self, origin: &mut Origin) -> Option<Step> {
        const CODINGS: [(&str, &str, &str, &str, &str); 3] = [
            ("zstd", "zstd", "zstd_types", "zstd_min_length", "zstd_comp_level"),
            ("br", "brotli", "brotli_types", "brotli_min_length", "brotli_comp_level"),
            ("gzip", "gzip", "gzip_types", "gzip_min_length", "gzip_comp_level"),
        ];
        let on: Vec<_> = CODINGS.into_iter().filter(|(_, word, ..)| self.levels.is_on(word)).collect();
        if on.is_empty() {
            return None;
        }
        let mut line = "compress".to_owned();
        let mut types: Vec<String> = vec!["text/html".to_owned()];
        let (mut is_any, mut least, mut level) = (false, None, None);
        for (coding, word, types_word, least_word, level_word) in &on {
            line.push_str(&format!(" {}", quoted(coding)));
            origin.carry_all(self.levels.one(word).map(Statement::start));
            for list in self.levels.nearest(&[types_word]) {
                origin.carry(list.start());
                for own in list.arguments() {
                    is_any |= own == "*";
                    if !types.contains(own) {
                        types.push(own.clone());
                    }
                }
            }
            if let Some(own) = self.levels.one(least_word) {
                origin.carry(own.start());
                least = size(own.argument());
            }
            if let Some(own) = self.levels.one(level_word) {
                level = own.argument().parse::<u8>().ok().filter(|level| (1..=9).contains(level));
                if on.len() == 1 && level.is_some() {
                    origin.carry(own.start());
                } else {
                    origin.differ(own.start(), "how hard to try goes by how busy the thread is: `level=` is one for all codings");
                }
            }
        }
        if let Some(level) = level.filter(|_| on.len() == 1) {
            line.push_str(&format!(" level={level}"));
        }
        if let Some(least) = least {
            line.push_str(&format!(" min-size={}", quoted(&least)));
        }
        if !is_any {
            line.push_str(&format!(" types={}", quoted(&types.join(","))));
        }
        Some(Step::of(Family::Compression, line))
    }

    fn cache(&self, kind: AnswerKind, origin: &mut Origin) -> Option<Step> {
        let word = if kind == AnswerKind::Scripts { "fastcgi_cache" } else { "proxy_cache" };
        let cache = self.levels.one(word).filter(|cache| cache.argument() != "off" && !cache.argument().contains('$'))?;
        let own = |suffix: &str| format!("{word}_{suffix}");
        // What must not be kept for others has to be said before anything is kept.
        let no = if kind == AnswerKind::Scripts { "fastcgi_no_cache" } else { "proxy_no_cache" };
        let is_skipped = self.levels.nearest(&[&own("bypass")]).into_iter().chain(self.levels.nearest(&[no]));
        let is_harmless = |skip: &Statement| {
            skip.arguments().iter().all(|word| matches!(word.as_str(), "$http_upgrade" | "$http_pragma" | "$http_authorization"))
        };
        let is_default_key = self.levels.value(&own("key")).is_none_or(|key| {
            let known =
                ["$scheme", "$proxy_host", "$host", "$http_host", "$request_uri", "$request_method", "$uri", "$is_args", "$args"];
            let rest = known.iter().fold(key.to_owned(), |rest, word| rest.replace(word, ""));
            !rest.contains('$')
        });
        let skips: Vec<&Statement> = is_skipped.collect();
        if !skips.iter().all(|skip| is_harmless(skip)) || !is_default_key {
            return None;
        }
        origin.carry_all(skips.iter().map(|skip| skip.start()));
        let mut line = "cache".to_owned();
        for valid in self.levels.nearest(&[&own("valid")]) {
            let [statuses @ .., lasts] = valid.arguments() else { continue };
            let Some(lasts) = time(lasts) else { continue };
            let usual = ["200".to_owned(), "301".to_owned(), "302".to_owned()];
            let statuses = if statuses.is_empty() { &usual[..] } else { statuses };
            let known: Vec<&String> = statuses.iter().filter(|status| status.parse::<u16>().is_ok()).collect();
            for status in &known {
                line.push_str(&format!(" fresh={}", quoted(&format!("{status} {lasts}"))));
            }
            if known.len() == statuses.len() {
                origin.carry(valid.start());
            } else {
                origin.differ(
                    valid.start(),
                    "`any` is every status that is written: those that are not are kept as they say themselves",
                );
            }
        }
        if let Some(stale) = self.levels.one(&own("use_stale")).filter(|stale| stale.argument() != "off") {
            line.push_str(" stale-if-error=\"24h\"");
            let is_updating = stale.arguments().iter().any(|word| word == "updating");
            let behind = self.levels.one(&own("background_update"));
            let is_behind = behind.is_some_and(|behind| behind.argument() == "on");
            if is_updating && is_behind {
                line.push_str(" stale-while-revalidate=\"1h\"");
                origin.carry_all(behind.map(Statement::start));
            }
            origin.differ(stale.start(), if is_updating && !is_behind { STALE_FOR_OTHERS } else { STALE_FOR_A_DAY });
        }
        let key = self.levels.one(&own("key"));
        let zone = self.caches.iter().find(|zone| zone.name == cache.argument());
        origin.carry_all([Some(cache), key].into_iter().flatten().map(Statement::start));
        if let Some(zone) = zone {
            match self.caches.first() {
                Some(first) if std::ptr::eq(first, zone) => origin.differ(zone.statement.start(), OTHER_FOLDER),
                _ => origin.differ(zone.statement.start(), "one folder keeps the answers of all routes"),
            }
        }
        let rest = ["lock", "lock_timeout", "lock_age", "revalidate", "methods", "min_uses"];
        for word in rest {
            origin.carry_all(self.levels.one(&own(word)).map(Statement::start));
        }
        Some(Step::of(Family::Cache, line))
    }

    fn timeouts(&self, kind: AnswerKind, origin: &mut Origin) -> Option<Step> {
        let word = if kind == AnswerKind::Scripts { "fastcgi" } else { "proxy" };
        let of = |what: &str| {
            let own = self.levels.one(&format!("{word}_{what}_timeout"));
            own.or_else(|| if kind == AnswerKind::Proxy { self.levels.one(&format!("grpc_{what}_timeout")) } else { None })
        };
        let mut line = String::new();
        let mut add = |name: &str, from: Option<&Statement>, most: u64, origin: &mut Origin| {
            let Some(from) = from else { return };
            let Some(written) = milliseconds(from.argument()).filter(|ms| *ms > 0) else { return };
            let Some(lasts) = time(&format!("{}ms", written.min(most))) else { return };
            line.push_str(&format!(" {name}={}", quoted(&lasts)));
            if written <= most {
                origin.carry(from.start());
            } else {
                origin.differ(from.start(), format!("it is {lasts} at most"));
            }
        };
        add("connect", of("connect"), 300_000, origin);
        add("first-byte", of("read"), 86_400_000, origin);
        add("idle", of("read"), 86_400_000, origin);
        if let Some(send) = of("send") {
            match of("read").and_then(|read| milliseconds(read.argument())) {
                Some(read) if milliseconds(send.argument()) == Some(read) => origin.carry(send.start()),
                _ => {
                    origin
                        .differ(send.start(), "silence in both directions is `idle=` of `timeout`, as `…_read_timeout` says it");
                }
            }
        }
        (!line.is_empty()).then(|| Step::of(Family::Timeout, format!("timeout{line}")))
    }

    /// `mirror /copy`, with the location that sends it.
    fn mirror(&self, origin: &mut Origin) -> Option<Step> {
        let mirror = self.levels.one("mirror").filter(|mirror| mirror.argument() != "off")?;
        let location = &self.locations[find(self.locations, mirror.argument())?];
        let pass = named(location.statement.inside(), "proxy_pass").next()?;
        let target = self.values.filled(pass.argument(), &mut Vec::new());
        let (scheme, rest) = target.split_once("://")?;
        let authority = rest.split(['/', '$']).next()?;
        let group = self.groups.iter().find(|group| group.name == authority);
        let addresses: Vec<String> = match group {
            Some(group) => group.servers.iter().map(|server| quoted(&server.address)).collect(),
            None => vec![quoted(&upstream(&format!("{scheme}://{authority}"))?)],
        };
        origin.carry(mirror.start());
        origin.carry_all(words::places([location.statement]));
        origin.carry_all(self.levels.one("mirror_request_body").map(Statement::start));
        Some(Step::of(Family::Mirror, format!("mirror {}", addresses.join(" "))))
    }

    /// Locations that only an application sends files of.
    fn sent_files(&self, origin: &mut Origin) -> Vec<Step> {
        let mut steps = Vec::new();
        for location in self.locations {
            let inside = location.statement.inside();
            let is_folder = location.is_prefix() && named(inside, "internal").next().is_some();
            let alias = value(inside, "alias").filter(|alias| alias.starts_with('/') && !alias.contains('$'));
            let root = value(inside, "root").filter(|root| root.starts_with('/') && !root.contains('$'));
            let is_handed_on = ["proxy_pass", "fastcgi_pass"].iter().any(|word| value(inside, word).is_some());
            if !is_folder || is_handed_on || location.path == "/" {
                continue;
            }
            let is_field = |own: &&Statement| matches!(own.name(), "add_header" | "expires" | "more_set_headers");
            let fields: Vec<&Statement> = inside.iter().filter(is_field).collect();
            // A browser may run what it was to keep as a file.
            if fields.iter().any(|own| words::says_how_it_is_kept(own)) {
                continue;
            }
            if !self.is_guarded_alike(location) {
                origin.carry_all(words::places([location.statement]));
                origin.differ(location.statement.start(), KEPT_FILES);
                return vec![Step::of(Family::Field, "header remove=\"X-Accel-Redirect\"")];
            }
            let prefix = location.path.trim_end_matches('/');
            let folder = match (alias, root) {
                (Some(alias), _) => alias.trim_end_matches('/').to_owned(),
                (None, Some(root)) => format!("{}{prefix}", root.trim_end_matches('/')),
                (None, None) => continue,
            };
            steps.push(Step::of(Family::SentFile, format!("send-file {} under={}", quoted(&folder), quoted(prefix))));
            origin.carry_all(words::places([location.statement]));
            for own in fields {
                origin.carried.remove(&own.start());
                origin.differ(own.start(), OWN_FIELDS);
            }
        }
        steps.truncate(1);
        steps
    }

    /// Whether nobody is asked for files of an internal location beyond what is asked where the application answers.
    fn is_guarded_alike(&self, location: &Location<'_>) -> bool {
        let guards = |levels: &Levels<'_>| -> Vec<(String, Vec<String>)> {
            let all = ["allow", "auth_basic", "auth_basic_user_file", "auth_request", "auth_jwt", "satisfy"].iter();
            let is_asking = |own: &&Statement| own.argument() != "off";
            let nearest = all
                .flat_map(|name| levels.nearest(if *name == "allow" { &["allow", "deny"] } else { std::slice::from_ref(name) }));
            nearest.into_iter().filter(is_asking).map(|own| (own.name().to_owned(), own.arguments().to_vec())).collect()
        };
        let is_asking = |own: &(String, Vec<String>)| own.0 != "auth_basic_user_file" && own.0 != "satisfy";
        let own = guards(&location.levels(self.server, self.http));
        let is_open = !own.iter().any(is_asking) || own == guards(self.levels);
        let is_rule = |own: &Statement| matches!(own.name(), "if" | "return" | "rewrite");
        let is_kept_within = |other: &Location<'_>| {
            let is_below =
                !other.is_expression() && other.path.len() > location.path.len() && other.path.starts_with(location.path);
            let is_of_dots = other.path.contains("/\\.");
            (is_below || other.may_begin(location.path) && !is_of_dots) && words::protects(other.statement)
        };
        is_open && !location.statement.inside().iter().any(is_rule) && !self.locations.iter().any(is_kept_within)
    }

    fn error_pages(&self, kind: AnswerKind, origin: &mut Origin) -> Vec<Step> {
        let intercept = match kind {
            AnswerKind::Scripts => self.levels.one("fastcgi_intercept_errors"),
            AnswerKind::Proxy => self.levels.one("proxy_intercept_errors").or_else(|| self.levels.one("grpc_intercept_errors")),
            AnswerKind::Local | AnswerKind::Files => None,
        };
        let from = if intercept.is_some_and(|own| own.argument() == "on") { " from=\"all\"" } else { "" };
        let mut steps = Vec::new();
        let pages = self.levels.nearest(&["error_page"]);
        if let Some(own) = intercept.filter(|own| own.argument() == "on" && pages.is_empty()) {
            origin.differ(own.start(), "where no page is written, errors of servers stay as they are");
        }
        for page in pages {
            let Some(line) = self.error_page(page, origin) else { continue };
            steps.push(Step::of(Family::ErrorPage, format!("{line}{from}")));
            if let Some(own) = intercept.filter(|own| own.argument() == "on") {
                origin.differ(own.start(), FIELDS_STAY);
            }
            origin.carry_all(intercept.map(Statement::start));
        }
        steps
    }

    fn error_page(&self, page: &Statement, origin: &mut Origin) -> Option<String> {
        let [statuses @ .., target] = page.arguments() else { return None };
        let (statuses, said): (Vec<&String>, Vec<&String>) = statuses.iter().partition(|word| !word.starts_with('='));
        let known: Vec<&String> = statuses.iter().copied().filter(|own| matches!(own.parse::<u16>(), Ok(400..=599))).collect();
        let known: Vec<&String> =
            known.into_iter().filter(|own| !matches!(own.as_str(), "494" | "495" | "496" | "497" | "499")).collect();
        if known.is_empty() {
            return None;
        }
        let (body, own_status) = self.page(target, origin)?;
        let mut line = "error-page".to_owned();
        for status in &known {
            line.push_str(&format!(" {status}"));
        }
        line.push_str(&body);
        let status = match said.first().map(|word| word.trim_start_matches('=')) {
            Some("") => Some(own_status.unwrap_or(200)),
            Some(status) => status.parse::<u16>().ok(),
            None => None,
        };
        if let Some(status) = status.filter(|status| (200..600).contains(status)) {
            line.push_str(&format!(" status={status}"));
        }
        if known.len() == statuses.len() {
            origin.carry(page.start());
        } else {
            origin.differ(page.start(), "statuses that nginx has for itself alone are left out");
        }
        Some(line)
    }

    /// What a page is, and the status that it says itself.
    fn page(&self, target: &str, origin: &mut Origin) -> Option<(String, Option<u16>)> {
        let location = match target.starts_with('@') {
            true => self.locations.iter().find(|own| own.modifier == Modifier::Named && own.path == target),
            false if target.starts_with('/') && !target.contains('$') => {
                find(self.locations, target).map(|own| &self.locations[own])
            }
            false => return None,
        };
        // A script makes its page anew each time.
        if !target.starts_with('@') && super::answers::is_script(target) {
            return None;
        }
        let file = |folder: &str, path: &str| format!(" file={}", quoted(&format!("{}{path}", folder.trim_end_matches('/'))));
        let Some(location) = location else {
            let root = Levels::of(vec![self.server, self.http]).value("root").filter(|root| is_fixed(root))?;
            return Some((file(root, target), None)).filter(|_| !target.starts_with('@'));
        };
        let inside = location.statement.inside();
        if let Some(answer) = named(inside, "return").next() {
            let [status, text] = answer.arguments() else { return None };
            let status = status.parse::<u16>().ok().filter(|status| !(300..400).contains(status))?;
            let body = self.values.template(text, Moment::Request, self.tables, &mut Vec::new())?;
            let kind = value(inside, "default_type").map(|kind| format!(" content-type={}", quoted(kind))).unwrap_or_default();
            origin.carry_all(words::places([location.statement]));
            return Some((format!(" body={}{kind}", quoted(&body)), Some(status)));
        }
        let is_answered = |statement: &Statement| {
            let is_tried = matches!(statement.name(), "try_files" | "rewrite") && !target.starts_with('@');
            statement.name().ends_with("_pass") || statement.name() == "stub_status" || is_tried
        };
        if inside.iter().any(is_answered) {
            return None;
        }
        let levels = location.levels(self.server, self.http);
        let path = match target.strip_prefix('@') {
            None => target.to_owned(),
            Some(_) => {
                let tried = named(inside, "try_files").next().map(Statement::argument);
                let rewritten = named(inside, "rewrite").next().and_then(|own| own.arguments().get(1)).map(String::as_str);
                tried.or(rewritten).filter(|path| path.starts_with('/') && !path.contains('$'))?.to_owned()
            }
        };
        let page = match (value(inside, "alias"), levels.value("root")) {
            (Some(alias), _) if location.modifier == Modifier::Exact && is_fixed(alias) => format!(" file={}", quoted(alias)),
            (Some(alias), _) if is_fixed(alias) => file(alias, path.strip_prefix(location.path.trim_end_matches('/'))?),
            (None, Some(root)) if is_fixed(root) => file(root, &path),
            _ => return None,
        };
        if location.modifier == Modifier::Exact || location.modifier == Modifier::Named {
            origin.carry_all(words::places([location.statement]));
        }
        Some((page, None))
    }

    fn log(&self, origin: &mut Origin) -> Option<Step> {
        let log = self.levels.one("access_log").filter(|log| log.argument() == "off")?;
        origin.carry(log.start());
        Some(Step::of(Family::Log, "log \"off\""))
    }
}

/// Whether a folder or file is said as it stands.
pub fn is_fixed(path: &str) -> bool {
    path.starts_with('/') && !path.contains('$')
}

/// `text/html` in front of a body, where nothing but a media type is said.
pub fn media_type(levels: &Levels<'_>) -> Option<String> {
    let own = levels.nearest(&["add_header"]);
    let said = own.iter().find(|field| field.argument().eq_ignore_ascii_case("content-type"));
    let said = said.and_then(|field| field.arguments().get(1)).map(String::as_str);
    let kind = said.or_else(|| levels.value("default_type"))?;
    let is_type = kind.contains('/') && is_plain(kind.split(';').next().unwrap_or_default().trim());
    (is_type && kind != "text/plain").then(|| literal(kind))
}
