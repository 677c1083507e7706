//! What came from the environment and from files is nowhere to be seen but where it is used. A value of its own stands
//! in every text that the configuration's schema has, and every command, address of the API, log and metric is searched
//! for all of them. What is written out under a misspelt name is not repeated either. A text that the schema has and
//! these configurations do not is in a table with its reason.

mod refused;

use super::plain::{Reply, over_tcp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tidegate_testkit::case::Places;
use tidegate_testkit::{Proxy, Surroundings, get};

const RUNNING: &str = include_str!("secrets/running.kdl");
const PLANNED: &str = include_str!("secrets/planned.kdl");
/// Providers of DNS, each of which has texts of its own.
const DNS: [&str; 4] = [
    r#"dns "route53" access-key="«acme.dns access-key»" secret-key="«acme.dns secret-key»" session-token="«acme.dns session-token»" zone="«acme.dns zone».test""#,
    r#"dns "cloudflare" token="«acme.dns token»" api="https://127.0.0.1:1/«acme.dns api»""#,
    r#"dns "rfc2136" server="127.0.0.1:1" key-name="«acme.dns key-name»" key-secret="«acme.dns key-secret»""#,
    r#"dns "webhook" url="https://127.0.0.1:1/«acme.dns url»" token="«acme.dns token»""#,
];

/// Texts of the schema without a value of their own here.
const LEFT_OUT: &[(&str, &[&str])] = &[
    (
        "names by which operators and the API find things: an address, a host, a pool, a zone, a file, a field of the log",
        &[
            "acme.ca root",
            "docker.allow",
            "docker.entry-point name",
            "pool.discover container",
            "top.docker network",
            "top.docker socket",
            "acme.wildcard",
            "acme.dns command",
            "acme.dns resolver",
            "acme.dns server",
            "api-key.key name",
            "basic-auth.user name",
            "jwt.other-issuer ca",
            "jwt.other-issuer jwks",
            "jwt.other-issuer name",
            "listener.accept-proxy-protocol from",
            "listener.client-ip-header",
            "listener.owner group",
            "listener.owner user",
            "step.listen",
            "log.field name",
            "pool.discover agent",
            "pool.discover dns",
            "pool.discover file",
            "pool.discover kubernetes",
            "pool.discover api",
            "pool.discover ca",
            "pool.discover resolver",
            "pool.discover socket",
            "pool.origin kind",
            "pool.origin name",
            "pool.origin rule",
            "pool.server address",
            "pool.server zone",
            "pool.sticky domain",
            "pool.tls ca",
            "pool.tls cert",
            "pool.tls key",
            "pool.zone",
            "sni.proxy upstreams",
            "split.arm name",
            "split.proxy upstreams",
            "tcp-split.proxy upstreams",
            "step.api-key file",
            "step.basic-auth file",
            "step.error-page file",
            "step.error-page pool",
            "step.fastcgi root",
            "step.fastcgi servers",
            "step.files folder",
            "step.forward-auth servers",
            "step.jwt ca",
            "step.jwt issuer",
            "step.jwt jwks",
            "oidc.parameter name",
            "oidc.provider ca",
            "oidc.provider issuer",
            "oidc-provider.parameter name",
            "step.oidc after-logout",
            "step.oidc ca",
            "step.oidc callback",
            "step.oidc domain",
            "step.oidc issuer",
            "step.oidc logout",
            "step.send-file folder",
            "step.send-file under",
            "step.mirror upstreams",
            "step.origin kind",
            "step.origin name",
            "step.origin rule",
            "step.proxy upstreams",
            "step.tls cert",
            "step.tls key",
            "tcp.proxy upstreams",
            "tcp.sni names",
            "tls.client-auth ca",
            "tls.client-auth crl",
            "top.access-log target",
            "top.admin address",
            "top.admin hosts",
            "top.cache disk",
            "top.geoip",
            "top.listener address",
            "top.map file",
            "top.pool name",
            "top.site addresses",
            "top.storage namespace",
            "top.storage root",
            "top.storage where",
            "top.tcp address",
            "top.ticket-keys files",
            "top.tls cert",
            "top.tls key",
        ],
    ),
    (
        "a text that has to be PEM, or lines of users, whole; `held` looks for those",
        &[
            "pool.tls ca-pem",
            "pool.tls key-pem",
            "pool.tls pem",
            "step.basic-auth users",
            "step.tls key-pem",
            "step.tls pem",
            "tls.client-auth ca-pem",
            "tls.client-auth crl-pem",
            "top.tls key-pem",
            "top.tls pem",
        ],
    ),
    (
        "one of a few words, a number, a range or a network, which no secret is",
        &[
            "api-key.key expires",
            "step.api-key failures",
            "step.basic-auth failures",
            "header.match country",
            "header.match continent",
            "header.match asn",
            "header.match not country",
            "header.match not continent",
            "header.match not asn",
            "step.match country",
            "step.match continent",
            "step.match asn",
            "step.match not country",
            "step.match not continent",
            "step.match not asn",
            "header.match client",
            "header.match client-fingerprint",
            "header.match method",
            "header.match not client",
            "header.match not client-fingerprint",
            "header.match not method",
            "header.match not scheme",
            "header.match scheme",
            "limits.handshakes-per-network",
            "listener.accept-proxy-protocol networks",
            "listener.mode",
            "listener.trusted-proxies",
            "pool.health expect",
            "pool.keep-alive ping",
            "pool.retry on",
            "pool.send-proxy-protocol tlv",
            "step.allow",
            "step.cache fresh",
            "step.cache off",
            "step.cache purge-from",
            "step.compress coding",
            "step.csrf off",
            "step.decompress off",
            "step.deny",
            "step.header status",
            "step.match client",
            "step.match client-fingerprint",
            "step.match not client",
            "step.match not client-fingerprint",
            "step.match not scheme",
            "step.match scheme",
            "step.rate-limit rate",
            "step.response-header status",
            "top.access-log status",
            "top.edition",
            "top.memory",
        ],
    ),
    (
        "what a handshake looks like, and a claim with the group or role that it has to name",
        &[
            "header.match claim",
            "header.match ja4",
            "header.match not claim",
            "header.match not ja4",
            "step.match claim",
            "step.match ja4",
            "step.match not claim",
            "step.match not ja4",
        ],
    ),
    ("words of a check over TCP, which are shown as they are written", &["pool.health receive", "pool.health send"]),
    (
        "names of maps, sites, routes, fields and programs, and files that are looked for",
        &[
            "top.map name",
            "step.files try",
            "step.proxy-status name",
            "step.request-id header",
            "step.route name",
            "top.access-log site",
            "top.access-log tag",
        ],
    ),
    (
        "the same texts as those of `match` in a route, read and written by the same code; need certificates of clients",
        &[
            "header.match client-san",
            "header.match client-subject",
            "header.match not client-san",
            "header.match not client-subject",
            "header.match not cookie",
            "header.match not header",
            "header.match not host",
            "header.match not map",
            "header.match not path",
            "header.match not query",
            "step.match client-san",
            "step.match client-subject",
            "step.match not client-san",
            "step.match not client-subject",
        ],
    ),
];

/// The text whose digits leave no room for letters.
const API_KEY_HASH: &str = "api-key.key hash";

/// The program that is searched; another one than the one just built shows whether this finds anything.
fn program() -> String {
    std::env::var("PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_tidegate").to_owned())
}

