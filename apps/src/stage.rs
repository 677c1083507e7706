//! What one application stands on while it is used: a folder, free ports, its programs, and Tidegate in front of it
//! with the configuration that is kept in `configurations/`, in which only the addresses are others.

use crate::browser::Browser;
use crate::cache::Cache;
use crate::example::replaced_in;
use crate::processes::{Process, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tidegate_testkit::ports::Reservation;

/// Until a program that was started answers; some compile first.
const START_TIME_MAX: Duration = Duration::from_secs(120);
/// Until what has ended is in the log.
const LOG_TIME_MAX: Duration = Duration::from_secs(15);
/// One command that a person gives.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(300);

/// The two addresses that a page is opened by. A browser speaks HTTP/2 with TLS alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub const BOTH: [Scheme; 2] = [Scheme::Https, Scheme::Http];

    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// Which version a browser speaks there, as the access log has it.
    pub fn version(self) -> &'static str {
        match self {
            Scheme::Http => "HTTP/1.1",
            Scheme::Https => "HTTP/2",
        }
    }
}

/// For the time of one application.
pub struct Stage<'a> {
    pub cache: &'a Cache,
    pub folder: PathBuf,
    program: &'a Path,
    configuration: String,
}

/// A Tidegate that runs.
pub struct Front {
    /// None while it is restarted.
    process: Option<Process>,
    pub admin: String,
    folder: PathBuf,
    access_log: PathBuf,
    /// Whether it takes certificates that it has made itself for those of others.
    trusts_itself: bool,
}

impl<'a> Stage<'a> {
    /// In a fresh folder of that place.
    pub fn new(cache: &'a Cache, folder: PathBuf, program: &'a Path, configuration: String) -> Result<Stage<'a>, String> {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Stage { cache, folder, program, configuration })
    }

    /// Starts a program; what it says goes into a file of its name.
    pub fn start(&self, name: &str, command: &mut Command) -> Result<Process, String> {
        Process::start(name, command, &self.folder.join(format!("{name}.log")))
    }

    /// Starts a program and waits until it listens at the port.
    pub fn start_at(&self, name: &str, port: u16, command: &mut Command) -> Result<Process, String> {
        let mut process = self.start(name, command)?;
        let connects = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        process.wait_until(&format!("it listens at port {port}"), START_TIME_MAX, connects)?;
        Ok(process)
    }

    /// Runs a command to its end and gives what it printed.
    pub fn run(&self, command: &mut Command) -> Result<String, String> {
        self.run_within(command, COMMAND_TIME_MAX)
    }

    pub fn run_within(&self, command: &mut Command, bound: Duration) -> Result<String, String> {
        let output = self.folder.join("command.out");
        let _ = fs::remove_file(&output);
        let _ = fs::remove_file(output.with_extension("err"));
        run(command, &output, bound)
    }

    /// What curl prints for these arguments.
    pub fn curl(&self, arguments: &[&str]) -> Result<String, String> {
        self.run(Command::new("curl").args(["-sS", "--insecure", "--max-time", "60"]).args(arguments))
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        write(&self.folder.join(name), text)
    }

    pub fn browser(&self) -> Result<Browser, String> {
        Browser::start(&self.folder, None)
    }

    /// A browser that finds the names of the manual (`app.example.com`) at this port.
    pub fn browser_at(&self, port: u16) -> Result<Browser, String> {
        Browser::start(&self.folder, Some(port))
    }

    /// An upstream that answers with what it was asked, and its address.
    pub fn echo(&self) -> Result<(Process, String), String> {
        let (port, script) = (free_port()?, self.write("echo.py", include_str!("../programs/echo.py"))?);
        let process = self.start_at("echo", port, Command::new("python3").arg(script).arg(port.to_string()))?;
        Ok((process, format!("127.0.0.1:{port}")))
    }

    /// A proxy by which programs get to this port, whatever name they ask for, and its URL.
    pub fn names(&self, to: u16) -> Result<(Process, String), String> {
        let (port, script) = (free_port()?, self.write("names.py", include_str!("../programs/names.py"))?);
        let mut command = Command::new("python3");
        let process = self.start_at("names", port, command.arg(script).args([port, to].map(|port| port.to_string())))?;
        Ok((process, format!("http://127.0.0.1:{port}")))
    }

    /// Starts Tidegate with the configuration, in which these texts are replaced; each has to be there. What a reader
    /// of the file would not write is added: a place for the log, and ports that are free.
    pub fn front(&self, replaced: &[(&str, &str)]) -> Result<Front, String> {
        self.front_of(&self.configuration, replaced)
    }

    /// Starts Tidegate as `front` does, where sites have the names of the manual: they are at this port, with
    /// certificates of the internal authority, since no other gives any for them.
    pub fn front_by_name(&self, port: u16, replaced: &[(&str, &str)]) -> Result<Front, String> {
        self.front_of_page(&self.configuration, port, replaced)
    }

    /// Starts Tidegate as `front_by_name` does, with another example of the page.
    pub fn front_of_page(&self, text: &str, port: u16, replaced: &[(&str, &str)]) -> Result<Front, String> {
        let lines = text.lines();
        let lines = lines.map(|line| match line.strip_prefix("site \"").and_then(|rest| rest.split_once('"')) {
            Some((name, rest)) => format!("site \"https://{name}:{port}\"{rest}\n    tls \"internal\"\n"),
            None => format!("{line}\n"),
        });
        self.front_of(&lines.collect::<String>(), replaced)
    }

    fn front_of(&self, text: &str, replaced: &[(&str, &str)]) -> Result<Front, String> {
        let mut text = replaced_in(text, replaced)?;
        let port = free_port()?;
        let admin = format!("127.0.0.1:{port}");
        let folder = self.folder.join(format!("tidegate-{port}"));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let access_log = folder.join("access.log");
        text.push_str(&format!("\nadmin \"{admin}\"\naccess-log \"{}\"\n", access_log.display()));
        write(&folder.join("tidegate.kdl"), &text)?;
        let mut front = Front { process: None, admin, folder, access_log, trusts_itself: false };
        front.start(self)?;
        Ok(front)
    }
}

