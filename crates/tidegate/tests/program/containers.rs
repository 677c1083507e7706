//! Containers that say by their labels what they serve, from an emulated engine with processes behind it. What labels
//! mean and may not say is tested beside their reader in the crate `config`.

use crate::pools::asked::{Asked, HOST, Reply};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_testkit::docker::{Container, Docker};
use tidegate_testkit::server::{Server, Settings};
use tidegate_testkit::unanswered::Unanswered;

fn start(name: &str) -> Server {
    Server::start(Settings::new(name)).expect("it starts")
}

/// A proxy with one site of its own and this engine.
fn proxy(docker: &Docker, settings: &str) -> Asked {
    let socket = docker.socket();
    Asked::start(&format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\nsite \"http://own.test:{{port}}\" {{ respond 200 body=\"own\" }}\ndocker socket=\"{}\" {settings}\n",
        socket.display()
    ))
}

fn web(id: &str, server: &Server, asked: &Asked) -> Container {
    Container::plain(id, server.address().port())
        .with_label("tidegate.site", &format!("http://{HOST}:{}", asked.proxy.address.port()))
        .of_project("shop", "web")
}

fn generation(asked: &Asked) -> u64 {
    asked.metric("tidegate_configuration_generation") as u64
}

fn says(reply: &Reply, name: &str) -> bool {
    reply.status == 200 && reply.text() == name
}

#[test]
fn a_label_is_a_site_from_start_to_end() {
    let docker = Docker::start().expect("an engine");
    let (first, second) = (start("first"), start("second"));
    let asked = proxy(&docker, "");
    assert_eq!(asked.get("/").status, 421);
    let before = generation(&asked);
    docker.put(web("web-1", &first, &asked), "start");
    asked.wait_for("the container", |reply| says(reply, "first"));
    assert_eq!(generation(&asked), before + 1, "{}", asked.status());
    // One more of the same is no change of the configuration.
    docker.put(web("web-2", &second, &asked).created(1), "start");
    asked.wait_for("the other", |reply| says(reply, "second"));
    asked.expect_from(40, &["first", "second"]);
    assert_eq!(generation(&asked), before + 1, "{}", asked.status());
    docker.tell("web-1", "kill", &[("signal", "15")]);
    docker.remove("web-1");
    asked.wait_for_metric(&format!("tidegate_upstream_server_state{{server=\"{}\"}}", first.address()), 0.0);
    asked.expect_from(20, &["second"]);
    let page = asked.status();
    assert!(page.contains("1 gone, 1 serving"), "{page}");
    asked.wait_for_metric("tidegate_containers{stage=\"serving\"}", 1.0);
    asked.wait_for_metric("tidegate_containers{stage=\"gone\"}", 1.0);
}

#[test]
fn what_runs_at_the_start_is_served_with_the_first_request() {
    let docker = Docker::start().expect("an engine");
    let server = start("there");
    let mut asked = proxy(&docker, "");
    docker.put(web("web-1", &server, &asked), "start");
    asked.wait_for("the container", |reply| says(reply, "there"));
    asked.proxy.restart(crate::pools::asked::PROGRAM).expect("it starts again");
    asked.expect_text("there");
}

#[test]
fn a_container_that_starts_is_waited_for_and_then_refused_by_name() {
    let docker = Docker::start().expect("an engine");
    let server = start("slow");
    let asked = proxy(&docker, "");
    let starting = web("web-1", &server, &asked)
        .with_status("Up 1 second (health: starting)")
        .with_label("tidegate.config", "proxy { retry \"off\"; }");
    docker.put(starting.clone(), "start");
    asked.wait_for("a refusal", |reply| reply.status == 503);
    let reply = asked.get("/");
    assert!(reply.text().contains("containers_not_ready"), "{}", reply.text());
    assert_eq!(reply.head.value("retry-after").as_deref(), Some(&b"1"[..]), "{:?}", reply.head);
    docker.put(starting.with_status("Up 9 seconds (healthy)"), "health_status: healthy");
    asked.wait_for("the container", |reply| says(reply, "slow"));
}

