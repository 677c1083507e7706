//! Certificate files that cannot be used, put in the place of good ones while the program runs: each is told by its
//! name, and handshakes go on with the certificate before. What is said of each kind of file is tested in the crate
//! `certs`.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_testkit::authority::CertificateFiles;
use tidegate_testkit::rustls::pki_types::ServerName;
use tidegate_testkit::rustls::{ClientConfig, ClientConnection, Stream};
use tidegate_testkit::tls::{ClientOptions, client_config};
use tidegate_testkit::{Authority, KeyKind, Proxy};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const WAIT: Duration = Duration::from_secs(30);

/// What a client is shown, if it trusts it.
fn shown(address: SocketAddr, client: &Arc<ClientConfig>) -> Result<Vec<u8>, String> {
    let text = |error: std::io::Error| error.to_string();
    let name = ServerName::try_from("example.com").map_err(|error| error.to_string())?;
    let mut connection = ClientConnection::new(client.clone(), name).map_err(|error| error.to_string())?;
    let mut socket = TcpStream::connect(address).map_err(text)?;
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n").map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(text)?;
    if !answer.starts_with("HTTP/1.1 200") {
        return Err(answer);
    }
    let first = connection.peer_certificates().and_then(|chain| chain.first());
    first.map(|certificate| certificate.to_vec()).ok_or_else(|| "no certificate was shown".into())
}

/// A file takes the place of another in one step, as programs that renew certificates do it.
fn put(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).expect("a file");
    if path.is_dir() {
        fs::remove_dir(path).expect("an empty folder");
    }
    fs::rename(&new, path).expect("the same folder");
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output().expect("openssl");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

struct World {
    proxy: Proxy,
    config: String,
    client: Arc<ClientConfig>,
    cert: PathBuf,
    key: PathBuf,
    good: CertificateFiles,
    authority: Authority,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path(), "bad-days").expect("an authority");
        let good = authority.issue("example.com", KeyKind::Ecdsa).expect("a certificate");
        let (cert, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
        fs::copy(&good.cert, &cert).expect("a copy");
        fs::copy(&good.key, &key).expect("a copy");
        let config = format!(
            "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nacme \"off\"\n\
             site \"https://example.com:{{port}}\" {{\n    tls cert=\"{}\" key=\"{}\"\n    respond 200\n}}\n",
            cert.display(),
            key.display()
        );
        let proxy = Proxy::start(PROGRAM, &config).expect("a proxy");
        let options = ClientOptions { send_sni: true, ..ClientOptions::default() };
        let mut client = client_config(Some(authority.root()), &options).expect("a configuration");
        client.resumption = tidegate_testkit::rustls::client::Resumption::disabled();
        World { proxy, config, client: Arc::new(client), cert, key, good, authority, folder }
    }

    fn is_served(&self, expected: &CertificateFiles) -> Result<(), String> {
        let shown = shown(self.proxy.address, &self.client)?;
        if shown == expected.der.as_ref() { Ok(()) } else { Err("another certificate was shown".into()) }
    }

    /// These files are told to be unfit, and the good certificate stays.
    fn check(&mut self, cert: &[u8], key: &[u8], expected: &str) {
        self.is_told(expected, |world| {
            put(&world.key, key);
            put(&world.cert, cert);
        });
    }

    fn is_told(&mut self, expected: &str, change: impl FnOnce(&World)) {
        let told = |world: &World| world.proxy.program.stderr().matches(expected).count();
        let before = told(self);
        change(self);
        let begin = Instant::now();
        while told(self) == before {
            assert!(begin.elapsed() < WAIT, "nobody says `{expected}`: {}", self.proxy.program.output());
            std::thread::sleep(Duration::from_millis(50));
        }
        self.is_served(&self.good).unwrap_or_else(|error| panic!("{expected}: {error}"));
    }
}

