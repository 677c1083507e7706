//! Messages on a connection of HTTP/2, whichever side it is: the streams of its requests, which share the connection
//! with each other and with whoever drives it, and what it has to send. The protocol is `wire::h2`; a driver reads the
//! socket, hands over what came and sends what is to be sent. Look at `shared` first.

mod output;
mod shared;
mod spare;
mod stream;

pub use output::FrameOutput;
pub use shared::{H2Shared, Opened};
pub use stream::{StreamFault, StreamHandle};
