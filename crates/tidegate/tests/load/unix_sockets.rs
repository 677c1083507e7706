//! A site on a socket of this machine, while its configuration is read again and its process replaces itself: nobody
//! who connects notices. The same over TCP is in `reload.rs` and `upgrade.rs`.

use crate::upgrade::{Linked, wait_for_end};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tidegate_testkit::driver::{self, EPOLL, RING};
use tidegate_testkit::program::signal_process;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const CLIENTS: usize = 6;
/// What each version answers at least, before the next comes.
const ANSWERS_LEAST: u64 = 100;

fn config(version: &str) -> String {
    let pairs = format!("respond 200 body=\"{version}\"");
    format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\ndrain \"20s\"\n\
         site \"http://unix:{{dir}}/app.sock\" {{ {pairs} }}\nsite \"http://:{{port}}\" {{ {pairs} }}\n"
    )
}

/// Connects, asks once and reads to the end.
fn ask(path: &Path) -> Result<String, String> {
    let mut stream = UnixStream::connect(path).map_err(|error| format!("connect: {error}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(|error| error.to_string())?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").map_err(|error| format!("write: {error}"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| format!("read: {error}"))?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        Some(_) | None => Err(format!("answered {answer:?}")),
    }
}

struct Clients {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Clients {
    fn start(path: &Path) -> Clients {
        let (stop, answers): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
        let one = |_| {
            let (path, stop, answers) = (PathBuf::from(path), stop.clone(), answers.clone());
            std::thread::spawn(move || {
                let mut faults = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match ask(&path) {
                        Ok(_) => drop(answers.fetch_add(1, Ordering::Relaxed)),
                        Err(fault) => faults.push(fault),
                    }
                }
                faults
            })
        };
        let threads = (0..CLIENTS).map(one).collect();
        Clients { stop, answers, threads }
    }

    fn go_on(&self) {
        let until = self.answers.load(Ordering::Relaxed) + ANSWERS_LEAST;
        while self.answers.load(Ordering::Relaxed) < until {
            assert!(self.threads.iter().any(|thread| !thread.is_finished()));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn finish(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    }
}

#[test]
fn reloads_and_upgrades_are_not_noticed() {
    let _beside = crate::beside_others();
    let has_ring = driver::drivers(PROGRAM).contains(&RING);
    let drivers = if has_ring { [EPOLL, RING, EPOLL] } else { [EPOLL; 3] };
    let mut linked = Linked::start(&driver::on(drivers[0], &config("0")));
    let path = linked.proxy.places.folder().join("app.sock");
    let clients = Clients::start(&path);
    clients.go_on();
    for (round, driver) in (1..).zip(drivers) {
        linked.proxy.write(&driver::on(driver, &config(&format!("{round} read again")))).expect("written");
        signal_process(linked.current, "HUP").expect("it runs");
        wait_for_answer(&path, &format!("{round} read again"));
        clients.go_on();
        let before = linked.current;
        linked.proxy.write(&driver::on(driver, &config(&format!("{round} replaced")))).expect("written");
        linked.upgrade();
        wait_for_answer(&path, &format!("{round} replaced"));
        clients.go_on();
        wait_for_end(before);
    }
    let faults = clients.finish();
    assert!(faults.is_empty(), "{} failed: {:?}\n{}", faults.len(), faults.first(), linked.proxy.program.output());
    signal_process(linked.current, "TERM").expect("it runs");
    wait_for_end(linked.current);
}

/// From some moment on nobody is answered otherwise.
fn wait_for_answer(path: &Path, wanted: &str) {
    let begin = std::time::Instant::now();
    while ask(path).as_deref() != Ok(wanted) {
        assert!(begin.elapsed() < Duration::from_secs(30), "nobody answers {wanted:?}, but {:?}", ask(path));
        std::thread::sleep(Duration::from_millis(10));
    }
}
