//! Files that are no good, or not quite the ones that people have: half of one, with a part of another, deep, long, in
//! circles. Whatever is made of them passes `check`, and each of their lines has one account; else it is said why
//! nothing is made of them. `MUTATED=20000 FROM=1` tries more of those that are drawn than the few that always are.

use std::path::{Path, PathBuf};
use tidegate_config::{format_text, refused, said_otherwise};
use tidegate_foreign::gather::{NamedText, gather, gather_over};
use tidegate_foreign::import::{Sayings, Sums, as_text, import};
use tidegate_foreign::source::SourceText;
use tidegate_foreign::{Peer, recognise};

const PEERS: [(&str, Peer); 6] = [
    ("nginx", Peer::Nginx),
    ("haproxy", Peer::HaProxy),
    ("caddy", Peer::Caddy),
    ("traefik", Peer::Traefik),
    ("envoy", Peer::Envoy),
    ("compose", Peer::TraefikLabels),
];
/// Of each proxy, that are always tried.
const MUTATED: u64 = 60;

fn texts_of(name: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports").join(name);
    let entries = std::fs::read_dir(folder).expect("a folder of files");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_none_or(|extension| extension != "kdl"));
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).expect("a text")).collect()
}

fn form_of(peer: Peer, text: &str) -> Peer {
    match (peer, recognise(text).map(|known| known.peer)) {
        (Peer::Traefik, Some(known @ (Peer::TraefikLabels | Peer::TraefikManifest))) => known,
        (Peer::Caddy, Some(known @ Peer::CaddyJson)) => known,
        (peer, _) => peer,
    }
}

/// What is made of a text, and its report; `Err` says why nothing is.
fn made(peer: Peer, text: &str) -> Result<(String, String), String> {
    let none = |_: &str| Err("there is no such file".to_owned());
    let file = NamedText { name: "given".to_owned(), text: text.to_owned() };
    settled(form_of(peer, text), gather(form_of(peer, text), &[file], &none)?)
}

fn settled(
    peer: Peer,
    (source, not_included): (SourceText, Vec<tidegate_foreign::gather::NotIncluded>),
) -> Result<(String, String), String> {
    let sayings = Sayings { refused: &refused, said_otherwise: &said_otherwise };
    let imported = import(peer, &source, &not_included, &sayings)?;
    let sums = Sums::of(&imported.lines);
    let lines: usize = source.files().map(|(_, text)| text.lines().count()).sum();
    assert_eq!(sums.total(), lines, "each line has one account:\n{}", source.text);
    let fault = refused(&imported.text);
    assert!(fault.is_none(), "`check` refuses what is made: {fault:?}\n{}\n--- of\n{}", imported.text, source.text);
    assert!(format_text("made.kdl", &imported.text).is_ok(), "what is made is KDL:\n{}", imported.text);
    Ok((imported.text.clone(), as_text(&source, &imported, &sums)))
}

#[test]
fn half_a_file_is_a_whole_one_or_a_fault() {
    const CUTS: usize = 12;
    for (name, peer) in PEERS {
        for text in texts_of(name) {
            for cut in 1..CUTS {
                let at = text.ceil_char_boundary(text.len() * cut / CUTS);
                let _ = made(peer, &text[..at]);
                let _ = made(peer, &text[at..]);
            }
        }
    }
}

/// Xorshift; the seed is not zero.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % bound.max(1)
    }
}

