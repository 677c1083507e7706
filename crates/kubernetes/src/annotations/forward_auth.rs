//! Who may ask, by the word of another server. What cannot be asked as it is written shuts: it would let in everybody.

use super::sign_in::sign_in;
use super::variables::template;
use super::{Annotations, listed, shortened, units};
use crate::ingress_names::is_label;
use crate::manner::{AuthServer, Manner, MannerForwardAuth};
use crate::pool_manner::PoolManner;
use crate::reference::{ServiceAtPort, Spoken};
use std::sync::Arc;
use std::time::Duration;
use tidegate_cluster::{Key, PortReference};
use tidegate_model::{
    AuthMethod, ForwardAuth, NamePattern, Placeholder, PoolName, RememberedAuth, Scheme, TcpAddress, Template, TemplatePart,
};

const URL: &str = "auth-url";
/// How long ingress-nginx waits for an answer.
const TOTAL: Duration = Duration::from_secs(60);
/// How long ingress-nginx remembers a good answer where nothing is said.
const TTL: Duration = Duration::from_mins(5);
const TTL_MAX: Duration = Duration::from_hours(1);
const TARGET_BYTES_MAX: usize = 1000;
const NAMES_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 200;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    if annotations.text(URL).is_some() {
        manner.forward_auth = asking(annotations);
    } else if !annotations.defaults.global_auth.is_empty() && annotations.switch("enable-global-auth") != Some(false) {
        let mut global = annotations.global_auth();
        manner.forward_auth = asking(&mut global);
        annotations.is_shut |= global.is_shut;
    }
}

/// `None`: nobody is to be asked, or nothing is answered.
fn asking(annotations: &mut Annotations<'_>) -> Option<MannerForwardAuth> {
    let asked = match asked(annotations.text(URL)?) {
        Ok(asked) => asked,
        Err(problem) => {
            annotations.shut(URL, &problem);
            return None;
        }
    };
    let method = method(annotations)?;
    let copied = copied(annotations)?;
    let redirect = redirect(annotations)?;
    let headers_from = annotations.config_map("auth-proxy-set-headers").ok()?;
    let mut headers = vec![
        ("X-Sent-From".to_owned(), Template::literal("nginx-ingress-controller")),
        ("X-Auth-Request-Redirect".to_owned(), redirect),
    ];
    if method != AuthMethod::Get || annotations.text("auth-method").is_some() {
        let of_request = |placeholder| Template { parts: vec![TemplatePart::Placeholder(placeholder)] };
        headers.push(("X-Original-URI".to_owned(), of_request(Placeholder::AskedUri)));
        headers.push(("X-Scheme".to_owned(), of_request(Placeholder::Scheme)));
    }
    let step = ForwardAuth {
        target: asked.target,
        host: asked.host,
        method,
        headers,
        copied,
        cookies: Some(Vec::new()),
        total: TOTAL,
        sign_in: sign_in(annotations),
        remembers: remembered(annotations),
        ..ForwardAuth::new(PoolName("".into()))
    };
    Some(MannerForwardAuth { server: asked.server, step, headers_from })
}

/// Where questions go.
struct Asked {
    server: AuthServer,
    /// `None`: the client's.
    host: Option<String>,
    target: String,
}

