//! `rewrite`, `strip-prefix` and `add-prefix`: change the path, and a rewrite also the query, that later steps and the
//! upstream see. What comes out is normalised like every request's path. The path of the request line `OPTIONS *` is
//! never changed.

use crate::compile_error::CompileError;
use crate::context::{Context, Scratch, View};
use crate::template::{CompiledTemplate, Found, Target};
use regex::bytes::Regex;
use std::borrow::Cow;
use std::fmt;
use tidegate_model::{PathExpressions, PathPolicy, Placeholder, Slashes, Template, TemplatePart, expression};
use tidegate_routing::path_policy::{PathRefusal, refuse_made_path};
use tidegate_wire::head::{RequestHead, Span};
use tidegate_wire::path::{Climb, Normalised, climb, decoded, normalise};

#[cfg(test)]
mod tests;

/// The longest path and query that a step may make. Placeholders can repeat what a client sent; the upstream would
/// refuse more anyway.
pub const TARGET_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub struct Rewrite {
    /// `None` rewrites every path.
    pattern: Option<Regex>,
    uses_captures: bool,
    /// Whether its text ends with `&{query}`, of which the `&` is nothing without a query.
    is_query_behind: bool,
    to: CompiledTemplate,
    /// For texts of clients: with a server behind it that decodes slashes, an encoded one ends their segment.
    path_policy: PathPolicy,
}

/// What the step made of the request's text is no target. The client chose that text, so the answer blames the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteError {
    /// `.` or `..`, in any encoding: the path would be another one than was written.
    EscapesRoot,
    /// No leading `/`, an encoded NUL, or dots with parameters.
    NotAPath,
    /// Longer than [`TARGET_BYTES_MAX`].
    TooLong,
    /// What a client's text brought is refused by `path-policy` in the paths of requests, too.
    AgainstPolicy(PathRefusal),
}

impl RewriteError {
    pub fn status(self) -> u16 {
        match self {
            RewriteError::EscapesRoot | RewriteError::NotAPath | RewriteError::AgainstPolicy(_) => 400,
            RewriteError::TooLong => 414,
        }
    }

    /// The reason code for log and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            RewriteError::EscapesRoot => "rewrite_escapes_root",
            RewriteError::NotAPath => "rewrite_not_a_path",
            RewriteError::TooLong => "rewrite_too_long",
            RewriteError::AgainstPolicy(refusal) => refusal.reason(),
        }
    }
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RewriteError::EscapesRoot => "the rewritten path has dot segments",
            RewriteError::NotAPath => "the rewritten text is not a path",
            RewriteError::TooLong => "the rewritten path and query are too long",
            RewriteError::AgainstPolicy(_) => "the rewritten path is refused by path-policy",
        })
    }
}

impl std::error::Error for RewriteError {}

impl Rewrite {
    /// `pattern` is a regular expression without its `~`.
    pub fn new(pattern: Option<&str>, to: &Template) -> Result<Rewrite, CompileError> {
        let pattern = pattern.map(|text| expression(text).build()).transpose()?;
        let begins_wrong = match to.parts.first() {
            None => true,
            Some(TemplatePart::Literal(text)) => !text.starts_with('/'),
            Some(
                TemplatePart::Placeholder(Placeholder::Path | Placeholder::Uri | Placeholder::AskedUri)
                | TemplatePart::Capture(_),
            ) => false,
            // One piece of a path, which has no slash.
            Some(TemplatePart::Placeholder(_)) => true,
        };
        if begins_wrong || to.has_dot_segments() {
            return Err(CompileError::NotAPath(to.to_string()));
        }
        let is_query_behind = match to.parts.as_slice() {
            [.., TemplatePart::Literal(text), TemplatePart::Placeholder(Placeholder::Query)] => text.ends_with('&'),
            _ => false,
        };
        let to = CompiledTemplate::new(to, Target::RequestTarget);
        if let Some(number) = to.capture_max()
            && pattern.as_ref().is_none_or(|regex| number >= regex.captures_len())
        {
            return Err(CompileError::NoSuchCapture(number));
        }
        let uses_captures = to.capture_max().is_some();
        Ok(Rewrite { pattern, uses_captures, is_query_behind, to, path_policy: PathPolicy::DEFAULT })
    }

    /// The policy of the route.
    #[must_use]
    pub fn under(self, path_policy: PathPolicy) -> Rewrite {
        Rewrite { path_policy, ..self }
    }

