//! HPACK against another implementation: what ours decodes, and what ours encodes, is read by both in the same way.

use bolero::check;
use fluke_hpack::decoder::DecoderError;
use tidegate_wire::h2::hpack::{Decoder, Encoder, FieldName, FieldSink, HeaderList, PseudoHeader};
use tidegate_wire::{HeaderId, Span};

/// The other decoder makes its table of the Huffman code for each string, so cases are few and small.
const ITERATIONS: usize = 2000;
const BLOCKS: usize = 6;
const FIELDS: usize = 8;

type Pair = (Vec<u8>, Vec<u8>);

#[derive(Default)]
struct Pairs {
    bytes: Vec<u8>,
    pairs: Vec<Pair>,
    /// A pseudo-header that we have no name for: its name is not kept.
    has_unknown: bool,
}

impl FieldSink for Pairs {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn room(&self) -> usize {
        1 << 20
    }

    fn field(&mut self, name: FieldName, name_span: Span, value: Span, _is_sensitive: bool) {
        self.has_unknown |= name == FieldName::Pseudo(PseudoHeader::Unknown);
        let name = match name {
            FieldName::Pseudo(pseudo) => pseudo.name().as_bytes(),
            FieldName::Regular(_) => name_span.of(&self.bytes),
        };
        self.pairs.push((name.to_vec(), value.of(&self.bytes).to_vec()));
    }
}

/// A block made of representations that are mostly good: indexes near the tables, and strings that fit.
fn block_of(parts: &[(u8, u8, Vec<u8>)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (kind, number, bytes) in parts.iter().take(FIELDS) {
        let index = if number % 4 == 0 { 0 } else { number % 70 };
        let text: Vec<u8> = bytes.iter().take(100).map(|byte| byte & 0x7f).collect();
        let first = match kind % 8 {
            0 | 1 => {
                block.push(0x80 | index.max(1));
                continue;
            }
            2 => {
                block.push(0x20 | number & 0x1f);
                continue;
            }
            3 => {
                block.extend(bytes.iter().take(3));
                continue;
            }
            4..6 => 0x40 | index.min(62),
            6 => 0x10 | index.min(14),
            _ => index.min(14),
        };
        block.push(first);
        if matches!(first, 0x00 | 0x10 | 0x40) {
            push_string(&text[..text.len().min(5)], kind & 8 != 0, &mut block);
        }
        push_string(&text, kind & 16 != 0, &mut block);
    }
    block
}

/// In the form that is asked for, Huffman coded by the other implementation's table through our encoder.
fn push_string(text: &[u8], is_coded: bool, block: &mut Vec<u8>) {
    if is_coded {
        let mut field = Vec::new();
        // Never indexed, with the name of index 4: two bytes stand before the string.
        Encoder::new().block(&mut field).field(HeaderId::Cookie, b"", text, true);
        block.extend(&field[2..]);
    } else {
        block.push(text.len() as u8);
        block.extend(text);
    }
}

#[test]
fn blocks_are_decoded_as_another_decoder_does() {
    type Case = Vec<Vec<(u8, u8, Vec<u8>)>>;
    check!().with_iterations(ITERATIONS).with_type::<Case>().for_each(|blocks| {
        let mut ours = Decoder::new(4096);
        let mut theirs = fluke_hpack::Decoder::new();
        theirs.set_max_allowed_table_size(4096);
        for parts in blocks.iter().take(BLOCKS) {
            let block = block_of(parts);
            let mut pairs = Pairs::default();
            // What is refused is no question for the other decoder, which panics where a string is cut.
            let Ok(verdict) = ours.decode(&block, &mut pairs) else { return };
            assert_eq!(verdict, HeaderList::Whole);
            match theirs.decode(&block) {
                Ok(fields) => assert!(pairs.has_unknown || pairs.pairs == fields, "{block:x?}"),
                // RFC 7541 section 4.2 lets a block consist of an update.
                Err(DecoderError::SizeUpdateAtEnd) => return,
                Err(error) => panic!("only they refuse {block:x?}: {error:?}"),
            }
        }
    });
}

#[test]
fn another_decoder_reads_what_we_encode() {
    type Case = Vec<(u8, Vec<(u8, u8, Vec<u8>)>)>;
    check!().with_iterations(ITERATIONS).with_type::<Case>().for_each(|blocks| {
        let mut encoder = Encoder::new();
        let mut theirs = fluke_hpack::Decoder::new();
        theirs.set_max_allowed_table_size(4096);
        for (event, fields) in blocks.iter().take(BLOCKS) {
            match event {
                0..16 => encoder.set_table_size_max(u32::from(*event) * 37),
                16..24 => encoder.set_table_size_max(u32::MAX),
                24..32 => encoder.give_back(),
                32.. => {}
            }
            let (mut out, mut expected) = (Vec::new(), Vec::<Pair>::new());
            let mut block = encoder.block(&mut out);
            block.status(418);
            expected.push((b":status".to_vec(), b"418".to_vec()));
            for (name, value, bytes) in fields.iter().take(FIELDS) {
                let (known, id) = HeaderId::NAMES[*name as usize % HeaderId::NAMES.len()];
                let value = if value % 4 == 0 { bytes.clone() } else { vec![*value; usize::from(*value % 50)] };
                if name & 0x80 == 0 {
                    block.field(id, b"", &value, false);
                    expected.push((known.as_bytes().to_vec(), value));
                } else {
                    let own = format!("X-{}", name % 8);
                    block.field(HeaderId::Other, own.as_bytes(), &value, false);
                    expected.push((own.to_ascii_lowercase().into_bytes(), value));
                }
            }
            assert_eq!(theirs.decode(&out).as_ref(), Ok(&expected), "{out:x?}");
        }
    });
}

/// One byte for each of the fields that a connection sends again and again: what the table is for.
#[test]
fn an_answer_that_repeats_takes_a_byte_for_each_field() {
    let mut encoder = Encoder::new();
    let fields: [(&[u8], &[u8]); 7] = [
        (b"Server", b"nginx"),
        (b"Date", b"Mon, 21 Oct 2013 20:13:21 GMT"),
        (b"Content-Type", b"text/html; charset=utf-8"),
        (b"Content-Length", b"2048"),
        (b"Cache-Control", b"public, max-age=3600"),
        (b"Strict-Transport-Security", b"max-age=31536000"),
        (b"X-Frame-Options", b"DENY"),
    ];
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let mut out = Vec::new();
        let mut block = encoder.block(&mut out);
        block.status(200);
        for (name, value) in fields {
            block.field(HeaderId::of(name), name, value, false);
        }
        lengths.push(out.len());
    }
    assert!(lengths[0] < 120 && lengths[1] <= lengths[0] && lengths[2] == 1 + fields.len(), "{lengths:?}");
}
