//! The current second as text, made once a second instead of once a line.

use jiff::Timestamp;
use jiff::tz::Offset;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// UTC. One for each worker.
#[derive(Debug, Default)]
pub(super) struct SecondText {
    second: Option<u64>,
    rfc3339: String,
    common: String,
}

impl SecondText {
    /// `2026-11-20T11:15:57.123Z`
    pub fn push_rfc3339(&mut self, line: &mut Vec<u8>, time_unix_us: u64) {
        self.turn_to(time_unix_us / 1_000_000);
        line.extend_from_slice(self.rfc3339.as_bytes());
        let milliseconds = (time_unix_us / 1000 % 1000) as u16;
        let digit = |value: u16| b'0' + (value % 10) as u8;
        line.extend_from_slice(&[b'.', digit(milliseconds / 100), digit(milliseconds / 10), digit(milliseconds), b'Z']);
    }

    /// `20/Nov/2026:11:15:57 +0000`
    pub fn push_common(&mut self, line: &mut Vec<u8>, time_unix_us: u64) {
        self.turn_to(time_unix_us / 1_000_000);
        line.extend_from_slice(self.common.as_bytes());
    }

    #[inline]
    fn turn_to(&mut self, second: u64) {
        if self.second != Some(second) {
            self.make(second);
        }
    }

    #[cold]
    fn make(&mut self, second: u64) {
        self.second = Some(second);
        let timestamp = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
        let time = Offset::UTC.to_datetime(timestamp.unwrap_or(Timestamp::UNIX_EPOCH));
        let clock = format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second());
        self.rfc3339 = format!("{:04}-{:02}-{:02}T{clock}", time.year(), time.month(), time.day());
        let month = MONTHS[usize::from(time.month().unsigned_abs()) - 1];
        self.common = format!("{:02}/{month}/{:04}:{clock} +0000", time.day(), time.year());
    }
}

#[cfg(test)]
mod tests {
    use super::SecondText;

    #[test]
    fn times_in_both_forms() {
        let mut second = SecondText::default();
        let mut check = |time_unix_us: u64, rfc3339: &str, common: &str| {
            let mut line = Vec::new();
            second.push_rfc3339(&mut line, time_unix_us);
            line.push(b'|');
            second.push_common(&mut line, time_unix_us);
            assert_eq!(String::from_utf8(line).expect("ASCII"), format!("{rfc3339}|{common}"));
        };
        check(0, "1970-01-01T00:00:00.000Z", "01/Jan/1970:00:00:00 +0000");
        check(1_795_173_357_123_999, "2026-11-20T11:15:57.123Z", "20/Nov/2026:11:15:57 +0000");
        check(1_795_173_357_007_000, "2026-11-20T11:15:57.007Z", "20/Nov/2026:11:15:57 +0000");
        check(1_709_251_199_999_999, "2024-02-29T23:59:59.999Z", "29/Feb/2024:23:59:59 +0000");
        check(u64::MAX, "1970-01-01T00:00:00.551Z", "01/Jan/1970:00:00:00 +0000");
    }
}
