//! Routes of a host: those of its paths, and what plain HTTP answers where there is HTTPS.

use super::extras::{pages_of_nobody, with_extras};
use super::guards::guarded;
use super::protections::lacks;
use super::shares::{Share, shared};
use super::snippets::{answers_first, stepped};
use super::variants::limited;
use super::{AppRoot, Content, HostTls, Material, Member, Owned, TakenPath};
use crate::annotations::with_query;
use crate::fragment::{PathRoute, Target};
use crate::header_map::{HeaderMapForm, fields};
use crate::manner::{Manner, MannerAuth, MannerRewrite, ManneredRedirect, ToHttps};
use crate::reference::ServiceAtPort;
use crate::settings::Settings;
use crate::snippets::{BranchEnd, SnippetSteps};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_cluster::Key;
use tidegate_model::{
    AuthAny, AuthUsers, BasicAuth, Condition, ConditionKind, Field, HeaderChange, HeaderOperation, HeaderStep, HostPattern,
    MatchLine, Origin, PathPattern, Placeholder, Pool, PoolName, Route, RouteOptions, RouteRetry, Scheme, Step, Template,
    TemplatePart, Terminal, TextPattern,
};

/// Where a CA looks for the answer to its challenge, over plain HTTP and without following anything.
const ACME_CHALLENGES: &str = "/.well-known/acme-challenge";

/// Of a rewrite to a URL, as nginx has it.
const REWRITTEN_ELSEWHERE: u16 = 302;

pub(super) struct Routes<'r> {
    /// By which requests come.
    pub scheme: Scheme,
    pub host: &'r HostPattern,
    pub content: &'r Content<'r>,
    pub settings: &'r Settings,
    pub known: Material<'r>,
    pub trusts_scheme: bool,
    pub names: &'r dyn Fn(&ServiceAtPort) -> PoolName,
    /// Ports that some route leads to.
    pub led_to: &'r RefCell<BTreeSet<ServiceAtPort>>,
    /// Pools of servers that are no Service.
    pub outside: &'r RefCell<BTreeMap<PoolName, Arc<Pool>>>,
}

/// What becomes of a request in plain HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InPlainHttp {
    Served,
    LedToHttps(Leading),
    /// Not answered, since it was to be encrypted and nothing can be.
    Shut,
}

/// How requests are led to HTTPS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leading {
    /// Whether the port is named, though it is the usual one.
    names_port: bool,
    is_logged: bool,
}

impl Leading {
    const USUAL: Leading = Leading { names_port: false, is_logged: true };
}

