//! Node-RED: an editor that is kept up to date by WebSocket, and the flows that are made with it.

use super::Application;
use crate::browser::{Browser, Held};
use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::{Scheme, Stage, did, free_port, is_socket};
use std::process::Command;

pub const NODE_RED: Application = Application {
    name: "node-red",
    title: "Node-RED 4.1",
    story: "log in, import a flow, deploy it, post to it, read what it said in the sidebar; over HTTP/2 and HTTP/1.1",
    configuration: Configuration::File(include_str!("../../configurations/node-red.kdl")),
    program: None,
    install,
    act,
};

const PASSWORD: &str = "a password of the suite";
const SETTINGS: &str = include_str!("../../programs/node-red/settings.js");
const FLOW: &str = include_str!("../../programs/node-red/flow.json");

fn install(cache: &Cache) -> Result<(), String> {
    cache.npm("node-red", &["node-red@4.1.8"])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let modules = stage.cache.of("node-red").join("node_modules");
    let settings = stage.write("settings.js", SETTINGS)?;
    let hash = "console.log(require('bcryptjs').hashSync(process.argv[1], 8))";
    let hash = stage.run(Command::new("node").args(["-e", hash, PASSWORD]).current_dir(stage.cache.of("node-red")))?;
    for scheme in Scheme::BOTH {
        let port = free_port()?;
        let mut command = Command::new("node");
        command.arg(modules.join("node-red/red.js")).arg("--settings").arg(&settings);
        command.arg("--userDir").arg(stage.folder.join(format!("user-{}", scheme.name())));
        command.env("PORT", port.to_string()).env("PASSWORD_HASH", hash.trim());
        let _server = stage.start_at("node-red", port, &mut command)?;
        edit(stage, port, scheme)?;
    }
    Ok(())
}

fn edit(stage: &Stage<'_>, port: u16, scheme: Scheme) -> Result<(), String> {
    let version = scheme.version();
    let origin = format!("{}://localhost:{}", scheme.name(), free_port()?);
    let front = stage.front(&[("https://localhost:8443", &origin), ("127.0.0.1:1880", &format!("127.0.0.1:{port}"))])?;
    let mut page = stage.browser()?;
    page.open(&format!("{origin}/"))?;
    page.fill("#node-dialog-login-username", "anna")?;
    page.fill("#node-dialog-login-password", PASSWORD)?;
    page.click("#node-dialog-login-submit", "")?;
    page.see("#red-ui-header-button-deploy", "")?;
    page.wait("!document.querySelector('#red-ui-loading-progress')?.getClientRects().length", "the editor is there")?;
    did(&format!("{version}: logged in"));
    import_and_deploy(&mut page)?;
    did(&format!("{version}: a flow was imported and deployed"));
    page.value("RED.sidebar.show('debug')")?;
    let url = format!("{origin}/hello");
    let answer = stage.curl(&["-H", "Content-Type: application/json", "-d", "{\"from\":\"a client\"}", &url])?;
    if answer != "{\"from\":\"a client\"}" {
        return Err(format!("the flow answers {answer}"));
    }
    page.see(".red-ui-debug-msg", "a client")?;
    did(&format!("{version}: the flow answered, and the sidebar shows what it saw"));
    drop(page);
    front.carried("sockets of the editor", scheme, 1, |line| is_socket(line, "/comms"))?;
    front.check(|_| false)
}

fn import_and_deploy(page: &mut Browser) -> Result<(), String> {
    page.click("#red-ui-workspace-chart", "")?;
    page.press("i", Held::Control)?;
    page.fill("#red-ui-clipboard-dialog-import-text", FLOW)?;
    // What stands there is looked at when a key is let go.
    page.press("Enter", Held::Nothing)?;
    page.click("#red-ui-clipboard-dialog-ok:not(:disabled):not(.ui-state-disabled)", "")?;
    page.see_no("#red-ui-clipboard-dialog-import-text", "")?;
    // What was imported hangs on the mouse until it is put down.
    page.click("#red-ui-workspace-chart", "")?;
    page.click("#red-ui-header-button-deploy", "")?;
    page.see(".red-ui-notification", "deployed")
}
