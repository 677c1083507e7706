//! Two servers that know their visitors in memory only, one of which is killed under them and comes back.

use super::Application;
use crate::cache::Cache;
use crate::example::Configuration;
use crate::processes::Process;
use crate::stage::{Stage, did, free_port};
use std::collections::BTreeMap;
use std::process::Command;

pub const STICKY: Application = Application {
    name: "sticky",
    title: "a pair of Express 5.3 with sessions in memory",
    story: "twenty visitors log in; one server is killed and started again: no request fails, and nobody is moved who need not be",
    configuration: Configuration::File(include_str!("../../configurations/sticky.kdl")),
    program: None,
    install,
    act,
};

const SHOP: &str = include_str!("../../programs/sticky/shop.js");
const VISITORS: usize = 20;

fn install(cache: &Cache) -> Result<(), String> {
    cache.npm("sticky", &["express@5.3.0", "express-session@1.19.0"])
}

/// What each visitor is answered: a name and a port.
type Seen = BTreeMap<usize, String>;

struct Visitors<'a> {
    stage: &'a Stage<'a>,
    origin: String,
}

fn act(stage: &Stage<'_>) -> Result<(), String> {
    stage.write("shop.js", SHOP)?;
    let (one, other) = (free_port()?, free_port()?);
    let origin = format!("https://localhost:{}", free_port()?);
    let first = start(stage, one)?;
    let _second = start(stage, other)?;
    let front = stage.front(&[
        ("https://localhost:8443", &origin),
        ("127.0.0.1:3001", &format!("127.0.0.1:{one}")),
        ("127.0.0.1:3002", &format!("127.0.0.1:{other}")),
    ])?;
    let visitors = Visitors { stage, origin };
    (0..VISITORS).try_for_each(|visitor| visitors.log_in(visitor))?;
    let begun = visitors.look()?;
    let at = |seen: &Seen, port: u16| seen.values().filter(|said| said.ends_with(&format!(" at {port}"))).count();
    if at(&begun, one) == 0
        || at(&begun, other) == 0
        || begun.iter().any(|(visitor, said)| !said.starts_with(&format!("v{visitor} ")))
    {
        return Err(format!("they are not spread over both, or not known: {begun:?}"));
    }
    for _ in 0..3 {
        same("with both there", &begun, &visitors.look()?)?;
    }
    did(&format!("{} visitors are known, {} at one server and {} at the other", VISITORS, at(&begun, one), at(&begun, other)));
    let after = visitors.look_while(first)?;
    let stayed = |seen: &Seen| -> Seen {
        let at_other = |(visitor, said): (&usize, &String)| {
            said.ends_with(&format!(" at {other}")).then_some((*visitor, seen.get(visitor).cloned().unwrap_or_default()))
        };
        begun.iter().filter_map(at_other).collect()
    };
    same("whose server lives, while the other is dead", &stayed(&begun), &stayed(&after))?;
    if at(&after, one) > 0 || at(&after, other) < VISITORS {
        return Err(format!("somebody is answered by a dead server: {after:?}"));
    }
    did("one server was killed: every request was answered, and nobody lost a session who had it at the other");
    let _first = start(stage, one)?;
    for (visitor, said) in &after {
        if said.starts_with("nobody ") {
            visitors.log_in(*visitor)?;
        }
    }
    let again = visitors.look()?;
    for _ in 0..10 {
        same("with the first one back", &again, &visitors.look()?)?;
    }
    same("whose server lived all the time", &stayed(&begun), &stayed(&again))?;
    did("it was started again: who had to log in anew is known, and nobody was moved");
    front.check(|_| false)
}

fn start(stage: &Stage<'_>, port: u16) -> Result<Process, String> {
    let mut command = Command::new("node");
    command.arg("shop.js").env("PORT", port.to_string()).current_dir(&stage.folder);
    stage.start_at(&format!("shop-{port}"), port, &mut command)
}

fn same(what: &str, expected: &Seen, seen: &Seen) -> Result<(), String> {
    if expected == seen { Ok(()) } else { Err(format!("{what}: {seen:?} is not {expected:?}")) }
}

impl Visitors<'_> {
    fn ask(&self, visitor: usize, more: &[&str], path: &str) -> Result<String, String> {
        let jar = self.stage.folder.join(format!("cookies-{visitor}")).display().to_string();
        let url = format!("{}{path}", self.origin);
        let mut arguments = vec!["--fail-with-body", "-b", &jar, "-c", &jar];
        arguments.extend(more);
        arguments.push(&url);
        self.stage.curl(&arguments)
    }

    fn log_in(&self, visitor: usize) -> Result<(), String> {
        self.ask(visitor, &["-d", &format!("name=v{visitor}")], "/login").map(drop)
    }

    fn look(&self) -> Result<Seen, String> {
        (0..VISITORS).map(|visitor| Ok((visitor, self.ask(visitor, &[], "/me")?))).collect()
    }

    /// In the middle of a round the server is killed; what all are answered a round later.
    fn look_while(&self, victim: Process) -> Result<Seen, String> {
        let mut victim = Some(victim);
        for visitor in (0..VISITORS).chain(0..VISITORS) {
            if visitor == VISITORS / 2
                && let Some(victim) = victim.take()
            {
                victim.kill();
            }
            self.ask(visitor, &[], "/me")?;
        }
        self.look()
    }
}
