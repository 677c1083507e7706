//! Servers by DNS: asked again when the records' time to live is over, or after a pause when there was no answer. Who
//! is asked is in `resolver`, what several answers mean together in `hosts` (names to addresses) and `services` (SRV).

mod hosts;
mod resolver;
mod services;

use crate::answer::{Answer, Reporter};
use crate::backoff::Backoff;
use crate::{Endpoint, Event, Fault};
use hosts::{Found, Hosts};
use resolver::{Resolver, Trouble};
use services::Target;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tidegate_model::discover::{DnsDiscover, DnsQuestion};
use tidegate_model::{Scheme, Server, TcpAddress};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// One look-up with everything that it takes; the resolver gives up long before.
const LOOK_UP_LIMIT: Duration = Duration::from_secs(60);
/// A name that does not exist may exist soon, and whoever makes it does not know how long it was remembered that it
/// does not.
const NEGATIVE_LEAST: Duration = Duration::from_secs(1);
const NEGATIVE_MOST: Duration = Duration::from_secs(30);
/// An answer of which a part is missing is asked for again after so long at most.
const PARTIAL_MOST: Duration = Duration::from_secs(30);
/// Whatever a configuration says, a source is not asked more often.
const PAUSE_LEAST: Duration = Duration::from_millis(10);
/// Names that SRV records point to; those beyond are left out.
const TARGETS_MAX: usize = 1000;
/// Targets that are looked up at a time.
const TARGETS_AT_A_TIME: usize = 16;

pub async fn follow<R: FnMut(Event)>(discover: &DnsDiscover, reporter: &mut Reporter<R>) -> ! {
    let mut source = Source { resolver: Resolver::new(discover.resolver), hosts: Hosts::default() };
    let mut backoff = Backoff::default();
    loop {
        let limited = timeout(LOOK_UP_LIMIT, source.look_up(discover.scheme, &discover.question)).await;
        let looked_up = limited.unwrap_or_else(|_| Err(Trouble::new("the look-up took more than a minute")));
        let pause = match looked_up {
            Ok(NameLooked { answer, time_to_live }) => {
                backoff.reset();
                let is_partial = answer.remark.is_some();
                reporter.answer(answer);
                let pause = time_to_live.max(discover.ttl_least).min(discover.ttl_most);
                pause.min(if is_partial { PARTIAL_MOST } else { Duration::MAX })
            }
            Err(trouble) => {
                reporter.fault(Fault::new(format!("{}: {}", asked(&discover.question), trouble.text)));
                pause_after(&trouble, backoff.pause(rand::random()))
            }
        };
        sleep(pause.max(PAUSE_LEAST)).await;
    }
}

/// A negative answer says for how long it holds, which is believed within bounds.
fn pause_after(trouble: &Trouble, by_chance: Duration) -> Duration {
    trouble.negative.map_or(by_chance, |time| time.clamp(NEGATIVE_LEAST, NEGATIVE_MOST))
}

fn asked(question: &DnsQuestion) -> &str {
    match question {
        DnsQuestion::Addresses { name, port: _ } | DnsQuestion::Services { name } => name,
    }
}

struct Source {
    resolver: Resolver,
    hosts: Hosts,
}

struct NameLooked {
    answer: Answer,
    /// The least of all records.
    time_to_live: Duration,
}

impl Source {
    async fn look_up(&mut self, scheme: Scheme, question: &DnsQuestion) -> Result<NameLooked, Trouble> {
        match question {
            DnsQuestion::Addresses { name, port } => self.look_up_addresses(scheme, name, *port).await,
            DnsQuestion::Services { name } => self.look_up_services(scheme, name).await,
        }
    }

    async fn look_up_addresses(&mut self, scheme: Scheme, name: &str, port: u16) -> Result<NameLooked, Trouble> {
        let session = self.resolver.session().await?;
        let found = self.hosts.take(name, session.addresses(name).await)?;
        self.hosts.keep_only(&BTreeSet::from([name]));
        let endpoint = |ip: &IpAddr| {
            let address = TcpAddress { scheme, host: ip.to_string(), port };
            Endpoint { server: Server::new(address.into()), addresses: vec![SocketAddr::new(*ip, port)], is_leaving: false }
        };
        let answer = Answer::new(found.addresses.iter().map(endpoint).collect(), None);
        Ok(NameLooked { answer, time_to_live: found.time_to_live })
    }

    async fn look_up_services(&mut self, scheme: Scheme, name: &str) -> Result<NameLooked, Trouble> {
        let session = self.resolver.session().await?;
        let said = session.services(name).await?;
        let mut time_to_live = said.time_to_live;
        let (services, mut remarks) = services::usable(said.services, scheme)?;
        let mut names: BTreeSet<&str> = services.iter().map(|service| service.target.as_str()).collect();
        if names.len() > TARGETS_MAX {
            remarks.push(format!("{} names are pointed to; the first {TARGETS_MAX} are used", names.len()));
            names = names.into_iter().take(TARGETS_MAX).collect();
        }
        let mut targets: Vec<Target> = Vec::new();
        let mut unknown: Vec<&str> = Vec::new();
        for name in &names {
            match said.known.get(*name) {
                Some(found) => {
                    self.hosts.remember(name, found);
                    targets.push(Target::new(name, found));
                    time_to_live = time_to_live.min(found.time_to_live);
                }
                None => unknown.push(name),
            }
        }
        for some in unknown.chunks(TARGETS_AT_A_TIME) {
            let mut asking = JoinSet::new();
            for name in some {
                let (session, name) = (session.clone(), (*name).to_owned());
                asking.spawn(async move { (session.addresses(&name).await, name) });
            }
            while let Some(joined) = asking.join_next().await {
                let Ok((families, name)) = joined else { continue };
                match self.hosts.take(&name, families) {
                    Ok(found) => {
                        time_to_live = time_to_live.min(found.time_to_live);
                        targets.push(Target::new(&name, &found));
                    }
                    Err(trouble) => match self.hosts.last(&name) {
                        Some(found) => {
                            remarks.push(format!("{name}: {}; its last addresses are used", trouble.text));
                            targets.push(Target::new(&name, &found));
                        }
                        None => remarks.push(format!("{name}: {}; it is left out", trouble.text)),
                    },
                }
            }
        }
        self.hosts.keep_only(&names);
        let endpoints = services::endpoints(&services, &targets, scheme);
        remarks.sort();
        match (endpoints.is_empty(), remarks.into_iter().next()) {
            (true, Some(remark)) => Err(Trouble::new(format!("no target can be used: {remark}"))),
            (_, remark) => {
                let answer = Answer::new(endpoints, remark.map(|remark| Fault::new(format!("{name}: {remark}"))));
                Ok(NameLooked { answer, time_to_live })
            }
        }
    }
}

/// For a name that is an address already: it never changes.
fn literal(ip: IpAddr) -> Found {
    Found { addresses: BTreeSet::from([ip]), time_to_live: Duration::MAX }
}

#[cfg(test)]
mod tests {
    use super::{Trouble, pause_after};
    use std::time::Duration;

    #[test]
    fn a_negative_answer_is_believed_within_bounds() {
        let check = |negative: Option<u64>, expected: u64| {
            let trouble = Trouble { text: String::new(), negative: negative.map(Duration::from_secs) };
            assert_eq!(pause_after(&trouble, Duration::from_secs(7)), Duration::from_secs(expected));
        };
        check(Some(0), 1);
        check(Some(20), 20);
        check(Some(86_400), 30);
        check(None, 7);
    }
}
