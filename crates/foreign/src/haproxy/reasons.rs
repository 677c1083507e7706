//! Why words of HAProxy need no word here, what to do about those that are not carried, and what is different of those
//! that the process does in its own way.

use super::lexer::{HaProxyLine, Sections};
use crate::accounts::{Reasons, StatementKind, reason};
use crate::outline::Outline;

/// Why a statement of that name needs no word here.
pub fn why_same(name: &str) -> Option<&'static str> {
    reason(SAME, name).or_else(|| reason(CONDITIONAL, name))
}

/// Whether a line that begins so needs no word here, wherever it stands.
pub fn is_same(name: &str) -> bool {
    reason(SAME, name).is_some()
}

/// What to do about a statement of that name that is not carried.
pub fn remedy(name: &str) -> Option<&'static str> {
    if let Some(option) = name.strip_prefix("default-server … ") {
        return remedy(&format!("server … {option}"));
    }
    // What the line as a whole is about says nothing of an option on it.
    let first = name.split(' ').next().unwrap_or_default();
    reason(REMEDIES, name).or_else(|| if name.contains(" … ") { reason(OF_OPTIONS, name) } else { reason(REMEDIES, first) })
}

/// What is different of lines that no single line of ours is made of.
const DIFFERS: Reasons = &[
    (
        &["timeout client"],
        "who sends slowly is cut by `limits { body-rate \"100/s\"; header-timeout \"10s\" }`, and not by a silence; downloads go on as long as they are read",
    ),
    (&["timeout client-fin", "timeout server-fin"], "a connection that is half closed ends with what is on its way"),
    (&["timeout tarpit"], "who is refused is answered at once"),
    (&["timeout client-hs"], "a handshake has the time of `limits { header-timeout \"10s\" }`"),
    (&["timeout server-hs"], "a handshake with a server has the time of `timeout connect=`"),
    (
        &["maxconn"],
        "connections are bounded by the open files of the process and by `limits { connections-per-ip 10000 }`, and not by a number of their own",
    ),
    (
        &["maxconnrate", "maxsessrate", "maxsslrate", "maxsslconn"],
        "`limits { handshakes-per-network \"6000/m\" }` bounds what one network may begin",
    ),
    (
        &["bind … maxconn"],
        "connections are bounded by the open files of the process and by `limits { connections-per-ip 10000 }`",
    ),
    (
        &["option forwardfor", "option forwarded"],
        "the client's address is always sent, in `X-Forwarded-For`; whose own goes on is said by `trusted-proxies` in a `listener`",
    ),
    (
        &["log-format", "log-format-sd", "error-log-format"],
        "lines of `access-log` are JSON with fields of its own; `format=\"{time} {client.ip} {status}\"` writes others, and `field` in the `log` of a site adds to them",
    ),
    (&["option log-health-checks"], "changes of health are in the log of the process without a word"),
];

/// What is said of statements beside the lines that are made of them.
pub fn of_statements(sections: &Sections, outline: &mut Outline) {
    for (line, why) in &sections.left_out {
        outline.reasons.insert(line.start(), (*why).to_owned());
    }
    for statement in &outline.statements {
        let is_plain_field = statement.name.starts_with("option forward") && statement.kind == StatementKind::SameByDefault;
        if let Some(how) = reason(DIFFERS, &statement.name).filter(|_| !is_plain_field) {
            outline.told.differ(statement.at, how);
        }
    }
    let is_checked =
        sections.all.iter().any(|section| section.lines.iter().any(|line| line.words.iter().any(|word| word == "check")));
    for statement in outline.statements.iter_mut().filter(|statement| !is_checked && statement.name == "timeout check") {
        statement.kind = StatementKind::SameByDefault;
    }
    for section in &sections.all {
        // Where the page of statistics is, and nothing else.
        let is_page = section.setting("stats", "enable").is_some() || section.setting("stats", "uri").is_some();
        for line in section.lines_of("bind").filter(|_| is_page) {
            outline.reasons.entry(line.start()).or_insert_with(|| PAGE.to_owned());
        }
        for line in section.lines_of("errorfile").filter(|line| is_of_package(line)) {
            outline.told.differ(line.start(), PAGE_OF_PACKAGE);
        }
        let logs = section.lines_of("log").filter(|_| section.kind != "global");
        outline.told.carry_all(logs.map(HaProxyLine::start));
    }
}

