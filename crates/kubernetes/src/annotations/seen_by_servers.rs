//! What servers are told of a request, beside the request itself.

use super::Annotations;
use super::variables::object_text;
use crate::manner::Manner;
use crate::object_text::{ObjectPart, ObjectText};
use tidegate_model::HostPattern;
use tidegate_model::TemplatePart;
use tidegate_model::address::parse_host_pattern;

const HOST: &str = "upstream-vhost";
const PREFIX: &str = "x-forwarded-prefix";
const TEXT_BYTES_MAX: usize = 1000;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    manner.upstream_host = text(annotations, HOST, "it is a host, as in `web.example.com`", is_host);
    let prefix = text(annotations, PREFIX, "it is a path, as in `/shop`", is_line);
    if prefix.is_some() && manner.rewrite.target.is_empty() {
        annotations.leave_out(PREFIX, "it is about paths that `rewrite-target` rewrites, here as with ingress-nginx");
        return;
    }
    manner.forwarded_prefix = prefix;
}

fn text(annotations: &mut Annotations<'_>, name: &str, form: &str, is_fit: fn(&ObjectText) -> bool) -> Option<ObjectText> {
    let written = annotations.text(name)?;
    let problem = match object_text(written, annotations.key, false) {
        Ok(text) if written.len() <= TEXT_BYTES_MAX && is_fit(&text) => return Some(text),
        Ok(_) => form.to_owned(),
        Err(variable) => format!("the variable `{variable}` is not known"),
    };
    annotations.leave_out(name, &problem);
    None
}

/// Whether servers can be asked for it, whatever a request brings into it: what that makes no host of is refused.
fn is_host(text: &ObjectText) -> bool {
    let is_part = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    match text.parts() {
        [ObjectPart::Template(TemplatePart::Literal(host))] => is_written_host(host),
        parts => parts.iter().all(|part| match part {
            ObjectPart::Template(TemplatePart::Literal(text)) => is_part(text),
            ObjectPart::Template(TemplatePart::Placeholder(_))
            | ObjectPart::ServiceName
            | ObjectPart::ServicePort
            | ObjectPart::UpstreamName => true,
            ObjectPart::Template(TemplatePart::Capture(_)) => false,
        }),
    }
}

fn is_written_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (text, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    match parse_host_pattern(host) {
        Ok(HostPattern::Exact(_) | HostPattern::Ip(_)) => is_port,
        Ok(HostPattern::Any | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_) | HostPattern::Socket(_)) | Err(_) => false,
    }
}

fn is_line(text: &ObjectText) -> bool {
    let is_odd = |part: &ObjectPart| match part {
        ObjectPart::Template(TemplatePart::Literal(text)) => !text.bytes().all(|byte| byte.is_ascii_graphic()),
        ObjectPart::Template(TemplatePart::Placeholder(_))
        | ObjectPart::ServiceName
        | ObjectPart::ServicePort
        | ObjectPart::UpstreamName => false,
        ObjectPart::Template(TemplatePart::Capture(_)) => true,
    };
    !text.parts().iter().any(is_odd)
}

#[cfg(test)]
mod tests {
    use super::is_written_host;

    #[test]
    fn hosts_that_servers_are_asked_for() {
        let check = |text: &str, expected: bool| assert_eq!(is_written_host(text), expected, "{text}");
        check("web.example.com", true);
        check("web", true);
        check("web.example.com:8080", true);
        check("10.0.0.1", true);
        check("10.0.0.1:80", true);
        check("*.example.com", false);
        check("web.example.com:0", false);
        check("web.example.com:x", false);
        check("a b", false);
        check("http://web.example.com", false);
        check("", false);
    }
}
