//! All containers of an engine with their labels, as those who read labels are told of them: from engines of every
//! version that is in use, and what can be wrong with an engine and its containers.

use serde_json::json;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tidegate_discovery::{ContainersTold, follow_containers};
use tidegate_model::{Container as Told, ContainerSource, LabelDialect};
use tidegate_testkit::docker::{Container, Docker, ENGINES};
use tidegate_testkit::tokio;

/// For anything that has to happen; the machine may be busy.
const SOON: Duration = Duration::from_secs(40);

struct Following {
    told: Receiver<ContainersTold>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the follower has panicked");
    }
}

fn source(socket: PathBuf, dialects: &[LabelDialect]) -> ContainerSource {
    ContainerSource { socket: Some(socket), network: None, dialects: dialects.to_vec(), swarm: false }
}

fn follow(source: ContainerSource) -> Following {
    let (sender, told) = channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                never = follow_containers(source, |news| drop(sender.send(news))) => match never {},
                _ = stopped => {}
            }
        });
    });
    Following { told, stop: Some(stop), thread: Some(thread) }
}

/// `web-1 of shop/web at 10.0.0.2:80 serving`
fn shown(container: &Told) -> String {
    let ports: Vec<String> = container.ports.iter().map(u16::to_string).collect();
    let address = container.address.as_ref().map_or_else(ToString::to_string, ToString::to_string);
    format!("{} of {} at {address}:{} {}", container.name, container.group, ports.join(","), container.stage.as_str())
}

impl Following {
    fn next(&self) -> ContainersTold {
        self.told.recv_timeout(SOON).unwrap_or_else(|error| panic!("nothing is told: {error}"))
    }

    /// Reads until these are the containers.
    #[track_caller]
    fn expect(&self, expected: &[&str]) {
        let mut seen = Vec::new();
        loop {
            match self.told.recv_timeout(SOON) {
                Ok(ContainersTold::Listed(containers)) => {
                    seen = containers.iter().map(shown).collect();
                    if seen == expected {
                        return;
                    }
                }
                Ok(_) => {}
                Err(error) => panic!("{expected:?} is not told, but {seen:?}: {error}"),
            }
        }
    }
}

fn web(id: &str, port: u16) -> Container {
    Container::plain(id, port).with_label("tidegate.site", "a.test")
}

#[test]
fn every_engine_tells_a_container_from_start_to_end() {
    for engine in ENGINES {
        let docker = Docker::start_as(*engine).expect("an engine");
        let following = follow(source(docker.socket(), &[LabelDialect::Tidegate]));
        let starting = format!("Up 1 second ({})", engine.starting);
        let with_health = |status: &str| web("web-1", 8080).of_project("shop", "web").with_status(status);
        docker.put(with_health(&starting), "start");
        docker.put(Container::plain("silent", 80), "start");
        following.expect(&["web-1 of shop/web at 127.0.0.1:8080 starting"]);
        docker.put(with_health("Up 9 seconds (healthy)"), "health_status: healthy");
        following.expect(&["web-1 of shop/web at 127.0.0.1:8080 serving"]);
        docker.put(with_health("Up 9 minutes (unhealthy)"), "health_status: unhealthy");
        following.expect(&["web-1 of shop/web at 127.0.0.1:8080 unhealthy"]);
        docker.put(with_health("Up 10 minutes (healthy)"), "health_status: healthy");
        following.expect(&["web-1 of shop/web at 127.0.0.1:8080 serving"]);
        docker.tell("web-1", "kill", &[("signal", "15")]);
        following.expect(&["web-1 of shop/web at 127.0.0.1:8080 leaving"]);
        docker.remove("web-1");
        following.expect(&["web-1 of shop/web at 127.0.0.1:8080 gone"]);
    }
}

#[test]
fn containers_are_found_wherever_they_are() {
    let docker = Docker::start().expect("an engine");
    let host = |id: &str| web(id, 80);
    let none = Container { network_mode: "none".into(), ..web("none", 80) };
    let lent = Container { network_mode: "container:c-host".into(), ..web("lent", 90) };
    let lost = Container { network_mode: "container:nobody".into(), ..web("lost", 90) };
    let ipv6 = web("six", 80).with_network("v6", "::1", 128);
    let paused = Container { state: "paused".into(), ..web("paused", 80).with_status("Up 1 minute (Paused)") };
    let again = Container { state: "restarting".into(), ..web("again", 80).with_status("Restarting (1) 2 seconds ago") };
    docker.put(host("c-host"), "start");
    for container in [none, lent, lost, ipv6, paused, again] {
        docker.put(container, "start");
    }
    let following = follow(source(docker.socket(), &[LabelDialect::Tidegate]));
    let ContainersTold::Listed(containers) = following.next() else { panic!("a list comes first") };
    let seen: Vec<String> = containers.iter().map(shown).collect();
    let expected = [
        "again of again at 127.0.0.1:80 restarting",
        "c-host of c-host at 127.0.0.1:80 serving",
        "lent of lent at 127.0.0.1:90 serving",
        "lost of lost at it uses the network of the container nobody, which does not run:90 serving",
        "none of none at it is in no network; `docker network connect` puts it into one:80 serving",
        "paused of paused at 127.0.0.1:80 paused",
        "six of six at it cannot be reached",
    ];
    for (seen, expected) in seen.iter().zip(expected) {
        // An address of IPv6 is told, or why it is not.
        let is_six = expected.starts_with("six") && seen.starts_with("six of six at ");
        assert!(seen == expected || is_six, "{seen} is not {expected}");
    }
    assert_eq!(seen.len(), expected.len());
    // Another name is another container of that group.
    docker.put(Container { name: "renamed".into(), ..host("c-host") }, "rename");
    let told = following.next();
    let ContainersTold::Listed(containers) = told else { panic!("{told:?} is no list") };
    assert!(containers.iter().any(|container| container.name == "renamed" && container.group == "renamed"));
}

