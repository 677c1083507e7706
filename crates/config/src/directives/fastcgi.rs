//! `fastcgi "unix:/run/php/php8.2-fpm.sock" root="/srv/www" { … }`: answers are made by scripts, such as those of
//! PHP-FPM.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::directives::pool::connection::{read_timeouts, timeout};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat, Stage};
use crate::written_line::{Writer, duration};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_model::{FastCgi, FastCgiAddress, FastCgiKeepAlive, Template, Terminal, Timeouts};

pub static FASTCGI: Directive = Directive {
    name: "fastcgi",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "address",
        Kind::Text("the address of a FastCGI server, `unix:PATH` or `host:port`"),
        "Where the FastCGI server listens: `unix:` and the path of its socket, or `host:port`.",
    )],
    properties: &[
        Property::once("root", Kind::Path, "The folder of the scripts, as the FastCGI server sees it."),
        Property::once(
            "index",
            Kind::Text("the name of a script"),
            "The script that a path with a slash at its end means; `index.php` when left out.",
        ),
        Property::once(
            "fallback",
            Kind::Text("the path of a script below the folder"),
            "The script for paths that are none, such as `/index.php`; 404 when left out.",
        ),
        Property::once(
            "split",
            Kind::Text("the end of script names, as in `\".php\"`"),
            "What names of scripts end in; `.php` when left out. What follows in the path is `PATH_INFO`.",
        ),
        Property::once(
            "static",
            Kind::Switch,
            "Whether files below the folder that are no scripts are answers as well, as with `files`; `#false` when left out.",
        ),
    ],
    block: Block::Optional(Place::FastCgi),
    summary: "Answers with what a script makes, by way of a FastCGI server such as PHP-FPM.",
    details: "The path of the request, after `strip-prefix` and `rewrite`, is that of the script below the folder. The first segment that ends in `split=` is the script and \
              what follows is `PATH_INFO`; a path that names no script goes to `fallback=`, or is 404. Where this machine has the folder too, only scripts that exist are asked for, \
              so that `/uploads/a.jpg/x.php` never makes a script of a picture. Where it has not, that is the FastCGI server's to see to (`security.limit_extensions` of PHP-FPM).\n\n\
              Scripts are told what they expect of nginx and Caddy: `SCRIPT_FILENAME`, `DOCUMENT_ROOT`, `REQUEST_URI` (as the client sent it), `REMOTE_ADDR`, `HTTPS`, and header \
              fields as `HTTP_…`. A field `Proxy`, and names with `_` or `.` in them, are not passed on, since a script could take them for others.\n\n\
              A request body of up to 256 KiB is collected before the script begins. A longer one is streamed when its length is stated; without `Content-Length` it is collected up \
              to 1 MiB, and refused with 411 beyond.",
    example: "fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\" fallback=\"/index.php\" {\n    env \"APP_ENV\" \"production\"\n}",
    lower: Lower::Terminal(lower),
    ..Directive::PLAIN
};

pub static ENV: Directive = Directive {
    name: "env",
    places: &[Place::FastCgi],
    repeat: Repeat::Many,
    arguments: &[
        Argument::one("name", Kind::Text("a name, as in `\"APP_ENV\"`"), "The param's name."),
        Argument::one("value", Kind::Template(Stage::Request), "Its value."),
    ],
    summary: "A param that scripts get beside the usual ones, or in the place of one of them.",
    details: "PHP has it in `$_SERVER`.",
    example: "env \"APP_REQUEST\" \"{request.id}\"",
    ..Directive::PLAIN
};

pub static TIMEOUT: Directive = Directive {
    name: "timeout",
    places: &[Place::FastCgi],
    properties: &[
        timeout(
            "connect",
            Duration::from_secs(300),
            "Until a connection stands, the wait while all processes of the server are busy and its queue is full included; `5s` when left out.",
        ),
        timeout(
            "first-byte",
            Duration::from_secs(86_400),
            "From the end of the request to the head of the script's answer; `60s` when left out.",
        ),
        timeout("idle", Duration::from_secs(7 * 86_400), "Between two bytes of a body; `1h` when left out."),
    ],
    summary: "How long to wait for the FastCGI server and its scripts.",
    details: "There is no limit on the whole of a request: a script may go on as long as it writes something.",
    default: "`connect=\"5s\" first-byte=\"60s\" idle=\"1h\"`",
    example: "timeout first-byte=\"5m\"",
    ..Directive::PLAIN
};

