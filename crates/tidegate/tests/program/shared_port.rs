//! Two processes on one port: of one configuration they share it and say so, of two the second is refused, at the start
//! and with a change, unless it is told to share. `check` says beforehand who is in the way, and knows whom a change
//! goes to. How sockets change hands under load is in the binary `load`, `instances.rs`.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::ports::listening_sockets;
use tidegate_testkit::{Program, Surroundings, admin, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const END_BOUND: Duration = Duration::from_secs(30);
const REFUSED: &str = "a process with another configuration listens there";
const SHARED: &str = "another process listens on this address as well";

/// A folder with configurations, and what they are given.
struct Folder(Places);

impl Folder {
    /// `a.kdl` and `b.kdl` are on one port.
    fn new() -> Folder {
        let mut folder = Folder(Places::new().expect("a folder"));
        folder.write("a.kdl", "http://:{port}");
        folder.write("b.kdl", "http://:{port}");
        folder
    }

    fn write(&mut self, name: &str, sites: &str) {
        self.write_with(name, "", sites);
    }

    /// `admin` is what its line says behind the address.
    fn write_with(&mut self, name: &str, admin: &str, sites: &str) {
        let sites = sites.split(' ').map(|site| format!("\"{site}\"")).collect::<Vec<_>>().join(" ");
        // The admin endpoint cannot be shared, so each process is told its own.
        let text = format!(
            "admin \"127.0.0.1:{{env.ADMIN_PORT}}\" {admin}\naccess-log \"off\"\nthreads 1\nsite {sites} {{ respond 200 body=\"{name}\"; }}\n"
        );
        let text = self.0.fill(&text).expect("known places");
        std::fs::write(self.0.folder().join(name), text).expect("written");
    }

    fn place(&mut self, place: &str) -> String {
        self.0.fill(place).expect("a known place")
    }

    /// Starts `run` with this file; the admin port is a place.
    fn start(&mut self, name: &str, admin: &str, options: &[&str]) -> Program {
        let (file, port) = (self.0.folder().join(name), self.place(admin));
        self.0.release_proxy_ports();
        let file = file.display().to_string();
        let arguments: Vec<String> = ["run", &file].iter().chain(options).map(ToString::to_string).collect();
        let surroundings = Surroundings { environment: vec![("ADMIN_PORT", port)], ..Surroundings::default() };
        Program::start_in(Path::new(PROGRAM), &arguments, self.0.folder(), &surroundings).expect("it starts")
    }

    fn start_ready(&mut self, name: &str, admin: &str, options: &[&str]) -> Program {
        let mut program = self.start(name, admin, options);
        let address = format!("127.0.0.1:{}", self.place(admin));
        program.wait_until("ready", || matches!(admin::get(&address, "/readyz"), Ok((200, _)))).expect("it gets ready");
        program
    }

    /// The exit code of `check`, and what it says to people.
    fn check(&mut self, name: &str, admin: &str, options: &[&str]) -> (i32, String) {
        self.check_as(name, admin, options, |output| output.stderr)
    }

    fn check_as(&mut self, name: &str, admin: &str, options: &[&str], read: fn(Output) -> Vec<u8>) -> (i32, String) {
        let port = self.place(admin);
        self.0.release_proxy_ports();
        let mut command = Command::new(PROGRAM);
        command.arg("check").arg(self.0.folder().join(name)).args(options).env("ADMIN_PORT", port);
        let output = command.env("STATE_DIRECTORY", self.0.folder().join("state")).output().expect("it runs");
        let code = output.status.code().expect("a code");
        (code, String::from_utf8_lossy(&read(output)).into_owned())
    }
}

#[test]
fn a_second_process_with_another_configuration_is_refused() {
    let mut folder = Folder::new();
    let mut first = folder.start_ready("a.kdl", "{admin}", &[]);
    let mut second = folder.start("b.kdl", "{admin:b}", &[]);
    let code = second.wait_exit(END_BOUND).unwrap_or_else(|error| panic!("{error}\n{}", second.output()));
    let said = second.stderr();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(REFUSED) && said.contains("--share-port"), "{said}");
    assert_eq!(first.poll_exit(), None);

    // Whoever starts is refused, and whoever checks is told by whom.
    let (code, said) = folder.check("b.kdl", "{admin:b}", &[]);
    let holder = format!("is held by tidegate (pid {})", first.id());
    assert!(code == 0 && said.contains("warning[address-in-use]") && said.contains(&holder), "{code}: {said}");
    assert!(said.contains("--share-port"), "{said}");
    let (code, said) = folder.check("b.kdl", "{admin:b}", &["--share-port"]);
    assert!(code == 0 && said.contains("warning[address-shared]"), "{code}: {said}");

    let told = folder.start_ready("b.kdl", "{admin:b}", &["--share-port"]);
    assert!(told.stderr().contains(SHARED), "{}", told.stderr());
}

