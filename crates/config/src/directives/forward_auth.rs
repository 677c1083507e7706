//! `forward-auth "http://authelia:9091" preset="authelia"`: another server says who may ask.

mod presets;
mod written;

pub use self::written::write;

use self::presets::AuthPreset;
use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::directives::error_page;
use crate::directives::pool::retry::HEDGE;
use crate::directives::proxy::{self, Sends};
use crate::forms::{check_url, is_token};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::syntax::Literal;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat, Stage};
use std::time::Duration;
use tidegate_model::{AuthMethod, ForwardAuth, NamePattern, RememberedAuth, SignIn, Step, Template, TemplatePart};

pub static FORWARD_AUTH: Directive = Directive {
    name: "forward-auth",
    places: &[Place::Site, Place::Route, Place::AuthAny],
    arguments: &[Argument::any(
        "servers",
        Kind::Text("the URL of an auth server, the name of a pool, or `off`"),
        "One or more URLs `http[s]://host[:port][/path]` or `grpc[s]://host:port`, which are a pool written in place; the name of a pool; or `off`: nobody is asked, in a route of a site that asks.",
    )],
    properties: &[
        Property::once(
            "preset",
            Kind::Choice(AuthPreset::NAMES),
            "Path, fields and cookies as that server has them; what is written besides counts before it.",
        ),
        Property::once(
            "path",
            Kind::Text("a path, with a query or without"),
            "The path of the questions, where no address has one; the preset's, or else `/`, without it.",
        ),
        Property::once(
            "grpc",
            Kind::Switch,
            "Whether questions are those of Envoy's `ext_authz` over gRPC, as behind `grpc://` and `grpcs://`; `#false` when left out.",
        ),
        Property::once("host", Kind::Text("a host"), "What the questions say as `Host`; the client's when left out."),
        Property::once(
            "method",
            Kind::Text("a method, or `request`"),
            "The method of the questions; `request` is the client's own. `GET` when left out.",
        ),
        Property::once(
            "body",
            Kind::Size { min: 1, max: ForwardAuth::BODY_BYTES_MOST },
            "Requests are sent along with bodies up to this length, and refused with longer ones (413); without bodies when left out.",
        ),
        Property::once(
            "answer-bytes",
            Kind::Size { min: 0, max: 4 << 20 },
            "How long the body of an answer may be; `64KiB` when left out.",
        ),
        Property::once(
            "total",
            Kind::Duration { min: Duration::from_millis(10), max: Duration::from_secs(300) },
            "How long a question may take, all attempts together; `5s` when left out.",
        ),
        Property::once(
            "on-error",
            Kind::Choice(&["deny", "allow"]),
            "What becomes of requests while the server cannot be asked at all; `deny` when left out.",
        ),
        Property::once("user", Kind::Text("a header name"), "The field of a good answer that is `{auth.user}`."),
        Property::once(
            "sign-in",
            Kind::Text("a URL, or a path of the site"),
            "Where browsers are sent to instead of a 401 of the server.",
        ),
        Property::once(
            "redirect-param",
            Kind::Text("the name of a parameter"),
            "The parameter of `sign-in=` that says where to return to; `rd` when left out.",
        ),
    ],
    block: Block::Optional(Place::ForwardAuth),
    summary: "Asks another server whether a request may go on, and who its client is.",
    details: "Before a request goes on, a question about it goes to the auth server: without its body, with its fields (`Cookie`, `Authorization` and the others), and with `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri` and `-For`, \
              `X-Original-URL` and `X-Original-Method`, which say what the request is for as its route was found. An answer of 2xx lets it go on. Any other of 3xx with a `Location`, or of 4xx, is what the client gets, as it came. \
              5xx, silence, a connection that cannot be made, a switch of protocols, an answer that is broken or longer than `answer-bytes=` are 503, with a reason that begins with `auth_`; with `on-error=\"allow\"` requests go on, without a user, where the server could not be asked at all: no connection, nothing of an answer, or 5xx.\n\n\
              The address is a pool like any other: several can stand here, and the block takes everything that a `pool` takes. Requests with a body, uploads, WebSockets and calls of gRPC wait for the answer and are otherwise not touched; `100 Continue` comes from the upstream, so not before it. \
              With `body=` the body is read first, held in the account of request bodies, and sent along.\n\n\
              What `copy` names is taken out of every request of the site first, on all of its routes and in all spellings (`Remote-User`, `remote_user`, `Remote.User`), so that nobody forges it. Of the `forward-auth` of a site and of its route the route's counts.\n\n\
              With `sign-in=`, a browser that is answered with 401 is redirected there, with the address that it asked for in `redirect-param=`: the whole URL, or path and query alone where `sign-in=` is a path of the site. Requests of scripts (`Sec-Fetch-Mode`, `X-Requested-With`), WebSockets and calls of gRPC get the 401.\n\n\
              `grpc://` and `grpcs://` ask a server made for Envoy (`envoy.service.auth.v3.Authorization`), with the same fields, an answer that means the same, and `body=` as `raw_body`. Of what it says for the upstream only fields that `copy` names are told, of what it says for the client only cookies.\n\n\
              Presets, with what they stand for, are in [access.md](access.md#another-server-says-who-may-ask-forward-auth).",
    default: "nobody is asked",
    example: "forward-auth \"http://authelia:9091\" preset=\"authelia\"",
    lower: Lower::Step(lower),
    ..Directive::PLAIN
};

