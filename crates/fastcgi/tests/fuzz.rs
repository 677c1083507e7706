//! Fuzz targets of everything that reads foreign bytes: no panic, the same facts in any fragmentation, and what was
//! accepted keeps its promises. Well-formed streams are in `properties`.

mod observed;

use bolero::check;
use std::collections::HashSet;
use std::net::SocketAddr;
use tidegate_fastcgi::{Mode, Pairs, Params, Scripts};

const ITERATIONS: usize = 20_000;

/// A well-formed example with a few bytes changed, then cut off or continued: (example, changes, bytes that follow).
type Mutation = (u8, Vec<(u16, u8)>, Vec<u8>);

fn mutated(examples: &[&[u8]], (example, changes, tail): &Mutation) -> Vec<u8> {
    let mut bytes = examples[usize::from(*example) % examples.len()].to_vec();
    // A few only: otherwise nothing of the example is left.
    for (place, byte) in changes.iter().take(4) {
        let place = usize::from(*place) % (bytes.len() + 1);
        if place < bytes.len() {
            bytes[place] = *byte;
        } else {
            bytes.truncate(usize::from(*byte) % bytes.len().max(1));
        }
    }
    bytes.extend_from_slice(tail);
    bytes
}

fn lengths(pieces: &[u8]) -> Vec<usize> {
    pieces.iter().map(|length| usize::from(*length % 16) + 1).collect()
}

const ANSWERS: &[&[u8]] = &[
    b"\x01\x06\0\x01\0\x05\x03\0hello...\x01\x07\0\x01\0\x01\0\0!\x01\x06\0\x01\0\0\0\0\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0",
    b"\x01\x0b\0\0\0\x08\0\0\x09\0\0\0\0\0\0\0\x01\x0a\0\0\0\x02\x01\0ab.\x01\x03\0\x01\0\x08\x02\0\0\0\0\x07\x02\0\0\0..",
    b"",
];

#[test]
fn records_of_any_kind_are_decoded_alike_in_any_fragmentation() {
    assert!(ANSWERS[..2].iter().all(|example| observed::events(example, &[]).outcome == Ok(true)));
    check!().with_iterations(ITERATIONS).with_type::<(Mutation, Vec<u8>)>().for_each(|(mutation, pieces)| {
        let bytes = mutated(ANSWERS, mutation);
        let whole = observed::events(&bytes, &[]);
        assert_eq!(observed::events(&bytes, &lengths(pieces)), whole, "{} in {pieces:?}", bytes.escape_ascii());
        let content: usize = whole.events.iter().filter(|(kind, _)| *kind != "end").map(|(_, content)| content.len()).sum();
        assert!(content <= bytes.len());
        let ends = whole.events.iter().filter(|(kind, _)| *kind == "end").count();
        assert!(ends <= 1 && (ends == 1 || whole.outcome != Ok(true)));
    });
}

const HEADS: &[&[u8]] = &[
    b"Status: 404 Not Found\r\nX-Powered-By: a\r\nContent-type: text/html; charset=UTF-8\r\n\r\nbody",
    b"Location: /a?b\nContent-Length: 12\nSet-Cookie: a=b; c\nSet-Cookie: d\n\nbody\n\n",
    b"A:\n\n",
    b"",
];

#[test]
fn heads_of_any_shape_are_read_alike_in_any_fragmentation() {
    assert!(HEADS[..3].iter().all(|example| matches!(observed::head(example, &[]), Ok(Some(_)))));
    check!().with_iterations(ITERATIONS).with_type::<(Mutation, Vec<u8>)>().for_each(|(mutation, pieces)| {
        let bytes = mutated(HEADS, mutation);
        let whole = observed::head(&bytes, &[]);
        let in_pieces = observed::head(&bytes, &lengths(pieces));
        assert_eq!(format!("{whole:?}"), format!("{in_pieces:?}"), "{} in {pieces:?}", bytes.escape_ascii());
        let Ok(Some((head, length))) = whole else { return };
        assert!(bytes[..length].ends_with(b"\n"));
        assert!((200..=999).contains(&head.status()));
        assert!(head.location().is_none_or(|location| !location.is_empty()));
        let texts = head.fields().flat_map(|(name, value)| [name, value]).chain([head.reason()]);
        assert!(texts.flatten().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f)));
        for (name, _) in head.fields() {
            assert!(!name.is_empty() && !name.contains(&b':') && !name.contains(&b' '));
            for framing in ["status", "content-length", "transfer-encoding", "connection"] {
                assert!(!name.eq_ignore_ascii_case(framing.as_bytes()));
            }
        }
    });
}

