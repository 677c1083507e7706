//! One measurement: the real program with one worker under callgrind, one client that sends its next request when it
//! has the answer, and an upstream beside it. The difference between 2,000 and 1,000 requests counts, so that starting,
//! connecting and stopping cancel out.
//!
//! What moves is held still: all processes share one processor, so a reader always finds what the writer had written
//! and the number of reads does not depend on who was quicker; the environment is fixed; there is no access log and no
//! admin endpoint.

use super::callgrind;
use crate::process::Invocation;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REQUESTS: [u64; 2] = [1_000, 2_000];
/// Under callgrind the program is up to a hundred times slower; a machine may be busy with something else as well.
const LOAD_DURATION: &str = "300s";
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// Copies by loops of vector instructions. By default glibc copies more than 4 KB with `rep movsb`, of which valgrind
/// counts every byte as two instructions: copying a body once would seem to cost as much as encrypting it.
const GLIBC_TUNABLES: &str = "glibc.cpu.x86_rep_movsb_threshold=0x40000000:glibc.cpu.x86_rep_stosb_threshold=0x40000000:\
                              glibc.cpu.x86_non_temporal_threshold=0x40000000";

#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    site: Site,
    alpn: &'static str,
    path: &'static str,
}

/// Of the sites that the program serves, each at a port of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    Plain,
    Tls,
    /// An auth server is asked about each request (`forward-auth`): the upstream itself.
    Asked,
}

pub const SCENARIOS: [Scenario; 9] = [
    Scenario { name: "http1-plain-11b", site: Site::Plain, alpn: "http/1.1", path: "/11b" },
    Scenario { name: "http1-plain-100k", site: Site::Plain, alpn: "http/1.1", path: "/100k" },
    Scenario { name: "http1-tls-11b", site: Site::Tls, alpn: "http/1.1", path: "/11b" },
    Scenario { name: "http1-tls-100k", site: Site::Tls, alpn: "http/1.1", path: "/100k" },
    Scenario { name: "http1-asked-11b", site: Site::Asked, alpn: "http/1.1", path: "/11b" },
    Scenario { name: "http2-plain-11b", site: Site::Plain, alpn: "h2", path: "/11b" },
    Scenario { name: "http2-plain-100k", site: Site::Plain, alpn: "h2", path: "/100k" },
    Scenario { name: "http2-tls-11b", site: Site::Tls, alpn: "h2", path: "/11b" },
    Scenario { name: "http2-tls-100k", site: Site::Tls, alpn: "h2", path: "/100k" },
];

pub struct Programs {
    pub proxy: PathBuf,
    pub lab: PathBuf,
}

/// What all measurements have in common: the upstream, a folder, and the processor that they share.
pub struct Bench {
    programs: Programs,
    folder: Folder,
    processor: String,
    plain: SocketAddr,
    tls: SocketAddr,
    asked: SocketAddr,
    _upstream: Running,
}

