//! Every code, every short input against a decoder that reads bit by bit, and longer ones at random.

use super::{CODES, END_OF_STRING, LENGTHS, SYMBOLS, decode, encode, encoded_len};
use crate::h2::hpack::CompressionError;
use bolero::check;

/// Reads bit by bit through a tree: children of node `n` at `2n` and `2n + 1`.
struct Tree {
    children: Vec<[usize; 2]>,
    symbols: Vec<Option<usize>>,
}

impl Tree {
    fn new() -> Tree {
        let mut tree = Tree { children: vec![[0; 2]], symbols: vec![None] };
        for (symbol, (code, length)) in CODES.iter().enumerate() {
            let mut node = 0;
            for bit in (0..*length).rev() {
                let side = (code >> bit & 1) as usize;
                if tree.children[node][side] == 0 {
                    tree.children.push([0; 2]);
                    tree.symbols.push(None);
                    tree.children[node][side] = tree.children.len() - 1;
                }
                node = tree.children[node][side];
                assert_eq!(tree.symbols[node], None, "a code begins with another");
            }
            tree.symbols[node] = Some(symbol);
        }
        tree
    }

    fn decode(&self, input: &[u8]) -> Option<Vec<u8>> {
        let (mut out, mut node, mut pending, mut ones) = (Vec::new(), 0, 0, true);
        for bit in input.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
            node = self.children[node][usize::from(bit)];
            pending += 1;
            ones &= bit == 1;
            if let Some(symbol) = self.symbols[node] {
                out.push(u8::try_from(symbol).ok()?);
                (node, pending, ones) = (0, 0, true);
            }
        }
        (pending < 8 && ones).then_some(out)
    }
}

fn ours(input: &[u8]) -> Option<Vec<u8>> {
    let mut out = b"before".to_vec();
    match decode(input, &mut out, usize::MAX) {
        Ok(len) => {
            assert_eq!(len, out.len() - 6);
            Some(out.split_off(6))
        }
        Err(error) => {
            assert_eq!(error, CompressionError::Huffman);
            None
        }
    }
}

#[test]
fn the_code_is_complete_and_has_the_codes_of_appendix_b() {
    // The lengths of all codes fill the space of bits exactly: no sequence is left without a meaning.
    assert_eq!(LENGTHS.iter().map(|length| 1_u64 << (30 - length)).sum::<u64>(), 1 << 30);
    for (symbol, code, length) in [
        (0, 0x1ff8, 13),
        (b'0', 0x0, 5),
        (b'a', 0x3, 5),
        (b'z', 0x7b, 7),
        (b'~', 0x1ffd, 13),
        (b'\\', 0x7fff0, 19),
        (127, 0x0fff_fffc, 28),
        (128, 0xfffe6, 20),
        (22, 0x3fff_fffe, 30),
        (255, 0x3ff_ffee, 26),
    ] {
        assert_eq!(CODES[usize::from(symbol)], (code, length), "{symbol}");
    }
    assert_eq!(CODES[END_OF_STRING], (0x3fff_ffff, 30));
}

#[test]
fn every_symbol_goes_both_ways_alone_and_between_others() {
    for symbol in 0..=255_u8 {
        for (before, after) in [(0, 0), (1, 0), (0, 1), (7, 9), (40, 40)] {
            let mut plain = vec![b'a'; before];
            plain.push(symbol);
            plain.extend(vec![b'&'; after]);
            let mut coded = Vec::new();
            encode(&plain, &mut coded);
            assert_eq!(coded.len(), encoded_len(&plain));
            assert_eq!(ours(&coded), Some(plain));
        }
    }
}

