//! What stands in an annotation as statements that are known, with each that is not.

use super::conditions::{Question, check_pattern};
use super::table::{SnippetPlace, Word, why_nothing, word};
use super::texts::Text;
use super::{AnswerChanges, PlacedStatement, Rewriting, RewritingEnd, Setting, Snippet, Statement};
use crate::annotations::{is_token, network, placeholder};
use std::time::Duration;
use tidegate_foreign::nginx_words::{self, bytes, milliseconds};
use tidegate_model::address::parse_host_pattern;
use tidegate_model::{ForwardAuth, HostPattern, StatusRange, is_of_framing};

/// What was read of a snippet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Read {
    pub snippet: Snippet,
    /// What is not known; nothing of it is in the snippet.
    pub unknown: Vec<Told>,
    /// What has nothing to do here, or does something else.
    pub remarks: Vec<Told>,
}

/// What is said of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Counted from one.
    pub line: usize,
    pub word: String,
    /// Without a full stop.
    pub says: String,
}

/// More are not read: each may be a route.
const STATEMENTS_MAX: usize = 100;
/// More are not told, and not read either.
const UNKNOWN_MAX: usize = 8;
/// Of a name in a message.
const SHOWN_MAX: usize = 40;
const NAME_BYTES_MAX: usize = 200;
/// The longest that there are, as for annotations.
const CONNECT_MAX: Duration = Duration::from_mins(5);
const READ_MAX: Duration = Duration::from_hours(24);
/// What ingress-nginx itself sets, or nginx: by these requests go elsewhere.
const OWN_VARIABLES: [&str; 31] = [
    "args",
    "auth_cookie",
    "auth_keepalive_share_vars",
    "auth_path",
    "auth_response_headers",
    "balancer_ewma_score",
    "best_http_host",
    "cache_key",
    "connection_upgrade",
    "cors",
    "document_uri",
    "escaped_request_uri",
    "full_x_forwarded_for",
    "ingress_name",
    "limit_rate",
    "location_path",
    "namespace",
    "pass_access_scheme",
    "pass_port",
    "pass_server_port",
    "proxy_alternative_upstream_name",
    "proxy_host",
    "proxy_upstream_name",
    "query_string",
    "redirect_to",
    "req_id",
    "service_name",
    "service_port",
    "target",
    "the_real_ip",
    "tmp_cache_key",
];
/// Beginnings of names that nginx has itself.
const OWN_BEGINNINGS: [&str; 9] = ["http_", "sent_", "upstream_", "cookie_", "arg_", "ssl_", "geoip", "proxy_protocol_", "jwt_"];

/// Reads what stands in that block.
pub fn read(text: &str, place: SnippetPlace) -> Read {
    let mut reader = Reader { text, read: Read::default(), count: 0 };
    match nginx_words::statements(text) {
        Ok(statements) => {
            let all = reader.block(&statements, place);
            reader.read.snippet.statements = all;
        }
        Err((at, why)) => {
            let word = text.get(at..).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default().to_owned();
            reader.unknown(at, &word, why);
        }
    }
    reader.read
}

struct Reader<'t> {
    text: &'t str,
    read: Read,
    count: usize,
}

/// What becomes of a statement.
enum Outcome {
    Known(Statement),
    /// Nothing is done for it, or something else; `Some`: it is taken all the same.
    Remarked(Option<Statement>, String),
}

