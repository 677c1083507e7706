//! BIND's name server, started by a test on a free port of 127.0.0.1 and stopped with it. Machines without it skip the
//! test and say so.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const PROGRAM: &str = "/usr/sbin/named";
/// Between looking for a port and having it, somebody else may take it.
const ATTEMPTS_MAX: usize = 5;
/// Only ever reached by a test that fails.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

pub const KEY_NAME: &str = "tidegate.key";
/// base64 of 32 bytes.
pub const KEY_SECRET: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=";

pub struct Named {
    child: Child,
    pub address: SocketAddr,
    _folder: TempDir,
}

/// A zone and its records, but for the SOA; `update` is what stands in its block.
pub struct Zone<'a> {
    pub name: &'a str,
    pub records: &'a str,
    pub update: &'a str,
}

pub const UPDATE: &str = "allow-update { key tidegate.key; };";

impl Named {
    /// `None` where there is no such program.
    pub fn start(zones: &[Zone]) -> Option<Named> {
        Self::start_with("hmac-sha256", zones)
    }

    pub fn start_with(algorithm: &str, zones: &[Zone]) -> Option<Named> {
        if !Path::new(PROGRAM).exists() {
            eprintln!("skipped: {PROGRAM} is not there (the package bind9)");
            return None;
        }
        let start = |_| Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())), zones, algorithm);
        Some((0..ATTEMPTS_MAX).find_map(start).expect("a port that stays free"))
    }

    /// `None` when somebody else has the port.
    fn start_at(address: SocketAddr, zones: &[Zone], algorithm: &str) -> Option<Named> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("named.conf");
        std::fs::write(&file, configuration(folder.path(), address, zones, algorithm)).expect("a configuration");
        let mut child = Command::new(PROGRAM)
            .args(["-g", "-n", "1", "-c"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut said = String::new();
        let mut lines = stderr.lines();
        loop {
            match lines.next() {
                Some(Ok(line)) if line.ends_with(" running") => break,
                Some(Ok(line)) => said = said + &line + "\n",
                Some(Err(_)) | None => {
                    let _ = child.wait();
                    assert!(said.contains("address in use") || said.contains("could not listen"), "named does not run:\n{said}");
                    return None;
                }
            }
        }
        // A pipe that nobody reads would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Named { child, address, _folder: folder })
    }

    /// Another server that can be asked over UDP at 127.0.0.2, on the port of this one: all authoritative servers
    /// listen on one port. BIND itself takes only addresses that an interface has, so its messages are carried.
    pub fn beside(&self, zones: &[Zone]) -> Named {
        let other = Named::start(zones).expect("the program is there");
        let (front, back) = (SocketAddr::from(([127, 0, 0, 2], self.address.port())), other.address);
        let front = UdpSocket::bind(front).expect("it was free");
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, client)) = front.recv_from(&mut buffer) {
                let carry = UdpSocket::bind("127.0.0.1:0").expect("a port");
                carry.set_read_timeout(Some(ANSWER_LIMIT)).expect("a time");
                let answered = carry.send_to(&buffer[..length], back).and_then(|_| carry.recv(&mut buffer));
                // A server that is stopped answers nothing.
                if let Ok(length) = answered {
                    let _ = front.send_to(&buffer[..length], client);
                }
            }
        });
        other
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(folder: &Path, address: SocketAddr, zones: &[Zone], algorithm: &str) -> String {
    let (folder, ip, port) = (folder.display(), address.ip(), address.port());
    let mut text = format!(
        "key \"{KEY_NAME}\" {{ algorithm {algorithm}; secret \"{KEY_SECRET}\"; }};\n\
         key \"other.key\" {{ algorithm {algorithm}; secret \"{KEY_SECRET}\"; }};\n\
         controls {{ }};\n\
         options {{ directory \"{folder}\"; pid-file none; session-keyfile none; recursion no; dnssec-validation no; notify no;\n\
         listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; }};\n"
    );
    for Zone { name, records, update } in zones {
        let file = format!("{name}.zone");
        let soa = format!("$TTL 60\n@ SOA ns1.{name}. admin.{name}. 1 3600 600 86400 60\n");
        std::fs::write(Path::new(&folder.to_string()).join(&file), soa + records).expect("a zone file");
        let _ = writeln!(text, "zone \"{name}\" {{ type primary; file \"{file}\"; {update} }};");
    }
    text
}

/// Free for both protocols, on the addresses that tests use.
fn free_port() -> u16 {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let is_free = |ip: [u8; 4]| UdpSocket::bind((IpAddr::from(ip), port)).is_ok();
        if is_free([127, 0, 0, 1]) && is_free([127, 0, 0, 2]) && TcpListener::bind((IpAddr::from([127, 0, 0, 2]), port)).is_ok() {
            return port;
        }
    }
}
