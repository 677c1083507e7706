//! TLS of a filter chain of Envoy, as lines of a site.

use crate::accounts::Origin;
use crate::tree::Tree;
use tidegate_kdl::quoted;

const FIELDS: &str = "`X-Forwarded-Client-Cert` has the fields that are usual: `client-auth … forward=\"xfcc\"`";
const REPLACED: &str = "what a client sends in `X-Forwarded-Client-Cert` is taken out, and the field is written anew";

/// The context of a chain, of the API of version 3 or 2.
fn context(chain: &Tree) -> &Tree {
    let socket = chain.at(&["transport_socket", "typed_config"]);
    if socket.is_nothing() { chain.get("tls_context") } else { socket }
}

/// The lines of a chain; `manager` is what speaks HTTP there, and `secrets` are what chains may name.
pub fn lines(chain: &Tree, manager: &Tree, secrets: &[&Tree], origin: &mut Origin) -> Vec<String> {
    let context = context(chain);
    let common = context.get("common_tls_context");
    origin.carry_all(chain.at(&["transport_socket", "name"]).statements());
    let mut files = Vec::new();
    let mut certificates: Vec<&Tree> = common.get("tls_certificates").items().iter().collect();
    for named in common.get("tls_certificate_sds_secret_configs").items() {
        let found = secret(named, secrets).map(|secret| (secret, secret.get("tls_certificate")));
        if let Some((secret, certificate)) = found.filter(|(_, certificate)| !certificate.is_nothing()) {
            certificates.push(certificate);
            origin.carry_all(named.get("name").statements());
            origin.carry_all(secret.get("name").statements());
        }
    }
    for certificate in certificates {
        let (chain, key) = (certificate.at(&["certificate_chain", "filename"]), certificate.at(&["private_key", "filename"]));
        if let (Some(cert), Some(own)) = (chain.text(), key.text()) {
            files.push(format!("tls cert={} key={}", quoted(cert), quoted(own)));
            origin.carry_all(certificate.statements());
        }
    }
    let mut inside = inside(context, common, secrets, origin);
    passed_on(manager, &mut inside, origin);
    let block = if inside.is_empty() { String::new() } else { format!(" {{ {}; }}", inside.join("; ")) };
    match files.first_mut() {
        Some(first) => first.push_str(&block),
        None if !inside.is_empty() => files.push(format!("tls{block}")),
        None => {}
    }
    files
}

/// What a chain names, where that is a secret of this file.
fn secret<'t>(named: &Tree, secrets: &[&'t Tree]) -> Option<&'t Tree> {
    let name = named.get("name").text().filter(|_| !named.has("sds_config"))?;
    secrets.iter().copied().find(|secret| secret.get("name").text() == Some(name))
}

/// What servers are told of the certificate of a client.
fn passed_on(manager: &Tree, inside: &mut [String], origin: &mut Origin) {
    let details = manager.get("forward_client_cert_details");
    let own = manager.get("set_current_client_cert_details");
    match (details.text(), inside.iter_mut().find(|line| line.starts_with("client-auth "))) {
        (Some("SANITIZE"), _) => origin.carry_all(details.statements()),
        (Some("SANITIZE_SET"), Some(line)) => {
            line.push_str(" forward=\"xfcc\"");
            origin.carry_all(details.statements());
            own.statements().into_iter().for_each(|at| origin.differ(at, FIELDS));
        }
        (Some("APPEND_FORWARD"), Some(line)) => {
            line.push_str(" forward=\"xfcc\"");
            details.statements().into_iter().for_each(|at| origin.differ(at, REPLACED));
            own.statements().into_iter().for_each(|at| origin.differ(at, FIELDS));
        }
        (Some(_) | None, _) => {}
    }
}

fn inside(context: &Tree, common: &Tree, secrets: &[&Tree], origin: &mut Origin) -> Vec<String> {
    let mut inside = Vec::new();
    let oldest = common.at(&["tls_params", "tls_minimum_protocol_version"]);
    if oldest.text() == Some("TLSv1_3") {
        inside.push("min \"1.3\"".to_owned());
        origin.carry_all(oldest.statements());
    }
    let protocols = common.get("alpn_protocols");
    let known: Vec<String> =
        protocols.texts().into_iter().filter(|protocol| matches!(protocol.as_str(), "h2" | "http/1.1")).collect();
    if known.len() == 1 {
        inside.push(format!("alpn {}", quoted(&known[0])));
    }
    origin.carry_all(protocols.statements());
    let named = common.get("validation_context_sds_secret_config");
    let of_secret = secret(named, secrets);
    let validation = of_secret.map_or(common.get("validation_context"), |secret| secret.get("validation_context"));
    let ca = validation.at(&["trusted_ca", "filename"]);
    let required = context.get("require_client_certificate");
    if let Some(file) = ca.text() {
        // Names that are compared keep more out than the authority does.
        let has_more = validation.entries().iter().any(|(name, _)| !matches!(super::snake(name).as_str(), "trusted_ca" | "crl"));
        if !has_more {
            let crl = validation.at(&["crl", "filename"]);
            let list = crl.text().map(|file| format!(" crl={}", quoted(file))).unwrap_or_default();
            let mode = if required.is_true() { "require" } else { "request" };
            inside.push(format!("client-auth ca={}{list} mode={}", quoted(file), quoted(mode)));
            origin.carry_all(validation.statements());
            origin.carry_all(required.statements());
            if let Some(secret) = of_secret {
                origin.carry_all(named.get("name").statements());
                origin.carry_all(secret.get("name").statements());
            }
        }
    }
    inside
}
