//! A map as it is looked up in: the rows of its source, those that are changed above them, and the order in which they
//! are asked. Exact keys first, then the smallest network, the longest beginning, the longest end, and the first
//! regular expression; a changed row takes the place of the source's of the same key, wherever that stands.

use crate::fault::RowFault;
use crate::overlay::{ChangedRow, Overlay, UnfitRow, spelled};
use crate::pattern::Kind;
use crate::regexes::Filled;
use crate::table::{Row, Table};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use tidegate_model::{MapSettings, Template};

/// A map at one moment; a change of it is another one.
#[derive(Debug, Clone)]
pub struct Map {
    pub settings: MapSettings,
    source: Arc<Table>,
    overlay: Arc<Overlay>,
    /// What the overlay is looked up in; none without a changed row.
    changed: Option<Arc<Table>>,
    /// Changed rows that do not fit beside the others, by key.
    left_out: Arc<[UnfitRow]>,
}

/// What a key has, or what all others have.
#[derive(Debug, Clone, Copy)]
pub enum Value<'m> {
    Text(&'m str),
    /// Parts of the key are put in.
    Filled(&'m Filled),
}

impl Map {
    pub fn new(settings: MapSettings, source: Arc<Table>) -> Map {
        Map { settings, source, overlay: Arc::default(), changed: None, left_out: Arc::default() }
    }

    /// With other rows of its source.
    pub fn with_source(&self, source: Arc<Table>) -> Map {
        Map { source, ..self.clone() }
    }

    /// With other changed rows, spelled as this map has them. Rows that do not fit beside the others are as if they had
    /// not been changed, and are among the [`unfit`](Self::unfit).
    #[must_use]
    pub fn with_overlay(&self, overlay: Arc<Overlay>) -> Map {
        let (changed, left_out) = match overlay.len() {
            0 => (None, Vec::new()),
            _ => {
                let (table, left_out) = overlay.table(self.settings.ignores_case);
                (Some(Arc::new(table)), left_out)
            }
        };
        Map { overlay, changed, left_out: left_out.into(), ..self.clone() }
    }

    /// What became of the row of that key, if it was changed and counts.
    pub fn changed_row(&self, key: &str) -> Option<&ChangedRow> {
        let is_left_out = self.left_out.binary_search_by(|row| row.key.as_deref().cmp(&Some(key))).is_ok();
        self.overlay.row(key).filter(|_| !is_left_out)
    }

    /// Changed rows that count, by key.
    pub fn changed_rows(&self) -> impl Iterator<Item = (&str, &ChangedRow)> {
        self.overlay.rows().filter(|(key, _)| self.changed_row(key).is_some())
    }

    /// Changed rows that do not count, and why.
    pub fn unfit(&self) -> impl Iterator<Item = &UnfitRow> {
        self.left_out.iter().chain(self.overlay.unread())
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    pub fn key(&self) -> &Template {
        &self.settings.key
    }

    pub fn source(&self) -> &Arc<Table> {
        &self.source
    }

    pub fn overlay(&self) -> &Arc<Overlay> {
        &self.overlay
    }

    /// The one spelling of a row's key.
    pub fn spelled(&self, written: &str) -> Result<String, RowFault> {
        spelled(written, self.settings.ignores_case)
    }

    /// What a row of that very key has in the source.
    pub fn source_value(&self, written: &str) -> Option<&str> {
        let pattern = crate::Pattern::parse(written).ok()?;
        let pattern = if self.settings.ignores_case { pattern.without_case() } else { pattern };
        self.source.row(pattern.kind, pattern.text.as_bytes())?.value
    }

    /// Changed rows whose key has another row in the source than when they were changed.
    pub fn hiding_newer(&self) -> impl Iterator<Item = &str> {
        self.changed_rows().filter(|(key, row)| self.source_value(key) != row.over.as_deref()).map(|(key, _)| key)
    }

    /// The value of the row that has the key; `None` where there is no row, whatever the default.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<Value<'_>> {
        let has_large = self.settings.ignores_case && key.iter().any(u8::is_ascii_uppercase);
        let key = &*if has_large { Cow::Owned(key.to_ascii_lowercase()) } else { Cow::Borrowed(key) };
        let layers = Layers { changed: self.changed.as_deref(), source: &self.source };
        layers.find(key).and_then(|row| match row.filled() {
            Some(filled) => Some(Value::Filled(filled)),
            None => row.value.map(Value::Text),
        })
    }

    /// As [`find`](Self::find), or what the map says of all other keys.
    #[inline]
    pub fn value_of(&self, key: &[u8]) -> Option<Value<'_>> {
        self.find(key).or_else(|| self.settings.default.as_deref().map(Value::Text))
    }
}

