//! A list of servers in JSON: `["10.0.0.1:80", {"address": …, "weight": 2}]`, or the same under `servers`. Each entry
//! is judged as it is read, so that a fault has a line. What an entry means is in `list`.

use super::list::{Entry, List};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};
use std::fmt;

/// Adds the entries to `list`. `Err` begins with the line.
pub fn parse(text: &str, list: &mut List) -> Result<(), String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Whole(list).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    read.map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        // Nothing is there before the first line.
        format!("line {}: {}", error.line().max(1), message.strip_suffix(&place).unwrap_or(&message))
    })
}

struct Whole<'a>(&'a mut List);

struct Servers<'a>(&'a mut List);

struct OneEntry;

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of servers, or an object with `servers`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, entries: A) -> Result<(), A::Error> {
        Servers(self.0).visit_seq(entries)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut keys: A) -> Result<(), A::Error> {
        const SERVERS: &str = "servers";
        let mut is_there = false;
        while let Some(key) = keys.next_key::<String>()? {
            if key != SERVERS {
                return Err(A::Error::unknown_field(&key, &[SERVERS]));
            }
            if is_there {
                return Err(A::Error::duplicate_field(SERVERS));
            }
            is_there = true;
            keys.next_value_seed(Servers(self.0))?;
        }
        if is_there { Ok(()) } else { Err(A::Error::missing_field(SERVERS)) }
    }
}

impl<'de> DeserializeSeed<'de> for Servers<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Servers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of servers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(entry) = entries.next_element_seed(OneEntry)? {
            self.0.add(entry).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for OneEntry {
    type Value = Entry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OneEntry {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address, or an object with `address`")
    }

    fn visit_str<E: Error>(self, address: &str) -> Result<Entry, E> {
        Ok(Entry::of_address(address))
    }

    fn visit_map<A: MapAccess<'de>>(self, keys: A) -> Result<Entry, A::Error> {
        serde::Deserialize::deserialize(MapAccessDeserializer::new(keys))
    }
}
