//! Who may use the API. On a unix socket the permissions of its file decide; on TCP a token does, and what a browser
//! could be made to send is refused before. `/metrics`, `/healthz` and `/readyz` are open to every program that reaches
//! them. The first tells what runs inside, so it is not open to the pages of a site that was made to resolve to this
//! machine; the others say one word, which is worth nothing to a page and is asked for by load balancers that send
//! whatever `Host` their application has.

use crate::ask::ask;
use crate::problem::Problem;
use crate::problem::{bad_request, forbidden, not_found};
use crate::token::{self, Token};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Uri, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tidegate_control::ControlHandle;
use tidegate_model::address::parse_host_pattern;
use tidegate_model::{AdminEndpoint, AdminPlace, AdminServes, HostPattern};

/// Where requests come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Unix,
    /// Only processes of this machine reach it.
    Loopback,
    Network,
}

#[derive(Clone)]
pub struct Access {
    pub handle: ControlHandle,
    pub door: Door,
    /// As it was when it was opened; the place tells it from the others.
    pub endpoint: Arc<AdminEndpoint>,
}

/// Makes the token file when somebody will need it, so that it is there before the first request.
pub async fn prepare(handle: &ControlHandle, endpoint: &AdminEndpoint) {
    let is_asked_here = match &endpoint.place {
        AdminPlace::Unix(_) => false,
        AdminPlace::Tcp(address) => address.ip().is_loopback() || address.ip().is_unspecified(),
    };
    if !is_asked_here || endpoint.serves == AdminServes::Metrics || endpoint.token.is_some() {
        return;
    }
    if let Ok(state_dir) = ask(handle, |control| control.state_dir().to_owned()).await
        && let Err(fault) = token::generated(&state_dir)
    {
        tracing::warn!(%fault, "the admin API has no token");
    }
}

