//! `path-policy`: spellings of a path that servers disagree about are settled before a route is looked for, so that
//! what a route matched is what the upstream gets. What is settled for every path (dots, needless percent codes) is in
//! `wire::path`. And which patterns no settled path fits.

use crate::path_test::{GOES_ON, as_in_requests};
use regex_syntax::hir::literal::{Extractor, Seq};
use tidegate_model::{
    EncodedSlashes, PathCase, PathExpressions, PathParameters, PathPattern, PathPolicy, Slashes, expression_parser,
};
use tidegate_wire::path::{Normalised, normalise};

/// The path is not to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathRefusal {
    Slashes,
    EncodedSlash,
    /// A semicolon, or one that is encoded; of a decoded path, dots with parameters.
    Parameters,
    /// Decoded, it leads above the root.
    EscapesRoot,
    /// A route has another policy than its site, and by that the path would belong to another route.
    Ambiguous,
}

impl PathRefusal {
    /// The reason code for log and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            PathRefusal::Slashes => "path_slashes",
            PathRefusal::EncodedSlash => "path_encoded_slash",
            PathRefusal::Parameters => "path_parameters",
            PathRefusal::EscapesRoot => "path_escapes_root",
            PathRefusal::Ambiguous => "path_ambiguous",
        }
    }

    /// The setting that it comes from.
    pub fn setting(self) -> &'static str {
        match self {
            PathRefusal::Slashes => "path-policy slashes",
            PathRefusal::Parameters => "path-policy parameters",
            PathRefusal::EncodedSlash | PathRefusal::EscapesRoot => "path-policy encoded-slashes",
            PathRefusal::Ambiguous => "path-policy",
        }
    }
}

/// The path under the policy, if it is another one. `path` is normalised already; what is not a path (`*`, and that of
/// CONNECT) is left alone.
pub fn settle_path(policy: PathPolicy, path: &[u8]) -> Result<Option<Vec<u8>>, PathRefusal> {
    if path.first() != Some(&b'/') || is_settled(policy, path) {
        return Ok(None);
    }
    if policy.parameters == PathParameters::Refuse && has_parameters(path) {
        return Err(PathRefusal::Parameters);
    }
    if policy.encoded_slashes == EncodedSlashes::Refuse && encoded_slashes(path).next().is_some() {
        return Err(PathRefusal::EncodedSlash);
    }
    let mut settled = path.to_vec();
    if has_decodable(policy.encoded_slashes, path) {
        settled = decoded(policy.encoded_slashes, path);
        // What is between two slashes now may be dots.
        let mut normal = Vec::new();
        match normalise(&settled, &mut normal) {
            Normalised::Unchanged => {}
            // Some servers would settle the dots, and others take them for a name.
            Normalised::Changed if policy.encoded_slashes == EncodedSlashes::Pass => return Err(PathRefusal::EncodedSlash),
            Normalised::Changed => settled = normal,
            Normalised::DotsWithParameter => return Err(PathRefusal::Parameters),
            Normalised::EscapesRoot | Normalised::Bad => return Err(PathRefusal::EscapesRoot),
        }
    }
    match policy.slashes {
        Slashes::Refuse if has_double_slash(&settled) => return Err(PathRefusal::Slashes),
        Slashes::Pass | Slashes::Merge => settled = merged(&settled),
        Slashes::Keep | Slashes::Refuse => {}
    }
    if policy.case == PathCase::Lower {
        make_lower(&mut settled);
    }
    Ok((settled != path).then_some(settled))
}

/// How a path goes on that was matched with its slashes merged and that no step has changed, where that is otherwise:
/// as it was sent, but for several slashes at its beginning.
pub fn path_as_sent(policy: PathPolicy, sent: &[u8]) -> Option<Vec<u8>> {
    let leading = sent.iter().take_while(|byte| **byte == b'/').count();
    let from_last = sent.get(leading.checked_sub(1)?..)?;
    let passes_double = policy.slashes == Slashes::Pass && has_double_slash(from_last);
    let passes_encoded = policy.encoded_slashes == EncodedSlashes::Pass && has_decodable(EncodedSlashes::Pass, from_last);
    if !passes_double && !passes_encoded {
        return None;
    }
    let slashes = if policy.slashes == Slashes::Pass { Slashes::Keep } else { policy.slashes };
    let encoded_slashes = if passes_encoded { EncodedSlashes::Keep } else { policy.encoded_slashes };
    let kept = PathPolicy { slashes, encoded_slashes, ..policy };
    // What the policy refuses was refused when the path was matched.
    Some(settle_path(kept, from_last).ok()?.unwrap_or_else(|| from_last.to_vec())).filter(|path| !path.starts_with(b"//"))
}

