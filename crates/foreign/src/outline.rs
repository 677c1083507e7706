//! What a file of another proxy asks for, as far as its shape tells: names, ports, servers, and what is answered.
//! Readers of single proxies' files fill it in; the lines of ours are written in `beginning`.

mod places;
mod sticky;

pub use places::{
    Door, NAME_IN_PLACE, Whereabouts, any_depth, beginning_pattern, beginning_with, below, is_plain, opens_no_http, placed,
    tcp_address, upstream, upstream_with_port, whereabouts,
};
pub use sticky::StickyCookie;

use super::accounts::{FileStatement, Origin};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_model::expression;

/// All that a reader has found out.
#[derive(Debug, Default)]
pub struct Outline {
    pub services: Vec<Service>,
    /// Groups of servers that nothing in the file uses.
    pub groups: Vec<ServerGroup>,
    /// The first statement that nothing is told behind, and as much of it as can be shown.
    pub stopped_at: Option<(usize, String)>,
    /// How many more there are than were looked at.
    pub uncounted: usize,
    /// Why there is nothing to begin with.
    pub without: Option<&'static str>,
    /// Whether the file says of all ports where they are, and none is that of plain HTTP.
    pub opens_no_http: bool,
    /// All that the file says, so that nothing of it goes without a word.
    pub statements: Vec<FileStatement>,
    /// Lines for all of the process, such as `access-log`.
    pub settings: Vec<OutlinedSetting>,
    /// Whether requests have lines at those sites alone that say so.
    pub is_logged_where_said: bool,
    /// Lines within a statement, each with where that begins whose account they share.
    pub parts: BTreeMap<usize, usize>,
    /// Where statements begin that a site of ours does without a word, as the redirect to HTTPS.
    pub done_without: BTreeSet<usize>,
    /// Plain HTTP that is sent to HTTPS and nothing else, by its addresses, where a site with a name may do so.
    pub redirects: Vec<(Vec<String>, Origin)>,
    /// Groups that nothing of what is told uses; pools of a file that is written, and nothing to begin with.
    pub unused: Vec<ServerGroup>,
    /// Sites that answer nobody but with a refusal; lines of a file that is written, and nothing to begin with.
    pub refusing: Vec<Service>,
    /// What is done here in other ways than by lines of one site, port or pool.
    pub told: Origin,
    /// Why single statements are not carried, and what to do, by where they begin.
    pub reasons: BTreeMap<usize, String>,
    /// What the reader has to know beside single statements.
    pub remarks: Vec<String>,
}

impl Outline {
    /// With no port of plain HTTP where the file has none: a site of a name alone would open it, for the redirect.
    pub fn settle_ports(&mut self) {
        if !self.opens_no_http {
            return;
        }
        for service in &mut self.services {
            let Service::Site(site) = service else { continue };
            if site.addresses.is_empty() {
                site.is_name_open = true;
                site.addresses.push(NAME_IN_PLACE.to_owned());
            }
            let all = site.addresses.iter_mut().chain(&mut site.environment_addresses);
            for address in all.filter(|address| !address.contains("://")) {
                address.insert_str(0, "https://");
            }
        }
    }

