//! Whether an answer may be stored (RFC 9111 section 3) and on which terms it may be served later: its age when it came
//! and how long it is fresh (section 4.2). How those terms are applied to a request is in `serving`.

use super::cache_control::{DELTA_SECONDS_MAX, Delta, ResponseDirectives, Scope, seconds};
use crate::key::Vary;
use crate::message::{Field, Now, RequestHead, ResponseHead, Sole, StoredHead, date_seconds, has, members, sole, values};
use crate::settings::Rules;

/// Statuses that may be fresh by heuristics (RFC 9110 section 15.1), without 206, which is never stored.
const HEURISTIC_STATUSES: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];
/// Statuses whose caching this crate knows all about, for `must-understand`.
const UNDERSTOOD_STATUSES: [u16; 17] = [200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 500, 501, 502, 503];
/// Fields that are about one connection (RFC 9110 section 7.6.1) or one proxy, and `Age`, which is told anew each time.
const NEVER_STORED: [&[u8]; 11] = [
    b"age",
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authentication-info",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];
/// Fields without which a stored answer is wrong. A qualified `no-cache` or `private` that names one counts as
/// unqualified, and `Connection` cannot name them away.
const RELIED_ON: [&[u8]; 13] = [
    b"cache-control",
    b"cache-tag",
    b"content-encoding",
    b"content-length",
    b"content-type",
    b"date",
    b"etag",
    b"expires",
    b"last-modified",
    b"location",
    b"pragma",
    b"surrogate-key",
    b"vary",
];

/// Why an answer is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNot {
    Method,
    Status,
    RequestNoStore,
    NoStore,
    Private,
    Authorization,
    SetCookie,
    /// `Vary: *`, or one that cannot be read.
    Vary,
    /// Encoded in a way that the reduced `Accept-Encoding` of the key does not tell apart.
    Encoding,
    /// More or longer tags than are kept.
    Tags,
    /// Neither fresh nor to be validated: it could never be served.
    NoFreshness,
    /// Framing fields that contradict themselves.
    Malformed,
    /// Head or body are beyond their bounds, or there is no room.
    TooLarge,
    /// The URL was purged while the answer was on its way.
    Purged,
}

/// When a stale answer may be served at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    WhenConvenient,
    /// `must-revalidate` and the like: once it is stale.
    OnceStale,
    /// `no-cache`: before every use.
    Always,
}

/// On which terms a stored answer may be served. All of it is known when it is stored, so that a hit parses none of the
/// head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// By [`Now::seconds`].
    pub received_seconds: u64,
    /// `corrected_initial_age` of RFC 9111 section 4.2.3.
    pub initial_age_seconds: u64,
    pub lifetime_seconds: u64,
    pub stale_while_revalidate_seconds: u64,
    pub stale_if_error_seconds: u64,
    pub validation: Validation,
    /// While fresh, a client's `max-age` need not reach the upstream (RFC 8246).
    pub immutable: bool,
}

impl Terms {
    /// `current_age` of RFC 9111 section 4.2.3.
    pub fn age_seconds(&self, now: Now) -> u64 {
        self.initial_age_seconds.saturating_add(now.seconds.saturating_sub(self.received_seconds))
    }

    pub fn is_never_fresh(&self) -> bool {
        self.validation == Validation::Always || self.lifetime_seconds <= self.initial_age_seconds
    }
}

/// One exchange with an upstream.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    pub request: RequestHead<'a>,
    pub response: ResponseHead<'a>,
    pub sent: Now,
    pub received: Now,
}

/// What is to be stored of an answer, beside its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storable {
    pub head: StoredHead,
    pub terms: Terms,
    pub vary: Vary,
    pub secondary: Box<[u8]>,
    pub tags: Box<[Box<[u8]>]>,
    /// Of the body, when the head gives it.
    pub content_length: Option<u64>,
}

