//! What a run uses is what readers are shown: configurations that the manual has word for word, and examples that are
//! taken out of its pages, so that nobody has tried something else than what is written there.

/// What an application is put behind.
#[derive(Debug, Clone, Copy)]
pub enum Configuration {
    /// A file of `configurations/`, which docs/applications.md has word for word.
    File(&'static str),
    /// The first example in KDL of a page of the manual.
    Page(&'static str),
}

impl Configuration {
    pub fn text(self) -> Result<String, String> {
        match self {
            Configuration::File(text) => Ok(text.to_owned()),
            Configuration::Page(page) => example(page, "kdl", 0).map(str::to_owned),
        }
    }
}

/// The example of a page in this language at this place; the first one is 0.
pub fn example<'p>(page: &'p str, language: &str, position: usize) -> Result<&'p str, String> {
    let title = page.lines().next().unwrap_or_default();
    examples(page, language).nth(position).ok_or_else(|| format!("`{title}` has no example {position} in `{language}`"))
}

fn examples<'p>(page: &'p str, language: &str) -> impl Iterator<Item = &'p str> {
    let opening = format!("\n```{language}\n");
    let begins: Vec<usize> = page.match_indices(&opening).map(|(at, _)| at + opening.len()).collect();
    begins.into_iter().filter_map(move |begin| page[begin..].find("```\n").map(|length| &page[begin..begin + length]))
}

/// A text in which these are others; each has to be there.
pub fn replaced_in(text: &str, replaced: &[(&str, &str)]) -> Result<String, String> {
    replaced.iter().try_fold(text.to_owned(), |text, (from, to)| {
        if text.contains(from) { Ok(text.replace(from, to)) } else { Err(format!("the example has no `{from}`")) }
    })
}

/// The words of a command as a shell would read them that knows only quotes and line ends behind a backslash.
pub fn words(command: &str) -> Vec<String> {
    let joined = command.replace("\\\n", " ");
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in joined.chars() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, Some(_) | None) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::{example, words};

    #[test]
    fn examples_are_found_by_language_and_place() {
        let page = "# Title\n\n```kdl\none\n```\n\ntext\n\n```yaml\na: 1\n```\n\n```kdl\ntwo\nthree\n```\n";
        let check = |language, position, expected: Result<&str, &str>| {
            assert_eq!(
                example(page, language, position).as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|text| *text)
            );
        };
        check("kdl", 0, Ok("one\n"));
        check("kdl", 1, Ok("two\nthree\n"));
        check("yaml", 0, Ok("a: 1\n"));
        check("sh", 0, Err("`# Title` has no example 0 in `sh`"));
    }

    #[test]
    fn words_are_those_of_a_shell() {
        let check = |command: &str, expected: &[&str]| assert_eq!(words(command), expected, "for {command}");
        check("a --b=c \\\n  d\n", &["a", "--b=c", "d"]);
        check("A='x $y' B=\"\" \"it's\"", &["A=x $y", "B=", "it's"]);
    }
}
