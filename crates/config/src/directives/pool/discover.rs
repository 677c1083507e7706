//! `discover dns="api.internal:8080"`: where servers come from that nobody wrote. Nothing is asked here; a name is only
//! read.

use super::PoolDraft;
use crate::diagnostics::Diagnostic;
use crate::forms::Fault;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Kind, Place, Property, Repeat};
use crate::units::show_duration;
use crate::written_line::Writer;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tidegate_model::discover::{
    Cluster, ConsulDiscover, ContainersDiscover, DnsDiscover, DnsQuestion, DockerDiscover, KubernetesDiscover, Namespaces,
    ServicePort,
};
use tidegate_model::{Discover, HostPattern, KubernetesApi, Scheme, Secret, TcpAddress, address};

const TTL: Kind = Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(86_400) };

pub static DISCOVER: Directive = Directive {
    name: "discover",
    places: &[Place::Pool],
    repeat: Repeat::Many,
    properties: &[
        Property::once(
            "dns",
            Kind::Text("`[scheme://]name:port`, or `srv+` and the name of a service"),
            "A and AAAA records: each address is a server on this port. Or SRV records, as in `srv+_http._tcp.api.internal`.",
        ),
        Property::once(
            "resolver",
            Kind::Text("an IP address, with or without a port"),
            "For `dns`: who is asked, instead of those of `/etc/resolv.conf`; port 53 when left out.",
        ),
        Property::once("ttl-min", TTL, "For `dns`: a TTL below is taken as this; `1s` when left out."),
        Property::once("ttl-max", TTL, "For `dns`: a TTL above is taken as this; `5m` when left out."),
        Property::once("file", Kind::Path, "A list of servers, in JSON or KDL, read again when it changes."),
        Property::once("docker", Kind::Text("a value of the label `tidegate.pool`"), "Running containers with that label."),
        Property::once("socket", Kind::Path, "For `docker`: the engine's socket; Docker's or Podman's own when left out."),
        Property::once(
            "network",
            Kind::Text("the name of a network"),
            "For `docker`: the network whose addresses are used; one that can be reached when left out.",
        ),
        Property::once(
            "port",
            Kind::Integer { min: 1, max: 65_535 },
            "For `docker` and `container`: the containers' port; the label `tidegate.port`, or the only port that is exposed, when left out.",
        ),
        Property::once(
            "container",
            Kind::Text("`PROJECT/SERVICE`, or the name of a container"),
            "Containers that `docker` at the top level hears of: a service of compose, or a container that is in no project.",
        ),
        Property::once(
            "scheme",
            Kind::Choice(&["http", "https"]),
            "For `container` and `kubernetes`: `https` has TLS spoken with them, which is not so without a word.",
        ),
        Property::once("consul", Kind::Text("the name of a service"), "Healthy instances of a service of Consul."),
        Property::once(
            "agent",
            Kind::Text("an address, as in `\"http://127.0.0.1:8500\"`"),
            "For `consul`: its agent; `http://127.0.0.1:8500` when left out.",
        ),
        Property::once("tag", Kind::Text("a tag"), "For `consul`: only instances with this tag."),
        Property::once("datacenter", Kind::Text("the name of a datacenter"), "For `consul`: the agent's own when left out."),
        Property::once(
            "kubernetes",
            Kind::Text("`NAMESPACE/SERVICE:PORT`"),
            "Endpoints of a Service of Kubernetes, by the number or the name of one of its ports.",
        ),
        Property::once(
            "api",
            Kind::Text("an address, as in `\"https://10.0.0.1:6443\"`"),
            "For `kubernetes`: its API server, asked with `token=`; in a pod it is known, and so is the pod's account.",
        ),
        Property::once(
            "ca",
            Kind::Path,
            "For `kubernetes` with `api=`: the authority behind its certificate, in PEM; the system's when left out.",
        ),
        Property::once(
            "token",
            Kind::Secret("a token of Consul, or of an account of Kubernetes"),
            "For `consul` and `kubernetes`. Best from a file or the environment.",
        ),
    ],
    summary: "Where more servers come from, besides those that are written.",
    details: "One line has one of `dns=`, `file=`, `docker=`, `container=`, `consul=` and `kubernetes=`; a pool may have several lines, and `server` lines as well. Servers come and go \
              while requests are on their way: one that goes gets no new requests and finishes those that it has. The last good answer is kept when \
              nothing can be asked, and the process starts although there is none yet.\n\n\
              SRV records bring port, weight and priority of each server. `srv+_https._tcp.…` is spoken to with TLS, any other service in plain text.",
    example: "discover dns=\"api.internal:8080\" ttl-max=\"30s\"",
    lower: Lower::Pool(lower_discover),
    ..Directive::PLAIN
};

