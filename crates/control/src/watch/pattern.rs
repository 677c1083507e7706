//! A path with wildcards: which files match it now, in which folders another match could appear, and under which names.
//! It means here what it means in an `include`; both ask the same library with the same options.

use super::MATCHES_MAX;
use glob::{MatchOptions, Pattern};
use std::io;
use std::path::{Component, Path, PathBuf};

/// As `config` has it: a mounted volume keeps its old and new versions in hidden folders.
const OPTIONS: MatchOptions =
    MatchOptions { require_literal_leading_dot: true, require_literal_separator: true, case_sensitive: true };

const WILDCARDS: [char; 3] = ['*', '?', '['];

pub struct PathPattern {
    path: PathBuf,
    whole: Pattern,
    /// The deepest folder in front of the first wildcard.
    fixed: PathBuf,
    /// Each component from the first wildcard on, alone and with all before it.
    components: Vec<(Pattern, PathBuf)>,
}

impl PathPattern {
    pub fn parse(path: &Path) -> io::Result<PathPattern> {
        // The library names matches without it.
        let path = path.strip_prefix(".").unwrap_or(path);
        let mut fixed = PathBuf::new();
        let mut upto = PathBuf::new();
        let mut components = Vec::new();
        for component in path.components() {
            upto.push(component);
            let text = component.as_os_str().to_string_lossy();
            if components.is_empty() && !text.contains(WILDCARDS) {
                fixed.push(component);
            } else if component != Component::ParentDir {
                components.push((compile(path, &text)?, upto.clone()));
            }
        }
        if fixed.as_os_str().is_empty() {
            fixed.push(".");
        }
        Ok(PathPattern { path: path.to_path_buf(), whole: compile(path, &path.to_string_lossy())?, fixed, components })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a file of this path, named as [`Self::files`] names it, is one of the pattern's.
    pub fn is_match(&self, path: &Path) -> bool {
        self.whole.matches_path_with(path, OPTIONS)
    }

    /// The files that match now, and whether there are more than are given.
    pub fn files(&self) -> (Vec<PathBuf>, bool) {
        let mut files: Vec<PathBuf> = expand(&self.path).filter(|path| path.is_file()).take(MATCHES_MAX + 1).collect();
        let more = files.len() > MATCHES_MAX;
        files.truncate(MATCHES_MAX);
        (files, more)
    }

    /// Where a match could appear: the folder in front of the first wildcard, and what matches all but the last
    /// component. `most` bounds how many are looked for.
    pub fn folders(&self, most: usize) -> Vec<PathBuf> {
        let mut folders = vec![self.fixed.clone()];
        for (position, (pattern, path)) in self.components.iter().enumerate() {
            let is_last = position + 1 == self.components.len();
            // Behind `**` every folder is one in which the rest may match, the last one included.
            if !is_last || pattern.as_str() == "**" {
                folders.extend(expand(path).filter(|path| path.is_dir()).take(most.saturating_sub(folders.len())));
            }
        }
        folders
    }

    /// Names that may make or end a match, in the folders of [`Self::folders`].
    pub fn names(&self) -> impl Iterator<Item = &Pattern> {
        self.components.iter().map(|(pattern, _)| pattern)
    }
}

fn compile(path: &Path, text: &str) -> io::Result<Pattern> {
    Pattern::new(text).map_err(|error| {
        let message = format!(
            "cannot watch `{}`: this pattern is not valid: {}\n  help: a `[` begins a set of characters; write `[[]` for the character itself",
            path.display(),
            error.msg
        );
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })
}

/// What cannot be read is left out: it appears when it can.
fn expand(pattern: &Path) -> impl Iterator<Item = PathBuf> {
    glob::glob_with(&pattern.to_string_lossy(), OPTIONS).into_iter().flatten().filter_map(Result::ok)
}

#[cfg(test)]
mod tests {
    use super::PathPattern;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Folders that exist are `a`, `b` and `b/c`, each with a file `1.kdl`; everything is relative to the folder they
    /// are in.
    fn check(pattern: &str, files: &[&str], folders: &[&str]) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        fs::create_dir_all(root.join("b/c")).expect("made");
        fs::create_dir(root.join("a")).expect("made");
        for path in ["a/1.kdl", "b/1.kdl", "b/c/1.kdl", "a/.hidden.kdl"] {
            fs::write(root.join(path), "").expect("written");
        }
        let pattern = PathPattern::parse(&root.join(pattern)).expect("a pattern");
        let relative = |paths: Vec<PathBuf>| -> Vec<String> {
            paths.iter().map(|path| path.strip_prefix(root).expect("inside").display().to_string()).collect()
        };
        let (found, more) = pattern.files();
        assert!(found.iter().all(|path| pattern.is_match(path)));
        assert_eq!(relative(found), files);
        assert!(!more);
        let mut found = relative(pattern.folders(100));
        found.sort();
        found.dedup();
        assert_eq!(found, folders);
    }

    #[test]
    fn matches_and_the_folders_they_may_appear_in() {
        check("a/*.kdl", &["a/1.kdl"], &["a"]);
        check("a/[0-9].kdl", &["a/1.kdl"], &["a"]);
        check("a/?.txt", &[], &["a"]);
        check("*/1.kdl", &["a/1.kdl", "b/1.kdl"], &["", "a", "b"]);
        check("b/**/*.kdl", &["b/1.kdl", "b/c/1.kdl"], &["b", "b/c"]);
        check("later/*.kdl", &[], &["later"]);
    }

    #[test]
    fn a_pattern_that_is_not_valid_says_so() {
        let error = PathPattern::parse(Path::new("/a/[b")).err().expect("refused").to_string();
        assert!(error.starts_with("cannot watch `/a/[b`: this pattern is not valid"), "{error}");
    }
}
