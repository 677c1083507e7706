//! `pool "api" { … }`: servers, how one is chosen, how one that fails is noticed, and how connections to them are made.
//! Each file here has a few of its directives; what concerns several of them is in `checks`.

pub mod balance;
pub mod bounds;
mod checks;
pub mod connection;
pub mod discover;
pub mod draft;
pub mod health;
pub mod outlier;
pub mod retry;
pub mod server;
pub mod sticky;

pub use checks::finish;
pub use draft::PoolDraft;

use crate::diagnostics::{Diagnostic, nearest, not_available, quoted_list};
use crate::directives::origin;
use crate::language::{Directive, Line, Lower};
use crate::lowering::{Lowering, WrittenPool};
use crate::pieces::TopNode;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::syntax::{Literal, Value};
use crate::table::{Argument, Block, Kind, Place, Repeat};
use crate::written_line::Lines;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{Pool, PoolName, Protocol, Scheme, UpstreamTls};

pub static POOL: Directive = Directive {
    name: "pool",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument::one("name", Kind::Text("a name, as in `\"api\"`"), "Letters, digits, `-`, `_` and `.`.")],
    block: Block::Required(Place::Pool),
    summary: "Servers that do the same work, to be named by `proxy`, or by `fastcgi` where they run scripts.",
    example: "pool \"api\" {\n    server \"10.0.0.4:8080\" weight=2\n    server \"10.0.0.5:8080\"\n    server \"https://10.0.0.6:8443\" backup=#true\n}",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

/// The argument of a directive that can be switched off.
const OFF: Argument = Argument::optional("mode", Kind::Choice(&["off"]), "`off`, and nothing else on the line.");

/// The names of all pools that are written, before anything uses them. Reports names that are taken.
pub fn collect_names(lowering: &mut Lowering<'_>, nodes: &[TopNode]) -> BTreeMap<String, WrittenPool> {
    let mut names: BTreeMap<String, WrittenPool> = BTreeMap::new();
    // Faults of the text itself are reported where the pool is lowered.
    let mut scratch = Lowering::new(lowering.sources, lowering.environment);
    for top in nodes.iter().filter(|node| node.name() == POOL.name) {
        let head = &top.remembered.head;
        let mut said = head.protocols.iter().filter_map(|value| resolved(&mut scratch, top, value));
        let is_fastcgi = said.any(|said| Protocol::NAMES.contains(&(&said.value, Protocol::FastCgi)));
        let Some(value) = head.arguments.first() else { continue };
        if let Literal::Text(name) = &value.literal
            && !name.contains(['{', '}'])
            && !names.contains_key(name)
        {
            // There may be thousands, and nothing is to be filled in.
            names.insert(name.clone(), WrittenPool { at: top.location(&value.location), is_fastcgi });
            continue;
        }
        let Some(name) = resolved(&mut scratch, top, value) else { continue };
        if let Some(first) = names.get(&name.value) {
            let diagnostic =
                Diagnostic::error("duplicate-pool", name.location.clone(), format!("there are two pools `{}`", name.shown()))
                    .label(first.at.clone(), "the first one");
            lowering.report(diagnostic);
            continue;
        }
        names.insert(name.value, WrittenPool { at: name.location, is_fastcgi });
    }
    lowering.looks_outside |= scratch.looks_outside;
    names
}

/// A value in the piece `top`.
fn resolved(scratch: &mut Lowering<'_>, top: &TopNode, value: &Value) -> Option<Text> {
    let value = Value { location: top.location(&value.location), ..value.clone() };
    crate::placeholders::resolve_text(scratch, &value)
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let name = line.read_argument(lowering, 0).map(Read::text);
    let mut draft = PoolDraft::default();
    for child in line.lines(lowering) {
        lower_line(lowering, &mut draft, &child);
    }
    if let Some(name) = &name
        && !is_name(&name.value)
    {
        let message = format!("`{}` cannot be the name of a pool", name.value);
        lowering.report(name.error("bad-name", message).help("a name has letters, digits, `-`, `_` and `.`"));
        return;
    }
    let pool_name = PoolName(name.map_or_else(String::new, |name| name.value).into());
    if line.node.children.is_none() {
        return;
    }
    // Two of one name were reported when the names were collected.
    let pool = finish(lowering, draft, pool_name, line.location());
    lowering.configuration.pools.extend(pool.map(Arc::new));
}

