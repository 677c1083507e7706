//! Ingresses at random, a host with all that is about it from one seed: paths that lie beside and within each other,
//! and annotations that nginx can keep without more than Debian's modules.

use super::random::Random;
use serde_json::{Value, json};

pub const SERVICES: &[&str] = &["one", "two", "three"];
/// Of `auth-secret`: `alice` with `secret`.
pub const PASSWORDS: &str = "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";
/// What that is in a request.
pub const CREDENTIALS: &str = "Basic YWxpY2U6c2VjcmV0";

/// Texts that are themselves, whether they are expressions or not.
const TEXTS: &[&str] = &[
    "/",
    "/",
    "/",
    "/a",
    "/a",
    "/a/",
    "/ab",
    "/a/b",
    "/admin",
    "/admin",
    "/admin/",
    "/admin/x",
    "/Admin",
    "/a-b",
    "/api/v1",
    "/api",
    "/admin.panel",
    "/x_y",
    "/a~b",
    "/b",
    "/1",
];
/// Texts with letters that are sent as percent codes, or may be.
const ODD_TEXTS: &[&str] =
    &["/a b", "/é", "/a:b", "/a@b", "/a,b", "/a;b", "/a=b", "/a!b", "/a&b", "/a'b", "/admin panel/x", "/a%20b", "/a%b", "/%2e"];
/// Expressions, and what they take.
const EXPRESSIONS: &[(&str, &[&str])] = &[
    ("/foo(/|$)(.*)", &["/foo", "/foo/", "/foo/a/b", "/foobar"]),
    ("/(.*)", &["/", "/a", "/x/y"]),
    ("/a.*", &["/a", "/ab/c"]),
    ("/admin.panel", &["/admin-panel", "/admin/panel", "/admin%20panel", "/admin%0apanel", "/admin%C3%A9panel"]),
    ("/admin$", &["/admin", "/admin%0a", "/admin/", "/admin%0a%0a"]),
    ("/[a-c]+/x", &["/ab/x", "/d/x"]),
    ("/a|/b", &["/a", "/b", "/x/b"]),
    ("/(a|b)/?c?", &["/a", "/b/c", "/ac"]),
    ("/v[0-9]{1,2}", &["/v1", "/v12", "/v"]),
    (r"/a\.b", &["/a.b", "/axb"]),
    (r"/(\d+)/(\w+)", &["/12/ab", "/12/%C3%A9", "/1/"]),
    (r"/.+\.php$", &["/x.php", "/.php", "/a/b.php/c", "/a.php%0a"]),
    ("/[^/]+/edit", &["/a/edit", "/a%2Fb/edit", "/%2F/edit"]),
    ("/(?:x|y)z*", &["/x", "/yzz"]),
    (r"/a\s?b", &["/ab", "/a%20b", "/a%09b", "/a%0bb"]),
    ("/files/(.+)", &["/files/", "/files/a%25b", "/files/a%3Fb", "/files/a%26b=c", "/files/x/y"]),
    (r"/\w+-(\d+)", &["/a-1", "/é-1", "/%C3%A9-1"]),
    ("/(.)b", &["/ab", "/%0ab", "/%C3b", "/%2Fb"]),
    ("/a{2}", &["/aa", "/a%7B2%7D"]),
    ("/100%", &["/100%25", "/100%2525"]),
    ("/a%20b", &["/a%20b", "/a%2520b"]),
    ("/é", &["/é", "/%C3%A9", "/%c3%89"]),
    ("/admin(?!/public)", &["/admin", "/admin/public"]),
    ("/[[:alpha:]]+[0-9]", &["/ab1", "/1"]),
    (r"/x\x20y", &["/x%20y"]),
    ("/a++b", &["/aab", "/a++b"]),
    ("/[a&&b]c", &["/ac", "/&c", "/bc"]),
];
/// Of servers and of what keeps clients out.
const ERRORS: &[&str] = &["404", "404,503", "403", "401,403,413", "500,404,403"];
const TARGETS: &[&str] = &["/", "/$1", "/$2", "/x/$1", "/x", "/a", "/new/$2/end", "/$1/$2", "/admin"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Exact,
    Prefix,
    ImplementationSpecific,
}

#[derive(Debug, Clone)]
pub struct IngressPath {
    pub path: String,
    pub kind: Kind,
    pub service: &'static str,
}

