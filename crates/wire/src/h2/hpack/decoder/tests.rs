//! The decoder with the examples of RFC 7541, with everything that is refused, and with what tries to cost memory.

use super::{Decoder, FieldSink, HeaderList};
use crate::h2::hpack::{CompressionError, FIELD_OVERHEAD, FieldName, PseudoHeader};
use crate::head::{HeaderId, Span};
use bolero::check;

/// Keeps fields, and checks of each how it is laid down.
#[derive(Default)]
struct List {
    bytes: Vec<u8>,
    room: usize,
    fields: Vec<(String, String)>,
    sensitive: Vec<bool>,
    names: Vec<FieldName>,
}

impl List {
    fn with_room(room: usize) -> List {
        List { room, ..List::default() }
    }

    fn texts(&self) -> Vec<String> {
        self.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }
}

impl FieldSink for List {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn room(&self) -> usize {
        self.room
    }

    fn field(&mut self, name: FieldName, name_span: Span, value: Span, is_sensitive: bool) {
        let text = |span: Span| String::from_utf8_lossy(span.of(&self.bytes)).into_owned();
        let (name_text, value_text) = match name {
            FieldName::Pseudo(pseudo) => {
                assert_eq!((name_span.len, value.start), (0, name_span.start));
                assert_eq!((value.start + value.len) as usize, self.bytes.len());
                (pseudo.name().to_owned(), text(value))
            }
            FieldName::Regular(id) => {
                let line = [name_span.of(&self.bytes), b": ", value.of(&self.bytes), b"\r\n"].concat();
                assert_eq!(&self.bytes[name_span.start as usize..], line);
                assert_eq!(name, FieldName::of(name_span.of(&self.bytes)));
                assert!(id == HeaderId::Other || id.name() == text(name_span));
                (text(name_span), text(value))
            }
        };
        let size = match name {
            FieldName::Pseudo(PseudoHeader::Unknown) => 0,
            FieldName::Pseudo(_) | FieldName::Regular(_) => name_text.len() + value.len as usize + FIELD_OVERHEAD,
        };
        self.room = self.room.checked_sub(size).expect("no more than there is room for");
        self.fields.push((name_text, value_text));
        self.sensitive.push(is_sensitive);
        self.names.push(name);
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, CompressionError> {
    let mut list = List::with_room(1 << 20);
    assert_eq!(decoder.decode(block, &mut list)?, HeaderList::Whole);
    Ok(list.texts())
}

/// Blocks one after the other, each with the fields that it stands for.
fn decodes(table_size: u16, blocks: &[(&str, &[&str])]) -> Decoder {
    let mut decoder = Decoder::new(table_size);
    for (block, fields) in blocks {
        assert_eq!(decode(&mut decoder, &hex(block)).as_deref(), Ok(&fields.map_to_owned()[..]), "{block}");
    }
    decoder
}

trait MapToOwned {
    fn map_to_owned(&self) -> Vec<String>;
}

impl MapToOwned for &[&str] {
    fn map_to_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

/// Entries of the table, the newest first, as C.2 to C.6 list them.
fn entries(decoder: &mut Decoder) -> Vec<String> {
    let len = decoder.table.len();
    let block: Vec<u8> = (0..len).map(|age| 0x80 | (62 + age) as u8).collect();
    decode(decoder, &block).expect("entries")
}

#[test]
fn single_fields_of_appendix_c_2() {
    let mut decoder =
        decodes(4096, &[("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", &["custom-key: custom-header"])]);
    assert_eq!(entries(&mut decoder), ["custom-key: custom-header"]);
    let decoder = decodes(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"]), ("82", &[":method: GET"])]);
    assert_eq!(decoder.table.len(), 0);

    let mut list = List::with_room(1000);
    let mut decoder = Decoder::new(4096);
    let block = hex("1008 7061 7373 776f 7264 0673 6563 7265 74 82");
    assert_eq!(decoder.decode(&block, &mut list), Ok(HeaderList::Whole));
    assert_eq!(
        (list.texts(), list.sensitive),
        (vec!["password: secret".to_owned(), ":method: GET".to_owned()], vec![true, false])
    );
    assert_eq!(decoder.table.len(), 0);
}

#[test]
fn requests_of_appendix_c_3_and_c_4() {
    let first = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
    let second = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"];
    let third =
        [":method: GET", ":scheme: https", ":path: /index.html", ":authority: www.example.com", "custom-key: custom-value"];
    let plain = [
        ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", &first[..]),
        ("8286 84be 5808 6e6f 2d63 6163 6865", &second[..]),
        ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", &third[..]),
    ];
    let coded = [
        ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", &first[..]),
        ("8286 84be 5886 a8eb 1064 9cbf", &second[..]),
        ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", &third[..]),
    ];
    for blocks in [plain, coded] {
        let mut decoder = decodes(4096, &blocks);
        assert_eq!(entries(&mut decoder), ["custom-key: custom-value", "cache-control: no-cache", ":authority: www.example.com"]);
    }
}

#[test]
fn answers_of_appendix_c_5_and_c_6_evict() {
    let date = ["date: Mon, 21 Oct 2013 20:13:21 GMT", "date: Mon, 21 Oct 2013 20:13:22 GMT"];
    let location = "location: https://www.example.com";
    let cookie = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    let first = [":status: 302", "cache-control: private", date[0], location];
    let second = [":status: 307", "cache-control: private", date[0], location];
    let third = [":status: 200", "cache-control: private", date[1], location, "content-encoding: gzip", cookie];
    let plain = [
        (
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d \
             546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            &first[..],
        ),
        ("4803 3330 37c1 c0bf", &second[..]),
        (
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f \
             6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b \
             2076 6572 7369 6f6e 3d31",
            &third[..],
        ),
    ];
    let coded = [
        (
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 \
             8f0b 97c8 e9ae 82ae 43d3",
            &first[..],
        ),
        ("4883 640e ffc1 c0bf", &second[..]),
        (
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 \
             dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
            &third[..],
        ),
    ];
    for blocks in [plain, coded] {
        let mut decoder = decodes(256, &blocks);
        assert_eq!(entries(&mut decoder), [cookie, "content-encoding: gzip", date[1]]);
    }
}

#[test]
fn what_is_not_valid_is_an_error() {
    use CompressionError::{Huffman, Index, Integer, SizeUpdateLimit, SizeUpdatePlace, Truncated};
    let cases: &[(&[u8], CompressionError)] = &[
        (b"\x80", Index),
        (b"\xbe", Index),
        (b"\x7f\x00\x00", Index),
        (b"\x1f\x2f\x00", Index),
        (b"\xff\xff\xff\xff\xff\x7f", Integer),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff", Integer),
        (b"\xff", Truncated),
        (b"\x41", Truncated),
        (b"\x41\x05abcd", Truncated),
        (b"\x40\x01a", Truncated),
        (b"\x00", Truncated),
        (b"\x41\x7f\xff\xff\xff\xff\x0fabcd", Integer),
        (b"\x41\x7f\x80\xff\xff\xff\x0fabcd", Truncated),
        (b"\x41\x81\x00", Huffman),
        (b"\x41\x84\xff\xff\xff\xff", Huffman),
        (b"\x00\x81\xff\x01a", Huffman),
        (b"\x82\x20", SizeUpdatePlace),
        (b"\x20\x82\x3f\xe1\x1f", SizeUpdatePlace),
        (b"\x3f\xe2\x1f", SizeUpdateLimit),
        (b"\x3f\xff\xff\xff\xff\x0f", Integer),
        (b"\x3f\xe0\xff\xff\xff\x0f", SizeUpdateLimit),
        (b"\x3f", Truncated),
    ];
    for (block, error) in cases {
        let mut list = List::with_room(1000);
        assert_eq!(Decoder::new(4096).decode(block, &mut list), Err(*error), "{block:x?}");
        // A fault is told also behind a field that had no room, where nothing is handed over any more.
        let behind = [&b"\x00\x01a\x7f\x00"[..], &[b'v'; 127], block].concat();
        if !matches!(block[0], 0x20..=0x3f) {
            let mut list = List::with_room(100);
            assert_eq!(Decoder::new(4096).decode(&behind, &mut list), Err(*error), "{block:x?}");
            assert_eq!((list.bytes.len() <= 4096, list.fields.len()), (true, 0));
        }
    }
    assert_eq!(decode(&mut Decoder::new(4096), b""), Ok(Vec::new()));
    assert_eq!(decode(&mut Decoder::new(4096), b"\x20\x3f\xe1\x1f"), Ok(Vec::new()), "updates alone");
}

#[test]
fn size_updates_evict_and_are_demanded() {
    let mut decoder = decodes(4096, &[("4001 6101 31", &["a: 1"]), ("4001 6201 32", &["b: 2"])]);
    // 34 bytes each: 67 has room for one.
    assert_eq!(decode(&mut decoder, &hex("3f24 be")), Ok(vec!["b: 2".to_owned()]));
    assert_eq!(decode(&mut decoder, &hex("bf")), Err(CompressionError::Index));
    // To nothing and back: the table is empty.
    assert_eq!(decode(&mut decoder, &hex("20 3fe11f be")), Err(CompressionError::Index));

    let mut decoder = decodes(4096, &[("4001 6101 31", &["a: 1"])]);
    decoder.set_table_size_max(100);
    assert_eq!(decode(&mut decoder, &hex("be")), Err(CompressionError::SizeUpdateMissing));
    assert_eq!(decode(&mut decoder, &hex("3f46 be")), Err(CompressionError::SizeUpdateLimit), "101");
    assert_eq!(decode(&mut decoder, &hex("3f45 be")), Ok(vec!["a: 1".to_owned()]), "100");
    // Larger again: the peer may follow, and need not.
    decoder.set_table_size_max(4096);
    assert_eq!(decode(&mut decoder, &hex("be")), Ok(vec!["a: 1".to_owned()]));
    assert_eq!(decoder.table.size_max(), 100);
    assert_eq!(decode(&mut decoder, &hex("3fe11f be")), Ok(vec!["a: 1".to_owned()]));
    assert_eq!(decoder.table.size_max(), 4096);

    let mut decoder = decodes(0, &[("4001 6101 31", &["a: 1"])]);
    assert_eq!(decode(&mut decoder, &hex("be")), Err(CompressionError::Index), "a table without size");
}

#[test]
fn names_of_entries_are_used_and_outlive_them() {
    // The second field takes its name from the entry that it puts out.
    let block = hex("4001 6120 3131313131313131 3131313131313131 3131313131313131 3131313131313131 7e01 32 be");
    let mut decoder = Decoder::new(65);
    let fields = decode(&mut decoder, &block).expect("fields");
    assert_eq!(fields[1..], ["a: 2", "a: 2"]);
    // Pseudo-headers as entries and as names, also unknown ones.
    let mut list = List::with_room(1000);
    let block = hex("4009 3a70726f746f636f6c 0977 6562736f636b6574 7e01 61 be bf 4002 3a61 01 62 be 7e 01 63");
    assert_eq!(Decoder::new(4096).decode(&block, &mut list), Ok(HeaderList::Whole));
    let protocol = FieldName::Pseudo(PseudoHeader::Protocol);
    let unknown = FieldName::Pseudo(PseudoHeader::Unknown);
    assert_eq!(list.names, [protocol, protocol, protocol, protocol, unknown, unknown, unknown]);
    let values: Vec<_> = list.fields.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["websocket", "a", "a", "websocket", "b", "b", "c"]);
    // A name in another case is no well-known one, from the table either.
    let mut list = List::with_room(1000);
    assert_eq!(Decoder::new(4096).decode(&hex("4004 486f7374 0161 be"), &mut list), Ok(HeaderList::Whole));
    assert_eq!(list.names, [FieldName::Regular(HeaderId::Other); 2]);
}

#[test]
fn a_large_entry_repeated_costs_nothing_over_the_bound() {
    let mut decoder = Decoder::new(4096);
    let mut block = hex("4001 62 7fa11e");
    block.extend([b'x'; 4000]);
    assert_eq!(decode(&mut decoder, &block).map(|fields| fields.len()), Ok(1));
    let field_size = 1 + 4000 + FIELD_OVERHEAD;
    for kind in [&b"\xbe"[..], b"\x0f\x2f\x00", b"\x1f\x2f\x80"] {
        let mut list = List::with_room(3 * field_size + 10);
        list.bytes.reserve_exact(3 * 4005);
        let before = list.bytes.capacity();
        let repeated = [b"\xbe".repeat(3), kind.repeat(20_000)].concat();
        assert_eq!(decoder.decode(&repeated, &mut list), Ok(HeaderList::OverBound));
        assert_eq!((list.fields.len(), list.bytes.len(), list.bytes.capacity()), (3, 3 * 4005, before));
    }
    // A smaller field behind the first that was refused is not handed over either.
    let mut list = List::with_room(100);
    assert_eq!(decoder.decode(b"\x82\xbe\x82", &mut list), Ok(HeaderList::OverBound));
    assert_eq!(list.texts(), [":method: GET"]);
    // The next block is as good as any.
    assert_eq!(decode(&mut decoder, b"\x82").as_deref(), Ok(&[":method: GET".to_owned()][..]));
}

#[test]
fn refused_fields_still_go_into_the_table() {
    let mut decoder = Decoder::new(4096);
    let mut list = List::with_room(40);
    let block = hex("4003 612d62 03 313233 5002 6768 4001 7a01 79");
    assert_eq!(decoder.decode(&block, &mut list), Ok(HeaderList::OverBound));
    assert_eq!(list.texts(), ["a-b: 123"]);
    assert_eq!(entries(&mut decoder), ["z: y", "accept-encoding: gh", "a-b: 123"]);
    // Too large for the table: it is empty then (section 4.4), and for the sink: nothing stays of it.
    let mut list = List::with_room(40);
    let mut block = hex("4001 62 7fa11e");
    block.extend([b'x'; 4000]);
    let mut small = Decoder::new(100);
    assert_eq!(decode(&mut small, &hex("4001 6101 31")).as_deref(), Ok(&["a: 1".to_owned()][..]));
    assert_eq!(small.decode(&block, &mut list), Ok(HeaderList::OverBound));
    assert_eq!((small.table.len(), list.bytes.len(), list.bytes.capacity() < 100), (0, 0, true));
}

/// Whatever comes, there is no panic, no more than the room is handed over, and memory stays within the bounds.
#[test]
fn garbage_stays_within_the_bounds() {
    type Case = (u16, u16, Vec<Vec<u8>>);
    check!().with_iterations(6000).with_type::<Case>().for_each(|(table_size, room, blocks)| {
        let mut decoder = Decoder::new(*table_size);
        for block in blocks {
            let mut list = List::with_room(usize::from(*room));
            let result = decoder.decode(block, &mut list);
            assert!(list.bytes.len() <= usize::from(*room) || result.is_err());
            assert!(list.bytes.capacity() <= 2 * usize::from((*room).max(*table_size)) + 200);
            assert!(decoder.table.size_max() <= *table_size);
            if result.is_err() {
                return;
            }
        }
    });
}

#[test]
fn a_decoder_is_small() {
    assert!(size_of::<Decoder>() <= 80, "{}", size_of::<Decoder>());
}
