//! Whole files of other proxies, as people have them: fragments of `sites-enabled`, TLS terminators, TCP, labels,
//! bootstraps. `newcomers/peers/answers.txt` has what each is answered with: lines that begin with a word of ours are
//! all the lines that are told to write, the others have to be said. `SHOW=1` prints every answer, to be judged by a
//! reader, and `SHOW=FOLDER` those to the files of a folder.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tidegate_config::{Environment, Loaded, load_with, refused, render};

const PEERS: [(&str, &str); 5] = [
    ("nginx", "docs/from-nginx.md"),
    ("haproxy", "docs/from-haproxy.md"),
    ("caddy", "docs/from-caddy.md"),
    ("traefik", "docs/from-traefik.md"),
    ("envoy", "docs/from-envoy.md"),
];
const FILES_OF_EACH: usize = 12;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/newcomers/peers")
}

fn load(name: &str, text: &str) -> Loaded {
    load_with(name, text, Path::new("/nonexistent"), &Environment::Given([].into()))
}

fn is_line_of_ours(line: &str) -> bool {
    ["site ", "pool ", "tcp ", "map "].iter().any(|word| line.starts_with(word))
}

/// The lines that a help tells to write.
fn told(help: &str) -> Vec<&str> {
    let lines: Vec<&str> = help.split('`').skip(1).step_by(2).filter(|line| is_line_of_ours(line)).collect();
    if help.contains("it begins with") { lines } else { Vec::new() }
}

/// What is wrong with the answer to a file; empty when nothing is.
fn faults(name: &str, text: &str, page: &str, expected: &[&str]) -> String {
    let mut faults = String::new();
    let loaded = load(name, text);
    let rendered = render(&loaded.diagnostics, &loaded.files, false);
    if std::env::var_os("SHOW").is_some() {
        println!("=== {name}\n{rendered}");
    }
    let [diagnostic] = loaded.diagnostics.as_slice() else { return format!("=== {name}: one answer is expected\n{rendered}") };
    let help = diagnostic.help.as_deref().unwrap_or_default();
    let said = format!("{}\n{}\n{help}", diagnostic.message, diagnostic.notes.join("\n"));
    let mut fault = |what: String| writeln!(faults, "=== {name}: {what}\n{rendered}").expect("a text takes all");
    if diagnostic.code != "other-proxy" || !said.contains(page) {
        fault(format!("neither known nor led to {page}"));
    }
    if diagnostic.primary.location.span.is_empty() {
        fault("no place is marked".into());
    }
    let lines = told(help);
    let expected_lines: Vec<&str> = expected.iter().copied().filter(|line| is_line_of_ours(line)).collect();
    if lines != expected_lines {
        fault(format!("told are {lines:#?}\nand not {expected_lines:#?}"));
    }
    for words in expected.iter().filter(|line| !is_line_of_ours(line)).filter(|words| !said.contains(**words)) {
        fault(format!("`{words}` is not said"));
    }
    if !lines.is_empty() {
        let again = load("told.kdl", &lines.join("\n"));
        // Files and variables that it names are those of the reader's machine.
        if refused(&lines.join("\n")).is_some() {
            fault(format!("what is told is refused\n{}", render(&again.diagnostics, &again.files, false)));
        }
    }
    faults
}

/// The name of each file, and what is expected.
fn answers(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut answers: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("    "), answers.last_mut()) {
            (Some(line), Some((_, lines))) => lines.push(line),
            _ => answers.push((line, Vec::new())),
        }
    }
    answers
}

/// The answers written anew: the lines that are told now, and of what has to be said all that is still said.
fn written_anew(text: &str) -> String {
    let mut anew = String::new();
    let head = text.lines().take_while(|line| line.starts_with('#'));
    head.for_each(|line| writeln!(anew, "{line}").expect("a text takes all"));
    for (name, expected) in answers(text) {
        let file = std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let loaded = load(name, &file);
        let diagnostic = &loaded.diagnostics[0];
        let help = diagnostic.help.as_deref().unwrap_or_default();
        let said = format!("{}\n{}\n{help}", diagnostic.message, diagnostic.notes.join("\n"));
        writeln!(anew, "\n{name}").expect("a text takes all");
        let is_first = |words: &&str| words.starts_with("this is");
        let still = expected.iter().copied().filter(|line| !is_line_of_ours(line) && said.contains(*line));
        let (first, rest): (Vec<&str>, Vec<&str>) = still.partition(is_first);
        for line in first.into_iter().chain(told(help)).chain(rest) {
            writeln!(anew, "    {line}").expect("a text takes all");
        }
    }
    anew
}

