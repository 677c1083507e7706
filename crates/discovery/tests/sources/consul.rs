//! Consul's blocking queries.

use crate::followed::{Followed, until};
use std::path::Path;
use tidegate_model::discover::ConsulDiscover;
use tidegate_model::{Discover, Secret};
use tidegate_testkit::consul::{Consul, Instance};

fn discover(consul: &Consul) -> ConsulDiscover {
    ConsulDiscover {
        service: "web".into(),
        agent: format!("http://{}", consul.address),
        tag: None,
        datacenter: None,
        token: None,
    }
}

fn follow(discover: ConsulDiscover) -> Followed {
    Followed::new(Discover::Consul(discover), Path::new("/"))
}

fn consul() -> Consul {
    Consul::start("web").expect("an agent")
}

#[test]
fn instances_are_told_as_they_change() {
    let consul = consul();
    let heavy = Instance { weight: 10, ..Instance::new("w2", "10.0.0.2", 81) };
    consul.set_instances(&[Instance::new("w1", "", 80), heavy]);
    let followed = follow(discover(&consul));
    followed.expect("10.0.0.2:81 *10, 127.0.0.1:80");
    until("a question waits", || consul.targets().len() == 2);
    assert_eq!(consul.targets(), ["/v1/health/service/web?passing=1", "/v1/health/service/web?passing=1&index=11&wait=55s"]);
    consul.set_instances(&[Instance::new("w1", "", 80)]);
    followed.expect("127.0.0.1:80");
    // The index moves with every change of the service, and this one is of no interest.
    consul.set_instances(&[Instance::new("w9", "", 80)]);
    until("it is asked again", || consul.targets().len() >= 4);
    consul.set_instances(&[]);
    followed.expect("nobody");
}

#[test]
fn tags_datacenters_and_tokens_are_passed_on() {
    let consul = consul();
    consul.set_token(Some("secret"));
    let tagged = Instance { tags: vec!["v 2".into()], ..Instance::new("w2", "10.0.0.2", 80) };
    consul.set_instances(&[Instance::new("w1", "10.0.0.1", 80), tagged]);
    let refused = follow(discover(&consul));
    let address = consul.address;
    refused.expect(&format!(
        "fault the Consul agent {address} answers 403 Permission denied; set `token=` to one that may read the service web"
    ));
    let asking = ConsulDiscover {
        tag: Some("v 2".into()),
        datacenter: Some("dc1".into()),
        token: Some(Secret::new("secret")),
        ..discover(&consul)
    };
    follow(asking).expect("10.0.0.2:80");
    assert!(consul.targets().contains(&"/v1/health/service/web?passing=1&tag=v%202&dc=dc1".to_owned()));
}

#[test]
fn an_index_that_goes_backwards_is_not_waited_on() {
    let consul = consul();
    consul.set_index(1000);
    consul.set_instances(&[Instance::new("w1", "10.0.0.1", 80)]);
    let followed = follow(discover(&consul));
    followed.expect("10.0.0.1:80");
    until("a question waits", || consul.targets().len() == 2);
    consul.set_index(5);
    until("it is asked without an index", || consul.targets().iter().filter(|target| !target.contains("index")).count() == 2);
    consul.set_instances(&[Instance::new("w2", "10.0.0.2", 80)]);
    followed.expect("10.0.0.2:80");
}

#[test]
fn an_agent_in_trouble_takes_nobody_away() {
    let consul = consul();
    let address = consul.address;
    consul.set_instances(&[Instance::new("w1", "10.0.0.1", 80)]);
    let followed = follow(discover(&consul));
    followed.expect("10.0.0.1:80");
    consul.set_refusal(Some((500, "No cluster leader")));
    followed.expect(&format!(
        "fault the Consul agent {address} answers 500 No cluster leader; has the cluster a leader, and does the datacenter exist?"
    ));
    consul.set_refusal(Some((200, "{}")));
    followed.expect_fault_with("answers in a way that is not understood");
    consul.set_refusal(None);
    followed.expect("recovered");
}

#[test]
fn an_agent_that_cannot_be_asked_is_a_fault_with_a_remedy() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let followed = follow(ConsulDiscover { agent: format!("http://{free}"), ..discover(&consul()) });
    followed.expect_fault_with("start it, or name another with `agent=`");
    let followed = follow(ConsulDiscover { agent: "https://127.0.0.1:1".into(), ..discover(&consul()) });
    followed.expect_fault_with("asking over TLS is not supported");
}
