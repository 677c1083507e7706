//! Who may come in by a Caddyfile: names and passwords, other servers that are asked, and how often.

use super::chain::{Act, ChainOp};
use super::directives::Found;
use super::placeholders::fixed;
use crate::braces::{Statement, named, value};
use crate::outline::upstream;
use tidegate_kdl::quoted;

/// What Caddy says where nothing is written.
const REALM: &str = "restricted";
const RENAMED: &str = "a field that is copied under another name keeps its own here, and nobody sends the other";
const OF_QUERY: &str =
    "the query that a client has sent stands in `X-Forwarded-Uri` alone, where Caddy adds it to the question as well";
const NO_BURST: &str = "Caddy's window slides, and here a client may send all of them at once and then one by one";

pub fn basic_auth(statement: &Statement, words: &[String]) -> Vec<ChainOp> {
    let mut found = Found::of(statement);
    let realm = words.get(1).and_then(|realm| fixed(realm)).unwrap_or_else(|| REALM.to_owned());
    let mut users = Vec::new();
    let mut is_whole = !statement.inside().is_empty();
    for line in statement.inside() {
        let user = match line.words.as_slice() {
            [name, hash, ..] => fixed(name).zip(fixed(&plain_hash(hash))),
            _ => None,
        };
        // What was put in the place of a hash lets nobody in.
        let user = user.filter(|(_, hash)| hash.starts_with(['$', '{']));
        match user {
            Some((name, hash)) => {
                users.push(format!("user {} {};", quoted(&name), quoted(&hash)));
                found.origin.carry(line.start());
            }
            None => is_whole = false,
        }
    }
    if !is_whole || users.is_empty() {
        return vec![found.act(Act::Nothing)];
    }
    found.origin.carry(statement.start());
    vec![found.act(Act::Step(format!("basic-auth realm={} {{ {} }}", quoted(&realm), users.join(" "))))]
}

/// Hashes were written in base64 before version 2.5.
fn plain_hash(written: &str) -> String {
    if !written.starts_with("JDJ") && !written.starts_with("JGFy") {
        return written.to_owned();
    }
    let digit = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for c in written.trim_end_matches('=').bytes() {
        let Some(digit) = digit(c) else { return written.to_owned() };
        bits = (bits << 6 | u32::from(digit)) & 0x00ff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| written.to_owned())
}

pub fn forward_auth(statement: &Statement, words: &[String]) -> Vec<ChainOp> {
    let mut found = Found::of(statement);
    let uri = value(statement.inside(), "uri").unwrap_or("/");
    let servers: Option<Vec<String>> = words.iter().map(|word| server(word, uri)).collect();
    let Some(servers) = servers.filter(|servers| !servers.is_empty()) else { return vec![found.act(Act::Nothing)] };
    found.origin.carry(statement.start());
    let mut copied: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for line in statement.inside() {
        match line.name() {
            "uri" if line.argument().contains('?') => found.origin.carry(line.start()),
            "uri" => found.origin.differ(line.start(), OF_QUERY),
            "copy_headers" => {
                let inner = line.inside().iter().flat_map(|line| line.words.iter());
                let mut is_renamed = false;
                for name in line.arguments().iter().chain(inner) {
                    // Under its new name nobody sends it to the server, clients neither.
                    for name in name.split('>').map(quoted) {
                        if !copied.contains(&name) {
                            copied.push(name);
                        }
                    }
                    is_renamed |= name.contains('>');
                }
                found.origin.carry_all(super::words::places([line]));
                if is_renamed {
                    found.origin.differ(line.start(), RENAMED);
                }
            }
            "header_up" if super::headers::is_told(&line.words[1..]) => found.origin.carry(line.start()),
            "transport" => {
                for own in line.inside() {
                    let told = match own.name() {
                        "tls_insecure_skip_verify" => "tls verify=#false".to_owned(),
                        "tls_server_name" => format!("tls sni={}", quoted(own.argument())),
                        "tls" => String::new(),
                        _ => continue,
                    };
                    lines.extend(Some(told).filter(|told| !told.is_empty()));
                    found.origin.carry(own.start());
                }
                found.origin.carry(line.start());
            }
            _ => {}
        }
    }
    if !copied.is_empty() {
        lines.insert(0, format!("copy {}", copied.join(" ")));
    }
    let servers: Vec<String> = servers.iter().map(|server| quoted(server)).collect();
    let block = if lines.is_empty() { String::new() } else { format!(" {{ {}; }}", lines.join("; ")) };
    vec![found.act(Act::Step(format!("forward-auth {}{block}", servers.join(" "))))]
}

fn server(word: &str, uri: &str) -> Option<String> {
    let written = fixed(word)?;
    let address = if written.contains("{env.") { Some(written) } else { upstream(&written) }?;
    let scheme = if address.contains("://") { "" } else { "http://" };
    let uri = fixed(uri).filter(|uri| uri.starts_with('/'))?;
    (!address.starts_with("unix:")).then(|| format!("{scheme}{address}{}", if uri == "/" { "" } else { &uri }))
}

/// Zones of the module of that name.
pub fn rate_limit(statement: &Statement) -> Vec<ChainOp> {
    let mut found = Found::of(statement);
    let mut ops = Vec::new();
    let mut is_whole = true;
    for zone in named(statement.inside(), "zone") {
        let inside = zone.inside();
        let key = match value(inside, "key") {
            None | Some("static") => Some("all".to_owned()),
            Some("{remote_host}" | "{client_ip}" | "{http.request.remote.host}") => Some("client-ip".to_owned()),
            Some(key) => super::placeholders::template(key).filter(|key| !counts_by_claim(key)),
        };
        let events = value(inside, "events").and_then(|events| events.parse::<u32>().ok()).filter(|events| *events > 0);
        let window = value(inside, "window").filter(|window| !window.contains('{'));
        let is_matched = named(inside, "match").next().is_some();
        let (Some(key), Some(events), Some(window)) = (key, events, window.and_then(period)) else {
            is_whole = false;
            continue;
        };
        if is_matched {
            is_whole = false;
            continue;
        }
        ops.push(format!("rate-limit \"{events}/{window}\" by={}", quoted(&key)));
    }
    if !is_whole || ops.is_empty() {
        return vec![found.act(Act::Nothing)];
    }
    found.origin.carry_all(super::words::places([statement]));
    found.origin.differ(statement.start(), NO_BURST);
    ops.into_iter().map(|line| found.clone().act(Act::Step(line))).collect()
}

/// Whether it counts by a field that is taken out of what clients send: nobody would be told apart.
fn counts_by_claim(key: &str) -> bool {
    let names = key.split("{request.header.").skip(1).filter_map(|rest| rest.split('}').next());
    names.into_iter().any(tidegate_model::is_claimed)
}

/// `1m` as it stands behind a number of requests.
fn period(window: &str) -> Option<String> {
    let digits = window.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = window.split_at(digits);
    let number: u64 = number.parse().ok()?;
    matches!(unit, "s" | "m" | "h" | "d").then(|| if number == 1 { unit.to_owned() } else { format!("{number}{unit}") })
}

#[cfg(test)]
mod tests {
    use super::plain_hash;

    #[test]
    fn hashes_in_base64_are_those_within() {
        assert_eq!(plain_hash("JDJhJDE0JFprcHRlc3Q="), "$2a$14$Zkptest");
        assert_eq!(plain_hash("$2a$14$x"), "$2a$14$x");
    }
}
