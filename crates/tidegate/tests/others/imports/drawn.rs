//! Files that are drawn at random, from the grammar that each proxy has in `tests/imports/PEER/drawn.txt`: whoever is
//! refused by the other proxy is refused behind what is imported of its file, or the import says that it is shut. What
//! differs beside that is for the cases. `DRAWN=200 FROM=1000` draws more of them than the few that are always asked;
//! a fault names its number.

use super::expected::Expected;
use super::pair::{NOTHING, Pair};
use super::peers::Peer;
use super::seeds::{Random, Seeds};
use super::{compared, folder, read};
use crate::programs::run;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Files of each proxy that are always asked.
const DRAWN: u64 = 2;
/// Where the packages of nginx have their files, which a server without a root sends.
const PACKAGED: &str = "/usr/share/nginx/html";
/// Numbers that are tried for each, since not all that a grammar gives is a file of its proxy.
const TRIES: u64 = 20;
/// Rules within rules.
const DEPTH_MAX: usize = 40;
/// The realm's only user is `alice`, with `password`.
const USERS: &str = "alice:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";

#[test]
fn nginx() {
    check_drawn(Peer::Nginx);
}

#[test]
fn haproxy() {
    check_drawn(Peer::Haproxy);
}

#[test]
fn caddy() {
    check_drawn(Peer::Caddy);
}

#[test]
fn traefik() {
    check_drawn(Peer::Traefik);
}

#[test]
fn envoy() {
    check_drawn(Peer::Envoy);
}

/// How many files became what.
#[derive(Debug, Default)]
struct Drawn {
    asked: u64,
    requests: u64,
    /// Of nothing in them a line was written.
    not_imported: u64,
    /// The other proxy does not take them.
    no_files: u64,
    /// Requests that are answered there and refused here.
    shut: u64,
}

fn check_drawn(peer: Peer) {
    let Some(program) = peer.find() else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (wanted, first) = (number("DRAWN").unwrap_or(DRAWN), number("FROM").unwrap_or(1));
    let grammar = Grammar::read(&folder(peer).join("drawn.txt"));
    let (mut drawn, mut faults) = (Drawn::default(), String::new());
    for seed in first..first + wanted * TRIES {
        if drawn.asked + drawn.not_imported == wanted {
            break;
        }
        if let Err(fault) = check(peer, &program, &grammar, seed, &mut drawn) {
            writeln!(faults, "=== {} of FROM={seed}\n{fault}", peer.name()).expect("a text takes all");
        }
    }
    println!("{}: {drawn:?}", peer.name());
    assert!(faults.is_empty(), "\n{faults}");
    assert!(drawn.asked > 0, "none of {} could be asked", peer.name());
}

fn check(peer: Peer, program: &Path, grammar: &Grammar, seed: u64, drawn: &mut Drawn) -> Result<(), String> {
    let case = tempfile::tempdir().map_err(|error| error.to_string())?;
    let case = case.path();
    let text = grammar.drawn("file", seed);
    write_case(peer, grammar, case, &text).map_err(|error| error.to_string())?;
    if !accepts(peer, program, &text) {
        drawn.no_files += 1;
        return Ok(());
    }
    let seeds = Seeds::read(&case.join("seeds.txt"))?;
    let pair = match Pair::start(peer, program, case, &seeds) {
        Ok(pair) => pair,
        Err(fault) if fault.starts_with(NOTHING) => {
            drawn.not_imported += 1;
            return Ok(());
        }
        Err(fault) => return Err(format!("{fault}\n--- the file\n{text}")),
    };
    let requests = pair.folder().join("requests.txt");
    fs::write(&requests, seeds.requests()).map_err(|error| error.to_string())?;
    // As a case beside the others, with what is expected of them all.
    let expected = Expected::read(&folder(peer).join("drawn"), &seeds, &pair.report)?;
    let said = compared(&pair, &expected, &requests);
    if said.text.contains("--new: the server at") {
        drawn.not_imported += 1;
        return Ok(());
    }
    let report = read(&said, &pair)
        .map_err(|fault| format!("{fault}\n--- the file\n{text}\n--- the configuration\n{}", pair.configuration))?;
    drawn.asked += 1;
    drawn.requests += report["requests"]["sent"].as_u64().unwrap_or_default();
    let found = expected.unexpected(&report);
    let count =
        |is_it: fn(&str) -> bool| found.iter().filter(|(kind, _)| is_it(kind)).map(|(_, (count, _))| *count as u64).sum::<u64>();
    drawn.shut += count(|kind| statuses(kind).is_some_and(|(old, new)| is_answer(old) && !is_answer(new)));
    let opened: BTreeMap<_, _> = found.iter().filter(|(kind, _)| is_opening(kind)).collect();
    if opened.is_empty() {
        return Ok(());
    }
    let shown: Vec<&String> = opened.values().flat_map(|(_, shown)| shown).collect();
    Err(format!(
        "{shown:#?}\n--- the file\n{text}\n--- the configuration\n{}\n--- the report\n{}",
        pair.configuration, pair.report
    ))
}

/// The statuses of a kind of difference, such as `status 403 → 200`.
fn statuses(kind: &str) -> Option<(&str, &str)> {
    kind.strip_prefix("status ")?.split_once(" → ")
}

fn is_answer(status: &str) -> bool {
    status.starts_with(['2', '3'])
}

