//! The rows of maps, read from their files and from the configuration: each once, as long as neither changes. When
//! they are read again is in `maps`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tidegate_model::{Configuration, MapSettings, MapSource};
use tidegate_tables::{FILE_BYTES_MAX, LineFault, Map, MapSet, Overlay, RowFault, Table, TableDraft};

/// Why the rows of a map cannot be had.
#[derive(Debug)]
pub struct MapFault {
    pub map: String,
    /// `None`: they stand in the configuration.
    pub file: Option<PathBuf>,
    pub why: RowsFault,
}

#[derive(Debug)]
pub enum RowsFault {
    Unreadable(io::Error),
    Lines(Vec<LineFault>),
}

impl MapFault {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match &self.why {
            RowsFault::Unreadable(_) => {
                "name a file that exists and that this user may read, with a line `key,value` for each row"
            }
            RowsFault::Lines(faults) => faults.first().map_or("", |first| first.fault.help()),
        }
    }
}

impl fmt::Display for MapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MapFault { map, file, why } = self;
        write!(f, "the rows of the map `{map}`")?;
        if let Some(file) = file {
            write!(f, " in {}", file.display())?;
        }
        match why {
            RowsFault::Unreadable(error) => write!(f, " cannot be read: {error}"),
            RowsFault::Lines(faults) => {
                f.write_str(" cannot be used: ")?;
                for (position, fault) in faults.iter().enumerate() {
                    write!(f, "{}{fault}", if position > 0 { "; " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

/// What became of the files of maps.
#[derive(Debug, Default)]
pub(crate) struct MapFiles {
    /// As they were when their rows were read, by map.
    pub stamps: BTreeMap<String, Stamp>,
    /// Why those that changed since cannot be used.
    pub unfit: BTreeMap<String, String>,
    /// Some maps are there only for requests that began before the last change.
    pub has_gone: bool,
}

/// By which a file is known that has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
    device: u64,
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Stamp {
        Stamp { modified: metadata.modified().ok(), bytes: metadata.len(), inode: metadata.ino(), device: metadata.dev() }
    }
}

/// Maps that were gathered, and the files that they were read from.
pub(crate) struct GatheredMaps {
    pub set: MapSet,
    /// Of those that were read now.
    pub stamps: BTreeMap<String, Stamp>,
}

/// The maps of a configuration. Rows that are there already are not read again, and what was changed of them stays.
pub(crate) fn gather_maps(configuration: &Configuration, before: &MapSet) -> Result<GatheredMaps, Vec<MapFault>> {
    let (mut maps, mut stamps, mut faults) = (Vec::new(), BTreeMap::new(), Vec::new());
    for settings in &configuration.maps {
        let known = before.find(&settings.name);
        let has_rows =
            |map: &&Arc<Map>| (&map.settings.source, map.settings.ignores_case) == (&settings.source, settings.ignores_case);
        let source = match known.filter(has_rows) {
            Some(known) => Ok((known.source().clone(), None)),
            None => rows_of(settings).map(|(table, stamp)| (Arc::new(table), stamp)),
        };
        match source {
            Ok((source, stamp)) => {
                stamps.extend(stamp.map(|stamp| (settings.name.clone(), stamp)));
                maps.push(Arc::new(with_overlay_of(Map::new(settings.clone(), source), known)));
            }
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(GatheredMaps { set: MapSet::of(maps), stamps }) } else { Err(faults) }
}

/// The map with the rows that were changed of the one before. Where case means something else by now, keys are spelled
/// anew.
fn with_overlay_of(map: Map, known: Option<&Arc<Map>>) -> Map {
    let Some(known) = known else { return map };
    let ignores_case = map.settings.ignores_case;
    if known.settings.ignores_case == ignores_case {
        return map.with_overlay(known.overlay().clone());
    }
    match Overlay::read(known.overlay().write().as_bytes(), ignores_case) {
        Ok(overlay) => map.with_overlay(Arc::new(overlay)),
        // What was written a moment ago is read; and the storage has it.
        Err(_) => map,
    }
}

pub(crate) fn rows_of(settings: &MapSettings) -> Result<(Table, Option<Stamp>), MapFault> {
    let fault = |why| MapFault { map: settings.name.clone(), file: settings.file().cloned(), why };
    match &settings.source {
        MapSource::File(path) => {
            let (bytes, stamp) = read_bounded(path).map_err(|error| fault(RowsFault::Unreadable(error)))?;
            let table = Table::read(&bytes, settings.ignores_case).map_err(|faults| fault(RowsFault::Lines(faults)))?;
            Ok((table, Some(stamp)))
        }
        MapSource::Listed(rows) => {
            let mut draft = TableDraft::new(settings.ignores_case);
            for (position, (key, value)) in rows.iter().enumerate() {
                let line = position + 1;
                let lines = |error: RowFault| fault(RowsFault::Lines(vec![LineFault { line, fault: error }]));
                draft.add(line, key, Some(value)).map_err(lines)?;
            }
            draft.finish().map(|table| (table, None)).map_err(|faults| fault(RowsFault::Lines(faults)))
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<(Vec<u8>, Stamp)> {
    let metadata = std::fs::metadata(path)?;
    // A pipe would have the control thread wait for whoever writes into it.
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    let mut bytes = Vec::with_capacity(stamp.bytes.min(FILE_BYTES_MAX) as usize + 1);
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok((bytes, stamp))
}

/// What is wrong with the files of maps, for `tidegate check`.
pub(crate) fn faults_of_maps(configuration: &Configuration) -> Vec<MapFault> {
    configuration
        .maps
        .iter()
        .filter(|settings| settings.file().is_some())
        .filter_map(|settings| rows_of(settings).err())
        .collect()
}

/// The maps of a configuration as they would be at a start, for `tidegate explain`.
pub fn read_maps(configuration: &Configuration) -> Result<MapSet, Vec<MapFault>> {
    gather_maps(configuration, &MapSet::default()).map(|gathered| gathered.set)
}

/// Every file that rows are read from.
pub(crate) fn map_files(configuration: &Configuration) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = configuration.maps.iter().filter_map(MapSettings::file).cloned().collect();
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::{gather_maps, read_bounded};
    use std::fs;
    use std::sync::Arc;
    use tidegate_model::{Configuration, MapSettings, MapSource, Template};
    use tidegate_tables::{ChangedRow, MapSet, Overlay};

    fn of(source: MapSource) -> Configuration {
        let settings = MapSettings { name: "m".into(), key: Template::default(), default: None, ignores_case: false, source };
        Configuration { maps: vec![settings], ..Configuration::default() }
    }

    #[test]
    fn a_file_is_read_once_and_keeps_what_was_changed_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        let configuration = of(MapSource::File(path.clone()));
        let said = |before: &MapSet| {
            gather_maps(&configuration, before)
                .err()
                .map(|faults| format!("{}\n  help: {}", faults[0], faults[0].help()))
                .unwrap_or_default()
        };
        assert!(said(&MapSet::default()).contains("cannot be read"), "{}", said(&MapSet::default()));
        fs::write(&path, "a,1\na,2\nb\n").expect("a file");
        let expected = "line 3: there is no `,` between a key and a value\n  help: a line is `key,value`";
        assert!(said(&MapSet::default()).contains(expected), "{}", said(&MapSet::default()));
        fs::write(&path, "a,1\nb,2\n").expect("a file");
        let first = gather_maps(&configuration, &MapSet::default()).expect("a good file").set;
        let mut overlay = Overlay::default();
        overlay.set("a", ChangedRow { value: Some("9".into()), over: Some("1".into()) }, false).expect("a row");
        let changed = first.find("m").expect("it").with_overlay(Arc::new(overlay));
        let changed = first.with(Arc::new(changed));
        // Broken by now, and not looked at.
        fs::write(&path, "x").expect("a file");
        let again = gather_maps(&configuration, &changed).expect("it is known").set;
        assert_eq!((again.find("m").expect("it").overlay().len(), again.find("m").expect("it").source().len()), (1, 2));
        let other = of(MapSource::Listed(vec![("c".into(), "3".into())]));
        let listed = gather_maps(&other, &changed).expect("rows").set;
        assert_eq!((listed.find("m").expect("it").overlay().len(), listed.find("m").expect("it").source().len()), (1, 1));
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        assert!(read_bounded(std::path::Path::new("/dev/zero")).is_err());
    }
}
