//! A line of configuration while it is written: names, arguments, properties and blocks, quoted, shortened and without
//! secrets as its reader may see them. Which directive writes what is beside its `lower`; `writing` finds the
//! directive.

use crate::units::{show_duration, show_size};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;
use tidegate_kdl::quoted;
use tidegate_model::{Filled, Secret, Switched};

/// What stands where a secret would.
pub const HIDDEN: &str = "…";

/// A longer text is cut: a page as the body of a `respond` must not bury the route it stands in.
const SHOWN_CHARS_MAX: usize = 60;

/// Words in the name of a header, cookie or setting whose value is nobody's business.
const SECRET_WORDS: [&str; 13] = [
    "token",
    "authorization",
    "auth",
    "cookie",
    "secret",
    "password",
    "passwd",
    "credential",
    "credentials",
    "key",
    "apikey",
    "session",
    "signature",
];

/// Whether values of that name stay unsaid where they are written out in the file. What comes from `{env.X}` and
/// `{file.X}` is recognised by where it came from.
pub fn is_secret(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| SECRET_WORDS.iter().any(|secret| word.eq_ignore_ascii_case(secret)))
}

/// Whom a line is written for. Readers see `{env.X}` where a text came from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'f> {
    /// A reader: long texts are cut, and secrets are `…`.
    Shown(&'f Filled),
    /// A comparison: texts are whole, and secrets are `***`, as where a configuration is read as JSON.
    Masked(&'f Filled),
    /// Who asks what holds: as a comparison, and what holds anyway is there as well.
    Effective(&'f Filled),
    /// `lower`: everything is there.
    Whole,
}

impl Form<'_> {
    fn has_defaults(self) -> bool {
        matches!(self, Form::Effective(_))
    }
}

/// A line while it is written. Text is quoted; numbers and switches stand as they are.
#[derive(Debug)]
pub struct Writer<'f> {
    form: Form<'f>,
    text: String,
    /// The first word.
    directive: String,
    /// Lines of the directive may stand several times, so that they are one setting together.
    is_repeated: bool,
    /// Arguments by the name of the directive; properties and lines of the block by theirs behind it.
    settings: Vec<(String, String)>,
}

impl<'f> Writer<'f> {
    pub fn new(form: Form<'f>) -> Writer<'f> {
        Writer { form, text: String::new(), directive: String::new(), is_repeated: false, settings: Vec::new() }
    }

    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// The name of a directive, or an argument that is a number or a switch.
    pub fn name(&mut self, word: impl Display) -> &mut Writer<'f> {
        let word = word.to_string();
        self.put(&word);
        if self.directive.is_empty() {
            self.directive = word;
        } else {
            self.set("", &word);
        }
        self
    }

