//! What keeps clients out of the index of a folder: nginx looks for the location of `/a/index.html` where `/a/` is
//! asked for and has one, so that an expression for `.html` guards the folder as well.

use super::NginxReader;
use super::answers::is_shut;
use super::draft::{AnswerKind, Draft, Step};
use super::files::is_guard;
use super::folder_expressions::{Folders, folders, is_open_at_end};
use super::locations::{Location, Modifier, find};
use super::routes::{Coming, Place, ServerScope};
use super::scope::Levels;
use super::words;
use crate::accounts::Origin;
use crate::braces::{Statement, named};
use crate::outline::OutlinedAnswer;
use tidegate_model::expression;

const ASKED_FOR_INDEX: &str = "it keeps clients out of the index of a folder as well, which is asked for where the folder is: all folders whose \
                               index it may be about are refused here";

const SCRIPT_OF_FOLDER: &str = "the script of a folder that it leads to is kept by another location, which no route asks behind a path that was \
                                changed";

impl<'s> NginxReader<'s> {
    /// The first location that keeps clients out of an index of some folder, where requests come by a path that was
    /// changed: routes ask for the one that a client has sent, so that such folders have no index.
    pub(super) fn keeper_of_index<'l>(
        scope: &'l ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Option<&'l Location<'s>> {
        let names = index_names(levels);
        let keeps = |(index, other): &(usize, &Location<'s>)| {
            Some(*index) != place.index
                && refuses(other)
                && names.iter().any(|name| folders_of(&scope.locations, *index, name, true).is_some())
        };
        let mut all = scope.locations.iter().enumerate().filter(|_| coming.changed());
        all.find(keeps).map(|(_, other)| other)
    }

    /// Answers behind a path that was changed, none of which runs the script of a folder that another location keeps.
    pub(super) fn without_kept_scripts(
        drafts: Vec<Draft>,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        let runs_those_of_folders = |draft: &Draft| match &draft.answer {
            OutlinedAnswer::Lines(lines) => lines.iter().any(|line| line.text().contains(" static=#true")),
            _ => false,
        };
        let is_kept = drafts.iter().any(runs_those_of_folders) && Self::keeper_of_index(scope, levels, place, coming).is_some();
        if is_kept { Err(SCRIPT_OF_FOLDER.to_owned()) } else { Ok(drafts) }
    }

    /// Routes that refuse folders of a block whose index another location keeps for some.
    pub(super) fn guarded_folders(&self, scope: &ServerScope<'s>, levels: &Levels<'s>, place: Place<'_>) -> Vec<Draft> {
        let is_answered = |own: &Statement| own.name().ends_with("_pass") || own.name() == "return";
        let is_internal = named(levels.inner(), "internal").next().is_some();
        if !takes_folders(place) || is_internal || is_shut(levels) || levels.answering().any(is_answered) {
            return Vec::new();
        }
        let names = index_names(levels);
        let mut drafts: Vec<Draft> = Vec::new();
        let own = Guards { reader: self, scope, of: opens(scope, place).then(|| self.guards(scope, levels)) };
        for (index, other) in scope.locations.iter().enumerate().filter(|(_, other)| own.are_others_of(other)) {
            let asked = IndexQuestion { locations: &scope.locations, place, other: index };
            for name in names.iter().filter(|name| asked.may_be(name)) {
                let mut draft = Draft::of(AnswerKind::Local, OutlinedAnswer::status(403));
                if place.modifier != Modifier::Exact {
                    let Some(folders) = folders_of(&scope.locations, index, name, asked.is_within()) else { continue };
                    draft.paths = asked.without_own(folders);
                }
                if place.modifier != Modifier::Exact && asked.root_has_its_own(name, &draft.paths) {
                    draft.conditions.push("not path=\"/\"".to_owned());
                }
                if drafts.iter().any(|known| known.paths == draft.paths && known.conditions == draft.conditions) {
                    continue;
                }
                self.say_more(&mut draft, scope, levels);
                draft.steps.retain(|step| !step.line.starts_with("error-page"));
                draft.origin.within.extend(words::places([other.statement]));
                draft.origin.differ(other.statement.start(), ASKED_FOR_INDEX);
                drafts.push(draft);
            }
        }
        if place.modifier == Modifier::Exact
            && names.iter().any(|name| own.are_others_of_server(&format!("{}{name}", place.path)))
        {
            let mut draft = Draft::of(AnswerKind::Local, OutlinedAnswer::status(403));
            self.say_more(&mut draft, scope, levels);
            draft.steps.retain(|step| !step.line.starts_with("error-page"));
            drafts.push(draft);
        }
        drafts
    }

    /// What keeps clients out of the files of a block.
    pub(super) fn guards(&self, scope: &ServerScope<'s>, levels: &Levels<'s>) -> Vec<Step> {
        let mut draft = Draft::of(AnswerKind::Files, OutlinedAnswer::status(200));
        self.say_more(&mut draft, scope, levels);
        draft.steps.into_iter().filter(|step| is_guard(step.family)).collect()
    }
}