/// A line of a pool's block, or of the block of whatever writes a pool in place.
pub fn lower_line(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    draft.at.insert(line.directive.name, line.location());
    // An `include` has been replaced by now.
    if let Lower::Pool(lower) = line.directive.lower {
        lower(lowering, draft, line);
    }
}

/// Of a pool or a zone: what needs no quotes in a metric or a log line.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether the line switches its directive off. Settings beside that are reported.
fn is_off(lowering: &mut Lowering<'_>, line: &Line<'_>) -> bool {
    let Some(Read::Choice(_, at)) = line.read_argument(lowering, 0) else { return false };
    if let Some(fault) = line.settings_of_off() {
        lowering.report(fault.label(at, "switched off here"));
    }
    true
}

/// Says what a zero may have been meant to be, when it was just refused.
fn explain_zero(lowering: &mut Lowering<'_>, value: Option<&Value>, help: &'static str) {
    let is_zero = |value: &&Value| match &value.literal {
        Literal::Integer(number) => *number == 0,
        Literal::Text(text) => text.trim_end_matches(|c: char| c.is_ascii_alphabetic()) == "0",
        Literal::Float(_) | Literal::Switch(_) | Literal::Null => false,
    };
    if let (Some(value), Some(last)) = (value.filter(is_zero), lowering.diagnostics.last_mut())
        && last.code == "out-of-range"
        && last.primary.location == value.location
    {
        last.help = Some(help.into());
    }
}

/// Reports a line with nothing on it.
fn expect_settings(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if line.node.entries.is_empty() {
        let message = format!("`{}` sets nothing", line.directive.name);
        let diagnostic = Diagnostic::error("missing-argument", line.location(), message);
        lowering.report(diagnostic.help(format!("for example `{}`", line.directive.example)));
    }
}

/// An error for a word that is none of the choices, or is one that a later version brings.
fn other_word(text: &Text, owner: &str, names: &[&str], reserved: &str) -> Diagnostic {
    if text.value == reserved {
        return not_available(text.location.clone(), &format!("{owner} \"{reserved}\""));
    }
    let diagnostic = text.error("bad-value", format!("`{owner}` cannot be `{}`", text.value));
    match nearest(&text.value, names.iter().copied()).filter(|_| !text.secret) {
        Some(candidate) => diagnostic.help(format!("did you mean `\"{candidate}\"`?")),
        None => diagnostic.help_of_language(format!("it can be {}", quoted_list(names))),
    }
}

/// Everything of its block but the servers. What is on by default is there, and what a pool of its kind has no use for
/// is not.
pub fn write_settings(lines: &mut Lines, pool: &Pool) {
    let Pool {
        name: _,
        origin,
        servers,
        discover,
        balance,
        zone,
        sticky,
        health,
        outlier,
        slow_start,
        timeouts,
        retry,
        hedge,
        bounds,
        keep_alive,
        protocol,
        tls,
        send_proxy_protocol,
    } = pool;
    lines.extend(discover, |line, discover| discover::write(line.repeated("discover"), discover));
    balance::write(lines.line(), balance);
    lines.extend(zone.as_deref(), server::write_zone);
    lines.extend(sticky, sticky::write);
    lines.extend(health, health::write);
    outlier::write(lines.line(), outlier.as_ref());
    outlier::write_slow_start(lines.line(), *slow_start);
    connection::write_timeouts(lines.line(), timeouts);
    retry::write_or_off(lines.line(), retry.as_ref());
    lines.extend(hedge, retry::write_hedge);
    bounds::write(lines, bounds);
    connection::write_keep_alive(lines.line(), keep_alive, *protocol);
    connection::write_protocol(lines.line(), *protocol);
    let may_have_tls = !discover.is_empty() || servers.iter().any(|server| server.address.scheme() == Scheme::Https);
    if may_have_tls || *tls != UpstreamTls::default() {
        connection::write_tls(lines.line(), tls);
    }
    lines.extend(send_proxy_protocol, connection::write_proxy_protocol);
    lines.extend(origin.as_deref(), origin::write);
}
