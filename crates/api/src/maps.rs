//! Maps and their rows: what files and the configuration have, and what was changed since.

use crate::schema::objects;
use jiff::Timestamp;

objects! {
    /// All maps.
    pub struct Maps {
        pub maps: Vec<Map>,
    }

    /// A map, without its rows.
    pub struct Map {
        pub name: String,
        /// What is looked up.
        pub key: String,
        /// What all keys without a row have.
        pub default: Option<String>,
        /// The file that its rows are read from; otherwise they stand in the configuration.
        pub file: Option<String>,
        /// Of the file or the configuration.
        pub rows: usize,
        /// What those take of memory.
        pub bytes: usize,
        /// Rows that were changed while it ran, and are kept in the storage.
        pub changed_rows: usize,
        /// Changed rows that hide a newer one of the file: their keys, at most 100.
        pub hiding_newer: Vec<String>,
        /// Changed rows in the storage that cannot be used here, at most 100: they do not count, all others do.
        pub unusable_changes: Vec<UnusableChange>,
        /// Why the file cannot be used as it is now; the rows before stay in use.
        pub fault: Option<String>,
        /// When changed rows were read from the storage last.
        pub storage_read: Option<Timestamp>,
        /// Why changed rows cannot be read from the storage.
        pub storage_fault: Option<String>,
    }

    /// A changed row in the storage that another version, or a host with other settings, has written.
    pub struct UnusableChange {
        /// None where not even that can be read.
        pub key: Option<String>,
        pub fault: String,
        pub help: String,
    }

    /// Rows of a map: the changed ones by key, then the others in the order written.
    pub struct MapRows {
        /// How many there are.
        pub count: usize,
        pub rows: Vec<MapRow>,
    }

    /// A key as it is written, and what it stands for.
    pub struct MapRow {
        pub key: String,
        /// What counts; none where the row is absent.
        pub value: Option<String>,
        /// Whether it was changed while it ran.
        pub changed: bool,
        /// What the file or the configuration has.
        pub source_value: Option<String>,
        /// Whether what the file has is newer than the change.
        pub hides_newer: bool,
    }

    /// What a row is to have: a value, or nothing at all as if there were no such row.
    #[serde(deny_unknown_fields)]
    pub struct MapRowChange {
        pub value: Option<String>,
        pub absent: Option<bool>,
    }
}
