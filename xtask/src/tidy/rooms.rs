//! The rule of rooms: how much of a crate may hang together in one circle of modules. Between crates the compiler
//! refuses circles; within one it does not, and what is in a circle can only be understood, moved and tested as a
//! whole. A module is a file with its lines; tests do not count. What a circle is stands in `circles`, how uses are
//! found in `module_tree`.

mod circles;
mod imports;
mod module_tree;

use super::allow::{AllowList, ROOM};
use crate::finding::Finding;
pub use imports::FileFacts;
use module_tree::ModuleTree;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// No circle holds more lines than this part of its crate…
const SHARE_MAX_PERCENT: usize = 10;
/// …or this many, whichever is more: a small crate may be one room.
const LINES_MAX: usize = 800;
/// A bound in the allow list lies at most so far above the circle that it is for. So it follows a circle that shrinks,
/// and an edit in a module of the circle needs no change of the list.
const BOUND_SLACK: usize = 500;

/// Every crate with modules of its own, in order of its folder.
pub fn crates(files: &[FileFacts]) -> Vec<CrateRooms> {
    let by_path: BTreeMap<&str, &FileFacts> = files.iter().map(|facts| (facts.path.as_str(), facts)).collect();
    let roots = files.iter().filter_map(|facts| {
        let folder = facts.path.strip_suffix("/src/lib.rs").or_else(|| facts.path.strip_suffix("/src/main.rs"))?;
        Some(CrateRooms::of(folder, &ModuleTree::of(&facts.path, &by_path)?))
    });
    roots.collect()
}

/// What the rule knows of one crate.
#[derive(Debug)]
pub struct CrateRooms {
    /// `crates/proxy`, as the allow list writes it.
    folder: String,
    modules: usize,
    lines: usize,
    /// The largest first.
    circles: Vec<Circle>,
}

#[derive(Debug)]
struct Circle {
    lines: usize,
    /// Each with the others of the circle that it uses.
    modules: BTreeMap<String, BTreeSet<String>>,
}

impl CrateRooms {
    fn of(folder: &str, tree: &ModuleTree) -> CrateRooms {
        let name = |module: usize| tree.modules[module].name.clone();
        let mut circles: Vec<Circle> = Vec::new();
        for modules in tree.graph.circles() {
            let is_within = |module: usize, (user, used): &(usize, usize)| *user == module && modules.contains(used);
            let uses = |module: usize| {
                let within = tree.graph.uses.iter().filter(|edge| is_within(module, edge));
                within.map(|(_, used)| name(*used)).collect()
            };
            circles.push(Circle {
                lines: modules.iter().map(|module| tree.modules[*module].facts.lines).sum(),
                modules: modules.iter().map(|module| (name(*module), uses(*module))).collect(),
            });
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.lines));
        let lines = tree.modules.iter().map(|module| module.facts.lines).sum();
        CrateRooms { folder: folder.into(), modules: tree.modules.len(), lines, circles }
    }

    fn bound(&self) -> usize {
        (self.lines * SHARE_MAX_PERCENT / 100).max(LINES_MAX)
    }

    /// The figures in a line, and a line for each circle.
    pub fn summary(&self) -> String {
        let mut text = format!("{}: {} modules, {} lines\n", self.folder, self.modules, self.lines);
        for circle in &self.circles {
            let share = 100 * circle.lines / self.lines.max(1);
            let (count, lines) = (circle.modules.len(), circle.lines);
            let names: Vec<&str> = circle.modules.keys().map(String::as_str).collect();
            let _ = writeln!(text, "  a circle of {count} modules, {lines} lines, {share} %: {}", names.join(", "));
        }
        text
    }

    /// The summary, and what within each circle uses what: the uses that would have to go.
    pub fn detailed(&self) -> String {
        let mut text = self.summary();
        for circle in &self.circles {
            text.push('\n');
            for (module, uses) in &circle.modules {
                let uses: Vec<&str> = uses.iter().map(String::as_str).collect();
                let _ = writeln!(text, "  {module} uses {}", uses.join(", "));
            }
        }
        text
    }

    pub fn is_named(&self, name: &str) -> bool {
        self.folder == name || self.folder.strip_prefix("crates/") == Some(name)
    }
}

pub fn check(crates: &[CrateRooms], allow: &AllowList) -> Vec<Finding> {
    crates.iter().filter_map(|rooms| check_crate(rooms, allow)).collect()
}

