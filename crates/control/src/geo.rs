//! Databases of the running configuration: taken on with it, and when their files change. One that cannot be used
//! leaves the one before in its place.

use crate::background::in_background;
use crate::control::Control;
use crate::geo_files::{ReadDatabase, in_order, read_database};
use crate::map_files::Stamp;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tidegate_api::GeoDatabase;
use tidegate_geo::Database;
use tidegate_model::Configuration;

impl Control {
    /// Puts the databases of a configuration in the place of those before.
    pub(crate) fn publish_databases(&mut self, configuration: &Configuration, read: BTreeMap<PathBuf, ReadDatabase>) {
        self.geo_files.unfit.retain(|path, _| read.contains_key(path));
        self.geo_files.read = read;
        self.process.geo.replace(in_order(configuration, &self.geo_files.read));
    }

    /// Reads the files again that are not what they were. Says what it took over and what it could not.
    pub(crate) fn renew_databases(&mut self) {
        let configuration = self.running.configuration.clone();
        for path in &configuration.geoip.files {
            let stamp = std::fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata));
            let known = self.geo_files.read.get(path).map(|known| known.stamp);
            if stamp.is_some() && stamp == known && !self.geo_files.unfit.contains_key(path) {
                continue;
            }
            match in_background(|| read_database(path)) {
                Ok(read) => {
                    self.geo_files.unfit.remove(path);
                    let (kind, built) = (read.database.kind().to_owned(), made(&read.database));
                    self.geo_files.read.insert(path.clone(), read);
                    self.process.geo.replace(in_order(&configuration, &self.geo_files.read));
                    let built = built.map(|built| built.to_string()).unwrap_or_default();
                    tracing::info!(file = %path.display(), kind, built, "a file of geoip was read again");
                }
                Err(fault) => {
                    let said = fault.to_string();
                    if self.geo_files.unfit.get(path) != Some(&said) {
                        tracing::error!(error = %fault, help = fault.help(), "a file of geoip was not read again; the one before stays");
                        self.geo_files.unfit.insert(path.clone(), said);
                    }
                }
            }
        }
        self.note_drift(&[]);
    }

    pub fn databases(&self) -> Vec<GeoDatabase> {
        let files = self.running.configuration.geoip.files.iter();
        let database = |path: &PathBuf| {
            let known = self.geo_files.read.get(path)?;
            Some(GeoDatabase {
                file: path.display().to_string(),
                kind: known.database.kind().to_owned(),
                built: made(&known.database),
                unreadable: known.database.unreadable(),
                fault: self.geo_files.unfit.get(path).cloned(),
            })
        };
        files.filter_map(database).collect()
    }
}

fn made(database: &Database) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(database.built()).ok()?).ok()
}
