//! What can be wrong with a configuration, as data: a code, a message, places in the text, a way out. And how it is
//! shown. Nothing here knows what the directives mean; whoever finds a fault builds one of these and goes on.

use crate::masking::{
    may_be_secret, passwords_in_urls, unknown_values, within_quotes, written_secret_arguments, written_secrets,
};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_kdl::listed;
pub use tidegate_kdl::{FileId, Location};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// The configuration is taken, and probably does not do what was meant.
    Warning,
    /// Nothing is wrong; somebody who reads the text alone might not expect it.
    Note,
}

/// The texts that were read, for rendering and for turning offsets into lines.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
    /// Names of properties whose values are not shown.
    secrets: Vec<&'static str>,
    /// Names of directives of which only the first argument is shown.
    secret_arguments: Vec<&'static str>,
    /// Names of all properties. What stands behind another one may be a secret under a misspelt name.
    properties: BTreeSet<&'static str>,
    /// Whether a text is a word of this language or of another proxy.
    is_word: Option<fn(&str) -> bool>,
}

#[derive(Debug, Clone, Default)]
pub struct SourceFile {
    /// As it is shown in messages.
    pub name: String,
    /// Shared with the history of the process, and with what edits begin with.
    pub text: Arc<str>,
    /// What relative paths in this file are relative to.
    pub directory: PathBuf,
}

impl Sources {
    /// What is written behind these names is blanked where texts are shown.
    pub(crate) fn hide(
        &mut self,
        properties: impl Iterator<Item = &'static str>,
        directives: impl Iterator<Item = &'static str>,
        known: impl Iterator<Item = &'static str>,
        is_word: fn(&str) -> bool,
    ) {
        self.is_word = Some(is_word);
        self.properties = known.collect();
        self.secrets = properties.collect();
        self.secret_arguments = directives.collect();
    }

