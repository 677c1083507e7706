//! What people write who know another proxy: lines of theirs in a file of ours, and whole files. Each has the words
//! that the answer has to have, so that somebody new knows what to type. `SHOW=1` prints every answer, to be judged
//! by a reader.
//!
//! A case in `newcomers/NAME.txt` is a place (`@top`, `@site`, `@route`, `@pool`), lines as they are written there, and
//! behind `=>` what has to be said, with `|` between.

use std::fmt::Write;
use std::path::Path;
use tidegate_config::{Diagnostic, Environment, Loaded, load_with, render};

const PEERS: [&str; 6] = ["nginx", "haproxy", "caddy", "traefik", "envoy", "slips"];

struct Case {
    place: String,
    lines: String,
    expected: Vec<String>,
}

impl Case {
    fn text(&self) -> String {
        let lines = &self.lines;
        match self.place.as_str() {
            "@top" if lines.contains("site \"") || lines.contains("site 8080") => lines.clone(),
            "@top" => format!("{lines}\nsite \"localhost\" {{ respond 204 }}\n"),
            "@site" if answers(lines) => format!("site \"localhost\" {{\n{lines}\n}}\n"),
            "@site" => format!("site \"localhost\" {{\n{lines}\nrespond 204\n}}\n"),
            "@route" if answers(lines) => format!("site \"localhost\" {{\nroute \"/a\" {{\n{lines}\n}}\n}}\n"),
            "@route" => format!("site \"localhost\" {{\nroute \"/a\" {{\n{lines}\nproxy \"10.0.0.4:80\"\n}}\n}}\n"),
            "@pool" => format!("pool \"api\" {{\nserver \"10.0.0.4:80\"\n{lines}\n}}\nsite \"localhost\" {{ proxy \"api\" }}\n"),
            other => panic!("{other} is no place"),
        }
    }
}

/// Whether the lines have a step that answers, beside which no other may stand.
fn answers(lines: &str) -> bool {
    ["respond", "redirect", "proxy", "files", "split"].iter().any(|step| lines.starts_with(&format!("{step} ")))
}

fn cases(name: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/newcomers/{name}.txt"));
    let text = std::fs::read_to_string(path).expect("the cases are there");
    let mut cases = Vec::new();
    for part in text.split("\n\n@").map(|part| part.trim_start_matches('@')) {
        let (place, rest) = part.split_once('\n').expect("a place, and lines behind it");
        let (lines, expected) = rest.split_once("\n=>").unwrap_or_else(|| panic!("{part} expects nothing"));
        let expected = expected.split(" | ").map(|words| words.trim().to_owned()).collect();
        cases.push(Case { place: format!("@{place}"), lines: lines.to_owned(), expected });
    }
    cases
}

fn load(name: &str, text: &str) -> Loaded {
    load_with(name, text, Path::new("/nonexistent"), &Environment::Given([].into()))
}

/// All that is said in words.
fn said(diagnostic: &Diagnostic) -> String {
    let mut said = format!("{}\n{}\n", diagnostic.message, diagnostic.help.as_deref().unwrap_or_default());
    said.extend(diagnostic.notes.iter().map(|note| format!("{note}\n")));
    said
}

/// `None`: it says what it should.
fn fault(case: &Case, loaded: &Loaded) -> Option<String> {
    if case.expected == ["-"] {
        return loaded.has_errors().then(|| "it should be accepted".to_owned());
    }
    let all: String = loaded.diagnostics.iter().map(said).collect();
    let missing: Vec<&String> = case.expected.iter().filter(|words| !all.contains(words.as_str())).collect();
    if !missing.is_empty() {
        return Some(format!("not said: {missing:?}"));
    }
    let lists = loaded.diagnostics.iter().find(|diagnostic| said(diagnostic).contains("\nknown ")).map(said);
    if let Some(list) = lists {
        return Some(format!("a list of words is no answer: {list}"));
    }
    // One slip has one answer; what only follows from it hides it.
    let errors = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    (errors > 2).then(|| format!("{errors} errors for one slip"))
}

#[test]
fn who_knows_another_proxy_is_told_what_to_type() {
    let mut different = String::new();
    let (mut count, show) = (0, std::env::var_os("SHOW").is_some());
    for name in PEERS {
        for case in cases(name) {
            let text = case.text();
            let loaded = load(name, &text);
            let rendered = render(&loaded.diagnostics, &loaded.files, false);
            if show {
                println!("=== {name} {}\n{rendered}", case.place);
            }
            if let Some(fault) = fault(&case, &loaded) {
                let _ = write!(different, "=== {name}: {fault}\n{}\n--- said\n{rendered}\n", case.lines);
            }
            count += 1;
        }
    }
    assert!(different.is_empty(), "{different}");
    assert!(count >= 250, "there are only {count} cases");
}

