//! Numbers as people read them: three significant digits, thousands apart. Pure.
//! The raw values are in `report.json`.

use crate::results::figure::Figure;

/// Three significant digits are more than the measurement deserves, and enough.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "–".to_owned()
    } else if size >= 10_000.0 {
        whole((value / 100.0).round() * 100.0)
    } else if size >= 100.0 {
        whole(value)
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.1 || size == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

/// With the digits that it was published with.
pub fn published(value: f64) -> String {
    if value.fract() == 0.0 { whole(value) } else { format!("{value:.2}") }
}

pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rounded to an integer.
pub fn whole(value: f64) -> String {
    let sign = if value.round() < 0.0 { "−" } else { "" };
    format!("{sign}{}", count(value.abs().round() as u64))
}

pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if percent < 10.0 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1} %")
    }
}

pub fn figure(figure: Figure, value: f64) -> String {
    match figure {
        Figure::ResumedShare => percent(value),
        Figure::Requests | Figure::Failed | Figure::Dropped | Figure::SentAgain | Figure::ChangesMade => whole(value),
        Figure::CpuUsPerRequest
        | Figure::RequestsPerSecond
        | Figure::LatencyMeanUs
        | Figure::LatencyP50Us
        | Figure::LatencyP75Us
        | Figure::LatencyP90Us
        | Figure::LatencyP95Us
        | Figure::LatencyP99Us
        | Figure::LatencyP999Us
        | Figure::LatencyMaxUs
        | Figure::SentLateP99Us
        | Figure::HandshakesPerSecond
        | Figure::ReceivedBytes
        | Figure::SentBytes
        | Figure::ReceivedBytesPerRequest
        | Figure::ProxyCoresBusy
        | Figure::GeneratorCoresBusy
        | Figure::BackendCoresBusy
        | Figure::OtherCoresBusy
        | Figure::ResidentMb
        | Figure::ResidentAtStartMb
        | Figure::ResidentPeakMb
        | Figure::ResidentAfterRestMb
        | Figure::IdleKibPerConnection
        | Figure::KibPerCertificate
        | Figure::SocketCallsPerRequest
        | Figure::SystemCallsPerRequest
        | Figure::SecondsToTakeEffect
        | Figure::StartMs
        | Figure::SharedOnceAtStartMb
        | Figure::ChangeSeenMs
        | Figure::CpuMsPerChange
        | Figure::LatencyP50Ratio
        | Figure::LatencyP99Ratio => short(value),
    }
}

pub fn range(of: Figure, min: f64, max: f64) -> String {
    format!("{}–{}", figure(of, min), figure(of, max))
}

/// For axes: `20k`, `1.5M`.
pub fn tick(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    // Multiples of 1, 2 and 5 need no more digits than this; what rounding leaves behind is cut off.
    let text = format!("{scaled:.6}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0.00"),
            (0.0123, "0.0123"),
            (0.456, "0.46"),
            (12.345, "12.3"),
            (123.4, "123"),
            (1234.4, "1,234"),
            (49_940.0, "49,900"),
            (1_234_567.0, "1,234,600"),
            (-12.0, "-12.0"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(short(value), expected);
        }
        assert_eq!([count(0), count(999), count(1000), count(2_088_749)], ["0", "999", "1,000", "2,088,749"]);
        assert_eq!([tick(0.0), tick(0.2), tick(1500.0), tick(2e6)], ["0", "0.2", "1.5k", "2M"]);
        assert_eq!([published(0.23), published(9.0), published(17_000.0)], ["0.23", "9", "17,000"]);
        assert_eq!([percent(0.0), percent(0.0123), percent(0.5)], ["0 %", "1.23 %", "50.0 %"]);
        assert_eq!([duration(12.4), duration(61.0), duration(7322.0)], ["12 s", "1 min 1 s", "2 h 2 min"]);
    }
}
