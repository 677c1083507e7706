//! Maps from a key to a value, with a million rows where that is wanted: rows are an exact text, a beginning, an end, a
//! network or a regular expression, from the configuration or from a file, and single ones are changed while it runs.
//! Pure: bytes in, rows out; it opens no file and has no clock. Start at [`Map`]; [`Table`] is what rows are kept in,
//! `csv` how files of them are written.

mod csv;
mod fault;
mod map;
mod maps;
mod networks;
mod overlay;
mod pattern;
mod regexes;
mod slots;
mod table;

#[cfg(test)]
mod tests;

pub use csv::{read_csv, write_record};
pub use fault::{LineFault, RowFault};
pub use map::{Map, Value};
pub use maps::{MapSet, Maps};
pub use overlay::{ChangedRow, Overlay, OverlayFault, UnfitRow};
pub use pattern::{Kind, Pattern};
pub use table::{Row, Table, TableDraft};

/// Of one map.
pub const ROWS_MAX: usize = 2_000_000;
/// Of a file of rows.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// What a browser's URL has at most, and most servers take.
pub const KEY_BYTES_MAX: usize = 8192;
pub const VALUE_BYTES_MAX: usize = 8192;
/// Regular expressions of one map: a key is held against all of them at once, and their automaton grows with each.
pub const REGEXES_MAX: usize = 256;
/// Lengths that the beginnings, or the ends, of one map may have: each is a look of its own.
pub const LENGTHS_MAX: usize = 256;
/// Rows of one map that are changed while it runs: each change makes their table anew, and a storage keeps a megabyte.
pub const CHANGED_ROWS_MAX: usize = 10_000;
/// Of all changed rows of a map together, as they are kept.
pub const CHANGED_BYTES_MAX: usize = 900 << 10;
