//! `respond 200 body="hello"`: an answer made here.

use crate::diagnostics::{Diagnostic, shortened};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property, Repeat, Stage};
use crate::written_line::Writer;
use tidegate_kdl::quoted;
use tidegate_model::{Template, Terminal};

pub static RESPOND: Directive = Directive {
    name: "respond",
    places: &[Place::Site, Place::Route, Place::Arm],
    repeat: Repeat::Many,
    arguments: &[Argument::optional("status", Kind::Integer { min: 200, max: 599 }, "The status; 200 when it is left out.")],
    properties: &[
        Property::once("body", Kind::Template(Stage::Request), "The body."),
        Property::once(
            "content-type",
            Kind::Text("a media type, as in `\"text/html\"`"),
            "The media type; `text/plain; charset=utf-8` when there is a body and this is left out.",
        ),
    ],
    summary: "Answers by itself.",
    example: "respond 200 body=\"hello, {client.ip}\\n\"",
    lower: Lower::Terminal(lower),
    ..Directive::PLAIN
};

/// False, and reported, when it is no media type.
pub fn check_content_type(lowering: &mut Lowering<'_>, text: &Text) -> bool {
    let is_type = text.value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.value.contains('/');
    if !is_type {
        lowering.report(
            text.error("bad-value", "a media type has the form `type/subtype`")
                .help("for example `\"text/html; charset=utf-8\"`"),
        );
    }
    is_type
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Terminal> {
    if let Some(meant) = meant(line) {
        return line.refuse_whole(lowering, "what is answered stands in `body=`", format!("write `{meant}`"));
    }
    let status = line.read_argument(lowering, 0).map(Read::number);
    let body = line.template(lowering, "body");
    let content_type = line.text(lowering, "content-type");
    if content_type.as_ref().is_some_and(|text| !check_content_type(lowering, text)) {
        return None;
    }
    let is_given = |index: usize| line.argument(index).is_some();
    if (is_given(0) && status.is_none()) || (line.property("body").is_some() && body.is_none()) {
        return None;
    }
    let status = status.map_or(200, |status| status as u16);
    if let (204 | 205 | 304, Some(value)) = (status, line.property("body")) {
        // RFC 9110 sections 15.3.5, 15.3.6 and 15.4.5.
        let message = format!("an answer with status {status} has no body");
        return lowering.refuse(Diagnostic::error("body-not-allowed", value.location.clone(), message).help("remove `body=`"));
    }
    Some(Terminal::Respond { status, body: body.unwrap_or_default(), content_type: content_type.map(|text| text.value) })
}

/// The line that is meant where the text stands behind the name, as Caddy and nginx have it.
fn meant(line: &Line<'_>) -> Option<String> {
    let written = line.written_arguments();
    let is_status = |text: &&String| text.parse::<u16>().is_ok() || text.starts_with("{env.") || text.starts_with("{file.");
    let body = written.iter().find(|text| !is_status(text))?;
    let status = written.iter().find_map(|text| text.parse::<u16>().ok()).unwrap_or(200);
    // JSON and style sheets are full of braces that are none of ours.
    let body =
        if body.contains("{\"") || body.contains("{ ") { body.replace('{', "{{").replace('}', "}}") } else { body.clone() };
    Some(format!("respond {status} body={}", quoted(&shortened(&body))))
}

pub fn write(line: &mut Writer, status: u16, body: &Template, content_type: Option<&str>) {
    line.name("respond").name(status);
    line.optional("body", Some(body).filter(|body| !body.parts.is_empty())).optional("content-type", content_type);
}
