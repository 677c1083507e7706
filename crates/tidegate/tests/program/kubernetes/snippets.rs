//! Snippets of ingress-nginx, over HTTP and HTTPS; and beside nginx with the same statements where its template puts
//! them, with random ones and random requests.

use super::annotated::{annotated, begin, put_certificate, put_service};
use super::controller::{Asked, BOUND, Controller, ingress, service};
use super::{base64, cluster};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const NGINX: &str = "/usr/sbin/nginx";
/// What has `more_set_headers` and its kin, as Debian packages it.
const HEADERS_MORE: &str = "/usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so";
/// Snippets, each on a host of its own, and requests to each.
const HOSTS: usize = 40;
const REQUESTS: usize = 12;

#[test]
fn statements_are_carried_out_over_http_and_https() {
    let (cluster, mut controller) = begin();
    put_service(&cluster, &mut controller, "web", &["one"]);
    put_certificate(&cluster, &mut controller, "*.example.com");
    let put = |name: &str, annotations: &[(&str, &str)]| {
        cluster.put(annotated(name, &format!("{name}.example.com"), "web", annotations));
    };
    let users = base64("alice:$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n");
    cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "users"}, "data": {"auth": users}}));
    let basic = [("auth-type", "basic"), ("auth-secret", "users")];
    let with_basic = |snippet| [basic[0], basic[1], ("configuration-snippet", snippet)];
    put("before", &with_basic("if ($http_x_health) { return 200 well; }\nadd_header X-Seen yes always;"));
    put("fields", &[("configuration-snippet", "more_set_headers 'X-A: a';\nproxy_set_header X-A $http_x_b;")]);
    put("denied", &[("configuration-snippet", "deny 127.0.0.0/8;\ndeny ::1;")]);
    put("unknown", &[("configuration-snippet", "add_header X-A a;\naccess_by_lua_file a.lua;")]);
    let asking = "if ($arg_token != good) { return 403; }\nif ($cookie_debug) { return 404; }";
    put("clients", &[("configuration-snippet", asking)]);
    put("paths", &[("configuration-snippet", "if ($uri ~* ^/Admin) { return 403; }")]);
    put("server", &[("server-snippet", "if ($request_method = GET) { return 404 gone; }")]);
    for over_tls in [false, true] {
        let asked = |host: &'static str, fields: &'static [(&'static str, &'static str)]| Asked {
            over_tls,
            fields,
            ..Asked::of(host, "/")
        };
        let well = controller.wait_for_answer(&asked("before.example.com", &[("X-Health", "1")]), 200, "well");
        assert_eq!(well.head.value("x-seen").as_deref(), Some(&b"yes"[..]));
        let refused = controller.wait_for_answer(&asked("before.example.com", &[]), 401, "");
        assert_eq!(refused.head.value("x-seen").as_deref(), Some(&b"yes"[..]));
        let fields = controller.wait_for_answer(&asked("fields.example.com", &[("X-B", "from b")]), 200, "one from b");
        assert_eq!(fields.head.value("x-a").as_deref(), Some(&b"a"[..]));
        controller.wait_for_answer(&asked("denied.example.com", &[]), 403, "");
        controller.wait_for_answer(&asked("unknown.example.com", &[]), 503, "");
        controller.wait_for_answer(&asked("server.example.com", &[]), 404, "gone");
        let ask = |path: &str, cookies: &'static [(&'static str, &'static str)], status: u16| {
            let asked = Asked { over_tls, fields: cookies, ..Asked::of("clients.example.com", path) };
            controller.wait_for_answer(&asked, status, "");
        };
        ask("/", &[], 403);
        ask("/?token=bad&token=good", &[], 403);
        ask("/?a=1&TOKEN=good&token=bad", &[], 200);
        ask("/?token=good", &[("Cookie", "a=1; Debug=1")], 404);
        ask("/?token=good", &[("Cookie", "debug=0"), ("Cookie", "debug=1")], 400);
        controller.wait_for_answer(&asked("paths.example.com", &[]), 200, "one");
        for path in ["/admin", "/%61dmin/x", "//ADMIN", "/x/../admin"] {
            let asked = Asked { over_tls, ..Asked::of("paths.example.com", path) };
            controller.wait_for_answer(&asked, 403, "");
        }
    }
    controller.wait_for_status("`access_by_lua_file`: it is not one of the statements");
    // Whichever statement it is that answers.
    let explained = controller.call(&["kubernetes", "explain", "GET", "http://server.example.com/"]);
    assert!(explained.contains("Ingress shop/server server-snippet:1:return"), "{explained}");
    let explained = controller.call(&["kubernetes", "explain", "GET", "https://clients.example.com/?token=bad"]);
    assert!(explained.contains("Ingress shop/clients rules.0.paths.0.configuration-snippet:1:return"), "{explained}");
}

