//! The `log` of sites of a Caddyfile. What several sites write into one file is one log here.

use super::directives::bytes;
use super::log_targets::{LogTarget, target};
use super::serving::NO_LOG;
use super::words;
use crate::accounts::Origin;
use crate::braces::{Statement, named, value};
use crate::outline::{OutlinedSetting, OutlinedSite};
use crate::site_logs::STDOUT;
use tidegate_kdl::quoted;

const CONSOLE: &str = "lines are JSON here: `format=\"common\"` or a template on the line of `access-log` says otherwise";
const BY_SIZE: &str = "a file is renamed at a size here, and not by its age";
const NETWORK: &str =
    "lines go to standard output here: a program there sends them on, as does `access-log \"syslog://192.0.2.4:514\"`";
/// Above this Caddy writes of answers with 500 and more alone.
const ERRORS: &str = " status=\"500-599\"";

/// What a site says of the lines of its requests.
#[derive(Debug)]
pub enum CaddyLog {
    /// `access-log` with what it says of its own.
    To {
        line: String,
        origin: Origin,
    },
    Nowhere(Origin),
}

/// The `log` of a site; `None` where its target is not known.
pub fn read(log: &Statement) -> Option<CaddyLog> {
    let inside = log.inside();
    let mut origin = Origin::default();
    origin.carry_all(words::places([log]));
    origin.lose(&words::filters(log));
    let mut line = match target(log)? {
        LogTarget::Stdout => STDOUT.to_owned(),
        LogTarget::Stderr => "access-log \"stderr\"".to_owned(),
        LogTarget::Nowhere => return Some(CaddyLog::Nowhere(origin)),
        LogTarget::Network => {
            origin.differ(log.start(), NETWORK);
            STDOUT.to_owned()
        }
        LogTarget::File(file, inside) => {
            let (rolls, is_by_age) = rolls(inside);
            if is_by_age {
                origin.differ(log.start(), BY_SIZE);
            }
            format!("access-log {}{rolls}", quoted(&file))
        }
    };
    match named(inside, "format").next().map(|format| (format.argument(), format.arguments().get(1))) {
        Some(("console", _)) => origin.differ(log.start(), CONSOLE),
        Some(("transform", Some(template))) if template.contains("common_log") => {
            line.push_str(" format=\"common\"");
            origin.carry_all(words::filters(log));
        }
        Some(_) | None => {}
    }
    let is_of_errors = value(inside, "level")
        .is_some_and(|level| ["warn", "warning", "error", "panic", "fatal"].iter().any(|name| level.eq_ignore_ascii_case(name)));
    if is_of_errors {
        line.push_str(ERRORS);
    }
    Some(CaddyLog::To { line, origin })
}

/// When a file is renamed, and whether the file says it by its age as well.
fn rolls(inside: &[Statement]) -> (String, bool) {
    let said = |name: &str| value(inside, name);
    if named(inside, "roll_disabled").next().is_some() {
        return (String::new(), false);
    }
    let size = said("roll_size").and_then(bytes).unwrap_or_else(|| "\"100MiB\"".to_owned());
    let size = if size.starts_with('"') { size } else { quoted(&format!("{size}B")) };
    let keep = said("roll_keep").and_then(|keep| keep.parse::<u32>().ok()).filter(|keep| (1..=1000).contains(keep));
    (format!(" rotate={size} keep={}", keep.unwrap_or(10)), said("roll_keep_for").is_some())
}

/// The logs of a site, and the step that says that there are none; what was not read is left.
pub fn add(logs: Vec<CaddyLog>, site: &mut OutlinedSite) {
    if !logs.is_empty() && logs.iter().all(|log| matches!(log, CaddyLog::Nowhere(_))) {
        site.steps.push(NO_LOG.to_owned());
    }
    for log in logs {
        match log {
            CaddyLog::Nowhere(origin) => site.origin.add(&origin),
            CaddyLog::To { line, origin } => site.logs.push(OutlinedSetting { line, origin }),
        }
    }
}
