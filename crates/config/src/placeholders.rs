//! `{placeholders}` in strings: what is filled in when the file is read (`{env.X}`, `{file.X}`), and what becomes a
//! template. What a filled-in value was is never shown again: messages about such a text quote what was written.

use crate::diagnostics::{Diagnostic, Location, nearest, shortened};
use crate::directives::map::MapUse;
use crate::forms::{Fault, instead_of_connection, is_of_connection, is_token};
use crate::kept_back::BroughtIn;
use crate::lowering::{Environment, Lowering};
use crate::regular::{open_regular, reason};
use crate::syntax::{Literal, Value};
use crate::table::Stage;
use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;
use tidegate_model::{LogField, Placeholder, Template, TemplatePart};

/// What `{file.X}` may bring in. Secrets and addresses are small; a larger file is a slip of the path.
const FILE_VALUE_BYTES_MAX: u64 = 1 << 20;

/// A text after `{env.X}` and `{file.X}` were filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    pub value: String,
    pub location: Location,
    /// Something was filled in, so the value must not be shown.
    pub secret: bool,
    /// Names of what was filled in, each with its text.
    filled: Vec<(String, String)>,
    /// As it stands in the file, for messages about a secret.
    written: String,
    verbatim: bool,
    source: Value,
}

impl Text {
    /// A number where text could stand as well.
    pub fn of_number(value: &Value, number: i128) -> Text {
        let written = number.to_string();
        Text {
            value: written.clone(),
            location: value.location.clone(),
            secret: false,
            filled: Vec::new(),
            written,
            verbatim: false,
            source: value.clone(),
        }
    }

    /// A part of it for itself; messages name the place of the whole.
    pub fn part_alone(&self, part: &str) -> Text {
        Text { value: part.to_owned(), verbatim: false, ..self.clone() }
    }

    /// Takes the path out of a URL, with what follows it.
    pub fn take_path(&mut self) -> Option<Text> {
        let host = self.value.find("://").map_or(0, |at| at + "://".len());
        let start = host + self.value[host..].find('/').filter(|_| !self.value.starts_with("unix:"))?;
        let path = self.value.split_off(start);
        let is_written = self.verbatim && !self.secret;
        let location = if is_written { self.source.part(start..start + path.len()) } else { self.location.clone() };
        Some(Text { value: path, location, verbatim: false, ..self.clone() })
    }

    /// For messages: the value, or when that may be a secret what was written in its place.
    pub fn shown(&self) -> &str {
        if self.secret { &self.written } else { &self.value }
    }

    /// The place of a part of the value, as precisely as it can be known.
    pub fn part(&self, part: Range<usize>) -> Location {
        if self.verbatim { self.source.part(part) } else { self.location.clone() }
    }

    /// What the text was parsed to. Otherwise what is wrong with it is reported, with what to write instead.
    pub fn parsed<T>(&self, lowering: &mut Lowering<'_>, code: &'static str, parsed: Result<T, Fault>) -> Option<T> {
        let report = |(reason, help): Fault| lowering.report(self.error(code, reason).help(help));
        parsed.map_err(report).ok()
    }

    /// An error about this text. A reason that was put together may quote the value, so it is kept back when that came
    /// from elsewhere.
    pub fn error(&self, code: &'static str, reason: impl Into<Cow<'static, str>>) -> Diagnostic {
        if !self.secret {
            return Diagnostic::error(code, self.location.clone(), reason);
        }
        let message = format!("the value filled in for `{}` cannot be used here", self.written);
        let diagnostic = Diagnostic::error(code, self.location.clone(), message).about_filled();
        match reason.into() {
            reason @ Cow::Borrowed(_) => diagnostic.note(reason),
            Cow::Owned(_) => diagnostic,
        }
        .note("the value is not shown, because it may be a secret")
    }
}

