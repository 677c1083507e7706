//! `fastcgi "unix:/run/php/php8.2-fpm.sock" root="/srv/www" { … }`: answers are made by scripts, such as those of
//! PHP-FPM.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::directives::proxy::{self, Sends};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat, Stage};
use crate::written_line::Writer;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tidegate_model::{FastCgi, Template, Terminal};

pub static FASTCGI: Directive = Directive {
    name: "fastcgi",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::any(
        "servers",
        Kind::Text("the name of a pool, or addresses of FastCGI servers"),
        "The name of a pool with `protocol \"fastcgi\"`; or one or more addresses, `unix:PATH` or `host:port`, which are a pool written in place.",
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
    summary: "Answers with what a script makes, by way of FastCGI servers such as PHP-FPM.",
    details: "As with `proxy`, a text with a `:` is an address, any other is the name of a pool. Behind addresses the block takes everything that a `pool` takes, and `env`; \
              behind the name of a pool it takes `env` and `retry`.\n\n\
              The path of the request, after `strip-prefix` and `rewrite`, is that of the script below the folder. The first segment that ends in `split=` is the script and \
              what follows is `PATH_INFO`; a path that names no script goes to `fallback=`, or is 404. Where this machine has the folder too, only scripts that exist are asked for, \
              so that `/uploads/a.jpg/x.php` never makes a script of a picture. Where it has not, that is the FastCGI server's to see to (`security.limit_extensions` of PHP-FPM).\n\n\
              Scripts are told what they expect of nginx and Caddy: `SCRIPT_FILENAME`, `DOCUMENT_ROOT`, `REQUEST_URI` (as the client sent it), `REMOTE_ADDR`, `HTTPS`, and header \
              fields as `HTTP_…`. A field `Proxy`, and names with `_` or `.` in them, are not passed on, since a script could take them for others.\n\n\
              A request body is collected before the script begins, so that a client which sends slowly holds no process: up to 256 KiB in memory, and what is longer in a file \
              without a name in the state folder. It may have 1 GiB, or what `body-limit` says.",
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

/// Each is written for every request.
const ENV_MAX: usize = 200;

/// What is of scripts in the block of a `fastcgi`, while its lines are read.
#[derive(Debug, Default)]
struct FastCgiDraft {
    env: Vec<(String, Template)>,
    /// Where each of them was written.
    env_at: BTreeMap<String, Location>,
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Terminal> {
    let errors_before = lowering.diagnostics.len();
    let mut draft = FastCgiDraft::default();
    let pool = proxy::read_pool(lowering, line, Sends::ToScripts(&mut |lowering, line| lower_env(lowering, &mut draft, line)));
    let root = root(lowering, line);
    let index = line.text(lowering, "index");
    let fallback = line.text(lowering, "fallback");
    let split = line.text(lowering, "split");
    let serves_files = line.switch(lowering, "static").unwrap_or(false);
    check_index(lowering, index.as_ref());
    check_fallback(lowering, fallback.as_ref());
    check_split(lowering, split.as_ref());
    if lowering.has_errors_since(errors_before) {
        return None;
    }
    let ((pool, retry), (root, root_at)) = (pool?, root?);
    lowering.spans.files.push((root.clone(), root_at));
    let mut fastcgi = FastCgi { retry, env: draft.env, serves_files, ..FastCgi::new(pool, root) };
    fastcgi.index = index.map_or(fastcgi.index, |text| text.value);
    fastcgi.split = split.map_or(fastcgi.split, |text| text.value);
    fastcgi.fallback = fallback.map(|text| text.value);
    Some(Terminal::FastCgi(Box::new(fastcgi)))
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
            lowering.refuse(text.error("bad-value", message).help("write the whole path, as in `root=\"/srv/www\"`"))
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
    let Some(name) = name else { return };
    if !is_param(&name.value) {
        lowering.report(bad_param(&name));
        return;
    }
    let Some(value) = value else { return };
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

fn bad_param(name: &Text) -> Diagnostic {
    match name.value.split_once('=') {
        // As a shell has it, and Docker. The value may be a secret.
        Some((param, _)) if is_param(param) => name
            .error("bad-name", format!("`{}=…` cannot be the name of a param", shortened(param)))
            .hiding([name.location.clone()])
            .help(format!("name and value stand apart: `env \"{}\" \"…\"`", shortened(param))),
        Some(_) | None => name
            .error("bad-name", format!("`{}` cannot be the name of a param", shortened(&name.value)))
            .help("as an environment variable, for example `APP_ENV`"),
    }
}

/// What no script takes for something else: not empty, and neither a blank nor a control byte nor `=` in it.
fn is_param(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=')
}

pub fn write(line: &mut Writer, fastcgi: &FastCgi) {
    let FastCgi { pool, retry, root, index, fallback, split, env, serves_files } = fastcgi;
    let defaults = FastCgi::new(pool.clone(), root);
    line.name("fastcgi").argument(&pool.0).property("root", root.display());
    line.unless(&defaults.index, "index", index, String::clone).optional("fallback", fallback.as_ref());
    line.unless(&defaults.split, "split", split, String::clone).switch_unless(false, "static", *serves_files);
    let env = env.iter().map(Some);
    // Behind the last of them, `retry`.
    line.block(env.chain([None]), |line, param| match param {
        Some((name, value)) => {
            let value = line.secret_by_name(name, value);
            line.name("env").argument(name).argument(value);
        }
        None => proxy::write_retry_line(line, retry),
    });
}
