//! `files "/srv/www"`: answers are files.

use crate::diagnostics::{Diagnostic, shortened};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::{Read, read};
use crate::table::{Argument, Kind, Place, Property, Repeat, Stage};
use crate::written_line::Writer;
use tidegate_model::{Files, Placeholder, Symlinks, TemplatePart, Terminal};

pub static FILES: Directive = Directive {
    name: "files",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::one("folder", Kind::Path, "The folder whose files are served.")],
    properties: &[
        Property::once(
            "index",
            Kind::Text("names of files, separated by commas"),
            "Files that answer for their folder, the first that exists; `index.html` when left out.",
        ),
        Property::once(
            "try",
            Kind::Template(Stage::Request),
            "What is looked for in place of the path, in this order; `{path}` stands for it. One that ends with a slash is a folder, others are files.",
        ),
        Property::once(
            "else",
            Kind::Choice(&["next"]),
            "`next`: without a file the request is not this route's, and the routes behind it are looked at.",
        ),
        Property::once(
            "fallback",
            Kind::Text("a path below the folder"),
            "What answers, with 200, where there is no file: for applications of one page.",
        ),
        Property::once(
            "listing",
            Kind::Switch,
            "Whether a folder without index file answers with the list of its entries; `#false` when left out.",
        ),
        Property::once(
            "precompressed",
            Kind::Switch,
            "Whether `name.zst`, `name.br` and `name.gz` beside a file are sent in its place to clients that take them; `#false` when left out.",
        ),
        Property::once(
            "symlinks",
            Kind::Choice(&["within", "follow", "refuse"]),
            "Whether symbolic links are followed: `within` the folder, which is meant when it is left out, anywhere (`follow`), or never (`refuse`).",
        ),
        Property::once(
            "hidden",
            Kind::Switch,
            "Whether names that begin with a dot are served; `#false` when left out. `.well-known` always is.",
        ),
        Property::many(
            "mime",
            Kind::Text("`extension type`, as in `\"glb model/gltf-binary\"`"),
            "The media type of an extension, before those that are known; as it is written, a charset included.",
        ),
    ],
    summary: "Answers with files of a folder.",
    details: "The path of the request is the path below the folder, after `strip-prefix` and `rewrite`: in `route \"/static/*\"`, `files \"/srv/www\"` serves \
              `/static/a.css` from `/srv/www/static/a.css`, and with `strip-prefix \"/static\"` from `/srv/www/a.css`.\n\n\
              GET and HEAD, with `ETag` and `Last-Modified`, conditional requests, one or several ranges. A folder without a slash behind it redirects to the one with it. \
              Nothing outside of the folder is ever opened, whatever the path and the links in it; a path with an encoded slash, a `.` segment or a NUL is 400, a hidden name, \
              a device or a link that leaves the folder is 404. Without `listing=` a folder that has no index file is 404.\n\n\
              With `else=\"next\"` an application answers where there is no file: `files \"/srv/www\" try=\"{path} {path}.html {path}/index.html\" else=\"next\"` and `proxy \"app\"` behind it, \
              in the same site or route. What decides is whether there is a file for the path as the steps of the route leave it; only then any other of its steps runs. Requests that are no GET or HEAD go on.\n\n\
              A folder that is replaced, or a link to it that is switched to another release, is noticed within a second.",
    example: "files \"/srv/www\" index=\"index.html\" fallback=\"/index.html\"",
    lower: Lower::Terminal(lower),
    ..Directive::PLAIN
};

/// Each is looked for, for every request of a folder.
const INDEX_MAX: usize = 16;
const TRIES_MAX: usize = 16;
const MIME_MAX: usize = 1000;

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Terminal> {
    let errors_before = lowering.diagnostics.len();
    let folder = line.read_argument(lowering, 0).map(Read::text);
    let index = line.text(lowering, "index").map(|text| index(lowering, &text));
    let fallback = line.text(lowering, "fallback").map(|text| fallback(lowering, text));
    let mime: Vec<(String, String)> = mime(lowering, line);
    let tries = tries(lowering, line);
    let goes_on = line.read(lowering, "else").is_some();
    if goes_on && let Some(both) = line.property("fallback") {
        let message = "`fallback=` answers whatever is missing, so nothing goes on to the routes behind";
        let diagnostic = Diagnostic::error("conflicting-settings", both.location.clone(), message);
        lowering.report(diagnostic.help("remove `else=\"next\"`, or `fallback=`"));
    }
    let symlinks = line.read(lowering, "symlinks").map(Read::choice);
    let switch = |lowering: &mut Lowering<'_>, name: &str| line.switch(lowering, name).unwrap_or(false);
    let (listing, precompressed, hidden) =
        (switch(lowering, "listing"), switch(lowering, "precompressed"), switch(lowering, "hidden"));
    let folder = folder?;
    let root = lowering.path(&folder.value, &folder.location);
    lowering.spans.files.push((root.clone(), folder.location.clone()));
    let mut files = Files { tries, goes_on, fallback, mime, listing, precompressed, hidden, ..Files::new(root) };
    files.index = index.unwrap_or(files.index);
    if let Some((_, symlinks)) = Symlinks::NAMES.iter().find(|(name, _)| Some(*name) == symlinks) {
        files.symlinks = *symlinks;
    }
    (!lowering.has_errors_since(errors_before)).then(|| Terminal::Files(Box::new(files)))
}

