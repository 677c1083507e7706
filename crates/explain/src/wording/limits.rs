//! `rate-limit` and `concurrency-limit` as they are written; what is left out means the default.

use super::quoted;
use tidegate_model::{ConcurrencyLimit, CountBy, RateLimit};

pub fn rate_limit(limit: &RateLimit) -> String {
    let mut text = format!("rate-limit {}", quoted(&limit.rate.to_string()));
    let mut number = |name: &str, value: u32, default: u32| {
        if value != default {
            text.push_str(&format!(" {name}={value}"));
        }
    };
    number("burst", limit.burst, limit.rate.count);
    number("cost", limit.cost, 1);
    number("keys", limit.keys_max, RateLimit::KEYS_MAX);
    number("status", limit.status.into(), RateLimit::STATUS.into());
    text.push_str(&common(&limit.by, limit.ipv6_prefix, limit.name.as_deref()));
    if !limit.headers {
        text.push_str(" headers=#false");
    }
    text.push_str(dry_run(limit.dry_run));
    text
}

pub fn concurrency_limit(limit: &ConcurrencyLimit) -> String {
    let mut text = format!("concurrency-limit {}", limit.requests_max);
    if limit.status != ConcurrencyLimit::default_status(&limit.by) {
        text.push_str(&format!(" status={}", limit.status));
    }
    text.push_str(&common(&limit.by, limit.ipv6_prefix, limit.name.as_deref()));
    text.push_str(dry_run(limit.dry_run));
    text
}

fn common(by: &CountBy, ipv6_prefix: u8, name: Option<&str>) -> String {
    let mut text = format!(" by={}", quoted(&by.to_string()));
    if ipv6_prefix != CountBy::IPV6_PREFIX {
        text.push_str(&format!(" ipv6-prefix={ipv6_prefix}"));
    }
    if let Some(name) = name {
        text.push_str(&format!(" name={}", quoted(name)));
    }
    text
}

fn dry_run(is_on: bool) -> &'static str {
    if is_on { " dry-run=#true" } else { "" }
}
