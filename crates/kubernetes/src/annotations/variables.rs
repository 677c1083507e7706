//! Texts with variables of nginx as templates: those of the list that ingress-nginx's users have, and no others, since
//! a text that lacks something is another one than was written.

use crate::object_text::{ObjectPart, ObjectText};
use crate::reference::ServiceAtPort;
use tidegate_cluster::Key;
use tidegate_model::client_auth::ClientCertificateField;
use tidegate_model::{Placeholder, Template, TemplatePart};

/// Parts of a text: whoever writes more means no text of a request.
const PARTS_MAX: usize = 64;

/// The text for each path; `Err` names the variable that cannot be had. With `captures`, `$1` is what an expression has
/// found. Of the Ingress that is called so.
pub fn object_text(text: &str, ingress: &Key, captures: bool) -> Result<ObjectText, String> {
    parts(text, captures, |name| match name {
        "namespace" => Some(ObjectPart::Template(TemplatePart::Literal(ingress.namespace.to_string()))),
        "ingress_name" => Some(ObjectPart::Template(TemplatePart::Literal(ingress.name.to_string()))),
        _ => of_service(name),
    })
    .map(ObjectText::new)
}

/// The text as a template that is the same for all paths.
pub fn template(text: &str, ingress: &Key, captures: bool) -> Result<Template, String> {
    let text = object_text(text, ingress, captures)?;
    let of_path = |part: &&ObjectPart| !matches!(part, ObjectPart::Template(_));
    match text.parts().iter().find(of_path) {
        Some(ObjectPart::ServiceName) => Err("$service_name".to_owned()),
        Some(ObjectPart::ServicePort) => Err("$service_port".to_owned()),
        Some(ObjectPart::UpstreamName) => Err("$proxy_upstream_name".to_owned()),
        Some(ObjectPart::Template(_)) | None => Ok(text.at(None)),
    }
}

/// The text as a template for requests to that Service. Its Ingress is not known any more: the same servers have the
/// same clients, whoever leads there.
pub fn template_of_service(text: &str, service: &ServiceAtPort) -> Option<Template> {
    let nothing = Key::new(&service.service.namespace, "");
    object_text(text, &nothing, false).ok().map(|text| text.at(Some(service)))
}

/// The text as a template of no Ingress in particular.
pub fn plain_template(text: &str) -> Result<Template, String> {
    parts(text, false, |_| None).map(|parts| ObjectText::new(parts).at(None))
}

fn of_service(name: &str) -> Option<ObjectPart> {
    match name {
        "service_name" => Some(ObjectPart::ServiceName),
        "service_port" => Some(ObjectPart::ServicePort),
        "proxy_upstream_name" => Some(ObjectPart::UpstreamName),
        _ => None,
    }
}

fn parts(text: &str, captures: bool, object: impl Fn(&str) -> Option<ObjectPart>) -> Result<Vec<ObjectPart>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        literal(&mut parts, before);
        let (name, behind) = name_in(behind);
        let (part, behind) = match name.parse::<usize>() {
            Ok(number @ 1..=9) if captures => (Some(ObjectPart::Template(TemplatePart::Capture(number))), behind),
            // The mark of a query, and the query.
            _ if name == "is_args" => {
                let query = behind.strip_prefix('$').map(name_in).filter(|(name, _)| is_query(name));
                let part = query.map(|_| ObjectPart::Template(TemplatePart::Placeholder(Placeholder::QuerySuffix)));
                (part, query.map_or(behind, |(_, behind)| behind))
            }
            Ok(_) | Err(_) => {
                let of_request = || placeholder(name).map(|one| ObjectPart::Template(TemplatePart::Placeholder(one)));
                (object(name).or_else(of_request), behind)
            }
        };
        let part = part.filter(|_| parts.len() < PARTS_MAX).ok_or_else(|| format!("${name}"))?;
        match part {
            ObjectPart::Template(TemplatePart::Literal(text)) => literal(&mut parts, &text),
            part => parts.push(part),
        }
        rest = behind;
    }
    literal(&mut parts, rest);
    Ok(parts)
}

fn literal(parts: &mut Vec<ObjectPart>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(ObjectPart::Template(TemplatePart::Literal(known))) => known.push_str(text),
        _ => parts.push(ObjectPart::Template(TemplatePart::Literal(text.to_owned()))),
    }
}

/// The name of a variable, with or without braces, and what follows it.
pub fn name_in(text: &str) -> (&str, &str) {
    if let Some((name, behind)) = text.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
        return (name, behind);
    }
    let is_of_digits = text.starts_with(|c: char| c.is_ascii_digit());
    // Of nginx `$1` is one digit.
    let length = if is_of_digits { 1 } else { text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()) };
    text.split_at(length)
}

fn is_query(name: &str) -> bool {
    matches!(name, "args" | "query_string")
}