impl Routes<'_> {
    /// Whether plain HTTP answers what HTTPS does.
    pub fn are_alike(&self) -> bool {
        let Content { paths, rest, guard, tls, defaults, .. } = self.content;
        let has_hsts = defaults.hsts.is_some() && tls.is_asked_for();
        if guard.is_some() || has_hsts {
            return false;
        }
        let mut owned = paths.iter().map(|path| path.owned).chain(*rest).map(|owned| self.in_plain_http(owned)).peekable();
        match owned.peek() {
            Some(_) => owned.all(|one| one == InPlainHttp::Served),
            None => self.of_nobody() == InPlainHttp::Served,
        }
    }

    /// In the order in which they are tried.
    pub fn all(&self) -> Vec<Route> {
        let Content { paths, rest, .. } = self.content;
        let mut routes = self.of_server();
        routes.extend(self.of_root());
        routes.extend((0..paths.len()).flat_map(|place| self.at(place)));
        match rest {
            Some(rest) => routes.extend(self.of_rest(*rest)),
            None => match self.of_default_backend() {
                Some(last) => routes.extend(last),
                None => routes.extend(self.of_nothing()),
            },
        }
        routes
    }

    /// What plain HTTP answers where that is not the same. Challenges go first: without their answers there would be no
    /// certificate.
    pub fn of_plain_http(&self) -> Vec<Route> {
        let Content { paths, rest, .. } = self.content;
        let (challenges, others): (Vec<usize>, Vec<usize>) = (0..paths.len()).partition(|place| is_unredirected(&paths[*place]));
        let of_others = self.of_nobody();
        let mut routes = if of_others == InPlainHttp::Shut { Vec::new() } else { self.of_server() };
        routes.extend(challenges.into_iter().flat_map(|place| self.at(place)));
        let mut owned = others.iter().map(|place| paths[*place].owned).chain(*rest);
        let is_alike = |owned: Owned<'_>| {
            self.in_plain_http(owned) == of_others
                && !(matches!(of_others, InPlainHttp::LedToHttps(_)) && answers_first(&owned.fragment.manner))
        };
        let is_one = owned.all(is_alike);
        if !is_one {
            routes.extend(self.of_root());
            for path_place in others {
                let path = &paths[path_place];
                let here = self.in_plain_http(path.owned);
                let place = Place { origin: Some(path.owned.route.origin.clone()), paths: vec![path.pattern()] };
                let manner = Some(&*path.owned.fragment.manner);
                self.put_in_plain_http(&mut routes, here, (place, manner), || self.at(path_place));
            }
        }
        let here = if is_one { of_others } else { rest.map_or(of_others, |rest| self.in_plain_http(rest)) };
        if is_one && here == InPlainHttp::Served {
            return self.all();
        }
        if is_one
            && self.trusts_scheme
            && let InPlainHttp::LedToHttps(leading) = here
        {
            routes.push(self.to_https(Place::default(), leading));
            routes.extend(self.all());
            return routes;
        }
        let manner = rest.as_ref().map(|rest| &*rest.fragment.manner).filter(|_| !is_one);
        self.put_in_plain_http(&mut routes, here, (Place::default(), manner), || match rest {
            Some(rest) => self.of_rest(*rest),
            None => self
                .of_default_backend()
                .unwrap_or_else(|| vec![self.of_nothing().unwrap_or_else(|| Route::of_all(respond(404)))]),
        });
        routes
    }

    fn put_in_plain_http(
        &self,
        routes: &mut Vec<Route>,
        here: InPlainHttp,
        (place, manner): (Place, Option<&Manner>),
        own: impl FnOnce() -> Vec<Route>,
    ) {
        match here {
            InPlainHttp::Served => routes.extend(own()),
            InPlainHttp::Shut => routes.push(place.route(respond(503))),
            InPlainHttp::LedToHttps(leading) => {
                routes.extend(self.led_to_https(manner, place, leading));
                if self.trusts_scheme {
                    routes.extend(own());
                }
            }
        }
    }

    fn in_plain_http(&self, Owned { fragment, .. }: Owned<'_>) -> InPlainHttp {
        let Manner { to_https, names_port, options, .. } = &*fragment.manner;
        let led = InPlainHttp::LedToHttps(Leading { names_port: *names_port, is_logged: options.log.is_on != Some(false) });
        match (*to_https, self.of_nobody()) {
            (ToHttps::Never, _) => InPlainHttp::Served,
            (ToHttps::WhereTls, InPlainHttp::Shut) if !fragment.wants_tls() => InPlainHttp::Served,
            (ToHttps::WhereTls, InPlainHttp::LedToHttps(_)) => led,
            (ToHttps::WhereTls, of_nobody) => of_nobody,
            (ToHttps::Always, InPlainHttp::Shut) if fragment.wants_tls() => InPlainHttp::Shut,
            // Who says so may have TLS somewhere in front.
            (ToHttps::Always, _) => led,
        }
    }

    /// Of what no Ingress says anything.
    fn of_nobody(&self) -> InPlainHttp {
        match self.content.tls {
            // Where HTTPS comes in elsewhere, there is nothing to lead to.
            HostTls::Served { .. } | HostTls::Obtained(_) | HostTls::PassedOn | HostTls::Shut
                if self.settings.https.is_none() =>
            {
                InPlainHttp::Served
            }
            HostTls::Plain { .. } => InPlainHttp::Served,
            HostTls::Served { .. } | HostTls::Obtained(_) | HostTls::PassedOn => InPlainHttp::LedToHttps(Leading::USUAL),
            HostTls::Shut => InPlainHttp::Shut,
        }
    }

    /// To the same address of HTTPS, unless somebody who is trusted says that the client has come by that.
    pub(super) fn to_https(&self, place: Place, Leading { names_port, is_logged }: Leading) -> Route {
        let [host, uri] = [Placeholder::Host, Placeholder::Uri].map(TemplatePart::Placeholder);
        let port = names_port.then(|| TemplatePart::Literal(format!(":{}", Scheme::Https.default_port())));
        let parts = [TemplatePart::Literal("https://".to_owned()), host].into_iter().chain(port).chain([uri]).collect();
        let field = Field { name: "x-forwarded-proto".to_owned(), value: TextPattern::Exact("https".to_owned()) };
        let condition = Condition { negated: true, kind: ConditionKind::Header(field) };
        let matches = if self.trusts_scheme { vec![MatchLine { conditions: vec![condition] }] } else { Vec::new() };
        let of_members = self.content.paths.iter().map(|path| path.owned).chain(self.content.rest);
        let status = of_members.map(|owned| owned.fragment.manner.defaults.to_https_status).next().unwrap_or(308);
        let terminal = Terminal::Redirect { to: Template { parts }, status, prefix: None };
        let mut options = RouteOptions::default();
        options.log.is_on = (!is_logged).then_some(false);
        Route { matches, options, ..place.route(terminal) }
    }

    /// Of the path there.
    fn at(&self, place: usize) -> Vec<Route> {
        self.of_path(&self.content.paths[place])
    }

    /// Where `/` leads.
    fn of_root(&self) -> Vec<Route> {
        let Some(AppRoot { to, origin }) = self.content.app_root else { return Vec::new() };
        let terminal = Terminal::Redirect { to: to.clone(), status: 302, prefix: None };
        let root = Place { origin: Some(origin.clone()), paths: vec![PathPattern::Exact("/".to_owned())] };
        self.guarded(vec![root.route(terminal)])
    }

    fn of_path(&self, taken: &TakenPath<'_>) -> Vec<Route> {
        let TakenPath { written, path, expression, owned, is_shut, canary, is_below: _ } = taken;
        if *is_shut {
            let place = Place { origin: Some(owned.route.origin.clone()), paths: vec![taken.pattern()] };
            return vec![place.route(respond(503))];
        }
        let manner = &*owned.fragment.manner;
        let rewritten = Rewritten::of(written, *owned);
        let routes = self.of_owned(*owned, vec![taken.pattern()], rewritten, is_unasked(taken));
        let mut routes = match canary {
            Some(canary) => self.shared(routes, *owned, *canary),
            None => routes,
        };
        // Who wrote a code may have meant what it stands for, and that is not to be had past what protects it.
        if let Some(decoded) = path.decoded.as_ref().filter(|_| expression.is_none() && manner.protects()) {
            let place = Place { origin: Some(owned.route.origin.clone()), paths: vec![decoded.clone()] };
            routes.push(place.route(respond(503)));
        }
        // An authority that asks has no certificate to show.
        if is_challenge(taken) && manner.clients.is_none() { routes } else { self.guarded(routes) }
    }

    /// As the path `/` of the oldest Ingress.
    fn of_rest(&self, owned: Owned<'_>) -> Vec<Route> {
        let rewrite = &owned.fragment.manner.rewrite;
        let to = rewrite.to.as_ref().filter(|_| *self.host != HostPattern::Any && &*rewrite.target != "/");
        let rewritten = to.map(|to| Rewritten::by(None, found_by(&with_query(to.at(owned.route.target.service())), 0), owned));
        self.guarded(self.of_owned(owned, Vec::new(), rewritten, false))
    }

    fn of_default_backend(&self) -> Option<Vec<Route>> {
        let (service, port) = self.settings.default_backend.clone()?;
        let last = Route::of_all(self.proxy(&ServiceAtPort { service, port, manner: None }, &RouteRetry::OfPool));
        let go_on = |_: &BranchEnd, steps: &SnippetSteps| vec![stepped(last.clone(), steps)];
        Some(self.guarded(self.branched(&Manner::default(), &Place::default(), go_on)))
    }

    /// Who answers what nobody has; `None`: that is not found, and nobody answers it.
    fn of_nothing(&self) -> Option<Route> {
        let Content { paths, oldest, guard, .. } = self.content;
        let mut route = Route::of_all(respond(404));
        if let Some(Member { age, fragment }) = oldest.filter(|_| guard.is_none()) {
            let last = self.settings.default_backend.clone();
            let last = last.map(|(service, port)| ServiceAtPort { service, port, manner: None });
            let origin = age.origin();
            route.options.error_pages =
                pages_of_nobody(&fragment.manner, &origin, last.as_ref(), |reference| self.pool(reference));
            route.origin = Some(Arc::new(origin)).filter(|_| !route.options.error_pages.is_empty());
        }
        (paths.is_empty() || !route.options.error_pages.is_empty()).then_some(route)
    }

    fn of_owned(&self, owned: Owned<'_>, paths: Vec<PathPattern>, rewritten: Option<Rewritten>, is_unasked: bool) -> Vec<Route> {
        let place = Place { origin: Some(owned.route.origin.clone()), paths };
        if self.is_shut(owned) {
            return vec![place.route(respond(503))];
        }
        self.branched(&owned.fragment.manner, &place, |end, steps| {
            let rewritten = match end {
                BranchEnd::Unchanged => None,
                BranchEnd::Rewritten(step) => Some(Rewritten { steps: vec![step.clone()], elsewhere: None }),
                BranchEnd::GoesOn | BranchEnd::Answered(_) => rewritten.clone(),
            };
            self.going_on(owned, place.clone(), rewritten, is_unasked, steps)
        })
    }

    fn going_on(
        &self,
        owned: Owned<'_>,
        place: Place,
        rewritten: Option<Rewritten>,
        is_unasked: bool,
        snippet: &SnippetSteps,
    ) -> Vec<Route> {
        let Owned { route, fragment, .. } = owned;
        let Manner { redirect, steps, limits, auth, forward_auth, is_one_enough, .. } = &*fragment.manner;
        let asked = forward_auth.as_ref().filter(|_| !is_unasked).and_then(|auth| self.forward_auth(auth));
        let auth = auth.as_ref().filter(|_| !is_unasked).and_then(|auth| self.basic_auth(auth));
        let Rewritten { steps: rewriting, elsewhere } = rewritten.unwrap_or_default();
        let redirect = redirect.as_ref().map(|ManneredRedirect { to, status }| (to.at(route.target.service()), *status));
        let redirect = redirect.or_else(|| elsewhere.map(|to| (to, REWRITTEN_ELSEWHERE)));
        let terminal = match (redirect, &route.target) {
            (Some((to, status)), _) => Terminal::Redirect { to, status, prefix: None },
            (None, Target::Service(reference)) => self.proxy(reference, &fragment.manner.retry),
            (None, Target::Unusable) => return vec![place.route(respond(503))],
        };
        let host = upstream_host(owned).filter(|_| matches!(terminal, Terminal::Proxy { .. }));
        let told = self.told(&fragment.manner);
        let kept = kept(steps, auth.into_iter().chain(asked).collect(), *is_one_enough);
        let steps = kept.into_iter().chain(told).chain(host).chain(rewriting).collect();
        let route = Route { steps, options: self.options(owned), ..place.route(terminal) };
        limited(stepped(route, snippet), limits)
    }

    fn options(&self, owned: Owned<'_>) -> RouteOptions {
        let last = self.settings.default_backend.clone();
        let last = last.map(|(service, port)| ServiceAtPort { service, port, manner: None });
        with_extras(owned, last.as_ref(), |reference| self.pool(reference))
    }

    /// Whether nothing of it is answered.
    fn is_shut(&self, Owned { fragment, is_shut, .. }: Owned<'_>) -> bool {
        let manner = &*fragment.manner;
        let is_unasked = || manner.forward_auth.as_ref().is_some_and(|auth| !self.can_ask(auth));
        is_shut || manner.is_shut || lacks(manner, self.known).next().is_some() || is_unasked()
    }

    /// With the share of the canary. Of what is answered here it has none.
    fn shared(&self, routes: Vec<Route>, owned: Owned<'_>, canary: Owned<'_>) -> Vec<Route> {
        let manner = &*owned.fragment.manner;
        let is_redirect = |route: &Route| matches!(route.terminal, Terminal::Redirect { .. });
        let (Some(wanted), Target::Service(own), false) =
            (&canary.fragment.manner.canary, &owned.route.target, routes.iter().any(is_redirect))
        else {
            return routes;
        };
        if self.is_shut(owned) {
            return routes;
        }
        let end = match &canary.route.target {
            Target::Service(reference) if !self.is_shut(canary) => self.proxy(reference, &manner.retry),
            Target::Service(_) | Target::Unusable => respond(503),
        };
        let sticky = own.manner.as_ref().and_then(|manner| manner.sticky.as_ref()).filter(|_| manner.keeps_share);
        let share = Share { canary: wanted, end, sticky };
        // What a snippet answers goes nowhere.
        let several = |route: Route| match &route.terminal {
            Terminal::Proxy { .. } => shared(vec![route], &share),
            Terminal::Respond { .. }
            | Terminal::Redirect { .. }
            | Terminal::Files(_)
            | Terminal::FastCgi(_)
            | Terminal::Split(_) => vec![route],
        };
        routes.into_iter().flat_map(several).collect()
    }

    /// What servers and clients are told beside what is sent. Without it nothing of the Ingress is answered.
    fn told(&self, manner: &Manner) -> Vec<Step> {
        let of = |key: Option<&Key>, form: HeaderMapForm| -> Vec<HeaderChange> {
            key.and_then(|key| fields(self.known.maps, key, form)?.ok()).unwrap_or_default()
        };
        let said = |(name, placeholder): &(&str, Placeholder)| HeaderChange {
            operation: HeaderOperation::Set,
            name: (*name).to_owned(),
            value: Template { parts: vec![TemplatePart::Placeholder(placeholder.clone())] },
        };
        let mut of_request = Vec::new();
        if manner.defaults.tells_client {
            of_request.extend(client_fields().iter().map(said));
        }
        of_request.extend(of(manner.defaults.request_headers.as_ref(), HeaderMapForm::OfRequests));
        if manner.defaults.tells_original_uri {
            of_request.push(said(&("X-Original-URI", Placeholder::AskedUri)));
        }
        let of_answer = of(manner.custom_headers.as_ref(), HeaderMapForm::Literal);
        let of_request = (!of_request.is_empty()).then(|| Step::RequestHeader(HeaderStep::from(of_request)));
        let of_answer = (!of_answer.is_empty()).then(|| Step::ResponseHeader(HeaderStep::from(of_answer)));
        of_request.into_iter().chain(of_answer).collect()
    }

    /// For those of its clients alone who may come there.
    pub(super) fn guarded(&self, routes: Vec<Route>) -> Vec<Route> {
        match &self.content.guard {
            Some(guard) => guarded(routes, guard.clients, self.scheme),
            None => routes,
        }
    }

    /// `None`: nobody knows who may be let in.
    fn basic_auth(&self, MannerAuth { secret, form, realm }: &MannerAuth) -> Option<Step> {
        let users = self.known.pairs.get(secret)?.users(secret, *form)?.ok()?;
        let users = AuthUsers::Listed(users.to_vec());
        Some(Step::BasicAuth(Some(BasicAuth {
            realm: realm.clone(),
            users,
            // As ingress-nginx: servers do not see passwords.
            forwards: false,
            failures: Some(BasicAuth::FAILURES),
        })))
    }

    /// The pool of the port, which something leads to from now on.
    pub(super) fn pool(&self, reference: &ServiceAtPort) -> PoolName {
        self.led_to.borrow_mut().insert(reference.clone());
        (self.names)(reference)
    }

    fn proxy(&self, reference: &ServiceAtPort, retry: &RouteRetry) -> Terminal {
        Terminal::Proxy { pool: self.pool(reference), retry: retry.clone(), rewrites_location: false }
    }
}

