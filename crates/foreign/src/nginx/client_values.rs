//! How nginx reads what clients send into `$http_…`, `$cookie_…` and `$arg_…`, and what asks for the same here.
//!
//! A field that is sent twice is its first line in older versions, and all of them with commas between in newer ones: a
//! condition holds here where one of these readings fits, and its opposite where one of them does not. A cookie is the
//! first of its name, in any case, and ends at a semicolon alone; an argument the first of its name, in any case, as it
//! was sent.

use super::asked::{AskedVariable, turned};
use super::patterns::{key_of, pattern_of};
use super::tables::Tables;
use super::variables::field_name;
use crate::separators::crosses;
use tidegate_kdl::quoted;
use tidegate_model::expression;

/// What a variable of nginx has of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientValue<'v> {
    /// By the name of the field.
    Field(String),
    Cookie(&'v str),
    Argument(&'v str),
}

/// What a value has to be.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'w> {
    /// The text itself, or nothing where it is empty.
    Text(&'w str),
    /// What an expression fits.
    Fitting(&'w str),
}

/// Neither nothing nor a zero.
pub const TRUE: &str = "^(?:[^0]|0.)";

impl<'v> ClientValue<'v> {
    pub fn of(variable: &'v str) -> Option<ClientValue<'v>> {
        if let Some(field) = variable.strip_prefix("http_") {
            return Some(ClientValue::Field(field_name(field)));
        }
        let cookie = || variable.strip_prefix("cookie_").map(ClientValue::Cookie);
        cookie().or_else(|| variable.strip_prefix("arg_").map(ClientValue::Argument))
    }

    pub fn asked(&self, wanted: Wanted<'_>, tables: &Tables<'_>) -> AskedVariable {
        match (self, wanted) {
            (ClientValue::Field(name), wanted) => of_field(name, wanted, tables),
            (_, Wanted::Text("")) => AskedVariable::of(turned(&self.by_map("~.", tables))),
            (_, Wanted::Text(text)) => AskedVariable::of(self.by_map(&pattern_of(text), tables)),
            (_, Wanted::Fitting(text)) => AskedVariable::of(self.by_map(&format!("~{text}"), tables)),
        }
    }

    /// What holds where the value is another one.
    pub fn refused(&self, wanted: Wanted<'_>, tables: &Tables<'_>) -> AskedVariable {
        match (self, wanted) {
            (ClientValue::Field(name), Wanted::Text("")) => AskedVariable::of(there(name)),
            (ClientValue::Field(name), wanted) => {
                let row = match wanted {
                    Wanted::Text(text) => key_of(text),
                    Wanted::Fitting(text) => format!("~{text}"),
                };
                let map = tables.made_with(&key_of_field(name), &row, "0", "1");
                AskedVariable::of(format!("map={}", quoted(&format!("{map}=1"))))
            }
            (ClientValue::Argument(_), wanted) => {
                let asked = self.asked(wanted, tables);
                AskedVariable { conditions: asked.conditions.iter().map(|one| turned(one)).collect(), ..asked }
            }
            (ClientValue::Cookie(name), wanted) => {
                let asked = self.asked(wanted, tables);
                let mut alternatives: Vec<String> = asked.conditions.iter().map(|one| turned(one)).collect();
                // Which of two in several lines comes first is not asked.
                if !matches!(wanted, Wanted::Text("")) {
                    let twice = format!("~(?i)(?:^|[;,] *){name} *=.*[;,] *{name} *=");
                    let map = tables.made(COOKIES, &twice, "1");
                    alternatives.push(format!("map={}", quoted(&map)));
                }
                if let [one] = alternatives.as_slice() {
                    return AskedVariable::of(one.clone());
                }
                AskedVariable { alternatives, ..AskedVariable::default() }
            }
        }
    }

    /// A condition on what the map has that finds the value.
    fn by_map(&self, pattern: &str, tables: &Tables<'_>) -> String {
        let (key, row) = match self {
            ClientValue::Cookie(name) => (COOKIES.to_owned(), format!("~(?i)(?:^|[;,] *){name} *= *([^;]*)")),
            ClientValue::Argument(name) => ("{query}".to_owned(), format!("~(?i)(?:^|&){name}=([^&]*)")),
            ClientValue::Field(name) => (key_of_field(name), "~(.*)".to_owned()),
        };
        let map = tables.made_with(&key, &row, "$1", "");
        format!("map={}", quoted(&format!("{map}={pattern}")))
    }
}

const COOKIES: &str = "{request.header.Cookie}";

fn key_of_field(name: &str) -> String {
    format!("{{request.header.{name}}}")
}

/// Whether a field has a value at all.
fn there(name: &str) -> String {
    format!("header={}", quoted(&format!("{name}: ~.")))
}

fn of_field(name: &str, wanted: Wanted<'_>, tables: &Tables<'_>) -> AskedVariable {
    let separators = if name == "Cookie" { "; " } else { ", " };
    let by_header = |pattern: &str| format!("header={}", quoted(&format!("{name}: {pattern}")));
    match wanted {
        Wanted::Text("") => AskedVariable::of(turned(&there(name))),
        // What newer versions put together of several lines is looked at beside each of them.
        Wanted::Text(text) if text.contains(separators) => {
            let map = tables.made(&key_of_field(name), &key_of(text), "1");
            AskedVariable::of(format!("map={}", quoted(&map)))
        }
        Wanted::Text(text) => AskedVariable::of(by_header(&pattern_of(text))),
        Wanted::Fitting(text) => {
            let condition = if crosses(separators, text) {
                let map = tables.made(&key_of_field(name), &format!("~{text}"), "1");
                format!("map={}", quoted(&map))
            } else {
                by_header(&format!("~{text}"))
            };
            // What is not there is the empty text.
            let takes_nothing = expression(text).build().is_ok_and(|built| built.is_match(b""));
            if takes_nothing && condition.starts_with("header=") {
                let missing = turned(&there(name));
                return AskedVariable { alternatives: vec![missing, condition], ..AskedVariable::default() };
            }
            AskedVariable::of(condition)
        }
    }
}
