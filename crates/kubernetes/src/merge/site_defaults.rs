//! What holds for all paths of a host, as site options, steps and routes.

use super::Material;
use crate::defaults::SiteDefaults;
use crate::header_map::{HeaderMapForm, fields};
use tidegate_model::{
    Condition, EncodedSlashes, HeaderChange, HeaderOperation, HeaderStep, MatchLine, PathExpressions, PathPolicy, Route,
    RouteOptions, Step, Switched, Template, Terminal,
};

/// nginx takes `%2F` for a slash when it looks for a location, holds expressions against the decoded path, and hands on
/// what was sent.
const PATH_POLICY: PathPolicy =
    PathPolicy { encoded_slashes: EncodedSlashes::Pass, expressions: PathExpressions::Decoded, ..PathPolicy::DEFAULT };

pub(super) fn site_options(defaults: &SiteDefaults) -> RouteOptions {
    let compress = defaults.compress.clone().map_or(Switched::Inherited, |compress| Switched::On(Box::new(compress)));
    RouteOptions { path_policy: Some(PATH_POLICY), compress, ..RouteOptions::default() }
}

/// `has_hsts`: all of the site is answered over TLS, with a certificate that was asked for.
pub(super) fn site_steps(defaults: &SiteDefaults, known: Material<'_>, has_hsts: bool) -> Vec<Step> {
    let SiteDefaults { hsts, answer_headers, hidden, denied, .. } = defaults;
    let change = |operation: HeaderOperation, name: &str, value: &str| HeaderChange {
        operation,
        name: name.to_owned(),
        value: Template::literal(value),
    };
    let mut changes: Vec<HeaderChange> = hidden
        .iter()
        .map(|name| HeaderChange { value: Template::default(), ..change(HeaderOperation::Remove, name, "") })
        .collect();
    if let Some(Some(Ok(fields))) = answer_headers.as_ref().map(|key| fields(known.maps, key, HeaderMapForm::OfAnswers)) {
        changes.extend(fields);
    }
    if let Some(value) = hsts.as_ref().filter(|_| has_hsts) {
        changes.push(change(HeaderOperation::Set, "Strict-Transport-Security", value));
    }
    let denied = (!denied.is_empty()).then(|| Step::Deny(denied.clone().into()));
    let changes = (!changes.is_empty()).then(|| Step::ResponseHeader(HeaderStep::from(changes)));
    denied.into_iter().chain(changes).collect()
}

/// In front of all routes those of clients who are refused by what they say of themselves.
pub(super) fn blocked(defaults: &SiteDefaults) -> Option<Route> {
    let line = |condition: &Condition| MatchLine { conditions: vec![condition.clone()] };
    let matches: Vec<MatchLine> = defaults.blocked.iter().map(line).collect();
    let refusal = Terminal::Respond { status: 403, body: Template::default(), content_type: None };
    (!matches.is_empty()).then(|| Route { matches, ..Route::of_all(refusal) })
}