/// What keeps clients out of a place.
struct Guards<'r, 's> {
    reader: &'r NginxReader<'s>,
    scope: &'r ServerScope<'s>,
    /// Where that is other than what is said around it.
    of: Option<Vec<Step>>,
}

impl<'s> Guards<'_, 's> {
    /// Whether a location keeps clients out by what it says, or by what is said around it and not around the place.
    fn are_others_of(&self, location: &Location<'s>) -> bool {
        location.modifier != Modifier::Named
            && (refuses(location) || self.are_others(&location.levels(self.scope.inside, self.scope.http)))
    }

    /// Whether no location takes a path, and what is said around them keeps clients out.
    fn are_others_of_server(&self, path: &str) -> bool {
        find(&self.scope.locations, path).is_none() && self.are_others(&self.scope.levels())
    }

    fn are_others(&self, levels: &Levels<'s>) -> bool {
        self.of.as_ref().is_some_and(|own| {
            let theirs = self.reader.guards(self.scope, levels);
            !theirs.is_empty() && theirs != *own
        })
    }
}

/// Whether a location says itself who may come in, and so not what is said around it.
fn opens(scope: &ServerScope<'_>, place: Place<'_>) -> bool {
    let is_said = |own: &Statement| matches!(own.name(), "allow" | "deny" | "auth_basic" | "auth_request" | "satisfy");
    let Some(index) = place.index else { return false };
    around(&scope.locations, index).any(|index| scope.locations[index].statement.inside().iter().any(is_said))
}

/// Whether a path with a slash at its end may come to a location.
pub fn takes_folders(place: Place<'_>) -> bool {
    match place.modifier {
        Modifier::Exact => place.path.ends_with('/'),
        Modifier::Sensitive | Modifier::Insensitive => !ends_with_a_letter(place.path),
        Modifier::Before | Modifier::Prefix | Modifier::Named => true,
    }
}

/// Whether nginx would ask a location for the index of a folder that another one has taken.
struct IndexQuestion<'l, 's> {
    locations: &'l [Location<'s>],
    place: Place<'l>,
    other: usize,
}

impl<'l, 's> IndexQuestion<'l, 's> {
    fn other(&self) -> &'l Location<'s> {
        &self.locations[self.other]
    }

    fn own(&self) -> Option<&'l Location<'s>> {
        self.place.index.map(|index| &self.locations[index])
    }

    fn is_own_expression(&self) -> bool {
        matches!(self.place.modifier, Modifier::Sensitive | Modifier::Insensitive)
    }

    fn may_be(&self, name: &str) -> bool {
        if self.place.index == Some(self.other) {
            return false;
        }
        if self.is_own_expression() {
            // The one that took the folder takes its index as well, and is asked first.
            let is_behind = self.own().is_some_and(|own| own.outer == self.other().outer)
                && self.place.index.is_some_and(|own| own < self.other)
                && self.other().is_expression();
            return !(is_behind && is_open_at_end(self.place.path));
        }
        if self.place.modifier == Modifier::Named {
            return true;
        }
        if self.place.modifier == Modifier::Exact {
            let found = find(self.locations, &format!("{}{name}", self.place.path));
            return found.is_some_and(|index| around(self.locations, index).any(|index| index == self.other));
        }
        around(self.locations, self.other).all(|index| self.meets(&self.locations[index], index, name))
    }

    /// Whether the index of a folder below the place may be a path that a location takes.
    fn meets(&self, location: &Location<'s>, index: usize, name: &str) -> bool {
        let (path, own) = (self.place.path, self.own());
        let is_top = own.is_none_or(|own| own.outer.is_none());
        let leads_into_name =
            |path: &str| path.rsplit_once('/').is_some_and(|(_, last)| !last.is_empty() && name.starts_with(last));
        if location.is_expression() {
            // No expression beside it is asked, unless a longer prefix takes the index and lets them be.
            let is_longer = |other: &Location<'s>| {
                other.is_prefix() && other.path.len() > path.len() && other.path.starts_with(path) && leads_into_name(other.path)
            };
            let is_kept_back = self.place.modifier == Modifier::Before && is_top && location.outer.is_none();
            return !is_kept_back || self.locations.iter().any(is_longer);
        }
        if Some(index) == self.place.index {
            return true;
        }
        if path.len() < location.path.len() {
            return location.path.starts_with(path) && leads_into_name(location.path);
        }
        // What lies in it is asked where it is the longest that takes the index.
        !(is_top && location.outer.is_none()) && path.starts_with(location.path)
    }

    /// Whether the location may take the index of a folder that it would take itself: not where it is asked for the
    /// folder first.
    fn is_within(&self) -> bool {
        if !self.other().is_expression() {
            return self.is_own_expression() && !is_open_at_end(self.place.path);
        }
        let is_beside = self.other().outer.is_none() && self.own().is_none_or(|own| own.outer.is_none());
        let is_asked_first = match self.place.modifier {
            Modifier::Prefix => true,
            Modifier::Sensitive | Modifier::Insensitive => self.place.index.is_some_and(|own| self.other < own),
            Modifier::Before | Modifier::Exact | Modifier::Named => false,
        };
        !(is_beside && is_asked_first)
    }

    /// Without what all paths of the place begin with.
    fn without_own(&self, mut folders: Vec<String>) -> Vec<String> {
        if matches!(self.place.modifier, Modifier::Before | Modifier::Prefix) {
            let own = format!("^{}", regex_syntax::escape(self.place.path));
            folders.retain(|text| !own.starts_with(text.as_str()));
        }
        if !folders.iter().any(|text| text.ends_with("/$")) {
            folders.insert(0, "/$".to_owned());
        }
        folders
    }

    /// Whether the index of the root is taken by a location of its own that refuses nobody, in front of all others.
    fn root_has_its_own(&self, name: &str, folders: &[String]) -> bool {
        let is_one = |own: &Location<'s>| {
            own.modifier == Modifier::Exact && own.outer.is_none() && own.path.strip_prefix('/') == Some(name) && !refuses(own)
        };
        let fits = |text: &String| expression(text).build().is_ok_and(|own| own.is_match(b"/"));
        self.other().modifier != Modifier::Exact && folders.iter().all(fits) && self.locations.iter().any(is_one)
    }
}

