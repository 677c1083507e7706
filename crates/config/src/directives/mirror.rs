//! `mirror "shadow" sample="10%"`: a copy of requests to another pool, whose answers go to nobody.

use crate::diagnostics::Diagnostic;
use crate::directives::proxy;
use crate::forms::is_token;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::syntax::Literal;
use crate::table::{Block, Kind, Place, Property, Repeat};
use crate::written_line::{Writer, duration, size};
use std::time::Duration;
use tidegate_model::{Mirror, Mirrors, RouteOptions, Sample};

pub static MIRROR: Directive = Directive {
    name: "mirror",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: proxy::ARGUMENTS,
    properties: &[
        Property::once("sample", Kind::Sample, "Part of the requests that are copied, by chance; all of them when left out."),
        Property::once(
            "methods",
            Kind::Text("methods, separated by commas"),
            "Only requests with one of these, as in `GET,HEAD`; every method when left out.",
        ),
        Property::once(
            "body-max",
            Kind::Size { min: 0, max: Mirror::BODY_BYTES_MOST },
            "Requests with a larger body are not copied; `64KiB` when left out.",
        ),
        Property::once(
            "max",
            Kind::Integer { min: 1, max: 65_536 },
            "Copies under way at once, of each thread, and as many whose bodies still arrive; requests beyond are not copied. `128` when left out.",
        ),
        Property::once(
            "total",
            Kind::Duration { min: Duration::from_millis(10), max: Duration::from_secs(3600) },
            "How long a copy may take; `30s` when left out.",
        ),
    ],
    block: Block::Optional(Place::Pool),
    summary: "Sends a copy of each request to another pool as well, and throws its answer away.",
    details: "The request never waits for its copy, and nothing that happens to the copy reaches the client. A copy is what the upstream gets, as the steps have left it, \
              with `X-Mirrored: 1`; it goes when the whole request is there, once, without retries, and with the timeouts of its own pool. Its \
              field `X-Mirrored-By` names this process, which does not copy its own copies again. Upgrades are not copied, trailers neither. Several lines are several copies; `mirror \"off\"` takes \
              back those before it.\n\n\
              Every method is copied unless `methods=` says otherwise: a pool that writes what it is told must be one of its own. \
              `tidegate_mirror_requests_total` says how many were sent, failed, or were left out and why.",
    default: "no copies",
    example: "mirror \"10.0.0.9:8080\" sample=\"10%\" methods=\"GET,HEAD\"",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    let is_off = line.arguments().count() == 1
        && line.argument(0).is_some_and(|value| matches!(&value.literal, Literal::Text(text) if text == "off"));
    if is_off {
        if let Some(fault) = line.settings_of_off() {
            lowering.report(fault);
        }
        options.mirrors = Mirrors { are_off_before: true, named: Vec::new() };
        return;
    }
    if let [path] = &line.written_arguments()[..]
        && path.starts_with('/')
    {
        let help = "write where the copies go, as in `mirror \"10.0.0.9:8080\"`; the `internal` location of nginx is not needed"
            .to_owned();
        line.refuse_whole::<()>(lowering, "a copy goes to servers or a pool, and not to a path", help);
        return;
    }
    let errors_before = lowering.diagnostics.len();
    for child in line.children().iter().filter(|child| matches!(child.name.text.as_str(), "retry" | "hedge")) {
        let message = format!("`{}` does nothing here: a copy is sent once", child.name.text);
        lowering.report(Diagnostic::warning("without-effect", child.location.clone(), message).help("remove it"));
    }
    let pool = proxy::read_pool(lowering, line, proxy::Sends::Copies).map(|(pool, _)| pool);
    let sample = line.number(lowering, "sample").map_or(Sample::ALL, Sample::from_millionths);
    let methods = methods(lowering, line);
    let body_bytes_max = line.number(lowering, "body-max").unwrap_or(Mirror::BODY_BYTES_MAX);
    let copies_max = line.number(lowering, "max").map_or(Mirror::COPIES_MAX, |count| count as u32);
    let total = line.duration(lowering, "total").unwrap_or(Mirror::TOTAL);
    if lowering.has_errors_since(errors_before) {
        return;
    }
    let mirror = pool.map(|pool| Mirror { pool, sample, methods, body_bytes_max, copies_max, total });
    options.mirrors.named.extend(mirror);
}

fn methods(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<String> {
    let Some(text) = line.text(lowering, "methods") else { return Vec::new() };
    let methods: Vec<String> = text.value.split(',').map(|method| method.trim().to_owned()).collect();
    if let Some(wrong) = methods.iter().find(|method| !is_token(method)) {
        let message = format!("`{}` is not a method", crate::diagnostics::shortened(wrong));
        lowering.report(text.error("bad-value", message).help("for example `methods=\"GET,HEAD\"`"));
    } else if let Some(lower_case) = methods.iter().find(|method| method.bytes().all(|byte| byte.is_ascii_lowercase()))
        && !text.secret
    {
        let upper_case = lower_case.to_ascii_uppercase();
        let message = format!("methods are case sensitive, and `{lower_case}` is not `{upper_case}`");
        lowering.report(
            Diagnostic::warning("lower-case-method", text.location.clone(), message).help(format!("write `{upper_case}`")),
        );
    }
    methods
}

pub fn write(line: &mut Writer, mirror: &Mirror) {
    let Mirror { pool, sample, methods, body_bytes_max, copies_max, total } = mirror;
    line.name("mirror").argument(&pool.0).unless(&Sample::ALL, "sample", sample, Sample::to_string);
    line.list("methods", methods, String::clone).unless(&Mirror::BODY_BYTES_MAX, "body-max", body_bytes_max, size);
    line.number_unless(Mirror::COPIES_MAX.into(), "max", (*copies_max).into()).unless(&Mirror::TOTAL, "total", total, duration);
}