#[derive(Debug, Clone)]
pub struct Ingress {
    pub name: String,
    pub annotations: Vec<(&'static str, String)>,
    pub paths: Vec<IngressPath>,
    pub default_backend: Option<&'static str>,
}

/// A host with its Ingresses, the oldest first.
#[derive(Debug, Clone)]
pub struct Host {
    pub seed: u64,
    /// As it is asked for.
    pub name: String,
    /// Whether its rule is for all names beside it.
    pub is_wildcard: bool,
    pub has_tls: bool,
    /// Whether its class is one of ingress-nginx, for which more holds that no Ingress says.
    pub is_taken_over: bool,
    pub ingresses: Vec<Ingress>,
    /// Paths near which requests are asked for.
    pub samples: Vec<String>,
}

/// Whether an expression is none that can be had here.
pub fn is_odd(path: &str) -> bool {
    ["(?!", "++", "&&"].iter().any(|odd| path.contains(odd))
}

impl Ingress {
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    pub fn protects(&self) -> bool {
        const PROTECTING: [&str; 6] =
            ["auth-type", "whitelist-source-range", "denylist-source-range", "auth-url", "limit-connections", "limit-rpm"];
        PROTECTING.iter().any(|name| self.annotation(name).is_some())
    }

    /// Whether an address or a log-in is enough.
    pub fn is_any(&self) -> bool {
        let asks = ["auth-type", "auth-url"].iter().any(|name| self.annotation(name).is_some());
        asks && self.annotation("satisfy").is_some()
    }

    pub fn says(&self, name: &str) -> bool {
        self.annotation(name) == Some("true")
    }
}

impl Host {
    pub fn of(seed: u64) -> Host {
        let mut random = Random::of(seed);
        let has_expressions = random.likely(55);
        let mut samples = vec!["/".to_owned()];
        let count = 1 + random.below(3);
        let ingresses = (0..count).map(|number| ingress(&mut random, seed, number, has_expressions, &mut samples)).collect();
        let (has_tls, is_taken_over) = (random.likely(30), random.likely(40));
        let name = format!("h{seed}.near.test");
        let host = Host { seed, name, is_wildcard: false, has_tls, is_taken_over, ingresses, samples };
        if host.has_odd() || !random.likely(15) {
            return host;
        }
        Host { name: format!("one.w{seed}.near.test"), is_wildcard: true, ..host }
    }

    /// Whether it has an expression that cannot be had here, which then takes nothing.
    pub fn has_odd(&self) -> bool {
        self.ingresses.iter().flat_map(|ingress| &ingress.paths).any(|path| is_odd(&path.path))
    }

    /// Whether a request for that host is for this one.
    pub fn takes(&self, host: &str) -> bool {
        let host = host.split(':').next().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
        let below = host.split_once('.').map(|(_, domain)| format!("*.{domain}"));
        host == self.rule() || host == self.name_without_odd() || below.is_some_and(|below| below == self.rule())
    }

    /// What its rule is for.
    pub fn rule(&self) -> String {
        match self.name.split_once('.') {
            Some((_, domain)) if self.is_wildcard => format!("*.{domain}"),
            Some(_) | None => self.name.clone(),
        }
    }

    /// The Secret of its certificate, and the name in that.
    pub fn certificate(&self) -> (String, String) {
        if self.is_wildcard { (format!("tls-{}", self.seed), self.rule()) } else { ("tls".to_owned(), "*.near.test".to_owned()) }
    }

    pub fn name_without_odd(&self) -> String {
        format!("without-{}", self.name)
    }

    /// As the API server has them.
    pub fn objects(&self) -> Vec<Value> {
        let class = if self.is_taken_over { "nginx" } else { "tidegate" };
        let object = |(number, ingress): (usize, &Ingress)| {
            let prefixed = |(name, value): &(&str, String)| (format!("nginx.ingress.kubernetes.io/{name}"), json!(value));
            let annotations: serde_json::Map<String, Value> = ingress.annotations.iter().map(prefixed).collect();
            let backend = |service: &str| json!({"service": {"name": service, "port": {"number": 80}}});
            let paths: Vec<Value> = ingress
                .paths
                .iter()
                .map(|path| json!({"path": path.path, "pathType": format!("{:?}", path.kind), "backend": backend(path.service)}))
                .collect();
            let mut object = json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
                "metadata": {
                    "namespace": "shop", "name": ingress.name, "uid": format!("uid-{}", ingress.name),
                    "creationTimestamp": format!("2026-11-20T10:00:{number:02}Z"), "annotations": annotations,
                },
                "spec": {"ingressClassName": class, "rules": [{"host": self.rule(), "http": {"paths": paths}}]},
            });
            if self.has_tls {
                object["spec"]["tls"] = json!([{"hosts": [self.rule()], "secretName": self.certificate().0}]);
            }
            if let Some(service) = ingress.default_backend {
                object["spec"]["defaultBackend"] = backend(service);
            }
            object
        };
        self.ingresses.iter().enumerate().map(object).collect()
    }
}

