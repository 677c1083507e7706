//! A shop in change, under load, over HTTPS: servers and replicas of the program come and go, and annotations are put
//! on and taken off. The controllers are the real ones, and pods are processes in network namespaces of their own.
//! Nobody may notice.
//!
//! With `ROLLOUT_LONG` set, as `cargo xtask long` does, pauses are those of a real change, all of it happens six times,
//! and what is slower while it changes fails as well. That figure says nothing on a machine that does something else.

use crate::shop::{HOST, SWITCHED, Scaled, Shop};
use crate::{figure, is_long};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tidegate_testkit::control_plane::network::is_inside;
use tidegate_testkit::load::{Kind, Latencies, Load, Look, Order, Window};
use tidegate_testkit::turns::{Turn, Turns};

/// Of all clients together: the machine is shared with the control plane, in the short form with other tests as well,
/// and it is not about throughput.
const PER_SECOND: [u32; 2] = [120, 400];
/// One client with 250 connections, and five with 50.
const VARIANTS: [&[usize]; 2] = [&[250], &[50; 5]];
/// Of the short form: each connection has two requests a second, so that who is told of its end with the next answer
/// hears of it in time, on a slow machine as well.
const SHORT_VARIANTS: [&[usize]; 2] = [&[60], &[12; 5]];
/// Kinds of clients by fifths, all over TLS: those that keep a connection of HTTP/1.1, keep one of HTTP/2, or make a
/// new one for each request.
const FIFTHS: [(Kind, usize); 3] = [(Kind::KeepAliveTls, 3), (Kind::Http2, 1), (Kind::FreshTls, 1)];
/// Clients of a roll-out that have one open all the time.
const WEBSOCKETS: usize = 12;
/// Of the long form.
const RUNS: usize = 6;
/// The slowest of a hundred answers may take so many times of what it takes in calm.
const RATIO_MAX: f64 = 1.5;
/// Longer than workers need to hear of a change, however busy the machine.
const SPREAD: Duration = Duration::from_secs(3);

/// How long is waited.
struct Times {
    runs: usize,
    calm: Duration,
    /// Between two steps, for requests with so many pods as there are.
    pause: Duration,
    /// How long an annotation is on, or off.
    switched: Duration,
}

impl Times {
    fn chosen() -> Times {
        let seconds = Duration::from_secs;
        if is_long() {
            Times { runs: RUNS, calm: seconds(15), pause: seconds(4), switched: seconds(30) }
        } else {
            Times { runs: 1, calm: seconds(2), pause: seconds(2), switched: seconds(4) }
        }
    }
}

/// Clients of a shop: some loads that run beside each other.
pub struct Clients {
    loads: Vec<Load>,
}

impl Clients {
    pub fn start(shop: &Shop, clients: &[usize], orders: &[Order]) -> Clients {
        let per_second = PER_SECOND[usize::from(is_long())] / clients.len() as u32;
        let start = |count: &usize| {
            let kinds = FIFTHS.map(|(kind, fifths)| (kind, (count * fifths / 5).max(1)));
            Load::start_paced(&shop.goal, &kinds, orders, per_second).expect("a load")
        };
        Clients { loads: clients.iter().map(start).collect() }
    }

    pub fn take_latencies(&self) -> Latencies {
        self.loads.iter().map(Load::take_latencies).fold(Latencies::default(), Latencies::join)
    }

    pub fn is_clean(&self) -> bool {
        self.loads.iter().all(|load| load.tally().is_clean())
    }

    /// Nobody noticed anything. Gives how many connections of HTTP/1.1 and HTTP/2 ended as it was announced to them.
    pub fn finish(self, what: &str, shop: &Shop) -> [u64; 2] {
        let mut announced = [0, 0];
        let mut done = 0;
        for load in self.loads {
            let tally = load.finish();
            println!("{what}: {tally}");
            assert!(tally.done > 100 && tally.is_clean(), "{what}: {tally}\n{}", shop.output());
            announced = [announced[0] + tally.announced_ends, announced[1] + tally.goaways];
            done += tally.done;
        }
        assert_eq!(shop.fault(), None);
        figure(what, &format!("{done} answers, 0 wrong, refused, reset, cut, late or sent again"));
        announced
    }
}

/// Makes a change under the load of each variant. With `ends_are_announced` clients have to meet ends of connections
/// that were announced to them: without any, nothing would be shown of who left.
fn goes_unnoticed(what: &str, shop: &Shop, orders: &[Order], ends_are_announced: bool, change: impl Fn(&Times, &Clients)) {
    let times = Times::chosen();
    for run in 1..=times.runs {
        for variant in if is_long() { VARIANTS } else { SHORT_VARIANTS } {
            let what = format!("{what}, {} times {} connections, run {run}", variant.len(), variant[0]);
            let clients = Clients::start(shop, variant, orders);
            // Connections are made, and everything is met once.
            std::thread::sleep(times.pause);
            clients.take_latencies();
            std::thread::sleep(times.calm);
            let calm = clients.take_latencies();
            change(&times, &clients);
            let changing = clients.take_latencies();
            let [before, meanwhile] = [&calm, &changing].map(|taken| taken.thousandth(990));
            let ratio = meanwhile.as_secs_f64() / before.as_secs_f64();
            let counts = [calm.count(), changing.count()];
            figure(
                &what,
                &format!("p99 {before:.1?} in calm, {meanwhile:.1?} in change: {ratio:.2} times, of {counts:?} answers"),
            );
            let announced = clients.finish(&what, shop);
            if ends_are_announced {
                figure(&what, &format!("{announced:?} ends were announced, to HTTP/1.1 and HTTP/2"));
                assert!(announced.iter().all(|ends| *ends > 0), "{what}: nobody met a replica that left: {announced:?}");
            }
            assert!(!is_long() || ratio <= RATIO_MAX, "{what}: {ratio:.2} times as slow while it changes");
        }
    }
}

