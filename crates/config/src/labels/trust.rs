//! What labels may say. Whoever may start a container writes them, so each directive and each property is decided here
//! one by one, and what is not is refused: a new one waits for somebody to think of it. A test goes over all of them.

use crate::diagnostics::Diagnostic;
use crate::directives::LANGUAGE;
use crate::language::Directive;
use crate::syntax::{Entry, Literal, Node, Value};
use crate::table::{Block, Place};

/// What is decided of a directive, which is known by its name and the first of its places.
struct Row {
    name: &'static str,
    place: Place,
    decision: Decision,
}

enum Decision {
    /// With these properties and no others; behind them those that labels may not give, and why.
    May(&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// Not at all, and why.
    MayNot(&'static str),
}

use Decision::{May, MayNot};

const READS_FILE: &str = "it reads a file of the host";
const ASKS_OTHERS: &str = "it has the proxy ask an address of the label's choice";
const OF_PROCESS: &str = "it is said once for the whole process";
const NAMES_CERTIFICATE: &str = "certificates are named in the file";
const OPENS_PORTS: &str = "where the proxy listens is said in the file";
const SENDS_ELSEWHERE: &str = "requests of a label go to its own container";
const OWN_SERVERS: &str = "the servers are the containers that have the label";
const SHARED: &str = "it is shared with sites of the file";
const OF_FILE: &str = "it looks up what the file names";
const IS_KNOWN: &str = "it is the container that has the label";
const NEEDS_CLIENT_AUTH: &str = "it needs `tls { client-auth … }`, which names a file";

macro_rules! rows {
    ($($name:literal, $place:ident => $decision:expr;)*) => { &[$(Row { name: $name, place: Place::$place, decision: $decision }),*] };
}

static ROWS: &[Row] = rows! {
    "edition", Top => MayNot(OF_PROCESS);
    "include", Top => MayNot(READS_FILE);
    // Read apart: its addresses are held against those of the file and of others.
    "site", Top => May(&[], &[]);
    "tls", Site => MayNot(NAMES_CERTIFICATE);
    "min", Tls => MayNot(NAMES_CERTIFICATE);
    "ciphers", Tls => MayNot(NAMES_CERTIFICATE);
    "alpn", Tls => MayNot(NAMES_CERTIFICATE);
    "tickets", Tls => MayNot(NAMES_CERTIFICATE);
    "early-data", Tls => MayNot(NAMES_CERTIFICATE);
    "ocsp-stapling", Tls => MayNot(NAMES_CERTIFICATE);
    "acme", Tls => MayNot(NAMES_CERTIFICATE);
    "on-demand", Tls => MayNot(NAMES_CERTIFICATE);
    "client-auth", Tls => MayNot(READS_FILE);
    "route", Site => May(&["name"], &[]);
    "match", Route => May(
        &["method", "path", "header", "query", "cookie", "client", "host", "scheme", "ja4"],
        &[
            ("client-subject", NEEDS_CLIENT_AUTH), ("client-san", NEEDS_CLIENT_AUTH), ("client-fingerprint", NEEDS_CLIENT_AUTH),
            ("country", OF_FILE), ("continent", OF_FILE), ("asn", OF_FILE), ("map", OF_FILE), ("claim", ASKS_OTHERS),
        ],
    );
    "any", Match => May(&[], &[]);
    "all", Match => May(&[], &[]);
    "not", Match => May(&[], &[]);
    "proxy", Site => May(&["rewrite-location"], &[]);
    "listen", Site => MayNot(OPENS_PORTS);
    "origin", Site => MayNot(IS_KNOWN);
    "split", Site => MayNot(SENDS_ELSEWHERE);
    "proxy", Split => MayNot(SENDS_ELSEWHERE);
    "arm", Split => MayNot(SENDS_ELSEWHERE);
    "respond", Site => May(&["body", "content-type"], &[]);
    "redirect", Site => May(&["status", "prefix"], &[]);
    "files", Site => MayNot(READS_FILE);
    "fastcgi", Site => MayNot(READS_FILE);
    "env", FastCgi => MayNot(READS_FILE);
    "header", Site => May(&["set", "add", "default", "remove", "status", "type"], &[]);
    "response-header", Site => May(&["set", "add", "default", "remove", "status", "type"], &[]);
    "request-header", Site => May(&["set", "add", "default", "remove"], &[]);
    "rewrite", Site => May(&[], &[]);
    "strip-prefix", Site => May(&[], &[]);
    "add-prefix", Site => May(&[], &[]);
    "body-limit", Site => May(&[], &[]);
    "path-policy", Site => May(&["slashes", "encoded-slashes", "case", "parameters", "expressions"], &[]);
    "header-names", Site => May(&[], &[]);
    "pass-on", Site => May(&["trace", "trailers"], &[]);
    "request-id", Site => May(&["header", "client", "trace"], &[]);
    "proxy-status", Site => May(&[], &[]);
    "allow", Site => May(&[], &[]);
    "deny", Site => May(&[], &[]);
    "cors", Site => May(&["origins", "methods", "headers", "expose", "credentials", "max-age", "private-network"], &[]);
    "csrf", Site => May(&["origins"], &[]);
    "basic-auth", Site => May(
        &["realm", "forward", "failures"],
        &[("file", READS_FILE), ("users", "users are lines of the block")],
    );
    "user", BasicAuth => May(&[], &[]);
    "jwt", Site => MayNot(ASKS_OTHERS);
    "other-issuer", Jwt => MayNot(ASKS_OTHERS);
    "require", Jwt => MayNot(ASKS_OTHERS);
    "header", Jwt => MayNot(ASKS_OTHERS);
    "oidc", Site => MayNot(ASKS_OTHERS);
    "provider", Oidc => MayNot(ASKS_OTHERS);
    "parameter", Oidc => MayNot(ASKS_OTHERS);
    "forward-auth", Site => MayNot(ASKS_OTHERS);
    "request-headers", ForwardAuth => MayNot(ASKS_OTHERS);
    "header", ForwardAuth => MayNot(ASKS_OTHERS);
    "copy", ForwardAuth => MayNot(ASKS_OTHERS);
    "cookies", ForwardAuth => MayNot(ASKS_OTHERS);
    "cache", ForwardAuth => MayNot(ASKS_OTHERS);
    "api-key", Site => May(
        &["field", "authorization", "query", "header", "realm", "forward", "failures"],
        &[("file", READS_FILE)],
    );
    "key", ApiKey => May(&["expires"], &[]);
    "client-auth", Site => MayNot(NEEDS_CLIENT_AUTH);
    "auth", Site => May(&[], &[]);
    "rate-limit", Site => May(
        &["burst", "by", "ipv6-prefix", "cost", "status", "headers", "dry-run"],
        &[("name", SHARED), ("keys", "it takes memory of the whole process")],
    );
    "concurrency-limit", Site => May(&["by", "ipv6-prefix", "status", "dry-run"], &[("name", SHARED)]);
    "error-page", Site => May(
        &["body", "format", "content-type", "from", "status", "placeholders"],
        &[
            ("file", READS_FILE), ("pool", SENDS_ELSEWHERE), ("path", SENDS_ELSEWHERE), ("keep-status", SENDS_ELSEWHERE),
            ("answer-bytes", SENDS_ELSEWHERE), ("total", SENDS_ELSEWHERE),
        ],
    );
    "header", ErrorPage => MayNot(SENDS_ELSEWHERE);
    "compress", Site => May(&["level", "min-size", "types", "cross-site"], &[]);
    "decompress", Site => May(&["ratio"], &[]);
    "cache", Site => May(
        &[
            "fresh", "heuristic", "stale-while-revalidate", "stale-if-error", "client-control", "whole-for-ranges", "set-cookie",
            "cdn-cache-control",
        ],
        &[("purge-from", "purging is for whoever runs the proxy"), ("purge-token", "purging is for whoever runs the proxy")],
    );
    "timeout", Site => May(&["connect", "first-byte", "idle", "try", "total"], &[]);
    "mirror", Site => MayNot(SENDS_ELSEWHERE);
    "rewrite-location", Site => May(&[], &[]);
    "rewrite-cookie-path", Site => May(&[], &[]);
    "rewrite-cookie-domain", Site => May(&[], &[]);
    "send-file", Site => MayNot(READS_FILE);
    "log", Site => MayNot("what is logged of whom is said in the file");
    "field", Log => MayNot("what is logged of whom is said in the file");
    "geoip", Top => MayNot(READS_FILE);
    "map", Top => MayNot(OF_PROCESS);
    "row", Map => MayNot(OF_PROCESS);
    "tcp", Top => MayNot("listeners are named in the file");
    "sni", Tcp => MayNot("listeners are named in the file");
    "proxy", Tcp => MayNot("listeners are named in the file");
    "split", Tcp => MayNot("listeners are named in the file");
    "proxy", TcpSplit => MayNot("listeners are named in the file");
    "pool", Top => MayNot(OWN_SERVERS);
    "server", Pool => MayNot(OWN_SERVERS);
    "discover", Pool => MayNot(OWN_SERVERS);
    "balance", Pool => May(&["key", "load-max"], &[]);
    "zone", Pool => May(&[], &[]);
    "sticky", Pool => May(
        &["cookie", "max-age", "path", "domain", "same-site", "secure", "change-on-failure"],
        &[("secret", "a label is read by all who may look at containers")],
    );
    "health", Pool => May(
        &[
            "type", "interval", "interval-down", "timeout", "rise", "fall", "port", "expect", "method", "host", "header", "body",
            "send", "receive", "service",
        ],
        &[],
    );
    "outlier", Pool => May(&["failures", "eject", "eject-max", "max-ejected", "success-rate"], &[]);
    "slow-start", Pool => May(&[], &[]);
    "timeout", Pool => May(&["connect", "first-byte", "idle"], &[]);
    "retry", Pool => May(&["for", "body", "attempts", "within", "on", "budget", "try-timeout", "backoff", "backoff-max"], &[]);
    "hedge", Pool => May(&[], &[]);
    "max-connections", Pool => May(&["queue", "queue-timeout"], &[]);
    "max-requests", Pool => May(&["total", "queue", "queue-timeout"], &[]);
    "adaptive-concurrency", Pool => May(&["min", "max"], &[]);
    "keep-alive", Pool => May(&["connections", "idle", "requests", "age", "ping"], &[("warm", "it keeps connections of the whole process")]);
    "protocol", Pool => May(&[], &[]);
    "tls", Pool => May(&["sni", "verify"], &[
        ("ca", READS_FILE), ("cert", READS_FILE), ("key", READS_FILE), ("ca-pem", NAMES_CERTIFICATE), ("pem", NAMES_CERTIFICATE),
        ("key-pem", NAMES_CERTIFICATE),
    ]);
    "send-proxy-protocol", Pool => May(&["tlv"], &[]);
    "origin", Pool => MayNot(IS_KNOWN);
    "admin", Top => MayNot(OF_PROCESS);
    "access-log", Top => MayNot(OF_PROCESS);
    "log", Top => MayNot(OF_PROCESS);
    "threads", Top => MayNot(OF_PROCESS);
    "driver", Top => MayNot(OF_PROCESS);
    "memory", Top => MayNot(OF_PROCESS);
    "cache", Top => MayNot(OF_PROCESS);
    "tls", Top => MayNot(NAMES_CERTIFICATE);
    "acme", Top => MayNot(NAMES_CERTIFICATE);
    "ca", Acme => MayNot(NAMES_CERTIFICATE);
    "challenges", Acme => MayNot(NAMES_CERTIFICATE);
    "wildcard", Acme => MayNot(NAMES_CERTIFICATE);
    "dns", Acme => MayNot(NAMES_CERTIFICATE);
    "storage", Top => MayNot(OF_PROCESS);
    "ticket-keys", Top => MayNot(OF_PROCESS);
    "listener", Top => MayNot("listeners are named in the file");
    "trusted-proxies", Listener => MayNot("listeners are named in the file");
    "client-ip-header", Listener => MayNot("listeners are named in the file");
    "accept-proxy-protocol", Listener => MayNot("listeners are named in the file");
    "websocket-over-http2", Listener => MayNot("listeners are named in the file");
    "mode", Listener => MayNot("listeners are named in the file");
    "owner", Listener => MayNot("listeners are named in the file");
    "drain", Top => MayNot(OF_PROCESS);
    "limits", Top => MayNot(OF_PROCESS);
    "header-bytes", Limits => MayNot(OF_PROCESS);
    "request-line", Limits => MayNot(OF_PROCESS);
    "header-count", Limits => MayNot(OF_PROCESS);
    "connections-per-ip", Limits => MayNot(OF_PROCESS);
    "header-timeout", Limits => MayNot(OF_PROCESS);
    "keep-alive", Limits => MayNot(OF_PROCESS);
    "body-rate", Limits => MayNot(OF_PROCESS);
    "h2-streams", Limits => MayNot(OF_PROCESS);
    "handshakes-per-network", Limits => MayNot(OF_PROCESS);
    "docker", Top => MayNot(OF_PROCESS);
    "allow", Docker => MayNot(OF_PROCESS);
    "entry-point", Docker => MayNot(OF_PROCESS);
};

/// What stands in texts and brings in what labels may not know.
const FOREIGN_PLACEHOLDERS: &[(&str, &str)] = &[
    ("{env.", "labels know no variables of the proxy"),
    ("{file.", "labels read no file"),
    ("{map.", OF_FILE),
    ("{geo.", OF_FILE),
    ("{arg.", "labels are not included by anybody"),
];
/// What networks begin with that are a list elsewhere.
const FOREIGN_LISTS: &[(&str, &str)] =
    &[("file:", READS_FILE), ("map:", OF_FILE), ("country:", OF_FILE), ("continent:", OF_FILE), ("asn:", OF_FILE)];

fn row(directive: &Directive) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == directive.name && directive.places.first() == Some(&row.place))
}

