//! `path-policy`: what is made of spellings of a path that servers disagree about.

use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Kind, Place, Property};
use crate::written_line::{Writer, name_of};
use tidegate_model::{EncodedSlashes, PathCase, PathExpressions, PathParameters, PathPolicy, RouteOptions, Slashes};

pub static PATH_POLICY: Directive = Directive {
    name: "path-policy",
    places: &[Place::Site, Place::Route],
    properties: &[
        Property::once(
            "slashes",
            Kind::Choice(&["pass", "merge", "keep", "refuse"]),
            "`//`: several are one for routes, and go on as they were sent (`pass`, which is meant when it is left out); several are one everywhere (`merge`); they stay, for routes as well; or the request is refused with 400.",
        ),
        Property::once(
            "encoded-slashes",
            Kind::Choice(&["keep", "pass", "decode", "refuse"]),
            "`%2F` and `%5C`: they stay (`keep`, which is meant when it is left out); `%2F` is a slash for routes, as other codes of characters that may stand in a path are these (`%3A`, `%40`), and what was sent goes on (`pass`); it becomes a slash (`decode`); or the request is refused with 400.",
        ),
        Property::once(
            "case",
            Kind::Choice(&["keep", "lower"]),
            "Letters stay as they are, which is meant when it is left out, or are made small ones.",
        ),
        Property::once(
            "parameters",
            Kind::Choice(&["keep", "refuse"]),
            "`;` and `%3B`, behind which servers in Java have parameters of a segment: they stay (`keep`, which is meant when it is left out), or the request is refused with 400.",
        ),
        Property::once(
            "expressions",
            Kind::Choice(&["encoded", "decoded"]),
            "What expressions (`~…`) of routes, of `match path=` and of `rewrite` are compared with: the path with its percent codes (`encoded`, which is meant when it is left out), or the bytes that it stands for (`decoded`).",
        ),
    ],
    summary: "Which spellings of a path are the same.",
    details: "It is applied before a route is looked for, and what comes out is what routes match **and**, but for slashes, what the upstream gets. Whatever it says, `%41` is `A` and `%2e` is `.`, percent codes \
              have capital digits, `.` and `..` are resolved, and a path that leads above the root is 400: for every path, before it. \
              What may not stand in a path, such as `\"`, `{`, `|` or `\\`, is percent-encoded; a raw `\\` so becomes `%5C`, for which `encoded-slashes` has a word. Dots with parameters (`/x/..;/admin`) are 400.\n\n\
              Most servers read `//admin` as `/admin`, so routes take several slashes for one. A path that no `rewrite`, `strip-prefix` or `add-prefix` changes goes on as it was sent, as nginx does it: \
              `/proxy/https://example.com/` arrives whole, and a `redirect` with `{uri}` or `{path}` names it so. Slashes at its beginning are always one, since `//host` is an address to some; so are all for files, scripts and what `cache` keeps. Many read `/admin%2Fusers` as `/admin/users`, others (GitLab, npm registries) need it as it is: where the upstream decodes, and a route \
              protects a part of it, say `encoded-slashes=\"pass\"`, as nginx has it: routes see the slash, and the upstream what was sent; dots beside such a slash (`/x/..%2Fadmin`) are 400. `\"refuse\"` and `\"decode\"` leave nothing to the upstream. Where the upstream ignores case, as on Windows, say `case=\"lower\"`. \
              Tomcat, Jetty and others in Java take `/admin;x/y` for `/admin/y`: where a route protects a part of such a server, say `parameters=\"refuse\"`.\n\n\
              With `expressions=\"decoded\"` an expression sees each code as its byte, as nginx has it: `~^/a b$` takes `/a%20b`, and `~^/100%$` takes `/100%25`. What `rewrite` finds by it is encoded where it is put: \
              `%25` is `%25` again, and a `?` or `&` starts no query and adds nothing to one. Patterns without `~` are the same either way.\n\n\
              In a route it takes the place of the site's, for what the site's has brought there. If the path belongs to another route by it, the request is refused with 400: what is forwarded is always what \
              was matched, or the same with the slashes that were sent.",
    default: "`slashes=\"pass\" encoded-slashes=\"keep\" case=\"keep\" parameters=\"keep\" expressions=\"encoded\"`",
    example: "path-policy encoded-slashes=\"refuse\"",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    fn chosen<T: Copy>(lowering: &mut Lowering<'_>, line: &Line<'_>, name: &str, names: &[(&str, T)], default: T) -> T {
        let word = line.read(lowering, name).map(Read::choice);
        names.iter().find(|(name, _)| Some(*name) == word).map_or(default, |(_, value)| *value)
    }
    let default = PathPolicy::DEFAULT;
    options.path_policy = Some(PathPolicy {
        slashes: chosen(lowering, line, "slashes", Slashes::NAMES, default.slashes),
        encoded_slashes: chosen(lowering, line, "encoded-slashes", EncodedSlashes::NAMES, default.encoded_slashes),
        case: chosen(lowering, line, "case", PathCase::NAMES, default.case),
        parameters: chosen(lowering, line, "parameters", PathParameters::NAMES, default.parameters),
        expressions: chosen(lowering, line, "expressions", PathExpressions::NAMES, default.expressions),
    });
}

pub fn write(line: &mut Writer, policy: &PathPolicy) {
    let PathPolicy { slashes, encoded_slashes, case, parameters, expressions } = policy;
    line.name("path-policy").property("slashes", name_of(Slashes::NAMES, slashes));
    line.property("encoded-slashes", name_of(EncodedSlashes::NAMES, encoded_slashes));
    line.property("case", name_of(PathCase::NAMES, case));
    line.property("parameters", name_of(PathParameters::NAMES, parameters));
    line.property("expressions", name_of(PathExpressions::NAMES, expressions));
}
