//! The layer rule: which of our crates may use which. One table, checked against what cargo resolved.
//! ARCHITECTURE.md explains the order; a change to this table is a change to the architecture.

use crate::finding::Finding;
use crate::graph::{Graph, NeedKind, Package};

/// One crate and what of ours it may need to be built. Development dependencies may add `testkit`.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
}

/// From the nouns at the bottom to the program at the top. A crate uses only what stands above it here.
const LAYERS: &[Layer] = &[
    Layer { name: "model", may_use: &[] },
    Layer { name: "api", may_use: &[] },
    Layer { name: "wire", may_use: &[] },
    Layer { name: "balancing", may_use: &["model"] },
    Layer { name: "limiting", may_use: &[] },
    Layer { name: "cache", may_use: &[] },
    Layer { name: "fastcgi", may_use: &[] },
    Layer { name: "coding", may_use: &["model"] },
    Layer { name: "compare", may_use: &["model", "coding"] },
    Layer { name: "files", may_use: &["model", "wire"] },
    Layer { name: "kdl", may_use: &[] },
    Layer { name: "parallel", may_use: &[] },
    Layer { name: "access", may_use: &["model"] },
    Layer { name: "passwords", may_use: &["access"] },
    Layer { name: "tables", may_use: &["model"] },
    Layer { name: "geo", may_use: &["model"] },
    Layer { name: "routing", may_use: &["model", "wire", "access", "tables", "geo"] },
    Layer { name: "telemetry", may_use: &["model"] },
    Layer { name: "transport", may_use: &["wire", "telemetry"] },
    Layer {
        name: "middleware",
        may_use: &["model", "wire", "access", "fastcgi", "routing", "limiting", "tables", "geo", "telemetry"],
    },
    Layer { name: "message", may_use: &["wire", "transport"] },
    Layer { name: "exchange", may_use: &["model", "wire", "access", "transport", "middleware", "message"] },
    Layer { name: "upstream", may_use: &["model", "wire", "balancing", "fastcgi", "telemetry", "transport", "message"] },
    Layer {
        name: "proxy",
        may_use: &[
            "model",
            "wire",
            "access",
            "balancing",
            "limiting",
            "cache",
            "coding",
            "fastcgi",
            "files",
            "geo",
            "passwords",
            "routing",
            "tables",
            "telemetry",
            "transport",
            "middleware",
            "message",
            "exchange",
            "upstream",
        ],
    },
    Layer { name: "foreign", may_use: &["model", "kdl"] },
    Layer { name: "config", may_use: &["foreign", "model", "kdl", "parallel", "passwords", "routing", "tables"] },
    Layer { name: "explain", may_use: &["model", "api", "wire", "routing", "limiting", "tables", "geo", "middleware", "config"] },
    Layer { name: "ocsp", may_use: &[] },
    Layer { name: "outbound", may_use: &["transport"] },
    Layer { name: "certs", may_use: &["model", "parallel", "ocsp", "outbound", "transport", "telemetry"] },
    Layer { name: "cert-import", may_use: &["model", "certs"] },
    Layer { name: "health", may_use: &["model", "wire", "fastcgi", "transport", "outbound"] },
    Layer { name: "cluster", may_use: &["model", "outbound"] },
    // The loader reads what its tests write.
    Layer { name: "kubernetes", may_use: &["model", "passwords", "foreign", "config", "certs", "cluster"] },
    Layer { name: "discovery", may_use: &["model", "kdl", "outbound"] },
    Layer { name: "storage", may_use: &["model", "cluster", "outbound"] },
    Layer { name: "dns-records", may_use: &["model", "outbound"] },
    Layer { name: "acme", may_use: &["model", "certs", "outbound", "storage", "dns-records"] },
    Layer {
        name: "control",
        may_use: &[
            "model",
            "cluster",
            "kubernetes",
            "api",
            "access",
            "parallel",
            "balancing",
            "cache",
            "config",
            "upstream",
            "explain",
            "proxy",
            "certs",
            "ocsp",
            "health",
            "discovery",
            "outbound",
            "storage",
            "acme",
            "tables",
            "geo",
            "telemetry",
            "transport",
        ],
    },
    Layer { name: "admin", may_use: &["model", "api", "config", "explain", "control", "outbound", "telemetry"] },
    Layer {
        name: "commands",
        may_use: &[
            "model",
            "api",
            "wire",
            "balancing",
            "coding",
            "compare",
            "fastcgi",
            "files",
            "passwords",
            "routing",
            "telemetry",
            "transport",
            "middleware",
            "proxy",
            "foreign",
            "config",
            "explain",
            "outbound",
            "certs",
            "cert-import",
            "health",
            "discovery",
            "storage",
            "acme",
            "cluster",
            "kubernetes",
            "control",
            "admin",
        ],
    },
    // Tests of the whole program write configurations and look into storage.
    Layer { name: "tidegate", may_use: &["commands", "model", "config", "control", "storage", "acme"] },
    // For tests and the lab: what is in front of its pods is a process to it.
    Layer { name: "local-cluster", may_use: &[] },
    Layer { name: "testkit", may_use: &["local-cluster"] },
    // Of the proxy the lab's relay only, which shows what a driver costs. Whoever measures uses nothing of what is
    // measured.
    Layer { name: "lab", may_use: &["transport", "local-cluster"] },
    // Applications behind the program, which is a process to it as well.
    Layer { name: "apps", may_use: &["testkit"] },
    Layer { name: "xtask", may_use: &[] },
];