/// Everything in the lines of a block that labels may not say. Words that nobody knows are left to whoever reads them.
pub fn refused(nodes: &[Node], place: Place, found: &mut Vec<Diagnostic>) {
    for node in nodes {
        let names_networks = matches!(node.name.text.as_str(), "allow" | "deny" | "match" | "any" | "all" | "not");
        for entry in &node.entries {
            refuse_text(&entry.value, names_networks, found);
        }
        let Some(directive) = LANGUAGE.find(&node.name.text, place) else { continue };
        let (may, may_not) = match row(directive).map(|row| &row.decision) {
            Some(May(may, may_not)) => (may, may_not),
            Some(MayNot(why)) => {
                found.push(not_for_labels(node.location.clone(), &format!("`{}`", directive.name), why));
                continue;
            }
            None => {
                found.push(not_for_labels(
                    node.location.clone(),
                    &format!("`{}`", directive.name),
                    "nobody has decided that they may",
                ));
                continue;
            }
        };
        for Entry { name, location, .. } in &node.entries {
            let Some(name) = name.as_ref().map(|name| name.text.as_str()) else { continue };
            if may.contains(&name) || !directive.properties.iter().any(|property| property.name == name) {
                continue;
            }
            let why = may_not.iter().find(|(known, _)| *known == name).map_or("nobody has decided that they may", |(_, why)| why);
            found.push(not_for_labels(location.clone(), &format!("`{} {name}=`", directive.name), why));
        }
        if directive.name == "proxy"
            && let Some(upstream) = node.entries.iter().find(|entry| entry.name.is_none())
        {
            let diagnostic = not_for_labels(upstream.location.clone(), "`proxy` with a server or a pool", SENDS_ELSEWHERE);
            found.push(diagnostic.help("write `proxy` alone, which is this container"));
        }
        if let (Block::Optional(inner) | Block::Required(inner), Some(children)) = (directive.block, &node.children) {
            refused(children, inner, found);
        }
    }
}

