//! Where browsers log in, as ingress-nginx has it: a URL with variables, in which the address to return to may stand.

use super::Annotations;
use tidegate_model::SignIn;

const NAME: &str = "auth-signin";
const URL_BYTES_MAX: usize = 1000;
const HOSTS: [&str; 3] = ["$host", "$http_host", "$best_http_host"];

/// `None`: nobody is sent anywhere, and gets the 401.
pub(super) fn sign_in(annotations: &mut Annotations<'_>) -> Option<SignIn> {
    let text = annotations.text(NAME)?;
    let found = read(text, redirect_param(annotations));
    if found.is_none() {
        annotations.leave_out(NAME, "it is a URL whose only variables are `$host` and the address to return to: clients get 401");
    }
    found
}

fn redirect_param<'i>(annotations: &mut Annotations<'i>) -> &'i str {
    const NAME: &str = "auth-signin-redirect-param";
    let Some(param) = annotations.text(NAME) else { return SignIn::REDIRECT_PARAM };
    if param.len() <= 64 && param.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
        return param;
    }
    annotations.leave_out(NAME, "it is the name of a parameter, and `rd` without it");
    SignIn::REDIRECT_PARAM
}

fn read(text: &str, usual_param: &str) -> Option<SignIn> {
    let text = text.replace("${", "$").replace('}', "");
    let (place, query) = text.split_once('?').map_or((&*text, ""), |(place, query)| (place, query));
    let (mut kept, mut redirect_param) = (Vec::new(), None);
    for param in query.split('&').filter(|param| !param.is_empty()) {
        match param.split_once('=') {
            Some((name, value)) if is_address_to_return_to(value) => redirect_param = Some(name),
            Some(_) | None => kept.push(param),
        }
    }
    let place = of_this_host(place).unwrap_or(place);
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    let url = format!("{}{query}", if place.is_empty() { "/" } else { place });
    let is_written =
        url.len() <= URL_BYTES_MAX && url.bytes().all(|byte| byte.is_ascii_graphic() && !b"$\\#\"<>".contains(&byte));
    let is_placed = if url.starts_with('/') { !url.starts_with("//") } else { has_host(&url) };
    let redirect_param = redirect_param.unwrap_or(usual_param).to_owned();
    (is_written && is_placed && !redirect_param.is_empty()).then_some(SignIn { url, redirect_param })
}

/// The path of a URL of the host that was asked for.
fn of_this_host(place: &str) -> Option<&str> {
    let (scheme, rest) = place.split_once("://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    (matches!(scheme, "http" | "https" | "$scheme" | "$pass_access_scheme") && HOSTS.contains(&host)).then_some(path)
}

fn has_host(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
    host.is_some_and(|host| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte)))
}

/// What stands for the address that was asked for, whole or without its host.
fn is_address_to_return_to(value: &str) -> bool {
    let value = value.replace("%3A%2F%2F", "://").replace("%3a%2f%2f", "://");
    let rest = value.split_once("://").map_or(Some(&*value), |(scheme, rest)| {
        let is_scheme = matches!(scheme, "http" | "https" | "$scheme" | "$pass_access_scheme");
        let host = HOSTS.iter().find(|host| rest.strip_prefix(**host).is_some_and(|rest| rest.starts_with('$')))?;
        rest.strip_prefix(host).filter(|_| is_scheme)
    });
    matches!(rest, Some("$escaped_request_uri" | "$request_uri" | "$uri"))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn where_to_sign_in_and_where_to_return() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let seen = read(text, "rd").map(|sign_in| (sign_in.url, sign_in.redirect_param));
            assert_eq!(seen.as_ref().map(|(url, param)| (&**url, &**param)), expected, "{text}");
        };
        check("https://$host/oauth2/start?rd=$escaped_request_uri", Some(("/oauth2/start", "rd")));
        check("$scheme://$http_host/login", Some(("/login", "rd")));
        check("https://$host", Some(("/", "rd")));
        check("https://auth.example.com/start?rd=https://$host$request_uri", Some(("https://auth.example.com/start", "rd")));
        check(
            "https://a.example.com/?x=1&to=$scheme%3A%2F%2F$host$escaped_request_uri",
            Some(("https://a.example.com/?x=1", "to")),
        );
        check("/login?a=b", Some(("/login?a=b", "rd")));
        check("https://auth.example.com/$http_x", None);
        check("https://$host.example.com/", None);
        check("//evil.example.com", None);
        check("https://", None);
        check("javascript:alert(1)", None);
        check("https://auth.example.com/a b", None);
    }
}
