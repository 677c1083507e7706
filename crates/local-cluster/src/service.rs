//! The address of a Service, as a thread of the test: it leads every new connection to one of the Service's endpoints,
//! by rules of nftables, and changes them as a node of a cluster does: to ready ones, or, while there are none, to
//! those that leave and still serve. Connections that stand stay where they are.

use crate::api::Api;
use crate::network::{is_within, run};
use crate::plane::ControlPlane;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two looks at the slices: a node hears of a change within such a time.
const LOOK: Duration = Duration::from_millis(50);

/// Where a Service is reached from the test's network. Dropping it leaves the last rules.
pub struct ServiceAddress {
    pub ip: Ipv4Addr,
    is_over: Arc<AtomicBool>,
    state: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    endpoints: usize,
    fault: Option<String>,
}

struct Rules {
    api: Api,
    slices: String,
    ip: Ipv4Addr,
    /// Of the Service, and the name by which endpoints have theirs.
    ports: Vec<(u16, String)>,
    file: PathBuf,
    written: String,
}

impl ServiceAddress {
    /// Of a Service that exists, inside of a network that has pods.
    pub fn start(plane: &ControlPlane, namespace: &str, name: &str) -> Result<ServiceAddress, String> {
        if !is_within() {
            return Err("rules are written in a network of the test alone".to_owned());
        }
        let service = plane.api().get(&format!("/api/v1/namespaces/{namespace}/services/{name}"))?;
        let ip: Ipv4Addr = service["spec"]["clusterIP"].as_str().and_then(|ip| ip.parse().ok()).ok_or("it has no address")?;
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let ports = ports.filter_map(|port| Some((number(&port["port"])?, port["name"].as_str().unwrap_or("").to_owned())));
        let slices = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name%3D{name}"
        );
        let file = plane.folder.path().join(format!("{namespace}-{name}.nft"));
        let mut rules = Rules { api: plane.api(), slices, ip, ports: ports.collect(), file, written: String::new() };
        rules.look()?;
        let (is_over, state) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Seen::default())));
        let (until, told) = (is_over.clone(), state.clone());
        let run = move || {
            while !until.load(Ordering::Relaxed) {
                let outcome = rules.look();
                let mut state = told.lock().unwrap_or_else(PoisonError::into_inner);
                match outcome {
                    Ok(endpoints) => state.endpoints = endpoints,
                    Err(error) => drop(state.fault.get_or_insert(error)),
                }
                drop(state);
                thread::sleep(LOOK);
            }
        };
        let thread = thread::Builder::new().name("service".into()).spawn(run).map_err(|error| error.to_string())?;
        Ok(ServiceAddress { ip, is_over, state, thread: Some(thread) })
    }

    /// How many endpoints it leads to.
    pub fn endpoints(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).endpoints
    }

    /// What went wrong first, if anything did.
    pub fn fault(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).fault.clone()
    }
}

impl Drop for ServiceAddress {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What panicked there has said so.
            let _ = thread.join();
        }
    }
}

impl Rules {
    /// Writes the rules if they became others; says how many endpoints the first port has.
    fn look(&mut self) -> Result<usize, String> {
        let list = self.api.get(&self.slices)?;
        let slices: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
        let targets: Vec<_> = self.ports.iter().map(|(port, name)| (*port, targets(&slices, name))).collect();
        let text = rules(self.ip, &targets);
        if text != self.written {
            std::fs::write(&self.file, &text).map_err(|error| format!("{}: {error}", self.file.display()))?;
            run("nft", &["-f", &self.file.display().to_string()])?;
            self.written = text;
        }
        Ok(targets.first().map_or(0, |(_, targets)| targets.len()))
    }
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
}