/// The text with some of its lines and words in other places, or with those of another file.
fn mutated(text: &str, other: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let others: Vec<&str> = other.lines().collect();
    for _ in 0..=random.below(4) {
        if lines.is_empty() {
            break;
        }
        let (at, elsewhere) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(9) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[elsewhere].clone()),
            2 => lines.swap(at, elsewhere),
            3 => lines.insert(at, others.get(random.below(others.len())).copied().unwrap_or_default().to_owned()),
            4 => lines[at].insert_str(0, "  "),
            5 => lines[at] = lines[at].strip_prefix("  ").map_or_else(|| format!(" {}", lines[at]), str::to_owned),
            kind => lines[at] = with_another_word(&lines[at], &lines[elsewhere], kind, random),
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn with_another_word(line: &str, other: &str, kind: usize, random: &mut Random) -> String {
    const ODD: [&str; 12] = ["\"", "'", "{", "}", "[", "]", "\\", "$x", "é", "#", "*", "999999999999999999999"];
    let mut words: Vec<&str> = line.split_inclusive([' ', ';', ':', '=', ',']).collect();
    let others: Vec<&str> = other.split_inclusive([' ', ';', ':', '=', ',']).collect();
    if words.is_empty() {
        return line.to_owned();
    }
    let at = random.below(words.len());
    match kind {
        6 => drop(words.remove(at)),
        7 => words[at] = others.get(random.below(others.len())).copied().unwrap_or_default(),
        _ => words.insert(at, ODD[random.below(ODD.len())]),
    }
    words.concat()
}

#[test]
fn files_with_lines_in_other_places_are_made_into_what_passes_check() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (count, first) = (number("MUTATED").unwrap_or(MUTATED), number("FROM").unwrap_or(1));
    let wanted = std::env::var("PEER").ok();
    for (name, peer) in PEERS.into_iter().filter(|(name, _)| wanted.as_deref().is_none_or(|wanted| wanted == *name)) {
        let texts = texts_of(name);
        let mut whole = 0;
        for seed in first..first + count {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let (text, other) = (random.below(texts.len()), random.below(texts.len()));
            let text = mutated(&texts[text], &texts[other], &mut random);
            if std::env::var_os("SHOW").is_some() {
                println!("=== {name} FROM={seed}\n{text}");
            }
            whole += usize::from(made(peer, &text).is_ok());
        }
        println!("{name}: {count} files, {whole} of them imported");
        assert!(whole > 0, "nothing is made of any file of {name}");
    }
}

/// More than 8 MiB are not read by the program at all.
#[test]
fn nothing_but_braces_ends() {
    const BYTES: usize = 64 * 1024;
    const PIECES: [&str; 14] =
        ["{", "[", "}", "{ ", "- ", "a:\n", "{a: ", "{\"a\":", "\"", "'", "a {\n", "server {\n", "\\", "( "];
    for (name, peer) in PEERS {
        for piece in PIECES {
            let text = piece.repeat(BYTES / piece.len());
            assert!(made(peer, &text).is_err(), "something is made of nothing but `{}` for {name}", piece.escape_debug());
        }
    }
}

/// What is written once and meant in many places comes to no more than it may.
#[test]
fn aliases_of_aliases_are_a_fault() {
    let laughs: Vec<String> = (1..30).map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{}, ", n - 1).repeat(9))).collect();
    for (name, peer, inside) in [
        ("envoy", Peer::Envoy, "static_resources: { listeners: [*a29] }\n"),
        ("traefik", Peer::Traefik, "http: { routers: { a: *a29 } }\n"),
        ("compose", Peer::TraefikLabels, "services: { a: { labels: *a29 } }\n"),
    ] {
        let why = made(peer, &format!("a0: &a0 [b, c]\n{}{inside}", laughs.concat())).expect_err(name);
        assert!(why.contains("aliases"), "{name}: {why}");
    }
    let itself = "a: &a\n  b: *a\nstatic_resources:\n  listeners: *a\n";
    assert!(made(Peer::Envoy, itself).is_err());
}

/// Files of Compose that include one another are read once.
#[test]
fn includes_in_circles_end() {
    let again = |_: &str| {
        let text =
            "include: [other.yml]\nservices:\n  b:\n    extends: { file: other.yml, service: b }\n    image: b\n".to_owned();
        Ok(vec![NamedText { name: "other.yml".to_owned(), text }])
    };
    let text =
        "include: [other.yml]\nservices:\n  a:\n    image: a\n    labels:\n      - traefik.http.routers.a.rule=Host(`a.test`)\n";
    for count in [1, 2] {
        let file = NamedText { name: "compose.yml".to_owned(), text: text.to_owned() };
        let gathered = gather_over(&vec![file; count], &again);
        if let Ok(gathered) = gathered {
            let _ = settled(Peer::TraefikLabels, gathered);
        }
    }
}

