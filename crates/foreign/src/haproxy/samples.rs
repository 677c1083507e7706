//! How HAProxy takes apart what clients send before it compares it: fields at commas, cookies at semicolons and commas,
//! the query at `&` and `;`. What is compared with an element there is an expression of the whole here.
//!
//! Quoted parts are no exception here: who can send an element in quotes can send it without them as well.

use super::fetches::Comparison;
use tidegate_model::expression;

/// What a fetch looks at, and how it is taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampled<'f> {
    /// `req.fhdr`: each line of a field, as it was sent.
    Line,
    /// `hdr`: each element of each line.
    Element,
    /// `cook`: each cookie of that name.
    Cookie(&'f str),
    /// `urlp`: each parameter of that name, as it was sent.
    Parameter(&'f str),
}

/// Why a value is not compared.
pub const NO_EXPRESSION: &str = "its expression is none of ours, or its values are compared as conditions here do not";
const AT_COMMAS: &str =
    "HAProxy takes the field apart at commas and quotes, and this value has one: `req.fhdr` compares the whole of it";
const PARTED: &str = "the value has what HAProxy takes a cookie or a query apart at, so that it never fits there";
const ANCHORED: &str = "its expression asks for the beginning or the end of a value within alternatives";
/// How a rule differs whose expression may go over a comma.
pub const OVER_COMMAS: &str = "its expression is compared with the whole of the field, which HAProxy takes apart at commas: what it finds on both sides of one fits here";

impl Sampled<'_> {
    /// What separates elements, as members of a set.
    pub fn separators(self) -> &'static str {
        match self {
            Sampled::Line => "",
            Sampled::Element => ",",
            Sampled::Cookie(_) => ";,",
            Sampled::Parameter(_) => "&;?",
        }
    }

    /// What stands in front of the value in an element.
    fn before(self) -> String {
        let escaped = regex_syntax::escape;
        match self {
            Sampled::Line => "^".to_owned(),
            Sampled::Element => "(?:^|,)[ \\t]*".to_owned(),
            Sampled::Cookie(name) => format!("(?:^|[;,])[ \\t]*{}[ \\t]*=[ \\t]*", escaped(name)),
            Sampled::Parameter(name) => format!("(?:^|[&;?]){}=", escaped(name)),
        }
    }

    /// What stands behind it.
    fn behind(self) -> &'static str {
        match self {
            Sampled::Line => "$",
            Sampled::Element => "[ \\t]*(?:,|$)",
            Sampled::Cookie(_) => "[ \\t]*(?:[;,]|$)",
            Sampled::Parameter(_) => "(?:[&;?]|$)",
        }
    }

    /// What stands between the beginning of an element and what is looked for within it.
    fn up_to(self) -> String {
        match self {
            // A value that no separator is in lies in one element wherever it stands.
            Sampled::Line | Sampled::Element => String::new(),
            Sampled::Cookie(_) => format!("{}[^;,\"]*(?:\".*)?", self.before()),
            Sampled::Parameter(_) => format!("{}[^&;?]*", self.before()),
        }
    }

    /// The expression of a whole line, or of the whole query, of which an element fits; `Err` says why there is none.
    pub fn expression(self, value: &str, comparison: Comparison, is_case_blind: bool) -> Result<String, &'static str> {
        if comparison == Comparison::Expression {
            return self.fitting(value, is_case_blind);
        }
        if value.contains(|c| self.separators().contains(c)) || (value.contains('"') && self != Sampled::Line) {
            return Err(if self == Sampled::Element { AT_COMMAS } else { PARTED });
        }
        let blind = |text: String| if is_case_blind { format!("(?i:{text})") } else { text };
        let escaped = blind(regex_syntax::escape(value));
        let between = |marks: &str| {
            let inner = value.trim_matches(|c| marks.contains(c));
            let inner = (!inner.is_empty()).then(|| blind(regex_syntax::escape(inner))).ok_or(NO_EXPRESSION)?;
            let start = match self {
                Sampled::Line | Sampled::Element => format!("(?:{}|[{marks}])", self.before()),
                Sampled::Cookie(_) | Sampled::Parameter(_) => format!("{}(?:{}[{marks}])?", self.before(), self.rest()),
            };
            Ok(format!("{start}{inner}(?:{}|[{marks}])", self.behind()))
        };
        match comparison {
            Comparison::Whole => Ok(format!("{}{escaped}{}", self.before(), self.behind())),
            Comparison::Beginning => Ok(format!("{}{escaped}", self.before())),
            Comparison::End => Ok(format!("{}{escaped}{}", self.up_to(), self.behind())),
            Comparison::Part => Ok(format!("{}{escaped}", self.up_to())),
            Comparison::Folder => between("/?"),
            Comparison::Label => between("/?.:"),
            Comparison::Found => Ok(match self {
                Sampled::Line | Sampled::Element => String::new(),
                Sampled::Cookie(name) => format!("(?:^|[;,])[ \\t]*{}[ \\t]*(?:[=;,]|$)", regex_syntax::escape(name)),
                Sampled::Parameter(_) => self.before(),
            }),
            Comparison::Expression | Comparison::Network | Comparison::Number | Comparison::Length | Comparison::Yes => {
                Err(NO_EXPRESSION)
            }
        }
    }

    /// What an element has in front of a part of it.
    fn rest(self) -> &'static str {
        if matches!(self, Sampled::Parameter(_)) { "[^&;?]*" } else { "[^;,\"]*(?:\".*)?" }
    }

    fn fitting(self, written: &str, is_case_blind: bool) -> Result<String, &'static str> {
        expression(written).build().map_err(|_| NO_EXPRESSION)?;
        let blind = |text: &str| if is_case_blind { format!("(?i:{text})") } else { text.to_owned() };
        match self {
            Sampled::Line if is_case_blind => Ok(format!("(?i){written}")),
            Sampled::Line => Ok(written.to_owned()),
            Sampled::Element => {
                let text = with_anchors(written, "(?:^|,[ \\t]*)", "(?:[ \\t]*,|$)").ok_or(NO_EXPRESSION)?;
                Ok(if is_case_blind { format!("(?i){text}") } else { text })
            }
            Sampled::Cookie(_) | Sampled::Parameter(_) => {
                let (start, rest) = match written.strip_prefix('^') {
                    Some(rest) => (self.before(), rest),
                    None => (self.up_to(), written),
                };
                let (middle, end) = match rest.strip_suffix('$').filter(|middle| !middle.ends_with('\\')) {
                    Some(middle) => (middle, self.behind()),
                    None => (rest, ""),
                };
                // Alternatives at the outside would each have anchors of their own.
                let is_anchored = start == self.before() || !end.is_empty();
                let has_more = with_anchors(middle, "", "").is_none_or(|bare| bare != middle);
                if has_more || (is_anchored && expression(middle).build().is_err()) || (is_anchored && has_bare_bar(middle)) {
                    return Err(ANCHORED);
                }
                Ok(format!("{start}{}{end}", blind(&format!("(?:{middle})"))))
            }
        }
    }
}

