//! What `if` asks, as conditions of a route. What no condition of ours asks by itself is looked up in a map with one
//! row; what `set` remembers in one `if` for another is the conditions of the first.

use super::asked::{AskedVariable, turned};
use super::client_values::{ClientValue, TRUE, Wanted};
use super::patterns::{alternatives, group_names, has_groups, host_expression, is_host, is_of_path, key_of, pattern_of};
use super::request_uris::ASKED;
use super::scope::Levels;
use super::tables::{Tables, number_of_group};
use super::variables::{Moment, TextPart, Values, parts};
use crate::braces::{Statement, named};
use crate::outline::{DROPPED, REPORTED};
use crate::sent_paths::sent;
use crate::spelling;
use tidegate_kdl::quoted;
use tidegate_model::{expression, is_claimed, parse_network};

/// What an `if` asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    AskedVariable(AskedVariable),
    Always,
    Never,
    /// Whether there is a file of the request's path: `f`, `d`, `e`; or none.
    File {
        kind: char,
        is_there: bool,
    },
}

/// What conditions are read with.
pub struct Asking<'r, 's> {
    pub tables: &'r Tables<'s>,
    pub values: &'r Values<'s>,
    pub levels: &'r Levels<'s>,
}

/// So many variables may depend on one another.
const OPEN_MAX: usize = 4;
const NO_VARIABLE: &str = "nothing here has what it asks for: `match` has method, path, host, fields, cookies, parameters, addresses \
                           and maps";
const NO_EXPRESSION: &str = "its expression is none of ours: there are no look-arounds and no back-references";

