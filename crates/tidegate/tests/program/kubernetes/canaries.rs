//! Canaries: who goes to them, over HTTP and HTTPS.

use super::annotated::{annotated, begin, put_certificate, put_service};
use super::controller::{Asked, Controller};
use tidegate_testkit::kubernetes::ApiServer;

const HOST: &str = "shop.example.com";

/// The Ingress goes to `one`, its canary to `two`.
fn with_canary(of_main: &[(&str, &str)], of_canary: &[(&str, &str)]) -> (ApiServer, Controller) {
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, HOST);
    put_service(&cluster, &mut controller, "web", &["one"]);
    put_service(&cluster, &mut controller, "next", &["two"]);
    cluster.put(annotated("web", HOST, "web", of_main));
    controller.wait_for_over_tls(HOST, "/", 200, "one");
    let of_canary = [&[("canary", "true")], of_canary].concat();
    cluster.put(annotated("next", HOST, "next", &of_canary));
    controller.wait_for_answer(&Asked { fields: &[("X-Canary", "always")], ..Asked::of(HOST, "/") }, 200, "two");
    (cluster, controller)
}

fn told(controller: &Controller, over_tls: bool, fields: &[(&str, &str)]) -> String {
    let answer = controller.answer(&Asked { over_tls, fields, ..Asked::of(HOST, "/") }).expect("an answer");
    String::from_utf8_lossy(&answer.body).trim().to_owned()
}

#[test]
fn a_header_decides_before_a_cookie_and_that_before_the_weight() {
    let rules = [("canary-by-header", "X-Canary"), ("canary-by-cookie", "canary"), ("canary-weight", "30")];
    let (_cluster, controller) = with_canary(&[], &rules);
    for over_tls in [false, true] {
        let check = |fields: &[(&str, &str)], expected: &str| {
            for _ in 0..10 {
                assert_eq!(told(&controller, over_tls, fields), expected, "{fields:?}");
            }
        };
        check(&[("X-Canary", "always"), ("Cookie", "canary=never")], "two");
        check(&[("X-Canary", "never"), ("Cookie", "canary=always")], "one");
        check(&[("X-Canary", "perhaps"), ("Cookie", "canary=always")], "two");
        check(&[("Cookie", "a=b; canary=never")], "one");
        let of_canary = (0..400).filter(|_| told(&controller, over_tls, &[]) == "two").count();
        assert!((60..=180).contains(&of_canary), "{of_canary} of 400");
    }
}

#[test]
fn a_canary_is_as_protected_as_its_path_and_goes_without_a_trace() {
    let header = [("canary-by-header", "X-Canary")];
    let (cluster, controller) = with_canary(&[], &header);
    cluster.put(annotated("web", HOST, "web", &[("whitelist-source-range", "192.0.2.0/24")]));
    for over_tls in [false, true] {
        let always = Asked { over_tls, fields: &[("X-Canary", "always")], ..Asked::of(HOST, "/") };
        controller.wait_for_answer(&always, 403, "");
        controller.wait_for_answer(&Asked { over_tls, ..Asked::of(HOST, "/") }, 403, "");
    }
    cluster.put(annotated("web", HOST, "web", &[]));
    let always = Asked { fields: &[("X-Canary", "always")], ..Asked::of(HOST, "/") };
    controller.wait_for_answer(&always, 200, "two");
    cluster.remove(&annotated("next", HOST, "next", &[]));
    controller.wait_for_answer(&always, 200, "one");
}

#[test]
fn clients_who_stay_with_a_server_stay_on_their_side() {
    let affinity = ("affinity", "cookie");
    let rules = [("canary-by-header", "X-Canary"), ("canary-weight", "50"), affinity];
    let (_cluster, controller) = with_canary(&[affinity], &rules);
    for over_tls in [false, true] {
        let mut sides = Vec::new();
        for _ in 0..12 {
            let asked = Asked { over_tls, ..Asked::of(HOST, "/") };
            let first = controller.answer(&asked).expect("an answer");
            let head = first.head.text();
            let cookies: Vec<&str> = head
                .lines()
                .filter_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")))
                .filter_map(|(_, cookie)| cookie.split(';').next())
                .collect();
            assert_eq!(cookies.len(), 2, "{head}");
            let cookie = cookies.join("; ");
            for _ in 0..6 {
                let again = controller.answer(&Asked { fields: &[("Cookie", &cookie)], ..asked }).expect("an answer");
                assert_eq!((again.body.clone(), again.head.value("set-cookie")), (first.body.clone(), None));
            }
            sides.push(first.body);
        }
        sides.sort();
        sides.dedup();
        assert_eq!(sides.len(), 2, "of twelve clients all are on one side");
    }
}
