//! Answers in the words of the API server.

use super::place::Place;
use crate::api::{write_chunk, write_whole};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::TcpStream;

/// To whom the versions were forgotten that a list began at.
pub const LIST_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can \
    start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of \
    the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
    deleted between the time the first chunk was returned and now may show up in the list.";

pub fn not_found(stream: &mut TcpStream, place: &Place, name: &str) -> io::Result<()> {
    let message = format!("{} \"{name}\" not found", place.resource_with_group());
    write_json(stream, 404, &status(404, "NotFound", &message, Some(place.details(name))))
}

pub fn refuse(stream: &mut TcpStream, code: u16, reason: &str, message: &str, retry_after: Option<u64>) -> io::Result<()> {
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(retry_after.map(|seconds| ("retry-after", seconds.to_string())));
    let details = retry_after.map(|seconds| json!({"retryAfterSeconds": seconds}));
    write_whole(stream, code, &headers, &status(code, reason, message, details).to_string())
}

pub fn status(code: u16, reason: &str, message: &str, details: Option<Value>) -> Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code,
    });
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    if let Some(details) = details {
        status["details"] = details;
    }
    status
}

pub fn write_json(stream: &mut TcpStream, code: u16, body: &Value) -> io::Result<()> {
    write_whole(stream, code, &[("content-type", "application/json".to_owned())], &body.to_string())
}

pub fn write_line(stream: &mut impl Write, kind: &str, object: &Value) -> io::Result<()> {
    write_chunk(stream, format!("{}\n", json!({"type": kind, "object": object})).as_bytes())
}
