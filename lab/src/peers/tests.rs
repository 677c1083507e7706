//! What the configurations of all peers have in common, and that those peers that are installed accept theirs.
//! What belongs to one file is tested there.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tidegate_transport::Driver;

use super::*;
use crate::peers::control::{Stop, graceful_stop};
use crate::peers::find::{Given, by_driver, default_cache, find, parse_version};
use crate::peers::render::main_file;
use crate::results::Flavour;

fn places(folder: &Path) -> Places {
    Places {
        folder: folder.to_owned(),
        listen: "127.0.0.1:41001".parse().unwrap(),
        admin: "127.0.0.1:41002".parse().unwrap(),
        backend: "127.0.0.1:41003".parse().unwrap(),
    }
}

fn program(kind: PeerKind) -> Program {
    Program {
        kind,
        name: kind.name().to_owned(),
        driver: None,
        path: Path::new("/opt").join(kind.name()),
        version: "1.22.1".to_owned(),
        tls_library: String::new(),
    }
}

/// A shell writes it: were this process to hold the file open for writing while a test beside it starts a child, it
/// could not be run.
pub fn write_script(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"printf %s "$2" > "$1" && chmod 755 "$1""#, "sh"]).arg(path).arg(text);
    assert!(shell.status().unwrap().success());
}

/// Every flavour and variant of a peer, with every flag on and off, with and without a number of threads, and with
/// every compression.
fn all_setups(kind: PeerKind) -> Vec<Setup> {
    let mut bases = [Flavour::OutOfTheBox, Flavour::Equalised].map(Setup::of).to_vec();
    for variant in variants(kind, Flavour::Tuned) {
        bases.push(Setup { variant: Some((*variant).to_owned()), ..Setup::of(Flavour::Tuned) });
    }
    let compressions = codecs(kind).iter().flat_map(|codec| codec.compressions()).map(Some);
    let compressions: Vec<_> = [None].into_iter().chain(compressions).collect();
    let mut setups = Vec::new();
    for base in bases {
        for flags in 0..32 {
            let flag = |bit: u32| flags & (1 << bit) != 0;
            for compression in compressions.iter().copied() {
                let threads = flag(4).then_some(2);
                let mut setup = Setup { threads, compression, ..base.clone() };
                (setup.cors, setup.redirect, setup.shared_port, setup.access_log) = (flag(0), flag(1), flag(2), flag(3));
                setups.push(setup);
            }
        }
    }
    setups
}

#[test]
fn every_configuration_is_whole_and_names_its_places() {
    let places = places(Path::new("/srv/folder"));
    for kind in PeerKind::ALL {
        for setup in all_setups(kind) {
            let rendered = render(&program(kind), &places, &setup, None).unwrap();
            let text: String = rendered.files.iter().map(|(_, text)| text.as_str()).collect();
            for wanted in ["41001", "127.0.0.1", "41003", "cert.pem"]
                .map(|word| if kind == PeerKind::Haproxy { word.replace("cert", "combined") } else { word.to_owned() })
            {
                assert!(text.contains(&wanted), "{kind} {setup:?}: {wanted}\n{text}");
            }
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{kind} {setup:?}\n{text}");
            assert!(!text.contains("{%") && !text.contains("none"), "{kind} {setup:?}\n{text}");
            assert_eq!(
                text.to_lowercase().contains("access-control") || text.contains("accessControl"),
                setup.cors,
                "{kind} {setup:?}"
            );
            assert_eq!(text.contains("/old"), setup.redirect, "{kind} {setup:?}");
            assert!(rendered.files.iter().any(|(name, _)| name == main_file(kind)), "{kind} {:?}", rendered.files);
            let command = rendered.arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ");
            assert!(command.contains(&format!("/srv/folder/{}", main_file(kind))), "{kind}: {command}");
        }
    }
}