/// Whether the policy refuses a path that was made of texts of a client. Such a path is not spelled anew: what would be
/// decoded in the path of a request is the client's text here, so `decode` and `pass` refuse it as well.
pub fn refuse_made_path(policy: PathPolicy, path: &[u8]) -> Result<(), PathRefusal> {
    let encoded_slashes_refused = match policy.encoded_slashes {
        EncodedSlashes::Keep => false,
        EncodedSlashes::Decode | EncodedSlashes::Pass => path.windows(3).any(|code| code == b"%2F"),
        EncodedSlashes::Refuse => encoded_slashes(path).next().is_some(),
    };
    if policy.parameters == PathParameters::Refuse && has_parameters(path) {
        Err(PathRefusal::Parameters)
    } else if encoded_slashes_refused {
        Err(PathRefusal::EncodedSlash)
    } else if policy.slashes == Slashes::Refuse && has_double_slash(path) {
        Err(PathRefusal::Slashes)
    } else {
        Ok(())
    }
}

/// Why no request has the path that a pattern names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeverFits {
    /// Requests for it arrive with this one, which another pattern has to take.
    Spelled(String),
    Refused(PathRefusal),
    /// A match of this regular expression begins with text that no path has in it.
    Contains(String),
    /// The path leads above the root, or is none at all.
    NoPath,
}

/// Whether a path that is settled under the policy can fit the pattern. Of a regular expression only what it begins
/// with is looked at.
pub fn never_fits(pattern: &PathPattern, policy: PathPolicy) -> Option<NeverFits> {
    let (text, end) = match pattern {
        PathPattern::Exact(text) | PathPattern::Prefix(text) => (text.clone(), ""),
        PathPattern::Beginning(text) => (format!("{text}{GOES_ON}"), GOES_ON),
        PathPattern::Regex(text) => {
            return beginning(text).find_map(|literal| match policy.expressions {
                PathExpressions::Encoded => never_contains(&literal, policy),
                PathExpressions::Decoded => never_stands_for(&literal, policy),
            });
        }
    };
    let path = as_in_requests(&text);
    match normalise(&path, &mut Vec::new()) {
        Normalised::Unchanged | Normalised::Changed => {}
        Normalised::EscapesRoot | Normalised::DotsWithParameter | Normalised::Bad => return Some(NeverFits::NoPath),
    }
    match settle_path(policy, &path) {
        Ok(None) => None,
        Ok(Some(settled)) => {
            let settled = settled.strip_suffix(end.as_bytes()).unwrap_or(&settled);
            Some(NeverFits::Spelled(String::from_utf8_lossy(settled).into_owned()))
        }
        Err(refusal) => Some(NeverFits::Refused(refusal)),
    }
}

/// The text that every match begins with; none where that can be several.
fn beginning(regex: &str) -> impl Iterator<Item = Vec<u8>> {
    let hir = expression_parser().parse(regex).ok();
    let literals = hir.map(|hir| Extractor::new().extract(&hir));
    literals.as_ref().and_then(Seq::longest_common_prefix).map(<[u8]>::to_vec).into_iter()
}

/// Whether no settled path has such text in it.
fn never_contains(literal: &[u8], policy: PathPolicy) -> Option<NeverFits> {
    // Digits of percent codes are capitals in every path.
    let mut outside_codes = literal.to_vec();
    while let Some(at) = outside_codes.iter().position(|byte| *byte == b'%') {
        outside_codes.drain(at..(at + 3).min(outside_codes.len()));
    }
    let has_capital = policy.case == PathCase::Lower && outside_codes.iter().any(u8::is_ascii_uppercase);
    let has_double_slash = policy.slashes != Slashes::Keep && has_double_slash(literal);
    let has_encoded_slash =
        policy.encoded_slashes != EncodedSlashes::Keep && encoded_slashes(literal).any(|at| literal[at + 2] == b'F');
    let has_parameters = policy.parameters == PathParameters::Refuse && has_parameters(literal);
    // Bytes that may not stand in a path arrive percent-encoded, whatever the policy says.
    let has_raw = literal.iter().any(|byte| b"\"<>[\\]^`{|}".contains(byte));
    let text = String::from_utf8_lossy(literal).into_owned();
    (has_capital || has_double_slash || has_encoded_slash || has_parameters || has_raw).then_some(NeverFits::Contains(text))
}

