//! As much of YAML as configurations of proxies are written in: block and flow maps and lists, quoted and plain texts,
//! texts over several lines, several documents, and what is written once and meant in several places: aliases and
//! merged maps. Tags are passed over, and so are lines that are templates. What is not understood is nothing when a
//! text is only looked at; `fault` tells of it, since whoever goes by the text would go by another one.

use super::tree::{self, Tree};
use std::collections::HashMap;

/// A flow map that goes over more lines is none.
const FLOW_LINES_MAX: usize = 400;
const DOCUMENTS_MAX: usize = 4_000;
/// All that aliases of a document stand for comes to so many values at most.
const ALIASED_MAX: usize = 50_000;
/// The key of what is merged into a map.
const MERGED: &str = "<<";

/// The documents of a file.
pub fn read(whole: &str) -> Vec<Tree> {
    let documents = documents(whole).into_iter().take(DOCUMENTS_MAX);
    documents.map(|lines| YamlReader::of(whole, lines).block(0)).filter(|tree| !tree.is_nothing()).collect()
}

/// The first line that is not understood, and where it is; a bound that was reached, or a name that stands twice.
pub fn fault(whole: &str) -> Option<(usize, String)> {
    let documents = documents(whole);
    if documents.len() > DOCUMENTS_MAX {
        return Some((0, format!("it has more than {DOCUMENTS_MAX} documents")));
    }
    documents.into_iter().find_map(|lines| {
        let mut reader = YamlReader::of(whole, lines);
        let tree = reader.block(0);
        if let Some((_, text)) = reader.peek() {
            reader.unread(text);
        }
        reader.fault.or_else(|| tree.twice().map(|(at, name)| (at, format!("`{name}` stands twice in one block"))))
    })
}

/// The lines of each document of a file, and by how much they are indented.
fn documents(whole: &str) -> Vec<Vec<(usize, &str)>> {
    let mut documents = Vec::new();
    let mut lines: Vec<(usize, &str)> = Vec::new();
    for line in whole.lines() {
        let trimmed = line.trim_start_matches(' ');
        if line.starts_with("---") || line.starts_with("...") {
            documents.push(std::mem::take(&mut lines));
            continue;
        }
        // What version of YAML it is.
        if lines.is_empty() && line.starts_with('%') {
            continue;
        }
        lines.push((line.len() - trimmed.len(), trimmed.trim_end()));
    }
    documents.push(lines);
    documents
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
    /// What was not understood first.
    fault: Option<(usize, String)>,
}

