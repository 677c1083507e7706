//! What the APIs of providers have in common: a base URL, a bearer token, JSON both ways, and statuses that mean the
//! same everywhere. What is asked and what a provider's own error codes mean is in each provider's file.

use crate::fault::{DnsProblem, line_of, without_secrets};
use crate::name::Domain;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use serde_json::Value;
use std::time::Duration;
use tidegate_model::Secret;
use tidegate_outbound::{HttpsClient, Limits};

const LIMITS: Limits = Limits { total: Duration::from_secs(30), body_bytes_max: 1 << 20 };
/// Longer than this, nobody waits; it is the window of the slowest rate limit known here.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

pub struct Api {
    client: HttpsClient,
    base: String,
    token: Option<Secret>,
    authorization: Option<HeaderValue>,
    remedies: Remedies,
}

/// What to look at when an API does not let us.
#[derive(Clone, Copy)]
pub struct Remedies {
    pub credentials: &'static str,
    pub permission: &'static str,
    /// Whether an answer is about a token that is none, where its status says something else.
    pub is_about_token: fn(&Answer) -> bool,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Api {
    pub fn new(client: HttpsClient, base: &str, token: Option<&Secret>, remedies: Remedies) -> Result<Api, DnsProblem> {
        let authorization = token.map(|token| {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal().trim()));
            value.map(|mut value| {
                value.set_sensitive(true);
                value
            })
        });
        let authorization = authorization.transpose().map_err(|_| DnsProblem::Settings {
            problem: "the token has characters that no token has".into(),
            remedy: remedies.credentials.into(),
        })?;
        Ok(Api { client, base: base.trim_end_matches('/').to_owned(), token: token.cloned(), authorization, remedies })
    }

    /// `path` begins with `/`, or is empty.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, DnsProblem> {
        let mut request =
            Request::builder().method(method).uri(format!("{}{path}", self.base)).header(ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = request.body(body).map_err(|error| DnsProblem::Settings {
            problem: format!("`{}` is not a URL: {error}", self.base),
            remedy: "give the API's address as `https://…`".into(),
        })?;
        let answer = self.client.send(request, LIMITS).await.map_err(DnsProblem::Unreachable)?;
        let (head, body) = answer.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// As [`Api::call`], where anything but a success is a problem.
    pub async fn done(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, DnsProblem> {
        let answer = self.call(method, path, body).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.problem(&answer)) }
    }

    /// As [`Api::done`], with `None` where there is no such thing.
    pub async fn found(&self, method: Method, path: &str) -> Result<Option<Answer>, DnsProblem> {
        let answer = self.call(method, path, None).await?;
        match answer.status {
            status if status.is_success() => Ok(Some(answer)),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.problem(&answer)),
        }
    }

    /// The nearest zone that holds the name, where each zone has a path of its own below `zones`.
    pub async fn zone_of(&self, name: &Domain, zones: &str, remedy: &str) -> Result<Domain, DnsProblem> {
        for candidate in name.zone_candidates() {
            if self.found(Method::GET, &format!("{zones}/{candidate}")).await?.is_some() {
                return Ok(candidate);
            }
        }
        Err(DnsProblem::NoZone { remedy: remedy.into() })
    }

    /// For an answer that is no success.
    pub fn problem(&self, answer: &Answer) -> DnsProblem {
        let status = answer.status;
        let words = without_secrets(&said(answer), &self.token);
        let answer_text = format!("{status}{}{}", if words.is_empty() { "" } else { ", " }, line_of(&words));
        let is_about_token = (self.remedies.is_about_token)(answer);
        match status {
            _ if is_about_token => DnsProblem::Credentials { answer: answer_text, remedy: self.remedies.credentials.into() },
            StatusCode::UNAUTHORIZED => DnsProblem::Credentials { answer: answer_text, remedy: self.remedies.credentials.into() },
            StatusCode::FORBIDDEN => DnsProblem::Permission { answer: answer_text, remedy: self.remedies.permission.into() },
            StatusCode::TOO_MANY_REQUESTS => {
                DnsProblem::RateLimited { answer: answer_text, retry_after: retry_after(&answer.headers, now_secs()) }
            }
            _ => DnsProblem::Refused { answer: answer_text },
        }
    }
}

