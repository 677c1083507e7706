//! The client of the endpoint: one request on one connection, over TCP or a unix socket. For commands, so it blocks;
//! the types are those that the endpoint writes.

use crate::problem::{PROBLEM_TYPE, Problem};
use crate::token::Token;
use bytes::Bytes;
use hyper::{Request, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_model::AdminPlace;
use tidegate_outbound::{BodyFault, HEAD_BYTES_MAX, ask};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// A process on the same machine answers at once or not at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// An upgrade answers when the new process is ready, which may take a minute.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);
/// A process that hangs is as good as none where nothing depends on it.
const SOON: Duration = Duration::from_secs(3);
/// Ten thousand sites have some megabytes of status.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Where a process is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminAddress {
    /// `127.0.0.1:9180`
    Tcp(String),
    Unix(PathBuf),
}

impl AdminAddress {
    /// `127.0.0.1:9180` or `unix:/path`.
    pub fn parse(text: &str) -> Result<AdminAddress, String> {
        let fault = || {
            format!(
                "`{}` is not the address of an admin endpoint\n  help: write `127.0.0.1:9180` or `unix:/run/tidegate.sock`",
                text.escape_debug()
            )
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(fault()) } else { Ok(AdminAddress::Unix(path.into())) };
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(AdminAddress::of_address(address));
        }
        let is_named = text.rsplit_once(':').is_some_and(|(name, port)| {
            let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
            !name.is_empty() && name.bytes().all(is_name_byte) && port.parse::<u16>().is_ok()
        });
        if is_named { Ok(AdminAddress::Tcp(text.to_owned())) } else { Err(fault()) }
    }

    pub fn of(place: &AdminPlace) -> AdminAddress {
        match place {
            AdminPlace::Tcp(address) => AdminAddress::of_address(*address),
            AdminPlace::Unix(path) => AdminAddress::Unix(path.clone()),
        }
    }

    fn of_address(mut address: SocketAddr) -> AdminAddress {
        // What listens everywhere is asked on this machine.
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
        }
        AdminAddress::Tcp(address.to_string())
    }

    /// Whether nobody outside this machine answers there.
    pub fn is_on_this_machine(&self) -> bool {
        match self {
            AdminAddress::Unix(_) => true,
            AdminAddress::Tcp(address) => match address.parse::<SocketAddr>() {
                Ok(address) => address.ip().is_loopback(),
                Err(_) => address.rsplit_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("localhost")),
            },
        }
    }

    fn host(&self) -> &str {
        match self {
            AdminAddress::Tcp(address) => address,
            AdminAddress::Unix(_) => "localhost",
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminAddress::Tcp(address) => f.write_str(address),
            AdminAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientFault {
    /// Nobody answers there, or not in time.
    Unreachable { endpoint: AdminAddress, error: String },
    /// This user may not connect to the socket; with the group that may.
    Forbidden { endpoint: AdminAddress, group: Option<String> },
    /// The process refuses, and says why.
    Refused(Box<Problem>),
    /// Whoever answers is no Tidegate of this kind.
    Unreadable { endpoint: AdminAddress, why: String },
}

impl fmt::Display for ClientFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientFault::Unreachable { endpoint, error } => write!(
                f,
                "no process answers at {endpoint}: {error}\n  help: is tidegate running with this configuration? name its endpoint with --admin"
            ),
            ClientFault::Forbidden { endpoint, group } => {
                let join = group
                    .as_ref()
                    .map(|group| format!(", or join the group `{group}` (`sudo usermod -aG {group} $USER`, and log in anew)"));
                let join = join.unwrap_or_default();
                write!(f, "permission: this user may not ask the process at {endpoint}\n  help: run this with sudo{join}")
            }
            ClientFault::Refused(problem) => {
                f.write_str(&problem.detail)?;
                match &problem.help {
                    Some(help) => write!(f, "\n  help: {help}"),
                    None => Ok(()),
                }
            }
            ClientFault::Unreadable { endpoint, why } => write!(
                f,
                "what answers at {endpoint} is not understood: {why}\n  help: is it tidegate, and of the same version? `tidegate status` of its own release works"
            ),
        }
    }
}

