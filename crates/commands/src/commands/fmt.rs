//! `tidegate fmt`: the canonical layout. A file is replaced as a whole or not at all.

use super::{fail, whole_file};
use crate::output;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use tidegate_config::{SourceFile, Sources, format_text, render};

pub fn run(file: &Path, check: bool) -> ExitCode {
    let from_stdin = file == Path::new("-");
    let text = if from_stdin {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => return fail(&format!("{} cannot be read: {error}", file.display())),
    };
    let name = if from_stdin { "<stdin>".to_owned() } else { file.display().to_string() };
    let formatted = match format_text(&name, &text) {
        Ok(formatted) => formatted,
        Err(diagnostics) => {
            let mut sources = Sources::default();
            sources.add(SourceFile { name, text: text.into(), directory: ".".into() });
            if output::is_json() {
                eprintln!("{}", super::diagnostics::json_of(&diagnostics, &sources));
                return ExitCode::from(super::FAILED);
            }
            eprint!("{}", render(&diagnostics, &sources, output::has_colour()));
            return ExitCode::from(super::FAILED);
        }
    };
    if check {
        if formatted == text {
            return ExitCode::SUCCESS;
        }
        return fail(&format!("{name} is not in canonical layout\n  help: run `tidegate fmt {name}`"));
    }
    if from_stdin {
        return match std::io::stdout().write_all(formatted.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("standard output cannot be written: {error}")),
        };
    }
    if formatted == text {
        return ExitCode::SUCCESS;
    }
    match whole_file::write(file, &formatted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("{} cannot be written: {error}", file.display())),
    }
}