/// The steps with those by which clients log in. Where one is enough, an address that is let in is a way as these are;
/// without a log-in it is the only one.
fn kept(own: &[Step], log_ins: Vec<Step>, is_one_enough: bool) -> Vec<Step> {
    let own = own.iter().cloned();
    if !is_one_enough || log_ins.is_empty() {
        return own.chain(log_ins).collect();
    }
    let (mut ways, mut others): (Vec<Step>, Vec<Step>) = own.partition(|step| matches!(step, Step::Allow(_)));
    ways.extend(log_ins);
    if ways.len() == 1 {
        others.extend(ways);
    } else {
        others.push(Step::AuthAny(Some(AuthAny { ways })));
    }
    others
}

/// Which requests a route takes, and where it comes from.
#[derive(Clone, Default)]
pub(super) struct Place {
    origin: Option<Arc<Origin>>,
    paths: Vec<PathPattern>,
}

impl Place {
    pub(super) fn route(self, terminal: Terminal) -> Route {
        Route { origin: self.origin, paths: self.paths, ..Route::of_all(terminal) }
    }
}

/// What becomes of a path that an Ingress rewrites.
#[derive(Clone, Default)]
struct Rewritten {
    steps: Vec<Step>,
    /// Where clients are sent instead of being answered.
    elsewhere: Option<Template>,
}

