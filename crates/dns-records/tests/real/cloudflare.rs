//! Cloudflare's API version 4 as its documentation has it: zones by name, records in pages, errors with numbers.

use crate::api::{Asked, Emulation, Said, said};
use crate::{published, publisher, run};
use serde_json::{Value, json};
use tidegate_dns_records::Publisher;
use tidegate_model::{DnsProvider, Secret};

const NAME: &str = "_acme-challenge.www.example.com";

#[derive(Default)]
struct Account {
    /// Identifier, name, content.
    records: Vec<(String, String, String)>,
    /// Instead of everything.
    always: Option<(u16, Value, Option<&'static str>)>,
    /// Instead of creating.
    creating: Option<(u16, Value)>,
}

fn error(code: u32, message: &str) -> Value {
    json!({ "success": false, "errors": [{ "code": code, "message": message }], "messages": [], "result": null })
}

fn answer(account: &mut Account, asked: &Asked) -> Said {
    if let Some((status, body, retry_after)) = &account.always {
        let headers = retry_after.map(|secs| ("retry-after", secs.to_owned())).into_iter().collect();
        return Said { headers, ..said(*status, body) };
    }
    if asked.header("authorization") != "Bearer right" {
        return said(403, error(9109, "Invalid access token"));
    }
    let success = |result: Value| said(200, json!({ "success": true, "errors": [], "messages": [], "result": result }));
    match (asked.method.as_str(), asked.segments().as_slice()) {
        ("GET", ["zones"]) => match asked.parameter("name") {
            "example.com" => success(json!([{ "id": "zone1", "name": "example.com", "status": "active" }])),
            _ => success(json!([])),
        },
        ("GET", ["zones", "zone1", "dns_records"]) => {
            assert_eq!(asked.parameter("type"), "TXT");
            let number = |name| asked.parameter(name).parse::<usize>().expect("a number");
            let (per_page, page) = (number("per_page"), number("page"));
            let of_name = account.records.iter().filter(|(_, name, _)| name == asked.parameter("name"));
            let shown = of_name.skip(per_page * (page - 1)).take(per_page);
            success(
                shown.map(|(id, name, content)| json!({ "id": id, "type": "TXT", "name": name, "content": content })).collect(),
            )
        }
        ("POST", ["zones", "zone1", "dns_records"]) => {
            if let Some((status, body)) = &account.creating {
                return said(*status, body);
            }
            let record = asked.json();
            assert_eq!((&record["type"], &record["ttl"]), (&json!("TXT"), &json!(60)));
            let text = |field: &str| record[field].as_str().expect("a text").to_owned();
            let (name, content) = (text("name"), text("content"));
            if account.records.iter().any(|(_, known, text)| (known, text) == (&name, &content)) {
                return said(400, error(81058, "An identical record already exists."));
            }
            account.records.push((format!("id{}", account.records.len()), name, content));
            success(record)
        }
        ("DELETE", ["zones", "zone1", "dns_records", id]) => {
            let before = account.records.len();
            account.records.retain(|(known, ..)| known != id);
            if account.records.len() < before {
                success(json!({ "id": id }))
            } else {
                said(404, error(81044, "Record does not exist."))
            }
        }
        _ => said(404, error(7003, "Could not route to the path")),
    }
}

fn with(api: &Emulation<Account>, token: &str) -> Publisher {
    publisher(DnsProvider::Cloudflare { token: Secret::new(token), api: Some(api.url.clone()) })
}

#[test]
fn values_stand_beside_each_other_and_go_one_by_one() {
    run(async {
        let api = Emulation::start(Account::default(), answer).await;
        let publisher = with(&api, "right");
        let contents = || api.state().records.iter().map(|(_, name, content)| format!("{name} {content}")).collect::<Vec<_>>();
        let first = publisher.publish(NAME, "first").await.expect("published");
        assert_eq!(api.asked(), ["GET /zones", "GET /zones", "POST /zones/zone1/dns_records"]);
        publisher.publish(NAME, "second").await.expect("published");
        publisher.publish(NAME, "first").await.expect("published again");
        assert_eq!(contents(), [format!("{NAME} \"first\""), format!("{NAME} \"second\"")]);
        publisher.withdraw(&first).await.expect("withdrawn");
        publisher.withdraw(&first).await.expect("withdrawn again");
        assert_eq!(contents(), [format!("{NAME} \"second\"")]);
    });
}

#[test]
fn a_value_is_found_on_a_later_page() {
    run(async {
        let record = |index: usize| (format!("id{index}"), NAME.to_owned(), format!("\"value{index}\""));
        let api = Emulation::start(Account { records: (0..250).map(record).collect(), ..Account::default() }, answer).await;
        with(&api, "right").withdraw(&published(NAME, "value201")).await.expect("withdrawn");
        let records = &api.state().records;
        assert_eq!((records.len(), records.iter().any(|(id, ..)| id == "id201")), (249, false));
    });
}

#[test]
fn refusals_say_what_to_do() {
    let check = |account: Account, name: &str, expected: &str| {
        run(async {
            let api = Emulation::start(account, answer).await;
            let token = if expected.contains("9109") { "wrong" } else { "right" };
            let fault = with(&api, token).publish(name, "words").await.expect_err(expected);
            assert_eq!(fault.to_string(), format!("cloudflare: {expected}"));
        });
    };
    let always = |status, body, retry_after| Account { always: Some((status, body, retry_after)), ..Account::default() };
    let token = "check `token=`: it has to be an API token, not the global API key, and still be active";
    check(
        Account::default(),
        NAME,
        &format!("for {NAME} the credentials are not accepted: 403 Forbidden, Invalid access token (9109); {token}"),
    );
    check(
        always(403, error(9109, "Invalid access token wrong"), None),
        NAME,
        &format!("for {NAME} the credentials are not accepted: 403 Forbidden, Invalid access token *** (9109); {token}"),
    );
    check(
        always(400, error(6003, "Invalid request headers"), None),
        NAME,
        &format!("for {NAME} the credentials are not accepted: 400 Bad Request, Invalid request headers (6003); {token}"),
    );
    check(
        Account { creating: Some((403, error(10000, "Authentication error"))), ..Account::default() },
        NAME,
        &format!(
            "changing {NAME} is not permitted: 403 Forbidden, Authentication error (10000); give the API token the permissions Zone / DNS / Edit and Zone / Zone / Read for this zone"
        ),
    );
    check(
        Account::default(),
        "_acme-challenge.example.net",
        "no zone that can be seen there holds _acme-challenge.example.net; check that the zone is in this account, and that the token is for it (Zone Resources)",
    );
    check(
        always(429, error(971, "Please wait"), Some("120")),
        NAME,
        &format!("too many requests, so {NAME} is not changed: 429 Too Many Requests, Please wait (971); try again in 120s"),
    );
    check(always(502, json!("gateway"), None), NAME, &format!("{NAME} is not changed: 502 Bad Gateway"));
    check(
        always(200, json!("words"), None),
        NAME,
        &format!(
            "no zone that can be seen there holds {NAME}; check that the zone is in this account, and that the token is for it (Zone Resources)"
        ),
    );
}