impl Asking<'_, '_> {
    pub fn question(&self, statement: &Statement) -> Result<Question, String> {
        let words = words(statement);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [test @ ("-f" | "!-f" | "-d" | "!-d" | "-e" | "!-e"), what] => file_test(test, what),
            [variable] => self.is_set(variable),
            [variable, "=", value] => self.equals(variable, value, true),
            [variable, "!=", value] => self.equals(variable, value, false),
            [variable, sign @ ("~" | "~*" | "!~" | "!~*"), pattern] => self.fits(variable, sign, pattern),
            _ => Err(NO_VARIABLE.to_owned()),
        }
    }

    /// What is asked, and how it differs from what was written.
    pub fn question_and_how(&self, statement: &Statement) -> Result<(Question, Option<&'static str>), String> {
        if let Some(asked) = self.reported_plain(statement) {
            return Ok((Question::AskedVariable(asked), Some(REPORTED)));
        }
        let is_raw = statement.argument().contains("$request_uri")
            && statement.arguments().iter().any(|word| spelling::asks_for_raw_or_slash(word));
        Ok((self.question(statement)?, is_raw.then_some(spelling::RAW)))
    }

    /// Whether a client comes without TLS, where a block that refuses or sends on asks what a proxy in front says.
    /// All that no such proxy says comes so here, and is shut out as well.
    fn reported_plain(&self, statement: &Statement) -> Option<AskedVariable> {
        let words = words(statement);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let is_plain = matches!(
            words.as_slice(),
            [_, "!=", "https"]
                | [_, "=", "http"]
                | [_, "!~" | "!~*", "^https$" | "https" | "^https"]
                | [_, "~" | "~*", "^http$" | "http$"]
        );
        let name = words.first()?.trim_start_matches('$').trim_matches(['{', '}']);
        let is_reported = name == "http_x_forwarded_proto" && !super::doors::is_believed(self.levels, "x_forwarded_proto");
        let sends = |inner: &Statement| match inner.name() {
            "return" => true,
            "rewrite" => {
                let to = inner.arguments().get(1).map_or("", String::as_str);
                let flag = inner.arguments().get(2).map_or("", String::as_str);
                matches!(flag, "permanent" | "redirect") || to.starts_with("http") || to.starts_with("$scheme")
            }
            _ => false,
        };
        (is_plain && is_reported && statement.inside().iter().any(sends)).then(|| AskedVariable::of("scheme=\"http\""))
    }

    fn is_set(&self, written: &str) -> Result<Question, String> {
        let name = written.trim_start_matches('$').trim_matches(['{', '}']);
        if name == "invalid_referer" {
            return self.invalid_referer();
        }
        if let Some(flag) = self.flag(name)? {
            return flag.is_true();
        }
        self.is_known(name)?;
        if let Some(value) = ClientValue::of(name) {
            return Ok(Question::AskedVariable(value.asked(Wanted::Fitting(TRUE), self.tables)));
        }
        if name == "https" {
            return Ok(Question::AskedVariable(AskedVariable::of("scheme=\"https\"")));
        }
        if let Some(map) = self.tables.map_name(name) {
            return Ok(Question::AskedVariable(AskedVariable::of(format!("map={}", quoted(&format!("{map}=~^([^0]|0.)"))))));
        }
        if matches!(self.values.filled(written, &mut Vec::new()).as_str(), "" | "0") {
            return Ok(Question::Never);
        }
        self.by_map(written, "~^([^0]|0.)", "1")
            .map(|map| Question::AskedVariable(AskedVariable::of(format!("map={}", quoted(&map)))))
    }

    fn equals(&self, written: &str, value: &str, is_equal: bool) -> Result<Question, String> {
        let name = written.trim_start_matches('$').trim_matches(['{', '}']);
        if let Some(flag) = self.flag(name)? {
            return flag.equals(value, is_equal);
        }
        self.is_known(name)?;
        let filled = self.values.filled(value, &mut Vec::new());
        // A host is looked for in any case; that it is another one is asked of what was sent.
        let is_plain_host = name == "http_host" && is_equal && is_host(&filled);
        if let Some(own) = ClientValue::of(name).filter(|_| !filled.contains('$') && !is_plain_host) {
            let wanted = Wanted::Text(&filled);
            let asked = if is_equal { own.asked(wanted, self.tables) } else { own.refused(wanted, self.tables) };
            return Ok(Question::AskedVariable(asked));
        }
        let asked = if value.is_empty() { self.is_empty(name, written)? } else { self.one_value(name, written, value)? };
        match asked {
            Question::AskedVariable(asked) if !is_equal => {
                asked.negated().map(Question::AskedVariable).ok_or_else(|| NO_VARIABLE.to_owned())
            }
            Question::Always if !is_equal => Ok(Question::Never),
            Question::Never if !is_equal => Ok(Question::Always),
            asked => Ok(asked),
        }
    }

    /// `Err` where it is a field of requests that no condition sees.
    fn is_known(&self, name: &str) -> Result<(), String> {
        let dropped = name.strip_prefix("http_").filter(|field| is_claimed(field));
        let is_lost = dropped.is_some_and(|field| !super::doors::is_believed(self.levels, field));
        if is_lost { Err(DROPPED.to_owned()) } else { Ok(()) }
    }

    fn is_empty(&self, name: &str, written: &str) -> Result<Question, String> {
        match self.is_set(written)? {
            Question::AskedVariable(asked) => {
                asked.negated().map(Question::AskedVariable).ok_or_else(|| format!("nothing here has `{name}`"))
            }
            Question::Always => Ok(Question::Never),
            other => Ok(other),
        }
    }

    fn one_value(&self, name: &str, written: &str, value: &str) -> Result<Question, String> {
        let value = self.values.filled(value, &mut Vec::new());
        let of = |condition: String| Ok(Question::AskedVariable(AskedVariable::of(condition)));
        if value.contains('$') {
            return Err("two variables are not compared here: `map` looks one up".to_owned());
        }
        match name {
            "request_method" => of(format!("method={}", quoted(&value))),
            "host" | "http_host" if is_host(&value) => of(format!("host={}", quoted(&value.to_ascii_lowercase()))),
            "scheme" if matches!(value.as_str(), "http" | "https") => of(format!("scheme={}", quoted(&value))),
            "https" if value == "on" => of("scheme=\"https\"".to_owned()),
            "server_port" => match value.as_str() {
                "80" => of("scheme=\"http\"".to_owned()),
                "443" => of("scheme=\"https\"".to_owned()),
                _ => Err("ports are said in the address of a site, as in `site \"http://:8080\"`".to_owned()),
            },
            "remote_addr" if parse_network(&value).is_ok() => of(format!("client={}", quoted(&value))),
            "uri" | "document_uri" if value.starts_with('/') && !value.contains(['*', '?']) => {
                of(format!("path={}", quoted(&exactly(&value))))
            }
            "ssl_client_verify" if value == "SUCCESS" => of("client-fingerprint=\"~.\"".to_owned()),
            "ssl_client_verify" if value == "NONE" => of("not client-fingerprint=\"~.\"".to_owned()),
            "geoip_country_code" | "geoip2_data_country_code" | "geoip2_data_country_iso_code" => {
                of(format!("country={}", quoted(&value)))
            }
            _ => {
                if let Some(map) = self.tables.map_name(name) {
                    return of(format!("map={}", quoted(&format!("{map}={}", pattern_of(&value)))));
                }
                self.by_map(written, &key_of(&value), "1")
                    .map(|map| Question::AskedVariable(AskedVariable::of(format!("map={}", quoted(&map)))))
            }
        }
    }

    fn fits(&self, written: &str, sign: &str, pattern: &str) -> Result<Question, String> {
        let flag = if sign.ends_with('*') { "(?i)" } else { "" };
        let text = format!("{flag}{pattern}");
        let is_path = matches!(written.trim_start_matches('$'), "uri" | "document_uri");
        if let Some((positive, negative)) = super::expressions::not_ahead(pattern).filter(|_| is_path && !sign.starts_with('!')) {
            let not = format!("not path={}", quoted(&format!("~{flag}{}", sent(&negative))));
            return Ok(Question::AskedVariable(AskedVariable {
                paths: vec![format!("{flag}{}", sent(&positive))],
                ..AskedVariable::of(not)
            }));
        }
        if expression(&text).build().is_err() {
            return Err(NO_EXPRESSION.to_owned());
        }
        let name = written.trim_start_matches('$').trim_matches(['{', '}']);
        self.is_known(name)?;
        if let Some(own) = ClientValue::of(name) {
            let wanted = Wanted::Fitting(&text);
            if sign.starts_with('!') {
                return Ok(Question::AskedVariable(own.refused(wanted, self.tables)));
            }
            let captures = if has_groups(pattern) { self.captured(written, pattern, &text) } else { Vec::new() };
            return Ok(Question::AskedVariable(AskedVariable { captures, ..own.asked(wanted, self.tables) }));
        }
        let asked = self.fitting(name, written, pattern, &text)?;
        if !sign.starts_with('!') {
            return Ok(Question::AskedVariable(asked));
        }
        asked.negated().map(Question::AskedVariable).ok_or_else(|| NO_VARIABLE.to_owned())
    }

    fn fitting(&self, name: &str, written: &str, pattern: &str, text: &str) -> Result<AskedVariable, String> {
        // What is not there is the empty text in nginx.
        let takes_nothing = expression(text).build().is_ok_and(|built| built.is_match(b""));
        let asked_of = |condition: String, there: String| {
            if takes_nothing {
                AskedVariable { alternatives: vec![turned(&there), condition], ..AskedVariable::default() }
            } else {
                AskedVariable::of(condition)
            }
        };
        match name {
            "request_method" => {
                if let Some(methods) = alternatives(pattern) {
                    return Ok(AskedVariable::of(format!("method={}", quoted(&methods))));
                }
            }
            "uri" | "document_uri" => return Ok(AskedVariable { paths: vec![sent(text)], ..AskedVariable::default() }),
            // Path and query: only what begins with plain text is of the path alone.
            "request_uri" if is_of_path(pattern) => {
                return Ok(AskedVariable { paths: vec![text.to_owned()], ..AskedVariable::default() });
            }
            "remote_addr" | "host" | "request_uri" => {}
            _ => {
                if let Some(map) = self.tables.map_name(name) {
                    let there = format!("map={}", quoted(map));
                    return Ok(asked_of(format!("map={}", quoted(&format!("{map}=~{text}"))), there));
                }
            }
        }
        let map = self.by_map(written, &format!("~{text}"), if has_groups(pattern) { "$1" } else { "1" })?;
        let captures = self.captured(written, pattern, text);
        Ok(AskedVariable { captures, ..AskedVariable::of(format!("map={}", quoted(&map))) })
    }

    /// What groups are called: maps that have them. Nothing is written for those that nobody asks for.
    fn captured(&self, written: &str, pattern: &str, text: &str) -> Vec<(String, String)> {
        let Some(key) = self.key(written) else { return Vec::new() };
        let block = self.levels.inner();
        let is_used = |name: &str| uses(block, name);
        let names = (1..=9).map(|number: usize| number.to_string()).chain(group_names(pattern));
        names
            .filter(|name| is_used(name))
            .filter_map(|name| {
                let number = number_of_group(pattern, &name)?;
                let map = self.tables.made(&key, &format!("~{text}"), &format!("${number}"));
                Some((name, format!("{{map.{map}}}")))
            })
            .collect()
    }

    fn key(&self, written: &str) -> Option<String> {
        self.values.template(written, Moment::Request, self.tables, &mut Vec::new())
    }

    fn by_map(&self, written: &str, row: &str, value: &str) -> Result<String, String> {
        let key = self.key(written).filter(|key| key.contains('{')).ok_or_else(|| NO_VARIABLE.to_owned())?;
        if key.contains("{map.") {
            return Err("a map is not looked up by what another one has".to_owned());
        }
        // A path is decoded there.
        let row =
            row.strip_prefix('~').filter(|_| key.contains("{path}")).map_or(row.to_owned(), |text| format!("~{}", sent(text)));
        let row = if key.contains(ASKED) && row.starts_with('~') { spelling::with_any_codes(&row) } else { row };
        Ok(self.tables.made(&key, &row, value))
    }

    /// `valid_referers none blocked server_names *.example.com`
    fn invalid_referer(&self) -> Result<Question, String> {
        let valid = self.levels.nearest(&["valid_referers"]);
        let words: Vec<&str> = valid.iter().flat_map(|line| line.arguments()).map(String::as_str).collect();
        if words.is_empty() {
            return Ok(Question::Never);
        }
        let (mut hosts, mut is_none, mut is_blocked) = (Vec::new(), false, false);
        for word in words {
            match word {
                "none" => is_none = true,
                "blocked" => is_blocked = true,
                "server_names" => hosts.extend(
                    self.levels
                        .nearest(&["server_name"])
                        .iter()
                        .flat_map(|line| line.arguments())
                        .filter(|name| !name.starts_with('~') && *name != "_")
                        .map(|name| host_expression(name)),
                ),
                word if word.starts_with('~') => hosts.push(word.trim_start_matches(['~', '^']).to_owned()),
                word => hosts.push(host_expression(word)),
            }
        }
        let known = format!("(?i)^https?://({})", hosts.join("|"));
        if expression(&known).build().is_err() {
            return Err(NO_EXPRESSION.to_owned());
        }
        let mut conditions = Vec::new();
        if is_blocked {
            conditions.push("header=\"Referer: ~(?i)^https?://\"".to_owned());
        } else if is_none {
            conditions.push("header=\"Referer\"".to_owned());
        }
        if !hosts.is_empty() {
            conditions.push(format!("not header={}", quoted(&format!("Referer: ~{known}"))));
        }
        if is_blocked && !is_none {
            return Err("who sends no `Referer` is let in with `none` in `valid_referers`".to_owned());
        }
        Ok(Question::AskedVariable(AskedVariable { conditions, ..AskedVariable::default() }))
    }

    /// What `set` in blocks of `if` remembers in a variable; `None` where none does.
    fn flag(&self, name: &str) -> Result<Option<Flag>, String> {
        if self.tables.open.borrow().iter().any(|own| own == name) || self.tables.open.borrow().len() > OPEN_MAX {
            return Err("what it remembers depends on what it remembered before".to_owned());
        }
        self.tables.open.borrow_mut().push(name.to_owned());
        let flag = self.flag_of(name);
        self.tables.open.borrow_mut().pop();
        flag
    }

    fn flag_of(&self, name: &str) -> Result<Option<Flag>, String> {
        let mut flag = Flag::default();
        let mut is_flag = false;
        let mut set = Vec::new();
        for statement in self.levels.all().iter().rev().flat_map(|block| block.iter()) {
            match (statement.name(), statement.arguments()) {
                ("set", [variable, value]) if variable.trim_start_matches('$') == name => {
                    set.push(statement.start());
                    flag = Flag { default: value.clone(), rows: Vec::new() };
                }
                ("if", _) => {
                    let Some(value) = named(statement.inside(), "set").find(|set| set.argument().trim_start_matches('$') == name)
                    else {
                        continue;
                    };
                    is_flag = true;
                    let value = value.arguments().get(1).cloned().unwrap_or_default();
                    // What asks for the variable itself goes round.
                    if statement.arguments().iter().any(|word| super::variables::names(word, name)) {
                        return Err("what it remembers depends on what it remembered before".to_owned());
                    }
                    match self.question(statement)? {
                        Question::AskedVariable(asked) => {
                            self.tables.claimed.borrow_mut().insert(statement.start());
                            flag.rows.push((asked, value));
                        }
                        Question::Never => {}
                        Question::Always => flag = Flag { default: value, rows: Vec::new() },
                        Question::File { .. } => return Err("no route asks whether a file is there".to_owned()),
                    }
                }
                _ => {}
            }
        }
        if is_flag {
            self.tables.claimed.borrow_mut().extend(set);
        }
        let appended = [format!("${name}"), format!("${{{name}}}")];
        for (_, value) in &mut flag.rows {
            for start in &appended {
                if let Some(rest) = value.strip_prefix(start.as_str()) {
                    *value = format!("\u{1}{rest}");
                }
            }
        }
        Ok(is_flag.then_some(flag))
    }
}

