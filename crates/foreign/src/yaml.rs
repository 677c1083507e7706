//! As much of YAML as configurations of proxies are written in: block and flow maps and lists, quoted and plain texts,
//! texts over several lines, several documents, and what is written once and meant in several places: aliases and
//! merged maps. Tags and templates are passed over. What is not understood is nothing, and never an error: it is only
//! looked at.

use super::tree::{self, Tree};
use std::collections::HashMap;

/// A flow map that goes over more lines is none.
const FLOW_LINES_MAX: usize = 400;
const DOCUMENTS_MAX: usize = 200;
/// All that aliases of a document stand for comes to so many values at most.
const ALIASED_MAX: usize = 50_000;
/// The key of what is merged into a map.
const MERGED: &str = "<<";

/// The documents of a file.
pub fn read(whole: &str) -> Vec<Tree> {
    let mut documents = Vec::new();
    let mut lines: Vec<(usize, &str)> = Vec::new();
    for line in whole.lines() {
        let trimmed = line.trim_start_matches(' ');
        if line.starts_with("---") || line.starts_with("...") {
            documents.push(std::mem::take(&mut lines));
            continue;
        }
        lines.push((line.len() - trimmed.len(), trimmed.trim_end()));
    }
    documents.push(lines);
    let read =
        |lines: Vec<(usize, &str)>| YamlReader { whole, lines, at: 0, depth: 0, anchors: HashMap::new(), aliased: 0 }.block(0);
    documents.into_iter().take(DOCUMENTS_MAX).map(read).filter(|tree| !tree.is_nothing()).collect()
}

struct YamlReader<'t> {
    whole: &'t str,
    /// By how much each is indented, and what stands there.
    lines: Vec<(usize, &'t str)>,
    at: usize,
    depth: usize,
    /// What is meant by the names of anchors.
    anchors: HashMap<String, Tree>,
    /// How many values aliases have stood for.
    aliased: usize,
}

impl<'t> YamlReader<'t> {
    /// Where a part of the file begins in it.
    fn start_of(&self, part: &str) -> usize {
        part.as_ptr() as usize - self.whole.as_ptr() as usize
    }

    /// The next line that says something.
    fn peek(&mut self) -> Option<(usize, &'t str)> {
        while let Some((indent, text)) = self.lines.get(self.at) {
            if text.is_empty() || text.starts_with('#') {
                self.at += 1;
                continue;
            }
            return Some((*indent, text));
        }
        None
    }

    /// What begins with the next line, when that is indented enough.
    fn block(&mut self, indent_min: usize) -> Tree {
        let Some((indent, text)) = self.peek() else { return Tree::default() };
        if indent < indent_min {
            return Tree::default();
        }
        if self.depth >= tree::DEPTH_MAX {
            self.at += 1;
            return Tree::default();
        }
        self.depth += 1;
        let tree = if is_item(text) {
            self.list(indent)
        } else if key_of(text).is_some() {
            self.map(indent)
        } else {
            self.at += 1;
            self.value(text)
        };
        self.depth -= 1;
        tree
    }

    fn list(&mut self, indent: usize) -> Tree {
        let mut items = Vec::new();
        while let Some((own, text)) = self.peek() {
            if own < indent || (own == indent && !is_item(text)) {
                break;
            }
            if own > indent {
                self.at += 1;
                continue;
            }
            let (anchor, rest) = marks(text[1..].trim_start());
            let start = self.start_of(text);
            let item = if rest.is_empty() || rest.starts_with('#') {
                self.at += 1;
                self.block(indent + 1)
            } else {
                // The item is a block of its own, which begins on the line of its dash.
                let inner = indent + (text.len() - rest.len());
                self.lines[self.at] = (inner, rest);
                self.block(inner)
            };
            self.anchor(anchor, &item);
            items.push(item.standing_at(start));
        }
        Tree::of_items(items)
    }

    fn map(&mut self, indent: usize) -> Tree {
        let mut entries = Vec::new();
        let mut merged = Vec::new();
        while let Some((own, text)) = self.peek() {
            if own < indent || (own == indent && is_item(text)) {
                break;
            }
            self.at += 1;
            let start = self.start_of(text);
            let Some((key, rest)) = key_of(text).filter(|_| own == indent) else { continue };
            let (anchor, rest) = marks(rest);
            let value = if rest.starts_with(['|', '>']) {
                self.text_block(indent)
            } else if rest.is_empty() || rest.starts_with('#') {
                match self.peek() {
                    Some((next, line)) if next > indent || (next == indent && is_item(line)) => self.block(indent),
                    _ => Tree::default(),
                }
            } else {
                self.value(rest)
            };
            self.anchor(anchor, &value);
            if key == MERGED { merged.push(value) } else { entries.push((key, value.standing_at(start))) }
        }
        tree::merge_into(&mut entries, merged);
        Tree::of_entries(entries)
    }

    /// A value that begins with this text; brackets may close some lines further on.
    fn value(&mut self, text: &str) -> Tree {
        let (_, text) = marks(text);
        if let Some(name) = text.strip_prefix('*') {
            return self.alias(without_comment(name).trim()).unwrap_or_default();
        }
        let start = self.start_of(text);
        let mut end = start + without_comment(text).len();
        let mut whole = without_comment(text).to_owned();
        if whole.starts_with(['[', '{']) {
            let mut count = 0;
            while !tree::is_closed(&whole) && count < FLOW_LINES_MAX {
                let Some((_, more)) = self.peek() else { break };
                end = self.start_of(more) + without_comment(more).len();
                self.at += 1;
                count += 1;
                whole.push(' ');
                whole.push_str(without_comment(more));
            }
        }
        let flow = tree::of_flow(&self.whole[start..end], start);
        if flow.is_list() || flow.is_map() {
            return flow.resolved(MERGED, &mut |text| text.strip_prefix('*').and_then(|name| self.alias(name)));
        }
        flow
    }

