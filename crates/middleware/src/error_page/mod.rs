//! `error-page`: which page stands for an error, and what of the error's own answer stays. When there is an error, and
//! whose it is, is found out by whoever answers (`proxy`). What errors say without a page is in `errors`.

mod accept;
mod question;

pub use question::PageQuestion;

use crate::context::View;
use crate::errors::{PLAIN_TEXT, error_answer};
use crate::template::{CompiledTemplate, Target};
use accept::Liked;
use tidegate_model::{ErrorBody, ErrorFormat, ErrorPage, ErrorSource, PageBytes, StatusRange, Template};
use tidegate_wire::head::{HeaderId, RequestHead, ResponseHead};
use tidegate_wire::reason_phrase;

/// Error pages of a route, or of a site for requests that no route takes; the first that fits counts.
#[derive(Debug, Default)]
pub struct ErrorPages {
    pages: Box<[CompiledErrorPage]>,
    has_upstreams: bool,
}

#[derive(Debug)]
pub struct CompiledErrorPage {
    statuses: Box<[StatusRange]>,
    from: ErrorSource,
    status: Option<u16>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Bytes { bytes: PageBytes, content_type: Box<[u8]> },
    Template { text: CompiledTemplate, content_type: Box<[u8]> },
    Made(ErrorFormat),
    Asked(Box<PageQuestion>),
}

/// Who made an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Proxy,
    Upstream,
}

/// What is known of it.
#[derive(Debug, Clone, Copy)]
pub struct ErrorFacts {
    pub status: u16,
    /// The code in log and metrics; empty for those of upstreams, and of a `respond`.
    pub reason: &'static str,
    /// What happened; empty where that is not known.
    pub sentence: &'static str,
}

/// Fields that describe the body, and go with it (RFC 9110 section 8, RFC 9530); and how it was sent.
const OF_BODY: [&[u8]; 17] = [
    b"content-length",
    b"content-type",
    b"content-encoding",
    b"content-language",
    b"content-location",
    b"content-range",
    b"content-disposition",
    b"content-md5",
    b"content-digest",
    b"repr-digest",
    b"digest",
    b"etag",
    b"last-modified",
    b"accept-ranges",
    b"transfer-encoding",
    b"trailer",
    b"x-accel-redirect",
];

/// Of a pool's answer what says how it came, and what only a proxy is told.
const OF_TRANSFER: [&[u8]; 5] = [b"content-length", b"transfer-encoding", b"trailer", b"date", b"x-accel-redirect"];

impl ErrorPages {
    pub fn new(pages: &[ErrorPage]) -> ErrorPages {
        let pages: Box<[CompiledErrorPage]> = pages.iter().map(CompiledErrorPage::new).collect();
        ErrorPages { has_upstreams: pages.iter().any(|page| page.from != ErrorSource::Proxy), pages }
    }

    /// Whether answers of upstreams have to be looked at.
    #[inline]
    pub fn has_upstreams(&self) -> bool {
        self.has_upstreams
    }

    /// The page for an error. `response` is the upstream's answer, where it is one.
    pub fn find(
        &self,
        status: u16,
        origin: Origin,
        request: &RequestHead,
        response: Option<&ResponseHead>,
    ) -> Option<&CompiledErrorPage> {
        if self.pages.is_empty() || status < 400 {
            return None;
        }
        // Whoever speaks gRPC reads the status in its own fields, and no page.
        let is_grpc = |value: Option<&[u8]>| {
            value.and_then(|value| value.get(..16)).is_some_and(|start| start.eq_ignore_ascii_case(b"application/grpc"))
        };
        if is_grpc(request.fields.get(HeaderId::ContentType))
            || is_grpc(response.and_then(|response| response.fields.get(HeaderId::ContentType)))
        {
            return None;
        }
        self.pages.iter().find(|page| page.is_for(status, origin))
    }
}

impl CompiledErrorPage {
    fn new(page: &ErrorPage) -> CompiledErrorPage {
        // It is a header like any other: no line break may come in through it.
        let header = |text: &str| {
            let compiled = CompiledTemplate::new(&Template::literal(text.trim()), Target::HeaderValue);
            compiled.as_literal().unwrap_or(PLAIN_TEXT).into()
        };
        let body = match &page.body {
            ErrorBody::Template { text, content_type, .. } => Body::Template {
                text: CompiledTemplate::new(text, Target::of_content_type(content_type)),
                content_type: header(content_type),
            },
            ErrorBody::File { bytes, content_type, .. } => {
                Body::Bytes { bytes: bytes.clone(), content_type: header(content_type) }
            }
            ErrorBody::Made(format) => Body::Made(*format),
            ErrorBody::Asked(asked) => Body::Asked(Box::new(PageQuestion::new(asked))),
        };
        CompiledErrorPage { statuses: page.statuses.as_slice().into(), from: page.from, status: page.status, body }
    }

    fn is_for(&self, status: u16, origin: Origin) -> bool {
        let is_from = match (self.from, origin) {
            (ErrorSource::All, _) | (ErrorSource::Proxy, Origin::Proxy) | (ErrorSource::Upstream, Origin::Upstream) => true,
            (ErrorSource::Proxy, Origin::Upstream) | (ErrorSource::Upstream, Origin::Proxy) => false,
        };
        is_from && self.statuses.iter().any(|range| range.contains(status))
    }

