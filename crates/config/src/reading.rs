//! One value, read as the kind that its table entry names; what does not fit is reported. Which values a line has is in
//! `lowering`, what they mean in `directives`.

use crate::diagnostics::{Diagnostic, Location, choice_or, nearest, quoted_list};
use crate::lowering::Lowering;
use crate::placeholders::{self, Text};
use crate::syntax::{Literal, Value};
use crate::table::{Kind, Stage};
use crate::units;
use std::fmt::Display;
use std::time::Duration;
use tidegate_model::Template;

/// A value after it was read as the kind its table entry names. The accessor has to fit the kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    Text(Text),
    Template(Template, Location),
    Choice(&'static str, Location),
    Number(u64, Location),
    Duration(Duration),
    Switch(bool),
}

impl Read {
    pub fn text(self) -> Text {
        let Read::Text(text) = self else { unreachable!("the table says this is no text") };
        text
    }

    pub fn template(self) -> Template {
        let Read::Template(template, _) = self else { unreachable!("the table says this is no template") };
        template
    }

    pub fn choice(self) -> &'static str {
        let Read::Choice(name, _) = self else { unreachable!("the table says this is no choice") };
        name
    }

    pub fn number(self) -> u64 {
        let Read::Number(number, _) = self else { unreachable!("the table says this is no number") };
        number
    }

    pub fn duration(self) -> Duration {
        let Read::Duration(duration) = self else { unreachable!("the table says this is no duration") };
        duration
    }

    pub fn switch(self) -> bool {
        let Read::Switch(switch) = self else { unreachable!("the table says this is no switch") };
        switch
    }
}

/// Reads one value as a kind; what does not fit is reported with `owner`, the name of the directive or property.
pub fn read(lowering: &mut Lowering<'_>, value: &Value, kind: Kind, owner: &str) -> Option<Read> {
    match kind {
        Kind::Text(form) | Kind::Secret(form) => {
            let text = expect_text(lowering, value, owner, form)?;
            placeholders::resolve_text(lowering, text).map(Read::Text)
        }
        Kind::Template(stage) => read_template(lowering, value, stage, owner),
        Kind::Path => {
            let text = expect_text(lowering, value, owner, "a path")?;
            let text = placeholders::resolve_text(lowering, text)?;
            if text.value.is_empty() {
                return lowering.refuse(Diagnostic::error("bad-value", value.location.clone(), format!("{owner} is empty")));
            }
            Some(Read::Text(text))
        }
        Kind::Choice(names) => {
            let text = expect_text(lowering, value, owner, &format!("one of {}", quoted_list(names)))?;
            let text = placeholders::resolve_amount(lowering, text)?;
            if let Some(name) = names.iter().find(|name| **name == text.value) {
                return Some(Read::Choice(name, text.location));
            }
            let diagnostic = text.error("bad-value", format!("{owner} cannot be `{}`", text.value));
            lowering.refuse(match nearest(&text.value, names.iter().copied()).filter(|_| !text.secret) {
                Some(candidate) => diagnostic.help(format!("did you mean `\"{candidate}\"`?")),
                None => diagnostic.help_of_language(format!("it can be {}", quoted_list(names))),
            })
        }
        Kind::ChoiceOr(names, form) => {
            let text = expect_text(lowering, value, owner, &choice_or(names, form))?;
            let text = placeholders::resolve_text(lowering, text)?;
            match names.iter().find(|name| **name == text.value) {
                Some(name) => Some(Read::Choice(name, text.location)),
                None => Some(Read::Text(text)),
            }
        }
        Kind::AutoOrInteger { min, max } => match &value.literal {
            Literal::Text(raw) if raw == "auto" => Some(Read::Choice("auto", value.location.clone())),
            _ => read_integer(lowering, value, min, max, owner, "`\"auto\"` or a whole number"),
        },
        Kind::Statuses => match &value.literal {
            Literal::Integer(number) => Some(Read::Text(Text::of_number(value, *number))),
            _ => {
                let text = expect_text(lowering, value, owner, "a status, or a range as in `\"400-499\"`")?;
                placeholders::resolve_amount(lowering, text).map(Read::Text)
            }
        },
        Kind::Integer { min, max } => read_integer(lowering, value, min, max, owner, "a whole number"),
        Kind::Duration { min, max } => read_duration(lowering, value, min, max, owner),
        Kind::Size { min, max } => read_bytes(lowering, value, (min, max), owner, "a size, as in `\"64KiB\"`", units::parse_size),
        Kind::ByteRate { min, max } => {
            read_bytes(lowering, value, (min, max), owner, "a rate, as in `\"1KiB/s\"`", units::parse_byte_rate)
        }
        Kind::Sample => read_sample(lowering, value, owner),
        Kind::Percent { min, max } => read_percent(lowering, value, min, max, owner),
        Kind::Switch => read_switch(lowering, value, owner),
    }
}