pub static KEEP_ALIVE: Directive = Directive {
    name: "keep-alive",
    places: &[Place::FastCgi],
    properties: &[
        Property::once(
            "connections",
            Kind::Integer { min: 0, max: KEPT_MAX },
            "Idle connections that each thread keeps; `0` when left out.",
        ),
        Property::once(
            "idle",
            Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(3600) },
            "How long one is kept without a request; `10s` when left out.",
        ),
    ],
    summary: "Keeps connections to the FastCGI server for the next request.",
    details: "Each connection has a process of PHP-FPM to itself, also while it is idle: with as many kept as there are processes, nobody else gets one. Keep fewer than \
              `pm.max_children` over all threads, or none: a connection over a unix socket costs microseconds.",
    default: "none are kept",
    example: "keep-alive connections=2 idle=\"5s\"",
    ..Directive::PLAIN
};

/// Idle connections of each thread.
const KEPT_MAX: u64 = 512;
/// Each is written for every request.
const ENV_MAX: usize = 200;

/// The block of a `fastcgi` while its lines are read.
#[derive(Debug, Default)]
struct FastCgiDraft {
    env: Vec<(String, Template)>,
    /// Where each of them was written.
    env_at: BTreeMap<String, Location>,
    timeouts: Timeouts,
    keep: FastCgiKeepAlive,
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Terminal> {
    let errors_before = lowering.diagnostics.len();
    let address = line.read_argument(lowering, 0).map(Read::text).and_then(|text| address(lowering, &text));
    let root = root(lowering, line);
    let index = line.text(lowering, "index");
    let fallback = line.text(lowering, "fallback");
    let split = line.text(lowering, "split");
    let serves_files = line.switch(lowering, "static").unwrap_or(false);
    let mut draft = FastCgiDraft::default();
    for child in line.lines(lowering) {
        match child.directive.name {
            "env" => lower_env(lowering, &mut draft, &child),
            "timeout" => draft.timeouts = read_timeouts(lowering, &child),
            _ => draft.keep = read_keep_alive(lowering, &child),
        }
    }
    check_index(lowering, index.as_ref());
    check_fallback(lowering, fallback.as_ref());
    check_split(lowering, split.as_ref());
    // Warnings of values that came from elsewhere do not count; there are none here.
    if lowering.diagnostics.len() > errors_before {
        return None;
    }
    let (address, (root, root_at)) = (address?, root?);
    lowering.spans.files.push((root.clone(), root_at));
    let FastCgiDraft { env, env_at: _, timeouts, keep } = draft;
    let mut fastcgi = FastCgi { env, timeouts, keep, serves_files, ..FastCgi::new(address, root) };
    fastcgi.index = index.map_or(fastcgi.index, |text| text.value);
    fastcgi.split = split.map_or(fastcgi.split, |text| text.value);
    fastcgi.fallback = fallback.map(|text| text.value);
    Some(Terminal::FastCgi(Box::new(fastcgi)))
}

fn address(lowering: &mut Lowering<'_>, text: &Text) -> Option<FastCgiAddress> {
    match FastCgiAddress::parse(&text.value) {
        Ok(address) => {
            if let FastCgiAddress::Unix(path) = &address {
                lowering.spans.files.push((path.clone(), text.location.clone()));
            }
            Some(address)
        }
        Err(reason) => {
            let help = "for example `unix:/run/php/php8.2-fpm.sock` or `127.0.0.1:9000`";
            lowering.report(text.error("bad-address", reason).help(help));
            None
        }
    }
}

/// Scripts have no other name than their path, so it is made absolute here.
fn root(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<(PathBuf, Location)> {
    let Some(text) = line.text(lowering, "root") else {
        if line.property("root").is_none() {
            let diagnostic = Diagnostic::error("missing-argument", line.location(), "`fastcgi` needs the folder of its scripts");
            lowering.report(diagnostic.help("for example `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\"`"));
        }
        return None;
    };
    let path = lowering.path(&text.value, &text.location);
    match std::path::absolute(&path) {
        Ok(path) => Some((path, text.location)),
        Err(error) => {
            let message = format!("`root=` is relative, and the folder that it is relative to is not known: {error}");
            lowering.report(text.error("bad-value", message).help("write the whole path, as in `root=\"/srv/www\"`"));
            None
        }
    }
}

fn check_index(lowering: &mut Lowering<'_>, text: Option<&Text>) {
    let Some(text) = text else { return };
    if text.value.contains(',') {
        let message = "`index=` is the name of one script";
        lowering.report(text.error("bad-value", message).help("a path with a slash at its end means this one and no other"));
    } else if !is_name(&text.value) {
        let message = format!("`{}` is not the name of a script", shortened(&text.value));
        lowering.report(text.error("bad-value", message).help("for example `index=\"index.php\"`"));
    }
}

fn check_fallback(lowering: &mut Lowering<'_>, text: Option<&Text>) {
    let Some(text) = text else { return };
    if let Some((path, _)) = text.value.split_once('?') {
        let message = "`fallback=` is a path without a query";
        let help = format!("write `fallback=\"{}\"`: scripts get the query of the request", shortened(path));
        lowering.report(text.error("bad-value", message).help(help));
    } else if !text.value.strip_prefix('/').is_some_and(|path| path.split('/').all(is_name)) {
        let message = format!("`{}` is not the path of a script below the folder", shortened(&text.value));
        lowering.report(text.error("bad-value", message).help("it begins with a slash, as in `fallback=\"/index.php\"`"));
    }
}

fn check_split(lowering: &mut Lowering<'_>, text: Option<&Text>) {
    let Some(text) = text else { return };
    if text.value.is_empty() || text.value.contains(['/', '\0']) {
        let message = format!("`{}` is not the end of a script's name", shortened(&text.value));
        lowering.report(text.error("bad-value", message).help("for example `split=\".php\"`"));
    }
}

fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\0'])
}

fn lower_env(lowering: &mut Lowering<'_>, draft: &mut FastCgiDraft, line: &Line<'_>) {
    let name = line.read_argument(lowering, 0).map(Read::text);
    let value = line.read_argument(lowering, 1).map(Read::template);
    let (Some(name), Some(value)) = (name, value) else { return };
    if name.value.is_empty() || !name.value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=') {
        let message = format!("`{}` cannot be the name of a param", shortened(&name.value));
        lowering.report(name.error("bad-name", message).help("as an environment variable, for example `APP_ENV`"));
        return;
    }
    if let Some(first) = draft.env_at.get(&name.value) {
        let diagnostic = name.error("duplicate-directive", format!("`{}` is set twice", shortened(&name.value)));
        lowering.report(diagnostic.label(first.clone(), "the first one").help("remove one of them"));
        return;
    }
    if draft.env.len() == ENV_MAX {
        lowering.report(Diagnostic::error("bad-value", line.location(), format!("there are more than {ENV_MAX} params")));
        return;
    }
    draft.env_at.insert(name.value.clone(), name.location);
    draft.env.push((name.value, value));
}

