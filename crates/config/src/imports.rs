//! What the language says of lines that are made of another proxy's file: whether it takes them, and how a word of
//! another is said here.

use crate::directives::LANGUAGE;
use crate::load::{first_against, load_with};
use crate::lowering::Environment;
use std::path::Path;

/// How a word of another proxy, and the word behind it, is said here.
pub fn said_otherwise(word: &str, behind: &str) -> Option<&'static str> {
    LANGUAGE.said_otherwise(word, behind)
}

/// What is against a text as a configuration, in one line: its first error. A file or a variable that it names may be
/// on another machine, so that one that is not here is none.
pub fn refused(text: &str) -> Option<String> {
    let loaded = load_with("", text, Path::new("/"), &Environment::Process);
    let fault = first_against(text, &loaded.diagnostics)?;
    Some(match &fault.help {
        Some(help) => format!("{}; {help}", fault.message),
        None => fault.message.to_string(),
    })
}
