//! Maps, lists and texts, whatever they were written in: JSON here, YAML in `yaml`, TOML in `toml`, and the dots of
//! labels. No value of it is ever taken for a setting; it is looked at to tell what a file is about.

use crate::alike::joined_alike;
use std::collections::BTreeSet;

/// Deeper ones are not looked at.
pub const DEPTH_MAX: usize = 48;

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Where its key, or it itself as an item of a list, begins in the file.
    start: usize,
    node: Node,
}

#[derive(Debug, Clone, PartialEq, Default)]
enum Node {
    #[default]
    Nothing,
    /// Numbers and switches too.
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl PartialEq for Tree {
    fn eq(&self, other: &Tree) -> bool {
        self.node == other.node
    }
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { start: NOWHERE, node: Node::Nothing }
    }
}

/// Where a tree stands that is in no file.
const NOWHERE: usize = usize::MAX;

static NOTHING: Tree = Tree { start: NOWHERE, node: Node::Nothing };

impl Tree {
    pub fn of_text(text: impl Into<String>) -> Tree {
        Tree { start: NOWHERE, node: Node::Text(text.into()) }
    }

    pub fn of_items(items: Vec<Tree>) -> Tree {
        Tree { start: NOWHERE, node: Node::List(items) }
    }

    pub fn of_entries(entries: Vec<(String, Tree)>) -> Tree {
        Tree { start: NOWHERE, node: Node::Map(entries) }
    }

    /// With the place of its key.
    pub fn standing_at(mut self, start: usize) -> Tree {
        self.start = start;
        self
    }

    /// Read from a text that begins there in its file.
    pub fn moved(self, by: usize) -> Tree {
        let start = if self.start == NOWHERE { NOWHERE } else { self.start + by };
        let node = match self.node {
            Node::Nothing => Node::Nothing,
            Node::Text(text) => Node::Text(text),
            Node::List(items) => Node::List(items.into_iter().map(|item| item.moved(by)).collect()),
            Node::Map(entries) => Node::Map(entries.into_iter().map(|(key, value)| (key, value.moved(by))).collect()),
        };
        Tree { start, node }
    }

    pub fn start(&self) -> usize {
        self.start
    }

    /// What is behind a name, whichever way its words are joined.
    pub fn get(&self, name: &str) -> &Tree {
        let exact = self.entries().iter().find(|(key, _)| *key == name);
        let alike = || {
            let alike = joined_alike(name);
            self.entries().iter().find(|(key, _)| joined_alike(key) == alike)
        };
        exact.or_else(alike).map_or(&NOTHING, |(_, value)| value)
    }

