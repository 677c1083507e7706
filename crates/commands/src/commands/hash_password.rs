//! `tidegate hash-password`: a password becomes what a file of users may hold. It is never an argument: those can be
//! read by everybody on the machine.

use super::fail;
use crate::cli::HashAlgorithm;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Read, Stdin};
use std::process::ExitCode;
use tidegate_passwords::{Algorithm, PASSWORD_BYTES_MAX, USER_NAME_BYTES_MAX, make_hash};

pub fn run(name: Option<&str>, algorithm: HashAlgorithm) -> ExitCode {
    if let Some(name) = name
        && (name.is_empty() || name.len() > USER_NAME_BYTES_MAX || name.contains(':') || name.chars().any(char::is_control))
    {
        return fail(&format!("a name has 1 to {USER_NAME_BYTES_MAX} bytes, no `:` and no control characters"));
    }
    let password = match read_password() {
        Ok(password) => password,
        Err(why) => return fail(&why),
    };
    let algorithm = match algorithm {
        HashAlgorithm::Argon2id => Algorithm::Argon2id,
        HashAlgorithm::Bcrypt => Algorithm::Bcrypt,
    };
    match make_hash(&password, algorithm) {
        Ok(hash) => {
            println!("{}{hash}", name.map(|name| format!("{name}:")).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(why) => fail(&why.to_string()),
    }
}

/// Asked for twice at a terminal, which then shows nothing of it; else the first line of what comes.
fn read_password() -> Result<String, String> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return read_line(&stdin);
    }
    let _shown_again = Silence::begin(&stdin)?;
    let ask = |question: &str| {
        eprint!("{question}: ");
        let line = read_line(&stdin);
        eprintln!();
        line
    };
    let password = ask("Password")?;
    if ask("The same again")? != password {
        return Err("the two are not the same".to_owned());
    }
    Ok(password)
}

/// What is typed at a terminal, which shows nothing of it; else the first line of what comes.
pub fn read_secret(what: &str) -> Result<String, String> {
    let stdin = io::stdin();
    let _shown_again = if stdin.is_terminal() { Some(Silence::begin(&stdin)?) } else { None };
    if stdin.is_terminal() {
        eprint!("{what}: ");
    }
    let line = read_line(&stdin);
    if stdin.is_terminal() {
        eprintln!();
    }
    line
}

fn read_line(stdin: &Stdin) -> Result<String, String> {
    let mut line = String::new();
    // A file that was given by mistake is not read to its end.
    let bytes_max = PASSWORD_BYTES_MAX as u64 + 2;
    stdin.lock().take(bytes_max).read_line(&mut line).map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(line.strip_suffix('\n').map_or(line.as_str(), |line| line.strip_suffix('\r').unwrap_or(line)).to_owned())
}

/// A terminal that does not show what is typed, until this is dropped.
struct Silence<'t> {
    terminal: &'t Stdin,
    before: Termios,
}

impl<'t> Silence<'t> {
    fn begin(terminal: &'t Stdin) -> Result<Silence<'t>, String> {
        let why = |error| format!("the terminal cannot be kept from showing the password: {error}");
        let before = tcgetattr(terminal).map_err(why)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal, OptionalActions::Flush, &silent).map_err(why)?;
        Ok(Silence { terminal, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}
