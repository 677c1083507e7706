//! Circles of a module graph: sets of modules of which each uses each other one, directly or by way of others. Pure;
//! knows no source text. A parent and what is beneath it may know each other: uses between the two do not count,
//! neither up nor down. What is left are uses between siblings and across subtrees.

use std::collections::BTreeSet;

/// Modules by number, the root first and each parent before its children.
#[derive(Debug, Default)]
pub struct ModuleGraph {
    /// The parent of each module; the root is its own.
    pub parents: Vec<usize>,
    /// Which module uses which.
    pub uses: BTreeSet<(usize, usize)>,
}

type Modules = BTreeSet<usize>;

impl ModuleGraph {
    /// The circles, each with its modules, in order of their first module. No module is in two of them.
    pub fn circles(&self) -> Vec<Modules> {
        let modules = 0..self.parents.len();
        let reached: Vec<Modules> = modules.clone().map(|module| self.reached_from(module)).collect();
        let mut circles: Vec<Modules> = Vec::new();
        for module in modules {
            if circles.iter().any(|circle| circle.contains(&module)) {
                continue;
            }
            let circle: Modules = reached[module].iter().copied().filter(|other| reached[*other].contains(&module)).collect();
            if circle.len() > 1 {
                circles.push(circle);
            }
        }
        circles
    }

    fn reached_from(&self, start: usize) -> Modules {
        let mut reached = Modules::new();
        let mut open = vec![start];
        while let Some(module) = open.pop() {
            for (_, used) in self.uses.range((module, 0)..=(module, usize::MAX)) {
                if !self.is_family(module, *used) && reached.insert(*used) {
                    open.push(*used);
                }
            }
        }
        reached
    }

    /// Whether one of the two is beneath the other.
    fn is_family(&self, one: usize, other: usize) -> bool {
        self.is_beneath(one, other) || self.is_beneath(other, one)
    }

    fn is_beneath(&self, ancestor: usize, module: usize) -> bool {
        // A parent has a smaller number than its children.
        let mut module = module;
        while module > ancestor {
            module = self.parents[module];
        }
        module == ancestor
    }
}

#[cfg(test)]
mod tests {
    use super::ModuleGraph;

    /// `input` has one module a line with what it uses: `pool::server: pool request`. `expected` has one circle a line.
    fn check(input: &str, expected: &[&str]) {
        let lines: Vec<(&str, &str)> =
            input.lines().filter_map(|line| line.trim().split_once(':').map(|_| split(line))).collect();
        let mut names = vec![""];
        names.extend(lines.iter().map(|(name, _)| *name));
        let number = |name: &str| names.iter().position(|known| *known == name).expect("a test names only modules it has");
        let parent = |name: &&str| name.rsplit_once("::").map_or(0, |(parent, _)| number(parent));
        let mut graph = ModuleGraph { parents: names.iter().map(parent).collect(), ..ModuleGraph::default() };
        for (name, uses) in &lines {
            graph.uses.extend(uses.split_whitespace().map(|used| (number(name), number(used))));
        }
        let circles = graph.circles();
        let seen: Vec<String> =
            circles.iter().map(|circle| circle.iter().map(|module| names[*module]).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(seen, expected, "for\n{input}");
    }

    /// The name, and what stands behind the `: ` after it.
    fn split(line: &str) -> (&str, &str) {
        let line = line.trim();
        line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""))
    }

    #[test]
    fn siblings_that_use_each_other_are_a_circle() {
        check("a: b\nb: c\nc:", &[]);
        check("a: b\nb: a\nc: a", &["a b"]);
        check("a: b\nb: c\nc: a\nd: e\ne: d", &["a b c", "d e"]);
        check("a: b c\nb: a\nc: a", &["a b c"]);
        check("a: a", &[]);
    }

    #[test]
    fn parents_and_children_may_know_each_other() {
        check("a: a::x\na::x: a", &[]);
        check("a: a::x\na::x: a a::x::deep\na::x::deep: a", &[]);
        // One child uses another, and both know their parent: no way back but over the parent.
        check("a: a::x a::y\na::x: a a::y\na::y: a", &[]);
        // What hangs on a circle by its parent alone is not in it.
        check("a: b a::x\na::x: a\nb: a", &["a b"]);
        check("a: b a::x\na::x: a b\nb: a", &["a b"]);
    }

    #[test]
    fn children_that_use_each_other_are_a_circle() {
        check("a: a::x a::y\na::x: a::y\na::y: a::x", &["a::x a::y"]);
        check("a: a::x\na::x: a::x::p\na::x::p: a::x::q a\na::x::q: a::x::p", &["a::x::p a::x::q"]);
    }

    #[test]
    fn uses_across_subtrees_count_wherever_they_stand() {
        check("a:\na::x: b::y\nb:\nb::y: a::x", &["a::x b::y"]);
        check("a: b::y\na::x: a\nb: a::x\nb::y: a", &["a b::y"]);
        check("a:\na::x: b\nb: a::x::deep\na::x::deep: b c\nc: b", &["b a::x::deep c"]);
        // The way from `a` to its child does not count, whoever uses `a`.
        check("a: a::x\na::x: b\nb: a", &[]);
    }
}
