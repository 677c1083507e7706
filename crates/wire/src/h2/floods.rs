//! Floods: frames that cost us work without being a request, each kind with a budget: a burst, a refill per second, and
//! a credit for useful work. Frames with data in them are useful work and are never counted, however small: event
//! streams and gRPC send one small frame after the other for hours.

use crate::h2::frame::{END_STREAM, FrameHead, FrameKind};
use std::time::Instant;
use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

/// CONTINUATION frames behind one HEADERS. A 64 KiB head fits into 4 frames of the smallest allowed maximum size; the
/// attack (CVE-2024-27316) never ends the block.
pub const CONTINUATIONS_MAX: u32 = 32;

/// Each answer is a 17-byte frame. gRPC clients measure the delay with one ping per round trip while data comes in,
/// which [`Floods::note_sent`] pays for; keep-alive needs one in ten seconds.
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
/// Streams that are refused because the client's others hold all the memory that they may. Each that is taken pays for
/// two: a proxy in front of us with long heads is refused some and served most; a bomb is thousands of heads that are
/// decoded for nothing.
const REFUSED: Budget = Budget { flood: Flood::HeldMemory, burst: 200, per_second: 20 };
const REFUSED_CREDIT_PER_STREAM: u32 = 2;
/// A ping and two window updates are paid for by this many bytes that we sent: about the smallest event that a stream
/// carries in a frame of its own, and more than the 17 bytes that answer a ping, so that pings cannot pay for
/// themselves.
const SENT_BYTES_PER_CREDIT: u32 = 24;

/// Which budget was overdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Flood {
    #[error("the peer sends too many PING frames")]
    #[strum(serialize = "h2_ping_flood")]
    Ping,
    #[error("the peer sends too many SETTINGS frames")]
    #[strum(serialize = "h2_settings_flood")]
    Settings,
    #[error("the client cancels too many of its requests")]
    #[strum(serialize = "h2_rapid_reset")]
    RapidReset,
    #[error("the peer sends too many frames without effect")]
    #[strum(serialize = "h2_priority_flood")]
    Priority,
    #[error("the client sends too many WINDOW_UPDATE frames")]
    #[strum(serialize = "h2_window_update_flood")]
    WindowUpdate,
    #[error("the peer sends too many empty frames")]
    #[strum(serialize = "h2_empty_data_flood")]
    EmptyData,
    #[error("the peer spreads a head over too many frames")]
    #[strum(serialize = "h2_continuation_flood")]
    Continuation,
    #[error("the client opens streams although its others hold all the memory that they may")]
    #[strum(serialize = "h2_held_memory")]
    HeldMemory,
}

impl Flood {
    /// The code in logs and metrics.
    pub fn reason(self) -> &'static str {
        self.into()
    }
}

/// The account of one connection.
#[derive(Debug)]
pub struct Floods {
    opened: Instant,
    last_stream_id: u32,
    continuations: u32,
    /// What [`note_sent`](Floods::note_sent) has not yet turned into credit.
    sent_bytes: u32,
    ping: Account,
    settings: Account,
    reset: Account,
    priority: Account,
    window_update: Account,
    empty: Account,
    refused: Account,
}

impl Floods {
    pub fn new(now: Instant) -> Floods {
        Floods {
            opened: now,
            last_stream_id: 0,
            continuations: 0,
            sent_bytes: 0,
            ping: Account::full(&PING),
            settings: Account::full(&SETTINGS),
            reset: Account::full(&RESET),
            priority: Account::full(&PRIORITY),
            window_update: Account::full(&WINDOW_UPDATE),
            empty: Account::full(&EMPTY),
            refused: Account::full(&REFUSED),
        }
    }

    /// Bytes of frames that were sent to the peer. What it receives, it may answer with window updates and pings.
    pub fn note_sent(&mut self, bytes: usize) {
        let sent = self.sent_bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.sent_bytes = sent % SENT_BYTES_PER_CREDIT;
        let credit = sent / SENT_BYTES_PER_CREDIT;
        self.ping.credit(&PING, credit);
        self.window_update.credit(&WINDOW_UPDATE, credit.saturating_mul(2));
    }

    /// A stream that we reset for a fault of the peer's: it has the same work done as by resetting it itself
    /// (CVE-2025-8671).
    pub fn count_provoked_reset(&mut self, now: Instant) -> Result<(), Flood> {
        self.reset.spend(&RESET, RESET_COST, self.opened, now)
    }

    /// A stream was taken.
    pub fn note_taken(&mut self) {
        self.refused.credit(&REFUSED, REFUSED_CREDIT_PER_STREAM);
    }

    /// A stream that was refused because the client's others hold all the memory that they may.
    pub fn count_refused_for_memory(&mut self, now: Instant) -> Result<(), Flood> {
        self.refused.spend(&REFUSED, 1, self.opened, now)
    }

    /// Counts a frame whose payload has `content_len` bytes beside padding. After an error the connection is to be
    /// closed.
    pub fn count(&mut self, head: FrameHead, content_len: u32, now: Instant) -> Result<(), Flood> {
        let opened = self.opened;
        match FrameKind::from_repr(head.kind) {
            // The empty frame that ends a stream is how many clients finish a request; there is one per stream at most.
            Some(FrameKind::Data) if content_len == 0 && !head.has(END_STREAM) => self.empty.spend(&EMPTY, 1, opened, now),
            Some(FrameKind::Data) if content_len == 0 => Ok(()),
            Some(FrameKind::Data) => {
                self.credit_work();
                Ok(())
            }
            Some(FrameKind::Headers) => {
                self.continuations = 0;
                if head.stream > self.last_stream_id {
                    self.last_stream_id = head.stream;
                    self.credit_work();
                    self.reset.credit(&RESET, 1);
                    self.priority.credit(&PRIORITY, PRIORITY_CREDIT_PER_STREAM);
                }
                if content_len == 0 { self.empty.spend(&EMPTY, 1, opened, now) } else { Ok(()) }
            }
            Some(FrameKind::Continuation) => {
                self.continuations += 1;
                if self.continuations > CONTINUATIONS_MAX {
                    return Err(Flood::Continuation);
                }
                if content_len == 0 { self.empty.spend(&EMPTY, 1, opened, now) } else { Ok(()) }
            }
            Some(FrameKind::Ping) => self.ping.spend(&PING, 1, opened, now),
            Some(FrameKind::Settings) => self.settings.spend(&SETTINGS, 1, opened, now),
            Some(FrameKind::RstStream) => self.reset.spend(&RESET, RESET_COST, opened, now),
            Some(FrameKind::WindowUpdate) => self.window_update.spend(&WINDOW_UPDATE, 1, opened, now),
            Some(FrameKind::Priority | FrameKind::PriorityUpdate | FrameKind::PushPromise | FrameKind::GoAway) | None => {
                self.priority.spend(&PRIORITY, 1, opened, now)
            }
        }
    }

    /// A request or a piece of a body came.
    fn credit_work(&mut self) {
        self.ping.credit(&PING, 1);
        self.window_update.credit(&WINDOW_UPDATE, 2);
        self.empty.credit(&EMPTY, 1);
    }
}

#[derive(Debug)]
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

#[cfg(test)]
mod tests;
