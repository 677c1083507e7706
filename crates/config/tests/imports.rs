//! Files of other proxies in our words, and what becomes of each of their words, which a page of the manual has.
//! `imports/PEER/` has files as people have them; beside each, with `.kdl` behind its name, stands what `tidegate
//! import` makes of it, and as comments behind that its report. Whoever changes what is made reads the difference and
//! writes them anew with `UPDATE=1`. All that is made has to pass `check`, and the sum of the accounts has to be the
//! number of lines.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tidegate_config::{format_text, refused, said_otherwise};
use tidegate_foreign::gather::{NamedText, gather};
use tidegate_foreign::import::{AccountedStatement, ImportAccount, Imported, Sayings, Sums, as_text, import};
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

/// The files of a folder, without what is made of them.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_none_or(|extension| extension != "kdl"));
    files.sort();
    files
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports")
}

fn imported(peer: Peer, path: &Path) -> Result<(SourceText, Imported), String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).expect("the file is read");
    let peer = match (peer, recognise(&text).map(|known| known.peer)) {
        (Peer::Traefik, Some(known @ (Peer::TraefikLabels | Peer::TraefikManifest))) => known,
        (Peer::Caddy, Some(known @ Peer::CaddyJson)) => known,
        (peer, _) => peer,
    };
    let none = |_: &str| Err("there is no such file".to_owned());
    let (source, not_included) = gather(peer, &[NamedText { name, text }], &none).expect("one file is gathered");
    let sayings = Sayings { refused: &refused, said_otherwise: &said_otherwise };
    let imported = import(peer, &source, &not_included, &sayings)?;
    Ok((source, imported))
}

/// What is made of the file, and the report as comments.
fn made(peer: Peer, path: &Path) -> String {
    let lines = std::fs::read_to_string(path).expect("the file is read").lines().count();
    let (source, imported) = match imported(peer, path) {
        Ok(imported) => imported,
        Err(why) => return format!("// nothing: {why}\n"),
    };
    let sums = Sums::of(&imported.lines);
    assert_eq!(sums.total(), lines, "{}: every line has one account", path.display());
    let fault = refused(&imported.text);
    assert!(fault.is_none(), "{}: `check` refuses it: {fault:?}\n{}", path.display(), imported.text);
    let mut made = format_text("made.kdl", &imported.text).expect("what is made is KDL");
    made.push_str("\n// ---\n");
    for line in as_text(&source, &imported, &sums).lines() {
        writeln!(made, "{}", format!("// {line}").trim_end()).expect("a text takes all");
    }
    made
}

#[test]
fn files_in_our_words() {
    let wanted = std::env::var("CASE").unwrap_or_default();
    let mut faults = String::new();
    let mut count = 0;
    for (name, peer) in PEERS {
        for file in files_of(&folder().join(name)).iter().filter(|file| file.display().to_string().contains(&wanted)) {
            count += 1;
            let made = made(peer, file);
            let beside = PathBuf::from(format!("{}.kdl", file.display()));
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&beside, &made).expect("it is written");
            } else if std::fs::read_to_string(&beside).unwrap_or_default() != made {
                writeln!(faults, "=== {}\n{made}", file.display()).expect("a text takes all");
            }
        }
    }
    assert!(count > 0, "no file is called like `{wanted}`");
    assert!(faults.is_empty(), "made is now\n{faults}");
}

/// What the page says of a statement.
fn said(statement: &AccountedStatement) -> (usize, String) {
    match &statement.account {
        ImportAccount::Carried => (0, "carried over".to_owned()),
        ImportAccount::SameByDefault(why) => (1, format!("the same by default: {why}")),
        ImportAccount::Approximated(how) => (2, format!("approximated, for example: {how}")),
        ImportAccount::NotCarried(_, what) => (3, format!("not carried: {what}")),
    }
}

const PAGE_HEAD: &str = "# What `tidegate import` does with each word

Written from the files that the tests of the importers have, so what stands here is what was seen; a word may be carried in one place and not in another. A word that is not here is not carried, unless
[configuration.md](configuration.md) has it: the report of an import says so for each line. What the words mean on either side stands in the page of each proxy.
";

fn page() -> String {
    let mut page = PAGE_HEAD.to_owned();
    for (name, peer) in PEERS {
        let mut words: BTreeMap<String, BTreeMap<usize, String>> = BTreeMap::new();
        for file in files_of(&folder().join(name)) {
            let Ok((_, imported)) = imported(peer, &file) else { continue };
            for statement in imported.statements.iter().filter(|statement| statement.name != "…") {
                let (rank, text) = said(statement);
                words.entry(statement.name.clone()).or_default().entry(rank).or_insert(text);
            }
        }
        write!(page, "\n## {name}\n\n| Word | What becomes of it |\n| --- | --- |\n").expect("a text takes all");
        for (word, said) in words {
            let said: Vec<String> = said.into_values().map(|text| text.replace('|', "\\|")).collect();
            writeln!(page, "| `{word}` | {} |", said.join("<br>")).expect("a text takes all");
        }
    }
    page
}

