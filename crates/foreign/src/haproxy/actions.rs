//! What a rule of HAProxy does, as steps and answers of ours.

use super::fetches::Variables;
use super::lexer::{HaProxyLine, OF_ENVIRONMENT};
use super::templates::template;
use crate::outline::{CLOSED, OutlinedAnswer};
use crate::texts::literal;
use tidegate_kdl::quoted;
use tidegate_model::expression;
use tidegate_model::is_of_framing;

#[derive(Debug, Clone)]
pub enum Action {
    /// With what is done besides.
    Answer(OutlinedAnswer, Vec<String>),
    /// Asks who it is, with this realm.
    LogIn(Option<String>),
    /// No further rule of its kind is looked at.
    Allow,
    Backend(String),
    /// A step on requests that may have conditions of its own.
    Request(String),
    /// Actions of answers.
    Response(String),
    /// A step for all that comes behind it.
    Guard(String),
    Variable(String, String),
    /// Has no line, and is said by the table of words.
    Nothing,
    Unknown(String),
}

/// The line for a `Location`, which has no conditions.
pub const REWRITE_LOCATION: &str = "rewrite-location";

/// What it does, and what is different.
pub struct Done {
    pub action: Action,
    pub differs: Option<&'static str>,
    /// What has to hold of a request beside the line's own condition.
    pub found: Option<String>,
}

const PARTS_OF_FIELD: &str = "parts of a field are not changed by an expression: `request-header` sets it as a whole, where `match header=` holds in its \
                              block";
const SEVERAL_FIELDS: &str = "of several fields of the name one that fits is enough, and one comes out";
const OF_FRAMES: &str = "fields that frame messages, or are of one connection, are the proxy's own";
const AT_ONCE: &str = "it is refused at once, and not held up before";
const PAGE_ALONE: &str = "the answer has no page here: `error-page` gives it one";
const LAST_BREAK: &str = "the last line break of the file is not sent";
const MERGED: &str = "several slashes are one for rules, and go on as they were sent: `path-policy slashes=\"merge\"` makes them one for servers as well";
const SERVICE_READY: &str = "<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n";

impl Done {
    fn of(action: Action) -> Done {
        Done { action, differs: None, found: None }
    }

    fn unknown(why: impl Into<String>) -> Done {
        Done::of(Action::Unknown(why.into()))
    }

    fn told(action: Result<Action, String>) -> Done {
        Done::of(action.unwrap_or_else(Action::Unknown))
    }
}

/// The words of a line in front of its condition.
fn without_condition(line: &HaProxyLine) -> &[String] {
    let end = line.words.iter().position(|word| matches!(word.as_str(), "if" | "unless"));
    &line.words[..end.unwrap_or(line.words.len())]
}

pub fn of_line(line: &HaProxyLine, variables: &Variables) -> Option<Done> {
    let words: Vec<&str> = without_condition(line).iter().map(String::as_str).collect();
    if words.iter().any(|word| word.contains(OF_ENVIRONMENT)) && words[0] != "bind" {
        return Some(Done::unknown("a part of it comes from the environment of HAProxy: write what it is"));
    }
    Some(match words.as_slice() {
        ["http-request", action, rest @ ..] => request(action, rest, variables),
        ["http-response" | "http-after-response", action, rest @ ..] => response(action, rest, variables),
        ["tcp-request", "connection" | "content" | "session", action, rest @ ..] => connection(action, rest),
        ["redirect", rest @ ..] => redirect(rest, variables),
        ["block", ..] => Done::of(Action::Answer(OutlinedAnswer::status(403), Vec::new())),
        ["use_backend" | "default_backend", name, ..] => Done::of(Action::Backend((*name).to_owned())),
        ["monitor-uri", _] => {
            let body = Some(SERVICE_READY.to_owned());
            Done::of(Action::Answer(OutlinedAnswer::Respond { status: 200, body }, Vec::new()))
        }
        ["reqadd" | "reqiadd", field, ..] => old_field(field, "request-header", Action::Request),
        ["rspadd", field, ..] => old_field(field, "header", Action::Response),
        ["reqdel" | "reqidel", pattern, ..] => old_removal(pattern, "request-header", Action::Request),
        ["rspdel" | "rspidel", pattern, ..] => old_removal(pattern, "header", Action::Response),
        ["reqrep" | "reqirep", pattern, to, ..] => old_rewrite(words[0] == "reqirep", pattern, to),
        _ => return None,
    })
}