fn index(lowering: &mut Lowering<'_>, text: &Text) -> Vec<String> {
    let names: Vec<String> = text.value.split(',').map(|name| name.trim().to_owned()).collect();
    if let Some(wrong) =
        names.iter().find(|name| name.is_empty() || name.contains(['/', '\0']) || matches!(name.as_str(), "." | ".."))
    {
        let message = format!("`{}` is not the name of a file", shortened(wrong));
        lowering.report(text.error("bad-value", message).help("for example `index=\"index.html,index.htm\"`"));
    }
    if names.len() > INDEX_MAX {
        lowering.report(text.error("bad-value", format!("there are more than {INDEX_MAX} names")));
    }
    names
}

fn tries(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<String> {
    let (Some(value), Some(template)) = (line.property("try"), line.template(lowering, "try")) else { return Vec::new() };
    let part = |part: &TemplatePart| match part {
        TemplatePart::Literal(text) => Some(text.replace(['{', '}'], "\0")),
        TemplatePart::Placeholder(Placeholder::Path) => Some(Files::PATH.to_owned()),
        TemplatePart::Placeholder(_) | TemplatePart::Capture(_) => None,
    };
    let mut report = |message: String| {
        let diagnostic = Diagnostic::error("bad-value", value.location.clone(), message);
        lowering.report(diagnostic.help("for example `try=\"{path} {path}.html {path}/index.html\"`"));
    };
    let Some(written) = template.parts.iter().map(part).collect::<Option<String>>() else {
        report("of a request only `{path}` can stand in `try=`".to_owned());
        return Vec::new();
    };
    let paths: Vec<String> = written.split_ascii_whitespace().map(str::to_owned).collect();
    let is_path = |path: &String| {
        let rest = path.replace(Files::PATH, "/");
        rest.starts_with('/') && !rest.contains(['\0', '\\']) && !rest.split('/').any(|name| matches!(name, "." | ".."))
    };
    if let Some(wrong) = paths.iter().find(|path| !is_path(path)) {
        report(format!("`{}` is no path below the folder", shortened(&wrong.replace('\0', "?"))));
    }
    if paths.is_empty() {
        report("`try=` names no path".to_owned());
    }
    if paths.len() > TRIES_MAX {
        report(format!("there are more than {TRIES_MAX} paths"));
    }
    paths
}

fn fallback(lowering: &mut Lowering<'_>, text: Text) -> String {
    let segments = text.value.trim_start_matches('/').split('/');
    if text.value.contains('\0') || segments.into_iter().any(|segment| matches!(segment, "" | "." | "..")) {
        let message = format!("`{}` is not a file below the folder", shortened(&text.value));
        lowering.report(text.error("bad-value", message).help("for example `fallback=\"/index.html\"`"));
    }
    text.value
}

fn mime(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<(String, String)> {
    let mut types = Vec::new();
    for entry in line.properties("mime") {
        let read = read(lowering, &entry.value, Kind::Text("`extension type`"), "`mime=`");
        let Some(text) = read.map(Read::text) else { continue };
        let parts =
            text.value.split_once(' ').map(|(extension, media_type)| (extension.trim_start_matches('.'), media_type.trim()));
        let is_well = |(extension, media_type): &(&str, &str)| {
            !extension.is_empty() && media_type.contains('/') && media_type.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        };
        match parts.filter(is_well) {
            Some((extension, media_type)) => types.push((extension.to_owned(), media_type.to_owned())),
            None => {
                let message = format!("`{}` is not an extension and its media type", shortened(&text.value));
                lowering.report(text.error("bad-value", message).help("for example `mime=\"glb model/gltf-binary\"`"));
            }
        }
    }
    if types.len() > MIME_MAX {
        lowering.report(Diagnostic::error("bad-value", line.location(), format!("there are more than {MIME_MAX} types")));
    }
    types
}

pub fn write(line: &mut Writer, files: &Files) {
    let Files { root, index, tries, goes_on, fallback, listing, precompressed, hidden, symlinks, mime, .. } = files;
    let defaults = Files::new(root);
    line.name("files").argument(root.display()).unless(&defaults.index, "index", index, |index| index.join(","));
    line.unless(&Vec::new(), "try", tries, |tries| tries.join(" "));
    line.optional("else", goes_on.then_some("next"));
    line.optional("fallback", fallback.as_ref()).switch_unless(false, "listing", *listing);
    line.switch_unless(false, "precompressed", *precompressed).switch_unless(false, "hidden", *hidden);
    line.unless(&defaults.symlinks, "symlinks", symlinks, |symlinks| symlinks.name());
    for (extension, media_type) in mime {
        line.property("mime", format_args!("{extension} {media_type}"));
    }
}