pub fn placeholder(name: &str) -> Option<Placeholder> {
    let of_head = |name: &str| name.replace('_', "-").to_ascii_lowercase();
    Some(match name {
        // The name of the server is the host that was asked for, unless that is an alias.
        "host" | "best_http_host" | "server_name" => Placeholder::Host,
        "scheme" | "pass_access_scheme" => Placeholder::Scheme,
        "request_uri" => Placeholder::AskedUri,
        "escaped_request_uri" => Placeholder::AskedUriEscaped,
        "uri" | "document_uri" => Placeholder::Path,
        "args" | "query_string" => Placeholder::Query,
        "request_method" => Placeholder::Method,
        "remote_addr" | "binary_remote_addr" | "the_real_ip" => Placeholder::ClientIp,
        "remote_port" => Placeholder::ClientPort,
        "server_port" | "pass_server_port" | "pass_port" => Placeholder::Port,
        "proxy_add_x_forwarded_for" => Placeholder::ForwardedFor,
        "req_id" | "request_id" => Placeholder::RequestId,
        "ssl_server_name" => Placeholder::TlsSni,
        "ssl_client_s_dn" => Placeholder::TlsClient(ClientCertificateField::Subject),
        "ssl_client_i_dn" => Placeholder::TlsClient(ClientCertificateField::Issuer),
        "content_type" | "content_length" => Placeholder::RequestHeader(of_head(name)),
        _ => return with_parameter(name, of_head),
    })
}

fn with_parameter(name: &str, of_head: impl Fn(&str) -> String) -> Option<Placeholder> {
    let behind = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    let header = behind("http_").map(|header| Placeholder::RequestHeader(of_head(header)));
    let cookie = || behind("cookie_").map(|cookie| Placeholder::RequestCookie(cookie.to_owned()));
    let parameter = || behind("arg_").map(|parameter| Placeholder::RequestQuery(parameter.to_owned()));
    header.or_else(cookie).or_else(parameter)
}

#[cfg(test)]
mod tests {
    use super::{object_text, template, template_of_service};
    use crate::reference::ServiceAtPort;
    use tidegate_cluster::{Key, PortReference};

    fn web() -> ServiceAtPort {
        ServiceAtPort { service: Key::new("shop", "web"), port: PortReference::Number(80), manner: None }
    }

    #[test]
    fn variables_are_placeholders() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let seen = template(text, &Key::new("shop", "front"), true).map(|template| template.to_string());
            assert_eq!(seen.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("", Ok(""));
        check("/a", Ok("/a"));
        check("/$2", Ok("/$2"));
        check("/$1-$2/x", Ok("/$1-$2/x"));
        check("/${1}0", Ok("/$10"));
        check("/$10", Ok("/$10"));
        check("https://$host$request_uri", Ok("https://{host}{asked.uri}"));
        check("$scheme://$http_host/a?$args", Ok("{scheme}://{request.header.host}/a?{query}"));
        check("$http_x_a$cookie_b", Ok("{request.header.x-a}{request.cookie.b}"));
        check("$arg_user-id", Ok("{request.query.user}-id"));
        check("$uri$is_args$args", Ok("{path}{query.suffix}"));
        check("${uri}${is_args}${query_string}", Ok("{path}{query.suffix}"));
        check("/?rd=$escaped_request_uri", Ok("/?rd={asked.uri.escaped}"));
        check("$server_port $pass_server_port", Ok("{port} {port}"));
        check("$proxy_add_x_forwarded_for", Ok("{forwarded_for}"));
        check("$namespace/$ingress_name", Ok("shop/front"));
        check("/{x}", Ok("/{{x}}"));
        check("/$nothing", Err("$nothing"));
        check("/$is_args", Err("$is_args"));
        check("/$is_args$host", Err("$is_args"));
        check("/$", Err("$"));
        check("/$http_", Err("$http_"));
        check("$service_name", Err("$service_name"));
        check(&"$host-".repeat(100), Err("$host"));
    }

    #[test]
    fn names_of_services_are_those_of_the_path() {
        let check = |text: &str, expected: &str| {
            let text = object_text(text, &Key::new("shop", "front"), false).expect("a text");
            assert_eq!(text.at(Some(&web())).to_string(), expected);
        };
        check("$service_name.$namespace.svc.cluster.local:$service_port", "web.shop.svc.cluster.local:80");
        check("$proxy_upstream_name", "shop-web-80");
        check("$host-$service_name", "{host}-web");
        assert_eq!(template_of_service("$service_name$remote_addr", &web()).expect("a text").to_string(), "web{client.ip}");
    }

    #[test]
    fn without_an_expression_there_is_nothing_found() {
        assert_eq!(template("/$1", &Key::new("a", "b"), false), Err("$1".to_owned()));
    }
}