/// Lets a request through, or answers it.
pub async fn check(State(access): State<Access>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if path != "/v1" && !path.starts_with("/v1/") {
        return next.run(request).await;
    }
    match access.permits(request.method(), request.uri(), request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Before any address, those that need no token included.
pub async fn check_site(State(access): State<Access>, request: Request, next: Next) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    match one_host(request.version(), headers)
        .and_then(|()| no_foreign_site(access.door, &access.endpoint_now().hosts, uri, headers))
    {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// What a client of the API may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Everything,
    /// Whatever changes nothing and reads no file for the client.
    Reading,
}

impl Access {
    /// What the configuration says of this place now.
    fn endpoint_now(&self) -> AdminEndpoint {
        self.handle.admin_at(&self.endpoint.place).unwrap_or_else(|| AdminEndpoint::clone(&self.endpoint))
    }

    async fn permits(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let endpoint = self.endpoint_now();
        if endpoint.serves == AdminServes::Metrics {
            return Err(not_found("this place serves metrics and health, and no API")
                .with_help("the API is where `admin` of the configuration has it, else on `admin.sock` in the state folder"));
        }
        if self.door != Door::Unix {
            no_browser(uri, headers)?;
        }
        match self.right(&endpoint, headers).await? {
            Right::Everything => Ok(()),
            Right::Reading if is_reading(method, uri.path()) => Ok(()),
            Right::Reading => {
                Err(forbidden("read-only", "the token is one to look with, and this changes something or reads files")
                    .with_help("use the `token` of `admin` for it"))
            }
        }
    }

    async fn right(&self, endpoint: &AdminEndpoint, headers: &HeaderMap) -> Result<Right, Problem> {
        let configured = endpoint.token.as_ref().map(|secret| Token::new(secret.reveal()));
        let reading = endpoint.read_token.as_ref().map(|secret| Token::new(secret.reveal()));
        let given = bearer(headers);
        if let (Some(reading), Some(given)) = (reading, given)
            && reading.is(given)
        {
            return Ok(Right::Reading);
        }
        let expected = match (configured, self.door) {
            (Some(token), _) => token,
            (None, Door::Unix) => return Ok(Right::Everything),
            (None, Door::Loopback) => {
                let state_dir = ask(&self.handle, |control| control.state_dir().to_owned()).await?;
                generated(&state_dir)?
            }
            (None, Door::Network) => {
                return Err(forbidden("no-token", "the API is open to the network, and no token is configured for it")
                    .with_help("configure a token, or bind the endpoint to 127.0.0.1 or to a `unix:` socket"));
            }
        };
        match given {
            Some(given) if expected.is(given) => Ok(Right::Everything),
            Some(_) => Err(unauthorised("the token is not that of this process")),
            None => Err(unauthorised("the request has no token")),
        }
    }
}

/// Where a request goes is asked with a body, and changes nothing. What a configuration would change is asked so as
/// well, but names files that the process would read.
fn is_reading(method: &Method, path: &str) -> bool {
    method == Method::GET || method == Method::HEAD || (method == Method::POST && path == "/v1/explain")
}

fn generated(state_dir: &Path) -> Result<Token, Problem> {
    token::generated(state_dir).map_err(|fault| {
        let text = fault.to_string();
        let (detail, help) = text.split_once("\n  help: ").unwrap_or((&text, ""));
        forbidden("no-token", detail).with_help(help)
    })
}

fn unauthorised(detail: &str) -> Problem {
    Problem::new(401, "unauthorised", "The request is not authorised", detail).with_help(format!(
        "send `Authorization: Bearer TOKEN` with the token that is configured, or with that of the file `{}` in the state folder",
        token::FILE_NAME
    ))
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(b"bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// A page of somebody else's can make a browser send requests here: they have an `Origin`, or the name of that page's
/// site when it was made to resolve to this machine.
fn no_browser(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::ORIGIN) {
        return Err(forbidden("from-browser", "the request comes from a web page, by its `Origin`")
            .with_help("the API is for programs; `tidegate status` and `curl` send no `Origin`"));
    }
    let mut hosts = hosts(uri, headers).peekable();
    if hosts.peek().is_none() || !hosts.all(is_own_host) {
        return Err(forbidden("foreign-host", "the `Host` of the request is neither an IP address nor `localhost`")
            .with_help("ask by the address, as in `curl http://127.0.0.1:9180/v1/status`"));
    }
    Ok(())
}

fn hosts<'r>(uri: &'r Uri, headers: &'r HeaderMap) -> impl Iterator<Item = &'r str> {
    let stated = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
    stated.chain(uri.authority().map(axum::http::uri::Authority::as_str))
}

/// Two could be read differently by whoever stands in front, and none is no request of HTTP/1.1 (RFC 9112 section 3.2).
fn one_host(version: Version, headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get_all(header::HOST).iter().count() {
        0 if version == Version::HTTP_11 => Err(bad_request("the request has no `Host`")),
        0 | 1 => Ok(()),
        _ => Err(bad_request("the request has more than one `Host`")),
    }
}

/// Which say one word to whoever asks by whatever name.
const OF_ONE_WORD: [&str; 2] = ["/healthz", "/readyz"];

/// What is open to everybody is open to a browser's page as well, once the name of its site resolves to this machine
/// ("DNS rebinding"): it would read there what runs inside. A name that no site on the internet can have is that of a
/// scraper's own network, and so is one that the operator lists; and who names no host,
/// which only HTTP/1.0 may, is no browser.
fn no_foreign_site(door: Door, listed: &[HostPattern], uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let path = uri.path();
    if door == Door::Unix || OF_ONE_WORD.contains(&path) {
        return Ok(());
    }
    let is_known = |host: &&str| is_own_host(host) || is_local_name(host) || is_listed(listed, host);
    match hosts(uri, headers).find(|host| !is_known(host)) {
        None => Ok(()),
        Some(host) => Err(foreign_host(path, host)),
    }
}

/// Below `/v1` a listed name is not enough, so there the setting is no remedy.
fn foreign_host(path: &str, host: &str) -> Problem {
    const BY_ADDRESS: &str = "ask by the address, as in `curl http://127.0.0.1:9180/metrics`";
    let name = match parse_host_pattern(name_of(host)) {
        Ok(HostPattern::Exact(name)) => name,
        Ok(
            HostPattern::Any
            | HostPattern::Wildcard(_)
            | HostPattern::DeepWildcard(_)
            | HostPattern::Ip(_)
            | HostPattern::Socket(_),
        )
        | Err(_) => {
            return forbidden("foreign-host", "the `Host` of the request is no name of a host").with_help(BY_ADDRESS);
        }
    };
    let problem = forbidden("foreign-host", format!("the `Host` of the request, `{name}`, is a name that any site could have"));
    if path == "/metrics" {
        let help = format!("if it is yours, list it in the configuration: `admin \"ADDRESS\" hosts=\"{name}\"`; or {BY_ADDRESS}");
        return problem.with_help(help);
    }
    problem.with_help(BY_ADDRESS)
}

/// One word, or below a name that is never delegated (RFC 6761, RFC 6762 and ICANN's `.internal`), or as services and
/// pods of Kubernetes are called: `tidegate.monitoring.svc` has three words at least. Two below `.svc` would be those
/// of a site, should that ever be delegated.
fn is_local_name(host: &str) -> bool {
    let name = name_of(host).to_ascii_lowercase();
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let words: Vec<&str> = name.split('.').collect();
    words.iter().all(|word| is_word(word))
        && matches!(words.as_slice(), [_] | [.., "internal" | "local" | "localhost"] | [_, _, .., "svc"])
}

/// By the names of `admin hosts=`, in which `*` is one more label and `**` any number of them.
fn is_listed(listed: &[HostPattern], host: &str) -> bool {
    let host = HostPattern::Exact(name_of(host).to_ascii_lowercase());
    listed.iter().any(|pattern| pattern.covers(&host))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        Some(_) | None => host,
    }
}

/// Without the dot at its end that says that a name is whole (RFC 1034 section 3.1), and means the same.
fn name_of(host: &str) -> &str {
    let name = without_port(host);
    name.strip_suffix('.').unwrap_or(name)
}

fn is_own_host(host: &str) -> bool {
    let name = without_port(host);
    name_of(host).eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4())
        || host.parse::<SocketAddr>().is_ok()
        || name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|ip| ip.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{Door, bearer, is_own_host, no_browser, no_foreign_site, one_host};
    use crate::problem::Problem;
    use axum::http::{HeaderMap, HeaderValue, Uri, Version, header};
    use tidegate_model::address::parse_host_pattern;

    #[test]
    fn hosts_that_a_page_cannot_have() {
        let check = |host: &str, expected: bool| assert_eq!(is_own_host(host), expected, "{host}");
        check("127.0.0.1:9180", true);
        check("127.0.0.1", true);
        check("localhost:9180", true);
        check("LOCALHOST", true);
        check("localhost.:9180", true);
        check("127.0.0.1.", false);
        check("tidegate.monitoring.svc", false);
        check("[::1]:9180", true);
        check("[::1]", true);
        check("10.0.0.7:80", true);
        check("example.com", false);
        check("localhost.example.com:9180", false);
        check("127.0.0.1.example.com", false);
        check("[::1].example.com", false);
        check("", false);
    }

    #[test]
    fn what_a_browser_could_be_made_to_send_is_refused() {
        let check = |uri: &str, headers: &[(header::HeaderName, &str)], expected: Option<&str>| {
            let headers: HeaderMap =
                headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect();
            let seen = no_browser(&uri.parse::<Uri>().unwrap(), &headers).err();
            assert_eq!(seen.as_ref().map(Problem::kind), expected, "{uri} {headers:?}");
        };
        let own = (header::HOST, "127.0.0.1:9180");
        check("/v1/status", std::slice::from_ref(&own), None);
        check("/v1/status", &[own.clone(), (header::ORIGIN, "null")], Some("from-browser"));
        check("/v1/status", &[(header::HOST, "evil.example:9180")], Some("foreign-host"));
        check("/v1/status", &[], Some("foreign-host"));
        check("http://evil.example/v1/status", &[own], Some("foreign-host"));
    }

    fn with_hosts(hosts: &[&str]) -> HeaderMap {
        hosts.iter().map(|host| (header::HOST, HeaderValue::from_str(host).expect("a value"))).collect()
    }

    #[test]
    fn metrics_are_not_open_to_the_pages_of_foreign_sites() {
        let check = |door: Door, uri: &str, hosts: &[&str], expected: bool| {
            let seen = no_foreign_site(door, &[], &uri.parse::<Uri>().expect("a URI"), &with_hosts(hosts)).is_ok();
            assert_eq!(seen, expected, "{door:?} {uri} {hosts:?}");
        };
        const LOCAL: [&str; 14] = [
            "127.0.0.1:9180",
            "[::1]:9180",
            "localhost",
            "localhost.",
            "LOCALHOST.:9180",
            "tidegate:9180",
            "tidegate.:9180",
            "proxy.internal",
            "proxy.internal.:9180",
            "host.local:80",
            "tidegate.monitoring.svc:9180",
            "tidegate-0.tidegate.monitoring.svc",
            "tidegate.monitoring.svc.cluster.local:9180",
            "tidegate.monitoring.svc.cluster.local.",
        ];
        const FOREIGN: [&str; 13] = [
            "evil.example:9180",
            "evil.example",
            "evil.example.",
            "127.0.0.1.evil.example",
            "tidegate.monitoring.svc.evil.example",
            "x.svc",
            "internal..",
            "a..internal",
            ".internal",
            ".",
            "",
            "a b",
            "..svc",
        ];
        for door in [Door::Loopback, Door::Network] {
            for host in LOCAL {
                check(door, "/metrics", &[host], true);
            }
            check(door, "/metrics", &[], true);
            for host in FOREIGN {
                for path in ["/metrics", "/metrics/", "/v1/status", "/nothing", "/healthz/", "/readyz/x", "//healthz"] {
                    check(door, path, &[host], false);
                }
                check(door, "/metrics", &["127.0.0.1", host], false);
                // One word each, which is worth nothing to a page.
                check(door, "/healthz", &[host], true);
                check(door, "/readyz", &[host], true);
            }
            check(door, "http://evil.example/metrics", &["127.0.0.1:9180"], false);
        }
        check(Door::Unix, "/metrics", &["evil.example"], true);
    }

    #[test]
    fn names_of_the_configuration_are_known() {
        let listed = ["app-1.example.com", "*.mon.example.com"].map(|name| parse_host_pattern(name).expect("a pattern"));
        let check = |host: &str, expected: bool| {
            let seen = no_foreign_site(Door::Network, &listed, &Uri::from_static("/metrics"), &with_hosts(&[host])).is_ok();
            assert_eq!(seen, expected, "{host}");
        };
        check("app-1.example.com", true);
        check("APP-1.example.com.:9180", true);
        check("a.mon.example.com:9180", true);
        check("A.MON.EXAMPLE.COM.", true);
        check("app-2.example.com", false);
        check("app-1.example.com.evil.example", false);
        check("x.app-1.example.com", false);
        check("mon.example.com", false);
        check(".mon.example.com", false);
        check("a.b.mon.example.com", false);
        check("amon.example.com", false);
    }

    #[test]
    fn who_is_refused_reads_which_setting_lets_the_name_in() {
        let check = |path: &'static str, host: &str, detail: &str, help: &str| {
            let problem = no_foreign_site(Door::Network, &[], &Uri::from_static(path), &with_hosts(&[host])).expect_err(host);
            assert!(problem.detail.contains(detail), "{host}: {}", problem.detail);
            assert_eq!(problem.help.as_deref(), Some(help), "{host}");
        };
        let address = "ask by the address, as in `curl http://127.0.0.1:9180/metrics`";
        let listed = "if it is yours, list it in the configuration: `admin \"ADDRESS\" hosts=\"app-1.example.com\"`; or ";
        check("/metrics", "App-1.example.com.:9180", "`app-1.example.com`", &format!("{listed}{address}"));
        check("/v1/status", "app-1.example.com", "`app-1.example.com`", address);
        check("/metrics", "a b", "no name of a host", address);
        check("/metrics", &"a.".repeat(1000), "no name of a host", address);
    }

    #[test]
    fn a_request_has_one_host() {
        let check_in = |version: Version, hosts: &[&str], expected: Option<&str>| {
            let seen = one_host(version, &with_hosts(hosts)).err();
            assert_eq!(seen.as_ref().map(Problem::kind), expected, "{version:?} {hosts:?}");
        };
        let check = |hosts: &[&str], expected: Option<&str>| {
            check_in(Version::HTTP_11, hosts, expected);
            check_in(Version::HTTP_10, hosts, expected);
        };
        check_in(Version::HTTP_11, &[], Some("bad-request"));
        check_in(Version::HTTP_10, &[], None);
        check(&["localhost"], None);
        check(&["localhost", "localhost"], Some("bad-request"));
        check(&["localhost", "evil.example"], Some("bad-request"));
    }

    #[test]
    fn the_token_is_what_follows_bearer() {
        let check = |value: &'static str, expected: Option<&str>| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))]);
            assert_eq!(bearer(&headers), expected.map(str::as_bytes), "{value}");
        };
        check("Bearer abc", Some("abc"));
        check("bearer  abc ", Some("abc"));
        check("Basic abc", None);
        check("Bearer", None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
