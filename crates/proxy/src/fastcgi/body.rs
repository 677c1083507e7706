//! The answer of a script as it comes: its head, then a body like any other, out of the records of one connection. What
//! becomes of them is in `reply`.

use super::complaints::{Complaints, TooMany};
use std::fmt;
use std::io;
use tidegate_exchange::{BodySource, NextPiece};
use tidegate_fastcgi::record::FIRST_REQUEST;
use tidegate_fastcgi::{AnswerError, AnswerHead, AnswerParser, Decoder, Event, Progress, ProtocolStatus, RecordError};
use tidegate_message::body::BodyFault;
use tidegate_transport::{Buf, Sock, Stream};
use tidegate_wire::BodyError;

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub enum ReplyFault {
    Io(io::Error),
    /// The connection ended before the request did.
    Closed,
    Record(RecordError),
    Answer(AnswerError),
    /// The application ended the request without an answer.
    Refused(ProtocolStatus),
    TooManyComplaints,
}

impl From<io::Error> for ReplyFault {
    fn from(error: io::Error) -> ReplyFault {
        ReplyFault::Io(error)
    }
}

impl From<RecordError> for ReplyFault {
    fn from(error: RecordError) -> ReplyFault {
        ReplyFault::Record(error)
    }
}

impl From<AnswerError> for ReplyFault {
    fn from(error: AnswerError) -> ReplyFault {
        ReplyFault::Answer(error)
    }
}

impl From<TooMany> for ReplyFault {
    fn from(_: TooMany) -> ReplyFault {
        ReplyFault::TooManyComplaints
    }
}

impl fmt::Display for ReplyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyFault::Io(error) => error.fmt(f),
            ReplyFault::Closed => f.write_str("the application closed the connection before the end of the request"),
            ReplyFault::Record(error) => error.fmt(f),
            ReplyFault::Answer(error) => error.fmt(f),
            ReplyFault::Refused(status) => status.fmt(f),
            ReplyFault::TooManyComplaints => f.write_str("the script wrote more to STDERR than anybody would read"),
        }
    }
}

pub struct FastCgiBody<'s, S> {
    pub stream: &'s Stream<S>,
    decoder: Decoder,
    complaints: Complaints,
    /// What has come of the body and was not handed out.
    at_hand: Buf,
    /// What is still to come, where the script says how long its body is.
    left: Option<u64>,
    /// Nobody gets the body: HEAD, 204, 304.
    is_dropped: bool,
    has_begun: bool,
}

impl<'s, S: Sock> FastCgiBody<'s, S> {
    pub fn new(stream: &'s Stream<S>, complaints: Complaints) -> FastCgiBody<'s, S> {
        FastCgiBody {
            stream,
            decoder: Decoder::new(FIRST_REQUEST),
            complaints,
            at_hand: Buf::empty(),
            left: None,
            is_dropped: false,
            has_begun: false,
        }
    }

    /// Whether any byte came.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The answer's head. What came of the body with it is at hand afterwards.
    pub async fn read_head(&mut self) -> Result<AnswerHead, ReplyFault> {
        let mut parser = AnswerParser::new();
        loop {
            let data = self.stream.read().await?;
            if data.is_empty() {
                return Err(ReplyFault::Closed);
            }
            self.has_begun = true;
            let mut head = None;
            let mut body = Buf::empty();
            let ended = decode(&mut self.decoder, &mut self.complaints, &data, |mut piece| {
                if head.is_none()
                    && let Progress::Complete(complete) = parser.feed(&mut piece)?
                {
                    head = Some(complete);
                    // What is left of this read fits: a buffer takes in more than one read.
                    body = Buf::take();
                }
                if head.is_some() {
                    body.extend(piece);
                }
                Ok(())
            })?;
            match (head, ended) {
                (Some(head), None | Some(ProtocolStatus::RequestComplete)) => {
                    self.at_hand = body;
                    return Ok(head);
                }
                (None, Some(ProtocolStatus::RequestComplete)) => return Err(parser.end_of_input().into()),
                (_, Some(refused)) => return Err(ReplyFault::Refused(refused)),
                (None, None) => {}
            }
        }
    }

    /// No byte of the body is handed out.
    pub fn drop_body(&mut self) {
        self.is_dropped = true;
    }

    /// No more of the body is handed out than this; less of it is an error.
    pub fn expect(&mut self, bytes: u64) {
        self.left = Some(bytes);
    }

    /// The length of the body, when all of it is here.
    pub fn whole_length(&self) -> Option<u64> {
        self.decoder.is_finished().then_some(self.at_hand.len() as u64)
    }

    /// Whether the connection can have another request.
    pub fn is_reusable(&self) -> bool {
        self.decoder.is_reusable() && self.stream.is_clean()
    }

    /// Whether nothing more is handed out. Who has said how long the body is need not have ended the request by then.
    fn is_over(&self) -> bool {
        let is_all = self.left == Some(0) || (self.left.is_none() && self.decoder.is_finished());
        self.is_dropped || (is_all && self.at_hand.is_empty())
    }

    /// What came with the head.
    fn take_at_hand(&mut self) -> Option<Buf> {
        let mut piece = std::mem::replace(&mut self.at_hand, Buf::empty());
        if self.is_dropped {
            return None;
        }
        if let Some(left) = &mut self.left {
            // Surplus would be read as the next answer.
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
        }
        Some(piece).filter(|piece| !piece.is_empty())
    }

    async fn read_on(&mut self) -> Result<Option<Buf>, BodyFault> {
        loop {
            if let Some(piece) = self.take_at_hand() {
                return Ok(Some(piece));
            }
            if self.is_over() {
                return Ok(None);
            }
            if self.decoder.is_finished() {
                // The script promised more.
                return Err(BodyFault::Framing(BodyError::Truncated));
            }
            let data = self.stream.read().await?;
            if data.is_empty() {
                return Err(BodyFault::Framing(BodyError::Truncated));
            }
            let mut body = Buf::take();
            let ended = decode(&mut self.decoder, &mut self.complaints, &data, |piece| {
                body.extend(piece);
                Ok(())
            });
            match ended.map_err(|_| BodyFault::BadRecord)? {
                None | Some(ProtocolStatus::RequestComplete) => self.at_hand = body,
                Some(_) => return Err(BodyFault::BadRecord),
            }
        }
    }
}

impl<S: Sock> BodySource<S> for &mut FastCgiBody<'_, S> {
    fn read(&mut self) -> NextPiece<'_> {
        Box::pin(self.read_on())
    }

    fn at_hand(&mut self) -> Result<Option<Buf>, BodyFault> {
        Ok(self.take_at_hand())
    }

    fn is_finished(&self) -> bool {
        self.is_over()
    }

    fn stream(&self) -> Option<&Stream<S>> {
        Some(self.stream)
    }
}

/// One read's worth of records. Says how the request ended, if it did.
fn decode(
    decoder: &mut Decoder,
    complaints: &mut Complaints,
    data: &[u8],
    mut stdout: impl FnMut(&[u8]) -> Result<(), ReplyFault>,
) -> Result<Option<ProtocolStatus>, ReplyFault> {
    let mut input = data;
    let mut ended = None;
    while let Some(event) = decoder.feed(&mut input)? {
        match event {
            Event::Stdout(piece) => stdout(piece)?,
            Event::Stderr(piece) => complaints.add(piece)?,
            // Answers to what was not asked say nothing about the request.
            Event::Values(_) | Event::UnknownType(_) => {}
            Event::End { protocol_status, .. } => ended = Some(protocol_status),
        }
    }
    Ok(ended)
}
