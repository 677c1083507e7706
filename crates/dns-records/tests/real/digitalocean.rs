//! DigitalOcean's API version 2 as its documentation has it: domains by name, records relative to them, pages with
//! links.

use crate::api::{Asked, Emulation, Said, said};
use crate::{published, publisher, run};
use serde_json::json;
use tidegate_dns_records::Publisher;
use tidegate_model::{DnsProvider, Secret};

const NAME: &str = "_acme-challenge.www.example.com";

#[derive(Default)]
struct Team {
    /// Identifier, name within the domain, data.
    records: Vec<(u64, String, String)>,
    always: Option<Said>,
}

fn answer(team: &mut Team, asked: &Asked) -> Said {
    if let Some(always) = team.always.take() {
        return always;
    }
    if asked.header("authorization") != "Bearer right" {
        return said(401, json!({ "id": "unauthorized", "message": "Unable to authenticate you" }));
    }
    match (asked.method.as_str(), asked.segments().as_slice()) {
        ("GET", ["v2", "domains", "example.com"]) => said(200, json!({ "domain": { "name": "example.com", "ttl": 1800 } })),
        ("GET", ["v2", "domains", "example.com", "records"]) => {
            assert_eq!(asked.parameter("type"), "TXT");
            let name = asked.parameter("name").strip_suffix(".example.com").expect("a full name");
            let number = |name| asked.parameter(name).parse::<usize>().expect("a number");
            let (per_page, page) = (number("per_page").min(200), number("page"));
            let of_name: Vec<_> = team.records.iter().filter(|(_, known, _)| known == name).collect();
            let shown: Vec<_> = of_name.iter().skip(per_page * (page - 1)).take(per_page).collect();
            let next = if of_name.len() > per_page * page { json!({ "pages": { "next": "https://…" } }) } else { json!({}) };
            let records: Vec<_> = shown
                .iter()
                .map(|(id, name, data)| json!({ "id": id, "type": "TXT", "name": name, "data": data, "ttl": 60 }))
                .collect();
            said(200, json!({ "domain_records": records, "links": next, "meta": { "total": of_name.len() } }))
        }
        ("POST", ["v2", "domains", "example.com", "records"]) => {
            let record = asked.json();
            assert_eq!((&record["type"], &record["ttl"]), (&json!("TXT"), &json!(60)));
            let text = |field: &str| record[field].as_str().expect("a text").to_owned();
            team.records.push((team.records.len() as u64, text("name"), text("data")));
            said(201, json!({ "domain_record": record }))
        }
        ("DELETE", ["v2", "domains", "example.com", "records", id]) => {
            let before = team.records.len();
            team.records.retain(|(known, ..)| known.to_string() != *id);
            if team.records.len() < before {
                said(204, "")
            } else {
                said(404, json!({ "id": "not_found", "message": "not found" }))
            }
        }
        _ => said(404, json!({ "id": "not_found", "message": "The resource you were accessing could not be found." })),
    }
}

fn with(api: &Emulation<Team>, token: &str) -> Publisher {
    publisher(DnsProvider::DigitalOcean { token: Secret::new(token), api: Some(api.url.clone()) })
}

#[test]
fn values_stand_beside_each_other_and_go_one_by_one() {
    run(async {
        let api = Emulation::start(Team::default(), answer).await;
        let publisher = with(&api, "right");
        let contents = || api.state().records.iter().map(|(_, name, data)| format!("{name} {data}")).collect::<Vec<_>>();
        let first = publisher.publish(NAME, "first").await.expect("published");
        publisher.publish(NAME, "second").await.expect("published");
        publisher.publish(NAME, "first").await.expect("published again");
        assert_eq!(contents(), ["_acme-challenge.www first", "_acme-challenge.www second"]);
        publisher.withdraw(&first).await.expect("withdrawn");
        publisher.withdraw(&first).await.expect("withdrawn again");
        assert_eq!(contents(), ["_acme-challenge.www second"]);
    });
}

#[test]
fn a_value_is_found_on_a_later_page() {
    run(async {
        let record = |index: u64| (index, "_acme-challenge.www".to_owned(), format!("value{index}"));
        let api = Emulation::start(Team { records: (0..250).map(record).collect(), always: None }, answer).await;
        with(&api, "right").withdraw(&published(NAME, "value249")).await.expect("withdrawn");
        assert_eq!(api.state().records.len(), 249);
    });
}

#[test]
fn refusals_say_what_to_do() {
    let check = |always: Option<Said>, token: &str, name: &str, expected: &str| {
        run(async {
            let api = Emulation::start(Team { always, ..Team::default() }, answer).await;
            let fault = with(&api, token).publish(name, "words").await.expect_err(expected);
            assert_eq!(fault.to_string(), format!("digitalocean: {expected}"));
        });
    };
    check(
        None,
        "wrong",
        NAME,
        &format!(
            "for {NAME} the credentials are not accepted: 401 Unauthorized, Unable to authenticate you; check `token=`: it has to be a personal access token that has not expired"
        ),
    );
    check(
        Some(said(403, json!({ "id": "forbidden", "message": "You are not authorized to perform this operation" }))),
        "right",
        NAME,
        &format!(
            "changing {NAME} is not permitted: 403 Forbidden, You are not authorized to perform this operation; give the token the scopes `domain:read`, `domain:create` and `domain:delete`, or full access"
        ),
    );
    check(
        Some(Said {
            headers: vec![("retry-after", "7".into())],
            ..said(429, json!({ "id": "too_many_requests", "message": "API Rate limit exceeded." }))
        }),
        "right",
        NAME,
        &format!("too many requests, so {NAME} is not changed: 429 Too Many Requests, API Rate limit exceeded.; try again in 7s"),
    );
    check(
        None,
        "right",
        "_acme-challenge.example.net",
        "no zone that can be seen there holds _acme-challenge.example.net; add the domain under Networking / Domains of the team that the token is of",
    );
}
