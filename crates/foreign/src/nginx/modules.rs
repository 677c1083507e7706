//! Words of nginx that nothing here says by itself: what to do in their place, and of those that a module brings which
//! one it is.

/// What to do about a statement of that name that is not carried.
pub fn remedy(name: &str) -> Option<&'static str> {
    let of = REMEDIES.iter().find(|(words, _)| words.contains(&name)).map(|(_, what)| *what);
    of.or_else(|| MODULES.iter().find(|(beginnings, _)| begins(name, beginnings)).map(|(_, what)| *what))
}

fn begins(name: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| match beginning.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *beginning,
    })
}

/// Words of nginx itself.
const REMEDIES: &[(&[&str], &str)] = &[
    (&["allow", "deny"], "who may come in is said with `allow \"10.0.0.0/8\"` and `deny \"192.0.2.1\"` in a site or a route"),
    (
        &["rewrite"],
        "a path is changed with `rewrite \"~^/old/(.*)$\" \"/new/$1\"` in a route, and a client sent elsewhere with `redirect`; the route \
         stays the one that was taken",
    ),
    (
        &["listen … quic"],
        "HTTP/3 is not in this version: clients use HTTP/2 by the `listen … ssl` of the same port, and are not told of more",
    ),
    (&["listen … udp"], "UDP is not handed on in this version"),
    (
        &["listen … proxy_protocol"],
        "who sends the header of the PROXY protocol is named in a `listener`, as in `accept-proxy-protocol from=\"10.0.0.0/8\"`",
    ),
    (
        &["listen"],
        "where it listens is not told: a site has a port and perhaps an address, as in `site \"http://192.0.2.1:8080\"`, or a socket, \
         as in `site \"http://unix:/run/front.sock\"`",
    ),
    (&["server"], "a server of a pool is `server \"10.0.0.4:8080\"`"),
    (
        &["status", "status_format", "upstream_conf"],
        "what is known of pools and servers is in the API of `admin` and in `tidegate status`",
    ),
    (
        &["upload_progress", "track_uploads", "report_uploads", "upload_progress_json_output"],
        "the module upload-progress tells how far an upload is, which browsers know themselves",
    ),
    (
        &["limit_rate", "limit_rate_after", "proxy_limit_rate", "fastcgi_limit_rate", "proxy_upload_rate", "proxy_download_rate"],
        "answers go out as fast as they come: how much a client gets is bounded by `rate-limit` and `concurrency-limit`",
    ),
    (
        &["sub_filter", "sub_filter_once", "sub_filter_types", "sub_filter_last_modified"],
        "texts of answers are not changed: `strip-prefix` and `proxy \"app\" rewrite-location=#true` mount an application beneath a \
         prefix, and the rest is the application's to say",
    ),
    (&["addition_types", "add_before_body", "add_after_body"], "texts of answers are not changed, so nothing is put around them"),
    (
        &["ssi", "ssi_types", "ssi_silent_errors", "ssi_value_length", "ssi_min_file_chunk", "ssi_last_modified"],
        "pages are sent as they are: server-side includes are the application's to fill in",
    ),
    (&["xslt_stylesheet", "xml_entities", "xslt_types", "xslt_param", "xslt_string_param"], "answers are not transformed"),
    (
        &[
            "uwsgi_pass",
            "uwsgi_param",
            "uwsgi_read_timeout",
            "uwsgi_send_timeout",
            "uwsgi_connect_timeout",
            "uwsgi_buffering",
            "uwsgi_max_temp_file_size",
            "uwsgi_buffers",
            "uwsgi_buffer_size",
            "uwsgi_intercept_errors",
            "uwsgi_modifier1",
            "uwsgi_param_pass",
        ],
        "uWSGI's own protocol is not spoken: `http-socket = 127.0.0.1:8000` in its configuration speaks HTTP, and `proxy \
         \"127.0.0.1:8000\"` hands on to it",
    ),
    (
        &["scgi_pass", "scgi_param"],
        "SCGI is not spoken: most of its servers speak FastCGI or HTTP too, for `fastcgi` and `proxy`",
    ),
    (&["memcached_pass", "memcached_key"], "answers are not taken from memcached: `cache` keeps those of an application"),
    (
        &["stub_status"],
        "how many requests and connections there are is at `/metrics` of `admin`, as in `admin \"127.0.0.1:9180\" serve=\"metrics\"`, \
         and in `tidegate status`",
    ),
    (&["empty_gif"], "`files` answers with a picture of your own"),
    (
        &[
            "dav_methods",
            "dav_access",
            "dav_ext_methods",
            "create_full_put_path",
            "min_delete_depth",
            "dav_ext_lock",
            "dav_ext_lock_zone",
        ],
        "files are read here and never written: WebDAV is another server's, behind `proxy`",
    ),
    (
        &["mail", "smtp", "imap", "pop3", "smtp_auth", "imap_auth", "pop3_auth", "auth_http", "starttls"],
        "mail is handed on as it is, with `tcp \":993\" { proxy \"10.0.0.4:993\" }`",
    ),
    (
        &["proxy_bind", "fastcgi_bind", "grpc_bind"],
        "connections to servers leave from the address that the system chooses: a route of the system says another one",
    ),
    (
        &[
            "proxy_method",
            "proxy_set_body",
            "proxy_pass_request_body",
            "proxy_pass_request_headers",
            "fastcgi_pass_request_body",
            "fastcgi_pass_request_headers",
        ],
        "requests go on with their own method, fields and body: `request-header remove=\"Authorization\"` leaves a field out",
    ),
    (
        &["proxy_cookie_flags"],
        "cookies go on as the application sets them: its own settings have `Secure`, `HttpOnly` and `SameSite`",
    ),
    (&["proxy_cookie_domain"], "domains of cookies are replaced by `rewrite-cookie-domain \"app.internal\" \"{host}\"`"),
    (
        &["proxy_cookie_path"],
        "paths of cookies are replaced by `rewrite-cookie-path \"/two/\" \"/one/\"`, and translated by `rewrite-location=#true` of `proxy` \
         behind a `strip-prefix`; `Secure`, `HttpOnly` and `SameSite` are the application's own to say",
    ),
    (
        &["proxy_redirect"],
        "`Location` is replaced by `rewrite-location \"http://10.0.0.4/two/\" \"/one/\"`; for an application that `strip-prefix` has mounted, \
         `rewrite-location=#true` of `proxy` translates what names a server of the pool or the host that was asked for",
    ),
    (
        &["proxy_store", "proxy_store_access", "fastcgi_store"],
        "answers are kept by `cache`, and written to no folder that others read",
    ),
    (
        &["ssl_conf_command", "proxy_ssl_conf_command"],
        "nothing of a library for TLS is turned: versions are `min`, suites `ciphers`, in the block of `tls`",
    ),
    (
        &["ssl_password_file", "proxy_ssl_password_file"],
        "keys are read without a password: `openssl pkey -in old.key -out new.key` takes it off",
    ),
    (
        &["ssl_ocsp", "ssl_ocsp_responder", "ssl_ocsp_cache"],
        "which certificates of clients are revoked is said by a list, with `crl=` of `client-auth`",
    ),
    (&["ssl_certificate_cache", "ssl_object_cache_inheritable"], "certificates are read once and watched"),
    (&["ssl_certificate_compression"], "certificates are sent as they are"),
    (&["ssl_alpn"], "versions of HTTP that are offered are `alpn` in the block of `tls`"),
    (
        &["satisfy"],
        "`auth \"any\"` has several ways to be let in of which one is enough, as in `auth \"any\" { allow \"10.0.0.0/8\"; basic-auth \
         file=\"htpasswd\" }`",
    ),
    (
        &["secure_link", "secure_link_md5", "secure_link_secret"],
        "links that are signed are not verified here: `forward-auth` asks a server that does",
    ),
    (&["auth_delay"], "who guesses passwords is held up by `failures=` of `basic-auth`"),
    (
        &["userid", "userid_name", "userid_domain", "userid_path", "userid_expires", "userid_p3p"],
        "no cookies are set to count people: `{request.id}` names a request",
    ),
    (&["random_index"], "a folder answers with one index: `index=` of `files`"),
    (
        &["mp4", "flv", "mp4_buffer_size", "mp4_max_buffer_size"],
        "ranges of files are answered, which is what players ask for today",
    ),
    (&["slice"], "with `cache whole-for-ranges=#true` a request for a part fetches the whole"),
    (&["image_filter", "image_filter_buffer", "image_filter_jpeg_quality"], "pictures are sent as they are"),
    (&["perl", "perl_set", "perl_modules", "perl_require"], "programs of an imported file are not run"),
    (
        &["http3", "http3_hq", "quic_retry", "quic_gso", "quic_bpf", "http3_max_concurrent_streams", "http3_stream_buffer_size"],
        "HTTP/3 is not in this version: clients use HTTP/2, and are not told of more",
    ),
    (&["internal_redirect"], "`route` and `match` say which requests are meant, before a path is changed"),
    (
        &["auth_jwt", "auth_jwt_key_file", "auth_jwt_key_request", "auth_jwt_require", "auth_jwt_type"],
        "tokens are asked for with `jwt`, as in `jwt jwks=\"https://idp.example.com/jwks.json\" issuer=\"https://idp.example.com\"`",
    ),
    (
        &["health_check", "match", "health_check_timeout"],
        "servers are asked whether they are well with `health` in a `pool`, as in `health \"/healthz\"`",
    ),
    (&["queue"], "requests wait in a pool with `max-requests 100 queue=500`"),
    (
        &[
            "js_import",
            "js_content",
            "js_set",
            "js_access",
            "js_header_filter",
            "js_body_filter",
            "js_path",
            "js_var",
            "js_preload_object",
            "js_fetch_trusted_certificate",
            "js_periodic",
            "js_shared_dict_zone",
        ],
        "programs of the module njs are not run: what they decide is said with `match`, `map` and `forward-auth`, or by an application",
    ),
    (
        &["otel_exporter", "otel_trace", "otel_trace_context", "otel_service_name", "otel_span_name", "otel_span_attr"],
        "`request-id trace=\"1%\"` makes a `traceparent` where none is; sending spans is not in this version",
    ),
    (&["perl_set_env", "env"], "the environment is the service manager's"),
    (
        &["geoip_country", "geoip_city", "geoip_org", "geoip_proxy", "geoip_proxy_recursive"],
        "files of the old form are not read: `geoip \"/var/lib/GeoIP/GeoLite2-Country.mmdb\"` takes MMDB, for `{geo.country}` and `match country=\"DE\"`",
    ),
];