pub static REQUEST_HEADERS: Directive = Directive {
    name: "request-headers",
    places: &[Place::ForwardAuth],
    arguments: &[Argument::one_or_more(
        "names",
        Kind::Text("a header name, or its beginning and `*`"),
        "Fields of the request that go into the question.",
    )],
    summary: "Only these fields of the request are in the question, beside those that say what it is for.",
    default: "all but those of the body, the connection and conditions",
    example: "request-headers \"Cookie\" \"Authorization\" \"Accept\"",
    ..Directive::PLAIN
};

pub static QUESTION_HEADER: Directive = Directive {
    name: "header",
    places: &[Place::ForwardAuth],
    repeat: Repeat::Many,
    arguments: &[
        Argument::one("name", Kind::Text("a header name"), "The field, in place of what the request says under that name."),
        Argument::one("value", Kind::Template(Stage::Request), "What it says; a field that comes to nothing is not sent."),
    ],
    summary: "A field of the question, beside those that say what the request is for.",
    details: "It stands in the place of one that the question would say by itself as well. What the question says as `Host` is said by `host=`.",
    example: "header \"X-Sent-From\" \"{host}\"",
    ..Directive::PLAIN
};

pub static COPY: Directive = Directive {
    name: "copy",
    places: &[Place::ForwardAuth],
    arguments: &[Argument::one_or_more(
        "names",
        Kind::Text("a header name, or its beginning and `*`"),
        "Fields of a good answer.",
    )],
    summary: "Fields of a good answer that the upstream gets, and that no client says itself.",
    default: "none, or the preset's",
    example: "copy \"Remote-User\" \"X-Auth-*\"",
    ..Directive::PLAIN
};

pub static COOKIES: Directive = Directive {
    name: "cookies",
    places: &[Place::ForwardAuth],
    arguments: &[Argument::any(
        "names",
        Kind::Text("the name of a cookie, or its beginning and `*`"),
        "Cookies that a good answer sets; all of them when left out.",
    )],
    summary: "Cookies of a good answer (`Set-Cookie`) that the client gets with the answer of the upstream.",
    default: "none, or the preset's",
    example: "cookies \"session\"",
    ..Directive::PLAIN
};

pub static REMEMBERED: Directive = Directive {
    name: "cache",
    places: &[Place::ForwardAuth],
    properties: &[
        Property::once(
            "key",
            Kind::Template(Stage::Request),
            "What requests have in common that are answered alike. A request that lacks something of it (a cookie, a field, a certificate) is asked about.",
        ),
        Property::once("ttl", Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(3600) }, "How long."),
    ],
    summary: "Remembers good answers by a key, so that the server is not asked for each request.",
    details: "Each thread remembers some thousands, and nothing over a change of the site. The host is part of the key by itself; method and path are where the key says so, as in `{request.cookie.session} {method} {path}`, which a server needs whose answer depends on them. \
              A session that ends goes on for as long as this. Refusals and cookies are not remembered, and what goes along with its body (`body=`) is asked about each time.",
    example: "cache key=\"{request.cookie.session}\" ttl=\"10s\"",
    ..Directive::PLAIN
};

const NAME_BYTES_MAX: usize = 200;
const NAMES_MAX: usize = 100;
/// A pattern with fewer bytes before the `*` would take most fields.
const PREFIX_BYTES_MIN: usize = 2;

/// Where the server of that preset has its log-in, on the site itself.
pub fn sign_in_of_preset(name: &str) -> Option<&'static str> {
    AuthPreset::named(name)?.sign_in
}

