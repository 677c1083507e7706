//! `rate-limit`: how often a client, or everybody together, may ask. What it has in common with `concurrency-limit` is
//! in `count_by`.

use super::count_by::{self, BY, DRY_RUN, IPV6_PREFIX, NAME, SAID_OTHERWISE, STATUS};
use crate::diagnostics::{Diagnostic, shortened};
use crate::forms::Fault;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property, Repeat};
use crate::units;
use crate::written_line::Writer;
use std::borrow::Cow;
use std::time::Duration;
use tidegate_model::{Rate, RateLimit, Step};

/// 128 MiB.
const KEYS_MAX: u64 = 1 << 22;

pub static RATE_LIMIT: Directive = Directive {
    name: "rate-limit",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "rate",
        Kind::Text("a rate, as in `\"100/s\"`"),
        "How many requests in which time: `100/s`, `10/m`, `5/h`, `1/d`, or of several, as `30/10s`.",
    )],
    properties: &[
        Property::once(
            "burst",
            Kind::Integer { min: 1, max: 10_000_000 },
            "How many may come at once after a pause; the number of the rate when left out.",
        ),
        BY,
        IPV6_PREFIX,
        NAME,
        Property::once(
            "cost",
            Kind::Integer { min: 1, max: 10_000_000 },
            "What a request counts as; 1 when left out. Of use where limits of one name count together.",
        ),
        Property::once(
            "keys",
            Kind::Integer { min: 1, max: KEYS_MAX },
            "How many clients are told apart while all of them are active, 32 bytes each; 65536 when left out. Rounded up to a power of two, and to 512.",
        ),
        Property::once("status", STATUS, "Of refusals; 429 when left out."),
        Property::once(
            "headers",
            Kind::Switch,
            "Whether answers have `RateLimit` and `RateLimit-Policy`; `#true` when left out.",
        ),
        DRY_RUN,
    ],
    summary: "How often a client, or everybody together, may ask.",
    details: "A client may send `burst` requests at once, and gets one more each time a part of the period has passed: with `10/m`, ten and then one each 6 s. All threads count \
              together. **Refused** with 429 and `Retry-After`, `rate_limited` in the log; a refusal does not count. Answers have `RateLimit-Policy` and `RateLimit` (IETF \
              draft-ietf-httpapi-ratelimit-headers-11): how many are left, and in how many seconds there is one more.\n\n\
              **`by=`** is `client-ip`; `all`, which counts everybody together; or a text with placeholders, as in `by=\"{request.header.X-Api-Key}\"`. The client's address is that \
              of the connection, or behind a trusted proxy (`listener … { trusted-proxies … }`) the one that the proxy names. **IPv6 clients count by their /64**, which is \
              what one customer has at least; that goes for `{client.ip}` in a text as well. A request that has nothing of what the text asks for is counted by its \
              client's address. A key may be of any length: what is kept is a keyed hash of 64 bits.\n\n\
              A limit in a site is one limit for all its routes. Who is refused by `allow` and `deny` is not counted, and neither is a preflight that a `cors` answers. A limit by what is known of every \
              client counts before anybody is asked to log in, one by `{auth.user}`, `{jwt.…}` or `{map.…}` behind that, and one by what a step in front of it has written (`request-header`, `rewrite`) where it \
              stands; what a later step refuses has been counted. Counts go on over changes of the configuration, also when the rate \
              changes, and are gone with the process.\n\n\
              When more clients are active than `keys=` has room for, one that comes new begins with what the least active one of its group has left. \
              [access.md](access.md#how-often-rate-limit) says how to choose.",
    default: "no limit",
    example: "rate-limit \"100/s\" burst=200 by=\"client-ip\"",
    lower: Lower::Step(lower),
    said_otherwise: SAID_OTHERWISE,
    ..Directive::PLAIN
};

/// Units come at least a microsecond apart, so that rounding them to nanoseconds changes nothing that could be
/// measured.
const COUNT_A_SECOND_MAX: u128 = 1_000_000;
/// A bucket that takes longer to fill is a slip.
const WINDOW_MAX: Duration = Duration::from_secs(366 * 86_400);
const FORMS: &str = "for example `\"100/s\"`, `\"10/m\"`, `\"5/h\"` or `\"30/10s\"`";

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let errors_before = lowering.diagnostics.len();
    let rate = line.read_argument(lowering, 0).map(Read::text).and_then(|text| read_rate(lowering, &text));
    let burst = line.number(lowering, "burst").map(|burst| burst as u32);
    let cost = line.number(lowering, "cost").map_or(1, |cost| cost as u32);
    let (name, by, ipv6_prefix) = count_by::read(lowering, line);
    let keys_max = line.number(lowering, "keys").map_or(RateLimit::KEYS_MAX, |keys| keys as u32);
    let status = line.number(lowering, "status").map_or(RateLimit::STATUS, |status| status as u16);
    let headers = line.switch(lowering, "headers").unwrap_or(true);
    let dry_run = line.switch(lowering, "dry-run").unwrap_or(false);
    let (rate, by) = (rate?, by?);
    let burst = burst.unwrap_or(rate.count);
    if rate.period.as_nanos() * u128::from(burst) / u128::from(rate.count) > WINDOW_MAX.as_nanos() {
        let message = format!("with `{rate}` it would take more than a year until {burst} requests may come at once");
        let at = line.property("burst").map_or_else(|| line.location(), |value| value.location.clone());
        lowering.report(Diagnostic::error("out-of-range", at, message).help("lower `burst=`"));
    }
    if cost > burst {
        let message = format!("a request that counts as {cost} can never come where only {burst} may come at once");
        let at = line.property("cost").map_or_else(|| line.location(), |value| value.location.clone());
        lowering.report(Diagnostic::error("out-of-range", at, message).help(format!("write `burst={cost}` or more")));
    }
    let limit = RateLimit { name, rate, burst, by, ipv6_prefix, cost, keys_max, status, headers, dry_run };
    (!lowering.has_errors_since(errors_before)).then(|| Step::RateLimit(Box::new(limit)))
}

