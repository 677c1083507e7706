//! The files that are imported: one, all of a folder that the proxy would read, or standard input; and those that they
//! include.

use crate::cli::ImportPeer;
use std::io::Read;
use std::path::{Path, PathBuf};
use tidegate_config::open_regular;
use tidegate_foreign::gather::{NamedText, OVERRIDES};
use tidegate_foreign::{Peer, recognise};

/// What is larger is no configuration.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Folders within folders go no deeper.
const FOLDERS_MAX: usize = 4;
const FILES_MAX: usize = 2_000;

/// Files that are named one by one, as behind `docker compose -f`.
pub fn each(peer: ImportPeer, paths: &[PathBuf]) -> Result<Vec<NamedText>, String> {
    if !matches!(peer, ImportPeer::Compose) {
        return Err("one file or folder is imported at a time; several are put together for Compose alone".to_owned());
    }
    paths.iter().map(|path| read(path)).collect()
}

/// The files that the proxy would read, at least one.
pub fn files(peer: ImportPeer, path: &Path) -> Result<Vec<NamedText>, String> {
    if path == Path::new("-") {
        return Ok(vec![named("<stdin>".to_owned(), std::io::stdin().lock())?]);
    }
    if !path.is_dir() {
        let mut all = vec![read(path)?];
        if matches!(peer, ImportPeer::Compose) && files_of(peer).0.iter().any(|name| path.ends_with(name)) {
            all.extend(over(path)?);
        }
        return Ok(all);
    }
    let (main, extensions) = files_of(peer);
    if let Some(main) = main.iter().map(|name| path.join(name)).find(|file| file.is_file()) {
        let mut all = vec![read(&main)?];
        if matches!(peer, ImportPeer::Compose) {
            all.extend(over(&main)?);
            all.extend(beside(path, &main)?);
        }
        return Ok(all);
    }
    if matches!(peer, ImportPeer::Traefik) {
        let found = below(path, extensions)?;
        if !found.is_empty() {
            return found.iter().map(|file| read(file)).collect();
        }
    }
    let mut found = Vec::new();
    for folder in folders_of(peer, path) {
        found.extend(files_of_folder(peer, &folder, extensions)?);
    }
    if found.is_empty() {
        let names: Vec<String> =
            main.iter().map(|name| (*name).to_owned()).chain(extensions.iter().map(|one| format!("*.{one}"))).collect();
        return Err(format!("{} has none of {}: name the file", path.display(), names.join(", ")));
    }
    found.iter().map(|file| read(file)).collect()
}

/// The file that Compose puts over its first one, where there is one beside it.
fn over(main: &Path) -> Result<Option<NamedText>, String> {
    let folder = main.parent().unwrap_or_else(|| Path::new("."));
    OVERRIDES.iter().map(|name| folder.join(name)).find(|file| file.is_file()).map(|file| read(&file)).transpose()
}

/// Files of Traefik beside a file of Compose, whose routers and middlewares its labels may name.
fn beside(folder: &Path, main: &Path) -> Result<Vec<NamedText>, String> {
    let mut all = Vec::new();
    for file in below(folder, &["yml", "yaml", "toml"])?.iter().filter(|file| *file != main) {
        let named = read(file)?;
        if recognise(&named.text).is_some_and(|known| known.peer == Peer::Traefik) {
            all.push(named);
        }
    }
    Ok(all)
}

/// Files with these endings in a folder and in those within it, as Traefik reads the folder of its `providers.file`.
fn below(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if is_hidden {
                continue;
            }
            // What a link leads to may be anywhere, also above.
            if path.is_dir() && !path.is_symlink() && depth < FOLDERS_MAX {
                folders.push((path, depth + 1));
            } else if path.is_file() && extensions.contains(&extension) {
                found.push(path);
            }
        }
        if found.len() > FILES_MAX {
            return Err(format!("{} has more than {FILES_MAX} files: name the folder of the proxy", folder.display()));
        }
    }
    // Files of a folder stand before files of the folders within it.
    found.sort_by_key(|file| (file.components().count(), file.clone()));
    Ok(found)
}

/// The folder itself, or those in it that `nginx.conf` includes where it stands elsewhere.
fn folders_of(peer: ImportPeer, path: &Path) -> Vec<PathBuf> {
    let included: Vec<PathBuf> =
        ["conf.d", "sites-enabled"].iter().map(|name| path.join(name)).filter(|one| one.is_dir()).collect();
    if peer == ImportPeer::Nginx && !included.is_empty() { included } else { vec![path.to_owned()] }
}

