//! The labels of a container, which are a configuration of Traefik.

use super::middlewares::VARIABLE;
use super::outline;
use crate::outline::{Outline, Service};
use crate::tree::Tree;

const BY_EXPRESSION: &str =
    "which hosts an expression takes is asked for names, and for all of `*.example.com`, and for no others";

/// The labels of one container, without `traefik.` in front. Statements stand where their label does in the list. Its
/// servers are called `server`, with one of these ports where no label says which; `entry_points` are ports by name.
pub fn of_container(labels: &[(&str, &str)], entry_points: &[(&str, u16)], server: &str, ports: &[u16]) -> Outline {
    let mut own = Tree::of_entries(Vec::new());
    for (at, (key, value)) in labels.iter().enumerate() {
        let place = own.place(&path_of(key));
        // What is said of it in more words counts.
        if !place.is_map() {
            // Whoever starts a container says nothing of the environment of this process.
            *place = Tree::of_text(value.replace(VARIABLE, "")).standing_at(at);
        }
    }
    let servers = ContainerServers { host: server.to_owned(), ports: ports.to_vec(), is_port_known: true, replicas: 1 };
    fill_services(&mut own, &servers);
    for (name, port) in entry_points {
        *own.place(&["entryPoints", name, "address"].map(str::to_owned)) = Tree::of_text(format!(":{port}"));
    }
    let mut outline = outline(&[own]);
    super::sites::without_rows(&mut outline);
    super::queries::refuse_semicolons_within(&mut outline);
    // What asks for an expression stands at the top level, where labels have no say.
    if outline.settings.iter().any(|setting| setting.line.starts_with("map ")) {
        outline.services.retain(|service| matches!(service, Service::Tcp(_)));
        outline.settings.clear();
        outline.without.get_or_insert(BY_EXPRESSION);
    }
    outline
}

/// `${NAME}`, `${NAME:-default}` and `$NAME`, which Compose fills in from the environment, so that it is named and not
/// looked up. `$$` is a `$`.
pub fn variables(text: &str) -> String {
    let text = text.replace(VARIABLE, "");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let braced = behind.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        if let Some(more) = behind.strip_prefix('$') {
            out.push('$');
            rest = more;
        } else if let Some((name, more)) = braced {
            let end = name.find(|c: char| !is_name(c)).unwrap_or(name.len());
            let (name, default) = name.split_at(end);
            let default = default.strip_prefix(":-").or_else(|| default.strip_prefix('-'));
            let default = default.map(|default| format!(":-{default}")).unwrap_or_default();
            out.push_str(&format!("{}{name}{default}{}", VARIABLE[0], VARIABLE[1]));
            rest = more;
        } else if behind.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let end = behind.find(|c: char| !is_name(c)).unwrap_or(behind.len());
            out.push_str(&format!("{}{}{}", VARIABLE[0], &behind[..end], VARIABLE[1]));
            rest = &behind[end..];
        } else {
            out.push('$');
            rest = behind;
        }
    }
    out + rest
}

/// The words of a label, of which deeper ones mean nothing.
pub fn path_of(key: &str) -> Vec<String> {
    key.split('.').map(|part| part.split('[').next().unwrap_or_default().to_owned()).take(12).collect()
}

/// `a=b` in a list, or `a: b` in a map, and where each stands.
pub fn labels_of(labels: &Tree) -> Vec<(String, String, usize)> {
    let of_list = labels.items().iter().filter_map(|item| Some((item.text()?.split_once('=')?, item.start())));
    let of_list = of_list.map(|((key, value), at)| (key, value, at));
    let of_map = labels.entries().iter().map(|(key, value)| (key.as_str(), value.text().unwrap_or("true"), value.start()));
    of_list.chain(of_map).map(|(key, value, at)| (key.to_owned(), value.to_owned(), at)).collect()
}

/// The name of a service without the provider that containers are of.
fn own_name(name: &str) -> String {
    name.strip_suffix("@docker").or_else(|| name.strip_suffix("@swarm")).unwrap_or(name).to_owned()
}

