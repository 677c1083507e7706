//! Sessions that outlive the process they began with: over an upgrade, over a change of the configuration, and on
//! another host with the same keys, of files or of a storage. What one process does with tickets is in
//! `tests/cases/tls`.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tidegate_testkit::case::Places;
use tidegate_testkit::redis::Redis;
use tidegate_testkit::rustls::client::{Resumption, Tls12Resumption};
use tidegate_testkit::rustls::pki_types::ServerName;
use tidegate_testkit::rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};
use tidegate_testkit::tls::{ClientOptions, client_config};
use tidegate_testkit::{Proxy, Surroundings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const WAIT: Duration = Duration::from_secs(10);
/// Said by a host that has read the storage.
const SHARING: &str = "session tickets are shared with the other hosts";
const SITE: &str = "access-log \"off\"\nadmin \"127.0.0.1:{admin}\"\nthreads 2\n\
    site \"https://example.com:{port}\" { tls cert=\"{cert}\" key=\"{key}\"; respond 200 body=\"BODY\" }\n";

/// A client that keeps its sessions.
struct Client(Arc<ClientConfig>);

impl Client {
    fn new(version: &str) -> Client {
        Client::of(version, Resumption::in_memory_sessions(8))
    }

    /// A client that leaves the keeping of sessions to the server.
    fn with_session_ids() -> Client {
        Client::of("1.2", Resumption::in_memory_sessions(8).tls12_resumption(Tls12Resumption::SessionIdOnly))
    }

    fn of(version: &str, resumption: Resumption) -> Client {
        let options = ClientOptions { versions: vec![version.to_owned()], send_sni: true, ..ClientOptions::default() };
        let mut config = client_config(None, &options).expect("a configuration");
        config.resumption = resumption;
        Client(Arc::new(config))
    }

    /// One request on a connection of its own: whether the session was resumed, and the answer.
    fn ask(&self, address: SocketAddr) -> (bool, String) {
        let name = ServerName::try_from("example.com").expect("a name");
        let socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(WAIT)).expect("a limit");
        let session = ClientConnection::new(self.0.clone(), name).expect("a session");
        let mut stream = StreamOwned::new(session, socket);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        (stream.conn.handshake_kind() == Some(HandshakeKind::Resumed), answer)
    }

    fn is_resumed(&self, address: SocketAddr) -> bool {
        let (is_resumed, answer) = self.ask(address);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        is_resumed
    }
}

fn start(places: Places, config: &str) -> Proxy {
    let surroundings = Surroundings { has_descendants: true, ..Surroundings::default() };
    Proxy::start_in(places, PROGRAM, config, &[], &surroundings).expect("the proxy starts")
}

fn keys(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("written");
    path.display().to_string()
}

#[test]
fn a_session_from_before_an_upgrade_is_resumed_afterwards() {
    for version in ["1.2", "1.3"] {
        let mut proxy = start(Places::new().expect("a folder"), SITE);
        let client = Client::new(version);
        assert!(!client.is_resumed(proxy.address));
        proxy.program.signal("USR2").expect("it runs");
        proxy.wait_for_log("a successor has taken over").expect("an upgrade");
        assert_eq!(proxy.program.wait_exit(WAIT).expect("the process before ends"), 0);
        assert!(client.is_resumed(proxy.address), "TLS {version}");
    }
}

#[test]
fn a_session_is_resumed_by_another_process_with_the_same_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (keys(folder.path(), "old", &[1; 48]), keys(folder.path(), "new", &[2; 80]));
    let start_with = |files: &str| start(Places::new().expect("a folder"), &format!("ticket-keys {files}\n{SITE}"));
    let first = start_with(&format!("{old:?}"));
    let second = start_with(&format!("{new:?} {old:?}"));
    let client = Client::new("1.3");
    assert!(!client.is_resumed(first.address));
    assert!(client.is_resumed(second.address));
    // It got a ticket of the newer key there.
    assert!(!client.is_resumed(first.address));
}

