//! What is wrong with single labels of a router, before anybody asks what they mean together: values in quotes, ports
//! and priorities that are no numbers, entry points and middlewares that nobody knows.

use super::{AskedRouter, RouterLabel, named};
use crate::diagnostics::{Diagnostic, nearest, shortened};
use crate::labels::tree::quote_around;
use std::collections::BTreeSet;

const MIDDLEWARE_OF_FILE: &str = "say with labels what it does (`traefik.http.middlewares.NAME…` on any container of the project), or \
     write the site in the file of Tidegate, with `discover container=` in its pool";

/// Whether Traefik would look at the container: at one of which a label says so, and without a word as the file says.
/// `Err`: nobody can read what the label says, and Traefik passes over the container.
pub fn is_enabled(labels: &[RouterLabel<'_>], by_default: bool) -> Result<bool, Box<Diagnostic>> {
    let Some(label) = labels.iter().find(|label| label.key.eq_ignore_ascii_case("enable")) else { return Ok(by_default) };
    match label.value.trim() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(Box::new(quoted(label).unwrap_or_else(|| {
            let message =
                format!("`{}` is neither `true` nor `false`, so no router of the container is served", shortened(&label.value));
            Diagnostic::error("bad-label", label.text.whole(), message).help("write `true` or `false`")
        }))),
    }
}

/// Of a label that no router of HTTP has.
pub fn not_read(label: &RouterLabel<'_>) -> Option<Diagnostic> {
    const KINDS: [&str; 4] = ["routers", "services", "middlewares", "serverstransports"];
    let key = label.key.to_ascii_lowercase();
    let (root, rest) = key.split_once('.').unwrap_or((&key, ""));
    let message = format!("`traefik.{}` is not read", shortened(label.key));
    let warning = |help: &'static str| Some(Diagnostic::warning("bad-label", label.text.whole(), message.clone()).help(help));
    // A word that nobody knows may be meant for any router, and Traefik takes nothing of a container that has one.
    let error = |help: String| {
        let message = format!("{message}, so no router of the container is served");
        Some(Diagnostic::error("bad-label", label.text.whole(), message).help(help))
    };
    match root {
        "http" => {
            let kind = rest.split('.').next().unwrap_or_default();
            if KINDS.contains(&kind) {
                return None;
            }
            error(match nearest(kind, KINDS) {
                Some(meant) => format!("did you mean `traefik.http.{meant}`?"),
                None => "routers, services and middlewares stand behind `traefik.http.`".into(),
            })
        }
        "frontend" | "backend" | "port" | "protocol" | "weight" | "domain" | "tags" => {
            warning("labels of Traefik 1 are not read; since version 2 routers stand behind `traefik.http.routers.`")
        }
        "tcp" | "udp" => warning("connections are handed on by `tcp` in the file, with `discover container=` in its pool"),
        kind => error(match nearest(kind, ["http", "enable", "docker", "tcp", "udp"]) {
            Some(meant) => format!("did you mean `traefik.{meant}`?"),
            None => "routers, services and middlewares stand behind `traefik.http.`".into(),
        }),
    }
}

/// What is to be known of a container that Traefik would give a router of its own making, by a rule that its flags say
/// and its labels do not. `labels` are the container's.
pub fn without_router(labels: &[RouterLabel<'_>]) -> Option<Diagnostic> {
    let enables = |label: &&RouterLabel<'_>| label.key.eq_ignore_ascii_case("enable");
    let names_service = |label: &&RouterLabel<'_>| named(label.key, "services").is_some();
    let is_of = |label: &RouterLabel<'_>, roots: &[&str]| {
        let root = label.key.split('.').next().unwrap_or_default();
        roots.iter().any(|known| known.eq_ignore_ascii_case(root))
    };
    let has_http = labels.iter().any(|label| is_of(label, &["http"]));
    // Of connections alone, and by the words of Traefik 1, no router is made.
    let is_other = labels.iter().any(|label| !is_of(label, &["http", "enable", "docker", "swarm"]));
    if labels.iter().any(|label| named(label.key, "routers").is_some()) || (is_other && !has_http) {
        return None;
    }
    let asks = labels.iter().find(enables).or_else(|| labels.iter().find(names_service))?;
    let message = "no rule: Traefik's default rule is not known here, so no router of the container is served";
    let help = "say one with the label ``traefik.http.routers.NAME.rule=Host(`shop.example.com`)``, or `traefik.enable=false`";
    Some(Diagnostic::warning("no-rule", asks.text.whole(), message).help(help))
}

/// A word of the router that is near to `rule`.
pub fn slip_of_rule(router: &AskedRouter<'_, '_>) -> Option<String> {
    router.all_own().map(RouterLabel::last_word).find(|word| nearest(word, ["rule"]).is_some())
}

