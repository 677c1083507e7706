//! Streams over sockets made of memory that hand out any number of bytes at a time: TLS both ways, ends, and input that
//! never becomes a message.

use crate::buffer::Buf;
use crate::sock::{FilePart, ReadLimit, Sock};
use crate::stream::{Gone, Stream};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::cipher::OutboundPlainMessage;
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, ExtractedSecrets, ProtocolVersion, RootCertStore,
    ServerConfig, SupportedCipherSuite,
};
use rustls_pki_types::ServerName;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

#[derive(Default)]
struct Way {
    bytes: RefCell<VecDeque<u8>>,
    ended: Cell<bool>,
}

/// One end of a connection in memory. `piece` is the most that one receive hands out.
struct Pipe {
    inbound: Rc<Way>,
    outbound: Rc<Way>,
    piece: usize,
}

fn pair(piece: usize) -> (Stream<Pipe>, Stream<Pipe>) {
    let (a, b) = (Rc::<Way>::default(), Rc::<Way>::default());
    let stream = |inbound: &Rc<Way>, outbound: &Rc<Way>| {
        Stream::plain(Pipe { inbound: inbound.clone(), outbound: outbound.clone(), piece })
    };
    (stream(&a, &b), stream(&b, &a))
}

impl Sock for Pipe {
    fn poll_recv(&self, _: &mut Context<'_>) -> Poll<io::Result<Buf>> {
        let mut bytes = self.inbound.bytes.borrow_mut();
        if bytes.is_empty() {
            return if self.inbound.ended.get() { Poll::Ready(Ok(Buf::empty())) } else { Poll::Pending };
        }
        let count = bytes.len().min(self.piece).min(crate::buffer::CAPACITY);
        Poll::Ready(Ok(Buf::copy_of(&bytes.drain(..count).collect::<Vec<_>>())))
    }

    fn poll_send(&self, _: &mut Context<'_>, pending: &mut Option<Buf>) -> Poll<io::Result<()>> {
        if let Some(buf) = pending.take() {
            self.outbound.bytes.borrow_mut().extend(buf.iter());
        }
        Poll::Ready(Ok(()))
    }

    fn poll_send_file(&self, cx: &mut Context<'_>, before: &mut Option<Buf>, part: FilePart<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(cx, before))?;
        let mut piece = vec![0; part.length.min(self.piece)];
        let count = part.file.read_at(&mut piece, part.offset)?;
        self.outbound.bytes.borrow_mut().extend(&piece[..count]);
        Poll::Ready(Ok(count))
    }

    async fn connect(_: SocketAddr) -> io::Result<Pipe> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn connect_unix(_: &std::path::Path) -> io::Result<Pipe> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn stale(&self) -> bool {
        false
    }

    fn stale_now(&self) -> bool {
        false
    }

    fn is_reset_now(&self) -> bool {
        false
    }

    fn shutdown(&self) {
        self.outbound.ended.set(true);
    }

    fn reset_when_closed(&self) {}

    fn set_read_limit(&self, _: ReadLimit) {}

    fn set_write_idle(&self, _: Duration) {}

    fn set_between_requests(&self, _: bool) {}

    fn end_idle_by(&self, _at: std::time::Instant) {}

    fn poll_patience(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn local_ip(&self) -> Option<IpAddr> {
        None
    }
}

/// Polls both in turn until both are done.
fn together<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_done, mut b_done) = (None, None);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..10_000_000 {
        if a_done.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(&mut cx)
        {
            a_done = Some(output);
        }
        if b_done.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(&mut cx)
        {
            b_done = Some(output);
        }
        if a_done.is_some() && b_done.is_some() {
            break;
        }
    }
    (a_done.expect("the first ends"), b_done.expect("the second ends"))
}

fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = key.cert.der().clone();
    let private = rustls_pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).expect("a key");
    let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions");
    let mut server = server.with_no_client_auth().with_single_cert(vec![certificate.clone()], private).expect("a configuration");
    server.alpn_protocols = vec![b"h2".to_vec()];
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a root");
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions");
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec()];
    (Arc::new(server), Arc::new(client))
}

/// Settings of both sides with early data, up to so many bytes of it.
fn early_configs(bytes_max: u32) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let (server, client) = configs();
    let (mut server, mut client) = (Arc::unwrap_or_clone(server), Arc::unwrap_or_clone(client));
    (server.max_early_data_size, server.send_half_rtt_data) = (bytes_max, true);
    client.enable_early_data = true;
    (Arc::new(server), Arc::new(client))
}

