//! What `basic-auth`, `jwt` and `forward-auth` mean for the steps before and behind them: `{auth.user}` and `{jwt.…}` say nothing
//! before them, and a browser's preflight does not get past them. Warnings only; which step runs when is decided in
//! `middleware`.

use crate::diagnostics::{Diagnostic, Location};
use crate::lowering::Lowering;
use crate::syntax::{Literal, Node};

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
    /// `{auth.user}`, or `{jwt.…}`, where the request is looked at, in its turn among the steps.
    NameInTurn,
    /// As before, where the request has been through all of its steps.
    NameAfterwards,
    Cors,
}

/// What placeholders tell of who has logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// `{auth.user}`, by any.
    Name,
    /// `{jwt.…}`, by a token alone.
    Claims,
}

impl Told {
    fn is_by(self, directive: &str) -> bool {
        directive == "jwt" || self == Told::Name && matches!(directive, "basic-auth" | "forward-auth")
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
        let what = match node.name.text.as_str() {
            // A route has marks of its own.
            "route" => continue,
            name if told.is_by(name) => Some(if is_off() { What::NoLogIn } else { What::LogIn }),
            // Told once, whoever refuses them.
            "cors" if told == Told::Name => Some(What::Cors),
            _ => None,
        };
        marks.extend(what.map(|what| Mark { what, at: node.location.clone() }));
        if let Some(at) = place_of_name(node, told) {
            let in_turn = matches!(
                node.name.text.as_str(),
                "request-header" | "rewrite" | "strip-prefix" | "add-prefix" | "rate-limit" | "concurrency-limit"
            );
            marks.push(Mark { what: if in_turn { What::NameInTurn } else { What::NameAfterwards }, at });
        }
    }
    marks
}

/// Where such a placeholder stands first in a line or in its block.
fn place_of_name(node: &Node, told: Told) -> Option<Location> {
    let of_entry = node
        .entries
        .iter()
        .find(|entry| matches!(&entry.value.literal, Literal::Text(text) if told.is_in(&text.replace("{{", ""))));
    let of_entry = of_entry.map(|entry| entry.value.location.clone());
    of_entry.or_else(|| node.children.iter().flatten().find_map(|child| place_of_name(child, told)))
}

/// Warns, of the lines of a site, of what is in front of `basic-auth` and should be behind it, or the other way round.
pub fn check(lowering: &mut Lowering<'_>, nodes: &[Node]) {
    check_told(lowering, nodes, Told::Name);
    check_told(lowering, nodes, Told::Claims);
}

fn check_told(lowering: &mut Lowering<'_>, nodes: &[Node], told: Told) {
    let of_site = &*marks(nodes, told);
    let routes = nodes.iter().filter(|node| node.name.text == "route");
    let of_routes: Vec<Vec<Mark>> = routes.map(|route| marks(route.children.as_deref().unwrap_or_default(), told)).collect();
    let is_about = |mark: &&Mark| matches!(mark.what, What::LogIn | What::NoLogIn);
    let somewhere = of_site.iter().chain(of_routes.iter().flatten()).any(|mark| mark.what == What::LogIn);
    judge(lowering, told, of_site, of_site.iter().rposition(|mark| mark.what == What::LogIn), somewhere);
    for of_route in &of_routes {
        // The last one that is written counts, and those of the site stand in front of all of the route.
        let own = of_route.iter().rposition(|mark| is_about(&mark));
        match own {
            Some(at) if of_route[at].what == What::LogIn => judge(lowering, told, of_route, Some(at), true),
            Some(_) => judge(lowering, told, of_route, None, false),
            None => {
                let before = of_site.iter().rfind(is_about).filter(|mark| mark.what == What::LogIn);
                match before {
                    None => judge(lowering, told, of_route, None, false),
                    Some(log_in) => {
                        of_route
                            .iter()
                            .filter(|mark| mark.what == What::Cors)
                            .for_each(|cors| refused_preflight(lowering, cors, log_in));
                    }
                }
            }
        }
    }
}

/// One block, with the place of its log-in.
fn judge(lowering: &mut Lowering<'_>, told: Told, marks: &[Mark], log_in: Option<usize>, is_known_afterwards: bool) {
    for (position, mark) in marks.iter().enumerate() {
        let is_behind = log_in.is_some_and(|log_in| log_in < position);
        match mark.what {
            What::NameInTurn if !is_behind => nobody(lowering, told, mark),
            What::NameAfterwards if !is_known_afterwards => nobody(lowering, told, mark),
            What::Cors if is_behind => {
                if let Some(log_in) = log_in {
                    refused_preflight(lowering, mark, &marks[log_in]);
                }
            }
            What::NameInTurn | What::NameAfterwards | What::Cors | What::LogIn | What::NoLogIn => {}
        }
    }
}

fn nobody(lowering: &mut Lowering<'_>, told: Told, mark: &Mark) {
    let (message, help) = match told {
        Told::Name => {
            let message = "`{auth.user}` is always empty here: nobody has logged in";
            (message, "put `basic-auth`, or `jwt`, in front of it")
        }
        Told::Claims => ("claims are always empty here: no token was verified", "put `jwt` in front of it"),
    };
    lowering.report(Diagnostic::warning("nobody-logged-in", mark.at.clone(), message).help(help));
}

fn refused_preflight(lowering: &mut Lowering<'_>, cors: &Mark, log_in: &Mark) {
    let message = "preflights never get to this `cors`: browsers send them without credentials";
    let diagnostic =
        Diagnostic::warning("preflight-refused", cors.at.clone(), message).label(log_in.at.clone(), "this refuses them before");
    lowering.report(diagnostic.help("put `cors` in front of the log-in, in the same block"));
}
