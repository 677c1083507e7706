//! Passwords are verified beside the workers: with one worker and hashes that take long, other requests are answered
//! meanwhile. And users in a file outlive a change of the configuration.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tidegate_testkit::get;
use tidegate_testkit::proxy::Proxy;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const BOUND: Duration = Duration::from_secs(120);
/// Each verification takes a thousand times as long as a request without one.
const COSTLY: &str = "$2y$12$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
/// `alice:0` to `alice:7`. Each is another password: none is answered from memory, and each has to be verified.
const GUESSES: [&str; 8] = [
    "YWxpY2U6MA==",
    "YWxpY2U6MQ==",
    "YWxpY2U6Mg==",
    "YWxpY2U6Mw==",
    "YWxpY2U6NA==",
    "YWxpY2U6NQ==",
    "YWxpY2U6Ng==",
    "YWxpY2U6Nw==",
];

fn send(address: SocketAddr, path: &str, credentials: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(BOUND)).expect("a bound");
    let head = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nAuthorization: Basic {credentials}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn other_requests_are_answered_while_passwords_are_verified() {
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 1\nsite \"http://:{{port}}\" {{\n    \
         route \"/staff\" {{ basic-auth {{ user \"alice\" \"{COSTLY}\"; }}; respond 200; }}\n    respond 200 body=\"open\"\n}}\n"
    );
    let proxy = Proxy::start(PROGRAM, &config).expect("it starts");
    let guesses = GUESSES.map(|credentials| send(proxy.address, "/staff", credentials));
    let (status, body) = get(&proxy.address.to_string(), "/").expect("an answer");
    assert_eq!((status, body.as_str()), (200, "open"));
    // A worker that verified them itself would have answered all of them before: they came first.
    let is_open = |stream: &TcpStream| {
        stream.set_nonblocking(true).expect("a socket");
        let is_silent = matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        stream.set_nonblocking(false).expect("a socket");
        is_silent
    };
    assert!(guesses.iter().any(is_open), "nobody was waiting any more");
    for guess in guesses {
        let answer = answer(guess);
        // On a machine that is busy with other things the last ones wait as long as anybody may.
        let is_refused = answer.starts_with("HTTP/1.1 401 ") || answer.contains("(passwords_busy)");
        assert!(is_refused, "{answer}");
    }
}

#[test]
fn users_of_a_file_outlive_a_change_that_finds_it_broken() {
    let folder = tempfile::tempdir().expect("a folder");
    let users = folder.path().join("htpasswd");
    // `U*U`, as cheap as can be.
    std::fs::write(&users, "alice:$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n").expect("written");
    let config = |body: &str| {
        let (auth, site) = (format!("basic-auth file=\"{}\"", users.display()), "site \"http://:{port}\"");
        format!("admin \"127.0.0.1:{{admin}}\"\n{site} {{\n    {auth}\n    respond 200 body=\"{body} {{auth.user}}\"\n}}\n")
    };
    let mut proxy = Proxy::start(PROGRAM, &config("one")).expect("it starts");
    let ask = |proxy: &Proxy| answer(send(proxy.address, "/", "YWxpY2U6VSpV"));
    assert!(ask(&proxy).ends_with("one alice"), "{}", ask(&proxy));
    std::fs::write(&users, "alice:secret\n").expect("written");
    proxy.wait_for_log("the users before stay").expect("it says so");
    proxy.apply(&config("two")).expect("it is applied");
    assert!(ask(&proxy).ends_with("two alice"), "{}", ask(&proxy));
    std::fs::write(&users, "bob:$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n").expect("written");
    proxy.wait_for_log("a file of users was read again").expect("it says so");
    assert!(ask(&proxy).starts_with("HTTP/1.1 401 "), "{}", ask(&proxy));
}
