//! Files of statements and blocks in braces, as nginx and Caddy have them: words, and what stands in the block behind
//! them. Bounded in every way, since any file may be given; what is not understood is left out.

/// Deeper blocks are not looked at.
const DEPTH_MAX: usize = 32;
const STATEMENTS_MAX: usize = 50_000;

/// Words up to a `;` or the end of the line, and the block behind them.
#[derive(Debug, Clone, Default)]
pub struct Statement {
    pub words: Vec<String>,
    /// Where each word begins in the file; the first is where the statement does.
    pub starts: Vec<usize>,
    pub block: Option<Vec<Statement>>,
}

impl Statement {
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    pub fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The first word behind the name.
    pub fn argument(&self) -> &str {
        self.arguments().first().map_or("", String::as_str)
    }

    /// Where it begins in the file.
    pub fn start(&self) -> usize {
        self.starts.first().copied().unwrap_or_default()
    }

    /// The words behind the name, and where each begins.
    pub fn options(&self) -> impl Iterator<Item = (&str, usize)> {
        self.words.iter().map(String::as_str).zip(self.starts.iter().copied()).skip(1)
    }

    pub fn inside(&self) -> &[Statement] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// The statements of that name.
pub fn named<'s>(statements: &'s [Statement], name: &'s str) -> impl Iterator<Item = &'s Statement> {
    statements.iter().filter(move |statement| statement.name() == name)
}

/// The first word behind the first statement of that name.
pub fn value<'s>(statements: &'s [Statement], name: &'s str) -> Option<&'s str> {
    named(statements, name).next().map(Statement::argument).filter(|value| !value.is_empty())
}

/// Whether a word stands at the beginning of any statement, however deep.
pub fn has_within(statements: &[Statement], name: &str) -> bool {
    statements.iter().any(|statement| statement.name() == name || has_within(statement.inside(), name))
}

#[derive(Debug, PartialEq)]
enum BracePiece {
    /// With the place that it begins at.
    Word(String, usize),
    Open,
    Close,
    End,
}

/// Statements that end with `;`.
pub fn of_nginx(text: &str) -> Vec<Statement> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (piece, length) = match first {
            ';' => (Some(BracePiece::End), 1),
            '{' => match pieces.last() {
                Some(BracePiece::Word(word, _)) if word.ends_with("_by_lua_block") => {
                    pieces.push(BracePiece::Open);
                    (Some(BracePiece::Close), balanced(rest))
                }
                _ => (Some(BracePiece::Open), 1),
            },
            '}' => (Some(BracePiece::Close), 1),
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' | '\'' => {
                let (word, length) = quoted(rest, first);
                (Some(BracePiece::Word(word, text.len() - rest.len())), length)
            }
            first if first.is_whitespace() => (None, first.len_utf8()),
            _ => {
                let length = nginx_word(rest);
                (Some(BracePiece::Word(rest[..length].to_owned(), text.len() - rest.len())), length)
            }
        };
        pieces.extend(piece);
        rest = &rest[length.max(1)..];
    }
    put_together(pieces)
}

/// The length of a word; braces belong to it where they are those of `${name}`.
fn nginx_word(text: &str) -> usize {
    let mut before = ' ';
    let mut is_variable = false;
    for (at, c) in text.char_indices() {
        match c {
            '{' if before == '$' => is_variable = true,
            '}' if is_variable => is_variable = false,
            ';' | '{' | '}' => return at.max(1),
            c if c.is_whitespace() => return at,
            _ => {}
        }
        before = c;
    }
    text.len()
}

/// The length of a block of code, up to the brace that closes it.
fn balanced(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// What stands between quotes, and the length with them.
fn quoted(text: &str, quote: char) -> (String, usize) {
    let mut word = String::new();
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if is_escaped {
            if c != quote && c != '\\' {
                word.push('\\');
            }
            word.push(c);
            is_escaped = false;
        } else if c == '\\' && quote != '`' {
            is_escaped = true;
        } else if c == quote {
            return (word, at + c.len_utf8());
        } else {
            word.push(c);
        }
    }
    (word, text.len())
}

