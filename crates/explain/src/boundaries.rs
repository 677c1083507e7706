//! Requests around each boundary of a configuration: paths and what lies just beside them, hosts, methods, fields,
//! queries, with and without what a condition asks for. Whoever sends them to two servers sees where these differ. What
//! is sent, and how requests are written, is not said here; samples of expressions are made in `samples`.

mod samples;

use samples::samples;
use std::collections::BTreeSet;
use tidegate_model::{
    Condition, ConditionKind, Configuration, Field, HostPattern, MatchLine, PathPattern, Route, Site, Step, TextPattern,
};

/// Of one configuration. What has more boundaries than that is asked about its first.
const REQUESTS_MAX: usize = 20_000;
/// Names that stand for what a site answers whatever it is called, and for what no site is called.
const ANY_HOST: &str = "any.example";
const NO_HOST: &str = "nobody.invalid";
const METHODS: [&str; 4] = ["HEAD", "POST", "OPTIONS", "DELETE"];
/// A name and a password that nobody has.
const STRANGER: &str = "Basic bm9ib2R5Om5vdGhpbmc=";

/// A request at a boundary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundaryRequest {
    pub method: String,
    pub host: String,
    /// In origin form, with its query.
    pub target: String,
    /// A field that a condition asks for, or something beside it.
    pub field: Option<(String, String)>,
}

/// What there is to ask, and what cannot be asked by a request alone.
#[derive(Debug, Default)]
pub struct Boundaries {
    /// Each once, in the order of the configuration.
    pub requests: Vec<BoundaryRequest>,
    /// Sentences about conditions on the client itself.
    pub notes: Vec<String>,
    known: BTreeSet<BoundaryRequest>,
}

pub fn boundaries(configuration: &Configuration) -> Boundaries {
    let mut found = Boundaries::default();
    for site in &configuration.sites {
        found.add_site(site);
    }
    found.get(NO_HOST, "/");
    if found.requests.len() >= REQUESTS_MAX {
        found.note(format!("there are more boundaries than {REQUESTS_MAX} requests ask about"));
    }
    found
}

impl Boundaries {
    fn add_site(&mut self, site: &Site) {
        let hosts: Vec<String> = site.addresses.iter().flat_map(|address| beside_host(&address.host)).collect();
        let usual: Vec<String> =
            site.addresses.iter().filter_map(|address| beside_host(&address.host).into_iter().next()).collect();
        let is_asked = site.steps.iter().any(asks_who);
        for step in &site.steps {
            self.note_step(step);
        }
        for host in &hosts {
            self.get(host, "/");
        }
        for route in &site.routes {
            let own = route_hosts(route);
            let hosts = if own.is_empty() { &hosts } else { &own };
            let usual = if own.is_empty() { &usual } else { &own };
            self.add_route(route, hosts, usual, is_asked);
        }
    }

    fn add_route(&mut self, route: &Route, hosts: &[String], usual: &[String], is_asked: bool) {
        let conditions = flat(&route.matches);
        let of_conditions = conditions.iter().flat_map(|condition| {
            let ConditionKind::Path(patterns) = &condition.kind else { return &[][..] };
            patterns
        });
        let mut paths: Vec<String> = route.paths.iter().chain(of_conditions).flat_map(beside_pattern).collect();
        if paths.is_empty() {
            paths.push("/".to_owned());
        }
        let is_asked = is_asked || route.steps.iter().any(asks_who);
        for step in &route.steps {
            self.note_step(step);
        }
        for host in usual {
            for path in paths.iter().flat_map(|path| beside_path(path)) {
                self.get(host, &path);
            }
        }
        let Some(first) = usual.first() else { return };
        for path in &paths {
            for host in hosts {
                self.get(host, path);
            }
            for method in METHODS {
                self.add(method, first, path, None);
            }
            if is_asked {
                self.add("GET", first, path, Some(("Authorization".to_owned(), STRANGER.to_owned())));
            }
            for condition in &conditions {
                self.add_condition(condition, first, path);
            }
        }
    }

