//! A stream: a socket, the TLS session on it if there is one, and the bytes that were read too far.
//! Reads hand out plaintext in leased buffers; a write becomes one TLS record where it fits and one send. Framing is
//! above this.

use crate::buffer::{Buf, CAPACITY};
use crate::sock::{FilePart, Sock};
use crate::tls::TlsSession;
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::ServerName;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

pub struct Stream<S> {
    pub sock: S,
    tls: RefCell<Option<TlsSession>>,
    /// Ciphertext of an unfinished record or handshake message; at most [`UNFINISHED_BYTES_MAX`] and one read.
    unfinished_record: RefCell<Vec<u8>>,
    /// `unfinished_record` holds bytes that were not looked at yet (the ClientHello that chose the session).
    unseen_ciphertext: Cell<bool>,
    /// Plaintext given back by the reader; it comes first at the next read.
    unread: RefCell<Vec<u8>>,
    /// The reader wants what is in `unread` only together with more.
    needs_more: Cell<bool>,
    /// Ciphertext that goes out before anything else: handshake flights, alerts. At most one buffer.
    pending_out: RefCell<Option<Buf>>,
    /// The peer ended its side: read end of stream for ever.
    ended: Cell<bool>,
    /// Our close_notify is sealed.
    closed: Cell<bool>,
    handshake_stage: Cell<HandshakeStage>,
    /// Who waits for the end of a handshake that somebody else brings to it.
    awaiting_handshake: RefCell<Vec<Waker>>,
    /// Bytes over the socket, TLS and framing included, since they were last asked for.
    received_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
}

/// A TLS record is at most 16,640 bytes, a handshake message that anybody sends not much more.
const UNFINISHED_BYTES_MAX: usize = 32 << 10;
/// Input that is kept while watching whether a client is still there.
const WATCHED_BYTES_MAX: usize = 16 << 10;

/// Where a handshake stands, as far as it matters for plaintext.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeStage {
    Underway,
    /// The client has sent plaintext before its Finished: it may be a copy of what another has sent (RFC 8446 section
    /// 8). We may answer.
    Early,
    /// Also without TLS.
    Over,
}

/// What a handshake settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsFacts {
    pub version: &'static str,
    pub cipher_suite: &'static str,
    pub resumed: bool,
    pub h2: bool,
}

impl<S: Sock> Stream<S> {
    pub fn plain(sock: S) -> Stream<S> {
        Stream {
            sock,
            tls: RefCell::default(),
            unfinished_record: RefCell::default(),
            unseen_ciphertext: Cell::new(false),
            unread: RefCell::default(),
            needs_more: Cell::new(false),
            pending_out: RefCell::default(),
            ended: Cell::new(false),
            closed: Cell::new(false),
            handshake_stage: Cell::new(HandshakeStage::Over),
            awaiting_handshake: RefCell::default(),
            received_bytes: Cell::new(0),
            sent_bytes: Cell::new(0),
        }
    }

    /// Bytes that came over the socket since this was last asked.
    pub fn take_received_bytes(&self) -> u64 {
        self.received_bytes.take()
    }

