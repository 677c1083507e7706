//! The manual as a site: `docs/` through mdBook, with search, light and dark, and nothing from other hosts.

use super::tool::Tool;
use super::{Distribution, archive, failed};
use crate::process::Invocation;
use crate::repository::target_directory;
use std::fs;
use std::path::{Path, PathBuf};

const MDBOOK: Tool = Tool { name: "mdbook", version: "0.5.4" };

pub fn write(distribution: &Distribution) -> Result<PathBuf, String> {
    let target = target_directory(&distribution.root)?;
    let work = target.join("site");
    if work.exists() {
        fs::remove_dir_all(&work).map_err(failed(&work))?;
    }
    let source = work.join("src");
    fs::create_dir_all(&source).map_err(failed(&source))?;
    let docs = distribution.root.join("docs");
    let index = fs::read_to_string(docs.join("README.md")).map_err(failed(&docs.join("README.md")))?;
    for entry in fs::read_dir(&docs).map_err(failed(&docs))?.filter_map(Result::ok) {
        let text = fs::read_to_string(entry.path()).map_err(failed(&entry.path()))?;
        let path = source.join(entry.file_name());
        fs::write(&path, with_addresses(&text)).map_err(failed(&path))?;
    }
    put(&source, "SUMMARY.md", &summary(&index))?;
    put(&work, "book.toml", BOOK)?;
    Invocation::new(&MDBOOK.installed(&distribution.root)?.display().to_string(), &["build"]).run(&work)?;
    let mut entries = Vec::new();
    collect(&work.join("book"), "tidegate-manual", &mut entries)?;
    let path = distribution.folder.join(format!("tidegate-{}-manual.tar.gz", distribution.version));
    let archive = archive::gzip(&archive::tar(entries, distribution.commit_time)?)?;
    fs::write(&path, archive).map_err(failed(&path))?;
    Ok(path)
}

const BOOK: &str = "\
[book]
title = \"Tidegate\"
language = \"en\"

[output.html]
default-theme = \"light\"
preferred-dark-theme = \"navy\"
no-section-label = true

[output.html.print]
enable = false
";

/// The tables of the index, in their order, as mdBook wants its list of pages.
fn summary(index: &str) -> String {
    let mut text = String::from("# The manual\n\n[The manual](README.md)\n\n");
    for line in index.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            text += &format!("\n# {title}\n\n");
        } else if let Some((name, page)) = line.strip_prefix("| [").and_then(|rest| rest.split_once("](")) {
            let page = page.split_once(')').map_or(page, |(page, _)| page);
            text += &format!("- [{name}]({page})\n");
        } else if line.contains("(steps-elsewhere.md)") {
            text += "- [Steps elsewhere](steps-elsewhere.md)\n";
        }
    }
    text
}

/// Files of the repository that are no pages are named and not linked: the site has them not.
fn with_addresses(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("](../") {
        let end = rest[at..].find(')').map_or(rest.len(), |end| at + end + 1);
        let words = rest[..at].rfind('[');
        match words {
            Some(begin) => {
                out += &rest[..begin];
                out += &rest[begin + 1..at];
            }
            None => out += &rest[..end],
        }
        rest = &rest[end..];
    }
    out + rest
}

fn collect(folder: &Path, name: &str, entries: &mut Vec<archive::ArchiveEntry>) -> Result<(), String> {
    entries.push(archive::ArchiveEntry::folder(name, 0o755, 0));
    for entry in fs::read_dir(folder).map_err(failed(folder))?.filter_map(Result::ok) {
        let path = entry.path();
        let inner = format!("{name}/{}", entry.file_name().to_string_lossy());
        if path.is_dir() {
            collect(&path, &inner, entries)?;
        } else {
            entries.push(archive::ArchiveEntry::file(&inner, 0o644, fs::read(&path).map_err(failed(&path))?));
        }
    }
    Ok(())
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(failed(&path))
}

#[cfg(test)]
mod tests {
    use super::{summary, with_addresses};

    #[test]
    fn the_tables_of_the_index_are_the_pages() {
        let index = "# The manual\n\n| | |\n| --- | --- |\n| [Pools](pools.md) | Balancing, [x](y.md) |\n\n## Coming\n\n| [From nginx](from-nginx.md) | x |\n";
        let expected =
            "# The manual\n\n[The manual](README.md)\n\n- [Pools](pools.md)\n\n# Coming\n\n- [From nginx](from-nginx.md)\n";
        assert_eq!(summary(index), expected);
    }

    #[test]
    fn files_that_are_no_pages_are_named_only() {
        let check = |text: &str, expected: &str| assert_eq!(with_addresses(text), expected);
        check("see [the unit](../packaging/systemd/x) and [pools](pools.md)", "see the unit and [pools](pools.md)");
        check("no link", "no link");
    }
}
