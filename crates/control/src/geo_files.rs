//! The files of `geoip`, read with a configuration: each once, as long as it does not change. When they are read again
//! is in `geo`.

use crate::map_files::Stamp;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_geo::{Database, DatabaseFault, FILE_BYTES_MAX, Geo};
use tidegate_model::{Condition, ConditionKind, Configuration, GeoField, HeaderStep, MatchLine, Step};

/// Why a file cannot be used.
#[derive(Debug)]
pub struct GeoFault {
    pub file: PathBuf,
    pub why: GeoFileFault,
}

#[derive(Debug)]
pub enum GeoFileFault {
    Unreadable(io::Error),
    Database(DatabaseFault),
}

impl GeoFault {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match &self.why {
            GeoFileFault::Unreadable(_) => "name an MMDB file that exists and that this user may read",
            GeoFileFault::Database(fault) => fault.help(),
        }
    }
}

impl fmt::Display for GeoFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file of `geoip` {} cannot be ", self.file.display())?;
        match &self.why {
            GeoFileFault::Unreadable(error) => write!(f, "read: {error}"),
            GeoFileFault::Database(fault) => write!(f, "used: {fault}"),
        }
    }
}

/// What became of the files.
#[derive(Debug, Default)]
pub(crate) struct GeoFiles {
    /// Databases in use, with what their files were when they were read.
    pub read: BTreeMap<PathBuf, ReadDatabase>,
    /// Why those that changed since cannot be used.
    pub unfit: BTreeMap<PathBuf, String>,
}

#[derive(Debug, Clone)]
pub(crate) struct ReadDatabase {
    pub stamp: Stamp,
    pub database: Arc<Database>,
}

/// The databases of a configuration. Those that are in use and have not changed are not read again.
pub(crate) fn gather_databases(
    configuration: &Configuration,
    before: &GeoFiles,
) -> Result<BTreeMap<PathBuf, ReadDatabase>, Vec<GeoFault>> {
    let (read, faults) = read_databases(configuration, before);
    if faults.is_empty() { Ok(read) } else { Err(faults) }
}

/// The databases that can be used, and why others cannot.
pub(crate) fn read_databases(
    configuration: &Configuration,
    before: &GeoFiles,
) -> (BTreeMap<PathBuf, ReadDatabase>, Vec<GeoFault>) {
    let (mut read, mut faults) = (BTreeMap::new(), Vec::new());
    for path in &configuration.geoip.files {
        match before.read.get(path) {
            Some(known) => drop(read.insert(path.clone(), known.clone())),
            None => match read_database(path) {
                Ok(database) => drop(read.insert(path.clone(), database)),
                Err(fault) => faults.push(fault),
            },
        }
    }
    (read, faults)
}

pub(crate) fn read_database(path: &Path) -> Result<ReadDatabase, GeoFault> {
    let fault = |why| GeoFault { file: path.to_owned(), why };
    let (bytes, stamp) = read_bounded(path).map_err(|error| fault(GeoFileFault::Unreadable(error)))?;
    let database = Database::read(bytes).map_err(|why| fault(GeoFileFault::Database(why)))?;
    Ok(ReadDatabase { stamp, database: Arc::new(database) })
}

fn read_bounded(path: &Path) -> io::Result<(Vec<u8>, Stamp)> {
    // A pipe would have the control thread wait for whoever writes into it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::with_capacity(metadata.len().min(FILE_BYTES_MAX) as usize + 1);
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok((bytes, Stamp::of(&metadata)))
}

/// The databases as they would be at a start, for `tidegate explain`.
pub fn read_geo(configuration: &Configuration) -> Result<Geo, Vec<GeoFault>> {
    let read = gather_databases(configuration, &GeoFiles::default())?;
    let geo = Geo::default();
    geo.replace(in_order(configuration, &read));
    Ok(geo)
}

pub(crate) fn in_order(configuration: &Configuration, read: &BTreeMap<PathBuf, ReadDatabase>) -> Vec<Arc<Database>> {
    let files = configuration.geoip.files.iter();
    files.filter_map(|path| read.get(path)).map(|known| known.database.clone()).collect()
}

/// What conditions ask for that no file seems to know.
pub(crate) fn unknown_fields(configuration: &Configuration, read: &BTreeMap<PathBuf, ReadDatabase>) -> Vec<GeoField> {
    let known: Vec<GeoField> = read.values().flat_map(|known| known.database.fields()).copied().collect();
    GeoField::IN_CONDITIONS.into_iter().filter(|field| !known.contains(field) && is_asked(configuration, *field)).collect()
}

fn is_asked(configuration: &Configuration, wanted: GeoField) -> bool {
    let in_lines = |lines: &[MatchLine]| {
        let mut found = false;
        let mut see = |condition: &Condition| {
            found |= matches!(&condition.kind, ConditionKind::Geo(test) if test.field == wanted);
        };
        lines.iter().flat_map(|line| &line.conditions).for_each(|condition| condition.each(&mut see));
        found
    };
    let in_step = |step: &Step| match step {
        Step::Allow(rule) | Step::Deny(rule) => rule.places.iter().any(|test| test.field == wanted),
        Step::RequestHeader(HeaderStep { when, .. }) | Step::ResponseHeader(HeaderStep { when, .. }) => in_lines(&when.matches),
        _ => false,
    };
    let sites = &configuration.sites;
    sites.iter().any(|site| {
        let of_routes = |route: &tidegate_model::Route| in_lines(&route.matches) || route.all_steps().any(in_step);
        site.steps.iter().any(in_step) || site.routes.iter().any(of_routes)
    })
}
