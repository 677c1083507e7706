//! Certificates by ACME as a user has them: the whole program beside a real CA (Debian's pebble, which calls good
//! nonces bad now and then), with a configuration of a few lines. What the engine does in detail is tested in the crate
//! `acme`. Skipped where there is no pebble.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_testkit::case::Places;
use tidegate_testkit::docker::{Container, Docker};
use tidegate_testkit::pebble::{Options, Pebble};
use tidegate_testkit::responder::{Manner, Responder, ResponderAuthority};
use tidegate_testkit::rustls::ClientConfig;
use tidegate_testkit::tls::{ClientOptions, client_config, root_of_file};
use tidegate_testkit::tokio::task::LocalSet;
use tidegate_testkit::{Authority, Client, KeyKind, Proxy, Surroundings, get, tokio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// An order takes a second or two; the machine may compile something at the same time.
const WAIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A CA, and the proxy's folder beside it.
struct World {
    pebble: Pebble,
    _folder: tempfile::TempDir,
}

impl World {
    fn new(options: Options) -> Option<World> {
        let folder = tempfile::tempdir().expect("a folder");
        let pebble = Pebble::start(folder.path(), options).expect("pebble")?;
        Some(World { pebble, _folder: folder })
    }

    /// What every configuration here begins with. The ports are those at which this CA comes to us.
    fn head(&self, more: &str) -> String {
        let (directory, root) = (&self.pebble.directory, self.pebble.root.display());
        let (http, https) = (self.pebble.http_port, self.pebble.https_port);
        format!(
            "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\n\
             acme email=\"ops@example.com\" http-port={http} https-port={https} preflight=#false {{\n    ca \"{directory}\" root=\"{root}\"\n    {more}\n}}\n"
        )
    }

    fn https(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.pebble.https_port))
    }

    /// What the CA's management has under this path.
    fn managed(&self, path: &str) -> String {
        let url = format!("https://localhost:{}/{path}", self.pebble.management().port());
        curl(&["--cacert", &self.pebble.root.display().to_string(), &url])
    }

    /// A client that trusts this CA's certificates and nothing else.
    fn client(&self) -> Arc<ClientConfig> {
        let pem = self.managed("roots/0");
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), pem).expect("a writable file");
        let root = root_of_file(file.path()).expect("a root");
        Arc::new(client_config(Some(&root), &with_name()).expect("a configuration"))
    }
}

fn start(config: &str) -> Proxy {
    start_with(config, &[])
}

/// With more arguments for `run`.
fn start_with(config: &str, more: &[&str]) -> Proxy {
    let places = Places::new().expect("a folder");
    let state = places.folder().join("state").display().to_string();
    let surroundings = Surroundings { environment: vec![("STATE_DIRECTORY", state)], ..Surroundings::default() };
    Proxy::start_in(places, PROGRAM, config, more, &surroundings).expect("a proxy")
}

fn with_name() -> ClientOptions {
    ClientOptions { send_sni: true, ..ClientOptions::default() }
}

