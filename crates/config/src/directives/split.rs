//! `split { proxy "web" weight=95; proxy "canary" weight=5 }`: requests spread over arms, each its share.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::directives::{proxy, write_step, write_terminal};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat, Stage};
use crate::written_line::Writer;
use std::collections::HashMap;
use tidegate_model::{ArmEnd, Placeholder, Split, SplitArm, Template, TemplatePart, Terminal};

pub static SPLIT: Directive = Directive {
    name: "split",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    properties: &[
        Property::once(
            "to",
            Kind::Template(Stage::Request),
            "The name of an arm in the block, as in `{map.tenants}`: that of its pool, where it has none of its own. Where it names none of them, the request is shared out as without it.",
        ),
        Property::once(
            "by",
            Kind::Template(Stage::Request),
            "What decides: requests with the same text go the same way, as in `{request.cookie.session}`. `client-ip` is short for `{client.ip}`.",
        ),
    ],
    block: Block::Required(Place::Split),
    summary: "Hands each request to one of several pools, by their shares, or treats it in one of several ways.",
    details: "Without `by=`, and where it comes out empty, each request goes by chance. With it a client stays with its pool, over restarts and over all instances: a \
              key has its place in one row of shares in the order written, pools in front of each `arm`, so a share that grows takes over only what lies beside it. The same key is in the same \
              place in every `split`.\n\n\
              With `to=`, what a `map`, a header or a part of the host says is the name of the pool; a pool with `weight=0` gets what names it and nothing else.\n\n\
              A cookie that the upstream sets is not there in the first request, which then goes by chance and may go elsewhere than those that follow. Balance, \
              health and retries are those of the pool that was taken: a request that fails there is not sent to another pool.\n\n\
              An `arm` has steps of its own, or answers by itself. The access log names what a request has taken as `arm`, and `tidegate_split_requests_total` counts it.",
    example: "split by=\"{request.cookie.session}\" {\n    proxy \"10.0.0.4:8080\" \"10.0.0.5:8080\" weight=95\n    proxy \"10.0.0.9:8080\" weight=5\n}",
    lower: Lower::Terminal(lower),
    ..Directive::PLAIN
};

const WEIGHT: Property = Property::once(
    "weight",
    Kind::Integer { min: 0, max: SplitArm::WEIGHT_MAX as u64 },
    "Its part of the requests, beside the others'; `1` when left out. `0` is nobody.",
);

pub static SPLIT_PROXY: Directive = Directive {
    name: "proxy",
    places: &[Place::Split],
    repeat: Repeat::Many,
    arguments: proxy::ARGUMENTS,
    properties: &[WEIGHT, proxy::REWRITE_LOCATION],
    block: Block::Optional(Place::Pool),
    summary: "A pool that gets a share of the requests.",
    details: "It takes what `proxy` takes elsewhere: the name of a pool, or addresses.",
    example: "proxy \"10.0.0.4:8080\" weight=95",
    lower: Lower::Terminal(proxy::lower),
    ..Directive::PLAIN
};

pub static ARM: Directive = Directive {
    name: "arm",
    places: &[Place::Split],
    repeat: Repeat::Many,
    arguments: &[Argument::optional(
        "name",
        Kind::Text("a name, as in `\"next\"`"),
        "What the access log, metrics and `to=` call it; when left out, as its pool, or its status.",
    )],
    properties: &[WEIGHT],
    block: Block::Required(Place::Arm),
    summary: "A share of the requests with steps of its own, or with an answer that is made here.",
    details: "Its steps run behind all others, those of the route in front of the `split` among them, and on the answers of its requests. It ends with `proxy`, \
              `respond` or `redirect`: `arm weight=5 { respond 500 }` answers one request in twenty of a `split` whose weights are 100 together.",
    example: "arm \"next\" weight=5 {\n    request-header \"X-Version\" \"2\"\n    add-prefix \"/v2\"\n    proxy \"10.0.0.9:8080\"\n}",
    ..Directive::PLAIN
};

/// What may stand for `{client.ip}`.
const CLIENT_IP: &str = "client-ip";

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Terminal> {
    let errors_before = lowering.diagnostics.len();
    let (to, by) = (to(lowering, line), by(lowering, line));
    let mut arms: Vec<SplitArm> = Vec::new();
    let lines = line.lines(lowering);
    let mut named = HashMap::new();
    for child in &lines {
        let arm = if child.directive.name == ARM.name {
            arm(lowering, child)
        } else {
            proxy::lower(lowering, child).and_then(ArmEnd::of).map(|end| SplitArm {
                name: None,
                weight: weight(lowering, child),
                steps: Vec::new(),
                end,
            })
        };
        if let Some(arm) = arm {
            check_name(lowering, &mut named, &arm, child.location());
            arms.push(arm);
        }
    }
    let has_weight = arms.iter().any(|arm| arm.weight > 0);
    if lines.len() > Split::ARMS_MAX {
        let message = format!("there are more than {} arms in this `split`", Split::ARMS_MAX);
        lowering.report(Diagnostic::error("too-many-arms", line.location(), message));
    }
    if lowering.has_errors_since(errors_before) {
        return None;
    }
    if arms.is_empty() {
        if line.node.children.is_some() {
            let diagnostic = Diagnostic::error("missing-argument", line.location(), "`split` has nothing to hand requests to");
            lowering
                .report(diagnostic.help("for example `proxy \"web\" weight=95` and `proxy \"canary\" weight=5` in its block"));
        }
        return None;
    }
    if !has_weight {
        let diagnostic = Diagnostic::error("no-weight", line.location(), "nothing in this `split` gets any requests");
        return lowering.refuse(diagnostic.help("give one of them a `weight=` above 0"));
    }
    // In JSON these are two lists, and a key has its place in one row of shares however the file is written.
    arms.sort_by_key(|arm| !arm.is_plain());
    Some(Terminal::Split(Split { to, by, arms }))
}

