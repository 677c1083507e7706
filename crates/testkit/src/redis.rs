//! A real Redis for tests: Debian's `redis-server`, started on a free port in a folder of its own, and ended when the
//! guard goes away. Where the program is missing there is none, and the test says so. What the storage makes of its
//! answers is tested in `crates/storage`, which needs it with other options.

use crate::ports::Reservation;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub struct Redis {
    folder: TempDir,
    pub port: u16,
    process: Child,
}

impl Redis {
    /// `None` where Redis is not installed. It keeps nothing over a restart.
    pub fn start() -> Option<Redis> {
        let folder = tempfile::tempdir().expect("a folder");
        let port = Reservation::new().expect("a port").port();
        let process = run(&folder, port)?;
        Some(Redis { folder, port, process })
    }

    /// As `storage` has it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// From here on nobody is there.
    pub fn stop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("its end");
    }

    /// After [`Redis::stop`]: there again, and empty.
    pub fn start_again(&mut self) {
        self.process = run(&self.folder, self.port).expect("it was there before");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(folder: &TempDir, port: u16) -> Option<Child> {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--port").arg(port.to_string()).current_dir(folder.path());
    let Ok(mut process) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        println!("skipped: there is no redis-server on this machine");
        return None;
    };
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("Ready to accept connections"))), "Redis starts");
    // What it says later is nobody's concern, but it must not wait for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    Some(process)
}
