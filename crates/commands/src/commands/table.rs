//! Columns of text for a terminal of 100 columns: the first takes what the others leave, and what is longer is cut with
//! `…`.

/// Of every page that commands print.
pub const COLUMNS: usize = 100;
const GAP: usize = 2;

/// Rows under a heading, all of the same number of cells. Numbers are to the right.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    within(COLUMNS, headings, rows)
}

/// Rows under a heading, as wide as they are.
pub fn uncut_table(headings: &[&str], rows: &[Vec<String>]) -> String {
    within(usize::MAX, headings, rows)
}

fn within(columns: usize, headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let others: usize = widths.iter().skip(1).map(|width| width + GAP).sum();
    widths[0] = widths[0].min(columns.saturating_sub(others).max(headings[0].chars().count()));
    let is_number =
        |column: usize| rows.iter().all(|row| !row[column].is_empty() && row[column].bytes().all(|byte| byte.is_ascii_digit()));
    let right: Vec<bool> = (0..headings.len()).map(|column| !rows.is_empty() && is_number(column)).collect();
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&headings).chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let cell = cut(cell, width);
            let padding = " ".repeat(width - cell.chars().count());
            let cell = if right[column] { format!("{padding}{cell}") } else { format!("{cell}{padding}") };
            line.push_str(&cell);
            line.push_str(&" ".repeat(GAP));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// At most `width` characters.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A label at the left edge, and text behind it, broken between words.
pub fn labelled(label: &str, text: &str) -> String {
    const LABEL: usize = 14;
    let mut page = String::new();
    let mut line = format!("{label:LABEL$}");
    let mut is_start = true;
    for word in text.split_whitespace() {
        if !is_start && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            page.push_str(&line);
            page.push('\n');
            line = " ".repeat(LABEL);
            is_start = true;
        }
        if !is_start {
            line.push(' ');
        }
        line.push_str(word);
        is_start = false;
    }
    page.push_str(line.trim_end());
    page.push('\n');
    page
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, labelled, table};

    #[test]
    fn columns_are_aligned_and_the_first_gives_way() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let page = table(&["NAME", "STATE", "COUNT"], &[row(["a", "up", "7"]), row(["bb", "", "120"])]);
        assert_eq!(page, "NAME  STATE  COUNT\na     up         7\nbb             120\n");
        let long = table(&["NAME", "STATE", "COUNT"], &[row([&"x".repeat(200), "up", "7"])]);
        assert!(long.lines().all(|line| line.chars().count() <= COLUMNS), "{long}");
        assert!(long.contains("x…  up"), "{long}");
    }

    #[test]
    fn long_sentences_are_broken() {
        let page = labelled("drift", &"word ".repeat(40));
        assert!(page.lines().all(|line| line.chars().count() <= COLUMNS), "{page}");
        assert!(page.starts_with("drift         word word"), "{page}");
        assert!(page.lines().nth(1).is_some_and(|line| line.starts_with("              word")), "{page}");
    }
}
