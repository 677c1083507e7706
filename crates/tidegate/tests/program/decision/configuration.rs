//! Random configurations: sites on several listening addresses, their TLS policies, path policies, routes and steps.

use super::random::Random;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Names that sites have. None is public: what is asked for must not depend on a CA.
const HOSTS: &[&str] = &["a.test", "b.test", "c.test", "*.test", "x.b.test", "*.b.test", "c.internal", ""];
/// Placeholders of ports: plain, plain, TLS, TLS.
pub const PORTS: [&str; 4] = ["{port}", "{port:plain}", "{port:tls}", "{port:more}"];
pub const PATHS: &[&str] = &["/a", "/a/*", "/a/b", "/a/b/*", "/x/*", "~^/[a-z]/[0-9]+$", "/a/b/c", "~b$", "/*", "/"];
pub const METHODS: &[&str] = &["GET", "POST", "PUT", "HEAD", "DELETE"];
const CONDITIONS: &[&str] = &[
    "method=\"GET\"",
    "method=\"GET,POST\"",
    "not method=\"GET\"",
    "header=\"X-Key\"",
    "header=\"X-Key: b*\"",
    "not header=\"X-Key: ~^b.t$\"",
    "query=\"q\"",
    "query=\"q=1\"",
    "cookie=\"c=1\"",
    "client=\"127.0.0.0/8\"",
    "client=\"10.0.0.0/8\"",
    "not client=\"10.0.0.0/8\"",
    "scheme=\"https\"",
    "host=\"a.test,*.b.test\"",
    "path=\"/a/*\"",
    "not path=\"~[0-9]\"",
];
const POLICIES: &[&str] = &[
    "slashes=\"refuse\"",
    "slashes=\"keep\"",
    "encoded-slashes=\"refuse\"",
    "encoded-slashes=\"decode\"",
    "encoded-slashes=\"decode\" slashes=\"refuse\"",
    "case=\"lower\"",
    "parameters=\"refuse\"",
    "parameters=\"refuse\" encoded-slashes=\"refuse\"",
];
const STEPS: &[&str] = &[
    "deny \"127.0.0.0/8\"",
    "allow \"10.0.0.0/8\"",
    "allow \"127.0.0.1\"",
    "body-limit \"1KB\"",
    "response-header \"X-Step\" \"1\"",
    "strip-prefix \"/a\"",
    "request-header remove=\"X-Key\"",
];
const TLS: &[&str] = &[
    "tls \"internal\"",
    "tls \"internal\"",
    "tls \"internal\" { min \"1.3\"; }",
    "tls \"internal\" { alpn \"http/1.1\"; }",
    "tls \"internal\" { client-auth ca=\"{ca:clients}\" mode=\"request\"; }",
    "tls \"internal\" { client-auth ca=\"{ca:clients}\" mode=\"require\"; }",
    "tls \"internal\" { min \"1.3\"; client-auth ca=\"{ca:clients}\" mode=\"request\"; }",
    "tls cert=\"{pem:a.test+b.test+c.test}\"",
    "tls cert=\"{pem:a.test+b.test+c.test}\" { min \"1.3\"; }",
];
const SPLIT: &str = "split { proxy \"p0\" weight=1; proxy \"p1\" weight=2; }";
const TERMINALS: &[&str] = &[
    "respond 200 body=\"here\"",
    "respond 204",
    "respond 418",
    "redirect \"/moved\" status=308",
    "proxy \"p0\"",
    "proxy \"p1\"",
    SPLIT,
    "files \"{dir}/state\"",
];
const POOLS: &str = "pool \"p0\" { server \"UPSTREAM\"; }\npool \"p1\" { server \"UPSTREAM\"; }\n";

pub struct Written {
    /// With placeholders.
    pub text: String,
    /// For each port whether it has sites, and whether one of them is that of the address.
    pub ports: [Option<Port>; 4],
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Port {
    pub has_address: bool,
}

impl Written {
    pub fn random(random: &mut Random) -> Written {
        let mut text =
            String::from("edition \"2026\"\nadmin \"127.0.0.1:{admin}\"\nthreads 1\naccess-log \"{dir}/access.log\"\n");
        text.push_str(POOLS);
        let mut written = Written { text, ports: [None; 4] };
        if random.one_in(4) {
            written.text.push_str("listener \":{port}\" { trusted-proxies \"10.0.0.0/8\"; }\n");
            written.site(random, &["http://:{port}".to_owned()], false);
            written.ports[0] = Some(Port::default());
        }
        let mut taken = BTreeSet::new();
        if written.ports[0].is_some() {
            taken.insert((0, ""));
        }
        for _ in 0..2 + random.below(6) {
            // More with TLS than without: only there a connection may be another site's.
            let is_tls = !random.one_in(3);
            let mut addresses = Vec::new();
            for _ in 0..=random.below(3) {
                let port = usize::from(is_tls) * 2 + random.below(2);
                let host = if random.one_in(12) { "127.0.0.1" } else { random.of(HOSTS) };
                if taken.insert((port, host)) {
                    addresses.push(format!("{}://{host}:{}", if is_tls { "https" } else { "http" }, PORTS[port]));
                    written.ports[port].get_or_insert_default().has_address |= host == "127.0.0.1";
                }
            }
            if !addresses.is_empty() {
                written.site(random, &addresses, is_tls);
            }
        }
        written
    }

    fn site(&mut self, random: &mut Random, addresses: &[String], is_tls: bool) {
        let named: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
        let _ = writeln!(self.text, "site {} {{", named.join(" "));
        if is_tls {
            let _ = writeln!(self.text, "    {}", random.of(TLS));
        }
        if random.one_in(2) {
            let _ = writeln!(self.text, "    path-policy {}", random.of(POLICIES));
        }
        if random.one_in(4) {
            let _ = writeln!(self.text, "    {}", random.of(STEPS));
        }
        if random.one_in(4) {
            let _ = writeln!(self.text, "    pass-on trace=#{}", random.one_in(2));
        }
        let routes = 1 + random.below(6);
        for rank in 1..=routes {
            self.route(random, rank);
        }
        self.text.push_str("}\n");
    }

    fn route(&mut self, random: &mut Random, rank: usize) {
        let mut paths = BTreeSet::new();
        for _ in 0..random.below(3) {
            paths.insert(random.of(PATHS));
        }
        let paths: Vec<String> = paths.iter().map(|path| format!(" \"{path}\"")).collect();
        let _ = writeln!(self.text, "    route{} {{\n        log {{ field \"taken\" \"{rank}\"; }}", paths.concat());
        if random.one_in(2) {
            for _ in 0..=random.below(2) {
                let conditions: Vec<&str> = (0..=random.below(2)).map(|_| random.of(CONDITIONS)).collect();
                let _ = writeln!(self.text, "        match {}", conditions.join(" "));
            }
        }
        if random.one_in(5) {
            let _ = writeln!(self.text, "        path-policy {}", random.of(POLICIES));
        }
        if random.one_in(4) {
            let _ = writeln!(self.text, "        {}", random.of(STEPS));
        }
        let _ = writeln!(self.text, "        {}\n    }}", random.of(TERMINALS));
    }
}
