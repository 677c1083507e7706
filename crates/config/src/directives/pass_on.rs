//! `pass-on`: what of requests goes to upstreams only where it is asked for.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::table::{Kind, Place, Property};
use crate::written_line::Writer;
use tidegate_model::{PassOn, RouteOptions};

pub static PASS_ON: Directive = Directive {
    name: "pass-on",
    places: &[Place::Site, Place::Route],
    properties: &[
        Property::once("trace", Kind::Switch, "Whether TRACE is forwarded; `#false` when left out, and answered with 405."),
        Property::once(
            "trailers",
            Kind::Switch,
            "Whether trailers of requests are forwarded that are no gRPC; `#false` when left out, and they are dropped.",
        ),
    ],
    summary: "What of requests goes to upstreams only where it is asked for.",
    details: "Who answers TRACE sends the request back as it got it, with the fields that steps have added for it alone: tokens, names of users, addresses. \
              With `trace=#true` mind what they are.\n\n\
              Servers that make variables of fields take those of trailers for fields of the head. Trailers of gRPC calls (`Content-Type: application/grpc`) always go on. Never, with or without this, goes one \
              with a name that a `request-header` of the site or route has, in any spelling that servers take for it (`X_User`, `x.user`), nor one that decides about framing, routing or trust. \
              Trailers of answers go to clients, without those that a `response-header` names, and without what an application says to proxies and caches (`X-Accel-Redirect`, `Surrogate-Key` and the like). \
              What `Connection` names goes no further in trailers than in heads.\n\n\
              In a route it takes the place of the site's.",
    default: "`trace=#false trailers=#false`",
    example: "pass-on trailers=#true",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    let mut is_on = |name| line.switch(lowering, name).unwrap_or(false);
    options.pass_on = Some(PassOn { trace: is_on("trace"), trailers: is_on("trailers") });
}

pub fn write(line: &mut Writer, PassOn { trace, trailers }: &PassOn) {
    line.name("pass-on").switch_unless(false, "trace", *trace).switch_unless(false, "trailers", *trailers);
}