fn read_keep_alive(lowering: &mut Lowering<'_>, line: &Line<'_>) -> FastCgiKeepAlive {
    if line.node.entries.is_empty() {
        let diagnostic = Diagnostic::error("missing-argument", line.location(), "`keep-alive` sets nothing");
        lowering.report(diagnostic.help(format!("for example `{}`", KEEP_ALIVE.example)));
    }
    let defaults = FastCgiKeepAlive::default();
    FastCgiKeepAlive {
        connections: line.number(lowering, "connections").map_or(defaults.connections, |count| count as u32),
        idle: line.duration(lowering, "idle").unwrap_or(defaults.idle),
    }
}

pub fn write(line: &mut Writer, fastcgi: &FastCgi) {
    let FastCgi { address, root, index, fallback, split, env, serves_files, timeouts, keep } = fastcgi;
    let defaults = FastCgi::new(address.clone(), root);
    line.name("fastcgi").argument(address).property("root", root.display());
    line.unless(&defaults.index, "index", index, String::clone).optional("fallback", fallback.as_ref());
    line.unless(&defaults.split, "split", split, String::clone).switch_unless(false, "static", *serves_files);
    enum Inner<'a> {
        Env(&'a str, &'a Template),
        Timeouts(&'a Timeouts),
        Keep(&'a FastCgiKeepAlive),
    }
    let env = env.iter().map(|(name, value)| Inner::Env(name, value));
    let timeouts = (*timeouts != defaults.timeouts).then_some(Inner::Timeouts(timeouts));
    let keep = (*keep != defaults.keep).then_some(Inner::Keep(keep));
    line.block(env.chain(timeouts).chain(keep), |line, inner| {
        match inner {
            Inner::Env(name, value) => {
                let value = line.secret_by_name(name, value);
                line.name("env").argument(name).argument(value)
            }
            Inner::Timeouts(Timeouts { connect, first_byte, idle }) => {
                line.name("timeout").property("connect", duration(connect));
                line.property("first-byte", duration(first_byte)).property("idle", duration(idle))
            }
            Inner::Keep(FastCgiKeepAlive { connections, idle }) => {
                line.name("keep-alive").number("connections", connections).property("idle", duration(idle))
            }
        };
    });
}
