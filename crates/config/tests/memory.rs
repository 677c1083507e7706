//! Loading again gives what a fresh load gives, whatever was loaded before: configuration, diagnostics as they are
//! shown, places. The texts are the crate's own cases, changed line by line, with an environment and files that change
//! as well.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tidegate_config::{
    Environment, LoadMemory, Loaded, MainFile, include_matches, load_path, load_path_again, load_with, load_with_again, render,
};

/// Lines that are worth putting anywhere: some are whole, some leave a block open, some need something that may not be
/// there.
const LINES: [&str; 28] = [
    "",
    "// a comment",
    "/* two\nlines */",
    "site \"http://a.localhost:8080\" { respond 200; }",
    "site \"http://b.localhost:8080\" { proxy \"api\"; }",
    "site \"c.example.com\" {\n    route \"/a\" { proxy \"api\"; }\n    proxy \"10.0.0.1:80\"\n}",
    "site \"d.localhost\" { header \"X\" \"{env.X}\"; respond 200; }",
    "site \"e.localhost\" { header \"X\" \"{file.value}\"; respond 200; }",
    "site \"f.localhost\" { include \"part.kdl\"; }",
    "site \"g.localhost\" { tls cert=\"no.pem\"; respond 200; }",
    "site \"h.localhost\" { proxy \"api\" { balance \"random\"; }; }",
    "site \"i.localhost\" { respond; respond; unknown; }",
    "site \"j.localhost\" {\n    proxy \"10.0.0.1:80\" \"10.0.0.2:80\" {\n        balance \"hash\" key=\"{client.ip}\"\n    }\n}",
    "pool \"api\" { server \"10.0.0.4:80\"; }",
    "pool \"api\" { server \"10.0.0.5:80\" weight=2; }",
    "pool \"{env.X}\" { server \"10.0.0.6:80\"; }",
    "pool \"unused\" { server \"10.0.0.4:80\"; server \"10.0.0.4:80\"; }",
    "include \"part*.kdl\"",
    "include \"top.kdl\"",
    "listener \":8080\" { trusted-proxies \"10.0.0.0/8\"; }",
    "edition \"2026\"",
    "threads 4",
    "/-",
    "/- site \"k.localhost\" { respond; }",
    "site \"l.localhost\" {",
    "}",
    "route \"/x\" { respond 204; }; threads 5",
    "site \"m.localhost\" \\",
];

/// What is done to a text: at which line, how many lines are taken out, which are put in.
type Change = (u8, u8, Vec<u8>);

fn changed(lines: &mut Vec<&'static str>, (at, removed, inserted): &Change) {
    let start = *at as usize % (lines.len() + 1);
    let end = (start + *removed as usize % 3).min(lines.len());
    let new = inserted.iter().take(3).map(|index| LINES[*index as usize % LINES.len()]);
    lines.splice(start..end, new);
}

fn shown(loaded: &Loaded) -> String {
    let mut out = render(&loaded.diagnostics, &loaded.files, false);
    write!(out, "{:#?}\n{:#?}\n", loaded.configuration, loaded.diagnostics).expect("a text");
    write!(out, "{:?}\n{:?}\n{:?}", loaded.spans, loaded.read_files, loaded.include_patterns).expect("a text");
    out
}

#[test]
fn loading_again_gives_what_a_fresh_load_gives() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("a file");
    write("top.kdl", "site \"n.localhost\" { proxy \"api\"; }\nthreads 3");
    bolero::check!().with_type::<Vec<(Change, u8)>>().for_each(|changes: &Vec<(Change, u8)>| {
        let mut memory = LoadMemory::default();
        let mut lines = vec![LINES[3], LINES[4], LINES[5], LINES[13]];
        for (change, world) in changes.iter().take(6) {
            changed(&mut lines, change);
            write("value", ["one", "two\n", "a\rb"][*world as usize % 3]);
            write("part.kdl", ["respond 200", "proxy \"api\"", "respond 200\n}"][*world as usize / 3 % 3]);
            let x = [None, Some("api")][*world as usize / 9 % 2];
            let variables = x.map(|value| ("X".to_string(), value.to_string()));
            let environment = Environment::Given(variables.into_iter().collect());
            let text = lines.join("\n");
            let again = load_with_again("test.kdl", &text, directory.path(), &environment, &mut memory);
            let fresh = load_with("test.kdl", &text, directory.path(), &environment);
            assert_eq!(shown(&again), shown(&fresh), "for\n{text}");
        }
    });
}

