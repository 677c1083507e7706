//! Variables that a file has by another: `map`, `geo` and `split_clients`, as maps of ours. Only those that something
//! uses are written.

use super::request_uris::ASKED;
use super::variables::{Moment, TextPart, Values, names, parts};
use crate::accounts::Origin;
use crate::braces::Statement;
use crate::outline::{DROPPED, OutlinedSetting};
use crate::sent_paths::sent;
use crate::spelling;
use crate::texts::literal;
use std::cell::RefCell;
use std::collections::BTreeSet;
use tidegate_kdl::quoted;
use tidegate_model::{expression, is_claimed, parse_network};

const COOKIES: &str = "the name of a cookie is told apart by large and small letters here, and a comma ends no cookie";

/// All of a file.
#[derive(Debug, Default)]
pub struct Tables<'s> {
    all: Vec<VariableTable<'s>>,
    used: RefCell<BTreeSet<usize>>,
    /// Maps that conditions need, which the file has no name for.
    made: RefCell<Vec<MadeMap>>,
    /// What groups of the conditions around are called.
    pub captured: RefCell<Vec<(String, String)>>,
    /// Statements that conditions are made of.
    pub claimed: RefCell<BTreeSet<usize>>,
    /// Variables whose conditions are being read, so that none goes round.
    pub open: RefCell<Vec<String>>,
}

#[derive(Debug)]
pub struct VariableTable<'s> {
    pub variable: &'s str,
    pub statement: &'s Statement,
    /// What the variable is found by, as it is written.
    pub key: String,
    name: String,
    /// `Err` says why it is none of ours.
    written: Result<OutlinedSetting, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct MadeMap {
    name: String,
    key: String,
    row: String,
    value: String,
    /// What all other keys have, where they have anything.
    default: Option<String>,
}

impl<'s> Tables<'s> {
    pub fn add(&mut self, statement: &'s Statement) {
        let (key, variable) = match (statement.name(), statement.arguments()) {
            ("geo", [variable]) => ("$remote_addr".to_owned(), variable),
            (_, [key, variable]) => (key.clone(), variable),
            _ => return,
        };
        let variable = variable.trim_start_matches('$');
        let name = self.free_name(variable);
        let written = match statement.name() {
            "map" => of_map(statement, &key, &name),
            "geo" => of_geo(statement, &key, &name),
            _ => Err("shares of clients are said with `split`, as in `split by=\"{client.ip}\" { proxy \"a\" weight=95; proxy \"b\" weight=5; }`".into()),
        };
        self.all.push(VariableTable { variable, statement, key, name, written });
    }

    fn free_name(&self, variable: &str) -> String {
        let own: String = variable.chars().map(|c| c.to_ascii_lowercase()).collect();
        let mut name = own.clone();
        let mut number = 1;
        while self.all.iter().any(|table| table.name == name) {
            number += 1;
            name = format!("{own}-{number}");
        }
        name
    }

