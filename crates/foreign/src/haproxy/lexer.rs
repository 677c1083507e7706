//! Lines of a file of HAProxy as words, with quotes and escapes as HAProxy takes them, and the sections that they stand
//! in, with what each has from `defaults`.

use super::words;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Stands in front of a name of the environment, which is never looked up.
pub const OF_ENVIRONMENT: char = '\u{e000}';
/// What `defaults` hand on; more is no configuration.
const INHERITED_MAX: usize = 10_000;
const SECTION_WORDS: [&str; 20] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "peers",
    "resolvers",
    "mailers",
    "userlist",
    "ring",
    "http-errors",
    "cache",
    "program",
    "fcgi-app",
    "log-forward",
    "crt-store",
    "traces",
    "log-profile",
    "acme",
    "ruleset",
];

/// Words of a line, and where each begins in the file.
#[derive(Debug, Clone, Default)]
pub struct HaProxyLine {
    pub words: Vec<String>,
    pub starts: Vec<usize>,
    /// Which of all sections it stands in.
    pub section: usize,
}

impl HaProxyLine {
    pub fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    pub fn start(&self) -> usize {
        self.starts.first().copied().unwrap_or_default()
    }

    /// The options from this word on, each with its value and its place.
    pub fn options(&self, from: usize) -> impl Iterator<Item = (&str, &str, usize)> {
        let mut index = from;
        std::iter::from_fn(move || {
            let (option, at) = (self.words.get(index)?.as_str(), *self.starts.get(index)?);
            index += 1;
            let has_value = words::has_value(option) && index < self.words.len();
            let value = if has_value { self.word(index) } else { "" };
            index += usize::from(has_value);
            Some((option, value, at))
        })
    }

    /// The word behind this one.
    pub fn behind(&self, word: &str) -> Option<&str> {
        let index = self.words.iter().position(|own| own == word)?;
        self.words.get(index + 1).map(String::as_str)
    }

    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }
}

#[derive(Debug, Default)]
pub struct Section {
    pub kind: String,
    pub name: String,
    pub lines: Vec<HaProxyLine>,
    /// Lines of the `defaults` that hold for it.
    pub inherited: Rc<Vec<HaProxyLine>>,
    pub is_tcp: Option<bool>,
    places: OnceCell<BTreeSet<usize>>,
}

impl Section {
    pub fn lines_of<'s>(&'s self, name: &'static str) -> impl Iterator<Item = &'s HaProxyLine> {
        self.lines.iter().filter(move |line| line.word(0) == name)
    }

    /// Whether bytes are handed on as they are.
    pub fn speaks_tcp(&self) -> bool {
        self.is_tcp == Some(true)
    }

    /// Lines of the section with this word, or else those of its `defaults`.
    pub fn all_of<'s>(&'s self, name: &'static str) -> impl Iterator<Item = &'s HaProxyLine> {
        let is_own = self.lines_of(name).next().is_some();
        let lines = if is_own { &self.lines } else { self.inherited.as_ref() };
        lines.iter().filter(move |line| line.word(0) == name)
    }

    /// The last line of these two words, its own before that of its `defaults`, unless a `no` takes it back.
    pub fn setting(&self, first: &str, second: &str) -> Option<&HaProxyLine> {
        let is_it = |line: &&HaProxyLine| line.word(0) == first && line.word(1) == second;
        let is_off = |line: &HaProxyLine| line.word(0) == "no" && line.word(1) == first && line.word(2) == second;
        let own = self.lines.iter().rev().find(is_it);
        if own.is_none() && self.lines.iter().any(is_off) {
            return None;
        }
        own.or_else(|| self.inherited.iter().rev().find(is_it))
    }

    /// Lines of `acl` that a line of the section or of its `defaults` can name: those of where it stands itself.
    pub fn acls_beside<'s>(&'s self, line: &HaProxyLine) -> Vec<&'s HaProxyLine> {
        let all = self.lines.iter().chain(self.inherited.iter());
        all.filter(|acl| acl.word(0) == "acl" && acl.section == line.section).collect()
    }

    pub fn has_word(&self, words: &[&str]) -> bool {
        self.lines.iter().flat_map(|line| &line.words).any(|word| words.contains(&word.as_str()))
    }

    /// Where its statements begin.
    pub fn places(&self) -> &BTreeSet<usize> {
        let find = || self.lines.iter().flat_map(|line| words::of_line(&self.kind, line)).map(|statement| statement.at).collect();
        self.places.get_or_init(find)
    }
}