#[test]
fn a_replacement_loses_no_request() {
    let docker = Docker::start().expect("an engine");
    let (old, new) = (start("old"), start("new"));
    let asked = proxy(&docker, "");
    docker.put(web("web-1", &old, &asked), "start");
    asked.wait_for("the container", |reply| says(reply, "old"));
    let is_over = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        let ask = || {
            let mut answers = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let reply = asked.get("/");
                answers.push((reply.status, reply.text()));
            }
            answers
        };
        let clients = [scope.spawn(ask), scope.spawn(ask)];
        // As compose does it: the old one is stopped and removed before the new one starts.
        docker.tell("web-1", "kill", &[("signal", "15")]);
        docker.remove("web-1");
        std::thread::sleep(Duration::from_secs(1));
        docker.put(web("web-2", &new, &asked).created(9), "start");
        asked.wait_for("the new container", |reply| says(reply, "new"));
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().expect("it ends")).collect::<Vec<_>>()
    });
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}\n{}", asked.proxy.program.output());
    assert!(answers.iter().any(|(_, name)| name == "new"), "{answers:?}");
}

/// A container at whose address nobody answers, as at that of one that has just gone.
fn vanished(id: &str, at: &Unanswered, asked: &Asked) -> Container {
    Container::plain(id, at.port())
        .with_label("tidegate.site", &format!("http://{HOST}:{}", asked.proxy.address.port()))
        .of_project("shop", "web")
}

/// Requests that are on their way to the container, and what they are answered with once it is gone and that has
/// happened.
fn asked_while_it_goes(docker: &Docker, asked: &Asked, at: &Unanswered, happens: impl FnOnce()) -> Vec<(u16, String)> {
    std::thread::scope(|scope| {
        let ask = || {
            let reply = asked.get("/");
            (reply.status, reply.text())
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        asked.wait_for_metric(&format!("tidegate_upstream_server_requests_total{{server=\"127.0.0.1:{}\"}}", at.port()), 4.0);
        docker.tell("old", "kill", &[("signal", "15")]);
        docker.remove("old");
        happens();
        clients.into_iter().map(|client| client.join().expect("it ends")).collect()
    })
}

/// A connection would be waited for longer than any test is.
const PATIENT: &str = "proxy { timeout connect=\"90s\"; }";

#[test]
fn nobody_waits_for_a_container_that_is_gone() {
    let docker = Docker::start().expect("an engine");
    let (nobody, new) = (Unanswered::new().expect("a socket"), start("new"));
    let asked = proxy(&docker, "");
    docker.put(vanished("old", &nobody, &asked).with_label("tidegate.config", PATIENT), "start");
    asked.wait_for_metric("tidegate_containers{stage=\"serving\"}", 1.0);
    let answers = asked_while_it_goes(&docker, &asked, &nobody, || {
        docker.put(web("new", &new, &asked).with_label("tidegate.config", PATIENT).created(9), "start");
    });
    assert!(
        answers.iter().all(|(status, text)| *status == 200 && text == "new"),
        "{answers:?}\n{}",
        asked.proxy.program.output()
    );
}

#[test]
fn who_was_on_the_way_to_a_container_that_is_gone_goes_to_another_or_hears_why_not() {
    const OFF: &str = "proxy { timeout connect=\"90s\"; retry \"off\"; }";
    let docker = Docker::start().expect("an engine");
    let nobody = Unanswered::new().expect("a socket");
    let asked = proxy(&docker, "");
    docker.put(vanished("old", &nobody, &asked).with_label("tidegate.config", OFF), "start");
    asked.wait_for_metric("tidegate_containers{stage=\"serving\"}", 1.0);
    let answers = asked_while_it_goes(&docker, &asked, &nobody, || {});
    let refused = |(status, text): &(u16, String)| *status == 503 && text.contains("containers_not_ready");
    assert!(answers.iter().all(refused), "{answers:?}\n{}", asked.proxy.program.output());
}

#[test]
fn a_connection_that_is_passed_on_leaves_a_container_that_is_gone_as_well() {
    use std::io::{Read, Write};
    let docker = Docker::start().expect("an engine");
    let (nobody, new) = (Unanswered::new().expect("a socket"), start("new"));
    let mut asked = Asked::start(&format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nthreads 2\nsite \"http://own.test:{{port}}\" {{ respond 200; }}\ndocker socket=\"{}\"\ntcp \":{{port:tcp}}\" {{ proxy \"db\"; }}\npool \"db\" {{ discover container=\"shop/db\"; timeout connect=\"90s\"; retry \"wait\" for=\"60s\"; }}\n",
        docker.socket().display()
    ));
    let address = asked.proxy.places.fill("127.0.0.1:{port:tcp}").expect("a port");
    let db = |id: &str, port: u16| Container::plain(id, port).of_project("shop", "db").with_label("tidegate.weight", "1");
    let asked = &asked;
    docker.put(db("old", nobody.port()), "start");
    asked.wait_for_metric("tidegate_containers{stage=\"serving\"}", 1.0);
    let answer = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
            let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("it takes it");
            let mut answer = Vec::new();
            stream.set_read_timeout(Some(Duration::from_secs(80))).expect("a limit");
            stream.read_to_end(&mut answer).expect("an answer");
            String::from_utf8_lossy(&answer).into_owned()
        });
        let series = format!("tidegate_upstream_server_requests_total{{server=\"127.0.0.1:{}\"}}", nobody.port());
        asked.wait_for_metric(&series, 1.0);
        docker.remove("old");
        docker.put(db("new", new.address().port()).created(9), "start");
        client.join().expect("it ends")
    });
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("new"), "{answer}\n{}", asked.proxy.program.output());
}