#[test]
fn the_page_has_what_becomes_of_each_word() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/imported-words.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).expect("it is written");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == page, "docs/imported-words.md is not what the importers do: write it anew with UPDATE=1");
}

/// What is made of a text that no file has, as `made` has it of a file.
fn made_of(peer: Peer, name: &str, text: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("it is written");
    made(peer, &path)
}

#[test]
fn long_chains_are_carried_whole_or_shut_with_their_reason() {
    let lines = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<Vec<_>>().join("\n");
    let nginx = |rules: &str, locations: &str| {
        made_of(
            Peer::Nginx,
            "nginx.conf",
            &format!(
                "server {{\nlisten 80;\nserver_name a.test;\n{rules}\nlocation / {{\nproxy_pass http://127.0.0.1:1;\n}}\n{locations}\n}}\n"
            ),
        )
    };
    let caddy =
        |lines: &str| made_of(Peer::Caddy, "Caddyfile", &format!("http://a.test {{\n{lines}\nreverse_proxy 127.0.0.1:1\n}}\n"));

    // One step each: all of it, whatever else stands in the server.
    let one = nginx(
        &lines(300, &|at| format!("rewrite ^/a{at}/(.*)$ /b{at}/$1 last;")),
        &lines(300, &|at| format!("location ~ ^/b{at}/ {{\nproxy_pass http://127.0.0.1:2;\n}}")),
    );
    assert!(one.contains("0 not carried") && one.contains("~^/a299/(.*)$"), "{one}");
    // A chain of all of them: those near its end are carried, those that nginx itself would give up on are shut.
    let chain = nginx(
        "",
        &lines(300, &|at| format!("location ~ ^/a{at}/ {{\nrewrite ^/a{at}/(.*)$ /a{}/$1 last;\nreturn 404;\n}}", at + 1)),
    );
    assert!(chain.contains("sent on within the file too often") && chain.contains("proxy \"127.0.0.1:1\""), "{chain}");
    // Nothing but circles: the reason is that, and no other.
    let circle = "server {\nlisten 80;\nlocation /a {\nrewrite ^ /b last;\n}\nlocation /b {\nrewrite ^ /a last;\n}\n}\n";
    let circle = made_of(Peer::Nginx, "nginx.conf", circle);
    assert_eq!(circle, "// nothing: requests are sent on within the file too often\n");

    let rewrites = |count: usize| lines(count, &|at| format!("@m{at} path_regexp ^/a{at}/(.*)$\nrewrite @m{at} /b{at}"));
    let users = |count: usize| {
        lines(count, &|at| {
            format!("basic_auth /a{at}/* {{\nbob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}}")
        })
    };
    for (whole, last) in [(caddy(&rewrites(300)), "/b299"), (caddy(&users(300)), "/a299/")] {
        assert!(whole.contains("0 not carried") && whole.contains(last), "{whole}");
    }
    for too_long in [caddy(&rewrites(800)), caddy(&users(800))] {
        assert!(too_long.contains("comes to too many routes here") && too_long.contains("respond 503"), "{too_long}");
        assert!(!too_long.contains("proxy \"") && too_long.contains("0 carried over"), "{too_long}");
    }
}

/// What comes of files that are not ours to keep: `SHOW=FOLDER PEER=haproxy` prints the sums of all, and what is not
/// carried by how often it is.
#[test]
fn files_that_somebody_wants_to_see_the_sums_of() {
    let Some(folder) = std::env::var_os("SHOW").map(PathBuf::from).filter(|folder| folder.is_dir()) else { return };
    let wanted = std::env::var("PEER").unwrap_or_default();
    let (_, peer) = PEERS.into_iter().find(|(name, _)| *name == wanted).expect("PEER is one of the folders");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let (mut sums, mut whole, mut off) = (Sums::default(), 0, 0);
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match imported(peer, file) {
            Err(why) => println!("refused: {name}: {why}"),
            Ok((_, imported)) => {
                let own = Sums::of(&imported.lines);
                println!("{own:?} {name}");
                whole += usize::from(own.not_carried == 0);
                off += usize::from(imported.text.contains("\n/-"));
                for (all, one) in [
                    (&mut sums.carried, own.carried),
                    (&mut sums.same_by_default, own.same_by_default),
                    (&mut sums.approximated, own.approximated),
                    (&mut sums.not_carried, own.not_carried),
                    (&mut sums.comments, own.comments),
                    (&mut sums.structure, own.structure),
                ] {
                    *all += one;
                }
                for statement in &imported.statements {
                    if let ImportAccount::NotCarried(_, what) = &statement.account {
                        *left.entry(format!("{}: {what}", statement.name)).or_default() += 1;
                    }
                }
            }
        }
    }
    let mut left: Vec<(String, usize)> = left.into_iter().collect();
    left.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (what, count) in &left {
        println!("{count} {what}");
    }
    println!("{} files, {whole} without anything left, {off} with parts that are off: {sums:?}", files.len());
}
