//! What both are asked: beside the paths of a host, spelled in ways that servers may read as others.

use super::objects::Host;
use super::pair::GOOD;
use super::random::Random;

#[derive(Debug, Clone)]
pub struct Question {
    pub over_tls: bool,
    pub method: &'static str,
    pub host: String,
    pub target: String,
    pub fields: Vec<(&'static str, &'static str)>,
    pub body_length: usize,
}

const PIECES: &[&str] = &[
    "/", "/", "/", "/", "a", "b", "admin", "%61", "A", "%2f", "%2F", "%2e", "..", ".", "%20", "%0a", "%0A", "%25", "%2561",
    "%C3%A9", "%c3", ";", "%3b", "+", "%2B", "%3f", "%23", ":", "%3a", "@", "&", "%26", "=", "~", "%7e", "!", "'", "(", "*", ",",
    "%5c", "\"", "%22", "|", "{", "[", "^", "%7b", "x", "1", "-", "_", "foo", "api", "%09", "%7f", "%80", "$1", "%24",
];

impl Question {
    pub fn beside(host: &Host, random: &mut Random) -> Question {
        let mut path = if random.likely(88) {
            beside(&host.samples[random.below(host.samples.len())], random)
        } else {
            let count = 1 + random.below(6);
            (0..count).fold("/".to_owned(), |path, _| path + random.one(PIECES))
        };
        if random.likely(15) {
            path.push_str(random.one(&["?", "?q=1", "?a=b&c=/d", "?x=%2F", "?status=404", "?status=503", "?status=403"]));
        }
        let mut fields = Vec::new();
        let chosen =
            random.one(&[None, None, Some("10.0.0.1"), Some("10.1.2.3"), Some("192.0.2.1"), Some("10.0.0.1, 192.0.2.9")]);
        fields.extend(chosen.map(|address| ("X-Forwarded-For", address)));
        match random.below(8) {
            0..3 => fields.extend(GOOD),
            3 => fields.push(("Authorization", "Basic YWxpY2U6d3Jvbmc=")),
            4 => fields.push(("Cookie", "session=bad")),
            5 => fields.push(GOOD[random.below(2)]),
            _ => {}
        }
        if host.is_taken_over && random.likely(20) {
            fields.push(random.one(&[("X-Real-IP", "10.1.2.3"), ("X-Scheme", "ftp"), ("X-Original-Forwarded-For", "10.1.2.3")]));
        }
        let method = random.one(&["GET", "GET", "GET", "GET", "GET", "POST", "OPTIONS", "DELETE"]);
        if method == "OPTIONS" || random.likely(10) {
            fields.push(("Origin", random.one(&["https://good.test", "https://bad.test", "null"])));
        }
        if method == "OPTIONS" && random.likely(70) {
            fields.push(("Access-Control-Request-Method", "PUT"));
        }
        let body_length = if method == "POST" { random.one(&[0, 10, 1024, 2048]) } else { 0 };
        let host_field = match random.below(30) {
            3..6 if host.is_wildcard => {
                let domain = host.rule().trim_start_matches("*.").to_owned();
                random.one(&["", "two.", "a-b.", "a.one.", "x_y."]).to_owned() + &domain
            }
            0 => host.name.to_ascii_uppercase(),
            1 => format!("{}:80", host.name),
            2 => format!("{}.", host.name),
            _ => host.name.clone(),
        };
        Question { over_tls: host.has_tls && random.likely(60), method, host: host_field, target: path, fields, body_length }
    }

    pub fn field(&self, name: &str) -> Option<&'static str> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub fn head(&self) -> String {
        let Question { method, host, target, fields, body_length, .. } = self;
        let lines = fields.iter().fold(String::new(), |lines, (name, value)| lines + name + ": " + value + "\r\n");
        let length = if *method == "POST" { format!("Content-Length: {body_length}\r\n") } else { String::new() };
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{lines}{length}\r\n")
    }
}

/// The path as it may be sent, or one that is not far from it.
fn beside(sample: &str, random: &mut Random) -> String {
    let mut path = String::new();
    for byte in sample.bytes() {
        if byte.is_ascii_graphic() && !b"?#".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    for _ in 0..random.below(4) {
        path = changed(path, random);
    }
    path
}

fn changed(mut path: String, random: &mut Random) -> String {
    let bare = path.trim_end_matches('/').to_owned();
    // In front of a byte that is no part of a code.
    let at = (0..32).map(|_| random.below(path.len())).find(|at| {
        let before = &path.as_bytes()[at.saturating_sub(2)..*at];
        !before.contains(&b'%') && path.as_bytes()[*at] != b'%'
    });
    let byte = at.map(|at| path.as_bytes()[at]);
    match (random.below(16), at, byte) {
        (0, ..) => bare + "/",
        (1, ..) => bare + "/x",
        (2, ..) => path + "x",
        (3, ..) => bare + random.one(&["%0a", "%20", "%00", "%0d", "%25", ";x", ";", ".", "%2f", "%3f", "%23"]),
        (4, ..) => path.to_ascii_uppercase(),
        (5, Some(at), Some(byte)) if at > 0 => {
            path.replace_range(at..=at, &format!("%{byte:02x}"));
            path
        }
        (6, Some(at), Some(b'/')) => {
            path.insert(at, '/');
            path
        }
        (7, ..) => format!("/{path}"),
        (8, ..) => format!("{}{path}", random.one(&["/.", "/x/..", "/x/%2e%2e", "/x//..", "/%2e", "/x%2f..", "/admin/.."])),
        (9, ..) => bare + random.one(&["/..", "/../a", "/.", "/../admin", "/%2e%2e/b", "//..//", "/..%2fadmin", "%2f..%2fadmin"]),
        (10, Some(at), _) if at > 0 => {
            path.insert_str(at, random.one(PIECES));
            path
        }
        (11, ..) => path + random.one(PIECES),
        (12, Some(at), Some(b'/')) if at > 0 => {
            path.replace_range(at..=at, random.one(&["%2f", "%2F", "//", "/./", "%5c"]));
            path
        }
        (13, Some(at), Some(byte)) if byte.is_ascii_alphabetic() => {
            path.replace_range(at..=at, &char::from(byte ^ 0x20).to_string());
            path
        }
        (14, Some(at), _) if at > 0 => {
            path.remove(at);
            path
        }
        _ => path,
    }
}