/// Statements that end with their line.
pub fn of_caddy(text: &str) -> Vec<Statement> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (piece, length) = match first {
            // Addresses go on behind a comma.
            '\n' if matches!(pieces.last(), Some(BracePiece::Word(word, _)) if word.ends_with(',')) => (None, 1),
            '\n' => (Some(BracePiece::End), 1),
            '\\' if rest[1..].starts_with('\n') => (None, 2),
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' | '`' => {
                let (word, length) = quoted(rest, first);
                (Some(BracePiece::Word(word, text.len() - rest.len())), length)
            }
            first if first.is_whitespace() => (None, first.len_utf8()),
            _ => {
                let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let word = &rest[..length];
                match word {
                    "{" => (Some(BracePiece::Open), 1),
                    "}" => (Some(BracePiece::Close), 1),
                    _ if word.starts_with("<<") && word.len() > 2 => {
                        let length = heredoc(rest, &word[2..]);
                        (Some(BracePiece::Word(String::new(), text.len() - rest.len())), length)
                    }
                    _ if word.ends_with('{') && !word[..length - 1].contains('{') => {
                        pieces.push(BracePiece::Word(word[..length - 1].to_owned(), text.len() - rest.len()));
                        (Some(BracePiece::Open), length)
                    }
                    _ => (Some(BracePiece::Word(word.to_owned(), text.len() - rest.len())), length),
                }
            }
        };
        pieces.extend(piece);
        rest = &rest[length.max(1)..];
    }
    pieces.push(BracePiece::End);
    put_together(pieces)
}

/// The length of a text of several lines, up to its mark.
fn heredoc(text: &str, mark: &str) -> usize {
    let mut length = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if index > 0 && line.trim_start().starts_with(mark) {
            return length + (line.len() - line.trim_start().len()) + mark.len();
        }
        length += line.len();
    }
    text.len()
}

/// Words in front of a block or an end, and where they begin.
type PlacedWords = (Vec<String>, Vec<usize>);

fn put_together(pieces: Vec<BracePiece>) -> Vec<Statement> {
    // The statements of each open block, and the words that stand in front of the next.
    let mut open: Vec<(Vec<Statement>, PlacedWords)> = vec![Default::default()];
    let (mut too_deep, mut count) = (0_usize, 0_usize);
    for piece in pieces {
        let is_deep = open.len() >= DEPTH_MAX;
        let Some((statements, words)) = open.last_mut() else { break };
        match piece {
            _ if count >= STATEMENTS_MAX => break,
            BracePiece::Open if is_deep => too_deep += 1,
            BracePiece::Close if too_deep > 0 => too_deep -= 1,
            BracePiece::Word(..) | BracePiece::End if too_deep > 0 => {}
            BracePiece::Word(word, start) => {
                words.0.push(word);
                words.1.push(start);
            }
            BracePiece::End if words.0.is_empty() => {}
            BracePiece::End => {
                count += 1;
                let (words, starts) = std::mem::take(words);
                statements.push(Statement { words, starts, block: None });
            }
            BracePiece::Open => open.push(Default::default()),
            BracePiece::Close => close(&mut open),
        }
    }
    while open.len() > 1 {
        close(&mut open);
    }
    let (mut statements, (words, starts)) = open.pop().unwrap_or_default();
    if !words.is_empty() {
        statements.push(Statement { words, starts, block: None });
    }
    statements
}

/// Puts the innermost block behind the words in front of it. A brace too many closes nothing.
fn close(open: &mut Vec<(Vec<Statement>, PlacedWords)>) {
    if open.len() < 2 {
        return;
    }
    let (mut block, (words, starts)) = open.pop().unwrap_or_default();
    if !words.is_empty() {
        block.push(Statement { words, starts, block: None });
    }
    if let Some((statements, words)) = open.last_mut() {
        let (words, starts) = std::mem::take(words);
        statements.push(Statement { words, starts, block: Some(block) });
    }
}
