//! Every statement of a configuration of Traefik, and how much it is where no line of ours says it.

use crate::accounts::{FileStatement, Reasons, StatementKind, Weight, WordTable};
use crate::alike::joined_alike;
use crate::strangers::Strangers;
use crate::tree::Tree;

/// Labels of containers that have no routers stand behind this name.
pub const NOT_ENABLED: &str = "labels of containers that are not enabled";
/// What services of Compose have of files that are not read stands behind this one.
pub const OF_FILES: &str = "parts of services in other files";
/// What several containers say differently of one name stands behind this one.
pub const TWICE: &str = "labels of several containers for one name";
/// Of Compose, what is said in other files.
const IN_FILES: [&str; 4] = ["extends", "label_file", "env_file", "include"];
/// What a statement of containers without routers is called.
const ENABLE: &str = "traefik.enable";

/// What a statement of several containers is called.
const TWICE_SAID: &str = "one name in several containers";

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
        "allowedHosts",
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
        tree.each_statement(&mut Vec::new(), &|_| None, &mut |at, path, value| {
            found.push(statement(at, &without_names(path), value));
        });
    }
    found
}

const IN_OTHER_FILE: &str = "what its file says may be a guard, and it is not read: write it into this file, as `docker compose config` does, \
                             and import that";

/// Middlewares that are read by themselves, or without which nobody comes in who was kept out.
const MIDDLEWARES: &[&str] = &[
    "addPrefix",
    "basicAuth",
    "buffering",
    "chain",
    "circuitBreaker",
    "compress",
    "contentType",
    "digestAuth",
    "errors",
    "forwardAuth",
    "grpcWeb",
    "headers",
    "ipAllowList",
    "ipWhiteList",
    "inFlightReq",
    "passTLSClientCert",
    "plugin",
    "rateLimit",
    "redirectRegex",
    "redirectScheme",
    "replacePath",
    "replacePathRegex",
    "retry",
    "stripPrefix",
    "stripPrefixRegex",
];
const TCP_MIDDLEWARES: &[&str] = &["inFlightConn", "ipAllowList", "ipWhiteList"];
const ROUTER: &[&str] =
    &["entryPoints", "rule", "ruleSyntax", "service", "middlewares", "priority", "tls", "observability", "name"];
/// What an entry point says of HTTP.
const OF_POINT: &[&str] =
    &["redirections", "middlewares", "tls", "encodeQuerySemicolons", "encodedCharacters", "maxHeaderBytes", "sanitizePath"];

/// All that is of no known name, where it may keep clients out.
pub fn strangers(tree: &Tree) -> Strangers {
    let mut strangers = Strangers::default();
    for (kind, middlewares) in [("http", MIDDLEWARES), ("tcp", TCP_MIDDLEWARES)] {
        for (_, middleware) in tree.at(&[kind, "middlewares"]).entries() {
            strangers.add_others(middleware, middlewares);
        }
        for (_, router) in tree.at(&[kind, "routers"]).entries() {
            for key in IN_FILES {
                strangers.add_because(key, router.get(key), IN_OTHER_FILE);
            }
            strangers.add_others(router, ROUTER);
        }
    }
    for (_, point) in tree.get("entryPoints").entries() {
        strangers.add_others(point.get("http"), OF_POINT);
    }
    strangers
}

/// The words without names that the writer has chosen, which may be words as well.
fn without_names<'p>(path: &[&'p str]) -> Vec<&'p str> {
    const NAMED: [&str; 10] = [
        "routers",
        "services",
        "middlewares",
        "serverstransports",
        "entrypoints",
        "certificatesresolvers",
        "options",
        "stores",
        "models",
        "plugin",
    ];
    let is_name = |index: usize| {
        (1..=3).contains(&index) && index + 1 < path.len() && NAMED.contains(&joined_alike(path[index - 1]).as_str())
    };
    path.iter().enumerate().filter(|(index, _)| !is_name(*index)).map(|(_, word)| *word).collect()
}