    pub fn add(&mut self, file: SourceFile) -> FileId {
        self.files.push(file);
        FileId(self.files.len() - 1)
    }

    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0]
    }

    pub(crate) fn file_mut(&mut self, id: FileId) -> &mut SourceFile {
        &mut self.files[id.0]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.files.len()).map(FileId)
    }

    /// The main file.
    pub fn first(&self) -> Option<FileId> {
        (!self.files.is_empty()).then_some(FileId(0))
    }

    /// The main file first, then the others as they were read.
    pub fn iter(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The same texts with `*` for every byte of a secret that is written out, and of `hidden`, so that all places stay
    /// where they are. `None`: there is none.
    fn without_secrets(&self, hidden: &[&Location]) -> Option<Sources> {
        let mut copy: Option<Sources> = None;
        for (index, file) in self.files.iter().enumerate() {
            let mut shown = String::new();
            let arguments = written_secret_arguments(&file.text, &self.secret_arguments);
            let of_urls = passwords_in_urls(&file.text);
            let of_unknown = if self.properties.is_empty() { Vec::new() } else { unknown_values(&file.text, &self.properties) };
            let hidden = hidden.iter().filter(|at| at.file.0 == index).map(|at| within_quotes(&file.text, at.span.clone()));
            let spans = written_secrets(&file.text, &self.secrets).into_iter().chain(arguments).chain(of_urls);
            let unknown = of_unknown.into_iter().chain(hidden).filter(|span| may_be_secret(&file.text, span, self.is_word));
            for span in spans.chain(unknown) {
                if shown.is_empty() {
                    shown.push_str(&file.text);
                }
                shown.replace_range(span.clone(), &"*".repeat(span.len()));
            }
            if !shown.is_empty() {
                copy.get_or_insert_with(|| self.clone()).files[index].text = shown.into();
            }
        }
        copy
    }

    /// Line and column of a byte offset, both from 1. A column is a character, so a tab and an umlaut are one each.
    pub fn position(&self, location: &Location) -> (usize, usize) {
        let text = &self.file(location.file).text;
        let mut offset = location.span.start.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |position| position + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub location: Location,
    /// May be empty: the message says it all.
    pub text: Cow<'static, str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Kebab case, stable over releases, to search for and to test against.
    pub code: &'static str,
    pub message: Cow<'static, str>,
    pub primary: Label,
    /// Other places that explain the fault, such as the first of two duplicates.
    pub labels: Vec<Label>,
    pub notes: Vec<Cow<'static, str>>,
    /// What to do about it.
    pub help: Option<Cow<'static, str>>,
    /// Values that nobody knows the meaning of; they may be secrets, and are not repeated.
    pub hidden: Vec<Location>,
    /// Whether it is about a value that came from elsewhere. Then only what is written in the program is said: words
    /// that were put together may be made of the value.
    pub is_about_filled: bool,
}

impl Diagnostic {
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Whether it is of where a text is read: a file or a variable that it names may be on another machine.
    pub fn is_of_this_machine(&self) -> bool {
        ["cannot be read", "there is no such file", "is not set"].iter().any(|words| self.message.contains(words))
    }

    pub fn error(code: &'static str, location: Location, message: impl Into<Cow<'static, str>>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            primary: Label { location, text: Cow::Borrowed("") },
            labels: Vec::new(),
            notes: Vec::new(),
            help: None,
            hidden: Vec::new(),
            is_about_filled: false,
        }
    }

    pub fn warning(code: &'static str, location: Location, message: impl Into<Cow<'static, str>>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, location, message) }
    }

    pub fn remark(code: &'static str, location: Location, message: impl Into<Cow<'static, str>>) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::error(code, location, message) }
    }

    /// From here on, nothing is added that was put together.
    pub fn about_filled(mut self) -> Diagnostic {
        self.is_about_filled = true;
        self
    }

    /// The words, where they may be said.
    fn sayable(&self, text: impl Into<Cow<'static, str>>) -> Option<Cow<'static, str>> {
        let text = text.into();
        (!self.is_about_filled || matches!(text, Cow::Borrowed(_))).then_some(text)
    }

    /// The words beside the marked text.
    pub fn marked(mut self, text: impl Into<Cow<'static, str>>) -> Diagnostic {
        self.primary.text = self.sayable(text).unwrap_or_default();
        self
    }

    pub fn label(mut self, location: Location, text: impl Into<Cow<'static, str>>) -> Diagnostic {
        let text = self.sayable(text).unwrap_or_default();
        self.labels.push(Label { location, text });
        self
    }

    /// Keeps a value of the line back.
    pub fn hiding(mut self, values: impl IntoIterator<Item = Location>) -> Diagnostic {
        self.hidden.extend(values);
        self
    }

    pub fn note(mut self, text: impl Into<Cow<'static, str>>) -> Diagnostic {
        let text = self.sayable(text);
        self.notes.extend(text);
        self
    }

    pub fn help(self, text: impl Into<Cow<'static, str>>) -> Diagnostic {
        match self.sayable(text) {
            Some(text) => self.help_of_language(text),
            None => self,
        }
    }

    /// A help that is put together from words of the language alone, and so says nothing of any value.
    pub fn help_of_language(mut self, text: impl Into<Cow<'static, str>>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    /// All that is said in words.
    pub(crate) fn texts_mut(&mut self) -> impl Iterator<Item = &mut Cow<'static, str>> {
        let labels = self.labels.iter_mut().map(|label| &mut label.text);
        [&mut self.message, &mut self.primary.text].into_iter().chain(&mut self.notes).chain(&mut self.help).chain(labels)
    }

    /// What is written is repeated in messages, and a URL may have a password in it.
    pub(crate) fn hide_passwords(&mut self) {
        for text in self.texts_mut() {
            for span in passwords_in_urls(text) {
                text.to_mut().replace_range(span.clone(), &"*".repeat(span.len()));
            }
        }
    }
}

/// Characters of a word that was not understood, as far as a message repeats it.
const SHOWN_CHARS_MAX: usize = 60;

/// The error for a word that the language has, and this version does not.
pub fn not_available(at: Location, word: &str) -> Diagnostic {
    Diagnostic::error("not-available", at, format!("`{word}` is not available in this version"))
        .note("it is part of the language, and a later version brings it")
}

/// Choices, and what else may stand there.
pub fn choice_or(names: &[&str], form: &str) -> String {
    if form.is_empty() { quoted_list(names) } else { format!("{}, or {form}", quoted_list(names)) }
}

/// `"a"`, `"b"` or `"c"`, each in code quotes.
pub fn quoted_list(names: &[&str]) -> String {
    const NAMES_SHOWN_MAX: usize = 6;
    if names.len() > NAMES_SHOWN_MAX {
        return format!("one of {} names such as `\"{}\"`", names.len(), names[0]);
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`\"{name}\"`")).collect();
    listed(&quoted.iter().map(String::as_str).collect::<Vec<_>>(), "or")
}

/// A word for a message: a line that was pasted by mistake must not fill the screen.
pub fn shortened(word: &str) -> Cow<'_, str> {
    match word.char_indices().nth(SHOWN_CHARS_MAX) {
        None => Cow::Borrowed(word),
        Some((end, _)) => Cow::Owned(format!("{}…", &word[..end])),
    }
}