/// Whether a page is where packages of HAProxy have theirs.
fn is_of_package(line: &HaProxyLine) -> bool {
    line.word(2).ends_with(&format!("/errors/{}.http", line.word(1)))
}

const PAGE_OF_PACKAGE: &str = "the pages that come with HAProxy are plain, and so are those that the proxy makes itself: where this one is yours by now, \
                               `error-page` with `file=` has the page alone, without the status line and the fields above it";
const PAGE: &str = "the page of statistics is not there: `admin` has its address, and `tidegate top` shows the same";

/// Lines that are done here without a word, or are about the process and its logs, with the reason.
const SAME: Reasons = &[
    (&["mode"], "a site speaks HTTP, and a `tcp` hands connections on"),
    (&["acl"], "nothing that is carried asks it"),
    (&["bind-process"], "one thread for each core that the process may use"),
    (
        &["description", "log-tag", "load-server-state-from-file", "server-state-file-name"],
        "about the process, its checks and its state, which are kept without a word",
    ),
    (
        &[
            "option httplog",
            "option tcplog",
            "option httpslog",
            "option dontlognull",
            "option dontlog-normal",
            "option log-separate-errors",
            "option logasap",
            "log-tag",
            "option socket-stats",
            "option contstats",
            "option log-health-checks",
        ],
        "`access-log` has a line for each request, with all that the formats there have, as JSON unless `format=` says otherwise",
    ),
    (
        &[
            "option http-server-close",
            "option httpclose",
            "option forceclose",
            "option http-keep-alive",
            "option http-tunnel",
            "option http-pretend-keepalive",
            "option prefer-last-server",
            "http-reuse",
            "option idle-close-on-response",
            "option http-use-htx",
            "option http-no-delay",
        ],
        "connections of clients and servers are kept and shared without a word, and closed when either side wants it",
    ),
    (&["timeout check"], "no server is checked"),
    (&["option redispatch"], "a request that is tried again always goes to another server"),
    (
        &[
            "option tcpka",
            "option clitcpka",
            "option srvtcpka",
            "option tcp-smart-accept",
            "option tcp-smart-connect",
            "option splice-auto",
            "option splice-request",
            "option splice-response",
            "option nolinger",
            "option independent-streams",
        ],
        "sockets are set up as they serve best",
    ),
    (&["option abortonclose"], "a request whose client has gone is given up without a word"),
    (&["option http-buffer-request"], "what is no good HTTP is refused, and names that servers read as others are dropped"),
    (&["id", "guid", "description", "enabled", "declare"], "names and numbers of servers are their addresses"),
    (&["stick-table"], "who counts is said by the limit itself: a table and what is tracked in it are of no use alone"),
    (&["tcp-request inspect-delay"], "the name in the ClientHello is waited for, within `limits { header-timeout }`"),
    (&["hash-type"], "keys are shared out consistently"),
    (&["unique-id-format"], "each request has an identifier, `{request.id}`"),
    (&["declare"], "`field` in the `log` of a site adds to its lines"),
    (&["email-alert"], "alerts are made of `/metrics`: `tidegate_pool_servers` and its like say which servers are down"),
    (&["option splice-auto"], "bytes go the shortest way"),
];

