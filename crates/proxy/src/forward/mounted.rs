//! What a route says of where something is in answers (`rewrite-location` and kin: `middleware::answer_rewrite`), and
//! `rewrite-location=#true`: an application beneath a prefix is told of it, and what its answers say of where something
//! is becomes what the client sees. How that is translated is decided in `middleware::mount`.

use super::Forwarding;
use crate::mounted::mount_of;
use crate::surroundings::context;
use tidegate_exchange::Exchange;
use tidegate_middleware::context::View;
use tidegate_middleware::{Answerer, CompiledStep};
use tidegate_transport::Sock;
use tidegate_upstream::verdict::Attempt;
use tidegate_wire::head::{Fields, HeaderId};

const FORWARDED_PREFIX: &[u8] = b"x-forwarded-prefix";

impl<S: Sock> Forwarding<'_, '_, S> {
    /// Whether the pool that the request goes to has its answers translated.
    #[inline]
    pub(super) fn rewrites_location(&self) -> bool {
        self.route.translation.by_mount
            && self.route.terminal.upstream(self.exchange.record.arm).is_some_and(|upstream| upstream.rewrites_location)
    }

    fn steps(&self) -> &[CompiledStep] {
        self.route.steps_of(self.exchange.record.arm)
    }

    /// Says which prefix was taken off, behind that of a trusted proxy. What a step has set stays.
    #[cold]
    pub(super) fn tell_prefix(&mut self) {
        let seen = mount_of(self.exchange, self.steps()).seen;
        let fields = &mut self.exchange.head.fields;
        let said: Vec<&[u8]> = fields.all_named(FORWARDED_PREFIX).collect();
        // That of a client that is not trusted is gone since its head was received.
        if seen.is_empty() || (!said.is_empty() && !self.exchange.peer_is_trusted) {
            return;
        }
        let prefix = match said[..] {
            [] => seen,
            [outer @ [b'/', ..]] if !outer.contains(&b',') => [outer.strip_suffix(b"/").unwrap_or(outer), &seen].concat(),
            // Several prefixes, the outermost first.
            _ => [&said.join(&b", "[..])[..], b", ", &seen].concat(),
        };
        fields.set(FORWARDED_PREFIX, &prefix);
    }

    /// The head of the answer has come.
    #[cold]
    pub(super) fn translate_answer(&mut self, attempt: &Attempt<S>) {
        if !says_where(&self.exchange.response.fields) {
            return;
        }
        if let Some(rules) = &self.route.translation.rules {
            let pool = self.way.pool.as_deref();
            let Exchange { head, response, record, client_ip, hop, .. } = &mut *self.exchange;
            let context = context(self.connection, pool, record, *client_ip, hop.upgrade);
            rules.apply(View { context: &context, request: head, response: None }, &mut response.fields);
        }
        if !self.rewrites_location() {
            return;
        }
        let mount = mount_of(self.exchange, self.steps());
        let servers: Vec<&str> = attempt.pool().compiled.servers.iter().map(|server| &*server.authority).collect();
        let Exchange { head, response, .. } = &mut *self.exchange;
        Answerer { mount: &mount, request: head, servers: &servers }.translate(&mut response.fields);
    }
}

/// Whether any field is there that may have to be translated.
fn says_where(fields: &Fields) -> bool {
    let is_there = |name: &'static [u8]| fields.all_named(name).next().is_some();
    fields.has(HeaderId::Location) || fields.has(HeaderId::SetCookie) || is_there(b"content-location") || is_there(b"refresh")
}
