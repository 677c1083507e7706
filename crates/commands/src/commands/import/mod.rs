//! `tidegate import`: a configuration of another proxy in our words, on standard output, and what became of each of its
//! lines on standard error. Nothing of an imported file is ever run.

mod questions;
mod read;
mod report;

use crate::cli::{ImportPeer, ReportForm};
use crate::output;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tidegate_config::{format_text, refused, said_otherwise};
use tidegate_foreign::gather::{NamedText, gather, gather_over};
use tidegate_foreign::import::{Sayings, Sums, as_text, import};
use tidegate_foreign::{Peer, recognise};

/// What is imported, and how that is told.
pub struct Wanted {
    pub peer: ImportPeer,
    /// At least one; several are of Compose, each put over the one before it.
    pub files: Vec<PathBuf>,
    /// Where files that are included by a relative name are.
    pub base: Option<PathBuf>,
    pub report: ReportForm,
    /// Where requests for `compare` are written.
    pub questions: Option<PathBuf>,
}

/// Nothing was imported.
const NOTHING: u8 = 2;

pub fn run(wanted: &Wanted) -> ExitCode {
    match carry(wanted) {
        Ok(code) => code,
        Err(fault) => {
            output::say_fault(&fault);
            ExitCode::from(NOTHING)
        }
    }
}

fn carry(wanted: &Wanted) -> Result<ExitCode, String> {
    let main = &wanted.files[0];
    let includes = |pattern: &str| read::included(main, wanted.base.as_deref(), pattern);
    let (peer, (source, not_included)) = if wanted.files.len() > 1 {
        let files = read::each(wanted.peer, &wanted.files)?;
        (Peer::TraefikLabels, gather_over(&files, &includes)?)
    } else {
        let files = read::files(wanted.peer, main)?;
        let peer = peer_of(wanted.peer, &files);
        (peer, gather(peer, &files, &includes)?)
    };
    let sayings = Sayings { refused: &refused, said_otherwise: &said_otherwise };
    let imported = import(peer, &source, &not_included, &sayings)
        .map_err(|why| format!("{}: {why}{}", main.display(), other_peer(wanted, &source.text)))?;
    let text =
        format_text("", &imported.text).map_err(|_| "what was written is no KDL: this is a fault of `import`".to_owned())?;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("standard output cannot be written: {error}"))?;
    let asked = wanted.questions.as_deref().map(|file| questions::write(&text, file)).transpose()?;
    let not_proved = imported.keeps_out.then(|| questions::not_proved(wanted.questions.as_deref()));
    let sums = Sums::of(&imported.lines);
    match if output::is_json() { ReportForm::Json } else { wanted.report } {
        ReportForm::Json => eprintln!("{}", report::as_json(peer, &source, &imported, &sums)),
        ReportForm::Text => {
            eprint!("{}", as_text(&source, &imported, &sums));
            for line in asked.into_iter().chain(not_proved) {
                eprintln!("{line}");
            }
        }
    }
    Ok(if sums.not_carried == 0 { ExitCode::SUCCESS } else { ExitCode::from(super::FAILED) })
}

/// The form of the files, of those that the proxy has. Labels among files of Traefik are read with these.
fn peer_of(wanted: ImportPeer, files: &[NamedText]) -> Peer {
    let text = files[0].text.as_str();
    let of = |file: &NamedText| recognise(&file.text).map(|recognised| recognised.peer);
    let has_labels = matches!(wanted, ImportPeer::Traefik) && files.iter().any(|file| of(file) == Some(Peer::TraefikLabels));
    let known = if has_labels { Some(Peer::TraefikLabels) } else { of(&files[0]) };
    let is_json = text.trim_start().starts_with('{');
    match (wanted, known) {
        (ImportPeer::Nginx, _) => Peer::Nginx,
        (ImportPeer::Haproxy, _) => Peer::HaProxy,
        (ImportPeer::Caddy, Some(Peer::CaddyJson)) => Peer::CaddyJson,
        (ImportPeer::Caddy, _) if is_json && text.contains("\"apps\"") => Peer::CaddyJson,
        (ImportPeer::Caddy, _) => Peer::Caddy,
        (ImportPeer::Traefik, Some(peer @ (Peer::TraefikLabels | Peer::TraefikManifest))) => peer,
        (ImportPeer::Traefik, _) => Peer::Traefik,
        (ImportPeer::Envoy, _) => Peer::Envoy,
        (ImportPeer::Compose, _) => Peer::TraefikLabels,
    }
}

/// Behind a fault: that the file is for another proxy, where it is.
fn other_peer(wanted: &Wanted, text: &str) -> String {
    let Some(peer) = recognise(text).map(|recognised| recognised.peer) else { return String::new() };
    let Some(word) = peer.import_word().filter(|word| *word != wanted.peer.word()) else { return String::new() };
    let file = wanted.files[0].display();
    format!("; this is {}: `tidegate import {} {file}`", peer.describe(), word)
}
