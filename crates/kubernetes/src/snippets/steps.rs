//! What holds for requests of a branch, as steps of a route: by the block of an `if`, the location and the server, as
//! nginx hands down what is said in blocks around.

use super::branches::{Branch, BranchEnd, Fault, Ground};
use super::texts::{Moment, Text, template_of};
use super::{AnswerChanges, PlacedStatement, Snippet, Statement};
use tidegate_model::{
    ForwardAuth, HeaderChange, HeaderConditions, HeaderOperation, HeaderStep, NamePattern, Placeholder, StatusRange, Step,
    Template,
};

/// The statuses that `add_header` is for without `always`.
const USUAL: [StatusRange; 5] = [
    StatusRange { first: 200, last: 201 },
    StatusRange { first: 204, last: 204 },
    StatusRange { first: 206, last: 206 },
    StatusRange { first: 301, last: 304 },
    StatusRange { first: 307, last: 308 },
];

/// By where they stand among the steps of a route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnippetSteps {
    /// In front of all others: what answers of servers have is taken out and set first.
    pub before: Vec<Step>,
    /// Who may come in, where the Ingress lets nobody in by its own networks.
    pub access: Vec<Step>,
    /// Behind all others.
    pub behind: Vec<Step>,
    /// What the upstream gets of the auth server's answer.
    pub copied: Vec<NamePattern>,
    /// What the auth server is told in place of what clients say.
    pub asked: Vec<(String, Template)>,
}

/// A statement, and whether the server says it.
type Said<'s> = (&'s PlacedStatement, bool);

/// `Err`: something of it cannot be had.
pub fn steps(server: &Snippet, location: &Snippet, branch: &Branch<'_>, ground: Ground<'_>) -> Result<SnippetSteps, Fault> {
    let blocks = Blocks { server, location, branch };
    let rewrites = match &branch.end {
        BranchEnd::GoesOn => ground.rewrites,
        BranchEnd::Unchanged => false,
        BranchEnd::Rewritten(_) => true,
        BranchEnd::Answered(answer) => answer.rewrite.is_some(),
    };
    let mut building =
        Building { branch, ground, rewrites, steps: SnippetSteps::default(), written: Vec::new(), answered: Vec::new() };
    for said in blocks.nearest(|statement| matches!(statement, Statement::HideHeader(_))) {
        if let Statement::HideHeader(name) = &said.0.statement {
            building.steps.before.push(answer_step(vec![change(name, None)], HeaderConditions::default()));
            building.answered.push(name.to_ascii_lowercase());
        }
    }
    for said in blocks.all() {
        match &said.0.statement {
            Statement::ChangeHeaders(changes) => building.change_headers(said, changes)?,
            Statement::ChangeInput(changes) => building.change_input(said, changes)?,
            _ => {}
        }
    }
    let is_access = |statement: &Statement| matches!(statement, Statement::Access { .. });
    let rules = if ground.has_networks { blocks.nearest_of_location(is_access) } else { blocks.nearest(is_access) };
    for said in rules {
        building.access(said.0);
    }
    building.end_access();
    for placed in &location.statements {
        if let Statement::SetRequestHeader { name, value } = &placed.statement {
            building.set_request_header((placed, false), name, value)?;
        }
    }
    let has_own = |statement: &Statement| matches!(statement, Statement::AddHeader { .. });
    // A location whose clients are asked about has a field of its own there.
    let added = if ground.is_asked { blocks.nearest_of_location(has_own) } else { blocks.nearest(has_own) };
    for said in added {
        if let Statement::AddHeader { name, value, always } = &said.0.statement {
            building.add_header(said, name, value, *always)?;
        }
    }
    Ok(building.steps)
}

struct Blocks<'s, 'b> {
    server: &'s Snippet,
    location: &'s Snippet,
    branch: &'b Branch<'s>,
}

