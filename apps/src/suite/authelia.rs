//! Authelia as the auth server: its portal, its rules by path and group, log-ins of programs, and what becomes of
//! requests while it is away; and as a provider of log-ins.

use super::Application;
use crate::example::{Configuration, example, replaced_in};
use crate::processes::Process;
use crate::stage::{Scheme, Stage, did, free_port};
use crate::visitor::Visitor;
use std::process::Command;

pub const AUTHELIA: Application = Application {
    name: "authelia",
    title: "Authelia 4.39 (Go), where it is installed",
    story: "be sent to the portal, log in, be known by name, be kept from what is others', log out; it goes away",
    configuration: Configuration::Page(PAGE),
    program: Some("authelia"),
    install: |_| Ok(()),
    act,
};

const PAGE: &str = include_str!("../../../docs/providers/authelia.md");
const WHO: &str = "https://app.example.com/who?a=b";

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let (_upstream, echo) = stage.echo()?;
    be_asked(stage, &echo)?;
    be_the_provider(stage, &echo)
}

/// By `forward-auth`.
fn be_asked(stage: &Stage<'_>, echo: &str) -> Result<(), String> {
    let (port, own_port) = (free_port()?, free_port()?);
    let address = format!("127.0.0.1:{own_port}");
    let server = start(stage, "authelia", own_port, example(PAGE, "yaml", 0)?, &[])?;
    let front = stage.front_by_name(port, &[("127.0.0.1:9091", &address), ("127.0.0.1:9000", echo)])?;
    for scheme in Scheme::BOTH {
        let anna = Visitor::new(stage, "anna", port, scheme);
        be_sent_away(&anna)?;
        log_in(&anna)?;
        front.carried("requests that were asked about", scheme, 10, |line| !line["auth_status"].is_null())?;
    }
    use_a_browser(stage, port)?;
    keep_log_ins_of_the_application(stage, &address, echo)?;
    drop(server);
    Visitor::new(stage, "nobody", port, Scheme::Https).opens(WHO)?.is(503, "auth_unreachable")?;
    did("nobody gets in while it is away");
    front.check(|line| matches!(line["reason"].as_str(), Some("auth_refused" | "auth_unreachable")))
}

/// Fields that are for Authelia alone, where the application has log-ins by `Authorization` itself; its page says so.
fn keep_log_ins_of_the_application(stage: &Stage<'_>, address: &str, echo: &str) -> Result<(), String> {
    let port = free_port()?;
    let fields = "preset=\"authelia\" {\n        request-headers \"Cookie\" \"Accept\" \"X-Requested-With\"\n    }";
    let replaced = [("127.0.0.1:9091", address), ("127.0.0.1:9000", echo), ("preset=\"authelia\"", fields)];
    let _front = stage.front_by_name(port, &replaced)?;
    let anna = Visitor::new(stage, "anna-of-application", port, Scheme::Https);
    anna.asks(&["-u", "anna:swordfish", "-H", "Accept: application/json"], WHO)?.is(401, "")?;
    let form = "{\"username\":\"anna\",\"password\":\"swordfish\"}";
    let json = ["-H", "Content-Type: application/json", "-d", form];
    anna.asks(&json, "https://auth.example.com/api/firstfactor")?.is(200, "OK")?;
    anna.asks(&["-u", "berta:herring"], WHO)?.is(200, "authorization: Basic ")?.is(200, "remote-user: anna\n")?;
    did("what an application is told by `Authorization` is kept from it, where the site says so");
    Ok(())
}

fn use_a_browser(stage: &Stage<'_>, port: u16) -> Result<(), String> {
    let mut page = stage.browser_at(port)?;
    page.open(WHO)?;
    page.fill("#username-textfield", "anna")?;
    page.fill("#password-textfield", "swordfish")?;
    page.click("#sign-in-button", "")?;
    page.see("pre", "remote-user: anna")?;
    page.see("pre", "GET /who?a=b")?;
    page.open("https://auth.example.com/logout")?;
    page.see("#username-textfield", "")?;
    page.open(WHO)?;
    page.see("#username-textfield", "")?;
    did("a browser logged in by the portal, was where it wanted to be, and logged out there");
    Ok(())
}

