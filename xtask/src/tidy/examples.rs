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
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim_end().to_owned();
        if !output.status.success() && !is_only_this_machine(&said) {
            findings.push(Finding::whole(path, "example", format!("`check` refuses it\n{said}")));
        }
    }
    println!("examples: {} files", examples.len());
    conclude("examples", findings)
}

/// Whether nothing but the ports of this machine stands in the way: port 443 may be taken, or need privileges that a
/// developer has not.
fn is_only_this_machine(said: &str) -> bool {
    let mut errors = said.lines().filter(|line| line.starts_with("error")).peekable();
    errors.peek().is_some() && errors.all(|line| line.starts_with("error[address-in-use]"))
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
    use super::{is_only_this_machine, paths};

    #[test]
    fn a_port_that_cannot_be_had_is_no_fault_of_an_example() {
        let check = |said: &str, expected: bool| assert_eq!(is_only_this_machine(said), expected, "for {said:?}");
        check("error[address-in-use]: cannot listen on [::]:443: permission denied\n --> a.kdl:1:1\n1 error", true);
        check("error[address-in-use]: taken\nerror[unknown-word]: `prxy` is not known\n2 errors", false);
        check("error[unknown-word]: `prxy` is not known\n1 error", false);
        check("thread 'main' panicked", false);
        check("", false);
    }

    #[test]
    fn examples_are_the_files_at_the_top_of_their_folder() {
        let files = ["README.md", "examples/a.kdl", "examples/conf.d/part.kdl", "examples/b.pem", "tests/examples/c.kdl"];
        assert_eq!(paths(files.into_iter()), ["examples/a.kdl"]);
    }
}
