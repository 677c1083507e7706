//! All containers of an engine as those who read their labels want them: whose they are, what they do together, how
//! they are and where they are reached. Pure but for the loop that asks ([`follow`]); what labels mean is read
//! elsewhere (`config`).

use super::container::{Container as Listed, Known};
use super::engine::Engine;
use super::event::{self, Happening, Leaving};
use super::network;
use super::swarm;
use crate::Fault;
use crate::backoff::Backoff;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;
use tidegate_model::discover::DockerDiscover;
use tidegate_model::{Container, ContainerSource, ContainerStage, LabelDialect};
use tokio::time::{Instant, sleep, sleep_until};

/// What is told within so long is looked at once; whatever follows within it is waited for as well, up to the most.
const COALESCE: Duration = Duration::from_millis(50);
const COALESCE_MOST: Duration = Duration::from_millis(200);
/// Without any event: what an engine did not tell of is found all the same.
const LIST_AGAIN: Duration = Duration::from_secs(30);
/// Tasks of a swarm come and go on other machines without an event here.
const LOOK_AT_TASKS: Duration = Duration::from_secs(3);
/// A container that is gone may be about to be replaced: compose removes the old one before it starts the new one.
const LINGER: Duration = Duration::from_secs(10);
/// Containers that are remembered so.
const LINGERING_MAX: usize = 1_000;
/// More than any engine runs; one that lists more is taken for broken beyond that.
const CONTAINERS_MAX: usize = 10_000;

/// What an engine says of its containers.
#[derive(Debug, Clone, PartialEq)]
pub enum ContainersTold {
    /// All of now that have something to say; told when it is another list than before.
    Listed(Vec<Container>),
    /// The engine could not be asked. The list told last stands.
    Fault(Fault),
    /// The fault told last is over.
    Recovered,
}

/// Tells which containers there are, now and whenever that changes. It runs for ever and is cancelled by dropping; it
/// has to be polled within a tokio runtime that has timers and IO.
pub async fn follow(source: ContainerSource, mut report: impl FnMut(ContainersTold)) -> Infallible {
    let mut state = Followed::default();
    loop {
        let Err(message) = talk(&source, &mut state, &mut report).await;
        let fault = Fault::new(message);
        if state.fault.as_ref() != Some(&fault) {
            state.fault = Some(fault.clone());
            report(ContainersTold::Fault(fault));
        }
        sleep(state.backoff.pause(rand::random())).await;
    }
}

/// What is kept over sessions with an engine, which may be restarted.
#[derive(Default)]
struct Followed {
    leaving: Leaving,
    backoff: Backoff,
    fault: Option<Fault>,
    told: Option<Vec<Container>>,
    /// Who was there, and since when they are not.
    lingering: Vec<(Container, Instant)>,
    variables: BTreeMap<String, BTreeMap<String, String>>,
}

