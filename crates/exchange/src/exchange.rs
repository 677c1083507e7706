//! An exchange: one request and its answer, whatever the HTTP version, and what is done to it as a whole. Who decides
//! what is answered holds it and writes its fields; nothing here knows why.

use crate::body_reader::BodyReader;
use crate::client_fault::{ClientFault, body_fault};
use crate::date::DateClock;
use crate::forwarded::{TrustedProxies, remove_claims};
use crate::hop_by_hop::HopByHop;
use crate::pooled::Pooled;
use crate::record::Record;
use crate::responder::{BodyLength, Responder};
use std::net::IpAddr;
use std::time::{Instant, SystemTime};
use tidegate_middleware::{BodyAllowance, Limited, OidcOfRequest, Refusal, RequestId};
use tidegate_transport::{Buf, Sock};
use tidegate_wire::BodyFraming;
use tidegate_wire::head::{HeaderId, Method, RequestHead, ResponseHead};

/// The most of an answer made here that goes into one buffer; longer bodies are sent in pieces.
const PIECE_BYTES: usize = tidegate_transport::buffer::CAPACITY;

/// One request and its answer.
pub struct Exchange<'c, S: Sock> {
    pub head: Pooled<RequestHead>,
    pub framing: BodyFraming,
    pub body: BodyReader<'c, S>,
    /// How much more of the body there may be.
    pub body_allowance: Option<BodyAllowance>,
    pub hop: HopByHop,
    pub client_ip: IpAddr,
    /// The peer is a proxy that is trusted to say who its client is.
    pub peer_is_trusted: bool,
    /// A trusted proxy says something that cannot be read of who its client is, so the address above is the proxy's.
    pub client_is_unclear: bool,
    pub response: Pooled<ResponseHead>,
    pub responder: Responder<'c, S>,
    /// What steps that count requests leave behind. The places that the request holds are given back with it.
    pub limited: Option<Pooled<Limited>>,
    /// On a site with log-ins: the cookies that the client has of them, and those that it gets. Boxed: most have none.
    pub oidc: Option<Box<OidcOfRequest>>,
    pub record: Record,
}

/// A request as it arrived.
pub struct Arrived<'c, S: Sock> {
    pub head: Pooled<RequestHead>,
    pub framing: BodyFraming,
    pub body: BodyReader<'c, S>,
    pub responder: Responder<'c, S>,
    /// When the head began to arrive.
    pub started: Instant,
}

/// Who sent a request, as far as that is believed.
struct Sender {
    client_ip: IpAddr,
    peer_is_trusted: bool,
    is_unclear: bool,
}

impl<'c, S: Sock> Exchange<'c, S> {
    /// A client's request. `peer` is who sent it, `trusted` who is believed to say for whom.
    #[inline(always)]
    pub fn receive(mut arrived: Arrived<'c, S>, peer: IpAddr, trusted: &TrustedProxies, id: RequestId) -> Exchange<'c, S> {
        // Before any step: what a client names in `Connection` are its own fields, never those that a step sets.
        arrived.body.drop_named_by_connection(&arrived.head.fields);
        let hop = HopByHop::take(&mut arrived.head);
        let peer_is_trusted = trusted.contain(&peer);
        let fields = &mut arrived.head.fields;
        let found = if peer_is_trusted { trusted.client_of(fields) } else { Ok(None) };
        if !peer_is_trusted {
            remove_claims(fields);
        }
        let sender = Sender { client_ip: found.ok().flatten().unwrap_or(peer), peer_is_trusted, is_unclear: found.is_err() };
        Exchange::new(arrived, hop, sender, id)
    }

    /// A request that no client waits for, with the head of one as its steps have left it.
    pub fn in_background(head: RequestHead, client_ip: IpAddr, started: Instant, id: RequestId) -> Exchange<'c, S> {
        let mut pooled: Pooled<RequestHead> = Pooled::take();
        *pooled = head;
        let (body, responder) = (BodyReader::Empty, Responder::Nobody);
        let arrived = Arrived { head: pooled, framing: BodyFraming::None, body, responder, started };
        let sender = Sender { client_ip, peer_is_trusted: false, is_unclear: false };
        Exchange::new(arrived, HopByHop::default(), sender, id)
    }

