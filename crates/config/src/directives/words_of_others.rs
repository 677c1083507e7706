//! What users of other proxies write out of habit. Help, and nothing that is read.

use crate::language::Said;

/// Words of other proxies, and how the same is said here.
pub static SAID_OTHERWISE: &[Said] = &[
    (&["proxy_pass", "reverse_proxy"], "requests are handed on with `proxy`, as in `proxy \"127.0.0.1:9000\"`"),
    (
        &["fastcgi_pass", "php_fastcgi", "php"],
        "scripts of a FastCGI server answer with `fastcgi`, as in `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\"`",
    ),
    (
        &["fastcgi_param", "fastcgi_params"],
        "params stand in the block of `fastcgi`, as in `env \"APP_ENV\" \"production\"`; the usual ones are there without a word",
    ),
    (
        &["fastcgi_index", "fastcgi_split_path_info", "try_files"],
        "`fastcgi` has `index=`, `split=` and `fallback=`, and `files` has `index=` and `fallback=`",
    ),
    (
        &["fastcgi_read_timeout", "fastcgi_connect_timeout", "fastcgi_send_timeout"],
        "in the block of `fastcgi` it is `timeout connect=\"5s\" first-byte=\"60s\" idle=\"1h\"`",
    ),
    (&["fastcgi_keep_conn"], "in the block of `fastcgi` it is `keep-alive connections=2`"),
    (&["location", "handle", "handle_path"], "a part of a site is a `route`, as in `route \"/api/*\" { … }`"),
    (&["upstream", "upstreams", "backend", "backends"], "servers that do the same work are a `pool`, as in `pool \"api\" { … }`"),
    (
        &["listen", "server_name", "frontend", "vhost", "virtualhost", "entryPoints", "entrypoints"],
        "addresses stand behind `site`, as in `site \"example.com\" { … }` or `site \"http://:8080\" { … }`",
    ),
    (
        &["stream", "ssl_preread", "IngressRouteTCP", "HostSNI", "layer4", "passthrough", "filter_chains"],
        "connections are handed on as they are with `tcp`, as in `tcp \":443\" { sni \"db.example.com\" { proxy \"10.0.0.9:443\" } }`",
    ),
    (&["return", "redir"], "answers are given with `respond 404`, or with `redirect \"https://example.com{uri}\"`"),
    (
        &["ssl_certificate", "ssl_certificate_key"],
        "certificates stand in the site, as in `tls cert=\"cert.pem\" key=\"key.pem\"`",
    ),
    (
        &["proxy_cache", "proxy_cache_valid", "proxy_cache_path", "proxy_cache_key", "cache-use", "cache-store", "souin"],
        "answers are kept with `cache` in a site or route, as in `cache fresh=\"404 30s\"`; where, with `cache` at the top level",
    ),
    (
        &["ssl_session_ticket_key", "tls-ticket-keys", "session_ticket_keys"],
        "ticket keys that hosts share stand at the top level, as in `ticket-keys shared=#true` or `ticket-keys \"/run/secrets/ticket.key\"`",
    ),
    (&["ssl_early_data", "allow_0rtt", "allow-0rtt", "zero-rtt", "0rtt"], "in a site's `tls` it is `early-data #true`"),
    (
        &["ssl_stapling", "SSLUseStapling"],
        "it is on where a certificate names a responder; `ocsp-stapling #false` in a site's `tls` turns it off",
    ),
    (&["ssl_session_tickets", "session_tickets"], "in a site's `tls` it is `tickets #false`"),
    (&["merge_slashes"], "what is made of `//` and `%2F` is said with `path-policy`, as in `path-policy slashes=\"keep\"`"),
    (
        &[
            "limit_req",
            "limit_req_zone",
            "rate_limit",
            "ratelimit",
            "rateLimit",
            "local_ratelimit",
            "throttle",
            "rate_limits",
            "stick-table",
        ],
        "how often a client may ask is said with `rate-limit`, as in `rate-limit \"10/s\" burst=20 by=\"client-ip\"`",
    ),
    (
        &["limit_conn", "limit_conn_zone", "inFlightReq", "inflightreq", "in-flight-req"],
        "how many requests of a client may be on their way at once is said with `concurrency-limit`, as in `concurrency-limit 10 by=\"client-ip\"`",
    ),
    (
        &["split_clients", "weighted_clusters", "weighted"],
        "requests are spread over pools with `split`, as in `split { proxy \"web\" weight=95; proxy \"canary\" weight=5; }`",
    ),
    (
        &["mirroring", "mirror_request_body", "request_mirror_policies"],
        "copies of requests go to another pool with `mirror`, as in `mirror \"shadow\" sample=\"10%\"`",
    ),
    (
        &["proxy_connect_timeout", "proxy_read_timeout", "proxy_send_timeout", "response_header_timeout"],
        "how long requests may take is said with `timeout`, as in `timeout connect=\"2s\" first-byte=\"30s\"`, in a route or for a pool",
    ),
    (
        &["access_log", "log_skip", "skip_log", "accessLog"],
        "where requests are logged is said with `access-log` at the top level; which of a site or a route, with `log \"off\"` or `log sample=\"1%\"` in it",
    ),
    (
        &["auth_basic", "auth_basic_user_file", "basicauth", "basic_auth", "basicAuth", "http_basic_auth"],
        "names and passwords are asked for with `basic-auth`, as in `basic-auth file=\"/etc/tidegate/htpasswd\" realm=\"Staff\"`",
    ),
    (
        &["error_page", "handle_errors", "errorfile", "errorfiles", "proxy_intercept_errors", "errors"],
        "what errors look like is said with `error-page`, as in `error-page 404 file=\"404.html\"`; `from=\"all\"` is those of upstreams too",
    ),
    (
        &["accept-proxy", "proxy_protocol", "proxyProtocol", "proxy-protocol"],
        "headers of the PROXY protocol are taken with `listener \":443\" { accept-proxy-protocol from=\"10.0.0.0/8\" }`, and sent with `send-proxy-protocol` in a pool",
    ),
    (&["add_header", "proxy_set_header"], "header fields are changed with `header`, `response-header` and `request-header`"),
];
