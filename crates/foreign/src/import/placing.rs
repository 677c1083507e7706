//! Comments above lines: those of the file, and what became of statements that its lines do not carry.

use super::AccountedStatement;
use crate::accounts::written_lines;
use crate::source::{FilePlace, SourceText};
use crate::written::WrittenNode;

/// Says something above the innermost lines that are made of the statement that begins there; where none is, above
/// nothing.
pub fn place(nodes: &mut [WrittenNode], at: usize, text: String) -> bool {
    let Some(path) = path_of(nodes, at) else { return false };
    comment(nodes, &path, text);
    true
}

/// Says of statements that are not carried, or said otherwise, what is said of them. Those of which it is the same
/// above one line are told together.
pub fn say(nodes: &mut [WrittenNode], statements: &[AccountedStatement], source: &SourceText) {
    let mut told: Vec<(Vec<usize>, &str, String, Vec<&FilePlace>)> = Vec::new();
    for statement in statements {
        let Some(said) = statement.told() else { continue };
        let Some(path) = path_of(nodes, statement.at) else { continue };
        // Of lines without effect it is enough to say why.
        if nodes[path[0]].is_off {
            continue;
        }
        let is_same = |known: &&mut (Vec<usize>, &str, String, Vec<&FilePlace>)| {
            known.0 == path && known.1 == statement.name && known.2 == said && known.3[0].file == statement.place.file
        };
        match told.iter_mut().find(is_same) {
            Some((_, _, _, places)) => places.push(&statement.place),
            None => told.push((path, &statement.name, said, vec![&statement.place])),
        }
    }
    for (path, name, said, places) in told {
        let lines: Vec<usize> = places.iter().map(|place| place.line).collect();
        let first = source.written_place(places[0]);
        let head = first.strip_suffix(&format!("line {}", places[0].line)).unwrap_or_default();
        comment(nodes, &path, format!("{head}{}: `{name}` {said}", written_lines(&lines)));
    }
}

/// The way to the innermost lines that are made of the statement that begins there, by their positions.
fn path_of(nodes: &[WrittenNode], at: usize) -> Option<Vec<usize>> {
    let index = nodes.iter().position(|node| node.within.contains(&at))?;
    let mut path = vec![index];
    path.extend(nodes[index].inside.as_deref().and_then(|inside| path_of(inside, at)).unwrap_or_default());
    Some(path)
}

fn comment(nodes: &mut [WrittenNode], path: &[usize], text: String) {
    let Some((first, rest)) = path.split_first() else { return };
    match &mut nodes[*first].inside {
        Some(inside) if !rest.is_empty() => comment(inside, rest, text),
        Some(_) | None => nodes[*first].comments.push(text),
    }
}
