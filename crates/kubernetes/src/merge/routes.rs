//! Routes of a host: those of its paths, and what plain HTTP answers where there is HTTPS.

use super::Content;
use crate::fragment::{BackendRoute, PathRoute, Target};
use crate::reference::ServiceAtPort;
use crate::settings::Settings;
use std::cell::RefCell;
use std::collections::BTreeSet;
use tidegate_model::{PathPattern, Placeholder, PoolName, Route, RouteRetry, Template, TemplatePart, Terminal};

/// Where a CA looks for the answer to its challenge, over plain HTTP and without following anything.
const ACME_CHALLENGES: &str = "/.well-known/acme-challenge";

pub(super) struct Routes<'r> {
    pub content: &'r Content<'r>,
    pub settings: &'r Settings,
    pub names: &'r dyn Fn(&ServiceAtPort) -> PoolName,
    /// Ports that some route leads to.
    pub led_to: RefCell<BTreeSet<ServiceAtPort>>,
}

/// Where requests go that neither a path nor the host's own default takes.
fn default_backend(content: &Content<'_>, settings: &Settings) -> Option<ServiceAtPort> {
    let (service, port) = settings.default_backend.as_ref().filter(|_| content.rest.is_none())?;
    Some(ServiceAtPort { service: service.clone(), port: port.clone() })
}

impl Routes<'_> {
    /// In the order in which they are tried.
    pub fn all(&self) -> Vec<Route> {
        let mut routes: Vec<Route> = self.content.paths.iter().map(|path| self.of_path(path.it)).collect();
        if let Some(rest) = self.content.rest {
            routes.push(self.of_backend(rest.it, Vec::new()));
        } else if let Some(reference) = default_backend(self.content, self.settings) {
            routes.push(Route::of_all(self.proxy(&reference)));
        } else if routes.is_empty() {
            routes.push(Route::of_all(respond(404)));
        }
        routes
    }

    /// Of plain HTTP: answers to challenges, and everything else at the same address of HTTPS.
    pub fn leading_to_https(&self) -> Vec<Route> {
        let placeholders = [Placeholder::Host, Placeholder::Uri].map(TemplatePart::Placeholder);
        let parts = [TemplatePart::Literal("https://".to_owned())].into_iter().chain(placeholders).collect();
        let to_https = Route::of_all(Terminal::Redirect { to: Template { parts }, status: 308, prefix: None });
        self.challenges().chain([to_https]).collect()
    }

    /// Of plain HTTP where nothing can be encrypted: answers to challenges, without which that would not change, and
    /// what Ingresses say that do not ask for TLS.
    pub fn shut(&self) -> Vec<Route> {
        let Content { paths, rest, .. } = self.content;
        let mut routes: Vec<Route> = self.challenges().collect();
        let others = || paths.iter().filter(|path| !is_challenge(path.it));
        if others().any(|path| !path.wants_tls) {
            let shut = |path: &PathRoute| ended(&path.route, vec![path.pattern.clone()], respond(503));
            routes.extend(others().map(|path| if path.wants_tls { shut(path.it) } else { self.of_path(path.it) }));
        }
        match rest {
            Some(rest) if !rest.wants_tls => routes.push(self.of_backend(rest.it, Vec::new())),
            Some(_) | None => routes.push(Route::of_all(respond(503))),
        }
        routes
    }

    fn challenges(&self) -> impl Iterator<Item = Route> {
        self.content.paths.iter().filter(|path| is_challenge(path.it)).map(|path| self.of_path(path.it))
    }

    fn of_path(&self, path: &PathRoute) -> Route {
        self.of_backend(&path.route, vec![path.pattern.clone()])
    }

    fn of_backend(&self, route: &BackendRoute, paths: Vec<PathPattern>) -> Route {
        let terminal = match &route.target {
            Target::Service(reference) => self.proxy(reference),
            Target::Unusable => respond(503),
        };
        ended(route, paths, terminal)
    }

    fn proxy(&self, reference: &ServiceAtPort) -> Terminal {
        self.led_to.borrow_mut().insert(reference.clone());
        Terminal::Proxy { pool: (self.names)(reference), retry: RouteRetry::OfPool, rewrites_location: false }
    }
}

fn ended(route: &BackendRoute, paths: Vec<PathPattern>, terminal: Terminal) -> Route {
    Route { origin: Some(route.origin.clone()), paths, ..Route::of_all(terminal) }
}

fn is_challenge(path: &PathRoute) -> bool {
    path.place.text.starts_with(ACME_CHALLENGES)
}

fn respond(status: u16) -> Terminal {
    Terminal::Respond { status, body: Template::default(), content_type: None }
}