    pub fn get(&self, variable: &str) -> Option<&VariableTable<'s>> {
        self.all.iter().find(|table| table.variable == variable)
    }

    /// What the variable has, if its table is one of ours; it is written then.
    pub fn placeholder(&self, variable: &str) -> Option<String> {
        let captured = self.captured.borrow();
        if let Some((_, ours)) = captured.iter().rev().find(|(name, _)| name == variable) {
            return Some(ours.clone());
        }
        self.map_name(variable).map(|name| format!("{{map.{name}}}"))
    }

    /// The name of the map that the variable is looked up in.
    pub fn map_name(&self, variable: &str) -> Option<&str> {
        let index = self.all.iter().position(|table| table.variable == variable)?;
        self.all[index].written.as_ref().ok()?;
        self.used.borrow_mut().insert(index);
        Some(&self.all[index].name)
    }

    /// The name of a map with one row, for what no condition asks by itself.
    pub fn made(&self, key: &str, row: &str, value: &str) -> String {
        self.add_made(MadeMap { key: key.into(), row: row.into(), value: value.into(), ..MadeMap::default() })
    }

    /// The name of a map with one row, where all other keys have a value as well.
    pub fn made_with(&self, key: &str, row: &str, value: &str, default: &str) -> String {
        let default = Some(default.to_owned());
        self.add_made(MadeMap { key: key.into(), row: row.into(), value: value.into(), default, ..MadeMap::default() })
    }

    fn add_made(&self, map: MadeMap) -> String {
        let mut made = self.made.borrow_mut();
        let is_same = |known: &&MadeMap| MadeMap { name: String::new(), ..(*known).clone() } == map;
        if let Some(known) = made.iter().find(is_same) {
            return known.name.clone();
        }
        let name = format!("if-{}", made.len() + 1);
        made.push(MadeMap { name: name.clone(), ..map });
        name
    }

    /// Whether conditions ask for the address of a client, be it by a map.
    pub fn ask_for_address(&self, conditions: &[String]) -> bool {
        let is_of_address = |key: &str| key.contains("{client.");
        let keys_of = |name: &str| {
            let of_file = self.all.iter().filter(|table| table.name == name).any(|table| table.key.contains("remote_addr"));
            of_file || self.made.borrow().iter().any(|map| map.name == name && is_of_address(&map.key))
        };
        conditions.iter().any(|line| {
            let maps = line.split("map=\"").skip(1).filter_map(|rest| rest.split(['"', '=']).next());
            line.contains("client=\"") || maps.into_iter().any(keys_of)
        })
    }

    /// The maps to write, and the statements that they are made of.
    pub fn settings(&self) -> Vec<OutlinedSetting> {
        let used = self.used.borrow();
        let of_file = self.all.iter().enumerate().filter(|(index, _)| used.contains(index));
        let mut settings: Vec<OutlinedSetting> = of_file.filter_map(|(_, table)| table.written.clone().ok()).collect();
        settings.extend(self.made.borrow().iter().map(|map| OutlinedSetting {
            line: format!(
                "map {} key={}{} {{ row {} {}; }}",
                quoted(&map.name),
                quoted(&map.key),
                map.default.as_ref().map(|value| format!(" default={}", quoted(value))).unwrap_or_default(),
                quoted(&map.row),
                quoted(&map.value)
            ),
            origin: Origin::default(),
        }));
        settings
    }

    /// Why a table is not written, or that nothing needs it: by where it begins.
    pub fn left(&self, statements: &[Statement]) -> (Vec<usize>, Vec<(usize, String)>) {
        let used = self.used.borrow();
        let (mut unneeded, mut reasons) = (Vec::new(), Vec::new());
        for (_, table) in self.all.iter().enumerate().filter(|(index, _)| !used.contains(index)) {
            let at = table.statement.start();
            if !is_named(statements, table.variable, table.statement) {
                unneeded.push(at);
            } else if let Err(why) = &table.written {
                reasons.push((at, why.clone()));
            } else {
                let why = "what uses its variable is not carried; a map is `map \"name\" key=\"{host}\" { row \"a\" \"b\" }`";
                reasons.push((at, why.to_owned()));
            }
        }
        (unneeded, reasons)
    }
}

/// Whether anything but its own block names a variable.
fn is_named(statements: &[Statement], variable: &str, own: &Statement) -> bool {
    statements.iter().any(|statement| {
        let is_own = std::ptr::eq(statement, own);
        let is_in_words = statement.words.iter().any(|word| names(word, variable));
        !is_own && (is_in_words || is_named(statement.inside(), variable, own))
    })
}

/// A row of a table that is read.
struct ReadRow {
    key: String,
    value: String,
    is_expression: bool,
}

