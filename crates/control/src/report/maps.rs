//! Maps as they are now: how many rows each has and from where, what was changed of them, and what is in the way of
//! either. And changing single rows.

use crate::applying::ChangeFault;
use crate::control::Control;
use crate::map_rows::{MapRows, RowChange, RowChangeFault};
use tidegate_api::{Map, MapRow, Maps, UnusableChange};
use tidegate_tables::{Map as Table, RowFault, UnfitRow};
use tokio::sync::oneshot;

/// Keys that `hiding_newer` and `unusable_changes` name.
const KEYS_LISTED_MAX: usize = 100;
/// Rows that one answer lists.
pub const ROWS_LISTED_MAX: usize = 10_000;

/// Which rows of a map are meant.
#[derive(Debug, Clone, Default)]
pub struct RowFilter {
    /// Whether only those are meant that were changed.
    pub changed: bool,
    /// So many are left out first.
    pub from: usize,
    pub limit: usize,
}

impl Control {
    pub fn maps(&self) -> Maps {
        let current = self.process.maps.current();
        let maps = self.running.configuration.maps.iter().filter_map(|settings| current.find(&settings.name));
        Maps { maps: maps.map(|map| self.map(map)).collect() }
    }

    fn map(&self, map: &Table) -> Map {
        let settings = &map.settings;
        let rows = self.map_rows.as_ref();
        Map {
            name: settings.name.clone(),
            key: self.as_written(&settings.key.to_string()),
            default: settings.default.as_deref().map(|text| self.as_written(text)),
            file: settings.file().map(|path| path.display().to_string()),
            rows: map.source().len(),
            bytes: map.source().bytes(),
            changed_rows: map.changed_rows().count(),
            unusable_changes: map.unfit().take(KEYS_LISTED_MAX).map(|row| self.unusable(row)).collect(),
            hiding_newer: map.hiding_newer().take(KEYS_LISTED_MAX).map(|key| self.as_written(key)).collect(),
            fault: self.map_files.unfit.get(&settings.name).cloned(),
            storage_read: rows.and_then(MapRows::read),
            storage_fault: rows.and_then(|rows| rows.fault(map.name())),
        }
    }

    fn unusable(&self, UnfitRow { key, fault }: &UnfitRow) -> UnusableChange {
        let key = key.as_deref().map(|key| self.as_written(key));
        UnusableChange { key, fault: self.as_written(&fault.to_string()), help: fault.help().to_owned() }
    }

    pub fn map_named(&self, name: &str) -> Result<Map, ChangeFault> {
        self.with_map(name, |map| Ok(self.map(map)))
    }

    pub fn map_rows(&self, name: &str, meant: &RowFilter) -> Result<tidegate_api::MapRows, ChangeFault> {
        self.with_map(name, |map| {
            let changed = map.changed_rows().map(|(key, _)| self.row(map, key));
            // A key that was changed is listed once.
            let is_changed = |key: &str| map.changed_row(key).is_some();
            let of_source = map.source().rows().filter(|_| !meant.changed).map(|row| row.pattern().to_string());
            let of_source = of_source.filter(|key| !is_changed(key)).map(|key| self.row(map, &key));
            let (mut count, mut rows) = (0, Vec::new());
            let last = meant.from.saturating_add(meant.limit.min(ROWS_LISTED_MAX));
            for one in changed.chain(of_source) {
                if (meant.from..last).contains(&count) {
                    rows.push(one);
                }
                count += 1;
            }
            Ok(tidegate_api::MapRows { count, rows })
        })
    }

    /// One row by its key, in whichever spelling.
    pub fn map_row(&self, name: &str, written: &str) -> Result<MapRow, ChangeFault> {
        self.with_map(name, |map| {
            let key = spelled(map, written)?;
            if map.changed_row(&key).is_none() && map.source_value(&key).is_none() {
                return Err(ChangeFault::NotFound(format!("the map `{name}` has no row `{key}`")));
            }
            Ok(self.row(map, &key))
        })
    }

    /// Asks for a change of a row; `reply` is told when it is kept and counts. Gives the key in its one spelling.
    pub fn change_map_row(
        &self,
        name: &str,
        written: &str,
        change: RowChange,
        reply: oneshot::Sender<Result<(), RowChangeFault>>,
    ) -> Result<String, ChangeFault> {
        self.with_map(name, |map| {
            let is_unfit = |row: &UnfitRow| row.key.as_deref() == Some(written);
            let key = match spelled(map, written) {
                // What cannot be a key here may be one in the storage.
                Err(_) if change == RowChange::Drop && map.unfit().any(is_unfit) => written.to_owned(),
                spelled => spelled?,
            };
            let rows = self.map_rows.as_ref().ok_or(ChangeFault::Leaving)?;
            rows.change(name.to_owned(), key.clone(), change, reply).map_err(ChangeFault::from)?;
            Ok(key)
        })
    }

    fn row(&self, map: &Table, key: &str) -> MapRow {
        let source = map.source_value(key);
        let changed = map.changed_row(key);
        let value = changed.map_or(source, |changed| changed.value.as_deref());
        MapRow {
            key: self.as_written(key),
            value: value.map(|text| self.as_written(text)),
            changed: changed.is_some(),
            source_value: source.map(|text| self.as_written(text)),
            hides_newer: changed.is_some_and(|changed| changed.over.as_deref() != source),
        }
    }

    /// With what was written in the place of what the environment or a file brought in, which may be secret.
    fn as_written(&self, text: &str) -> String {
        self.running.configuration.filled.shown(text).into_owned()
    }

    fn with_map<T>(&self, name: &str, see: impl FnOnce(&Table) -> Result<T, ChangeFault>) -> Result<T, ChangeFault> {
        let maps = &self.running.configuration.maps;
        let current = self.process.maps.current();
        let known = current.find(name).filter(|_| maps.iter().any(|settings| settings.name == name));
        let Some(map) = known else {
            let names = maps.iter().map(|map| &*map.name).collect::<Vec<_>>().join(", ");
            let none = "the configuration has no map".to_owned();
            let help = if names.is_empty() { none } else { format!("the maps are {names}") };
            return Err(ChangeFault::NotFound(format!("there is no map `{}`\n  help: {help}", name.escape_debug())));
        };
        see(map)
    }
}

fn spelled(map: &Table, written: &str) -> Result<String, ChangeFault> {
    let bad = |fault: RowFault| ChangeFault::Bad(format!("this cannot be a key: {fault}\n  help: {}", fault.help()));
    map.spelled(written).map_err(bad)
}

impl From<RowChangeFault> for ChangeFault {
    fn from(fault: RowChangeFault) -> ChangeFault {
        match fault {
            RowChangeFault::NotFound(text) => ChangeFault::NotFound(text),
            RowChangeFault::Bad(text) => ChangeFault::Bad(text),
            RowChangeFault::Storage(text) => ChangeFault::Storage(text),
        }
    }
}
