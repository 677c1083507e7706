//! What an install shows of itself while it lasts, and how it ends early: a line that is rewritten on a terminal, one
//! line for each step elsewhere.

use std::process::Command;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::bounded;
use super::kind::PeerKind;
use crate::stage::interrupt::Interrupt;

/// Asking what there is, and unpacking it.
pub const STEP_TIME_MAX: Duration = Duration::from_secs(3 * 60);

/// The steps by which one peer is got.
pub struct Steps<'a> {
    interrupt: &'a Interrupt,
    peer: PeerKind,
    /// Which of how many peers, as `2 of 3`.
    place: String,
    began: Instant,
    line: ProgressBar,
}

impl<'a> Steps<'a> {
    pub fn of(interrupt: &'a Interrupt, peer: PeerKind, number: usize, count: usize) -> Steps<'a> {
        let line = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {elapsed}  {msg}");
        line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        line.enable_steady_tick(Duration::from_millis(500));
        Steps { interrupt, peer, place: format!("{number} of {count}"), began: Instant::now(), line }
    }

    /// Runs a command; a failure says what was being done.
    pub fn run(&self, command: &mut Command, doing: &str, time_max: Duration) -> Result<String, String> {
        let text = format!("{} ({}): {doing}", self.peer, self.place);
        if self.line.is_hidden() {
            println!("{text}, after {}", elapsed(self.began.elapsed()));
        } else {
            self.line.set_message(text);
        }
        bounded::output_unless(self.interrupt, command, time_max).map_err(|reason| {
            let program = command.get_program().display();
            format!("{doing}: {program}: {reason}")
        })
    }

    /// Whether the user has had enough.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.check().is_err()
    }

    /// Something that stays to be read.
    pub fn say(&self, text: &str) {
        let text = format!("{}: {text}", self.peer);
        self.line.suspend(|| println!("{text}"));
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}

/// As `12:07`, minutes and seconds.
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