fn start(stage: &Stage<'_>, name: &str, port: u16, text: &str, replaced: &[(&str, &str)]) -> Result<Process, String> {
    let (address, folder) = (format!("127.0.0.1:{port}"), stage.folder.join(name).display().to_string());
    let users = stage.write(&format!("{name}/users.yml"), example(PAGE, "yaml", 1)?)?.display().to_string();
    let own = [("127.0.0.1:9091", &*address), ("/etc/authelia/users.yml", &users), ("/var/lib/authelia", &folder)];
    let text = replaced_in(text, &[&own[..], replaced].concat())?;
    let mut command = Command::new("authelia");
    command.arg("--config").arg(stage.write(&format!("{name}/configuration.yml"), &text)?);
    // No server of time is to be asked.
    command.env("AUTHELIA_NTP_DISABLE_STARTUP_CHECK", "true").env("X_AUTHELIA_CONFIG_FILTERS", "template");
    stage.start_at(name, port, &mut command)
}

/// By `oidc`. The name of its portal leads to nothing for Tidegate, so it has an address in its place.
fn be_the_provider(stage: &Stage<'_>, echo: &str) -> Result<(), String> {
    let (port, own_port) = (free_port()?, free_port()?);
    let (portal, address) = (format!("https://127.0.0.1:{port}"), format!("127.0.0.1:{own_port}"));
    let site = format!("https://auth.example.com:{port}");
    let issuer = format!("issuer=\"{portal}\"");
    let mut front = stage.front_of_page(
        example(PAGE, "kdl", 1)?,
        port,
        &[
            (&site, &portal),
            ("issuer=\"https://auth.example.com\"", &issuer),
            ("127.0.0.1:9091", &address),
            ("127.0.0.1:9000", echo),
        ],
    )?;
    let keys = stage.folder.join("keys");
    std::fs::create_dir_all(&keys).map_err(|error| error.to_string())?;
    stage.run(Command::new("authelia").args(["crypto", "pair", "rsa", "generate", "--directory"]).arg(&keys))?;
    let key = keys.join("private.pem").display().to_string();
    let text = [example(PAGE, "yaml", 0)?, example(PAGE, "yaml", 2)?].concat();
    let replaced = [
        ("domain: 'example.com'", "domain: '127.0.0.1'"),
        ("https://auth.example.com", &portal),
        ("/etc/authelia/private.pem", &key),
    ];
    let _server = start(stage, "authelia-provider", own_port, &text, &replaced)?;
    front.trust_itself(stage)?;
    for scheme in Scheme::BOTH {
        log_in_at(&Visitor::new(stage, "anna-provider", port, scheme), &portal)?;
        front.carried("pages of who is logged in", scheme, 2, |line| line["user"] == "anna")?;
    }
    front.check(|line| line["reason"] == "oidc_log_in_needed")
}

fn log_in_at(anna: &Visitor<'_>, portal: &str) -> Result<(), String> {
    anna.asks(&["-H", "Accept: application/json"], WHO)?.is(401, "")?;
    let begun = anna.opens(WHO)?.leads_to(&format!("{portal}/api/oidc/authorization?"))?;
    let asked = anna.opens(&begun.location)?.leads_to(&format!("{portal}/?flow=openid_connect&flow_id="))?;
    let flow = asked.location.split("flow_id=").nth(1).unwrap_or_default().split('&').next().unwrap_or_default();
    let form = format!(
        "{{\"username\":\"anna\",\"password\":\"swordfish\",\"keepMeLoggedIn\":false,\"flow\":\"openid_connect\",\"flowID\":\"{flow}\"}}"
    );
    let json = ["-H", "Content-Type: application/json", "-d", &form];
    let answer = anna.asks(&json, &format!("{portal}/api/firstfactor"))?.is(200, "redirect")?;
    let told: serde_json::Value = serde_json::from_str(&answer.text).map_err(|error| error.to_string())?;
    let page = anna.follows(told["data"]["redirect"].as_str().unwrap_or_default())?;
    page.is(200, "GET /who?a=b")?.is(200, "x-user: anna\n")?.is(200, "x-groups: staff\n")?;
    let forged = ["-H", "X-User: root", "-H", "x_user: root", "-H", "X.Groups: admins"];
    anna.asks(&forged, WHO)?.is(200, "x-user: anna\n")?.says_nothing_of("root")?.says_nothing_of("admins")?;
    did("as a provider: logged in, known by name and group, and nobody else");
    Ok(())
}