/// The values of a test by the names of their texts, and where they are to be found.
struct Canaries {
    folder: PathBuf,
    names: BTreeMap<String, usize>,
}

impl Canaries {
    fn new(folder: &Path) -> Canaries {
        Canaries { folder: folder.to_owned(), names: BTreeMap::new() }
    }

    /// Nothing else has this in it. As a password's hash and as a method it has a form to keep.
    fn value(name: &str, number: usize) -> String {
        let plain = Canaries::marker(name, number);
        match name.rsplit(' ').next() {
            Some("hash") if name == API_KEY_HASH => plain.repeat(4),
            Some("hash") => format!("$2y$04$abcdefghijklmnopqrstuu{plain}0w0x0y0z0A0B0Ca"),
            Some("method" | "methods") => plain.to_uppercase(),
            _ => plain,
        }
    }

    /// What an output with the value has in it.
    fn marker(name: &str, number: usize) -> String {
        if name == API_KEY_HASH { format!("ca4a47{number:04}999999") } else { format!("canary{number:04}qqqqqq") }
    }

    /// The text with a value in each place, every second one in a file.
    fn filled(&mut self, text: &str) -> String {
        self.replaced(text, |canaries, name, number| match number % 2 {
            0 => format!("{{env.CANARY_{number}}}"),
            _ => {
                let file = canaries.folder.join(format!("canary-{number}"));
                std::fs::write(&file, Canaries::value(name, number)).expect("writable");
                format!("{{file.canary-{number}}}")
            }
        })
    }

