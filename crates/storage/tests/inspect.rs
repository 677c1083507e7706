//! A look at a store before it is used: what is wrong is told, and nothing is made or changed by looking.

use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tidegate_model::{KubernetesStorage, RedisAddress, RedisStorage, Secret, Storage};
use tidegate_storage::{Store, inspect};
use tidegate_testkit::ports::Reservation;
use tidegate_testkit::tokio;

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

/// What is said of a store, without the path of the test's folder.
fn said(settings: &Storage, state: &Path) -> String {
    let said = run(inspect(settings, state)).map_or_else(|fault| fault.to_string(), |()| "fine".into());
    said.replace(&state.display().to_string(), "")
}

#[test]
fn a_folder_is_looked_at_and_left_as_it_is() {
    let above = tempfile::tempdir().expect("a folder");
    let state = above.path();
    let path = |name: &str| state.join(name);
    let check = |folder: PathBuf, expected: &str| {
        let seen = said(&Storage::Folder(folder.clone()), state);
        assert!(seen.starts_with(expected), "{}: {seen}", folder.display());
    };
    let cannot = "certificates and keys cannot be kept in the folder";
    assert_eq!(said(&Storage::State, state), "fine");
    assert_eq!(said(&Storage::State, &path("not/there/yet")), "fine");
    check(path("new"), "fine");
    check(path("not/there"), &format!("{cannot} /not/there: the folder above it does not exist; make that one, or mount"));
    fs::write(path("file"), "x").expect("a file");
    check(path("file"), &format!("{cannot} /file: "));
    check(path("file/below"), &format!("{cannot} /file/below: "));
    fs::create_dir(path("public")).expect("a folder");
    fs::write(path("public/page.html"), "x").expect("a file");
    fs::set_permissions(path("public"), Permissions::from_mode(0o755)).expect("its owner may");
    check(path("public"), &format!("{cannot} /public: others may read it (mode 0755); name a folder within it"));
    run(Store::open(&Storage::Folder(path("store")), state)).expect("opens");
    check(path("store"), "fine");
    // One that is mended when it is opened is no fault, and looking does not mend it.
    fs::set_permissions(path("store"), Permissions::from_mode(0o750)).expect("its owner may");
    check(path("store"), "fine");
    assert_eq!(fs::metadata(path("store")).expect("a folder").permissions().mode() & 0o777, 0o750);
    fs::set_permissions(path("store"), Permissions::from_mode(0o500)).expect("its owner may");
    let chattr = |how: &str| Command::new("chattr").arg(how).arg(path("store")).status().is_ok_and(|status| status.success());
    // Rights do not bind root, and the file system's own flag does.
    let is_immutable = chattr("+i");
    if is_immutable || !is_root() {
        check(path("store"), &format!("{cannot} /store: permission was denied; run it as the user that owns the folder"));
    } else {
        eprintln!("skipped: nothing makes a folder read-only for this user");
    }
    chattr("-i");
    let mut left: Vec<_> = fs::read_dir(state).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    left.sort();
    assert_eq!(left, ["file", "public", "store"]);
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

#[test]
fn a_full_file_system_is_told() {
    let above = tempfile::tempdir().expect("a folder");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k,mode=0700", "none"]).arg(above.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this needs a file system of its own, which root can mount");
        return;
    }
    let before = said(&Storage::State, above.path());
    fs::write(above.path().join("ballast"), vec![0; 1 << 20]).expect_err("a small file system");
    let after = said(&Storage::State, above.path());
    let _ = Command::new("umount").arg("-l").arg(above.path()).status();
    assert_eq!(before, "fine");
    assert!(after.contains("no space is left; make room on its file system"), "{after}");
}

fn redis_at(address: SocketAddr, password: Option<&str>) -> Storage {
    Storage::Redis(RedisStorage {
        address: RedisAddress::Tcp { host: address.ip().to_string(), port: address.port() },
        database: 0,
        username: None,
        password: password.map(Secret::new),
        prefix: "tidegate:".into(),
    })
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_that_is_away_or_silent_or_refuses_is_told_within_a_bound() {
    let state = tempfile::tempdir().expect("a folder");
    let check = |settings: &Storage, expected: &[&str]| {
        let begin = Instant::now();
        let seen = said(settings, state.path());
        assert!(expected.iter().all(|part| seen.contains(part)), "{seen}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert!(!seen.contains("wrong-guess"), "{seen}");
    };
    let away = SocketAddr::from(([127, 0, 0, 1], Reservation::new().expect("a port").port()));
    check(&redis_at(away, None), &["Redis at 127.0.0.1:", "it cannot be reached", "look whether it is up"]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    check(
        &redis_at(silent.local_addr().expect("an address"), None),
        &["Redis at", "did not answer within", "look whether it is up"],
    );
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        let settings = KubernetesStorage { namespace: None, prefix: "tidegate".into(), api: None };
        check(
            &Storage::Kubernetes(settings),
            &["does not run in a cluster (KUBERNETES_SERVICE_HOST is not set)", "run it in a pod"],
        );
    }

    let port = away.port().to_string();
    let started = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--requirepass", "right"])
        .current_dir(state.path())
        .stdout(Stdio::null())
        .spawn();
    let Ok(server) = started.map(Running) else {
        eprintln!("skipped: redis-server is not installed");
        return;
    };
    let begin = Instant::now();
    while said(&redis_at(away, Some("right")), state.path()) != "fine" {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", said(&redis_at(away, Some("right")), state.path()));
        std::thread::sleep(Duration::from_millis(50));
    }
    check(&redis_at(away, Some("wrong-guess")), &["Redis at 127.0.0.1:", "it refuses us", "look at the user or token"]);
    check(&redis_at(away, None), &["Authentication required"]);
    drop(server);
}
