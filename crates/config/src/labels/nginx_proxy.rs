//! Containers as nginx-proxy and its companion for certificates know them: `VIRTUAL_HOST`, `VIRTUAL_PORT`,
//! `VIRTUAL_PATH`, `LETSENCRYPT_HOST` and kin, in the environment and not in labels.

use super::native::complete;
use super::offer::{Offer, OfferDraft, text_of};
use super::tree::{Fill, LabelText, line, quote_around, text};
use crate::diagnostics::{Diagnostic, Sources, shortened};
use crate::syntax::{Node, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{ContainerGroup, LabelDialect};

/// What needs no word here, and why.
const SAME: &[&str] = &[
    // The account is that of `acme` in the file.
    "LETSENCRYPT_EMAIL",
    "LETSENCRYPT_KEYSIZE",
    "LETSENCRYPT_SINGLE_DOMAIN_CERTS",
    "LETSENCRYPT_RESTART_CONTAINER",
    "LETSENCRYPT_MIN_VALIDITY",
];
const READ: &[&str] = &[
    "VIRTUAL_HOST",
    "VIRTUAL_PORT",
    "VIRTUAL_PROTO",
    "VIRTUAL_PATH",
    "VIRTUAL_DEST",
    "LETSENCRYPT_HOST",
    "HTTPS_METHOD",
    "NETWORK_ACCESS",
];
/// As the file `network_internal.conf` of nginx-proxy has them.
const INTERNAL: &[&str] = &["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];

pub fn offers(group: &Arc<ContainerGroup>, sources: &mut Sources, faults: &mut Vec<Diagnostic>) -> Vec<Offer> {
    let container = &*group.members[0];
    let mut said: BTreeMap<&str, LabelText> = BTreeMap::new();
    for (name, value) in container.variables.iter().filter(|(name, _)| LabelDialect::NginxProxy.owns(name)) {
        said.insert(name, LabelText::new(sources, &container.name, &format!("variable {}", shortened(name)), value));
    }
    let Some(hosts) = said.get("VIRTUAL_HOST") else {
        return Vec::new();
    };
    for (name, value) in said.iter().filter(|(name, _)| !READ.contains(name) && !SAME.contains(name)) {
        let message = format!("`{name}` is not read");
        faults.push(Diagnostic::error("bad-variable", value.whole(), message).help(remedy(name)));
    }
    for value in said.values() {
        if let Some(quote) = quote_around(&value.text) {
            let message = format!("the {quote} is part of the value");
            let help =
                "in a list of YAML quotes belong around the whole line, as in `- \"VIRTUAL_HOST=shop.example.com\"`, or nowhere";
            faults.push(Diagnostic::error("bad-variable", value.whole(), message).help(help));
        }
    }
    let mut draft = OfferDraft::new(group, "nginx-proxy");
    draft.port = match said.get("VIRTUAL_PORT") {
        Some(port) => port.text.trim().parse().ok().filter(|port| *port != 0).or_else(|| {
            let message = format!("`{}` is no port", shortened(port.text.trim()));
            faults.push(Diagnostic::error("bad-variable", port.whole(), message).help("write 1 to 65535"));
            None
        }),
        // Of several, nginx-proxy asks the one of HTTP.
        None => (container.ports.len() != 1).then_some(80),
    };
    if let Some(protocol) = said.get("VIRTUAL_PROTO") {
        match protocol.text.trim() {
            "http" => {}
            "https" => draft.is_tls = true,
            other => {
                let message = format!("`{}` is not spoken with containers here", shortened(other));
                let help = "write `http` or `https`; what else there is stands in the file, as `fastcgi` does";
                faults.push(Diagnostic::error("bad-variable", protocol.whole(), message).help(help));
            }
        }
    }
    let addresses = addresses(hosts, said.get("LETSENCRYPT_HOST"), said.get("HTTPS_METHOD"), faults);
    let (patterns, mut content) = path(said.get("VIRTUAL_PATH"), said.get("VIRTUAL_DEST"), said.get("NETWORK_ACCESS"), faults);
    complete(&mut content, &hosts.whole());
    draft.add(addresses, hosts.whole(), patterns, content, faults);
    // What is no path here may be any.
    if said.get("VIRTUAL_PATH").is_some_and(|path| !path.text.trim().starts_with('/')) {
        draft.offers = draft.offers.into_iter().map(Offer::blunt).collect();
    }
    draft.offers
}

fn remedy(name: &str) -> &'static str {
    match name {
        "CERT_NAME" => "certificates are named in the file: a `tls cert=` at the top level serves all hosts that it covers",
        "VIRTUAL_HOST_MULTIPORTS" => "use `labels=\"tidegate\"` with `tidegate.NAME.site` and `tidegate.NAME.port` for each",
        "VIRTUAL_ROOT" => "scripts stand in the file, with `fastcgi` and `root=`",
        "LETSENCRYPT_TEST" | "LETSENCRYPT_CA_URI" => "which authority is asked stands in `acme` of the file",
        _ => "remove it, or say the same with labels of Tidegate",
    }
}

/// HTTPS for hosts that the companion would get a certificate for, and plain HTTP for all others.
fn addresses(
    hosts: &LabelText,
    certified: Option<&LabelText>,
    method: Option<&LabelText>,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Value> {
    let certified = certified.map(|label| label.parts(&[','])).unwrap_or_default();
    let method = match method.map(|label| (label, label.text.trim())) {
        None => "redirect",
        Some((_, known @ ("redirect" | "noredirect" | "nohttp" | "nohttps"))) => known,
        Some((label, other)) => {
            let message = format!("`{}` is no way of HTTPS", shortened(other));
            faults.push(
                Diagnostic::error("bad-variable", label.whole(), message)
                    .help("write `redirect`, `noredirect`, `nohttp` or `nohttps`"),
            );
            "redirect"
        }
    };
    let mut addresses = Vec::new();
    for host in hosts.parts(&[',']) {
        let name = text_of(&host).unwrap_or_default().to_owned();
        if name.starts_with('~') || name.ends_with(".*") {
            let message = format!("`{}` is a pattern, and hosts are names here", shortened(&name));
            faults.push(
                Diagnostic::error("bad-address", host.location.clone(), message).help("write the names, or `*.example.com`"),
            );
            continue;
        }
        let is_certified = certified.iter().any(|known| text_of(known).is_some_and(|known| known.eq_ignore_ascii_case(&name)));
        let forms: &[&str] = match (is_certified, method) {
            (false, _) | (true, "nohttps") => &["http://"],
            (true, "nohttp") => &["https://"],
            (true, "noredirect") => &["https://", "http://"],
            (true, _) => &[""],
        };
        addresses.extend(forms.iter().map(|scheme| text(format!("{scheme}{name}"), &host.location)));
    }
    addresses
}

/// The pattern of the route, and what it does with a request.
fn path(
    path: Option<&LabelText>,
    to: Option<&LabelText>,
    access: Option<&LabelText>,
    faults: &mut Vec<Diagnostic>,
) -> (Option<Vec<Value>>, Vec<Node>) {
    let mut content = Vec::new();
    if let Some(access) = access {
        match access.text.trim() {
            "internal" => {
                let at = access.whole();
                content.push(INTERNAL.iter().fold(line("allow", &at), |line, network| line.argument(text(*network, &at))));
            }
            "external" => {}
            other => {
                let message = format!("`{}` is no access", shortened(other));
                faults.push(Diagnostic::error("bad-variable", access.whole(), message).help("write `internal` or `external`"));
            }
        }
    }
    let stem = path.map(|path| path.text.trim().trim_end_matches('/').to_owned()).filter(|stem| !stem.is_empty());
    let Some((label, stem)) = path.zip(stem) else { return (None, content) };
    let at = label.whole();
    if !stem.starts_with('/') {
        let message = format!("`{}` is no path that begins with `/`", shortened(&stem));
        faults.push(Diagnostic::error("bad-variable", at.clone(), message).help("for example `/api/`"));
    }
    if let Some(to) = to {
        content.push(line("strip-prefix", &at).argument(text(stem.as_str(), &at)));
        let to_stem = to.text.trim().trim_end_matches('/');
        if !to_stem.is_empty() {
            content.push(line("add-prefix", &at).argument(text(to_stem, &to.whole())));
        }
    }
    (Some(vec![text(format!("{stem}/*"), &at)]), content)
}
