//! Requests by the Ingress and the rule that took them, as `/metrics` has them.

use super::controller::{Controller, ingress};
use super::{cluster, server, service, slice, until};
use tidegate_testkit::get;

fn scrape(controller: &Controller) -> String {
    get(&controller.admin, "/metrics").map(|(_, text)| text).unwrap_or_default()
}

#[test]
fn requests_are_counted_by_ingress_and_rule() {
    let (cluster, one) = (cluster(), server("one"));
    cluster.put(service("one"));
    cluster.put(slice("one", &[&one]));
    cluster.put(ingress("web", "shop.example.com", "one"));
    cluster.put(ingress("api", "api.example.com", "one"));
    let controller = Controller::start(&cluster, &[]);
    controller.expect("api.example.com", "/", 200, "one");
    for _ in 0..3 {
        controller.expect("shop.example.com", "/", 200, "one");
    }
    controller.expect("other.example.com", "/", 404, "");
    let of = |name: &str| format!("kind=\"Ingress\",namespace=\"shop\",name=\"{name}\",rule=\"rules.0.paths.0\"");
    let (web, api) = (of("web"), of("api"));
    let lines = [
        format!("tidegate_kubernetes_requests_total{{{web},class=\"2xx\"}} 3"),
        format!("tidegate_kubernetes_requests_total{{{api},class=\"2xx\"}} 1"),
        format!("tidegate_kubernetes_request_duration_seconds_count{{{web}}} 3"),
    ];
    until(&controller, "requests by Ingress", || {
        let text = scrape(&controller);
        lines.iter().all(|line| text.lines().any(|known| known == line))
    });
    let text = scrape(&controller);
    assert!(text.contains(&format!("tidegate_kubernetes_response_body_bytes_total{{{web}}} ")), "{text}");
    // Nobody's requests are of no object.
    let series = text.lines().filter(|line| line.starts_with("tidegate_kubernetes_requests_total{"));
    assert_eq!(series.count(), 2, "{text}");
    // Each change that workers were given is there, with how long it took.
    let published = |text: &str| -> u64 {
        let count = text.lines().find_map(|line| line.strip_prefix("tidegate_kubernetes_published_seconds_count "));
        count.and_then(|count| count.parse().ok()).unwrap_or_default()
    };
    let before = published(&text);
    cluster.put(ingress("api", "new.example.com", "one"));
    controller.wait_for("new.example.com", "/", 200, "one");
    until(&controller, "one more change", || published(&scrape(&controller)) > before);
}
