//! What of a browser matters for a log-in: cookies with their rules, navigations and what scripts ask, redirects. Hosts
//! are names; which process answers for one is said with each request, as a load balancer decides it.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(60);
const REDIRECTS_MAX: usize = 12;

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn location(&self) -> &str {
        self.field("location").unwrap_or_else(|| panic!("no redirect:\n{}\n{}", self.head, self.body))
    }
}

/// A cookie of one host, or of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    value: String,
    domain: Option<String>,
}

/// Cookies are shared by its clones, as by tabs.
#[derive(Debug, Clone, Default)]
pub struct Browser {
    cookies: Arc<Mutex<BTreeMap<(String, String), Cookie>>>,
}

impl Browser {
    /// What it has for that host, as it sends it.
    pub fn cookies_for(&self, host: &str) -> String {
        let cookies = self.cookies.lock().expect("no panic");
        let is_for = |of: &str, cookie: &Cookie| match &cookie.domain {
            Some(domain) => host == domain || host.ends_with(&format!(".{domain}")),
            None => of == host,
        };
        let fitting = cookies.iter().filter(|((of, _), cookie)| is_for(of, cookie));
        fitting.map(|((_, name), cookie)| format!("{name}={}", cookie.value)).collect::<Vec<_>>().join("; ")
    }

    /// Another browser with the same cookies, which goes its own way.
    pub fn copy(&self) -> Browser {
        Browser { cookies: Arc::new(Mutex::new(self.cookies.lock().expect("no panic").clone())) }
    }

    /// Somebody carries what it has for one host to another, under other names.
    pub fn carry(&self, from: &str, to: &str, rename: impl Fn(&str) -> String) {
        let mut cookies = self.cookies.lock().expect("no panic");
        let carried: Vec<_> = cookies
            .iter()
            .filter(|((host, _), _)| host == from)
            .map(|((_, name), cookie)| ((to.to_owned(), rename(name)), Cookie { domain: None, ..cookie.clone() }))
            .collect();
        cookies.extend(carried);
    }

    /// Changes the value of each cookie whose name has this in it.
    pub fn change(&self, name_part: &str, change: impl Fn(&str) -> String) {
        let mut cookies = self.cookies.lock().expect("no panic");
        for ((_, name), cookie) in cookies.iter_mut() {
            if name.contains(name_part) {
                cookie.value = change(&cookie.value);
            }
        }
    }

    /// A page that somebody goes to.
    pub fn go(&self, at: SocketAddr, host: &str, target: &str) -> Answer {
        let fields = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html,*/*;q=0.8\r\n";
        self.ask(at, "GET", host, target, fields, "")
    }

    /// What a script of a page asks for.
    pub fn fetch(&self, at: SocketAddr, host: &str, target: &str) -> Answer {
        self.ask(at, "GET", host, target, "Sec-Fetch-Mode: cors\r\nSec-Fetch-Site: same-origin\r\nAccept: */*\r\n", "")
    }

    pub fn ask(&self, at: SocketAddr, method: &str, host: &str, target: &str, fields: &str, body: &str) -> Answer {
        let cookies = self.cookies_for(host);
        let cookies = if cookies.is_empty() { String::new() } else { format!("Cookie: {cookies}\r\n") };
        let length =
            if body.is_empty() && method == "GET" { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}{cookies}{length}\r\n");
        let answer = exchange(at, &format!("{head}{body}"));
        self.take_cookies(host, &answer);
        answer
    }

    fn take_cookies(&self, host: &str, answer: &Answer) {
        let mut cookies = self.cookies.lock().expect("no panic");
        for line in answer.fields("set-cookie") {
            let mut parts = line.split("; ");
            let (name, value) = parts.next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            let attributes: HashMap<String, &str> = parts
                .map(|part| part.split_once('=').unwrap_or((part, "")))
                .map(|(name, value)| (name.to_ascii_lowercase(), value))
                .collect();
            assert!(attributes.contains_key("secure") && attributes.contains_key("httponly"), "{line}");
            assert_eq!(attributes["samesite"], "Lax", "{line}");
            assert!(line.len() <= 4096, "no browser keeps a cookie of {} bytes", line.len());
            let domain = attributes.get("domain").map(|domain| (*domain).to_owned());
            if name.starts_with("__Host-") {
                assert!(domain.is_none() && attributes["path"] == "/", "no browser takes {line}");
            }
            let key = (domain.clone().unwrap_or_else(|| host.to_owned()), name.to_owned());
            if attributes.get("max-age").is_some_and(|age| *age == "0") {
                cookies.remove(&key);
            } else {
                cookies.insert(key, Cookie { value: value.to_owned(), domain });
            }
        }
    }

    /// Follows redirects until there is a page. Hosts that are no address of this machine are at `at`.
    pub fn follow(&self, at: SocketAddr, host: &str, target: &str) -> Answer {
        let (mut place, mut host, mut target) = (at, host.to_owned(), target.to_owned());
        for _ in 0..REDIRECTS_MAX {
            let answer = self.go(place, &host, &target);
            if !(300..400).contains(&answer.status) {
                return answer;
            }
            let location = answer.location();
            match location.split_once("://") {
                Some((_, rest)) => {
                    let slash = rest.find('/').unwrap_or(rest.len());
                    rest[..slash].clone_into(&mut host);
                    target = if slash == rest.len() { "/".to_owned() } else { rest[slash..].to_owned() };
                    place = host.parse().unwrap_or(at);
                }
                None => location.clone_into(&mut target),
            }
        }
        panic!("{host}{target} redirects for ever");
    }
}

pub fn exchange(at: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut whole = Vec::new();
    stream.read_to_end(&mut whole).expect("an answer");
    let whole = String::from_utf8_lossy(&whole).into_owned();
    let (head, body) = whole.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {request}: {whole}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
