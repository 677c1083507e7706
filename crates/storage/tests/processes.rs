//! Locks of a folder between real processes: this program starts itself again and again, as contenders that do nothing
//! but want the same lock, and kills some of them. Nothing here waits for a time; a process that does not do its part
//! is waited for by reading its end of a pipe.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tidegate_model::Storage;
use tidegate_storage::{Lock, Store};
use tidegate_testkit::tokio;

/// Names the folder, and says that this process is a contender.
const FOLDER: &str = "TIDEGATE_TEST_CONTENDS_IN";
const PROCESSES: usize = 8;
/// Each process gets the lock so many times.
const TURNS: usize = 25;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

async fn open(folder: &Path) -> Store {
    Store::open(&Storage::Folder(folder.to_owned()), Path::new("/nowhere")).await.expect("opens")
}

/// This program again, as [`contender`].
struct Contender {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Contender {
    fn start(folder: &Path) -> Contender {
        Contender::run(&mut Contender::command(folder)).expect("a process")
    }

    fn command(folder: &Path) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "contender", "--nocapture", "--quiet"]).env(FOLDER, folder);
        command
    }

    fn run(command: &mut Command) -> io::Result<Contender> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(process.stdout.take().expect("piped"));
        Ok(Contender { orders: process.stdin.take(), answers, process })
    }

    fn order(&mut self, word: &str) {
        writeln!(self.orders.as_mut().expect("still open"), "{word}").expect("it listens");
    }

    /// The harness of the tests writes lines of its own; ours begin with a colon.
    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.answers.read_line(&mut line).expect("readable"), 0, "the process ended without an answer");
            if let Some((_, answer)) = line.trim_end().split_once(':') {
                return answer.into();
            }
        }
    }

    /// And looks that it had not failed before.
    fn kill(&mut self) {
        self.process.kill().expect("it was started");
        let status = self.process.wait().expect("its end");
        assert_eq!(status.code(), None, "it ended by itself: {status}");
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test of its own: what the processes run that the others start.
#[test]
fn contender() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let mut orders = std::io::stdin().lines();
    let answer = |text: &str| {
        println!("\n:{text}");
        std::io::stdout().flush().expect("somebody listens");
    };
    block_on(async {
        let store = open(folder).await;
        answer("ready");
        let mut held = Vec::new();
        while let Some(Ok(order)) = orders.next() {
            match order.as_str() {
                "take turns" => {
                    for _ in 0..TURNS {
                        take_a_turn(&store, folder).await;
                    }
                    answer("done");
                }
                "take turns for ever" => loop {
                    go_in_and_out(&store, folder).await;
                    answer("was inside");
                },
                "read and write" => {
                    let faults =
                        [store.read("a").await.map(drop), store.write("a", b"2").await, store.try_lock("a").await.map(drop)];
                    answer(&faults.map(|fault| fault.map_or_else(|fault| fault.to_string(), |()| "done".into())).join("|"));
                }
                "try" => match store.try_lock("l").await.expect("works") {
                    Some(lock) => {
                        held.push(lock);
                        answer("held");
                    }
                    None => answer("not held"),
                },
                order => panic!("{order}"),
            }
        }
    });
}

/// Alone, or this fails: a file that must not be there yet, and a counter that is read and written in two steps.
async fn take_a_turn(store: &Store, folder: &Path) {
    let lock = loop {
        match store.try_lock("l").await.expect("works") {
            Some(lock) => break lock,
            None => tokio::task::yield_now().await,
        }
    };
    let inside = folder.with_extension("inside");
    fs::File::create_new(&inside).expect("nobody else is inside");
    let counter = folder.with_extension("counter");
    let count: usize = fs::read_to_string(&counter).expect("readable").parse().expect("a number");
    fs::write(&counter, (count + 1).to_string()).expect("written");
    assert!(lock.is_held());
    fs::remove_file(&inside).expect("ours");
    lock.release().await.expect("released");
}

/// As in [`take_a_turn`], but who was inside before may have been killed there, and says only who it was.
async fn go_in_and_out(store: &Store, folder: &Path) {
    let lock = loop {
        match store.try_lock("l").await.expect("works") {
            Some(lock) => break lock,
            None => tokio::task::yield_now().await,
        }
    };
    let inside = folder.with_extension("inside");
    if let Ok(before) = fs::read_to_string(&inside) {
        // Empty: killed between two steps of writing its number.
        assert!(before.is_empty() || !Path::new("/proc").join(&before).exists(), "{before} is inside, and alive");
    }
    fs::write(&inside, std::process::id().to_string()).expect("written");
    tokio::task::yield_now().await;
    assert_eq!(fs::read_to_string(&inside).expect("readable"), std::process::id().to_string(), "nobody came in");
    fs::remove_file(&inside).expect("ours");
    lock.release().await.expect("released");
}

#[test]
fn of_many_processes_one_holds_it_at_any_time() {
    let above = tempfile::tempdir().expect("a folder");
    let folder = above.path().join("store");
    fs::write(folder.with_extension("counter"), "0").expect("written");
    let mut contenders: Vec<Contender> = (0..PROCESSES).map(|_| Contender::start(&folder)).collect();
    for contender in &mut contenders {
        assert_eq!(contender.answer(), "ready");
    }
    for contender in &mut contenders {
        contender.order("take turns");
    }
    for contender in &mut contenders {
        assert_eq!(contender.answer(), "done");
    }
    assert_eq!(fs::read_to_string(folder.with_extension("counter")).expect("readable"), (PROCESSES * TURNS).to_string());
    assert_eq!(fs::read_dir(folder.join(".locks")).expect("a folder").count(), 0, "nothing is left of it");
}