#[test]
fn processes_of_one_configuration_share_and_say_so() {
    let mut folder = Folder::new();
    let port: u16 = folder.place("{port}").parse().expect("a port");
    let first = folder.start_ready("a.kdl", "{admin}", &[]);
    assert!(!first.stderr().contains(SHARED), "{}", first.stderr());
    let mut second = folder.start_ready("a.kdl", "{admin:2}", &[]);
    assert!(second.stderr().contains(SHARED), "{}", second.stderr());

    // One that leaves gives its socket to the first, which hands it over to the next.
    second.signal("TERM").expect("it runs");
    assert_eq!(second.wait_exit(END_BOUND), Ok(0), "{}", second.output());
    assert_eq!(listening_sockets(port).expect("tables"), 2, "the first has both");
    let third = folder.start_ready("a.kdl", "{admin:3}", &[]);
    assert_eq!(listening_sockets(port).expect("tables"), 2, "one was handed over");
    assert!(third.stderr().contains(SHARED), "{}", third.stderr());
    assert_eq!(get(&format!("127.0.0.1:{port}"), "/").expect("an answer"), (200, "a.kdl".to_owned()));
}

#[test]
fn a_change_takes_no_port_of_another_configuration() {
    let mut folder = Folder::new();
    let _holder = folder.start_ready("a.kdl", "{admin}", &[]);
    folder.write("b.kdl", "http://:{port:own}");
    let outcome = |folder: &mut Folder, program: &mut Program, sites: &str, said: &str| {
        folder.write("b.kdl", sites);
        folder.0.release_proxy_ports();
        program.signal("HUP").expect("it runs");
        assert!(says(program, said), "`{said}` is not said: {}", program.output());
    };
    let mut other = folder.start_ready("b.kdl", "{admin:b}", &[]);
    outcome(&mut folder, &mut other, "http://:{port:own} http://:{port}", REFUSED);
    let own = folder.place("127.0.0.1:{port:own}");
    assert_eq!(get(&own, "/").expect("what ran before"), (200, "b.kdl".to_owned()));
    // What a change leaves may come back with the next, however soon.
    outcome(&mut folder, &mut other, "http://:{port:own} http://:{port:more}", "\"generation\":2");
    outcome(&mut folder, &mut other, "http://:{port:own}", "\"generation\":3");
    outcome(&mut folder, &mut other, "http://:{port:own} http://:{port:more}", "\"generation\":4");
    assert_eq!(other.stderr().matches(REFUSED).count(), 1, "{}", other.stderr());
    assert!(!other.stderr().contains(SHARED), "{}", other.stderr());
}

