//! Files that are replaced as a whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Writes beside the file and then in its place, so that a crash leaves the old text or the new, and nobody reads half
/// of it. A link is followed, so that it stays one; what is no file, as `/dev/stdout`, is written as it is.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    let target = match fs::canonicalize(file) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
        Err(error) => return Err(error),
    };
    let known = fs::metadata(&target).ok();
    if known.as_ref().is_some_and(|known| !known.is_file()) {
        return fs::write(&target, text);
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let beside = target.with_file_name(format!(".{name}.{}.unfinished", std::process::id()));
    let written = fs::write(&beside, text).and_then(|()| match &known {
        Some(known) => fs::set_permissions(&beside, known.permissions()),
        None => Ok(()),
    });
    let synced = written.and_then(|()| File::open(&beside)?.sync_all());
    synced.and_then(|()| fs::rename(&beside, &target)).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}
