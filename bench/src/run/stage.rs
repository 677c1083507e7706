//! The processes of a run and what they stand on: cores, ports, certificate, temporary folder, upstream.
//! Everything goes away with the [`Stage`] and the [`Running`] peers.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde::Serialize;
use tempfile::TempDir;

use crate::load::meter::LoadReport;
use crate::net::Error;
use crate::procfs::{self, ProcessId};
use crate::run::child::{self, Child};
use crate::run::peers::{Peer, PeerKind, Places};
use crate::run::scenario::Placement;

const START_TIME_MAX: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(20);
/// A freshly started process may still be reading its configuration when its port opens.
const SETTLE_TIME: Duration = Duration::from_millis(300);

/// Which core does what when the proxy has one of its own.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cores {
    pub proxy: usize,
    pub generator: usize,
    pub backend: usize,
}

pub struct Stage {
    folder: TempDir,
    cores: Cores,
    placement: Placement,
    backend: Child,
    backend_address: SocketAddr,
}

/// A peer that stands and answers.
pub struct Running {
    peer: Peer,
    places: Places,
    child: Child,
    pub processes: Vec<ProcessId>,
    pub resident_bytes_at_start: u64,
}

impl Stage {
    pub fn set_up() -> Result<Stage, Error> {
        let cores = assign_cores(&child::allowed_cores()?)?;
        let folder = tempfile::Builder::new().prefix("tidegate-bench-").tempdir()?;
        write_certificates(folder.path())?;
        let backend_address = free_addresses::<1>()?[0];
        let mut command = child::pinned(cores.backend, &std::env::current_exe()?)?;
        command.args(["backend", "--listen", &backend_address.to_string()]);
        let mut backend = Child::spawn("backend", command, &folder.path().join("backend.log"))?;
        wait_until_listening(backend_address, &mut backend)?;
        Ok(Stage { folder, cores, placement: Placement::OwnCore, backend, backend_address })
    }

    pub fn cores(&self) -> Cores {
        self.cores
    }

    /// On a single core, the proxy cannot have one of its own.
    pub fn allows(&self, placement: Placement) -> bool {
        placement == Placement::Shared || self.cores.proxy != self.cores.generator
    }

