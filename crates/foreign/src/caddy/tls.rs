//! Certificates and handshakes of a Caddyfile: the `tls` of sites, and what the global options say of CAs.

use super::directives::Found;
use super::placeholders::fixed;
use super::words;
use crate::accounts::Origin;
use crate::braces::{Statement, named, value};
use tidegate_kdl::quoted;

const EMAIL: &str = "CAs write to one address for all sites here: `acme email=\"…\"` at the top level";
const PUBLIC_KEYS: [&str; 4] = ["p256", "p384", "rsa2048", "rsa4096"];

/// What is said of the CAs that are asked.
#[derive(Debug, Default)]
pub struct Authorities {
    pub properties: Vec<String>,
    pub lines: Vec<String>,
    pub origin: Origin,
}

impl Authorities {
    pub fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.lines.is_empty()
    }

    /// `acme email="…" { dns "…"; }`
    pub fn line(&self) -> String {
        let mut line = "acme".to_owned();
        self.properties.iter().for_each(|property| line.push_str(&format!(" {property}")));
        if !self.lines.is_empty() {
            line.push_str(&format!(" {{ {}; }}", self.lines.join("; ")));
        }
        line
    }

    fn property(&mut self, name: &str, value: &str, at: usize) {
        if self.properties.iter().any(|known| known.starts_with(&format!("{name}="))) {
            return;
        }
        self.properties.push(format!("{name}={}", quoted(value)));
        self.origin.carry(at);
    }

    /// A line of the global options, of an `issuer` or of a `tls`, by Caddy's words for them; whether it was one.
    pub fn read(&mut self, line: &Statement) -> bool {
        let at = line.start();
        let argument = line.argument();
        match line.name() {
            "email" => fixed(argument).map(|email| self.property("email", &email, at)).is_some(),
            "acme_ca" | "ca" | "dir" => fixed(argument).map(|ca| self.property("ca", &known_authority(&ca), at)).is_some(),
            "key_type" if PUBLIC_KEYS.contains(&argument) => {
                let ours = match argument {
                    "p256" => "ecdsa-p256",
                    "p384" => "ecdsa-p384",
                    "rsa2048" => "rsa-2048",
                    _ => "rsa-4096",
                };
                self.property("key-type", ours, at);
                true
            }
            "profile" => {
                self.property("profile", argument, at);
                true
            }
            "acme_dns" | "dns" => match provider(line) {
                Some(told) => {
                    self.lines.push(told);
                    self.origin.carry_all(words::places([line]));
                    true
                }
                None => false,
            },
            "acme_eab" | "eab" => {
                let [id, key] = match line.arguments() {
                    [id, key] => [Some(id.as_str()), Some(key.as_str())],
                    _ => [value(line.inside(), "key_id"), value(line.inside(), "mac_key")],
                };
                let both = id.and_then(fixed).zip(key.and_then(fixed));
                let ca = self.properties.iter().position(|property| property.starts_with("ca="));
                let Some((id, key)) = both else { return false };
                let ca = ca.map_or_else(|| quoted("zerossl"), |index| self.properties.remove(index)["ca=".len()..].to_owned());
                self.lines.push(format!("ca {ca} eab-key-id={} eab-hmac={}", quoted(&id), quoted(&key)));
                self.origin.carry_all(words::places([line]));
                true
            }
            _ => false,
        }
    }
}

/// The short names of directories that are known.
fn known_authority(url: &str) -> String {
    let known = match url {
        "https://acme-v02.api.letsencrypt.org/directory" => "letsencrypt",
        "https://acme-staging-v02.api.letsencrypt.org/directory" => "letsencrypt-staging",
        "https://acme.zerossl.com/v2/DV90" => "zerossl",
        "https://dv.acme-v02.api.pki.goog/directory" => "google",
        url => url,
    };
    known.to_owned()
}

/// Who publishes records, where it is one of those that are here.
fn provider(line: &Statement) -> Option<String> {
    let [name, rest @ ..] = line.arguments() else { return None };
    let inside = line.inside();
    let of = |names: &[&str]| names.iter().find_map(|name| value(inside, name)).and_then(fixed);
    let token = rest.first().and_then(|token| fixed(token));
    let pairs: Vec<(&str, Option<String>)> = match name.as_str() {
        "cloudflare" | "digitalocean" | "hetzner" => {
            vec![("token", Some(token.or_else(|| of(&["api_token", "zone_token", "auth_token", "token"]))?))]
        }
        "route53" => vec![
            ("access-key", of(&["access_key_id"])),
            ("secret-key", of(&["secret_access_key"])),
            ("session-token", of(&["session_token"])),
            ("zone", of(&["hosted_zone_id"])),
        ],
        "rfc2136" => vec![
            ("server", Some(of(&["server"])?)),
            ("key-name", Some(of(&["key_name"])?)),
            ("key-secret", Some(of(&["key"])?)),
            ("key-algorithm", of(&["key_alg"]).filter(|algorithm| algorithm != "hmac-sha256")),
        ],
        _ => return None,
    };
    let said: Vec<String> =
        pairs.iter().filter_map(|(name, value)| Some(format!("{name}={}", quoted(value.as_ref()?)))).collect();
    Some(format!("dns {} {}", quoted(name), said.join(" ")).trim_end().to_owned())
}

