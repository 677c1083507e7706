//! The two messages of the gRPC health protocol in their frames: `HealthCheckRequest { string service = 1 }` and
//! `HealthCheckResponse { ServingStatus status = 1 }`. Pure, and no more of protobuf than they need. Who sends them is
//! `grpc`.

use std::fmt;

/// An answer has two bytes of message in five of frame. More than this is something else.
pub const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// A flag for compression, and the length of the message as four bytes (gRPC over HTTP/2, "Length-Prefixed-Message").
const FRAME_BYTES: usize = 5;
/// Seven bits a byte: ten of them have room for 64 bits.
const VARINT_BYTES_MAX: usize = 10;

const WIRE_VARINT: u64 = 0;
const WIRE_EIGHT_BYTES: u64 = 1;
const WIRE_LENGTH: u64 = 2;
const WIRE_FOUR_BYTES: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServingStatus {
    Unknown,
    Serving,
    NotServing,
    ServiceUnknown,
    /// A number that the protocol does not know.
    Other(u64),
}

/// Why an answer cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageFault {
    #[error("the answer is too long for a health check")]
    TooLong,
    /// The message ends before its own lengths say.
    #[error("the answer's message is cut off")]
    Truncated,
    /// More than one message.
    #[error("more than one message came")]
    Trailing,
    /// Nobody offered that.
    #[error("the answer is compressed, which nobody offered")]
    Compressed,
    #[error("the answer is no protobuf message")]
    NotProtobuf,
}

/// The question in its frame. An empty name asks for the server as a whole, and is left out as every default is.
pub fn write_question(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(1 << 3 | WIRE_LENGTH as u8);
        write_varint(&mut message, service.len() as u64);
        message.extend_from_slice(service.as_bytes());
    }
    let mut frame = Vec::with_capacity(FRAME_BYTES + message.len());
    frame.push(0);
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.append(&mut message);
    frame
}

/// Reads an answer in its frame. Fields that later versions may add are passed over; of several statuses the last one
/// counts, as protobuf has it.
pub fn read_answer(frame: &[u8]) -> Result<ServingStatus, MessageFault> {
    if frame.len() > MESSAGE_BYTES_MAX {
        return Err(MessageFault::TooLong);
    }
    let (head, message) = frame.split_at_checked(FRAME_BYTES).ok_or(MessageFault::Truncated)?;
    if head[0] != 0 {
        return Err(MessageFault::Compressed);
    }
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    match message.len().cmp(&length) {
        std::cmp::Ordering::Less => return Err(MessageFault::Truncated),
        std::cmp::Ordering::Greater => return Err(MessageFault::Trailing),
        std::cmp::Ordering::Equal => {}
    }
    let mut rest = Reader(message);
    let mut status = 0;
    while !rest.0.is_empty() {
        let tag = rest.varint()?;
        match (tag >> 3, tag & 7) {
            (0, _) => return Err(MessageFault::NotProtobuf),
            (1, WIRE_VARINT) => status = rest.varint()?,
            (_, WIRE_VARINT) => drop(rest.varint()?),
            (_, WIRE_EIGHT_BYTES) => rest.skip(8)?,
            (_, WIRE_FOUR_BYTES) => rest.skip(4)?,
            (_, WIRE_LENGTH) => {
                let length = rest.varint()?;
                rest.skip(length)?;
            }
            _ => return Err(MessageFault::NotProtobuf),
        }
    }
    Ok(ServingStatus::of(status))
}

impl ServingStatus {
    fn of(number: u64) -> ServingStatus {
        match number {
            0 => ServingStatus::Unknown,
            1 => ServingStatus::Serving,
            2 => ServingStatus::NotServing,
            3 => ServingStatus::ServiceUnknown,
            other => ServingStatus::Other(other),
        }
    }
}

