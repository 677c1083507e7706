//! Making the client's head one that may go to an upstream: hop-by-hop fields out, who asked and how in.

use super::Forwarding;
use super::websocket::kind_of_upgrade;
use crate::connection::Connection;
use crate::request_ids;
use tidegate_exchange::Pooled;
use tidegate_exchange::forwarded::tell_certificate;
use tidegate_transport::Sock;
use tidegate_upstream::call::ScriptRequest;
use tidegate_upstream::connect::Upgrade;
use tidegate_upstream::pool::WorkerPool;
use tidegate_wire::BodyFraming;
use tidegate_wire::head::{HeaderId, RequestHead};

/// What was settled about the request before the first attempt.
pub(super) struct Plan {
    /// What the client asks its connection, or its stream, to become.
    pub upgrade: Upgrade,
    /// The client takes trailers (`TE: trailers`).
    pub trailers_wanted: bool,
    pub grpc: bool,
    pub idempotent: bool,
    pub chunked: bool,
    /// What a script is told, where one answers.
    pub script: Option<Box<ScriptRequest>>,
}

impl<S: Sock> Forwarding<'_, '_, S> {
    /// Makes the client's head one that may go to an upstream.
    pub(super) fn prepare_head(&mut self, pool: &WorkerPool<S>) -> Plan {
        let upgrade = self.exchange.hop.upgrade;
        let idempotent = self.exchange.head.method.is_idempotent();
        let grpc = self.exchange.head.fields.is_grpc();
        let plan = Plan {
            upgrade: kind_of_upgrade(self.exchange.upgrade_protocol()),
            trailers_wanted: self.exchange.hop.trailers_wanted,
            grpc,
            idempotent,
            chunked: self.exchange.framing == BodyFraming::Chunked,
            script: None,
        };
        let fields = &mut self.exchange.head.fields;
        if plan.chunked {
            fields.push_id(HeaderId::TransferEncoding, b"chunked");
        }
        if let Some(protocol) = upgrade {
            fields.push_id(HeaderId::Connection, b"Upgrade");
            fields.push_copy(HeaderId::Upgrade, protocol);
            if self.exchange.is_extended_connect() {
                self.make_key();
            }
        }
        self.set_forwarded_fields();
        if self.rewrites_location() {
            self.tell_prefix();
        }
        let (exchange, worker) = (&mut *self.exchange, &self.connection.worker);
        request_ids::tell(&self.route.request_ids, &mut exchange.head.fields, &exchange.record, || worker.random());
        self.tell_client_certificate();
        if !self.exchange.head.fields.has(HeaderId::Host) {
            // HTTP/1.0 without a host: upstreams speak HTTP/1.1, where one is required (RFC 9112 section 3.2). Their
            // own name is the only one that is surely theirs.
            let host = pool.compiled.servers.first().map_or_else(String::new, |server| server.model.address.host_field());
            self.exchange.head.fields.push_id(HeaderId::Host, host.as_bytes());
        }
        plan
    }

    /// Says what the client has shown in its handshake, where the site wants that.
    pub(crate) fn tell_client_certificate(&mut self) {
        let form = self.site.as_ref().and_then(|site| site.compiled.tells_client_certificate);
        if let Some(form) = form {
            let shown = self.connection.shown_certificate();
            tell_certificate(&mut self.exchange.head.fields, form, shown, self.exchange.peer_is_trusted);
        }
    }

    /// Says who asked, how and for what. A trusted proxy's word is kept and added to, and so is what a step has set;
    /// what an untrusted client said of itself is gone since its head was received.
    fn set_forwarded_fields(&mut self) {
        set_forwarded_fields(self.connection, &mut self.exchange.head);
    }
}

/// As an upstream is told it.
pub(crate) fn set_forwarded_fields<S: Sock>(connection: &Connection<S>, head: &mut RequestHead) {
    let port = connection.destination_port();
    let scheme = connection.scheme();
    let authority = head.authority;
    let fields = &mut head.fields;
    let peer = connection.client_ip_text();
    if fields.has(HeaderId::XForwardedFor) {
        let mut chain: Pooled<Vec<u8>> = Pooled::take();
        for value in fields.all(HeaderId::XForwardedFor) {
            chain.extend_from_slice(value);
            chain.extend_from_slice(b", ");
        }
        chain.extend_from_slice(peer);
        fields.set(b"x-forwarded-for", &chain);
    } else {
        fields.push_id(HeaderId::XForwardedFor, peer);
    }
    if !fields.has(HeaderId::XForwardedProto) {
        fields.push_id(HeaderId::XForwardedProto, scheme.as_str().as_bytes());
    }
    if !fields.has(HeaderId::XForwardedHost) && authority.len > 0 {
        fields.push_copy(HeaderId::XForwardedHost, authority);
    }
    if !fields.has(HeaderId::XForwardedPort) {
        fields.push_id(HeaderId::XForwardedPort, itoa::Buffer::new().format(port).as_bytes());
    }
}
