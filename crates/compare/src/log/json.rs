//! Lines that are JSON objects: our own access log, Caddy's, Traefik's, Envoy's, and nginx's where its fields are
//! called as its variables are.

use super::Told;
use crate::request::{LeftOut, Request};
use serde_json::{Map, Value};

type Line = Map<String, Value>;

pub fn read(number: usize, line: &[u8]) -> Result<Request, LeftOut> {
    let Ok(Value::Object(line)) = serde_json::from_slice(line) else { return Err(LeftOut::Unknown) };
    let told = caddy(&line).or_else(|| traefik(&line)).or_else(|| ours(&line)).or_else(|| nginx(&line));
    told.ok_or(LeftOut::Unknown)?.request(number)
}

/// `{"request": {"method": …, "host": …, "uri": …, "headers": {"User-Agent": ["…"]}}, "status": 200}`
fn caddy(line: &Line) -> Option<Told> {
    let request = line.get("request")?.as_object()?;
    let mut told = Told {
        method: text(request, "method")?,
        target: text(request, "uri")?,
        host: text(request, "host"),
        status: status(line, &["status"]),
        fields: Vec::new(),
    };
    for (name, values) in request.get("headers").and_then(Value::as_object).into_iter().flatten() {
        for value in values.as_array().into_iter().flatten().filter_map(Value::as_str) {
            told.fields.push((name.clone(), value.as_bytes().to_vec()));
        }
    }
    Some(told)
}

/// `{"RequestMethod": …, "RequestPath": …, "RequestHost": …, "request_User-Agent": …, "DownstreamStatus": 200}`
fn traefik(line: &Line) -> Option<Told> {
    let fields = line.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("request_")?;
        Some((name.to_owned(), value.as_str()?.as_bytes().to_vec()))
    });
    Some(Told {
        method: text(line, "RequestMethod")?,
        target: text(line, "RequestPath")?,
        host: first(line, &["RequestAddr", "RequestHost"]),
        status: status(line, &["DownstreamStatus"]),
        fields: fields.collect(),
    })
}

/// `{"method": …, "host": …, "path": …, "query": …}`; Envoy says `authority`, and has the query in `path`.
fn ours(line: &Line) -> Option<Told> {
    let mut target = text(line, "path")?;
    if let Some(query) = text(line, "query") {
        target.push(b'?');
        target.extend_from_slice(&query);
    }
    Some(Told {
        method: text(line, "method")?,
        target,
        host: first(line, &["host", "authority", ":authority"]),
        status: status(line, &["status", "response_code"]),
        fields: clients(line),
    })
}

/// `{"request": "GET /path HTTP/1.1", …}` or `{"request_method": …, "request_uri": …}`
fn nginx(line: &Line) -> Option<Told> {
    let (method, target) = match text(line, "request") {
        Some(request) => {
            let mut words = request.split(|byte| *byte == b' ');
            (words.next()?.to_vec(), words.next()?.to_vec())
        }
        None => (first(line, &["request_method", "method"])?, first(line, &["request_uri", "uri"])?),
    };
    Some(Told {
        method,
        target,
        host: first(line, &["http_host", "host", "server_name"]),
        status: status(line, &["status"]),
        fields: clients(line),
    })
}

fn clients(line: &Line) -> Vec<(String, Vec<u8>)> {
    let known = [("Referer", ["referer", "http_referer"]), ("User-Agent", ["user_agent", "http_user_agent"])];
    known.into_iter().filter_map(|(name, keys)| Some((name.to_owned(), first(line, &keys)?))).collect()
}

fn text(line: &Line, key: &str) -> Option<Vec<u8>> {
    Some(line.get(key)?.as_str()?.as_bytes().to_vec())
}

fn first(line: &Line, keys: &[&str]) -> Option<Vec<u8>> {
    keys.iter().find_map(|key| text(line, key).filter(|text| !text.is_empty()))
}

/// A number, or one in quotes, as templates write it.
fn status(line: &Line, keys: &[&str]) -> Option<u16> {
    let value = keys.iter().find_map(|key| line.get(*key))?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok()
}
