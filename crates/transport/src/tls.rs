//! One TLS session driven through rustls' unbuffered interface: ciphertext in, plaintext and ciphertext out, no
//! sockets. It owns no record layer of its own: key updates, alerts and AEAD limits stay with rustls.

use crate::buffer::Buf;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, ReadEarlyData, UnbufferedConnectionCommon, UnbufferedStatus};
use rustls::{ClientConfig, HandshakeKind, ProtocolVersion, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName};
use std::sync::Arc;

pub enum TlsSession {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
    /// A session that has failed, and said all that it had to say. rustls must not be asked again after an error: it
    /// would judge the same input a second time, send a second alert, and in a debug build it panics over that.
    Failed(rustls::Error),
}

/// What a piece of ciphertext led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Ciphertext bytes that are done with; the rest is an unfinished record.
    pub consumed: usize,
    /// The peer said that it will send no more (close_notify).
    pub closed: bool,
}

impl TlsSession {
    pub fn server(config: &Arc<ServerConfig>) -> Result<TlsSession, rustls::Error> {
        Ok(TlsSession::Server(Box::new(UnbufferedServerConnection::new(config.clone())?)))
    }

    pub fn client(config: &Arc<ClientConfig>, name: ServerName<'static>) -> Result<TlsSession, rustls::Error> {
        Ok(TlsSession::Client(Box::new(UnbufferedClientConnection::new(config.clone(), name)?)))
    }

    /// Decrypts `incoming`; appends plaintext to `plain` and what must be sent (handshake, alerts, key updates) to
    /// `out`. Plaintext that comes while the handshake goes on is a client's early data (RFC 8446 section 2.3).
    ///
    /// On an error `out` holds the alert that tells the peer why, and the session is over.
    pub fn receive(&mut self, incoming: &mut [u8], plain: &mut Buf, out: &mut Buf) -> Result<Received, rustls::Error> {
        let outcome = match self {
            TlsSession::Server(session) => {
                let process = UnbufferedConnectionCommon::<ServerConnectionData>::process_tls_records;
                receive(session, process, take_early_data, incoming, plain, out)
            }
            TlsSession::Client(session) => {
                let process = UnbufferedConnectionCommon::<ClientConnectionData>::process_tls_records;
                let none_comes = |_: ReadEarlyData<'_, '_, ClientConnectionData>, _: &mut Buf| {
                    Err(rustls::Error::General("early data of a server".into()))
                };
                receive(session, process, none_comes, incoming, plain, out)
            }
            TlsSession::Failed(error) => Err(error.clone()),
        };
        self.give_up_on_error(outcome)
    }

    /// Encrypts `plain` behind what is in `out`. `unfinished` is what [`receive`](Self::receive) has left over.
    pub fn send(&mut self, plain: &[u8], unfinished: &mut [u8], out: &mut Buf) -> Result<(), rustls::Error> {
        self.send_outgoing(Outgoing::Data(plain), unfinished, out)
    }

    /// Appends the close_notify alert, which tells an ended message from a cut one.
    pub fn close(&mut self, unfinished: &mut [u8], out: &mut Buf) -> Result<(), rustls::Error> {
        self.send_outgoing(Outgoing::Close, unfinished, out)
    }

    fn send_outgoing(&mut self, outgoing: Outgoing<'_>, unfinished: &mut [u8], out: &mut Buf) -> Result<(), rustls::Error> {
        let outcome = match self {
            TlsSession::Server(session) => {
                let process = UnbufferedConnectionCommon::<ServerConnectionData>::process_tls_records;
                send(session, process, outgoing, unfinished, out)
            }
            TlsSession::Client(session) => {
                let process = UnbufferedConnectionCommon::<ClientConnectionData>::process_tls_records;
                send(session, process, outgoing, unfinished, out)
            }
            TlsSession::Failed(error) => Err(error.clone()),
        };
        self.give_up_on_error(outcome)
    }

