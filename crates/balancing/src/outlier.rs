//! Which servers of a pool are out of use for what they did with requests, and for how long. One keeper for each pool
//! and process, not one for each worker. Counting failures and asking whether a server is well again are done
//! elsewhere; so is saying it.

use std::fmt;
use std::time::Duration;
use tidegate_model::Outlier;

/// Servers with enough requests that success rates are compared for.
const JUDGED_LEAST: usize = 3;
/// Requests in the window below which a rate says little.
const REQUESTS_LEAST: u64 = 50;
/// Bad answers in the window below which a server is not out, however good the others are.
const BAD_LEAST: u64 = 10;
/// A server is out when its rate is so many standard deviations below the mean of the others, and
const DEVIATIONS: f64 = 1.9;
/// so much below it: among servers that hardly differ the deviation alone is nothing.
const RATE_BELOW_LEAST: f64 = 0.1;
/// Times in a row that are remembered; the time out has reached any sensible bound long before.
const TIMES_MAX: u32 = 31;

/// The servers of one pool that are out or have been lately. It holds no more servers than are ejected and not
/// forgotten: see [`Ejections::forget`].
#[derive(Debug, Default)]
pub struct Ejections {
    records: Vec<Record>,
}

#[derive(Debug)]
struct Record {
    server: u64,
    times: u32,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Out { until: Duration },
    Back { since: Duration },
}

/// A server is to get no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// Since the process began. It may be asked or tried again then, and is out until [`Ejections::returned`] is told.
    pub until: Duration,
    /// How often in a row, this time included.
    pub times: u32,
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    ConsecutiveFailures(u32),
    /// Of the server's answers and of those of the others that were compared with, percent that were good.
    SuccessRate {
        percent: u8,
        others_percent: u8,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::ConsecutiveFailures(1) => write!(f, "1 failure"),
            Why::ConsecutiveFailures(count) => write!(f, "{count} failures in a row"),
            Why::SuccessRate { percent, others_percent } => {
                write!(f, "{percent} % of its answers were good, {others_percent} % of those of the others")
            }
        }
    }
}

/// What a server answered within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The server's identity.
    pub server: u64,
    pub good: u64,
    pub bad: u64,
}

impl Ejections {
    /// A server gave reason to be out. `servers` are all of the pool. `None` if it stays: it is out already, or too
    /// many others are.
    ///
    /// The time out is `eject`, doubled for each time in a row, up to `eject_max`. Each `eject` that it served in
    /// between takes one time back. At most `ejected_percent_max` are out at once, one always, and never all.
    pub fn consider(&mut self, settings: &Outlier, server: u64, why: Why, servers: usize, now: Duration) -> Option<Ejection> {
        let known = self.records.iter().position(|record| record.server == server);
        let place = known.map(|known| self.records[known].place);
        let is_out = match place {
            Some(Place::Out { until }) if now < until => return None,
            Some(Place::Out { .. }) => true,
            Some(Place::Back { .. }) | None => false,
        };
        let others_out = self.out() - usize::from(is_out);
        if others_out >= out_max(settings, servers) {
            return None;
        }
        let times = known.map_or(0, |known| self.records[known].times_left(settings, now)).min(TIMES_MAX - 1) + 1;
        let until = now.saturating_add(time_out(settings, times));
        let record = Record { server, times, place: Place::Out { until } };
        match known {
            Some(known) => self.records[known] = record,
            None => self.records.push(record),
        }
        Some(Ejection { until, times, why })
    }

    /// Looks for servers whose rate of good answers is far below that of the others, the worst first. `samples` has one
    /// entry for each server of the pool, with what it answered since the last time.
    ///
    /// A server is compared with the others and not with all: among n servers none can be further than the square root
    /// of n - 1 standard deviations from the mean of all, so of three or four none could ever be out.
    pub fn judge(&mut self, settings: &Outlier, samples: &[Sample], now: Duration) -> Vec<(u64, Ejection)> {
        let judged: Vec<_> = samples.iter().filter(|sample| sample.total() >= REQUESTS_LEAST).collect();
        if !settings.success_rate || judged.len() < JUDGED_LEAST {
            return Vec::new();
        }
        let sum: f64 = judged.iter().map(|sample| sample.rate()).sum();
        let squares: f64 = judged.iter().map(|sample| sample.rate().powi(2)).sum();
        let others = (judged.len() - 1) as f64;
        let mut outliers: Vec<_> = judged
            .iter()
            .filter_map(|sample| {
                let rate = sample.rate();
                let mean = (sum - rate) / others;
                let deviation = ((squares - rate * rate) / others - mean * mean).max(0.0).sqrt();
                let is_far = rate < mean - DEVIATIONS * deviation && rate <= mean - RATE_BELOW_LEAST;
                (is_far && sample.bad >= BAD_LEAST).then_some((sample, mean))
            })
            .collect();
        outliers.sort_by(|a, b| a.0.rate().total_cmp(&b.0.rate()));
        let mut ejected = Vec::new();
        for (sample, mean) in outliers {
            let why = Why::SuccessRate { percent: percent(sample.rate()), others_percent: percent(mean) };
            let ejection = self.consider(settings, sample.server, why, samples.len(), now);
            ejected.extend(ejection.map(|ejection| (sample.server, ejection)));
        }
        ejected
    }

    /// The server gets requests again. Until this is told it counts as out, also beyond its time.
    pub fn returned(&mut self, server: u64, now: Duration) {
        if let Some(record) = self.records.iter_mut().find(|record| record.server == server) {
            match record.place {
                Place::Out { .. } => record.place = Place::Back { since: now },
                Place::Back { .. } => {}
            }
        }
    }

    /// Forgets servers that are not to be kept: they left the pool.
    pub fn forget(&mut self, keep: impl Fn(u64) -> bool) {
        self.records.retain(|record| keep(record.server));
    }

    /// Servers that are out now.
    pub fn out(&self) -> usize {
        self.records.iter().filter(|record| matches!(record.place, Place::Out { .. })).count()
    }
}

impl Record {
    /// Times in a row that still count.
    fn times_left(&self, settings: &Outlier, now: Duration) -> u32 {
        match self.place {
            Place::Out { .. } => self.times,
            Place::Back { since } => {
                let served = now.saturating_sub(since).as_nanos();
                let periods = served.checked_div(settings.eject.as_nanos()).unwrap_or(u128::MAX);
                self.times.saturating_sub(u32::try_from(periods).unwrap_or(u32::MAX))
            }
        }
    }
}

impl Sample {
    fn total(&self) -> u64 {
        self.good.saturating_add(self.bad)
    }

    /// Of a server that had requests.
    fn rate(&self) -> f64 {
        self.good as f64 / self.total() as f64
    }
}

/// How many of so many servers may be out at once: one always, and never all.
pub fn out_max(settings: &Outlier, servers: usize) -> usize {
    let share = servers.saturating_mul(usize::from(settings.ejected_percent_max)) / 100;
    share.max(1).min(servers.saturating_sub(1))
}

fn time_out(settings: &Outlier, times: u32) -> Duration {
    settings.eject.saturating_mul(1 << (times - 1)).min(settings.eject_max.max(settings.eject))
}

fn percent(rate: f64) -> u8 {
    (rate * 100.0).round() as u8
}

#[cfg(test)]
mod tests;