/// A variable that blocks of `if` have set.
#[derive(Debug, Default)]
struct Flag {
    default: String,
    /// What is asked, and the value that it has then; one that begins with U+0001 is put behind what was there.
    rows: Vec<(AskedVariable, String)>,
}

impl Flag {
    fn is_true(&self) -> Result<Question, String> {
        let is_true = |value: &str| !matches!(value, "" | "0");
        if !is_true(&self.default) && self.rows.iter().all(|(_, value)| is_true(value)) {
            return self.any_of(|_| true);
        }
        Err("what it remembers is set and taken back".to_owned())
    }

    fn any_of(&self, is_meant: impl Fn(&str) -> bool) -> Result<Question, String> {
        let rows: Vec<&AskedVariable> = self.rows.iter().filter(|(_, value)| is_meant(value)).map(|(asked, _)| asked).collect();
        match rows.as_slice() {
            [] => Ok(Question::Never),
            [one] => Ok(Question::AskedVariable((*one).clone())),
            several => {
                let lines: Option<Vec<String>> = several.iter().map(|asked| asked.line()).collect();
                let alternatives = lines.ok_or_else(|| "its conditions are too many for one route".to_owned())?;
                Ok(Question::AskedVariable(AskedVariable { alternatives, ..AskedVariable::default() }))
            }
        }
    }

