//! `error-page … pool="errors"`: a pool is asked for the page, and is told what happened.

use crate::diagnostics::{Diagnostic, shortened};
use crate::directives::pool::retry::HEDGE;
use crate::directives::proxy::{self, Sends};
use crate::forms::{has_control_character, is_token};
use crate::language::{Directive, Line};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Repeat, Stage};
use crate::written_line::{Writer, duration, size};
use tidegate_model::{AskedPage, Placeholder, Template, TemplatePart, is_of_framing};

pub static PAGE_HEADER: Directive = Directive {
    name: "header",
    places: &[Place::ErrorPage],
    repeat: Repeat::Many,
    arguments: &[
        Argument::one("name", Kind::Text("a header name"), "The field, in place of what the question says otherwise."),
        Argument::one("value", Kind::Template(Stage::Error), "What it says; a field that comes to nothing is not sent."),
    ],
    summary: "A field of the question for a page, which says what happened.",
    details: "`{status}` is that of the error and `{reason}` its code in the log. What ingress-nginx tells its backends for errors are these lines:\n\n\
              ```kdl\n\
              error-page \"5xx\" pool=\"errors\" from=\"all\" {\n    \
                  header \"X-Code\" \"{status}\"\n    \
                  header \"X-Format\" \"{request.header.accept}\"\n    \
                  header \"X-Original-URI\" \"{uri}\"\n    \
                  header \"X-Request-ID\" \"{request.id}\"\n    \
                  header \"X-Namespace\" \"shop\"\n    \
                  header \"X-Ingress-Name\" \"web\"\n    \
                  header \"X-Service-Name\" \"web\"\n    \
                  header \"X-Service-Port\" \"8080\"\n\
              }\n\
              ```",
    example: "header \"X-Code\" \"{status}\"",
    ..Directive::PLAIN
};

/// Properties that say something of a question.
const OF_QUESTION: [&str; 4] = ["path", "keep-status", "answer-bytes", "total"];
pub const HEADERS_MAX: usize = 100;

/// Reports what is for pages of a pool on a line without one.
pub fn refuse_settings(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    for name in OF_QUESTION {
        if let Some(value) = line.property(name) {
            let message = format!("`{name}=` is for pages that a pool is asked for");
            let diagnostic = Diagnostic::error("bad-value", value.location.clone(), message);
            lowering.report(diagnostic.help("remove it, or name the pool with `pool=`"));
        }
    }
    if let Some(child) = line.children().first() {
        let message = "a block is for pages that a pool is asked for";
        let diagnostic = Diagnostic::error("bad-value", child.location.clone(), message);
        lowering.report(diagnostic.help("remove it, or name the pool with `pool=`"));
    }
}

