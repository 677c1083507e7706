//! The order in which Caddy asks directives of a block: by their names, and those of one name by the paths of their
//! matchers. What Caddy compares by is no order of everything (one without a path is like each with one), so that
//! which comes first depends on how it sorts. Here it is done alike, comparison by comparison. What directives do is in
//! `directives`.

use crate::braces::{Statement, named};

/// The order of Caddy without an `order`.
const ORDER: [&str; 39] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "rate_limit",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
    "acme_server",
];

/// The parts that are brought into order one by one, and then merged, as by the library of Go.
const BLOCK: usize = 20;

/// What a directive is under, as far as its place depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectiveMatcher {
    None,
    /// Among others it may ask for one path, and for no second.
    Path(String),
    Other,
}

impl DirectiveMatcher {
    /// What a named matcher with these lines is.
    pub fn of(criteria: &[Statement]) -> DirectiveMatcher {
        let mut paths = named(criteria, "path").flat_map(Statement::arguments);
        match (paths.next(), paths.next()) {
            (Some(path), None) if !path.is_empty() => DirectiveMatcher::Path(path.clone()),
            (Some(_) | None, Some(_) | None) => DirectiveMatcher::Other,
        }
    }
}

/// A directive with what it is sorted by.
#[derive(Debug, Clone)]
pub struct OrderedDirective {
    rank: usize,
    matcher: DirectiveMatcher,
    is_reversed: bool,
    /// Whether it is one route, which alone are compared by their matchers.
    is_route: bool,
    /// As how many it is sorted.
    count: usize,
}

impl OrderedDirective {
    pub fn of(statement: &Statement, matcher: DirectiveMatcher, order: &[String]) -> OrderedDirective {
        let name = match statement.name() {
            "handle_path" => "handle",
            name => name,
        };
        // Where a module stands is not known, and it may keep clients out of all else.
        let rank = order.iter().position(|known| known == name).unwrap_or(0);
        let count = match name {
            "bind" | "tls" | "log" | "handle_errors" | "import" => 0,
            "try_files" => tried_routes(statement.arguments()),
            _ => 1,
        };
        OrderedDirective {
            rank,
            is_reversed: name == "vars",
            is_route: name != "php_fastcgi" || matcher != DirectiveMatcher::None,
            matcher,
            count,
        }
    }

    /// Whether it has to stand in front of the other, as Caddy says it.
    fn is_before(&self, other: &OrderedDirective) -> bool {
        if self.rank != other.rank {
            return self.rank < other.rank;
        }
        if !self.is_route || !other.is_route {
            return false;
        }
        self.is_more_special(other) != self.is_reversed
    }

    fn is_more_special(&self, other: &OrderedDirective) -> bool {
        match (&self.matcher, &other.matcher) {
            (DirectiveMatcher::Path(one), DirectiveMatcher::Path(two)) => {
                let stem = one.strip_suffix('*').unwrap_or(one);
                let other_stem = two.strip_suffix('*').unwrap_or(two);
                if stem == other_stem {
                    one.len() < two.len()
                } else if stem.len() == other_stem.len() {
                    stem < other_stem
                } else {
                    stem.len() > other_stem.len()
                }
            }
            (DirectiveMatcher::Path(_) | DirectiveMatcher::Other, DirectiveMatcher::None) => true,
            (DirectiveMatcher::None, _) | (_, DirectiveMatcher::Path(_) | DirectiveMatcher::Other) => false,
        }
    }
}

/// Each of the tried files with a query is a route of its own, and so are those between two of them.
fn tried_routes(tries: &[String]) -> usize {
    let of_query = |tried: &String| tried.contains('?');
    tries.chunk_by(|one, two| !of_query(one) && !of_query(two)).count()
}

/// The order of directives with those of `order` lines.
pub fn order_of(options: &[Statement]) -> Vec<String> {
    let mut order: Vec<String> = ORDER.iter().map(|name| (*name).to_owned()).collect();
    for line in named(options, "order") {
        let [name, place, rest @ ..] = line.arguments() else { continue };
        order.retain(|known| known != name);
        let position = rest.first().and_then(|other| order.iter().position(|known| known == other));
        match (place.as_str(), position) {
            ("first", _) => order.insert(0, name.clone()),
            ("before", Some(position)) => order.insert(position, name.clone()),
            ("after", Some(position)) => order.insert(position + 1, name.clone()),
            _ => order.push(name.clone()),
        }
    }
    order
}

/// Directives of a block in the order of Caddy.
pub fn sorted<T>(all: Vec<(OrderedDirective, T)>) -> Vec<(OrderedDirective, T)> {
    let indices = (0..all.len()).flat_map(|index| std::iter::repeat_n(index, all[index].0.count));
    let mut sorting =
        Sorting { places: indices.collect(), is_before: |one: usize, two: usize| all[one].0.is_before(&all[two].0) };
    sorting.all();
    let places = sorting.places;
    // What is no route has no place, and says nothing.
    let mut slots: Vec<Option<(OrderedDirective, T)>> = all.into_iter().map(Some).collect();
    let mut done: Vec<(OrderedDirective, T)> = places.into_iter().filter_map(|index| slots[index].take()).collect();
    done.extend(slots.into_iter().flatten());
    done
}