    /// The whole path is replaced when the pattern is found anywhere in it. The query is kept unless the new text has a
    /// `?`; a `?` with nothing behind it removes the query. On an error the head is as it was.
    ///
    /// A pattern whose captures are used allocates the positions of its groups, and a decoded path is written down
    /// where it has percent codes; nothing else here allocates.
    pub fn apply(&self, head: &mut RequestHead, context: &Context<'_>, scratch: &mut Scratch) -> Result<(), RewriteError> {
        let path = head.path();
        if path.first() != Some(&b'/') {
            return Ok(());
        }
        let searched = match self.path_policy.expressions {
            PathExpressions::Encoded => Cow::Borrowed(path),
            PathExpressions::Decoded => decoded(path),
        };
        let captures = match &self.pattern {
            None => None,
            Some(regex) if self.uses_captures => match regex.captures(&searched) {
                None => return Ok(()),
                Some(captures) => Some(Found { captures, expressions: self.path_policy.expressions }),
            },
            Some(regex) if regex.is_match(&searched) => None,
            Some(_) => return Ok(()),
        };
        let Scratch { rendered, normal_path } = scratch;
        rendered.clear();
        let view = View { context, request: head, response: None };
        // Kept, what a pattern has cut would bring back the slashes that are merged before a route is looked for.
        if matches!(self.path_policy.slashes, Slashes::Merge | Slashes::Pass) {
            self.to.render_merged(view, captures.as_ref(), rendered);
        } else {
            self.to.render_captures(view, captures.as_ref(), rendered);
        }
        if self.is_query_behind && head.query().is_none_or(<[u8]>::is_empty) && rendered.last() == Some(&b'&') {
            rendered.pop();
        }
        // What was found and what was searched borrow the head.
        drop(captures);
        drop(searched);
        // What is written in full is the administrator's.
        let policy = if self.to.as_literal().is_some() { PathPolicy::DEFAULT } else { self.path_policy };
        replace_target(head, rendered, policy, normal_path)
    }
}

/// `strip-prefix "/api"`: `/api/x` becomes `/x`, `/api` becomes `/`; any other path is left alone, `/apix` too.
#[derive(Debug)]
pub struct StripPrefix {
    /// Without the last slash.
    prefix: Box<[u8]>,
}

impl StripPrefix {
    pub fn new(prefix: &str) -> Result<StripPrefix, CompileError> {
        Ok(StripPrefix { prefix: compile_prefix(prefix)? })
    }

    /// Without the last slash.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    pub fn apply(&self, head: &mut RequestHead) {
        match head.path().strip_prefix(&*self.prefix) {
            Some(b"") => head.set_path(b"/"),
            Some([b'/', ..]) => {
                // What is left is the end of the same bytes: nothing is copied.
                let Span { start, len } = head.path;
                let stripped = self.prefix.len() as u32;
                head.path = Span { start: start + stripped, len: len - stripped };
            }
            _ => {}
        }
    }
}

/// `add-prefix "/v1"`: `/x` becomes `/v1/x`.
#[derive(Debug)]
pub struct AddPrefix {
    /// Without the last slash.
    prefix: Box<[u8]>,
}

impl AddPrefix {
    pub fn new(prefix: &str) -> Result<AddPrefix, CompileError> {
        Ok(AddPrefix { prefix: compile_prefix(prefix)? })
    }

    /// Without the last slash.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    pub fn apply(&self, head: &mut RequestHead) -> Result<(), RewriteError> {
        if head.path().first() != Some(&b'/') || self.prefix.is_empty() {
            return Ok(());
        }
        let Span { start, len } = head.path;
        if self.prefix.len() + len as usize > TARGET_BYTES_MAX {
            return Err(RewriteError::TooLong);
        }
        let bytes = &mut head.fields.bytes;
        let new_start = bytes.len();
        bytes.extend_from_slice(&self.prefix);
        bytes.extend_from_within(start as usize..(start + len) as usize);
        head.path = Span::new(new_start, bytes.len());
        Ok(())
    }
}

/// Splits the new text at its first `?`, checks and normalises the path, and puts both into the head. Dot segments in
/// it are refused and not resolved: nobody has written them, so a client's text, or the rest of a path that a pattern
/// has cut in the middle of a segment, would lead out of what is written in front of it.
pub(crate) fn replace_target(
    head: &mut RequestHead,
    target: &[u8],
    policy: PathPolicy,
    normal_path: &mut Vec<u8>,
) -> Result<(), RewriteError> {
    if target.len() > TARGET_BYTES_MAX {
        return Err(RewriteError::TooLong);
    }
    let question_mark = target.iter().position(|byte| *byte == b'?');
    let path = &target[..question_mark.unwrap_or(target.len())];
    match climb(path) {
        Climb::Nowhere => {}
        Climb::DotSegment => return Err(RewriteError::EscapesRoot),
        Climb::Nul => return Err(RewriteError::NotAPath),
    }
    normal_path.clear();
    let path = match normalise(path, normal_path) {
        Normalised::Unchanged => path,
        Normalised::Changed => normal_path,
        Normalised::EscapesRoot => return Err(RewriteError::EscapesRoot),
        Normalised::DotsWithParameter | Normalised::Bad => return Err(RewriteError::NotAPath),
    };
    refuse_made_path(policy, path).map_err(RewriteError::AgainstPolicy)?;
    head.set_path(path);
    if let Some(position) = question_mark {
        let query = &target[position + 1..];
        head.set_query(if query.is_empty() { None } else { Some(query) });
    }
    Ok(())
}

/// A prefix in the form in which request paths are compared, without its last slash; `/` becomes the empty prefix.
fn compile_prefix(text: &str) -> Result<Box<[u8]>, CompileError> {
    let not_a_path = || CompileError::NotAPath(text.to_owned());
    let encoded = CompiledTemplate::new(&Template::literal(text), Target::RequestTarget);
    let encoded = encoded.as_literal().unwrap_or_default();
    let mut normal = Vec::new();
    let prefix = match normalise(encoded, &mut normal) {
        Normalised::Unchanged => encoded,
        Normalised::Changed => &normal,
        Normalised::EscapesRoot | Normalised::DotsWithParameter | Normalised::Bad => return Err(not_a_path()),
    };
    Ok(prefix.strip_suffix(b"/").unwrap_or(prefix).into())
}
