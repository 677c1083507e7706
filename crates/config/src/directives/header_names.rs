//! `header-names`: what is made of fields of requests whose names servers may read as others.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place};
use crate::written_line::{Writer, name_of};
use tidegate_model::{HeaderNames, RouteOptions};

pub static HEADER_NAMES: Directive = Directive {
    name: "header-names",
    places: &[Place::Site, Place::Route],
    arguments: &[Argument::one(
        "policy",
        Kind::Choice(&["drop-colliding", "keep", "drop", "refuse"]),
        "What is made of names with anything else than letters, digits and `-`.",
    )],
    summary: "What is made of fields of requests whose names servers may read as others.",
    details: "CGI, PHP, WSGI and many servers make variables of names, and read `X_User`, `x.user` and `X-User` as the same. `drop-colliding` drops what would be read as a name that a `request-header` of the site, or of any \
              of its routes, sets or removes, or that a token stands in. `drop` drops every name of anything else than letters, digits and `-`; `refuse` answers a request that has one with 400, `header_name`; `keep` lets all go on.\n\n\
              Whatever it says, fields that tell who a client is, or that proxies say where a request comes from in, are taken out of each request in all spellings. Trailers are held to the same; one of them refuses nothing, but is dropped.\n\n\
              In a route it takes the place of the site's.",
    default: "`drop-colliding`",
    example: "header-names \"drop\"",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    let Some(word) = line.read_argument(lowering, 0).map(Read::choice) else { return };
    options.header_names = HeaderNames::NAMES.iter().find(|(name, _)| *name == word).map(|(_, policy)| *policy);
}

pub fn write(line: &mut Writer, policy: HeaderNames) {
    line.name("header-names").argument(name_of(HeaderNames::NAMES, &policy));
}
