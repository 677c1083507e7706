//! What a file had when the API was done with it.

use std::path::Path;
use std::sync::Arc;
use tidegate_config::read_regular;

/// What a file had when an edit was done with it. Kept for the files of known generations.
pub(crate) struct OnDisk {
    pub text: Arc<str>,
    /// Otherwise it could not be written, and this is what was there before.
    pub is_ours: bool,
}

impl OnDisk {
    pub fn is_still_at(&self, name: &str) -> bool {
        read_regular(Path::new(name)).is_ok_and(|text| *text == *self.text)
    }
}
