//! `dns "cloudflare" token="…"` in an `acme`: who publishes the records of `dns-01`. Nobody is asked here.

use crate::diagnostics::{Diagnostic, shortened};
use crate::forms::check_url;
use crate::language::{Directive, Line};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::regular::reason;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::{Writer, duration, name_of};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tidegate_model::{AcmeDns, DnsProvider, HostPattern, Rfc2136, Secret, TsigAlgorithm, TsigKey, address};

pub(super) const DNS_EXAMPLE: &str = "dns \"cloudflare\" token=\"{env.CLOUDFLARE_TOKEN}\"";

pub static DNS: Directive = Directive {
    name: "dns",
    places: &[Place::Acme],
    arguments: &[Argument::one(
        "provider",
        Kind::Choice(&["cloudflare", "route53", "digitalocean", "hetzner", "rfc2136", "exec", "webhook"]),
        "Who holds the zone; `rfc2136` is any name server with dynamic updates, `exec` a program and `webhook` a service of yours.",
    )],
    properties: &[
        Property::once(
            "token",
            Kind::Secret("a token"),
            "For `cloudflare`, `digitalocean`, `hetzner` and `webhook`. Best from a file or the environment.",
        ),
        Property::once("access-key", Kind::Text("the identifier of an access key"), "For `route53`."),
        Property::once("secret-key", Kind::Secret("a secret access key"), "For `route53`."),
        Property::once("session-token", Kind::Secret("a session token"), "For `route53`, with keys that last for a while only."),
        Property::once(
            "zone",
            Kind::Text("a zone"),
            "For `route53`: the identifier of the hosted zone; for `rfc2136`: its name. Looked up when left out.",
        ),
        Property::once(
            "server",
            Kind::Text("an IP address, with or without a port"),
            "For `rfc2136`: the primary server; port 53 when left out.",
        ),
        Property::once("key-name", Kind::Text("the name of a key"), "For `rfc2136`: the TSIG key, as the server knows it."),
        Property::once("key-secret", Kind::Secret("a key in base64"), "For `rfc2136`: what `tsig-keygen` prints as `secret`."),
        Property::once(
            "key-algorithm",
            Kind::Choice(&["hmac-sha256", "hmac-sha384", "hmac-sha512"]),
            "For `rfc2136`; `hmac-sha256` when left out.",
        ),
        Property::once(
            "command",
            Kind::Path,
            "For `exec`: run as `command present NAME VALUE` and `command cleanup NAME VALUE`.",
        ),
        Property::once("url", Kind::Text("a URL"), "For `webhook`: told with POST of what to publish and to remove."),
        Property::once("api", Kind::Text("a URL"), "Instead of the provider's own address, for a gateway in front of it."),
        Property::once(
            "propagation",
            Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(3600) },
            "How long is waited until all servers of the zone have the record; `2m` when left out.",
        ),
        Property::once(
            "resolver",
            Kind::Text("an IP address, with or without a port"),
            "Who is asked for the zone of a name and its servers, instead of those of `/etc/resolv.conf`.",
        ),
    ],
    summary: "Who publishes the records of `dns-01`, which wildcards need.",
    details: "The record is `_acme-challenge.` and the name. Where that is a CNAME, the record is published at the name it leads to, so that a zone apart can be used \
              for it. Records are removed when the order is over.",
    example: "dns \"rfc2136\" server=\"10.0.0.53\" key-name=\"acme-key\" key-secret=\"MDEyMzQ1Njc4OWFiY2RlZg==\"",
    ..Directive::PLAIN
};

/// Which providers each property belongs to.
const OF_PROVIDERS: &[(&str, &[&str])] = &[
    ("token", &["cloudflare", "digitalocean", "hetzner", "webhook"]),
    ("access-key", &["route53"]),
    ("secret-key", &["route53"]),
    ("session-token", &["route53"]),
    ("zone", &["route53", "rfc2136"]),
    ("server", &["rfc2136"]),
    ("key-name", &["rfc2136"]),
    ("key-secret", &["rfc2136"]),
    ("key-algorithm", &["rfc2136"]),
    ("command", &["exec"]),
    ("url", &["webhook"]),
    ("api", &["cloudflare", "route53", "digitalocean", "hetzner"]),
];

const DNS_PORT: u16 = 53;

