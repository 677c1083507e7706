//! `tidegate logs -f`: the lines of an access log as they come, each once, over every way in which logs are rotated.
//! Which lines fit is in `tests/cases/cli/logs.case`.

use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_testkit::{Program, Proxy, get};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const WAIT: Duration = Duration::from_secs(30);

/// A proxy with a log, and who follows it.
struct Followed {
    proxy: Proxy,
    follower: Program,
    asked: usize,
}

impl Followed {
    fn new(log: &str, filter: &[&str]) -> Followed {
        let config = format!(
            "admin \"127.0.0.1:{{admin}}\"\naccess-log \"{{dir}}/access.log\" {log}\nthreads 1\n\
             site \"http://:{{port}}\" {{ route \"/bad/*\" {{ respond 503; }}; respond 204; }}\n"
        );
        let proxy = Proxy::start(PROGRAM, &config).expect("a proxy");
        let folder = proxy.places.folder();
        let file = folder.join("tidegate.kdl").display().to_string();
        let arguments: Vec<String> = ["logs", "-f", "--config", &file].iter().chain(filter).map(ToString::to_string).collect();
        let follower = Program::start(Path::new(PROGRAM), &arguments, folder, None).expect("it starts");
        Followed { proxy, follower, asked: 0 }
    }

    /// With a line that has been shown: the log is open now.
    fn begun(log: &str) -> Followed {
        let mut followed = Followed::new(log, &[]);
        followed.ask(1);
        followed
    }

    /// Asks so often, and waits until the log has it all.
    fn ask(&mut self, count: usize) {
        for _ in 0..count {
            get(&self.proxy.address.to_string(), &format!("/{}", self.asked)).expect("an answer");
            self.asked += 1;
        }
        self.until_shown();
    }

    /// Everything that was asked has been shown.
    fn until_shown(&mut self) {
        let begin = Instant::now();
        while self.shown().len() < self.asked {
            assert_eq!(self.follower.poll_exit(), None, "{}", self.follower.output());
            assert!(begin.elapsed() < WAIT, "{} of {} lines: {}", self.shown().len(), self.asked, self.follower.output());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Paths in the order in which their lines were shown.
    fn shown(&self) -> Vec<String> {
        let path = |line: &str| Some(line.split_once("\"path\":\"/")?.1.split_once('"')?.0.to_owned());
        self.follower.stdout().lines().map(|line| path(line).unwrap_or_else(|| panic!("no line of a log: {line}"))).collect()
    }
}

#[test]
fn a_log_is_followed_over_every_kind_of_rotation() {
    let mut followed = Followed::begun("");
    let log = followed.proxy.places.folder().join("access.log");
    followed.ask(5);
    // By another program: renamed, and opened anew when the process is told to.
    for turn in 0..3 {
        std::fs::rename(&log, log.with_extension(format!("log.{turn}"))).expect("renamed");
        // What comes before that goes to the old file.
        followed.ask(3);
        followed.proxy.program.signal("USR1").expect("it runs");
        let begin = Instant::now();
        while !log.exists() {
            assert!(begin.elapsed() < WAIT, "{}", followed.proxy.program.output());
            std::thread::sleep(Duration::from_millis(10));
        }
        followed.ask(3);
    }
    // Copied and emptied.
    std::fs::File::options().write(true).open(&log).and_then(|file| file.set_len(0)).expect("emptied");
    std::thread::sleep(Duration::from_secs(1));
    followed.ask(4);
    let expected: Vec<String> = (0..followed.asked).map(|number| number.to_string()).collect();
    assert_eq!(followed.shown(), expected);
}

#[test]
fn a_log_that_the_proxy_rotates_itself_is_followed() {
    let mut followed = Followed::begun("rotate=\"1KiB\" keep=50");
    for _ in 0..10 {
        followed.ask(5);
    }
    let rotated = std::fs::read_dir(followed.proxy.places.folder()).expect("a folder");
    let logs = rotated.filter_map(Result::ok).filter(|entry| entry.file_name().to_string_lossy().starts_with("access.log"));
    assert!(logs.count() > 5, "it was rotated");
    let expected: Vec<String> = (0..followed.asked).map(|number| number.to_string()).collect();
    assert_eq!(followed.shown(), expected);
}

#[test]
fn only_what_fits_is_shown() {
    let mut followed = Followed::new("", &["--status", "5xx"]);
    let address = followed.proxy.address.to_string();
    for number in 0..10 {
        get(&address, &format!("/{number}")).expect("an answer");
        get(&address, &format!("/bad/{number}")).expect("an answer");
        followed.asked += 1;
    }
    followed.until_shown();
    let expected: Vec<String> = (0..10).map(|number| format!("bad/{number}")).collect();
    assert_eq!(followed.shown(), expected);
}