impl<'s> Blocks<'s, '_> {
    /// Of the server, the location and the `if`.
    fn levels(&self) -> [(&'s [PlacedStatement], bool); 3] {
        [(&self.server.statements, true), (&self.location.statements, false), (self.branch.block.unwrap_or_default(), false)]
    }

    fn all(&self) -> impl Iterator<Item = Said<'s>> {
        self.levels().into_iter().flat_map(|(level, is_of_server)| level.iter().map(move |placed| (placed, is_of_server)))
    }

    /// Statements of the innermost block that has any.
    fn nearest(&self, is_one: impl Fn(&Statement) -> bool) -> Vec<Said<'s>> {
        nearest(&self.levels(), is_one)
    }

    fn nearest_of_location(&self, is_one: impl Fn(&Statement) -> bool) -> Vec<Said<'s>> {
        nearest(&self.levels()[1..], is_one)
    }
}

fn nearest<'s>(levels: &[(&'s [PlacedStatement], bool)], is_one: impl Fn(&Statement) -> bool) -> Vec<Said<'s>> {
    let of = |(level, is_of_server): &(&'s [PlacedStatement], bool)| -> Vec<Said<'s>> {
        let is_of_server = *is_of_server;
        level.iter().filter(|placed| is_one(&placed.statement)).map(|placed| (placed, is_of_server)).collect()
    };
    levels.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

struct Building<'b> {
    branch: &'b Branch<'b>,
    ground: Ground<'b>,
    rewrites: bool,
    steps: SnippetSteps,
    /// Fields of the request that servers get otherwise, in small letters.
    written: Vec<String>,
    /// Fields of answers that clients get otherwise, in small letters.
    answered: Vec<String>,
}

