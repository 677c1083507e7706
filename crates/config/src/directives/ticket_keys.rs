//! `ticket-keys shared=#true`, or with files: session tickets that other hosts accept. Neither files nor the storage
//! are read here.

use crate::diagnostics::Diagnostic;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::Writer;
use std::path::PathBuf;
use tidegate_model::TicketKeySource;

pub static TICKET_KEYS: Directive = Directive {
    name: "ticket-keys",
    places: &[Place::Top],
    arguments: &[Argument::any(
        "files",
        Kind::Path,
        "Files of 48 or 80 random bytes each, as nginx takes them. The first encrypts, all decrypt.",
    )],
    properties: &[Property::once(
        "shared",
        Kind::Switch,
        "Instead of files: keys in the `storage` that hosts share, which rotate by themselves.",
    )],
    summary: "Keys of session tickets that hosts share, so that a client resumes whichever of them it reaches.",
    details: "With `shared=#true` all hosts that name the same `storage` use the same keys. One of them makes the next key three hours before it is used, and the others read \
              it within a minute. A key makes tickets for six hours and is accepted for six more; then it is gone. When the storage cannot be reached, hosts go on with the \
              keys that they have, for three hours at least, and then with keys of their own, until it is back; `tidegate status` says so. Clocks may differ by hours.\n\n\
              Without such a storage, files do the same by hand. Make one with `openssl rand 80 > ticket.key` and give it to all hosts, readable by nobody else: who has it can read recorded \
              connections of clients that resumed over TLS 1.2. To replace it, put the new file behind the old one everywhere, then in front of \
              it, and remove the old one twelve hours later. Changed files are noticed and need no reload. With a program that keeps one host, \
              keys that rotate by themselves are better: write nothing.",
    default: "keys that nobody else has; a new one every six hours, accepted for another six, kept over reloads and upgrades, never on disk",
    example: "storage \"rediss://redis.internal\"\nticket-keys shared=#true",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

/// As many as are accepted at the same time.
const FILES_MAX: usize = 16;

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let is_shared = line.switch(lowering, "shared");
    let texts = line.read_arguments(lowering).into_iter();
    let texts: Vec<Text> = texts.filter_map(|read| if let Read::Text(text) = read { Some(text) } else { None }).collect();
    match (is_shared, texts.first()) {
        (Some(true), None) => {
            lowering.spans.shared_ticket_keys = Some(line.location());
            lowering.configuration.ticket_keys = TicketKeySource::Shared;
        }
        (Some(true), Some(first)) => lowering.report(
            Diagnostic::error("two-sources", first.location.clone(), "keys are in files or in the storage, and not in both")
                .help("remove the files, or `shared=#true`"),
        ),
        // What is wrong with what is there was said where it was read.
        (None, None) if line.node.entries.is_empty() => lowering.report(
            Diagnostic::error("missing-argument", line.location(), "`ticket-keys` says nothing of where they are")
                .help("for example `ticket-keys shared=#true`, or the path of a file"),
        ),
        (Some(false) | None, None) => {}
        (Some(false) | None, Some(_)) => {
            if let Some(files) = files(lowering, texts) {
                lowering.configuration.ticket_keys = TicketKeySource::Files(files);
            }
        }
    }
}

/// `None` where they are too many.
fn files(lowering: &mut Lowering<'_>, texts: Vec<Text>) -> Option<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = Vec::with_capacity(texts.len().min(FILES_MAX));
    for text in texts {
        let path = lowering.path(&text.value, &text.location);
        if files.contains(&path) {
            let message = format!("`{}` is listed twice", text.shown());
            lowering.report(Diagnostic::error("duplicate-value", text.location, message));
            continue;
        }
        if files.len() == FILES_MAX {
            let diagnostic = Diagnostic::error("bad-value", text.location, format!("more than {FILES_MAX} ticket keys"));
            return lowering.refuse(diagnostic.help("remove those that no valid ticket was made with"));
        }
        lowering.spans.files.push((path.clone(), text.location));
        files.push(path);
    }
    Some(files)
}

/// Nothing where the process has its own.
pub fn write(line: &mut Writer, source: &TicketKeySource) {
    match source {
        TicketKeySource::Own => {}
        TicketKeySource::Files(files) => {
            line.name("ticket-keys").arguments(files.iter().map(|file| file.display()));
        }
        TicketKeySource::Shared => {
            line.name("ticket-keys").switch("shared", true);
        }
    }
}
