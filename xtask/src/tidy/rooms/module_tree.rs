//! The modules of one crate and which of them uses which, from what its files say (`imports`). A module is a file; what
//! stands inline in it belongs to it. A name that is passed on (`pub use`) leads to the module that defines it, so a
//! re-export neither hides nor makes a circle. A method that calls another of its type in another file uses that file.

use super::circles::ModuleGraph;
use super::imports::{FileFacts, Method, Path, Scope};
use std::collections::BTreeMap;

/// A chain of re-exports longer than this is a circle of names, which the compiler refuses.
const RE_EXPORTS_MAX: usize = 16;

pub struct ModuleTree<'a> {
    pub modules: Vec<Module<'a>>,
    pub graph: ModuleGraph,
}

pub struct Module<'a> {
    /// As it is written behind `crate::`; empty for the root.
    pub name: String,
    pub facts: &'a FileFacts,
}

impl<'a> ModuleTree<'a> {
    /// From the file that is the crate's root; `None` when there is no such file.
    pub fn of(root: &str, files: &BTreeMap<&'a str, &'a FileFacts>) -> Option<ModuleTree<'a>> {
        let mut names = Names { places: BTreeMap::new() };
        let mut tree = ModuleTree { modules: Vec::new(), graph: ModuleGraph::default() };
        tree.add(files.get(root).copied()?, Path::new(), 0, files, &mut names);
        let mut uses = std::collections::BTreeSet::new();
        for (path, place) in &names.places {
            for used in &place.scope.uses {
                uses.extend(names.resolve(path, used, RE_EXPORTS_MAX).map(|target| (place.module, target)));
            }
        }
        uses.extend(names.self_calls());
        uses.retain(|(user, used)| user != used);
        tree.graph.uses = uses;
        Some(tree)
    }

    fn add(
        &mut self,
        facts: &'a FileFacts,
        path: Path,
        parent: usize,
        files: &BTreeMap<&'a str, &'a FileFacts>,
        names: &mut Names<'a>,
    ) {
        let module = self.modules.len();
        self.modules.push(Module { name: path.join("::"), facts });
        self.graph.parents.push(parent);
        for (inline, scope) in &facts.scopes {
            let scope_path = [path.clone(), inline.clone()].concat();
            names.places.insert(scope_path.clone(), Place { module, scope });
            for (name, named_file) in &scope.declared {
                let candidates = candidates(&facts.path, path.is_empty(), inline, name, named_file.as_deref());
                let found = candidates.iter().find_map(|candidate| files.get(candidate.as_str()));
                if let Some(child) = found {
                    self.add(child, [scope_path.clone(), vec![name.clone()]].concat(), module, files, names);
                }
            }
        }
    }
}

/// Where the compiler looks for the file of a module.
fn candidates(file: &str, is_root: bool, inline: &[String], name: &str, named_file: Option<&str>) -> Vec<String> {
    let (folder, file_name) = file.rsplit_once('/').unwrap_or(("", file));
    if let Some(named_file) = named_file {
        return vec![format!("{folder}/{named_file}")];
    }
    let mut parts = vec![folder];
    if !is_root && file_name != "mod.rs" {
        parts.push(file_name.trim_end_matches(".rs"));
    }
    parts.extend(inline.iter().map(String::as_str));
    let base = parts.join("/");
    vec![format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")]
}

/// Every module of the crate by its path, inline ones included.
struct Names<'a> {
    places: BTreeMap<Path, Place<'a>>,
}

struct Place<'a> {
    /// The module whose file it stands in.
    module: usize,
    scope: &'a Scope,
}