    fn replaced(&mut self, text: &str, with: impl Fn(&Canaries, &str, usize) -> String) -> String {
        let mut parts = text.split(['«', '»']);
        let mut out = parts.next().unwrap_or_default().to_owned();
        while let (Some(name), Some(behind)) = (parts.next(), parts.next()) {
            let next = self.names.len();
            let number = *self.names.entry(name.to_owned()).or_insert(next);
            out.push_str(&with(self, name, number));
            out.push_str(behind);
        }
        out
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.names.iter().map(|(name, number)| (format!("CANARY_{number}"), Canaries::value(name, *number))).collect()
    }

    /// The names of the values that stand in an output.
    fn found_in(&self, output: &str) -> Vec<String> {
        let output = output.to_lowercase();
        let is_there = |name: &str, number: usize| output.contains(&Canaries::marker(name, number));
        self.names.iter().filter(|(name, number)| is_there(name, **number)).map(|(name, _)| name.clone()).collect()
    }
}

/// The outputs that have been searched, and what they gave away.
#[derive(Default)]
struct Search {
    searched: usize,
    faults: Vec<String>,
}

impl Search {
    fn look(&mut self, canaries: &Canaries, place: &str, output: &str) {
        self.searched += 1;
        let found = canaries.found_in(output);
        if !found.is_empty() {
            let lines =
                output.lines().filter(|line| line.to_lowercase().contains("canary0") || line.to_lowercase().contains("qqqqqq"));
            let lines: Vec<&str> = lines.take(3).collect();
            self.faults.push(format!("{place}: {}\n    {}", found.join(", "), lines.join("\n    ")));
        }
    }

    fn end(self) {
        assert!(self.faults.is_empty(), "{} of {} outputs:\n{}", self.faults.len(), self.searched, self.faults.join("\n"));
    }
}