pub fn without_rule(router: &AskedRouter<'_, '_>) -> Option<Diagnostic> {
    let first = router.all_own().next()?;
    let message = format!("the router `{}` has no rule", shortened(router.name));
    let help = match slip_of_rule(router) {
        Some(slip) => format!("did you mean `rule` where `{}` stands?", shortened(&slip)),
        None => format!(
            "add the label `traefik.http.routers.{}.rule`: Traefik's default rule is not known here",
            shortened(router.name)
        ),
    };
    Some(Diagnostic::error("bad-label", first.text.whole(), message).help(help))
}

/// The names of a list.
pub fn names(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// `labels` are those that have a say in the router.
pub fn check(router: &AskedRouter<'_, '_>, labels: &[&RouterLabel<'_>], faults: &mut Vec<Diagnostic>) {
    for label in labels {
        faults.extend(quoted(label).or_else(|| number(label)).or_else(|| middlewares(router, label)));
    }
    let Some(label) = router.own("entrypoints").filter(|label| quoted(label).is_none()) else { return };
    for name in names(&label.value).filter(|name| router.points.port(name).is_none()) {
        let message = format!("there is no entry point `{}`, so its router is not served", shortened(name));
        let help = match nearest(name, router.points.known(true).into_iter().map(|(known, _)| known)) {
            Some(meant) => format!("did you mean `{meant}`? A name of your own is an `entry-point` line in `docker` of the file"),
            None => {
                let listed = router.points.listed();
                format!(
                    "there are {listed}; others are `entry-point` lines in `docker` of the file, as in `entry-point \"{}\" 8443`",
                    shortened(name)
                )
            }
        };
        faults.push(Diagnostic::error("bad-label", label.text.whole(), message).help(help));
    }
}

/// A value in quotes that are a part of it. Header fields may have some.
fn quoted(label: &RouterLabel<'_>) -> Option<Diagnostic> {
    let value = label.text.text.trim();
    let quote = quote_around(value)?;
    let is_of_field = label.key.to_ascii_lowercase().contains(".headers.");
    let is_around = value.len() > 1 && value.ends_with(['"', '\'', '”', '“', '’']);
    if is_of_field || !is_around {
        return None;
    }
    let message = format!("the {quote} is part of the value");
    let name = shortened(label.key);
    let help = format!("in a list of YAML quotes belong around the whole line, as in `- \"traefik.{name}=…\"`, or nowhere");
    Some(Diagnostic::error("bad-label", label.text.whole(), message).help(help))
}

/// What has to be a number, and is none.
fn number(label: &RouterLabel<'_>) -> Option<Diagnostic> {
    let key = label.key.to_ascii_lowercase();
    let value = label.value.trim();
    let (what, help) = if key.ends_with(".loadbalancer.server.port") || key.ends_with(".healthcheck.port") {
        let is_port = value.parse::<u16>().is_ok_and(|port| port != 0);
        (!is_port).then_some(("port", "write 1 to 65535: the port within the container"))?
    } else if named(label.key, "routers").is_some() && key.ends_with(".priority") {
        value.parse::<i64>().is_err().then_some(("priority", "write a number: the higher one goes first"))?
    } else {
        return None;
    };
    let message = format!("`{}` is no {what}, so its router is not served", shortened(value));
    Some(Diagnostic::error("bad-label", label.text.whole(), message).help(help))
}

/// What a list of middlewares names, and no label of the project has.
fn middlewares(router: &AskedRouter<'_, '_>, label: &RouterLabel<'_>) -> Option<Diagnostic> {
    let is_list = label.last_word() == "middlewares" && (named(label.key, "routers").is_some() || is_chain(label));
    if !is_list {
        return None;
    }
    let known: BTreeSet<&str> = router.labels.iter().filter_map(|label| named(label.key, "middlewares")).collect();
    let (mut said, mut helps): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for name in names(&label.value).filter(|name| !known.contains(name)) {
        let (what, help) = match name.split_once('@') {
            Some((_, "file")) => (
                format!("`{}` stands in a file of Traefik, which is not read here", shortened(name)),
                MIDDLEWARE_OF_FILE.to_owned(),
            ),
            Some((_, provider)) => {
                let provider = shortened(provider);
                (
                    format!("`{}` is of Traefik's provider `{provider}`, which is not here", shortened(name)),
                    MIDDLEWARE_OF_FILE.to_owned(),
                )
            }
            None => {
                let help = match nearest(name, known.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!(
                        "add the label `traefik.http.middlewares.{}.…`, or take the name out of the list",
                        shortened(name)
                    ),
                };
                (format!("no label of the project says what the middleware `{}` does", shortened(name)), help)
            }
        };
        said.push(what);
        if !helps.contains(&help) {
            helps.push(help);
        }
    }
    if said.is_empty() {
        return None;
    }
    let message = format!("{}, so its router is not served", said.join("; "));
    Some(Diagnostic::error("middleware-missing", label.text.whole(), message).help(helps.join("; ")))
}

fn is_chain(label: &RouterLabel<'_>) -> bool {
    label.key.to_ascii_lowercase().ends_with(".chain.middlewares")
}