/// Reported when it is none.
pub fn read_rate(lowering: &mut Lowering<'_>, text: &Text) -> Option<Rate> {
    text.parsed(lowering, "bad-value", parse_rate(&text.value))
}

/// `100/s`, `30/10s`; otherwise what is wrong with it and what to write.
fn parse_rate(text: &str) -> Result<Rate, Fault> {
    let wrong = || Cow::Owned(format!("`{}` is not a rate", shortened(text)));
    let forms = || Cow::Borrowed(FORMS);
    let Some((count, period)) = text.split_once('/') else {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        return Err(match (digits.is_empty(), text[digits.len()..].trim()) {
            (false, "" | "rps" | "r" | "req") => (wrong(), format!("for each second, write `\"{digits}/s\"`").into()),
            (false, "rpm") => (wrong(), format!("write `\"{digits}/m\"`").into()),
            (false, "rph") => (wrong(), format!("write `\"{digits}/h\"`").into()),
            _ => (wrong(), forms()),
        });
    };
    let (count, period) = (count.trim(), period.trim());
    let number = count.strip_suffix("req").or_else(|| count.strip_suffix('r')).unwrap_or(count);
    if number != count && number.parse::<u32>().is_ok() {
        return Err((wrong(), format!("write `\"{number}/{}\"`", shortened(period)).into()));
    }
    let count: u32 = match number.parse() {
        Ok(0) => {
            return Err((
                "a rate of 0 lets nothing through".into(),
                "to refuse everything, write `deny \"all\"` or `respond 403`".into(),
            ));
        }
        Ok(count) => count,
        Err(_) if number.contains('.') => {
            return Err((wrong(), "write a whole number and a longer time, as in `\"3/2s\"`".into()));
        }
        Err(_) => return Err((wrong(), forms())),
    };
    let unit = match period {
        "sec" | "second" | "1sec" => Some("s"),
        "min" | "minute" | "1min" => Some("m"),
        "hour" | "hr" => Some("h"),
        "day" => Some("d"),
        _ => None,
    };
    if let Some(unit) = unit {
        return Err((wrong(), format!("write `\"{count}/{unit}\"`").into()));
    }
    // `/s` is short for `/1s`.
    let written = if period.starts_with(|c: char| c.is_ascii_digit()) { period.to_string() } else { format!("1{period}") };
    let period = units::parse_duration(&written).map_err(|reason| (Cow::Owned(format!("{}: {reason}", wrong())), forms()))?;
    if period.is_zero() || period > WINDOW_MAX {
        return Err((format!("{}: its time goes from 1ms to {}", wrong(), units::show_duration(WINDOW_MAX)).into(), forms()));
    }
    if u128::from(count) * 1_000_000_000 > COUNT_A_SECOND_MAX * period.as_nanos() {
        return Err((format!("{}: more than {COUNT_A_SECOND_MAX} a second are no limit", wrong()).into(), forms()));
    }
    Ok(Rate { count, period })
}

pub fn write(line: &mut Writer, limit: &RateLimit) {
    let RateLimit { name, rate, burst, by, ipv6_prefix, cost, keys_max, status, headers, dry_run } = limit;
    line.name("rate-limit").argument(rate);
    line.number_unless(rate.count.into(), "burst", (*burst).into()).number_unless(1, "cost", (*cost).into());
    line.number_unless(RateLimit::KEYS_MAX.into(), "keys", (*keys_max).into());
    line.number_unless(RateLimit::STATUS.into(), "status", (*status).into());
    count_by::write(line, by, *ipv6_prefix, name.as_deref());
    line.switch_unless(true, "headers", *headers).switch_unless(false, "dry-run", *dry_run);
}

#[cfg(test)]
mod tests {
    use super::parse_rate;

    #[test]
    fn rates() {
        let check = |text: &str, expected: &str| assert_eq!(parse_rate(text).expect("a rate").to_string(), expected, "{text}");
        check("100/s", "100/s");
        check("10/m", "10/m");
        check("5/h", "5/h");
        check("1/d", "1/d");
        check("30/10s", "30/10s");
        check("60/60s", "60/m");
        check("1/1h30m", "1/90m");
        check("1000000/s", "1000000/s");
        check("4000000000/d", "4000000000/d");
    }

    #[test]
    fn what_is_no_rate_and_what_to_write() {
        let check = |text: &str, help: &str| {
            let (message, seen) = parse_rate(text).expect_err(text);
            assert!(seen.contains(help), "{text}: {message}; {seen}");
        };
        check("100", "write `\"100/s\"`");
        check("10r/s", "write `\"10/s\"`");
        check("100rps", "write `\"100/s\"`");
        check("30rpm", "write `\"30/m\"`");
        check("10/min", "write `\"10/m\"`");
        check("10/hour", "write `\"10/h\"`");
        check("0/s", "deny");
        check("1.5/s", "3/2s");
        check("", "for example");
        check("many/s", "for example");
        check("-1/s", "for example");
        check("10/", "for example");
        check("10/fortnight", "for example");
        check("10/0s", "for example");
        check("1/400d", "for example");
        check("1000001/s", "for example");
        check("99999999999/s", "for example");
    }
}
