//! What a script is told of a request. Which params there are is decided in the crate `fastcgi`; here are the facts.

use super::compiled::CompiledFastCgi;
use crate::forward::Forwarding;
use crate::surroundings::context;
use std::borrow::Cow;
use std::cell::RefCell;
use std::net::SocketAddr;
use tidegate_exchange::Pooled;
use tidegate_fastcgi::record::{RequestId, encode_params};
use tidegate_fastcgi::{Pairs, Params, Script};
use tidegate_middleware::{Refusal, View};
use tidegate_model::Scheme;
use tidegate_routing::path_policy::path_as_sent;
use tidegate_transport::Sock;
use tidegate_wire::head::{HeaderId, Version};

/// All params of a request: each byte of a path is in several of them, and heads may be 64 KiB and more.
const PARAMS_BYTES_MAX: usize = 512 << 10;

thread_local! {
    /// Where the params of a request are gathered.
    static PAIRS: RefCell<Pairs> = RefCell::new(Pairs::new(PARAMS_BYTES_MAX));
}

impl<S: Sock> Forwarding<'_, '_, S> {
    /// The records of PARAMS. `content_length` is that of the body, where there is one.
    pub(super) fn encode_params(
        &mut self,
        step: &CompiledFastCgi,
        script: &Script,
        content_length: Option<u64>,
        id: RequestId,
    ) -> Result<Vec<u8>, Refusal> {
        // It was for us, and is settled before a script begins.
        self.exchange.head.fields.remove_id(HeaderId::Expect);
        self.tell_client_certificate();
        let context = context(
            self.connection,
            self.way.pool.as_deref(),
            &self.exchange.record,
            self.exchange.client_ip,
            self.exchange.hop.upgrade,
        );
        let view = View { context: &context, request: &self.exchange.head, response: None };
        let (mut rendered, mut ends) = (Vec::new(), Vec::new());
        for (_, template) in &step.env {
            template.render(view, &mut rendered);
            ends.push(rendered.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let values = starts.zip(&ends).map(|(start, end)| &rendered[start..*end]);
        let extra: Vec<(&[u8], &[u8])> = step.env.iter().map(|(name, _)| &**name).zip(values).collect();

        let target = self.target_as_sent();
        let is_https = self.is_https();
        let mut server = self.connection.local_address();
        if is_https && self.connection.scheme() == Scheme::Http {
            server.set_port(Scheme::Https.default_port());
        }
        let params = Params {
            method: self.exchange.head.method_name(),
            raw_target: &target,
            query: self.exchange.head.query().unwrap_or_default(),
            protocol: match self.exchange.head.version {
                // As other servers say it, and scripts look for it.
                Version::Http2 => "HTTP/2.0",
                version => version.as_str(),
            },
            authority: self.exchange.head.authority(),
            server_name: &self.server_name(server),
            client: SocketAddr::new(self.exchange.client_ip, self.connection.client.port()),
            server,
            is_https,
            content_length,
            user: self.exchange.record.user(),
            software: "tidegate",
            extra: &extra,
        };
        PAIRS.with_borrow_mut(|pairs| {
            let written = params.write(pairs, &step.scripts, script, self.exchange.head.fields.iter());
            written.map_err(|_| Refusal::ParamsTooLarge)?;
            let mut records = Vec::new();
            encode_params(&mut records, id, pairs);
            Ok(records)
        })
    }

    /// What the client has asked for, before any step: with the slashes that it sent, and with a path whose dots are
    /// settled, as guards have seen it. Scripts find their own pages by it.
    fn target_as_sent(&self) -> Pooled<Vec<u8>> {
        let record = &self.exchange.record;
        let bytes = &self.exchange.head.fields.bytes;
        let mut target: Pooled<Vec<u8>> = Pooled::take();
        // A path that was settled is another span than the one that was sent.
        let is_settled = record.path != record.matched_path;
        let sent = is_settled.then(|| record.path.of(bytes));
        match sent.and_then(|path| path_as_sent(self.route.path_policy, path)) {
            Some(path) => target.extend_from_slice(&path),
            None => target.extend_from_slice(record.matched_path.of(bytes)),
        }
        if let Some(query) = record.told_query {
            target.push(b'?');
            target.extend_from_slice(query.of(bytes));
        }
        target
    }

    /// A proxy in front that ends TLS is believed when it is trusted: scripts would send its clients round in circles
    /// otherwise.
    fn is_https(&self) -> bool {
        let said = || {
            self.exchange.head.fields.get(HeaderId::XForwardedProto).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https"))
        };
        self.connection.scheme() == Scheme::Https || (self.exchange.peer_is_trusted && said())
    }

    /// The host that the request is for, an IPv6 address in brackets. HTTP/1.0 may name none; then it is the address
    /// that the client found.
    fn server_name(&self, server: SocketAddr) -> Cow<'_, [u8]> {
        match self.exchange.head.host() {
            b"" if server.is_ipv6() => Cow::Owned(format!("[{}]", server.ip()).into_bytes()),
            b"" => Cow::Owned(server.ip().to_string().into_bytes()),
            host if host.contains(&b':') => Cow::Owned([b"[", host, b"]"].concat()),
            host => Cow::Borrowed(host),
        }
    }
}
