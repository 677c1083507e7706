//! A server of nginx as a site: its locations as routes in the order in which nginx takes them, and what holds in all.

use super::answered::{NOT_TOLD, is_answered, is_deciding, is_to_https, without_looking};
use super::doors::{self, Front, V4_SHUT};
use super::draft::{AnswerKind, Draft, PlacedDraft, Step, settle};
use super::expressions::{hidden_but, not_ahead};
use super::fields::leaves_clients_out;
use super::guards::is_behind_another;
use super::locations::{Location, Modifier, Order, Turn, find, of_server, turns};
use super::routes::{Coming, Place, ROUND, ServerScope};
use super::scope::Levels;
use super::{BY_VARIABLE, NO_DOOR, NginxReader, inherited, process, tls, words};
use crate::accounts::{Origin, StatementKind, Weight};
use crate::braces::{Statement, named, value};
use crate::outline::{BytePrefix, OutlinedAnswer, OutlinedSetting, OutlinedSite, beginning_with, below};
use crate::sent_paths::sent;
use crate::spelling::{encoded, has_two_spellings, in_either_spelling};

/// Statements of which a server has one that answers anything.
const ANSWERING: [&str; 9] = ["location", "include", "return", "rewrite", "root", "alias", "if", "try_files", "error_page"];
const NO_ANSWER: &str = "its `server` says nothing of what answers, as `proxy_pass` or `root` do";
const BODIES: &str = "nginx refuses bodies beyond 1 MiB where `client_max_body_size` is not written: `body-limit \"1MiB\"` says the \
                      same here, and without the line bodies have no bound";
const ITSELF: &str = "`location /x/` is `route \"/x/*\"`, which takes `/x` as well: nginx sends that on to `/x/` where it hands \
                      requests on, and gives it to another location where it does not";
const FIRST_SERVER: &str = "a host that no site names gets 421, and none of the others' pages: nginx gives it the first server of \
                            the port where none is the `default_server`";
const ADDRESS_OF_CLIENT: &str = "servers get `X-Forwarded-For`, `-Proto` and `-Host` without a word, also where nginx sends none or \
                                 those of the client: `request-header remove=` takes them out";
const SMALL_METHODS: &str = "methods in small letters, as `get`, are handed on here, and nginx answers them with 400";
const NO_HOST_OF_ADDRESS: &str = "where sites are told apart by `match host=`, since they share an address of the machine, a host that none \
                                  of them names gets 404: nginx gives it the first server of the port where none is the `default_server`";
const HIDDEN: &str = "files whose names begin with a dot, and links that lead out of their folder, are not served: `hidden=#true` \
                      and `symlinks=\"follow\"` of `files` change it";
const CERTBOT: &str = "certificates are obtained and renewed without a word for a site that says nothing of where its own comes \
                       from: take `cert=` and `key=` away where certbot got them";

const LOG_OF_PART: &str = "a log is for whole sites, as in `access-log \"/var/log/tidegate/shop.log\" site=\"shop.example.com\"`: a route has \
                           none of its own, and `log \"off\"` leaves its requests out";
const LOG_OF_SITE: &str =
    "a log of one site is `access-log \"/var/log/tidegate/shop.log\" site=\"shop.example.com\"` at the top level";
const IN_BOTH: &str = "lines of this site are in the log of all sites as well";
const SAME_FILES: &str = "logs are written into the files that nginx writes into as well, as long as both run";

/// A server whose every answer is the redirect to HTTPS.
pub struct PlainRedirect {
    pub hosts: Vec<String>,
    pub places: std::collections::BTreeSet<usize>,
    pub site: OutlinedSite,
}

impl PlainRedirect {
    /// Whether nothing else is told of the file.
    pub fn is_alone(reader: &NginxReader<'_>) -> bool {
        reader.outline.services.is_empty()
    }
}

/// What an answer of the server itself leaves no request for: locations, since it is given before any is looked for,
/// and, where it is given at once, whatever keeps clients out around the server.
fn carry_unreached(scope: &ServerScope<'_>, levels: &Levels<'_>, placed: &[PlacedDraft], site: &mut OutlinedSite) {
    let unreached = scope.locations.iter().map(|location| location.statement);
    site.origin.carry_all(words::places(unreached));
    if is_answered_at_once(scope.inside, placed) {
        let guards = GUARDS.iter().flat_map(|name| levels.nearest(&[name]));
        site.origin.carry_all(guards.map(Statement::start));
    }
}