#[test]
fn a_text_that_moves_keeps_its_meaning_and_has_its_new_place() {
    let mut memory = LoadMemory::default();
    let environment = Environment::Given([].into());
    let mut load = |text: &str| {
        let loaded = load_with_again("test.kdl", text, Path::new("."), &environment, &mut memory);
        let (address, location) = &loaded.spans.addresses[0];
        (address.to_string(), loaded.files.position(location), render(&loaded.diagnostics, &loaded.files, false))
    };
    let site = "site \"*.example.com\" { proxy \"api\"; }\n";
    let pool = "pool \"api\" { server \"10.0.0.4:80\"; }\n";
    let (_, place, warning) = load(&format!("{site}{pool}"));
    assert_eq!(place, (1, 6));
    assert!(warning.contains("test.kdl:1:6"), "{warning}");
    let (address, place, warning) = load(&format!("{pool}\n{site}"));
    assert_eq!((address.as_str(), place), ("https://*.example.com", (3, 6)));
    assert!(warning.contains("test.kdl:3:6"), "{warning}");
    let (_, _, errors) = load(site);
    assert!(errors.contains("there is no pool `api`"), "{errors}");
    let (_, _, warning) = load(&format!("{site}{pool}"));
    assert!(!warning.contains("there is no pool"), "{warning}");
}

#[test]
fn a_watcher_is_told_of_every_file_and_of_every_pattern() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, text: &str| {
        fs::create_dir_all(path(name).parent().expect("a folder")).expect("a directory");
        fs::write(path(name), text).expect("a file");
    };
    write(
        "main.kdl",
        "include \"conf.d/*.kdl\" \"missing.kdl\"\nsite \"a.localhost\" { tls cert=\"c.pem\" key=\"k.pem\"; respond body=\"{file.x}\"; }",
    );
    write("conf.d/a.kdl", "pool \"p\" { include \"servers-?.kdl\"; tls ca=\"{file.ca-name}\"; }\nadmin \"unix:{file.socket}\"");
    write("conf.d/.hidden.kdl", "nonsense");
    write("conf.d/ca-name", "ca.pem");
    let mut memory = LoadMemory::default();
    for loaded in [load_path(&path("main.kdl")), load_path_again(&path("main.kdl"), MainFile::Regular, &mut memory)] {
        let names: Vec<String> = loaded
            .read_files
            .iter()
            .map(|file| file.strip_prefix(directory.path()).expect("a path").display().to_string())
            .collect();
        assert_eq!(
            names,
            [
                "c.pem",
                "conf.d/a.kdl",
                "conf.d/ca-name",
                "conf.d/ca.pem",
                "conf.d/socket",
                "k.pem",
                "main.kdl",
                "missing.kdl",
                "x"
            ]
        );
        assert_eq!(loaded.include_patterns, [path("conf.d/*.kdl"), path("conf.d/servers-?.kdl")]);
        assert_eq!(include_matches(&loaded.include_patterns[0]), [path("conf.d/a.kdl")]);
        assert!(include_matches(&loaded.include_patterns[1]).is_empty());
    }
    write("conf.d/servers-1.kdl", "server \"10.0.0.4:80\"");
    assert_eq!(include_matches(&path("conf.d/servers-?.kdl")), [path("conf.d/servers-1.kdl")]);
    let loaded = load_path_again(&path("main.kdl"), MainFile::Regular, &mut memory);
    assert!(loaded.read_files.contains(&path("conf.d/servers-1.kdl")));
}