    /// Whether the name is there, be it without a value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).start != NOWHERE || !self.get(name).is_nothing()
    }

    /// What is behind names, one in the other.
    pub fn at(&self, path: &[&str]) -> &Tree {
        path.iter().fold(self, |tree, name| tree.get(name))
    }

    pub fn entries(&self) -> &[(String, Tree)] {
        match &self.node {
            Node::Map(entries) => entries,
            Node::Nothing | Node::Text(_) | Node::List(_) => &[],
        }
    }

    /// The items of a list; one thing that stands alone is a list of one.
    pub fn items(&self) -> &[Tree] {
        match &self.node {
            Node::List(items) => items,
            Node::Nothing => &[],
            Node::Text(_) | Node::Map(_) => std::slice::from_ref(self),
        }
    }

    pub fn is_list(&self) -> bool {
        matches!(self.node, Node::List(_))
    }

    pub fn is_map(&self) -> bool {
        matches!(self.node, Node::Map(_))
    }

    pub fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Text(text) => Some(text),
            Node::Nothing | Node::List(_) | Node::Map(_) => None,
        }
    }

    /// Texts of a list, and those that are separated by commas in one.
    pub fn texts(&self) -> Vec<String> {
        let texts = self.items().iter().filter_map(Tree::text);
        texts.flat_map(|text| text.split(',')).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
    }

    pub fn number(&self) -> Option<u64> {
        self.text()?.trim().parse().ok()
    }

    pub fn is_true(&self) -> bool {
        self.text() == Some("true")
    }

    pub fn is_nothing(&self) -> bool {
        self.node == Node::Nothing
    }

    /// Whether a name stands anywhere in it.
    pub fn has_within(&self, name: &str) -> bool {
        match &self.node {
            Node::Nothing | Node::Text(_) => false,
            Node::List(items) => items.iter().any(|item| item.has_within(name)),
            Node::Map(entries) => {
                entries.iter().any(|(key, value)| joined_alike(key) == joined_alike(name) || value.has_within(name))
            }
        }
    }

    /// Tells of each statement in it: where it begins, and the names that it stands behind. A list of texts is one.
    /// `label` is what a map is called beside its key.
    pub fn each_statement<'t>(
        &'t self,
        path: &mut Vec<&'t str>,
        label: &dyn Fn(&Tree) -> Option<&'static str>,
        visit: &mut dyn FnMut(usize, &[&str], &'t Tree),
    ) {
        let is_leaf = match &self.node {
            Node::Nothing | Node::Text(_) => true,
            Node::List(items) => items.iter().all(|item| item.text().is_some()),
            Node::Map(entries) => entries.is_empty(),
        };
        if is_leaf {
            if self.start != NOWHERE {
                visit(self.start, path, self);
            }
            return;
        }
        let length = path.len();
        path.extend(label(self));
        for item in if self.is_list() { self.items() } else { &[] } {
            item.each_statement(path, label, visit);
        }
        for (key, value) in self.entries() {
            path.push(key);
            value.each_statement(path, label, visit);
            path.pop();
        }
        path.truncate(length);
    }

    /// Where all statements of it begin.
    pub fn statements(&self) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        self.each_statement(&mut Vec::new(), &|_| None, &mut |at, _, _| {
            all.insert(at);
        });
        all
    }

    /// How many values it has, and how deep they go.
    pub fn extent(&self) -> (usize, usize) {
        let inner = |values: &mut dyn Iterator<Item = &Tree>| {
            values.map(Tree::extent).fold((1, 1), |(count, depth), (own, deep)| (count + own, depth.max(deep + 1)))
        };
        match &self.node {
            Node::Nothing | Node::Text(_) => (1, 1),
            Node::List(items) => inner(&mut items.iter()),
            Node::Map(entries) => inner(&mut entries.iter().map(|(_, value)| value)),
        }
    }

    /// With what texts stand for in their places, and what is behind the key merged into its map.
    pub fn resolved(self, merged: &str, meant: &mut dyn FnMut(&str) -> Option<Tree>) -> Tree {
        let node = match self.node {
            Node::Nothing => Node::Nothing,
            Node::Text(text) => match meant(&text) {
                Some(tree) => tree.node,
                None => Node::Text(text),
            },
            Node::List(items) => Node::List(items.into_iter().map(|item| item.resolved(merged, meant)).collect()),
            Node::Map(entries) => {
                let resolved = entries.into_iter().map(|(key, value)| (key, value.resolved(merged, meant)));
                let (own, other): (Vec<_>, Vec<_>) = resolved.partition(|(key, _)| key != merged);
                let mut own: Vec<(String, Tree)> = own;
                merge_into(&mut own, other.into_iter().map(|(_, value)| value).collect());
                Node::Map(own)
            }
        };
        Tree { start: self.start, node }
    }

    /// The place behind names, which is made where it is not there. In a list it is in the last item.
    pub fn place(&mut self, path: &[String]) -> &mut Tree {
        let Some((name, rest)) = path.split_first() else { return self };
        if self.is_list() {
            if self.items().is_empty() {
                self.push(Tree::default());
            }
        } else if !self.is_map() {
            self.node = Node::Map(Vec::new());
        }
        match &mut self.node {
            Node::List(items) => {
                let last = items.len() - 1;
                items[last].place(path)
            }
            Node::Map(entries) => {
                let alike = joined_alike(name);
                let position = entries.iter().position(|(key, _)| joined_alike(key) == alike).unwrap_or_else(|| {
                    entries.push((name.clone(), Tree::default()));
                    entries.len() - 1
                });
                entries[position].1.place(rest)
            }
            Node::Nothing | Node::Text(_) => unreachable!("it was made a map"),
        }
    }

    /// Adds an item, where it is a list; else it becomes one.
    pub fn push(&mut self, item: Tree) {
        match &mut self.node {
            Node::List(items) => items.push(item),
            Node::Nothing | Node::Text(_) | Node::Map(_) => self.node = Node::List(vec![item]),
        }
    }

    /// A name that stands twice in one map, and where it does again. Readers disagree about which of the two counts.
    pub fn twice(&self) -> Option<(usize, &str)> {
        match &self.node {
            Node::Nothing | Node::Text(_) => None,
            Node::List(items) => items.iter().find_map(Tree::twice),
            Node::Map(entries) => {
                let mut known = BTreeSet::new();
                let again = entries.iter().find(|(key, _)| !known.insert(key));
                let again = again.map(|(key, value)| (if value.start == NOWHERE { 0 } else { value.start }, key.as_str()));
                again.or_else(|| entries.iter().find_map(|(_, value)| value.twice()))
            }
        }
    }

    #[cfg(test)]
    pub fn shown(&self) -> String {
        let joined = |parts: Vec<String>| parts.join(", ");
        match &self.node {
            Node::Nothing => "-".to_owned(),
            Node::Text(text) => text.clone(),
            Node::List(items) => format!("[{}]", joined(items.iter().map(Tree::shown).collect())),
            Node::Map(entries) => {
                let entry = |(key, value): &(String, Tree)| format!("{key}: {}", value.shown());
                format!("{{{}}}", joined(entries.iter().map(entry).collect()))
            }
        }
    }

    /// Entries, when it is a map; else itself.
    pub fn into_entries(self) -> Result<Vec<(String, Tree)>, Tree> {
        match self.node {
            Node::Map(entries) => Ok(entries),
            node @ (Node::Nothing | Node::Text(_) | Node::List(_)) => Err(Tree { start: self.start, node }),
        }
    }
}