/// What a command says; what it may not say is the caller's.
fn said(canaries: &Canaries, arguments: &[&str], token: Option<&str>) -> String {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(&canaries.folder).stdin(Stdio::null()).envs(canaries.environment());
    command.env("STATE_DIRECTORY", canaries.folder.join("state"));
    command.envs(token.map(|token| ("TIDEGATE_ADMIN_TOKEN", token)));
    let output = command.output().expect("the program can be run");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A proxy that runs with all values, and with the files that it and the commands are given.
struct Searched {
    canaries: Canaries,
    proxy: Proxy,
    token: String,
    search: Search,
}

impl Searched {
    fn start() -> Searched {
        let places = Places::new().expect("a folder");
        let mut canaries = Canaries::new(places.folder());
        let config = canaries.filled(RUNNING);
        let environment = canaries.environment();
        let environment = environment.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let surroundings = Surroundings { environment, ..Surroundings::default() };
        let proxy = Proxy::start_in(places, &program(), &config, &[], &surroundings).expect("the proxy starts");
        let token = Canaries::value("top.admin token", canaries.names["top.admin token"]);
        Searched { canaries, proxy, token, search: Search::default() }
    }

    fn command(&mut self, arguments: &[&str]) -> String {
        let output = said(&self.canaries, arguments, Some(&self.token));
        self.search.look(&self.canaries, &format!("tidegate {}", arguments.join(" ")), &output);
        output
    }

    fn api(&mut self, method: &str, path: &str, body: &str) -> Reply {
        let headers = [format!("Authorization: Bearer {}", self.token), "Content-Type: application/json".to_owned()];
        let reply = over_tcp(&self.proxy.admin, method, path, &headers.each_ref().map(String::as_str), body);
        self.search.look(&self.canaries, &format!("{method} {path}"), &reply.text);
        reply
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.canaries.folder.join(name);
        std::fs::write(&path, text).expect("writable");
        path.display().to_string()
    }

    fn addresses(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.proxy.places.config_file()).expect("readable");
        let paths = text.lines().filter_map(|line| line.trim().strip_prefix("route \"")?.split('"').next());
        let of = |path: &str| format!("http://{}{}", self.proxy.address, path.replace('*', "a"));
        paths.filter(|path| !path.contains('{')).map(of).chain([of("/none")]).collect()
    }

    fn commands(&mut self) {
        let config = self.proxy.places.config_file().display().to_string();
        let text = std::fs::read_to_string(&config).expect("readable");
        let changed = text.replace("respond 200 body=\"fine\"", "respond 201 body=\"fine\"").replace("X-Plain", "X-Other");
        let changed = self.file("changed.kdl", &changed);
        // Once the texts change and once there are none: so each line is in the plan.
        let bare = text.lines().take_while(|line| !line.contains("pool \"app\"")).collect::<Vec<_>>().join("\n");
        let bare = self.file("bare.kdl", &format!("{bare}\nsite \"http://{}\" {{ respond 200 }}", self.proxy.address));
        let faulty = self.file(
            "faulty.kdl",
            &text.replace("threads 1", "threads 1\nthreads \"{env.CANARY_0}\"\nlog level=\"{env.CANARY_2}\""),
        );
        let of_client = ["-H", "Authorization: Bearer of-a-client", "-H", "Cookie: c=of-a-client"];
        for address in self.addresses() {
            let explained = self.command(&[&["explain", "--config", &config, "GET", &address], &of_client[..]].concat());
            assert!(!explained.contains("of-a-client"), "what a request carries is not repeated:\n{explained}");
            for more in [&["-H", "X-Token: a"][..], &["--running", "--admin", &self.proxy.admin.clone()]] {
                self.command(&[&["explain", "--config", &config, "GET", &address], more].concat());
            }
        }
        for file in [&config, &changed, &bare, &faulty] {
            let admin = self.proxy.admin.clone();
            self.command(&["check", file]);
            self.command(&["fmt", "--check", file]);
            self.command(&["plan", file, "--admin", &admin]);
            self.command(&["apply", file, "--admin", &admin]);
            for command in ["status", "history"] {
                self.command(&[command, "--config", &config, "--admin", &admin]);
            }
        }
        let admin = self.proxy.admin.clone();
        assert!(self.command(&["status", "--json", "--admin", &admin]).contains("\"generation\""));
        self.command(&["history", "1", "2", "--admin", &admin]);
        self.command(&["history", "1", "--admin", &admin]);
        self.command(&["rollback", "1", "--admin", &admin]);
        self.command(&["drain", "app", "127.0.0.1:1", "--admin", &admin]);
        self.command(&["schema"]);
    }

    /// Every address that the API's description lists, and those that it leaves open.
    fn addresses_of_api(&mut self) {
        let document = self.api("GET", "/v1/openapi.json", "").json();
        let config = std::fs::read_to_string(self.proxy.places.config_file()).expect("readable");
        let fill = |path: &str| {
            let path = path.replace("{n}", "1").replace("{from}", "1").replace("{to}", "2").replace("{id}", "0");
            path.replace("{name}", "app").replace("{address}", "127.0.0.1:1").replace("{number}", "0").replace("{*path}", "")
        };
        let paths: Vec<(String, Value)> = document["paths"].as_object().expect("paths").clone().into_iter().collect();
        assert!(paths.len() > 20, "{}", paths.len());
        let explained = json!({ "method": "GET", "url": format!("http://{}/matched", self.proxy.address) });
        for (template, methods) in paths.iter().filter(|(path, _)| !path.contains("upgrade")) {
            for method in ["get", "post"].into_iter().filter(|method| methods.get(method).is_some()) {
                let body = match template.as_str() {
                    "/v1/plan" | "/v1/apply" => {
                        json!({ "text": config.replace("body=\"fine\"", "body=\"other\""), "name": "<test>" })
                    }
                    "/v1/explain" => explained.clone(),
                    _ => json!({}),
                };
                let body = if method == "post" { body.to_string() } else { String::new() };
                self.api(&method.to_uppercase(), &fill(template), &body);
            }
        }
        for path in ["/metrics", "/healthz", "/readyz", "/v1/config", "/v1/config?format=kdl", "/v1/config/text", "/"] {
            self.api("GET", path, "");
        }
        self.api("POST", "/v1/explain", &explained.to_string());
    }

    /// Where a value is the answer itself it may be seen: bodies, names and fields that a site sends its clients.
    fn answers(&mut self) {
        for address in self.addresses() {
            let path = address.split_once(&self.proxy.address.to_string()).map_or("/", |(_, path)| path).to_owned();
            let (status, body) = get(&self.proxy.address.to_string(), &path).expect("an answer");
            if status >= 500 {
                self.search.look(&self.canaries, &format!("the answer to {path}"), &body);
            }
        }
    }
}