/// Pure cores: data and `now` in, decisions out. A runtime anywhere beneath them would be a clock and a socket.
const WITHOUT_RUNTIME: &[&str] = &[
    "model",
    "wire",
    "balancing",
    "limiting",
    "kdl",
    "passwords",
    "access",
    "tables",
    "routing",
    "coding",
    "compare",
    "middleware",
    "foreign",
    "config",
    "explain",
    "ocsp",
];
/// The data plane sees the runtime only through `transport`, so that another driver can take its place.
const WITHOUT_RUNTIME_OF_THEIR_OWN: &[&str] = &["message", "upstream", "proxy", "telemetry", "certs"];
const RUNTIMES: &[&str] = &["tokio", "mio"];

/// Only these speak JSON or write files for other programs. `explain` and `control` fill the types of `api`, and never
/// see them as text.
const MAY_SERIALISE: &[&str] = &[
    "api",
    "cert-import",
    "compare",
    "config",
    "cluster",
    "discovery",
    "storage",
    "dns-records",
    "acme",
    "admin",
    "commands",
    "local-cluster",
    "testkit",
    "lab",
    "apps",
    "xtask",
];
const SERIALISERS: &[&str] = &["serde", "serde_core", "serde_derive", "serde_json"];

pub fn check(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in graph.ours() {
        let name = short(&package.name);
        let refuse = |message: String| Finding::whole(&manifest(name), "layer", message);
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
            findings.push(refuse(format!("`{name}` has no place in the table of layers")));
            continue;
        };
        findings.extend(not_allowed(graph, package, layer).into_iter().map(refuse));
        findings.extend(runtimes(graph, package, name).into_iter().map(refuse));
        for kind in [NeedKind::Normal, NeedKind::Build] {
            for need in graph.direct(package, kind) {
                if SERIALISERS.contains(&need.name.as_str()) && !MAY_SERIALISE.contains(&name) {
                    findings.push(refuse(format!("`{name}` uses {}; only {} may", need.name, MAY_SERIALISE.join(", "))));
                }
            }
        }
    }
    findings
}

fn not_allowed(graph: &Graph, package: &Package, layer: &Layer) -> Vec<String> {
    let mut messages = Vec::new();
    for kind in [NeedKind::Normal, NeedKind::Build, NeedKind::Development] {
        for need in graph.direct(package, kind).into_iter().filter(|need| need.ours) {
            let used = short(&need.name);
            let is_for_tests = kind == NeedKind::Development && (used == "testkit" || used == layer.name);
            if !layer.may_use.contains(&used) && !is_for_tests {
                let allowed = if layer.may_use.is_empty() { "none of ours".to_owned() } else { layer.may_use.join(", ") };
                messages.push(format!("`{}` uses `{used}`; it may use {allowed}", layer.name));
            }
        }
    }
    messages
}

