//! A log format of nginx as a template of ours.

use crate::annotations::{name_in, placeholder};
use tidegate_model::{LogField, Placeholder, Template, TemplatePart};

/// Variables that lines of the log have, beside those of annotations.
const OF_LOGS: [(&str, Placeholder); 18] = [
    ("body_bytes_sent", Placeholder::Log(LogField::ResponseBytes)),
    ("bytes_sent", Placeholder::Log(LogField::ResponseBytes)),
    ("proxy_add_x_forwarded_for", Placeholder::ClientIp),
    ("proxy_protocol_addr", Placeholder::ClientIp),
    ("proxy_upstream_name", Placeholder::Log(LogField::Pool)),
    ("remote_port", Placeholder::ClientPort),
    ("remote_user", Placeholder::AuthUser),
    ("req_id", Placeholder::RequestId),
    ("request_id", Placeholder::RequestId),
    ("request_length", Placeholder::Log(LogField::RequestBytes)),
    ("server_protocol", Placeholder::Log(LogField::Protocol)),
    ("ssl_protocol", Placeholder::TlsVersion),
    ("status", Placeholder::Log(LogField::Status)),
    ("the_real_ip", Placeholder::ClientIp),
    ("time_iso8601", Placeholder::Log(LogField::Time)),
    ("time_local", Placeholder::Log(LogField::Time)),
    ("upstream_addr", Placeholder::UpstreamAddress),
    ("upstream_status", Placeholder::Log(LogField::UpstreamStatus)),
];

/// `Err` names a variable that is not known.
pub fn template(text: &str) -> Result<Template, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        literal(&mut parts, before);
        let (name, behind) = name_in(behind);
        let of_logs = OF_LOGS.iter().find(|(known, _)| *known == name).map(|(_, ours)| ours.clone());
        match of_logs.or_else(|| placeholder(name)) {
            Some(known) => parts.push(TemplatePart::Placeholder(known)),
            None if name == "request" => {
                for (blank, known) in
                    [("", Placeholder::Method), (" ", Placeholder::Uri), (" ", Placeholder::Log(LogField::Protocol))]
                {
                    literal(&mut parts, blank);
                    parts.push(TemplatePart::Placeholder(known));
                }
            }
            None => return Err(format!("${name}")),
        }
        rest = behind;
    }
    literal(&mut parts, rest);
    Ok(Template { parts })
}

/// A line is one line.
fn literal(parts: &mut Vec<TemplatePart>, text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(TemplatePart::Literal(known)) => known.push_str(&text),
        _ => parts.push(TemplatePart::Literal(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::template;

    #[test]
    fn variables_of_logs_are_placeholders() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let seen = template(text).map(|template| template.to_string());
            assert_eq!(seen.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("$remote_addr - \"$request\" $status", Ok("{client.ip} - \"{method} {uri} {protocol}\" {status}"));
        check("$http_user_agent\n$req_id", Ok("{request.header.user-agent} {request.id}"));
        check("{\"host\": \"$host\"}", Ok("{{\"host\": \"{host}\"}}"));
        check("$request_time", Err("$request_time"));
    }
}