/// Adds what maps say that the entries do not, those of the first before those of the next; a list is several maps.
pub fn merge_into(entries: &mut Vec<(String, Tree)>, merged: Vec<Tree>) {
    for tree in merged {
        let maps = if tree.is_list() { tree.items().to_vec() } else { vec![tree] };
        for map in maps {
            for (key, value) in map.into_entries().unwrap_or_default() {
                if entries.iter().all(|(known, _)| *known != key) {
                    entries.push((key, value));
                }
            }
        }
    }
}

/// JSON, also a part of some: what is cut off or left out is nothing.
pub fn of_json(text: &str) -> Tree {
    let skipped = text.len() - text.trim_start().len();
    let mut reader = FlowReader { whole: text, rest: &text[skipped..], base: 0, depth: 0 };
    if reader.rest.starts_with('"') {
        // Members that were cut out of what is around them.
        let node = reader.entries();
        return Tree { start: skipped, node };
    }
    reader.value(false).standing_at(skipped)
}

/// JSON with a line for each of its values, as `jq` and `caddy adapt --pretty` write it.
pub fn in_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let (mut is_quoted, mut is_escaped) = (false, false);
    let mut chars = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        // Deeper ones are not looked at.
        out.push_str(&"\t".repeat(depth.min(DEPTH_MAX)));
    };
    while let Some(c) = chars.next() {
        if is_quoted {
            out.push(c);
            is_quoted = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                is_quoted = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|c| c.is_whitespace()).is_some() {}
                if let Some(closing) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(closing);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
    }
    out.push('\n');
    out
}

/// A value on one line, or on several that were put together: texts, `[a, b]`, `{ a: b }`, `{ a = b }`. It begins at
/// `base` in its file.
pub fn of_flow(text: &str, base: usize) -> Tree {
    let mut reader = FlowReader { whole: text, rest: text, base, depth: 0 };
    reader.value(true).standing_at(base)
}

struct FlowReader<'t> {
    whole: &'t str,
    rest: &'t str,
    base: usize,
    depth: usize,
}

impl FlowReader<'_> {
    fn here(&self) -> usize {
        self.base + self.whole.len() - self.rest.len()
    }

    fn value(&mut self, is_whole: bool) -> Tree {
        self.skip_blanks();
        let start = self.here();
        let node = match self.rest.chars().next() {
            None => Node::Nothing,
            Some('[' | '{') if self.depth >= DEPTH_MAX => {
                self.rest = "";
                Node::Nothing
            }
            Some('[') => self.list(),
            Some('{') => self.map(),
            Some(quote @ ('"' | '\'')) => Node::Text(self.quoted(quote)),
            Some(_) => {
                let end =
                    if is_whole { self.rest.len() } else { self.rest.find([',', ']', '}', '\n']).unwrap_or(self.rest.len()) };
                let word = self.rest[..end].trim();
                self.rest = &self.rest[end..];
                if word.is_empty() || matches!(word, "null" | "~") { Node::Nothing } else { Node::Text(word.to_owned()) }
            }
        };
        Tree { start, node }
    }

    /// Blanks, and comments as people write them into JSON that they show.
    fn skip_blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with("//") && !self.rest.starts_with("# ") {
                return;
            }
            self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
        }
    }

    fn skip(&mut self) -> Option<char> {
        loop {
            self.skip_blanks();
            match self.rest.strip_prefix(',').or_else(|| self.rest.strip_prefix("...")).or_else(|| self.rest.strip_prefix('…'))
            {
                Some(rest) => self.rest = rest,
                None => return self.rest.chars().next(),
            }
        }
    }

    fn list(&mut self) -> Node {
        self.rest = &self.rest[1..];
        self.depth += 1;
        let mut items = Vec::new();
        while let Some(next) = self.skip() {
            if matches!(next, ']' | '}') {
                self.rest = &self.rest[1..];
                break;
            }
            items.push(self.value(false));
        }
        self.depth -= 1;
        Node::List(items)
    }

    fn map(&mut self) -> Node {
        self.rest = &self.rest[1..];
        self.entries()
    }

    fn entries(&mut self) -> Node {
        self.depth += 1;
        let mut entries = Vec::new();
        while let Some(next) = self.skip() {
            if matches!(next, ']' | '}') {
                self.rest = &self.rest[1..];
                break;
            }
            let start = self.here();
            let key = match next {
                '"' | '\'' => self.quoted(next),
                _ => {
                    let end = self.rest.find([':', '=', ',', '}', ']', '\n']).unwrap_or(self.rest.len());
                    let key = self.rest[..end].trim().to_owned();
                    self.rest = &self.rest[end..];
                    key
                }
            };
            self.rest = self.rest.trim_start();
            let has_value = self.rest.starts_with([':', '=']);
            if has_value {
                self.rest = &self.rest[1..];
            } else if key.is_empty() {
                // No key, and nothing that a map goes on with.
                self.rest = self.rest.strip_prefix(|_: char| true).unwrap_or_default();
                continue;
            }
            let value = if has_value { self.value(false) } else { Tree::default() };
            entries.push((key, value.standing_at(start)));
        }
        self.depth -= 1;
        Node::Map(entries)
    }

    fn quoted(&mut self, quote: char) -> String {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\\' && quote == '"' {
                escaped(&mut chars, &mut text);
            } else if c == quote {
                // A single quote in single quotes is written twice.
                if quote == '\'' && chars.next_if(|(_, next)| *next == quote).is_some() {
                    text.push(quote);
                    continue;
                }
                self.rest = &self.rest[at + 1..];
                return text;
            } else {
                text.push(c);
            }
        }
        self.rest = "";
        text
    }
}