/// Whether a server answers all by itself, with nobody sent on to a location.
fn is_answered_at_once(inside: &[Statement], placed: &[PlacedDraft]) -> bool {
    let sends_on = |block: &[Statement]| named(block, "rewrite").next().is_some();
    let is_sent_on = sends_on(inside) || named(inside, "if").any(|own| sends_on(own.inside()));
    !is_sent_on && placed.iter().all(|own| own.draft.kind == AnswerKind::Local)
}

/// What keeps clients out behind what a server answers by itself.
const GUARDS: [&str; 7] = ["allow", "deny", "auth_basic", "auth_request", "limit_req", "limit_conn", "satisfy"];

impl<'s> NginxReader<'s> {
    pub(super) fn http_server(&mut self, server: &'s Statement, http: &'s [Statement]) {
        let inside = server.inside();
        let hosts = doors::hosts(inside);
        let levels = Levels::of(vec![inside, http]);
        let has_certificate = tls::has_certificate(&levels);
        let front = doors::front(inside, &hosts, has_certificate, &self.over_tls);
        if front.is_nowhere {
            self.outline.without.get_or_insert(NO_DOOR);
            return;
        }
        if !front.is_default && !hosts.is_empty() {
            self.remark(if front.only_hosts.is_empty() { FIRST_SERVER } else { NO_HOST_OF_ADDRESS });
        }
        // Without a word it is the port of plain HTTP.
        self.doors.extend(front.doors.iter().map(|(door, _)| *door));
        if front.doors.is_empty() && !front.addresses.iter().any(|address| address.contains("unix:")) {
            self.doors.push(crate::outline::Door::HTTP);
        }
        if value(inside, "ssl_reject_handshake") == Some("on") {
            // A name that no site has is refused in the handshake without a word.
            self.outline.told.carry_all(words::places([server]));
            return;
        }
        let mut site = self.parts(inside, http, Some(&front), hosts.first().cloned());
        let is_answered = is_answered(&site);
        if !is_answered {
            let says_nothing = !inside.iter().any(|statement| ANSWERING.contains(&statement.name()));
            let why = if says_nothing { NO_ANSWER } else { BY_VARIABLE };
            self.outline.without.get_or_insert(if self.has_gone_round.get() { ROUND } else { why });
        }
        let all_hosts: Vec<String> = front.doors.iter().filter_map(|(door, _)| door.address(None)).collect();
        let Front { addresses, is_name_open, only_hosts, origin, doors, is_v6_alone, .. } = front;
        let is_tls = doors.iter().any(|(door, _)| door.is_tls);
        site.addresses = addresses;
        site.is_name_open = is_name_open;
        site.only_hosts = only_hosts;
        if is_v6_alone {
            site.steps.insert(0, V4_SHUT.to_owned());
        }
        if is_tls {
            let lines = tls::lines(&levels, &mut site.origin);
            if lines.iter().any(|line| line.contains("/letsencrypt/")) {
                self.remark(CERTBOT);
            }
            site.steps.splice(0..0, lines);
        }
        site.origin.add(&origin);
        site.origin.within.extend(words::places([server]));
        site.origin.within.extend(inherited(inside, http));
        site.leave_to_routes();
        if !is_answered {
            // Hosts of such a server are shut where another one would answer for them.
            if site.routes.is_empty() && site.answer.is_none() {
                site.answer = Some(OutlinedAnswer::status(503));
            }
            self.unanswered.extend(super::patterned::of_server(inside, &site, &all_hosts));
            self.unanswered.push(super::patterned::PatternedSite::of_names(site, all_hosts));
            return;
        }
        self.patterned.extend(super::patterned::of_server(inside, &site, &all_hosts));
        if !is_tls && is_to_https(&site, &hosts) {
            self.redirects.push(PlainRedirect { hosts, places: words::places([server]), site });
            return;
        }
        self.add_site(site);
    }