/// Sites and pools that differ from one another in what may matter beside them. `#` is the number of the piece.
const VARIANTS: [&str; 20] = [
    "site \"http://s#.localhost:8080\" { respond 200; }",
    "site \"http://s#.localhost:8080\" {\n    route \"/a\" { respond 200 body=\"x\"; }\n    proxy \"p1\"\n}",
    "site \"http://s#.localhost:8080\" {\n    // ä\n    route \"/b\" { respond 204; }\n    proxy \"p2\"\n}",
    "site \"http://s#.localhost:8080\" { route \"/a\" { respond 200; }; route \"/a\" { respond 204; }; proxy \"p1\"; }",
    "site \"http://s#.localhost:8080\" { proxy \"10.0.0.1:80\"; }",
    "site \"http://s#.localhost:8080\" { proxy \"10.0.0.2:80\"; }",
    "site \"http://s#.localhost:8080\" { log { field \"tenant\" \"#\"; }; respond 200; }",
    "site \"http://s#.localhost:8080\" { header \"X\" \"{env.X}\"; respond 200; }",
    "site \"http://s#.localhost:8080\" { error-page 404 file=\"value\"; respond 200; }",
    "site \"https://s#.example.com\" { respond 200; }",
    "site \"https://s#.example.com\" { tls \"internal\"; respond 200; }",
    "site \"http://s1.localhost:8080\" { respond 200; }",
    "site \"http://s#.localhost:8080\" { respond; respond; unknown; }",
    "pool \"p#\" { server \"10.0.#.4:80\"; }",
    "pool \"p#\" { server \"10.0.#.4:80\" weight=2; server \"10.0.#.5:80\"; }",
    "pool \"p#\" { server \"https://10.0.#.4:80\"; sticky; }",
    "pool \"p#\" { discover dns=\"a#.internal:80\"; }",
    "pool \"p#\" { protocol \"fastcgi\"; server \"10.0.#.4:80\"; }",
    "pool \"p1\" { server \"10.0.9.4:80\"; }",
    "pool \"p#\" { discover file=\"value\"; server \"10.0.#.4:80\"; }",
];

/// What stands at the end, and looks at the others.
const SURROUNDINGS: [&str; 8] = [
    "",
    "listener \":8080\" { trusted-proxies \"10.0.0.0/8\"; }\nlistener \":8081\" { trusted-proxies \"10.0.0.0/8\"; }",
    "access-log \"off\" format=\"{log.tenant} {log.other}\"",
    "tcp \":7000\" { proxy \"p1\"; }",
    "tcp \":443\" { sni \"s2.example.com\" { proxy \"p2\"; }; }",
    "acme \"off\"",
    "admin \"unix:a.sock\"\nadmin-token \"{env.X}\"",
    "include \"part.kdl\"",
];

#[test]
fn a_change_of_one_piece_gives_what_a_fresh_load_gives() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("a file");
    write("part.kdl", "threads 3");
    // Each piece in the place of each other, with each of the surroundings.
    for surrounding in SURROUNDINGS {
        for (first, second) in (0..VARIANTS.len()).flat_map(|first| (0..VARIANTS.len()).map(move |second| (first, second))) {
            if (first < 13) != (second < 13) {
                continue;
            }
            let mut memory = LoadMemory::default();
            for (step, choice) in [first, second, first].into_iter().enumerate() {
                let is_site = choice < 13;
                let sites = if is_site { [choice, 0] } else { [1, 2] };
                let pools = if is_site { [13, 13] } else { [choice, 13] };
                let piece = |number: usize, choice: usize| VARIANTS[choice].replace('#', &number.to_string());
                let of = |choices: [usize; 2]| format!("{}\n\n{}", piece(1, choices[0]), piece(2, choices[1]));
                let text = format!("{}\n{}\n{surrounding}\n", of(sites), of(pools));
                write("value", ["[]", "[ ]"][step % 2]);
                let environment = Environment::Given([("X".to_string(), step.to_string())].into());
                let again = load_with_again("test.kdl", &text, directory.path(), &environment, &mut memory);
                let fresh = load_with("test.kdl", &text, directory.path(), &environment);
                assert_eq!(shown(&again), shown(&fresh), "for\n{text}");
            }
        }
    }
}
