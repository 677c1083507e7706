//! `tidegate-lab peers check`: every configuration of every peer that is there, shown to the peer's own check.
//! For those who write templates of their own, and before an hour is spent on a run with a wrong one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::bounded;
use super::kind::{PeerKind, Program};
use super::modules::missing_module;
use super::render::{check_command, render, variants};
use super::setup::{Certificates, Content, Places, Setup, Sites, Source, codecs, lacks, takes_certificates};
use crate::certificates;
use crate::content;
use crate::net::Error;
use crate::results::Flavour;
use crate::stage::interrupt::{Interrupt, Interrupted};

const CHECK_TIME_MAX: Duration = Duration::from_secs(30);
/// Nobody listens there; a check does not connect.
const LISTEN: &str = "127.0.0.1:41001";
const ADMIN: &str = "127.0.0.1:41002";
const BACKEND: &str = "127.0.0.1:41003";

/// What came of one configuration.
pub enum Checked {
    Accepted,
    /// The configuration was filled in, but the peer has no check of its own.
    FilledIn,
    /// There is nothing wrong with it, but this build of the peer has not all that it names. Says what to install.
    LacksModule(String),
    Refused(String),
}

/// The configurations of a peer that differ by more than a number.
pub fn setups(kind: PeerKind) -> Vec<(String, Setup)> {
    let mut setups = Vec::new();
    for flavour in [Flavour::OutOfTheBox, Flavour::Equalised] {
        let plain = Setup { threads: (flavour == Flavour::Equalised).then_some(1), ..Setup::of(flavour) };
        setups.push((flavour.title().to_owned(), plain.clone()));
        let changed = Setup { shared_port: true, cors: true, redirect: true, access_log: true, ..plain.clone() };
        setups.push((format!("{}, under change", flavour.title()), changed));
        for compression in codecs(kind).iter().flat_map(|levels| levels.compressions()) {
            let level = compression.level.map(|level| format!(" {level}")).unwrap_or_default();
            let name = format!("{}, {}{level}", flavour.title(), compression.codec.name());
            setups.push((name, Setup { compression: Some(compression), ..plain.clone() }));
        }
    }
    setups.push(("many sites".to_owned(), Setup::of_sites(Sites { count: 3, revision: 1 }, 1)));
    if takes_certificates(kind) {
        let certificates = Certificates { count: 3, folder: PathBuf::from("certificates") };
        setups.push(("many certificates".to_owned(), Setup::of_certificates(certificates, 1)));
    }
    for source in Source::ALL.into_iter().filter(|source| lacks(kind, *source).is_none()) {
        for tls in [false, true] {
            let name = format!("{}, {}", source.title(), if tls { "TLS" } else { "plain" });
            let plain = Setup { threads: Some(1), ..Setup::of(Flavour::Equalised) };
            setups.push((name, Setup { content: Some(Content { source, tls }), ..plain }));
        }
    }
    for variant in variants(kind, Flavour::Tuned) {
        setups.push(((*variant).to_owned(), Setup { variant: Some((*variant).to_owned()), ..Setup::of(Flavour::Tuned) }));
    }
    setups
}

/// Fills in one configuration in a folder of its own and has the peer check it.
pub fn check(program: &Program, setup: &Setup, templates: Option<&Path>) -> Result<Checked, Error> {
    let folder = tempfile::tempdir()?;
    certificates::write(folder.path())?;
    if setup.content.is_some_and(Content::needs_files) {
        content::write_files(&folder.path().join(Content::FOLDER))?;
    }
    let mut setup = setup.clone();
    if let Some(many) = &mut setup.certificates {
        many.folder = folder.path().join(&many.folder);
        certificates::write_many(&many.folder, many.count)?;
    }
    let places =
        Places { folder: folder.path().to_owned(), listen: LISTEN.parse()?, admin: ADMIN.parse()?, backend: BACKEND.parse()? };
    let rendered = render(program, &places, &setup, templates)?;
    rendered.write(folder.path())?;
    let Some(words) = check_command(program, &places) else { return Ok(Checked::FilledIn) };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(rendered.environment.iter().cloned()).current_dir(folder.path());
    Ok(match bounded::output(&mut command, CHECK_TIME_MAX) {
        Ok(_) => Checked::Accepted,
        Err(reason) => missing_module(program.kind, &reason).map_or(Checked::Refused(reason), Checked::LacksModule),
    })
}

/// Prints a line for each configuration; fails when a peer refuses one. One that lacks a module for it has refused
/// nothing: a run leaves that case out and says so.
pub fn run(programs: &[Program], templates: Option<&Path>, interrupt: &Interrupt) -> Result<(), Error> {
    let (mut refused, mut unchecked) = (0, 0);
    for program in programs {
        for (name, setup) in setups(program.kind) {
            interrupt.check().map_err(|Interrupted| "interrupted")?;
            let outcome = check(program, &setup, templates).unwrap_or_else(|error| Checked::Refused(error.to_string()));
            let peer = &program.name;
            match outcome {
                Checked::Accepted => println!("{peer}: {name}: accepted"),
                Checked::FilledIn => println!("{peer}: {name}: filled in; {} has no check of its own", program.kind),
                Checked::LacksModule(sentence) => {
                    unchecked += 1;
                    println!("{peer}: {name}: not checked: {sentence}");
                }
                Checked::Refused(reason) => {
                    refused += 1;
                    println!("{peer}: {name}: REFUSED: {reason}");
                }
            }
        }
    }
    if unchecked > 0 {
        println!("{unchecked} configurations were not checked, since a module for them is missing; a run leaves these cases out");
    }
    if refused == 0 { Ok(()) } else { Err(format!("{refused} configurations were refused").into()) }
}
