//! Reads requests: parameters of the path and the query, `If-Match`, and bodies, each with an error that says what is
//! wrong with it.

use crate::problem::Problem;
use crate::problem::bad_request;
use axum::RequestPartsExt;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;
use tidegate_control::Tag;

/// A configuration of ten thousand sites is about 4 MiB.
pub const BODY_BYTES_MAX: usize = 8 << 20;
pub const JSON_TYPE: &str = "application/json";
/// RFC 7396.
pub const MERGE_PATCH_TYPE: &str = "application/merge-patch+json";
/// Of a name in a message.
const NAME_SHOWN_CHARS_MAX: usize = 60;

/// What stands in the place of `{name}` in a path.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub fn text(&self, name: &str) -> String {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> Result<u64, Problem> {
        let text = self.text(name);
        text.parse().map_err(|_| bad_request(format!("`{}` in the path is not a generation's number", text.escape_debug())))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Parameters, Problem> {
        let path: Path<Vec<(String, String)>> = parts.extract().await.map_err(|_| bad_request("the path is not UTF-8"))?;
        Ok(Parameters(path.0))
    }
}

/// The query; parameters that an address does not have are errors, since a filter with a slip would otherwise list
/// everything.
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn allowing(self, names: &[&str]) -> Result<Query, Problem> {
        match self.0.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            None => Ok(self),
            Some((name, _)) => {
                let known = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                Err(bad_request(format!("there is no query parameter `{}`", name.escape_debug()))
                    .with_help(format!("there are {known}")))
            }
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let read = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((percent_decoded(name)?, percent_decoded(value)?))
        };
        pairs.map(read).collect::<Option<_>>().map(Query).ok_or_else(|| bad_request("the query is not percent-encoded UTF-8"))
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while let Some(byte) = bytes.get(position) {
        if *byte == b'%' {
            let digits = bytes.get(position + 1..position + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            decoded.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            position += 3;
        } else {
            decoded.push(*byte);
            position += 1;
        }
    }
    String::from_utf8(decoded).ok()
}

/// What a change is meant for, from `If-Match`.
pub struct Expected(pub Option<Tag>);

impl<S: Send + Sync> FromRequestParts<S> for Expected {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Expected, Problem> {
        expected(&parts.headers).map(Expected)
    }
}

fn expected(headers: &HeaderMap) -> Result<Option<Tag>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let tag = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).and_then(|tag| tag.parse().ok());
    tag.map(Some).ok_or_else(|| {
        bad_request("`If-Match` is not the tag of a generation")
            .with_help("write it as `ETag` had it, such as `If-Match: \"5-0a1b2c3d\"`")
    })
}

/// A body in JSON; an empty one is `{}`.
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Json<T>, Problem> {
        let body = body_of(request, &[JSON_TYPE]).await?;
        parse(if body.is_empty() { b"{}" } else { &body }).map(Json)
    }
}

/// A part of a configuration. Nothing is not a part: `{}` has to be written, because it may be one.
pub struct Part(pub Value);

impl<S: Send + Sync> FromRequest<S> for Part {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Part, Problem> {
        let body = body_of(request, &[JSON_TYPE, MERGE_PATCH_TYPE]).await?;
        part(&body).map(Part)
    }
}

fn part(body: &[u8]) -> Result<Value, Problem> {
    let help = "/v1/configuration/schema describes every part of the configuration";
    if body.is_empty() {
        return Err(bad_request("the body is empty, and has to say what is to be there").with_help(help));
    }
    let Once(value) = serde_json::from_slice(body)
        .map_err(|error| bad_request(format!("the body is not as it should be: {error}")).with_help(help))?;
    Ok(value)
}

/// A value whose objects have each member once. Of two, a reader that takes the last and one that takes the first would
/// disagree about what was asked for.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Once, D::Error> {
        deserializer.deserialize_any(OnceVisitor).map(Once)
    }
}

struct OnceVisitor;

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Once(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if members.contains_key(&name) {
                let shown: String = name.chars().take(NAME_SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
                return Err(A::Error::custom(format_args!("the member `{shown}` stands twice in one object")));
            }
            let Once(value) = entries.next_value()?;
            members.insert(name, value);
        }
        Ok(members.into())
    }
}

async fn body_of(request: Request, types: &[&str]) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let detail = format!("the body is larger than {} MiB", BODY_BYTES_MAX >> 20);
            return Err(Problem::new(413, "too-large", "The body is too large", detail)
                .with_help("write the configuration to a file on that machine, and send its path as `file` to /v1/apply"));
        }
        Err(error) => return Err(bad_request(format!("the body ended early: {error}"))),
    };
    if !body.is_empty() && !is_of_type(&parts.headers, types) {
        let detail = format!("`Content-Type` is not `{JSON_TYPE}`");
        return Err(Problem::new(415, "not-json", "The body is not JSON by its type", detail)
            .with_help(format!("send the body as JSON with `Content-Type: {JSON_TYPE}`")));
    }
    Ok(body)
}

