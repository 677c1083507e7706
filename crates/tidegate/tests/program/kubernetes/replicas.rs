//! Several processes on one cluster: all come to the same whatever order things come in, and one of them writes, no
//! more than has to be written. Sizes and times are printed; `INGRESSES=300 SECONDS=30` is what was measured for the
//! documentation.

use super::controller::{Controller, class, ingress, service, slice};
use super::{cluster, server, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tidegate_testkit::kubernetes::ApiServer;
use tidegate_testkit::{asked_as, get};

const INGRESSES: usize = 60;
const SECONDS: usize = 4;
/// What every status has to say so soon after the last change.
const RIGHT_WITHIN: Duration = Duration::from_secs(10);
/// Until another process writes in the place of one that was killed.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(20);
const REPLICAS: usize = 5;
const COLLECTION: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";

fn of_environment(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Numbers that look random, the same for each seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            items.swap(place, self.below(place + 1));
        }
    }
}

/// An Ingress of one of many shapes, some of them wrong.
fn shaped(number: usize, shape: usize) -> Value {
    let mut object = ingress(&format!("i{number}"), &format!("h{}.example.com", number / 2), "one");
    let path = &mut object["spec"]["rules"][0]["http"]["paths"][0];
    path["path"] = format!("/{}", shape % 5).into();
    match shape % 7 {
        0 => path["pathType"] = "Exact".into(),
        1 => path["backend"]["service"]["name"] = "missing".into(),
        2 => object["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/rewrite-target": "/"}),
        3 => object["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/whitelist-source-range": "10.0.0.0/8"}),
        4 => object["spec"]["tls"] = json!([{"hosts": [format!("h{}.example.com", number / 2)], "secretName": "missing"}]),
        5 => object["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/limit-rps": "5"}),
        _ => {}
    }
    object
}

/// Writes of statuses so far.
fn statuses_written(cluster: &ApiServer) -> usize {
    cluster.writes().iter().filter(|write| write.what.starts_with("patch ingresses/status")).count()
}

fn status_of(cluster: &ApiServer, name: &str) -> Value {
    cluster.get(&ingress(name, "", "")).map(|found| found["status"]["loadBalancer"]["ingress"].clone()).unwrap_or_default()
}

