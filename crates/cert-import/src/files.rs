//! The files of a store, read with bounds: only those that the program is known to keep, none larger than a chain can
//! be. The parsers see a table of names and bytes and no disk.

use crate::Program;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A hundred thousand certificates of three files each.
pub const FILES_MAX: usize = 300_000;
/// No chain or key comes near it.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// `acme.json` holds all certificates; 10 KB each.
const STORE_BYTES_MAX: u64 = 1 << 30;
/// Folders within folders; certbot's accounts are four deep below a host, and Caddy's the same.
const DEPTH_MAX: usize = 8;
/// The name under which a store of one file is in the table.
pub(crate) const ONLY: &str = "";

/// What was read, by its path below the store's folder, with `/` between.
#[derive(Default)]
pub struct Files {
    found: BTreeMap<String, Zeroizing<Vec<u8>>>,
    faults: Vec<(String, String)>,
}

/// Whose store this path is, by what lies there.
pub fn recognise(path: &Path) -> Option<Program> {
    if path.is_file() {
        // One that may not be read is told when it is read, with the reason.
        return begins_as_json(path).unwrap_or(true).then_some(Program::Traefik);
    }
    let has = |name: &str| path.join(name).is_dir();
    if has("renewal") || (has("live") && has("archive")) {
        Some(Program::Certbot)
    } else if has("certificates") || has("acme") {
        Some(Program::Caddy)
    } else if path.join("acme.json").is_file() {
        Some(Program::Traefik)
    } else {
        None
    }
}

/// Somebody may name a certificate instead of a store.
fn begins_as_json(path: &Path) -> io::Result<bool> {
    let mut start = [0; 64];
    let length = File::open(path)?.read(&mut start)?;
    Ok(start[..length].trim_ascii_start().first() == Some(&b'{'))
}

impl Files {
    /// Reads what this program keeps below the path. `Err` when the path itself cannot be read.
    pub fn read(program: Program, path: &Path) -> Result<Files, String> {
        let mut files = Files::default();
        match program {
            Program::Traefik => {
                let file = if path.is_dir() { path.join("acme.json") } else { path.to_owned() };
                let bytes =
                    read_bounded(&file, STORE_BYTES_MAX).map_err(|why| format!("cannot read {}: {why}", file.display()))?;
                files.found.insert(ONLY.to_owned(), bytes);
            }
            Program::Certbot | Program::Caddy => {
                fs::read_dir(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                let folders: &[&str] = match program {
                    Program::Certbot => &["live", "archive", "renewal", "accounts"],
                    Program::Caddy | Program::Traefik => &["certificates", "acme"],
                };
                for folder in folders {
                    files.walk(&path.join(folder), folder, DEPTH_MAX);
                }
            }
        }
        Ok(files)
    }

    /// Of a path, its bytes.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.found.get(path).map(|bytes| &bytes[..])
    }

    /// All whose path begins so, in order.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let from_prefix = self.found.range(prefix.to_owned()..);
        from_prefix.take_while(move |(path, _)| path.starts_with(prefix)).map(|(path, bytes)| (path.as_str(), &bytes[..]))
    }

    pub(crate) fn faults(&self) -> impl Iterator<Item = (&str, &str)> {
        self.faults.iter().map(|(path, why)| (path.as_str(), why.as_str()))
    }

    /// Whether something there could not be read, which is reported already.
    pub(crate) fn has_fault(&self, prefix: &str) -> bool {
        self.faults.iter().any(|(path, _)| path.starts_with(prefix))
    }

    /// For tests, and for whoever has the bytes from elsewhere.
    pub fn insert(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.found.insert(path.to_owned(), Zeroizing::new(bytes.into()));
    }

    fn walk(&mut self, folder: &Path, name: &str, depth_left: usize) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.faults.push((name.to_owned(), format!("the folder cannot be read: {error}"))),
        };
        let mut inside: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        inside.sort();
        for path in inside {
            let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let name = format!("{name}/{file_name}");
            // Links are followed: those of certbot's `live` are what says which certificate is the present one.
            if path.is_dir() {
                if depth_left > 0 {
                    self.walk(&path, &name, depth_left - 1);
                }
            } else if is_wanted(&name) {
                if self.found.len() >= FILES_MAX {
                    return self.faults.push((name, format!("there are more than {FILES_MAX} files")));
                }
                match read_bounded(&path, FILE_BYTES_MAX) {
                    Ok(bytes) => drop(self.found.insert(name, bytes)),
                    Err(why) => self.faults.push((name, why)),
                }
            }
        }
    }
}

fn is_wanted(name: &str) -> bool {
    [".pem", ".crt", ".key", ".json", ".conf"].iter().any(|ending| name.ends_with(ending))
}

fn read_bounded(path: &Path, bytes_max: u64) -> Result<Zeroizing<Vec<u8>>, String> {
    let read = || {
        // Before it is opened, since opening a pipe waits for whoever writes to it.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let file = File::open(path)?;
        let mut bytes = Zeroizing::new(Vec::new());
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) if bytes.len() as u64 > bytes_max => Err(format!("it is larger than {} MiB", bytes_max >> 20)),
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err("permission denied; run this as root".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("it leads to a file that is not there".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
