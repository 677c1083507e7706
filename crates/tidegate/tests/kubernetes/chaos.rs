//! An API server that goes away, forgets, is set back, has no time, or is cut off without a word, behind clients who
//! may not notice; and how soon what happens afterwards is known.

use crate::rollout::{Clients, patterns};
use crate::shop::{HOST, SWITCHED, Scaled, Shop};
use crate::{figure, is_long};
use serde_json::json;
use std::time::{Duration, Instant};
use tidegate_testkit::control_plane::network::{CutOff, is_inside};
use tidegate_testkit::load::Goal;
use tidegate_testkit::program::signal_process;
use tidegate_testkit::tokio::task::LocalSet;
use tidegate_testkit::{Client, tokio};

/// What happens after the API server is back is known by then. A pod starts within it, so there is more of it on a
/// machine that does something else.
const RECOVERED_WITHIN: Duration = Duration::from_secs(30);
const RECOVERED_WITHIN_BESIDE_OTHERS: Duration = Duration::from_secs(90);
const CORS: &str = "nginx.ingress.kubernetes.io/enable-cors";
const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// How long the API server is away, and how long it has no time.
fn times() -> [Duration; 2] {
    let seconds = if is_long() { [600, 300] } else { [8, 8] };
    seconds.map(Duration::from_secs)
}

/// Servers are one more or less, which is known in time.
fn follows(what: &str, shop: &Shop, servers: u32) {
    let began = Instant::now();
    shop.scale(Scaled::Servers, servers);
    let took = began.elapsed();
    figure(what, &format!("a server more or less is known after {took:.1?}"));
    let bound = if is_long() { RECOVERED_WITHIN } else { RECOVERED_WITHIN_BESIDE_OTHERS };
    assert!(took < bound, "{what}: {took:?}");
}

/// The API server is not there, and servers end meanwhile.
fn goes_away(shop: &mut Shop, away: Duration) {
    let generation = shop.metrics().sum("tidegate_configuration_generation");
    shop.plane.stop_api_server().expect("it ends");
    std::thread::sleep(away / 2);
    let ended: Vec<(String, u32)> = shop.node.processes("web").into_iter().take(2).collect();
    for (_, process) in &ended {
        signal_process(*process, "TERM").expect("it runs");
    }
    // What was watched from is forgotten when it comes back.
    shop.plane.forget().expect("it forgets");
    std::thread::sleep(away / 2);
    shop.plane.start_api_server().expect("it comes back");
    let back = Instant::now();
    // A controller that was there before tries slices that it takes for outdated ever more rarely, for minutes.
    shop.plane.start_controllers().expect("they read it anew");
    shop.forgive();
    for (name, _) in ended {
        shop.plane.api().delete(&format!("/api/v1/namespaces/shop/pods/{name}")).expect("it is replaced");
    }
    shop.comes_to(Scaled::Servers, 5);
    figure("API server away", &format!("{away:?}, all pods known again {:.1?} after its return", back.elapsed()));
    let now = shop.metrics().sum("tidegate_configuration_generation");
    assert!((generation - now).abs() < 0.5, "a list without differences makes no generation: {generation} and {now}");
    follows("API server away, and back", shop, 6);
    follows("API server away, and back", shop, 5);
}

/// An annotation of a time that etcd was set back from is gone.
fn is_set_back(shop: &mut Shop) {
    let comes_to = |shop: &Shop, value: Option<&str>| {
        let began = Instant::now();
        while cors_of(shop).as_ref().map(Option::as_deref) != Ok(value) {
            let seen = cors_of(shop);
            assert!(began.elapsed() < RECOVERED_WITHIN_BESIDE_OTHERS, "{seen:?} instead of {value:?}: {}", shop.output());
            std::thread::sleep(Duration::from_millis(50));
        }
        began.elapsed()
    };
    shop.plane.back_up().expect("it is kept");
    shop.forgive();
    comes_to(shop, None);
    shop.annotate(&json!({CORS: "true"}));
    comes_to(shop, Some("*"));
    shop.plane.restore().expect("it is set back");
    shop.plane.start_controllers().expect("they read it anew");
    shop.forgive();
    figure("etcd set back", &format!("what is so again is served after {:.1?}", comes_to(shop, None)));
    shop.comes_to(Scaled::Servers, 5);
    follows("etcd set back", shop, 6);
    follows("etcd set back", shop, 5);
}

/// What pages of others are told of the path whose annotations change.
fn cors_of(shop: &Shop) -> Result<Option<String>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let Goal { secure, tls, host, .. } = &shop.goal;
    let asking = async {
        let mut client = Client::connect_tls(*secure, tls.clone(), host).await?;
        let request = format!("GET {SWITCHED} HTTP/1.1\r\nHost: {host}\r\nOrigin: https://pages.{HOST}\r\n\r\n");
        client.connection.write(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let answer = client.receive().await?;
        let value = answer.head.value("access-control-allow-origin");
        Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
    };
    LocalSet::new().block_on(&runtime, asking)
}

/// The program is refused with 429, whatever it asks.
fn has_no_time(shop: &mut Shop, busy: Duration) {
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "none"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"},
        }},
    });
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "none"},
        "spec": {"matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "none"}, "rules": [{
            "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "tidegate"}}],
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
            }],
        }]},
    });
    let api = shop.plane.api();
    api.create(&format!("{FLOWS}/prioritylevelconfigurations"), &level).expect("a level");
    api.create(&format!("{FLOWS}/flowschemas"), &schema).expect("a schema");
    // Watches that stand go on: they are to be begun anew.
    shop.plane.stop_api_server().expect("it ends");
    shop.plane.start_api_server().expect("it comes back");
    shop.forgive();
    std::thread::sleep(busy);
    let stale = shop.metrics().sum("tidegate_kubernetes_watch_stale_seconds{kind=\"Ingress\"}");
    assert!(stale >= busy.as_secs_f64() / 2.0, "it is refused, and heard of something {stale} s ago");
    shop.plane.api().delete(&format!("{FLOWS}/flowschemas/none")).expect("it has time");
    follows("429", shop, 6);
    follows("429", shop, 5);
}

/// Connections of the program lead nowhere, and nobody says so.
fn is_cut_off(shop: &Shop) {
    let cut = CutOff::of(shop.process(), shop.plane.port(), shop.plane.folder()).expect("it has connections");
    follows("half-open connections", shop, 6);
    drop(cut);
    follows("half-open connections", shop, 5);
}

#[test]
fn an_api_server_that_is_away_forgets_or_has_no_time_is_not_noticed() {
    if !is_inside("chaos::an_api_server_that_is_away_forgets_or_has_no_time_is_not_noticed").expect("it passes inside") {
        return;
    }
    let Some(mut shop) = Shop::open(5) else { return };
    let [away, busy] = times();
    let clients = Clients::start(&shop, &[60], &patterns());
    goes_away(&mut shop, away);
    assert!(clients.is_clean() || !is_long(), "while the API server was away");
    is_set_back(&mut shop);
    assert!(clients.is_clean() || !is_long(), "while etcd was set back");
    has_no_time(&mut shop, busy);
    is_cut_off(&shop);
    clients.finish("API server away, set back, busy, cut off", &shop);
}
