//! Certificates of clients that an Ingress asks for: shown over HTTPS, and over HTTP nobody can.

use super::annotated::{annotated, begin, put_certificate, put_service, put_service_of, secret};
use super::controller::{Asked, Controller};
use std::path::Path;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Authority, KeyKind};

const HOST: &str = "shop.example.com";

fn over_tls(certificate: Option<&Path>) -> Asked<'_> {
    Asked { over_tls: true, certificate, ..Asked::of(HOST, "/") }
}

fn is_refused(controller: &Controller, certificate: &Path) -> bool {
    controller.answer(&over_tls(Some(certificate))).is_err()
}

#[test]
fn who_shows_no_certificate_is_refused_and_nobody_is_let_in_without_an_authority() {
    let (cluster, mut controller) = begin();
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "clients").expect("an authority");
    let alice = authority.issue("alice", KeyKind::Client).expect("a certificate").combined;
    let bob = authority.issue("bob", KeyKind::Client).expect("a certificate").combined;
    let stranger = Authority::new(folder.path(), "strangers").expect("an authority");
    let stranger = stranger.issue("mallory", KeyKind::Client).expect("a certificate").combined;
    put_certificate(&cluster, &mut controller, HOST);
    put_service(&cluster, &mut controller, "web", &["one"]);
    // Before the Secret is there, nothing is answered.
    let required = [("auth-tls-secret", "shop/clients")];
    cluster.put(annotated("web", HOST, "web", &required));
    controller.wait_for_over_tls(HOST, "/", 503, "");
    controller.expect(HOST, "/", 503, "");
    let root = authority.root_file().display().to_string();
    let clients = secret(&mut controller, "clients", &[("ca.crt", &root)]);
    cluster.put(clients.clone());
    controller.wait_for_over_tls(HOST, "/", 400, "");
    controller.wait_for(HOST, "/", 400, "");
    controller.wait_for_answer(&over_tls(Some(&alice)), 200, "one");
    assert!(is_refused(&controller, &stranger));
    // Whom the certificate names.
    cluster.put(annotated("web", HOST, "web", &[required[0], ("auth-tls-match-cn", "CN=ali.e")]));
    controller.wait_for_answer(&over_tls(Some(&bob)), 403, "");
    controller.wait_for_answer(&over_tls(Some(&alice)), 200, "one");
    controller.wait_for_over_tls(HOST, "/", 400, "");
    controller.expect(HOST, "/", 400, "");
    // Elsewhere.
    cluster.put(annotated("web", HOST, "web", &[required[0], ("auth-tls-error-page", "https://example.com/certificates")]));
    let sent = controller.wait_for_answer(&over_tls(None), 302, "");
    assert_eq!(sent.head.value("location").as_deref(), Some(&b"https://example.com/certificates"[..]));
    controller.wait_for_answer(&over_tls(Some(&bob)), 200, "one");
    // Whoever shows none is let in, and a bad one is refused.
    cluster.put(annotated("web", HOST, "web", &[required[0], ("auth-tls-verify-client", "optional")]));
    controller.wait_for_over_tls(HOST, "/", 200, "one");
    controller.wait_for(HOST, "/", 200, "one");
    assert!(is_refused(&controller, &stranger));
    cluster.put(annotated("web", HOST, "web", &[required[0], ("auth-tls-verify-client", "optional_no_ca")]));
    controller.wait_for_answer(&over_tls(Some(&stranger)), 200, "one");
    // The Secret goes, and nobody comes in any more.
    cluster.put(annotated("web", HOST, "web", &required));
    controller.wait_for_over_tls(HOST, "/", 400, "");
    cluster.remove(&clients);
    controller.wait_for_answer(&over_tls(Some(&alice)), 503, "");
    controller.wait_for(HOST, "/", 503, "");
}

#[test]
fn what_servers_are_told_of_a_certificate_comes_from_nobody_else() {
    let (cluster, mut controller) = begin();
    put_certificate(&cluster, &mut controller, HOST);
    let upstream = Upstream::start(Behaviour::new(Answer::EchoHead)).expect("a port is free");
    put_service_of(&cluster, "web", &upstream);
    let clients = secret(&mut controller, "clients", &[("ca.crt", "{ca}")]);
    cluster.put(clients);
    cluster.put(annotated("web", HOST, "web", &[("auth-tls-secret", "clients"), ("auth-tls-verify-client", "optional")]));
    let fields = [("ssl-client-verify", "SUCCESS"), ("ssl-client-subject-dn", "CN=alice")];
    let forged = Asked { fields: &fields, ..over_tls(None) };
    let answer = controller.wait_for_answer(&forged, 200, "ssl-client-verify: NONE");
    assert!(!String::from_utf8_lossy(&answer.body).contains("alice"), "{answer:?}");
    // Over plain HTTP as well.
    let answer = controller.answer(&Asked { over_tls: false, ..forged }).expect("an answer");
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 200 && !body.contains("alice") && !body.contains("SUCCESS"), "{body}");
}
