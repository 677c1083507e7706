//! Times and sizes as nginx and ingress-nginx have them written.

use std::time::Duration;

/// `true` and `false`, as Go reads them.
pub fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A number of seconds, which may say so.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let number = text.strip_suffix('s').unwrap_or(text);
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok()).flatten()
}

/// As nginx writes times: numbers with units, the greater before the smaller, and without a unit seconds: `1h 30m`.
pub(super) fn time(text: &str) -> Option<Duration> {
    /// Milliseconds of each, the greatest first. Months have 30 days there, and years 365.
    const UNITS: [(&str, u64); 8] = [
        ("y", 365 * 86_400_000),
        ("M", 30 * 86_400_000),
        ("w", 7 * 86_400_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let (mut total, mut rest, mut units) = (0_u64, text.trim(), &UNITS[..]);
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let (unit, behind) = behind.split_at(behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len()));
        let unit = if unit.is_empty() { "s" } else { unit };
        let place = units.iter().position(|(name, _)| *name == unit)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(units[place].1)?)?;
        (rest, units) = (behind.trim_start(), &units[place + 1..]);
    }
    (!text.trim().is_empty()).then(|| Duration::from_millis(total))
}

/// As nginx writes sizes: a number of bytes, or of so many with `k`, `m` or `g`.
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number = Some(number).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?;
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::{seconds, size, time};
    use std::time::Duration;

    #[test]
    fn numbers_of_seconds() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(seconds(text), expected, "{text}");
        check("0", Some(0));
        check("60", Some(60));
        check("60s", Some(60));
        check("", None);
        check("s", None);
        check("-1", None);
        check("+1", None);
        check("1m", None);
    }

    #[test]
    fn times() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(time(text), expected.map(Duration::from_millis), "{text}");
        check("10", Some(10_000));
        check("10m", Some(600_000));
        check("1h30m", Some(5_400_000));
        check("1h 30m", Some(5_400_000));
        check("500ms", Some(500));
        check("1d", Some(86_400_000));
        check("1M", Some(30 * 86_400_000));
        check("30m1h", None);
        check("10x", None);
        check("m", None);
        check("", None);
        check("-1", None);
        check("99999999999999999999", None);
        check("9999999999999y", None);
    }

    #[test]
    fn sizes() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(size(text), expected, "{text}");
        check("0", Some(0));
        check("100", Some(100));
        check("8m", Some(8 << 20));
        check("8M", Some(8 << 20));
        check("64k", Some(64 << 10));
        check("1g", Some(1 << 30));
        check("", None);
        check("m", None);
        check("8 m", None);
        check("-1", None);
        check("8mb", None);
        check("99999999999g", None);
    }
}
