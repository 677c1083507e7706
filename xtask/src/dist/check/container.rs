//! The image in a container, where podman can start one: with the bounds that the examples for compose have, looked at
//! by its own health check, asked from within its network, and stopped with a drain.

use super::{CheckOutcome, asked, is_missing};
use crate::dist::{Distribution, failed, put};
use crate::process::Invocation;
use crate::release::Machine;
use crate::scratch::ScratchFolder;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const NAME: &str = "tidegate-tried";
const LOOK: Duration = Duration::from_millis(200);
const CONFIGURATION: &str = "site \"http://:80\" { respond 200 body=\"from a container\"; }\n";

pub fn check(distribution: &Distribution) -> Result<CheckOutcome, String> {
    if let Some(left) = is_missing("podman", "podman") {
        return Ok(left);
    }
    let podman = Podman::new(distribution)?;
    if let Err(why) = podman.run(distribution) {
        return Ok(CheckOutcome::Left(format!("podman starts no container here: {}", why.lines().last().unwrap_or_default())));
    }
    let outcome = podman.look_at();
    drop(podman.asked(&["rm", "--force", "--volumes", NAME]));
    outcome.map(|()| CheckOutcome::Passed("starts read-only and without capabilities, is healthy, and ends by itself".into()))
}

/// An engine with a store of its own, so that nothing of it stays.
struct Podman {
    store: ScratchFolder,
}

impl Podman {
    fn new(distribution: &Distribution) -> Result<Podman, String> {
        let podman = Podman { store: ScratchFolder::new("podman")? };
        let configuration = podman.configuration();
        DirBuilder::new().mode(0o755).create(&configuration).map_err(failed(&configuration))?;
        put(&configuration, "tidegate.kdl", CONFIGURATION)?;
        let machine = Machine::this()?.name();
        let archive = distribution.folder.join(format!("tidegate-{}-docker-{machine}.tar", distribution.version));
        podman.asked(&["load", "--quiet", "--input", &archive.display().to_string()])?;
        Ok(podman)
    }

    fn run(&self, distribution: &Distribution) -> Result<(), String> {
        let configuration = format!("{}:/etc/tidegate:ro", self.configuration().display());
        let image = format!("tidegate:{}", distribution.version);
        let words = [
            "run",
            "--detach",
            "--name",
            NAME,
            "--network",
            "none",
            "--sysctl",
            "net.ipv4.ip_unprivileged_port_start=0",
            "--read-only",
            "--cap-drop",
            "ALL",
            "--security-opt",
            "no-new-privileges",
            // The engine's own are above what may be had where this runs in a container itself.
            "--ulimit",
            "nofile=4096:4096",
            "--ulimit",
            "nproc=4096:4096",
            "--volume",
            &configuration,
            "--volume",
            "state:/var/lib/tidegate",
            &image,
        ];
        self.asked(&words).map(drop)
    }

    /// Read by the container's user; the folder of the store is the owner's alone.
    fn configuration(&self) -> PathBuf {
        self.store.path().join("configuration")
    }

    fn look_at(&self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while let Err(why) = self.asked(&["healthcheck", "run", NAME]) {
            if Instant::now() > deadline {
                return Err(format!("{why}\n{}", self.asked(&["logs", NAME]).unwrap_or_default()));
            }
            sleep(LOOK);
        }
        let process = self.inspected("{{.State.Pid}}")?;
        let words = ["--net", "--target", &process, "curl", "--silent", "--fail", "http://127.0.0.1/"];
        let body = asked(&Invocation::new("nsenter", &words), Path::new("/"))?;
        if body != "from a container" {
            return Err(format!("it answers `{body}`"));
        }
        self.asked(&["stop", "--time", "20", NAME])?;
        let code = self.inspected("{{.State.ExitCode}}")?;
        if code == "0" { Ok(()) } else { Err(format!("it ended with {code}")) }
    }

    fn inspected(&self, format: &str) -> Result<String, String> {
        self.asked(&["inspect", "--format", format, NAME]).map(|text| text.trim().to_owned())
    }

    fn asked(&self, words: &[&str]) -> Result<String, String> {
        let (root, run) = (self.store.path().join("root"), self.store.path().join("run"));
        let (root, run) = (root.display().to_string(), run.display().to_string());
        let own = ["--root", &root, "--runroot", &run, "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"];
        let runtime: &[&str] = if crate::process::found("runc").is_some() { &["--runtime", "runc"] } else { &[] };
        let words = [&own, runtime, &["--events-backend", "file"], words].concat();
        asked(&Invocation::new("podman", &words), Path::new("/"))
    }
}
