//! Servers of nghttp2 and Python behind the proxy: nghttpd, which takes one stream at a time; nghttpx, which leaves
//! gracefully in the middle of a load; hypercorn with an application of ASGI.

use super::peer::{Peer, free};
use super::{PROGRAM, doors, python};
use crate::programs::{done, find, wait_until_it_listens};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;
use tidegate_testkit::case::Places;
use tidegate_testkit::proxy::Proxy;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Program, Surroundings, pattern, program};

/// The proxy in front of servers that listen by now.
fn behind(places: Places, pool: &str) -> Proxy {
    let config = super::CONFIG.replace("POOL", pool);
    Proxy::start_in(places, PROGRAM, &config, &[], &Surroundings::default()).expect("it starts")
}

/// A server that forks or not, listening when this returns.
fn serve(program: &Path, places: &Places, arguments: &[&str], address: SocketAddr) -> Program {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let surroundings = Surroundings { has_descendants: true, ..Surroundings::default() };
    let server = Program::start_in(program, &arguments, places.folder(), &surroundings).expect("it starts");
    wait_until_it_listens(address).unwrap_or_else(|error| panic!("{error}\n{}", server.output()));
    server
}

/// Has h2load ask for one thing so many times, over eight connections with sixteen streams each; all of it has to come.
fn load(h2load: &Path, count: &str, more: &[&str], url: &str, told: impl Fn() -> String) {
    let said = done(h2load, &[&["-n", count, "-c", "8", "-m", "16"], more, &[url]].concat());
    let whole = format!("{count} succeeded, 0 failed, 0 errored, 0 timeout");
    assert!(said.contains(&whole), "{url}: {said}\n{}", told());
}

#[test]
fn nghttpd_that_takes_one_stream_at_a_time_answers_all() {
    let (Some(nghttpd), Some(h2load), Some(curl)) = (find("nghttpd"), find("h2load"), find("curl")) else { return };
    for streams in ["1", "100"] {
        let mut places = Places::new().expect("a folder");
        let address = free(&mut places, "a");
        let folder = places.folder().join("documents");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("small"), pattern::pattern(0, 3_000)).expect("a file");
        fs::write(folder.join("large"), pattern::pattern(0, 5_000_000)).expect("a file");
        let (port, documents) = (address.port().to_string(), folder.display().to_string());
        let options = ["-m", streams, "--no-tls", "-a", "127.0.0.1", "--echo-upload", "-d", &documents, &port];
        let server = serve(&nghttpd, &places, &options, address);
        let mut proxy = behind(places, &format!("server \"{address}\"; protocol \"h2c\""));
        let doors = doors(&mut proxy);
        let told = || format!("{}\n{}", proxy.program.output(), server.output());
        load(&h2load, "2000", &[], &format!("{}/small", doors.secure), told);
        let upload = folder.join("large").display().to_string();
        let output = proxy.places.folder().join("back");
        let back = output.display().to_string();
        for more in [&[][..], &["--data-binary", &format!("@{upload}")]] {
            let first = ["-q", "-sS", "--fail", "--noproxy", "*", "--cacert", &doors.root, "-o", &back];
            done(&curl, &[&first, more, &[&format!("{}/large", doors.secure)]].concat());
            let body = fs::read(&output).expect("a file");
            assert_eq!((body.len(), pattern::check(0, &body)), (5_000_000, Ok(())), "{more:?} of {streams}");
        }
    }
}

