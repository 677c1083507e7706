//! Placeholders of Caddy in our words, in one table for a Caddyfile and its JSON.

/// Short and long names, and ours.
const NAMES: &[(&[&str], &str)] = &[
    (&["host", "http.request.host"], "{host}"),
    (&["hostport", "http.request.hostport"], "{request.header.Host}"),
    (&["path", "http.request.uri.path"], "{path}"),
    (&["uri", "http.request.uri", "http.request.orig_uri"], "{uri}"),
    (&["query", "http.request.uri.query"], "{query}"),
    (&["method", "http.request.method"], "{method}"),
    (&["scheme", "http.request.scheme"], "{scheme}"),
    (&["remote_host", "http.request.remote.host", "client_ip", "http.vars.client_ip"], "{client.ip}"),
    (&["remote_port", "http.request.remote.port"], "{client.port}"),
    (&["remote", "http.request.remote"], "{client.ip}:{client.port}"),
    (&["uuid", "http.request.uuid"], "{request.id}"),
    (&["tls_version", "http.request.tls.version"], "{tls.version}"),
    (&["http.request.tls.server_name"], "{tls.sni}"),
    (&["tls_client_subject", "http.request.tls.client.subject"], "{tls.client.subject}"),
    (&["tls_client_issuer", "http.request.tls.client.issuer"], "{tls.client.issuer}"),
    (&["tls_client_serial", "http.request.tls.client.serial"], "{tls.client.serial}"),
    (&["tls_client_fingerprint", "http.request.tls.client.fingerprint"], "{tls.client.fingerprint}"),
    (&["http.auth.user.id"], "{auth.user}"),
    (&["time.now.unix_ms"], "{time.unix_ms}"),
    (&["err.status_code", "http.error.status_code"], "{status}"),
    (&["err.status_text", "http.error.status_text"], "{status_text}"),
];

/// The name that a prefix of Caddy's is ours by.
const FAMILIES: &[(&[&str], &str)] = &[
    (&["header.", "http.request.header."], "request.header."),
    (&["cookie.", "http.request.cookie."], "request.cookie."),
    (&["env."], "env."),
    (&["file."], "file."),
    (&["rp.header.", "http.reverse_proxy.header.", "resp.header.", "http.response.header."], "response.header."),
];

/// A text of Caddy as one of ours, with braces that stand for themselves; `None` where a placeholder has no equal.
pub fn template(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}', '\\']) {
        out.push_str(&rest[..at]);
        let behind = &rest[at..];
        if let Some(brace) = behind.strip_prefix('\\').and_then(|behind| behind.chars().next()).filter(|c| "{}".contains(*c)) {
            out.push(brace);
            out.push(brace);
            rest = &behind[2..];
        } else if let Some(escaped) = behind.strip_prefix('\\') {
            out.push('\\');
            rest = escaped;
        } else if let Some((name, after)) = placeholder(behind) {
            out.push_str(&ours(name)?);
            rest = after;
        } else {
            let brace = &behind[..1];
            out.push_str(brace);
            out.push_str(brace);
            rest = &behind[1..];
        }
    }
    Some(out + rest)
}

/// A text that takes no placeholders of requests: those of the environment and of files alone.
pub fn fixed(text: &str) -> Option<String> {
    let out = template(text)?;
    let is_open = out.replace("{{", "").replace("}}", "").replace("{env.", "").replace("{file.", "").contains('{');
    (!is_open).then_some(out)
}

/// The name of the placeholder that begins there, and what is behind it.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix('{')?.split_once('}')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-$:*/[] ".contains(c);
    let is_one = name.starts_with('$') || (!name.is_empty() && name.chars().all(is_name) && !name.contains([' ', ':']));
    is_one.then_some((name, after))
}

fn ours(name: &str) -> Option<String> {
    if let Some(variable) = name.strip_prefix('$') {
        return Some(format!("{{env.{}}}", variable.replacen(':', ":-", 1)));
    }
    if let Some((_, ours)) = NAMES.iter().find(|(names, _)| names.contains(&name)) {
        return Some((*ours).to_owned());
    }
    FAMILIES.iter().find_map(|(prefixes, ours)| {
        let rest = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
        (!rest.is_empty()).then(|| format!("{{{ours}{rest}}}"))
    })
}

/// Where groups of the expression of a matcher stand in it, as `$1`; with the name of the matcher where it is said.
pub fn with_groups(text: &str) -> Option<(String, Option<String>)> {
    let mut out = String::new();
    let mut rest = text;
    let mut of = None;
    let mut is_any = false;
    while let Some(at) = rest.find("{re.").or_else(|| rest.find("{http.regexp.")) {
        let (name, after) = rest[at..].split_once('}')?;
        let name = name.trim_start_matches("{re.").trim_start_matches("{http.regexp.");
        let (matcher, group) = match name.rsplit_once('.') {
            Some((matcher, group)) => (Some(matcher.to_owned()), group),
            None => (None, name),
        };
        let number: u8 = group.parse().ok()?;
        out.push_str(&rest[..at].replace('$', "$$"));
        out.push_str(&format!("${number}"));
        // A digit behind it would be another group.
        if after.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        of = matcher.or(of);
        is_any = true;
        rest = after;
    }
    out.push_str(&rest.replace('$', "$$"));
    is_any.then_some((out, of))
}

#[cfg(test)]
mod tests {
    use super::{fixed, template, with_groups};

    #[test]
    fn placeholders_have_our_names() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(template(text).as_deref(), expected, "{text}");
        check("{host}{uri}", Some("{host}{uri}"));
        check("{http.request.header.X-A}-{$B:c}", Some("{request.header.X-A}-{env.B:-c}"));
        check("{\"a\": 1}", Some("{{\"a\": 1}}"));
        check("\\{a\\}", Some("{{a}}"));
        check("{labels.1}", None);
        check("a { b }", Some("a {{ b }}"));
        assert_eq!(fixed("/srv/{env.A}").as_deref(), Some("/srv/{env.A}"));
        assert_eq!(fixed("/srv/{host}"), None);
        assert_eq!(with_groups("/a/{re.x.1}$"), Some(("/a/$1$$".into(), Some("x".into()))));
        assert_eq!(with_groups("/a"), None);
    }
}
