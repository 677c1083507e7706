//! PEM and users whose text stands in the configuration, written out: none of it is in what commands, the API and logs
//! say, while it is what connections are made with.

use super::asked::Asked;
use serde_json::json;
use std::fs;
use std::process::{Command, Stdio};
use tidegate_testkit::authority::{Authority, KeyKind};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const HASH: &str = "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA";

/// Lines of PEM in the middle, which stand nowhere else.
fn marks(pem: &str) -> Vec<String> {
    let lines = pem.lines().filter(|line| line.len() > 20 && !line.starts_with("-----"));
    lines.map(str::to_owned).collect()
}

fn said(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().expect("the program can be run");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn text_of_pem_is_shown_by_its_digest_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "held").expect("an authority");
    let (one, other) = (authority.issue("a.test", KeyKind::Ecdsa), authority.issue("b.test", KeyKind::Ecdsa));
    let (one, other) = (one.expect("a certificate"), other.expect("a certificate"));
    let read = |path: &std::path::Path| fs::read_to_string(path).expect("readable");
    let (cert, key, key_of_other) = (read(&one.cert), read(&one.key), read(&other.key));
    let text = format!(
        "admin \"127.0.0.1:{{admin}}\"\naccess-log \"off\"\nacme \"off\"\nthreads 1\n\
         pool \"app\" {{ server \"https://127.0.0.1:{{closed}}\"; tls ca-pem={cert:?} pem={cert:?} key-pem={key:?}; }}\n\
         site \"https://a.test:{{port}}\" {{\n    tls pem={cert:?} key-pem={key:?}\n    basic-auth users=\"alice:{HASH}\"\n    proxy \"app\"\n}}\n"
    );
    let asked = Asked::of(&text, &[]);
    let file = asked.proxy.places.config_file().display().to_string();
    let written = read(&asked.proxy.places.config_file());
    let changed = folder.path().join("changed.kdl");
    let replaced = written.replace(&format!("{key:?}"), &format!("{key_of_other:?}")).replace("alice", "bob");
    assert_ne!(replaced, written);
    fs::write(&changed, replaced).expect("writable");
    let changed = changed.display().to_string();
    let address = format!("https://a.test:{}/", asked.proxy.address.port());
    let (admin, mut all) = (asked.proxy.admin.clone(), Vec::new());
    for arguments in [
        &["check", &file][..],
        &["check", &changed],
        &["fmt", "--json", &file],
        &["plan", &changed, "--config", &file],
        &["apply", &changed, "--config", &file],
        &["explain", "--config", &file, "GET", &address],
        &["status", "--config", &file],
        &["history", "--config", &file],
    ] {
        all.push((arguments.join(" "), said(arguments)));
    }
    for path in ["/v1/configuration", "/v1/configuration?effective=true", "/v1/certificates", "/v1/pools", "/v1/status"] {
        all.push((path.to_owned(), asked.get(path).text));
    }
    all.push(("/v1/plan".to_owned(), asked.post("/v1/plan", &json!({ "text": read(changed.as_ref()), "name": "c" })).text));
    all.push((format!("the log of {admin}"), asked.proxy.program.output()));
    let secrets = [marks(&cert), marks(&key), marks(&key_of_other), vec![HASH.to_owned()]].concat();
    assert!(secrets.len() > 8, "{secrets:?}");
    for (place, output) in &all {
        let found: Vec<&String> = secrets.iter().filter(|secret| output.contains(secret.as_str())).collect();
        assert!(found.is_empty(), "{place} says {found:?}:\n{output}");
    }
    let explained = &all.iter().find(|(place, _)| place.starts_with("explain")).expect("it was asked").1;
    assert!(explained.contains("pem:sha256:"), "{explained}");
    let refused = &all[1].1;
    assert!(refused.contains("does not belong to the certificate in pem:sha256:"), "{refused}");
}