#[test]
fn a_burst_is_one_generation() {
    let docker = Docker::start().expect("an engine");
    let server = start("one");
    let asked = proxy(&docker, "");
    let before = generation(&asked);
    let port = asked.proxy.address.port();
    for number in 0..200 {
        let one = Container::plain(&format!("c{number}"), server.address().port());
        docker.put(one.with_label("tidegate.site", &format!("http://c{number}.test:{port}")), "start");
    }
    docker.put(web("web-1", &server, &asked), "start");
    asked.wait_for("the last of them", |reply| says(reply, "one"));
    let changes = generation(&asked) - before;
    // A window that began with the first of them may have closed before the last was there.
    assert!(changes <= 3, "{changes} generations");
    assert!(asked.status().contains("201 serving"), "{}", asked.status());
}

#[test]
fn what_is_wrong_is_in_the_status_and_serves_nothing_half() {
    let docker = Docker::start().expect("an engine");
    let server = start("good");
    let asked = proxy(&docker, "");
    let port = asked.proxy.address.port();
    let bad = Container::plain("bad", server.address().port());
    let bad =
        bad.with_label("tidegate.site", &format!("http://bad.test:{port}")).with_label("tidegate.config", "allwo \"10.0.0.0/8\"");
    docker.put(bad.clone(), "start");
    let thief = Container::plain("thief", server.address().port()).created(9);
    docker.put(thief.with_label("tidegate.site", &format!("http://own.test:{port}")), "start");
    docker.put(web("web-1", &server, &asked), "start");
    asked.wait_for("the good one", |reply| says(reply, "good"));
    let page = asked.status();
    assert!(page.contains("2 NOT SERVED, 1 serving"), "{page}");
    assert!(page.contains("NOT SERVED: container bad, label tidegate.config:1:1: unknown word `allwo`"), "{page}");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("unknown word `allwo`; did you mean `allow`?"), "{page}");
    assert!(
        words.contains("container thief, label tidegate.site:1:1: the host `own.test` is that of a site of the file"),
        "{page}"
    );
    asked.wait_for_metric("tidegate_container_label_faults", 2.0);
    // What a start would find is said without one.
    let arguments = ["check", &asked.proxy.places.config_file().display().to_string()].map(str::to_owned);
    let program = std::path::Path::new(crate::pools::asked::PROGRAM);
    let mut command =
        tidegate_testkit::Program::start(program, &arguments, asked.proxy.places.folder(), None).expect("it starts");
    assert_eq!(command.wait_exit(Duration::from_secs(30)), Ok(0), "{}", command.output());
    let said = command.output();
    assert!(said.contains("NOT SERVED: container bad, label tidegate.config:1:1: unknown word `allwo`"), "{said}");
    assert!(said.contains("the configuration is valid, and 2 labels are NOT SERVED as they say"), "{said}");
    assert!(said.contains(":5:1") && !said.contains(":1:1\n"), "what is said of containers is said of `docker`: {said}");
    docker.put(bad.with_label("tidegate.config", "allow \"10.0.0.0/8\""), "update");
    asked.wait_for_metric("tidegate_configuration_generation", 3.0);
    let page = asked.status();
    assert!(!page.contains("container bad,"), "{page}");
}