fn statement(at: usize, path: &[&str], value: &Tree) -> FileStatement {
    let is = |name: &str| path.last().is_some_and(|last| joined_alike(last) == joined_alike(name));
    let own = |name: &str, kind: StatementKind| FileStatement { at, name: name.to_owned(), kind };
    if path.first() == Some(&NOT_ENABLED) {
        return own(ENABLE, StatementKind::SameByDefault);
    }
    if path.first() == Some(&OF_FILES) {
        let key = path.iter().find(|key| IN_FILES.contains(key)).copied().unwrap_or_default();
        return own(key, StatementKind::Needed(Weight::Answer));
    }
    if path.first() == Some(&TWICE) {
        return own(TWICE_SAID, StatementKind::Needed(Weight::Answer));
    }
    if path.iter().any(|key| joined_alike(key) == "accesslog") && path.contains(&"filters") {
        return own("filters", StatementKind::Needed(Weight::Setting));
    }
    if is("address") && path.iter().any(|key| joined_alike(key) == "servers") {
        return own("servers … address", StatementKind::Needed(Weight::Answer));
    }
    if path.iter().any(|key| joined_alike(key) == "accesslog") && path.iter().any(|key| joined_alike(key) == "fields") {
        let is_usual =
            matches!((path.last().map(|last| joined_alike(last)).as_deref(), value.text()), (Some("defaultmode"), Some("keep")));
        let is_of_headers = path.iter().any(|key| joined_alike(key) == "headers");
        let same = if is_usual && !is_of_headers { StatementKind::SameByDefault } else { StatementKind::Needed(Weight::Setting) };
        return own("accessLog … fields", same);
    }
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
        // What leads elsewhere than to HTTPS is done by nothing without a word.
        let is_other = (is("scheme") && value.text().is_some_and(|scheme| scheme != "https"))
            || (is("port") && value.text().is_some_and(|port| port != "443"));
        return own("redirections", if is_other { StatementKind::Needed(Weight::Answer) } else { StatementKind::SameByDefault });
    }
    match value.text() {
        Some("true") if is("httpOnly") => own("httpOnly", StatementKind::SameByDefault),
        Some("false") if is("secure") => own("secure", StatementKind::SameByDefault),
        Some("lax") if is("sameSite") => own("sameSite", StatementKind::SameByDefault),
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

/// Why a statement of that name needs no word here.
pub fn why_same(name: &str) -> Option<&'static str> {
    reason_alike(WHY_SAME, name)
}

/// Reasons for what needs no word here.
const WHY_SAME: Reasons = &[
    (
        &[ENABLE],
        "not enabled there: Traefik has no routers of a container whose `traefik.enable` is not true, that needs it and has none, or that the constraints of its provider leave out",
    ),
    (
        &["enable", "exposedByDefault", "exposedbydefault", "constraints"],
        "which containers have routers is settled: those that have none there have none in these lines",
    ),
    (&["network", "swarm", "lbswarm"], "routers and servers stand in this file; which containers are asked is not looked up"),
    (
        &["providers", "filename", "directory", "watch", "endpoint", "docker", "swarmMode", "file", "defaultRule"],
        "routes stand in this file, and `run --watch` or a reload takes changes",
    ),
    (
        &["api", "dashboard", "insecure", "debug"],
        "there is no dashboard: `tidegate status` and `top` show the same, by a socket of this machine",
    ),
    (
        &[
            "log",
            "level",
            "accessLog",
            "accesslog",
            "filePath",
            "format",
            "bufferingSize",
            "fields",
            "headers",
            "defaultMode",
            "compress",
            "maxAge",
            "maxSize",
            "maxBackups",
            "noColor",
        ],
        "every request has a line on standard output; `access-log` and `log` say where else, and how much",
    ),
    (
        &[
            "metrics",
            "prometheus",
            "entryPoint",
            "addServicesLabels",
            "addEntryPointsLabels",
            "addRoutersLabels",
            "buckets",
            "otlp",
            "datadog",
            "statsD",
            "influxDB2",
        ],
        "metrics are at `/metrics` of `127.0.0.1:9180` without a word",
    ),
    (&["accessLog … fields"], "a line has all of its fields"),
    (&["ping", "manualRouting", "terminatingStatusCode"], "`/healthz` and `/readyz` are at `127.0.0.1:9180` without a word"),
    (&["tracing", "observability", "traceVerbosity"], "a `traceparent` goes on as it came; spans are not reported"),
    (&["global", "checkNewVersion", "sendAnonymousUsage", "pilot"], "nothing is ever sent home"),
    (
        &["experimental", "plugins", "moduleName", "version", "localPlugins"],
        "a plugin that is loaded does nothing by itself: where a middleware is one, its own line says what becomes of it",
    ),
    (&["apiVersion", "kind", "metadata", "name", "namespace"], "what a manifest is called"),
    (&["certResolver", "certresolver"], "a public name has its certificate obtained without a word"),
    (&["redirections", "redirectScheme", "to", "permanent", "scheme"], "a site sends plain HTTP to HTTPS without a word"),
    (&["contentType", "autoDetect"], "a type is passed on as it is"),
    (&["responseForwarding", "flushInterval"], "bodies and streams pass as they come"),
    (&["terminationDelay"], "a connection that one side has ended is closed when the other has"),
    (&["asDefault", "ruleSyntax", "reusePort"], "said by where sites are, and by rules that are read in both syntaxes"),
    (
        &["sniStrict", "preferServerCipherSuites", "curvePreferences", "alpnProtocols", "defaultCertificate"],
        "handshakes are strict about names, and offer what is strong in an order of ours",
    ),
    (&["status"], "an error of a server goes on as it is"),
    (
        &["httpOnly", "secure", "sameSite", "path"],
        "the cookie is `HttpOnly`, `SameSite=Lax` and over TLS `Secure` without a word",
    ),
    (&["passHostHeader"], "`Host` goes on as the client sent it"),
    (&["minVersion"], "TLS 1.2 is the oldest version that is spoken"),
];

