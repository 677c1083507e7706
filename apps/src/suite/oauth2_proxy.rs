//! oauth2-proxy as the auth server, with Dex as its provider: who is not logged in is sent to the log-in and back, the
//! session lets in, and nobody says in its name who they are.

use super::{Application, dex};
use crate::cache::Cache;
use crate::example::{Configuration, example, replaced_in, words};
use crate::stage::{Scheme, Stage, did, free_port};
use crate::visitor::Visitor;
use std::process::Command;

pub const OAUTH2_PROXY: Application = Application {
    name: "oauth2-proxy",
    title: "oauth2-proxy 7.15 (Go)",
    story: "be sent to the log-in, log in, be known by name, not be somebody else, log out; over HTTP/1.1 and HTTP/2",
    configuration: Configuration::Page(PAGE),
    program: None,
    install,
    act,
};

const PAGE: &str = include_str!("../../../docs/providers/oauth2-proxy.md");
const MODULE: &str = "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6";
const WHO: &str = "https://app.example.com/who?a=b";

fn install(cache: &Cache) -> Result<(), String> {
    dex::install(cache)?;
    cache.go("oauth2-proxy", &[MODULE])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let (port, dex_port, own_port) = (free_port()?, free_port()?, free_port()?);
    let (_upstream, echo) = stage.echo()?;
    let client = [
        ("id: tidegate", "id: oauth2-proxy"),
        ("https://app.example.com/.tidegate/oidc/callback", "https://app.example.com/oauth2/callback"),
    ];
    let _dex = dex::start(stage, dex_port, &client)?;
    let address = format!("127.0.0.1:{own_port}");
    let issuer = dex::issuer(dex_port);
    let line = replaced_in(example(PAGE, "sh", 0)?, &[("https://idp.example.com", &issuer), ("127.0.0.1:4180", &address)])?;
    let mut command = Command::new(stage.cache.of("oauth2-proxy").join("bin/oauth2-proxy"));
    let _server = stage.start_at("oauth2-proxy", own_port, command.args(&words(&line)[1..]))?;
    let front = stage.front_by_name(port, &[("127.0.0.1:4180", &address), ("127.0.0.1:9000", &echo)])?;
    for scheme in Scheme::BOTH {
        log_in(&Visitor::new(stage, "anna", port, scheme))?;
        front.carried("requests that were asked about", scheme, 5, |line| !line["auth_status"].is_null())?;
    }
    use_a_browser(stage, port)?;
    front.check(|line| line["reason"] == "auth_refused")
}

fn log_in(anna: &Visitor<'_>) -> Result<(), String> {
    anna.opens(WHO)?.leads_to("/oauth2/start?rd=%2Fwho%3Fa%3Db")?;
    anna.asks(&["-H", "Accept: application/json"], WHO)?.is(401, "")?;
    let forged = ["-H", "X-Auth-Request-User: root", "-H", "X_Auth_Request_Email: root", "-H", "Accept: application/json"];
    anna.asks(&forged, WHO)?.is(401, "")?;
    did("who is not logged in is sent to the log-in, and a script is told");
    let page = dex::log_in(anna, WHO)?.is(200, "GET /who?a=b")?.is(200, "x-auth-request-email: anna@example.com\n")?;
    page.is(200, "x-auth-request-groups: staff\n")?;
    let answer = anna.asks(&forged, WHO)?.is(200, "x-auth-request-email: anna@example.com\n")?;
    answer.says_nothing_of("root")?;
    did("who is logged in is known by name and group, and nobody is somebody else");
    anna.opens("https://app.example.com/oauth2/sign_out")?.leads_to("/")?;
    anna.opens(WHO)?.leads_to("/oauth2/start?rd=%2Fwho%3Fa%3Db")?;
    did("who has logged out is not");
    Ok(())
}

fn use_a_browser(stage: &Stage<'_>, port: u16) -> Result<(), String> {
    let mut page = stage.browser_at(port)?;
    page.open(WHO)?;
    page.fill("#login", "anna@example.com")?;
    page.fill("#password", "swordfish")?;
    page.click("#submit-login", "")?;
    page.see("pre", "x-auth-request-email: anna@example.com")?;
    page.see("pre", "GET /who?a=b")?;
    did("a browser logged in, and is where it wanted to be");
    Ok(())
}