fn curl(arguments: &[&str]) -> String {
    let output = std::process::Command::new("curl").arg("-sS").args(arguments).output().expect("curl");
    assert!(output.status.success(), "curl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, future)
}

/// One request over TLS; `Err` when the certificate is not trusted, or nobody answers.
fn fetch(address: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> Result<String, String> {
    block_on(async {
        let mut connection = Client::connect_tls(address, client.clone(), name).await?;
        let answer = connection.get(name, "/").await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    })
}

fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(error) if begin.elapsed() > WAIT => panic!("{what}: {error}"),
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

fn certificates(proxy: &Proxy) -> String {
    let token = fs::read_to_string(proxy.places.folder().join("state/admin-token")).expect("the token");
    curl(&["-H", &format!("Authorization: Bearer {}", token.trim()), &format!("http://{}/v1/certificates", proxy.admin)])
}

fn post(proxy: &Proxy, path: &str) -> String {
    let token = fs::read_to_string(proxy.places.folder().join("state/admin-token")).expect("the token");
    let header = format!("Authorization: Bearer {}", token.trim());
    curl(&[
        "-X",
        "POST",
        "-H",
        &header,
        "-H",
        "Content-Type: application/json",
        "-d",
        "{}",
        &format!("http://{}{path}", proxy.admin),
    ])
}

fn serial(proxy: &Proxy, name: &str) -> String {
    let listed: serde_json::Value = serde_json::from_str(&certificates(proxy)).expect("JSON");
    let all = listed["certificates"].as_array().expect("a list");
    let found = all.iter().find(|one| one["source"] == "acme" && one["names"][0] == name);
    found.and_then(|one| one["obtained"]["serial"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn a_site_gets_its_certificate_in_the_handshake_and_answers_meanwhile() {
    let Some(world) = World::new(Options { sleep_secs: 2, ..Options::default() }) else { return };
    let https = world.pebble.https_port;
    let config = format!("{}site \"https://a.example.com:{https}\" {{ respond 200 body=\"a\"; }}\n", world.head(""));
    let mut proxy = start(&config);
    let client = world.client();
    // Nobody waits for the CA: until it has issued, the internal CA stands in.
    let anybody = Arc::new(client_config(None, &with_name()).expect("a configuration"));
    assert_eq!(fetch(world.https(), &anybody, "a.example.com").expect("an answer"), "a");
    until("a certificate", || fetch(world.https(), &client, "a.example.com"));
    assert_eq!(world.pebble.orders(), 1);
    proxy.wait_for_metric("tidegate_obtained_certificates{state=\"ready\"}", 1.0).expect("a metric");
    proxy.wait_for_log("a certificate was obtained").expect("a line of the log");
    // A restart uses what is there.
    let state = proxy.places.folder().join("state").display().to_string();
    let before = serial(&proxy, "a.example.com");
    restart(&mut proxy, &state);
    until("the same certificate", || fetch(world.https(), &client, "a.example.com"));
    assert_eq!((serial(&proxy, "a.example.com"), world.pebble.orders()), (before, 1));
}

/// As [`Proxy::restart`], with the same state folder.
fn restart(proxy: &mut Proxy, state: &str) {
    proxy.program.signal("KILL").expect("a signal");
    let _ = proxy.program.wait_exit(Duration::from_secs(30));
    start_again(proxy, state);
}

fn start_again(proxy: &mut Proxy, state: &str) {
    let arguments = ["run", "--config", &proxy.places.config_file().display().to_string()].map(str::to_owned);
    let surroundings = Surroundings { environment: vec![("STATE_DIRECTORY", state.to_owned())], ..Surroundings::default() };
    proxy.program = tidegate_testkit::Program::start_in(Path::new(PROGRAM), &arguments, proxy.places.folder(), &surroundings)
        .expect("a program");
    let admin = proxy.admin.clone();
    proxy.program.wait_until("ready", || matches!(get(&admin, "/readyz"), Ok((200, _)))).expect("a ready process");
}

/// A CA of one's own has such a certificate, and says so with `root=`: it is trusted itself, whoever signed it.
#[test]
fn a_ca_that_signs_its_own_certificate_is_trusted_by_that() {
    let Some(world) = World::new(Options { is_self_signed: true, ..Options::default() }) else { return };
    let https = world.pebble.https_port;
    let site = format!("site \"https://a.example.com:{https}\" {{ respond 200 body=\"a\"; }}\n");
    let proxy = start(&format!("{}{site}", world.head("")));
    until("a certificate", || if serial(&proxy, "a.example.com").is_empty() { Err(certificates(&proxy)) } else { Ok(()) });
    drop(proxy);
    // Another one of the same name, and nothing else, is no such certificate.
    let folder = tempfile::tempdir().expect("a folder");
    let other = Authority::new(folder.path(), "other").and_then(|other| other.issue("localhost", KeyKind::SelfSigned));
    let other = other.expect("a certificate").cert;
    let head = world.head("").replace(&world.pebble.root.display().to_string(), &other.display().to_string());
    let mut proxy = start(&format!("{head}{site}"));
    proxy.wait_for_log("no certificate was obtained").expect("a line of the log");
    let said = proxy.program.stderr();
    assert!(!said.contains("CaUsedAsEndEntity") && !said.contains("UnknownIssuer"), "no word of a library: {said}");
}

#[test]
fn http_01_is_answered_before_any_route_and_new_names_come_with_a_reload() {
    let Some(world) = World::new(Options::default()) else { return };
    let (http, https) = (world.pebble.http_port, world.pebble.https_port);
    let sites = |names: &[&str]| {
        let each = names.iter().map(|name| format!("site \"https://{name}:{https}\" {{ respond 200 body=\"{name}\"; }}\n"));
        let plain = format!("site \"http://other.example.com:{http}\" {{ respond 404; }}\n");
        world.head("challenges \"http-01\"") + &plain + &each.collect::<String>()
    };
    let mut proxy = start(&sites(&["a.example.com"]));
    let client = world.client();
    until("a certificate", || fetch(world.https(), &client, "a.example.com"));
    proxy.apply(&sites(&["a.example.com", "b.example.com"])).expect("a change");
    until("a certificate of the new name", || fetch(world.https(), &client, "b.example.com"));
    assert_eq!(world.pebble.orders(), 2);
    assert!(fs::read_dir(proxy.places.folder().join("state/storage")).expect("the storage").next().is_some());
}

/// A label asks for a host; the file says who may have a certificate, and no order is made for any other.
#[test]
fn a_label_gets_its_certificate_where_the_file_allows_its_host() {
    let Some(world) = World::new(Options::default()) else { return };
    let docker = Docker::start().expect("an engine");
    let (https, socket) = (world.pebble.https_port, docker.socket());
    let file = format!("docker socket=\"{}\" {{\n    allow \"*.example.com\"\n}}\n", socket.display());
    let own = format!("site \"https://own.example.com:{https}\" {{ respond 200 body=\"own\"; }}\n");
    let proxy = start(&format!("{}{file}{own}", world.head("")));
    let client = world.client();
    until("a certificate of the file", || fetch(world.https(), &client, "own.example.com"));
    for (id, host) in [("shop", "shop.example.com"), ("other", "shop.example.org")] {
        let container = Container::plain(id, 9).of_project(id, "web");
        let container = container.with_label("tidegate.config", "respond 200 body=\"container\"");
        docker.put(container.with_label("tidegate.site", &format!("https://{host}:{https}")), "start");
    }
    let answer = until("a certificate of the label", || fetch(world.https(), &client, "shop.example.com"));
    assert_eq!(answer, "container");
    fetch(world.https(), &client, "shop.example.org").expect_err("no certificate");
    let listed = certificates(&proxy);
    assert!(listed.contains("shop.example.com") && !listed.contains("shop.example.org"), "{listed}");
    assert_eq!(world.pebble.orders(), 2, "{listed}");
}

#[test]
fn renewed_and_revoked_on_request() {
    let Some(world) = World::new(Options::default()) else { return };
    let https = world.pebble.https_port;
    let config = format!("{}site \"https://a.example.com:{https}\" {{ respond 200 body=\"a\"; }}\n", world.head(""));
    let proxy = start(&config);
    until("a certificate", || fetch(world.https(), &world.client(), "a.example.com"));
    let first = serial(&proxy, "a.example.com");
    let answer = post(&proxy, "/v1/certificates/a.example.com/renew");
    assert!(answer.contains("\"done\":true"), "{answer}");
    let second = serial(&proxy, "a.example.com");
    assert_ne!(first, second);
    let answer = post(&proxy, "/v1/certificates/a.example.com/revoke");
    assert!(answer.contains("\"done\":true"), "{answer}");
    until("another one", || match serial(&proxy, "a.example.com") {
        third if third.is_empty() || third == second => Err(certificates(&proxy)),
        third => Ok(third),
    });
    let answer = post(&proxy, "/v1/certificates/b.example.com/renew");
    assert!(answer.contains("not-found") && answer.contains("tidegate cert list"), "{answer}");
}

#[test]
fn two_processes_with_one_storage_order_once() {
    let Some(world) = World::new(Options::default()) else { return };
    let shared = tempfile::tempdir().expect("a folder");
    let (http, https) = (world.pebble.http_port, world.pebble.https_port);
    let storage = format!("storage \"{}\"\n", shared.path().join("certificates").display());
    let config = |port: &str| {
        format!(
            "{}{storage}site \"https://a.example.com:{port}\" {{ respond 200 body=\"a\"; }}\nsite \"http://:{http}\" {{ respond 404; }}\n",
            world.head("challenges \"http-01\"")
        )
    };
    let first = start(&config(&https.to_string()));
    let second = start_with(&config("{port}"), &["--share-port"]);
    let client = world.client();
    until("a certificate", || fetch(world.https(), &client, "a.example.com"));
    until("the same one in the other process", || fetch(second.address, &client, "a.example.com"));
    assert_eq!(serial(&first, "a.example.com"), serial(&second, "a.example.com"));
    assert_eq!(world.pebble.orders(), 1);
}

#[test]
fn a_ca_may_come_to_another_process_of_the_storage_than_the_one_that_orders() {
    let Some(world) = World::new(Options::default()) else { return };
    let shared = tempfile::tempdir().expect("a folder");
    let http = world.pebble.http_port;
    let head = |challenge: &str| {
        let storage = format!("storage \"{}\"\n", shared.path().join("certificates").display());
        world.head(&format!("challenges \"{challenge}\"")) + &storage
    };
    // The one that orders listens where the CA never comes to, as a host behind a load balancer that has sent the CA
    // elsewhere.
    let of_orders = format!(
        "{}site \"http://127.0.0.2:{http}\" {{ respond 404; }}\nsite \"https://a.example.com:{{port}}\" {{ respond 200 body=\"a\"; }}\n",
        head("http-01")
    );
    let of_answers = format!(
        "{}site \"http://127.0.0.1:{http}\" {{ respond 404; }}\nsite \"https://b.example.com:{{port}}\" {{ respond 200 body=\"b\"; }}\n",
        head("http-01")
    );
    let _answers = start(&of_answers);
    let orders = start(&of_orders);
    let client = world.client();
    until("a certificate", || {
        fetch(orders.address, &client, "a.example.com").map_err(|error| format!("{error}\n{}", certificates(&orders)))
    });
    // Nothing that is not an open order's is answered.
    let status =
        curl(&["-o", "/dev/null", "-w", "%{http_code}", &format!("http://127.0.0.1:{http}/.well-known/acme-challenge/unknown")]);
    assert_eq!(status, "404");
}

#[test]
fn a_process_that_starts_answers_for_another_from_its_first_connection_on() {
    let Some(world) = World::new(Options::default()) else { return };
    let http = world.pebble.http_port;
    let shared = tempfile::tempdir().expect("a folder");
    let folder = shared.path().join("certificates");
    let token = "token-of-another";
    let key: Vec<String> = token.bytes().map(|byte| format!("{byte:02x}")).collect();
    // As it is made by a process: nobody else may read it.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join("acme/answers")).expect("a folder");
    let answer = "{\"until\":\"2200-01-01T00:00:00Z\",\"key_authorization\":\"of another\",\"subject\":null,\"digest\":null}";
    fs::write(folder.join(format!("acme/answers/http-{}", key.concat())), answer).expect("a file");
    // With many pools the start takes longer, so that a connection comes in the middle of it.
    let pools: Vec<String> =
        (0..1000).map(|index| format!("pool \"{index}\" {{ server \"127.0.0.1:1\"; health \"/\"; }}\n")).collect();
    let pools = pools.concat();
    let config = format!(
        "{}storage \"{}\"\nsite \"https://a.example.com:{{port}}\" {{ respond 200; }}\nsite \"http://127.0.0.1:{http}\" {{ respond 404; }}\n{pools}",
        world.head("challenges \"http-01\""),
        folder.display()
    );
    let asked = std::thread::spawn(move || {
        let until = Instant::now() + WAIT;
        loop {
            match get(&format!("127.0.0.1:{http}"), &format!("/.well-known/acme-challenge/{token}")) {
                Ok(answer) => return Some(answer),
                Err(_) if Instant::now() < until => {}
                Err(_) => return None,
            }
        }
    });
    let _proxy = start(&config);
    assert_eq!(asked.join().expect("an answer"), Some((200, "of another".to_owned())));
}

#[test]
fn the_first_client_of_a_name_waits_for_its_certificate_and_others_are_refused() {
    let Some(world) = World::new(Options::default()) else { return };
    let https = world.pebble.https_port;
    let config = format!(
        "{}site \"http://127.0.0.1:{{port:ask}}\" {{\n    route {{ match query=\"domain=good.example.com\"; respond 200; }}\n    respond 404\n}}\n\
         site \"https://:{https}\" {{ tls {{ on-demand ask=\"http://127.0.0.1:{{port:ask}}/\" wait=\"40s\"; }}; respond 200 body=\"{{host}}\"; }}\n",
        world.head("")
    );
    let proxy = start(&config);
    let client = world.client();
    assert_eq!(fetch(world.https(), &client, "good.example.com").expect("an answer"), "good.example.com");
    let refused = fetch(world.https(), &client, "bad.example.com").expect_err("a name that nobody allows");
    assert!(refused.to_lowercase().contains("unrecogni"), "{refused}");
    assert_eq!(world.pebble.orders(), 1);
    proxy.wait_for_metric("tidegate_tls_handshake_failures_total{reason=\"unknown_name\"}", 1.0).expect("a metric");
}

#[test]
fn wildcards_by_a_record_that_a_program_publishes() {
    let Some(world) = World::new(Options::default()) else { return };
    let https = world.pebble.https_port;
    let folder = tempfile::tempdir().expect("a folder");
    let dns = published_by_a_program(&world, folder.path(), "true");
    let config = format!("{}site \"https://*.example.com:{https}\" {{ respond 200 body=\"{{host}}\"; }}\n", world.head(&dns));
    let proxy = start(&config);
    let client = world.client();
    until("a certificate", || {
        fetch(world.https(), &client, "any.example.com").map_err(|error| format!("{error}\n{}", certificates(&proxy)))
    });
}

#[test]
fn one_wildcard_is_obtained_for_all_sites_whose_names_it_covers() {
    let Some(world) = World::new(Options::default()) else { return };
    let https = world.pebble.https_port;
    let folder = tempfile::tempdir().expect("a folder");
    let dns = published_by_a_program(&world, folder.path(), "true");
    let head = world.head(&format!("{dns}\n    wildcard \"*.example.com\""));
    let site = |name: &str| format!("site \"https://{name}.example.com:{https}\" {{ respond 200 body=\"{name}\"; }}\n");
    let proxy = start(&format!("{head}{}{}{}", site("a"), site("b"), site("c")));
    let client = world.client();
    for name in ["a", "b", "c"] {
        let body = until("a certificate", || {
            let fetched = fetch(world.https(), &client, &format!("{name}.example.com"));
            fetched.map_err(|error| format!("{error}\n{}", certificates(&proxy)))
        });
        assert_eq!(body, name);
    }
    assert_eq!(world.pebble.orders(), 1);
    let obtained = certificates(&proxy);
    assert_eq!(obtained.matches("\"source\":\"acme\"").count(), 1, "{obtained}");
}

/// `dns` of an `acme` block, with a program that does `first` and then publishes the record.
fn published_by_a_program(world: &World, folder: &Path, first: &str) -> String {
    let script = folder.join("publish");
    let call =
        |word: &str, body: &str| format!("curl -sS -X POST -d '{body}' {}/{word} > /dev/null", world.pebble.dns_management);
    let text = format!(
        "#!/bin/sh\nset -e\ncase \"$1\" in\npresent) {first}; {} ;;\ncleanup) {} ;;\nesac\n",
        call("set-txt", "{\"host\":\"'$2'.\",\"value\":\"'$3'\"}"),
        call("clear-txt", "{\"host\":\"'$2'.\"}")
    );
    fs::write(&script, text).expect("a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).expect("a mode");
    format!("dns \"exec\" command=\"{}\" resolver=\"{}\" propagation=\"5s\"", script.display(), world.pebble.dns)
}

#[test]
fn a_kill_in_the_middle_of_an_order_loses_nothing_and_orders_nothing_twice() {
    let Some(world) = World::new(Options::default()) else { return };
    let https = world.pebble.https_port;
    let folder = tempfile::tempdir().expect("a folder");
    // The CA is not told to look before the record is there: a look between both processes would fail the order for
    // good.
    let config = format!(
        "{}site \"https://a.example.com:{https}\" {{ respond 200 body=\"a\"; }}\n",
        world.head(&format!("challenges \"dns-01\"\n    {}", published_by_a_program(&world, folder.path(), "sleep 3")))
    );
    let mut proxy = start(&config);
    // An order whose address was still on its way when the process ended is known to the CA alone; who asks for its
    // authorisations has kept it.
    until("an order that is kept", || if world.pebble.requests("/authZ/") > 0 { Ok(()) } else { Err(world.pebble.log()) });
    let state = proxy.places.folder().join("state").display().to_string();
    restart(&mut proxy, &state);
    let client = world.client();
    until("a certificate", || {
        fetch(world.https(), &client, "a.example.com").map_err(|error| format!("{error}\n{}", certificates(&proxy)))
    });
    assert_eq!(world.pebble.orders(), 1, "{}", world.pebble.log());
}

#[test]
fn what_is_in_the_way_is_said_in_one_line() {
    let Some(world) = World::new(Options::default()) else { return };
    let https = world.pebble.https_port;
    let config = format!(
        "{}site \"https://a.example.invalid:{https}\" {{ tls {{ acme preflight=#true; }}; respond 200 body=\"a\"; }}\n",
        world.head("")
    );
    let mut proxy = start(&config);
    proxy.wait_for_log("no certificate was obtained").expect("a line of the log");
    assert_eq!(world.pebble.orders(), 0);
    let listed = certificates(&proxy);
    assert!(listed.contains("\"cause\"") && listed.contains("\"remedy\"") && listed.contains("a.example.invalid"), "{listed}");
    proxy.wait_for_metric("tidegate_obtained_certificates{state=\"failing\"}", 1.0).expect("a metric");
}

/// The program as an operator calls it, beside the one that runs.
fn called(proxy: &Proxy, arguments: &[&str]) -> String {
    let output = std::process::Command::new(PROGRAM)
        .args(arguments)
        .args(["--admin", &proxy.admin])
        .env("STATE_DIRECTORY", proxy.places.folder().join("state"))
        .output()
        .expect("the program");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn what_went_wrong_before_is_forgotten_when_a_renewal_succeeds() {
    let Some(world) = World::new(Options::default()) else { return };
    let https = world.pebble.https_port;
    world.pebble.dns("set-servfail", &serde_json::json!({"host": "a.example.com."})).expect("a name server");
    let config = format!("{}site \"https://a.example.com:{https}\" {{ respond 200 body=\"a\"; }}\n", world.head(""));
    let proxy = start(&config);
    proxy.wait_for_metric("tidegate_obtained_certificates{state=\"failing\"}", 1.0).expect("a failure");
    let listed = called(&proxy, &["cert", "list"]);
    assert!(listed.contains("a.example.com: ") && listed.contains("tried again at"), "{listed}");
    assert!(called(&proxy, &["status"]).contains("a.example.com"), "{}", called(&proxy, &["status"]));
    world.pebble.dns("clear-servfail", &serde_json::json!({"host": "a.example.com."})).expect("a name server");
    let renewed = called(&proxy, &["cert", "renew", "a.example.com"]);
    let listed = called(&proxy, &["cert", "list"]);
    assert!(!listed.contains("a.example.com: ") && listed.contains("ready"), "{renewed}\n{listed}");
    let reported: serde_json::Value = serde_json::from_str(&certificates(&proxy)).expect("JSON");
    let all = reported["certificates"].as_array().expect("a list");
    let of_acme = all.iter().find(|one| one["source"] == "acme").expect("the name");
    assert_eq!(
        (&of_acme["obtained"]["fault"], &of_acme["obtained"]["failures_in_a_row"]),
        (&serde_json::Value::Null, &0.into()),
        "{of_acme}"
    );
    assert!(!called(&proxy, &["status"]).contains("could not"), "{}", called(&proxy, &["status"]));
    for (state, count) in [("failing", 0.0), ("missing", 0.0), ("ready", 1.0)] {
        proxy.wait_for_metric(&format!("tidegate_obtained_certificates{{state=\"{state}\"}}"), count).expect("a metric");
    }
}

#[test]
fn a_name_that_waits_says_so_at_the_start_and_other_settings_are_tried_at_once() {
    const WAITS: &str = "a name has no certificate and waits for the next attempt";
    let Some(world) = World::new(Options::default()) else { return };
    let https = world.pebble.https_port;
    world.pebble.dns("set-servfail", &serde_json::json!({"host": "a.example.com."})).expect("a name server");
    let config =
        |more: &str| format!("{}site \"https://a.example.com:{https}\" {{ respond 200 body=\"a\"; }}\n", world.head(more));
    let mut proxy = start(&config(""));
    let state = proxy.places.folder().join("state").display().to_string();
    proxy.wait_for_metric("tidegate_obtained_certificates{state=\"failing\"}", 1.0).expect("a failure");
    // Each failure doubles the wait: one that is over while this runs would show nothing.
    until("a wait of some minutes", || {
        let said = called(&proxy, &["cert", "renew", "a.example.com"]);
        let listed: serde_json::Value = serde_json::from_str(&certificates(&proxy)).map_err(|error| error.to_string())?;
        let all = listed["certificates"].as_array().ok_or("no list")?;
        let failures = all.iter().find_map(|one| one["obtained"]["failures_in_a_row"].as_u64());
        if failures >= Some(4) { Ok(()) } else { Err(format!("{failures:?} failures: {said}")) }
    });
    world.pebble.dns("clear-servfail", &serde_json::json!({"host": "a.example.com."})).expect("a name server");

    let orders = world.pebble.orders();
    restart(&mut proxy, &state);
    proxy.wait_for_log(WAITS).expect("a line of the log");
    let line = proxy.program.stderr().lines().find(|line| line.contains(WAITS)).unwrap_or_default().to_owned();
    assert!(line.contains("a.example.com") && line.contains("next_attempt_at"), "{line}");
    assert_eq!(world.pebble.orders(), orders, "it waits");

    proxy.write(&config("challenges \"tls-alpn-01\"")).expect("written");
    restart(&mut proxy, &state);
    let client = world.client();
    until("a certificate", || fetch(world.https(), &client, "a.example.com"));
    assert!(!proxy.program.stderr().contains(WAITS), "{}", proxy.program.stderr());
}

#[test]
fn a_certificate_that_its_ca_has_revoked_is_replaced_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Arc::new(ResponderAuthority::for_another(folder.path(), "responder").expect("a folder"));
    let responder = Responder::start(Manner::RevokesFirst(authority.clone())).expect("a responder");
    let Some(world) = World::new(Options { responder: Some(responder.url.clone()), ..Options::default() }) else { return };
    authority.adopt(&world.managed("intermediates/0"), &world.managed("intermediate-keys/0")).expect("files");
    let https = world.pebble.https_port;
    let mut proxy = start(&format!("{}site \"https://a.example.com:{https}\" {{ respond 200 body=\"a\"; }}\n", world.head("")));
    proxy.wait_for_log("the certificate is revoked").expect("the responder's word");
    until("another certificate", || match world.pebble.issued() {
        2 => Ok(()),
        count => Err(format!("{count} were issued: {}", proxy.program.stderr())),
    });
    let client = world.client();
    until("the new one", || fetch(world.https(), &client, "a.example.com").map(|_| ()));
    for (state, count) in [("stapled", 1.0), ("revoked", 0.0)] {
        proxy.wait_for_metric(&format!("tidegate_ocsp_certificates{{state=\"{state}\"}}"), count).expect("a metric");
    }
    let listed = called(&proxy, &["cert", "list"]);
    assert!(listed.contains("ready") && !listed.contains("revoked"), "{listed}");
    assert_eq!(world.pebble.orders(), 2);
}
