//! The labels of containers, which are a configuration of Traefik in a file of Compose.

use super::outline;
use crate::foreign::outline::Outline;
use crate::foreign::tree::Tree;

/// The labels of a file of Compose, with the services that they are of. Each is asked under its own name, as containers
/// of one network are.
pub fn of_compose(tree: &Tree) -> Outline {
    let mut all = Tree::of_entries(Vec::new());
    for (name, service) in tree.get("services").entries() {
        let mut own = Tree::of_entries(Vec::new());
        for labels in [service.get("labels"), service.at(&["deploy", "labels"])] {
            for (key, value, at) in labels_of(labels) {
                let Some(key) = key.strip_prefix("traefik.") else { continue };
                let path: Vec<String> =
                    key.split('.').map(|part| part.split('[').next().unwrap_or_default().to_owned()).take(12).collect();
                let place = own.place(&path);
                // What is said of it in more words counts.
                if !place.is_map() {
                    *place = Tree::of_text(value).standing_at(at);
                }
            }
        }
        fill_services(&mut own, name, service);
        merge(&mut all, own);
    }
    let mut statics = Tree::of_entries(Vec::new());
    for (_, service) in tree.get("services").entries() {
        for item in service.get("command").items() {
            for flag in item.text().unwrap_or_default().split_whitespace() {
                if let Some((key, value)) = flag.trim_start_matches('-').split_once('=') {
                    let path: Vec<String> = key.split('.').map(str::to_owned).take(12).collect();
                    *statics.place(&path) = Tree::of_text(value).standing_at(item.start());
                }
            }
        }
    }
    merge(&mut all, statics);
    outline(&[all])
}

/// `a=b` in a list, or `a: b` in a map, and where each stands.
fn labels_of(labels: &Tree) -> Vec<(String, String, usize)> {
    let of_list = labels.items().iter().filter_map(|item| Some((item.text()?.split_once('=')?, item.start())));
    let of_list = of_list.map(|((key, value), at)| (key, value, at));
    let of_map = labels.entries().iter().map(|(key, value)| (key.as_str(), value.text().unwrap_or("true"), value.start()));
    of_list.chain(of_map).map(|(key, value, at)| (key.to_owned(), value.trim_matches(['"', '\'']).to_owned(), at)).collect()
}

/// Servers are the containers: what the labels say of them is the port.
fn fill_services(own: &mut Tree, name: &str, compose: &Tree) {
    for (kind, key) in [("http", "url"), ("tcp", "address")] {
        let routers: Vec<(String, Option<String>)> = own
            .at(&[kind, "routers"])
            .entries()
            .iter()
            .map(|(router, value)| (router.clone(), value.get("service").text().map(str::to_owned)))
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
            let balancer = own.at(&[kind, "services", &service, "loadBalancer", "server"]);
            let told = balancer.get("port").number();
            let at = balancer.get("port").start();
            let scheme = balancer.get("scheme").text().map(|scheme| format!("{scheme}://")).unwrap_or_default();
            let exposed = || {
                compose
                    .get("expose")
                    .items()
                    .iter()
                    .chain(compose.get("ports").items())
                    .find_map(|port| port.text()?.rsplit(':').next()?.split('/').next()?.parse::<u64>().ok())
            };
            let port = told.or_else(exposed).unwrap_or(80);
            let path = [kind, "services", &service, "loadBalancer", "servers"].map(str::to_owned);
            let url = Tree::of_text(format!("{scheme}{name}:{port}")).standing_at(at);
            *own.place(&path) = Tree::of_items(vec![Tree::of_entries(vec![(key.to_owned(), url)])]);
            let path = [kind, "routers", &router, "service"].map(str::to_owned);
            let at = own.at(&[kind, "routers", &router, "service"]).start();
            *own.place(&path) = Tree::of_text(service).standing_at(at);
        }
    }
}

fn merge(all: &mut Tree, other: Tree) {
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
