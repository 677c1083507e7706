//! The two proxies of a case, running: the other one with its file, ours with what is imported of it.

use super::PROGRAM;
use super::echo::Echo;
use super::peers::Peer;
use super::scripts::Scripts;
use super::seeds::Seeds;
use crate::programs::{run, wait_until_it_listens};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tidegate_testkit::Program;
use tidegate_testkit::ports::Reservation;
use tidegate_testkit::program::Surroundings;

/// Ports of the file beside the first, `@PORT2@` and so on.
const PORTS: usize = 3;

/// How a fault begins where there is nothing to compare.
pub const NOTHING: &str = "nothing was imported";

pub struct Pair {
    folder: TempDir,
    peer: Program,
    _ours: Program,
    _upstreams: [Echo; 2],
    pub peer_port: u16,
    pub our_port: u16,
    pub configuration: String,
    /// What `import` said of the file.
    pub report: String,
    /// Requests that `import` wrote of the file, unless its configuration was written by hand.
    pub questions: PathBuf,
    ports: Vec<u16>,
}

impl Pair {
    pub fn start(peer: Peer, program: &Path, case: &Path, seeds: &Seeds) -> Result<Pair, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let upstreams = [Echo::start("upstream-a", &seeds.shown)?, Echo::start("upstream-b", &seeds.shown)?];
        let scripts = Scripts::start()?;
        // One for each port of the peer, one for each of ours, and one for the admin endpoint.
        let mut reserved =
            (0..=2 * PORTS).map(|_| Reservation::new()).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let ports: Vec<u16> = reserved.iter().map(Reservation::port).collect();
        let (of_peer, of_ours, admin) = (&ports[..PORTS], &ports[PORTS..2 * PORTS], ports[2 * PORTS]);
        let copied = folder.path().join("case");
        copy(case, &copied)?;
        let fill = |text: &str| {
            let mut text =
                text.replace("@A@", &upstreams[0].address.to_string()).replace("@B@", &upstreams[1].address.to_string());
            text = text.replace("@S@", &scripts.address.to_string());
            for (name, echo) in [("@A_PORT@", &upstreams[0]), ("@B_PORT@", &upstreams[1])] {
                text = text.replace(name, &echo.address.port().to_string());
            }
            text = text.replace("@FOLDER@", &copied.display().to_string()).replace("@PORT@", &of_peer[0].to_string());
            for (number, port) in of_peer.iter().enumerate().skip(1) {
                text = text.replace(&format!("@PORT{}@", number + 1), &port.to_string());
            }
            text
        };
        fill_all(&copied, &fill)?;
        let file = copied.join(peer.file());
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let questions = folder.path().join("questions.txt");
        let (mut configuration, report) = imported(peer, &file, &questions)?;
        for (theirs, our) in of_peer.iter().zip(of_ours) {
            configuration = configuration.replace(&format!(":{theirs}"), &format!(":{our}"));
        }
        let ours = folder.path().join("ours.kdl");
        let surroundings = format!("admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 1\n");
        // Whether it is ready is asked at an endpoint of the test.
        let is_ours = |line: &&str| ["admin ", "access-log ", "threads "].iter().any(|word| line.starts_with(word));
        let configured: String = configuration.lines().filter(|line| !is_ours(line)).map(|line| line.to_owned() + "\n").collect();
        let added = surroundings.trim_end();
        let whole = configured.replacen("edition \"2026\"", &format!("edition \"2026\"\n{added}"), 1);
        fs::write(&ours, &whole).map_err(|error| error.to_string())?;
        let of_peer_alone = folder.path().join("peer");
        fs::create_dir_all(&of_peer_alone).map_err(|error| error.to_string())?;
        // Some read beside the file what belongs to it.
        let started_on = copied.join(format!("started-{}", peer.file()));
        fs::write(&started_on, peer.whole(&text, &of_peer_alone)).map_err(|error| error.to_string())?;
        reserved.clear();
        let environment = ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name, of_peer_alone.display().to_string()));
        let surroundings = Surroundings { environment: environment.to_vec(), ..Surroundings::default() };
        let mut their = Program::start_in(program, &peer.arguments(&started_on, &copied), &copied, &surroundings)?;
        let address = SocketAddr::from(([127, 0, 0, 1], of_peer[0]));
        if let Err(fault) = wait_until_it_listens(address) {
            return Err(format!("{}: {fault}\n{}", peer.name(), their.output()));
        }
        if peer == Peer::Traefik {
            wait_for_routers(address, &seeds.first())?;
        }
        let our = Program::start_proxy(Path::new(PROGRAM), &ours, &format!("127.0.0.1:{admin}"))
            .map_err(|fault| format!("{fault}\n--- the configuration\n{whole}\n--- the report\n{report}"))?;
        if let Some(code) = their.poll_exit() {
            return Err(format!("{} ended with {code}\n{}", peer.name(), their.output()));
        }
        Ok(Pair {
            peer_port: of_peer[0],
            our_port: of_ours[0],
            peer: their,
            _ours: our,
            _upstreams: upstreams,
            folder,
            configuration,
            report,
            questions,
            ports,
        })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Both are asked for the same host, and know their own port.
    pub fn ports_pattern(&self) -> String {
        let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
        format!(":({})\\b", ports.join("|"))
    }

    pub fn said(&self) -> String {
        self.peer.output()
    }
}

/// Traefik listens before it has read its routers, and answers 404 until then.
fn wait_for_routers(address: SocketAddr, request: &str) -> Result<(), String> {
    const ATTEMPTS: usize = 500;
    for _ in 0..ATTEMPTS {
        let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        if !answer.starts_with("HTTP/1.1 404") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("Traefik answers its first boundary with 404".to_owned())
}

/// What stands in the case, where it was written by hand, or what `import` makes of the file.
fn imported(peer: Peer, file: &Path, questions: &Path) -> Result<(String, String), String> {
    let written = file.with_file_name("tidegate.kdl");
    if written.is_file() {
        return Ok((fs::read_to_string(written).map_err(|error| error.to_string())?, String::new()));
    }
    // Routers of Traefik stand in another file than its listeners do.
    let given = if peer == Peer::Traefik { file.parent().unwrap_or(file) } else { file };
    let (given, questions) = (given.display().to_string(), questions.display().to_string());
    let arguments = ["import", peer.name(), &given, "--questions", &questions].map(str::to_owned);
    let said = run(Path::new(PROGRAM), &arguments, "");
    let configuration = String::from_utf8_lossy(&said.stdout).into_owned();
    let report = said.text.get(configuration.len()..).unwrap_or_default().to_owned();
    if configuration.trim().is_empty() {
        return Err(format!("{NOTHING}\n{report}"));
    }
    Ok((configuration, report))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(fault)?;
    for entry in fs::read_dir(from).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &place)?;
        } else {
            fs::copy(entry.path(), place).map_err(fault)?;
        }
    }
    Ok(())
}

/// Texts of the case get their addresses; what is no text stays.
fn fill_all(folder: &Path, fill: &dyn Fn(&str) -> String) -> Result<(), String> {
    let fault = |error: std::io::Error| error.to_string();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.is_dir() {
            fill_all(&path, fill)?;
        } else if let Ok(text) = fs::read_to_string(&path) {
            fs::write(&path, fill(&text)).map_err(fault)?;
        }
    }
    Ok(())
}
