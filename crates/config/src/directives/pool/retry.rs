//! `retry` and `hedge`: requests that are sent more than once.

use super::PoolDraft;
use crate::diagnostics::{Diagnostic, nearest, quoted_list};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::{Writer, duration, size};
use std::time::Duration;
use tidegate_model::{Backoff, Hedge, Retry, RetryOn};

pub static RETRY: Directive = Directive {
    name: "retry",
    places: &[Place::Pool],
    arguments: &[Argument::optional(
        "mode",
        Kind::Choice(&["off", WAIT]),
        "`off` sends every request once; `wait` has a request wait for a server when none can be reached.",
    )],
    properties: &[
        Property::once(
            "for",
            Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(600) },
            "With `wait`: how long a request waits at most; `10s` when left out.",
        ),
        Property::once(
            "body",
            Kind::Size { min: 0, max: Retry::BODY_BYTES_MAX as u64 },
            "What of a request's body is kept in memory to be sent again; `64KiB` when left out.",
        ),
        Property::once(
            "attempts",
            Kind::Integer { min: 0, max: Retry::ATTEMPTS_MAX as u64 },
            "Times that a request is sent again, after the first; `2` when left out. With `0` it is sent once.",
        ),
        Property::once(
            "on",
            Kind::Text("`connect`, `reset`, `timeout` and statuses, separated by commas"),
            "What for; `connect,reset` when left out.",
        ),
        Property::once(
            "budget",
            Kind::Percent { min: 1, max: 100 },
            "Share of the requests of the last ten seconds that may be sent again; `20%` when left out.",
        ),
        Property::once(
            "try-timeout",
            Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(86_400) },
            "From the choice of a server to the first byte of its answer, before another one is tried; as `timeout` says when left out.",
        ),
        Property::once(
            "within",
            Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(86_400) },
            "No attempt begins later than so long after the request came; without it the number of `attempts` alone ends them.",
        ),
        Property::once(
            "backoff",
            Kind::Duration { min: Duration::from_millis(1), max: BACKOFF_MAX },
            "How long a request waits before it is sent again for the first time, then twice as long each time; not at all when left out.",
        ),
        Property::once(
            "backoff-max",
            Kind::Duration { min: Duration::from_millis(1), max: BACKOFF_MAX },
            "The longest of these pauses; ten times the first one when left out.",
        ),
    ],
    summary: "When a request that failed is sent again, to another server.",
    details: "`connect` is that no connection came about: nothing was sent, so any request may go elsewhere. `reset` is that the connection \
              broke before the first byte of the answer, `timeout` that nothing came within `timeout first-byte=` or `try-timeout=`, a number from 400 to \
              599 is an answer of that status; for these, only idempotent requests (GET, HEAD, OPTIONS, TRACE, PUT, DELETE) are sent again. A request with a body \
              is sent again as long as the body is held, up to `body=`.\n\n\
              The budget keeps an outage from being multiplied: when more fail than it allows, the failure is answered. `retry \"off\"` sends every request \
              once.\n\n\
              With `backoff=` a request waits before each further attempt: at least that long, up to twice as long by chance, twice as much the next time, and never longer than \
              `backoff-max=`. Meanwhile it has no place at a server. When all servers have been tried, they are tried anew, so that a lone server is asked again as well. Where \
              `timeout total=` would be over before, the failure is answered at once.\n\n\
              In the block of a `proxy` that names a pool, `retry` is for the requests of that route alone.",
    default: "`attempts=2 on=\"connect,reset\" budget=\"20%\"`",
    example: "retry attempts=2 on=\"connect,reset,502,503,504\" budget=\"20%\"",
    lower: Lower::Pool(lower_retry),
    ..Directive::PLAIN
};

