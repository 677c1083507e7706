//! What a section of HAProxy speaks where neither it nor its `defaults` say so. Without a word that is TCP, there as
//! here; what only HTTP has says that more was meant, and a part of a file may have its `defaults` elsewhere.

use super::doors;
use super::lexer::{Section, Sections};
use std::collections::BTreeSet;

/// What has no meaning in TCP.
const HTTP_WORDS: [&str; 8] =
    ["http-request", "http-response", "httplog", "forwardfor", "hdr(host)", "path_beg", "path", "redirect"];
/// What proxies of TCP may have as well, and seldom have.
const WEB_WORDS: [&str; 4] = ["http-check", "httpchk", "cookie", "compression"];
const TCP_WORDS: [&str; 8] =
    ["tcplog", "tcp-check", "mysql-check", "pgsql-check", "redis-check", "smtpchk", "req_ssl_sni", "req.ssl_sni"];
/// Where HTTP is spoken more often than anything else.
const WEB_PORTS: [u16; 9] = [80, 443, 8000, 8008, 8080, 8081, 8443, 8888, 9000];

/// Says of each section what it speaks. Who is handed on to speaks what those speak who hand on.
pub fn settle(sections: &mut Sections) {
    let is_part = !sections.all.iter().any(|section| matches!(section.kind.as_str(), "global" | "defaults"));
    let is_front = |section: &Section| matches!(section.kind.as_str(), "frontend" | "listen");
    let of_web: BTreeSet<String> = sections
        .all
        .iter()
        .filter(|section| section.kind == "backend" && is_part && has_of_web(section))
        .map(|section| section.name.clone())
        .collect();
    for section in sections.all.iter_mut().filter(|section| is_front(section)) {
        let speaks_http = has_of_http(section)
            || is_part && !section.has_word(&TCP_WORDS) && (has_of_web(section) || opens_web(section))
            || chosen(section).any(|name| of_web.contains(name));
        section.is_tcp.get_or_insert(!speaks_http);
    }
    let names = |is_tcp: bool| -> BTreeSet<String> {
        let fronts = sections.all.iter().filter(|section| is_front(section) && section.speaks_tcp() == is_tcp);
        fronts.flat_map(|section| chosen(section).map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let (http, tcp) = (names(false), names(true));
    for section in sections.all.iter_mut().filter(|section| section.kind == "backend") {
        let is_tcp = match (http.contains(&section.name), tcp.contains(&section.name)) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => !has_of_http(section) && (!is_part || section.has_word(&TCP_WORDS)),
        };
        section.is_tcp.get_or_insert(is_tcp);
    }
}

/// The backends that a section names.
fn chosen(section: &Section) -> impl Iterator<Item = &str> {
    section.lines_of("use_backend").chain(section.lines_of("default_backend")).map(|line| line.word(1))
}

fn has_of_http(section: &Section) -> bool {
    section.has_word(&HTTP_WORDS)
}

fn has_of_web(section: &Section) -> bool {
    section.has_word(&HTTP_WORDS) || section.has_word(&WEB_WORDS)
}

/// Whether it listens where HTTP is spoken, or says nothing of where.
fn opens_web(section: &Section) -> bool {
    let mut doors = section.lines_of("bind").flat_map(doors::doors).peekable();
    doors.peek().is_none() || doors.any(|(door, _)| door.is_tls || WEB_PORTS.contains(&door.port))
}
