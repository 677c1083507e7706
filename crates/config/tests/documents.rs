//! The pages in docs/ against the language: every example is accepted, and every sentence that says what holds when
//! nothing is written is true. `documented_defaults.txt` says of each such sentence what shows it; one that is not
//! listed there is found and refused. Directives come from the table, so new ones need nothing here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tidegate_config::{Environment, Loaded, load_with, render};

/// Made of the table, whose own defaults are held by the tests of the directives.
const GENERATED: &str = "configuration.md";
/// What others do when nothing is said; of ours it has one line for each step.
const OF_OTHERS: &str = "steps-elsewhere.md";
/// Made of the files of the importers' tests: what becomes of words of others.
const IMPORTED: &str = "imported-words.md";

fn pages() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let entries =
        |folder: &Path| std::fs::read_dir(folder).expect("a folder of pages").map(|entry| entry.expect("an entry").path());
    let paths = entries(&folder).chain(entries(&folder.join("providers")));
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    paths.sort();
    paths.push(folder.join("../README.md"));
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a page");
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), read(path))).collect()
}

fn load(name: &str, text: &str) -> Loaded {
    let variables = ["CREDENTIALS_DIRECTORY", "ZONE", "CLOUDFLARE_API_TOKEN", "NAME", "TOKEN", "API_TOKEN"];
    let given = variables.iter().map(|name| ((*name).to_owned(), "0123456789abcdef".to_owned()));
    load_with(name, text, Path::new("/nonexistent"), &Environment::Given(given.collect()))
}

/// What is wrong with a text beside the files and variables that it names, which are the reader's.
fn faults(name: &str, text: &str) -> Vec<String> {
    let loaded = load(name, text);
    let is_of_reader = |code: &str| {
        matches!(code, "cannot-read" | "cannot-run" | "unset-variable" | "no-site" | "unknown-pool" | "bad-placeholder")
    };
    let faults = loaded.diagnostics.iter().filter(|fault| fault.is_error() && !is_of_reader(fault.code));
    faults.map(|fault| render(std::slice::from_ref(fault), &loaded.files, false)).filter(|fault| !names_a_file(fault)).collect()
}

fn names_a_file(fault: &str) -> bool {
    let title = fault.lines().next().unwrap_or_default();
    title.contains("/nonexistent")
        || title.contains("No such file")
        || title.contains("does not exist")
        || title.contains("is not set")
}

/// Blocks in which an example may stand.
const AROUND: [&str; 35] = [
    "LINES",
    "LINES\nsite \"localhost\" { respond 204 }\n",
    "site \"localhost\" {\nLINES\n}\n",
    "site \"localhost\" {\nLINES\nproxy \"10.0.0.4:80\"\n}\n",
    "site \"localhost\" {\nroute \"/x\" {\nLINES\nproxy \"10.0.0.4:80\"\n}\n}\n",
    "pool \"p\" {\nserver \"10.0.0.1:80\"\nLINES\n}\nsite \"localhost\" { proxy \"p\" }\n",
    "pool \"p\" {\nserver \"https://10.0.0.1:443\"\nLINES\n}\nsite \"localhost\" { proxy \"p\" }\n",
    "pool \"p\" {\nLINES\n}\nsite \"localhost\" { proxy \"p\" }\n",
    "site \"localhost\" {\ntls {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\nfastcgi \"php:9000\" root=\"/srv/www\" {\nLINES\n}\n}\n",
    "acme {\nLINES\n}\nsite \"localhost\" { respond 204 }\n",
    "listener \":443\" {\nLINES\n}\nsite \"localhost\" { respond 204 }\n",
    "limits {\nLINES\n}\nsite \"localhost\" { respond 204 }\n",
    "site \"localhost\" {\nLINES {\nproxy \"10.0.0.4:80\"\n}\n}\n",
    "LINES {\nproxy \"10.0.0.4:80\"\n}\n",
    "site \"localhost\" {\ntls { client-auth ca=\"clients.pem\" mode=\"request\" }\nLINES\nrespond 204\n}\n",
    "site \"localhost\" {\nheader \"X\" \"y\" {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\nlog {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\nsplit {\nLINES\n}\n}\n",
    "site \"localhost\" {\njwt jwks=\"keys.json\" issuer=\"me\" {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\noidc issuer=\"https://idp.example.com\" client=\"me\" {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\noidc {\nprovider \"Ours\" issuer=\"https://idp.example.com\" client=\"me\"\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\nforward-auth \"http://10.0.0.8:9091\" {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\nerror-page 404 pool=\"10.0.0.9:80\" {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\nbasic-auth {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\napi-key {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\nauth any {\nLINES\n}\nrespond 204\n}\n",
    "site \"localhost\" {\nroute {\nmatch {\nLINES\n}\nrespond 204\n}\nrespond 200\n}\n",
    "map \"m\" key=\"{path}\" {\nLINES\n}\nsite \"localhost\" { respond 200 body=\"{map.m}\"; }\n",
    "tcp \":5432\" {\nLINES\n}\n",
    "docker {\nLINES\n}\nsite \"localhost\" { respond 204 }\n",
    "docker\nsite \"localhost\" { proxy {\nLINES\n} }\n",
    "listener \"unix:/a\" {\nLINES\n}\nsite \"http://unix:/a\" { respond 200; }\n",
    "geoip \"/var/lib/GeoIP/GeoLite2-Country.mmdb\" \"/var/lib/GeoIP/GeoLite2-ASN.mmdb\"\nsite \"localhost\" {\nLINES\nrespond 204\n}\n",
    "geoip \"/var/lib/GeoIP/GeoLite2-Country.mmdb\" \"/var/lib/GeoIP/GeoLite2-ASN.mmdb\"\nsite \"localhost\" {\nroute {\nLINES\nrespond 204\n}\nrespond 200\n}\n",
];

