//! The changes of a text that make one of its nodes mean something else: values that differ are replaced, lines that
//! are new are put in, lines that are gone are taken out. Everything between them stays, comments above all.

use crate::diagnostics::{FileId, Location, Sources};
use crate::document::extent::{Extent, layout_at};
use crate::document::json::{self, SECRET, Slot, WrittenEntry};
use crate::document::write;
use crate::language::Directive;
use crate::syntax::{Literal, Node};
use crate::table::{Block, Kind, Place};
use serde_json::Value;
use std::ops::Range;

/// A part of a file and what comes to stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    pub file: FileId,
    pub span: Range<usize>,
    pub text: String,
}

/// What has to be done to a text.
#[derive(Debug, Default)]
pub struct Changes {
    pub replacements: Vec<Replacement>,
    /// A block that first has to be written on several lines, so that one can be put in.
    pub unfold: Option<Replacement>,
}

/// Makes the text of `old` mean `new`. Both are of that directive.
pub fn node(sources: &Sources, directive: &'static Directive, old: &Node, new: &Node) -> Changes {
    let mut sync = Sync { sources, changes: Changes::default() };
    sync.node(directive, old, new);
    sync.changes
}

/// Where the new one holds [`SECRET`], what the old one has in that place.
pub fn adopt_secrets(directive: &'static Directive, old: &Node, new: &mut Node) {
    if json::is_match(directive) {
        return;
    }
    let known = json::written(directive, old);
    let mut positions = std::collections::HashMap::new();
    let slots: Vec<_> = json::written(directive, new)
        .iter()
        .map(|one| {
            let position = positions.entry(one.key()).and_modify(|position| *position += 1).or_insert(0_usize);
            (one.key(), *position, kind_of(directive, one, *position))
        })
        .collect();
    for (entry, (key, position, kind)) in new.entries.iter_mut().zip(slots) {
        let is_kept = matches!(kind, Some(Kind::Secret(_))) && is_secret_mark(&entry.value.literal);
        if is_kept && let Some(old) = known.iter().filter(|one| one.key() == key).nth(position) {
            entry.value.literal = old.entry.value.literal.clone();
        }
    }
    let (Block::Optional(place) | Block::Required(place)) = directive.block else { return };
    let old_children = old.children.as_deref().unwrap_or_default();
    let new_children = new.children.as_deref().unwrap_or_default();
    let partner = |(position, child): (usize, &Node)| {
        let directive = json::in_json(&child.name.text, place).filter(|directive| lacks_secret(directive, child))?;
        Some((directive, former(old_children, new_children, position)?))
    };
    let partners: Vec<_> = new_children.iter().enumerate().map(partner).collect();
    for (child, partner) in new.children.iter_mut().flatten().zip(partners) {
        if let Some((directive, other)) = partner {
            adopt_secrets(directive, other, child);
        }
    }
}

/// The old node that the new one was. Several may have its name and argument, such as the `discover` lines of a pool:
/// then it is the one that has most in common with it. Where that is none alone, the order tells, as long as no line
/// came or went; a secret must not go to another line.
fn former<'o>(old: &'o [Node], new: &[Node], position: usize) -> Option<&'o Node> {
    let node = &new[position];
    let is_alike = |other: &&Node| other.name.text == node.name.text && first_argument(other) == first_argument(node);
    let candidates: Vec<&Node> = old.iter().filter(is_alike).collect();
    if let [] | [_] = candidates.as_slice() {
        return candidates.first().copied();
    }
    let mut wanted = Vec::new();
    said(node, "", &mut wanted);
    let common: Vec<usize> = candidates.iter().map(|candidate| count_common(candidate, &wanted)).collect();
    let most = common.iter().copied().max()?;
    let best = || candidates.iter().zip(&common).filter(|(_, count)| **count == most).map(|(candidate, _)| *candidate);
    if best().count() == 1 {
        return best().next();
    }
    let rank = new[..position].iter().filter(is_alike).count();
    let is_as_long = new.iter().filter(is_alike).count() == candidates.len();
    candidates.get(rank).copied().filter(|candidate| is_as_long && best().any(|other| std::ptr::eq(other, *candidate)))
}

fn count_common(candidate: &Node, wanted: &[String]) -> usize {
    let mut has = Vec::new();
    said(candidate, "", &mut has);
    wanted
        .iter()
        .filter(|text| match has.iter().position(|other| other == *text) {
            Some(position) => {
                has.swap_remove(position);
                true
            }
            None => false,
        })
        .count()
}