/// Waits until the log has it.
fn says(program: &mut Program, said: &str) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < END_BOUND {
        if program.stderr().contains(said) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn check_knows_the_process_that_runs_its_configuration() {
    let mut folder = Folder::new();
    let (code, said) = folder.check("a.kdl", "{admin}", &[]);
    assert_eq!((code, said.as_str()), (0, ""), "nobody runs yet");
    let running = folder.start_ready("a.kdl", "{admin}", &[]);
    let (code, said) = folder.check("a.kdl", "{admin}", &[]);
    assert_eq!((code, said.as_str()), (0, ""), "its own process has both addresses");

    // Another Tidegate has the admin address, and is not to take this on: `check` names it, and a start is refused.
    folder.write("b.kdl", "http://:{port:own}");
    let (code, said) = folder.check("b.kdl", "{admin}", &["--share-port"]);
    assert!(code == 0 && said.contains("warning[admin-address-in-use]"), "{code}: {said}");
    assert!(said.contains(&format!("tidegate (pid {})", running.id())), "{said}");
    assert!(said.contains("a Tidegate with another configuration answers there"), "{said}");
    let mut second = folder.start("b.kdl", "{admin}", &[]);
    assert_eq!(second.wait_exit(END_BOUND), Ok(1), "{}", second.output());

    // Its own process runs, and another program has the port that it is to have besides.
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    folder.write("a.kdl", &format!("http://:{{port}} http://0.0.0.0:{port}"));
    let (code, said) = folder.check("a.kdl", "{admin}", &[]);
    let held = format!("warning[address-in-use]: 0.0.0.0:{port} is held by ");
    assert!(code == 0 && said.contains(&held), "{code}: {said}");
    assert!(said.contains(&format!("(pid {})", std::process::id())), "{said}");
    assert_eq!(said.matches("warning[").count() + said.matches("error[").count(), 1, "{said}");
}

#[test]
fn what_a_process_holds_that_can_take_a_candidate_on_is_no_fault() {
    let mut folder = Folder::new();
    let port = folder.place("{port}");
    let candidate = folder.0.folder().join("b.kdl").display().to_string();
    let note = |program: &Program, addresses: &str, option: &str| {
        let pid = program.id();
        format!(
            "note: {addresses} held by the running tidegate (pid {pid}), which takes this on with `tidegate apply {candidate}{option}`\n"
        )
    };

    // It answers where the candidate has the API, too.
    let mut running = folder.start_ready("a.kdl", "{admin}", &[]);
    let admin = folder.place("127.0.0.1:{admin}");
    let (code, said) = folder.check("b.kdl", "{admin}", &[]);
    assert_eq!((code, said), (0, note(&running, &format!("[::]:{port}, {admin} are"), "")));
    // A process of the same file holds a part of the port, and leaves it to the change.
    let mut companion = folder.start_ready("a.kdl", "{admin:2}", &[]);
    let (code, said) = folder.check("b.kdl", "{admin}", &[]);
    assert_eq!((code, said), (0, note(&running, &format!("[::]:{port}, {admin} are"), "")));
    // What another program holds is told of beside it.
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let other = taken.local_addr().expect("an address").port();
    folder.write("b.kdl", &format!("http://:{{port}} http://0.0.0.0:{other}"));
    let (code, said) = folder.check("b.kdl", "{admin}", &[]);
    assert!(code == 0 && said.contains(&format!("warning[address-in-use]: 0.0.0.0:{other} is held by ")), "{code}: {said}");
    assert!(said.contains(&note(&running, &format!("[::]:{port}, {admin} are"), "")), "{said}");
    for program in [&mut companion, &mut running] {
        program.signal("TERM").expect("it runs");
        assert_eq!(program.wait_exit(END_BOUND), Ok(0), "{}", program.output());
    }

    // The socket of the state folder is looked at wherever the candidate has the API; programs read who it is.
    folder.write_with("a.kdl", "serve=\"metrics\"", "http://:{port}");
    folder.write("b.kdl", "http://:{port}");
    let running = folder.start_ready("a.kdl", "{admin}", &[]);
    let socket = format!("unix:{}", folder.0.folder().join("state/admin.sock").display());
    let (code, said) = folder.check("b.kdl", "{admin:b}", &[]);
    assert_eq!((code, said), (0, note(&running, &format!("[::]:{port} is"), &format!(" --admin {socket}"))));
    let (code, found) = folder.check_as("b.kdl", "{admin:b}", &["--json"], |output| output.stdout);
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    let expected = serde_json::json!([{ "process_id": running.id(), "admin": socket, "addresses": [format!("[::]:{port}")] }]);
    assert_eq!((code, &found["running"], &found["valid"]), (0, &expected, &true.into()), "{found}");
}
