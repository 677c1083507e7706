//! Next.js: its development server, whose page changes while it is open, and its production server with server actions,
//! streamed pages and pictures that are made smaller.

use super::Application;
use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::{Front, Scheme, Stage, did, free_port, is_socket, write};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

pub const NEXT: Application = Application {
    name: "next",
    title: "Next.js 15.5 on React 19.1",
    story: "change a page while it is open; build it; a server action, a streamed page, a picture, an upload; over HTTP/2 and HTTP/1.1",
    configuration: Configuration::File(include_str!("../../configurations/next.kdl")),
    program: None,
    install,
    act,
};

const FILES: &[(&str, &str)] = &[
    ("app/layout.js", include_str!("../../programs/next/app/layout.js")),
    ("app/page.js", include_str!("../../programs/next/app/page.js")),
    ("app/counter.js", include_str!("../../programs/next/app/counter.js")),
    ("app/actions.js", include_str!("../../programs/next/app/actions.js")),
    ("app/greeted/page.js", include_str!("../../programs/next/app/greeted/page.js")),
    ("app/streamed/page.js", include_str!("../../programs/next/app/streamed/page.js")),
    ("app/api/hello/route.js", include_str!("../../programs/next/app/api/hello/route.js")),
];
/// Of one pixel.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const BUILD_TIME_MAX: Duration = Duration::from_secs(600);

fn install(cache: &Cache) -> Result<(), String> {
    cache.npm("next", &["next@15.5.29", "react@19.1.10", "react-dom@19.1.10"])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    for (name, text) in FILES {
        stage.write(&format!("app/{name}"), text)?;
    }
    let picture = BASE64_STANDARD.decode(PICTURE).map_err(|error| error.to_string())?;
    let public = stage.folder.join("app/public");
    fs::create_dir_all(&public)
        .and_then(|()| fs::write(public.join("picture.png"), picture))
        .map_err(|error| error.to_string())?;
    Scheme::BOTH.into_iter().try_for_each(|scheme| develop(stage, scheme))?;
    stage.run_within(&mut next(stage, &["build"]), BUILD_TIME_MAX)?;
    did("it was built");
    let port = free_port()?;
    let _server = stage.start_at("next", port, &mut next(stage, &["start", "-H", "127.0.0.1", "-p", &port.to_string()]))?;
    Scheme::BOTH.into_iter().try_for_each(|scheme| visit(stage, port, scheme))
}

fn next(stage: &Stage<'_>, arguments: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.arg(stage.cache.of("next").join("node_modules/next/dist/bin/next")).args(arguments);
    command.env("NEXT_TELEMETRY_DISABLED", "1").env("NODE_ENV", if arguments[0] == "dev" { "development" } else { "production" });
    command.current_dir(stage.folder.join("app"));
    command
}

fn front(stage: &Stage<'_>, port: u16, scheme: Scheme) -> Result<(Front, String), String> {
    let origin = format!("{}://localhost:{}", scheme.name(), free_port()?);
    let front = stage.front(&[("https://localhost:8443", &origin), ("127.0.0.1:3000", &format!("127.0.0.1:{port}"))])?;
    Ok((front, origin))
}

fn develop(stage: &Stage<'_>, scheme: Scheme) -> Result<(), String> {
    let (port, version) = (free_port()?, scheme.version());
    let server = stage.start_at("next-dev", port, &mut next(stage, &["dev", "-H", "127.0.0.1", "-p", &port.to_string()]))?;
    let (front, origin) = front(stage, port, scheme)?;
    let mut page = stage.browser()?;
    page.open(&format!("{origin}/"))?;
    page.see("h1", "first heading")?;
    // Its script runs when the button counts.
    page.wait(
        "/[1-9]/.test(document.querySelector('#counter').textContent) || (document.querySelector('#counter').click(), false)",
        "it counts",
    )?;
    let count = page.value("document.querySelector('#counter').textContent")?;
    let file: PathBuf = stage.folder.join("app/app/page.js");
    write(&file, &FILES[1].1.replace("first heading", "second heading"))?;
    page.see("h1", "second heading")?;
    if page.value("document.querySelector('#counter').textContent")? != count {
        return Err(page.failed("the page was loaded anew where a component was to be replaced"));
    }
    write(&file, FILES[1].1)?;
    page.see("h1", "first heading")?;
    did(&format!("{version}: a component was replaced in the open page"));
    drop(page);
    drop(server);
    front.carried("sockets of the development server", scheme, 1, |line| is_socket(line, "/_next/webpack-hmr"))?;
    front.check(|line| matches!(line["reason"].as_str(), Some("connect_failed" | "no_server" | "closed_early" | "reset")))
}

fn visit(stage: &Stage<'_>, port: u16, scheme: Scheme) -> Result<(), String> {
    let version = scheme.version();
    let (front, origin) = front(stage, port, scheme)?;
    let mut page = stage.browser()?;
    page.open(&format!("{origin}/"))?;
    page.wait("document.querySelector('img').naturalWidth > 0", "the picture")?;
    page.fill("input[name=name]", "Ada")?;
    page.click("button", "Greet")?;
    page.see("h2", "hello Ada")?;
    let at = page.value("location.origin")?;
    if at != origin {
        return Err(page.failed(&format!("the action led to {at}")));
    }
    did(&format!("{version}: a picture was made smaller, and a server action led to its page"));
    // Parts of a page are shown as they come.
    let streamed = "(async () => { const reader = (await fetch('/streamed')).body.getReader(); const read = new TextDecoder(); \
                    let text = '', first; for (;;) { const { value, done } = await reader.read(); if (done) break; \
                    text += read.decode(value, { stream: true }); first ??= text.includes('early words') && !text.includes('late words'); } \
                    return [first, text.includes('late words')]; })()";
    if page.value(streamed)? != serde_json::json!([true, true]) {
        return Err(page.failed("the streamed page does not come in parts"));
    }
    let sent =
        page.value("fetch('/api/hello', { method: 'POST', body: new Uint8Array(5000000) }).then(answer => answer.json())")?;
    if sent["bytes"] != 5_000_000 || sent["host"] != origin.split("//").nth(1).unwrap_or_default() {
        return Err(page.failed(&format!("an upload: {sent}")));
    }
    did(&format!("{version}: a page came in parts, and five megabytes were posted"));
    drop(page);
    front.carried("pictures", scheme, 1, |line| line["path"] == "/_next/image" && line["status"] == 200)?;
    front.check(|_| false)
}
