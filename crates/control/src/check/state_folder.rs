//! Whether the state folder can be written: the internal CA has its root there, and every process its token, what it
//! obtains and what it is to remember.

use super::{Finding, Place, can_write_into};
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::path::Path;
use tidegate_certs::Severity;
use tidegate_model::{Configuration, Scheme, Site, TlsSource};

/// With less no key and no certificate is sure to fit.
const FREE_BYTES_LEAST: u64 = 1 << 20;

/// An error where the internal CA is needed, which cannot do without; a warning where it is not, or where the folder
/// may be written and its disk takes nothing.
pub(super) fn check_state_dir(configuration: &Configuration, state_dir: &Path, findings: &mut Vec<Finding>) {
    let needs_ca = |site: &Site| {
        matches!(site.tls.source, TlsSource::Automatic | TlsSource::Internal)
            && site.addresses.iter().any(|address| address.scheme == Scheme::Https)
    };
    let Some(nearest) = state_dir.ancestors().find(|folder| folder.exists()) else { return };
    let site = configuration.sites.iter().find(|site| needs_ca(site));
    let finding = match (can_write_into(nearest), site) {
        (Err(why), Some(site)) => Finding {
            severity: Severity::Error,
            code: "state-folder",
            place: Place::Address(site.addresses[0].clone()),
            message: format!("the internal CA cannot keep its root in {}: {why}", state_dir.display()),
            help: Some("set STATE_DIRECTORY to a folder that this user may write to".into()),
        },
        (Err(why), None) => warning(state_dir, &why, "set STATE_DIRECTORY to a folder that this user may write to"),
        (Ok(()), _) => match shortage(nearest) {
            Some((why, help)) => warning(state_dir, why, help),
            None => return,
        },
    };
    findings.push(finding);
}

fn warning(state_dir: &Path, why: &str, help: &str) -> Finding {
    let message = format!(
        "the state folder {} cannot be written: {why}; tokens, certificates and keys that are new are not kept over a restart",
        state_dir.display()
    );
    Finding { severity: Severity::Warning, code: "state-folder", place: Place::Whole, message, help: Some(help.into()) }
}

/// Why the file system takes nothing more, and what to do.
fn shortage(folder: &Path) -> Option<(&'static str, &'static str)> {
    let found = statvfs(folder).ok()?;
    if found.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Some(("its file system is mounted read-only", "mount it for writing, or set STATE_DIRECTORY to another folder"));
    }
    let make_room = "make room there (`df -h`, `df -i`), or set STATE_DIRECTORY to a folder of another disk";
    if found.f_bavail.saturating_mul(found.f_frsize) < FREE_BYTES_LEAST {
        return Some(("less than 1 MiB is free on its disk", make_room));
    }
    // Some file systems count no files.
    (found.f_files > 0 && found.f_favail == 0).then_some(("its disk can have no more files", make_room))
}