#[test]
fn a_refused_router_is_not_open_by_a_wider_one() {
    let docker = Docker::start().expect("an engine");
    let server = start("blog");
    let asked = proxy(&docker, "labels=\"traefik\" labels=\"tidegate\" { entry-point \"web\" {port}; }");
    let router = |container: Container, name: &str, rule: &str| {
        container
            .with_label(&format!("traefik.http.routers.{name}.rule"), &format!("Host(`{HOST}`){rule}"))
            .with_label(&format!("traefik.http.routers.{name}.entrypoints"), "web")
    };
    let port = server.address().port();
    let blog = router(Container::plain("blog", port).of_project("shop", "blog"), "blog", "");
    let blog = router(blog, "admin", " && PathPrefix(`/ghost`)");
    let blog = blog.with_label("traefik.http.services.blog.loadbalancer.server.port", &port.to_string());
    docker.put(blog.clone().with_label("traefik.http.routers.admin.middlewares", "auth@file"), "start");
    asked.wait_for("the blog", |reply| says(reply, "blog"));
    for path in ["/ghost", "/ghost/", "/ghost/x", "/ghosts", "/%67host/x", "//ghost", "/a/../ghost"] {
        let reply = asked.get(path);
        assert!(reply.status == 503 || reply.status == 400, "{path}: {} {}", reply.status, reply.text());
        assert!(!reply.text().contains("refused"), "{path}: {}", reply.text());
    }
    let page = asked.status();
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("`auth@file` stands in a file of Traefik, which is not read here"), "{page}");
    assert!(words.contains("which is served, is answered with 503; its requests are `router_refused/admin`"), "{page}");
    // A label of our own, on another container of the project.
    let other = Container::plain("other", port).of_project("shop", "other");
    let other = other.with_label("tidegate.site", &format!("http://{HOST}:{}", asked.proxy.address.port()));
    let other = other.with_label("tidegate.route", "/files/*").with_label("tidegate.config", "basic-auht; proxy");
    docker.put(other, "start");
    asked.wait_for_status("router_refused/other");
    assert_eq!(asked.get("/files/x").status, 503);
    // Mended, it is served again as it says.
    let users = "a:$2y$05$nJw8RzL0nBzLRMNsMNPGDOBTLJMKTYxrYtIUhKjr0HTRFCqYSyVoS";
    let mended = blog.with_label("traefik.http.routers.admin.middlewares", "auth");
    docker.put(mended.with_label("traefik.http.middlewares.auth.basicauth.users", users), "update");
    for _ in 0..100 {
        if asked.get("/ghost/x").status == 401 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(asked.get("/ghost/x").status, 401, "{}", asked.status());
    asked.expect_text("blog");
}