fn of_map(statement: &Statement, key: &str, name: &str) -> Result<OutlinedSetting, String> {
    let template = Values::default()
        .template(key, Moment::Request, &Tables::default(), &mut Vec::new())
        .ok_or_else(|| format!("nothing here has `{key}`, so it cannot be looked up"))?;
    let is_dropped =
        |part: &TextPart<'_>| matches!(part, TextPart::Variable(name) if name.strip_prefix("http_").is_some_and(is_claimed));
    if parts(key).iter().any(is_dropped) {
        return Err(DROPPED.to_owned());
    }
    let is_cookie = |part: &TextPart<'_>| matches!(part, TextPart::Variable(name) if name.starts_with("cookie_"));
    let has_cookie = parts(key).iter().any(is_cookie);
    let is_hostnames = statement.inside().iter().any(|row| row.name() == "hostnames" && row.arguments().is_empty());
    let (mut rows, mut default, mut origin) = (Vec::new(), String::new(), Origin::default());
    origin.carry(statement.start());
    for row in statement.inside() {
        match (row.name(), row.arguments()) {
            ("hostnames" | "volatile", []) => {}
            ("include", _) => {
                return Err("rows of another file are `map \"name\" key=\"…\" file=\"rows.csv\"`, with `key,value` a line".into());
            }
            ("default", [value]) => default = plain_value(value)?,
            (key, [value]) => add_row(key, value, is_hostnames, &mut rows)?,
            _ => return Err("a row of it has no value".into()),
        }
    }
    if template.contains(ASKED) || template.contains("{uri}") {
        if rows.iter().any(|row| spelling::asks_for_raw_or_slash(&row.key)) {
            origin.differ(statement.start(), spelling::RAW);
        }
        let expressions = rows.iter_mut().filter(|row| row.is_expression);
        expressions.for_each(|row| row.key = spelling::with_any_codes(&row.key));
    }
    if has_cookie {
        origin.differ(statement.start(), COOKIES);
    }
    if template == "{path}" {
        rows = rows_of_paths(rows);
    }
    // A host has small letters here, whatever was asked for.
    let is_host = template == "{host}";
    for row in rows.iter_mut().filter(|row| is_host && !row.is_expression) {
        row.key.make_ascii_lowercase();
    }
    let has_letters = |row: &ReadRow| !is_host && !row.is_expression && row.key.chars().any(|c| c.is_ascii_alphabetic());
    let is_sensitive = rows.iter().any(|row| row.is_expression && !row.key.contains("(?i)"));
    let ignores_case = rows.iter().any(has_letters) && !is_sensitive;
    if rows.iter().any(has_letters) && is_sensitive && !is_hostnames {
        rows = without_case(rows);
    }
    Ok(setting(name, &template, &default, ignores_case, &rows, origin))
}

/// Texts that have no case, beside expressions that have one: expressions in front of all others, where nginx looks at
/// them.
fn without_case(rows: Vec<ReadRow>) -> Vec<ReadRow> {
    let has_letters = |row: &ReadRow| !row.is_expression && row.key.chars().any(|c| c.is_ascii_alphabetic());
    let (texts, rest): (Vec<_>, Vec<_>) = rows.into_iter().partition(has_letters);
    let blind = |row: ReadRow| {
        let text = regex_syntax::escape(row.key.strip_prefix('\\').unwrap_or(&row.key));
        ReadRow { key: format!("~(?i)^{text}$"), value: row.value.replace('$', "$$"), is_expression: true }
    };
    texts.into_iter().map(blind).chain(rest).collect()
}

/// Rows of a path that is decoded there, by what clients send.
fn rows_of_paths(rows: Vec<ReadRow>) -> Vec<ReadRow> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for row in rows {
        if row.is_expression {
            rest.push(ReadRow { key: format!("~{}", sent(row.key.trim_start_matches('~'))), ..row });
        } else if spelling::has_two_spellings(row.key.trim_start_matches('\\')) {
            let path = row.key.trim_start_matches('\\');
            // Texts come before expressions there, and have no case.
            let key = format!("~(?i)^{}$", spelling::in_either_spelling(path));
            first.push(ReadRow { key, value: row.value.replace('$', "$$"), is_expression: true });
        } else {
            let (mark, path) = row.key.strip_prefix('\\').map_or(("", row.key.as_str()), |path| ("\\", path));
            rest.push(ReadRow { key: format!("{mark}{}", spelling::encoded(path)), ..row });
        }
    }
    first.extend(rest);
    first
}

