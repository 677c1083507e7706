//! The page of a release, as forges take it: what there is, for whom, with checksums, and what has changed.

use super::{CHECKSUMS, Distribution, checksums, failed};
use std::fs;
use std::path::PathBuf;

const END: &str = "-release.md";

pub fn is_page(name: &str) -> bool {
    name.ends_with(END)
}

/// Of what lies in the folder, so it comes last.
pub fn write(distribution: &Distribution) -> Result<PathBuf, String> {
    let path = distribution.root.join("CHANGELOG.md");
    let changes = fs::read_to_string(&path).map_err(failed(&path))?;
    let date = distribution.time()?.strftime("%-d %B %Y").to_string();
    let files = checksums(&distribution.folder)?;
    let text = text(&distribution.version, &date, &distribution.commit, &files, &changes)?;
    let path = distribution.folder.join(format!("tidegate-{}{END}", distribution.version));
    fs::write(&path, text).map_err(failed(&path))?;
    Ok(path)
}

fn text(version: &str, date: &str, commit: &str, files: &[(String, String)], changes: &str) -> Result<String, String> {
    let mut text =
        format!("# Tidegate {version}\n\n{date}, of commit `{commit}`.\n\n| File | For | SHA-256 |\n| --- | --- | --- |\n");
    for (name, sum) in files {
        let whom = whom(name)
            .ok_or_else(|| format!("dist: nobody knows whom {name} is for; what is no part of a release lies in its folder"))?;
        text += &format!("| `{name}` | {whom} | `{sum}` |\n");
    }
    text += &format!(
        "\n`sha256sum --check {CHECKSUMS}` compares them. The program in all of them is the same static file for each architecture.\n\n"
    );
    text += "## What has changed\n\n";
    Ok(text + &without_links(section(changes, version)?))
}

/// By the end of its name.
fn whom(name: &str) -> Option<&'static str> {
    let known = [
        ("_amd64.deb", "Debian, Ubuntu and their kin on x86-64"),
        ("_arm64.deb", "Debian, Ubuntu and their kin on 64-bit ARM"),
        (".x86_64.rpm", "Fedora, RHEL, SUSE and their kin on x86-64"),
        (".aarch64.rpm", "Fedora, RHEL, SUSE and their kin on 64-bit ARM"),
        ("-oci.tar", "registries of containers (`skopeo copy oci-archive:…`)"),
        ("-docker-amd64.tar", "`docker load` and `podman load` on x86-64"),
        ("-docker-arm64.tar", "`docker load` and `podman load` on 64-bit ARM"),
        ("-manual.tar.gz", "the manual as a site"),
    ];
    known.iter().find(|(end, _)| name.ends_with(end)).map(|(_, whom)| *whom)
}

/// What the changelog says about the version; before it is given out, that is under `Unreleased`.
fn section<'a>(changes: &'a str, version: &str) -> Result<&'a str, String> {
    let of = |title: &str| {
        let (_, rest) = changes.split_once(&format!("\n## {title}"))?;
        let rest = rest.split_once('\n')?.1;
        Some(rest.split_once("\n## ").map_or(rest, |(section, _)| section).trim_start())
    };
    of(version)
        .or_else(|| of("Unreleased"))
        .ok_or_else(|| format!("dist: CHANGELOG.md has neither `## {version}` nor `## Unreleased`"))
}

/// Pages of the manual are named and not linked: where it is served, the page does not know.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("](") {
        let end = rest[at..].find(')').map_or(rest.len(), |end| at + end + 1);
        let target = &rest[at..end];
        match rest[..at].rfind('[') {
            Some(begin) if !target.contains("://") => {
                out += &rest[..begin];
                out += &rest[begin + 1..at];
            }
            Some(_) | None => out += &rest[..end],
        }
        rest = &rest[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::{section, text, without_links};

    const CHANGES: &str = "# Changelog\n\n## Unreleased\n\n- New: [pools](docs/pools.md).\n\n## 1.2.0\n\n- Older.\n";

    #[test]
    fn a_version_has_its_section() {
        assert_eq!(section(CHANGES, "1.2.0"), Ok("- Older.\n"));
        assert_eq!(section(CHANGES, "1.3.0"), Ok("- New: [pools](docs/pools.md).\n"));
        assert!(section("# Changelog\n", "1.3.0").is_err());
    }

    #[test]
    fn the_page_says_whom_each_file_is_for() {
        let file = |name: &str| vec![(name.to_owned(), "ab".to_owned())];
        let page = text("1.2.0", "1 May 2027", "c0ffee", &file("tidegate_1.2.0_arm64.deb"), CHANGES).unwrap();
        assert!(page.contains("| `tidegate_1.2.0_arm64.deb` | Debian, Ubuntu and their kin on 64-bit ARM | `ab` |\n"), "{page}");
        assert!(page.ends_with("## What has changed\n\n- Older.\n"), "{page}");
        assert!(text("1.2.0", "1 May 2027", "c0ffee", &file("notes.txt"), CHANGES).is_err());
    }

    #[test]
    fn links_to_other_hosts_stay() {
        assert_eq!(without_links("see [a](docs/a.md) and [b](https://b.example/)"), "see a and [b](https://b.example/)");
    }
}
