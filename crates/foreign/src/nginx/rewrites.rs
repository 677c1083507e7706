//! A `rewrite` of nginx: the step that changes the path, or the location of the server that it leads to.

use super::NginxReader;
use super::draft::{AnswerKind, Draft, Family, Step};
use super::expressions::{groups, is_everything, is_group, not_ahead, path_that_leads_to, with_groups, without_groups};
use super::locations::{Location, Modifier, find};
use super::request_uris::ASKED;
use super::routes::{Coming, DEPTH_MAX, ServerScope};
use super::scope::Levels;
use super::tables::number_of_group;
use super::variables::{Moment, TextPart, Values, parts};
use super::words;
use crate::accounts::Origin;
use crate::braces::Statement;
use crate::outline::OutlinedAnswer;
use crate::sent_paths::sent;
use regex::bytes::Regex;
use tidegate_kdl::quoted;
use tidegate_model::expression;

const ANOTHER: &str = "what its expression found may lead nginx to another location, where this is the answer of one";
const NO_EXPRESSION: &str = "its expression is none of ours: there are no look-arounds and no back-references";
const QUERY: &str = "the query of the request is not added to the one that is written";

impl<'s> NginxReader<'s> {
    /// A `rewrite`: changes the path here, or has another answer.
    pub(super) fn rewrite(
        &self,
        statement: &'s Statement,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        coming: &mut Coming,
        origin: &mut Origin,
    ) -> Result<Vec<Draft>, String> {
        let [from, ..] = statement.arguments() else { return Err("it says nothing".to_owned()) };
        // What was sent on comes by again, and is looked at anew.
        let is_past = |text: &str, is_meant: bool| {
            let sample = coming.sample.as_deref().unwrap_or_default();
            self.built(text).is_some_and(|own| own.is_match(sample.as_bytes()) != is_meant)
        };
        let ahead = not_ahead(from);
        let is_past = match &ahead {
            Some((positive, negative)) => is_past(positive, true) || is_past(negative, false),
            None => is_past(from, true),
        };
        if coming.sample.is_some() && is_past {
            origin.carry(statement.start());
            return Ok(Vec::new());
        }
        // A group in what must not follow counts as well.
        let has_group = |looked: &str| number_of_group(looked, "1").is_some() && looked.replace("(?:", "").contains('(');
        let names_group = statement.arguments().get(1).is_some_and(|to| to.contains("$1") || to.contains("$2"));
        if let Some((positive, negative)) = ahead.filter(|(_, negative)| !(names_group && has_group(negative))) {
            let mut own = statement.clone();
            own.words[1] = positive;
            let mut found = self.rewrite_of(&own, scope, levels, coming, origin)?;
            if found.is_empty() {
                self.explain(statement.start(), NO_EXPRESSION);
            }
            let not = format!("not path={}", quoted(&format!("~{}", sent(&negative))));
            for draft in &mut found {
                draft.conditions.push(not.clone());
            }
            return Ok(found);
        }
        self.rewrite_of(statement, scope, levels, coming, origin)
    }

    fn rewrite_of(
        &self,
        statement: &Statement,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        coming: &mut Coming,
        origin: &mut Origin,
    ) -> Result<Vec<Draft>, String> {
        let [from, to, flags @ ..] = statement.arguments() else { return Err("it says nothing".to_owned()) };
        if self.built(from).is_none() {
            return Err(NO_EXPRESSION.to_owned());
        }
        let values = scope.values(levels);
        let flag = flags.first().map_or("", String::as_str);
        let is_redirect = ["http://", "https://", "$scheme"].iter().any(|start| to.starts_with(start))
            || matches!(flag, "redirect" | "permanent");
        let paths = if is_everything(from) { Vec::new() } else { vec![sent(from)] };
        if is_redirect {
            let mut used = Vec::new();
            let query = if to.ends_with('?') { Query::AsWritten } else { Query::Added };
            let sent = self.sent_to(to.trim_end_matches('?'), Some(from), query, &values, &mut used)?;
            let status = if flag == "permanent" { 301 } else { 302 };
            let mut draft = Draft::of(AnswerKind::Local, OutlinedAnswer::Redirect { to: sent.to, status });
            draft.steps.clone_from(&coming.changes);
            draft.steps.extend(sent.steps);
            draft.paths = paths;
            draft.origin.carry(statement.start());
            draft.origin.carry_all(used);
            if to.trim_end_matches('?').contains('?') && query == Query::Added {
                draft.origin.differ(statement.start(), QUERY);
            }
            self.say_more(&mut draft, scope, levels);
            return Ok(vec![draft]);
        }
        let change = self.change(statement, &values, origin)?;
        // In a server, its location is looked for behind it in any case.
        let is_of_location = scope.locations.iter().any(|location| has(location.statement, statement.start()));
        if flag == "break" && (is_of_location || coming.is_within) {
            coming.changes.push(change);
            origin.carry(statement.start());
            return Ok(Vec::new());
        }
        let mut found = self.sent_within(to, Some(statement), scope, coming, change)?;
        for draft in &mut found {
            draft.paths.extend(paths.clone());
            draft.origin.carry(statement.start());
        }
        Ok(found)
    }