    #[inline]
    fn give_up_on_error<T>(&mut self, outcome: Result<T, rustls::Error>) -> Result<T, rustls::Error> {
        if let Err(error) = &outcome {
            *self = TlsSession::Failed(error.clone());
        }
        outcome
    }

    pub fn has_failed(&self) -> bool {
        matches!(self, TlsSession::Failed(_))
    }

    /// Also `false` of a session that has failed.
    pub fn is_handshaking(&self) -> bool {
        match self {
            TlsSession::Server(session) => session.is_handshaking(),
            TlsSession::Client(session) => session.is_handshaking(),
            TlsSession::Failed(_) => false,
        }
    }

    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            TlsSession::Server(session) => session.alpn_protocol(),
            TlsSession::Client(session) => session.alpn_protocol(),
            TlsSession::Failed(_) => None,
        }
    }

    /// The chain that the peer has shown; of a client that was not asked, or showed none, it is empty. A resumed
    /// session has that of its first handshake.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        let shown = match self {
            TlsSession::Server(session) => session.peer_certificates(),
            TlsSession::Client(session) => session.peer_certificates(),
            TlsSession::Failed(_) => None,
        };
        shown.unwrap_or_default()
    }

    pub fn is_tls13(&self) -> bool {
        let version = match self {
            TlsSession::Server(session) => session.protocol_version(),
            TlsSession::Client(session) => session.protocol_version(),
            TlsSession::Failed(_) => None,
        };
        version == Some(ProtocolVersion::TLSv1_3)
    }

    pub fn is_resumed(&self) -> bool {
        let kind = match self {
            TlsSession::Server(session) => session.handshake_kind(),
            TlsSession::Client(session) => session.handshake_kind(),
            TlsSession::Failed(_) => None,
        };
        kind == Some(HandshakeKind::Resumed)
    }

    /// IANA name of the negotiated cipher suite; `None` before the handshake.
    pub fn cipher_suite(&self) -> Option<&'static str> {
        let suite = match self {
            TlsSession::Server(session) => session.negotiated_cipher_suite(),
            TlsSession::Client(session) => session.negotiated_cipher_suite(),
            TlsSession::Failed(_) => None,
        };
        suite.and_then(|suite| suite.suite().as_str()).map(iana_name)
    }
}

/// rustls puts a `13` into the names of TLS 1.3 suites that the registry does not have.
fn iana_name(name: &'static str) -> &'static str {
    match name {
        "TLS13_AES_128_GCM_SHA256" => "TLS_AES_128_GCM_SHA256",
        "TLS13_AES_256_GCM_SHA384" => "TLS_AES_256_GCM_SHA384",
        "TLS13_CHACHA20_POLY1305_SHA256" => "TLS_CHACHA20_POLY1305_SHA256",
        other => other,
    }
}

/// `process_tls_records` exists once for clients and once for servers; this is its common shape.
fn receive<Data>(
    session: &mut UnbufferedConnectionCommon<Data>,
    process: impl for<'c, 'i> Fn(&'c mut UnbufferedConnectionCommon<Data>, &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Data>,
    take_early: impl Fn(ReadEarlyData<'_, '_, Data>, &mut Buf) -> Result<usize, rustls::Error>,
    incoming: &mut [u8],
    plain: &mut Buf,
    out: &mut Buf,
) -> Result<Received, rustls::Error> {
    let mut consumed = 0;
    loop {
        let UnbufferedStatus { mut discard, state } = process(session, &mut incoming[consumed..]);
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                hand_out_alert(session, process, &mut incoming[consumed + discard..], out);
                return Err(error);
            }
        };
        match state {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    plain.extend(record.payload);
                }
                if consumed + discard == incoming.len() {
                    // All input is used up. What rustls may want to send besides goes out with the next data.
                    return Ok(Received { consumed: consumed + discard, closed: false });
                }
            }
            ConnectionState::EncodeTlsData(mut encode) => {
                let written = match encode.encode(out.spare()) {
                    Ok(written) => written,
                    Err(EncodeError::InsufficientSize(_)) => {
                        return Err(rustls::Error::General("a handshake flight larger than the buffer".into()));
                    }
                    Err(EncodeError::AlreadyEncoded) => 0,
                };
                out.grow(written);
            }
            ConnectionState::TransmitTlsData(transmit) => transmit.done(),
            ConnectionState::PeerClosed | ConnectionState::Closed => {
                return Ok(Received { consumed: consumed + discard, closed: true });
            }
            ConnectionState::BlockedHandshake => return Ok(Received { consumed: consumed + discard, closed: false }),
            ConnectionState::WriteTraffic(_) => {
                consumed += discard;
                if discard == 0 || consumed == incoming.len() {
                    return Ok(Received { consumed, closed: false });
                }
                continue;
            }
            ConnectionState::ReadEarlyData(early) => discard += take_early(early, plain)?,
            _ => return Err(rustls::Error::General("a session state that this version does not know".into())),
        }
        consumed += discard;
    }
}

