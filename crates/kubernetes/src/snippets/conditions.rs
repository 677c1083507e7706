//! Questions of `if`: what is known before a request comes is answered at once, the rest is a condition of a route.

use super::branches::Ground;
use super::maps;
use super::texts::{Text, Values};
use tidegate_model::address::parse_host_pattern;
use tidegate_model::{
    Condition, ConditionKind, Field, HostPattern, MatchLine, PathPattern, Scheme, TextPattern, expression, is_claimed,
};

/// What stands in the parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub about: Text,
    pub test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// Neither empty nor `0`.
    IsTrue,
    Equals {
        value: Text,
        negated: bool,
    },
    /// Known to compile.
    Fits {
        pattern: String,
        negated: bool,
    },
}

/// What is known of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Is(bool),
    When(Condition),
    /// As `When`, but for requests of which nginx and a server may read different values.
    WhenClear {
        condition: Condition,
        unclear: Condition,
    },
}

/// Expressions are compiled for each look at them.
const PATTERN_BYTES_MAX: usize = 2000;

impl Question {
    /// The words behind `if`.
    pub fn read(arguments: &[String]) -> Result<Question, String> {
        let words = without_parentheses(arguments).ok_or("its condition stands in parentheses")?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let variable = |word: &str| {
            let about = Text::read(word)?;
            let is_one = about.as_variable().is_some();
            is_one
                .then_some(about)
                .ok_or_else(|| "its condition is about one variable, as in `if ($request_method = POST)`".to_owned())
        };
        let (about, test) = match words[..] {
            [about] => (variable(about)?, Test::IsTrue),
            [about, operator @ ("=" | "!="), value] => {
                (variable(about)?, Test::Equals { value: Text::read(value)?, negated: operator == "!=" })
            }
            [about, operator @ ("~" | "~*" | "!~" | "!~*"), pattern] => {
                let pattern = if operator.ends_with('*') { format!("(?i){pattern}") } else { pattern.to_owned() };
                check_pattern(&pattern)?;
                (variable(about)?, Test::Fits { pattern, negated: operator.starts_with('!') })
            }
            _ => return Err("its condition is none of `$x`, `$x = y`, `$x != y`, `$x ~ y` and their kin".to_owned()),
        };
        Ok(Question { about, test })
    }

    /// What is known of it, with what variables are worth there.
    pub fn verdict(&self, values: &Values, ground: Ground<'_>) -> Result<Verdict, String> {
        let about = self.about.filled(values)?;
        let test = match &self.test {
            Test::Equals { value, negated } => {
                let value = value.filled(values)?;
                let value = value.as_literal().ok_or("what it compares with is another variable")?;
                AskedTest::Equals(value.to_owned(), *negated)
            }
            Test::IsTrue => AskedTest::IsTrue,
            Test::Fits { pattern, negated } => AskedTest::Fits(pattern, *negated),
        };
        if let Some(literal) = about.as_literal() {
            return test.of_text(literal).map(Verdict::Is);
        }
        let Some(name) = about.as_variable() else {
            return Err("its variable is made of several, which no condition asks".to_owned());
        };
        match name {
            "request_method" => of_method(&test),
            "scheme" => of_scheme(&test),
            "host" => of_host(&test, ground),
            "uri" | "document_uri" => of_path(&test),
            _ => of_client(name, &test, ground),
        }
    }
}

/// What a client says in a field, a cookie or the query.
fn of_client(name: &str, test: &AskedTest<'_>, ground: Ground<'_>) -> Result<Verdict, String> {
    let unknown = || format!("no condition asks about `${name}`");
    let by_map = |name: String| move |value: TextPattern| ConditionKind::Map(Field { name: name.clone(), value });
    if let Some(field) = name.strip_prefix("http_").filter(|field| !matches!(*field, "" | "host")) {
        return of_header(&field.replace('_', "-").to_ascii_lowercase(), test, ground);
    }
    if let Some(argument) = name.strip_prefix("arg_").filter(|argument| !argument.is_empty()) {
        return of_value(test, by_map(maps::of_argument(argument).ok_or_else(unknown)?)).map(Verdict::When);
    }
    let cookie = name.strip_prefix("cookie_").filter(|cookie| !cookie.is_empty()).ok_or_else(unknown)?;
    let condition = of_value(test, by_map(maps::of_cookie(cookie).ok_or_else(unknown)?))?;
    let twice = by_map(maps::of_cookie_twice(cookie).ok_or_else(unknown)?);
    Ok(Verdict::WhenClear { condition, unclear: Condition { negated: false, kind: twice(TextPattern::Present) } })
}

