//! Who may come in by a file of nginx, and how often, as lines of ours. What a block says takes the place of what those
//! around it say, as nginx has it.

use super::NginxReader;
use crate::foreign::accounts::Origin;
use crate::foreign::braces::{Statement, named};
use crate::forms::parse_network;

/// The statements of these names in the innermost block that has any.
pub fn nearest<'s>(levels: &[&'s [Statement]], names: &[&str]) -> Vec<&'s Statement> {
    let of = |level: &&'s [Statement]| -> Vec<&'s Statement> {
        level.iter().filter(|statement| names.contains(&statement.name())).collect()
    };
    levels.iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Lines of ours, and what they are made of.
#[derive(Debug, Clone, Default)]
pub struct Guards {
    pub steps: Vec<String>,
    /// Of the block itself.
    pub body_limit: Option<String>,
    pub origin: Origin,
}

impl NginxReader {
    /// What keeps others out in a block, the innermost first of those that it stands in.
    pub(super) fn guards(&self, levels: &[&[Statement]]) -> Guards {
        let mut guards = Guards::default();
        let rules = nearest(levels, &["allow", "deny"]);
        // Behind another proxy, the address of a connection is that one's.
        if let Some(lines) = access(&rules).filter(|_| !levels.iter().any(|level| is_behind_another(level))) {
            guards.steps.extend(lines);
            guards.origin.carry_all(rules.iter().map(|rule| rule.start()));
        }
        for limit in nearest(levels, &["limit_req"]) {
            if let Some(line) =
                self.rate_limit(limit.arguments()).filter(|_| !levels.iter().any(|level| is_behind_another(level)))
            {
                guards.steps.push(line);
                guards.origin.carry(limit.start());
            }
        }
        guards
    }

    /// `zone=api burst=40 nodelay`
    fn rate_limit(&self, arguments: &[String]) -> Option<String> {
        let behind = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
        let (_, rate) = self.zones.iter().find(|(name, _)| Some(name.as_str()) == behind("zone="))?;
        let burst = behind("burst=").map_or(Some(0), |burst| burst.parse::<u32>().ok())?;
        Some(format!("rate-limit \"{rate}\" burst={}", burst.checked_add(1)?))
    }
}

fn is_behind_another(level: &[Statement]) -> bool {
    let is_header = |listen: &Statement| listen.arguments().iter().any(|word| word == "proxy_protocol");
    let is_list = |include: &Statement| ["cloudflare", "real"].iter().any(|word| include.argument().contains(word));
    named(level, "set_real_ip_from").next().is_some()
        || named(level, "real_ip_header").next().is_some()
        || named(level, "listen").any(is_header)
        || named(level, "include").any(is_list)
}

/// The line for the largest body, in the innermost block that says it.
pub fn body_limit(level: &[Statement]) -> Option<(String, usize)> {
    let written = named(level, "client_max_body_size").last()?;
    let (number, unit) = match written.argument().to_ascii_lowercase() {
        text if text.ends_with('k') => (text[..text.len() - 1].to_owned(), "KiB"),
        text if text.ends_with('m') => (text[..text.len() - 1].to_owned(), "MiB"),
        text if text.ends_with('g') => (text[..text.len() - 1].to_owned(), "GiB"),
        text => (text, "B"),
    };
    let number = number.parse::<u32>().ok().filter(|number| *number > 0)?;
    Some((format!("body-limit \"{number}{unit}\""), written.start()))
}

/// `$binary_remote_addr zone=api:10m rate=20r/s`
pub fn zone(arguments: &[String]) -> Option<(String, String)> {
    let behind = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
    let name = behind("zone=")?.split(':').next()?.to_owned();
    let (count, unit) = behind("rate=")?.split_once("r/")?;
    (count.parse::<u32>().is_ok() && matches!(unit, "s" | "m")).then(|| (name, format!("{count}/{unit}")))
}

/// The lines of ours for those who may come in, in the order that they stand in; `None` when they say something else.
fn access(rules: &[&Statement]) -> Option<Vec<String>> {
    let rules: Vec<(&str, &str)> = rules.iter().map(|statement| (statement.name(), statement.argument())).collect();
    let end = rules.iter().position(|(_, who)| *who == "all");
    let (named, end) = (&rules[..end.unwrap_or(rules.len())], end.map(|end| rules[end].0));
    let has_allow = named.iter().any(|(word, _)| *word == "allow");
    let is_known = named.iter().all(|(_, who)| parse_network(who).is_ok());
    // Who is named by no line is refused as soon as one allows somebody, here without a word.
    let is_alike = has_allow == (end == Some("deny"));
    (is_known && is_alike).then(|| named.iter().map(|(word, who)| format!("{word} \"{who}\"")).collect())
}
