//! `auth any`: several ways to be let in, of which one is enough.

use crate::diagnostics::{Diagnostic, Location};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::syntax::{Literal, Node};
use crate::table::{Argument, Block, Kind, Place};
use crate::written_line::Writer;
use tidegate_model::{AuthAny, Step};

pub static AUTH: Directive = Directive {
    name: "auth",
    places: &[Place::Site, Place::Route],
    arguments: &[Argument::one(
        "how",
        Kind::Choice(&["any", "off"]),
        "`any`: one of the ways in the block is enough. `off`: none is asked for, in a route of a site that has several.",
    )],
    block: Block::Optional(Place::AuthAny),
    summary: "Several ways to be let in, of which one is enough.",
    details: "Ways are `allow`, `client-auth \"require\"`, `basic-auth`, `jwt`, `api-key`, `oidc` and `forward-auth`, each as it stands in a site; of each kind but `allow` there is one. They are tried in the order written, `oidc` behind all others that are looked at here and \
              `forward-auth` last, and the first that lets the client in counts: who comes from an address of an `allow` in front is not asked for anything, and has no name.\n\n\
              Where none does, a browser that looks at a page is sent to the provider of `oidc`; whoever else gets what the server of `forward-auth` has answered, as it came; and without these two it is the refusal of the way that the client has tried, or else of the last, and `WWW-Authenticate` names all ways to log in. \
              A server that does not answer lets nobody in, and keeps nobody out who comes in by another way.\n\n\
              Outside of it, `allow`, `deny` and all log-ins have to be satisfied as ever. Of the `auth any` of a site and of its route the route's counts, and also takes the place of those log-ins of the site that are of the kinds it names.",
    default: "all that is written has to be satisfied",
    example: "auth any {\n    allow \"10.0.0.0/8\"\n    basic-auth file=\"htpasswd\"\n}",
    lower: Lower::Step(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let errors_before = lowering.diagnostics.len();
    let how = line.read_argument(lowering, 0).map(Read::choice)?;
    if how == "off" {
        let fault = line.settings_of_off();
        return fault.map_or(Some(Step::AuthAny(None)), |fault| lowering.refuse(fault));
    }
    if line.children().is_empty() {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`auth any` needs ways to be let in");
        return lowering
            .refuse(diagnostic.help("for example `auth any { allow \"10.0.0.0/8\"; basic-auth file=\"htpasswd\"; }`"));
    }
    let mut ways = Vec::new();
    for way in line.lines(lowering) {
        let Lower::Step(lower_way) = way.directive.lower else { continue };
        if let Some(step) = way.lower_step(lowering, lower_way) {
            check_way(lowering, &way, &step);
            ways.push(step);
        }
    }
    let is_faulty = lowering.has_errors_since(errors_before);
    (!is_faulty && !ways.is_empty()).then_some(Step::AuthAny(Some(AuthAny { ways })))
}

/// A way that lets nobody in, or everybody.
fn check_way(lowering: &mut Lowering<'_>, line: &Line<'_>, step: &Step) {
    let name = line.directive.name;
    if step.facts().is_off {
        let diagnostic = Diagnostic::error("no-way", line.location(), format!("`{name} \"off\"` is no way to be let in"));
        lowering.report(diagnostic.help("remove it; `auth \"off\"` in a route asks nobody"));
    }
    let open = match step {
        Step::Jwt(Some(jwt)) if jwt.is_optional => Some(("optional", "`optional=#true` everybody without a token")),
        Step::Oidc(Some(oidc)) if oidc.is_optional => Some(("optional", "`optional=#true` everybody without a session")),
        Step::ForwardAuth(Some(auth)) if auth.allows_on_error => {
            Some(("on-error", "`on-error=\"allow\"` everybody, as long as the auth server is silent,"))
        }
        _ => None,
    };
    if let Some((property, who)) = open {
        let at = line.property(property).map_or_else(|| line.location(), |value| value.location.clone());
        let diagnostic = Diagnostic::error("no-way", at, format!("with {who} is let in"));
        lowering.report(diagnostic.help(format!("remove `{property}=`")));
    }
}

pub fn write(line: &mut Writer, AuthAny { ways }: &AuthAny) {
    line.name("auth").argument("any");
    line.block(ways, super::write_step);
}

/// Kinds of log-ins, which a request cannot be asked for twice.
const LOG_INS: [&str; 5] = ["basic-auth", "jwt", "api-key", "oidc", "forward-auth"];

/// Whether a log-in stands beside an `auth any` that has it too, in the lines of a site. In a route it would be asked
/// for besides what the site's is satisfied with, which nobody means.
pub fn check(lowering: &mut Lowering<'_>, nodes: &[Node]) {
    check_block(lowering, nodes, None);
}

fn check_block(lowering: &mut Lowering<'_>, nodes: &[Node], of_outer: Option<&Node>) {
    let own = nodes.iter().find(|node| node.name.text == "auth");
    let counts = match own {
        Some(own) => Some(own),
        None => of_outer,
    };
    for node in nodes {
        if node.name.text == "route" {
            check_block(lowering, node.children.as_deref().unwrap_or_default(), counts);
        } else if LOG_INS.contains(&node.name.text.as_str())
            && let Some(way) = counts.and_then(|any| way_of(any, &node.name.text))
        {
            refuse_both(lowering, node, &way.name.location, own.is_some());
        }
    }
}

fn way_of<'n>(any: &'n Node, name: &str) -> Option<&'n Node> {
    let is_off = any.entries.iter().any(|entry| matches!(&entry.value.literal, Literal::Text(text) if text == "off"));
    let ways = any.children.as_deref().filter(|_| !is_off).unwrap_or_default();
    ways.iter().find(|way| way.name.text == name)
}

fn refuse_both(lowering: &mut Lowering<'_>, node: &Node, way: &Location, is_same_block: bool) {
    let name = &node.name.text;
    let message = format!("`{name}` would be asked for by itself, and as a way of `auth any`");
    let diagnostic = Diagnostic::error("conflicting-log-ins", node.name.location.clone(), message);
    let help = if is_same_block {
        format!(
            "remove one of them; all that stands outside of `auth any` has to be satisfied besides it, so that a second `{name}` is none"
        )
    } else {
        "write `auth \"off\"` in the route as well, or an `auth any` of its own".to_owned()
    };
    lowering.report(diagnostic.label(way.clone(), "the way that the site has").help(help));
}