/// One nghttpx after the other gets SIGQUIT, says GOAWAY on its connections and ends with the last of them; the other
/// of the pool has the requests until it is back.
#[test]
fn nghttpx_that_leaves_in_the_middle_costs_no_request() {
    let (Some(nghttpx), Some(h2load)) = (find("nghttpx"), find("h2load")) else { return };
    let origin = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let mut places = Places::new().expect("a folder");
    let addresses = ["a", "b"].map(|name| free(&mut places, name));
    let backend = format!("-b{},{}", origin.address.ip(), origin.address.port());
    let fronts = addresses.map(|address| format!("-f{},{};no-tls", address.ip(), address.port()));
    let options: Vec<[&str; 5]> =
        fronts.iter().map(|front| [front.as_str(), &backend, "--conf=/dev/null", "--workers=1", "--no-ocsp"]).collect();
    let mut servers: Vec<Program> =
        options.iter().zip(addresses).map(|(options, address)| serve(&nghttpx, &places, options, address)).collect();
    let pool = format!("server \"{}\"; server \"{}\"; protocol \"h2c\"; retry budget=\"100%\"", addresses[0], addresses[1]);
    let mut proxy = behind(places, &pool);
    let doors = doors(&mut proxy);
    let url = format!("{}/bytes/2000", doors.secure);
    thread::scope(|scope| {
        let proxy = &proxy;
        let loading = scope.spawn(|| load(&h2load, "8000", &[], &url, || proxy.program.output()));
        let mut turns = 0;
        while !loading.is_finished() || turns < 2 {
            let (options, address) = (&options[turns % 2], addresses[turns % 2]);
            let server = &mut servers[turns % 2];
            program::signal_process(server.id(), "QUIT").expect("it runs");
            server.wait_exit(Duration::from_secs(30)).expect("it ends with its connections");
            *server = serve(&nghttpx, &proxy.places, options, address);
            thread::sleep(Duration::from_millis(300));
            turns += 1;
        }
        println!("{turns} have left");
    });
}

#[test]
fn hypercorn_answers_all_over_h2c_and_tls() {
    let (Some(python), Some(h2load), Some(curl)) = (python::with("hypercorn"), find("h2load"), find("curl")) else { return };
    for is_tls in [false, true] {
        let mut places = Places::new().expect("a folder");
        let address = free(&mut places, "a");
        let bind = address.to_string();
        let mut arguments = vec!["-m", "hypercorn", "--bind", &bind, "application:application"];
        let [certificate, key] = ["{cert:localhost}", "{key:localhost}"].map(|text| places.fill(text).expect("a certificate"));
        if is_tls {
            arguments.splice(2..2, ["--certfile", certificate.as_str(), "--keyfile", &key]);
        }
        let mut command = Command::new(&python);
        command.env("PYTHONPATH", python::FOLDER).args(&arguments);
        let _server = Peer::run(command, address);
        let (scheme, protocol) = if is_tls { ("https", "h2") } else { ("http", "h2c") };
        let pool = format!("server \"{scheme}://localhost:{}\"; protocol \"{protocol}\"", address.port());
        let mut proxy = behind(places, &pool);
        let doors = doors(&mut proxy);
        let told = || proxy.program.output();
        load(&h2load, "400", &[], &format!("{}/bytes/2000", doors.secure), told);
        load(&h2load, "40", &[], &format!("{}/bytes/300000", doors.secure), told);
        let upload = proxy.places.folder().join("upload");
        fs::write(&upload, pattern::pattern(0, 2_000_000)).expect("a file");
        let sent = format!("@{}", upload.display());
        let ask = |more: &[&str], path: &str| {
            let first = ["-q", "-sS", "--noproxy", "*", "--cacert", &doors.root, "-w", " with %{http_code} over %{http_version}"];
            done(&curl, &[&first[..], more, &[&format!("{}{path}", doors.secure)]].concat())
        };
        let sum = python::sha256(&python, &upload);
        assert_eq!(ask(&["--data-binary", &sent], "/digest"), format!("2000000 {sum} over HTTP/2 with 200 over 2"));
        assert_eq!(ask(&[], "/status/204"), " with 204 over 2");
        assert_eq!(ask(&[], "/status/304"), " with 304 over 2");
        assert_eq!(ask(&["-I", "-o", "/dev/null"], "/bytes/10"), " with 200 over 2");
        // By HTTP/1.1, see `python`.
        assert_eq!(ask(&["--http1.1", "--data-binary", &sent], "/early"), "no such upload with 403 over 1.1");
    }
}
