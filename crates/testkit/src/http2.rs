//! Small pieces over the `h2` crate that scripted clients and upstreams share: sending under flow control, heads both
//! ways.

use crate::head::Head;
use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::future::poll_fn;

/// Sends all of `bytes`, waiting for the peer's windows.
pub async fn send_all(stream: &mut SendStream<Bytes>, bytes: Bytes, end: bool) -> Result<(), h2::Error> {
    let mut rest = bytes;
    if rest.is_empty() {
        return stream.send_data(rest, end);
    }
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        while stream.capacity() == 0 {
            match poll_fn(|context| stream.poll_capacity(context)).await {
                Some(result) => result?,
                None => return Err(h2::Error::from(h2::Reason::STREAM_CLOSED)),
            };
        }
        let piece = rest.split_to(stream.capacity().min(rest.len()));
        let is_last = rest.is_empty();
        stream.send_data(piece, end && is_last)?;
    }
    Ok(())
}

/// The next piece of a body, its window given back at once.
pub async fn receive_data(stream: &mut RecvStream) -> Option<Result<Bytes, h2::Error>> {
    let piece = stream.data().await?;
    if let Ok(bytes) = &piece {
        let _ = stream.flow_control().release_capacity(bytes.len());
    }
    Some(piece)
}

/// `Name: value` lines as a map; pseudo-headers are left to the caller.
pub fn header_map(lines: &[Vec<u8>]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in lines.iter().map(|line| split_field(line)).collect::<Result<Vec<_>, _>>()? {
        if name.starts_with(b":") {
            continue;
        }
        let name = HeaderName::from_bytes(&name).map_err(|error| error.to_string())?;
        map.append(name, HeaderValue::from_bytes(&value).map_err(|error| error.to_string())?);
    }
    Ok(map)
}

/// Name and value of `name: value`, `:name: value`, or `: value`, whose name is empty.
pub fn split_field(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let skip = usize::from(line.starts_with(b":") && !line.starts_with(b": "));
    let colon = line[skip..].iter().position(|byte| *byte == b':').map(|position| position + skip);
    let colon = colon.ok_or_else(|| format!("`{}` is no `name: value`", String::from_utf8_lossy(line)))?;
    let value = line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..]);
    Ok((line[..colon].to_vec(), value.to_vec()))
}

pub fn fields(map: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    map.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

pub fn request_head<T>(request: &http::Request<T>) -> Head {
    let mut head = Head::default();
    let mut pseudo = |name: &str, value: &str| head.fields.push((name.to_owned(), value.as_bytes().to_vec()));
    pseudo(":method", request.method().as_str());
    if let Some(protocol) = request.extensions().get::<h2::ext::Protocol>() {
        pseudo(":protocol", protocol.as_str());
    }
    if let Some(scheme) = request.uri().scheme_str() {
        pseudo(":scheme", scheme);
    }
    if let Some(authority) = request.uri().authority() {
        pseudo(":authority", authority.as_str());
    }
    if let Some(path) = request.uri().path_and_query() {
        pseudo(":path", path.as_str());
    }
    head.fields.extend(fields(request.headers()));
    head
}

pub fn response_head<T>(response: &http::Response<T>) -> Head {
    let mut head = Head::default();
    head.fields.push((":status".to_owned(), response.status().as_str().as_bytes().to_vec()));
    head.fields.extend(fields(response.headers()));
    head
}
