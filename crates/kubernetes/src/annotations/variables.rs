//! Texts with variables of nginx as templates.

use tidegate_model::{Placeholder, Template, TemplatePart};

/// The text as a template; `Err` names the variable that cannot be had. With `captures`, `$1` is what an expression has
/// found.
pub fn template(text: &str, captures: bool) -> Result<Template, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        literal(&mut parts, before);
        let (name, behind) = name_in(behind);
        parts.push(match name.parse::<usize>() {
            Ok(number) if captures => TemplatePart::Capture(number),
            Ok(_) | Err(_) => TemplatePart::Placeholder(placeholder(name).ok_or_else(|| format!("${name}"))?),
        });
        rest = behind;
    }
    literal(&mut parts, rest);
    Ok(Template { parts })
}

fn literal(parts: &mut Vec<TemplatePart>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(TemplatePart::Literal(known)) => known.push_str(text),
        _ => parts.push(TemplatePart::Literal(text.to_owned())),
    }
}

/// The name of a variable, with or without braces, and what follows it.
pub fn name_in(text: &str) -> (&str, &str) {
    if let Some((name, behind)) = text.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
        return (name, behind);
    }
    let is_of_digits = text.starts_with(|c: char| c.is_ascii_digit());
    let is_part = |c: char| if is_of_digits { c.is_ascii_digit() } else { c.is_ascii_alphanumeric() || c == '_' };
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

pub fn placeholder(name: &str) -> Option<Placeholder> {
    let of_head = |name: &str| name.replace('_', "-").to_ascii_lowercase();
    Some(match name {
        "host" | "best_http_host" | "server_name" => Placeholder::Host,
        "scheme" => Placeholder::Scheme,
        "request_uri" => Placeholder::Uri,
        "uri" => Placeholder::Path,
        "args" | "query_string" => Placeholder::Query,
        "request_method" => Placeholder::Method,
        "remote_addr" => Placeholder::ClientIp,
        _ => match (name.strip_prefix("http_"), name.strip_prefix("cookie_")) {
            (Some(header), _) if !header.is_empty() => Placeholder::RequestHeader(of_head(header)),
            (None, Some(cookie)) if !cookie.is_empty() => Placeholder::RequestCookie(cookie.to_owned()),
            (Some(_) | None, _) => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::template;

    #[test]
    fn variables_are_placeholders() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let seen = template(text, true).map(|template| template.to_string());
            assert_eq!(seen.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("", Ok(""));
        check("/a", Ok("/a"));
        check("/$2", Ok("/$2"));
        check("/$1-$2/x", Ok("/$1-$2/x"));
        check("/${1}0", Ok("/$10"));
        check("https://$host$request_uri", Ok("https://{host}{uri}"));
        check("$scheme://$http_host/a?$args", Ok("{scheme}://{request.header.host}/a?{query}"));
        check("$http_x_a$cookie_b", Ok("{request.header.x-a}{request.cookie.b}"));
        check("/{x}", Ok("/{{x}}"));
        check("/$nothing", Err("$nothing"));
        check("/$", Err("$"));
        check("/$http_", Err("$http_"));
    }

    #[test]
    fn without_an_expression_there_is_nothing_found() {
        assert_eq!(template("/$1", false), Err("$1".to_owned()));
    }
}
