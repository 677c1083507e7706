//! `compress`: answers are compressed as their clients like it.

use crate::diagnostics::{Diagnostic, quoted_list};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property, Repeat};
use crate::written_line::{Writer, size};
use tidegate_model::{Coding, Compress, CompressLevel, RouteOptions, Switched};

pub static COMPRESS: Directive = Directive {
    name: "compress",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::any(
        "coding",
        Kind::Text("`zstd`, `br` or `gzip`, or `off`"),
        "`zstd`, `br`, `gzip`: those that are offered, the first one preferred; all three when left out. `off`: nothing is compressed.",
    )],
    properties: &[
        Property::once(
            "level",
            Kind::AutoOrInteger { min: 1, max: CompressLevel::MOST as u64 },
            "How hard to try, as the codec counts it. `auto`, which is meant when it is left out, goes from 1 when the thread is busy to 3 (zstd), 4 (br), 5 (gzip).",
        ),
        Property::once(
            "min-size",
            Kind::Size { min: 0, max: 1 << 30 },
            "Answers that are known to be shorter go out as they are; `512B` when left out.",
        ),
        Property::once(
            "types",
            Kind::Text("media types, separated by commas"),
            "Which answers, as `text/html`, `text/*` or `application/*+json`; what is text, JSON, XML, JavaScript, SVG and the like when left out.",
        ),
        Property::once(
            "cross-site",
            Kind::Switch,
            "Whether answers are compressed for requests that another site caused and that carry a cookie or credentials; `#false` when left out.",
        ),
    ],
    summary: "Compresses answers: zstd, br or gzip, as the client likes it.",
    details: "Left alone are answers that are compressed already, marked `no-transform`, partial, empty, short, or of another type. Events and other streams are sent \
              on as they come. `Vary` says what the answer depends on, and a strong `ETag` becomes a weak one. Of several `compress` lines the last one counts, \
              so a route can say `compress \"off\"`.\n\n\
              **Secrets in compressed answers can be guessed** by who can make a browser send requests with text of their own and sees how long the answers are \
              (BREACH). That is why answers to requests of another site (`Sec-Fetch-Site: cross-site`) with a cookie or credentials are not compressed, unless \
              somebody has clicked a link.\n\n\
              Each thread gives its encoders 64 MiB at most; answers beyond go out as they are.",
    default: "nothing is compressed",
    example: "compress \"zstd\" \"br\" \"gzip\" level=\"auto\" min-size=\"1KiB\"",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

const OFF: &str = "off";
/// A list that is looked through for each answer.
const TYPES_MAX: usize = 100;

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    let codings = codings(lowering, line);
    let is_off = codings.is_none();
    let mut compress = Compress::default();
    if let Some(codings) = codings.filter(|codings| !codings.is_empty()) {
        compress.codings = codings;
    }
    if let Some(level) = level(lowering, line) {
        compress.level = level;
    }
    compress.bytes_min = line.number(lowering, "min-size").unwrap_or(compress.bytes_min);
    if let Some(types) = line.text(lowering, "types") {
        compress.types = types_of(lowering, &types);
    }
    compress.cross_site = line.switch(lowering, "cross-site").unwrap_or(compress.cross_site);
    if is_off {
        line.settings_of_off().into_iter().for_each(|fault| lowering.report(fault));
    }
    options.compress = if is_off { Switched::Off } else { Switched::On(Box::new(compress)) };
}

/// `None` is `off`. Faults are reported.
fn codings(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Vec<Coding>> {
    let mut codings: Vec<Coding> = Vec::new();
    let texts: Vec<Text> = line.read_arguments(lowering).into_iter().map(Read::text).collect();
    for text in &texts {
        if text.value == OFF {
            if texts.len() > 1 {
                let message = "`off` and codings cannot stand on one line";
                lowering.report(text.error("conflicting-codings", message).help("remove one of them"));
            }
            return None;
        }
        match Coding::ALL.into_iter().find(|coding| coding.name() == text.value) {
            Some(coding) if codings.contains(&coding) => {
                let message = format!("`{}` is named twice", coding.name());
                lowering.report(text.error("duplicate-coding", message).help("remove one of them"));
            }
            Some(coding) => codings.push(coding),
            None => lowering.report(no_coding(text)),
        }
    }
    Some(codings)
}

fn no_coding(text: &Text) -> Diagnostic {
    let diagnostic =
        text.error("bad-value", format!("`{}` is no coding that browsers take", crate::diagnostics::shortened(&text.value)));
    let names = Coding::ALL.map(Coding::name);
    match text.value.to_ascii_lowercase().as_str() {
        "on" | "true" | "all" | "auto" => diagnostic.help("it is on by its name alone: write `compress`"),
        "brotli" => diagnostic.help("write `\"br\"`, as in `Accept-Encoding`"),
        "gz" | "deflate" => diagnostic.help("write `\"gzip\"`"),
        "zst" | "zstandard" => diagnostic.help("write `\"zstd\"`"),
        _ => diagnostic.help_of_language(format!("it can be {}, or `\"off\"`", quoted_list(&names))),
    }
}

fn level(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<CompressLevel> {
    Some(match line.read(lowering, "level")? {
        Read::Number(level, _) => CompressLevel::Fixed(level as u8),
        _ => CompressLevel::Auto,
    })
}

pub fn types_of(lowering: &mut Lowering<'_>, text: &Text) -> Vec<String> {
    let types: Vec<String> = text.value.split(',').map(|entry| entry.trim().to_ascii_lowercase()).collect();
    if let Some(wrong) = types.iter().find(|entry| !is_type(entry)) {
        let message = format!("`{}` is no media type", crate::diagnostics::shortened(wrong));
        lowering.report(text.error("bad-value", message).help("for example `text/html`, `text/*` or `application/*+json`"));
    }
    if types.len() > TYPES_MAX {
        lowering.report(text.error("bad-value", format!("there are more than {TYPES_MAX} types")));
    }
    types
}

/// `type/subtype`, where the subtype may begin with a `*`, which stands for anything.
fn is_type(text: &str) -> bool {
    let is_token =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte));
    text.split_once('/').is_some_and(|(top, subtype)| {
        let behind = subtype.strip_prefix('*');
        is_token(top) && behind.map_or_else(|| is_token(subtype), |behind| behind.is_empty() || is_token(behind))
    })
}

pub fn write(line: &mut Writer, compress: &Compress) {
    let Compress { codings, level, bytes_min, types, cross_site } = compress;
    let defaults = Compress::default();
    line.name("compress");
    for coding in codings {
        line.argument(coding.name());
    }
    if let CompressLevel::Fixed(level) = level {
        line.number("level", level);
    }
    line.unless(&defaults.bytes_min, "min-size", bytes_min, size);
    line.unless(&defaults.types, "types", types, |types| types.join(",")).switch_unless(false, "cross-site", *cross_site);
}
