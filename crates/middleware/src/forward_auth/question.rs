//! The question about a request: a request of its own, without the other's body.

use super::CompiledForwardAuth;
use tidegate_model::AuthMethod;
use tidegate_wire::head::{Fields, HeaderId, Method, RequestHead, Version};
use tidegate_wire::name_table::NameTable;
use tidegate_wire::parse_authority;

/// What is asked about: a request as its route was found by it. What its steps have made of its path since then is the
/// upstream's business, and a rule of the auth server is about what clients see.
#[derive(Debug, Clone, Copy)]
pub struct QuestionOf<'a> {
    pub scheme: &'a [u8],
    pub authority: &'a [u8],
    pub path: &'a [u8],
    pub query: Option<&'a [u8]>,
}

/// Fields that are not in a question: those that it says itself, which nobody else says in any spelling, and those by
/// which its answer would be a part of one, or none (RFC 9110 section 13).
const OWN: NameTable<()> = NameTable::new(&[
    (b"x-forwarded-method", ()),
    (b"x-forwarded-host", ()),
    (b"x-forwarded-uri", ()),
    (b"x-original-url", ()),
    (b"x-original-uri", ()),
    (b"x-original-method", ()),
    (b"if-match", ()),
    (b"if-none-match", ()),
    (b"if-modified-since", ()),
    (b"if-unmodified-since", ()),
    (b"if-range", ()),
    (b"content-language", ()),
    (b"content-location", ()),
    (b"content-range", ()),
]);

impl CompiledForwardAuth {
    /// Makes the question of a request whose hop-by-hop fields are gone. `body_bytes`: its body goes along. Who asked,
    /// and by which scheme, is added by the caller, as for any request to an upstream.
    pub fn write_question(&self, of: &QuestionOf<'_>, head: &RequestHead, body_bytes: Option<u64>, question: &mut RequestHead) {
        question.copy_from(head);
        question.version = Version::Http11;
        let has_body = body_bytes.is_some();
        self.remove_fields(&mut question.fields, has_body);
        if let Some(bytes) = body_bytes {
            question.fields.remove_id(HeaderId::ContentLength);
            question.fields.push_id(HeaderId::ContentLength, itoa::Buffer::new().format(bytes).as_bytes());
        }
        let method = head.method_name();
        question.fields.push(b"x-forwarded-method", method);
        question.fields.push(b"x-original-method", method);
        // HTTP/1.0 without a host names none.
        if !of.authority.is_empty() {
            question.fields.push_id(HeaderId::XForwardedHost, of.authority);
        }
        let (mark, query): (&[u8], &[u8]) = of.query.map_or((b"", b""), |query| (b"?", query));
        question.fields.push_parts(b"x-forwarded-uri", &[of.path, mark, query]);
        question.fields.push_parts(b"x-original-url", &[of.scheme, b"://", of.authority, of.path, mark, query]);
        self.set_request_line(question);
    }

    fn remove_fields(&self, fields: &mut Fields, has_body: bool) {
        for id in [HeaderId::Expect, HeaderId::Range, HeaderId::Trailer] {
            fields.remove_id(id);
        }
        fields.remove_id(HeaderId::XForwardedHost);
        if !has_body {
            for id in [HeaderId::ContentLength, HeaderId::ContentType, HeaderId::ContentEncoding] {
                fields.remove_id(id);
            }
        }
        match &self.request_fields {
            None => fields.remove_where(|name| OWN.find(name).is_some()),
            Some(wanted) => fields.remove_where(|name| {
                let is_of_message = match HeaderId::of(name) {
                    HeaderId::Host | HeaderId::XForwardedFor | HeaderId::XForwardedProto | HeaderId::XForwardedPort => true,
                    HeaderId::ContentLength | HeaderId::ContentType | HeaderId::ContentEncoding => has_body,
                    _ => false,
                };
                !is_of_message && (!wanted.has(name) || OWN.find(name).is_some())
            }),
        }
    }

    fn set_request_line(&self, question: &mut RequestHead) {
        match &self.settings.method {
            AuthMethod::OfRequest => {}
            AuthMethod::Get => {
                question.method = Method::Get;
                question.method_name = question.fields.append(&[b"GET"]);
            }
            AuthMethod::Other(name) => {
                question.method = Method::of(name.as_bytes());
                question.method_name = question.fields.append(&[name.as_bytes()]);
            }
        }
        let (path, query) = match self.settings.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (self.settings.target.as_str(), None),
        };
        question.set_path(path.as_bytes());
        question.set_query(query.map(str::as_bytes));
        if let Some(host) = &self.settings.host {
            question.fields.set(b"host", host.as_bytes());
            let span = question.fields.append(&[host.as_bytes()]);
            if let Ok(parsed) = parse_authority(host.as_bytes()) {
                question.set_authority(span, &parsed);
            }
        }
    }
}
