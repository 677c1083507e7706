//! Hetzner's Cloud API as its documentation has it: zones by name, sets of records, changes as actions that take a
//! while.

use crate::api::{Asked, Emulation, Said, said};
use crate::{publisher, run};
use serde_json::{Value, json};
use tidegate_dns_records::Publisher;
use tidegate_model::{DnsProvider, Secret};

const NAME: &str = "_acme-challenge.www.example.com";

#[derive(Default)]
struct Project {
    /// Of the one set that there may be: its time to live and values.
    set: Option<(u64, Vec<String>)>,
    always: Option<Said>,
    /// What the next action comes to, after it was asked about once.
    ending: Option<Value>,
}

fn error(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message, "details": {} } })
}

fn answer(project: &mut Project, asked: &Asked) -> Said {
    if let Some(always) = project.always.take() {
        return always;
    }
    if asked.header("authorization") != "Bearer right" {
        return said(401, error("unauthorized", "the token you provided is invalid"));
    }
    let action =
        |status: &str| json!({ "action": { "id": 7, "command": "change", "status": status, "progress": 0, "error": null } });
    let values = || {
        asked.json()["records"]
            .as_array()
            .expect("records")
            .iter()
            .map(|record| record["value"].as_str().expect("a value").to_owned())
            .collect::<Vec<_>>()
    };
    match (asked.method.as_str(), asked.segments().as_slice()) {
        ("GET", ["zones", "example.com"]) => {
            said(200, json!({ "zone": { "id": 4711, "name": "example.com", "mode": "primary" } }))
        }
        ("GET", ["zones", "example.com", "rrsets", "_acme-challenge.www", "TXT"]) => match &project.set {
            Some((ttl, values)) => {
                let records: Vec<Value> = values.iter().map(|value| json!({ "value": value, "comment": "" })).collect();
                said(200, json!({ "rrset": { "id": "_acme-challenge.www/TXT", "ttl": ttl, "records": records } }))
            }
            None => said(404, error("not_found", "RRSet not found")),
        },
        ("POST", ["zones", "example.com", "rrsets", "_acme-challenge.www", "TXT", "actions", "add_records"]) => {
            let ttl = asked.json()["ttl"].as_u64();
            let (known_ttl, known) = project.set.get_or_insert_with(|| (ttl.expect("a new set has a time to live"), Vec::new()));
            if ttl.is_some_and(|ttl| ttl != *known_ttl) || values().iter().any(|value| known.contains(value)) {
                return said(422, error("invalid_input", "the set has it already, or another TTL"));
            }
            known.extend(values());
            said(201, action("running"))
        }
        ("POST", ["zones", "example.com", "rrsets", "_acme-challenge.www", "TXT", "actions", "remove_records"]) => {
            let Some((_, known)) = &mut project.set else { return said(404, error("not_found", "RRSet not found")) };
            known.retain(|value| !values().contains(value));
            if known.is_empty() {
                project.set = None;
            }
            said(201, action("success"))
        }
        ("GET", ["actions", "7"]) => said(200, project.ending.take().unwrap_or_else(|| action("success"))),
        _ => said(404, error("not_found", "not found")),
    }
}

fn with(api: &Emulation<Project>, token: &str) -> Publisher {
    publisher(DnsProvider::Hetzner { token: Secret::new(token), api: Some(api.url.clone()) })
}

#[test]
fn values_stand_beside_each_other_and_go_one_by_one() {
    run(async {
        let api = Emulation::start(Project::default(), answer).await;
        let publisher = with(&api, "right");
        let first = publisher.publish(NAME, "first").await.expect("published");
        assert_eq!(api.asked().last().map(String::as_str), Some("GET /actions/7"));
        let second = publisher.publish(NAME, "second").await.expect("published");
        publisher.publish(NAME, "first").await.expect("published again");
        assert_eq!(api.state().set, Some((60, vec!["\"first\"".to_owned(), "\"second\"".to_owned()])));
        publisher.withdraw(&first).await.expect("withdrawn");
        publisher.withdraw(&first).await.expect("withdrawn again");
        assert_eq!(api.state().set, Some((60, vec!["\"second\"".to_owned()])));
        publisher.withdraw(&second).await.expect("withdrawn");
        assert_eq!(api.state().set, None);
    });
}

#[test]
fn a_set_keeps_its_own_time_to_live() {
    run(async {
        let set = Some((3600, vec!["\"theirs\"".to_owned()]));
        let api = Emulation::start(Project { set, ..Project::default() }, answer).await;
        with(&api, "right").publish(NAME, "words").await.expect("published");
        assert_eq!(api.state().set, Some((3600, vec!["\"theirs\"".to_owned(), "\"words\"".to_owned()])));
    });
}

#[test]
fn refusals_say_what_to_do() {
    let check = |project: Project, token: &str, name: &str, expected: &str| {
        run(async {
            let api = Emulation::start(project, answer).await;
            let fault = with(&api, token).publish(name, "words").await.expect_err(expected);
            assert_eq!(fault.to_string(), format!("hetzner: {expected}"));
        });
    };
    let always = |said| Project { always: Some(said), ..Project::default() };
    check(
        Project::default(),
        "wrong",
        NAME,
        &format!(
            "for {NAME} the credentials are not accepted: 401 Unauthorized, the token you provided is invalid (unauthorized); check `token=`: it has to be an API token of the Cloud project that has the zone; tokens of the former DNS console are void"
        ),
    );
    check(
        always(said(403, error("token_readonly", "the token is read only"))),
        "right",
        NAME,
        &format!(
            "changing {NAME} is not permitted: 403 Forbidden, the token is read only (token_readonly); make an API token with the permission Read & Write"
        ),
    );
    check(
        always(said(429, error("rate_limit_exceeded", "limit reached"))),
        "right",
        NAME,
        &format!(
            "too many requests, so {NAME} is not changed: 429 Too Many Requests, limit reached (rate_limit_exceeded); try again later"
        ),
    );
    check(
        Project {
            ending: Some(
                json!({ "action": { "id": 7, "status": "error", "error": { "code": "action_failed", "message": "Action failed" } } }),
            ),
            ..Project::default()
        },
        "right",
        NAME,
        &format!("{NAME} is not changed: Action failed"),
    );
    check(
        Project::default(),
        "right",
        "_acme-challenge.example.net",
        "no zone that can be seen there holds _acme-challenge.example.net; check that the zone is in the project that the token is of; former zones have to be moved there",
    );
}