/// Appends what has come; the bytes of input that are done with besides. How much may come in all is bounded by the
/// configuration.
fn take_early_data(mut early: ReadEarlyData<'_, '_, ServerConnectionData>, plain: &mut Buf) -> Result<usize, rustls::Error> {
    let mut discard = 0;
    while let Some(record) = early.next_record() {
        let record = record?;
        discard += record.discard;
        plain.extend(record.payload);
    }
    Ok(discard)
}

/// What rustls has queued for the peer before it failed, the alert last. It hands that out before it looks at input
/// again, so it is asked for as long as there is some, and not once more. What it is shown of the input is not read.
fn hand_out_alert<Data>(
    session: &mut UnbufferedConnectionCommon<Data>,
    process: impl for<'c, 'i> Fn(&'c mut UnbufferedConnectionCommon<Data>, &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Data>,
    incoming: &mut [u8],
    out: &mut Buf,
) {
    while session.wants_write() {
        match process(session, incoming).state {
            Ok(ConnectionState::EncodeTlsData(mut encode)) => match encode.encode(out.spare()) {
                Ok(written) => out.grow(written),
                Err(_) => return,
            },
            Ok(_) | Err(_) => return,
        }
    }
}

#[derive(Clone, Copy)]
enum Outgoing<'a> {
    Data(&'a [u8]),
    Close,
}

/// rustls is shown the unfinished input again, for it remembers places in it: without, a client that sends half of a
/// handshake message and has us answer would make it look behind the end.
fn send<Data>(
    session: &mut UnbufferedConnectionCommon<Data>,
    process: impl for<'c, 'i> Fn(&'c mut UnbufferedConnectionCommon<Data>, &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Data>,
    outgoing: Outgoing<'_>,
    unfinished: &mut [u8],
    out: &mut Buf,
) -> Result<(), rustls::Error> {
    loop {
        let UnbufferedStatus { state, .. } = process(session, unfinished);
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                hand_out_alert(session, process, unfinished, out);
                return Err(error);
            }
        };
        match state {
            ConnectionState::WriteTraffic(mut traffic) => {
                let written = match outgoing {
                    Outgoing::Data(plain) => traffic.encrypt(plain, out.spare()),
                    Outgoing::Close => traffic.queue_close_notify(out.spare()),
                };
                let written = written.map_err(|error| rustls::Error::General(error.to_string()))?;
                out.grow(written);
                return Ok(());
            }
            ConnectionState::EncodeTlsData(mut encode) => {
                let written = encode.encode(out.spare()).map_err(|error| rustls::Error::General(error.to_string()))?;
                out.grow(written);
            }
            ConnectionState::TransmitTlsData(transmit) => transmit.done(),
            // The peer will send no more; we still may.
            ConnectionState::PeerClosed => {}
            _ => return Err(rustls::Error::General("the session cannot send now".into())),
        }
    }
}