/// A client of rustls' usual interface, whose bytes are carried by hand.
fn by_hand(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(config.clone(), ServerName::try_from("localhost").expect("a name")).expect("a session")
}

fn carry_up(session: &mut ClientConnection, client: &Stream<Pipe>) {
    let mut bytes = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut bytes).expect("written");
    }
    client.sock.outbound.bytes.borrow_mut().extend(bytes);
}

fn carry_down(session: &mut ClientConnection, client: &Stream<Pipe>) -> Result<Vec<u8>, rustls::Error> {
    let bytes: Vec<u8> = client.sock.inbound.bytes.borrow_mut().drain(..).collect();
    let mut rest = &bytes[..];
    let mut plain = Vec::new();
    while !rest.is_empty() {
        session.read_tls(&mut rest).expect("read");
        session.process_new_packets()?;
        // Until there is no more for now.
        let _ = session.reader().read_to_end(&mut plain);
    }
    Ok(plain)
}

/// What comes of a future that needs nothing from outside.
fn now<T>(future: impl Future<Output = T>) -> T {
    together(future, async {}).0
}

/// The server's side of a connection up to where plaintext may come.
fn begin_serving(server: &Stream<Pipe>, config: &Arc<ServerConfig>) -> io::Result<crate::TlsFacts> {
    now(async {
        let first = server.read().await?;
        server.begin_tls_server(config, &first)?;
        server.handshake().await
    })
}

/// A whole connection, so that the client has tickets.
fn acquaint(server_config: &Arc<ServerConfig>, client_config: &Arc<ClientConfig>) {
    let (server, client) = pair(usize::MAX);
    let mut session = by_hand(client_config);
    let serve = async {
        let first = server.read().await.expect("a hello");
        server.begin_tls_server(server_config, &first).expect("a session");
        server.handshake().await.expect("a handshake");
        server.flush().await.expect("sent");
    };
    let ask = async {
        while session.is_handshaking() {
            carry_up(&mut session, &client);
            tokio::task::yield_now().await;
            carry_down(&mut session, &client).expect("a handshake");
        }
        carry_up(&mut session, &client);
    };
    together(serve, ask);
    carry_down(&mut session, &client).expect("tickets");
}

#[test]
fn early_data_is_read_and_answered_before_the_handshake_is_over() {
    let (server_config, client_config) = early_configs(100);
    acquaint(&server_config, &client_config);
    let (server, client) = pair(usize::MAX);
    let mut session = by_hand(&client_config);
    session.early_data().expect("a ticket").write_all(b"GET /").expect("within the bound");
    carry_up(&mut session, &client);
    let facts = begin_serving(&server, &server_config).expect("it begins");
    assert!(facts.resumed && facts.h2 && server.is_early());
    assert_eq!(&*now(server.read()).expect("early data"), b"GET /");
    let mut cx = Context::from_waker(Waker::noop());
    assert!(server.poll_handshake_over(&mut cx).is_pending());
    // The answer does not wait for the client's Finished, and neither does its end.
    now(server.write(Buf::copy_of(b"200 OK"))).expect("answered");
    assert!(server.is_early());
    now(server.close());
    assert_eq!(carry_down(&mut session, &client).expect("an answer"), b"200 OK");
    assert!(session.process_new_packets().is_ok_and(|state| state.peer_has_closed()), "the end is said");
    session.writer().write_all(b"GET /next").expect("written");
    carry_up(&mut session, &client);
    assert_eq!(&*now(server.read()).expect("the rest"), b"GET /next");
    assert!(!server.is_early() && server.poll_handshake_over(&mut cx).is_ready());
}

#[test]
fn who_waits_for_the_end_of_the_handshake_keeps_what_comes_with_it() {
    for piece in [1, usize::MAX] {
        let (server_config, client_config) = early_configs(100);
        acquaint(&server_config, &client_config);
        let (server, client) = pair(piece);
        let mut session = by_hand(&client_config);
        session.early_data().expect("a ticket").write_all(b"POST /").expect("within the bound");
        carry_up(&mut session, &client);
        let waited = async {
            let first = server.read().await?;
            server.begin_tls_server(&server_config, &first)?;
            server.handshake().await?;
            assert!(server.is_early());
            server.finish_handshake().await?;
            io::Result::Ok(server.read().await?.to_vec())
        };
        let finish = async {
            while session.is_handshaking() {
                carry_down(&mut session, &client).expect("a handshake");
                carry_up(&mut session, &client);
                tokio::task::yield_now().await;
            }
        };
        let (read, ()) = together(waited, finish);
        assert!(b"POST /".starts_with(&read.expect("read")) && !server.is_early());
    }
}

