//! Counts the frames a client sends on an HTTP/2 connection, beneath the library that speaks the protocol, and says
//! when they are an attack. It reads frame headers only (RFC 9113 section 4.1); whether frames are valid is the
//! library's business.
//!
//! Every kind of frame that costs us work without being a request has a budget: a burst, a refill per second, and a
//! credit for useful work. Frames with data in them are useful work and are never counted, however small: event streams
//! and gRPC send one small frame after the other for hours.

use std::time::Instant;
use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

/// What a client opens an HTTP/2 connection with (RFC 9113 section 3.4). The guard is fed with what follows it.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// CONTINUATION frames behind one HEADERS. A 64 KiB head fits into 4 frames of the smallest allowed maximum size; the
/// attack (CVE-2024-27316) never ends the block.
pub const CONTINUATIONS_MAX: u32 = 32;

/// Each answer is a 17-byte frame. gRPC clients measure the delay with one ping per round trip while data comes in,
/// which [`H2Guard::note_sent`] pays for; keep-alive needs one in ten seconds.
const PING: Budget = Budget { flood: Flood::Ping, burst: 1000, per_second: 100 };
/// Clients send one at the start, one acknowledgement of ours, and hardly ever another.
const SETTINGS: Budget = Budget { flood: Flood::Settings, burst: 50, per_second: 5 };
/// Counted in quarters: one reset costs four, each new stream pays one back. A client that cancels up to a quarter of
/// its requests, as browsers and hedging gRPC clients do, is never stopped; one that cancels all of them
/// (CVE-2023-44487) after some 270.
const RESET: Budget = Budget { flood: Flood::RapidReset, burst: 200 * RESET_COST, per_second: 50 * RESET_COST };
const RESET_COST: u32 = 4;
/// PRIORITY, PRIORITY_UPDATE and everything else that we do not act on. Browsers send a handful at the start and some
/// per request.
const PRIORITY: Budget = Budget { flood: Flood::Priority, burst: 500, per_second: 50 };
const PRIORITY_CREDIT_PER_STREAM: u32 = 4;
/// Two per frame that we send is the most that a client has a reason for.
const WINDOW_UPDATE: Budget = Budget { flood: Flood::WindowUpdate, burst: 4000, per_second: 1000 };
/// Frames that carry nothing and end nothing (CVE-2019-9518). Some writers send one when they are flushed.
const EMPTY: Budget = Budget { flood: Flood::EmptyData, burst: 200, per_second: 50 };
/// A ping and two window updates are paid for by this many bytes that we sent: about the smallest event that a stream
/// carries in a frame of its own, and more than the 17 bytes that answer a ping, so that pings cannot pay for
/// themselves.
const SENT_BYTES_PER_CREDIT: u32 = 24;

/// Which budget was overdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Flood {
    #[error("the client sends too many PING frames")]
    #[strum(serialize = "h2_ping_flood")]
    Ping,
    #[error("the client sends too many SETTINGS frames")]
    #[strum(serialize = "h2_settings_flood")]
    Settings,
    #[error("the client cancels too many of its requests")]
    #[strum(serialize = "h2_rapid_reset")]
    RapidReset,
    #[error("the client sends too many frames without effect")]
    #[strum(serialize = "h2_priority_flood")]
    Priority,
    #[error("the client sends too many WINDOW_UPDATE frames")]
    #[strum(serialize = "h2_window_update_flood")]
    WindowUpdate,
    #[error("the client sends too many empty frames")]
    #[strum(serialize = "h2_empty_data_flood")]
    EmptyData,
    #[error("the client spreads a head over too many frames")]
    #[strum(serialize = "h2_continuation_flood")]
    Continuation,
}

impl Flood {
    /// The code in logs and metrics.
    pub fn reason(self) -> &'static str {
        self.into()
    }
}

/// A GOAWAY with ENHANCE_YOUR_CALM, the last thing that is sent before the connection is closed. It names the highest
/// stream id, as only the library knows which one was really last.
pub fn goaway_enhance_your_calm() -> [u8; 17] {
    [0, 0, 8, GOAWAY_FRAME, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0xb]
}

/// The account of one connection.
#[derive(Debug)]
pub struct H2Guard {
    opened: Instant,
    /// The header of the next frame as far as it is there, and the pad length of a padded DATA frame.
    header: [u8; 10],
    header_len: u8,
    /// Bytes to skip before the next header.
    payload_left: u32,
    last_stream_id: u32,
    continuations: u32,
    /// What [`note_sent`](H2Guard::note_sent) has not yet turned into credit.
    sent_bytes: u32,
    ping: Account,
    settings: Account,
    reset: Account,
    priority: Account,
    window_update: Account,
    empty: Account,
}

impl H2Guard {
    pub fn new(now: Instant) -> H2Guard {
        H2Guard {
            opened: now,
            header: [0; 10],
            header_len: 0,
            payload_left: 0,
            last_stream_id: 0,
            continuations: 0,
            sent_bytes: 0,
            ping: Account::full(&PING),
            settings: Account::full(&SETTINGS),
            reset: Account::full(&RESET),
            priority: Account::full(&PRIORITY),
            window_update: Account::full(&WINDOW_UPDATE),
            empty: Account::full(&EMPTY),
        }
    }

