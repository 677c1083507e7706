//! What a look-up among a million rows costs: `cargo run --release -p tidegate-tables --example look_up`. Keys come in
//! an order that no cache foresees. Figures are for whoever changes the tables; no test is made of them.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tidegate_model::{MapSettings, MapSource, Template};
use tidegate_tables::{Map, TableDraft};

const ROWS: u32 = 1_000_000;
const LOOKS: u32 = 2_000_000;

/// The text of a row, or of a key that is looked up, by its number.
type Text = fn(u32) -> String;

/// Every number once, in an order of its own.
fn scattered(number: u32) -> u32 {
    (u64::from(number) * 2_654_435_761 % u64::from(ROWS)) as u32
}

fn main() {
    let kinds: [(&str, Text, Text); 4] = [
        ("exact", |number| format!("/products/{number}/index.html"), |number| format!("/products/{number}/index.html")),
        ("beginning", |number| format!("/products/{number}/*"), |number| format!("/products/{number}/index.html")),
        ("network", |number| network(number), |number| address(number)),
        ("no row", |number| format!("/products/{number}/index.html"), |number| format!("/elsewhere/{number}/index.html")),
    ];
    for (name, row, asked) in kinds {
        let began = Instant::now();
        let mut draft = TableDraft::new(false);
        for number in 0..ROWS {
            draft.add(number as usize + 1, &row(number), Some("/somewhere/else")).expect("a row");
        }
        let table = draft.finish().expect("no two are the same");
        let (took, bytes) = (began.elapsed(), table.bytes());
        let source = MapSource::Listed(Vec::new());
        let settings = MapSettings { name: name.into(), key: Template::default(), default: None, ignores_case: false, source };
        let map = Map::new(settings, Arc::new(table));
        let keys: Vec<String> = (0..ROWS).map(|number| asked(scattered(number))).collect();
        let began = Instant::now();
        let mut found = 0_u32;
        for number in 0..LOOKS {
            found += u32::from(black_box(map.find(keys[(number % ROWS) as usize].as_bytes())).is_some());
        }
        let each = began.elapsed().as_nanos() / u128::from(LOOKS);
        println!("{name}: {each} ns a look-up, {found} found; {} MB for {ROWS} rows, made in {took:?}", bytes >> 20);
    }
}

fn network(number: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    format!("{}.{a}.{b}.{c}/32", 10)
}

fn address(number: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    format!("10.{a}.{b}.{c}")
}
