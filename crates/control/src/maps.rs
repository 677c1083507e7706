//! Maps of the running configuration: their rows are taken on with it and when their files change. A file that cannot
//! be used leaves the rows that were there. What is changed of single rows is in `map_rows`.

use crate::background::in_background;
use crate::control::Control;
use crate::map_files::{GatheredMaps, Stamp, rows_of};
use std::sync::Arc;
use tidegate_model::MapSettings;
use tidegate_tables::{Map, MapSet, Table};

impl Control {
    /// Puts the maps of a configuration in the place of those before. Requests that began with the one before may still
    /// ask for what is gone.
    pub(crate) fn publish_maps(&mut self, gathered: GatheredMaps) {
        let GatheredMaps { set, stamps } = gathered;
        let current = self.process.maps.current();
        let gone: Vec<Arc<Map>> = current.iter().filter(|map| set.find(map.name()).is_none()).cloned().collect();
        self.map_files.has_gone |= !gone.is_empty();
        self.map_files.stamps.retain(|name, _| set.find(name).is_some());
        self.map_files.unfit.retain(|name, _| set.find(name).is_some() && !stamps.contains_key(name));
        self.map_files.stamps.extend(stamps);
        self.process.maps.replace(MapSet::of(set.iter().cloned().chain(gone)));
    }

    /// Once a second: maps that no configuration has any more go with the last tables that were made for it.
    pub(crate) fn forget_gone_maps(&mut self) {
        if !self.map_files.has_gone || !self.superseded.is_empty() {
            return;
        }
        self.map_files.has_gone = false;
        let wanted = &self.running.configuration.maps;
        let stays = |map: &&Arc<Map>| wanted.iter().any(|settings| settings.name == map.name());
        let current = self.process.maps.current();
        self.process.maps.replace(MapSet::of(current.iter().filter(stays).cloned()));
    }

    /// Reads the files of maps again that are not what they were. Says what it took over and what it could not.
    pub(crate) fn renew_maps(&mut self) {
        let configuration = self.running.configuration.clone();
        for settings in configuration.maps.iter().filter(|settings| settings.file().is_some()) {
            let stamp = settings.file().and_then(|path| std::fs::metadata(path).ok()).map(|metadata| Stamp::of(&metadata));
            let is_as_read = stamp.is_some() && stamp == self.map_files.stamps.get(&settings.name).copied();
            if is_as_read && !self.map_files.unfit.contains_key(&settings.name) {
                continue;
            }
            match in_background(|| rows_of(settings)) {
                Ok((table, stamp)) => self.take_rows(settings, table, stamp),
                Err(fault) => {
                    let said = fault.to_string();
                    if self.map_files.unfit.get(&settings.name) != Some(&said) {
                        tracing::error!(error = %fault, help = fault.help(), "a map was not read again; the rows before stay");
                        self.map_files.unfit.insert(settings.name.clone(), said);
                    }
                }
            }
        }
        self.note_drift(&[]);
    }

    fn take_rows(&mut self, settings: &MapSettings, table: Table, stamp: Option<Stamp>) {
        self.map_files.unfit.remove(&settings.name);
        self.map_files.stamps.extend(stamp.map(|stamp| (settings.name.clone(), stamp)));
        let current = self.process.maps.current();
        let Some(known) = current.find(&settings.name) else { return };
        let (rows, rows_before) = (table.len(), known.source().len());
        let map = known.with_source(Arc::new(table));
        let hiding = map.hiding_newer().count();
        self.process.maps.replace(current.with(Arc::new(map)));
        tracing::info!(map = settings.name, rows, rows_before, "a map was read again");
        if hiding > 0 {
            tracing::warn!(
                map = settings.name,
                rows = hiding,
                "changed rows hide newer ones of the file; `tidegate map rows --changed` lists them"
            );
        }
    }
}
