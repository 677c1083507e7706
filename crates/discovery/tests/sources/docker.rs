//! Docker's API on a unix socket.

use crate::followed::{Followed, until};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_model::Discover;
use tidegate_model::discover::DockerDiscover;
use tidegate_testkit::docker::{Container, Docker};

fn docker() -> Docker {
    Docker::start().expect("an engine")
}

fn discover(socket: PathBuf) -> DockerDiscover {
    DockerDiscover { label: "web".into(), socket: Some(socket), network: None, port: None }
}

fn follow(discover: DockerDiscover) -> Followed {
    Followed::new(Discover::Docker(discover), Path::new("/"))
}

/// On this host's own network, as all that are reached without an engine's networks.
fn web(id: &str, port: u16) -> Container {
    Container::new(id, "web", port)
}

#[test]
fn containers_are_servers_from_start_to_end() {
    let docker = docker();
    docker.put(web("c1", 8001).with_label("tidegate.weight", "3").with_label("tidegate.zone", "a"), "start");
    docker.put(Container::new("x", "other", 8002), "start");
    let followed = follow(discover(docker.socket()));
    followed.expect("127.0.0.1:8001 *3 in a");
    docker.put(web("c2", 8003), "start");
    followed.expect("127.0.0.1:8001 *3 in a, 127.0.0.1:8003");
    docker.remove("c1");
    followed.expect("127.0.0.1:8003");
}

#[test]
fn who_is_told_to_stop_leaves_first() {
    let docker = docker();
    docker.put(web("c1", 8001), "start");
    docker.put(web("c2", 8002), "start");
    let followed = follow(discover(docker.socket()));
    followed.expect("127.0.0.1:8001, 127.0.0.1:8002");
    // A reload is no end.
    docker.tell("c2", "kill", &[("signal", "1")]);
    docker.tell("c1", "kill", &[("signal", "15")]);
    followed.expect("127.0.0.1:8001 leaving, 127.0.0.1:8002");
    docker.remove("c1");
    followed.expect("127.0.0.1:8002");
    // The same container, started again.
    docker.put(web("c1", 8001), "start");
    followed.expect("127.0.0.1:8001, 127.0.0.1:8002");
}

#[test]
fn health_and_pauses_take_a_container_out() {
    let docker = docker();
    let with_status = |status: &str| Container { status: status.into(), ..web("c1", 8001) };
    docker.put(with_status("Up 1 second (health: starting)"), "start");
    let followed = follow(discover(docker.socket()));
    followed.expect("nobody");
    docker.put(with_status("Up 9 seconds (healthy)"), "health_status: healthy");
    followed.expect("127.0.0.1:8001");
    docker.put(with_status("Up 1 minute (unhealthy)"), "health_status: unhealthy");
    followed.expect("nobody");
    docker.put(with_status("Up 2 minutes (healthy)"), "health_status: healthy");
    followed.expect("127.0.0.1:8001");
    docker.put(Container { state: "paused".into(), status: "Up 2 minutes (Paused)".into(), ..web("c1", 8001) }, "pause");
    followed.expect("nobody");
}

#[test]
fn events_of_others_cost_no_list() {
    let docker = docker();
    docker.put(web("c1", 8001), "start");
    let followed = follow(discover(docker.socket()));
    followed.expect("127.0.0.1:8001");
    let lists = docker.lists();
    for number in 0..10 {
        docker.put(Container::new(&format!("x{number}"), "other", 1), "start");
        // Longer than events are gathered, so each would lead to a list.
        std::thread::sleep(Duration::from_millis(60));
    }
    docker.put(web("c2", 8002), "start");
    followed.expect("127.0.0.1:8001, 127.0.0.1:8002");
    // One for the event, and one more where this took half a minute.
    assert!(docker.lists() - lists <= 2, "{} lists", docker.lists() - lists);
}

#[test]
fn the_address_is_that_of_a_network_that_can_be_reached() {
    let docker = docker();
    // Of two networks, only the second has an address of this machine in it.
    docker.put(web("c1", 80).with_network("a", "203.0.113.2", 24).with_network("b", "127.0.0.9", 8), "start");
    docker.put(web("c2", 80).with_network("asked", "127.0.0.10", 0), "start");
    docker.set_subnet("asked", "127.0.0.0/8");
    let followed = follow(discover(docker.socket()));
    followed.expect("127.0.0.10:80, 127.0.0.9:80");
    docker.put(web("c1", 80).with_network("a", "203.0.113.2", 24), "disconnect");
    docker.tell("c1", "die", &[]);
    followed.expect("127.0.0.10:80");
    followed.expect(
        "remark container c1: it cannot be reached: this process is in none of its networks (a); run `docker network connect a <this container>`, \
         or set `network=`",
    );
    let named = follow(DockerDiscover { network: Some("a".into()), ..discover(docker.socket()) });
    named.expect("203.0.113.2:80");
    named.expect("remark container c2: it is not in the network a; run `docker network connect a c2`");
}

#[test]
fn the_port_is_the_only_one_or_said() {
    let docker = docker();
    docker.put(Container { ports: vec![80, 443], ..web("c1", 0) }, "start");
    let followed = follow(discover(docker.socket()));
    followed.expect("nobody");
    followed.expect("remark container c1: it exposes the ports 80, 443; say which one with the label tidegate.port");
    docker.put(Container { ports: vec![80, 443], ..web("c1", 0) }.with_label("tidegate.port", "443"), "start");
    followed.expect("127.0.0.1:443");
    followed.expect("recovered");
}

#[test]
fn ports_that_are_not_listed_are_inspected() {
    let docker = docker();
    docker.set_listed_ports(false);
    docker.put(web("c1", 8001), "start");
    let followed = follow(discover(docker.socket()));
    followed.expect("127.0.0.1:8001");
}

#[test]
fn an_engine_that_restarts_takes_nobody_away() {
    let docker = docker();
    docker.put(web("c1", 8001), "start");
    let followed = follow(discover(docker.socket()));
    followed.expect("127.0.0.1:8001");
    docker.stop().expect("stopped");
    followed.expect_fault_with("the engine at");
    docker.listen().expect("listening");
    followed.expect_at_last("recovered");
    docker.put(web("c2", 8002), "start");
    followed.expect("127.0.0.1:8001, 127.0.0.1:8002");
}

#[test]
fn faults_say_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("no.sock");
    let followed = follow(discover(socket.clone()));
    followed.expect(&format!(
        "fault {} does not exist; start the engine, mount its socket, or name it with `socket=`",
        socket.display()
    ));
    let docker = docker();
    docker.set_refusal(Some((403, "{\"message\":\"Forbidden\"}")));
    let followed = follow(discover(docker.socket()));
    followed.expect(&format!(
        "fault the engine at {} answers GET /events with 403 Forbidden; a proxy in front of the socket has to let GET of containers, events \
         and networks through",
        docker.socket().display()
    ));
    docker.put(web("c1", 8001), "start");
    docker.set_refusal(None);
    followed.expect("127.0.0.1:8001");
    followed.expect("recovered");
}

#[test]
fn an_event_that_comes_while_listing_is_not_lost() {
    let docker = docker();
    let followed = follow(discover(docker.socket()));
    until("the stream is open", || docker.streams() == 1);
    docker.put(web("c1", 8001), "start");
    followed.expect_at_last("127.0.0.1:8001");
}
