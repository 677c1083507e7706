//! Edits of the configuration's JSON, made in its text. Every change is checked: what the text then says is what was
//! asked for, and nothing else says something new. Where the smallest change does not come to that, the node is written
//! anew.

use crate::diagnostics::FileId;
use crate::directives::edition::EDITION;
use crate::document::extent::{Extent, Gap, layout_at};
use crate::document::sync::{self, Replacement};
use crate::document::targets::{self, Inner, Spellings, Spot};
use crate::document::workspace::{Workspace, is_untouched};
use crate::document::write::{self, Layout};
use crate::document::{ChangedFile, Edit, EditError, EditFault, List, Target, json, nodes};
use crate::language::{Directive, Lower};
use crate::load::Loaded;
use crate::pieces::TopNode;
use crate::syntax::Node;
use crate::table::Place;
use serde_json::{Map, Value};

/// The target's JSON as it is now. `Err` when it is not there.
pub fn read_target(loaded: &Loaded, target: &Target) -> Result<Value, EditError> {
    let session = Session::of(loaded)?;
    let spot = session.locate(target)?;
    session.read(&spot).ok_or_else(|| targets::not_found(&session.workspace.tops, target))
}

/// The files that differ after all edits, one edit after the other; all of them are made, or none.
///
/// Only what an edit concerns is written anew, so comments and layout stay: around the node, and inside it around every
/// line and value that stays the same. A node that goes takes its line with it, and the comment at the end of that
/// line. Nodes that were included are changed in the file they stand in; new ones at the top level go into the main
/// file.
///
/// The edits may come to a configuration that does not load: the caller loads the texts before they are used. Costs
/// about what loading costs again, and time in proportion to the files for each edit.
pub fn apply_edits(loaded: &Loaded, edits: &[Edit]) -> Result<Vec<ChangedFile>, Vec<EditError>> {
    let mut session = Session::of(loaded).map_err(|error| vec![error])?;
    for edit in edits {
        session.apply(edit)?;
    }
    Ok(session.workspace.changed_files())
}

struct Session<'l> {
    workspace: Workspace,
    spellings: Spellings<'l>,
}

