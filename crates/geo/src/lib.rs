//! Where an address is and whose it is, from MMDB files such as GeoLite2, DB-IP and IPinfo publish. Pure: bytes in,
//! texts out; it opens no file. Start at [`Geo`], which every thread asks; [`Database`] is one file, `layout` says
//! where publishers keep what.

mod database;
mod facts;
mod layout;

#[cfg(test)]
mod tests;

pub use database::{Database, DatabaseFault};
pub use facts::{Facts, GeoMemory, Whereabouts};

use arc_swap::ArcSwap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// Of a file. What covers every address with all that is known has half a gigabyte; a file lies in memory as a whole,
/// since one that is cut short while it is mapped would end the process.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// The databases that there are now.
#[derive(Debug)]
pub struct Geo(ArcSwap<Databases>);

/// Databases in the order in which they are asked: the first that has something for an address is believed.
#[derive(Debug, Default)]
pub struct Databases {
    list: Vec<Arc<Database>>,
    /// By which those of another moment are told from these.
    number: u64,
}

impl Default for Geo {
    fn default() -> Self {
        Geo(ArcSwap::from_pointee(Databases::default()))
    }
}

impl Geo {
    /// Where there is none.
    pub fn none() -> &'static Geo {
        static NONE: LazyLock<Geo> = LazyLock::new(Geo::default);
        &NONE
    }

    pub fn current(&self) -> Arc<Databases> {
        self.0.load_full()
    }

    pub fn replace(&self, databases: Vec<Arc<Database>>) {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        self.0.store(Arc::new(Databases { list: databases, number: NUMBER.fetch_add(1, Ordering::Relaxed) }));
    }
}

impl Databases {
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.list.iter()
    }

    /// All that is known of an address.
    pub fn facts(&self, address: IpAddr) -> Facts {
        // A client on a socket for both comes as `::ffff:192.0.2.1`.
        let address = address.to_canonical();
        let found: Vec<_> = self.list.iter().filter_map(|database| database.find(address)).collect();
        Facts::of(|field| found.iter().find_map(|found| found.text(field)))
    }
}
