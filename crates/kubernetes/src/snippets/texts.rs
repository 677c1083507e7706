//! Texts of snippets with variables: what `set` has made of them is put in, and what is left becomes a template.

use crate::annotations;
use std::collections::BTreeMap;
use tidegate_foreign::nginx_words::{TextPart, parts};
use tidegate_model::{Placeholder, Template, TemplatePart};

/// Values that name one another grow no further.
const BYTES_MAX: usize = 4096;

/// A text as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Literal(String),
    /// Of nginx, without its `$`.
    Variable(String),
    /// A field of the auth server's answer.
    AuthField(String),
    /// What the expression of a `rewrite` has found.
    Found(usize),
}

/// Where a text is used, which decides what is known there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Request,
    Response,
}

/// What variables are worth at a place.
pub type Values = BTreeMap<String, Text>;

impl Text {
    /// `Err` says what is wrong with it.
    pub fn read(written: &str) -> Result<Text, String> {
        if written.len() > BYTES_MAX {
            return Err(format!("a text of it is longer than {BYTES_MAX} bytes"));
        }
        if written.chars().any(char::is_control) {
            return Err("a text of it has control characters".to_owned());
        }
        let mut pieces = Vec::new();
        for part in parts(written) {
            pieces.push(match part {
                TextPart::Plain(plain) if plain.contains('$') => return Err("a `$` of it has no name behind it".to_owned()),
                TextPart::Plain(plain) => Piece::Literal(plain.to_owned()),
                TextPart::Variable(name) => match name.parse() {
                    Ok(number) => Piece::Found(number),
                    Err(_) => Piece::Variable(name.to_owned()),
                },
            });
        }
        Ok(Text { pieces })
    }

    pub fn auth_field(name: &str) -> Text {
        Text { pieces: vec![Piece::AuthField(name.to_ascii_lowercase())] }
    }

    /// The text when no part depends on a request.
    pub fn as_literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The variable that it is, and nothing else.
    pub fn as_variable(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Variable(name)] => Some(name),
            _ => None,
        }
    }

    /// The field of the auth server's answer that it is, and nothing else.
    pub fn as_auth_field(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::AuthField(name)] => Some(name),
            _ => None,
        }
    }

    pub fn auth_fields(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::AuthField(name) => Some(name.as_str()),
            Piece::Literal(_) | Piece::Variable(_) | Piece::Found(_) => None,
        })
    }

    /// With what variables are worth in the place of those that something has set.
    pub fn filled(&self, values: &Values) -> Result<Text, String> {
        let mut filled: Vec<Piece> = Vec::new();
        let mut length = 0;
        for piece in &self.pieces {
            let own = match piece {
                Piece::Variable(name) => values.get(name).map(|value| value.pieces.as_slice()),
                Piece::Literal(_) | Piece::AuthField(_) | Piece::Found(_) => None,
            };
            for piece in own.unwrap_or(std::slice::from_ref(piece)) {
                length += piece.bytes();
                match (filled.last_mut(), piece) {
                    _ if length > BYTES_MAX => return Err(format!("a text of it grows beyond {BYTES_MAX} bytes")),
                    (Some(Piece::Literal(before)), Piece::Literal(behind)) => before.push_str(behind),
                    (_, piece) => filled.push(piece.clone()),
                }
            }
        }
        Ok(Text { pieces: filled })
    }
}

impl Piece {
    fn bytes(&self) -> usize {
        match self {
            Piece::Literal(text) | Piece::Variable(text) | Piece::AuthField(text) => text.len() + 1,
            Piece::Found(_) => 2,
        }
    }
}

/// As a template; what an auth server answers is in the request's fields by then, where one is asked.
pub fn template_of(text: &Text, moment: Moment, is_asked: bool) -> Result<Template, String> {
    let mut template = Template::default();
    for piece in &text.pieces {
        match piece {
            Piece::Literal(text) => template.parts.push(TemplatePart::Literal(text.clone())),
            Piece::Found(number) => template.parts.push(TemplatePart::Capture(*number)),
            Piece::AuthField(name) if is_asked => {
                template.parts.push(TemplatePart::Placeholder(Placeholder::RequestHeader(name.clone())));
            }
            // Nobody was asked.
            Piece::AuthField(_) => {}
            Piece::Variable(name) => template.parts.push(TemplatePart::Placeholder(placeholder(name, moment)?)),
        }
    }
    Ok(template)
}

fn placeholder(name: &str, moment: Moment) -> Result<Placeholder, String> {
    let of_answer = name.strip_prefix("upstream_http_").or_else(|| name.strip_prefix("sent_http_"));
    let known = match (moment, of_answer) {
        (Moment::Response, Some(field)) if !field.is_empty() => {
            Some(Placeholder::ResponseHeader(field.replace('_', "-").to_ascii_lowercase()))
        }
        (Moment::Request | Moment::Response, _) => annotations::placeholder(name),
    };
    known.ok_or_else(|| format!("the variable `${name}` is not known there"))
}

#[cfg(test)]
mod tests {
    use super::{Moment, Text, Values, template_of};

    fn shown(written: &str, values: &[(&str, &str)], moment: Moment) -> Result<String, String> {
        let values: Values =
            values.iter().map(|(name, value)| ((*name).to_owned(), Text::read(value).expect("a text"))).collect();
        let text = Text::read(written)?.filled(&values)?;
        template_of(&text, moment, false).map(|template| template.to_string())
    }

    #[test]
    fn texts_are_templates() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let seen = shown(text, &[("a", "x-$host"), ("b", "")], Moment::Request);
            assert_eq!(seen.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("", Ok(""));
        check("plain", Ok("plain"));
        check("$a", Ok("x-{host}"));
        check("${a}/$b$request_method", Ok("x-{host}/{method}"));
        check("$scheme://$host$request_uri", Ok("{scheme}://{host}{asked.uri}"));
        check("{host}", Ok("{{host}}"));
        check("5$", Err("a `$` of it has no name behind it"));
        check("$nothing", Err("the variable `$nothing` is not known there"));
        check("$upstream_http_x", Err("the variable `$upstream_http_x` is not known there"));
        check("a\nb", Err("a text of it has control characters"));
    }

    #[test]
    fn values_do_not_grow_without_end() {
        let long = "y".repeat(3000);
        assert!(shown("$a$a", &[("a", &long)], Moment::Request).is_err());
        assert_eq!(shown("$sent_http_x_a", &[], Moment::Response).as_deref(), Ok("{response.header.x-a}"));
    }
}