/// What stands in the block, while its lines are read.
#[derive(Default)]
struct Draft {
    request_fields: Option<Vec<NamePattern>>,
    copied: Option<Vec<NamePattern>>,
    cookies: Option<Vec<NamePattern>>,
    headers: Vec<(String, Template)>,
    remembers: Option<RememberedAuth>,
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let is_off = line.arguments().count() == 1
        && line.argument(0).is_some_and(|value| matches!(&value.literal, Literal::Text(text) if text == "off"));
    if is_off {
        let fault = line.settings_of_off();
        return fault.map_or(Some(Step::ForwardAuth(None)), |fault| lowering.refuse(fault));
    }
    let errors_before = lowering.diagnostics.len();
    for child in line.children().iter().filter(|child| child.name.text == HEDGE.name) {
        let message = "`hedge` does nothing here: a question is asked at one server at a time";
        lowering.report(Diagnostic::warning("without-effect", child.location.clone(), message).help("remove it"));
    }
    let preset = line.read(lowering, "preset").and_then(|read| AuthPreset::named(read.choice()));
    let (mut paths, mut draft) = (Vec::new(), Draft::default());
    let mut take = |lowering: &mut Lowering<'_>, line: &Line<'_>| draft.read(lowering, line);
    let mut is_grpc = false;
    let sends = Sends::Questions { paths: &mut paths, is_grpc: &mut is_grpc, take: &mut take };
    let pool = proxy::read_pool(lowering, line, sends);
    let is_grpc = line.switch(lowering, "grpc").unwrap_or(false) || is_grpc;
    if is_grpc {
        check_grpc(lowering, line, &paths);
    }
    let target = target(lowering, line, &paths, preset);
    let user = user(lowering, line).or_else(|| preset.map(|preset| preset.user.to_owned()));
    let sign_in = sign_in(lowering, line, preset);
    let body_bytes_max = line.number(lowering, "body");
    let auth = ForwardAuth {
        is_grpc,
        target,
        host: host(lowering, line),
        method: method(lowering, line),
        request_fields: draft.request_fields,
        headers: draft.headers,
        copied: draft.copied.unwrap_or_else(|| preset.map(AuthPreset::copied).unwrap_or_default()),
        user,
        cookies: draft.cookies.or_else(|| preset.filter(|preset| preset.sets_cookies).map(|_| Vec::new())),
        body_bytes_max,
        answer_bytes_max: line.number(lowering, "answer-bytes").unwrap_or(ForwardAuth::ANSWER_BYTES_MAX),
        total: line.duration(lowering, "total").unwrap_or(ForwardAuth::TOTAL),
        allows_on_error: line.read(lowering, "on-error").is_some_and(|read| read.choice() == "allow"),
        sign_in,
        remembers: draft.remembers,
        ..ForwardAuth::new(pool.as_ref().map_or_else(|| tidegate_model::PoolName("".into()), |(pool, _)| pool.clone()))
    };
    check_method(lowering, line, &auth);
    if auth.headers.len() > error_page::HEADERS_MAX {
        let message = format!("there are more than {} fields", error_page::HEADERS_MAX);
        lowering.report(Diagnostic::error("too-many", line.location(), message).help("say several things in one"));
    }
    let is_faulty = lowering.diagnostics[errors_before..].iter().any(Diagnostic::is_error);
    let (_, retry) = pool.filter(|_| !is_faulty)?;
    Some(Step::ForwardAuth(Some(Box::new(ForwardAuth { retry, ..auth }))))
}

impl Draft {
    fn read(&mut self, lowering: &mut Lowering<'_>, line: &Line<'_>) {
        match line.directive.name {
            "request-headers" => self.request_fields = Some(patterns(lowering, line, Names::Asked)),
            "header" => self.headers.extend(header(lowering, line)),
            "copy" => self.copied = Some(patterns(lowering, line, Names::Copied)),
            "cookies" => self.cookies = Some(patterns(lowering, line, Names::Cookies)),
            _ => self.remembers = remembers(lowering, line),
        }
    }
}

/// What names in a line stand for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Asked,
    Copied,
    Cookies,
}