    /// What a condition asks for, and what lies just beside that.
    fn add_condition(&mut self, condition: &Condition, host: &str, path: &str) {
        match &condition.kind {
            ConditionKind::Method(methods) => {
                for method in methods {
                    self.add(method, host, path, None);
                    self.add(&method.to_ascii_lowercase(), host, path, None);
                }
            }
            ConditionKind::Header(Field { name, value }) => {
                for value in beside_text(value) {
                    self.add("GET", host, path, Some((name.clone(), value)));
                }
            }
            ConditionKind::Cookie(Field { name, value }) => {
                for value in beside_text(value) {
                    self.add("GET", host, path, Some(("Cookie".to_owned(), format!("{name}={value}"))));
                }
            }
            ConditionKind::WholeQuery(_) => self.note("the whole query decides: ask for others as well".to_owned()),
            ConditionKind::Query(Field { name, value }) => {
                for value in beside_text(value) {
                    self.get(host, &format!("{path}?{}={}", encoded(name, b""), encoded(&value, b"")));
                }
                self.get(host, &format!("{path}?{}", encoded(name, b"")));
            }
            ConditionKind::Client(networks) => {
                let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
                self.note(format!("{} decides: ask from inside and from outside of it", networks.join(", ")));
            }
            ConditionKind::ClientCertificate { .. } => self.note("certificates of clients decide, and none is shown".to_owned()),
            ConditionKind::Ja4(_) => self.note("handshakes of clients decide, and these are all alike".to_owned()),
            ConditionKind::Claim(_) => self.note("claims of tokens decide, and none is sent".to_owned()),
            ConditionKind::Geo(_) => self.note("the place of a client decides: ask from several".to_owned()),
            ConditionKind::Map(Field { name, .. }) => {
                self.note(format!("map \"{name}\" decides: ask for keys of its rows as well"));
            }
            // Asked with the routes, or one by one.
            ConditionKind::Path(_) | ConditionKind::Host(_) | ConditionKind::Scheme(_) | ConditionKind::Any(_) => {}
        }
    }

