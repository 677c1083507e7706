//! Explanations against what happens: random requests to random configurations, through the real program over real
//! sockets, compared with what the admin API's `explain` said of each before: status, reason, site, route and pool.
//! `decision/configuration.rs` and `decision/question.rs` make what is asked, `decision/asked.rs` asks it.
//!
//! `TIDEGATE_SEED=7 TIDEGATE_CONFIGURATIONS=200` runs others, and more. What is found is printed with its seed, its
//! configuration and its request.

mod asked;
mod configuration;
mod question;
mod random;

use asked::{Asked, Told};
use configuration::Written;
use question::Question;
use random::Random;
use serde_json::Value;
use std::collections::BTreeMap;
use tidegate_testkit::tokio::runtime::Builder;

const SEED: u64 = 17;
const CONFIGURATIONS: u64 = 12;
const REQUESTS: usize = 60;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn what_explain_says_is_what_happens() {
    let first = number("TIDEGATE_SEED", SEED);
    let configurations = number("TIDEGATE_CONFIGURATIONS", CONFIGURATIONS);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut asked = Asked::start();
    let (mut answered, mut refused) = (0, 0);
    // By what differs, each with the first that differs so.
    let mut found = BTreeMap::new();
    for seed in first..first + configurations {
        let mut random = Random::new(seed);
        let written = Written::random(&mut random);
        asked.apply(&written).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", written.text));
        let questions: Vec<Question> = (0..REQUESTS).map(|_| Question::random(&mut random, &written)).collect();
        let said: Vec<Value> = questions.iter().map(|question| asked.explain(question)).collect();
        let told = runtime.block_on(asked.ask_all(&questions)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for ((question, said), told) in questions.iter().zip(&said).zip(&told) {
            match told {
                Told::Answered { status: ..400, .. } => answered += 1,
                Told::Answered { .. } | Told::Nothing(_) => refused += 1,
            }
            if let Err(difference) = compare(said, told) {
                let shown = said["text"].as_str().unwrap_or_default();
                let text = asked.filled(&written);
                found.entry(difference).or_insert_with(|| {
                    format!("seed {seed}\n--- request\n{question:?}\n--- configuration\n{text}\n--- said\n{shown}\n--- happened\n{told:?}")
                });
            }
        }
    }
    if let Some((difference, example)) = found.first_key_value() {
        let all: Vec<&str> = found.keys().map(String::as_str).collect();
        panic!("{} differences:\n{}\nThe first, {difference}: {example}", all.len(), all.join("\n"));
    }
    println!("{answered} requests were answered as `explain` said, {refused} refused");
    // Otherwise it compares refusals only, and could not fail where it matters.
    assert!(answered * 4 > refused && refused * 8 > answered, "{answered} answered, {refused} refused");
}

/// Steps that refuse for what the moment alone knows: `explain` lists them and says no more. Each with the word that
/// stands in the list.
const REFUSING_STEPS: &[(&str, &str)] = &[("rate_limited", "rate-limit"), ("not_authenticated", "basic-auth")];

/// `Err` names the difference in one line.
fn compare(said: &Value, told: &Told) -> Result<(), String> {
    let outcome = &said["outcome"];
    let kind = outcome["kind"].as_str().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (status, log) = match told {
        Told::Answered { status, log } => (status, log),
        Told::Nothing(_) if matches!(kind, "handshake-refused" | "nothing-listens") => return Ok(()),
        Told::Nothing(why) => return Err(format!("said {kind}, happened nothing: {why}")),
    };
    let reason = text(&log["reason"]);
    let happened = format!("{status} {reason}");
    check("the log's status", &u64::from(*status), &log["status"].as_u64().unwrap_or_default())?;
    // What is refused on behalf of the connection is no request of the site: it has no part in its log.
    if !matches!(reason.as_str(), "misdirected" | "connect_method") {
        check("site", &text(&said["site"]), &text(&log["site"]))?;
    }
    let steps = said["route"]["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lists = |word: &str| steps.iter().any(|step| step["text"].as_str().is_some_and(|text| text.starts_with(word)));
    let is_by_step = REFUSING_STEPS.iter().any(|(code, word)| *code == reason && lists(word));
    // Where no route is taken there is no list, and a note that steps of the site may refuse.
    let is_by_site =
        kind == "refused" && REFUSING_STEPS.iter().any(|(code, _)| *code == reason) && outcome["reason"] == "no_route";
    if is_by_site {
        return Ok(());
    }
    let route = said["route"]["rank"].as_u64().map(|rank| rank.to_string()).unwrap_or_default();
    let taken = text(&log["taken"]);
    if route != taken {
        let expected = format!("{kind} {}", text(&outcome["reason"]));
        return Err(format!("said {expected} by route {route}, happened {happened} by route {taken}"));
    }
    if is_by_step {
        return Ok(());
    }
    let expected = outcome["status"].as_u64().map(|status| format!("{status} {}", text(&outcome["reason"])));
    match kind {
        "refused" | "responds" | "redirects" => check("answer", &expected.unwrap_or_default(), &happened),
        "proxied" => {
            check("answer", "200 ", happened.as_str()).and_then(|()| check("pool", &text(&outcome["pool"]), &text(&log["pool"])))
        }
        "split" => check("answer", "200 ", happened.as_str()).and_then(|()| {
            let pool = text(&log["pool"]);
            let is_one = !pool.is_empty() && text(&outcome["shares"]).contains(&pool);
            if is_one { Ok(()) } else { Err(format!("said one of {}, happened pool {pool}", outcome["shares"])) }
        }),
        "serves"
            if matches!(
                happened.as_str(),
                "200 " | "404 no_file" | "405 file_method" | "400 file_path" | "403 file_forbidden" | "301 " | "308 "
            ) =>
        {
            Ok(())
        }
        _ => Err(format!("said {kind}, happened {happened}")),
    }
}

fn check<T: PartialEq + std::fmt::Display + ?Sized>(what: &str, said: &T, happened: &T) -> Result<(), String> {
    if said == happened { Ok(()) } else { Err(format!("{what}: said {said}, happened {happened}")) }
}
