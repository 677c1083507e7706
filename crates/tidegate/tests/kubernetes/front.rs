//! A proxy before one pool, and who asks it. Servers are at an address of this machine that is not loopback, because
//! the API server takes no other in EndpointSlices.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};
use tidegate_testkit::control_plane::{Account, ControlPlane};
use tidegate_testkit::server::{Server, Settings};
use tidegate_testkit::{Program, Proxy, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// Whatever has to happen happens by then, however busy the machine.
pub const BOUND: Duration = Duration::from_secs(60);
/// Nobody is there (RFC 5737), but it tells which address of ours is used for others.
const ELSEWHERE: &str = "203.0.113.1:9";

pub struct Front {
    pub proxy: Proxy,
}

impl Front {
    /// Before the Service `web` of a namespace, as that account sees it.
    pub fn start(plane: &ControlPlane, account: &Account) -> Front {
        let Account { namespace, token, .. } = account;
        let source = format!(
            "discover kubernetes=\"{namespace}/web:http\" api=\"{}\" ca=\"{}\" token=\"{token}\"",
            plane.url(),
            plane.root_file().display()
        );
        let config = format!(
            "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\n\
             pool \"app\" {{ balance \"round-robin\"; {source}; }}\nsite \"http://:{{port}}\" {{ proxy \"app\"; }}\n"
        );
        Front { proxy: Proxy::start(PROGRAM, &config).expect("the proxy starts") }
    }

    /// Status and body.
    pub fn ask(&self) -> (u16, String) {
        get(&self.proxy.address.to_string(), "/").unwrap_or_else(|error| panic!("{error}\n{}", self.proxy.program.output()))
    }

    /// Asks so often, and sees 200 from everybody whose names these are, and nobody else.
    pub fn expect_from(&self, requests: usize, names: &[&str]) {
        let mut seen: Vec<String> = Vec::new();
        for _ in 0..requests {
            let (status, text) = self.ask();
            assert_eq!(status, 200, "{text}\n{}", self.proxy.program.output());
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
        seen.sort();
        assert_eq!(seen, names);
    }

    /// Asks until all of these have answered; from then on nobody else does.
    pub fn comes_to(&self, names: &[&str]) {
        for name in names {
            self.wait_for(&format!("an answer of {name}"), |status, text| status == 200 && text == *name);
        }
        let members = "tidegate_discovery_members{kind=\"kubernetes\"}";
        self.proxy.wait_for_metric(members, names.len() as f64).expect("so many servers");
        let begin = Instant::now();
        // The lists of workers follow what the source says within a moment.
        while begin.elapsed() < BOUND && (0..10).any(|_| !names.contains(&self.ask().1.as_str())) {}
        self.expect_from(20, names);
    }

    /// Asks until an answer is as it should be.
    pub fn wait_for(&self, what: &str, is_it: impl Fn(u16, &str) -> bool) {
        let begin = Instant::now();
        loop {
            let (status, text) = self.ask();
            if is_it(status, &text) {
                return;
            }
            let last = format!("{status} {text:?}");
            assert!(begin.elapsed() < BOUND, "{what} did not come, but {last}\n{}", self.proxy.program.output());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What `tidegate status` prints, once it says this.
    pub fn wait_for_status(&self, text: &str) {
        let begin = Instant::now();
        loop {
            let arguments = ["status", "--admin", &self.proxy.admin].map(str::to_owned);
            let folder = self.proxy.places.folder();
            let mut command = Program::start(std::path::Path::new(PROGRAM), &arguments, folder, None).expect("it starts");
            assert_eq!(command.wait_exit(BOUND), Ok(0), "{}", command.output());
            if command.stdout().contains(text) {
                return;
            }
            assert!(begin.elapsed() < BOUND, "`{text}` is not in\n{}", command.output());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// An upstream server that pods may be.
pub fn server(name: &str) -> Server {
    Server::start_at(Settings::new(name), own_address().octets()).expect("it starts")
}

/// An address of this machine that is not loopback.
fn own_address() -> Ipv4Addr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
    socket.connect(ELSEWHERE).expect("a machine with a way out");
    match socket.local_addr().expect("an address").ip() {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => panic!("{address} is no address of IPv4"),
    }
}
