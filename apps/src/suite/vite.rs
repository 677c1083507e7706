//! Vite's development server: modules that are replaced while the page stays, by WebSocket, and a page that comes back
//! when the server does.

use super::Application;
use crate::browser::Browser;
use crate::cache::Cache;
use crate::example::Configuration;
use crate::processes::Process;
use crate::stage::{Front, Scheme, Stage, did, free_port, is_socket, write};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

pub const VITE: Application = Application {
    name: "vite",
    title: "Vite 7.3",
    story: "change a module, a style and the page while it is open, kill the server and start it again; over HTTP/2 and HTTP/1.1",
    configuration: Configuration::File(include_str!("../../configurations/vite.kdl")),
    program: None,
    install,
    act,
};

const FILES: &[(&str, &str)] = &[
    ("index.html", include_str!("../../programs/vite/index.html")),
    ("main.js", include_str!("../../programs/vite/main.js")),
    ("message.js", include_str!("../../programs/vite/message.js")),
    ("style.css", include_str!("../../programs/vite/style.css")),
];

fn install(cache: &Cache) -> Result<(), String> {
    cache.npm("vite", &["vite@7.3.8"])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    Scheme::BOTH.into_iter().try_for_each(|scheme| develop(stage, scheme))
}

fn develop(stage: &Stage<'_>, scheme: Scheme) -> Result<(), String> {
    let (port, version) = (free_port()?, scheme.version());
    for (name, text) in FILES {
        stage.write(&format!("app/{name}"), text)?;
    }
    let server = start(stage, port)?;
    let origin = format!("{}://localhost:{}", scheme.name(), free_port()?);
    let front = stage.front(&[("https://localhost:8443", &origin), ("127.0.0.1:5173", &format!("127.0.0.1:{port}"))])?;
    let mut page = stage.browser()?;
    page.open(&format!("{origin}/"))?;
    page.see("#message", "first message")?;
    wait_for_socket(&mut page, &front)?;
    let loaded = page.value("loaded")?;
    let app = stage.folder.join("app");
    write(&app.join("message.js"), "export const message = 'second message';\n")?;
    page.see("#message", "second message")?;
    write(&app.join("style.css"), "#message { color: rgb(4, 5, 6); }\n")?;
    page.wait("getComputedStyle(document.querySelector('#message')).color == 'rgb(4, 5, 6)'", "the new colour")?;
    if page.value("loaded")? != loaded {
        return Err(page.failed("the page was loaded anew where a module was to be replaced"));
    }
    did(&format!("{version}: a module and a style were replaced in the open page"));
    write(&app.join("index.html"), &FILES[0].1.replace("first title", "second title"))?;
    page.wait("document.title == 'second title'", "the page is loaded anew")?;
    did(&format!("{version}: the page was loaded anew when its document changed"));
    page.see("#message", "second message")?;
    let loaded = page.value("loaded")?;
    server.kill();
    let again = start(stage, port)?;
    page.wait(&format!("window.loaded && loaded != {loaded}"), "the page comes back with its server")?;
    page.see("#message", "second message")?;
    did(&format!("{version}: the page came back after its server was killed and started again"));
    drop(page);
    drop(again);
    let is_of_vite = |line: &Value| is_socket(line, "/") && line["query"].as_str().is_some_and(|query| query.contains("token="));
    front.carried("sockets of modules", scheme, 1, is_of_vite)?;
    // While the server is away there is none; that is what the page is told when it asks.
    front.check(|line| matches!(line["reason"].as_str(), Some("connect_failed" | "no_server" | "closed_early" | "reset")))
}

fn start(stage: &Stage<'_>, port: u16) -> Result<Process, String> {
    let mut command = Command::new("node");
    command.arg(stage.cache.of("vite").join("node_modules/vite/bin/vite.js")).args(["--host", "127.0.0.1", "--strictPort"]);
    stage.start_at("vite", port, command.args(["--port", &port.to_string()]).current_dir(stage.folder.join("app")))
}

/// Until a WebSocket is open: a page goes around the proxy where it cannot get through.
fn wait_for_socket(page: &mut Browser, front: &Front) -> Result<(), String> {
    // A socket has its line in the log when it ends. While it is open nothing else is on its way.
    let open = || front.metric("tidegate_http_requests_in_flight").is_some_and(|count| count >= 1.0);
    let begin = Instant::now();
    while !open() {
        if begin.elapsed() > Duration::from_secs(30) {
            return Err(page.failed("no WebSocket comes through the proxy"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