impl Building<'_> {
    fn template(&mut self, (placed, is_of_server): Said<'_>, text: &Text, moment: Moment) -> Result<Template, Fault> {
        let says = |says: String| placed.fault(is_of_server, says);
        let filled = text.filled(&self.branch.values).map_err(says)?;
        let template = template_of(&filled, moment, self.ground.is_asked).map_err(says)?;
        for placeholder in template.placeholders() {
            let name = match placeholder {
                // nginx reads it as it was before.
                Placeholder::ResponseHeader(name) if self.answered.contains(name) => {
                    return Err(says(format!("another statement writes `{name}`, which it reads")));
                }
                Placeholder::RequestHeader(name) => name.as_str(),
                Placeholder::RequestCookie(_) => "cookie",
                Placeholder::Host => "host",
                Placeholder::Path if self.rewrites && moment == Moment::Request => {
                    return Err(says("the path is not known there that it is rewritten to".to_owned()));
                }
                _ => continue,
            };
            if self.written.iter().any(|written| written == name) {
                return Err(says(format!("another statement writes `{name}`, which it reads")));
            }
        }
        if template.parts.iter().any(|part| matches!(part, tidegate_model::TemplatePart::Capture(_))) {
            return Err(says("what an expression has found is not known there".to_owned()));
        }
        for field in filled.auth_fields().filter(|_| self.ground.is_asked) {
            if ForwardAuth::is_never_copied(field) {
                return Err(says(format!("`{field}` of the auth server goes to the client, and nowhere else")));
            }
            if !self.steps.copied.iter().any(|known| known.text.eq_ignore_ascii_case(field)) {
                self.steps.copied.push(NamePattern { text: field.to_owned(), is_prefix: false });
            }
        }
        Ok(template)
    }

    fn change_headers(&mut self, said: Said<'_>, written: &AnswerChanges) -> Result<(), Fault> {
        let mut changes = Vec::new();
        for (name, value) in &written.changes {
            let value = value.as_ref().map(|value| self.template(said, value, Moment::Response)).transpose()?;
            changes.push(change(name, value));
        }
        self.answered.extend(written.changes.iter().map(|(name, _)| name.to_ascii_lowercase()));
        let when = HeaderConditions { statuses: written.statuses.clone(), types: written.types.clone(), matches: Vec::new() };
        self.steps.before.push(answer_step(changes, when));
        Ok(())
    }

    fn change_input(&mut self, said: Said<'_>, written: &[(String, Option<Text>)]) -> Result<(), Fault> {
        for (name, value) in written {
            let decides = |field: &str| name.eq_ignore_ascii_case(field);
            if (self.ground.has_login || self.ground.is_asked) && (decides("authorization") || decides("cookie")) {
                let says = "who asks is known by that field, before it is changed here".to_owned();
                return Err(said.0.fault(said.1, says));
            }
            let value = value.as_ref().map(|value| self.template(said, value, Moment::Request)).transpose()?;
            if self.ground.is_asked {
                self.steps.asked.push((name.clone(), value.clone().unwrap_or_default()));
            }
            self.request(name, value);
        }
        Ok(())
    }

    fn set_request_header(&mut self, said: Said<'_>, name: &str, value: &Text) -> Result<(), Fault> {
        let value = self.template(said, value, Moment::Request)?;
        let is_empty = value.parts.is_empty();
        self.request(name, (!is_empty).then_some(value));
        Ok(())
    }

    fn request(&mut self, name: &str, value: Option<Template>) {
        self.steps.behind.push(Step::RequestHeader(HeaderStep::from(vec![change(name, value)])));
        self.written.push(name.to_ascii_lowercase());
    }

    fn add_header(&mut self, said: Said<'_>, name: &str, value: &Text, always: bool) -> Result<(), Fault> {
        let filled = value.filled(&self.branch.values).unwrap_or_default();
        // Cookies of the auth server go to clients by themselves.
        let is_cookie = name.eq_ignore_ascii_case("set-cookie") && filled.as_auth_field() == Some("set-cookie");
        let value = if is_cookie { Template::default() } else { self.template(said, value, Moment::Response)? };
        if value.parts.is_empty() {
            return Ok(());
        }
        self.answered.push(name.to_ascii_lowercase());
        let statuses = if always { Vec::new() } else { USUAL.to_vec() };
        let added = HeaderChange { operation: HeaderOperation::Add, name: name.to_owned(), value };
        self.steps.behind.push(answer_step(vec![added], HeaderConditions { statuses, ..HeaderConditions::default() }));
        Ok(())
    }

    fn access(&mut self, placed: &PlacedStatement) {
        if let Statement::Access { allows, networks } = &placed.statement
            && !networks.is_empty()
        {
            let rule = networks.clone().into();
            self.steps.access.push(if *allows { Step::Allow(rule) } else { Step::Deny(rule) });
        }
    }

    /// An `allow` keeps out here whom no line names; nginx lets them in.
    fn end_access(&mut self) {
        let is_all = |step: &Step| match step {
            Step::Allow(rule) | Step::Deny(rule) => {
                rule.networks.len() == 2 && rule.networks.iter().all(|one| one.prefix_len() == 0)
            }
            _ => false,
        };
        if let Some(end) = self.steps.access.iter().position(is_all) {
            self.steps.access.truncate(end + 1);
        } else if self.steps.access.iter().any(|step| matches!(step, Step::Allow(_))) {
            let all = ["0.0.0.0/0", "::/0"].iter().filter_map(|all| all.parse().ok()).collect::<Vec<_>>();
            self.steps.access.push(Step::Allow(all.into()));
        }
    }
}

fn answer_step(changes: Vec<HeaderChange>, when: HeaderConditions) -> Step {
    Step::ResponseHeader(HeaderStep { changes, when })
}

/// Without a value the field is taken out.
fn change(name: &str, value: Option<Template>) -> HeaderChange {
    match value {
        Some(value) => HeaderChange { operation: HeaderOperation::Set, name: name.to_owned(), value },
        None => HeaderChange { operation: HeaderOperation::Remove, name: name.to_owned(), value: Template::default() },
    }
}