    /// An expression as one of ours; `None` where it is none.
    fn built(&self, text: &str) -> Option<Regex> {
        if let Some(known) = self.built.borrow().get(text) {
            return known.clone();
        }
        let built = expression(text).build().ok();
        self.built.borrow_mut().insert(text.to_owned(), built.clone());
        built
    }

    /// The step that changes the path as a `rewrite` does.
    fn change(&self, statement: &Statement, values: &Values<'s>, origin: &mut Origin) -> Result<Step, String> {
        let [from, to, ..] = statement.arguments() else { return Err("it says nothing".to_owned()) };
        let (path, query) = to.split_once('?').map_or((to.as_str(), None), |(path, query)| (path, Some(query)));
        let values = with_groups(values, from);
        let mut used = Vec::new();
        let of = |text: &str, used: &mut Vec<usize>| {
            values
                .template(text, Moment::Request, &self.tables, used)
                .ok_or_else(|| "nothing here has what it puts into the path".to_owned())
        };
        let mut target = of(path, &mut used)?;
        if !target.starts_with('/') && ["{path}", "{uri}", ASKED].iter().all(|start| !target.starts_with(start)) {
            target.insert(0, '/');
            if is_everything(from) && target == "/$1" {
                "$1".clone_into(&mut target);
            }
        }
        if let Some(query) = query {
            target.push('?');
            target.push_str(&of(query.strip_suffix('?').unwrap_or(query), &mut used)?);
            // A `?` at the end says that the query of the request is not to follow.
            let has_own = query.contains("$args") || query.contains("$query_string");
            if !query.is_empty() && !query.ends_with('?') && !has_own {
                target.push_str("&{query}");
            }
        }
        origin.carry_all(used);
        Ok(Step::of(Family::Path, format!("rewrite {} {}", quoted(&format!("~{}", sent(from))), quoted(&target))))
    }

    /// The routes of the location that a path within the server leads to.
    pub(super) fn sent_within(
        &self,
        to: &str,
        rewrite: Option<&Statement>,
        scope: &ServerScope<'s>,
        coming: &Coming,
        change: Step,
    ) -> Result<Vec<Draft>, String> {
        let path = to.split('?').next().unwrap_or_default();
        let sample: String = parts(path)
            .iter()
            .map(|part| match part {
                TextPart::Plain(plain) => (*plain).to_owned(),
                TextPart::Variable("uri" | "document_uri" | "request_uri") => "/x".to_owned(),
                TextPart::Variable("is_args" | "args" | "query_string") => String::new(),
                TextPart::Variable(_) => "x".to_owned(),
            })
            .collect();
        let found = find(&scope.locations, &sample);
        let is_open = sample != path && parts(path).len() > 1 && path.contains('$');
        let stem = path.split('$').next().unwrap_or_default();
        let may_be = |(index, location): &(usize, &Location<'s>)| {
            let is_deeper = location.is_prefix() && location.path.len() > stem.len() && location.path.starts_with(stem);
            let is_exact = location.modifier == Modifier::Exact && location.path.starts_with(stem);
            is_open && Some(*index) != found && (is_deeper || is_exact || location.may_begin(stem))
        };
        let others: Vec<&Location<'s>> =
            scope.locations.iter().enumerate().filter(may_be).map(|(_, location)| location).collect();
        let mut refused = Vec::new();
        for guarded in others.iter().filter(|location| words::protects(location.statement)) {
            match self.refused_before(scope, guarded, rewrite, path) {
                Some(draft) => refused.push(draft),
                None => return Err(format!("it may lead to `{}`, which keeps clients out", guarded.path)),
            }
        }
        let mut coming = coming.clone();
        coming.changes.push(change);
        coming.depth += 1;
        coming.is_within = true;
        coming.sample = Some(sample.clone());
        let mut drafts = match found.map(|index| &scope.locations[index]) {
            Some(location) => self.of_location(scope, location, &coming)?,
            None => self.content_of_server(scope, &coming)?,
        };
        // The group is a part of the path that was asked for, so that is looked at.
        drafts.splice(0..0, refused);
        if let Some(rewrite) = rewrite.filter(|_| !others.is_empty()) {
            for draft in &mut drafts {
                draft.origin.differ(rewrite.start(), ANOTHER);
            }
        }
        Ok(drafts)
    }