impl Front {
    fn start(&mut self, stage: &Stage<'_>) -> Result<(), String> {
        let mut command = Command::new(stage.program);
        command.args(["run", "--config", "tidegate.kdl"]).env("STATE_DIRECTORY", self.folder.join("state"));
        if self.trusts_itself {
            command.env("SSL_CERT_FILE", self.root_certificate());
        }
        let mut process = Process::start("tidegate", command.current_dir(&self.folder), &self.folder.join("tidegate.log"))?;
        let is_ready = || matches!(tidegate_testkit::get(&self.admin, "/readyz"), Ok((200, _)));
        process.wait_until("ready", START_TIME_MAX, is_ready)?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it, in order or as `kill -9` does, and starts it again.
    pub fn restart(&mut self, stage: &Stage<'_>, is_killed: bool) -> Result<(), String> {
        match self.process.take() {
            Some(process) if is_killed => process.kill(),
            process => drop(process),
        }
        self.start(stage)
    }

    /// Starts it again where the machine trusts its internal authority, as where somebody has put a provider
    /// behind it.
    pub fn trust_itself(&mut self, stage: &Stage<'_>) -> Result<(), String> {
        self.trusts_itself = true;
        self.restart(stage, false)
    }

    /// The lines of the access log that fit.
    pub fn logged(&self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let text = fs::read_to_string(&self.access_log).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(|line| fits(line)).collect()
    }

    /// The sum of a metric, when it is there.
    pub fn metric(&self, selector: &str) -> Option<f64> {
        tidegate_testkit::Metrics::fetch(&self.admin).ok().map(|metrics| metrics.sum(selector))
    }

    /// The root certificate of the internal authority.
    pub fn root_certificate(&self) -> PathBuf {
        self.folder.join("state/internal-ca/root.crt")
    }

    /// Whether Tidegate itself refused something, or broke something off. What is said to be expected is left out, and
    /// so are clients and WebSockets that went away, as browsers have it when a page is left.
    pub fn check(&self, is_expected: impl Fn(&Value) -> bool) -> Result<(), String> {
        let is_of_leaving = |reason: &Value| matches!(reason.as_str(), Some("client_gone" | "tunnel_reset"));
        let fits = |line: &Value| line.get("reason").is_some_and(|reason| !is_of_leaving(reason)) && !is_expected(line);
        let refused = self.logged(fits);
        if refused.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = refused.iter().take(5).map(ToString::to_string).collect();
        Err(format!("Tidegate refused or ended {} exchanges:\n{}", refused.len(), lines.join("\n")))
    }

    /// Fails unless as many exchanges as `least` fit that were carried by this version.
    pub fn carried(&self, what: &str, scheme: Scheme, least: usize, fits: impl Fn(&Value) -> bool) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let count = self.logged(|line| line["protocol"] == scheme.version() && fits(line)).len();
            if count >= least {
                return Ok(());
            }
            // An exchange has its line when it has ended.
            if begin.elapsed() > LOG_TIME_MAX {
                return Err(format!("{count} of {least} over {}: {what}", scheme.version()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Something a person did, and that worked.
pub fn did(text: &str) {
    println!("    {text}");
}

/// Nobody has it now; whoever is told binds it next.
pub fn free_port() -> Result<u16, String> {
    Reservation::new().map(|reservation| reservation.port()).map_err(|error| error.to_string())
}

pub fn write(file: &Path, text: &str) -> Result<PathBuf, String> {
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(file, text)).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file.to_owned())
}

/// Whether a line is that of a WebSocket at this path: 101, or 200 over HTTP/2, where it is a stream as any other.
pub fn is_socket(line: &Value, path: &str) -> bool {
    let is_answered = line["status"] == 101 || (line["status"] == 200 && line["protocol"] == "HTTP/2");
    is_answered && line["method"] == "GET" && line["path"].as_str().is_some_and(|found| found.starts_with(path))
}
