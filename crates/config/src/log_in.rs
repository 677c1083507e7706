//! What `basic-auth`, `jwt`, `oidc`, `api-key` and `forward-auth` mean for the other lines: `{auth.user}` and
//! `{jwt.…}` say nothing where nobody logs in. Warnings only; which step runs when is decided in the model
//! (`step_order`).

use crate::diagnostics::{Diagnostic, Location};
use crate::lowering::Lowering;
use crate::syntax::{Entry, Literal, Node};

/// What matters of one line of a site or a route.
#[derive(Debug)]
struct Mark {
    what: What,
    at: Location,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    LogIn,
    /// `basic-auth "off"`
    NoLogIn,
    /// `{auth.user}`, or `{jwt.…}`
    Name,
    /// A condition of the route itself, which is looked at before its own lines.
    OfRoute,
}

/// What placeholders tell of who has logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// `{auth.user}`, by any of them.
    Name,
    /// `{jwt.…}`, by a token.
    Claims,
}

impl Told {
    fn is_by(self, directive: &str) -> bool {
        matches!(directive, "jwt" | "oidc")
            || self == Told::Name && matches!(directive, "basic-auth" | "api-key" | "forward-auth")
    }

    fn is_in(self, text: &str) -> bool {
        match self {
            Told::Name => text.contains("{auth.user}"),
            Told::Claims => text.contains("{jwt."),
        }
    }
}

/// What the lines of a block have to do with who has logged in.
fn marks(nodes: &[Node], told: Told) -> Vec<Mark> {
    let mut marks = Vec::new();
    for node in nodes {
        let is_off =
            || node.entries.iter().any(|entry| entry.name.is_none() && entry.value.literal == Literal::Text("off".into()));
        match node.name.text.as_str() {
            // A route has marks of its own.
            "route" => continue,
            // Of its ways, those that do not tell anything stand beside one that does.
            "auth" => {
                let ways = node.children.as_deref().unwrap_or_default();
                if ways.iter().any(|way| told.is_by(&way.name.text)) {
                    marks.push(Mark { what: What::LogIn, at: node.location.clone() });
                }
            }
            name if told.is_by(name) => {
                let what = if is_off() { What::NoLogIn } else { What::LogIn };
                marks.push(Mark { what, at: node.location.clone() });
            }
            "match" => {
                marks.extend(place_of_name(node, told).map(|at| Mark { what: What::OfRoute, at }));
                continue;
            }
            _ => {}
        }
        marks.extend(place_of_name(node, told).map(|at| Mark { what: What::Name, at }));
    }
    marks
}

/// Where such a placeholder stands first in a line or in its block.
fn place_of_name(node: &Node, told: Told) -> Option<Location> {
    let is_condition = |entry: &Entry| told == Told::Claims && entry.name.as_ref().is_some_and(|name| name.text == "claim");
    let is_match = node.name.text == "match";
    let of_entry = node.entries.iter().find(|entry| {
        let is_told = matches!(&entry.value.literal, Literal::Text(text) if told.is_in(&text.replace("{{", "")));
        is_told || is_match && is_condition(entry)
    });
    let of_entry = of_entry.map(|entry| entry.value.location.clone());
    of_entry.or_else(|| node.children.iter().flatten().find_map(|child| place_of_name(child, told)))
}

/// Warns, of the lines of a site, of what is about who has logged in where nobody does.
pub fn check(lowering: &mut Lowering<'_>, nodes: &[Node]) {
    check_told(lowering, nodes, Told::Name);
    check_told(lowering, nodes, Told::Claims);
}

fn check_told(lowering: &mut Lowering<'_>, nodes: &[Node], told: Told) {
    let of_site = &*marks(nodes, told);
    let routes = nodes.iter().filter(|node| node.name.text == "route");
    let of_routes: Vec<Vec<Mark>> = routes.map(|route| marks(route.children.as_deref().unwrap_or_default(), told)).collect();
    // The last one that is written counts, and a route's in place of its site's.
    let is_log_in = |what: &What| matches!(what, What::LogIn | What::NoLogIn);
    let last = |marks: &[Mark]| marks.iter().rev().map(|mark| mark.what).find(is_log_in);
    let of_site_is_known = last(of_site) == Some(What::LogIn);
    let is_known = of_site.iter().chain(of_routes.iter().flatten()).any(|mark| mark.what == What::LogIn);
    judge(lowering, told, of_site, is_known);
    for of_route in &of_routes {
        for mark in of_route.iter().filter(|mark| mark.what == What::OfRoute && !of_site_is_known) {
            let message = "this never holds: routes are chosen by what the `jwt` of their site has verified, and there is none";
            let diagnostic = Diagnostic::warning("nobody-logged-in", mark.at.clone(), message);
            lowering.report(diagnostic.help("put `jwt` into the site; `optional=#true` lets in who has no token"));
        }
        judge(lowering, told, of_route, last(of_route).or_else(|| last(of_site)) == Some(What::LogIn));
    }
}

/// One block, where somebody has logged in or nobody has.
fn judge(lowering: &mut Lowering<'_>, told: Told, marks: &[Mark], is_known: bool) {
    for mark in marks.iter().filter(|mark| mark.what == What::Name && !is_known) {
        let (message, help) = match told {
            Told::Name => {
                let message = "`{auth.user}` is always empty here: nobody has logged in";
                (message, "add `basic-auth`, `jwt`, `oidc` or `api-key` to the site or the route")
            }
            Told::Claims => {
                ("claims are always empty here: no token was verified", "add `jwt` or `oidc` to the site or the route")
            }
        };
        lowering.report(Diagnostic::warning("nobody-logged-in", mark.at.clone(), message).help(help));
    }
}
