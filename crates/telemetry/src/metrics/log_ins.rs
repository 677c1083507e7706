//! Log-ins by OpenID Connect: how they ended, and what became of sessions that were refreshed or ended.

use super::number::SharedNumber;

/// Any thread may write. Without a log-in, a refresh or a log-out there are no series of it.
#[derive(Debug, Default)]
pub struct LogInMetrics {
    pub(super) begun_sessions: SharedNumber,
    pub(super) failed_log_ins: SharedNumber,
    pub(super) renewed: SharedNumber,
    pub(super) over: SharedNumber,
    pub(super) away: SharedNumber,
    pub(super) revoked: SharedNumber,
}

impl LogInMetrics {
    /// A code was redeemed, or could not be.
    pub fn note_log_in(&self, has_session: bool) {
        if has_session { &self.begun_sessions } else { &self.failed_log_ins }.add(1);
    }

    pub fn note_renewed(&self) {
        self.renewed.add(1);
    }

    /// The provider takes the refresh token no more.
    pub fn note_over(&self) {
        self.over.add(1);
    }

    /// Nothing came of it, and the session goes on.
    pub fn note_away(&self) {
        self.away.add(1);
    }

    /// Sessions, or people, that this host refuses before their sessions' time.
    pub fn set_revoked(&self, count: usize) {
        self.revoked.set(count as i64);
    }
}