/// A file as a page: what is a placeholder is one, and every other brace stands for itself, since style sheets and
/// scripts are full of them.
pub fn page_template(text: &str) -> Template {
    let (mut parts, mut literal) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, from_brace) = rest.split_at(start);
        literal.push_str(before);
        let placeholder = from_brace.find('}').and_then(|end| {
            let placeholder = Placeholder::from_name(&from_brace[1..end])?;
            let is_named = match &placeholder {
                Placeholder::RequestHeader(name) | Placeholder::ResponseHeader(name) => is_token(name),
                Placeholder::Log(_) | Placeholder::LogOwn(_) => placeholder.is_of_error(),
                // Nothing says which maps a page may name, or that there is a `geoip`.
                Placeholder::Map(_) | Placeholder::Geo(_) => false,
                _ => true,
            };
            is_named.then_some((placeholder, end + 1))
        });
        match placeholder {
            Some((placeholder, length)) => {
                flush(&mut parts, &mut literal);
                parts.push(TemplatePart::Placeholder(placeholder));
                rest = &from_brace[length..];
            }
            None => {
                literal.push('{');
                rest = &from_brace[1..];
            }
        }
    }
    literal.push_str(rest);
    flush(&mut parts, &mut literal);
    Template { parts }
}

/// Text in which only `{env.X}` and `{file.X}` may stand; `{{` and `}}` are braces.
pub fn resolve_text(lowering: &mut Lowering<'_>, value: &Value) -> Option<Text> {
    let text = resolve(lowering, value, Braces::Doubled)?;
    note_filled(lowering, &text);
    Some(text)
}

/// Text that stands for a number, a time, a size or one of a few names: those are shown as what they are.
pub fn resolve_amount(lowering: &mut Lowering<'_>, value: &Value) -> Option<Text> {
    resolve(lowering, value, Braces::Doubled)
}

/// A pattern: regular expressions have braces of their own, so only `{env.X}` and `{file.X}` mean something.
pub fn resolve_pattern(lowering: &mut Lowering<'_>, value: &Value) -> Option<Text> {
    let is_regex = matches!(&value.literal, Literal::Text(raw) if raw.contains('~'));
    let text = resolve(lowering, value, if is_regex { Braces::Kept } else { Braces::Doubled })?;
    note_filled(lowering, &text);
    Some(text)
}

/// Text with placeholders. With `captures`, `$1` up to that number are the groups of a regular expression, and `$$` is
/// a dollar.
pub fn resolve_template(lowering: &mut Lowering<'_>, value: &Value, stage: Stage, captures: Option<usize>) -> Option<Template> {
    let Literal::Text(raw) = &value.literal else { return None };
    let errors_before = lowering.diagnostics.len();
    let mut parts: Vec<TemplatePart> = Vec::new();
    let mut literal = String::new();
    for piece in split(raw, Braces::Doubled) {
        match piece {
            TemplatePiece::Literal { text, start } => match captures {
                None => literal.push_str(text),
                Some(groups) => push_with_captures(lowering, value, (text, start), groups, &mut parts, &mut literal),
            },
            TemplatePiece::Brace(brace) => literal.push(brace),
            TemplatePiece::Placeholder { name, range } => match early(lowering, value, name, &range) {
                Early::Filled(text) => {
                    note_piece(lowering, &text, name);
                    literal.push_str(&text);
                }
                Early::Failed => {}
                Early::No => {
                    if let Some(placeholder) = known(lowering, value, name, &range, stage) {
                        flush(&mut parts, &mut literal);
                        parts.push(TemplatePart::Placeholder(placeholder));
                    }
                }
            },
            TemplatePiece::Unmatched(range) => lowering.report(unmatched(value, raw, range)),
        }
    }
    flush(&mut parts, &mut literal);
    let is_good = !lowering.has_errors_since(errors_before);
    variables_of_others(lowering, value, raw);
    is_good.then_some(Template { parts })
}

