//! What the encoder writes, byte by byte, and that the decoder reads it, whatever the fields and sizes are.

use super::{BlockEncoder, Encoder, INCREMENTAL_INDEXING, INDEXED, SHORT_STRING, string};
use crate::h2::hpack::{Decoder, FieldName, FieldSink, HeaderList, PseudoHeader};
use crate::head::{HeaderId, Span};
use bolero::{TypeGenerator, check};

type Text = (String, String, bool);

#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    fields: Vec<Text>,
}

impl FieldSink for Texts {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn room(&self) -> usize {
        1 << 20
    }

    fn field(&mut self, name: FieldName, name_span: Span, value: Span, is_sensitive: bool) {
        let text = |span: Span| String::from_utf8(span.of(&self.bytes).to_vec()).expect("text");
        let name = match name {
            FieldName::Pseudo(pseudo) => pseudo.name().to_owned(),
            FieldName::Regular(_) => text(name_span),
        };
        self.fields.push((name, text(value), is_sensitive));
    }
}

fn encode(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = encoder.block(&mut out);
    for (name, value) in fields {
        match FieldName::of(name.as_bytes()) {
            FieldName::Pseudo(PseudoHeader::Status) => block.status(value.parse().expect("a number")),
            FieldName::Pseudo(pseudo) => block.pseudo(pseudo, value.as_bytes()),
            FieldName::Regular(id) => block.field(id, name.as_bytes(), value.as_bytes(), false),
        }
    }
    out
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<Text> {
    let mut texts = Texts::default();
    assert_eq!(decoder.decode(block, &mut texts), Ok(HeaderList::Whole));
    texts.fields
}

#[test]
fn fields_of_the_static_table_are_one_byte() {
    let mut encoder = Encoder::new();
    let fields = [
        (":method", "GET"),
        (":method", "POST"),
        (":path", "/"),
        (":path", "/index.html"),
        (":scheme", "http"),
        (":scheme", "https"),
        (":status", "200"),
        (":status", "204"),
        (":status", "206"),
        (":status", "304"),
        (":status", "400"),
        (":status", "404"),
        (":status", "500"),
        ("accept-encoding", "gzip, deflate"),
        ("accept-language", ""),
    ];
    let indexes: Vec<u8> = (2..=14).chain([16, 17]).map(|index| 0x80 | index).collect();
    assert_eq!(encode(&mut encoder, &fields), indexes);
    assert_eq!(encoder.table.len(), 0);
}

#[test]
fn a_field_is_indexed_when_it_comes_again() {
    let mut encoder = Encoder::new();
    // `server` is 54: without indexing, with incremental indexing, then as the newest entry.
    let mut coded = Vec::new();
    string(b"tide", &mut coded);
    assert!(coded.len() < 5);
    let expect = |first: &[u8]| [first, &coded].concat();
    assert_eq!(encode(&mut encoder, &[("server", "tide")]), expect(&[0x0f, 54 - 15]));
    assert_eq!(encode(&mut encoder, &[("server", "tide")]), expect(&[INCREMENTAL_INDEXING + 54]));
    assert_eq!(encode(&mut encoder, &[("server", "tide"), ("server", "tide")]), [INDEXED + 62, INDEXED + 62]);
    // Another value, then the first again: still there.
    assert_eq!(encode(&mut encoder, &[("server", "edit")])[..2], [0x0f, 54 - 15]);
    assert_eq!(encode(&mut encoder, &[("server", "tide")]), [INDEXED + 62]);
    // A name of its own is written once, and is then an index, too.
    assert_eq!(encode(&mut encoder, &[("x-own", "1")])[0], 0x00);
    assert_eq!(encode(&mut encoder, &[("x-own", "1")])[0], 0x40);
    assert_eq!(encode(&mut encoder, &[("X-Own", "1"), ("x-Own", "23")]), [INDEXED + 62, 0x0f, 62 - 15, 0x02, b'2', b'3']);
    assert_eq!(encode(&mut encoder, &[("server", "tide")]), [INDEXED + 63]);
}

#[test]
fn credentials_paths_and_large_fields_stay_out_of_the_table() {
    let mut encoder = Encoder::new();
    let large = "v".repeat(2100);
    let fields = [
        ("authorization", "Basic YTpi"),
        ("proxy-authorization", "Basic YTpi"),
        ("cookie", "a=b"),
        ("set-cookie", "a=b"),
        ("set-cookie", ""),
        (":path", "/account?token=1"),
        ("x-large", &large),
    ];
    let mut decoder = Decoder::new(4096);
    for _ in 0..4 {
        let texts = decode(&mut decoder, &encode(&mut encoder, &fields));
        let expected: Vec<Text> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned(), !matches!(*name, ":path" | "x-large")))
            .collect();
        assert_eq!(texts, expected);
    }
    assert_eq!(encoder.table.len(), 0);
    let mut out = Vec::new();
    for _ in 0..3 {
        encoder.block(&mut out).field(HeaderId::Server, b"", b"secret", true);
    }
    assert_eq!((out[0] & 0xf0, encoder.table.len()), (super::NEVER_INDEXED, 0));
}