    /// Writes the redirects to HTTPS that no site does without a word, since none of them has the name.
    pub fn settle_redirects(&mut self) {
        let of_site = |service: &Service| match service {
            Service::Site(site) => site.addresses.clone(),
            Service::Tcp(_) => Vec::new(),
        };
        let addresses: Vec<String> = self.services.iter().flat_map(of_site).collect();
        // A site of single hosts leaves the others of its address.
        let of_all_hosts = |service: &Service| match service {
            Service::Site(site) if site.only_hosts.is_empty() => site.addresses.clone(),
            Service::Site(_) | Service::Tcp(_) => Vec::new(),
        };
        let whole: Vec<String> = self.services.iter().flat_map(of_all_hosts).collect();
        let opens_a_name = self.services.iter().any(|service| match service {
            Service::Site(site) => site.addresses.is_empty() || site.addresses.iter().any(|address| !address.contains("://")),
            Service::Tcp(_) => false,
        });
        let is_nameless = addresses.iter().any(|address| address.starts_with("https://:"));
        for (own, origin) in std::mem::take(&mut self.redirects) {
            let is_done = |address: &String| match address.strip_prefix("http://") {
                Some(rest) if rest.starts_with(':') => rest == ":80" && opens_a_name && !is_nameless,
                Some(name) => addresses.iter().any(|known| known == name),
                None => true,
            };
            let left: Vec<String> = own.into_iter().filter(|address| !is_done(address) && !whole.contains(address)).collect();
            if left.is_empty() {
                continue;
            }
            self.done_without.retain(|at| !origin.within.contains(at));
            let answer = OutlinedAnswer::Redirect { to: "https://{host}{uri}".to_owned(), status: 301 };
            let site = OutlinedSite { addresses: left, answer: Some(answer), origin, ..OutlinedSite::default() };
            self.services.push(Service::Site(site));
        }
    }

    /// Takes back ports that are made up of groups alone: what a file does not open is opened by nobody.
    pub fn settle_guesses(&mut self) {
        let (guessed, told): (Vec<Service>, Vec<Service>) = std::mem::take(&mut self.services)
            .into_iter()
            .partition(|service| matches!(service, Service::Tcp(tcp) if tcp.is_guessed));
        self.services = told;
        self.unused.extend(guessed.into_iter().filter_map(|service| match service {
            Service::Tcp(tcp) => tcp.otherwise,
            Service::Site(_) => None,
        }));
    }

    /// Adds why nothing can be said, unless that is known.
    pub fn or_without(mut self, why: &'static str) -> Outline {
        if self.services.is_empty() && self.groups.is_empty() {
            self.without.get_or_insert(why);
        }
        self
    }
}

/// A line at the top level that is no site, port or pool, as we write it.
#[derive(Debug, Clone)]
pub struct OutlinedSetting {
    pub line: String,
    pub origin: Origin,
}

#[derive(Debug)]
pub enum Service {
    Site(OutlinedSite),
    Tcp(OutlinedTcp),
}

impl Service {
    /// What is said of it and of all its parts.
    pub fn whole_origin(&self) -> Origin {
        match self {
            Service::Site(site) => site.whole_origin(),
            Service::Tcp(tcp) => tcp.whole_origin(),
        }
    }
}

impl Service {
    /// Takes back that these statements are said, wherever they are.
    pub fn lose(&mut self, places: &BTreeSet<usize>) {
        match self {
            Service::Site(site) => {
                site.origin.lose(places);
                site.answer_origin.lose(places);
                site.routes.iter_mut().for_each(|route| route.lose(places));
                site.answer.iter_mut().for_each(|answer| answer.lose(places));
            }
            Service::Tcp(tcp) => tcp.origin.lose(places),
        }
    }
}

impl OutlinedSite {
    pub fn whole_origin(&self) -> Origin {
        let mut origin = self.own_origin();
        self.routes.iter().for_each(|route| origin.add(&route.whole_origin()));
        origin
    }

    /// Without its routes.
    pub fn own_origin(&self) -> Origin {
        let mut origin = self.origin.clone();
        origin.add(&self.whole_answer_origin());
        origin
    }

    /// What is said of what answers all that no route takes, and of its servers.
    pub fn whole_answer_origin(&self) -> Origin {
        let mut origin = Origin::clone(&self.answer_origin);
        self.answer.iter().for_each(|answer| answer.add_origin(&mut origin));
        origin
    }

    /// Leaves what is said of single routes, and of what answers all else, to these: of the site is the rest.
    pub fn leave_to_routes(&mut self) {
        let mut theirs = self.whole_answer_origin().within;
        theirs.extend(self.routes.iter().flat_map(|route| route.whole_origin().within));
        let Origin { within, carried, differs } = &mut self.origin;
        within.retain(|at| !theirs.contains(at) || carried.contains(at) || differs.contains_key(at));
    }