impl<'t> YamlReader<'t> {
    fn of(whole: &'t str, lines: Vec<(usize, &'t str)>) -> YamlReader<'t> {
        YamlReader { whole, lines, at: 0, depth: 0, anchors: HashMap::new(), aliased: 0, fault: None }
    }

    fn found(&mut self, at: usize, why: &str) {
        self.fault.get_or_insert_with(|| (at, why.to_owned()));
    }

    /// A line that nothing is made of.
    fn unread(&mut self, line: &str) {
        self.found(self.start_of(line), "this line belongs to nothing above it: is it indented too far, or not far enough");
    }

    /// Where a part of the file begins in it.
    fn start_of(&self, part: &str) -> usize {
        part.as_ptr() as usize - self.whole.as_ptr() as usize
    }

    /// The next line that says something.
    fn peek(&mut self) -> Option<(usize, &'t str)> {
        while let Some((indent, text)) = self.lines.get(self.at) {
            // Templates are for their proxy.
            if text.is_empty() || text.starts_with('#') || text.starts_with("{{") {
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
            self.found(self.start_of(text), "blocks go too deep");
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
            if is_head_of_block(text) {
                self.text_block(indent_min.saturating_sub(1), text)
            } else {
                self.value(text, indent_min)
            }
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
                self.unread(text);
                self.at += 1;
                continue;
            }
            let (anchor, rest) = marks(text[1..].trim_start());
            let start = self.start_of(text);
            let item = if rest.is_empty() || rest.starts_with('#') {
                self.at += 1;
                self.block(indent + 1)
            } else {
                // The item is a block of its own, which begins on the line of its dash. A text goes on below it where
                // it is indented further than the dash.
                let inner = indent + (text.len() - rest.len());
                self.lines[self.at] = (inner, rest);
                let is_text = !is_item(rest) && key_of(rest).is_none();
                self.block(if is_text { indent + 1 } else { inner })
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
            let Some((key, rest)) = key_of(text).filter(|_| own == indent) else {
                self.unread(text);
                continue;
            };
            let (anchor, rest) = marks(rest);
            let value = if rest.starts_with(['|', '>']) {
                self.text_block(indent, rest)
            } else if rest.is_empty() || rest.starts_with('#') {
                match self.peek() {
                    Some((next, line)) if next > indent || (next == indent && is_item(line)) => self.block(indent),
                    _ => Tree::default(),
                }
            } else {
                self.value(rest, indent + 1)
            };
            self.anchor(anchor, &value);
            if key == MERGED { merged.push(value) } else { entries.push((key, value.standing_at(start))) }
        }
        tree::merge_into(&mut entries, merged);
        Tree::of_entries(entries)
    }

    /// A value that begins with this text; brackets may close some lines further on, and texts go on in lines that are
    /// indented so far.
    fn value(&mut self, text: &'t str, indent_min: usize) -> Tree {
        let (_, text) = marks(text);
        if let Some(name) = text.strip_prefix('*') {
            return self.alias(without_comment(name).trim()).unwrap_or_default();
        }
        if !text.starts_with(['[', '{']) || text.starts_with("{{") {
            return self.text(text, indent_min);
        }
        let start = self.start_of(text);
        let mut end = start + without_comment(text).len();
        let mut whole = without_comment(text).to_owned();
        let mut count = 0;
        while !tree::is_closed(&whole) {
            let Some((_, more)) = self.peek().filter(|_| count < FLOW_LINES_MAX) else {
                self.found(start, "nothing closes this bracket for too many lines");
                break;
            };
            end = self.start_of(more) + without_comment(more).len();
            self.at += 1;
            count += 1;
            whole.push(' ');
            whole.push_str(without_comment(more));
        }
        let flow = tree::of_flow(&self.whole[start..end], start);
        if flow.is_list() || flow.is_map() {
            return flow.resolved(MERGED, &mut |text| text.strip_prefix('*').and_then(|name| self.alias(name)));
        }
        flow
    }

    /// A text, in quotes or without, with the lines that it goes on in: a new line is a blank there, and an empty one
    /// a new line.
    fn text(&mut self, first: &'t str, indent_min: usize) -> Tree {
        let start = self.start_of(first);
        let is_quoted = first.starts_with(['"', '\'']);
        let mut whole =
            if is_quoted && !tree::is_closed_quote(first) { first.to_owned() } else { without_comment(first).to_owned() };
        let mut blank = ' ';
        while let Some((own, more)) = self.lines.get(self.at).copied() {
            let is_open = is_quoted && !tree::is_closed_quote(&whole);
            if !is_quoted && own >= indent_min && key_of(more).is_some() {
                self.unread(more);
                break;
            }
            if is_open
                || (!is_quoted && (more.is_empty() || own >= indent_min) && !more.starts_with('#') && !more.starts_with("{{"))
            {
                self.at += 1;
            } else {
                break;
            }
            if more.is_empty() {
                blank = '\n';
                continue;
            }
            whole.push(blank);
            blank = ' ';
            whole.push_str(if is_quoted { more } else { without_comment(more) });
        }
        let is_cut = is_quoted && !tree::is_closed_quote(&whole);
        if is_cut {
            self.found(start, "this quote has no end");
        }
        tree::of_flow(without_comment(&whole), start)
    }

    /// Keeps what the name stands for.
    fn anchor(&mut self, name: Option<&str>, value: &Tree) {
        if let Some(name) = name {
            self.anchors.insert(name.to_owned(), value.clone());
        }
    }

    /// What the name stands for, within the bound of all of them together.
    fn alias(&mut self, name: &str) -> Option<Tree> {
        let found = self.anchors.get(name)?.clone();
        let (count, depth) = found.extent();
        if self.aliased + count > ALIASED_MAX || depth > tree::DEPTH_MAX {
            self.found(0, "its aliases stand for too much");
            return Some(Tree::default());
        }
        self.aliased += count;
        Some(found)
    }

    /// The lines behind a `|`, as they are, or behind a `>`, where a new line is a blank.
    fn text_block(&mut self, indent: usize, head: &str) -> Tree {
        let is_folded = head.starts_with('>');
        let mut text = String::new();
        let mut first: Option<usize> = None;
        while let Some((own, line)) = self.lines.get(self.at).copied() {
            if !line.is_empty() && own <= indent {
                break;
            }
            let is_blank = line.is_empty();
            let first = if is_blank { first.unwrap_or_default() } else { *first.get_or_insert(own) };
            if is_folded && is_blank {
                text.push('\n');
            } else if is_folded && text.ends_with(|c| c != '\n') {
                text.push(if own > first { '\n' } else { ' ' });
            }
            text.push_str(&" ".repeat(if is_blank { 0 } else { own.saturating_sub(first) }));
            text.push_str(line);
            if !is_folded {
                text.push('\n');
            }
            self.at += 1;
        }
        text.truncate(text.trim_end_matches('\n').len());
        // Without a sign one new line ends it; `-` has none.
        if !without_comment(head).contains('-') {
            text.push('\n');
        }
        Tree::of_text(text)
    }
}