/// Reads one of the names, or else a value of the kind, for what a [`Kind::ChoiceOr`] of the table describes.
pub fn read_choice_or(
    lowering: &mut Lowering<'_>,
    value: &Value,
    names: &'static [&'static str],
    kind: Kind,
    owner: &str,
) -> Option<Read> {
    if matches!(value.literal, Literal::Text(_)) {
        let text = placeholders::resolve_text(lowering, value)?;
        if let Some(name) = names.iter().find(|name| **name == text.value) {
            return Some(Read::Choice(name, text.location));
        }
    }
    read(lowering, value, kind, owner)
}

fn read_template(lowering: &mut Lowering<'_>, value: &Value, stage: Stage, owner: &str) -> Option<Read> {
    let text = expect_text(lowering, value, owner, "a text")?;
    let template = placeholders::resolve_template(lowering, text, stage, None)?;
    Some(Read::Template(template, value.location.clone()))
}

fn read_integer(lowering: &mut Lowering<'_>, value: &Value, min: u64, max: u64, owner: &str, form: &str) -> Option<Read> {
    let number = match &value.literal {
        Literal::Integer(number) => *number,
        // A number in quotes is how `{env.X}` brings one in.
        Literal::Text(_) => {
            let text = placeholders::resolve_amount(lowering, value)?;
            match text.value.parse::<i128>() {
                Ok(number) => number,
                Err(_) => {
                    let diagnostic = not_of_form(&text, owner, form);
                    let digits = text.value.bytes().take_while(u8::is_ascii_digit).count();
                    return lowering.refuse(match digits {
                        0 => diagnostic,
                        _ => diagnostic.help(format!("write `{}`", &text.value[..digits])),
                    });
                }
            }
        }
        Literal::Float(_) | Literal::Switch(_) | Literal::Null => {
            return lowering.refuse(wrong_type(value, owner, form));
        }
    };
    if number < i128::from(min) || number > i128::from(max) {
        let is_less = number < i128::from(min);
        return lowering.refuse(out_of_range(value.location.clone(), owner, (min, max), is_less));
    }
    Some(Read::Number(number as u64, value.location.clone()))
}

/// An amount that is less, or more, than may be.
fn out_of_range<T: Display>(at: Location, owner: &str, (min, max): (T, T), is_less: bool) -> Diagnostic {
    let help = if is_less { format!("write `{min}` or more") } else { format!("write `{max}` or less") };
    Diagnostic::error("out-of-range", at, format!("{owner} goes from {min} to {max}")).help(help)
}

fn read_duration(lowering: &mut Lowering<'_>, value: &Value, min: Duration, max: Duration, owner: &str) -> Option<Read> {
    if let Literal::Integer(number) = value.literal {
        let diagnostic =
            Diagnostic::error("wrong-unit", value.location.clone(), format!("{owner} is a duration and needs a unit"));
        return lowering.refuse(diagnostic.help(format!("for seconds, write `\"{number}s\"`")));
    }
    const FORM: &str = "a duration, as in `\"5s\"`";
    let text = expect_text(lowering, value, owner, FORM)?;
    let text = placeholders::resolve_amount(lowering, text)?;
    match units::parse_duration(&text.value) {
        Ok(duration) if duration < min || duration > max => {
            let bounds = (units::show_duration(min), units::show_duration(max));
            lowering.refuse(out_of_range(text.location, owner, bounds, duration < min))
        }
        Ok(duration) => Some(Read::Duration(duration)),
        Err(reason) => lowering.refuse(meant_to_be(&text, text.error("wrong-unit", reason), owner, FORM)),
    }
}

fn read_bytes(
    lowering: &mut Lowering<'_>,
    value: &Value,
    (min, max): (u64, u64),
    owner: &str,
    form: &str,
    parse: fn(&str) -> Result<u64, String>,
) -> Option<Read> {
    let parsed = match &value.literal {
        Literal::Integer(number) => u64::try_from(*number).map_err(|_| None),
        Literal::Text(_) => {
            let text = placeholders::resolve_amount(lowering, value)?;
            parse(&text.value).map_err(|reason| Some(meant_to_be(&text, text.error("wrong-unit", reason), owner, form)))
        }
        Literal::Float(_) | Literal::Switch(_) | Literal::Null => Err(Some(wrong_type(value, owner, form))),
    };
    let out_of_range =
        |is_less| out_of_range(value.location.clone(), owner, (units::show_size(min), units::show_size(max)), is_less);
    match parsed {
        Ok(bytes) if (min..=max).contains(&bytes) => Some(Read::Number(bytes, value.location.clone())),
        Ok(bytes) => lowering.refuse(out_of_range(bytes < min)),
        Err(None) => lowering.refuse(out_of_range(true)),
        Err(Some(diagnostic)) => lowering.refuse(diagnostic),
    }
}