    /// With what answers all else as the last of its routes, which can be shut without the others.
    pub fn with_answer_as_route(&mut self) {
        if let Some(answer) = self.answer.take() {
            let origin = *std::mem::take(&mut self.answer_origin);
            self.routes.push(OutlinedRoute { origin, ..OutlinedRoute::of(Vec::new(), answer) });
        }
    }
}

impl OutlinedTcp {
    pub fn whole_origin(&self) -> Origin {
        let mut origin = self.origin.clone();
        let groups = self.by_name.iter().map(|(_, group)| group).chain(&self.otherwise);
        groups.for_each(|group| origin.add(&group.origin));
        origin
    }
}

#[derive(Debug, Clone, Default)]
pub struct OutlinedSite {
    /// As we write them; empty where any name would do, so that the reader's has to be put there.
    pub addresses: Vec<String>,
    /// Addresses with variables of the environment in them, which can be looked at where they are set alone.
    pub environment_addresses: Vec<String>,
    /// Whether a name in them is the reader's to write, since the file has it in variables or patterns.
    pub is_name_open: bool,
    /// The only hosts that are answered, where the addresses do not say it: those of one address of the machine.
    pub only_hosts: Vec<String>,
    pub routes: Vec<OutlinedRoute>,
    /// What answers all that no route takes.
    pub answer: Option<OutlinedAnswer>,
    /// What is said of that answer alone, where a reader tells it apart from what is said of the site.
    pub answer_origin: Box<Origin>,
    /// Who may come in, and how often, as we write it; for all routes.
    pub steps: Vec<String>,
    /// What the other proxy does without a word, and is said here; in an import alone.
    pub unsaid: Vec<String>,
    /// Lines of `access-log` for requests to it alone, without the name of the site; in an import alone.
    pub logs: Vec<OutlinedSetting>,
    /// What is said of the site, for all of its routes and of what answers all else.
    pub origin: Origin,
}

#[derive(Debug, Clone)]
pub struct OutlinedRoute {
    pub patterns: Vec<String>,
    /// Patterns that are written as whole segments until they are settled, and are whatever begins so.
    pub byte_prefixes: Vec<BytePrefix>,
    /// The place that says its paths, where they are compared without their case.
    pub case: Option<usize>,
    /// What stands behind `match`.
    pub conditions: Vec<String>,
    /// What stands behind each `match` of several, of which one has to hold beside the conditions.
    pub alternatives: Vec<String>,
    /// Who may come in, and how often, as we write it.
    pub steps: Vec<String>,
    pub answer: OutlinedAnswer,
    /// Why it answers nobody, where that is by a condition that is not carried.
    pub closed: Option<&'static str>,
    pub origin: Origin,
}

/// `/api`, which takes `/apix` as well in most proxies.
#[derive(Debug, Clone)]
pub struct BytePrefix {
    /// The pattern that stands for it.
    pub pattern: String,
    pub prefix: String,
    /// Where the file says it.
    pub at: usize,
}

impl OutlinedRoute {
    pub fn of(patterns: Vec<String>, answer: OutlinedAnswer) -> OutlinedRoute {
        OutlinedRoute {
            patterns,
            byte_prefixes: Vec::new(),
            case: None,
            conditions: Vec::new(),
            alternatives: Vec::new(),
            steps: Vec::new(),
            answer,
            closed: None,
            origin: Origin::default(),
        }
    }

    /// Takes whatever begins so.
    pub fn add_prefix(&mut self, prefix: &str, at: usize) {
        let pattern = below(prefix);
        if !prefix.ends_with('/') {
            self.byte_prefixes.push(BytePrefix { pattern: pattern.clone(), prefix: prefix.to_owned(), at });
        }
        self.patterns.push(pattern);
    }

    /// With the next route for what is no file, where it is files.
    pub fn tried(mut self) -> OutlinedRoute {
        if let OutlinedAnswer::Files { is_tried, .. } = &mut self.answer {
            *is_tried = true;
        }
        self
    }

