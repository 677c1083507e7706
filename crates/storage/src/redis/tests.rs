//! The store in a real Redis, started for each test; skipped, with a message, where there is none. Time is only waited
//! for by the server's own clock, with times to live that a test makes short.

use super::{Redis, lease_millis};
use crate::Store;
use crate::fault::Problem;
use crate::key::Key;
use crate::lease::Renewal;
use crate::owner::Owner;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tidegate_model::{RedisAddress, RedisStorage, Secret, Storage};
use tidegate_testkit::ports::Reservation;
use tidegate_testkit::{Authority, KeyKind};

/// Given up at once, because Redis binds it itself.
fn free_port() -> u16 {
    Reservation::new().expect("a port").port()
}

struct Server {
    folder: TempDir,
    port: u16,
    options: Vec<String>,
    process: Child,
}

impl Server {
    /// `None` where Redis is not installed.
    fn start(options: &[&str]) -> Option<Server> {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let options: Vec<String> = options.iter().map(|&option| option.into()).collect();
        let process = run(folder.path(), port, &options)?;
        Some(Server { folder, port, options, process })
    }

    fn stop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("its end");
    }

    /// With what it had written to its disk.
    fn restart(&mut self) {
        self.stop();
        self.process = run(self.folder.path(), self.port, &self.options).expect("it was there before");
    }

    fn settings(&self) -> RedisStorage {
        RedisStorage {
            address: RedisAddress::Tcp { host: "127.0.0.1".into(), port: self.port },
            database: 0,
            username: None,
            password: None,
            prefix: "tidegate:".into(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(folder: &Path, port: u16, options: &[String]) -> Option<Child> {
    let mut command = Command::new("redis-server");
    command.args([
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--unixsocket",
        "redis.sock",
    ]);
    command.arg("--port").arg(port.to_string()).args(options).current_dir(folder);
    let Ok(mut process) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        eprintln!("skipped: there is no redis-server");
        return None;
    };
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("Ready to accept connections"))), "Redis starts");
    // What it says later is nobody's concern, but it must not wait for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    Some(process)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn key(text: &str) -> Key {
    Key::parse(text).expect("a key")
}

async fn open(settings: RedisStorage) -> Store {
    Store::open(&Storage::Redis(settings), Path::new("/nowhere")).await.expect("opens")
}

#[test]
fn values_are_kept_listed_and_removed() {
    let Some(mut server) = Server::start(&[]) else { return };
    block_on(async {
        let store = open(server.settings()).await;
        assert_eq!(store.read("certs/a").await, Ok(None));
        store.write("certs/a", b"one").await.expect("written");
        store.write("certs/a", &[0, 255, b'\r', b'\n']).await.expect("written again");
        store.write("certs/*.b", b"").await.expect("written");
        store.write("account", b"three").await.expect("written");
        assert_eq!(store.read("certs/a").await, Ok(Some(vec![0, 255, b'\r', b'\n'])));
        assert_eq!(store.read("certs/*.b").await, Ok(Some(Vec::new())));
        let _lock = store.try_lock("certs/a").await.expect("works").expect("free");
        assert_eq!(store.list("").await.expect("listed"), ["account", "certs/*.b", "certs/a"]);
        assert_eq!(store.list("certs/").await.expect("listed"), ["certs/*.b", "certs/a"]);
        assert_eq!(store.list("certs/*").await.expect("listed"), ["certs/*.b"]);

        // What another prefix has is another store's, and a prefix is no pattern.
        let other = open(RedisStorage { prefix: "*".into(), ..server.settings() }).await;
        assert_eq!(other.list("").await.expect("listed"), Vec::<String>::new());
        other.write("a", b"1").await.expect("written");
        assert_eq!(other.list("").await.expect("listed"), ["a"]);
        let other = open(RedisStorage { database: 1, ..server.settings() }).await;
        assert_eq!(other.read("account").await, Ok(None));

        store.remove("certs/a").await.expect("removed");
        store.remove("certs/a").await.expect("removed, though it is not there");
        assert_eq!(store.read("certs/a").await, Ok(None));
        server.restart();
        assert_eq!(store.read("account").await, Ok(Some(b"three".to_vec())), "after a restart, over a new connection");
        store.write("account", b"four").await.expect("written");
    });
}

#[test]
fn a_server_that_is_away_is_said_to_be_and_used_again_when_it_is_back() {
    let Some(mut server) = Server::start(&[]) else { return };
    block_on(async {
        let store = open(server.settings()).await;
        store.write("a", b"1").await.expect("written");
        let port = server.port;
        server.stop();
        let fault = store.read("a").await.expect_err("it is away");
        assert!(fault.problem().is_transient());
        assert_eq!(
            fault.to_string(),
            format!(
                "`a` cannot be read in Redis at 127.0.0.1:{port}: it cannot be reached (at 127.0.0.1:{port} cannot be reached: \
                 127.0.0.1:{port} refuses the connection); look whether it is up and can be reached from here; it is tried again"
            )
        );
        server.process = run(server.folder.path(), server.port, &[]).expect("it was there before");
        assert_eq!(store.read("a").await, Ok(Some(b"1".to_vec())));
    });
}