fn request(action: &str, rest: &[&str], variables: &Variables) -> Done {
    if let Some(variable) = action.strip_prefix("set-var(").and_then(|rest| rest.split([')', ',']).next()) {
        return Done::of(Action::Variable(variable.to_owned(), rest.join(" ")));
    }
    match (action, rest) {
        ("deny" | "tarpit", rest) => deny(action, rest, variables),
        ("reject" | "silent-drop", _) => {
            Done { action: Action::Answer(OutlinedAnswer::status(403), Vec::new()), differs: Some(CLOSED), found: None }
        }
        ("auth", rest) => Done::of(Action::LogIn(behind(rest, "realm").map(str::to_owned))),
        ("allow", _) => Done::of(Action::Allow),
        ("redirect", rest) => redirect(rest, variables),
        ("return", rest) => returned(rest, variables),
        ("set-header", [name, format, ..]) => field(name, format, false, "request-header", variables, Action::Request),
        ("add-header", [name, format, ..]) => field(name, format, true, "request-header", variables, Action::Request),
        ("del-header", [name]) => removal(name, "request-header", Action::Request),
        ("del-header", _) => Done::unknown("fields are removed by their whole names: a line `request-header remove=` for each"),
        ("set-path", [format]) => Done::told(set_path(format, variables)),
        ("set-pathq" | "set-uri", [format]) if format.starts_with('/') => Done::told(set_path_and_query(format, variables)),
        ("replace-path" | "replace-pathq", [pattern, to]) => Done::told(replace_path(pattern, to, variables)),
        ("replace-uri", [pattern, to]) => Done::told(replace_uri(pattern, to, variables)),
        ("set-timeout", _) => Done::unknown("`timeout first-byte=` and `idle=` stand in the route that has the condition"),
        ("cache-use", [_]) => Done::of(Action::Guard("cache".to_owned())),
        ("normalize-uri", ["path-merge-slashes", ..]) => Done { action: Action::Nothing, differs: Some(MERGED), found: None },
        ("normalize-uri", ["query-sort-by-name", ..]) => Done::unknown("the query goes on as it was sent: nothing sorts it"),
        (
            "normalize-uri"
            | "set-log-level"
            | "capture"
            | "set-nice"
            | "set-tos"
            | "set-mark"
            | "wait-for-handshake"
            | "early-hint"
            | "disable-l7-retry"
            | "set-priority-class"
            | "set-priority-offset"
            | "strict-mode",
            _,
        ) => Done::of(Action::Nothing),
        ("replace-header", [name, pattern, to]) => replace_field(name, pattern, to, variables),
        ("replace-header" | "replace-value", _) => Done::unknown(PARTS_OF_FIELD),
        (action, _) if action.starts_with("track-sc") || action.starts_with("sc-") => Done::of(Action::Nothing),
        (action, _) if action.starts_with("lua.") => {
            Done::unknown("Lua is not run: `forward-auth` asks a server who may come in, and steps change requests")
        }
        (action, _)
            if action.starts_with("set-map(")
                || action.starts_with("del-map(")
                || action.starts_with("add-acl(")
                || action.starts_with("del-acl(") =>
        {
            Done::unknown("rows of a `map` are changed by `tidegate map set` or the API, and not by requests")
        }
        ("set-src" | "set-dst" | "set-src-port" | "set-dst-port", _) => {
            Done::unknown("whose word counts for the client's address is said by `trusted-proxies` in a `listener`")
        }
        ("use-service", _) => Done::unknown("services within the process are in `admin`: `/metrics` and `/v1`"),
        ("send-spoe-group", _) => Done::unknown("agents of SPOE are not asked: `forward-auth` asks a server who may come in"),
        _ => Done::unknown("this action has no equal"),
    }
}

