//! `request-id`: by which name a request's identifier goes to servers and clients, and whether traces begin here.

use crate::diagnostics::shortened;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::Writer;
use tidegate_model::{RequestIds, RouteOptions, Sample, Switched};

pub static REQUEST_ID: Directive = Directive {
    name: "request-id",
    places: &[Place::Site, Place::Route],
    arguments: &[Argument::optional(
        "switch",
        Kind::Choice(&["off"]),
        "`off`: servers get what the client sent, and nothing is added.",
    )],
    properties: &[
        Property::once("header", Kind::Text("the name of a field"), "The field that it stands in; `X-Request-Id` when left out."),
        Property::once("client", Kind::Switch, "Whether answers have it, too; `#false` when left out."),
        Property::once(
            "trace",
            Kind::Sample,
            "Requests without a `traceparent` (W3C Trace Context) get one, and this part of them asks to be recorded. None is made when left out.",
        ),
    ],
    summary: "How the identifier of a request goes to servers and back to clients.",
    details: "Each request has an identifier, which is `request_id` in the logs, `{request.id}`, and in the field `X-Request-Id` of what servers get. One that comes from a trusted proxy \
              (`trusted-proxies`) is kept, if it has at most 128 letters, digits and `-_.:+/=@~`; what others send is replaced. What a `request-header` sets stays as it is.\n\n\
              A valid `traceparent` always goes on as it came, and its trace is `trace_id` in the log. One that is made has the identifier as its trace where that has 32 hexadecimal digits, as those of this process have.\n\n\
              In a route it takes the place of the site's.",
    default: "`header=\"X-Request-Id\" client=#false`",
    example: "request-id client=#true trace=\"1%\"",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    if line.read_argument(lowering, 0).is_some() {
        line.settings_of_off().into_iter().for_each(|fault| lowering.report(fault));
        options.request_ids = Switched::Off;
        return;
    }
    let mut ids = RequestIds::default();
    if let Some(header) = line.text(lowering, "header") {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if header.value.is_empty() || !header.value.bytes().all(is_token) {
            let message = format!("`{}` cannot be the name of a field", shortened(&header.value));
            lowering.report(header.error("bad-name", message).help("for example `header=\"X-Correlation-Id\"`"));
            return;
        }
        if is_taken(&header.value) {
            let message = format!("`{}` means something else to servers", header.value);
            lowering.report(header.error("bad-name", message).help("for example `header=\"X-Correlation-Id\"`"));
            return;
        }
        ids.header = header.value;
    }
    ids.client = line.switch(lowering, "client").unwrap_or(false);
    ids.trace = line.number(lowering, "trace").map(Sample::from_millionths);
    options.request_ids = Switched::On(Box::new(ids));
}

/// Names of fields by which servers frame, route or trust.
fn is_taken(name: &str) -> bool {
    const TAKEN: [&str; 12] = [
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "cookie",
        "authorization",
        "traceparent",
        "content-type",
        "expect",
    ];
    TAKEN.iter().any(|taken| taken.eq_ignore_ascii_case(name))
}

pub fn write(line: &mut Writer, RequestIds { header, client, trace }: &RequestIds) {
    line.name("request-id");
    line.unless(&RequestIds::HEADER.to_owned(), "header", header, std::clone::Clone::clone);
    line.switch_unless(false, "client", *client).optional("trace", trace.as_ref());
}
