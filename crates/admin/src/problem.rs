//! Which error there is when: every answer that is not a success is made here, as RFC 9457 has it. The texts of a
//! problem are boxed, because it is the other half of every result.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_api::schema::objects;
use tidegate_control::ChangeFault;
use tidegate_control::succession::UpgradeFault;

/// The media type of every answer that is an error.
pub const PROBLEM_TYPE: &str = "application/problem+json";

objects! {
    /// Why a request was not done.
    pub struct Problem {
        /// `urn:tidegate:problem:` and a word that does not change between versions.
        pub r#type: Box<str>,
        /// What `type` stands for, in words.
        pub title: Box<str>,
        /// The HTTP status of the answer.
        pub status: u16,
        /// What happened this time.
        pub detail: Box<str>,
        /// What to do about it.
        pub help: Option<Box<str>>,
        /// Everything that is wrong with a configuration, as text with its lines.
        pub diagnostics: Option<Box<str>>,
    }
}

impl Problem {
    const PREFIX: &str = "urn:tidegate:problem:";

    pub fn new(status: u16, kind: &str, title: &str, detail: impl Into<Box<str>>) -> Problem {
        Problem {
            r#type: format!("{}{kind}", Problem::PREFIX).into(),
            title: title.into(),
            status,
            detail: detail.into(),
            help: None,
            diagnostics: None,
        }
    }