#[test]
fn many_sites_differ_by_one_file_when_one_changes() {
    let places = places(Path::new("/srv/folder"));
    for kind in PeerKind::ALL {
        let of = |count, revision| render(&program(kind), &places, &Setup::of_sites(Sites { count, revision }, 1), None).unwrap();
        for count in [1, 2, 300] {
            let (first, second) = (of(count, 1), of(count, 2));
            let text: String = first.files.iter().map(|(_, text)| text.as_str()).collect();
            let last = format!("site-{count}.test");
            assert!(
                text.contains("localhost") && text.contains(&last) && text.contains("41001") && text.contains("41003"),
                "{kind}: {text}"
            );
            assert!(!text.contains(&format!("site-{}.test", count + 1)), "{kind} {count}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{kind}: {text}");
            assert!(!text.contains("cert") && !text.contains("{%"), "{kind}: {text}");
            let changed: Vec<_> = first.files.iter().zip(&second.files).filter(|(left, right)| left != right).collect();
            let [((name, before), (_, after))] = changed.as_slice() else { panic!("{kind}: {changed:?}") };
            assert_eq!(name.contains("changing"), kind != PeerKind::Envoy, "{kind}: {name}");
            assert_eq!(before.lines().zip(after.lines()).filter(|(left, right)| left != right).count(), 1, "{kind}");
            assert!((2..=7).contains(&(first.note.matches(". ").count() + first.note.matches(".\n").count() + 1)), "{kind}");
            assert!(kind != PeerKind::Haproxy || first.arguments.iter().any(|argument| argument == "-W"));
        }
    }
}

#[test]
fn each_of_many_certificates_is_in_the_configuration_of_who_takes_them() {
    let places = places(Path::new("/srv/folder"));
    for kind in PeerKind::ALL {
        for count in [1, 2, 300] {
            let certificates = Certificates { count, folder: "/srv/many".into() };
            let rendered = render(&program(kind), &places, &Setup::of_certificates(certificates, 1), None);
            if !takes_certificates(kind) {
                assert!(rendered.unwrap_err().to_string().contains("has no configuration `many-certificates`"), "{kind}");
                continue;
            }
            let rendered = rendered.unwrap();
            let text: String = rendered.files.iter().map(|(_, text)| text.as_str()).collect();
            assert!(text.contains(&format!("/srv/many/{count}.pem")) && text.contains("41001"), "{kind}: {text}");
            assert!(!text.contains(&format!("/{}.pem", count + 1)) && !text.contains("{%"), "{kind}: {text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{kind}: {text}");
            assert!(!rendered.note.is_empty());
        }
    }
}

#[test]
fn what_a_peer_serves_itself_is_configured_wherever_it_has_it() {
    let places = places(Path::new("/srv/folder"));
    for kind in PeerKind::ALL {
        for (source, tls) in Source::ALL.into_iter().flat_map(|source| [(source, false), (source, true)]) {
            let setup = Setup { content: Some(Content { source, tls }), threads: Some(1), ..Setup::of(Flavour::Equalised) };
            let has_it = lacks(kind, source).is_none();
            let rendered = match render(&program(kind), &places, &setup, None) {
                Ok(rendered) => rendered,
                Err(error) if !has_it => {
                    assert!(error.to_string().contains("has no configuration `content`"), "{kind}: {error}");
                    continue;
                }
                Err(error) => panic!("{kind} {source:?}: {error}"),
            };
            if !has_it {
                continue;
            }
            let text: String = rendered.files.iter().map(|(_, text)| text.as_str()).collect();
            assert!(text.contains("41001") && !text.contains("{%"), "{kind} {source:?}: {text}");
            assert_eq!(text.contains("41003"), source == Source::Cache, "{kind} {source:?}: only a cache has a backend\n{text}");
            assert_eq!(
                text.contains("TLSv1.3") || text.contains("1.3\"") || text.contains("tls1.3"),
                tls || kind == PeerKind::Haproxy
            );
            assert_eq!(text.contains("cert.pem") || text.contains("combined.pem"), tls, "{kind} {source:?}: {text}");
            assert_eq!(
                text.contains("/srv/folder/pages"),
                source == Source::Files || (source == Source::Respond && kind == PeerKind::Haproxy)
            );
            assert_eq!(text.contains("Harbour times"), source == Source::Respond && kind != PeerKind::Haproxy, "{kind}: {text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{kind} {source:?}: {text}");
            assert!(rendered.note.matches(". ").count() + rendered.note.matches(".\n").count() >= 1, "{kind}: {}", rendered.note);
        }
    }
}

