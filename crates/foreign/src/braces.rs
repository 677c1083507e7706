//! Files of statements and blocks in braces, as nginx and Caddy have them: words, and what stands in the block behind
//! them. Bounded in every way, since any file may be given; what is not understood is left out.

/// Deeper blocks are not looked at.
const DEPTH_MAX: usize = 32;
const STATEMENTS_MAX: usize = 400_000;
/// Words, braces and ends of statements; what stands behind them is not read.
const PIECES_MAX: usize = 4 * STATEMENTS_MAX;

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
pub fn named<'s, 'n>(statements: &'s [Statement], name: &'n str) -> impl Iterator<Item = &'s Statement> + use<'s, 'n> {
    statements.iter().filter(move |statement| statement.name() == name)
}

/// The first word behind the first statement of that name.
pub fn value<'s>(statements: &'s [Statement], name: &str) -> Option<&'s str> {
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
    Open(usize),
    Close(usize),
    End,
}

/// Statements that end with `;`.
pub fn of_nginx(text: &str) -> Vec<Statement> {
    put_together(pieces_of_nginx(text))
}

fn pieces_of_nginx(text: &str) -> Vec<BracePiece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next().filter(|_| pieces.len() < PIECES_MAX) {
        let at = text.len() - rest.len();
        let (piece, length) = match first {
            ';' => (Some(BracePiece::End), 1),
            '{' if is_of_lua(&pieces) => match balanced(rest) {
                Some(length) => {
                    pieces.push(BracePiece::Open(at));
                    (Some(BracePiece::Close(at)), length)
                }
                None => (Some(BracePiece::Open(at)), rest.len()),
            },
            '{' => (Some(BracePiece::Open(at)), 1),
            '}' => (Some(BracePiece::Close(at)), 1),
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' | '\'' => {
                let length = quoted(rest, first).length;
                let inner = rest[1..length].strip_suffix(first).unwrap_or(&rest[1..length]);
                (Some(BracePiece::Word(nginx_text(inner), at)), length)
            }
            first if first.is_whitespace() => (None, first.len_utf8()),
            _ => {
                let length = nginx_word(rest);
                (Some(BracePiece::Word(nginx_text(&rest[..length]), at)), length)
            }
        };
        pieces.extend(piece);
        rest = &rest[length.max(1)..];
    }
    pieces
}

/// Whether the statement that has begun has code of Lua in its braces, as `set_by_lua_block $name {` has.
fn is_of_lua(pieces: &[BracePiece]) -> bool {
    let name = pieces.iter().rev().map_while(|piece| match piece {
        BracePiece::Word(word, _) => Some(word),
        BracePiece::Open(_) | BracePiece::Close(_) | BracePiece::End => None,
    });
    name.last().is_some_and(|name| name.ends_with("_by_lua_block"))
}

/// Statements that stand in the midst of a file of nginx, each with its own end: without one it would go on in what
/// follows it there.
pub fn of_nginx_part(text: &str) -> Result<Vec<Statement>, (usize, String)> {
    let pieces = pieces_of_nginx(text);
    if let Some(fault) = fault(text, &pieces, &['"', '\'']) {
        return Err(fault);
    }
    let mut open = None;
    for piece in &pieces {
        match (piece, open) {
            (BracePiece::Word(_, at), None) => open = Some(*at),
            (BracePiece::Word(..), Some(_)) => {}
            (BracePiece::Close(_), Some(at)) => return Err((at, UNENDED.to_owned())),
            (BracePiece::Close(_), None) | (BracePiece::Open(_) | BracePiece::End, _) => open = None,
        }
    }
    match open {
        Some(at) => Err((at, UNENDED.to_owned())),
        None => Ok(put_together(pieces)),
    }
}

const UNENDED: &str = "a statement begins here that no `;` ends";

/// What keeps a text of nginx from being a whole file, and where.
pub fn fault_of_nginx(text: &str) -> Option<(usize, String)> {
    fault(text, &pieces_of_nginx(text), &['"', '\''])
}

/// What keeps a Caddyfile from being a whole one, and where.
pub fn fault_of_caddy(text: &str) -> Option<(usize, String)> {
    fault(text, &pieces_of_caddy(text), &['"', '`'])
}

/// A brace or a quote that nothing closes, or a brace too many.
fn fault(text: &str, pieces: &[BracePiece], quotes: &[char]) -> Option<(usize, String)> {
    let mut open: Vec<usize> = Vec::new();
    for piece in pieces {
        match piece {
            BracePiece::Open(at) => open.push(*at),
            BracePiece::Close(at) if open.pop().is_none() => {
                return Some((*at, "a brace closes a block here that nothing opens".to_owned()));
            }
            BracePiece::Word(_, at) if is_half_quoted(&text[*at..], quotes) => {
                return Some((*at, "a quote begins here that nothing ends: this is half a file".to_owned()));
            }
            BracePiece::Close(_) | BracePiece::Word(..) | BracePiece::End => {}
        }
        if open.len() >= DEPTH_MAX {
            return open.pop().map(|at| (at, format!("blocks are deeper than {DEPTH_MAX} here")));
        }
    }
    if pieces.len() >= PIECES_MAX {
        return Some((0, format!("it has more than {PIECES_MAX} words and braces, and is not read")));
    }
    open.pop().map(|at| (at, "a brace opens a block here that nothing closes: this is half a file".to_owned()))
}

