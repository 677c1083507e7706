//! How much is looked at when something changes: counted, since time is measured elsewhere. With `--nocapture` the time
//! is printed all the same.

use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;
use tidegate_cluster::{Changes, WrittenCluster};
use tidegate_kubernetes::{Settings, Translation, Work};
use tidegate_model::discover::{Cluster, Namespaces};
use tidegate_model::{Configuration, Site};

const INGRESSES: usize = 10_000;

struct Scale {
    cluster: WrittenCluster,
    translation: Translation,
    now: Instant,
}

impl Scale {
    /// [`INGRESSES`] of them, each with a path and a Service of its own, on the host that `host` gives.
    fn new(host: impl Fn(usize) -> String) -> Scale {
        let now = Instant::now();
        let settings = Settings {
            class_names: vec!["edge".to_owned()],
            ..Settings::new(Cluster { api: None, namespaces: Namespaces::All })
        };
        let mut scale = Scale { cluster: WrittenCluster::new(now), translation: Translation::new(settings), now };
        for number in 0..INGRESSES {
            scale.put_service(number, 80);
            scale.put_ingress(number, &host(number), "/a");
        }
        let begin = Instant::now();
        scale.translation.take_in(scale.cluster.cache(), None, now);
        let merged = scale.translation.merged(&Configuration::default());
        println!("{INGRESSES} Ingresses, {} sites: {:?}", merged.sites.len(), begin.elapsed());
        assert_eq!(merged.pools.len(), INGRESSES);
        assert_eq!(scale.translation.findings().next(), None);
        scale
    }

    fn put_ingress(&mut self, number: usize, host: &str, path: &str) -> Changes {
        let backend = json!({"service": {"name": format!("web-{number}"), "port": {"number": 80}}});
        let object = json!({"kind": "Ingress", "metadata": {"namespace": "shop", "name": format!("web-{number}")},
            "spec": {"ingressClassName": "edge", "rules": [{"host": host,
                "http": {"paths": [{"path": format!("/{number}{path}"), "pathType": "Prefix", "backend": backend}]}}]}});
        self.cluster.put(object.to_string().as_bytes()).expect("an Ingress")
    }

    fn put_service(&mut self, number: usize, port: u16) -> Changes {
        let object = json!({"kind": "Service", "metadata": {"namespace": "shop", "name": format!("web-{number}")},
            "spec": {"ports": [{"port": port}]}});
        self.cluster.put(object.to_string().as_bytes()).expect("a Service")
    }

    /// What is done for these changes.
    fn check(&mut self, what: &str, changes: &Changes, expected: Work, sites_kept: usize) {
        let before = self.translation.work();
        let known = self.translation.merged(&Configuration::default());
        let begin = Instant::now();
        self.translation.take_in(self.cluster.cache(), Some(changes), self.now);
        let merged = self.translation.merged(&Configuration::default());
        println!("{what}: {:?}", begin.elapsed());
        let after = self.translation.work();
        let done = Work {
            ingresses: after.ingresses - before.ingresses,
            hosts: after.hosts - before.hosts,
            ports: after.ports - before.ports,
        };
        assert_eq!(done, expected, "{what}");
        let known: HashSet<*const Site> = known.sites.iter().map(Arc::as_ptr).collect();
        let kept = merged.sites.iter().filter(|site| known.contains(&Arc::as_ptr(site))).count();
        assert_eq!(kept, sites_kept, "{what}");
    }
}

#[test]
fn a_change_among_ten_thousand_ingresses_of_one_host_merges_that_host() {
    let host = || "shop.example.com".to_owned();
    let mut scale = Scale::new(|_| host());
    let changes = scale.put_ingress(5000, &host(), "/b");
    scale.check("a path", &changes, Work { ingresses: 1, hosts: 1, ports: 0 }, 1);
    let changes = scale.put_service(5000, 81);
    scale.check("a Service", &changes, Work { ingresses: 0, hosts: 0, ports: 1 }, 2);
}

#[test]
fn a_change_among_ten_thousand_hosts_touches_its_own() {
    let host = |number: usize| format!("shop-{number}.example.com");
    let mut scale = Scale::new(host);
    let changes = scale.put_ingress(5000, &host(5000), "/b");
    scale.check("a path", &changes, Work { ingresses: 1, hosts: 1, ports: 0 }, INGRESSES);
    let changes = scale.put_ingress(5000, &host(4999), "/b");
    scale.check("another host", &changes, Work { ingresses: 1, hosts: 2, ports: 0 }, INGRESSES - 1);
}