pub fn patterns() -> [Order; 2] {
    [Order::Pattern(11), Order::Pattern(20_000)]
}

/// 5→7→5 three times.
fn scales(shop: &Shop, what: Scaled, times: &Times) {
    for replicas in [7, 5, 7, 5, 7, 5] {
        shop.scale(what, replicas);
        std::thread::sleep(times.pause);
    }
}

/// 5→7→5 three times, so that those leave whom clients have met.
fn replaces_replicas(shop: &Shop, times: &Times) {
    for _ in 0..3 {
        shop.scale(Scaled::Proxies, 7);
        std::thread::sleep(times.pause);
        let answered = shop.retire_replicas(5);
        println!("replicas that left had answered {answered:?} requests");
        assert!(answered.len() == 2 && answered.iter().all(|requests| *requests > 0), "nobody met one that left: {answered:?}");
        std::thread::sleep(times.pause);
    }
}

/// Puts annotations on and takes them off, while others of the host are asked as well.
fn switches(what: &str, shop: &Shop, annotations: &Value, order: impl Fn(Arc<Window>) -> Order) {
    let window = Arc::new(Window::default());
    let orders = [order(window.clone()), Order::Pattern(11)];
    let off: Value = annotations.as_object().expect("names").keys().map(|name| (name.clone(), Value::Null)).collect();
    goes_unnoticed(what, shop, &orders, false, |times, clients| {
        for annotations in [annotations, &off] {
            // From here both answers are right, and afterwards the new one alone.
            window.highest.fetch_add(1, Ordering::SeqCst);
            shop.annotate(annotations);
            std::thread::sleep(SPREAD);
            window.lowest.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(times.switched);
            assert!(clients.is_clean() || !is_long(), "{what}: {annotations} is not what is served");
        }
    });
}

fn look(status: u16, field: &'static str, value: Option<&str>) -> Look {
    Look { status, field, value: value.map(str::to_owned) }
}

#[test]
fn servers_come_and_go_unnoticed() {
    if !is_inside("rollout::servers_come_and_go_unnoticed").expect("it passes inside") {
        return;
    }
    let Some(shop) = Shop::open(5) else { return };
    goes_unnoticed("servers 5 to 7 to 5", &shop, &patterns(), false, |times, _| scales(&shop, Scaled::Servers, times));
}

#[test]
fn replicas_of_the_program_come_and_go_unnoticed() {
    if !is_inside("rollout::replicas_of_the_program_come_and_go_unnoticed").expect("it passes inside") {
        return;
    }
    let Some(shop) = Shop::open_with_replicas(5, 5) else { return };
    goes_unnoticed("proxies 5 to 7 to 5", &shop, &patterns(), true, |times, _| replaces_replicas(&shop, times));
}

#[test]
fn the_program_is_replaced_by_its_next_version_unnoticed() {
    if !is_inside("rollout::the_program_is_replaced_by_its_next_version_unnoticed").expect("it passes inside") {
        return;
    }
    let Some(shop) = Shop::open_with_replicas(3, 3) else { return };
    let times = Times::chosen();
    for run in 1..=times.runs {
        let what = format!("roll-out of 3 replicas, run {run}");
        let clients = Clients::start(&shop, &[60], &patterns());
        // A stream of that length is over before the drain is.
        let turns = [(Turn::WebSocket, WEBSOCKETS), (Turn::Stream(Duration::from_secs(20)), 6)];
        let turns = Turns::start(&shop.goal, &turns).expect("clients");
        std::thread::sleep(times.calm);
        let began = Instant::now();
        shop.roll_out(&format!("version-{run}"));
        let took = began.elapsed();
        std::thread::sleep(times.pause);
        let seen = turns.finish();
        let (closed, streams) = (seen.closed.len(), seen.streams);
        figure(&what, &format!("{took:.0?}, {closed} WebSockets ended by a close frame, {streams} streams of 20 s whole"));
        assert!(seen.faults.is_empty(), "{what}: {seen:?}\n{}", shop.output());
        assert!(closed >= WEBSOCKETS && streams > 0 && seen.frames > 100, "{what}: all that were open are closed once: {seen:?}");
        let announced = clients.finish(&what, &shop);
        assert!(announced.iter().all(|ends| *ends > 0), "{what}: nobody met a replica that left: {announced:?}");
    }
}

#[test]
fn annotations_are_put_on_and_taken_off_unnoticed() {
    if !is_inside("rollout::annotations_are_put_on_and_taken_off_unnoticed").expect("it passes inside") {
        return;
    }
    let Some(shop) = Shop::open(5) else { return };
    let origin = format!("https://pages.{HOST}");
    switches("CORS", &shop, &json!({"nginx.ingress.kubernetes.io/enable-cors": "true"}), |window| Order::Switched {
        path: SWITCHED.to_owned(),
        origin: Some(origin.clone()),
        window,
        looks: [None, Some("*")].map(|value| look(200, "access-control-allow-origin", value)),
    });
    let place = format!("https://elsewhere.{HOST}/");
    switches("redirect", &shop, &json!({"nginx.ingress.kubernetes.io/permanent-redirect": place}), |window| Order::Switched {
        path: SWITCHED.to_owned(),
        origin: None,
        window,
        looks: [look(200, "location", None), look(301, "location", Some(&place))],
    });
}