impl Bench {
    pub fn new(programs: Programs) -> Result<Bench, String> {
        let folder = Folder::new()?;
        let status = std::fs::read_to_string("/proc/self/status").map_err(|error| format!("/proc/self/status: {error}"))?;
        let processor = last_processor(&status).ok_or("the system does not say which processors may be used")?.to_owned();
        let [upstream, plain, tls, asked] = free_addresses()?;
        std::fs::write(folder.0.join("tidegate.kdl"), configuration([plain, tls, asked], upstream))
            .map_err(|error| error.to_string())?;
        let command = pinned(&processor, &programs.lab, &["backend", "--listen", &upstream.to_string()]);
        let running = Running::start(&command, &folder.0, &folder.0.join("upstream.log"))?;
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(upstream).is_err() {
            if Instant::now() > deadline {
                return Err(format!("the upstream does not start: {}", running.said()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(Bench { programs, folder, processor, plain, tls, asked, _upstream: running })
    }

    /// Instructions of the worker for one request.
    pub fn measure(&self, scenario: Scenario) -> Result<u64, String> {
        let [few, many] = REQUESTS;
        let told = |message| format!("{}: {message}", scenario.name);
        let instructions_few = self.count(scenario, few).map_err(told)?;
        let instructions_many = self.count(scenario, many).map_err(told)?;
        let difference =
            instructions_many.checked_sub(instructions_few).ok_or(told("more requests took fewer instructions".into()))?;
        Ok((difference + (many - few) / 2) / (many - few))
    }

    /// Instructions of the worker from start to end, with so many requests between.
    fn count(&self, scenario: Scenario, requests: u64) -> Result<u64, String> {
        self.folder.remove_counts()?;
        let counts = format!("--callgrind-out-file={}", self.folder.0.join(COUNTS).display());
        let proxy = self.programs.proxy.to_string_lossy();
        let arguments = ["--tool=callgrind", "--separate-threads=yes", &counts, &proxy, "run", "--config", "tidegate.kdl"];
        let command = pinned(&self.processor, Path::new("valgrind"), &arguments);
        let mut running = Running::start(&command, &self.folder.0, &self.folder.0.join("proxy.log"))?;
        running.await_ready()?;
        self.load(scenario, requests)?;
        running.stop()?;
        let texts = self.folder.counts()?;
        callgrind::worker_instructions(texts.iter().map(String::as_str))
    }

    fn load(&self, scenario: Scenario, requests: u64) -> Result<(), String> {
        let address = match scenario.site {
            Site::Plain => self.plain,
            Site::Tls => self.tls,
            Site::Asked => self.asked,
        };
        let address = address.to_string();
        let count = requests.to_string();
        let mut arguments =
            vec!["load", "--to", &address, "--path", scenario.path, "--alpn", scenario.alpn, "--requests", &count];
        arguments.extend(["--connections", "1", "--streams", "1", "--timeout", LOAD_DURATION, "--duration", LOAD_DURATION]);
        if scenario.site != Site::Tls {
            arguments.push("--plain");
        }
        let output = pinned(&self.processor, &self.programs.lab, &arguments).capture(&self.folder.0)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let report: serde_json::Value = serde_json::from_str(&said)
            .map_err(|_| format!("the client failed: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
        let phase = &report["phases"][0];
        if phase["requests"].as_u64() == Some(requests) {
            Ok(())
        } else {
            Err(format!("not every request was answered: {phase}"))
        }
    }
}

/// The site with TLS has the certificate of the program's own authority: the client takes any.
fn configuration(sites: [SocketAddr; 3], upstream: SocketAddr) -> String {
    let [plain, tls, asked] = sites.map(|site| site.port());
    format!(
        "threads 1\naccess-log \"off\"\nadmin \"off\"\n\
         site \"http://localhost:{plain}\" {{\n    proxy \"{upstream}\"\n}}\n\
         site \"https://localhost:{tls}\" {{\n    tls \"internal\" {{\n        min \"1.3\"\n    }}\n    proxy \"{upstream}\"\n}}\n\
         site \"http://localhost:{asked}\" {{\n    forward-auth \"http://{upstream}/11b\"\n    proxy \"{upstream}\"\n}}\n"
    )
}

fn pinned(processor: &str, program: &Path, arguments: &[&str]) -> Invocation {
    let program = program.to_string_lossy();
    let words: Vec<&str> = ["-c", processor, program.as_ref()].into_iter().chain(arguments.iter().copied()).collect();
    Invocation::new("taskset", &words)
}

/// The last of those that this process may use: the first one has most of a machine's interrupts.
fn last_processor(status: &str) -> Option<&str> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().rsplit([',', '-']).next().filter(|number| !number.is_empty())
}

/// All at once, so that they are different.
fn free_addresses() -> Result<[SocketAddr; 4], String> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = |listener: TcpListener| listener.local_addr();
    let addresses = || -> std::io::Result<[SocketAddr; 4]> {
        let (first, second, third, fourth) = (bind()?, bind()?, bind()?, bind()?);
        Ok([address(first)?, address(second)?, address(third)?, address(fourth)?])
    };
    addresses().map_err(|error| format!("no free port: {error}"))
}

/// Callgrind's file for the process as a whole, which stays empty; those of threads have the same name and a number
/// after a hyphen.
const COUNTS: &str = "counts";

/// A new folder for files of the measurements; goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("tidegate-instructions-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }

    fn count_files(&self) -> Result<Vec<PathBuf>, String> {
        let of_a_thread = format!("{COUNTS}-");
        let entries =
            std::fs::read_dir(&self.0).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(|error| error.to_string())?;
        let entries = entries.into_iter().filter(|entry| entry.file_name().to_string_lossy().starts_with(&of_a_thread));
        Ok(entries.map(|entry| entry.path()).collect())
    }

    fn counts(&self) -> Result<Vec<String>, String> {
        let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
        self.count_files()?.iter().map(read).collect()
    }

    fn remove_counts(&self) -> Result<(), String> {
        let remove = |path: &PathBuf| std::fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()));
        self.count_files()?.iter().try_for_each(remove)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A process that ends with its owner.
struct Running {
    process: Child,
    log: PathBuf,
}

impl Running {
    fn start(invocation: &Invocation, folder: &Path, log: &Path) -> Result<Running, String> {
        let file = || File::create(log).map_err(|error| format!("{}: {error}", log.display()));
        let (stdout, stderr) = (file()?, file()?);
        let mut command = Command::new(&invocation.program);
        // Variables would be on the stack and in the program's settings; the state folder keeps it from those of this
        // machine.
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("STATE_DIRECTORY", folder.join("state"))
            .env("GLIBC_TUNABLES", GLIBC_TUNABLES);
        command.args(&invocation.arguments).current_dir(folder).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let process = command.spawn().map_err(|error| format!("cannot start `{}`: {error}", invocation.line()))?;
        Ok(Running { process, log: log.into() })
    }

    /// The program says so in its log. Connecting to find out would be work for the worker.
    fn await_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.said().contains("\"message\":\"ready\"") {
            if Instant::now() > deadline || self.process.try_wait().is_ok_and(|status| status.is_some()) {
                return Err(format!("the program does not start under valgrind:\n{}", self.said()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Ends it as a service manager does, so that callgrind writes what it counted.
    fn stop(mut self) -> Result<(), String> {
        let id = self.process.id().to_string();
        Invocation::new("sh", &["-c", &format!("kill -TERM {id}")]).run(Path::new("/"))?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
                outcome => return Err(format!("the program does not end under valgrind ({outcome:?}):\n{}", self.said())),
            }
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail for one that has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::last_processor;

    #[test]
    fn the_last_processor_of_the_list() {
        let check = |list: &str, expected: Option<&str>| {
            assert_eq!(last_processor(&format!("Name:\txtask\n{list}\nMems_allowed_list:\t0\n")), expected, "for {list}");
        };
        check("Cpus_allowed_list:\t0-1", Some("1"));
        check("Cpus_allowed_list:\t0-3,8", Some("8"));
        check("Cpus_allowed_list:\t5", Some("5"));
        check("Cpus_allowed_list:\t", None);
        check("", None);
    }
}