type StatementReading = Result<Outcome, String>;

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    fn told(&self, at: usize, word: &str, says: String) -> Told {
        let word = word.chars().filter(|c| !c.is_control() && *c != '`').take(SHOWN_MAX).collect();
        Told { line: self.line(at), word, says }
    }

    fn unknown(&mut self, at: usize, word: &str, says: String) {
        if self.read.unknown.len() < UNKNOWN_MAX {
            let told = self.told(at, word, says);
            self.read.unknown.push(told);
        }
    }

    fn block(&mut self, statements: &[nginx_words::Statement], place: SnippetPlace) -> Vec<PlacedStatement> {
        let mut all = Vec::new();
        for written in statements {
            self.count += 1;
            if self.count > STATEMENTS_MAX {
                let says = format!("a snippet has at most {STATEMENTS_MAX} statements");
                self.unknown(written.start(), written.name(), says);
                break;
            }
            match self.statement(written, place) {
                Ok((name, Outcome::Known(statement))) => {
                    all.push(PlacedStatement { line: self.line(written.start()), word: name, is_of_all: false, statement });
                }
                Ok((name, Outcome::Remarked(statement, says))) => {
                    let line = self.line(written.start());
                    all.extend(statement.map(|statement| PlacedStatement { line, word: name, is_of_all: false, statement }));
                    let told = self.told(written.start(), written.name(), says);
                    self.read.remarks.push(told);
                }
                Err(why) => self.unknown(written.start(), written.name(), why),
            }
        }
        all
    }

    fn statement(&mut self, written: &nginx_words::Statement, place: SnippetPlace) -> Result<(&'static str, Outcome), String> {
        let name = written.name();
        let Some((name, word, _)) = word(name).filter(|(_, _, places)| places.contains(&place)) else {
            return match (why_nothing(name, place), word(name)) {
                (Some(why), _) if written.block.is_none() => Ok(("", Outcome::Remarked(None, why.to_owned()))),
                (_, Some(_)) => Err("it may not stand there".to_owned()),
                (_, None) => Err("it is not one of the statements that are read".to_owned()),
            };
        };
        if written.block.is_some() != (word == Word::If) {
            return Err("it is written with a block, or without one, where that may not be".to_owned());
        }
        if word == Word::If {
            let question = Question::read(written.arguments())?;
            let place = if place == SnippetPlace::Server { SnippetPlace::ServerIf } else { SnippetPlace::LocationIf };
            let inside = self.block(written.inside(), place);
            return Ok((name, Outcome::Known(Statement::If { question, inside })));
        }
        let arguments: Vec<&str> = written.arguments().iter().map(String::as_str).collect();
        Ok((name, simple(word, &arguments, place)?))
    }
}

fn simple(word: Word, arguments: &[&str], place: SnippetPlace) -> StatementReading {
    let known = |statement: Result<Statement, String>| statement.map(Outcome::Known);
    match word {
        Word::AddHeader => known(add_header(arguments)),
        Word::MoreSetHeaders => known(more_headers(arguments, true)),
        Word::MoreClearHeaders => known(more_headers(arguments, false)),
        Word::ProxyHideHeader => match arguments {
            [name] => known(field_name(name).map(Statement::HideHeader)),
            _ => Err("it is one name of a field".to_owned()),
        },
        Word::ProxySetHeader => set_request_header(arguments, place),
        Word::MoreSetInputHeaders => known(input_headers(arguments, true)),
        Word::MoreClearInputHeaders => known(input_headers(arguments, false)),
        Word::AuthRequestSet => known(auth_request_set(arguments)),
        Word::Set => known(set(arguments)),
        Word::Return => answer(arguments),
        Word::Rewrite => known(rewrite(arguments)),
        Word::Break if arguments.is_empty() => Ok(Outcome::Known(Statement::Break)),
        Word::Break | Word::If => Err("nothing stands behind it".to_owned()),
        Word::Allow => known(access(arguments, true)),
        Word::Deny => known(access(arguments, false)),
        Word::DefaultType => known(content_type(arguments)),
        Word::ProxyConnectTimeout => known(timeout(arguments, CONNECT_MAX).map(Setting::ConnectTimeout).map(Statement::Setting)),
        Word::ProxyReadTimeout => known(timeout(arguments, READ_MAX).map(Setting::ReadTimeout).map(Statement::Setting)),
        Word::ProxySendTimeout => known(timeout(arguments, READ_MAX).map(Setting::SendTimeout).map(Statement::Setting)),
        Word::ClientMaxBodySize => match arguments {
            [size] => match bytes(size) {
                Some(bytes_max) => Ok(Outcome::Known(Statement::Setting(Setting::BodyMax(bytes_max)))),
                None => Err("it is a size, as in `8m`".to_owned()),
            },
            _ => Err("it is one size".to_owned()),
        },
        Word::ProxySslName => match arguments {
            [name] => match parse_host_pattern(name) {
                Ok(HostPattern::Exact(name)) => Ok(Outcome::Known(Statement::Setting(Setting::ServerName(name)))),
                Ok(_) | Err(_) => Err("it is the name of a host".to_owned()),
            },
            _ => Err("it is the name of a host".to_owned()),
        },
    }
}

/// A name that fields may have and that is not the connection's own.
fn field_name(name: &str) -> Result<String, String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !is_token(name) || name.contains('*') {
        return Err("a name of a field in it is none, or is several by a `*`".to_owned());
    }
    if is_of_framing(name) {
        return Err(format!("`{}` is of the connection, and nobody else says it", name.to_ascii_lowercase()));
    }
    Ok(name.to_owned())
}

fn add_header(arguments: &[&str]) -> Result<Statement, String> {
    let (name, value, always) = match arguments {
        [name, value] => (name, value, false),
        [name, value, "always"] => (name, value, true),
        _ => return Err("it is a name and a value, and `always` perhaps".to_owned()),
    };
    if ["last-modified", "etag"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err("it replaces that field only here: write `more_set_headers`".to_owned());
    }
    Ok(Statement::AddHeader { name: field_name(name)?, value: Text::read(value)?, always })
}

