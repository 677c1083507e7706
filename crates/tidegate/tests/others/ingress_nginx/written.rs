//! What ingress-nginx writes for Ingresses, as far as it is nginx: its `createServers`, the order of its locations and
//! its template, at the commit dbb11b9 of March 2026, the last one. What it does in Lua stands here as directives that
//! do the same.

use super::objects::{Host, Ingress, Kind, is_odd};
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Where everything is.
pub struct Places<'p> {
    pub http: SocketAddr,
    pub https: SocketAddr,
    /// Address by service.
    pub upstream: &'p dyn Fn(&str) -> SocketAddr,
    pub auth: SocketAddr,
    pub passwords: String,
    /// Files of a certificate and of its key, by the name of the Secret.
    pub certificate: &'p dyn Fn(&str) -> (String, String),
}

/// A location before it is a block.
#[derive(Clone)]
struct Location<'h> {
    path: String,
    kind: Kind,
    ingress: &'h Ingress,
    service: Option<&'static str>,
    is_default: bool,
}

/// One `server` for a host, and one more without those of its expressions that cannot be had.
pub fn servers(host: &Host, places: &Places<'_>) -> String {
    let all = with_exact(locations(host));
    let are_expressions = all.iter().any(has_expression);
    if !host.has_odd() {
        return server(host, &server_name(host), &all, are_expressions, places);
    }
    let others = with_exact(locations(host).into_iter().filter(|location| !is_odd(&location.path)).collect());
    server(host, &host.name, &all, are_expressions, places)
        + &server(host, &host.name_without_odd(), &others, are_expressions, places)
}