impl std::error::Error for ClientFault {}

/// The group that may write to a socket, or, where its folder shows no more, enter the folder; `None` for root's.
fn group_let_in(socket: &Path) -> Option<String> {
    const WRITE: u32 = 0o020;
    const PASS: u32 = 0o010;
    let shown = socket.ancestors().enumerate().find_map(|(up, place)| Some((up, std::fs::metadata(place).ok()?)));
    let (up, found) = shown?;
    let needed = if up == 0 { WRITE } else { PASS };
    let group = Some(found.gid()).filter(|group| *group != 0 && found.mode() & needed != 0)?.to_string();
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let mut lines = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|fields| fields.get(2) == Some(&&*group)).map(|fields| fields[0].to_owned())
}

#[derive(Debug, Clone)]
pub struct Client {
    pub endpoint: AdminAddress,
    pub token: Option<Token>,
}

impl Client {
    /// Whether somebody takes connections there.
    pub fn is_answered(&self) -> bool {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return false };
        let connected = async {
            match &self.endpoint {
                AdminAddress::Tcp(address) => TcpStream::connect(address).await.is_ok(),
                AdminAddress::Unix(path) => UnixStream::connect(path).await.is_ok(),
            }
        };
        runtime.block_on(async { timeout(SOON, connected).await.unwrap_or(false) })
    }

    /// The answer to a GET.
    pub fn fetch<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientFault> {
        self.read(&self.send("GET", path, None, None)?)
    }

    /// The answer to a GET from whoever answers soon: for what can be done without it.
    pub fn fetch_soon<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientFault> {
        self.read(&self.send_within(SOON, "GET", path, None, None)?)
    }

    /// The answer to a GET, as it is.
    pub fn fetch_text(&self, path: &str) -> Result<String, ClientFault> {
        self.send("GET", path, None, None).map(|body| String::from_utf8_lossy(&body).into_owned())
    }

    /// The answer to a POST; `expected` is the generation that it is meant for.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize, expected: Option<u64>) -> Result<T, ClientFault> {
        let body = serde_json::to_vec(body).map_err(|error| self.unreadable(error.to_string()))?;
        self.read(&self.send("POST", path, Some(body.into()), expected)?)
    }

    /// The answer to a PUT.
    pub fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientFault> {
        let body = serde_json::to_vec(body).map_err(|error| self.unreadable(error.to_string()))?;
        self.read(&self.send("PUT", path, Some(body.into()), None)?)
    }

    /// The answer to a DELETE.
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientFault> {
        self.read(&self.send("DELETE", path, None, None)?)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientFault> {
        serde_json::from_slice(body).map_err(|error| self.unreadable(error.to_string()))
    }

    fn unreadable(&self, why: String) -> ClientFault {
        ClientFault::Unreadable { endpoint: self.endpoint.clone(), why }
    }

    fn unreachable(&self, error: impl fmt::Display) -> ClientFault {
        ClientFault::Unreachable { endpoint: self.endpoint.clone(), error: error.to_string() }
    }

    fn forbidden(&self, socket: &Path) -> ClientFault {
        ClientFault::Forbidden { endpoint: self.endpoint.clone(), group: group_let_in(socket) }
    }

    fn send(&self, method: &str, path: &str, body: Option<Bytes>, expected: Option<u64>) -> Result<Bytes, ClientFault> {
        self.send_within(ANSWER_LIMIT, method, path, body, expected)
    }

    fn send_within(
        &self,
        answer_limit: Duration,
        method: &str,
        path: &str,
        body: Option<Bytes>,
        expected: Option<u64>,
    ) -> Result<Bytes, ClientFault> {
        let connect_limit = CONNECT_LIMIT.min(answer_limit);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| self.unreachable(error))?;
        let request = self.request(method, path, body, expected)?;
        runtime.block_on(async {
            match &self.endpoint {
                AdminAddress::Tcp(address) => {
                    let connected = timeout(connect_limit, TcpStream::connect(address)).await;
                    let socket = connected.map_err(|_| self.unreachable("it takes no connection"))?;
                    self.exchange(socket.map_err(|error| self.unreachable(error))?, request, answer_limit).await
                }
                AdminAddress::Unix(path) => {
                    let connected = timeout(connect_limit, UnixStream::connect(path)).await;
                    let socket = connected.map_err(|_| self.unreachable("it takes no connection"))?;
                    let socket = socket.map_err(|error| match error.kind() {
                        io::ErrorKind::PermissionDenied => self.forbidden(path),
                        _ => self.unreachable(error),
                    })?;
                    self.exchange(socket, request, answer_limit).await
                }
            }
        })
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<Bytes>,
        expected: Option<u64>,
    ) -> Result<Request<Bytes>, ClientFault> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, self.endpoint.host());
        if let Some(token) = &self.token {
            let mut value = header::HeaderValue::try_from(format!("Bearer {}", token.text()))
                .map_err(|_| self.unreachable("the token has characters that no header has"))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        if let Some(expected) = expected {
            request = request.header(header::IF_MATCH, format!("\"{expected}\""));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request.body(body.unwrap_or_default()).map_err(|error| self.unreachable(error))
    }

    async fn exchange(
        &self,
        socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Bytes>,
        answer_limit: Duration,
    ) -> Result<Bytes, ClientFault> {
        let exchange = async {
            let answer = ask(socket, request, HEAD_BYTES_MAX).await.map_err(|error| self.unreachable(error))?;
            let head = answer.head.clone();
            let body = answer.whole(ANSWER_BYTES_MAX).await.map_err(|fault| match fault {
                BodyFault::TooLarge => self.unreachable("length limit exceeded"),
                BodyFault::Broken(error) => self.unreachable(error),
            })?;
            if head.status.is_success() {
                return Ok(body);
            }
            let is_problem =
                head.headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes() == PROBLEM_TYPE.as_bytes());
            match serde_json::from_slice(&body) {
                Ok(problem) if is_problem => Err(ClientFault::Refused(Box::new(problem))),
                Ok(_) | Err(_) => Err(self.unreadable(format!("it says {}", head.status))),
            }
        };
        timeout(answer_limit, exchange).await.map_err(|_| self.unreachable("it does not answer in time"))?
    }
}