    /// What a server or a file of its parts answers.
    pub(super) fn parts(
        &mut self,
        inside: &'s [Statement],
        http: &'s [Statement],
        front: Option<&Front>,
        server_name: Option<String>,
    ) -> OutlinedSite {
        let levels = Levels::of(vec![inside, http]);
        let doors: &[_] = front.map_or(&[], |front| front.doors.as_slice());
        let listened = doors::listen(&levels, doors, &mut self.listeners);
        let is_behind = doors::is_behind_proxy(&levels) || is_behind_another(levels.all());
        if let Err(why) = listened {
            levels.nearest(&["set_real_ip_from", "real_ip_header"]).iter().for_each(|own| self.explain(own.start(), why));
        }
        let mut ports: Vec<u16> = doors.iter().map(|(door, _)| door.port).collect();
        ports.dedup();
        let scope = ServerScope {
            inside,
            http,
            locations: of_server(inside),
            server_name,
            server_port: if let [port] = ports.as_slice() { Some(*port) } else { None },
            is_behind_another: is_behind && listened != Ok(true),
            skipped: front.and_then(|front| front.to_https),
        };
        let within = scope.locations.iter().flat_map(|location| named(location.statement.inside(), "access_log"));
        within.filter(|log| log.argument() != "off").for_each(|log| self.explain(log.start(), LOG_OF_PART));
        self.blocks_read.set(0);
        self.has_gone_round.set(false);
        self.blocks_of_server.set(scope.locations.len() + rewrites_of(scope.inside));
        let mut site = OutlinedSite::default();
        let mut placed = Vec::new();
        let is_whole = self.before_locations(&scope, &mut placed);
        if is_whole {
            carry_unreached(&scope, &levels, &placed, &mut site);
        } else {
            let turns = turns(&scope.locations);
            for index in 0..scope.locations.len() {
                let own = turns.iter().filter(|turn| turn.index == index);
                self.place_location(&scope, index, own, front, (&mut site, &mut placed));
            }
            self.place_rest(&scope, &mut placed);
            placed.extend(self.index_page(&scope).map(|draft| PlacedDraft {
                order: Order::BEHIND_EXACT,
                patterns: vec!["/".to_owned()],
                byte_prefixes: Vec::new(),
                draft,
            }));
        }
        super::scripts::absorb(&scope.locations, &mut placed);
        placed.sort_by_key(|own| own.order);
        let is_handing_on = placed.iter().any(|own| matches!(own.draft.kind, AnswerKind::Proxy | AnswerKind::Scripts));
        if placed.iter().any(|own| own.draft.kind == AnswerKind::Files && !own.draft.answer.is_refusal()) {
            self.remark(HIDDEN);
        }
        let mut site = settle(site, placed);
        site.logs = self.logs_of_server(inside, http);
        let is_said = site.steps.iter().any(|line| line.starts_with("body-limit"));
        if is_handing_on {
            self.remark_handing_on(inside, http);
        }
        if is_handing_on && !is_said && levels.one("client_max_body_size").is_none() {
            site.unsaid.push("body-limit \"1MiB\"".to_owned());
            self.remark(BODIES);
        }
        site
    }

    fn remark_handing_on(&self, inside: &[Statement], http: &[Statement]) {
        self.remark(SMALL_METHODS);
        if leaves_clients_out(inside, &[inside, http], 0) {
            self.remark(ADDRESS_OF_CLIENT);
        }
    }

    fn logs_of_server(&self, inside: &[Statement], http: &[Statement]) -> Vec<OutlinedSetting> {
        let has_all = named(http, "access_log").any(|log| log.argument() != "off");
        let mut logs = Vec::new();
        for log in named(inside, "access_log").filter(|log| log.argument() != "off") {
            self.explain(log.start(), LOG_OF_SITE);
            let Some(mut setting) = process::log_line(log, http) else { continue };
            if has_all {
                setting.origin.differ(log.start(), IN_BOTH);
            }
            if setting.line.starts_with("access-log \"/") {
                self.remark(SAME_FILES);
            }
            logs.push(setting);
        }
        logs
    }

    /// `if`, `rewrite` and `return` of the server itself; whether nothing comes behind them.
    fn before_locations(&self, scope: &ServerScope<'s>, placed: &mut Vec<PlacedDraft>) -> bool {
        let levels = scope.levels();
        let place = Place::WHOLE;
        let mut coming = Coming::default();
        let mut drafts = Vec::new();
        let mut rules = Origin::default();
        let is_end = match self.rules(scope, &levels, place, &mut coming, &mut drafts, &mut rules) {
            Ok(is_end) => is_end,
            Err(why) => {
                for own in scope.inside.iter().filter(|own| matches!(own.name(), "rewrite" | "return")) {
                    self.explain(own.start(), why.clone());
                }
                false
            }
        };
        for mut draft in drafts {
            draft.origin.add(&rules);
            placed.push(PlacedDraft { order: Order::FIRST, patterns: Vec::new(), byte_prefixes: Vec::new(), draft });
        }
        is_end
    }