fn response(action: &str, rest: &[&str], variables: &Variables) -> Done {
    match (action, rest) {
        ("set-header", [name, format, ..]) => field(name, format, false, "header", variables, Action::Response),
        ("add-header", [name, format, ..]) => field(name, format, true, "header", variables, Action::Response),
        ("del-header", [name]) => removal(name, "header", Action::Response),
        ("cache-store", [_]) | ("set-log-level" | "capture" | "set-nice" | "set-tos" | "set-mark" | "strict-mode", _) => {
            Done::of(Action::Nothing)
        }
        ("replace-header", [name, pattern, to]) if name.eq_ignore_ascii_case("location") => {
            Done::told(replace_location(pattern, to, variables))
        }
        ("allow", _) => Done::unknown("it ends the rules on answers there, and all of them are carried out here"),
        ("return", _) => {
            Done::unknown("pages in the place of a server's errors are `error-page 503 file=\"503.html\" from=\"upstream\"`")
        }
        ("replace-header" | "replace-value", [name, ..]) if name.eq_ignore_ascii_case("set-cookie") => Done::unknown(
            "of a cookie `rewrite-cookie-path` and `rewrite-cookie-domain` change the path and the domain; what else stands in it, as `Secure`, is the application's",
        ),
        ("replace-header" | "replace-value", _) => Done::unknown(
            "a field of an answer is not changed by an expression: `header` sets it as a whole, `rewrite-location=#true` of `proxy` mends `Location` and cookies",
        ),
        ("deny", _) => Done::unknown(
            "an answer is not refused for what it says: `error-page 500 status=502 from=\"upstream\"` puts a page in its place by its status, and `header remove=` takes fields out",
        ),
        ("set-status", _) => {
            Done::unknown("the status of a server's error is changed by `error-page 404 status=200 from=\"upstream\"`")
        }
        (action, _) if action.starts_with("set-var(") || action.starts_with("sc-") => Done::of(Action::Nothing),
        (action, _) if action.starts_with("lua.") => Done::unknown("Lua is not run: `header` changes fields of answers"),
        _ => Done::unknown("this action has no equal"),
    }
}

fn connection(action: &str, rest: &[&str]) -> Done {
    match action {
        "reject" | "silent-drop" => {
            Done { action: Action::Answer(OutlinedAnswer::status(403), Vec::new()), differs: Some(CLOSED), found: None }
        }
        "accept" => Done::of(Action::Allow),
        "expect-proxy" => Done::of(Action::Nothing),
        action if action.starts_with("set-var(") => {
            let name = action.trim_start_matches("set-var(").split([')', ',']).next().unwrap_or_default();
            Done::of(Action::Variable(name.to_owned(), rest.join(" ")))
        }
        action if action.starts_with("track-sc") || action.starts_with("sc-") || action == "capture" => Done::of(Action::Nothing),
        _ => Done::unknown("this action has no equal"),
    }
}

fn behind<'w>(words: &[&'w str], word: &str) -> Option<&'w str> {
    let index = words.iter().position(|own| *own == word)?;
    words.get(index + 1).copied()
}

/// A body that is said on the line.
fn body(rest: &[&str], variables: &Variables) -> Result<(Option<String>, Option<&'static str>), String> {
    if let Some(text) = behind(rest, "string") {
        return Ok((Some(literal(text)), None));
    }
    if rest.contains(&"lf-file") {
        return Err("values are not filled into a file: `body=` has placeholders".to_owned());
    }
    if let Some(format) = behind(rest, "lf-string") {
        return template(format, variables).map(|text| (Some(text), None));
    }
    if let Some(file) = behind(rest, "file") {
        return Ok((Some(format!("{{file.{file}}}")), Some(LAST_BREAK)));
    }
    let has_page = ["errorfile", "errorfiles", "default-errorfiles"].iter().any(|word| rest.contains(word));
    Ok((None, has_page.then_some(PAGE_ALONE)))
}

