//! What an answer of Consul means: instances as servers, and which index the next question waits on. Pure; it is given
//! bytes.

use crate::Endpoint;
use serde::Deserialize;
use tidegate_model::{Server, UpstreamAddress};

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Instance {
    node: Node,
    service: ConsulService,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Node {
    node: String,
    address: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ConsulService {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Address")]
    address: String,
    #[serde(rename = "Port")]
    port: i64,
    #[serde(rename = "Weights")]
    weights: Option<Weights>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Weights {
    passing: i64,
}

/// The instances that can be used, and what is wrong with the others.
pub fn read(body: &[u8]) -> Result<(Vec<Endpoint>, Vec<String>), String> {
    let strange = |error| format!("answers in a way that is not understood: {error}");
    let instances: Vec<Instance> = serde_json::from_slice(body).map_err(strange)?;
    let mut endpoints = Vec::new();
    let mut faults = Vec::new();
    for instance in instances {
        match server(&instance) {
            Ok(server) => endpoints.push(Endpoint { server, addresses: Vec::new(), is_leaving: false }),
            Err(message) => {
                let Instance { node, service } = &instance;
                faults.push(format!("the instance {} on {} is left out: {message}", service.id, node.node));
            }
        }
    }
    Ok((endpoints, faults))
}

fn server(instance: &Instance) -> Result<Server, String> {
    let Instance { node, service } = instance;
    let host = if service.address.is_empty() { &node.address } else { &service.address };
    let port = service.port;
    if !(1..=65535).contains(&port) {
        return Err("it is registered without a port".into());
    }
    let written = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let address = UpstreamAddress::parse(&format!("http://{written}"))?;
    let weight = service.weights.as_ref().map_or(1, |weights| weights.passing).clamp(1, Server::WEIGHT_MAX.into());
    Ok(Server { weight: weight as u32, ..Server::new(address) })
}

/// An index that goes backwards, as after a restored snapshot, would be waited on for ever: the next question is then
/// one that does not wait. Zero is no index.
pub fn next_index(before: u64, now: u64) -> u64 {
    if now < before { 0 } else { now }
}

#[cfg(test)]
mod tests {
    use super::{next_index, read};
    use serde_json::{Value, json};

    fn check(instances: Value, expected: &str) {
        let seen = match read(instances.to_string().as_bytes()) {
            Ok((endpoints, faults)) => {
                let endpoints =
                    endpoints.iter().map(|endpoint| format!("{} *{}", endpoint.server.address, endpoint.server.weight));
                endpoints.chain(faults).collect::<Vec<_>>().join(" | ")
            }
            Err(message) => message,
        };
        assert_eq!(seen, expected, "for {instances}");
    }

    fn instance(address: &str, port: i64, passing: i64) -> Value {
        json!({
            "Node": {"Node": "n1", "Address": "10.0.0.9", "Datacenter": "dc1"},
            "Service": {"ID": "web-1", "Address": address, "Port": port, "Weights": {"Passing": passing, "Warning": 1}},
            "Checks": [],
        })
    }

    #[test]
    fn instances_are_servers() {
        check(json!([]), "");
        check(json!([instance("10.0.0.1", 80, 1), instance("", 81, 10)]), "10.0.0.1:80 *1 | 10.0.0.9:81 *10");
        check(json!([instance("web.internal", 80, 1), instance("fd00::1", 80, 1)]), "web.internal:80 *1 | [fd00::1]:80 *1");
        check(json!([instance("10.0.0.1", 80, 0), instance("10.0.0.2", 80, 65535)]), "10.0.0.1:80 *1 | 10.0.0.2:80 *256");
        check(json!([{"Node": {"Address": "10.0.0.1"}, "Service": {"Port": 80, "Weights": null}}]), "10.0.0.1:80 *1");
    }

    #[test]
    fn an_instance_that_cannot_be_used_is_told_of() {
        check(
            json!([instance("10.0.0.1", 0, 1), instance("10.0.0.2", 80, 1)]),
            "10.0.0.2:80 *1 | the instance web-1 on n1 is left out: it is registered without a port",
        );
        check(json!([instance("a b", 80, 1)]), "the instance web-1 on n1 is left out: ` ` cannot stand in a host name");
        check(json!({}), "answers in a way that is not understood: invalid type: map, expected a sequence at line 1 column 0");
    }

    #[test]
    fn an_index_that_goes_backwards_is_forgotten() {
        let check = |before, now, expected| assert_eq!(next_index(before, now), expected);
        check(0, 7, 7);
        check(7, 7, 7);
        check(7, 9, 9);
        check(7, 3, 0);
        check(7, 0, 0);
    }

    #[test]
    fn no_answer_makes_it_panic() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes: &Vec<u8>| {
            let _ = read(bytes);
            let text = String::from_utf8_lossy(bytes);
            let _ = read(json!([instance(&text, bytes.len() as i64, -1)]).to_string().as_bytes());
        });
    }
}
