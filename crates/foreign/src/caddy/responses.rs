//! Answers of servers that are looked at before clients get them: `handle_response` of a proxy and `intercept`, as far
//! as they put a text in the place of an error, and a proxy that asks another server whether a request may go on.

use super::errors::of_word;
use super::headers;
use super::matchers;
use super::placeholders::template;
use super::words;
use crate::accounts::Origin;
use crate::braces::{Statement, named};
use tidegate_kdl::quoted;

const FIELDS_STAY: &str = "fields of the server's answer stay, but for those that describe its body";
const EMPTY: &str = "\n";

/// The lines for what stands in the block; `None` where one of them does more than that, or for other answers.
pub fn pages(inside: &[Statement], origin: &mut Origin) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    let mut own = Origin::default();
    for response in inside {
        match response.name() {
            "handle_response" => lines.push(page(response, inside, &mut own)?),
            "replace_status" | "copy_response" | "copy_response_headers" => return None,
            _ => {}
        }
    }
    origin.add(&own);
    Some(lines)
}

fn page(response: &Statement, inside: &[Statement], origin: &mut Origin) -> Option<String> {
    let matcher = named(inside, response.argument()).next().filter(|_| response.argument().starts_with('@'))?;
    let statuses = statuses(matcher)?;
    let statuses: Option<Vec<String>> = statuses.iter().map(|status| of_word(status)).collect();
    let statuses = statuses?.join(" ");
    let [respond] = response.inside() else { return None };
    if respond.name() != "respond" || respond.block.is_some() {
        return None;
    }
    let is_status = |word: &String| word.len() == 3 && word.parse::<u16>().is_ok();
    let (body, status) = match respond.arguments() {
        [status] if is_status(status) => (None, Some(status)),
        [body] => (Some(body), None),
        [body, status] if is_status(status) => (Some(body), Some(status)),
        _ => return None,
    };
    if body.is_some_and(|body| body.starts_with(['@', '/', '*'])) {
        return None;
    }
    let status = status.map_or(Some(200), |status| status.parse::<u16>().ok().filter(|status| (200..=599).contains(status)))?;
    let body = body.map_or_else(|| Some(EMPTY.to_owned()), |body| template(body))?;
    let own = format!(" status={status}");
    let own = if statuses == status.to_string() { "" } else { &own };
    origin.carry_all(words::places([response, matcher]));
    origin.differ(response.start(), FIELDS_STAY);
    Some(format!("error-page {statuses} body={}{own} from=\"upstream\"", quoted(&body)))
}

/// The statuses that a matcher of answers asks for alone.
fn statuses(matcher: &Statement) -> Option<Vec<String>> {
    match matchers::criteria(matcher).as_slice() {
        [one] if one.name() == "status" && !one.arguments().is_empty() => Some(one.arguments().to_vec()),
        _ => None,
    }
}

/// A proxy that goes on where the answer is a good one, as the `forward_auth` that is expanded to it.
pub fn asking(proxy: &Statement) -> Option<Statement> {
    let inside = proxy.inside();
    let responses: Vec<&Statement> = named(inside, "handle_response").collect();
    let [good] = responses.as_slice() else { return None };
    let matcher = named(inside, good.argument()).next().filter(|_| good.argument().starts_with('@'))?;
    if statuses(matcher)? != ["2xx"] || named(inside, "method").next()?.argument() != "GET" {
        return None;
    }
    let uri = named(inside, "rewrite").next()?.arguments().last()?;
    let line = |at: usize, words: &[&str]| Statement {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        starts: vec![at; words.len()],
        block: None,
    };
    let mut lines = vec![line(named(inside, "rewrite").next()?.start(), &["uri", uri])];
    for own in inside {
        match own.name() {
            "transport" => lines.push(own.clone()),
            "header_up" if is_of_asking(own) => lines.push(line(own.start(), &TOLD)),
            "method" | "rewrite" | "handle_response" | "to" => lines.push(line(own.start(), &TOLD)),
            _ if own.start() == matcher.start() => lines.extend(words::places([own]).iter().map(|at| line(*at, &TOLD))),
            _ => return None,
        }
    }
    for own in good.inside() {
        let at = own.start();
        let of_server = |value: &str| {
            let name = ["{rp.header.", "{http.reverse_proxy.header."].iter().find_map(|start| value.strip_prefix(start))?;
            name.strip_suffix('}').map(str::to_owned)
        };
        match own.arguments() {
            [name] if own.name() == "request_header" && name.starts_with('-') => {
                lines.push(line(at, &["copy_headers", &name[1..]]));
            }
            [name, value] if own.name() == "request_header" && !name.starts_with(['+', '?', '-', '@', '/', '*']) => {
                let (name, of) = (name.trim_start_matches('>'), of_server(value)?);
                let copied = if of.eq_ignore_ascii_case(name) { name.to_owned() } else { format!("{of}>{name}") };
                lines.push(line(at, &["copy_headers", &copied]));
            }
            _ => return None,
        }
    }
    Some(Statement { block: Some(lines), ..proxy.clone() })
}

/// A line that `forward_auth` does without a word.
const TOLD: [&str; 3] = ["header_up", "X-Forwarded-For", "{remote_host}"];

/// Whether a server that is asked is told so without a word.
fn is_of_asking(line: &Statement) -> bool {
    let [name, value] = line.arguments() else { return headers::is_told(line.arguments()) };
    let is = |own: &str, values: &[&str]| name.eq_ignore_ascii_case(own) && values.contains(&value.as_str());
    headers::is_told(line.arguments())
        || is("X-Forwarded-Method", &["{method}", "{http.request.method}"])
        || is("X-Forwarded-Uri", &["{uri}", "{http.request.uri}"])
}
