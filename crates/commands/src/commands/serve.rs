//! `tidegate serve`: the files of a folder from the command line. As with `proxy`, the text it makes is a configuration
//! like any other.

use super::proxy::{quote_all, run_site};
use crate::cli::Sharing;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the command line says.
pub struct ServeWanted {
    pub folder: PathBuf,
    pub from: Vec<String>,
    pub listing: bool,
    pub fallback: Option<String>,
    pub admin: Option<String>,
    pub sharing: Sharing,
}

pub fn run(wanted: &ServeWanted) -> ExitCode {
    let Some(folder) = wanted.folder.to_str() else { return super::fail("the name of the folder is not UTF-8") };
    let mut files = format!("compress; files {}", quote_all(&[folder.to_owned()]));
    if wanted.listing {
        files.push_str(" listing=#true");
    }
    if let Some(fallback) = &wanted.fallback {
        files.push_str(&format!(" fallback={}", quote_all(std::slice::from_ref(fallback))));
    }
    run_site(&wanted.from, &files, wanted.admin.as_deref(), wanted.sharing)
}
