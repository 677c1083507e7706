//! WebSockets whose client and whose upstream speak different versions of HTTP. On HTTP/1.1 a connection is switched,
//! by a key that the server has to answer (RFC 6455 section 4); on HTTP/2 a stream is, by an extended CONNECT, and
//! success is the answer (RFC 8441 section 5). What stands on one side is made or verified here for the other.

use super::Forwarding;
use crate::failure::Failure;
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use aws_lc_rs::rand;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tidegate_exchange::{Exchange, gone};
use tidegate_middleware::Refusal;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::Sock;
use tidegate_upstream::connect::Upgrade;
use tidegate_upstream::fault::Progress;
use tidegate_wire::head::{HeaderId, Version};
use tidegate_wire::websocket::{ACCEPT_FIELD, ACCEPT_SUFFIX, KEY_BYTES, KEY_FIELD, PROTOCOL, check_handshake};

/// What a connection or a stream becomes under that protocol.
pub(super) fn kind_of_upgrade(protocol: Option<&[u8]>) -> Upgrade {
    match protocol {
        None => Upgrade::None,
        Some(protocol) if protocol.eq_ignore_ascii_case(PROTOCOL) => Upgrade::WebSocket,
        Some(_) => Upgrade::Other,
    }
}

/// Refuses a handshake that servers could read in different ways, whichever version of HTTP it came over.
#[cold]
pub fn check_upgrade<S: Sock>(exchange: &Exchange<'_, S>) -> Result<(), Refusal> {
    match kind_of_upgrade(exchange.upgrade_protocol()) {
        Upgrade::WebSocket => Ok(check_handshake(&exchange.head.fields)?),
        Upgrade::None | Upgrade::Other => Ok(()),
    }
}

impl<S: Sock> Forwarding<'_, '_, S> {
    /// The key that an upstream of HTTP/1.1 is asked with in the name of a client that has none.
    pub(super) fn make_key(&mut self) {
        let mut random = [0; KEY_BYTES];
        // Without randomness the key is a constant. It proves that the server speaks WebSocket, and keeps no secret.
        let _ = rand::fill(&mut random);
        self.exchange.head.fields.set(KEY_FIELD, BASE64_STANDARD.encode(random).as_bytes());
    }

    /// Tells the client that its tunnel stands, as its version of HTTP has it.
    pub(super) async fn send_switch(&mut self) -> Result<(), Failure> {
        let is_of_http2 = self.exchange.response.version == Version::Http2;
        match (self.exchange.is_extended_connect(), is_of_http2) {
            (false, false) => {
                self.exchange.response.fields.remove_id(HeaderId::TransferEncoding);
            }
            (true, false) => {
                self.verify_accept()?;
                self.become_success();
            }
            (true, true) => self.become_success(),
            (false, true) => self.become_switch(),
        }
        let (exchange, around) = self.parts();
        around.run_response_steps(exchange);
        self.exchange.record.status = self.exchange.response.status;
        self.exchange.responder.send_switch(&self.exchange.response).await.map_err(gone)?;
        Ok(())
    }

    /// RFC 6455 section 4.1: who cannot answer the key has not understood the handshake, and takes what follows for
    /// something else.
    fn verify_accept(&self) -> Result<(), Failure> {
        let (asked, answered) = (&self.exchange.head.fields, &self.exchange.response.fields);
        let key = asked.all_named(KEY_FIELD).next().unwrap_or_default();
        let mut accepts = answered.all_named(ACCEPT_FIELD);
        let is_accepted = accepts.next() == Some(accept_of(key).as_bytes()) && accepts.next().is_none();
        let is_websocket = answered.get(HeaderId::Upgrade).is_some_and(|protocol| protocol.eq_ignore_ascii_case(PROTOCOL));
        if is_accepted && is_websocket {
            return Ok(());
        }
        Err(Failure::upstream(UpstreamError::BadWebSocketAccept, Progress::Answering))
    }

    /// An answer of success on a stream of HTTP/2.
    fn become_success(&mut self) {
        let response = &mut self.exchange.response;
        response.fields.remove(ACCEPT_FIELD);
        response.fields.remove_hop_by_hop();
        response.fields.remove_id(HeaderId::ContentLength);
        if response.status == 101 {
            response.status = 200;
        }
    }

    /// The switch of a connection of HTTP/1.1, whose client's own key is answered.
    fn become_switch(&mut self) {
        let accept = self.exchange.head.fields.all_named(KEY_FIELD).next().map(accept_of);
        let response = &mut self.exchange.response;
        response.fields.remove_id(HeaderId::ContentLength);
        (response.version, response.status) = (Version::Http11, 101);
        response.reason = response.fields.append(&[b"Switching Protocols"]);
        response.fields.push_id(HeaderId::Connection, b"Upgrade");
        response.fields.push_id(HeaderId::Upgrade, PROTOCOL);
        if let Some(accept) = accept {
            response.fields.set(ACCEPT_FIELD, accept.as_bytes());
        }
    }
}

/// What a server answers a key with.
fn accept_of(key: &[u8]) -> String {
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(ACCEPT_SUFFIX);
    BASE64_STANDARD.encode(digest.finish())
}

#[cfg(test)]
mod tests {
    use super::accept_of;

    #[test]
    fn the_key_of_the_rfc_is_answered_as_it_says() {
        assert_eq!(accept_of(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
