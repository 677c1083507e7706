//! Which differences are explained, each by what the documentation says; and which are faults.

use super::answers::{Answer, Upstream, plain};
use super::due::{is_denied, refusals};
use super::objects::{Host, Ingress, IngressPath, Kind, is_odd};
use super::questions::Question;
use crate::imports::echo::normal;

pub enum Difference {
    None,
    Explained(&'static str),
    Fault(String),
}

/// `ask` has nginx answer another question.
pub fn difference(
    host: &Host,
    question: &Question,
    nginx: &Answer,
    ours: &Answer,
    ask: &mut dyn FnMut(&Question) -> Answer,
) -> Difference {
    if are_alike(question, nginx, ours) {
        return Difference::None;
    }
    match explained(host, question, nginx, ours, ask) {
        Some(why) => Difference::Explained(why),
        None => Difference::Fault(kind(nginx, ours)),
    }
}

fn kind(nginx: &Answer, ours: &Answer) -> String {
    let shown = |answer: &Answer| match &answer.upstream {
        Some(upstream) => format!("to {}", upstream.name),
        None => answer.status.to_string(),
    };
    let kind = match (&nginx.upstream, &ours.upstream) {
        (None, Some(_)) => "OPEN",
        (Some(_), None) => "shut",
        (None, None) if nginx.page != ours.page => "page",
        _ if nginx.status == ours.status && nginx.upstream == ours.upstream && nginx.hsts != ours.hsts => "HSTS",
        (None, None) if nginx.status == ours.status => "location",
        (None, None) => "status",
        (Some(a), Some(b)) if a.name != b.name => "OTHER SERVER",
        (Some(a), Some(b)) if a.target != b.target => "other path",
        (Some(_), Some(_)) => "other fields",
    };
    format!("{kind}: {} → {}", shown(nginx), shown(ours))
}

fn are_alike(question: &Question, nginx: &Answer, ours: &Answer) -> bool {
    let led = |answer: &Answer| answer.location.as_ref().map(|location| led_to(location, question));
    let is_same = nginx.status == ours.status && led(nginx) == led(ours) && nginx.upstream == ours.upstream;
    // Who refuses what is no request at all says nothing of it.
    is_same && are_alike_pages(nginx, ours) && (nginx.status == 400 || nginx.hsts == ours.hsts)
}

/// Of what clients say themselves, and nginx sends on.
const OF_CLIENTS: [&str; 5] = ["authorization:", "x-real-ip:", "x-scheme:", "x-forwarded-scheme:", "x-original-forwarded-for:"];

/// Pages are asked for with GET, and without what clients say of themselves.
fn are_alike_pages(nginx: &Answer, ours: &Answer) -> bool {
    let asked = |answer: &Answer| {
        answer.page.as_ref().map(|Upstream { name, target, fields, .. }| {
            let said = fields.iter().filter(|field| !OF_CLIENTS.iter().any(|name| field.starts_with(name)));
            let uri = |field: &str| field.strip_prefix("x-original-uri: ").map(|uri| normal(&plain(uri).replace("%2F", "/")));
            (name.clone(), target.clone(), said.map(|field| uri(field).unwrap_or_else(|| field.clone())).collect::<Vec<_>>())
        })
    };
    asked(nginx) == asked(ours)
}

/// Where a redirect leads: one that names no host leads to that of the request.
fn led_to(location: &str, question: &Question) -> String {
    let (scheme, rest) = location.split_once("://").unwrap_or_else(|| {
        let scheme = if question.over_tls { "https" } else { "http" };
        (scheme, location)
    });
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let authority = if authority.is_empty() { &question.host } else { authority };
    let name = authority.split(':').next().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    format!("{scheme}://{name}{}", normal(&plain(path)).trim_end_matches('/'))
}

fn explained(
    host: &Host,
    question: &Question,
    nginx: &Answer,
    ours: &Answer,
    ask: &mut dyn FnMut(&Question) -> Answer,
) -> Option<&'static str> {
    let read = decoded(&question.target);
    let has_dots = ["/.", "\\.", ".;"].iter().any(|dots| read.contains(dots));
    if ours.status == 400 && ours.upstream.is_none() && has_dots {
        return Some("dots beside an encoded slash or backslash, with parameters, or in what a rewrite makes are 400");
    }
    if has_dots {
        let resolved = Question { target: resolved(&question.target), ..question.clone() };
        if resolved.target != question.target {
            let nginx = ask(&resolved);
            return match difference(host, &resolved, &nginx, ours, ask) {
                Difference::None => Some("`..` takes back the segment in front of it as it was sent"),
                Difference::Explained(other) => Some(other),
                Difference::Fault(_) => None,
            };
        }
    }
    if nginx.status == 301 && nginx.location.as_ref().is_some_and(|to| is_own_folder(to, question)) {
        let (path, query) = question.target.split_once('?').unwrap_or((&question.target, ""));
        let folder = Question { target: format!("{path}/?{query}"), ..question.clone() };
        let nginx = ask(&folder);
        let is_same = match (&nginx.upstream, &ours.upstream) {
            (Some(a), Some(b)) => a.name == b.name,
            (None, _) => ours.upstream.is_none(),
            (Some(_), None) => true,
        };
        let is_exact = host.ingresses.iter().flat_map(|ingress| &ingress.paths).any(|path| path.kind == Kind::Exact);
        return (is_same || is_exact).then_some("`/a` is served as `/a/` is, unless that is `Exact`");
    }
    if let Some(why) = odd(host, question, nginx, ours, ask) {
        return Some(why);
    }
    match (&nginx.upstream, &ours.upstream) {
        (None, Some(seen)) if question.method == "OPTIONS" && nginx.status == 204 => {
            let nginx = ask(&Question { method: "GET", ..question.clone() });
            let is_same = nginx.upstream.is_some_and(|upstream| upstream.name == seen.name);
            is_same.then_some("OPTIONS that is no preflight goes on")
        }
        (_, None) if question.method == "OPTIONS" && ours.status == 204 => Some("preflights are answered here"),
        (_, None) if ours.status == 503 && may_stand_for_code(host, &read) => Some("what a code may stand for is shut"),
        (Some(_), None) if ours.status == 403 && is_denied_with_log_in(host, question, nginx) => {
            Some("whom a denylist refuses does not come in by a log-in")
        }
        (None, None)
            if [400, 404].contains(&nginx.status) && ours.status == 421 && question.over_tls && !host.takes(&question.host) =>
        {
            Some("a host that nobody has is 421 over a connection for another one")
        }
        (None, None) if question.method == "OPTIONS" && nginx.status == 204 && ours.page.is_some() => {
            let asked = ask(&Question { method: "GET", ..question.clone() });
            let is_same = asked.status == ours.status && are_alike_pages(&asked, ours);
            is_same.then_some("OPTIONS that is no preflight goes on").or_else(|| refused(host, question, nginx, ours))
        }
        (None, None) => refused(host, question, nginx, ours),
        (Some(theirs), Some(seen)) if is_told_a_prefix(host, nginx, theirs, seen) => {
            Some("a prefix is told with a `rewrite-target` that is the path itself as well")
        }
        (None | Some(_), Some(_)) | (Some(_), None) => None,
    }
}