fn patterns(lowering: &mut Lowering<'_>, line: &Line<'_>, names: Names) -> Vec<NamePattern> {
    let mut patterns: Vec<NamePattern> = Vec::new();
    for text in line.read_arguments(lowering).into_iter().map(Read::text) {
        let pattern = NamePattern::new(&text.value);
        let is_named = is_token(&pattern.text) && !pattern.text.contains('*') && pattern.text.len() <= NAME_BYTES_MAX;
        let is_twice = patterns.contains(&pattern);
        if !is_named || pattern.is_prefix && pattern.text.len() < PREFIX_BYTES_MIN {
            let message = format!("`{}` is not a name that `{}` can have", shortened(text.shown()), line.directive.name);
            let help = "a name, or at least two letters of its beginning and `*`, as in `X-Auth-*`";
            lowering.report(text.error("bad-value", message).help(help));
        } else if names == Names::Copied && ForwardAuth::is_never_copied(&pattern.text) {
            let message = format!("`{}` of an answer says nothing about who asks", shortened(text.shown()));
            lowering.report(text.error("bad-header", message).help("remove it; cookies for the client are said by `cookies`"));
        } else if is_twice {
            let message = format!("`{}` is written twice", shortened(text.shown()));
            lowering.report(text.error("duplicate-header", message).help("remove one of them"));
        } else {
            patterns.push(pattern);
        }
    }
    if patterns.len() > NAMES_MAX {
        let message = format!("there are more than {NAMES_MAX} names");
        lowering.report(Diagnostic::error("too-many", line.location(), message).help("a beginning and `*` stands for many"));
    }
    patterns
}

