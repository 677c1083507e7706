//! The whole crate against a real PHP-FPM, when there is one on this machine; otherwise the tests say so and pass.
//! A plain blocking client: what an asynchronous one does with the same calls is up to the proxy.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tidegate_fastcgi::record::{
    FIRST_REQUEST, KeepConnection, encode_begin_request, encode_params, encode_stdin_end, stdin_frame,
};
use tidegate_fastcgi::{
    AnswerHead, AnswerParser, Choice, Decoder, Event, Kind, Mode, Pairs, Params, Progress, ProtocolStatus, Scripts,
};

const ADDRESS: &str = "127.0.0.1:26990";

const SCRIPTS: &[(&str, &str)] = &[
    (
        "show.php",
        r#"<?php header("X-Method: " . $_SERVER["REQUEST_METHOD"]);
        foreach (["PATH_INFO", "SCRIPT_NAME", "PHP_SELF", "QUERY_STRING", "HTTP_HOST", "HTTP_X_A", "HTTP_COOKIE", "HTTPS", "EXTRA"] as $name)
            echo $name, "=", $_SERVER[$name] ?? "(unset)", "\n";
        echo "two=", $_GET["two"] ?? "(unset)", "\n";"#,
    ),
    ("echo.php", r#"<?php header("Content-Type: application/octet-stream"); echo file_get_contents("php://input");"#),
    ("warn.php", r#"<?php error_log("first complaint"); trigger_error("second complaint", E_USER_WARNING); echo "done";"#),
    ("missing.php", r#"<?php http_response_code(404); echo "not here";"#),
    ("away.php", r#"<?php header("Location: /elsewhere?a=b");"#),
    ("long.php", r"<?php for ($i = 0; $i < 3000; $i++) echo str_repeat(chr(65 + $i % 26), 100);"),
    ("size.php", r#"<?php echo strlen($_SERVER["HTTP_X_LONG"]), " ", strlen($_SERVER["QUERY_STRING"]);"#),
];

#[test]
fn a_real_php_fpm_understands_and_is_understood() {
    let Some(program) = find_php_fpm() else {
        println!("skipped: there is no php-fpm on this machine");
        return;
    };
    let fpm = Fpm::start(&program);
    a_get_has_its_environment(&fpm);
    a_long_body_comes_back(&fpm);
    complaints_come_on_stderr(&fpm);
    the_status_is_the_scripts(&fpm);
    one_connection_serves_several_requests(&fpm);
    params_of_several_records_arrive(&fpm);
}

fn a_get_has_its_environment(fpm: &Fpm) {
    let fields: &[(&str, &str)] = &[
        ("x-a", "1"),
        ("X-A", "2"),
        ("X_A", "forged"),
        ("X.A", "forged"),
        ("cookie", "a=b"),
        ("cookie", "c=d"),
        ("host", "other.example"),
    ];
    let reply = fpm.ask("GET", "/show.php/more/%C3%BC", "one=1&two=%32", fields, b"");
    assert_eq!(reply.head.status(), 200);
    assert_eq!(reply.field("x-method").as_deref(), Some("GET"));
    assert!(reply.field("content-type").is_some_and(|value| value.starts_with("text/html")));
    let expected = "PATH_INFO=/more/ü\nSCRIPT_NAME=/show.php\nPHP_SELF=/show.php/more/ü\nQUERY_STRING=one=1&two=%32\n\
                    HTTP_HOST=site.example\nHTTP_X_A=1, 2\nHTTP_COOKIE=a=b; c=d\nHTTPS=on\nEXTRA=of the configuration\ntwo=2\n";
    assert_eq!(String::from_utf8_lossy(&reply.body), expected);
    assert_eq!(reply.stderr, b"");
}

fn a_long_body_comes_back(fpm: &Fpm) {
    let body: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let reply = fpm.ask("POST", "/echo.php", "", &[("content-type", "application/octet-stream")], &body);
    assert_eq!(reply.field("content-type").as_deref(), Some("application/octet-stream"));
    assert!(reply.body == body, "{} bytes came back", reply.body.len());
    let reply = fpm.ask("GET", "/long.php", "", &[], b"");
    assert_eq!(reply.body.len(), 300_000);
}

fn complaints_come_on_stderr(fpm: &Fpm) {
    let reply = fpm.ask("GET", "/warn.php", "", &[], b"");
    assert_eq!(reply.body, b"done");
    let stderr = String::from_utf8_lossy(&reply.stderr).into_owned();
    assert!(stderr.contains("first complaint") && stderr.contains("second complaint"), "{stderr}");
}

fn the_status_is_the_scripts(fpm: &Fpm) {
    let reply = fpm.ask("GET", "/missing.php", "", &[], b"");
    assert_eq!((reply.head.status(), reply.head.reason(), &reply.body[..]), (404, &b"Not Found"[..], &b"not here"[..]));
    let reply = fpm.ask("GET", "/away.php", "", &[], b"");
    assert_eq!((reply.head.status(), reply.head.kind()), (302, Kind::ClientRedirect));
    assert_eq!(reply.head.location(), Some(&b"/elsewhere?a=b"[..]));
    let reply = fpm.ask("GET", "/no-such-script.php", "", &[], b"");
    assert_eq!(reply.head.status(), 404);
    let reply = fpm.ask("HEAD", "/missing.php", "", &[], b"");
    assert_eq!((reply.head.status(), reply.head.body_allowed(b"HEAD")), (404, false));
}

/// Also after a script that did not read the body it was sent.
fn one_connection_serves_several_requests(fpm: &Fpm) {
    let mut stream = connect();
    let long = vec![b'l'; 200_000];
    for (path, body, expected) in
        [("/echo.php", &b"first"[..], &b"first"[..]), ("/missing.php", &long, b"not here"), ("/echo.php", b"third", b"third")]
    {
        let reply = exchange(&mut stream, KeepConnection::Yes, &fpm.request("POST", path, "", &[], body), body);
        assert_eq!(reply.body, expected);
        assert!(reply.is_reusable, "{path}");
    }
}

fn params_of_several_records_arrive(fpm: &Fpm) {
    let (query, long) = ("q".repeat(40_000), "h".repeat(20_000));
    let fields = [("x-long", &long[..]), ("x-other", &long[..])];
    let reply = fpm.ask("GET", "/size.php", &query, &fields, b"");
    assert_eq!(String::from_utf8_lossy(&reply.body), "20000 40000");
}

/// A running PHP-FPM with a folder of scripts; both are gone when it is dropped.
struct Fpm {
    child: Child,
    folder: PathBuf,
    scripts: Scripts,
}

impl Fpm {
    fn start(program: &Path) -> Fpm {
        drop(TcpListener::bind(ADDRESS).expect("nobody else listens there"));
        let folder = std::env::temp_dir().join(format!("tidegate-fastcgi-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        for (name, text) in SCRIPTS {
            fs::write(folder.join(name), text).expect("a script");
        }
        let log = folder.join("log");
        let configuration = format!(
            "[global]\nerror_log = {}\ndaemonize = no\n[www]\nuser = root\ngroup = root\nlisten = {ADDRESS}\npm = static\npm.max_children = 2\n\
             php_admin_flag[log_errors] = on\nphp_admin_flag[display_errors] = off\nphp_admin_value[error_reporting] = 32767\n",
            log.display()
        );
        let file = folder.join("fpm.conf");
        fs::write(&file, configuration).expect("a configuration");
        // `-n`: without the php.ini of this machine. `-R`: it may run as root, as in a container.
        let child = Command::new(program)
            .args(["-n", "-F", "-R", "-y"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("php-fpm starts");
        let root = folder.to_str().expect("a plain name").as_bytes().to_vec();
        let mut fpm =
            Fpm { child, folder, scripts: Scripts::new(&root, b".php", b"index.php", Mode::Direct).expect("good settings") };
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(ADDRESS).is_err() {
            let ended = fpm.child.try_wait().expect("a child");
            assert!(ended.is_none() && Instant::now() < until, "{ended:?} {}", fs::read_to_string(&log).unwrap_or_default());
            std::thread::sleep(Duration::from_millis(20));
        }
        fpm
    }

    fn ask(&self, method: &str, path: &str, query: &str, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        let pairs = self.request(method, path, query, fields, body);
        exchange(&mut connect(), KeepConnection::No, &pairs, body)
    }

    fn request(&self, method: &str, path: &str, query: &str, fields: &[(&str, &str)], body: &[u8]) -> Pairs {
        let Ok(Choice::Script(script)) = self.scripts.find(path.as_bytes()) else { panic!("{path} names no script") };
        let target = format!("{path}?{query}");
        let params = Params {
            method: method.as_bytes(),
            // Shortened, so that a long query does not count twice.
            raw_target: &target.as_bytes()[..target.len().min(1000)],
            query: query.as_bytes(),
            protocol: "HTTP/1.1",
            authority: b"site.example",
            server_name: b"site.example",
            client: SocketAddr::from(([192, 0, 2, 1], 1234)),
            server: SocketAddr::from(([192, 0, 2, 2], 443)),
            is_https: true,
            content_length: (!body.is_empty()).then_some(body.len() as u64),
            user: None,
            software: "tidegate",
            extra: &[(b"EXTRA", b"of the configuration")],
        };
        let mut pairs = Pairs::new(128 << 10);
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        params.write(&mut pairs, &self.scripts, &script, fields).expect("small enough");
        pairs
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
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect(ADDRESS).expect("php-fpm listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("not zero");
    stream
}

struct Reply {
    head: AnswerHead,
    body: Vec<u8>,
    stderr: Vec<u8>,
    is_reusable: bool,
}

impl Reply {
    fn field(&self, name: &str) -> Option<String> {
        let mut fields = self.head.fields();
        fields
            .find(|field| field.0.eq_ignore_ascii_case(name.as_bytes()))
            .map(|field| String::from_utf8_lossy(field.1).into_owned())
    }
}

fn exchange(stream: &mut TcpStream, keep: KeepConnection, pairs: &Pairs, body: &[u8]) -> Reply {
    let mut out = Vec::new();
    encode_begin_request(&mut out, FIRST_REQUEST, keep);
    encode_params(&mut out, FIRST_REQUEST, pairs);
    for piece in body.chunks(50_001) {
        let frame = stdin_frame(FIRST_REQUEST, piece.len()).expect("a piece of a record's size");
        out.extend_from_slice(&frame.header);
        out.extend_from_slice(piece);
        out.extend_from_slice(frame.padding);
    }
    encode_stdin_end(&mut out, FIRST_REQUEST);
    // Both ways at once: the script may answer before it has read everything.
    let mut sender = stream.try_clone().expect("a socket");
    let sending = std::thread::spawn(move || sender.write_all(&out));
    let reply = receive(stream);
    sending.join().expect("no panic").expect("all of it was taken");
    reply
}

fn receive(stream: &mut TcpStream) -> Reply {
    let mut decoder = Decoder::new(FIRST_REQUEST);
    let mut parser = AnswerParser::new();
    let (mut head, mut body, mut stderr) = (None, Vec::new(), Vec::new());
    let mut buffer = [0; 4096];
    while !decoder.is_finished() {
        let read = stream.read(&mut buffer).expect("an answer in time");
        assert!(read > 0, "{:?}", decoder.end_of_input());
        let mut input = &buffer[..read];
        while let Some(event) = decoder.feed(&mut input).expect("good records") {
            match event {
                Event::Stdout(mut piece) => {
                    if head.is_none()
                        && let Progress::Complete(complete) = parser.feed(&mut piece).expect("a good head")
                    {
                        head = Some(complete);
                    }
                    body.extend_from_slice(piece);
                }
                Event::Stderr(piece) => stderr.extend_from_slice(piece),
                Event::Values(_) | Event::UnknownType(_) => panic!("{event:?}"),
                Event::End { app_status, protocol_status } => {
                    assert_eq!((app_status, protocol_status), (0, ProtocolStatus::RequestComplete));
                }
            }
        }
    }
    Reply { head: head.expect("a head"), body, stderr, is_reusable: decoder.is_reusable() }
}

/// In the usual folders, also under a name with a version.
fn find_php_fpm() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let programs = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    programs.map(|entry| entry.path()).find(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
            name.strip_prefix("php-fpm").is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        })
    })
}
