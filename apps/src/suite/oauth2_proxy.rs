//! oauth2-proxy as the auth server, with Dex as its provider: who is not logged in is sent to the log-in and back, the
//! session lets in, and nobody says in its name who they are.

use super::{Application, dex};
use crate::cache::Cache;
use crate::example::{Configuration, example, replaced_in, words};
use crate::processes::Process;
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
    let dex_port = free_port()?;
    let (_upstream, echo) = stage.echo()?;
    let addresses = "https://app.example.com/oauth2/callback\n      - https://oauth.example.com/oauth2/callback";
    let client = [("id: tidegate", "id: oauth2-proxy"), ("https://app.example.com/.tidegate/oidc/callback", addresses)];
    let _dex = dex::start(stage, dex_port, &client)?;
    for_one(stage, dex_port, &echo)?;
    for_several(stage, dex_port, &echo)
}

fn start(stage: &Stage<'_>, name: &str, address: &str, dex_port: u16, more: &str) -> Result<Process, String> {
    let issuer = dex::issuer(dex_port);
    let line = replaced_in(example(PAGE, "sh", 0)?, &[("https://idp.example.com", &issuer), ("127.0.0.1:4180", address)])?;
    let mut command = Command::new(stage.cache.of("oauth2-proxy").join("bin/oauth2-proxy"));
    command.args(&words(&line)[1..]).args(words(more));
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or("no port")?;
    stage.start_at(name, port, &mut command)
}

fn for_one(stage: &Stage<'_>, dex_port: u16, echo: &str) -> Result<(), String> {
    let (port, address) = (free_port()?, format!("127.0.0.1:{}", free_port()?));
    let _server = start(stage, "oauth2-proxy", &address, dex_port, "")?;
    let front = stage.front_by_name(port, &[("127.0.0.1:4180", &address), ("127.0.0.1:9000", echo)])?;
    for scheme in Scheme::BOTH {
        log_in(&Visitor::new(stage, "anna", port, scheme))?;
        front.carried("requests that were asked about", scheme, 5, |line| !line["auth_status"].is_null())?;
    }
    use_a_browser(stage, port)?;
    front.check(|line| line["reason"] == "auth_refused")
}

/// With a site of its own.
fn for_several(stage: &Stage<'_>, dex_port: u16, echo: &str) -> Result<(), String> {
    let (port, address) = (free_port()?, format!("127.0.0.1:{}", free_port()?));
    let _server = start(stage, "oauth2-proxy-alone", &address, dex_port, example(PAGE, "sh", 1)?)?;
    let front = stage.front_of_page(example(PAGE, "kdl", 1)?, port, &[("127.0.0.1:4180", &address), ("127.0.0.1:9000", echo)])?;
    let anna = Visitor::new(stage, "anna-of-several", port, Scheme::Https);
    anna.opens(WHO)?.leads_to("https://oauth.example.com/oauth2/start?rd=https%3A%2F%2Fapp.example.com%2Fwho%3Fa%3Db")?;
    dex::log_in(&anna, WHO)?.is(200, "GET /who?a=b")?.is(200, "x-auth-request-email: anna@example.com\n")?;
    anna.opens("https://other.example.com/who")?.is(403, "")?;
    // To no other domain.
    let elsewhere = "https://oauth.example.com/oauth2/start?rd=https%3A%2F%2Fevil.test%2F";
    anna.follows(elsewhere)?.says_nothing_of("evil.test")?;
    did("with a site of its own it leads back to the application, and keeps out who is in no group of another");
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