const PATHS: &[&[u8]] = &[b"/a/b.php/c%2Fd", b"/%2e%2e/x.php", b"/a%5c..%5C.php", b"/blog//", b"/%41.php//..%00", b"/"];

#[test]
fn no_path_leads_out_of_the_root() {
    let front = Mode::FrontController { script: b"/front.php".to_vec() };
    let sites = [Mode::Direct, front].map(|mode| Scripts::new(b"/srv", b".php", b"index.php", mode).expect("good settings"));
    check!().with_iterations(ITERATIONS).with_type::<Mutation>().for_each(|mutation| {
        let path = mutated(PATHS, mutation);
        for (scripts, is_file) in [(&sites[0], true), (&sites[1], true), (&sites[1], false)] {
            let Ok(choice) = scripts.find(&path) else { continue };
            let Some(script) = choice.settle(is_file) else { continue };
            let shown = path.escape_ascii();
            assert!(script.name().starts_with(b"/") && script.name().ends_with(b".php"), "{shown}");
            assert!(script.path_info().is_empty() || script.path_info().starts_with(b"/"), "{shown}");
            let whole = [script.name(), script.path_info()].concat();
            assert!(!whole.contains(&0), "{shown}");
            assert!(whole.split(|byte| b"/\\".contains(byte)).all(|segment| segment != b"." && segment != b".."), "{shown}");
            assert!(script.name()[1..].split(|byte| *byte == b'/').all(|segment| !segment.is_empty()), "{shown}");
        }
    });
}

const FIELDS: &[&[u8]] = &[
    b"x-a:1\nX-A:2\nx_a:3\nProxy:4\nCookie:5\ncookie:6\nhost:7\ncontent-type:8\ncontent-length:9",
    b"a-b:1\na.b:2\nA-b:3\nproxy-:4\n:5\nHTTP-Proxy:6\nExtra:7",
];

#[test]
fn no_field_is_passed_under_the_name_of_another() {
    let scripts = Scripts::new(b"/srv", b".php", b"index.php", Mode::Direct).expect("good settings");
    let script = scripts.find(b"/a.php/b").expect("a good path").settle(true).expect("a script");
    let address = SocketAddr::from(([192, 0, 2, 1], 1));
    let mut pairs = Pairs::new(1000);
    check!().with_iterations(ITERATIONS).with_type::<Mutation>().for_each(|mutation| {
        let bytes = mutated(FIELDS, mutation);
        let lines = bytes.split(|byte| *byte == b'\n');
        let fields = lines.map(|line| line.split_at(line.iter().position(|byte| *byte == b':').unwrap_or(line.len())));
        let params = Params {
            method: b"GET",
            raw_target: b"/a.php/b",
            query: b"",
            protocol: "HTTP/1.1",
            authority: b"a.example",
            server_name: b"a.example",
            client: address,
            server: address,
            is_https: false,
            content_length: Some(3),
            user: None,
            software: "tidegate",
            extra: &[(b"HTTP_EXTRA", b"ours")],
        };
        if params.write(&mut pairs, &scripts, &script, fields).is_err() {
            return;
        }
        let mut names = HashSet::new();
        for (name, _) in pairs.iter() {
            let is_plain = name.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
            assert!(is_plain && names.insert(name), "{}", name.escape_ascii());
        }
        assert!(!names.contains(&b"HTTP_PROXY"[..]) && !names.contains(&b"HTTP_"[..]));
        assert!(pairs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= 1000);
        let ours: [(&[u8], &[u8]); 3] = [(b"HTTP_HOST", b"a.example"), (b"CONTENT_LENGTH", b"3"), (b"HTTP_EXTRA", b"ours")];
        assert!(ours.iter().all(|(name, value)| pairs.get(name) == Some(*value)));
    });
}
