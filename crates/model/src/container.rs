//! Containers that say by their labels what they serve: whether and how labels are read (`docker`), and what an engine
//! tells of its containers. What labels mean is in `config`, who asks the engine in `discovery`.

use crate::address::HostPattern;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// How labels of containers are read, where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containers {
    pub source: ContainerSource,
    /// Hosts that containers may have a public certificate for.
    pub allowed: Vec<HostPattern>,
    /// Ports that labels name by a word, as entry points of Traefik.
    pub entry_points: Vec<EntryPoint>,
    /// Whether labels of Traefik are read of containers that have no `traefik.enable`.
    pub exposed_by_default: bool,
}

impl Containers {
    /// Whether a container may have the host although that needs a certificate of a public authority.
    pub fn allows(&self, host: &HostPattern) -> bool {
        self.allowed.iter().any(|allowed| allowed.covers(host))
    }
}

/// Which engine is asked, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSource {
    /// The engine's socket; `None` looks for Docker's, then for Podman's.
    pub socket: Option<PathBuf>,
    /// The network whose addresses are used; `None` takes one that can be reached.
    pub network: Option<String>,
    /// Whose labels are read, in this order.
    pub dialects: Vec<LabelDialect>,
    /// Services of a swarm as well.
    pub swarm: bool,
}

impl ContainerSource {
    /// Whether a label is one that somebody reads.
    pub fn owns_label(&self, label: &str) -> bool {
        self.dialects.iter().any(|dialect| match dialect {
            LabelDialect::Tidegate | LabelDialect::Traefik => dialect.owns(label),
            LabelDialect::NginxProxy => false,
        })
    }

    /// Whether variables are read, which any container may have.
    pub fn reads_variables(&self) -> bool {
        self.dialects.contains(&LabelDialect::NginxProxy)
    }
}

/// Whose words labels are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelDialect {
    Tidegate,
    Traefik,
    /// Variables of the container's environment, and no label.
    NginxProxy,
}

impl LabelDialect {
    pub const NAMES: &'static [(&'static str, LabelDialect)] =
        &[("tidegate", LabelDialect::Tidegate), ("traefik", LabelDialect::Traefik), ("nginx-proxy", LabelDialect::NginxProxy)];

    /// What its labels, or variables, begin with.
    pub fn prefixes(self) -> &'static [&'static str] {
        match self {
            LabelDialect::Tidegate => &["tidegate."],
            LabelDialect::Traefik => &["traefik."],
            LabelDialect::NginxProxy => &["VIRTUAL_", "LETSENCRYPT_", "CERT_NAME", "HTTPS_METHOD", "NETWORK_ACCESS"],
        }
    }

    /// Whether the label is one of its own. Quotes in front of it are a slip that is to be told of.
    pub fn owns(self, label: &str) -> bool {
        let label = label.trim_start_matches(['"', '\'', ' ']);
        self.prefixes().iter().any(|prefix| label.starts_with(prefix))
    }
}

/// What a label means by a word: a port, and whether it speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPoint {
    pub name: String,
    pub port: u16,
}

/// A container as its engine tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub id: String,
    pub name: String,
    /// In seconds since 1970.
    pub created: i64,
    /// Whose containers may speak of the same hosts: the project of compose, the stack of a swarm; of a container that
    /// is in none, what it is called.
    pub owner: String,
    /// The containers that do the same work: `PROJECT/SERVICE`, or what it is called.
    pub group: String,
    /// Labels that somebody reads here, and no other.
    pub labels: BTreeMap<String, String>,
    /// Variables that somebody reads here, and no other.
    pub variables: BTreeMap<String, String>,
    pub stage: ContainerStage,
    /// TCP ports that it exposes, in order.
    pub ports: Vec<u16>,
    /// Where it is reached, or why it is not.
    pub address: Result<IpAddr, String>,
}

/// Where a container is between its start and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerStage {
    Serving,
    /// Runs, and its check of health has not answered well so far.
    Starting,
    /// The check of its health says that it is not well.
    Unhealthy,
    Paused,
    /// Ends and is started again by the engine.
    Restarting,
    /// Was told to stop.
    Leaving,
    /// Was there a moment ago: another may be about to take its place.
    Gone,
}

impl ContainerStage {
    pub const ALL: [ContainerStage; 7] = [
        ContainerStage::Serving,
        ContainerStage::Starting,
        ContainerStage::Unhealthy,
        ContainerStage::Paused,
        ContainerStage::Restarting,
        ContainerStage::Leaving,
        ContainerStage::Gone,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ContainerStage::Serving => "serving",
            ContainerStage::Starting => "starting",
            ContainerStage::Unhealthy => "unhealthy",
            ContainerStage::Paused => "paused",
            ContainerStage::Restarting => "restarting",
            ContainerStage::Leaving => "leaving",
            ContainerStage::Gone => "gone",
        }
    }

    /// Whether its labels stand back behind those of others: it goes, or is gone.
    pub fn is_ending(self) -> bool {
        match self {
            ContainerStage::Leaving | ContainerStage::Gone => true,
            ContainerStage::Serving
            | ContainerStage::Starting
            | ContainerStage::Unhealthy
            | ContainerStage::Paused
            | ContainerStage::Restarting => false,
        }
    }
}

