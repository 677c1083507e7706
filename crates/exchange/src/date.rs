//! The `Date` field (RFC 9110 section 6.6.1), formatted once a second per worker.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

pub const DATE_BYTES: usize = 29;

#[derive(Default)]
pub struct DateClock {
    second: Cell<u64>,
    text: Cell<[u8; DATE_BYTES]>,
}

impl DateClock {
    /// `now` in IMF-fixdate form.
    pub fn text(&self, now: SystemTime) -> [u8; DATE_BYTES] {
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.second.replace(second) != second || second == 0 {
            self.text.set(imf_fixdate(second));
        }
        self.text.get()
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(unix_seconds: u64) -> [u8; DATE_BYTES] {
    const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let days = unix_seconds / 86_400;
    let (year, month, day) = civil_from_days(days);
    let second = unix_seconds % 86_400;
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let mut two = |at: usize, number: u64| {
        out[at] = b'0' + (number / 10 % 10) as u8;
        out[at + 1] = b'0' + (number % 10) as u8;
    };
    two(5, day);
    two(12, year / 100);
    two(14, year % 100);
    two(17, second / 3600);
    two(20, second / 60 % 60);
    two(23, second % 60);
    out[..3].copy_from_slice(DAYS[(days % 7) as usize]);
    out[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    out
}

/// The proleptic Gregorian date so many days after 1970-01-01: eras of 400 years, counted from the first of March.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::imf_fixdate;

    #[test]
    fn dates_on_both_sides_of_every_kind_of_edge() {
        let check = |seconds: u64, expected: &str| assert_eq!(std::str::from_utf8(&imf_fixdate(seconds)), Ok(expected));
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT");
        check(1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT");
        check(4_102_444_800, "Fri, 01 Jan 2100 00:00:00 GMT");
    }
}