    /// Moves the upstream, and generators to come, to where this placement wants them. The proxies never move.
    pub fn place(&mut self, placement: Placement) -> Result<(), Error> {
        self.placement = placement;
        self.backend.pin(match placement {
            Placement::Shared => self.cores.proxy,
            Placement::OwnCore => self.cores.backend,
        })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a peer in a folder of its own and waits until it listens.
    pub fn start(&self, peer: &Peer) -> Result<Running, Error> {
        let folder = tempfile::Builder::new().prefix(peer.kind.name()).tempdir_in(self.folder.path())?.keep();
        for name in ["cert.pem", "key.pem", "combined.pem"] {
            std::fs::copy(self.folder.path().join(name), folder.join(name))?;
        }
        let [listen, admin] = free_addresses()?;
        let places = Places { folder, listen, admin, backend: self.backend_address };
        if let Some((name, text)) = peer.kind.configuration(&places) {
            std::fs::write(places.folder.join(name), text)?;
        }
        let command = peer.command(self.cores.proxy, &places)?;
        let mut child = Child::spawn(peer.kind.name(), command, &places.folder.join("output.log"))?;
        wait_until_listening(listen, &mut child)?;
        std::thread::sleep(SETTLE_TIME);
        child.check_alive()?;
        let processes = child.processes()?;
        let resident_bytes_at_start = procfs::resident_bytes(&processes)?;
        Ok(Running { peer: peer.clone(), places, child, processes, resident_bytes_at_start })
    }

    /// `tidegate-bench load` on a peer, on the generator's core.
    pub fn load(&self, running: &Running, arguments: &[String]) -> Result<LoadReport, Error> {
        let output = self.generator("load", running, arguments)?.stderr(Stdio::piped()).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// A command of this program that puts something on a peer.
    pub fn generator(&self, subcommand: &str, running: &Running, arguments: &[String]) -> Result<Command, Error> {
        let core = match self.placement {
            Placement::Shared => self.cores.proxy,
            Placement::OwnCore => self.cores.generator,
        };
        let mut command = child::pinned(core, &std::env::current_exe()?)?;
        command.arg(subcommand).args(["--to", &running.places.listen.to_string()]).stdout(Stdio::piped());
        if running.kind().speaks_tls() {
            command.arg("--ca").arg(self.folder.path().join("ca.pem"));
        } else {
            command.arg("--plain");
        }
        command.args(arguments);
        Ok(command)
    }

    /// `--observe` for a peer and the upstream.
    pub fn observe(&self, running: &Running) -> Result<Vec<String>, Error> {
        let list = |processes: &[ProcessId]| processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let proxy = format!("--observe=proxy={}", list(&running.processes));
        let backend = format!("--observe=backend={}", list(&self.backend.processes()?));
        Ok(vec![proxy, backend])
    }
}

impl Running {
    pub fn kind(&self) -> PeerKind {
        self.peer.kind
    }

    pub fn check_alive(&mut self) -> Result<(), Error> {
        self.child.check_alive()
    }

    /// Name and text of its configuration file, for the report.
    pub fn configuration(&self) -> Option<(&'static str, String)> {
        self.peer.kind.configuration(&self.places)
    }

    /// Its command as one would type it.
    pub fn command_line(&self) -> String {
        let Ok(command) = self.peer.command(0, &self.places) else { return String::new() };
        let words = command.get_args().skip_while(|word| *word != "--").skip(1);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// The proxy takes the last core, since the first ones serve most interrupts.
fn assign_cores(allowed: &[usize]) -> Result<Cores, Error> {
    match *allowed {
        [] => Err("this process may run on no core".into()),
        [only] => Ok(Cores { proxy: only, generator: only, backend: only }),
        [other, proxy] => Ok(Cores { proxy, generator: other, backend: other }),
        [.., backend, generator, proxy] => Ok(Cores { proxy, generator, backend }),
    }
}

/// Addresses that nobody listens on right now.
fn free_addresses<const COUNT: usize>() -> Result<[SocketAddr; COUNT], Error> {
    let listeners = (0..COUNT).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    Ok(addresses.try_into().expect("as many as asked for"))
}

fn wait_until_listening(address: SocketAddr, child: &mut Child) -> Result<(), Error> {
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

/// An authority of the run's own, and a certificate for localhost; both ECDSA P-256, which is rcgen's default.
fn write_certificates(folder: &Path) -> Result<(), Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "tidegate-bench");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    leaf.distinguished_name.push(DnType::CommonName, "localhost");
    let certificate = leaf.signed_by(&key, &authority)?.pem();
    let key = key.serialize_pem();
    let write = |name: &str, text: &str| std::fs::write(PathBuf::from(folder).join(name), text);
    write("ca.pem", &authority.pem())?;
    write("cert.pem", &certificate)?;
    write("key.pem", &key)?;
    write("combined.pem", &format!("{certificate}{key}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_out() {
        let check = |allowed: &[usize], expected: [usize; 3]| {
            let cores = assign_cores(allowed).unwrap();
            assert_eq!([cores.proxy, cores.generator, cores.backend], expected, "{allowed:?}");
        };
        check(&[3], [3, 3, 3]);
        check(&[0, 1], [1, 0, 0]);
        check(&[0, 2, 5], [5, 2, 0]);
        check(&[0, 1, 2, 3], [3, 2, 1]);
        assert!(assign_cores(&[]).is_err());
    }

    #[test]
    fn the_certificate_is_what_each_peer_needs() {
        let folder = tempfile::tempdir().unwrap();
        write_certificates(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("cert.pem").contains("BEGIN CERTIFICATE"));
        assert!(read("key.pem").contains("PRIVATE KEY"));
        assert_eq!(read("combined.pem"), read("cert.pem") + &read("key.pem"));
        assert_ne!(read("ca.pem"), read("cert.pem"));
    }
}