    /// What is asked of a pool for it, if something is.
    pub fn question(&self) -> Option<&PageQuestion> {
        match &self.body {
            Body::Asked(question) => Some(question),
            Body::Bytes { .. } | Body::Template { .. } | Body::Made(_) => None,
        }
    }

    /// The status that the client gets to see.
    pub fn status(&self, error: u16) -> u16 {
        self.status.unwrap_or(error)
    }

    /// Makes `head`, which has the fields of the error so far, that of the page, and gives the body: the page itself,
    /// or `buffer`. The context of the view has the error.
    pub fn answer<'a>(
        &'a self,
        error: &ErrorFacts,
        view: View<'_>,
        head: &mut ResponseHead,
        buffer: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        buffer.clear();
        // Before anything is removed from what it may show.
        if let Body::Template { text, .. } = &self.body
            && text.as_literal().is_none()
        {
            text.render(view, buffer);
        }
        for name in OF_BODY {
            head.fields.remove(name);
        }
        head.status = self.status(error.status);
        head.reason = head.fields.append(&[reason_phrase(head.status).as_bytes()]);
        match &self.body {
            Body::Bytes { bytes, content_type } => {
                head.fields.push(b"content-type", content_type);
                &bytes.0
            }
            Body::Template { text, content_type } => {
                head.fields.push(b"content-type", content_type);
                text.as_literal().unwrap_or(buffer)
            }
            Body::Made(format) => {
                make(*format, error, view, head, buffer);
                buffer
            }
            // Nobody has answered.
            Body::Asked(_) => {
                make(ErrorFormat::Auto, error, view, head, buffer);
                buffer
            }
        }
    }
}

impl CompiledErrorPage {
    /// Makes `head`, which has the fields of the error so far, that of the answer that a pool has given. `None`: its
    /// status is none that a whole page has.
    pub fn take_answer(&self, error: u16, answer: &mut ResponseHead, head: &mut ResponseHead) -> Option<()> {
        let keeps_status = self.question().is_none_or(|question| question.settings.keeps_status);
        if !(200..600).contains(&answer.status) || [204, 205, 206, 304].contains(&answer.status) {
            return None;
        }
        for name in OF_BODY {
            head.fields.remove(name);
        }
        answer.fields.remove_hop_by_hop();
        for name in OF_TRANSFER {
            answer.fields.remove(name);
        }
        // Cookies of both are the client's; of everything else the page's counts.
        let is_cookie = |name: &[u8]| name.eq_ignore_ascii_case(b"set-cookie");
        for (name, _) in answer.fields.iter().filter(|(name, _)| !is_cookie(name)) {
            head.fields.remove(name);
        }
        for (name, value) in answer.fields.iter() {
            head.fields.push(name, value);
        }
        head.status = self.status(if keeps_status { error } else { answer.status });
        head.reason = head.fields.append(&[reason_phrase(head.status).as_bytes()]);
        Some(())
    }
}

fn make(format: ErrorFormat, error: &ErrorFacts, view: View<'_>, head: &mut ResponseHead, out: &mut Vec<u8>) {
    let liked = match format {
        ErrorFormat::Html => Liked::Html,
        ErrorFormat::Json => Liked::Json,
        ErrorFormat::Text => Liked::Text,
        ErrorFormat::Auto => {
            head.fields.push(b"vary", b"Accept");
            accept::liked(view.request.fields.all_named(b"accept"))
        }
    };
    let (status, phrase) = (head.status, reason_phrase(head.status));
    // Nothing in it has a meaning to HTML or JSON, whoever gave it.
    let request_id = view.context.see_request_id(str::to_owned);
    let ErrorFacts { reason, sentence, .. } = *error;
    let text = match liked {
        Liked::Text => {
            head.fields.push(b"content-type", PLAIN_TEXT);
            let mut answer = ResponseHead::default();
            if reason.is_empty() {
                out.extend_from_slice(format!("{status} {phrase}").trim_end().as_bytes());
                out.push(b'\n');
            } else {
                error_answer(status, sentence, reason, &mut answer, out);
            }
            return;
        }
        Liked::Json => {
            head.fields.push(b"content-type", b"application/problem+json");
            let title = if phrase.is_empty() { "Error" } else { phrase };
            let mut text = format!(r#"{{"type":"about:blank","title":"{title}","status":{status}"#);
            if !reason.is_empty() {
                text.push_str(&format!(r#","detail":"{sentence}","reason":"{reason}""#));
            }
            text.push_str(&format!(r#","request_id":"{request_id}"}}"#));
            text.push('\n');
            text
        }
        Liked::Html => {
            head.fields.push(b"content-type", b"text/html; charset=utf-8");
            let title = format!("{status} {phrase}");
            let title = title.trim_end();
            let what = if reason.is_empty() { String::new() } else { format!("<p>{sentence} ({reason})</p>\n") };
            format!(
                "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
                 <title>{title}</title>\n<style>body{{font:1rem/1.5 system-ui,sans-serif;margin:4rem auto;max-width:40rem;padding:0 1rem}}\
                 small{{color:#777}}</style>\n<h1>{title}</h1>\n{what}<p><small>{request_id}</small></p>\n</html>\n"
            )
        }
    };
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests;
