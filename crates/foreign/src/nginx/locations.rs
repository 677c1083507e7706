//! Locations of a server, with those within others, and the order in which nginx looks at them: an exact one, the
//! longest prefix, expressions in their order unless that prefix says `^~`. Here the first in the file is taken, so
//! they are put into an order in which that is the same one.

use super::expressions::beginnings;
use super::scope::Levels;
use crate::braces::{Statement, named};
use crate::sent_paths::sent;
use crate::spelling::{encoded, has_two_spellings, in_either_spelling};
use regex::bytes::Regex;
use std::cell::OnceCell;
use std::cmp::Reverse;
use tidegate_model::expression;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modifier {
    Exact,
    /// `^~`: no expression is looked at.
    Before,
    Sensitive,
    Insensitive,
    Prefix,
    /// `@app`
    Named,
}

#[derive(Debug, Clone)]
pub struct Location<'s> {
    pub modifier: Modifier,
    pub path: &'s str,
    pub statement: &'s Statement,
    /// The blocks of the locations that it stands in, the innermost first.
    around: Vec<&'s [Statement]>,
    /// Which of the locations it stands in.
    pub outer: Option<usize>,
    /// The expression, built when a path is first held against it: chains of `rewrite` ask all of them again and again.
    built: OnceCell<Option<Regex>>,
    beginnings: OnceCell<Beginnings>,
}

/// All locations of a server; one that stands in another comes behind it.
pub fn of_server(inside: &[Statement]) -> Vec<Location<'_>> {
    let mut found = Vec::new();
    add(inside, &[], None, &mut found);
    found
}

fn add<'s>(block: &'s [Statement], around: &[&'s [Statement]], outer: Option<usize>, found: &mut Vec<Location<'s>>) {
    for statement in named(block, "location").filter(|statement| statement.block.is_some()) {
        let Some((modifier, path)) = parsed(statement.arguments()) else { continue };
        let own = found.len();
        found.push(Location {
            modifier,
            path,
            statement,
            around: around.to_vec(),
            outer,
            built: OnceCell::new(),
            beginnings: OnceCell::new(),
        });
        let mut inner = vec![statement.inside()];
        inner.extend(around);
        add(statement.inside(), &inner, Some(own), found);
    }
}

fn parsed(arguments: &[String]) -> Option<(Modifier, &str)> {
    match arguments {
        [modifier, path] => {
            let modifier = match modifier.as_str() {
                "=" => Modifier::Exact,
                "^~" => Modifier::Before,
                "~" => Modifier::Sensitive,
                "~*" => Modifier::Insensitive,
                _ => return None,
            };
            Some((modifier, path))
        }
        // The modifier may stand at the path itself.
        [path] => Some(match path.as_str() {
            path if path.starts_with('@') => (Modifier::Named, path),
            path if path.starts_with("~*") => (Modifier::Insensitive, &path[2..]),
            path if path.starts_with("^~") => (Modifier::Before, &path[2..]),
            path if path.starts_with('~') => (Modifier::Sensitive, &path[1..]),
            path if path.starts_with('=') => (Modifier::Exact, &path[1..]),
            path => (Modifier::Prefix, path),
        }),
        _ => None,
    }
}

impl<'s> Location<'s> {
    pub fn levels(&self, server: &'s [Statement], http: &'s [Statement]) -> Levels<'s> {
        let mut blocks = vec![self.statement.inside()];
        blocks.extend(&self.around);
        blocks.extend([server, http]);
        Levels::of(blocks)
    }

    pub fn is_expression(&self) -> bool {
        matches!(self.modifier, Modifier::Sensitive | Modifier::Insensitive)
    }

    pub fn is_prefix(&self) -> bool {
        matches!(self.modifier, Modifier::Before | Modifier::Prefix)
    }

    /// Expression of the location as one of ours, without the `~`.
    pub fn expression(&self) -> Option<String> {
        match self.modifier {
            Modifier::Sensitive => Some(self.path.to_owned()),
            Modifier::Insensitive => Some(format!("(?i){}", self.path)),
            Modifier::Exact | Modifier::Before | Modifier::Prefix | Modifier::Named => None,
        }
    }

    /// Whether its expression may fit a path that begins so.
    pub fn may_begin(&self, stem: &str) -> bool {
        let fits = |own: &Vec<u8>| stem.as_bytes().starts_with(own) || own.starts_with(stem.as_bytes());
        let beginnings = self.beginnings.get_or_init(|| self.expression().and_then(|text| beginnings(&text)));
        self.is_expression() && beginnings.as_ref().is_none_or(|all| all.iter().any(fits))
    }

    /// Whether it takes everything that no other one does.
    pub fn is_all(&self) -> bool {
        self.path == "/" && self.is_prefix() && self.outer.is_none()
    }

    fn takes(&self, path: &str) -> bool {
        match self.modifier {
            Modifier::Exact => self.path == path,
            Modifier::Before | Modifier::Prefix => path.starts_with(self.path),
            Modifier::Sensitive | Modifier::Insensitive => {
                let build = || self.expression().and_then(|text| expression(&text).build().ok());
                self.built.get_or_init(build).as_ref().is_some_and(|own| own.is_match(path.as_bytes()))
            }
            Modifier::Named => false,
        }
    }
}