#[test]
fn size_updates_stand_before_the_next_block() {
    let mut encoder = Encoder::new();
    // No more than 4096 is used of what the peer allows.
    encoder.set_table_size_max(65_536);
    assert_eq!(encode(&mut encoder, &[(":status", "200")]), [0x88]);
    encoder.set_table_size_max(100);
    assert_eq!(encode(&mut encoder, &[(":status", "200")]), [0x3f, 100 - 31, 0x88]);
    assert_eq!(encode(&mut encoder, &[(":status", "200")]), [0x88]);
    // Several changes: the smallest and the last (section 4.2).
    for size in [90, 20, 50, u32::MAX] {
        encoder.set_table_size_max(size);
    }
    assert_eq!(encode(&mut encoder, &[]), [0x34, 0x3f, 0xe1, 0x1f]);
    encoder.set_table_size_max(4096);
    assert_eq!(encode(&mut encoder, &[]), []);
    encoder.set_table_size_max(0);
    assert_eq!(encode(&mut encoder, &[("a", "b")])[..2], [0x20, 0x00]);
    assert_eq!(encode(&mut encoder, &[("a", "b")])[0], 0x00);
    assert_eq!(encoder.table.len(), 0);
}

#[test]
fn an_idle_encoder_holds_nothing_and_starts_anew() {
    assert!(size_of::<Encoder>() <= 512, "{}", size_of::<Encoder>());
    let mut encoder = Encoder::new();
    encoder.give_back();
    assert_eq!(encode(&mut encoder, &[]), [], "nothing to tell");
    let mut decoder = Decoder::new(4096);
    let fields = [("Server", "tide"), ("X-Own", "1"), (":authority", "example.com")];
    for round in 0..9 {
        let block = encode(&mut encoder, &fields);
        assert_eq!(block.starts_with(&[0x20, 0x3f, 0xe1, 0x1f]), round % 3 == 0 && round > 0);
        assert_eq!(decode(&mut decoder, &block).len(), 3);
        if round % 3 == 2 {
            assert_eq!(block.len(), 3);
            encoder.give_back();
            assert_eq!((encoder.table.len(), encoder.lower_case.capacity()), (0, 0));
        }
    }
}

#[test]
fn strings_take_the_shorter_form() {
    for len in [0, 1, 2, 10, SHORT_STRING - 1, SHORT_STRING, SHORT_STRING + 1, 300, 5000] {
        for (byte, is_coded) in [(b'a', len > 2), (b'|', false), (b'A', len > 3), (0xff, false)] {
            let mut out = b"before".to_vec();
            string(&vec![byte; len], &mut out);
            let first = out[6];
            assert_eq!(first & 0x80 != 0, is_coded, "{len} of {byte}");
            assert!(out.len() <= 6 + len + 3);
            let mut texts = Texts::default();
            let block = [b"\x04", &out[6..]].concat();
            if byte != 0xff {
                assert_eq!(Decoder::new(0).decode(&block, &mut texts), Ok(HeaderList::Whole));
                assert_eq!(texts.fields[0].1.as_bytes(), vec![byte; len]);
            }
        }
    }
}

/// Names and values that come again, so that the tables are used.
#[derive(Debug, TypeGenerator)]
enum Step {
    Block(Vec<Written>),
    /// Settings of the decoder's side, which the encoder's has acknowledged.
    Size(u16),
    GiveBack,
}

#[derive(Debug, TypeGenerator)]
enum Written {
    Field { name: u8, value: u8, repeat: u8, is_sensitive: bool },
    Status(u16),
    Path(u8),
}

const NAMES: &[&str] =
    &["server", "Date", "x-a", "X-Request-Id", "accept-language", "cookie", "vary", "etag", "X_b", "te", "link", "q"];

#[test]
fn the_decoder_reads_what_the_encoder_wrote() {
    check!().with_iterations(5000).with_type::<Vec<Step>>().for_each(|steps| {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for step in steps {
            match step {
                Step::Block(fields) => {
                    let mut out = Vec::new();
                    let mut block = encoder.block(&mut out);
                    let expected: Vec<Text> = fields.iter().map(|field| write(&mut block, field)).collect();
                    assert_eq!(decode(&mut decoder, &out), expected);
                }
                Step::Size(size) => {
                    encoder.set_table_size_max(u32::from(*size));
                    decoder.set_table_size_max((*size).min(4096));
                }
                Step::GiveBack => encoder.give_back(),
            }
        }
    });
}

fn write(block: &mut BlockEncoder<'_>, field: &Written) -> Text {
    match field {
        Written::Field { name, value, repeat, is_sensitive } => {
            let name = NAMES[*name as usize % NAMES.len()];
            let value = format!("v{}", value % 8).repeat(*repeat as usize % 40 * usize::from(value % 8));
            block.field(HeaderId::of(name.as_bytes()), name.as_bytes(), value.as_bytes(), *is_sensitive);
            (name.to_ascii_lowercase(), value, *is_sensitive || name == "cookie")
        }
        Written::Status(status) => {
            block.status(status % 1000);
            (":status".to_owned(), format!("{:03}", status % 1000), false)
        }
        Written::Path(path) => {
            let path = format!("/{path}");
            block.pseudo(PseudoHeader::Path, path.as_bytes());
            (":path".to_owned(), path, false)
        }
    }
}