async fn talk(
    source: &ContainerSource,
    state: &mut Followed,
    report: &mut impl FnMut(ContainersTold),
) -> Result<Infallible, String> {
    let engine = Engine::find(source.socket.as_deref())?;
    let mut known = Known::default();
    let kinds: &[&str] = if source.swarm { &["container", "network", "service"] } else { &["container", "network"] };
    // Before the list: what happens while it is made is told, and leads to another one.
    let mut events = engine.events(kinds).await?;
    loop {
        let mut all = engine.all_containers().await?;
        all.truncate(CONTAINERS_MAX);
        let speaking = all.iter_mut().filter(|container| speaks(container, source));
        engine.learn_networks(speaking, &mut known).await?;
        let lenders: BTreeSet<String> = all.iter().filter_map(Listed::network_of).map(str::to_owned).collect();
        let (listed, lenders): (Vec<Listed>, Vec<Listed>) = all
            .into_iter()
            .filter(|container| speaks(container, source) || lenders.contains(&container.id))
            .partition(|container| speaks(container, source));
        let is_task = |container: &Listed| source.swarm && container.any_label("com.docker.swarm.service.name").is_some();
        let listed: Vec<Listed> = listed.into_iter().filter(|container| !is_task(container)).collect();
        learn(&engine, source, &listed, &mut known, state).await?;
        known.own = network::own_addresses();
        state.leaving.forget(&listed.iter().map(|container| container.id.as_str()).collect(), Instant::now().into_std());
        let of_swarm = if source.swarm { swarm_tasks(&engine, source, &known).await? } else { Vec::new() };
        let containers = state.take_up(&listed, &lenders, of_swarm, source, &known);
        if state.told.as_ref() != Some(&containers) {
            state.told = Some(containers.clone());
            report(ContainersTold::Listed(containers));
        }
        if state.fault.take().is_some() {
            report(ContainersTold::Recovered);
        }
        state.backoff.reset();
        let again = if source.swarm { LOOK_AT_TASKS } else { LIST_AGAIN };
        let mut due = state.lingers_until().map_or(Instant::now() + again, |until| until.min(Instant::now() + again));
        let mut first_news: Option<Instant> = None;
        loop {
            let line = tokio::select! {
                line = events.next() => line.map_err(|message| engine.sentence(&message))?,
                () = sleep_until(due) => break,
            };
            let Some(line) = line else { return Err(engine.sentence("has closed its stream of events")) };
            let now = Instant::now();
            match event::judge_any(&line, |label| is_read(source, label)) {
                Happening::Irrelevant => continue,
                Happening::Changed => {}
                Happening::Leaves(container) => state.leaving.add(container, now.into_std()),
                Happening::Starts(container) => state.leaving.remove(&container),
            }
            let most = *first_news.get_or_insert(now) + COALESCE_MOST;
            due = (now + COALESCE).min(most);
        }
    }
}

/// Tasks of services, as containers of some machine.
async fn swarm_tasks(engine: &Engine, source: &ContainerSource, known: &Known) -> Result<Vec<Container>, String> {
    let (services, tasks) = (engine.services().await?, engine.tasks().await?);
    let is_variable = |name: &str| source.reads_variables() && LabelDialect::NginxProxy.owns(name);
    Ok(swarm::containers(&services, &tasks, source, &known.own, |name| source.owns_label(name), is_variable))
}

/// Whether a label, or with variables any container, is one that somebody reads.
fn is_read(source: &ContainerSource, label: Option<&str>) -> bool {
    source.reads_variables() || label.is_some_and(|label| source.owns_label(label))
}

fn speaks(container: &Listed, source: &ContainerSource) -> bool {
    source.reads_variables() || container.labels().any(|(label, _)| source.owns_label(label))
}

/// With the network that a label of Traefik names.
fn discover_for<'d>(container: &Listed, source: &ContainerSource, discover: &'d DockerDiscover) -> Cow<'d, DockerDiscover> {
    let is_read = source.dialects.contains(&LabelDialect::Traefik);
    match container.any_label("traefik.docker.network").filter(|network| is_read && !network.is_empty()) {
        Some(network) => Cow::Owned(DockerDiscover { network: Some(network.to_owned()), ..discover.clone() }),
        None => Cow::Borrowed(discover),
    }
}

/// As [`DockerDiscover`], for what both ask of a container.
fn as_discover(source: &ContainerSource) -> DockerDiscover {
    DockerDiscover { label: String::new(), socket: None, network: source.network.clone(), port: None }
}

/// Asks for what the list does not say of some containers; it does not change as long as they are there.
async fn learn(
    engine: &Engine,
    source: &ContainerSource,
    listed: &[Listed],
    known: &mut Known,
    state: &mut Followed,
) -> Result<(), String> {
    known.keep_only(listed);
    state.variables.retain(|id, _| listed.iter().any(|container| container.id == *id));
    let discover = as_discover(source);
    let reads_variables = source.reads_variables();
    for container in listed {
        let is_unknown = reads_variables && !state.variables.contains_key(&container.id);
        if (is_unknown || container.lists_no_port())
            && !known.exposed.contains_key(&container.id)
            && let Some(inspected) = engine.inspected(&container.id).await?
        {
            known.exposed.insert(container.id.clone(), inspected.ports);
            if reads_variables {
                let owned = |(name, _): &(String, String)| LabelDialect::NginxProxy.owns(name);
                state.variables.insert(container.id.clone(), inspected.variables.into_iter().filter(owned).collect());
            }
        }
        for network in container.networks_without_prefix(&discover) {
            if !known.subnets.contains_key(network) {
                let subnets = engine.subnets(network).await?;
                known.subnets.insert(network.to_owned(), subnets);
            }
        }
    }
    Ok(())
}