/// Lines and options that need no word here in some of their places alone, with the reason.
const CONDITIONAL: Reasons = &[
    (
        &["if", "elif", "else", "endif"],
        "conditions of the file are settled for the newest version, and what they leave out is named",
    ),
    (&["notice", "warning", "alert", "diag"], "what is said while a file is read changes nothing"),
    (
        &[
            "daemon",
            "pidfile",
            "user",
            "group",
            "uid",
            "gid",
            "chroot",
            "ulimit-n",
            "master-worker",
            "nbproc",
            "fd-hard-limit",
            "localpeer",
        ],
        "the service manager starts, confines and ends the process: docs/getting-started.md",
    ),
    (
        &["cpu-map", "cpu-policy", "thread-groups", "thread-group", "process", "noepoll", "nopoll", "nosplice", "busy-polling"],
        "one thread for each core that the process may use",
    ),
    (&["nbthread"], "as many threads as cores that the process may use, unless `threads` says another number"),
    (&["crt-store crt-base", "crt-store key-base"], "paths are written whole where they are used"),
    (&["ca-base", "crt-base", "setenv", "presetenv", "unsetenv", "resetenv"], "paths are written whole where they are used"),
    (
        &[
            "ssl-default-bind-options",
            "ssl-default-server-options",
            "bind … no-sslv3",
            "bind … no-tlsv10",
            "bind … no-tlsv11",
            "bind … ssl-min-ver",
            "server … no-sslv3",
            "server … no-tlsv10",
            "server … no-tlsv11",
        ],
        "TLS 1.2 and 1.3 are all that is spoken",
    ),
    (
        &[
            "ssl-default-bind-ciphers",
            "ssl-default-bind-ciphersuites",
            "ssl-default-bind-curves",
            "ssl-default-server-ciphers",
            "ssl-default-server-ciphersuites",
            "ssl-default-bind-sigalgs",
            "bind … ciphers",
            "bind … ciphersuites",
            "bind … curves",
            "bind … ecdhe",
            "bind … prefer-client-ciphers",
            "server … ciphers",
            "server … ciphersuites",
        ],
        "all suites that are offered are strong, with forward secrecy; `ciphers` in the `tls` of a site names fewer",
    ),
    (
        &[
            "ssl-dh-param-file",
            "ssl-mode-async",
            "ssl-engine",
            "ssl-propquery",
            "ssl-provider",
            "ssl-security-level",
            "ssl-skip-self-issued-ca",
            "ssl-load-extra-files",
            "ssl-load-extra-del-ext",
            "issuers-chain-path",
        ],
        "keys are agreed on by elliptic curves, and certificates are read as they are",
    ),
    (
        &[
            "spread-checks",
            "max-spread-checks",
            "profiling",
            "insecure-fork-wanted",
            "insecure-setuid-wanted",
            "strict-limits",
            "set-dumpable",
            "h1-case-adjust",
            "h1-case-adjust-file",
            "node",
            "zero-warning",
            "expose-experimental-directives",
            "numa-cpu-mapping",
            "hard-stop-after",
            "grace",
            "close-spread-time",
            "quiet",
            "log-send-hostname",
            "unix-bind",
            "server-state-base",
            "server-state-file",
            "default-path",
            "cluster-secret",
            "deviceatlas-json-file",
            "anonkey",
            "prealloc-fd",
            "harden.reject-privileged-ports.tcp",
            "limited-quic",
            "no-quic",
        ],
        "about the process, its checks and its state, which are kept without a word",
    ),
    (
        &["max-keep-alive-queue"],
        "connections of clients and servers are kept and shared without a word, and closed when either side wants it",
    ),
    (
        &[
            "bind … tfo",
            "bind … defer-accept",
            "bind … mss",
            "bind … backlog",
            "bind … nice",
            "bind … tcp-ut",
            "server … tfo",
            "backlog",
            "clitcpka-cnt",
            "clitcpka-idle",
            "clitcpka-intvl",
            "srvtcpka-cnt",
            "srvtcpka-idle",
            "srvtcpka-intvl",
        ],
        "sockets are set up as they serve best",
    ),
    (
        &["option forwardfor", "option originalto", "http-request set-header", "http-request add-header"],
        "`X-Forwarded-For`, `-Proto`, `-Host` and `-Port` are sent without a word",
    ),
    (
        &[
            "option http-ignore-probes",
            "option accept-invalid-http-request",
            "option accept-unsafe-violations-in-http-request",
            "option accept-invalid-http-response",
            "option accept-unsafe-violations-in-http-response",
            "option h1-case-adjust-bogus-client",
            "option h1-case-adjust-bogus-server",
            "option disable-h2-upgrade",
            "option http-restrict-req-hdr-names",
            "option nullok",
            "option checkcache",
            "option http-drop-request-trailers",
            "option http-drop-response-trailers",
        ],
        "what is no good HTTP is refused, and names that servers read as others are dropped",
    ),
    (
        &["bind … ssl", "bind … alpn", "bind … npn", "bind … verify"],
        "a site with a certificate speaks TLS with HTTP/2 and HTTP/1.1, and a name that no site has gets no certificate",
    ),
    (
        &["bind … strict-sni"],
        "a name that no site has gets no certificate; only a site of an address or of all hosts gives its own to whoever comes",
    ),
    (
        &[
            "bind … name",
            "bind … id",
            "bind … process",
            "bind … thread",
            "bind … level",
            "bind … shards",
            "bind … v4v6",
            "bind … expose-fd",
            "bind … listeners",
            "bind … ocsp-update",
            "bind … generate-certificates",
            "bind … severity-output",
        ],
        "how it listens is seen to without a word: addresses of both families, stapling, and one socket for each thread",
    ),
    (
        &[
            "server … id",
            "server … name",
            "server … enabled",
            "server … non-stick",
            "server … log-proto",
            "server … weight",
            "server … ws",
        ],
        "names and numbers of servers are their addresses",
    ),
    (
        &[
            "server … init-addr",
            "server … resolvers",
            "server … resolve-prefer",
            "server … resolve-net",
            "server … resolve-opts",
            "resolvers nameserver",
            "resolvers parse-resolv-conf",
            "resolvers resolve_retries",
            "resolvers timeout",
            "resolvers hold",
            "resolvers accepted_payload_size",
        ],
        "names are looked up again as the TTL of their records says, and the last good answer is kept; `discover dns= resolver=` names who is asked",
    ),
    (
        &["server … pool-max-conn", "server … pool-purge-delay", "server … pool-low-conn", "server … pool-conn-name"],
        "idle connections are kept, and bounded by `keep-alive` of a pool",
    ),
    (
        &[
            "server … no-check",
            "server … check-ssl",
            "server … fastinter",
            "server … check-send-proxy",
            "server … check-alpn",
            "server … on-error",
        ],
        "checks speak as requests do",
    ),
    (&["default-server"], "what it says holds for each server behind it, and is accounted for word by word"),
    (
        &[
            "http-request track-sc0",
            "http-request track-sc1",
            "http-request track-sc2",
            "http-request sc-inc-gpc0",
            "http-request sc-inc-gpc",
            "http-request sc-set-gpt0",
            "tcp-request connection track-sc0",
            "tcp-request content track-sc0",
            "tcp-request connection track-sc1",
            "tcp-request content track-sc1",
            "tcp-request session track-sc0",
            "http-response sc-inc-gpc0",
        ],
        "who counts is said by the limit itself: a table and what is tracked in it are of no use alone",
    ),
    (
        &[
            "tcp-request content accept",
            "tcp-request connection accept",
            "tcp-request session accept",
            "tcp-response inspect-delay",
        ],
        "the name in the ClientHello is waited for, within `limits { header-timeout }`",
    ),
    (&["userlist user", "userlist group"], "nothing that is carried asks for it"),
    (
        &["cache total-max-size", "cache max-object-size", "cache max-age", "cache process-vary", "cache max-secondary-entries"],
        "`cache` at the top level says how much is kept, and `cache` of a route how long",
    ),
    (&["http-request set-log-level", "http-response set-log-level"], "a line is left out by `log \"off\"` in a route"),
    (
        &[
            "http-request set-var",
            "http-request set-var-fmt",
            "http-response set-var",
            "tcp-request connection set-var",
            "tcp-request content set-var",
            "tcp-request session set-var",
        ],
        "a variable says nothing by itself: what it holds is written where it is asked",
    ),
    (&["no option http-buffer-request"], "bodies go on to servers as they come"),
    (
        &[
            "no option httpclose",
            "no option forceclose",
            "no option http-server-close",
            "no option http-tunnel",
            "no option http-pretend-keepalive",
        ],
        "connections of clients and servers are kept and shared without a word",
    ),
    (
        &[
            "no option dontlognull",
            "no option dontlog-normal",
            "no option log-separate-errors",
            "no option logasap",
            "no option httplog",
        ],
        "every request has a line in `access-log`, once it is answered",
    ),
    (&["no *"], "it takes back what a line of `defaults` has said, and nothing here is made of that line"),
    (&["http-request normalize-uri"], "paths are brought into one form before anything looks at them"),
    (&["http-request disable-l7-retry"], "requests that may not be repeated are not tried again once they were sent"),
    (
        &[
            "http-request set-nice",
            "http-request set-tos",
            "http-request set-mark",
            "http-request strict-mode",
            "http-request wait-for-handshake",
            "http-response set-nice",
            "http-response strict-mode",
            "http-response cache-store",
            "http-response allow",
        ],
        "marks and priorities change nothing that clients and servers say",
    ),
    (
        &[
            "stats refresh",
            "stats hide-version",
            "stats realm",
            "stats show-legends",
            "stats show-node",
            "stats show-desc",
            "stats show-modules",
            "stats scope",
        ],
        "there is no such page: `tidegate top`, and `/metrics` and `/v1` of `admin`",
    ),
    (
        &["traces trace", "ring format", "ring maxlen", "ring size", "ring timeout", "ring server", "ring description"],
        "rings are a way of logging of their own: `access-log` has the targets",
    ),
];

