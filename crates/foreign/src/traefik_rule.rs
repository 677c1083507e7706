//! A rule of Traefik, such as ``Host(`a`) && PathPrefix(`/api`)``, as the lines that say the same here. Help for
//! whoever writes one where an address, a path or a condition is meant; nothing that is read.

use tidegate_kdl::quoted;

/// A matcher of a rule, with what stands in its parentheses.
struct Matcher<'r> {
    is_negated: bool,
    name: &'r str,
    values: Vec<&'r str>,
}

/// The help, when the text is a rule.
pub fn help(text: &str) -> Option<String> {
    let matchers = matchers(text)?;
    if text.contains("||") {
        let is_one_kind = matchers.iter().all(|matcher| matcher.name == matchers[0].name && !matcher.is_negated);
        let can_be_listed = matches!(matchers[0].name, "Host" | "Path" | "PathPrefix");
        if !is_one_kind || !can_be_listed {
            return Some(
                "conditions of a `match` line all have to hold; what stands on either side of `||` is a `match` line, or a `route`, of its own"
                    .into(),
            );
        }
    }
    let (mut hosts, mut paths, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
    for matcher in &matchers {
        let values = matcher.values.iter();
        match matcher.name {
            "HostSNI" => {
                return Some(
                    "connections are handed on by name with `tcp \":443\" { sni \"db.example.com\" { proxy \"10.0.0.9:443\" } }`"
                        .into(),
                );
            }
            "Host" if !matcher.is_negated => hosts.extend(values.map(|host| quoted(host))),
            "Path" if !matcher.is_negated => paths.extend(values.map(|path| quoted(path))),
            "PathPrefix" if !matcher.is_negated => paths.extend(values.map(|path| quoted(&below(path)))),
            "PathRegexp" if !matcher.is_negated => paths.extend(values.map(|path| quoted(&format!("~{path}")))),
            _ => match matcher.condition() {
                Some(condition) => conditions.push(condition),
                None => {
                    return Some("hosts stand behind `site`, paths behind `route`, and the other conditions in `match`".into());
                }
            },
        }
    }
    let hosts = if hosts.is_empty() { "\"example.com\"".to_owned() } else { hosts.join(" ") };
    let conditions = if conditions.is_empty() { String::new() } else { format!("match {}; ", conditions.join(" ")) };
    let proxy = "proxy \"127.0.0.1:9000\"";
    let inside = if paths.is_empty() && conditions.is_empty() {
        proxy.to_owned()
    } else {
        let paths: String = paths.iter().flat_map(|path| [path.as_str(), " "]).collect();
        format!("route {paths}{{ {conditions}{proxy} }}")
    };
    Some(format!("write `site {hosts} {{ {inside} }}`"))
}

impl Matcher<'_> {
    /// As it stands behind `match`.
    fn condition(&self) -> Option<String> {
        let not = if self.is_negated { "not " } else { "" };
        Some(match (self.name, self.values.as_slice()) {
            ("Host", [host, ..]) => format!("{not}host={}", quoted(host)),
            ("Path", [path, ..]) => format!("{not}path={}", quoted(path)),
            ("PathPrefix", [path, ..]) => format!("{not}path={}", quoted(&below(path))),
            ("Method", values) => format!("{not}method={}", quoted(&values.join(","))),
            ("ClientIP", values) => format!("{not}client={}", quoted(&values.join(","))),
            ("Header" | "Headers", [name, value]) => format!("{not}header={}", quoted(&format!("{name}: {value}"))),
            ("Query", [name, value]) => format!("{not}query={}", quoted(&format!("{name}={value}"))),
            _ => return None,
        })
    }
}

/// `/api` and what is below it.
fn below(prefix: &str) -> String {
    format!("{}/*", prefix.trim_end_matches('/'))
}

fn matchers(text: &str) -> Option<Vec<Matcher<'_>>> {
    const NAMES: [&str; 12] = [
        "Host",
        "HostRegexp",
        "HostSNI",
        "Path",
        "PathPrefix",
        "PathRegexp",
        "Method",
        "Header",
        "Headers",
        "HeaderRegexp",
        "Query",
        "ClientIP",
    ];
    let mut matchers = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        let before = rest[..open].trim_end();
        let name_start = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let name = &before[name_start..];
        if name.is_empty() {
            // A group of its own.
            rest = &rest[open + 1..];
            continue;
        }
        let close = open + rest[open..].find(')')?;
        if !NAMES.contains(&name) {
            return None;
        }
        let values = rest[open + 1..close].split(',').map(|value| value.trim().trim_matches(['`', '"', '\''])).collect();
        matchers.push(Matcher { is_negated: before[..name_start].trim_end().ends_with('!'), name, values });
        rest = &rest[close + 1..];
    }
    (!matchers.is_empty()).then_some(matchers)
}

#[cfg(test)]
mod tests {
    use super::help;

    #[test]
    fn a_rule_is_told_as_lines_of_ours() {
        let check = |rule: &str, expected: Option<&str>| assert_eq!(help(rule).as_deref(), expected, "{rule}");
        check("Host(`a.test`)", Some("write `site \"a.test\" { proxy \"127.0.0.1:9000\" }`"));
        check(
            "Host(`a.test`) && PathPrefix(`/api`)",
            Some("write `site \"a.test\" { route \"/api/*\" { proxy \"127.0.0.1:9000\" } }`"),
        );
        check("Host(`a.test`) || Host(`b.test`)", Some("write `site \"a.test\" \"b.test\" { proxy \"127.0.0.1:9000\" }`"));
        check(
            "Host(`a.test`) && !Method(`GET`, `HEAD`) && Header(`X-A`, `b`)",
            Some(
                "write `site \"a.test\" { route { match not method=\"GET,HEAD\" header=\"X-A: b\"; proxy \"127.0.0.1:9000\" } }`",
            ),
        );
        check("example.com", None);
        check("a(b", None);
        check("fn(x)", None);
        assert!(help("Host(`a`) && (Path(`/b`) || Method(`GET`))").is_some_and(|help| help.contains("||")));
    }

    #[test]
    fn no_text_makes_it_panic() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            let _ = help(text);
        });
    }
}
