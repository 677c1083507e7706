//! Prometheus: its page behind Tidegate, and Tidegate's metrics in it.

use super::Application;
use crate::cache::Cache;
use crate::example::Configuration;
use crate::stage::{Scheme, Stage, did, free_port};
use serde_json::Value;
use std::time::{Duration, Instant};

pub const PROMETHEUS: Application = Application {
    name: "prometheus",
    title: "Prometheus 2.42 (Debian)",
    story: "it scrapes Tidegate; ask its page and its API, over HTTP/2 and HTTP/1.1",
    configuration: Configuration::File(include_str!("../../configurations/prometheus.kdl")),
    program: None,
    install,
    act,
};

const SETTINGS: &str = include_str!("../../programs/prometheus.yml");
const QUESTION: &str = "tidegate_build_info";
const BOUND: Duration = Duration::from_secs(60);

fn install(cache: &Cache) -> Result<(), String> {
    cache.debian("prometheus", &["prometheus"])
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    Scheme::BOTH.into_iter().try_for_each(|scheme| ask(stage, scheme))
}

fn ask(stage: &Stage<'_>, scheme: Scheme) -> Result<(), String> {
    let (port, version) = (free_port()?, scheme.version());
    let origin = format!("{}://localhost:{}", scheme.name(), free_port()?);
    let front = stage.front(&[("https://localhost:8443", &origin), ("127.0.0.1:9090", &format!("127.0.0.1:{port}"))])?;
    let settings = stage.write(&format!("{}.yml", scheme.name()), &SETTINGS.replace("ADMIN", &front.admin))?;
    let mut command = stage.cache.root("prometheus").command("prometheus")?;
    command.arg(format!("--config.file={}", settings.display()));
    command.arg(format!("--storage.tsdb.path={}", stage.folder.join(scheme.name()).display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let assets = stage.cache.root("prometheus").folder.join("usr/share/prometheus/web");
    if assets.is_dir() {
        command.arg(format!("--web.local-assets={}/", assets.display()));
    }
    let _server = stage.start_at("prometheus", port, &mut command)?;
    let url = format!("{origin}/api/v1/query?query={QUESTION}");
    let begin = Instant::now();
    loop {
        // While it starts it says so in plain words.
        let answer = stage.curl(&[&url])?;
        let read: Value = serde_json::from_str(&answer).unwrap_or_default();
        if read["data"]["result"][0]["value"][1] == "1" {
            break;
        }
        if begin.elapsed() > BOUND {
            return Err(format!("it has not scraped Tidegate: {answer}"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    did(&format!("{version}: it has scraped Tidegate and says so"));
    let mut page = stage.browser()?;
    page.open(&format!("{origin}/classic/targets"))?;
    page.see("td", &front.admin)?;
    // Leads to the page on which questions are asked.
    page.open(&format!("{origin}/"))?;
    page.fill("textarea", QUESTION)?;
    page.click(".execute_btn", "")?;
    page.see("td", QUESTION)?;
    did(&format!("{version}: its page was asked"));
    drop(page);
    front.check(|_| false)
}