/// The stable sort of Go's library (`sort.SliceStable`): blocks by insertion, and merges of two blocks in place. The
/// names are those of its `zsortfunc.go`.
struct Sorting<F> {
    places: Vec<usize>,
    is_before: F,
}

impl<F: Fn(usize, usize) -> bool> Sorting<F> {
    fn all(&mut self) {
        let n = self.places.len();
        for a in (0..n).step_by(BLOCK) {
            self.insertion(a, n.min(a + BLOCK));
        }
        let mut size = BLOCK;
        while size < n {
            for a in (0..n).step_by(2 * size) {
                if a + size < n {
                    self.merge(a, a + size, n.min(a + 2 * size));
                }
            }
            size *= 2;
        }
    }

    fn less(&self, i: usize, j: usize) -> bool {
        (self.is_before)(self.places[i], self.places[j])
    }

    fn insertion(&mut self, a: usize, b: usize) {
        for i in a + 1..b {
            let mut j = i;
            while j > a && self.less(j, j - 1) {
                self.places.swap(j, j - 1);
                j -= 1;
            }
        }
    }

    /// Where the condition no longer holds, by halves.
    fn first(mut i: usize, mut j: usize, holds: impl Fn(usize) -> bool) -> usize {
        while i < j {
            let half = usize::midpoint(i, j);
            if holds(half) { i = half + 1 } else { j = half }
        }
        i
    }

    fn merge(&mut self, a: usize, m: usize, b: usize) {
        if m - a == 1 {
            let i = Self::first(m, b, |half| self.less(half, a));
            return self.places[a..i].rotate_left(1);
        }
        if b - m == 1 {
            let i = Self::first(a, m, |half| !self.less(m, half));
            return self.places[i..=m].rotate_right(1);
        }
        let mid = usize::midpoint(a, b);
        let n = mid + m;
        let (start, r) = if m > mid { (n - b, mid) } else { (a, m) };
        let p = n - 1;
        let start = Self::first(start, r, |c| !self.less(p - c, c));
        let end = n - start;
        if start < m && m < end {
            self.places[start..end].rotate_left(m - start);
        }
        if a < start && start < mid {
            self.merge(a, start, mid);
        }
        if mid < end && end < b {
            self.merge(mid, end, b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DirectiveMatcher, OrderedDirective, sorted};

    fn directive(matcher: &str) -> OrderedDirective {
        let matcher = match matcher {
            "-" => DirectiveMatcher::None,
            "@" => DirectiveMatcher::Other,
            path => DirectiveMatcher::Path(path.to_owned()),
        };
        OrderedDirective { rank: 0, matcher, is_reversed: false, is_route: true, count: 1 }
    }

    /// Of many directives of one name, a matcher each: those that come first, as `caddy adapt` of 2.11 has them.
    #[test]
    fn many_directives_stand_in_the_order_of_caddy() {
        let check = |matchers: &str, order: &str| {
            let all = matchers.split(' ').map(directive).zip(0..).collect();
            let found: Vec<String> = sorted(all).iter().map(|(_, index): &(_, u32)| index.to_string()).collect();
            assert_eq!(found.join(" "), order, "{matchers}");
        };
        check(
            "@ /a* @ /c/d3 /a4 @ /c/d6* /a7 @ /a* @ @ /c/d/* /a13* @ - /b* @ @ /long/path - /a/* /long/path /c/d23*",
            "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 16 17 18 19 22 23 21 15 20",
        );
        check(
            "/a @ /long/path* /a3* /c/d4 /long/path5* /long/path /long/path7 /c/d8 /b9* @ @ @ @ /long/path14* /b15 /long/path16* - /c/d/* /c/d19 /b20 @ /long/path22 /c/d* /c/d24 /long/path/* /long/path26 @ /c/d* /c/d29*",
            "0 1 5 7 6 2 4 8 3 9 10 11 12 13 14 16 19 20 21 22 26 25 24 18 15 23 27 29 28 17",
        );
        check(
            "@ /long/path1* /a2* @ /long/path4* @ /c/d6* /c/d7 /b/* /c/d /a/* /a* /long/path12 /c/d13 - /c/d/* /a @ @ /c/d* - /long/path21* /b* /a* /b* /a/* /long/path* @ /c/d @ @ /a* - - @ /a35 /long/path36* /long/path37* @ @ @",
            "0 21 1 2 3 4 5 12 26 13 15 6 7 9 10 8 16 11 17 18 19 25 23 22 24 27 28 29 30 31 34 36 37 35 38 39 40 14 20 32 33",
        );
    }
}