impl Names<'_> {
    /// The module that a path leads to, or that defines what the path names. `None` for what comes from another crate
    /// or is local.
    fn resolve(&self, from: &Path, used: &[String], re_exports_left: usize) -> Option<usize> {
        let (first, rest) = used.split_first()?;
        let mut here = from.clone();
        let rest = match first.as_str() {
            "crate" => {
                here.clear();
                rest
            }
            "self" => rest,
            "super" => {
                let up = used.iter().take_while(|segment| *segment == "super").count();
                here.truncate(here.len().checked_sub(up)?);
                &used[up..]
            }
            // A lone word is a variable, or an item of this module, or the name of an import.
            _ if rest.is_empty() => return self.imported(from, first, rest, re_exports_left),
            _ if self.is_module(from, first) => used,
            _ => return self.imported(from, first, rest, re_exports_left),
        };
        for (position, segment) in rest.iter().enumerate() {
            if self.is_module(&here, segment) {
                here.push(segment.clone());
            } else if self.places.get(&here)?.scope.imports.contains_key(segment) {
                return self.imported(&here, segment, &rest[position + 1..], re_exports_left);
            } else {
                break;
            }
        }
        Some(self.places.get(&here)?.module)
    }

    fn imported(&self, at: &Path, name: &str, rest: &[String], re_exports_left: usize) -> Option<usize> {
        let mut path = self.places.get(at)?.scope.imports.get(name)?.clone();
        // `use a::b as a` would look itself up for ever.
        let is_itself = path.first().is_some_and(|first| first == name);
        if is_itself && !self.is_module(at, name) {
            return None;
        }
        path.extend(rest.iter().cloned());
        self.resolve(at, &path, re_exports_left.checked_sub(1)?)
    }

    /// Which module's methods call methods of the same type that stand in another module.
    fn self_calls(&self) -> Vec<(usize, usize)> {
        let methods = self.places.values().flat_map(|place| place.scope.methods.iter().map(|method| (method, place.module)));
        let defined: BTreeMap<&Method, usize> = methods.collect();
        let calls = self.places.values().flat_map(|place| place.scope.self_calls.iter().map(|called| (place.module, called)));
        calls.filter_map(|(caller, called)| Some((caller, *defined.get(called)?))).collect()
    }

    fn is_module(&self, parent: &Path, name: &str) -> bool {
        let mut path = parent.clone();
        path.push(name.to_owned());
        self.places.contains_key(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::imports::FileFacts;
    use super::ModuleTree;
    use crate::tidy::source::Source;
    use std::collections::BTreeMap;

    /// `files` are paths below `src` with their text; `expected` says which module uses which, the root being `crate`.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let facts: Vec<FileFacts> =
            files.iter().map(|(path, text)| FileFacts::of(&Source::parse(path, text).expect("valid Rust"))).collect();
        let by_path: BTreeMap<&str, &FileFacts> = facts.iter().map(|facts| (facts.path.as_str(), facts)).collect();
        let tree = ModuleTree::of(files[0].0, &by_path).expect("the first file is the root");
        let name = |module: usize| if module == 0 { "crate" } else { &tree.modules[module].name };
        let seen: Vec<String> = tree.graph.uses.iter().map(|(user, used)| format!("{} > {}", name(*user), name(*used))).collect();
        assert_eq!(seen, expected, "for {files:?}");
    }

    const ROOT: (&str, &str) = ("src/lib.rs", "mod a; mod b;");

    #[test]
    fn imports_and_paths_are_uses() {
        let b = ("src/b.rs", "pub struct B; pub fn f() {}");
        for text in [
            "use crate::b::B;",
            "use super::b::{self, B as C};",
            "use crate::{b::*};",
            "fn g() { crate::b::f() }",
            "fn g() -> Vec<super::b::B> { vec![] }",
            "fn g() { use crate::b; b::f() }",
            "fn g() { println!(\"{:?}\", crate::b::f()) }",
            "mod inner { fn g() { super::super::b::f() } }",
        ] {
            check(&[ROOT, ("src/a.rs", text), b], &["a > b"]);
        }
        for text in
            ["use std::b::B;", "fn g() { let b = 1; let _ = b; }", "fn b() {} fn g() { b() }", "use other::b; fn g() { b::f() }"]
        {
            check(&[ROOT, ("src/a.rs", text), b], &[]);
        }
    }

    #[test]
    fn tests_use_what_they_like() {
        let b = ("src/b.rs", "pub fn f() {}");
        check(&[ROOT, ("src/a.rs", "#[cfg(test)] mod tests { use crate::b; }"), b], &[]);
        check(&[ROOT, ("src/a.rs", "#[cfg(test)] use crate::b;"), b], &[]);
        check(&[ROOT, ("src/a.rs", "#[cfg(test)] mod tests;"), b, ("src/a/tests.rs", "use crate::b;")], &[]);
    }

    #[test]
    fn a_name_leads_to_the_module_that_defines_it() {
        let b = ("src/b/mod.rs", "mod deep; pub use deep::Deep; pub struct Flat;");
        let deep = ("src/b/deep.rs", "pub struct Deep;");
        check(&[ROOT, ("src/a.rs", "use crate::b::Deep;"), b, deep], &["a > b::deep"]);
        check(&[ROOT, ("src/a.rs", "use crate::b::Flat;"), b, deep], &["a > b"]);
        check(&[ROOT, ("src/a.rs", "use crate::b; fn f() -> b::Deep { b::Deep }"), b, deep], &["a > b", "a > b::deep"]);
        let root = ("src/lib.rs", "mod a; mod b; pub use b::Deep;");
        check(&[root, ("src/a.rs", "use crate::Deep;"), b, deep], &["a > b::deep"]);
        let root = ("src/lib.rs", "mod a; mod b; pub use other::Deep;");
        check(&[root, ("src/a.rs", "use crate::Deep;"), b, deep], &[]);
    }

    #[test]
    fn methods_that_call_each_other_over_files_are_uses() {
        let root = ("src/lib.rs", "mod a; mod b; mod c; pub struct S;");
        let b = ("src/b.rs", "impl super::S { fn g(&self) {} }");
        let calls = ("src/a.rs", "use crate::S; impl S { fn f(&self) { (|| self.g())() } fn own(&self) { self.f() } }");
        check(
            &[root, calls, b, ("src/c.rs", "struct T; impl T { fn f(&self) { self.g() } }")],
            &["a > crate", "a > b", "b > crate"],
        );
        // A trait's method of the same name is another.
        check(&[root, ("src/a.rs", "impl Tr for S { fn f(&self) { self.g() } }"), b, ("src/c.rs", "")], &["b > crate"]);
    }

    #[test]
    fn parents_use_children_by_name() {
        let root = ("src/lib.rs", "mod a; fn f() { a::g() }");
        check(
            &[root, ("src/a.rs", "#[path = \"other.rs\"] mod x; fn g() { x::h() }"), ("src/other.rs", "use super::g;")],
            &["crate > a", "a > a::x", "a::x > a"],
        );
    }
}