/// Traefik takes a `;` for a `&`, so that what a router asks for may stand behind one.
#[test]
fn queries_with_semicolons_come_past_no_router_that_asks_for_parameters() {
    let docker = Docker::start().expect("an engine");
    let server = start("blog");
    let asked = proxy(&docker, "labels=\"traefik\" { entry-point \"web\" {port}; }");
    let port = server.address().port();
    let users = "a:$2y$05$nJw8RzL0nBzLRMNsMNPGDOBTLJMKTYxrYtIUhKjr0HTRFCqYSyVoS";
    let router = |container: Container, name: &str, rule: &str| {
        container
            .with_label(&format!("traefik.http.routers.{name}.rule"), &format!("Host(`{HOST}`){rule}"))
            .with_label(&format!("traefik.http.routers.{name}.entrypoints"), "web")
    };
    let blog = router(Container::plain("blog", port).of_project("shop", "blog"), "blog", "");
    let blog = router(blog, "admin", " && PathPrefix(`/`) && Query(`admin`, `1`)");
    let blog = blog.with_label("traefik.http.services.blog.loadbalancer.server.port", &port.to_string());
    let blog = blog.with_label("traefik.http.routers.admin.middlewares", "auth");
    docker.put(blog.with_label("traefik.http.middlewares.auth.basicauth.users", users), "start");
    asked.wait_for("the blog", |reply| says(reply, "blog"));
    let statuses = ["/?admin=1", "/?x=1&admin=1", "/?x=1;admin=1", "/?admin=1;x=1", "/x?a;b", "/?admin=2", "/x"];
    let statuses = statuses.map(|path| (path, asked.get(path).status));
    let expected = [
        ("/?admin=1", 401),
        ("/?x=1&admin=1", 401),
        ("/?x=1;admin=1", 401),
        ("/?admin=1;x=1", 401),
        ("/x?a;b", 401),
        ("/?admin=2", 200),
        ("/x", 200),
    ];
    assert_eq!(statuses, expected, "{}", asked.status());
}

#[test]
fn an_engine_that_is_restarted_takes_nothing_away() {
    let docker = Docker::start().expect("an engine");
    let (first, second) = (start("first"), start("second"));
    let asked = proxy(&docker, "");
    docker.put(web("web-1", &first, &asked), "start");
    asked.wait_for("the container", |reply| says(reply, "first"));
    docker.stop().expect("it ends");
    asked.wait_for_status("FAULT: ");
    asked.expect_from(5, &["first"]);
    // What happens meanwhile is not told, and found all the same.
    docker.put(web("web-2", &second, &asked).created(1), "start");
    docker.listen().expect("it begins");
    asked.wait_for("the other", |reply| says(reply, "second"));
    assert!(!asked.status().contains("FAULT: "), "{}", asked.status());
}

#[test]
fn files_are_changed_and_gone_back_to_beside_containers() {
    let docker = Docker::start().expect("an engine");
    let server = start("web");
    let mut asked = proxy(&docker, "");
    docker.put(web("web-1", &server, &asked), "start");
    asked.wait_for("the container", |reply| says(reply, "web"));
    let text = std::fs::read_to_string(asked.proxy.places.config_file()).expect("a file");
    asked.proxy.apply(&text.replace("body=\"own\"", "body=\"other\"")).expect("it is applied");
    asked.expect_text("web");
    let other = Container::plain("b", server.address().port());
    let before = generation(&asked);
    docker.put(other.with_label("tidegate.site", &format!("http://b.test:{}", asked.proxy.address.port())), "start");
    asked.wait_for_metric("tidegate_configuration_generation", (before + 1) as f64);
    // Back to the files of before, and not to the labels of before.
    let arguments = ["rollback", "--admin", &asked.proxy.admin].map(str::to_owned);
    let folder = asked.proxy.places.folder().to_owned();
    let program = std::path::Path::new(crate::pools::asked::PROGRAM);
    let mut command = tidegate_testkit::Program::start(program, &arguments, &folder, None).expect("it starts");
    assert_eq!(command.wait_exit(Duration::from_secs(30)), Ok(0), "{}", command.output());
    asked.expect_text("web");
    let page = asked.status();
    assert!(page.contains("2 serving"), "{page}");
    // Without `docker` labels mean nothing.
    asked.proxy.apply(text.split("docker socket").next().expect("the rest")).expect("it is applied");
    assert_eq!(asked.get("/").status, 421);
}