/// All diagnostics in the compiler's manner: title, place, excerpt, notes, help; a blank line between two.
pub fn render(diagnostics: &[Diagnostic], sources: &Sources, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    if diagnostics.is_empty() {
        return String::new();
    }
    let hidden: Vec<&Location> = diagnostics.iter().flat_map(|diagnostic| &diagnostic.hidden).collect();
    let without_secrets = sources.without_secrets(&hidden);
    let sources = without_secrets.as_ref().unwrap_or(sources);
    let mut out = String::new();
    for (index, diagnostic) in diagnostics.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        render_one(diagnostic, sources, &renderer, &mut out);
        out.push('\n');
    }
    out
}

fn render_one(diagnostic: &Diagnostic, sources: &Sources, renderer: &Renderer, out: &mut String) {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let mut group = Group::with_title(level.primary_title(diagnostic.message.as_ref()).id(diagnostic.code));
    let main = &diagnostic.primary;
    let main_file = main.location.file;
    if sources.file(main_file).text.is_empty() {
        group = group.element(Origin::path(sources.file(main_file).name.as_str()));
    } else {
        let beside: Vec<&Label> = diagnostic.labels.iter().filter(|label| label.location.file == main_file).collect();
        group = group.element(excerpt(sources.file(main_file), Some(main), &beside));
    }
    for label in diagnostic.labels.iter().filter(|label| label.location.file != main_file) {
        group = group.element(excerpt(sources.file(label.location.file), None, &[label]));
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(note.as_ref()));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_ref()));
    }
    out.push_str(&renderer.render(&[group]));
}