fn deny(action: &str, rest: &[&str], variables: &Variables) -> Done {
    let own = if action == "tarpit" { 500 } else { 403 };
    let status = behind(rest, "deny_status").or_else(|| behind(rest, "status"));
    let status = status.and_then(|status| status.parse().ok()).unwrap_or(own);
    match body(rest, variables) {
        Ok((body, differs)) => Done {
            action: Action::Answer(OutlinedAnswer::Respond { status, body }, Vec::new()),
            differs: differs.or((action == "tarpit").then_some(AT_ONCE)),
            found: None,
        },
        Err(_) => {
            Done { action: Action::Answer(OutlinedAnswer::status(status), Vec::new()), differs: Some(PAGE_ALONE), found: None }
        }
    }
}

fn returned(rest: &[&str], variables: &Variables) -> Done {
    let status = behind(rest, "status").and_then(|status| status.parse().ok()).unwrap_or(200);
    let (body, differs) = match body(rest, variables) {
        Ok(told) => told,
        Err(why) => return Done::unknown(why),
    };
    let mut steps = Vec::new();
    let kind = behind(rest, "content-type").filter(|_| body.is_some());
    if let Some(kind) = kind.filter(|kind| *kind != "text/plain") {
        steps.push(format!("header {} {}", quoted("Content-Type"), quoted(&literal(kind))));
    }
    for (index, _) in rest.iter().enumerate().filter(|(_, word)| **word == "hdr") {
        let (Some(name), Some(format)) = (rest.get(index + 1), rest.get(index + 2)) else { continue };
        match template(format, variables) {
            Ok(value) => steps.push(format!("header {} {}", quoted(name), quoted(&value))),
            Err(why) => return Done::unknown(why),
        }
    }
    Done { action: Action::Answer(OutlinedAnswer::Respond { status, body }, steps), differs, found: None }
}

fn redirect(rest: &[&str], variables: &Variables) -> Done {
    let status = behind(rest, "code").and_then(|code| code.parse().ok()).unwrap_or(302);
    if rest.contains(&"append-slash") {
        return Done::unknown("a slash is put behind a path by `redirect \"{path}/\"` in a route for such paths");
    }
    let uri = if rest.contains(&"drop-query") { "{path}" } else { "{uri}" };
    let to = if let Some(format) = behind(rest, "location") {
        template(format, variables)
    } else if let Some(format) = behind(rest, "prefix") {
        let prefix = if format == "/" { Ok(String::new()) } else { template(format, variables) };
        prefix.map(|prefix| format!("{prefix}{uri}"))
    } else if let Some(scheme) = behind(rest, "scheme") {
        template(scheme, variables).map(|scheme| format!("{scheme}://{{host}}{uri}"))
    } else {
        return Done::unknown("where it sends to is not said");
    };
    let mut steps = Vec::new();
    if let Some(cookie) = behind(rest, "set-cookie") {
        steps.push(format!("header add={}", quoted(&format!("Set-Cookie: {}; path=/;", literal(cookie)))));
    }
    if let Some(cookie) = behind(rest, "clear-cookie") {
        let value = format!("Set-Cookie: {}; path=/; Max-Age=0;", literal(cookie));
        steps.push(format!("header add={}", quoted(&value)));
    }
    match to {
        Ok(to) if to.starts_with('/') || to.starts_with("http") || to.starts_with('{') => {
            Done::of(Action::Answer(OutlinedAnswer::Redirect { to, status }, steps))
        }
        Ok(_) => Done::unknown("where it sends to is neither a URL nor a path"),
        Err(why) => Done::unknown(why),
    }
}

pub fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn field(name: &str, format: &str, is_added: bool, word: &str, variables: &Variables, action: fn(String) -> Action) -> Done {
    if is_of_framing(name) {
        return Done::unknown(OF_FRAMES);
    }
    if name.ends_with(':') {
        return Done::unknown("a colon stands in the name of its field, which nobody reads so: write the name without it");
    }
    if !is_field_name(name) {
        return Done::unknown("the name of its field is computed");
    }
    let lower = name.to_ascii_lowercase();
    let is_sent =
        word == "request-header" && matches!(lower.as_str(), "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-port");
    let is_scheme = word == "request-header" && lower == "x-forwarded-proto";
    if is_sent || (is_scheme && format.contains('%')) {
        return Done::of(Action::Nothing);
    }
    let name = if is_scheme { "X-Forwarded-Proto" } else { name };
    match template(format, variables) {
        Err(why) => Done::unknown(why),
        Ok(value) if value.contains("{response.") && word == "request-header" => {
            Done::unknown("a request does not know its answer")
        }
        Ok(value) if is_added => Done::of(action(format!("{word} add={}", quoted(&format!("{name}: {value}"))))),
        Ok(value) => Done::of(action(format!("{word} {} {}", quoted(name), quoted(&value)))),
    }
}

