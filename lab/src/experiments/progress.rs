//! What the user sees while a run goes on: a bar with the time left on a terminal, a line for each experiment and each
//! of its steps elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::peers::elapsed;

pub struct Progress {
    bar: ProgressBar,
    began: Instant,
    experiment: String,
    /// Which of how many of the experiment.
    step: String,
    /// Of the experiments that are done, so that estimates do not add up to a bar that stands still or runs back.
    done_seconds: f64,
    current_seconds: f64,
    spent_seconds: f64,
}

impl Progress {
    pub fn new(total_seconds: f64) -> Progress {
        let bar = ProgressBar::new(milliseconds(total_seconds));
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed}, {prefix}  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress {
            bar,
            began: Instant::now(),
            experiment: String::new(),
            step: String::new(),
            done_seconds: 0.0,
            current_seconds: 0.0,
            spent_seconds: 0.0,
        }
    }

    pub fn begin(&mut self, experiment: &str, seconds: f64) {
        self.done_seconds += self.current_seconds;
        self.current_seconds = seconds;
        self.spent_seconds = 0.0;
        experiment.clone_into(&mut self.experiment);
        self.step.clear();
        if self.bar.is_hidden() {
            eprintln!("{experiment}: about {seconds:.0} s");
        }
        self.show("");
    }

    /// The next part of the experiment, which several participants or one have to go through.
    pub fn step(&mut self, what: &str, number: usize, count: usize) {
        self.step = format!("{what} ({number} of {count})");
        if self.bar.is_hidden() {
            let passed = self.began.elapsed();
            let total = elapsed(passed + Duration::from_secs(self.seconds_left()));
            eprintln!("{}: {}, {} of about {total}", self.experiment, self.step, elapsed(passed));
        }
        self.show("");
    }

    /// Something takes so long.
    pub fn spend(&mut self, seconds: f64, what: &str) {
        self.spent_seconds = (self.spent_seconds + seconds).min(self.current_seconds);
        self.show(what);
    }

    /// Something that the user should know now.
    pub fn say(&self, text: &str) {
        if self.bar.is_hidden() { eprintln!("{text}") } else { self.bar.println(text) }
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// By the estimates: a slow machine takes longer.
    fn seconds_left(&self) -> u64 {
        let position = milliseconds(self.done_seconds + self.spent_seconds);
        self.bar.length().unwrap_or(0).saturating_sub(position) / 1000
    }

    fn show(&self, what: &str) {
        self.bar.set_position(milliseconds(self.done_seconds + self.spent_seconds));
        let left = self.seconds_left();
        self.bar.set_prefix(format!("{}:{:02} left", left / 60, left % 60));
        let parts = [self.experiment.as_str(), self.step.as_str(), what];
        self.bar.set_message(parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", "));
    }
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}