impl<'l> Session<'l> {
    fn of(loaded: &'l Loaded) -> Result<Session<'l>, EditError> {
        Ok(Session { workspace: Workspace::of(loaded)?, spellings: Spellings::of(loaded) })
    }

    fn locate(&self, target: &Target) -> Result<Spot, EditError> {
        targets::locate(&self.workspace.tops, self.spellings, target)
    }

    /// The value at the spot; `None` when nothing is there.
    fn read(&self, spot: &Spot) -> Option<Value> {
        let whole = self.top_value(spot.directive, spot.top?)?;
        match spot.inner {
            Inner::Whole => Some(whole),
            Inner::Step(step) => whole.get(json::STEPS)?.get(step?)?.get("route").cloned(),
            Inner::Server(server) => whole.get("server")?.get(server?).cloned(),
        }
    }

    fn top_value(&self, directive: &'static Directive, top: usize) -> Option<Value> {
        json::values(directive, &self.workspace.tops[top].remembered.node()).into_iter().next()
    }

    fn apply(&mut self, edit: &Edit) -> Result<(), Vec<EditError>> {
        let one = |error| vec![error];
        match edit {
            Edit::Put(target, value) => {
                let spot = self.locate(target).map_err(one)?;
                let value = identified(target, value, self.read(&spot).is_some());
                self.set(&spot, value)
            }
            Edit::Patch(target, patch) => {
                let spot = self.locate(target).map_err(one)?;
                let missing = || vec![targets::not_found(&self.workspace.tops, target)];
                let mut value = self.read(&spot).ok_or_else(missing)?;
                merge(&mut value, patch);
                self.set(&spot, value)
            }
            Edit::Remove(target) => {
                let spot = self.locate(target).map_err(one)?;
                if self.read(&spot).is_none() {
                    return Err(vec![targets::not_found(&self.workspace.tops, target)]);
                }
                self.remove(&spot)
            }
            Edit::Append(list, value) => {
                let spot = self.end_of(list, value).map_err(one)?;
                self.set(&spot, value.clone())
            }
        }
    }

    /// Where one more of the list goes.
    fn end_of(&self, list: &List, value: &Value) -> Result<Spot, EditError> {
        let whole = |directive| Ok(Spot { directive, top: None, inner: Inner::Whole });
        match list {
            List::Sites => whole(&crate::directives::site::SITE),
            List::Pools => whole(&crate::directives::pool::POOL),
            List::Listeners => whole(&crate::directives::listener::LISTENER),
            List::Tcp => whole(&crate::directives::tcp::TCP),
            List::Maps => whole(&crate::directives::map::MAP),
            List::Admin => whole(&crate::directives::admin::ADMIN),
            List::AccessLogs => whole(&crate::directives::access_log::ACCESS_LOG),
            List::Routes { site } => {
                let spot = self.locate(&Target::Route { site: site.clone(), index: 0 })?;
                Ok(Spot { inner: Inner::Step(None), ..spot })
            }
            List::Servers { pool } => {
                let address = value.get("address").and_then(Value::as_str).unwrap_or_default().to_string();
                let spot = self.locate(&Target::Server { pool: pool.clone(), address })?;
                Ok(Spot { inner: Inner::Server(None), ..spot })
            }
        }
    }

    /// Makes the value stand at the spot.
    fn set(&mut self, spot: &Spot, value: Value) -> Result<(), Vec<EditError>> {
        let Some((part, mut whole)) = self.whole_around(spot) else {
            if let Some(error) = targets::taken(&self.workspace.tops, self.spellings, spot.directive, &value, spot.top) {
                return Err(vec![error]);
            }
            return match spot.top {
                Some(top) => self.change(spot.directive, top, &value),
                None => self.add(spot.directive, &value),
            };
        };
        // First by itself, so that errors name places in what was given.
        nodes::node(part, &value)?;
        if let Some(error) = self.other_server(spot, &value) {
            return Err(vec![error]);
        }
        match spot.inner {
            Inner::Whole => {}
            Inner::Step(position) => {
                let steps = list_in(&mut whole, json::STEPS);
                let step = json::step(part, value);
                match position {
                    Some(position) => steps[position] = step,
                    None => steps.insert(position_of_new_route(steps), step),
                }
            }
            Inner::Server(position) => {
                let servers = list_in(&mut whole, "server");
                match position {
                    Some(position) => servers[position] = value,
                    None => servers.push(value),
                }
            }
        }
        self.change(spot.directive, spot.top.expect("something is inside of it"), &whole)
    }

    /// The error for a server whose address another one of the pool has.
    fn other_server(&self, spot: &Spot, value: &Value) -> Option<EditError> {
        let Inner::Server(own) = spot.inner else { return None };
        let address = value.get("address")?.as_str()?;
        let pool = self.workspace.tops[spot.top?].remembered.node();
        let holder = targets::server(&pool, self.spellings, address)?;
        (Some(holder) != own).then(|| {
            let message = format!("the pool has a server `{address}` already");
            EditError::new(EditFault::Taken, message).help("change that one, or choose another")
        })
    }

    /// For a spot inside a node: the directive of the spot, and the value of the node.
    fn whole_around(&self, spot: &Spot) -> Option<(&'static Directive, Value)> {
        let part = match spot.inner {
            Inner::Whole => return None,
            Inner::Step(_) => &crate::directives::route::ROUTE,
            Inner::Server(_) => &crate::directives::pool::server::SERVER,
        };
        Some((part, self.top_value(spot.directive, spot.top?)?))
    }

    fn remove(&mut self, spot: &Spot) -> Result<(), Vec<EditError>> {
        let Some(top) = spot.top else { return Ok(()) };
        let Some((_, mut whole)) = self.whole_around(spot) else { return self.remove_top(top) };
        match spot.inner {
            Inner::Whole | Inner::Step(None) | Inner::Server(None) => {}
            Inner::Step(Some(position)) => drop(list_in(&mut whole, json::STEPS).remove(position)),
            Inner::Server(Some(position)) => drop(list_in(&mut whole, "server").remove(position)),
        }
        self.change(spot.directive, top, &whole)
    }

    fn remove_top(&mut self, top: usize) -> Result<(), Vec<EditError>> {
        let node = self.workspace.tops[top].placed();
        let mut expected: Vec<TopNode> = self.workspace.tops.to_vec();
        expected.remove(top);
        let file = node.location.file;
        let text = &self.workspace.sources.file(file).text;
        let span = Extent::of(text, &node).removal(text);
        self.workspace.replace(vec![Replacement { file, span, text: String::new() }]).map_err(|error| vec![error])?;
        let is_as_expected = are_same(&self.workspace.tops, &expected);
        if is_as_expected { Ok(()) } else { Err(vec![not_writable(&node)]) }
    }

    /// Makes a node mean the value.
    fn change(&mut self, directive: &'static Directive, top: usize, value: &Value) -> Result<(), Vec<EditError>> {
        let old = self.workspace.tops[top].placed();
        let mut new = nodes::node(directive, value)?;
        sync::adopt_secrets(directive, &old, &mut new);
        refuse_missing_secret(directive, &new)?;
        let before = self.workspace.snapshot();
        if self.change_lines(directive, top, &new).is_some_and(|()| self.is_changed_only(&before.1, top, directive, &new)) {
            return Ok(());
        }
        self.workspace.restore(before.clone());
        if is_in_one_file(&old, old.location.file) {
            let file = old.location.file;
            let text = &self.workspace.sources.file(file).text;
            let span = Extent::of(text, &old).span;
            let text = write::node(&new, &layout_at(text, span.start));
            if self.workspace.replace(vec![Replacement { file, span, text }]).is_ok()
                && self.is_changed_only(&before.1, top, directive, &new)
            {
                return Ok(());
            }
        }
        Err(vec![not_writable(&old)])
    }

    /// Line by line. `None` when that does not lead anywhere.
    fn change_lines(&mut self, directive: &'static Directive, top: usize, new: &Node) -> Option<()> {
        // Each writes a block on several lines, from the outside in.
        const UNFOLDED_BLOCKS_MAX: usize = 8;
        for _ in 0..UNFOLDED_BLOCKS_MAX {
            let old = self.workspace.tops.get(top)?.placed();
            let changes = sync::node(&self.workspace.sources, directive, &old, new);
            let Some(unfold) = changes.unfold else {
                return self.workspace.replace(changes.replacements).ok();
            };
            self.workspace.replace(vec![unfold]).ok()?;
        }
        None
    }

    fn is_changed_only(&self, before: &[TopNode], top: usize, directive: &'static Directive, new: &Node) -> bool {
        let tops = &self.workspace.tops;
        tops.len() == before.len()
            && are_same(&tops[..top], &before[..top])
            && are_same(&tops[top + 1..], &before[top + 1..])
            && json::values(directive, &tops[top].remembered.node()) == json::values(directive, new)
    }

    /// Writes a new node at the top level of the main file.
    fn add(&mut self, directive: &'static Directive, value: &Value) -> Result<(), Vec<EditError>> {
        let new = nodes::node(directive, value)?;
        refuse_missing_secret(directive, &new)?;
        let before = self.workspace.tops.clone();
        let main = self.workspace.main;
        let gap = self.gap_at_top(directive);
        let text = format!("{}{}{}", gap.before, write::node(&new, &gap.layout), gap.after);
        let replacement = Replacement { file: main, span: gap.offset..gap.offset, text };
        self.workspace.replace(vec![replacement]).map_err(|error| vec![error])?;
        let tops = &self.workspace.tops;
        let is_one_more = tops.len() == before.len() + 1;
        let position = tops.iter().zip(before.iter()).take_while(|(now, before)| is_same(now, before)).count();
        if is_one_more
            && are_same(&tops[position + 1..], &before[position..])
            && json::values(directive, &tops[position].remembered.node()) == json::values(directive, &new)
        {
            return Ok(());
        }
        Err(vec![not_writable(&new)])
    }

    /// Behind the last of its kind, else at the end; what has a block with a blank line around it.
    fn gap_at_top(&self, directive: &'static Directive) -> Gap {
        let main = self.workspace.main;
        let text = &self.workspace.sources.file(main).text;
        let is_here = |top: &&TopNode| top.name() == directive.name && file_of(top) == main;
        let has_block = matches!(directive.block, crate::table::Block::Required(_));
        let Layout { line_break, .. } = layout_at(text, 0);
        if let Some(last) = self.workspace.tops.iter().rev().find(is_here) {
            let gap = Extent::of(text, &last.placed()).gap_behind(text);
            let is_on_new_line = gap.before.starts_with(line_break);
            let before = if has_block && is_on_new_line { format!("{line_break}{}", gap.before) } else { gap.before };
            return Gap { before, ..gap };
        }
        let layout = Layout { line_break, ..Layout::TOP };
        // Nothing may stand before it; a byte order mark has to.
        if directive.name == EDITION.name {
            let offset = text.len() - text.trim_start_matches('\u{feff}').len();
            return Gap { offset, before: String::new(), after: line_break, layout };
        }
        let mut before = String::new();
        if !text.is_empty() && !text.ends_with('\n') {
            before.push_str(line_break);
        }
        if !text.is_empty() && has_block {
            before.push_str(line_break);
        }
        Gap { offset: text.len(), before, after: line_break, layout }
    }
}

fn refuse_missing_secret(directive: &'static Directive, node: &Node) -> Result<(), Vec<EditError>> {
    if !sync::lacks_secret(directive, node) {
        return Ok(());
    }
    let message =
        format!("`{}` in `{}` stands for a secret that is there already, and there is none", json::SECRET, directive.name);
    Err(vec![EditError::new(EditFault::Invalid, message).help("give the secret, or better `{env.NAME}` or `{file.PATH}`")])
}

fn file_of(top: &TopNode) -> FileId {
    top.placement.map_or_else(|| top.name_location().file, |placement| placement.file)
}

fn is_in_one_file(node: &Node, file: FileId) -> bool {
    node.location.file == file && node.children.iter().flatten().all(|child| is_in_one_file(child, file))
}

fn are_same(left: &[TopNode], right: &[TopNode]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
}

fn is_same(left: &TopNode, right: &TopNode) -> bool {
    let values =
        |top: &TopNode| json::in_json(top.name(), Place::Top).map(|directive| json::values(directive, &top.remembered.node()));
    is_untouched(left, right) || (left.name() == right.name() && values(left) == values(right))
}

fn not_writable(node: &Node) -> EditError {
    let message = format!("this `{}` is written in a way that it cannot be changed from here", node.name.text);
    let help = "change the files by hand: a part of it may be included in more than one place";
    EditError::new(EditFault::NotWritable, message).help(help)
}

/// The value with the name or address that the target says already.
fn identified(target: &Target, value: &Value, is_there: bool) -> Value {
    let (member, identity) = match target {
        // One that has other addresses besides keeps them.
        Target::Site { address } if !is_there => ("addresses", Value::from(vec![address.clone()])),
        Target::Pool { name } | Target::Map { name } => ("name", name.clone().into()),
        Target::Server { address, .. } | Target::Listener { address } | Target::Tcp { address } | Target::Admin { address } => {
            ("address", address.clone().into())
        }
        Target::AccessLog { target } => ("target", target.clone().into()),
        Target::Site { .. } | Target::Route { .. } | Target::Top { .. } => return value.clone(),
    };
    let mut value = value.clone();
    if let Value::Object(members) = &mut value {
        members.entry(member).or_insert(identity);
    }
    value
}

fn list_in<'v>(whole: &'v mut Value, member: &str) -> &'v mut Vec<Value> {
    if !whole.is_object() {
        *whole = Value::Object(Map::new());
    }
    match &mut whole[member] {
        Value::Array(list) => list,
        other => {
            *other = Value::Array(Vec::new());
            other.as_array_mut().expect("it was made one")
        }
    }
}

/// Behind the last route; without one, in front of the step that answers all that is left.
fn position_of_new_route(steps: &[Value]) -> usize {
    let is_terminal = |step: &Value| {
        let name = step.as_object().and_then(|members| members.keys().next());
        name.and_then(|name| json::in_json(name, Place::Site)).is_some_and(|step| matches!(step.lower, Lower::Terminal(_)))
    };
    match steps.iter().rposition(|step| step.get("route").is_some()) {
        Some(last) => last + 1,
        None => steps.iter().position(is_terminal).unwrap_or(steps.len()),
    }
}

/// RFC 7396.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(members) = value else { return };
    for (name, change) in changes {
        if change.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}
