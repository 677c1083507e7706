//! Certificates as they were looked at last: when each ends, how many are in which state, and what became of orders.

use super::number::SharedNumber;
use super::table::OTHER;
use std::sync::{Mutex, PoisonError};
use strum::{IntoStaticStr, VariantArray};

/// Certificates with a series of their own, those that end first; the soonest end of the others is that of `other`.
pub const CERTIFICATE_SERIES_MAX: usize = 1_000;

/// One certificate that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateEnd {
    pub name: String,
    /// `acme`, `files` or `internal`.
    pub source: &'static str,
    pub not_after_unix_seconds: i64,
}

/// How many names there are whose certificates are obtained, by how they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObtainedNumbers {
    pub ready: u64,
    /// Without a good one: none so far, or one that has ended or was revoked.
    pub missing: u64,
    /// Of both: the last attempt failed.
    pub failing: u64,
    /// Of those that are ready: they end soon, and were not renewed.
    pub late: u64,
}

/// How many certificates there are whose responders are asked, by what handshakes get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StapleNumbers {
    pub stapled: u64,
    /// Without an answer that could be stapled.
    pub missing: u64,
    /// By the responder's word.
    pub revoked: u64,
}

/// What became of a name that a handshake asked for and nobody had written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum OnDemandResult {
    Obtained,
    NotAName,
    /// Who is asked said no.
    NotAllowed,
    /// `names-per-hour` is reached.
    #[strum(serialize = "names_per_hour")]
    TooMany,
    Busy,
    Failed,
}

impl OnDemandResult {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Any thread may write.
#[derive(Debug, Default)]
pub struct CertificateMetrics {
    shown: Mutex<Shown>,
    pub(super) issued: SharedNumber,
    pub(super) failed: SharedNumber,
    /// In the order of [`OnDemandResult`].
    pub(super) on_demand: [SharedNumber; OnDemandResult::VARIANTS.len()],
    pub(super) responders_answered: SharedNumber,
    pub(super) responders_failed: SharedNumber,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// The soonest end first.
    pub ends: Vec<CertificateEnd>,
    /// `None` where no certificate is obtained.
    pub obtained: Option<ObtainedNumbers>,
    /// `None` where no certificate names a responder.
    pub staples: Option<StapleNumbers>,
}

impl CertificateMetrics {
    pub fn set(&self, mut ends: Vec<CertificateEnd>, obtained: Option<ObtainedNumbers>) {
        ends.sort_by(|one, other| (one.not_after_unix_seconds, &one.name).cmp(&(other.not_after_unix_seconds, &other.name)));
        // A name that several sites have is one series.
        ends.dedup_by(|one, other| one.name == other.name && one.source == other.source);
        if let Some(rest) = ends.get(CERTIFICATE_SERIES_MAX) {
            let soonest_of_rest = rest.not_after_unix_seconds;
            ends.truncate(CERTIFICATE_SERIES_MAX);
            ends.push(CertificateEnd { name: OTHER.into(), source: OTHER, not_after_unix_seconds: soonest_of_rest });
        }
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        (shown.ends, shown.obtained) = (ends, obtained);
    }

    pub fn set_staples(&self, staples: Option<StapleNumbers>) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).staples = staples;
    }

    /// An OCSP responder was asked, and its answer could be believed or not.
    pub fn note_responder(&self, has_answered: bool) {
        if has_answered { &self.responders_answered } else { &self.responders_failed }.add(1);
    }

    pub fn note_issued(&self) {
        self.issued.add(1);
    }

    pub fn note_failed(&self) {
        self.failed.add(1);
    }

    pub fn note_on_demand(&self, result: OnDemandResult) {
        self.on_demand[result as usize].add(1);
    }

    pub(super) fn shown(&self) -> Shown {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{CERTIFICATE_SERIES_MAX, CertificateEnd, CertificateMetrics};

    #[test]
    fn those_that_end_first_have_series_of_their_own() {
        let metrics = CertificateMetrics::default();
        let end = |number: usize| CertificateEnd {
            name: format!("{number}.example.com"),
            source: "acme",
            not_after_unix_seconds: number as i64,
        };
        metrics.set((0..CERTIFICATE_SERIES_MAX + 5).rev().map(end).chain([end(0)]).collect(), None);
        let ends = metrics.shown().ends;
        assert_eq!(ends.len(), CERTIFICATE_SERIES_MAX + 1);
        assert_eq!(ends[0], end(0));
        assert_eq!(ends[1], end(1));
        let last = &ends[CERTIFICATE_SERIES_MAX];
        assert_eq!((last.name.as_str(), last.not_after_unix_seconds), ("other", CERTIFICATE_SERIES_MAX as i64));
    }
}
