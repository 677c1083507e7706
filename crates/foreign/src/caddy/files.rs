//! Files and scripts of a Caddyfile.

use super::chain::{Act, ChainAnswer, ChainOp};
use super::directives::Found;
use super::placeholders::{fixed, template};
use super::serving::{BELOW, FileServer, HiddenNames, ScriptServer, ServedFolder};
use super::words;
use crate::braces::Statement;
use crate::outline::upstream;
use tidegate_kdl::quoted;

const DOTS: &str = "names that begin with a dot are not served here: `hidden=#true` on the line of `files` serves them";

pub fn file_server(statement: &Statement, arguments: &[String]) -> Vec<ChainOp> {
    let mut found = Found::of(statement);
    found.origin.carry(statement.start());
    let mut files = FileServer { at: statement.start(), places: words::places([statement]), ..FileServer::default() };
    let mut is_listing = arguments.iter().any(|word| word == "browse");
    let mut hides_dots = false;
    for line in statement.inside() {
        let is_carried = match line.name() {
            "root" => {
                let folder = ServedFolder::of(line.argument());
                let is_known = matches!(folder, ServedFolder::Known(_));
                if folder.is_relative() {
                    found.origin.differ(line.start(), BELOW);
                }
                files.root = Some(folder);
                is_known
            }
            "browse" => {
                is_listing = true;
                line.arguments().is_empty()
            }
            "index" => {
                files.index = Some(line.arguments().to_vec());
                !line.arguments().is_empty()
            }
            "precompressed" => {
                files.properties.push("precompressed=#true".into());
                true
            }
            "hide" => {
                hides_dots |= line.arguments().iter().any(|name| name.starts_with('.'));
                files.places.remove(&line.start());
                files.hides.push(HiddenNames { at: line.start(), names: line.arguments().to_vec() });
                true
            }
            "pass_thru" => {
                files.is_passed_on = true;
                true
            }
            _ => false,
        };
        if is_carried {
            found.origin.carry_all(words::places([line]));
        }
    }
    if is_listing {
        files.properties.push("listing=#true".into());
    }
    if !hides_dots {
        found.origin.differ(statement.start(), DOTS);
    }
    vec![found.act(Act::Answer(ChainAnswer::Files(files)))]
}

pub fn scripts(statement: &Statement, arguments: &[String]) -> Vec<ChainOp> {
    let mut found = Found::of(statement);
    found.origin.carry(statement.start());
    let servers: Option<Vec<String>> = arguments.iter().map(|word| server(word)).collect();
    let Some(servers) = servers.filter(|servers| !servers.is_empty()) else {
        return vec![Found::of(statement).act(Act::Nothing)];
    };
    let mut scripts = ScriptServer { servers, places: words::places([statement]), ..ScriptServer::default() };
    let mut timeouts = Vec::new();
    for line in statement.inside() {
        let is_carried = match (line.name(), line.arguments()) {
            ("root", [folder]) => {
                let folder = ServedFolder::of(folder);
                let is_known = matches!(folder, ServedFolder::Known(_));
                scripts.root = Some(folder);
                is_known
            }
            ("split", [end]) => {
                scripts.properties.extend((end != ".php").then(|| format!("split={}", quoted(end))));
                true
            }
            ("index", [name]) if name == "off" => {
                scripts.fallback = Some("off".into());
                true
            }
            ("index", [name]) => {
                scripts.properties.extend((name != "index.php").then(|| format!("index={}", quoted(name))));
                scripts.fallback.get_or_insert_with(|| format!("/{}", name.trim_start_matches('/')));
                true
            }
            ("env", [name, value]) => match template(value) {
                Some(value) => {
                    scripts.lines.push(format!("env {} {}", quoted(name), quoted(&value)));
                    true
                }
                None => false,
            },
            ("try_files", [.., last]) => {
                let last = last.split('?').next().unwrap_or_default();
                scripts.fallback = if last.contains(".php") && !last.contains('{') {
                    Some(format!("/{}", last.trim_start_matches('/')))
                } else {
                    Some("off".into())
                };
                last.contains(".php") || last.starts_with('=') || last.contains("{path}")
            }
            ("dial_timeout", [time]) => duration(time).map(|time| timeouts.push(format!("connect=\"{time}\""))).is_some(),
            ("read_timeout", [time]) => duration(time).map(|time| timeouts.push(format!("first-byte=\"{time}\""))).is_some(),
            ("resolve_root_symlink" | "capture_stderr", _) => true,
            ("lb_policy", [policy]) => super::pools::balance(policy).map(|line| scripts.lines.push(line)).is_some(),
            _ => false,
        };
        if is_carried {
            found.origin.carry_all(words::places([line]));
        }
    }
    if !timeouts.is_empty() {
        timeouts.dedup();
        scripts.lines.push(format!("timeout {}", timeouts.join(" ")));
    }
    vec![found.act(Act::Answer(ChainAnswer::Scripts(scripts)))]
}

fn server(word: &str) -> Option<String> {
    let word = word.strip_prefix("php://").unwrap_or(word);
    let written = fixed(word)?;
    if written.contains("{env.") {
        return Some(written.replace("unix//", "unix:/"));
    }
    upstream(&written.replace("unix//", "unix:/"))
}

/// A time of Caddy, which has days as well, as one of ours.
pub fn duration(text: &str) -> Option<String> {
    let text = text.trim();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = digits.parse().ok()?;
    match unit {
        "ms" | "s" | "m" | "h" if number > 0 => Some(text.to_owned()),
        "d" if number > 0 => Some(format!("{}h", number * 24)),
        // `1m30s`, and what machines write, such as `1m0s`.
        _ if text.chars().all(|c| c.is_ascii_digit() || matches!(c, 'h' | 'm' | 's')) && text.ends_with('s') => {
            let seconds = seconds(text)?;
            (seconds > 0).then(|| format!("{seconds}s"))
        }
        _ => None,
    }
}

fn seconds(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut number = 0_u64;
    for c in text.chars() {
        let of_one = match c {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            digit => {
                number = number.checked_mul(10)?.checked_add(u64::from(digit.to_digit(10)?))?;
                continue;
            }
        };
        total = total.checked_add(number.checked_mul(of_one)?)?;
        number = 0;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn times_are_ours() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(duration(text).as_deref(), expected, "{text}");
        check("30s", Some("30s"));
        check("1m30s", Some("90s"));
        check("2d", Some("48h"));
        check("0s", None);
        check("x", None);
    }
}
