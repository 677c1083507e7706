//! Services of a swarm as containers: each task that is to run is one, with the labels of its service and its address
//! in a network that can be reached. Pure; who asks is in `labelled`.

use super::network::{self, Attachment};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use tidegate_model::{Container, ContainerSource, ContainerStage};

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub struct SwarmService {
    #[serde(rename = "ID")]
    id: String,
    created_at: String,
    spec: ServiceSpec,
    endpoint: ServiceEndpoint,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ServiceSpec {
    name: String,
    /// Labels under `deploy` in a file of compose.
    labels: Option<BTreeMap<String, String>>,
    task_template: TaskTemplate,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct TaskTemplate {
    container_spec: ContainerSpec,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ContainerSpec {
    /// Labels of the service itself in a file of compose.
    labels: Option<BTreeMap<String, String>>,
    env: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ServiceEndpoint {
    ports: Option<Vec<EndpointPort>>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct EndpointPort {
    protocol: String,
    target_port: u16,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub struct SwarmTask {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "ServiceID")]
    service_id: String,
    slot: u64,
    desired_state: String,
    status: TaskStatus,
    networks_attachments: Option<Vec<NetworkAttachment>>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct TaskStatus {
    state: String,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct NetworkAttachment {
    network: SwarmNetwork,
    addresses: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct SwarmNetwork {
    spec: SwarmNetworkSpec,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct SwarmNetworkSpec {
    name: String,
    /// The network of published ports, in which no proxy is.
    ingress: bool,
}

/// The tasks of services that have something to say; `is_read` tells by the name of a label, `is_variable` by that of a
/// variable.
pub fn containers(
    services: &[SwarmService],
    tasks: &[SwarmTask],
    source: &ContainerSource,
    own: &[IpAddr],
    is_read: impl Fn(&str) -> bool,
    is_variable: impl Fn(&str) -> bool,
) -> Vec<Container> {
    let mut containers = Vec::new();
    for service in services {
        let ServiceSpec { name, labels, task_template } = &service.spec;
        let of_containers = &task_template.container_spec;
        // Wherever they were written; what stands under `deploy` counts.
        let all = of_containers.labels.iter().flatten().chain(labels.iter().flatten());
        let read: BTreeMap<String, String> =
            all.filter(|(name, _)| is_read(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
        let variables = of_containers.env.iter().flatten().filter_map(|text| text.split_once('='));
        let variables: BTreeMap<String, String> =
            variables.filter(|(name, _)| is_variable(name)).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        if read.is_empty() && variables.is_empty() {
            continue;
        }
        let stack =
            labels.iter().flatten().find(|(name, _)| *name == "com.docker.stack.namespace").map(|(_, stack)| stack.as_str());
        let short = stack.and_then(|stack| name.strip_prefix(stack)?.strip_prefix('_')).unwrap_or(name);
        let group = stack.map_or_else(|| name.clone(), |stack| format!("{stack}/{short}"));
        let ports = service.endpoint.ports.iter().flatten().filter(|port| port.protocol == "tcp");
        let ports: Vec<u16> = ports.map(|port| port.target_port).collect();
        for task in tasks.iter().filter(|task| task.service_id == service.id) {
            let Some(stage) = task.stage() else { continue };
            containers.push(Container {
                id: task.id.clone(),
                name: format!("{name}.{}", task.slot),
                created: seconds(&service.created_at),
                owner: stack.unwrap_or(name).to_owned(),
                group: group.clone(),
                labels: read.clone(),
                variables: variables.clone(),
                stage,
                ports: ports.clone(),
                address: task.address(source, own, name),
            });
        }
    }
    containers
}

impl SwarmTask {
    /// `None`: it never came to run, or has ended.
    fn stage(&self) -> Option<ContainerStage> {
        match (self.status.state.as_str(), self.desired_state.as_str()) {
            ("running", "running") => Some(ContainerStage::Serving),
            ("running", _) => Some(ContainerStage::Leaving),
            ("new" | "pending" | "assigned" | "accepted" | "preparing" | "ready" | "starting", "running" | "ready") => {
                Some(ContainerStage::Starting)
            }
            _ => None,
        }
    }

    fn address(&self, source: &ContainerSource, own: &[IpAddr], service: &str) -> Result<IpAddr, String> {
        let attachments = self.networks_attachments.iter().flatten().filter(|one| !one.network.spec.ingress);
        let networks: BTreeMap<String, Attachment> = attachments
            .map(|one| (one.network.spec.name.clone(), Attachment::of_addresses(one.addresses.iter().flatten())))
            .collect();
        match &source.network {
            Some(network) => network::named(&networks, network, service),
            None => network::reachable(&networks, &HashMap::new(), own),
        }
    }
}

/// Of `2026-11-27T02:34:34.123456789Z`, for an order in which things were made: its digits are read, and no calendar.
fn seconds(time: &str) -> i64 {
    let part = |from: usize, to: usize| time.get(from..to).and_then(|digits| digits.parse::<i64>().ok()).unwrap_or(0);
    let days = part(0, 4) * 372 + part(5, 7) * 31 + part(8, 10);
    days * 86_400 + part(11, 13) * 3600 + part(14, 16) * 60 + part(17, 19)
}

#[cfg(test)]
mod tests {
    use super::{SwarmService, SwarmTask, containers};
    use serde_json::{Value, json};
    use tidegate_model::{Container, ContainerSource};

    fn source(network: Option<&str>) -> ContainerSource {
        ContainerSource { socket: None, network: network.map(str::to_owned), dialects: Vec::new(), swarm: true }
    }

    fn read(service: Value, tasks: Value, source: &ContainerSource) -> Vec<Container> {
        let services: Vec<SwarmService> = serde_json::from_value(json!([service])).expect("services");
        let tasks: Vec<SwarmTask> = serde_json::from_value(tasks).expect("tasks");
        let own = ["10.0.1.9".parse().expect("an address")];
        containers(&services, &tasks, source, &own, |label| label.starts_with("tidegate."), |_| false)
    }

    fn service() -> Value {
        json!({
            "ID": "s1", "CreatedAt": "2026-11-27T02:34:34.1Z",
            "Spec": {"Name": "shop_web", "Labels": {"com.docker.stack.namespace": "shop", "tidegate.site": "a.test"},
                     "TaskTemplate": {"ContainerSpec": {"Labels": {"tidegate.port": "80", "tidegate.site": "b.test"}}}},
            "Endpoint": {"Ports": [{"Protocol": "tcp", "TargetPort": 8080}, {"Protocol": "udp", "TargetPort": 53}]},
        })
    }

    fn task(id: &str, state: &str, desired: &str) -> Value {
        json!({
            "ID": id, "ServiceID": "s1", "Slot": 1, "DesiredState": desired, "Status": {"State": state},
            "NetworksAttachments": [
                {"Network": {"Spec": {"Name": "ingress", "Ingress": true}}, "Addresses": ["10.0.0.5/24"]},
                {"Network": {"Spec": {"Name": "web"}}, "Addresses": ["10.0.1.5/24"]},
                {"Network": {"Spec": {"Name": "back"}}, "Addresses": ["10.0.2.5/24"]},
            ],
        })
    }

    fn shown(containers: &[Container]) -> Vec<String> {
        let one = |container: &Container| {
            let address = container.address.as_ref().map_or_else(ToString::to_string, ToString::to_string);
            format!("{} {} {address} {} {:?}", container.name, container.group, container.stage.as_str(), container.ports)
        };
        containers.iter().map(one).collect()
    }

    #[test]
    fn tasks_of_a_service_are_containers_of_one_group() {
        let tasks = json!([
            task("t1", "running", "running"),
            task("t2", "running", "shutdown"),
            task("t3", "preparing", "running"),
            task("t4", "failed", "shutdown"),
            task("t5", "complete", "shutdown"),
        ]);
        let seen = read(service(), tasks, &source(None));
        assert_eq!(
            shown(&seen),
            [
                "shop_web.1 shop/web 10.0.1.5 serving [8080]",
                "shop_web.1 shop/web 10.0.1.5 leaving [8080]",
                "shop_web.1 shop/web 10.0.1.5 starting [8080]",
            ]
        );
        assert_eq!(seen[0].owner, "shop");
        assert_eq!(seen[0].labels.get("tidegate.site").map(String::as_str), Some("a.test"), "what is under `deploy` counts");
        assert_eq!(seen[0].labels.get("tidegate.port").map(String::as_str), Some("80"));
        assert!(seen[0].labels.len() == 2, "and nothing else is kept");
    }

    #[test]
    fn a_named_network_is_used() {
        let seen = read(service(), json!([task("t1", "running", "running")]), &source(Some("back")));
        assert_eq!(shown(&seen), ["shop_web.1 shop/web 10.0.2.5 serving [8080]"]);
    }

    #[test]
    fn a_service_that_says_nothing_is_none() {
        let silent = json!({"ID": "s1", "Spec": {"Name": "x", "Labels": null, "TaskTemplate": {"ContainerSpec": {}}}});
        assert!(read(silent, json!([task("t1", "running", "running")]), &source(None)).is_empty());
    }

    #[test]
    fn no_answer_makes_it_panic() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes: &Vec<u8>| {
            let services: Vec<SwarmService> = serde_json::from_slice(bytes).unwrap_or_default();
            let text = String::from_utf8_lossy(bytes);
            let tasks = json!([{"ServiceID": "", "Status": {"State": "running"}, "DesiredState": "running",
                "NetworksAttachments": [{"Network": {"Spec": {"Name": text}}, "Addresses": [text]}]}]);
            let tasks: Vec<SwarmTask> = serde_json::from_value(tasks).expect("tasks");
            let _ = containers(&services, &tasks, &source(None), &[], |_| true, |_| true);
            let made = json!([{"CreatedAt": text, "Spec": {"Name": text, "Labels": {text.as_ref(): text}}}]);
            let services: Vec<SwarmService> = serde_json::from_value(made).expect("services");
            let _ = containers(&services, &tasks, &source(None), &[], |_| true, |_| true);
        });
    }
}