/// Whether all that differs is what stood in front of a path, where that is made of itself.
fn is_told_a_prefix(host: &Host, nginx: &Answer, theirs: &Upstream, seen: &Upstream) -> bool {
    let ingress = nginx.place.as_ref().and_then(|place| host.ingresses.iter().find(|ingress| ingress.name == place.ingress));
    let is_itself = ingress.is_some_and(|ingress| {
        let target = ingress.annotation("rewrite-target");
        ingress.paths.iter().any(|path| target == Some(&path.path))
    });
    let others = |upstream: &Upstream| {
        let fields = upstream.fields.iter().filter(|field| !field.starts_with("x-forwarded-prefix:"));
        (upstream.name.clone(), upstream.target.clone(), fields.cloned().collect::<Vec<_>>())
    };
    is_itself && others(theirs) == others(seen)
}

/// An expression that cannot be had takes nothing, or shuts.
fn odd(
    host: &Host,
    question: &Question,
    nginx: &Answer,
    ours: &Answer,
    ask: &mut dyn FnMut(&Question) -> Answer,
) -> Option<&'static str> {
    let is_odd_path = |path: &IngressPath| is_odd(&path.path);
    let shuts = |ingress: &&Ingress| ingress.protects() && ingress.paths.iter().any(is_odd_path);
    let place = nginx.place.as_ref();
    // What is longer has been tried before; a path may have a slash more there.
    let longest = host.ingresses.iter().filter(shuts).flat_map(|ingress| &ingress.paths).filter(|path| is_odd_path(path));
    let may_shut =
        longest.map(|path| path.path.len()).max().is_some_and(|length| place.is_none_or(|place| place.path_length <= length + 1));
    let is_shut = ours.status == 503 || ours.status == 308 && !question.over_tls;
    if is_shut && ours.upstream.is_none() && may_shut {
        return Some("an expression that cannot be had shuts what may be meant by it");
    }
    let is_taken_by_one = host.has_odd() && !question.host.starts_with("without-");
    if !is_taken_by_one {
        return None;
    }
    let others =
        Question { host: question.host.to_ascii_lowercase().replace(&host.name, &host.name_without_odd()), ..question.clone() };
    let nginx = of_host(ask(&others), host);
    match difference(host, &others, &nginx, ours, ask) {
        Difference::None => Some("an expression that cannot be had takes nothing, so that others do"),
        Difference::Explained(other) => Some(other),
        Difference::Fault(_) => None,
    }
}