#[test]
fn a_client_that_sends_more_early_data_than_it_may_is_cut_off() {
    let (server_config, client_config) = early_configs(100);
    acquaint(&server_config, &client_config);
    let mut smaller = ServerConfig::clone(&server_config);
    smaller.max_early_data_size = 10;
    let smaller = Arc::new(smaller);
    let (server, client) = pair(usize::MAX);
    let mut session = by_hand(&client_config);
    session.early_data().expect("a ticket").write_all(&[b'x'; 50]).expect("within what it was told");
    carry_up(&mut session, &client);
    let refused = begin_serving(&server, &smaller).expect_err("too much");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    assert!(!server.is_early());
}

#[test]
fn a_ticket_brings_early_data_once() {
    let (server_config, client_config) = early_configs(100);
    acquaint(&server_config, &client_config);
    let (first, client) = pair(usize::MAX);
    let mut session = by_hand(&client_config);
    session.early_data().expect("a ticket").write_all(b"GET /").expect("within the bound");
    carry_up(&mut session, &client);
    let flight: Vec<u8> = client.sock.outbound.bytes.borrow().iter().copied().collect();
    begin_serving(&first, &server_config).expect("it begins");
    assert_eq!(&*now(first.read()).expect("early data"), b"GET /");
    // Somebody has recorded it, and sends it again.
    let (second, attacker) = pair(usize::MAX);
    attacker.sock.outbound.bytes.borrow_mut().extend(flight);
    attacker.sock.shutdown();
    assert!(begin_serving(&second, &server_config).is_err());
    assert!(!second.is_early() && !second.has_unread());
}

#[test]
fn a_handshake_message_in_halves_does_not_disturb_what_is_sent_between() {
    let (server_config, client_config) = configs();
    let mut client_config = Arc::unwrap_or_clone(client_config);
    client_config.enable_secret_extraction = true;
    let client_config = Arc::new(client_config);
    let (server, client) = pair(usize::MAX);
    let mut session = by_hand(&client_config);
    carry_up(&mut session, &client);
    let serve = async {
        let first = server.read().await.expect("a hello");
        server.begin_tls_server(&server_config, &first).expect("a session");
        server.handshake().await.expect("a handshake");
        server.flush().await.expect("sent");
    };
    let finish = async {
        while session.is_handshaking() {
            carry_down(&mut session, &client).expect("a handshake");
            carry_up(&mut session, &client);
            tokio::task::yield_now().await;
        }
    };
    together(serve, finish);
    carry_down(&mut session, &client).expect("tickets");
    // The first half of a KeyUpdate (RFC 8446 section 4.6.3), which no library sends in halves.
    let mut record = sealer(session);
    client.sock.outbound.bytes.borrow_mut().extend(record(&[24, 0, 0], 0));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(server.poll_read(&mut cx).is_pending());
    now(server.write(Buf::copy_of(b"an answer"))).expect("sent");
    client.sock.outbound.bytes.borrow_mut().extend(record(&[1, 0], 1));
    assert!(server.poll_read(&mut cx).is_pending(), "it is whole, and right");
    now(server.write(Buf::copy_of(b"another"))).expect("sent");
    assert!(server.is_clean());
}

/// Makes handshake records of a client's session, whatever is in them.
fn sealer(session: ClientConnection) -> impl FnMut(&[u8], u64) -> Vec<u8> {
    let Some(SupportedCipherSuite::Tls13(suite)) = session.negotiated_cipher_suite() else { panic!("TLS 1.3") };
    let ExtractedSecrets { tx: (begin, secrets), .. } = session.dangerous_extract_secrets().expect("secrets");
    let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = secrets else { panic!("AES-256-GCM") };
    let mut encrypter = suite.aead_alg.encrypter(key, iv);
    move |payload, number| {
        let message =
            OutboundPlainMessage { typ: ContentType::Handshake, version: ProtocolVersion::TLSv1_2, payload: payload.into() };
        encrypter.encrypt(message, begin + number).expect("sealed").encode()
    }
}

