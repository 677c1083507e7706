//! `redirect "https://new.example.com{path}"`: sends the client elsewhere.

use super::rewrite;
use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::forms::has_control_character;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property, Repeat, Stage};
use crate::written_line::Writer;
use tidegate_kdl::quoted;
use tidegate_model::{Placeholder, Template, TemplatePart, Terminal};

pub static REDIRECT: Directive = Directive {
    name: "redirect",
    places: &[Place::Site, Place::Route, Place::Arm],
    repeat: Repeat::Many,
    arguments: &[Argument::one("to", Kind::Template(Stage::Request), "Where to: a URL, or a path that starts with `/`.")],
    properties: &[
        Property::once(
            "status",
            Kind::Integer { min: 301, max: 308 },
            "301, 302, 303, 307 or 308. With 307 and 308 the client repeats its method and body.",
        ),
        Property::once(
            "prefix",
            Kind::Text("a path, as in `\"/old\"`"),
            "Whole segments of the path, in whose place the target stands; what follows them and the query stay.",
        ),
    ],
    summary: "Sends the client elsewhere.",
    details: "`{uri}` is path and query as they are; `{path}` is the path after the rewrites before this step. The status is 302 when it is \
              left out. What a client chooses freely (a header, a cookie) is one piece of the location, percent-encoded as in `rewrite`; where dots in it would lead elsewhere, the answer is \
              400, `redirect_escapes_root`. Where all of it is what a `map` has, and that is nothing for this request, the answer is 404, `redirect_nowhere`.\n\n\
              With `prefix=\"/old\"`, `redirect \"/new\"` leads `/old` to `/new`, `/old/` to `/new/` and `/old/x?y` to `/new/x?y`; a slash at the end of the target is none more. A path that does not begin with the prefix is answered with 404, \
              `redirect_nowhere`, so the route takes `/old/*` alone.",
    example: "redirect \"https://new.example.com{uri}\" status=308",
    lower: Lower::Terminal(lower),
    said_otherwise: &[
        (
            &["code", "permanent", "response_code", "statusCode"],
            "the status is `status=`, as in `redirect \"https://example.com{uri}\" status=301`",
        ),
        (
            &["to", "url", "location", "target", "destination"],
            "where to stands behind `redirect`, as in `redirect \"https://example.com{uri}\"`",
        ),
    ],
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Terminal> {
    // HAProxy says by a word what part of the URL is another one.
    if let Some(part @ ("scheme" | "location" | "prefix")) = line.written_arguments().first().map(String::as_str) {
        let help = match (part, line.written_arguments().get(1)) {
            ("scheme", _) => "to HTTPS a site redirects without a word, as in `site \"example.com\" { respond 204 }`; else write `redirect \"https://{host}{uri}\" status=301`".to_owned(),
            ("prefix", Some(to)) => format!("write `redirect {} status=301`", quoted(&format!("{}{{uri}}", shortened(to)))),
            (_, Some(to)) => format!("write `redirect {} status=301`", quoted(&shortened(to))),
            (_, None) => "write `redirect \"https://example.com{uri}\" status=301`".to_owned(),
        };
        return line.refuse_whole(lowering, "where a redirect leads is one text", help);
    }
    if let [first, second, ..] = &line.written_arguments()[..] {
        let (status, to) = if first.parse::<u16>().is_ok() { (first, second) } else { (second, first) };
        let status = match status.as_str() {
            "permanent" => "301",
            "temporary" => "302",
            other => other,
        };
        if status.parse::<u16>().is_ok() {
            let meant = format!("write `redirect {} status={status}`", quoted(&shortened(to)));
            return line.refuse_whole(lowering, "the status of a redirect stands in `status=`", meant);
        }
    }
    let to = line.read_argument(lowering, 0);
    let status = line.number(lowering, "status");
    if let (Some(number), Some(value)) = (status, line.property("status"))
        && !matches!(number, 301 | 302 | 303 | 307 | 308)
    {
        let diagnostic = Diagnostic::error("bad-value", value.location.clone(), format!("{number} does not redirect"))
            .help("it can be 301, 302, 303, 307 or 308");
        return lowering.refuse(diagnostic);
    }
    let Read::Template(to, at) = to? else { return None };
    let prefix = match line.property("prefix") {
        None => None,
        Some(_) => Some(prefix(lowering, line, &to, &at)?),
    };
    let starts_well = match to.parts.first() {
        None => false,
        Some(TemplatePart::Literal(text)) => text.starts_with('/') || text.starts_with("https://") || text.starts_with("http://"),
        Some(
            TemplatePart::Placeholder(
                Placeholder::Path | Placeholder::Uri | Placeholder::AskedUri | Placeholder::Scheme | Placeholder::Map(_),
            )
            | TemplatePart::Capture(_),
        ) => true,
        // One piece of a URL, and not one itself.
        Some(TemplatePart::Placeholder(_)) => false,
    };
    if !starts_well {
        let diagnostic = Diagnostic::error("bad-target", at, "a redirect leads to a URL with `https://` or to a path with `/`")
            .help("for example `redirect \"https://example.com{uri}\"`");
        return lowering.refuse(diagnostic);
    }
    if has_control_character(&to) {
        return lowering.refuse(Diagnostic::error("bad-target", at, "a redirect cannot hold control characters"));
    }
    if to.has_dot_segments() {
        let diagnostic = Diagnostic::error("bad-target", at, "a redirect cannot lead through a segment of dots");
        return lowering.refuse(diagnostic.help("write the path that is meant"));
    }
    (line.property("status").is_none() || status.is_some()).then(|| Terminal::Redirect {
        to,
        status: status.map_or(302, |status| status as u16),
        prefix,
    })
}

/// What the target takes the place of, without a slash at its end.
fn prefix(lowering: &mut Lowering<'_>, line: &Line<'_>, to: &Template, at: &Location) -> Option<String> {
    let text = line.text(lowering, "prefix")?;
    let has_rest = to.placeholders().any(|one| {
        matches!(
            one,
            Placeholder::Path | Placeholder::Uri | Placeholder::AskedUri | Placeholder::Query | Placeholder::QuerySuffix
        )
    });
    let has_query = to.parts.iter().any(|part| matches!(part, TemplatePart::Literal(text) if text.contains(['?', '#'])));
    if has_rest || has_query {
        let message = "with `prefix=` what follows it and the query are put behind the target, which has none of its own";
        let help = "write the beginning of the path alone, as in `redirect \"/new\" prefix=\"/old\"`";
        return lowering.refuse(Diagnostic::error("bad-target", at.clone(), message).help(help));
    }
    if text.value == "/" { Some(String::new()) } else { rewrite::prefix(lowering, &text) }
}

pub fn write(line: &mut Writer, to: &Template, status: u16, prefix: Option<&str>) {
    line.name("redirect").argument(to).number("status", status);
    line.optional("prefix", prefix.map(|prefix| if prefix.is_empty() { "/" } else { prefix }));
}