#[test]
fn whole_files_of_others_are_known_by_their_proxy() {
    let missing = std::cell::RefCell::new(String::new());
    let check = |name: &str, expected: &[&str]| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/newcomers/files").join(name);
        let text = std::fs::read_to_string(&path).expect("the file is there");
        let loaded = load(name, &text);
        let rendered = render(&loaded.diagnostics, &loaded.files, false);
        if std::env::var_os("SHOW").is_some() {
            println!("{rendered}");
        }
        assert_eq!(loaded.diagnostics.len(), 1, "{rendered}");
        assert_eq!(loaded.diagnostics[0].code, "other-proxy", "{rendered}");
        let said = said(&loaded.diagnostics[0]);
        for words in expected.iter().filter(|words| !said.contains(**words)) {
            writeln!(missing.borrow_mut(), "{name}: `{words}` is missing in\n{said}").expect("a text takes all");
        }
    };
    let nginx = ["a configuration of nginx", "docs/from-nginx.md"];
    check(
        "nginx.conf",
        &[
            nginx[0],
            nginx[1],
            "pool \"app\" { server \"10.0.0.4:8080\" weight=2; server \"10.0.0.5:8080\" }",
            "site \"https://shop.example.com\" \"https://www.shop.example.com\" { tls cert=\"/etc/ssl/shop.pem\" key=\"/etc/ssl/shop.key\"; compress \"gzip\" types=\"text/html\"; proxy \"app\" }",
        ],
    );
    let bare = "`tidegate import nginx nginx-bare` writes all of it in our words, and what it begins with here cannot be told: its `server` says nothing of what answers, as `proxy_pass` or `root` do.";
    check("nginx-bare", &[nginx[0], nginx[1], bare]);
    // Scripts whose folder is not said run nowhere here, and go to nobody else either.
    let wiki = "site \"http://wiki.example.com\" { path-policy encoded-slashes=\"pass\"; route \"~\\\\.php(?:%0A)?$\" { respond 403 }; proxy \"127.0.0.1:3000\" }";
    check("nginx-site", &[nginx[0], nginx[1], wiki]);
    check("nginx-short", &[nginx[0], nginx[1], "site \"http://:8080\" { proxy \"10.0.0.7:9000\" }"]);
    let haproxy = ["a configuration of HAProxy", "docs/from-haproxy.md"];
    check(
        "haproxy.cfg",
        &[
            haproxy[0],
            haproxy[1],
            "pool \"api\" { server \"10.0.0.4:8080\"; server \"10.0.0.5:8080\"; balance \"round-robin\"; timeout first-byte=\"50s\" idle=\"50s\"; health \"/healthz\" }",
            "site \"https://api.example.com\" \"http://api.example.com\" { proxy \"api\" }",
        ],
    );
    check("haproxy-tcp.cfg", &[haproxy[0], haproxy[1], "tcp \":5432\" { proxy \"10.0.0.7:5432\" { health type=\"tcp\" } }"]);
    let caddy = ["a Caddyfile", "docs/from-caddy.md"];
    check(
        "Caddyfile",
        &[
            caddy[0],
            caddy[1],
            "site \"shop.example.com\" \"www.shop.example.com\" { compress \"zstd\" \"gzip\"; route \"/api/*\" { proxy",
        ],
    );
    check("Caddyfile-short", &[caddy[0], caddy[1], "site \"https://localhost:8443\" { proxy \"127.0.0.1:9000\" }"]);
    check("Caddyfile-port", &[caddy[0], caddy[1], "site \"http://:8080\" { respond 200 body=\"hello\" }"]);
    check("caddy.json", &["Caddy, as JSON", caddy[1], "site \"shop.example.com\" { proxy \"10.0.0.4:8080\" }"]);
    let traefik = ["a configuration of Traefik", "docs/from-traefik.md"];
    check("traefik.yml", &traefik);
    check(
        "traefik-dynamic.yml",
        &[
            traefik[0],
            traefik[1],
            "{ route \"/api/*\" { request-header \"X-Forwarded-Prefix\" \"/api\"; strip-prefix \"/api\"; proxy \"10.0.0.4:8080\" } }",
        ],
    );
    check("traefik.toml", &[traefik[0], traefik[1], "site \"http://shop.example.com\""]);
    check(
        "docker-compose.yml",
        &["labels for Traefik", traefik[1], "discover docker", "site \"shop.example.com\" { proxy \"shop:8080\" }"],
    );
    check("compose-plain.yml", &["Docker Compose", "KDL"]);
    check("envoy.yaml", &["a configuration of Envoy", "docs/from-envoy.md", "cannot be told"]);
    check("envoy.json", &["a configuration of Envoy", "docs/from-envoy.md"]);
    check("ingress.yaml", &["a manifest of Kubernetes", "site \"http://shop.example.com\" { proxy \"shop:80\" }"]);
    check(
        "httpd.conf",
        &["Apache httpd", "docs/steps-elsewhere.md", "site \"http://shop.example.com\" { proxy \"10.0.0.4:8080\" }"],
    );
    check("settings.toml", &["TOML", "KDL"]);
    check("settings.yaml", &["YAML", "KDL"]);
    check("configuration.json", &["JSON", "docs/admin-api.md"]);
    let missing = missing.into_inner();
    assert!(missing.is_empty(), "{missing}");
}

/// A page, a command or a line that is named has to be there.
#[test]
fn a_file_of_ours_with_a_foreign_word_is_told_of_by_that_word() {
    let check = |text: &str, code: &str| {
        let loaded = load("t.kdl", text);
        assert_eq!(loaded.diagnostics.first().map(|diagnostic| diagnostic.code), Some(code), "{text}");
    };
    check("site \"a.test\" {\n    listen 80;\n    proxy_pass http://app;\n    server_name a.test;\n}\n", "unknown-word");
    check("edition \"2026\"\nserver { listen 80; }\nupstream a { }\n", "misplaced-word");
    check("pool \"a\" {\n  balance roundrobin\n  server 10.0.0.4:80 check\n}\n", "syntax");
    check("compress\nresponde 200\n", "misplaced-word");
    check("sit \"a.test\" { respond 204 }", "unknown-word");
    check("", "no-site");
}
