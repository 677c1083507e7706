//! Texts of HAProxy with values in them (`%[src]`, `%ci`) as texts of ours with placeholders.

use super::fetches::Variables;
use super::lexer::OF_ENVIRONMENT;
use crate::texts::literal;

/// A text of ours; `Err` says what in it has no equal.
pub fn template(format: &str, variables: &Variables) -> Result<String, String> {
    if format.contains(OF_ENVIRONMENT) {
        return Err("a part of its text comes from the environment: write it, or `{env.NAME}`".to_owned());
    }
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text.push_str(&literal(&rest[..at]));
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            text.push('%');
            rest = behind;
            continue;
        }
        // `%{+Q}[…]`: how it is quoted.
        if rest.starts_with('{') {
            rest = rest.split_once('}').map_or("", |(_, behind)| behind);
        }
        if let Some(behind) = rest.strip_prefix('[') {
            let end = end_of_expression(behind).ok_or("a `%[` in its text has no end")?;
            text.push_str(&value(&behind[..end], variables)?);
            rest = &behind[end + 1..];
            continue;
        }
        let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        text.push_str(short(&rest[..length]).ok_or_else(|| format!("`%{}` of its text has no equal", &rest[..length]))?);
        rest = &rest[length..];
    }
    text.push_str(&literal(rest));
    Ok(text)
}

fn end_of_expression(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ']' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

fn short(name: &str) -> Option<&'static str> {
    Some(match name {
        "ci" | "Ci" => "{client.ip}",
        "cp" | "Cp" => "{client.port}",
        "HM" => "{method}",
        "HP" | "HPO" => "{path}",
        "HU" | "HPQ" => "{uri}",
        "HQ" => "?{query}",
        "ID" | "rt" => "{request.id}",
        "sslv" => "{tls.version}",
        "si" | "s" => "{upstream.address}",
        _ => return None,
    })
}

/// What an expression stands for, as a placeholder.
fn value(expression: &str, variables: &Variables) -> Result<String, String> {
    const DEPTH_MAX: usize = 8;
    let mut expression = expression.trim().to_owned();
    for _ in 0..DEPTH_MAX {
        let name = expression.strip_prefix("var(").and_then(|rest| rest.split(')').next());
        let Some(known) = name.and_then(|name| variables.get(name)).filter(|known| known.condition.is_none()) else { break };
        let converters = expression.split_once(')').map_or("", |(_, converters)| converters);
        expression = format!("{}{converters}", known.expression);
    }
    if let Some(text) = expression.strip_prefix("str(").and_then(|rest| rest.strip_suffix(')')) {
        return Ok(literal(text));
    }
    if let Some(number) = expression.strip_prefix("int(").and_then(|rest| rest.strip_suffix(')')) {
        return Ok(literal(number));
    }
    let of = |end: &str| {
        let (name, rest) = end.split_once('(')?;
        Some((name.to_owned(), rest.split([')', ',']).next()?.trim().to_owned()))
    };
    // Only of a name nothing changes by these.
    let is_host =
        ["req.hdr(host)", "hdr(host)", "req.fhdr(host)"].iter().any(|host| expression.to_ascii_lowercase().starts_with(host));
    let mut plain = expression.as_str();
    if is_host {
        for converter in [",lower", ",host_only", ",field(1,:)", ",lower"] {
            plain = plain.strip_suffix(converter).unwrap_or(plain);
        }
    }
    let known = match plain {
        "src" => "{client.ip}",
        "src_port" => "{client.port}",
        "method" | "capture.req.method" => "{method}",
        "path" => "{path}",
        "pathq" | "url" | "capture.req.uri" => "{uri}",
        "query" => "{query}",
        "unique-id" | "uuid()" | "uuid" => "{request.id}",
        "ssl_fc_sni" => "{tls.sni}",
        "ssl_fc_protocol" => "{tls.version}",
        "ssl_c_s_dn" => "{tls.client.subject}",
        "ssl_c_i_dn" => "{tls.client.issuer}",
        "fc_pp_authority" => "{proxy_protocol.authority}",
        "fc_pp_unique_id" => "{proxy_protocol.unique_id}",
        "base" => "{host}{path}",
        "req.hdr(host)" | "hdr(host)" | "req.hdr(Host)" | "hdr(Host)" | "req.fhdr(host)" => "{host}",
        _ => "",
    };
    if !known.is_empty() {
        return Ok(known.to_owned());
    }
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let is_whole = plain.matches('(').count() == 1 && plain.ends_with(')');
    match of(plain).filter(|(_, name)| is_name(name) && is_whole) {
        Some((fetch, name)) => match fetch.as_str() {
            "req.hdr" | "hdr" | "req.fhdr" | "fhdr" => Ok(format!("{{request.header.{name}}}")),
            "res.hdr" | "shdr" | "res.fhdr" => Ok(format!("{{response.header.{name}}}")),
            "req.cook" | "cook" => Ok(format!("{{request.cookie.{name}}}")),
            _ => Err(format!("`{fetch}` of its text has no equal")),
        },
        None => {
            let name = plain.split(['(', ',']).next().unwrap_or_default();
            Err(format!("`{name}` of its text, as it is changed there, has no equal"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::template;
    use crate::haproxy::fetches::Variables;

    #[test]
    fn texts_have_placeholders() {
        let check = |format: &str, expected: Result<&str, &str>| {
            let seen = template(format, &Variables::new());
            assert_eq!(seen.as_deref().map_err(String::as_str), expected, "for {format}");
        };
        check("a{b} 100%%", Ok("a{{b}} 100%"));
        check("https://%[hdr(host)]%[capture.req.uri]", Ok("https://{host}{uri}"));
        check("%ci:%cp %[req.cook(sid)]", Ok("{client.ip}:{client.port} {request.cookie.sid}"));
        check("%[str(x)]-%{+Q}[req.hdr(User-Agent)]", Ok("x-{request.header.User-Agent}"));
        check("%[path,lower]", Err("`path` of its text, as it is changed there, has no equal"));
        check("%[req.hdr(host),lower]", Ok("{host}"));
        check("%[rand(5)]", Err("`rand` of its text has no equal"));
        check("%[src", Err("a `%[` in its text has no end"));
    }
}
