//! MMDB files for tests, written by the description of the format (MaxMind DB, version 2.0): a binary tree of the bits
//! of an address, and records behind it. Written here, so that tests say in one line what an address is, and so that
//! files can be broken on purpose.

use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// A value of a record.
#[derive(Debug, Clone)]
pub enum Data {
    Text(String),
    Short(u16),
    Number(u32),
    Long(u64),
    Map(Vec<(&'static str, Data)>),
    List(Vec<Data>),
}

/// Bits of a record of the tree; 28 is not written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSize {
    Bits24,
    Bits32,
}

const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
const SEPARATOR: [u8; 16] = [0; 16];
/// IPv4 lies below `::/96`.
const IPV4_AT: usize = 96;

/// What a half of a node leads to.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Empty,
    Node(usize),
    /// A place among the records.
    Data(usize),
}

/// A file of that kind with a record for each network. Of networks within others the smaller ones come later.
pub fn database(kind: &str, size: RecordSize, rows: &[(IpNet, Data)]) -> Vec<u8> {
    let (mut nodes, mut records) = (vec![[Slot::Empty; 2]], Vec::new());
    for (network, data) in rows {
        let place = records.len();
        write(data, &mut records);
        insert(&mut nodes, *network, Slot::Data(place));
    }
    let count = nodes.len();
    let mut file = Vec::new();
    for slot in nodes.iter().flatten() {
        let number = match slot {
            Slot::Empty => count,
            Slot::Node(number) => *number,
            Slot::Data(place) => count + SEPARATOR.len() + place,
        };
        let bytes = (number as u32).to_be_bytes();
        file.extend_from_slice(if size == RecordSize::Bits24 { &bytes[1..] } else { &bytes });
    }
    file.extend_from_slice(&SEPARATOR);
    file.extend(records);
    file.extend_from_slice(MARKER);
    let bits = if size == RecordSize::Bits24 { 24 } else { 32 };
    write(
        &Data::Map(vec![
            ("binary_format_major_version", Data::Short(2)),
            ("binary_format_minor_version", Data::Short(0)),
            ("build_epoch", Data::Long(1_760_000_000)),
            ("database_type", Data::Text(kind.into())),
            ("description", Data::Map(vec![("en", Data::Text("made for a test".into()))])),
            ("ip_version", Data::Short(6)),
            ("languages", Data::List(vec![Data::Text("en".into())])),
            ("node_count", Data::Number(count as u32)),
            ("record_size", Data::Short(bits)),
        ]),
        &mut file,
    );
    file
}

/// As GeoLite2 and DB-IP have it, from `country=GB city=London asn=20712`; `_` in a value is a space.
pub fn record(words: &str) -> Data {
    let said: BTreeMap<&str, &str> = words.split_whitespace().filter_map(|word| word.split_once('=')).collect();
    let text = |name: &str| said.get(name).map(|value| Data::Text(value.replace('_', " ")));
    let within = |name: &'static str, value: Option<Data>| value.map(|value| Data::Map(vec![(name, value)]));
    let number = said.get("asn").and_then(|value| value.parse().ok()).map(Data::Number);
    let members = [
        ("autonomous_system_number", number),
        ("autonomous_system_organization", text("organization")),
        ("city", within("names", within("en", text("city")))),
        ("continent", within("code", text("continent"))),
        ("country", within("iso_code", text("country"))),
        ("subdivisions", within("iso_code", text("region")).map(|region| Data::List(vec![region]))),
    ];
    Data::Map(members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// A file of lines `81.2.69.0/24 country=GB asn=20712`.
pub fn of_lines(lines: &str) -> Result<Vec<u8>, String> {
    let mut rows = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (network, words) = line.split_once(' ').unwrap_or((line, ""));
        rows.push((network.parse::<IpNet>().map_err(|error| format!("{network}: {error}"))?, record(words)));
    }
    rows.sort_by_key(|(network, _)| network.prefix_len());
    Ok(database("Test-City-ASN", RecordSize::Bits24, &rows))
}

/// What a file of a case has in it: one whose name ends with `.mmdb` is written as lines.
pub fn contents(name: &str, text: String) -> Result<Vec<u8>, String> {
    if Path::new(name).extension().is_some_and(|end| end == "mmdb") { of_lines(&text) } else { Ok(text.into_bytes()) }
}

fn insert(nodes: &mut Vec<[Slot; 2]>, network: IpNet, data: Slot) {
    let (bits, length) = match network.addr() {
        IpAddr::V4(address) => (u128::from(u32::from(address)), IPV4_AT + usize::from(network.prefix_len())),
        IpAddr::V6(address) => (u128::from(address), usize::from(network.prefix_len())),
    };
    let mut at = 0;
    for depth in 0..length {
        let side = (bits >> (127 - depth) & 1) as usize;
        if depth + 1 == length {
            nodes[at][side] = data;
            return;
        }
        at = match nodes[at][side] {
            Slot::Node(next) => next,
            // What was said of a larger network holds for the rest of it.
            before => {
                nodes.push([before; 2]);
                nodes[at][side] = Slot::Node(nodes.len() - 1);
                nodes.len() - 1
            }
        };
    }
}

fn write(data: &Data, out: &mut Vec<u8>) {
    match data {
        Data::Text(text) => {
            head(2, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Data::Short(number) => write_number(5, &number.to_be_bytes(), out),
        Data::Number(number) => write_number(6, &number.to_be_bytes(), out),
        Data::Long(number) => write_number(9, &number.to_be_bytes(), out),
        Data::Map(members) => {
            head(7, members.len(), out);
            for (name, value) in members {
                write(&Data::Text((*name).into()), out);
                write(value, out);
            }
        }
        Data::List(items) => {
            head(11, items.len(), out);
            for item in items {
                write(item, out);
            }
        }
    }
}

/// Without its leading zeros.
fn write_number(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    let used = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    head(kind, used.len(), out);
    out.extend_from_slice(used);
}

/// Kind and size; kinds above 7 have a byte of their own.
fn head(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (short, long) = if size < 29 { (size as u8, None) } else { (29, Some((size - 29) as u8)) };
    match kind {
        0..=7 => out.push(kind << 5 | short),
        _ => out.extend([short, kind - 7]),
    }
    out.extend(long);
}