    /// The name of a directive of which several lines may stand side by side.
    pub fn repeated(&mut self, name: &str) -> &mut Writer<'f> {
        self.is_repeated = true;
        self.name(name)
    }

    fn put(&mut self, text: &str) {
        let between = if self.text.is_empty() { "" } else { " " };
        self.text.push_str(&format!("{between}{text}"));
    }

    /// Values of one name stand in one setting.
    fn set(&mut self, name: &str, value: &str) {
        let between = if name.is_empty() { "" } else { " " };
        let name = format!("{}{between}{name}", self.directive);
        let value = if value.chars().any(needs_quotes) { quoted(value) } else { value.to_owned() };
        join_setting(&mut self.settings, name, &value, " ");
    }

    /// What is inherited and not wanted here.
    pub fn off(&mut self, name: &str) {
        self.name(name).argument("off");
    }

    /// Writes nothing of what is inherited.
    pub fn switched<T>(&mut self, name: &str, option: &Switched<T>, write: fn(&mut Writer, &T)) {
        match option {
            Switched::Inherited => {}
            Switched::Off => self.off(name),
            Switched::On(settings) => write(self, settings),
        }
    }

    pub fn argument(&mut self, text: impl Display) -> &mut Writer<'f> {
        let text = self.as_written(text.to_string());
        self.put(&self.quoted(&text));
        self.set("", &text);
        self
    }

    pub fn arguments(&mut self, texts: impl IntoIterator<Item = impl Display>) -> &mut Writer<'f> {
        for text in texts {
            self.argument(text);
        }
        self
    }

    pub fn property(&mut self, name: &str, text: impl Display) -> &mut Writer<'f> {
        let text = self.as_written(text.to_string());
        self.put(&format!("{name}={}", self.quoted(&text)));
        self.set(name, &text);
        self
    }

    /// Left out where it is what holds anyway.
    pub fn unless<T: PartialEq, D: Display>(
        &mut self,
        default: &T,
        name: &str,
        value: &T,
        show: impl Fn(&T) -> D,
    ) -> &mut Writer<'f> {
        if value == default && !self.form.has_defaults() { self } else { self.property(name, show(value)) }
    }

    pub fn optional(&mut self, name: &str, text: Option<impl Display>) -> &mut Writer<'f> {
        match text {
            Some(text) => self.property(name, text),
            None => self,
        }
    }

    pub fn secret_property(&mut self, name: &str, secret: Option<&Secret>) -> &mut Writer<'f> {
        self.optional(name, secret.map(|secret| self.secret(true, secret.reveal())))
    }

    pub fn number(&mut self, name: &str, number: impl Display) -> &mut Writer<'f> {
        let number = number.to_string();
        self.put(&format!("{name}={number}"));
        self.set(name, &number);
        self
    }

    pub fn optional_number(&mut self, name: &str, number: Option<impl Display>) -> &mut Writer<'f> {
        match number {
            Some(number) => self.number(name, number),
            None => self,
        }
    }

    pub fn switch(&mut self, name: &str, is_on: bool) -> &mut Writer<'f> {
        self.number(name, format_args!("#{is_on}"))
    }

    pub fn number_unless(&mut self, default: u64, name: &str, number: u64) -> &mut Writer<'f> {
        if number == default && !self.form.has_defaults() { self } else { self.number(name, number) }
    }

    /// Left out where it is what holds anyway.
    pub fn switch_unless(&mut self, default: bool, name: &str, is_on: bool) -> &mut Writer<'f> {
        if is_on == default && !self.form.has_defaults() { self } else { self.switch(name, is_on) }
    }

    /// Joined by commas; left out where there is none.
    pub fn list<T, D: Display>(&mut self, name: &str, parts: &[T], show: impl Fn(&T) -> D) -> &mut Writer<'f> {
        if parts.is_empty() { self } else { self.property(name, joined(parts, show)) }
    }

    /// The value of a field, or what stands for it by its name. One that is not written out says where it is from.
    pub fn secret_by_name(&self, name: &str, value: impl Display) -> String {
        let value = value.to_string();
        let written = self.as_written(value.clone());
        if written == value { self.secret(is_secret(name), value) } else { written }
    }

    pub fn secret(&self, is_secret: bool, value: impl Display) -> String {
        match self.form {
            Form::Shown(_) if is_secret => HIDDEN.to_owned(),
            Form::Masked(_) | Form::Effective(_) if is_secret => "***".to_owned(),
            Form::Shown(_) | Form::Masked(_) | Form::Effective(_) | Form::Whole => value.to_string(),
        }
    }

    /// The text with what was written in the place of what was filled in. Before it is cut or quoted, so that neither
    /// leaves a part of it.
    fn as_written(&self, text: String) -> String {
        match self.form {
            Form::Shown(filled) | Form::Masked(filled) | Form::Effective(filled) => filled.shown(&text).into_owned(),
            Form::Whole => text,
        }
    }

    /// Lines of a block, one for each item; no block without any.
    pub fn block<T>(&mut self, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Writer, T)) -> &mut Writer<'f> {
        self.lines(|lines| lines.extend(items, write))
    }

    /// Lines of a block; no block without any.
    pub fn lines(&mut self, write: impl FnOnce(&mut Lines)) -> &mut Writer<'f> {
        let mut lines = Lines::new(self.form);
        write(&mut lines);
        if !lines.lines.iter().all(|line| line.text.is_empty()) {
            self.put(&format!("{{ {} }}", lines.text("; ")));
        }
        for (name, value) in lines.settings() {
            self.settings.push((format!("{} {name}", self.directive), value));
        }
        self
    }

    fn quoted(&self, text: &str) -> String {
        match self.form {
            Form::Shown(_) => quoted(&shortened(text)),
            Form::Masked(_) | Form::Effective(_) | Form::Whole => quoted(text),
        }
    }
}

/// Lines of a block or a file while they are written; those that stay empty are left out.
#[derive(Debug)]
pub struct Lines<'f> {
    form: Form<'f>,
    lines: Vec<Writer<'f>>,
}