/// Where a port's connections go.
fn targets(slices: &[&Value], port: &str) -> BTreeSet<SocketAddrV4> {
    let (mut ready, mut leaving) = (BTreeSet::new(), BTreeSet::new());
    for slice in slices {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let mut of_port = ports.filter(|one| one["name"].as_str().unwrap_or("") == port);
        let Some(number) = of_port.find_map(|one| number(&one["port"])) else { continue };
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            let holds = |condition: &str| endpoint["conditions"][condition].as_bool();
            let addresses = endpoint["addresses"].as_array().into_iter().flatten();
            let addresses = addresses.filter_map(|text| Some(SocketAddrV4::new(text.as_str()?.parse().ok()?, number)));
            if holds("ready") != Some(false) {
                ready.extend(addresses);
            } else if holds("serving") == Some(true) && holds("terminating") == Some(true) {
                leaving.extend(addresses);
            }
        }
    }
    if ready.is_empty() { leaving } else { ready }
}

/// As nftables read them: all at once in the place of those before.
fn rules(ip: Ipv4Addr, ports: &[(u16, BTreeSet<SocketAddrV4>)]) -> String {
    let (mut lead, mut refuse) = (String::new(), String::new());
    for (port, targets) in ports {
        let to = format!("    ip daddr {ip} tcp dport {port}");
        if targets.is_empty() {
            refuse.push_str(&format!("{to} reject with tcp reset\n"));
            continue;
        }
        let places: Vec<String> =
            targets.iter().enumerate().map(|(place, target)| format!("{place} : {} . {}", target.ip(), target.port())).collect();
        lead.push_str(&format!("{to} dnat to numgen random mod {} map {{ {} }}\n", targets.len(), places.join(", ")));
    }
    // Named by the address, so that each Service has its own.
    let table = format!("table ip service_{}", ip.to_string().replace('.', "_"));
    let chain = |name: &str, kind: &str, priority: i32, rules: &str| {
        format!("  chain {name} {{\n    type {kind} hook output priority {priority}; policy accept;\n{rules}  }}\n")
    };
    let (lead, refuse) = (chain("lead", "nat", -100, &lead), chain("refuse", "filter", 0, &refuse));
    format!("{table}\ndelete {table}\n{table} {{\n{lead}{refuse}}}\n")
}

#[cfg(test)]
mod tests {
    use super::{rules, targets};
    use serde_json::json;
    use std::net::Ipv4Addr;

    #[test]
    fn ready_endpoints_are_led_to_and_leaving_ones_while_there_are_none() {
        let endpoint = |last: u8, ready: bool, terminating: bool| {
            let conditions = json!({"ready": ready, "serving": true, "terminating": terminating});
            json!({"addresses": [format!("10.244.0.{last}")], "conditions": conditions})
        };
        let check = |endpoints: &[serde_json::Value], expected: &[&str]| {
            let slice = json!({"ports": [{"name": "http", "port": 80}, {"name": "https", "port": 8443}], "endpoints": endpoints});
            let seen: Vec<String> = targets(&[&slice], "https").iter().map(ToString::to_string).collect();
            assert_eq!(seen, expected);
        };
        check(&[endpoint(2, true, false), endpoint(3, false, true)], &["10.244.0.2:8443"]);
        check(&[endpoint(2, false, false), endpoint(3, false, true)], &["10.244.0.3:8443"]);
        check(&[endpoint(2, false, false)], &[]);
    }

    #[test]
    fn rules_are_those_of_all_ports() {
        let (ip, target) = (Ipv4Addr::new(10, 96, 0, 9), "10.244.0.2:8443".parse().expect("an address"));
        let text = rules(ip, &[(443, [target].into()), (80, [].into())]);
        let lead = "ip daddr 10.96.0.9 tcp dport 443 dnat to numgen random mod 1 map { 0 : 10.244.0.2 . 8443 }";
        assert!(text.contains(lead) && text.contains("ip daddr 10.96.0.9 tcp dport 80 reject with tcp reset"), "{text}");
        assert!(text.starts_with("table ip service_10_96_0_9\ndelete table ip service_10_96_0_9\n"), "{text}");
    }
}