    /// The refusal of a location that lets nobody in, for a path that is changed before it is looked for.
    fn refused_before(
        &self,
        scope: &ServerScope<'s>,
        location: &Location<'s>,
        rewrite: Option<&Statement>,
        to: &str,
    ) -> Option<Draft> {
        let text = match location.expression() {
            Some(text) => Some(text).filter(|text| !text.contains('^')),
            None => rewrite.and_then(|rewrite| path_that_leads_to(rewrite.argument(), to, location.path)),
        };
        let mut text = text?;
        if location.modifier == Modifier::Exact {
            text.push('$');
        }
        // A location that sends on itself is no plain refusal.
        let is_sending = |own: &Statement| matches!(own.name(), "rewrite" | "if" | "try_files" | "error_page");
        if location.statement.inside().iter().any(is_sending) {
            return None;
        }
        expression(&text).build().ok()?;
        let coming = Coming { depth: DEPTH_MAX, ..Coming::default() };
        let mut draft = self.of_location(scope, location, &coming).ok().filter(|drafts| drafts.len() == 1)?.pop()?;
        draft.paths.push(sent(&text));
        (draft.answer.is_refusal() && draft.conditions.is_empty()).then_some(draft)
    }

    /// Where a client is sent, and the steps that make it.
    pub(super) fn sent_to(
        &self,
        to: &str,
        from: Option<&str>,
        query: Query,
        values: &Values<'s>,
        used: &mut Vec<usize>,
    ) -> Result<Sent, String> {
        const UNKNOWN: &str = "nothing here has what the address names";
        let to = values.filled(to, used);
        let to = from.map_or(to.clone(), |from| without_groups(&to, from));
        let authority_end = to.find("://").map_or(0, |at| {
            let behind = &to[at + 3..];
            let paths = ["/", "${uri}", "${document_uri}", "${request_uri}"].into_iter();
            at + 3 + paths.filter_map(|path| behind.find(path)).min().unwrap_or(behind.len())
        });
        let (start, path) = to.split_at(authority_end);
        let has_group = |text: &str| from.is_some_and(|from| parts(text).iter().any(|part| is_group(part, from)));
        let bare = path.trim_end_matches("${is_args}${args}").trim_end_matches("${is_args}${query_string}");
        let is_argued = bare != path && !bare.ends_with("${uri}");
        if !has_group(&to) && !is_argued {
            let mut template = values.template(&to, Moment::Request, &self.tables, used).ok_or_else(|| UNKNOWN.to_owned())?;
            if query == Query::AsWritten || to.contains('?') {
                return Ok(Sent { to: template, steps: Vec::new() });
            }
            if template.ends_with("{path}") {
                template.truncate(template.len() - "{path}".len());
                return Ok(Sent { to: template + "{uri}", steps: Vec::new() });
            }
            if template.ends_with("{uri}") || template.ends_with(ASKED) || path.is_empty() {
                let rest = if path.is_empty() { "{uri}" } else { "" };
                let is_bare = path.is_empty() && !template.contains("{uri}");
                return Ok(Sent { to: if is_bare { template + rest } else { template }, steps: Vec::new() });
            }
        }
        // Groups of an expression in the host are looked up.
        let start = match from {
            Some(from) if has_group(start) => {
                let mut values = values.clone();
                for (name, number) in groups(from) {
                    let map = self.tables.made("{path}", &format!("~{}", sent(from)), &format!("${number}"));
                    values.captures.push((name, format!("{{map.{map}}}")));
                }
                values.template(start, Moment::Request, &self.tables, used)
            }
            _ => values.template(start, Moment::Request, &self.tables, used),
        };
        let start = start.ok_or_else(|| UNKNOWN.to_owned())?;
        let grouped = from.map_or_else(|| values.clone(), |from| with_groups(values, from));
        let is_kept = is_argued || query == Query::Added;
        let target = if is_argued { bare } else { path };
        let target = if target.is_empty() { "/" } else { target };
        let written = grouped.template(target, Moment::Request, &self.tables, used).ok_or_else(|| UNKNOWN.to_owned())?;
        let has_query = written.contains('?');
        let step = match from.filter(|_| has_group(target)) {
            Some(from) => format!("rewrite {} {}", quoted(&format!("~{}", sent(from))), quoted(&written)),
            None => format!("rewrite {}", quoted(&written)),
        };
        let rest = if is_kept || has_query { "{uri}" } else { "{path}" };
        Ok(Sent { to: format!("{start}{rest}"), steps: vec![Step::of(Family::Path, step)] })
    }
}

/// Whether the statement that begins there stands in this one, however deep.
fn has(around: &Statement, start: usize) -> bool {
    around.inside().iter().any(|own| own.start() == start || has(own, start))
}

/// Where a client is sent.
pub struct Sent {
    pub to: String,
    pub steps: Vec<Step>,
}

/// What becomes of the query of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    AsWritten,
    Added,
}
