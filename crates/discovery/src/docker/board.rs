//! What is known of all containers, for the pools that look for some of them: one loop asks the engine, and the pools
//! read what it has found.

use crate::answer::{Answer, Reporter};
use crate::{Endpoint, Event, Fault};
use std::sync::Arc;
use tidegate_model::discover::ContainersDiscover;
use tidegate_model::{Container, ContainerGroup, ContainerGroups, ContainerStage, Server, TcpAddress};
use tokio::sync::watch;

/// All containers, as they were told last.
#[derive(Debug, Clone)]
pub struct ContainerBoard(Arc<watch::Sender<Arc<ContainerGroups>>>);

impl Default for ContainerBoard {
    fn default() -> Self {
        ContainerBoard(Arc::new(watch::Sender::new(Arc::default())))
    }
}

impl ContainerBoard {
    pub fn set(&self, groups: Arc<ContainerGroups>) {
        self.0.send_replace(groups);
    }

    pub fn groups(&self) -> Arc<ContainerGroups> {
        self.0.borrow().clone()
    }

    /// The servers that a pool finds there now.
    pub fn endpoints(&self, discover: &ContainersDiscover) -> Vec<Endpoint> {
        answer(self.groups().of(&discover.group), discover).endpoints
    }
}

/// Tells the servers of one group as it changes.
pub(crate) async fn follow<R: FnMut(Event)>(discover: &ContainersDiscover, board: &ContainerBoard, reporter: &mut Reporter<R>) {
    let mut changes = board.0.subscribe();
    let mut known: Option<Option<Arc<ContainerGroup>>> = None;
    loop {
        let now = changes.borrow_and_update().of(&discover.group).cloned();
        // Of thousands of pools few are another's business.
        if known.as_ref() != Some(&now) {
            reporter.answer(answer(now.as_ref(), discover));
            known = Some(now);
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn answer(group: Option<&Arc<ContainerGroup>>, discover: &ContainersDiscover) -> Answer {
    let (mut endpoints, mut faults) = (Vec::new(), Vec::new());
    for container in group.iter().flat_map(|group| &group.members) {
        let is_leaving = match container.stage {
            ContainerStage::Serving => false,
            ContainerStage::Leaving => true,
            ContainerStage::Starting
            | ContainerStage::Unhealthy
            | ContainerStage::Paused
            | ContainerStage::Restarting
            | ContainerStage::Gone => continue,
        };
        match server(container, discover) {
            Ok(server) => endpoints.push(Endpoint { server, addresses: Vec::new(), is_leaving }),
            Err(message) => faults.push(format!("container {}: {message}", container.name)),
        }
    }
    Answer::new(endpoints, faults.into_iter().min().map(Fault::new))
}

fn server(container: &Container, discover: &ContainersDiscover) -> Result<Server, String> {
    let label = |name: &str| container.labels.get(name).map(|value| value.trim());
    let weight = match label("tidegate.weight") {
        None => 1,
        Some(text) => {
            let weight = text.parse().ok().filter(|weight| (1..=Server::WEIGHT_MAX).contains(weight));
            weight.ok_or_else(|| format!("its label tidegate.weight is `{text}`; write 1 to {}", Server::WEIGHT_MAX))?
        }
    };
    let written = || label("tidegate.port").and_then(|text| text.parse().ok()).filter(|port| *port != 0);
    let port = discover.port.or_else(written).map_or_else(|| only_port(container), Ok)?;
    let ip = container.address.clone()?;
    let zone = label("tidegate.zone").filter(|zone| !zone.is_empty()).map(Into::into);
    let address = TcpAddress { scheme: discover.scheme, host: ip.to_string(), port };
    Ok(Server { weight, zone, ..Server::new(address.into()) })
}

fn only_port(container: &Container) -> Result<u16, String> {
    match container.ports.as_slice() {
        [port] => Ok(*port),
        [] => Err("it exposes no TCP port; say which one with the label tidegate.port".into()),
        several => {
            let several: Vec<String> = several.iter().map(u16::to_string).collect();
            Err(format!("it exposes the ports {}; say which one with the label tidegate.port", several.join(", ")))
        }
    }
}
