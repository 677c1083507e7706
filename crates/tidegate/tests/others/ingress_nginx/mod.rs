//! Ingresses at random, before Debian's nginx with what ingress-nginx writes for them, and before the program as the
//! controller of a cluster: asked the same around each boundary. Whatever nginx keeps out has to be kept out; any other
//! difference is one that the documentation tells of.
//!
//! `SEED=7` takes that host alone, `HOSTS=1000` as many from there on, `QUESTIONS=300` as many of each; `SHOW=1` shows
//! what is taken for explained as well.

mod answers;
mod differences;
mod due;
mod objects;
mod pair;
mod questions;
mod random;
mod written;

use answers::Side;
use differences::{Difference, difference};
use objects::Host;
use pair::Pair;
use questions::Question;
use random::Random;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use tidegate_testkit::tls::{ClientOptions, client_config};

/// Hosts that are served by one pair.
const HOSTS_AT_ONCE: usize = 80;
/// Examples of one kind of difference.
const SHOWN: usize = 2;

#[test]
fn ingresses_mean_what_nginx_makes_of_them() {
    let Some(nginx) = crate::programs::find("nginx") else {
        assert!(std::env::var_os("CI").is_none(), "the pipeline has no nginx");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SEED").unwrap_or(1);
    let hosts = number("HOSTS").unwrap_or(if number("SEED").is_some() { 1 } else { 80 });
    let questions = number("QUESTIONS").unwrap_or(60);
    let seeds: Vec<u64> = (first..first + hosts).collect();
    let mut found = Found::default();
    for seeds in seeds.chunks(HOSTS_AT_ONCE) {
        compare(&nginx, seeds, questions, &mut found);
    }
    found.tell();
}

/// Kinds of differences, with examples.
#[derive(Default)]
struct Found {
    asked: u64,
    alike: u64,
    explained: BTreeMap<&'static str, (u64, Vec<String>)>,
    faults: BTreeMap<String, (u64, Vec<String>)>,
}

impl Found {
    fn tell(&self) {
        println!("{} questions, {} answers alike", self.asked, self.alike);
        for (why, (count, shown)) in &self.explained {
            println!("{count} explained: {why}");
            if std::env::var_os("SHOW").is_some() {
                println!("{}", shown.join("\n"));
            }
        }
        let mut text = String::new();
        for (kind, (count, shown)) in &self.faults {
            let _ = writeln!(text, "=== {count} times {kind}\n{}", shown.join("\n"));
        }
        assert!(self.faults.is_empty(), "\n{text}");
    }
}

fn compare(nginx: &Path, seeds: &[u64], questions: u64, found: &mut Found) {
    let hosts: Vec<Host> = seeds.iter().map(|seed| Host::of(*seed)).filter(|host| !written::is_refused(host)).collect();
    let pair = Pair::start(nginx, &hosts).unwrap_or_else(|fault| panic!("seeds {seeds:?}: {fault}"));
    let options = ClientOptions { send_sni: true, ..ClientOptions::default() };
    let config = Arc::new(client_config(None, &options).expect("a client"));
    let mut theirs = Side::new(pair.nginx_http, pair.nginx_https, config.clone());
    let mut ours = Side::new(pair.our_http, pair.our_https, config);
    for host in &hosts {
        let mut random = Random::of(host.seed ^ 0xABCD);
        for _ in 0..questions {
            let question = Question::beside(host, &mut random);
            let (a, b) = match (theirs.ask(&question, &host.name), ours.ask(&question, &host.name)) {
                (Ok(a), Ok(b)) => (a, b),
                (a, b) => panic!("{}: {a:?} {b:?}\n{question:?}\n{}", host.seed, pair.said()),
            };
            found.asked += 1;
            let example = || {
                format!(
                    "--- SEED={}\n{}    nginx    {a:?}\n    Tidegate {b:?}\n{}",
                    host.seed,
                    question.head(),
                    block(&pair, host)
                )
            };
            let mut ask = |other: &Question| theirs.ask(other, &host.name).expect("nginx answers");
            match difference(host, &question, &a, &b, &mut ask) {
                Difference::None => found.alike += 1,
                Difference::Explained(why) => note(found.explained.entry(why).or_default(), example),
                Difference::Fault(kind) => note(found.faults.entry(kind).or_default(), example),
            }
        }
    }
}

fn note((count, shown): &mut (u64, Vec<String>), example: impl FnOnce() -> String) {
    *count += 1;
    if shown.len() < SHOWN {
        shown.push(example());
    }
}

/// What nginx has of the host, and what the Ingresses say.
fn block(pair: &Pair, host: &Host) -> String {
    let domain = host.rule().trim_start_matches("*.").replace('.', r"\.");
    let begin = [format!("server_name {};", host.name), format!("{domain}$\";")];
    let text = begin
        .iter()
        .find_map(|begin| pair.configuration.split(begin.as_str()).nth(1))
        .and_then(|rest| rest.split("\nserver {").next())
        .unwrap_or_default();
    format!("{:#?}\n{text}", host.ingresses)
}
