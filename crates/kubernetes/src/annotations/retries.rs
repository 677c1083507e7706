//! When a request is sent to another server, and how often.

use super::{Annotations, units};
use crate::manner::Manner;
use std::time::Duration;
use tidegate_model::{Retry, RetryOn, RouteRetry};

/// What ingress-nginx has where nothing is said.
const ON: &str = "error timeout";
const TRIES: u8 = 3;
const WITHIN_SECONDS_MAX: u64 = 86_400;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    let (written, tries) = (annotations.text("proxy-next-upstream"), annotations.text("proxy-next-upstream-tries"));
    let within = within(annotations);
    if written.is_none() && tries.is_none() && within.is_none() {
        return;
    }
    let on = match on(written.unwrap_or(ON)) {
        Ok(on) => on,
        Err(word) => {
            let problem = format!("`{word}` is not known: write `error`, `timeout`, `http_502` and the like, or `off`");
            return annotations.leave_out("proxy-next-upstream", &problem);
        }
    };
    let tries = match tries.map_or(Ok(TRIES), str::parse) {
        Ok(tries) => tries,
        Err(_) => {
            annotations.leave_out("proxy-next-upstream-tries", "it is a number, and 0 is as many as there are");
            TRIES
        }
    };
    let attempts = tries.checked_sub(1).unwrap_or(Retry::ATTEMPTS_MAX).min(Retry::ATTEMPTS_MAX);
    manner.retry = match on {
        Some(on) if attempts > 0 => RouteRetry::Own(Retry { attempts, on, within, ..Retry::default() }),
        Some(_) | None => RouteRetry::Off,
    };
}

/// `None`: without a bound.
fn within(annotations: &mut Annotations<'_>) -> Option<Duration> {
    const NAME: &str = "proxy-next-upstream-timeout";
    let seconds = units::seconds(annotations.text(NAME)?).filter(|seconds| *seconds <= WITHIN_SECONDS_MAX);
    if seconds.is_none() {
        annotations.leave_out(NAME, "it is a number of seconds, and 0 is no bound");
    }
    seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// `None`: for nothing. `Err` names a word that is none of nginx.
fn on(written: &str) -> Result<Option<RetryOn>, &str> {
    let mut on = RetryOn { connect: false, reset: false, timeout: false, statuses: Vec::new() };
    for word in written.split_whitespace() {
        match word {
            "off" => return Ok(None),
            "error" => (on.connect, on.reset) = (true, true),
            "invalid_header" => on.reset = true,
            "timeout" => on.timeout = true,
            // What may be done twice is up to the method here.
            "non_idempotent" => {}
            _ => {
                let status = word.strip_prefix("http_").and_then(|status| status.parse().ok());
                let known = [403, 404, 429, 500, 502, 503, 504];
                on.statuses.extend(Some(status.filter(|status| known.contains(status)).ok_or(word)?));
            }
        }
    }
    on.statuses.sort_unstable();
    on.statuses.dedup();
    Ok(Some(on))
}

#[cfg(test)]
mod tests {
    use super::on;
    use tidegate_model::RetryOn;

    #[test]
    fn words_of_nginx() {
        type Shown<'s> = (bool, bool, bool, &'s [u16]);
        let check = |text: &str, expected: Result<Option<Shown<'_>>, &str>| {
            let seen = on(text);
            let shown = |on: &RetryOn| format!("{:?}", (on.connect, on.reset, on.timeout, &on.statuses));
            let seen = seen.as_ref().map(|on| on.as_ref().map(shown)).map_err(|word| *word);
            assert_eq!(seen, expected.map(|on| on.map(|on| format!("{on:?}"))), "{text}");
        };
        check("error timeout", Ok(Some((true, true, true, &[]))));
        check("http_503 http_502 http_503", Ok(Some((false, false, false, &[502, 503]))));
        check("error non_idempotent invalid_header", Ok(Some((true, true, false, &[]))));
        check("error off", Ok(None));
        check("error http_501", Err("http_501"));
        check("errors", Err("errors"));
    }
}