#[test]
fn every_flavour_says_what_is_equal_in_it() {
    let places = places(Path::new("/srv/folder"));
    for kind in PeerKind::ALL {
        for setup in all_setups(kind) {
            let note = render(&program(kind), &places, &setup, None).unwrap().note;
            let sentences = note.matches(". ").count() + note.matches(".\n").count() + 1;
            assert!((2..=7).contains(&sentences), "{kind} {:?}: {sentences} sentences: {note}", setup.flavour);
        }
    }
}

#[test]
fn compression_reaches_the_configuration() {
    let places = places(Path::new("/srv/folder"));
    for kind in PeerKind::ALL {
        for flavour in [Flavour::OutOfTheBox, Flavour::Equalised] {
            let plain = render(&program(kind), &places, &Setup::of(flavour), None).unwrap();
            let mut seen = vec![plain.files];
            for compression in codecs(kind).iter().flat_map(|codec| codec.compressions()) {
                let setup = Setup { compression: Some(compression), ..Setup::of(flavour) };
                let files = render(&program(kind), &places, &setup, None).unwrap().files;
                assert!(!seen.contains(&files), "{kind} {compression:?} is like another");
                seen.push(files);
            }
        }
    }
}

#[test]
fn the_fastest_compression_is_one_that_the_peer_has() {
    for kind in PeerKind::ALL {
        let all: Vec<Compression> = codecs(kind).iter().flat_map(|codec| codec.compressions()).collect();
        let fastest = fastest_compression(kind);
        assert!(all.contains(&fastest), "{kind} {fastest:?}");
    }
}

#[test]
fn nginx_is_told_of_http2_as_its_version_has_it() {
    let places = places(Path::new("/srv/folder"));
    let check = |version: &str, directive: bool| {
        let nginx = Program { version: version.to_owned(), ..program(PeerKind::Nginx) };
        let text = render(&nginx, &places, &Setup::of(Flavour::Equalised), None).unwrap().files.remove(0).1;
        assert_eq!((text.contains("ssl http2;"), text.contains("http2 on;")), (!directive, directive), "{version}");
    };
    check("1.22.1", false);
    check("1.25.0", false);
    check("1.25.1", true);
    check("1.29.0-1~bookworm", true);
}

