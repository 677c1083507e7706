//! JupyterLab: kernels and terminals by WebSocket, uploads in pieces, everything else by JSON.

use super::Application;
use crate::browser::{Browser, Held};
use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::{Scheme, Stage, did, free_port, is_socket, write};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub const JUPYTER: Application = Application {
    name: "jupyter",
    title: "JupyterLab 4.6",
    story: "log in, run a cell, save the notebook, type in a terminal, upload 20 MB; over HTTP/2 and HTTP/1.1",
    configuration: Configuration::File(include_str!("../../configurations/jupyter.kdl")),
    program: None,
    install,
    act,
};

const TOKEN: &str = "a-token-of-the-suite";
const UPLOAD_BYTES: usize = 20 << 20;
const BOUND: Duration = Duration::from_secs(90);

fn install(cache: &Cache) -> Result<(), String> {
    cache.pip("jupyter", &["jupyterlab==4.6.6"])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    let (port, files) = (free_port()?, stage.folder.join("files"));
    fs::create_dir_all(&files).map_err(|error| error.to_string())?;
    let mut command = Command::new(stage.cache.of("jupyter").join("venv/bin/jupyter-lab"));
    command.args(["--no-browser", "--allow-root", "--ip=127.0.0.1", &format!("--port={port}"), "--port-retries=0"]);
    command.arg(format!("--IdentityProvider.token={TOKEN}")).arg(format!("--ServerApp.root_dir={}", files.display()));
    for (name, folder) in [
        ("HOME", "home"),
        ("JUPYTER_CONFIG_DIR", "home/config"),
        ("JUPYTER_DATA_DIR", "home/data"),
        ("JUPYTER_RUNTIME_DIR", "home/runtime"),
        ("IPYTHONDIR", "home/ipython"),
    ] {
        command.env(name, stage.folder.join(folder));
    }
    command.env("SHELL", "/bin/sh").current_dir(&files);
    fs::create_dir_all(stage.folder.join("home")).map_err(|error| error.to_string())?;
    let _server = stage.start_at("jupyter", port, &mut command)?;
    for scheme in Scheme::BOTH {
        use_lab(stage, port, &files, scheme)?;
    }
    Ok(())
}

fn use_lab(stage: &Stage<'_>, port: u16, files: &Path, scheme: Scheme) -> Result<(), String> {
    let origin = format!("{}://localhost:{}", scheme.name(), free_port()?);
    let front = stage.front(&[("https://localhost:8443", &origin), ("127.0.0.1:8888", &format!("127.0.0.1:{port}"))])?;
    let mut page = stage.browser()?;
    page.open(&format!("{origin}/lab?reset"))?;
    page.fill("#password_input", TOKEN)?;
    page.click("#login_submit", "")?;
    page.see(".jp-LauncherCard", "Python 3")?;
    did(&format!("{}: logged in", scheme.version()));
    run_a_cell(&mut page, files)?;
    did(&format!("{}: a cell was run by its kernel, and the notebook saved", scheme.version()));
    type_in_a_terminal(&mut page, files, scheme)?;
    did(&format!("{}: a terminal did what was typed", scheme.version()));
    upload(&mut page, stage, files)?;
    did(&format!("{}: 20 MB were uploaded in pieces", scheme.version()));
    drop(page);
    front.carried("sockets of kernels", scheme, 1, |line| is_socket(line, "/api/kernels/"))?;
    front.carried("sockets of terminals", scheme, 1, |line| is_socket(line, "/terminals/websocket/"))?;
    front.check(|_| false)
}

fn run_a_cell(page: &mut Browser, files: &Path) -> Result<(), String> {
    page.click(".jp-LauncherCard[data-category='Notebook']", "Python 3")?;
    page.see(".jp-Notebook .cm-content", "")?;
    // A cell that is run before would have the page start a second kernel.
    page.see("#jp-main-statusbar", "Idle")?;
    page.click(".jp-Notebook .cm-content", "")?;
    page.insert("print('answer', 6 * 7)")?;
    page.press("Enter", Held::Shift)?;
    page.see(".jp-OutputArea-output", "answer 42")?;
    let before = saved(files);
    page.press("s", Held::Control)?;
    // The first time it asks for a name.
    let begin = Instant::now();
    while saved(files) == before {
        if page.sees(".jp-Dialog .jp-mod-accept", "") {
            page.click(".jp-Dialog .jp-mod-accept", "")?;
        }
        if begin.elapsed() > BOUND {
            return Err(page.failed("the notebook is not saved"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// How many notebooks have the answer.
fn saved(files: &Path) -> usize {
    let entries = fs::read_dir(files).into_iter().flatten().flatten();
    entries.filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("answer 42"))).count()
}

fn type_in_a_terminal(page: &mut Browser, files: &Path, scheme: Scheme) -> Result<(), String> {
    page.value("document.activeElement.blur()")?;
    page.click(".jp-Toolbar [data-command='filebrowser:create-main-launcher'], [data-command='launcher:create']", "")?;
    page.click(".jp-LauncherCard[data-category='Other']", "Terminal")?;
    page.see(".jp-Terminal .xterm-screen", "")?;
    page.click(".jp-Terminal .xterm-screen", "")?;
    let file = files.join(format!("typed-{}.txt", scheme.name()));
    page.type_keys(&format!("echo typed $((6*7)) > {}\n", file.display()))?;
    let begin = Instant::now();
    while !fs::read_to_string(&file).is_ok_and(|text| text == "typed 42\n") {
        if begin.elapsed() > BOUND {
            return Err(page.failed("the terminal does not do what is typed"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn upload(page: &mut Browser, stage: &Stage<'_>, files: &Path) -> Result<(), String> {
    // Pieces in another order would be another text.
    let text = (0..UPLOAD_BYTES / 8).fold(String::new(), |text, number| text + &format!("{number:07}\n"));
    let file = write(&stage.folder.join("upload.txt"), &text)?;
    page.choose_file(
        "[data-command='ui-components:file-upload'], jp-button[title*='Upload'], button[title*='Upload']",
        "",
        &file,
    )?;
    let (begin, there) = (Instant::now(), files.join("upload.txt"));
    while !fs::metadata(&there).is_ok_and(|found| found.len() == text.len() as u64) {
        // JupyterLab asks once whether so much is meant.
        if page.sees(".jp-Dialog .jp-mod-accept", "") {
            page.click(".jp-Dialog .jp-mod-accept", "")?;
        }
        if begin.elapsed() > BOUND {
            return Err(page.failed("the file does not come"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let is_same = fs::read_to_string(&there).is_ok_and(|found| found == text);
    fs::remove_file(&there).map_err(|error| error.to_string())?;
    if is_same { Ok(()) } else { Err("the file is not what was uploaded".into()) }
}