fn is_of_type(headers: &HeaderMap, types: &[&str]) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    types.iter().any(|known| essence.eq_ignore_ascii_case(known))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." || path == "?" { "the body".to_owned() } else { format!("`{path}` in the body") };
        bad_request(format!("{place} is not as it should be: {}", error.inner()))
            .with_help("/v1/openapi.json describes every body")
    })?;
    deserializer.end().map_err(|error| bad_request(format!("something follows the JSON in the body: {error}")))?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::{JSON_TYPE, expected, is_of_type, parse, part, percent_decoded};
    use axum::http::{HeaderMap, HeaderValue, header};
    use tidegate_api::ApplyRequest;
    use tidegate_control::Tag;

    fn with(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn if_match_names_a_generation() {
        let check = |value: &'static str, wanted: Option<Option<Tag>>| {
            assert_eq!(expected(&with(header::IF_MATCH, value)).ok(), wanted, "{value}");
        };
        check("\"5\"", Some(Some(Tag::of_number(5))));
        check("\"5-0a1b2c3d\"", Some(Some(Tag { generation: 5, mark: Some(0x0a1b_2c3d) })));
        check("\"5-0a1b2c3\"", None);
        check("*", Some(None));
        check("5", None);
        check("W/\"5\"", None);
        check("\"5\", \"6\"", None);
        check("\"\"", None);
        assert!(matches!(expected(&HeaderMap::new()), Ok(None)));
    }

    #[test]
    fn json_is_known_by_its_type() {
        let check = |value: &'static str, wanted: bool| {
            assert_eq!(is_of_type(&with(header::CONTENT_TYPE, value), &[JSON_TYPE]), wanted, "{value}");
        };
        check("application/json", true);
        check("Application/JSON; charset=utf-8", true);
        check("text/plain", false);
        check("application/x-www-form-urlencoded", false);
        assert!(!is_of_type(&HeaderMap::new(), &[JSON_TYPE]));
    }

    #[test]
    fn bodies_say_what_is_wrong_with_them() {
        let check = |body: &str, wanted: &str| {
            let seen = parse::<ApplyRequest>(body.as_bytes()).err().map(|problem| problem.detail).unwrap_or_default();
            assert_eq!(&*seen, wanted, "{body}");
        };
        check("{}", "");
        check("{\"file\": \"/a\", \"confirm_within_seconds\": 60}", "");
        check(
            "{\"confirm_within_seconds\": \"60\"}",
            "`confirm_within_seconds` in the body is not as it should be: invalid type: string \"60\", expected u64 at line 1 column 31",
        );
        check("{", "the body is not as it should be: EOF while parsing an object at line 1 column 1");
        check("{} {}", "something follows the JSON in the body: trailing characters at line 1 column 4");
        let unknown = parse::<ApplyRequest>(b"{\"fil\": \"/a\"}").err().map(|problem| problem.detail).unwrap_or_default();
        assert!(unknown.contains("unknown field `fil`, expected one of `file`"), "{unknown}");
    }

    #[test]
    fn parts_of_a_configuration_say_everything_once() {
        let check = |body: &str, wanted: Result<serde_json::Value, &str>| {
            let seen = part(body.as_bytes()).map_err(|problem| problem.detail);
            assert_eq!(seen.as_ref().map_err(|detail| &**detail), wanted.as_ref().map_err(|detail| *detail), "{body}");
        };
        let value = serde_json::json!({ "a": [1, -2, 0.5, true, null, "\n"], "b": { "a": {} } });
        check(&value.to_string(), Ok(value));
        check("5", Ok(5.into()));
        check("", Err("the body is empty, and has to say what is to be there"));
        let twice = "the body is not as it should be: the member `w` stands twice in one object at line 1 column 19";
        check("{\"s\": [{\"w\": 1, \"w\": 2}]}", Err(twice));
        check("{} {}", Err("the body is not as it should be: trailing characters at line 1 column 4"));
        let deep = "[".repeat(10_000);
        check(&deep, Err("the body is not as it should be: recursion limit exceeded at line 1 column 128"));
    }

    #[test]
    fn queries_are_percent_decoded() {
        let check = |text: &str, wanted: Option<&str>| assert_eq!(percent_decoded(text).as_deref(), wanted, "{text}");
        check("http%2f1", Some("http/1"));
        check("127.0.0.1:80", Some("127.0.0.1:80"));
        check("%", None);
        check("%+1", None);
        check("%ff", None);
    }
}
