//! A real PHP-FPM behind the proxy, over its unix socket. Without one on this machine the tests say so and pass.

use crate::fastcgi::PROGRAM;
use crate::fastcgi::client::{ask, ask_chunked, get, read_reply};
use crate::fastcgi::uploads::{VERSIONS, put_from_pipe};
use aws_lc_rs::digest::{SHA256, digest};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tidegate_testkit::proxy::Proxy;

const BOUND: Duration = Duration::from_secs(30);

const FILES: &[(&str, &str)] = &[
    (
        "show.php",
        r#"<?php header("X-Method: " . $_SERVER["REQUEST_METHOD"]);
        foreach (["PATH_INFO", "SCRIPT_NAME", "PHP_SELF", "REQUEST_URI", "HTTP_HOST", "REMOTE_ADDR", "PHP_AUTH_USER", "APP_ENV", "HTTP_PROXY"] as $name)
            echo $name, "=", $_SERVER[$name] ?? "(unset)", "\n";
        echo "two=", $_GET["two"] ?? "(unset)", "\n";"#,
    ),
    ("index.php", r#"<?php echo "front ", $_SERVER["REQUEST_URI"], " ", $_SERVER["PATH_INFO"] ?? "-";"#),
    ("admin/index.php", r#"<?php echo "admin";"#),
    ("echo.php", r#"<?php header("Content-Type: application/octet-stream"); echo file_get_contents("php://input");"#),
    ("hash.php", r#"<?php echo $_SERVER["CONTENT_LENGTH"], " ", hash_file("sha256", "php://input");"#),
    ("form.php", r#"<?php echo $_POST["a"] ?? "(unset)", " ", $_SERVER["CONTENT_LENGTH"];"#),
    ("warn.php", r#"<?php error_log("first complaint"); trigger_error("second complaint", E_USER_WARNING); echo "done";"#),
    ("missing.php", r#"<?php http_response_code(404); echo "not here";"#),
    (
        "away.php",
        r#"<?php header("Location: /elsewhere?a=b"); header("Set-Cookie: a=b", false); header("Set-Cookie: c=d", false);"#,
    ),
    ("long.php", r"<?php for ($i = 0; $i < 3000; $i++) echo str_repeat(chr(65 + $i % 26), 100);"),
    (
        "slowly.php",
        r#"<?php ob_implicit_flush(); while (@ob_end_flush()); foreach (["one ", "two ", "three"] as $word) { echo $word; flush(); usleep(100000); }"#,
    ),
    ("dies.php", r#"<?php echo "begun"; flush(); exec("kill -9 " . getmypid());"#),
    ("kept.php", r#"<?php header("Cache-Control: max-age=60"); echo hrtime(true);"#),
    ("pid.php", "<?php echo getmypid();"),
    ("style.css", "body { color: teal }\n"),
    ("shout.PHP", "<?php $secret = 1;"),
    ("uploads/a.jpg", r#"<?php echo "a picture ran";"#),
];

/// A running PHP-FPM, which is gone when this is dropped.
struct Fpm {
    child: Child,
    folder: TempDir,
}

impl Fpm {
    /// With as many processes as said.
    fn start(processes: u32) -> Option<Fpm> {
        let Some(program) = find_php_fpm() else {
            println!("skipped: there is no php-fpm on this machine");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in FILES {
            let file = folder.path().join("www").join(name);
            fs::create_dir_all(file.parent().expect("a folder")).and_then(|()| fs::write(&file, text)).expect("written");
        }
        let (log, socket) = (folder.path().join("log"), folder.path().join("fpm.sock"));
        // Every name is a script to this one: what is none must be kept from it.
        let configuration = format!(
            "[global]\nerror_log = {}\ndaemonize = no\n[www]\nuser = root\ngroup = root\nlisten = {}\npm = static\npm.max_children = {processes}\n\
             ping.path = /fpm-ping\npm.status_path = /fpm-status\nsecurity.limit_extensions =\ncatch_workers_output = no\nphp_admin_flag[log_errors] = on\nphp_admin_flag[display_errors] = off\n\
             php_admin_value[error_reporting] = 32767\n",
            log.display(),
            socket.display()
        );
        let file = folder.path().join("fpm.conf");
        fs::write(&file, configuration).expect("a configuration");
        // `-n`: without the php.ini of this machine. `-R`: it may run as root, as in a container.
        let child = Command::new(program)
            .args(["-n", "-F", "-R", "-y"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("php-fpm starts");
        let mut fpm = Fpm { child, folder };
        let until = Instant::now() + BOUND;
        while UnixStream::connect(&socket).is_err() {
            let ended = fpm.child.try_wait().expect("a child");
            assert!(ended.is_none() && Instant::now() < until, "{ended:?} {}", fs::read_to_string(&log).unwrap_or_default());
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(fpm)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("fpm.sock")
    }

    /// What stands behind `fastcgi`.
    fn step(&self) -> String {
        format!("fastcgi \"unix:{}\" root=\"{}\"", self.socket().display(), self.folder.path().join("www").display())
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        // Not the kill of the standard library, which the workers of a PHP-FPM survive.
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn start(site: &str) -> Proxy {
    let config = format!(
        "admin \"127.0.0.1:{{admin}}\"\nthreads 2\naccess-log \"{{dir}}/access.log\"\nsite \"http://:{{port}}\" {{\n{site}\n}}\n"
    );
    Proxy::start(PROGRAM, &config).expect("it starts")
}

/// Clients that send slowly hold no process: twice as many as there are have sent half of what they announced, and
/// the next request is answered all the same.
#[test]
fn slow_uploads_leave_php_its_processes() {
    let Some(fpm) = Fpm::start(2) else { return };
    let proxy = start(&fpm.step());
    let slow: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut client = TcpStream::connect(proxy.address).expect("it listens");
            client
                .write_all(b"POST /echo.php HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\nContent-Length: 800000\r\n\r\n")
                .expect("sent");
            client.write_all(&vec![b'a'; 400_000]).expect("sent");
            client
        })
        .collect();
    for _ in 0..4 {
        let reply = get(proxy.address, "/pid.php");
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    // Uploads that go on get their answer as well.
    for mut client in slow {
        client.write_all(&vec![b'b'; 400_000]).expect("sent");
        let reply = read_reply(&mut client, "POST");
        let body = reply.text();
        assert_eq!((reply.status, body.len()), (200, 800_000));
        assert!(body[..400_000].bytes().all(|byte| byte == b'a') && body[400_000..].bytes().all(|byte| byte == b'b'));
    }
}

#[test]
fn an_application_of_php() {
    let Some(fpm) = Fpm::start(3) else { return };
    let proxy = start(&format!(
        "compress types=\"text/html,text/css\"\nheader \"X-Step\" \"ran\"\n{} fallback=\"/index.php\" static=#true {{\nenv \"APP_ENV\" \"of {{method}}\"\n}}",
        fpm.step()
    ));
    let address = proxy.address;
    the_script_knows_the_request(address);
    the_front_controller_gets_the_rest(address);
    bodies_go_both_ways(address);
    statuses_and_steps(address);
    files_are_files_and_sources_are_not(address);
    complaints_are_logged(&proxy);
}

fn the_script_knows_the_request(address: SocketAddr) {
    let fields = ["Proxy: http://evil.test", "Authorization: Basic dTpw"];
    let reply = ask(address, "GET", "/show.php/more/%C3%BC?one=1&two=%32", &fields, b"");
    assert_eq!((reply.status, reply.field("x-method"), reply.field("x-step")), (200, Some("GET"), Some("ran")), "{}", reply.head);
    assert_eq!(
        reply.text(),
        "PATH_INFO=/more/ü\nSCRIPT_NAME=/show.php\nPHP_SELF=/show.php/more/ü\nREQUEST_URI=/show.php/more/%C3%BC?one=1&two=%32\n\
         HTTP_HOST=site.test\nREMOTE_ADDR=127.0.0.1\nPHP_AUTH_USER=u\nAPP_ENV=of GET\nHTTP_PROXY=(unset)\ntwo=2\n"
    );
}

fn the_front_controller_gets_the_rest(address: SocketAddr) {
    for (target, expected) in [
        ("/", "front / -"),
        ("/blog/post?x=1", "front /blog/post?x=1 -"),
        ("/none.php", "front /none.php -"),
        ("/uploads/a.jpg/x.php", "front /uploads/a.jpg/x.php -"),
        ("/index.php/info", "front /index.php/info /info"),
        ("/index.php/a%2Fb?x=%2F", "front /index.php/a%2Fb?x=%2F /a/b"),
        ("/admin/", "admin"),
    ] {
        let reply = get(address, target);
        assert_eq!((reply.status, reply.text().as_str()), (200, expected), "{target}");
    }
    let reply = get(address, "/admin?x=1");
    assert_eq!((reply.status, reply.field("location")), (301, Some("./admin/?x=1")));
    let reply = ask(address, "POST", "/admin", &[], b"a=b");
    assert_eq!((reply.status, reply.field("location")), (308, Some("./admin/")));
}

fn bodies_go_both_ways(address: SocketAddr) {
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    for length in [10, 200_000, 3_000_000] {
        let reply = ask(address, "POST", "/echo.php", &["Content-Type: application/octet-stream"], &body[..length]);
        assert!(
            reply.is_whole && reply.body == body[..length],
            "{} of {length} bytes came back: {}",
            reply.body.len(),
            reply.head
        );
        // PHP reads these only when the script asks for them.
        let reply = ask(address, "PUT", "/echo.php", &[], &body[..length]);
        assert!(reply.is_whole && reply.body == body[..length], "PUT: {} of {length} bytes came back", reply.body.len());
    }
    let reply = ask_chunked(address, "/echo.php", &body[..500_000]);
    assert!(reply.body == body[..500_000], "{} bytes came back", reply.body.len());
    let long: Vec<u8> = (0..30_000_000_u32).map(|at| (at % 241) as u8).collect();
    let sum = digest(&SHA256, &long).as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    for version in VERSIONS {
        let reply = put_from_pipe(address, version, "/hash.php", &long);
        assert_eq!(reply, (200, format!("{} {sum}", long.len())), "{version}");
    }
    let reply = ask(address, "POST", "/form.php", &["Content-Type: application/x-www-form-urlencoded"], b"a=b");
    assert_eq!(reply.text(), "b 3");
    // It answers without a look at the body.
    let reply = ask(address, "PUT", "/missing.php", &[], &body);
    assert_eq!((reply.status, reply.text().as_str()), (404, "not here"));
    let reply = get(address, "/long.php");
    assert_eq!((reply.body.len(), reply.is_whole), (300_000, true));
    let reply = get(address, "/slowly.php");
    assert_eq!((reply.text().as_str(), reply.is_whole), ("one two three", true));
}

fn statuses_and_steps(address: SocketAddr) {
    let reply = get(address, "/missing.php");
    assert_eq!((reply.status, reply.text().as_str()), (404, "not here"));
    assert!(reply.head.starts_with("HTTP/1.1 404 Not Found"), "{}", reply.head);
    let reply = get(address, "/away.php");
    assert_eq!((reply.status, reply.field("location")), (302, Some("/elsewhere?a=b")));
    assert!(reply.head.contains("a=b") && reply.head.contains("c=d"), "{}", reply.head);
    let reply = ask(address, "HEAD", "/long.php", &[], b"");
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    let reply = ask(address, "GET", "/long.php", &["Accept-Encoding: gzip"], b"");
    assert_eq!((reply.status, reply.field("content-encoding")), (200, Some("gzip")), "{}", reply.head);
    assert!(reply.is_whole && reply.body.len() < 30_000, "{} bytes", reply.body.len());
    // Its process is killed in the middle of the answer.
    let reply = get(address, "/dies.php");
    assert!(reply.status == 502 || !reply.is_whole, "{}", reply.head);
}

fn files_are_files_and_sources_are_not(address: SocketAddr) {
    let reply = get(address, "/style.css");
    assert_eq!((reply.status, reply.text().as_str()), (200, "body { color: teal }\n"));
    assert!(reply.field("etag").is_some() && reply.field("content-type").is_some_and(|kind| kind.starts_with("text/css")));
    let etag = format!("If-None-Match: {}", reply.field("etag").unwrap_or_default());
    assert_eq!(ask(address, "GET", "/style.css", &[&etag], b"").status, 304);
    assert_eq!(get(address, "/uploads/a.jpg").text(), r#"<?php echo "a picture ran";"#, "a file and nothing else");
    assert_eq!(get(address, "/shout.PHP").text(), "front /shout.PHP -");
    assert_eq!(ask(address, "POST", "/style.css", &[], b"x").text(), "front /style.css -");
}

fn complaints_are_logged(proxy: &Proxy) {
    assert_eq!(get(proxy.address, "/warn.php").text(), "done");
    let begin = Instant::now();
    while !proxy.program.stderr().contains("second complaint") {
        assert!(begin.elapsed() < BOUND, "{}", proxy.program.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(proxy.program.stderr().contains("first complaint"));
}

/// Not even by a PHP-FPM that would run everything.
#[test]
fn a_picture_is_never_a_script() {
    let Some(fpm) = Fpm::start(1) else { return };
    let proxy = start(&fpm.step());
    for target in [
        "/uploads/a.jpg/x.php",
        "/uploads/a.jpg%2Fx.php",
        "/uploads/a.jpg/.php",
        "/uploads/a.jpg",
        "/uploads//a.jpg/x.php",
        "/none.php",
    ] {
        let reply = get(proxy.address, target);
        assert!(matches!(reply.status, 400 | 404), "{target}: {} {}", reply.status, reply.text());
        assert!(!reply.text().contains("ran"), "{target}: {}", reply.text());
    }
    assert_eq!(get(proxy.address, "/").text(), "front / -");
}

#[test]
fn more_requests_than_processes_and_kept_connections() {
    let Some(fpm) = Fpm::start(2) else { return };
    let proxy = start(&format!("{} {{\nkeep-alive connections=1 idle=\"200ms\"\n}}", fpm.step()));
    let address = proxy.address;
    let askers: Vec<_> = (0..16)
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..5 {
                    let reply = get(address, "/pid.php");
                    assert_eq!(reply.status, 200, "{}", reply.text());
                }
            })
        })
        .collect();
    for asker in askers {
        asker.join().expect("no panic");
    }
    proxy.wait_for_metric("tidegate_upstream_connections_idle", 0.0).expect("none stays longer than it may");
}

#[test]
fn it_is_asked_whether_it_is_well() {
    let Some(fpm) = Fpm::start(2) else { return };
    let socket = fpm.socket();
    let start = |health: &str| {
        let config = format!(
            "admin \"127.0.0.1:{{admin}}\"\npool \"php\" {{\nprotocol \"fastcgi\"\nserver \"unix:{}\"\nhealth {health} interval=\"1s\" fall=1\n}}\n\
             site \"http://:{{port}}\" {{ fastcgi \"php\" root=\"{}\" fallback=\"/index.php\"; }}\n",
            socket.display(),
            fpm.folder.path().join("www").display()
        );
        Proxy::start(PROGRAM, &config).expect("it starts")
    };
    let script = fpm.folder.path().join("www/index.php").display().to_string();
    let health_of_script = format!("\"{script}\"");
    for health in ["\"/fpm-ping\" body=\"pong\"", "\"/fpm-status?json\" body=\"~www\"", &health_of_script] {
        let proxy = start(health);
        let passed = "tidegate_upstream_server_checks_total{result=\"passed\"}";
        proxy.wait_for_metric_from(passed, 1.0, f64::MAX).unwrap_or_else(|error| panic!("{health}: {error}"));
        assert_eq!(get(proxy.address, "/").text(), "front / -", "{health}");
    }
    let mut proxy = start("\"/nothing\"");
    proxy.wait_for_log("answered 404, expected 200-399").expect("a check that fails");
}

#[test]
fn a_server_that_comes_later_is_found() {
    let Some(fpm) = Fpm::start(1) else { return };
    let (socket, away) = (fpm.socket(), fpm.folder.path().join("away.sock"));
    fs::rename(&socket, &away).expect("moved");
    let proxy = start(&fpm.step());
    let reply = get(proxy.address, "/");
    assert_eq!(reply.status, 502);
    assert!(reply.text().contains("connect_failed"), "{}", reply.text());
    fs::rename(&away, &socket).expect("moved back");
    assert_eq!(get(proxy.address, "/").text(), "front / -");
}

/// In the usual folders, also under a name with a version.
fn find_php_fpm() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let programs = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    programs.map(|entry| entry.path()).find(|path: &PathBuf| is_php_fpm(path))
}

fn is_php_fpm(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
        name.strip_prefix("php-fpm").is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    })
}

#[test]
fn what_a_script_makes_is_kept_where_it_says_so() {
    let Some(fpm) = Fpm::start(2) else { return };
    let proxy = start(&format!("cache\n{}", fpm.step()));
    let first = get(proxy.address, "/kept.php");
    assert!(first.field("cache-status").is_some_and(|status| status.contains("fwd=uri-miss")), "{}", first.head);
    let again = get(proxy.address, "/kept.php");
    assert!(again.field("cache-status").is_some_and(|status| status.contains("hit")), "{}", again.head);
    assert_eq!(first.text(), again.text());
    assert_ne!(get(proxy.address, "/kept.php?other").text(), first.text());
    assert_ne!(get(proxy.address, "/pid.php").field("cache-status"), None);
}
