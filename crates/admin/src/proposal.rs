//! What a body of `plan` or `apply` proposes to run, and within which bounds.

use crate::problem::Problem;
use crate::problem::bad_request;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_control::Proposal;
use tidegate_control::generations::Origin;

const NAME_WHEN_NONE: &str = "<api>";
/// What messages and the history call a text stays on a line.
const NAME_CHARACTERS_MAX: usize = 200;
/// A day.
const CONFIRMATION_SECONDS_MAX: u64 = 86_400;

/// The proposal, and what the history calls it.
pub fn read(
    file: Option<String>,
    text: Option<String>,
    name: Option<String>,
    directory: Option<String>,
) -> Result<(Proposal, Origin), Problem> {
    match (file, text) {
        (Some(_), Some(_)) => Err(bad_request("the body has both `file` and `text`").with_help("send one of them")),
        (Some(_) | None, None) if name.is_some() || directory.is_some() => {
            Err(bad_request("`name` and `directory` belong to a `text`, and the body has none"))
        }
        (Some(file), None) => Ok((Proposal::File(absolute("file", &file)?), Origin::Apply(file))),
        (None, Some(text)) => {
            let name = name.unwrap_or_else(|| NAME_WHEN_NONE.to_owned());
            if name.is_empty() || name.chars().count() > NAME_CHARACTERS_MAX || name.chars().any(char::is_control) {
                let detail = format!("`name` is not one line of 1 to {NAME_CHARACTERS_MAX} characters");
                return Err(bad_request(detail));
            }
            let directory = absolute("directory", directory.as_deref().unwrap_or("/"))?;
            let origin = Origin::Apply(name.clone());
            Ok((Proposal::Text { name, text, directory }, origin))
        }
        (None, None) => Ok((Proposal::Source, Origin::Api("apply".to_owned()))),
    }
}

fn absolute(member: &str, path: &str) -> Result<PathBuf, Problem> {
    if Path::new(path).is_absolute() {
        return Ok(PathBuf::from(path));
    }
    Err(bad_request(format!("`{member}` is not an absolute path: {}", path.escape_debug()))
        .with_help("the process has another working folder than you"))
}

pub fn confirmation_time(seconds: u64) -> Result<Duration, Problem> {
    if (1..=CONFIRMATION_SECONDS_MAX).contains(&seconds) {
        return Ok(Duration::from_secs(seconds));
    }
    Err(bad_request(format!("`confirm_within_seconds` is {seconds}, and not 1 to {CONFIRMATION_SECONDS_MAX}")))
}

pub fn error_rise(fraction: f64) -> Result<f64, Problem> {
    if (0.0..=1.0).contains(&fraction) {
        return Ok(fraction);
    }
    Err(bad_request(format!("`max_error_rise` is {fraction}, and not a fraction from 0 to 1"))
        .with_help("write 0.05 for 5 percentage points"))
}

#[cfg(test)]
mod tests {
    use super::{confirmation_time, error_rise, read};

    #[test]
    fn a_body_proposes_one_thing() {
        let check = |[file, text, name, directory]: [Option<&str>; 4], expected: &str| {
            let own = |word: Option<&str>| word.map(str::to_owned);
            let seen = match read(own(file), own(text), own(name), own(directory)) {
                Ok((_, origin)) => origin.to_string(),
                Err(problem) => problem.detail.into(),
            };
            assert_eq!(seen, expected);
        };
        check([Some("/a.kdl"), None, None, None], "apply /a.kdl");
        check([None, Some("x"), None, None], "apply <api>");
        check([None, Some("x"), Some("<stdin>"), Some("/tmp")], "apply <stdin>");
        check([None, None, None, None], "API: apply");
        check([Some("/a"), Some("x"), None, None], "the body has both `file` and `text`");
        check([Some("a.kdl"), None, None, None], "`file` is not an absolute path: a.kdl");
        check([None, Some("x"), None, Some("a")], "`directory` is not an absolute path: a");
        check([Some("/a"), None, Some("b"), None], "`name` and `directory` belong to a `text`, and the body has none");
        check([None, Some("x"), Some("a\nb"), None], "`name` is not one line of 1 to 200 characters");
    }

    #[test]
    fn bounds_of_a_change() {
        let time = |seconds: u64, expected: bool| assert_eq!(confirmation_time(seconds).is_ok(), expected, "{seconds}");
        time(0, false);
        time(1, true);
        time(86_400, true);
        time(86_401, false);
        let rise = |fraction: f64, expected: bool| assert_eq!(error_rise(fraction).is_ok(), expected, "{fraction}");
        rise(0.0, true);
        rise(1.0, true);
        rise(5.0, false);
        rise(-0.1, false);
        rise(f64::NAN, false);
    }
}