    /// Takes back that these statements are said.
    pub fn lose(&mut self, places: &BTreeSet<usize>) {
        self.origin.lose(places);
        self.answer.lose(places);
    }

    /// What is said of it and of its servers.
    pub fn whole_origin(&self) -> Origin {
        let mut origin = self.origin.clone();
        self.answer.add_origin(&mut origin);
        origin
    }

    /// Whether the expressions in its patterns are ones of ours.
    pub fn is_readable(&self) -> bool {
        self.patterns.iter().all(|pattern| pattern.strip_prefix('~').is_none_or(|text| expression(text).build().is_ok()))
    }

    /// Whether it answers nobody for what stands there.
    pub fn closes(&self, at: usize) -> bool {
        self.closed.is_some() && self.origin.within.contains(&at)
    }

    /// Whether somebody is kept out by its steps or its answer.
    pub fn is_guarded(&self) -> bool {
        self.answer.is_refusal() || self.steps.iter().any(|step| is_guard(step))
    }
}

/// Whether a step keeps somebody out, and does not only change what goes through.
pub fn is_guard(step: &str) -> bool {
    const CHANGES: [&str; 15] = [
        "header",
        "response-header",
        "request-header",
        "rewrite",
        "strip-prefix",
        "add-prefix",
        "compress",
        "decompress",
        "cache",
        "error-page",
        "timeout",
        "mirror",
        "log",
        "send-file",
        "request-id",
    ];
    !CHANGES.contains(&step.split(' ').next().unwrap_or_default())
}

#[derive(Debug, Clone)]
pub enum OutlinedAnswer {
    Proxy {
        group: ServerGroup,
        strip: Option<String>,
        add: Option<String>,
    },
    /// What `is_tried` goes on with the next route where there is no such file.
    Files {
        root: String,
        strip: Option<String>,
        fallback: Option<String>,
        is_listing: bool,
        is_tried: bool,
    },
    Scripts {
        server: String,
        root: Option<String>,
        fallback: Option<String>,
        is_static: bool,
    },
    Redirect {
        to: String,
        status: u16,
    },
    Respond {
        status: u16,
        body: Option<String>,
    },
    /// Requests are shared out by these weights.
    Split {
        shares: Vec<(ServerGroup, u32)>,
    },
    /// Routes within, and steps in front of what answers all that none of them takes.
    Within {
        routes: Vec<OutlinedRoute>,
        steps: Vec<String>,
        otherwise: Option<Box<OutlinedAnswer>>,
    },
    /// Lines as we write them, up to the one that answers.
    Lines(Vec<AnswerLine>),
}

/// A line as we write it.
#[derive(Debug, Clone)]
pub enum AnswerLine {
    Text(String),
    /// `proxy` or `fastcgi` with servers, in place or as a pool.
    Servers {
        word: &'static str,
        group: ServerGroup,
        /// Properties behind the servers, as they are written, with a space in front.
        options: String,
        /// Lines of its block beside those of the servers.
        inside: Vec<String>,
    },
    /// `split by="…"` with what stands in its block.
    Block {
        text: String,
        inside: Vec<AnswerLine>,
    },
}

impl AnswerLine {
    /// What stands on the line itself, but for servers.
    pub fn text(&self) -> &str {
        match self {
            AnswerLine::Text(text) | AnswerLine::Block { text, .. } => text,
            AnswerLine::Servers { options, .. } => options,
        }
    }

    fn groups(&self) -> Vec<&ServerGroup> {
        match self {
            AnswerLine::Text(_) => Vec::new(),
            AnswerLine::Servers { group, .. } => vec![group],
            AnswerLine::Block { inside, .. } => inside.iter().flat_map(AnswerLine::groups).collect(),
        }
    }

    fn add_origin(&self, origin: &mut Origin) {
        match self {
            AnswerLine::Text(_) => {}
            AnswerLine::Servers { group, .. } => origin.add(&group.origin),
            AnswerLine::Block { inside, .. } => inside.iter().for_each(|line| line.add_origin(origin)),
        }
    }
}

