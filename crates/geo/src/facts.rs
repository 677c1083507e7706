//! What is known of one address, and how it is kept: looked up when somebody asks for it, once for a connection as long
//! as its client stays the same.

use crate::Geo;
use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;
use tidegate_model::GeoField;

/// Texts one behind the other; empty ones are not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    text: Box<str>,
    ends: [u16; GeoField::ALL.len()],
}

impl Facts {
    pub(crate) fn of<'d>(find: impl Fn(GeoField) -> Option<Cow<'d, str>>) -> Facts {
        let (mut text, mut ends) = (String::new(), [0; GeoField::ALL.len()]);
        for (field, end) in GeoField::ALL.into_iter().zip(&mut ends) {
            text.push_str(&find(field).unwrap_or_default());
            // Each is short.
            *end = text.len() as u16;
        }
        Facts { text: text.into(), ends }
    }

    /// Empty where it is not known.
    pub fn text(&self, field: GeoField) -> &str {
        let position = GeoField::ALL.iter().position(|known| *known == field).unwrap_or_default();
        let start = position.checked_sub(1).map_or(0, |before| usize::from(self.ends[before]));
        self.text.get(start..usize::from(self.ends[position])).unwrap_or_default()
    }
}

/// What a connection remembers of the client that was asked for last.
#[derive(Debug, Default)]
pub struct GeoMemory(RefCell<Option<Box<Known>>>);

#[derive(Debug)]
struct Known {
    address: IpAddr,
    /// By which databases: those of now may say something else.
    by: u64,
    facts: Facts,
}

/// What conditions and texts ask.
#[derive(Debug, Clone, Copy)]
pub struct Whereabouts<'a> {
    geo: &'a Geo,
    memory: Option<&'a GeoMemory>,
}

impl<'a> Whereabouts<'a> {
    pub fn new(geo: &'a Geo, memory: &'a GeoMemory) -> Whereabouts<'a> {
        Whereabouts { geo, memory: Some(memory) }
    }

    /// Looked up anew each time.
    pub fn without_memory(geo: &'a Geo) -> Whereabouts<'a> {
        Whereabouts { geo, memory: None }
    }

    pub fn none() -> Whereabouts<'static> {
        Whereabouts { geo: Geo::none(), memory: None }
    }

    /// Calls back with what is known of the address; empty where nothing is.
    pub fn see<T>(&self, address: IpAddr, field: GeoField, see: impl FnOnce(&str) -> T) -> T {
        let current = self.geo.0.load();
        let Some(memory) = self.memory else { return see(current.facts(address).text(field)) };
        let mut known = memory.0.borrow_mut();
        let is_of_now = |known: &Known| (known.address, known.by) == (address, current.number);
        if !known.as_deref().is_some_and(is_of_now) {
            let facts = current.facts(address);
            *known = Some(Box::new(Known { address, by: current.number, facts }));
        }
        see(known.as_deref().map_or("", |known| known.facts.text(field)))
    }
}
