//! What a pool is asked for the page of an error: a request of its own, with what is known of the error and of the
//! request that had it. Who sends it, and waits, is `proxy`.

use crate::context::{Scratch, View};
use crate::rewrite::replace_target;
use crate::template::{CompiledTemplate, Target};
use tidegate_model::{AskedPage, PathPolicy};
use tidegate_wire::head::{HeaderId, Method, RequestHead, Version};
use tidegate_wire::parse_authority;

#[derive(Debug)]
pub struct PageQuestion {
    pub settings: AskedPage,
    path: CompiledTemplate,
    headers: Box<[(Box<[u8]>, CompiledTemplate)]>,
}

/// Fields of the request that say what a client can read.
const OF_CLIENT: [&[u8]; 2] = [b"accept", b"accept-language"];

impl PageQuestion {
    pub fn new(settings: &AskedPage) -> PageQuestion {
        let headers = settings.headers.iter().map(|(name, value)| {
            let name: Box<[u8]> = name.to_ascii_lowercase().into_bytes().into();
            (name, CompiledTemplate::new(value, Target::HeaderValue))
        });
        PageQuestion {
            headers: headers.collect(),
            path: CompiledTemplate::new(&settings.path, Target::RequestTarget),
            settings: settings.clone(),
        }
    }

    /// Begins the question: who asks, and by which way, is added by the caller, and then the lines of the
    /// configuration. False: what stands for the path is none.
    pub fn begin(&self, view: View<'_>, question: &mut RequestHead, scratch: &mut Scratch) -> bool {
        question.clear();
        question.version = Version::Http11;
        question.method = Method::Get;
        question.method_name = question.fields.append(&[b"GET"]);
        let Scratch { rendered, normal_path } = scratch;
        rendered.clear();
        self.path.render(view, rendered);
        if replace_target(question, rendered, PathPolicy::DEFAULT, normal_path).is_err() {
            return false;
        }
        set_host(question, view.request.authority());
        for name in OF_CLIENT {
            for value in view.request.fields.all_named(name) {
                question.fields.push(name, value);
            }
        }
        true
    }

    /// Says what the lines of the configuration say. One without a value is left out.
    pub fn say(&self, view: View<'_>, question: &mut RequestHead, scratch: &mut Scratch) {
        let rendered = &mut scratch.rendered;
        for (name, value) in &self.headers {
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
fn set_host(question: &mut RequestHead, host: &[u8]) {
    let Ok(parsed) = parse_authority(host) else { return };
    let span = question.fields.append(&[host]);
    question.set_authority(span, &parsed);
    question.fields.remove_id(HeaderId::Host);
    question.fields.push_id(HeaderId::Host, host);
}