fn more_headers(arguments: &[&str], sets: bool) -> Result<Statement, String> {
    let mut read = AnswerChanges { statuses: Vec::new(), types: Vec::new(), changes: Vec::new() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "-s" => {
                let listed = words.next().ok_or("behind `-s` stands a list of statuses")?;
                for status in listed.split([' ', ',']).filter(|status| !status.is_empty()) {
                    let status = status.parse().ok().filter(|status| (100..600).contains(status));
                    let status: u16 = status.ok_or("behind `-s` stands a list of statuses")?;
                    read.statuses.push(StatusRange { first: status, last: status });
                }
            }
            "-t" => {
                let listed = words.next().ok_or("behind `-t` stands a list of media types")?;
                for of_type in listed.split(' ').filter(|of_type| !of_type.is_empty()) {
                    read.types.push(media_type(of_type)?);
                }
            }
            option if option.starts_with('-') => return Err("of its options `-s` and `-t` are read".to_owned()),
            field => read.changes.push(field_change(field, sets)?),
        }
    }
    if read.changes.is_empty() {
        return Err("no field stands in it".to_owned());
    }
    Ok(Statement::ChangeHeaders(read))
}

/// `Name: value`; without a value the field is taken out.
fn field_change(written: &str, sets: bool) -> Result<(String, Option<Text>), String> {
    let (name, value) = written.split_once(':').unwrap_or((written, ""));
    let (name, value) = (field_name(name.trim())?, value.trim());
    Ok((name, (sets && !value.is_empty()).then(|| Text::read(value)).transpose()?))
}

fn media_type(text: &str) -> Result<String, String> {
    let is_one = text.split_once('/').is_some_and(|(left, right)| {
        !left.is_empty() && !right.is_empty() && is_token(left) && is_token(right) && !text.contains('*')
    });
    if is_one { Ok(text.to_ascii_lowercase()) } else { Err("a media type in it is none, as `text/html` is one".to_owned()) }
}

fn content_type(arguments: &[&str]) -> Result<Statement, String> {
    match arguments {
        [of_type] => media_type(of_type).map(Statement::ContentType),
        _ => Err("it is one media type".to_owned()),
    }
}

fn set_request_header(arguments: &[&str], place: SnippetPlace) -> StatementReading {
    let [name, value] = arguments else { return Err("it is a name and a value".to_owned()) };
    let remarked = |says: &str| Ok(Outcome::Remarked(None, says.to_owned()));
    if is_of_framing(name) {
        return remarked("connections are the proxy's own, and upgrades go on by themselves");
    }
    let name = field_name(name)?;
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    if place == SnippetPlace::Auth && (is("host") || name.to_ascii_lowercase().starts_with("x-forwarded-")) {
        return Err("the question says that itself".to_owned());
    }
    if is("x-forwarded-for") {
        if value.starts_with('$') {
            return remarked("servers are told the client's address, and those of trusted proxies, by themselves");
        }
        return Err("servers are told the client's address, and never another one".to_owned());
    }
    let is_host = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    let text = Text::read(value)?;
    if is("host") && text.as_literal().is_some_and(|text| text.is_empty() || !is_host(text)) {
        return Err("the value is not a host".to_owned());
    }
    Ok(Outcome::Known(Statement::SetRequestHeader { name, value: text }))
}

fn input_headers(arguments: &[&str], sets: bool) -> Result<Statement, String> {
    let mut changes = Vec::new();
    for written in arguments {
        if written.starts_with('-') {
            return Err("none of its options is read".to_owned());
        }
        let (name, value) = field_change(written, sets)?;
        if name.eq_ignore_ascii_case("host") {
            return Err("by `Host` a request would be another one: write `proxy_set_header Host`".to_owned());
        }
        changes.push((name, value));
    }
    if changes.is_empty() { Err("no field stands in it".to_owned()) } else { Ok(Statement::ChangeInput(changes)) }
}

/// Without its `$`.
fn variable(written: &str) -> Result<String, String> {
    let name = written.strip_prefix('$').unwrap_or_default();
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name && !name.starts_with(|c: char| c.is_ascii_digit()) && name.len() <= NAME_BYTES_MAX {
        return Ok(name.to_owned());
    }
    Err("it is about a variable, as in `$x`".to_owned())
}

