//! A service that is told by POST.

use crate::api::{Emulation, said};
use crate::{publisher, run};
use tidegate_model::{DnsProvider, Secret};

const NAME: &str = "_acme-challenge.example.com";

#[test]
fn it_is_told_in_json_with_the_token() {
    run(async {
        let hook = Emulation::start(Vec::new(), |heard: &mut Vec<String>, asked| {
            heard.push(format!("{} {} {} {}", asked.method, asked.path, asked.header("authorization"), asked.body));
            said(204, "")
        })
        .await;
        let provider = DnsProvider::Webhook { url: format!("{}/dns/hook", hook.url), token: Some(Secret::new("abc")) };
        let publisher = publisher(provider);
        let done = publisher.publish(NAME, "words").await.expect("published");
        publisher.withdraw(&done).await.expect("withdrawn");
        let told = |action: &str| {
            format!(r#"POST /dns/hook Bearer abc {{"action":"{action}","name":"{NAME}","ttl":60,"value":"words"}}"#)
        };
        assert_eq!(*hook.state(), [told("present"), told("cleanup")]);
    });
}

#[test]
fn its_refusals_are_passed_on_without_the_token() {
    let check = |status: u16, body: &'static str, expected: &str| {
        run(async {
            let hook = Emulation::start((status, body), |(status, body), _| said(*status, body)).await;
            let provider = DnsProvider::Webhook { url: hook.url.clone(), token: Some(Secret::new("secret-token")) };
            let fault = publisher(provider).publish(NAME, "words").await.expect_err(expected);
            assert_eq!(fault.to_string(), format!("webhook: {expected}"));
        });
    };
    check(404, "no zone for this", "_acme-challenge.example.com is not changed: 404 Not Found, no zone for this");
    check(503, r#"{"message":"come back"}"#, "_acme-challenge.example.com is not changed: 503 Service Unavailable, come back");
    check(
        401,
        "secret-token is unknown",
        "for _acme-challenge.example.com the credentials are not accepted: 401 Unauthorized, *** is unknown; check `token=`: it is sent as `Authorization: Bearer …`",
    );
}
