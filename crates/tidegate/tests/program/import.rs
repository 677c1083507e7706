//! `tidegate import` as people call it: a file, a folder with what it includes, standard input; and everything that may
//! be given to it by mistake. What is made of single files stands in the tests of `config`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const SITE: &str = "server {\n    # The shop.\n    listen 80;\n    server_name shop.test;\n    location / { proxy_set_header Host $host; proxy_pass http://127.0.0.1:9000; }\n}\n";

struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(arguments: &[&str], input: &[u8]) -> Ended {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    // What refuses its arguments does not read.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code().unwrap_or(-1), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

fn import(peer: &str, input: &str) -> Ended {
    run(&["import", peer, "-"], input.as_bytes())
}

/// A folder of files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }
    folder
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn copies_beside_files_are_not_read() {
    let server = |name: &str| {
        format!("server {{ listen 80; server_name {name}.test; location / {{ proxy_pass http://127.0.0.1:9000; }} }}\n")
    };
    let names = ["a.conf", "b.conf.bak", "c.conf.disabled", "d.conf~", "e.conf.dpkg-old", "f"];
    let files: Vec<(String, String)> = names.iter().map(|name| (format!("conf.d/{name}"), server(&name[..1]))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let folder = folder(&files);
    let check = |path: &Path| {
        let ended = run(&["import", "nginx", &shown(path)], b"");
        assert!(ended.stdout.contains("http://a.test"), "{}", ended.stdout);
        for left in ["b.test", "c.test", "d.test", "e.test", "f.test"] {
            assert!(!ended.stdout.contains(left), "{left}: {}", ended.stdout);
        }
    };
    check(&folder.path().join("conf.d"));
    // Where `nginx.conf` stands elsewhere, what it includes is read.
    check(folder.path());
}

#[test]
fn what_is_written_passes_check_and_the_report_has_every_line() {
    let ended = import("nginx", SITE);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("    // The shop.\n") || ended.stdout.contains("// The shop.\n"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("site \"http://shop.test\" {\n    body-limit \"1MiB\"\n    proxy \"127.0.0.1:9000\"\n}"),
        "{}",
        ended.stdout
    );
    assert!(ended.stderr.contains("\n<stdin>: 6 lines: 3 carried over"), "{}", ended.stderr);
    let checked = run(&["check", "-"], ended.stdout.as_bytes());
    assert_eq!(checked.code, 0, "{}", checked.stderr);
}

#[test]
fn a_statement_that_is_not_carried_is_the_exit_code() {
    let ended = import("nginx", &SITE.replace("location", "perl_set $a b; location"));
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("not carried\n    line 5  `perl_set`"), "{}", ended.stderr);
    assert!(ended.stdout.contains("// line 5: `perl_set` is not carried"), "{}", ended.stdout);
}

#[test]
fn the_report_for_programs_has_the_same_sums() {
    let ended = run(&["import", "nginx", "-", "--report", "json"], SITE.as_bytes());
    let report: serde_json::Value = serde_json::from_str(&ended.stderr).expect("JSON");
    assert_eq!(report["sums"]["lines"], 6);
    assert_eq!(report["files"][0]["lines"].as_array().expect("lines").len(), 6);
    assert_eq!(report["files"][0]["lines"][1], "comment");
    assert_eq!(report["statements"][0]["account"], "carried");
    assert!(ended.stdout.starts_with("edition"), "{}", ended.stdout);
}

#[test]
fn a_folder_is_read_with_what_its_files_include() {
    let main = "http {\n    include /etc/nginx/conf.d/*.conf;\n    include sites/shop;\n    include missing.conf;\n}\n";
    let folder = folder(&[
        ("nginx.conf", main),
        ("conf.d/a.conf", "upstream app { server 127.0.0.1:9001; }\n"),
        ("sites/shop", "server { listen 80; server_name shop.test; location / { proxy_pass http://app; } }\n"),
    ]);
    let ended = run(&["import", "nginx", &shown(folder.path())], b"");
    assert!(ended.stdout.contains("proxy \"127.0.0.1:9001\""), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("line 4  `include`: there is no file `missing.conf` here: `--base`"), "{}", ended.stderr);
    assert!(ended.stderr.contains("conf.d/a.conf: 1 lines: 1 carried over"), "{}", ended.stderr);
    assert!(ended.stderr.contains("all files: 7 lines"), "{}", ended.stderr);
}

#[test]
fn a_pattern_that_no_file_matches_is_told_and_shuts_what_it_guards() {
    let guarded = "server {\n    listen 80;\n    server_name shop.test;\n    location /admin/ {\n        \
                   include snippets/auth*.conf;\n        proxy_pass http://127.0.0.1:9001;\n    }\n}\n";
    let folder = folder(&[("shop.conf", guarded)]);
    let ended = run(&["import", "nginx", &shown(&folder.path().join("shop.conf"))], b"");
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let told = "line 5  `include`: no file here matches `snippets/auth*.conf`: `--base`";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert!(ended.stdout.contains("deny \"0.0.0.0/0\" \"::/0\""), "{}", ended.stdout);
}

#[test]
fn what_cannot_be_read_is_told_with_its_place_and_remedy() {
    let circle = folder(&[("nginx.conf", "http { include nginx.conf; }\n")]);
    let latin = tempfile::NamedTempFile::new().expect("a file");
    fs::write(latin.path(), b"server {\n# caf\xe9\n}\n").expect("written");
    let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain("server {}".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let check = |arguments: &[&str], input: &[u8], expected: &str| {
        let ended = run(&[&["import"], arguments].concat(), input);
        assert_eq!(ended.code, 2, "{expected}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains(expected), "{expected:?} is not in\n{}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    };
    check(&["nginx", "-"], b"server {\n    listen 80;\n", "line 1: a brace opens a block here that nothing closes");
    check(&["nginx", "-"], b"server { return 200 \"half;\n}\n", "line 1: a quote begins here that nothing ends");
    check(&["nginx", "-"], b"server { }\n}\n", "line 2: a brace closes a block here that nothing opens");
    check(&["caddy", "-"], b"shop.test {\n\trespond 200\n", "line 1: a brace opens a block here that nothing closes");
    check(&["nginx", "-"], "{".repeat(100_000).as_bytes(), "blocks are deeper than");
    check(&["nginx", "-"], "{".repeat(10 << 20).as_bytes(), "is larger than 8 MiB");
    check(&["nginx", "-"], b"a b;\n\0", "line 2: there is a zero byte");
    check(&["nginx", "-"], &wide, "is in UTF-16");
    check(&["nginx", &shown(latin.path())], b"", "line 2: this is not UTF-8; `iconv -f ISO-8859-1");
    check(&["nginx", &shown(&circle.path().join("nginx.conf"))], b"", "includes itself");
    check(&["nginx", "/nonexistent/nginx.conf"], b"", "/nonexistent/nginx.conf cannot be read: ");
    check(&["nginx", "/dev/zero"], b"", "it is not a regular file");
    check(&["haproxy", &shown(circle.path())], b"", "has none of haproxy.cfg, *.cfg: name the file");
    check(&["haproxy", "-"], SITE.as_bytes(), "this is a configuration of nginx: `tidegate import nginx");
    for peer in ["envoy", "traefik", "compose"] {
        check(&[peer, "-"], b"static_resources: { listeners: [ { name: a\n", "nothing closes the `{` at line 1, column 34");
        check(&[peer, "-"], b"http:\n  a: \"b\n", "the quote at line 2, column 6 has no end");
        check(&[peer, "-"], b"http:\n\ta: b\n", "line 2: a tab indents");
        check(&[peer, "-"], b"http:\n  a: b\n   c: d\n", "line 3: this line belongs to nothing above it");
        check(&[peer, "-"], b"http: 1\ntcp: 2\nhttp: 3\n", "line 3: `http` stands twice in one block");
        check(&[peer, "-"], "{".repeat(100_000).as_bytes(), "braces go deeper than");
        check(&[peer, "-"], "[".repeat(10 << 20).as_bytes(), "is larger than 8 MiB");
        check(&[peer, "-"], &wide, "is in UTF-16");
        check(&[peer, &shown(latin.path())], b"", "line 2: this is not UTF-8; `iconv -f ISO-8859-1");
    }
    check(&["nginx", "-"], b"", "it has no `server` that hands requests on");
    check(&["apache", "-"], b"", "possible values: nginx, haproxy, caddy, traefik, envoy, compose");
}

#[test]
fn a_file_of_another_that_is_checked_is_led_to_import() {
    let folder = folder(&[("shop.conf", SITE)]);
    let file = shown(&folder.path().join("shop.conf"));
    let ended = run(&["check", &file], b"");
    assert!(ended.stderr.contains(&format!("`tidegate import nginx {file}` writes all of it in our words")), "{}", ended.stderr);
}
