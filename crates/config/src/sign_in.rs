//! A log-in that stands on the site itself, and is asked about as all else: nobody could ever log in. Lines of a site
//! are looked at as they are written; which step runs where is decided in `middleware`.

use crate::diagnostics::Diagnostic;
use crate::directives::forward_auth::sign_in_of_preset;
use crate::lowering::Lowering;
use crate::syntax::{Literal, Node, Value};

/// Warns where a `forward-auth` of the site, or of a route, stands in front of its own log-in.
pub fn check(lowering: &mut Lowering<'_>, nodes: &[Node]) {
    let routes: Vec<&Node> = nodes.iter().filter(|node| node.name.text == "route").collect();
    for (route, node) in lines(nodes, &routes) {
        let Some(path) = sign_in_path(node) else { continue };
        let first = routes.iter().copied().find(|route| takes(route, &path));
        let asks_about_it = match (route, first) {
            // The first route that takes the log-in says whether it is asked about, or else the site does.
            (None, Some(first)) => own(first).is_none(),
            (None, None) => true,
            (Some(route), Some(first)) => std::ptr::eq(route, first),
            (Some(_), None) => false,
        };
        if asks_about_it {
            let prefix = path.rfind('/').map_or("/", |at| &path[..=at]);
            let message = format!("the log-in `{path}` is asked about as well, so that nobody can log in");
            let help = format!(
                "put `route \"{prefix}*\" {{ forward-auth \"off\"; proxy \"…\" }}` in front, or say where it is with `sign-in=`"
            );
            lowering.report(Diagnostic::warning("sign-in-asked-about", node.location.clone(), message).help(help));
        }
    }
}

/// All lines of `forward-auth`, with the route that they stand in.
fn lines<'n>(nodes: &'n [Node], routes: &[&'n Node]) -> Vec<(Option<&'n Node>, &'n Node)> {
    let of_site = nodes.iter().filter(|node| node.name.text == "forward-auth").map(|node| (None, node));
    of_site.chain(routes.iter().filter_map(|route| Some((Some(*route), own(route)?)))).collect()
}

fn own(route: &Node) -> Option<&Node> {
    route.children.iter().flatten().find(|node| node.name.text == "forward-auth")
}

/// The path of a log-in on the site. What is filled in is not looked at.
fn sign_in_path(node: &Node) -> Option<String> {
    let property = |name: &str| {
        let is_named = |entry: &&crate::syntax::Entry| entry.name.as_ref().is_some_and(|known| known.text == name);
        node.entries.iter().find(is_named).and_then(|entry| text(&entry.value))
    };
    let url = property("sign-in").or_else(|| sign_in_of_preset(property("preset")?))?;
    let path = url.split(['?', '#']).next().unwrap_or_default();
    (path.starts_with('/') && !path.contains('{')).then(|| path.to_owned())
}

fn text(value: &Value) -> Option<&str> {
    match &value.literal {
        Literal::Text(text) => Some(text),
        _ => None,
    }
}

/// Whether the route takes the path, as far as its patterns say it.
fn takes(route: &Node, path: &str) -> bool {
    let mut patterns =
        route.entries.iter().filter(|entry| entry.name.is_none()).filter_map(|entry| text(&entry.value)).peekable();
    let takes = |pattern: &str| match pattern.strip_suffix("/*") {
        Some(prefix) => path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        // Of a regular expression it is not known: it may.
        None => pattern == path || pattern == "*" || pattern.starts_with('~'),
    };
    patterns.peek().is_none() || patterns.any(takes)
}