fn read_sample(lowering: &mut Lowering<'_>, value: &Value, owner: &str) -> Option<Read> {
    if let Literal::Integer(number) = value.literal {
        let diagnostic = Diagnostic::error("wrong-unit", value.location.clone(), format!("{owner} is a share and needs a `%`"));
        return lowering.refuse(diagnostic.help(format!("write `\"{number}%\"`")));
    }
    const FORM: &str = "a share, as in `\"0.5%\"`";
    let text = expect_text(lowering, value, owner, FORM)?;
    let text = placeholders::resolve_amount(lowering, text)?;
    match units::parse_sample(&text.value) {
        Ok(millionths) => Some(Read::Number(millionths, text.location)),
        Err(reason) => lowering.refuse(meant_to_be(&text, text.error("wrong-unit", reason), owner, FORM)),
    }
}

fn read_percent(lowering: &mut Lowering<'_>, value: &Value, min: u64, max: u64, owner: &str) -> Option<Read> {
    if let Literal::Integer(number) = value.literal {
        let diagnostic = Diagnostic::error("wrong-unit", value.location.clone(), format!("{owner} is a share and needs a `%`"));
        return lowering.refuse(diagnostic.help(format!("write `\"{number}%\"`")));
    }
    const FORM: &str = "a share, as in `\"20%\"`";
    let text = expect_text(lowering, value, owner, FORM)?;
    let text = placeholders::resolve_amount(lowering, text)?;
    match units::parse_percent(&text.value) {
        Ok(percent) if (min..=max).contains(&percent) => Some(Read::Number(percent, text.location)),
        Ok(percent) => {
            let bounds = (format!("{min}%"), format!("{max}%"));
            lowering.refuse(out_of_range(text.location, owner, bounds, percent < min))
        }
        Err(reason) => lowering.refuse(meant_to_be(&text, text.error("wrong-unit", reason), owner, FORM)),
    }
}

fn read_switch(lowering: &mut Lowering<'_>, value: &Value, owner: &str) -> Option<Read> {
    let form = "`#true`, `#false`, `\"on\"` or `\"off\"`";
    if let Literal::Switch(switch) = value.literal {
        return Some(Read::Switch(switch));
    }
    let text = expect_text(lowering, value, owner, form)?;
    let text = placeholders::resolve_amount(lowering, text)?;
    match text.value.as_str() {
        "on" => Some(Read::Switch(true)),
        "off" => Some(Read::Switch(false)),
        other => {
            let diagnostic = not_of_form(&text, owner, form);
            lowering.refuse(match other {
                "true" | "yes" | "enabled" => diagnostic.help("write `#true`"),
                "false" | "no" | "disabled" => diagnostic.help("write `#false`"),
                _ => diagnostic,
            })
        }
    }
}

/// A text that cannot be read as what it stands for.
fn not_of_form(text: &Text, owner: &str, form: &str) -> Diagnostic {
    let diagnostic = text.error("wrong-type", format!("{owner} is {form}, and `{}` is not", text.value));
    meant_to_be(text, diagnostic, owner, form)
}

/// What a filled-in text should have been, since its own fault is not told.
fn meant_to_be(text: &Text, diagnostic: Diagnostic, owner: &str, form: &str) -> Diagnostic {
    if text.secret { diagnostic.help_of_language(format!("{owner} is {form}")) } else { diagnostic }
}

/// The value when it is a text; otherwise a report.
pub fn expect_text<'v>(lowering: &mut Lowering<'_>, value: &'v Value, owner: &str, form: &str) -> Option<&'v Value> {
    if matches!(value.literal, Literal::Text(_)) {
        return Some(value);
    }
    lowering.refuse(wrong_type(value, owner, form))
}

fn wrong_type(value: &Value, owner: &str, form: &str) -> Diagnostic {
    let seen = match value.literal {
        Literal::Text(_) => "a text",
        Literal::Integer(_) => "a number",
        Literal::Float(_) => "a fraction",
        Literal::Switch(true) => "`#true`",
        Literal::Switch(false) => "`#false`",
        Literal::Null => "`#null`",
    };
    let diagnostic = Diagnostic::error("wrong-type", value.location.clone(), format!("{owner} is {form}, not {seen}"))
        .marked(format!("this is {seen}"));
    match &value.literal {
        Literal::Integer(port) if form.contains("upstream address") => diagnostic.help(format!("write `\"127.0.0.1:{port}\"`")),
        Literal::Integer(port) if form.contains("an address") => diagnostic.help(format!("write `\":{port}\"`")),
        Literal::Integer(number) if form.contains("\"100/s\"") => {
            diagnostic.help(format!("for each second, write `\"{number}/s\"`"))
        }
        Literal::Integer(number) => diagnostic.help(format!("a text is written in quotes, as in `\"{number}\"`")),
        Literal::Float(share) if form.contains("a share") && (0.0..=1.0).contains(share) => {
            diagnostic.help(format!("write `\"{}%\"`", (share * 1e6).round() / 1e4))
        }
        Literal::Float(_) | Literal::Text(_) | Literal::Switch(_) | Literal::Null => diagnostic,
    }
}
