//! Streams over sockets made of memory that hand out any number of bytes at a time: TLS both ways, ends, and input that never becomes
//! a message.

use crate::buffer::Buf;
use crate::sock::{ReadLimit, Sock};
use crate::stream::{Gone, Stream};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::ServerName;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
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

    fn shutdown(&self) {
        self.outbound.ended.set(true);
    }

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
