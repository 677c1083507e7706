//! `tidegate cert`: certificates from the command line. One file or folder per command; those that ask a running
//! process are in `running`.

pub mod check;
pub mod export;
pub mod import;
mod kept;
mod notes;
pub mod running;
pub mod trust;

use crate::cli::cert::CertCommand;
use std::process::ExitCode;

pub fn run(command: CertCommand) -> ExitCode {
    match command {
        CertCommand::List { running } => running::list(&running),
        CertCommand::Show { name, running } => running::show(&name, &running),
        CertCommand::Renew { name, running } => running::renew(&name, &running),
        CertCommand::Revoke { name, reason, running } => running::revoke(&name, reason, &running),
        CertCommand::Trust(wanted) => trust::run(&wanted),
        CertCommand::Import(wanted) => import::run(&wanted),
        CertCommand::Export(wanted) => export::run(&wanted),
        CertCommand::Check(wanted) => check::run(&wanted),
    }
}
