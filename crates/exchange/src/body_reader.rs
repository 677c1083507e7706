//! A body being read, of a request or of an answer, wherever it comes from: a row of plain buffers. Bodies on
//! connections are those of `message`; others (kept, decoded, made by scripts) come in as a [`BodySource`].

use crate::forwarded::is_claim;
use crate::override_fields::is_override;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use tidegate_message::body::{BodyFault, H1BodyReader, H2BodyReader};
use tidegate_transport::{Buf, Sock, Stream};
use tidegate_wire::head::Fields;

/// A message body being read.
pub enum BodyReader<'s, S> {
    H1(H1BodyReader<'s, S>),
    H2(H2BodyReader),
    /// Boxed: not what every request's future should be as large as.
    Made(Box<dyn BodySource<S> + 's>),
    /// The message has none.
    Empty,
}

/// After so much of a body the other connections of the worker get a turn.
pub const TURN_BYTES: usize = 1 << 20;

/// The next piece of a body; `None` at the end.
pub type NextPiece<'a> = Pin<Box<dyn Future<Output = Result<Option<Buf>, BodyFault>> + 'a>>;

/// A body that is not simply one on a connection. It has no trailers.
pub trait BodySource<S> {
    fn read(&mut self) -> NextPiece<'_>;

    /// A piece that is there already.
    fn at_hand(&mut self) -> Result<Option<Buf>, BodyFault> {
        Ok(None)
    }

    /// Whether all of it was read.
    fn is_finished(&self) -> bool;

    /// Silence that ends it, where that is not its reader's to say.
    fn set_idle(&mut self, _: Duration) {}

    /// The connection that it is read from, where that belongs to one message.
    fn stream(&self) -> Option<&Stream<S>> {
        None
    }
}

impl<S: Sock> BodyReader<'_, S> {
    /// The next piece; `None` at the end.
    #[inline]
    pub async fn read(&mut self) -> Result<Option<Buf>, BodyFault> {
        match self {
            BodyReader::H1(reader) => poll_fn(|cx| reader.poll_read(cx)).await,
            BodyReader::H2(reader) => {
                reader.begin_read();
                poll_fn(|cx| reader.poll_read(cx)).await
            }
            // What is there already costs no future on the heap.
            BodyReader::Made(source) => match source.at_hand()? {
                Some(piece) => Ok(Some(piece)),
                None => source.read().await,
            },
            BodyReader::Empty => Ok(None),
        }
    }

    /// A piece that came with the head, without waiting.
    #[inline]
    pub fn at_hand(&mut self) -> Result<Option<Buf>, BodyFault> {
        match self {
            BodyReader::H1(reader) => reader.at_hand(),
            BodyReader::Made(source) => source.at_hand(),
            BodyReader::H2(_) | BodyReader::Empty => Ok(None),
        }
    }

    /// Whether all of it was read.
    #[inline]
    pub fn is_finished(&self) -> bool {
        match self {
            BodyReader::H1(reader) => reader.decoder.is_finished(),
            BodyReader::H2(reader) => reader.stream.is_read(),
            BodyReader::Made(source) => source.is_finished(),
            BodyReader::Empty => true,
        }
    }

    /// Whether trailers are there that were not taken. A stream of HTTP/2 that has any is not finished before they are.
    #[inline]
    pub fn has_trailers(&self) -> bool {
        match self {
            BodyReader::H1(reader) => reader.decoder.has_trailers(),
            BodyReader::H2(_) | BodyReader::Made(_) | BodyReader::Empty => false,
        }
    }

    /// The trailer section, once the body is finished. Some servers take trailers for fields of the head (RFC 9110
    /// section 6.5.1 warns of it), so nobody says there who a client is or that another
    /// request is meant, a trusted proxy neither.
    pub fn take_trailers(&mut self) -> Option<Box<Fields>> {
        let mut trailers = match self {
            BodyReader::H1(reader) => reader.decoder.take_trailers(),
            BodyReader::H2(reader) => reader.stream.take_trailers(),
            BodyReader::Made(_) | BodyReader::Empty => None,
        };
        if let Some(trailers) = &mut trailers {
            trailers.remove_where(|name| is_claim(name) || is_override(name));
        }
        trailers
    }

    /// What the head's `Connection` names does not come behind the body either. Before the hop-by-hop fields are
    /// removed.
    #[inline]
    pub fn drop_named_by_connection(&mut self, head: &Fields) {
        if let BodyReader::H1(reader) = self
            && reader.decoder.may_have_trailers()
            && let Some(named) = head.named_by_connection()
        {
            reader.decoder.drop_named(named);
        }
    }

    /// Gives back what came with the head, so that no buffer is held while something else is waited for.
    pub fn put_back(&mut self) {
        match self {
            BodyReader::H1(reader) => reader.at_hand.take().into_iter().for_each(|rest| reader.stream.unread(rest)),
            BodyReader::H2(_) | BodyReader::Made(_) | BodyReader::Empty => {}
        }
    }

    /// How long a stream of HTTP/2 may be silent. Other bodies have the bound of whoever reads them.
    pub fn set_idle(&mut self, idle: Duration) {
        match self {
            BodyReader::H2(reader) => reader.idle = Some(idle),
            BodyReader::Made(source) => source.set_idle(idle),
            BodyReader::H1(_) | BodyReader::Empty => {}
        }
    }

    /// The connection that it is read from, where that belongs to one message.
    pub fn stream(&self) -> Option<&Stream<S>> {
        match self {
            BodyReader::H1(reader) => Some(reader.stream),
            BodyReader::Made(source) => source.stream(),
            BodyReader::H2(_) | BodyReader::Empty => None,
        }
    }
}