#[test]
fn what_was_filled_in_is_never_shown() {
    let mut searched = Searched::start();
    searched.answers();
    searched.commands();
    searched.addresses_of_api();
    let (stdout, stderr) = (searched.proxy.program.stdout(), searched.proxy.program.stderr());
    searched.search.look(&searched.canaries, "the log", &stderr);
    searched.search.look(&searched.canaries, "standard output", &stdout);
    // What stands in a line of the access log is said by its format and by fields that a site adds.
    let access_log = std::fs::read_to_string(searched.canaries.folder.join("access.log")).expect("lines were written");
    let mut others = Canaries { folder: searched.canaries.folder.clone(), names: searched.canaries.names.clone() };
    others.names.retain(|name, _| !matches!(name.as_str(), "top.access-log format" | "log.field value"));
    assert!(!access_log.is_empty());
    searched.search.look(&others, "the access log", &access_log);
    for dns in DNS {
        let text = searched.canaries.filled(&PLANNED.replace("dns \"DNS\"", dns));
        let text = searched.proxy.places.fill(&text).expect("filled in");
        let file = searched.file("planned.kdl", &text);
        let checked = searched.command(&["check", &file]);
        // The process that runs has another file, so whose the addresses are is told.
        assert!(!checked.contains("error["), "{checked}");
        let admin = searched.proxy.admin.clone();
        searched.command(&["plan", &file, "--admin", &admin]);
        searched.command(&["explain", "--config", &file, "GET", "https://a.test/"]);
    }
    assert!(searched.search.searched > 130, "{}", searched.search.searched);
    searched.search.end();
}

