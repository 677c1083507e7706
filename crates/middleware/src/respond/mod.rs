//! `respond`: a fixed answer, or one made of placeholders. Framing it (length, `Date`, no body for HEAD) is `proxy`'s.

use crate::context::View;
use crate::errors::{PLAIN_TEXT, begin_answer, has_no_body};
use crate::template::{CompiledTemplate, Target};
use tidegate_model::Template;
use tidegate_wire::head::ResponseHead;

#[derive(Debug)]
pub struct Respond {
    status: u16,
    content_type: Box<[u8]>,
    body: CompiledTemplate,
}

impl Respond {
    /// The content type is `text/plain; charset=utf-8` unless given. In HTML and JSON what placeholders bring is
    /// escaped.
    pub fn new(status: u16, body: &Template, content_type: Option<&str>) -> Respond {
        let target = content_type.map_or(Target::Text, Target::of_content_type);
        let content_type = match content_type {
            // It is a header like any other: no line break may come in through it.
            Some(text) => CompiledTemplate::new(&Template::literal(text.trim()), Target::HeaderValue).as_literal().map(Box::from),
            None => None,
        };
        Respond {
            status,
            content_type: content_type.unwrap_or_else(|| PLAIN_TEXT.into()),
            body: CompiledTemplate::new(body, target),
        }
    }

    /// Writes the answer into `head` and returns its body: the configured text itself, or `buffer` with the rendered
    /// one.
    pub fn answer<'a>(&'a self, view: View<'_>, head: &mut ResponseHead, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        begin_answer(self.status, head);
        if has_no_body(self.status) {
            return b"";
        }
        let body = match self.body.as_literal() {
            Some(literal) => literal,
            None => {
                buffer.clear();
                self.body.render(view, buffer);
                buffer
            }
        };
        if !body.is_empty() {
            head.fields.push(b"content-type", &self.content_type);
        }
        body
    }
}

#[cfg(test)]
mod tests;
