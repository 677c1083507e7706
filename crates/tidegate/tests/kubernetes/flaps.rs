//! Endpoints that come and go a thousand times a minute beside many others, under load: nobody may get a wrong answer,
//! and it may cost next to nothing.

use crate::rollout::Clients;
use crate::shop::{HOST, Scaled, Shop};
use crate::{figure, is_long};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tidegate_testkit::control_plane::network::is_inside;
use tidegate_testkit::control_plane::{Api, ControlPlane};
use tidegate_testkit::load::Order;

/// A thousand in a minute.
const PAUSE: Duration = Duration::from_millis(60);
/// Who makes objects.
const MAKERS: usize = 8;
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
const SERVICES: &str = "/api/v1/namespaces/shop/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
/// Whose endpoints the test writes, and clients ask for.
const FLAPPING: &str = "flapping";
/// Ticks of a processor's time in a second (`getconf CLK_TCK`), everywhere on Linux.
const TICKS: f64 = 100.0;

/// How many Ingresses there are beside the shop's, and for how long endpoints come and go.
fn size() -> (usize, Duration) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (ingresses, seconds) = if is_long() { (10_000, 600) } else { (200, 10) };
    (number("INGRESSES").unwrap_or(ingresses), Duration::from_secs(number("FLAP_SECONDS").unwrap_or(seconds as usize) as u64))
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"name": "http", "port": 80}]}})
}

/// Endpoints of a Service; the one whose number is `away` is not ready.
fn slice(name: &str, addresses: &[String], away: Option<usize>) -> Value {
    let endpoint = |(place, address): (usize, &String)| {
        let is_ready = Some(place) != away;
        json!({"addresses": [address], "conditions": {"ready": is_ready, "serving": is_ready, "terminating": false}})
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": addresses.iter().enumerate().map(endpoint).collect::<Vec<_>>(),
    })
}

fn ingress(name: &str, host: &str) -> Value {
    let backend = json!({"service": {"name": name, "port": {"number": 80}}});
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name},
        "spec": {"ingressClassName": "tidegate", "rules": [{"host": host, "http": {"paths": [
            {"path": "/bytes/2000", "pathType": "Prefix", "backend": backend},
        ]}}]},
    })
}

/// A Service of its own for each, with ten servers that nobody asks.
fn make_others(plane: &ControlPlane, count: usize) {
    std::thread::scope(|all| {
        for maker in 0..MAKERS {
            let api = plane.api();
            all.spawn(move || {
                for number in (maker..count).step_by(MAKERS) {
                    let name = format!("other-{number}");
                    api.create(SERVICES, &service(&name)).expect("a Service");
                    let address = |last: usize| format!("10.245.{}.{}", number % 250, (number / 250) * 10 % 240 + last + 1);
                    let addresses: Vec<String> = (0..10).map(address).collect();
                    api.create(SLICES, &slice(&name, &addresses, None)).expect("a slice");
                    api.create(INGRESSES, &ingress(&name, &format!("{name}.example"))).expect("an Ingress");
                }
            });
        }
    });
}

/// One endpoint after the other goes and comes back, of the Service that is asked for and of others in turns. Gives how
/// many changes there were.
fn flap(api: &Api, addresses: &[String], others: usize, lasts: Duration) -> u64 {
    let (began, mut flaps) = (Instant::now(), 0);
    while began.elapsed() < lasts {
        let turn = flaps as usize;
        let object = if turn.is_multiple_of(2) {
            let away = Some(turn / 4 % addresses.len()).filter(|_| (turn / 2).is_multiple_of(2));
            slice(FLAPPING, addresses, away)
        } else {
            let (number, is_away) = (turn / 4 % others, (turn / 2).is_multiple_of(2));
            let name = format!("other-{number}");
            slice(&name, &["10.245.0.1", "10.245.0.2", "10.245.0.3"].map(str::to_owned), is_away.then_some(0))
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        api.merge(&format!("{SLICES}/{name}"), &json!({"endpoints": object["endpoints"]})).expect("it changes");
        flaps += 1;
        std::thread::sleep((PAUSE * flaps as u32).saturating_sub(began.elapsed()));
    }
    flaps
}

/// Processor time of all threads but workers, in seconds.
fn control_seconds(process: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten();
    let ticks = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let is_worker = name.strip_prefix("tidegate-").is_some_and(|number| number.parse::<u32>().is_ok());
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let spent = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        (!is_worker).then_some(spent)
    });
    ticks.sum::<u64>() as f64 / TICKS
}

fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0)
}

#[test]
fn endpoints_that_come_and_go_are_not_noticed() {
    if !is_inside("flaps::endpoints_that_come_and_go_are_not_noticed").expect("it passes inside") {
        return;
    }
    let Some(shop) = Shop::open(5) else { return };
    let (others, lasts) = size();
    make_others(&shop.plane, others);
    let addresses = shop.addresses(Scaled::Servers);
    shop.plane.api().create(SERVICES, &service(FLAPPING)).expect("a Service");
    shop.plane.api().create(SLICES, &slice(FLAPPING, &addresses, None)).expect("a slice");
    shop.plane.api().create(INGRESSES, &ingress(FLAPPING, HOST)).expect("an Ingress");
    let known = || shop.metrics().sum("tidegate_kubernetes_objects{kind=\"Ingress\"}") as usize;
    let began = Instant::now();
    while known() < others + 3 {
        assert!(began.elapsed() < Duration::from_secs(120), "{} Ingresses are known\n{}", known(), shop.output());
        std::thread::sleep(Duration::from_millis(100));
    }
    let clients = Clients::start(&shop, &[60], &[Order::Pattern(11), Order::Pattern(2000)]);
    std::thread::sleep(Duration::from_secs(3));
    clients.take_latencies();
    std::thread::sleep(lasts.min(Duration::from_secs(30)));
    let calm = clients.take_latencies().thousandth(990);
    let (process, resident) = (shop.process(), resident_kib(shop.process()));
    let (before, began) = (control_seconds(process), Instant::now());
    let flaps = flap(&shop.plane.api(), &addresses, others, lasts);
    let share = (control_seconds(process) - before) / began.elapsed().as_secs_f64() * 100.0;
    let meanwhile = clients.take_latencies().thousandth(990);
    let grown = resident_kib(process) as f64 / resident as f64 * 100.0 - 100.0;
    let what = format!("{flaps} flaps in {lasts:?} beside {others} Ingresses");
    let ratio = meanwhile.as_secs_f64() / calm.as_secs_f64();
    figure(&what, &format!("control {share:.1} % of a core, resident {grown:+.1} % of {resident} KiB"));
    figure(&what, &format!("p99 {calm:.1?} in calm, {meanwhile:.1?} meanwhile: {ratio:.2} times"));
    clients.finish(&what, &shop);
    assert!(flaps as f64 > lasts.as_secs_f64() * 5.0, "{what}: too few on a machine that does so much else");
    assert!(!is_long() || grown <= 10.0, "{what}: {grown:.1} % more memory");
}
