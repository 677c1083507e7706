//! Which addresses a configuration listens on, and which sites answer there.

use std::path::Path;
use tidegate_config::load_text;
use tidegate_model::listening::{Answering, listening_shared, shown_address};

fn check(text: &str, expected: &[&str]) {
    let configuration = load_text("test.kdl", text, Path::new(".")).configuration.expect("a good configuration");
    let mut seen = Vec::new();
    for (address, listening) in listening_shared(&configuration) {
        let who = listening.hosts.iter().map(|(answering, host)| match answering {
            Answering::Site(position) => format!("{position}={host}"),
            Answering::Redirect => format!("redirect={host}"),
        });
        let implied = if listening.implied { " implied" } else { "" };
        let who: Vec<String> = who.collect();
        seen.push(format!("{} {}{implied}: {}", shown_address(address), listening.scheme.as_str(), who.join(" ")));
    }
    assert_eq!(seen, expected, "for {text}");
}

#[test]
fn addresses_come_from_the_sites() {
    check(r#"site "http://:8080" "http://a.test:8080" { respond 200 }"#, &[":8080 http: 0= 0=a.test"]);
    check(
        r#"site "a.test" "b.test" { respond 200 }"#,
        &[":80 http implied: redirect=a.test redirect=b.test", ":443 https: 0=a.test 0=b.test"],
    );
    check(
        "site \"a.test\" { respond 200 }\nsite \"http://b.test\" { respond 200 }",
        &[":80 http: 1=b.test redirect=a.test", ":443 https: 0=a.test"],
    );
    check(
        "site \"https://127.0.0.1:443\" { respond 200 }\nsite \"https://b.test\" { respond 200 }",
        &["127.0.0.1:443 https: 0=127.0.0.1 1=b.test", ":443 https: 1=b.test"],
    );
}