/// What nginx calls what here are placeholders. Nothing is put in their place: they would be sent as they stand.
const VARIABLES: &[(&str, &str)] = &[
    ("remote_addr", "{client.ip}"),
    ("realip_remote_addr", "{client.ip}"),
    ("remote_port", "{client.port}"),
    ("remote_user", "{auth.user}"),
    ("host", "{host}"),
    ("server_name", "{host}"),
    ("scheme", "{scheme}"),
    ("request_method", "{method}"),
    ("request_uri", "{uri}"),
    ("uri", "{path}"),
    ("document_uri", "{path}"),
    ("args", "{query}"),
    ("query_string", "{query}"),
    ("request_id", "{request.id}"),
    ("upstream_addr", "{upstream.address}"),
    ("ssl_protocol", "{tls.version}"),
];

fn variables_of_others(lowering: &mut Lowering<'_>, value: &Value, raw: &str) {
    for (at, _) in raw.match_indices('$') {
        let name = &raw[at + 1..];
        let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len())];
        let header = |prefix: &str| name.strip_prefix(prefix).filter(|name| !name.is_empty()).map(|name| name.replace('_', "-"));
        let own = match VARIABLES.iter().find(|(known, _)| *known == name) {
            Some((_, own)) => (*own).to_owned(),
            None => match (header("http_"), header("sent_http_")) {
                (Some(name), _) if name == "host" => "{host}".to_owned(),
                (Some(name), _) => format!("{{request.header.{name}}}"),
                (None, Some(name)) => format!("{{response.header.{name}}}"),
                (None, None) => continue,
            },
        };
        let message = format!("`${name}` is sent as it stands: variables are written in braces here");
        let diagnostic = Diagnostic::warning("variable-of-others", value.part(at..at + 1 + name.len()), message);
        lowering.report(diagnostic.help(format!("write `{own}`")));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Braces {
    /// `{{` is a brace, and a single one has to open a placeholder.
    Doubled,
    /// All braces stand for themselves, except those of `{env.` and `{file.`.
    Kept,
}

fn resolve(lowering: &mut Lowering<'_>, value: &Value, braces: Braces) -> Option<Text> {
    let Literal::Text(raw) = &value.literal else { return None };
    let mut failed = false;
    let mut filled = Vec::new();
    let mut result = String::with_capacity(raw.len());
    for piece in split(raw, braces) {
        match piece {
            TemplatePiece::Literal { text, .. } => result.push_str(text),
            TemplatePiece::Brace(brace) => result.push(brace),
            TemplatePiece::Placeholder { name, range } => match early(lowering, value, name, &range) {
                Early::Filled(text) => {
                    filled.push((name.to_owned(), text.clone()));
                    result.push_str(&text);
                }
                Early::Failed => failed = true,
                Early::No => {
                    failed = true;
                    lowering.report(not_here(value, name, range));
                }
            },
            TemplatePiece::Unmatched(range) => {
                failed = true;
                lowering.report(unmatched(value, raw, range));
            }
        }
    }
    if failed {
        return None;
    }
    Some(Text {
        verbatim: result == *raw,
        value: result,
        location: value.location.clone(),
        secret: !filled.is_empty(),
        filled,
        written: raw.clone(),
        source: value.clone(),
    })
}

/// What of a text must be shown as it was written, wherever the configuration is.
fn note_filled(lowering: &mut Lowering<'_>, text: &Text) {
    for (name, piece) in &text.filled {
        note_piece(lowering, piece, name);
    }
    if text.secret {
        lowering.filled.add(&text.value, &text.written);
    }
}

fn note_piece(lowering: &mut Lowering<'_>, text: &str, name: &str) {
    let written = format!("{{{name}}}");
    lowering.filled.add(text, &written);
    if text.contains(['{', '}']) {
        // Templates are written with these.
        lowering.filled.add(&text.replace('{', "{{").replace('}', "}}"), &written);
    }
}