enum AskedTest<'q> {
    IsTrue,
    Equals(String, bool),
    Fits(&'q str, bool),
}

impl AskedTest<'_> {
    fn of_text(&self, text: &str) -> Result<bool, String> {
        Ok(match self {
            AskedTest::IsTrue => !matches!(text, "" | "0"),
            AskedTest::Equals(value, negated) => (text == value) != *negated,
            AskedTest::Fits(pattern, negated) => fits(pattern, text)? != *negated,
        })
    }
}

fn of_method(test: &AskedTest<'_>) -> Result<Verdict, String> {
    let (methods, negated) = match test {
        AskedTest::IsTrue => return Ok(Verdict::Is(true)),
        AskedTest::Equals(value, negated) => (vec![value.clone()], *negated),
        AskedTest::Fits(pattern, negated) => {
            let listed = words_of(pattern).ok_or("methods are named one by one, as in `^(GET|HEAD)$`")?;
            (listed, *negated)
        }
    };
    let is_method =
        |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || b"-_".contains(&byte));
    let methods: Vec<String> = methods.into_iter().filter(is_method).collect();
    if methods.is_empty() {
        return Ok(Verdict::Is(negated));
    }
    Ok(Verdict::When(Condition { negated, kind: ConditionKind::Method(methods) }))
}

fn of_scheme(test: &AskedTest<'_>) -> Result<Verdict, String> {
    let of = |scheme: Scheme| test.of_text(scheme.as_str());
    Ok(match (of(Scheme::Http)?, of(Scheme::Https)?) {
        (true, true) => Verdict::Is(true),
        (false, false) => Verdict::Is(false),
        (is_plain, _) => Verdict::When(Condition { negated: is_plain, kind: ConditionKind::Scheme(Scheme::Https) }),
    })
}

fn of_host(test: &AskedTest<'_>, ground: Ground<'_>) -> Result<Verdict, String> {
    match (ground.host, test) {
        // nginx has it in small letters and without its port.
        (HostPattern::Exact(host), test) => test.of_text(host).map(Verdict::Is),
        (_, AskedTest::IsTrue) => Ok(Verdict::Is(true)),
        (_, AskedTest::Equals(value, negated)) => match parse_host_pattern(value) {
            Ok(host @ HostPattern::Exact(_)) if value.chars().all(|c| !c.is_ascii_uppercase()) => {
                Ok(Verdict::When(Condition { negated: *negated, kind: ConditionKind::Host(vec![host]) }))
            }
            Ok(_) | Err(_) => Err("what it compares `$host` with is not a host".to_owned()),
        },
        (_, AskedTest::Fits(..)) => {
            Err(format!("no condition asks for an expression of `$host` where that is one of many, as of `{}`", ground.host))
        }
    }
}

/// The path as routes compare it: decoded, and without what means nothing in it.
fn of_path(test: &AskedTest<'_>) -> Result<Verdict, String> {
    let (pattern, negated) = match test {
        AskedTest::IsTrue => return Ok(Verdict::Is(true)),
        AskedTest::Equals(value, negated) if !value.starts_with('/') => return Ok(Verdict::Is(*negated)),
        AskedTest::Equals(value, negated) if value.bytes().all(|byte| byte.is_ascii_graphic()) => {
            (format!(r"^{}\z", regex_syntax::escape(value)), *negated)
        }
        AskedTest::Equals(..) => return Err("what it compares the path with has letters that are sent encoded".to_owned()),
        AskedTest::Fits(pattern, negated) => ((*pattern).to_owned(), *negated),
    };
    Ok(Verdict::When(Condition { negated, kind: ConditionKind::Path(vec![PathPattern::Regex(pattern)]) }))
}