/// As its template has it.
fn server_name(host: &Host) -> String {
    match host.rule().strip_prefix("*.") {
        Some(domain) => format!(r#""~^(?<subdomain>[\w-]+)\.{}$""#, domain.replace('.', r"\.")),
        None => host.name.clone(),
    }
}

fn server(host: &Host, name: &str, locations: &[Location<'_>], are_expressions: bool, places: &Places<'_>) -> String {
    let mut text = format!("server {{\n    server_name {name};\n    listen {};\n", places.http);
    let _ = writeln!(text, "    set $cors '';\n    set $pass_access_scheme $scheme;");
    if host.has_tls {
        let https = places.https;
        let (certificate, key) = (places.certificate)(&host.certificate().0);
        let _ = writeln!(text, "    listen {https} ssl;\n    ssl_certificate {certificate};\n    ssl_certificate_key {key};");
    }
    hsts(host, &mut text);
    for (number, location) in locations.iter().enumerate() {
        if let Some(root) = location.ingress.annotation("app-root") {
            let _ = writeln!(text, "    if ($uri = /) {{ return 302 $scheme://$http_host{root}; }}");
        }
        let quoted = sanitized(&location.path);
        let head = match (are_expressions, location.kind) {
            (true, _) => format!("~* \"^{quoted}\""),
            (false, Kind::Exact) => format!("= \"{quoted}\""),
            (false, Kind::Prefix | Kind::ImplementationSpecific) => format!("\"{quoted}\""),
        };
        text.push_str(&block(host, location, number, &head, places));
    }
    text.push_str("}\n");
    text
}

/// Whether nginx would refuse the host: two of its locations are the same.
pub fn is_refused(host: &Host) -> bool {
    let locations = with_exact(locations(host));
    let are_expressions = locations.iter().any(has_expression);
    let is_twice = |(place, one): (usize, &Location<'_>)| {
        locations[..place].iter().any(|other| other.path == one.path && other.kind == one.kind)
    };
    !are_expressions && locations.iter().enumerate().any(is_twice)
}

/// As `createServers` and `getBackendServers` put them together and sort them.
fn locations(host: &Host) -> Vec<Location<'_>> {
    let Some(oldest) = host.ingresses.first() else { return Vec::new() };
    let root =
        Location { path: "/".to_owned(), kind: Kind::Prefix, ingress: oldest, service: oldest.default_backend, is_default: true };
    let mut all = vec![root];
    for ingress in &host.ingresses {
        for written in &ingress.paths {
            // `SetDefaultNGINXPathType`.
            let kind = if written.kind == Kind::Exact { Kind::Exact } else { Kind::Prefix };
            let path = if written.path.is_empty() { "/".to_owned() } else { written.path.clone() };
            let own = Location { path, kind, ingress, service: Some(written.service), is_default: false };
            match all.iter_mut().find(|known| known.path == own.path) {
                Some(known) if known.kind == own.kind => {
                    if known.is_default {
                        *known = own;
                    }
                }
                Some(_) | None => all.push(own),
            }
        }
    }
    all.sort_by_key(|location| Reverse(location.path.clone()));
    all.sort_by_key(|location| Reverse(location.path.len()));
    all
}

/// As `updateServerLocations` has it.
fn with_exact(locations: Vec<Location<'_>>) -> Vec<Location<'_>> {
    let exact: Vec<String> = locations.iter().filter(|one| one.kind == Kind::Exact).map(|one| one.path.clone()).collect();
    let mut all = Vec::new();
    for location in locations {
        if location.path == "/" || location.kind != Kind::Prefix || has_expression(&location) {
            all.push(location);
            continue;
        }
        let with_slash = if location.path.ends_with('/') { location.path.clone() } else { format!("{}/", location.path) };
        let has_exact = exact.contains(&location.path);
        let of_itself = Location { kind: Kind::Exact, ..location.clone() };
        all.push(Location { path: with_slash, ..location });
        if !has_exact {
            all.push(of_itself);
        }
    }
    all
}

fn has_expression(location: &Location<'_>) -> bool {
    needs_rewrite(location) || location.ingress.says("use-regex")
}

fn needs_rewrite(location: &Location<'_>) -> bool {
    location.ingress.annotation("rewrite-target").is_some_and(|target| target != location.path)
}

fn block(host: &Host, location: &Location<'_>, number: usize, head: &str, places: &Places<'_>) -> String {
    let ingress = location.ingress;
    let mut text = String::new();
    if ingress.annotation("auth-url").is_some() {
        let _ = writeln!(
            text,
            "    location = /_external-auth-{number} {{\n        internal;\n        proxy_pass_request_body off;\n        proxy_set_header Content-Length \"\";\n        proxy_set_header X-Original-Method $request_method;\n        proxy_pass http://{}/check;\n    }}",
            places.auth
        );
    }
    let _ = writeln!(text, "    location {head} {{");
    // Tells which one it was.
    let (name, is_default, path) = (&ingress.name, location.is_default && location.service.is_none(), &location.path);
    let _ = writeln!(text, "        add_header X-Location \"{name} {is_default} {}\" always;", path.len());
    hsts(host, &mut text);
    access(ingress, number, places, &mut text);
    cors(ingress, &mut text);
    if host.is_taken_over {
        text.push_str("        proxy_set_header X-Real-IP $remote_addr;\n        proxy_set_header X-Scheme $scheme;\n        proxy_set_header X-Forwarded-Scheme $scheme;\n        proxy_set_header X-Original-Forwarded-For $http_x_forwarded_for;\n");
    }
    let host_field = ingress.annotation("upstream-vhost").map_or("$http_host".to_owned(), |host| format!("\"{host}\""));
    let _ = writeln!(text, "        proxy_set_header Host {host_field};\n        proxy_set_header Connection \"\";");
    if let Some(size) = ingress.annotation("proxy-body-size") {
        let _ = writeln!(text, "        client_max_body_size {size};");
    }
    redirects(host, ingress, &mut text);
    let target = ingress.annotation("rewrite-target").filter(|_| location.service.is_some());
    if let Some(target) = target.filter(|target| *target != location.path) {
        let _ = writeln!(text, "        rewrite \"(?i){}\" {target} break;", sanitized(&location.path));
        if let Some(prefix) = ingress.annotation("x-forwarded-prefix") {
            let _ = writeln!(text, "        proxy_set_header X-Forwarded-Prefix \"{prefix}\";");
        }
    }
    match location.service {
        Some(service) => {
            let _ = writeln!(text, "        proxy_pass http://{};", (places.upstream)(service));
        }
        // The default back end.
        None => text.push_str("        set $nothing /nothing?status=404;\n        proxy_pass http://nobody$nothing;\n"),
    }
    let pages = pages(host, location, number, places, &mut text);
    text.push_str("    }\n");
    text + &pages
}

/// Of classes of ingress-nginx, in Lua there, and what servers are told of clients.
fn hsts(host: &Host, text: &mut String) {
    if host.is_taken_over && host.has_tls {
        text.push_str("        add_header Strict-Transport-Security $hsts always;\n");
    }
}

/// Who answers errors; gives the locations that ask him.
fn pages(host: &Host, location: &Location<'_>, number: usize, places: &Places<'_>, text: &mut String) -> String {
    let Location { ingress, service, path, .. } = location;
    let mut hsts_field = String::new();
    hsts(host, &mut hsts_field);
    let (Some(codes), Some(to)) = (ingress.annotation("custom-http-errors"), ingress.annotation("default-backend")) else {
        return String::new();
    };
    text.push_str("        proxy_intercept_errors on;\n");
    let mut pages = String::new();
    for code in codes.split(',') {
        let _ = writeln!(text, "        error_page {code} = @custom_{number}_{code};");
        let of_service = service
            .map(|service| {
                format!("        proxy_set_header X-Service-Name {service};\n        proxy_set_header X-Service-Port 80;\n")
            })
            .unwrap_or_default();
        let _ = writeln!(
            pages,
            "    location @custom_{number}_{code} {{\n        internal;\n        add_header X-Location \"{} {} {}\" always;\n{hsts_field}        proxy_intercept_errors off;\n        proxy_set_header X-Code {code};\n        proxy_set_header X-Original-URI $request_uri;\n        proxy_set_header X-Namespace shop;\n        proxy_set_header X-Ingress-Name {};\n{of_service}        proxy_set_header Host $http_host;\n        rewrite (.*) / break;\n        proxy_pass http://{};\n    }}",
            ingress.name,
            location.is_default && service.is_none(),
            path.len(),
            ingress.name,
            (places.upstream)(to)
        );
    }
    pages
}

fn access(ingress: &Ingress, number: usize, places: &Places<'_>, text: &mut String) {
    if let Some(satisfy) = ingress.annotation("satisfy") {
        let _ = writeln!(text, "        satisfy {satisfy};");
    }
    let networks = |name: &str| ingress.annotation(name).unwrap_or_default().split(',').map(str::to_owned).collect::<Vec<_>>();
    for network in networks("denylist-source-range").iter().filter(|network| !network.is_empty()) {
        let _ = writeln!(text, "        deny {network};");
    }
    let allowed = networks("whitelist-source-range");
    if allowed.iter().any(|network| !network.is_empty()) {
        for network in &allowed {
            let _ = writeln!(text, "        allow {network};");
        }
        text.push_str("        deny all;\n");
    }
    if ingress.annotation("auth-url").is_some() {
        let _ = writeln!(text, "        auth_request /_external-auth-{number};");
        if ingress.annotation("auth-response-headers").is_some() {
            text.push_str(
                "        auth_request_set $user_of_auth $upstream_http_x_user;\n        proxy_set_header X-User $user_of_auth;\n",
            );
        }
    }
    if ingress.annotation("auth-type").is_some() {
        let _ = writeln!(
            text,
            "        auth_basic \"kept\";\n        auth_basic_user_file {};\n        proxy_set_header Authorization \"\";",
            places.passwords
        );
    }
}

fn cors(ingress: &Ingress, text: &mut String) {
    if !ingress.says("enable-cors") {
        return;
    }
    match ingress.annotation("cors-allow-origin") {
        None => text.push_str("        set $cors 'true';\n"),
        Some(origin) => {
            let escaped = origin.replace('.', "\\.");
            let _ = writeln!(text, "        if ($http_origin ~* (({escaped}))$ ) {{ set $cors 'true'; }}");
        }
    }
    text.push_str("        if ($request_method = 'OPTIONS') { set $cors ${cors}options; }\n");
    text.push_str("        if ($cors = \"trueoptions\") { return 204; }\n");
}

fn redirects(host: &Host, ingress: &Ingress, text: &mut String) {
    let to = |code: u16, url: &str| format!("        return {code} {url};\n");
    if let Some(url) = ingress.annotation("temporal-redirect") {
        text.push_str(&to(302, url));
    } else if let Some(url) = ingress.annotation("permanent-redirect") {
        text.push_str(&to(301, url));
    }
    let leads = ingress.says("force-ssl-redirect") || host.has_tls && ingress.annotation("ssl-redirect") != Some("false");
    if leads {
        text.push_str("        if ($scheme = http) { return 308 https://$host$request_uri; }\n");
    }
}

fn sanitized(path: &str) -> String {
    path.replace('\\', "\\\\").replace('"', "\\\"")
}