fn removal(name: &str, word: &str, action: fn(String) -> Action) -> Done {
    let lower = name.to_ascii_lowercase();
    if is_of_framing(&lower) || (word == "request-header" && lower == "host") {
        return Done::unknown(OF_FRAMES);
    }
    if !is_field_name(name) {
        return Done::unknown("fields are removed by their whole names");
    }
    Done::of(action(format!("{word} remove={}", quoted(name))))
}

/// `X-Frame-Options: DENY` of old files.
fn old_field(field: &str, word: &str, action: fn(String) -> Action) -> Done {
    match field.split_once(':').filter(|(name, _)| is_field_name(name)) {
        Some((name, _)) if is_of_framing(name) => Done::unknown(OF_FRAMES),
        Some((name, value)) => {
            let text = format!("{name}: {}", literal(value.trim()));
            Done::of(action(format!("{word} add={}", quoted(&text))))
        }
        None => Done::unknown("it is no field with a name and a value"),
    }
}

/// `^Server:.*`
fn old_removal(pattern: &str, word: &str, action: fn(String) -> Action) -> Done {
    let name = pattern.trim_start_matches('^').split(':').next().unwrap_or_default();
    let rest = pattern.trim_start_matches('^').strip_prefix(name).unwrap_or_default();
    if pattern.starts_with('^') && matches!(rest, ":" | ":.*" | ":.*$" | ":\\ .*" | ": .*") {
        return removal(name, word, action);
    }
    Done::unknown("fields are removed by their whole names")
}

/// A path of ours in which `$1` is what a group has found.
fn groups(to: &str, variables: &Variables, less: u32) -> Result<String, String> {
    let text = template(to, variables)?.replace('$', "$$");
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().and_then(|digit| digit.to_digit(10))) {
            ('\\', Some(number)) => {
                chars.next();
                let number = number.checked_sub(less).filter(|number| *number > 0 || less == 0);
                let number = number.ok_or("what it puts together is more than the path")?;
                out.push_str(&format!("${number}"));
            }
            ('\\', None) => {}
            (c, _) => out.push(c),
        }
    }
    Ok(out)
}

const NO_EXPRESSION: &str = "its expression is none of ours: there are no look-arounds and no back-references";

fn set_path(format: &str, variables: &Variables) -> Result<Action, String> {
    // `%[path,regsub(^/api/,/)]`
    let inner = format.strip_prefix("%[path,regsub(").and_then(|rest| rest.strip_suffix(")]"));
    if let Some((pattern, to)) = inner.and_then(|inner| inner.rsplit_once(',')) {
        let (pattern, to) = (pattern.trim_matches('"'), to.trim_matches('"'));
        let is_anchored = pattern.starts_with('^') && !pattern.contains('$');
        if is_anchored && expression(pattern).build().is_ok() {
            let count = expression(pattern).build().map_or(1, |built| built.captures_len());
            let to = groups(to, variables, 0)?;
            return Ok(Action::Guard(format!(
                "rewrite {} {}",
                quoted(&format!("~{pattern}(.*)$")),
                quoted(&format!("{to}${count}"))
            )));
        }
        return Err(
            "a part of the path is changed by an expression: `rewrite \"~^(.*)…$\" \"…$1\"` replaces it as a whole".to_owned()
        );
    }
    let path = template(format, variables)?;
    if !path.starts_with('/') && !path.starts_with("{path}") {
        return Err("the new path does not begin with a slash".to_owned());
    }
    Ok(Action::Guard(format!("rewrite {}", quoted(&path))))
}