impl<'f> Lines<'f> {
    pub fn new(form: Form<'f>) -> Lines<'f> {
        Lines { form, lines: Vec::new() }
    }

    /// Whether what holds anyway is written, too.
    pub fn has_defaults(&self) -> bool {
        self.form.has_defaults()
    }

    /// A new line, behind those that are there.
    pub fn line(&mut self) -> &mut Writer<'f> {
        self.lines.push(Writer::new(self.form));
        self.lines.last_mut().expect("a line was just added")
    }

    /// A line for each item.
    pub fn extend<T>(&mut self, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Writer, T)) {
        items.into_iter().for_each(|item| write(self.line(), item));
    }

    pub fn text(&self, between: &str) -> String {
        let texts = self.lines.iter().map(|line| line.text.as_str()).filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join(between)
    }

    /// By their names. A line with nothing behind its name is a setting too, and has the name as its value.
    fn settings(self) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        for line in self.lines.into_iter().filter(|line| !line.text.is_empty()) {
            if line.is_repeated {
                let value = line.text[line.directive.len()..].trim_start();
                join_setting(&mut settings, line.directive, value, "; ");
            } else if line.settings.is_empty() {
                settings.push((line.directive.clone(), line.directive));
            } else {
                settings.extend(line.settings);
            }
        }
        settings
    }
}

fn join_setting(settings: &mut Vec<(String, String)>, name: String, value: &str, between: &str) {
    match settings.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => known.push_str(&format!("{between}{value}")),
        None => settings.push((name, value.to_owned())),
    }
}

/// A setting by its name and value, read off what is written: `timeout connect` and `5s` of `timeout connect="5s"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenSetting {
    pub name: String,
    /// Without secrets.
    pub value: String,
    /// With them, so that another secret is another setting.
    whole: Secret,
}

/// The settings of the lines that are written, each name once.
pub fn settings(filled: &Filled, write: impl Fn(&mut Lines)) -> Vec<WrittenSetting> {
    let written = |form| {
        let mut lines = Lines::new(form);
        write(&mut lines);
        lines.settings().into_iter()
    };
    let both = written(Form::Masked(filled)).zip(written(Form::Whole));
    let settings: Vec<_> =
        both.map(|((name, value), (_, whole))| WrittenSetting { name, value, whole: Secret::new(whole) }).collect();
    debug_assert!(has_each_name_once(&settings), "whoever compares finds them by name: {settings:?}");
    settings
}

fn has_each_name_once(settings: &[WrittenSetting]) -> bool {
    let names: BTreeSet<&str> = settings.iter().map(|setting| setting.name.as_str()).collect();
    names.len() == settings.len()
}

/// Names and values of what holds by the lines that are written, defaults included and without secrets.
pub fn effective(filled: &Filled, write: impl Fn(&mut Lines)) -> Vec<(String, String)> {
    let mut lines = Lines::new(Form::Effective(filled));
    write(&mut lines);
    lines.settings()
}

/// What a text cannot have that stands for itself among others.
fn needs_quotes(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '\\')
}

/// The start of a long text, and a mark that something is missing.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub fn joined<T, D: Display>(parts: &[T], show: impl Fn(&T) -> D) -> String {
    parts.iter().map(|part| show(part).to_string()).collect::<Vec<_>>().join(",")
}

/// The name that a table of names has for a value.
pub fn name_of<T: PartialEq>(names: &[(&'static str, T)], wanted: &T) -> &'static str {
    names.iter().find(|(_, value)| value == wanted).map_or("", |(name, _)| name)
}

pub fn duration(time: &Duration) -> String {
    show_duration(*time)
}

pub fn size(bytes: &u64) -> String {
    show_size(*bytes)
}

#[cfg(test)]
mod tests {
    use super::{is_secret, quoted, shortened};

    #[test]
    fn names_of_secrets() {
        let check = |name: &str, expected: bool| assert_eq!(is_secret(name), expected, "{name}");
        check("admin token", true);
        check("Authorization", true);
        check("X-Api-Key", true);
        check("session_id", true);
        check("X-Keyboard", false);
        check("limits keep-alive", false);
    }

    #[test]
    fn long_and_odd_texts() {
        assert_eq!(quoted(&shortened(&"a".repeat(70))), format!("\"{}…\"", "a".repeat(60)));
        assert_eq!(quoted("\u{1b}[31m"), "\"\\u{1b}[31m\"");
    }
}