    fn equals(&self, value: &str, is_equal: bool) -> Result<Question, String> {
        if self.rows.iter().any(|(_, own)| own.starts_with('\u{1}')) {
            return self.all_of(value, is_equal);
        }
        let others = self.rows.iter().filter(|(_, own)| own != value).count();
        let is_default = self.default == value;
        match (is_default, is_equal) {
            (false, true) if others == 0 => self.any_of(|own| own == value),
            (true, false) if others == self.rows.len() => self.any_of(|own| own != value),
            (true, true) if others == self.rows.len() => {
                let negated: Option<Vec<AskedVariable>> = self.rows.iter().map(|(asked, _)| asked.negated()).collect();
                let conditions = negated.ok_or_else(|| NO_VARIABLE.to_owned())?.into_iter().flat_map(|asked| asked.conditions);
                Ok(Question::AskedVariable(AskedVariable { conditions: conditions.collect(), ..AskedVariable::default() }))
            }
            _ => Err("what it remembers is set and taken back".to_owned()),
        }
    }

    /// Values put one behind another: each part is a condition that has to hold.
    fn all_of(&self, value: &str, is_equal: bool) -> Result<Question, String> {
        let mut rest = value.strip_prefix(self.default.as_str()).unwrap_or(value);
        let mut all = AskedVariable::default();
        for (asked, own) in &self.rows {
            let own = own.trim_start_matches('\u{1}');
            match rest.strip_prefix(own).filter(|_| !own.is_empty()) {
                Some(behind) => {
                    rest = behind;
                    all.paths.extend(asked.paths.clone());
                    all.conditions.extend(asked.conditions.clone());
                    all.alternatives.extend(asked.alternatives.clone());
                }
                None => {
                    let not = asked.negated().ok_or_else(|| NO_VARIABLE.to_owned())?;
                    all.conditions.extend(not.conditions);
                }
            }
        }
        if rest.is_empty() && is_equal {
            return Ok(Question::AskedVariable(all));
        }
        Err("what it remembers is none of its values".to_owned())
    }
}