fn be_sent_away(anna: &Visitor<'_>) -> Result<(), String> {
    let portal = "https://auth.example.com/?rd=https%3A%2F%2Fapp.example.com%2Fwho%3Fa%3Db&rm=GET";
    let answer = anna.opens(WHO)?.leads_to(portal)?;
    if answer.status != 302 {
        return Err(format!("a page is {}", answer.status));
    }
    let form = anna.asks(&["-H", "Accept: text/html", "-d", "a=b"], "https://app.example.com/form")?;
    let form = form.leads_to("https://auth.example.com/?rd=https%3A%2F%2Fapp.example.com%2Fform&rm=POST")?;
    if form.status != 303 {
        return Err(format!("a form is {}", form.status));
    }
    anna.asks(&["-H", "Accept: application/json"], WHO)?.is(401, "")?;
    anna.asks(&["-H", "Accept: text/html", "-H", "X-Requested-With: XMLHttpRequest"], WHO)?.is(401, "")?;
    let forged = ["-H", "Remote-User: root", "-H", "remote_user: root", "-H", "Remote.Groups: admins"];
    let elsewhere = ["-H", "X-Forwarded-Uri: /public/", "-H", "X_Forwarded_Uri: /public/", "-H", "Accept: application/json"];
    anna.asks(&[&forged[..], &elsewhere].concat(), WHO)?.is(401, "")?;
    did("a page and a form are sent to the portal, scripts are told, and nobody says who they are");
    anna.asks(&forged, "https://app.example.com/public/a")?.is(200, "GET /public/a")?.says_nothing_of("remote")?;
    // Authelia's rule is about the path that the upstream gets.
    anna.asks(&["--path-as-is", "-H", "Accept: application/json"], "https://app.example.com/public/../who")?.is(401, "")?;
    anna.asks(&["-u", "anna:swordfish"], WHO)?.is(200, "remote-user: anna\n")?;
    anna.asks(&["-u", "anna:herring"], WHO)?.is(401, "")?;
    did("what is for everybody is, and a program logs in by itself");
    Ok(())
}

fn log_in(anna: &Visitor<'_>) -> Result<(), String> {
    let form = "{\"username\":\"anna\",\"password\":\"swordfish\",\"keepMeLoggedIn\":false,\"requestMethod\":\"GET\",\
                \"targetURL\":\"https://app.example.com/who?a=b\"}";
    let answer = anna.asks(&["-H", "Content-Type: application/json", "-d", form], "https://auth.example.com/api/firstfactor")?;
    answer.is(200, "https://app.example.com/who?a=b")?;
    let answer = anna.opens(WHO)?.is(200, "GET /who?a=b")?.is(200, "remote-user: anna\n")?;
    answer.is(200, "remote-groups: staff\n")?.is(200, "remote-email: anna@example.com\n")?.is(200, "remote-name: Anna\n")?;
    let forged = ["-H", "Remote-User: root", "-H", "remote_user: root", "-H", "Remote.Groups: admins"];
    anna.asks(&forged, WHO)?.is(200, "remote-user: anna\n")?.says_nothing_of("root")?.says_nothing_of("admins")?;
    did("who is logged in is known by name, and nobody is somebody else");
    anna.opens("https://app.example.com/admin/a")?.is(403, "")?;
    anna.asks(&["--path-as-is"], "https://app.example.com/who/..//admin/./a")?.is(403, "")?;
    did("what is others' is refused, however it is written");
    anna.asks(&["-X", "POST", "-H", "Content-Type: application/json", "-d", "{}"], "https://auth.example.com/api/logout")?
        .is(200, "")?;
    anna.opens(WHO)?.leads_to("https://auth.example.com/?rd=")?;
    did("who has logged out is not");
    Ok(())
}