fn asked(text: &str) -> Result<Asked, String> {
    const FORM: &str = "write one, as in `http://auth.shop.svc.cluster.local/check`, or remove it";
    let shown = shortened(text);
    let no_url = || format!("`{shown}` is not a URL: {FORM}");
    let (scheme, rest) = text.split_once("://").ok_or_else(no_url)?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => Some(Scheme::Http),
        "https" => Some(Scheme::Https),
        "$scheme" => None,
        _ => return Err(no_url()),
    };
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    if target.contains('$') {
        return Err(format!("the path of `{shown}` has a variable, and questions have one path: write it without"));
    }
    if target.len() > TARGET_BYTES_MAX || !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(no_url());
    }
    let (name, port) = authority
        .rsplit_once(':')
        .filter(|(name, _)| !name.ends_with(']') || authority.ends_with(']'))
        .map_or((authority, None), |(name, port)| (name, Some(port)));
    if matches!(name, "$host" | "$http_host" | "$best_http_host" | "${host}") {
        return Ok(Asked { server: AuthServer::OfHost, host: None, target });
    }
    let scheme = scheme.filter(|_| !authority.contains('$'));
    let scheme = scheme.ok_or_else(|| format!("`{shown}` has a variable that is not `$host` in front of its path: {FORM}"))?;
    let port = port.map_or(Some(scheme.default_port()), |port| port.parse().ok().filter(|port| *port != 0)).ok_or_else(no_url)?;
    let address = TcpAddress::parse(&format!("{}://{name}:{port}", scheme.as_str())).map_err(|_| no_url())?;
    let server = service(&address).map_or(AuthServer::Outside(address), AuthServer::Service);
    Ok(Asked { server, host: Some(name.to_ascii_lowercase()), target })
}

/// The Service that has the name within the cluster.
fn service(address: &TcpAddress) -> Option<ServiceAtPort> {
    let name = address.host.strip_suffix('.').unwrap_or(&address.host);
    let name = name.strip_suffix(".svc.cluster.local").or_else(|| name.strip_suffix(".svc"))?;
    let (service, namespace) = name.split_once('.').filter(|(service, namespace)| is_label(service) && is_label(namespace))?;
    let spoken = match address.scheme {
        Scheme::Http => Spoken::Plain,
        Scheme::Https => Spoken::Tls,
    };
    let service = Key { namespace: namespace.into(), name: service.into() };
    let manner = Arc::new(PoolManner { spoken: Some(spoken), ..PoolManner::default() });
    Some(ServiceAtPort { service, port: PortReference::Number(address.port), manner: Some(manner) })
}

fn method(annotations: &mut Annotations<'_>) -> Option<AuthMethod> {
    const NAME: &str = "auth-method";
    match annotations.text(NAME) {
        None | Some("GET") => Some(AuthMethod::Get),
        Some(method @ ("HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS")) => Some(AuthMethod::Other(method.to_owned())),
        Some(other) => {
            let other = shortened(other);
            annotations.shut(NAME, &format!("`{other}` is not a method that a question can have: write `GET`, or remove it"));
            None
        }
    }
}

fn copied(annotations: &mut Annotations<'_>) -> Option<Vec<NamePattern>> {
    const NAME: &str = "auth-response-headers";
    let mut copied: Vec<NamePattern> = Vec::new();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    for name in listed(annotations.text(NAME).unwrap_or_default()) {
        if !name.bytes().all(is_part) || name.len() > NAME_BYTES_MAX || copied.len() == NAMES_MAX {
            let shown = shortened(name);
            annotations.shut(NAME, &format!("`{shown}` is no name of a header, or one too many: write others, or remove it"));
            return None;
        }
        if ForwardAuth::is_never_copied(name) {
            annotations.leave_out(NAME, &format!("`{name}` of an answer says nothing about who asks"));
        } else if !copied.iter().any(|known| known.text.eq_ignore_ascii_case(name)) {
            copied.push(NamePattern { text: name.to_owned(), is_prefix: false });
        }
    }
    Some(copied)
}

/// What `X-Auth-Request-Redirect` says: where the client is to return to.
fn redirect(annotations: &mut Annotations<'_>) -> Option<Template> {
    const NAME: &str = "auth-request-redirect";
    let text = annotations.text(NAME).unwrap_or("$request_uri");
    match template(text, annotations.key, false) {
        Ok(redirect) if !text.chars().any(char::is_control) => Some(redirect),
        Ok(_) | Err(_) => {
            annotations.shut(NAME, "it has a variable that is not known, and the server is told what it says: write another one");
            None
        }
    }
}