enum TemplatePiece<'a> {
    Literal {
        text: &'a str,
        start: usize,
    },
    /// A doubled brace.
    Brace(char),
    Placeholder {
        name: &'a str,
        /// With the braces.
        range: Range<usize>,
    },
    /// `{` without `}`, or the other way round.
    Unmatched(Range<usize>),
}

fn split(raw: &str, braces: Braces) -> Vec<TemplatePiece<'_>> {
    let mut pieces = Vec::new();
    let mut literal_start = 0;
    let mut index = 0;
    while let Some(found) = raw[index..].find(['{', '}']) {
        let at = index + found;
        let rest = &raw[at..];
        let (piece, length) = match braces {
            Braces::Doubled if rest.starts_with("{{") => (TemplatePiece::Brace('{'), 2),
            Braces::Doubled if rest.starts_with("}}") => (TemplatePiece::Brace('}'), 2),
            Braces::Kept if !(rest.starts_with("{env.") || rest.starts_with("{file.")) => {
                index = at + 1;
                continue;
            }
            Braces::Doubled | Braces::Kept => match rest.find('}') {
                Some(end) if rest.starts_with('{') && !rest[1..end].contains('{') => {
                    (TemplatePiece::Placeholder { name: &rest[1..end], range: at..at + end + 1 }, end + 1)
                }
                _ => (TemplatePiece::Unmatched(at..at + 1), 1),
            },
        };
        if literal_start < at {
            pieces.push(TemplatePiece::Literal { text: &raw[literal_start..at], start: literal_start });
        }
        pieces.push(piece);
        index = at + length;
        literal_start = index;
    }
    if literal_start < raw.len() {
        pieces.push(TemplatePiece::Literal { text: &raw[literal_start..], start: literal_start });
    }
    pieces
}

enum Early {
    Filled(String),
    /// The fault was reported.
    Failed,
    /// Not one that is filled in when the file is read.
    No,
}

fn early(lowering: &mut Lowering<'_>, value: &Value, name: &str, range: &Range<usize>) -> Early {
    let at = value.part(range.clone());
    if let Some(written) = name.strip_prefix("env.") {
        // As shells have it: also for a variable that is there and empty.
        let (variable, otherwise) = written.split_once(":-").map_or((written, None), |(name, text)| (name, Some(text)));
        let found = lowering.variable(variable).filter(|text| otherwise.is_none() || !text.is_empty());
        return match found.or(otherwise.map(str::to_owned)) {
            Some(text) => filled(lowering, value, name, text),
            None => {
                let message = format!("the environment variable `{variable}` is not set");
                let help = match variable {
                    // Commands of a shell are asked without it.
                    "CREDENTIALS_DIRECTORY" => {
                        "systemd sets it for the unit; for a command, `sudo CREDENTIALS_DIRECTORY=/run/credentials/tidegate.service tidegate check`".to_owned()
                    }
                    _ => format!("set it, or say what holds without it, as in `{{env.{variable}:-value}}`"),
                };
                lowering.report(Diagnostic::error("missing-variable", at, message).help(help));
                Early::Failed
            }
        };
    }
    if let Some(path) = name.strip_prefix("file.") {
        return match file_value(lowering, at.clone(), path) {
            Ok(text) => filled(lowering, value, name, text),
            Err(reason) => {
                lowering.report(Diagnostic::error("cannot-read", at, format!("cannot read `{path}`: {reason}")));
                Early::Failed
            }
        };
    }
    Early::No
}

fn filled(lowering: &mut Lowering<'_>, value: &Value, name: &str, text: String) -> Early {
    if let Literal::Text(raw) = &value.literal {
        let written = format!("{{{name}}}");
        lowering.brought_in.push(BroughtIn { at: value.location.clone(), written, text: raw.clone(), value: text.clone() });
    }
    Early::Filled(text)
}

