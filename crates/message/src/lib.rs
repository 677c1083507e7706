//! Messages of HTTP on a connection, whichever side sends them: what clients and upstreams have in common. A body is a
//! row of plain buffers here; chunk lines, DATA frames and windows stay below. No connection is opened or kept, and
//! nothing is decided about a message. Read `body` first.

pub mod body;
pub mod h1;
pub mod h2;
pub mod read_head;