fn setting(name: &str, key: &str, default: &str, ignores_case: bool, rows: &[ReadRow], origin: Origin) -> OutlinedSetting {
    let default = if default.is_empty() { String::new() } else { format!(" default={}", quoted(default)) };
    let case = if ignores_case { " ignore-case=#true" } else { "" };
    let rows: Vec<String> = rows.iter().map(|row| format!("row {} {};", quoted(&row.key), quoted(&row.value))).collect();
    let block = if rows.is_empty() { String::new() } else { format!(" {{ {} }}", rows.join(" ")) };
    OutlinedSetting { line: format!("map {} key={}{default}{case}{block}", quoted(name), quoted(key)), origin }
}

fn add_row(key: &str, value: &str, is_hostnames: bool, rows: &mut Vec<ReadRow>) -> Result<(), String> {
    if let Some(written) = key.strip_prefix('~') {
        let (flag, written) = written.strip_prefix('*').map_or(("", written), |rest| ("(?i)", rest));
        let text = format!("{flag}{written}");
        if expression(&text).build().is_err() {
            return Err("an expression of it is none of ours: there are no look-arounds and no back-references".into());
        }
        let value = captured_value(value, written)?;
        rows.push(ReadRow { key: format!("~{text}"), value, is_expression: true });
        return Ok(());
    }
    let value = plain_value(value)?;
    let key = key.replace("\\\\", "\\");
    let mut add = |key: String| {
        if !rows.iter().any(|row| row.key.eq_ignore_ascii_case(&key)) {
            rows.push(ReadRow { key, value: value.clone(), is_expression: false });
        }
    };
    match (is_hostnames, key.strip_prefix('.')) {
        (true, Some(domain)) => {
            add(domain.to_owned());
            add(format!("*.{domain}"));
        }
        (true, None) => add(key),
        (false, _) => add(exact(key)),
    }
    Ok(())
}

/// A key that means itself, whatever it begins or ends with.
fn exact(key: String) -> String {
    let is_pattern = key.starts_with(['~', '*', '\\']) || key.ends_with('*');
    let is_network_like = key.contains('/') && key.starts_with(|c: char| c.is_ascii_digit()) && parse_network(&key).is_err();
    if is_pattern || is_network_like { format!("\\{key}") } else { key }
}

fn plain_value(value: &str) -> Result<String, String> {
    if parts(value).iter().any(|part| matches!(part, TextPart::Variable(_))) {
        return Err("values of maps are texts here, and this one has a variable in a value".into());
    }
    Ok(literal(value))
}

/// The value of an expression's row, with groups by their numbers.
fn captured_value(value: &str, expression: &str) -> Result<String, String> {
    let mut out = String::new();
    for part in parts(value) {
        match part {
            TextPart::Plain(plain) => out.push_str(&literal(plain).replace('$', "$$")),
            TextPart::Variable(name) => match number_of_group(expression, name) {
                Some(number) => out.push_str(&format!("${number}")),
                None => return Err("values of maps are texts here, and this one has a variable in a value".into()),
            },
        }
    }
    Ok(out)
}

/// The number of a group, which may have a name.
pub fn number_of_group(expression: &str, name: &str) -> Option<usize> {
    if let Ok(number) = name.parse::<usize>() {
        return (number > 0).then_some(number);
    }
    let mut number = 0;
    let mut rest = expression;
    while let Some(at) = rest.find('(') {
        let is_escaped = rest[..at].ends_with('\\');
        let behind = &rest[at + 1..];
        let named = ["?<", "?P<", "?'"].iter().find_map(|start| behind.strip_prefix(start));
        let is_look = ["?<=", "?<!"].iter().any(|start| behind.starts_with(start));
        if !is_escaped && !is_look && (named.is_some() || !behind.starts_with('?')) {
            number += 1;
            if named.is_some_and(|own| own.split(['>', '\'']).next() == Some(name)) {
                return Some(number);
            }
        }
        rest = behind;
    }
    None
}