/// `None` when something in it was wrong.
pub(super) fn read(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<AcmeDns> {
    let kind = line.read_argument(lowering, 0).map(Read::choice)?;
    let errors_before = lowering.diagnostics.len();
    for (name, owners) in OF_PROVIDERS.iter().filter(|(_, owners)| !owners.contains(&kind)) {
        if let Some(value) = line.property(name) {
            let message = format!("`{name}=` belongs to `dns \"{}\"`, and this is `dns \"{kind}\"`", owners.join("\"`, `dns \""));
            let diagnostic = Diagnostic::error("property-of-another-kind", value.location.clone(), message);
            lowering.report(diagnostic.help("remove it"));
        }
    }
    let provider = match kind {
        "exec" => command(lowering, line),
        "webhook" => webhook(lowering, line),
        "rfc2136" => rfc2136(lowering, line).map(DnsProvider::Rfc2136),
        "route53" => route53(lowering, line),
        "cloudflare" => with_token(lowering, line).map(|(token, api)| DnsProvider::Cloudflare { token, api }),
        "digitalocean" => with_token(lowering, line).map(|(token, api)| DnsProvider::DigitalOcean { token, api }),
        _ => with_token(lowering, line).map(|(token, api)| DnsProvider::Hetzner { token, api }),
    };
    let propagation = line.duration(lowering, "propagation").unwrap_or(AcmeDns::PROPAGATION);
    let resolver = line.text(lowering, "resolver").and_then(|text| server(lowering, &text));
    let is_sound = !lowering.has_errors_since(errors_before);
    provider.filter(|_| is_sound).map(|provider| AcmeDns { provider, propagation, resolver })
}

/// A property that the provider cannot do without.
fn needed(lowering: &mut Lowering<'_>, line: &Line<'_>, name: &str, example: &str) -> Option<Text> {
    if line.property(name).is_none() {
        let provider = line.read_argument(lowering, 0).map_or("", Read::choice);
        let diagnostic = Diagnostic::error("missing-argument", line.location(), format!("`dns \"{provider}\"` needs `{name}=`"));
        return lowering.refuse(diagnostic.help(format!("for example `{name}=\"{example}\"`")));
    }
    let text = line.text(lowering, name)?;
    if text.value.trim().is_empty() {
        return lowering
            .refuse(text.error("bad-value", format!("`{name}=` is empty")).help(format!("for example `{name}=\"{example}\"`")));
    }
    Some(text)
}

/// As it comes from a file, with the line end that editors put there. It becomes part of a header.
fn secret(lowering: &mut Lowering<'_>, text: &Text, name: &str) -> Option<Secret> {
    let value = text.value.trim_end_matches(['\r', '\n']);
    if value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(Secret::new(value));
    }
    lowering.refuse(
        text.error("bad-token", format!("`{name}=` has characters that no token has"))
            .help("it is one word of visible ASCII characters"),
    )
}

