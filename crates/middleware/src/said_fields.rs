//! Fields that questions to other servers say as lines of the configuration have them: about errors, and about whether
//! a request may go on.

use crate::context::{Scratch, View};
use crate::template::{CompiledTemplate, Target};
use tidegate_model::Template;
use tidegate_wire::head::{HeaderId, RequestHead};
use tidegate_wire::parse_authority;

/// Names in lower case, with what they say.
#[derive(Debug)]
pub(crate) struct SaidFields(Box<[(Box<[u8]>, CompiledTemplate)]>);

impl SaidFields {
    pub fn new(headers: &[(String, Template)]) -> SaidFields {
        let compiled = headers.iter().map(|(name, value)| {
            let name: Box<[u8]> = name.to_ascii_lowercase().into_bytes().into();
            (name, CompiledTemplate::new(value, Target::HeaderValue))
        });
        SaidFields(compiled.collect())
    }

    /// Has the question say them, each in place of what it says under that name. One that comes to nothing is left out.
    pub fn say(&self, view: View<'_>, question: &mut RequestHead, scratch: &mut Scratch) {
        let rendered = &mut scratch.rendered;
        for (name, value) in &self.0 {
            rendered.clear();
            value.render(view, rendered);
            let value = rendered.trim_ascii();
            if **name == *b"host" {
                set_host(question, value);
                continue;
            }
            question.fields.remove(name);
            if !value.is_empty() {
                question.fields.push(name, value);
            }
        }
    }
}

/// Nothing where it is no host.
pub(crate) fn set_host(question: &mut RequestHead, host: &[u8]) {
    let Ok(parsed) = parse_authority(host) else { return };
    let span = question.fields.append(&[host]);
    question.set_authority(span, &parsed);
    question.fields.remove_id(HeaderId::Host);
    question.fields.push_id(HeaderId::Host, host);
}
