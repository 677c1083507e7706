//! As much of TOML as Traefik's files are written in: tables, tables in lists, and values.

use super::tree::{self, Tree};

/// A list that goes over more lines is none.
const VALUE_LINES_MAX: usize = 400;

pub fn read(text: &str) -> Tree {
    let mut tree = Tree::Map(Vec::new());
    let mut table: Vec<String> = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("[[").and_then(|rest| rest.split_once("]]")).map(|(name, _)| name) {
            table = names(name);
            let place = tree.place(&table);
            if let Tree::List(items) = place {
                items.push(Tree::Nothing);
            } else {
                *place = Tree::List(vec![Tree::Nothing]);
            }
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(name, _)| name) {
            table = names(name);
            tree.place(&table);
        } else if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let mut value = value.trim().to_owned();
            let mut count = 0;
            while !tree::is_closed(&value) && count < VALUE_LINES_MAX {
                let Some(more) = lines.next() else { break };
                value.push(' ');
                value.push_str(more);
                count += 1;
            }
            let path: Vec<String> = table.iter().cloned().chain(names(name)).take(tree::DEPTH_MAX).collect();
            *tree.place(&path) = tree::of_flow(value.split(" #").next().unwrap_or_default());
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
        let check = |path: &[&str], expected: &str| assert_eq!(format!("{:?}", tree.at(path)), expected);
        check(&["a"], "Text(\"1\")");
        check(&["http", "routers", "x.y", "rule"], "Text(\"Host(`a`)\")");
        let servers = "List([Map([(\"url\", Text(\"one\"))]), Map([(\"url\", Text(\"two\"))])])";
        check(&["http", "services", "s", "loadBalancer", "servers"], servers);
        check(&["tcp", "ports"], "List([Text(\"1\"), Text(\"2\")])");
    }
}
