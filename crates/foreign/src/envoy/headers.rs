//! Changes of header fields in Envoy, on every level, as steps of ours.

use crate::accounts::Origin;
use crate::texts::literal;
use crate::tree::Tree;
use tidegate_kdl::quoted;

const OWN: [&str; 7] = ["connection", "content-length", "transfer-encoding", "upgrade", "keep-alive", "te", "trailer"];

const REMOVED: &str = "its value is none that is told here, so that what clients send in it is taken out and nothing takes its place: \
                       `request-header` says another value";

/// Steps for all that is added and removed there; what cannot be said stays unclaimed.
pub fn changes(tree: &Tree, steps: &mut Vec<String>, origin: &mut Origin) {
    for (list, word) in [("request_headers_to_add", "request-header"), ("response_headers_to_add", "header")] {
        for option in tree.get(list).items() {
            let header = option.get("header");
            let (Some(name), Some(value)) = (header.get("key").text(), header.get("value").text()) else { continue };
            if !is_name(name) || OWN.contains(&name.to_ascii_lowercase().as_str()) {
                continue;
            }
            let action = option.get("append_action").text();
            let is_replaced = matches!(action, Some("OVERWRITE_IF_EXISTS_OR_ADD" | "OVERWRITE_IF_EXISTS" | "2" | "3"))
                || option.get("append").text() == Some("false");
            let is_default = matches!(action, Some("ADD_IF_ABSENT" | "1"));
            let value = format(value).ok().filter(|value| word == "header" || !value.contains("{response."));
            let Some(value) = value else {
                // Servers must not take for the proxy's what a client has sent.
                if word == "request-header" && is_replaced {
                    steps.push(format!("request-header remove={}", quoted(name)));
                    option.statements().into_iter().for_each(|at| origin.differ(at, REMOVED));
                }
                continue;
            };
            let line = format!("{name}: {value}");
            steps.push(match (is_default, is_replaced || name.eq_ignore_ascii_case("host")) {
                (true, _) => format!("{word} default={}", quoted(&line)),
                (false, true) => format!("{word} {} {}", quoted(name), quoted(&value)),
                (false, false) => format!("{word} add={}", quoted(&line)),
            });
            origin.carry_all(option.statements());
        }
    }
    for (list, word) in [("request_headers_to_remove", "request-header"), ("response_headers_to_remove", "header")] {
        let names = tree.get(list);
        let known = |name: &String| is_name(name) && !OWN.contains(&name.to_ascii_lowercase().as_str()) && name != "host";
        let names_told: Vec<String> = names.texts().into_iter().filter(known).collect();
        if names_told.is_empty() {
            continue;
        }
        let removed: Vec<String> = names_told.iter().map(|name| format!("remove={}", quoted(name))).collect();
        steps.push(format!("{word} {}", removed.join(" ")));
        origin.carry_all(names.statements());
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// `%REQ(X)%` as `{request.header.X}`; `Err` says what has no equal.
pub fn format(written: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = written;
    while let Some(at) = rest.find('%') {
        text.push_str(&literal(&rest[..at]));
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            text.push('%');
            rest = behind;
            continue;
        }
        let end = rest.find('%').ok_or("a `%` in its text has no end")?;
        let command = &rest[..end];
        rest = &rest[end + 1..];
        let argument = |name: &str| command.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        let field = |kind: &str, name: &str| is_name(name).then(|| format!("{{{kind}.header.{name}}}"));
        let known = match command {
            "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" | "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT" => {
                Some("{client.ip}".to_owned())
            }
            "DOWNSTREAM_REMOTE_PORT" | "DOWNSTREAM_DIRECT_REMOTE_PORT" => Some("{client.port}".to_owned()),
            "DOWNSTREAM_REMOTE_ADDRESS" => Some("{client.ip}:{client.port}".to_owned()),
            "REQUESTED_SERVER_NAME" => Some("{tls.sni}".to_owned()),
            "DOWNSTREAM_TLS_VERSION" => Some("{tls.version}".to_owned()),
            "DOWNSTREAM_PEER_SUBJECT" => Some("{tls.client.subject}".to_owned()),
            "DOWNSTREAM_PEER_ISSUER" => Some("{tls.client.issuer}".to_owned()),
            "DOWNSTREAM_PEER_SERIAL" => Some("{tls.client.serial}".to_owned()),
            "DOWNSTREAM_PEER_FINGERPRINT_256" => Some("{tls.client.fingerprint}".to_owned()),
            "UPSTREAM_HOST" => Some("{upstream.address}".to_owned()),
            "STREAM_ID" => Some("{request.id}".to_owned()),
            "REQ(:AUTHORITY)" | "REQ(:authority)" => Some("{host}".to_owned()),
            "REQ(:PATH)" | "REQ(:path)" => Some("{uri}".to_owned()),
            "REQ(:METHOD)" | "REQ(:method)" => Some("{method}".to_owned()),
            "REQ(:SCHEME)" | "REQ(:scheme)" => Some("{scheme}".to_owned()),
            "REQ(X-REQUEST-ID)" | "REQ(x-request-id)" => Some("{request.id}".to_owned()),
            _ => argument("REQ")
                .and_then(|name| field("request", name))
                .or_else(|| argument("RESP").and_then(|name| field("response", name))),
        };
        let name = command.split('(').next().unwrap_or_default();
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(48).collect();
        text.push_str(&known.ok_or_else(|| format!("`%{name}%` of its text has no equal"))?);
    }
    text.push_str(&literal(rest));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn texts_have_placeholders() {
        let check = |written: &str, expected: Result<&str, &str>| {
            let seen = format(written);
            assert_eq!(seen.as_deref().map_err(String::as_str), expected, "for {written}");
        };
        check("a{b} 100%%", Ok("a{{b}} 100%"));
        check("%REQ(X-Key)%-%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", Ok("{request.header.X-Key}-{client.ip}"));
        check("%CEL(x)%", Err("`%CEL%` of its text has no equal"));
        check("50%", Err("a `%` in its text has no end"));
    }
}