impl OutlinedAnswer {
    pub fn proxy(group: ServerGroup) -> OutlinedAnswer {
        OutlinedAnswer::Proxy { group, strip: None, add: None }
    }

    pub fn status(status: u16) -> OutlinedAnswer {
        OutlinedAnswer::Respond { status, body: None }
    }

    /// One line, as we write it.
    pub fn line(text: String) -> OutlinedAnswer {
        OutlinedAnswer::Lines(vec![AnswerLine::Text(text)])
    }

    pub fn files(root: String) -> OutlinedAnswer {
        OutlinedAnswer::Files { root, strip: None, fallback: None, is_listing: false, is_tried: false }
    }

    /// All servers that requests are handed on to, those of routes within among them.
    pub fn groups(&self) -> Vec<&ServerGroup> {
        match self {
            OutlinedAnswer::Proxy { group, .. } => vec![group],
            OutlinedAnswer::Split { shares } => shares.iter().map(|(group, _)| group).collect(),
            OutlinedAnswer::Within { routes, otherwise, .. } => {
                let within = routes.iter().map(|route| &route.answer).chain(otherwise.as_deref());
                within.flat_map(OutlinedAnswer::groups).collect()
            }
            OutlinedAnswer::Lines(lines) => lines.iter().flat_map(AnswerLine::groups).collect(),
            OutlinedAnswer::Files { .. }
            | OutlinedAnswer::Scripts { .. }
            | OutlinedAnswer::Redirect { .. }
            | OutlinedAnswer::Respond { .. } => Vec::new(),
        }
    }

    /// Adds what is said of its servers, and of the routes within.
    fn add_origin(&self, origin: &mut Origin) {
        match self {
            OutlinedAnswer::Proxy { group, .. } => origin.add(&group.origin),
            OutlinedAnswer::Split { shares } => shares.iter().for_each(|(group, _)| origin.add(&group.origin)),
            OutlinedAnswer::Within { routes, otherwise, .. } => {
                for route in routes {
                    origin.add(&route.whole_origin());
                }
                if let Some(answer) = otherwise {
                    answer.add_origin(origin);
                }
            }
            OutlinedAnswer::Lines(lines) => lines.iter().for_each(|line| line.add_origin(origin)),
            OutlinedAnswer::Files { .. }
            | OutlinedAnswer::Scripts { .. }
            | OutlinedAnswer::Redirect { .. }
            | OutlinedAnswer::Respond { .. } => {}
        }
    }

    pub fn lose(&mut self, places: &BTreeSet<usize>) {
        if let OutlinedAnswer::Within { routes, otherwise, .. } = self {
            for route in routes {
                route.lose(places);
            }
            if let Some(answer) = otherwise {
                answer.lose(places);
            }
        }
    }

    /// Whether a route within it asks for a path by its pattern.
    pub fn has_patterns(&self) -> bool {
        let OutlinedAnswer::Within { routes, otherwise, .. } = self else { return false };
        let has = |route: &OutlinedRoute| !route.patterns.is_empty() || route.answer.has_patterns();
        routes.iter().any(has) || otherwise.as_ref().is_some_and(|answer| answer.has_patterns())
    }

    /// Without the routes behind it for what is no file: whoever is refused here comes in by none of them.
    pub fn end_there(&mut self) {
        match self {
            OutlinedAnswer::Files { is_tried, .. } => *is_tried = false,
            OutlinedAnswer::Lines(lines) => {
                for line in lines {
                    if let AnswerLine::Text(text) = line {
                        *text = text.replace(" else=\"next\"", "");
                    }
                }
            }
            OutlinedAnswer::Proxy { .. }
            | OutlinedAnswer::Scripts { .. }
            | OutlinedAnswer::Redirect { .. }
            | OutlinedAnswer::Respond { .. }
            | OutlinedAnswer::Split { .. }
            | OutlinedAnswer::Within { .. } => {}
        }
    }