fn refuse_text(value: &Value, names_networks: bool, found: &mut Vec<Diagnostic>) {
    let Literal::Text(text) = &value.literal else { return };
    if let Some((word, why)) = FOREIGN_PLACEHOLDERS.iter().find(|(word, _)| text.contains(word)) {
        found.push(not_for_labels(value.location.clone(), &format!("`{word}…}}`"), why));
    }
    let of_list = |part: &str| FOREIGN_LISTS.iter().find(|(word, _)| part.trim_start().starts_with(word));
    if names_networks && let Some((word, why)) = text.split(',').find_map(of_list) {
        found.push(not_for_labels(value.location.clone(), &format!("`{word}…`"), why));
    }
}

fn not_for_labels(at: crate::diagnostics::Location, what: &str, why: &str) -> Diagnostic {
    Diagnostic::error("not-for-labels", at, format!("labels may not say {what}: {why}"))
        .help_of_language("write the site in the file, with `discover container=\"…\"` in its pool, if that is wanted")
}

#[cfg(test)]
mod tests {
    use super::{Decision, ROWS, row};
    use crate::directives::LANGUAGE;

    #[test]
    fn each_directive_and_each_property_is_decided() {
        for directive in LANGUAGE.directives {
            let name = directive.name;
            let known = row(directive);
            assert!(known.is_some(), "may labels say `{name}` {}? Add a row to ROWS", directive.places[0].describe());
            if let Some(Decision::May(may, may_not)) = known.map(|row| &row.decision) {
                for property in directive.properties {
                    let is_decided = may.contains(&property.name) != may_not.iter().any(|(known, _)| *known == property.name);
                    assert!(is_decided, "may labels say `{name} {}=`? Add it to its row in ROWS, once", property.name);
                }
                let of_row = may.iter().copied().chain(may_not.iter().map(|(name, _)| *name));
                for property in of_row {
                    let is_there = directive.properties.iter().any(|known| known.name == property);
                    assert!(is_there, "`{name}` has no property `{property}` any more");
                }
            }
        }
        for row in ROWS {
            let is_of = |directive: &&&crate::language::Directive| directive.name == row.name && directive.places[0] == row.place;
            assert_eq!(LANGUAGE.directives.iter().filter(is_of).count(), 1, "`{}` {}", row.name, row.place.describe());
        }
    }

    #[test]
    fn what_labels_may_say_names_no_path() {
        use crate::table::Kind;
        for directive in LANGUAGE.directives {
            let Some(Decision::May(may, _)) = row(directive).map(|row| &row.decision) else { continue };
            let paths = directive.properties.iter().filter(|property| matches!(property.kind, Kind::Path | Kind::Secret(_)));
            for property in paths {
                assert!(!may.contains(&property.name), "`{} {}=` names a path or a secret", directive.name, property.name);
            }
            let arguments = directive.arguments.iter().filter(|argument| matches!(argument.kind, Kind::Path));
            assert_eq!(arguments.count(), 0, "`{}` names a path", directive.name);
        }
    }
}