/// A file by its sections.
#[derive(Debug, Default)]
pub struct Sections {
    pub all: Vec<Section>,
    /// Lines that conditions of the file leave out, or may, with the reason.
    pub left_out: Vec<(HaProxyLine, &'static str)>,
    /// Lines of these conditions, and what is said while a file is read.
    pub directives: Vec<HaProxyLine>,
    /// Where the sections of `defaults` are among all.
    defaults: Vec<usize>,
    with_servers: OnceCell<BTreeMap<String, usize>>,
    cookies: OnceCell<BTreeSet<String>>,
}

pub const NEVER_READ: &str = "its condition does not hold, so that HAProxy does not read it either";
pub const NOT_SETTLED: &str = "it stands behind a condition on the machine that HAProxy runs on: write what holds on yours";

/// What a condition of the file comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    Yes,
    No,
    Open,
}

/// A branch of `.if`, and what came of all branches before it.
struct Branch {
    now: Settled,
    before: Settled,
}

pub fn sections(text: &str) -> Sections {
    let mut sections = Sections::default();
    let mut branches: Vec<Branch> = Vec::new();
    for line in lines(text) {
        let first = line.word(0).to_owned();
        if first.starts_with('.') && first.len() > 1 {
            branch(&line, &mut branches);
            sections.directives.push(line);
            continue;
        }
        let now = branches.iter().map(|branch| branch.now);
        let settled = now.fold(Settled::Yes, |all, one| match (all, one) {
            (Settled::No, _) | (_, Settled::No) => Settled::No,
            (Settled::Open, _) | (_, Settled::Open) => Settled::Open,
            (Settled::Yes, Settled::Yes) => Settled::Yes,
        });
        match settled {
            Settled::Yes => sections.add(line),
            Settled::No => sections.left_out.push((line, NEVER_READ)),
            Settled::Open => sections.left_out.push((line, NOT_SETTLED)),
        }
    }
    sections
}

fn branch(line: &HaProxyLine, branches: &mut Vec<Branch>) {
    let settle = |own: Settled, before: Settled| match (before, own) {
        (Settled::Yes, _) => Settled::No,
        (Settled::Open, Settled::No) => Settled::No,
        (Settled::Open, _) => Settled::Open,
        (Settled::No, own) => own,
    };
    match line.word(0) {
        ".if" => branches.push(Branch { now: condition_of_file(line), before: Settled::No }),
        ".elif" | ".else" => {
            let Some(branch) = branches.last_mut() else { return };
            branch.before = match (branch.before, branch.now) {
                (Settled::Yes, _) | (_, Settled::Yes) => Settled::Yes,
                (Settled::Open, _) | (_, Settled::Open) => Settled::Open,
                (Settled::No, Settled::No) => Settled::No,
            };
            let own = if line.word(0) == ".else" { Settled::Yes } else { condition_of_file(line) };
            branch.now = settle(own, branch.before);
        }
        ".endif" => {
            branches.pop();
        }
        _ => {}
    }
}

/// The newest version with all that it can be built with is what is taken over.
fn condition_of_file(line: &HaProxyLine) -> Settled {
    let text = line.words[1..].join(" ");
    let (is_negated, test) = text.strip_prefix('!').map_or((false, text.as_str()), |rest| (true, rest.trim()));
    let settled = match test {
        "" | "0" => Settled::No,
        "1" | "true" => Settled::Yes,
        _ if test.contains("&&") || test.contains("||") => Settled::Open,
        _ if test.starts_with("version_atleast(") || test.starts_with("openssl_version_atleast(") => Settled::Yes,
        _ if test.starts_with("version_before(") || test.starts_with("openssl_version_before(") => Settled::No,
        _ if test.starts_with("feature(") => Settled::Yes,
        _ => Settled::Open,
    };
    match (settled, is_negated) {
        (Settled::Yes, true) => Settled::No,
        (Settled::No, true) => Settled::Yes,
        (settled, _) => settled,
    }
}

impl Sections {
    /// The first section of that name that may have servers.
    pub fn backend(&self, name: &str) -> Option<&Section> {
        let find = || {
            let has = |(_, section): &(usize, &Section)| matches!(section.kind.as_str(), "backend" | "listen");
            let named = self.all.iter().enumerate().rev().filter(has);
            named.map(|(index, section)| (section.name.clone(), index)).collect()
        };
        self.with_servers.get_or_init(find).get(name).map(|index| &self.all[*index])
    }

    /// Cookies by which clients stay with their servers.
    pub fn cookies(&self) -> &BTreeSet<String> {
        let find = || {
            let sections = self.all.iter().filter(|section| matches!(section.kind.as_str(), "backend" | "listen" | "defaults"));
            sections.flat_map(|section| section.lines_of("cookie")).map(|line| line.word(1).to_owned()).collect()
        };
        self.cookies.get_or_init(find)
    }