/// Everything that a node and its block say, each with where it stands.
fn said(node: &Node, above: &str, out: &mut Vec<String>) {
    let path = format!("{above}/{}", node.name.text);
    for entry in &node.entries {
        let name = entry.name.as_ref().map_or("", |name| name.text.as_str());
        out.push(format!("{path} {name}={:?}", entry.value.literal));
    }
    for child in node.children.iter().flatten() {
        said(child, &path, out);
    }
}

/// Whether a secret is still to be said.
pub fn lacks_secret(directive: &'static Directive, node: &Node) -> bool {
    let mut position = 0;
    let here = json::written(directive, node).iter().any(|one| {
        let kind = kind_of(directive, one, position);
        position += usize::from(matches!(one.slot, Slot::Argument));
        matches!(kind, Some(Kind::Secret(_))) && is_secret_mark(&one.entry.value.literal)
    });
    let (Block::Optional(place) | Block::Required(place)) = directive.block else { return here };
    let lacks = |child: &Node| json::in_json(&child.name.text, place).is_some_and(|directive| lacks_secret(directive, child));
    here || node.children.iter().flatten().any(lacks)
}

fn is_secret_mark(literal: &Literal) -> bool {
    matches!(literal, Literal::Text(text) if text == SECRET)
}

fn kind_of(directive: &'static Directive, one: &WrittenEntry<'_>, position: usize) -> Option<Kind> {
    match one.slot {
        Slot::Argument => json::argument_at(directive, position).map(|argument| argument.kind),
        Slot::Property(property) => Some(property.kind),
    }
}

pub fn first_argument(node: &Node) -> Option<&Literal> {
    node.entries.iter().find(|entry| entry.name.is_none()).map(|entry| &entry.value.literal)
}

struct Sync<'s> {
    sources: &'s Sources,
    changes: Changes,
}