pub static HEDGE: Directive = Directive {
    name: "hedge",
    places: &[Place::Pool],
    arguments: &[Argument::one(
        "after",
        Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(3600) },
        "How long the first server has for its answer alone.",
    )],
    summary: "When a request that is not answered yet is sent to a second server as well.",
    details: "Who answers first wins, and the other exchange is given up. It is for idempotent requests without a body, and counts against \
              the budget of `retry`. A good value is what 95 of 100 requests take.",
    default: "never",
    example: "hedge \"200ms\"",
    lower: Lower::Pool(lower_hedge),
    ..Directive::PLAIN
};

/// What came too early may be sent again by the client alone, when its handshake is over (RFC 8470 section 5.2).
const TOO_EARLY: u16 = 425;
const STATUS_MIN: u16 = 400;
const STATUS_MAX: u16 = 599;

const WAIT: &str = "wait";
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// `None` is `retry "off"`.
pub fn read_retry(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Retry> {
    let waits = match line.read_argument(lowering, 0) {
        Some(Read::Choice("off", at)) => {
            if let Some(fault) = line.settings_of_off() {
                lowering.report(fault.label(at, "switched off here"));
            }
            return None;
        }
        Some(_) => true,
        None => {
            super::expect_settings(lowering, line);
            false
        }
    };
    let defaults = Retry::default();
    let wait = line.duration(lowering, "for");
    if let (false, Some(value)) = (waits, line.property("for")) {
        let diagnostic = Diagnostic::error("missing-argument", value.location.clone(), "`for=` is how long `\"wait\"` waits");
        lowering.report(diagnostic.help("write `retry \"wait\" for=\"10s\"`"));
    }
    let attempts = line.number(lowering, "attempts").map_or(defaults.attempts, |attempts| attempts as u8);
    let on = line.text(lowering, "on").and_then(|text| retry_on(lowering, &text)).unwrap_or(defaults.on);
    let budget_percent = line.number(lowering, "budget").map_or(defaults.budget_percent, |percent| percent as u8);
    let body_bytes = line.number(lowering, "body").map_or(defaults.body_bytes, |bytes| bytes as usize);
    let wait = waits.then(|| wait.unwrap_or(Retry::WAIT));
    let try_timeout = line.duration(lowering, "try-timeout");
    let within = line.duration(lowering, "within");
    Some(Retry { attempts, on, budget_percent, try_timeout, within, backoff: backoff(lowering, line), wait, body_bytes })
}

fn lower_retry(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    draft.pool.retry = read_retry(lowering, line);
}

fn backoff(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Backoff> {
    let first = line.duration(lowering, "backoff");
    let max = line.duration(lowering, "backoff-max");
    let (Some(max), Some(value)) = (max, line.property("backoff-max")) else { return first.map(Backoff::of) };
    let Some(first) = first else {
        if line.property("backoff").is_none() {
            let message = "`backoff-max=` is the longest pause, and there is none without `backoff=`";
            let diagnostic = Diagnostic::error("missing-argument", value.location.clone(), message);
            lowering.report(diagnostic.help("write `retry backoff=\"25ms\" backoff-max=\"1s\"`"));
        }
        return None;
    };
    if max < first {
        let message = "`backoff-max=` is the longest pause, and `backoff=` is longer";
        let diagnostic = Diagnostic::error("out-of-range", value.location.clone(), message);
        return lowering.refuse(diagnostic.help(format!("write `{}` or more", duration(&first))));
    }
    Some(Backoff { first, max })
}

fn retry_on(lowering: &mut Lowering<'_>, text: &Text) -> Option<RetryOn> {
    let mut on = RetryOn { connect: false, reset: false, timeout: false, statuses: Vec::new() };
    let mut faulty = false;
    for word in text.value.split(',').map(str::trim) {
        let is_new = match word {
            "connect" => !std::mem::replace(&mut on.connect, true),
            "reset" => !std::mem::replace(&mut on.reset, true),
            "timeout" => !std::mem::replace(&mut on.timeout, true),
            _ => match word.parse::<u16>() {
                Ok(status) if (STATUS_MIN..=STATUS_MAX).contains(&status) && status != TOO_EARLY => {
                    let is_new = !on.statuses.contains(&status);
                    on.statuses.extend(is_new.then_some(status));
                    is_new
                }
                Ok(_) | Err(_) => {
                    faulty = true;
                    lowering.report(no_cause(text, word));
                    true
                }
            },
        };
        if !is_new {
            faulty = true;
            lowering
                .report(text.error("duplicate-cause", format!("`{word}` is named twice in `on=`")).help("remove one of them"));
        }
    }
    (!faulty).then_some(on)
}

fn no_cause(text: &Text, word: &str) -> Diagnostic {
    let message = match word {
        "" => "an empty entry stands between the commas".to_string(),
        _ => format!("`{}` is nothing that a request is sent again for", crate::diagnostics::shortened(word)),
    };
    let diagnostic = text.error("bad-value", message);
    if word.parse() == Ok(TOO_EARLY) {
        return diagnostic.help("it is passed on: only the client can send again what came too early");
    }
    match word {
        "5xx" | "error" | "gateway-error" | "all-retryable-errors" | "http_5xx" | "retriable-status-codes" => {
            return diagnostic.help("statuses are named one by one: `on=\"connect,reset,500,502,503,504\"`");
        }
        "conn-failure" | "connect-failure" | "reset-before-request" | "refused-stream" | "empty-response" | "junk-response" => {
            return diagnostic
                .help("a server that cannot be reached is `connect`, one that breaks off is `reset`: `on=\"connect,reset\"`");
        }
        "response-timeout" => return diagnostic.help("it is `timeout`, as in `on=\"connect,reset,timeout\"`"),
        _ => {}
    }
    match nearest(word, RetryOn::NAMES.iter().copied()).filter(|_| !text.secret) {
        Some(candidate) => diagnostic.help(format!("did you mean `{candidate}`?")),
        None => diagnostic.help_of_language(format!(
            "it can be {}, or a status from {STATUS_MIN} to {STATUS_MAX}",
            quoted_list(RetryOn::NAMES)
        )),
    }
}

fn lower_hedge(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    if let Some(after) = line.read_argument(lowering, 0).map(Read::duration) {
        draft.pool.hedge = Some(Hedge { after });
    }
}

pub fn write_or_off(line: &mut Writer, retry: Option<&Retry>) {
    match retry {
        Some(retry) => write(line, retry),
        None => line.off("retry"),
    }
}

pub fn write(line: &mut Writer, retry: &Retry) {
    let Retry { attempts, on, budget_percent, try_timeout, within, backoff, wait, body_bytes } = retry;
    line.name("retry");
    if let Some(wait) = wait {
        line.argument(WAIT).property("for", duration(wait));
    }
    line.unless(&Retry::BODY_BYTES, "body", body_bytes, |bytes| size(&(*bytes as u64)));
    line.number("attempts", attempts).property("on", show_retry_on(on));
    line.property("budget", format_args!("{budget_percent}%")).optional("try-timeout", try_timeout.as_ref().map(duration));
    line.optional("within", within.as_ref().map(duration));
    if let Some(Backoff { first, max }) = backoff {
        line.property("backoff", duration(first)).unless(&Backoff::of(*first).max, "backoff-max", max, duration);
    }
}

pub fn write_hedge(line: &mut Writer, Hedge { after }: &Hedge) {
    line.name("hedge").argument(duration(after));
}

/// `connect,reset,503`
pub fn show_retry_on(RetryOn { connect, reset, timeout, statuses }: &RetryOn) -> String {
    let named = RetryOn::NAMES.iter().zip([connect, reset, timeout]);
    let named = named.filter(|(_, is_set)| **is_set).map(|(name, _)| (*name).to_owned());
    named.chain(statuses.iter().map(ToString::to_string)).collect::<Vec<_>>().join(",")
}