    /// Bytes that were handed to the socket since they were last taken.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.get()
    }

    /// Bytes that were handed to the socket since this was last asked.
    pub fn take_sent_bytes(&self) -> u64 {
        self.sent_bytes.take()
    }

    /// What the stream takes of memory beside itself: input that waits for more, output that waits for the peer.
    pub fn held_bytes(&self) -> usize {
        let pending = self.pending_out.borrow().as_ref().map_or(0, Buf::held_bytes);
        self.unread.borrow().capacity() + self.unfinished_record.borrow().capacity() + pending + self.sock.unsent_bytes()
    }

    pub fn is_tls(&self) -> bool {
        self.tls.borrow().is_some()
    }

    /// From here on the stream is TLS; `first` is the ciphertext that was read already. Call
    /// [`handshake`](Self::handshake) next.
    pub fn begin_tls_server(&self, config: &Arc<ServerConfig>, first: &[u8]) -> io::Result<()> {
        *self.tls.borrow_mut() = Some(TlsSession::server(config).map_err(io::Error::other)?);
        self.handshake_stage.set(HandshakeStage::Underway);
        *self.unfinished_record.borrow_mut() = first.to_vec();
        self.unseen_ciphertext.set(true);
        Ok(())
    }

    /// As [`begin_tls_server`](Self::begin_tls_server), for a connection to an upstream.
    pub fn begin_tls_client(&self, config: &Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<()> {
        let mut session = TlsSession::client(config, name).map_err(io::Error::other)?;
        let (mut plain, mut out) = (Buf::take(), Buf::take());
        session.receive(&mut [], &mut plain, &mut out).map_err(tls_error)?;
        *self.pending_out.borrow_mut() = Some(out);
        *self.tls.borrow_mut() = Some(session);
        self.handshake_stage.set(HandshakeStage::Underway);
        Ok(())
    }

    /// After a fatal alert: what still comes is bytes that nobody reads, for a [`close`](Self::close) that waits for
    /// them.
    pub fn abandon_tls(&self) {
        *self.tls.borrow_mut() = None;
        self.unfinished_record.borrow_mut().clear();
        self.unseen_ciphertext.set(false);
    }

    /// Drives the handshake to its end, or until a client's early data is there, see [`is_early`](Self::is_early). What
    /// the server sends last (session tickets) waits for the first answer, to go with it.
    ///
    /// Errors: `TimedOut`, `UnexpectedEof`, and `InvalidData` with the TLS fault.
    pub async fn handshake(&self) -> io::Result<TlsFacts> {
        loop {
            let data = poll_fn(|cx| self.poll_handshake_step(cx)).await?;
            if !data.is_empty() {
                self.unread(data);
            }
            if let Some(facts) = self.tls_facts() {
                // With early data the client waits for our flight, and the answer may be long in coming.
                if self.is_early() || matches!(*self.tls.borrow(), Some(TlsSession::Client(_))) {
                    self.flush().await?;
                }
                return Ok(facts);
            }
        }
    }

    /// Whether what was read so far came before the client's Finished, so that it may be a copy of what another has
    /// sent. Reading on ends it.
    #[inline]
    pub fn is_early(&self) -> bool {
        self.handshake_stage.get() == HandshakeStage::Early
    }

    /// Reads until the handshake is over. What comes with it is kept and read next; the configuration bounds how much
    /// that can be.
    pub async fn finish_handshake(&self) -> io::Result<()> {
        while self.is_early() {
            let data = poll_fn(|cx| self.poll_handshake_step(cx)).await?;
            self.unread.borrow_mut().extend_from_slice(&data);
        }
        Ok(())
    }

    /// Ready when the handshake is over, for who does not read himself. Who does may end without that.
    pub fn poll_handshake_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_early() {
            return Poll::Ready(());
        }
        let mut awaiting = self.awaiting_handshake.borrow_mut();
        if !awaiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            awaiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// See [`TlsSession::peer_certificates`]; empty without TLS.
    pub fn peer_certificates(&self) -> Vec<Box<[u8]>> {
        let tls = self.tls.borrow();
        let shown = tls.as_ref().map(TlsSession::peer_certificates).unwrap_or_default();
        shown.iter().map(|der| der.as_ref().into()).collect()
    }

    fn tls_facts(&self) -> Option<TlsFacts> {
        let tls = self.tls.borrow();
        let session = tls.as_ref().filter(|session| !session.is_handshaking() || self.is_early())?;
        Some(TlsFacts {
            version: if session.is_tls13() { "1.3" } else { "1.2" },
            cipher_suite: session.cipher_suite().unwrap_or(""),
            resumed: session.is_resumed(),
            h2: session.alpn() == Some(b"h2"),
        })
    }

    /// One read's worth of handshake; plaintext that came with its end is returned.
    fn poll_handshake_step(&self, cx: &mut Context<'_>) -> Poll<io::Result<Buf>> {
        let mut ciphertext = ready!(self.poll_ciphertext(cx))?;
        if ciphertext.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(self.open(&mut ciphertext).map(|opened| opened.unwrap_or_else(Buf::empty)))
    }

    /// The next piece of plaintext; empty is the end of the stream. No buffer is held while waiting.
    ///
    /// Errors: `TimedOut` when the read limit has passed, `InvalidData` for a TLS fault, else the socket's.
    pub async fn read(&self) -> io::Result<Buf> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    pub fn poll_read(&self, cx: &mut Context<'_>) -> Poll<io::Result<Buf>> {
        if !self.needs_more.get() && !self.unread.borrow().is_empty() {
            return Poll::Ready(Ok(self.take_unread()));
        }
        let mut data = ready!(self.poll_plaintext(cx))?;
        if self.needs_more.replace(false) && !self.unread.borrow().is_empty() {
            let unread = self.unread.take();
            // At the end of the stream the unfinished piece is dropped: nobody will finish it.
            if !data.is_empty() {
                if !data.fits_in_front(unread.len()) {
                    return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
                }
                data.prepend(&unread);
            }
        }
        Poll::Ready(Ok(data))
    }

    /// What was given back, as far as it is no more than a read would bring.
    fn take_unread(&self) -> Buf {
        let mut unread = self.unread.take();
        let piece = Buf::copy_of(&unread[..unread.len().min(CAPACITY)]);
        if unread.len() > CAPACITY {
            // Early data, and what came with the end of its handshake.
            unread.drain(..CAPACITY);
            *self.unread.borrow_mut() = unread;
        }
        piece
    }

    fn poll_plaintext(&self, cx: &mut Context<'_>) -> Poll<io::Result<Buf>> {
        if self.ended.get() {
            return Poll::Ready(Ok(Buf::empty()));
        }
        loop {
            let mut data = ready!(self.poll_ciphertext(cx))?;
            if data.is_empty() {
                self.ended.set(true);
                return Poll::Ready(Ok(data));
            }
            if self.tls.borrow().is_none() {
                return Poll::Ready(Ok(data));
            }
            match self.open(&mut data)? {
                Some(plain) => return Poll::Ready(Ok(plain)),
                None if self.ended.get() => return Poll::Ready(Ok(Buf::empty())),
                None => {}
            }
        }
    }

    /// Bytes as the socket has them, with the unfinished record in front. What waits to go out goes out before we wait.
    fn poll_ciphertext(&self, cx: &mut Context<'_>) -> Poll<io::Result<Buf>> {
        if self.unseen_ciphertext.replace(false) {
            return Poll::Ready(Ok(Buf::copy_of(&self.unfinished_record.take())));
        }
        let mut data = match self.sock.poll_recv(cx) {
            Poll::Ready(data) => data?,
            Poll::Pending => {
                if self.pending_out.borrow().is_some() {
                    let _ = self.sock.poll_send(cx, &mut self.pending_out.borrow_mut())?;
                }
                return Poll::Pending;
            }
        };
        self.received_bytes.set(self.received_bytes.get() + data.len() as u64);
        if !data.is_empty() && !self.unfinished_record.borrow().is_empty() {
            let unfinished = self.unfinished_record.take();
            // rustls keeps nothing of a handshake message in pieces, so a client decides how much is left over.
            if unfinished.len() > UNFINISHED_BYTES_MAX {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "an unfinished TLS message is too large")));
            }
            data.prepend(&unfinished);
        }
        Poll::Ready(Ok(data))
    }

    /// Decrypts; `None` when no application data came of it.
    fn open(&self, ciphertext: &mut Buf) -> io::Result<Option<Buf>> {
        let mut tls = self.tls.borrow_mut();
        let session = tls.as_mut().expect("only called on a TLS stream");
        let mut pending = self.pending_out.borrow_mut();
        let mut out = pending.take().unwrap_or_else(Buf::take_whole);
        let mut plain = Buf::take();
        let outcome = session.receive(ciphertext, &mut plain, &mut out);
        if !out.is_empty() {
            *pending = Some(out);
        }
        let received = outcome.map_err(tls_error)?;
        if self.handshake_stage.get() != HandshakeStage::Over {
            self.note_handshake(session.is_handshaking(), !plain.is_empty());
        }
        if received.closed {
            self.ended.set(true);
        } else if received.consumed < ciphertext.len() {
            self.unfinished_record.borrow_mut().extend_from_slice(&ciphertext[received.consumed..]);
        }
        Ok(if plain.is_empty() { None } else { Some(plain) })
    }

    fn note_handshake(&self, is_underway: bool, has_plain: bool) {
        if !is_underway {
            self.handshake_stage.set(HandshakeStage::Over);
            self.awaiting_handshake.take().into_iter().for_each(Waker::wake);
        } else if has_plain {
            self.handshake_stage.set(HandshakeStage::Early);
        }
    }

    /// Gives bytes back; the next read returns them first.
    pub fn unread(&self, data: Buf) {
        if !data.is_empty() {
            let mut unread = self.unread.borrow_mut();
            if unread.is_empty() {
                unread.extend_from_slice(&data);
            } else {
                unread.splice(..0, data.iter().copied()).for_each(drop);
            }
        }
    }

    /// As [`unread`](Self::unread), but the next read waits for more and returns both.
    pub fn need_more(&self, data: Buf) {
        self.unread(data);
        self.needs_more.set(true);
    }

    /// Whether bytes were given back and wait to be read.
    pub fn has_unread(&self) -> bool {
        !self.unread.borrow().is_empty()
    }

    /// Sends a buffer: one record up to 16 KiB, one send where the kernel takes it. Ends when the driver has all of it.
    #[inline]
    pub fn write(&self, data: Buf) -> Write<'_, S> {
        match self.seal(data) {
            Ok(sealed) => Write { stream: self, sealed: Some(sealed), fault: None },
            Err(error) => Write { stream: self, sealed: None, fault: Some(error) },
        }
    }

    /// Sends bytes of a file as [`Sock::poll_send_file`] does, behind a write that nobody has begun. Only without TLS,
    /// which has to see them.
    pub fn poll_send_file(&self, cx: &mut Context<'_>, before: &mut Option<Buf>, part: FilePart<'_>) -> Poll<io::Result<usize>> {
        debug_assert!(!self.is_tls(), "what the kernel sends is not encrypted");
        let sent = ready!(self.sock.poll_send_file(cx, before, part))?;
        self.sent_bytes.set(self.sent_bytes.get() + sent as u64);
        Poll::Ready(Ok(sent))
    }

    /// Ciphertext of `data`, behind what waited to go out.
    pub fn seal(&self, data: Buf) -> io::Result<Buf> {
        let sealed = match self.encrypt(&data)? {
            Some(sealed) => sealed,
            None => data,
        };
        self.sent_bytes.set(self.sent_bytes.get() + sealed.len() as u64);
        Ok(sealed)
    }

    /// As [`seal`](Self::seal), for bytes that are in no buffer; at most [`CAPACITY`] of them.
    pub fn seal_copy(&self, data: &[u8]) -> io::Result<Buf> {
        let sealed = match self.encrypt(data)? {
            Some(sealed) => sealed,
            None => Buf::copy_of(data),
        };
        self.sent_bytes.set(self.sent_bytes.get() + sealed.len() as u64);
        Ok(sealed)
    }

    /// TLS records of `data`, behind what waited to go out; `None` without TLS.
    #[inline]
    fn encrypt(&self, data: &[u8]) -> io::Result<Option<Buf>> {
        let mut tls = self.tls.borrow_mut();
        let Some(session) = tls.as_mut() else { return Ok(None) };
        // A usual answer goes where the buffers before it have been: that part is in the cache.
        let fresh = if data.len() <= CAPACITY { Buf::take } else { Buf::take_whole };
        let mut out = self.pending_out.borrow_mut().take().unwrap_or_else(fresh);
        if let Err(error) = session.send(data, &mut self.unfinished_record.borrow_mut(), &mut out) {
            // An alert that waits there is for the peer all the same.
            *self.pending_out.borrow_mut() = Some(out).filter(|out| !out.is_empty());
            return Err(tls_error(error));
        }
        Ok(Some(out))
    }

    /// Sends what waits to go out.
    pub async fn flush(&self) -> io::Result<()> {
        let mut pending = self.pending_out.borrow_mut().take();
        poll_fn(|cx| self.sock.poll_send(cx, &mut pending)).await
    }

    /// Ends our side: the close_notify of TLS, then the end of the stream. The peer may go on sending.
    pub async fn close(&self) {
        if let Ok(mut closing) = self.seal_close() {
            let _ = poll_fn(|cx| self.sock.poll_send(cx, &mut closing)).await;
        }
        self.sock.shutdown();
    }

    /// What is left to send and the close_notify alert; the second call has nothing more.
    pub fn seal_close(&self) -> io::Result<Option<Buf>> {
        let mut pending = self.pending_out.borrow_mut().take();
        let mut tls = self.tls.borrow_mut();
        // A session that has failed has said so by its alert, which is what waits to go out.
        let may_say_it = |session: &&mut TlsSession| !session.has_failed() && (!session.is_handshaking() || self.is_early());
        if let Some(session) = tls.as_mut().filter(may_say_it).filter(|_| !self.closed.replace(true)) {
            let mut out = pending.take().unwrap_or_else(Buf::take_whole);
            session.close(&mut self.unfinished_record.borrow_mut(), &mut out).map_err(tls_error)?;
            pending = Some(out);
        }
        Ok(pending)
    }

    /// Whether another request may go out on this connection: nothing is left over, and the peer has not ended its
    /// side.
    pub fn is_clean(&self) -> bool {
        !self.ended.get() && self.unread.borrow().is_empty() && self.unfinished_record.borrow().is_empty()
    }

    /// While an answer is awaited: ready when the client ended its side or is gone. Input that comes (a pipelined
    /// request) is kept up to a bound, and watching ends there, so that a client cannot make us buffer without end.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Gone> {
        loop {
            if self.unread.borrow().len() > WATCHED_BYTES_MAX {
                return Poll::Pending;
            }
            return match ready!(self.poll_plaintext(cx)) {
                Ok(data) if data.is_empty() => Poll::Ready(Gone::HalfClosed),
                Ok(data) => {
                    self.unread.borrow_mut().extend_from_slice(&data);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => Poll::Pending,
                Err(_) => Poll::Ready(Gone::Reset),
            };
        }
    }
}

/// A write on its way. A type of its own and not an `async fn`, because futures that await it are copied with it
/// inside.
#[must_use = "nothing is sent before it is awaited"]
pub struct Write<'s, S> {
    stream: &'s Stream<S>,
    sealed: Option<Buf>,
    fault: Option<io::Error>,
}

impl<S> Write<'_, S> {
    /// What would have been sent, for whoever sends it together with something else.
    pub fn unsent(self) -> io::Result<Option<Buf>> {
        self.fault.map_or(Ok(self.sealed), Err)
    }
}

impl<S: Sock> Future for Write<'_, S> {
    type Output = io::Result<()>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match this.fault.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => this.stream.sock.poll_send(cx, &mut this.sealed),
        }
    }
}

/// How a client left while its answer was awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The peer will send no more, but may still read.
    HalfClosed,
    /// Nobody is there.
    Reset,
}

fn tls_error(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