/// The content of a file without its last line break.
fn file_value(lowering: &mut Lowering<'_>, at: Location, path: &str) -> Result<String, String> {
    let mut text = read_text_file(lowering, at, path)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// A file that the configuration depends on from now on.
pub fn read_text_file(lowering: &mut Lowering<'_>, at: Location, path: &str) -> Result<String, String> {
    lowering.note_look_outside();
    if *lowering.environment == Environment::Nothing {
        return Err("nothing is read here".into());
    }
    let path = lowering.path(path, &at);
    lowering.read_files.push(path.clone());
    let file = open_regular(&path).map_err(|error| reason(&error))?;
    let mut text = String::new();
    file.take(FILE_VALUE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| reason(&error))?;
    if text.len() as u64 > FILE_VALUE_BYTES_MAX {
        return Err("it is larger than 1 MiB".into());
    }
    Ok(text)
}

fn known(lowering: &mut Lowering<'_>, value: &Value, name: &str, range: &Range<usize>, stage: Stage) -> Option<Placeholder> {
    let at = value.part(range.clone());
    let Some(placeholder) = Placeholder::from_name(name) else {
        return lowering.refuse(unknown(at, name, Some(stage)));
    };
    if stage == Stage::Request && placeholder.needs_response() {
        let diagnostic = Diagnostic::error("too-early", at, format!("`{{{name}}}` has no value here"))
            .marked("there is no response yet")
            .help("it can be used in `response-header` and in the access log");
        return lowering.refuse(diagnostic);
    }
    if stage == Stage::Log && matches!(placeholder, Placeholder::JwtClaim(_)) {
        let diagnostic =
            Diagnostic::error("not-in-format", at, format!("`{{{name}}}` has no value in the format of the access log"));
        return lowering
            .refuse(diagnostic.help("`log { field \"name\" \"{jwt.sub}\" }` of a site or a route adds it as `{log.name}`"));
    }
    if stage != Stage::Error && placeholder == Placeholder::StatusText {
        let diagnostic = Diagnostic::error("error-only", at, format!("`{{{name}}}` is only for pages of errors"));
        return lowering.refuse(diagnostic.help("it can be used in `error-page`"));
    }
    let is_known = stage == Stage::Log || (stage == Stage::Error && placeholder.is_of_error());
    if !is_known && matches!(placeholder, Placeholder::Log(_) | Placeholder::LogOwn(_)) {
        let diagnostic = Diagnostic::error("log-only", at, format!("`{{{name}}}` is only for the format of the access log"))
            .marked("known when the request is over")
            .help("it can be used in `access-log \"…\" format=\"…\"`");
        return lowering.refuse(diagnostic);
    }
    if stage == Stage::Log && is_missing_in_lines(&placeholder) {
        let diagnostic = Diagnostic::error("placeholder-not-here", at, format!("`{{{name}}}` cannot be used here"));
        let field = name.replace('.', "_");
        let help = format!(
            "have a route add it to the log, as in `log {{ field \"{field}\" \"{{{name}}}\"; }}`, and write `{{log.{field}}}`"
        );
        return lowering.refuse(diagnostic.help(help));
    }
    if matches!(placeholder, Placeholder::Geo(_)) {
        lowering.spans.geo_used.push(at.clone());
    }
    if let Placeholder::Map(map) = &placeholder {
        if stage == Stage::Log {
            let diagnostic = Diagnostic::error("placeholder-not-here", at, format!("`{{{name}}}` cannot be used here"));
            let help = format!(
                "have a route add it to the log, as in `log {{ field \"{map}\" \"{{{name}}}\"; }}`, and write `{{log.{map}}}`"
            );
            return lowering.refuse(diagnostic.help(help));
        }
        lowering.spans.maps_used.push((MapUse { name: map.clone(), is_condition: false }, at.clone()));
    }
    if let Placeholder::RequestHeader(header) | Placeholder::ResponseHeader(header) = &placeholder
        && !is_token(header)
    {
        return lowering.refuse(Diagnostic::error("bad-header", at, format!("`{header}` is not a header name")));
    }
    if let Placeholder::RequestHeader(header) = &placeholder
        && is_of_connection(header)
    {
        let message = format!("`{{{name}}}` is always empty: the field speaks of one connection and is taken out of requests");
        let diagnostic = Diagnostic::error("field-of-connection", at, message);
        return lowering.refuse(diagnostic.help(instead_of_connection(header, "`{request.header.Upgrade}`")));
    }
    if let Placeholder::RequestCookie(cookie) = &placeholder
        && !is_token(cookie)
    {
        let message = format!("`{}` is not the name of a cookie", shortened(cookie));
        return lowering.refuse(Diagnostic::error("bad-placeholder", at, message));
    }
    Some(placeholder)
}

/// Whether no line of the access log has it of itself.
fn is_missing_in_lines(placeholder: &Placeholder) -> bool {
    matches!(
        placeholder,
        Placeholder::Geo(_)
            | Placeholder::AskedUriEscaped
            | Placeholder::Port
            | Placeholder::ForwardedFor
            | Placeholder::RequestQuery(_)
    )
}

/// Without a stage, only `{env.NAME}` and `{file.PATH}` could stand there.
fn unknown(at: Location, name: &str, stage: Option<Stage>) -> Diagnostic {
    let message = format!("there is no placeholder `{{{}}}`", shortened(name));
    let diagnostic = Diagnostic::error("unknown-placeholder", at, message);
    let of_log = LogField::NAMES.iter().map(|(field, _)| *field).filter(|_| stage == Some(Stage::Log));
    let of_error = ["status", Placeholder::STATUS_TEXT, "reason"].into_iter().filter(|_| stage == Some(Stage::Error));
    let candidates: Vec<&str> = Placeholder::PLAIN.iter().map(|(plain, _)| *plain).chain(of_log).chain(of_error).collect();
    if let Some(meant) = of_others(name) {
        return diagnostic.help(format!("write `{{{meant}}}`"));
    }
    match nearest(name, candidates.iter().copied()) {
        Some(candidate) => diagnostic.help(format!("did you mean `{{{candidate}}}`?")),
        None if name.starts_with("header.") || name.starts_with("http.") || name.starts_with("req.") => {
            diagnostic.help("a header of the request is `{request.header.NAME}`")
        }
        None if name.starts_with("cookie_")
            || name.starts_with("http.request.cookie.")
            || name.starts_with("request.cookies.") =>
        {
            diagnostic.help("a cookie of the request is `{request.cookie.NAME}`")
        }
        None => {
            let known = match stage {
                None => String::new(),
                Some(_) => {
                    let of_map = if stage == Some(Stage::Log) { "" } else { "`{map.NAME}`, " };
                    let known = candidates.iter().map(|candidate| format!("`{{{candidate}}}`, "));
                    known
                        .chain([
                            "`{request.header.NAME}`, `{request.cookie.NAME}`, `{response.header.NAME}`, ".to_string(),
                            of_map.to_string(),
                        ])
                        .collect()
                }
            };
            diagnostic
                .note(format!("there are {known}`{{env.NAME}}` and `{{file.PATH}}`"))
                .help("for a brace that stands for itself, write `{{` or `}}`")
        }
    }
}

/// What other proxies call the same.
fn of_others(name: &str) -> Option<String> {
    // Caddy's `{$NAME:default}`, and what shells and Compose write as `${NAME}`.
    let is_variable = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_upper = name.bytes().any(|byte| byte.is_ascii_uppercase()) && !name.bytes().any(|byte| byte.is_ascii_lowercase());
    if let Some(variable) = name.strip_prefix('$').or(is_upper.then_some(name)) {
        let (variable, default) = variable.split_once(':').unwrap_or((variable, ""));
        if is_variable(variable) {
            let default = default.trim_start_matches('-');
            let default = if default.is_empty() { String::new() } else { format!(":-{default}") };
            return Some(format!("env.{variable}{default}"));
        }
    }
    let header = |prefix: &str| name.strip_prefix(prefix).filter(|field| is_token(field));
    if let Some(field) = header("http.request.header.").or_else(|| header("header.")) {
        return Some(format!("request.header.{field}"));
    }
    if let Some(field) = header("http.response.header.").or_else(|| header("http.reverse_proxy.header.")) {
        return Some(format!("response.header.{field}"));
    }
    let meant = match name {
        "http.request.host" | "http.request.hostport" | "hostport" | "http_host" | "server_name" => "host",
        "http.request.uri" | "http.request.orig_uri" | "request_uri" | "orig_uri" => "uri",
        "http.request.uri.path" | "http.request.orig_uri.path" => "path",
        "http.request.uri.query" | "query_string" | "args" => "query",
        "http.request.method" | "request_method" => "method",
        "http.request.scheme" => "scheme",
        "remote_host"
        | "client_ip"
        | "remote_ip"
        | "remote_addr"
        | "http.request.remote.host"
        | "http.request.client_ip"
        | "remote" => "client.ip",
        "remote_port" | "http.request.remote.port" => "client.port",
        "http.request.uuid" | "uuid" | "request_id" => "request.id",
        "tls_version" | "http.request.tls.version" => "tls.version",
        "http.request.tls.server_name" => "tls.sni",
        "tls_client_subject" => "tls.client.subject",
        "tls_client_issuer" => "tls.client.issuer",
        "tls_client_fingerprint" => "tls.client.fingerprint",
        "http.auth.user.id" | "remote_user" => "auth.user",
        "http.reverse_proxy.upstream.hostport" | "upstream_hostport" | "upstream_addr" => "upstream.address",
        _ => return None,
    };
    Some(meant.to_owned())
}

fn not_here(value: &Value, name: &str, range: Range<usize>) -> Diagnostic {
    let at = value.part(range);
    if Placeholder::from_name(name).is_some() {
        Diagnostic::error("placeholder-not-here", at, format!("`{{{name}}}` cannot be used here"))
            .help("only `{env.NAME}` and `{file.PATH}` can: this text is needed before there is a request")
    } else {
        unknown(at, name, None)
    }
}

fn unmatched(value: &Value, raw: &str, range: Range<usize>) -> Diagnostic {
    let brace = &raw[range.clone()];
    let other = if brace == "{" { "}" } else { "{" };
    Diagnostic::error("unmatched-brace", value.part(range), format!("`{brace}` without `{other}`"))
        .help(format!("for a brace that stands for itself, write `{brace}{brace}`"))
}

fn push_with_captures(
    lowering: &mut Lowering<'_>,
    value: &Value,
    (text, start): (&str, usize),
    groups: usize,
    parts: &mut Vec<TemplatePart>,
    literal: &mut String,
) {
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        literal.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let at = start + (text.len() - rest.len()) + dollar;
        if let Some(after_dollars) = after.strip_prefix('$') {
            literal.push('$');
            rest = after_dollars;
            continue;
        }
        let written = &after[..digits];
        match written.parse::<usize>() {
            Ok(number) if number <= groups => {
                flush(parts, literal);
                parts.push(TemplatePart::Capture(number));
            }
            _ if digits == 0 => lowering.report(
                Diagnostic::error("bad-capture", value.part(at..at + 1), "`$` is followed by the number of a group")
                    .help("for a dollar that stands for itself, write `$$`"),
            ),
            _ => {
                let message = format!("the pattern has no group {written}");
                let count = if groups == 1 { "1 group".to_string() } else { format!("{groups} groups") };
                lowering.report(
                    Diagnostic::error("bad-capture", value.part(at..at + 1 + digits), message)
                        .note(format!("it has {count}"))
                        .help("a group is a part of the pattern in parentheses, as in `~^/a/(.*)`; for a dollar that stands for itself, write `$$`"),
                );
            }
        }
        rest = &after[digits..];
    }
    literal.push_str(rest);
}

fn flush(parts: &mut Vec<TemplatePart>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(TemplatePart::Literal(std::mem::take(literal)));
    }
}
