//! Bodies of requests that are decoded on their way: `decompress`. Whether one is, is decided in
//! `middleware::decompress`, the codecs are in `coding`; here the body is read through them, and what a few bytes may
//! become is bounded.

use std::time::Duration;
use tidegate_coding::{DecodedCoding, Decoder};
use tidegate_exchange::{BodyReader, BodySource, Exchange, NextPiece};
use tidegate_message::body::BodyFault;
use tidegate_middleware::Refusal;
use tidegate_middleware::decompress::{settle, sole_coding};
use tidegate_model::Decompress;
use tidegate_transport::{Buf, ReadLimit, Sock};
use tidegate_wire::BodyFraming;

/// A body may become as long as this whatever its ratio: short texts compress well.
const UNCOUNTED_BYTES: u64 = 1 << 20;

pub struct DecodedBody<'s, S> {
    coded: BodyReader<'s, S>,
    decoder: Decoder,
    /// What was read and is not decoded yet.
    rest: Buf,
    ratio_max: u64,
    taken: u64,
    made: u64,
    is_done: bool,
}

impl<S: Sock> DecodedBody<'_, S> {
    async fn read_on(&mut self) -> Result<Option<Buf>, BodyFault> {
        while !self.is_done {
            let mut piece = Buf::take();
            let step = self.decoder.step(&self.rest, piece.spare_for_read()).map_err(|_| BodyFault::Coding)?;
            self.rest.advance(step.consumed);
            self.taken += step.consumed as u64;
            self.made += step.produced as u64;
            if self.made > UNCOUNTED_BYTES && self.made / self.ratio_max > self.taken {
                return Err(BodyFault::Bomb);
            }
            if step.is_done {
                self.end().await?;
            }
            if step.produced > 0 {
                piece.grow(step.produced);
                return Ok(Some(piece));
            }
            if step.consumed == 0 && !self.is_done {
                self.take_more().await?;
            }
        }
        Ok(None)
    }

    async fn take_more(&mut self) -> Result<(), BodyFault> {
        // The decoder has taken all that it can use of what is left, which is nothing.
        if !self.rest.is_empty() {
            return Err(BodyFault::Coding);
        }
        match Box::pin(self.coded.read()).await? {
            Some(more) => self.rest = more,
            None if self.decoder.may_end() => self.is_done = true,
            None => return Err(BodyFault::Coding),
        }
        Ok(())
    }

    /// The coded body has to end where the decoded one does.
    async fn end(&mut self) -> Result<(), BodyFault> {
        self.is_done = true;
        let has_more = !self.rest.is_empty() || Box::pin(self.coded.read()).await?.is_some();
        if has_more { Err(BodyFault::Coding) } else { Ok(()) }
    }
}

impl<S: Sock> BodySource<S> for DecodedBody<'_, S> {
    fn read(&mut self) -> NextPiece<'_> {
        Box::pin(self.read_on())
    }

    fn is_finished(&self) -> bool {
        self.is_done
    }

    fn set_idle(&mut self, idle: Duration) {
        self.coded.set_idle(idle);
    }
}

/// From here on the body is what its coding stands for, and the head says so.
pub(crate) fn decode_body<S: Sock>(exchange: &mut Exchange<'_, S>, decompress: Decompress) -> Result<(), Refusal> {
    // Of nothing there is nothing to decode, whatever its coding.
    if exchange.body.is_finished() {
        return Ok(());
    }
    let Some(coding) = sole_coding(&exchange.head).and_then(DecodedCoding::of) else { return Ok(()) };
    let decoder = Decoder::new(coding).ok_or(Refusal::DecodersBusy)?;
    settle(&mut exchange.head);
    exchange.framing = BodyFraming::Chunked;
    let coded = std::mem::replace(&mut exchange.body, BodyReader::Empty);
    if let BodyReader::H1(reader) = &coded {
        // Whoever waits for a piece sets its own bound.
        reader.stream.sock.set_read_limit(ReadLimit::Never);
    }
    let body = DecodedBody {
        coded,
        decoder,
        rest: Buf::empty(),
        ratio_max: u64::from(decompress.ratio_max),
        taken: 0,
        made: 0,
        is_done: false,
    };
    exchange.body = BodyReader::Made(Box::new(body));
    Ok(())
}
