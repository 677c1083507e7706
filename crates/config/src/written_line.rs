//! A line of configuration while it is written: names, arguments, properties and blocks, quoted, shortened and without
//! secrets as its reader may see them. Which directive writes what is beside its `lower`; `writing` finds the
//! directive.

use crate::units::{show_duration, show_size};
use std::fmt::Display;
use std::time::Duration;
use tidegate_model::Switched;

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

/// Whether values of that name stay unsaid. What comes from `{env.X}` and `{file.X}` is plain text in the model, so the
/// name decides.
pub fn is_secret(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| SECRET_WORDS.iter().any(|secret| word.eq_ignore_ascii_case(secret)))
}

/// Whom a line is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A reader: long texts are cut, and secrets are `…`.
    Shown,
    /// A comparison: texts are whole, and secrets are `***`, as where a configuration is read as JSON.
    Masked,
    /// `lower`: everything is there.
    Whole,
}

/// A line while it is written. Text is quoted; numbers and switches stand as they are.
#[derive(Debug)]
pub struct Writer {
    form: Form,
    text: String,
}

impl Writer {
    pub fn new(form: Form) -> Writer {
        Writer { form, text: String::new() }
    }

    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// The name of a directive, or another bare word.
    pub fn name(&mut self, word: impl Display) -> &mut Writer {
        let between = if self.text.is_empty() { "" } else { " " };
        self.text.push_str(&format!("{between}{word}"));
        self
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

    pub fn argument(&mut self, text: impl Display) -> &mut Writer {
        let text = self.quoted(&text.to_string());
        self.name(text)
    }

    pub fn property(&mut self, name: &str, text: impl Display) -> &mut Writer {
        let text = self.quoted(&text.to_string());
        self.name(format_args!("{name}={text}"))
    }

    /// Left out where it is what holds anyway.
    pub fn unless<T: PartialEq, D: Display>(
        &mut self,
        default: &T,
        name: &str,
        value: &T,
        show: impl Fn(&T) -> D,
    ) -> &mut Writer {
        if value == default { self } else { self.property(name, show(value)) }
    }

    pub fn optional(&mut self, name: &str, text: Option<impl Display>) -> &mut Writer {
        match text {
            Some(text) => self.property(name, text),
            None => self,
        }
    }

    pub fn number(&mut self, name: &str, number: impl Display) -> &mut Writer {
        self.name(format_args!("{name}={number}"))
    }

    pub fn number_unless(&mut self, default: u64, name: &str, number: u64) -> &mut Writer {
        if number == default { self } else { self.number(name, number) }
    }

    /// Left out where it is what holds anyway.
    pub fn switch_unless(&mut self, default: bool, name: &str, is_on: bool) -> &mut Writer {
        if is_on == default { self } else { self.number(name, format_args!("#{is_on}")) }
    }

    /// Joined by commas; left out where there is none.
    pub fn list<T, D: Display>(&mut self, name: &str, parts: &[T], show: impl Fn(&T) -> D) -> &mut Writer {
        if parts.is_empty() { self } else { self.property(name, joined(parts, show)) }
    }

    /// The value of a field, or what stands for it by its name.
    pub fn secret_by_name(&self, name: &str, value: impl Display) -> String {
        self.secret(is_secret(name), value)
    }

    pub fn secret(&self, is_secret: bool, value: impl Display) -> String {
        match self.form {
            Form::Shown if is_secret => HIDDEN.to_owned(),
            Form::Masked if is_secret => "***".to_owned(),
            Form::Shown | Form::Masked | Form::Whole => value.to_string(),
        }
    }

    /// Lines of a block, one for each item; no block without any.
    pub fn block<T>(&mut self, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Writer, T)) -> &mut Writer {
        let line = |item| {
            let mut inner = Writer::new(self.form);
            write(&mut inner, item);
            inner.take()
        };
        let lines: Vec<String> = items.into_iter().map(line).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() { self } else { self.name(format_args!("{{ {} }}", lines.join("; "))) }
    }

    fn quoted(&self, text: &str) -> String {
        match self.form {
            Form::Shown => quoted(&shortened(text)),
            Form::Masked | Form::Whole => quoted(text),
        }
    }
}

/// A KDL string. What a terminal would act on is escaped.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
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
