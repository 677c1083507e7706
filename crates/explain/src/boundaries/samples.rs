//! Texts that an expression takes: few and short ones, one for each way through it as far as that is not many.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Of one expression.
const SAMPLES_MAX: usize = 8;
/// Classes of more letters have one sample.
const LETTERS_MAX: usize = 4;
const SAMPLE_BYTES_MAX: usize = 512;

/// Texts that the expression finds itself in; none where it cannot be read.
pub fn samples(text: &str) -> Vec<String> {
    let Ok(hir) = regex_syntax::parse(text) else { return Vec::new() };
    let mut all = of(&hir);
    all.retain(|sample| !sample.is_empty() && sample.len() <= SAMPLE_BYTES_MAX);
    all.dedup();
    all
}

fn of(hir: &Hir) -> Vec<String> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![String::new()],
        HirKind::Literal(literal) => vec![String::from_utf8_lossy(&literal.0).into_owned()],
        HirKind::Class(class) => letters_of(class),
        HirKind::Repetition(repetition) => {
            let inner = of(&repetition.sub);
            let least = (repetition.min as usize).min(SAMPLE_BYTES_MAX);
            let more = repetition.max.is_none_or(|max| max as usize > least).then_some(least + 1);
            let times = [Some(least), more].into_iter().flatten();
            // What may be missing is there in the first sample, as it mostly is.
            let times: Vec<usize> = if least == 0 { times.rev().collect() } else { times.collect() };
            times.into_iter().flat_map(|times| inner.iter().map(move |text| repeated(text, times))).take(SAMPLES_MAX).collect()
        }
        HirKind::Capture(capture) => of(&capture.sub),
        HirKind::Concat(parts) => parts.iter().fold(vec![String::new()], |all, part| {
            let behind = of(part);
            let joined = |text: &String| behind.iter().map(|end| cut(format!("{text}{end}"))).collect::<Vec<String>>();
            all.iter().flat_map(joined).take(SAMPLES_MAX).collect()
        }),
        HirKind::Alternation(ways) => ways.iter().flat_map(of).take(SAMPLES_MAX).collect(),
    }
}

fn repeated(text: &str, times: usize) -> String {
    text.repeat(times.min(SAMPLE_BYTES_MAX / text.len().max(1)))
}

/// Longer ones are dropped in the end, and cost no more until then.
fn cut(mut text: String) -> String {
    let end = text.char_indices().map(|(at, _)| at).find(|at| *at > SAMPLE_BYTES_MAX);
    text.truncate(end.unwrap_or(text.len()));
    text
}

/// Letters of a class: all of a few, large and small ones as one; of many one that is easily read.
fn letters_of(class: &Class) -> Vec<String> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect(),
    };
    let is_in = |wanted: &char| ranges.iter().any(|(first, last)| (first..=last).contains(&wanted));
    let mut letters: Vec<char> = (' '..='~').filter(is_in).collect();
    letters.retain(|letter| !letter.is_ascii_uppercase() || !is_in(&letter.to_ascii_lowercase()));
    if !letters.is_empty() && letters.len() <= LETTERS_MAX {
        return letters.into_iter().map(String::from).collect();
    }
    let known = ['x', '0', 'X', '-', '/'].into_iter().find(is_in);
    vec![known.or_else(|| letters.first().copied()).unwrap_or('x').to_string()]
}

#[cfg(test)]
mod tests {
    use super::samples;

    #[test]
    fn an_expression_has_texts_that_it_takes() {
        let check = |text: &str, expected: &[&str]| assert_eq!(samples(text), expected, "{text}");
        check("^/old/(.*)$", &["/old/x", "/old/"]);
        check("^/(en|de)/", &["/en/", "/de/"]);
        check("(?i)\\.php$", &[".php"]);
        check("[0-9]{3}", &["000"]);
        check("(", &[]);
        for text in ["^/(a|b)?(c|d)*x$", "(?i)^/[a-z]+\\.(css|js)$", "^.{600}$", "((a{99}){99}){99}"] {
            let expression = regex_syntax::parse(text).map(|_| ());
            assert_eq!(expression, Ok(()), "{text}");
            assert!(samples(text).iter().all(|sample| sample.len() <= 512), "{text}");
        }
    }
}
