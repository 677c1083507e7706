//! Changed rows of maps beyond one process: over an upgrade and a restart, and on another host with the same storage.
//! What one process does with them is in `tests/cases/steps`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::{Proxy, Surroundings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const WAIT: Duration = Duration::from_secs(10);

fn start(storage: &str) -> Proxy {
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 1\nstorage {storage:?}\n\
         map \"m\" key=\"{{path}}\" default=\"none\" {{ row \"/a\" \"file\"; }}\n\
         map \"n\" key=\"{{path}}\" ignore-case=#true default=\"none\" {{ row \"/a\" \"file\"; }}\n\
         site \"http://:{{port}}\" {{ header \"N\" \"{{map.n}}\"; respond 200 body=\"<{{map.m}}>\"; }}\n"
    );
    let surroundings = Surroundings { has_descendants: true, ..Surroundings::default() };
    Proxy::start_in(Places::new().expect("a folder"), PROGRAM, &config, &[], &surroundings).expect("the proxy starts")
}

/// What the map `m` has for a path.
fn value(address: SocketAddr, path: &str) -> String {
    let answer = answer(address, path);
    let value = answer.split_once("\r\n\r\n<").and_then(|(_, body)| body.strip_suffix('>'));
    value.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// What `n` has.
fn other_value(address: SocketAddr, path: &str) -> String {
    let answer = answer(address, path);
    let value = answer.split_once("\r\nN: ").and_then(|(_, rest)| rest.split_once("\r\n"));
    value.unwrap_or_else(|| panic!("{answer}")).0.to_owned()
}

fn answer(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(WAIT)).expect("a limit");
    write!(socket, "GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

fn map(proxy: &Proxy, arguments: &[&str]) -> Result<String, String> {
    let token = proxy.places.folder().join("state/admin-token");
    let mut asking = Command::new(PROGRAM);
    asking.arg("map").args(arguments).args(["--admin", &proxy.admin, "--token-file"]).arg(token);
    let output = asking.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn changed_rows_outlive_the_process_and_reach_other_hosts() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = folder.path().join("storage").display().to_string();
    let (mut first, other) = (start(&storage), start(&storage));
    assert_eq!((value(first.address, "/a"), value(other.address, "/a")), ("file".into(), "file".into()));
    map(&first, &["set", "m", "/a", "changed"]).expect("it is kept");
    map(&other, &["set", "m", "/b*", "added"]).expect("it is kept, beside the other one");
    let until = Instant::now() + WAIT;
    while (value(first.address, "/bc"), value(other.address, "/a")) != ("added".into(), "changed".into()) {
        assert!(Instant::now() < until, "{} {}", value(first.address, "/bc"), value(other.address, "/a"));
        std::thread::sleep(Duration::from_millis(50));
    }
    first.program.signal("USR2").expect("it runs");
    first.wait_for_log("a successor has taken over").expect("an upgrade");
    assert_eq!(first.program.wait_exit(WAIT).expect("the process before ends"), 0);
    assert_eq!((value(first.address, "/a"), value(first.address, "/bc")), ("changed".into(), "added".into()));
    // A host that comes later knows them from its first request on.
    let later = start(&storage);
    assert_eq!((value(later.address, "/a"), value(later.address, "/c")), ("changed".into(), "none".into()));
    assert!(map(&later, &["rows", "m", "--changed"]).expect("rows").contains("/b*"));
    map(&later, &["drop", "m", "/a"]).expect("it was there");
    assert_eq!(value(later.address, "/a"), "file");
}

#[test]
fn a_storage_that_takes_nothing_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = folder.path().join("storage");
    let mut proxy = start(&storage.display().to_string());
    map(&proxy, &["set", "m", "/a", "changed"]).expect("it is kept");
    std::fs::write(storage.join("maps/m"), "something else").expect("a file");
    let refused = map(&proxy, &["set", "m", "/a", "again"]).expect_err("nobody knows what is there");
    assert!(refused.contains("`maps/m` in the storage cannot be used: another version wrote it"), "{refused}");
    assert_eq!(value(proxy.address, "/a"), "changed");
    proxy.wait_for_log("changed rows of maps cannot be read; those that are known stay").expect("it is told");
    assert_eq!(value(proxy.address, "/a"), "changed");
    map(&proxy, &["set", "n", "/a", "changed"]).expect("this one is whole");
    assert!(map(&proxy, &["list"]).expect("maps").contains("changed rows: `maps/m` in the storage cannot be used"));
    let later = start(&storage.display().to_string());
    assert_eq!((value(later.address, "/a"), other_value(later.address, "/a")), ("file".into(), "changed".into()));
}

/// A row of each letter that alone is small enough.
fn large(letter: char) -> String {
    format!("~^(?:{letter}{{1000}}){{200}}$")
}

#[test]
fn a_row_that_is_refused_never_reaches_the_storage() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = folder.path().join("storage");
    let proxy = start(&storage.display().to_string());
    map(&proxy, &["set", "n", "/n", "changed"]).expect("it is kept");
    let set = |letter: char| map(&proxy, &["set", "m", &large(letter), "large"]);
    let refused = ('a'..='z').find_map(|letter| set(letter).err().map(|said| (letter, said)));
    let (letter, said) = refused.expect("together they are too large");
    assert!(said.contains("the regular expressions of this map are too large once compiled"), "{said}");
    assert!(said.contains("help: write rows with a beginning"), "{said}");
    let kept = std::fs::read_to_string(storage.join("maps/m")).expect("the rows before");
    assert!(letter > 'a' && kept.contains(&large('a')) && !kept.contains(&large(letter)), "{kept}");
    map(&proxy, &["set", "m", "/a", "changed"]).expect("nothing is in its way");
    assert!(map(&proxy, &["get", "m", &large(letter)]).expect_err("there is none").contains("has no row"));
    drop(proxy);
    let again = start(&storage.display().to_string());
    assert_eq!((value(again.address, "/a"), other_value(again.address, "/n")), ("changed".into(), "changed".into()));
    map(&again, &["drop", "m", &large('a')]).expect("it was there");
    map(&again, &["set", "m", &large(letter), "large"]).expect("now there is room");
    assert!(!again.program.stderr().contains("not known yet"), "{}", again.program.stderr());
}

