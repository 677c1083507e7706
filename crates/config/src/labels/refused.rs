//! What becomes of an offer that is refused. Nobody may come in by a wider one of the same host to what it names: that
//! is answered with 503 for as long as the host is served at all, where and as early as the offer itself would be.

use super::native::answers;
use super::offer::{Offer, Standing};
use super::reach::Reach;
use super::tree::{Fill, line, number, text};
use crate::diagnostics::{Diagnostic, Location};
use crate::syntax::Node;
use std::sync::Arc;
use tidegate_model::{ContainerGroup, Route, SiteAddress};

/// What its routes are called in the log, with the name of the router or of the section behind it.
pub const REFUSED: &str = "router_refused";
/// Addresses that a message names.
const NAMED_MAX: usize = 3;

impl Offer {
    /// The offer as what is not served.
    #[must_use]
    pub fn refused(mut self) -> Offer {
        self.reaches.extend(self.addresses.drain(..).map(|(address, _)| Reach::of_address(&address)));
        self.standing = Standing::Refused;
        // Patterns that nobody can read may be any.
        if self.patterns.as_ref().is_some_and(Vec::is_empty) {
            return self.blunt();
        }
        let content = std::mem::take(&mut self.content);
        self.content = shut(content, &self.at);
        self
    }

    /// As what shuts all of its hosts, since which part of them it is about is not known.
    #[must_use]
    pub fn blunt(mut self) -> Offer {
        (self.patterns, self.conditions, self.priority) = (None, Vec::new(), Some(i64::MAX));
        self.content = vec![answer(&self.at)];
        self
    }

    /// Of labels that nobody can read, with all that they say.
    pub fn unreadable(group: &Arc<ContainerGroup>, name: &str, said: &str, or_all: bool, at: Location) -> Offer {
        Offer {
            group: group.clone(),
            name: name.to_owned(),
            addresses: Vec::new(),
            reaches: vec![Reach::named(said, or_all)],
            standing: Standing::Refused,
            patterns: None,
            conditions: Vec::new(),
            priority: Some(i64::MAX),
            content: vec![answer(&at)],
            at,
        }
    }

    /// What its route is called where it is refused.
    pub fn route_name(&self) -> Option<String> {
        if self.standing == Standing::Served {
            return None;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        // The name of a section or of a router stands between the dialect and a number.
        let is_name = |word: &&str| !matches!(*word, "" | "traefik" | "nginx-proxy") && word.parse::<usize>().is_err();
        let own = self.name.split(' ').find(is_name);
        let own = own.unwrap_or(self.container());
        let own: String = own.chars().map(|c| if is_part(c) { c } else { '-' }).collect();
        Some(format!("{REFUSED}/{own}").chars().take(Route::NAME_BYTES_MAX).collect())
    }
}

/// As early as before, and with an answer that says nothing.
fn shut(content: Vec<Node>, at: &Location) -> Vec<Node> {
    if content.iter().any(answers) {
        return vec![answer(at)];
    }
    let parts = content.into_iter().filter(|node| node.name.text == "route");
    let parts = parts.map(|mut route| {
        let (conditions, rest): (Vec<Node>, Vec<Node>) =
            route.children.take().unwrap_or_default().into_iter().partition(|node| node.name.text == "match");
        let inside = shut(rest, at);
        route.block(conditions.into_iter().chain(inside).collect())
    });
    let parts: Vec<Node> = parts.collect();
    if parts.is_empty() { vec![answer(at)] } else { parts }
}

/// Calls a route, and all within it, by that name.
pub fn called(mut node: Node, name: &str) -> Node {
    let within = node.children.take().unwrap_or_default();
    let within = within.into_iter().map(|child| if child.name.text == "route" { called(child, name) } else { child });
    node.entries.retain(|entry| entry.name.is_none());
    let at = node.location.clone();
    node.block(within.collect()).property("name", text(name, &at))
}

fn answer(at: &Location) -> Node {
    line("respond", at).argument(number(503, at))
}

/// What is to be known of an offer that is refused, and of which something is shut.
pub fn told(offer: &Offer, addresses: &[&SiteAddress]) -> Diagnostic {
    let named: Vec<String> = addresses.iter().take(NAMED_MAX).map(|address| format!("`{address}`")).collect();
    let more = match addresses.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let name = offer.route_name().unwrap_or_default();
    let claims = offer.claims().iter().filter(|claim| !claim.is_empty()).map(|claim| format!("`{claim}`")).collect::<Vec<_>>();
    let what = if claims.is_empty() { "what it takes".to_owned() } else { claims.join(" and ") };
    let message = format!("it is refused, so {what} of {}{more}, which is served, is answered with 503", named.join(" and "));
    Diagnostic::warning("router-refused", offer.at.clone(), message)
        .help(format!("its requests are `{name}` in the access log; they are served once the fault is mended"))
}
