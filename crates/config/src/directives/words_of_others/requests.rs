//! What other proxies call routes and steps: which requests are meant, and what is done with them.

use crate::language::Said;

pub static SAID: &[Said] = &[
    // Routes.
    (
        &["location", "handle", "handle_path", "path_beg", "PathPrefix", "routers", "router", "routes", "paths"],
        "a part of a site is a `route`, as in `route \"/api/*\" { proxy \"127.0.0.1:9000\" }`",
    ),
    (
        &["rule", "matchers", "acl", "if", "unless", "else", "elif", "switch", "geo", "set", "vars", "use_backend", "expression"],
        "what differs by request is a `route` with `match`, as in `route \"/api/*\" { match method=\"POST\"; proxy \"127.0.0.1:9000\" }`; \
         the first route of the file that fits is taken",
    ),
    (
        &["default_backend", "default_service"],
        "what no route in front of it has taken goes to `proxy \"app\"`, as the last line of the site; `app` is the name of a `pool`",
    ),
    (
        &[
            "path",
            "path_regexp",
            "path_reg",
            "header_regexp",
            "remote_ip",
            "client_ip",
            "src",
            "method",
            "methods",
            "query",
            "HostRegexp",
            "query_parameters",
            "limit_except",
            "safe_regex",
        ],
        "conditions stand in a route, behind its path or in `match`, as in `match method=\"GET,POST\" client=\"10.0.0.0/8\" query=\"a=1\"`; \
         a pattern with `~` is a regular expression, as in `route \"~^/v[0-9]+/\" { respond 204 }`",
    ),
    (&["priority", "order"], "the order of the file decides: put the route that is special in front of the one that is general"),
    // Steps that answer.
    (
        &["proxy_pass", "reverse_proxy", "ProxyPassReverse", "forward", "upstream_proxy"],
        "requests are handed on with `proxy`, as in `proxy \"127.0.0.1:9000\"`",
    ),
    (
        &["grpc_pass", "grpc", "grpc_set_header", "grpc_web", "h2c"],
        "gRPC is handed on with `proxy`, as in `proxy \"127.0.0.1:50051\" { protocol \"h2c\" }`",
    ),
    (
        &["fastcgi_pass", "php_fastcgi", "php"],
        "scripts of a FastCGI server answer with `fastcgi`, as in `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\"`",
    ),
    (
        &["fastcgi_param", "fastcgi_params"],
        "params stand in the block of `fastcgi`, as in `env \"APP_ENV\" \"production\"`; the usual ones are there without a word",
    ),
    (
        &["fastcgi_index", "fastcgi_split_path_info", "fcgi-app", "use-fcgi-app"],
        "scripts are found by `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\" index=\"index.php\"`; `split=` and `fallback=` are there as well",
    ),
    (
        &["fastcgi_read_timeout", "fastcgi_connect_timeout", "fastcgi_send_timeout"],
        "in the block of `fastcgi` it is `timeout connect=\"5s\" first-byte=\"60s\" idle=\"1h\"`",
    ),
    (&["fastcgi_keep_conn"], "in the block of `fastcgi` it is `keep-alive connections=2`"),
    (
        &["uwsgi", "uwsgi_pass", "uwsgi_param", "scgi_pass", "scgi_param"],
        "uWSGI and SCGI are not spoken; start uWSGI with `--http-socket 127.0.0.1:3031` and write `proxy \"127.0.0.1:3031\"`",
    ),
    (
        &[
            "root",
            "alias",
            "file_server",
            "static",
            "docroot",
            "DocumentRoot",
            "autoindex",
            "index",
            "DirectoryIndex",
            "browse",
            "hide",
        ],
        "files answer with `files`, as in `files \"/srv/www\" index=\"index.html\"`; `listing=#true` lists folders",
    ),
    (
        &["try_files"],
        "files with one that answers for those that are missing: `files \"/srv/www\" fallback=\"/index.html\"`; before scripts it is \
         `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\" fallback=\"/index.php\" static=#true`",
    ),
    (
        &["return", "direct_response", "deny_status", "abort", "error"],
        "answers are given with `respond`, as in `respond 200 body=\"ok\"`, or with `redirect \"https://example.com{uri}\" status=301`",
    ),
    (
        &[
            "redir",
            "redirectScheme",
            "redirectRegex",
            "https_redirect",
            "redirections",
            "Redirect301",
            "RedirectPermanent",
            "auto_https",
        ],
        "clients are sent elsewhere with `redirect`, as in `redirect \"https://www.example.com{uri}\" status=301`; from plain HTTP they are \
         where a site has neither scheme nor port, as in `site \"example.com\" { respond 204 }`",
    ),
    (
        &["split_clients", "weighted_clusters", "weighted", "weightedRoundRobin", "total_weight"],
        "requests are spread over pools with `split`, as in `split { proxy \"10.0.0.4:80\" weight=95; proxy \"10.0.0.9:80\" weight=5 }`",
    ),
    // Header fields and paths.
    (
        &[
            "proxy_set_header",
            "header_up",
            "request_header",
            "request_headers_to_add",
            "request_headers_to_remove",
            "customRequestHeaders",
            "proxy_pass_request_headers",
            "reqadd",
            "fastcgi_pass_header",
            "set_header",
        ],
        "fields of requests are changed with `request-header`, as in `request-header \"X-Client\" \"{client.ip}\"`; `Host`, `X-Forwarded-For`, \
         `X-Forwarded-Proto` and what a WebSocket needs are sent without a word",
    ),
    (
        &["underscores_in_headers", "headers_with_underscores_action"],
        "names with underscores go on, but those that would be read as one that is set here; `header-names \"drop\"` drops them all, and `\"refuse\"` answers them with 400",
    ),
    (
        &["passHostHeader", "host_rewrite_literal", "auto_host_rewrite", "host_rewrite", "ProxyPreserveHost", "upstream_vhost"],
        "`Host` goes on as the client sent it, without a word; a server that wants its own name is told it by `request-header \"Host\" \"app.internal\"`",
    ),
    (
        &["forwardfor", "x-forwarded-for", "proxy_add_x_forwarded_for", "forwarded"],
        "leave it out: `X-Forwarded-For`, `-Proto`, `-Host` and `-Port` are sent without a word",
    ),
    (
        &[
            "add_header",
            "header_down",
            "response_headers_to_add",
            "customResponseHeaders",
            "more_set_headers",
            "http-after-response",
            "rspadd",
            "headers",
            "stsSeconds",
            "stsIncludeSubdomains",
            "stsPreload",
            "frameDeny",
            "contentTypeNosniff",
            "browserXssFilter",
            "expires",
            "hsts",
            "ssl_hsts",
            "etag",
            "securityHeaders",
        ],
        "fields of answers are changed with `header`, as in `header \"Strict-Transport-Security\" \"max-age=31536000\"` or `header \"Cache-Control\" \"max-age=3600\"`",
    ),
    (
        &[
            "proxy_hide_header",
            "fastcgi_hide_header",
            "response_headers_to_remove",
            "more_clear_headers",
            "server_tokens",
            "rspdel",
            "header_remove",
        ],
        "fields of answers are removed with `header`, as in `header remove=\"X-Powered-By\"`; a `Server` of our own is never added",
    ),
    (
        &["http-request redirect", "return 301", "return 302", "return 303", "return 307", "return 308"],
        "clients are sent elsewhere with `redirect`, as in `redirect \"https://example.com{uri}\" status=301`",
    ),
    (
        &["http-request set-header", "http-request add-header", "http-request del-header", "http-request replace-header"],
        "fields of requests are changed with `request-header`, as in `request-header \"X-Client\" \"{client.ip}\"` or `request-header remove=\"X-A\"`; \
         `X-Forwarded-For`, `-Proto` and `-Host` are sent without a word",
    ),
    (
        &["http-response set-header", "http-response add-header", "http-response del-header", "http-response replace-header"],
        "fields of answers are changed with `header`, as in `header \"X-Frame-Options\" \"DENY\"` or `header remove=\"Server\"`",
    ),
    (
        &[
            "http-request deny",
            "http-request reject",
            "http-request tarpit",
            "http-request silent-drop",
            "tcp-request connection",
        ],
        "who may not ask is refused with `deny \"192.0.2.0/24\"`, and what nobody may ask for with `route \"/admin/*\" { respond 403 }`",
    ),
    (&["http-request return"], "answers are given with `respond`, as in `route \"/healthz\" { respond 200 body=\"ok\" }`"),
    (
        &["http-request auth"],
        "names and passwords are asked for with `basic-auth`, as in `basic-auth file=\"/etc/tidegate/htpasswd\" realm=\"Staff\"`",
    ),
    (
        &["http-request track-sc0", "http-request track-sc1"],
        "how often a client may ask is said with `rate-limit`, as in `rate-limit \"10/s\" burst=20 by=\"client-ip\"`",
    ),
    (
        &[
            "http-request set-path",
            "http-request replace-path",
            "http-request replace-uri",
            "http-request set-uri",
            "uri replace",
            "uri path_regexp",
        ],
        "paths are changed with `rewrite \"~^/old/(.*)$\" \"/new/$1\"`, `strip-prefix \"/api\"` and `add-prefix \"/v1\"`, in front of `proxy`",
    ),
    (&["uri strip_prefix"], "a prefix is taken off with `strip-prefix \"/api\"`, in front of `proxy`"),
    (
        &["monitor-uri"],
        "who asks whether it runs is answered by a route, as in `route \"/healthz\" { respond 200 body=\"ok\" }`, and at `/healthz` of `admin`",
    ),
    (&["option"], "an option of HAProxy is on, or has a word of its own here: docs/from-haproxy.md"),
    (
        &["middlewares", "middleware", "http_filters", "filters", "handler"],
        "what is done with a request are lines of the site or the route, in their order, as in `route \"/api/*\" { strip-prefix \"/api\"; compress; proxy \"127.0.0.1:9000\" }`",
    ),
    (
        &["http-request", "http-response", "tcp-request", "tcp-response"],
        "each rule is a line of its own: `request-header \"X-Client\" \"{client.ip}\"`, `response-header remove=\"Server\"`, `rewrite \"~^/old/(.*)$\" \"/new/$1\"`, \
         `redirect \"https://example.com{uri}\"`, `deny \"10.0.0.0/8\"`, `respond 403`",
    ),
    (
        &[
            "replacePath",
            "replacePathRegex",
            "regex_rewrite",
            "prefix_rewrite",
            "uri",
            "set-path",
            "path_rewrite",
            "RewriteRule",
            "RewriteCond",
            "RewriteEngine",
        ],
        "paths are changed with `rewrite \"~^/old/(.*)$\" \"/new/$1\"`, `strip-prefix \"/api\"` and `add-prefix \"/v1\"`, in front of `proxy`",
    ),
    (&["stripPrefixRegex", "strip_path_prefix"], "a prefix is taken off with `strip-prefix`, as in `strip-prefix \"/api\"`"),
    (
        &["proxy_redirect", "proxy_cookie_path", "proxy_cookie_domain", "proxy_cookie_flags"],
        "what `Location` and cookies of a server name is replaced by `rewrite-location \"http://10.0.0.4/two/\" \"/one/\"`, `rewrite-cookie-path` and `rewrite-cookie-domain`; for an application beneath a prefix all of it is translated by \
         `proxy \"127.0.0.1:9000\" rewrite-location=#true` behind `strip-prefix \"/app\"`",
    ),
    (
        &["X-Accel-Redirect", "X-Sendfile", "XSendFilePath", "internal"],
        "files that an application names are sent from a folder of `send-file`, as in `send-file \"/srv/protected\" under=\"/protected\"`",
    ),
    (
        &["merge_slashes", "normalize_path", "normalize-uri", "path_with_escaped_slashes_action"],
        "spellings of a path are the business of `path-policy`, as in `path-policy slashes=\"keep\" encoded-slashes=\"refuse\"`",
    ),
    // Bodies.
    (
        &[
            "client_max_body_size",
            "request_body",
            "max_size",
            "maxRequestBodyBytes",
            "buffering",
            "LimitRequestBody",
            "max_request_bytes",
            "buffer",
        ],
        "what clients may send is bounded with `body-limit`, as in `body-limit \"10MB\"`; without it bodies are streamed, whatever their size",
    ),
    (
        &[
            "gzip",
            "gzip_types",
            "gzip_vary",
            "gzip_proxied",
            "gzip_comp_level",
            "gzip_min_length",
            "gzip_http_version",
            "gzip_disable",
            "gzip_buffers",
            "gzip_static",
            "brotli",
            "brotli_types",
            "brotli_comp_level",
            "brotli_static",
            "zstd",
            "zstd_types",
            "encode",
            "compression",
            "filter compression",
            "compressor",
            "compression_level",
            "minimum_length",
            "match_types",
        ],
        "answers are compressed with `compress`, a line without more; `compress \"zstd\" \"gzip\" level=6` says how, and \
         `files \"/srv/www\" precompressed=#true` sends what is compressed already",
    ),
    (&["gunzip", "decompressor"], "bodies are unpacked with `decompress`, a line without more"),
    (
        &[
            "proxy_cache",
            "proxy_cache_valid",
            "proxy_cache_path",
            "proxy_cache_key",
            "proxy_cache_bypass",
            "proxy_no_cache",
            "proxy_cache_use_stale",
            "proxy_cache_lock",
            "proxy_cache_methods",
            "fastcgi_cache",
            "fastcgi_cache_valid",
            "fastcgi_cache_path",
            "cache-use",
            "cache-store",
            "souin",
            "http_cache",
            "open_file_cache",
        ],
        "answers are kept with `cache` in a site or route, as in `cache fresh=\"404 30s\"`; where, with `cache` at the top level",
    ),
    // Who may.
    (
        &[
            "limit_req",
            "limit_req_zone",
            "limit_req_status",
            "rate_limit",
            "local_ratelimit",
            "throttle",
            "rate_limits",
            "stick-table",
            "average",
            "token_bucket",
        ],
        "how often a client may ask is said with `rate-limit`, as in `rate-limit \"10/s\" burst=20 by=\"client-ip\"`",
    ),
    (
        &["limit_rate", "limit_rate_after"],
        "how fast an answer is sent is not bounded in this version; how often clients may ask is, with `rate-limit \"10/s\" burst=20`",
    ),
    (
        &["limit_conn", "limit_conn_zone", "limit_conn_status", "inFlightReq"],
        "how many requests of a client may be on their way at once is said with `concurrency-limit`, as in `concurrency-limit 10 by=\"client-ip\"`",
    ),
    (
        &["ipAllowList", "ipWhiteList", "whitelist", "sourceRange", "ip_allow", "Require", "rbac"],
        "who may ask is said with `allow`, as in `allow \"10.0.0.0/8\" \"192.0.2.7\"`; everybody else gets 403",
    ),
    (
        &["satisfy"],
        "`satisfy any` is `auth \"any\" { allow \"10.0.0.0/8\"; basic-auth file=\"/etc/tidegate/htpasswd\"; }`; that all of them have to be satisfied is so without a word",
    ),
    (
        &["api_key_auth", "key-auth", "apiKey"],
        "keys of programs are asked for with `api-key file=\"/etc/tidegate/keys\"`, and `tidegate hash-key NAME` makes one with its line",
    ),
    (
        &["auth_basic", "auth_basic_user_file", "basicauth", "http_basic_auth", "userlist", "AuthType", "AuthUserFile"],
        "names and passwords are asked for with `basic-auth`, as in `basic-auth file=\"/etc/tidegate/htpasswd\" realm=\"Staff\"`",
    ),
    (
        &["auth_request", "auth_request_set", "forwardAuth", "ext_authz", "authelia", "authentik"],
        "another server is asked who may come in with `forward-auth`, as in `forward-auth \"http://127.0.0.1:9091\" preset=\"authelia\"`",
    ),
    (
        &["oauth2", "auth_oidc", "oidc_provider", "mod_auth_openidc"],
        "a log-in at an OpenID provider is `oidc issuer=\"https://idp.example.com\" client=\"…\" secret=\"…\"`, with `require` lines in its block",
    ),
    (
        &["digestAuth", "auth_digest", "AuthDigestProvider"],
        "digest is not spoken, since it needs passwords as they are: names and passwords are asked for with `basic-auth file=\"/etc/tidegate/htpasswd\"`, over TLS",
    ),
    (
        &["auth_jwt", "auth_jwt_key_file", "auth_jwt_key_request", "jwt_authn", "jwt_verify"],
        "signed tokens are verified by `jwt jwks=\"https://idp.example.com/jwks.json\" issuer=\"https://idp.example.com\"`, with `require` lines in its block",
    ),
    // What the answer to an error is, and copies.
    (
        &[
            "error_page",
            "handle_errors",
            "errorfile",
            "errorfiles",
            "errorloc",
            "http-error",
            "proxy_intercept_errors",
            "fastcgi_intercept_errors",
            "errors",
            "ErrorDocument",
            "local_reply_config",
            "intercept",
            "handle_response",
        ],
        "what errors look like is said with `error-page`, as in `error-page 404 body=\"<h1>{status}</h1>\" content-type=\"text/html\"` or with `file=`; \
         `from=\"all\"` is those of upstreams too",
    ),
    (
        &["mirroring", "mirror_request_body", "request_mirror_policies"],
        "copies of requests go to another pool with `mirror`, as in `mirror \"10.0.0.9:8080\" sample=\"10%\"`",
    ),
    (
        &[
            "access_log",
            "log_skip",
            "skip_log",
            "log_format",
            "httplog",
            "dontlognull",
            "capture",
            "CustomLog",
            "observability",
            "output",
            "roll_size",
            "roll_keep",
        ],
        "where requests are logged is said with `access-log` at the top level, as in `access-log \"/var/log/tidegate/access.log\"`; which of a site or a route, \
         with `log \"off\"` or `log sample=\"1%\"` in it",
    ),
    (
        &[
            "sub_filter",
            "sub_filter_once",
            "subs_filter",
            "templates",
            "replace_response",
            "njs",
            "js_content",
            "js_import",
            "lua",
            "lua-load",
            "content_by_lua_block",
            "access_by_lua_file",
            "filter",
            "spoe",
            "fault",
            "plugin",
            "plugins",
            "perl",
        ],
        "bodies are not changed and no code is run in this version; header fields are changed with `header \"X-Frame-Options\" \"DENY\"`, paths with `rewrite \"~^/old/(.*)$\" \"/new/$1\"`",
    ),
    (
        &["websocket", "websockets", "upgrade", "upgrade_configs", "connection_upgrade", "allow_connect", "proxy_websocket"],
        "leave it out: `proxy` passes WebSockets and other upgrades on without a word, over HTTP/2 as well",
    ),
];
