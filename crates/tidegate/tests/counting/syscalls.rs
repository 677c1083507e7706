//! How many socket calls a proxied keep-alive request costs at steady state, counted by strace: receive and send on
//! either side, four. Without strace, or where it may not attach, the test says so and ends.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Client, Proxy, tokio};

const REQUESTS: u64 = 2_000;
const CALLS_PER_REQUEST_MAX: u64 = 4;
/// For what is not about requests: wake-ups between threads, a timer that fires.
const SLACK: u64 = 100;
const TRACED: &str =
    "trace=read,write,readv,writev,recvfrom,sendto,recvmsg,sendmsg,connect,accept4,shutdown,close,getsockopt,setsockopt";

#[test]
fn a_keep_alive_request_costs_four_socket_calls() {
    let _only = crate::only_count();
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: strace is not on the PATH");
        return;
    }
    let upstream = Upstream::start(Behaviour::new(Answer::Text(vec![b'x'; 2048]))).expect("a port is free");
    let config = "admin \"127.0.0.1:{admin}\"\naccess-log \"off\"\nthreads 1\nsite \"http://:{port}\" { proxy \"UPSTREAM\" }\n";
    let config = config.replace("UPSTREAM", &upstream.address.to_string());
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_tidegate"), &config).expect("the proxy starts");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut client = runtime.block_on(Client::connect(proxy.address)).expect("the proxy listens");
    runtime.block_on(requests(&mut client, 200));
    let summary_file = proxy.places.folder().join("strace.txt");
    let Some(strace) = attach(proxy.program.id(), &summary_file.display().to_string()) else { return };
    runtime.block_on(requests(&mut client, REQUESTS));
    detach(strace);
    let summary = std::fs::read_to_string(&summary_file).expect("strace wrote its summary");
    let calls = total_calls(&summary);
    println!("{calls} calls for {REQUESTS} requests\n{summary}");
    assert!(calls >= REQUESTS * 2, "strace did not see the requests:\n{summary}");
    assert!(calls <= REQUESTS * CALLS_PER_REQUEST_MAX + SLACK, "{calls} calls for {REQUESTS} requests:\n{summary}");
}

async fn requests(client: &mut Client, count: u64) {
    for _ in 0..count {
        let answer = client.get("example.com", "/").await.expect("an answer");
        assert_eq!((answer.status, answer.body.len()), (200, 2048));
    }
}

/// The thread that requests are handled by. What others do in the same time, such as looking at the process's memory
/// four times a second, depends on how long the machine takes for the requests.
fn worker_of(id: u32) -> String {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).expect("it runs").map(|thread| thread.expect("an entry").path());
    let is_worker =
        |path: &std::path::PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "tidegate-0");
    let worker = threads.into_iter().find(is_worker).expect("a worker");
    worker.file_name().expect("a number").to_string_lossy().into_owned()
}

/// Attaches to the worker; `None` when that is not allowed here.
fn attach(id: u32, summary_file: &str) -> Option<Child> {
    let mut strace = Command::new("strace")
        .args(["-c", "-e", TRACED, "-o", summary_file, "-p", &worker_of(id)])
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace ran before");
    let mut stderr = strace.stderr.take().expect("piped");
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut buffer) {
            let _ = said.send(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
    });
    let begin = Instant::now();
    let mut text = String::new();
    while !text.contains("attached") {
        text.push_str(&heard.recv_timeout(Duration::from_millis(100)).unwrap_or_default());
        if let Ok(Some(status)) = strace.try_wait() {
            println!("skipped: strace cannot attach ({status}): {text}");
            return None;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "strace says nothing: {text}");
    }
    Some(strace)
}

fn detach(mut strace: Child) {
    let interrupted = Command::new("kill").args(["-INT", &strace.id().to_string()]).status().expect("kill exists");
    assert!(interrupted.success(), "strace is gone already");
    strace.wait().expect("strace ends");
}

/// The sum of the column `calls`, the fourth of each line about a call.
fn total_calls(summary: &str) -> u64 {
    summary
        .lines()
        .filter(|line| !line.trim_end().ends_with("total"))
        .filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok())
        .sum()
}
