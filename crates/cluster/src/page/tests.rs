//! Answers of the API, as they are read.

use super::{Line, line, page, refusal};
use crate::fault::Fault;
use crate::object::{EndpointSlice, EndpointState, Service};
use crate::texts::Texts;
use std::time::Duration;

#[test]
fn a_page_is_read_object_by_object() {
    let body = r#"{"kind":"ServiceList","metadata":{"resourceVersion":"71","continue":"abc"},"items":[
        {"metadata":{"name":"web","namespace":"shop","resourceVersion":"7","managedFields":[{"x":1}]},
         "spec":{"type":"ClusterIP","ports":[{"name":"http","port":80,"targetPort":"web"},{"name":"dns","protocol":"UDP","port":53}]}},
        {"metadata":{"name":"odd","namespace":"shop","resourceVersion":"8"},"spec":{"ports":[{"port":"eighty"}]}},
        {"metadata":{"namespace":"shop"},"spec":{}},
        {"metadata":{"name":"o\u0075t","namespace":"shop","resourceVersion":"9"},"spec":{"type":"ExternalName","externalName":"a.example","ports":null}}]}"#;
    let read = page::<Service>(body.as_bytes(), &mut Texts::default()).expect("a page");
    assert_eq!((&*read.version, read.next.as_deref()), ("71", Some("abc")));
    let names: Vec<String> = read.found.iter().map(|found| format!("{} {}", found.key, found.version)).collect();
    assert_eq!(names, ["shop/web 7", "shop/out 9"]);
    assert_eq!(read.found[0].object.ports.len(), 1, "only TCP can be sent to");
    assert_eq!(read.found[1].object.external_name.as_deref(), Some("a.example"));
    let unreadable: Vec<String> = read
        .unreadable
        .iter()
        .map(|one| format!("{}: {}", one.key.as_ref().map_or("?".to_owned(), ToString::to_string), one.problem))
        .collect();
    assert_eq!(unreadable, ["shop/odd: there is something of another type at line 1 column 101", "?: it has no name"]);
}

