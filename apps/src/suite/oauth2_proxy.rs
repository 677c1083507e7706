//! oauth2-proxy as the auth server: who is not logged in is sent to its log-in and back, its session lets in, and
//! nobody says in its name who they are. Names and passwords are those of a file, so that no provider has to be there.

use super::Application;
use crate::cache::Cache;
use crate::stage::{Scheme, Stage, did, free_port};
use std::process::Command;

pub const OAUTH2_PROXY: Application = Application {
    name: "oauth2-proxy",
    title: "oauth2-proxy 7.15 (Go)",
    story: "be sent to the log-in, log in, be known by name, not be somebody else, log out; over HTTP/1.1 and HTTP/2",
    configuration: include_str!("../../configurations/oauth2-proxy.kdl"),
    install,
    act,
};

const MODULE: &str = "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6";
/// The password is `swordfish`.
const USERS: &str = "anna:$2y$05$LlH0RW9sRUzXsCTzSHa3yOLK7Yd9GSLokH0hnQpohI9RDLXrbPxzu\n";

fn install(cache: &Cache) -> Result<(), String> {
    cache.go("oauth2-proxy", &[MODULE])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let (port, users) = (free_port()?, stage.write("users", USERS)?);
    let mut command = Command::new(stage.cache.of("oauth2-proxy").join("bin/oauth2-proxy"));
    command.args([
        format!("--http-address=127.0.0.1:{port}"),
        format!("--htpasswd-file={}", users.display()),
        "--reverse-proxy=true".into(),
        "--set-xauthrequest=true".into(),
        "--upstream=static://202".into(),
        "--provider=oidc".into(),
        "--skip-oidc-discovery=true".into(),
        "--oidc-issuer-url=https://idp.example.com".into(),
        "--login-url=https://idp.example.com/authorize".into(),
        "--redeem-url=https://idp.example.com/token".into(),
        "--oidc-jwks-url=https://idp.example.com/keys".into(),
        "--client-id=suite".into(),
        "--client-secret=of-the-suite".into(),
        "--cookie-secret=0123456789abcdef0123456789abcdef".into(),
        "--cookie-secure=false".into(),
        "--email-domain=*".into(),
    ]);
    let _server = stage.start_at("oauth2-proxy", port, &mut command)?;
    for scheme in Scheme::BOTH {
        let origin = format!("{}://localhost:{}", scheme.name(), free_port()?);
        let auth = format!("127.0.0.1:{port}");
        let front = stage.front(&[("https://localhost:8443", &origin), ("127.0.0.1:4180", &auth)])?;
        log_in(stage, &origin, scheme)?;
        let is_of_auth = |line: &serde_json::Value| line["reason"] == "auth_refused";
        front.carried("requests that were asked about", scheme, 5, |line| !line["auth_status"].is_null())?;
        front.check(is_of_auth)?;
    }
    Ok(())
}

fn log_in(stage: &Stage<'_>, origin: &str, scheme: Scheme) -> Result<(), String> {
    let jar = stage.folder.join(format!("cookies-{}", scheme.name())).display().to_string();
    let who = format!("{origin}/who");
    // Status, where to, and the body, in three lines.
    let ask = |arguments: &[&str], url: &str| {
        let always = ["-b", &jar, "-c", &jar, "-w", "\n%{http_code}\n%header{location}"];
        stage.curl(&[&always, arguments, &[url]].concat())
    };
    let expect = |what: &str, said: &str, expected: &str| {
        if said.contains(expected) { Ok(()) } else { Err(format!("{what}: `{expected}` is not in `{said}`")) }
    };
    let page = ["-H", "Accept: text/html"];
    expect("a page", &ask(&page, &who)?, "302\n/oauth2/start?rd=%2Fwho")?;
    expect("the log-in", &ask(&page, &format!("{origin}/oauth2/start?rd=%2Fwho"))?, "302\nhttps://idp.example.com/authorize?")?;
    expect("a script", &ask(&["-H", "Accept: application/json"], &who)?, "\n401\n")?;
    expect(
        "a name of one's own",
        &ask(&["-H", "X-Auth-Request-User: root", "-H", "Accept: application/json"], &who)?,
        "\n401\n",
    )?;
    did("who is not logged in is sent to the log-in");
    let form = ["-d", "username=anna", "-d", "password=swordfish", "--data-urlencode", "rd=/who"];
    expect("the form", &ask(&form, &format!("{origin}/oauth2/sign_in"))?, "302\n/who")?;
    expect("who is logged in", &ask(&page, &who)?, "anna anna\n200\n")?;
    let forged = ["-H", "X_Auth_Request_User: root", "-H", "x-auth-request-user: root", "-H", "X.Auth.Request.User: root"];
    expect("somebody else", &ask(&forged, &who)?, "anna anna\n200\n")?;
    did("who is logged in is known by name, and nobody is somebody else");
    expect("the end", &ask(&page, &format!("{origin}/oauth2/sign_out"))?, "302\n")?;
    expect("after the end", &ask(&page, &who)?, "302\n/oauth2/start?rd=%2Fwho")?;
    did("who has logged out is not");
    Ok(())
}