#[test]
fn what_is_not_known_is_left_out_where_that_is_asked_for() {
    let cluster = cluster();
    let one = super::server("one");
    cluster.put(service("one"));
    cluster.put(super::slice("one", &[&one]));
    let mut object = ingress("web", "shop.example.com", "one");
    object["metadata"]["annotations"]["nginx.ingress.kubernetes.io/configuration-snippet"] = json!("access_by_lua_file a.lua;");
    cluster.put(object);
    let controller = Controller::start(&cluster, &["--unknown-snippets", "serve"]);
    controller.expect("shop.example.com", "/", 200, "one");
    controller.wait_for_status("AnnotationNotTaken");
}

#[test]
fn snippets_do_what_nginx_does() {
    if !Path::new(NGINX).exists() || !Path::new(HEADERS_MORE).exists() {
        return println!("skipped: there is no nginx with the module headers-more on this machine");
    }
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    println!("seed {seed}");
    let mut random = Random(seed);
    let snippets: Vec<Snippets> = (0..HOSTS).map(|_| Snippets::random(&mut random)).collect();
    let upstream = echo();
    let nginx = Nginx::start(&snippets, upstream);
    let cluster = cluster();
    cluster.put(service("web"));
    cluster.put(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": upstream.port()}],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
    }));
    for (index, snippet) in snippets.iter().enumerate() {
        cluster.put(snippet.ingress(index));
    }
    let controller = Controller::start(&cluster, &[]);
    let status = controller.status();
    let mut compared = 0;
    for (index, snippet) in snippets.iter().enumerate() {
        if status.contains(&format!("Ingress shop/h{index}:")) {
            // Something of it is not known, and that is another test.
            continue;
        }
        for _ in 0..REQUESTS {
            let request = request(&mut random, &format!("h{index}.example.com"));
            let (theirs, ours) = (ask(nginx.address, &request), ask(controller.http, &request));
            assert_eq!(theirs, ours, "seed {seed}\n{snippet:?}\n{request}");
            compared += 1;
        }
    }
    println!("{compared} requests to each");
    assert!(compared > HOSTS * REQUESTS / 2, "most of them are known:\n{status}");
}

/// The numbers of a test, by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % bound
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }
}

/// Of one host.
#[derive(Debug)]
struct Snippets {
    server: String,
    location: String,
}