/// A part of a path, percent-encoded: names of pools and addresses may have slashes.
pub fn path_segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::{AdminAddress, path_segment};

    #[test]
    fn addresses_of_endpoints() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(AdminAddress::parse(text).ok().map(|endpoint| endpoint.to_string()).as_deref(), expected, "{text}");
        };
        check("127.0.0.1:9180", Some("127.0.0.1:9180"));
        check("0.0.0.0:9180", Some("127.0.0.1:9180"));
        check("[::]:9180", Some("[::1]:9180"));
        check("localhost:9180", Some("localhost:9180"));
        check("unix:/run/t.sock", Some("unix:/run/t.sock"));
        check("unix:", None);
        check("9180", None);
        check(":9180", None);
        check("http://127.0.0.1:9180", None);
        check("a b:80", None);
    }

    #[test]
    fn endpoints_that_may_be_sent_the_token_of_this_machine() {
        let check =
            |text: &str, expected: bool| assert_eq!(AdminAddress::parse(text).unwrap().is_on_this_machine(), expected, "{text}");
        check("127.0.0.1:9180", true);
        check("[::1]:9180", true);
        check("0.0.0.0:9180", true);
        check("localhost:9180", true);
        check("unix:/run/t.sock", true);
        check("10.0.0.1:9180", false);
        check("proxy.example:9180", false);
        check("localhost.example:9180", false);
    }

    #[test]
    fn parts_of_paths_have_no_slashes() {
        let check = |text: &str, expected: &str| assert_eq!(path_segment(text), expected);
        check("api", "api");
        check("http://10.0.0.1:80", "http:%2F%2F10.0.0.1:80");
        check("a b?", "a%20b%3F");
        check("[::1]:80", "%5B::1%5D:80");
        check("..", "..");
    }
}