fn of_header(name: &str, test: &AskedTest<'_>, ground: Ground<'_>) -> Result<Verdict, String> {
    if !ground.believes && is_claimed(name) {
        return Err(format!(
            "`{name}` is taken out of what clients send, unless `trusted-proxies` of a `listener` says whom to believe"
        ));
    }
    of_value(test, |value| ConditionKind::Header(Field { name: name.to_owned(), value })).map(Verdict::When)
}

/// Of something that may be missing, which is an empty text then.
fn of_value(test: &AskedTest<'_>, kind: impl Fn(TextPattern) -> ConditionKind) -> Result<Condition, String> {
    let when = |negated: bool, value: TextPattern| Condition { negated, kind: kind(value) };
    Ok(match test {
        AskedTest::IsTrue => when(false, TextPattern::Regex("^(?:[^0]|0.)".to_owned())),
        AskedTest::Equals(value, negated) if value.is_empty() => when(!*negated, TextPattern::Regex(".".to_owned())),
        AskedTest::Equals(value, negated) => when(*negated, TextPattern::Exact(value.clone())),
        AskedTest::Fits(pattern, negated) if fits(pattern, "")? => {
            let lines = [when(true, TextPattern::Present), when(false, TextPattern::Regex((*pattern).to_owned()))];
            let lines = lines.into_iter().map(|condition| MatchLine { conditions: vec![condition] }).collect();
            Condition { negated: *negated, kind: ConditionKind::Any(lines) }
        }
        AskedTest::Fits(pattern, negated) => when(*negated, TextPattern::Regex((*pattern).to_owned())),
    })
}

fn fits(pattern: &str, text: &str) -> Result<bool, String> {
    let compiled = expression(pattern).build().map_err(|_| NO_EXPRESSION.to_owned())?;
    Ok(compiled.is_match(text.as_bytes()))
}

const NO_EXPRESSION: &str = "its expression is none that can be had: look-around and back-references are not";

/// Whether the expression can be had, and means the same. `Err` says why not.
pub fn check_pattern(pattern: &str) -> Result<usize, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("its expression is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    if pattern.is_empty() || pattern.chars().any(char::is_control) || is_otherwise(pattern) {
        return Err(NO_EXPRESSION.to_owned());
    }
    let compiled = expression(pattern).build().map_err(|_| NO_EXPRESSION.to_owned())?;
    Ok(compiled.captures_len() - 1)
}

/// Whether nginx would read it otherwise.
fn is_otherwise(pattern: &str) -> bool {
    crate::ingress::translated(pattern).is_none()
}

/// The texts that an expression stands for, which are a few: `^(GET|HEAD)$`.
fn words_of(pattern: &str) -> Option<Vec<String>> {
    let is_loose = pattern.starts_with("(?i)");
    let bare = pattern.trim_start_matches("(?i)").strip_prefix('^')?.strip_suffix('$')?;
    let inner = bare.strip_prefix("(?:").or_else(|| bare.strip_prefix('(')).and_then(|inner| inner.strip_suffix(')'));
    // Without parentheses each anchor is of one alternative alone.
    let inner = inner.or_else(|| Some(bare).filter(|bare| !bare.contains('|')))?;
    let words: Vec<String> =
        inner.split('|').map(|word| if is_loose { word.to_ascii_uppercase() } else { word.to_owned() }).collect();
    words.iter().all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic())).then_some(words)
}

