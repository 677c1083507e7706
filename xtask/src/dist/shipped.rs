//! The documents as packages have them: as in the sources, so that pages lead to each other, and without links to what
//! no package has, such as sources and reports of the lab. What such a link says stays, as text.

use super::failed;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the repository with what of them is below `/usr/share/doc/tidegate`, by the end of the name; the manifest
/// of the program's crate says the same to those who make packages.
const SHIPPED: [(&str, &str); 9] = [
    ("", ".md"),
    ("docs", ".md"),
    ("docs/providers", ".md"),
    ("examples", ".kdl"),
    ("examples", ".pem"),
    ("examples/www", ""),
    ("packaging/grafana", ""),
    ("packaging/prometheus", ""),
    ("packaging/systemd", ""),
];
const PAGES: &str = ".md";

/// Writes all pages into the folder, in folders as in the repository.
pub fn write(root: &Path, folder: &Path) -> Result<(), String> {
    for (of, _) in SHIPPED.iter().filter(|(_, end)| *end == PAGES) {
        let to = folder.join(of);
        fs::create_dir_all(&to).map_err(failed(&to))?;
        for path in pages_in(&root.join(of))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).map_err(failed(&path))?;
            let page = to.join(&name);
            fs::write(&page, without_dead_links(of, &text, is_shipped)).map_err(failed(&page))?;
        }
    }
    Ok(())
}

/// The pages of an unpacked package whose links lead nowhere, as `page: target`.
pub fn dead_links(folder: &Path) -> Result<Vec<String>, String> {
    let mut dead = Vec::new();
    for (of, _) in SHIPPED.iter().filter(|(_, end)| *end == PAGES) {
        for path in pages_in(&folder.join(of))? {
            let text = fs::read_to_string(&path).map_err(failed(&path))?;
            let shown = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
            without_dead_links(of, &text, |target| {
                let is_there = folder.join(target).exists();
                if !is_there {
                    dead.push(format!("{shown}: {target}"));
                }
                is_there
            });
        }
    }
    Ok(dead)
}

fn pages_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(failed(folder))?;
    let mut pages: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    pages.retain(|path| path.is_file() && path.to_string_lossy().ends_with(PAGES));
    pages.sort();
    Ok(pages)
}

fn is_shipped(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    SHIPPED.iter().any(|(of, end)| *of == folder && name.ends_with(end))
        || SHIPPED.iter().any(|(of, _)| *of == path || of.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
}

/// A page in that folder with only those of its links that lead somewhere; an image that does not is left out.
fn without_dead_links(folder: &str, text: &str, mut is_there: impl FnMut(&str) -> bool) -> String {
    let mut in_code = false;
    let mut page = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        in_code ^= line.trim_start().starts_with("```");
        let mut rest = line;
        while let Some(at) = rest.find("](").filter(|_| !in_code) {
            let Some(length) = rest[at..].find(')') else { break };
            let (before, target, behind) = (&rest[..at], &rest[at + 2..at + length], &rest[at + length + 1..]);
            let file = target.split('#').next().unwrap_or_default();
            let is_kept = file.is_empty() || file.contains(':') || is_there(&resolved(folder, file));
            match before.rfind('[') {
                Some(begin) if !is_kept => match before[..begin].strip_suffix('!') {
                    Some(before_image) => page.push_str(before_image),
                    None => page.extend([&before[..begin], &before[begin + 1..]]),
                },
                Some(_) | None => page.push_str(&rest[..=at + length]),
            }
            rest = behind;
        }
        page.push_str(rest);
    }
    page
}

/// As a path from the top, `..` followed.
fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{PAGES, SHIPPED, dead_links, is_shipped, without_dead_links, write};
    use std::path::Path;

    #[test]
    fn links_lead_to_what_is_shipped_or_are_text() {
        let check = |folder: &str, text: &str, expected: &str| {
            assert_eq!(without_dead_links(folder, text, is_shipped), expected, "{folder}");
        };
        check("", "see [a](docs/a.md#x), [the lab](lab/README.md) and [b](#b)\n", "see [a](docs/a.md#x), the lab and [b](#b)\n");
        check(
            "docs",
            "[up](../README.md) [l](../lab/README.md) [w](https://a.test/)",
            "[up](../README.md) l [w](https://a.test/)",
        );
        check("docs/providers", "[c](../../tests/a.case), [d](../tls.md)", "c, [d](../tls.md)");
        check("", "![bars](lab/a.svg)\nnext [`x`](crates/x.rs)", "\nnext `x`");
        check(
            "",
            "```\n[a](lab/x.md)\n```\n[e](examples) [p](packaging)",
            "```\n[a](lab/x.md)\n```\n[e](examples) [p](packaging)",
        );
        check("", "[k](packaging/kubernetes) [e](examples/php.kdl) [n](examples/notes.txt)", "k [e](examples/php.kdl) n");
    }

    #[test]
    fn every_link_of_a_written_page_leads_to_a_page_or_a_file_beside_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        let folder = crate::scratch::ScratchFolder::new("shipped").expect("a folder");
        write(root, folder.path()).expect("written");
        // What is no page lies there as it is.
        for (of, end) in SHIPPED.iter().filter(|(_, end)| *end != PAGES) {
            let to = folder.path().join(of);
            std::fs::create_dir_all(&to).expect("a folder");
            for entry in std::fs::read_dir(root.join(of)).expect("it is there").filter_map(Result::ok) {
                let name = entry.file_name();
                if entry.path().is_file() && name.to_string_lossy().ends_with(end) {
                    std::fs::write(to.join(name), "").expect("written");
                }
            }
        }
        assert_eq!(dead_links(folder.path()), Ok(Vec::new()));
    }

    #[test]
    fn the_manifest_ships_the_same() {
        let manifest = include_str!("../../../crates/tidegate/Cargo.toml");
        for (of, end) in SHIPPED {
            let from = if end == PAGES { "packaging/generated/doc/" } else { "" };
            let of = if of.is_empty() { String::new() } else { format!("{of}/") };
            let written = format!("\"../../{from}{of}*{end}\"");
            assert_eq!(manifest.matches(&written).count(), 2, "{written} of the deb and of the rpm");
        }
    }
}
