//! What a script writes to STDERR: kept up to a bound, and one line of the event log when its answer is over.

use std::sync::Arc;
use tidegate_telemetry::EventGate;
use tidegate_transport::rt;

/// What is logged of one answer's complaints.
const LOGGED_BYTES_MAX: usize = 4 << 10;
/// An answer with more than this is given up: a server that only complains must not keep a request for ever.
const BYTES_MAX: usize = 1 << 20;

/// Lines that a process logs per second.
static GATE: EventGate = EventGate::new(20);

pub struct Complaints {
    server: Arc<str>,
    request_id: u128,
    kept: Vec<u8>,
    /// All of them, also those that are not kept.
    bytes: usize,
}

/// More than any script has to complain about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

impl Complaints {
    pub fn new(server: Arc<str>, request_id: u128) -> Complaints {
        Complaints { server, request_id, kept: Vec::new(), bytes: 0 }
    }

    pub fn add(&mut self, piece: &[u8]) -> Result<(), TooMany> {
        self.bytes += piece.len();
        let room = LOGGED_BYTES_MAX - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
        if self.bytes > BYTES_MAX { Err(TooMany) } else { Ok(()) }
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let Some(suppressed) = GATE.allow(rt::now()) else { return };
        let request = format_args!("{:032x}", self.request_id);
        let left_out_bytes = self.bytes - self.kept.len();
        let stderr = on_one_line(&self.kept);
        tracing::warn!(server = %self.server, %request, %stderr, left_out_bytes, suppressed, "a script complains");
    }
}

/// Nothing in it can begin a line of its own or tell a terminal what to do.
fn on_one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut line = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        match c {
            '\n' => line.push_str("\\n"),
            // The line and paragraph separators, and what turns the direction of writing.
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => line.extend(c.escape_unicode()),
            c if c.is_control() => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Complaints, LOGGED_BYTES_MAX, TooMany, on_one_line};

    #[test]
    fn a_complaint_is_one_line_and_moves_no_cursor() {
        let check = |text: &str, expected: &str| assert_eq!(on_one_line(text.as_bytes()), expected);
        check("PHP Warning: ü in a.php\n", "PHP Warning: ü in a.php");
        check("one\ntwo\r\n", "one\\ntwo");
        check("a\u{1b}[31mb\tc", "a\\u{1b}[31mb\\u{9}c");
        check("a\u{202e}b", "a\\u{202e}b");
        assert_eq!(on_one_line(b"\xff!"), "\u{fffd}!");
    }

    #[test]
    fn complaints_are_bounded() {
        let mut complaints = Complaints::new("s".into(), 1);
        let piece = [b'x'; 1 << 10];
        for _ in 0..BYTES_MAX / piece.len() {
            assert_eq!(complaints.add(&piece), Ok(()));
        }
        assert_eq!(complaints.kept.len(), LOGGED_BYTES_MAX);
        assert_eq!(complaints.add(b"!"), Err(TooMany));
    }
}