#[test]
fn what_came_from_elsewhere_is_shown_as_it_was_written() {
    let mut searched = Searched::start();
    let config = searched.proxy.places.config_file().display().to_string();
    let address = format!("http://{}/headers", searched.proxy.address);
    let explained = searched.command(&["explain", "--config", &config, "GET", &address]);
    for name in ["step.request-header value", "step.header value", "step.response-header add"] {
        let number = searched.canaries.names[name];
        let written =
            if number.is_multiple_of(2) { format!("{{env.CANARY_{number}}}") } else { format!("{{file.canary-{number}}}") };
        assert!(explained.contains(&written), "{name}, {written}:\n{explained}");
    }
}

/// The value of a property whose name has a slip in it, written out, in no message.
#[test]
fn what_is_written_under_a_misspelt_name_is_not_repeated() {
    let places = Places::new().expect("a folder");
    let mut canaries = Canaries::new(places.folder());
    let mut search = Search::default();
    for text in [RUNNING.to_owned()].into_iter().chain(DNS.map(|dns| PLANNED.replace("dns \"DNS\"", dns))) {
        let written = canaries.replaced(&text, |_, name, number| Canaries::value(name, number));
        let of_property = |at: usize| written[..at].ends_with(|c: char| c.is_ascii_lowercase());
        for (at, _) in written.match_indices("=\"").filter(|(at, _)| of_property(*at)) {
            let behind = written[at + 2..].split('"').next().unwrap_or_default();
            if canaries.found_in(behind).is_empty() {
                continue;
            }
            let number = search.searched;
            let file = places.folder().join("misspelt.kdl");
            std::fs::write(&file, format!("{}{}", &written[..at - 1], &written[at..])).expect("writable");
            let output = said(&canaries, &["check", &file.display().to_string()], None);
            assert!(output.contains("error["), "{output}");
            // Only the value in that place: others on the line are at theirs, and may be seen.
            let only = Canaries {
                folder: canaries.folder.clone(),
                names: canaries
                    .found_in(behind)
                    .into_iter()
                    .map(|name| {
                        let number = canaries.names[&name];
                        (name, number)
                    })
                    .collect(),
            };
            search.look(&only, &format!("{number}: {}", written[..at].rsplit(' ').next().unwrap_or_default()), &output);
        }
    }
    assert!(search.searched > 60, "{}", search.searched);
    search.end();
}

#[test]
fn every_text_of_the_schema_has_a_value_or_a_reason() {
    let schema: Value =
        serde_json::from_slice(&Command::new(program()).arg("schema").output().expect("it runs").stdout).expect("JSON");
    let mut texts = BTreeSet::new();
    for part in ["properties", "$defs"] {
        for (name, one) in schema[part].as_object().expect("an object") {
            collect(if part == "properties" { format!("top.{name}") } else { name.clone() }, one, &mut texts);
        }
    }
    // The conditions of a route once more: within others, and beside blocks of the same name.
    texts.retain(|name| !name.starts_with("condition.match ") && !name.contains(" not line "));
    let mut known: BTreeSet<String> = LEFT_OUT.iter().flat_map(|(_, names)| names.iter().map(ToString::to_string)).collect();
    for text in [RUNNING, PLANNED].into_iter().chain(DNS) {
        known.extend(text.split(['«', '»']).skip(1).step_by(2).map(str::to_owned));
    }
    let missing: Vec<_> = texts.difference(&known).collect();
    let gone: Vec<_> = known.difference(&texts).collect();
    assert!(missing.is_empty() && gone.is_empty(), "without a value: {missing:#?}\nnot in the schema: {gone:#?}");
}

/// Texts that may be anything; those with a pattern are numbers, times and choices.
fn collect(name: String, schema: &Value, texts: &mut BTreeSet<String>) {
    for part in ["anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()).flatten().chain([&schema["items"]]) {
        if part.is_object() {
            collect(name.clone(), part, texts);
        }
    }
    for (property, one) in schema["properties"].as_object().into_iter().flatten() {
        collect(format!("{name} {property}"), one, texts);
    }
    if schema["type"] == "string" && schema.get("enum").is_none() && schema.get("pattern").is_none() {
        texts.insert(name);
    }
}
