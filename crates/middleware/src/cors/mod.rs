//! `cors`: answers the questions that browsers ask before requests to other origins (preflights), and marks answers
//! that pages of other origins may read. Which fields there are and what they mean is in the Fetch standard, section
//! "CORS protocol".

use tidegate_model::{Cors, OriginPattern, Origins};
use tidegate_wire::head::{HeaderId, RequestHead, ResponseHead};

#[derive(Debug)]
pub struct CompiledCors {
    origins: Origins,
    methods: Box<[u8]>,
    headers: Option<Box<[u8]>>,
    exposed: Box<[u8]>,
    credentials: bool,
    max_age_seconds: Box<str>,
    private_network: bool,
    names: Methods,
}

/// Each of them, to look one up.
type Methods = Box<[Box<str>]>;

/// What the upstream may have set: there is one answer to the question, and it is ours.
const FIELDS: [&[u8]; 7] = [
    b"access-control-allow-origin",
    b"access-control-allow-methods",
    b"access-control-allow-headers",
    b"access-control-allow-credentials",
    b"access-control-expose-headers",
    b"access-control-max-age",
    b"access-control-allow-private-network",
];

impl CompiledCors {
    pub fn new(cors: &Cors) -> CompiledCors {
        let joined = |list: &[String]| list.join(", ").into_bytes().into_boxed_slice();
        CompiledCors {
            origins: cors.origins.clone(),
            methods: joined(&cors.methods),
            headers: cors.headers.as_deref().map(joined),
            exposed: joined(&cors.exposed),
            credentials: cors.credentials,
            max_age_seconds: cors.max_age.as_secs().to_string().into(),
            private_network: cors.private_network,
            names: cors.methods.iter().map(|method| method.as_str().into()).collect(),
        }
    }

    /// Whether the request only asks what another one might do; it is answered here, and never reaches an upstream.
    pub fn is_preflight(head: &RequestHead) -> bool {
        head.method_name() == b"OPTIONS"
            && head.fields.has(HeaderId::Origin)
            && head.fields.all_named(b"access-control-request-method").next().is_some()
    }

    /// Sets what the answer says of other origins.
    pub fn apply(&self, request: &RequestHead, response: &mut ResponseHead) {
        for name in FIELDS {
            response.fields.remove(name);
        }
        // Without credentials every page gets the same answer; else it depends on who asks, and a cache has to know.
        let is_same_for_all = matches!(self.origins, Origins::Any) && !self.credentials;
        if !is_same_for_all {
            response.fields.push(b"vary", b"Origin");
        }
        let Some(origin) = request.fields.get(HeaderId::Origin) else {
            if is_same_for_all {
                response.fields.push(b"access-control-allow-origin", b"*");
                self.push_exposed(response);
            }
            return;
        };
        if Self::is_preflight(request) {
            response.fields.push(b"vary", b"Access-Control-Request-Method, Access-Control-Request-Headers");
            if self.has_origin(origin) {
                self.answer_preflight(request, response, origin, is_same_for_all);
            }
        } else if self.has_origin(origin) {
            self.push_origin(response, origin, is_same_for_all);
            self.push_exposed(response);
        }
    }

    fn has_origin(&self, origin: &[u8]) -> bool {
        match &self.origins {
            Origins::Any => true,
            Origins::Listed(patterns) => patterns.iter().any(|pattern: &OriginPattern| pattern.fits(origin)),
        }
    }

    fn answer_preflight(&self, request: &RequestHead, response: &mut ResponseHead, origin: &[u8], is_same_for_all: bool) {
        let method = request.fields.all_named(b"access-control-request-method").next().unwrap_or_default().trim_ascii();
        if !self.names.iter().any(|known| known.as_bytes() == method) {
            // The browser does not send what it is not told that it may.
            return;
        }
        self.push_origin(response, origin, is_same_for_all);
        let fields = &mut response.fields;
        fields.push(b"access-control-allow-methods", &self.methods);
        let asked = request.fields.all_named(b"access-control-request-headers").collect::<Vec<_>>().join(&b", "[..]);
        match &self.headers {
            Some(headers) if !headers.is_empty() => fields.push(b"access-control-allow-headers", headers),
            None if !asked.is_empty() => fields.push(b"access-control-allow-headers", &asked),
            Some(_) | None => {}
        }
        fields.push(b"access-control-max-age", self.max_age_seconds.as_bytes());
        let asks_for_private = request.fields.all_named(b"access-control-request-private-network").any(|value| value == b"true");
        if self.private_network && asks_for_private {
            fields.push(b"access-control-allow-private-network", b"true");
        }
    }

    fn push_origin(&self, response: &mut ResponseHead, origin: &[u8], is_same_for_all: bool) {
        response.fields.push(b"access-control-allow-origin", if is_same_for_all { b"*" } else { origin });
        if self.credentials {
            response.fields.push(b"access-control-allow-credentials", b"true");
        }
    }

    fn push_exposed(&self, response: &mut ResponseHead) {
        if !self.exposed.is_empty() {
            response.fields.push(b"access-control-expose-headers", &self.exposed);
        }
    }
}

#[cfg(test)]
mod tests;
