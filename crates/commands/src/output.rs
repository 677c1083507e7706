//! How commands speak: as text for people, in colour where that is wanted, or as JSON for programs. Said once on the
//! command line, so it is known once.

use clap::ValueEnum;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

static OUTPUT: OnceLock<Output> = OnceLock::new();

#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub is_json: bool,
    pub colour: ColourChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColourChoice {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    Auto,
    Always,
    Never,
}

/// What the command line says; the first time counts.
pub fn set(output: Output) {
    let _ = OUTPUT.set(output);
}

fn get() -> Output {
    OUTPUT.get().copied().unwrap_or(Output { is_json: false, colour: ColourChoice::Auto })
}

pub fn is_json() -> bool {
    get().is_json
}

/// Whether standard error is written in colour.
pub fn has_colour() -> bool {
    let variable = |name: &str| std::env::var(name).ok();
    is_coloured(get().colour, std::io::stderr().is_terminal(), variable)
}

/// By <https://no-color.org>, and for terminals that show no more than text.
fn is_coloured(choice: ColourChoice, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    match choice {
        ColourChoice::Always => true,
        ColourChoice::Never => false,
        ColourChoice::Auto => {
            is_terminal
                && variable("NO_COLOR").is_none_or(|value| value.is_empty())
                && variable("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

/// Columns of the terminal that standard output is; `None` where it is none.
pub fn columns() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// A report as JSON or as text.
pub fn say(value: &impl serde::Serialize, text: impl FnOnce() -> String) {
    if is_json() {
        print(&format!("{}\n", serde_json::to_value(value).unwrap_or_default()));
    } else {
        print(&text());
    }
}

/// Text on standard output. Who reads it may have had enough, as `head` has: that is no fault.
pub fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Why something was not done, on standard error.
pub fn say_fault(message: &str) {
    if is_json() {
        eprintln!("{}", fault(message));
    } else {
        eprintln!("error: {message}");
    }
}

/// A message and its remedy, which stands behind it.
pub fn fault(message: &str) -> Value {
    let (detail, help) = match message.split_once("\n  help: ") {
        Some((detail, help)) => (detail, Some(help)),
        None => (message, None),
    };
    json!({ "error": { "detail": detail, "help": help } })
}

#[cfg(test)]
mod tests {
    use super::{ColourChoice, fault, is_coloured};
    use serde_json::json;

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        let check = |choice: ColourChoice, is_terminal: bool, set: &[(&str, &str)], expected: bool| {
            let variable = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(is_coloured(choice, is_terminal, variable), expected, "{choice:?} {is_terminal} {set:?}");
        };
        check(ColourChoice::Auto, true, &[("TERM", "xterm")], true);
        check(ColourChoice::Auto, false, &[("TERM", "xterm")], false);
        check(ColourChoice::Auto, true, &[("TERM", "dumb")], false);
        check(ColourChoice::Auto, true, &[("NO_COLOR", "1")], false);
        check(ColourChoice::Auto, true, &[("NO_COLOR", "")], true);
        check(ColourChoice::Auto, true, &[], true);
        check(ColourChoice::Always, false, &[("NO_COLOR", "1")], true);
        check(ColourChoice::Never, true, &[], false);
    }

    #[test]
    fn faults_for_programs_have_their_remedy_apart() {
        assert_eq!(fault("it is so\n  help: do so"), json!({ "error": { "detail": "it is so", "help": "do so" } }));
        assert_eq!(fault("it is so"), json!({ "error": { "detail": "it is so", "help": null } }));
    }
}
