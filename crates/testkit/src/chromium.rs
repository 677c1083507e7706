//! A Chromium without a window, with a profile of its own; both are gone when this is dropped. What a page finds out
//! comes back by way of the server of the test, so nothing of the browser is driven from outside. The suite of real
//! applications, which drives it, starts its own with the same [`FLAGS`].

use crate::program::{Program, Surroundings};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// How long its processes may take to let go of their files.
const BOUND: Duration = Duration::from_secs(20);

/// What keeps it to itself and to servers of this machine.
pub const FLAGS: &[&str] = &[
    "--headless=new",
    // Containers and pipelines run as root, which its sandbox refuses; the pages are ours.
    "--no-sandbox",
    "--disable-gpu",
    // The shared memory of containers is small.
    "--disable-dev-shm-usage",
    // Nothing but the test's own servers is asked for.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    // The certificate is of the internal authority, which the machine does not know.
    "--ignore-certificate-errors",
    // What scripts complain of is in the output that a failing test prints.
    "--enable-logging=stderr",
];

/// A browser that shows one page.
pub struct Chromium {
    program: Option<Program>,
    profile: TempDir,
}

impl Chromium {
    /// Where this machine has one. Without one a test says so and passes.
    pub fn find() -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = NAMES
            .iter()
            .find_map(|name| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()));
        if found.is_none() {
            println!("skipped: there is no Chromium on this machine");
        }
        found
    }

    pub fn open(program: &Path, url: &str) -> Chromium {
        let profile = tempfile::Builder::new().prefix("browser-").tempdir().expect("a folder");
        let folder = profile.path().display().to_string();
        let mut arguments: Vec<String> = FLAGS.iter().map(ToString::to_string).collect();
        arguments.push(format!("--user-data-dir={folder}/profile"));
        arguments.push(url.to_owned());
        // Whatever it leaves anywhere is left in that folder.
        let environment = ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|name| (name, folder.clone())).to_vec();
        let surroundings = Surroundings { environment, has_descendants: true, ..Surroundings::default() };
        let program = Program::start_in(program, &arguments, profile.path(), &surroundings).expect("a browser starts");
        Chromium { program: Some(program), profile }
    }

    /// What it has said, for failure messages; its exit code too if it has ended.
    pub fn output(&mut self) -> String {
        let program = self.program.as_mut().expect("it is there until it is dropped");
        let exit =
            program.poll_exit().map_or_else(|| "the browser runs".to_owned(), |code| format!("the browser ended with {code}"));
        format!("{exit}\n{}", program.output())
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The guard ends all of its processes by their group; the last of them may still write for a moment.
        drop(self.program.take());
        let begin = Instant::now();
        while self.profile.path().exists() && fs::remove_dir_all(self.profile.path()).is_err() && begin.elapsed() < BOUND {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