const FIELDS: &[&str] = &[
    "add_header X-A \"$request_method $host\";",
    "add_header X-A a always;",
    "add_header X-B \"$http_x_in\";",
    "more_set_headers 'X-A: of $scheme';",
    "more_set_headers -s '403 404' 'X-C: c';",
    "more_set_headers 'X-Up: $sent_http_x_up too';",
    "more_clear_headers X-Up;",
    "more_clear_headers -s 404 X-Up X-A;",
    "more_set_input_headers 'X-Told: told';",
    "more_clear_input_headers X-In;",
];
const ANSWERS: &[&str] = &[
    "return 403;",
    "return 404;",
    "return 204;",
    "return 200 \"ok $request_method\";",
    "return 301 https://e.example$request_uri;",
    "return 302 /else;",
    "return https://z.example/;",
];
const QUESTIONS: &[&str] = &[
    "$arg_b = c",
    "$arg_B != c",
    "$arg_b",
    "$arg_b ~ ^$",
    "$cookie_c = a",
    "$cookie_c != a",
    "$cookie_C !~ ^(a|)$",
    "$cookie_c = ''",
    "$uri = /a",
    "$uri != /",
    "$uri ~ ^/old",
    "$document_uri !~* ^/HERE",
    "$request_method = POST",
    "$request_method !~ ^(GET|HEAD)$",
    "$scheme = http",
    "$host ~ ^h1",
    "$http_x_in",
    "$http_x_in = a",
    "$http_x_in != a",
    "$http_x_in = \"\"",
    "$http_x_in ~* \"^A|b$\"",
    "$http_x_in !~ ^$",
    "$mark = 1",
    "$mark",
];
const OF_LOCATIONS: &[&str] = &[
    "proxy_set_header X-Sent \"s-$http_x_in\";",
    "proxy_set_header X-In \"\";",
    "proxy_hide_header X-Powered-By;",
    "rewrite ^/old/(.*)$ /new/$1 break;",
    "rewrite ^/go/(.*)$ https://go.example/$1 permanent;",
    "rewrite ^/here(.*)$ /there$1 redirect;",
];
const NETWORKS: &[&str] =
    &["allow 127.0.0.0/8;", "deny 127.0.0.1;", "deny all;", "allow all;", "deny 10.0.0.0/8;", "allow 10.0.0.0/8;"];

impl Snippets {
    fn random(random: &mut Random) -> Snippets {
        let server = if random.below(2) == 0 { Snippets::block(random, true) } else { String::new() };
        let location = Snippets::block(random, false);
        let sets = if server.contains("$mark") || location.contains("$mark") { "set $mark 0;\n" } else { "" };
        Snippets { server: format!("{sets}{server}"), location }
    }

    fn block(random: &mut Random, is_server: bool) -> String {
        let mut text = String::new();
        for _ in 0..=random.below(5) {
            match random.below(9) {
                0..=2 => text.push_str(random.of(FIELDS)),
                3 if !is_server => text.push_str(random.of(OF_LOCATIONS)),
                4 => text.push_str(random.of(NETWORKS)),
                5 => text.push_str("set $mark 1;"),
                6 if random.below(4) == 0 => text.push_str(random.of(ANSWERS)),
                _ => {
                    let inside = match random.below(4) {
                        0 => random.of(&["set $mark 1;", "set $mark 0;"]),
                        1 if !is_server => random.of(FIELDS),
                        2 if !is_server => "break;",
                        _ => random.of(ANSWERS),
                    };
                    let question = random.of(QUESTIONS);
                    write!(text, "if ({question}) {{ {inside} }}").expect("a text takes all");
                }
            }
            text.push('\n');
        }
        text
    }

    fn ingress(&self, index: usize) -> Value {
        let mut object = ingress(&format!("h{index}"), &format!("h{index}.example.com"), "web");
        for (name, snippet) in [("server-snippet", &self.server), ("configuration-snippet", &self.location)] {
            object["metadata"]["annotations"][format!("nginx.ingress.kubernetes.io/{name}")] = json!(snippet);
        }
        object
    }
}

/// nginx, with a server for each of them.
struct Nginx {
    program: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Nginx {
    fn start(snippets: &[Snippets], upstream: SocketAddr) -> Nginx {
        let folder = tempfile::tempdir().expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let mut text = format!(
            "load_module {HEADERS_MORE};\nworker_processes 1;\ndaemon off;\npid pid;\nerror_log error.log;\nevents {{}}\nhttp {{\n\
             access_log off;\ndefault_type text/html;\nproxy_headers_hash_bucket_size 128;\n"
        );
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            writeln!(text, "{kind}_temp_path {kind};").expect("a text takes all");
        }
        for (index, Snippets { server, location }) in snippets.iter().enumerate() {
            write!(
                text,
                "server {{\nlisten {address};\nserver_name h{index}.example.com;\n{server}\nlocation / {{\n\
                 proxy_set_header Host $http_host;\nproxy_set_header X-Forwarded-For $remote_addr;\n{location}\n\
                 proxy_pass http://{upstream};\nproxy_http_version 1.1;\nproxy_redirect off;\n}}\n}}\n"
            )
            .expect("a text takes all");
        }
        text.push('}');
        let file: PathBuf = folder.path().join("nginx.conf");
        std::fs::write(&file, text).expect("a file");
        let mut program = Command::new(NGINX)
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&file)
            .stderr(Stdio::inherit())
            .spawn()
            .expect("nginx");
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = program.try_wait().expect("a program");
            assert!(ended.is_none() && begin.elapsed() < BOUND, "nginx does not listen: {ended:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Nginx { program, address, _folder: folder }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // nginx's worker ends with it.
        let _ = Command::new("kill").arg(self.program.id().to_string()).status();
        let _ = self.program.wait();
    }
}

