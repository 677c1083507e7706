//! The question: its bytes, and how they are sent. By GET where it is short, so that caches between us and the
//! responder can answer (RFC 5019 section 5).

use crate::certificate_id::CertificateId;
use crate::der::{element, tag};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Of the whole URL (RFC 5019 section 5).
const GET_BYTES_MAX: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    Get {
        url: String,
    },
    /// With `Content-Type: application/ocsp-request`.
    Post {
        url: String,
        body: Vec<u8>,
    },
}

/// The question about one certificate. A responder need not know GET (RFC 6960 appendix A), so that after an odd number
/// of failures in a row it is sent by POST.
pub fn question(responder: &str, id: &CertificateId, failures_in_a_row: u32) -> Question {
    let body = request(id);
    let may_get = failures_in_a_row.is_multiple_of(2);
    match url_of_get(responder, &body) {
        Some(url) if may_get => Question::Get { url },
        Some(_) | None => Question::Post { url: responder.to_owned(), body },
    }
}

/// Without a nonce: answers that are made beforehand cannot have one, and each is checked for its age (RFC 5019 section
/// 2.1.1).
fn request(id: &CertificateId) -> Vec<u8> {
    let one = element(tag::SEQUENCE, &[&id.to_der()]);
    let list = element(tag::SEQUENCE, &[&one]);
    element(tag::SEQUENCE, &[&element(tag::SEQUENCE, &[&list])])
}

/// `None` where the question is too long for it, or cannot be put behind the URL's path.
fn url_of_get(responder: &str, body: &[u8]) -> Option<String> {
    if responder.contains(['?', '#']) {
        return None;
    }
    let mut url = format!("{}/", responder.trim_end_matches('/'));
    for letter in STANDARD.encode(body).chars() {
        match letter {
            '+' => url.push_str("%2B"),
            '/' => url.push_str("%2F"),
            '=' => url.push_str("%3D"),
            other => url.push(other),
        }
    }
    (url.len() <= GET_BYTES_MAX).then_some(url)
}