impl Value<'_> {
    /// Calls back with each part: what the administrator wrote, and what the key brings (`true`).
    pub fn each_part(self, key: &[u8], mut take: impl FnMut(&[u8], bool)) {
        match self {
            Value::Text(text) => take(text.as_bytes(), false),
            Value::Filled(filled) => filled.each_part(key, take),
        }
    }
}

/// Changed rows above those of the source.
struct Layers<'m> {
    changed: Option<&'m Table>,
    source: &'m Table,
}

impl<'m> Layers<'m> {
    fn find(&self, key: &[u8]) -> Option<Row<'m>> {
        self.row(Kind::Exact, key)
            .or_else(|| self.network(key))
            .or_else(|| self.longest(Kind::Prefix, key))
            .or_else(|| self.longest(Kind::Suffix, key))
            .or_else(|| self.regex(key))
    }

    /// The row of that very key, unless it is absent.
    fn row(&self, kind: Kind, key: &[u8]) -> Option<Row<'m>> {
        let changed = self.changed.and_then(|changed| changed.row(kind, key));
        changed.or_else(|| self.source.row(kind, key)).filter(|row| row.value.is_some())
    }

    fn is_changed(&self, row: &Row<'_>) -> bool {
        self.changed.is_some_and(|changed| changed.row(row.kind, row.key).is_some())
    }

    fn network(&self, key: &[u8]) -> Option<Row<'m>> {
        if !self.source.has_networks() && !self.changed.is_some_and(Table::has_networks) {
            return None;
        }
        let address: IpAddr = std::str::from_utf8(key).ok()?.parse().ok()?;
        let address = address.to_canonical();
        let changed = self.changed.and_then(|changed| changed.networks_of(address).find(|(_, row)| row.value.is_some()));
        let of_source = self.source.networks_of(address).find(|(_, row)| !self.is_changed(row));
        match (changed, of_source) {
            (Some((long, row)), Some((short, _))) if long >= short => Some(row),
            (_, Some((_, row))) | (Some((_, row)), None) => Some(row),
            (None, None) => None,
        }
    }

    /// The row with the longest text that the key begins or ends with.
    fn longest(&self, kind: Kind, key: &[u8]) -> Option<Row<'m>> {
        let part = |length: usize| if kind == Kind::Prefix { &key[..length] } else { &key[key.len() - length..] };
        let mut changed = self.changed.map_or(&[][..], |changed| changed.lengths(kind));
        let mut source = self.source.lengths(kind);
        loop {
            let length = match (changed.first(), source.first()) {
                (None, None) => return None,
                (first, second) => *first.max(second)?,
            };
            changed = changed.strip_prefix(&[length]).unwrap_or(changed);
            source = source.strip_prefix(&[length]).unwrap_or(source);
            if usize::from(length) <= key.len()
                && let Some(row) = self.row(kind, part(length.into()))
            {
                return Some(row);
            }
        }
    }

    fn regex(&self, key: &[u8]) -> Option<Row<'m>> {
        let changed = self.changed.and_then(|changed| changed.regexes_of(key).find(|row| row.value.is_some()));
        changed.or_else(|| self.source.regexes_of(key).find(|row| !self.is_changed(row)))
    }
}