#[test]
fn whatever_is_put_in_the_place_of_a_certificate_the_one_before_is_served() {
    let mut world = World::new();
    let read = |path: &Path| fs::read(path).expect("a file");
    let (cert, key) = (read(&world.good.cert), read(&world.good.key));
    world.is_served(&world.good).expect("the good one");
    let folder = world.folder.path().to_owned();
    let other = world.authority.issue("other.example.com", KeyKind::Ecdsa).expect("a certificate");
    let expired = world.authority.issue("example.com", KeyKind::Expired).expect("a certificate");
    let root = read(world.authority.root_file());
    let (other_cert, expired_cert, expired_key) = (read(&other.cert), read(&expired.cert), read(&expired.key));
    openssl(&folder, &format!("pkcs8 -topk8 -in {} -passout pass:x -out locked.key", world.good.key.display()));
    openssl(&folder, "genrsa -aes256 -traditional -passout pass:x -out locked-old.key 2048");
    openssl(&folder, &format!("x509 -in {} -outform der -out server.der", world.good.cert.display()));
    let export = format!(
        "pkcs12 -export -in {} -inkey {} -passout pass:x -out server.pfx",
        world.good.cert.display(),
        world.good.key.display()
    );
    openssl(&folder, &export);
    openssl(&folder, "genpkey -algorithm ed448 -out ed448.key");
    openssl(&folder, "genrsa -out small.key 1024");
    let made = |name: &str| read(&folder.join(name));

    world.check(&other_cert, &key, "server.key does not belong to the certificate in");
    world.check(&cert, &made("locked.key"), "server.key is encrypted");
    world.check(&cert, &made("locked-old.key"), "server.key is encrypted");
    world.check(&cert[..cert.len() - 30], &key, "server.crt is not valid PEM: the line `-----END CERTIFICATE-----` is missing");
    world.check(&cert, &key[..key.len() / 2], "server.key is not valid PEM: the line `-----END PRIVATE KEY-----` is missing");
    world.check(b"", &key, "server.crt holds nothing in PEM form, not a certificate");
    world.check(&cert, b"", "server.key holds nothing in PEM form, not a private key");
    world.check(&key, &key, "server.crt holds a private key, not a certificate");
    world.check(&cert, &cert, "server.key holds a certificate, not a private key");
    world.check(&made("server.der"), &key, "server.crt holds DER (binary) data, not a certificate");
    world.check(&made("server.pfx"), &key, "server.crt holds a PKCS#12 store (PFX), not a certificate");
    world.check(&cert, &made("ed448.key"), "server.key cannot be used: it is an Ed448 key");
    world.check(&cert, &made("small.key"), "server.key cannot be used: it is an RSA key of 1024 bits");
    world.check(&[root.as_slice(), &cert].concat(), &key, "server.crt are in the wrong order: the key belongs to number 2");
    world.check(&expired_cert, &expired_key, "server.crt expired on");
    // Nor does a change of the configuration around it take it.
    let changed = world.config.replace("\n    respond", " { min \"1.3\"; ocsp-stapling #false; }\n    respond");
    assert_ne!(changed, world.config);
    world.proxy.apply(&changed).expect("a change that is applied");
    world.is_served(&world.good).expect("the good one after a change");
    let said = world.proxy.program.stderr();
    assert!(said.lines().any(|line| line.contains("server.crt expired on") && line.contains("was not taken")), "{said}");
    world.is_told("server.key: it is a folder", |world| {
        put(&world.cert, &cert);
        fs::remove_file(&world.key).expect("a file");
        fs::create_dir(&world.key).expect("a folder");
    });

    // A good one is taken over, whatever was there in between; with marks and line ends of other systems, too.
    let new = world.authority.issue("example.com+www.example.com", KeyKind::Ecdsa).expect("a certificate");
    let windows = |path: &Path| format!("\u{feff}{}", fs::read_to_string(path).expect("a file").replace('\n', "\r\n"));
    put(&world.key, windows(&new.key).as_bytes());
    put(&world.cert, windows(&new.cert).as_bytes());
    let begin = Instant::now();
    while let Err(error) = world.is_served(&new) {
        assert!(begin.elapsed() < WAIT, "{error}: {}", world.proxy.program.output());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_file_that_the_user_may_not_read_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its owner may");
    let authority = Authority::new(folder.path(), "bad-days").expect("an authority");
    let files = authority.issue("example.com", KeyKind::Ecdsa).expect("a certificate");
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o000)).expect("its owner may");
    let config = folder.path().join("tidegate.kdl");
    let text = format!(
        "acme \"off\"\nadmin \"off\"\nsite \"https://example.com:8443\" {{ tls cert=\"{}\" key=\"{}\"; respond 200; }}\n",
        files.cert.display(),
        files.key.display()
    );
    fs::write(&config, text).expect("a file");
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    let mut command = Command::new(PROGRAM);
    command.arg("check").arg(&config).env("STATE_DIRECTORY", folder.path().join("state"));
    if is_root {
        // Nothing is hidden from root.
        command.uid(65_534).gid(65_534);
    }
    let Ok(output) = command.output() else {
        eprintln!("skipped: the program cannot be started as another user");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("permission denied") && said.contains("let the user that runs tidegate read it"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}