#[test]
fn what_another_version_wrote_of_a_row_is_named_left_out_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = folder.path().join("storage");
    let first = start(&storage.display().to_string());
    map(&first, &["set", "m", "/a", "changed"]).expect("it is kept");
    map(&first, &["set", "n", "/n", "changed"]).expect("it is kept");
    drop(first);
    let place = storage.join("maps/m");
    let kept = std::fs::read_to_string(&place).expect("rows");
    std::fs::write(&place, format!("{kept}\"~(\",\"=x\",\"-\"\n\"/b\",\"!later\",\"-\"\n")).expect("a file");
    let mut proxy = start(&storage.display().to_string());
    assert_eq!((value(proxy.address, "/a"), value(proxy.address, "/b")), ("changed".into(), "none".into()));
    assert_eq!(other_value(proxy.address, "/N"), "changed");
    proxy.wait_for_log("a changed row in the storage cannot be used, and is left out").expect("it is told");
    let listed = map(&proxy, &["list"]).expect("maps");
    for said in ["m: a changed row of `~(` in the storage does not count: the regular expression", "`/b` in the storage does not"]
    {
        assert!(listed.contains(said), "{listed}");
    }
    map(&proxy, &["set", "m", "/c", "added"]).expect("nothing is in its way");
    let kept = std::fs::read_to_string(&place).expect("rows");
    assert!(["\"~(\",\"=x\",\"-\"", "\"/b\",\"!later\",\"-\"", "\"/c\""].iter().all(|line| kept.contains(line)), "{kept}");
    map(&proxy, &["drop", "m", "~("]).expect("it was there");
    map(&proxy, &["set", "m", "/b", "known"]).expect("it takes the place of what nobody can read");
    assert_eq!((value(proxy.address, "/b"), value(proxy.address, "/c")), ("known".into(), "added".into()));
    assert!(!map(&proxy, &["list"]).expect("maps").contains("does not count"));
}
