//! The processes of a run and what they stand on: processors, ports, certificate, temporary folder, backend.
//! Everything goes away with the [`Stage`] and the [`Running`] proxies. What is done with them is in `experiments`.

pub mod cgroup;
pub mod child;
pub mod cluster;
pub mod cores;
pub mod interrupt;
pub mod probe;
pub mod running;
pub mod syscalls;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::certificates;
use crate::content;
use crate::load::LoadReport;
use crate::net::Error;
use crate::procfs::ProcessId;
use crate::results::{Cores, Placement};
use crate::stage::cgroup::Cgroup;
use crate::stage::child::Child;
use crate::stage::running::{Participant, Running};

const START_TIME_MAX: Duration = Duration::from_secs(15);
const START_POLL: Duration = Duration::from_millis(20);

/// What answers behind the proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BackendKind {
    /// The lab's own minimal responder.
    Own,
    /// nginx with static files, as E2 had it.
    Nginx,
}

pub struct Stage {
    folder: TempDir,
    cores: Cores,
    placement: Placement,
    backend: Child,
    backend_address: SocketAddr,
    /// Where each proxy is put, if the user named one.
    cgroup: Option<Cgroup>,
    templates: Option<PathBuf>,
}

/// What a run stands on.
pub struct StageOptions<'a> {
    pub cores: Cores,
    pub backend: BackendKind,
    /// nginx, when it is the backend.
    pub nginx: Option<&'a Path>,
    pub cgroup: Option<&'a Path>,
    pub templates: Option<PathBuf>,
}

impl Stage {
    pub fn set_up(options: StageOptions<'_>) -> Result<Stage, Error> {
        let folder = tempfile::Builder::new().prefix("tidegate-lab-").tempdir()?;
        check_folder(folder.path())?;
        certificates::write(folder.path())?;
        let backend_address = free_address()?;
        let command = match options.backend {
            BackendKind::Own => own_backend(&options.cores, backend_address)?,
            BackendKind::Nginx => nginx_backend(&options, folder.path(), backend_address)?,
        };
        let mut backend = Child::spawn("backend", command, &folder.path().join("backend.log"))?;
        wait_until_listening(backend_address, &mut backend)?;
        let cgroup = options.cgroup.map(Cgroup::within).transpose()?;
        let (cores, templates) = (options.cores, options.templates);
        Ok(Stage { folder, cores, placement: Placement::OwnCores, backend, backend_address, cgroup, templates })
    }

    pub fn cores(&self) -> &Cores {
        &self.cores
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn backend_address(&self) -> SocketAddr {
        self.backend_address
    }

    pub fn templates(&self) -> Option<&Path> {
        self.templates.as_deref()
    }

    pub fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.as_ref()
    }

    /// On a single processor the proxy cannot have one of its own.
    pub fn allows(&self, placement: Placement) -> bool {
        placement == Placement::Shared || !self.cores.proxy.iter().any(|core| self.cores.generator.contains(core))
    }

    /// Moves the backend, and generators to come, to where this placement wants them. The proxies never move.
    pub fn place(&mut self, placement: Placement) -> Result<(), Error> {
        if self.placement != placement {
            self.placement = placement;
            self.backend.pin(self.cores_of_backend())?;
        }
        Ok(())
    }

    pub fn placement(&self) -> Placement {
        self.placement
    }

    pub fn check_backend(&mut self) -> Result<(), Error> {
        self.backend.check_alive()
    }

    fn cores_of_backend(&self) -> &[usize] {
        match self.placement {
            Placement::Shared => &self.cores.proxy[..1],
            Placement::OwnCores => &self.cores.backend,
        }
    }

    pub fn cores_of_generator(&self) -> &[usize] {
        match self.placement {
            Placement::Shared => &self.cores.proxy[..1],
            Placement::OwnCores => &self.cores.generator,
        }
    }

    /// A command of this program that puts something on a participant.
    pub fn generator(&self, subcommand: &str, running: &Running, arguments: &[String]) -> Result<Command, Error> {
        let mut command = child::pinned(self.cores_of_generator(), &std::env::current_exe()?)?;
        command.arg(subcommand).args(["--to", &running.address().to_string()]).stdout(Stdio::piped());
        if running.speaks_tls() {
            command.arg("--ca").arg(self.folder.path().join("ca.pem"));
        } else {
            command.arg("--plain");
        }
        command.args(arguments);
        Ok(command)
    }