/// The terms of an answer that may be stored.
pub fn storable(rules: &Rules, exchange: Exchange<'_>) -> Result<Storable, WhyNot> {
    let (request, response) = (exchange.request, exchange.response);
    if request.method != b"GET" {
        return Err(WhyNot::Method);
    }
    // A part, the answer to a condition, what is not final and what came too early (RFC 8470 section 5.2) are never the
    // answer to another request.
    if !(200..=599).contains(&response.status) || matches!(response.status, 206 | 304 | 425) {
        return Err(WhyNot::Status);
    }
    let directives = directives(rules, response);
    permitted(rules, request, response, &directives)?;
    let vary = Vary::read(response.fields).ok_or(WhyNot::Vary)?.within_partition(request.fields);
    if vary.names().any(|name| rules.unkeyed_fields.iter().any(|unkeyed| unkeyed.as_bytes() == name)) {
        return Err(WhyNot::Vary);
    }
    let secondary = vary.secondary(request.fields).ok_or(WhyNot::Vary)?;
    let tags = super::tags::read(response.fields).ok_or(WhyNot::Tags)?;
    if vary.names_accept_encoding() && values(response.fields, "content-encoding").flat_map(members).any(is_foreign_coding) {
        return Err(WhyNot::Encoding);
    }
    let content_length = match sole(response.fields, "content-length") {
        Sole::Absent => None,
        Sole::One(value) => Some(length(value).ok_or(WhyNot::Malformed)?),
        Sole::Conflicting => return Err(WhyNot::Malformed),
    };
    let terms = terms(rules, exchange, &directives);
    let is_validated = has(response.fields, "etag") || has(response.fields, "last-modified");
    let is_served_stale = terms.stale_while_revalidate_seconds > 0 || terms.stale_if_error_seconds > 0;
    if terms.is_never_fresh() && !is_validated && (!is_served_stale || terms.validation != Validation::WhenConvenient) {
        return Err(WhyNot::NoFreshness);
    }
    let head = head_to_store(exchange, &directives).ok_or(WhyNot::TooLarge)?;
    Ok(Storable { head, terms, vary, secondary, tags, content_length })
}

/// What the one client gets whose request had a 304 for its answer, when the answer that this makes may not be kept any
/// more: all of it, and how old it is. `None` if the head is beyond its bounds.
pub fn for_one(rules: &Rules, exchange: Exchange<'_>) -> Option<(StoredHead, Terms)> {
    let directives = directives(rules, exchange.response);
    let head = head_to_store(exchange, &ResponseDirectives::default())?;
    Some((head, terms(rules, exchange, &directives)))
}

/// The fields of an answer that are not kept because a qualified `no-cache` or `private` names them. They are for the
/// client that asked: only later ones are not to be given them without asking (RFC 9111 section 5.2.2.4).
pub fn withheld<'a>(fields: &'a [Field<'a>], kept: &'a StoredHead) -> impl Iterator<Item = Field<'a>> {
    let named = named_by_connection(fields);
    let is_withheld = move |field: &&Field<'_>| is_stored(field.0, &named) && !kept.fields().any(|other| other.0 == field.0);
    fields.iter().filter(is_withheld).copied()
}

fn directives(rules: &Rules, response: ResponseHead<'_>) -> ResponseDirectives {
    let read = if rules.obeys_cdn_cache_control { ResponseDirectives::read_targeted } else { ResponseDirectives::read };
    read(response.fields)
}