pub fn weight(lowering: &mut Lowering<'_>, line: &Line<'_>) -> u32 {
    line.number(lowering, WEIGHT.name).map_or(1, |weight| weight as u32)
}

/// What is done with one share. Lines of its block run in order, and the last one answers.
fn arm(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<SplitArm> {
    let name = arm_name(lowering, line);
    let weight = weight(lowering, line);
    let lines = line.lines(lowering);
    let all_understood = lines.len() == line.children().len();
    let (mut steps, mut end, mut answered) = (Vec::new(), None, None::<Location>);
    for child in &lines {
        if let Some(first) = &answered {
            let diagnostic =
                Diagnostic::error("unreachable-step", child.location(), format!("`{}` is never run", child.directive.name));
            lowering.report(
                diagnostic.label(first.clone(), "this has answered before").help("move it in front of that, or remove it"),
            );
            continue;
        }
        match child.directive.lower {
            Lower::Step(lower) => steps.extend(child.lower_step(lowering, lower)),
            Lower::Terminal(lower) => {
                answered = Some(child.location());
                end = lower(lowering, child).and_then(ArmEnd::of);
            }
            Lower::Option(_) | Lower::Inside | Lower::Reading | Lower::Top(_) | Lower::Pool(_) | Lower::Limits(_) => {
                unreachable!("the table has no such directive in an arm")
            }
        }
    }
    if answered.is_none() && line.node.children.is_some() && all_understood {
        let diagnostic = Diagnostic::error("nothing-answers", line.location(), "nothing answers in this `arm`");
        lowering.report(diagnostic.help("add `proxy`, `respond` or `redirect`"));
    }
    Some(SplitArm { name, weight, steps, end: end? })
}

fn arm_name(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let name = line.read_argument(lowering, 0)?.text();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    let most = SplitArm::NAME_BYTES_MAX;
    if name.value.is_empty() || name.value.len() > most || !name.value.chars().all(is_part) {
        let message = format!("`{}` cannot be the name of an arm", shortened(&name.value));
        let help = format!("a name has letters, digits, `_`, `-`, `.`, `/` and `:`, and at most {most} of them");
        return lowering.refuse(name.error("bad-name", message).help(help));
    }
    Some(name.value)
}

/// Two of one name could not be told apart. The same pool twice, as it is, is one.
fn check_name(lowering: &mut Lowering<'_>, named: &mut HashMap<String, (Location, bool)>, arm: &SplitArm, at: Location) {
    let is_plain = arm.is_plain();
    let name = arm.name().into_owned();
    let Some((first, is_first_plain)) = named.get(&name) else {
        named.insert(name, (at, is_plain));
        return;
    };
    if !(is_plain && *is_first_plain) {
        let message = format!("two arms of this `split` are called `{}`", shortened(&name));
        let diagnostic = Diagnostic::error("duplicate-arm", at, message).label(first.clone(), "the first one");
        lowering.report(diagnostic.help("give one of them a name of its own, as in `arm \"next\" { … }`"));
    }
}

fn to(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Template> {
    let template = line.template(lowering, "to")?;
    if template.as_literal().is_none() {
        return Some(template);
    }
    let at = line.property("to").map_or_else(|| line.location(), |value| value.location.clone());
    let diagnostic = Diagnostic::error("bad-value", at, "`to=` names one pool for every request");
    lowering.refuse(diagnostic.help("for example `to=\"{map.tenants}\"`; for one pool, write `proxy` instead of `split`"))
}

fn by(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Template> {
    let template = line.template(lowering, "by")?;
    match template.as_literal() {
        None => Some(template),
        Some(CLIENT_IP) => Some(Template { parts: vec![TemplatePart::Placeholder(Placeholder::ClientIp)] }),
        Some(_) => {
            let at = line.property("by").map_or_else(|| line.location(), |value| value.location.clone());
            let diagnostic =
                Diagnostic::error("bad-value", at, "`by=` is the same for every request, so one pool would get them all");
            lowering.report(
                diagnostic.help("for example `by=\"{request.cookie.session}\"` or `by=\"client-ip\"`; by chance when left out"),
            );
            None
        }
    }
}

pub fn write(line: &mut Writer, Split { to, by, arms }: &Split) {
    line.name("split").optional("to", to.as_ref()).optional("by", by.as_ref()).block(arms, |line, arm| {
        let SplitArm { name, weight, steps, end } = arm;
        match end {
            ArmEnd::Proxy { pool, retry, rewrites_location } if name.is_none() && steps.is_empty() => {
                line.name("proxy").argument(&pool.0).number(WEIGHT.name, weight);
                line.switch_unless(false, proxy::REWRITE_LOCATION.name, *rewrites_location);
                proxy::write_retry(line, retry);
            }
            ArmEnd::Proxy { .. } | ArmEnd::Respond { .. } | ArmEnd::Redirect { .. } => {
                line.name("arm").arguments(name).number(WEIGHT.name, weight).lines(|lines| {
                    lines.extend(steps, write_step);
                    write_terminal(lines.line(), &end.terminal());
                });
            }
        }
    });
}
