//! Requests that have ended, asked for by their id.

use crate::admin::asked::{Asked, PROGRAM};
use crate::admin::configuration::start;
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};
use tidegate_testkit::get;

/// What ends with a request is known when its worker has written it down, which may be after the client has the answer.
const WAIT: Duration = Duration::from_secs(20);

/// The id of a request to `/id`, once the process knows it.
pub fn request(asked: &Asked) -> String {
    let (status, id) = get(&asked.proxy.address.to_string(), "/id?a=b").expect("answered");
    assert_eq!((status, id.len()), (200, 32), "{id}");
    let begin = Instant::now();
    while asked.get(&format!("/v1/requests/{id}")).status != 200 {
        assert!(begin.elapsed() < WAIT, "{id} is not known\n{}", asked.proxy.program.output());
    }
    id
}

#[test]
fn a_request_that_has_ended_is_explained() {
    let asked = start(&[]);
    let id = request(&asked);
    let path = format!("/v1/requests/{id}");
    let past = asked.get(&path).json();
    let address = asked.proxy.address;
    let expected = json!([200, "GET", address.to_string(), "/id?a=b", address.port(), 1, format!("http://{address}"), 2, null]);
    let seen = ["status", "method", "host", "path_and_query", "port", "generation", "site", "route", "unexplained"];
    assert_eq!(json!(seen.map(|member| &past[member])), expected);
    assert_eq!(asked.get(&path.to_uppercase().replace("/V1/REQUESTS", "/v1/requests")).status, 200);
    let output = Command::new(PROGRAM)
        .args(["explain", "--request", &id, "--admin", &asked.proxy.admin])
        .env("TIDEGATE_ADMIN_TOKEN", &asked.token)
        .output()
        .expect("the command runs");
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("by generation 1"), "{output:?}");
    // By what ran then, which is known for days, however often it was changed since.
    for turn in 0..21 {
        assert_eq!(asked.set_own(&format!("turn {turn}")).status, 200);
    }
    let past = asked.get(&path).json();
    assert_eq!((&past["generation"], &past["route"], &past["unexplained"]), (&json!(1), &json!(2), &json!(null)));
    assert_eq!(past["explanation"]["route"]["title"], "route \"/id\" → respond 200");
    assert_eq!(asked.get("/v1/generations").json()["generations"].as_array().map(Vec::len), Some(22));
}

#[test]
fn what_is_no_request_is_refused() {
    let asked = start(&[]);
    let check = |id: &str, status: u16, kind: &str| asked.refuses(&asked.get(&format!("/v1/requests/{id}")), status, kind);
    check(&"0".repeat(32), 404, "not-found");
    check(&"f".repeat(32), 404, "not-found");
    // What a trusted proxy may have given.
    check("x", 404, "not-found");
    check(&format!("+{}", "0".repeat(31)), 404, "not-found");
    check(&"%C3%A4".repeat(16), 400, "bad-request");
    check("%0A", 400, "bad-request");
    check("%FF", 400, "bad-request");
    check(&"0".repeat(5000), 400, "bad-request");
    check("", 404, "not-found");
}