/// The largest circle against its bound: the crate's own, or the figure in the allow list, which must follow it down.
fn check_crate(rooms: &CrateRooms, allow: &AllowList) -> Option<Finding> {
    let largest = rooms.circles.first()?;
    let (lines, bound) = (largest.lines, rooms.bound());
    let place = format!("{}/src", rooms.folder);
    if lines <= bound {
        return None;
    }
    let Some(allowed) = allow.figure(ROOM, &rooms.folder) else {
        let count = largest.modules.len();
        let message = format!(
            "a circle of {count} modules holds {lines} lines, {bound} are the stop: {}",
            largest.modules.keys().cloned().collect::<Vec<_>>().join(", ")
        );
        return Some(Finding::whole(&place, ROOM, message));
    };
    if lines > allowed {
        return Some(Finding::whole(&place, ROOM, format!("a circle grew to {lines} lines; {allowed} are allowed")));
    }
    (allowed - lines > BOUND_SLACK)
        .then(|| Finding::whole(&place, ROOM, format!("its circle has {lines} lines left; lower the {allowed} that are allowed")))
}

#[cfg(test)]
mod tests {
    use super::{FileFacts, check, crates};
    use crate::tidy::allow::AllowList;
    use crate::tidy::source::Source;

    /// Modules with a number of lines and what they use: `pool 900 request`. They stand beneath a root of three lines
    /// or more.
    fn check_rooms(modules: &str, allowed: &str, expected: &[&str]) {
        let lines: Vec<Vec<&str>> = modules.lines().map(|line| line.split_whitespace().collect()).collect();
        let root: Vec<String> = lines.iter().map(|words| format!("mod {};", words[0])).collect();
        let mut files = vec![("crates/a/src/lib.rs".to_owned(), root.join("\n"))];
        for words in &lines {
            let uses: Vec<String> = words[2..].iter().map(|used| format!("use crate::{used};")).collect();
            let count = words[1].parse::<usize>().expect("a number of lines") - uses.len().max(1);
            files.push((format!("crates/a/src/{}.rs", words[0]), format!("{}\n{}", uses.join("\n"), "//\n".repeat(count))));
        }
        let facts: Vec<FileFacts> =
            files.iter().map(|(path, text)| FileFacts::of(&Source::parse(path, text).expect("valid Rust"))).collect();
        let (allow, mut findings) = AllowList::parse("allow.txt", allowed);
        findings.extend(check(&crates(&facts), &allow));
        findings.extend(allow.unused());
        let seen: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(seen, expected, "for {modules}");
    }

    #[test]
    fn a_circle_has_a_bound() {
        check_rooms("a 400 b\nb 400 a", "", &[]);
        check_rooms("a 900 b\nb 900", "", &[]);
        let too_large = ["crates/a/src: room: a circle of 2 modules holds 801 lines, 800 are the stop: a, b"];
        check_rooms("a 400 b\nb 401 a", "", &too_large);
        // Ten percent of a large crate are more.
        check_rooms("a 400 b\nb 401 a\nc 7300", "", &[]);
    }

    #[test]
    fn an_exception_follows_its_circle_down() {
        let circle = "a 1000 b\nb 1000 a";
        check_rooms(circle, "room crates/a 2000 they are rebuilt next week", &[]);
        check_rooms(circle, "room crates/a 2500 they are rebuilt next week", &[]);
        let grown = ["crates/a/src: room: a circle grew to 2000 lines; 1999 are allowed"];
        check_rooms(circle, "room crates/a 1999 they are rebuilt next week", &grown);
        let stale = ["crates/a/src: room: its circle has 2000 lines left; lower the 2501 that are allowed"];
        check_rooms(circle, "room crates/a 2501 they are rebuilt next week", &stale);
        let unused = ["allow.txt:1: allow-list: `room crates/a` is not needed"];
        check_rooms("a 400 b\nb 400 a", "room crates/a 900 they are rebuilt next week", &unused);
    }

    #[test]
    fn the_report_names_circles_and_what_closes_them() {
        let text = |path: &str, text: &str| FileFacts::of(&Source::parse(path, text).expect("valid Rust"));
        let facts = [
            text("crates/a/src/lib.rs", "mod x;\nmod y;\nmod z;\n"),
            text("crates/a/src/x.rs", "use crate::y;\n"),
            text("crates/a/src/y.rs", "use crate::x;\nuse crate::z;\n"),
            text("crates/a/src/z.rs", "//! Alone.\n"),
        ];
        let crates = crates(&facts);
        assert_eq!(crates[0].summary(), "crates/a: 4 modules, 7 lines\n  a circle of 2 modules, 3 lines, 42 %: x, y\n");
        assert!(crates[0].detailed().ends_with("\n\n  x uses y\n  y uses x\n"), "{}", crates[0].detailed());
        assert!(crates[0].is_named("a") && crates[0].is_named("crates/a") && !crates[0].is_named("b"));
    }
}