/// Where a container is reached.
pub struct ContainerServers {
    pub host: String,
    /// Ports that it says, the smallest of which counts where no label names one.
    pub ports: Vec<u16>,
    /// Whether these are all that it has, those of its image among them.
    pub is_port_known: bool,
    /// How many of it there are.
    pub replicas: u64,
}

const PORT_ASSUMED: &str = "no label says the port, and Traefik takes the smallest one that the image exposes, which the file does not \
                            say: look which one it is";
const REPLICAS: &str = "there are several containers by this name, and a server is one of them: `discover dns=\"name:port\"` in a pool is all of them";

/// Servers are the containers: what the labels say of them is the port.
pub fn fill_services(own: &mut Tree, servers: &ContainerServers) {
    for (kind, key) in [("http", "url"), ("tcp", "address")] {
        let routers: Vec<(String, Option<String>)> = own
            .at(&[kind, "routers"])
            .entries()
            .iter()
            .map(|(router, value)| (router.clone(), value.get("service").text().map(own_name)))
            .collect();
        let services: Vec<String> = own.at(&[kind, "services"]).entries().iter().map(|(service, _)| service.clone()).collect();
        for (router, service) in routers {
            let is_foreign = service
                .as_ref()
                .is_some_and(|service| service.contains('@') || !services.contains(service) && !services.is_empty());
            if is_foreign {
                continue;
            }
            // Without a word, a router's service is the only one that its container has.
            let service = service.or_else(|| services.first().cloned()).unwrap_or_else(|| router.clone());
            let rule = own.at(&[kind, "routers", &router, "rule"]).start();
            fill_service(own, (kind, key), &service, servers, rule);
            let path = [kind, "routers", &router, "service"].map(str::to_owned);
            let at = own.at(&[kind, "routers", &router, "service"]).start();
            *own.place(&path) = Tree::of_text(service).standing_at(at);
        }
    }
}

fn fill_service(own: &mut Tree, (kind, key): (&str, &str), service: &str, servers: &ContainerServers, rule: usize) {
    let balancer = own.at(&[kind, "services", service, "loadBalancer", "server"]);
    let told = balancer.get("port").text().and_then(|port| port.trim_matches(['"', '\'']).parse::<u16>().ok());
    let at = balancer.get("port").start();
    let scheme = balancer.get("scheme").text().map(|scheme| format!("{scheme}://")).unwrap_or_default();
    let port = told.or_else(|| servers.ports.iter().min().copied()).unwrap_or(80);
    let mut server = vec![(key.to_owned(), Tree::of_text(format!("{scheme}{}:{port}", servers.host)).standing_at(at))];
    let why = match (told, servers.is_port_known, servers.replicas) {
        (_, _, replicas) if replicas > 1 => Some(REPLICAS),
        (None, false, _) => Some(PORT_ASSUMED),
        (None, true, _) | (Some(_), _, _) => None,
    };
    if let Some(why) = why {
        let at = if told.is_some() { at } else { rule };
        server.push((ASSUMED.to_owned(), Tree::of_text(why)));
        server.push((ASSUMED_AT.to_owned(), Tree::of_text(at.to_string())));
    }
    let path = [kind, "services", service, "loadBalancer", "servers"].map(str::to_owned);
    *own.place(&path) = Tree::of_items(vec![Tree::of_entries(server)]);
}

/// What was made up of a server, and where that has to be said: names that no file has.
pub const ASSUMED: &str = "assumed of a server";
pub const ASSUMED_AT: &str = "said at";

/// What is there twice is merged where both are maps; else what comes last counts.
pub fn merge(all: &mut Tree, other: Tree) {
    if all.is_nothing() || (other.is_map() && other.entries().is_empty()) {
        if !all.is_map() {
            *all = other;
        }
        return;
    }
    match other.into_entries() {
        Ok(entries) => {
            for (key, value) in entries {
                merge(all.place(&[key]), value);
            }
        }
        Err(other) if other.is_nothing() => {}
        Err(other) => *all = other,
    }
}