#[test]
fn the_lock_of_a_killed_process_is_taken_over_at_once_and_by_one() {
    let above = tempfile::tempdir().expect("a folder");
    let folder = above.path().join("store");
    let mut contenders: Vec<Contender> = (0..PROCESSES).map(|_| Contender::start(&folder)).collect();
    for contender in &mut contenders {
        assert_eq!(contender.answer(), "ready");
    }
    let mut holder = contenders.pop().expect("there are some");
    holder.order("try");
    assert_eq!(holder.answer(), "held");
    while let Some(mut next) = contenders.pop() {
        next.order("try");
        assert_eq!(next.answer(), "not held");
        contenders.push(next);

        holder.kill();
        for contender in &mut contenders {
            contender.order("try");
        }
        let answers: Vec<String> = contenders.iter_mut().map(Contender::answer).collect();
        let winners: Vec<usize> = (0..answers.len()).filter(|&at| answers[at] == "held").collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        holder = contenders.swap_remove(winners[0]);
    }
}

/// Killed in the middle of whatever they do, they neither leave the lock to two nor keep it from all.
#[test]
fn processes_that_are_killed_at_any_moment_leave_a_lock_that_works() {
    const KILLED: usize = 40;
    let above = tempfile::tempdir().expect("a folder");
    let folder = above.path().join("store");
    let start = || {
        let mut contender = Contender::start(&folder);
        assert_eq!(contender.answer(), "ready");
        contender.order("take turns for ever");
        contender
    };
    let mut contenders: Vec<Contender> = (0..3).map(|_| start()).collect();
    for round in 0..KILLED {
        // It has been inside since the last one was killed; where it is now, nobody knows.
        let mut next = contenders.remove(0);
        for _ in 0..round % 4 {
            assert_eq!(next.answer(), "was inside", "of round {round}");
        }
        next.kill();
        contenders.push(start());
    }
    for contender in &mut contenders {
        assert_eq!(contender.answer(), "was inside");
    }
    contenders.iter_mut().for_each(Contender::kill);
    block_on(async {
        let store = open(&folder).await;
        let lock = store.try_lock("l").await.expect("works").expect("nobody is left");
        assert_eq!(fs::read_dir(folder.join(".locks")).expect("a folder").count(), 1, "what was unfinished is gone");
        lock.release().await.expect("released");
    });
}

/// As when somebody runs a command of ours that the service's user should have run.
#[test]
fn another_user_is_told_whose_folder_it_is() {
    let above = tempfile::tempdir().expect("a folder");
    fs::set_permissions(above.path(), fs::Permissions::from_mode(0o755)).expect("set");
    let folder = above.path().join("store");
    block_on(async { open(&folder).await.write("a", b"1").await.expect("written") });
    // Fails for whoever is not root, and where the other user cannot reach this program.
    let Ok(mut contender) = Contender::run(Contender::command(&folder).uid(65534).gid(65534)) else {
        eprintln!("skipped: no process of another user can be started");
        return;
    };
    assert_eq!(contender.answer(), "ready");
    contender.order("read and write");
    let expected = ["`a` cannot be read", "`a` cannot be written", "the lock `a` cannot be taken"].map(|what| {
        let folder = folder.display();
        format!(
            "{what} in the folder {folder}: permission was denied; run it as the user that owns the folder, or make that user the owner of \
             all in it (`chown -R`)"
        )
    });
    assert_eq!(contender.answer(), expected.join("|"));
}

/// The heartbeat is the lock's own: as long as it is held, others see it change, and dropping it is giving it back.
#[test]
fn a_lock_is_kept_alive_until_it_is_dropped() {
    let above = tempfile::tempdir().expect("a folder");
    let folder = above.path().join("store");
    let entry = || {
        let mut entries = fs::read_dir(folder.join(".locks/l")).ok()?;
        Some(entries.next()?.ok()?.file_name())
    };
    // The clock of the runtime goes on by itself whenever nothing else is to be done.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let store = open(&folder).await;
        let lock: Lock = store.try_lock("l").await.expect("works").expect("free");
        let first = entry().expect("held");
        while entry().is_none_or(|entry| entry == first) {
            tokio::time::sleep(tidegate_storage::HEARTBEAT).await;
        }
        assert!(lock.is_held());
        assert!(store.try_lock("l").await.expect("works").is_none());
        let holder = store.holder("l").await.expect("works").expect("held");
        assert!(holder.to_string().starts_with(&format!("process {} on ", std::process::id())), "{holder}");

        drop(lock);
        while entry().is_some() {
            tokio::time::sleep(tidegate_storage::HEARTBEAT).await;
        }
        let lock = store.try_lock("l").await.expect("works").expect("free");

        // Somebody takes it away, as after a lease that this process slept through.
        fs::remove_dir_all(folder.join(".locks/l")).expect("removed");
        while lock.is_held() {
            tokio::time::sleep(tidegate_storage::HEARTBEAT).await;
        }
        lock.release().await.expect("nothing to give back");
    });
}
