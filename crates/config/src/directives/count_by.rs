//! What `rate-limit` and `concurrency-limit` have in common: the properties that say what is counted as one, and what
//! only shows with all limits of a site.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::language::{Line, Said};
use crate::lowering::Lowering;
use crate::table::{Kind, Property, Stage};
use crate::written_line::Writer;
use tidegate_model::{CountBy, Step, Template, TemplatePart};

pub const NAME: Property = Property::once(
    "name",
    Kind::Text("a name"),
    "Limits of one name in a site count together. Clients read it too: letters, digits, `-`, `_`, `.` and `/`.",
);
pub const BY: Property = Property::once(
    "by",
    Kind::Template(Stage::Request),
    "What is counted as one: `client-ip`, which is meant when it is left out, `all`, or a text with placeholders.",
);
pub const IPV6_PREFIX: Property = Property::once(
    "ipv6-prefix",
    Kind::Integer { min: 1, max: 128 },
    "Bits of an IPv6 address that tell clients apart; 64 when left out.",
);
pub const DRY_RUN: Property = Property::once(
    "dry-run",
    Kind::Switch,
    "Counts and says what would be refused, and refuses nothing; `#false` when left out.",
);

/// Properties of limits elsewhere.
pub const SAID_OTHERWISE: &[Said] = &[
    (
        &["zone", "key", "source", "per", "sourceCriterion"],
        "what is counted as one is said with `by=`; limits that count together have one `name=`",
    ),
    (
        &["rate", "average", "period", "window", "max_events", "events", "max_tokens", "tokens_per_fill", "fill_interval"],
        "number and time stand behind the word, as in `rate-limit \"10/s\"`, and what may come at once in `burst=`",
    ),
    (&["nodelay", "delay"], "requests are let through or refused at once, and never held back: leave it out"),
    (&["dry_run", "dryrun", "shadow"], "did you mean `dry-run=#true`?"),
    (&["amount", "max", "limit"], "the number stands behind the word, as in `concurrency-limit 10`"),
];

const NAME_CHARS_MAX: usize = 64;
pub const STATUS: Kind = Kind::Integer { min: 400, max: 599 };

/// The values of `name=`, `by=` and `ipv6-prefix=`. No `by` at all when it is faulty.
pub fn read(lowering: &mut Lowering<'_>, line: &Line<'_>) -> (Option<String>, Option<CountBy>, u8) {
    let name = line.text(lowering, "name");
    if let Some(name) = &name
        && !is_name(&name.value)
    {
        let message = format!("`{}` is no name of a limit", shortened(&name.value));
        let help = format!("letters, digits, `-`, `_`, `.` and `/` can stand in it, at most {NAME_CHARS_MAX}");
        lowering.report(name.error("bad-value", message).help(help));
    }
    let by = match line.property("by") {
        None => Some(CountBy::Client),
        Some(value) => line.template(lowering, "by").and_then(|template| count_by(lowering, template, value.location.clone())),
    };
    let ipv6_prefix = line.number(lowering, "ipv6-prefix").map_or(CountBy::IPV6_PREFIX, |bits| bits as u8);
    (name.map(|name| name.value), by, ipv6_prefix)
}

fn is_name(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
}