    fn place_location<'t>(
        &self,
        scope: &ServerScope<'s>,
        index: usize,
        turns: impl Iterator<Item = &'t Turn> + Clone,
        front: Option<&Front>,
        (site, placed): (&mut OutlinedSite, &mut Vec<PlacedDraft>),
    ) {
        let location = &scope.locations[index];
        let is_own_acme = front.is_some_and(Front::is_tls) && !tls::has_certificate(&scope.levels());
        if location.path.contains("acme-challenge") && is_own_acme {
            site.origin.carry_all(words::places([location.statement]));
            return;
        }
        if location.modifier == Modifier::Named || is_of_errors(scope, location) {
            return;
        }
        let drafts = match self.of_location(scope, location, &Coming::default()) {
            Ok(drafts) => drafts,
            Err(why) => vec![self.shut(scope, location, &why)],
        };
        let place = scope.place(location);
        let index_page = self.guarded_index(scope, &location.levels(scope.inside, scope.http), place);
        let folders = if index_page.is_some() {
            Vec::new()
        } else {
            self.guarded_folders(scope, &location.levels(scope.inside, scope.http), place)
        };
        for draft in index_page.into_iter().chain(folders).chain(drafts) {
            for turn in turns.clone() {
                let mut draft = draft.clone();
                for (is_meant, path) in turn.conditions.iter().rev() {
                    let not = if *is_meant { "" } else { "not " };
                    draft.conditions.insert(0, format!("{not}path={}", tidegate_kdl::quoted(path)));
                }
                let (patterns, byte_prefixes) = self.patterns(scope, location, &mut draft);
                placed.push(PlacedDraft { order: turn.order, patterns, byte_prefixes, draft });
            }
        }
    }

    /// What no location takes.
    fn place_rest(&self, scope: &ServerScope<'s>, placed: &mut Vec<PlacedDraft>) {
        if scope.locations.iter().any(Location::is_all) {
            return;
        }
        let is_said = ["root", "try_files", "proxy_pass", "fastcgi_pass", "grpc_pass", "index", "autoindex"]
            .iter()
            .any(|word| named(scope.inside, word).next().is_some());
        let is_empty = scope.locations.is_empty() && placed.is_empty() && !scope.http.is_empty();
        if !is_said && !is_empty {
            return;
        }
        let place = Place::WHOLE;
        let index_page = self.guarded_index(scope, &scope.levels(), place);
        let folders = if index_page.is_some() { Vec::new() } else { self.guarded_folders(scope, &scope.levels(), place) };
        match self.content(scope, &scope.levels(), place, &Coming::default()) {
            Ok(drafts) => placed.extend(index_page.into_iter().chain(folders).chain(drafts).map(|draft| PlacedDraft {
                order: Order::LAST,
                patterns: Vec::new(),
                byte_prefixes: Vec::new(),
                draft,
            })),
            Err(why) => {
                if let Some(own) = scope.inside.iter().find(|own| own.name().ends_with("_pass") || own.name() == "try_files") {
                    self.explain(own.start(), why);
                }
            }
        }
    }

    /// What is answered there is not told, and must not be by what answers all else.
    fn shut(&self, scope: &ServerScope<'s>, location: &Location<'s>, why: &str) -> Draft {
        let mut draft = Draft::of(AnswerKind::Local, OutlinedAnswer::status(403));
        let levels = location.levels(scope.inside, scope.http);
        self.say_more(&mut draft, scope, &levels);
        draft.steps.retain(|step: &Step| !step.line.starts_with("error-page"));
        draft.origin = Origin::default();
        draft.origin.within.extend(words::places([location.statement]));
        // Who is kept out there is kept out here.
        let all = words::statements(std::slice::from_ref(location.statement));
        let kept: Vec<usize> =
            all.iter().filter(|own| own.kind == StatementKind::Needed(Weight::Protection)).map(|own| own.at).collect();
        draft.origin.carry_all(kept);
        draft.origin.carried.remove(&location.statement.start());
        draft.origin.differ(location.statement.start(), NOT_TOLD);
        for own in location.statement.inside().iter().filter(|own| is_deciding(own.name())) {
            self.explain(own.start(), why);
        }
        draft
    }

    /// Whether what takes its path without the slash at the end keeps other clients out than it does.
    fn is_guarded_otherwise(scope: &ServerScope<'s>, location: &Location<'s>) -> bool {
        let guards = |levels: &Levels<'s>| -> Vec<usize> {
            GUARDS.iter().flat_map(|name| levels.nearest(&[name])).map(Statement::start).collect()
        };
        let found = find(&scope.locations, location.path.trim_end_matches('/')).map(|index| &scope.locations[index]);
        let other = found.map_or_else(|| scope.levels(), |other| other.levels(scope.inside, scope.http));
        guards(&location.levels(scope.inside, scope.http)) != guards(&other)
    }

    fn patterns(&self, scope: &ServerScope<'s>, location: &Location<'s>, draft: &mut Draft) -> (Vec<String>, Vec<BytePrefix>) {
        let encoded = encoded(location.path);
        let path = encoded.as_str();
        match location.modifier {
            Modifier::Exact | Modifier::Before | Modifier::Prefix if has_two_spellings(location.path) => {
                let end = if location.modifier == Modifier::Exact { "$" } else { "" };
                (vec![format!("~^{}{end}", in_either_spelling(location.path))], Vec::new())
            }
            Modifier::Exact => {
                let is_plain = path.starts_with('/') && !path.contains('*');
                (vec![if is_plain { path.to_owned() } else { format!("~^{}$", regex_syntax::escape(path)) }], Vec::new())
            }
            Modifier::Sensitive | Modifier::Insensitive => {
                let mut text = sent(&location.expression().unwrap_or_default());
                let flag = if location.modifier == Modifier::Insensitive { "(?i)" } else { "" };
                let ahead = not_ahead(location.path).map(|(positive, negative)| (sent(&positive), sent(&negative)));
                if let Some((positive, negative)) = ahead.or_else(|| hidden_but(location.path)) {
                    draft.conditions.push(format!("not path={}", tidegate_kdl::quoted(&format!("~{flag}{negative}"))));
                    return (vec![format!("~{flag}{positive}")], Vec::new());
                }
                if draft.answer.is_refusal() {
                    text = without_looking(&text, location.statement.start(), &mut draft.origin);
                }
                (vec![format!("~{text}")], Vec::new())
            }
            Modifier::Before | Modifier::Prefix if path == "/" => (Vec::new(), Vec::new()),
            Modifier::Before | Modifier::Prefix => {
                let is_sent_on = matches!(draft.kind, AnswerKind::Proxy | AnswerKind::Scripts);
                // A location of the path without the slash takes it there.
                let is_taken = scope.locations.iter().any(|own| own.is_prefix() && path.strip_suffix('/') == Some(own.path));
                let is_apart = !is_sent_on && !draft.answer.is_refusal() && Self::is_guarded_otherwise(scope, location);
                if path.ends_with('/') && (is_taken || is_apart) {
                    return (vec![beginning_with(path)], Vec::new());
                }
                if path.ends_with('/') && !path.contains('*') {
                    self.remark(ITSELF);
                    return (vec![below(path)], Vec::new());
                }
                if !path.starts_with('/') || path.contains('*') || draft.answer.is_refusal() {
                    return (vec![beginning_with(path)], Vec::new());
                }
                let pattern = below(path);
                let prefix = BytePrefix { pattern: pattern.clone(), prefix: path.to_owned(), at: location.statement.start() };
                (vec![pattern], vec![prefix])
            }
            Modifier::Named => (Vec::new(), Vec::new()),
        }
    }
}

/// How many lines of a block and of those in it send on within the server.
fn rewrites_of(inside: &[Statement]) -> usize {
    inside.iter().map(|own| usize::from(own.name() == "rewrite") + rewrites_of(own.inside())).sum()
}

/// A location that has nothing but the page of an error.
fn is_of_errors(scope: &ServerScope<'_>, location: &Location<'_>) -> bool {
    let all = named(scope.inside, "error_page").chain(named(scope.http, "error_page"));
    let inner = scope.locations.iter().flat_map(|own| named(own.statement.inside(), "error_page"));
    let is_target = all.chain(inner).any(|page| page.arguments().last().is_some_and(|last| last == location.path));
    let is_plain = location
        .statement
        .inside()
        .iter()
        .all(|own| matches!(own.name(), "root" | "alias" | "allow" | "access_log" | "log_not_found" | "auth_basic" | "ssi"));
    is_target && is_plain && location.modifier == Modifier::Exact
}