/// A location and those that it stands in.
fn around<'l>(locations: &'l [Location<'_>], index: usize) -> impl Iterator<Item = usize> + 'l {
    std::iter::successors(Some(index), |index| locations[*index].outer)
}

/// The name of an index that no folder has: what begins with a dot is not sent, and is no script.
pub const NO_NAME: &str = ".none";
pub const NO_INDEX: &str = " index=\".none\"";

/// `index=` of files whose folders have none, since nothing here asks who keeps it.
pub fn without_index(keeper: &Location<'_>, origin: &mut Origin) -> &'static str {
    origin.differ(keeper.statement.start(), ASKED_FOR_INDEX);
    NO_INDEX
}

/// Files that answer for their folder.
fn index_names<'s>(levels: &Levels<'s>) -> Vec<&'s str> {
    match levels.one("index") {
        Some(index) => index.arguments().iter().map(String::as_str).filter(|name| !name.contains(['$', '/'])).collect(),
        None => vec!["index.html"],
    }
}

/// Whether what an expression fits ends with a letter or a digit, as with `\.php$`.
fn ends_with_a_letter(pattern: &str) -> bool {
    let end = pattern.strip_suffix('$').map(|rest| rest.trim_end_matches(')'));
    end.is_some_and(|rest| rest.ends_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Whether a location lets only some in, or nobody.
fn refuses(location: &Location<'_>) -> bool {
    let is_guard = |own: &Statement| match own.name() {
        "deny" | "internal" => true,
        "auth_basic" | "auth_request" | "auth_jwt" => own.argument() != "off",
        "return" => own.argument().starts_with('4'),
        "if" => words::protects(own),
        _ => false,
    };
    location.modifier != Modifier::Named
        && location.statement.inside().iter().any(is_guard)
        && named(location.statement.inside(), "satisfy").all(|own| own.argument() != "any")
}

/// Expressions that all fit folders whose index of that name may be taken by the location, beside others perhaps;
/// `None` where it takes none. `within` are those below it too, where it is no expression.
fn folders_of(locations: &[Location<'_>], index: usize, name: &str, within: bool) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for around in around(locations, index) {
        let location = &locations[around];
        let pattern = match location.expression() {
            Some(pattern) => pattern,
            None if location.modifier == Modifier::Exact => format!("^{}$", regex_syntax::escape(location.path)),
            None => format!("^{}", regex_syntax::escape(location.path)),
        };
        match folders(&pattern, name, within || around != index) {
            Folders::None => return None,
            Folders::All => {}
            Folders::Of(text) => found.push(text),
        }
    }
    found.dedup();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::folders_of;
    use crate::braces::of_nginx;
    use crate::nginx::locations::of_server;

    #[test]
    fn folders_are_those_whose_index_is_kept() {
        let check = |location: &str, name: &str, expected: Option<&[&str]>| {
            let text = format!("location {location} {{ deny all; }}");
            let statements = of_nginx(&text);
            let locations = of_server(&statements);
            let seen = folders_of(&locations, locations.len() - 1, name, false);
            let seen: Option<Vec<&str>> = seen.as_ref().map(|all| all.iter().map(String::as_str).collect());
            assert_eq!(seen.as_deref(), expected, "for {location}");
        };
        check("~ \\.html$", "index.html", Some(&[]));
        check("~ \\.html$", "index.php", None);
        check("= /a/index.html", "index.html", Some(&["^/a/$"]));
        check("= /a/other.html", "index.html", None);
        check("/a/ind", "index.html", Some(&["^/a/$"]));
        check("/a/", "index.html", None);
    }
}