impl Followed {
    /// The containers of now, with those that went a moment ago.
    fn take_up(
        &mut self,
        listed: &[Listed],
        lenders: &[Listed],
        of_swarm: Vec<Container>,
        source: &ContainerSource,
        known: &Known,
    ) -> Vec<Container> {
        let now = Instant::now();
        let discover = as_discover(source);
        let address = |container: &Listed| match container.network_of() {
            None => container.address(&discover_for(container, source, &discover), known),
            Some(lender) => match listed.iter().chain(lenders).find(|other| other.id == lender) {
                Some(lender) => lender.address(&discover, known),
                None => Err(format!("it uses the network of the container {lender}, which does not run")),
            },
        };
        let mut containers: Vec<Container> = listed
            .iter()
            .map(|container| self.container(container, address(container), source, known))
            .filter(|container| !container.labels.is_empty() || !container.variables.is_empty())
            .collect();
        // A task of a swarm runs in a container of some machine, perhaps of this one.
        containers.extend(of_swarm);
        let is_there = |id: &str| containers.iter().any(|container| container.id == id);
        self.lingering.retain(|(container, since)| now < *since + LINGER && !is_there(&container.id));
        let before = self.told.iter().flatten().filter(|container| container.stage != ContainerStage::Gone);
        for gone in before.filter(|container| !is_there(&container.id)) {
            if self.lingering.len() < LINGERING_MAX {
                self.lingering.push((Container { stage: ContainerStage::Gone, ..gone.clone() }, now));
            }
        }
        containers.extend(self.lingering.iter().map(|(container, _)| container.clone()));
        containers.sort_by(|a, b| a.id.cmp(&b.id));
        containers
    }

    fn lingers_until(&self) -> Option<Instant> {
        self.lingering.iter().map(|(_, since)| *since + LINGER).min()
    }

    fn container(&self, listed: &Listed, address: Result<IpAddr, String>, source: &ContainerSource, known: &Known) -> Container {
        let owned = listed.labels().filter(|(name, _)| source.owns_label(name));
        let labels: BTreeMap<String, String> = owned.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let name = listed.name().to_owned();
        let (owner, group) = whose(listed, &name);
        Container {
            id: listed.id.clone(),
            created: listed.created,
            owner,
            group,
            labels,
            variables: self.variables.get(&listed.id).cloned().unwrap_or_default(),
            stage: listed.stage(self.leaving.has(&listed.id)),
            ports: listed.exposed_ports(known),
            address,
            name,
        }
    }
}

/// The labels that compose and swarm write, with their service behind them.
const PROJECTS: &[(&str, &str)] = &[
    ("com.docker.compose.project", "com.docker.compose.service"),
    ("io.podman.compose.project", "io.podman.compose.service"),
    ("com.docker.stack.namespace", "com.docker.swarm.service.name"),
];

/// Owner and group. `tidegate.pool` joins containers of one owner that are of different services.
fn whose(container: &Listed, name: &str) -> (String, String) {
    let label = |name: &str| container.any_label(name).filter(|value| !value.is_empty());
    let pool = label("tidegate.pool");
    let of_project = PROJECTS.iter().find_map(|(project, service)| Some((label(project)?, label(service)?)));
    match (of_project, pool) {
        (Some((project, service)), None) => {
            // A stack's name stands in front of its services already.
            let service = service.strip_prefix(project).and_then(|rest| rest.strip_prefix('_')).unwrap_or(service);
            (project.to_owned(), format!("{project}/{service}"))
        }
        (Some((project, _)), Some(pool)) => (project.to_owned(), format!("{project}/{pool}")),
        (None, Some(pool)) => (pool.to_owned(), pool.to_owned()),
        (None, None) => (name.to_owned(), name.to_owned()),
    }
}