#[test]
fn what_is_no_page_is_a_fault_and_shows_nothing_of_itself() {
    let check = |body: &str, expected: &str| {
        let fault = page::<Service>(body.as_bytes(), &mut Texts::default()).expect_err("no page");
        assert_eq!(fault.to_string(), format!("answers something else than was asked for: {expected}"));
    };
    check("", "there is the end at line 1 column 0");
    check("<html>secret</html>", "there is no JSON at line 1 column 1");
    check(r#"{"items": 7}"#, "there is something of another type at line 1 column 11");
    check(r#"{"items": [{"metadata""#, "there is the end at line 1 column 22");
}

#[test]
fn lines_of_a_watch_say_what_happened() {
    let check = |text: &str, expected: &str| {
        let said = match line::<Service>(text.as_bytes(), &mut Texts::default()) {
            Ok(Line::Put(found)) => format!("put {} {}", found.key, found.version),
            Ok(Line::Gone { key, version }) => format!("gone {key} {version}"),
            Ok(Line::Bookmark { version }) => format!("bookmark {version}"),
            Ok(Line::Unreadable { unreadable, version }) => {
                format!("unreadable {} {version:?}", unreadable.key.map_or("?".to_owned(), |key| key.to_string()))
            }
            Ok(Line::Fault(fault)) => format!("fault: {fault}"),
            Ok(Line::Unknown) => "unknown".to_owned(),
            Err(fault) => format!("error: {fault}"),
        };
        assert_eq!(said, expected);
    };
    let meta = r#""metadata":{"name":"web","namespace":"shop","resourceVersion":"9"}"#;
    check(&format!(r#"{{"type":"ADDED","object":{{{meta},"spec":{{}}}}}}"#), "put shop/web 9");
    check(&format!(r#"{{"type":"MODIFIED","object":{{{meta}}}}}"#), "put shop/web 9");
    check(&format!(r#"{{"type":"DELETED","object":{{{meta},"spec":7}}}}"#), "gone shop/web 9");
    check(r#"{"type":"BOOKMARK","object":{"kind":"Service","metadata":{"resourceVersion":"77"}}}"#, "bookmark 77");
    check(&format!(r#"{{"type":"MODIFIED","object":{{{meta},"spec":7}}}}"#), "unreadable shop/web Some(\"9\")");
    check(&format!(r#"{{"type":"RENAMED","object":{{{meta}}}}}"#), "unknown");
    check(
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}"#,
        "fault: has forgotten the version that was asked from: too old resource version",
    );
    check(
        r#"{"type":"DELETED","object":{"metadata":{}}}"#,
        "error: answers something else than was asked for: an object without a name ended",
    );
    check("{\"type\":\"ADDED\"", "error: answers something else than was asked for: there is the end at line 1 column 15");
}

#[test]
fn refusals_are_told_apart() {
    let check = |status: u16, body: &str, expected: Fault| assert_eq!(refusal(Some(status), body.as_bytes(), None), expected);
    let message = |text: &str| text.to_owned();
    check(401, "{}", Fault::Unauthorized { message: message("status 401") });
    check(403, r#"{"message":"services is forbidden"}"#, Fault::Forbidden { message: message("services is forbidden") });
    check(404, "404 page not found", Fault::Missing { message: message("status 404") });
    check(410, r#"{"message":"too old"}"#, Fault::Gone { message: message("too old") });
    check(409, "", Fault::Conflict { message: message("status 409") });
    let after = Some(Duration::from_secs(3));
    let busy = Fault::Busy { message: message("slow down"), retry_after: after };
    check(429, r#"{"message":"slow\u0007 down","details":{"retryAfterSeconds":3}}"#, busy);
    let bounded = Fault::Busy { message: message("status 503"), retry_after: Some(Duration::from_secs(60)) };
    check(503, r#"{"details":{"retryAfterSeconds":86400}}"#, bounded);
    check(422, "", Fault::Refused { status: 422, message: message("status 422") });
}

#[test]
fn endpoints_are_ready_leaving_or_out() {
    let check = |conditions: &str, expected: EndpointState| {
        let text = format!(
            r#"{{"type":"ADDED","object":{{"metadata":{{"name":"a","namespace":"b","labels":{{"kubernetes.io/service-name":"web"}}}},
            "addressType":"IPv4","ports":[{{"name":"","port":8080}}],"endpoints":[{{"addresses":["10.0.0.7"],"conditions":{conditions}}}]}}}}"#
        );
        let Ok(Line::Put(found)) = line::<EndpointSlice>(text.as_bytes(), &mut Texts::default()) else { panic!("{text}") };
        assert_eq!(found.object.endpoints[0].state, expected, "{conditions}");
        assert_eq!(found.object.service.as_deref(), Some("web"));
    };
    check("{}", EndpointState::Ready);
    check(r#"{"ready":true}"#, EndpointState::Ready);
    check(r#"{"ready":null,"serving":null,"terminating":null}"#, EndpointState::Ready);
    check(r#"{"ready":false}"#, EndpointState::Out);
    check(r#"{"ready":false,"serving":true,"terminating":true}"#, EndpointState::Leaving);
    check(r#"{"ready":false,"serving":false,"terminating":true}"#, EndpointState::Out);
    check(r#"{"ready":false,"serving":true,"terminating":false}"#, EndpointState::Out);
    check(r#"{"ready":true,"serving":true,"terminating":true}"#, EndpointState::Ready);
}

#[test]
fn nothing_that_a_server_sends_makes_it_panic() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut texts = Texts::default();
        let _ = page::<EndpointSlice>(bytes, &mut texts);
        let _ = line::<EndpointSlice>(bytes, &mut texts);
        let _ = line::<Service>(bytes, &mut texts);
        let _ = refusal(None, bytes, None);
    });
}