impl Sync<'_> {
    fn replace(&mut self, at: &Location, text: String) {
        self.changes.replacements.push(Replacement { file: at.file, span: at.span.clone(), text });
    }

    fn put(&mut self, file: FileId, offset: usize, text: String) {
        self.changes.replacements.push(Replacement { file, span: offset..offset, text });
    }

    fn node(&mut self, directive: &'static Directive, old: &Node, new: &Node) {
        // Secrets are equal in JSON, whatever they are.
        self.entries(directive, old, new);
        let (Block::Optional(place) | Block::Required(place)) = directive.block else { return };
        let old_children = old.children.as_deref().unwrap_or_default();
        let new_children = new.children.as_deref().unwrap_or_default();
        if json::has_steps(place) {
            let (old_children, new_children) = (old_children.iter().collect(), new_children.iter().collect());
            self.children(place, old, old_children, new_children, None);
            return;
        }
        // The lines of such a block are in no order but with those of their own name.
        let mut names: Vec<&str> = Vec::new();
        for child in old_children.iter().chain(new_children) {
            if !names.contains(&child.name.text.as_str()) {
                names.push(&child.name.text);
            }
        }
        let mut last = None;
        for name in names {
            let of_name = |nodes| -> Vec<&Node> { of_name(nodes, name) };
            last = self.children(place, old, of_name(old_children), of_name(new_children), last);
        }
    }

    fn entries(&mut self, directive: &'static Directive, old: &Node, new: &Node) {
        let old_entries = json::written(directive, old);
        let new_entries = json::written(directive, new);
        let mut keys: Vec<_> = old_entries.iter().chain(&new_entries).map(WrittenEntry::key).collect();
        keys.sort_by_key(|key| rank_of(directive, *key));
        keys.dedup();
        let mut anchor = &old.name.location;
        for key in keys {
            let before: Vec<&WrittenEntry<'_>> = old_entries.iter().filter(|one| one.key() == key).collect();
            let after: Vec<&WrittenEntry<'_>> = new_entries.iter().filter(|one| one.key() == key).collect();
            for (position, one) in before.iter().enumerate() {
                let Some(wanted) = after.get(position) else {
                    self.remove_entry(one);
                    continue;
                };
                let kind = kind_of(directive, one, position).unwrap_or(Kind::Path);
                let (is, should_be) = (&one.entry.value.literal, &wanted.entry.value.literal);
                if is != should_be && json::literal(revealed(kind), is) != json::literal(revealed(kind), should_be) {
                    self.replace(&one.entry.value.location, write::literal(should_be));
                }
                if one.entry.location.span.start > anchor.span.start {
                    anchor = &one.entry.location;
                }
            }
            for one in after.iter().skip(before.len()) {
                let not = if one.not.is_some() { "not " } else { "" };
                self.put(anchor.file, anchor.span.end, format!(" {not}{}", write::entry(new, one.entry)));
            }
        }
    }

    fn remove_entry(&mut self, one: &WrittenEntry<'_>) {
        let at = &one.entry.location;
        let text = &self.sources.file(at.file).text;
        let start = one.not.map_or(at.span.start, |not| not.location.span.start);
        let start = text[..start].trim_end_matches([' ', '\t']).len();
        self.replace(&Location { file: at.file, span: start..at.span.end }, String::new());
    }

    /// Makes one list of lines another. `last` is the line behind which to go on when the list has none; returned is
    /// the last one now.
    fn children<'n>(
        &mut self,
        place: Place,
        parent: &'n Node,
        old: Vec<&'n Node>,
        new: Vec<&Node>,
        last: Option<&'n Node>,
    ) -> Option<&'n Node> {
        let partners = pair(place, &old, &new);
        let kept: Vec<usize> = partners.iter().flatten().copied().collect();
        let is_gone = |(index, node): &(usize, &&Node)| !kept.contains(index) && json::in_json(&node.name.text, place).is_some();
        for (_, gone) in old.iter().enumerate().filter(is_gone) {
            let text = &self.sources.file(gone.location.file).text;
            let span = Extent::of(text, gone).removal(text);
            self.replace(&Location { file: gone.location.file, span }, String::new());
        }
        let mut last = last;
        let mut added: Vec<&Node> = Vec::new();
        for (wanted, partner) in new.into_iter().zip(partners) {
            let Some(partner) = partner else {
                added.push(wanted);
                continue;
            };
            self.insert(parent, last, std::mem::take(&mut added));
            let partner = old[partner];
            if let Some(directive) = json::in_json(&partner.name.text, place)
                && json::values(directive, partner).len() == 1
            {
                self.node(directive, partner, wanted);
            }
            last = Some(partner);
        }
        self.insert(parent, last, added);
        last
    }

    fn insert(&mut self, parent: &Node, last: Option<&Node>, nodes: Vec<&Node>) {
        if nodes.is_empty() {
            return;
        }
        let text = &self.sources.file(parent.location.file).text;
        let extent = Extent::of(text, parent);
        let unfolded = || {
            let (span, text) = extent.block.clone().zip(extent.unfolded_block(text))?;
            Some(Replacement { file: parent.location.file, span, text })
        };
        let is_behind_include = last.is_some_and(|last| last.location.file != parent.location.file);
        if extent.is_on_one_line(text) && !is_behind_include {
            self.changes.unfold = unfolded();
            return;
        }
        if extent.block.is_none() && last.is_none() {
            let layout = layout_at(text, extent.span.start);
            let nodes: Vec<Node> = nodes.into_iter().cloned().collect();
            self.put(parent.location.file, extent.span.end, format!(" {}", write::block(&nodes, &layout)));
            return;
        }
        let (file, gap) = match last {
            Some(last) => {
                let text = &self.sources.file(last.location.file).text;
                (last.location.file, Some(Extent::of(text, last).gap_behind(text)))
            }
            None => (parent.location.file, extent.gap_in_block(text)),
        };
        let Some(gap) = gap else {
            // The first node stands on the line of the brace.
            self.changes.unfold = unfolded();
            return;
        };
        for node in nodes {
            self.put(file, gap.offset, format!("{}{}{}", gap.before, write::node(node, &gap.layout), gap.after));
        }
    }
}

/// As long as two secrets are compared, they are not secret.
fn revealed(kind: Kind) -> Kind {
    if let Kind::Secret(form) = kind { Kind::Text(form) } else { kind }
}

fn rank_of(directive: &Directive, (name, negated): (Option<&str>, bool)) -> usize {
    let index = name.and_then(|name| directive.properties.iter().position(|property| property.name == name));
    index.map_or(0, |index| 1 + index + if negated { directive.properties.len() } else { 0 })
}

