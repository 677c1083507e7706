//! How a `forward-auth` is written: what a preset stood for as what it is, since presets grow with the servers.

use crate::directives::proxy::write_retry_line;
use crate::written_line::{Lines, Writer, duration, size};
use tidegate_model::{AuthMethod, ForwardAuth, NamePattern, SignIn};

pub fn write(line: &mut Writer, auth: &ForwardAuth) {
    let ForwardAuth {
        pool,
        retry,
        is_grpc,
        target,
        host,
        method,
        request_fields,
        headers,
        copied,
        user,
        cookies,
        body_bytes_max,
        answer_bytes_max,
        total,
        allows_on_error,
        sign_in,
        remembers,
    } = auth;
    line.name("forward-auth").argument(&pool.0).switch_unless(false, "grpc", *is_grpc);
    line.unless(&ForwardAuth::TARGET, "path", &target.as_str(), ToString::to_string).optional("host", host.as_ref());
    line.unless(&AuthMethod::Get, "method", method, show_method);
    line.optional("body", body_bytes_max.as_ref().map(size));
    line.unless(&ForwardAuth::ANSWER_BYTES_MAX, "answer-bytes", answer_bytes_max, size);
    line.unless(&ForwardAuth::TOTAL, "total", total, duration);
    line.unless(&false, "on-error", allows_on_error, |allows| if *allows { "allow" } else { "deny" });
    line.optional("user", user.as_ref());
    if let Some(SignIn { url, redirect_param }) = sign_in {
        line.property("sign-in", url);
        line.unless(&SignIn::REDIRECT_PARAM, "redirect-param", &redirect_param.as_str(), ToString::to_string);
    }
    line.lines(|lines| {
        write_names(lines, "request-headers", request_fields.as_deref());
        for (name, value) in headers {
            lines.line().name("header").argument(name).argument(value);
        }
        write_names(lines, "copy", Some(&copied[..]).filter(|copied| !copied.is_empty()));
        write_names(lines, "cookies", cookies.as_deref());
        lines.extend(remembers, |line, remembered| {
            line.name("cache").property("key", &remembered.key).property("ttl", duration(&remembered.ttl));
        });
        write_retry_line(lines.line(), retry);
    });
}

fn write_names(lines: &mut Lines, name: &str, patterns: Option<&[NamePattern]>) {
    if let Some(patterns) = patterns {
        lines.line().name(name).arguments(patterns);
    }
}

fn show_method(method: &AuthMethod) -> String {
    match method {
        AuthMethod::Get => "GET".to_owned(),
        AuthMethod::OfRequest => "request".to_owned(),
        AuthMethod::Other(method) => method.clone(),
    }
}