#[test]
fn a_lock_is_held_by_one() {
    let Some(mut server) = Server::start(&[]) else { return };
    block_on(async {
        let (one, other) = (Redis::new(&server.settings()).expect("usable"), Redis::new(&server.settings()).expect("usable"));
        let name = key("certs/*.example.org");
        let mut held = one.try_take(&name).await.expect("works").expect("free");
        assert!(other.try_take(&name).await.expect("works").is_none());
        assert_eq!(held.renew().await, Ok(Renewal::Renewed));
        let holder = other.holder(&name).await.expect("works").expect("held");
        assert_eq!(holder.process, std::process::id());
        held.release().await.expect("released");
        assert_eq!(other.holder(&name).await, Ok(None));

        // A server that lost it, as one does that keeps nothing, and somebody who took it then.
        let mut lost = one.try_take(&name).await.expect("works").expect("free");
        server.options = vec!["--appendonly".into(), "no".into()];
        server.restart();
        assert_eq!(lost.renew().await, Ok(Renewal::Lost));
        let mut taken = other.try_take(&name).await.expect("works").expect("free");
        lost.release().await.expect("works");
        assert_eq!(taken.renew().await, Ok(Renewal::Renewed), "nothing of others is given back");
    });
}

#[test]
fn a_lock_ends_with_its_lease_or_with_its_process() {
    let Some(server) = Server::start(&[]) else { return };
    let mut child = Command::new("true").spawn().expect("a process");
    let gone = Owner { process: child.id(), ..Owner::here() };
    child.wait().expect("its end");
    block_on(async {
        let store = Redis::new(&server.settings()).expect("usable");
        let shared = &store.shared;
        let set = async |holder: &Owner, millis: &str| {
            let mut set = redis::cmd("SET");
            set.arg(shared.lock_key(&key("l"))).arg(holder.to_text()).arg("PX").arg(millis);
            shared.ask::<()>(&set).await.expect("set");
        };
        set(&gone, &lease_millis()).await;
        assert!(store.try_take(&key("l")).await.expect("works").is_some(), "its process is gone");

        let elsewhere = Owner { host: "elsewhere".into(), ..Owner::here() };
        set(&elsewhere, &lease_millis()).await;
        assert!(store.try_take(&key("l")).await.expect("works").is_none());
        set(&elsewhere, "1").await;
        // Until the server's own clock says so.
        while store.try_take(&key("l")).await.expect("works").is_none() {}

        // How long ours lasts is the server's to say.
        let left: u64 = shared.ask(redis::cmd("PTTL").arg(shared.lock_key(&key("l")))).await.expect("asked");
        assert!((1..=lease_millis().parse().expect("a number")).contains(&left));
    });
}

#[test]
fn who_may_not_is_told_so_without_the_password() {
    let Some(server) = Server::start(&["--requirepass", "right", "--user", "reader", "on", ">word", "~*", "+get"]) else {
        return;
    };
    block_on(async {
        let check = async |username: Option<&str>, password: Option<&str>, expected: Result<(), &str>| {
            let settings =
                RedisStorage { username: username.map(Into::into), password: password.map(Secret::new), ..server.settings() };
            let written = open(settings).await.write("a", b"1").await;
            match (written, expected) {
                (Ok(()), Ok(())) => {}
                (Err(fault), Err(part)) => {
                    assert!(matches!(fault.problem(), Problem::Refused { .. }) && !fault.problem().is_transient(), "{fault:?}");
                    assert!(fault.to_string().contains(part), "{fault}");
                    assert!(password.is_none_or(|password| !fault.to_string().contains(password)), "{fault}");
                }
                (written, _) => panic!("{username:?}: {written:?}"),
            }
        };
        check(None, Some("right"), Ok(())).await;
        check(Some("default"), Some("right"), Ok(())).await;
        check(None, Some("secret-guess"), Err("Redis at 127.0.0.1")).await;
        check(None, None, Err("Authentication required")).await;
        check(Some("reader"), Some("word"), Err("no permissions")).await;
    });
}

/// As Redis without logins has it, and other programs that speak its protocol: what they do not know they repeat.
#[test]
fn a_server_that_does_not_know_passwords_does_not_get_them_into_messages() {
    let Some(server) = Server::start(&["--rename-command", "AUTH", "", "--rename-command", "HELLO", ""]) else { return };
    let long = "hunter2-".repeat(40);
    block_on(async {
        for password in ["hunter2", long.as_str()] {
            let settings = RedisStorage { password: Some(Secret::new(password)), ..server.settings() };
            let fault = open(settings).await.write("a", b"1").await.expect_err("a password that nobody wants");
            let said = fault.to_string();
            assert!(said.contains("it refuses us") && !said.contains("hunter2"), "{said}");
        }
    });
}