    fn add(&mut self, line: HaProxyLine) {
        let first = line.word(0).to_owned();
        if SECTION_WORDS.contains(&first.as_str()) {
            self.open(first, &line);
            return;
        }
        let Some(index) = self.all.len().checked_sub(1) else { return };
        let section = &mut self.all[index];
        if first == "mode" {
            section.is_tcp = line.words.get(1).map(|mode| mode == "tcp");
        }
        section.lines.push(HaProxyLine { section: index, ..line });
    }

    fn open(&mut self, kind: String, line: &HaProxyLine) {
        let name = line.word(1).to_owned();
        let has_defaults = matches!(kind.as_str(), "defaults" | "frontend" | "backend" | "listen");
        let (inherited, is_tcp) = if has_defaults { self.inherited_by(&kind, line) } else { Default::default() };
        let has_address = line.words.len() > 2 && matches!(kind.as_str(), "listen" | "frontend") && line.word(2) != "from";
        let bind = HaProxyLine {
            words: vec!["bind".into(), line.word(2).to_owned()],
            starts: line.starts.iter().skip(1).copied().collect(),
            section: self.all.len(),
        };
        let lines = has_address.then_some(bind).into_iter().collect();
        if kind == "defaults" {
            self.defaults.push(self.all.len());
        }
        self.all.push(Section { kind, name, lines, inherited, is_tcp, places: OnceCell::new() });
    }

    /// What the `defaults` in front of a section, or those that it names, hand on to it.
    fn inherited_by(&self, kind: &str, line: &HaProxyLine) -> (Rc<Vec<HaProxyLine>>, Option<bool>) {
        let named = line.behind("from");
        let mut defaults = self.defaults.iter().rev().map(|index| &self.all[*index]);
        let found = match (named, kind) {
            (Some(name), _) => defaults.find(|section| section.name == name),
            (None, "defaults") => None,
            (None, _) => defaults.next(),
        };
        let Some(found) = found else { return Default::default() };
        let all = found.inherited.iter().chain(&found.lines).take(INHERITED_MAX);
        (Rc::new(all.cloned().collect()), found.is_tcp)
    }
}

fn lines(text: &str) -> impl Iterator<Item = HaProxyLine> {
    let read = |written: &str| renamed(line(written, written.as_ptr() as usize - text.as_ptr() as usize).0);
    text.lines().map(read).filter(|line| !line.words.is_empty())
}

/// Words of old files in the place of which others stand today.
fn renamed(mut line: HaProxyLine) -> HaProxyLine {
    let kind = match line.word(0) {
        "contimeout" => "connect",
        "clitimeout" => "client",
        "srvtimeout" => "server",
        "redispatch" => {
            "option".clone_into(&mut line.words[0]);
            line.words.insert(1, "redispatch".to_owned());
            line.starts.insert(1, line.start());
            return line;
        }
        _ => return line,
    };
    "timeout".clone_into(&mut line.words[0]);
    line.words.insert(1, kind.to_owned());
    line.starts.insert(1, line.start());
    line
}

/// Words of a line, without a comment and quotes; and where a quote begins that nothing ends.
fn line(text: &str, start: usize) -> (HaProxyLine, Option<usize>) {
    let mut line = HaProxyLine::default();
    let mut word = String::new();
    let mut begun: Option<usize> = None;
    let mut quote: Option<(char, usize)> = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some((open, _)), _) if c == open => quote = None,
            (Some(('\'', _)), c) => word.push(c),
            (None, '#') => break,
            (None, c) if c.is_whitespace() => {
                if let Some(begun) = begun.take() {
                    line.words.push(std::mem::take(&mut word));
                    line.starts.push(start + begun);
                }
                continue;
            }
            (None, '"' | '\'') => quote = Some((c, start + at)),
            (_, '\\') => {
                let escaped = characters.peek().map(|(_, c)| *c);
                match escaped {
                    Some(c @ (' ' | '\\' | '#' | '"' | '\'')) => word.push(c),
                    Some('$') if quote.is_some() => word.push('$'),
                    Some('n') => word.push('\n'),
                    Some('r') => word.push('\r'),
                    Some('t') => word.push('\t'),
                    _ => {
                        word.push('\\');
                        begun.get_or_insert(at);
                        continue;
                    }
                }
                characters.next();
            }
            (Some(_), '$') if characters.peek().is_some_and(|(_, c)| *c == '{' || c.is_ascii_alphabetic() || *c == '_') => {
                word.push(OF_ENVIRONMENT);
            }
            (Some(_) | None, c) => word.push(c),
        }
        begun.get_or_insert(at);
    }
    if let Some(begun) = begun {
        line.words.push(word);
        line.starts.push(start + begun);
    }
    (line, quote.map(|(_, at)| at))
}

