//! `forward-auth`: what another server is asked about a request, what its answer means, and what becomes of both. Who
//! asks it, and waits, is `proxy`.

mod check;
mod meaning;
mod patterns;
mod question;
mod return_address;

pub use self::check::{CHECK_PATH, CheckFacts, read_check, write_check};
pub use self::meaning::{AuthFault, AuthMeaning};
pub use self::question::QuestionOf;

use self::patterns::FieldPatterns;
use self::return_address::is_navigation;
use crate::context::{Scratch, View};
use crate::said_fields::SaidFields;
use crate::template::{CompiledTemplate, Target};
use tidegate_model::{ForwardAuth, Step, log_ins};
use tidegate_wire::head::{Fields, HeaderId, RequestHead, ResponseHead};

#[derive(Debug)]
pub struct CompiledForwardAuth {
    pub settings: ForwardAuth,
    request_fields: Option<FieldPatterns>,
    headers: SaidFields,
    copied: FieldPatterns,
    /// Names of cookies, which have case. Empty is all of them.
    cookies: Option<FieldPatterns>,
    key: Option<CompiledTemplate>,
}

/// All of it is made of its settings.
impl PartialEq for CompiledForwardAuth {
    fn eq(&self, other: &CompiledForwardAuth) -> bool {
        self.settings == other.settings
    }
}

impl Eq for CompiledForwardAuth {}

impl CompiledForwardAuth {
    pub fn new(auth: &ForwardAuth) -> CompiledForwardAuth {
        CompiledForwardAuth {
            request_fields: auth.request_fields.as_deref().map(FieldPatterns::new),
            headers: SaidFields::new(&auth.headers),
            copied: FieldPatterns::new(&auth.copied),
            cookies: auth.cookies.as_deref().map(FieldPatterns::new),
            key: auth.remembers.as_ref().map(|remembered| CompiledTemplate::new(&remembered.key, Target::Text)),
            settings: auth.clone(),
        }
    }

    /// What good answers are remembered by. False: this one is asked about, since what the key names of the client is
    /// not there; by such a key, whoever was let in by something else would let in everybody.
    pub fn write_key(&self, view: View<'_>, key: &mut Vec<u8>) -> bool {
        self.key.as_ref().is_some_and(|template| template.render_key(view, key))
    }

    /// Has the question say what the lines of the configuration say. One that comes to nothing is left out.
    pub fn say(&self, view: View<'_>, question: &mut RequestHead, scratch: &mut Scratch) {
        self.headers.say(view, question, scratch);
    }

    /// What the upstream is told of a good answer, each by its name.
    pub fn each_copied<'a>(&self, answer: &'a ResponseHead, mut see: impl FnMut(&'a [u8], &'a [u8])) {
        if !self.copied.is_empty() {
            answer
                .fields
                .iter()
                .filter(|(name, _)| self.copied.has(name) && may_be_copied(name))
                .for_each(|(name, value)| see(name, value));
        }
    }

    /// Whether a good answer may tell the upstream something under that name, which is in lower case.
    pub fn copies(&self, name: &str) -> bool {
        self.copied.has(name.as_bytes()) && may_be_copied(name.as_bytes())
    }

    /// What the client says in the name of the auth server, or what another answer has said before.
    pub fn remove_copied(&self, fields: &mut Fields) {
        if !self.copied.is_empty() {
            fields.remove_where(|name| self.copied.is_like(name) && may_be_copied(name));
        }
    }

    /// Cookies of a good answer that the client gets.
    pub fn each_cookie<'a>(&self, answer: &'a ResponseHead, see: impl FnMut(&'a [u8])) {
        let Some(cookies) = &self.cookies else { return };
        let is_one = |cookie: &&[u8]| {
            let name = cookie.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            cookies.is_empty() || cookies.has_exactly(name)
        };
        answer.fields.all(HeaderId::SetCookie).filter(is_one).for_each(see);
    }

    /// Whether a good answer may set cookies.
    pub fn sets_cookies(&self) -> bool {
        self.cookies.is_some()
    }

    /// Who the client is, by a good answer.
    pub fn user<'a>(&'a self, answer: &'a ResponseHead) -> Option<&'a [u8]> {
        let value = answer.fields.all_named(self.settings.user.as_ref()?.as_bytes()).next()?;
        Some(value).filter(|value| !value.is_empty())
    }

    /// Whether a good answer names several people: limits and logs would know one, and the upstream perhaps another.
    pub fn names_several(&self, answer: &ResponseHead) -> bool {
        let Some(user) = &self.settings.user else { return false };
        let mut named = answer.fields.all_named(user.as_bytes());
        let first = named.next();
        named.any(|other| Some(other) != first)
    }

    /// Where a browser goes that is not logged in. None: it gets the answer that there is.
    pub fn sign_in_location(&self, of: &QuestionOf<'_>, head: &RequestHead) -> Option<Vec<u8>> {
        let sign_in = self.settings.sign_in.as_ref().filter(|_| is_navigation(head))?;
        Some(return_address::location(sign_in, of))
    }
}

/// What an answer can never say to an upstream, whichever pattern it fits: what frames the message or holds for its
/// connection, and what says where the request goes.
pub(crate) fn may_be_copied(name: &[u8]) -> bool {
    !matches!(
        HeaderId::of(name),
        HeaderId::Host
            | HeaderId::Connection
            | HeaderId::ContentLength
            | HeaderId::ContentType
            | HeaderId::ContentEncoding
            | HeaderId::TransferEncoding
            | HeaderId::KeepAlive
            | HeaderId::ProxyConnection
            | HeaderId::ProxyAuthenticate
            | HeaderId::Te
            | HeaderId::Trailer
            | HeaderId::Upgrade
            | HeaderId::Http2Settings
            | HeaderId::Expect
            | HeaderId::Date
            | HeaderId::SetCookie
    )
}

/// The step that counts among those of a site and of one of its routes.
pub fn forward_auth_of<'s>(site_steps: &'s [Step], route_steps: &'s [Step]) -> Option<&'s ForwardAuth> {
    log_ins(site_steps, route_steps).flat_map(Step::parts).find_map(|step| match step {
        Step::ForwardAuth(Some(auth)) => Some(&**auth),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
