//! Commands about the proxy as a process: signals, exit, metrics, logs. Each waits, within the case's bound, until what
//! it asks for is so.

use super::script::{Matcher, OutputExpectation, ProcessCommand, ProgramCall};
use super::variants::has_driver;
use super::world::World;
use crate::admin;
use crate::mmdb;
use crate::program::Program;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub async fn execute(world: &Rc<World>, command: &ProcessCommand) -> Result<(), String> {
    match command {
        ProcessCommand::Signal(name) => with_program(world, |program| program.signal(name))?,
        ProcessCommand::ExpectExit(code) => return expect_end(world, Some(*code)).await,
        ProcessCommand::ExpectRunning => match with_program(world, |program| Ok(program.poll_exit()))? {
            None => {}
            Some(code) => return Err(format!("the proxy ended with {code}")),
        },
        ProcessCommand::ExpectMetric(selector, range) => return expect_metric(world, selector, *range).await,
        ProcessCommand::ExpectUpstreamRequests(range) => return expect_upstream_requests(world, *range).await,
        ProcessCommand::ExpectAdmin(path, status, body) => {
            let path = String::from_utf8_lossy(path).into_owned();
            return expect_admin(world, &path, *status, body.as_ref()).await;
        }
        ProcessCommand::ExpectLog(fields) => {
            let is_there = || log_lines(&world.access_log).iter().any(|line| fits(line, fields));
            return until(world, || if is_there() { Ok(()) } else { Err(no_line(world)) }).await;
        }
        ProcessCommand::ExpectNoLog(fields) => {
            if let Some(line) = log_lines(&world.access_log).iter().find(|line| fits(line, fields)) {
                return Err(format!("the access log has {line}"));
            }
        }
        ProcessCommand::ExpectLogLine(matcher) => {
            let is_there = || log_text(&world.access_log).lines().any(|line| matcher.matches(line.as_bytes()));
            return until(world, || if is_there() { Ok(()) } else { Err(no_line(world)) }).await;
        }
        ProcessCommand::ExpectStderr(matcher) => return expect_output(world, matcher, Program::stderr).await,
        ProcessCommand::ExpectStdout(matcher) => return expect_output(world, matcher, Program::stdout).await,
        ProcessCommand::ExpectEnded => return expect_end(world, None).await,
        ProcessCommand::ExpectRefused(address) => {
            let address = String::from_utf8_lossy(address).into_owned();
            return until(world, || match std::net::TcpStream::connect(&address) {
                Ok(_) => Err(format!("{address} takes connections")),
                Err(_) => Ok(()),
            })
            .await;
        }
        ProcessCommand::ExpectFile(name, matcher) => {
            let path = world.folder.join(name);
            return until(world, || {
                let text = log_text(&path);
                if matcher.matches(text.as_bytes()) { Ok(()) } else { Err(format!("expected {matcher}; {name} holds:\n{text}")) }
            })
            .await;
        }
        ProcessCommand::ExpectNoFile(name) => {
            if world.folder.join(name).exists() {
                return Err(format!("{name} is there"));
            }
        }
        ProcessCommand::WriteFile(name, text) => write_file(world, name, text.clone())?,
        ProcessCommand::RemoveFile(name) => {
            std::fs::remove_file(world.folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        }
        ProcessCommand::CopyFile { from, to } => copy_file(world, from, to)?,
    }
    Ok(())
}

fn write_file(world: &World, name: &str, mut text: String) -> Result<(), String> {
    // A reload keeps the driver: another would have the workers leave.
    if let (Some(driver), "tidegate.kdl") = (world.driver, name)
        && !has_driver(&text)
    {
        text.push_str(&format!("\ndriver \"{driver}\"\n"));
    }
    std::fs::write(world.folder.join(name), mmdb::contents(name, text)?).map_err(|error| format!("{name}: {error}"))
}

fn copy_file(world: &World, from: &[u8], to: &[u8]) -> Result<(), String> {
    let path = |name: &[u8]| world.folder.join(String::from_utf8_lossy(name).as_ref());
    let (from, to) = (path(from), path(to));
    let fresh = to.with_extension("fresh");
    let copied = std::fs::copy(&from, &fresh).and_then(|_| std::fs::rename(&fresh, &to));
    copied.map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

/// The access log has a line of a request that was refused with that status, and with these fields; so many of them as
/// were asked for in this way.
pub async fn expect_refusal_logged(world: &Rc<World>, status: u16, log: &[(String, Matcher)]) -> Result<(), String> {
    let mut fields = log.to_vec();
    fields.push(("status".to_owned(), Matcher::Equal(status.to_string().into_bytes())));
    let wanted = world.count_refusal(&fields);
    let count = || log_lines(&world.access_log).iter().filter(|line| fits(line, &fields)).count();
    until(world, || if count() >= wanted { Ok(()) } else { Err(no_line(world)) }).await
}

async fn expect_upstream_requests(world: &World, range: super::script::Range) -> Result<(), String> {
    let taken = || world.upstream_counters.borrow().iter().map(|each| each.requests.load(Ordering::Relaxed)).sum::<u64>();
    until(world, || match taken() {
        taken if range.contains(taken as f64) => Ok(()),
        taken => Err(format!("{taken} requests reached the upstreams, expected {range}")),
    })
    .await
}

/// With that code, or with whatever.
async fn expect_end(world: &World, code: Option<i32>) -> Result<(), String> {
    world.exit_expected.set(true);
    until(world, || match (with_program(world, |program| Ok(program.poll_exit()))?, code) {
        (Some(seen), Some(code)) if seen != code => Err(format!("ended with {seen}, expected {code}")),
        (Some(_), _) => Ok(()),
        (None, _) => Err("still running".into()),
    })
    .await
}

/// Tries again until it holds; at the bound, the last reason.
async fn until(world: &World, mut attempt: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(reason) if begin.elapsed() > world.wait => return Err(reason),
            Err(_) => sleep(POLL_INTERVAL).await,
        }
    }
}

