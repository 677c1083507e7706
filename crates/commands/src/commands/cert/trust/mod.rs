//! `tidegate cert trust`: a root is put into the stores of this machine, or taken out. Where the system keeps its store
//! is in `system.rs`, where browsers keep theirs in `browsers.rs`; here is which root it is, and what is said.

mod browsers;
mod system;
mod tool;

use crate::cli::cert::Trust;
use crate::commands::{FAILED, fail};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tidegate_certs::{CertificateDescription, InternalCa, SYSTEM_STATE_DIR, default_state_dir, load_chain, to_pem};

/// What is installed.
pub struct Root {
    pub file: PathBuf,
    pub der: CertificateDer<'static>,
    pub pem: String,
    /// The root's common name, or the whole subject where it has none.
    pub name: String,
    pub fingerprint: String,
}

/// What became of one store.
pub struct Outcome {
    pub place: String,
    pub what: What,
}

pub enum What {
    /// With what else was done.
    Done(&'static str),
    /// The root was there, or gone, before.
    Already,
    /// Why not, and what would help.
    Not { why: String, remedy: Option<String> },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Install,
    Uninstall,
}

pub fn run(wanted: &Trust) -> ExitCode {
    let root = match find_root(wanted) {
        Ok(root) => root,
        Err(why) => return fail(&why),
    };
    println!("{}\n  file         {}\n  fingerprint  {}", root.name, root.file.display(), root.fingerprint);
    if wanted.print {
        return ExitCode::SUCCESS;
    }
    let action = if wanted.uninstall { Action::Uninstall } else { Action::Install };
    let both = !wanted.system && !wanted.browsers;
    let mut outcomes = Vec::new();
    if wanted.system || both {
        let prefix = wanted.prefix.as_deref().unwrap_or(Path::new("/"));
        outcomes.push(system::apply(action, &root, prefix, &mut tool::run));
    }
    if wanted.browsers || both {
        outcomes.extend(browsers::apply(action, &root));
    }
    println!();
    for outcome in &outcomes {
        print!("{}", told(outcome, action));
    }
    let is_done = |outcome: &Outcome| matches!(outcome.what, What::Done(_) | What::Already);
    if outcomes.iter().any(is_done) { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn find_root(wanted: &Trust) -> Result<Root, String> {
    let file = match &wanted.file {
        Some(file) => file.clone(),
        None => {
            let state_dir = wanted.state_dir.clone().unwrap_or_else(default_state_dir);
            let file = InternalCa::root_file(&state_dir);
            let is_there = file.try_exists().map_err(|error| closed(&state_dir, &error))?;
            if (wanted.uninstall || wanted.print) && !is_there {
                return Err(format!(
                    "there is no internal CA in {}\n  help: {}; `tidegate cert trust` without --print makes one there",
                    state_dir.display(),
                    elsewhere(&state_dir)
                ));
            }
            // So that it can be trusted before the first start.
            InternalCa::open(&state_dir, Timestamp::now()).map_err(|error| error.to_string())?;
            if !is_there {
                println!(
                    "a new internal CA was made in {}, since there was none\n  help: {}\n",
                    state_dir.display(),
                    elsewhere(&state_dir)
                );
            }
            file
        }
    };
    let chain = load_chain(&file).map_err(|error| error.to_string())?;
    let [der] = &chain[..] else {
        return Err(format!("{} holds {} certificates; only one at a time can be trusted", file.display(), chain.len()));
    };
    let description = CertificateDescription::read(der).map_err(|why| format!("{}: {why}", file.display()))?;
    if !description.is_authority {
        return Err(format!(
            "{} is the certificate of {}, not of a CA, and no store trusts others by it\n  help: give the root that signed it",
            file.display(),
            description.subject
        ));
    }
    if description.not_after <= Timestamp::now() {
        return Err(format!("{} expired on {}", file.display(), description.not_after.strftime("%Y-%m-%d")));
    }
    let name =
        description.subject.split(", ").find_map(|part| part.strip_prefix("CN=")).unwrap_or(&description.subject).to_owned();
    Ok(Root { pem: to_pem("CERTIFICATE", der), der: der.clone(), name, fingerprint: description.fingerprint, file })
}

/// Where another CA than the one that was looked for may be.
fn elsewhere(state_dir: &Path) -> String {
    let of_service = if state_dir == Path::new(SYSTEM_STATE_DIR) {
        String::new()
    } else {
        format!("the service keeps its own in {SYSTEM_STATE_DIR} (run this with sudo); ")
    };
    format!("{of_service}another is named by its root's file, or its state folder with --state-dir")
}

fn closed(state_dir: &Path, error: &std::io::Error) -> String {
    format!(
        "the internal CA in {} cannot be looked for: {error}\n  help: run this with sudo, or name its state folder with --state-dir",
        state_dir.display()
    )
}

fn told(outcome: &Outcome, action: Action) -> String {
    let place = &outcome.place;
    match (&outcome.what, action) {
        (What::Done(also), Action::Install) => format!("trusted      {place}{also}\n"),
        (What::Done(also), Action::Uninstall) => format!("removed      {place}{also}\n"),
        (What::Already, Action::Install) => format!("trusted      {place}, as before\n"),
        (What::Already, Action::Uninstall) => format!("not there    {place}\n"),
        (What::Not { why, remedy }, _) => {
            let remedy = remedy.as_ref().map(|remedy| format!("\n             help: {remedy}")).unwrap_or_default();
            format!("not done     {place}: {why}{remedy}\n")
        }
    }
}

impl Root {
    /// The first eight digits of its fingerprint, enough to tell the roots of one machine apart.
    pub fn short(&self) -> String {
        self.fingerprint.split(':').take(4).collect::<String>().to_ascii_lowercase()
    }
}