fn of_geo(statement: &Statement, key: &str, name: &str) -> Result<OutlinedSetting, String> {
    let template = Values::default()
        .template(key, Moment::Request, &Tables::default(), &mut Vec::new())
        .ok_or_else(|| format!("nothing here has `{key}`, so it cannot be looked up"))?;
    let (mut rows, mut default, mut origin): (Vec<ReadRow>, String, Origin) = (Vec::new(), String::new(), Origin::default());
    origin.carry(statement.start());
    for row in statement.inside() {
        match (row.name(), row.arguments()) {
            ("default", [value]) => default = plain_value(value)?,
            ("ranges", []) => return Err("ranges of addresses are networks here: `row \"10.0.0.0/8\" \"1\"` in a `map`".into()),
            ("proxy" | "proxy_recursive" | "delete", _) => {
                return Err("which proxies are trusted is said in a `listener`, with `trusted-proxies`".into());
            }
            ("include", _) => return Err("rows of another file are `map \"name\" key=\"{client.ip}\" file=\"rows.csv\"`".into()),
            (network, [value]) if parse_network(network).is_ok() => {
                rows.retain(|row| row.key != network);
                rows.push(ReadRow { key: network.to_owned(), value: plain_value(value)?, is_expression: false });
            }
            _ => return Err("a row of it is no network".into()),
        }
    }
    Ok(setting(name, &template, &default, false, &rows, origin))
}

/// The shares of `split_clients`, in parts of a hundred times a hundred.
pub fn shares<'s>(table: &VariableTable<'s>) -> Option<Vec<(u32, &'s str)>> {
    let mut left = 10_000_u32;
    let mut found = Vec::new();
    for row in table.statement.inside() {
        let [value] = row.arguments() else { return None };
        let share = match row.name().strip_suffix('%') {
            Some(percent) => hundredths(percent)?,
            None if row.name() == "*" => left,
            None => return None,
        };
        left = left.checked_sub(share)?;
        found.push((share, value.as_str()));
    }
    Some(found)
}

fn hundredths(percent: &str) -> Option<u32> {
    let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
    let part = format!("{part:0<2}");
    let whole: u32 = whole.parse().ok()?;
    whole.checked_mul(100)?.checked_add(part.get(..2)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::{Tables, number_of_group, shares};
    use crate::braces::of_nginx;

    fn made(text: &str, variable: &str) -> Option<String> {
        let statements = of_nginx(text);
        let mut tables = Tables::default();
        for statement in &statements {
            tables.add(statement);
        }
        tables.placeholder(variable)?;
        let setting = tables.settings().into_iter().next()?;
        Some(setting.line)
    }

    #[test]
    fn tables_are_maps() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(made(text, "v").as_deref(), expected, "for {text}");
        check(
            "map $host $v { default a; b.example.com c; ~*^x(.*)$ $1; }",
            Some(r#"map "v" key="{host}" default="a" { row "b.example.com" "c"; row "~(?i)^x(.*)$" "$1"; }"#),
        );
        check("geo $v { default 0; 10.0.0.0/8 1; }", Some(r#"map "v" key="{client.ip}" default="0" { row "10.0.0.0/8" "1"; }"#));
        check(
            "map $host $v { hostnames; .example.com a; }",
            Some(r#"map "v" key="{host}" { row "example.com" "a"; row "*.example.com" "a"; }"#),
        );
        check("map $uri $v { /a* b; }", Some(r#"map "v" key="{path}" { row "~(?i)^/a(?:\\*|%2A)$" "b"; }"#));
        check("map $host $v { default $host; }", None);
        check("map $request_body $v { a b; }", None);
        check("map $host $v { ~^(?!a) b; }", None);
    }

    #[test]
    fn groups_have_numbers() {
        assert_eq!(number_of_group("^(a)(?<b>c)", "b"), Some(2));
        assert_eq!(number_of_group("^(?:a)\\((c)", "1"), Some(1));
        assert_eq!(number_of_group("^(?:a)\\((?<x>c)", "x"), Some(1));
        assert_eq!(number_of_group("(a)", "x"), None);
    }

    #[test]
    fn shares_are_what_is_left_at_the_end() {
        let statements = of_nginx("split_clients $remote_addr $v { 0.5% a; 10% b; * c; }");
        let mut tables = Tables::default();
        tables.add(&statements[0]);
        assert_eq!(shares(tables.get("v").expect("the table")), Some(vec![(50, "a"), (1_000, "b"), (8_950, "c")]));
    }
}