/// A secret of a file may stand in the lines that are made of it, and never in the report.
#[test]
fn the_report_shows_no_secret() {
    let envoy = r#"
static_resources:
  listeners:
    - address: { socket_address: { address: 0.0.0.0, port_value: 80 } }
      filter_chains:
        - transport_socket:
            name: envoy.transport_sockets.tls
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
              common_tls_context:
                tls_certificates:
                  - certificate_chain: { inline_string: "-----BEGIN hunter2" }
                    private_key: { inline_string: "-----BEGIN hunter2" }
                    password: { inline_string: hunter2 }
          filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: web
                http_filters:
                  - name: envoy.filters.http.basic_auth
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuth
                      users: { inline_string: "alice:{SHA}hunter2" }
                  - name: envoy.filters.http.jwt_authn
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
                      providers: { a: { local_jwks: { inline_string: "{\"keys\":[{\"k\":\"hunter2\"}]}" } } }
                  - name: envoy.filters.http.lua
                    typed_config: { inline_code: "local token = \"hunter2\"" }
                  - name: envoy.filters.http.router
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      request_headers_to_add: [{ header: { key: authorization, value: "Bearer hunter2 %UNKNOWN%" } }]
                      routes:
                        - match: { prefix: "/", headers: [{ name: x-api-key, string_match: { safe_regex: { regex: "(?=hunter2)" } } }] }
                          route: { cluster: a }
                        - match: { prefix: "/" }
                          route: { cluster: a }
  clusters:
    - name: a
      type: STATIC
      load_assignment: { cluster_name: a, endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: "ops:hunter2@10.0.0.4", port_value: 80 } } } }] }] }
    - name: b
      type: STATIC
      load_assignment: { cluster_name: b, endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 10.0.0.4, port_value: 80 } } } }] }] }
"#;
    let nginx = "server { listen 80; server_name a.test; location / { proxy_set_header Authorization \"Basic hunter2$unknown\"; \
                 proxy_pass http://ops:hunter2@10.0.0.4:80; } if ($http_x_token = \"(?=hunter2)\") { return 403; } secure_link_md5 hunter2; }\n";
    let haproxy = "userlist a\n  user b insecure-password hunter2\nfrontend c\n  bind :80\n  stats auth b:hunter2\n  http-request set-header X-Token hunter2 if { unknown hunter2 }\n  default_backend d\nbackend d\n  server e 10.0.0.4:80\n";
    let caddy = "{\n\temail a@hunter2\n\tacme_dns cloudflare hunter2\n}\na.test {\n\ttls {\n\t\tdns cloudflare hunter2\n\t}\n\tunknown hunter2\n\treverse_proxy 10.0.0.4\n}\n";
    let traefik = "http:\n  routers:\n    a: { rule: \"Host(`a.test`)\", service: s, middlewares: [m, n] }\n  middlewares:\n    m: { basicAuth: { users: [\"b:hunter2\"] } }\n    n: { plugin: { x: { token: hunter2 } } }\n  services:\n    s: { loadBalancer: { servers: [{ url: \"http://b:hunter2@10.0.0.4\" }] } }\n";
    let compose = "services:\n  a:\n    image: a\n    environment:\n      PASSWORD: hunter2\n    labels:\n      traefik.http.routers.a.rule: Host(`a.test`)\n      traefik.http.routers.a.middlewares: m\n      traefik.http.middlewares.m.basicauth.users: b:hunter2\n      traefik.http.middlewares.m.plugin.x.token: hunter2\n";
    for ((name, peer), text) in PEERS.into_iter().zip([nginx, haproxy, caddy, traefik, envoy, compose]) {
        let said = match made(peer, text) {
            Ok((_, report)) => report,
            Err(why) => why,
        };
        assert!(!said.contains("hunter2"), "{name}\n{said}");
    }
}