impl fmt::Display for ServingStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServingStatus::Unknown => f.write_str("UNKNOWN"),
            ServingStatus::Serving => f.write_str("SERVING"),
            ServingStatus::NotServing => f.write_str("NOT_SERVING"),
            ServingStatus::ServiceUnknown => f.write_str("SERVICE_UNKNOWN"),
            ServingStatus::Other(number) => write!(f, "status {number}, which the health protocol does not have"),
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn varint(&mut self) -> Result<u64, MessageFault> {
        let mut value = 0_u64;
        for (position, byte) in self.0.iter().take(VARINT_BYTES_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has one bit left.
            if position == VARINT_BYTES_MAX - 1 && bits > 1 {
                return Err(MessageFault::NotProtobuf);
            }
            value |= bits << (7 * position);
            if byte & 0x80 == 0 {
                self.0 = &self.0[position + 1..];
                return Ok(value);
            }
        }
        Err(if self.0.len() < VARINT_BYTES_MAX { MessageFault::Truncated } else { MessageFault::NotProtobuf })
    }

    fn skip(&mut self, bytes: u64) -> Result<(), MessageFault> {
        let bytes = usize::try_from(bytes).map_err(|_| MessageFault::Truncated)?;
        self.0 = self.0.get(bytes..).ok_or(MessageFault::Truncated)?;
        Ok(())
    }
}

fn write_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_BYTES_MAX, MessageFault, ServingStatus, read_answer, write_question};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    fn framed(message: &[u8]) -> Vec<u8> {
        let mut frame = vec![0];
        frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
        frame.extend_from_slice(message);
        frame
    }

    #[track_caller]
    fn check(frame: &[u8], expect: Result<ServingStatus, MessageFault>) {
        assert_eq!(read_answer(frame), expect, "{}", frame.escape_ascii());
    }

    #[test]
    fn an_answer_is_one_status() {
        check(&framed(b""), Ok(ServingStatus::Unknown));
        check(&framed(b"\x08\x01"), Ok(ServingStatus::Serving));
        check(&framed(b"\x08\x02"), Ok(ServingStatus::NotServing));
        check(&framed(b"\x08\x03"), Ok(ServingStatus::ServiceUnknown));
        check(&framed(b"\x08\xac\x02"), Ok(ServingStatus::Other(300)));
        // The last one counts, and what is not known is passed over.
        check(&framed(b"\x08\x02\x08\x01"), Ok(ServingStatus::Serving));
        check(&framed(b"\x12\x02ab\x19\0\0\0\0\0\0\0\0\x25\0\0\0\0\x30\x05\x08\x01"), Ok(ServingStatus::Serving));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        check(b"", Err(MessageFault::Truncated));
        check(b"\0\0\0\0", Err(MessageFault::Truncated));
        check(b"\0\0\0\0\x02\x08", Err(MessageFault::Truncated));
        check(b"\0\xff\xff\xff\xff\x08\x01", Err(MessageFault::Truncated));
        check(b"\x01\0\0\0\x02\x08\x01", Err(MessageFault::Compressed));
        check(b"\0\0\0\0\x02\x08\x01\0\0\0\0\x02\x08\x01", Err(MessageFault::Trailing));
        check(&framed(b"\x08"), Err(MessageFault::Truncated));
        check(&framed(b"\x08\xff"), Err(MessageFault::Truncated));
        check(&framed(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), Err(MessageFault::NotProtobuf));
        check(&framed(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Err(MessageFault::NotProtobuf));
        check(&framed(b"\x0b\x0c"), Err(MessageFault::NotProtobuf));
        check(&framed(b"\0\x01"), Err(MessageFault::NotProtobuf));
        check(&framed(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Err(MessageFault::Truncated));
        check(&framed(&[0; MESSAGE_BYTES_MAX]), Err(MessageFault::TooLong));
    }

    #[test]
    fn a_question_is_a_name_or_nothing() {
        assert_eq!(write_question(""), b"\0\0\0\0\0");
        assert_eq!(write_question("shop"), b"\0\0\0\0\x06\x0a\x04shop");
        let long = write_question(&"x".repeat(300));
        assert_eq!(long[..8], *b"\0\0\0\x01\x2f\x0a\xac\x02");
    }

    proptest! {
        #[test]
        fn every_number_is_read_as_it_was_written(number in any::<u64>()) {
            let mut message = vec![0x08];
            super::write_varint(&mut message, number);
            prop_assert_eq!(read_answer(&framed(&message)), Ok(ServingStatus::of(number)));
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        bolero::check!().for_each(|input: &[u8]| {
            let _ = read_answer(input);
            // Bytes drawn at random seldom get past the frame.
            let inner = &input[..input.len().min(MESSAGE_BYTES_MAX - 5)];
            assert!(!matches!(
                read_answer(&framed(inner)),
                Err(MessageFault::TooLong | MessageFault::Compressed | MessageFault::Trailing)
            ));
        });
    }
}
