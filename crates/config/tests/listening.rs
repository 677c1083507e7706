//! Which addresses a configuration listens on, and which sites answer there.

use std::path::Path;
use tidegate_config::load_text;
use tidegate_model::listening::{Answering, listening_shared};

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
        let public = listening.public_port.filter(|port| Some(*port) != address.port());
        let public = public.map_or_else(String::new, |port| format!(" for {port}"));
        seen.push(format!("{} {}{public}{implied}: {}", address.shown(), listening.protocol.as_str(), who.join(" ")));
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

#[test]
fn a_site_listens_where_it_says_for_the_port_that_clients_ask_for() {
    check(
        r#"site "a.test" { listen ":8443" "http://:8080"; respond 200 }"#,
        &[":8080 http for 80: redirect=a.test", ":8443 https for 443: 0=a.test"],
    );
    check(
        r#"site "a.test" { listen "192.0.2.1:8443" "[2001:db8::1]:8443"; respond 200 }"#,
        &[
            "192.0.2.1:8443 https for 443: 0=a.test",
            ":80 http implied: redirect=a.test",
            "[2001:db8::1]:8443 https for 443: 0=a.test",
        ],
    );
    check(
        "site \"https://:443\" { listen \":8443\"; respond 200 }\nsite \"https://a.test\" { listen \"192.0.2.1:8443\"; respond 200 }",
        &["192.0.2.1:8443 https for 443: 1=a.test 0=", ":8443 https for 443: 0="],
    );
    check(
        "site \"http://a.test\" { listen \"unix:/run/a.sock\"; respond 200 }\nsite \"http://b.test\" { listen \"http://unix:/run/a.sock\"; respond 200 }",
        &["unix:/run/a.sock http for 80: 0=a.test 1=b.test"],
    );
    check(r#"site "a.test" { tls "off"; listen ":8080"; respond 200 }"#, &[":8080 http for 80: 0=a.test"]);
}

#[test]
fn what_is_passed_on_has_an_address_of_its_own_or_shares_one() {
    let passthrough = |text: &str| {
        let configuration = load_text("test.kdl", text, Path::new(".")).configuration.expect("a good configuration");
        let shown = |(address, listening): (tidegate_model::ListenAddress, tidegate_model::listening::Listening<'_>)| {
            let names: Vec<String> = listening.by_name.iter().map(|(name, to)| format!("{name}={}", to.arms[0].pool)).collect();
            let otherwise = listening.otherwise.map_or("", |to| &to.arms[0].pool.0);
            format!("{} {}: {} otherwise={otherwise}", address.shown(), listening.protocol.as_str(), names.join(" "))
        };
        listening_shared(&configuration).into_iter().map(shown).collect::<Vec<_>>()
    };
    let check = |text: &str, expected: &[&str]| assert_eq!(passthrough(text), expected, "for {text}");
    check(r#"tcp ":5432" { proxy "10.0.0.7:5432"; }"#, &[":5432 tcp:  otherwise=10.0.0.7:5432"]);
    let names = r#"tcp ":443" { sni "a.test" "*.b.test" { proxy "10.0.0.7:443"; } }"#;
    check(names, &[":443 tcp: a.test=10.0.0.7:443 *.b.test=10.0.0.7:443 otherwise="]);
    check(
        &format!("site \"https://c.test\" {{ respond 200; }}\n{names}"),
        &[":443 https: a.test=10.0.0.7:443 *.b.test=10.0.0.7:443 otherwise="],
    );
    // The socket of the very address gets its connections, so it has what the other has too.
    check(
        &format!("site \"https://c.test\" {{ respond 200; }}\n{names}\ntcp \"192.0.2.1:443\" {{ proxy \"10.0.0.8:443\"; }}"),
        &[
            "192.0.2.1:443 https: a.test=10.0.0.7:443 *.b.test=10.0.0.7:443 otherwise=10.0.0.8:443",
            ":443 https: a.test=10.0.0.7:443 *.b.test=10.0.0.7:443 otherwise=",
        ],
    );
}
