//! `rewrite-location`, `rewrite-cookie-path` and `rewrite-cookie-domain`: what a server's answers say of where
//! something is, said otherwise.

use crate::diagnostics::{Diagnostic, shortened};
use crate::forms::has_control_character;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::patterns;
use crate::placeholders;
use crate::reading::expect_text;
use crate::syntax::Literal;
use crate::table::{Argument, Kind, Place, Repeat, Stage};
use crate::written_line::Writer;
use tidegate_model::{AnswerPart, AnswerRewrite, Placeholder, RewrittenText, RouteOptions, Template, TemplatePart};

const PLACES: &[Place] = &[Place::Site, Place::Route];
const TO: Argument = Argument::one(
    "to",
    Kind::Template(Stage::Request),
    "What stands in its place; `{host}` and `{scheme}` are the client's, and `$1` the first group of an expression.",
);

pub static REWRITE_LOCATION: Directive = Directive {
    name: "rewrite-location",
    places: PLACES,
    repeat: Repeat::Many,
    arguments: &[
        Argument::one(
            "from",
            Kind::Text("the beginning of a location, or a regular expression with `~`"),
            "What a location begins with, or `~` and a regular expression for all of it.",
        ),
        TO,
    ],
    summary: "Replaces what `Location` of an answer begins with, and the address in `Refresh`.",
    details: "The first line that fits counts, those of a route before those of its site. What follows the beginning stays; where an expression is found anywhere, all of the location is replaced. A location that a rule \
              makes a path of stays on this host, however many slashes a server has put into it.\n\n\
              For an application that `strip-prefix` has mounted beneath a prefix nothing has to be said line by line: `proxy \"app\" rewrite-location=#true` translates what names \
              the application's own address or path into what the client sees.",
    default: "locations go on as servers have written them",
    example: "rewrite-location \"http://10.0.0.4:8000/two/\" \"/one/\"",
    lower: Lower::Option(lower_location),
    ..Directive::PLAIN
};

pub static REWRITE_COOKIE_PATH: Directive = Directive {
    name: "rewrite-cookie-path",
    places: PLACES,
    repeat: Repeat::Many,
    arguments: &[
        Argument::one(
            "from",
            Kind::Text("the beginning of a path, or a regular expression with `~`"),
            "What the path begins with, or `~` and a regular expression for all of it.",
        ),
        TO,
    ],
    summary: "Replaces what `Path` of the cookies of an answer begins with.",
    details: "The first line that fits counts, those of a route before those of its site. Cookies whose name begins with `__Host-` stay as they are, and so does a path that would become none.",
    default: "cookies go on as servers have set them",
    example: "rewrite-cookie-path \"/two/\" \"/one/\"",
    lower: Lower::Option(lower_cookie_path),
    ..Directive::PLAIN
};

pub static REWRITE_COOKIE_DOMAIN: Directive = Directive {
    name: "rewrite-cookie-domain",
    places: PLACES,
    repeat: Repeat::Many,
    arguments: &[
        Argument::one(
            "from",
            Kind::Text("a domain, or a regular expression with `~`"),
            "The domain, with a dot in front of it or without, or `~` and a regular expression for it.",
        ),
        TO,
    ],
    summary: "Replaces `Domain` of the cookies of an answer.",
    details: "The first line that fits counts, those of a route before those of its site.",
    default: "cookies go on as servers have set them",
    example: "rewrite-cookie-domain \"app.internal\" \"{host}\"",
    lower: Lower::Option(lower_cookie_domain),
    ..Directive::PLAIN
};

fn lower_location(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    lower(lowering, options, line, AnswerPart::Location);
}

fn lower_cookie_path(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    lower(lowering, options, line, AnswerPart::CookiePath);
}