/// Of labels that say something of one server, so that containers of one group may differ in them.
const OF_ONE_SERVER: &[&str] = &["tidegate.weight", "tidegate.zone"];

impl Container {
    /// Whether both say the same about what is served.
    pub fn agrees_with(&self, other: &Container) -> bool {
        let is_of_group = |(name, _): &(&String, &String)| !OF_ONE_SERVER.contains(&name.as_str());
        let own = self.labels.iter().filter(is_of_group);
        own.eq(other.labels.iter().filter(is_of_group)) && self.variables == other.variables
    }
}

/// Containers that do the same work. The first of `members` speaks for all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerGroup {
    /// The oldest first, and behind them those that end.
    pub members: Vec<Arc<Container>>,
    /// Containers of the group whose labels say otherwise; they get no requests.
    pub dissenters: Vec<Arc<Container>>,
}

/// All containers of an engine, by their group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerGroups(BTreeMap<String, Arc<ContainerGroup>>);

impl ContainerGroups {
    pub fn new(containers: Vec<Container>) -> ContainerGroups {
        let mut by_group: BTreeMap<String, Vec<Arc<Container>>> = BTreeMap::new();
        for container in containers {
            by_group.entry(container.group.clone()).or_default().push(Arc::new(container));
        }
        let groups = by_group.into_iter().map(|(name, mut containers)| {
            containers.sort_by(|a, b| {
                let key = |container: &Container| (container.stage.is_ending(), container.created);
                key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
            });
            let first = containers[0].clone();
            let (members, dissenters) = containers.into_iter().partition(|container| container.agrees_with(&first));
            (name, Arc::new(ContainerGroup { members, dissenters }))
        });
        ContainerGroups(groups.collect())
    }

    pub fn of(&self, group: &str) -> Option<&Arc<ContainerGroup>> {
        self.0.get(group)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<ContainerGroup>)> {
        self.0.iter().map(|(name, group)| (name.as_str(), group))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All containers, in no order that means anything.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.0.values().flat_map(|group| group.members.iter().chain(&group.dissenters))
    }
}

#[cfg(test)]
mod tests {
    use super::{Container, ContainerGroups, ContainerSource, ContainerStage, Containers};
    use crate::address;

    fn container(name: &str, created: i64, label: &str, stage: ContainerStage) -> Container {
        Container {
            id: name.to_owned(),
            name: name.to_owned(),
            created,
            owner: "shop".into(),
            group: "shop/web".into(),
            labels: [("tidegate.site".to_owned(), label.to_owned())].into(),
            variables: [].into(),
            stage,
            ports: vec![80],
            address: Err("nowhere".into()),
        }
    }

    #[test]
    fn the_oldest_speaks_unless_it_ends() {
        let check = |containers: &[(&str, i64, &str, ContainerStage)], members: &[&str], dissenters: &[&str]| {
            let made = containers.iter().map(|(name, created, label, stage)| container(name, *created, label, *stage));
            let groups = ContainerGroups::new(made.collect());
            let group = groups.of("shop/web").expect("a group");
            let names = |all: &[std::sync::Arc<Container>]| all.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
            assert_eq!((names(&group.members), names(&group.dissenters)), (to_owned(members), to_owned(dissenters)));
        };
        use ContainerStage::{Gone, Leaving, Serving, Starting};
        check(&[("b", 2, "a.test", Serving), ("a", 1, "a.test", Starting)], &["a", "b"], &[]);
        check(&[("b", 2, "b.test", Serving), ("a", 1, "a.test", Serving)], &["a"], &["b"]);
        check(&[("b", 2, "b.test", Serving), ("a", 1, "a.test", Leaving)], &["b"], &["a"]);
        check(&[("b", 2, "a.test", Leaving), ("a", 1, "a.test", Gone)], &["a", "b"], &[]);
    }

    fn to_owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn weights_are_no_contradiction() {
        let (mut a, b) =
            (container("a", 1, "a.test", ContainerStage::Serving), container("b", 2, "a.test", ContainerStage::Serving));
        a.labels.insert("tidegate.weight".into(), "3".into());
        assert!(a.agrees_with(&b));
    }

    #[test]
    fn allowed_hosts() {
        let host = |text: &str| address::parse_host_pattern(text).expect("a host");
        let check = |allowed: &[&str], asked: &str, expected: bool| {
            let source = ContainerSource { socket: None, network: None, dialects: Vec::new(), swarm: false };
            let containers = Containers {
                source,
                allowed: allowed.iter().map(|text| host(text)).collect(),
                entry_points: Vec::new(),
                exposed_by_default: true,
            };
            assert_eq!(containers.allows(&host(asked)), expected, "{asked} by {allowed:?}");
        };
        check(&[], "a.example.com", false);
        check(&["a.example.com"], "a.example.com", true);
        check(&["*.example.com"], "a.example.com", true);
        check(&["*.example.com"], "a.b.example.com", false);
        check(&["*.example.com"], "example.com", false);
        check(&["*.example.com"], "badexample.com", false);
        check(&["*.example.com"], "*.example.com", true);
        check(&["a.example.com"], "*.example.com", false);
    }
}
