//! What the limits of a route leave behind with a request: the places that it holds until it is over, what its answer
//! says of rates, and what would have been refused by a limit that is only tried out.

use tidegate_limiting::{Permit, Standing};

/// Of one request. Cleared or dropped, it gives its places back.
#[derive(Debug, Default)]
pub struct Limited {
    permits: Vec<Permit>,
    /// By the rate limits that say something, in order.
    told: Vec<Standing>,
    /// Of a refusal.
    retry_after_seconds: Option<u64>,
    pub dry_run: DryRun,
}

/// What limits with `dry-run` would have refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DryRun {
    pub rate: bool,
    pub concurrency: bool,
}

impl Limited {
    pub fn clear(&mut self) {
        self.permits.clear();
        self.told.clear();
        self.retry_after_seconds = None;
        self.dry_run = DryRun::default();
    }

    pub fn capacity_bytes(&self) -> usize {
        self.permits.capacity() * size_of::<Permit>() + self.told.capacity() * size_of::<Standing>()
    }

    /// For `Retry-After`, when a limit has refused the request.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_seconds
    }

    pub(crate) fn hold(&mut self, place: Permit) {
        self.permits.push(place);
    }

    pub(crate) fn tell(&mut self, standing: Standing) {
        self.told.push(standing);
    }

    pub(crate) fn told(&self) -> &[Standing] {
        &self.told
    }

    pub(crate) fn come_back_in(&mut self, seconds: u64) {
        self.retry_after_seconds = Some(seconds);
    }
}