#[test]
fn what_cannot_be_rendered_says_why() {
    let places = places(Path::new("/srv/folder"));
    let check = |kind: PeerKind, flavour: Flavour, variant: Option<&str>, expected: &str| {
        let setup = Setup { variant: variant.map(str::to_owned), ..Setup::of(flavour) };
        let error = render(&program(kind), &places, &setup, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(PeerKind::Nginx, Flavour::Tuned, None, "keepalive-4, multi-accept, aes-128-first");
    check(PeerKind::Nginx, Flavour::Tuned, Some("keepalive-5"), "keepalive-5");
    check(PeerKind::Nginx, Flavour::Equalised, Some("keepalive-4"), "no variants");
    check(PeerKind::Caddy, Flavour::Tuned, None, "caddy has no configuration `tuned`");
    check(PeerKind::Caddy, Flavour::Floor, None, "floor");
}

#[test]
fn templates_may_come_from_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("caddy/equalised");
    fs::create_dir_all(own.join("more")).unwrap();
    fs::write(own.join("Caddyfile"), "to {{ backend.all }}\n").unwrap();
    fs::write(own.join("more/file"), "{{ threads or \"auto\" }}").unwrap();
    fs::write(own.join("note.md"), "Mine.\n").unwrap();
    let places = places(Path::new("/srv/folder"));
    let setup = Setup::of(Flavour::Equalised);
    let rendered = render(&program(PeerKind::Caddy), &places, &setup, Some(folder.path())).unwrap();
    let expected =
        [("Caddyfile", "to 127.0.0.1:41003\n"), ("more/file", "auto")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(rendered.files, expected);
    assert_eq!(rendered.note, "Mine.");

    fs::write(own.join("Caddyfile"), "to {{ bakend }}\n").unwrap();
    let error = render(&program(PeerKind::Caddy), &places, &setup, Some(folder.path())).unwrap_err().to_string();
    assert!(error.contains("peers/caddy/equalised/Caddyfile"), "{error}");
    let missing = render(&program(PeerKind::Nginx), &places, &setup, Some(folder.path())).unwrap_err().to_string();
    assert!(missing.contains("nginx/equalised"), "{missing}");
}

#[test]
fn names_are_read_and_suggested() {
    for kind in PeerKind::ALL {
        assert_eq!(PeerKind::from_name(kind.name()), Ok(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    let error = PeerKind::from_name("Trafik").unwrap_err();
    assert!(error.contains("perhaps `traefik`") && error.contains("haproxy, nginx"), "{error}");
    let error = PeerKind::from_name("apache").unwrap_err();
    assert!(!error.contains("perhaps") && error.contains("tidegate"), "{error}");
}

#[test]
fn versions_are_read_from_what_peers_say() {
    let check = |kind: PeerKind, said: &str, expected: Option<(&str, &str)>| {
        let expected = expected.map(|(version, library)| (version.to_owned(), library.to_owned()));
        assert_eq!(parse_version(kind, said), expected, "{kind}: {said}");
    };
    let tidegate = "tidegate 0.1.0\nTLS: rustls with aws-lc-rs\nHTTP: 1.0, 1.1, 2\n";
    check(PeerKind::Tidegate, tidegate, Some(("0.1.0", "rustls with aws-lc-rs")));
    let haproxy = "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/\nBuilt with OpenSSL version : OpenSSL 3.0.22 25 Aug 2026\n\
                   Running on OpenSSL version : OpenSSL 3.0.19 27 Jan 2026\n";
    check(PeerKind::Haproxy, haproxy, Some(("2.6.12-1+deb12u4", "OpenSSL 3.0.19")));
    let nginx = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.20 7 Apr 2026 (running with OpenSSL 3.0.19 27 Jan 2026)\n";
    check(PeerKind::Nginx, nginx, Some(("1.22.1", "OpenSSL 3.0.19")));
    check(
        PeerKind::Nginx,
        "nginx version: nginx/1.29.0\nbuilt with OpenSSL 3.5.1 1 Jul 2025\n",
        Some(("1.29.0", "OpenSSL 3.5.1")),
    );
    check(
        PeerKind::Angie,
        "Angie version: Angie/1.10.0\nnginx version: nginx/1.27.5\nbuilt with OpenSSL 3.0.15 3 Sep 2024\n",
        Some(("1.10.0", "OpenSSL 3.0.15")),
    );
    check(PeerKind::Angie, nginx, None);
    check(PeerKind::Envoy, "\nenvoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL\n\n", Some(("1.40.0", "BoringSSL")));
    let by_go = "unknown\ngo\tgo1.26.8\npath\tgithub.com/caddyserver/caddy/v2/cmd/caddy\nmod\tgithub.com/caddyserver/caddy/v2\tv2.11.9\th1:bhZt=\n";
    check(PeerKind::Caddy, by_go, Some(("2.11.9", "Go crypto/tls (go1.26.8)")));
    let released =
        "v2.10.0 h1:abc=\ngo\tgo1.24.2\nmod\tcaddy\t(devel)\t\ndep\tgithub.com/caddyserver/caddy/v2\tv2.10.0\th1:abc=\n";
    check(PeerKind::Caddy, released, Some(("2.10.0", "Go crypto/tls (go1.24.2)")));
    check(PeerKind::Caddy, "unknown\n", None);
    let traefik = "Version:      3.6.12\nCodename:     cheddar\nGo version:   go1.26.8\nOS/Arch:      linux/amd64\n";
    check(PeerKind::Traefik, traefik, Some(("3.6.12", "Go crypto/tls (go1.26.8)")));
    for kind in PeerKind::ALL {
        check(kind, "Hello, world\n", None);
    }
}

#[test]
fn a_program_is_found_absent_or_broken() {
    let cache = tempfile::tempdir().unwrap();
    let [haproxy, angie] = [PeerKind::Haproxy, PeerKind::Angie].map(PeerName::of);
    let nowhere = find(&haproxy, &[Given { name: haproxy.clone(), path: "/nowhere/haproxy".into() }], cache.path());
    assert!(matches!(nowhere, Search::Broken { .. }), "{nowhere:?}");
    let bin = cache.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let write = |text: &str| write_script(&bin.join("angie"), text);
    let search = || find(&angie, &[], cache.path());
    if !matches!(search(), Search::Found(_)) {
        assert!(matches!(search(), Search::Absent { ref how_to_get } if how_to_get.contains("angie.software")), "{:?}", search());
    }
    write("#!/bin/sh\necho Angie version: Angie/1.10.0 >&2\n");
    assert!(
        matches!(search(), Search::Found(ref program) if program.version == "1.10.0" && program.path == bin.join("angie")),
        "{:?}",
        search()
    );
    write("#!/bin/sh\necho something else\n");
    assert!(matches!(search(), Search::Broken { ref reason, .. } if reason.contains("something else")), "{:?}", search());
    write("#!/bin/sh\necho no library >&2\nexit 127\n");
    assert!(matches!(search(), Search::Broken { ref reason, .. } if reason.contains("no library")), "{:?}", search());
}

#[test]
fn a_tidegate_has_a_column_for_each_driver_that_is_wanted_and_that_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate");
    let found = Search::Found(Program { path: path.clone(), ..program(PeerKind::Tidegate) });
    let check = |script: &str, wanted: &[Driver], expected: &[(&str, Option<Driver>)]| {
        write_script(&path, script);
        let columns = by_driver(&PeerName::of(PeerKind::Tidegate), found.clone(), wanted);
        let told: Vec<_> = columns
            .iter()
            .map(|(name, search)| match search {
                Search::Found(program) | Search::Forbidden { program, .. } => {
                    assert_eq!(&program.name, name);
                    (name.as_str(), program.driver)
                }
                other => panic!("{name}: {other:?}"),
            })
            .collect();
        assert_eq!(told, expected);
        let (_, last) = columns.last().unwrap();
        let is_forbidden = tidegate_transport::driver::probe(Driver::IoUring, 1).is_err();
        let has_ring = expected.iter().any(|(_, driver)| *driver == Some(Driver::IoUring));
        assert_eq!(matches!(last, Search::Forbidden { .. }), is_forbidden && has_ring, "{last:?}");
    };
    // The check of a build is asked with a configuration that names a driver.
    let knows = "#!/bin/sh\ntest \"$1\" = check && grep -q '^driver' \"$2\"\n";
    let both = [Driver::Epoll, Driver::IoUring];
    check(knows, &both, &[("tidegate", Some(Driver::Epoll)), ("tidegate io-uring", Some(Driver::IoUring))]);
    check(knows, &[Driver::IoUring], &[("tidegate io-uring", Some(Driver::IoUring))]);
    check(knows, &[Driver::Epoll], &[("tidegate", Some(Driver::Epoll))]);
    check("#!/bin/sh\necho 'no such setting' >&2\nexit 1\n", &both, &[("tidegate", None)]);
}

#[test]
fn instances_of_one_port_say_so_to_builds_that_know() {
    fn check(help: &str, shared_port: bool, expect: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate");
        write_script(&path, &format!("#!/bin/sh\ntest \"$1 $2\" = 'run --help' && echo '{help}'\n"));
        let program = Program { path, ..program(PeerKind::Tidegate) };
        let setup = Setup { shared_port, ..Setup::of(Flavour::Equalised) };
        let arguments = render(&program, &places(Path::new("/srv/folder")), &setup, None).unwrap().arguments;
        assert_eq!(arguments, expect, "{help}");
    }
    let file = "/srv/folder/tidegate.kdl";
    check("    --share-port   a part of the connections each", true, &["run", "--share-port", "--config", file]);
    check("    --share-port   a part of the connections each", false, &["run", "--config", file]);
    check("    --watch        loads changed files", true, &["run", "--config", file]);
}

#[test]
fn the_driver_stands_in_every_configuration_of_tidegate_that_has_one() {
    let places = places(Path::new("/srv/folder"));
    let sites = Setup::of_sites(Sites { count: 3, revision: 1 }, 1);
    let certificates = Setup::of_certificates(Certificates { count: 3, folder: "/srv/many".into() }, 1);
    let content = Setup { content: Some(Content { source: Source::Files, tls: false }), ..Setup::of(Flavour::Equalised) };
    for setup in [Setup::of(Flavour::OutOfTheBox), Setup::of(Flavour::Equalised), sites, certificates, content] {
        for driver in [None, Some(Driver::Epoll), Some(Driver::IoUring)] {
            let program = Program { driver, ..program(PeerKind::Tidegate) };
            let files = render(&program, &places, &setup, None).unwrap().files;
            let main = files.into_iter().find(|(name, _)| name == "tidegate.kdl").unwrap().1;
            let named = main.lines().find_map(|line| line.strip_prefix("driver ")).map(|name| name.trim_matches('"').to_owned());
            assert_eq!(named.as_deref(), driver.map(Driver::name), "{main}");
        }
    }
}

#[test]
fn a_command_that_does_not_end_is_ended() {
    let error = bounded::output(Command::new("sleep").arg("60"), Duration::from_millis(50)).unwrap_err();
    assert!(error.contains("not done"), "{error}");
    assert_eq!(bounded::output(Command::new("echo").arg("yes"), Duration::from_secs(10)), Ok("yes\n".to_owned()));
}

#[test]
fn the_graceful_stop_is_the_documented_one() {
    let signals = [
        (PeerKind::Tidegate, Signal::TERM),
        (PeerKind::Haproxy, Signal::USR1),
        (PeerKind::Nginx, Signal::QUIT),
        (PeerKind::Angie, Signal::QUIT),
        (PeerKind::Caddy, Signal::TERM),
        (PeerKind::Traefik, Signal::TERM),
    ];
    for (kind, signal) in signals {
        assert_eq!(graceful_stop(kind), Stop::Signal(signal), "{kind}");
    }
    assert!(matches!(graceful_stop(PeerKind::Envoy), Stop::PostThenSignal { path: "/drain_listeners?graceful", .. }));
}

#[test]
fn what_is_not_watched_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let places = places(folder.path());
    // Nobody is signalled: there is no process of this number.
    let nobody = i32::MAX as u32;
    for kind in [PeerKind::Envoy, PeerKind::Traefik] {
        let plain = Setup { shared_port: true, ..Setup::of(Flavour::OutOfTheBox) };
        let setup_of = |setup: &Setup| render(&program(kind), &places, setup, None).unwrap();
        let old = setup_of(&plain);
        old.write(folder.path()).unwrap();
        let routes = setup_of(&Setup { cors: true, redirect: true, ..plain.clone() });
        assert_eq!(reconfigure(&program(kind), &places, &old, &routes, nobody), Ok(()), "{kind}");
        for (name, text) in &routes.files {
            assert_eq!(&fs::read_to_string(folder.path().join(name)).unwrap(), text, "{kind} {name}");
        }
        let [first, second] = [1, 2].map(|revision| setup_of(&Setup::of_sites(Sites { count: 2, revision }, 1)));
        assert_eq!(order_change(&program(kind), &places, &first, &second, nobody), Ok(()), "{kind}");
        let log = setup_of(&Setup { access_log: true, ..plain });
        let refused = reconfigure(&program(kind), &places, &old, &log, nobody).unwrap_err();
        assert!(refused.contains("only when it starts"), "{kind}: {refused}");
    }
    let haproxy = render(&program(PeerKind::Haproxy), &places, &Setup::of(Flavour::OutOfTheBox), None).unwrap();
    let refused = reconfigure(&program(PeerKind::Haproxy), &places, &haproxy, &haproxy, nobody).unwrap_err();
    assert!(refused.contains("master"), "{refused}");
}

/// `/metrics` of a Tidegate whose configuration changed so often, and was refused so often.
fn metrics_of(generation: u64, refused: u64) -> String {
    format!(
        "# TYPE tidegate_configuration_generation gauge\ntidegate_configuration_generation {generation}\n\
         tidegate_configuration_changes_total{{result=\"applied\"}} {generation}\n\
         tidegate_configuration_changes_total{{result=\"refused\"}} {refused}\n"
    )
}

/// Answers one request after the other with these texts, then is gone.
fn admin_that_says(answers: Vec<String>) -> (std::net::SocketAddr, std::thread::JoinHandle<()>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for answer in answers {
            let mut socket = listener.accept().unwrap().0;
            let count = socket.read(&mut [0; 1024]).unwrap();
            assert!(count > 0);
            socket.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{answer}").as_bytes()).unwrap();
        }
    });
    (address, server)
}

#[test]
fn tidegate_is_waited_for_until_it_has_applied_or_refused() {
    let check = |answers: &[String], expected: Result<(), &str>| {
        let folder = tempfile::tempdir().unwrap();
        let (admin, server) = admin_that_says(answers.to_vec());
        let places = Places { admin, ..places(folder.path()) };
        let plain = Setup { shared_port: true, ..Setup::of(Flavour::OutOfTheBox) };
        let of = |setup: &Setup| render(&program(PeerKind::Tidegate), &places, setup, None).unwrap();
        let (old, new) = (of(&plain), of(&Setup { cors: true, ..plain.clone() }));
        // SIGHUP is for this one, and is its end.
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let outcome = reconfigure(&program(PeerKind::Tidegate), &places, &old, &new, sleeper.id());
        match expected {
            Ok(()) => assert_eq!(outcome, Ok(())),
            Err(part) => assert!(outcome.as_ref().is_err_and(|error| error.contains(part)), "{outcome:?}"),
        }
        server.join().unwrap();
        if expected.is_err_and(|error| error.contains("have no")) {
            sleeper.kill().unwrap();
        } else {
            let text = fs::read_to_string(folder.path().join("tidegate.kdl")).unwrap();
            assert!(text.contains("Access-Control-Allow-Origin"), "{text}");
        }
        assert!(!sleeper.wait().unwrap().success());
    };
    check(&[metrics_of(1, 0), metrics_of(1, 0), metrics_of(2, 0)], Ok(()));
    check(&[metrics_of(7, 3), metrics_of(7, 3), metrics_of(7, 4)], Err("refused the changed configuration"));
    check(&["tidegate_configuration_generations 1\n".to_owned()], Err("have no tidegate_configuration_generation"));
}

#[test]
fn installed_peers_accept_their_configurations() {
    for kind in PeerKind::ALL {
        let Search::Found(program) = find(&PeerName::of(kind), &[], &default_cache()) else {
            let installed_by_pipeline = matches!(kind, PeerKind::Haproxy | PeerKind::Nginx);
            assert!(!installed_by_pipeline || std::env::var_os("CI").is_none(), "{kind} is not installed");
            println!("{kind} is not installed, so its configurations were not checked by it");
            continue;
        };
        for (name, setup) in check::setups(kind) {
            match check::check(&program, &setup, None).unwrap() {
                check::Checked::Accepted => {}
                check::Checked::FilledIn => assert_eq!(kind, PeerKind::Traefik),
                check::Checked::LacksModule(sentence) => println!("{kind}, {name}: {sentence}"),
                check::Checked::Refused(reason) => panic!("{kind}, {name}: {reason}"),
            }
        }
    }
}
