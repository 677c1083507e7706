//! Maps, lists and texts, whatever they were written in: JSON here, YAML in `yaml`, TOML in `toml`, and the dots of
//! labels. No value of it is ever taken for a setting; it is looked at to tell what a file is about.

use crate::language::joined_alike;

/// Deeper ones are not looked at.
pub const DEPTH_MAX: usize = 48;

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Tree {
    #[default]
    Nothing,
    /// Numbers and switches too.
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

static NOTHING: Tree = Tree::Nothing;

impl Tree {
    /// What is behind a name, whichever way its words are joined.
    pub fn get(&self, name: &str) -> &Tree {
        let alike = joined_alike(name);
        self.entries().iter().find(|(key, _)| *key == name || joined_alike(key) == alike).map_or(&NOTHING, |(_, value)| value)
    }

    /// What is behind names, one in the other.
    pub fn at(&self, path: &[&str]) -> &Tree {
        path.iter().fold(self, |tree, name| tree.get(name))
    }

    pub fn entries(&self) -> &[(String, Tree)] {
        match self {
            Tree::Map(entries) => entries,
            Tree::Nothing | Tree::Text(_) | Tree::List(_) => &[],
        }
    }

    /// The items of a list; one thing that stands alone is a list of one.
    pub fn items(&self) -> &[Tree] {
        match self {
            Tree::List(items) => items,
            Tree::Nothing => &[],
            Tree::Text(_) | Tree::Map(_) => std::slice::from_ref(self),
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Tree::Text(text) => Some(text),
            Tree::Nothing | Tree::List(_) | Tree::Map(_) => None,
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

    pub fn is_nothing(&self) -> bool {
        *self == Tree::Nothing
    }

    /// Whether a name stands anywhere in it.
    pub fn has_within(&self, name: &str) -> bool {
        match self {
            Tree::Nothing | Tree::Text(_) => false,
            Tree::List(items) => items.iter().any(|item| item.has_within(name)),
            Tree::Map(entries) => {
                entries.iter().any(|(key, value)| joined_alike(key) == joined_alike(name) || value.has_within(name))
            }
        }
    }

    /// The place behind names, which is made where it is not there. In a list it is in the last item.
    pub fn place(&mut self, path: &[String]) -> &mut Tree {
        let Some((name, rest)) = path.split_first() else { return self };
        if let Tree::List(items) = self {
            if items.is_empty() {
                items.push(Tree::Nothing);
            }
            let last = items.len() - 1;
            return items[last].place(path);
        }
        if !matches!(self, Tree::Map(_)) {
            *self = Tree::Map(Vec::new());
        }
        let Tree::Map(entries) = self else { unreachable!("it was made a map") };
        let alike = joined_alike(name);
        let position = entries.iter().position(|(key, _)| joined_alike(key) == alike).unwrap_or_else(|| {
            entries.push((name.clone(), Tree::Nothing));
            entries.len() - 1
        });
        entries[position].1.place(rest)
    }
}

/// JSON; `Nothing` when it is none.
pub fn of_json(text: &str) -> Tree {
    serde_json::from_str(text).map_or(Tree::Nothing, of_value)
}

fn of_value(value: serde_json::Value) -> Tree {
    match value {
        serde_json::Value::Null => Tree::Nothing,
        serde_json::Value::Bool(switch) => Tree::Text(switch.to_string()),
        serde_json::Value::Number(number) => Tree::Text(number.to_string()),
        serde_json::Value::String(text) => Tree::Text(text),
        serde_json::Value::Array(items) => Tree::List(items.into_iter().map(of_value).collect()),
        serde_json::Value::Object(entries) => Tree::Map(entries.into_iter().map(|(key, value)| (key, of_value(value))).collect()),
    }
}

/// A value on one line, or on several that were put together: texts, `[a, b]`, `{ a: b }`, `{ a = b }`.
pub fn of_flow(text: &str) -> Tree {
    let mut reader = FlowReader { rest: text, depth: 0 };
    reader.value(true)
}

struct FlowReader<'t> {
    rest: &'t str,
    depth: usize,
}

impl FlowReader<'_> {
    fn value(&mut self, is_whole: bool) -> Tree {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            None => Tree::Nothing,
            Some('[' | '{') if self.depth >= DEPTH_MAX => {
                self.rest = "";
                Tree::Nothing
            }
            Some('[') => self.list(),
            Some('{') => self.map(),
            Some(quote @ ('"' | '\'')) => Tree::Text(self.quoted(quote)),
            Some(_) => {
                let end =
                    if is_whole { self.rest.len() } else { self.rest.find([',', ']', '}', '\n']).unwrap_or(self.rest.len()) };
                let word = self.rest[..end].trim();
                self.rest = &self.rest[end..];
                if word.is_empty() || matches!(word, "null" | "~") { Tree::Nothing } else { Tree::Text(word.to_owned()) }
            }
        }
    }

    fn skip(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        self.rest.chars().next()
    }

    fn list(&mut self) -> Tree {
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
        Tree::List(items)
    }

    fn map(&mut self) -> Tree {
        self.rest = &self.rest[1..];
        self.depth += 1;
        let mut entries = Vec::new();
        while let Some(next) = self.skip() {
            if matches!(next, ']' | '}') {
                self.rest = &self.rest[1..];
                break;
            }
            let key = match next {
                '"' | '\'' => self.quoted(next),
                _ => {
                    let end = self.rest.find([':', '=', ',', '}', ']']).unwrap_or(self.rest.len());
                    let key = self.rest[..end].trim().to_owned();
                    self.rest = &self.rest[end..];
                    key
                }
            };
            self.rest = self.rest.trim_start();
            let has_value = self.rest.starts_with([':', '=']);
            if has_value {
                self.rest = &self.rest[1..];
            }
            entries.push((key, if has_value { self.value(false) } else { Tree::Nothing }));
        }
        self.depth -= 1;
        Tree::Map(entries)
    }

    fn quoted(&mut self, quote: char) -> String {
        let mut text = String::new();
        let mut is_escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if is_escaped => {
                    text.push(c);
                    is_escaped = false;
                }
                '\\' if quote == '"' => is_escaped = true,
                _ if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return text;
                }
                _ => text.push(c),
            }
        }
        self.rest = "";
        text
    }
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