pub fn read(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<AskedPage> {
    let errors_before = lowering.diagnostics.len();
    for child in line.children().iter().filter(|child| child.name.text == HEDGE.name) {
        let message = "`hedge` does nothing here: a page is asked for at one server at a time";
        lowering.report(Diagnostic::warning("without-effect", child.location.clone(), message).help("remove it"));
    }
    let texts = Vec::from_iter(line.text(lowering, "pool"));
    let all_read = !texts.is_empty();
    let (mut headers, mut paths, mut is_grpc) = (Vec::new(), Vec::new(), false);
    let mut take = |lowering: &mut Lowering<'_>, line: &Line<'_>| headers.extend(header(lowering, line));
    let sends = Sends::Questions { paths: &mut paths, is_grpc: &mut is_grpc, take: &mut take };
    let pool = proxy::read_pool_of(lowering, line, (texts, all_read), sends);
    if let Some(path) = paths.first() {
        let diagnostic = path.error("bad-address", "the path of the question does not stand in the address");
        lowering.report(diagnostic.help(format!("write `path=\"{}\"`", shortened(path.shown()))));
    }
    if let Some(value) = line.property("pool").filter(|_| is_grpc) {
        let diagnostic = Diagnostic::error("bad-address", value.location.clone(), "pages are asked for over HTTP");
        lowering.report(diagnostic.help("for example `pool=\"http://10.0.0.9:8080\"`"));
    }
    if headers.len() > HEADERS_MAX {
        let message = format!("there are more than {HEADERS_MAX} fields");
        lowering.report(Diagnostic::error("too-many", line.location(), message).help("say several things in one"));
    }
    let path = path(lowering, line);
    let keeps_status = line.switch(lowering, "keep-status").unwrap_or(false);
    if keeps_status && let (Some(status), Some(kept)) = (line.property("status"), line.property("keep-status")) {
        let diagnostic = Diagnostic::error("bad-value", status.location.clone(), "the status is kept, and is another one");
        lowering.report(diagnostic.label(kept.location.clone(), "kept here").help("remove one of them"));
    }
    let answer_bytes_max = line.number(lowering, "answer-bytes").unwrap_or(AskedPage::ANSWER_BYTES_MAX);
    let total = line.duration(lowering, "total").unwrap_or(AskedPage::TOTAL);
    let is_faulty = lowering.has_errors_since(errors_before);
    let (pool, retry) = pool.filter(|_| !is_faulty)?;
    Some(AskedPage { pool, retry, path: path?, headers, keeps_status, answer_bytes_max, total })
}

fn path(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Template> {
    let Some(value) = line.property("path") else { return Some(Template::literal(AskedPage::PATH)) };
    let path = line.template(lowering, "path")?;
    let starts_with_slash = match path.parts.first() {
        Some(TemplatePart::Literal(text)) => text.starts_with('/'),
        Some(TemplatePart::Placeholder(placeholder)) => matches!(placeholder, Placeholder::Path | Placeholder::Uri),
        Some(TemplatePart::Capture(_)) | None => false,
    };
    if !starts_with_slash {
        let diagnostic = Diagnostic::error("bad-target", value.location.clone(), "the path has to start with `/`");
        return lowering.refuse(diagnostic.help("for example `path=\"/errors/{status}\"`"));
    }
    if has_control_character(&path) {
        let diagnostic = Diagnostic::error("bad-target", value.location.clone(), "a path cannot hold control characters");
        return lowering.refuse(diagnostic);
    }
    Some(path)
}

/// A field that a question says, for pages and for whether a request may go on.
pub fn header(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<(String, Template)> {
    let name = line.read_argument(lowering, 0).map(Read::text);
    let value = line.read_argument(lowering, 1).map(Read::template);
    let (name, value) = (name?, value?);
    if !is_token(&name.value) {
        let message = format!("`{}` is not a header name", shortened(name.shown()));
        return lowering.refuse(name.error("bad-header", message));
    }
    if is_of_framing(&name.value) {
        let message = format!("`{}` cannot be said", shortened(name.shown()));
        let diagnostic = name.error("framing-header", message);
        return lowering
            .refuse(diagnostic.note("it says how a message is framed on its connection, which is for the proxy to decide"));
    }
    if has_control_character(&value) {
        let message = "a field cannot hold control characters";
        return lowering.refuse(Diagnostic::error("bad-header", line.location(), message));
    }
    Some((name.value, value))
}

pub fn write(line: &mut Writer, asked: &AskedPage) {
    let AskedPage { pool, retry, path, headers, keeps_status, answer_bytes_max, total } = asked;
    line.property("pool", &pool.0);
    line.unless(&Template::literal(AskedPage::PATH), "path", path, Template::to_string).switch_unless(
        false,
        "keep-status",
        *keeps_status,
    );
    line.unless(&AskedPage::ANSWER_BYTES_MAX, "answer-bytes", answer_bytes_max, size);
    line.unless(&AskedPage::TOTAL, "total", total, duration);
    line.lines(|lines| {
        for (name, value) in headers {
            lines.line().name(PAGE_HEADER.name).argument(name).argument(value);
        }
        proxy::write_retry_line(lines.line(), retry);
    });
}