fn set(arguments: &[&str]) -> Result<Statement, String> {
    let [name, value] = arguments else { return Err("it is a variable and its value".to_owned()) };
    let name = variable(name)?;
    let is_own = OWN_VARIABLES.contains(&&*name) || OWN_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    if is_own || placeholder(&name).is_some() {
        return Err(format!("`${name}` is a variable of nginx or of ingress-nginx, and decides something there"));
    }
    Ok(Statement::Set { variable: name, value: Text::read(value)? })
}

fn auth_request_set(arguments: &[&str]) -> Result<Statement, String> {
    let [name, value] = arguments else { return Err("it is a variable and its value".to_owned()) };
    let name = variable(name)?;
    let field = variable(value).ok().and_then(|value| value.strip_prefix("upstream_http_").map(|field| field.replace('_', "-")));
    let field =
        field.filter(|field| !field.is_empty()).ok_or("its value is a field of the answer, as `$upstream_http_x_user`")?;
    let is_cookie = field.eq_ignore_ascii_case("set-cookie");
    if ForwardAuth::is_never_copied(&field) && !is_cookie {
        return Err(format!("`{field}` of an answer says nothing about who asks"));
    }
    Ok(Statement::AuthSet { variable: name, field })
}

fn answer(arguments: &[&str]) -> StatementReading {
    const FORM: &str = "it is a status from 200 to 599, and a text or a URL perhaps";
    let is_url = |text: &str| ["http://", "https://", "$scheme"].iter().any(|beginning| text.starts_with(beginning));
    let known = |statement| Ok(Outcome::Known(statement));
    let (code, text) = match arguments {
        [url] if is_url(url) => return known(Statement::Redirect { status: 302, to: Text::read(url)? }),
        [code] => (code, None),
        [code, text] => (code, Some(*text)),
        _ => return Err(FORM.to_owned()),
    };
    let status = code.parse().ok().filter(|status| (200..600).contains(status)).ok_or(FORM)?;
    match (status, text) {
        (301 | 302 | 303 | 307 | 308, Some(url)) => known(Statement::Redirect { status, to: Text::read(url)? }),
        (301 | 302 | 303 | 307 | 308, None) => Err("it says not where clients are sent".to_owned()),
        (444, _) => {
            let says = "it is answered with 403, where nginx ends the connection without a word";
            Ok(Outcome::Remarked(Some(Statement::Return { status: 403, text: Text::default() }), says.to_owned()))
        }
        (204 | 205 | 304, _) | (_, None) => known(Statement::Return { status, text: Text::default() }),
        (_, Some(text)) => known(Statement::Return { status, text: Text::read(text)? }),
    }
}

fn rewrite(arguments: &[&str]) -> Result<Statement, String> {
    let (pattern, to, flag) = match arguments {
        [pattern, to] => (pattern, to, ""),
        [pattern, to, flag] => (pattern, to, *flag),
        _ => return Err("it is an expression, a path or URL, and a flag perhaps".to_owned()),
    };
    let is_url = ["http://", "https://", "$scheme"].iter().any(|beginning| to.starts_with(beginning));
    let end = match flag {
        "permanent" => RewritingEnd::Redirect(301),
        "redirect" => RewritingEnd::Redirect(302),
        "" | "last" if is_url => RewritingEnd::Redirect(302),
        "break" if is_url => RewritingEnd::Redirect(302),
        "break" => RewritingEnd::Break,
        "" | "last" => {
            return Err(
                "by it another path of the host may take the request: write `break`, or another path in the Ingress".to_owned()
            );
        }
        _ => return Err("its flag is `break`, `redirect` or `permanent`".to_owned()),
    };
    let groups = check_pattern(pattern)?;
    Ok(Statement::Rewrite(Rewriting { pattern: (*pattern).to_owned(), groups, to: Text::read(to)?, end }))
}

fn access(arguments: &[&str], allows: bool) -> Result<Statement, String> {
    let networks = match arguments {
        ["all"] => ["0.0.0.0/0", "::/0"].iter().filter_map(|all| network(all)).collect(),
        // Nobody comes by a socket of the machine.
        ["unix:"] => Vec::new(),
        [text] => vec![network(text).ok_or("it is a network, an address, or `all`")?],
        _ => return Err("it is one network".to_owned()),
    };
    Ok(Statement::Access { allows, networks })
}

fn timeout(arguments: &[&str], most: Duration) -> Result<Duration, String> {
    match arguments {
        [text] => {
            let time = milliseconds(text).filter(|milliseconds| *milliseconds > 0).ok_or("it is a time, as in `60s`")?;
            Ok(Duration::from_millis(time).min(most))
        }
        _ => Err("it is one time".to_owned()),
    }
}