/// What an expression begins with, where that is one of a few texts.
type Beginnings = Option<Vec<Vec<u8>>>;

/// Which of the locations nginx takes for a path.
pub fn find(locations: &[Location<'_>], path: &str) -> Option<usize> {
    find_within(locations, None, path)
}

fn find_within(locations: &[Location<'_>], outer: Option<usize>, path: &str) -> Option<usize> {
    let own = || locations.iter().enumerate().filter(|(_, location)| location.outer == outer);
    if let Some((index, _)) = own().find(|(_, location)| location.modifier == Modifier::Exact && location.takes(path)) {
        return Some(index);
    }
    let prefixes = own().filter(|(_, location)| location.is_prefix() && location.takes(path));
    let mut found = prefixes.max_by_key(|(_, location)| location.path.len()).map(|(index, _)| index);
    let is_before = found.is_some_and(|index| locations[index].modifier == Modifier::Before);
    if let Some(inner) = found.and_then(|index| find_within(locations, Some(index), path)) {
        if !locations[inner].is_prefix() {
            return Some(inner);
        }
        found = Some(inner);
    }
    if is_before {
        return found;
    }
    let expression = own().find(|(_, location)| location.is_expression() && location.takes(path));
    match expression {
        Some((index, _)) => find_within(locations, Some(index), path).or(Some(index)),
        None => found,
    }
}

/// Which comes before which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    class: u8,
    index: usize,
}

impl Order {
    /// Of what is looked at before any location.
    pub const FIRST: Order = Order { class: 0, index: 0 };
    /// Of what is looked at behind what has its own path.
    pub const BEHIND_EXACT: Order = Order { class: 1, index: usize::MAX };
    /// Of what no location takes.
    pub const LAST: Order = Order { class: 9, index: 0 };
}

/// Where a location comes, and what has to hold beside its own path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub index: usize,
    pub order: Order,
    /// Paths that have to fit, or must not.
    pub conditions: Vec<(bool, String)>,
}

