//! What containers with labels cost: from the event of a start to the first answer, and a thousand at once and within
//! ten seconds, in generations and in processor time of the proxy. Takes the program to measure:
//!
//! `cargo run -p tidegate-testkit --example containers -- "$PWD/target/release/tidegate"`

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tidegate_testkit::docker::{Container, Docker};
use tidegate_testkit::{Metrics, Proxy};

const STARTS: usize = 20;
const MANY: usize = 1_000;

fn main() -> Result<(), String> {
    let binary = std::env::args().nth(1).ok_or("name the program to measure")?;
    let docker = Docker::start().map_err(|error| error.to_string())?;
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\nsite \"http://own.test:{{port}}\" {{ respond 200 }}\ndocker socket=\"{}\"\n",
        docker.socket().display()
    );
    let proxy = Proxy::start(&binary, &config)?;
    let port = proxy.address.port();
    let site = |name: &str| format!("http://{name}.test:{port}");
    // What answers is no part of this: labels that answer by themselves.
    let answering = |name: &str| {
        Container::plain(name, 9).with_label("tidegate.site", &site(name)).with_label("tidegate.config", "respond 204")
    };
    let mut took = Vec::new();
    for number in 0..STARTS {
        let name = format!("s{number}");
        std::thread::sleep(Duration::from_millis(1500));
        let begin = Instant::now();
        docker.put(answering(&name), "start");
        while status_of(&proxy, &name)? != 204 {
            std::thread::sleep(Duration::from_millis(1));
        }
        took.push(begin.elapsed());
    }
    took.sort();
    println!("from the event to the first answer: median {:?}, longest {:?}", took[STARTS / 2], took[STARTS - 1]);
    measure(&proxy, "a thousand at once", || {
        for number in 0..MANY {
            docker.put(answering(&format!("b{number}")), "start");
        }
        wait_for(&proxy, &format!("b{}", MANY - 1))
    })?;
    measure(&proxy, "one more beside them", || {
        docker.put(answering("last"), "start");
        wait_for(&proxy, "last")
    })?;
    measure(&proxy, "a thousand within ten seconds", || {
        for number in 0..MANY {
            docker.put(answering(&format!("c{number}")), "start");
            std::thread::sleep(Duration::from_secs(10) / MANY as u32);
        }
        wait_for(&proxy, &format!("c{}", MANY - 1))
    })
}

fn wait_for(proxy: &Proxy, name: &str) -> Result<(), String> {
    let begin = Instant::now();
    while status_of(proxy, name)? != 204 {
        if begin.elapsed() > Duration::from_secs(60) {
            return Err(format!("{name} does not come\n{}", proxy.program.output()));
        }
        // Each question costs the proxy something, too.
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn measure(proxy: &Proxy, what: &str, happens: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let generation = |metrics: &Metrics| metrics.sum("tidegate_configuration_generation");
    let (before, used, begin) = (generation(&proxy.metrics()?), processor_time(proxy)?, Instant::now());
    happens()?;
    let (generations, took) = (generation(&proxy.metrics()?) - before, begin.elapsed());
    println!("{what}: {generations} generations, {:?} of processor time, {took:?}", processor_time(proxy)?.saturating_sub(used));
    Ok(())
}

/// Of all threads, in the kernel and out of it.
fn processor_time(proxy: &Proxy) -> Result<Duration, String> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", proxy.program.id())).map_err(|error| error.to_string())?;
    let behind = text.rsplit_once(')').ok_or("no stat")?.1;
    let ticks: u64 = behind.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

fn status_of(proxy: &Proxy, name: &str) -> Result<u16, String> {
    let mut stream = TcpStream::connect(proxy.address).map_err(|error| error.to_string())?;
    let request = format!("GET / HTTP/1.1\r\nHost: {name}.test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(|error| error.to_string())?;
    let head = String::from_utf8_lossy(&answer);
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| "no status".to_owned())
}
