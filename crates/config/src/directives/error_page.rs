//! `error-page`: what errors look like to clients. A pool that is asked for them is read in `asked`.

mod asked;

pub use asked::{HEADERS_MAX, PAGE_HEADER, header};

use super::respond;
use crate::diagnostics::{Diagnostic, shortened};
use crate::forms::show_status_range;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::{Text, page_template};
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat, Stage};
use crate::written_line::Writer;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;
use tidegate_model::{AskedPage, ErrorBody, ErrorFormat, ErrorPage, ErrorSource, PageBytes, RouteOptions, StatusRange, Template};

pub static ERROR_PAGE: Directive = Directive {
    name: "error-page",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::one_or_more(
        "statuses",
        Kind::Statuses,
        "`404`, a range as `\"400-499\"`, or `\"5xx\"`; from 400 to 599.",
    )],
    properties: &[
        Property::once("file", Kind::Path, "A file of at most 1 MiB, read with the configuration."),
        Property::once("body", Kind::Template(Stage::Error), "The body itself."),
        Property::once("pool", Kind::Text("the name of a pool, or an address"), "Who is asked for the page, with GET."),
        Property::once(
            "format",
            Kind::Choice(&["auto", "html", "json", "text"]),
            "A page that is made from what is known; `json` is `application/problem+json` (RFC 9457), `auto` is what the client likes best of the others.",
        ),
        Property::once(
            "content-type",
            Kind::Text("a media type"),
            "Of `body=`, where it is `text/plain; charset=utf-8` when left out, and of `file=`, where the file's name says it.",
        ),
        Property::once(
            "from",
            Kind::Choice(&["proxy", "upstream", "all"]),
            "Whose errors: those that are answered here, which is meant when it is left out, those of upstream servers, or both.",
        ),
        Property::once("status", Kind::Integer { min: 200, max: 599 }, "Sent in place of the error's own status."),
        Property::once(
            "placeholders",
            Kind::Switch,
            "Whether placeholders in the file are filled in; `#false` when left out: it goes out byte by byte. Other braces in it stay what they are.",
        ),
        Property::once(
            "path",
            Kind::Template(Stage::Error),
            "What the pool is asked for, with a query or without; `/` when left out.",
        ),
        Property::once(
            "keep-status",
            Kind::Switch,
            "Whether clients get the status of the error with the pool's page; `#false` when left out, and they get that of its answer.",
        ),
        Property::once(
            "answer-bytes",
            Kind::Size { min: 1, max: AskedPage::ANSWER_BYTES_MOST },
            "How long a page of the pool may be; `1MiB` when left out.",
        ),
        Property::once(
            "total",
            Kind::Duration { min: Duration::from_millis(10), max: Duration::from_secs(60) },
            "How long the pool may take, all attempts together; `5s` when left out.",
        ),
    ],
    block: Block::Optional(Place::ErrorPage),
    summary: "What errors look like to clients.",
    details: "The first line whose statuses fit counts, the route's lines before the site's. Those of a site also answer where no route of it matches.\n\n\
              Fields of the error stay, such as `WWW-Authenticate`, `Retry-After`, `Allow` and cookies; those that describe a body that is replaced go (`Content-…`, `ETag`, `Last-Modified` and the like). \
              A `respond` with an error status gets the page when it has no body of its own. gRPC calls and their answers are left alone, whatever is written here.\n\n\
              `{status}`, `{status_text}` and `{reason}` (the reason code of the log, empty for errors of upstreams) have a value here. In HTML, XML and JSON what placeholders bring is escaped.\n\n\
              With `pool=` a server is asked for the page: with GET, for `path=`, with the `Host`, `Accept` and `Accept-Language` of the request, with who asked for what as any upstream is told (`X-Forwarded-…`, `X-Request-Id`), and with the `header` lines of the block; never with \
              cookies, credentials or a body. What it answers is the client's, whatever its status, with its fields in place of those of the error; `keep-status=#true` keeps the status, `status=` names one. Where it cannot be reached, takes longer than `total=`, says more than `answer-bytes=`, or answers with 204, 205, 206 or 304, \
              the page is one that is made (`format=\"auto\"`). Nothing is asked for the errors of a page. For errors of upstreams the first answer's body is dropped; its server is held until the page is there, so pages come from a pool of their own.\n\n\
              A file is read with the configuration, and again when the configuration is: on SIGHUP, and with `run --watch` as soon as it changes.",
    default: "one sentence as plain text for errors of the proxy; those of upstreams as they are",
    example: "error-page 502 503 504 body=\"<h1>{status} {status_text}</h1>\" content-type=\"text/html; charset=utf-8\"",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