    /// Keeps what the name stands for.
    fn anchor(&mut self, name: Option<&str>, value: &Tree) {
        if let Some(name) = name {
            self.anchors.insert(name.to_owned(), value.clone());
        }
    }

    /// What the name stands for, within the bound of all of them together.
    fn alias(&mut self, name: &str) -> Option<Tree> {
        let found = self.anchors.get(name)?;
        let (count, depth) = found.extent();
        if self.aliased + count > ALIASED_MAX || depth > tree::DEPTH_MAX {
            return Some(Tree::default());
        }
        self.aliased += count;
        Some(found.clone())
    }

    /// The lines behind a `|` or `>`, as they are.
    fn text_block(&mut self, indent: usize) -> Tree {
        let mut text = String::new();
        let mut first: Option<usize> = None;
        while let Some((own, line)) = self.lines.get(self.at).copied() {
            if !line.is_empty() && own <= indent {
                break;
            }
            let first = *first.get_or_insert(own);
            text.push_str(&" ".repeat(own.saturating_sub(first)));
            text.push_str(line);
            text.push('\n');
            self.at += 1;
        }
        Tree::of_text(text)
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// `name: value`, `"name": value`
fn key_of(text: &str) -> Option<(String, &str)> {
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t']);
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let (key, rest) = text[1..].split_once(quote)?;
        return rest.trim_start().strip_prefix(':').filter(|rest| is_end(rest)).map(|rest| (key.to_owned(), rest.trim()));
    }
    if text.starts_with(['[', '{', '#']) {
        return None;
    }
    let (end, _) = text.match_indices(':').find(|(at, _)| is_end(&text[at + 1..]))?;
    Some((text[..end].trim().to_owned(), text[end + 1..].trim()))
}

/// The name of an anchor in front of the text, and the text without it and without tags.
fn marks(mut text: &str) -> (Option<&str>, &str) {
    let mut anchor = None;
    while text.starts_with(['&', '!']) {
        let (mark, rest) = text.split_once(' ').map_or((text, ""), |(mark, rest)| (mark, rest.trim_start()));
        anchor = mark.strip_prefix('&').or(anchor);
        text = rest;
    }
    (anchor, text)
}

/// The text without a comment behind it.
fn without_comment(text: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') if !before.is_alphanumeric() => quote = Some(c),
            (None, '#') if before.is_whitespace() => return text[..at].trim_end(),
            (Some(_) | None, _) => {}
        }
        before = c;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_files_are_written_in_is_understood() {
        let check = |text: &str, path: &[&str], expected: &str| {
            let seen = read(text).first().expect("a document").at(path).shown();
            assert_eq!(seen, expected, "{text}");
        };
        check("a:\n  b: c # d\n", &["a", "b"], "c");
        check("a:\n- b: 1\n  c: 2\n- d\n", &["a"], "[{b: 1, c: 2}, d]");
        check("a: { b: [c, \"d\"],\n  e: 'f' }\ng: h\n", &["a", "b"], "[c, d]");
        check("a: { b: [c, # one\n \"d\"],\n  e: 'f' }\ng: h\n", &["a"], "{b: [c, d], e: f}");
        check("a: &x\n  b: |\n    one\n      two\n\n    three\nc: 1\n", &["a", "b"], "one\n  two\n\nthree\n");
        check("# c\n---\n\"@type\": x\nrule: Host(`a`) && Path(`/b: c`)\n", &["rule"], "Host(`a`) && Path(`/b: c`)");
        check("a:\n  - - b\n    - c\n", &["a"], "[[b, c]]");
        check("a: &x [b, c]\nd: *x\ne: &y\n  f: g\nh: *y # i\n", &["d"], "[b, c]");
        check("e: &y\n  f: g\nh: *y # i\n", &["h"], "{f: g}");
        check("e: &y\n  f: g\n  j: k\nh:\n  f: own\n  <<: *y\n", &["h"], "{f: own, j: k}");
        check(
            "- &y\n  f: g\n- &z h: i\n- <<: [*y, *z]\n  j: {<<: *y, k: *z}\n",
            &[],
            "[{f: g}, {h: i}, {j: {k: {h: i}, f: g}, f: g, h: i}]",
        );
        check("a: *nobody\nb: \"*c\"\n", &[], "{a: -, b: *c}");
        check("staticResources:\n  x: ~\n", &["static_resources"], "{x: -}");
    }

    #[test]
    fn statements_stand_where_their_keys_do() {
        let text = "a:\n  b: c # d\n  e: [f, g]\nh:\n  - i: { j: k,\n      l: m }\n  - n\n";
        let mut seen = Vec::new();
        read(text)[0].each_statement(&mut Vec::new(), &|_| None, &mut |at, path, _| seen.push((path.join("."), &text[at..=at])));
        let expected = [("a.b", "b"), ("a.e", "e"), ("h.i.j", "j"), ("h.i.l", "l"), ("h", "-")];
        assert_eq!(seen, expected.map(|(path, first)| (path.to_owned(), first)));
    }

    #[test]
    fn deep_and_broken_files_end() {
        read(&"- ".repeat(100_000));
        read(&"{a: ".repeat(100_000));
        read(&format!("a: {}", "[".repeat(100_000)));
        read("a\n  b:\n c\n- d\n\t- e: [\n");
        let laughs: Vec<String> = (1..30).map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{}, ", n - 1).repeat(9))).collect();
        read(&format!("a0: &a0 [b, c]\n{}", laughs.concat()));
    }
}
