//! `rate-limit` and `concurrency-limit`: how much one client, or everybody together, may do. How it is counted is in
//! the crate `limiting`.

use crate::placeholder::{Placeholder, Template};
use std::fmt;
use std::time::Duration;

/// `rate-limit "100/s" burst=200 by="client-ip"`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// Limits of one name in a site count together.
    pub name: Option<String>,
    pub rate: Rate,
    /// Requests that may come at once after a pause.
    pub burst: u32,
    pub by: CountBy,
    /// Bits of an IPv6 address that tell clients apart.
    pub ipv6_prefix: u8,
    /// What a request counts as.
    pub cost: u32,
    /// Keys that are told apart while all of them are active.
    pub keys_max: u32,
    /// Of refusals.
    pub status: u16,
    /// Whether answers say how much is left.
    pub headers: bool,
    /// Counted and logged, but not refused.
    pub dry_run: bool,
}

impl RateLimit {
    pub const STATUS: u16 = 429;
    /// 2 MiB, when they are all there.
    pub const KEYS_MAX: u32 = 1 << 16;

    /// What makes it the same limit after a change of the configuration, within its site or route: neither its place
    /// nor its number, so that counts go on when another limit is written in front of it or when its rate changes.
    pub fn identity(&self) -> String {
        match &self.name {
            Some(name) => format!("name {name}"),
            None => format!("by {} in {:?}", self.by, self.rate.period),
        }
    }

    /// As clients read it in `RateLimit` and `RateLimit-Policy`.
    pub fn policy_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.rate.to_string())
    }
}

/// `100/s`, `10/m`, `5/10s`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// At least 1.
    pub count: u32,
    /// Not zero.
    pub period: Duration,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, char); 4] = [(86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')];
        let seconds = self.period.as_secs();
        if seconds == 0 || self.period.subsec_nanos() != 0 {
            return write!(f, "{}/{}ms", self.count, self.period.as_millis());
        }
        let (factor, unit) = UNITS.into_iter().find(|(factor, _)| seconds.is_multiple_of(*factor)).unwrap_or((1, 's'));
        match seconds / factor {
            1 => write!(f, "{}/{unit}", self.count),
            several => write!(f, "{}/{several}{unit}", self.count),
        }
    }
}

/// `concurrency-limit 10 by="client-ip"`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    /// Limits of one name in a site count together.
    pub name: Option<String>,
    pub requests_max: u32,
    pub by: CountBy,
    /// Bits of an IPv6 address that tell clients apart.
    pub ipv6_prefix: u8,
    /// Of refusals.
    pub status: u16,
    /// Counted and logged, but not refused.
    pub dry_run: bool,
}

impl ConcurrencyLimit {
    /// As [`RateLimit::identity`].
    pub fn identity(&self) -> String {
        match &self.name {
            Some(name) => format!("name {name}"),
            None => format!("by {}", self.by),
        }
    }

    /// Who meets the bound of everybody has done nothing wrong: then it is the service that is busy.
    pub fn default_status(by: &CountBy) -> u16 {
        match by {
            CountBy::All => 503,
            CountBy::Client | CountBy::Text(_) => 429,
        }
    }
}

/// What is counted as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountBy {
    /// The client's address; of IPv6, the network.
    Client,
    /// Everybody together.
    All,
    /// What the placeholders bring; the client's address when they bring nothing.
    Text(Template),
}

impl CountBy {
    /// The networks that providers give to one customer are of this size or larger (RFC 6177): by whole addresses,
    /// everybody would have 2^64.
    pub const IPV6_PREFIX: u8 = 64;

    /// The text with placeholders, where one says who is counted.
    pub fn template(&self) -> Option<&Template> {
        match self {
            CountBy::Text(template) => Some(template),
            CountBy::Client | CountBy::All => None,
        }
    }

    /// Placeholders that are another one for each request, so that nothing would ever be limited.
    pub fn differs_for_each_request(placeholder: &Placeholder) -> bool {
        matches!(placeholder, Placeholder::RequestId | Placeholder::TimeUnixMs)
    }
}

impl fmt::Display for CountBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CountBy::Client => f.write_str("client-ip"),
            CountBy::All => f.write_str("all"),
            CountBy::Text(template) => template.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;
    use std::time::Duration;

    #[test]
    fn a_rate_is_shown_as_it_is_written() {
        let check = |count: u32, seconds: f64, expected: &str| {
            assert_eq!(Rate { count, period: Duration::from_secs_f64(seconds) }.to_string(), expected);
        };
        check(100, 1.0, "100/s");
        check(10, 60.0, "10/m");
        check(5, 3_600.0, "5/h");
        check(1, 86_400.0, "1/d");
        check(5, 10.0, "5/10s");
        check(5, 90.0, "5/90s");
        check(5, 120.0, "5/2m");
        check(5, 0.5, "5/500ms");
    }
}
