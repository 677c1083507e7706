//! Who may use the API. On a unix socket the permissions of its file decide; on TCP a token does, and what a browser
//! could be made to send is refused before. `/metrics`, `/healthz` and `/readyz` are open to every program that reaches
//! them, and not to the pages of a site that was made to resolve to this machine.

use crate::ask::ask;
use crate::problem::Problem;
use crate::problem::forbidden;
use crate::token::{self, Token};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use tidegate_control::{AdminListener, Control, ControlHandle};
use tidegate_model::Configuration;

/// Where requests come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Unix,
    /// Only processes of this machine reach it.
    Loopback,
    Network,
}

impl Door {
    pub fn of(listener: &AdminListener) -> Door {
        match listener {
            AdminListener::Tcp(listener) => match listener.local_addr() {
                Ok(address) if address.ip().is_loopback() => Door::Loopback,
                Ok(_) | Err(_) => Door::Network,
            },
            AdminListener::Unix { .. } | AdminListener::Off => Door::Unix,
        }
    }
}

#[derive(Clone)]
pub struct Access {
    pub handle: ControlHandle,
    pub door: Door,
}

/// The token that the configuration names.
fn token_of(configuration: &Configuration) -> Option<Token> {
    configuration.admin_token.as_ref().map(|secret| Token::new(secret.reveal()))
}

/// Makes the token file when somebody will need it, so that it is there before the first request.
pub async fn prepare(handle: &ControlHandle, door: Door) {
    let needs_one = |control: &mut Control| token_of(control.configuration()).is_none().then(|| control.state_dir().to_owned());
    if door != Door::Loopback {
        return;
    }
    if let Ok(Some(state_dir)) = ask(handle, needs_one).await
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
    match access.permits(request.uri(), request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Before any address, those that need no token included.
pub async fn check_site(State(door): State<Door>, request: Request, next: Next) -> Response {
    match no_foreign_site(door, request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Access {
    async fn permits(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        if self.door != Door::Unix {
            no_browser(uri, headers)?;
        }
        let known = ask(&self.handle, |control| (token_of(control.configuration()), control.state_dir().to_owned()));
        let (configured, state_dir) = known.await?;
        let expected = match (configured, self.door) {
            (Some(token), _) => token,
            (None, Door::Unix) => return Ok(()),
            (None, Door::Loopback) => generated(&state_dir)?,
            (None, Door::Network) => {
                return Err(forbidden("no-token", "the API is open to the network, and no token is configured for it")
                    .with_help("configure a token, or bind the endpoint to 127.0.0.1 or to a `unix:` socket"));
            }
        };
        match bearer(headers) {
            Some(given) if expected.is(given) => Ok(()),
            Some(_) => Err(unauthorised("the token is not that of this process")),
            None => Err(unauthorised("the request has no token")),
        }
    }
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

/// What is open to everybody is open to a browser's page as well, once the name of its site resolves to this machine
/// ("DNS rebinding"): it would read there what runs inside. A name that no site on the internet can have is that of a
/// scraper's own network; and who names no host is no browser.
fn no_foreign_site(door: Door, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if door == Door::Unix || hosts(uri, headers).all(|host| is_own_host(host) || is_local_name(host)) {
        return Ok(());
    }
    Err(forbidden("foreign-host", "the `Host` of the request is a name that any site could have")
        .with_help("ask by the address, as in `curl http://127.0.0.1:9180/metrics`, or by a name of one word or below `.internal` or `.local`"))
}

/// One word, or below a name that is never delegated (RFC 6761, RFC 6762 and ICANN's `.internal`).
fn is_local_name(host: &str) -> bool {
    let name = without_port(host).to_ascii_lowercase();
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let words: Vec<&str> = name.split('.').collect();
    words.iter().all(|word| is_word(word))
        && (words.len() == 1 || matches!(words.last(), Some(&("internal" | "local" | "localhost"))))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        Some(_) | None => host,
    }
}

fn is_own_host(host: &str) -> bool {
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4())
        || host.parse::<SocketAddr>().is_ok()
        || name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|ip| ip.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{Door, bearer, is_own_host, no_browser, no_foreign_site};
    use crate::problem::Problem;
    use axum::http::{HeaderMap, HeaderValue, Uri, header};

    #[test]
    fn hosts_that_a_page_cannot_have() {
        let check = |host: &str, expected: bool| assert_eq!(is_own_host(host), expected, "{host}");
        check("127.0.0.1:9180", true);
        check("127.0.0.1", true);
        check("localhost:9180", true);
        check("LOCALHOST", true);
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

    #[test]
    fn open_addresses_are_not_open_to_the_pages_of_foreign_sites() {
        let check = |door: Door, uri: &str, hosts: &[&str], expected: bool| {
            let headers: HeaderMap =
                hosts.iter().map(|host| (header::HOST, HeaderValue::from_str(host).expect("a value"))).collect();
            let seen = no_foreign_site(door, &uri.parse::<Uri>().expect("a URI"), &headers).is_ok();
            assert_eq!(seen, expected, "{door:?} {uri} {hosts:?}");
        };
        for door in [Door::Loopback, Door::Network] {
            for host in ["127.0.0.1:9180", "[::1]:9180", "localhost", "tidegate:9180", "proxy.internal", "host.local:80"] {
                check(door, "/metrics", &[host], true);
            }
            check(door, "/metrics", &[], true);
            for host in
                ["evil.example:9180", "evil.example", "127.0.0.1.evil.example", "internal.", ".internal", "", "a b", "x.svc"]
            {
                check(door, "/metrics", &[host], false);
                check(door, "/metrics", &["127.0.0.1", host], false);
            }
            check(door, "http://evil.example/healthz", &["127.0.0.1:9180"], false);
        }
        check(Door::Unix, "/metrics", &["evil.example"], true);
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