/// One kind of source.
struct Kinded {
    /// The property that names it.
    kind: &'static str,
    /// Properties that belong to it alone.
    own: &'static [&'static str],
    read: fn(&mut Lowering<'_>, &Line<'_>) -> Option<Discover>,
}

static KINDS: &[Kinded] = &[
    Kinded { kind: "dns", own: &["resolver", "ttl-min", "ttl-max"], read: dns },
    Kinded { kind: "file", own: &[], read: file },
    Kinded { kind: "docker", own: &["socket", "network", "port"], read: docker },
    Kinded { kind: "container", own: &["port", "scheme"], read: containers },
    Kinded { kind: "consul", own: &["agent", "tag", "datacenter", "token"], read: consul },
    Kinded { kind: "kubernetes", own: &["api", "ca", "token", "scheme"], read: kubernetes },
];

const RESOLVER_PORT: u16 = 53;
const TEXT_CHARS_MAX: usize = 255;

fn lower_discover(lowering: &mut Lowering<'_>, draft: &mut PoolDraft, line: &Line<'_>) {
    let Some(discover) = read_discover(lowering, line) else {
        draft.faulty = true;
        return;
    };
    if let Some((_, first)) = draft.discover.iter().find(|(known, _)| *known == discover) {
        let diagnostic = Diagnostic::error("duplicate-discover", line.location(), "the same is asked twice")
            .label(first.clone(), "the first one")
            .help("remove one of them");
        lowering.report(diagnostic);
        return;
    }
    lowering.spans.sources.push((discover.clone(), line.location()));
    draft.discover.push((discover, line.location()));
}

