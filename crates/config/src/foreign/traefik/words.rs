//! Every statement of a configuration of Traefik, and how much it is where no line of ours says it.

use crate::foreign::accounts::{FileStatement, StatementKind, Weight, WordTable};
use crate::foreign::tree::Tree;
use crate::language::joined_alike;

const WORDS: WordTable = WordTable {
    protections: &[
        "basicAuth",
        "digestAuth",
        "forwardAuth",
        "ipAllowList",
        "ipWhiteList",
        "rateLimit",
        "inFlightReq",
        "inFlightConn",
        "clientAuth",
        "plugin",
        "jwt",
    ],
    same: &[
        "enable",
        "network",
        "swarm",
        "certResolver",
        "redirections",
        "redirectScheme",
        "contentType",
        "responseForwarding",
        "terminationDelay",
        "providers",
        "api",
        "log",
        "accessLog",
        "metrics",
        "ping",
        "tracing",
        "global",
        "experimental",
        "apiVersion",
        "metadata",
        "kind",
        "asDefault",
        "pilot",
        "sniStrict",
        "status",
        "secure",
        "httpOnly",
        "sameSite",
        "lbswarm",
        "ruleSyntax",
        "observability",
        "preferServerCipherSuites",
        "curvePreferences",
        "alpnProtocols",
        "defaultCertificate",
    ],
    tls: &[
        "tls",
        "serversTransport",
        "serversTransports",
        "rootCAs",
        "certificates",
        "insecureSkipVerify",
        "serverName",
        "minVersion",
        "maxVersion",
        "cipherSuites",
        "stores",
        "domains",
        "certFile",
        "keyFile",
        "secretName",
        "certificatesResolvers",
    ],
    addresses: &["entryPoints", "address", "forwardedHeaders", "proxyProtocol", "udp", "http3"],
    limits: &["buffering", "maxRequestBodyBytes", "maxIdleConnsPerHost"],
    answers: &[
        "rule",
        "match",
        "service",
        "url",
        "weighted",
        "mirroring",
        "failover",
        "stripPrefix",
        "addPrefix",
        "replacePath",
        "replacePathRegex",
        "stripPrefixRegex",
        "redirectRegex",
        "passHostHeader",
        "errors",
        "priority",
        "port",
        "scheme",
    ],
};

pub fn statements(trees: &[Tree]) -> Vec<FileStatement> {
    let mut found = Vec::new();
    for tree in trees {
        tree.each_statement(&mut Vec::new(), &|_| None, &mut |at, path, value| found.push(statement(at, path, value)));
    }
    found
}

fn statement(at: usize, path: &[&str], value: &Tree) -> FileStatement {
    let is = |name: &str| path.last().is_some_and(|last| joined_alike(last) == joined_alike(name));
    let own = |name: &str, kind: StatementKind| FileStatement { at, name: name.to_owned(), kind };
    // What is named and not here may be anything.
    if is("middlewares") || (is("name") && path.contains(&"middlewares")) {
        return own("middlewares", StatementKind::Needed(Weight::Protection));
    }
    if is("entryPoints") && is_inner(&value.texts()) {
        return own("entryPoints", StatementKind::Needed(Weight::Protection));
    }
    if is("options") && path.contains(&"tls") {
        return own("tls … options", StatementKind::Needed(Weight::Protection));
    }
    if path.iter().any(|key| matches!(joined_alike(key).as_str(), "redirections" | "redirectscheme")) {
        return own("redirections", StatementKind::SameByDefault);
    }
    match value.text() {
        Some("true") if is("passHostHeader") => own("passHostHeader", StatementKind::SameByDefault),
        Some("VersionTLS12") if is("minVersion") => own("minVersion", StatementKind::SameByDefault),
        _ => WORDS.statement(at, path),
    }
}

/// Whether an entry point is not for everybody, wherever its address is said.
pub fn is_inner(names: &[String]) -> bool {
    let is_inner = |name: &String| {
        let name = name.to_ascii_lowercase();
        ["intern", "local", "private", "vpn", "lan", "admin", "mgmt", "manage"].iter().any(|word| name.contains(word))
    };
    names.iter().any(is_inner)
}
