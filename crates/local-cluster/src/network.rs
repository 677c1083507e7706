//! A network of its own for a test: the test runs again inside of a network namespace, where it makes a bridge, and a
//! namespace on it for each pod. Nothing of the machine is touched, and all of it ends with the processes.

use crate::container::Container;
use crate::program::{Program, Surroundings};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Says to the test that it is inside.
const INSIDE: &str = "TESTKIT_NETWORK";
/// What pods are connected to.
const BRIDGE: &str = "pods";
/// The bridge's own address, at which pods reach what the test itself runs: they have those behind it.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
const PREFIX: u8 = 16;
/// Services of the cluster have addresses of this range.
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
/// A program waits in its namespace until this is there.
const CONNECTED: &str = "connected";
/// Until a new process has its namespace.
const NAMESPACE_WAIT: Duration = Duration::from_secs(20);

/// Runs the test of that name again in a namespace, and looks how it ended; `true` says that this is inside. Where
/// there are no namespaces it says so, and the test passes.
pub fn is_inside(test: &str) -> Result<bool, String> {
    is_inside_with(&[test, "--exact", "--nocapture", "--test-threads=1"].map(str::to_owned))
}

/// As [`is_inside`], for a program that is run again with these arguments.
pub fn is_inside_with(arguments: &[String]) -> Result<bool, String> {
    if is_within() {
        ip("link set lo up")?;
        return Ok(true);
    }
    let text = |error: std::io::Error| error.to_string();
    let binary = std::env::current_exe().map_err(text)?;
    let is_had = |words: &[&str]| {
        Command::new("unshare").args(words).args(["ip", "link"]).output().is_ok_and(|said| said.status.success())
    };
    let ways: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    let Some(way) = ways.into_iter().find(|way| is_had(way)) else {
        eprintln!("skipped: no network namespace can be had here (`unshare --net`, with `ip` of iproute2)");
        return Ok(false);
    };
    let mut again = Command::new("unshare");
    again.args(way).arg(binary).args(arguments).env(INSIDE, "1");
    let status = again.status().map_err(text)?;
    let what = || arguments.first().map_or("it", String::as_str);
    if status.success() { Ok(false) } else { Err(format!("{} failed in its network: {status}", what())) }
}

/// Whether this runs in a network of its own.
pub(crate) fn is_within() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The bridge of all pods, in the namespace of the test.
pub struct PodNetwork {
    /// Pods that had an address so far.
    connected: u16,
}

impl PodNetwork {
    pub fn new() -> Result<PodNetwork, String> {
        ip(&format!("link add {BRIDGE} type bridge"))?;
        ip(&format!("address add {GATEWAY}/{PREFIX} dev {BRIDGE}"))?;
        ip(&format!("link set {BRIDGE} up"))?;
        // Nobody is there: who asks a Service is led elsewhere before anything leaves.
        ip(&format!("route add {SERVICE_RANGE} dev {BRIDGE}"))?;
        Ok(PodNetwork { connected: 0 })
    }

    /// The address of the next pod, which [`PodNetwork::start`] gives it.
    pub fn next_address(&mut self) -> Ipv4Addr {
        self.connected += 1;
        let [first, second, _, _] = GATEWAY.octets();
        // The first is the gateway's; nobody has so many that they come again.
        let [third, fourth] = (self.connected + 1).to_be_bytes();
        Ipv4Addr::new(first, second, third, fourth)
    }

    /// Starts a container in a namespace of its own, with that address. `folder` is the pod's.
    pub fn start(&self, address: Ipv4Addr, container: &Container, folder: &Path) -> Result<Program, String> {
        let connected = folder.join(CONNECTED);
        let words = container.command(&connected, folder)?;
        let environment = container.environment.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let surroundings = Surroundings { environment, ..Surroundings::default() };
        let program = Program::start_in(Path::new("unshare"), &words, folder, &surroundings)?;
        let id = program.id();
        wait_for_namespace(id)?;
        let name = format!("pod{}", self.connected);
        ip(&format!("link add {name} type veth peer name eth0 netns {id}"))?;
        ip(&format!("link set {name} master {BRIDGE} up"))?;
        let inside = format!(
            "ip link set lo up; ip address add {address}/{PREFIX} dev eth0; ip link set eth0 up; ip route add default via {GATEWAY}"
        );
        run("nsenter", &["--target", &id.to_string(), "--net", "sh", "-e", "-c", &inside])?;
        std::fs::write(&connected, "").map_err(|error| error.to_string())?;
        Ok(program)
    }
}

/// The process begins in ours.
fn wait_for_namespace(id: u32) -> Result<(), String> {
    let of = |id: &str| std::fs::read_link(format!("/proc/{id}/ns/net"));
    let (ours, began) = (of("self").map_err(|error| error.to_string())?, Instant::now());
    while of(&id.to_string()).map_err(|error| error.to_string())? == ours {
        if began.elapsed() > NAMESPACE_WAIT {
            return Err(format!("process {id} has no namespace after {NAMESPACE_WAIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Connections that lead nowhere any more, and that neither end is told of, until this is dropped.
pub struct CutOff;

impl CutOff {
    /// Of a process to a port of this network: those that stand, and none that it makes from here on.
    pub fn of(process: u32, port: u16, folder: &Path) -> Result<CutOff, String> {
        let ports: Vec<String> = connected_ports(process, port)?.iter().map(ToString::to_string).collect();
        if ports.is_empty() {
            return Err(format!("process {process} has no connection to port {port}"));
        }
        let set = ports.join(", ");
        let rules = format!(
            "table ip cut {{\n  chain out {{\n    type filter hook output priority 0; policy accept;\n    \
             tcp sport {{ {set} }} tcp dport {port} drop\n    tcp sport {port} tcp dport {{ {set} }} drop\n  }}\n}}\n"
        );
        let file = folder.join("cut.nft");
        std::fs::write(&file, rules).map_err(|error| format!("{}: {error}", file.display()))?;
        run("nft", &["-f", &file.display().to_string()]).map(|()| CutOff)
    }
}

impl Drop for CutOff {
    fn drop(&mut self) {
        // The table ends with the network at the latest.
        let _ = run("nft", &["delete", "table", "ip", "cut"]);
    }
}

/// Own ports of a process' connections to a port.
fn connected_ports(process: u32, port: u16) -> Result<Vec<u16>, String> {
    const ESTABLISHED: &str = "01";
    let folder = format!("/proc/{process}/fd");
    let files = std::fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?.flatten();
    let links = files.filter_map(|file| Some(std::fs::read_link(file.path()).ok()?.to_string_lossy().into_owned()));
    let sockets: Vec<String> =
        links.filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).map_err(|error| error.to_string())?;
    let number = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
    let own = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (&[_, local, remote, state], inode) = (columns.get(..4)?, columns.get(9)?) else { return None };
        let is_it = state == ESTABLISHED && number(remote) == Some(port) && sockets.iter().any(|socket| socket == inode);
        if is_it { number(local) } else { None }
    };
    Ok(table.lines().skip(1).filter_map(own).collect())
}

fn ip(words: &str) -> Result<(), String> {
    run("ip", &words.split(' ').collect::<Vec<_>>())
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let said = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let problem = || format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&said.stderr).trim());
    if said.status.success() { Ok(()) } else { Err(problem()) }
}