/// What both sides and the status forbid, and what has to be said for it (RFC 9111 sections 3 and 3.5).
fn permitted(
    rules: &Rules,
    request: RequestHead<'_>,
    response: ResponseHead<'_>,
    directives: &ResponseDirectives,
) -> Result<(), WhyNot> {
    let is_understood = UNDERSTOOD_STATUSES.contains(&response.status);
    if directives.must_understand && !is_understood {
        return Err(WhyNot::Status);
    }
    if request_forbids(request) {
        return Err(WhyNot::RequestNoStore);
    }
    // `no-store` beside `must-understand` is for caches that do not know the status (section 5.2.2.3).
    if directives.no_store && !directives.must_understand {
        return Err(WhyNot::NoStore);
    }
    if is_whole(&directives.private) {
        return Err(WhyNot::Private);
    }
    let is_shared = directives.public || directives.must_revalidate || is_number(directives.s_maxage);
    if request.is_authorized() && !is_shared {
        return Err(WhyNot::Authorization);
    }
    let sets_cookie = has(response.fields, "set-cookie") && !withholds(directives, b"set-cookie");
    if sets_cookie && !rules.stores_set_cookie {
        return Err(WhyNot::SetCookie);
    }
    let is_explicit = directives.public
        || directives.max_age != Delta::Absent
        || directives.s_maxage != Delta::Absent
        || (has(response.fields, "expires") && !directives.is_targeted);
    if !is_explicit && !HEURISTIC_STATUSES.contains(&response.status) && negative(rules, response.status).is_none() {
        return Err(WhyNot::Status);
    }
    Ok(())
}

fn request_forbids(request: RequestHead<'_>) -> bool {
    super::RequestDirectives::read(request.fields, true).no_store
}

fn is_number(delta: Delta) -> bool {
    matches!(delta, Delta::Seconds(_))
}

/// Whether `no-cache` or `private` is about the whole answer, or about something that cannot be taken out of it.
fn is_whole(scope: &Scope) -> bool {
    match scope {
        Scope::Nothing => false,
        Scope::Fields(fields) => fields.iter().any(|field| RELIED_ON.contains(&field.as_slice())),
        Scope::Whole => true,
    }
}

/// Whether a qualified directive asks that the field be left out (RFC 9111 sections 5.2.2.4 and 5.2.2.7).
fn withholds(directives: &ResponseDirectives, name: &[u8]) -> bool {
    let lists = |scope: &Scope| match scope {
        Scope::Nothing | Scope::Whole => false,
        Scope::Fields(fields) => fields.iter().any(|field| field == name),
    };
    lists(&directives.no_cache) || lists(&directives.private)
}

/// The key knows zstd, br and gzip only; an answer in another coding would be given to clients that did not offer it.
fn is_foreign_coding(coding: &[u8]) -> bool {
    !["zstd", "br", "gzip", "x-gzip", "identity"].iter().any(|known| coding.eq_ignore_ascii_case(known.as_bytes()))
}

fn length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.len() <= 19 && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn terms(rules: &Rules, exchange: Exchange<'_>, directives: &ResponseDirectives) -> Terms {
    let says_stale = directives.stale_while_revalidate != Delta::Absent || directives.stale_if_error != Delta::Absent;
    let validation = if is_whole(&directives.no_cache) {
        Validation::Always
    } else if directives.must_revalidate || directives.proxy_revalidate {
        Validation::OnceStale
    } else if directives.s_maxage != Delta::Absent && !says_stale {
        // `s-maxage` includes `proxy-revalidate` (section 5.2.2.10), unless the same answer says how stale it may be
        // served.
        Validation::OnceStale
    } else {
        Validation::WhenConvenient
    };
    Terms {
        received_seconds: exchange.received.seconds,
        initial_age_seconds: initial_age_seconds(exchange),
        lifetime_seconds: lifetime_seconds(rules, exchange, directives).min(DELTA_SECONDS_MAX),
        stale_while_revalidate_seconds: directives
            .stale_while_revalidate
            .allowed()
            .unwrap_or(rules.stale_while_revalidate_seconds.min(DELTA_SECONDS_MAX)),
        stale_if_error_seconds: directives
            .stale_if_error
            .allowed()
            .unwrap_or(rules.stale_if_error_seconds.min(DELTA_SECONDS_MAX)),
        validation,
        immutable: directives.immutable,
    }
}