fn read_discover(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Discover> {
    let mut named = KINDS.iter().filter_map(|known| line.property(known.kind).map(|value| (known, value.location.clone())));
    let Some((known, first_at)) = named.next() else {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`discover` needs a source");
        return lowering
            .refuse(diagnostic.help("for example `discover dns=\"api.internal:8080\"` or `discover file=\"servers.json\"`"));
    };
    let kind = known.kind;
    if let Some((second, second_at)) = named.next() {
        let message = format!("`{kind}=` and `{}=` cannot stand on one line", second.kind);
        let diagnostic = Diagnostic::error("conflicting-kinds", second_at, message)
            .label(first_at, "the first one")
            .help("write a `discover` line for each of them");
        return lowering.refuse(diagnostic);
    }
    for other in KINDS.iter().filter(|other| other.kind != kind) {
        let foreign = other.own.iter().filter(|name| !known.own.contains(name));
        for (name, value) in foreign.filter_map(|name| line.property(name).map(|value| (name, value))) {
            let message = format!("`{name}=` belongs to `discover {}=`, and this is `discover {kind}=`", other.kind);
            let diagnostic = Diagnostic::error("property-of-another-kind", value.location.clone(), message);
            lowering.report(diagnostic.help("remove it"));
        }
    }
    (known.read)(lowering, line)
}

fn file(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Discover> {
    let text = line.text(lowering, "file")?;
    let extension = Path::new(&text.value).extension().and_then(|extension| extension.to_str());
    if !matches!(extension, Some("json" | "kdl")) {
        let message = format!("`{}` is no list that can be read", crate::diagnostics::shortened(&text.value));
        return lowering
            .refuse(text.error("bad-value", message).help("the name says how it is written: it ends in `.json` or `.kdl`"));
    }
    Some(Discover::File { path: lowering.path(&text.value, &text.location) })
}

fn dns(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Discover> {
    let resolver = line.text(lowering, "resolver").map(|text| resolver(lowering, &text));
    let errors_before = lowering.diagnostics.len();
    let ttl_least = line.duration(lowering, "ttl-min");
    let ttl_most = line.duration(lowering, "ttl-max");
    let is_read = !lowering.has_errors_since(errors_before);
    let ttl_least_meant = ttl_least.unwrap_or(DnsDiscover::TTL_LEAST.min(ttl_most.unwrap_or(Duration::MAX)));
    let ttl_most_meant = ttl_most.unwrap_or(DnsDiscover::TTL_MOST.max(ttl_least_meant));
    if let Some(value) = line.property("ttl-max")
        && ttl_least_meant > ttl_most_meant
    {
        let message = format!("`ttl-max=` is below `ttl-min=`, {}", show_duration(ttl_least_meant));
        let diagnostic = Diagnostic::error("conflicting-times", value.location.clone(), message);
        lowering.report(diagnostic.help("raise `ttl-max=` or lower `ttl-min=`"));
    }
    let text = line.text(lowering, "dns")?;
    let (scheme, question) = match parse_dns(&text.value) {
        Ok(read) => read,
        Err((reason, help)) => return lowering.refuse(text.error("bad-address", reason).help(help)),
    };
    let resolver = match resolver {
        None => None,
        Some(read) => Some(read?),
    };
    let discover = DnsDiscover { scheme, question, resolver, ttl_least: ttl_least_meant, ttl_most: ttl_most_meant };
    is_read.then_some(Discover::Dns(discover))
}

/// `Err` is what is wrong, and what to do.
fn parse_dns(text: &str) -> Result<(Scheme, DnsQuestion), Fault> {
    let as_in = "for example `dns=\"api.internal:8080\"`";
    if let Some(name) = text.strip_prefix("srv+") {
        let as_in = "for example `dns=\"srv+_http._tcp.api.internal\"`";
        if name.contains([':', '/']) {
            return Err(("SRV records bring the port themselves, and there is no scheme".into(), as_in.into()));
        }
        return match address::parse_host_pattern(name) {
            Ok(HostPattern::Exact(name)) => {
                let scheme = if name.starts_with("_https.") { Scheme::Https } else { Scheme::Http };
                Ok((scheme, DnsQuestion::Services { name }))
            }
            Ok(
                HostPattern::Any
                | HostPattern::Wildcard(_)
                | HostPattern::DeepWildcard(_)
                | HostPattern::Ip(_)
                | HostPattern::Socket(_),
            ) => Err(("the name of a service is missing behind `srv+`".into(), as_in.into())),
            Err(reason) => Err((reason.into(), as_in.into())),
        };
    }
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    if !rest.contains(':') && matches!(address::parse_host_pattern(rest), Ok(HostPattern::Exact(_))) && rest == text {
        let help = format!("write `dns=\"{rest}:8080\"`, or `dns=\"srv+_http._tcp.{rest}\"` for SRV records, which bring it");
        return Err(("the port of the servers is missing".into(), help.into()));
    }
    match TcpAddress::parse(text) {
        Ok(found) if found.host.parse::<IpAddr>().is_ok() => {
            let message = format!("`{}` is an IP address, and there is nothing to look up", found.host);
            Err((message.into(), format!("write `server \"{found}\"`").into()))
        }
        Ok(TcpAddress { scheme, host, port }) => Ok((scheme, DnsQuestion::Addresses { name: host, port })),
        Err(reason) => Err((reason.into(), as_in.into())),
    }
}

fn resolver(lowering: &mut Lowering<'_>, text: &Text) -> Option<SocketAddr> {
    let bare = text.value.trim_start_matches('[').trim_end_matches(']');
    let read = text.value.parse().ok().or_else(|| Some(SocketAddr::new(bare.parse().ok()?, RESOLVER_PORT)));
    match read {
        Some(address) if address.port() != 0 => Some(address),
        Some(_) | None => {
            let diagnostic = text.error("bad-address", format!("`{}` is not the IP address of a resolver", text.value));
            lowering.refuse(diagnostic.help("for example `resolver=\"10.0.0.2\"` or `resolver=\"10.0.0.2:5353\"`"))
        }
    }
}

fn docker(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Discover> {
    let label = line.text(lowering, "docker").and_then(|text| some_text(lowering, text, "`docker=`"));
    let network = line.text(lowering, "network").and_then(|text| some_text(lowering, text, "`network=`"));
    let port = line.number(lowering, "port").map(|port| port as u16);
    let socket = line.text(lowering, "socket").map(|text| {
        // As the variable `DOCKER_HOST` has it.
        let path = text.value.strip_prefix("unix://").unwrap_or(&text.value).to_string();
        lowering.path(&path, &text.location)
    });
    Some(Discover::Docker(DockerDiscover { label: label?, socket, network, port }))
}

fn containers(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Discover> {
    let group = line.text(lowering, "container").and_then(|text| some_text(lowering, text, "`container=`"));
    let port = line.number(lowering, "port").map(|port| port as u16);
    let scheme = scheme(lowering, line);
    Some(Discover::Containers(ContainersDiscover { group: group?, port, scheme }))
}

fn scheme(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Scheme {
    match line.read(lowering, "scheme").map(Read::choice) {
        Some("https") => Scheme::Https,
        Some(_) | None => Scheme::Http,
    }
}

fn consul(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Discover> {
    let service = line.text(lowering, "consul").and_then(|text| service_name(lowering, text));
    let tag = line.text(lowering, "tag").and_then(|text| some_text(lowering, text, "`tag=`"));
    let datacenter = line.text(lowering, "datacenter").and_then(|text| some_text(lowering, text, "`datacenter=`"));
    let agent = match line.text(lowering, "agent") {
        None => Some(ConsulDiscover::AGENT.to_string()),
        Some(text) => agent(lowering, &text),
    };
    let token = line.text(lowering, "token").and_then(|text| token(lowering, &text, "/run/secrets/consul"));
    if let (Some(_), Some(agent), Some(value)) = (&token, &agent, line.property("token"))
        && !is_on_this_machine(agent)
    {
        let message = "the token goes over the network in plain text";
        let diagnostic = Diagnostic::warning("token-in-plain-text", value.location.clone(), message);
        lowering.report(diagnostic.help("ask the agent of this machine, which is what `agent=` means when it is left out"));
    }
    Some(Discover::Consul(ConsulDiscover { service: service?, agent: agent?, tag, datacenter, token }))
}

/// A mistaken address would be asked for as a service for ever.
fn service_name(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    if text.value.contains(['/', ':', ' ']) {
        let message = format!("`{}` cannot be the name of a service", crate::diagnostics::shortened(&text.value));
        let help = "for example `consul=\"api\"`; where the agent is, says `agent=\"10.0.0.2:8500\"`";
        return lowering.refuse(text.error("bad-value", message).help(help));
    }
    some_text(lowering, text, "`consul=`")
}

fn kubernetes(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Discover> {
    let asked = line.text(lowering, "kubernetes").and_then(|text| match parse_service(&text.value) {
        Ok(asked) => Some(asked),
        Err(reason) => {
            let help = "for example `kubernetes=\"shop/web:http\"`, or `kubernetes=\"shop/web:80\"`";
            lowering.refuse(text.error("bad-value", reason).help(help))
        }
    });
    let token = line.text(lowering, "token").map(|text| token(lowering, &text, "/run/secrets/token"));
    let root = line.text(lowering, "ca").map(|text| lowering.path(&text.value, &text.location));
    let url = line.text(lowering, "api").map(|text| api(lowering, text));
    let scheme = scheme(lowering, line);
    let api = match (url, token) {
        (Some(url), Some(token)) => Some(KubernetesApi { url: url?, token: token?, root }),
        (None, None) if root.is_none() => None,
        (Some(_), None) => {
            let diagnostic = Diagnostic::error("missing-argument", line.location(), "`api=` needs `token=`");
            return lowering.refuse(diagnostic.help("for example `token=\"{file./run/secrets/token}\"`"));
        }
        (None, _) => {
            let message = "`token=` and `ca=` are for an API server that `api=` names";
            let diagnostic = Diagnostic::error("missing-argument", line.location(), message);
            return lowering.refuse(diagnostic.help("add `api=\"https://…\"`, or remove them: a pod knows its own"));
        }
    };
    let (namespace, service, port) = asked?;
    let cluster = Cluster { api, namespaces: Namespaces::named([namespace.clone()]) };
    Some(Discover::Kubernetes(KubernetesDiscover { cluster, namespace, service, port, scheme, zone: None }))
}

/// Namespace, Service and port. `Err` is what is wrong.
fn parse_service(text: &str) -> Result<(String, String, ServicePort), String> {
    let (object, port) = text.rsplit_once(':').ok_or("the port of the Service is missing")?;
    let (namespace, service) = object.split_once('/').ok_or("the namespace of the Service is missing")?;
    for (what, name) in [("namespace", namespace), ("Service", service)] {
        if !is_label(name) {
            let shown = crate::diagnostics::shortened(name);
            return Err(format!("`{shown}` is not the name of a {what}: small letters, digits and `-`, at most 63"));
        }
    }
    let port = match port.parse::<u16>() {
        Ok(0) => return Err("there is no port 0".to_owned()),
        Ok(number) => ServicePort::Number(number),
        // A number that is none of a port is no name of one: names have a letter.
        Err(_) if is_label(port) && port.contains(|c: char| c.is_ascii_alphabetic()) => ServicePort::Name(port.to_owned()),
        Err(_) => {
            let shown = crate::diagnostics::shortened(port);
            return Err(format!("`{shown}` is neither the number nor the name of a port"));
        }
    };
    Ok((namespace.to_owned(), service.to_owned(), port))
}

/// As names of namespaces, Services and ports are written (RFC 1123).
fn is_label(name: &str) -> bool {
    let is_of_it = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(is_of_it) && !name.starts_with('-') && !name.ends_with('-')
}

/// In plain text only to this machine, as `kubectl proxy` is: the token goes with every request.
fn api(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    let reason = match TcpAddress::parse(&text.value) {
        Ok(_) if !text.value.contains("://") => "it has no scheme".to_owned(),
        Ok(address) => {
            let url = text.value.trim_end_matches('/').to_owned();
            if address.scheme == Scheme::Https || is_on_this_machine(&url) {
                return Some(url);
            }
            "the token would go over the network in plain text".to_owned()
        }
        Err(reason) => reason,
    };
    lowering.refuse(text.error("bad-address", reason).help("for example `api=\"https://10.0.0.1:6443\"`"))
}

fn is_on_this_machine(agent: &str) -> bool {
    let authority = agent.trim_start_matches("http://");
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn agent(lowering: &mut Lowering<'_>, text: &Text) -> Option<String> {
    let is_http = !text.value.contains("://") || text.value.starts_with("http://");
    let reason = match TcpAddress::parse(&text.value) {
        Ok(address) if is_http => return Some(format!("http://{}", address.authority())),
        Ok(_) => "the agent is asked in plain text, as it is on the same machine".to_string(),
        Err(reason) => reason,
    };
    lowering.refuse(text.error("bad-address", reason).help(format!("for example `agent=\"{}\"`", ConsulDiscover::AGENT)))
}

fn token(lowering: &mut Lowering<'_>, text: &Text, file: &str) -> Option<Secret> {
    // As it comes from a file, with the line end that editors put there.
    let value = text.value.trim_end_matches(['\r', '\n']);
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "a token has visible ASCII characters and no blanks";
        return lowering.refuse(text.error("bad-token", message).help(format!("for example `token=\"{{file.{file}}}\"`")));
    }
    Some(Secret::new(value))
}

/// Goes into a request as a part of its target, where it is percent-encoded; only what nobody can mean is refused.
fn some_text(lowering: &mut Lowering<'_>, text: Text, owner: &str) -> Option<String> {
    let reason = if text.value.is_empty() {
        format!("{owner} is empty")
    } else if text.value.chars().count() > TEXT_CHARS_MAX || text.value.chars().any(char::is_control) {
        format!("{owner} has at most {TEXT_CHARS_MAX} characters, and no control characters")
    } else {
        return Some(text.value);
    };
    lowering.refuse(text.error("bad-value", reason))
}

pub fn write(line: &mut Writer, discover: &Discover) {
    match discover {
        Discover::Dns(DnsDiscover { scheme, question, resolver, ttl_least, ttl_most }) => {
            let asked = match (question, scheme) {
                (DnsQuestion::Addresses { name, port }, Scheme::Http) => format!("{name}:{port}"),
                (DnsQuestion::Addresses { name, port }, Scheme::Https) => format!("https://{name}:{port}"),
                (DnsQuestion::Services { name }, Scheme::Http | Scheme::Https) => format!("srv+{name}"),
            };
            line.property("dns", asked).optional("resolver", *resolver);
            line.property("ttl-min", show_duration(*ttl_least)).property("ttl-max", show_duration(*ttl_most))
        }
        Discover::File { path } => line.property("file", path.display()),
        Discover::Docker(DockerDiscover { label, socket, network, port }) => {
            line.property("docker", label).optional("socket", socket.as_ref().map(|path| path.display()));
            line.optional("network", network.as_ref());
            if let Some(port) = port { line.number("port", port) } else { line }
        }
        Discover::Containers(ContainersDiscover { group, port, scheme }) => {
            line.property("container", group).optional_number("port", *port);
            line.unless(&Scheme::Http, "scheme", scheme, |scheme| scheme.as_str())
        }
        Discover::Consul(ConsulDiscover { service, agent, tag, datacenter, token }) => {
            let token = token.as_ref().map(|token| line.secret(true, token.reveal()));
            line.property("consul", service).property("agent", agent).optional("tag", tag.as_ref());
            line.optional("datacenter", datacenter.as_ref()).optional("token", token)
        }
        Discover::Kubernetes(discover) => {
            line.property("kubernetes", discover.asked());
            if let Some(KubernetesApi { url, token, root }) = &discover.cluster.api {
                let token = line.secret(true, token.reveal());
                line.property("api", url).optional("ca", root.as_ref().map(|root| root.display())).property("token", token);
            }
            line.unless(&Scheme::Http, "scheme", &discover.scheme, |scheme| scheme.as_str())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_to_the_dns() {
        let check = |text: &str, expected: &str| {
            let seen = match parse_dns(text) {
                Ok((scheme, DnsQuestion::Addresses { name, port })) => format!("{} {name} {port}", scheme.as_str()),
                Ok((scheme, DnsQuestion::Services { name })) => format!("{} services {name}", scheme.as_str()),
                Err((reason, help)) => format!("error: {reason}; {help}"),
            };
            assert_eq!(seen, expected, "for {text}");
        };
        check("api.internal:8080", "http api.internal 8080");
        check("API.internal.:8080", "http api.internal 8080");
        check("http://api.internal:8080", "http api.internal 8080");
        check("https://api.internal", "https api.internal 443");
        check("srv+_http._tcp.api.internal", "http services _http._tcp.api.internal");
        check("srv+_https._tcp.api.internal", "https services _https._tcp.api.internal");
        check("srv+_grpc._tcp.api.internal", "http services _grpc._tcp.api.internal");
        check(
            "api.internal",
            "error: the port of the servers is missing; write `dns=\"api.internal:8080\"`, or `dns=\"srv+_http._tcp.api.internal\"` for SRV \
             records, which bring it",
        );
        check(
            "http://10.0.0.1:80",
            "error: `10.0.0.1` is an IP address, and there is nothing to look up; write `server \"10.0.0.1:80\"`",
        );
        check("[::1]:80", "error: `::1` is an IP address, and there is nothing to look up; write `server \"[::1]:80\"`");
        check(
            "srv+_http._tcp.a:80",
            "error: SRV records bring the port themselves, and there is no scheme; for example `dns=\"srv+_http._tcp.api.internal\"`",
        );
        check("srv+", "error: the name of a service is missing behind `srv+`; for example `dns=\"srv+_http._tcp.api.internal\"`");
        check("ftp://a:1", "error: unknown scheme `ftp`; `http` and `https` are known; for example `dns=\"api.internal:8080\"`");
    }

    #[test]
    fn no_text_makes_it_panic() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let _ = parse_dns(text);
        });
    }
}