/// The `tls` lines of a site, with whom Caddy asks before it orders a name that nobody wrote.
pub fn of_site(tls: &Statement, ask: Option<&Statement>, steps: &mut Vec<String>, origin: &mut Origin) {
    let mut found = Found::of(tls);
    let mut lines: Vec<String> = Vec::new();
    let mut authorities = Authorities::default();
    let at = tls.start();
    let head = match tls.arguments() {
        [one] if one == "internal" => {
            found.origin.carry(at);
            "tls \"internal\"".to_owned()
        }
        [one] if one.contains('@') || one.starts_with('{') => {
            if let Some(email) = fixed(one) {
                authorities.property("email", &email, at);
                found.origin.differ(at, EMAIL);
            }
            "tls".to_owned()
        }
        [cert, key] => match fixed(cert).zip(fixed(key)) {
            Some((cert, key)) => {
                found.origin.carry(at);
                format!("tls cert={} key={}", quoted(&cert), quoted(&key))
            }
            None => "tls".to_owned(),
        },
        [] => {
            found.origin.carry(at);
            "tls".to_owned()
        }
        _ => "tls".to_owned(),
    };
    let mut is_internal = head.ends_with("\"internal\"");
    for line in tls.inside() {
        is_internal |= of_line(line, ask, &mut lines, &mut authorities, &mut found.origin);
    }
    let head = if is_internal { "tls \"internal\"".to_owned() } else { head };
    found.origin.add(&authorities.origin);
    if !authorities.is_empty() && !is_internal && !head.contains("cert=") {
        lines.push(authorities.line());
    }
    origin.add(&found.origin);
    if head != "tls" || !lines.is_empty() {
        let block = if lines.is_empty() { String::new() } else { format!(" {{ {}; }}", lines.join("; ")) };
        steps.push(format!("{head}{block}"));
    }
}

/// Certificates of the internal CA, unless the site says which it has.
pub fn internal(steps: &mut Vec<String>) {
    if !steps.iter().any(|step| step == "tls" || step.starts_with("tls ")) {
        steps.insert(0, "tls \"internal\"".to_owned());
    }
}

/// Offers HTTP/1.1 alone, unless the site says what it offers.
pub fn offer_http1(steps: &mut Vec<String>) {
    const OFFER: &str = "alpn \"http/1.1\"";
    let Some(own) = steps.iter_mut().find(|step| *step == "tls" || step.starts_with("tls ")) else {
        return steps.insert(0, format!("tls {{ {OFFER}; }}"));
    };
    if own.contains("alpn ") {
        return;
    }
    match own.strip_suffix(" }") {
        Some(open) => *own = format!("{open} {OFFER}; }}"),
        None => own.push_str(&format!(" {{ {OFFER}; }}")),
    }
}

/// Whether certificates are those of the internal CA.
fn of_line(
    line: &Statement,
    ask: Option<&Statement>,
    lines: &mut Vec<String>,
    authorities: &mut Authorities,
    origin: &mut Origin,
) -> bool {
    let at = line.start();
    match (line.name(), line.arguments()) {
        ("protocols", versions) => {
            if versions.first().is_some_and(|oldest| oldest == "tls1.3") {
                lines.push("min \"1.3\"".to_owned());
            }
            origin.carry(at);
        }
        ("ciphers", names) => {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            lines.push(format!("ciphers {}", names.join(" ")));
            origin.carry(at);
        }
        ("alpn", names) if names.iter().all(|name| matches!(name.as_str(), "h2" | "http/1.1")) => {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            lines.push(format!("alpn {}", names.join(" ")));
            origin.carry(at);
        }
        ("client_auth", _) => client_auth(line, lines, origin),
        ("on_demand", _) => {
            if let Some((ask, url)) = ask.and_then(|ask| Some((ask, fixed(ask.argument())?))) {
                lines.push(format!("on-demand ask={}", quoted(&url)));
                origin.carry(at);
                origin.carry(ask.start());
            }
        }
        ("issuer", [kind, ..]) => {
            match kind.as_str() {
                "internal" => {
                    origin.carry_all(words::places([line]));
                    return true;
                }
                "zerossl" => authorities.property("ca", "zerossl", at),
                _ => {
                    origin.carry(at);
                    for inner in line.inside() {
                        authorities.read(inner);
                    }
                }
            }
            return false;
        }
        ("load", _) => {}
        _ => {
            authorities.read(line);
        }
    }
    false
}

fn client_auth(line: &Statement, lines: &mut Vec<String>, origin: &mut Origin) {
    let inside = line.inside();
    let mode = match value(inside, "mode") {
        None | Some("require_and_verify") => "require",
        Some("verify_if_given") => "request",
        Some(_) => return,
    };
    let mut files: Vec<String> = Vec::new();
    for one in inside {
        match (one.name(), one.arguments()) {
            ("trusted_ca_cert_file", [file]) => files.extend(fixed(file)),
            ("trust_pool", [kind, more @ ..]) if kind == "file" => {
                let inner = named(one.inside(), "pem_file").flat_map(Statement::arguments);
                files.extend(more.iter().chain(inner).filter_map(|file| fixed(file)));
            }
            ("mode", _) => {}
            // Others that are trusted, and that no line of ours has.
            _ => return,
        }
    }
    if files.is_empty() {
        return;
    }
    let files: Vec<String> = files.iter().map(|file| format!("ca={}", quoted(file))).collect();
    lines.push(format!("client-auth {} mode=\"{mode}\"", files.join(" ")));
    origin.carry_all(words::places([line]));
}