    #[inline(always)]
    fn new(arrived: Arrived<'c, S>, hop: HopByHop, sender: Sender, id: RequestId) -> Exchange<'c, S> {
        let Sender { client_ip, peer_is_trusted, is_unclear } = sender;
        let Arrived { head, framing, body, responder, started } = arrived;
        let record = Record::new(started, id, head.path, head.query);
        Exchange {
            head,
            framing,
            body,
            body_allowance: None,
            hop,
            client_ip,
            peer_is_trusted,
            client_is_unclear: is_unclear,
            response: Pooled::take(),
            responder,
            limited: None,
            oidc: None,
            record,
        }
    }

    /// The protocol that the client asks to switch to, on its connection or on its stream.
    pub fn upgrade_protocol(&self) -> Option<&[u8]> {
        self.hop.upgrade.map(|span| span.of(&self.head.fields.bytes))
    }

    /// The request is an extended CONNECT (RFC 8441): an answer of success says that the stream is a tunnel.
    pub fn is_extended_connect(&self) -> bool {
        self.hop.upgrade.is_some() && matches!(self.responder, Responder::H2(_))
    }

    /// A call of gRPC, whose client reads how it ended in fields of gRPC. Over HTTP/1.1 nobody speaks it.
    pub fn is_grpc_call(&self) -> bool {
        matches!(self.responder, Responder::H2(_)) && self.hop.upgrade.is_none() && self.head.fields.is_grpc()
    }

    /// Nobody waits for the answer but the cache.
    pub fn is_in_background(&self) -> bool {
        matches!(self.responder, Responder::Nobody)
    }

    /// A piece of the request's body was taken.
    pub fn count_body(&mut self, bytes: usize) -> Result<(), ClientFault> {
        self.record.request_bytes += bytes as u64;
        match &mut self.body_allowance {
            Some(allowance) => allowance.take(bytes as u64).map_err(|_| ClientFault::Refused(Refusal::BodyTooLarge)),
            None => Ok(()),
        }
    }

    /// A piece of the request's body that is there already.
    pub fn take_at_hand(&mut self) -> Result<Option<Buf>, ClientFault> {
        let piece = self.body.at_hand().map_err(body_fault)?;
        if let Some(piece) = &piece {
            self.count_body(piece.len())?;
        }
        Ok(piece)
    }

    /// What every answer has: a date (RFC 9110 section 6.6.1).
    #[inline]
    pub fn complete_response(&mut self, date: &DateClock) {
        if !self.response.fields.has(HeaderId::Date) {
            self.response.fields.push_id(HeaderId::Date, &date.text(SystemTime::now()));
        }
    }

    pub fn push_content_length(&mut self, bytes: u64) {
        self.response.fields.push_id(HeaderId::ContentLength, itoa::Buffer::new().format(bytes).as_bytes());
    }

    /// A request body that nobody wants ends the connection, unless all of it is there already.
    pub fn consume_small_body(&mut self, is_draining: bool) {
        while let Ok(Some(piece)) = self.body.at_hand() {
            self.record.request_bytes += piece.len() as u64;
        }
        if !self.body.is_finished() || is_draining {
            self.responder.close_after();
        }
    }

    /// Sends the response head, which is complete, with a body that is all there.
    ///
    /// Not an `async fn`, which would have room for what it is given twice.
    pub fn send_whole(
        &mut self,
        body: &[u8],
        date: &DateClock,
        is_draining: bool,
    ) -> impl Future<Output = Result<(), ClientFault>> {
        let bodiless = matches!(self.response.status, 100..=199 | 204 | 304);
        if !bodiless && !self.response.fields.has(HeaderId::ContentLength) {
            self.push_content_length(body.len() as u64);
        }
        self.complete_response(date);
        self.consume_small_body(is_draining);
        let without_body = bodiless || self.head.method == Method::Head || body.is_empty();
        let mut pieces = if without_body { [].chunks(PIECE_BYTES) } else { body.chunks(PIECE_BYTES) };
        let length = if without_body { BodyLength::None } else { BodyLength::Known };
        let gone = |_| ClientFault::Gone;
        async move {
            let first = pieces.next().map(Buf::copy_of);
            self.responder.send_head(&mut self.response, length, first, pieces.len() == 0).await.map_err(gone)?;
            while let Some(piece) = pieces.next() {
                self.responder.send_body(Buf::copy_of(piece), pieces.len() == 0).await.map_err(gone)?;
            }
            Ok(())
        }
    }

    /// Sends the head of an answer that has no body, or none that is sent.
    pub async fn send_without_body(&mut self, length: BodyLength) -> Result<(), ClientFault> {
        self.responder.send_head(&mut self.response, length, None, true).await.map_err(|_| ClientFault::Gone)
    }
}