/// The pattern of one path, in each of its spellings.
pub fn exactly(path: &str) -> String {
    if spelling::has_two_spellings(path) {
        return format!("~^{}$", spelling::in_either_spelling(path));
    }
    spelling::encoded(path)
}

/// The words between the parentheses.
fn words(statement: &Statement) -> Vec<String> {
    let mut words: Vec<String> = statement.arguments().to_vec();
    if let Some(first) = words.first_mut() {
        *first = first.strip_prefix('(').unwrap_or(first).to_owned();
    }
    if let Some(last) = words.last_mut() {
        *last = last.strip_suffix(')').unwrap_or(last).to_owned();
    }
    let is_edge_empty = |words: &[String], at: usize| words.get(at).is_some_and(String::is_empty);
    if words.len() > 1 && is_edge_empty(&words, 0) {
        words.remove(0);
    }
    if words.len() > 1 && is_edge_empty(&words, words.len() - 1) && statement.arguments().last().is_some_and(|last| last == ")") {
        words.pop();
    }
    words
}

fn file_test(test: &str, what: &str) -> Result<Question, String> {
    if !what.contains("$request_filename") && !what.ends_with("$uri") {
        return Err(
            "no route asks whether a file is there: `files … try=\"/maintenance.html\" else=\"next\"` answers with one that is"
                .into(),
        );
    }
    let kind = test.chars().last().unwrap_or('f');
    Ok(Question::File { kind, is_there: !test.starts_with('!') })
}

