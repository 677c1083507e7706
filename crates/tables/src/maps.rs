//! All maps of the process by name, as every thread sees them. A change is a new set, put in the place of the one
//! before; who looks something up holds the set for as long as that takes, without a lock and without a counter that
//! all write.

use crate::map::Map;
use arc_swap::ArcSwap;
use std::sync::{Arc, LazyLock};

/// The maps that there are now.
#[derive(Debug)]
pub struct Maps(ArcSwap<MapSet>);

/// Maps by name.
#[derive(Debug, Clone, Default)]
pub struct MapSet(Vec<Arc<Map>>);

impl Default for Maps {
    fn default() -> Self {
        Maps(ArcSwap::from_pointee(MapSet::default()))
    }
}

impl Maps {
    /// Where there is none.
    pub fn none() -> &'static Maps {
        static NONE: LazyLock<Maps> = LazyLock::new(Maps::default);
        &NONE
    }

    pub fn of(maps: impl IntoIterator<Item = Arc<Map>>) -> Maps {
        Maps(ArcSwap::from_pointee(MapSet::of(maps)))
    }

    /// Calls back with the map of that name, if there is one.
    #[inline]
    pub fn see<T>(&self, name: &str, see: impl FnOnce(Option<&Map>) -> T) -> T {
        see(self.0.load().find(name).map(|map| &**map))
    }

    pub fn current(&self) -> Arc<MapSet> {
        self.0.load_full()
    }

    pub fn replace(&self, set: MapSet) {
        self.0.store(Arc::new(set));
    }
}

impl MapSet {
    pub fn of(maps: impl IntoIterator<Item = Arc<Map>>) -> MapSet {
        let mut maps: Vec<Arc<Map>> = maps.into_iter().collect();
        maps.sort_by(|one, other| one.name().cmp(other.name()));
        MapSet(maps)
    }

    #[inline]
    pub fn find(&self, name: &str) -> Option<&Arc<Map>> {
        let position = self.0.binary_search_by(|map| map.name().cmp(name)).ok()?;
        self.0.get(position)
    }

    /// By name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Map>> {
        self.0.iter()
    }

    /// With this one in the place of the one of its name.
    #[must_use]
    pub fn with(&self, map: Arc<Map>) -> MapSet {
        let mut maps: Vec<Arc<Map>> = self.0.iter().filter(|known| known.name() != map.name()).cloned().collect();
        maps.push(map);
        MapSet::of(maps)
    }
}
