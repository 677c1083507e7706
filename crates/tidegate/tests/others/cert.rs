//! `tidegate cert` with what it works with: NSS databases made by `certutil`, the system's store with its own program,
//! a Chromium that has to load a page, and the stores of other programs, whose layouts are tested in
//! `crates/cert-import`. What needs none of them is in `tests/cases/cli/cert_*.case`. A test whose program is missing
//! says so and passes.

use rcgen::{CertificateParams, KeyPair};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tidegate_acme::{Subject, stored};
use tidegate_model::{RedisAddress, RedisStorage, Storage};
use tidegate_storage::Store;
use tidegate_testkit::proxy::Proxy;
use tidegate_testkit::redis::Redis;
use tidegate_testkit::{Program, Surroundings, tokio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// A browser starts slowly on a machine that compiles.
const BOUND: Duration = Duration::from_secs(180);

/// Exit code, standard output, standard error.
fn tidegate(arguments: &[&str], home: &Path) -> (i32, String, String) {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(home).env("HOME", home).env("STATE_DIRECTORY", home.join("state"));
    for name in ["SUDO_UID", "SUDO_GID", "XDG_DATA_HOME"] {
        command.env_remove(name);
    }
    let output = command.output().expect("it runs");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    (output.status.code().expect("an exit code"), stdout, stderr)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: there is no {program} on this machine");
    }
    found
}

fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{} {arguments:?}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The lines about stores, with nothing of this test's folder in them.
fn outcomes(stdout: &str, home: &Path) -> Vec<String> {
    let stores = stdout.split_once("\n\n").expect("what root it is, and what became of it").1;
    stores
        .replace(&format!("{}/", home.display()), "")
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn every_browser_of_the_user_trusts_the_root_until_it_is_taken_out() {
    let Some(certutil) = find("certutil") else { return };
    let home = TempDir::new().expect("a folder");
    let home = home.path();
    let password = home.join("password");
    fs::write(&password, "secret\n").expect("a file");
    let database = |place: &str, has_password: bool| {
        fs::create_dir_all(home.join(place)).expect("a folder");
        let folder = format!("sql:{}", home.join(place).display());
        let password = ["-f".to_owned(), password.display().to_string()];
        let none = ["--empty-password".to_owned()];
        let password = if has_password { &password[..] } else { &none };
        let arguments: Vec<&str> = ["-N", "-d", &folder].into_iter().chain(password.iter().map(String::as_str)).collect();
        run(&certutil, &arguments);
        folder
    };
    let shared = database(".pki/nssdb", false);
    let firefox = database(".mozilla/firefox/abc.default-release", false);
    let snap = database("snap/firefox/common/.mozilla/firefox/def.default", false);
    let locked = database(".mozilla/firefox/locked.default", true);
    // A folder that is no profile is left alone.
    fs::create_dir_all(home.join(".mozilla/firefox/Crash Reports")).expect("a folder");
    let list = |folder: &str| {
        let listed = run(&certutil, &["-L", "-d", folder]);
        listed.lines().filter(|line| line.starts_with("Tidegate Internal CA ") && line.trim_end().ends_with("C,,")).count()
    };
    let open = [".pki/nssdb", ".mozilla/firefox/abc.default-release", "snap/firefox/common/.mozilla/firefox/def.default"];
    let check = |arguments: &[&str], expected: [&str; 3], counts: usize| {
        let (code, stdout, stderr) = tidegate(arguments, home);
        assert_eq!(code, 0, "{stdout}{stderr}");
        let seen = outcomes(&stdout, home);
        for (place, expected) in open.iter().zip(expected) {
            assert!(seen.contains(&expected.replace("{}", place)), "{expected} of {place}: {seen:#?}");
        }
        assert_eq!([&shared, &firefox, &snap].map(|folder| list(folder)), [counts; 3]);
        assert_eq!(list(&locked), 0);
        seen
    };
    let seen = check(&["cert", "trust", "--browsers"], ["trusted {}"; 3], 1);
    let refused =
        seen.iter().position(|line| line.starts_with("not done .mozilla/firefox/locked.default: ")).expect("it is told");
    assert!(seen[refused + 1].contains("help: the database has a password"), "{seen:#?}");
    check(&["cert", "trust", "--browsers"], ["trusted {}, as before"; 3], 1);
    check(&["cert", "trust", "--browsers", "--uninstall"], ["removed {}"; 3], 0);
    check(&["cert", "trust", "--browsers", "--uninstall"], ["not there {}"; 3], 0);
}

#[test]
fn without_browsers_nothing_can_be_done() {
    let home = TempDir::new().expect("a folder");
    let (code, stdout, _) = tidegate(&["cert", "trust", "--browsers", "--uninstall", "root.crt"], home.path());
    assert_eq!((code, stdout.as_str()), (1, ""), "there is no such root");
    assert_eq!(tidegate(&["cert", "trust", "--print"], home.path()).0, 1, "none is made to be shown");
    let elsewhere = home.path().join("nowhere").display().to_string();
    let made = tidegate(&["cert", "trust", "--system", "--prefix", &elsewhere], home.path());
    assert!(made.0 == 1 && made.1.contains("a new internal CA was made in "), "{}", made.1);
    let (code, stdout, _) = tidegate(&["cert", "trust", "--browsers", "--uninstall"], home.path());
    assert_eq!(code, 1);
    assert!(outcomes(&stdout, home.path())[0].starts_with("not done browsers: below "), "{stdout}");
}

/// For what only this process is to see in the place of the system's own.
fn own_mounts() -> Option<PathBuf> {
    let unshare = find("unshare")?;
    let tried = Command::new(&unshare).args(["-m", "mount", "--bind", "/tmp", "/tmp"]).output();
    let can_mount = tried.is_ok_and(|output| output.status.success());
    if !can_mount {
        println!("skipped: this needs root and mounts of its own");
    }
    can_mount.then_some(unshare)
}

/// Root works in the home folder of the one who called `sudo`, and leaves nothing there that is root's.
#[test]
fn with_sudo_the_browsers_are_those_of_the_caller() {
    const CALLER: u32 = 4711;
    let (Some(unshare), Some(certutil)) = (own_mounts(), find("certutil")) else { return };
    let folder = TempDir::new().expect("a folder");
    let home = folder.path().join("caller");
    let passwd = format!("root:x:0:0::/root:/bin/sh\ncaller:x:{CALLER}:{CALLER}::{}:/bin/sh\n", home.display());
    fs::write(folder.path().join("passwd"), passwd).expect("a file");
    // Otherwise the caller would not get there.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its owner may");
    fs::create_dir_all(home.join(".config/chromium")).expect("a folder");
    for path in [".", ".config", ".config/chromium"] {
        chown(home.join(path), Some(CALLER), Some(CALLER)).expect("root may");
    }
    let script = format!("mount --bind passwd /etc/passwd && '{PROGRAM}' cert trust --browsers --state-dir state");
    let output = Command::new(&unshare)
        .args(["-m", "sh", "-c", &script])
        .current_dir(folder.path())
        .env("HOME", "/root")
        .env("SUDO_UID", CALLER.to_string())
        .env("SUDO_GID", CALLER.to_string())
        .output()
        .expect("it runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let database = home.join(".pki/nssdb");
    assert!(stdout.contains(&format!("trusted      {}", database.display())), "{stdout}");
    for entry in fs::read_dir(&database).expect("a database") {
        let path = entry.expect("an entry").path();
        assert_eq!(fs::metadata(&path).expect("a file").uid(), CALLER, "{}", path.display());
    }
    assert!(run(&certutil, &["-L", "-d", &format!("sql:{}", database.display())]).contains("C,,"));
}

/// The system's own program, on folders of the test's.
#[test]
fn the_systems_store_has_the_root_until_it_is_taken_out() {
    const ANCHORS: &str = "/usr/local/share/ca-certificates";
    let (Some(unshare), Some(_)) = (own_mounts(), find("update-ca-certificates")) else { return };
    if !Path::new(ANCHORS).is_dir() {
        return;
    }
    let home = TempDir::new().expect("a folder");
    for folder in ["anchors", "certs"] {
        fs::create_dir(home.path().join(folder)).expect("a folder");
    }
    let script = format!(
        "set -e; mount --bind anchors {ANCHORS}; mount --bind certs /etc/ssl/certs
        bundle() {{ grep -c -F -f probe /etc/ssl/certs/ca-certificates.crt || true; }}
        '{PROGRAM}' cert trust --system
        sed -n 3p state/internal-ca/root.crt > probe; bundle
        '{PROGRAM}' cert trust --system | grep 'as before'; bundle
        '{PROGRAM}' cert trust --system --uninstall; bundle"
    );
    let output = Command::new(&unshare)
        .args(["-m", "sh", "-c", &script])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("STATE_DIRECTORY", home.path().join("state"))
        .output()
        .expect("it runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let counts: Vec<&str> = stdout.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    assert_eq!(counts, ["1", "1", "0"], "{stdout}");
    assert!(stdout.contains(", and ran update-ca-certificates"), "{stdout}");
    assert_eq!(fs::read_dir(home.path().join("anchors")).expect("a folder").count(), 0);
}

#[test]
fn chromium_loads_a_site_of_the_internal_ca_once_it_is_trusted() {
    let _only = crate::only_browser();
    const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
    let (Some(browser), Some(_)) = (NAMES.iter().find_map(|name| find(name)), find("certutil")) else { return };
    let config = "admin \"127.0.0.1:{admin}\"\nsite \"https://localhost:{port}\" { tls \"internal\"; respond 200 body=\"it is trusted\" }\n";
    let proxy = Proxy::start(PROGRAM, config).expect("it starts");
    let url = format!("https://localhost:{}/", proxy.address.port());
    let home = TempDir::new().expect("a folder");
    let state = proxy.places.folder().join("state").display().to_string();
    let load = |profile: &str| {
        let folder = home.path().display().to_string();
        let mut arguments: Vec<String> = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--no-proxy-server",
            "--dump-dom",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.extend([format!("--user-data-dir={folder}/{profile}"), url.clone()]);
        let environment = ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|name| (name, folder.clone())).to_vec();
        let surroundings = Surroundings { environment, has_descendants: true, ..Surroundings::default() };
        let mut program = Program::start_in(&browser, &arguments, home.path(), &surroundings).expect("a browser starts");
        program.wait_exit(BOUND).expect("it ends by itself");
        program.output()
    };
    let (code, stdout, stderr) = tidegate(&["cert", "trust", "--browsers", "--state-dir", &state], home.path());
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert_eq!(outcomes(&stdout, home.path()), ["trusted .pki/nssdb"], "a database is made for a browser that has not run yet");
    let trusted = load("first");
    assert!(trusted.contains("it is trusted"), "{trusted}");
    assert_eq!(tidegate(&["cert", "trust", "--browsers", "--uninstall", "--state-dir", &state], home.path()).0, 0);
    let refused = load("second");
    assert!(!refused.contains("it is trusted") && refused.contains("ERR_CERT_AUTHORITY_INVALID"), "{refused}");
}

/// A store as Caddy has it, with a certificate for these names that ends in this year.
fn caddy_store(folder: &Path, name: &str, names: &[&str], year: i32) -> String {
    let mut params =
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("valid names");
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    let issuer = "acme-v02.api.letsencrypt.org-directory";
    let certificates = folder.join("certificates").join(issuer).join(name);
    let users = folder.join("acme").join(issuer).join("users/a@shop.example");
    let account = r#"{"status": "valid", "contact": ["mailto:a@shop.example"], "location": "https://acme-v02.api.letsencrypt.org/acme/acct/7"}"#;
    for (path, text) in [
        (certificates.join(format!("{name}.crt")), certificate.as_str()),
        (certificates.join(format!("{name}.key")), &key.serialize_pem()),
        (users.join("a.json"), account),
        (users.join("a.key"), &KeyPair::generate().expect("a key").serialize_pem()),
    ] {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    certificate
}

#[test]
fn another_programs_store_is_taken_over_once_and_exported_again() {
    let home = TempDir::new().expect("a folder");
    let home = home.path();
    let [old, new] = ["old", "new"].map(|name| home.join(name));
    caddy_store(&old, "shop.example", &["shop.example", "www.shop.example"], 2098);
    let newer = caddy_store(&new, "www.shop.example", &["www.shop.example"], 2099);
    let check = |arguments: &[&str], code: i32, expected: &[&str]| {
        let (seen, stdout, stderr) = tidegate(arguments, home);
        assert_eq!(seen, code, "{arguments:?}: {stdout}{stderr}");
        for line in expected {
            assert!(format!("{stdout}{stderr}").contains(line), "{arguments:?}: {line} is not in\n{stdout}{stderr}");
        }
    };
    check(
        &["cert", "import", "old", "--dry-run"],
        0,
        &["Caddy in old, into a storage that is not there yet", "3 would be taken over"],
    );
    assert!(!home.join("state").exists(), "looking makes nothing");
    check(&["cert", "export", "shop.example"], 1, &["there is no storage yet"]);

    // Somebody else's folder: what root puts there has to be theirs. Who is not root can only put things where they own
    // the folder.
    let state = home.join("state");
    fs::create_dir(&state).expect("a folder");
    let is_root = chown(&state, Some(4711), Some(4711)).is_ok();
    check(
        &["cert", "import", "old"],
        0,
        &[
            "taken        shop.example: until 2098-01-01, ECDSA P-256",
            "taken        www.shop.example:",
            "taken        account https://acme-v02.api.letsencrypt.org/acme/acct/7 of a@shop.example",
            "3 taken over",
        ],
    );
    let bundle = state.join("storage/acme/certificates/shop.example/bundle.pem");
    let present = fs::metadata(&bundle).expect("a bundle");
    assert_eq!(present.permissions().mode() & 0o077, 0);
    assert!(!is_root || present.uid() == 4711, "it belongs to {}", present.uid());

    check(&["cert", "import", "old"], 0, &["kept         shop.example", "it is there already", "0 taken over, 3 there already"]);
    check(&["cert", "import", "new"], 0, &["taken        www.shop.example: until 2099-01-01", "1 taken over, 1 there already"]);
    check(
        &["cert", "import", "old"],
        0,
        &["www.shop.example: until 2098-01-01", "there is one that lasts until 2099-01-01", "0 taken over"],
    );
    check(&["cert", "import", "."], 1, &["is not a store of certbot, Caddy or Traefik", "--from"]);
    check(&["cert", "import", "none", "--from", "certbot"], 1, &["cannot read none"]);

    check(&["cert", "export", "www.shop.example", "--out", "out"], 0, &["out/chain.pem", "out/key.pem", "out/combined.pem"]);
    let read = |name: &str| fs::read_to_string(home.join("out").join(name)).expect("a file");
    assert_eq!(read("chain.pem").split_whitespace().collect::<String>(), newer.split_whitespace().collect::<String>());
    assert_eq!(read("combined.pem"), read("chain.pem") + &read("key.pem"));
    for (name, mode) in [("chain.pem", 0o644), ("key.pem", 0o600), ("combined.pem", 0o600)] {
        let present = fs::metadata(home.join("out").join(name)).expect("a file").permissions().mode() & 0o777;
        assert_eq!(present & !0o022, mode & !0o022, "{name} has {present:o}");
    }
    check(&["cert", "export", "www.shop.example"], 0, &["www.shop.example/combined.pem"]);
    check(&["cert", "export", "mail.example"], 1, &["no certificate for mail.example", "shop.example, www.shop.example"]);
    check(&["cert", "export", "not a name"], 1, &["is no name of a certificate"]);
}

/// While `work` runs, another process holds the lock of this name's orders.
fn while_ordered(port: u16, name: &str, work: impl FnOnce()) {
    let address = RedisAddress::Tcp { host: "127.0.0.1".into(), port };
    let redis = RedisStorage { address, database: 0, username: None, password: None, prefix: "edge:".into() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = Store::open(&Storage::Redis(redis), Path::new("/nowhere")).await.expect("opens");
        let lock = stored::order_lock(&Subject::parse(name).expect("a name"));
        let lock = store.try_lock(&lock).await.expect("asked").expect("free");
        work();
        lock.release().await.expect("released");
    });
}

#[test]
fn another_programs_store_goes_into_the_redis_of_the_configuration() {
    let Some(mut redis) = Redis::start() else { return };
    let home = TempDir::new().expect("a folder");
    let home = home.path();
    let [old, new] = ["old", "new"].map(|name| home.join(name));
    let older = caddy_store(&old, "shop.example.com", &["shop.example.com", "www.shop.example.com", "db.internal"], 2098);
    let newer = caddy_store(&new, "shop.example.com", &["shop.example.com"], 2099);
    let rsa = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).expect("a key").serialize_pem();
    fs::write(new.join("acme/acme-v02.api.letsencrypt.org-directory/users/a@shop.example/a.key"), rsa).expect("a file");
    let config = format!("storage {:?} prefix=\"edge:\"\nsite \"shop.example.com\" {{ respond 200; }}\n", redis.url());
    fs::write(home.join("tidegate.kdl"), config).expect("a file");
    let check = |arguments: &[&str], code: i32, expected: &[&str]| {
        let (seen, stdout, stderr) = tidegate(&[&["cert"], arguments, &["--config", "tidegate.kdl"]].concat(), home);
        assert_eq!(seen, code, "{arguments:?}: {stdout}{stderr}");
        for line in expected {
            assert!(format!("{stdout}{stderr}").contains(line), "{arguments:?}: {line} is not in\n{stdout}{stderr}");
        }
    };
    let exported = || {
        check(&["export", "shop.example.com", "--out", "out"], 0, &["out/chain.pem"]);
        fs::read_to_string(home.join("out/chain.pem")).expect("a file").split_whitespace().collect::<String>()
    };
    let plain = |pem: &str| pem.split_whitespace().collect::<String>();

    check(&["import", "old", "--dry-run"], 0, &["Caddy in old, into Redis at", "4 would be taken over"]);
    check(&["export", "shop.example.com"], 1, &["no certificate for shop.example.com", "it has none at all"]);
    while_ordered(redis.port, "shop.example.com", || {
        check(
            &["import", "old"],
            0,
            &[
                "skipped      shop.example.com: until 2098-01-01",
                "a process orders a certificate for it at this moment",
                "taken        www.shop.example.com: until 2098-01-01",
                "taken        account https://acme-v02.api.letsencrypt.org/acme/acct/7",
                "note         db.internal: no site of tidegate.kdl has exactly this name, so it is neither served nor renewed",
                "note         www.shop.example.com: no site of tidegate.kdl",
                "3 taken over, 0 there already, 1 thing skipped",
            ],
        );
    });
    check(&["import", "old"], 0, &["taken        shop.example.com", "1 taken over, 3 there already"]);
    assert_eq!(exported(), plain(&older));
    let account = "its key is RSA, and Tidegate signs with ECDSA on P-256; a new account is made at this CA with the first order";
    check(&["import", "new"], 0, &["taken        shop.example.com: until 2099-01-01", account, "1 taken over"]);
    check(&["import", "old"], 0, &["there is one that lasts until 2099-01-01", "0 taken over, 4 there already"]);
    assert_eq!(exported(), plain(&newer));
    check(&["import", "old", "--replace"], 0, &["taken        shop.example.com: until 2098-01-01", "1 taken over"]);
    assert_eq!(exported(), plain(&older));
    assert!(!home.join("state").exists(), "nothing is for a folder");

    redis.stop();
    check(&["import", "old", "--replace"], 1, &["skipped      shop.example.com", "it cannot be reached", "0 taken over"]);
    fs::write(home.join("tidegate.kdl"), "storage \"kubernetes\"\n").expect("a file");
    check(&["import", "old"], 1, &["this process does not run in a cluster"]);
    fs::write(home.join("tidegate.kdl"), "storage \"redis://\"\n").expect("a file");
    check(&["import", "old"], 1, &["tidegate.kdl has errors, so it is not known where its certificates are kept"]);
}