#[test]
fn changed_key_files_count_without_a_reload_and_unfit_ones_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = keys(folder.path(), "key", &[1; 48]);
    let config = format!("ticket-keys {file:?}\n{SITE}");
    let mut changing = start(Places::new().expect("a folder"), &config);
    let other = start(Places::new().expect("a folder"), &config);
    keys(folder.path(), "key", &[2; 12]);
    changing.wait_for_log("has 12 bytes instead of 48 or 80").expect("it is said");
    let client = Client::new("1.3");
    assert!(!client.is_resumed(changing.address));
    assert!(client.is_resumed(other.address), "the key before stays in use");
    let begin = std::time::Instant::now();
    keys(folder.path(), "key", &[2; 80]);
    let third = start(Places::new().expect("a folder"), &config);
    loop {
        let client = Client::new("1.3");
        client.is_resumed(changing.address);
        if client.is_resumed(third.address) {
            return;
        }
        assert!(begin.elapsed() < WAIT, "the new key is not used");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_without_tickets_resumes_by_its_sessions_id_on_any_worker() {
    let off = SITE.replace("key=\"{key}\"", "key=\"{key}\" { tickets #false }");
    for (config, expected) in
        [(SITE, true), (&*off, false), (&*SITE.replace("key=\"{key}\"", "key=\"{key}\" { min \"1.2\" }"), true)]
    {
        let mut proxy = start(Places::new().expect("a folder"), &config.replace("threads 2", "threads 4"));
        let client = Client::with_session_ids();
        assert!(!client.is_resumed(proxy.address));
        for _ in 0..8 {
            assert_eq!(client.is_resumed(proxy.address), expected, "{config}");
        }
        proxy.apply(&config.replace("BODY", "changed")).expect("applied");
        assert_eq!(client.is_resumed(proxy.address), expected, "after a change: {config}");
        // It may offer TLS 1.3 the next time, and its old session does not matter then.
        assert!(!Client::new("1.3").is_resumed(proxy.address));
    }
}

#[test]
fn a_change_of_the_configuration_keeps_the_keys() {
    let mut proxy = start(Places::new().expect("a folder"), SITE);
    let client = Client::new("1.3");
    assert!(!client.is_resumed(proxy.address));
    proxy.apply(&SITE.replace("BODY", "changed")).expect("applied");
    let (is_resumed, answer) = client.ask(proxy.address);
    assert!(is_resumed && answer.ends_with("changed"), "{answer}");
}

/// Two hosts with the same storage, once both have read it.
fn two_hosts(storage: &str) -> [Proxy; 2] {
    [(); 2].map(|()| host(storage))
}

/// A host of the group, once it has read the storage.
fn host(storage: &str) -> Proxy {
    let config = format!("storage {storage:?}\nticket-keys shared=#true\n{SITE}");
    let mut host = start(Places::new().expect("a folder"), &config);
    host.wait_for_log(SHARING).expect("it reads the storage");
    host
}

/// What `tidegate status` says of ticket keys, its lines as one.
fn status_of(host: &Proxy) -> String {
    let arguments =
        ["status", "--admin", &host.admin, "--config", &host.places.config_file().display().to_string()].map(str::to_owned);
    let output = Command::new(PROGRAM)
        .args(arguments)
        .env("STATE_DIRECTORY", host.places.folder().join("state"))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = String::from_utf8(output.stdout).expect("text");
    let from = page.find("ticket keys").expect("a line of its own");
    page[from..].lines().take(4).flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

fn assert_one_resumes_the_others_sessions(hosts: &[Proxy; 2]) {
    for version in ["1.2", "1.3"] {
        let client = Client::new(version);
        assert!(!client.is_resumed(hosts[0].address), "TLS {version}");
        assert!(client.is_resumed(hosts[1].address), "TLS {version}, begun at the first, resumed at the second");
        assert!(client.is_resumed(hosts[0].address), "TLS {version}, and back");
    }
}

#[test]
fn hosts_with_one_folder_resume_each_others_sessions() {
    let folder = tempfile::tempdir().expect("a folder");
    let storage = folder.path().join("storage");
    // At the same moment: one makes the key, and the other waits for it.
    let start = || {
        std::thread::spawn({
            let storage = storage.display().to_string();
            move || host(&storage)
        })
    };
    let mut hosts = [start(), start()].map(|host| host.join().expect("it starts"));
    assert_one_resumes_the_others_sessions(&hosts);
    let keys = std::fs::metadata(storage.join("tickets/keys")).expect("the keys");
    assert_eq!((keys.len(), keys.permissions().mode() & 0o777), (1 + 64, 0o600), "one key, for nobody else to read");
    assert!(status_of(&hosts[1]).contains("shared by"), "{}", status_of(&hosts[1]));

    // A session from before outlives an upgrade here as well.
    let client = Client::new("1.3");
    assert!(!client.is_resumed(hosts[0].address));
    hosts[1].program.signal("USR2").expect("it runs");
    hosts[1].wait_for_log("a successor has taken over").expect("an upgrade");
    assert_eq!(hosts[1].program.wait_exit(WAIT).expect("the process before ends"), 0);
    assert!(client.is_resumed(hosts[1].address));

    // And keys of its own, once the configuration wants them.
    hosts[0].apply(&format!("storage {storage:?}\n{SITE}")).expect("applied");
    assert!(!client.is_resumed(hosts[0].address));
}

#[test]
fn the_next_key_is_made_before_its_time_and_what_is_no_key_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("storage/tickets/keys");
    std::fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
    std::fs::set_permissions(folder.path().join("storage"), Permissions::from_mode(0o700)).expect("mine");
    let config = format!("storage {:?}\nticket-keys shared=#true\n{SITE}", folder.path().join("storage"));
    let now_secs = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let time = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("eight bytes"));

    // Of a host that went down four hours into its key's six.
    let begun = now_secs - 4 * 3600;
    let key = [&[7; 48][..], &begun.to_be_bytes(), &(begun + 12 * 3600).to_be_bytes()].concat();
    std::fs::write(&place, [&[1][..], &key].concat()).expect("written");
    let mut host = start(Places::new().expect("a folder"), &config);
    host.wait_for_log("wrote keys of session tickets").expect("it makes the next one");
    let both = std::fs::read(&place).expect("keys");
    assert_eq!((both.len(), &both[1..65]), (1 + 2 * 64, &key[..]));
    assert_eq!((time(&both[113..121]), time(&both[121..])), (begun + 6 * 3600, begun + 18 * 3600));

    std::fs::write(&place, b"\x01not keys").expect("written");
    let mut other = start(Places::new().expect("a folder"), &config);
    other.wait_for_log("they are damaged; remove it, and new ones are made").expect("it is said");
    let client = Client::new("1.3");
    assert!(!client.is_resumed(other.address));
    assert!(client.is_resumed(other.address), "with a key of its own");
    assert!(status_of(&other).contains("they are damaged"), "{}", status_of(&other));
    assert_eq!(std::fs::read(&place).expect("still there"), b"\x01not keys");
    std::fs::remove_file(&place).expect("removed");
    other.wait_for_log(SHARING).expect("new ones are made");
}

#[test]
fn hosts_with_one_redis_resume_each_others_sessions_also_while_it_is_away() {
    let Some(mut redis) = Redis::start() else { return };
    let mut hosts = two_hosts(&redis.url());
    assert_one_resumes_the_others_sessions(&hosts);
    redis.stop();
    // This one notices at once, since it has to read the storage anew for its prefix.
    let config = format!("storage {:?} prefix=\"other:\"\nticket-keys shared=#true\n{SITE}", redis.url());
    hosts[1].apply(&config).expect("applied");
    hosts[1].wait_for_log("keys of session tickets are not shared").expect("it is said");
    let said = status_of(&hosts[1]);
    assert!(said.contains("shared by") && said.contains("cannot be reached"), "{said}");
    assert_one_resumes_the_others_sessions(&hosts);

    // It comes back empty, and gets what is in use.
    redis.start_again();
    hosts[1].wait_for_log("wrote keys of session tickets").expect("it is there again");
    assert_one_resumes_the_others_sessions(&hosts);
}
