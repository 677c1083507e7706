//! Messages on a connection of HTTP/2, whichever side it is: the streams of its requests, which share the connection
//! with each other and with whoever drives it, and what it has to send. The protocol is `wire::h2`; a driver reads the
//! socket, hands over what came and sends what is to be sent. Look at `shared` first.

mod frame_io;
mod held;
mod shared;
mod slot;
mod spare;
mod stream;

pub use frame_io::{FrameIo, FrameOwner, HALF_CLOSE_GRACE, Nobody};
pub use shared::{H2Shared, NotSent, Opened, Request};
pub use slot::StreamFault;
pub use stream::{StreamHandle, UntilSent};