async fn read_all(stream: &Stream<Pipe>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let data = stream.read().await?;
        if data.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&data);
    }
}

#[test]
fn tls_carries_any_bytes_both_ways_however_they_are_cut() {
    let (server_config, client_config) = configs();
    let sent: Vec<u8> = (0..150_000_u32).map(|number| (number * 31 % 251) as u8).collect();
    for piece in [1, 5, 1000, 16_405, usize::MAX] {
        let (server, client) = pair(piece);
        let serve = async {
            // The ClientHello was read before the configuration was chosen.
            let first = server.read().await?;
            server.begin_tls_server(&server_config, &first)?;
            let facts = server.handshake().await?;
            let received = read_all(&server).await?;
            for piece in received.chunks(60_000) {
                server.write(Buf::copy_of(piece)).await?;
            }
            server.close().await;
            io::Result::Ok(facts)
        };
        let ask = async {
            client.begin_tls_client(&client_config, ServerName::try_from("localhost").expect("a name"))?;
            let facts = client.handshake().await?;
            for piece in sent.chunks(40_000) {
                client.write(Buf::copy_of(piece)).await?;
            }
            client.close().await;
            io::Result::Ok((facts, read_all(&client).await?))
        };
        let (served, asked) = together(serve, ask);
        let (facts, received) = asked.expect("the client is answered");
        assert!(received == sent, "{piece} bytes at a time");
        // The second connection and those after it resume the first.
        for facts in [served.expect("the server serves"), facts] {
            assert!(
                facts.h2
                    && facts.resumed == (piece > 1)
                    && facts.version == "1.3"
                    && facts.cipher_suite == "TLS_AES_256_GCM_SHA384",
                "{facts:?}"
            );
        }
    }
}

#[test]
fn a_handshake_with_somebody_who_is_not_trusted_ends_with_an_alert_for_them() {
    let (server_config, _) = configs();
    let (_, stranger_config) = configs();
    let (server, client) = pair(usize::MAX);
    let serve = async {
        let first = server.read().await?;
        server.begin_tls_server(&server_config, &first)?;
        server.handshake().await
    };
    let ask = async {
        client.begin_tls_client(&stranger_config, ServerName::try_from("localhost").expect("a name"))?;
        let outcome = client.handshake().await;
        client.flush().await?;
        outcome
    };
    let (served, asked) = together(serve, ask);
    let kind = |outcome: io::Result<_>| outcome.map(|_: crate::TlsFacts| ()).map_err(|error| error.kind());
    assert_eq!(kind(asked), Err(io::ErrorKind::InvalidData));
    let refused = served.expect_err("the client has refused").into_inner().expect("a cause");
    assert!(matches!(refused.downcast_ref(), Some(rustls::Error::AlertReceived(_))), "{refused}");
}

#[test]
fn a_message_that_never_ends_is_an_error_and_not_memory() {
    let (server_config, _) = configs();
    let (server, client) = pair(usize::MAX);
    // A handshake message that announces 16 MiB, in records of one byte, without an end.
    let mut record = vec![22, 3, 3, 0, 1];
    client.sock.outbound.bytes.borrow_mut().extend([22, 3, 3, 0, 4, 1, 0xff, 0xff, 0xff]);
    record.push(0);
    for _ in 0..30_000 {
        client.sock.outbound.bytes.borrow_mut().extend(&record);
    }
    let serve = async {
        let first = server.read().await?;
        server.begin_tls_server(&server_config, &first)?;
        server.handshake().await
    };
    let (served, ()) = together(serve, async {});
    assert_eq!(served.map(|_| ()).map_err(|error| error.kind()), Err(io::ErrorKind::InvalidData));
}

#[test]
fn bytes_given_back_come_first_and_needed_ones_together_with_more() {
    let (a, b) = pair(3);
    let talk = async {
        a.write(Buf::copy_of(b"abcdefgh")).await.expect("written");
        let first = b.read().await.expect("read");
        assert_eq!(&*first, b"abc");
        b.unread(first);
        assert!(b.has_unread() && !b.is_clean());
        b.need_more(b.read().await.expect("read"));
        assert_eq!(&*b.read().await.expect("read"), b"abcdef");
        a.close().await;
        assert_eq!(&*b.read().await.expect("read"), b"gh");
        assert!(b.is_clean());
        assert!(b.read().await.expect("read").is_empty());
        assert!(!b.is_clean());
    };
    together(talk, async {});
}