    /// `--observe` for a participant and the backend.
    pub fn observe(&self, running: &Running) -> Result<Vec<String>, Error> {
        match running.participant() {
            Participant::Backend => self.observe_processes(&[]),
            Participant::Peer { .. } | Participant::Relay(_) => self.observe_processes(running.processes()),
        }
    }

    /// Observes the processes of several instances; none is the backend alone.
    pub fn observe_processes(&self, proxies: &[ProcessId]) -> Result<Vec<String>, Error> {
        let list = |processes: &[ProcessId]| processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut observed = vec![format!("--observe=backend={}", list(&self.backend.processes()?))];
        if !proxies.is_empty() {
            observed.push(format!("--observe=proxy={}", list(proxies)));
        }
        Ok(observed)
    }
}

/// Not every peer's configuration language can quote what is in a path, and one that cannot start would look like a
/// fault of the peer.
fn check_folder(folder: &Path) -> Result<(), Error> {
    let usual = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    match folder.to_str() {
        Some(text) if text.chars().all(usual) => Ok(()),
        Some(_) | None => Err(format!(
            "the temporary folder {} has a space or another unusual character in its name; set TMPDIR to a plain path, such as /tmp",
            folder.display()
        )
        .into()),
    }
}

pub fn read_report(output: std::process::Output) -> Result<LoadReport, Error> {
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let text = text.trim().trim_start_matches("tidegate-lab: ");
        return Err(if text.is_empty() { format!("the generator ended with {}", output.status) } else { text.to_owned() }.into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn own_backend(cores: &Cores, address: SocketAddr) -> Result<Command, Error> {
    let mut command = child::pinned(&cores.backend, &std::env::current_exe()?)?;
    command.args(["backend", "--listen", &address.to_string(), "--threads", &cores.backend.len().to_string()]);
    Ok(command)
}

/// Static files with sendfile, no compression, no log.
fn nginx_backend(options: &StageOptions<'_>, folder: &Path, address: SocketAddr) -> Result<Command, Error> {
    let nginx = options.nginx.ok_or("nginx is to be the backend, but there is none; see `tidegate-lab peers`")?;
    let root = folder.join("backend");
    content::write_files(&root.join("pages"))?;
    let user = if rustix::process::geteuid().is_root() { "user root root;\n" } else { "" };
    let (root, workers) = (root.display(), options.cores.backend.len());
    let text = format!(
        "{user}daemon off;\nworker_processes {workers};\npid {root}/nginx.pid;\nevents {{ worker_connections 16384; }}\nhttp {{\n  access_log off;\n  \
         sendfile on;\n  tcp_nopush on;\n  keepalive_requests 1000000000;\n  client_body_temp_path {root}/1;\n  proxy_temp_path {root}/2;\n  \
         fastcgi_temp_path {root}/3;\n  uwsgi_temp_path {root}/4;\n  scgi_temp_path {root}/5;\n  default_type \"text/html; charset=utf-8\";\n  \
         open_file_cache max=100;\n  server {{ listen {address}; root {root}/pages; location = / {{ try_files /index =404; }} }}\n}}\n"
    );
    let file = folder.join("backend/nginx.conf");
    std::fs::write(&file, text)?;
    let mut command = child::pinned(&options.cores.backend, nginx)?;
    command.args(["-e", "stderr", "-c"]).arg(file);
    Ok(command)
}

/// An address of this machine that nobody listens on right now.
pub fn free_address() -> Result<SocketAddr, Error> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

pub fn wait_until_listening(address: SocketAddr, child: &mut Child) -> Result<(), Error> {
    let deadline = Instant::now() + START_TIME_MAX;
    while TcpStream::connect(address).is_err() {
        child.check_alive()?;
        if Instant::now() > deadline {
            return Err(format!("nothing listens on {address} after {START_TIME_MAX:?}").into());
        }
        std::thread::sleep(START_POLL);
    }
    Ok(())
}