/// All locations in the order in which the first that fits is the one that nginx takes. A location has several turns
/// where what has to hold beside its path is one of several.
pub fn turns(locations: &[Location<'_>]) -> Vec<Turn> {
    let level = Level { outer: None, is_asked_further: false };
    let InTurn { first, last } = in_turn(locations, &level);
    let placed = first.into_iter().chain(last).enumerate().map(|(position, (index, conditions))| {
        let class = if locations[index].modifier == Modifier::Exact { 1 } else { 2 };
        Turn { index, order: Order { class, index: position }, conditions }
    });
    placed.filter(|turn| locations[turn.index].modifier != Modifier::Named).collect()
}

/// The locations of one block.
struct Level {
    outer: Option<usize>,
    /// Whether expressions of a block around are asked where none in here fits.
    is_asked_further: bool,
}

type Unplaced = (usize, Vec<(bool, String)>);

/// What is taken before the expressions of the block around are asked, and what behind them.
#[derive(Default)]
struct InTurn {
    first: Vec<Unplaced>,
    last: Vec<Unplaced>,
}

fn in_turn(locations: &[Location<'_>], level: &Level) -> InTurn {
    let own = || locations.iter().enumerate().filter(|(_, location)| location.outer == level.outer);
    let mut found = InTurn::default();
    let mut exact: Vec<usize> = own().filter(|(_, own)| own.modifier == Modifier::Exact).map(|(index, _)| index).collect();
    exact.sort_by_key(|index| Reverse(locations[*index].path.len()));
    found.first.extend(exact.into_iter().map(|index| (index, Vec::new())));
    let has_expressions = own().any(|(_, own)| own.is_expression());
    let mut prefixes: Vec<usize> = own().filter(|(_, own)| own.is_prefix()).map(|(index, _)| index).collect();
    prefixes.sort_by_key(|index| Reverse(locations[*index].path.len()));
    // Prefixes that keep expressions in here from being asked, and not those of blocks around.
    let mut kept_back: Vec<usize> = Vec::new();
    for index in &prefixes {
        let prefix = &locations[*index];
        let is_before = prefix.modifier == Modifier::Before;
        let is_asked_further = level.is_asked_further || has_expressions && !is_before;
        let within = in_turn(locations, &Level { outer: Some(*index), is_asked_further });
        // Longer ones come behind the expressions, and what stands in front of these must not take what they do.
        let longer: Vec<usize> = prefixes
            .iter()
            .copied()
            .filter(|other| locations[*other].modifier != Modifier::Before && is_below(locations, *other, *index))
            .collect();
        let not_longer = |(inner, mut conditions): Unplaced| {
            let own = taken_by(prefix);
            let is_said = |(is_meant, path): &(bool, String)| *is_meant && path.starts_with(own.trim_end_matches('*'));
            let is_within = !locations[inner].is_expression() && locations[inner].path.starts_with(prefix.path);
            if !is_within && prefix.path != "/" && !conditions.iter().any(is_said) {
                conditions.insert(0, (true, own));
            }
            conditions.extend(
                longer
                    .iter()
                    .filter(|other| may_meet(&locations[**other], &locations[inner]))
                    .map(|other| (false, taken_by(&locations[*other]))),
            );
            (inner, conditions)
        };
        found.first.extend(within.first.into_iter().map(not_longer));
        let itself = within.last.into_iter().chain([(*index, Vec::new())]);
        if is_before && !level.is_asked_further {
            found.first.extend(itself.map(not_longer));
        } else {
            if is_before {
                kept_back.push(*index);
            }
            found.last.extend(itself);
        }
    }
    let turns: Vec<Vec<(bool, String)>> = asked_beside(locations, &prefixes, &kept_back);
    for (index, expression) in own().filter(|(_, own)| own.is_expression()) {
        let fits = expression.expression().map(|text| (true, format!("~{}", sent(&text))));
        let InTurn { first, last } = in_turn(locations, &Level { outer: Some(index), is_asked_further: false });
        for beside in &turns {
            for (inner, mut conditions) in first.iter().chain(&last).cloned() {
                conditions.extend(fits.clone());
                conditions.extend(beside.iter().cloned());
                found.first.push((inner, conditions));
            }
            found.first.push((index, beside.clone()));
        }
    }
    found
}

/// When expressions are asked beside prefixes that keep them from it, but for the longer ones that do not.
fn asked_beside(locations: &[Location<'_>], prefixes: &[usize], kept_back: &[usize]) -> Vec<Vec<(bool, String)>> {
    let outermost = kept_back.iter().filter(|own| !kept_back.iter().any(|other| is_below(locations, **own, *other)));
    let mut turns = vec![outermost.map(|own| (false, taken_by(&locations[*own]))).collect::<Vec<_>>()];
    let is_asking = |own: &usize| {
        locations[*own].modifier != Modifier::Before && kept_back.iter().any(|around| is_below(locations, *own, *around))
    };
    for own in prefixes.iter().filter(|own| is_asking(own)) {
        let mut turn = vec![(true, taken_by(&locations[*own]))];
        turn.extend(
            kept_back
                .iter()
                .filter(|other| is_below(locations, **other, *own))
                .map(|other| (false, taken_by(&locations[*other]))),
        );
        turns.push(turn);
    }
    turns
}

/// Whether one prefix is a longer one of what the other takes.
fn is_below(locations: &[Location<'_>], own: usize, other: usize) -> bool {
    let (own, other) = (locations[own].path, locations[other].path);
    own.len() > other.len() && own.starts_with(other)
}

/// Whether a location may take a path that the prefix takes.
fn may_meet(prefix: &Location<'_>, location: &Location<'_>) -> bool {
    match location.modifier {
        Modifier::Exact => location.path.starts_with(prefix.path),
        Modifier::Before | Modifier::Prefix => location.path.starts_with(prefix.path) || prefix.path.starts_with(location.path),
        Modifier::Sensitive | Modifier::Insensitive => true,
        Modifier::Named => false,
    }
}

fn taken_by(location: &Location<'_>) -> String {
    if has_two_spellings(location.path) {
        return format!("~^{}", in_either_spelling(location.path));
    }
    let path = encoded(location.path);
    if path.ends_with('/') { crate::outline::below(&path) } else { crate::outline::beginning_with(&path) }
}

#[cfg(test)]
mod tests {
    use super::{find, of_server, turns};
    use crate::braces::of_nginx;

    #[test]
    fn the_location_of_a_path_is_that_of_nginx() {
        let statements = of_nginx(
            "location / { } location /a/ { location ~ \\.x$ { } } location ^~ /a/b/ { } location ~ \\.(x|y)$ { } \
             location = /a/z.x { } location /a/c/ { } location ^~ /w { location /w/in { } }",
        );
        let locations = of_server(&statements);
        let check = |path: &str, expected: &str| {
            let found = find(&locations, path).map(|index| locations[index].path);
            assert_eq!(found, Some(expected), "for {path}");
        };
        check("/q", "/");
        check("/q.x", "\\.(x|y)$");
        check("/a/1", "/a/");
        check("/a/1.x", "\\.x$");
        check("/a/1.y", "\\.(x|y)$");
        check("/a/b/1.x", "/a/b/");
        check("/a/z.x", "/a/z.x");
        check("/a/c/1.x", "\\.(x|y)$");
        check("/w/in/1.x", "/w/in");
        check("/w/1.x", "/w");
    }

    #[test]
    fn the_order_takes_the_same_one_first() {
        let statements = of_nginx(
            "location / { } location /a/ { location ~ q { } } location ^~ /s/ { } location ~ one { } location ~ two { } location = /e { }",
        );
        let locations = of_server(&statements);
        let mut all = turns(&locations);
        all.sort_by_key(|turn| turn.order);
        let paths: Vec<&str> = all.into_iter().map(|turn| locations[turn.index].path).collect();
        assert_eq!(paths, ["/e", "q", "/s/", "one", "two", "/a/", "/"]);
    }

    /// Whether the first turn that fits is that of the location that nginx takes, for all these paths.
    fn agrees(text: &str, paths: &[&str]) {
        let statements = of_nginx(text);
        let locations = of_server(&statements);
        let mut all = turns(&locations);
        all.sort_by_key(|turn| turn.order);
        let fits = |pattern: &str, path: &str| match pattern.strip_prefix('~') {
            Some(text) => tidegate_model::expression(text).build().is_ok_and(|own| own.is_match(path.as_bytes())),
            None => path.starts_with(pattern.trim_end_matches('*')),
        };
        for path in paths {
            let ours = all.iter().find(|turn| {
                let is_own = locations[turn.index].takes(path);
                is_own && turn.conditions.iter().all(|(is_meant, pattern)| *is_meant == fits(pattern, path))
            });
            let ours = ours.map(|turn| locations[turn.index].path);
            let theirs = find(&locations, path).map(|index| locations[index].path);
            assert_eq!(ours, theirs, "for {path} of {text}");
        }
    }

    #[test]
    fn what_keeps_expressions_back_does_so_in_its_own_block() {
        let paths = [
            "/priv/a.png",
            "/priv/a",
            "/f/a.png",
            "/f/d/a.png",
            "/f/d/p/a.png",
            "/x.png",
            "/a/b/x.png",
            "/a/x.txt",
            "/a/b/",
            "/f/d/",
        ];
        agrees("location / { location ^~ /priv/ { } location ^~ /f/ { } location /f/d/ { } location ~ png$ { } }", &paths);
        // Expressions of the server are asked for what is kept back in a block only.
        agrees("location / { location ^~ /priv/ { } location ~ png$ { } } location ~ a { }", &paths);
        agrees(
            "location / { location ^~ /f/ { } location /f/d/ { } location ^~ /f/d/p/ { } location ~ png$ { } } location ~ b { }",
            &paths,
        );
        agrees("location ^~ /f/ { location ~ png$ { } } location /f/d/ { location ~ png { } } location ~ x { }", &paths);
        agrees("location /a/ { location ^~ /a/b/ { } location ~ x { location ~ png { } } } location ~ txt$ { }", &paths);
        agrees("location / { location ~ png { } } location /f/d/ { location ^~ /f/d/p/ { } } location ^~ /f/ { }", &paths);
    }
}
