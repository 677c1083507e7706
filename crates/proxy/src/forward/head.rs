//! Making the client's head one that may go to an upstream: hop-by-hop fields out, who asked and how in.

use crate::lease::Lease;
use crate::pool::WorkerPool;
use crate::request::Request;
use tidegate_transport::Sock;
use tidegate_wire::BodyFraming;
use tidegate_wire::head::{Fields, HeaderId};

/// What was settled about the request before the first attempt.
pub(super) struct Plan {
    /// `Upgrade` as the client asked for it.
    pub upgrade: bool,
    /// The client takes trailers (`TE: trailers`).
    pub trailers_wanted: bool,
    pub grpc: bool,
    pub idempotent: bool,
    pub chunked: bool,
}

impl<S: Sock> Request<'_, S> {
    /// Makes the client's head one that may go to an upstream.
    pub(super) fn prepare_head(&mut self, pool: &WorkerPool<S>) -> Plan {
        let upgrade = self.hop.upgrade;
        let idempotent = self.head.method.is_idempotent();
        let fields = &mut self.head.fields;
        let plan = Plan {
            upgrade: upgrade.is_some(),
            trailers_wanted: self.hop.trailers_wanted,
            grpc: fields.get(HeaderId::ContentType).is_some_and(|kind| kind.starts_with(b"application/grpc")),
            idempotent,
            chunked: self.framing == BodyFraming::Chunked,
        };
        if plan.chunked {
            fields.push(b"transfer-encoding", b"chunked");
        }
        if let Some(protocol) = upgrade {
            fields.push(b"connection", b"Upgrade");
            fields.push_copy(b"upgrade", protocol);
        }
        self.set_forwarded_fields();
        if !self.head.fields.has(HeaderId::Host) {
            // HTTP/1.0 without a host: upstreams speak HTTP/1.1, where one is required (RFC 9112 section 3.2). Their own name is the
            // only one that is surely theirs.
            let host = pool.compiled.servers.first().map_or(&b""[..], |server| server.authority.as_bytes());
            self.head.fields.push(b"host", host);
        }
        plan
    }

    /// Says who asked, how and for what. What an untrusted peer says of itself is replaced; a trusted proxy's word is kept and added to.
    fn set_forwarded_fields(&mut self) {
        let connection = self.connection;
        let port = connection.listen_port();
        let scheme = self.scheme();
        let trusted = self.peer_is_trusted;
        let authority = self.head.authority;
        let fields = &mut self.head.fields;
        let peer = connection.client_ip_text();
        if !trusted {
            for id in [HeaderId::XForwardedFor, HeaderId::XForwardedProto, HeaderId::XForwardedHost, HeaderId::XForwardedPort] {
                fields.remove_id(id);
            }
            // Others believe these in the same way.
            fields.remove_id(HeaderId::Forwarded);
            fields.remove_id(HeaderId::XRealIp);
            remove_look_alikes(fields);
        }
        if fields.has(HeaderId::XForwardedFor) {
            let mut chain: Lease<Vec<u8>> = Lease::take();
            for value in fields.all(HeaderId::XForwardedFor) {
                chain.extend_from_slice(value);
                chain.extend_from_slice(b", ");
            }
            chain.extend_from_slice(peer);
            fields.set(b"x-forwarded-for", &chain);
        } else {
            fields.push(b"x-forwarded-for", peer);
        }
        if !fields.has(HeaderId::XForwardedProto) {
            fields.push(b"x-forwarded-proto", scheme.as_str().as_bytes());
        }
        if !fields.has(HeaderId::XForwardedHost) && authority.len > 0 {
            fields.push_copy(b"x-forwarded-host", authority);
        }
        if !fields.has(HeaderId::XForwardedPort) {
            fields.push(b"x-forwarded-port", itoa::Buffer::new().format(port).as_bytes());
        }
    }
}

/// CGI-like upstreams read `X_Forwarded_For` as `X-Forwarded-For`; what a client may not say in one spelling it may not say in another.
fn remove_look_alikes(fields: &mut Fields) {
    let bytes = &fields.bytes;
    for field in &mut fields.list {
        let name = field.name.of(bytes);
        if field.id == HeaderId::Other && name.first().is_some_and(|first| first | 0x20 == b'x') && name.contains(&b'_') {
            let mut dashed = [0; 17];
            let Some(dashed) = dashed.get_mut(..name.len()) else { continue };
            dashed.copy_from_slice(name);
            dashed.iter_mut().filter(|byte| **byte == b'_').for_each(|byte| *byte = b'-');
            if HeaderId::of(dashed) != HeaderId::Other {
                field.id = HeaderId::Removed;
            }
        }
    }
}
