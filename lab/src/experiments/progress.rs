//! What the user sees while a run goes on: a bar with the time left on a terminal, a line for each experiment
//! elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress {
    bar: ProgressBar,
    /// Of the experiments that are done, so that estimates do not add up to a bar that stands still or runs back.
    done_seconds: f64,
    current_seconds: f64,
    spent_seconds: f64,
}

impl Progress {
    pub fn new(total_seconds: f64) -> Progress {
        let bar = ProgressBar::new(milliseconds(total_seconds));
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {prefix}  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress { bar, done_seconds: 0.0, current_seconds: 0.0, spent_seconds: 0.0 }
    }

    pub fn begin(&mut self, experiment: &str, seconds: f64) {
        self.done_seconds += self.current_seconds;
        self.current_seconds = seconds;
        self.spent_seconds = 0.0;
        if self.bar.is_hidden() {
            eprintln!("{experiment}: about {seconds:.0} s");
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

    fn show(&self, what: &str) {
        let position = milliseconds(self.done_seconds + self.spent_seconds);
        let left = self.bar.length().unwrap_or(0).saturating_sub(position) / 1000;
        self.bar.set_position(position);
        self.bar.set_prefix(format!("{}:{:02} left", left / 60, left % 60));
        self.bar.set_message(what.to_owned());
    }
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}
