//! `send-file "/srv/protected" under="/protected"`: an application names a file, and the proxy sends it.

use crate::diagnostics::{Diagnostic, shortened};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::syntax::Literal;
use crate::table::{Argument, Kind, Place, Property, Repeat};
use crate::written_line::Writer;
use tidegate_model::{RouteOptions, SendFile, SendFiles};

pub static SEND_FILE: Directive = Directive {
    name: "send-file",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "folder",
        Kind::Path,
        "The folder of which an application may have files sent; `off` takes back those of the site.",
    )],
    properties: &[
        Property::once(
            "under",
            Kind::Text("a path, as in `\"/protected\"`"),
            "What the application's paths begin with that are below the folder. When left out, `X-Accel-Redirect` has paths below the folder and `X-Sendfile` the whole paths of its files.",
        ),
        Property::once("hidden", Kind::Switch, "Whether names that begin with a dot are sent; `#false` when left out."),
    ],
    summary: "Sends the file that an application names in `X-Accel-Redirect` or `X-Sendfile` in place of its answer.",
    details: "So an application decides who may have a file and is not busy with sending it. With `send-file \"/srv/protected\" under=\"/protected\"` the answer `X-Accel-Redirect: /protected/a%20b.pdf` is the file \
              `/srv/protected/a b.pdf`, and so is `X-Sendfile: /protected/a b.pdf`. It holds for `proxy`, `split` and `fastcgi`. Without a `send-file` both fields are fields like any other; with one they never reach a client.\n\n\
              `ETag`, `Last-Modified`, ranges and conditional requests are those of the file. The fields of the application stay, such as `Content-Type`, `Content-Disposition`, `Cache-Control` and cookies, but for those that describe its own body \
              (`Content-Length`, `Content-Encoding`, `ETag` and the like); its status and its body are not sent. What is sent this way is not kept by `cache`.\n\n\
              A path in `X-Accel-Redirect` is percent-encoded, and a query behind it is ignored; one in `X-Sendfile` is taken as it stands, and decoded where there is no such file. \
              Nothing outside of the folder is ever opened, whatever the path and the links in it. A file that is not there is 404; a path that is in no folder, or has dot segments, is 502 (`send_file_outside`).",
    default: "no application has files sent",
    example: "send-file \"/srv/protected\" under=\"/protected\"",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    let is_off = line.argument(0).is_some_and(|value| matches!(&value.literal, Literal::Text(text) if text == "off"));
    if is_off {
        if let Some(fault) = line.settings_of_off() {
            lowering.report(fault);
        }
        options.send_files = SendFiles { are_off_before: true, folders: Vec::new() };
        return;
    }
    let errors_before = lowering.diagnostics.len();
    let folder = line.read_argument(lowering, 0).map(Read::text);
    let under = line.text(lowering, "under").and_then(|text| under(lowering, &text));
    let hidden = line.switch(lowering, "hidden").unwrap_or(false);
    let Some(folder) = folder else { return };
    let root = lowering.path(&folder.value, &folder.location);
    // Applications name their files by whole paths.
    let root = match std::path::absolute(&root) {
        Ok(root) => root,
        Err(error) => {
            let message = format!("the folder is relative, and what it is relative to is not known: {error}");
            lowering.report(folder.error("bad-value", message).help("write the whole path, as in `\"/srv/protected\"`"));
            return;
        }
    };
    lowering.spans.files.push((root.clone(), folder.location.clone()));
    let folders = &mut options.send_files.folders;
    if folders.len() == SendFiles::FOLDERS_MAX {
        let message = format!("there are more than {} folders", SendFiles::FOLDERS_MAX);
        lowering.report(Diagnostic::error("bad-value", line.location(), message).help("name a folder that has the others in it"));
        return;
    }
    if folders.iter().any(|known| known.under == under && (known.root == root || under.is_some())) {
        let message = "nothing is looked for here: another `send-file` has these paths";
        let help = "give each folder paths of its own with `under=`";
        lowering.report(Diagnostic::error("duplicate-value", line.location(), message).help(help));
        return;
    }
    if !lowering.has_errors_since(errors_before) {
        folders.push(SendFile { root, under, hidden });
    }
}

/// Without a slash at its end.
fn under(lowering: &mut Lowering<'_>, text: &Text) -> Option<String> {
    let path = text.value.strip_suffix('/').unwrap_or(&text.value);
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(|c: char| c.is_control() || c == '\\');
    if path.strip_prefix('/').is_some_and(|names| names.split('/').all(is_name)) {
        return Some(path.to_owned());
    }
    let message = format!("`{}` is not the beginning of a path", shortened(&text.value));
    lowering.refuse(
        text.error("bad-value", message)
            .help("it begins with a slash, as in `under=\"/protected\"`; for all paths, leave it out"),
    )
}

pub fn write(line: &mut Writer, SendFile { root, under, hidden }: &SendFile) {
    line.name("send-file").argument(root.display()).optional("under", under.as_ref()).switch_unless(false, "hidden", *hidden);
}
