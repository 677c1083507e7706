//! `listen ":8443"`: where connections for a site come in, apart from what clients ask for. What several sites say of
//! one port is held against each other in `checks`.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::forms::parse_listen_address;
use crate::language::{Directive, Line};
use crate::lowering::Lowering;
use crate::spans::WrittenAddress;
use crate::table::{Argument, Kind, Place};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use tidegate_model::{HostPattern, ListenAddress, ListenPlace, Scheme, SiteAddress, SocketName};

pub static LISTEN: Directive = Directive {
    name: "listen",
    places: &[Place::Site],
    arguments: &[Argument::one_or_more(
        "places",
        Kind::Text("an address to listen on, as in `\":8443\"`"),
        "`[scheme://][address]:port`. Without an address it is all addresses of the machine; `http://unix:PATH` is a socket of this machine.",
    )],
    summary: "Where connections for a site come in, apart from what clients ask for.",
    details: "Behind a load balancer, a service of a cluster or a firewall that maps ports, clients ask for `https://shop.example.com`, and their connections arrive at another port. \
              The address of the site stays what they ask for: its host, and its port as the **public port**, which redirects lead to, `X-Forwarded-Port` tells upstreams and `explain` asks about. \
              `listen` says where the sockets are.\n\n\
              A place with a scheme is for the addresses of that scheme, and `http://` for the redirect of an address without scheme and port, which is at port 80 otherwise. A place without a scheme is HTTPS, or plain HTTP \
              in a site that has nothing else. Addresses of a scheme that no place has listen at their own port. Several sites may share a place; those of one port have one public port.\n\n\
              A site of an address of the machine that names itself there is alone: `site \"http://192.0.2.1:8080\" { listen \"192.0.2.1:8080\"; }` answers all hosts \
              there, also those that sites of all addresses name, which do not answer there.",
    default: "the port of each address, on all addresses of the machine",
    example: "listen \":8443\" \"http://:8080\"",
    meant: "where a site listens is in its address, as in `site \"http://:8080\" { proxy \"127.0.0.1:9000\" }`; in its block `listen \":8443\"` says it apart from what clients ask for",
    ..Directive::PLAIN
};

/// What stands behind a port there.
const OPTIONS_OF_NGINX: [&str; 7] = ["ssl", "http2", "quic", "default_server", "reuseport", "proxy_protocol", "ipv6only=on"];

/// A place as it stands there.
#[derive(Debug)]
pub struct WrittenPlace {
    scheme: Option<Scheme>,
    address: ListenAddress,
    at: Location,
}

pub fn read(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<WrittenPlace> {
    const AS_IN: &str = "for example `listen \":8443\"`, or `listen \"https://192.0.2.1:8443\" \"http://:8080\"`; the port that clients ask for stands in the address of the `site`";
    let is_of_nginx = |word: &String| word.parse::<u16>().is_ok() || OPTIONS_OF_NGINX.contains(&word.as_str());
    if line.written_arguments().iter().any(is_of_nginx) {
        let meant = "`site \"example.com\"` is HTTPS on port 443 with a redirect from port 80, `site \"http://:8080\"` plain HTTP; `listen \":8443\"` is for ports that something in front maps";
        let _: Option<()> = line.refuse_whole(lowering, "where a site listens is in its address", meant.to_owned());
        return Vec::new();
    }
    let mut places: Vec<WrittenPlace> = Vec::new();
    for text in line.read_arguments(lowering) {
        let text = text.text();
        match parse(&text.value) {
            Ok((scheme, address)) => match places.iter().find(|known| (known.scheme, known.address) == (scheme, address)) {
                Some(known) => {
                    let message = format!("`{}` is listed twice", shortened(text.shown()));
                    let diagnostic = text.error("duplicate-value", message).label(known.at.clone(), "the first one");
                    lowering.report(diagnostic.help("remove one of them"));
                }
                None => places.push(WrittenPlace { scheme, address, at: text.location }),
            },
            Err(reason) => lowering.report(text.error("bad-address", reason).help(AS_IN)),
        }
    }
    places
}

fn parse(text: &str) -> Result<(Option<Scheme>, ListenAddress), String> {
    if text.starts_with("https://unix:") {
        return Err("what comes by a socket of this machine is plain HTTP".into());
    }
    if let Some(path) = text.strip_prefix("unix:").or(text.strip_prefix("http://unix:")) {
        return Ok((Some(Scheme::Http), ListenAddress::Unix(SocketName::parse(path)?)));
    }
    let (scheme, rest) = match text.split_once("://") {
        None => (None, text),
        Some(("http", rest)) => (Some(Scheme::Http), rest),
        Some(("https", rest)) => (Some(Scheme::Https), rest),
        Some((other, _)) => return Err(format!("unknown scheme `{}`; `http` and `https` are known", shortened(other))),
    };
    let (ip, port) = parse_listen_address(rest)?;
    Ok((scheme, SocketAddr::new(ip.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), port).into()))
}

