//! Every configuration in `examples/` goes through `tidegate check`: what we show to users is what the program accepts.

use crate::finding::{Finding, conclude};
use crate::process::cargo;
use crate::repository::Repository;
use std::path::Path;

pub fn run(repository: &Repository) -> Result<(), String> {
    cargo(&["build", "--locked", "--quiet", "--package", "tidegate"]).run(&repository.root)?;
    let examples: Vec<&str> = paths(repository.files.iter().map(|file| file.path.as_str()));
    if examples.is_empty() {
        return Err("examples: there are none in examples/".into());
    }
    let mut findings = Vec::new();
    for path in &examples {
        let output =
            cargo(&["run", "--locked", "--quiet", "--package", "tidegate", "--", "check", path]).capture(&repository.root)?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            findings.push(Finding::whole(
                path,
                "example",
                format!("`check` refuses it\n{}", String::from_utf8_lossy(&said).trim_end()),
            ));
        }
    }
    println!("examples: {} files", examples.len());
    conclude("examples", findings)
}

/// The files that stand for themselves. Those in deeper folders are parts, which an example includes.
pub fn paths<'a>(files: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let is_example = |path: &&str| {
        let is_kdl = Path::new(path).extension().is_some_and(|extension| extension == "kdl");
        is_kdl && path.strip_prefix("examples/").is_some_and(|name| !name.contains('/'))
    };
    files.filter(is_example).collect()
}

#[cfg(test)]
mod tests {
    use super::paths;

    #[test]
    fn examples_are_the_files_at_the_top_of_their_folder() {
        let files = ["README.md", "examples/a.kdl", "examples/conf.d/part.kdl", "examples/b.pem", "tests/examples/c.kdl"];
        assert_eq!(paths(files.into_iter()), ["examples/a.kdl"]);
    }
}
