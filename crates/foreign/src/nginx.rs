//! What a file of nginx asks for: its servers by context, for HTTP and for connections as they are, with their
//! upstreams. A fragment without its context is told apart by what only one of the two has.

mod answered;
mod answers;
mod asked;
mod client_values;
mod conditions;
mod doors;
mod draft;
mod expressions;
mod fields;
mod files;
mod folder_expressions;
mod guards;
mod index_guards;
mod locations;
mod looser;
mod merging;
mod modules;
mod patterned;
mod patterns;
mod process;
mod request_uris;
mod rewrites;
mod routes;
mod same;
mod scope;
mod scripts;
mod server;
mod settings;
mod stream;
mod tables;
#[cfg(test)]
mod tests;
mod tls;
mod upstreams;
mod variables;
mod words;

pub use modules::remedy;
pub use same::is_same;
pub use same::why as why_same;
pub use scope::{bytes, milliseconds};
pub use variables::{TextPart, parts};
pub use words::PACKAGED_PARAMS;

use super::braces::{self, Statement, named};
use super::outline::{Door, Outline, OutlinedSite, ServerGroup, Service, TO_HTTPS, opens_no_http};
use doors::Listeners;
use guards::LimitZone;
use regex::bytes::Regex;
use server::PlainRedirect;
use settings::CacheZone;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use tables::Tables;

const INCLUDED: &str = "its sites are in the files that it includes: give `check` one of them";
const NO_SERVER: &str = "it has no `server` that hands requests on";
const BY_VARIABLE: &str = "where it hands requests on to is in variables";
const OTHER_PROTOCOLS: &str = "mail, uWSGI, SCGI and memcached are not spoken";
const NO_DOOR: &str = "it listens on a socket or on what variables say, and not on a port that is told";

pub fn outline(text: &str) -> Outline {
    let statements = braces::of_nginx(text);
    let around = Around::of(&statements);
    let mut reader = NginxReader {
        around: around.blocks.iter().map(|(at, block)| (*at, block.as_slice())).collect(),
        ..NginxReader::default()
    };
    reader.collect(&statements);
    reader.count_limits(&statements);
    let has_include = named(&statements, "http").any(|http| named(http.inside(), "include").next().is_some());
    reader.walk(&statements, Context::Open);
    reader.settle_redirects();
    let mut outline = reader.finish(&statements);
    outline.statements = words::statements(&statements);
    outline.parts = words::parts(&statements);
    if braces::has_within(&statements, "mail")
        || ["uwsgi_pass", "scgi_pass", "memcached_pass"].iter().any(|word| braces::has_within(&statements, word))
    {
        return outline.or_without(OTHER_PROTOCOLS);
    }
    outline.or_without(if has_include { INCLUDED } else { NO_SERVER })
}

/// What stands around servers, without the servers: there may be thousands.
struct Around {
    /// By where the block begins.
    blocks: Vec<(*const Statement, Vec<Statement>)>,
}

