//! `rewrite`, `strip-prefix`, `add-prefix`: changes of the path before it goes to the upstream.

use crate::diagnostics::{Diagnostic, Location};
use crate::forms::has_control_character;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::patterns;
use crate::placeholders::{self, Text};
use crate::reading::{Read, expect_text};
use crate::table::{Argument, Kind, Place, Repeat, Stage};
use crate::written_line::Writer;
use std::borrow::Cow;
use tidegate_model::{Placeholder, Step, Template, TemplatePart};

const PLACES: &[Place] = &[Place::Site, Place::Route, Place::Arm];

pub static REWRITE: Directive = Directive {
    name: "rewrite",
    places: PLACES,
    repeat: Repeat::Many,
    arguments: &[
        Argument::one(
            "path-or-pattern",
            Kind::Text("a path, or a regular expression with `~`"),
            "The new path; or with a second argument `~` and a regular expression.",
        ),
        Argument::optional(
            "path",
            Kind::Template(Stage::Request),
            "The new path, where `$1` is the first group of the expression, and `$$` a dollar.",
        ),
    ],
    summary: "Replaces the path.",
    details: "With a regular expression, the path is replaced as a whole when the expression is found anywhere in it, and left alone \
              otherwise. The query is kept, unless the new path has a `?`; `&{query}` at the end adds it to another one, without its `&` where there is none. Later steps and `{path}` see the new path; the route that was taken stays. \
              `{path}`, `{uri}` and `{asked.uri}` bring whole paths, and `$1` what it found. A header, a cookie and every other text that a client chooses is **one piece**: slashes, `?`, `#`, \
              `%`, `&` and their like in it are percent-encoded, so that nobody leaves the path or adds to the query by it. A new path with a segment of dots, in whatever encoding, \
              is not sent anywhere: 400, `rewrite_escapes_root`.",
    example: "rewrite \"~^/users/([0-9]+)$\" \"/profile/$1\"",
    lower: Lower::Step(lower_rewrite),
    meant: "it changes the path that goes on, and nothing stands behind it; a client is sent elsewhere by `route \"~^/old/\" { redirect \"https://example.com{uri}\" status=301 }`",
    ..Directive::PLAIN
};

pub static STRIP_PREFIX: Directive = Directive {
    name: "strip-prefix",
    places: PLACES,
    repeat: Repeat::Many,
    arguments: &[Argument::one("prefix", Kind::Text("a path, as in `\"/api\"`"), "Whole segments.")],
    summary: "Takes a prefix off the path: with `/api`, `/api/users` becomes `/users`.",
    details: "A path without the prefix is left alone: `/apis` does not start with the segment `/api`.",
    example: "strip-prefix \"/api\"",
    lower: Lower::Step(lower_strip_prefix),
    ..Directive::PLAIN
};

pub static ADD_PREFIX: Directive = Directive {
    name: "add-prefix",
    places: PLACES,
    repeat: Repeat::Many,
    arguments: &[Argument::one("prefix", Kind::Text("a path, as in `\"/v1\"`"), "Whole segments.")],
    summary: "Puts a prefix in front of the path: with `/v1`, `/users` becomes `/v1/users`.",
    example: "add-prefix \"/v1\"",
    lower: Lower::Step(lower_add_prefix),
    ..Directive::PLAIN
};