/// Words that modules of others bring, by what they begin with.
const MODULES: &[(&[&str], &str)] = &[
    (
        &[
            "access_by_lua*",
            "content_by_lua*",
            "rewrite_by_lua*",
            "header_filter_by_lua*",
            "body_filter_by_lua*",
            "log_by_lua*",
            "init_by_lua*",
            "init_worker_by_lua*",
            "set_by_lua*",
            "balancer_by_lua*",
            "ssl_certificate_by_lua*",
            "preread_by_lua*",
            "server_rewrite_by_lua*",
            "exit_worker_by_lua*",
            "lua_*",
        ],
        "programs of the module lua-nginx (OpenResty) are not run: what they decide is said with `match`, `map`, `jwt`, `forward-auth` \
         and `rate-limit`, or by an application",
    ),
    (
        &["js_*"],
        "programs of the module njs are not run: what they decide is said with `match`, `map` and `forward-auth`, or by an application",
    ),
    (
        &["modsecurity*", "ModSecurity*", "SecRule*"],
        "the module ModSecurity is a firewall for applications, which is not here: it stands in front or behind, in a proxy of its own",
    ),
    (
        &["more_set_input_headers", "more_clear_input_headers"],
        "the module headers-more changes fields of requests, as `request-header` does",
    ),
    (&["more_*"], "the module headers-more changes fields of answers, as `header` does"),
    (&["brotli*"], "the module brotli compresses; `compress \"br\" \"gzip\"` does it here"),
    (&["zstd*"], "the module zstd compresses; `compress \"zstd\" \"gzip\"` does it here"),
    (&["vhost_traffic_status*"], "the module vts counts; counts are at `/metrics` of `admin`, for each site and pool"),
    (&["pagespeed*"], "the module PageSpeed changes pages; here they are sent as they are"),
    (
        &["auth_pam*"],
        "the module PAM asks the system for passwords: `basic-auth file=\"htpasswd\"` has them in a file, `forward-auth` asks a server",
    ),
    (
        &["auth_ldap*", "ldap_server*"],
        "the module LDAP asks a directory for passwords: `forward-auth` asks a server that does, `oidc` a provider that has the directory",
    ),
    (&["auth_digest*"], "digest log-ins are not there: `basic-auth` over TLS says the same"),
    (&["auth_spnego*", "auth_gss*"], "Kerberos is not spoken: `oidc` or `forward-auth` ask somebody who does"),
    (
        &[
            "rtmp*",
            "push",
            "pull",
            "hls*",
            "dash*",
            "record*",
            "exec*",
            "application",
            "live",
            "chunk_size",
            "allow_publish",
            "on_publish*",
            "notify_method",
            "meta",
            "wait_key",
            "interleave",
            "drop_idle_publisher",
        ],
        "streams of RTMP are not spoken: a server for them stands beside",
    ),
    (
        &["passenger*", "rack_env", "rails_env"],
        "the module Passenger runs applications: here they run by themselves, and `proxy` hands on to them",
    ),
    (&["upload_*"], "the module upload keeps bodies in files; here they go to the application as they come"),
    (&["fancyindex*"], "the module fancyindex makes lists of folders; `files \"/srv\" listing=#true` has one"),
    (&["echo*"], "the module echo answers with texts; `respond 200 body=\"…\"` does"),
    (
        &[
            "set_secure_random_*",
            "set_md5",
            "set_escape_uri",
            "set_unescape_uri",
            "set_misc*",
            "set_hmac_sha1",
            "set_encode_base64",
            "set_decode_base64",
            "set_form_input",
        ],
        "the module set-misc computes values; placeholders bring those that are known: `{request.id}` is one by chance",
    ),
    (
        &["srcache*", "redis*", "redis2*", "memc*"],
        "the module keeps answers in Redis or memcached; `cache` keeps them in memory and on disk",
    ),
    (
        &["proxy_cache_purge", "fastcgi_cache_purge", "cache_purge*"],
        "kept answers are removed by `tidegate purge`, or by clients with `purge-token=` of `cache`",
    ),
    (
        &["check", "check_http_send", "check_http_expect_alive", "check_shm_size", "check_status", "check_keepalive_requests"],
        "the module upstream-check asks servers; `health \"/healthz\"` in a `pool` does",
    ),
    (&["sticky*"], "a client stays with its server with `sticky` in a `pool`"),
    (&["jsonp*", "xss*"], "answers are not wrapped; `cors` lets pages of other origins read them"),
    (&["spdy*"], "SPDY is gone: HTTP/2 is on"),
    (
        &["naxsi*", "SecRulesEnabled", "SecRulesDisabled", "LearningMode", "DeniedUrl", "CheckRule", "BasicRule", "MainRule"],
        "the module NAXSI is a firewall for applications, which is not here: it stands in front or behind, in a proxy of its own",
    ),
    (
        &["testcookie*"],
        "the module testcookie tells browsers from programs by a cookie; `rate-limit` bounds what each client asks for",
    ),
    (
        &["opentracing*", "jaeger*", "zipkin*"],
        "`request-id trace=\"1%\"` makes a `traceparent` where none is; sending spans is not in this version",
    ),
    (
        &["nchan*", "push_stream*"],
        "the module publishes to clients; an application does, and `proxy` hands WebSockets and events on",
    ),
    (&["acme_*", "acme"], "certificates are obtained without a word; `acme email=\"ops@example.com\"` says to whom CAs write"),
    (&["api", "status_zone", "state"], "what is known of pools and servers is in the API of `admin` and in `tidegate status`"),
];

#[cfg(test)]
mod tests {
    use super::remedy;

    #[test]
    fn words_of_modules_name_them() {
        let check = |name: &str, part: &str| {
            let seen = remedy(name).unwrap_or_default();
            assert!(seen.contains(part), "for {name}: {seen}");
        };
        check("access_by_lua_block", "lua-nginx");
        check("more_set_input_headers", "request-header");
        check("vhost_traffic_status_display_format", "vts");
        check("stub_status", "/metrics");
        check("brotli_comp_level", "brotli");
        check("listen … quic", "HTTP/3");
        assert_eq!(remedy("server_name"), None);
    }
}