/// A server that says what it was asked, on a thread for each connection.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&socket));
        }
    });
    address
}

fn answer(socket: &TcpStream) -> Option<()> {
    let mut lines = BufReader::new(socket).lines();
    loop {
        let request = lines.next()?.ok()?;
        let (mut fields, mut status) = (BTreeSet::new(), "200".to_owned());
        loop {
            let line = lines.next()?.ok()?;
            let Some((name, value)) = line.split_once(':') else { break };
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            match &*name {
                "x-status" => value.clone_into(&mut status),
                // An empty one goes on here, and is left out by nginx.
                "x-in" | "x-told" | "x-sent" if !value.is_empty() => _ = fields.insert(format!("{name}={value}")),
                _ => {}
            }
        }
        let line = request.rsplit_once(' ').map_or("", |(line, _)| line);
        let body = format!("{line} {}", fields.into_iter().collect::<Vec<_>>().join(" "));
        let length = body.len();
        let body = if line.starts_with("HEAD") { "" } else { &body };
        let head = format!(
            "HTTP/1.1 {status} OK\r\nContent-Type: text/plain\r\nX-Powered-By: us\r\nX-Up: up\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        (&*socket).write_all(head.as_bytes()).ok()?;
    }
}

fn request(random: &mut Random, host: &str) -> String {
    let method = random.of(&["GET", "GET", "POST", "HEAD", "DELETE"]);
    let path = random.of(&["/", "/old/a?b=c", "/go/x/y?z", "/here/x", "/a", "/a?b=d", "/a?x=b=c&B=c&b=d", "/?b=0", "/?b="]);
    let own = random.of(&["", "X-In: a\r\n", "X-In: 0\r\n", "X-In: xb\r\n", "X-In:\r\n"]);
    let status = random.of(&["", "", "X-Status: 404\r\n", "X-Status: 403\r\n", "X-Status: 500\r\n", "X-Status: 301\r\n"]);
    let cookies = random.of(&[
        "",
        "",
        "Cookie: c=a\r\n",
        "Cookie: xc=b; C = a; d=1\r\n",
        "Cookie: d=1\r\nCookie: c=b\r\n",
        "Cookie: c=\r\n",
    ]);
    let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
    format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{own}{cookies}{status}{length}Connection: close\r\n\r\n")
}

/// What an answer says, as far as snippets decide it: its status, fields, and the body where it is nobody's own page.
fn ask(address: SocketAddr, request: &str) -> (String, BTreeSet<String>, String) {
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(BOUND)).expect("a bound");
    socket.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    let _ = socket.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let host = request.split("Host: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or_default();
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        let is_of_snippets = name == "location" || name.starts_with("x-") && name != "x-request-id";
        // nginx makes a path of this host a URL, with its port.
        let value = value.strip_prefix(&format!("http://{host}:{}", address.port())).unwrap_or(value);
        (is_of_snippets && !value.is_empty()).then(|| format!("{name}: {value}"))
    };
    let is_own_page = body.contains("<html>") || body.starts_with('{') || !status.starts_with('2') && !body.contains(" /");
    let body = if is_own_page { String::new() } else { body.trim().to_owned() };
    (status, lines.filter_map(field).collect(), body)
}
