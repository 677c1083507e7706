//! Objects as they are read, with what people leave out and get wrong.

use super::{Backend, Ingress, IngressClass, PathKind, PortReference, RulePath, Watched};
use crate::page::{Line, line};
use crate::texts::Texts;

fn read<T: Watched>(object: &str) -> T {
    match line::<T>(format!(r#"{{"type":"ADDED","object":{object}}}"#).as_bytes(), &mut Texts::default()) {
        Ok(Line::Put(found)) => found.object,
        _ => panic!("{object} is not read"),
    }
}

fn ingress(spec: &str) -> Ingress {
    read(&format!(r#"{{"metadata":{{"name":"a","namespace":"b","creationTimestamp":"2026-11-01T10:00:00Z"}},"spec":{spec}}}"#))
}

#[test]
fn an_ingress_has_its_rules_certificates_and_class() {
    let seen = ingress(
        r#"{"ingressClassName":"edge","tls":[{"hosts":["a.example","b.example"],"secretName":"tls"},{"secretName":""},{}],
        "defaultBackend":{"service":{"name":"rest","port":{"number":80}}},
        "rules":[{"host":"a.example","http":{"paths":[{"path":"/x","pathType":"Exact","backend":{"service":{"name":"web","port":{"name":"http"}}}}]}},
                 {"http":{"paths":null}},{"host":""}]}"#,
    );
    assert_eq!((seen.class.as_deref(), &*seen.created), (Some("edge"), "2026-11-01T10:00:00Z"));
    let tls: Vec<(usize, Option<&str>)> = seen.tls.iter().map(|tls| (tls.hosts.len(), tls.secret.as_deref())).collect();
    assert_eq!(tls, [(2, Some("tls")), (0, None), (0, None)]);
    assert_eq!(seen.default_backend, Some(Backend::Service { name: "rest".into(), port: PortReference::Number(80) }));
    let hosts: Vec<Option<&str>> = seen.rules.iter().map(|rule| rule.host.as_deref()).collect();
    assert_eq!(hosts, [Some("a.example"), None, None]);
    let backend = Backend::Service { name: "web".into(), port: PortReference::Name("http".into()) };
    assert_eq!(*seen.rules[0].paths, [RulePath { path: "/x".into(), kind: PathKind::Exact, backend }]);
}

#[test]
fn a_backend_that_is_not_whole_is_known_as_that() {
    let check = |backend: &str, expected: Backend| {
        let seen = ingress(&format!(r#"{{"rules":[{{"http":{{"paths":[{{"backend":{backend}}}]}}}}]}}"#));
        assert_eq!(seen.rules[0].paths[0].backend, expected, "{backend}");
        assert_eq!(seen.rules[0].paths[0].kind, PathKind::ImplementationSpecific);
    };
    check("{}", Backend::Unknown);
    check(r#"{"service":{"name":"web"}}"#, Backend::Unknown);
    check(r#"{"service":{"name":"","port":{"number":80}}}"#, Backend::Unknown);
    check(r#"{"service":{"name":"web","port":{"number":0,"name":""}}}"#, Backend::Unknown);
    check(r#"{"service":{"name":"web","port":{"number":80,"name":"http"}}}"#, Backend::Unknown);
    check(
        r#"{"resource":{"apiGroup":"k8s.example","kind":"Bucket","name":"icons"}}"#,
        Backend::Resource { kind: "Bucket".into(), name: "icons".into() },
    );
    let both = r#"{"resource":{"kind":"Bucket","name":"icons"},"service":{"name":"web","port":{"number":80}}}"#;
    check(both, Backend::Unknown);
}

#[test]
fn annotations_are_kept_that_mean_something_here() {
    let seen: Ingress = read(
        r#"{"metadata":{"name":"a","namespace":"b","uid":"0-1","generation":3,"annotations":{"x.example/y":"z","kubernetes.io/ingress.class":"edge","tidegate.dev/acme":"true","nginx.ingress.kubernetes.io/use-regex":"true","kubectl.kubernetes.io/last-applied-configuration":"{}"}},
        "status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.7","ports":[]},{"hostname":"lb.example"},{}]}}}"#,
    );
    let annotations: Vec<(&str, &str)> = seen.annotations.iter().map(|(name, value)| (&**name, &**value)).collect();
    let kept = [
        ("kubernetes.io/ingress.class", "edge"),
        ("nginx.ingress.kubernetes.io/use-regex", "true"),
        ("tidegate.dev/acme", "true"),
    ];
    assert_eq!(annotations, kept);
    assert_eq!((&*seen.uid, seen.generation), ("0-1", 3));
    assert_eq!(seen.addresses, ["203.0.113.7".into(), "lb.example".into()].into());
}

#[test]
fn a_class_is_the_default_where_it_says_so() {
    let check = |annotations: &str, expected: bool| {
        let text = format!(
            r#"{{"metadata":{{"name":"edge","annotations":{annotations}}},"spec":{{"controller":"tidegate.dev/ingress"}}}}"#
        );
        let seen: IngressClass = read(&text);
        assert_eq!((&*seen.controller, seen.is_default), ("tidegate.dev/ingress", expected), "{annotations}");
    };
    check("{}", false);
    check("null", false);
    check(r#"{"ingressclass.kubernetes.io/is-default-class":"true"}"#, true);
    check(r#"{"ingressclass.kubernetes.io/is-default-class":"yes"}"#, false);
}