impl Answer {
    pub fn json(&self) -> Result<Value, DnsProblem> {
        serde_json::from_slice(&self.body)
            .map_err(|error| DnsProblem::Unintelligible { problem: format!("it is no JSON ({error})") })
    }
}

/// Why, in the words of the answer: the places where APIs put them, else all of a text.
fn said(answer: &Answer) -> String {
    let Ok(json) = serde_json::from_slice::<Value>(&answer.body) else {
        return match answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) {
            // Pages for browsers say nothing in their first words.
            Some(kind) if kind.starts_with("text/html") => String::new(),
            _ => String::from_utf8_lossy(&answer.body).into_owned(),
        };
    };
    let of = |object: &Value| {
        let message = object.get("message").and_then(Value::as_str)?;
        Some(match object.get("code") {
            Some(Value::String(code)) => format!("{message} ({code})"),
            Some(Value::Number(code)) => format!("{message} ({code})"),
            _ => message.to_owned(),
        })
    };
    let several =
        json.get("errors").and_then(Value::as_array).map(|errors| errors.iter().filter_map(of).collect::<Vec<_>>().join("; "));
    several.filter(|text| !text.is_empty()).or_else(|| json.get("error").and_then(of)).or_else(|| of(&json)).unwrap_or_default()
}

/// Seconds, or the time in seconds since 1970 that a window of requests ends.
fn retry_after(headers: &HeaderMap, now_secs: u64) -> Option<Duration> {
    let number = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    let of_window = || number("ratelimit-reset").or_else(|| number("x-ratelimit-reset")).map(|at| at.saturating_sub(now_secs));
    number(RETRY_AFTER.as_str()).or_else(of_window).map(|secs| Duration::from_secs(secs).min(RETRY_AFTER_MAX))
}

fn now_secs() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default()
}

/// As `"value"`: TXT records are quoted strings wherever a record is one text.
pub fn quoted(value: &str) -> String {
    format!("\"{value}\"")
}

/// Whether a record's text is this value, quoted or not.
pub fn is_value(text: &str, value: &str) -> bool {
    text.trim_matches('"') == value
}

#[cfg(test)]
mod tests {
    use super::{Answer, retry_after, said};
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use std::time::Duration;

    #[test]
    fn errors_are_found_where_each_api_has_them() {
        let check = |body: &'static str, expected: &str| {
            let answer = Answer { status: StatusCode::FORBIDDEN, headers: HeaderMap::new(), body: Bytes::from(body) };
            assert_eq!(said(&answer), expected);
        };
        check(r#"{"success":false,"errors":[{"code":10000,"message":"Authentication error"}]}"#, "Authentication error (10000)");
        check(r#"{"error":{"code":"token_readonly","message":"read only"}}"#, "read only (token_readonly)");
        check(r#"{"id":"forbidden","message":"You are not allowed"}"#, "You are not allowed");
        check("no such hook", "no such hook");
        check("{}", "");
        check(r#"{"errors":[{}],"message":7}"#, "");
    }

    #[test]
    fn waits_are_taken_from_what_each_api_says() {
        let check = |name: &'static str, value: &'static str, expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a value"));
            assert_eq!(retry_after(&headers, 1_000_000), expected.map(Duration::from_secs), "{name}: {value}");
        };
        check("retry-after", "30", Some(30));
        check("retry-after", "99999999", Some(3600));
        check("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", None);
        check("ratelimit-reset", "1000045", Some(45));
        check("ratelimit-reset", "5", Some(0));
    }
}