/// As if the host had been asked for by its own name.
fn of_host(mut answer: Answer, host: &Host) -> Answer {
    let own = |text: &mut String| *text = text.replace(&host.name_without_odd(), &host.name);
    answer.location.iter_mut().for_each(own);
    answer.upstream.iter_mut().chain(&mut answer.page).flat_map(|upstream| &mut upstream.fields).for_each(own);
    answer
}

/// Neither side has let the request through. Whatever refused it here keeps it out at the location of nginx as well.
fn refused(host: &Host, question: &Question, nginx: &Answer, ours: &Answer) -> Option<&'static str> {
    let Answer { status: ours, page: ours_page, .. } = ours;
    let is_nobody = nginx.place.as_ref().is_some_and(|place| place.is_nobody);
    let is_due = nginx.place.as_ref().is_some_and(|place| refusals(host, question, place).contains(ours));
    match (nginx.status, ours) {
        (204 | 301 | 302 | 404 | 413, 308) => Some("HTTPS comes first"),
        (401 | 403, 308) if is_nobody => Some("HTTPS comes first, and what no path takes leads nowhere behind it"),
        (404, 404) if is_nobody && ours_page.is_none() => Some("what no path takes has no page past what protects"),
        (204 | 413, 301 | 302) => Some("a redirect comes before an answer to OPTIONS, and before a body is measured"),
        (204 | 301 | 302 | 308, 401 | 403 | 404 | 413) if is_due => {
            Some("what protects comes first, and what no path takes leads nowhere")
        }
        (401 | 403 | 404 | 413, 401 | 403 | 404 | 413) if is_due => {
            Some("of two things that keep a client out the other one is told")
        }
        _ => None,
    }
}

/// Whether a path that protects has a code, and the request is for what that stands for.
fn may_stand_for_code(host: &Host, read: &str) -> bool {
    let protecting = host.ingresses.iter().filter(|ingress| ingress.protects());
    let with_code = protecting.flat_map(|ingress| &ingress.paths).filter(|path| path.path.contains('%'));
    let meant = |path: &IngressPath| normal(&decoded(&path.path)).trim_end_matches('/').to_ascii_lowercase();
    let read = normal(read).to_ascii_lowercase();
    with_code.map(meant).any(|meant| read.starts_with(&meant))
}

fn is_denied_with_log_in(host: &Host, question: &Question, nginx: &Answer) -> bool {
    let place = nginx.place.as_ref();
    let ingress = place.and_then(|place| host.ingresses.iter().find(|ingress| ingress.name == place.ingress));
    ingress.is_some_and(|ingress| ingress.is_any() && is_denied(ingress, question))
}

fn is_own_folder(location: &str, question: &Question) -> bool {
    // An encoded slash is one there.
    let path = question.target.split('?').next().unwrap_or_default().replace("%2f", "/").replace("%2F", "/");
    let location = location.split('?').next().unwrap_or_default();
    led_to(location, question) == led_to(&path, question) && location.ends_with('/')
}

/// Each code once, as text.
fn decoded(target: &str) -> String {
    let path = target.split('?').next().unwrap_or_default();
    let (mut text, mut at) = (String::new(), 0);
    while at < path.len() {
        let code = path.get(at + 1..at + 3).filter(|_| path.as_bytes()[at] == b'%');
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        text.push(char::from(code.unwrap_or(path.as_bytes()[at])));
        at += if code.is_some() { 3 } else { 1 };
    }
    text
}

/// The path without dots, each segment being one, also those of nothing.
fn resolved(target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, ""), |(path, query)| (path, query));
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (place, segment) in segments.iter().enumerate() {
        let is_last = place + 1 == segments.len();
        match &*segment.replace("%2e", ".").replace("%2E", ".") {
            "." | ".." => {
                if segment.replace("%2e", ".").replace("%2E", ".") == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    let query = if target.contains('?') { format!("?{query}") } else { String::new() };
    format!("/{}{query}", kept.join("/"))
}