fn lower_cookie_domain(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    lower(lowering, options, line, AnswerPart::CookieDomain);
}

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>, part: AnswerPart) {
    let Some(rule) = rule(lowering, line, part) else { return };
    let rules = &mut options.answer_rewrites;
    if rules.len() == AnswerRewrite::RULES_MAX {
        let message = format!("there are more than {} rules for answers", AnswerRewrite::RULES_MAX);
        let diagnostic = Diagnostic::error("bad-value", line.location(), message);
        return lowering.report(diagnostic.help("write an expression that has the others in it"));
    }
    if rules.iter().any(|known| known.part == rule.part && known.from == rule.from) {
        let diagnostic = Diagnostic::error("duplicate-value", line.location(), "another line before this one takes all of that");
        return lowering.report(diagnostic.help("remove one of them"));
    }
    rules.push(rule);
}

fn rule(lowering: &mut Lowering<'_>, line: &Line<'_>, part: AnswerPart) -> Option<AnswerRewrite> {
    let owner = format!("`{}`", line.directive.name);
    let from = expect_text(lowering, line.argument(0)?, &owner, "a text, or a regular expression with `~`")?;
    let target = expect_text(lowering, line.argument(1)?, &owner, "a text")?;
    let (from, groups) = if matches!(&from.literal, Literal::Text(raw) if raw.starts_with('~')) {
        let text = placeholders::resolve_pattern(lowering, from)?;
        let regex = text.value.strip_prefix('~').unwrap_or(&text.value).to_owned();
        let groups = patterns::check_regex(lowering, &text, &regex)?;
        (RewrittenText::Expression(regex), Some(groups))
    } else {
        let text = placeholders::resolve_pattern(lowering, from)?;
        let is_one = match part {
            AnswerPart::Location => true,
            AnswerPart::CookiePath => text.value.starts_with('/'),
            AnswerPart::CookieDomain => !text.value.contains('/'),
        };
        if text.value.is_empty() || !is_one || text.value.contains(|c: char| c.is_control() || c == ' ' || c == ';') {
            let message = format!("no answer has `{}` there", shortened(text.shown()));
            return lowering.refuse(text.error("bad-value", message).help(format!("for example `{}`", line.directive.example)));
        }
        (RewrittenText::Plain(text.value), None)
    };
    let to = placeholders::resolve_template(lowering, target, Stage::Request, groups)?;
    if let Some(fault) = fault_of(&to, part) {
        let diagnostic = Diagnostic::error("bad-target", target.location.clone(), fault);
        return lowering.refuse(diagnostic.help(format!("for example `{}`", line.directive.example)));
    }
    Some(AnswerRewrite { part, from, to })
}

/// What keeps a text from standing in an answer.
fn fault_of(to: &Template, part: AnswerPart) -> Option<&'static str> {
    let is_known = |placeholder: &Placeholder| matches!(placeholder, Placeholder::Host | Placeholder::Scheme);
    let literals = || to.parts.iter().filter_map(|part| if let TemplatePart::Literal(text) = part { Some(text) } else { None });
    if !to.placeholders().all(is_known) {
        return Some("an answer may be kept for others: `{host}` and `{scheme}` are all that this can hold");
    }
    if has_control_character(to) || literals().any(|text| text.contains(';') && part != AnswerPart::Location) {
        return Some("this cannot stand in a field of an answer");
    }
    let begins_with_slash = match to.parts.first() {
        Some(TemplatePart::Literal(text)) => text.starts_with('/'),
        Some(TemplatePart::Capture(_)) => true,
        Some(TemplatePart::Placeholder(_)) | None => false,
    };
    match part {
        AnswerPart::CookiePath if !begins_with_slash => Some("the path of a cookie begins with `/`"),
        AnswerPart::CookieDomain if to.parts.is_empty() => Some("a cookie has no empty domain"),
        AnswerPart::Location | AnswerPart::CookiePath | AnswerPart::CookieDomain => None,
    }
}

pub fn write(line: &mut Writer, AnswerRewrite { part, from, to }: &AnswerRewrite) {
    line.name(match part {
        AnswerPart::Location => REWRITE_LOCATION.name,
        AnswerPart::CookiePath => REWRITE_COOKIE_PATH.name,
        AnswerPart::CookieDomain => REWRITE_COOKIE_DOMAIN.name,
    });
    match from {
        RewrittenText::Plain(text) => line.argument(text),
        RewrittenText::Expression(text) => line.argument(format_args!("~{text}")),
    };
    line.argument(to);
}
