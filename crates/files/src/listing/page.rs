//! A listing as a page for people or as JSON for programs. Names of files are hostile here: whoever may write below the
//! root chose them.

use super::{Entry, EntryKind, Listing, ListingAsk};
use crate::answer::Page;
use crate::path;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};
use tidegate_wire::preferences::{Quality, preferences};

/// Later dates cannot be written with four digits.
const SECONDS_MAX: u64 = 253_402_300_799;

const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;margin:2rem}table{border-spacing:0}\
    th,td{padding:.1rem 2rem .1rem 0;text-align:left}.n{text-align:right;font-variant-numeric:tabular-nums}";

impl Listing {
    pub fn page(&self, ask: &ListingAsk) -> Page {
        let (media_type, body) = if ask.prefers_json {
            ("application/json", self.json())
        } else {
            ("text/html; charset=utf-8", self.html(&ask.request_path))
        };
        let headers = vec![
            ("content-type", media_type.into()),
            ("vary", "accept".into()),
            ("x-content-type-options", "nosniff".into()),
            // A second lock, should a name ever get past the escaping.
            ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'".into()),
        ];
        let content_length = body.len() as u64;
        let body = if ask.is_head { Vec::new() } else { body.into_bytes() };
        Page { status: 200, headers, body, content_length }
    }

    fn html(&self, request_path: &[u8]) -> String {
        let decoded: Vec<u8> = percent_encoding::percent_decode(request_path).collect();
        let title = escaped_html(&decoded);
        let mut page = format!(
            "<!doctype html>\n<html><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title}</title><style>{STYLE}</style></head>\n<body><h1><bdi>{title}</bdi></h1>\n\
             <table><tr><th>Name</th><th class=\"n\">Bytes</th><th>Changed (UTC)</th></tr>\n"
        );
        if !self.is_root {
            page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
        }
        for entry in &self.entries {
            let (slash, size) = match entry.kind {
                EntryKind::Folder => ("/", String::new()),
                EntryKind::File { length } => ("", length.to_string()),
            };
            // `bdi` keeps marks of writing direction in a name from turning the rest of the row around.
            let _infallible = writeln!(
                page,
                "<tr><td><a href=\"{}{slash}\"><bdi>{}</bdi>{slash}</a></td><td class=\"n\">{size}</td><td>{}</td></tr>",
                reference(entry),
                escaped_html(&entry.name),
                date(entry.modified_seconds).replace('T', " ").trim_end_matches('Z'),
            );
        }
        page.push_str("</table>\n");
        if self.is_cut {
            let _infallible = writeln!(page, "<p>Only {} entries are shown; there are more.</p>", self.entries.len());
        }
        page.push_str("</body></html>\n");
        page
    }

    fn json(&self) -> String {
        let mut text = String::from("{\"entries\":[");
        for (index, entry) in self.entries.iter().enumerate() {
            let (kind, slash, size) = match entry.kind {
                EntryKind::Folder => ("folder", "/", String::new()),
                EntryKind::File { length } => ("file", "", format!(",\"bytes\":{length}")),
            };
            let _infallible = write!(
                text,
                "{}{{\"name\":\"{}\",\"href\":\"{}{slash}\",\"type\":\"{kind}\"{size},\"modified\":\"{}\"}}",
                if index == 0 { "" } else { "," },
                escaped_json(&entry.name),
                reference(entry),
                date(entry.modified_seconds),
            );
        }
        let _infallible = write!(text, "],\"truncated\":{}}}", self.is_cut);
        text
    }
}

/// A path of one segment. Everything special in it is encoded, a colon too, so that it cannot begin a scheme.
fn reference(entry: &Entry) -> String {
    format!("./{}", path::encoded(&entry.name))
}

/// Whether JSON is wanted more than HTML.
pub fn prefers_json(accept: Option<&[u8]>) -> bool {
    let Some(accept) = accept else { return false };
    weight(accept, [b"application/json", b"application/*"]) > weight(accept, [b"text/html", b"text/*"])
}

/// The weight of a media type: its own, else that of its kind, else that of `*/*` (RFC 9110 section 12.5.1).
fn weight(accept: &[u8], [exact, kind]: [&[u8]; 2]) -> Quality {
    let of = |wanted: &[u8]| preferences(accept).find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, quality)| quality);
    of(exact).or_else(|| of(kind)).or_else(|| of(b"*/*")).unwrap_or(0)
}

fn escaped_html(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

fn escaped_json(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            // A page that embeds the answer in a script stays whole.
            '<' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' | '\u{7f}' => {
                let _infallible = write!(escaped, "\\u{:04x}", u32::from(character));
            }
            character => escaped.push(character),
        }
    }
    escaped
}

/// `1994-11-06T08:49:37Z`, with the calendar of the HTTP date `Sun, 06 Nov 1994 08:49:37 GMT`, whose places are fixed
/// (RFC 9110 section 5.6.7).
fn date(seconds: i64) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let seconds = u64::try_from(seconds).unwrap_or(0).min(SECONDS_MAX);
    let http = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
    let month = MONTHS.find(&http[8..11]).map_or(1, |place| place / 3 + 1);
    format!("{}-{month:02}-{}T{}Z", &http[12..16], &http[5..7], &http[17..25])
}

#[cfg(test)]
mod tests;
