//! Every dependency of the workspace says why it is in the tree: a comment above it, above its group, or behind it on
//! the line. A blank line ends a group. Our own crates need no reason.

use crate::finding::Finding;

const SECTION: &str = "[workspace.dependencies]";

pub fn check(path: &str, manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inside = false;
    let mut explained = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line == SECTION;
            explained = false;
        } else if line.is_empty() {
            explained = false;
        } else if line.starts_with('#') {
            // A rule of dashes heads a part of the list; it explains no dependency.
            explained = !line.starts_with("# ---");
        } else if inside && let Some((name, value)) = line.split_once('=') {
            let (name, value) = (name.trim(), value.trim());
            let ours = value.contains("path =");
            if !ours && !explained && !value.contains('#') {
                findings.push(Finding::at(path, index + 1, "reason", format!("say in a comment why `{name}` is needed")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;

    fn check_manifest(dependencies: &str, expected: &[&str]) {
        let manifest =
            format!("[workspace]\nresolver = \"3\"\n\n[workspace.dependencies]\n{dependencies}\n[profile.dev]\nx = 1\n");
        let seen: Vec<String> = check("Cargo.toml", &manifest).iter().map(ToString::to_string).collect();
        assert_eq!(seen, expected, "for {dependencies:?}");
    }

    #[test]
    fn every_dependency_has_a_reason() {
        check_manifest("# Searches bytes.\nmemchr = \"2\"", &[]);
        check_manifest("memchr = \"2\" # Searches bytes.", &[]);
        check_manifest("memchr = \"2\"", &["Cargo.toml:5: reason: say in a comment why `memchr` is needed"]);
        check_manifest("# Both speak h2.\nhttp = \"1\"\nbytes = \"1\"", &[]);
        check_manifest(
            "# The language.\nkdl = \"6\"\n\nglob = \"0.3\"",
            &["Cargo.toml:8: reason: say in a comment why `glob` is needed"],
        );
        check_manifest("# --- tests ---\ninsta = \"1\"", &["Cargo.toml:6: reason: say in a comment why `insta` is needed"]);
        check_manifest("tidegate-model = { path = \"crates/model\" }", &[]);
    }
}