/// As [`never_contains`], of the bytes that a settled path stands for.
fn never_stands_for(literal: &[u8], policy: PathPolicy) -> Option<NeverFits> {
    let has_capital = policy.case == PathCase::Lower && literal.iter().any(u8::is_ascii_uppercase);
    let keeps_slashes = policy.slashes == Slashes::Keep || policy.encoded_slashes == EncodedSlashes::Keep;
    let has_double_slash = !keeps_slashes && has_double_slash(literal);
    let has_parameters = policy.parameters == PathParameters::Refuse && literal.contains(&b';');
    let text = String::from_utf8_lossy(literal).into_owned();
    (has_capital || has_double_slash || has_parameters || literal.contains(&0)).then_some(NeverFits::Contains(text))
}

/// Whether there is nothing to do, without a copy: nearly every path.
fn is_settled(policy: PathPolicy, path: &[u8]) -> bool {
    let slashes = policy.slashes == Slashes::Keep || !has_double_slash(path);
    let encoded = policy.encoded_slashes == EncodedSlashes::Keep || !path.contains(&b'%');
    let case = policy.case == PathCase::Keep || !path.iter().any(u8::is_ascii_uppercase);
    let parameters = policy.parameters == PathParameters::Keep || !has_parameters(path);
    slashes && encoded && case && parameters
}

/// Whether a server that knows parameters could cut something off, before or after it decodes.
fn has_parameters(path: &[u8]) -> bool {
    path.contains(&b';') || path.windows(3).any(|code| code == b"%3B")
}

fn has_double_slash(path: &[u8]) -> bool {
    path.windows(2).any(|pair| pair == b"//")
}

/// Where `%2F` and `%5C` stand; their digits are in upper case in a normal path.
fn encoded_slashes(path: &[u8]) -> impl Iterator<Item = usize> {
    path.windows(3).enumerate().filter(|(_, code)| matches!(*code, b"%2F" | b"%5C")).map(|(at, _)| at)
}

/// The character in the place of a percent code at the beginning, where it is taken for that.
fn decodable(policy: EncodedSlashes, code: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [b'%', high, low, ..] = code else { return None };
    let byte = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
    let is_decoded = match policy {
        EncodedSlashes::Keep | EncodedSlashes::Refuse => false,
        EncodedSlashes::Decode => byte == b'/',
        // What may stand in a path itself (RFC 3986 section 3.3), beside what is decoded in every path.
        EncodedSlashes::Pass => b"/!$&'()*+,;=:@".contains(&byte),
    };
    is_decoded.then_some(byte)
}

fn has_decodable(policy: EncodedSlashes, path: &[u8]) -> bool {
    path.contains(&b'%') && (0..path.len()).any(|at| decodable(policy, &path[at..]).is_some())
}

fn decoded(policy: EncodedSlashes, path: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut at = 0;
    while at < path.len() {
        let found = decodable(policy, &path[at..]);
        decoded.push(found.unwrap_or(path[at]));
        at += if found.is_some() { 3 } else { 1 };
    }
    decoded
}

fn merged(path: &[u8]) -> Vec<u8> {
    let mut merged = Vec::with_capacity(path.len());
    for byte in path {
        if *byte != b'/' || merged.last() != Some(&b'/') {
            merged.push(*byte);
        }
    }
    merged
}

/// Percent codes keep their digits as they are.
fn make_lower(path: &mut [u8]) {
    let mut at = 0;
    while at < path.len() {
        if path[at] == b'%' {
            at += 3;
            continue;
        }
        path[at].make_ascii_lowercase();
        at += 1;
    }
}

#[cfg(test)]
mod tests;