/// `UPDATE=1` writes the answers anew; whoever does reads what has become of them.
#[test]
fn each_file_is_answered_with_a_line_that_is_right_or_with_none() {
    let mut text = std::fs::read_to_string(folder().join("answers.txt")).expect("the answers are there");
    if std::env::var_os("UPDATE").is_some() {
        text = written_anew(&text);
        std::fs::write(folder().join("answers.txt"), &text).expect("it is written");
    }
    let answers = answers(&text);
    let mut all = String::new();
    for (peer, page) in PEERS {
        let of_peer: Vec<_> = answers.iter().filter(|(name, _)| name.starts_with(&format!("{peer}/"))).collect();
        for (name, expected) in &of_peer {
            let text = std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            all.push_str(&faults(name, &text, page, expected));
        }
        let known: BTreeSet<String> = of_peer.iter().map(|(name, _)| (*name).to_owned()).collect();
        let there = std::fs::read_dir(folder().join(peer)).expect("a folder of files");
        let there: BTreeSet<String> =
            there.map(|file| format!("{peer}/{}", file.expect("a file").file_name().to_string_lossy())).collect();
        assert_eq!(known, there, "each file has its answer");
        assert!(there.len() >= FILES_OF_EACH, "{peer} has only {} files", there.len());
    }
    assert!(all.is_empty(), "{all}");
}

#[test]
fn files_that_somebody_wants_to_see_the_answers_to() {
    let Some(folder) = std::env::var_os("SHOW").map(PathBuf::from).filter(|folder| folder.is_dir()) else { return };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.is_file()) {
        let loaded = load(&file.to_string_lossy(), &std::fs::read_to_string(file).expect("it can be read"));
        println!("=== {}\n{}", file.display(), render(&loaded.diagnostics, &loaded.files, false));
        for help in loaded.diagnostics.iter().filter_map(|diagnostic| diagnostic.help.as_deref()) {
            assert!(!load("told.kdl", &told(help).join("\n")).has_errors(), "{help}");
        }
    }
}

/// A file on one line has all its secrets there, and an answer repeats none of a file.
#[test]
fn nothing_of_a_file_that_may_be_a_secret_is_shown() {
    let json = format!("{{\"apps\":{{\"http\":{{}}}},\"x\":\"{}\",\"token\":\"hunter2\"}}", "y".repeat(60));
    let nginx =
        "server { listen 80; location / { proxy_pass http://ops:hunter2@10.0.0.4:80; } }\nupstream a { server 10.0.0.4:80; }";
    let haproxy = "userlist a\n  user b insecure-password hunter2\nfrontend c\n  bind :80\n  default_backend d\nbackend d\n  server e 10.0.0.4:80\n";
    let traefik = "http:\n  middlewares:\n    a:\n      basicAuth:\n        users: [\"b:hunter2\"]\n";
    for (name, text) in [("json", json.as_str()), ("nginx", nginx), ("haproxy", haproxy), ("traefik", traefik)] {
        let loaded = load(name, text);
        let rendered = render(&loaded.diagnostics, &loaded.files, false);
        assert!(rendered.contains("other-proxy") && !rendered.contains("hunter2"), "{name}\n{rendered}");
    }
}

/// Pieces of files, and files that something was lost of, end with some answer too.
#[test]
fn no_part_of_a_file_makes_it_panic() {
    const PIECE_BYTES: usize = 241;
    for (peer, _) in PEERS {
        for file in std::fs::read_dir(folder().join(peer)).expect("a folder of files") {
            let text = std::fs::read_to_string(file.expect("a file").path()).expect("it can be read");
            for start in (0..text.len()).step_by(PIECE_BYTES).filter(|start| text.is_char_boundary(*start)) {
                let (before, behind) = text.split_at(start);
                let end = (start + PIECE_BYTES).min(text.len());
                let rest = if text.is_char_boundary(end) { &text[end..] } else { "" };
                for part in [before.to_owned(), behind.to_owned(), format!("{before}{rest}")] {
                    let loaded = load("part", &part);
                    for help in loaded.diagnostics.iter().filter_map(|diagnostic| diagnostic.help.as_deref()) {
                        let told = told(help);
                        assert!(told.is_empty() || refused(&told.join("\n")).is_none(), "{help}");
                    }
                }
            }
        }
    }
}

#[test]
fn no_text_makes_it_panic() {
    bolero::check!().with_type::<String>().for_each(|text: &String| {
        for head in ["", "http {", "frontend a\n", "a.test {\n", "http:\n  routers:\n", "static_resources:\n", "{\"apps\":"] {
            load("any", &format!("{head}{text}"));
        }
    });
}