/// The rights that the manual names are enough, and no others are needed.
#[test]
fn few_rights_are_enough() {
    let rights = "+get +set +del +scan +eval +pexpire +select";
    let options: Vec<&str> = ["--user", "store", "on", ">word", "~tidegate:*"].into_iter().chain(rights.split(' ')).collect();
    let Some(server) = Server::start(&options) else { return };
    block_on(async {
        let settings = RedisStorage {
            database: 1,
            username: Some("store".into()),
            password: Some(Secret::new("word")),
            ..server.settings()
        };
        let store = Redis::new(&settings).expect("usable");
        store.write(&key("a"), b"1").await.expect("written");
        assert_eq!(store.read(&key("a")).await, Ok(Some(b"1".to_vec())));
        assert_eq!(store.list("").await.expect("listed"), ["a"]);
        store.remove(&key("a")).await.expect("removed");
        let mut lock = store.try_take(&key("a")).await.expect("works").expect("free");
        assert_eq!(lock.renew().await, Ok(Renewal::Renewed));
        lock.release().await.expect("released");
    });
}

#[test]
fn what_a_full_server_and_a_replica_say_is_understood() {
    let check = |options: &[&str], expected: fn(&Problem) -> bool| {
        let Some(server) = Server::start(options) else { return };
        let fault = block_on(async { open(server.settings()).await.write("a", b"1").await }).expect_err("not written");
        assert!(expected(fault.problem()), "{fault:?}");
    };
    check(&["--maxmemory", "1"], |problem| matches!(problem, Problem::ServerFull { .. }));
    check(&["--replicaof", "127.0.0.1", "1"], |problem| matches!(problem, Problem::Replica));
    check(&["--cluster-enabled", "yes"], |problem| matches!(problem, Problem::Cluster));
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    // Connections wait in its queue, and nobody takes them. The runtime's clock goes on by itself while nothing else is
    // to be done.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = RedisAddress::Tcp { host: "127.0.0.1".into(), port: listener.local_addr().expect("an address").port() };
    let settings =
        RedisStorage { address, database: 0, username: None, password: Some(Secret::new("word")), prefix: "t:".into() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let fault = runtime.block_on(async { open(settings).await.read("a").await }).expect_err("silence");
    assert_eq!((fault.problem(), fault.problem().is_transient()), (&Problem::ServerSilent { seconds: 5 }, true));
}

#[test]
fn a_unix_socket_serves_as_well() {
    let Some(server) = Server::start(&[]) else { return };
    block_on(async {
        let socket = server.folder.path().join("redis.sock");
        let store = open(RedisStorage { address: RedisAddress::Unix(socket.clone()), ..server.settings() }).await;
        store.write("a", b"1").await.expect("written");
        assert_eq!(store.read("a").await, Ok(Some(b"1".to_vec())));
        assert_eq!(store.describe(), format!("Redis at {}", socket.display()));
    });
}

#[test]
fn tls_is_verified_by_the_roots_that_are_named() {
    let files = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(files.path(), "root").expect("made");
    let certificate = authority.issue("localhost", KeyKind::Ecdsa).expect("issued");
    let root = authority.root_file().to_owned();
    let tls_port = free_port();
    let (port, cert, key) = (tls_port.to_string(), certificate.cert.display().to_string(), certificate.key.display().to_string());
    let options = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-auth-clients", "no"];
    let Some(server) = Server::start(&options) else { return };
    let settings = |host: &str, root| RedisStorage {
        address: RedisAddress::Tls { host: host.into(), port: tls_port, root },
        ..server.settings()
    };
    block_on(async {
        let store = open(settings("localhost", Some(root.clone()))).await;
        store.write("a", b"1").await.expect("written");
        assert_eq!(store.read("a").await, Ok(Some(b"1".to_vec())));
        for untrusted in [settings("localhost", None), settings("127.0.0.1", Some(root.clone()))] {
            let fault = open(untrusted).await.read("a").await.expect_err("not trusted");
            assert!(matches!(fault.problem(), Problem::Untrusted { .. }), "{fault}");
        }
    });
}

/// Whoever is on the way of a connection without TLS can say that half a gigabyte follows, and send it.
#[test]
fn an_answer_without_end_is_not_collected() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let sent = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.read_exact(&mut [0]).expect("a question");
        let mut sent = stream.write(b"$500000000\r\n").expect("it listens");
        let piece = vec![b'x'; 1 << 16];
        while let Ok(bytes) = stream.write(&piece) {
            sent += bytes;
        }
        sent
    });
    let address = RedisAddress::Tcp { host: "127.0.0.1".into(), port };
    let settings = RedisStorage { address, database: 0, username: None, password: None, prefix: "t:".into() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let fault = runtime.block_on(async { open(settings).await.read("a").await }).expect_err("too much");
    assert!(fault.to_string().contains("more than 16 MiB came without a question"), "{fault}");
    drop(runtime);
    // Of what has been sent the last waits in the buffers of the system.
    let sent = sent.join().expect("it counts");
    assert!(sent < 64 << 20, "{sent} bytes were taken");
}