#[test]
fn a_proxy_of_the_socket_has_to_let_little_through() {
    let docker = Docker::start().expect("an engine");
    docker.forbid("/info");
    docker.forbid("/version");
    docker.forbid("/_ping");
    docker.forbid("/images");
    docker.put(web("web", 80), "start");
    let following = follow(source(docker.socket(), &[LabelDialect::Tidegate]));
    following.expect(&["web of web at 127.0.0.1:80 serving"]);
}

#[test]
fn an_engine_that_is_restarted_amid_events_is_listed_again() {
    let docker = Docker::start().expect("an engine");
    docker.put(web("a", 80), "start");
    let following = follow(source(docker.socket(), &[LabelDialect::Tidegate]));
    following.expect(&["a of a at 127.0.0.1:80 serving"]);
    for round in 0..20 {
        docker.put(web(&format!("b{round}"), 81), "start");
    }
    docker.stop().expect("it ends");
    docker.change_silently(|containers| containers.retain(|container| container.id == "b19"));
    docker.listen().expect("it begins");
    loop {
        if let ContainersTold::Listed(containers) = following.next()
            && containers.iter().any(|container| container.name == "b19")
            && containers.iter().filter(|container| container.stage.as_str() == "serving").count() == 1
        {
            break;
        }
    }
}

#[test]
fn variables_are_asked_for_where_they_are_read() {
    let docker = Docker::start().expect("an engine");
    let environment = ["PATH=/bin", "VIRTUAL_HOST=a.test", "SECRET=x"].map(str::to_owned).to_vec();
    docker.put(Container { environment, ..Container::plain("web", 80) }, "start");
    let following = follow(source(docker.socket(), &[LabelDialect::NginxProxy]));
    let ContainersTold::Listed(containers) = following.next() else { panic!("a list comes first") };
    let variables: Vec<(&str, &str)> = containers[0].variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(variables, [("VIRTUAL_HOST", "a.test")], "and no other variable is kept");
}

#[test]
fn services_of_a_swarm_are_told_by_their_tasks() {
    let docker = Docker::start().expect("an engine");
    let swarm =
        ContainerSource { network: Some("web".into()), swarm: true, ..source(docker.socket(), &[LabelDialect::Tidegate]) };
    let following = follow(swarm);
    let ContainersTold::Fault(fault) = following.next() else { panic!("it is no manager") };
    assert!(
        fault.to_string().ends_with("This node is not a swarm manager.; `swarm=#true` needs the socket of a manager"),
        "{fault}"
    );
    let service = json!({"ID": "s1", "Spec": {"Name": "shop_web", "Labels": {"com.docker.stack.namespace": "shop", "tidegate.site": "a.test"}}});
    let task = |id: &str, slot: u64, state: &str| {
        let network = json!({"Network": {"Spec": {"Name": "web"}}, "Addresses": [format!("10.0.1.{slot}/24")]});
        json!({"ID": id, "ServiceID": "s1", "Slot": slot, "DesiredState": "running", "Status": {"State": state}, "NetworksAttachments": [network]})
    };
    docker.set_swarm(json!([service]), json!([task("t1", 1, "running"), task("t2", 2, "starting")]));
    following.expect(&["shop_web.1 of shop/web at 10.0.1.1: serving", "shop_web.2 of shop/web at 10.0.1.2: starting"]);
    docker.set_swarm(json!([service]), json!([task("t2", 2, "running")]));
    following.expect(&["shop_web.1 of shop/web at 10.0.1.1: gone", "shop_web.2 of shop/web at 10.0.1.2: serving"]);
}

#[test]
fn a_storm_of_events_costs_few_lists() {
    let docker = Docker::start().expect("an engine");
    docker.put(web("c", 80), "start");
    let following = follow(source(docker.socket(), &[LabelDialect::Tidegate]));
    following.expect(&["c of c at 127.0.0.1:80 serving"]);
    let before = docker.lists();
    for number in 0..1000 {
        docker.put(web(&format!("c{number}"), 80), "start");
    }
    loop {
        if let ContainersTold::Listed(containers) = following.next()
            && containers.len() == 1001
        {
            break;
        }
    }
    let lists = docker.lists() - before;
    assert!(lists <= 100, "{lists} lists for 1000 containers");
}