    /// Takes the next bytes from the client, in any fragmentation. After an error the connection is to be closed.
    pub fn observe(&mut self, mut bytes: &[u8], now: Instant) -> Result<(), Flood> {
        loop {
            let skipped = bytes.len().min(self.payload_left as usize);
            self.payload_left -= skipped as u32;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return Ok(());
            }
            let have = self.header_len as usize;
            let wanted = if have >= 9 { 10 } else { 9 };
            let piece = bytes.len().min(wanted - have);
            self.header[have..have + piece].copy_from_slice(&bytes[..piece]);
            self.header_len += piece as u8;
            bytes = &bytes[piece..];
            if have + piece == wanted {
                self.handle_header(now)?;
            }
        }
    }

    /// Bytes of frames that were sent to the client. What it receives, it may answer with window updates and pings.
    pub fn note_sent(&mut self, bytes: usize) {
        let sent = self.sent_bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.sent_bytes = sent % SENT_BYTES_PER_CREDIT;
        let credit = sent / SENT_BYTES_PER_CREDIT;
        self.ping.credit(&PING, credit);
        self.window_update.credit(&WINDOW_UPDATE, credit.saturating_mul(2));
    }

    fn handle_header(&mut self, now: Instant) -> Result<(), Flood> {
        let [a, b, c, kind, flags, s0, s1, s2, s3, pad_len] = self.header;
        let len = u32::from_be_bytes([0, a, b, c]);
        let is_padded_data = kind == DATA_FRAME && flags & PADDED != 0 && len > 0;
        if is_padded_data && self.header_len == 9 {
            return Ok(());
        }
        let pad_bytes = if is_padded_data { 1 + u32::from(pad_len) } else { 0 };
        self.payload_left = len - u32::from(is_padded_data);
        self.header_len = 0;
        let content_len = len.saturating_sub(pad_bytes);
        let stream_id = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        self.count(kind, flags, stream_id, content_len, now)
    }

    fn count(&mut self, kind: u8, flags: u8, stream_id: u32, content_len: u32, now: Instant) -> Result<(), Flood> {
        let opened = self.opened;
        match kind {
            // The empty frame that ends a stream is how many clients finish a request; there is one per stream at most.
            DATA_FRAME if content_len == 0 && flags & END_STREAM == 0 => self.empty.spend(&EMPTY, 1, opened, now),
            DATA_FRAME if content_len == 0 => Ok(()),
            DATA_FRAME => {
                self.credit_work();
                Ok(())
            }
            HEADERS_FRAME => {
                self.continuations = 0;
                if stream_id > self.last_stream_id {
                    self.last_stream_id = stream_id;
                    self.credit_work();
                    self.reset.credit(&RESET, 1);
                    self.priority.credit(&PRIORITY, PRIORITY_CREDIT_PER_STREAM);
                }
                if content_len == 0 { self.empty.spend(&EMPTY, 1, opened, now) } else { Ok(()) }
            }
            CONTINUATION_FRAME => {
                self.continuations += 1;
                if self.continuations > CONTINUATIONS_MAX {
                    return Err(Flood::Continuation);
                }
                if content_len == 0 { self.empty.spend(&EMPTY, 1, opened, now) } else { Ok(()) }
            }
            PING_FRAME => self.ping.spend(&PING, 1, opened, now),
            SETTINGS_FRAME => self.settings.spend(&SETTINGS, 1, opened, now),
            RST_STREAM_FRAME => self.reset.spend(&RESET, RESET_COST, opened, now),
            WINDOW_UPDATE_FRAME => self.window_update.spend(&WINDOW_UPDATE, 1, opened, now),
            _ => self.priority.spend(&PRIORITY, 1, opened, now),
        }
    }

    /// A request or a piece of a body came.
    fn credit_work(&mut self) {
        self.ping.credit(&PING, 1);
        self.window_update.credit(&WINDOW_UPDATE, 2);
        self.empty.credit(&EMPTY, 1);
    }
}

struct Budget {
    flood: Flood,
    burst: u32,
    per_second: u32,
}

/// A token bucket that looks at the time only when it is empty.
#[derive(Debug)]
struct Account {
    tokens: u32,
    /// Milliseconds from the connection's opening to the last refill, modulo 2^32.
    refilled_ms: u32,
}

impl Account {
    fn full(budget: &Budget) -> Account {
        Account { tokens: budget.burst, refilled_ms: 0 }
    }

    fn credit(&mut self, budget: &Budget, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens).min(budget.burst);
    }

    fn spend(&mut self, budget: &Budget, cost: u32, opened: Instant, now: Instant) -> Result<(), Flood> {
        if self.tokens < cost {
            let now_ms = now.saturating_duration_since(opened).as_millis() as u32;
            let elapsed_ms = u64::from(now_ms.wrapping_sub(self.refilled_ms));
            let refill = elapsed_ms * u64::from(budget.per_second) / 1000;
            self.refilled_ms = now_ms;
            self.credit(budget, u32::try_from(refill).unwrap_or(u32::MAX));
        }
        self.tokens = self.tokens.checked_sub(cost).ok_or(budget.flood)?;
        Ok(())
    }
}

const DATA_FRAME: u8 = 0;
const HEADERS_FRAME: u8 = 1;
const RST_STREAM_FRAME: u8 = 3;
const SETTINGS_FRAME: u8 = 4;
const PING_FRAME: u8 = 6;
const GOAWAY_FRAME: u8 = 7;
const WINDOW_UPDATE_FRAME: u8 = 8;
const CONTINUATION_FRAME: u8 = 9;
const END_STREAM: u8 = 0x1;
const PADDED: u8 = 0x8;

#[cfg(test)]
mod tests;