/// Each is compared with the status of an error.
const STATUSES_MAX: usize = 100;

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    let errors_before = lowering.diagnostics.iter().filter(|one| one.is_error()).count();
    let statuses = statuses(lowering, line);
    let format = line.read(lowering, "format").map(Read::choice);
    let from = line.read(lowering, "from").map(Read::choice);
    let status = line.number(lowering, "status").map(|status| status as u16);
    if let (Some(204 | 205 | 304), Some(value)) = (status, line.property("status")) {
        let message = "an answer with that status has no body";
        lowering.report(Diagnostic::error("body-not-allowed", value.location.clone(), message).help("choose another status"));
    }
    let content_type = line.text(lowering, "content-type").filter(|text| respond::check_content_type(lowering, text));
    let body = body(lowering, line, format, content_type);
    if lowering.diagnostics.iter().filter(|one| one.is_error()).count() > errors_before || statuses.is_empty() {
        return;
    }
    let of_name = |name: &str| ErrorSource::NAMES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source);
    let from = from.and_then(of_name).unwrap_or_default();
    options.error_pages.extend(body.map(|body| ErrorPage { statuses, body, from, status }));
}

fn statuses(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<StatusRange> {
    let mut ranges = Vec::new();
    for text in line.read_arguments(lowering).into_iter().map(Read::text) {
        match status_range(&text.value) {
            Some(range) => ranges.push(range),
            None if text.value.contains(['/', '.']) => {
                let message = format!("`{}` is no status", shortened(text.shown()));
                let help = format!("a file is named with `file=`, as in `error-page 404 file=\"{}\"`", shortened(text.shown()));
                lowering.report(text.error("bad-value", message).help(help));
            }
            None => {
                let message = format!("`{}` is neither the status of an error nor a range of them", shortened(text.shown()));
                lowering.report(text.error("bad-value", message).help("for example `404`, `\"400-499\"` or `\"5xx\"`"));
            }
        }
    }
    if ranges.len() > STATUSES_MAX {
        let message = format!("there are more than {STATUSES_MAX} statuses on a line");
        lowering.report(Diagnostic::error("bad-value", line.location(), message).help("join them into ranges"));
    }
    ranges
}

/// `404`, `400-499`, `5xx`
fn status_range(text: &str) -> Option<StatusRange> {
    match text.to_ascii_lowercase().as_str() {
        "4xx" => return Some(StatusRange { first: 400, last: 499 }),
        "5xx" => return Some(StatusRange { first: 500, last: 599 }),
        _ => {}
    }
    let status = |text: &str| {
        let is_status = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|status| is_status && (400..=599).contains(status))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = StatusRange { first: status(first.trim())?, last: status(last.trim())? };
    (range.first <= range.last).then_some(range)
}

fn body(
    lowering: &mut Lowering<'_>,
    line: &Line<'_>,
    format: Option<&'static str>,
    content_type: Option<Text>,
) -> Option<ErrorBody> {
    let given: Vec<&str> = ["file", "body", "format", "pool"].into_iter().filter(|name| line.property(name).is_some()).collect();
    let [kind] = given[..] else {
        let (message, help) = if given.is_empty() {
            ("`error-page` needs `file=`, `body=`, `format=` or `pool=`", "for example `error-page 404 file=\"errors/404.html\"`")
        } else {
            ("`file=`, `body=`, `format=` and `pool=` cannot stand on one line", "keep one of them")
        };
        return lowering.refuse(Diagnostic::error("missing-argument", line.location(), message).help(help));
    };
    if kind != "file"
        && let Some(value) = line.property("placeholders")
    {
        let message = "`placeholders=` is for files";
        lowering.report(Diagnostic::error("bad-value", value.location.clone(), message).help("remove it"));
    }
    if kind == "pool" {
        if let Some(text) = &content_type {
            lowering.report(text.error("bad-value", "the pool says of which type the page is").help("remove `content-type=`"));
        }
        return asked::read(lowering, line).map(|asked| ErrorBody::Asked(Box::new(asked)));
    }
    asked::refuse_settings(lowering, line);
    if kind == "format" {
        if let Some(text) = &content_type {
            lowering.report(text.error("bad-value", "the format says of which type the page is").help("remove `content-type=`"));
        }
        let of_name = |name: &str| ErrorFormat::NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format);
        return format.and_then(of_name).map(ErrorBody::Made);
    }
    if kind == "body" {
        let content_type = content_type.map_or_else(|| "text/plain; charset=utf-8".to_owned(), |text| text.value);
        return line.template(lowering, "body").map(|text| ErrorBody::Template { text, content_type, file: None });
    }
    file(lowering, line, content_type)
}