/// Whether something is answered that the other proxy refuses, or a script is run that it does not, or one is not run
/// and its source is the answer.
fn is_opening(kind: &str) -> bool {
    let is_of_script = kind.starts_with("header x-script ");
    is_of_script || statuses(kind).is_some_and(|(old, new)| !is_answer(old) && new.starts_with('2'))
}

fn write_case(peer: Peer, grammar: &Grammar, case: &Path, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(case.join("www/a"))?;
    fs::create_dir_all(case.join("www/open"))?;
    let scripts = ["index.php", "a/index.php", "a/x.php", "open/x.php"];
    for page in ["index.html", "a.html", "a/b.html", "a/index.html", "open/refused", "open/x"].iter().chain(&scripts) {
        fs::write(case.join("www").join(page), format!("{page}\n"))?;
    }
    fs::write(case.join("users"), USERS)?;
    // The folder of nginx itself is the one of the case, and no package's.
    if peer == Peer::Nginx && Path::new(PACKAGED).is_dir() {
        std::os::unix::fs::symlink(PACKAGED, case.join("html"))?;
    }
    fs::write(case.join("seeds.txt"), grammar.all("seeds"))?;
    let main = grammar.rules.get("static").map(|_| grammar.all("static"));
    match main {
        // Routers of Traefik stand in another file than its listeners do.
        Some(main) => {
            fs::write(case.join(peer.file()), main)?;
            fs::write(case.join("dynamic.yml"), text)
        }
        None => fs::write(case.join(peer.file()), text),
    }
}

/// Whether the proxy takes the file, as far as it can be asked.
fn accepts(peer: Peer, program: &Path, text: &str) -> bool {
    let Ok(folder) = tempfile::tempdir() else { return false };
    let filled = ["@PORT@", "@PORT2@", "@PORT3@", "@A_PORT@", "@B_PORT@"]
        .iter()
        .fold(text.to_owned(), |text, name| text.replace(name, "1"));
    let filled = filled
        .replace("@A@", "127.0.0.1:1")
        .replace("@B@", "127.0.0.1:2")
        .replace("@S@", "127.0.0.1:3")
        .replace("@FOLDER@", &folder.path().display().to_string());
    let file = folder.path().join(peer.file());
    let is_written =
        fs::write(folder.path().join("users"), USERS).is_ok() && fs::write(&file, peer.whole(&filled, folder.path())).is_ok();
    let (file, place) = (file.display().to_string(), folder.path().display().to_string());
    let arguments: Vec<&str> = match peer {
        Peer::Nginx => vec!["-t", "-q", "-p", &place, "-e", "stderr", "-c", &file],
        Peer::Haproxy => vec!["-c", "-q", "-f", &file],
        Peer::Caddy => vec!["validate", "--config", &file, "--adapter", "caddyfile"],
        Peer::Envoy => vec!["--mode", "validate", "-c", &file],
        Peer::Traefik => return is_written,
    };
    let said = run(program, &arguments, "");
    if !said.is_success && std::env::var_os("SHOW").is_some() {
        println!("{}", said.text);
    }
    is_written && said.is_success
}

/// Rules with an alternative a line, indented, below each name. `<name>` stands for one of its alternatives, `<name*3>`
/// for none up to three of them, `<name+3>` for one up to three, `<#>` for a number of its own, `<=>` for the last of
/// these; `-` is nothing, and `\n` and `\t` are a new line and a tab.
struct Grammar {
    rules: BTreeMap<String, Vec<String>>,
}

impl Grammar {
    fn read(file: &Path) -> Grammar {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut name = String::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix("    ") {
                Some(alternative) => {
                    let written = if alternative == "-" { "" } else { alternative };
                    rules.entry(name.clone()).or_default().push(written.replace("\\n", "\n").replace("\\t", "\t"));
                }
                None => line.clone_into(&mut name),
            }
        }
        Grammar { rules }
    }

    /// All alternatives, a line each.
    fn all(&self, name: &str) -> String {
        self.rules[name].iter().map(|line| line.clone() + "\n").collect()
    }

    fn drawn(&self, name: &str, seed: u64) -> String {
        let mut text = String::new();
        self.draw(name, &mut Random::of(seed), &mut 0, 0, &mut text);
        text
    }

    fn draw(&self, name: &str, random: &mut Random, number: &mut usize, depth: usize, text: &mut String) {
        let alternatives = self.rules.get(name).unwrap_or_else(|| panic!("the grammar has no `{name}`"));
        assert!(depth < DEPTH_MAX, "`{name}` stands in itself");
        let mut rest = random.one_of(alternatives).as_str();
        while let Some((before, behind)) = rest.split_once('<') {
            let (inside, behind) = behind.split_once('>').expect("a name ends with `>`");
            text.push_str(before);
            rest = behind;
            // The name of a group is none of a rule.
            if before.ends_with("(?") {
                text.push_str(&format!("<{inside}>"));
                continue;
            }
            if inside == "#" || inside == "=" {
                *number += usize::from(inside == "#");
                text.push_str(&number.to_string());
                continue;
            }
            let (own, least, most) = match inside.split_once(['*', '+']) {
                Some((own, most)) => (own, usize::from(inside.contains('+')), most.parse().expect("a number")),
                None => (inside, 1, 1),
            };
            for _ in 0..random.between(least, most) {
                self.draw(own, random, number, depth + 1, text);
            }
        }
        text.push_str(rest);
    }
}