fn with_token(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<(Secret, Option<String>)> {
    let api = api(lowering, line);
    let text = needed(lowering, line, "token", "{env.DNS_TOKEN}")?;
    Some((secret(lowering, &text, "token")?, api))
}

fn api(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let text = line.text(lowering, "api")?;
    text.parsed(lowering, "bad-url", check_url(&text.value, "api=", &["https", "http"]))
}

fn command(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<DnsProvider> {
    let text = needed(lowering, line, "command", "/usr/local/bin/publish-record")?;
    lowering.note_look_outside();
    let command = lowering.path(&text.value, &text.location);
    let problem = match std::fs::metadata(&command) {
        Err(error) => reason(&error),
        Ok(metadata) if !metadata.is_file() => "it is no file".into(),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => "it may not be executed".into(),
        Ok(_) => return Some(DnsProvider::Exec { command }),
    };
    let message = format!("`{}` cannot be run: {problem}", text.shown());
    let diagnostic = text.error("cannot-run", message);
    let diagnostic = if text.secret { diagnostic } else { diagnostic.note(format!("the full path is `{}`", command.display())) };
    lowering.report(diagnostic.help("give the path of a program; it is not looked for in `PATH`"));
    None
}

fn webhook(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<DnsProvider> {
    let token = match line.text(lowering, "token") {
        Some(text) => Some(secret(lowering, &text, "token")?),
        None => None,
    };
    let text = needed(lowering, line, "url", "https://dns.internal/acme")?;
    let url = text.parsed(lowering, "bad-url", check_url(&text.value, "url=", &["https", "http"]))?;
    Some(DnsProvider::Webhook { url, token })
}

fn route53(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<DnsProvider> {
    let api = api(lowering, line);
    let access_key = needed(lowering, line, "access-key", "{env.AWS_ACCESS_KEY_ID}");
    let secret_key = needed(lowering, line, "secret-key", "{env.AWS_SECRET_ACCESS_KEY}");
    let session_token = match line.text(lowering, "session-token") {
        Some(text) => Some(secret(lowering, &text, "session-token")?),
        None => None,
    };
    let zone = line.text(lowering, "zone").map(|text| text.value);
    let secret_key = secret(lowering, &secret_key?, "secret-key")?;
    Some(DnsProvider::Route53 { access_key: access_key?.value, secret_key, session_token, zone, api })
}

fn rfc2136(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Rfc2136> {
    let key = tsig_key(lowering, line);
    let zone = line.text(lowering, "zone").map(|text| zone(lowering, &text));
    let at = needed(lowering, line, "server", "10.0.0.53")?;
    let server = server(lowering, &at)?;
    let zone = match zone {
        None => None,
        Some(zone) => Some(zone?),
    };
    Some(Rfc2136 { server, key, zone })
}

fn tsig_key(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<TsigKey> {
    let algorithm = line.read(lowering, "key-algorithm").map(Read::choice);
    let algorithm = algorithm.and_then(|name| TsigAlgorithm::NAMES.iter().find(|(known, _)| *known == name));
    let names = ["key-name", "key-secret", "key-algorithm"];
    if names.iter().all(|name| line.property(name).is_none()) {
        return None;
    }
    let name = needed(lowering, line, "key-name", "acme-key");
    let secret_text = needed(lowering, line, "key-secret", "{file./run/secrets/tsig}");
    let (name, secret_text) = (name?, secret_text?);
    let value = secret_text.value.trim_end_matches(['\r', '\n']);
    let is_base64 =
        value.len() >= 16 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    if !is_base64 {
        return lowering.refuse(
            secret_text.error("bad-value", "`key-secret=` is not base64").help("write what `tsig-keygen` prints as `secret`"),
        );
    }
    Some(TsigKey {
        name: name.value,
        algorithm: algorithm.map_or(TsigAlgorithm::HmacSha256, |(_, algorithm)| *algorithm),
        secret: Secret::new(value),
    })
}

fn zone(lowering: &mut Lowering<'_>, text: &Text) -> Option<String> {
    let name = text.value.trim_end_matches('.');
    if let Ok(HostPattern::Exact(name)) = address::parse_host_pattern(name) {
        return Some(name);
    }
    let message = format!("`{}` is not the name of a zone", shortened(&text.value));
    lowering.refuse(text.error("bad-value", message).help("for example `zone=\"example.com\"`"))
}

fn server(lowering: &mut Lowering<'_>, text: &Text) -> Option<SocketAddr> {
    let address =
        text.value.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS_PORT)).or_else(|_| text.value.parse::<SocketAddr>());
    match address {
        Ok(address) if address.port() != 0 => Some(address),
        Ok(_) | Err(_) => {
            let message = format!("`{}` is not an IP address, with or without a port", shortened(&text.value));
            lowering.report(
                text.error("bad-address", message)
                    .help("for example `10.0.0.53` or `10.0.0.53:5353`; names are not looked up here"),
            );
            None
        }
    }
}

pub(super) fn write(line: &mut Writer, AcmeDns { provider, propagation, resolver }: &AcmeDns) {
    line.name("dns").argument(provider.kind());
    match provider {
        DnsProvider::Exec { command } => {
            line.property("command", command.display());
        }
        DnsProvider::Webhook { url, token } => {
            line.property("url", url).secret_property("token", token.as_ref());
        }
        DnsProvider::Rfc2136(Rfc2136 { server, key, zone }) => {
            line.property("server", server).optional("zone", zone.as_ref());
            if let Some(TsigKey { name, algorithm, secret }) = key {
                line.property("key-name", name).property("key-algorithm", name_of(TsigAlgorithm::NAMES, algorithm));
                line.secret_property("key-secret", Some(secret));
            }
        }
        DnsProvider::Cloudflare { token, api }
        | DnsProvider::DigitalOcean { token, api }
        | DnsProvider::Hetzner { token, api } => {
            line.secret_property("token", Some(token)).optional("api", api.as_ref());
        }
        DnsProvider::Route53 { access_key, secret_key, session_token, zone, api } => {
            line.property("access-key", access_key).secret_property("secret-key", Some(secret_key));
            line.secret_property("session-token", session_token.as_ref());
            line.optional("zone", zone.as_ref()).optional("api", api.as_ref());
        }
    }
    line.property("propagation", duration(propagation)).optional("resolver", *resolver);
}