impl Around {
    fn of(statements: &[Statement]) -> Around {
        let is_around =
            |statement: &&Statement| !matches!(statement.name(), "server" | "upstream" | "location" | "http" | "stream");
        let of = |block: &[Statement]| (block.as_ptr(), block.iter().filter(is_around).cloned().collect());
        let inner = statements.iter().filter(|own| matches!(own.name(), "http" | "stream"));
        Around { blocks: std::iter::once(of(statements)).chain(inner.map(|own| of(own.inside()))).collect() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Http,
    Stream,
    /// A file that others include.
    Open,
}

/// A variable by another, in `stream`.
struct VariableMap {
    key: String,
    variable: String,
    rows: Vec<(String, String)>,
    start: usize,
}

#[derive(Default)]
struct NginxReader<'s> {
    around: Vec<(*const Statement, &'s [Statement])>,
    groups: Vec<ServerGroup>,
    maps: Vec<VariableMap>,
    tables: Tables<'s>,
    zones: Vec<LimitZone<'s>>,
    caches: Vec<CacheZone<'s>>,
    /// Where its servers of HTTP listen.
    doors: Vec<Door>,
    /// Addresses at which one of them says that it is TLS, which holds for all of them there.
    over_tls: Vec<String>,
    /// Addresses of plain HTTP whose default server has several slashes taken for one.
    merging: BTreeSet<String>,
    listeners: Listeners,
    /// Servers that do nothing but send to HTTPS, which a site of that name does without a word.
    redirects: Vec<PlainRedirect>,
    /// Servers of which nothing is told that answers.
    unanswered: Vec<patterned::PatternedSite>,
    /// Servers with names that no address has.
    patterned: Vec<patterned::PatternedSite>,
    /// Blocks around servers.
    https: Vec<&'s [Statement]>,
    /// Why single statements are not carried.
    reasons: RefCell<BTreeMap<usize, String>>,
    remarks: RefCell<BTreeSet<&'static str>>,
    /// How often blocks of the server at hand were read, and how many it has.
    blocks_read: Cell<usize>,
    blocks_of_server: Cell<usize>,
    /// Whether a request of the server was sent on too often.
    has_gone_round: Cell<bool>,
    /// What each `rewrite` finds, built once: chains of them are looked at again and again.
    built: RefCell<BTreeMap<String, Option<Regex>>>,
    outline: Outline,
}

/// Statements of a block around that hold in this one: those that it says nothing of itself.
fn inherited(inside: &[Statement], around: &[Statement]) -> BTreeSet<usize> {
    let says = |name: &str| match name {
        "allow" | "deny" => named(inside, "allow").chain(named(inside, "deny")).next().is_some(),
        name => named(inside, name).next().is_some(),
    };
    let holds = |statement: &&Statement| {
        let is_about_servers =
            matches!(statement.name(), "server" | "upstream" | "http" | "stream" | "location" | "map" | "geo" | "split_clients");
        !is_about_servers && !says(statement.name())
    };
    words::places(around.iter().filter(holds))
}

impl<'s> NginxReader<'s> {
    fn explain(&self, at: usize, why: impl Into<String>) {
        self.reasons.borrow_mut().entry(at).or_insert_with(|| why.into());
    }

    fn remark(&self, what: &'static str) {
        self.remarks.borrow_mut().insert(what);
    }

    /// Upstreams and maps, which may stand behind what names them.
    fn collect(&mut self, statements: &'s [Statement]) {
        for statement in statements {
            match statement.name() {
                "upstream" => self.groups.push(upstreams::group(statement)),
                "map" | "geo" | "split_clients" if statement.block.is_some() => {
                    self.tables.add(statement);
                    if let ("map", [key, variable]) = (statement.name(), statement.arguments()) {
                        let rows = statement.inside().iter().filter(|row| row.words.len() == 2);
                        let rows = rows.map(|row| (row.words[0].clone(), row.words[1].clone())).collect();
                        let (key, variable) = (key.clone(), variable.clone());
                        self.maps.push(VariableMap { key, variable, rows, start: statement.start() });
                    }
                }
                "limit_req_zone" | "limit_conn_zone" => self.zones.extend(guards::zone(statement)),
                "proxy_cache_path" | "fastcgi_cache_path" => self.caches.extend(settings::cache_zone(statement)),
                "geoip2" => self.tables.captured.borrow_mut().extend(process::place_variables(statement)),
                "http" | "stream" => self.collect(statement.inside()),
                _ => {}
            }
        }
    }

    /// In how many servers each zone is used, and what addresses say for all servers there.
    fn count_limits(&mut self, statements: &'s [Statement]) {
        let mut servers: Vec<(&Statement, &[Statement])> = Vec::new();
        for statement in statements {
            match statement.name() {
                "http" => servers.extend(named(statement.inside(), "server").map(|server| (server, statement.inside()))),
                "server" => servers.push((statement, statements)),
                _ => {}
            }
        }
        let listens = servers.iter().flat_map(|(server, _)| named(server.inside(), "listen"));
        self.over_tls = listens.filter(|listen| doors::is_over_tls(listen)).map(doors::place_of).collect();
        self.merging = merging::merging_addresses(&servers, &self.over_tls);
        for zone in &mut self.zones {
            zone.servers = servers.iter().filter(|(server, _)| uses_zone(server.inside(), zone.name)).count();
        }
    }

    fn walk(&mut self, statements: &'s [Statement], context: Context) {
        let around = self.around.iter().find(|(at, _)| *at == statements.as_ptr()).map_or(statements, |(_, block)| *block);
        for statement in statements {
            match statement.name() {
                "http" => self.walk(statement.inside(), Context::Http),
                "stream" => self.walk(statement.inside(), Context::Stream),
                "server" if statement.block.is_some() => {
                    if context == Context::Stream || (context == Context::Open && is_of_stream(statement.inside())) {
                        self.stream_server(statement, around);
                    } else {
                        self.http_server(statement, around);
                    }
                }
                _ => {}
            }
        }
        if context != Context::Stream && (context == Context::Http || !statements.iter().any(|own| own.name() == "http")) {
            self.https.push(around);
        }
        // A part of a server, in a file of its own.
        let is_part = |statement: &Statement| {
            (statement.name() == "location" && statement.block.is_some()) || is_terminal(statement.name())
        };
        if context == Context::Open && statements.iter().any(is_part) {
            let mut site = self.parts(statements, &[], None, None);
            let own = statements.iter().filter(|statement| !matches!(statement.name(), "server" | "upstream" | "map"));
            site.origin.within.extend(words::places(own));
            site.leave_to_routes();
            self.add_site(site);
        }
    }

    fn add_site(&mut self, site: OutlinedSite) {
        let answers = site.answer.iter().chain(site.routes.iter().map(|route| &route.answer));
        if answers.clone().next().is_some() {
            self.outline.services.push(Service::Site(site));
        }
    }

    fn finish(mut self, statements: &[Statement]) -> Outline {
        let mut outline = std::mem::take(&mut self.outline);
        patterned::shut(std::mem::take(&mut self.unanswered), &mut outline.services);
        if patterned::settle(std::mem::take(&mut self.patterned), &mut outline.services) {
            self.remark(patterned::NO_EXPRESSION);
        }
        outline.opens_no_http = opens_no_http(&self.doors);
        if outline.services.is_empty() && outline.without.is_none() {
            outline.groups = std::mem::take(&mut self.groups);
        }
        let used: Vec<&CacheZone<'_>> = {
            let is_cached = |site: &OutlinedSite| {
                let routes = site.routes.iter().flat_map(|route| &route.steps);
                site.steps.iter().chain(routes).any(|line| line.starts_with("cache"))
            };
            let has = outline.services.iter().any(|service| matches!(service, Service::Site(site) if is_cached(site)));
            if has { self.caches.iter().collect() } else { Vec::new() }
        };
        for http in &self.https {
            outline.settings.extend(process::settings(http, &used));
        }
        outline.settings.extend(doors::listener_settings(std::mem::take(&mut self.listeners)));
        outline.settings.extend(self.tables.settings());
        let (unneeded, reasons) = self.tables.left(statements);
        outline.told.carry_all(unneeded);
        outline.told.carry_all(words::without_effect(statements));
        outline.told.carry_all(self.tables.claimed.borrow().iter().copied());
        outline.reasons.extend(reasons);
        self.explain_zones(statements);
        outline.reasons.extend(self.reasons.borrow().clone());
        outline.remarks.extend(self.remarks.borrow().iter().map(|remark| (*remark).to_owned()));
        request_uris::settle(&mut outline);
        outline
    }

    /// Says of limits that the file has no rate for them.
    fn explain_zones(&self, statements: &[Statement]) {
        for statement in statements {
            let name = match statement.name() {
                "limit_req" => statement.arguments().iter().find_map(|word| word.strip_prefix("zone=")),
                "limit_conn" => Some(statement.argument()),
                _ => None,
            };
            if let Some(name) = name.filter(|name| !self.zones.iter().any(|zone| zone.name == *name)) {
                let zone = format!("{}_zone", statement.name());
                self.explain(
                    statement.start(),
                    format!("how much zone `{name}` lets through is said by a `{zone}` that was not read: give `import` that file as well"),
                );
            }
            self.explain_zones(statement.inside());
        }
    }

    /// What only sends to HTTPS is done where there is a site of that name; else it is one itself.
    fn settle_redirects(&mut self) {
        for redirect in std::mem::take(&mut self.redirects) {
            let is_served = |host: &String| {
                self.outline.services.iter().any(|service| match service {
                    Service::Site(site) => site.addresses.iter().any(|address| address == host),
                    Service::Tcp(_) => false,
                })
            };
            let has_https = redirect.hosts.iter().all(is_served);
            if has_https && !redirect.hosts.is_empty()
                || redirect.hosts.is_empty() && !self.has_names_over_tls()
                || PlainRedirect::is_alone(self)
            {
                self.outline.without.get_or_insert(TO_HTTPS);
                self.outline.done_without.extend(redirect.places);
            } else {
                self.add_site(redirect.site);
            }
        }
    }

    fn has_names_over_tls(&self) -> bool {
        self.outline.services.iter().all(|service| match service {
            Service::Site(site) => site.addresses.iter().all(|address| !address.contains("://")),
            Service::Tcp(_) => true,
        })
    }
}

fn uses_zone(statements: &[Statement], zone: &str) -> bool {
    statements.iter().any(|statement| match statement.name() {
        "limit_req" => statement.arguments().iter().any(|word| word.strip_prefix("zone=") == Some(zone)),
        "limit_conn" => statement.argument() == zone,
        _ => uses_zone(statement.inside(), zone),
    })
}

/// Only `stream` has these directly in a server, and only HTTP has names and locations.
fn is_of_stream(inside: &[Statement]) -> bool {
    let has = |word: &str| named(inside, word).next().is_some();
    !has("location") && !has("server_name") && !has("root") && !has("return") && (has("proxy_pass") || has("ssl_preread"))
}

fn is_terminal(word: &str) -> bool {
    matches!(word, "proxy_pass" | "fastcgi_pass" | "grpc_pass")
}