/// The expression with other text in the place of `^` and `$`. `None` where it has anchors of other kinds.
fn with_anchors(written: &str, start: &str, end: &str) -> Option<String> {
    let mut out = String::new();
    let mut class_begins: Option<usize> = None;
    let mut chars = written.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (c, class_begins) {
            ('\\', _) => {
                let (_, escaped) = chars.next()?;
                if matches!(escaped, 'A' | 'z' | 'Z' | 'G') {
                    return None;
                }
                out.push('\\');
                out.push(escaped);
            }
            // A bracket that comes first is a member of its set.
            (']', Some(begins)) if at > begins => {
                class_begins = None;
                out.push(c);
            }
            (c, Some(_)) => out.push(c),
            ('[', None) => {
                out.push(c);
                let mut first = at + 1;
                if chars.next_if(|(_, next)| *next == '^').is_some() {
                    out.push('^');
                    first += 1;
                }
                class_begins = Some(first);
            }
            ('^', None) => out.push_str(start),
            ('$', None) => out.push_str(end),
            (c, None) => out.push(c),
        }
    }
    Some(out)
}

/// Whether alternatives stand outside of all groups.
fn has_bare_bar(text: &str) -> bool {
    let (mut depth, mut is_escaped, mut is_in_set) = (0_i32, false, false);
    for c in text.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_in_set = true,
            ']' => is_in_set = false,
            '(' if !is_in_set => depth += 1,
            ')' if !is_in_set => depth -= 1,
            '|' if !is_in_set && depth == 0 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Comparison, Sampled};
    use tidegate_model::expression;

    fn check(sampled: Sampled<'_>, (value, comparison): (&str, Comparison), sent: &str, expected: bool) {
        let text = sampled.expression(value, comparison, false).expect("an expression");
        let fits = expression(&text).build().unwrap_or_else(|why| panic!("{text}: {why}")).is_match(sent.as_bytes());
        assert_eq!(fits, expected, "{value:?} by {comparison:?} in {sent:?}: {text}");
    }

    #[test]
    fn fields_are_lists() {
        use Comparison::{Beginning, End, Expression, Label, Part, Whole};
        for (sent, expected) in [("v", true), ("v,z", true), ("z , v ,y", true), ("vz", false), ("z, vz", false), ("z,v", true)] {
            check(Sampled::Element, ("v", Whole), sent, expected);
            check(Sampled::Element, ("^v$", Expression), sent, expected);
        }
        check(Sampled::Element, ("v", Beginning), "a, vz", true);
        check(Sampled::Element, ("v", Beginning), "a, z v", false);
        check(Sampled::Element, ("v", End), "av ,z", true);
        check(Sampled::Element, ("v", End), "va,z", false);
        check(Sampled::Element, ("v", Part), "a,zvz", true);
        check(Sampled::Element, ("a.b", Label), "x, q.a.b:80", true);
        check(Sampled::Element, ("a.b", Label), "x, qa.b", false);
        check(Sampled::Element, ("(^v|w)[,$^]x$", Expression), "q, v^x", true);
        check(Sampled::Line, ("v", Whole), "v,z", false);
        check(Sampled::Element, ("", Whole), "", true);
        assert!(Sampled::Element.expression("a,b", Whole, false).is_err());
        assert!(Sampled::Line.expression("a,b", Whole, false).is_ok());
    }

    #[test]
    fn cookies_end_at_commas_as_well() {
        use Comparison::{Beginning, End, Expression, Found, Part, Whole};
        let cookie = Sampled::Cookie("k");
        for (sent, expected) in
            [("k=v", true), ("a=1; k = v ", true), ("a=1,k=v", true), ("K=v", false), ("ak=v", false), ("k=vz", false)]
        {
            check(cookie, ("v", Whole), sent, expected);
            check(cookie, ("^v$", Expression), sent, expected);
        }
        check(cookie, ("v", Beginning), "k=vz", true);
        check(cookie, ("v", End), "k=zv;a=1", true);
        check(cookie, ("v", Part), "k=z; a=v", false);
        check(cookie, ("v", Part), "k=\"z; v\"", true);
        check(cookie, ("v|w", Expression), "k=zw", true);
        check(cookie, ("", Found), "a=1;k=", true);
        check(cookie, ("", Found), "ak=1", false);
        assert!(cookie.expression("^a|b", Expression, false).is_err());
    }

    #[test]
    fn parameters_are_raw_and_end_at_semicolons_as_well() {
        use Comparison::{Found, Whole};
        let parameter = Sampled::Parameter("k");
        for (sent, expected) in [("k=v", true), ("a=1;k=v", true), ("a&k=v&b", true), ("k=%76", false), ("k", false)] {
            check(parameter, ("v", Whole), sent, expected);
        }
        check(parameter, ("", Found), "a&k=", true);
        check(parameter, ("", Found), "k", false);
    }
}