fn header(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<(String, Template)> {
    let (name, value) = error_page::header(lowering, line)?;
    if name.eq_ignore_ascii_case("host") {
        let diagnostic = Diagnostic::error("bad-header", line.location(), "the `Host` of a question is said by `host=`");
        return lowering.refuse(diagnostic.help("for example `forward-auth \"http://10.0.0.8:9091\" host=\"auth.example.com\"`"));
    }
    Some((name, value))
}

fn remembers(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<RememberedAuth> {
    for name in ["key", "ttl"].iter().filter(|name| line.property(name).is_none()) {
        let message = format!("a `cache` of `forward-auth` needs `{name}=`");
        let diagnostic = Diagnostic::error("missing-argument", line.location(), message);
        lowering.report(diagnostic.help("for example `cache key=\"{request.cookie.session}\" ttl=\"10s\"`"));
    }
    let (key, ttl) = (line.template(lowering, "key"), line.duration(lowering, "ttl"));
    let tells_apart = |part: &TemplatePart| matches!(part, TemplatePart::Placeholder(one) if one.tells_clients_apart());
    if key.as_ref().is_some_and(|key| !key.parts.iter().any(tells_apart)) {
        let message = "with this key the first request that is let through lets everybody through";
        let diagnostic = Diagnostic::error("bad-value", line.location(), message);
        return lowering.refuse(diagnostic.help("name what a client logs in with, as in `key=\"{request.cookie.session}\"`"));
    }
    Some(RememberedAuth { key: key?, ttl: ttl? })
}

/// The path of the questions: behind an address, of its own, or the preset's.
fn target(lowering: &mut Lowering<'_>, line: &Line<'_>, paths: &[Text], preset: Option<&AuthPreset>) -> String {
    let own = line.text(lowering, "path");
    // A slash alone is how a URL is written that has no path.
    let paths: Vec<&Text> = paths.iter().filter(|path| path.value != "/").collect();
    for text in own.iter().chain(paths.iter().copied()) {
        if !is_target(&text.value) {
            let message = format!("`{}` is not the path of a question", shortened(text.shown()));
            lowering.report(text.error("bad-value", message).help("it begins with `/`, as in `/api/authz/forward-auth`"));
        }
    }
    let differs = |first: &Text| paths.iter().copied().find(|path| path.value != first.value).cloned();
    if let Some(first) = own.as_ref().or(paths.first().copied())
        && let Some(other) = differs(first)
    {
        let diagnostic = other.error("conflicting-settings", "questions have one path, and this is another one");
        lowering.report(diagnostic.label(first.location.clone(), "the first").help("servers of one pool are asked alike"));
    }
    let written = own.as_ref().or(paths.first().copied()).map(|text| text.value.clone());
    written.unwrap_or_else(|| preset.map_or(ForwardAuth::TARGET, |preset| preset.path).to_owned())
}

fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.len() <= 1000 && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

fn host(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let text = line.text(lowering, "host")?;
    let parts = text.value.split_once("://").map_or(text.value.as_str(), |_| "");
    let is_host = !parts.is_empty()
        && parts.len() <= 255
        && parts.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    if !is_host {
        let message = format!("`{}` is not a host", shortened(text.shown()));
        return lowering.refuse(text.error("bad-value", message).help("for example `host=\"auth.example.com\"`"));
    }
    Some(text.value)
}

fn method(lowering: &mut Lowering<'_>, line: &Line<'_>) -> AuthMethod {
    let Some(text) = line.text(lowering, "method") else { return AuthMethod::Get };
    match text.value.as_str() {
        "GET" => AuthMethod::Get,
        "request" => AuthMethod::OfRequest,
        other if is_token(other) && other.len() <= 64 && !matches!(other, "CONNECT" | "TRACE") => {
            AuthMethod::Other(text.value.clone())
        }
        other => {
            let message = format!("`{}` is not a method that questions can have", shortened(other));
            lowering.report(text.error("bad-value", message).help("for example `method=\"POST\"` or `method=\"request\"`"));
            AuthMethod::Get
        }
    }
}

/// A question over gRPC has a path and a method of its own, and says the request's inside.
fn check_grpc(lowering: &mut Lowering<'_>, line: &Line<'_>, paths: &[Text]) {
    let of_http = ["path", "host", "method"].iter().filter_map(|name| line.property(name)).map(|value| value.location.clone());
    let behind = paths.iter().filter(|path| path.value != "/").map(|path| path.location.clone());
    for at in of_http.chain(behind) {
        let message = "a question over gRPC has a path, a host and a method of its own";
        lowering.report(Diagnostic::error("conflicting-settings", at, message).help("remove it"));
    }
}

/// A body in a GET is one that servers may leave unread.
fn check_method(lowering: &mut Lowering<'_>, line: &Line<'_>, auth: &ForwardAuth) {
    if auth.body_bytes_max.is_some()
        && !auth.is_grpc
        && auth.method == AuthMethod::Get
        && let Some(value) = line.property("body")
    {
        let message = "bodies are sent along with `GET`, in which many servers do not look for one";
        let diagnostic = Diagnostic::warning("body-in-get", value.location.clone(), message);
        lowering.report(diagnostic.help("add `method=\"POST\"` or `method=\"request\"`"));
    }
}

fn user(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let text = line.text(lowering, "user")?;
    if !is_token(&text.value) || text.value.len() > NAME_BYTES_MAX {
        let message = format!("`{}` is not a header name", shortened(text.shown()));
        return lowering.refuse(text.error("bad-header", message).help("for example `user=\"Remote-User\"`"));
    }
    Some(text.value)
}

fn sign_in(lowering: &mut Lowering<'_>, line: &Line<'_>, preset: Option<&AuthPreset>) -> Option<SignIn> {
    let redirect_param = redirect_param(lowering, line);
    let of_preset = preset.and_then(|preset| preset.sign_in);
    let url = match line.text(lowering, "sign-in") {
        Some(text) => checked_sign_in(lowering, text)?,
        None if line.property("sign-in").is_none() && of_preset.is_none() => {
            if let Some((_, at)) = redirect_param {
                let message = "`redirect-param=` does nothing without `sign-in=`";
                lowering.report(Diagnostic::warning("without-effect", at, message).help("add `sign-in=`, or remove it"));
            }
            return None;
        }
        None => of_preset?.to_owned(),
    };
    let usual = preset.map_or(SignIn::REDIRECT_PARAM, |preset| preset.redirect_param);
    Some(SignIn { url, redirect_param: redirect_param.map_or_else(|| usual.to_owned(), |(name, _)| name) })
}

/// A host of the configuration, or none at all: `//host` and `/\host` are read by browsers as another host's.
fn checked_sign_in(lowering: &mut Lowering<'_>, text: Text) -> Option<String> {
    if text.value.starts_with('/') {
        let is_path = is_target(&text.value) && !text.value.starts_with("//") && !text.value.contains('\\');
        if !is_path {
            let message = format!("`{}` is not a path of this site", shortened(text.shown()));
            return lowering.refuse(text.error("bad-url", message).help("for example `sign-in=\"/oauth2/start\"`"));
        }
        return Some(text.value);
    }
    let url = text.parsed(lowering, "bad-url", check_url(&text.value, "where to sign in", &["https", "http"]))?;
    if url.contains('\\') {
        let message = format!("`{}` is not a URL", shortened(text.shown()));
        return lowering.refuse(text.error("bad-url", message).help("for example `https://auth.example.com/login`"));
    }
    Some(url)
}

fn redirect_param(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<(String, Location)> {
    let text = line.text(lowering, "redirect-param")?;
    if !is_token(&text.value) || text.value.len() > NAME_BYTES_MAX || text.value.contains(['&', '#', '%', '+']) {
        let message = format!("`{}` is not the name of a parameter", shortened(text.shown()));
        return lowering.refuse(text.error("bad-value", message).help("for example `redirect-param=\"rd\"`"));
    }
    Some((text.value, text.location))
}