fn uses(block: &[Statement], name: &str) -> bool {
    block.iter().any(|statement| {
        statement.words.iter().any(|word| parts(word).contains(&TextPart::Variable(name))) || uses(statement.inside(), name)
    })
}

#[cfg(test)]
mod tests {
    use super::{Asking, Question};
    use crate::braces::of_nginx;
    use crate::nginx::scope::Levels;
    use crate::nginx::tables::Tables;
    use crate::nginx::variables::Values;

    fn asked(text: &str) -> String {
        let statements = of_nginx(text);
        let levels = Levels::of(vec![&statements]);
        let (tables, values) = (Tables::default(), Values::default());
        let asking = Asking { tables: &tables, values: &values, levels: &levels };
        let last = statements.iter().rfind(|statement| statement.name() == "if").expect("an if");
        match asking.question(last) {
            Ok(Question::AskedVariable(asked)) => {
                let paths = asked.paths.iter().map(|path| format!("path~{path}"));
                let either = asked.alternatives.join(" or ");
                let all: Vec<String> = paths.chain(asked.conditions).chain([either]).filter(|one| !one.is_empty()).collect();
                all.join(" ")
            }
            Ok(question) => format!("{question:?}"),
            Err(why) => format!("none: {}", why.split(':').next().unwrap_or_default()),
        }
    }