impl Rewritten {
    /// What stands in the place of the path. Of a target that is the path itself, what goes on behind it, as with
    /// ingress-nginx, which has a prefix end with a slash unless `use-regex` is said.
    fn of(written: &PathRoute, owned: Owned<'_>) -> Option<Rewritten> {
        let MannerRewrite { target, to, .. } = &owned.fragment.manner.rewrite;
        let (to, expression) = to.as_ref().zip(written.expression.as_ref().ok())?;
        let ends_with_slash = written.text.ends_with('/') || owned.fragment.manner.has_expressions;
        let pattern = match (target == &written.text, written.is_prefix && !ends_with_slash) {
            (false, _) => expression.text.to_string(),
            (true, true) => format!("{}/", expression.text),
            (true, false) => return None,
        };
        let service = owned.route.target.service();
        let to = found_by(&with_query(to.at(service)), expression.groups);
        Some(Rewritten::by(Some(pattern), to, owned))
    }

    /// With what servers are told of it.
    fn by(pattern: Option<String>, to: Template, owned: Owned<'_>) -> Rewritten {
        let Manner { rewrite, forwarded_prefix, .. } = &*owned.fragment.manner;
        let prefix = forwarded_prefix.as_ref().filter(|_| rewrite.origin.is_none());
        let prefix = prefix.map(|prefix| set("X-Forwarded-Prefix", prefix.at(owned.route.target.service())));
        Rewritten { steps: prefix.into_iter().chain([Step::Rewrite { pattern, to }]).collect(), elsewhere: elsewhere(rewrite) }
    }
}

