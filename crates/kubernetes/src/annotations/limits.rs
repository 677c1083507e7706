//! How often, and how many at a time, clients may ask. A limit that cannot be read shuts: everybody could ask as often
//! as they like.

use super::{Annotations, access, listed, shortened};
use crate::manner::Manner;
use ipnet::IpNet;
use std::time::Duration;
use tidegate_cluster::Key;
use tidegate_model::{ConcurrencyLimit, CountBy, Rate, RateLimit, Step};

/// What clients may send at once, by the number of a period.
const BURST_MULTIPLIER: u32 = 5;
const COUNT_MAX: u32 = 1_000_000;
const BURST_MAX: u32 = 10_000_000;
/// The longest name of a limit.
const NAME_BYTES_MAX: usize = 64;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    let multiplier = multiplier(annotations);
    for (name, unit, period) in [("limit-rps", "s", Duration::from_secs(1)), ("limit-rpm", "m", Duration::from_mins(1))] {
        let Some(count) = count(annotations, name) else { continue };
        let limit = RateLimit {
            name: Some(limit_name(annotations.key, unit)),
            rate: Rate { count, period },
            // The request that is served at the rate, and those that come before their time.
            burst: count.saturating_mul(multiplier).saturating_add(1).min(BURST_MAX),
            by: CountBy::Client,
            ipv6_prefix: CountBy::IPV6_PREFIX,
            cost: 1,
            keys_max: RateLimit::KEYS_MAX,
            status: annotations.defaults.rate_status,
            headers: false,
            dry_run: false,
        };
        manner.limits.steps.push(Step::RateLimit(Box::new(limit)));
    }
    if let Some(requests_max) = count(annotations, "limit-connections") {
        let limit = ConcurrencyLimit {
            name: Some(limit_name(annotations.key, "at-once")),
            requests_max,
            by: CountBy::Client,
            ipv6_prefix: CountBy::IPV6_PREFIX,
            status: annotations.defaults.at_once_status,
            dry_run: false,
        };
        manner.limits.steps.push(Step::ConcurrencyLimit(Box::new(limit)));
    }
    manner.limits.exempt = exempt(annotations);
}

/// `None`: no limit is asked for, or none can be had and its Ingress is shut.
fn count(annotations: &mut Annotations<'_>, name: &str) -> Option<u32> {
    let text = annotations.text(name).filter(|text| !text.bytes().all(|byte| byte == b'0'))?;
    let count = text.parse::<u32>().ok().filter(|count| *count <= COUNT_MAX);
    if count.is_none() {
        let shown = shortened(text);
        annotations.shut(name, &format!("`{shown}` is not a number from 1 to {COUNT_MAX}: write one, or remove it"));
    }
    count
}

fn multiplier(annotations: &mut Annotations<'_>) -> u32 {
    const NAME: &str = "limit-burst-multiplier";
    let Some(text) = annotations.text(NAME) else { return BURST_MULTIPLIER };
    text.parse().ok().filter(|multiplier| *multiplier > 0).unwrap_or_else(|| {
        annotations.leave_out(NAME, &format!("it is a number from 1, and {BURST_MULTIPLIER} without it"));
        BURST_MULTIPLIER
    })
}

/// Whom no limit counts. What cannot be read exempts nobody.
fn exempt(annotations: &mut Annotations<'_>) -> Vec<IpNet> {
    let name = ["limit-allowlist", "limit-whitelist"].into_iter().find(|name| annotations.text(name).is_some());
    let Some((name, text)) = name.and_then(|name| Some((name, annotations.text(name)?))) else { return Vec::new() };
    listed(text).map(access::network).collect::<Option<_>>().unwrap_or_else(|| {
        annotations.leave_out(name, "it is a list of networks, as in `10.0.0.0/8, 192.0.2.7`, and limits hold for everybody");
        Vec::new()
    })
}

/// By which requests of all paths of an Ingress count together, and those of no other. Long names of objects are cut,
/// with a number that tells them apart.
fn limit_name(Key { namespace, name }: &Key, what: &str) -> String {
    let whole = format!("{namespace}/{name}/{what}");
    if whole.len() <= NAME_BYTES_MAX {
        return whole;
    }
    // FNV-1a: the same in every process.
    let number = whole.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let cut = NAME_BYTES_MAX - 17 - what.len() - 1;
    let begin: String = whole.chars().take_while(char::is_ascii).take(cut).collect();
    format!("{begin}.{number:016x}/{what}")
}

#[cfg(test)]
mod tests {
    use super::{NAME_BYTES_MAX, limit_name};
    use tidegate_cluster::Key;

    #[test]
    fn names_of_limits_are_short_and_tell_ingresses_apart() {
        assert_eq!(limit_name(&Key::new("shop", "web"), "s"), "shop/web/s");
        let long = |end: &str| limit_name(&Key::new("shop", &format!("{}{end}", "web-".repeat(40))), "at-once");
        assert!(long("a").len() <= NAME_BYTES_MAX);
        assert!(long("a").starts_with("shop/web-web-"));
        assert_ne!(long("a"), long("b"));
    }
}
