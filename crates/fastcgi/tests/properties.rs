//! Properties of well-formed streams: params and bodies arrive as they were sent, and no split of a stream changes what
//! is read in it. Hostile streams are in `fuzz`.

mod observed;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Just;
use tidegate_fastcgi::Pairs;
use tidegate_fastcgi::record::{CONTENT_BYTES_MAX, FIRST_REQUEST, encode_params, encode_stdin, encode_stdin_end};

/// The content of each record of one type, as an application reads it; the last one is empty.
fn records(mut bytes: &[u8], expected_kind: u8) -> Vec<Vec<u8>> {
    let mut contents = Vec::new();
    while let Some((&[version, kind, 0, 1, high, low, padding, 0], rest)) = bytes.split_first_chunk::<8>() {
        assert_eq!((version, kind), (1, expected_kind));
        let length = usize::from(u16::from_be_bytes([high, low]));
        assert_eq!((length + usize::from(padding)) % 8, 0);
        assert!(length + usize::from(padding) <= CONTENT_BYTES_MAX);
        let (content, rest) = rest.split_at(length);
        contents.push(content.to_vec());
        bytes = &rest[usize::from(padding)..];
    }
    assert!(bytes.is_empty());
    assert_eq!(contents.pop(), Some(Vec::new()), "an empty record ends the stream");
    assert!(contents.iter().all(|content| !content.is_empty()), "and none before it");
    contents
}

type Pair = (Vec<u8>, Vec<u8>);

/// Name-value pairs as section 3.4 has them; `None` when the last one is not complete.
fn pairs(mut bytes: &[u8]) -> Option<Vec<Pair>> {
    fn length(bytes: &mut &[u8]) -> Option<usize> {
        let (&first, rest) = bytes.split_first()?;
        if first < 128 {
            *bytes = rest;
            return Some(first.into());
        }
        let (four, rest) = bytes.split_first_chunk::<4>()?;
        *bytes = rest;
        Some((u32::from_be_bytes(*four) & 0x7fff_ffff) as usize)
    }
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes)?, length(&mut bytes)?);
        let content = bytes.get(..name + value)?;
        pairs.push((content[..name].to_vec(), content[name..].to_vec()));
        bytes = &bytes[name + value..];
    }
    Some(pairs)
}

/// Lengths around the places where something changes.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![8 => 0..40_usize, 2 => 120..136_usize, 1 => 20_000..40_000_usize, 1 => 65_500..65_560_usize];
    (length, any::<u8>()).prop_map(|(length, first)| (0..length).map(|at| first.wrapping_add(at as u8)).collect())
}

/// Records of an answer: type, content, padding.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![5 => Just(6_u8), 3 => Just(7), 1 => Just(10), 1 => Just(11)];
    let record = (kind, vec(any::<u8>(), 1..300), any::<u8>());
    (vec(record, 0..12), any::<u8>(), vec(any::<u8>(), 0..2)).prop_map(|(records, padding, rest)| {
        let mut bytes = Vec::new();
        let end = (3, vec![0; 8], padding);
        for (kind, mut content, padding) in records.into_iter().chain([end]) {
            if kind == 11 {
                content.resize(8, 0);
            }
            let [high, low] = (content.len() as u16).to_be_bytes();
            bytes.extend([1, kind, 0, u8::from(kind < 10), high, low, padding, 0]);
            bytes.extend(content);
            bytes.extend(std::iter::repeat_n(padding, padding.into()));
        }
        bytes.extend(rest);
        bytes
    })
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1..12_usize, 1..400_usize], 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn params_are_read_as_they_were_put_in(list in vec((text(), text()), 0..12)) {
        let list: Vec<Pair> = list.into_iter().filter(|(name, value)| !(name.is_empty() && value.is_empty())).collect();
        let mut put = Pairs::new(usize::MAX);
        for (name, value) in &list {
            put.push([&name[..]], [&value[..]]).unwrap();
        }
        let mut out = Vec::new();
        encode_params(&mut out, FIRST_REQUEST, &put);
        let records = records(&out, 4);
        prop_assert_eq!(pairs(&records.concat()), Some(list.clone()));
        if list.iter().all(|(name, value)| name.len() + value.len() + 8 <= CONTENT_BYTES_MAX) {
            prop_assert!(records.iter().all(|record| pairs(record).is_some()), "each record has whole pairs");
        }
    }

    #[test]
    fn a_body_is_read_as_it_was_sent(parts in vec(text(), 0..5)) {
        let mut out = Vec::new();
        for part in &parts {
            encode_stdin(&mut out, FIRST_REQUEST, part);
        }
        encode_stdin_end(&mut out, FIRST_REQUEST);
        prop_assert_eq!(records(&out, 5).concat(), parts.concat());
    }

    #[test]
    fn any_split_of_an_answer_gives_the_same_events(bytes in answer(), pieces in pieces()) {
        let whole = observed::events(&bytes, &[]);
        prop_assert_eq!(observed::events(&bytes, &pieces), whole.clone());
        prop_assert_eq!(observed::events(&bytes, &[1]), whole);
    }

    #[test]
    fn any_split_of_a_head_gives_the_same_fields(
        lines in vec("(A|X-y|Status|Location|Content-Length): ?(200|/a|[ -~]{0,20})\r?\n", 0..6),
        body in vec(any::<u8>(), 0..20),
        pieces in pieces(),
    ) {
        let bytes = [lines.concat().as_bytes(), b"\n", &body].concat();
        let shown = |pieces: &[usize]| format!("{:?}", observed::head(&bytes, pieces));
        prop_assert_eq!(shown(&pieces), shown(&[]));
        if let Ok(complete) = observed::head(&bytes, &[]) {
            prop_assert_eq!(complete.map(|(_, length)| length), Some(bytes.len() - body.len()));
        }
    }
}