#[test]
fn every_short_input_is_read_as_bit_by_bit() {
    let tree = Tree::new();
    assert_eq!(tree.symbols.iter().flatten().count(), SYMBOLS);
    assert_eq!(ours(b""), Some(Vec::new()));
    // Two bytes alone, in the middle of long codes, and on both sides of the place where eight bytes are read at once.
    let fronts: [&[u8]; 6] =
        [b"", b"\xff", b"\xff\xff", b"\xff\xfe", b"\x1c\x64\x94\xa5\x1c\x64", b"\xff\xff\xea\xff\xff\xf7\x1c"];
    for front in fronts {
        for end in 0..=u16::MAX {
            let mut input = front.to_vec();
            input.extend(end.to_be_bytes());
            assert_eq!(ours(&input), tree.decode(&input), "{input:x?}");
        }
        for end in 0..=u8::MAX {
            let mut input = front.to_vec();
            input.push(end);
            assert_eq!(ours(&input), tree.decode(&input), "{input:x?}");
        }
    }
}

/// Strings of three bytes in both directions: one in a few hundred of them, all with `ALL=1`.
#[test]
fn strings_of_three_bytes_go_both_ways() {
    let tree = Tree::new();
    let stride = if std::env::var_os("ALL").is_some() { 1 } else { 251 };
    for number in (0..1_u32 << 24).step_by(stride) {
        let input = &number.to_be_bytes()[1..];
        assert_eq!(ours(input), tree.decode(input), "{input:x?}");
        let mut coded = Vec::new();
        encode(input, &mut coded);
        assert_eq!((coded.len(), tree.decode(&coded).as_deref()), (encoded_len(input), Some(input)), "{input:x?}");
    }
}

#[test]
fn random_input_is_read_as_bit_by_bit() {
    let tree = Tree::new();
    check!().with_iterations(6000).with_type::<(Vec<u8>, u8)>().for_each(|(bytes, ones)| {
        assert_eq!(ours(bytes), tree.decode(bytes));
        let mut coded = Vec::new();
        encode(bytes, &mut coded);
        assert_eq!(coded.len(), encoded_len(bytes));
        assert_eq!(ours(&coded), Some(bytes.clone()));
        // Codes that are cut, and filled with more ones than is allowed.
        coded.truncate(coded.len().saturating_sub(usize::from(*ones % 4)));
        assert_eq!(ours(&coded), tree.decode(&coded));
        coded.extend(vec![0xff; usize::from(*ones / 64)]);
        assert_eq!(ours(&coded), tree.decode(&coded));
    });
}

#[test]
fn the_end_is_filled_with_less_than_a_byte_of_ones() {
    // "a" is 00011.
    assert_eq!(ours(&[0b0001_1111]), Some(b"a".to_vec()));
    assert_eq!(ours(&[0b0001_1110]), None, "a zero");
    assert_eq!(ours(&[0b0001_1011]), None, "a zero");
    assert_eq!(ours(&[0b0001_1111, 0xff]), None, "a byte too many");
    assert_eq!(ours(&[0xff]), None, "nothing but filling");
    // The end of the string itself, alone and behind a symbol.
    assert_eq!(ours(&[0xff, 0xff, 0xff, 0xff]), None);
    assert_eq!(ours(&[0b0001_1111, 0xff, 0xff, 0xff, 0xff]), None);
    assert_eq!(ours(&[0x1c, 0x64, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
}

#[test]
fn what_is_too_long_is_counted_and_takes_no_memory() {
    for len in [0, 1, 63, 64, 65, 128, 1000, 100_000] {
        let plain = vec![b'0'; len];
        let mut coded = Vec::new();
        encode(&plain, &mut coded);
        let mut out = b"x".to_vec();
        assert_eq!(decode(&coded, &mut out, len), Ok(len));
        assert_eq!(out.len(), len + 1);
        for max in [0, 1, 62, 63, 64, 65, len / 2, len.saturating_sub(1)].into_iter().filter(|max| *max < len) {
            let mut out = Vec::with_capacity(max + 1);
            out.push(b'x');
            assert_eq!(decode(&coded, &mut out, max), Ok(len));
            assert_eq!((out.as_slice(), out.capacity()), (&b"x"[..], max + 1), "{len} {max}");
        }
    }
}
