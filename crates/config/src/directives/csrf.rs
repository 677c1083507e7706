//! `csrf`: pages of other origins have no browser change something here.

use crate::directives::cors;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::Writer;
use tidegate_model::{Csrf, Step};

pub static CSRF: Directive = Directive {
    name: "csrf",
    places: &[Place::Site, Place::Route],
    arguments: &[Argument::optional(
        "off",
        Kind::Text("`off`, or nothing"),
        "`off`: every page may, in a route of a site that says otherwise.",
    )],
    properties: &[Property::once(
        "origins",
        Kind::Text("origins, separated by commas"),
        "Whose pages may as well, as `https://app.example.com` or `https://*.example.com`.",
    )],
    summary: "Refuses what a page of another origin has a visitor's browser do here.",
    details: "A page somewhere else can have a browser send a form to this site, with the cookies that the visitor has here. Browsers say where a request comes from: `Sec-Fetch-Site`, and `Origin` in those that are older. \
              Requests that may change something (all methods but GET, HEAD, OPTIONS and TRACE) and handshakes of WebSockets go on when they come from the site's own pages, from one of `origins=`, from an address \
              that somebody typed, or from no browser, which says neither. All others, those of other subdomains too, are answered with 403, `cross_origin` in the log. No form needs a token for it.\n\n\
              Requests with GET are not looked at: an application must not change anything by one. Of the `csrf` of a site and of its route the route's counts. `cors` lets pages of other origins read answers; those that may send forms are listed in both.",
    default: "every page may",
    example: "csrf origins=\"https://admin.example.com\"",
    lower: Lower::Step(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let errors_before = lowering.diagnostics.len();
    if line.is_off(lowering) {
        return (!lowering.has_errors_since(errors_before)).then_some(Step::Csrf(None));
    }
    let origins = match line.text(lowering, "origins") {
        Some(text) => cors::listed_origins(lowering, &text),
        None => Vec::new(),
    };
    (!lowering.has_errors_since(errors_before)).then_some(Step::Csrf(Some(Csrf { origins })))
}

pub fn write(line: &mut Writer, Csrf { origins }: &Csrf) {
    line.name("csrf").list("origins", origins, cors::show_origin);
}
