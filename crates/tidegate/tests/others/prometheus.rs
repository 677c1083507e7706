//! The dashboard and the alert rules of `packaging/`: they speak of names that the program exposes, and a real
//! Prometheus that scrapes the program answers each of their questions.

use crate::programs::{done, find, wait_until_it_listens};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tidegate_testkit::ports::Reservation;
use tidegate_testkit::upstream::{Answer, Behaviour, Upstream};
use tidegate_testkit::{Program, Proxy, get};

/// Where names of metrics are written.
const SOURCE: &str = include_str!("../../../telemetry/src/metrics/prometheus.rs");
const WAIT: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
admin "127.0.0.1:{admin}"
access-log "off"
threads 1
memory "1GiB"
pool "app" { server "UPSTREAM"; }
pool "gone" { server "127.0.0.1:{closed:gone}"; retry "off"; }
site "http://localhost:{port}" {
    route "/gone" { proxy "gone" }
    route name="app" { proxy "app" }
}
site "https://localhost:{port:tls}" { tls cert="{cert:localhost}" key="{key:localhost}"; respond 200 }
"#;

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

fn dashboard() -> Value {
    let text = fs::read_to_string(packaging("grafana/tidegate.json")).expect("the dashboard");
    serde_json::from_str(&text).expect("JSON")
}

/// Each question of the dashboard by its panel, with its variables filled in as Grafana does.
fn questions(dashboard: &Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let annotations = dashboard["annotations"]["list"].as_array().expect("annotations").iter();
    let annotations = annotations.map(|annotation| (annotation["name"].clone(), annotation["expr"].clone()));
    let targets = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| (panel["title"].clone(), target["expr"].clone()))
    });
    let filled = |(title, question): (Value, Value)| {
        let question = question.as_str().expect("a question").replace("$__rate_interval", "1m");
        let question = ["$job", "$instance", "$site", "$pool"].iter().fold(question, |text, name| text.replace(name, ".*"));
        (title.as_str().expect("a title").to_owned(), question)
    };
    targets.chain(annotations).map(filled).collect()
}

/// Names of metrics in a text, without what a histogram adds to its own.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let of_metrics = words.filter(|word| word.starts_with("tidegate_") || word.starts_with("process_"));
    let base = |word: &str| {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix));
        base.unwrap_or(word).to_owned()
    };
    of_metrics.map(base).collect()
}

#[test]
fn every_name_in_the_dashboard_and_the_rules_is_one_of_ours() {
    let exposed = names(SOURCE);
    let asked = questions(&dashboard()).into_iter().map(|(_, question)| question);
    let variables = dashboard()["templating"]["list"].to_string();
    let rules = fs::read_to_string(packaging("prometheus/tidegate.rules.yml")).expect("the rules");
    let rules = rules.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let mut all: BTreeSet<String> = asked.flat_map(|question| names(&question)).collect();
    assert!(all.len() > 25, "{all:?}");
    all.extend(names(&variables));
    all.extend(names(&rules));
    // Files that are named in the rules' own text.
    all.remove("tidegate_rules");
    let unknown: Vec<_> = all.difference(&exposed).collect();
    assert!(unknown.is_empty(), "{unknown:?} are no names of ours");
}

/// What Prometheus answers a question with.
fn ask(address: &str, path: &str) -> Value {
    let (status, text) = get(address, path).expect("Prometheus answers");
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {status} {text}"));
    assert_eq!(answer["status"], "success", "{path}: {text}");
    answer["data"].clone()
}

fn encoded(question: &str) -> String {
    let byte = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    question.bytes().map(byte).collect()
}

#[test]
fn a_real_prometheus_answers_every_question() {
    let (Some(prometheus), Some(promtool)) = (find("prometheus"), find("promtool")) else { return };
    let rules = packaging("prometheus/tidegate.rules.yml");
    done(&promtool, &["check", "rules", &rules.display().to_string()]);
    let upstream = Upstream::start(Behaviour::new(Answer::ByPath)).expect("a port is free");
    let config = CONFIG.replace("UPSTREAM", &upstream.address.to_string());
    let proxy = Proxy::start(env!("CARGO_BIN_EXE_tidegate"), &config).expect("it starts");
    let folder = proxy.places.folder().join("prometheus");
    fs::create_dir(&folder).expect("a folder");
    let settings = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{:?}]\nscrape_configs:\n  - job_name: tidegate\n    static_configs: [{{ targets: [{:?}] }}]\n",
        rules.display().to_string(),
        proxy.admin
    );
    let file = folder.join("prometheus.yml");
    fs::write(&file, settings).expect("a file");
    done(&promtool, &["check", "config", &file.display().to_string()]);
    let port = Reservation::new().expect("a port is free");
    let listen = format!("127.0.0.1:{}", port.port());
    let arguments = [
        format!("--config.file={}", file.display()),
        format!("--storage.tsdb.path={}", folder.join("data").display()),
        format!("--web.listen-address={listen}"),
    ];
    drop(port);
    let running = Program::start(&prometheus, &arguments, &folder, None).expect("it runs");
    wait_until_it_listens(listen.parse().expect("an address")).unwrap_or_else(|error| panic!("{error}\n{}", running.output()));
    // Prometheus listens before it has read what it has stored, and answers 503 until then.
    let began = Instant::now();
    while !matches!(get(&listen, "/-/ready"), Ok((200, _))) && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let host = format!("localhost:{}", proxy.address.port());
    let begin = Instant::now();
    let mut empty: BTreeMap<String, String> = BTreeMap::new();
    loop {
        for path in ["/bytes/1000", "/status/404", "/gone"] {
            let _ = get(&host, path);
        }
        // A host that no site has.
        let _ = get(&proxy.address.to_string(), "/");
        empty.clear();
        for (title, question) in questions(&dashboard()) {
            let data = ask(&listen, &format!("/api/v1/query?query={}", encoded(&question)));
            if data["result"].as_array().is_some_and(Vec::is_empty) {
                empty.insert(question, title);
            }
        }
        // Nobody shakes hands, waits, retries or has a certificate that ends here; those questions are answered by
        // nothing.
        let is_about_what_happens = |title: &String| {
            let nothing_happens = ["Failed handshakes", "Time of handshakes, 95 %", "Queue, connect and handshake, 95 %"];
            !nothing_happens.contains(&title.as_str()) && title != "Configurations"
        };
        empty.retain(|_, title| is_about_what_happens(title));
        if empty.is_empty() {
            break;
        }
        assert!(begin.elapsed() < WAIT, "Prometheus has no answer to {empty:#?}");
        std::thread::sleep(Duration::from_millis(500));
    }
    // Of a server that nobody listens at, connections fail: that alert is on its way once its rate is known.
    loop {
        let _ = get(&host, "/gone");
        let groups = ask(&listen, "/api/v1/rules");
        let rules = groups["groups"][0]["rules"].as_array().expect("rules");
        assert!(rules.len() >= 15, "{groups}");
        for rule in rules {
            assert!(rule["health"] == "ok" || rule["health"] == "unknown", "{rule}");
        }
        let pending = |name: &str| rules.iter().any(|rule| rule["name"] == name && rule["state"] != "inactive");
        assert!(!pending("TidegatePanics"), "{groups}");
        if pending("TidegateServerErrors") && rules.iter().all(|rule| rule["health"] == "ok") {
            break;
        }
        assert!(begin.elapsed() < WAIT * 2, "{groups}");
        std::thread::sleep(Duration::from_millis(500));
    }
}