/// What stands behind a backslash in double quotes.
fn escaped(chars: &mut std::iter::Peekable<impl Iterator<Item = (usize, char)>>, text: &mut String) {
    let Some((_, c)) = chars.next() else { return };
    let digits = match c {
        'n' => return text.push('\n'),
        't' => return text.push('\t'),
        'r' => return text.push('\r'),
        '0' => return text.push('\0'),
        'b' => return text.push('\u{8}'),
        'f' => return text.push('\u{c}'),
        'e' => return text.push('\u{1b}'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        c => return text.push(c),
    };
    let mut number = |digits: usize| {
        let mut number = 0;
        for _ in 0..digits {
            let Some((_, digit)) = chars.next_if(|(_, c)| c.is_ascii_hexdigit()) else { return number };
            number = number << 4 | digit.to_digit(16).unwrap_or_default();
        }
        number
    };
    let first = number(digits);
    // Characters beyond the first 65,536 are two codes of four digits in JSON.
    let is_half = (0xd800..0xdc00).contains(&first);
    let whole = if is_half && chars.next_if(|(_, c)| *c == '\\').is_some() {
        chars.next();
        let second = (0..4).filter_map(|_| chars.next_if(|(_, c)| c.is_ascii_hexdigit()));
        let second = second.fold(0, |number, (_, digit)| number << 4 | digit.to_digit(16).unwrap_or_default());
        0x1_0000 + ((first - 0xd800) << 10) + (second & 0x3ff)
    } else {
        first
    };
    text.push(char::from_u32(whole).unwrap_or(char::REPLACEMENT_CHARACTER));
}

/// Whether the quote that a text begins with has its end in it.
pub fn is_closed_quote(text: &str) -> bool {
    let Some(quote) = text.chars().next() else { return false };
    let mut chars = text.chars().skip(1).peekable();
    while let Some(c) = chars.next() {
        if c == '\\' && quote == '"' {
            chars.next();
        } else if c == quote && (quote == '"' || chars.next_if_eq(&quote).is_none()) {
            return true;
        }
    }
    false
}

/// Whether all brackets outside of quotes are closed.
pub fn is_closed(text: &str) -> bool {
    let mut depth = 0_i64;
    let mut quote = None;
    let mut before = ' ';
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open && before != '\\' => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if !before.is_alphanumeric() => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, _) => {}
        }
        before = c;
    }
    depth <= 0
}

#[cfg(test)]
mod tests {
    use super::{in_lines, of_json};

    #[test]
    fn one_line_is_many() {
        let text = "{\"a\":[],\"b\":{\"c\":[1, \"d, {\\\"\"]}}";
        let lines = in_lines(text);
        assert_eq!(lines, "{\n\t\"a\": [],\n\t\"b\": {\n\t\t\"c\": [\n\t\t\t1,\n\t\t\t\"d, {\\\"\"\n\t\t]\n\t}\n}\n");
        assert_eq!(of_json(&lines), of_json(text));
    }
}