#[test]
fn a_client_that_left_is_noticed_behind_what_it_sent_before() {
    let (a, b) = pair(usize::MAX);
    let mut cx = Context::from_waker(Waker::noop());
    together(async { a.write(Buf::copy_of(b"GET /next")).await.expect("written") }, async {});
    assert!(b.poll_gone(&mut cx).is_pending());
    together(a.close(), async {});
    assert_eq!(b.poll_gone(&mut cx), Poll::Ready(Gone::HalfClosed));
    assert!(b.has_unread());
}

/// Both sides of a session, its handshake over and its tickets read.
fn acquainted() -> (Stream<Pipe>, Stream<Pipe>) {
    let (server_config, client_config) = configs();
    let (server, client) = pair(usize::MAX);
    let serve = async {
        let first = server.read().await?;
        server.begin_tls_server(&server_config, &first)?;
        server.handshake().await?;
        server.write(Buf::copy_of(b"hello")).await
    };
    let ask = async {
        client.begin_tls_client(&client_config, ServerName::try_from("localhost").expect("a name"))?;
        client.handshake().await?;
        client.read().await
    };
    let (served, asked) = together(serve, ask);
    served.expect("served");
    assert_eq!(&asked.expect("asked")[..], b"hello");
    (server, client)
}

/// Whatever the peer sends, a failed session says so once, and is not asked again by any way that there is.
fn stays_failed(stream: &Stream<Pipe>, sent: &[u8]) {
    let sent_before = stream.sock.outbound.bytes.borrow().len();
    for _ in 0..3 {
        stream.sock.inbound.bytes.borrow_mut().extend(sent);
        assert_eq!(now(stream.read()).map(|_| ()).map_err(|error| error.kind()), Err(io::ErrorKind::InvalidData), "{sent:?}");
        let refused = now(stream.write(Buf::copy_of(b"more")));
        assert_eq!(refused.map_err(|error| error.kind()), Err(io::ErrorKind::InvalidData), "{sent:?}");
    }
    now(stream.close());
    now(stream.close());
    let alert: Vec<u8> = stream.sock.outbound.bytes.borrow().iter().skip(sent_before).copied().collect();
    assert!(alert.len() < 64, "one alert and no more, {alert:?} for {sent:?}");
    assert!(stream.peer_certificates().is_empty());
}

const NO_TLS: [&[u8]; 6] = [
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad",
    &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    &[22, 3, 3, 0, 4, 14, 0, 0, 0, 22, 3, 3, 0, 4, 14, 0, 0, 0],
    &[20, 3, 3, 0, 1, 7, 20, 3, 3, 0, 1, 7],
    &[23, 3, 3, 0, 5, 1, 2, 3, 4, 5, 23, 3, 3, 0, 5, 1, 2, 3, 4, 5],
    &[23, 3, 3, 0xff, 0xff, 0, 0],
];

#[test]
fn a_peer_that_speaks_no_tls_ends_a_handshake_once() {
    let (server_config, client_config) = configs();
    for sent in NO_TLS {
        let (server, client) = pair(usize::MAX);
        client.begin_tls_client(&client_config, ServerName::try_from("localhost").expect("a name")).expect("begun");
        now(client.flush()).expect("sent");
        server.sock.outbound.bytes.borrow_mut().extend(sent);
        let outcome = now(client.handshake());
        assert_eq!(outcome.map(|_| ()).map_err(|error| error.kind()), Err(io::ErrorKind::InvalidData), "{sent:?}");
        stays_failed(&client, sent);

        let (server, _client) = pair(usize::MAX);
        server.begin_tls_server(&server_config, sent).expect("begun");
        let outcome = now(server.handshake());
        assert_eq!(outcome.map(|_| ()).map_err(|error| error.kind()), Err(io::ErrorKind::InvalidData), "{sent:?}");
        stays_failed(&server, sent);
    }
}

#[test]
fn a_peer_that_stops_speaking_tls_ends_a_session_once() {
    for sent in NO_TLS {
        let (server, client) = acquainted();
        stays_failed(&server, sent);
        stays_failed(&client, sent);
    }
}