fn is_half_quoted(text: &str, quotes: &[char]) -> bool {
    let quote = text.chars().next().filter(|c| quotes.contains(c));
    quote.is_some_and(|quote| !quoted(text, quote).is_closed)
}

/// The length of a word; braces belong to it where they are those of `${name}`, and whatever a backslash stands in
/// front of.
fn nginx_word(text: &str) -> usize {
    let mut before = ' ';
    let (mut is_variable, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => {
                is_escaped = false;
                before = ' ';
                continue;
            }
            '\\' => is_escaped = true,
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

/// A word as nginx takes it: a backslash makes a quote, a backslash, and the ends of lines, and stands for itself else.
fn nginx_text(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut chars = written.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some(quote @ ('"' | '\'' | '\\')) => text.push(quote),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('n') => text.push('\n'),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    text
}

/// The length of a block of Lua from its brace, as OpenResty finds its end: braces in strings and comments do not
/// count. `None`: there is no end.
fn balanced(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match first {
            '{' => {
                depth += 1;
                1
            }
            '}' => {
                depth = depth.saturating_sub(1);
                1
            }
            '"' | '\'' => lua_string(rest, first),
            '-' if rest.starts_with("--") => match lua_long_bracket(&rest[2..]) {
                Some(length) => 2 + length,
                None => rest.find('\n').unwrap_or(rest.len()),
            },
            '[' => lua_long_bracket(rest).unwrap_or(1),
            other => other.len_utf8(),
        };
        at += length;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The length of a string of Lua in quotes, which ends with its line at the latest.
fn lua_string(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' => return at,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a text of Lua between `[[` and `]]`, or `[==[` and `]==]`. `None`: no such text begins here.
fn lua_long_bracket(text: &str) -> Option<usize> {
    let level = text.strip_prefix('[')?.bytes().take_while(|byte| *byte == b'=').count();
    text[1 + level..].strip_prefix('[')?;
    let end = format!("]{}]", "=".repeat(level));
    Some(text.find(&end).map_or(text.len(), |at| at + end.len()))
}

/// What stands between quotes.
pub struct Quoted {
    pub text: String,
    /// As far as it goes, with the quotes.
    pub length: usize,
    pub is_closed: bool,
}

/// Reads a quote from its first character, up to the end of the text where nothing closes it.
pub fn quoted(text: &str, quote: char) -> Quoted {
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
            return Quoted { text: word, length: at + c.len_utf8(), is_closed: true };
        } else {
            word.push(c);
        }
    }
    Quoted { text: word, length: text.len(), is_closed: false }
}

/// Statements that end with their line.
pub fn of_caddy(text: &str) -> Vec<Statement> {
    put_together(pieces_of_caddy(text))
}

fn pieces_of_caddy(text: &str) -> Vec<BracePiece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next().filter(|_| pieces.len() < PIECES_MAX) {
        let at = text.len() - rest.len();
        let (piece, length) = match first {
            // Addresses go on behind a comma.
            '\n' if matches!(pieces.last(), Some(BracePiece::Word(word, _)) if word.ends_with(',')) => (None, 1),
            '\n' => (Some(BracePiece::End), 1),
            '\\' if rest[1..].starts_with('\n') => (None, 2),
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' | '`' => {
                let quoted = quoted(rest, first);
                (Some(BracePiece::Word(quoted.text, at)), quoted.length)
            }
            first if first.is_whitespace() => (None, first.len_utf8()),
            _ => {
                let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let word = &rest[..length];
                match word {
                    "{" => (Some(BracePiece::Open(at)), 1),
                    "}" => (Some(BracePiece::Close(at)), 1),
                    _ if word.starts_with("<<") && word.len() > 2 => {
                        let (text, length) = heredoc(rest, &word[2..]);
                        (Some(BracePiece::Word(text, at)), length)
                    }
                    _ if word.ends_with('{') && !word[..length - 1].contains('{') => {
                        pieces.push(BracePiece::Word(word[..length - 1].to_owned(), at));
                        (Some(BracePiece::Open(at)), length)
                    }
                    _ => (Some(BracePiece::Word(word.to_owned(), at)), length),
                }
            }
        };
        pieces.extend(piece);
        rest = &rest[length.max(1)..];
    }
    pieces.push(BracePiece::End);
    pieces
}

/// A text of several lines without what stands in front of its mark on each, and the length up to behind the mark.
fn heredoc(text: &str, mark: &str) -> (String, usize) {
    let mut length = 0;
    let mut lines: Vec<&str> = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let trimmed = line.trim_start();
        if index > 0 && trimmed.starts_with(mark) {
            let indent = &line[..line.len() - trimmed.len()];
            let within: Vec<&str> = lines.iter().map(|line| line.strip_prefix(indent).unwrap_or(line)).collect();
            return (within.concat().trim_end_matches('\n').to_owned(), length + indent.len() + mark.len());
        }
        if index > 0 {
            lines.push(line);
        }
        length += line.len();
    }
    (String::new(), text.len())
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
            BracePiece::Open(_) if is_deep => too_deep += 1,
            BracePiece::Close(_) if too_deep > 0 => too_deep -= 1,
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
            BracePiece::Open(_) => open.push(Default::default()),
            BracePiece::Close(_) => close(&mut open),
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