fn runtimes(graph: &Graph, package: &Package, name: &str) -> Vec<String> {
    let is_runtime = |name: &str| RUNTIMES.contains(&name);
    if WITHOUT_RUNTIME.contains(&name) {
        let ways = graph.reachable(&[package], false);
        let found = ways.into_values().filter(|way| way.last().is_some_and(|last| is_runtime(last)));
        return found.map(|way| format!("`{name}` must not contain a runtime: {}", way.join(" > "))).collect();
    }
    if WITHOUT_RUNTIME_OF_THEIR_OWN.contains(&name) {
        let direct = graph.direct(package, NeedKind::Normal).into_iter().filter(|need| is_runtime(&need.name));
        return direct.map(|need| format!("`{name}` uses {}; it goes through `transport`", need.name)).collect();
    }
    Vec::new()
}

/// `tidegate-wire` is `wire`; the program itself is `tidegate`.
fn short(package: &str) -> &str {
    package.strip_prefix("tidegate-").unwrap_or(package)
}

fn manifest(name: &str) -> String {
    match name {
        "lab" | "apps" | "xtask" => format!("{name}/Cargo.toml"),
        _ => format!("crates/{name}/Cargo.toml"),
    }
}

#[cfg(test)]
mod tests {
    use super::{LAYERS, check};
    use crate::graph::parse;

    fn check_graph(text: &str, expected: &[&str]) {
        let seen: Vec<String> = check(&parse(text)).iter().map(ToString::to_string).collect();
        assert_eq!(seen, expected, "for {text}");
    }

    #[test]
    fn a_crate_uses_only_what_its_layer_may() {
        check_graph("tidegate-model ours\ntidegate-routing ours tidegate-model", &[]);
        check_graph(
            "tidegate-model ours tidegate-wire\ntidegate-wire ours",
            &["crates/model/Cargo.toml: layer: `model` uses `wire`; it may use none of ours"],
        );
        check_graph(
            "tidegate-telemetry ours tidegate-model build:tidegate-wire\ntidegate-model ours\ntidegate-wire ours",
            &["crates/telemetry/Cargo.toml: layer: `telemetry` uses `wire`; it may use model"],
        );
        check_graph(
            "lab ours tidegate-model\ntidegate-model ours",
            &["lab/Cargo.toml: layer: `lab` uses `model`; it may use transport, local-cluster"],
        );
        check_graph("tidegate-shed ours", &["crates/shed/Cargo.toml: layer: `shed` has no place in the table of layers"]);
    }

    #[test]
    fn tests_may_use_the_testkit() {
        check_graph("tidegate-wire ours dev:tidegate-testkit\ntidegate-testkit ours", &[]);
        check_graph(
            "tidegate-wire ours tidegate-testkit\ntidegate-testkit ours",
            &["crates/wire/Cargo.toml: layer: `wire` uses `testkit`; it may use none of ours"],
        );
        check_graph(
            "tidegate-wire ours dev:tidegate-model\ntidegate-model ours",
            &["crates/wire/Cargo.toml: layer: `wire` uses `model`; it may use none of ours"],
        );
    }

    #[test]
    fn pure_crates_contain_no_runtime_however_deep() {
        check_graph(
            "tidegate-wire ours a\na 1.0 tokio\ntokio 1.0",
            &["crates/wire/Cargo.toml: layer: `wire` must not contain a runtime: tidegate-wire > a > tokio"],
        );
        check_graph("tidegate-wire ours dev:tokio\ntokio 1.0", &[]);
        check_graph("tidegate-transport ours tokio\ntokio 1.0", &[]);
        check_graph("tidegate-proxy ours h2\nh2 0.4 tokio\ntokio 1.0", &[]);
        check_graph(
            "tidegate-proxy ours tokio\ntokio 1.0",
            &["crates/proxy/Cargo.toml: layer: `proxy` uses tokio; it goes through `transport`"],
        );
    }

    #[test]
    fn only_named_crates_serialise() {
        check_graph("tidegate-config ours serde\nserde 1.0", &[]);
        check_graph(
            "tidegate-model ours serde\nserde 1.0",
            &[
                "crates/model/Cargo.toml: layer: `model` uses serde; only api, cert-import, compare, config, cluster, discovery, storage, dns-records, acme, admin, commands, local-cluster, testkit, lab, apps, xtask may",
            ],
        );
    }

    #[test]
    fn the_table_points_one_way() {
        for (position, layer) in LAYERS.iter().enumerate() {
            for used in layer.may_use {
                assert!(LAYERS[..position].iter().any(|below| below.name == *used), "`{}` uses `{used}`", layer.name);
            }
        }
    }
}
