//! Containers of Docker or Podman as servers: listed once, and again whenever the engine tells that something happened
//! to one. What a listed container means is in `container`, through which network it is reached in `network`, what an
//! event means in `event`; `engine` asks.

pub mod board;
mod container;
mod engine;
mod event;
pub mod labelled;
mod network;
mod swarm;

use crate::answer::{Answer, Reporter};
use crate::backoff::Backoff;
use crate::{Event, Fault};
use container::{Container, Known};
use engine::Engine;
use event::{Happening, Leaving};
use std::convert::Infallible;
use std::time::Duration;
use tidegate_model::discover::DockerDiscover;
use tokio::time::{Instant, sleep, sleep_until};

/// Several containers start and stop together; what is told within so long is looked at once.
const COALESCE: Duration = Duration::from_millis(50);
/// Without any event: what an engine did not tell of is found all the same.
const LIST_AGAIN: Duration = Duration::from_secs(30);

pub async fn follow<R: FnMut(Event)>(discover: &DockerDiscover, reporter: &mut Reporter<R>) -> ! {
    let mut backoff = Backoff::default();
    let mut leaving = Leaving::default();
    loop {
        let message = session(discover, &mut leaving, &mut backoff, reporter).await;
        reporter.fault(Fault::new(message));
        sleep(backoff.pause(rand::random())).await;
    }
}

/// As long as the engine answers; gives what was wrong then.
async fn session<R: FnMut(Event)>(
    discover: &DockerDiscover,
    leaving: &mut Leaving,
    backoff: &mut Backoff,
    reporter: &mut Reporter<R>,
) -> String {
    let Err(message) = talk(discover, leaving, backoff, reporter).await;
    message
}

async fn talk<R: FnMut(Event)>(
    discover: &DockerDiscover,
    leaving: &mut Leaving,
    backoff: &mut Backoff,
    reporter: &mut Reporter<R>,
) -> Result<Infallible, String> {
    let engine = Engine::find(discover.socket.as_deref())?;
    let mut known = Known::default();
    // Before the list: what happens while it is made is told, and leads to another one.
    let mut events = engine.events(&["container", "network"]).await?;
    loop {
        let mut listed = engine.containers(&discover.label).await?;
        engine.learn_networks(listed.iter_mut(), &mut known).await?;
        learn(&engine, discover, &listed, &mut known).await?;
        known.own = network::own_addresses();
        leaving.forget(&listed.iter().map(|container| container.id.as_str()).collect(), Instant::now().into_std());
        let (endpoints, faults) = container::endpoints(&listed, discover, &known, leaving);
        reporter.answer(Answer::new(endpoints, faults.into_iter().min().map(Fault::new)));
        backoff.reset();
        let mut due = Instant::now() + LIST_AGAIN;
        loop {
            let line = tokio::select! {
                line = events.next() => line.map_err(|message| engine.sentence(&message))?,
                () = sleep_until(due) => break,
            };
            let Some(line) = line else { return Err(engine.sentence("has closed its stream of events")) };
            let now = Instant::now();
            match event::judge(&line, &discover.label) {
                Happening::Irrelevant => continue,
                Happening::Changed => {}
                Happening::Leaves(container) => leaving.add(container, now.into_std()),
                Happening::Starts(container) => leaving.remove(&container),
            }
            due = due.min(now + COALESCE);
        }
    }
}

/// Asks for what the list does not say of some containers; it does not change as long as they run.
async fn learn(engine: &Engine, discover: &DockerDiscover, listed: &[Container], known: &mut Known) -> Result<(), String> {
    known.keep_only(listed);
    for container in listed {
        if container.needs_ports(discover)
            && !known.exposed.contains_key(&container.id)
            && let Some(ports) = engine.exposed_ports(&container.id).await?
        {
            known.exposed.insert(container.id.clone(), ports);
        }
        for network in container.networks_without_prefix(discover) {
            if !known.subnets.contains_key(network) {
                let subnets = engine.subnets(network).await?;
                known.subnets.insert(network.to_owned(), subnets);
            }
        }
    }
    Ok(())
}