    #[test]
    fn conditions_are_those_of_a_route() {
        let check = |text: &str, expected: &str| assert_eq!(asked(text), expected, "for {text}");
        check("if ($request_method = POST) { }", "method=\"POST\"");
        check("if ($request_method !~ ^(GET|HEAD)$ ) { }", "not method=\"GET,HEAD\"");
        check("if ($host = 'www.example.com') { }", "host=\"www.example.com\"");
        check("if ($host != \"a.example.com\") { }", "not host=\"a.example.com\"");
        check("if ($http_user_agent ~* (bot|spider)) { }", "header=\"User-Agent: ~(?i)(bot|spider)\"");
        check("if ($http_x_key = \"\") { }", "not header=\"X-Key: ~.\"");
        check("if ($arg_debug) { }", "map=\"if-1=~^(?:[^0]|0.)\"");
        check("if ($cookie_beta = 1) { }", "map=\"if-1=1\"");
        check("if ($cookie_beta != 1) { }", "not map=\"if-1=1\" or map=\"if-2\"");
        check("if ($http_x_key != 1) { }", "map=\"if-1=1\"");
        check("if ($http_x_key ~ a.*b) { }", "map=\"if-1\"");
        check("if ($uri ~ \\.php$) { }", "path~\\.php(?:%0A)?$");
        check("if ($scheme = http) { }", "scheme=\"http\"");
        check("if ($request_uri ~ ^/old) { }", "path~^/old");
        check("if ($args ~* \"x=1\") { }", "map=\"if-1\"");
        check("if ($ssl_client_verify != SUCCESS) { }", "not client-fingerprint=\"~.\"");
        check("if (!-e $request_filename) { }", "File { kind: 'e', is_there: false }");
        check("if (-f /srv/maintenance) { }", "none: no route asks whether a file is there");
        check("if ($request_body ~ x) { }", "none: nothing here has what it asks for");
        check("if ($uri ~ ^/(?!a)) { }", "path~^/ not path=\"~^/(?:a)\"");
        check("if ($uri ~ a(?!b)) { }", "none: its expression is none of ours");
    }

    #[test]
    fn what_one_remembers_another_asks() {
        let check = |text: &str, expected: &str| assert_eq!(asked(text), expected, "for {text}");
        check(
            "set $skip 0; if ($request_method = POST) { set $skip 1; } if ($args) { set $skip 1; } if ($skip = 1) { }",
            "method=\"POST\" or map=\"if-1\"",
        );
        check(
            "set $t \"\"; if ($host = a.b) { set $t A; } if ($arg_x) { set $t \"${t}B\"; } if ($t = AB) { }",
            "host=\"a.b\" map=\"if-1=~^(?:[^0]|0.)\"",
        );
        check("set $ok 0; if ($arg_x = 1) { set $ok 1; } if ($ok = 0) { }", "not map=\"if-1=1\"");
    }

    #[test]
    fn referers_are_fields() {
        let check = |text: &str, expected: &str| assert_eq!(asked(text), expected, "for {text}");
        check(
            "valid_referers none blocked a.example.com; if ($invalid_referer) { }",
            "header=\"Referer: ~(?i)^https?://\" not header=\"Referer: ~(?i)^https?://(a\\\\.example\\\\.com(:[0-9]+)?(/|$))\"",
        );
    }
}