fn lower_rewrite(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let first = expect_text(lowering, line.argument(0)?, "`rewrite`", "a path, or a regular expression with `~`")?;
    let is_regex = matches!(&first.literal, crate::syntax::Literal::Text(raw) if raw.starts_with('~'));
    let (pattern, captures, target) = match (is_regex, line.argument(1)) {
        (false, None) => (None, None, first),
        (true, None) => {
            let diagnostic =
                Diagnostic::error("missing-argument", first.location.clone(), "this expression has nothing to be replaced with")
                    .help("add the new path, as in `rewrite \"~^/old/(.*)\" \"/new/$1\"`");
            return lowering.refuse(diagnostic);
        }
        (false, Some(second)) => {
            let diagnostic =
                Diagnostic::error("bad-pattern", first.location.clone(), "with two arguments, the first is a regular expression")
                    .label(second.location.clone(), "the new path")
                    .help("start it with `~`, or leave it out");
            return lowering.refuse(diagnostic);
        }
        (true, Some(second)) => {
            let text = placeholders::resolve_pattern(lowering, first)?;
            let regex = text.value.strip_prefix('~').unwrap_or(&text.value).to_string();
            let groups = patterns::check_regex(lowering, &text, &regex)?;
            (Some(regex), Some(groups), second)
        }
    };
    let target = expect_text(lowering, target, "`rewrite`", "a path")?;
    let to = placeholders::resolve_template(lowering, target, Stage::Request, captures)?;
    check_target(lowering, &to, target.location.clone())?;
    Some(Step::Rewrite { pattern, to })
}

fn check_target(lowering: &mut Lowering<'_>, to: &Template, at: Location) -> Option<()> {
    let starts_with_slash = match to.parts.first() {
        None => false,
        Some(TemplatePart::Literal(text)) => text.starts_with('/'),
        Some(
            TemplatePart::Placeholder(Placeholder::Path | Placeholder::Uri | Placeholder::AskedUri) | TemplatePart::Capture(_),
        ) => true,
        Some(TemplatePart::Placeholder(_)) => false,
    };
    if !starts_with_slash {
        let help = match (to.as_literal(), to.parts.first()) {
            (Some(text), _) if text.contains("://") => {
                "to send the client elsewhere, use `redirect`; another upstream stands in `proxy`"
            }
            (_, Some(TemplatePart::Placeholder(_))) => {
                "`{path}`, `{uri}` and `{asked.uri}` are whole paths; what other placeholders bring is one piece of a path, with every slash in it encoded"
            }
            _ => "a path starts with `/`",
        };
        return lowering.refuse(Diagnostic::error("bad-target", at, "the new path has to start with `/`").help(help));
    }
    if has_control_character(to) {
        return lowering.refuse(Diagnostic::error("bad-target", at, "a path cannot hold control characters"));
    }
    if to.has_dot_segments() {
        let diagnostic = Diagnostic::error("bad-target", at, "the new path has a segment of dots");
        return lowering.refuse(diagnostic.help("write the path that is meant"));
    }
    Some(())
}

fn lower_strip_prefix(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let text = line.read_argument(lowering, 0).map(Read::text)?;
    prefix(lowering, &text).map(Step::StripPrefix)
}

fn lower_add_prefix(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Step> {
    let text = line.read_argument(lowering, 0).map(Read::text)?;
    prefix(lowering, &text).map(Step::AddPrefix)
}

/// Whole segments without a slash at the end.
pub fn prefix(lowering: &mut Lowering<'_>, text: &Text) -> Option<String> {
    let fault = if !text.value.starts_with('/') {
        Some(("a prefix starts with `/`", Cow::Owned(format!("write `\"/{}\"`", text.value))))
    } else if text.value == "/" {
        Some(("`/` is the prefix of everything, so nothing would change", "remove the line".into()))
    } else if let Some(stem) = text.value.strip_suffix("/*") {
        Some(("a prefix is not a pattern", format!("write `\"{stem}\"`").into()))
    } else if text.value.contains(['?', '#', '*']) || text.value.contains("//") || text.value.chars().any(char::is_control) {
        Some(("a prefix consists of path segments", "it holds no `?`, `#`, `*` and no empty segment".into()))
    } else {
        None
    };
    if let Some((reason, help)) = fault {
        let diagnostic = text.error("bad-prefix", reason);
        return lowering.refuse(diagnostic.help(help));
    }
    Some(text.value.trim_end_matches('/').to_string())
}

pub fn write(line: &mut Writer, pattern: Option<&String>, to: &Template) {
    line.name("rewrite");
    if let Some(pattern) = pattern {
        line.argument(format_args!("~{pattern}"));
    }
    line.argument(to);
}

pub fn write_prefix(line: &mut Writer, name: &str, prefix: &str) {
    line.name(name).argument(prefix);
}
