//! Which stream is sent next (RFC 9218): by urgency; of one urgency those that are of use only as a whole one after
//! the other, the others in turn. Dependencies of RFC 7540 are read past.

use crate::h2::stream::StreamKey;

/// How urgent a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// Parts of it are of use before the rest is there, so that it shares with others.
    pub is_incremental: bool,
}

/// RFC 9218 section 4.1.
const DEFAULT_URGENCY: u8 = 3;
const URGENCY_MAX: u8 = 7;

impl Default for Priority {
    /// What holds for clients that say nothing. RFC 9218 would have such streams sent one after the other; a client
    /// that knows nothing of priorities has large downloads beside small answers, which must not wait for their end.
    fn default() -> Priority {
        Priority { urgency: DEFAULT_URGENCY, is_incremental: true }
    }
}

impl Priority {
    /// Reads a `priority` field or the value of a PRIORITY_UPDATE: a dictionary (RFC 8941) of which `u` and `i` are
    /// known. What cannot be read is as if it were not there (RFC 9218 section 4).
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority { urgency: DEFAULT_URGENCY, is_incremental: false };
        for member in value.split(|byte| *byte == b',') {
            // Parameters of a member have no meaning here.
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.is_incremental = true,
                b"i=?0" => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// Streams that have something to send and a window for it. Few at a time, as most answers are sent whole at once.
#[derive(Debug, Default)]
pub struct Ready {
    waiting: Vec<Waiting>,
    /// Counts what was sent, so that streams of one urgency take turns.
    turn: u32,
}

#[derive(Debug)]
struct Waiting {
    key: StreamKey,
    priority: Priority,
    /// When it was its turn last.
    turn: u32,
}

impl Ready {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts a stream in; it is there once however often it is put in.
    pub fn insert(&mut self, key: StreamKey, priority: Priority) {
        match self.waiting.iter_mut().find(|waiting| waiting.key == key) {
            Some(waiting) => waiting.priority = priority,
            None => self.waiting.push(Waiting { key, priority, turn: self.turn }),
        }
    }

    pub fn remove(&mut self, key: StreamKey) {
        self.waiting.retain(|waiting| waiting.key != key);
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
    }

    /// The stream whose turn it is. It stays in until [`remove`](Self::remove).
    pub fn next(&mut self) -> Option<StreamKey> {
        // Streams that share come behind one that is wanted whole, in the order of their last turns.
        let order = |waiting: &&mut Waiting| {
            let Waiting { key, priority, turn } = &**waiting;
            let place = if priority.is_incremental { self.turn.wrapping_sub(*turn) } else { key.id };
            let rank = if priority.is_incremental { u32::MAX - place } else { place };
            (priority.urgency.min(URGENCY_MAX), priority.is_incremental, rank, key.id)
        };
        let next = self.waiting.iter_mut().min_by_key(order)?;
        self.turn = self.turn.wrapping_add(1);
        next.turn = self.turn;
        Some(next.key)
    }
}

#[cfg(test)]
mod tests {
    use super::{Priority, Ready};
    use crate::h2::stream::StreamKey;

    #[test]
    fn what_is_known_of_a_priority_is_read_and_the_rest_is_not_there() {
        let check = |text: &str, urgency: u8, is_incremental: bool| {
            assert_eq!(Priority::parse(text.as_bytes()), Priority { urgency, is_incremental }, "{text:?}");
        };
        check("", 3, false);
        check("u=0", 0, false);
        check("u=7, i", 7, true);
        check("i,u=5", 5, true);
        check("u=5;x=1, i=?1", 5, true);
        check("i, i=?0", 3, false);
        check("u=8", 3, false);
        check("u=-1, u=x, u", 3, false);
        check("U=1, a=b, \"i\"", 3, false);
        check("u=1, u=2", 2, false);
    }

    #[test]
    fn the_urgent_go_first_and_the_others_take_turns() {
        let check = |streams: &[(u32, &str)], order: &[u32]| {
            let mut ready = Ready::default();
            for (id, priority) in streams {
                let priority = if *priority == "-" { Priority::default() } else { Priority::parse(priority.as_bytes()) };
                ready.insert(StreamKey { slot: 0, id: *id }, priority);
            }
            let seen: Vec<u32> = order.iter().filter_map(|_| ready.next()).map(|key| key.id).collect();
            assert_eq!(seen, order, "{streams:?}");
        };
        check(&[(1, "-"), (3, "-"), (5, "-")], &[1, 3, 5, 1, 3, 5]);
        check(&[(1, "u=5"), (3, "u=0"), (5, "u=3")], &[3, 3, 3]);
        check(&[(5, "u=3"), (3, "u=3")], &[3, 3]);
        check(&[(1, "u=3, i"), (3, "u=3"), (5, "u=3, i")], &[3, 3]);
        check(&[(1, "u=3, i"), (3, "u=4"), (5, "u=3, i")], &[1, 5, 1]);
        let mut ready = Ready::default();
        let key = StreamKey { slot: 0, id: 1 };
        ready.insert(key, Priority::default());
        ready.insert(key, Priority::default());
        ready.remove(key);
        assert!(ready.is_empty() && ready.next().is_none());
    }
}