/// The lines from the first to the last label. The renderer reads all that it is given, which for a large file and many
/// diagnostics is much.
fn excerpt<'a>(file: &'a SourceFile, primary: Option<&'a Label>, others: &[&'a Label]) -> Snippet<'a, Annotation<'a>> {
    let labels: Vec<(AnnotationKind, &'a Label, Range<usize>)> = primary
        .map(|label| (AnnotationKind::Primary, label))
        .into_iter()
        .chain(others.iter().map(|label| (AnnotationKind::Context, *label)))
        .map(|(kind, label)| (kind, label, on_boundaries(&label.location.span, &file.text)))
        .collect();
    let first = labels.iter().map(|(_, _, span)| span.start).min().unwrap_or(0);
    let last = labels.iter().map(|(_, _, span)| span.end).max().unwrap_or(0);
    let from = file.text[..first].rfind('\n').map_or(0, |position| position + 1);
    let to = file.text[last..].find('\n').map_or(file.text.len(), |length| last + length + 1);
    let line = file.text[..from].matches('\n').count() + 1;
    let annotations = labels.into_iter().map(|(kind, label, span)| {
        let text = if label.text.is_empty() { None } else { Some(label.text.as_ref()) };
        kind.span(span.start - from..span.end - from).label(text)
    });
    Snippet::source(&file.text[from..to]).line_start(line).path(file.name.as_str()).annotations(annotations)
}

/// The renderer slices the text, so a span must lie inside it and on character boundaries.
fn on_boundaries(span: &Range<usize>, text: &str) -> Range<usize> {
    let mut start = span.start.min(text.len());
    let mut end = span.end.clamp(start, text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// The candidate with the smallest edit distance, if that is small for the length of the word.
pub fn nearest<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    const WRITTEN_CHARS_MAX: usize = 64;
    // Candidates may be the thousands of pools of a generated file, each named wrongly once.
    const CANDIDATES_MAX: usize = 500;
    let written_chars = written.chars().count();
    if written_chars > WRITTEN_CHARS_MAX {
        return None;
    }
    let lower = written.to_ascii_lowercase().replace('_', "-");
    let allowed = (written_chars / 3).max(1);
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .map(|candidate| {
            let whole = candidate.to_ascii_lowercase();
            // `uring` for `io-uring`: a part that ends a name is it, however much is in front.
            let is_end = written_chars > 3 && whole.strip_suffix(&lower).is_some_and(|front| front.ends_with('-'));
            (if is_end { 1 } else { edit_distance(&lower, &whole) }, candidate)
        })
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut two_above = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for i in 1..=left.len() {
        let mut row = vec![i; right.len() + 1];
        for j in 1..=right.len() {
            let substitution = above[j - 1] + usize::from(left[i - 1] != right[j - 1]);
            row[j] = substitution.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                row[j] = row[j].min(two_above[j - 2] + 1);
            }
        }
        two_above = std::mem::replace(&mut above, row);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_shown_takes_nothing_of_the_next_line_with_it() {
        let text = "limits nonsense=200\r\nadmin \"off\"\nsite \":80\" { respond 200; }";
        let loaded = crate::load_text("test.kdl", text, std::path::Path::new("/"));
        let rendered = render(&loaded.diagnostics, &loaded.files, false);
        assert!(rendered.contains("| limits nonsense=200") && !rendered.contains("site"), "{rendered}");
    }

    #[test]
    fn a_secret_that_is_written_out_is_not_shown() {
        let check = |text: &str, hidden: &str| {
            let loaded = crate::load_text("test.kdl", text, std::path::Path::new("/"));
            let rendered = render(&loaded.diagnostics, &loaded.files, false);
            assert!(!rendered.is_empty(), "a fault is expected in {text}");
            assert!(!rendered.contains(hidden), "{rendered}");
        };
        check("admin \"nonsense\" token=\"0123456789abcdef0123\"", "0123456789");
        check("admin \"nonsense\" token=#\"0123456789abcdef0123\"#", "0123456789");
        check("admin \"nonsense\" token=hunter2hunter2hunter2", "hunter2");
        check("admin \"nonsense\" token=\"short\"", "short");
        check("storage \"redis://hunter2@cache/x\"", "hunter2@cache/x");
        for url in ["redis://:hunter2@cache/0", "rediss://ops:hunter2@cache", "redis://ops:hunter2/a@b@cache/0"] {
            check(&format!("storage \"{url}\""), "hunter2");
            check(&format!("storage {url}"), "hunter2");
        }
        check("acme { ca \"https://hunter2@ca.example/dir\"; }", "hunter2");
        check("acme { dns \"webhook\" url=\"https://ops:hunter2@dns.example/x\"; }", "hunter2");
        let user = |line: &str| format!("site \":80\" {{ basic-auth {{ {line}; }}; respond 200; }}");
        check(&user("user \"alice\" \"hunter2\""), "hunter2");
        check(&user("user alice hunter2"), "hunter2");
        check(&user("user alice #\"hunter2\"#"), "hunter2");
        check(&user("user \"a b\" \"x\" hunter2"), "hunter2");
        check(&user("user \"alice\" \"hunter2"), "hunter2");
        check("site \":80\" {\n\tbasic-auth {\n\t\tuser\t\"alice\" \"hunter2\"\n}\n}", "hunter2");
    }

    #[test]
    fn the_nearest_word_is_suggested_and_a_distant_one_is_not() {
        let words = ["p2c", "round-robin", "least-conn", "random", "hash"];
        let check = |written: &str, expected: Option<&str>| assert_eq!(nearest(written, words), expected, "for {written}");
        check("least_conn", Some("least-conn"));
        check("leastconn", Some("least-conn"));
        check("roundrobin", Some("round-robin"));
        check("rnadom", Some("random"));
        check("hsah", Some("hash"));
        check("P2C", Some("p2c"));
        check("conn", Some("least-conn"));
        check("ip", None);
        check("sticky", None);
        check("", None);
        check(&"x".repeat(10_000), None);
    }

    #[test]
    fn columns_count_characters_and_lines_count_line_feeds() {
        let mut sources = Sources::default();
        let text = "a\r\n\tb\nü ö\n";
        let file = sources.add(SourceFile { name: "t".into(), text: text.into(), directory: PathBuf::new() });
        let check = |needle: &str, expected: (usize, usize)| {
            let start = text.find(needle).expect("the needle is in the text");
            assert_eq!(sources.position(&Location { file, span: start..start + 1 }), expected, "for {needle}");
        };
        check("a", (1, 1));
        check("b", (2, 2));
        check("ö", (3, 3));
        assert_eq!(sources.position(&Location { file, span: 9999..9999 }), (4, 1));
    }

    #[test]
    fn a_span_in_the_middle_of_a_character_is_widened() {
        assert_eq!(on_boundaries(&(1..2), "ü"), 0..2);
        assert_eq!(on_boundaries(&(5..9), "ü"), 2..2);
    }
}