fn ingress(random: &mut Random, seed: u64, number: usize, has_expressions: bool, samples: &mut Vec<String>) -> Ingress {
    let mut paths = Vec::new();
    for _ in 0..=random.below(3) {
        let path = if has_expressions && random.likely(50) {
            let mut drawn = random.one(EXPRESSIONS);
            if is_odd(drawn.0) {
                drawn = random.one(EXPRESSIONS);
            }
            let (expression, takes) = drawn;
            samples.extend(takes.iter().map(ToString::to_string));
            expression.to_owned()
        } else {
            let texts = if random.likely(80) { TEXTS } else { ODD_TEXTS };
            let text = random.one(texts);
            samples.push(text.to_owned());
            text.to_owned()
        };
        let kind = random.one(&[Kind::Prefix, Kind::Prefix, Kind::Exact, Kind::ImplementationSpecific]);
        paths.push(IngressPath { path, kind, service: random.one(SERVICES) });
    }
    let mut annotations = Vec::new();
    let mut add = |name: &'static str, value: &str| annotations.push((name, value.to_owned()));
    if has_expressions && random.likely(50) {
        add("use-regex", "true");
    }
    if has_expressions && random.likely(40) {
        add("rewrite-target", random.one(TARGETS));
        if random.likely(30) {
            add("x-forwarded-prefix", "/prefix");
        }
    }
    protections(random, &mut add);
    shapes(random, &mut add);
    let default_backend = random.likely(12).then(|| random.one(SERVICES));
    Ingress { name: format!("i{seed}-{number}"), annotations, paths, default_backend }
}

fn protections(random: &mut Random, add: &mut impl FnMut(&'static str, &str)) {
    if random.likely(30) {
        add("auth-type", "basic");
        add("auth-secret", "users");
        add("auth-realm", "kept");
    }
    if random.likely(25) {
        add("whitelist-source-range", random.one(&["10.0.0.0/8", "10.1.0.0/16,192.0.2.1/32", "127.0.0.1/32"]));
    }
    if random.likely(15) {
        add("denylist-source-range", random.one(&["10.1.0.0/16", "192.0.2.1"]));
    }
    if random.likely(15) {
        add("auth-url", "http://auth.shop.svc.cluster.local/check");
        if random.likely(50) {
            add("auth-response-headers", "X-User");
        }
    }
    if random.likely(15) {
        add("satisfy", "any");
    }
    // What counts is not reached by one question at a time, and the others are exempt.
    if random.likely(10) {
        add("limit-connections", "3");
    }
    if random.likely(8) {
        add("limit-rpm", "1");
        add("limit-allowlist", "0.0.0.0/0");
    }
}

fn shapes(random: &mut Random, add: &mut impl FnMut(&'static str, &str)) {
    if random.likely(30) {
        add("ssl-redirect", random.one(&["false", "true"]));
    }
    if random.likely(6) {
        add("force-ssl-redirect", "true");
    }
    if random.likely(5) {
        add("permanent-redirect", "https://elsewhere.test/p");
    }
    if random.likely(5) {
        add("temporal-redirect", "https://elsewhere.test/t");
    }
    if random.likely(8) {
        add("app-root", "/start");
    }
    if random.likely(10) {
        add("proxy-body-size", random.one(&["1k", "4k", "0"]));
    }
    if random.likely(10) {
        add("upstream-vhost", "inner.test");
    }
    if random.likely(12) {
        add("custom-http-errors", random.one(ERRORS));
        add("default-backend", random.one(SERVICES));
    }
    if random.likely(12) {
        add("enable-cors", "true");
        if random.likely(50) {
            add("cors-allow-origin", "https://good.test");
        }
    }
}