/// `|`, `>-`, `|2+`
fn is_head_of_block(text: &str) -> bool {
    let head = without_comment(text);
    head.starts_with(['|', '>']) && head.len() <= 3 && head[1..].chars().all(|c| matches!(c, '+' | '-' | '0'..='9'))
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
        let (mark, rest) = text.split_once(' ').map_or((text, &text[text.len()..]), |(mark, rest)| (mark, rest.trim_start()));
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
    use super::{fault, read};

    #[test]
    fn what_files_are_written_in_is_understood() {
        let check = |text: &str, path: &[&str], expected: &str| {
            let seen = read(text).first().expect("a document").at(path).shown();
            assert_eq!(seen, expected, "{text}");
        };
        check("a:\n  b: c # d\n", &["a", "b"], "c");
        check("a:\n  b: !x\n  c: &d\n", &["a"], "{b: -, c: -}");
        check("a:\n- b: 1\n  c: 2\n- d\n", &["a"], "[{b: 1, c: 2}, d]");
        check("a: { b: [c, \"d\"],\n  e: 'f' }\ng: h\n", &["a", "b"], "[c, d]");
        check("a: { b: [c, # one\n \"d\"],\n  e: 'f' }\ng: h\n", &["a"], "{b: [c, d], e: f}");
        check("a: &x\n  b: |\n    one\n      two\n\n    three\nc: 1\n", &["a", "b"], "one\n  two\n\nthree\n");
        check("# c\n---\n\"@type\": x\nrule: Host(`a`) && Path(`/b: c`)\n", &["rule"], "Host(`a`) && Path(`/b: c`)");
        check("a:\n  - - b\n    - c\n", &["a"], "[[b, c]]");
        check("a: b\n  c # d\n\n  e\nf: g\n", &["a"], "b c\ne");
        check("a:\n  - b ||\n    c\n  - d\n", &["a"], "[b || c, d]");
        check("a: \"b\n  c: # d\"  # e\nf: g\n", &["a"], "b c: # d");
        check("a: 'it''s: # so' # b\nf: g\n", &["a"], "it's: # so");
        check("a: \"\\u002fb\\x41\\/\\ud83d\\ude00\"\n", &["a"], "/bA/😀");
        check("a: >-\n  b\n  c\n\n  d\nf: g\n", &["a"], "b c\nd");
        check("a: |-\n  b\n  c\n\nf: g\n", &["a"], "b\nc");
        check("%YAML 1.2\n---\na:\n  - |\n    b: c\n    d\n  - e\n", &["a"], "[b: c\nd\n, e]");
        check("a:\n{{ range }}\n  b: c\n{{ end }}\n", &["a", "b"], "c");
        check("{{ if x }}\na:\n  {{ range }}\n  b: c\n  {{ end }}\n", &["a", "b"], "c");
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
    fn what_nothing_is_made_of_is_told() {
        let check = |text: &str, expected: &str| {
            let (at, why) = fault(text).unwrap_or_else(|| panic!("nothing is told of {text}"));
            assert!(why.contains(expected) && at <= text.len(), "{text}: {why}");
        };
        check("a:\n  b: c\n    d: e\n", "belongs to nothing");
        check("a:\n    b: c\n  d: e\n", "belongs to nothing");
        check("a:\n  - b\n  c: d\n", "belongs to nothing");
        check("a: 1\nb\n", "belongs to nothing");
        check("a: 1\nb: 2\na: 3\n", "`a` stands twice");
        check("a:\n- { b: 1, b: 2 }\n", "`b` stands twice");
        check(&format!("a: {{ b: [\n{}] }}\n", "c,\n".repeat(500)), "too many lines");
        check(&(0..60).map(|depth| " ".repeat(depth) + "a:\n").collect::<String>(), "too deep");
        check(&format!("a: &x [{}]\nb: [{}]\n", "c, ".repeat(1000), "*x, ".repeat(100)), "aliases");
        check(&"---\na: 1\n".repeat(4_100), "documents");
        for text in ["a:\n- b\n- c: d\n  e: f\n", "a: b\n c\n", "{{ x }}\na: {{ y }}\n", "a:\n  - - b\n    - c\n"] {
            assert_eq!(fault(text), None, "{text}");
        }
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
