//! Bounds of client connections that several modules keep. Those of the user are in `model::Limits`; others stand
//! beside the code that keeps them.

use std::time::Duration;

/// How long a client may take none of what we send. A bound on stalls, not on downloads.
pub const CLIENT_WRITE_IDLE: Duration = Duration::from_secs(60);
