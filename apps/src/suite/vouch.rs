//! Vouch Proxy as the auth server, with Dex as its provider.

use super::{Application, dex};
use crate::example::{Configuration, example, replaced_in};
use crate::stage::{Scheme, Stage, did, free_port};
use crate::visitor::Visitor;
use std::process::Command;

pub const VOUCH: Application = Application {
    name: "vouch",
    title: "Vouch Proxy 0.45 (Go), where it is installed",
    story: "be sent to the log-in, log in at the provider, be known by name, not be somebody else, log out",
    configuration: Configuration::Page(PAGE),
    program: Some("vouch-proxy"),
    install: dex::install,
    act,
};

const PAGE: &str = include_str!("../../../docs/providers/vouch.md");
const WHO: &str = "https://app.example.com/who?a=b";

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let (port, dex_port, own_port) = (free_port()?, free_port()?, free_port()?);
    let (_upstream, echo) = stage.echo()?;
    let client =
        [("id: tidegate", "id: vouch"), ("https://app.example.com/.tidegate/oidc/callback", "https://vouch.example.com/auth")];
    let _dex = dex::start(stage, dex_port, &client)?;
    let own = format!("port: {own_port}");
    let text =
        replaced_in(example(PAGE, "yaml", 0)?, &[("https://idp.example.com", &dex::issuer(dex_port)), ("port: 9090", &own)])?;
    let file = stage.write("vouch/config/config.yml", &text)?;
    let mut command = Command::new("vouch-proxy");
    command.env("VOUCH_CONFIG", &file).env("VOUCH_ROOT", stage.folder.join("vouch"));
    let _server = stage.start_at("vouch", own_port, &mut command)?;
    let front = stage.front_by_name(port, &[("127.0.0.1:9090", &format!("127.0.0.1:{own_port}")), ("127.0.0.1:9000", &echo)])?;
    for scheme in Scheme::BOTH {
        let anna = Visitor::new(stage, "anna", port, scheme);
        log_in(&anna)?;
        bring_a_token(&anna, &Visitor::new(stage, "program", port, scheme))?;
        log_out(&anna)?;
        front.carried("requests that were asked about", scheme, 4, |line| !line["auth_status"].is_null())?;
    }
    let mut page = stage.browser_at(port)?;
    page.open(WHO)?;
    page.fill("#login", "anna@example.com")?;
    page.fill("#password", "swordfish")?;
    page.click("#submit-login", "")?;
    page.see("pre", "x-vouch-user: anna@example.com")?;
    page.see("pre", "GET /who?a=b")?;
    did("a browser logged in, and is where it wanted to be");
    front.check(|line| line["reason"] == "auth_refused")
}

fn log_in(anna: &Visitor<'_>) -> Result<(), String> {
    anna.opens(WHO)?.leads_to("https://vouch.example.com/login?url=https%3A%2F%2Fapp.example.com%2Fwho%3Fa%3Db")?;
    let forged = ["-H", "X-Vouch-User: root", "-H", "X_Vouch_User: root", "-H", "Accept: application/json"];
    anna.asks(&forged, WHO)?.is(401, "")?;
    did("who is not logged in is sent to the log-in, and a script is told");
    dex::log_in(anna, WHO)?.is(200, "GET /who?a=b")?.is(200, "x-vouch-user: anna@example.com\n")?;
    let answer = anna.asks(&forged, WHO)?.is(200, "x-vouch-user: anna@example.com\n")?;
    answer.is(200, "x-vouch-idp-claims-groups: \"staff\"\n")?.says_nothing_of("root")?;
    did("who is logged in is known by name and group, and nobody is somebody else");
    Ok(())
}

fn bring_a_token(anna: &Visitor<'_>, program: &Visitor<'_>) -> Result<(), String> {
    let token = anna.cookie("VouchCookie").ok_or("there is no cookie of Vouch")?;
    program.asks(&["-H", &format!("Authorization: Bearer {token}")], WHO)?.is(200, "x-vouch-user: anna@example.com\n")?;
    program.asks(&["-H", &format!("X-Vouch-Token: {token}"), "-H", "Accept: application/json"], WHO)?.is(401, "")?;
    program.follows("https://app.example.com/who?next=https://a.example.com/")?.is(400, "")?;
    did("a program brings the token, and an address in a query is no place to return to");
    Ok(())
}

fn log_out(anna: &Visitor<'_>) -> Result<(), String> {
    let ended = "VouchCookie=delete; Path=/; Domain=example.com; Max-Age=0";
    anna.asks(&["-i"], "https://vouch.example.com/logout")?.is(200, ended)?;
    did("who has logged out has no cookie");
    Ok(())
}
