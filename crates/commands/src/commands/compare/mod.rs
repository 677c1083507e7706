//! `tidegate compare`: the same requests to two servers, and what they answer differently. Requests are read and
//! answers compared by the crate of that name; connections are in `side.rs`, the two protocols in `http1.rs` and
//! `http2.rs`, who is asked when in `replay.rs`.

mod http1;
mod http2;
mod input;
mod replay;
mod side;

use crate::cli::compare::CompareWanted;
use crate::output;
use regex::bytes::Regex;
use replay::{Replay, Settings};
use serde_json::{Value, json};
use side::Side;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;
use tidegate_compare::{Origins, Read, Report, Rules, Wanted};

/// Answers differ.
const DIFFERENT: u8 = 1;
/// Nothing is known, or not all. The codes are those of `diff`.
const TROUBLE: u8 = 2;

pub fn run(wanted: &CompareWanted) -> ExitCode {
    match compare(wanted) {
        Ok(code) => code,
        Err(fault) => {
            output::say_fault(&fault);
            ExitCode::from(TROUBLE)
        }
    }
}

fn compare(wanted: &CompareWanted) -> Result<ExitCode, String> {
    let (old, new) = (Side::new("--old", &wanted.old, wanted)?, Side::new("--new", &wanted.new, wanted)?);
    let origins = Origins { old: old.origin(), new: new.origin() };
    let settings = Settings {
        host: host(wanted, &old)?,
        fields: wanted.header.iter().map(|line| field(line)).collect::<Result<_, _>>()?,
        rules: rules(wanted)?,
        parallel: usize::from(wanted.parallel),
        rate: wanted.rate,
        timeout: wanted.timeout,
        body_bytes: wanted.body_bytes as usize,
        examples: wanted.examples,
        origins,
    };
    let read = input::read(
        &wanted.requests,
        Wanted { all_methods: wanted.all_methods, repeats: wanted.repeats, requests_max: wanted.max_requests as usize },
    )?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let Replay { report, stopped } = runtime.block_on(replay::run(&read.requests, old, new, settings))?;
    let said = Said { read: &read, report: &report, stopped: stopped.as_deref() };
    output::say(&said.json(wanted), || said.text());
    if let Some(why) = &stopped {
        output::say_fault(why);
        return Ok(ExitCode::from(TROUBLE));
    }
    if report.asked == 0 {
        return Err("nothing was sent, so nothing is known\n  help: see what was left out, and why".to_owned());
    }
    Ok(if report.different == 0 { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENT) })
}

fn host(wanted: &CompareWanted, old: &Side) -> Result<String, String> {
    let Some(host) = &wanted.host else { return Ok(old.authority()) };
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    if is_host {
        Ok(host.clone())
    } else {
        Err(format!("`{}` is no host\n  help: as in `--host shop.example.com`", host.escape_debug()))
    }
}

/// `Name: value`
fn field(line: &str) -> Result<(String, String), String> {
    let refused = |problem: &str| format!("`--header {}` {problem}", line.escape_debug());
    let (name, value) = line.split_once(':').ok_or_else(|| refused("is no `Name: value`"))?;
    let (name, value) = (name.trim(), value.trim());
    if name.eq_ignore_ascii_case("host") {
        return Err(refused("names the host\n  help: `--host` does that"));
    }
    if tidegate_compare::is_of_connection(name) {
        return Err(refused("is of the connection, and is written for each server"));
    }
    if !tidegate_compare::is_field(name, value) {
        return Err(refused("cannot stand in a request"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn rules(wanted: &CompareWanted) -> Result<Rules, String> {
    let names = |names: &[String]| names.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
    let pattern = |text: &String| {
        Regex::new(text).map_err(|error| format!("`--ignore-body {}` is no regular expression: {error}", text.escape_debug()))
    };
    // Where a redirect leads is what its status means.
    let only = if wanted.status_only { BTreeSet::from(["location".to_owned()]) } else { names(&wanted.only_header) };
    Ok(Rules {
        only,
        ignored: names(&wanted.ignore_header),
        exact: names(&wanted.exact_header),
        ignored_in_bodies: wanted.ignore_body.iter().map(pattern).collect::<Result<_, _>>()?,
        without_bodies: wanted.status_only,
    })
}

/// What there is to say in the end.
struct Said<'s> {
    read: &'s Read,
    report: &'s Report,
    stopped: Option<&'s str>,
}

impl Said<'_> {
    fn text(&self) -> String {
        let Said { read, report, stopped } = self;
        let mut text = report.text().trim_start_matches('\n').to_owned();
        if !text.is_empty() {
            text.push('\n');
        }
        let sent = report.asked;
        let _ = writeln!(text, "{} read, {} sent to both", count(read.found, "request"), count(sent, "request"));
        if read.repeated > 0 {
            let _ = writeln!(text, "  {} ask what one before does; --repeats asks again", read.repeated);
        }
        for (why, (number, first)) in &read.left_out {
            let _ = writeln!(text, "  {number} left out, the first on line {first}: {why}{}", self.methods(why.word()));
        }
        if read.is_cut {
            let _ = writeln!(text, "  there are more; --max-requests sends more");
        }
        if report.in_part > 0 {
            let _ =
                writeln!(text, "  {} compared in their beginning only; --body-bytes keeps more", count(report.in_part, "body"));
        }
        let verdict = if report.different == 0 { "all answers are alike".to_owned() } else { different(report) };
        let _ = writeln!(text, "{}{verdict}", if stopped.is_some() { "stopped early; until then " } else { "" });
        text
    }

    fn methods(&self, why: &str) -> String {
        let is_told = why == "unsafe_method" && !self.read.methods.is_empty();
        if is_told { format!(" ({})", self.read.methods.join(", ")) } else { String::new() }
    }

    fn json(&self, wanted: &CompareWanted) -> Value {
        let Said { read, report, stopped } = self;
        let left_out: Vec<Value> = read
            .left_out
            .iter()
            .map(|(why, (count, first))| json!({ "why": why.word(), "count": count, "first_line": first }))
            .collect();
        json!({
            "old": wanted.old,
            "new": wanted.new,
            "requests": {
                "read": read.found,
                "sent": report.asked,
                "repeated": read.repeated,
                "left_out": left_out,
                "is_cut": read.is_cut,
            },
            "alike": report.asked - report.different,
            "different": report.different,
            "bodies_in_part": report.in_part,
            "differences": report.groups(),
            "untold": report.untold,
            "stopped": stopped,
        })
    }
}

fn different(report: &Report) -> String {
    format!("{} of {} answers differ", report.different, report.asked)
}

fn count(number: usize, what: &str) -> String {
    match (number, what) {
        (1, _) => format!("1 {what}"),
        (_, "body") => format!("{number} bodies"),
        _ => format!("{number} {what}s"),
    }
}
