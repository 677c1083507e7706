//! Heads at the edge of the h2 library: from `http`'s types into one byte buffer with its index, and back.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme as UriScheme};
use http::{Request, Response, StatusCode, Uri};
use std::borrow::Cow;
use std::sync::LazyLock;
use tidegate_wire::head::{Fields, HeaderId, Method, RequestHead, ResponseHead, Version};
use tidegate_wire::{HeadError, HeadLimits, http1, parse_authority};

/// Reads a request under the rules that HTTP/1 requests are read under, so that what follows need not know the
/// difference.
pub fn read_request(request: &http::request::Parts, limits: &HeadLimits, head: &mut RequestHead) -> Result<(), HeadError> {
    head.clear();
    head.version = Version::Http2;
    head.method = Method::of(request.method.as_str().as_bytes());
    head.method_name = head.fields.append(&[request.method.as_str().as_bytes()]);
    let target = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    if target.len() > limits.request_line_bytes_max {
        return Err(HeadError::RequestLineTooLong);
    }
    if target == "*" && head.method == Method::Options {
        head.path = head.fields.append(&[b"*"]);
    } else {
        http1::append_origin_form(head, target.as_bytes())?;
    }
    if request.headers.len() > limits.fields_max {
        return Err(HeadError::TooManyFields);
    }
    append_fields(&request.headers, &mut head.fields);
    if head.fields.has(HeaderId::ContentLength) {
        // Several equal ones, or leading zeros, are fine with h2; an HTTP/1.1 upstream gets one that reads in one way.
        let length = http1::request_content_length(&head.fields)?;
        head.fields.set(b"content-length", itoa::Buffer::new().format(length).as_bytes());
    }
    join_cookies(&mut head.fields);
    if head.fields.bytes.len() > limits.head_bytes_max {
        return Err(HeadError::HeadTooLarge);
    }
    settle_authority(request.uri.authority().map(Authority::as_str), head)
}

/// `:authority` is the host; a `Host` field beside it must agree (RFC 9113 section 8.3.1), and is what HTTP/1.1
/// upstreams get.
fn settle_authority(authority: Option<&str>, head: &mut RequestHead) -> Result<(), HeadError> {
    if head.fields.all(HeaderId::Host).nth(1).is_some() {
        return Err(HeadError::HostRepeated);
    }
    let host = head.fields.get(HeaderId::Host);
    let text: Cow<'_, [u8]> = match (authority, host) {
        (Some(authority), None) => authority.as_bytes().into(),
        (Some(authority), Some(host)) => {
            let (named, meant) = (parse_authority(host)?, parse_authority(authority.as_bytes())?);
            if !named.is_same(&meant, 443) && !named.is_same(&meant, 80) {
                return Err(HeadError::TargetDisagreesWithHost);
            }
            authority.as_bytes().into()
        }
        (None, Some(host)) => host.to_vec().into(),
        (None, None) => return Err(HeadError::HostMissing),
    };
    let parsed = parse_authority(&text)?;
    let span = head.fields.append(&[&text]);
    head.set_authority(span, &parsed);
    if !head.fields.has(HeaderId::Host) {
        head.fields.push_id(HeaderId::Host, &text);
    }
    Ok(())
}

/// RFC 9113 section 8.2.3: cookie fields that were split for compression become one again.
fn join_cookies(fields: &mut Fields) {
    if fields.all(HeaderId::Cookie).nth(1).is_none() {
        return;
    }
    let joined = fields.all(HeaderId::Cookie).collect::<Vec<_>>().join(&b"; "[..]);
    fields.set(b"cookie", &joined);
}

/// A request for an upstream that speaks HTTP/2; `None` when its parts are none that HTTP/2 can carry.
pub fn request(head: &RequestHead, scheme: &str, trailers_wanted: bool) -> Option<Request<()>> {
    let host = head.fields.get(HeaderId::Host).filter(|host| !host.is_empty()).unwrap_or(head.authority());
    let mut target = head.path().to_vec();
    if let Some(query) = head.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let uri = Uri::builder()
        .scheme(UriScheme::try_from(scheme).ok()?)
        .authority(Authority::try_from(host).ok()?)
        .path_and_query(PathAndQuery::try_from(target.as_slice()).ok()?)
        .build()
        .ok()?;
    let mut request = Request::new(());
    *request.method_mut() = http::Method::from_bytes(head.method_name()).ok()?;
    *request.uri_mut() = uri;
    *request.version_mut() = http::Version::HTTP_2;
    *request.headers_mut() = header_map(&head.fields);
    request.headers_mut().remove(http::header::HOST);
    if trailers_wanted {
        // The one value that may be passed on (RFC 9113 section 8.2.2); gRPC servers insist on it.
        request.headers_mut().insert(http::header::TE, HeaderValue::from_static("trailers"));
    }
    Some(request)
}

/// Reads an answer that came over HTTP/2; false when it has more fields than a head may have.
pub fn read_response(response: &http::response::Parts, limits: &HeadLimits, head: &mut ResponseHead) -> bool {
    head.clear();
    head.version = Version::Http2;
    head.status = response.status.as_u16();
    let reason = response.status.canonical_reason().unwrap_or("");
    head.reason = head.fields.append(&[reason.as_bytes()]);
    append_fields(&response.headers, &mut head.fields);
    response.headers.len() <= limits.fields_max && head.fields.bytes.len() <= limits.head_bytes_max
}

/// An answer for a client that speaks HTTP/2.
pub fn response(head: &ResponseHead) -> Option<Response<()>> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.status).ok()?;
    *response.version_mut() = http::Version::HTTP_2;
    *response.headers_mut() = header_map(&head.fields);
    Some(response)
}

/// Fields that HTTP/2 forbids (RFC 9113 section 8.2.2) are left out; so is what is no valid field, which the strict
/// parser has refused.
pub fn header_map(fields: &Fields) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.list.len());
    for field in fields.list.iter().filter(|field| field.id != HeaderId::Removed && !field.id.is_of_http1_connection()) {
        let name = match field.id {
            HeaderId::Other => HeaderName::from_bytes(field.name.of(&fields.bytes)),
            id => Ok(NAMES[id as usize].clone()),
        };
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value.of(&fields.bytes))) {
            map.append(name, value);
        }
    }
    map
}

/// The names of well-known fields, by their ids. The first two ids have none, and another name stands in their places.
static NAMES: LazyLock<Vec<HeaderName>> = LazyLock::new(|| {
    let nameless = [http::header::HOST, http::header::HOST];
    let named = HeaderId::NAMES.iter().map(|(name, _)| HeaderName::from_static(name));
    nameless.into_iter().chain(named).collect()
});

pub fn fields(map: &HeaderMap) -> Fields {
    let mut fields = Fields::default();
    append_fields(map, &mut fields);
    fields
}

fn append_fields(map: &HeaderMap, fields: &mut Fields) {
    for (name, value) in map {
        fields.push(name.as_str().as_bytes(), value.as_bytes().trim_ascii());
    }
}
