//! Durations, sizes and rates as they are written, with the units spelled in the messages. Bounds are checked by the
//! caller.

use std::time::Duration;

/// `"250ms"`, `"5s"`, `"2m"`, `"1h"`, `"1h30m"`. A bare number is refused, because nobody knows its unit.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let unit_names = "`ms`, `s`, `m`, `h` or `d`";
    let mut rest = text;
    let mut milliseconds: u64 = 0;
    let mut previous_unit = u64::MAX;
    while !rest.is_empty() {
        let (number, unit, after) =
            split_quantity(rest).ok_or_else(|| format!("`{text}` is not a duration, as `5s` and `1h30m` are"))?;
        if unit.is_empty() {
            return Err(format!("`{text}` has no unit: write {unit_names} behind the number"));
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(match meant_unit(unit) {
                Some(meant) if meant == unit.trim() => {
                    format!("no blank stands in a duration: write `{}`", with_unit(text, unit, meant))
                }
                Some(meant) => format!("`{}` is not a unit of time: write `{}`", unit.trim(), with_unit(text, unit, meant)),
                None => format!("`{}` is not a unit of time: {unit_names} are", unit.trim()),
            });
        };
        if *factor >= previous_unit {
            return Err(format!("in `{text}` the larger unit has to come first"));
        }
        previous_unit = *factor;
        let part = scaled(number, *factor).ok_or_else(|| format!("`{text}` is not a duration, as `5s` and `1h30m` are"))?;
        milliseconds = milliseconds.checked_add(part).ok_or_else(|| format!("`{text}` is too long"))?;
        rest = after;
    }
    if text.is_empty() {
        return Err("an empty text is not a duration, as `5s` and `1h30m` are".into());
    }
    Ok(Duration::from_millis(milliseconds))
}

/// What others call a unit, in their language or with a blank in front of it.
fn meant_unit(unit: &str) -> Option<&'static str> {
    match unit.trim().to_ascii_lowercase().as_str() {
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => Some("ms"),
        "s" | "sec" | "secs" | "second" | "seconds" => Some("s"),
        "m" | "min" | "mins" | "minute" | "minutes" => Some("m"),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some("h"),
        "d" | "day" | "days" => Some("d"),
        _ => None,
    }
}

/// A text with the right unit in the place of what was written for it.
fn with_unit(text: &str, written: &str, meant: &str) -> String {
    let text = text.replacen(written, meant, 1);
    text.split_whitespace().collect()
}

/// `"512"` (bytes), `"64KiB"`, `"10MB"`. KiB is 1,024 bytes, kB is 1,000.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 12] = [
        ("", 1),
        ("B", 1),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kiB", 1 << 10),
    ];
    let Some((number, unit, "")) = split_quantity(text) else {
        return Err(format!("`{text}` is not a size, as `64KiB` and `10MB` are"));
    };
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        if unit.starts_with(' ') && UNITS.iter().any(|(name, _)| *name == unit.trim()) {
            return Err(format!("no blank stands in a size: write `{}`", with_unit(text, unit, unit)));
        }
        let meant = UNITS.iter().map(|(name, _)| *name).find(|name| name.eq_ignore_ascii_case(unit));
        let meant = match (meant, unit) {
            (Some(name), _) => format!(": did you mean `{name}`?"),
            (None, "k" | "K" | "m" | "M" | "g" | "G") => {
                let letter = unit.to_ascii_uppercase();
                format!(": write `{letter}iB` for powers of 1,024 or `{letter}B` for powers of 1,000")
            }
            (None, _) => ": `B`, `KB`, `MB`, `GB`, `KiB`, `MiB` and `GiB` are".to_string(),
        };
        return Err(format!("`{}` is not a unit of size{meant}", unit.trim()));
    };
    scaled(number, *factor).ok_or_else(|| format!("`{text}` is not a whole number of bytes"))
}

/// Bytes a second: a size, with or without `/s`.
pub fn parse_byte_rate(text: &str) -> Result<u64, String> {
    match text.split_once('/') {
        None => parse_size(text),
        Some((size, "s")) => parse_size(size),
        Some((_, unit)) => Err(format!("`/{unit}` is not known here; rates are given for a second, as in `1KiB/s`")),
    }
}

/// `"20%"`: whole percent. A bare number is refused, because a ratio of 1 could be meant.
pub fn parse_percent(text: &str) -> Result<u64, String> {
    let Some(number) = text.strip_suffix('%') else { return Err(format!("`{text}` is not a share, as `20%` is")) };
    let is_whole = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    match number.parse() {
        Ok(percent) if is_whole => Ok(percent),
        Ok(_) | Err(_) => Err(format!("`{text}` is not a whole number of percent, as `20%` is")),
    }
}

/// `"0.5%"`: a share of at most all, in millionths.
pub fn parse_sample(text: &str) -> Result<u64, String> {
    const WHOLE: u64 = 1_000_000;
    const MILLIONTHS_OF_PERCENT: u64 = 10_000;
    let Some((number, "%", "")) = split_quantity(text) else { return Err(format!("`{text}` is not a share, as `0.5%` is")) };
    match scaled(number, MILLIONTHS_OF_PERCENT) {
        Some(millionths) if millionths <= WHOLE => Ok(millionths),
        Some(_) => Err(format!("`{text}` is more than all: it goes from 0% to 100%")),
        None => Err(format!("`{text}` has more than four digits behind the point")),
    }
}

