//! The manual as a site, in a real browser: it has a light and a dark form as the system wants it, its search finds,
//! and no page asks anything of another host. Pages are served by the program, with a policy (Content Security Policy)
//! under which the browser refuses what is foreign and reports it.

use super::{CheckOutcome, asked, is_missing};
use crate::dist::{Distribution, failed, put};
use crate::process::Invocation;
use crate::release::Machine;
use crate::repository::target_directory;
use crate::scratch::ScratchFolder;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// What is opened: its path, what the system prefers, and what the page then has.
const VISITS: [(&str, Preferred, &str); 4] = [
    ("/index.html", Preferred::Light, "class=\"js light"),
    ("/index.html", Preferred::Dark, "class=\"js navy"),
    ("/?search=least+connections", Preferred::Light, "href=\"pools.html"),
    ("/configuration.html", Preferred::Light, "discover"),
];

#[derive(Debug, Clone, Copy)]
enum Preferred {
    Light,
    Dark,
}

pub fn check(distribution: &Distribution) -> Result<CheckOutcome, String> {
    if let Some(left) = is_missing("chromium", "chromium") {
        return Ok(left);
    }
    let scratch = ScratchFolder::new("site")?;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let port = port.map_err(|error| error.to_string())?.port();
    let _server = Server::start(distribution, &scratch, port)?;
    for (path, preferred, expected) in VISITS {
        let page = opened(&scratch, &format!("http://127.0.0.1:{port}{path}"), preferred)?;
        if !page.contains(expected) {
            let kept = target_directory(&distribution.root)?.join("site-seen.html");
            fs::write(&kept, page).map_err(failed(&kept))?;
            return Err(format!(
                "{path} ({preferred:?}) has no `{expected}` in the browser; what it has is in {}",
                kept.display()
            ));
        }
    }
    let log = scratch.path().join("log");
    let log = fs::read_to_string(&log).map_err(failed(&log))?;
    let foreign: Vec<&str> = log.lines().filter(|line| line.contains(REPORT)).collect();
    if !foreign.is_empty() {
        return Err(format!("{} requests to other hosts were refused by the browser", foreign.len()));
    }
    let missing: Vec<&str> = log.lines().filter(|line| line.ends_with(" 404")).collect();
    if missing.is_empty() {
        Ok(CheckOutcome::Passed(format!("light, dark and search; {} requests, none to another host", log.lines().count())))
    } else {
        Err(format!("the site lacks what its pages ask for: {}", missing.join(", ")))
    }
}

const REPORT: &str = "/reported-as-foreign";

struct Server(Child);

impl Server {
    fn start(distribution: &Distribution, scratch: &ScratchFolder, port: u16) -> Result<Server, String> {
        let book = target_directory(&distribution.root)?.join("site/book");
        let text = format!(
            "admin \"off\"\naccess-log \"{log}\" format=\"{{path}} {{status}}\"\nsite \"http://127.0.0.1:{port}\" {{\n    \
             response-header \"Content-Security-Policy\" \"default-src 'self' 'unsafe-inline' data:; report-uri {REPORT}\"\n    \
             route \"{REPORT}\" {{ respond 204; }}\n    files \"{book}\"\n}}\n",
            log = scratch.path().join("log").display(),
            book = book.display()
        );
        put(scratch.path(), "tidegate.kdl", &text)?;
        let mut command = Command::new(distribution.program(Machine::this()?)?);
        command.args(["run", "--config", "tidegate.kdl"]).current_dir(scratch.path()).env("STATE_DIRECTORY", scratch.path());
        let process = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let server = Server(process);
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > deadline {
                return Err("the program does not serve the site".into());
            }
            sleep(LOOK);
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The page as it is when its scripts are done.
fn opened(scratch: &ScratchFolder, address: &str, preferred: Preferred) -> Result<String, String> {
    let profile = format!("--user-data-dir={}", scratch.path().join("profile").display());
    let colours = match preferred {
        Preferred::Light => "--blink-settings=preferredColorScheme=1",
        Preferred::Dark => "--blink-settings=preferredColorScheme=0",
    };
    let words = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--virtual-time-budget=15000",
        &profile,
        colours,
        "--dump-dom",
        address,
    ];
    asked(&Invocation::new("chromium", &words), Path::new("/"))
}