/// What HAProxy itself would not read of it: a quote without an end, a line in no section, a name that is missing, an
/// `.if` that nothing ends.
pub fn fault(text: &str) -> Option<(usize, String)> {
    let mut open: Vec<usize> = Vec::new();
    let mut is_within = false;
    for written in text.lines() {
        let start = written.as_ptr() as usize - text.as_ptr() as usize;
        let (line, quote) = line(written, start);
        if let Some(at) = quote {
            let column = at - start + 1;
            return Some((
                at,
                format!("the quote at column {column} has no end on its line: close it, or write `\\` in front of it"),
            ));
        }
        let Some(first) = line.words.first() else { continue };
        match first.as_str() {
            ".if" => open.push(line.start()),
            ".elif" | ".else" | ".endif" if open.is_empty() => {
                return Some((line.start(), format!("`{first}` stands behind no `.if`")));
            }
            ".endif" => {
                open.pop();
            }
            first if first.starts_with('.') => {}
            "global" => is_within = true,
            "defaults" | "program" => is_within = true,
            first if SECTION_WORDS.contains(&first) => {
                is_within = true;
                if line.words.len() < 2 && !matches!(first, "traces" | "crt-store") {
                    return Some((line.start(), format!("`{first}` has no name behind it: write one")));
                }
            }
            _ if !is_within => {
                let help = "a line of a section: put `frontend`, `backend`, `listen`, `defaults` or `global` with it in front";
                return Some((line.start(), format!("it begins with {help}")));
            }
            _ => {}
        }
    }
    open.pop().map(|at| (at, "this `.if` has no `.endif`: the file may be cut".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{NEVER_READ, NOT_SETTLED, OF_ENVIRONMENT, fault, line, sections};

    #[test]
    fn words_have_quotes_and_escapes() {
        let check = |text: &str, expected: &[&str]| assert_eq!(line(text, 0).0.words, expected, "for {text}");
        check("acl a path_reg \\.php$ # no", &["acl", "a", "path_reg", "\\.php$"]);
        check("replace-path /a\\ b '/\\1 #' \"x\\\"y\"", &["replace-path", "/a b", "/\\1 #", "x\"y"]);
        check("bind \"${HOST}:80\" '${X}' $Y", &["bind", &format!("{OF_ENVIRONMENT}{{HOST}}:80"), "${X}", "$Y"]);
        check("send PING\\r\\n", &["send", "PING\r\n"]);
        check("a \"\" b", &["a", "", "b"]);
    }

    #[test]
    fn sections_have_what_their_defaults_say() {
        let text =
            "defaults\n timeout connect 1s\n mode tcp\ndefaults web\n mode http\nbackend a\nbackend b from web\nlisten c :80\n";
        let read = sections(text);
        let of = |name: &str| read.all.iter().find(|section| section.name == name).expect("the section");
        assert_eq!(of("a").is_tcp, Some(false));
        assert!(of("a").setting("timeout", "connect").is_none());
        assert_eq!(of("b").inherited.len(), 1);
        assert_eq!(of("c").lines[0].words, ["bind", ":80"]);
    }

    #[test]
    fn what_conditions_leave_out_is_said() {
        let text = ".if version_atleast(2.4)\nglobal\n maxconn 5\n.else\n nbproc 2\n.endif\n.if defined(X)\n daemon\n.endif\n";
        let read = sections(text);
        assert_eq!(read.all[0].lines.len(), 1);
        let left: Vec<(&str, &str)> = read.left_out.iter().map(|(line, why)| (line.word(0), *why)).collect();
        assert_eq!(left, [("nbproc", NEVER_READ), ("daemon", NOT_SETTLED)]);
        assert_eq!(read.directives.len(), 5);
    }

    #[test]
    fn half_files_are_refused() {
        let check = |text: &str, expected: &str| {
            let (_, fault) = fault(text).expect("a fault");
            assert!(fault.contains(expected), "{fault}");
        };
        check("global\n log \"a\n", "column 6");
        check(" server a 1:2\n", "begins with a line");
        check("backend\n server a 1:2\n", "no name");
        check("global\n.if 1\n", "no `.endif`");
        check("global\n.endif\n", "behind no `.if`");
        assert!(fault("global\n daemon\n# it's\nlisten a :80\n").is_none());
    }
}
