//! Running other programs from a task: cargo mostly. Output goes straight to the terminal unless it is asked for.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A command with its environment, printable as a line that a shell accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub program: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

impl Invocation {
    pub fn new(program: &str, arguments: &[&str]) -> Invocation {
        Invocation {
            program: program.into(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            environment: Vec::new(),
        }
    }

    pub fn with_environment(mut self, name: &str, value: &str) -> Invocation {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs to the end, with the terminal's output and no input.
    pub fn run(&self, directory: &Path) -> Result<(), String> {
        let status = self.command(directory).status().map_err(|error| format!("cannot start `{}`: {error}", self.program))?;
        if status.success() { Ok(()) } else { Err(format!("{status}: {}", self.line())) }
    }

    /// Begins, with the terminal's output and no input; whoever asked waits for the end.
    pub fn start(&self, directory: &Path) -> Result<Child, String> {
        self.command(directory).spawn().map_err(|error| format!("cannot start `{}`: {error}", self.program))
    }

    /// Becomes the program; returns only when it cannot be started.
    pub fn replace_task(&self, directory: &Path) -> Result<(), String> {
        let error = self.command(directory).exec();
        Err(format!("cannot start `{}`: {error}", self.program))
    }

    /// Runs to the end and keeps what it printed. `Err` only when it cannot be started.
    pub fn capture(&self, directory: &Path) -> Result<std::process::Output, String> {
        self.command(directory).output().map_err(|error| format!("cannot start `{}`: {error}", self.program))
    }

    /// As one would type it.
    pub fn line(&self) -> String {
        let environment = self.environment.iter().map(|(name, value)| format!("{name}={}", quote(value)));
        let words = std::iter::once(self.program.as_str()).chain(self.arguments.iter().map(String::as_str)).map(quote);
        environment.chain(words).collect::<Vec<_>>().join(" ")
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(directory).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Cargo, as the shell finds it: rustup's choice of toolchain applies.
pub fn cargo(arguments: &[&str]) -> Invocation {
    Invocation::new("cargo", arguments)
}

/// Where a program is, as the shell would look for it.
pub fn found(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::Invocation;

    #[test]
    fn a_command_prints_as_a_shell_would_read_it() {
        let check = |invocation: Invocation, expected: &str| assert_eq!(invocation.line(), expected);
        check(Invocation::new("cargo", &["fmt", "--check"]), "cargo fmt --check");
        check(Invocation::new("cargo", &["test"]).with_environment("SOAK_SECONDS", "60"), "SOAK_SECONDS=60 cargo test");
        check(Invocation::new("echo", &["two words", "", "it's"]), r"echo 'two words' '' 'it'\''s'");
    }
}