async fn expect_metric(world: &World, selector: &str, range: super::script::Range) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let address = world.admin.clone();
        let metrics = spawn_blocking(move || admin::Metrics::fetch(&address)).await.map_err(|error| error.to_string())??;
        let value = metrics.sum(selector);
        if range.contains(value) {
            return Ok(());
        }
        if begin.elapsed() > world.wait {
            return Err(format!("{selector} is {value}, expected {range}\n{}", metrics.lines_of(selector)));
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn expect_admin(world: &World, path: &str, status: u16, body: Option<&Matcher>) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let (address, own_path) = (world.admin.clone(), path.to_owned());
        let answer = spawn_blocking(move || admin::get(&address, &own_path)).await.map_err(|error| error.to_string())?;
        let reason = match answer {
            Ok((seen, text)) if seen == status && body.is_none_or(|body| body.matches(text.as_bytes())) => return Ok(()),
            Ok((seen, text)) => format!("{path}: status {seen}, expected {status}; body:\n{text}"),
            Err(error) => error,
        };
        if begin.elapsed() > world.wait {
            return Err(reason);
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn expect_output(world: &Rc<World>, matcher: &Matcher, stream: fn(&Program) -> String) -> Result<(), String> {
    until(world, || {
        let text = with_program(world, |program| Ok(stream(program)))?;
        if matcher.matches(text.as_bytes()) { Ok(()) } else { Err(format!("expected {matcher}; the output is:\n{text}")) }
    })
    .await
}

fn with_program<T>(world: &World, action: impl FnOnce(&mut Program) -> Result<T, String>) -> Result<T, String> {
    match world.program.borrow_mut().as_mut() {
        Some(program) => action(program),
        None => Err("this case runs no proxy".into()),
    }
}

fn no_line(world: &World) -> String {
    format!("no line of the access log fits; it has:\n{}", log_text(&world.access_log))
}

fn log_text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn log_lines(path: &Path) -> Vec<serde_json::Value> {
    log_text(path).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn fits(line: &serde_json::Value, fields: &[(String, Matcher)]) -> bool {
    fields.iter().all(|(name, matcher)| {
        let value = match line.get(name) {
            None | Some(serde_json::Value::Null) => return false,
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        matcher.matches(value.as_bytes())
    })
}

/// Runs the program once beside the proxy and checks what it printed.
pub fn run_command(binary: &Path, folder: &Path, bound: Duration, call: &ProgramCall) -> Result<(), (usize, String)> {
    let at_start = |error| (call.line, error);
    let arguments: Vec<String> = call.arguments.iter().map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
    let mut program = Program::start(binary, &arguments, folder, call.stdin.as_deref()).map_err(at_start)?;
    let code = program.wait_exit(bound).map_err(|error| (call.line, format!("{error}\n{}", program.output())))?;
    if code != call.exit {
        return Err((call.line, format!("exit code {code}, expected {}\n{}", call.exit, program.output())));
    }
    // The readers may still hold the last bytes for a moment after the process is gone.
    let begin = Instant::now();
    let mut results = check_output(&program, folder, call);
    while results.is_err() && begin.elapsed() < Duration::from_millis(500) {
        std::thread::sleep(POLL_INTERVAL);
        results = check_output(&program, folder, call);
    }
    results
}

fn check_output(program: &Program, folder: &Path, call: &ProgramCall) -> Result<(), (usize, String)> {
    for (line, expectation) in &call.expectations {
        let (matcher, wanted, seen) = match expectation {
            OutputExpectation::Stdout(matcher) => (matcher, true, program.stdout()),
            OutputExpectation::Stderr(matcher) => (matcher, true, program.stderr()),
            OutputExpectation::NotStderr(matcher) => (matcher, false, program.stderr()),
            OutputExpectation::File(name, matcher) => {
                (matcher, true, log_text(&folder.join(String::from_utf8_lossy(name).into_owned())))
            }
        };
        if matcher.matches(seen.as_bytes()) != wanted {
            let expected = if wanted { "expected" } else { "did not expect" };
            return Err((*line, format!("{expected} {matcher}; seen:\n{seen}")));
        }
    }
    Ok(())
}