/// What to do with words that are not carried.
const NOT_CARRIED: Reasons = &[
    (&IN_FILES, IN_OTHER_FILE),
    (
        &[TWICE_SAID],
        "several containers say different things of this name, and Traefik then takes none of them: give each a name of its own",
    ),
    (
        &["allowedHosts"],
        "other hosts are refused there: say it by the addresses of sites, or by `route { match not host=\"example.com\"; respond 403; }` in front",
    ),
    (
        &["filters"],
        "which requests have a line is said by `access-log \"stdout\" status=\"400-599\"`, and by `slower-than=\"1s\"` there: both have to hold",
    ),
    (
        &["address", "entryPoints", "http3", "advertisedPort", "asDefault", "udp"],
        "where clients come in is said by the addresses of sites: give `import` the files with the routers as well, in one folder; HTTP/3 and UDP are not spoken here",
    ),
    (
        &["regex", "replacement", "redirectRegex"],
        "where an expression sends to is `rewrite \"~^/old/(.*)$\" \"/new/$1\"` and `redirect \"https://example.com{path}\"` in a route",
    ),
    (&["permanent"], "the status of a redirect stands on its line: `redirect \"https://example.com{uri}\" status=308`"),
    (
        &["rule", "match"],
        "a rule that is none of ours is said by `site`, `route` and `match`: there are no hosts by expressions but `*.example.com`",
    ),
    (
        &["service", "services", "servers … address", "url", "servers", "addresses", "loadBalancer", "server", "port", "weight"],
        "servers stand in a `pool` or behind `proxy`: no router of this file leads to these",
    ),
    (
        &["accessLog … fields"],
        "more fields of a line are said in a site by `log { field \"agent\" \"{request.header.User-Agent}\"; }`, and fewer by a template in `format=`",
    ),
    (&["storage"], "what was obtained is in the state folder; `tidegate cert import acme.json` takes over what the file has"),
    (
        &["provider", "dnsChallenge", "delayBeforeCheck", "resolvers", "disablePropagationCheck", "propagation"],
        "a provider that is not here is asked by a program or a service: `acme { dns \"exec\" command=\"/usr/local/bin/dns\"; }`",
    ),
    (
        &["email", "caServer", "keyType", "httpChallenge", "tlsChallenge", "eab", "kid", "hmacEncoded"],
        "CAs are named at the top level: `acme email=\"ops@example.com\" { ca \"zerossl\" eab-key-id=\"…\" eab-hmac=\"…\"; }`",
    ),
    (
        &["domains", "main", "sans"],
        "each name has a certificate of its own; `acme { wildcard \"*.example.com\"; }` is one for many",
    ),
    (&["digestAuth"], "passwords are asked for by `basic-auth`, which is as safe over TLS; digests of them are not spoken"),
    (&["plugin"], "plugins are not run: what one does is said by a step of ours, or by `forward-auth` to a program"),
    (
        &["forwardAuth"],
        "another server is asked by `forward-auth \"http://auth:9091/check\" { copy \"X-User\"; }` in the routes that need it",
    ),
    (&["errors", "query"], "pages of errors are files or texts: `error-page \"500-599\" file=\"sorry.html\" from=\"all\"`"),
    (&["grpcWeb", "allowOrigins"], "gRPC-Web is not translated: Envoy or the application does it"),
    (&["maxVersion"], "the newest version of TLS is not bounded"),
    (
        &["memRequestBodyBytes", "memResponseBodyBytes", "maxResponseBodyBytes", "retryExpression"],
        "bodies pass as they come, and are not collected",
    ),
    (
        &["readTimeout", "writeTimeout", "idleTimeout", "keepAliveMaxTime", "keepAliveMaxRequests", "requestAcceptGraceTimeout"],
        "how long clients may take is said by `limits { header-timeout \"10s\"; keep-alive \"75s\"; }`",
    ),
    (
        &[
            "readIdleTimeout",
            "pingTimeout",
            "dialKeepAlive",
            "dialTimeout",
            "maxIdleConnsPerHost",
            "peerCertURI",
            "spiffe",
            "ids",
            "trustDomain",
            "disableHTTP2",
        ],
        "how connections to servers are made beyond that is as the defaults have it",
    ),
    (
        &["ca", "cert", "key", "secretName", "caSecret", "rootCAsSecrets", "certificatesSecrets", "secretNames"],
        "keys and authorities are files: those in a secret of Kubernetes are written into one",
    ),
    (&["secret", "usersFile", "users"], "names and passwords stand in a file or in the block: `basic-auth file=\"users\"`"),
    (
        &[
            "sslProxyHeaders",
            "accessControlAllowOriginListRegex",
            "accessControlAllowMethods",
            "accessControlMaxAge",
            "accessControlAllowHeaders",
        ],
        "pages of other origins are named by `cors origins=\"https://app.example.com\"`",
    ),
    (&["tls", "passthrough"], "connections are handed on as they are by `tcp`, by name with `sni`, and are not decrypted there"),
    (&["prefixes", "prefix", "path"], "paths are changed by `strip-prefix`, `add-prefix` and `rewrite`"),
    (&["middlewares"], "its middlewares are in another file: give `import` the folder of all of them, or say what they do"),
    (
        &["ipStrategy", "depth", "excludedIPs", "sourceRange", "ipAllowList", "ipWhiteList"],
        "whose address counts is said by `trusted-proxies` of a `listener`; then `allow \"10.0.0.0/8\"` asks for it",
    ),
    (
        &["rateLimit", "inFlightReq", "inFlightConn", "amount"],
        "how often is `rate-limit \"100/s\" burst=200`, how many at once `concurrency-limit 20`, of connections `limits { connections-per-ip 100; }`",
    ),
    (
        &["clientAuth", "clientAuthType", "caFiles"],
        "certificates of clients are verified by `tls { client-auth ca=\"clients-ca.pem\"; }`",
    ),
    (
        &["templates", "constraint-label", "configFile"],
        "templates and constraints of a provider are not looked at: what stands in the file is",
    ),
    (&["…"], "a name that is chosen freely, of something that no router of this file leads to"),
];

/// What to do with a statement of that name that is not carried.
pub fn remedy(name: &str) -> Option<&'static str> {
    reason_alike(NOT_CARRIED, name)
}

/// The first sentence for the word, however its parts are joined.
fn reason_alike(table: Reasons, name: &str) -> Option<&'static str> {
    let alike = joined_alike(name);
    table.iter().find(|(words, _)| words.iter().any(|word| joined_alike(word) == alike)).map(|(_, sentence)| *sentence)
}
