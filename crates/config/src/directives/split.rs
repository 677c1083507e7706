//! `split { proxy "web" weight=95; proxy "canary" weight=5 }`: requests spread over pools, each its share.

use crate::diagnostics::Diagnostic;
use crate::directives::proxy;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::table::{Block, Kind, Place, Property, Repeat, Stage};
use crate::written_line::Writer;
use tidegate_model::{Placeholder, Split, SplitArm, Template, TemplatePart, Terminal};

pub static SPLIT: Directive = Directive {
    name: "split",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    properties: &[
        Property::once(
            "to",
            Kind::Template(Stage::Request),
            "The name of the pool among those in the block, as in `{map.tenants}`. Where it names none of them, the request is shared out as without it.",
        ),
        Property::once(
            "by",
            Kind::Template(Stage::Request),
            "What decides: requests with the same text go to the same pool, as in `{request.cookie.session}`. `client-ip` is short for `{client.ip}`.",
        ),
    ],
    block: Block::Required(Place::Split),
    summary: "Hands each request to one of several pools, by their shares.",
    details: "Without `by=`, and where it comes out empty, each request goes by chance. With it a client stays with its pool, over restarts and over all instances: a \
              key has its place in one row of shares in the order written, so a share that grows takes over only what lies beside it. The same key is in the same \
              place in every `split`.\n\n\
              With `to=`, what a `map`, a header or a part of the host says is the name of the pool; a pool with `weight=0` gets what names it and nothing else.\n\n\
              A cookie that the upstream sets is not there in the first request, which then goes by chance and may go elsewhere than those that follow. Balance, \
              health and retries are those of the pool that was taken: a request that fails there is not sent to another pool.",
    example: "split by=\"{request.cookie.session}\" {\n    proxy \"10.0.0.4:8080\" \"10.0.0.5:8080\" weight=95\n    proxy \"10.0.0.9:8080\" weight=5\n}",
    lower: Lower::Terminal(lower),
    ..Directive::PLAIN
};

pub static SPLIT_PROXY: Directive = Directive {
    name: "proxy",
    places: &[Place::Split],
    repeat: Repeat::Many,
    arguments: proxy::ARGUMENTS,
    properties: &[
        Property::once(
            "weight",
            Kind::Integer { min: 0, max: SplitArm::WEIGHT_MAX as u64 },
            "Its part of the requests, beside the others'; `1` when left out. `0` is nobody.",
        ),
        proxy::REWRITE_LOCATION,
    ],
    block: Block::Optional(Place::Pool),
    summary: "A pool that gets a share of the requests.",
    details: "It takes what `proxy` takes elsewhere: the name of a pool, or addresses.",
    example: "proxy \"10.0.0.4:8080\" weight=95",
    lower: Lower::Terminal(proxy::lower),
    ..Directive::PLAIN
};

/// What may stand for `{client.ip}`.
const CLIENT_IP: &str = "client-ip";

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Terminal> {
    let errors_before = lowering.diagnostics.len();
    let (to, by) = (to(lowering, line), by(lowering, line));
    let mut arms: Vec<SplitArm> = Vec::new();
    let lines = line.lines(lowering);
    for child in &lines {
        let weight = child.number(lowering, "weight").map_or(1, |weight| weight as u32);
        if let Some(Terminal::Proxy { pool, retry, rewrites_location }) = proxy::lower(lowering, child) {
            arms.push(SplitArm { pool, retry, rewrites_location, weight });
        }
    }
    let has_weight = arms.iter().any(|arm| arm.weight > 0);
    if lines.len() > Split::ARMS_MAX {
        let message = format!("there are more than {} pools in this `split`", Split::ARMS_MAX);
        lowering.report(Diagnostic::error("too-many-pools", line.location(), message));
    }
    if lowering.has_errors_since(errors_before) {
        return None;
    }
    if arms.is_empty() {
        if line.node.children.is_some() {
            let diagnostic = Diagnostic::error("missing-argument", line.location(), "`split` has no pool to hand requests to");
            lowering
                .report(diagnostic.help("for example `proxy \"web\" weight=95` and `proxy \"canary\" weight=5` in its block"));
        }
        return None;
    }
    if !has_weight {
        let diagnostic = Diagnostic::error("no-weight", line.location(), "no pool of this `split` gets any requests");
        return lowering.refuse(diagnostic.help("give one of them a `weight=` above 0"));
    }
    Some(Terminal::Split(Split { to, by, arms }))
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
        let SplitArm { pool, retry, rewrites_location, weight } = arm;
        line.name("proxy").argument(&pool.0).number("weight", weight);
        line.switch_unless(false, proxy::REWRITE_LOCATION.name, *rewrites_location);
        proxy::write_retry(line, retry);
    });
}
