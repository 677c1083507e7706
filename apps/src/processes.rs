//! Programs that the suite starts: in groups of their own, watched, and ended by their ids with all that they have
//! started themselves, some of which leave their group (kernels, terminals). A Ctrl-C ends all of them.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// From being asked to end, until it is made to.
const STOP_TIME_MAX: Duration = Duration::from_secs(8);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Of what a program has said last.
const LAST_LINES: usize = 12;

/// Whether nothing is started any more.
static IS_OVER: Mutex<bool> = Mutex::new(false);

/// A program that serves. Dropping it ends it.
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts it with no input; what it says goes into the file.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Process, String> {
        let output = create(log)?;
        let second = output.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        Process::spawn(name, command.stdin(Stdio::null()).stdout(output).stderr(second), log)
    }

    /// Starts it as its streams are set up already.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Process, String> {
        let is_over = IS_OVER.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_over {
            return Err("interrupted".into());
        }
        // What goes to servers of this machine goes there, whatever proxy registries are reached by.
        command.envs(["NO_PROXY", "no_proxy"].map(|name| (name, "localhost,127.0.0.1")));
        let child = command.process_group(0).spawn();
        let child = child.map_err(|error| format!("{name}: {}: {error}", command.get_program().display()))?;
        Ok(Process { child, name: name.to_owned(), log: log.to_owned() })
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// What it has said so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Polls until `condition` holds; fails when the program ends before.
    pub fn wait_until(&mut self, what: &str, bound: Duration, mut condition: impl FnMut() -> bool) -> Result<(), String> {
        let begin = Instant::now();
        while !condition() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{} ended with {status}, before {what}\n{}", self.name, last_lines(&self.output())));
            }
            if begin.elapsed() > bound {
                return Err(format!("{}: after {bound:?} not so: {what}\n{}", self.name, last_lines(&self.output())));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Waits for its end; `Err` when it takes longer.
    fn wait(&mut self, bound: Duration) -> Result<bool, String> {
        let begin = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status.success()),
                Ok(None) if begin.elapsed() > bound => return Err(format!("{} did not end within {bound:?}", self.name)),
                Ok(None) => thread::sleep(POLL_INTERVAL),
                Err(error) => return Err(format!("{}: {error}", self.name)),
            }
        }
    }

    /// As `kill -9` does it, with no word to anybody.
    pub fn kill(mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&[self.child.id()]);
        let _ = self.child.wait();
    }
}

/// Runs a command to its end and gives what it printed; a failure has the command and its last words. `log` keeps all.
pub fn run(command: &mut Command, log: &Path, bound: Duration) -> Result<String, String> {
    let line = line(command);
    let error_log = log.with_extension("err");
    let (stdout, stderr) = (create(log)?, create(&error_log)?);
    let mut process = Process::spawn(&line, command.stdin(Stdio::null()).stdout(stdout).stderr(stderr), log)?;
    let succeeded = process.wait(bound)?;
    let output = process.output();
    if succeeded {
        return Ok(output);
    }
    let said = fs::read_to_string(&error_log).unwrap_or_default();
    Err(format!("`{line}` failed\n{}", last_lines(&[output, said].concat())))
}

/// Ends all that runs, whoever has started it here; nothing is started afterwards.
pub fn end_all() {
    let mut is_over = IS_OVER.lock().unwrap_or_else(PoisonError::into_inner);
    *is_over = true;
    let own = std::process::id();
    let children = living().into_iter().filter(|known| known.parent == own);
    end(&children.map(|known| known.id).collect::<Vec<_>>());
}

/// Asks the programs to end, and has what they have started end behind them; and themselves, where they take too long.
fn end(ids: &[u32]) {
    let all: BTreeSet<Known> = ids.iter().flat_map(|id| with_descendants(*id)).collect();
    let asked: Vec<&Known> = all.iter().filter(|known| ids.contains(&known.id)).collect();
    for known in &asked {
        signal(known.id, Signal::TERM);
    }
    let begin = Instant::now();
    while begin.elapsed() < STOP_TIME_MAX && asked.iter().any(|known| known.lives()) {
        thread::sleep(POLL_INTERVAL);
    }
    for known in all.iter().filter(|known| known.lives()) {
        signal(known.id, Signal::KILL);
    }
}

fn signal(id: u32, signal: Signal) {
    if let Some(id) = Pid::from_raw(id as i32) {
        // The process may have ended by itself meanwhile.
        let _ = kill_process(id, signal);
    }
}

/// A process, and not another one that got its id later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    id: u32,
    parent: u32,
    /// In ticks since the machine was started.
    started: u64,
}

impl Known {
    /// `None` once it has ended, whether or not anybody has looked.
    fn of(id: u32) -> Option<Known> {
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name in brackets may have any character in it.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let is_over = matches!(*fields.first()?, "Z" | "X");
        let known = Known { id, parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? };
        (!is_over).then_some(known)
    }

    /// By whom it is watched over is another matter: where its parent has ended that is the first process.
    fn lives(&self) -> bool {
        Known::of(self.id).is_some_and(|found| found.started == self.started)
    }
}

fn living() -> Vec<Known> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Known::of).collect()
}

/// Of a child of ours; nothing once it has ended and its id may be somebody else's.
fn with_descendants(id: u32) -> Vec<Known> {
    let all = living();
    let mut found: Vec<Known> =
        all.iter().filter(|known| known.id == id && known.parent == std::process::id()).cloned().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|known| known.id) {
        found.extend(all.iter().filter(|known| known.parent == parent).cloned());
        next += 1;
    }
    found
}

fn create(log: &Path) -> Result<File, String> {
    File::options().create(true).append(true).open(log).map_err(|error| format!("{}: {error}", log.display()))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    last.iter().fold(String::new(), |text, line| text + "    " + line + "\n")
}

/// As one would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Known, Process, run};
    use std::fs;
    use std::process::Command;
    use std::time::Duration;

    const BOUND: Duration = Duration::from_secs(20);

    #[test]
    fn what_a_program_has_started_ends_with_it_though_it_left_the_group() {
        let folder = std::env::temp_dir().join(format!("apps-processes-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("id");
        let script = format!("setsid sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let mut process = Process::start("sh", Command::new("sh").args(["-c", &script]), &folder.join("log")).expect("it starts");
        process.wait_until("it has started another", BOUND, || file.exists()).expect("it does");
        let other: u32 = fs::read_to_string(&file).expect("an id").trim().parse().expect("a number");
        let known = Known::of(other).expect("it runs");
        drop(process);
        let begin = std::time::Instant::now();
        while known.lives() && begin.elapsed() < BOUND {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!known.lives(), "it runs on");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_command_that_fails_says_which_and_why() {
        let log = std::env::temp_dir().join(format!("apps-run-{}", std::process::id()));
        let check = |script: &str, expected: Result<&str, &str>| {
            let outcome = run(Command::new("sh").args(["-c", script]), &log, BOUND);
            assert_eq!(outcome.as_deref().map_err(String::as_str), expected, "for {script}");
            fs::remove_file(&log).and_then(|()| fs::remove_file(log.with_extension("err"))).expect("removed");
        };
        check("echo one", Ok("one\n"));
        check("echo two; echo why >&2; exit 3", Err("`sh -c echo two; echo why >&2; exit 3` failed\n    two\n    why\n"));
    }
}