fn of_name<'n>(nodes: &'n [Node], name: &str) -> Vec<&'n Node> {
    nodes.iter().filter(|node| node.name.text == name).collect()
}

/// A line of the old list as it is compared; a node that is several values in JSON is several of these.
struct Unit {
    owner: usize,
    value: Value,
    /// The node can be changed in place.
    is_alone: bool,
}

/// For each of the new nodes the old one that it was, in the same order.
fn pair(place: Place, old: &[&Node], new: &[&Node]) -> Vec<Option<usize>> {
    let values =
        |node: &Node| json::in_json(&node.name.text, place).map_or_else(Vec::new, |directive| json::values(directive, node));
    let units: Vec<Unit> = old
        .iter()
        .enumerate()
        .flat_map(|(owner, node)| {
            let values = values(node);
            let is_alone = values.len() == 1;
            values.into_iter().map(move |value| Unit { owner, value, is_alone })
        })
        .collect();
    let wanted: Vec<Value> = new.iter().map(|node| values(node).into_iter().next().unwrap_or(Value::Null)).collect();
    let same = |unit: &Unit, index: usize| old[unit.owner].name.text == new[index].name.text && unit.value == wanted[index];
    let head = units.iter().zip(0..new.len()).take_while(|(unit, index)| same(unit, *index)).count();
    let rest = units.len().min(new.len()) - head;
    let tail = (0..rest).take_while(|back| same(&units[units.len() - 1 - back], new.len() - 1 - back)).count();
    let mut partners: Vec<Option<usize>> = vec![None; new.len()];
    for (index, partner) in partners.iter_mut().enumerate().take(head) {
        *partner = Some(index);
    }
    for back in 1..=tail {
        partners[new.len() - back] = Some(units.len() - back);
    }
    let score = |unit: usize, index: usize| -> u32 {
        let (unit, node) = (&units[unit], new[index]);
        let before = old[unit.owner];
        match before.name.text == node.name.text {
            true if unit.value == wanted[index] => 8,
            true if unit.is_alone && first_argument(before) == first_argument(node) => 4,
            true if unit.is_alone => 2,
            true | false => 0,
        }
    };
    let (units_left, new_left) = (head..units.len() - tail, head..new.len() - tail);
    for (unit, index) in best_pairs(units_left, new_left, score) {
        partners[index] = Some(unit);
    }
    // A node that is several values stays only if all of them do, with nothing between them.
    let is_whole = |unit: &Unit| {
        let count = units.iter().filter(|other| other.owner == unit.owner).count();
        let is_here = |index: &usize| partners[*index].is_some_and(|partner| units[partner].owner == unit.owner);
        let found: Vec<usize> = (0..new.len()).filter(is_here).collect();
        found.len() == count && found.windows(2).all(|pair| pair[0] + 1 == pair[1])
    };
    let owner = |partner: usize| Some(&units[partner]).filter(|unit| unit.is_alone || is_whole(unit)).map(|unit| unit.owner);
    partners.iter().map(|partner| partner.and_then(owner)).collect()
}

/// Pairs in order with the greatest sum of scores; a score of 0 is no pair.
fn best_pairs(left: Range<usize>, right: Range<usize>, score: impl Fn(usize, usize) -> u32) -> Vec<(usize, usize)> {
    // Beyond this, which no edit by hand or by an interface comes near, lines are paired as they come.
    const CELLS_MAX: usize = 1 << 20;
    if left.len() * right.len() > CELLS_MAX {
        return left.zip(right).filter(|(left, right)| score(*left, *right) > 0).collect();
    }
    let width = right.len() + 1;
    let mut best = vec![0_u32; (left.len() + 1) * width];
    let at = |row: usize, column: usize| row * width + column;
    for row in (0..left.len()).rev() {
        for column in (0..right.len()).rev() {
            let pair = score(left.start + row, right.start + column);
            let paired = if pair > 0 { pair + best[at(row + 1, column + 1)] } else { 0 };
            best[at(row, column)] = paired.max(best[at(row + 1, column)]).max(best[at(row, column + 1)]);
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut pairs = Vec::new();
    while row < left.len() && column < right.len() {
        let here = best[at(row, column)];
        if here == best[at(row + 1, column)] {
            row += 1;
        } else if here == best[at(row, column + 1)] {
            column += 1;
        } else {
            pairs.push((left.start + row, right.start + column));
            row += 1;
            column += 1;
        }
    }
    pairs
}