/// Where clients are sent by the path that was made.
fn elsewhere(rewrite: &MannerRewrite) -> Option<Template> {
    let origin = rewrite.origin.as_ref()?;
    Some(Template { parts: vec![TemplatePart::Literal(origin.to_string()), TemplatePart::Placeholder(Placeholder::Uri)] })
}

/// Fields in which ingress-nginx tells servers of a client. The last is empty, and none is sent, where no peer that is
/// believed has sent `X-Forwarded-For`.
fn client_fields() -> [(&'static str, Placeholder); 4] {
    [
        ("X-Real-IP", Placeholder::ClientIp),
        ("X-Scheme", Placeholder::Scheme),
        ("X-Forwarded-Scheme", Placeholder::Scheme),
        ("X-Original-Forwarded-For", Placeholder::RequestHeader("x-forwarded-for".to_owned())),
    ]
}

/// Whom servers are asked for, where that is not who the client has asked for.
fn upstream_host(owned: Owned<'_>) -> Option<Step> {
    let host = owned.fragment.manner.upstream_host.as_ref()?;
    Some(set("Host", host.at(owned.route.target.service())))
}

fn set(name: &str, value: Template) -> Step {
    let change = HeaderChange { operation: HeaderOperation::Set, name: name.to_owned(), value };
    Step::RequestHeader(HeaderStep::from(vec![change]))
}

/// What an expression with so many groups can find; nginx has nothing in the place of others.
fn found_by(to: &Template, groups: usize) -> Template {
    let is_found = |part: &&TemplatePart| match part {
        TemplatePart::Capture(number) => *number <= groups,
        TemplatePart::Literal(_) | TemplatePart::Placeholder(_) => true,
    };
    Template { parts: to.parts.iter().filter(is_found).cloned().collect() }
}

fn is_challenge(taken: &TakenPath<'_>) -> bool {
    let Some(token) = taken.path.place.text.strip_prefix(ACME_CHALLENGES) else { return false };
    // An expression may take anything else besides.
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_".contains(&byte));
    (token.is_empty() || token.starts_with('/')) && (taken.expression.is_none() || is_plain(token))
}

/// Whether plain HTTP answers it wherever there is HTTPS.
fn is_unredirected(taken: &TakenPath<'_>) -> bool {
    is_challenge(taken) || begins_with_one(taken, &taken.owned.fragment.manner.defaults.unredirected)
}

/// Whether its clients need not say who they are.
fn is_unasked(taken: &TakenPath<'_>) -> bool {
    begins_with_one(taken, &taken.owned.fragment.manner.defaults.unasked)
}

/// As the path is written: an expression that begins so may take more.
fn begins_with_one(taken: &TakenPath<'_>, beginnings: &[Box<str>]) -> bool {
    let text = taken.path.place.text.trim_start_matches("(?i)").trim_start_matches('^');
    let text = if text.is_empty() { "/" } else { text };
    beginnings.iter().any(|beginning| text.starts_with(&**beginning))
}

pub(super) fn respond(status: u16) -> Terminal {
    Terminal::Respond { status, body: Template::default(), content_type: None }
}