/// How many writes were made by this process, as it counts them itself.
fn written_by(controller: &Controller) -> usize {
    let metrics = get(&controller.admin, "/metrics").map(|(_, text)| text).unwrap_or_default();
    let line = metrics.lines().find_map(|line| line.strip_prefix("tidegate_kubernetes_writes_total{what=\"status\"} "));
    line.and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// What another controller does to its own Ingresses meanwhile, and to what is not its: labels on ours.
fn meddle(cluster: &ApiServer, random: &mut Random, ingresses: usize, round: usize) {
    let foreign = format!("other{}", random.below(10));
    let path = format!("{COLLECTION}/{foreign}/status");
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": format!("198.51.100.{}", 1 + round % 200)}]}}});
    cluster.api().merge(&path, &status).expect("a status");
    let ours = format!("{COLLECTION}/i{}", random.below(ingresses));
    // The Ingress may just be away.
    let _ = cluster.api().merge(&ours, &json!({"metadata": {"labels": {"seen": round.to_string()}}}));
}

#[test]
fn a_storm_of_events_becomes_no_more_writes_than_true_changes() {
    let (ingresses, seconds) = (of_environment("INGRESSES", INGRESSES), of_environment("SECONDS", SECONDS));
    let (cluster, one) = (cluster(), server("one"));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    cluster.put(service("one"));
    cluster.put(slice("one", &[&one]));
    for number in 0..ingresses {
        cluster.put(shaped(number, number));
    }
    for number in 0..10 {
        let mut foreign = ingress(&format!("other{number}"), "other.example.com", "one");
        foreign["spec"]["ingressClassName"] = "other".into();
        cluster.put(foreign);
    }
    let more = ["--publish-address", "203.0.113.7"];
    let (mut first, second) = (Controller::start(&cluster, &more), Controller::start(&cluster, &more));
    let expected = json!([{"ip": "203.0.113.7"}]);
    let names = || (0..ingresses).map(|number| format!("i{number}"));
    let are_right = || names().all(|name| status_of(&cluster, &name) == expected);
    until(&first, "all statuses", are_right);
    assert_eq!(statuses_written(&cluster), ingresses, "each once");
    // A change is true when a status has to be written: an Ingress came, or somebody has taken its status away.
    let (before, began, mut true_changes, mut events, mut round) = (statuses_written(&cluster), Instant::now(), 0, 0, 0);
    while began.elapsed() < Duration::from_secs(seconds as u64) {
        let number = random.below(ingresses);
        match random.below(20) {
            0 => {
                cluster.remove(&shaped(number, 0));
                cluster.put(shaped(number, random.below(35)));
                (true_changes, events) = (true_changes + 1, events + 2);
            }
            1 => {
                let path = format!("{COLLECTION}/i{number}/status");
                if status_of(&cluster, &format!("i{number}")) == expected {
                    cluster.api().merge(&path, &json!({"status": {"loadBalancer": {"ingress": null}}})).expect("a status");
                    true_changes += 1;
                }
                events += 1;
            }
            2 => meddle(&cluster, &mut random, ingresses, round),
            _ => {
                let spec = shaped(number, random.below(35));
                let patch = json!({"metadata": {"annotations": spec["metadata"]["annotations"]}, "spec": spec["spec"]});
                cluster.api().merge(&format!("{COLLECTION}/i{number}"), &patch).expect("an Ingress");
                events += 1;
            }
        }
        round += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    let foreign = |number: usize| status_of(&cluster, &format!("other{number}"));
    let foreign_before: Vec<Value> = (0..10).map(foreign).collect();
    let quiet = Instant::now();
    until(&first, "all statuses after the storm", are_right);
    let right_after = quiet.elapsed();
    assert!(right_after <= RIGHT_WITHIN, "right after {right_after:?}");
    std::thread::sleep(Duration::from_secs(2));
    let written = statuses_written(&cluster) - before - meddled(&cluster) - wiped(&cluster);
    println!(
        "{ingresses} Ingresses, {events} events in {seconds} s: right {right_after:?} after quiet, {written} writes for {true_changes} true changes"
    );
    assert!(written as f64 <= 1.2 * f64::from(true_changes) + 1.0, "{written} writes for {true_changes} true changes");
    assert_eq!((0..10).map(foreign).collect::<Vec<_>>(), foreign_before, "statuses of others stay as they are");

    // The one that writes is killed: the other one does, and only what has to be.
    let (leader, other) = if written_by(&first) > 0 { (&mut first, &second) } else { panic!("the first process leads") };
    assert_eq!(written_by(other), 0, "one of them writes");
    leader.program.signal("KILL").expect("a signal");
    let (killed, before) = (Instant::now(), statuses_written(&cluster));
    cluster.put(ingress("late", "late.example.com", "one"));
    until(other, "a status by the other process", || status_of(&cluster, "late") == expected);
    let taken_over = killed.elapsed();
    std::thread::sleep(Duration::from_secs(2));
    println!("the other process wrote {taken_over:?} after the first was killed");
    assert!(taken_over <= TAKEN_OVER_WITHIN, "after {taken_over:?}");
    assert_eq!(statuses_written(&cluster) - before, 1, "nothing is written that is right");
}

/// Statuses that the other controller has written.
fn meddled(cluster: &ApiServer) -> usize {
    cluster.writes().iter().filter(|write| write.what.starts_with("patch ingresses/status shop/other")).count()
}

/// Statuses that were taken away.
fn wiped(cluster: &ApiServer) -> usize {
    let is_wiped = |body: &Value| body["status"]["loadBalancer"]["ingress"].is_null();
    cluster.writes().iter().filter(|write| write.what.starts_with("patch ingresses/status") && is_wiped(&write.body)).count()
}

/// Where two texts begin to be different.
fn first_difference(left: &str, right: &str) -> String {
    let same = left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count();
    let around = |text: &str| {
        String::from_utf8_lossy(text.as_bytes().get(same.saturating_sub(200)..).unwrap_or_default())
            .chars()
            .take(400)
            .collect::<String>()
    };
    format!("{}\nand not\n{}", around(right), around(left))
}

/// What runs, but for the ports of the process and of its API server.
fn digest(controller: &Controller, cluster: &ApiServer) -> String {
    let token = std::fs::read_to_string(controller.places.folder().join("state/admin-token")).expect("a token");
    let (status, text) = asked_as(&controller.admin, "/v1/configuration?defaults=true", token.trim()).expect("an answer");
    assert_eq!(status, 200, "{text}");
    let ports = [(controller.http.to_string(), "HTTP"), (controller.https.to_string(), "HTTPS"), (cluster.url(), "API")];
    let text = ports.iter().fold(text, |text, (address, name)| text.replace(address, name));
    let value: Value = serde_json::from_str(&text).expect("JSON");
    // Beside it are the places of the process.
    json!([value["sites"], value["pools"], value["listeners"]]).to_string()
}

#[test]
fn five_processes_come_to_the_same_whatever_order_things_come_in() {
    let ingresses = of_environment("INGRESSES", INGRESSES);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let one = server("one");
    let mut last: BTreeMap<String, Value> = BTreeMap::new();
    let mut history = Vec::new();
    for _ in 0..3 * ingresses {
        let number = random.below(ingresses);
        let object = shaped(number, random.below(35));
        history.push(object.clone());
        last.insert(format!("i{number}"), object);
    }
    let clusters: Vec<ApiServer> = (0..REPLICAS).map(|_| ApiServer::start().expect("a port is free")).collect();
    let started: Vec<Controller> = clusters
        .iter()
        .enumerate()
        .map(|(place, cluster)| {
            let mut begin = vec![class(), service("one"), slice("one", &[&one])];
            random.shuffle(&mut begin);
            // Some know everything when they start, others nothing.
            let mut controller = if place % 2 == 0 {
                for object in begin {
                    cluster.put(object);
                }
                Controller::start(cluster, &["--status", "off"])
            } else {
                let mut order: Vec<&Value> = last.values().collect();
                random.shuffle(&mut order);
                for object in order {
                    cluster.put(object.clone());
                }
                for object in begin {
                    cluster.put(object);
                }
                Controller::start(cluster, &["--status", "off"])
            };
            let mut events = history.clone();
            random.shuffle(&mut events);
            for (position, event) in events.into_iter().enumerate() {
                cluster.put(event);
                if position % (2 * ingresses) == ingresses {
                    cluster.end_watches();
                    if place == 2 {
                        controller.kill_and_begin();
                        controller.wait_until_ready();
                    }
                }
            }
            let mut order: Vec<&Value> = last.values().collect();
            random.shuffle(&mut order);
            for object in order {
                cluster.put(object.clone());
            }
            cluster.put(ingress("last", "last.example.com", "one"));
            controller
        })
        .collect();
    for controller in &started {
        controller.wait_for("last.example.com", "/", 200, "one");
    }
    let expected = digest(&started[0], &clusters[0]);
    assert!(expected.contains("h0.example.com") && expected.len() > 10_000, "{}", expected.len());
    for (controller, cluster) in started.iter().zip(&clusters) {
        let begin = Instant::now();
        // An Ingress keeps for half a second what it was before its Secret is known: the first may not be quiet either.
        loop {
            let (expected, seen) = (digest(&started[0], &clusters[0]), digest(controller, cluster));
            if seen == expected {
                break;
            }
            let differs = first_difference(&expected, &seen);
            assert!(begin.elapsed() < RIGHT_WITHIN, "{differs}\n{}", controller.program.output());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    println!(
        "{REPLICAS} processes, {} events each in an order of its own: {} bytes alike",
        history.len() + last.len(),
        expected.len()
    );
}
