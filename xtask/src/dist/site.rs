//! The manual as a site: `docs/` through mdBook, with search, light and dark, and nothing from other hosts.

use super::tool::Tool;
use super::{Distribution, archive, failed, put};
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
    let mut pages = Vec::new();
    find_pages(&docs, "", &mut pages)?;
    let changes = distribution.root.join("CHANGELOG.md");
    let changes = fs::read_to_string(&changes).map_err(failed(&changes))?;
    pages.push((CHANGES.to_owned(), changes.replace("](docs/", "](").replace("](examples/", "](../examples/")));
    pages.sort();
    for (name, text) in &pages {
        let path = source.join(name);
        let folder = path.parent().unwrap_or(&source);
        fs::create_dir_all(folder).map_err(failed(folder))?;
        put(&source, name, &with_addresses(text, name.matches('/').count()))?;
    }
    put(&source, "SUMMARY.md", &summary(&pages)?)?;
    put(&work, "book.toml", BOOK)?;
    Invocation::new(&MDBOOK.installed(&distribution.root)?.display().to_string(), &["build"]).run(&work)?;
    let mut entries = Vec::new();
    collect(&work.join("book"), "tidegate-manual", &mut entries)?;
    let path = distribution.folder.join(format!("tidegate-{}-manual.tar.gz", distribution.version));
    let archive = archive::gzip(&archive::tar(entries, distribution.commit_time)?)?;
    fs::write(&path, archive).map_err(failed(&path))?;
    Ok(path)
}

const INDEX: &str = "README.md";
/// What has changed, which is no page of `docs/`.
const CHANGES: &str = "changes.md";

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

/// Each page with its path in the folder.
fn find_pages(folder: &Path, beginning: &str, pages: &mut Vec<(String, String)>) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(failed(folder))?.filter_map(Result::ok) {
        let path = entry.path();
        let name = format!("{beginning}{}", entry.file_name().to_string_lossy());
        if path.is_dir() {
            find_pages(&path, &format!("{name}/"), pages)?;
        } else {
            pages.push((name, fs::read_to_string(&path).map_err(failed(&path))?));
        }
    }
    Ok(())
}

/// The tables of the index, in their order, as mdBook wants its list of pages; behind the index of a folder its pages,
/// by their titles. A page that is in no list would not be on the site.
fn summary(pages: &[(String, String)]) -> Result<String, String> {
    let index = pages.iter().find(|(name, _)| name == INDEX).map(|(_, text)| text.as_str()).unwrap_or_default();
    let mut text = String::from("# The manual\n\n[The manual](README.md)\n\n");
    for line in index.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            text += &format!("\n# {title}\n\n");
        } else if let Some((name, page)) = line.strip_prefix("| [").and_then(|rest| rest.split_once("](")) {
            let page = page.split_once(')').map_or(page, |(page, _)| page);
            text += &format!("- [{name}]({page})\n");
            text += &pages_beside(page, pages);
        } else if line.contains("(steps-elsewhere.md)") {
            text += "- [Steps elsewhere](steps-elsewhere.md)\n";
        }
    }
    text += &format!("\n# Releases\n\n- [What has changed]({CHANGES})\n");
    match pages.iter().find(|(name, _)| !text.contains(&format!("]({name})"))) {
        Some((missing, _)) => Err(format!("dist: docs/{missing} is in no table of docs/{INDEX}")),
        None => Ok(text),
    }
}

fn pages_beside(index: &str, pages: &[(String, String)]) -> String {
    let Some(folder) = index.strip_suffix(INDEX).filter(|folder| !folder.is_empty()) else { return String::new() };
    let of_folder = pages.iter().filter(|(name, _)| name.starts_with(folder) && name != index);
    let title = |text: &str| text.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned();
    of_folder.fold(String::new(), |list, (name, text)| list + &format!("  - [{}]({name})\n", title(text)))
}

/// Files of the repository that are no pages are named and not linked: the site has them not.
/// `depth` is how many folders of the manual the page is in.
fn with_addresses(text: &str, depth: usize) -> String {
    let outside = format!("]({}", "../".repeat(depth + 1));
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(&outside) {
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

#[cfg(test)]
mod tests {
    use super::{summary, with_addresses};

    #[test]
    fn the_tables_of_the_index_are_the_pages() {
        let index = "# The manual\n\n| | |\n| --- | --- |\n| [Pools](pools.md) | Balancing, [x](y.md) |\n\n## Coming\n\n| [From nginx](from-nginx.md) | x |\n";
        let expected = "# The manual\n\n[The manual](README.md)\n\n- [Pools](pools.md)\n\n# Coming\n\n- [From nginx](from-nginx.md)\n\n# Releases\n\n- [What has changed](changes.md)\n";
        let page = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let mut pages = vec![page("README.md", index), page("pools.md", ""), page("from-nginx.md", "")];
        assert_eq!(summary(&pages).as_deref(), Ok(expected));
        pages.push(page("providers/dex.md", "# Dex\n"));
        assert!(summary(&pages).is_err_and(|error| error.contains("docs/providers/dex.md")));
        pages.push(page("providers/README.md", "# All\n"));
        pages[0].1 = index.replace("pools.md) |", "pools.md) |\n| [Providers](providers/README.md) |");
        let nested =
            expected.replace("(pools.md)\n", "(pools.md)\n- [Providers](providers/README.md)\n  - [Dex](providers/dex.md)\n");
        assert_eq!(summary(&pages), Ok(nested));
    }

    #[test]
    fn files_that_are_no_pages_are_named_only() {
        let check = |text: &str, expected: &str| assert_eq!(with_addresses(text, 0), expected);
        assert_eq!(with_addresses("[a](../b.md) [c](../../x)", 1), "[a](../b.md) c");
        check("see [the unit](../packaging/systemd/x) and [pools](pools.md)", "see the unit and [pools](pools.md)");
        check("no link", "no link");
    }
}