fn file(lowering: &mut Lowering<'_>, line: &Line<'_>, content_type: Option<Text>) -> Option<ErrorBody> {
    let file = line.text(lowering, "file")?;
    let fills_in = line.switch(lowering, "placeholders");
    lowering.note_look_outside();
    let path = lowering.path(&file.value, &file.location);
    lowering.read_files.push(path.clone());
    let bytes = match read_page(&path) {
        Ok(bytes) => bytes,
        Err(reason) => {
            let message = format!("cannot read `{}`: {reason}", shortened(file.shown()));
            return lowering.refuse(Diagnostic::error("cannot-read", file.location.clone(), message));
        }
    };
    let Some(content_type) = content_type.map(|text| text.value).or_else(|| type_of(&path).map(str::to_owned)) else {
        let message = format!("the name of `{}` does not say of which type it is", shortened(file.shown()));
        lowering.report(file.error("bad-value", message).help("give it, as in `content-type=\"text/html; charset=utf-8\"`"));
        return None;
    };
    let template = std::str::from_utf8(&bytes).ok().map(page_template);
    let has_placeholders = template.as_ref().is_some_and(|text: &Template| text.as_literal().is_none());
    match (fills_in, template) {
        (Some(true), Some(text)) => Some(ErrorBody::Template { text, content_type, file: Some(path) }),
        (Some(true), None) => {
            let message = format!("`{}` is not UTF-8 text, so it can have no placeholders", shortened(file.shown()));
            lowering.refuse(file.error("bad-value", message).help("remove `placeholders=`"))
        }
        (fills_in, _) => {
            if fills_in.is_none() && has_placeholders {
                let message = format!("`{}` has placeholders in it, which go out as they are written", shortened(file.shown()));
                let diagnostic = Diagnostic::warning("placeholders-in-file", file.location.clone(), message);
                lowering
                    .report(diagnostic.help("say `placeholders=#true` to have them filled in, or `#false` if they are meant so"));
            }
            Some(ErrorBody::File { path, bytes: PageBytes(bytes.into()), content_type })
        }
    }
}

fn read_page(path: &Path) -> Result<Vec<u8>, String> {
    let file = crate::regular::open_regular(path).map_err(|error| crate::regular::reason(&error))?;
    let mut bytes = Vec::new();
    file.take(ErrorPage::BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| crate::regular::reason(&error))?;
    if bytes.len() as u64 > ErrorPage::BYTES_MAX {
        return Err(format!("it is larger than {} MiB", ErrorPage::BYTES_MAX >> 20));
    }
    Ok(bytes)
}

fn type_of(path: &Path) -> Option<&'static str> {
    Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "xhtml" => "application/xhtml+xml",
        "txt" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

pub fn write(line: &mut Writer, page: &ErrorPage) {
    let ErrorPage { statuses, body, from, status } = page;
    line.name("error-page");
    for range in statuses {
        if range.first == range.last {
            line.name(range.first)
        } else {
            line.argument(show_status_range(range))
        };
    }
    let content_type = match body {
        ErrorBody::Template { text, content_type, file: None } => {
            line.property("body", text);
            Some(content_type)
        }
        ErrorBody::Template { content_type, file: Some(file), .. } => {
            line.property("file", file.display()).switch_unless(false, "placeholders", true);
            Some(content_type)
        }
        ErrorBody::File { path, content_type, .. } => {
            line.property("file", path.display());
            Some(content_type)
        }
        ErrorBody::Made(format) => {
            line.property("format", format.name());
            None
        }
        // Behind everything else, since a block follows.
        ErrorBody::Asked(_) => None,
    };
    line.optional("content-type", content_type).unless(&ErrorSource::Proxy, "from", from, |from| from.name());
    if let Some(status) = status {
        line.number("status", status);
    }
    if let ErrorBody::Asked(asked) = body {
        asked::write(line, asked);
    }
}

#[cfg(test)]
mod tests {
    use super::status_range;

    #[test]
    fn statuses_are_those_of_errors() {
        let check = |text: &str, expected: Option<(u16, u16)>| {
            assert_eq!(status_range(text).map(|range| (range.first, range.last)), expected, "{text}");
        };
        check("404", Some((404, 404)));
        check("400-499", Some((400, 499)));
        check("500 - 504", Some((500, 504)));
        check("5xx", Some((500, 599)));
        check("4XX", Some((400, 499)));
        check("200", None);
        check("399-404", None);
        check("500-404", None);
        check("600", None);
        check("0404", None);
        check("3xx", None);
        check("", None);
        check("-", None);
    }
}
