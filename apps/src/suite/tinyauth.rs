//! tinyauth as the auth server, in a browser and by hand.

use super::Application;
use crate::example::{Configuration, example, replaced_in, words};
use crate::stage::{Scheme, Stage, did, free_port};
use crate::visitor::Visitor;
use std::process::Command;

pub const TINYAUTH: Application = Application {
    name: "tinyauth",
    title: "tinyauth 5.1 (Go), where it is installed",
    story: "be sent to the log-in, log in, be known by name, not be somebody else, log out; over HTTP/1.1 and HTTP/2",
    configuration: Configuration::Page(PAGE),
    program: Some("tinyauth"),
    install: |_| Ok(()),
    act,
};

const PAGE: &str = include_str!("../../../docs/providers/tinyauth.md");
const LOG_IN: [&str; 4] = ["-H", "Content-Type: application/json", "-d", "{\"username\":\"anna\",\"password\":\"swordfish\"}"];
const WHO: &str = "https://app.example.com/who?a=b";

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let (port, own_port) = (free_port()?, free_port()?);
    let (_upstream, echo) = stage.echo()?;
    let database = stage.folder.join("tinyauth.db").display().to_string();
    let own = format!("_PORT={own_port}");
    let text = replaced_in(example(PAGE, "sh", 0)?, &[("_PORT=3000", &own), ("/var/lib/tinyauth/tinyauth.db", &database)])?;
    let mut command = Command::new("tinyauth");
    let variables = words(&text);
    command.envs(variables.iter().filter_map(|word| word.split_once('='))).current_dir(&stage.folder);
    // Tinyauth would tell its makers otherwise.
    command.env("TINYAUTH_ANALYTICS_ENABLED", "false");
    let _server = stage.start_at("tinyauth", own_port, &mut command)?;
    let address = format!("127.0.0.1:{own_port}");
    let addresses = [("127.0.0.1:3000", &*address), ("127.0.0.1:9000", &*echo)];
    let front = stage.front_by_name(port, &addresses)?;
    for scheme in Scheme::BOTH {
        log_in(&Visitor::new(stage, "anna", port, scheme))?;
        front.carried("requests that were asked about", scheme, 4, |line| !line["auth_status"].is_null())?;
    }
    use_a_browser(stage, port, "GET /who\n")?;
    front.check(|line| line["reason"] == "auth_refused")?;
    drop(front);
    let port = free_port()?;
    let _front = stage.front_of_page(example(PAGE, "kdl", 1)?, port, &addresses)?;
    be_redirected(&Visitor::new(stage, "berta", port, Scheme::Https))?;
    use_a_browser(stage, port, "GET /who?a=b\n")
}

fn use_a_browser(stage: &Stage<'_>, port: u16, expected: &str) -> Result<(), String> {
    let mut page = stage.browser_at(port)?;
    page.open(WHO)?;
    page.fill("input[name=username]", "anna")?;
    page.fill("input[name=password]", "swordfish")?;
    page.click("button[type=submit]", "")?;
    page.see("pre", "remote-user: anna")?;
    page.see("pre", expected)?;
    did("a browser logged in by its page, and is where it wanted to be");
    Ok(())
}

/// By Tidegate, and not by it.
fn be_redirected(berta: &Visitor<'_>) -> Result<(), String> {
    let whole = "https://tinyauth.example.com/login?redirect_uri=https%3A%2F%2Fapp.example.com%2Fwho%3Fa%3Db";
    berta.opens(WHO)?.leads_to(whole)?;
    let script = ["-H", "Sec-Fetch-Mode: cors", "-A", "Mozilla/5.0 Chrome/140.0"];
    berta.asks(&script, WHO)?.is(401, "")?;
    berta.asks(&LOG_IN, "https://tinyauth.example.com/api/user/login")?.is(200, "Login successful")?;
    berta.opens(WHO)?.is(200, "GET /who?a=b")?.is(200, "remote-user: anna\n")?;
    did("with `sign-in=` the query is kept, and scripts are told");
    Ok(())
}

fn log_in(anna: &Visitor<'_>) -> Result<(), String> {
    let answer = anna.opens(WHO)?.leads_to("https://tinyauth.example.com/login?")?;
    // Tinyauth forgets the query.
    if !answer.location.contains("redirect_uri=https%3A%2F%2Fapp.example.com%2Fwho") {
        return Err(format!("it does not lead back: {}", answer.location));
    }
    let forged = ["-H", "Remote-User: root", "-H", "remote_user: root", "-H", "Remote.Groups: root"];
    anna.asks(&forged, WHO)?.is(401, "")?;
    did("who is not logged in is sent to the log-in, and a program is told");
    anna.asks(&LOG_IN, "https://tinyauth.example.com/api/user/login")?.is(200, "Login successful")?;
    anna.opens(WHO)?.is(200, "GET /who?a=b")?.is(200, "remote-user: anna\n")?.is(200, "remote-name: Anna\n")?;
    anna.asks(&forged, WHO)?.is(200, "remote-user: anna\n")?.says_nothing_of("root")?;
    did("who is logged in is known by name, and nobody is somebody else");
    anna.asks(&["-X", "POST"], "https://tinyauth.example.com/api/user/logout")?.is(200, "")?;
    anna.opens(WHO)?.leads_to("https://tinyauth.example.com/login?")?;
    did("who has logged out is not");
    Ok(())
}
