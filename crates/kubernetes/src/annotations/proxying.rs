//! How requests go on to servers: how long these may take, and how much clients may send.

use super::Annotations;
use crate::manner::Manner;
use crate::reference::Spoken;
use std::time::Duration;
use tidegate_model::Step;

/// The longest that there are: nobody waits for more.
const CONNECT_MAX: Duration = Duration::from_mins(5);
const READ_MAX: Duration = Duration::from_hours(24);

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    if let Some(text) = annotations.text("proxy-body-size") {
        match size(text) {
            // Without a bound.
            Some(0) => {}
            Some(bytes_max) => manner.steps.push(Step::BodyLimit { bytes_max }),
            None => annotations.leave_out("proxy-body-size", "it is a size, as in `8m`"),
        }
    }
    manner.pool.spoken = spoken(annotations);
    let connect = seconds(annotations, "proxy-connect-timeout", CONNECT_MAX);
    let read = seconds(annotations, "proxy-read-timeout", READ_MAX);
    let send = seconds(annotations, "proxy-send-timeout", READ_MAX);
    let timeouts = &mut manner.options.timeouts;
    timeouts.connect = connect;
    timeouts.first_byte = read;
    // One idle time for both ways: the shorter would end what the longer is written for.
    timeouts.idle = read.max(send);
}

fn spoken(annotations: &mut Annotations<'_>) -> Option<Spoken> {
    const NAME: &str = "backend-protocol";
    match annotations.text(NAME)?.to_ascii_uppercase().as_str() {
        "HTTP" => None,
        "HTTPS" => Some(Spoken::Tls),
        "GRPC" => Some(Spoken::H2c),
        "GRPCS" => Some(Spoken::H2),
        "FCGI" => {
            annotations.shut(
                NAME,
                "FastCGI is not spoken for an Ingress: remove it, or put a server of HTTP in front of the application",
            );
            None
        }
        _ => {
            annotations.leave_out(NAME, "it is `HTTP`, `HTTPS`, `GRPC` or `GRPCS`");
            None
        }
    }
}

/// A number of seconds, which may say so.
fn seconds(annotations: &mut Annotations<'_>, name: &str, most: Duration) -> Option<Duration> {
    let text = annotations.text(name)?;
    let number = text.strip_suffix('s').unwrap_or(text).parse().ok().filter(|number| *number > 0);
    if number.is_none() {
        annotations.leave_out(name, "it is a number of seconds");
    }
    number.map(|number| Duration::from_secs(number).min(most))
}

/// As nginx writes sizes: a number of bytes, or of so many with `k`, `m` or `g`.
fn size(text: &str) -> Option<u64> {
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
    use super::size;

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