    pub fn is_refusal(&self) -> bool {
        match self {
            OutlinedAnswer::Respond { status, .. } => (400..600).contains(status),
            OutlinedAnswer::Lines(lines) => {
                matches!(lines.as_slice(), [AnswerLine::Text(text)] if text.starts_with("respond 4") || text.starts_with("respond 5"))
            }
            OutlinedAnswer::Proxy { .. }
            | OutlinedAnswer::Files { .. }
            | OutlinedAnswer::Scripts { .. }
            | OutlinedAnswer::Redirect { .. }
            | OutlinedAnswer::Split { .. }
            | OutlinedAnswer::Within { .. } => false,
        }
    }
}

/// Connections that are handed on as they are.
#[derive(Debug, Clone, Default)]
pub struct OutlinedTcp {
    /// `:443`, `127.0.0.1:3306`
    pub address: String,
    /// By the names that clients ask for.
    pub by_name: Vec<(Vec<String>, ServerGroup)>,
    pub otherwise: Option<ServerGroup>,
    pub origin: Origin,
    /// Whether the file opens no such port, and servers alone say what it may be.
    pub is_guessed: bool,
}

#[derive(Debug, Clone, Default)]
pub struct ServerGroup {
    pub name: String,
    pub servers: Vec<GroupedServer>,
    /// Other lines of a pool, as we write them.
    pub lines: Vec<String>,
    /// Whether it is a pool of its own by that name, however few its servers are.
    pub is_apart: bool,
    pub origin: Origin,
}

#[derive(Debug, Clone, Default)]
pub struct GroupedServer {
    /// As we write it.
    pub address: String,
    pub weight: Option<u32>,
    pub is_backup: bool,
    /// Bounds of it alone, as we write them: `max-requests=30`.
    pub properties: Vec<String>,
}

impl ServerGroup {
    pub fn of(address: String) -> ServerGroup {
        ServerGroup::named("app").with_server(address)
    }

    pub fn named(name: &str) -> ServerGroup {
        ServerGroup { name: name.to_owned(), ..ServerGroup::default() }
    }

    pub fn with_server(mut self, address: String) -> ServerGroup {
        self.servers.push(GroupedServer::at(address));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && !self.lines.iter().any(|line| line.starts_with("discover"))
    }

    /// Adds the line, unless there is one of its word.
    pub fn add_line(&mut self, line: impl Into<String>) {
        let line = line.into();
        let word = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        if !self.lines.iter().any(|known| word(known) == word(&line)) {
            self.lines.push(line);
        }
    }

    /// The servers are spoken to over TLS.
    pub fn over_tls(mut self) -> ServerGroup {
        for server in &mut self.servers {
            if !server.address.contains("://") && !server.address.starts_with("unix:") {
                server.address.insert_str(0, "https://");
            }
        }
        self
    }
}

impl GroupedServer {
    pub fn at(address: String) -> GroupedServer {
        GroupedServer { address, ..GroupedServer::default() }
    }
}

/// Of what is done for all sites.
pub const TO_HTTPS: &str = "all that it has is the redirect to HTTPS, which a site does without a word";

/// Of what gives no answer there.
pub const CLOSED: &str = "it closes the connection without an answer, and here it is answered with 403";

/// Of a server that is there and gets nothing.
pub const NO_SHARE: &str = "it gets no requests by this, so its server is left out";

/// The line for clients that speak no TLS but its newest version.
pub const TLS_NEWEST: &str = "tls { min \"1.3\"; }";

/// Of a condition on the scheme that a proxy in front names, which whoever comes without TLS is shut out by.
pub const REPORTED: &str = "the field is believed of proxies alone that `trusted-proxies` in a `listener` names: until yours is named there, \
                            whoever comes by it counts as one without TLS";
/// Of a condition on a field that only proxies say of their clients.
pub const DROPPED: &str = "the field says what a proxy in front knows, and is taken out before conditions are asked, since any client \
                           could send it: name that proxy with `trusted-proxies` in a `listener`, and ask `match client=` or \
                           `match scheme=`";
