//! As much of TOML as Traefik's files are written in: tables, tables in lists, and values.

use super::tree::{self, Tree};

/// A list that goes over more lines is none.
const VALUE_LINES_MAX: usize = 400;

pub fn read(text: &str) -> Tree {
    let start_of = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    let mut tree = Tree::of_entries(Vec::new());
    let mut table: Vec<String> = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("[[").and_then(|rest| rest.split_once("]]")).map(|(name, _)| name) {
            table = names(name);
            tree.place(&table).push(Tree::default());
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(name, _)| name) {
            table = names(name);
            let place = tree.place(&table);
            if place.is_nothing() {
                *place = Tree::default().standing_at(start_of(line));
            }
        } else if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let value = value.trim();
            let (start, mut end) = (start_of(value), start_of(value) + value.len());
            let mut value = value.to_owned();
            let mut count = 0;
            while !tree::is_closed(&value) && count < VALUE_LINES_MAX {
                let Some(more) = lines.next() else { break };
                value.push(' ');
                value.push_str(more);
                end = start_of(more) + more.len();
                count += 1;
            }
            let path: Vec<String> = table.iter().cloned().chain(names(name)).take(tree::DEPTH_MAX).collect();
            // A comment behind a value on one line; in a list they are passed over.
            let written = if count == 0 { value.split(" #").next().unwrap_or_default().trim_end() } else { &text[start..end] };
            *tree.place(&path) = tree::of_flow(written, start).standing_at(start_of(line));
        }
    }
    tree
}

/// `a.b."c.d"`
fn names(written: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut is_quoted = false;
    for c in written.trim().chars() {
        match c {
            '"' | '\'' => is_quoted = !is_quoted,
            '.' if !is_quoted => names.push(String::new()),
            _ => names.last_mut().expect("there is one from the beginning").push(c),
        }
    }
    names.truncate(tree::DEPTH_MAX);
    names.into_iter().map(|name| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn tables_and_values() {
        let text = "a = 1\n[http.routers.\"x.y\"]\nrule = \"Host(`a`)\" # b\n[[http.services.s.loadBalancer.servers]]\nurl = \"one\"\n\
                    [[http.services.s.loadBalancer.servers]]\n  url = 'two'\n[tcp]\nports = [\n 1,\n 2 ]\n";
        let tree = read(text);
        let check = |path: &[&str], expected: &str| assert_eq!(tree.at(path).shown(), expected);
        check(&["a"], "1");
        check(&["http", "routers", "x.y", "rule"], "Host(`a`)");
        check(&["http", "services", "s", "loadBalancer", "servers"], "[{url: one}, {url: two}]");
        check(&["tcp", "ports"], "[1, 2]");
    }
}