/// Has the addresses of a site, whose schemes are settled, listen there.
pub fn apply(lowering: &mut Lowering<'_>, written: Vec<WrittenPlace>, addresses: &mut [WrittenAddress]) {
    let Some(first) = written.first() else { return };
    for WrittenAddress { address, at, .. } in addresses.iter() {
        let help = match &address.host {
            HostPattern::Any | HostPattern::Exact(_) | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_) => continue,
            // Such a site listens there anyhow; said so, no site of all addresses answers there.
            HostPattern::Ip(ip) if is_alone(address, SocketAddr::new(*ip, address.port), &written, addresses) => continue,
            HostPattern::Ip(ip) => format!(
                "for any host on that address alone, write `site \"{}://:{}\" {{ listen \"{}\"; }}`",
                address.scheme.as_str(),
                address.port,
                SocketAddr::new(*ip, address.port)
            ),
            HostPattern::Socket(name) => {
                format!("with a host, write `site \"http://example.com\" {{ listen \"http://{name}\"; }}`")
            }
        };
        let message = format!("`{}` says itself where it listens", lowering.shown(&address.to_string(), at));
        let diagnostic = Diagnostic::error("conflicting-listen", first.at.clone(), message);
        return lowering.report(diagnostic.label(at.clone(), "the address").help(help));
    }
    let is_plain = !addresses.is_empty() && addresses.iter().all(|written| written.address.scheme == Scheme::Http);
    let usual = if is_plain { Scheme::Http } else { Scheme::Https };
    let mut places: Vec<ListenPlace> = Vec::new();
    for WrittenPlace { scheme, address, at } in written {
        let scheme = scheme.unwrap_or(usual);
        let is_used =
            |one: &WrittenAddress| one.address.scheme == scheme || (scheme == Scheme::Http && one.address.redirect_from_http);
        if !addresses.is_empty() && !addresses.iter().any(is_used) {
            let message = format!("no address of this site is `{}://`, so nothing is served there", scheme.as_str());
            let diagnostic = Diagnostic::error("unused-listen", at, message);
            lowering.report(diagnostic.help("remove it, or add such an address to the site"));
            continue;
        }
        let place = ListenPlace { scheme, address };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    for written in addresses.iter_mut() {
        written.address.listen.clone_from(&places);
    }
}

/// Whether a site says of its own addresses of the machine that it listens there, and of no other place.
fn is_alone(address: &SiteAddress, own: SocketAddr, written: &[WrittenPlace], addresses: &[WrittenAddress]) -> bool {
    let itself = |one: &SiteAddress| match &one.host {
        HostPattern::Ip(ip) => Some(ListenAddress::from(SocketAddr::new(*ip, one.port))),
        HostPattern::Any
        | HostPattern::Exact(_)
        | HostPattern::Wildcard(_)
        | HostPattern::DeepWildcard(_)
        | HostPattern::Socket(_) => None,
    };
    let all: Vec<Option<ListenAddress>> = addresses.iter().map(|one| itself(&one.address)).collect();
    let is_of_scheme = |place: &WrittenPlace| place.scheme.is_none_or(|scheme| scheme == address.scheme);
    written.iter().any(|place| place.address == own.into())
        && written.iter().all(|place| is_of_scheme(place) && all.contains(&Some(place.address)))
        && all.iter().all(Option::is_some)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn places() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let seen = parse(text).map(|(scheme, address)| {
                format!("{}{}", scheme.map_or_else(String::new, |scheme| format!("{} ", scheme.as_str())), address.shown())
            });
            assert_eq!(seen.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check(":8443", Ok(":8443"));
        check("https://:8443", Ok("https :8443"));
        check("http://192.0.2.1:80", Ok("http 192.0.2.1:80"));
        check("[2001:db8::1]:443", Ok("[2001:db8::1]:443"));
        check("unix:/run/x.sock", Ok("http unix:/run/x.sock"));
        check("http://unix:@x", Ok("http unix:@x"));
        check("https://unix:/run/x.sock", Err("what comes by a socket of this machine is plain HTTP"));
        check("ftp://:21", Err("unknown scheme `ftp`; `http` and `https` are known"));
        check("443", Err("`443` has no `:` in front of the port"));
        check(":0", Err("`0` is not a port"));
        check("example.com:443", Err("`example.com:443` is not an address to listen on"));
    }
}