    fn note_step(&mut self, step: &Step) {
        if let Step::Allow(rule) | Step::Deny(rule) = step
            && !rule.networks.is_empty()
            && !rule.networks.iter().all(|network| network.prefix_len() == 0)
        {
            let networks: Vec<String> = rule.networks.iter().map(ToString::to_string).collect();
            self.note(format!("{} decides: ask from inside and from outside of it", networks.join(", ")));
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn get(&mut self, host: &str, target: &str) {
        self.add("GET", host, target, None);
    }

    fn add(&mut self, method: &str, host: &str, target: &str, field: Option<(String, String)>) {
        let is_target = target.starts_with('/') && target.bytes().all(|byte| byte > b' ' && byte < 0x7f);
        if !is_target || self.requests.len() >= REQUESTS_MAX {
            return;
        }
        let request = BoundaryRequest { method: method.to_owned(), host: host.to_owned(), target: target.to_owned(), field };
        if self.known.insert(request.clone()) {
            self.requests.push(request);
        }
    }
}

fn flat(lines: &[MatchLine]) -> Vec<&Condition> {
    let mut all = Vec::new();
    for condition in lines.iter().flat_map(|line| &line.conditions) {
        condition.each(&mut |one| all.push(one));
    }
    all
}

/// Hosts that a route asks for itself.
fn route_hosts(route: &Route) -> Vec<String> {
    let of = |condition: &Condition| match &condition.kind {
        ConditionKind::Host(patterns) => patterns.iter().flat_map(beside_host).collect(),
        ConditionKind::Header(Field { name, value }) if name == "host" => beside_text(value),
        _ => Vec::new(),
    };
    flat(&route.matches).into_iter().flat_map(of).filter(|host| !host.is_empty()).collect()
}

fn asks_who(step: &Step) -> bool {
    matches!(
        step,
        Step::BasicAuth(Some(_))
            | Step::Jwt(Some(_))
            | Step::Oidc(Some(_))
            | Step::ForwardAuth(Some(_))
            | Step::ApiKey(Some(_))
            | Step::AuthAny(Some(_))
    )
}

/// A name that fits, and names just beside it.
fn beside_host(pattern: &HostPattern) -> Vec<String> {
    match pattern {
        HostPattern::Any | HostPattern::Ip(_) | HostPattern::Socket(_) => vec![ANY_HOST.to_owned()],
        HostPattern::Exact(name) => vec![name.clone(), name.to_ascii_uppercase(), format!("x.{name}"), format!("x{name}")],
        HostPattern::Wildcard(parent) | HostPattern::DeepWildcard(parent) => {
            vec![format!("a.{parent}"), format!("a.b.{parent}"), parent.clone(), format!("x{parent}")]
        }
    }
}

/// Paths that fit, as they are sent.
fn beside_pattern(pattern: &PathPattern) -> Vec<String> {
    match pattern {
        PathPattern::Exact(path) | PathPattern::Prefix(path) | PathPattern::Beginning(path) => vec![encoded(path, b"/")],
        PathPattern::Regex(text) => {
            let made = samples(text).into_iter().map(|path| if path.starts_with('/') { path } else { format!("/{path}") });
            made.map(|path| encoded(&path, b"/")).collect()
        }
    }
}

/// A path and what lies just beside it.
fn beside_path(path: &str) -> Vec<String> {
    let bare = path.trim_end_matches('/');
    let mut all = vec![
        path.to_owned(),
        format!("{bare}/"),
        format!("{bare}/x"),
        format!("{bare}x"),
        format!("{bare}//x"),
        format!("/{path}"),
        format!("{bare}/./x"),
        format!("{bare}/../x"),
        format!("/x/..{path}"),
        format!("{bare}/."),
        format!("{bare}%2Fx"),
        format!("{bare};a=b"),
        format!("{bare}.php"),
        format!("{bare}/.hidden"),
        format!("{bare}?a=1"),
        path.to_ascii_uppercase(),
    ];
    if let Some((at, last)) = bare.char_indices().next_back().filter(|(_, last)| last.is_ascii_alphanumeric()) {
        all.extend([bare.to_owned(), bare[..at].to_owned(), format!("{}%{:02X}", &bare[..at], last as u32)]);
    }
    all
}

/// Texts that fit, and texts just beside them.
fn beside_text(pattern: &TextPattern) -> Vec<String> {
    let all: Vec<String> = match pattern {
        TextPattern::Present => vec!["x".to_owned()],
        TextPattern::Exact(text) => vec![text.clone(), format!("{text}x"), text.to_ascii_uppercase()],
        TextPattern::Prefix(text) => vec![text.clone(), format!("{text}x"), format!("x{text}")],
        TextPattern::Suffix(text) => vec![text.clone(), format!("x{text}"), format!("{text}x")],
        TextPattern::Regex(text) => {
            let made = samples(text);
            made.iter().cloned().chain(made.iter().map(|text| format!("x{text}"))).collect()
        }
    };
    all.into_iter().filter(|text| text.bytes().all(|byte| (b' '..0x7f).contains(&byte))).collect()
}

/// Percent-encoded but for letters, digits, `-._~` and these.
fn encoded(text: &str, but: &[u8]) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || but.contains(&byte) {
            written.push(char::from(byte));
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::boundaries;
    use std::path::Path;
    use tidegate_config::{Environment, load_with};

    fn asked(text: &str) -> Vec<String> {
        let loaded = load_with("", &format!("edition \"2026\"\n{text}"), Path::new("/"), &Environment::Process);
        let configuration = loaded.configuration.expect("a configuration");
        let found = boundaries(&configuration);
        let field = |field: &Option<(String, String)>| {
            field.as_ref().map(|(name, value)| format!(" {name}: {value}")).unwrap_or_default()
        };
        found.requests.iter().map(|own| format!("{} {}{}{}", own.method, own.host, own.target, field(&own.field))).collect()
    }

    #[test]
    fn each_boundary_is_asked_about() {
        let check = |text: &str, expected: &[&str]| {
            let asked = asked(text);
            for one in expected {
                assert!(asked.iter().any(|own| own == one), "{one} is not among {asked:#?}");
            }
        };
        check(
            "site \"http://a.test\" { route \"/api/*\" { respond 200; }; respond 404; }",
            &[
                "GET a.test/api/",
                "GET a.test/api",
                "GET a.test/ap",
                "GET a.test/apix",
                "GET a.test/ap%69",
                "POST a.test/api/",
                "GET x.a.test/",
                "GET nobody.invalid/",
            ],
        );
        check(
            "site \"http://a.test\" { route { match method=\"PUT\" header=\"X-Key: one\" query=\"q=a b\" cookie=\"c=1\"; respond 403; }; respond 404; }",
            &[
                "PUT a.test/",
                "put a.test/",
                "GET a.test/ x-key: one",
                "GET a.test/ x-key: onex",
                "GET a.test/?q=a%20b",
                "GET a.test/ Cookie: c=1",
            ],
        );
        check(
            "site \"http://:80\" { route \"~^/v[0-9]+/(a|b)$\" { match host=\"b.test\"; respond 403; }; respond 404; }",
            &["GET b.test/v0/a", "GET b.test/v0/b", "GET b.test/v00/a"],
        );
    }
}
