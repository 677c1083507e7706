//! Random requests: to a site of the configuration or past all of them, for a host that may be another than that of
//! the connection.

use super::configuration::{METHODS, PORTS, Written};
use super::random::Random;

const NAMES: &[&str] =
    &["a.test", "b.test", "c.test", "y.test", "x.b.test", "y.b.test", "c.internal", "nobody.example", "A.test"];
const PATHS: &[&str] = &[
    "/",
    "/a",
    "/a/",
    "/a/b",
    "/a/b/c",
    "/A",
    "/a/7",
    "/x/y",
    "//a",
    "/a//b",
    "/a/%2fb",
    "/a%2Fb",
    "/a/./b",
    "/a/../x/y",
    "/%61/b",
    "/a%5Cb",
    "/a/..%2fx/y",
    "/../a",
    "/%2e%2e/a",
    "/a/%zz",
    "/a;v=1/b",
    "/x/..;/a",
    "/x\\a",
    "/{a}",
    "/other",
    "/b",
    "/a/b?q=1",
    "/a?q=2",
    "/x/1?q",
];
const FIELDS: &[&str] =
    &["X-Key: bet", "X-Key: a", "X-Key: b", "Cookie: c=1", "X-Forwarded-For: 10.1.2.3", "X-Forwarded-Host: b.test"];

/// A request, and the connection that it is sent on.
#[derive(Debug, Clone)]
pub struct Question {
    pub method: &'static str,
    pub is_tls: bool,
    /// The connection is made by this name, which is that of its handshake; by the address where it is one.
    pub name: &'static str,
    /// In [`PORTS`].
    pub port: usize,
    /// What the request asks for in the place of that.
    pub host: Option<&'static str>,
    pub path: &'static str,
    pub fields: Vec<&'static str>,
    pub by_http2: bool,
}

impl Question {
    pub fn random(random: &mut Random, written: &Written) -> Question {
        let used: Vec<usize> = (0..PORTS.len()).filter(|port| written.ports[*port].is_some()).collect();
        let port = random.of(&used);
        // With a site of the address, names lead to one of two listeners, and which does not stand in the
        // configuration.
        let by_address = written.ports[port].is_some_and(|port| port.has_address) || random.one_in(12);
        // Now and then the wrong protocol for the port.
        let is_tls = (port >= 2) != random.one_in(30);
        let host = (by_address || random.one_in(3)).then(|| random.of(NAMES));
        let method = if random.one_in(20) { random.of(&["CONNECT", "TRACE"]) } else { random.of(METHODS) };
        let fields = (0..random.below(3)).map(|_| random.of(FIELDS)).collect();
        let name = if by_address { "127.0.0.1" } else { random.of(NAMES) };
        let by_http2 = is_tls && method != "CONNECT" && random.one_in(3);
        Question { method, is_tls, name, port, host, path: random.of(PATHS), fields, by_http2 }
    }

    pub fn url(&self, port: u16) -> String {
        format!("{}://{}:{port}{}", if self.is_tls { "https" } else { "http" }, self.name, self.path)
    }

    /// Lines as they are sent, that of the host first where it is another one than the connection's.
    pub fn headers(&self, port: u16) -> Vec<String> {
        let host = self.host.map(|host| format!("Host: {host}:{port}"));
        host.into_iter().chain(self.fields.iter().map(|field| (*field).to_owned())).collect()
    }

    pub fn authority(&self, port: u16) -> String {
        format!("{}:{port}", self.host.unwrap_or(self.name))
    }

    /// As HTTP/1.1 has it.
    pub fn bytes(&self, port: u16) -> Vec<u8> {
        let target = if self.method == "CONNECT" { format!("{}:{port}", self.name) } else { self.path.to_owned() };
        let mut text = format!("{} {target} HTTP/1.1\r\nHost: {}\r\n", self.method, self.authority(port));
        for field in &self.fields {
            text.push_str(field);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        text.into_bytes()
    }
}