/// Files in their order, without copies that editors, packages and people leave beside them.
fn files_of_folder(peer: ImportPeer, path: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, String> {
    const LEFT_BEHIND: [&str; 11] =
        ["bak", "backup", "old", "orig", "save", "swp", "disabled", "off", "rpmsave", "rpmnew", "rej"];
    let is_of_conf_d = peer == ImportPeer::Nginx && path.file_name().is_some_and(|name| name == "conf.d");
    let is_one = |file: &PathBuf| {
        let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_left = name.starts_with('.')
            || name.ends_with('~')
            || LEFT_BEHIND.contains(&extension)
            || ["dpkg-", "ucf-"].iter().any(|start| extension.starts_with(start));
        let is_read = if is_of_conf_d { extension == "conf" } else { extensions.is_empty() || extensions.contains(&extension) };
        file.is_file() && !is_left && is_read
    };
    let entries = std::fs::read_dir(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_one).collect();
    found.sort();
    Ok(found)
}

/// The file that a folder is known by, and else the endings of those that are read together; without any it is all.
fn files_of(peer: ImportPeer) -> (&'static [&'static str], &'static [&'static str]) {
    match peer {
        ImportPeer::Nginx => (&["nginx.conf"], &[]),
        ImportPeer::Haproxy => (&["haproxy.cfg"], &["cfg"]),
        ImportPeer::Caddy => (&["Caddyfile", "caddy.json"], &["caddy", "caddyfile"]),
        ImportPeer::Traefik => (&[], &["yml", "yaml", "toml"]),
        ImportPeer::Envoy => (&["envoy.yaml", "envoy.yml", "envoy.json"], &["yaml", "yml", "json"]),
        ImportPeer::Compose => (&["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"], &["yaml", "yml"]),
    }
}

/// The files that a pattern behind `include` stands for. An absolute one of the folder of nginx is looked for beside
/// the file, since configurations are copied as folders: those of this machine belong to files in that folder.
pub fn included(file: &Path, base: Option<&Path>, pattern: &str) -> Result<Vec<NamedText>, String> {
    let folder = if file.is_dir() { file } else { file.parent().unwrap_or_else(|| Path::new(".")) };
    let mut bases: Vec<&Path> = base.into_iter().collect();
    bases.push(folder);
    bases.extend(folder.parent());
    let relative = ["/etc/nginx/", "/usr/local/nginx/conf/", "/usr/local/etc/nginx/", "/opt/homebrew/etc/nginx/"]
        .iter()
        .find_map(|known| pattern.strip_prefix(known));
    let mut tried: Vec<PathBuf> = Vec::new();
    match relative {
        Some(relative) => {
            let known = pattern.strip_suffix(relative).unwrap_or_default();
            let is_in_place = folder.canonicalize().is_ok_and(|folder| folder.starts_with(known.trim_end_matches('/')));
            tried.extend(base.map(|base| base.join(relative)));
            tried.extend(is_in_place.then(|| PathBuf::from(pattern)));
            tried.extend(bases.iter().map(|base| base.join(relative)));
        }
        None if Path::new(pattern).is_absolute() => tried.push(PathBuf::from(pattern)),
        None => tried.extend(bases.iter().map(|base| base.join(pattern))),
    }
    let is_pattern = pattern.contains(['*', '?', '[']);
    let mut is_folder_there = false;
    for pattern in &tried {
        let Some(text) = pattern.to_str() else { continue };
        let Ok(paths) = glob::glob(text) else { return Err(format!("`{text}` is no pattern of files")) };
        let mut paths: Vec<PathBuf> = paths.filter_map(Result::ok).filter(|path| path.is_file()).collect();
        paths.sort();
        if !paths.is_empty() {
            return paths.iter().map(|path| read(path)).collect();
        }
        is_folder_there |= pattern.parent().is_some_and(Path::is_dir);
    }
    if is_pattern && is_folder_there {
        // Nothing is in it, as in the `conf.d` of a new installation; the proxy reads nothing either.
        Ok(Vec::new())
    } else if is_pattern {
        Err(format!("no file here matches `{pattern}`: `--base` names the folder that they are in"))
    } else {
        Err(format!("there is no file `{pattern}` here: `--base` names the folder that it is in"))
    }
}

fn read(path: &Path) -> Result<NamedText, String> {
    let name = path.display().to_string();
    let file = open_regular(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    named(name, file)
}

fn named(name: String, from: impl Read) -> Result<NamedText, String> {
    let mut bytes = Vec::new();
    from.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| format!("{name} cannot be read: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{name} is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    let text = text_of(&name, bytes)?;
    Ok(NamedText { name, text })
}

fn text_of(name: &str, bytes: Vec<u8>) -> Result<String, String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(format!("{name} is in UTF-16: `iconv -f UTF-16 -t UTF-8 {name}` makes it UTF-8"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + String::from_utf8_lossy(&error.as_bytes()[..valid]).matches('\n').count();
        format!("{name}, line {line}: this is not UTF-8; `iconv -f ISO-8859-1 -t UTF-8 {name}` makes it so where it is Latin-1")
    })?;
    if let Some(at) = text.find('\0') {
        let line = 1 + text[..at].matches('\n').count();
        return Err(format!("{name}, line {line}: there is a zero byte, so this is no text"));
    }
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
