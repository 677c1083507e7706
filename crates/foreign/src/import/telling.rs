//! The report of an import for people: what became of each line, those that say the same together.

use super::{AccountedStatement, ImportAccount, Imported, LineAccount, Sums};
use crate::source::{FilePlace, SourceText};
use std::fmt::Write;

/// The report on all files, and on each of its lines.
pub fn as_text(source: &SourceText, imported: &Imported, sums: &Sums) -> String {
    let mut text = String::new();
    for remark in &imported.remarks {
        let _ = writeln!(text, "{remark}");
    }
    // A file that is included in several places is told of once for all places in which the same becomes of it.
    let mut told: Vec<(&str, String, usize)> = Vec::new();
    for (file, (name, _)) in source.files().enumerate() {
        let mut text = String::new();
        let lines: Vec<_> = imported.lines.iter().filter(|line| line.place.file == file).cloned().collect();
        let _ = writeln!(text, "{name}: {}", sums_text(&Sums::of(&lines)));
        let statements: Vec<&AccountedStatement> =
            imported.statements.iter().filter(|statement| statement.place.file == file).collect();
        for title in ["not carried", "approximated", "the same by default"] {
            section(title, &statements, &mut text);
        }
        let carried: Vec<usize> =
            lines.iter().filter(|line| line.account == LineAccount::Carried).map(|line| line.place.line).collect();
        if !carried.is_empty() {
            let _ = writeln!(text, "  carried over\n    {}", ranges(&carried));
        }
        let others: Vec<usize> = lines
            .iter()
            .filter(|line| matches!(line.account, LineAccount::Comment | LineAccount::Structure))
            .map(|line| line.place.line)
            .collect();
        if !others.is_empty() {
            let _ = writeln!(text, "  comments, empty lines and braces\n    {}", ranges(&others));
        }
        match told.iter_mut().find(|(known, said, _)| *known == name && *said == text) {
            Some((_, _, count)) => *count += 1,
            None => told.push((name, text, 1)),
        }
    }
    for (_, said, count) in told {
        let times = if count > 1 { format!("in {count} places, ") } else { String::new() };
        let _ = write!(text, "{times}{said}");
    }
    if source.files().count() > 1 {
        let _ = writeln!(text, "all files: {}", sums_text(sums));
    }
    text
}

fn sums_text(sums: &Sums) -> String {
    format!(
        "{} lines: {} carried over, {} the same by default, {} approximated, {} not carried, {} comments and empty lines, {} braces and the like",
        sums.total(),
        sums.carried,
        sums.same_by_default,
        sums.approximated,
        sums.not_carried,
        sums.comments,
        sums.structure
    )
}

/// Statements of one account, those that say the same together.
fn section(title: &str, statements: &[&AccountedStatement], text: &mut String) {
    let mut rows: Vec<(&str, &str, Vec<usize>)> = Vec::new();
    for statement in statements {
        let (own, why) = match &statement.account {
            ImportAccount::Carried => continue,
            ImportAccount::SameByDefault(why) => ("the same by default", why),
            ImportAccount::Approximated(how) => ("approximated", how),
            ImportAccount::NotCarried(_, what) => ("not carried", what),
        };
        let FilePlace { line, .. } = statement.place;
        match rows.iter_mut().find(|(name, known, _)| *name == statement.name && known == why) {
            _ if own != title => {}
            Some((_, _, lines)) => lines.push(line),
            None => rows.push((&statement.name, why, vec![line])),
        }
    }
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {title}");
    for (name, why, lines) in rows {
        let _ = writeln!(text, "    {}  `{name}`: {why}", ranges(&lines));
    }
}

/// `line 3`, `lines 3-7, 12`.
fn ranges(lines: &[usize]) -> String {
    let mut lines = lines.to_vec();
    lines.sort_unstable();
    lines.dedup();
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for line in &lines {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *line => *last = *line,
            _ => parts.push((*line, *line)),
        }
    }
    let part = |(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let written: Vec<String> = parts.iter().map(part).collect();
    format!("{} {}", if lines.len() == 1 { "line" } else { "lines" }, written.join(", "))
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn lines_in_a_row_are_one_part() {
        let check = |lines: &[usize], expected: &str| assert_eq!(ranges(lines), expected, "for {lines:?}");
        check(&[3], "line 3");
        check(&[5, 3, 4, 9, 9], "lines 3-5, 9");
    }
}