fn count_by(lowering: &mut Lowering<'_>, template: Template, at: Location) -> Option<CountBy> {
    match template.as_literal() {
        Some("client-ip") => return Some(CountBy::Client),
        Some("all") => return Some(CountBy::All),
        Some(literal) => {
            let shown = lowering.shown(&shortened(literal), &at);
            let message = format!("by `{shown}` everybody would be counted together");
            let diagnostic = Diagnostic::error("bad-value", at, message);
            return lowering.refuse(match literal.to_ascii_lowercase().as_str() {
                "ip" | "src" | "client" | "client_ip" | "client.ip" | "remote" | "remote_ip" | "remote_addr" | "address"
                | "$binary_remote_addr" | "$remote_addr" => diagnostic.help("write `by=\"client-ip\"`"),
                "" | "everybody" | "global" | "site" | "server" | "route" => {
                    diagnostic.help("write `by=\"all\"` if that is meant")
                }
                _ => diagnostic.help(
                    "write `by=\"client-ip\"`, `by=\"all\"`, or a text with placeholders, as in `by=\"{request.header.X-Api-Key}\"`",
                ),
            });
        }
        None => {}
    }
    let differs = template.parts.iter().find_map(|part| match part {
        TemplatePart::Placeholder(placeholder) => CountBy::differs_for_each_request(placeholder).then(|| placeholder.to_string()),
        TemplatePart::Literal(_) | TemplatePart::Capture(_) => None,
    });
    if let Some(placeholder) = differs {
        let message = format!("by `{placeholder}` each request would be counted alone, and none ever refused");
        return lowering.refuse(Diagnostic::error("bad-value", at, message).help("write for example `by=\"client-ip\"`"));
    }
    Some(CountBy::Text(template))
}

/// Whether both would count in one table, if they stood in one block.
fn are_one(a: &Step, b: &Step) -> bool {
    match (a, b) {
        (Step::RateLimit(a), Step::RateLimit(b)) => a.identity() == b.identity(),
        (Step::ConcurrencyLimit(a), Step::ConcurrencyLimit(b)) => a.identity() == b.identity(),
        _ => false,
    }
}

fn count_alike(a: &Step, b: &Step) -> bool {
    match (a, b) {
        (Step::RateLimit(a), Step::RateLimit(b)) => {
            (a.rate, a.burst, &a.by, a.ipv6_prefix, a.keys_max) == (b.rate, b.burst, &b.by, b.ipv6_prefix, b.keys_max)
        }
        (Step::ConcurrencyLimit(a), Step::ConcurrencyLimit(b)) => (&a.by, a.ipv6_prefix) == (&b.by, b.ipv6_prefix),
        _ => true,
    }
}

/// The name of a limit; nothing of any other step.
fn name_of_limit(step: &Step) -> Option<&String> {
    match step {
        Step::RateLimit(limit) => limit.name.as_ref(),
        Step::ConcurrencyLimit(limit) => limit.name.as_ref(),
        _ => None,
    }
}

/// The limits of a site, block by block: two that could not be told apart, and two of one name that say different
/// things.
pub fn check_limits<'a>(lowering: &mut Lowering<'_>, blocks: impl Iterator<Item = &'a [(Step, Location)]>) {
    let mut named: Vec<&(Step, Location)> = Vec::new();
    for block in blocks {
        for (position, written) in block.iter().enumerate() {
            let (step, at) = written;
            if let Some((_, first)) = block[..position].iter().find(|(first, _)| are_one(first, step)) {
                let message = match step {
                    Step::RateLimit(limit) if limit.name.is_none() => "two limits count the same requests in the same time",
                    _ => "two limits count the same requests",
                };
                let diagnostic = Diagnostic::error("duplicate-limit", at.clone(), message).label(first.clone(), "the first one");
                lowering.report(diagnostic.help("remove one of them, or tell them apart with `name=`"));
            } else if let Some((first, first_at)) = named.iter().find(|(first, _)| are_one(first, step)) {
                if !count_alike(first, step) {
                    let message = "limits of one name count together, and these two count differently";
                    let diagnostic = Diagnostic::error("conflicting-limits", at.clone(), message)
                        .label(first_at.clone(), "the first of that name")
                        .help("give them the same rate, `burst=`, `by=`, `ipv6-prefix=` and `keys=`, or another name");
                    lowering.report(diagnostic);
                }
            } else if name_of_limit(step).is_some() {
                named.push(written);
            }
        }
    }
}

pub fn write(line: &mut Writer, by: &CountBy, ipv6_prefix: u8, name: Option<&str>) {
    line.property("by", by).number_unless(CountBy::IPV6_PREFIX.into(), "ipv6-prefix", ipv6_prefix.into());
    line.optional("name", name);
}