/// Lines of the prose that are named in part, or because they are refused.
const NOT_WHOLE: [&str; 5] = [
    "cors expose=\"RateLimit,RateLimit-Policy,Retry-After\"",
    "request-header \"Host\"",
    "retry on=\"425\"",
    "rate-limit by=\"{request.header.X-Tenant}\"",
    "map \"prices\" key=\"{geo.country}\"",
];

fn refused(page: &str, lines: &str) -> Option<String> {
    let mut least: Option<Vec<String>> = None;
    for around in AROUND {
        let seen = faults(page, &around.replace("LINES", lines));
        if seen.is_empty() {
            return None;
        }
        least = least.filter(|least| least.len() <= seen.len()).or(Some(seen));
    }
    Some(format!("=== {page}\n{lines}\n--- is refused\n{}", least.unwrap_or_default().join("\n")))
}

#[test]
fn every_example_is_accepted() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in pages() {
        for block in text.split("\n```kdl\n").skip(1) {
            let lines = block.split("\n```").next().unwrap_or_default();
            count += 1;
            // Lines of which only one can be written are alternatives.
            let are_alternatives = || lines.lines().all(|line| refused(&page, line).is_none());
            wrong.extend(refused(&page, lines).filter(|_| !are_alternatives()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "only {count} examples were found");
}

/// The names of all directives, out of the schema that is made of the table.
fn directive_names() -> BTreeSet<String> {
    let schema = tidegate_config::schema();
    let definitions = schema["$defs"].as_object().expect("definitions");
    definitions.keys().filter_map(|key| key.split_once('.')).map(|(_, name)| name.to_owned()).collect()
}

/// Where pages say how something is spelled here: prose, the second column of the pages for those who come from
/// elsewhere, and the first line of each step.
fn our_spellings(page: &str, text: &str) -> Vec<String> {
    let prose: Vec<&str> = text.split("\n```").step_by(2).collect();
    let mut spellings = Vec::new();
    for line in prose.iter().flat_map(|part| part.lines()) {
        let ours = if page == OF_OTHERS {
            line.strip_prefix("Here: ").unwrap_or_default().to_owned()
        } else if line.starts_with('|') {
            let cells: Vec<String> = line.replace("\\|", "\u{1}").split('|').map(|cell| cell.replace('\u{1}', "|")).collect();
            if page.starts_with("from-") { cells.get(2).cloned().unwrap_or_default() } else { String::new() }
        } else {
            line.to_owned()
        };
        spellings.extend(ours.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    spellings
}

#[test]
fn every_line_in_the_prose_is_accepted() {
    let names = directive_names();
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in pages().iter().filter(|(page, _)| page != GENERATED) {
        for line in our_spellings(page, text) {
            let name = line.split(' ').next().unwrap_or_default();
            let has_value = line.contains(" \"") || line.contains("=\"") || line.contains(" #");
            if !names.contains(name)
                || !has_value
                || NOT_WHOLE.contains(&line.as_str())
                || line.contains('…')
                || line.contains("NAME")
            {
                continue;
            }
            count += 1;
            wrong.extend(refused(page, &line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "only {count} lines were found");
}

/// A sentence that is said to be true, and what shows it.
struct Claim {
    page: String,
    words: String,
    place: String,
    shown_by: String,
}

fn claims() -> Vec<Claim> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documented_defaults.txt");
    let text = std::fs::read_to_string(path).expect("the claims");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let parts: Vec<&str> = line.splitn(4, " | ").collect();
            let [page, words, place, shown_by] = parts[..] else { panic!("{line} has not four parts") };
            let [page, words, place, shown_by] = [page, words, place, shown_by].map(str::to_owned);
            Claim { page, words, place, shown_by }
        })
        .collect()
}

/// What becomes of `//` is a default as well, and one that pages have said otherwise.
const MARKS: [&str; 8] =
    ["default", "left out", "nothing is said", "without a word", "unless written", "says nothing", "among the defaults", "`//`"];

/// Sentences and cells of tables in which one of the marks stands beside a figure or a word of code.
fn sentences(text: &str) -> Vec<String> {
    let prose: Vec<&str> = text.split("\n```").step_by(2).collect();
    let mut parts: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in prose.iter().flat_map(|part| part.lines().chain([""])) {
        let begins = line.is_empty() || line.starts_with(['|', '-', '#']);
        if line.starts_with('|') {
            parts.extend(line.replace("\\|", "/").split('|').map(str::to_owned));
        } else if let (true, false, Some(last)) = (is_open, begins, parts.last_mut()) {
            last.push_str(&format!(" {line}"));
        } else {
            parts.push(line.to_owned());
        }
        is_open = !line.is_empty() && !line.starts_with('|');
    }
    let is_said = |sentence: &String| {
        let lower = sentence.to_lowercase();
        let is_word = |mark: &&str| lower.match_indices(*mark).any(|(start, _)| !lower[..start].ends_with('-'));
        MARKS.iter().any(is_word) && sentence.contains(|c: char| c.is_ascii_digit() || c == '`')
    };
    parts.iter().flat_map(|part| part.split(". ")).map(str::to_owned).filter(is_said).collect()
}

#[test]
fn every_sentence_with_a_default_is_listed() {
    let claims = claims();
    let mut unlisted = Vec::new();
    for (page, text) in pages() {
        if page == GENERATED || page == OF_OTHERS || page == IMPORTED || page == "README.md" {
            continue;
        }
        let of_page: Vec<&Claim> = claims.iter().filter(|claim| claim.page == page).collect();
        // Links to the page on defaults speak of none.
        let is_link = |sentence: &str| sentence.replace("security-defaults.md", "").replace("Security defaults", "") != *sentence;
        for sentence in sentences(&text) {
            let is_listed = of_page.iter().any(|claim| sentence.contains(&claim.words));
            let bare = sentence.replace("security-defaults.md", "");
            let is_about_others = is_link(&sentence) && !MARKS.iter().any(|mark| bare.to_lowercase().contains(mark));
            if !is_listed && !is_about_others {
                unlisted.push(format!("{page}: {sentence}"));
            }
        }
        let joined: String = text.lines().collect::<Vec<_>>().join(" ");
        for claim in of_page {
            assert!(joined.contains(&claim.words), "{page} does not say `{}` any more", claim.words);
        }
    }
    assert!(unlisted.is_empty(), "tests/documented_defaults.txt does not list:\n{}", unlisted.join("\n"));
}

#[test]
fn every_default_that_is_claimed_holds() {
    let mut count = 0;
    for Claim { page, words, place, shown_by } in claims() {
        if place == "-" {
            continue;
        }
        let (without, with) = shown_by.split_once('~').unwrap_or_else(|| panic!("{shown_by} has no `~`"));
        let (without, with) = (without.trim(), with.trim());
        let around = match place.as_str() {
            "top" => AROUND[1],
            "site" => AROUND[3],
            "pool" => AROUND[5],
            "pool-tls" => AROUND[6],
            "tls" => AROUND[8],
            other => panic!("{other} is no place"),
        };
        let meant = |lines: &str| {
            let loaded = load(&page, &around.replace("LINES", lines));
            let said = render(&loaded.diagnostics, &loaded.files, false);
            format!("{:?}", loaded.configuration.unwrap_or_else(|| panic!("{lines} is refused: {said}")))
        };
        assert_eq!(meant(without), meant(with), "{page}: {words}");
        for value in values(with).difference(&values(without)) {
            assert!(plain(&words).contains(&plain(value)) || is_said_in_words(value), "{page} says `{words}`, and {value} holds");
        }
        count += 1;
    }
    assert!(count >= 30, "only {count} defaults are held");
}

/// The values of a line, without the names of directives and properties.
fn values(line: &str) -> BTreeSet<String> {
    let words = line.split([' ', '{', '}', ';']).filter(|word| !word.is_empty());
    words
        .filter_map(|word| word.split_once('=').map(|(_, value)| value).or_else(|| word.contains(['"', '#']).then_some(word)))
        .map(str::to_owned)
        .collect()
}

/// `64 KiB` as `64KiB`, `5 min` as `5m`.
fn plain(text: &str) -> String {
    text.replace([' ', '"', '`', '\u{a0}'], "").replace("min", "m")
}

/// What prose says by a verb.
fn is_said_in_words(value: &str) -> bool {
    matches!(value, "#true" | "#false" | "\"auto\"" | "\"merge\"" | "\"connect,reset\"" | "\"stdout\"" | "\"json\"" | "\"p2c\"")
}
