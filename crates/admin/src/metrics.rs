//! `/metrics`, gzipped for who takes it: a text of thousands of series is a twentieth of its size then. Everything else
//! that the endpoint answers is small.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use tidegate_control::ControlHandle;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Smaller texts cost more than they save.
const BYTES_MIN: usize = 1024;

pub async fn answer(State(handle): State<ControlHandle>, fields: HeaderMap) -> Response {
    page(handle.registry.render_prometheus(), &fields)
}

/// A text of metrics as the answer to a request with these fields.
pub fn page(text: String, fields: &HeaderMap) -> Response {
    let varies = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::VARY, "accept-encoding")];
    if text.len() >= BYTES_MIN
        && takes_gzip(fields)
        && let Ok(zipped) = gzip(text.as_bytes())
    {
        return (varies, [(header::CONTENT_ENCODING, "gzip")], zipped).into_response();
    }
    (varies, text).into_response()
}

/// The fastest level: repeated names are found at any.
fn gzip(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::fast());
    encoder.write_all(text)?;
    encoder.finish()
}

/// RFC 9110 section 12.5.3: named, or meant by `*`, and not with a weight of 0. What is named counts before `*`.
fn takes_gzip(fields: &HeaderMap) -> bool {
    let codings = fields.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let codings = codings.flat_map(|value| value.split(',')).map(|part| {
        let (coding, parameters) = part.split_once(';').unwrap_or((part, ""));
        let weight = parameters.trim().strip_prefix("q=").or_else(|| parameters.trim().strip_prefix("Q="));
        let is_refused = weight.is_some_and(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0));
        (coding.trim().to_ascii_lowercase(), !is_refused)
    });
    let mut of_any = false;
    for (coding, is_taken) in codings {
        match coding.as_str() {
            "gzip" | "x-gzip" => return is_taken,
            "*" => of_any = is_taken,
            _ => {}
        }
    }
    of_any
}

#[cfg(test)]
mod tests {
    use super::{gzip, takes_gzip};
    use axum::http::{HeaderMap, HeaderValue, header};
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn who_takes_gzip_says_so() {
        let check = |values: &[&'static str], expected: bool| {
            let mut fields = HeaderMap::new();
            for value in values {
                fields.append(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            }
            assert_eq!(takes_gzip(&fields), expected, "{values:?}");
        };
        check(&[], false);
        check(&["gzip"], true);
        check(&["GZIP;q=0.5"], true);
        check(&["deflate, gzip ; q=1.0"], true);
        check(&["deflate", "x-gzip"], true);
        check(&["*"], true);
        check(&["*, gzip;q=0"], false);
        check(&["gzip;q=0, *"], false);
        check(&["gzip;q=0.000"], false);
        check(&["identity"], false);
        check(&["*;q=0"], false);
    }

    #[test]
    fn what_is_gzipped_is_the_same_text_and_much_smaller() {
        let line = "tidegate_http_requests_total{site=\"https://a.example\",status=\"200\",class=\"2xx\"} 4\n";
        let text = line.repeat(1000);
        let zipped = gzip(text.as_bytes()).expect("memory");
        assert!(zipped.len() < text.len() / 20);
        let mut back = String::new();
        GzDecoder::new(&zipped[..]).read_to_string(&mut back).expect("gzip");
        assert_eq!(back, text);
    }
}