/// RFC 9111 section 4.2.3.
fn initial_age_seconds(exchange: Exchange<'_>) -> u64 {
    let fields = exchange.response.fields;
    let apparent = exchange.received.wall_seconds().saturating_sub(date(exchange));
    // Section 5.1: of a list the first member counts, and what is not a number does not.
    let told = match values(fields, "age").flat_map(members).next().map(seconds) {
        Some(Delta::Seconds(seconds)) => seconds,
        Some(Delta::Invalid | Delta::Absent) | None => 0,
    };
    let delay = exchange.received.seconds.saturating_sub(exchange.sent.seconds);
    apparent.max(told.saturating_add(delay))
}

/// When the answer was made; when it came, if it does not say.
fn date(exchange: Exchange<'_>) -> u64 {
    let received = exchange.received.wall_seconds();
    values(exchange.response.fields, "date").next().and_then(date_seconds).unwrap_or(received)
}

/// RFC 9111 section 4.2.1.
fn lifetime_seconds(rules: &Rules, exchange: Exchange<'_>, directives: &ResponseDirectives) -> u64 {
    let fields = exchange.response.fields;
    if let Some(seconds) = directives.s_maxage.allowed().or(directives.max_age.allowed()) {
        return seconds;
    }
    match sole(fields, "expires") {
        _ if directives.is_targeted => {}
        Sole::One(expires) => return date_seconds(expires).unwrap_or(0).saturating_sub(date(exchange)),
        Sole::Conflicting => return 0,
        Sole::Absent => {}
    }
    if let Some(seconds) = negative(rules, exchange.response.status) {
        return seconds;
    }
    heuristic_seconds(rules, exchange, directives)
}

fn negative(rules: &Rules, status: u16) -> Option<u64> {
    rules.negative_seconds.iter().find(|entry| entry.0 == status).map(|entry| entry.1)
}

/// RFC 9111 section 4.2.2.
fn heuristic_seconds(rules: &Rules, exchange: Exchange<'_>, directives: &ResponseDirectives) -> u64 {
    let fields = exchange.response.fields;
    let may_guess = HEURISTIC_STATUSES.contains(&exchange.response.status) || directives.public;
    // An old server that means `no-cache` has no other way to say it.
    let is_declined = values(fields, "pragma").flat_map(members).any(|pragma| pragma.eq_ignore_ascii_case(b"no-cache"));
    let Sole::One(modified) = sole(fields, "last-modified") else { return 0 };
    let Some(modified) = date_seconds(modified).filter(|_| may_guess && !is_declined) else { return 0 };
    let unchanged = date(exchange).saturating_sub(modified);
    (unchanged.saturating_mul(rules.heuristic_percent) / 100).min(rules.heuristic_seconds_max)
}

/// The head without what is not stored (RFC 9111 section 3.1), and with a date. `None` if it is beyond its bounds.
fn head_to_store(exchange: Exchange<'_>, directives: &ResponseDirectives) -> Option<StoredHead> {
    let response = exchange.response;
    let received = exchange.received.http_date();
    let date = (!has(response.fields, "date")).then_some((&b"date"[..], received.as_bytes()));
    let named = named_by_connection(response.fields);
    let is_stored = |field: &&Field<'_>| is_stored(field.0, &named) && !withholds(directives, field.0);
    StoredHead::new(response.status, response.fields.iter().filter(is_stored).copied().chain(date))
}

/// What `Connection` names, in lower case.
pub fn named_by_connection(fields: &[Field<'_>]) -> Vec<Vec<u8>> {
    values(fields, "connection").flat_map(members).take(32).map(<[u8]>::to_ascii_lowercase).collect()
}

/// Whether a field is kept, beside what `Connection` names, in lower case.
pub fn is_stored(name: &[u8], named_by_connection: &[Vec<u8>]) -> bool {
    let is_named = named_by_connection.iter().any(|named| named == name) && !RELIED_ON.contains(&name);
    !NEVER_STORED.contains(&name) && !is_named
}

#[cfg(test)]
mod tests;
