//! A server of Envoy's `ext_authz`, with the messages and the library that such servers are made with: what is written
//! by hand here has to be what they read, and the other way round.

use super::Application;
use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::{Scheme, Stage, did, free_port};
use std::process::Command;

pub const EXT_AUTHZ: Application = Application {
    name: "ext-authz",
    title: "ext_authz of Envoy, gRPC 1.84 and go-control-plane (Go)",
    story: "be asked who one is, be known by a token, be refused; the server fails; over HTTP/1.1 and HTTP/2",
    configuration: Configuration::File(include_str!("../../configurations/ext-authz.kdl")),
    program: None,
    install,
    act,
};

const MODULES: &[&str] = &["google.golang.org/grpc@v1.84.0", "github.com/envoyproxy/go-control-plane/envoy@v1.40.0"];

fn install(cache: &Cache) -> Result<(), String> {
    cache.go_program("ext-authz", include_str!("../../programs/ext-authz/main.go"), MODULES)
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let port = free_port()?;
    let mut command = Command::new(stage.cache.of("ext-authz").join("bin/ext-authz"));
    let _server = stage.start_at("ext-authz", port, command.arg(format!("127.0.0.1:{port}")))?;
    for scheme in Scheme::BOTH {
        let origin = format!("{}://localhost:{}", scheme.name(), free_port()?);
        let front = stage.front(&[("https://localhost:8443", &origin), ("127.0.0.1:9001", &format!("127.0.0.1:{port}"))])?;
        ask(stage, &origin, scheme)?;
        front.carried("requests that were asked about", scheme, 4, |line| !line["auth_us"].is_null())?;
        front.check(|line| matches!(line["reason"].as_str(), Some("auth_refused" | "auth_failed")))?;
    }
    Ok(())
}

fn ask(stage: &Stage<'_>, origin: &str, scheme: Scheme) -> Result<(), String> {
    let expect = |what: &str, arguments: &[&str], path: &str, expected: &str| {
        let always = ["-w", "\n%{http_code} %header{set-cookie}%header{www-authenticate}"];
        let said = stage.curl(&[&always, arguments, &[&format!("{origin}{path}")]].concat())?;
        if said.contains(expected) { Ok(()) } else { Err(format!("{what}: `{expected}` is not in `{said}`")) }
    };
    let token = ["-H", "Authorization: Bearer token", "-H", "X_User: root", "-H", "X-Seen: root"];
    expect("nobody", &["-H", "X-User: root"], "/a", "who are you\n401 Bearer")?;
    let host = origin.split("://").nth(1).unwrap_or_default();
    let seen = format!("anna anna GET /a?b=c {host} {} 0 127.0.0.1\n200 seen=1", scheme.name());
    expect("who has the token", &token, "/a?b=c", &seen)?;
    did("who has the token is known by name, and nobody else is");
    let form = [&token[..], &["--data-binary", "twelve bytes"]].concat();
    expect("a form", &form, "/form", &format!("POST /form {host} {} 12 ", scheme.name()))?;
    expect("a refusal without a word", &token, "/denied", "\n403 ")?;
    expect("a failure", &token, "/broken", "(auth_failed)\n\n503 ")?;
    did("the body was sent along, and a failure lets nobody in");
    Ok(())
}
