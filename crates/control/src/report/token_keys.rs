//! Sets of keys that tokens are verified with, as `status` has them.

use crate::control::Control;
use jiff::Timestamp;
use tidegate_api::TokenKeys;
use tidegate_model::KeySource;
use tidegate_proxy::auth::KeysState;

impl Control {
    /// Sets of keys that the running configuration uses. Texts that came from elsewhere are shown as they were written.
    pub(super) fn token_keys(&self) -> Vec<TokenKeys> {
        let filled = &self.running.configuration.filled;
        let all = self.process.key_sets.all();
        let seen = all.iter().map(|keys| {
            let source = match &keys.source {
                KeySource::Url { url, .. } => url.clone(),
                KeySource::File(path) => path.display().to_string(),
            };
            let KeysState { keys, read, fault } = keys.state();
            TokenKeys {
                source: filled.shown(&source).into_owned(),
                keys,
                read: read.and_then(|read| Timestamp::try_from(read).ok()),
                fault: fault.map(|fault| filled.shown(&fault).into_owned()),
            }
        });
        seen.collect()
    }
}