/// The whole of what was asked for, whose query is gone unless the new one has it.
fn set_path_and_query(format: &str, variables: &Variables) -> Result<Action, String> {
    let path = template(format, variables)?;
    let has_query = path.contains('?') || path.ends_with("{uri}");
    Ok(Action::Guard(format!("rewrite {}", quoted(&if has_query { path } else { format!("{path}?") }))))
}

fn replace_path(pattern: &str, to: &str, variables: &Variables) -> Result<Action, String> {
    if expression(pattern).build().is_err() {
        return Err(NO_EXPRESSION.to_owned());
    }
    if pattern.contains("\\?") {
        return Err("the query is not compared with: `match query=` is a condition on it".to_owned());
    }
    let to = groups(to, variables, 0)?;
    Ok(Action::Guard(format!("rewrite {} {}", quoted(&format!("~{pattern}")), quoted(&to))))
}

/// What stands for all of a field of requests in which the expression is found.
fn replace_field(name: &str, pattern: &str, to: &str, variables: &Variables) -> Done {
    const WHOLE: [&str; 6] = ["(.*)", "^(.*)$", "^(.*)", "(.*)$", "^(.+)$", "(.+)"];
    if expression(pattern).build().is_err() {
        return Done::unknown(NO_EXPRESSION);
    }
    // A group that has found all of it is the field itself.
    let is_whole = WHOLE.contains(&pattern);
    let to = if is_whole { to.replace("\\1", &format!("%[req.hdr({name})]")) } else { to.to_owned() };
    if to.contains('\\') || name.to_ascii_lowercase().starts_with("x-forwarded-") {
        return Done::unknown(PARTS_OF_FIELD);
    }
    let done = field(name, &to, false, "request-header", variables, Action::Request);
    let found = if is_whole { quoted(name) } else { quoted(&format!("{name}: ~{pattern}")) };
    match done.action {
        Action::Request(_) => Done { differs: Some(SEVERAL_FIELDS), found: Some(format!("header={found}")), ..done },
        _ => done,
    }
}

/// What stands for all of a `Location` in which the expression is found, there as here.
fn replace_location(pattern: &str, to: &str, variables: &Variables) -> Result<Action, String> {
    if expression(pattern).build().is_err() {
        return Err(NO_EXPRESSION.to_owned());
    }
    let to = groups(to, variables, 0)?;
    if to.contains("{response.") {
        return Err("what stands in the place of a `Location` is made of the request alone".to_owned());
    }
    Ok(Action::Response(format!("{REWRITE_LOCATION} {} {}", quoted(&format!("~{pattern}")), quoted(&to))))
}

/// Of whole URIs, those that are about the path in all of them.
fn replace_uri(pattern: &str, to: &str, variables: &Variables) -> Result<Action, String> {
    let is_of_path = pattern.starts_with("^/") || pattern.starts_with('/');
    if !is_of_path || !to.starts_with(['/', '\\']) {
        return Err("the whole URI is not compared with: `rewrite` replaces the path".to_owned());
    }
    replace_path(pattern, to, variables)
}

/// `^([^ :]*) /api/(.*)` to `\1 /\2`: the request line, as old files have it.
fn old_rewrite(is_case_blind: bool, pattern: &str, to: &str) -> Done {
    let methods = ["^([^ :]*) ", "^([^ ]*) ", "^([^\\ :]*) ", "^([^\\ ]*) ", "^([^ :]*)\\ ", "^(.*) "];
    let path = methods.iter().find_map(|method| pattern.strip_prefix(method));
    let told = path.zip(to.strip_prefix("\\1 ").or_else(|| to.strip_prefix("\\1\\ "))).map(|(path, to)| {
        let blind = if is_case_blind { "(?i)" } else { "" };
        let path = format!("{blind}^{}", path.trim_start_matches('^'));
        if expression(&path).build().is_err() {
            return Err(NO_EXPRESSION.to_owned());
        }
        let to = groups(to, &Variables::new(), 1)?;
        Ok(Action::Guard(format!("rewrite {} {}", quoted(&format!("~{path}")), quoted(&to))))
    });
    Done::told(told.unwrap_or_else(|| {
        Err("a line of a request is not changed by an expression: `rewrite` and `request-header` do parts of it".to_owned())
    }))
}