/// What to do about options of a line for which no other sentence is.
const OF_OPTIONS: Reasons = &[
    (
        &["server … *"],
        "a pool says for all of its servers how they are spoken to and asked; a `server` has `weight=`, `backup=`, `priority=`, `zone=` and bounds",
    ),
    (&["bind … *"], "what is said of a place where clients come in is said by `listener` and by the `tls` of a site"),
];

/// What to do about what is not carried, by the words of a statement or its first.
const REMEDIES: Reasons = &[
    (
        &[
            "stats",
            "stats enable",
            "stats uri",
            "stats auth",
            "stats admin",
            "stats socket",
            "stats timeout",
            "stats http-request",
        ],
        "the page, the socket and the exporter are `admin`: `tidegate top` and `status`, `/metrics` and `/v1` (docs/admin-api.md)",
    ),
    (
        &["http-request use-service"],
        "services within the process are in `admin`: `/metrics` is for Prometheus (docs/admin-api.md)",
    ),
    (
        &["errorfile", "errorfiles", "errorloc", "errorloc302", "errorloc303", "http-error"],
        "pages of errors are `error-page 503 file=\"503.html\"`: the page alone, without the status line and the fields that stand above it in such a file",
    ),
    (
        &["http-errors errorfile"],
        "pages of errors are `error-page 503 file=\"503.html\"`: the page alone, without status line and fields",
    ),
    (
        &["peers server", "peers peer", "peers bind", "peers table", "peers default-bind", "peers default-server", "peers log"],
        "nothing is shared by instances: `sticky` and `balance \"hash\"` say the server by the request, and limits count in each instance",
    ),
    (&["mailers mailer", "mailers timeout"], "nobody is written to: alerts are made of `/metrics` (docs/operations.md)"),
    (
        &["program command", "program user", "program group", "program option"],
        "other programs are the service manager's to start",
    ),
    (
        &["lua-load", "lua-load-per-thread", "lua-prepend-path"],
        "Lua is not run: `forward-auth` asks a server who may come in, and steps change requests and answers",
    ),
    (&["filter"], "filters are steps: `compress`, `cache`, `mirror`, and `forward-auth` in the place of an agent of SPOE"),
    (
        &["server … agent-check", "server … agent-port", "server … agent-inter", "server … agent-addr", "server … agent-send"],
        "agents are not asked: `health` asks the server, and `adaptive-concurrency` learns what it can bear",
    ),
    (&["server … track"], "each pool asks its servers itself: write its own `health`"),
    (
        &["server … minconn", "fullconn"],
        "how much a server can bear is learnt by `adaptive-concurrency`, or said by `max-requests`",
    ),
    (&["server … maxqueue"], "how many may wait is said for the pool: `max-requests 100 queue=1000`"),
    (
        &["server … source", "source"],
        "the address that requests come from is the system's to choose: a route of the system says it",
    ),
    (&["server … redir"], "clients are sent to a server by `redirect` in a route"),
    (
        &["server … on-marked-down"],
        "requests on their way to a server that is down are finished, or fail with it: `outlier` keeps others away",
    ),
    (&["server … on-marked-up"], "servers with `backup=#true` finish what they have, and get nothing new when others are back"),
    (&["server … cookie", "cookie"], "clients stay with servers by `sticky`, whose cookie names no server"),
    (
        &["server … observe", "server … error-limit"],
        "servers that fail requests are left alone by `outlier failures=5`, which is on without a word",
    ),
    (&["server … slowstart"], "`slow-start \"30s\"` stands in the pool, for all of its servers"),
    (
        &["server … check-sni", "server … addr"],
        "checks ask the server at its own address; `health port=` names another port, and `tls sni=` of the pool the name",
    ),
    (&["server … check"], "servers are asked by `health` in the pool"),
    (
        &[
            "server … crl-file",
            "server … crt",
            "server … ca-file",
            "server … ssl-min-ver",
            "server … ssl-max-ver",
            "server … force-tlsv12",
            "server … no-tlsv13",
        ],
        "how servers are spoken to is said once for the pool: `tls ca=\"ca.pem\" cert=\"own.pem\" key=\"own.key\"`",
    ),
    (&["server … maxconn"], "bounds are `max-requests=` or `max-connections=` of a server, from 1 on"),
    (&["server … weight"], "weights are from 1 to 256"),
    (&["server … max-reuse"], "`keep-alive requests=` stands in the pool, for all of its servers"),
    (&["server … send-proxy-v2"], "`send-proxy-protocol \"v2\"` stands in the pool, for all of its servers"),
    (
        &["server … socks4", "server … check-via-socks4", "server … namespace", "server … usesrc", "server … tcp-ut"],
        "servers are connected to without another between: the system's routes and namespaces say the way",
    ),
    (&["server"], "its address is not told: a server is `host:port` or `unix:/path`, or `discover dns=` finds it"),
    (
        &["server-template"],
        "its name is not told: `discover dns=\"name:port\"` finds servers, and `dns=\"srv+_http._tcp.name\"` ports as well",
    ),
    (
        &["bind … crt-list"],
        "a list of certificates is a `tls cert=` in the site of each name, with `client-auth` where the list asks clients for theirs",
    ),
    (&["bind … crt"], "a certificate is `tls cert=\"site.pem\"` in its site; without one a site gets its own by ACME"),
    (
        &[
            "bind … ca-file",
            "bind … ca-verify-file",
            "bind … crl-file",
            "bind … verify",
            "bind … crt-ignore-err",
            "bind … ca-ignore-err",
        ],
        "certificates of clients are asked for by `tls { client-auth ca=\"clients-ca.pem\" mode=\"require\" }` of a site",
    ),
    (
        &["bind … accept-proxy", "bind … accept-netscaler-cip"],
        "`listener \":443\" { accept-proxy-protocol from=\"10.0.0.0/8\" }` names who sends the header",
    ),
    (
        &["bind … interface", "bind … transparent", "bind … namespace", "bind … v6only"],
        "a site listens on addresses: write that of the interface, as in `site \"http://192.0.2.1:80\"`",
    ),
    (
        &["bind … ssl-max-ver", "bind … no-tlsv13", "bind … no-tlsv12", "bind … force-tlsv13", "bind … force-tlsv12"],
        "the oldest version is `tls { min \"1.3\" }` of a site, and the newest is always spoken",
    ),
    (&["bind … proto"], "what is spoken is settled in the handshake, or by the first bytes"),
    (
        &["bind … user", "bind … uid", "bind … group", "bind … gid", "bind … mode"],
        "`listener \"unix:/run/front.sock\" { mode \"0660\"; owner \"www-data\" }`",
    ),
    (&["bind … tls-ticket-keys"], "`ticket-keys` at the top level, or a `storage` that all share"),
    (
        &["bind"],
        "where it listens is not told: a site has a port and perhaps an address, as in `site \"http://192.0.2.1:8080\"`, and QUIC is not spoken",
    ),
    (&["use_backend", "use-server"], "what differs by request is a `route` with `match`, in front of those for all others"),
    (&["default_backend"], "what no route has taken goes to `proxy \"app\"`, as the last line of a site"),
    (&["monitor fail", "monitor-net", "monitor"], "whether the process is well is told by `/healthz` and `/readyz` of `admin`"),
    (
        &["dispatch", "option transparent", "option http_proxy", "transparent"],
        "there is no forward proxy: `proxy` names its servers",
    ),
    (
        &[
            "http-check",
            "tcp-check",
            "option external-check",
            "external-check",
            "option httpchk",
            "option tcp-check",
            "option mysql-check",
            "option pgsql-check",
            "option ldap-check",
            "option spop-check",
        ],
        "servers are asked by `health`: a path of HTTP, or what is sent and has to come back by TCP",
    ),
    (&["no log"], "requests of a site that nobody wants to see are left out by `log \"off\"` in it"),
    (
        &["http-request capture", "http-response capture", "tcp-request content capture", "capture"],
        "`log { field \"agent\" \"{request.header.User-Agent}\" }` of a site adds to its lines",
    ),
    (&["cookie"], "clients stay with servers by `sticky`"),
    (
        &["stick", "stick on", "stick match", "stick store-request", "stick store-response"],
        "clients stay with servers by `sticky`, or by `balance \"hash\" key=\"{client.ip}\"`",
    ),
    (
        &["balance"],
        "`balance` is `p2c`, `round-robin`, `least-conn`, `ewma`, `random` or `hash` with a `key=`; one server after another is `priority=`",
    ),
    (
        &["timeout"],
        "`timeout connect= first-byte= idle=` in a pool or a route, and `limits { header-timeout; keep-alive }` for clients",
    ),
    (
        &["tcp-response", "tcp-response content", "tcp-request content", "tcp-request connection", "tcp-request session"],
        "connections are not looked into: a firewall keeps addresses out, and `limits` bounds what one may have",
    ),
    (
        &["http-request deny", "http-request tarpit", "http-request reject", "http-request silent-drop", "block"],
        "where it stands, nothing is handed on in these lines: `route { match path=\"/admin/*\"; respond 403; }` refuses, in front of what does",
    ),
    (&["http-request", "http-response", "http-after-response"], "steps of a site or a route change requests and answers"),
    (&["rate-limit"], "`rate-limit \"100/s\" by=\"all\"` of a site counts everybody together"),
    (&["retries", "retry-on"], "`retry attempts=3 on=\"connect,503\"` of a pool"),
    (&["unique-id-header"], "`request-id header=\"X-Request-ID\"` of a site"),
    (&["log"], "`access-log \"syslog:/dev/log\"` at the top level"),
    (&["maxconn"], "`max-requests` of a pool bounds what goes to servers"),
    (&["compression"], "`compress \"gzip\"` of a site or a route"),
    (
        &[
            "rsprep",
            "rspirep",
            "reqpass",
            "reqipass",
            "reqallow",
            "reqiallow",
            "reqdeny",
            "reqideny",
            "reqtarpit",
            "reqitarpit",
            "rspdeny",
            "rspideny",
            "reqsetbe",
        ],
        "lines of a request are not compared: `route` has conditions on path and fields, `deny` and `respond 403` refuse",
    ),
    (
        &[
            "fcgi-app docroot",
            "fcgi-app index",
            "fcgi-app path-info",
            "fcgi-app set-param",
            "fcgi-app pass-header",
            "use-fcgi-app",
        ],
        "scripts answer by `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\"`",
    ),
    (&["crt-store load"], "a certificate is `tls cert=\"site.pem\" key=\"site.key\"` in its site"),
    (
        &["acme directory", "acme account-key", "acme contact", "acme challenge", "acme bits", "acme curves", "acme keytype"],
        "a site with a public name gets its certificate by ACME without a word; `acme` at the top level says more",
    ),
    (
        &[
            "log-forward bind",
            "log-forward dgram-bind",
            "log-forward log",
            "log-forward maxconn",
            "log-forward timeout",
            "log-forward backlog",
        ],
        "messages of syslog are a daemon's to pass on",
    ),
    (
        &["option forwardfor", "option originalto"],
        "`X-Forwarded-For` is sent without a word; whose own is believed is said by `trusted-proxies` in a `listener`",
    ),
    (&["no"], "what is switched off there is on here, where it is on without a word"),
    (&["persist", "force-persist", "ignore-persist"], "a client stays with its server by `sticky` as long as that can be used"),
    (&["ssl-server-verify"], "servers are verified; `tls verify=#false` of a pool takes any certificate"),
];
