//! The body of a script's answer, as a body like any other out of the records of its connection.

use super::{Reply, ReplyFault};
use std::cell::RefCell;
use tidegate_fastcgi::ProtocolStatus;
use tidegate_message::body::BodyFault;
use tidegate_transport::{Buf, Sock, Stream};
use tidegate_wire::BodyError;

pub struct FastCgiBody<'c, S> {
    pub stream: &'c Stream<S>,
    pub(super) reply: &'c RefCell<Reply>,
    /// What is still to be handed out, where the length is known; less of it is an error, and more is nobody's.
    pub(super) left: Option<u64>,
}

impl<S: Sock> FastCgiBody<'_, S> {
    /// Whether nothing more is handed out. A body whose length is known need not have ended its request by then.
    pub fn is_finished(&self) -> bool {
        let reply = self.reply.borrow();
        self.left.map_or_else(|| reply.decoder.is_finished() && reply.at_hand.is_empty(), |left| left == 0)
    }

    /// What has come and was not handed out.
    pub fn at_hand(&mut self) -> Option<Buf> {
        let mut piece = std::mem::replace(&mut self.reply.borrow_mut().at_hand, Buf::empty());
        if let Some(left) = &mut self.left {
            // Surplus would be read as the next answer.
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
        }
        Some(piece).filter(|piece| !piece.is_empty())
    }

    pub async fn read(&mut self) -> Result<Option<Buf>, BodyFault> {
        loop {
            if let Some(piece) = self.at_hand() {
                return Ok(Some(piece));
            }
            if self.is_finished() {
                return Ok(None);
            }
            // The script promised more.
            if self.reply.borrow().decoder.is_finished() {
                return Err(BodyFault::Framing(BodyError::Truncated));
            }
            let data = self.stream.read().await?;
            if data.is_empty() {
                return Err(BodyFault::Framing(BodyError::Truncated));
            }
            self.take(&data).map_err(|_| BodyFault::Broken)?;
        }
    }

    /// One read's worth of records.
    fn take(&self, data: &[u8]) -> Result<(), ReplyFault> {
        let mut reply = self.reply.borrow_mut();
        let mut body = Buf::take();
        let ended = reply.decode(data, |piece| {
            body.extend(piece);
            Ok(())
        })?;
        match ended {
            None | Some(ProtocolStatus::RequestComplete) => {
                reply.at_hand = body;
                Ok(())
            }
            Some(refused) => Err(ReplyFault::Refused(refused)),
        }
    }
}