/// Good answers that are remembered, by what tells clients apart.
fn remembered(annotations: &mut Annotations<'_>) -> Option<RememberedAuth> {
    const NAME: &str = "auth-cache-key";
    let text = annotations.text(NAME)?;
    // The user stands in the field that says who asks, as in the example that ingress-nginx gives.
    let text = &if text.contains("$http_authorization") { text.replace("$remote_user", "") } else { text.to_owned() };
    let key = template(text, annotations.key, false).ok().filter(|key| key.placeholders().any(Placeholder::tells_clients_apart));
    if key.is_none() {
        annotations.leave_out(NAME, "it does not say by known variables who asks, so the server is asked about each request");
    }
    Some(RememberedAuth { key: key?, ttl: ttl(annotations) })
}

/// How long an answer of 200 is remembered: `200 202 10m, 401 5m`.
fn ttl(annotations: &mut Annotations<'_>) -> Duration {
    const NAME: &str = "auth-cache-duration";
    let Some(text) = annotations.text(NAME) else { return TTL };
    let of_good = listed(text).find_map(|entry| {
        let mut words: Vec<&str> = entry.split_ascii_whitespace().collect();
        let time = words.pop()?;
        (words.is_empty() || words.iter().any(|word| matches!(*word, "200" | "any"))).then_some(time)
    });
    let time = of_good.and_then(units::time).filter(|time| !time.is_zero());
    let Some(time) = time else {
        annotations.leave_out(NAME, "it says no time for 200, as `200 202 10m` does, and is 5m without one");
        return TTL;
    };
    time.min(TTL_MAX)
}

#[cfg(test)]
mod tests {
    use super::asked;
    use crate::manner::AuthServer;

    #[test]
    fn urls_are_services_hosts_or_outside() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let seen = asked(text).map(|asked| {
                let server = match asked.server {
                    AuthServer::Service(service) => {
                        let spoken = service.manner.as_ref().and_then(|manner| manner.spoken);
                        format!("service {} {spoken:?}", service.place())
                    }
                    AuthServer::Outside(address) => format!("outside {address}"),
                    AuthServer::OfHost => "of the host".to_owned(),
                };
                format!("{server} {:?} {}", asked.host.unwrap_or_default(), asked.target)
            });
            match (seen, expected) {
                (Ok(seen), Ok(expected)) => assert_eq!(seen, expected, "{text}"),
                (Err(seen), Err(expected)) => assert!(seen.contains(expected), "{text}: {seen}"),
                (seen, _) => panic!("{text}: {seen:?}"),
            }
        };
        check(
            "http://auth.login.svc.cluster.local/check?a=b",
            Ok("service login/auth:80 Some(Plain) \"auth.login.svc.cluster.local\" /check?a=b"),
        );
        check("http://auth.login.svc:4180", Ok("service login/auth:4180 Some(Plain) \"auth.login.svc\" /"));
        check("https://auth.login.svc.cluster.local/", Ok("service login/auth:443 Some(Tls) \"auth.login.svc.cluster.local\" /"));
        check("https://auth.example.com/x", Ok("outside https://auth.example.com:443 \"auth.example.com\" /x"));
        check("http://10.0.0.7:9091?x", Ok("outside 10.0.0.7:9091 \"10.0.0.7\" /?x"));
        check("https://$host/oauth2/auth", Ok("of the host \"\" /oauth2/auth"));
        check("$scheme://$http_host/oauth2/auth", Ok("of the host \"\" /oauth2/auth"));
        check("http://$service.example.com/", Err("variable"));
        check("http://auth.example.com/?a=$request_uri", Err("variable"));
        check("auth.example.com", Err("is not a URL"));
        check("ftp://auth.example.com", Err("is not a URL"));
        check("http://", Err("is not a URL"));
        check("http://auth:0/", Err("is not a URL"));
        check("http://auth:x/", Err("is not a URL"));
        check("http://auth.example.com/a b", Err("is not a URL"));
    }
}
