//! Bounds that clients and upstreams have in common. Those of the user are in `model::Limits`; others stand beside the code that keeps them.

use std::time::Duration;

/// How long a client may take none of what we send. A bound on stalls, not on downloads.
pub const CLIENT_WRITE_IDLE: Duration = Duration::from_secs(60);
/// What small DATA frames that nobody has read yet may cost in h2's own account (256 bytes less their size each): some 65,000 of them.
/// Its default ends connections of well-behaved streams; without any bound, a frame a byte would cost memory many times its size.
pub const DATA_FRAME_BUDGET: usize = 16 << 20;
