//! Objects as they are read, with what people leave out and get wrong.

use super::{
    Backend, EndpointSlice, Ingress, IngressClass, Key, PathKind, PortReference, RulePath, Service, Watched, WrittenMeta,
};
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

/// What is kept of an object is the same when it was written and read again.
fn comes_back<T: Watched + std::fmt::Debug>(object: &str) {
    let kept: T = read(object);
    let key = Key::new("b", "a");
    let written = serde_json::to_string(&kept.written(WrittenMeta::of(&key, "7"))).expect("JSON");
    let line = line::<T>(format!(r#"{{"type":"ADDED","object":{written}}}"#).as_bytes(), &mut Texts::default());
    let Ok(Line::Put(found)) = line else { panic!("{written} is not read") };
    assert_eq!((found.key, &*found.version, found.object), (key, "7", kept), "{written}");
}

#[test]
fn what_is_kept_is_written_as_the_api_has_it() {
    let meta = r#""metadata":{"name":"a","namespace":"b","uid":"0-1","generation":3,"creationTimestamp":"2026-11-01T10:00:00Z",
        "labels":{"kubernetes.io/service-name":"web"},
        "annotations":{"tidegate.dev/a":"\u0000\"","ingressclass.kubernetes.io/is-default-class":"true"}}"#;
    let object = |rest: &str| format!("{{{meta}{rest}}}");
    for rest in [
        "",
        r#","spec":{"type":"LoadBalancer","clusterIPs":["10.0.0.1","fd00::1"],"externalIPs":["203.0.113.9"],
            "ports":[{"name":"http","port":80,"appProtocol":"kubernetes.io/h2c"},{"port":443}]},
            "status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.1"},{"hostname":"lb.example"}]}}"#,
        r#","spec":{"type":"ExternalName","externalName":"a.example"}"#,
    ] {
        comes_back::<Service>(&object(rest));
    }
    for rest in [
        "",
        r#","addressType":"FQDN","endpoints":[{"addresses":["a.example"]}]"#,
        r#","addressType":"IPv6","ports":[{"name":"http","port":80},{"name":"any"}],"endpoints":[
            {"addresses":["fd00::1"],"zone":"a","hints":{"forZones":[{"name":"a"},{"name":"b"}]},"targetRef":{"uid":"0-2"}},
            {"addresses":["fd00::2"],"conditions":{"ready":false}},
            {"addresses":["fd00::3"],"conditions":{"ready":false,"serving":true,"terminating":true}},
            {"addresses":["fd00::4"],"conditions":{"ready":false,"serving":false,"terminating":true}},
            {"addresses":["fd00::5"],"conditions":{"ready":true,"terminating":true}}]"#,
    ] {
        comes_back::<EndpointSlice>(&object(rest));
    }
    for rest in [
        "",
        r#","spec":{"ingressClassName":"edge","tls":[{"hosts":["a.example"],"secretName":"tls"},{}],
            "defaultBackend":{"resource":{"kind":"Bucket","name":"icons"}},
            "rules":[{"host":"a.example","http":{"paths":[
                {"path":"/x","pathType":"Exact","backend":{"service":{"name":"web","port":{"name":"http"}}}},
                {"path":"/y","pathType":"Prefix","backend":{"service":{"name":"web","port":{"number":80}}}},
                {"backend":{}}]}},{}]},
            "status":{"loadBalancer":{"ingress":[{"hostname":"lb.example"}]}}"#,
    ] {
        comes_back::<Ingress>(&object(rest));
    }
    comes_back::<IngressClass>(&object(r#","spec":{"controller":"tidegate.dev/ingress"}"#));
    comes_back::<IngressClass>(r#"{"metadata":{"name":"a","namespace":"b"}}"#);
}
