//! What an `include` hands to the files that it reads: `include "app.kdl" name="shop" port=3000` puts `shop` in the
//! place of `{arg.name}` there. Done to the tree, before anything of it is understood; reading files is in `load`.

use crate::diagnostics::{Diagnostic, Location, nearest};
use crate::syntax::{Literal, Node, Value};
use std::collections::{BTreeMap, BTreeSet};

const OPENS: &str = "{arg.";
/// A text that repeats what it is given must not grow without end.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The arguments of one `include`.
#[derive(Debug, Clone)]
pub struct Arguments {
    given: BTreeMap<String, Literal>,
    used: BTreeSet<String>,
    at: Location,
}

impl Arguments {
    /// Takes them out of the line: what is left of it are the files. None where it has none.
    pub fn take(node: &mut Node) -> Option<Arguments> {
        let (named, files) = std::mem::take(&mut node.entries).into_iter().partition(|entry| entry.name.is_some());
        node.entries = files;
        let named: Vec<_> = named;
        let given: BTreeMap<String, Literal> =
            named.into_iter().filter_map(|entry| Some((entry.name?.text, entry.value.literal))).collect();
        (!given.is_empty()).then(|| Arguments { given, used: BTreeSet::new(), at: node.location.clone() })
    }

    /// Puts the values in their places, in the whole node.
    pub fn fill(&mut self, node: &mut Node, diagnostics: &mut Vec<Diagnostic>) {
        for entry in &mut node.entries {
            if let Err(fault) = self.fill_value(&mut entry.value) {
                diagnostics.push(*fault);
            }
        }
        node.children.iter_mut().flatten().for_each(|child| self.fill(child, diagnostics));
    }

    /// Arguments that no file has a place for.
    pub fn unused(&self) -> Option<Diagnostic> {
        let name = self.given.keys().find(|name| !self.used.contains(*name))?;
        let message = format!("nothing in what is included asks for `{name}=`");
        let diagnostic = Diagnostic::warning("unused-argument", self.at.clone(), message);
        Some(diagnostic.help(format!("remove it, or write `{{arg.{name}}}` where it is wanted")))
    }

    fn fill_value(&mut self, value: &mut Value) -> Result<(), Box<Diagnostic>> {
        let Literal::Text(raw) = &value.literal else { return Ok(()) };
        if !raw.contains(OPENS) {
            return Ok(());
        }
        let (mut filled, mut rest) = (String::new(), raw.as_str());
        while let Some(start) = rest.find(OPENS) {
            let (before, from_brace) = rest.split_at(start);
            filled.push_str(before);
            let Some(end) = from_brace.find('}').filter(|_| !before.ends_with('{')) else {
                filled.push_str(OPENS);
                rest = &from_brace[OPENS.len()..];
                continue;
            };
            let written = &from_brace[OPENS.len()..end];
            let literal = self.literal(written, &value.location)?;
            if from_brace.len() == raw.len() && end + 1 == raw.len() {
                *value = Value { literal, location: value.location.clone(), verbatim_from: None };
                return Ok(());
            }
            filled.push_str(&shown(&literal));
            rest = &from_brace[end + 1..];
        }
        filled.push_str(rest);
        if filled.len() > TEXT_BYTES_MAX {
            let message = format!("the text has more than {TEXT_BYTES_MAX} bytes with what the `include` put into it");
            return Err(Box::new(
                Diagnostic::error("too-long", value.location.clone(), message).label(self.at.clone(), "included here"),
            ));
        }
        *value = Value { literal: Literal::Text(filled), location: value.location.clone(), verbatim_from: None };
        Ok(())
    }

    /// `name`, or `name:-what holds without it`.
    fn literal(&mut self, written: &str, at: &Location) -> Result<Literal, Box<Diagnostic>> {
        let (name, otherwise) = written.split_once(":-").map_or((written, None), |(name, text)| (name, Some(text)));
        if let Some(literal) = self.given.get(name) {
            self.used.insert(name.to_owned());
            return Ok(literal.clone());
        }
        if let Some(text) = otherwise {
            return Ok(Literal::Text(text.to_owned()));
        }
        let diagnostic = Diagnostic::error("missing-argument", at.clone(), format!("the `include` says nothing of `{name}`"))
            .label(self.at.clone(), "included here");
        Err(Box::new(match nearest(name, self.given.keys().map(String::as_str)) {
            Some(candidate) => diagnostic.help(format!("did you mean `{{arg.{candidate}}}`?")),
            None => diagnostic.help(format!("add `{name}=\"…\"` to it, or write `{{arg.{name}:-value}}` here")),
        }))
    }
}

fn shown(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) => text.clone(),
        Literal::Integer(number) => number.to_string(),
        Literal::Float(number) => number.to_string(),
        Literal::Switch(switch) => format!("#{switch}"),
        Literal::Null => String::new(),
    }
}