    pub fn with_help(mut self, help: impl Into<Box<str>>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// The last word of `type`.
    pub fn kind(&self) -> &str {
        self.r#type.strip_prefix(Problem::PREFIX).unwrap_or(&self.r#type)
    }
}

pub fn bad_request(detail: impl Into<Box<str>>) -> Problem {
    Problem::new(400, "bad-request", "The request cannot be read", detail)
}

pub fn not_found(detail: impl Into<Box<str>>) -> Problem {
    Problem::new(404, "not-found", "There is no such thing", detail)
}

pub fn forbidden(kind: &str, detail: impl Into<Box<str>>) -> Problem {
    Problem::new(403, kind, "The request is not allowed", detail)
}

pub fn draining() -> Problem {
    Problem::new(409, "draining", "The process is ending", "the process finishes its requests and answers no more questions")
        .with_help("ask the process that took its place, or start one")
}

/// What a fault's own text says: behind its last line end, when it is the only one, stands the remedy.
fn with_help_of(problem: Problem, text: &str) -> Problem {
    match text.split_once("\n  help: ") {
        Some((detail, help)) if !help.contains("\n  help: ") => Problem { detail: detail.into(), ..problem }.with_help(help),
        Some(_) | None => Problem { detail: text.into(), ..problem },
    }
}

fn saying(status: u16, kind: &str, title: &str, text: &str) -> Problem {
    with_help_of(Problem::new(status, kind, title, ""), text)
}

pub fn of_change(fault: &ChangeFault) -> Problem {
    let text = fault.to_string();
    match fault {
        ChangeFault::Configuration(diagnostics) => {
            let title = "The configuration has errors";
            let detail = format!("{}; the running configuration stays", diagnostics.lines().next().unwrap_or(title));
            Problem {
                diagnostics: Some(diagnostics.as_str().into()),
                ..Problem::new(422, "configuration", title, detail).with_help("`diagnostics` has all of them")
            }
        }
        ChangeFault::Start(_) => Problem {
            diagnostics: Some(format!("error: {text}\n").into()),
            ..saying(422, "cannot-run", "The configuration cannot run on this machine", &text)
        },
        ChangeFault::AwaitsConfirmation { .. } => {
            saying(409, "awaits-confirmation", "A change waits for its confirmation", &text)
        }
        ChangeFault::Conflict { .. } => saying(412, "generation-mismatch", "Another configuration runs", &text),
        ChangeFault::NoSuchGeneration(_) => saying(404, "no-such-generation", "There is no such generation", &text),
        ChangeFault::NothingToConfirm => saying(409, "nothing-to-confirm", "Nothing waits for a confirmation", &text),
        ChangeFault::Leaving => saying(409, "leaving", "The process is ending", &text),
        ChangeFault::NotFound(_) => saying(404, "not-found", "There is no such thing", &text),
        ChangeFault::Bad(_) => saying(400, "bad-request", "The request makes no sense", &text),
        ChangeFault::Storage(_) => saying(503, "storage", "It cannot be kept", &text),
        ChangeFault::FileChanged { .. } => saying(409, "file-changed", "The file was edited meanwhile", &text),
        ChangeFault::InUse(_) => saying(409, "in-use", "Something needs it", &text),
        ChangeFault::Taken(_) => saying(409, "taken", "The name or address is taken", &text),
    }
}

pub fn of_upgrade(fault: &UpgradeFault) -> Problem {
    let text = fault.to_string();
    let title = "Nobody took over";
    match fault {
        UpgradeFault::UnderWay => saying(409, "upgrade-under-way", title, &text),
        UpgradeFault::AwaitsConfirmation => saying(409, "awaits-confirmation", title, &text),
        UpgradeFault::CannotStart { .. } => saying(422, "cannot-start", title, &text),
        UpgradeFault::Ended { .. } | UpgradeFault::Failed { .. } | UpgradeFault::TimedOut | UpgradeFault::Unavailable => {
            saying(500, "upgrade-failed", title, &text)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response =
            (status, [(header::CONTENT_TYPE, PROBLEM_TYPE), (header::CACHE_CONTROL, "no-store")], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::{of_change, of_upgrade};
    use tidegate_control::succession::UpgradeFault;
    use tidegate_control::{ChangeFault, Tag};

    #[test]
    fn faults_become_problems_with_their_remedy() {
        let check = |fault: ChangeFault, status: u16, kind: &str, help: Option<&str>| {
            let problem = of_change(&fault);
            assert_eq!((problem.status, problem.kind(), problem.help.as_deref()), (status, kind, help), "{fault:?}");
            assert!(!problem.detail.contains("help:"), "{}", problem.detail);
        };
        check(ChangeFault::Configuration("error: a\n".into()), 422, "configuration", Some("`diagnostics` has all of them"));
        let confirm = "`tidegate confirm` keeps it, `tidegate rollback` takes it back";
        check(ChangeFault::AwaitsConfirmation { generation: 3 }, 409, "awaits-confirmation", Some(confirm));
        let again = "read it again and repeat the change";
        check(
            ChangeFault::Conflict { expected: Tag::of_number(1), running: Tag::of_number(2) },
            412,
            "generation-mismatch",
            Some(again),
        );
        check(ChangeFault::NoSuchGeneration(9), 404, "no-such-generation", Some("`tidegate history` lists those that are"));
        check(ChangeFault::NothingToConfirm, 409, "nothing-to-confirm", None);
        check(ChangeFault::Leaving, 409, "leaving", None);
        check(ChangeFault::NotFound("no\n  help: yes".into()), 404, "not-found", Some("yes"));
        check(ChangeFault::Taken("there is one".into()), 409, "taken", None);
        check(
            ChangeFault::FileChanged { file: "a.kdl".into() },
            409,
            "file-changed",
            Some("apply it with `tidegate apply a.kdl`, or undo the edit; then repeat the change"),
        );
    }

    #[test]
    fn who_could_not_take_over_says_why() {
        let check = |fault: UpgradeFault, status: u16, kind: &str| {
            let problem = of_upgrade(&fault);
            assert_eq!((problem.status, problem.kind()), (status, kind), "{fault:?}");
        };
        check(UpgradeFault::UnderWay, 409, "upgrade-under-way");
        check(UpgradeFault::CannotStart { binary: "/x".into(), error: "no".into() }, 422, "cannot-start");
        check(UpgradeFault::Ended { code: "1".into() }, 500, "upgrade-failed");
        check(UpgradeFault::TimedOut, 500, "upgrade-failed");
    }
}