/// The words between parentheses, which may stand by themselves or not.
fn without_parentheses(arguments: &[String]) -> Option<Vec<String>> {
    let mut words = arguments.to_vec();
    let first = words.first()?.strip_prefix('(')?.to_owned();
    words[0] = first;
    let last = words.last()?.strip_suffix(')')?.to_owned();
    let end = words.len() - 1;
    words[end] = last;
    // An empty text that is written stays, as in `= ""`.
    if words.len() > 1 && words[0].is_empty() {
        words.remove(0);
    }
    if words.len() > 1 && arguments.last().is_some_and(|last| last == ")") {
        words.pop();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::super::branches::Ground;
    use super::{Question, Verdict};
    use std::collections::BTreeMap;
    use tidegate_foreign::nginx_words::statements;
    use tidegate_model::HostPattern;

    fn asked(text: &str, host: &HostPattern) -> String {
        let all = statements(&format!("if {text} {{ }}")).expect("an if");
        let ground = Ground { host, believes: false, is_asked: false, has_login: false, rewrites: false, has_networks: false };
        match Question::read(all[0].arguments()).and_then(|question| question.verdict(&BTreeMap::new(), ground)) {
            Ok(Verdict::Is(is)) => is.to_string(),
            Ok(Verdict::When(condition) | Verdict::WhenClear { condition, .. }) => {
                format!("{}{:?}", if condition.negated { "not " } else { "" }, condition.kind)
            }
            Err(why) => format!("none: {why}"),
        }
    }

    #[test]
    fn questions_are_conditions_or_answered() {
        let shop = HostPattern::Exact("shop.example.com".to_owned());
        let check = |text: &str, expected: &str| assert_eq!(asked(text, &shop), expected, "{text}");
        check("($request_method = POST)", "Method([\"POST\"])");
        check("( $request_method != POST )", "not Method([\"POST\"])");
        check("($request_method !~ ^(GET|HEAD)$ )", "not Method([\"GET\", \"HEAD\"])");
        check("($request_method ~* ^post$)", "Method([\"POST\"])");
        check("($request_method = '')", "false");
        check("($request_method)", "true");
        check("($scheme = http)", "not Scheme(Https)");
        check("($scheme != http)", "Scheme(Https)");
        check("($scheme = ftp)", "false");
        check("($uri = /a.b)", "Path([Regex(\"^/a\\\\.b\\\\z\")])");
        check("($uri != /)", "not Path([Regex(\"^/\\\\z\")])");
        check("($document_uri ~* \\.php$)", "Path([Regex(\"(?i)\\\\.php$\")])");
        check("($uri !~ ^/a)", "not Path([Regex(\"^/a\")])");
        check("($uri = a)", "false");
        check("($arg_Debug = 1)", "Map(Field { name: \"nginx-arg-debug\", value: Exact(\"1\") })");
        check("($arg_a = '')", "not Map(Field { name: \"nginx-arg-a\", value: Regex(\".\") })");
        check("($cookie_beta)", "Map(Field { name: \"nginx-cookie-beta\", value: Regex(\"^(?:[^0]|0.)\") })");
        check("($host = shop.example.com)", "true");
        check("($host ~* ^www\\.)", "false");
        check("($http_x_key = \"\")", "not Header(Field { name: \"x-key\", value: Regex(\".\") })");
        check("($http_x_key != 'a b')", "not Header(Field { name: \"x-key\", value: Exact(\"a b\") })");
        check("($http_user_agent ~* (bot|spider))", "Header(Field { name: \"user-agent\", value: Regex(\"(?i)(bot|spider)\") })");
        check("($http_x)", "Header(Field { name: \"x\", value: Regex(\"^(?:[^0]|0.)\") })");
    }

    #[test]
    fn what_is_not_there_fits_an_expression_of_nothing() {
        let shown = asked("($http_x !~ ^a*$)", &HostPattern::Any);
        assert!(shown.starts_with("not Any(") && shown.contains("Present") && shown.contains("^a*$"), "{shown}");
    }

    #[test]
    fn what_cannot_be_asked_says_so() {
        let check = |text: &str, expected: &str| {
            let seen = asked(text, &HostPattern::Any);
            assert!(seen.starts_with("none: ") && seen.contains(expected), "{text}: {seen}");
        };
        check("$host = a", "parentheses");
        check("($host ~ ^a)", "one of many");
        check("($host = A)", "not a host");
        check("($http_host = a)", "`$http_host`");
        check("($uri = \"/a b\")", "sent encoded");
        check("($request_uri ~ ^/a)", "`$request_uri`");
        check("($arg_ = 1)", "`$arg_`");
        check("($request_method ~ GET|POST)", "one by one");
        check("($request_method ~ ^GET|POST$)", "one by one");
        check("($http_x ~ a(?!b))", "look-around");
        check("($http_x ~ [a&&b])", "look-around");
        check("($http_x ~ \\<a)", "look-around");
        check("($http_x = $http_y)", "another variable");
        check("(a = b)", "one variable");
        check("($a $b $c $d)", "none of");
        check("(-f $request_filename)", "none of");
        check("($http_x_forwarded_for ~ ^10)", "trusted-proxies");
    }
}
