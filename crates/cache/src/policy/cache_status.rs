//! The value of `Cache-Status` (RFC 9211): what the cache did with a request. The key is never shown, since it may hold
//! secrets. What a lookup says about forwarding is in `store`.

use crate::message::is_token;
use std::fmt::Write;

/// Why a request was forwarded (RFC 9211 section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    UriMiss,
    VaryMiss,
    Stale,
    Request,
    Bypass,
    Method,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    Hit {
        /// Negative when it is stale.
        ttl_seconds: i64,
    },
    Forwarded {
        why: Forward,
        /// Of the upstream, when it differs from what the client gets.
        status: Option<u16>,
        ttl_seconds: Option<i64>,
        stored: bool,
        collapsed: bool,
    },
}

impl CacheStatus {
    /// In one word, for a log.
    pub fn word(self) -> &'static str {
        match self {
            CacheStatus::Hit { ttl_seconds } if ttl_seconds < 0 => "stale",
            CacheStatus::Hit { .. } => "hit",
            CacheStatus::Forwarded { collapsed: true, .. } => "collapsed",
            CacheStatus::Forwarded { status: Some(304), .. } => "revalidated",
            CacheStatus::Forwarded { why: Forward::Bypass | Forward::Method | Forward::Request, stored: false, .. } => "bypass",
            CacheStatus::Forwarded { .. } => "miss",
        }
    }

    /// As one member of the list; `cache` is this proxy's name.
    pub fn value(&self, cache: &str) -> String {
        let mut value = name(cache);
        match *self {
            CacheStatus::Hit { ttl_seconds } => {
                let _ = write!(value, "; hit; ttl={ttl_seconds}");
            }
            CacheStatus::Forwarded { why, status, ttl_seconds, stored, collapsed } => {
                let _ = write!(value, "; fwd={}", why.word());
                if let Some(status) = status {
                    let _ = write!(value, "; fwd-status={status}");
                }
                if let Some(ttl_seconds) = ttl_seconds {
                    let _ = write!(value, "; ttl={ttl_seconds}");
                }
                value.push_str(if stored { "; stored" } else { "" });
                value.push_str(if collapsed { "; collapsed" } else { "" });
            }
        }
        value
    }
}

impl Forward {
    fn word(self) -> &'static str {
        match self {
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Stale => "stale",
            Forward::Request => "request",
            Forward::Bypass => "bypass",
            Forward::Method => "method",
        }
    }
}

/// As a token where it is one, or else as a string (RFC 8941 section 3.3).
fn name(cache: &str) -> String {
    if is_token(cache.as_bytes()) && cache.starts_with(|first: char| first.is_ascii_alphabetic() || first == '*') {
        return cache.to_owned();
    }
    let printable = cache.chars().filter(|byte| matches!(byte, ' '..='~'));
    let mut quoted = String::from("\"");
    for byte in printable {
        if matches!(byte, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(byte);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::{CacheStatus, Forward};

    #[test]
    fn the_value_says_what_was_done_and_never_the_key() {
        let check = |status: CacheStatus, expected: &str| assert_eq!(status.value("tidegate"), expected);
        check(CacheStatus::Hit { ttl_seconds: 30 }, "tidegate; hit; ttl=30");
        check(CacheStatus::Hit { ttl_seconds: -5 }, "tidegate; hit; ttl=-5");
        let forwarded = |why| CacheStatus::Forwarded { why, status: None, ttl_seconds: None, stored: false, collapsed: false };
        check(forwarded(Forward::UriMiss), "tidegate; fwd=uri-miss");
        check(forwarded(Forward::VaryMiss), "tidegate; fwd=vary-miss");
        check(forwarded(Forward::Request), "tidegate; fwd=request");
        check(forwarded(Forward::Bypass), "tidegate; fwd=bypass");
        check(forwarded(Forward::Method), "tidegate; fwd=method");
        let all = (Forward::Stale, Some(304), Some(60), true, true);
        let (why, status, ttl_seconds, stored, collapsed) = all;
        let all = CacheStatus::Forwarded { why, status, ttl_seconds, stored, collapsed };
        check(all, "tidegate; fwd=stale; fwd-status=304; ttl=60; stored; collapsed");
    }

    #[test]
    fn a_name_that_is_no_token_is_quoted() {
        let check = |name: &str, expected: &str| {
            assert_eq!(CacheStatus::Hit { ttl_seconds: 0 }.value(name), format!("{expected}; hit; ttl=0"));
        };
        check("edge-1.example", "edge-1.example");
        check("1edge", "\"1edge\"");
        check("a \"b\"\r\n", "\"a \\\"b\\\"\"");
    }
}
