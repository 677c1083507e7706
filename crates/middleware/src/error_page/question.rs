//! What a pool is asked for the page of an error: a request of its own, with what is known of the error and of the
//! request that had it. Who sends it, and waits, is `proxy`.

use crate::context::{Scratch, View};
use crate::rewrite::replace_target;
use crate::said_fields::{SaidFields, set_host};
use crate::template::{CompiledTemplate, Target};
use tidegate_model::{AskedPage, PathPolicy};
use tidegate_wire::head::{Method, RequestHead, Version};

#[derive(Debug)]
pub struct PageQuestion {
    pub settings: AskedPage,
    path: CompiledTemplate,
    headers: SaidFields,
}

/// Fields of the request that say what a client can read.
const OF_CLIENT: [&[u8]; 2] = [b"accept", b"accept-language"];

impl PageQuestion {
    pub fn new(settings: &AskedPage) -> PageQuestion {
        PageQuestion {
            headers: SaidFields::new(&settings.headers),
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
        self.headers.say(view, question, scratch);
    }
}