/// Shown in messages and documentation, in the largest unit that leaves a whole number.
pub fn show_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds == 0 {
        return "0s".into();
    }
    for (factor, unit) in [(3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if milliseconds >= factor && milliseconds.is_multiple_of(factor) {
            return format!("{}{unit}", milliseconds / factor);
        }
    }
    format!("{milliseconds}ms")
}

/// Shown in messages and documentation, in the largest unit that leaves a whole number.
pub fn show_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 8] = [
        (1 << 40, "TiB"),
        (1_000_000_000_000, "TB"),
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1_000, "KB"),
    ];
    let unit = UNITS.iter().find(|(factor, _)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{bytes}B"), |(factor, name)| format!("{}{name}", bytes / factor))
}

/// `number unit rest`, where the number may have a decimal point. `None` when no digit leads.
fn split_quantity(text: &str) -> Option<(&str, &str, &str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') || number.matches('.').count() > 1 {
        return None;
    }
    let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(unit_end);
    Some((number, unit, after))
}

/// `number × factor`, exactly: `1.5` with 1,000 is 1,500; a result that is no whole number, or too large, is `None`.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 9 {
        return None;
    }
    let divisor = 10_u64.pow(fraction.len() as u32);
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let product = digits.checked_mul(u128::from(factor))?;
    if !product.is_multiple_of(u128::from(divisor)) {
        return None;
    }
    u64::try_from(product / u128::from(divisor)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text: &str, expected: &str| {
            let seen = parse_duration(text).map_or_else(|message| format!("error: {message}"), show_duration);
            assert_eq!(seen, expected, "for {text}");
        };
        check("250ms", "250ms");
        check("5s", "5s");
        check("2m", "2m");
        check("1h", "1h");
        check("1h30m", "90m");
        check("1.5s", "1500ms");
        check("0s", "0s");
        check("90s", "90s");
        check("5", "error: `5` has no unit: write `ms`, `s`, `m`, `h` or `d` behind the number");
        check("5 s", "error: no blank stands in a duration: write `5s`");
        check("5sec", "error: `sec` is not a unit of time: write `5s`");
        check("soon", "error: `soon` is not a duration, as `5s` and `1h30m` are");
        check("-5s", "error: `-5s` is not a duration, as `5s` and `1h30m` are");
        check("1m1h", "error: in `1m1h` the larger unit has to come first");
        check("", "error: an empty text is not a duration, as `5s` and `1h30m` are");
        check("99999999999999999999d", "error: `99999999999999999999d` is not a duration, as `5s` and `1h30m` are");
    }

    #[test]
    fn sizes() {
        let check = |text: &str, expected: &str| {
            let seen = parse_size(text).map_or_else(|message| format!("error: {message}"), show_size);
            assert_eq!(seen, expected, "for {text}");
        };
        check("64KiB", "64KiB");
        check("10MB", "10MB");
        check("1.5MiB", "1536KiB");
        check("512", "512B");
        check("0", "0B");
        check("10M", "error: `M` is not a unit of size: write `MiB` for powers of 1,024 or `MB` for powers of 1,000");
        check("10mb", "error: `mb` is not a unit of size: did you mean `MB`?");
        check("10pounds", "error: `pounds` is not a unit of size: `B`, `KB`, `MB`, `GB`, `KiB`, `MiB` and `GiB` are");
        check("big", "error: `big` is not a size, as `64KiB` and `10MB` are");
        check("1.5", "error: `1.5` is not a whole number of bytes");
        check("5KB6", "error: `5KB6` is not a size, as `64KiB` and `10MB` are");
    }

    #[test]
    fn rates() {
        assert_eq!(parse_byte_rate("1KiB/s"), Ok(1024));
        assert_eq!(parse_byte_rate("100"), Ok(100));
        assert!(parse_byte_rate("1KiB/m").is_err());
    }

    #[test]
    fn shares() {
        let check = |text: &str, expected: Result<u64, &str>| {
            assert_eq!(parse_percent(text), expected.map_err(str::to_string), "for {text}");
        };
        check("20%", Ok(20));
        check("0%", Ok(0));
        check("1000%", Ok(1000));
        check("20", Err("`20` is not a share, as `20%` is"));
        check("1.5%", Err("`1.5%` is not a whole number of percent, as `20%` is"));
        check("-5%", Err("`-5%` is not a whole number of percent, as `20%` is"));
        check("+5%", Err("`+5%` is not a whole number of percent, as `20%` is"));
        check("%", Err("`%` is not a whole number of percent, as `20%` is"));
        check("99999999999999999999%", Err("`99999999999999999999%` is not a whole number of percent, as `20%` is"));
    }

    #[test]
    fn samples() {
        let check = |text: &str, expected: Result<u64, &str>| {
            assert_eq!(parse_sample(text), expected.map_err(str::to_string), "for {text}");
        };
        check("0%", Ok(0));
        check("1%", Ok(10_000));
        check("0.5%", Ok(5_000));
        check("0.0001%", Ok(1));
        check("100%", Ok(1_000_000));
        check("100.1%", Err("`100.1%` is more than all: it goes from 0% to 100%"));
        check("0.00001%", Err("`0.00001%` has more than four digits behind the point"));
        check("1", Err("`1` is not a share, as `0.5%` is"));
        check("-1%", Err("`-1%` is not a share, as `0.5%` is"));
        check("1%%", Err("`1%%` is not a share, as `0.5%` is"));
        check("%", Err("`%` is not a share, as `0.5%` is"));
    }

    #[test]
    fn no_text_makes_them_panic() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let _ = (parse_duration(text), parse_size(text), parse_byte_rate(text), parse_percent(text), parse_sample(text));
        });
    }
}
