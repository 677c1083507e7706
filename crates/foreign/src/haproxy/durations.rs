//! Times as HAProxy writes them: a number of milliseconds, or with a unit.

/// As we write it; none for what is no time, or none at all.
pub fn of_milliseconds(text: &str) -> Option<String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let milliseconds = match &text[digits..] {
        "" | "ms" => number,
        "us" => number / 1_000,
        "s" => number.checked_mul(1_000)?,
        "m" => number.checked_mul(60_000)?,
        "h" => number.checked_mul(3_600_000)?,
        "d" => number.checked_mul(86_400_000)?,
        _ => return None,
    };
    written(milliseconds)
}

pub fn milliseconds(text: &str) -> Option<u64> {
    let written = of_milliseconds(text)?;
    let digits = written.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = written[..digits].parse().ok()?;
    Some(match &written[digits..] {
        "s" => number * 1_000,
        "m" => number * 60_000,
        "h" => number * 3_600_000,
        _ => number,
    })
}

/// The largest unit that has it without a rest.
pub fn written(milliseconds: u64) -> Option<String> {
    match milliseconds {
        0 => None,
        ms if ms % 3_600_000 == 0 => Some(format!("{}h", ms / 3_600_000)),
        ms if ms % 60_000 == 0 => Some(format!("{}m", ms / 60_000)),
        ms if ms % 1_000 == 0 => Some(format!("{}s", ms / 1_000)),
        ms => Some(format!("{ms}ms")),
    }
}

#[cfg(test)]
mod tests {
    use super::{milliseconds, of_milliseconds};

    #[test]
    fn times_have_units() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(of_milliseconds(text).as_deref(), expected, "for {text}");
        check("30000", Some("30s"));
        check("5s", Some("5s"));
        check("90s", Some("90s"));
        check("1d", Some("24h"));
        check("250", Some("250ms"));
        check("0", None);
        check("x", None);
        assert_eq!(milliseconds("2m"), Some(120_000));
    }
}
